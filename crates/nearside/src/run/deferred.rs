//! What a transaction has yet to look at of keys that are deferred, foreign keys and others, and which are by SET
//! CONSTRAINTS.
//!
//! A copy is cheap: savepoints keep one, and ROLLBACK TO puts it back, what waits and what SET CONSTRAINTS has said.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use numa::{Budget, Reservation};

use crate::catalog::rules::Deferral;
use crate::error::Result;
use crate::run::changes::{Step, What};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deferred {
    /// What SET CONSTRAINTS ALL has said last.
    all: Option<bool>,
    /// What it has said since of foreign keys, by the number of their table and their name.
    said: BTreeMap<(u64, String), bool>,
    /// What waits, in the order in which it came.
    waiting: Vec<Arc<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    step: Step,
    /// The memory of its rows.
    _held: Reservation,
}

impl Deferred {
    /// Whether a step is one for later.
    pub(crate) fn waits(&self, step: &Step) -> bool {
        match step.deferral {
            Deferral::Never => false,
            usual => {
                let said = self.said.get(&(step.child, step.key.clone())).copied();
                said.or(self.all).unwrap_or(usual == Deferral::Deferred)
            }
        }
    }

    /// Keeps a step for later.
    ///
    /// # Errors
    /// No memory for its rows.
    pub(crate) fn keep(&mut self, step: Step, budget: &Arc<Budget>) -> Result<()> {
        let bytes = match &step.what {
            What::Came(rows) | What::Went(rows, _) => rows.get_array_memory_size(),
            What::Changed(old, new) => old.get_array_memory_size() + new.get_array_memory_size(),
        };
        let held = budget.reserve(bytes as u64)?;
        self.waiting.push(Arc::new(Waiting { step, _held: held }));
        Ok(())
    }

    /// SET CONSTRAINTS, of all that are deferrable or of some.
    pub(crate) fn set(&mut self, keys: Option<Vec<(u64, String)>>, is_deferred: bool) {
        match keys {
            None => {
                self.all = Some(is_deferred);
                self.said.clear();
            }
            Some(keys) => self.said.extend(keys.into_iter().map(|key| (key, is_deferred))),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes what waits and need not any more; at the transaction's end all of it.
    pub(crate) fn due(&mut self, is_end: bool) -> Vec<Step> {
        let all = std::mem::take(&mut self.waiting);
        let (waiting, due): (Vec<_>, Vec<_>) = all.into_iter().partition(|of| !is_end && self.waits(&of.step));
        self.waiting = waiting;
        due.iter().map(|of| of.step.clone()).collect()
    }

    /// The tables that something waits for.
    pub(crate) fn tables(&self) -> HashSet<u64> {
        self.waiting.iter().flat_map(|of| [of.step.of, of.step.child]).collect()
    }
}
