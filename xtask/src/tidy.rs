//! `cargo xtask tidy`: the invariants of `ARCHITECTURE.md`, as checks.
//!
//! A rule is a function from [`tree::Tree`] to a [`Report`]; each has a test with an example that it must refuse. Few
//! rules, and each of them guards something that a compiler does not.
//!
//! # Limits
//! What needs types or a running program (no allocation outside a region, no operator on a Tokio thread) is left to
//! tests.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

mod code;
mod columns;
mod cycles;
mod docs;
mod exception;
mod imports;
mod layers;
mod lock;
mod machine;
mod record;
mod size;
mod source;
mod tree;
mod unsafety;
mod unused;

use tree::Tree;

/// One thing that is not as it should be.
#[derive(Debug)]
struct Finding {
    path: String,
    /// Counted from 1; 0 when the file as a whole is meant.
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// What the rules found: errors fail the check, warnings are only printed.
#[derive(Debug, Default)]
struct Report {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl Report {
    fn error(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.errors.push(Finding { path: path.to_owned(), line, message: message.into() });
    }

    fn warning(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.warnings.push(Finding { path: path.to_owned(), line, message: message.into() });
    }
}

/// Applies every rule.
fn check(tree: &Tree) -> Report {
    let mut report = Report::default();
    let rules = [
        layers::check,
        lock::check,
        unsafety::check,
        code::check,
        machine::check,
        size::check,
        docs::check,
        record::check,
    ];
    for rule in rules {
        rule(tree, &mut report);
    }
    report
}

/// The command: prints what it finds; fails on an error.
pub fn command(root: &Path) -> ExitCode {
    let report = match Tree::read(root) {
        Ok(tree) => check(&tree),
        Err(problem) => {
            eprintln!("tidy: {problem}");
            return ExitCode::FAILURE;
        }
    };
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    for error in &report.errors {
        println!("error: {error}");
    }
    println!("tidy: {} errors, {} warnings", report.errors.len(), report.warnings.len());
    if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The command that records the long functions of today, so that only those that are added or have grown are warned
/// about.
pub fn accept_long_functions(root: &Path) -> ExitCode {
    accept(root, size::BASELINE, size::baseline)
}

/// The command that records what [`record`] lets stay.
pub fn accept_findings(root: &Path) -> ExitCode {
    accept(root, record::RECORD, record::record)
}

fn accept(root: &Path, name: &str, content: fn(&Tree) -> String) -> ExitCode {
    let written = Tree::read(root).and_then(|tree| {
        let path = root.join(name);
        std::fs::write(&path, content(&tree)).map_err(|error| format!("{}: {error}", path.display()))
    });
    match written {
        Ok(()) => {
            println!("tidy: {name} written");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("tidy: {problem}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
