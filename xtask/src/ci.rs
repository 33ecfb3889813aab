//! `cargo xtask ci`: the checks in the order in which they fail fastest, with the time that each took.
//!
//! A failed check does not hide the next one, but tests run only after everything before them passed: they take
//! longest.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::tidy;

/// Which checks to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    fmt: bool,
    tidy: bool,
    clippy: bool,
    tests: bool,
}

impl Steps {
    /// All steps, less those that a `--no-<step>` flag leaves out. The error is the flag that is not known.
    pub fn from_flags<'a>(flags: &[&'a str]) -> Result<Steps, &'a str> {
        let mut steps = Steps { fmt: true, tidy: true, clippy: true, tests: true };
        for &flag in flags {
            match flag {
                "--no-fmt" => steps.fmt = false,
                "--no-tidy" => steps.tidy = false,
                "--no-clippy" => steps.clippy = false,
                "--no-tests" => steps.tests = false,
                _ => return Err(flag),
            }
        }
        Ok(steps)
    }
}

/// Runs the steps in the workspace at `root`; fails when one of them did.
pub fn run(root: &Path, steps: Steps) -> ExitCode {
    let mut failed: Vec<&str> = Vec::new();
    let mut step = |wanted: bool, name: &'static str, check: &dyn Fn() -> bool| {
        if !wanted {
            println!("ci: {name} left out");
            return;
        }
        println!("ci: {name} ...");
        let start = Instant::now();
        let passed = check();
        let verdict = if passed { "passed" } else { "FAILED" };
        println!("ci: {name} {verdict} in {:.1} s", start.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    };
    step(steps.fmt, "fmt", &|| cargo(root, &["fmt", "--all", "--", "--check"]));
    step(steps.tidy, "tidy", &|| tidy::command(root) == ExitCode::SUCCESS);
    step(steps.clippy, "clippy", &|| {
        cargo(root, &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    if failed.is_empty() && steps.tests {
        let start = Instant::now();
        println!("ci: tests ...");
        if !cargo(root, &["test", "--locked", "--workspace"]) {
            failed.push("tests");
        }
        println!("ci: tests took {:.1} s", start.elapsed().as_secs_f64());
    } else if steps.tests {
        println!("ci: tests not run, since a check before them failed");
    }
    if failed.is_empty() {
        println!("ci: all passed");
        ExitCode::SUCCESS
    } else {
        println!("ci: FAILED: {}", failed.join(", "));
        ExitCode::FAILURE
    }
}

/// Runs the cargo that started us; false when it failed or could not be started.
fn cargo(root: &Path, arguments: &[&str]) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    match Command::new(cargo).args(arguments).current_dir(root).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("ci: cargo cannot be started: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_leave_steps_out() {
        let all = Steps::from_flags(&[]).unwrap();
        assert!(all.fmt && all.tidy && all.clippy && all.tests);
        let some = Steps::from_flags(&["--no-tests", "--no-fmt"]).unwrap();
        assert_eq!(some, Steps { fmt: false, tidy: true, clippy: true, tests: false });
        assert_eq!(Steps::from_flags(&["--no-test"]), Err("--no-test"));
    }
}
