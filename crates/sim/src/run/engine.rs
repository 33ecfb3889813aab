//! Virtual time: clients issue statements, workers run their tasks' stages, the watchdog looks.
//!
//! An event is planned for a time; those at one time happen in the order of planning, ended flows before all. After the
//! events of a time, rates are settled if they are due.
//!
//! Invariant: a statement ends once, after all its tasks; its client then issues the next one at the same virtual time.
//!
//! # Limits
//! A stage counts when it ends: at the borders of the measured time some of the work belongs to the other side.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use sched::policy::{Layout, Nearness};
use sched::{Affinity, Hint, Priority, SlotId};

use super::outcome::{Outcome, Tally};
use super::pool::Pool;
use super::traffic::{ProfileId, Traffic};
use super::{Options, SimError};
use crate::checkers::Violation;
use crate::machine::Machine;
use crate::workload::{At, Graph, Workload};
use random::Random;

/// How often the watchdog looks (as `sched::Watchdog` has it).
const WATCHDOG_NS: u64 = 10_000_000;
/// The priority of urgent statements.
const URGENT: u8 = Priority::USER_DEFAULT / 2;
/// `n` graphs are kept worked out; beyond it, those that only the engine still holds are dropped.
const GRAPHS_KEPT: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A woken worker arrives.
    Arrive(u32),
    /// A worker begins the stage at hand, after what a task costs besides its work.
    Begin(u32),
    /// A client issues its next statement.
    Issue(u32),
    /// The first tasks of a statement are there.
    Submit(u32),
    Watchdog,
    /// Counting begins.
    Measure,
    End,
}

/// A graph, worked out.
struct Plan {
    graph: Arc<Graph>,
    /// Per task: its stages, how many tasks it waits for, and which wait for it.
    tasks: Vec<PlannedTask>,
    roots: Vec<u32>,
}

struct PlannedTask {
    affinity: Affinity,
    hint: Hint,
    stages: Vec<(ProfileId, f64, usize)>,
    waits_for: u32,
    then: Vec<u32>,
}

/// A statement that is alive.
struct Live {
    plan: Arc<Plan>,
    client: u32,
    priority: Priority,
    issued_ns: u64,
    tasks_left: u32,
    waits: Vec<u32>,
    /// How long each task took; empty where the workload does not ask.
    took_ns: Vec<u64>,
}

/// What a slot's worker has at hand.
#[derive(Clone, Copy)]
struct Hand {
    statement: u32,
    task: u32,
    stage: u32,
    running: Nearness,
    /// The node whose cpu its thread is on.
    node: usize,
    since_ns: u64,
    /// When its stage began.
    stage_ns: u64,
    slept: bool,
}

pub(super) struct Engine<'a> {
    machine: &'a Machine,
    options: &'a Options,
    layout: &'a Layout,
    random: Random,
    now_ns: u64,
    planned: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    traffic: Traffic<'a>,
    pub(super) pool: Pool<'a>,
    plans: HashMap<*const Graph, Arc<Plan>>,
    live: Vec<Option<Live>>,
    free: Vec<u32>,
    alive: usize,
    issued: u64,
    /// When the last statement is dispatched.
    dispatched_ns: u64,
    hands: Vec<Hand>,
    /// Per client, how long the tasks of its last statement took; empty where the workload does not ask.
    took_ns: Vec<Vec<u64>>,
    /// Per slot, the place of its group's node.
    homes: Vec<usize>,
    tally: Tally,
    event_count: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(machine: &'a Machine, options: &'a Options, layout: &'a Layout) -> Engine<'a> {
        let place = |slot: &sched::policy::SlotPlace| machine.place_of(layout.group(slot.group).node).unwrap_or(0);
        let homes: Vec<usize> = layout.slots().iter().map(place).collect();
        let hand = |home: &usize| Hand {
            statement: 0,
            task: 0,
            stage: 0,
            running: Nearness::default(),
            node: *home,
            since_ns: 0,
            stage_ns: 0,
            slept: false,
        };
        Engine {
            machine,
            options,
            random: Random::new(options.seed),
            now_ns: 0,
            planned: 0,
            events: BinaryHeap::new(),
            traffic: Traffic::new(machine, &options.constants, options.resolve),
            pool: Pool::new(layout, options.settings, options.checked, |slot| {
                !options.resting.contains(&homes[slot.0 as usize])
            }),
            plans: HashMap::new(),
            live: Vec::new(),
            free: Vec::new(),
            alive: 0,
            issued: 0,
            dispatched_ns: 0,
            hands: homes.iter().map(hand).collect(),
            took_ns: Vec::new(),
            homes,
            tally: Tally::new(machine, layout.slots().len()),
            event_count: 0,
            layout,
        }
    }

    pub(super) fn run(mut self, workload: &mut dyn Workload) -> Result<Outcome, SimError> {
        let end_ns = self.options.warm_up_ns.saturating_add(self.options.measured_ns);
        self.plan_at(self.options.warm_up_ns, Event::Measure);
        self.plan_at(end_ns, Event::End);
        (0..workload.clients() as u32).for_each(|client| self.plan_at(0, Event::Issue(client)));
        if workload.wants_times() {
            self.took_ns = vec![Vec::new(); workload.clients()];
        }
        self.plan_at(WATCHDOG_NS, Event::Watchdog);
        let mut ended = Vec::new();
        loop {
            let flows_ns = self.traffic.next_ns();
            let planned_ns = self.events.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            self.now_ns = flows_ns.min(planned_ns).max(self.now_ns);
            ended.clear();
            self.traffic.ended(self.now_ns, &mut ended);
            for slot in ended.drain(..) {
                self.event_count += 1;
                self.stage_ended(slot).map_err(|violation| self.broken(violation))?;
            }
            while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
                if at > self.now_ns {
                    break;
                }
                self.events.pop();
                self.event_count += 1;
                if event == Event::End || self.enough() {
                    return self.finish();
                }
                self.handle(event, workload)?;
            }
            if self.idle() {
                return self.finish();
            }
            self.traffic.settle(self.now_ns);
            self.pool.check().map_err(|violation| self.broken(violation))?;
        }
    }

    fn handle(&mut self, event: Event, workload: &mut dyn Workload) -> Result<(), SimError> {
        let done = match event {
            Event::Arrive(slot) => self.look(slot),
            Event::Begin(slot) => self.begin_stage(slot),
            Event::Issue(client) => return self.issue(client, workload),
            Event::Submit(statement) => self.submit_roots(statement),
            Event::Watchdog => {
                self.watch();
                Ok(())
            }
            Event::Measure => {
                self.tally.begin(self.now_ns);
                let now_ns = self.now_ns;
                self.hands.iter_mut().for_each(|hand| hand.since_ns = now_ns);
                Ok(())
            }
            Event::End => Ok(()),
        };
        done.map_err(|violation| self.broken(violation))
    }

    fn enough(&self) -> bool {
        self.options.statements_max.is_some_and(|most| self.tally.statements() >= most)
    }

    /// Whether nothing will ever happen but the watchdog and the end.
    fn idle(&self) -> bool {
        let waits = |Reverse((_, _, event)): &Reverse<(u64, u64, Event)>| {
            matches!(event, Event::Watchdog | Event::Measure | Event::End)
        };
        self.alive == 0 && self.events.len() <= 3 && self.events.iter().all(waits)
    }

    fn issue(&mut self, client: u32, workload: &mut dyn Workload) -> Result<(), SimError> {
        let mut at = At {
            now_ns: self.now_ns,
            active: self.alive + 1,
            turn: self.issued,
            machine: self.machine,
            layout: self.layout,
            settings: self.options.settings,
            constants: &self.options.constants,
            took_ns: self.took_ns.get(client as usize).map_or(&[], Vec::as_slice),
            random: &mut self.random,
        };
        let Some(graph) = workload.next(client as usize, &mut at) else {
            if let Some(again_ns) = workload.asks_again_ns(client as usize) {
                // Time goes on in between, whatever the workload says.
                self.plan_at(again_ns.max(self.now_ns + 1), Event::Issue(client));
            }
            return Ok(());
        };
        let user = if graph.urgent { URGENT } else { Priority::USER_DEFAULT };
        let plan = self.plan(graph)?;
        let priority = Priority { user, statement_time: self.issued };
        self.issued += 1;
        self.alive += 1;
        let live = Live {
            client,
            priority,
            issued_ns: self.now_ns,
            tasks_left: plan.tasks.len() as u32,
            waits: plan.tasks.iter().map(|task| task.waits_for).collect(),
            took_ns: if self.took_ns.is_empty() { Vec::new() } else { vec![0; plan.tasks.len()] },
            plan: Arc::clone(&plan),
        };
        let statement = match self.free.pop() {
            Some(free) => {
                self.live[free as usize] = Some(live);
                free
            }
            None => {
                self.live.push(Some(live));
                self.live.len() as u32 - 1
            }
        };
        match self.dispatched_ns(&plan) {
            Some(at_ns) => {
                self.plan_at(at_ns, Event::Submit(statement));
                Ok(())
            }
            None => self.submit_roots(statement).map_err(|violation| self.broken(violation)),
        }
    }

    /// When a statement is dispatched, after those before it; `None` where that takes nothing.
    fn dispatched_ns(&mut self, plan: &Plan) -> Option<u64> {
        if self.options.dispatch_ns == 0 {
            return None;
        }
        let places: HashSet<Affinity> = plan.roots.iter().map(|root| plan.tasks[*root as usize].affinity).collect();
        self.dispatched_ns = self.dispatched_ns.max(self.now_ns) + self.options.dispatch_ns * places.len() as u64;
        Some(self.dispatched_ns)
    }

    fn submit_roots(&mut self, statement: u32) -> Result<(), Violation> {
        let Some(live) = &self.live[statement as usize] else { return Ok(()) };
        let (plan, priority) = (Arc::clone(&live.plan), live.priority);
        for root in &plan.roots {
            let task = &plan.tasks[*root as usize];
            self.submit(statement, *root, (task.affinity, task.hint), priority, Nearness::default(), None)?;
        }
        Ok(())
    }

    /// What a graph costs, worked out once.
    fn plan(&mut self, graph: Arc<Graph>) -> Result<Arc<Plan>, SimError> {
        // The graph is held as long as its address is a key.
        if let Some(plan) = self.plans.get(&Arc::as_ptr(&graph)) {
            return Ok(Arc::clone(plan));
        }
        if let Some(reason) = graph.fault(self.machine) {
            return Err(SimError::Statement { machine: self.machine.name().to_owned(), reason });
        }
        let mut tasks: Vec<PlannedTask> = Vec::with_capacity(graph.tasks.len());
        for task in &graph.tasks {
            let planned = |stage: &crate::TaskStage| {
                self.traffic.profile(stage).map(|(profile, units)| (profile, units, stage.phase))
            };
            let stages = task.stages.iter().filter_map(planned).collect();
            let waits_for = task.after.len() as u32;
            tasks.push(PlannedTask { affinity: task.affinity, hint: task.hint, stages, waits_for, then: Vec::new() });
        }
        for (place, task) in graph.tasks.iter().enumerate() {
            task.after.iter().for_each(|before| tasks[*before].then.push(place as u32));
        }
        let roots = (0..tasks.len() as u32).filter(|task| tasks[*task as usize].waits_for == 0).collect();
        if self.plans.len() >= GRAPHS_KEPT {
            self.plans.retain(|_, plan| Arc::strong_count(&plan.graph) > 1 || Arc::strong_count(plan) > 1);
        }
        let plan = Arc::new(Plan { tasks, roots, graph: Arc::clone(&graph) });
        self.plans.insert(Arc::as_ptr(&graph), Arc::clone(&plan));
        Ok(plan)
    }

    fn submit(
        &mut self,
        statement: u32,
        task: u32,
        asks: (Affinity, Hint),
        priority: Priority,
        parent: Nearness,
        caller: Option<SlotId>,
    ) -> Result<(), Violation> {
        let events = &mut self.events;
        let planned = &mut self.planned;
        let at = self.now_ns + self.options.constants.wake_ns() as u64;
        let hands = &mut self.hands;
        let mut woken = |slot: SlotId| wake(events, planned, hands, at, slot);
        self.pool.submit((statement, task), asks, (priority, parent), caller, &mut woken)
    }

    /// A worker looks for a task, and begins with what it finds.
    fn look(&mut self, slot: u32) -> Result<(), Violation> {
        let events = &mut self.events;
        let planned = &mut self.planned;
        let at = self.now_ns + self.options.constants.wake_ns() as u64;
        let hands = &mut self.hands;
        let mut woken = |slot: SlotId| wake(events, planned, hands, at, slot);
        let Some(found) = self.pool.take(SlotId(slot), &mut woken)? else { return Ok(()) };
        let from = self.layout.group_of(found.target);
        let own = self.layout.slot(SlotId(slot)).group;
        self.tally.task(from != own, self.layout.group(from).node != self.layout.group(own).node);
        let node = self.thread_goes(slot, found.entry.running);
        self.traffic.occupy(node);
        let now_ns = self.now_ns;
        let hand = &mut self.hands[slot as usize];
        *hand = Hand {
            statement: found.entry.statement,
            task: found.entry.task,
            stage: 0,
            running: found.entry.running,
            node,
            since_ns: now_ns,
            stage_ns: now_ns,
            slept: false,
        };
        let first = self.live[found.entry.statement as usize].as_ref().is_some_and(|live| {
            live.plan.tasks[found.entry.task as usize].waits_for == 0 && live.tasks_left == live.plan.tasks.len() as u32
        });
        let constants = &self.options.constants;
        let cost = constants.task_ns() + if first { constants.statement_ns() } else { 0.0 };
        self.plan_at(self.now_ns + cost.ceil() as u64, Event::Begin(slot));
        Ok(())
    }

    /// The node whose cpu a worker's thread is on: its own where it is pinned; elsewhere as the operating system has
    /// it, which moves a thread that wakes up to a cpu that idles.
    fn thread_goes(&mut self, slot: u32, running: Nearness) -> usize {
        if self.pool.pins(running) {
            return self.homes[slot as usize];
        }
        let hand = self.hands[slot as usize];
        if !hand.slept {
            return hand.node;
        }
        let idle = |node: &usize| self.traffic.busy(*node) < self.machine.nodes()[*node].cpus;
        let nodes: Vec<usize> = (0..self.machine.node_count()).filter(idle).collect();
        if nodes.is_empty() { hand.node } else { nodes[self.random.below(nodes.len())] }
    }

    fn begin_stage(&mut self, slot: u32) -> Result<(), Violation> {
        let hand = self.hands[slot as usize];
        let live = self.live[hand.statement as usize].as_ref();
        let stage = live.and_then(|live| live.plan.tasks[hand.task as usize].stages.get(hand.stage as usize));
        match stage.copied() {
            Some((profile, units, _)) => {
                self.hands[slot as usize].stage_ns = self.now_ns;
                self.traffic.begin(hand.node, profile, units, slot, self.now_ns);
                Ok(())
            }
            None => self.task_ended(slot),
        }
    }

    fn stage_ended(&mut self, slot: u32) -> Result<(), Violation> {
        let hand = &mut self.hands[slot as usize];
        let statement = hand.statement;
        let task = hand.task;
        let stage = hand.stage;
        let node = hand.node;
        let took_ns = self.now_ns - hand.stage_ns;
        hand.stage += 1;
        if let Some(live) = &self.live[statement as usize]
            && let Some((profile, units, phase)) = live.plan.tasks[task as usize].stages.get(stage as usize)
        {
            let tally = &mut self.tally;
            let (machine, constants) = (self.machine, &self.options.constants);
            self.traffic.moved(*profile, *units, |memory, bytes| {
                tally.moved(node, memory, bytes);
                let besides = machine.moved_besides(node, memory, constants);
                if besides > 0.0 {
                    tally.moved(node, node, bytes * besides);
                }
            });
            tally.computed(self.traffic.cpu_ns(*profile, *units));
            tally.phase(*phase, took_ns);
        }
        self.begin_stage(slot)
    }

    fn task_ended(&mut self, slot: u32) -> Result<(), Violation> {
        let hand = self.hands[slot as usize];
        self.traffic.release(hand.node);
        self.tally.busy(hand.node, self.now_ns - hand.since_ns);
        let mut ready = Vec::new();
        let mut ended = None;
        if let Some(live) = &mut self.live[hand.statement as usize] {
            let plan = Arc::clone(&live.plan);
            if let Some(took_ns) = live.took_ns.get_mut(hand.task as usize) {
                *took_ns = self.now_ns - hand.since_ns.min(self.now_ns);
            }
            for then in &plan.tasks[hand.task as usize].then {
                live.waits[*then as usize] -= 1;
                if live.waits[*then as usize] == 0 {
                    let task = &plan.tasks[*then as usize];
                    ready.push((*then, (task.affinity, task.hint), live.priority));
                }
            }
            live.tasks_left -= 1;
            if live.tasks_left == 0 {
                ended = Some((live.client, live.issued_ns, plan.graph.items, plan.graph.kind));
                if let Some(took_ns) = self.took_ns.get_mut(live.client as usize) {
                    *took_ns = std::mem::take(&mut live.took_ns);
                }
            }
        }
        for (task, asks, priority) in ready {
            self.submit(hand.statement, task, asks, priority, hand.running, Some(SlotId(slot)))?;
        }
        if let Some((client, issued_ns, items, kind)) = ended {
            self.live[hand.statement as usize] = None;
            self.free.push(hand.statement);
            self.alive -= 1;
            self.tally.statement(self.now_ns - issued_ns, items, kind);
            // The client goes first: what it issues at this very time is there when its worker looks.
            self.plan_at(self.now_ns, Event::Issue(client));
            self.plan_at(self.now_ns, Event::Arrive(slot));
            return Ok(());
        }
        self.look(slot)
    }

    fn watch(&mut self) {
        let events = &mut self.events;
        let planned = &mut self.planned;
        let at = self.now_ns + self.options.constants.wake_ns() as u64;
        let hands = &mut self.hands;
        self.pool.watch(&mut |slot: SlotId| wake(events, planned, hands, at, slot));
        self.plan_at(self.now_ns + WATCHDOG_NS, Event::Watchdog);
    }

    fn plan_at(&mut self, at_ns: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at_ns, self.planned, event)));
    }

    fn broken(&self, violation: Violation) -> SimError {
        SimError::Broken { at_ns: self.now_ns, violation }
    }

    fn finish(mut self) -> Result<Outcome, SimError> {
        let idle = self.alive == 0;
        let now_ns = self.now_ns;
        let total = self.pool.total();
        let alive = self.alive;
        let busy = (0..self.machine.node_count()).any(|node| self.traffic.busy(node) > 0);
        if let Some(checkers) = &mut self.pool.checkers {
            let waits = |Reverse((_, _, event)): &Reverse<(u64, u64, Event)>| {
                matches!(event, Event::Arrive(_) | Event::Begin(_) | Event::Issue(_) | Event::Submit(_))
            };
            let checked = if idle {
                checkers.ran_out()
            } else if total == 0 && !busy && !self.events.iter().any(waits) {
                checkers.stalled(alive)
            } else {
                Ok(())
            };
            checked.map_err(|violation| SimError::Broken { at_ns: now_ns, violation })?;
            self.tally.checks(checkers.checks());
        }
        for slot in 0..self.hands.len() {
            let hand = self.hands[slot];
            if self.pool.is_running(slot) {
                self.tally.busy(hand.node, now_ns - hand.since_ns);
            }
        }
        Ok(self.tally.outcome(self.machine, self.options, now_ns, (self.event_count, self.traffic.solutions)))
    }
}

fn wake(
    events: &mut BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: &mut u64,
    hands: &mut [Hand],
    at_ns: u64,
    slot: SlotId,
) {
    hands[slot.0 as usize].slept = true;
    *planned += 1;
    events.push(Reverse((at_ns, *planned, Event::Arrive(slot.0))));
}
