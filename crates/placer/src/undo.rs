//! Plans after which clearly less is read than before go back.
//!
//! What a plan for a hot node predicts is what nodes would give; what statements get of it is seen afterwards. Where
//! the load is the same and less is read, by [`crate::limits::UNDO_LOSS_MIN`] and well beyond what periods differ by,
//! all of the plan goes back, and is not decided again with this load. Less may be read for another reason, fewer
//! clients say: then going back does not help, the plan is allowed again, and its items are not watched any more.
//!
//! # Limits
//! Where something else is decided before it can be seen, nothing is known of either.

use std::collections::BTreeMap;

use crate::limits::{LOST_MAX, PLAN_GAIN_MIN, REMEMBERED_PERIODS, UNBALANCED_PERIODS, UNDO_PERIODS};
use crate::throughput::{Before, Throughput};
use crate::{Decision, ItemId};

/// An item that was moved: from where, to where.
pub(crate) type Moved = (ItemId, Vec<usize>, Vec<usize>);

/// What is watched.
#[derive(Clone, Debug)]
enum Watched {
    /// A plan.
    Plan(Before, Vec<Moved>),
    /// One that went back, and the bytes per second from which on that has helped.
    Back(Before, Vec<Moved>, f64),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Undo {
    watched: Option<Watched>,
    /// Loads with which a plan lost.
    lost: Vec<Before>,
    /// Items with which less was read for another reason, and since when that is known.
    cleared: BTreeMap<ItemId, u64>,
}

impl Undo {
    /// Something else was decided.
    pub(crate) fn disturbed(&mut self) {
        self.watched = None;
    }

    /// Whether a plan may be made for a load: none lost with it.
    pub(crate) fn may_plan(&self, throughput: &Throughput, period: u64) -> bool {
        !self.lost.iter().any(|lost| period < lost.period + REMEMBERED_PERIODS && throughput.is_same_load(lost))
    }

    /// A plan is carried out.
    pub(crate) fn begun(&mut self, decisions: &[Decision], throughput: &Throughput, period: u64) {
        let is_cleared = |id: &ItemId| self.cleared.get(id).is_some_and(|at| period < at + REMEMBERED_PERIODS);
        if throughput.periods() < UNBALANCED_PERIODS || decisions.iter().any(|of| is_cleared(&of.item)) {
            return;
        }
        let items = decisions.iter().map(|of| (of.item, of.from.clone(), of.to.clone())).collect();
        self.watched = Some(Watched::Plan(throughput.before(period), items));
    }

    fn remember(&mut self, before: Before) {
        self.lost.truncate(LOST_MAX - 1);
        self.lost.insert(0, before);
    }

    /// What is to go back, as less is read with it, and what is read of what was, as a part.
    pub(crate) fn lost(&mut self, throughput: &Throughput, period: u64) -> (Vec<Moved>, f64) {
        let nothing = (Vec::new(), 1.0);
        let Some(Watched::Plan(before, _) | Watched::Back(before, ..)) = &self.watched else { return nothing };
        if period < before.period + u64::from(UNDO_PERIODS) || throughput.periods() < UNDO_PERIODS {
            return nothing;
        }
        let read = throughput.read();
        match self.watched.take() {
            Some(Watched::Plan(before, items)) if throughput.is_same_load(&before) => {
                if !throughput.has_lost(&before) {
                    // What gained nothing stays, but more of the same gains nothing either.
                    if read - before.read < PLAN_GAIN_MIN * before.read {
                        self.remember(before);
                    }
                    return nothing;
                }
                let half = (before.read + read) / 2.0;
                let of_before = read / before.read;
                self.watched = Some(Watched::Back(throughput.before(period), items.clone(), half));
                self.remember(before);
                (items, of_before)
            }
            Some(Watched::Back(before, items, half)) if throughput.is_same_load(&before) && read < half => {
                self.lost.retain(|lost| !throughput.is_same_load(lost));
                self.cleared.extend(items.into_iter().map(|(id, ..)| (id, period)));
                nothing
            }
            _ => nothing,
        }
    }
}
