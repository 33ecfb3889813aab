//! The log by itself: order, waiting, room, damage, and what a crash in the middle of a batch leaves.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::files::Disk;
use crate::files::sim::{All, Chooser, Drawn, Failure, OnlySynced, SimFiles};
use crate::{Folder, FolderOptions};

const PATH: &str = "db";

fn options(file_bytes: u64) -> FolderOptions {
    FolderOptions { log: LogOptions { file_bytes, buffer_bytes: 0, clock: || 7 }, until: None }
}

fn shared(files: &SimFiles) -> Arc<dyn Files> {
    Arc::new(files.clone())
}

fn new(files: &SimFiles, file_bytes: u64) -> Folder {
    Folder::create(shared(files), Path::new(PATH), &options(file_bytes)).unwrap()
}

fn reopened(files: &SimFiles) -> Result<Folder, OpenError> {
    Folder::open(shared(files), Path::new(PATH), &options(1024))
}

fn payloads(folder: &Folder) -> Vec<Vec<u8>> {
    folder.replay().map(|record| record.unwrap().payload).collect()
}

fn logs(files: &SimFiles) -> Vec<String> {
    let mut names = files.list(Path::new(PATH)).unwrap();
    names.retain(|name| name.starts_with("log-"));
    names
}

#[test]
fn threads_that_commit_find_everything_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let folder = Folder::create(Arc::new(Disk), &path, &options(4096)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let log = folder.log();
            scope.spawn(move || {
                for number in 0..60_u8 {
                    let lsn = log.append(u16::from(thread), &[thread, number]).unwrap();
                    if number % 3 != 0 {
                        log.wait_durable(lsn).unwrap();
                        assert!(log.durable() >= lsn);
                    }
                }
            });
        }
    });
    assert_eq!(folder.log().flush().unwrap(), Lsn(240));
    drop(folder);
    let folder = Folder::open(Arc::new(Disk), &path, &options(4096)).unwrap();
    let records: Vec<Record> = folder.replay().collect::<Result<_, _>>().unwrap();
    assert!(records.iter().map(|record| record.lsn.0).eq(1..=240));
    for thread in 0..4 {
        let of_thread = records.iter().filter(|record| record.kind == thread).map(|record| record.payload[1]);
        assert!(of_thread.eq(0..60), "the order of thread {thread}");
    }
    assert!(std::fs::read_dir(&path).unwrap().count() > 4, "several files");
}

/// A disk whose syncs take time: those who wait meanwhile share the next one.
#[test]
fn one_sync_serves_all_who_wait() {
    let files = SimFiles::new();
    let folder = new(&files, 1 << 20);
    for number in 0..50 {
        folder.log().append(1, &[number]).unwrap();
    }
    let before = files.calls();
    for lsn in 1..=50 {
        folder.log().wait_durable(Lsn(lsn)).unwrap();
    }
    assert_eq!(files.calls() - before, 1);
}

#[test]
fn a_long_record_gets_a_file_of_its_own() {
    let files = SimFiles::new();
    let folder = new(&files, 1024);
    let long = vec![3; 200_000];
    for payload in [&[1][..], &long, &[2][..]] {
        folder.log().append(1, payload).unwrap();
    }
    folder.log().flush().unwrap();
    drop(folder);
    let files = files.crashed(&mut OnlySynced);
    let names = logs(&files);
    let lengths: Vec<usize> =
        names.iter().map(|name| files.bytes(&Path::new(PATH).join(name)).unwrap().len()).collect();
    assert!(matches!(lengths[..], [1024, long, 1024] if long > 200_000), "{lengths:?}");
    let folder = reopened(&files).unwrap();
    assert!(folder.log().bytes_since(Lsn(3)) < 1024 && folder.log().bytes_since(Lsn(1)) > 2048);
    drop(folder);
    assert_eq!(payloads(&reopened(&files).unwrap()), [vec![1], long, vec![2]]);
}

#[test]
fn no_room_refuses_the_record_and_nothing_else() {
    let files = SimFiles::new();
    let folder = new(&files, 1024);
    files.set_room(Some(3000));
    let log = folder.log();
    log.append(1, &[1; 100]).unwrap();
    let error = log.append(1, &[2; 5000]).unwrap_err();
    assert!(matches!(error, WriteError::Full { .. }), "{error}");
    assert!(error.to_string().contains("log-0000000000000002") && error.to_string().contains("are free"), "{error}");
    // One that fits is not harmed, and when there is room neither is the long one.
    log.append(1, &[3; 100]).unwrap();
    files.set_room(None);
    log.append(1, &[2; 5000]).unwrap();
    log.flush().unwrap();
    drop(folder);
    let folder = reopened(&files.crashed(&mut OnlySynced)).unwrap();
    assert_eq!(payloads(&folder), [vec![1; 100], vec![3; 100], vec![2; 5000]]);
}

#[test]
fn after_a_failed_sync_nothing_is_written() {
    let files = SimFiles::new();
    let folder = new(&files, 1024);
    let log = folder.log();
    let first = log.append(1, &[1]).unwrap();
    files.fail_at(files.calls(), Failure::Disk);
    let error = log.wait_durable(first).unwrap_err();
    assert!(error.to_string().contains("log-0000000000000001: syncing failed"), "{error}");
    let calls = files.calls();
    for error in [log.wait_durable(first), log.append(1, &[2]).map(drop), folder.writable(), folder.close()] {
        assert!(matches!(error.unwrap_err(), WriteError::Stopped { cause } if cause.contains("syncing failed")));
    }
    assert!(folder.checkpoint(&|_| true).is_err());
    assert_eq!(files.calls(), calls, "no call was made");
    assert_eq!(payloads(&folder), Vec::<Vec<u8>>::new(), "as it was opened");
}

#[test]
fn a_frame_that_was_refused_halfway_is_none() {
    for zeros in [0, 400] {
        let files = SimFiles::new();
        let folder = new(&files, 4096);
        folder.log().append(1, &[1]).unwrap();
        files.fail_at(files.calls(), Failure::FullAfterHalf);
        // Most of it is zeros, as the file is where nothing was written.
        let payload = [vec![5; 8], vec![0; zeros]].concat();
        folder.log().append(1, &payload).unwrap_err();
        folder.log().flush().unwrap();
        let crashed = files.crashed(&mut All);
        assert_eq!(payloads(&reopened(&crashed).unwrap()), [vec![1]]);
        folder.log().append(1, &[6]).unwrap();
        folder.log().flush().unwrap();
        assert_eq!(payloads(&reopened(&files.crashed(&mut OnlySynced)).unwrap()), [vec![1], vec![6]]);
    }
}

/// Records that wait together are written by one call, in their order; one that finds no room takes none along.
#[test]
fn a_buffer_is_written_by_one_call() {
    let files = SimFiles::new();
    let log = LogOptions { file_bytes: 1 << 20, buffer_bytes: 4096, clock: || 7 };
    let folder = Folder::create(shared(&files), Path::new(PATH), &FolderOptions { log, until: None }).unwrap();
    let before = files.calls();
    for number in 0..20 {
        folder.log().append(1, &[number]).unwrap();
    }
    assert_eq!(files.calls(), before);
    files.fail_at(before, Failure::FullAfterHalf);
    let error = folder.log().append(1, &[20; 5000]).unwrap_err();
    assert!(matches!(error, WriteError::Full { .. }), "{error}");
    folder.log().append(1, &[21]).unwrap();
    let before = files.calls();
    folder.log().flush().unwrap();
    assert_eq!(files.calls() - before, 2, "a write and a sync");
    let expected: Vec<Vec<u8>> = (0..20).chain([21]).map(|number| vec![number]).collect();
    assert_eq!(payloads(&reopened(&files.crashed(&mut OnlySynced)).unwrap()), expected);
}

/// Loses the sectors of this list and keeps the others: each is asked for once, in order.
struct Losing(Vec<usize>, usize);

impl Chooser for Losing {
    fn choose(&mut self, count: usize) -> usize {
        self.1 += 1;
        if self.0.contains(&(self.1 - 1)) { 0 } else { count - 1 }
    }
}

/// Of a batch that was not synced the beginning is lost and the end is there: the end never comes back, although the
/// next record is as long as the one that is lost.
#[test]
fn what_follows_a_torn_record_is_gone_for_good() {
    let files = SimFiles::new();
    let folder = new(&files, 8192);
    for number in 1..=4 {
        folder.log().append(1, &[number; 456]).unwrap();
        if number == 1 {
            folder.log().flush().unwrap();
        }
    }
    // The frames have 512 bytes and begin at 64: record 2 lies in sectors 1 and 2.
    let crashed = files.crashed(&mut Losing(vec![0], 0));
    let folder = reopened(&crashed).unwrap();
    assert_eq!(payloads(&folder), [vec![1; 456]]);
    folder.log().append(1, &[9; 456]).unwrap();
    folder.log().flush().unwrap();
    drop(folder);
    for crashed in [crashed.crashed(&mut OnlySynced), crashed.crashed(&mut All)] {
        assert_eq!(payloads(&reopened(&crashed).unwrap()), [vec![1; 456], vec![9; 456]]);
    }
}

/// A log of three synced records of one file, or of several.
fn three_synced(file_bytes: u64, orderly: bool) -> SimFiles {
    let files = SimFiles::new();
    let folder = new(&files, file_bytes);
    for number in 1..=3 {
        folder.log().append(1, &[number; 200]).unwrap();
        folder.log().flush().unwrap();
    }
    if orderly {
        folder.close().unwrap();
    }
    files.crashed(&mut OnlySynced)
}

#[test]
fn damage_before_the_end_is_told_apart_from_a_crash() {
    for file_bytes in [4096, 400] {
        for orderly in [false, true] {
            let files = three_synced(file_bytes, orderly);
            for (number, name) in logs(&files).iter().enumerate() {
                let path = Path::new(PATH).join(name);
                let whole = files.bytes(&path).unwrap();
                let used = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
                for at in 0..used {
                    let damaged = files.copied();
                    let mut bytes = whole.clone();
                    bytes[at] ^= 0x10;
                    damaged.put(&path, bytes);
                    let outcome = reopened(&damaged).and_then(|folder| {
                        let records: Result<Vec<_>, _> = folder.replay().collect();
                        Ok(records?.len())
                    });
                    match outcome {
                        Err(error) => {
                            let error = error.to_string();
                            assert!(error.contains(name) || error.contains("version"), "{at}: {error}");
                        }
                        // The last frame may have been torn, and nothing shows that it was synced.
                        Ok(records) => {
                            let frame = frame_bytes(200);
                            let begins = if orderly { used - frame_bytes(0) } else { used - frame };
                            assert!(number + 1 == logs(&files).len() && at >= begins, "{file_bytes} {name} {at}");
                            assert_eq!(records, if orderly { 3 } else { 2 });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_file_that_is_missing_is_missed() {
    let files = three_synced(400, false);
    for name in logs(&files) {
        let damaged = files.copied();
        damaged.remove(&Path::new(PATH).join(&name)).unwrap();
        let outcome = reopened(&damaged).map(|folder| folder.replay().collect::<Result<Vec<_>, _>>());
        match outcome {
            Err(OpenError::Read(ReadError::Missing { path, .. })) => assert!(path.ends_with("log-0000000000000001")),
            Ok(Err(ReadError::Damaged { what, .. })) => assert!(what.contains("goes on behind it"), "{what}"),
            // Nobody tells that there was another file behind the last.
            Ok(Ok(records)) => assert_eq!((name.as_str(), records.len()), ("log-0000000000000003", 2)),
            Ok(Err(error)) => panic!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn files_of_another_folder_are_refused() {
    let (one, other) = (three_synced(4096, false), three_synced(4096, false));
    let path = Path::new(PATH).join("log-0000000000000001");
    one.put(&path, other.bytes(&path).unwrap());
    let error = reopened(&one).unwrap_err().to_string();
    assert!(error.contains("another folder"), "{error}");
}

/// Where frames break off, by every outcome of a crash: what is found is a beginning of what was appended, and all that
/// was synced.
#[test]
fn batches_end_at_any_frame() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let files = SimFiles::new();
        let folder = new(&files, 2048);
        let mut random = random::Random::new(seed);
        let synced = random.below(9);
        for number in 0..9_u8 {
            folder.log().append(1, &vec![number; 1 + random.below(500)]).unwrap();
            if usize::from(number) + 1 == synced {
                folder.log().flush().unwrap();
            }
        }
        let folder = reopened(&files.crashed(&mut Drawn::new(seed))).unwrap();
        let found = payloads(&folder);
        assert!(found.len() >= synced && found.iter().zip(0..).all(|(payload, number)| payload[0] == number), "{seed}");
        ends.insert(found.len() - synced);
    }
    assert!(ends.len() > 4, "{ends:?}");
}
