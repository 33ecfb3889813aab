//! Where the memory of units lies on a machine of several nodes; where there is one, these tests say that they were
//! skipped.

use std::collections::BTreeSet;
use std::time::Instant;

use numa::{PageMap, Topology};
use random::Random;
use sched::Config;

use super::*;
use crate::balancer::Algorithm;
use crate::read::{Callback, Part};

const KEYS_PER_UNIT: u64 = 2000;

/// The machine, when it has several memory nodes.
fn several_nodes() -> Option<Topology> {
    let topology = Topology::discover().expect("tests run on Linux");
    if topology.usable_memory_nodes().len() < 2 {
        eprintln!("skipped: this machine has one memory node");
        return None;
    }
    Some(topology)
}

/// The nodes that memory lies on, and how much of it there is.
fn lies_on(ranges: &[(usize, usize)]) -> (BTreeSet<NodeId>, u64) {
    let map = PageMap::read(ranges);
    assert!(map.is_measured(), "the kernel tells");
    let bytes = map.bytes_per_node();
    (bytes.keys().copied().collect(), bytes.values().sum())
}

/// Whether all partitions of an object lie on their units' nodes; bytes of the pages of each unit's arena.
fn bytes_of_arenas(keyed: &Keyed) -> Vec<u64> {
    let of_unit = |(unit, tree): (usize, &Arc<Tree>)| {
        let node = keyed.store.units[unit].node.expect("units here have nodes");
        let (nodes, bytes) = lies_on(&tree.arena().chunks());
        assert!(nodes.is_empty() || nodes == BTreeSet::from([node]), "unit {unit} of {node}: {nodes:?}");
        bytes
    };
    keyed.object.trees.iter().enumerate().map(of_unit).collect()
}

fn filled(store: &Arc<Store>) -> Keyed {
    let count = store.units.len() as u64 * KEYS_PER_UNIT;
    let keyed = store.create(count, 8);
    let pairs: Vec<(u64, u64)> = (0..count).map(|key| (key, key + 1)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    // Of what is there only pairs are left, no marks of the statement.
    store.settle();
    store.settle();
    keyed
}

fn check_values(keyed: &Keyed) {
    let count = keyed.store.units.len() as u64 * KEYS_PER_UNIT;
    let mut next = 0;
    keyed.range(0, u64::MAX, &keyed.store.pin(), |key, value| {
        assert_eq!((key, value), (next, next + 1));
        next += 1;
        true
    });
    assert_eq!(next, count);
}

/// Two units on each node, wherever the threads are that work for them.
fn two_per_node(topology: &Topology) -> Arc<Store> {
    let budget = Budget::unlimited();
    let place = |node: &NodeId| UnitPlace {
        node: Some(*node),
        allocator: Allocator::new(Policy::Node(*node), Arc::clone(&budget)),
    };
    let places = topology.usable_memory_nodes().iter().flat_map(|node| [place(node), place(node)]);
    Store::new(places.collect()).unwrap()
}

#[test]
fn partitions_and_incoming_buffers_lie_on_their_units_node() {
    let Some(topology) = several_nodes() else { return };
    let store = two_per_node(&topology);
    let keyed = filled(&store);
    assert!(bytes_of_arenas(&keyed).iter().all(|bytes| *bytes > 0));
    check_values(&keyed);
    for unit in &store.units {
        for buffer in unit.buffers() {
            // Nobody has sent anything, so words mean nothing; the first touch is from here, whichever node that is.
            buffer.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
            let (nodes, bytes) = lies_on(&[(buffer.address(), buffer.held_bytes())]);
            assert_eq!(nodes, unit.node.into_iter().collect());
            assert!(bytes >= (buffer.words().len() * 8) as u64);
        }
    }
    // What is sent through them is executed.
    const FIRST: u64 = 3 * KEYS_PER_UNIT + 1;
    let token = store.token(3);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| keyed.write(WriteKind::Update, &[(FIRST, FIRST + 1)]).unwrap());
        while store.units[3].is_inbox_empty() {
            std::thread::yield_now();
        }
        drop(token);
        assert_eq!(sender.join().unwrap(), 1);
    });
    check_values(&keyed);
}

/// Counts values, which are those of [`filled`].
#[derive(Default)]
struct Values(AtomicU64);

impl Callback for Values {
    fn values(&self, _: u64, keys: &[u64], values: &[Option<u64>]) {
        assert!(keys.iter().zip(values).all(|(key, value)| *value == Some(key + 1)));
        self.0.fetch_add(keys.len() as u64, Ordering::Relaxed);
    }

    fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {}
}

#[test]
fn each_node_has_a_routing_table_and_its_senders_buffers() {
    let Some(topology) = several_nodes() else { return };
    let store = two_per_node(&topology);
    let keyed = filled(&store);
    let nodes = topology.usable_memory_nodes();
    keyed.move_range(5, 9, 3).unwrap();
    let replicas = keyed.object.routing.replicas();
    assert_eq!((replicas.len(), keyed.routing().replicas), (nodes.len(), nodes.len()));
    for (replica, node) in replicas.iter().zip(nodes) {
        let region = replica.region().expect("there is memory on each node");
        let (lies, bytes) = lies_on(&[(region.address(), region.held_bytes().max(1))]);
        assert_eq!(lies, BTreeSet::from([*node]));
        assert!(bytes > 0);
    }
    for cpu in topology.usable_cpus() {
        let node = std::thread::scope(|scope| {
            let on_cpu = || {
                if !numa::pin_current_thread(&[*cpu]) {
                    return None;
                }
                let here = numa::current_node()?;
                assert_eq!(keyed.routing().ranges[1].unit, 3, "every node reads the table of after the transfer");
                let values = Arc::new(Values::default());
                let pin = store.pin();
                let mut sender = keyed.sender(&pin, Arc::clone(&values) as _, 100).unwrap();
                let keys = store.units.len() as u64 * KEYS_PER_UNIT;
                (0..keys).for_each(|key| sender.look_up(key, &[key]));
                sender.scan(0, 0, u64::MAX, 1);
                sender.wait().unwrap();
                assert_eq!(values.0.load(Ordering::Relaxed), keys);
                let buffers = sender.buffers();
                let memory = buffers.outgoing.memory();
                let window = buffers.window.region();
                // The window is touched by who executes: here that is this thread.
                window.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
                for (address, bytes) in
                    [(memory.address(), memory.held_bytes()), (window.address(), window.held_bytes())]
                {
                    let (lies, bytes) = lies_on(&[(address, bytes)]);
                    assert_eq!((lies, bytes > 0), (BTreeSet::from([buffers.outgoing.node().expect("a node")]), true));
                }
                assert!(!nodes.contains(&here) || buffers.outgoing.node() == Some(here));
                Some(here)
            };
            scope.spawn(on_cpu).join().unwrap()
        });
        if node.is_none() {
            eprintln!("skipped: threads cannot be bound to cpu {}", cpu.0);
        }
    }
}

#[test]
fn a_transfer_between_nodes_lands_on_the_node_of_its_target() {
    let Some(topology) = several_nodes() else { return };
    let store = two_per_node(&topology);
    let keyed = filled(&store);
    let before = bytes_of_arenas(&keyed);
    let used = |unit: usize| keyed.partitions()[unit].bytes;
    let (own, other) = (used(0), used(2));
    // Within the node nothing is copied.
    let moved = keyed.move_range(0, KEYS_PER_UNIT / 2 - 1, 1).unwrap();
    assert!(moved.iter().all(|moved| moved.linked && moved.pairs == KEYS_PER_UNIT / 2));
    assert_eq!(bytes_of_arenas(&keyed)[2..], before[2..]);
    let moved = keyed.move_range(0, KEYS_PER_UNIT - 1, 2).unwrap();
    assert!(moved.iter().all(|moved| !moved.linked));
    assert_eq!(moved.iter().map(|moved| moved.pairs).sum::<u64>(), KEYS_PER_UNIT);
    bytes_of_arenas(&keyed);
    assert!(used(2) > other + own / 2, "{other} bytes became {}", used(2));
    check_values(&keyed);
    store.settle();
    store.settle();
    assert_eq!(keyed.partitions()[0].pairs, 0);
    // And back, where the room that it left is used again.
    keyed.move_range(0, KEYS_PER_UNIT - 1, 0).unwrap();
    bytes_of_arenas(&keyed);
    check_values(&keyed);
}

#[test]
fn cycles_of_themselves_leave_every_partition_on_its_node() {
    let Some(topology) = several_nodes() else { return };
    let scheduler = Scheduler::new(Arc::new(topology), Config::default());
    let store = Store::new(UnitPlace::of_slots(&scheduler, &Budget::unlimited())).unwrap();
    let nodes: BTreeSet<Option<NodeId>> = store.units.iter().map(|unit| unit.node).collect();
    store.balance_on(&scheduler);
    store.set_balancer(Algorithm::OneShot);
    let keyed = filled(&store);
    let mut random = Random::new(3);
    let begin = Instant::now();
    // Keys of the first unit are read alone: the others take them over, those of other nodes too.
    while nodes.len() > 1 && !store.balancing().iter().any(|cycle| cycle.moved.iter().any(|moved| !moved.linked)) {
        let keys: Vec<u64> = (0..1000).map(|_| random.below_u64(KEYS_PER_UNIT)).collect();
        keyed.lookup(&keys, &store.pin(), |place, value| assert_eq!(value, Some(keys[place] + 1)));
        assert!(begin.elapsed() < Duration::from_secs(120), "no cycle copies anything");
    }
    // One may be under way.
    drop(scheduler);
    bytes_of_arenas(&keyed);
    check_values(&keyed);
}
