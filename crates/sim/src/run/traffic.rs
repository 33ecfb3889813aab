//! Stages as flows: how fast each runs now, and which ends next.
//!
//! Flows of one node that do the same per byte are one class; a class keeps what each of its flows has got since it
//! began (its service), and a flow ends when the service reaches the amount noted when it came. So time passes for a
//! class, not for each flow. Rates come from [`crate::flow`], anew when [`Resolve`] says so; a class that was empty
//! runs meanwhile at what the last solution offers.
//!
//! The cap of a flow follows from the cpus at work on its node: cores share their lines in flight and their cpu time
//! between hardware threads.
//!
//! Invariant: a flow ends once, not before it got its amount.
//!
//! # Limits
//! Rates are up to a period old in lazy mode; `exact` and `lazy` are compared in a test.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Resolve;
use crate::constants::Constants;
use crate::flow::{Class, Solver};
use crate::machine::Machine;
use crate::workload::{LINE_BYTES, TaskStage, UnderWay};

/// A kind of stage, per unit: a byte, or a nanosecond of cpu time where no memory is touched.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    cpu_ns: f64,
    streamed: Vec<(usize, f64)>,
    lines: Vec<(usize, f64)>,
    memory: bool,
    under_way: UnderWay,
}

/// A kind of stage, by place among the profiles.
pub(super) type ProfileId = u32;

/// Flows of one node and profile.
#[derive(Debug)]
struct FlowClass {
    node: usize,
    uses: Vec<(usize, f64)>,
    /// Per unit, of a core of its own: computing, waiting for random lines, waiting for streamed ones; ns.
    costs_ns: [f64; 3],
    rate: f64,
    cap: f64,
    /// What each flow has got since the class was last empty, up to `since_ns`.
    service: f64,
    since_ns: u64,
    next_ns: u64,
    /// Amounts at which flows end, as sortable bits, and who they are.
    flows: BinaryHeap<Reverse<(u64, u32)>>,
    /// Its place among the active classes.
    active: usize,
    /// How many flows it had in the solution of this number.
    solved: (u64, usize),
}

/// All flows.
#[derive(Debug)]
pub(super) struct Traffic<'a> {
    machine: &'a Machine,
    constants: &'a Constants,
    resolve: Resolve,
    profiles: Vec<Profile>,
    by_key: BTreeMap<Vec<u64>, ProfileId>,
    classes: Vec<FlowClass>,
    /// Per profile and node, the class.
    by_place: Vec<Vec<Option<u32>>>,
    active: Vec<u32>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
    solver: Solver,
    rates: Vec<f64>,
    /// Cpus at work per node.
    busy: Vec<usize>,
    flows: usize,
    /// By how many flows classes differ from those of the last solution, all together.
    drift: usize,
    /// When rates are to be worked out anew.
    wanted_ns: u64,
    /// The virtual time of the last change.
    now_ns: u64,
    pub(super) solutions: u64,
}

/// How long after many flows have begun or ended rates are worked out anew: what begins with them has begun by then.
const SETTLING_NS: u64 = 10_000;
const NEVER: u64 = u64::MAX;
const NOT_ACTIVE: usize = usize::MAX;

impl<'a> Traffic<'a> {
    pub(super) fn new(machine: &'a Machine, constants: &'a Constants, resolve: Resolve) -> Traffic<'a> {
        Traffic {
            machine,
            constants,
            resolve,
            profiles: Vec::new(),
            by_key: BTreeMap::new(),
            classes: Vec::new(),
            by_place: Vec::new(),
            active: Vec::new(),
            due: BinaryHeap::new(),
            solver: Solver::new(&machine.resources()),
            rates: Vec::new(),
            busy: vec![0; machine.node_count()],
            flows: 0,
            drift: 0,
            wanted_ns: NEVER,
            now_ns: 0,
            solutions: 0,
        }
    }

    /// The profile of a stage and how many units it has. `None` for a stage that does nothing.
    pub(super) fn profile(&mut self, stage: &TaskStage) -> Option<(ProfileId, f64)> {
        let bytes = stage.bytes();
        let units = if bytes > 0.0 { bytes } else { stage.cpu_ns };
        if units <= 0.0 {
            return None;
        }
        let per_unit = |of: &[(usize, f64)]| {
            let mut per_node: BTreeMap<usize, f64> = BTreeMap::new();
            of.iter().filter(|(_, amount)| *amount > 0.0).for_each(|(node, amount)| {
                *per_node.entry(*node).or_default() += rounded(amount / units);
            });
            per_node.into_iter().collect::<Vec<_>>()
        };
        let profile = Profile {
            cpu_ns: rounded(stage.cpu_ns / units),
            streamed: per_unit(&stage.streamed),
            lines: per_unit(&stage.lines),
            memory: bytes > 0.0,
            under_way: stage.under_way,
        };
        let next = self.profiles.len() as ProfileId;
        let id = *self.by_key.entry(profile.key()).or_insert(next);
        if id == next {
            self.profiles.push(profile);
            self.by_place.push(vec![None; self.machine.node_count()]);
        }
        Some((id, units))
    }

    /// What a stage moved, per node of the memory, in bytes.
    pub(super) fn moved(&self, profile: ProfileId, units: f64, mut tell: impl FnMut(usize, f64)) {
        let profile = &self.profiles[profile as usize];
        profile.streamed.iter().for_each(|(node, share)| tell(*node, share * units));
        profile.lines.iter().for_each(|(node, share)| tell(*node, share * units * LINE_BYTES));
    }

    /// Cpu time of a stage, ns, of a core of its own.
    pub(super) fn cpu_ns(&self, profile: ProfileId, units: f64) -> f64 {
        self.profiles[profile as usize].cpu_ns * units
    }

    /// One more cpu of a node is at work.
    pub(super) fn occupy(&mut self, node: usize) {
        self.busy[node] += 1;
    }

    /// One less.
    pub(super) fn release(&mut self, node: usize) {
        self.busy[node] -= 1;
    }

    /// Cpus at work on a node.
    pub(super) fn busy(&self, node: usize) -> usize {
        self.busy[node]
    }

    /// Begins a flow of a node's cpu.
    pub(super) fn begin(&mut self, node: usize, profile: ProfileId, units: f64, who: u32, now_ns: u64) {
        self.now_ns = now_ns;
        let class = self.class(node, profile);
        if self.classes[class].flows.is_empty() {
            let cap = self.cap(class);
            let active = self.active.len();
            self.active.push(class as u32);
            let of = &mut self.classes[class];
            (of.cap, of.service, of.since_ns, of.next_ns, of.active) = (cap, 0.0, now_ns, NEVER, active);
            of.rate = self.solver.offer(cap, &of.uses);
        }
        let of = &mut self.classes[class];
        of.advance(now_ns);
        let ends = of.service + units;
        of.flows.push(Reverse((ends.to_bits(), who)));
        self.flows += 1;
        self.drifted(class, 1);
        self.note_next(class, now_ns);
    }

    /// When the next flow ends, or rates are worked out anew.
    pub(super) fn next_ns(&mut self) -> u64 {
        while let Some(Reverse((at, class))) = self.due.peek() {
            let of = &self.classes[*class as usize];
            if of.next_ns == *at && of.active != NOT_ACTIVE {
                break;
            }
            self.due.pop();
        }
        let ends = self.due.peek().map_or(NEVER, |Reverse((at, _))| *at);
        ends.min(self.wanted_ns)
    }

    /// Works out rates if it is time to.
    pub(super) fn settle(&mut self, now_ns: u64) {
        if self.wanted_ns <= now_ns {
            self.solve(now_ns);
        }
    }

    /// The flows that have ended by now.
    pub(super) fn ended(&mut self, now_ns: u64, ended: &mut Vec<u32>) {
        self.now_ns = now_ns;
        while let Some(Reverse((at, class))) = self.due.peek().copied() {
            if at > now_ns {
                return;
            }
            self.due.pop();
            let of = &mut self.classes[class as usize];
            if of.next_ns != at || of.active == NOT_ACTIVE {
                continue;
            }
            of.advance(now_ns);
            let mut count = 0;
            // The first one is due whatever rounding says.
            while let Some(Reverse((ends, who))) = of.flows.peek().copied() {
                let late = f64::from_bits(ends) <= of.service * (1.0 + 1e-12) + 1e-6;
                if !late && of.next_ns != at {
                    break;
                }
                of.next_ns = NEVER;
                of.flows.pop();
                ended.push(who);
                count += 1;
            }
            self.flows -= count;
            self.drifted(class as usize, -(count as isize));
            if self.classes[class as usize].flows.is_empty() {
                self.deactivate(class as usize);
            } else {
                self.note_next(class as usize, now_ns);
            }
        }
    }

    /// Notes that a class has `n` flows more, which it has already.
    fn drifted(&mut self, class: usize, more: isize) {
        let of = &self.classes[class];
        let solved = if of.solved.0 == self.solutions { of.solved.1 } else { 0 };
        let now = of.flows.len();
        let before = now.checked_add_signed(-more).unwrap_or(0);
        self.drift = self.drift + now.abs_diff(solved) - before.abs_diff(solved);
        let wanted = match self.resolve {
            _ if self.drift == 0 => return,
            Resolve::Exact => self.now_ns,
            Resolve::Lazy { period_ns, drift } if (self.drift as f64) < drift * self.flows as f64 + 1.0 => {
                self.now_ns + period_ns
            }
            // Not at once: flows of one kind end together, and others take their place a moment later.
            Resolve::Lazy { period_ns, .. } => self.now_ns + SETTLING_NS.min(period_ns),
        };
        self.wanted_ns = self.wanted_ns.min(wanted);
    }

    fn deactivate(&mut self, class: usize) {
        let place = std::mem::replace(&mut self.classes[class].active, NOT_ACTIVE);
        self.active.swap_remove(place);
        if let Some(moved) = self.active.get(place) {
            self.classes[*moved as usize].active = place;
        }
    }

    fn class(&mut self, node: usize, profile: ProfileId) -> usize {
        if let Some(class) = self.by_place[profile as usize][node] {
            return class as usize;
        }
        let of = &self.profiles[profile as usize];
        let mut uses: BTreeMap<usize, f64> = BTreeMap::new();
        let lines = of.lines.iter().map(|(memory, share)| (*memory, share * LINE_BYTES));
        for (memory, share) in of.streamed.iter().copied().chain(lines) {
            for (resource, amount) in self.machine.uses(node, memory, self.constants) {
                *uses.entry(resource).or_default() += amount * share;
            }
        }
        let costs_ns = self.costs_ns(node, of);
        self.classes.push(FlowClass {
            node,
            costs_ns,
            uses: uses.into_iter().collect(),
            rate: 0.0,
            cap: 0.0,
            service: 0.0,
            since_ns: 0,
            next_ns: NEVER,
            flows: BinaryHeap::new(),
            active: NOT_ACTIVE,
            solved: (0, 0),
        });
        let class = self.classes.len() - 1;
        self.by_place[profile as usize][node] = Some(class as u32);
        class
    }

    /// The most units per second that one cpu of a node does: by its own work, and by the lines it can have in flight.
    fn cap(&self, class: usize) -> f64 {
        let of = &self.classes[class];
        let facts = &self.machine.nodes()[of.node];
        let cores = facts.cores.max(1) as f64;
        let busy = self.busy[of.node].max(1) as f64;
        // Of one cpu: how much of a core's lines it has, and of a core's speed.
        let core_share = (cores / busy).min(1.0);
        let hardware = (facts.cpus.max(1) as f64).min(busy);
        let beyond = if facts.cpus > facts.cores { (hardware - cores).max(0.0) / cores } else { 0.0 };
        let gained = if beyond > 0.0 { (self.constants.smt_gain() - 1.0) * beyond } else { 0.0 };
        let speed = (core_share * (1.0 + gained)).min(1.0);
        let [cpu, lines, streamed] = of.costs_ns;
        1e9 / (cpu / speed + lines / core_share).max(streamed / core_share).max(1e-12)
    }

    /// What a unit costs a cpu of a node whose core is its own.
    fn costs_ns(&self, node: usize, work: &Profile) -> [f64; 3] {
        // Constants are read only where they tell: then nothing that does not touch memory so depends on them.
        let wait = |of: &[(usize, f64)], at_once: &dyn Fn() -> f64| -> f64 {
            let all: f64 = of.iter().map(|(memory, amount)| amount * self.machine.latency_ns(node, *memory)).sum();
            if all > 0.0 { all / at_once() } else { 0.0 }
        };
        let constants = self.constants;
        let lines = || match work.under_way {
            UnderWay::Lines => constants.lines_random(),
            UnderWay::Lookups => constants.lookups_in_flight(),
            UnderWay::One => 1.0,
        };
        [work.cpu_ns, wait(&work.lines, &lines), wait(&work.streamed, &|| LINE_BYTES * constants.lines_streamed())]
    }

    fn solve(&mut self, now_ns: u64) {
        for &class in &self.active {
            self.classes[class as usize].cap = self.cap(class as usize);
        }
        let classes: Vec<Class<'_>> = self
            .active
            .iter()
            .map(|class| &self.classes[*class as usize])
            .map(|of| Class { flows: of.flows.len() as f64, cap: of.cap, uses: &of.uses })
            .collect();
        self.solver.solve(&classes, &mut self.rates);
        let mut due = std::mem::take(&mut self.due).into_vec();
        due.clear();
        for (class, rate) in self.active.iter().zip(&self.rates) {
            let of = &mut self.classes[*class as usize];
            of.advance(now_ns);
            (of.rate, of.solved) = (*rate, (self.solutions + 1, of.flows.len()));
            of.next_ns = of.ends_ns(now_ns);
            due.push(Reverse((of.next_ns, *class)));
        }
        self.due = due.into();
        (self.drift, self.wanted_ns) = (0, NEVER);
        self.solutions += 1;
    }

    fn note_next(&mut self, class: usize, now_ns: u64) {
        let of = &mut self.classes[class];
        let next = of.ends_ns(now_ns);
        if next != of.next_ns {
            of.next_ns = next;
            self.due.push(Reverse((next, class as u32)));
        }
    }
}

impl FlowClass {
    fn advance(&mut self, now_ns: u64) {
        self.service += self.rate * (now_ns - self.since_ns) as f64 * 1e-9;
        self.since_ns = now_ns;
    }

    /// When its first flow ends at this rate.
    fn ends_ns(&self, now_ns: u64) -> u64 {
        let Some(Reverse((ends, _))) = self.flows.peek() else { return NEVER };
        let left = (f64::from_bits(*ends) - self.service).max(0.0);
        let ns = (left / self.rate.max(f64::MIN_POSITIVE) * 1e9).ceil();
        if ns >= (1u64 << 62) as f64 { NEVER } else { now_ns + (ns as u64).max(1) }
    }
}

impl Profile {
    /// What tells profiles apart.
    fn key(&self) -> Vec<u64> {
        let pairs = |of: &[(usize, f64)]| -> Vec<u64> {
            of.iter().flat_map(|(node, share)| [*node as u64, share.to_bits()]).collect()
        };
        let mut key = vec![
            self.cpu_ns.to_bits(),
            u64::from(self.memory) | (self.under_way as u64) << 1,
            self.streamed.len() as u64,
        ];
        key.extend(pairs(&self.streamed));
        key.extend(pairs(&self.lines));
        key
    }
}

/// Rounded to about a thousandth, so that stages that differ in their last rows only are one kind.
fn rounded(figure: f64) -> f64 {
    f64::from_bits((figure.to_bits() + (1 << 41)) & !((1 << 42) - 1))
}
