//! Going back to a point of time: a copy of the folder as it was.

use std::path::Path;
use std::sync::Arc;

use super::copy::{copy_file, empty_folder};
use super::history::{is_followed, read_history};
use super::open::{Span, last_until, lock, read_folder};
use super::{Folder, FolderOptions};
use crate::data::{OpenData, Pace, data_path};
use crate::error::{Health, OpenError, WriteError};
use crate::files::Files;
use crate::log::{LogFile, LogPlace, chain, read_end};
use crate::manifest::Manifest;
use crate::point::{Lsn, Until};

/// What was copied to go back to a point of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreReport {
    /// The last record that the copy has.
    pub last: Lsn,
    /// When it was written, or the checkpoint before it was made, in microseconds since 1970.
    pub time_us: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

impl Folder {
    /// Copies a folder that nobody has open to `to`, which is empty or not there, as it was at a point of time: what is
    /// there then is opened like any folder. What is copied is checked.
    ///
    /// # Errors
    /// [`OpenError`]: [`OpenError::OutOfLog`] for a time that the folder does not go back to;
    /// [`WriteError::NotWhole`] where writing the copy failed.
    pub fn restore(
        files: &Arc<dyn Files>,
        from: &Path,
        to: &Path,
        until: Until,
        paced: &Pace<'_>,
    ) -> Result<RestoreReport, OpenError> {
        if !Folder::exists(&**files, from)? {
            return Err(OpenError::NotADatabase { path: from.to_path_buf() });
        }
        let _lock = lock(&**files, from)?;
        let (newest, _, _) = read_folder(files, from)?;
        let mut damaged = None;
        let older = read_history(&**files, from, &newest)?.into_iter();
        let older = older.filter_map(|older| older.map_err(|error| damaged = Some(error)).ok());
        let mut manifests: Vec<Manifest> = older.collect();
        manifests.push(newest);
        let is_before = |manifest: &&Manifest| match until {
            Until::Lsn(lsn) => manifest.contains <= lsn.0,
            Until::TimeUs(time_us) => manifest.time_us <= time_us,
        };
        // Where even the first is later, it says so.
        let at = manifests.iter().rposition(|manifest| is_before(&manifest)).unwrap_or(0);
        let base = &manifests[at];
        // Only what comes between it and the time can make it the wrong one.
        is_followed(from, base, manifests.get(at + 1)).map_err(|missing| damaged.unwrap_or(missing))?;
        let place = LogPlace { files: Arc::clone(files), path: from.to_path_buf(), folder: base.folder };
        let chain = chain(&place, base.log_file)?;
        let tail = read_end(&place, chain[chain.len() - 1])?;
        let span = last_until(&place, base, &chain, &tail, until)?;
        copied((files, paced), (from, to), base, (&place, &chain), span).map_err(|error| match error {
            // All that is written is the copy's: the folder itself is not harmed.
            OpenError::Write(WriteError::Stopped { cause }) => OpenError::Write(WriteError::NotWhole { cause }),
            other => other,
        })
    }
}

/// Copies a checkpoint and the log behind it, up to where `span` ends.
fn copied(
    (files, paced): (&Arc<dyn Files>, &Pace<'_>),
    (from, to): (&Path, &Path),
    base: &Manifest,
    (place, chain): (&LogPlace, &[LogFile]),
    Span { last, time_us }: Span,
) -> Result<RestoreReport, OpenError> {
    let health = Health::default();
    empty_folder(&**files, to, &health)?;
    let mut bytes = 0;
    for file in &base.files {
        let path = data_path(from, file.number);
        let data = OpenData::open(&**files, &path, base.folder, file)?;
        data.check(paced).map_err(|error| error.map_or(OpenError::from(WriteError::Cancelled), OpenError::from))?;
        bytes += copy_file(&**files, &path, &data_path(to, file.number), None, paced, &health)?;
    }
    let copied = place.elsewhere(to);
    for file in chain.iter().enumerate().filter(|(at, file)| *at == 0 || file.first <= last).map(|(_, file)| file) {
        let (path, to) = (place.file(file.number), copied.file(file.number));
        bytes += copy_file(&**files, &path, &to, None, paced, &health)?;
    }
    base.put(&**files, to, &health)?;
    let options = FolderOptions { until: Some(Until::Lsn(last)), ..FolderOptions::default() };
    Folder::open(Arc::clone(files), to, &options)?.close()?;
    Ok(RestoreReport { last, time_us, bytes })
}
