//! Loops beside plain loops, on the slow twin and on schedulers of one node and of four.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use numa::{Budget, NodeId, Topology};
use proptest::prelude::*;

use super::*;
use crate::{Affinity, Config, Inline, Place, Scheduler, SlotId, Stealing, Stopped};

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

/// Every hint there is.
#[derive(Clone, Debug)]
enum AnyHint {
    Target,
    Bound,
    Os,
    OnSlots(OnSlots),
}

impl PolicyHint for AnyHint {
    fn runners(&self, node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity> {
        match self {
            AnyHint::Target => Target.runners(node, workers),
            AnyHint::Bound => Bound.runners(node, workers),
            AnyHint::Os => Os.runners(node, workers),
            AnyHint::OnSlots(hint) => hint.runners(node, workers),
        }
    }
}

fn hints() -> impl Strategy<Value = AnyHint> {
    let slots = proptest::collection::vec((0u32..12).prop_map(SlotId), 0..4);
    let on_slots = (slots, any::<bool>()).prop_map(|(slots, strict)| AnyHint::OnSlots(OnSlots { slots, strict }));
    prop_oneof![Just(AnyHint::Target), Just(AnyHint::Bound), Just(AnyHint::Os), on_slots]
}

/// How to run a loop, and over what.
fn cases() -> impl Strategy<Value = (usize, Grain, AnyHint, StripingPartitioner, Range<usize>)> {
    let range = prop_oneof![(0usize..40, 0usize..40), (0usize..20_000, 0usize..20_000)];
    let range = range.prop_map(|(a, b)| a.min(b)..a.max(b));
    (0..crews().len(), grains(), hints(), nodes(), range).prop_map(|(crew, grain, hint, nodes, range)| {
        (crew, grain, hint, StripingPartitioner::new(nodes).with_stripe_bytes(1), range)
    })
}

/// `x -> a x + b` modulo a prime: composing two of them depends on their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Affine(u64, u64);

impl Affine {
    const PRIME: u64 = 1_000_003;

    fn of(index: usize) -> Affine {
        Affine(index as u64 * 7 % Affine::PRIME + 1, index as u64 * 13 % Affine::PRIME)
    }

    fn then(self, next: Affine) -> Affine {
        Affine(self.0 * next.0 % Affine::PRIME, (self.1 * next.0 + next.1) % Affine::PRIME)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_index_is_visited_once((crew, grain, hint, partitioner, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(&hint);
        let visits: Vec<AtomicUsize> = range.clone().map(|_| AtomicUsize::new(0)).collect();
        let longest = AtomicUsize::new(0);
        let body = |part: Range<usize>| {
            longest.fetch_max(part.len(), Ordering::Relaxed);
            for index in part {
                visits[index - range.start].fetch_add(1, Ordering::Relaxed);
            }
        };
        how.parallel_for(range.clone(), body).unwrap();
        how.parallel_for(partitioner.over(range.clone(), range.end, 8), body).unwrap();
        prop_assert!(visits.iter().all(|visits| visits.load(Ordering::Relaxed) == 2));
        if let Some(grain) = grain.fixed(8).max(grain.fixed(1)) {
            prop_assert!(longest.into_inner() <= grain);
        }
        prop_assert_eq!(statement.stopped(), None);
    }

    #[test]
    fn what_is_written_is_what_a_plain_loop_writes((crew, grain, hint, partitioner, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(&hint);
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
        let mut array = StripedArray::from_fn(&how, range.len(), &partitioner, |i| first + i as u64).unwrap();
        how.parallel_for_mut(&mut array, write).unwrap();
        prop_assert_eq!(&array[..], &expected[..]);
        let sum = how.parallel_reduce(&array, || 0, |sum, part| sum + array[part].iter().sum::<u64>(), |a, b| a + b);
        prop_assert_eq!(sum, Ok(expected.iter().sum()));
    }

    #[test]
    fn reductions_are_what_a_fold_gives((crew, grain, hint, partitioner, range) in cases()) {
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(&hint);
        let sum = how.parallel_reduce(
            partitioner.over(range.clone(), range.end, 8), || 0, |sum, part| sum + part.sum::<usize>(), |a, b| a + b,
        );
        prop_assert_eq!(sum, Ok(range.clone().sum()));

        let fold = |so_far: Affine, part: Range<usize>| part.map(Affine::of).fold(so_far, Affine::then);
        let composed = how.parallel_reduce_ordered(range.clone(), || Affine(1, 0), fold, Affine::then);
        prop_assert_eq!(composed, Ok(fold(Affine(1, 0), range.clone())));

        let collected = how.parallel_reduce_ordered(
            partitioner.over(range.clone(), range.end, 8),
            Vec::new,
            |mut all, part| { all.extend(part); all },
            |mut left, mut right| { left.append(&mut right); left },
        );
        prop_assert_eq!(collected, Ok(range.collect::<Vec<_>>()));
    }

    #[test]
    fn an_error_stops_the_loop_and_comes_back((crew, grain, hint, partitioner, range) in cases(), bad in any::<usize>()) {
        prop_assume!(!range.is_empty());
        let bad = range.start + bad % range.len();
        let statement = statement();
        let how = Loop::new(&*crews()[crew], &statement).grain(grain).hint(&hint);
        let body = |part: Range<usize>| if part.contains(&bad) { Err(bad) } else { Ok(()) };
        let span = || partitioner.over(range.clone(), range.end, 8);
        prop_assert_eq!(how.try_parallel_for(span(), body), Err(LoopError::Body(bad)));
        let fold = |(), part| body(part);
        prop_assert_eq!(how.try_parallel_reduce(span(), || (), fold, |(), ()| ()), Err(LoopError::Body(bad)));
        prop_assert_eq!(how.try_parallel_reduce_ordered(span(), || (), fold, |(), ()| ()), Err(LoopError::Body(bad)));
        prop_assert_eq!(statement.stopped(), None, "whether the statement fails is for its owner to say");
        prop_assert_eq!(how.parallel_for(range, |_| ()), Ok(()));
    }

    #[test]
    fn a_panic_fails_the_statement_alone((crew, grain, hint, partitioner, range) in cases(), bad in any::<usize>()) {
        prop_assume!(!range.is_empty());
        let bad = range.start + bad % range.len();
        let (failing, other) = (statement(), statement());
        let how = Loop::new(&*crews()[crew], &failing).grain(grain).hint(&hint);
        let span = partitioner.over(range.clone(), range.end, 8);
        let error = how.parallel_for(span, |part| assert!(!part.contains(&bad), "index {bad}"));
        prop_assert_eq!(error, Err(TaskError::Panicked(format!("index {bad}"))));
        prop_assert_eq!(failing.stopped(), Some(Stopped::Failed(format!("index {bad}"))));
        let how = Loop::new(&*crews()[crew], &other).grain(grain).hint(&hint);
        prop_assert_eq!(how.parallel_for(range, |_| ()), Ok(()));
    }
}

#[test]
fn panics_of_every_closure_come_back() {
    for crew in crews() {
        for ordered in [false, true] {
            let reduce = |identity: &(dyn Fn() -> u64 + Sync), join: &(dyn Fn(u64, u64) -> u64 + Sync), len: usize| {
                let statement = statement();
                let how = Loop::new(&**crew, &statement).grain(Grain::Elements(1));
                let fold = |sum: u64, part: Range<usize>| sum + part.len() as u64;
                let result = match ordered {
                    false => how.parallel_reduce(0..len, identity, fold, join),
                    true => how.parallel_reduce_ordered(0..len, identity, fold, join),
                };
                (result, statement.stopped())
            };
            let failed = |text: &str| (Err(TaskError::Panicked(text.into())), Some(Stopped::Failed(text.into())));
            assert_eq!(reduce(&|| panic!("identity"), &|a, b| a + b, 100), failed("identity"));
            assert_eq!(reduce(&|| panic!("identity"), &|a, b| a + b, 0), failed("identity"));
            assert_eq!(reduce(&|| 0, &|a, b| a + b, 100), (Ok(100), None));
        }
        // A commutative reduction joins only if two workers took part; an ordered one joins portions.
        let statement = statement();
        let how = Loop::new(&**crew, &statement).grain(Grain::Elements(1));
        let slow = |sum: u64, _: Range<usize>| {
            std::thread::sleep(Duration::from_millis(1));
            sum
        };
        let result = how.parallel_reduce_ordered(0..8, || 0, slow, |_, _| panic!("join"));
        assert_eq!(result, Err(TaskError::Panicked("join".into())));
    }
}

#[test]
fn a_cancelled_loop_stops_and_says_so() {
    for crew in crews() {
        let (statement, begun) = (statement(), AtomicUsize::new(0));
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
        assert_eq!(statement.stopped(), Some(Stopped::Deadline));
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
        assert_eq!(statement.stopped(), Some(Stopped::Failed("seven".into())));
    }
}

/// For a pile that one worker is expected at: nothing makes portions shorter near its end.
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
    let calls = how.parallel_reduce_ordered(
        0..ELEMENTS,
        Vec::new,
        |mut calls, range| {
            slow_end(&threads, &range);
            calls.push(range);
            calls
        },
        |mut left, mut right| {
            left.append(&mut right);
            left
        },
    );
    let calls = calls.expect("nothing stops it");
    assert!(calls[0].start == 0 && calls.last().is_some_and(|last| last.end == ELEMENTS));
    assert!(calls.windows(2).all(|two| two[0].end == two[1].start));
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
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
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

    fn node_here(&self) -> Option<NodeId> {
        Some(NodeId(0))
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
    let stripes = StripingPartitioner::new(vec![NodeId(1), NodeId(3)]).with_stripe_bytes(1);
    let stripe = stripes.stripe_elements(1, 8);
    let asked = |hint: &dyn PolicyHint| {
        let inline = Inline::new();
        let workers = Counting { workers: &inline, tasks: AtomicUsize::new(0), affinities: Mutex::new(Vec::new()) };
        let statement = statement();
        let how = Loop::new(&workers, &statement).hint(hint);
        how.parallel_for(stripes.over(0..stripe * 4, stripe * 4, 8), |_| ()).unwrap();
        let mut affinities = workers.affinities.into_inner();
        affinities.dedup();
        affinities
    };
    let near = |node, hard| Affinity::Near { place: Place::Node(NodeId(node)), hard };
    assert_eq!(asked(&Target), [near(1, false), near(3, false)]);
    assert_eq!(asked(&Bound), [near(1, true), near(3, true)]);
    assert_eq!(asked(&Os), [Affinity::Anywhere]);
    let slots = vec![SlotId(5)];
    assert_eq!(asked(&OnSlots { slots: slots.clone(), strict: true }), [Affinity::Slot(SlotId(5))]);
    let shared = asked(&OnSlots { slots, strict: false });
    assert_eq!(shared[..2], [Affinity::Slot(SlotId(5)), Affinity::Anywhere]);
}

#[test]
fn bodies_run_where_the_stripes_are() {
    let topology = Arc::new(Topology::synthetic(2, 2, 2, 1));
    let scheduler = Scheduler::new(Arc::clone(&topology), Config { stealing: Stealing::Any, ..Config::default() });
    let nodes: Vec<NodeId> = topology.nodes().iter().map(|node| node.id).collect();
    let stripes = StripingPartitioner::new(nodes).with_stripe_bytes(1);
    let statement = statement();
    let how = Loop::new(&scheduler, &statement).hint(&Bound);
    let (wrong, len) = (AtomicBool::new(false), 40 * stripes.stripe_elements(1, 8));
    how.parallel_for(stripes.over(0..len, len, 8), |range| {
        // A worker's name tells its node.
        let thread = std::thread::current();
        let node = thread.name().and_then(|name| name.split('-').nth(1)).and_then(|node| node.parse().ok());
        if range.clone().any(|i| stripes.node_of(i, len, 8).map(|n| n.0) != node) {
            wrong.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(!wrong.into_inner());
}

#[test]
fn errors_are_told_apart() {
    let error: LoopError<std::num::ParseIntError> = "x".parse::<i32>().map(drop).map_err(LoopError::Body).unwrap_err();
    assert_eq!(error.to_string(), "invalid digit found in string");
    assert_eq!(LoopError::<Stopped>::Task(TaskError::Cancelled).to_string(), "the statement was cancelled");
    let first = FirstError::default();
    for start in [7, 3, 5] {
        assert!(first.note(start, start).is_break());
    }
    assert_eq!(first.outcome(Ok(Ended::Stopped)), Err(LoopError::Body(3)));
    let first = FirstError::default();
    assert!(first.note(1, 1).is_break());
    let panicked = TaskError::Panicked("worse".into());
    assert_eq!(first.outcome(Err(panicked.clone())), Err(LoopError::Task(panicked)));
}
