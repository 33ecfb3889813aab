//! Damaged files: whatever is cut off or flipped, reading gives rows or an error that names the file.

use super::*;

/// Reads a damaged file to its end and checks the error's shape; true if there was one.
fn survives(path: &str) -> bool {
    let options = ReadOptions::default();
    let set = match FileSet::open(path, &options) {
        Ok(set) => set,
        Err(e) => return names_file(&e, path),
    };
    for producer in set.producers(2) {
        for batch in producer {
            if let Err(e) = batch {
                return names_file(&e, path);
            }
        }
    }
    false
}

fn names_file(error: &FileError, path: &str) -> bool {
    assert_eq!(error.file.as_deref(), Some(Path::new(path)), "{error}");
    assert!(!error.message.is_empty());
    true
}

/// Cuts and damages a file at many places.
fn fuzz(name: &str, content: &[u8], flips: usize) {
    let folder = Folder::new();
    let mut errors = 0;
    let cuts = (0..content.len()).step_by((content.len() / 200).max(1));
    for cut in cuts {
        let path = folder.put(name, &content[..cut]);
        assert!(survives(&path), "cut to {cut} of {} bytes is still a whole {name}", content.len());
    }
    // A fixed sequence: a failure must be one that can be run again.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for flip in 0..flips {
        let mut damaged = content.to_vec();
        // Footers and headers decide most: half of the flips go to the last tenth.
        let tail = damaged.len() / 10;
        let at = if flip % 2 == 0 { damaged.len() - 1 - next(tail) } else { next(damaged.len()) };
        match flip % 3 {
            0 => damaged[at] ^= 1 << next(8),
            1 => damaged[at] = [0x00, 0xff, 0x7f, 0x80][next(4)],
            _ => {
                let end = (at + 8).min(damaged.len());
                damaged[at..end].fill([0xff, 0x7f, 0x00][next(3)]);
            }
        }
        let path = folder.put(name, &damaged);
        errors += usize::from(survives(&path));
    }
    assert!(errors > flips / 20, "only {errors} of {flips} damages were noticed in {name}");
}

fn stored(format: FileFormat, compression: Compression) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.join("t");
    let options = WriteOptions { row_group_rows: 60, ..WriteOptions::default() };
    store(&path, format, Some(compression), &options, &[every_type(100), every_type(50)]);
    std::fs::read(path).unwrap()
}

#[test]
fn damaged_parquet() {
    for compression in [Compression::None, Compression::Zstd, Compression::Snappy] {
        fuzz("t.parquet", &stored(FileFormat::Parquet, compression), 700);
    }
}

#[test]
fn damaged_ipc_files() {
    for compression in [Compression::None, Compression::Zstd, Compression::Lz4] {
        fuzz("t.arrow", &stored(FileFormat::ArrowIpc, compression), 500);
    }
}

#[test]
fn damaged_ipc_streams() {
    let mut content = Vec::new();
    let batch = every_type(100);
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut content, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    // A stream may end without its end mark, so a cut between messages is a whole, shorter stream.
    let folder = Folder::new();
    for cut in (0..content.len()).step_by(37) {
        survives(&folder.put("t.arrow", &content[..cut]));
    }
    for at in (0..content.len()).step_by(29) {
        for byte in [0x00, 0xff, 0x7f] {
            let mut damaged = content.clone();
            damaged[at] = byte;
            survives(&folder.put("t.arrow", &damaged));
        }
    }
}

#[test]
fn damaged_compressed_text() {
    let folder = Folder::new();
    let content = stored(FileFormat::JsonLines, Compression::Zstd);
    for at in (4..content.len()).step_by(7) {
        let mut damaged = content.clone();
        damaged[at] ^= 0x55;
        survives(&folder.put("t.jsonl.zst", &damaged));
    }
}

#[test]
fn sentences_for_damaged_parquet() {
    let folder = Folder::new();
    let content = stored(FileFormat::Parquet, Compression::Zstd);
    let error = |content: &[u8]| {
        let path = folder.put("t.parquet", content);
        let error = FileSet::open(&path, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Corrupt);
        error.to_string().replace(&path, "t.parquet")
    };
    assert_eq!(error(b""), "t.parquet: is too short to be a Parquet file");
    assert_eq!(
        error(&content[..content.len() / 2]),
        "t.parquet: ends too early to be a Parquet file: its footer is missing, it seems to be truncated"
    );
    assert_eq!(error(b"a,b\n1,2\n3,4\n5,6\n"), "t.parquet: is not a Parquet file; give its format if it has another");
    // Row groups beyond the end: the middle is missing, head and footer are there.
    let gutted = [&content[..100], &content[content.len() - content.len() / 3..]].concat();
    let text = error(&gutted);
    assert!(text.starts_with("t.parquet: cannot be read as Parquet, it seems to be truncated or damaged:"), "{text}");
}
