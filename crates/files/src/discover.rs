//! From a path, folder or glob to the files it means and the one format they share.
//!
//! # Limits
//! Folders are not searched recursively; a glob with `**` is.

use std::path::{Path, PathBuf};

use crate::error::{FileError, FileErrorKind};
use crate::format::FileFormat;

/// The files behind `path` in the order in which their rows come, and their format.
pub(crate) fn discover(path: &str, wanted: Option<FileFormat>) -> Result<(Vec<PathBuf>, FileFormat), FileError> {
    if path.is_empty() {
        return Err(FileError::new(FileErrorKind::NotFound, "the path is empty; give a file, a folder or a pattern"));
    }
    let literal = Path::new(path);
    let metadata = match std::fs::metadata(literal) {
        Ok(metadata) => metadata,
        // Only what is no file may be a pattern: a name may hold brackets.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && path.contains(['*', '?', '[']) => {
            let files = expand(path)?;
            return with_format(files, wanted);
        }
        Err(e) => return Err(FileError::reading(literal, &e)),
    };
    if metadata.is_dir() {
        let files = list_folder(literal, wanted)?;
        return with_format(files, wanted);
    }
    if !metadata.is_file() {
        let message =
            "is neither a regular file nor a folder, and cannot be read twice as a load needs; copy it to a file";
        return Err(FileError::new(FileErrorKind::Unreadable, message).at(literal));
    }
    with_format(vec![literal.to_path_buf()], wanted)
}

fn expand(pattern: &str) -> Result<Vec<PathBuf>, FileError> {
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let matches = glob::glob_with(pattern, options).map_err(|e| {
        let message = format!("{pattern:?} is not a pattern of files: {}", e.msg);
        FileError::new(FileErrorKind::Options, message)
    })?;
    let mut files = Vec::new();
    for entry in matches {
        let file = entry.map_err(|e| FileError::reading(e.path(), e.error()))?;
        if file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        let message = format!("no file matches the pattern {pattern:?}");
        return Err(FileError::new(FileErrorKind::NotFound, message));
    }
    files.sort();
    Ok(files)
}

/// The files of known formats in `folder`, sorted by name. Names that begin with `.` or `_` are hidden, as the
/// engines that write such folders mean them (`_SUCCESS`, `_metadata`, `.part.tmp`).
fn list_folder(folder: &Path, wanted: Option<FileFormat>) -> Result<Vec<PathBuf>, FileError> {
    let entries = std::fs::read_dir(folder).map_err(|e| FileError::reading(folder, &e))?;
    let mut known = Vec::new();
    let mut others = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| FileError::reading(folder, &e))?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(['.', '_']) || !path.is_file() {
            continue;
        }
        match FileFormat::from_path(&path) {
            Some(format) if wanted.is_none_or(|w| w == format) => known.push(path),
            Some(_) => {}
            None => others.push(path),
        }
    }
    // Who says the format may have files without extensions.
    let mut files = if known.is_empty() && wanted.is_some() { others } else { known };
    if files.is_empty() {
        let what = wanted.map_or("Parquet, CSV, TSV, JSON lines or Arrow IPC".to_string(), |w| w.to_string());
        let message = format!("the folder holds no {what} file");
        return Err(FileError::new(FileErrorKind::NotFound, message).at(folder));
    }
    files.sort();
    Ok(files)
}

fn with_format(files: Vec<PathBuf>, wanted: Option<FileFormat>) -> Result<(Vec<PathBuf>, FileFormat), FileError> {
    if let Some(format) = wanted {
        return Ok((files, format));
    }
    let first = FileFormat::of_file(&files[0])?;
    for file in &files[1..] {
        let format = FileFormat::of_file(file)?;
        if format != first {
            let message = format!(
                "is {format} while {} is {first}; files that are read together must have one format, \
                 so give a pattern such as *.{} or say the format",
                files[0].display(),
                first.extension()
            );
            return Err(FileError::new(FileErrorKind::Format, message).at(file));
        }
    }
    Ok((files, first))
}
