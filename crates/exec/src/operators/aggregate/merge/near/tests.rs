//! Which bytes of groups cross between nodes when they are merged.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use random::Random;

use super::*;
use crate::chunk::vector::{ColumnInfo, Vector};
use crate::chunk::{Chunk, Origin, RowIds, Rows};
use crate::keys::group::GroupCodec;
use crate::operators::aggregate::calls::Calls;
use crate::operators::aggregate::strategy::Strategy;
use crate::operators::aggregate::tests::{page_maps, run_on, statement};
use crate::pipe::drive::Sink;
use crate::plan::{AggregateCall, AggregateFunction};
use crate::tasks::pretended::{Pretended, on};
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, Traffic};

/// Keys and sums of them, in no order.
type Sums = Vec<(u64, i64)>;

/// A machine with several nodes, each with several workers.
struct Machine {
    nodes: usize,
    workers_per_node: usize,
}

/// What merging did.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    /// Bytes of groups that were read on another node than where they lay.
    crossing: u64,
    /// Those read on their own.
    near: u64,
    /// Those that were merged before.
    merged_first: u64,
}

const GROUPS: usize = 40_000;

impl Machine {
    /// The groups of each worker's keys (all workers of node 0 come first), merged: the sum of each key, and what that
    /// moved. Fewer than `little_bytes` are merged anywhere.
    fn grouped(&self, keys: &[Vec<i64>], strategy: Strategy, little_bytes: u64) -> (Sums, Moved) {
        let statement = statement();
        let machine = Pretended::new(self.nodes as u32);
        let maps = page_maps();
        let traffic = Arc::new(Traffic::default());
        let run = Run { traffic: &traffic, ..run_on(&statement, &machine, &maps) };
        let low = keys.iter().flatten().min().unwrap();
        let high = keys.iter().flatten().max().unwrap();
        let field = Arc::new(Field::new("x", DataType::Int64, false));
        let infos = vec![ColumnInfo::int(field.clone(), *low, *high, false)];
        let sum = AggregateCall {
            function: AggregateFunction::Sum,
            arguments: vec![0],
            distinct: false,
            filter: None,
            order: Vec::new(),
            field,
        };
        let calls = Arc::new(Calls::new(&[sum], &infos, false).unwrap());
        let coder = GroupCodec::new(&[0], &infos, 2).unwrap();
        let rows = keys.iter().map(Vec::len).sum::<usize>() as u64;
        let mut sink = Grouping::<u64>::new(run, (rows, rows), coder, calls, Some(strategy)).unwrap();
        sink.little_bytes = little_bytes;
        let mut workers = Vec::new();
        for (number, keys) in keys.iter().enumerate() {
            let rows = keys.len();
            let columns = vec![Arc::new(Vector::ints(keys.clone()))];
            let kept = Rows { infos: infos.clone(), columns, rows, _charged: Vec::new(), lies: None };
            let chunk = Chunk::of(Origin::Rows(Arc::new(kept)), RowIds::Range(0..rows));
            workers.push(on(NodeId((number / self.workers_per_node) as u32), || {
                let mut worker = sink.local().unwrap();
                sink.push(&mut worker, chunk).unwrap();
                worker
            }));
        }
        let merged = crate::operators::aggregate::merge::pieces(&sink, workers, &|keys, states| {
            let State::Sum(sums) = &states.states[0] else { panic!("sums of 64 bits") };
            Ok(keys.iter().copied().zip(sums.iter().copied()).collect::<Sums>())
        });
        (merged.unwrap().concat(), moved(&traffic))
    }

    fn workers(&self) -> usize {
        self.nodes * self.workers_per_node
    }
}

fn moved(traffic: &Traffic) -> Moved {
    let mut moved = Moved { crossing: 0, near: 0, merged_first: 0 };
    for line in traffic.lines().iter().filter(|line| &*line.table == traffic::GROUPS) {
        match line.phase {
            TouchPhase::Keep => moved.merged_first += line.touched.bytes,
            _ if line.to == Some(line.from) => moved.near += line.touched.bytes,
            _ => moved.crossing += line.touched.bytes,
        }
    }
    moved
}

fn shuffled(keys: impl Iterator<Item = i64>, seed: usize) -> Vec<i64> {
    let mut keys: Vec<i64> = keys.collect();
    Random::new(seed as u64).shuffle(&mut keys);
    keys
}

/// Every key from 0 on is there once, with its sum over so many rows.
fn check_sums(sums: &Sums, groups: usize, times: i64) {
    let mut sums = sums.clone();
    sums.sort_unstable();
    let expected = (0..groups as i64).map(|key| (key as u64, key * times));
    assert!(sums.into_iter().eq(expected), "each key once");
}

/// All workers have the same groups: of each node one state crosses, not one of each worker.
#[test]
fn the_same_groups_cross_once_per_node() {
    for (nodes, workers_per_node) in [(2, 2), (2, 4), (3, 3), (4, 4)] {
        let machine = Machine { nodes, workers_per_node };
        let workers = machine.workers();
        let keys: Vec<Vec<i64>> = (0..workers).map(|worker| shuffled(0..GROUPS as i64, worker)).collect();
        let array = Strategy::Direct { domain: GROUPS };
        // Of an array the sums, of a table the keys too.
        for (strategy, bytes) in [(array, 8 * GROUPS as u64), (Strategy::Table, 16 * GROUPS as u64)] {
            let what = format!("{nodes} nodes of {workers_per_node} workers: {strategy:?}");
            let (sums, by_node) = machine.grouped(&keys, strategy, 0);
            check_sums(&sums, GROUPS, workers as i64);
            let (others, all) = (nodes as u64 - 1, workers as u64);
            assert_eq!(by_node.crossing, others * bytes, "{what}");
            // Each worker's are read where they lie, by whoever merges them on their node or at home.
            assert_eq!(by_node.near, all * bytes, "{what}");
            assert_eq!(by_node.merged_first, others * bytes, "{what}");
            // Where nothing is merged before, what is not at home crosses once for each worker.
            let (sums, at_once) = machine.grouped(&keys, strategy, u64::MAX);
            check_sums(&sums, GROUPS, workers as i64);
            assert_eq!(at_once.crossing, others * workers_per_node as u64 * bytes, "{what}");
            assert_eq!(at_once.merged_first, 0, "{what}");
        }
    }
}

/// Keys are clustered as rows are: pieces are merged where their groups are, and only the ends of ranges cross.
#[test]
fn groups_of_one_node_are_merged_there() {
    let machine = Machine { nodes: 3, workers_per_node: 3 };
    let first = |worker: usize| (worker * GROUPS) as i64;
    let keys: Vec<Vec<i64>> = (0..9).map(|worker| (first(worker)..first(worker + 1)).collect()).collect();
    let (sums, clustered) = machine.grouped(&keys, Strategy::Table, 0);
    check_sums(&sums, 9 * GROUPS, 1);
    let all = 9 * 16 * GROUPS as u64;
    assert_eq!(clustered.near + clustered.crossing, all);
    assert!(clustered.crossing < all / 20, "{clustered:?} of {all}");
    assert_eq!(clustered.merged_first, 0);
    let (sums, anywhere) = machine.grouped(&keys, Strategy::Table, u64::MAX);
    check_sums(&sums, 9 * GROUPS, 1);
    assert!(anywhere.crossing > all / 2, "{anywhere:?} of {all}");
}

/// Groups of workers that have none in common are not merged twice: the first task of a node finds out.
#[test]
fn different_groups_are_merged_once() {
    let machine = Machine { nodes: 3, workers_per_node: 3 };
    let own = |worker: usize| shuffled((0..GROUPS as i64).map(|key| key * 9 + worker as i64), worker);
    let keys: Vec<Vec<i64>> = (0..9).map(own).collect();
    let (sums, apart) = machine.grouped(&keys, Strategy::Table, 0);
    check_sums(&sums, 9 * GROUPS, 1);
    assert_eq!(apart.merged_first, 0);
    let all = 9 * 16 * GROUPS as u64;
    assert_eq!(apart.near + apart.crossing, all);
    // About a third of each piece is at home.
    assert!(apart.crossing > all * 6 / 10 && apart.crossing < all * 7 / 10, "{apart:?} of {all}");
}

/// Homes are dealt out where nodes have about as much, also where one has a worker more; one worker's are not merged.
#[test]
fn nodes_may_have_different_numbers_of_workers() {
    let machine = Machine { nodes: 3, workers_per_node: 3 };
    for (workers, merged_first) in [(8, None), (7, Some(16 * GROUPS as u64))] {
        let keys: Vec<Vec<i64>> = (0..workers).map(|worker| shuffled(0..GROUPS as i64, worker)).collect();
        let (sums, moved) = machine.grouped(&keys, Strategy::Table, 0);
        check_sums(&sums, GROUPS, workers as i64);
        assert_eq!(moved.crossing, 2 * 16 * GROUPS as u64, "{workers} workers");
        assert_eq!(moved.merged_first, merged_first.unwrap_or(moved.crossing), "{workers} workers");
    }
}
