//! Looking whether a folder is whole.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use storage::Parallel;

use super::Folder;
use super::history::{is_followed, read_history};
use super::open::{lock, read_folder};
use crate::data::{DataFile, OpenData, data_path};
use crate::error::{OpenError, ReadError};
use crate::files::Files;
use crate::log::{LogPlace, Replay, bounds};
use crate::manifest::Manifest;
use crate::point::Lsn;

/// What a folder has that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckReport {
    /// Files that were read.
    pub files: usize,
    /// Their bytes, those of the log left out.
    pub bytes: u64,
    /// Segments of the checkpoint.
    pub segments: usize,
    /// Records behind the checkpoint.
    pub records: u64,
    /// The last one, or the last that the checkpoint has.
    pub last: Lsn,
    /// Checkpoints before the last one that it can be restored from.
    pub history: usize,
    /// The earliest point of time that it can be restored to, in microseconds since 1970.
    pub restorable_from_us: u64,
}

/// The first damage that was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CheckFailure {
    /// What and where.
    pub error: OpenError,
    /// The segment of the checkpoint that it is in, where it is in one.
    pub segment: Option<usize>,
    /// The caller's catalog, where it could be read: it tells whose segment that is.
    pub catalog: Option<Vec<u8>>,
}

impl Folder {
    /// Reads every byte of a folder that nobody has open, and changes none. `parallel` lends the threads.
    ///
    /// # Errors
    /// [`CheckFailure`]: of several damages that of the manifest, else of the log, else of the first file of data.
    pub fn check(
        files: &Arc<dyn Files>,
        path: &Path,
        parallel: &dyn Parallel,
    ) -> Result<CheckReport, Box<CheckFailure>> {
        let plain = |error: OpenError| Box::new(CheckFailure { error, segment: None, catalog: None });
        if !Folder::exists(&**files, path).map_err(|error| plain(error.into()))? {
            return Err(plain(OpenError::NotADatabase { path: path.to_path_buf() }));
        }
        let _lock = lock(&**files, path).map_err(plain)?;
        let (manifest, chain, tail) = read_folder(files, path).map_err(plain)?;
        let of = |error: ReadError, segment| {
            let catalog = Some(manifest.catalog.clone());
            Box::new(CheckFailure { error: error.into(), segment, catalog })
        };
        let older = read_history(&**files, path, &manifest).map_err(|error| of(error, None))?;
        let older: Vec<Manifest> = older.into_iter().collect::<Result<_, _>>().map_err(|error| of(error, None))?;
        let followed = older.iter().zip(older.iter().skip(1).chain([&manifest]));
        let mut followed = followed.map(|(older, next)| is_followed(path, older, Some(next)));
        followed.try_for_each(|followed| followed).map_err(|error| of(error, None))?;
        let place = LogPlace { files: Arc::clone(files), path: path.to_path_buf(), folder: manifest.folder };
        let (chain, first) = match older.first() {
            Some(first) => {
                let chain = crate::log::chain(&place, first.log_file).map_err(|error| of(error, None))?;
                (chain, first.next())
            }
            None => (chain, manifest.next()),
        };
        let mut records = 0;
        for record in Replay::new(place, bounds(&chain, tail.next), first) {
            let record = record.map_err(|error| of(error, None))?;
            records += u64::from(record.lsn >= manifest.next());
        }
        let mut bytes =
            check_data(&**files, path, &manifest, &manifest.files, parallel).map_err(|(number, error)| {
                let segment = number.and_then(|number| manifest.segment_of(number));
                of(error, segment)
            })?;
        let mut checked: HashSet<u64> = manifest.files.iter().map(|file| file.number).collect();
        for older in &older {
            let fresh = older.files.iter().filter(|file| checked.insert(file.number));
            let fresh: Vec<DataFile> = fresh.copied().collect();
            bytes += check_data(&**files, path, older, &fresh, parallel).map_err(|(_, error)| of(error, None))?;
        }
        Ok(CheckReport {
            files: 1 + older.len() + chain.len() + checked.len(),
            bytes,
            segments: manifest.segments.len(),
            records,
            last: Lsn(tail.next.0 - 1),
            history: older.len(),
            restorable_from_us: older.first().unwrap_or(&manifest).time_us,
        })
    }
}

/// Reads files of data of a checkpoint; of those that are damaged the one that is listed first is told.
fn check_data(
    files: &dyn Files,
    path: &Path,
    manifest: &Manifest,
    of: &[DataFile],
    parallel: &dyn Parallel,
) -> Result<u64, (Option<u64>, ReadError)> {
    let bytes = AtomicU64::new(0);
    let first: Mutex<Option<(usize, ReadError)>> = Mutex::new(None);
    let check = |place: usize| {
        let file = &of[place];
        let checked = OpenData::open(files, &data_path(path, file.number), manifest.folder, file);
        let checked = checked.and_then(|data| {
            check_items(&data, manifest, file.number)?;
            data.check(&|_| true).map_err(|error| error.expect("nobody ends it"))
        });
        bytes.fetch_add(file.bytes, Ordering::Relaxed);
        if let Err(error) = checked {
            let mut first = first.lock();
            if first.as_ref().is_none_or(|(before, _)| place < *before) {
                *first = Some((place, error));
            }
        }
    };
    let ran = parallel.for_each(of.len(), &|_| None, &check);
    if let Some((place, error)) = first.into_inner() {
        return Err((Some(of[place].number), error));
    }
    ran.map_err(|error| (None, ReadError::Store(error.into())))?;
    Ok(bytes.into_inner())
}

/// Whether a file has the items that segments refer to.
fn check_items(data: &OpenData, manifest: &Manifest, number: u64) -> Result<(), ReadError> {
    let columns = manifest.segments.iter().flat_map(|segment| &segment.columns);
    let places = columns.flat_map(|column| [Some(column.place), column.dictionary]).flatten();
    for place in places.filter(|place| place.file == number) {
        data.item(place.item)?;
    }
    Ok(())
}
