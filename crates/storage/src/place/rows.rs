//! Placing a range of rows of one column: moving the run of an IVP column that is hot, for instance.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use numa::{NodeId, Policy, Region};

use super::address;
use crate::GRANULE_ROWS;
use crate::column::Column;
use crate::error::{Interruption, StoreError};
use crate::kernels::words_for;
use crate::mover::{Mover, PlaceReport, move_error};
use crate::plain::PlainData;
use crate::table::TableVersion;

/// Moves the codes (or values) of some columns, of the whole granules that `rows` touch, to a node. Rows are those of
/// the table, deleted ones counted. Readers go on; dictionaries stay. What cannot move in place (segments of a few
/// pages) is left and counts as stuck: [`place`](super::place) copies it.
///
/// # Errors
/// [`StoreError::NotThere`] for a column or rows behind the last, [`StoreError::Replicated`],
/// [`StoreError::Memory`], and [`StoreError::Interrupted`] once `stop` says so; everything lies where it was then.
pub fn place_rows(
    version: &TableVersion,
    columns: Range<usize>,
    rows: Range<u64>,
    node: NodeId,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<PlaceReport, StoreError> {
    let count = version.schema.fields().len();
    if columns.end > count {
        return Err(StoreError::NotThere { what: "column", index: columns.end - 1, count });
    }
    let total: u64 = version.segments().map(|version| version.segment.rows() as u64).sum();
    if rows.start > rows.end || rows.end > total {
        return Err(StoreError::NotThere { what: "row", index: rows.end as usize, count: total as usize });
    }
    let mut pieces = Vec::new();
    let numbers = columns.clone();
    let mut first = 0;
    for version in version.segments() {
        let end = first + version.segment.rows() as u64;
        let from = rows.start.max(first);
        let to = rows.end.min(end);
        if from < to {
            let granules = (from - first) as usize / GRANULE_ROWS..((to - first) as usize).div_ceil(GRANULE_ROWS);
            let columns = columns.clone().map(|column| version.segment.column(column));
            pieces.extend(columns.zip(numbers.clone()).map(|(c, i)| (i, c.as_ref(), granules.clone())));
        }
        first = end;
    }
    if let Some((column, ..)) = pieces.iter().find(|(_, column, _)| column.is_replicated()) {
        return Err(StoreError::Replicated { column: version.schema.field(*column).name().clone() });
    }
    let mover = Mover::new(stop);
    let mut report = PlaceReport::default();
    let mut seen = HashSet::new();
    let done = pieces.into_iter().try_for_each(|(_, column, granules)| {
        place_granules(&mover, column, granules, &Policy::Node(node), &mut seen, &mut report)
    });
    done.inspect_err(|_| mover.restore())?;
    Ok(report)
}

fn place_granules(
    mover: &Mover<'_>,
    column: &Column,
    granules: Range<usize>,
    policy: &Policy,
    seen: &mut HashSet<usize>,
    report: &mut PlaceReport,
) -> Result<(), StoreError> {
    if (mover.stop)() {
        return Err(Interruption::Cancelled.into());
    }
    match column {
        Column::Coded(coded) => {
            let Some(region) = coded.codes().map(|copies| copies.first()) else { return Ok(()) };
            let size = 4 * words_for(GRANULE_ROWS, coded.bits());
            let bytes = granules.start * size..(granules.end * size).min(region.len());
            place_bytes(mover, region, bytes, policy, report)
        }
        Column::Plain(plain) => {
            for granule in granules {
                for piece in plain.pieces_of_granule(granule) {
                    let data = piece.data.first();
                    if seen.insert(address(data)) {
                        place_data(mover, data, policy, report)?;
                    }
                }
            }
            Ok(())
        }
        Column::RowIds(_) => Ok(()),
    }
}

fn place_data(
    mover: &Mover<'_>,
    data: &PlainData,
    policy: &Policy,
    report: &mut PlaceReport,
) -> Result<(), StoreError> {
    if let PlainData::Array(_) = data {
        report.stuck_bytes += data.bytes() as u64;
    }
    data.exchanged(&mut |region| {
        place_bytes(mover, region, 0..region.len(), policy, report)?;
        Ok::<_, StoreError>(Arc::clone(region))
    })?;
    Ok(())
}

fn place_bytes(
    mover: &Mover<'_>,
    region: &Arc<Region>,
    bytes: Range<usize>,
    policy: &Policy,
    report: &mut PlaceReport,
) -> Result<(), StoreError> {
    let whole = bytes == (0..region.len());
    if !region.is_movable() {
        let there = whole && region.policy() == *policy;
        *(if there { &mut report.already_bytes } else { &mut report.stuck_bytes }) += bytes.len() as u64;
        return Ok(());
    }
    mover.note(region);
    let stop: &dyn Fn() -> bool = &|| (mover.stop)();
    let moved = if whole { region.place(policy, stop) } else { region.place_range(bytes, policy, stop) };
    report.add_moved(moved.map_err(move_error)?);
    Ok(())
}
