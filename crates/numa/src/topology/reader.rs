//! A tree that is being read: the files, and what was odd about them.

use std::collections::BTreeSet;

use super::files::{ID_MAX, Tree};
use crate::id_set::IdSet;

pub(super) const CPUS: &str = "sys/devices/system/cpu";
/// More warnings than this are counted, not spelled out.
const WARNINGS_MAX: usize = 50;
/// The first cpu's part of `cpuinfo` is shorter than this; making all of it takes the kernel long on large machines.
pub(super) const FIRST_CPU_BYTES: u64 = 16 << 10;

/// Distinct warnings in the order they arose.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    list: Vec<String>,
    seen: BTreeSet<String>,
    more: usize,
}

impl Warnings {
    pub(super) fn add(&mut self, warning: String) {
        if self.list.len() >= WARNINGS_MAX {
            self.more += 1;
        } else if self.seen.insert(warning.clone()) {
            self.list.push(warning);
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.list.push(format!("{} more warnings like these", self.more));
        }
        self.list
    }
}

/// A tree being read and what was odd about it so far. Its nodes are read in `nodes.rs`.
pub(super) struct Reader {
    pub(super) tree: Tree,
    pub(super) warnings: Warnings,
    /// Nodes whose memory is not told.
    pub(super) memory_unknown: IdSet,
    /// Whether this is the machine that runs us.
    pub(super) live: bool,
}

impl Reader {
    /// A list file cut to believable ids; `None` where it is missing or no list.
    pub(super) fn believed_list(&mut self, path: &str, instead: &str) -> Option<IdSet> {
        let text = self.tree.text(path)?;
        let Some(list) = IdSet::parse_list(&text) else {
            self.warnings.add(format!("{path} is not a list of numbers; {instead}"));
            return None;
        };
        let believed = list.intersect(&IdSet::from_ranges(vec![(0, ID_MAX)]));
        if believed != list {
            self.warnings.add(format!("{path} names numbers above {ID_MAX}; they are left out"));
        }
        Some(believed)
    }
}

/// `cpu 3` or `cpus 3-5,7`.
pub(super) fn named(what: &str, ids: &IdSet) -> String {
    format!("{what}{} {ids}", if ids.len() == 1 { "" } else { "s" })
}
