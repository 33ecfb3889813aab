//! [`Placer`]: what to do about a period.

use crate::decision::{Decision, Reason};
use crate::group::Scene;
use crate::history::History;
use crate::limits::{
    AS_GOOD, BUSY_MIN, COOLEST, FURTHER_GAIN_MIN, GAIN_MIN, HORIZON_PERIODS, ITEMS_MAX, LARGEST, PLANS_MAX,
    SLIGHT_PERIODS, STEP_MIN, STRONG_MIN, UNBALANCED_MIN, UNBALANCED_PERIODS,
};
use crate::memory::{Memory, Room};
use crate::plan::{Loads, Place};
use crate::throughput::Throughput;
use crate::trial::Trial;
use crate::undo::{Moved, Undo};
use crate::{Item, ItemId, Lies, Observation};

/// Decides, period by period.
#[derive(Clone, Debug, Default)]
pub struct Placer {
    history: History,
    throughput: Throughput,
    memory: Memory,
    trial: Trial,
    undo: Undo,
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
        self.throughput.observe(observation, &loads);
        self.memory.observe(observation);
        let was_seen = Loads::is_seen(observation, is_unbalanced);
        let decisions = self.make_room(observation, &loads);
        if !decisions.is_empty() {
            return self.begun(decisions);
        }
        let lost = self.give_back(observation);
        if !lost.is_empty() {
            self.throughput.disturbed();
            self.is_moved();
            return lost;
        }
        let mut plan = Vec::new();
        if self.undo.may_plan(&self.throughput, self.history.period()) {
            plan = self.strongly(observation, &loads);
            if plan.is_empty() {
                plan = self.slightly(observation, was_seen);
            }
        }
        if !plan.is_empty() {
            let before = self.throughput.clone();
            let plan = self.begun(plan);
            self.undo.begun(&plan, &before, self.history.period());
            return plan;
        }
        let decisions = self.try_out(observation, &loads);
        if !decisions.is_empty() {
            self.undo.disturbed();
            self.is_moved();
            return decisions;
        }
        if was_seen || is_unbalanced(&loads) { Vec::new() } else { self.put_together(observation, &loads) }
    }

    /// Something is decided that nothing else is to be judged by.
    fn begun(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        self.throughput.disturbed();
        self.trial.disturbed();
        self.undo.disturbed();
        self.is_moved();
        decisions
    }

    /// A plan with which less is read than before goes back.
    fn give_back(&mut self, observation: &Observation) -> Vec<Decision> {
        let (lost, read) = self.undo.lost(&self.throughput, self.history.period());
        self.back(observation, lost, Reason::Lost { read })
    }

    /// Items go back to where they were, those that are where they were to be.
    fn back(&mut self, observation: &Observation, items: Vec<Moved>, reason: Reason) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (id, from, to) in items {
            let Some(item) = observation.items.iter().find(|item| item.id == id) else { continue };
            if item.lies == Lies::Ranges(to.clone()) && !item.is_users {
                decisions.push(self.decision(item, from, reason, 1.0));
            }
        }
        decisions
    }

    /// What was seen before says little about what comes.
    fn is_moved(&mut self) {
        (self.unbalanced, self.slightly) = (0, (0, 0));
        self.history.forget_means();
    }

    /// What to do about memory that is nearly full, and what lies on memory without cpus.
    fn make_room(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        if !self.memory.is_concerned(observation) {
            return Vec::new();
        }
        let groups = Scene::groups(observation, &self.history);
        let (scene, loads) = (Scene::new(observation, &groups), loads.summed(&groups));
        let rests = |item: usize| !scene.members[item].iter().all(|member| self.history.may_decide(member));
        let may = |item: usize, to: &[usize]| !rests(item) && self.may_go(&scene, item, to);
        let moves = self.memory.decide(&scene, &self.history, &loads, &may);
        let mut decisions = Vec::new();
        for (Place { item, to }, reason) in moves {
            decisions.extend(self.of_group(&scene, item, &to, reason, 1.0));
        }
        decisions
    }

    /// A decision for each item of a group that does not lie there.
    fn of_group(&mut self, scene: &Scene, group: usize, to: &[usize], reason: Reason, gain: f64) -> Vec<Decision> {
        let elsewhere = scene.members[group].iter().filter(|member| member.lies != Lies::Ranges(to.to_vec()));
        elsewhere.map(|member| self.decision(member, to.to_vec(), reason, gain)).collect()
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
        let failed = self.trial.failed(&mut self.throughput, &self.history);
        let mut decisions = self.back(observation, failed, Reason::DidNotHelp);
        decisions.iter().for_each(|of| self.history.unwanted(of.item, &of.from));
        if !decisions.is_empty() {
            return decisions;
        }
        let mean = self.throughput.used();
        let (scene, loads) = self.scene(observation, loads);
        let may = |item: usize, to: &[usize]| self.may_decide(&scene, item) && self.may_go(&scene, item, to);
        let places = self.trial.begin(&scene, &self.history, (&loads, &self.throughput), &may);
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
            self.trial.begun(self.throughput.before(self.history.period()), items);
            self.throughput.disturbed();
        }
        decisions
    }

    fn may_decide(&self, scene: &Scene, item: usize) -> bool {
        let is_beside_cpus = |member: &Item| match &member.lies {
            Lies::Ranges(on) => on.iter().all(|node| scene.nodes[*node].cpus > 0.0),
            Lies::Otherwise => false,
        };
        let may = |member: &Item| is_beside_cpus(member) && self.history.may_decide(member);
        scene.members[item].iter().all(may)
    }

    fn may_go(&self, scene: &Scene, item: usize, to: &[usize]) -> bool {
        scene.members[item].iter().all(|member| self.history.may_go(member.id, to))
    }

    /// Nobody looked for a while: what was seen before counts no more. What users undid does.
    pub fn begin_anew(&mut self) {
        self.unbalanced = 0;
        (self.throughput, self.trial) = (Throughput::default(), Trial::default());
        self.undo.disturbed();
        self.slightly = (0, 0);
        self.history.forget_loads();
    }

    /// A user undid a decision: it is not made again.
    pub fn undone(&mut self, item: ItemId, place: &[usize]) {
        self.history.unwanted(item, place);
        self.undo.disturbed();
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
            decisions.extend(self.of_group(scene, place, &to, reason, gain));
        }
        decisions
    }

    /// What is done one after the other after some first steps, each for the hottest node as it is then, and the loads
    /// in the end. A later step for an item takes the place of an earlier one.
    fn plan(&self, scene: &Scene, loads: &Loads, first: Vec<Place>) -> (Vec<Place>, Loads) {
        let (before, mut room) = (loads, Room::new(&scene.nodes));
        let (mut loads, mut done) = (loads.clone(), first);
        done.iter().for_each(|place| loads.put(place.item, &place.to));
        if !room.is_enough_for(scene, &done) {
            return (Vec::new(), before.clone());
        }
        for _ in 0..2 * scene.items.len() {
            if !is_unbalanced(&loads) {
                break;
            }
            let node = loads.hottest();
            let hottest = loads.utilisation(node);
            let mut steps: Vec<(f64, Vec<Place>)> = Vec::new();
            let largest = self.largest(scene, &loads, node);
            for item in &largest {
                for place in self.places(scene, &loads, &room, *item) {
                    steps.push((loads.peak_with(std::slice::from_ref(&place)), vec![place]));
                }
            }
            let best = steps.iter().map(|step| step.0).fold(f64::INFINITY, f64::min);
            if best > (1.0 + UNBALANCED_MIN) * loads.mean() {
                steps.extend(self.exchanges(scene, (&loads, &room), node, &largest));
            }
            let Some(best) = steps.iter().map(|step| step.0).min_by(f64::total_cmp) else { break };
            if best > (1.0 - STEP_MIN) * hottest {
                break;
            }
            let order = |step: &(f64, Vec<Place>)| {
                let ranges: usize = step.1.iter().map(|place| place.to.len()).sum();
                let bytes: u64 = step.1.iter().map(|place| scene.items[place.item].bytes).sum();
                (ranges, bytes)
            };
            let as_good = steps.into_iter().filter(|step| step.0 <= (1.0 + AS_GOOD) * best);
            let Some((_, step)) = as_good.min_by_key(order) else { break };
            for place in &step {
                loads.put(place.item, &place.to);
                let earlier = done.iter().find(|earlier| earlier.item == place.item);
                room.put_all(&scene.members[place.item], earlier.map(|earlier| earlier.to.as_slice()), &place.to);
            }
            done.retain(|earlier| step.iter().all(|place| place.item != earlier.item));
            done.extend(step);
        }
        done.retain(|place| scene.items[place.item].lies != Lies::Ranges(place.to.clone()));
        // A step may have taken the place of one that made room for others.
        match Room::new(&scene.nodes).is_enough_for(scene, &done) {
            true => (done, loads),
            false => (Vec::new(), before.clone()),
        }
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
        let room = Room::new(&scene.nodes);
        let of = |item: usize| self.places(scene, loads, &room, item).into_iter().filter(|place| place.to.len() > 1);
        largest.into_iter().flat_map(of).collect()
    }

    /// The items that most is read of, over as many nodes as have room: one of them, two, and so on.
    fn divided(&self, scene: &Scene, loads: &Loads) -> Vec<Vec<Place>> {
        let mut items: Vec<usize> = (0..scene.items.len()).collect();
        items.retain(|place| self.may_decide(scene, *place) && loads.load(*place) > 0.0);
        items.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        items.truncate(LARGEST);
        let room = Room::new(&scene.nodes);
        let most = |item| self.places(scene, loads, &room, item).pop();
        let places: Vec<Place> = items.into_iter().filter_map(most).collect();
        (1..=places.len()).map(|count| places[..count].to_vec()).collect()
    }

    /// Whole items of a node, each for a whole one of another.
    fn exchanges(
        &self,
        scene: &Scene,
        (loads, room): (&Loads, &Room),
        node: usize,
        largest: &[usize],
    ) -> Vec<(f64, Vec<Place>)> {
        let mut steps = Vec::new();
        let has_cpus = |other: &usize| *other != node && scene.nodes[*other].cpus > 0.0;
        let mut others: Vec<usize> = (0..scene.nodes.len()).filter(has_cpus).collect();
        others.sort_by(|a, b| loads.utilisation(*a).total_cmp(&loads.utilisation(*b)).then(a.cmp(b)));
        others.truncate(COOLEST);
        for other in others {
            let others = self.largest(scene, loads, other);
            for (a, b) in largest.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
                let exchange = [(a, node, other), (b, other, node)].map(|(place, from, to)| {
                    let item = &scene.items[place];
                    let has_room = room.takes(to, item.bytes);
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
    fn places(&self, scene: &Scene, loads: &Loads, room: &Room, place: usize) -> Vec<Place> {
        let item = &scene.items[place];
        let Lies::Ranges(from) = &item.lies else { return Vec::new() };
        let most = item.ranges_max.min(scene.nodes.len()).max(from.len());
        // What is divided is not put together as long as it is read.
        let of = (from.len().max(1)..=most).filter_map(|ranges| {
            let has_room = |node: usize| {
                let is_there = from.contains(&node);
                is_there || room.takes(node, item.bytes.div_ceil(ranges as u64))
            };
            loads.spread(place, ranges, &has_room)
        });
        of.filter(|place| place.to != *from && self.may_go(scene, place.item, &place.to)).collect()
    }

    /// Divided items that nobody reads go to one node each, with those of their group.
    fn put_together(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        let is_divided = |item: &Item| matches!(&item.lies, Lies::Ranges(on) if on.len() > 1);
        if !observation.items.iter().any(|item| is_divided(item) && self.history.is_cold(item.id)) {
            return Vec::new();
        }
        let scene = Scene::new(observation, &Scene::groups(observation, &self.history));
        let is_it = |group: &usize| {
            let members = &scene.members[*group];
            let is_cold = members.iter().all(|member| self.history.is_cold(member.id));
            is_cold && members.iter().any(is_divided) && self.may_decide(&scene, *group)
        };
        let Some(group) = (0..scene.items.len()).find(is_it) else { return Vec::new() };
        let may = |node: &usize| {
            let place = Place { item: group, to: vec![*node] };
            let has_room = Room::new(&scene.nodes).is_enough_for(&scene, std::slice::from_ref(&place));
            scene.nodes[*node].cpus > 0.0 && has_room && self.may_go(&scene, group, &place.to)
        };
        let order = |a: &usize, b: &usize| loads.utilisation(*a).total_cmp(&loads.utilisation(*b)).then(a.cmp(b));
        let Some(to) = (0..scene.nodes.len()).filter(may).min_by(order) else { return Vec::new() };
        self.of_group(&scene, group, &[to], Reason::Cold, 1.0)
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
    let with_cpus = scene.nodes.iter().filter(|node| node.cpus > 0.0);
    let least = with_cpus.map(|node| node.bandwidth).fold(f64::INFINITY, f64::min);
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
