use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::ids::NodeId;
use crate::topology::Topology;

const GIB: u64 = 1 << 30;

fn facts(topology: &Topology, free_bytes: u64, touch: f64) -> ProbeFacts {
    let nodes: Vec<NodeId> = topology.nodes().iter().map(|n| n.id).collect();
    let all = free_bytes.saturating_mul(nodes.len() as u64);
    ProbeFacts::of(topology, &nodes, &nodes, all, |_| free_bytes, touch)
}

/// What all windows of a plan take, and the setting up.
fn time(plan: &Plan, facts: &ProbeFacts) -> Duration {
    let of = |timing: Timing, cells: usize| timing.window * timing.windows * cells as u32;
    let chases = plan.latency_pairs.iter().map(|p| plan.latency_cpus[p.initiator].len()).sum();
    of(plan.latency, chases)
        + of(plan.bandwidth, 3 * plan.bandwidth_pairs.len())
        + of(plan.curve, 2 * plan.curves.len() * plan.curve_threads.len())
        + of(plan.loaded, plan.curves.len() * LOAD_SHARES.len())
        + of(plan.stream, 8)
        + setup_time(facts, &plan.buffers, plan.stream_bytes)
}

#[test]
fn a_small_machine_is_measured_wholly() {
    let machine = Topology::synthetic(1, 1, 2, 1);
    let facts = facts(&machine, 16 * GIB, 2e9);
    for (tempo, most) in [(Tempo::FULL, 30), (Tempo::QUICK, 6)] {
        let plan = Plan::new(&facts, &tempo);
        assert_eq!(plan.notes, Vec::<String>::new());
        assert_eq!((plan.latency_pairs.len(), plan.bandwidth_pairs.len(), plan.curves.len()), (1, 1, 1));
        assert_eq!(plan.latency_cpus, [vec![CpuId(0), CpuId(1)]]);
        assert_eq!(plan.curve_threads, [1, 2]);
        // Four times the 32 MiB of the cache.
        let [buffer] = plan.buffers[..] else { panic!("{plan:?}") };
        assert_eq!((buffer.chase_bytes, buffer.bytes), (128 << 20, 256 << 20));
        assert_eq!(plan.stream_bytes, 128 << 20);
        assert!(time(&plan, &facts) < Duration::from_secs(most), "{:?}", time(&plan, &facts));
        assert_eq!((plan.latency, plan.bandwidth), (tempo.latency, tempo.bandwidth));
    }
}

#[test]
fn a_machine_of_64_nodes_fits_by_shorter_windows_and_fewer_pairs() {
    let machine = Topology::synthetic(32, 2, 8, 1);
    let facts = facts(&machine, 100 * GIB, 4e9);
    let plan = Plan::new(&facts, &Tempo::FULL);
    assert!(time(&plan, &facts) <= Tempo::FULL.total, "{:?}", time(&plan, &facts));
    assert_eq!(plan.latency_pairs.len(), 64 * 64);
    // Local, the other node of the package, one beyond.
    assert_eq!(plan.bandwidth_pairs.len(), 64 * 3);
    let beyond: BTreeSet<usize> = plan.bandwidth_pairs.iter().map(|p| p.target).collect();
    assert_eq!(beyond.len(), 64, "the farther targets differ by initiator");
    assert!(
        plan.notes.iter().any(|n| n.starts_with("bandwidth was measured between 192 of 4096 pairs")),
        "{:?}",
        plan.notes
    );
    assert!(plan.notes.iter().any(|n| n.contains("cpus of a node") || n.contains("cpus of node")), "{:?}", plan.notes);
}

#[test]
fn little_memory_and_slow_pages_cut_the_sizes_and_say_so() {
    let machine = Topology::synthetic(2, 1, 4, 2);
    let tight = facts(&machine, 100 << 20, 4e9);
    let plan = Plan::new(&tight, &Tempo::FULL);
    assert!(plan.buffers.iter().all(|b| b.bytes == 50 << 20 && b.chase_bytes == 16 << 20), "{:?}", plan.buffers);
    assert!(plan.notes.iter().any(|n| n.starts_with("buffers: 50 MiB instead of 256 MiB") && n.contains("caches may")));
    assert!(plan.stream_bytes * 6 <= 200 << 20);

    let slow = facts(&machine, 16 * GIB, 50e6);
    let plan = Plan::new(&slow, &Tempo::QUICK);
    assert!(setup_time(&slow, &plan.buffers, plan.stream_bytes) <= Duration::from_secs(3));
    assert!(plan.notes.iter().any(|n| n.starts_with("STREAM's arrays: ")), "{:?}", plan.notes);

    let none = facts(&machine, 1 << 20, 4e9);
    let plan = Plan::new(&none, &Tempo::FULL);
    assert!(plan.buffers.is_empty() && plan.stream_bytes == 0 && plan.curves.is_empty());
    assert!(plan.notes.iter().any(|n| n == "node 0 has 1 MiB free: too little to measure"), "{:?}", plan.notes);
}

#[test]
fn cpus_are_taken_core_by_core() {
    // Cores are cpus (0, 4), (1, 5), (2, 6), (3, 7).
    let machine = Topology::synthetic(1, 1, 4, 2);
    let facts = facts(&machine, GIB, 1e9);
    let from = &facts.initiators[0];
    let ids = |cpus: &[CpuId]| cpus.iter().map(|c| c.0).collect::<Vec<_>>();
    assert_eq!(ids(&from.cpus), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(ids(&from.loaders), [1, 2, 3, 5, 6, 7], "the sibling of the chaser would share its core");
    assert_eq!(ids(&sample(from, 2)), [0, 2]);
    assert_eq!(ids(&sample(from, 4)), [0, 1, 2, 3]);
    assert_eq!(ids(&sample(from, 6)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(ids(&sample(from, 99)), [0, 1, 2, 3, 4, 5, 6, 7]);
    let single = Topology::synthetic(1, 1, 1, 2);
    assert_eq!(ids(&super::super::plan::tests::facts(&single, GIB, 1e9).initiators[0].loaders), [1]);
}

#[test]
fn curves_go_to_the_own_the_nearest_and_the_farthest() {
    let machine = Topology::synthetic(2, 2, 2, 1);
    let facts = facts(&machine, GIB, 1e9);
    let plan = Plan::new(&facts, &Tempo::FULL);
    let targets: Vec<usize> = plan.curves.iter().map(|p| p.target).collect();
    assert_eq!((targets, plan.curves[0].initiator), (vec![0, 1, 2], 0));
}

#[test]
fn time_is_divided_by_shorter_then_fewer_windows() {
    let ms = Duration::from_millis;
    let wanted = Timing { windows: 10, window: ms(50) };
    let divided = |share, cells| divide(ms(share), cells, 1, wanted, ms(4));
    assert_eq!(divided(10_000, 2), Some(wanted));
    let each = (ms(100) - CELL_OVERHEAD - THREAD_OVERHEAD) / 10;
    assert_eq!(divided(1_000, 10), Some(Timing { windows: 10, window: each }));
    assert_eq!(divided(200, 10), Some(Timing { windows: 4, window: ms(4) }));
    assert_eq!(divided(50, 10), None);
    assert_eq!(divided(0, 0), None);
    // Threads take time to start.
    let many = divide(ms(200), 10, 200, wanted, ms(4)).map(|timing| timing.windows);
    assert_eq!(many, Some(3));
}

proptest! {
    // A machine takes a while to make up.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_plan_passes_its_memory_or_its_time(
        packages in 1u32..9, nodes in 1u32..5, cores in 1u32..33, smt in 1u32..3,
        free in (1u64 << 20)..(1 << 40), touch in 1e8f64..2e10, quick: bool,
    ) {
        let tempo = if quick { Tempo::QUICK } else { Tempo::FULL };
        let machine = Topology::synthetic(packages, nodes, cores, smt);
        let facts = facts(&machine, free, touch);
        let plan = Plan::new(&facts, &tempo);
        for buffer in &plan.buffers {
            prop_assert!(buffer.bytes <= free / 2 && buffer.bytes.is_multiple_of(UNIT_BYTES));
            prop_assert!(buffer.chase_bytes.is_power_of_two() && buffer.chase_bytes <= buffer.bytes / 2);
        }
        prop_assert!(plan.stream_bytes.saturating_mul(6) <= facts.free_bytes);
        prop_assert!(time(&plan, &facts) <= tempo.deadline, "{:?}", time(&plan, &facts));
        for timing in [plan.latency, plan.bandwidth, plan.curve, plan.loaded, plan.stream] {
            prop_assert!(timing.windows >= 2 && timing.window >= MIN_LATENCY_WINDOW);
        }
        let locals = plan.bandwidth_pairs.iter().filter(|p| p.initiator == p.target).count();
        prop_assert_eq!(locals, plan.buffers.len());
        prop_assert_eq!(&plan, &Plan::new(&facts, &tempo));
    }
}
