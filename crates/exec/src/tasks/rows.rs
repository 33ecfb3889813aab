//! The account of rows that a caller's thread reads by their places, without a plan.

use std::sync::Arc;

use sched::Statement;
use storage::{GRANULE_ROWS, TableVersion};

use crate::tasks::traffic::{Item, LINE_BYTES, Task, TouchPhase, TouchedComponent, Traffic, note};

/// Says that this thread reads `columns` of rows of a table, each given by the place of its segment among
/// [`TableVersion::segments`] and its place in the segment: a line each of the codes, or of the values of a plain column.
pub fn account_rows(
    traffic: &Arc<Traffic>,
    statement: &Arc<Statement>,
    name: &Arc<str>,
    version: &TableVersion,
    columns: &[usize],
    rows: impl Iterator<Item = (usize, u32)>,
) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _task = Task::begin(traffic, statement, None);
    let table = traffic.table(name, &version.schema);
    for (place, row) in rows {
        let mut before = 0;
        for (part, segments) in version.parts.iter().enumerate() {
            let Some(segment) = place.checked_sub(before).and_then(|place| segments.segments.get(place)) else {
                before += segments.segments.len();
                continue;
            };
            for column in columns {
                let Some(node) = segment.segment.column(*column).placed_node(row as usize / GRANULE_ROWS) else {
                    continue;
                };
                let component = TouchedComponent::Codes;
                let item = Item { table, column: *column as u32, part: part as u32, component };
                note(item, TouchPhase::Materialize, node, LINE_BYTES);
            }
            break;
        }
    }
}
