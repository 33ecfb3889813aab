//! Striped arrays: what they hold, and where they say that it lies.

use numa::Topology;
use proptest::prelude::*;

use super::*;
use crate::{Config, Inline, Scheduler, Statement};

fn nodes(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().map(|id| NodeId(*id)).collect()
}

#[test]
fn arrays_are_charged_to_their_budget() {
    let budget = Budget::new("arrays", 1 << 20);
    let partitioner = StripingPartitioner::new(nodes(&[0]));
    let array = StripedArray::<u64>::zeroed(100_000, &partitioner, Arc::clone(&budget)).unwrap();
    assert!(array.iter().all(|value| *value == 0) && array.len() == 100_000);
    assert!(budget.used_bytes() >= 800_000);
    let more = StripedArray::<u64>::zeroed(100_000, &partitioner, Arc::clone(&budget));
    assert!(matches!(more, Err(MemoryError::OverBudget { .. })));
    drop(array);
    assert_eq!(budget.used_bytes(), 0);
    for len in [usize::MAX, usize::MAX / 8, usize::MAX / 16] {
        let error = StripedArray::<u64>::zeroed(len, &partitioner, Budget::unlimited()).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn from_fn_is_charged_to_the_statement_and_stops_with_it() {
    let inline = Inline::new();
    let statement = Statement::new(1, Budget::new("statement", 1 << 20));
    let how = Loop::new(&inline, &statement);
    let partitioner = StripingPartitioner::new(Vec::new());
    assert!(StripedArray::from_fn(&how, 0, &partitioner, |_| 0u8).unwrap().is_empty());
    let array = StripedArray::from_fn(&how, 1000, &partitioner, |i| i as f64).unwrap();
    assert_eq!(array[999], 999.0);
    assert!(statement.budget().used_bytes() >= 8000);
    let over = StripedArray::from_fn(&how, 1 << 20, &partitioner, |_| 0u64).unwrap_err();
    assert!(matches!(over, ArrayError::Memory(MemoryError::OverBudget { .. })));
    let failed = StripedArray::from_fn(&how, 10, &partitioner, |i| if i == 5 { panic!("five") } else { 0u8 });
    assert_eq!(failed.unwrap_err(), ArrayError::Task(TaskError::Panicked("five".into())));
}

/// On a machine with several nodes, memory is where the stripes say; on any machine the page map that loops follow
/// covers the array.
#[test]
fn first_touch_lies_where_it_should() {
    let topology = Arc::new(Topology::discover().expect("this machine can be read"));
    let scheduler = Scheduler::new(Arc::clone(&topology), Config::default());
    let statement = Statement::new(1, Budget::unlimited());
    let how = Loop::new(&scheduler, &statement).hint(&Bound);
    let partitioner = StripingPartitioner::new(topology.usable_memory_nodes().to_vec()).with_stripe_bytes(64 << 10);
    let array = StripedArray::from_fn(&how, 500_000, &partitioner, |i| i as u64).unwrap();
    let pieces = array.pieces();
    assert_eq!(pieces.first().map(|(_, range)| range.start), Some(0));
    assert_eq!(pieces.last().map(|(_, range)| range.end), Some(array.len()));
    assert!(pieces.windows(2).all(|two| two[0].1.end == two[1].1.start));

    if topology.usable_memory_nodes().len() < 2 || !PageMap::of(&array.region).is_measured() {
        eprintln!("skipped: where pages lie, since this machine has one node or does not tell");
        return;
    }
    assert_eq!(*pieces, array.stripes());
}

#[test]
fn memory_that_changes_its_node_every_page_is_summed_up() {
    // Three pages of four lie on node 1.
    let runs: Vec<(Range<usize>, NodeId)> =
        (0..100_000).map(|page| (page * 4096..page * 4096 + 4096, NodeId(u32::from(page % 4 != 0)))).collect();
    let len = 100_000 * 4096 - 5;
    assert_eq!(stretches(&runs, len), [(Some(NodeId(1)), 0..len)]);
}

proptest! {
    /// Against a map that has an entry per byte.
    #[test]
    fn stretches_tell_the_node_of_every_byte(
        gaps in proptest::collection::vec((0usize..20, 1usize..20, 0u32..3), 0..20), rest in 0usize..20,
    ) {
        let mut runs = Vec::new();
        let mut bytes = Vec::new();
        for (gap, run, node) in gaps {
            bytes.resize(bytes.len() + gap, None);
            runs.push((bytes.len()..bytes.len() + run, NodeId(node)));
            bytes.resize(bytes.len() + run, Some(NodeId(node)));
        }
        bytes.resize(bytes.len() + rest, None);
        let mut next = 0;
        for (node, range) in stretches(&runs, bytes.len()) {
            prop_assert_eq!(range.start, next);
            prop_assert!(bytes[range.clone()].iter().all(|byte| *byte == node));
            next = range.end;
        }
        prop_assert_eq!(next, bytes.len());
    }
}
