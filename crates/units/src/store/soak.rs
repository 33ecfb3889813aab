//! Everything at once for a while: eight threads that look up, upsert, delete and scan while what is accessed most
//! moves and ranges follow it by themselves, by one algorithm after the other. Nothing lost, nothing left.
//!
//! Some seconds in an ordinary run, four times as long in a round of `cargo xtask soak units`;
//! `NEARSIDE_SOAK=1 cargo test -p nearside-units --release --lib the_whole_soak` takes ten minutes.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use numa::Topology;
use random::Random;
use sched::Config;

use super::*;
use crate::balancer::Algorithm;
use crate::scale;

/// Groups of keys that statements write together: two side by side, and two as far from the end as these are from the
/// start.
const GROUPS: u64 = 20_000;
const MEMBERS: u64 = 4;
const WRITERS: u64 = 3;
/// The part of all groups that is accessed at a time.
const HOT: u64 = GROUPS / 8;

const ALGORITHMS: [Algorithm; 3] = [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(8)];

/// What the threads share.
struct Soak<'a> {
    keyed: &'a Keyed,
    /// The first group that is accessed now.
    hot: AtomicU64,
    stop: AtomicBool,
    seed: u64,
}

fn members(number: u64) -> impl Iterator<Item = u64> {
    (0..MEMBERS).map(move |member| if member < 2 { number } else { GROUPS - 1 - number } * MEMBERS + member)
}

impl Soak<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A group that is accessed now, one in sixteen any.
    fn group(&self, random: &mut Random) -> u64 {
        match random.one_in(16) {
            true => random.below_u64(GROUPS),
            false => (self.hot.load(Ordering::Relaxed) + random.below_u64(HOT)) % GROUPS,
        }
    }

    /// Writes groups whose numbers are the writer's modulo [`WRITERS`]; what they have in the end.
    fn write(&self, writer: u64) -> Vec<Option<u64>> {
        let mut random = Random::new(self.seed + writer);
        let mut model = vec![None; GROUPS as usize];
        let mut round = 0;
        while self.goes_on() {
            round += 1;
            let groups: Vec<u64> = (0..1 + random.below(30))
                .map(|_| (self.group(&mut random) / WRITERS * WRITERS + writer).min(GROUPS - 1))
                .filter(|group| group % WRITERS == writer)
                .collect();
            let kinds = [WriteKind::Upsert, WriteKind::Upsert, WriteKind::InsertMissing, WriteKind::Delete];
            let kind = random.pick(&kinds);
            let pair = |group: u64| members(group).map(move |key| (key, round << 20 | group));
            let pairs: Vec<(u64, u64)> = groups.iter().flat_map(|group| pair(*group)).collect();
            match self.keyed.write(kind, &pairs) {
                Ok(_) => {}
                Err(error) => panic!("nobody else writes these keys: {error}"),
            }
            for group in groups {
                let value = &mut model[group as usize];
                match kind {
                    WriteKind::Delete => *value = None,
                    WriteKind::InsertMissing if value.is_some() => {}
                    _ => *value = Some(round << 20 | group),
                }
            }
        }
        model
    }

    /// Looks groups up: all members have one value, and it is the group's.
    fn look_up(&self, reader: u64) {
        let mut random = Random::new(self.seed + 100 + reader);
        while self.goes_on() {
            let groups: Vec<u64> = (0..50).map(|_| self.group(&mut random)).collect();
            let keys: Vec<u64> = groups.iter().flat_map(|group| members(*group)).collect();
            let mut values = vec![None; keys.len()];
            self.keyed.lookup(&keys, &self.keyed.store().pin(), |place, value| values[place] = value);
            for (group, values) in groups.iter().zip(values.chunks(MEMBERS as usize)) {
                assert!(values.iter().all(|value| *value == values[0]), "group {group}: {values:?}");
                assert!(values[0].is_none_or(|value| value % (1 << 20) == *group), "group {group}: {values:?}");
            }
        }
    }

    /// Scans everything: each member's keys have the same count and sum, also a second time by the same pin.
    fn scan(&self) {
        while self.goes_on() {
            let pin = self.keyed.store().pin();
            let first = self.totals(&pin);
            assert!(first.iter().all(|total| *total == first[0]), "{first:?}");
            assert_eq!(self.totals(&pin), first);
        }
    }

    /// Count and sum of each member.
    fn totals(&self, pin: &Pin) -> Vec<(u64, u64)> {
        let mut totals = vec![(0, 0_u64); MEMBERS as usize];
        let mut last = None;
        self.keyed.range(0, u64::MAX, pin, |key, value| {
            assert!(last < Some(key), "keys ascend");
            last = Some(key);
            let total = &mut totals[(key % MEMBERS) as usize];
            *total = (total.0 + 1, total.1.wrapping_add(value));
            true
        });
        totals
    }

    /// Moves what is accessed, and takes the next algorithm, until the time is over and something has moved.
    fn drive(&self, time: Duration, each: Duration) {
        let begin = Instant::now();
        let mut random = Random::new(self.seed + 200);
        let mut changes = 0;
        while begin.elapsed() < time || self.keyed.store().balancing().is_empty() {
            self.keyed.store().set_balancer(ALGORITHMS[changes % ALGORITHMS.len()]);
            self.hot.store(random.below_u64(GROUPS), Ordering::Relaxed);
            changes += 1;
            std::thread::sleep(each);
            if begin.elapsed() > time + Duration::from_secs(60) {
                break;
            }
        }
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the others where a thread panics.
struct StopsAll<'a>(&'a AtomicBool);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn soak(time: Duration, each: Duration) {
    let config = Config { threads: Some(2), ..Config::default() };
    let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
    let budget = Budget::new("soak", 1 << 30);
    // Two nodes by name, whatever the machine has: ranges are linked and copied.
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::new(Policy::Local, budget.clone()) };
    let store = Store::new([0, 0, 1, 1].map(place).to_vec()).unwrap();
    store.balance_on(&scheduler);
    let before = budget.used_bytes();
    let keyed = store.create(MEMBERS * GROUPS - 1, 8);
    let seed = scale::seed();
    let soak = Soak { keyed: &keyed, hot: AtomicU64::new(0), stop: AtomicBool::new(false), seed };
    let models = std::thread::scope(|scope| {
        let soak = &soak;
        let guarded = move |run: &dyn Fn()| {
            let _stops = StopsAll(&soak.stop);
            run();
        };
        for reader in 0..2 {
            scope.spawn(move || guarded(&|| soak.look_up(reader)));
            scope.spawn(move || guarded(&|| soak.scan()));
        }
        scope.spawn(move || guarded(&|| soak.drive(time, each)));
        let write = |writer| {
            scope.spawn(move || {
                let _stops = StopsAll(&soak.stop);
                soak.write(writer)
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    store.set_balancer(Algorithm::Off);
    let cycles = store.balancing();
    assert!(!cycles.is_empty() && cycles.iter().all(|cycle| cycle.failure.is_none()), "{cycles:?}");
    let groups: Vec<(u64, u64)> = models
        .iter()
        .flat_map(|model| model.iter().enumerate().filter_map(|(group, value)| Some((group as u64, (*value)?))))
        .collect();
    let expected = (groups.len() as u64, groups.iter().fold(0_u64, |sum, (_, value)| sum.wrapping_add(*value)));
    assert_eq!(soak.totals(&store.pin()), vec![expected; MEMBERS as usize]);
    for (group, value) in &groups {
        let keys: Vec<u64> = members(*group).collect();
        keyed.lookup(&keys, &store.pin(), |_, found| assert_eq!(found, Some(*value), "group {group}"));
    }
    let keys: Vec<(u64, u64)> = groups.iter().flat_map(|(group, _)| members(*group).map(|key| (key, 0))).collect();
    assert_eq!(keyed.write(WriteKind::Delete, &keys).unwrap(), keys.len() as u64);
    // A cycle that was begun before may still hold tokens.
    drop(scheduler);
    store.settle();
    store.settle();
    assert_eq!((keyed.len(), keyed.used_bytes(), store.versions.open_writes()), (0, 0, 0));
    drop(keyed);
    assert_eq!(budget.used_bytes(), before, "memory is back where it was");
}

#[test]
fn eight_threads_and_a_balancer_lose_nothing_and_leave_nothing() {
    let time = Duration::from_millis(500 * scale::times(6));
    soak(time, time / 8);
}

#[test]
fn the_whole_soak() {
    if std::env::var_os("NEARSIDE_SOAK").is_none() {
        eprintln!("skipped: NEARSIDE_SOAK is not set");
        return;
    }
    soak(Duration::from_secs(600), Duration::from_secs(3));
}
