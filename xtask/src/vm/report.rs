//! Reads what the tests print in the machine, and judges it.
//!
//! Lines that begin with `@vm ` are written by the machine's init (see [`super::init`]); all others come from the runs
//! between them. Nothing passes by being silent: a run that did not begin, did not end, has no list of tests, or whose
//! counts do not add up is a fault, and so is a skipped test unless the machine cannot have what it needs.
//!
//! # Limits
//! Understands the plain text of libtest with `--show-output`. A test that prints a line like libtest's own can confuse
//! it, but the counts would then not add up.

use super::machine::Machine;

/// What a run prints of itself is read in one of two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// A test binary of libtest.
    Tests,
    /// A program that says by its exit status how it went.
    Program,
}

/// How one test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ran to its end.
    Passed,
    /// It panicked.
    Failed,
    /// It is marked so in the code and did not run.
    Ignored,
}

/// What one run printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Whether init said that it begins.
    pub begun: bool,
    /// Exit status, when it ended; 128 and more: killed by that signal.
    pub status: Option<u32>,
    /// Tests that it said it has, when it said so.
    pub expected: Option<usize>,
    /// Tests in the order in which they ended.
    pub tests: Vec<(String, Verdict)>,
    /// Tests that passed because they could not do anything, and why.
    pub skipped: Vec<(String, String)>,
    /// Passed and failed, as the last line counts them.
    pub counted: Option<(usize, usize)>,
    /// How long the tests took, as the last line says; emulated time passes as the host's does.
    pub took: Option<String>,
    /// The test that was begun last and has not ended (one at a time only).
    pub open: Option<String>,
    /// Everything it printed.
    pub lines: Vec<String>,
}

/// What all runs printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// In the order in which they were asked for.
    pub runs: Vec<RunReport>,
    /// What the kernel says of its nodes: those with memory, those with cpus, as lists like `0-3`.
    pub nodes: Option<(String, String)>,
    /// Seconds from boot to the first run.
    pub booted_s: Option<f64>,
    /// Whether init came to its end.
    pub done: bool,
    current: Option<usize>,
    /// The test whose output follows.
    section: Option<String>,
}

impl Report {
    /// A report of `n` runs, none of which has begun.
    pub fn of(runs: usize) -> Report {
        Report { runs: vec![RunReport::default(); runs], ..Report::default() }
    }

    /// Takes the next line; gives the test that it ends, if it does.
    pub fn line(&mut self, line: &str) -> Option<(String, Verdict)> {
        let line = line.trim_end_matches(['\r', '\n']);
        if let Some(words) = line.strip_prefix("@vm ") {
            self.marker(&words.split(' ').collect::<Vec<_>>());
            return None;
        }
        let run = self.runs.get_mut(self.current?)?;
        run.lines.push(line.to_owned());
        let ended = run.verdict(line);
        if let Some(ended) = &ended {
            run.tests.push(ended.clone());
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            self.section = Some(name.to_owned());
        } else if line == "successes:" || line == "failures:" {
            self.section = None;
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.section = None;
            run.counted = count_before(counts, " passed;").zip(count_before(counts, " failed;"));
            run.took = counts.split_once("finished in ").map(|(_, took)| took.trim().to_owned());
        } else if let Some(rest) = line.strip_prefix("running ") {
            let number =
                rest.strip_suffix(" tests").or(rest.strip_suffix(" test")).and_then(|number| number.parse().ok());
            run.expected = run.expected.or(number);
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            let name = self.section.clone().unwrap_or_else(|| "a test that cannot be told by its output".to_owned());
            run.skipped.push((name, reason.to_owned()));
        }
        ended
    }

    fn marker(&mut self, words: &[&str]) {
        let index = |word: &str| word.parse::<usize>().ok().filter(|index| *index < self.runs.len());
        match words {
            ["machine", memory, cpus, uptime] => {
                self.nodes = Some(((*memory).to_owned(), (*cpus).to_owned()));
                self.booted_s = uptime.parse().ok();
            }
            ["begin", number] => {
                self.current = index(number);
                self.section = None;
                if let Some(run) = self.current {
                    self.runs[run].begun = true;
                }
            }
            ["end", number, status] => {
                if let Some(run) = index(number) {
                    self.runs[run].status = status.parse().ok();
                }
                self.current = None;
            }
            ["done"] => self.done = true,
            _ => {}
        }
    }
}

impl RunReport {
    /// The test that `line` ends. With one test at a time its name is printed first, and what it prints past libtest
    /// may stand between.
    fn verdict(&mut self, line: &str) -> Option<(String, Verdict)> {
        let parse = |word: &str| match word {
            "ok" => Some(Verdict::Passed),
            "FAILED" => Some(Verdict::Failed),
            _ if word == "ignored" || word.starts_with("ignored, ") => Some(Verdict::Ignored),
            _ => None,
        };
        if let Some((name, rest)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ...")) {
            let name = name.trim_end_matches(" - should panic");
            if let Some(verdict) = parse(rest.trim()) {
                self.open = None;
                return Some((name.to_owned(), verdict));
            }
            self.open = Some(name.to_owned());
            return None;
        }
        let verdict = parse(line)?;
        self.open.take().map(|name| (name, verdict))
    }

    /// Tests that ended so.
    pub fn count(&self, verdict: &Verdict) -> usize {
        self.tests.iter().filter(|(_, found)| found == verdict).count()
    }

    /// What the failed tests printed; the end of everything when none is known to have failed.
    pub fn evidence(&self, lines_max: usize) -> &[String] {
        let begin = self.lines.iter().position(|line| line == "failures:").unwrap_or(0);
        let begin = if self.count(&Verdict::Failed) == 0 { 0 } else { begin };
        &self.lines[begin.max(self.lines.len().saturating_sub(lines_max))..]
    }

    /// What is wrong with a run of this kind; empty when nothing is.
    pub fn faults(&self, kind: ProgramKind, machine: &Machine) -> Vec<String> {
        if !self.begun {
            return vec!["did not begin".to_owned()];
        }
        let mut faults = Vec::new();
        match self.status {
            Some(0) => {}
            Some(status @ 129..) => faults.push(format!("was killed by signal {}", status - 128)),
            Some(status) => faults.push(format!("ended with exit status {status}")),
            None => faults.push(match &self.open {
                Some(test) => format!("did not end, while {test} ran"),
                None => "did not end".to_owned(),
            }),
        }
        if kind == ProgramKind::Program {
            return faults;
        }
        faults.extend(
            self.tests.iter().filter(|test| test.1 == Verdict::Failed).map(|test| format!("{} failed", test.0)),
        );
        match self.expected {
            None => faults.push("printed no list of tests".to_owned()),
            Some(expected) if expected != self.tests.len() => {
                faults.push(format!("has {expected} tests, of which {} ended", self.tests.len()));
            }
            Some(_) => {}
        }
        let named = (self.count(&Verdict::Passed), self.count(&Verdict::Failed));
        match self.counted {
            None => faults.push("printed no result".to_owned()),
            Some(counted) if counted != named => {
                faults.push(format!("counts {counted:?} passed and failed tests, but names {named:?}"));
            }
            Some(_) => {}
        }
        for (test, reason) in &self.skipped {
            if !may_be_skipped(reason, machine) {
                faults.push(format!("{test} was skipped: {reason}"));
            }
        }
        faults
    }
}

/// What is wrong with the machine itself: other nodes than were asked for, no end, or bad news on the kernel's console.
pub fn machine_faults(report: &Report, console: &str, machine: &Machine) -> Vec<String> {
    let mut faults: Vec<String> = console.lines().filter(|line| is_bad_news(line)).map(str::to_owned).collect();
    let list = |nodes: u32| if nodes == 1 { "0".to_owned() } else { format!("0-{}", nodes - 1) };
    let wanted = (list(machine.nodes), list(machine.nodes_with_cpus()));
    match &report.nodes {
        None => faults.push("the machine did not come up".to_owned()),
        Some(found) if *found != wanted => faults.push(format!(
            "the kernel has memory on nodes {} and cpus on nodes {}, not on {} and {}",
            found.0, found.1, wanted.0, wanted.1
        )),
        Some(_) if !report.done => faults.push("the machine stopped before all tests had run".to_owned()),
        Some(_) => {}
    }
    faults
}

/// Whether a test may say this and count as passed: what it needs is not there in any machine of ours, or not in this
/// one.
fn may_be_skipped(reason: &str, machine: &Machine) -> bool {
    // Recorded and published machines lie beside the clone, not in the machine; its only user is root; filling nodes is
    // a test of its own.
    let elsewhere = ["not recorded here", "reference is not here", "every file", "NEARSIDE_TEST_FILL_NODES is not set"];
    // Some tests are of what a machine without nodes does.
    if reason.contains("a machine of one node") {
        return machine.nodes > 1;
    }
    if reason.contains("no package of several nodes") {
        return !machine.has_sub_domains();
    }
    let several = ["one memory node", "one node", "several nodes", "two nodes"];
    elsewhere.iter().any(|text| reason.contains(text))
        || (machine.nodes == 1 && several.iter().any(|text| reason.contains(text)))
        || (!machine.cpuless && reason.contains("without cpus"))
        || (machine.cpuless && reason.contains("every node has cpus"))
}

/// A line of the kernel after which nothing that the tests say is to be believed. A program that died of a signal is
/// seen by its status.
fn is_bad_news(line: &str) -> bool {
    let news =
        ["Kernel panic", "Out of memory: Killed", "oom-kill:", "general protection fault", "kernel BUG at", "Oops:"];
    news.iter().any(|text| line.contains(text))
}

fn count_before(text: &str, unit: &str) -> Option<usize> {
    let before = &text[..text.find(unit)?];
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
