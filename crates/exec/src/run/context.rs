//! [`Context`]: what a plan runs with.

use std::sync::Arc;

use sched::policy::PackageQueues;
use sched::{Scheduler, Statement};

use crate::codes::shared::SharedScans;
use crate::tasks::places::ScanOptions;
use crate::tasks::traffic::Traffic;

/// Rows of a batch unless the context says otherwise.
pub const BATCH_ROWS: usize = 8192;

/// What a plan runs with.
#[derive(Clone)]
pub struct Context {
    /// Whose workers run it.
    pub scheduler: Arc<Scheduler>,
    /// The statement that it is part of: its time, budget, deadline and cancellation.
    pub statement: Arc<Statement>,
    /// Most rows of a batch; at least 1.
    pub batch_rows: usize,
    /// Batches come in the order of the plan's rows. Where nobody needs that, a scan whose rows lie on several nodes
    /// begins on all of them, at another one each time.
    pub ordered: bool,
    /// What scans may use.
    pub scan: ScanOptions,
    /// Nodes whose tasks wait in the queue of their package.
    pub packages: Arc<PackageQueues>,
    /// Where it is written down what the plan's tasks touch.
    pub traffic: Arc<Traffic>,
    /// The scans that it may share passes with, as far as `scan` has it.
    pub shared: Arc<SharedScans>,
}

impl Context {
    /// With batches of [`BATCH_ROWS`], in order.
    pub fn new(scheduler: Arc<Scheduler>, statement: Arc<Statement>) -> Context {
        Context {
            scheduler,
            statement,
            batch_rows: BATCH_ROWS,
            ordered: true,
            scan: ScanOptions::default(),
            packages: Arc::default(),
            traffic: Arc::default(),
            shared: Arc::default(),
        }
    }
}
