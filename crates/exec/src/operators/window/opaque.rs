//! Aggregates over frames that this crate does not know: a tree of their states.
//!
//! An entry of a level is the state of [`FANOUT`] entries of the one below, the lowest of as many rows. A frame is put
//! together of some rows, then
//! entries of ever higher levels, then of lower ones, and rows again: always in the order of the rows, as functions
//! like `array_agg` want it. Frames of
//! consecutive rows are put together at once, a group each; equal ones are one group.
//!
//! Entries hold rows that no frame may hold together, so an error there is none of the statement's: the tree then ends
//! below.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use numa::Reservation;

use super::frames::{Ranges, WindowInput};
use super::places::{CHECK_ROWS, ColumnPieces, OrderedRows};
use super::sums::FrameValues;
use crate::ExecError;
use crate::chunk::vector::ColumnInfo;
use crate::operators::aggregate::column::{Column, Values};
use crate::plan::{AggregateCall, GroupedRows, OpaqueAggregate, OpaqueGroups};
use crate::tasks::run::Run;

/// Entries, or rows, that an entry of the level above is made of.
const FANOUT: usize = 32;
/// Entries that a task makes at a time.
const BLOCK_ENTRIES: usize = 512;
/// Rows that a function is given at a time.
const BATCH_ROWS: usize = 32_768;

/// An aggregate over the rows of a window.
struct States<'a> {
    run: &'a Run<'a>,
    ordered: &'a OrderedRows<'a>,
    call: &'a AggregateCall,
    function: &'a dyn OpaqueAggregate,
    filtered: FrameValues<'a>,
    /// The levels above the rows: the states of all their entries.
    levels: Vec<Level>,
}

/// The states of a level.
struct Level {
    arrays: Vec<ArrayRef>,
    entries: usize,
    _reservation: Reservation,
}

/// The values of the function.
pub(super) fn column(
    input: &WindowInput<'_>,
    call: &AggregateCall,
    function: &Arc<dyn OpaqueAggregate>,
) -> Result<ColumnPieces, ExecError> {
    let WindowInput { run, ordered, frames } = *input;
    let filtered = FrameValues::new(ordered, None, call.filter);
    let mut states = States { run, ordered, call, function: function.as_ref(), filtered, levels: Vec::new() };
    states.build()?;
    let info = ColumnInfo::plain(call.field.clone());
    ordered.in_pieces(run, &|piece| {
        let mut results = Vec::new();
        let mut batch = Batch::new(states.levels.len() + 1);
        let mut cursor = frames.cursor();
        ordered.each(piece, |place| {
            batch.add(cursor.at(place), &states.levels);
            if batch.is_full() {
                run.check()?;
                results.push(states.results(std::mem::replace(&mut batch, Batch::new(states.levels.len() + 1)))?);
            }
            Ok(())
        })?;
        results.push(states.results(batch)?);
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        Ok(Column::new(info.clone(), Values::Arrow(concat(&results)?), None))
    })
}

impl States<'_> {
    fn build(&mut self) -> Result<(), ExecError> {
        let mut below = self.ordered.len();
        while below > FANOUT {
            let entries = below.div_ceil(FANOUT);
            let blocks = self.run.map(entries.div_ceil(BLOCK_ENTRIES), &|block| {
                let block = block * BLOCK_ENTRIES..((block + 1) * BLOCK_ENTRIES).min(entries);
                Ok(self.block(block, below).ok())
            })?;
            let Some(blocks) = blocks.into_iter().collect::<Option<Vec<Vec<ArrayRef>>>>() else { return Ok(()) };
            let arrays = (0..blocks[0].len()).map(|c| {
                let parts: Vec<&dyn Array> = blocks.iter().map(|block| block[c].as_ref()).collect();
                Ok(concat(&parts)?)
            });
            let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, ExecError>>()?;
            if arrays.iter().any(|array| array.len() != entries) {
                // A function whose state is not an entry per group cannot be taken apart.
                return Ok(());
            }
            let bytes = arrays.iter().map(|a| crate::charge::array_bytes(a.as_ref())).sum();
            self.levels.push(Level { arrays, entries, _reservation: self.run.reserve(bytes)? });
            below = entries;
        }
        Ok(())
    }

    /// The states of some entries of the level above `self.levels`, which has `below` entries or rows.
    fn block(&self, entries: Range<usize>, below: usize) -> Result<Vec<ArrayRef>, ExecError> {
        let mut groups = self.function.groups()?;
        let from = entries.start * FANOUT..(entries.end * FANOUT).min(below);
        let of: Vec<usize> = from.clone().map(|entry| entry / FANOUT - entries.start).collect();
        match self.levels.last() {
            None => self.update(groups.as_mut(), &from.map(|p| p as u32).collect::<Vec<_>>(), &of, entries.len())?,
            Some(level) => {
                let arrays: Vec<ArrayRef> = level.arrays.iter().map(|a| a.slice(from.start, from.len())).collect();
                groups.merge(&arrays, &of, entries.len())?;
            }
        }
        groups.state()
    }

    /// Gives the function the rows at some positions.
    fn update(
        &self,
        groups: &mut dyn OpaqueGroups,
        positions: &[u32],
        of: &[usize],
        total: usize,
    ) -> Result<(), ExecError> {
        for (positions, of) in positions.chunks(BATCH_ROWS).zip(of.chunks(BATCH_ROWS)) {
            self.run.check()?;
            let rows: Vec<u32> = positions.iter().map(|&p| self.ordered.order[p as usize]).collect();
            let arrays = self.call.arguments.iter().map(|&argument| {
                let (info, vector) = self.ordered.column(argument);
                info.to_arrow(&vector.take(&rows, false))
            });
            let arrays: Vec<ArrayRef> = arrays.collect();
            let filter: Option<BooleanArray> =
                (!self.filtered.all()).then(|| positions.iter().map(|&p| Some(self.filtered.is(p as usize))).collect());
            groups.update(&arrays, GroupedRows { groups: of, filter: filter.as_ref(), total })?;
        }
        Ok(())
    }

    /// The results of the rows of a batch.
    fn results(&self, batch: Batch) -> Result<ArrayRef, ExecError> {
        let total = batch.frames.len();
        if total == 0 {
            return Ok(new_empty_array(self.function.data_type()));
        }
        let mut groups = self.function.groups()?;
        let arguments = self.call.arguments.iter().map(|&a| self.ordered.column(a).0.data_type());
        let none: Vec<ArrayRef> = arguments.map(new_empty_array).collect();
        groups.update(&none, GroupedRows::none(total))?;
        for parts in &batch.parts {
            let (first, rest) = parts.split_first().expect("there is a level of rows");
            self.update(groups.as_mut(), &first.entries[0], &first.groups[0], total)?;
            let upwards = rest.iter().enumerate().map(|(level, part)| (level, part, 0));
            let downwards = rest.iter().enumerate().rev().map(|(level, part)| (level, part, 1));
            for (level, part, side) in upwards.chain(downwards) {
                if part.entries[side].is_empty() {
                    continue;
                }
                let entries = UInt32Array::from(part.entries[side].clone());
                let arrays = self.levels[level].arrays.iter().map(|a| take(a, &entries, None));
                let arrays: Vec<ArrayRef> = arrays.collect::<Result<_, _>>()?;
                groups.merge(&arrays, &part.groups[side], total)?;
            }
            self.update(groups.as_mut(), &first.entries[1], &first.groups[1], total)?;
        }
        let results = groups.finish()?;
        if results.len() != total {
            let name = self.call.field.name();
            return Err(ExecError::Evaluation(format!("{name} gave {} results for {total} frames", results.len())));
        }
        Ok(take(&results, &UInt32Array::from(batch.of_row), None)?)
    }
}

/// Entries of a level that frames are made of, before and behind the higher levels', and whose they are.
#[derive(Default, Clone)]
struct FramePart {
    entries: [Vec<u32>; 2],
    groups: [Vec<usize>; 2],
}

/// Frames that are put together at once.
struct Batch {
    frames: Vec<Ranges>,
    /// Which of the frames each row has.
    of_row: Vec<u32>,
    /// By range of a frame and level, the rows' first.
    parts: [Vec<FramePart>; 3],
    rows: usize,
}

impl Batch {
    fn new(levels: usize) -> Batch {
        let parts = || vec![FramePart::default(); levels];
        Batch { frames: Vec::new(), of_row: Vec::new(), parts: [parts(), parts(), parts()], rows: 0 }
    }

    fn is_full(&self) -> bool {
        self.of_row.len() >= CHECK_ROWS || self.rows >= BATCH_ROWS
    }

    /// Takes in the frame of the next row.
    fn add(&mut self, ranges: Ranges, levels: &[Level]) {
        if self.frames.last() != Some(&ranges) {
            let group = self.frames.len();
            for (number, range) in ranges.parts().iter().enumerate() {
                self.split(number, range.clone(), group, levels);
            }
            self.frames.push(ranges);
        }
        self.of_row.push(self.frames.len() as u32 - 1);
    }

    fn split(&mut self, number: usize, range: Range<usize>, group: usize, levels: &[Level]) {
        let Range { mut start, mut end } = range;
        for level in 0..=levels.len() {
            let is_last = end - start <= 2 * FANOUT || levels.get(level).is_none_or(|above| above.entries < 2);
            let (first, last) = match is_last {
                true => (end, end),
                false => (start.next_multiple_of(FANOUT), end - end % FANOUT),
            };
            for (side, entries) in [start..first, last..end].into_iter().enumerate() {
                self.rows += entries.len();
                let part = &mut self.parts[number][level];
                part.groups[side].resize(part.groups[side].len() + entries.len(), group);
                part.entries[side].extend(entries.map(|entry| entry as u32));
            }
            if is_last {
                return;
            }
            (start, end) = (first / FANOUT, last / FANOUT);
        }
    }
}
