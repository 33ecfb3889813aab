//! Tests of the tester: each fails in one way, when the machine of `cargo xtask vm --self-check` tells it to, and
//! must be seen to.
//!
//! Elsewhere they do nothing; there, [`tests::a_failing_binary_is_seen`] runs them again with the word that makes them
//! fail.

use super::init::Run;
use super::report::ProgramKind;

/// Set to `1` to make a canary fail.
const TOLD: &str = "NEARSIDE_VM_CANARY";

/// A run and the fault that it must have.
pub struct Canary {
    /// Which tests.
    pub filter: &'static str,
    /// A part of the fault.
    pub fault: &'static str,
}

/// Every way to fail in a machine. Memory is eaten last of all, since the kernel may kill more than the culprit.
pub const CANARIES: [Canary; 5] = [
    Canary { filter: "canary::tests::fails", fault: "canary::tests::fails failed" },
    Canary { filter: "canary::tests::aborts", fault: "was killed by signal 6" },
    Canary { filter: "canary::tests::is_skipped", fault: "was skipped: this machine has one memory node" },
    Canary { filter: "no test is called this", fault: NOTHING_RAN },
    Canary { filter: "canary::tests::eats_memory", fault: "was killed by signal 9" },
];

/// What is said of a TEST that runs no test.
pub const NOTHING_RAN: &str = "no test has such a name";

/// The runs of the self-check, of the test binary of this tool at `program`.
pub fn runs(program: &str) -> Vec<Run> {
    let run = |(test, canary): (usize, &Canary)| Run {
        name: format!("canary {}", canary.filter),
        test,
        kind: ProgramKind::Tests,
        program: program.to_owned(),
        arguments: ["--color", "never", "--show-output", canary.filter].map(str::to_owned).into(),
        environment: vec![(TOLD.to_owned(), "1".to_owned())],
        folder: "/tmp".to_owned(),
    };
    CANARIES.iter().enumerate().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::super::report::Report;
    use super::*;

    fn told() -> bool {
        std::env::var_os(TOLD).is_some_and(|value| value == "1")
    }

    #[test]
    fn fails() {
        assert!(!told(), "a canary");
    }

    #[test]
    fn aborts() {
        if told() {
            std::process::abort();
        }
    }

    #[test]
    fn is_skipped() {
        if told() {
            eprintln!("skipped: this machine has one memory node");
        }
    }

    #[test]
    fn eats_memory() {
        let mut eaten = Vec::new();
        while told() {
            eaten.push(vec![1_u8; 16 << 20]);
        }
        assert!(eaten.is_empty());
    }

    /// The canaries on this machine, read and judged as if a machine of two nodes had run them; but not the one that
    /// eats memory.
    #[test]
    fn a_failing_binary_is_seen() {
        let machine = Machine { nodes: 2, ..Machine::default() };
        let here = std::env::current_exe().expect("a test binary");
        let harmless = CANARIES.iter().zip(runs("")).filter(|(canary, _)| !canary.filter.contains("memory"));
        for (canary, run) in harmless.filter(|(canary, _)| canary.fault != NOTHING_RAN) {
            let output = std::process::Command::new(&here).args(&run.arguments).envs(run.environment).output().unwrap();
            let mut report = Report::of(1);
            report.line("@vm begin 0");
            let text = [output.stdout, output.stderr].concat();
            for line in String::from_utf8_lossy(&text).lines() {
                report.line(line);
            }
            // A shell says 128 and the number of the signal; 6 is what abort sends.
            report.line(&format!("@vm end 0 {}", output.status.code().unwrap_or(128 + 6)));
            let faults = report.runs[0].faults(ProgramKind::Tests, &machine);
            assert!(faults.iter().any(|fault| fault.contains(canary.fault)), "{}: {faults:?}", canary.filter);
        }
    }
}
