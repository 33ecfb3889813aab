//! Placing stored columns anew while others read them.
//!
//! A [`Unit`] is what moves as a whole: the codes of a segment, a dictionary, the data of a piece. How its memory moves
//! is [`mover`](crate::mover)'s; here is what is to move, and the columns that come of it.
//!
//! # Invariants
//! - A region or dictionary that columns share is one unit, and what becomes of it is shared by the same columns.
//! - All or nothing: before a region moves, where it was is noted; after an error or a stop everything is put back and
//!   what was copied is dropped.
//!
//! # Limits
//! Arrays that are kept as arrow made them do not move: their bytes count as stuck. Putting back is best effort, as the
//! nodes may have filled up meanwhile. The bitmaps of deleted rows stay where they are.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (moving and partitioning columns).

mod rows;
mod unit;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use numa::{Allocator, NodeId, Region};

use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::Dictionary;
use crate::error::{Interruption, StoreError};
use crate::index::Index;
use crate::mover::{Mover, PlaceReport};
use crate::parallel::{Parallel, map};
use crate::placement::{ColumnAllocator, ColumnPlacement, Placement};
use crate::plain::PlainData;
use crate::segment::{Part, Segment, SegmentVersion, StoredColumn};
use crate::table::TableVersion;
use crate::types::Physical;
pub use rows::place_rows;
use unit::{Unit, units_of};

/// Places the columns of `version` (of one part, or of all) as `columns` says, one item per column; `None` leaves a
/// column where it is. Readers of other versions see the same memory, moved, and are never blocked. Copies count in the
/// budget of `allocator`. The work is spread over `parallel`, near the nodes that are written; `stop` is asked every
/// few mebibytes.
///
/// # Errors
/// [`StoreError::NotThere`] for the part, [`StoreError::Memory`], and [`StoreError::Interrupted`] once `stop` says so
/// or the threads stop; everything lies where it was then.
pub fn place(
    version: &TableVersion,
    columns: &[Option<ColumnPlacement>],
    part: Option<usize>,
    allocator: &Allocator,
    parallel: &dyn Parallel,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(TableVersion, PlaceReport), StoreError> {
    let count = version.parts.len();
    if let Some(index) = part.filter(|&part| part >= count) {
        return Err(StoreError::NotThere { what: "part", index, count });
    }
    let none = vec![None; columns.len()];
    let of_part = |i: usize| if part.is_none_or(|part| part == i) { columns.to_vec() } else { none.clone() };
    let parts: Vec<_> = (0..count).map(of_part).collect();
    place_parts(version, &parts, allocator, parallel, stop)
}

/// As [`place`], with placements for each part: `parts[part][column]`. All parts or none.
///
/// # Errors
/// As [`place`].
pub fn place_parts(
    version: &TableVersion,
    parts: &[Vec<Option<ColumnPlacement>>],
    allocator: &Allocator,
    parallel: &dyn Parallel,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(TableVersion, PlaceReport), StoreError> {
    assert_eq!(parts.len(), version.parts.len(), "placements for each part");
    let columns = version.schema.fields().len();
    assert!(parts.iter().all(|part| part.len() == columns), "one placement per column");
    let wishes = parts.iter().map(|part| part.iter().map(|p| p.as_ref().map(|p| (p, allocator))).collect());
    let parts: Vec<(&Part, Vec<Wish<'_>>)> = version.parts.iter().map(|part| part.as_ref()).zip(wishes).collect();
    let (placed, report) = placed(&parts, parallel, stop)?;
    Ok((version.with_parts(placed.into_iter().map(Arc::new).collect()), report))
}

/// The part that was just built, where its allocators say: what moved into columns without a copy is moved, copies are
/// made.
pub(crate) fn settled(part: Part, allocators: &[ColumnAllocator], parallel: &dyn Parallel) -> Result<Part, StoreError> {
    let Some(first) = part.segments.first() else { return Ok(part) };
    let columns = first.segment.columns().zip(allocators);
    let wish = |(column, of): (&Arc<Column>, _)| wish_for_settling(column, of);
    let wishes: Vec<Wish<'_>> = columns.map(wish).collect();
    if wishes.iter().all(Option::is_none) {
        return Ok(part);
    }
    let (mut parts, _) = placed(&[(&part, wishes)], parallel, &|| false)?;
    Ok(parts.swap_remove(0))
}

fn wish_for_settling<'a>(column: &Column, of: &'a ColumnAllocator) -> Wish<'a> {
    let ColumnPlacement { codes, dictionary, .. } = &of.placement;
    let staged = matches!(column, Column::Plain(plain) if Physical::of(plain.data_type()) == Physical::Bytes);
    let wanted = codes.replicas().is_some() || dictionary.replicas().is_some() || staged && *codes != Placement::Local;
    wanted.then_some((&of.placement, &of.allocator))
}

/// What is to become of a column: how it shall lie and whose budget copies count in.
type Wish<'a> = Option<(&'a ColumnPlacement, &'a Allocator)>;

/// Components that are not what they were, by the address of what they replace.
#[derive(Default)]
struct Replacements {
    codes: HashMap<usize, Copies<Arc<Region>>>,
    dictionaries: HashMap<usize, Arc<Dictionary>>,
    values: HashMap<usize, Copies<Arc<PlainData>>>,
    indexes: HashMap<usize, Arc<Index>>,
}

fn placed(
    parts: &[(&Part, Vec<Wish<'_>>)],
    parallel: &dyn Parallel,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(Vec<Part>, PlaceReport), StoreError> {
    let units = units_of(parts);
    let nodes: Vec<Option<NodeId>> = units.iter().map(Unit::node).collect();
    let mover = Mover::new(stop);
    let replaced = Mutex::new(Replacements::default());
    let reports = map(parallel, units, &|i| nodes[i], &|unit: Unit<'_>| unit.place(&mover, &replaced));
    // A stop that came with the last move counts too: whoever asked sees the old placement.
    let reports = match reports {
        Ok(_) if stop() => Err(Interruption::Cancelled.into()),
        other => other,
    };
    let reports = reports.inspect_err(|_| mover.restore())?;
    let mut report = PlaceReport::default();
    reports.iter().for_each(|one| report.add(one));
    let replaced = replaced.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((parts.iter().map(|(part, wishes)| replaced.apply(part, wishes)).collect(), report))
}

impl Replacements {
    fn apply(&self, part: &Part, wishes: &[Wish<'_>]) -> Part {
        let segments = part.segments.iter().map(|version| {
            let columns = version.segment.stored_columns().iter().enumerate();
            let columns: Vec<StoredColumn> = columns
                .map(|(i, stored)| {
                    let wished = wishes.get(i).copied().flatten().and_then(|_| stored.resident());
                    wished.and_then(|column| self.column(column)).map_or_else(|| stored.clone(), StoredColumn::Resident)
                })
                .collect();
            let of_column = |(i, index): (usize, &Option<Arc<Index>>)| {
                let index = index.as_ref()?;
                let placed = wishes.get(i).copied().flatten().and_then(|_| self.indexes.get(&address(index)));
                Some(Arc::clone(placed.unwrap_or(index)))
            };
            let indexes: Vec<_> = version.segment.indexes().iter().enumerate().map(of_column).collect();
            let kept = columns.iter().zip(version.segment.stored_columns()).all(|(new, old)| new.is(old))
                && indexes.iter().zip(version.segment.indexes()).all(|(new, old)| match (new, old) {
                    (Some(new), Some(old)) => Arc::ptr_eq(new, old),
                    _ => true,
                });
            let segment = if kept {
                Arc::clone(&version.segment)
            } else {
                Arc::new(Segment::indexed(version.segment.rows(), columns, indexes))
            };
            SegmentVersion { segment, deleted: version.deleted.clone() }
        });
        Part { segments: segments.collect() }
    }

    /// The column with what was replaced, if anything was.
    fn column(&self, column: &Column) -> Option<Arc<Column>> {
        match column {
            Column::Coded(coded) => {
                let codes = coded.codes().and_then(|copies| self.codes.get(&address(copies.first())));
                let dictionary = self.dictionaries.get(&address(coded.dictionary()));
                if codes.is_none() && dictionary.is_none() {
                    return None;
                }
                let codes = codes.or(coded.codes()).cloned();
                let dictionary = dictionary.unwrap_or(coded.dictionary());
                Some(Arc::new(Column::Coded(coded.moved(codes, Arc::clone(dictionary)))))
            }
            Column::Plain(plain) => {
                let new = |data: &Copies<Arc<PlainData>>| self.values.get(&address(data.first()));
                if plain.pieces().iter().all(|piece| new(&piece.data).is_none()) {
                    return None;
                }
                Some(Arc::new(Column::Plain(plain.moved(|data| new(data).unwrap_or(data).clone()))))
            }
            Column::RowIds(_) => None,
        }
    }
}

/// What identifies a shared component while a version holds it.
fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared) as usize
}
