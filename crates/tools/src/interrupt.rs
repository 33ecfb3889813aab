//! Ctrl-C: it cancels the statement that runs, and ends the program only where nobody is at a prompt and nothing runs,
//! or what runs was asked to stop before and did not.
//!
//! A thread of ours receives SIGINT (no work is done in a signal handler). At the prompt the terminal is in raw mode
//! and Ctrl-C arrives as a key, so a SIGINT that comes while nothing runs was sent by someone else and is ignored
//! there.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;

/// What a program that is interrupted while it is idle ends with.
const EXIT_CODE: i32 = 1;

type Cancel = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct InterruptState {
    cancel: Option<Cancel>,
    /// What runs was cancelled already.
    cancelled: bool,
    at_prompt: bool,
}

/// Receives SIGINT for the rest of the program's life.
#[derive(Clone)]
pub struct Interrupts {
    state: Arc<Mutex<InterruptState>>,
}

impl Interrupts {
    /// Starts the thread.
    pub fn install() -> io::Result<Interrupts> {
        let interrupts = Interrupts { state: Arc::default() };
        let mut signals = Signals::new([SIGINT])?;
        let state = interrupts.state.clone();
        std::thread::Builder::new().name("interrupt".into()).spawn(move || {
            for _ in signals.forever() {
                let cancel = {
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    let again = std::mem::replace(&mut state.cancelled, true);
                    match &state.cancel {
                        Some(cancel) if state.at_prompt || !again => cancel.clone(),
                        None if state.at_prompt => continue,
                        _ => std::process::exit(EXIT_CODE),
                    }
                };
                cancel();
            }
        })?;
        Ok(interrupts)
    }

    /// From now on someone is at a prompt.
    pub fn at_prompt(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).at_prompt = true;
    }

    /// While the guard lives, Ctrl-C calls `cancel`.
    pub fn during(&self, cancel: impl Fn() + Send + Sync + 'static) -> CancelGuard<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.cancel = Some(Arc::new(cancel));
        state.cancelled = false;
        drop(state);
        CancelGuard { interrupts: self }
    }
}

/// See [`Interrupts::during`].
pub struct CancelGuard<'a> {
    interrupts: &'a Interrupts,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.interrupts.state.lock().unwrap_or_else(PoisonError::into_inner).cancel = None;
    }
}
