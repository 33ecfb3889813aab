//! Nodes that are idle at times though the load is balanced, and items that are read together but lie apart: what is
//! read is divided, and whether that helped is seen.
//!
//! Items that lie whole make a statement wait for one node, however idle others are. Dividing them lets each statement
//! use all nodes. Items that are read together and lie on nodes of their own make it read from afar, however even the
//! load is; with the same ranges it reads what lies beside it. What either gains cannot be told from what nodes gave,
//! so it is tried: when too little came of it, all goes back.

use crate::decision::Reason;
use crate::group::Scene;
use crate::history::History;
use crate::limits::{
    APART_REMOTE_MIN, FULL_UNTIL, RETURN_PERIODS, TRIAL_GAIN_MIN, TRIAL_ITEMS_MAX, TRIAL_PERIODS, UNBALANCED_MIN,
};
use crate::memory::Room;
use crate::plan::{Loads, Place};
use crate::throughput::{Before, Throughput};
use crate::undo::Moved;
use crate::{Lies, Node};

/// What is tried, and what was read before.
#[derive(Clone, Debug)]
struct Tried {
    before: Before,
    /// What was divided: from where, to where.
    items: Vec<Moved>,
    /// How much of what was read was read of that.
    share: f64,
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
        let seen = history.period().saturating_sub(tried.before.period);
        let is_same = throughput.is_same_load(&tried.before);
        // Whether it gains takes long to see, that it loses much does not.
        let is_over = seen >= RETURN_PERIODS.max(u64::from(TRIAL_PERIODS));
        let has_lost = seen >= RETURN_PERIODS && is_same && throughput.has_lost(&tried.before);
        if !is_over && !has_lost {
            return Vec::new();
        }
        let least = 1.0 + TRIAL_GAIN_MIN * tried.share;
        let has_failed = is_same && throughput.read() < least * tried.before.read;
        let tried = self.tried.take();
        throughput.disturbed();
        tried.filter(|_| has_failed).map_or_else(Vec::new, |tried| tried.items)
    }

    /// What to divide, as far as there is room, if nodes are idle or items lie apart, and why; nothing while a trial
    /// goes on.
    pub(crate) fn begin(
        &self,
        scene: &Scene,
        history: &History,
        (loads, throughput): (&Loads, &Throughput),
        may: &dyn Fn(usize, &[usize]) -> bool,
    ) -> Vec<(Place, Reason)> {
        match throughput.periods() >= TRIAL_PERIODS {
            true => self.to_divide(scene, history, (loads, throughput), may),
            false => Vec::new(),
        }
    }

    /// The same, however few periods were seen.
    pub(crate) fn to_divide(
        &self,
        scene: &Scene,
        history: &History,
        (loads, throughput): (&Loads, &Throughput),
        may: &dyn Fn(usize, &[usize]) -> bool,
    ) -> Vec<(Place, Reason)> {
        if self.tried.is_some() || is_memory_short(scene) {
            return Vec::new();
        }
        let mean = throughput.used();
        let is_busy = throughput.busy() >= throughput.periods().min(TRIAL_PERIODS);
        let is_idle = throughput.is_idle() && is_busy;
        let why = |item: usize| match (is_idle, apart(scene, history, item)) {
            (_, Some(remote)) => Some(Reason::Apart { remote }),
            (true, None) => Some(Reason::Idle { mean }),
            (false, None) => None,
        };
        // What is cold would be put together again.
        let is_read = |item: &usize| !history.is_cold_in_mean(&scene.members[*item]);
        let mut order: Vec<usize> =
            (0..scene.items.len()).filter(|item| loads.load(*item) > 0.0 && is_read(item)).collect();
        order.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        let mut room = Room::new(&scene.nodes);
        let (mut places, mut reasons) = (Vec::new(), Vec::new());
        let nodes: Vec<usize> = (0..scene.nodes.len()).filter(|node| scene.nodes[*node].cpus > 0.0).collect();
        for item in order {
            let of = &scene.items[item];
            let (Lies::Ranges(from), Some(reason)) = (&of.lies, why(item)) else { continue };
            if from.len() >= nodes.len().min(of.ranges_max) || of.ranges_max < nodes.len() || !may(item, &nodes) {
                continue;
            }
            let place = Place { item, to: nodes.clone() };
            let mut with = room.clone();
            if !with.is_enough_for(scene, std::slice::from_ref(&place)) {
                continue;
            }
            room = with;
            places.push(place);
            reasons.push(reason);
            if places.len() == TRIAL_ITEMS_MAX {
                break;
            }
        }
        // Equal ranges are no good where nodes are not alike; what is not divided may leave a node as hot as it is.
        let most = ((1.0 + UNBALANCED_MIN) * loads.mean()).max(loads.peak());
        if loads.peak_with(&places) > most {
            return Vec::new();
        }
        places.into_iter().zip(reasons).collect()
    }

    /// That is tried now.
    pub(crate) fn begun(&mut self, before: Before, items: Vec<Moved>) {
        let share = before.share_of(items.iter().map(|(id, ..)| id)).min(1.0);
        self.tried = Some(Tried { before, items, share });
    }
}

/// Whether items wait for room beside cpus: only whole ones change places with what lies on memory without cpus, so
/// what is divided would keep its place until nobody has read it for long.
fn is_memory_short(scene: &Scene) -> bool {
    let is_full = |node: &Node| node.cpus > 0.0 && node.free_bytes as f64 <= (1.0 - FULL_UNTIL) * node.bytes as f64;
    scene.nodes.iter().any(|node| node.cpus == 0.0) && scene.nodes.iter().any(is_full)
}

/// What of a group that lies in different places is read from other nodes, as a part, where that is much.
fn apart(scene: &Scene, history: &History, group: usize) -> Option<f64> {
    if scene.items[group].lies != Lies::Ranges(Vec::new()) {
        return None;
    }
    let reads = scene.members[group].iter().map(|member| history.read(member.id));
    let (all, remote) = reads.fold((0.0, 0.0), |(all, remote), read| (all + read.all, remote + read.remote));
    (remote > 0.0 && remote >= APART_REMOTE_MIN * all).then(|| remote / all)
}
