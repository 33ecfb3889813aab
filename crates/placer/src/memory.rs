//! Memory that is nearly full, and memory without cpus: what is coldest goes there, what is hot comes back.
//!
//! How hot an item is is how often its bytes are read over. Of a node with cpus that is nearly full, what is coldest
//! goes to a node with cpus that has room, else to memory without cpus. What lies on memory without cpus and is read
//! comes back where there is room, or changes places with what is colder; it has to be read at least as much as is
//! moved, read and written, within [`HORIZON_PERIODS`].
//!
//! Invariants: a node gets no more than it has room for, in the order in which it is decided; between the marks
//! [`FULL_UNTIL`] and [`FULL_FROM`] of a node nothing goes and nothing comes.

use std::collections::BTreeMap;

use numa::NodeId;

use crate::group::Scene;
use crate::history::{History, Resource};
use crate::limits::{
    BUSY_MIN, COLDER_MIN, FULL_FROM, FULL_UNTIL, HORIZON_PERIODS, MEMORY_ITEMS_MAX, UNBALANCED_MIN, UNBALANCED_PERIODS,
};
use crate::plan::{Loads, Place};
use crate::{Item, Lies, Node, Observation, Reason};

/// What nodes have left while things go and come.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    bytes: Vec<f64>,
    free: Vec<f64>,
}

impl Room {
    /// What nodes have left now.
    pub(crate) fn new(nodes: &[Node]) -> Room {
        let of = |figure: fn(&Node) -> u64| nodes.iter().map(|node| figure(node) as f64).collect();
        Room { bytes: of(|node| node.bytes), free: of(|node| node.free_bytes) }
    }

    /// How much of a node's memory would be used with so much more, as a part.
    fn used_with(&self, node: usize, more: f64) -> f64 {
        if self.bytes[node] > 0.0 { 1.0 - (self.free[node] - more) / self.bytes[node] } else { 0.0 }
    }

    /// Whether so much fits, and leaves at most `most` of the node used.
    fn fits(&self, node: usize, bytes: f64, most: f64) -> bool {
        self.free[node] > bytes && self.used_with(node, bytes) <= most
    }

    /// Whether a node takes so many bytes and is not nearly full then.
    pub(crate) fn takes(&self, node: usize, bytes: u64) -> bool {
        self.fits(node, bytes as f64, FULL_FROM)
    }

    /// All items of a group go to these nodes, in equal ranges, from where they lie or from `earlier`.
    pub(crate) fn put_all(&mut self, members: &[Item], earlier: Option<&[usize]>, to: &[usize]) {
        for member in members {
            let from = earlier.unwrap_or(on(member));
            from.iter().for_each(|node| self.free[*node] += member.bytes as f64 / from.len() as f64);
            to.iter().for_each(|node| self.free[*node] -= member.bytes as f64 / to.len() as f64);
        }
    }

    /// Whether there is room for all of these, one after the other; afterwards they are there.
    pub(crate) fn is_enough_for(&mut self, scene: &Scene, places: &[Place]) -> bool {
        places.iter().all(|place| {
            let before = self.clone();
            self.put_all(&scene.members[place.item], None, &place.to);
            let is_within = |node: &usize| {
                let goes_down = self.free[*node] >= before.free[*node];
                goes_down || (self.free[*node] > 0.0 && self.used_with(*node, 0.0) <= FULL_FROM)
            };
            place.to.iter().all(is_within)
        })
    }
}

/// Which nodes are nearly full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    full: BTreeMap<NodeId, bool>,
}

/// A group as far as memory goes.
struct Group {
    place: usize,
    bytes: f64,
    /// How often it is read over per period, at least and at most.
    heat: (f64, f64),
}

impl Memory {
    /// Takes a period in.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        let room = Room::new(&observation.nodes);
        for (place, node) in observation.nodes.iter().enumerate() {
            let used = room.used_with(place, 0.0);
            let is_full = self.full.entry(node.id).or_default();
            *is_full = used >= FULL_FROM || (*is_full && used > FULL_UNTIL);
        }
    }

    /// Whether there may be anything to do.
    pub(crate) fn is_concerned(&self, observation: &Observation) -> bool {
        observation.nodes.iter().any(|node| node.cpus == 0.0 || self.is_full(node))
    }

    /// Whether a node was nearly full and has not had room since.
    pub(crate) fn is_full(&self, node: &Node) -> bool {
        self.full.get(&node.id).copied().unwrap_or(false)
    }

    /// What goes and what comes back, with the reason; `scene` has all groups.
    pub(crate) fn decide(
        &self,
        scene: &Scene,
        history: &History,
        loads: &Loads,
        may: &dyn Fn(usize, &[usize]) -> bool,
    ) -> Vec<(Place, Reason)> {
        if history.still() < UNBALANCED_PERIODS {
            return Vec::new();
        }
        let mut read = vec![0.0; scene.nodes.len()];
        for member in scene.members.iter().flatten() {
            let load = history.load(member.id, Resource::Memory);
            on(member).iter().for_each(|node| read[*node] += load / on(member).len() as f64);
        }
        let room = Room::new(&scene.nodes);
        // No hotter than the others are, or than it is.
        let of_node = |(node, read): (&Node, &f64)| read.max(BUSY_MIN.max(loads.mean()) * node.bandwidth);
        let most = scene.nodes.iter().zip(&read).map(of_node).collect();
        let mut step = Step { scene, history, loads: loads.clone(), may, room, read, most, done: Vec::new() };
        let groups = step.groups();
        for node in (0..scene.nodes.len()).filter(|node| has_cpus(scene, *node) && self.is_full(&scene.nodes[*node])) {
            step.relieve(node, &groups);
        }
        step.bring_back(&groups);
        step.done
    }
}

/// What is decided in a period.
struct Step<'a> {
    scene: &'a Scene,
    history: &'a History,
    loads: Loads,
    may: &'a dyn Fn(usize, &[usize]) -> bool,
    room: Room,
    /// Bytes per second that are read from each node, and that memory without cpus may be read with then.
    read: Vec<f64>,
    most: Vec<f64>,
    done: Vec<(Place, Reason)>,
}

impl Step<'_> {
    /// Groups about which something may be decided, the coldest first.
    fn groups(&self) -> Vec<Group> {
        let group = |place: usize| {
            let members = &self.scene.members[place];
            let bytes: f64 = members.iter().map(|member| member.bytes as f64).sum();
            let sum = |of: &dyn Fn(&Item) -> f64| members.iter().map(of).sum::<f64>() * self.scene.seconds / bytes;
            let now = sum(&|member| self.history.load(member.id, Resource::Memory));
            let mean = sum(&|member| self.history.mean(member.id, Resource::Memory));
            Group { place, bytes, heat: (now.min(mean), now.max(mean)) }
        };
        let is_placed = |place: &usize| {
            let members = &self.scene.members[*place];
            members.iter().all(|member| matches!(member.lies, Lies::Ranges(_))) && (self.may)(*place, &[])
        };
        let mut groups: Vec<Group> = (0..self.scene.members.len()).filter(is_placed).map(group).collect();
        groups.retain(|group| group.bytes > 0.0);
        groups.sort_by(|a, b| a.heat.1.total_cmp(&b.heat.1).then(a.place.cmp(&b.place)));
        groups
    }

    fn is_done(&self, group: &Group) -> bool {
        self.done.iter().any(|(place, _)| place.item == group.place)
    }

    fn lies_on(&self, group: &Group, of: &dyn Fn(usize) -> bool) -> bool {
        self.scene.members[group.place].iter().any(|member| on(member).iter().any(|node| of(*node)))
    }

    /// What is coldest goes from a node until that is not nearly full any more.
    fn relieve(&mut self, node: usize, groups: &[Group]) {
        let used = self.room.used_with(node, 0.0);
        for group in groups {
            if self.room.used_with(node, 0.0) <= FULL_UNTIL || self.done.len() >= MEMORY_ITEMS_MAX {
                return;
            }
            if self.is_done(group) || !self.lies_on(group, &|on| on == node) {
                continue;
            }
            let beside = self.beside_cpus(group, FULL_UNTIL).filter(|to| *to != node);
            let Some(to) = beside.or_else(|| self.without_cpus(group)) else { continue };
            self.put(group, vec![to], Reason::NearlyFull { node: self.scene.nodes[node].id, used });
        }
    }

    /// What is hottest comes back, where there is room or something colder.
    fn bring_back(&mut self, groups: &[Group]) {
        for group in groups.iter().rev() {
            if self.done.len() >= MEMORY_ITEMS_MAX || !pays(group, group.bytes) {
                return;
            }
            let Some(from) = self.without(group) else { continue };
            if self.is_done(group) {
                continue;
            }
            let reason =
                Reason::ComesBack { node: self.scene.nodes[from].id, times: group.heat.0 / self.scene.seconds };
            match self.beside_cpus(group, FULL_UNTIL) {
                Some(to) => self.put(group, vec![to], reason),
                None => self.exchange(group, groups, reason),
            }
        }
    }

    /// The first node without cpus that a group lies on.
    fn without(&self, group: &Group) -> Option<usize> {
        let nodes = 0..self.scene.nodes.len();
        nodes.into_iter().find(|node| !has_cpus(self.scene, *node) && self.lies_on(group, &|on| on == *node))
    }

    /// What is hot comes, and what is colder makes room for it first.
    fn exchange(&mut self, hot: &Group, groups: &[Group], reason: Reason) {
        let nodes = self.by_use();
        for node in nodes.into_iter().filter(|node| (self.may)(hot.place, &[*node])) {
            let before = (self.room.clone(), self.loads.clone(), self.read.clone(), self.done.len());
            let most = FULL_UNTIL.max(self.room.used_with(node, 0.0));
            let mut moved = hot.bytes;
            self.reads(hot, -1.0, None);
            for cold in groups.iter().take_while(|cold| cold.heat.1 * COLDER_MIN <= hot.heat.0) {
                if self.room.fits(node, hot.bytes, most) {
                    break;
                }
                let is_there = self.scene.members[cold.place].iter().all(|member| on(member) == [node]);
                if self.is_done(cold) || !is_there || !pays(hot, moved + cold.bytes) {
                    continue;
                }
                let Some(to) = self.without_cpus(cold) else { continue };
                moved += cold.bytes;
                let reason = Reason::Colder { node: self.scene.nodes[node].id };
                self.put(cold, vec![to], reason);
            }
            let is_within = self.done.len() < MEMORY_ITEMS_MAX;
            self.reads(hot, 1.0, None);
            if is_within && self.room.fits(node, hot.bytes, most) {
                self.put(hot, vec![node], reason);
                return;
            }
            (self.room, self.loads, self.read) = (before.0, before.1, before.2);
            self.done.truncate(before.3);
        }
    }

    /// Nodes with cpus, those with least to do first.
    fn by_use(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.scene.nodes.len()).filter(|node| has_cpus(self.scene, *node)).collect();
        nodes.sort_by(|a, b| self.loads.utilisation(*a).total_cmp(&self.loads.utilisation(*b)).then(a.cmp(b)));
        nodes
    }

    /// A node with cpus that has room for a group and is no hotter than others then; of those the one with least to do.
    fn beside_cpus(&self, group: &Group, most: f64) -> Option<usize> {
        let highest = BUSY_MIN.max(self.loads.peak()).max((1.0 + UNBALANCED_MIN) * self.loads.mean());
        let is_good = |node: &usize| {
            let place = Place { item: group.place, to: vec![*node] };
            !self.lies_on(group, &|on| on == *node)
                && self.room.fits(*node, group.bytes, most)
                && (self.may)(group.place, &[*node])
                && (self.without(group).is_some() || self.loads.peak_with(&[place]) <= highest)
        };
        self.by_use().into_iter().find(is_good)
    }

    /// Memory without cpus that has room for a group and is no hotter with it than others; of those with most room.
    fn without_cpus(&self, group: &Group) -> Option<usize> {
        let is_good = |node: &usize| {
            let read = self.read[*node] + group.heat.1 * group.bytes / self.scene.seconds;
            !has_cpus(self.scene, *node)
                && !self.lies_on(group, &|on| on == *node)
                && self.room.fits(*node, group.bytes, FULL_FROM)
                && read <= self.most[*node]
                && (self.may)(group.place, &[*node])
        };
        let order = |a: &usize, b: &usize| self.room.free[*a].total_cmp(&self.room.free[*b]).then(b.cmp(a));
        (0..self.scene.nodes.len()).filter(is_good).max_by(order)
    }

    /// A group is read so many times as much, from where it lies or from other nodes.
    fn reads(&mut self, group: &Group, times: f64, from: Option<&[usize]>) {
        for member in &self.scene.members[group.place] {
            let load = self.history.load(member.id, Resource::Memory);
            let from = from.unwrap_or(on(member));
            from.iter().for_each(|node| self.read[*node] += times * load / from.len() as f64);
        }
    }

    fn put(&mut self, group: &Group, to: Vec<usize>, reason: Reason) {
        self.room.put_all(&self.scene.members[group.place], None, &to);
        self.loads.put(group.place, &to);
        self.reads(group, -1.0, None);
        self.reads(group, 1.0, Some(&to));
        self.done.push((Place { item: group.place, to }, reason));
    }
}

/// Whether a group is read as much, within the time that a move has, as moving so many bytes reads and writes.
fn pays(group: &Group, moved: f64) -> bool {
    group.heat.0 * group.bytes * HORIZON_PERIODS >= 2.0 * moved
}

/// The nodes that an item lies on.
fn on(item: &Item) -> &[usize] {
    match &item.lies {
        Lies::Ranges(on) => on,
        Lies::Replicated(_) | Lies::Otherwise => &[],
    }
}

fn has_cpus(scene: &Scene, node: usize) -> bool {
    scene.nodes[node].cpus > 0.0
}
