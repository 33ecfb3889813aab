//! Loops beside plain loops, on the slow twin and on schedulers of one node and of four.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use numa::{Budget, NodeId, Topology};
use proptest::prelude::*;

use super::*;
use crate::{Affinity, AffinityOf, CallBody, Config, Inline, Place, Scheduler, Stealing, StopReason};

fn statement() -> Arc<Statement> {
    Statement::new(1, Budget::unlimited())
}

/// The slow twin, four threads on one node, and two threads on each of four nodes with every way to steal.
fn crews() -> &'static [Box<dyn Workers>] {
    static CREWS: OnceLock<Vec<Box<dyn Workers>>> = OnceLock::new();
    CREWS.get_or_init(|| {
        let machine = |packages, nodes, cores, stealing| -> Box<dyn Workers> {
            let topology = Arc::new(Topology::synthetic(packages, nodes, cores, 1));
            Box::new(Scheduler::new(topology, Config { stealing, ..Config::default() }))
        };
        vec![
            Box::new(Inline::new()),
            machine(1, 1, 4, Stealing::Off),
            machine(2, 2, 2, Stealing::Off),
            machine(2, 2, 2, Stealing::Neighbour),
            machine(2, 2, 2, Stealing::Any),
        ]
    })
}

fn four_threads() -> &'static dyn Workers {
    &*crews()[1]
}

/// A node that nobody works on, among others.
fn nodes() -> impl Strategy<Value = Vec<NodeId>> {
    proptest::collection::vec((0u32..5).prop_map(NodeId), 0..7)
}

fn grains() -> impl Strategy<Value = Grain> {
    prop_oneof![
        3 => Just(Grain::Adaptive),
        2 => (0usize..300).prop_map(Grain::Elements),
        1 => (0u64..3000).prop_map(Grain::Bytes),
    ]
}

fn hints() -> impl Strategy<Value = &'static dyn PolicyHint> {
    let all: [&'static dyn PolicyHint; 3] = [&Target, &Bound, &Os];
    (0..3usize).prop_map(move |hint| all[hint])
}

/// A range of which `n` elements after the other lie on these nodes, in turn.
#[derive(Clone, Debug)]
struct Stripes {
    nodes: Vec<NodeId>,
    elements: usize,
    range: Range<usize>,
}

impl Stripes {
    fn node_of(&self, index: usize) -> Option<NodeId> {
        (!self.nodes.is_empty()).then(|| self.nodes[index / self.elements % self.nodes.len()])
    }
}

impl Span for Stripes {
    fn pieces(&self, _workers: &dyn Workers) -> Vec<(Option<NodeId>, Range<usize>)> {
        let starts = self.range.clone().step_by(self.elements);
        starts.map(|start| (self.node_of(start), start..self.range.end.min(start + self.elements))).collect()
    }

    fn element_bytes(&self) -> usize {
        8
    }
}

/// How to run a loop, and over what.
fn cases() -> impl Strategy<Value = (usize, Grain, &'static dyn PolicyHint, Stripes, Range<usize>)> {
    let range = prop_oneof![(0usize..40, 0usize..40), (0usize..20_000, 0usize..20_000)];
    let range = range.prop_map(|(a, b)| a.min(b)..a.max(b));
    (0..crews().len(), grains(), hints(), nodes(), range).prop_map(|(crew, grain, hint, nodes, range)| {
        (crew, grain, hint, Stripes { nodes, elements: 512, range: range.clone() }, range)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_index_is_visited_once((crew, grain, hint, stripes, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(hint);
        let visits: Vec<AtomicUsize> = range.clone().map(|_| AtomicUsize::new(0)).collect();
        let longest = AtomicUsize::new(0);
        let body = |part: Range<usize>| {
            longest.fetch_max(part.len(), Ordering::Relaxed);
            for index in part {
                visits[index - range.start].fetch_add(1, Ordering::Relaxed);
            }
        };
        how.parallel_for(range.clone(), body).unwrap();
        how.parallel_for(&stripes, body).unwrap();
        prop_assert!(visits.iter().all(|visits| visits.load(Ordering::Relaxed) == 2));
        if let Some(grain) = grain.fixed(8).max(grain.fixed(1)) {
            prop_assert!(longest.into_inner() <= grain);
        }
        prop_assert_eq!(statement.stopped(), None);
    }

    #[test]
    fn what_is_written_is_what_a_plain_loop_writes((crew, grain, hint, stripes, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(hint);
        let write = |start: usize, items: &mut [u64]| {
            for (index, item) in (start..).zip(items) {
                *item = *item * 3 + index as u64;
            }
        };
        let mut expected: Vec<u64> = range.clone().map(|i| i as u64).collect();
        let mut slice = expected.clone();
        write(0, &mut expected);
        how.parallel_for_mut(&mut slice, write).unwrap();
        prop_assert_eq!(&slice, &expected);

        let first = range.start as u64;
        let partitioner = StripingPartitioner::new(stripes.nodes).with_stripe_bytes(1);
        let mut array = StripedArray::from_fn(&how, range.len(), &partitioner, |i| first + i as u64).unwrap();
        how.parallel_for_mut(&mut array, write).unwrap();
        prop_assert_eq!(&array[..], &expected[..]);
        let sum = how.parallel_reduce(&array, || 0, |sum, part| sum + array[part].iter().sum::<u64>(), |a, b| a + b);
        prop_assert_eq!(sum, Ok(expected.iter().sum()));
    }

    #[test]
    fn reductions_are_what_a_fold_gives((crew, grain, hint, stripes, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(hint);
        let sum = how.parallel_reduce(&stripes, || 0, |sum, part| sum + part.sum::<usize>(), |a, b| a + b);
        prop_assert_eq!(sum, Ok(range.clone().sum()));

        // No neutral element but the empty list, and a join that shows what it was given.
        let append = |mut left: Vec<usize>, mut right: Vec<usize>| { left.append(&mut right); left };
        let collected = how.parallel_reduce(&stripes, Vec::new, |all, part| append(all, part.collect()), append);
        let mut collected = collected.unwrap();
        collected.sort_unstable();
        prop_assert_eq!(collected, range.collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_fails_the_statement_alone((crew, grain, hint, stripes, range) in cases(), bad in any::<usize>()) {
        prop_assume!(!range.is_empty());
        let bad = range.start + bad % range.len();
        let failing = statement();
        let other = statement();
        let how = Loop::new(&*crews()[crew], &failing).grain(grain).hint(hint);
        let error = how.parallel_for(&stripes, |part| assert!(!part.contains(&bad), "index {bad}"));
        prop_assert_eq!(error, Err(TaskError::Panicked(format!("index {bad}"))));
        prop_assert_eq!(failing.stopped(), Some(StopReason::Failed(format!("index {bad}"))));
        let how = Loop::new(&*crews()[crew], &other).grain(grain).hint(hint);
        prop_assert_eq!(how.parallel_for(range, |_| ()), Ok(()));
    }
}

#[test]
fn panics_of_every_closure_come_back() {
    for crew in crews() {
        let reduce = |identity: &(dyn Fn() -> u64 + Sync), len: usize| {
            let statement = statement();
            let how = Loop::new(&**crew, &statement).grain(Grain::Elements(1));
            let fold = |sum: u64, part: Range<usize>| sum + part.len() as u64;
            let result = how.parallel_reduce(0..len, identity, fold, |a, b| a + b);
            (result, statement.stopped())
        };
        let failed = |text: &str| (Err(TaskError::Panicked(text.into())), Some(StopReason::Failed(text.into())));
        assert_eq!(reduce(&|| panic!("identity"), 100), failed("identity"));
        assert_eq!(reduce(&|| panic!("identity"), 0), failed("identity"));
        assert_eq!(reduce(&|| 0, 100), (Ok(100), None));
        // What is joined at the end is joined outside of tasks where it is little.
        let statement = statement();
        let how = Loop::new(&**crew, &statement);
        let joined = join_all(&how, vec![1, 2, 3], &|_, _| panic!("join"));
        assert_eq!(joined, Err(TaskError::Panicked("join".into())));
        assert_eq!(statement.stopped(), Some(StopReason::Failed("join".into())));
    }
}

#[test]
fn heavy_joins_become_tasks() {
    for crew in crews() {
        let statement = statement();
        let how = Loop::new(&**crew, &statement);
        let slow = |a: u64, b: u64| {
            std::thread::sleep(Duration::from_micros(200));
            a + b
        };
        assert_eq!(join_all(&how, (0..33).collect(), &slow), Ok(Some((0..33).sum())));
        assert_eq!(join_all(&how, Vec::new(), &slow), Ok(None));
    }
}

#[test]
fn a_cancelled_loop_stops_and_says_so() {
    for crew in crews() {
        let statement = statement();
        let begun = AtomicUsize::new(0);
        let how = Loop::new(&**crew, &statement).grain(Grain::Elements(1));
        let result = how.parallel_for(0..1_000_000, |part| {
            begun.fetch_add(1, Ordering::Relaxed);
            if part.start >= 100 {
                statement.cancel();
            }
        });
        assert_eq!(result, Err(TaskError::Cancelled));
        let begun = begun.into_inner();
        assert!(begun < 100_000, "{begun} calls were begun after a cancel at the 101st");
        assert_eq!(how.parallel_for(0..1, |_| panic!("never called")), Err(TaskError::Cancelled));
        assert_eq!(
            how.parallel_reduce(0..1, || 0, |_, _| panic!("never called"), |a, b| a + b),
            Err(TaskError::Cancelled)
        );
    }
}

#[test]
fn a_deadline_ends_an_endless_loop() {
    for crew in crews() {
        let statement = statement();
        statement.set_deadline(Instant::now() + Duration::from_millis(20));
        let how = Loop::new(&**crew, &statement);
        let result = how.parallel_for(0..usize::MAX, |_| std::thread::sleep(Duration::from_micros(100)));
        assert_eq!(result, Err(TaskError::Cancelled));
        assert_eq!(statement.stopped(), Some(StopReason::Deadline));
    }
}

#[test]
fn loops_nest_in_workers() {
    for crew in crews() {
        let statement = statement();
        let how = Loop::new(&**crew, &statement);
        let sum = how.grain(Grain::Elements(1)).parallel_reduce(
            0..30,
            || 0,
            |sum, outer| {
                let inner =
                    |i: usize| how.parallel_reduce(0..i * 100, || 0, |sum, part| sum + part.len(), |a, b| a + b);
                outer.fold(sum, |sum, i| sum + inner(i).expect("nothing stops it"))
            },
            |a, b| a + b,
        );
        assert_eq!(sum, Ok((0..30).map(|i| i * 100).sum()));
    }
}

#[test]
fn a_nested_panic_reaches_the_outer_caller_as_a_stop() {
    for crew in crews() {
        let statement = statement();
        let how = Loop::new(&**crew, &statement);
        let inner = Mutex::new(None);
        let outer = how.parallel_for(0..1, |_| {
            *inner.lock() = Some(how.parallel_for(0..10, |part| assert!(!part.contains(&7), "seven")));
        });
        assert_eq!(inner.into_inner(), Some(Err(TaskError::Panicked("seven".into()))));
        assert_eq!(outer, Err(TaskError::Cancelled));
        assert_eq!(statement.stopped(), Some(StopReason::Failed("seven".into())));
    }
}

/// For a pile that one worker is expected at: nothing makes portions shorter near its end.
#[derive(Debug)]
struct OneRunner;

impl PolicyHint for OneRunner {
    fn runners(&self, _node: Option<NodeId>, _workers: &dyn Workers) -> Vec<Affinity> {
        vec![Affinity::Anywhere]
    }
}

/// Where the first nine portions of a loop of quick calls end, each eight times as long as the one before.
const QUICK: usize = (8usize.pow(9) - 1) / 7;
/// Few enough for the tenth portion to take the rest.
const ELEMENTS: usize = 150_000_000;

/// A body that is quick in nine portions and slow in the tenth: a millisecond per million elements, counted by thread.
fn slow_end(threads: &Mutex<HashMap<ThreadId, usize>>, range: &Range<usize>) {
    let slow = range.end.saturating_sub(range.start.max(QUICK));
    if slow > 0 {
        *threads.lock().entry(std::thread::current().id()).or_insert(0) += slow;
        let began = Instant::now();
        while began.elapsed() < Duration::from_nanos(slow as u64) {
            // Not a sleep: that has a cost per call, which the grain would follow.
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_rest_of_a_slow_portion_is_split_for_the_hungry() {
    let statement = statement();
    let how = Loop::new(four_threads(), &statement).hint(&OneRunner);
    let threads = Mutex::new(HashMap::new());
    let visited = AtomicUsize::new(0);
    how.parallel_for(0..ELEMENTS, |range| {
        slow_end(&threads, &range);
        visited.fetch_add(range.len(), Ordering::Relaxed);
    })
    .expect("nothing stops it");
    assert_eq!(visited.into_inner(), ELEMENTS);
    let threads = threads.into_inner();
    assert_eq!(threads.values().sum::<usize>(), ELEMENTS - QUICK);
    assert!(threads.len() >= 2, "slow elements per thread: {threads:?}");
}

#[test]
fn a_panic_in_a_split_is_a_panic_of_the_loop() {
    let statement = statement();
    let how = Loop::new(four_threads(), &statement).hint(&OneRunner);
    let threads = Mutex::new(HashMap::new());
    let result = how.parallel_for(0..ELEMENTS, |range| {
        slow_end(&threads, &range);
        assert!(range.end < ELEMENTS, "the last call");
    });
    assert_eq!(result, Err(TaskError::Panicked("the last call".into())));
}

/// Counts what a loop asks of its workers.
struct Counting<'a> {
    workers: &'a dyn Workers,
    tasks: AtomicUsize,
    affinities: Mutex<Vec<Affinity>>,
}

impl Workers for Counting<'_> {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        self.tasks.fetch_add(tasks, Ordering::Relaxed);
        self.affinities.lock().extend((0..tasks).map(affinity));
        self.workers.run(statement, tasks, affinity, body)
    }

    fn count(&self, _node: Option<NodeId>) -> usize {
        2
    }

    fn have_nodes(&self) -> bool {
        true
    }
}

#[test]
fn a_loop_of_many_indices_has_few_tasks_and_long_loops_give_way() {
    let counting = |len: usize, body: &(dyn Fn(Range<usize>) + Sync)| {
        let inline = Inline::new();
        let workers = Counting { workers: &inline, tasks: AtomicUsize::new(0), affinities: Mutex::new(Vec::new()) };
        Loop::new(&workers, &statement()).parallel_for(0..len, body).unwrap();
        workers.tasks.into_inner()
    };
    assert_eq!(counting(0, &|_| ()), 0);
    assert_eq!(counting(1_000_000_000, &|_| ()), 16, "as many as a first round has");
    // Fifty milliseconds: more than a first round's runners may take.
    let long = counting(50, &|range| range.for_each(|_| std::thread::sleep(Duration::from_millis(1))));
    assert!(long >= 50, "{long} runners, each of which ends after half a millisecond");
}

#[test]
fn hints_choose_the_affinities() {
    let stripes = Stripes { nodes: vec![NodeId(1), NodeId(3)], elements: 512, range: 0..2048 };
    let asked = |hint: &dyn PolicyHint| {
        let inline = Inline::new();
        let workers = Counting { workers: &inline, tasks: AtomicUsize::new(0), affinities: Mutex::new(Vec::new()) };
        let statement = statement();
        let how = Loop::new(&workers, &statement).hint(hint);
        how.parallel_for(&stripes, |_| ()).unwrap();
        let mut affinities = workers.affinities.into_inner();
        affinities.dedup();
        affinities
    };
    let near = |node, hard| Affinity::Near { place: Place::Node(NodeId(node)), hard };
    assert_eq!(asked(&Target), [near(1, false), near(3, false)]);
    assert_eq!(asked(&Bound), [near(1, true), near(3, true)]);
    assert_eq!(asked(&Os), [Affinity::Anywhere]);
}

#[test]
fn bodies_run_where_the_stripes_are() {
    let topology = Arc::new(Topology::synthetic(2, 2, 2, 1));
    let scheduler = Scheduler::new(Arc::clone(&topology), Config { stealing: Stealing::Any, ..Config::default() });
    let nodes: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
    let stripes = Stripes { nodes, elements: 512, range: 0..40 * 512 };
    let statement = statement();
    let how = Loop::new(&scheduler, &statement).hint(&Bound);
    let wrong = AtomicBool::new(false);
    how.parallel_for(&stripes, |range| {
        // A worker's name tells its node.
        let thread = std::thread::current();
        let node = thread.name().and_then(|name| name.split('-').nth(1)).and_then(|node| node.parse().ok());
        if range.clone().any(|i| stripes.node_of(i).map(|n| n.0) != node) {
            wrong.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(!wrong.into_inner());
}
