//! The checkers find each decision that is broken on purpose, and nothing where none is.

use std::sync::Arc;

use sched::{Affinity, Preset, Settings, Stealing};

use super::Canary;
use crate::checkers::Invariant;
use crate::machine::Machine;
use crate::run::{Options, SimError, broken_run};
use crate::workload::{At, Graph, Task, TaskStage, Workload, near};

/// Clients with statements of some tasks near random nodes, and some in private queues.
struct MixedClients {
    left: u64,
}

impl Workload for MixedClients {
    fn clients(&self) -> usize {
        24
    }

    fn next(&mut self, _: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        self.left = self.left.checked_sub(1)?;
        let mut graph = Graph::new(1.0);
        let node = at.random.below(at.machine.node_count());
        let tasks = 1 + at.random.below(6);
        for _ in 0..tasks {
            let stage = TaskStage::cpu(20_000.0).read(node, 100_000.0 * (1.0 + at.random.unit()));
            graph.add(Task::new(near(at.machine, node), stage));
        }
        let slot = sched::SlotId(at.random.below(at.layout.slots().len()) as u32);
        graph.add(Task::new(Affinity::Slot(slot), TaskStage::cpu(5_000.0)).after(0..tasks));
        graph.add(Task::new(Affinity::Anywhere, TaskStage::cpu(5_000.0)).after([tasks]));
        Some(Arc::new(graph))
    }
}

fn checked(canary: Option<Canary>, preset: Preset, seed: u64) -> Result<crate::Outcome, SimError> {
    let machine = Machine::parse("2x2x3x1;latency=80,100,150;bandwidth=20G,15G,8G").expect("a specification");
    let settings = Settings { stealing: Stealing::Any, ..Settings::preset(preset) };
    let options = Options { settings, checked: true, seed, warm_up_ns: 0, ..Options::default() };
    broken_run(&machine, &options, &mut MixedClients { left: 400 }, canary)
}

#[test]
fn the_policy_keeps_its_invariants() {
    for preset in Preset::ALL {
        for seed in 0..8 {
            let outcome = checked(None, *preset, seed).unwrap_or_else(|error| panic!("{preset}, seed {seed}: {error}"));
            assert_eq!(outcome.statements, 400);
            assert!(outcome.checks > 10_000, "{}", outcome.checks);
        }
    }
}

#[test]
fn every_broken_decision_is_found() {
    let canaries = [
        (Canary::LosesTasks, Preset::Bound, Invariant::RunsOnce),
        (Canary::DoublesTasks, Preset::Target, Invariant::RunsOnce),
        (Canary::RoutesAstray, Preset::Bound, Invariant::StaysInPlace),
        (Canary::StealsHardTasks, Preset::Bound, Invariant::StaysInPlace),
        (Canary::TurnsPrioritiesRound, Preset::Target, Invariant::UrgentFirst),
        (Canary::Oversubscribes, Preset::Bound, Invariant::NoMoreThanCpus),
        (Canary::LetsThemSleep, Preset::Bound, Invariant::SeenTo),
    ];
    for (canary, preset, invariant) in canaries {
        match checked(Some(canary), preset, 3) {
            Err(SimError::Broken { violation, .. }) => {
                assert_eq!(violation.invariant, invariant, "{canary:?}: {violation}")
            }
            other => panic!("{canary:?} was not found: {:?}", other.map(|outcome| outcome.statements)),
        }
    }
}
