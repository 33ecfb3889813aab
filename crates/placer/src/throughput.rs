//! What is read per second in the mean of some periods, and of which items: what a change is judged by.
//!
//! Invariant: what was read before a change and after it is compared only where the load is the same, by what each item
//! has of it.

use std::collections::BTreeMap;

use crate::limits::{BUSY_MIN, FULL_MIN, TRIAL_PERIODS, TRIAL_SHIFT_MAX, UNDO_ERRORS, UNDO_LOSS_MIN, USED_SHIFT_MAX};
use crate::plan::Loads;
use crate::{ItemId, Observation};

/// Since something changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throughput {
    /// Periods since then.
    periods: u32,
    /// Bytes per second, their variance, and how much of what nodes have that is.
    read: f64,
    variance: f64,
    used: f64,
    /// How much of what nodes have that is since the load became what it is, and of how many periods.
    used_long: (f64, u32),
    /// Of what was read, what each item had.
    shares: BTreeMap<ItemId, f64>,
    /// Periods in a row in which nodes had something to do.
    busy: u32,
}

/// What was read before a change.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    /// When that was.
    pub(crate) period: u64,
    /// Bytes per second.
    pub(crate) read: f64,
    periods: u32,
    shares: BTreeMap<ItemId, f64>,
}

impl Before {
    /// What these items had of what was read.
    pub(crate) fn share_of<'a>(&self, items: impl Iterator<Item = &'a ItemId>) -> f64 {
        items.filter_map(|id| self.shares.get(id)).sum()
    }
}

impl Throughput {
    /// Takes a period in.
    pub(crate) fn observe(&mut self, observation: &Observation, loads: &Loads) {
        let bytes: u64 = observation.items.iter().flat_map(|item| &item.served).sum();
        let now = bytes as f64 / observation.seconds;
        self.periods += 1;
        let weight = 1.0 / counted(self.periods);
        let away = now - self.read;
        self.read += away * weight;
        self.variance = (1.0 - weight) * (self.variance + weight * away * away);
        let used = used(observation);
        self.used += (used - self.used) * weight;
        let (long, periods) = self.used_long;
        self.used_long = match self.periods > TRIAL_PERIODS && (self.used - long).abs() > USED_SHIFT_MAX {
            true => (self.used, TRIAL_PERIODS),
            false => (long + (used - long) / f64::from(periods + 1), periods + 1),
        };
        for item in &observation.items {
            let share = item.served.iter().sum::<u64>() as f64 / bytes.max(1) as f64;
            let known = self.shares.entry(item.id).or_default();
            *known += (share - *known) * weight;
        }
        self.busy = if loads.mean() < BUSY_MIN { 0 } else { self.busy + 1 };
    }

    /// Something changes: what is read changes for that reason too.
    pub(crate) fn disturbed(&mut self) {
        self.periods = 0;
        self.used_long = (0.0, 0);
    }

    /// Periods since something changed.
    pub(crate) fn periods(&self) -> u32 {
        self.periods
    }

    /// Periods in a row in which nodes had something to do.
    pub(crate) fn busy(&self) -> u32 {
        self.busy
    }

    /// How much of what nodes have is used, in the mean of the last periods.
    pub(crate) fn used(&self) -> f64 {
        self.used
    }

    /// Whether nodes have some left: in the mean of the last periods, and of all since the load is what it is. Of loads
    /// that leave about as much as [`FULL_MIN`] says some periods are below it by chance.
    pub(crate) fn is_idle(&self) -> bool {
        self.used < FULL_MIN && self.used_long.0 < FULL_MIN
    }

    /// Bytes per second, in the same mean.
    pub(crate) fn read(&self) -> f64 {
        self.read
    }

    /// What is read as it is now, before something is changed.
    pub(crate) fn before(&self, period: u64) -> Before {
        Before { period, read: self.read, periods: self.periods, shares: self.shares.clone() }
    }

    /// Whether items have so much of the load as they had before.
    pub(crate) fn is_same_load(&self, before: &Before) -> bool {
        let ids = before.shares.keys().chain(self.shares.keys().filter(|id| !before.shares.contains_key(id)));
        let share = |of: &BTreeMap<ItemId, f64>, id: &ItemId| of.get(id).copied().unwrap_or(0.0);
        let moved = ids.map(|id| (share(&self.shares, id) - share(&before.shares, id)).abs());
        moved.sum::<f64>() / 2.0 < TRIAL_SHIFT_MAX
    }

    /// Whether clearly less is read than before.
    pub(crate) fn has_lost(&self, before: &Before) -> bool {
        let loss = before.read - self.read;
        loss > UNDO_LOSS_MIN * before.read && loss > UNDO_ERRORS * self.error(before)
    }

    /// The standard error of the difference between what is read now and before, in bytes per second, by how much
    /// periods differ now.
    fn error(&self, before: &Before) -> f64 {
        (self.variance / counted(self.periods) + self.variance / counted(before.periods)).sqrt()
    }
}

/// Of how many periods a mean is: the first one may have moves in it, and a longer past says little about now.
fn counted(periods: u32) -> f64 {
    f64::from(periods.saturating_sub(1).clamp(1, TRIAL_PERIODS))
}

/// How much of what nodes have was used, of what they have least left of. What long statements took is told at their
/// ends: a period by itself may have more than there is, several have not.
fn used(observation: &Observation) -> f64 {
    let bytes: u64 = observation.items.iter().flat_map(|item| &item.served).sum();
    let busy: f64 = observation.items.iter().flat_map(|item| &item.busy).sum();
    let with_cpus = observation.nodes.iter().filter(|node| node.cpus > 0.0);
    let bandwidth: f64 = with_cpus.map(|node| node.bandwidth).sum();
    let cpus: f64 = observation.nodes.iter().map(|node| node.cpus).sum();
    let of_memory = bytes as f64 / (bandwidth * observation.seconds).max(1.0);
    of_memory.max(busy / (cpus * observation.seconds).max(f64::MIN_POSITIVE))
}
