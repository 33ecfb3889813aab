//! [`Recording`]: a statement that runs profiled, to be added to what its database records.

use std::sync::Arc;
use std::time::Instant;

use exec::Profile;

use crate::run::config;
use crate::run::recording::StatementKind;
use crate::run::statement::RunningStatement;

/// A statement that is recorded, from its start to its last row.
#[derive(Debug)]
pub(crate) struct Recording {
    running: Arc<RunningStatement>,
    began: Instant,
    rows: u64,
    profile: Profile,
}

/// Whether a statement is to be recorded.
pub(crate) fn wanted(running: &RunningStatement) -> bool {
    running.inner.recorder.is_on() || config::nearside(running.planner.config_options()).record_workload
}

impl Recording {
    /// Of a plan that is about to run with this profile.
    pub(crate) fn of(profile: Profile, running: &Arc<RunningStatement>) -> Recording {
        Recording { running: Arc::clone(running), began: Instant::now(), rows: 0, profile }
    }

    /// Rows were taken.
    pub(crate) fn took(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// The last row was taken.
    pub(crate) fn done(self) {
        let mut done = StatementKind { rows: self.rows, ..StatementKind::default() };
        for counts in self.profile.operators().iter().flatten() {
            done.cpu += counts.busy;
            done.tasks += counts.tasks;
        }
        for line in self.running.traffic.lines() {
            let Some(column) = line.column else { continue };
            *done.bytes.entry((line.table.to_string(), column)).or_insert(0) += line.touched.bytes;
        }
        self.running.inner.recorder.add(self.running.statement.label(), self.began, done);
    }
}
