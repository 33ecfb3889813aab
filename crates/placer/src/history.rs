//! What is remembered of an item from period to period.

use std::collections::BTreeMap;

use crate::limits::{
    APART_BELOW, CHANGED, COLD_MAX, COLD_PERIODS, REMEMBERED_PERIODS, REST_PERIODS, RETURN_PERIODS, SLIGHT_PERIODS,
    SMOOTHING, TOGETHER_MIN, WRITTEN_MIN,
};
use crate::{Item, ItemId, Lies, Node, Observation};

/// What nodes have to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Bytes per second of their memory.
    Memory,
    /// Time of their cpus.
    Cpus,
}

/// Bytes per second that were read of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reads {
    pub(crate) all: f64,
    /// Those by cpus of other nodes.
    pub(crate) remote: f64,
    /// Of these those of its dictionary.
    pub(crate) dictionary: f64,
}

/// Of one item.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What it takes per second, smoothed: bytes of memory, seconds of cpus.
    load: [f64; 2],
    /// The same in the mean of the last periods in which nothing was moved.
    mean: [f64; 2],
    /// Periods in a row in which it was cold.
    cold: u32,
    /// What was read of it per second, in the same mean as `mean`.
    read: Reads,
    /// Periods in a row in which it was written, or was not.
    written: u32,
    unwritten: u32,
    /// The last decision: when, and from where.
    left: Option<(u64, Vec<usize>)>,
    /// Where a user did not want it, since when, and the load that it had then.
    unwanted: Vec<(u64, Vec<usize>, [f64; 2])>,
    /// When it was last seen.
    seen: u64,
}

/// Of what was read of two items, what tasks read that read both; older periods count less. Of few statements a period
/// says little, and what goes apart by chance is read from two nodes.
#[derive(Clone, Copy, Debug)]
struct Together {
    bytes: f64,
    read: f64,
    /// Whether they are one to who decides: see [`APART_BELOW`].
    is_one: bool,
}

impl Together {
    fn new(bytes: f64, read: f64) -> Together {
        let new = Together { bytes, read, is_one: false };
        Together { is_one: new.share() >= TOGETHER_MIN, ..new }
    }

    fn add(&mut self, bytes: f64, read: f64) {
        let keep = 1.0 - 1.0 / f64::from(SLIGHT_PERIODS);
        (self.bytes, self.read) = (keep * self.bytes + bytes, keep * self.read + read);
        let share = self.share();
        self.is_one = share >= TOGETHER_MIN || self.is_one && share >= APART_BELOW;
    }

    fn share(&self) -> f64 {
        self.bytes / self.read.max(1.0)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    period: u64,
    /// Periods that means are of.
    still: u32,
    /// What a node gives per second: bytes of its memory, seconds of its cpus.
    most: [f64; 2],
    items: BTreeMap<ItemId, Known>,
    together: BTreeMap<(ItemId, ItemId), Together>,
}

impl History {
    /// The period at hand.
    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    /// Periods that means are of.
    pub(crate) fn still(&self) -> u32 {
        self.still
    }

    /// Pairs of items, by their places, that are read together.
    pub(crate) fn together(&self, observation: &Observation) -> Vec<(usize, usize)> {
        let place = |id: &ItemId| observation.items.iter().position(|item| item.id == *id);
        let pairs = self.together.iter().filter(|(_, known)| known.is_one);
        pairs.filter_map(|((a, b), _)| Some((place(a)?, place(b)?))).collect()
    }

    fn observe_together(&mut self, observation: &Observation) {
        let read = |item: usize| observation.items[item].served.iter().sum::<u64>() as f64;
        let mut seen: BTreeMap<(ItemId, ItemId), f64> = BTreeMap::new();
        for (a, b, bytes) in &observation.together {
            let key = (observation.items[*a].id, observation.items[*b].id);
            let key = (key.0.min(key.1), key.0.max(key.1));
            seen.insert(key, *bytes as f64);
        }
        let read: BTreeMap<ItemId, f64> =
            observation.items.iter().enumerate().map(|(place, item)| (item.id, read(place))).collect();
        self.together.retain(|(a, b), known| {
            let (Some(of_a), Some(of_b)) = (read.get(a), read.get(b)) else { return false };
            // What nobody reads now is read together as before.
            known.add(seen.remove(&(*a, *b)).unwrap_or(0.0), of_a + of_b);
            known.share() > TOGETHER_MIN / 16.0
        });
        for ((a, b), bytes) in seen {
            self.together.insert((a, b), Together::new(bytes, read[&a] + read[&b]));
        }
    }

    /// Takes a period in.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        self.period += 1;
        self.still = (self.still + 1).min(SLIGHT_PERIODS);
        let most = |of: fn(&Node) -> f64| observation.nodes.iter().map(of).fold(0.0, f64::max);
        self.most = [most(|node| node.bandwidth), most(|node| node.cpus)];
        let most = self.most;
        let excess = excess(observation);
        for item in &observation.items {
            let known = self.items.entry(item.id).or_default();
            let taken = [item.served.iter().sum::<u64>() as f64, item.busy.iter().sum()];
            let load = [0, 1].map(|of| taken[of] / observation.seconds / excess[of]);
            let is_new = known.seen == 0;
            for (known, load) in known.load.iter_mut().zip(load) {
                *known = if is_new { load } else { SMOOTHING * *known + (1.0 - SMOOTHING) * load };
            }
            for (mean, load) in known.mean.iter_mut().zip(load) {
                *mean += (load - *mean) / f64::from(self.still);
            }
            let is_cold = is_little(&load, &most);
            known.cold = if is_cold { known.cold + 1 } else { 0 };
            let reads = [taken[0], item.remote as f64, item.dictionary.remote as f64];
            let known_reads = [&mut known.read.all, &mut known.read.remote, &mut known.read.dictionary];
            for (mean, bytes) in known_reads.into_iter().zip(reads) {
                *mean += (bytes / observation.seconds - *mean) / f64::from(self.still);
            }
            let is_written = item.written > 0 && item.written as f64 >= WRITTEN_MIN * item.bytes as f64;
            (known.written, known.unwritten) = match is_written {
                true => (known.written + 1, 0),
                false => (0, known.unwritten + 1),
            };
            known.seen = self.period;
        }
        self.observe_together(observation);
        // What is gone, tables that were dropped say, is forgotten.
        self.items.retain(|_, known| known.seen == self.period);
    }

    /// What was before counts no more: nobody looked for a while.
    pub(crate) fn forget_loads(&mut self) {
        self.items.values_mut().for_each(|known| known.seen = 0);
        self.together.clear();
        self.still = 0;
    }

    /// What an item takes of a resource per second, smoothed.
    pub(crate) fn load(&self, item: ItemId, of: Resource) -> f64 {
        self.items.get(&item).map_or(0.0, |known| known.load[of as usize])
    }

    /// The same in the mean of some periods.
    pub(crate) fn mean(&self, item: ItemId, of: Resource) -> f64 {
        self.items.get(&item).map_or(0.0, |known| known.mean[of as usize])
    }

    /// What is read of it, in the same mean.
    pub(crate) fn read(&self, item: ItemId) -> Reads {
        self.items.get(&item).map_or_else(Reads::default, |known| known.read)
    }

    /// Periods in a row in which it was written.
    pub(crate) fn written_for(&self, item: ItemId) -> u32 {
        self.items.get(&item).map_or(0, |known| known.written)
    }

    /// Periods in a row in which it was hardly written.
    pub(crate) fn unwritten_for(&self, item: ItemId) -> u32 {
        self.items.get(&item).map_or(0, |known| known.unwritten)
    }

    /// Means begin anew.
    pub(crate) fn forget_means(&mut self) {
        self.still = 0;
    }

    /// Whether nobody has read any of these for long, nor much of all of them together in the mean.
    pub(crate) fn is_cold(&self, members: &[Item]) -> bool {
        let is_cold = |item: &Item| self.items.get(&item.id).is_some_and(|known| known.cold >= COLD_PERIODS);
        members.iter().all(is_cold) && self.is_cold_in_mean(members)
    }

    /// Whether hardly anything of these together was read in the mean of the last periods: a single one may pass
    /// without a statement.
    pub(crate) fn is_cold_in_mean(&self, members: &[Item]) -> bool {
        let mean = |of: usize| -> f64 {
            members.iter().filter_map(|item| self.items.get(&item.id)).map(|known| known.mean[of]).sum()
        };
        is_little(&[mean(0), mean(1)], &self.most)
    }

    /// Whether something may be decided about an item by now.
    pub(crate) fn may_decide(&self, item: &Item) -> bool {
        // A user who undid a decision wants none like it for as long as the load is what it was.
        let is_unwanted = |known: &Known| {
            let holds = |at: u64| self.period < at + REMEMBERED_PERIODS;
            known.unwanted.iter().any(|(at, _, load)| holds(*at) && is_same(&known.load, load))
        };
        let rests = |known: &Known| known.left.as_ref().is_some_and(|(at, ..)| self.period < at + REST_PERIODS);
        let may = |known: &Known| !rests(known) && !is_unwanted(known);
        !item.is_users && item.lies != Lies::Otherwise && self.items.get(&item.id).is_none_or(may)
    }

    /// Whether it may go there: it did not come from there just now, and nobody undid that.
    pub(crate) fn may_go(&self, item: ItemId, to: &[usize]) -> bool {
        let Some(known) = self.items.get(&item) else { return true };
        let comes_back = known.left.as_ref().is_some_and(|(at, from)| from == to && self.period < at + RETURN_PERIODS);
        let is_unwanted =
            |(at, place, _): &(u64, Vec<usize>, [f64; 2])| place == to && self.period < at + REMEMBERED_PERIODS;
        !comes_back && !known.unwanted.iter().any(is_unwanted)
    }

    /// It leaves a place.
    pub(crate) fn leaves(&mut self, item: ItemId, from: &[usize]) {
        let period = self.period;
        let known = self.items.entry(item).or_default();
        known.left = Some((period, from.to_vec()));
    }

    /// It is not wanted there.
    pub(crate) fn unwanted(&mut self, item: ItemId, place: &[usize]) {
        let period = self.period;
        let known = self.items.entry(item).or_default();
        known.unwanted.retain(|(at, other, _)| other != place && period < at + REMEMBERED_PERIODS);
        known.unwanted.push((period, place.to_vec(), known.load));
        known.left = Some((period, place.to_vec()));
    }
}

/// How many times as much as there can be was read in a period: what a long statement has taken is told at its end.
fn excess(observation: &Observation) -> [f64; 2] {
    let bytes: f64 = observation.items.iter().flat_map(|item| &item.served).map(|bytes| *bytes as f64).sum();
    let busy: f64 = observation.items.iter().flat_map(|item| &item.busy).sum();
    let bandwidth: f64 = observation.nodes.iter().map(|node| node.bandwidth).sum();
    let cpus: f64 = observation.nodes.iter().map(|node| node.cpus).sum();
    [(bytes, bandwidth), (busy, cpus)].map(|(taken, most)| (taken / (most * observation.seconds).max(1e-9)).max(1.0))
}

/// Whether a load is hardly one, of what a node gives.
fn is_little(load: &[f64; 2], most: &[f64; 2]) -> bool {
    load.iter().zip(most).all(|(load, most)| *load <= COLD_MAX * most)
}

/// Whether two loads are alike.
fn is_same(now: &[f64; 2], then: &[f64; 2]) -> bool {
    now.iter().zip(then).all(|(now, then)| *now <= CHANGED * then && *then <= CHANGED * now)
}
