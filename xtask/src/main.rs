//! `cargo xtask`: the checks of this repository, run the same way by people and by `.ci/run`.
//!
//! - `cargo xtask ci` runs format, tidy, clippy and tests; each can be left out by a flag.
//! - `cargo xtask tidy` checks the invariants that `ARCHITECTURE.md` lists; it also runs as a test of this crate, so
//!   that `cargo test --workspace` is never greener than tidy.
//! - `cargo xtask vm` runs tests in an emulated machine of several nodes.
//! - `cargo xtask crash` kills a program that writes a database, or switches off its machine, and checks what is there.
//! - `cargo xtask soak` runs the tests again and again with fresh seeds.
//! - `cargo xtask ab` compares the speed of two revisions on this machine.
//!
//! # Limits
//! Tidy reads source text with a small lexer of its own. It does not expand macros and knows no types.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod ab;
mod ci;
mod command;
mod crash;
mod programs;
mod soak;
mod tidy;
mod vm;

const USAGE: &str = "\
usage: cargo xtask <command> [flags]

commands:
  ci      format, tidy, clippy, tests; leave one out with --no-fmt, --no-tidy, --no-clippy or --no-tests
  tidy    the invariants of ARCHITECTURE.md; --accept records what they let stay today, --accept-long-functions long \
    functions
  vm      tests in an emulated machine of several nodes; `cargo xtask vm --help` says more
  soak    the tests with fresh seeds until the time is over; `cargo xtask soak --help` says more
  crash   a program that writes is killed or its machine switched off, and nothing is lost; `cargo xtask crash --help` \
    says more
  ab      two revisions by turns in one benchmark, and whether they differ; `cargo xtask ab --help` says more
  help    this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci", flags @ ..] => match ci::Steps::from_flags(flags) {
            Ok(steps) => ci::run(&workspace_root(), steps),
            Err(flag) => used_wrongly(&format!("ci knows no flag {flag}")),
        },
        ["tidy"] => tidy::command(&workspace_root()),
        ["tidy", "--accept"] => tidy::accept_findings(&workspace_root()),
        ["tidy", "--accept-long-functions"] => tidy::accept_long_functions(&workspace_root()),
        ["ab", words @ ..] => ab::command(&workspace_root(), words),
        ["crash", words @ ..] => crash::command(&workspace_root(), words),
        ["soak", words @ ..] => soak::command(&workspace_root(), words),
        ["vm", words @ ..] => vm::command(&workspace_root(), words),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        [] => used_wrongly("a command is missing"),
        other => used_wrongly(&format!("there is no command `{}`", other.join(" "))),
    }
}

/// Says what was wrong and what there is; exit code 2, as for every command of this project.
fn used_wrongly(problem: &str) -> ExitCode {
    eprintln!("xtask: {problem}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The folder that holds the workspace's `Cargo.toml`.
///
/// Cargo says at run time where this crate lies; the path of the build is the answer only when the program is started
/// by hand.
fn workspace_root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).filter(|path| path.ends_with("xtask"));
    let here = here.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf());
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}
