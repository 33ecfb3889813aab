//! Nodes that are idle at times though the load is balanced: what is read is divided, and whether that helped is seen.
//!
//! Items that lie whole make a statement wait for one node, however idle others are. Dividing them lets each statement
//! use all nodes. What that gains cannot be told from what nodes gave, so it is tried: when too little came of it, all
//! goes back.

use crate::Lies;
use crate::group::Scene;
use crate::history::History;
use crate::limits::{FULL_MIN, RETURN_PERIODS, TRIAL_GAIN_MIN, TRIAL_ITEMS_MAX, TRIAL_PERIODS, UNBALANCED_MIN};
use crate::memory::Room;
use crate::plan::{Loads, Place};
use crate::throughput::{Before, Throughput};
use crate::undo::Moved;

/// What is tried, and what was read before.
#[derive(Clone, Debug)]
struct Tried {
    before: Before,
    /// What was divided: from where, to where.
    items: Vec<Moved>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    tried: Option<Tried>,
}

impl Trial {
    /// Something else was decided: what is read changes for that reason too.
    pub(crate) fn disturbed(&mut self) {
        self.tried = None;
    }

    /// What is to go back, once it is known that a trial did not help.
    pub(crate) fn failed(&mut self, throughput: &mut Throughput, history: &History) -> Vec<Moved> {
        let Some(tried) = &self.tried else { return Vec::new() };
        if history.period() < tried.before.period + RETURN_PERIODS.max(u64::from(TRIAL_PERIODS)) {
            return Vec::new();
        }
        let is_same = throughput.is_same_load(&tried.before);
        let has_failed = is_same && throughput.read() < (1.0 + TRIAL_GAIN_MIN) * tried.before.read;
        let tried = self.tried.take();
        throughput.disturbed();
        tried.filter(|_| has_failed).map_or_else(Vec::new, |tried| tried.items)
    }

    /// What to divide, as far as there is room, if nodes are idle; nothing while a trial goes on.
    pub(crate) fn begin(
        &self,
        scene: &Scene,
        history: &History,
        (loads, throughput): (&Loads, &Throughput),
        may: &dyn Fn(usize, &[usize]) -> bool,
    ) -> Vec<Place> {
        let is_idle = throughput.busy() >= TRIAL_PERIODS && throughput.used() < FULL_MIN;
        if self.tried.is_some() || throughput.periods() < TRIAL_PERIODS || !is_idle {
            return Vec::new();
        }
        // What is cold would be put together again.
        let is_read = |item: &usize| scene.members[*item].iter().any(|member| !history.is_cold_in_mean(member.id));
        let mut order: Vec<usize> =
            (0..scene.items.len()).filter(|item| loads.load(*item) > 0.0 && is_read(item)).collect();
        order.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        let mut room = Room::new(&scene.nodes);
        let mut places = Vec::new();
        for item in order {
            let of = &scene.items[item];
            let Lies::Ranges(from) = &of.lies else { continue };
            let nodes: Vec<usize> = (0..scene.nodes.len()).filter(|node| scene.nodes[*node].cpus > 0.0).collect();
            if from.len() >= nodes.len().min(of.ranges_max) || of.ranges_max < nodes.len() || !may(item, &nodes) {
                continue;
            }
            let place = Place { item, to: nodes };
            let mut with = room.clone();
            if !with.is_enough_for(scene, std::slice::from_ref(&place)) {
                continue;
            }
            room = with;
            places.push(place);
            if places.len() == TRIAL_ITEMS_MAX {
                break;
            }
        }
        // Equal ranges are no good where nodes are not alike.
        let is_balanced = loads.peak_with(&places) <= (1.0 + UNBALANCED_MIN) * loads.mean();
        if is_balanced { places } else { Vec::new() }
    }

    /// That is tried now.
    pub(crate) fn begun(&mut self, before: Before, items: Vec<Moved>) {
        self.tried = Some(Tried { before, items });
    }
}
