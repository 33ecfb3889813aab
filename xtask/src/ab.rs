//! `cargo xtask ab`: two revisions beside each other on one machine: the same benchmark by turns, many times, and
//! whether the difference is more than chance.
//!
//! Asked for on the command line ([`request`]), built one after the other in one work tree ([`programs`]), run in
//! rounds whose order alternates, read from the benchmarks' JSON ([`figures`]) and judged ([`statistics`]).
//!
//! Invariants: a round runs each revision once, so both meet the same machine; what is told as slower or faster would
//! come about by chance in one of twenty comparisons at most, all figures taken together.
//!
//! # Limits
//! Benchmarks are processes of their own: what differs from process to process (addresses, huge pages) is part of the
//! noise.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

mod figures;
mod programs;
mod request;
mod statistics;

use crate::command;
use figures::Figure;
use programs::Program;
use request::Request;
use statistics::{Comparison, Verdict};

pub use request::USAGE;

/// The name of all figures together.
const OVERALL: &str = "all together";

/// The command. Exit code 0: done, 1: it failed, or the second revision is slower than allowed; 2: used wrongly.
pub fn command(root: &Path, words: &[&str]) -> ExitCode {
    command::run("ab", USAGE, words, Request::parse, |request| run(root, request))
}

/// Builds, runs, judges; whether nothing is slower than allowed.
fn run(root: &Path, request: &Request) -> Result<bool, String> {
    let programs = programs::both(root, request)?;
    let mut rounds: Vec<[Vec<Figure>; 2]> = Vec::new();
    let mut machine = Value::Null;
    for round in 0..request.rounds {
        let mut found = [Vec::new(), Vec::new()];
        for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let report = measure(&programs[which], request, &programs::folder(root))?;
            found[which] = figures::of(&report)?;
            machine = report["machine"].clone();
        }
        rounds.push(found);
        eprintln!("ab: round {} of {} done", round + 1, request.rounds);
    }
    let pairs = figures::pairs(&rounds)?;
    let mut compared: Vec<(String, Comparison)> =
        pairs.iter().map(|(name, less, pairs)| (name.clone(), statistics::compare(pairs, *less))).collect();
    statistics::correct(compared.iter_mut().map(|(_, comparison)| comparison));
    let logs: Vec<Vec<f64>> = pairs.iter().map(|(_, less, pairs)| statistics::logs(pairs, *less)).collect();
    let overall = statistics::overall(&logs);
    let [a, b] = [&programs[0], &programs[1]];
    print!("{}", table(request, &machine, [a, b], &compared, &overall));
    if let Some(path) = &request.json {
        let value = to_json(request, &machine, [a, b], &compared, &overall);
        let text = serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let slow = too_slow(request.fail_above, &compared, &overall);
    for name in &slow {
        eprintln!("ab: {name}: slower by more than {} percent", request.fail_above.unwrap_or(0.0));
    }
    Ok(slow.is_empty())
}

/// What is slower than allowed, beyond chance.
fn too_slow<'a>(allowed: Option<f64>, compared: &'a [(String, Comparison)], overall: &Comparison) -> Vec<&'a str> {
    let Some(percent) = allowed else { return Vec::new() };
    let slow = |c: &Comparison| c.verdict == Verdict::Slower && c.ratio > 1.0 + percent / 100.0;
    let mut names: Vec<&str> = compared.iter().filter(|(_, c)| slow(c)).map(|(name, _)| name.as_str()).collect();
    if slow(overall) {
        names.push(OVERALL);
    }
    names
}

/// One run of a benchmark; its report.
fn measure(program: &Program, request: &Request, folder: &Path) -> Result<Value, String> {
    let report = folder.join("report.json");
    let mut command = Command::new(&program.path);
    if request.bench != "tpch" {
        command.arg("bench");
    }
    command.arg(&request.bench).args(&request.arguments).arg("--json").arg(&report);
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("cannot run {}: {error}", program.path.display()))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{} {}: {}", program.revision, request.bench, told.trim()));
    }
    let text = fs::read_to_string(&report).map_err(|error| format!("{} left no report: {error}", program.revision))?;
    serde_json::from_str(&text).map_err(|error| format!("{}'s report is no JSON: {error}", program.revision))
}

fn table(
    request: &Request,
    machine: &Value,
    [a, b]: [&Program; 2],
    compared: &[(String, Comparison)],
    overall: &Comparison,
) -> String {
    let machine = machine.as_str().unwrap_or("an unknown machine");
    let mut text =
        format!("{}, {} rounds, {machine}\nA {}, B {}\n\n", request.bench, request.rounds, a.revision, b.revision);
    text += &format!("{:<36} {:>13} {:>13} {:>8} {:>17} {:>8}\n", "figure", "A", "B", "B : A", "95% between", "chance");
    for (name, c) in compared {
        let between = format!("{:.3} .. {:.3}", c.low, c.high);
        let verdict = c.verdict.word();
        let line = format!(
            "{name:<36} {:>13} {:>13} {:>8.3} {between:>17} {:>8.4}  {verdict}",
            short(c.median_a),
            short(c.median_b),
            c.ratio,
            c.chance
        );
        text += line.trim_end();
        text.push('\n');
    }
    let between = format!("{:.3} .. {:.3}", overall.low, overall.high);
    let ratio = overall.ratio;
    let chance = overall.chance;
    let verdict = overall.verdict.word();
    let line = format!("{OVERALL:<36} {:>13} {:>13} {ratio:>8.3} {between:>17} {chance:>8.4}  {verdict}", "", "");
    text + line.trim_end()
        + "\n\nB : A is the median over rounds, above 1 where B is worse; chance is how often as large a difference \
           comes about by itself,\n\
           corrected for the number of figures\n"
}

/// Four digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{value:.4e}"),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.6}"),
    }
}

fn to_json(
    request: &Request,
    machine: &Value,
    [a, b]: [&Program; 2],
    compared: &[(String, Comparison)],
    overall: &Comparison,
) -> Value {
    let one = |name: &str, c: &Comparison| {
        json!({
            "name": name, "a": c.median_a, "b": c.median_b, "ratio": c.ratio, "low": c.low, "high": c.high,
            "chance": c.chance, "verdict": c.verdict.word(),
        })
    };
    json!({
        "benchmark": "ab", "source": "measured", "machine": machine, "of": request.bench,
        "arguments": {"given": request.arguments, "rounds": request.rounds},
        "a": a.revision, "b": b.revision,
        "figures": compared.iter().map(|(name, c)| one(name, c)).collect::<Vec<_>>(),
        "overall": one(OVERALL, overall),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, verdict: Verdict) -> Comparison {
        Comparison { median_a: 1.0, median_b: ratio, ratio, low: ratio, high: ratio, chance: 0.01, verdict }
    }

    #[test]
    fn only_what_is_slower_beyond_chance_and_beyond_the_limit_fails() {
        let compared = [
            ("fast".to_string(), comparison(0.5, Verdict::Faster)),
            ("slow".to_string(), comparison(1.2, Verdict::Slower)),
            ("noise".to_string(), comparison(1.3, Verdict::Same)),
        ];
        let same = comparison(1.0, Verdict::Same);
        assert_eq!(too_slow(Some(10.0), &compared, &same), ["slow"]);
        assert!(too_slow(Some(25.0), &compared, &same).is_empty() && too_slow(None, &compared, &same).is_empty());
        assert_eq!(too_slow(Some(25.0), &compared, &comparison(1.4, Verdict::Slower)), [OVERALL]);
    }

    #[test]
    fn the_table_and_the_json_say_who_was_compared() {
        let request = Request::parse(&["main", "HEAD", "--bench", "scan"]).expect("a request");
        let program = |revision: &str| Program { revision: revision.into(), path: "x".into() };
        let a = program("abc");
        let b = program("def");
        let compared = [("0.1".to_string(), comparison(1.2, Verdict::Slower))];
        let overall = comparison(1.2, Verdict::Slower);
        let text = table(&request, &json!("a machine"), [&a, &b], &compared, &overall);
        for piece in ["scan, 12 rounds, a machine", "A abc, B def", "1.200", "slower", OVERALL] {
            assert!(text.contains(piece), "{piece} in\n{text}");
        }
        let value = to_json(&request, &json!("a machine"), [&a, &b], &compared, &overall);
        assert_eq!((&value["a"], &value["figures"][0]["verdict"]), (&json!("abc"), &json!("slower")));
    }
}
