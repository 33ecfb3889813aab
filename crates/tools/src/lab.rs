//! What the lab does with a database at hand: experiments measured on this machine ([`measured`]) and how queries slow
//! each other down ([`interference`]), and the order that follows from that ([`order`]); [`with_context`] runs a
//! command of the crate `lab` in a terminal.

pub mod interference;
pub mod measured;
pub mod order;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::command::{CommandError, Context};
use lab::engine::Measure;

use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::progress::Progress;

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Failure {
        match error {
            CommandError::Output(error) => Failure::from(error),
            other => Failure::new(other.to_string()),
        }
    }
}

/// Runs something of the lab with progress on the terminal, Ctrl-C as its stop, and what measures, where something is
/// to be measured.
pub fn with_context(
    threads: Option<u16>,
    measure: Option<&dyn Measure>,
    command: impl FnOnce(&Context<'_>, &mut dyn Write) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let out: &mut dyn Write = &mut std::io::stdout();
    let stop = Arc::new(AtomicBool::new(false));
    let interrupts = Interrupts::install().map_err(|error| Failure::new(format!("cannot receive signals: {error}")))?;
    let asked = stop.clone();
    let _running = interrupts.during(move || asked.store(true, Ordering::Relaxed));
    let bar = Progress::new(Some(1), "lab");
    let progress = |at: lab::run::Progress<'_>| {
        bar.say(at.experiment.to_string());
        bar.set(at.done as u64, at.all as u64);
        if at.done == at.all {
            bar.clear();
        }
    };
    let all = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let context = Context {
        revision: crate::VERSION.to_string(),
        threads: threads.map_or_else(all, usize::from),
        progress: &progress,
        stop: &stop,
        measure,
    };
    let done = command(&context, out);
    bar.clear();
    done
}
