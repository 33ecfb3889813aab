//! Files in memory that lose, after a crash, whatever was not synced, in every way in which a disk may.
//!
//! # What a crash leaves
//! - Each sector of 512 bytes holds what it held when the file was synced, or what any write since made of it, or the
//!   beginning of one and the end of an older one (torn). Sectors are independent, so writes are lost in any order.
//! - A file that was not synced since it grew may be as short as it was.
//! - Each name that was made, changed or removed since its folder was synced is as before or as after, independently;
//!   a rename puts the new file or leaves the old one, never neither.
//!
//! A sync that fails leaves its sectors to chance for good: one that succeeds later takes no part of them along
//! unless they are written again, as kernels do.
//!
//! Which outcome it is, a [`Chooser`] says: drawn from a seed, or each in turn.
//!
//! # Limits
//! Folders are not lost. One lock at a time: [`Disk`](super::Disk) has the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use random::Random;

use super::{File, Files, Locking};

/// Bytes that a disk writes whole, or tears.
const SECTOR_BYTES: usize = 512;

/// Says which of several legal outcomes it is.
pub trait Chooser {
    /// One of `0..count`; 0 is what was synced.
    fn choose(&mut self, count: usize) -> usize;
}

/// Outcomes drawn from a seed.
#[derive(Debug)]
pub struct Drawn(Random);

impl Drawn {
    /// Those of this seed.
    pub fn new(seed: u64) -> Drawn {
        Drawn(Random::new(seed))
    }
}

impl Chooser for Drawn {
    fn choose(&mut self, count: usize) -> usize {
        self.0.below(count)
    }
}

/// What was synced, and nothing else.
#[derive(Debug)]
pub struct OnlySynced;

impl Chooser for OnlySynced {
    fn choose(&mut self, _count: usize) -> usize {
        0
    }
}

/// Everything that was written.
#[derive(Debug)]
pub struct All;

impl Chooser for All {
    fn choose(&mut self, count: usize) -> usize {
        count - 1
    }
}

/// Every outcome in turn: like the digits of a counter.
#[derive(Debug, Default)]
pub struct Each {
    digits: Vec<(usize, usize)>,
    at: usize,
}

impl Each {
    /// Goes on to the next outcome; false after the last.
    pub fn advance(&mut self) -> bool {
        self.digits.truncate(self.at);
        self.at = 0;
        while let Some((digit, count)) = self.digits.pop() {
            if digit + 1 < count {
                self.digits.push((digit + 1, count));
                return true;
            }
        }
        false
    }
}

impl Chooser for Each {
    fn choose(&mut self, count: usize) -> usize {
        if self.at == self.digits.len() {
            self.digits.push((0, count));
        }
        self.at += 1;
        self.digits[self.at - 1].0
    }
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// An error of the disk.
    Disk,
    /// No room.
    Full,
    /// Half of what is to be written is, then there is no room; as `Full` for other calls.
    FullAfterHalf,
}

impl Failure {
    fn error(self) -> io::Error {
        match self {
            Failure::Disk => io::Error::from_raw_os_error(5),
            Failure::Full | Failure::FullAfterHalf => io::Error::from_raw_os_error(28),
        }
    }
}

/// A fault of whoever keeps data here, planted so that a checker shows that it finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Folders are not synced.
    NoFolderSync,
    /// Files are not synced.
    NoFileSync,
}

type Hook = Box<dyn FnMut(&SimFiles) + Send>;

/// Files in memory; clones are the same files. Every call is counted.
#[derive(Clone)]
pub struct SimFiles {
    state: Arc<Mutex<State>>,
    hook: Arc<Mutex<Option<Hook>>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    inodes: BTreeMap<u64, Arc<Inode>>,
    folders: BTreeMap<PathBuf, Folder>,
    next_inode: u64,
    calls: u64,
    fail_at: Option<(u64, Failure)>,
    room_bytes: Option<u64>,
    planted: Option<Planted>,
    has_no_links: bool,
    locked: BTreeMap<PathBuf, String>,
}

#[derive(Debug, Clone, Default)]
struct Folder {
    synced: BTreeMap<String, u64>,
    current: BTreeMap<String, u64>,
    /// Changes since the last sync, in order.
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Put(String, u64),
    Renamed(String, String, u64),
    Removed(String),
}

#[derive(Debug, Clone, Default)]
struct Inode {
    synced: Vec<u8>,
    current: Vec<u8>,
    /// The sectors that were written since they were synced.
    sectors: BTreeMap<usize, Sector>,
}

#[derive(Debug, Clone, Default)]
struct Sector {
    /// Whether a sync takes it along.
    is_dirty: bool,
    /// What each write made of it.
    versions: Vec<Vec<u8>>,
}

struct SimFile {
    files: SimFiles,
    inode: u64,
}

struct SimLock {
    files: SimFiles,
    path: PathBuf,
    /// Of a disk that crashed since nothing is to be given back.
    is_held: AtomicBool,
}

impl Default for SimFiles {
    fn default() -> SimFiles {
        SimFiles::new()
    }
}

impl SimFiles {
    /// An empty disk.
    pub fn new() -> SimFiles {
        SimFiles::of(State::default())
    }

    fn of(state: State) -> SimFiles {
        SimFiles { state: Arc::new(Mutex::new(state)), hook: Arc::new(Mutex::new(None)) }
    }

    /// Calls of any kind so far.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// The call of this number, counted from 0, fails; the others work.
    pub fn fail_at(&self, call: u64, failure: Failure) {
        self.state.lock().fail_at = Some((call, failure));
    }

    /// Files may take this many bytes in all; `None` is no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state.lock().room_bytes = bytes;
    }

    /// From now on a file has one name, as in some file systems.
    pub fn without_links(&self) {
        self.state.lock().has_no_links = true;
    }

    /// Plants a fault.
    pub fn plant(&self, fault: Planted) {
        self.state.lock().planted = Some(fault);
    }

    /// Calls `hook` before each call that changes something.
    pub fn before_changes(&self, hook: impl FnMut(&SimFiles) + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    /// The same files apart from these: what is done there changes nothing here.
    pub fn copied(&self) -> SimFiles {
        SimFiles::of(self.state.lock().clone())
    }

    /// What the end of the process leaves, as files of their own: everything, as long as the machine goes on. Nothing
    /// is locked and nothing fails there.
    pub fn killed(&self) -> SimFiles {
        let mut state = self.state.lock().clone();
        state.locked.clear();
        state.fail_at = None;
        SimFiles::of(state)
    }

    /// What a crash leaves, as files of their own; these stay as they are. Nothing is locked and nothing fails there.
    pub fn crashed(&self, chooser: &mut dyn Chooser) -> SimFiles {
        let state = self.state.lock();
        let mut folders = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (path, folder) in &state.folders {
            let names = folder.crashed(chooser);
            used.extend(names.values().copied());
            folders.insert(path.clone(), Folder { synced: names.clone(), current: names, changes: Vec::new() });
        }
        let of = |(number, inode): (&u64, &Arc<Inode>)| (*number, Arc::new(inode.crashed(chooser)));
        let inodes = state.inodes.iter().filter(|(number, _)| used.contains(number)).map(of).collect();
        SimFiles::of(State { inodes, folders, next_inode: state.next_inode, ..State::default() })
    }

    /// The bytes of a file as readers see them.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let inode = state.inode_of(path).ok()?;
        Some(state.inodes[&inode].current.clone())
    }

    /// Puts a file there whole and synced, in place of one that is there: to damage it.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Arc::new(Inode { synced: bytes.clone(), current: bytes, sectors: BTreeMap::new() }));
        let (folder, name) = split(path);
        let folder = state.folders.entry(folder).or_default();
        folder.synced.insert(name.clone(), inode);
        folder.current.insert(name, inode);
    }

    /// Begins a call: counts it and fails where it shall.
    fn call(&self, changes: bool) -> Result<parking_lot::MutexGuard<'_, State>, (io::Error, Failure)> {
        if changes {
            // The hook is taken out meanwhile, so that it may call these files itself.
            let hook = self.hook.lock().take();
            if let Some(mut hook) = hook {
                hook(self);
                self.hook.lock().get_or_insert(hook);
            }
        }
        let mut state = self.state.lock();
        let call = state.calls;
        state.calls += 1;
        match state.fail_at {
            Some((at, failure)) if at == call => Err((failure.error(), failure)),
            _ => Ok(state),
        }
    }

    fn simple(&self, changes: bool) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        self.call(changes).map_err(|(error, _)| error)
    }
}

impl State {
    fn inode_of(&self, path: &Path) -> io::Result<u64> {
        let (folder, name) = split(path);
        let folder = self.folders.get(&folder).ok_or(io::ErrorKind::NotFound)?;
        folder.current.get(&name).copied().ok_or(io::ErrorKind::NotFound.into())
    }

    fn folder(&mut self, folder: &Path) -> io::Result<&mut Folder> {
        self.folders.get_mut(folder).ok_or(io::ErrorKind::NotFound.into())
    }

    fn used_bytes(&self) -> u64 {
        let named: BTreeSet<u64> = self.folders.values().flat_map(|folder| folder.current.values().copied()).collect();
        named.iter().map(|inode| self.inodes[inode].current.len() as u64).sum()
    }

    fn write(&mut self, inode: u64, offset: u64, from: &[u8]) {
        let file = Arc::make_mut(self.inodes.get_mut(&inode).expect("open files are there"));
        let offset = offset as usize;
        let end = offset + from.len();
        if file.current.len() < end {
            file.current.resize(end, 0);
        }
        file.current[offset..end].copy_from_slice(from);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let bytes =
                file.current[sector * SECTOR_BYTES..file.current.len().min((sector + 1) * SECTOR_BYTES)].to_vec();
            let of = file.sectors.entry(sector).or_default();
            of.is_dirty = true;
            of.versions.push(bytes);
        }
    }
}

impl Folder {
    fn crashed(&self, chooser: &mut dyn Chooser) -> BTreeMap<String, u64> {
        let mut names = self.synced.clone();
        for change in &self.changes {
            if chooser.choose(2) == 0 {
                continue;
            }
            match change {
                Change::Put(name, inode) => {
                    names.insert(name.clone(), *inode);
                }
                Change::Renamed(from, to, inode) => {
                    if names.get(from) == Some(inode) {
                        names.remove(from);
                    }
                    names.insert(to.clone(), *inode);
                }
                Change::Removed(name) => {
                    names.remove(name);
                }
            }
        }
        names
    }
}

impl Inode {
    fn crashed(&self, chooser: &mut dyn Chooser) -> Inode {
        let grew = self.synced.len() < self.current.len();
        if grew && chooser.choose(2) == 0 {
            // What lies within the old length may have changed all the same; that it did not is one of the outcomes.
            return Inode { synced: self.synced.clone(), current: self.synced.clone(), sectors: BTreeMap::new() };
        }
        let mut bytes = self.synced.clone();
        bytes.resize(self.current.len(), 0);
        for (sector, of) in &self.sectors {
            let start = sector * SECTOR_BYTES;
            // What was synced, each version, and the last one torn in the middle.
            let count = of.versions.len();
            match chooser.choose(count + 2) {
                0 => {}
                choice if choice < count => put(&mut bytes, start, &of.versions[choice - 1]),
                choice if choice == count => {
                    if count > 1 {
                        put(&mut bytes, start, &of.versions[count - 2]);
                    }
                    let last = &of.versions[count - 1];
                    let cut = 8 + 8 * chooser.choose(4) * last.len() / 40;
                    put(&mut bytes, start, &last[..cut.min(last.len())]);
                }
                _ => put(&mut bytes, start, &of.versions[count - 1]),
            }
        }
        Inode { synced: bytes.clone(), current: bytes, sectors: BTreeMap::new() }
    }

    fn synced(&mut self) {
        self.synced.resize(self.current.len(), 0);
        let sectors = std::mem::take(&mut self.sectors);
        for (sector, of) in sectors {
            match (of.is_dirty, of.versions.last()) {
                (true, Some(last)) => put(&mut self.synced, sector * SECTOR_BYTES, last),
                _ => {
                    self.sectors.insert(sector, of);
                }
            }
        }
    }
}

fn put(bytes: &mut [u8], start: usize, from: &[u8]) {
    bytes[start..start + from.len()].copy_from_slice(from);
}

fn split(path: &Path) -> (PathBuf, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (path.parent().unwrap_or(Path::new("")).to_path_buf(), name)
}

impl Files for SimFiles {
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Box<dyn File>> {
        let mut state = self.simple(true)?;
        if state.inode_of(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.room_bytes.is_some_and(|room| state.used_bytes() + len_bytes > room) {
            return Err(Failure::Full.error());
        }
        let inode = state.next_inode;
        state.next_inode += 1;
        let file = Inode { current: vec![0; len_bytes as usize], ..Inode::default() };
        state.inodes.insert(inode, Arc::new(file));
        let (folder, name) = split(path);
        let folder = state.folder(&folder)?;
        folder.current.insert(name.clone(), inode);
        folder.changes.push(Change::Put(name, inode));
        Ok(Box::new(SimFile { files: self.clone(), inode }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let inode = self.simple(false)?.inode_of(path)?;
        Ok(Box::new(SimFile { files: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.simple(true)?;
        let inode = state.inode_of(from)?;
        let ((folder, from), (other, to)) = (split(from), split(to));
        assert_eq!(folder, other, "files are renamed within their folder");
        let folder = state.folder(&folder)?;
        folder.current.remove(&from);
        folder.current.insert(to.clone(), inode);
        folder.changes.push(Change::Renamed(from, to, inode));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.simple(true)?;
        if state.has_no_links {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let inode = state.inode_of(from)?;
        let (folder, name) = split(to);
        let folder = state.folder(&folder)?;
        folder.current.insert(name.clone(), inode);
        folder.changes.push(Change::Put(name, inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.simple(true)?;
        state.inode_of(path)?;
        let (folder, name) = split(path);
        let folder = state.folder(&folder)?;
        folder.current.remove(&name);
        folder.changes.push(Change::Removed(name));
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut state = self.simple(false)?;
        Ok(state.folder(folder)?.current.keys().cloned().collect())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.simple(true)?.folders.entry(folder.to_path_buf()).or_default();
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.simple(true)?;
        let planted = state.planted;
        let folder = state.folder(folder)?;
        if planted != Some(Planted::NoFolderSync) {
            folder.synced = folder.current.clone();
            folder.changes.clear();
        }
        Ok(())
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        let mut state = self.simple(true)?;
        if let Some(other) = state.locked.get(path) {
            return Ok(Locking::Taken(other.clone()));
        }
        state.locked.insert(path.to_path_buf(), owner.to_owned());
        let lock = SimLock { files: self.clone(), path: path.to_path_buf(), is_held: AtomicBool::new(true) };
        Ok(Locking::Held(Box::new(lock)))
    }

    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        let state = self.simple(false)?;
        Ok(state.room_bytes.map_or(u64::MAX, |room| room.saturating_sub(state.used_bytes())))
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let state = self.files.simple(false)?;
        let bytes = &state.inodes[&self.inode].current;
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<usize> {
        match self.files.call(true) {
            Ok(mut state) => {
                state.write(self.inode, offset, from);
                Ok(from.len())
            }
            Err((_, Failure::FullAfterHalf)) if from.len() > 1 => {
                let half = from.len() / 2;
                let mut state = self.files.state.lock();
                state.write(self.inode, offset, &from[..half]);
                // The rest fails.
                state.fail_at = Some((state.calls, Failure::Full));
                Ok(half)
            }
            Err((error, _)) => Err(error),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let outcome = self.files.call(true).map(drop);
        let mut state = self.files.state.lock();
        let planted = state.planted;
        let file = Arc::make_mut(state.inodes.get_mut(&self.inode).expect("open files are there"));
        match outcome {
            Ok(()) if planted == Some(Planted::NoFileSync) => Ok(()),
            Ok(()) => {
                file.synced();
                Ok(())
            }
            Err((error, _)) => {
                file.sectors.values_mut().for_each(|sector| sector.is_dirty = false);
                Err(error)
            }
        }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.files.simple(false)?.inodes[&self.inode].current.len() as u64)
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.files.state.lock().locked.remove(&self.path);
        }
    }
}

impl fmt::Debug for SimFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFiles({} calls)", self.state.lock().calls)
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({})", self.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "folder/file";

    fn with_file(bytes: usize) -> (SimFiles, Box<dyn File>) {
        let files = SimFiles::new();
        files.create_folder(Path::new("folder")).unwrap();
        let file = files.create(Path::new(PATH), bytes as u64).unwrap();
        (files, file)
    }

    fn outcomes(files: &SimFiles) -> BTreeSet<Option<Vec<u8>>> {
        let mut each = Each::default();
        let mut seen = BTreeSet::new();
        loop {
            seen.insert(files.crashed(&mut each).bytes(Path::new(PATH)));
            if !each.advance() {
                return seen;
            }
        }
    }

    #[test]
    fn what_was_not_synced_is_lost_in_every_way() {
        let (files, file) = with_file(1024);
        assert!(outcomes(&files).contains(&None), "its name");
        file.sync_data().unwrap();
        files.sync_folder(Path::new("folder")).unwrap();
        assert_eq!(outcomes(&files), BTreeSet::from([Some(vec![0; 1024])]));
        file.write_at(500, &[7; 100]).unwrap();
        file.write_at(500, &[8; 4]).unwrap();
        let seen: Vec<Vec<u8>> = outcomes(&files).into_iter().flatten().collect();
        let pairs: BTreeSet<(u8, u8)> = seen.iter().map(|bytes| (bytes[500], bytes[590])).collect();
        assert_eq!(pairs, BTreeSet::from([(0, 0), (7, 0), (8, 0), (0, 7), (7, 7), (8, 7)]), "sector by sector");
        assert!(seen.iter().any(|bytes| bytes[512] == 7 && bytes[590] == 0), "torn");
        file.sync_data().unwrap();
        assert_eq!(outcomes(&files).len(), 1);
    }

    #[test]
    fn what_a_failed_sync_left_is_not_synced_by_the_next() {
        let (files, file) = with_file(1024);
        files.sync_folder(Path::new("folder")).unwrap();
        file.sync_data().unwrap();
        file.write_at(0, &[1; 8]).unwrap();
        files.fail_at(files.calls(), Failure::Disk);
        file.sync_data().unwrap_err();
        file.write_at(600, &[2; 8]).unwrap();
        file.sync_data().unwrap();
        let seen: BTreeSet<(u8, u8)> = outcomes(&files).into_iter().flatten().map(|b| (b[0], b[600])).collect();
        assert_eq!(seen, BTreeSet::from([(0, 2), (1, 2)]));
    }

    #[test]
    fn a_rename_is_there_or_not() {
        let (files, file) = with_file(8);
        file.write_at(0, &[1; 8]).unwrap();
        file.sync_data().unwrap();
        let new = files.create(Path::new("folder/new"), 8).unwrap();
        new.write_at(0, &[2; 8]).unwrap();
        new.sync_data().unwrap();
        files.sync_folder(Path::new("folder")).unwrap();
        files.rename(Path::new("folder/new"), Path::new(PATH)).unwrap();
        assert_eq!(outcomes(&files), BTreeSet::from([Some(vec![1; 8]), Some(vec![2; 8])]));
    }
}
