//! What COMMENT ON has said of something that has a name, and of its parts.

use std::collections::BTreeMap;

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
