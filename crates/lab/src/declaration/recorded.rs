//! Workloads recorded from a running database: which kinds of statements there were, what each read and computed.
//!
//! Invariants: shares are counted by statements that ended; a statement reads columns that are listed; amounts are
//! finite and not negative.

use serde::{Deserialize, Serialize};

use super::families::{Placement, Strategy};

/// Kinds of statements and columns at most.
const LISTED_MAX: usize = 100_000;

/// Statements as a database ran them, issued by clients in a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordedWorkload {
    /// Statements on their way at a time.
    pub clients: u32,
    /// Where columns lie.
    pub placement: Placement,
    /// Parts or ranges of each table under `ivp` and `pp`; 0 for one per node.
    pub partitions: u32,
    /// How tasks find a worker.
    pub strategy: Strategy,
    /// The columns that statements read, table by table: under `rr` each lies on the node after the one before.
    pub columns: Vec<RecordedColumn>,
    /// The kinds of statements.
    pub statements: Vec<RecordedStatement>,
}

/// A column that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedColumn {
    /// Its table.
    pub table: String,
    /// Its name.
    pub column: String,
}

/// A kind of statement, with what one of them does on average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedStatement {
    /// Its text, with `?` for constants.
    pub sql: String,
    /// How many ended.
    pub count: u64,
    /// Tasks of one, where it was recorded; elsewhere it is as many as the scheduler makes there.
    pub tasks: f64,
    /// Seconds that threads were busy for one.
    pub cpu_seconds: f64,
    /// Seconds that one took, where it was recorded.
    pub seconds: f64,
    /// What one reads.
    pub reads: Vec<RecordedRead>,
}

/// What a statement reads of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedRead {
    /// The column's place in the list, from 0.
    pub column: usize,
    /// Bytes.
    pub bytes: f64,
}

impl Default for RecordedWorkload {
    fn default() -> RecordedWorkload {
        RecordedWorkload {
            clients: 1,
            placement: Placement::Rr,
            partitions: 0,
            strategy: Strategy::Bound,
            columns: Vec::new(),
            statements: Vec::new(),
        }
    }
}

/// What is wrong with a recorded workload.
pub(super) fn check(recorded: &RecordedWorkload) -> Result<(), String> {
    if recorded.clients == 0 {
        return Err("clients must be above 0".to_string());
    }
    if recorded.statements.iter().all(|statement| statement.count == 0) {
        return Err("no statement was recorded".to_string());
    }
    if recorded.statements.len() > LISTED_MAX || recorded.columns.len() > LISTED_MAX {
        return Err(format!("more than {LISTED_MAX} kinds of statements or columns"));
    }
    for statement in &recorded.statements {
        let amounts = [statement.tasks, statement.cpu_seconds, statement.seconds];
        let mut amounts = amounts.into_iter().chain(statement.reads.iter().map(|read| read.bytes));
        if let Some(wrong) = amounts.find(|amount| !amount.is_finite() || *amount < 0.0) {
            return Err(format!("'{}' has {wrong}: tasks, seconds and bytes are 0 or more", statement.sql));
        }
        if let Some(read) = statement.reads.iter().find(|read| read.column >= recorded.columns.len()) {
            let listed = recorded.columns.len();
            return Err(format!("'{}' reads column {}, of {listed} that are listed", statement.sql, read.column));
        }
    }
    Ok(())
}
