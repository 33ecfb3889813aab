//! [`Feedback`]: what tasks of a shape turned out to cost, and what that makes of the hints of those to come.
//!
//! A *shape* is what a task does and to what: a scan of some columns of a table, the operators above it, and where the
//! rows end up. The hint of a morsel is made of its source alone, by figures of one machine
//! ([`cost`](crate::scan::cost)); what a join or an aggregate adds to it only a measurement tells. So every
//! task says what it was expected to cost and what it cost, and hints of the same shape are multiplied by the median of
//! the last of these ratios: of bytes and of time, each on its own.
//!
//! Invariants: [`Learned`] is a function of the measurements that it was told, in their order: no clock, no lock. Less
//! than half of its measurements, however wrong (a thread that lost its cpu in the middle of a task), move an estimate
//! no further than the others reach. A hint is changed by [`RATIO_MAX`] at most, and one that says nothing stays that
//! way.
//!
//! # Limits
//! Arrow arrays that leave as batches are in hints, but not in the account, so bytes of scans that hand them out are
//! found to be fewer. Time is by the clock. A task that read more than a quarter of its bytes from other nodes teaches
//! nothing about it: a hint is about memory that is near. A loop of a breaker places all its tasks when it begins, so
//! they profit from earlier statements only; the last pipe of a statement also from its own first tasks.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 6.1.2 (what may be stolen follows from how much memory a task wants).

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use sched::Hint;

/// The last `n` measurements count; odd, so that one is in the middle.
const WINDOW: usize = 15;
/// Fewer measurements change nothing.
const TASKS_MIN: u64 = 3;
/// The most that a hint is multiplied or divided by.
const RATIO_MAX: f64 = 64.0;
/// Shapes that are kept; of more, those that were not used for the longest time are forgotten.
const SHAPES_MAX: usize = 1024;
/// Of `n` parts of a task's bytes all but one have to be near.
const REMOTE_SHARE: u64 = 4;

/// What a task cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Bytes that it touched, and of these the ones on its own node.
    pub(crate) bytes: u64,
    pub(crate) bytes_near: u64,
    /// How long it took.
    pub(crate) busy_ns: u64,
}

/// The last numbers of a series.
#[derive(Debug, Clone, Default)]
struct Last {
    kept: Vec<f64>,
    /// How many there were.
    seen: u64,
}

impl Last {
    fn push(&mut self, value: f64) {
        match self.kept.len() {
            WINDOW => self.kept[(self.seen % WINDOW as u64) as usize] = value,
            _ => self.kept.push(value),
        }
        self.seen += 1;
    }

    /// The one in the middle, once there are enough; of two the smaller.
    fn median(&self) -> Option<f64> {
        if self.seen < TASKS_MIN {
            return None;
        }
        let mut kept = self.kept.clone();
        let middle = (kept.len() - 1) / 2;
        Some(*kept.select_nth_unstable_by(middle, f64::total_cmp).1)
    }
}

/// What was learned of a shape.
#[derive(Debug, Clone, Default)]
struct Learned {
    /// Measured bytes over expected ones.
    bytes: Last,
    /// Measured time over expected time.
    time: Last,
    /// Bytes per microsecond.
    rate: Last,
    /// Tasks that were measured.
    tasks: u64,
}

impl Learned {
    /// A task was expected to cost `hint`.
    fn observe(&mut self, hint: Hint, measured: Measured) {
        let Measured { bytes, bytes_near, busy_ns } = measured;
        self.tasks += 1;
        let ratio = |measured: u64, expected: u64| {
            (expected > 0 && measured > 0)
                .then(|| (measured as f64 / expected as f64).clamp(1.0 / RATIO_MAX, RATIO_MAX))
        };
        if let Some(ratio) = ratio(bytes, hint.bytes) {
            self.bytes.push(ratio);
        }
        if bytes - bytes_near.min(bytes) > bytes / REMOTE_SHARE {
            return;
        }
        if let Some(ratio) = ratio(busy_ns, hint.cpu_ns) {
            self.time.push(ratio);
            self.rate.push(bytes as f64 * 1000.0 / busy_ns as f64);
        }
    }

    /// The hint of a task of this shape, by what others cost.
    fn corrected(&self, hint: Hint) -> Hint {
        let times = |expected: u64, ratio: &Last| match ratio.median() {
            Some(ratio) if expected > 0 => ((expected as f64 * ratio) as u64).max(1),
            _ => expected,
        };
        Hint { bytes: times(hint.bytes, &self.bytes), cpu_ns: times(hint.cpu_ns, &self.time) }
    }
}

/// A shape of tasks, and what was learned of it.
#[derive(Debug)]
pub(crate) struct Shape {
    name: Arc<str>,
    learned: Mutex<Learned>,
}

impl Shape {
    /// See [`Learned::observe`].
    pub(crate) fn observe(&self, hint: Hint, measured: Measured) {
        self.learned.lock().observe(hint, measured);
    }

    /// See [`Learned::corrected`].
    pub(crate) fn corrected(&self, hint: Hint) -> Hint {
        self.learned.lock().corrected(hint)
    }
}

/// What tasks of a shape cost, for whoever looks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskShape {
    /// What they do.
    pub shape: Arc<str>,
    /// How many were measured.
    pub tasks: u64,
    /// What expected bytes are multiplied by.
    pub bytes_ratio: f64,
    /// What expected time is multiplied by.
    pub time_ratio: f64,
    /// Bytes per microsecond; `None` as long as too few were measured.
    pub bytes_per_us: Option<f64>,
}

/// What was learned of all shapes: those of one database, or of one statement.
#[derive(Debug, Default)]
pub struct Feedback(Mutex<Shapes>);

#[derive(Debug, Default)]
struct Shapes {
    /// With the turn in which each was asked for last.
    known: HashMap<Arc<str>, (Arc<Shape>, u64), FixedState>,
    turn: u64,
}

impl Feedback {
    /// The shape of this name.
    pub(crate) fn shape(&self, name: String) -> Arc<Shape> {
        self.0.lock().get(name, SHAPES_MAX)
    }

    /// All shapes, by name.
    pub fn shapes(&self) -> Vec<TaskShape> {
        let shapes: Vec<Arc<Shape>> = self.0.lock().known.values().map(|(shape, _)| Arc::clone(shape)).collect();
        let of = |shape: &Arc<Shape>| {
            let learned = shape.learned.lock();
            TaskShape {
                shape: Arc::clone(&shape.name),
                tasks: learned.tasks,
                bytes_ratio: learned.bytes.median().unwrap_or(1.0),
                time_ratio: learned.time.median().unwrap_or(1.0),
                bytes_per_us: learned.rate.median(),
            }
        };
        let mut all: Vec<TaskShape> = shapes.iter().map(of).filter(|shape| shape.tasks > 0).collect();
        all.sort_by(|a, b| a.shape.cmp(&b.shape));
        all
    }
}

impl Shapes {
    fn get(&mut self, name: String, most: usize) -> Arc<Shape> {
        self.turn += 1;
        if let Some((shape, used)) = self.known.get_mut(name.as_str()) {
            *used = self.turn;
            return Arc::clone(shape);
        }
        if self.known.len() >= most {
            // Half of them at once: not each new shape is to look through all.
            let mut turns: Vec<u64> = self.known.values().map(|(_, used)| *used).collect();
            let middle = turns.len() / 2;
            let oldest_kept = *turns.select_nth_unstable(middle).1;
            self.known.retain(|_, (_, used)| *used >= oldest_kept);
        }
        let name: Arc<str> = name.into();
        let shape = Arc::new(Shape { name: Arc::clone(&name), learned: Mutex::default() });
        self.known.insert(name, (Arc::clone(&shape), self.turn));
        shape
    }
}

#[cfg(test)]
mod tests {
    use numa::{NodeId, Topology};
    use random::Random;
    use sched::policy::{Layout, QueueKind, QueueTarget, Request, route};
    use sched::{Affinities, Affinity, Settings, Split};

    use super::*;

    /// All measurements of a shape; every estimate is made anew from them.
    #[derive(Default)]
    struct Twin(Vec<(Hint, Measured)>);

    impl Twin {
        fn ratio(&self, of: impl Fn(&(Hint, Measured)) -> Option<(u64, u64)>) -> f64 {
            let ratios: Vec<f64> = self.0.iter().filter_map(of).map(|(m, e)| m as f64 / e as f64).collect();
            if ratios.len() < TASKS_MIN as usize {
                return 1.0;
            }
            let mut last = ratios[ratios.len().saturating_sub(WINDOW)..].to_vec();
            last.sort_by(f64::total_cmp);
            last[(last.len() - 1) / 2].clamp(1.0 / RATIO_MAX, RATIO_MAX)
        }

        fn corrected(&self, hint: Hint) -> Hint {
            let given = |measured, expected| (measured > 0 && expected > 0).then_some((measured, expected));
            let bytes = self.ratio(|(hint, m)| given(m.bytes, hint.bytes));
            let near = |m: &Measured| m.bytes - m.bytes_near <= m.bytes / 4;
            let time = self.ratio(|(hint, m)| given(m.busy_ns, hint.cpu_ns).filter(|_| near(m)));
            let times = |expected, ratio| match expected {
                0 => 0,
                expected => ((expected as f64 * ratio) as u64).max(1),
            };
            Hint { bytes: times(hint.bytes, bytes), cpu_ns: times(hint.cpu_ns, time) }
        }
    }

    #[test]
    fn what_is_learned_is_what_the_twin_makes_of_all_measurements() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut learned, mut twin) = (Learned::default(), Twin::default());
            let some = |random: &mut Random| if random.one_in(9) { 0 } else { 1 << random.below(40) };
            for _ in 0..random.below(60) {
                let hint = Hint { bytes: some(&mut random), cpu_ns: some(&mut random) };
                let bytes = some(&mut random) + random.below_u64(100);
                let bytes_near = random.below_u64(bytes + 1);
                let measured = Measured { bytes, bytes_near, busy_ns: some(&mut random) };
                learned.observe(hint, measured);
                twin.0.push((hint, measured));
                let asked = Hint { bytes: some(&mut random), cpu_ns: some(&mut random) };
                assert_eq!(learned.corrected(asked), twin.corrected(asked), "seed {seed}");
            }
        }
    }

    fn near(bytes: u64, busy_ns: u64) -> Measured {
        Measured { bytes, bytes_near: bytes, busy_ns }
    }

    #[test]
    fn a_few_wrong_measurements_move_nothing() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let mut learned = Learned::default();
            let hint = Hint { bytes: 1000, cpu_ns: 1000 };
            // Less than half of any 15 in a row.
            for task in 0..200 {
                let wrong = task % 15 < 7;
                let busy_ns = if wrong { 1 << random.below(50) } else { 3000 };
                learned.observe(hint, near(1000, busy_ns));
            }
            assert_eq!(learned.corrected(hint), Hint { bytes: 1000, cpu_ns: 3000 });
        }
    }

    /// Where a task with this hint is queued on a machine on which 2,000 bytes per microsecond are much.
    fn queue_of(hint: Hint) -> QueueKind {
        let layout = Layout::new(&Topology::synthetic(2, 1, 2, 1), None, Split::default());
        let settings =
            Settings { affinities: Affinities::Weighed, memory_intensive_bytes_per_us: 2000, ..Settings::default() };
        let affinity = Affinity::near(NodeId(1));
        match route(&layout, &Request { affinity, hint, caller: None, settings, loads: &|_| 0 }) {
            QueueTarget::Group(_, kind) => kind,
            QueueTarget::Slot(_) => unreachable!("no slot was asked for"),
        }
    }

    #[test]
    fn a_hint_converges_and_what_may_be_stolen_follows() {
        let feedback = Feedback::default();
        let shape = feedback.shape("t(a) > aggregate".to_string());
        // 64 KiB in 10 us: memory-intensive, were it not that grouping takes twenty times as long.
        let hint = Hint { bytes: 65_536, cpu_ns: 10_000 };
        assert_eq!(queue_of(shape.corrected(hint)), QueueKind::NodeHard);
        (0..8).for_each(|task| shape.observe(hint, near(65_536, 200_000 + task)));
        let grouped = shape.corrected(hint);
        assert!((199_000..201_000).contains(&grouped.cpu_ns) && grouped.bytes == 65_536, "{grouped:?}");
        assert_eq!(queue_of(grouped), QueueKind::Neighbour);
        // Another shape knows nothing of that.
        assert_eq!(queue_of(feedback.shape("t(a) > output".to_string()).corrected(hint)), QueueKind::NodeHard);
        // The table is another one by now: after half a window it is seen.
        (0..8).for_each(|_| feedback.shape("t(a) > aggregate".to_string()).observe(hint, near(65_536, 10_000)));
        assert_eq!(queue_of(shape.corrected(hint)), QueueKind::NodeHard);
    }

    #[test]
    fn time_that_was_spent_on_far_memory_teaches_nothing() {
        let mut learned = Learned::default();
        let hint = Hint { bytes: 1000, cpu_ns: 1000 };
        (0..30).for_each(|_| learned.observe(hint, Measured { bytes: 2000, bytes_near: 1000, busy_ns: 9000 }));
        assert_eq!(learned.corrected(hint), Hint { bytes: 2000, cpu_ns: 1000 });
    }

    #[test]
    fn shapes_that_nobody_asks_for_are_forgotten() {
        let mut shapes = Shapes::default();
        let hint = Hint { bytes: 10, cpu_ns: 10 };
        let kept = shapes.get("kept".into(), 8);
        (0..3).for_each(|_| kept.observe(hint, near(20, 20)));
        for number in 0..100 {
            shapes.get(format!("shape {number}"), 8);
            assert!(shapes.known.len() <= 8);
            assert_eq!(shapes.get("kept".into(), 8).corrected(hint).bytes, 20);
        }
    }
}
