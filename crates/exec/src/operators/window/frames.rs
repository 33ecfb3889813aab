//! [`Frames`]: which rows a function is over, for one row after the other.
//!
//! Rows are named by their position in the order of the window. Both ends of a frame only move forward within a
//! partition, so ends by
//! distance are found by going on from where the last row's were.

use std::ops::Range;

use super::distance::{Distances, End, EndCursor};
use super::places::{OrderedRows, RowPlace};
use crate::ExecError;
use crate::plan::{Frame, FrameBound, FrameExclusion, FrameOffset, FrameUnits, SortKey};
use crate::tasks::run::Run;

/// What functions over frames are evaluated on.
#[derive(Clone, Copy)]
pub(super) struct WindowInput<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) ordered: &'a OrderedRows<'a>,
    pub(super) frames: &'a Frames<'a>,
}

/// Consecutive positions, at most three times: a frame without what is excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranges {
    ranges: [Range<usize>; 3],
    count: usize,
}

impl Ranges {
    fn one(range: Range<usize>) -> Ranges {
        let count = usize::from(range.start < range.end);
        Ranges { ranges: [range, 0..0, 0..0], count }
    }

    fn push(&mut self, range: Range<usize>) {
        if range.start < range.end {
            self.ranges[self.count] = range;
            self.count += 1;
        }
    }

    /// Those that are not empty, in order.
    #[inline]
    pub(super) fn parts(&self) -> &[Range<usize>] {
        &self.ranges[..self.count]
    }

    /// The position of a row by its number from 0.
    pub(super) fn nth(&self, mut number: usize) -> Option<usize> {
        for range in self.parts() {
            if number < range.len() {
                return Some(range.start + number);
            }
            number -= range.len();
        }
        None
    }
}

/// The frames of all rows.
pub(super) struct Frames<'a> {
    ordered: &'a OrderedRows<'a>,
    frame: Frame,
    start: Option<Distances>,
    end: Option<Distances>,
}

impl<'a> Frames<'a> {
    /// Of a window with this order.
    pub(super) fn new(
        run: &Run<'_>,
        ordered: &'a OrderedRows<'a>,
        order: &[SortKey],
        frame: Frame,
    ) -> Result<Frames<'a>, ExecError> {
        let of = |bound: FrameBound, end: End| -> Result<Option<Distances>, ExecError> {
            let (offset, preceding) = match bound {
                FrameBound::Preceding(offset) => (offset, true),
                FrameBound::Following(offset) => (offset, false),
                _ => return Ok(None),
            };
            match (frame.units, order) {
                (FrameUnits::Range, [key]) => Distances::new(run, ordered, *key, offset, preceding, end).map(Some),
                _ => Ok(None),
            }
        };
        Ok(Frames { ordered, frame, start: of(frame.start, End::Start)?, end: of(frame.end, End::End)? })
    }

    /// Are frames of a partition such that each holds all rows of the one before it?
    pub(super) fn only_grow(&self) -> bool {
        // By months an end may go back.
        let ahead = matches!(self.frame.end, FrameBound::CurrentRow | FrameBound::UnboundedFollowing);
        matches!(self.frame.start, FrameBound::UnboundedPreceding)
            && ahead
            && self.frame.exclusion == FrameExclusion::NoOthers
    }

    /// Goes through frames from some row on.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { frames: self, start: EndCursor::default(), end: EndCursor::default() }
    }
}

/// Goes through the frames of consecutive rows.
pub(super) struct Cursor<'a> {
    frames: &'a Frames<'a>,
    start: EndCursor,
    end: EndCursor,
}

impl Cursor<'_> {
    /// The rows that count for a row; rows are asked for in order.
    #[inline]
    pub(super) fn at(&mut self, place: &RowPlace) -> Ranges {
        let frame = self.whole(place);
        let peers = &place.peers;
        let mut ranges = match self.frames.frame.exclusion {
            FrameExclusion::NoOthers => return Ranges::one(frame),
            FrameExclusion::CurrentRow => Ranges::one(frame.start..frame.end.min(place.row)),
            FrameExclusion::Group | FrameExclusion::Ties => Ranges::one(frame.start..frame.end.min(peers.start)),
        };
        match self.frames.frame.exclusion {
            FrameExclusion::CurrentRow => ranges.push(frame.start.max(place.row + 1)..frame.end),
            exclusion => {
                if exclusion == FrameExclusion::Ties && frame.contains(&place.row) {
                    ranges.push(place.row..place.row + 1);
                }
                ranges.push(frame.start.max(peers.end)..frame.end);
            }
        }
        ranges
    }

    fn whole(&mut self, place: &RowPlace) -> Range<usize> {
        let frame = &self.frames.frame;
        let (partition, peers) = (&place.partition, &place.peers);
        let by_rows = frame.units == FrameUnits::Rows;
        let count = |offset: FrameOffset| match offset {
            FrameOffset::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => unreachable!("a plan that is valid counts rows and groups"),
        };
        let groups = &self.frames.ordered.peers;
        // Where a group of the partition begins; behind its last one the partition ends.
        let group = |number: usize| groups[number.min(place.groups.end)] as usize;
        let start = match (frame.start, &self.frames.start) {
            (FrameBound::UnboundedPreceding, _) => partition.start,
            (FrameBound::UnboundedFollowing, _) => partition.end,
            (FrameBound::CurrentRow, _) => {
                if by_rows {
                    place.row
                } else {
                    peers.start
                }
            }
            (_, Some(distances)) => distances.of(place, &mut self.start),
            (FrameBound::Preceding(offset), None) if by_rows => {
                place.row.saturating_sub(count(offset)).max(partition.start)
            }
            (FrameBound::Following(offset), None) if by_rows => {
                place.row.saturating_add(count(offset)).min(partition.end)
            }
            (FrameBound::Preceding(offset), None) => {
                group(place.group.saturating_sub(count(offset)).max(place.groups.start))
            }
            (FrameBound::Following(offset), None) => group(place.group.saturating_add(count(offset))),
        };
        let end = match (frame.end, &self.frames.end) {
            (FrameBound::UnboundedFollowing, _) => partition.end,
            (FrameBound::UnboundedPreceding, _) => partition.start,
            (FrameBound::CurrentRow, _) => {
                if by_rows {
                    place.row + 1
                } else {
                    peers.end
                }
            }
            (_, Some(distances)) => distances.of(place, &mut self.end),
            (FrameBound::Preceding(offset), None) if by_rows => {
                (place.row + 1).saturating_sub(count(offset)).max(partition.start)
            }
            (FrameBound::Following(offset), None) if by_rows => {
                (place.row + 1).saturating_add(count(offset)).min(partition.end)
            }
            (FrameBound::Preceding(offset), None) => {
                group((place.group + 1).saturating_sub(count(offset)).max(place.groups.start))
            }
            (FrameBound::Following(offset), None) => group((place.group + 1).saturating_add(count(offset))),
        };
        start..end.max(start)
    }
}
