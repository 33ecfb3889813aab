//! The sequences of a state of the catalog: by name, and by the columns that they belong to.

use std::sync::Arc;

use crate::catalog::sequences::SequenceEntry;
use crate::catalog::{CatalogState, Entry, Name};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

impl CatalogState {
    /// The sequences.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = (&Name, &Arc<SequenceEntry>)> {
        self.entries.iter().filter_map(|(name, entry)| match entry {
            Entry::Sequence(sequence) => Some((name.as_ref(), sequence)),
            _ => None,
        })
    }

    /// A sequence by name.
    pub(crate) fn sequence(&self, name: &Name) -> Result<&Arc<SequenceEntry>> {
        match self.get(name) {
            Some(Entry::Sequence(sequence)) => Ok(sequence),
            Some(other) => Err(Error::plan(
                SqlState::WrongObjectType,
                format!("'{}' is {}, not a sequence", name.shown(), other.described()),
            )),
            None => Err(self.not_found("sequence", name)),
        }
    }

    /// The sequences of a table's columns, or of one of them.
    pub(crate) fn owned_by(&self, table: u64, column: Option<&str>) -> Vec<(Name, Arc<SequenceEntry>)> {
        let is_owned = |sequence: &SequenceEntry| {
            let owner = sequence.owner.as_ref().filter(|owner| owner.table == table);
            owner.is_some_and(|owner| column.is_none_or(|column| owner.column == column))
        };
        let owned = self.sequences().filter(|(_, sequence)| is_owned(sequence));
        owned.map(|(name, sequence)| (name.clone(), Arc::clone(sequence))).collect()
    }
}
