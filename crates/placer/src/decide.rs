//! [`Placer`]: what to do about a period.

use crate::copies;
use crate::decision::{Copies, Decision, Reason};
use crate::group::Scene;
use crate::history::{History, Resource};
use crate::limits::{
    BUSY_MIN, CHANCE_ERRORS, FULL_MIN, ITEMS_MAX, SLIGHT_MIN, SLIGHT_PERIODS, SMOOTHED_PERIODS, STRONG_MIN,
    UNBALANCED_MIN, UNBALANCED_PERIODS,
};
use crate::memory::{Memory, Room};
use crate::plan::{Loads, Place, is_hotter};
use crate::throughput::Throughput;
use crate::trial::Trial;
use crate::undo::{Moved, Undo};
use crate::{Item, ItemId, Lies, Observation};

/// What tells a slight imbalance from chance: of a node in windows of [`SLIGHT_PERIODS`] in a row, in which it was
/// hotter than the mean on the whole. In some it may have been cooler: of a node that is a little hotter chance makes
/// that as well.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    windows: f64,
    /// By how much, in all, as parts of the mean; and the variance of that by chance.
    excess: f64,
    variance: f64,
}

impl Evidence {
    fn add(&mut self, excess: f64, error: f64) {
        let next = Evidence {
            windows: self.windows + 1.0,
            excess: self.excess + excess,
            variance: self.variance + error * error,
        };
        *self = if next.excess > 0.0 { next } else { Evidence::default() };
    }

    fn is_enough(&self) -> bool {
        self.excess > CHANCE_ERRORS * self.variance.sqrt() && self.excess > SLIGHT_MIN * self.windows
    }
}

/// Decides, period by period.
#[derive(Clone, Debug, Default)]
pub struct Placer {
    pub(crate) history: History,
    throughput: Throughput,
    memory: Memory,
    trial: Trial,
    undo: Undo,
    /// Periods in a row with a strongly unbalanced load.
    unbalanced: u32,
    /// By node, what tells that a slight imbalance is no chance.
    evidence: Vec<Evidence>,
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
        let was_seen = Loads::is_seen(observation, SLIGHT_MIN);
        let mut decisions = self.copies(observation, &loads, true);
        if decisions.is_empty() {
            decisions = self.make_room(observation, &loads);
        }
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
            let is_idle = self.would_be_idle(&loads);
            let waits = is_idle && self.is_to_try(observation, &loads);
            if !waits {
                plan = self.strongly(observation, &loads);
            }
            if plan.is_empty() && is_idle {
                let decisions = self.try_out(observation, &loads);
                if !decisions.is_empty() {
                    return self.tried(decisions);
                }
            }
            if plan.is_empty() && !waits {
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
            return self.tried(decisions);
        }
        let decisions = self.copies(observation, &loads, false);
        if !decisions.is_empty() {
            return self.begun(decisions);
        }
        if was_seen || is_hotter(&loads, SLIGHT_MIN) { Vec::new() } else { self.put_together(observation, &loads) }
    }

    /// Something is decided that nothing else is to be judged by.
    fn begun(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        self.throughput.disturbed();
        self.trial.disturbed();
        self.undo.disturbed();
        self.is_moved();
        decisions
    }

    /// Something is divided to see whether that helps, or goes back.
    fn tried(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        self.undo.disturbed();
        self.is_moved();
        decisions
    }

    /// Whether nodes would be idle at times also if all of them gave what the hottest does: then dividing gains more
    /// than balancing can, which would put it off again and again.
    fn would_be_idle(&self, loads: &Loads) -> bool {
        self.throughput.used() * loads.peak() < FULL_MIN * loads.mean()
    }

    /// Whether a trial would begin if enough periods were seen.
    fn is_to_try(&self, observation: &Observation, loads: &Loads) -> bool {
        if loads.mean() < BUSY_MIN {
            return false;
        }
        let (scene, loads) = self.scene(observation, loads);
        let may = |item: usize, to: &[usize]| self.may_decide(&scene, item) && self.may_go(&scene, item, to);
        !self.trial.to_divide(&scene, &self.history, (&loads, &self.throughput), &may).is_empty()
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
        self.evidence.clear();
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
    pub(crate) fn of_group(
        &mut self,
        scene: &Scene,
        group: usize,
        to: &[usize],
        reason: Reason,
        gain: f64,
    ) -> Vec<Decision> {
        let elsewhere = scene.members[group].iter().filter(|member| member.lies != Lies::Ranges(to.to_vec()));
        elsewhere.map(|member| self.decision(member, to.to_vec(), reason, gain)).collect()
    }

    /// What to do about a load that few periods tell to be unbalanced.
    fn strongly(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        if !Loads::is_seen(observation, STRONG_MIN) || !is_hotter(loads, STRONG_MIN) {
            self.unbalanced = 0;
            return Vec::new();
        }
        self.unbalanced += 1;
        if self.unbalanced < UNBALANCED_PERIODS {
            return Vec::new();
        }
        // Also where nothing helps: what has to be tried is tried again after as many periods.
        self.unbalanced = 0;
        let (scene, mut loads) = self.scene(observation, loads);
        let reads = self.reads(&scene, SMOOTHED_PERIODS, &|item| self.history.load(item, Resource::Memory));
        loads.without_chance(&reads);
        self.balance(&scene, loads, UNBALANCED_MIN)
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
        if 2 * seen < periods {
            self.evidence.clear();
            return Vec::new();
        }
        let (scene, mut loads) = self.scene(observation, &loads);
        let reads = self.reads(&scene, f64::from(SLIGHT_PERIODS), &|item| self.history.read(item).all);
        if !self.is_no_chance(&loads, &reads) || !is_hotter(&loads, SLIGHT_MIN) {
            return Vec::new();
        }
        loads.without_chance(&reads);
        self.balance(&scene, loads, SLIGHT_MIN)
    }

    /// How often each group was read in so many periods at least, by what was read of its items per second: a statement
    /// reads all of an item at most.
    fn reads(&self, scene: &Scene, periods: f64, per_second: &dyn Fn(ItemId) -> f64) -> Vec<f64> {
        let of_group = |group: usize| {
            let read: f64 = scene.members[group].iter().map(|member| per_second(member.id)).sum();
            read * periods * scene.seconds / scene.items[group].bytes.max(1) as f64
        };
        (0..scene.items.len()).map(of_group).collect()
    }

    /// Whether what was seen of a node in some windows of [`SLIGHT_PERIODS`] in a row is more than chance makes.
    fn is_no_chance(&mut self, loads: &Loads, reads: &[f64]) -> bool {
        let found = loads.excess(reads);
        self.evidence.resize(found.len(), Evidence::default());
        for (evidence, (excess, error)) in self.evidence.iter_mut().zip(found) {
            evidence.add(excess, error);
        }
        self.evidence.iter().any(Evidence::is_enough)
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
        let (scene, loads) = self.scene(observation, loads);
        let may = |item: usize, to: &[usize]| self.may_decide(&scene, item) && self.may_go(&scene, item, to);
        let places = self.trial.begin(&scene, &self.history, (&loads, &self.throughput), &may);
        let mut items = Vec::new();
        for (Place { item, to }, reason) in places {
            let gain = if let Reason::Idle { mean } = reason { 1.0 / mean } else { 1.0 };
            for member in &scene.members[item] {
                let Lies::Ranges(from) = &member.lies else { continue };
                if *from != to {
                    items.push((member.id, from.clone(), to.clone()));
                    decisions.push(self.decision(member, to.clone(), reason, gain));
                }
            }
        }
        if !items.is_empty() {
            self.trial.begun(self.throughput.before(self.history.period()), items);
            self.throughput.disturbed();
        }
        decisions
    }

    pub(crate) fn may_decide(&self, scene: &Scene, item: usize) -> bool {
        let is_beside_cpus = |member: &Item| match &member.lies {
            Lies::Ranges(on) => on.iter().all(|node| scene.nodes[*node].cpus > 0.0),
            Lies::Replicated(_) | Lies::Otherwise => false,
        };
        let may = |member: &Item| is_beside_cpus(member) && self.history.may_decide(member);
        scene.members[item].iter().all(may)
    }

    pub(crate) fn may_go(&self, scene: &Scene, item: usize, to: &[usize]) -> bool {
        scene.members[item].iter().all(|member| self.history.may_go(member.id, to))
    }

    /// Nobody looked for a while: what was seen before counts no more. What users undid does.
    pub fn begin_anew(&mut self) {
        self.unbalanced = 0;
        (self.throughput, self.trial) = (Throughput::default(), Trial::default());
        self.undo.disturbed();
        self.slightly = (0, 0);
        self.evidence.clear();
        self.history.forget_loads();
    }

    /// A user undid a decision: it is not made again.
    pub fn undone(&mut self, item: ItemId, place: &[usize]) {
        self.history.unwanted(item, place);
        self.undo.disturbed();
    }

    /// Divided items that nobody reads go to one node each, with those of their group.
    fn put_together(&mut self, observation: &Observation, loads: &Loads) -> Vec<Decision> {
        let is_divided = |item: &Item| matches!(&item.lies, Lies::Ranges(on) if on.len() > 1);
        let is_cold = |item: &Item| self.history.is_cold(std::slice::from_ref(item));
        if !observation.items.iter().any(|item| is_divided(item) && is_cold(item)) {
            return Vec::new();
        }
        let scene = Scene::new(observation, &Scene::groups(observation, &self.history));
        let is_it = |group: &usize| {
            let members = &scene.members[*group];
            self.history.is_cold(members) && members.iter().any(is_divided) && self.may_decide(&scene, *group)
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

    /// An item is to lie in ranges; a dictionary that has copies keeps them where it is divided.
    fn decision(&mut self, item: &Item, to: Vec<usize>, reason: Reason, gain: f64) -> Decision {
        let keeps = item.dictionary.is_copied && to.len() > 1;
        let copies = if keeps { Copies::Dictionary } else { Copies::None };
        self.decided(item, (to, copies), reason, (gain, item.bytes))
    }

    fn decided(
        &mut self,
        item: &Item,
        (to, copies): (Vec<usize>, Copies),
        reason: Reason,
        (gain, bytes): (f64, u64),
    ) -> Decision {
        let from = match &item.lies {
            Lies::Ranges(from) | Lies::Replicated(from) => from.clone(),
            Lies::Otherwise => Vec::new(),
        };
        self.history.leaves(item.id, &from);
        Decision { item: item.id, from, to, copies, reason, gain, bytes }
    }

    /// Copies that cost something, or none yet that would help.
    fn copies(&mut self, observation: &Observation, loads: &Loads, is_dropped: bool) -> Vec<Decision> {
        let has_copies = |item: &Item| matches!(item.lies, Lies::Replicated(_)) || item.dictionary.is_copied;
        let is_concerned = |item: &Item| if is_dropped { has_copies(item) } else { item.remote > 0 };
        if !observation.items.iter().any(is_concerned) {
            return Vec::new();
        }
        let scene = Scene::new(observation, &Scene::groups(observation, &self.history));
        let copied = match is_dropped {
            true => copies::dropped(&scene, &self.history, &self.memory, &|node| loads.utilisation(node)),
            false => copies::made(&scene, &self.history, &self.memory),
        };
        let mut decisions = Vec::new();
        for of in copied {
            let may = of.copies != Copies::All || self.may_go(&scene, of.item, &of.to);
            for (member, bytes) in scene.members[of.item].iter().zip(of.bytes).filter(|_| may) {
                decisions.push(self.decided(member, (of.to.clone(), of.copies), of.reason, (1.0, bytes)));
            }
        }
        decisions
    }
}
