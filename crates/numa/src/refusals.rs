//! What the kernel refused. In containers and under seccomp, mbind, move_pages or affinity calls may be denied;
//! Nearside then works on, unplaced, and says so once: one `tracing` warning per call and error, and this list for
//! `topology`.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// One kind of call that the kernel refused, and what it costs the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The system call.
    pub call: &'static str,
    /// What the kernel said.
    pub error: String,
    /// What does not work because of it.
    pub effect: &'static str,
    /// How often it happened so far.
    pub count: u64,
}

static REFUSALS: Mutex<Vec<Refusal>> = Mutex::new(Vec::new());

/// Every refusal of this process so far, in the order of their first occurrence.
pub fn refusals() -> Vec<Refusal> {
    lock().clone()
}

/// Notes a refusal; the first of its kind is also logged.
pub(crate) fn refused(call: &'static str, error: &io::Error, effect: &'static str) {
    let error = error.to_string();
    {
        let mut list = lock();
        if let Some(known) = list.iter_mut().find(|r| r.call == call && r.error == error) {
            known.count += 1;
            return;
        }
        list.push(Refusal { call, error: error.clone(), effect, count: 1 });
    }
    tracing::warn!(call, error, "the kernel refused a call: {effect}");
}

fn lock() -> MutexGuard<'static, Vec<Refusal>> {
    // The list is valid after every statement, so a panic elsewhere while it was held does not matter.
    REFUSALS.lock().unwrap_or_else(PoisonError::into_inner)
}
