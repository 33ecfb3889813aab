//! [`Running`]: what an associative function makes of a partition's rows up to each of them.
//!
//! Frames that only grow need no tree: a frame's value stands at its last row. Tasks go over pieces of rows; a piece
//! that begins within a partition takes what the pieces before it made of it when it is asked, as sums do
//! (`sums::Prefix`).

use std::ops::Range;

use super::places::{OrderedRows, PIECE_BITS, PIECE_ROWS, filled};
use crate::ExecError;
use crate::tasks::run::Run;

/// See the module.
pub(super) struct Running<T, F> {
    /// By position: of the rows of its partition that are in its piece, up to it.
    within: Vec<T>,
    /// By piece: of the rows before it of the partition that it begins in.
    before: Vec<T>,
    join: F,
}

impl<T: Copy + Default + Send + Sync, F: Fn(T, T) -> T + Sync> Running<T, F> {
    /// Of the values by position, which `value` writes for some of them; the default joined with a value is that value.
    pub(super) fn new(
        run: &Run<'_>,
        ordered: &OrderedRows<'_>,
        value: &(dyn Fn(Range<usize>, &mut [T]) + Sync),
        join: F,
    ) -> Result<Running<T, F>, ExecError> {
        let within = filled(run, ordered.len(), &|range: Range<usize>, part: &mut [T]| {
            value(range.clone(), part);
            let mut rest = part;
            for rows in ordered.partitions_within(range) {
                let (rows, behind) = rest.split_at_mut(rows.len());
                let mut all = T::default();
                for value in rows {
                    all = join(all, *value);
                    *value = all;
                }
                rest = behind;
            }
            Ok(())
        })?;
        let mut before = vec![T::default()];
        for end in (PIECE_ROWS..within.len()).step_by(PIECE_ROWS) {
            let goes_on = ordered.partition_start(end) < end;
            let came_on = ordered.partition_start(end - 1) < end - PIECE_ROWS;
            before.push(match (goes_on, came_on) {
                (false, _) => T::default(),
                (true, false) => within[end - 1],
                (true, true) => join(before[before.len() - 1], within[end - 1]),
            });
        }
        Ok(Running { within, before, join })
    }

    /// Of the rows of a partition up to a frame's end, of which there is one at least.
    #[inline]
    pub(super) fn of(&self, frame: &Range<usize>) -> T {
        let last = frame.end - 1;
        let piece = last >> PIECE_BITS;
        match frame.start < piece << PIECE_BITS {
            true => (self.join)(self.before[piece], self.within[last]),
            false => self.within[last],
        }
    }
}
