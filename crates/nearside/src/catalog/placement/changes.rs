//! The last changes of placements, for `nearside.placement_changes`.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use storage::PlaceReport;

use crate::catalog::Name;

/// Changes that are remembered for `nearside.placement_changes`.
const REMEMBERED: usize = 1000;

/// One change of a placement, done or failed.
#[derive(Debug, Clone)]
pub(crate) struct PlacementChange {
    pub at: DateTime<Utc>,
    pub table: Name,
    pub from: String,
    pub to: String,
    pub report: Report,
    pub elapsed: Duration,
    pub error: Option<String>,
}

/// What a change did to bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub placed: PlaceReport,
    /// Bytes of rows encoded anew.
    pub rewritten_bytes: u64,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog(Mutex<VecDeque<PlacementChange>>);

impl ChangeLog {
    /// Adds a change; the oldest goes where there are too many.
    pub(crate) fn push(&self, changed: PlacementChange) {
        let mut all = self.0.lock();
        if all.len() == REMEMBERED {
            all.pop_front();
        }
        all.push_back(changed);
    }

    /// The changes, oldest first.
    pub(crate) fn all(&self) -> Vec<PlacementChange> {
        self.0.lock().iter().cloned().collect()
    }
}
