//! [`Placer`]: what to do about a period.

use std::fmt;

use numa::NodeId;

use crate::group::Scene;
use crate::history::History;
use crate::limits::{
    AS_GOOD, BUSY_MIN, COOLEST, FURTHER_GAIN_MIN, GAIN_MIN, HORIZON_PERIODS, ITEMS_MAX, LARGEST, PLANS_MAX,
    SLIGHT_PERIODS, STEP_MIN, STRONG_MIN, UNBALANCED_MIN, UNBALANCED_PERIODS,
};
use crate::plan::{Loads, Place};
use crate::trial::Trial;
use crate::{Item, ItemId, Lies, Observation};

/// An item that is to lie elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Which.
    pub item: ItemId,
    /// On which nodes it lies, by their places in [`Observation::nodes`], a range on each.
    pub from: Vec<usize>,
    /// On which it is to lie, a range on each.
    pub to: Vec<usize>,
    /// Why.
    pub reason: Reason,
    /// How much less the hottest node gives then, as a factor: 2 is half. 1 where nothing is gained but order.
    pub gain: f64,
    /// Bytes that have to be moved.
    pub bytes: u64,
}

/// Why an item is to lie elsewhere. Utilisations are parts of what a node has, of the
/// bandwidth of its memory or of the time of its cpus, whichever is shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Its node is hotter than the others, and the item is a part of it.
    Hot {
        /// The node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
        /// What of the node's is the item's, as a part.
        share: f64,
    },
    /// As [`Hot`](Self::Hot), and no node that takes the item whole would be cooler.
    Dominates {
        /// The node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
        /// What of the node's is the item's, as a part.
        share: f64,
    },
    /// It goes so that a node takes what makes another one hot.
    MakesRoom {
        /// The hot node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
    },
    /// All nodes are idle at times, though their load is the same: it is divided to see whether that helps.
    Idle {
        /// What all nodes give, in the mean.
        mean: f64,
    },
    /// It was divided to see whether that helps, and did not.
    DidNotHelp,
    /// Nobody has read the divided item for long.
    Cold,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Reason::Hot { node, utilisation, mean, .. }
        | Reason::Dominates { node, utilisation, mean, .. }
        | Reason::MakesRoom { node, utilisation, mean }) = self
        else {
            return match self {
                Reason::Idle { mean } => write!(
                    f,
                    "no node is hot, but all are idle at times ({mean:.2} in the mean): divided, each statement has all"
                ),
                Reason::DidNotHelp => f.write_str("it was divided to see whether that helps, and did not"),
                _ => f.write_str("it is divided, and nobody reads it"),
            };
        };
        let NodeId(node) = node;
        write!(
            f,
            "what lies on node {node} takes {utilisation:.2} of what the node has, {mean:.2} in the mean of all; "
        )?;
        match self {
            Reason::Hot { share, .. } => write!(f, "this is {share:.2} of it"),
            Reason::Dominates { share, .. } if *share > 0.0 => {
                write!(f, "this is {share:.2} of it, and divided it is less for any one node")
            }
            Reason::Dominates { .. } => f.write_str("divided, this makes room for it"),
            _ => f.write_str("this makes room for it"),
        }
    }
}

/// Decides, period by period.
#[derive(Clone, Debug, Default)]
pub struct Placer {
    history: History,
    trial: Trial,
    /// Periods in a row with a strongly unbalanced load.
    unbalanced: u32,
    /// Periods since the last decision or plan, and how many of them had an unbalanced load by themselves.
    slightly: (u32, u32),
}

impl Placer {
    /// What to do about a period. What comes is to be done at once or not at all: nothing is decided about these items
    /// for a while.
    pub fn decide(&mut self, observation: &Observation) -> Vec<Decision> {
        if observation.nodes.len() < 2 || observation.seconds <= 0.0 {
            return Vec::new();
        }
        self.history.observe(observation);
        let loads = Loads::new(observation, &self.history);
        self.trial.observe(observation, &loads);
        let was_seen = Loads::is_seen(observation, is_unbalanced);
        let decisions = match self.strongly(observation, &loads) {
            decisions if decisions.is_empty() => self.slightly(observation, was_seen),
            decisions => decisions,
        };
        if !decisions.is_empty() {
            self.trial.disturbed();
            self.is_moved();
            return decisions;
        }
        let decisions = self.try_out(observation, &loads);
        if !decisions.is_empty() {
            self.is_moved();
            return decisions;
        }
        if was_seen || is_unbalanced(&loads) { Vec::new() } else { self.put_together(observation, &loads) }
    }

    /// What was seen before says little about what comes.
    fn is_moved(&mut self) {
        (self.unbalanced, self.slightly) = (0, (0, 0));
        self.history.forget_means();
    }

    /// What to do about a load that few periods tell to be unbalanced.
    fn strongly(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        if !Loads::is_seen(observation, is_strong) || !is_strong(loads) {
            self.unbalanced = 0;
            return Vec::new();
        }
        self.unbalanced += 1;
        if self.unbalanced < UNBALANCED_PERIODS {
            return Vec::new();
        }
        // Also where nothing helps: what has to be tried is tried again after as many periods.
        self.unbalanced = 0;
        let (scene, loads) = self.scene(observation, loads);
        self.balance(&scene, loads)
    }

    /// What to do about one that only many periods tell.
    fn slightly(&mut self, observation: &Observation, was_seen: bool) -> Vec<Decision> {
        self.slightly.0 += 1;
        self.slightly.1 += u32::from(was_seen);
        let (periods, seen) = self.slightly;
        if periods < SLIGHT_PERIODS {
            return Vec::new();
        }
        self.slightly = (0, 0);
        let loads = Loads::mean_of(observation, &self.history);
        if 2 * seen < periods || !is_unbalanced(&loads) {
            return Vec::new();
        }
        let (scene, loads) = self.scene(observation, &loads);
        self.balance(&scene, loads)
    }

    /// Groups of what is read, those that most is read of, and what they take.
    fn scene(&self, observation: &Observation, loads: &Loads) -> (Scene, Loads) {
        let mut groups = Scene::groups(observation, &self.history);
        let load = |group: &Vec<usize>| group.iter().map(|item| loads.load(*item)).sum::<f64>();
        groups.retain(|group| load(group) > 0.0);
        groups.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.cmp(b)));
        groups.truncate(ITEMS_MAX);
        (Scene::new(observation, &groups), loads.summed(&groups))
    }

    /// Divides what is read where nodes are idle at times, and takes that back where it did not help.
    fn try_out(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        let failed = self.trial.failed(&self.history);
        let mut decisions = Vec::new();
        for (id, from, to) in failed {
            let Some(item) = observation.items.iter().find(|item| item.id == id) else { continue };
            if item.lies == Lies::Ranges(to.clone()) && !item.is_users {
                decisions.push(self.decision(item, from, Reason::DidNotHelp, 1.0));
                self.history.unwanted(id, &to);
            }
        }
        if !decisions.is_empty() {
            return decisions;
        }
        let mean = self.trial.used();
        let (scene, loads) = self.scene(observation, loads);
        let may = |item: usize, to: &[usize]| self.may_decide(&scene, item) && self.may_go(&scene, item, to);
        let places = self.trial.begin(&scene, &loads, &may);
        let mut items = Vec::new();
        for Place { item, to } in places {
            for member in &scene.members[item] {
                let Lies::Ranges(from) = &member.lies else { continue };
                if *from != to {
                    items.push((member.id, from.clone(), to.clone()));
                    decisions.push(self.decision(member, to.clone(), Reason::Idle { mean }, 1.0 / mean));
                }
            }
        }
        if !items.is_empty() {
            self.trial.begun(self.history.period(), items);
        }
        decisions
    }

    fn may_decide(&self, scene: &Scene, item: usize) -> bool {
        scene.items[item].lies != Lies::Otherwise
            && scene.members[item].iter().all(|member| self.history.may_decide(member))
    }

    fn may_go(&self, scene: &Scene, item: usize, to: &[usize]) -> bool {
        scene.members[item].iter().all(|member| self.history.may_go(member.id, to))
    }

    /// Nobody looked for a while: what was seen before counts no more. What users undid does.
    pub fn begin_anew(&mut self) {
        self.unbalanced = 0;
        self.trial.forget();
        self.slightly = (0, 0);
        self.history.forget_loads();
    }

    /// A user undid a decision: it is not made again.
    pub fn undone(&mut self, item: ItemId, place: &[usize]) {
        self.history.unwanted(item, place);
    }

    /// Moves, divides and exchanges items until no node is much hotter than others, or nothing helps.
    ///
    /// What helps by itself is done first, as long as something does. Where all of that leaves a node hot, each of the
    /// largest items on hot nodes is divided first, and then several, which may make others hot, and then as before:
    /// the best end counts.
    fn balance(&mut self, scene: &Scene, loads: Loads) -> Vec<Decision> {
        let (before, node, mean) = (loads.peak(), loads.hottest(), loads.mean());
        let mut plans = vec![self.plan(scene, &loads, Vec::new())];
        if is_unbalanced(&plans[0].1) {
            let is_hot = |node: &usize| loads.utilisation(*node) > (1.0 + UNBALANCED_MIN) * mean;
            for hot in (0..scene.nodes.len()).filter(is_hot) {
                let left = PLANS_MAX.saturating_sub(plans.len());
                for first in self.first_steps(scene, &loads, hot).into_iter().take(left) {
                    plans.push(self.plan(scene, &loads, vec![first]));
                }
            }
            for first in self.divided(scene, &loads) {
                plans.push(self.plan(scene, &loads, first));
            }
        }
        let peak = |plan: &(Vec<Place>, Loads)| plan.1.peak();
        let best = plans.iter().map(peak).fold(f64::INFINITY, f64::min);
        let bytes_of = |places: &[Place]| places.iter().map(|place| scene.items[place.item].bytes).sum::<u64>();
        let ranges_of = |places: &[Place]| places.iter().map(|place| place.to.len()).sum::<usize>();
        let as_good = plans.into_iter().filter(|plan| peak(plan) <= (1.0 + AS_GOOD) * best);
        let order = |plan: &(Vec<Place>, Loads)| (ranges_of(&plan.0), bytes_of(&plan.0));
        let Some((places, after)) = as_good.min_by_key(order) else { return Vec::new() };
        let gained = (before - after.peak()) * HORIZON_PERIODS * scene.seconds;
        let wanted = GAIN_MIN + FURTHER_GAIN_MIN * places.len().saturating_sub(1) as f64;
        if after.peak() > (1.0 - wanted) * before || gained < cost(bytes_of(&places), scene) {
            return Vec::new();
        }
        let gain = before / after.peak().max(f64::MIN_POSITIVE);
        let hot = scene.nodes[node].id;
        let mut decisions = Vec::with_capacity(places.len());
        for Place { item: place, to } in places {
            let share = loads.share(place, node);
            let item = &scene.items[place];
            let is_divided = to.len() > 1 && matches!(&item.lies, Lies::Ranges(from) if to.len() > from.len());
            let reason = match (loads.is_read_from(place, node), is_divided) {
                (_, true) => Reason::Dominates { node: hot, utilisation: before, mean, share },
                (true, false) => Reason::Hot { node: hot, utilisation: before, mean, share },
                (false, false) => Reason::MakesRoom { node: hot, utilisation: before, mean },
            };
            for member in scene.members[place].iter().filter(|member| member.lies != Lies::Ranges(to.clone())) {
                decisions.push(self.decision(member, to.clone(), reason, gain));
            }
        }
        decisions
    }

    /// What is done one after the other after some first steps, each for the hottest node as it is then, and the loads
    /// in the end. A later step for an item takes the place of an earlier one.
    fn plan(&self, scene: &Scene, loads: &Loads, first: Vec<Place>) -> (Vec<Place>, Loads) {
        let (mut loads, mut done) = (loads.clone(), first);
        done.iter().for_each(|place| loads.put(place.item, &place.to));
        for _ in 0..2 * scene.items.len() {
            if !is_unbalanced(&loads) {
                break;
            }
            let node = loads.hottest();
            let before = loads.utilisation(node);
            let mut steps: Vec<(f64, Vec<Place>)> = Vec::new();
            let largest = self.largest(scene, &loads, node);
            for item in &largest {
                for place in self.places(scene, &loads, *item) {
                    steps.push((loads.peak_with(std::slice::from_ref(&place)), vec![place]));
                }
            }
            let best = steps.iter().map(|step| step.0).fold(f64::INFINITY, f64::min);
            if best > (1.0 + UNBALANCED_MIN) * loads.mean() {
                steps.extend(self.exchanges(scene, &loads, node, &largest));
            }
            let Some(best) = steps.iter().map(|step| step.0).min_by(f64::total_cmp) else { break };
            if best > (1.0 - STEP_MIN) * before {
                break;
            }
            let order = |step: &(f64, Vec<Place>)| {
                let ranges: usize = step.1.iter().map(|place| place.to.len()).sum();
                let bytes: u64 = step.1.iter().map(|place| scene.items[place.item].bytes).sum();
                (ranges, bytes)
            };
            let as_good = steps.into_iter().filter(|step| step.0 <= (1.0 + AS_GOOD) * best);
            let Some((_, step)) = as_good.min_by_key(order) else { break };
            step.iter().for_each(|place| loads.put(place.item, &place.to));
            done.retain(|earlier| step.iter().all(|place| place.item != earlier.item));
            done.extend(step);
        }
        done.retain(|place| scene.items[place.item].lies != Lies::Ranges(place.to.clone()));
        (done, loads)
    }

    /// The items that most is read of from a node, and about which something may be decided.
    fn largest(&self, scene: &Scene, loads: &Loads, node: usize) -> Vec<usize> {
        let is_movable = |place: &usize| loads.is_read_from(*place, node) && self.may_decide(scene, *place);
        let mut items: Vec<usize> = (0..scene.items.len()).filter(is_movable).collect();
        items.sort_by(|a, b| loads.share(*b, node).total_cmp(&loads.share(*a, node)).then(a.cmp(b)));
        items.truncate(LARGEST);
        items
    }

    /// The largest items of a node, divided.
    fn first_steps(&self, scene: &Scene, loads: &Loads, node: usize) -> Vec<Place> {
        let largest = self.largest(scene, loads, node);
        let of = |item: usize| self.places(scene, loads, item).into_iter().filter(|place| place.to.len() > 1);
        largest.into_iter().flat_map(of).collect()
    }

    /// The items that most is read of, over as many nodes as have room: one of them, two, and so on.
    fn divided(&self, scene: &Scene, loads: &Loads) -> Vec<Vec<Place>> {
        let mut items: Vec<usize> = (0..scene.items.len()).collect();
        items.retain(|place| self.may_decide(scene, *place) && loads.load(*place) > 0.0);
        items.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        items.truncate(LARGEST);
        let places: Vec<Place> = items.into_iter().filter_map(|item| self.places(scene, loads, item).pop()).collect();
        (1..=places.len()).map(|count| places[..count].to_vec()).collect()
    }

    /// Whole items of a node, each for a whole one of another.
    fn exchanges(&self, scene: &Scene, loads: &Loads, node: usize, largest: &[usize]) -> Vec<(f64, Vec<Place>)> {
        let mut steps = Vec::new();
        let mut others: Vec<usize> = (0..scene.nodes.len()).filter(|other| *other != node).collect();
        others.sort_by(|a, b| loads.utilisation(*a).total_cmp(&loads.utilisation(*b)).then(a.cmp(b)));
        others.truncate(COOLEST);
        for other in others {
            let others = self.largest(scene, loads, other);
            for (a, b) in largest.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
                let exchange = [(a, node, other), (b, other, node)].map(|(place, from, to)| {
                    let item = &scene.items[place];
                    let has_room = scene.nodes[to].free_bytes > item.bytes;
                    let goes = loads.share(place, from) > 0.0 && loads.is_whole(place) && has_room;
                    (goes && self.may_go(scene, place, &[to])).then(|| Place { item: place, to: vec![to] })
                });
                if let [Some(a), Some(b)] = exchange {
                    let step = vec![a, b];
                    steps.push((loads.peak_with(&step), step));
                }
            }
        }
        steps
    }

    /// Where an item could go: whole, and in so many ranges.
    fn places(&self, scene: &Scene, loads: &Loads, place: usize) -> Vec<Place> {
        let item = &scene.items[place];
        let Lies::Ranges(from) = &item.lies else { return Vec::new() };
        let most = item.ranges_max.min(scene.nodes.len()).max(from.len());
        // What is divided is not put together as long as it is read.
        let of = (from.len().max(1)..=most).filter_map(|ranges| {
            let has_room = |node: usize| {
                let is_there = from.contains(&node);
                is_there || scene.nodes[node].free_bytes > item.bytes.div_ceil(ranges as u64)
            };
            loads.spread(place, ranges, &has_room)
        });
        of.filter(|place| place.to != *from && self.may_go(scene, place.item, &place.to)).collect()
    }

    /// Divided items that nobody reads go to one node each.
    fn put_together(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        let is_it = |item: &&Item| {
            let is_divided = matches!(&item.lies, Lies::Ranges(on) if on.len() > 1);
            is_divided && self.history.may_decide(item) && self.history.is_cold(item.id)
        };
        let Some(item) = observation.items.iter().find(is_it) else { return Vec::new() };
        let has_room = |node: &usize| observation.nodes[*node].free_bytes > item.bytes;
        let order = |a: &usize, b: &usize| loads.utilisation(*a).total_cmp(&loads.utilisation(*b)).then(a.cmp(b));
        let nodes = (0..observation.nodes.len()).filter(has_room);
        let Some(to) = nodes.filter(|to| self.history.may_go(item.id, &[*to])).min_by(order) else {
            return Vec::new();
        };
        vec![self.decision(item, vec![to], Reason::Cold, 1.0)]
    }

    fn decision(&mut self, item: &Item, to: Vec<usize>, reason: Reason, gain: f64) -> Decision {
        let from = match &item.lies {
            Lies::Ranges(from) => from.clone(),
            Lies::Otherwise => Vec::new(),
        };
        self.history.leaves(item.id, &from);
        Decision { item: item.id, from, to, reason, gain, bytes: item.bytes }
    }
}

/// Seconds of a node's memory that moving so much takes: it is read and written.
fn cost(bytes: u64, scene: &Scene) -> f64 {
    let least = scene.nodes.iter().map(|node| node.bandwidth).fold(f64::INFINITY, f64::min);
    2.0 * bytes as f64 / least
}

fn is_strong(loads: &Loads) -> bool {
    let (hottest, mean) = (loads.utilisation(loads.hottest()), loads.mean());
    hottest >= BUSY_MIN && hottest - mean > STRONG_MIN * mean
}

fn is_unbalanced(loads: &Loads) -> bool {
    let (hottest, mean) = (loads.utilisation(loads.hottest()), loads.mean());
    hottest >= BUSY_MIN && hottest - mean > UNBALANCED_MIN * mean
}
