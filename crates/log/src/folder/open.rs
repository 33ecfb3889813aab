//! Making and opening a folder.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::history::{Kept, WINDOW_AS_IT_IS, read_history};
use super::{Folder, FolderOptions, Known, LOCK, is_until};
use crate::data::data_number;
use crate::error::{Health, OpenError, ReadError, failed};
use crate::files::{Files, Locking};
use crate::log::{Log, LogFile, LogPlace, Replay, Tail, bounds, chain, cut, read_end};
use crate::manifest::{Manifest, NAME};
use crate::point::{Lsn, Until};

impl Folder {
    /// Whether there is a database in a folder.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn exists(files: &dyn Files, path: &Path) -> Result<bool, ReadError> {
        match files.list(path) {
            Ok(names) => Ok(names.iter().any(|name| name == NAME)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ReadError::io(path, error)),
        }
    }

    /// Makes an empty database in a folder that is empty or not there.
    ///
    /// # Errors
    /// [`OpenError`]: something is there, somebody has it, it cannot be written.
    pub fn create(files: Arc<dyn Files>, path: &Path, options: &FolderOptions) -> Result<Folder, OpenError> {
        let health = Arc::new(Health::default());
        files.create_folder(path).map_err(|error| failed(&*files, &health, path, "making the folder", &error))?;
        let place = LogPlace { files: Arc::clone(&files), path: path.to_path_buf(), folder: random_number() };
        let first_log = place.file(1);
        // Before the lock is made, since nothing is put into a folder of others; behind it, since it may be theirs now.
        has_first_log(&place)?;
        let lock = lock(&*files, path)?;
        if has_first_log(&place)? {
            files.remove(&first_log).map_err(|error| health.stop(&first_log, "removing", &error))?;
        }
        Log::create(&place, &options.log, &health)?;
        let manifest =
            Manifest { folder: place.folder, log_file: 1, time_us: (options.log.clock)(), ..Manifest::default() };
        manifest.put(&*files, path, &health)?;
        Folder::open_locked(files, path, options, health, lock)
    }

    /// Opens the database in a folder: the caller reads its [`catalog`](Self::catalog), loads the segments that this
    /// refers to and replays what the log has behind them.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(files: Arc<dyn Files>, path: &Path, options: &FolderOptions) -> Result<Folder, OpenError> {
        if !Folder::exists(&*files, path)? {
            return Err(OpenError::NotADatabase { path: path.to_path_buf() });
        }
        let lock = lock(&*files, path)?;
        Folder::open_locked(files, path, options, Arc::default(), lock)
    }

    fn open_locked(
        files: Arc<dyn Files>,
        path: &Path,
        options: &FolderOptions,
        health: Arc<Health>,
        lock: Box<dyn Send + Sync>,
    ) -> Result<Folder, OpenError> {
        let (manifest, mut chain, mut tail) = read_folder(&files, path)?;
        let place = LogPlace { files: Arc::clone(&files), path: path.to_path_buf(), folder: manifest.folder };
        if let Some(until) = options.until {
            let Span { last, .. } = last_until(&place, &manifest, &chain, &tail, until)?;
            cut(&place, &options.log, &health, &mut chain, last)?;
            tail = read_end(&place, chain[chain.len() - 1])?;
        }
        // The names that are seen may not be on the disk: whoever was here before may have ended before they were.
        files.sync_folder(path).map_err(|error| health.stop(path, "syncing the folder", &error))?;
        let history = whole_history(&*files, path, &manifest)?;
        let (history, older) = with_logs(&place, &manifest, history)?;
        let known_chain: Vec<LogFile> = older.into_iter().chain(chain.iter().copied()).collect();
        let next_file = clear_away(&*files, path, &manifest, &history)?;
        let log = Log::open(place, options.log, Arc::clone(&health), &known_chain, &tail)?;
        let opened = Arc::new(manifest);
        let known = Known { manifest: Arc::clone(&opened), history, next_file, ..Known::default() };
        Ok(Folder {
            path: path.to_path_buf(),
            health,
            log,
            opened,
            chain,
            end: tail.next,
            turn: Mutex::new(()),
            known: Arc::new(Mutex::new(known)),
            window_us: AtomicU64::new(WINDOW_AS_IT_IS),
            dictionaries: Mutex::new(HashMap::new()),
            files,
            _lock: lock,
        })
    }
}

/// What is in a folder: the manifest, the files of the log behind it, and where that ends. Changes nothing.
///
/// # Errors
/// [`ReadError`].
pub(super) fn read_folder(files: &Arc<dyn Files>, path: &Path) -> Result<(Manifest, Vec<LogFile>, Tail), OpenError> {
    let manifest = Manifest::read(&**files, path)?;
    let manifest = manifest.ok_or_else(|| OpenError::NotADatabase { path: path.to_path_buf() })?;
    let place = LogPlace { files: Arc::clone(files), path: path.to_path_buf(), folder: manifest.folder };
    let chain = chain(&place, manifest.log_file)?;
    let tail = read_end(&place, chain[chain.len() - 1])?;
    let first = place.file(chain[0].number);
    if chain[0].first > manifest.next() {
        let what = format!("the file begins with record {} instead of {}", chain[0].first, manifest.next());
        return Err(ReadError::damaged(&first, 32, what).into());
    }
    if tail.next < manifest.next() {
        let what = format!("the log ends before record {}, which the last checkpoint has", manifest.contains);
        return Err(ReadError::damaged(&place.file(chain[chain.len() - 1].number), tail.offset, what).into());
    }
    Ok((manifest, chain, tail))
}

/// Whether a folder that shall be empty has the first file of a log: left by somebody who did not get far.
///
/// # Errors
/// [`OpenError::NotEmpty`] where it has anything else.
fn has_first_log(place: &LogPlace) -> Result<bool, OpenError> {
    let names = place.files.list(&place.path).map_err(|error| ReadError::io(&place.path, error))?;
    let first_log = place.file(1);
    let is_first_log = |name: &&String| first_log.file_name().is_some_and(|file| file == name.as_str());
    let (logs, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_first_log);
    match others.iter().any(|name| *name != LOCK && !name.ends_with(".new")) {
        true => Err(OpenError::NotEmpty { path: place.path.clone() }),
        false => Ok(!logs.is_empty()),
    }
}

/// The lock of a folder.
///
/// # Errors
/// [`OpenError::Locked`], [`ReadError::Io`].
pub(super) fn lock(files: &dyn Files, path: &Path) -> Result<Box<dyn Send + Sync>, OpenError> {
    let of = path.join(LOCK);
    match files.lock(&of, &format!("process {}", std::process::id())) {
        Ok(Locking::Held(lock)) => Ok(lock),
        Ok(Locking::Taken(owner)) => {
            let owner = if owner.is_empty() { "another process".to_owned() } else { owner };
            Err(OpenError::Locked { path: path.to_path_buf(), owner })
        }
        Err(error) => Err(ReadError::io(&of, error).into()),
    }
}

/// Removes what nothing refers to: left by a crash, or by removals that were lost in one. Returns a number that no file
/// of data has, nor any that is greater.
fn clear_away(files: &dyn Files, path: &Path, manifest: &Manifest, history: &[Kept]) -> Result<u64, OpenError> {
    let names = files.list(path).map_err(|error| ReadError::io(path, error))?;
    let older = history.iter().flat_map(|kept| &kept.files);
    let needed: HashSet<u64> = manifest.files.iter().chain(older).map(|file| file.number).collect();
    let first_log = history.iter().map(|kept| kept.log_file).fold(manifest.log_file, u64::min);
    let mut next = needed.iter().copied().max().unwrap_or(0) + 1;
    for name in names {
        let data = data_number(&name);
        next = next.max(data.map_or(0, |number| number + 1));
        let is_unused = data.is_some_and(|number| !needed.contains(&number));
        let log = name.strip_prefix("log-").and_then(|number| number.parse::<u64>().ok());
        if name.ends_with(".new") || is_unused || log.is_some_and(|number| number < first_log) {
            // Best effort: the next one to open it tries again.
            let _ = files.remove(&path.join(name));
        }
    }
    Ok(next)
}

/// The checkpoints before the last one that are whole; where one is not, the folder does not go back to the time behind
/// it.
///
/// # Errors
/// [`ReadError`], but for damage.
fn whole_history(files: &dyn Files, path: &Path, manifest: &Manifest) -> Result<Vec<Kept>, ReadError> {
    let of = |older: Result<Manifest, ReadError>| match older {
        Ok(older) => Some(Ok(Kept::of(&older))),
        Err(ReadError::Damaged { .. } | ReadError::Version { .. }) => None,
        Err(error) => Some(Err(error)),
    };
    read_history(files, path, manifest)?.into_iter().filter_map(of).collect()
}

/// The checkpoints of the history whose log is there, and the files of the log before those of the last checkpoint.
///
/// # Errors
/// [`ReadError`], but for files that are missing or damaged.
fn with_logs(
    place: &LogPlace,
    manifest: &Manifest,
    mut history: Vec<Kept>,
) -> Result<(Vec<Kept>, Vec<LogFile>), ReadError> {
    while let Some(first) = history.iter().map(|kept| kept.log_file).min() {
        match chain(place, first) {
            Ok(mut files) => {
                files.retain(|file| file.number < manifest.log_file);
                return Ok((history, files));
            }
            Err(ReadError::Missing { .. } | ReadError::Damaged { .. } | ReadError::Version { .. }) => {
                history.retain(|kept| kept.log_file > first);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((Vec::new(), Vec::new()))
}

/// How far the log is restored.
pub(super) struct Span {
    /// The last record.
    pub(super) last: Lsn,
    /// When it was written, or the checkpoint before it was made.
    pub(super) time_us: u64,
}

/// The last record to restore, of a checkpoint and the log from its file on.
pub(super) fn last_until(
    place: &LogPlace,
    manifest: &Manifest,
    chain: &[LogFile],
    tail: &Tail,
    until: Until,
) -> Result<Span, OpenError> {
    let mut span = Span { last: Lsn(manifest.contains), time_us: manifest.time_us };
    let mut last_time_us = manifest.time_us;
    for record in Replay::new(place.clone(), bounds(chain, tail.next), manifest.next()) {
        let record = record?;
        last_time_us = record.time_us;
        if is_until(until, &record) {
            span = Span { last: record.lsn, time_us: record.time_us };
        }
    }
    let end = tail.next.0 - 1;
    let (is_there, first, last) = match until {
        Until::Lsn(lsn) => {
            let is_there = (manifest.contains..=end).contains(&lsn.0);
            (is_there, Until::Lsn(Lsn(manifest.contains)), Until::Lsn(Lsn(end)))
        }
        Until::TimeUs(time_us) => {
            (time_us >= manifest.time_us, Until::TimeUs(manifest.time_us), Until::TimeUs(last_time_us))
        }
    };
    match is_there {
        true => Ok(span),
        false => Err(OpenError::OutOfLog { path: place.path.clone(), wanted: until, first, last }),
    }
}

/// A number that no other folder has, as far as chance allows: it keeps files of one out of another.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}
