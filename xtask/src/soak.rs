//! `cargo xtask soak`: the tests again and again, each round with a fresh seed and more cases than an ordinary run has.
//!
//! `cargo test` draws the same random cases every time (`.cargo/config.toml`), so that nobody's run fails by luck. What
//! luck would find is looked for here: round `r` runs every test binary with the seed `S + r`, and what fails is told
//! with the command that repeats it. A test that fails without drawing anything (of threads, of time) is found too, and
//! may pass when it is repeated.
//!
//! # Limits
//! A property that says how many cases it wants has that many here as well, but other ones in each round. Examples in
//! documentation are not run. Time is looked at between binaries.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::command;
use crate::programs::{Artifact, SEED, Workspace};

/// How many cases a property tries that does not say so itself.
const CASES: &str = "PROPTEST_CASES";
/// A failed case is repeated by its seed; nothing is written into the sources.
const NO_FILES: &str = "PROPTEST_DISABLE_FAILURE_PERSISTENCE";
/// A binary that takes longer hangs.
const BINARY_LIMIT: Duration = Duration::from_secs(40 * 60);
const POLL: Duration = Duration::from_millis(50);
/// How much of an output is shown when something went wrong.
const SHOWN_LINES: usize = 60;

const USAGE: &str = "\
usage: cargo xtask soak [--minutes N] [--seed S] [--cases N] [FOLDER ..]

Runs the tests of the crates in these folders of crates/ (all of them without a name) in rounds until the time is
over, at least once. Round 0 has the seed S, round 1 S + 1, and so on. Exit code 1 when a test failed; how to repeat
it is printed.

  --minutes N   how long (30)
  --seed S      the first round's seed (from the clock; it is printed)
  --cases N     cases of a property that does not say how many it wants (1024; `cargo test` has 256)
";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    time: Duration,
    seed: u64,
    cases: u32,
    folders: Vec<String>,
}

/// What properties draw in a round.
#[derive(Clone, Copy, Debug)]
struct Draw {
    seed: u64,
    cases: u32,
}

/// A test that failed, or a binary whose output names none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    binary: String,
    test: Option<String>,
}

/// The command. Exit code 0: all passed; 1: something failed; 2: used wrongly.
pub fn command(root: &Path, words: &[&str]) -> ExitCode {
    command::run("soak", USAGE, words, |words| Request::parse(words, seed_of_the_clock()), |request| run(root, request))
}

impl Request {
    /// Reads the words after `soak`. The error is a sentence.
    fn parse(words: &[&str], seed: u64) -> Result<Request, String> {
        let mut request = Request { time: Duration::from_secs(30 * 60), seed, cases: 1024, folders: Vec::new() };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                request.folders.push(word.to_owned());
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let number: u64 = value.parse().map_err(|_| format!("{word}: `{value}` is no whole number"))?;
            match word {
                "--minutes" => request.time = Duration::from_secs(number.saturating_mul(60)),
                "--seed" => request.seed = number,
                "--cases" => {
                    request.cases = u32::try_from(number).map_err(|_| format!("--cases: {number} is too many"))?;
                }
                _ => return Err(format!("soak knows no flag {word}")),
            }
        }
        match request.cases {
            0 => Err("--cases is at least 1".to_owned()),
            _ => Ok(request),
        }
    }
}

/// Builds the tests and runs them round after round; whether all passed.
fn run(root: &Path, request: &Request) -> Result<bool, String> {
    let workspace = Workspace::read(root)?;
    let folders: Vec<&str> = request.folders.iter().map(String::as_str).collect();
    let mut binaries = workspace.build(root, &folders, folders.is_empty())?;
    binaries.retain(|artifact| artifact.test);
    let output = workspace.target.join("soak");
    fs::create_dir_all(&output).map_err(|error| format!("{} cannot be made: {error}", output.display()))?;
    println!("soak: {} test binaries, seeds from {}", binaries.len(), request.seed);
    let begin = Instant::now();
    let mut failures = BTreeSet::new();
    let mut rounds = 0;
    while rounds == 0 || begin.elapsed() < request.time {
        let draw = Draw { seed: request.seed.wrapping_add(rounds), cases: request.cases };
        for binary in &binaries {
            if rounds > 0 && begin.elapsed() >= request.time {
                break;
            }
            round(&workspace, binary, draw, &output, &mut failures)?;
        }
        rounds += 1;
        println!("soak: round {rounds} done after {:.0} s", begin.elapsed().as_secs_f64());
    }
    match failures.len() {
        0 => println!("soak: all passed in {rounds} rounds"),
        count => println!("soak: FAILED: {count} of the tests, see above"),
    }
    Ok(failures.is_empty())
}

/// Runs one binary with one seed and tells what fails that has not failed before.
fn round(
    workspace: &Workspace,
    binary: &Artifact,
    draw: Draw,
    output: &Path,
    failures: &mut BTreeSet<Failure>,
) -> Result<(), String> {
    let file = output.join(format!("{}-{}.txt", binary.folder(), binary.target));
    let status = execute(binary, draw, &file)?;
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let text = fs::read(&file).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    let package = workspace.packages.get(binary.folder()).map_or(binary.folder(), String::as_str);
    for failure in failures_in(binary, &text) {
        if !failures.contains(&failure) {
            tell(binary, package, draw, status, &text, &failure);
            failures.insert(failure);
        }
    }
    Ok(())
}

/// What failed, by the output of a binary that did not pass.
fn failures_in(binary: &Artifact, text: &str) -> Vec<Failure> {
    let name = format!("{}/{}", binary.folder(), binary.target);
    let mut tests: Vec<Option<String>> = failed_tests(text).map(|test| Some(test.to_owned())).collect();
    if tests.is_empty() {
        tests.push(None);
    }
    tests.into_iter().map(|test| Failure { binary: name.clone(), test }).collect()
}

/// Prints a failure, what it printed, and how to repeat it.
fn tell(
    binary: &Artifact,
    package: &str,
    draw: Draw,
    status: Option<ExitStatus>,
    text: &str,
    Failure { binary: name, test }: &Failure,
) {
    let what = test.as_deref().map_or_else(|| ended(status), |test| format!("{test} failed"));
    println!("soak: FAILED: {name}: {what} with seed {}", draw.seed);
    evidence(text, test.as_deref()).iter().for_each(|line| println!("  | {line}"));
    println!("  again: {}", again(binary, package, draw, test.as_deref()));
}

/// The command that repeats a failure.
fn again(binary: &Artifact, package: &str, draw: Draw, test: Option<&str>) -> String {
    let exact = test.map(|test| format!(" -- --exact {test}")).unwrap_or_default();
    let Draw { seed, cases } = draw;
    format!("{SEED}={seed} {CASES}={cases} cargo test -p {package} {}{exact}", binary.selected())
}

/// Runs a binary as cargo would, its output in a file; no status when it was ended because it hangs.
fn execute(binary: &Artifact, draw: Draw, output: &Path) -> Result<Option<ExitStatus>, String> {
    let unusable = |error: std::io::Error| format!("{} cannot be written: {error}", output.display());
    let file = File::create(output).map_err(unusable)?;
    let copy = file.try_clone().map_err(unusable)?;
    let mut child = Command::new(&binary.path)
        .args(["--color", "never"])
        .env(SEED, draw.seed.to_string())
        .env(CASES, draw.cases.to_string())
        .env(NO_FILES, "1")
        .env("CARGO_MANIFEST_DIR", &binary.package)
        .current_dir(&binary.package)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", binary.path.display()))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("a test cannot be waited for: {error}"))? {
            return Ok(Some(status));
        }
        if begin.elapsed() > BINARY_LIMIT {
            // It may have ended just now; either way it is gone afterwards.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// The tests that libtest says failed.
fn failed_tests(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

fn ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "it does not end".to_owned(), |status| format!("it ended with {status}"))
}

/// What a test printed, or the end of all that was printed.
fn evidence<'a>(text: &'a str, test: Option<&str>) -> Vec<&'a str> {
    let heading = test.map(|test| format!("---- {test} stdout ----"));
    let own = text.lines().skip_while(|line| heading.as_deref().is_none_or(|heading| *line != heading)).skip(1);
    let own: Vec<&str> = own.take_while(|line| !line.starts_with("---- ") && *line != "failures:").collect();
    let lines = if own.is_empty() { text.lines().collect() } else { own };
    lines[lines.len().saturating_sub(SHOWN_LINES)..].to_vec()
}

/// A seed that no other run is likely to have.
fn seed_of_the_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64 % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_what_is_wrong_is_said() {
        let request = Request::parse(&["--minutes", "2", "numa", "--seed", "7", "--cases", "9", "sched"], 1).unwrap();
        let folders = vec!["numa".to_owned(), "sched".to_owned()];
        assert_eq!(request, Request { time: Duration::from_secs(120), seed: 7, cases: 9, folders });
        assert_eq!(Request::parse(&[], 5).unwrap().seed, 5);
        for (words, says) in [
            (&["--seed"][..], "needs a value"),
            (&["--seed", "x"], "`x`"),
            (&["--cases", "0"], "at least 1"),
            (&["--cases", "5000000000"], "too many"),
            (&["--minuets", "3"], "no flag"),
        ] {
            let problem = Request::parse(words, 0).unwrap_err();
            assert!(problem.contains(says), "{words:?}: {problem}");
        }
    }

    const OUTPUT: &str = "\
running 3 tests
test a::good ... ok
test a::bad ... FAILED
test b ... FAILED

failures:

---- a::bad stdout ----
thread panicked: 1
minimal failing input: x = 3

---- b stdout ----
thread panicked: 2

failures:
    a::bad
    b
";

    #[test]
    fn failed_tests_and_what_they_print_are_found() {
        assert_eq!(failed_tests(OUTPUT).collect::<Vec<_>>(), ["a::bad", "b"]);
        assert_eq!(evidence(OUTPUT, Some("a::bad")), ["thread panicked: 1", "minimal failing input: x = 3", ""]);
        assert_eq!(evidence(OUTPUT, Some("b")), ["thread panicked: 2", ""]);
        assert_eq!(evidence(OUTPUT, None).last(), Some(&"    b"));
        assert_eq!(evidence("x", Some("gone")), ["x"]);
    }

    #[test]
    fn a_failure_is_told_by_its_test_and_how_to_repeat_it() {
        let package = "/r/crates/sched".into();
        let target = "it".to_owned();
        let kind = "test".to_owned();
        let binary = Artifact { package, target, kind, test: true, path: "/t/it-1".into() };
        let failures = failures_in(&binary, OUTPUT);
        let tests: Vec<Option<&str>> = failures.iter().map(|failure| failure.test.as_deref()).collect();
        assert_eq!(tests, [Some("a::bad"), Some("b")]);
        assert_eq!(failures_in(&binary, "killed"), [Failure { binary: "sched/it".to_owned(), test: None }]);
        let draw = Draw { seed: 7, cases: 9 };
        let command = "PROPTEST_RNG_SEED=7 PROPTEST_CASES=9 cargo test -p nearside-sched --test it";
        assert_eq!(again(&binary, "nearside-sched", draw, None), command);
        assert_eq!(again(&binary, "nearside-sched", draw, Some("b")), format!("{command} -- --exact b"));
    }
}
