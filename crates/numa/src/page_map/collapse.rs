//! Collapses runs of bytes on one node, given in ascending order, into few ranges: neighbours on one node are joined,
//! and runs that alternate between nodes in a fixed cycle become one interleaved range.
//!
//! A cycle is seen once it came twice in full; then it also takes what fits of the run before it, and goes on for as
//! long as what follows fits. What was given comes out again exactly: a range says the same as the runs it stands for.
//!
//! # Limits
//! Cycles of more than [`STEPS_MAX`] steps stay single ranges. A run costs up to as many comparisons while no cycle is
//! open.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (detecting an interleaving pattern).

use std::ops::Range;
use std::sync::Arc;

use super::interleaving::{Interleaving, PageRange};
use crate::ids::NodeId;

/// The longest cycle looked for, in steps: one for each node of the largest machines that are interleaved over.
const STEPS_MAX: usize = 64;

/// See the module.
pub(super) struct Collapse {
    /// What is finished: sorted, disjoint.
    done: Vec<PageRange>,
    /// The run that the next piece may still continue.
    last: Option<(Range<usize>, NodeId)>,
    /// How many ranges at the end of `done` are single runs that touch each other.
    touching: usize,
    /// For each cycle length in steps: how many of the last runs equal the run `n` before them.
    repeats: [u32; STEPS_MAX + 1],
}

impl Collapse {
    pub(super) fn new() -> Collapse {
        Collapse { done: Vec::new(), last: None, touching: 0, repeats: [0; STEPS_MAX + 1] }
    }

    /// Adds a piece behind all others.
    pub(super) fn push(&mut self, piece: Range<usize>, node: NodeId) {
        match &mut self.last {
            Some((run, on)) if run.end == piece.start && *on == node => run.end = piece.end,
            _ => {
                self.flush();
                self.last = Some((piece, node));
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<PageRange> {
        self.flush();
        self.done
    }

    fn flush(&mut self) {
        let Some((mut run, node)) = self.last.take() else { return };
        if let Some(open) = self.done.last_mut().filter(|r| r.end == run.start)
            && let Some(cycle) = &open.interleaving
        {
            let (expected, end) = cycle.at(run.start);
            if expected == node {
                open.end = end.min(run.end);
                run.start = open.end;
            }
        }
        if run.is_empty() {
            return;
        }
        if self.done.last().is_none_or(|r| r.end != run.start || r.interleaving.is_some()) {
            self.forget();
        }
        self.done.push(PageRange::one(run, node));
        self.touching += 1;
        self.look_for_cycle();
    }

    fn forget(&mut self) {
        self.touching = 0;
        self.repeats = [0; STEPS_MAX + 1];
    }

    /// Replaces the last runs by one interleaved range where they are two turns of one cycle.
    fn look_for_cycle(&mut self) {
        let newest = self.done.len() - 1;
        let same = |a: &PageRange, b: &PageRange| a.node == b.node && a.end - a.start == b.end - b.start;
        for steps in 2..=STEPS_MAX.min(self.touching - 1) {
            let repeats = &mut self.repeats[steps];
            *repeats = if same(&self.done[newest], &self.done[newest - steps]) { *repeats + 1 } else { 0 };
            if *repeats as usize >= steps {
                let first = self.done.len() - 2 * steps;
                let cycle: Vec<(NodeId, usize)> =
                    self.done[first..first + steps].iter().map(|r| (r.node, r.end - r.start)).collect();
                let bytes = self.done[first].start..self.done[newest].end;
                self.done.truncate(first);
                let cycle = Arc::new(Interleaving::new(bytes.start, &cycle));
                self.put_cycle(PageRange::alternating(bytes, cycle));
                return self.forget();
            }
        }
    }

    /// Puts an interleaved range behind the others, with what fits of the runs before it.
    fn put_cycle(&mut self, mut range: PageRange) {
        let Some(cycle) = range.interleaving.clone() else { return };
        while let Some(before) = self.done.last_mut().filter(|r| r.end == range.start && r.interleaving.is_none()) {
            let last_byte = range.start - 1;
            if cycle.at(last_byte).0 != before.node {
                break;
            }
            let start = cycle.step_start(last_byte).max(before.start);
            range = PageRange::alternating(start..range.end, cycle.clone());
            if start > before.start {
                before.end = start;
                break;
            }
            self.done.pop();
        }
        match self.done.last_mut() {
            Some(last) if last.continues_in(&range) => last.end = range.end,
            _ => self.done.push(range),
        }
    }
}
