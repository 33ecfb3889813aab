//! What can only be seen on a machine with several nodes: the tests of the multi-node kernel.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use numa::{NodeId, Topology};
use sched::{Affinity, Binding, Config, Preset, Scheduler, Stealing};

use crate::settings::mask;
use crate::support::{settled, statement};

/// This machine, if it has two nodes with cpus.
fn nodes() -> Option<(Arc<Topology>, Vec<NodeId>)> {
    let topology = Arc::new(Topology::discover().unwrap());
    let usable = |cpus: &[numa::CpuId]| cpus.iter().any(|cpu| topology.usable_cpus().contains(cpu));
    let nodes: Vec<NodeId> = topology.nodes().iter().filter(|node| usable(&node.cpus)).map(|node| node.id).collect();
    if nodes.len() < 2 {
        eprintln!("skipped: this machine has one node with cpus");
        return None;
    }
    Some((topology, nodes))
}

/// The node that the calling thread runs on, as the kernel says.
fn node_here(topology: &Topology) -> Option<NodeId> {
    numa::current_cpu().and_then(|cpu| topology.node_of_cpu(cpu))
}

/// Some milliseconds of computing, so that others have time to come.
fn compute() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
}

/// Runs `tasks` tasks with soft affinities to a node each; gives, per task, the node it ran on.
fn ran_on(scheduler: &Scheduler, tasks: usize, wanted: impl Fn(usize) -> NodeId + Sync) -> Vec<Option<NodeId>> {
    let ran = Mutex::new(vec![None; tasks]);
    let body = |index: usize| {
        compute();
        ran.lock().unwrap()[index] = node_here(scheduler.topology());
    };
    scheduler.parallel_for(&statement(1), tasks, &|index| Affinity::near(wanted(index)), &body).unwrap();
    ran.into_inner().unwrap()
}

#[test]
fn bound_runs_every_task_on_its_node() {
    let Some((topology, nodes)) = nodes() else { return };
    let scheduler = Scheduler::new(topology, Config::preset(Preset::Bound));
    let wanted = |index: usize| nodes[index % nodes.len()];
    let ran = ran_on(&scheduler, 40 * nodes.len(), wanted);
    for (index, node) in ran.iter().enumerate() {
        assert_eq!(*node, Some(wanted(index)), "task {index}");
    }
    // Single tasks and their children too.
    for node in &nodes {
        let (inner, topology) = (Arc::clone(&scheduler), Arc::clone(scheduler.topology()));
        let (own, node) = (statement(1), *node);
        let task = scheduler.submit(&statement(1), Affinity::near(node), move || {
            let again = Arc::clone(&topology);
            let child = inner.submit(&own, Affinity::near(node), move || node_here(&again));
            (node_here(&topology), child.wait())
        });
        assert_eq!(task.wait(), Ok((Some(node), Ok(Some(node)))));
    }
}

#[test]
fn target_steals_when_a_node_is_idle() {
    let Some((topology, nodes)) = nodes() else { return };
    let scheduler = Scheduler::new(topology, Config::preset(Preset::Target));
    let ran = ran_on(&scheduler, 100, |_| nodes[0]);
    assert!(ran.contains(&Some(nodes[0])), "its own node works");
    assert!(ran.iter().any(|node| *node != Some(nodes[0])), "idle nodes help: {ran:?}");
    settled(&scheduler);
    let stats = scheduler.stats();
    assert!(stats.nodes.iter().any(|node| node.node != nodes[0] && node.stolen > 0));
    // Where every node has its own to do, more of it stays than if anybody took anything: how much more depends on how
    // many real cpus the machine's cpus share, since who is not let run has its tasks taken by who is.
    let ran = ran_on(&scheduler, 100 * nodes.len(), |index| nodes[index % nodes.len()]);
    let local = ran.iter().enumerate().filter(|(index, node)| **node == Some(nodes[index % nodes.len()])).count();
    assert!(4 * local * nodes.len() > 5 * ran.len(), "{local} of {} ran where they wanted", ran.len());
}

#[test]
fn os_pins_nobody() {
    let Some((topology, nodes)) = nodes() else { return };
    let all = mask();
    let scheduler = Scheduler::new(topology, Config::preset(Preset::Os));
    let body = |_| {
        thread::sleep(Duration::from_millis(1));
        assert_eq!(mask(), all);
    };
    let wanted = |index: usize| Affinity::on(nodes[index % nodes.len()]);
    scheduler.parallel_for(&statement(1), 50, &wanted, &body).unwrap();
    assert!(scheduler.stats().workers.iter().all(|worker| !worker.pinned));
}

#[test]
fn each_binding_is_seen_in_the_masks_of_a_node() {
    let Some((topology, nodes)) = nodes() else { return };
    let all = mask();
    for (binding, bound) in [
        (Binding::None, [false, false, false]),
        (Binding::Preferred, [true, false, false]),
        (Binding::Opportunistic, [true, true, false]),
        (Binding::Always, [true, true, true]),
    ] {
        let config = Config { binding, stealing: Stealing::Off, ..Config::default() };
        let scheduler = Scheduler::new(Arc::clone(&topology), config);
        for node in &nodes {
            let inner = Arc::clone(&scheduler);
            let near = scheduler.submit(&statement(1), Affinity::near(*node), move || {
                (mask(), inner.submit(&statement(1), Affinity::Anywhere, mask).wait().unwrap())
            });
            let (near, child) = near.wait().unwrap();
            let other = scheduler.submit(&statement(1), Affinity::Anywhere, mask).wait().unwrap();
            assert_eq!([&near, &child, &other].map(|mask| *mask != all), bound, "{binding}: {near} {child} {other}");
        }
    }
}

#[test]
fn neighbour_stealing_stays_within_the_package() {
    let Some((topology, nodes)) = nodes() else { return };
    let package = |node: NodeId| topology.node(node).and_then(|node| node.package);
    let siblings = |node: NodeId| nodes.iter().filter(|other| package(**other) == package(node)).count();
    let Some(home) = nodes.iter().copied().find(|node| siblings(*node) > 1 && siblings(*node) < nodes.len()) else {
        eprintln!("skipped: this machine has no package of several nodes beside another one");
        return;
    };
    let config = Config { stealing: Stealing::Neighbour, binding: Binding::Always, ..Config::default() };
    let scheduler = Scheduler::new(Arc::clone(&topology), config);
    let ran = ran_on(&scheduler, 200, |_| home);
    let elsewhere = AtomicUsize::new(0);
    for node in ran.iter().flatten() {
        assert_eq!(package(*node), package(home), "{node} is in another package");
        elsewhere.fetch_add(usize::from(*node != home), Ordering::Relaxed);
    }
    assert!(elsewhere.into_inner() > 0, "the neighbours help");
}
