//! `cargo xtask crash`: a program that writes a database in a folder is killed, or its machine is switched off, again
//! and again, and what it has said is done is there.
//!
//! The program is `nearside sql` with statements of numbered transactions ([`writer`]). It is killed by SIGKILL at a
//! random moment ([`kill`]), or runs in an emulated machine ([`boot`], [`guest`]) whose disk loses what was not flushed
//! ([`power`], [`disk`], [`nbd`]). Then the folder is verified, opened, and asked which transactions are there, which
//! is judged ([`judge`]).

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

mod boot;
mod disk;
mod guest;
mod judge;
mod kill;
mod nbd;
mod power;
mod request;
mod writer;

use crate::command;
use crate::programs::Workspace;
use request::{Request, USAGE};

/// The command. Exit code 0: everything was there; 1: something was not; 2: used wrongly.
pub fn command(root: &Path, words: &[&str]) -> ExitCode {
    command::run("crash", USAGE, words, |words| Request::parse(words, clock()), |request| run(root, request))
}

fn clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn run(root: &Path, request: &Request) -> Result<bool, String> {
    let target = Workspace::read(root)?.target;
    let program = request.program.clone().unwrap_or_else(|| target.join("debug/nearside"));
    if !program.is_file() {
        return Err(format!("{} is not there; `cargo build --package nearside-cli` makes it", program.display()));
    }
    match request.power {
        true => power::run(request, &program, &target.join("vm")),
        false => kill::run(request, &program),
    }
}
