//! Nodes that are idle at times though the load is balanced: what is read is divided, and whether that helped is seen.
//!
//! Items that lie whole make a statement wait for one node, however idle others are. Dividing them lets each statement
//! use all nodes. What that gains cannot be told from what nodes gave, so it is tried: when too little came of it, all goes
//! back.

use crate::group::Scene;
use crate::history::History;
use crate::limits::{BUSY_MIN, FULL_MIN, RETURN_PERIODS, TRIAL_GAIN_MIN, TRIAL_ITEMS_MAX, TRIAL_PERIODS};
use crate::plan::{Loads, Place};
use crate::{ItemId, Lies, Observation};

/// What is tried, and what was read before.
#[derive(Clone, Debug)]
struct Tried {
    period: u64,
    /// Bytes per second, of all items.
    read: f64,
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
        self.used += (loads.mean() - self.used) * weight;
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
        let has_failed = self.read < (1.0 + TRIAL_GAIN_MIN) * tried.read;
        let tried = self.tried.take();
        self.periods = 0;
        tried.filter(|_| has_failed).map_or_else(Vec::new, |tried| tried.items)
    }

    /// What to divide, as far as there is room, if nodes are idle; nothing while a trial goes on.
    pub(crate) fn begin(&self, scene: &Scene, loads: &Loads, may: &dyn Fn(usize, &[usize]) -> bool) -> Vec<Place> {
        let is_idle = (BUSY_MIN..FULL_MIN).contains(&self.used);
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
        places
    }

    /// That is tried now.
    pub(crate) fn begun(&mut self, period: u64, items: Vec<(ItemId, Vec<usize>, Vec<usize>)>) {
        self.periods = 0;
        self.tried = Some(Tried { period, read: self.read, items });
    }
}
