//! What COMMENT ON has said of something that has a name, and of its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CatalogState, Entry, Name, TableEntry};

/// What of a table, or of something else that has a name, a comment is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A column.
    Column,
    /// A constraint.
    Constraint,
    /// An index, that of a key too.
    Index,
}

impl Part {
    /// SQL's word.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Part::Column => "COLUMN",
            Part::Constraint => "CONSTRAINT",
            Part::Index => "INDEX",
        }
    }

    /// What SQL's word says.
    pub(crate) fn of(word: &str) -> Option<Part> {
        [Part::Column, Part::Constraint, Part::Index].into_iter().find(|part| part.sql() == word)
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Comments {
    whole: Option<String>,
    parts: BTreeMap<(Part, String), String>,
}

impl Comments {
    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.parts.is_empty()
    }

    /// Says something of it, or nothing any more. As in PostgreSQL, nothing is what an empty text says.
    pub(crate) fn set(&mut self, part: Option<(Part, &str)>, text: Option<&str>) {
        let text = text.filter(|text| !text.is_empty()).map(String::from);
        match (part, text) {
            (None, text) => self.whole = text,
            (Some((part, name)), Some(text)) => drop(self.parts.insert((part, name.into()), text)),
            (Some((part, name)), None) => drop(self.parts.remove(&(part, name.to_string()))),
        }
    }

    /// A part has another name.
    pub(crate) fn rename(&mut self, part: Part, from: &str, to: &str) {
        if let Some(text) = self.parts.remove(&(part, from.to_string())) {
            self.parts.insert((part, to.into()), text);
        }
    }

    /// Keeps what is said of parts that there are.
    pub(crate) fn retain(&mut self, is_there: impl Fn(Part, &str) -> bool) {
        self.parts.retain(|(part, name), _| is_there(*part, name));
    }

    /// All that was said, of the whole first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<(Part, &str)>, &str)> {
        let whole = self.whole.iter().map(|text| (None, text.as_str()));
        whole.chain(self.parts.iter().map(|((part, name), text)| (Some((*part, name.as_str())), text.as_str())))
    }
}

impl TableEntry {
    /// Forgets what was said of columns, constraints and indexes that are gone.
    pub(crate) fn forget_gone(&mut self) {
        if self.comments.is_empty() {
            return;
        }
        let is_there = |part: Part, name: &str| match part {
            Part::Column => self.base.schema.index_of(name).is_ok(),
            Part::Index => self.indexes.iter().any(|index| index.name == name),
            Part::Constraint => {
                self.indexes.iter().any(|index| index.is_key() && index.name == name)
                    || self.rules.checks.iter().any(|check| check.name == name)
                    || self.rules.foreign_keys.iter().any(|key| key.name == name)
            }
        };
        let mut comments = Comments::clone(&self.comments);
        comments.retain(is_there);
        self.comments = Arc::new(comments);
    }
}

impl Entry {
    /// What was said of it.
    pub(crate) fn comments(&self) -> &Arc<Comments> {
        match self {
            Entry::Table(table) => &table.comments,
            Entry::View(view) => &view.comments,
            Entry::External(files) => &files.comments,
            Entry::Sequence(sequence) => &sequence.comments,
            Entry::Type(of) => &of.comments,
            Entry::Domain(of) => &of.comments,
            Entry::Function(of) => &of.comments,
        }
    }
}

impl CatalogState {
    /// Has something else said of what a name stands for.
    pub(crate) fn set_comments(&mut self, name: &Name, comments: Comments) {
        let comments = Arc::new(comments);
        match self.entries.get_mut(name) {
            Some(Entry::Table(table)) => Arc::make_mut(table).comments = comments,
            Some(Entry::View(view)) => Arc::make_mut(view).comments = comments,
            Some(Entry::External(files)) => Arc::make_mut(files).comments = comments,
            Some(Entry::Sequence(sequence)) => Arc::make_mut(sequence).comments = comments,
            Some(Entry::Type(of)) => Arc::make_mut(of).comments = comments,
            Some(Entry::Domain(of)) => Arc::make_mut(of).comments = comments,
            Some(Entry::Function(of)) => Arc::make_mut(of).comments = comments,
            None => {}
        }
    }
}
