//! The manifest: what a checkpoint consists of. It is written beside the old one, synced, and takes its name.

use std::collections::HashSet;
use std::path::Path;

use crate::data::{DataFile, ItemPlace};
use crate::error::{Health, ReadError, WriteError, failed};
use crate::files::{Files, read_exact_at, write_all_at};
use crate::format::{HEAD_BYTES, Head, Reader, Writer, crc};
use crate::point::Lsn;

const MAGIC: [u8; 8] = *b"NSIDEMAN";
/// The name of the manifest.
pub(crate) const NAME: &str = "manifest";
/// What it is called until it is whole.
const FRESH: &str = "manifest.new";
/// No dictionary.
const NONE: u64 = 0;

/// What a checkpoint consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The number of the folder.
    pub(crate) folder: u64,
    /// Counts checkpoints.
    pub(crate) number: u64,
    /// The last record that it has; the log goes on behind it.
    pub(crate) contains: u64,
    /// The file of the log in which the next record is.
    pub(crate) log_file: u64,
    /// When it was made: no record that it has is later, and none behind it earlier.
    pub(crate) time_us: u64,
    /// In the order of their numbers.
    pub(crate) files: Vec<DataFile>,
    pub(crate) segments: Vec<SegmentEntry>,
    /// The caller's.
    pub(crate) catalog: Vec<u8>,
}

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) rows: u32,
    pub(crate) columns: Vec<ColumnEntry>,
}

/// A column of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnEntry {
    pub(crate) place: ItemPlace,
    pub(crate) dictionary: Option<ItemPlace>,
}

impl Manifest {
    /// The record that replaying begins with.
    pub(crate) fn next(&self) -> Lsn {
        Lsn(self.contains + 1)
    }

    /// The file of this number.
    pub(crate) fn file(&self, number: u64) -> Option<&DataFile> {
        let place = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        self.files.get(place)
    }

    /// The first segment that has something of a file.
    pub(crate) fn segment_of(&self, file: u64) -> Option<usize> {
        let of = |place: ItemPlace| place.file == file;
        let uses = |column: &ColumnEntry| of(column.place) || column.dictionary.is_some_and(of);
        self.segments.iter().position(|segment| segment.columns.iter().any(uses))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Writer::default();
        body.u64(self.contains);
        body.u64(self.log_file);
        body.u64(self.time_us);
        body.u32(self.files.len() as u32);
        for file in &self.files {
            body.u64(file.number);
            body.u64(file.bytes);
            body.u32(file.crc);
        }
        body.u32(self.segments.len() as u32);
        for segment in &self.segments {
            body.u32(segment.rows);
            body.u32(segment.columns.len() as u32);
            for column in &segment.columns {
                let dictionary = column.dictionary.unwrap_or(ItemPlace { file: NONE, item: 0 });
                for place in [column.place, dictionary] {
                    body.u64(place.file);
                    body.u32(place.item);
                }
            }
        }
        body.counted(&self.catalog);
        let fields = [body.0.len() as u64, 0, 0];
        let head = Head { magic: MAGIC, body_crc: crc(&body.0), folder: self.folder, number: self.number, fields };
        [head.encode().as_slice(), &body.0].concat()
    }

    /// Reads the manifest of the file at `path`, whose bytes these are.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Manifest, ReadError> {
        let head = Head::decode(bytes, &MAGIC, path)?;
        let body = &bytes[HEAD_BYTES..];
        if body.len() as u64 != head.fields[0] || crc(body) != head.body_crc {
            return Err(ReadError::damaged(path, HEAD_BYTES as u64, "the manifest does not match its checksum"));
        }
        let manifest = body_of(&head, body);
        manifest.ok_or_else(|| ReadError::damaged(path, HEAD_BYTES as u64, "the manifest is none"))
    }

    /// The manifest of a folder; `None` where there is none.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn read(files: &dyn Files, folder: &Path) -> Result<Option<Manifest>, ReadError> {
        match Manifest::read_file(files, &folder.join(NAME)) {
            Err(ReadError::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// The manifest of a file.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn read_file(files: &dyn Files, path: &Path) -> Result<Manifest, ReadError> {
        let io = |error| ReadError::io(path, error);
        let file = files.open(path).map_err(io)?;
        let mut bytes = vec![0; file.len_bytes().map_err(io)? as usize];
        read_exact_at(&*file, 0, &mut bytes).map_err(io)?;
        Manifest::decode(&bytes, path)
    }

    /// Puts this one in the place of the one that is there. The names of other files are on the disk when it is.
    ///
    /// # Errors
    /// [`WriteError`]: but for [`WriteError::Stopped`], the old one is still there.
    pub(crate) fn put(&self, files: &dyn Files, folder: &Path, health: &Health) -> Result<(), WriteError> {
        let (path, fresh) = (folder.join(NAME), folder.join(FRESH));
        self.write(files, &fresh, &path, health)?;
        files.sync_folder(folder).map_err(|error| health.stop(folder, "syncing the folder", &error))?;
        files.rename(&fresh, &path).map_err(|error| {
            let _ = files.remove(&fresh);
            failed(files, health, &path, "naming the file", &error)
        })?;
        files.sync_folder(folder).map_err(|error| health.stop(folder, "syncing the folder", &error))
    }

    /// Writes it to a file in the place of one that never became whole; its bytes are on the disk then, its name may
    /// not be. Errors are told of `shown`.
    ///
    /// # Errors
    /// [`WriteError`]: but for [`WriteError::Stopped`], there is no such file.
    pub(crate) fn write(
        &self,
        files: &dyn Files,
        path: &Path,
        shown: &Path,
        health: &Health,
    ) -> Result<(), WriteError> {
        let bytes = self.encode();
        if let Err(error) = files.remove(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(health.stop(path, "removing", &error));
        }
        let refused = |what: &str, error: std::io::Error| {
            let _ = files.remove(path);
            failed(files, health, shown, what, &error)
        };
        let file = files.create(path, bytes.len() as u64).map_err(|error| refused("making the file", error))?;
        write_all_at(&*file, 0, &bytes).map_err(|error| refused("writing", error))?;
        file.sync_data().map_err(|error| health.stop(shown, "syncing", &error))
    }
}

fn body_of(head: &Head, body: &[u8]) -> Option<Manifest> {
    let mut reader = Reader::new(body);
    let mut manifest = Manifest { folder: head.folder, number: head.number, ..Manifest::default() };
    manifest.contains = reader.u64()?;
    manifest.log_file = reader.u64()?;
    manifest.time_us = reader.u64()?;
    for _ in 0..reader.count(20)? {
        manifest.files.push(DataFile { number: reader.u64()?, bytes: reader.u64()?, crc: reader.u32()? });
    }
    manifest.files.sort_unstable_by_key(|file| file.number);
    let known: HashSet<u64> = manifest.files.iter().map(|file| file.number).collect();
    let place = |reader: &mut Reader<'_>| Some(ItemPlace { file: reader.u64()?, item: reader.u32()? });
    for _ in 0..reader.count(8)? {
        let rows = reader.u32()?;
        let mut columns = Vec::new();
        for _ in 0..reader.count(24)? {
            let column = place(&mut reader).filter(|place| known.contains(&place.file))?;
            let dictionary = Some(place(&mut reader)?).filter(|place| place.file != NONE);
            if dictionary.is_some_and(|place| !known.contains(&place.file)) {
                return None;
            }
            columns.push(ColumnEntry { place: column, dictionary });
        }
        manifest.segments.push(SegmentEntry { rows, columns });
    }
    manifest.catalog = reader.counted()?.to_vec();
    reader.is_empty().then_some(manifest)
}
