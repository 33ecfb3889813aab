//! Placing regions anew where no second node is needed to see what happens: refusals, full nodes, what is counted. Node
//! 0 is real wherever tests run; node 1 is made up there, and real in machines of several nodes.

use std::io;

use super::tests::{can_place, kernel_policy, refused_calls, two_nodes};
use super::*;
use crate::fixture::Fixture;
use crate::machine::Machine;
use crate::moving::{MoveError, MoveReport};
use crate::sys::deny::without_calls;
use crate::{Allocator, MemoryError, NodeId, PageMap};

const MIB: usize = 1 << 20;

fn touched(machine: &std::sync::Arc<Machine>, policy: Policy, len: usize) -> Region {
    let mut region = Allocator::on_machine(policy, None, std::sync::Arc::clone(machine)).region(len).expect("fits");
    region.bytes_mut().fill(7);
    region
}

#[test]
fn where_moving_is_refused_memory_stays_and_it_is_told_once() {
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    // EBUSY stands for kernels that answer what nobody expects.
    for errno in [libc::EPERM, libc::ENOSYS, libc::EBUSY] {
        let ran = without_calls(&[libc::SYS_mbind, libc::SYS_move_pages], errno, || {
            let region = touched(&machine, Policy::Local, 3 * MIB);
            for policy in [Policy::Node(NodeId(1)), Policy::Interleaved(vec![NodeId(0), NodeId(1)])] {
                let moved = region.place_on(&machine, 0..region.len(), &policy, &|| false).expect("no error");
                assert_eq!(moved, MoveReport { stuck_bytes: 3 * MIB as u64, ..MoveReport::default() });
                assert_eq!(region.policy(), policy);
            }
            let taken = region.snapshot();
            assert_eq!(region.restore(&taken), MoveReport::default());
            assert!(!PageMap::of(&region).is_measured());
            assert!(region.bytes().iter().all(|byte| *byte == 7));
        });
        if ran.is_none() {
            return;
        }
        let error = io::Error::from_raw_os_error(errno).to_string();
        for call in ["mbind", "move_pages"] {
            let told = refused_calls().iter().filter(|(c, e)| *c == call && *e == error).count();
            assert_eq!(told, 1, "{call}: {error}");
        }
    }
}

#[test]
fn pages_move_where_only_policies_are_refused() {
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    without_calls(&[libc::SYS_mbind], libc::EPERM, || {
        let region = touched(&machine, Policy::Local, 3 * MIB);
        if !PageMap::of(&region).is_measured() {
            eprintln!("skipped: the kernel refuses move_pages here");
            return;
        }
        let moved = region.place_on(&machine, 0..region.len(), &Policy::Node(NodeId(0)), &|| false).expect("no error");
        assert_eq!((moved.moved_bytes + moved.already_bytes, moved.stuck_bytes), (3 * MIB as u64, 0));
    });
}

#[test]
fn a_node_that_the_kernel_does_not_have_keeps_pages_where_they_are() {
    if !can_place() || Machine::this().has(NodeId(77)) {
        return;
    }
    let fixture = Fixture::machine(&[0, 77], 2);
    let machine = std::sync::Arc::new(Machine::read(fixture.root()));
    let region = touched(&machine, Policy::Node(NodeId(0)), 3 * MIB);
    let before = PageMap::of(&region);
    let moved = region.place_on(&machine, 0..region.len(), &Policy::Node(NodeId(77)), &|| false).expect("no error");
    assert_eq!(moved, MoveReport { stuck_bytes: 3 * MIB as u64, ..MoveReport::default() });
    assert_eq!(PageMap::of(&region), before);
    // Interleaved over both: what shall stay on node 0 is there, the rest is stuck.
    let both = Policy::Interleaved(vec![NodeId(0), NodeId(77)]);
    let moved = region.place_on(&machine, 0..region.len(), &both, &|| false).expect("no error");
    assert_eq!((moved.moved_bytes, moved.already_bytes + moved.stuck_bytes), (0, 3 * MIB as u64));
    assert!(moved.already_bytes >= MIB as u64 && moved.stuck_bytes >= MIB as u64, "{moved:?}");
    // Nodes that are not even online: nothing changes.
    let policy = region.policy();
    let moved = region.place_on(&machine, 0..region.len(), &Policy::Node(NodeId(55)), &|| false).expect("no error");
    assert_eq!((moved.stuck_bytes, region.policy()), (3 * MIB as u64, policy));
}

#[test]
fn a_full_node_is_named_and_nothing_changes() {
    if !can_place() {
        return;
    }
    let (_fixture, machine) = two_nodes([4 << 20, 100 << 10]);
    let region = Allocator::on_machine(Policy::Node(NodeId(0)), None, machine.clone()).region(80 * MIB).expect("fits");
    let placements = region.placements();
    let full = |result: Result<MoveReport, MoveError>| match result {
        Err(MoveError::Memory(MemoryError::NodeFull { node, requested_bytes, .. })) => (node, requested_bytes),
        other => panic!("{other:?}"),
    };
    let asked = |policy: &Policy, bytes| full(region.place_on(&machine, bytes, policy, &|| false));
    assert_eq!(asked(&Policy::Node(NodeId(1)), 0..80 * MIB), (NodeId(1), 80 << 20));
    assert_eq!(asked(&Policy::Node(NodeId(1)), MIB..79 * MIB), (NodeId(1), 78 << 20));
    let mut nodes = vec![NodeId(1); 12];
    nodes[0] = NodeId(0);
    let striped = Policy::Striped { nodes, chunk_bytes: 0 };
    assert_eq!(asked(&striped, 0..80 * MIB).0, NodeId(1));
    assert_eq!(region.policy(), Policy::Node(NodeId(0)));
    assert_eq!(kernel_policy(region.address()).as_deref(), Some("bind:0"));
    assert_eq!(machine.bound_bytes(NodeId(0)), 80 << 20);
    assert!(region.placements() >= placements);
}

#[test]
fn a_stop_comes_first_and_takes_the_policy_back() {
    if !can_place() {
        return;
    }
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let region = touched(&machine, Policy::Node(NodeId(0)), 20 * MIB);
    for steps in [0, 1, 2] {
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) >= steps;
        let policy = Policy::Interleaved(vec![NodeId(0)]);
        assert_eq!(region.place_on(&machine, 0..region.len(), &policy, &stop), Err(MoveError::Stopped));
        assert_eq!((asked.get(), region.policy()), (steps + 1, Policy::Node(NodeId(0))));
        assert_eq!(kernel_policy(region.address()).as_deref(), Some("bind:0"));
        assert_eq!(machine.bound_bytes(NodeId(0)), 20 << 20);
    }
}

#[test]
fn what_is_bound_follows_the_move() {
    if !can_place() {
        return;
    }
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let mut region = touched(&machine, Policy::Node(NodeId(0)), 8 * MIB);
    assert_eq!(machine.bound_bytes(NodeId(0)), 8 << 20);
    let placements = region.placements();
    region.place_on(&machine, MIB..3 * MIB, &Policy::Interleaved(vec![NodeId(0)]), &|| false).expect("there is room");
    assert_eq!(machine.bound_bytes(NodeId(0)), 6 << 20);
    assert_eq!(kernel_policy(region.address() + 2 * MIB).as_deref(), Some("prefer:0"));
    assert_eq!(kernel_policy(region.address() + 4 * MIB).as_deref(), Some("bind:0"));
    assert_eq!((region.policy(), region.policies().len()), (Policy::Node(NodeId(0)), 3));
    region.place_on(&machine, 0..region.len(), &Policy::Local, &|| false).expect("there is room");
    assert_eq!((machine.bound_bytes(NodeId(0)), machine.bound_bytes(NodeId(1))), (0, 0));
    assert_eq!(kernel_policy(region.address() + 2 * MIB).as_deref(), Some("default"));
    assert_eq!((region.policy(), region.placements()), (Policy::Local, placements + 2));
    region.shrink(MIB);
    assert_eq!(region.policies(), [(0..MIB, Policy::Local)]);
    assert!(region.bytes().iter().all(|byte| *byte == 7));
}

#[test]
fn one_node_and_heap_blocks_take_no_call() {
    let fixture = Fixture::machine(&[0], 2);
    let machine = std::sync::Arc::new(Machine::read(fixture.root()));
    let region = touched(&machine, Policy::Local, MIB);
    let moved = region.place_on(&machine, 0..MIB, &Policy::Node(NodeId(0)), &|| false).expect("nothing to do");
    assert_eq!(moved, MoveReport { already_bytes: MIB as u64, ..MoveReport::default() });
    assert_eq!(region.policy(), Policy::Node(NodeId(0)));
    assert!(kernel_policy(region.address()).is_none_or(|policy| policy == "default"));
    let small = touched(&machine, Policy::Local, 100);
    assert!(region.is_movable() && !small.is_movable());
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let moved = small.place_on(&machine, 0..100, &Policy::Node(NodeId(0)), &|| false).expect("nothing to do");
    assert_eq!((moved.moved_bytes, moved.stuck_bytes >= 1), (0, true));
    assert_eq!(small.policy(), Policy::Local);
    let nothing = region.place_on(&machine, 10..4000, &Policy::Node(NodeId(0)), &|| false).expect("no whole page");
    assert_eq!(nothing, MoveReport::default());
    let empty = touched(&machine, Policy::Local, 0);
    assert_eq!(empty.place(&Policy::Node(NodeId(0)), &|| false), Ok(MoveReport::default()));
    assert_eq!(empty.restore(&empty.snapshot()), MoveReport::default());
}
