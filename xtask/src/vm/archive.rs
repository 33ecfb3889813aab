//! Writes a cpio archive in the `newc` form, which Linux unpacks as its first root file system.
//!
//! Format: Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`: a header of ASCII hexadecimal fields,
//! the name with a zero byte, the content; header with name and content are each padded to four bytes; an entry
//! `TRAILER!!!` ends it.
//!
//! # Limits
//! Plain files and folders of user 0; a file has less than 4 GiB. Not compressed: the kernel would take longer to
//! unpack than QEMU takes to load it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;

/// An archive that is being written.
pub struct Archive<W> {
    out: W,
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An archive without entries.
    pub fn new(out: W) -> Archive<W> {
        Archive { out, inode: 0, folders: BTreeSet::new() }
    }

    /// A folder and those above it; absolute or not, paths begin at the root. A folder that is there already is left
    /// alone.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        let mut whole = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            whole = if whole.is_empty() { part.to_owned() } else { format!("{whole}/{part}") };
            if self.folders.insert(whole.clone()) {
                self.entry(&whole, FOLDER, &[])?;
            }
        }
        Ok(())
    }

    /// A file with these permissions and this content, and the folders above it.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        let path = self.folders_above(path)?;
        self.entry(&path, FILE | permissions, content)
    }

    /// A copy of a file of the host, and the folders above it.
    pub fn copy(&mut self, path: &str, from: &Path) -> io::Result<()> {
        let content = std::fs::read(from)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", from.display())))?;
        self.file(path, 0o755, &content)
    }

    /// Ends the archive and gives back where it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn folders_above(&mut self, path: &str) -> io::Result<String> {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder)?;
        }
        Ok(path.to_owned())
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_large =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is too large for a cpio archive"));
        let size = u32::try_from(content.len()).map_err(|_| too_large())?;
        let name_size = u32::try_from(name.len() + 1).map_err(|_| too_large())?;
        self.inode += 1;
        // Magic, then: inode, mode, user, group, links, time, size, device (2), device of a node (2), name, check
        // (unused).
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = String::from("070701");
        for field in fields {
            header += &format!("{field:08X}");
        }
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(header.len() + name.len() + 1)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, modes and contents, read by a second, simpler reading of the format.
    fn read(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&archive[at..at + 6], b"070701");
            let field = |index: usize| {
                let begin = at + 6 + index * 8;
                u32::from_str_radix(std::str::from_utf8(&archive[begin..begin + 8]).unwrap(), 16).unwrap()
            };
            let mode = field(1);
            let size = field(6) as usize;
            let name_size = field(11) as usize;
            let name = String::from_utf8(archive[at + 110..at + 110 + name_size - 1].to_vec()).unwrap();
            let content = (at + 110 + name_size).div_ceil(4) * 4;
            if name == "TRAILER!!!" {
                assert_eq!(content, archive.len());
                return entries;
            }
            entries.push((name, mode, archive[content..content + size].to_vec()));
            at = (content + size).div_ceil(4) * 4;
        }
    }

    #[test]
    fn entries_are_read_back() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/init", 0o755, b"#!/bin/sh\n").unwrap();
        archive.file("a/b/c", 0o644, b"xyz").unwrap();
        archive.file("a/b/empty", 0o644, b"").unwrap();
        archive.folder("a/d").unwrap();
        let entries = read(&archive.finish().unwrap());
        let entries: Vec<(&str, u32, &[u8])> = entries.iter().map(|(n, m, c)| (n.as_str(), *m, c.as_slice())).collect();
        assert_eq!(
            entries,
            [
                ("init", 0o100_755, &b"#!/bin/sh\n"[..]),
                ("a", FOLDER, b""),
                ("a/b", FOLDER, b""),
                ("a/b/c", 0o100_644, b"xyz"),
                ("a/b/empty", 0o100_644, b""),
                ("a/d", FOLDER, b""),
            ]
        );
    }
}
