//! A group's queues under loom: nothing is lost between the inbox and the queues, or doubled, or out of sight.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-sched --lib model`, in a build folder of its own.

use loom::thread;
use numa::Budget;

use super::*;

const PREEMPTIONS: usize = 3;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// An entry of a statement of this time. It is told by its hint.
fn entry(statement_time: u64, number: u64) -> QueueEntry {
    QueueEntry {
        statement: Statement::new(statement_time, Budget::unlimited()),
        work: Work::Task(Box::new(|| ())),
        hint: Hint { bytes: number, cpu_ns: 0 },
        running: Nearness::default(),
        binding: Binding::None,
        steal: crate::settings::StealAmount::One,
    }
}

fn number(taken: Option<QueueItem<QueueEntry>>) -> Option<u64> {
    taken.map(|taken| taken.item.hint.bytes)
}

#[test]
fn every_entry_is_taken_once() {
    check(|| {
        let group = loom::sync::Arc::new(Group::new(1));
        let other = loom::sync::Arc::clone(&group);
        let submitter = thread::spawn(move || {
            other.push_shared(QueueKind::Stealable, [entry(1, 1)]);
            other.push_shared(QueueKind::NodeHard, [entry(1, 2)]);
        });
        let other = loom::sync::Arc::clone(&group);
        let thief = thread::spawn(move || {
            let reach = Reach::default().with(QueueKind::Stealable);
            number(other.take_shared(reach, None, |_, _, _| 1, &mut Vec::new()))
        });
        let own = number(group.take_own(0, None));
        submitter.join().unwrap();
        let stolen = thief.join().unwrap();
        let mut all: Vec<u64> = [own, stolen].into_iter().flatten().collect();
        while let Some(left) = number(group.take_own(0, None)) {
            all.push(left);
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_eq!(group.queued(), 0);
    });
}

#[test]
fn what_is_queued_is_always_in_sight() {
    check(|| {
        let group = loom::sync::Arc::new(Group::new(1));
        let other = loom::sync::Arc::clone(&group);
        // Sorts in, but takes nothing: it is too urgent for that.
        let worker = thread::spawn(move || {
            assert!(other.take_own(0, Some(Priority { user: 0, statement_time: 0 })).is_none());
        });
        group.push_shared(QueueKind::Stealable, [entry(5, 1)]);
        assert!(group.queued_in(QueueKind::Stealable) > 0, "an entry is in neither inbox nor queue");
        worker.join().unwrap();
        assert_eq!(group.queued_in(QueueKind::Stealable), 1);
        assert!(group.has_before(u64::MAX, 0), "its urgency is in sight too");
        assert_eq!(number(group.take_own(0, None)), Some(1));
    });
}

#[test]
fn a_private_entry_does_not_overtake() {
    check(|| {
        let group = loom::sync::Arc::new(Group::new(1));
        let other = loom::sync::Arc::clone(&group);
        let worker = thread::spawn(move || number(other.take_own(0, None)));
        group.push_shared(QueueKind::Stealable, [entry(1, 1)]);
        group.push_private(0, entry(1, 2));
        let first = worker.join().unwrap();
        let second = number(group.take_own(0, None));
        assert!(matches!((first, second), (None, Some(1)) | (Some(1), Some(2))), "{first:?} {second:?}");
        assert!(first.is_some() || number(group.take_own(0, None)) == Some(2));
    });
}
