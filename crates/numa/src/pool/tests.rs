//! The pool against a plain list of what is alive, within one thread and across many.

use std::collections::BTreeMap;
use std::sync::mpsc;

use proptest::prelude::*;

use super::*;
use crate::fixture::Fixture;
use crate::machine::Machine;
use crate::{Allocator, Budget, NodeId, Policy, Region};

/// A machine of two nodes of which only the first need be real; its second node's slabs are then unplaced.
fn machine() -> (Fixture, Arc<Machine>) {
    let fixture = Fixture::machine(&[0, 1], 2);
    let machine = Arc::new(Machine::read(fixture.root()));
    (fixture, machine)
}

fn allocator(machine: &Arc<Machine>, budget: &Arc<Budget>, node: u32) -> Allocator {
    Allocator::on_machine(Policy::Node(NodeId(node)), Some(Arc::clone(budget)), Arc::clone(machine))
}

/// Bytes of slabs that both nodes hold.
fn held(machine: &Machine) -> u64 {
    machine.kept().map(|(_, pool_bytes, _)| pool_bytes).sum()
}

/// Whether no two of these regions share a byte.
fn disjoint<'a>(regions: impl IntoIterator<Item = &'a Region>) -> bool {
    let spans: BTreeMap<usize, usize> = regions.into_iter().map(|r| (r.address(), r.held_bytes())).collect();
    spans.iter().zip(spans.iter().skip(1)).all(|((start, len), (next, _))| start + len <= *next)
}

#[derive(Clone, Debug)]
enum Operation {
    Take { node: u32, len: usize },
    Free { which: usize },
    Shrink { which: usize, len: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let len = prop_oneof![1usize..400, 1usize..=POOL_BYTES_MAX, (1u32..16).prop_map(|k| 1 << k)];
    let take = (0u32..2, len.clone()).prop_map(|(node, len)| Operation::Take { node, len: len.min(POOL_BYTES_MAX) });
    let free = any::<usize>().prop_map(|which| Operation::Free { which });
    let shrink = (any::<usize>(), len).prop_map(|(which, len)| Operation::Shrink { which, len });
    prop::collection::vec(prop_oneof![5 => take, 4 => free, 1 => shrink], 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn matches_a_plain_list(operations in operations()) {
        let (_fixture, machine) = machine();
        let budget = Budget::new("pool twin", 1 << 30);
        let mut live: Vec<(Region, Vec<u8>)> = Vec::new();
        for (step, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Take { node, len } => {
                    let mut region = allocator(&machine, &budget, node).region(len).expect("plenty");
                    prop_assert!(region.bytes().iter().all(|b| *b == 0) && region.len() == len);
                    prop_assert_eq!(region.address() % 64, 0);
                    prop_assert_eq!(region.held_bytes(), Pool::block_bytes(len));
                    let plain = vec![step as u8 | 1; len];
                    region.bytes_mut().copy_from_slice(&plain);
                    live.push((region, plain));
                }
                Operation::Free { which } if !live.is_empty() => drop(live.swap_remove(which % live.len())),
                Operation::Shrink { which, len } if !live.is_empty() => {
                    let at = which % live.len();
                    let (region, plain) = &mut live[at];
                    region.shrink(len);
                    plain.truncate(len);
                    prop_assert!(region.held_bytes() >= plain.len());
                }
                _ => {}
            }
            prop_assert_eq!(budget.used_bytes(), live.iter().map(|(r, _)| r.held_bytes() as u64).sum::<u64>());
        }
        prop_assert!(disjoint(live.iter().map(|(region, _)| region)));
        for (region, plain) in &live {
            prop_assert_eq!(region.bytes(), &plain[..]);
        }
        drop(live);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}

#[test]
fn threads_free_what_others_took_and_all_slabs_go_back() {
    let (_fixture, machine) = machine();
    let budget = Budget::new("pool threads", 1 << 30);
    const THREADS: usize = 4;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<(Region, u8)>()).unzip();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (me, inbox) in receivers.into_iter().enumerate() {
            let senders = senders.clone();
            let machine = &machine;
            let budget = &budget;
            threads.push(scope.spawn(move || {
                let mut kept = Vec::new();
                for i in 0..1000usize {
                    let len = 1 + i.wrapping_mul(2654435761).wrapping_add(me * 977) % POOL_BYTES_MAX;
                    let mut region = allocator(machine, budget, (i % 2) as u32).region(len).expect("plenty");
                    assert!(region.bytes().iter().all(|b| *b == 0));
                    let mark = (i + me) as u8 | 1;
                    region.bytes_mut().fill(mark);
                    match i % 3 {
                        0 => kept.push((region, mark)),
                        // Where the other thread is done already, it comes back and is freed here.
                        _ => drop(senders[(me + i) % THREADS].send((region, mark))),
                    }
                    for (region, mark) in inbox.try_iter() {
                        assert!(region.bytes().iter().all(|b| *b == mark), "somebody else wrote there");
                    }
                }
                for (region, mark) in &kept {
                    assert!(region.bytes().iter().all(|b| b == mark), "somebody else wrote there");
                }
                assert!(disjoint(kept.iter().map(|(region, _)| region)));
            }));
        }
        drop(senders);
        // Joined, not only finished: a thread brings its cache back when it ends.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    assert_eq!(budget.used_bytes(), 0);
    // At most one empty slab per class and node is left, and those go when asked for.
    assert!(held(&machine) <= (2 * CLASSES * SLAB_BYTES) as u64, "{} bytes of slabs are left", held(&machine));
    let left = held(&machine);
    assert_eq!((machine.release_kept(), held(&machine)), (left, 0));
}

#[test]
fn a_thread_that_ends_gives_its_blocks_back() {
    let (_fixture, machine) = machine();
    let budget = Budget::unlimited();
    let region = std::thread::scope(|scope| {
        let body = || {
            let mut regions: Vec<Region> =
                (0..100).map(|_| allocator(&machine, &budget, 0).region(64).expect("plenty")).collect();
            regions.pop()
        };
        scope.spawn(body).join().expect("no panic").expect("one")
    });
    assert_eq!(held(&machine), SLAB_BYTES as u64);
    assert_eq!(machine.release_kept(), 0, "its last block is in use here");
    // The slab serves this thread too.
    let other = allocator(&machine, &budget, 0).region(64).expect("plenty");
    assert_eq!((held(&machine), disjoint([&region, &other])), (SLAB_BYTES as u64, true));
}

#[test]
fn full_nodes_and_budgets_leave_the_pool_as_it_was() {
    let (fixture, machine) = machine();
    let budget = Budget::new("small", 1000);
    fixture.node_memory(1, 8 << 20, 1 << 10);
    let error = allocator(&machine, &budget, 1).region(500).expect_err("one mebibyte is within the margin");
    assert!(matches!(error, MemoryError::NodeFull { node: NodeId(1), .. }), "{error}");
    assert!(matches!(allocator(&machine, &budget, 0).region(1001), Err(MemoryError::OverBudget { .. })));
    assert_eq!((budget.used_bytes(), held(&machine)), (0, 0));
    let first = allocator(&machine, &budget, 0).region(500).expect("fits");
    assert_eq!((budget.used_bytes(), first.policy()), (512, Policy::Node(NodeId(0))));
}

#[test]
fn classes_waste_little() {
    for len in 1..=POOL_BYTES_MAX {
        let bytes = Pool::block_bytes(len);
        assert!(
            bytes >= len && bytes.is_multiple_of(64) && (bytes - len <= len / 2 || bytes <= 128),
            "{bytes} for {len}"
        );
    }
}
