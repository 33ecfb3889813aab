//! The account of rows that a caller's thread reads by their places, without a plan.

use std::sync::Arc;

use numa::NodeId;
use sched::Statement;
use storage::TableVersion;

use crate::tasks::counter::{note_index_line, note_row};
use crate::tasks::traffic::{Task, Traffic};

/// What is read of rows that were found by a key.
#[derive(Debug, Clone, Copy)]
pub struct RowsRead<'a> {
    /// What the table is called.
    pub name: &'a Arc<str>,
    /// The table.
    pub version: &'a TableVersion,
    /// The column in whose index they were looked up, if they were.
    pub index: Option<usize>,
    /// The columns that are read of them.
    pub columns: &'a [usize],
    /// The machine's node, if it has only one.
    pub only_node: Option<NodeId>,
}

/// Says that this thread reads rows of a table, each given by the place of its segment among
/// [`TableVersion::segments`] and its place in the segment: a line each of the index, of the codes (or the values of a
/// plain column), and of the dictionary.
pub fn account_rows(
    traffic: &Arc<Traffic>,
    statement: &Arc<Statement>,
    read: &RowsRead<'_>,
    rows: impl Iterator<Item = (usize, u32)>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _task = Task::begin(traffic, statement, None);
    let table = traffic.table(read.name, &read.version.schema);
    for (place, row) in rows {
        let mut before = 0;
        for (segments, part) in read.version.parts.iter().zip(0..) {
            let Some(version) = place.checked_sub(before).and_then(|place| segments.segments.get(place)) else {
                before += segments.segments.len();
                continue;
            };
            if let Some(column) = read.index {
                note_index_line(&version.segment, column, read.only_node, (table, part));
            }
            for column in read.columns {
                note_row(&version.segment, (*column, row as usize), read.only_node, (table, part));
            }
            break;
        }
    }
}
