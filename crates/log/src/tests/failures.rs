//! Every call fails in turn, by an error of the disk or for want of room.

use std::sync::Arc;

use parking_lot::Mutex;

use super::world::{BUFFER_BYTES, PATH, Progress, Step, World, recovered};
use crate::files::sim::{All, Drawn, Failure, OnlySynced, SimFiles};
use crate::{OpenError, WriteError};

const STEPS: [Step; 12] = [
    Step::Commit(10),
    Step::Lazy(100),
    Step::Commit(700),
    Step::Checkpoint,
    Step::Commit(400),
    Step::Close,
    Step::Lazy(2000),
    Step::Backup,
    Step::Checkpoint,
    Step::Reopen,
    Step::Lazy(30),
    Step::Commit(30),
];

/// Runs the steps, of which some fail; returns whether writing ended.
fn run(files: &SimFiles, progress: &Arc<Mutex<Progress>>, buffer_bytes: usize) -> bool {
    // Whoever cannot make or open a folder tries again.
    let create = || World::create(files, progress, buffer_bytes);
    let made = create().or_else(|_| create());
    let mut world = made.unwrap_or_else(|error| panic!("{error}"));
    let mut has_ended = false;
    for step in STEPS {
        let outcome = world.step(step);
        match outcome {
            Ok(()) => assert!(!has_ended || matches!(step, Step::Reopen), "{step:?} after the end of writing"),
            Err(OpenError::Write(WriteError::Stopped { .. })) => {
                has_ended = true;
                assert!(world.folder.writable().is_err());
            }
            Err(OpenError::Write(WriteError::Full { .. } | WriteError::NotWhole { .. } | WriteError::Read(_))) => {
                // The next attempt has no such trouble.
                assert!(world.folder.writable().is_ok() || has_ended);
                if matches!(step, Step::Backup | Step::Checkpoint) && !has_ended {
                    world.step(step).unwrap_or_else(|error| panic!("again: {step:?}: {error}"));
                }
            }
            Err(error) => panic!("{step:?}: {error}"),
        }
        if has_ended && matches!(step, Step::Reopen) {
            has_ended = false;
        }
        if has_ended {
            // As a process that was told so: what it can still do is end, and the next one begins.
            world.step(Step::Reopen).unwrap_or_else(|error| panic!("after the end: {error}"));
            has_ended = false;
        }
    }
    assert_eq!(world.numbers(), progress.lock().numbers);
    has_ended
}

fn calls(buffer_bytes: usize) -> u64 {
    let files = SimFiles::new();
    run(&files, &Arc::default(), buffer_bytes);
    files.calls()
}

#[test]
fn every_call_may_fail() {
    for buffer_bytes in BUFFER_BYTES {
        let calls = calls(buffer_bytes);
        assert!(calls > 100, "{calls}");
        for failure in [Failure::Disk, Failure::Full, Failure::FullAfterHalf] {
            (0..calls).for_each(|call| fails_at(call, failure, buffer_bytes));
        }
    }
}

fn fails_at(call: u64, failure: Failure, buffer_bytes: usize) {
    let files = SimFiles::new();
    files.fail_at(call, failure);
    let progress: Arc<Mutex<Progress>> = Arc::default();
    run(&files, &progress, buffer_bytes);
    let progress = progress.lock().clone();
    for outcome in 0..4 {
        let crashed = match outcome {
            0 => files.crashed(&mut OnlySynced),
            1 => files.crashed(&mut All),
            seed => files.crashed(&mut Drawn::new(seed * 77 + call)),
        };
        let recovered = recovered(&crashed, PATH, None);
        let (_, _, numbers) = recovered.unwrap_or_else(|error| panic!("{failure:?} at {call}: {error}"));
        let is_right = progress.numbers.starts_with(&numbers) && numbers.len() >= progress.durable;
        assert!(is_right, "{failure:?} at {call}: {numbers:?} of {progress:?}");
    }
}

/// A disk that is full for a while refuses what needs room, and nothing that was promised is lost.
#[test]
fn a_full_disk_is_got_over() {
    let files = SimFiles::new();
    let progress: Arc<Mutex<Progress>> = Arc::default();
    let mut world = World::create(&files, &progress, 0).unwrap();
    let mut refused = 0;
    for round in 0..30 {
        files.set_room((round % 3 == 1).then_some(2000));
        for step in [Step::Commit(300), Step::Checkpoint] {
            match world.step(step) {
                Ok(()) => {}
                Err(OpenError::Write(WriteError::Full { .. })) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(refused > 5 && world.numbers().len() > 20, "{refused} {}", world.numbers().len());
    assert!(progress.lock().durable >= 20);
    drop(world);
    let (_, _, numbers) = recovered(&files.crashed(&mut OnlySynced), PATH, None).unwrap();
    assert_eq!(numbers, progress.lock().numbers);
}
