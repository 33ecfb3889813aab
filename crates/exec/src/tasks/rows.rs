//! The account of rows that a caller's thread reads by their places, without a plan.

use std::cell::RefCell;
use std::time::Instant;

use numa::NodeId;
use sched::{Statement, report_bytes};
use storage::TableVersion;

use crate::tasks::counter::{index_line, row_lines};
use crate::tasks::traffic::{Line, Traffic, add_line};

/// What is read of rows that were found by a key.
#[derive(Debug, Clone, Copy)]
pub struct RowsRead<'a> {
    /// What the table is called.
    pub name: &'a str,
    /// The table.
    pub version: &'a TableVersion,
    /// The column in whose index they were looked up, if they were.
    pub index: Option<usize>,
    /// The columns that are read of them.
    pub columns: &'a [usize],
    /// The machine's node, if it has only one.
    pub only_node: Option<NodeId>,
    /// When looking them up began.
    pub since: Instant,
}

thread_local! {
    /// Lines of the rows that the thread accounts for: what is told of a row must cost less than reading it does.
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Says that this thread has read rows of a table, each given by the place of its segment among
/// [`TableVersion::segments`] and its place in the segment: a line each of the index, of the codes (or the values of a
/// plain column), and of the dictionary.
pub fn account_rows(
    traffic: &Traffic,
    statement: &Statement,
    read: &RowsRead<'_>,
    rows: impl Iterator<Item = (usize, u32)>,
) {
    LINES.with_borrow_mut(|lines| {
        lines.clear();
        for row in rows {
            lines_of(read, row, lines);
        }
        if lines.is_empty() {
            return;
        }
        for line in lines.iter() {
            report_bytes(statement, line.from, line.bytes);
        }
        traffic.add_of_table((read.name, &read.version.schema), lines, read.since.elapsed().as_nanos() as u64);
    });
}

/// Adds what a row reads to `lines`; the table has no number in them.
fn lines_of(read: &RowsRead<'_>, (place, row): (usize, u32), lines: &mut Vec<Line>) {
    let lines = RefCell::new(lines);
    let add = |line: Line| add_line(&mut lines.borrow_mut(), line);
    let mut before = 0;
    for (segments, part) in read.version.parts.iter().zip(0..) {
        let Some(version) = place.checked_sub(before).and_then(|place| segments.segments.get(place)) else {
            before += segments.segments.len();
            continue;
        };
        if let Some(column) = read.index {
            index_line(&version.segment, column, read.only_node, (0, part), &add);
        }
        for column in read.columns {
            row_lines(&version.segment, (*column, row as usize), read.only_node, (0, part), &add);
        }
        return;
    }
}
