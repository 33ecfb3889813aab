//! Regions on this machine, and on machines whose free memory is written in files. Node 0 is real wherever tests run,
//! so a made-up second node is enough to see real policy calls.

use std::fs;
use std::io;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::fixture::Fixture;
use crate::id_set::IdSet;
use crate::sys::Mode;
use crate::sys::deny::without_calls;
use crate::sys::mapping::Pages;
use crate::sys::page_bytes;
use crate::{Budget, MemoryError, NodeId, current_node};
use crate::{PageMap, Topology, pin_current_thread, refusals};

const MIB: usize = 1 << 20;

/// A machine of nodes 0 and 1 with this much free on each.
pub(super) fn two_nodes(free_kib: [u64; 2]) -> (Fixture, Arc<Machine>) {
    let fixture = Fixture::machine(&[0, 1], 2);
    for (node, free) in free_kib.into_iter().enumerate() {
        fixture.node_memory(node as u32, 8 << 20, free);
    }
    let machine = Arc::new(Machine::read(fixture.root()));
    (fixture, machine)
}

/// Whether policies can be set and read back here at all; containers often refuse that.
pub(super) fn can_place() -> bool {
    let memory = Memory::map(MIB, Pages::Default).expect("a mebibyte");
    let set = memory.bind(0..MIB, Mode::Bind, &IdSet::from_iter([0]));
    let works = set.is_ok() && kernel_policy(memory.address()).is_some_and(|p| p == "bind:0");
    if !works {
        eprintln!("skipped: policies cannot be set or not be read back here ({set:?})");
    }
    works
}

/// The policy that the kernel has for the mapping at this address, such as `bind:0`.
pub(super) fn kernel_policy(address: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/numa_maps").ok()?;
    let starts = |line: &str| usize::from_str_radix(line.split_whitespace().next()?, 16).ok();
    // Neighbours with the same policy are one line.
    let line = maps.lines().rfind(|line| starts(line).is_some_and(|start| start <= address))?;
    line.split_whitespace().nth(1).map(str::to_string)
}

pub(super) fn refused_calls() -> Vec<(&'static str, String)> {
    refusals().into_iter().map(|r| (r.call, r.error)).collect()
}

#[test]
fn regions_are_zeroed_aligned_and_counted() {
    let budget = Budget::new("test", 64 << 20);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    for len in [0, 1, 63, 64, 65, 4096, 65_535, 65_536, 100_000, 2 * MIB, 5 * MIB + 1] {
        let mut region = allocator.region(len).expect("fits");
        assert_eq!((region.len(), region.is_empty()), (len, len == 0));
        assert_eq!(region.address() % if len >= 2 * MIB { 2 * MIB } else { 64 }, 0);
        assert!(region.bytes().iter().all(|b| *b == 0), "{len} bytes are not zero");
        region.bytes_mut().fill(0xab);
        assert!(region.words::<u64>().iter().all(|w| *w == 0xabab_abab_abab_abab));
        assert_eq!(region.words::<u128>().len(), len / 16);
        assert!(region.held_bytes() >= len);
        assert_eq!(budget.used_bytes(), region.held_bytes() as u64);
    }
    assert_eq!(budget.used_bytes(), 0);
    let error = allocator.region(65 * MIB).expect_err("over budget");
    assert!(matches!(error, MemoryError::OverBudget { .. }), "{error}");
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn impossible_sizes_are_errors() {
    for len in [usize::MAX, usize::MAX - 4096, 1 << 60] {
        let error = Allocator::unplaced().region(len).expect_err("no machine has that");
        assert!(matches!(error, MemoryError::MachineFull { .. } | MemoryError::System { .. }), "{error}");
        let budget = Budget::unlimited();
        assert!(Allocator::new(Policy::Node(NodeId(0)), Arc::clone(&budget)).region(len).is_err());
        assert_eq!(budget.used_bytes(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn shrinking_keeps_what_is_left(len in 0usize..400_000, cuts in prop::collection::vec(0usize..400_000, 0..4)) {
        let budget = Budget::unlimited();
        let mut region = Allocator::new(Policy::Local, Arc::clone(&budget)).region(len).expect("fits");
        let mut plain: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        region.bytes_mut().copy_from_slice(&plain);
        for cut in cuts {
            region.shrink(cut);
            plain.truncate(cut);
            prop_assert_eq!(region.bytes(), &plain[..]);
            prop_assert_eq!(budget.used_bytes(), region.held_bytes() as u64);
            // Whole pages go back; a heap block may stay up to twice as large.
            prop_assert!(region.held_bytes() <= 2 * plain.len() + page_bytes());
        }
    }
}

#[test]
fn a_region_can_be_read_from_many_threads() {
    let mut region = Allocator::unplaced().region(MIB).expect("fits");
    for (i, word) in region.words_mut::<u32>().iter_mut().enumerate() {
        *word = i as u32;
    }
    let sum = |words: &[u32]| words.iter().map(|w| u64::from(*w)).sum::<u64>();
    let expected = sum(region.words());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(sum(region.words()), expected));
        }
    });
}

#[test]
fn the_kernel_gets_the_policy() {
    if !can_place() {
        return;
    }
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let allocator = Allocator::on_machine(Policy::Node(NodeId(0)), None, Arc::clone(&machine));
    let mut region = allocator.region(3 * MIB).expect("fits");
    assert_eq!(kernel_policy(region.address()).as_deref(), Some("bind:0"));
    assert_eq!(machine.bound_bytes(NodeId(0)), 3 * MIB as u64);
    region.bytes_mut().fill(1);
    let map = PageMap::of(&region);
    assert!(!map.is_measured() || map.bytes_per_node().into_iter().eq([(NodeId(0), 3 * MIB as u64)]));
    region.shrink(MIB);
    assert_eq!(machine.bound_bytes(NodeId(0)), MIB as u64);
    drop(region);
    assert_eq!(machine.bound_bytes(NodeId(0)), 0);
    // The kernel drops node 1 from the set where it is not there; the policy still arrives.
    let policy = Policy::Interleaved(vec![NodeId(1), NodeId(0)]);
    let region = Allocator::on_machine(policy, None, Arc::clone(&machine)).region(MIB).expect("fits");
    assert!(kernel_policy(region.address()).is_some_and(|p| p.starts_with("interleave:0")));
    let one = Policy::Interleaved(vec![NodeId(0)]);
    let region = Allocator::on_machine(one, None, machine).region(MIB).expect("fits");
    assert_eq!(kernel_policy(region.address()).as_deref(), Some("bind:0"));
}

#[test]
fn one_node_gets_no_policy_call() {
    let fixture = Fixture::machine(&[0], 2);
    let machine = Arc::new(Machine::read(fixture.root()));
    let region = Allocator::on_machine(Policy::Node(NodeId(0)), None, machine).region(MIB).expect("fits");
    let policy = kernel_policy(region.address());
    assert!(policy.is_none_or(|p| p == "default"));
}

#[test]
fn a_full_node_is_an_error_that_names_it() {
    let (fixture, machine) = two_nodes([4 << 20, 100 << 10]);
    let on = |policy| Allocator::on_machine(policy, None, Arc::clone(&machine));
    let error = on(Policy::Node(NodeId(1))).region(80 * MIB).expect_err("100 MiB less the margin");
    assert_eq!(error, MemoryError::NodeFull { node: NodeId(1), requested_bytes: 80 << 20, available_bytes: 68 << 20 },);
    assert!(error.to_string().contains("node 1 is full"), "{error}");
    let error = on(Policy::Interleaved(vec![NodeId(0), NodeId(1)])).region(200 * MIB).expect_err("half is too much");
    assert!(matches!(error, MemoryError::NodeFull { node: NodeId(1), .. }), "{error}");
    assert!(on(Policy::Node(NodeId(0))).region(80 * MIB).is_ok());
    // Page cache can be had back.
    fixture.node_file("node1/meminfo", "Node 1 MemFree: 1024 kB\nNode 1 Inactive(file): 204800 kB\n");
    assert!(on(Policy::Node(NodeId(1))).region(80 * MIB).is_ok());
    // Half of the machine's 16 GiB are available, wherever they are.
    let error = on(Policy::Local).region(9 << 30).expect_err("more than is available");
    assert!(matches!(error, MemoryError::MachineFull { .. }), "{error}");
    let fixture = Fixture::machine(&[3], 2);
    let machine = Arc::new(Machine::read(fixture.root()));
    let error = Allocator::on_machine(Policy::Node(NodeId(3)), None, machine).region(5 << 30).expect_err("full");
    assert!(matches!(error, MemoryError::NodeFull { node: NodeId(3), .. }), "{error}");
}

#[test]
fn small_requests_add_up_and_promises_loosen_the_policy() {
    if !can_place() {
        return;
    }
    let (_fixture, machine) = two_nodes([160 << 10, 160 << 10]);
    let allocator = Allocator::on_machine(Policy::Node(NodeId(0)), None, Arc::clone(&machine));
    // meminfo never changes here, as if nothing were touched: strict at first, preferred when promises near the edge.
    let regions: Vec<Region> = (0..10).map(|_| allocator.region(15 * MIB).expect("fits")).collect();
    let policies: Vec<String> = regions.iter().filter_map(|r| kernel_policy(r.address())).collect();
    assert_eq!(policies.first().map(String::as_str), Some("bind:0"));
    assert_eq!(policies.last().map(String::as_str), Some("prefer:0"));
}

#[test]
fn nodes_that_are_not_there_leave_memory_unplaced_and_are_told_once() {
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    for _ in 0..3 {
        let allocator = Allocator::on_machine(Policy::Node(NodeId(77)), None, Arc::clone(&machine));
        allocator.region(MIB).expect("unplaced").bytes_mut().fill(1);
    }
    let told: Vec<_> = refusals().into_iter().filter(|r| r.error.contains("not online")).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].count >= 3);
    // Node 1 is online as far as the machine knows, and not in this kernel (where it is, it is simply placed).
    let region = Allocator::on_machine(Policy::Node(NodeId(1)), None, machine).region(MIB).expect("placed or not");
    assert!(Machine::this().has(NodeId(1)) || kernel_policy(region.address()).is_none_or(|p| p == "default"));
}

#[test]
fn everything_works_where_the_kernel_refuses() {
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let calls = [
        libc::SYS_mbind,
        libc::SYS_move_pages,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_getaffinity,
        libc::SYS_getcpu,
    ];
    for errno in [libc::EPERM, libc::ENOSYS] {
        let ran = without_calls(&calls, errno, || {
            let allocator = Allocator::on_machine(Policy::Node(NodeId(0)), None, Arc::clone(&machine));
            let mut region = allocator.region(MIB).expect("unplaced");
            region.bytes_mut().fill(1);
            let map = PageMap::of(&region);
            assert!(!map.is_measured());
            assert_eq!(map.bytes_per_node().into_iter().collect::<Vec<_>>(), [(NodeId(0), MIB as u64)]);
            assert_eq!(region.policy(), Policy::Node(NodeId(0)));
            let nodes = vec![NodeId(0), NodeId(1)];
            let weighted = Policy::Weighted(vec![(NodeId(0), 1), (NodeId(1), 3)]);
            for policy in
                [Policy::Striped { nodes: nodes.clone(), chunk_bytes: 0 }, weighted, Policy::Interleaved(nodes)]
            {
                let allocator = allocator.with_policy(policy);
                for len in [100, 3 * MIB] {
                    allocator.region(len).expect("unplaced").bytes_mut().fill(2);
                    allocator.scratch(len).expect("unplaced").bytes_mut().fill(2);
                }
            }
            // Which cpu it is needs no call that could be refused, or is simply not known.
            assert!(current_node().is_none_or(|node| Machine::this().has(node)));
            let topology = Topology::discover().expect("sysfs is still there");
            assert!(!pin_current_thread(&topology.usable_cpus()[..1]));
        });
        if ran.is_none() {
            return;
        }
        let error = io::Error::from_raw_os_error(errno).to_string();
        for call in ["mbind", "move_pages", "sched_setaffinity", "sched_getaffinity"] {
            let told = refused_calls().iter().filter(|(c, e)| *c == call && *e == error).count();
            assert_eq!(told, 1, "{call}: {error}");
        }
    }
}

/// The policy of every page of a mapping, by the kernel's list of mappings.
fn kernel_policies(address: usize, len: usize) -> Vec<String> {
    (address..address + len).step_by(page_bytes()).filter_map(kernel_policy).collect()
}

#[test]
fn stripes_and_weights_are_runs_in_the_kernel() {
    if !can_place() {
        return;
    }
    // Node 0 is the only one that is surely there: runs of it stand between runs that the kernel refused or bound.
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let page = page_bytes();
    let on = |policy| Allocator::on_machine(policy, None, Arc::clone(&machine));
    let striped = Policy::Striped { nodes: vec![NodeId(0), NodeId(0)], chunk_bytes: page as u64 };
    let mut region = on(striped.clone()).region(64 * page).expect("fits");
    assert_eq!(kernel_policies(region.address(), 64 * page), vec!["bind:0"; 64]);
    assert_eq!((region.policy(), machine.bound_bytes(NodeId(0))), (striped, 64 * page as u64));
    region.shrink(10 * page);
    assert_eq!(machine.bound_bytes(NodeId(0)), 10 * page as u64);
    drop(region);
    assert_eq!(machine.bound_bytes(NodeId(0)), 0);
    // The first run is bound before node 1 is refused, where node 1 is not there; memory is usable either way.
    let weighted = Policy::Weighted(vec![(NodeId(0), 3), (NodeId(1), 1)]);
    let mut region = on(weighted.clone()).region(64 * page).expect("fits");
    region.bytes_mut().fill(3);
    assert_eq!(region.policy(), weighted);
    assert_eq!(kernel_policies(region.address(), 3 * page), vec!["bind:0"; 3]);
}

/// The flags of the mapping at this address, by the kernel.
fn mapping_flags(address: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/smaps").ok()?;
    let mut inside = false;
    for line in maps.lines() {
        let span = line.split_whitespace().next().and_then(|word| word.split_once('-'));
        let span =
            span.and_then(|(a, b)| Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?)));
        if let Some((start, end)) = span {
            inside = (start..end).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return Some(format!("{flags} "));
        }
    }
    None
}

#[test]
fn huge_pages_are_asked_for_by_the_rule() {
    let budget = Budget::unlimited();
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    if mapping_flags(allocator.region(4 * MIB).expect("fits").address()).is_none_or(|f| !f.contains(" hg ")) {
        eprintln!("skipped: no huge pages here, or smaps does not tell");
        return;
    }
    let asked = |len| {
        let region = allocator.region(len).expect("fits");
        let flags = mapping_flags(region.address()).expect("it told a moment ago");
        assert_eq!((region.len(), budget.used_bytes()), (len, region.held_bytes() as u64));
        (flags.contains(" hg "), flags.contains(" nh "), region.held_bytes(), region.address().is_multiple_of(2 * MIB))
    };
    let small = asked(MIB + 1);
    assert_eq!((small.0, small.1, small.2), (false, false, MIB + page_bytes()));
    assert_eq!(asked(2 * MIB), (true, false, 2 * MIB, true));
    // Interleaved: huge from eight pages per node on; else never, so that pages really alternate.
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let policy = Policy::Interleaved(vec![NodeId(0), NodeId(1)]);
    let interleaved = Allocator::on_machine(policy, None, machine);
    assert_eq!(interleaved.pages(31 * MIB), Pages::Small);
    assert_eq!(interleaved.pages(32 * MIB), Pages::Huge);
}

#[test]
fn few_pages_lie_on_one_node_in_turn() {
    let (_fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let picked = |policy: Policy| {
        let allocator = Allocator::on_machine(policy, None, Arc::clone(&machine));
        let regions: Vec<Region> = (0..40).map(|_| allocator.region(1000).expect("fits")).collect();
        let on = |node| regions.iter().filter(|r| r.policy() == Policy::Node(NodeId(node))).count();
        [on(0), on(1)]
    };
    assert_eq!(picked(Policy::Interleaved(vec![NodeId(0), NodeId(1)])), [20, 20]);
    assert_eq!(picked(Policy::Weighted(vec![(NodeId(0), 3), (NodeId(1), 1)])), [30, 10]);
    assert_eq!(picked(Policy::Striped { nodes: vec![NodeId(1), NodeId(0)], chunk_bytes: 0 }), [0, 40]);
}

#[test]
fn scratch_memory_is_used_again() {
    for (fixture, policy) in [
        (Fixture::machine(&[0], 2), Policy::Local),
        (Fixture::machine(&[0, 1], 2), Policy::Node(NodeId(0))),
        (Fixture::machine(&[0, 1], 64), Policy::Local),
    ] {
        let machine = Arc::new(Machine::read(fixture.root()));
        let recycled = || machine.kept().map(|(_, _, bytes)| bytes).sum::<u64>();
        let budget = Budget::new("scratch", 64 << 20);
        let allocator = Allocator::on_machine(policy, Some(Arc::clone(&budget)), Arc::clone(&machine));
        if current_node().is_none() {
            eprintln!("skipped: the kernel does not tell which cpu this is");
            return;
        }
        // On this thread's cpu, which may change meanwhile: the second machine has them all on one node.
        let mut first = allocator.scratch(3 * MIB + 5).expect("fits");
        assert_eq!((first.len(), budget.used_bytes()), (3 * MIB + 5, first.held_bytes() as u64));
        first.bytes_mut().fill(0xee);
        let address = first.address();
        let held = first.held_bytes();
        drop(first);
        assert_eq!((budget.used_bytes(), recycled()), (0, held as u64));
        let again = allocator.scratch(3 * MIB).expect("fits");
        assert_eq!((again.address(), again.len(), again.held_bytes()), (address, 3 * MIB, held));
        assert_eq!((budget.used_bytes(), recycled()), (held as u64, 0));
        assert!(again.bytes().iter().all(|b| *b == 0xee), "what this test wrote before");
        // An ordinary region is zeroed, whatever is kept.
        drop(again);
        assert!(allocator.region(3 * MIB).expect("fits").bytes().iter().all(|b| *b == 0));
        // A budget that has no room for it leaves it where it is.
        let most = allocator.region(62 * MIB).expect("fits");
        assert!(matches!(allocator.scratch(3 * MIB), Err(MemoryError::OverBudget { .. })));
        assert_eq!(recycled(), held as u64);
        drop(most);
        // What was moved or is short goes its own way.
        let moved = allocator.scratch(3 * MIB).expect("fits");
        moved.set_policy(Policy::Node(NodeId(0)));
        drop(moved);
        assert_eq!((recycled(), machine.release_kept()), (0, 0));
        drop(allocator.scratch(1000).expect("from the heap"));
        for len in [0, 5000] {
            allocator.scratch(MIB).expect("fits").shrink(len);
        }
        assert_eq!(recycled(), 0);
    }
}

#[test]
fn kept_memory_goes_before_anybody_is_refused() {
    let (fixture, machine) = two_nodes([4 << 20, 4 << 20]);
    let allocator = Allocator::on_machine(Policy::Node(NodeId(1)), None, Arc::clone(&machine));
    drop(allocator.scratch(8 * MIB).expect("fits"));
    drop(allocator.region(100).expect("fits"));
    let kept = || machine.kept().map(|(_, pool, recycled)| pool + recycled).sum::<u64>();
    assert!(kept() > 8 << 20);
    fixture.node_memory(1, 8 << 20, 40 << 10);
    assert!(allocator.region(20 * MIB).is_err());
    assert!(kept() <= 256 << 10, "at most the slab with a block in this thread's cache is left");
}

#[test]
fn a_pinned_thread_knows_its_node() {
    let topology = Topology::discover().expect("tests run on Linux");
    for cpu in topology.usable_cpus().to_vec() {
        let expected = topology.node_of_cpu(cpu);
        std::thread::spawn(move || {
            if pin_current_thread(&[cpu]) {
                assert_eq!(current_node(), expected);
            }
        })
        .join()
        .expect("no panic");
    }
    let fixture = Fixture::machine(&[0, 3], 2);
    let machine = Machine::read(fixture.root());
    let nodes: Vec<_> = (0..5).map(|cpu| machine.node_of_cpu(crate::CpuId(cpu)).map(|n| n.0)).collect();
    assert_eq!(nodes, [Some(0), Some(0), Some(3), Some(3), None]);
}
