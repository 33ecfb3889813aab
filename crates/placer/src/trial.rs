//! Nodes that are idle at times though the load is balanced: what is read is divided, and whether that helped is seen.
//!
//! Items that lie whole make a statement wait for one node, however idle others are. Dividing them lets each statement
//! use all nodes. What that gains cannot be told from what nodes gave, so it is tried: when too little came of it, all
//! goes back.

use std::collections::BTreeMap;

use crate::group::Scene;
use crate::history::History;
use crate::limits::{
    BUSY_MIN, FULL_MIN, RETURN_PERIODS, TRIAL_GAIN_MIN, TRIAL_ITEMS_MAX, TRIAL_PERIODS, TRIAL_SHIFT_MAX, UNBALANCED_MIN,
};
use crate::plan::{Loads, Place};
use crate::{ItemId, Lies, Observation};

/// What is tried, and what was read before.
#[derive(Clone, Debug)]
struct Tried {
    period: u64,
    /// Bytes per second, of all items.
    read: f64,
    /// What of it each item had, as a part.
    shares: BTreeMap<ItemId, f64>,
    /// What was divided: from where, to where.
    items: Vec<(ItemId, Vec<usize>, Vec<usize>)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Periods since something changed, what is read per second in their mean, and how much of what nodes have.
    periods: u32,
    read: f64,
    used: f64,
    /// Of what was read, what each item had, in the same mean.
    shares: BTreeMap<ItemId, f64>,
    /// Periods in a row in which nodes had something to do.
    busy: u32,
    tried: Option<Tried>,
}

impl Trial {
    /// Takes a period in.
    pub(crate) fn observe(&mut self, observation: &Observation, loads: &Loads) {
        let bytes: u64 = observation.items.iter().flat_map(|item| &item.served).sum();
        let now = bytes as f64 / observation.seconds;
        // The first one may have moves in it, and a longer past says little about now.
        self.periods += 1;
        let weight = 1.0 / f64::from(self.periods.saturating_sub(1).clamp(1, TRIAL_PERIODS));
        self.read += (now - self.read) * weight;
        self.used += (used(observation) - self.used) * weight;
        for item in &observation.items {
            let share = item.served.iter().sum::<u64>() as f64 / bytes.max(1) as f64;
            let known = self.shares.entry(item.id).or_default();
            *known += (share - *known) * weight;
        }
        self.busy = if loads.mean() < BUSY_MIN { 0 } else { self.busy + 1 };
    }

    /// What was seen before counts no more.
    pub(crate) fn forget(&mut self) {
        *self = Trial::default();
    }

    /// Something else was decided: what is read changes for that reason too.
    pub(crate) fn disturbed(&mut self) {
        (self.periods, self.tried) = (0, None);
    }

    /// What is to go back, once it is known that a trial did not help.
    pub(crate) fn failed(&mut self, history: &History) -> Vec<(ItemId, Vec<usize>, Vec<usize>)> {
        let Some(tried) = &self.tried else { return Vec::new() };
        if history.period() < tried.period + RETURN_PERIODS.max(u64::from(TRIAL_PERIODS)) {
            return Vec::new();
        }
        let moved = tried.shares.iter().map(|(id, then)| (self.shares.get(id).unwrap_or(&0.0) - then).abs());
        let is_same = moved.sum::<f64>() / 2.0 < TRIAL_SHIFT_MAX;
        let has_failed = is_same && self.read < (1.0 + TRIAL_GAIN_MIN) * tried.read;
        let tried = self.tried.take();
        self.periods = 0;
        tried.filter(|_| has_failed).map_or_else(Vec::new, |tried| tried.items)
    }

    /// What to divide, as far as there is room, if nodes are idle; nothing while a trial goes on.
    pub(crate) fn begin(&self, scene: &Scene, loads: &Loads, may: &dyn Fn(usize, &[usize]) -> bool) -> Vec<Place> {
        let is_idle = self.busy >= TRIAL_PERIODS && self.used < FULL_MIN;
        if self.tried.is_some() || self.periods < TRIAL_PERIODS || !is_idle {
            return Vec::new();
        }
        let mut order: Vec<usize> = (0..scene.items.len()).filter(|item| loads.load(*item) > 0.0).collect();
        order.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        let mut free: Vec<u64> = scene.nodes.iter().map(|node| node.free_bytes).collect();
        let mut places = Vec::new();
        for item in order {
            let of = &scene.items[item];
            let Lies::Ranges(from) = &of.lies else { continue };
            let nodes: Vec<usize> = (0..scene.nodes.len()).filter(|node| scene.nodes[*node].cpus > 0.0).collect();
            if from.len() >= nodes.len().min(of.ranges_max) || of.ranges_max < nodes.len() || !may(item, &nodes) {
                continue;
            }
            let each = of.bytes / nodes.len() as u64 + 1;
            if nodes.iter().any(|node| free[*node] <= each) {
                continue;
            }
            nodes.iter().for_each(|node| free[*node] -= each);
            places.push(Place { item, to: nodes });
            if places.len() == TRIAL_ITEMS_MAX {
                break;
            }
        }
        // Equal ranges are no good where nodes are not alike.
        let is_balanced = loads.peak_with(&places) <= (1.0 + UNBALANCED_MIN) * loads.mean();
        if is_balanced { places } else { Vec::new() }
    }

    /// How much of what nodes have is used, in the mean of the last periods.
    pub(crate) fn used(&self) -> f64 {
        self.used
    }

    /// That is tried now.
    pub(crate) fn begun(&mut self, period: u64, items: Vec<(ItemId, Vec<usize>, Vec<usize>)>) {
        self.periods = 0;
        self.tried = Some(Tried { period, read: self.read, shares: self.shares.clone(), items });
    }
}

/// How much of what nodes have was used, of what they have least left of. What long statements took is told at their
/// ends: a period by itself may have more than there is, several have not.
fn used(observation: &Observation) -> f64 {
    let bytes: u64 = observation.items.iter().flat_map(|item| &item.served).sum();
    let busy: f64 = observation.items.iter().flat_map(|item| &item.busy).sum();
    let bandwidth: f64 = observation.nodes.iter().map(|node| node.bandwidth).sum();
    let cpus: f64 = observation.nodes.iter().map(|node| node.cpus).sum();
    let of_memory = bytes as f64 / (bandwidth * observation.seconds).max(1.0);
    of_memory.max(busy / (cpus * observation.seconds).max(f64::MIN_POSITIVE))
}
