//! Folders that nothing happens to: who has them, what checkpoints write, what is damaged, backups and points of time.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use numa::Allocator;
use parking_lot::Mutex;
use storage::{ColumnAllocator, Part, Segment, Serial, Stager, TableVersion, build_part};

use super::world::{PATH, Progress, Step, World, loaded, options, recovered, shared};
use crate::files::sim::{Failure, OnlySynced, SimFiles};
use crate::files::{Disk, Files};
use crate::log::LogOptions;
use crate::point::Lsn;
use crate::{CheckFailure, Folder, FolderOptions, OpenError, ReadError, Until, WriteError};

/// A table of rows whose column of words has a dictionary.
fn part_of(rows: usize) -> Part {
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("w", DataType::Utf8View, true)];
    let schema = Arc::new(Schema::new(fields));
    let words = StringArray::from_iter_values((0..rows).map(|row| format!("a rather long word {}", row % 7)));
    let words: ArrayRef = arrow::compute::cast(&words, &DataType::Utf8View).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(|row| (row % 5 > 0).then_some(row as i64))));
    let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(Arc::clone(&schema), vec![numbers, words]).unwrap()).unwrap();
    build_part(&schema, vec![stager.finish().unwrap()], &allocators(2), &Serial).unwrap()
}

fn allocators(columns: usize) -> Vec<ColumnAllocator> {
    vec![ColumnAllocator::unplaced(); columns]
}

fn new(files: &SimFiles) -> Folder {
    Folder::create(shared(files), Path::new(PATH), &options(0)).unwrap()
}

fn data_files(files: &SimFiles) -> Vec<PathBuf> {
    let mut names = files.list(Path::new(PATH)).unwrap();
    names.retain(|name| name.starts_with("data-"));
    names.iter().map(|name| Path::new(PATH).join(name)).collect()
}

fn check(files: &SimFiles) -> Result<crate::CheckReport, Box<CheckFailure>> {
    Folder::check(&shared(files), Path::new(PATH), &Serial)
}

#[test]
fn a_folder_belongs_to_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let files: Arc<dyn Files> = Arc::new(Disk);
    assert!(!Folder::exists(&*files, &path).unwrap());
    let error = Folder::open(Arc::clone(&files), &path, &options(0)).unwrap_err();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
    let folder = Folder::create(Arc::clone(&files), &path, &options(0)).unwrap();
    assert!(Folder::exists(&*files, &path).unwrap());
    let me = format!("process {}", std::process::id());
    let again = Folder::open(Arc::clone(&files), &path, &options(0)).unwrap_err();
    assert!(matches!(&again, OpenError::Locked { owner, .. } if *owner == me), "{again}");
    let checked = Folder::check(&files, &path, &Serial).unwrap_err();
    assert!(checked.to_string().contains(&me), "{checked}");
    let new = Folder::create(Arc::clone(&files), &path, &options(0)).unwrap_err();
    assert!(matches!(new, OpenError::NotEmpty { .. }), "{new}");
    drop(folder);
    Folder::open(Arc::clone(&files), &path, &options(0)).unwrap();
    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter"), "dear").unwrap();
    let error = Folder::create(files, &foreign, &options(0)).unwrap_err();
    assert!(matches!(error, OpenError::NotEmpty { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing was put there");
}

#[test]
fn a_checkpoint_writes_what_is_not_there_yet() {
    let files = SimFiles::new();
    let folder = new(&files);
    let part = part_of(3000);
    let first = &part.segments[0].segment;
    // Another segment with the dictionaries of the first, as a load of many rows makes them.
    let second = Segment::new(first.rows(), first.columns().cloned().collect());
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    assert_eq!((checkpoint.segment(first).unwrap(), checkpoint.segment(&second).unwrap()), (0, 1));
    let report = checkpoint.commit(Lsn(0), b"one").unwrap();
    assert_eq!(report.files, 2, "dictionaries and columns, once");
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(first).unwrap();
    let report = checkpoint.commit(Lsn(0), b"two").unwrap();
    assert_eq!((report.files, report.bytes, report.removed), (0, 0, 0));
    drop(folder);
    // Nor is what was loaded, a column that was added apart.
    let folder = Arc::new(Folder::open(shared(&files), Path::new(PATH), &options(0)).unwrap());
    assert_eq!((folder.catalog(), folder.segments(), folder.segment_shape(0)), (&b"two"[..], 1, (3000, 2)));
    let first = loaded(&folder, 0, &allocators(2), 0).unwrap();
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("w", DataType::Utf8View, true)]);
    let part = Part { segments: vec![storage::SegmentVersion::new(first)] };
    let table = TableVersion::empty(&schema).with_appended(part);
    let field = Field::new("new", DataType::Int64, true);
    let table = table.with_column_added(&field, None, &|_| ColumnAllocator::unplaced()).unwrap();
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(&table.segments().next().unwrap().segment).unwrap();
    let report = checkpoint.commit(Lsn(0), b"three").unwrap();
    assert!(report.files == 2 && report.bytes < 1500, "{report:?}");
    // Without its first columns the first file goes.
    let table = table.with_column_dropped(0).unwrap().with_column_dropped(0).unwrap();
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(&table.segments().next().unwrap().segment).unwrap();
    assert_eq!(checkpoint.commit(Lsn(0), b"four").unwrap().removed, 2);
    assert_eq!(data_files(&files).len(), 2);
    assert_eq!(check(&files.crashed(&mut OnlySynced)).unwrap().segments, 1);
}

#[test]
fn segments_share_dictionaries_as_they_did() {
    let files = SimFiles::new();
    let folder = new(&files);
    let part = part_of(1000);
    let first = &part.segments[0].segment;
    let dictionary = |segment: &Segment| Arc::clone(segment.column(1).as_coded().unwrap().dictionary());
    assert_eq!(dictionary(first).len(), 7);
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(first).unwrap();
    checkpoint.segment(first).unwrap();
    checkpoint.commit(Lsn(0), b"").unwrap();
    drop(folder);
    let folder = Arc::new(Folder::open(shared(&files), Path::new(PATH), &options(0)).unwrap());
    let both: Vec<Segment> = std::thread::scope(|scope| {
        let load = |segment| {
            let folder = &folder;
            scope.spawn(move || loaded(folder, segment, &allocators(2), 0).unwrap())
        };
        let threads = [load(0), load(1)];
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(Arc::ptr_eq(&dictionary(&both[0]), &dictionary(&both[1])));
    assert_eq!(both[0].column(1).slice(0..1000).as_ref(), first.column(1).slice(0..1000).as_ref());
}

/// What nobody has read stays on the disk as long as somebody may, and is neither read nor written for a checkpoint.
#[test]
fn what_is_not_read_stays() {
    let files = SimFiles::new();
    let folder = new(&files);
    let part = part_of(1000);
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(&part.segments[0].segment).unwrap();
    checkpoint.commit(Lsn(0), b"one").unwrap();
    drop(folder);
    let folder = Arc::new(Folder::open(shared(&files), Path::new(PATH), &options(0)).unwrap());
    let unread = folder.segment(0, allocators(2), 0, &[]).unwrap();
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(&unread).unwrap();
    assert_eq!(checkpoint.commit(Lsn(0), b"two").unwrap().bytes, 0);
    assert!(unread.stored_columns().iter().all(|column| column.resident().is_none()));
    // A checkpoint without it: the files stay until both columns were read.
    let before = data_files(&files);
    let empty = folder.checkpoint(&|_| true).unwrap();
    empty.commit(Lsn(0), b"three").unwrap();
    assert_eq!(data_files(&files), before);
    assert_eq!(unread.column(0).len(), 1000);
    // As a version of today would be kept that has a column which was read and one which was not.
    drop(folder.keep(&unread, &|_| true).unwrap());
    assert_eq!(unread.column(1).slice(0..1000).as_ref(), part.segments[0].segment.column(1).slice(0..1000).as_ref());
    assert_eq!(data_files(&files), Vec::<PathBuf>::new());
}

#[test]
fn a_checkpoint_that_is_given_up_leaves_nothing() {
    let files = SimFiles::new();
    let folder = new(&files);
    let part = part_of(3000);
    let asked = AtomicU64::new(0);
    let pace = |bytes| asked.fetch_add(bytes, Ordering::Relaxed) < 600;
    let mut checkpoint = folder.checkpoint(&pace).unwrap();
    let error = checkpoint.segment(&part.segments[0].segment).unwrap_err();
    assert!(matches!(error, WriteError::Cancelled), "{error}");
    drop(checkpoint);
    assert!(asked.into_inner() > 600, "all that was written was asked for");
    assert_eq!(data_files(&files), Vec::<PathBuf>::new());
    folder.log().append(1, b"goes on").unwrap();
}

/// A folder with a checkpoint and a record.
fn filled() -> SimFiles {
    let files = SimFiles::new();
    let folder = new(&files);
    let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
    checkpoint.segment(&part_of(300).segments[0].segment).unwrap();
    checkpoint.commit(Lsn(0), b"the catalog").unwrap();
    folder.log().append(1, b"a record").unwrap();
    folder.close().unwrap();
    files.crashed(&mut OnlySynced)
}

fn read_all(files: &SimFiles) -> Result<(), OpenError> {
    let folder = Arc::new(Folder::open(shared(files), Path::new(PATH), &options(0))?);
    for segment in 0..folder.segments() {
        let segment = loaded(&folder, segment, &allocators(2), 0)?;
        segment.columns().for_each(|column| drop(column.slice(0..segment.rows())));
    }
    folder.replay().try_for_each(|record| record.map(drop)).map_err(OpenError::from)
}

#[test]
fn every_byte_that_is_damaged_is_found() {
    let files = filled();
    read_all(&files).unwrap();
    let whole = check(&files).unwrap();
    assert_eq!((whole.files, whole.segments, whole.records, whole.last), (4, 1, 1, Lsn(2)));
    let paths: Vec<PathBuf> = data_files(&files).into_iter().chain([Path::new(PATH).join("manifest")]).collect();
    for path in paths {
        let bytes = files.bytes(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let of = files.copied();
            of.put(&path, damaged);
            let failure = check(&of).unwrap_err();
            let text = failure.to_string();
            assert!(text.contains(&path.display().to_string()), "{at}: {text}");
            let OpenError::Read(ReadError::Damaged { offset, .. }) = &failure.error else { panic!("{at}: {text}") };
            assert!(*offset <= at as u64, "{at}: {text}");
            if !path.ends_with("manifest") {
                assert_eq!((failure.segment, failure.catalog.as_deref()), (Some(0), Some(&b"the catalog"[..])));
            }
            let loaded = read_all(&of).unwrap_err().to_string();
            assert!(loaded.contains(&path.display().to_string()), "{at}: {loaded}");
        }
        for len in [0, 10, 64, bytes.len() - 1] {
            let of = files.copied();
            of.put(&path, bytes[..len].to_vec());
            check(&of).unwrap_err();
            read_all(&of).unwrap_err();
            of.put(&path, [bytes.as_slice(), &[0]].concat());
            check(&of).unwrap_err();
        }
        let of = files.copied();
        of.remove(&path).unwrap();
        let text = check(&of).unwrap_err().to_string();
        assert!(text.contains("missing") || text.contains("no database folder"), "{text}");
    }
}

#[test]
fn another_version_is_told() {
    let files = filled();
    let path = Path::new(PATH).join("manifest");
    let mut bytes = files.bytes(&path).unwrap();
    bytes[8] = 9;
    let sum = crate::format::crc(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&sum);
    files.put(&path, bytes);
    let error = Folder::open(shared(&files), Path::new(PATH), &options(0)).unwrap_err().to_string();
    assert!(error.contains("format version 9, this program reads 1"), "{error}");
}

fn world() -> (SimFiles, World) {
    let files = SimFiles::new();
    let progress: Arc<Mutex<Progress>> = Arc::default();
    let world = World::create(&files, &progress, 0).unwrap();
    (files, world)
}

#[test]
fn a_backup_is_a_folder() {
    let (files, mut world) = world();
    for step in [Step::Commit(900), Step::Checkpoint, Step::Commit(10), Step::Commit(800), Step::Lazy(10)] {
        world.step(step).unwrap();
    }
    let mut bytes = Vec::new();
    for (to, link) in [("copied", false), ("linked", true)] {
        let report = world.folder.backup(Path::new(to), link, &|_| true).unwrap();
        assert_eq!((report.files, report.last), (6, Lsn(4)));
        bytes.push(report.bytes);
        let error = world.folder.backup(Path::new(to), link, &|_| true).unwrap_err();
        assert!(matches!(error, WriteError::NotEmpty { .. }), "{error}");
    }
    assert!(bytes[0] > bytes[1] + 500, "{bytes:?}");
    world.step(Step::Commit(10)).unwrap();
    world.step(Step::Checkpoint).unwrap();
    drop(world);
    let crashed = files.crashed(&mut OnlySynced);
    for to in ["copied", "linked"] {
        let (folder, _, numbers) = recovered(&crashed, to, None).unwrap();
        assert_eq!((folder.path(), folder.opened_at(), numbers.as_slice()), (Path::new(to), Lsn(1), &[1, 2, 3, 4][..]));
        let lsn = folder.log().append(1, &7_i64.to_le_bytes()).unwrap();
        folder.log().wait_durable(lsn).unwrap();
        drop(folder);
        Folder::check(&shared(&crashed), Path::new(to), &Serial).unwrap();
        assert_eq!(recovered(&crashed, to, None).unwrap().2, [1, 2, 3, 4, 7]);
    }
    assert_eq!(recovered(&crashed, PATH, None).unwrap().2, [1, 2, 3, 4, 5]);
}

#[test]
fn a_backup_that_fails_harms_nobody() {
    let (files, mut world) = world();
    world.step(Step::Commit(900)).unwrap();
    world.step(Step::Checkpoint).unwrap();
    let error = world.folder.backup(Path::new("stopped"), false, &|_| false).unwrap_err();
    assert!(matches!(error, WriteError::Cancelled), "{error}");
    assert!(!Folder::exists(&files, Path::new("stopped")).unwrap());
    // What is damaged is not copied as if it were whole.
    let path = data_files(&files).remove(0);
    let mut bytes = files.bytes(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    files.put(&path, bytes);
    let error = world.folder.backup(Path::new("damaged"), false, &|_| true).unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    assert!(!Folder::exists(&files, Path::new("damaged")).unwrap());
    world.step(Step::Commit(10)).unwrap();
}

thread_local! {
    /// The time, of one test.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn now_us() -> u64 {
    NOW.get()
}

/// Records of the times 100, 200, .., each in a file of its own or several in one.
fn timed(files: &SimFiles, file_bytes: u64) -> FolderOptions {
    NOW.set(0);
    let log = LogOptions { file_bytes, buffer_bytes: 0, clock: now_us };
    let options = FolderOptions { log, until: None };
    let folder = Folder::create(shared(files), Path::new(PATH), &options).unwrap();
    for number in 1..=9_i64 {
        NOW.set(100 * number as u64);
        folder.log().append(1, &[number.to_le_bytes().as_slice(), &[0xab; 200]].concat()).unwrap();
        if number == 3 {
            folder.checkpoint(&|_| true).unwrap().commit(Lsn(0), &[]).unwrap();
        }
    }
    folder.log().flush().unwrap();
    options
}

#[test]
fn a_point_of_time_is_restored_for_good() {
    for file_bytes in [300, 1024, 1 << 16] {
        for (until, last) in [
            (Until::Lsn(Lsn(5)), 5),
            (Until::Lsn(Lsn(9)), 9),
            (Until::Lsn(Lsn(0)), 0),
            (Until::TimeUs(699), 6),
            (Until::TimeUs(700), 7),
            (Until::TimeUs(5000), 9),
        ] {
            let files = SimFiles::new();
            timed(&files, file_bytes);
            let (folder, _, numbers) = recovered(&files, PATH, Some(until)).unwrap();
            assert!(numbers.iter().copied().eq(1..=last), "{until:?}: {numbers:?}");
            let lsn = folder.log().append(1, &77_i64.to_le_bytes()).unwrap();
            assert_eq!(lsn, Lsn(last as u64 + 1));
            folder.log().wait_durable(lsn).unwrap();
            drop(folder);
            let crashed = files.crashed(&mut OnlySynced);
            let (_, _, numbers) = recovered(&crashed, PATH, None).unwrap();
            assert!(numbers.iter().copied().eq((1..=last).chain([77])), "{until:?}: {numbers:?}");
            assert_eq!(check(&crashed).unwrap().last, lsn);
        }
    }
    let files = SimFiles::new();
    timed(&files, 1024);
    for until in [Until::Lsn(Lsn(10)), Until::TimeUs(299)] {
        let error = recovered(&files, PATH, Some(until)).unwrap_err();
        assert!(matches!(&error, OpenError::OutOfLog { .. }), "{error}");
    }
}

/// A folder with a window of 400 at time 900: a checkpoint behind each third record, whose data are one row per record
/// that it has.
fn with_history(files: &SimFiles, file_bytes: u64) -> FolderOptions {
    NOW.set(0);
    let log = LogOptions { file_bytes, buffer_bytes: 0, clock: now_us };
    let options = FolderOptions { log, until: None };
    let folder = Folder::create(shared(files), Path::new(PATH), &options).unwrap();
    folder.set_window(400);
    for number in 1..=9_i64 {
        NOW.set(100 * number as u64);
        let lsn = folder.log().append(1, &[number.to_le_bytes().as_slice(), &[0xab; 200]].concat()).unwrap();
        if number % 3 == 0 {
            // Right behind the record, in time too.
            NOW.set(100 * number as u64 + 50);
            let mut checkpoint = folder.checkpoint(&|_| true).unwrap();
            checkpoint.segment(&part_of(number as usize).segments[0].segment).unwrap();
            checkpoint.commit(lsn, format!("up to {number}").as_bytes()).unwrap();
        }
    }
    folder.log().flush().unwrap();
    options
}

#[test]
fn a_window_keeps_what_goes_back_so_far() {
    for (file_bytes, has_links) in [(300, true), (1 << 16, true), (1 << 16, false)] {
        let files = SimFiles::new();
        if !has_links {
            files.without_links();
        }
        let options = with_history(&files, file_bytes);
        let crashed = files.crashed(&mut OnlySynced);
        let report = check(&crashed).unwrap();
        // At 950 the checkpoint of 350 is the last one before 550.
        assert_eq!((report.history, report.restorable_from_us, report.last), (2, 350, Lsn(9)));
        let restore = |until| {
            let of = crashed.copied();
            let restored = Folder::restore(&shared(&of), Path::new(PATH), Path::new("then"), until, &|_| true);
            restored.map(|report| (of, report))
        };
        for (until, base, last, time_us) in [
            (Until::TimeUs(350), 3, 3, 350),
            (Until::TimeUs(499), 3, 4, 400),
            (Until::TimeUs(649), 3, 6, 600),
            (Until::TimeUs(650), 6, 6, 650),
            (Until::TimeUs(949), 6, 9, 900),
            (Until::TimeUs(9000), 9, 9, 950),
            (Until::Lsn(Lsn(5)), 3, 5, 500),
            (Until::Lsn(Lsn(6)), 6, 6, 650),
        ] {
            let (of, report) = restore(until).unwrap();
            assert_eq!((report.last, report.time_us), (Lsn(last), time_us), "{until:?}");
            let of = of.crashed(&mut OnlySynced);
            let folder = Arc::new(Folder::open(shared(&of), Path::new("then"), &options).unwrap());
            assert_eq!(folder.catalog(), format!("up to {base}").as_bytes(), "{until:?}");
            let segment = loaded(&folder, 0, &allocators(2), 0).unwrap();
            let lsns = folder.replay().map(|record| record.unwrap().lsn.0);
            assert_eq!((segment.rows(), lsns.last().unwrap_or(base)), (base as usize, last), "{until:?}");
            drop(folder);
            Folder::check(&shared(&of), Path::new("then"), &Serial).unwrap();
            Folder::check(&shared(&of), Path::new(PATH), &Serial).unwrap();
        }
        for until in [Until::TimeUs(349), Until::Lsn(Lsn(2)), Until::Lsn(Lsn(11))] {
            let Err(OpenError::OutOfLog { wanted, .. }) = restore(until) else { panic!("{until:?}") };
            assert_eq!(wanted, until);
        }
        // A backup goes back as far; without a window all of it goes with the next checkpoint.
        let folder = Folder::open(shared(&crashed), Path::new(PATH), &options).unwrap();
        assert_eq!((folder.restorable_from(), folder.history_bytes() > 0), (350, true));
        folder.backup(Path::new("backup"), false, &|_| true).unwrap();
        folder.checkpoint(&|_| true).unwrap().commit(Lsn(9), b"as it is").unwrap();
        assert_eq!(folder.restorable_from(), 350);
        folder.set_window(0);
        folder.checkpoint(&|_| true).unwrap().commit(Lsn(9), b"none").unwrap();
        assert_eq!((folder.restorable_from(), folder.history_bytes()), (950, 0));
        assert_eq!(data_files(&crashed), Vec::<PathBuf>::new());
        drop(folder);
        assert_eq!(check(&crashed).unwrap().history, 0);
        let backup = Folder::check(&shared(&crashed), Path::new("backup"), &Serial).unwrap();
        assert_eq!((backup.history, backup.restorable_from_us), (2, 350));
    }
}

#[test]
fn a_restore_that_fails_halfway_says_that_the_copy_is_not_whole() {
    let files = SimFiles::new();
    with_history(&files, 1 << 16);
    let files = files.crashed(&mut OnlySynced);
    let restore =
        |of: &SimFiles| Folder::restore(&shared(of), Path::new(PATH), Path::new("then"), Until::TimeUs(700), &|_| true);
    let whole = files.copied();
    restore(&whole).unwrap();
    let mut not_whole = 0;
    for call in 0..whole.calls() - files.calls() {
        let of = files.copied();
        of.fail_at(files.calls() + call, Failure::Disk);
        match restore(&of) {
            Err(OpenError::Write(WriteError::NotWhole { cause })) => {
                assert!(cause.contains("then"), "{cause}");
                not_whole += 1;
            }
            Err(OpenError::Write(error)) if !matches!(error, WriteError::Read(_)) => panic!("at {call}: {error}"),
            // What cannot be read is told as it is, and some calls may fail.
            Err(_) | Ok(_) => {}
        }
        // The folder itself is as it was.
        Folder::check(&shared(&of.killed()), Path::new(PATH), &Serial).unwrap();
    }
    assert!(not_whole > 5, "{not_whole}");
}

#[test]
fn without_links_a_checkpoint_that_fails_at_any_call_leaves_the_history() {
    let made = |files: &SimFiles| {
        files.without_links();
        let options = with_history(files, 1 << 16);
        let files = files.crashed(&mut OnlySynced);
        files.without_links();
        (Folder::open(shared(&files), Path::new(PATH), &options).unwrap(), files)
    };
    let checkpoint = |folder: &Folder| {
        folder.set_window(400);
        folder.checkpoint(&|_| true)?.commit(Lsn(9), b"as it is")
    };
    let (folder, files) = made(&SimFiles::new());
    let before = files.calls();
    checkpoint(&folder).unwrap();
    let calls = files.calls() - before;
    drop(folder);
    for failure in [Failure::Disk, Failure::Full, Failure::FullAfterHalf] {
        for call in 0..calls {
            let (folder, files) = made(&SimFiles::new());
            files.fail_at(files.calls() + call, failure);
            if let Err(WriteError::Full { .. }) = checkpoint(&folder) {
                checkpoint(&folder).unwrap_or_else(|error| panic!("again, {failure:?} at {call}: {error}"));
            }
            drop(folder);
            for crashed in [files.crashed(&mut OnlySynced), files.killed()] {
                let report = check(&crashed).unwrap_or_else(|error| panic!("{failure:?} at {call}: {error}"));
                assert_eq!(report.restorable_from_us, 350, "{failure:?} at {call}");
            }
        }
    }
}

#[test]
fn what_is_damaged_of_the_history_is_told_and_blocks_nothing_else() {
    let files = SimFiles::new();
    let options = with_history(&files, 1 << 16);
    let files = files.crashed(&mut OnlySynced);
    let path = Path::new(PATH).join(format!("manifest-{:016}", 2));
    let mut bytes = files.bytes(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    files.put(&path, bytes);
    let told = check(&files).unwrap_err().to_string();
    assert!(told.contains(&path.display().to_string()), "{told}");
    let to = Path::new("then");
    let told = Folder::restore(&shared(&files), Path::new(PATH), to, Until::TimeUs(700), &|_| true).unwrap_err();
    assert!(told.to_string().contains("damaged"), "{told}");
    let folder = Folder::open(shared(&files), Path::new(PATH), &options).unwrap();
    assert_eq!(folder.restorable_from(), 350);
    // Neither a copy nor a folder without it goes back to the wrong state.
    folder.backup(Path::new("backup"), false, &|_| true).unwrap();
    drop(folder);
    files.remove(&path).unwrap();
    for of in ["backup", PATH] {
        let told = Folder::check(&shared(&files), Path::new(of), &Serial).unwrap_err().to_string();
        assert!(told.contains(&format!("{of}/manifest-{:016}", 2)), "{told}");
        let to = Path::new("then").join(of.trim_start_matches('/'));
        let told = Folder::restore(&shared(&files), Path::new(of), &to, Until::TimeUs(900), &|_| true).unwrap_err();
        assert!(told.to_string().contains(&format!("manifest-{:016}", 2)), "{told}");
        Folder::restore(&shared(&files), Path::new(of), &to, Until::TimeUs(1000), &|_| true).unwrap();
    }
}

/// What a backup copies goes meanwhile.
#[test]
fn a_backup_has_the_history_of_when_it_began() {
    let files = SimFiles::new();
    let options = with_history(&files, 1 << 16);
    let folder = Folder::open(shared(&files), Path::new(PATH), &options).unwrap();
    let last = folder.log().last();
    let is_first = std::sync::atomic::AtomicBool::new(true);
    folder
        .backup(Path::new("backup"), false, &|_| {
            if is_first.swap(false, std::sync::atomic::Ordering::Relaxed) {
                folder.set_window(0);
                folder.checkpoint(&|_| true).unwrap().commit(last, b"later").unwrap();
            }
            true
        })
        .unwrap();
    let report = Folder::check(&shared(&files), Path::new("backup"), &Serial).unwrap();
    assert_eq!((report.history, report.restorable_from_us), (2, 350));

    // One that is stopped leaves nothing, so that the next one finds it empty.
    let told = folder.backup(Path::new("second"), false, &|_| false).unwrap_err();
    assert!(matches!(told, WriteError::Cancelled), "{told}");
    assert_eq!(files.list(Path::new("second")).unwrap(), Vec::<String>::new());
    folder.backup(Path::new("second"), false, &|_| true).unwrap();
}

/// A file of the log got its name when it had its length.
#[test]
fn a_log_that_was_cut_off_is_told() {
    let files = SimFiles::new();
    with_history(&files, 1 << 16);
    let files = files.crashed(&mut OnlySynced);
    let logs = files.list(Path::new(PATH)).unwrap().into_iter().filter(|name| name.starts_with("log-"));
    let last = Path::new(PATH).join(logs.max().unwrap());
    let whole = files.bytes(&last).unwrap();
    for len in [whole.len() - 1, 700, 65, 64] {
        files.put(&last, whole[..len].to_vec());
        let told = check(&files).unwrap_err().to_string();
        assert!(told.contains("is cut off") && told.contains(&last.display().to_string()), "{len}: {told}");
    }
}
