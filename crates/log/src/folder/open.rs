//! Making and opening a folder.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Folder, FolderOptions, Known, LOCK, Until, is_until};
use crate::data::data_number;
use crate::error::{Health, OpenError, ReadError, failed};
use crate::files::{Files, Locking};
use crate::log::{Log, LogFile, LogPlace, Lsn, Replay, Tail, bounds, chain, cut, read_end};
use crate::manifest::{Manifest, NAME};

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
        let manifest = Manifest { folder: place.folder, log_file: 1, ..Manifest::default() };
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
            let last = last_until(&place, &manifest, &chain, &tail, until)?;
            cut(&place, &options.log, &health, &mut chain, last)?;
            tail = read_end(&place, chain[chain.len() - 1])?;
        }
        // The names that are seen may not be on the disk: whoever was here before may have ended before they were.
        files.sync_folder(path).map_err(|error| health.stop(path, "syncing the folder", &error))?;
        let next_file = clear_away(&*files, path, &manifest)?;
        let log = Log::open(place, options.log, Arc::clone(&health), &chain, &tail)?;
        let opened = Arc::new(manifest);
        let known = Known { manifest: Arc::clone(&opened), next_file, ..Known::default() };
        Ok(Folder {
            path: path.to_path_buf(),
            health,
            log,
            opened,
            chain,
            end: tail.next,
            turn: Mutex::new(()),
            known: Arc::new(Mutex::new(known)),
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
fn clear_away(files: &dyn Files, path: &Path, manifest: &Manifest) -> Result<u64, OpenError> {
    let names = files.list(path).map_err(|error| ReadError::io(path, error))?;
    let mut next = manifest.files.iter().map(|file| file.number).max().unwrap_or(0) + 1;
    for name in names {
        let data = data_number(&name);
        next = next.max(data.map_or(0, |number| number + 1));
        let is_unused = data.is_some_and(|number| manifest.file(number).is_none());
        let log = name.strip_prefix("log-").and_then(|number| number.parse::<u64>().ok());
        if name.ends_with(".new") || is_unused || log.is_some_and(|number| number < manifest.log_file) {
            // Best effort: the next one to open it tries again.
            let _ = files.remove(&path.join(name));
        }
    }
    Ok(next)
}

/// The last record to restore.
fn last_until(
    place: &LogPlace,
    manifest: &Manifest,
    chain: &[LogFile],
    tail: &Tail,
    until: Until,
) -> Result<Lsn, OpenError> {
    let mut last = Lsn(manifest.contains);
    let mut last_time_us = manifest.time_us;
    for record in Replay::new(place.clone(), bounds(chain, tail.next), manifest.next()) {
        let record = record?;
        last_time_us = record.time_us;
        if is_until(until, &record) {
            last = record.lsn;
        }
    }
    let end = tail.next.0 - 1;
    let (is_there, wanted, first, last_there) = match until {
        Until::Lsn(lsn) => {
            let is_there = (manifest.contains..=end).contains(&lsn.0);
            (is_there, format!("record {lsn}"), format!("record {}", manifest.contains), format!("record {end}"))
        }
        Until::TimeUs(time_us) => {
            let name = |time_us: u64| format!("the time {time_us} (microseconds since 1970)");
            (time_us >= manifest.time_us, name(time_us), name(manifest.time_us), name(last_time_us))
        }
    };
    match is_there {
        true => Ok(last),
        false => Err(OpenError::OutOfLog { path: place.path.clone(), wanted, first, last: last_there }),
    }
}

/// A number that no other folder has, as far as chance allows: it keeps files of one out of another.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}
