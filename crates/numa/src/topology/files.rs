//! Reading small text files under a root, however odd they are.
//!
//! Invariants: no file makes reading panic, hang or take more than [`FILE_BYTES_MAX`]; what cannot be read is absent.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::id_set::{IdSet, trim};
use crate::ids::NodeId;

/// No file of sysfs or procfs that is read here comes near this; a longer one is cut.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// No folder whose names are read here has nearly as many.
const ENTRIES_MAX: usize = 4096;
/// Ids above this are not believed: the largest kernels are built for 8192 cpus and 1024 nodes.
pub(crate) const ID_MAX: u32 = 65_535;

/// A folder that stands for `/`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Tree {
        Tree { root: root.to_path_buf() }
    }

    /// The text of a regular file; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.head(path, FILE_BYTES_MAX)
    }

    /// The beginning of a regular file: some are long, and costly for the kernel to make up to their end.
    pub(crate) fn head(&self, path: &str, bytes_max: u64) -> Option<String> {
        let path = self.path(path);
        // Opening a pipe would wait for a writer that never comes.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn is_dir(&self, path: &str) -> bool {
        self.path(path).is_dir()
    }

    /// A number, such as a package id.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        trim(&self.text(path)?).parse().ok()
    }

    /// A set that is given as a list in one file and as a mask in another.
    pub(crate) fn set(&self, list: &str, mask: &str) -> TwiceTold {
        TwiceTold {
            list: self.text(list).as_deref().and_then(IdSet::parse_list),
            mask: self.text(mask).as_deref().and_then(IdSet::parse_mask),
        }
    }

    /// The numbers N of the entries `<prefix>N` of a folder, up to [`ID_MAX`], whatever the entries are.
    pub(crate) fn numbered(&self, folder: &str, prefix: &str) -> IdSet {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return IdSet::default() };
        let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix(prefix).and_then(canonical_id)).filter(|id| *id <= ID_MAX).collect()
    }

    /// The names of a folder's entries, sorted; no more than [`ENTRIES_MAX`].
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let names = entries.flatten().take(ENTRIES_MAX).filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    /// Where a link points to, as it is written, whether that is there or not.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.path(path)).ok().map(|target| target.to_string_lossy().into_owned())
    }

    /// The nodes that have a folder and are not said to be offline.
    pub(crate) fn online_nodes(&self) -> Vec<NodeId> {
        const NODES: &str = "sys/devices/system/node";
        let there = self.numbered(NODES, "node");
        let online = self.text(&format!("{NODES}/online")).as_deref().and_then(IdSet::parse_list);
        let both = online.map(|online| there.intersect(&online)).filter(|both| !both.is_empty()).unwrap_or(there);
        both.iter().map(NodeId).collect()
    }

    /// A path under the root; `..` and a leading `/` do not lead out of it.
    fn path(&self, path: &str) -> PathBuf {
        let inner: PathBuf = Path::new(path).components().filter(|c| matches!(c, Component::Normal(_))).collect();
        self.root.join(inner)
    }
}

/// A set that the kernel tells in two ways, each as far as it can be read.
#[derive(Debug)]
pub(crate) struct TwiceTold {
    list: Option<IdSet>,
    mask: Option<IdSet>,
}

impl TwiceTold {
    /// The mask where there is one: all kernels have it, and lists were wrong in some (caches on AMD family 15h, the
    /// cpus of nodes with offline cpus).
    pub(crate) fn best(self) -> Option<IdSet> {
        self.mask.or(self.list)
    }

    /// Whether both are told and differ among these ids.
    pub(crate) fn differs(&self, among: &IdSet) -> bool {
        matches!((&self.list, &self.mask), (Some(a), Some(b)) if a.intersect(among) != b.intersect(among))
    }
}

/// A number as the kernel writes it in names: no sign, no leading zeros.
fn canonical_id(text: &str) -> Option<u32> {
    let id: u32 = text.parse().ok()?;
    (id.to_string() == text).then_some(id)
}

/// The value of a line `<key>: <number> kB` in bytes, also where `Node <n> ` stands before the key.
pub(crate) fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let line = trim(line);
        let line = line
            .strip_prefix("Node ")
            .map_or(line, |l| l.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start());
        let mut words = line.strip_prefix(key)?.strip_prefix(':')?.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        match words.next() {
            Some("kB" | "KB") => number.checked_mul(1024),
            None => Some(number),
            Some(_) => None,
        }
    })
}
