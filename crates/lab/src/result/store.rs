//! Results on disk: a folder with a file of JSON lines per experiment and origin.
//!
//! A file begins with its [`Head`]; every line after it is a [`Record`], written when the point was finished. So a run
//! that was interrupted goes on where it stopped, and a line that was cut short is run again.
//!
//! Invariants: the name of a file has a fingerprint of its head, so results of another revision, machine or set of
//! constants are never mixed in; a record is appended whole or dropped when the file is read again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use numa::Topology;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Key, Record, ResultKind};

/// The format that this version writes.
pub const FORMAT: u32 = 1;

/// The first line of a result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The version of this layout: 1.
    pub format: u32,
    /// The experiment's id.
    pub experiment: String,
    /// Simulated, modelled or measured.
    pub kind: ResultKind,
    /// The revision of Nearside.
    pub revision: String,
    /// The machine or machines, each with its topology.
    pub machines: BTreeMap<String, Topology>,
    /// The simulator's constants, by name; empty where nothing was simulated.
    #[serde(default)]
    pub constants: BTreeMap<String, f64>,
}

/// A result file that was read: where it comes from, and its records.
pub type ResultFile = (Head, Vec<Record>);

/// A folder that results cannot be kept in.
#[derive(Debug, Error)]
#[error("cannot keep results in '{}': {source}", path.display())]
pub struct StoreError {
    /// The folder or file.
    path: PathBuf,
    /// Why.
    source: io::Error,
}

/// A folder of result files.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// One open file of a store.
#[derive(Debug)]
pub(crate) struct Results {
    path: PathBuf,
    file: Mutex<File>,
    kept: BTreeMap<Key, Record>,
}

impl Store {
    /// Opens a folder, and makes it where it is not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(folder: &Path) -> Result<Store, StoreError> {
        let failure = |source| StoreError { path: folder.to_path_buf(), source };
        fs::create_dir_all(folder).map_err(failure)?;
        Ok(Store { folder: folder.to_path_buf() })
    }

    /// Every file of the folder, oldest first; what is no result file is passed over.
    ///
    /// # Errors
    /// [`StoreError`]: the folder cannot be read.
    pub fn files(&self) -> Result<Vec<ResultFile>, StoreError> {
        let failure = |source| StoreError { path: self.folder.clone(), source };
        let mut paths: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
                let changed = entry.metadata().and_then(|facts| facts.modified()).map_err(failure)?;
                paths.push((changed, entry.path()));
            }
        }
        paths.sort();
        let read = |path: &PathBuf| File::open(path).ok().and_then(|file| read(&file).ok().flatten());
        Ok(paths.iter().filter_map(|(_, path)| read(path)).map(|(head, records, _)| (head, records)).collect())
    }

    /// Opens the file of this head, with what it has.
    pub(crate) fn results(&self, head: &Head) -> Result<Results, StoreError> {
        let line = serde_json::to_string(head).map_err(|e| self.failure(&self.folder, e.into()))?;
        let name = head.experiment.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = self.folder.join(format!("{name}.{}.{:016x}.jsonl", head.kind, fingerprint(line.as_bytes())));
        let open = || -> io::Result<Results> {
            let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
            let (records, whole) = match read(&file)? {
                Some((found, records, whole)) if found == *head => (records, whole),
                _ => (Vec::new(), 0),
            };
            // What was cut short, or is of another head that happens to have our fingerprint, goes.
            file.set_len(whole)?;
            file.seek(SeekFrom::End(0))?;
            if whole == 0 {
                writeln!(file, "{line}")?;
            }
            let kept = records.into_iter().map(|record| (record.key(), record)).collect();
            Ok(Results { path: path.clone(), file: Mutex::new(file), kept })
        };
        open().map_err(|error| self.failure(&path, error))
    }

    fn failure(&self, path: &Path, source: io::Error) -> StoreError {
        StoreError { path: path.to_path_buf(), source }
    }
}

impl Results {
    /// The record that an earlier run kept.
    pub(crate) fn get(&self, key: &str) -> Option<&Record> {
        self.kept.get(key)
    }

    /// Keeps a record.
    pub(crate) fn add(&self, record: &Record) -> Result<(), StoreError> {
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_string(record)?;
            line.push('\n');
            // One write per record: two threads never mix their lines.
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(line.as_bytes())
        };
        write().map_err(|source| StoreError { path: self.path.clone(), source })
    }
}

/// The head, the whole records, and how many bytes those take; `None` where the first line is no head.
fn read(file: &File) -> io::Result<Option<(Head, Vec<Record>, u64)>> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut whole = reader.read_until(b'\n', &mut line)? as u64;
    let Ok(head) = serde_json::from_slice::<Head>(&line) else { return Ok(None) };
    if head.format != FORMAT || line.last() != Some(&b'\n') {
        return Ok(None);
    }
    let mut records = Vec::new();
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)?;
        match serde_json::from_slice::<Record>(&line) {
            Ok(record) if line.last() == Some(&b'\n') => records.push(record),
            _ => return Ok(Some((head, records, whole))),
        }
        whole += bytes as u64;
    }
}

/// FNV-1a, 64 bits.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
