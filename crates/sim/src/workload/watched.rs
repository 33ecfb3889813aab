//! What a run looks like while it goes on: where columns lie and what was read of them, every so often.
//!
//! # Limits
//! What a statement read counts from its end on, so a look sees nothing of those that run.

use std::collections::BTreeMap;

use super::columns::Ranges;

/// What was done from the beginning of a run up to a point of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// When, in virtual time.
    pub at_ns: u64,
    /// Statements that ended.
    pub statements: u64,
    /// Bytes that went to another node.
    pub moved_bytes: f64,
    /// Where the columns lie.
    pub lies: Vec<Ranges>,
    /// Bytes that were read of each column, by the place of the node that they lie on.
    pub read: Vec<Vec<f64>>,
    /// Bytes that were read, by the places of the node that they lie on and of the one that the tasks were to run on.
    pub pairs: BTreeMap<(usize, usize), f64>,
}

/// Looks every so often.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    every_ns: u64,
    so_far: Look,
    looks: Vec<Look>,
}

impl Watched {
    pub(super) fn new(every_ns: u64, columns: usize, nodes: usize) -> Watched {
        let so_far = Look { read: vec![vec![0.0; nodes]; columns], ..Look::default() };
        Watched { every_ns: every_ns.max(1), so_far, looks: Vec::new() }
    }

    /// A task has touched a column on a node, and was to run near one.
    pub(super) fn touched(&mut self, column: usize, node: usize, near: usize, bytes: f64) {
        self.so_far.read[column][node] += bytes;
        *self.so_far.pairs.entry((node, near)).or_default() += bytes;
    }

    /// Bytes went to another node.
    pub(super) fn moved(&mut self, bytes: f64) {
        self.so_far.moved_bytes += bytes;
    }

    /// A statement has ended: looks that were due before are made.
    pub(super) fn ended(&mut self, now_ns: u64, lies: &[Ranges]) {
        while self.looks.len() as u64 * self.every_ns <= now_ns {
            let at_ns = self.looks.len() as u64 * self.every_ns;
            self.looks.push(Look { at_ns, lies: lies.to_vec(), ..self.so_far.clone() });
        }
        self.so_far.statements += 1;
    }

    pub(super) fn looks(&self) -> &[Look] {
        &self.looks
    }
}
