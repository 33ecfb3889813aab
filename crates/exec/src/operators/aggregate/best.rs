//! [`Best`]: the first or the last row of each group, for `first_value(x ORDER BY y)`, DISTINCT ON and the like.
//!
//! A group keeps the key of its best row as a word, where the row came, and its locator; rows that are better than
//! what their group had are kept in the [`Store`], all others are forgotten at once.

use super::groups::{Groups, Pick, for_each_pair};
use super::store::{Arrival, NOWHERE, Store};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::ColumnInfo;

/// The best row of each group.
#[derive(Default)]
pub(crate) struct Best {
    /// Key, and where the row came.
    keys: Vec<(u128, u64)>,
    /// Locators.
    rows: Vec<u64>,
}

/// Bytes of a group.
pub(super) const GROUP_BYTES: u64 = (size_of::<(u128, u64)>() + size_of::<u64>()) as u64;

impl Best {
    /// As many groups; new ones have no row.
    pub(super) fn resize(&mut self, groups: usize) {
        self.keys.resize(groups, (0, 0));
        self.rows.resize(groups, NOWHERE);
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        GROUP_BYTES * self.rows.capacity() as u64
    }

    /// The locator of each group's row.
    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    fn take(&mut self, group: usize, key: (u128, u64), row: u64, last: bool) -> bool {
        let better = self.rows[group] == NOWHERE || if last { key > self.keys[group] } else { key < self.keys[group] };
        if better {
            (self.keys[group], self.rows[group]) = (key, row);
        }
        better
    }

    /// Takes the rows of a chunk that count.
    pub(super) fn update(
        &mut self,
        (store, last): (&Store, bool),
        (chunk, infos): (&mut Chunk, &[ColumnInfo]),
        groups: Groups<'_>,
        mask: Option<&[bool]>,
        arrival: Arrival,
    ) -> Result<(), ExecError> {
        let words = store.words(chunk, infos).expect("keys are words");
        let mut better: Vec<u32> = Vec::new();
        for (row, &word) in words.iter().enumerate() {
            if mask.is_none_or(|m| m[row]) && self.take(groups.of(row), (word, arrival.of_row(row)), 0, last) {
                better.push(row as u32);
            }
        }
        if better.is_empty() {
            return Ok(());
        }
        // Of a group only the last of these is any use.
        for (number, &row) in better.iter().enumerate() {
            self.rows[groups.of(row as usize)] = number as u64;
        }
        let mut number = 0;
        better.retain(|&row| {
            number += 1;
            self.rows[groups.of(row as usize)] == number - 1
        });
        let of: Vec<usize> = better.iter().map(|&row| groups.of(row as usize)).collect();
        let first = store.keep(chunk, infos, better, arrival)?;
        for (number, group) in of.into_iter().enumerate() {
            self.rows[group] = first + number as u64;
        }
        Ok(())
    }

    /// Adds groups of others: the `i`th that is picked to group `to[i]`, or `i`.
    pub(super) fn merge(&mut self, from: &Best, last: bool, pick: &Pick<'_>, to: Option<&[u32]>) {
        for_each_pair(pick, to, |source, target| {
            if from.rows[source] != NOWHERE {
                self.take(target, from.keys[source], from.rows[source], last);
            }
        });
    }
}
