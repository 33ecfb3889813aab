//! `nearside lab` without the rest of Nearside, for trying:
//! `lab list | run ID.. [key=value ..] | claims [ID..] | vary [ID..] | report FILE`, with `--full`, `--json FILE`,
//! `--results DIR`, `--sensitivity`, `--seed N`, `--seeds N`, `--threads N`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use lab::command::{
    ClaimsArguments, CommandError, Context, RESULTS, ReportArguments, RunArguments, VaryArguments, claims, list,
    report, run, vary,
};
use lab::result::ResultKind;

/// The words of a command line: flags with a value, flags without, and the rest.
struct Words {
    rest: Vec<String>,
    full: bool,
    sensitivity: bool,
    json: Option<PathBuf>,
    results: PathBuf,
    seed: u64,
    seeds: u32,
    threads: usize,
}

fn words() -> Result<Words, String> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut words = Words {
        rest: Vec::new(),
        full: false,
        sensitivity: false,
        json: None,
        results: PathBuf::from(RESULTS),
        seed: 1,
        seeds: 1,
        threads,
    };
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        let mut value = |name: &str| given.next().ok_or_else(|| format!("{name} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
        match word.as_str() {
            "--full" => words.full = true,
            "--sensitivity" => words.sensitivity = true,
            "--json" => words.json = Some(value("--json")?.into()),
            "--results" => words.results = value("--results")?.into(),
            "--seed" => words.seed = number(value("--seed")?)?,
            "--seeds" => words.seeds = number(value("--seeds")?)? as u32,
            "--threads" => words.threads = number(value("--threads")?)? as usize,
            _ => words.rest.push(word),
        }
    }
    Ok(words)
}

fn main() -> ExitCode {
    let words = match words() {
        Ok(words) => words,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let stop = AtomicBool::new(false);
    let context = Context {
        revision: concat!(env!("CARGO_PKG_VERSION"), " (example)").to_string(),
        threads: words.threads,
        progress: &|at| eprintln!("{} of {}: {}", at.done, at.all, at.experiment),
        stop: &stop,
        measure: None,
    };
    match go(&words, &context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn go(words: &Words, context: &Context<'_>) -> Result<(), CommandError> {
    let out = &mut std::io::stdout();
    let (command, rest) = match words.rest.split_first() {
        Some((command, rest)) => (command.as_str(), rest.to_vec()),
        None => ("list", Vec::new()),
    };
    let (Words { full, seed, seeds, .. }, results) = (words, words.results.clone());
    match command {
        "list" => list(out),
        "run" => {
            let (set, experiments) = rest.into_iter().partition(|word| word.contains('='));
            run(
                &RunArguments {
                    experiments,
                    set,
                    kind: ResultKind::Simulated,
                    full: *full,
                    seed: *seed,
                    seeds: *seeds,
                    results,
                },
                context,
                out,
            )
        }
        "claims" => {
            let (json, sensitivity) = (words.json.clone(), words.sensitivity);
            let arguments = ClaimsArguments {
                only: rest,
                full: *full,
                json,
                sensitivity,
                seed: *seed,
                seeds: *seeds,
                results: Some(results),
            };
            claims(&arguments, context, out).map(|_| ())
        }
        "vary" => {
            let arguments = VaryArguments { only: rest, seed: *seed, results: Some(results) };
            vary(&arguments, context, out).map(|_| ())
        }
        "report" => {
            let page = rest.first().map_or("lab-report.html".into(), PathBuf::from);
            report(&ReportArguments { out: page, results, full: *full, seed: *seed, seeds: *seeds }, context, out)
        }
        other => Err(CommandError::Refused(format!("there is no command '{other}': list, run, claims, vary, report"))),
    }
}
