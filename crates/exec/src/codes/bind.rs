//! Binding: what a leaf of a predicate asks of values, as a set of codes of one dictionary.
//!
//! Boundaries are found by binary search, once per dictionary. NULL never compares: its code is in a set only where a
//! NULL test asks for it.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2, "Finding the qualifying matches".

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use arrow::datatypes::DataType;
use storage::{CodedColumn, Dictionary, DictionaryId};

use super::filter::RowTest;
use super::ranges::CodeRanges;
use crate::ExecError;
use crate::plan::expression::CompareOp;

/// What tells codings apart.
pub(crate) type CodingKey = (DictionaryId, bool);

/// How the codes of a column are to be read: its dictionary, and whether code 0 is NULL.
#[derive(Clone)]
pub(crate) struct Coding {
    dictionary: Arc<Dictionary>,
    null_code: bool,
}

impl Coding {
    /// The coding of a column.
    pub(crate) fn of(column: &CodedColumn) -> Coding {
        Coding { dictionary: column.dictionary().clone(), null_code: column.null_code() }
    }

    /// Equal only for columns whose codes mean the same.
    pub(crate) fn key(&self) -> CodingKey {
        (self.dictionary.id(), self.null_code)
    }

    /// The dictionary.
    pub(crate) fn dictionary(&self) -> &Arc<Dictionary> {
        &self.dictionary
    }

    /// Is code 0 NULL?
    pub(crate) fn null_code(&self) -> bool {
        self.null_code
    }

    /// Number of vids.
    pub(crate) fn vids(&self) -> u32 {
        self.dictionary.len() as u32
    }

    /// Number of codes: vids, and one for NULL.
    pub(crate) fn codes(&self) -> u32 {
        self.vids() + u32::from(self.null_code)
    }

    /// The codes of some vids.
    fn of_vids(&self, vids: Range<u32>) -> Range<u32> {
        let shift = u32::from(self.null_code);
        vids.start + shift..vids.end + shift
    }

    fn set(&self, vids: Range<u32>) -> CodeRanges {
        CodeRanges::one(self.of_vids(vids), self.codes())
    }

    /// The codes for which `test` is TRUE, if it is a comparison, a list or a NULL test.
    pub(crate) fn bind(&self, test: &RowTest) -> Result<Option<CodeRanges>, ExecError> {
        if let Some((op, value)) = test.as_compare() {
            return self.bind_compare(op, value.as_ref()).map(Some);
        }
        if let Some((values, negated)) = test.as_in() {
            return self.bind_in(values.as_ref(), negated).map(Some);
        }
        if let Some((_, text, negated)) = test.as_text()
            && let Some(prefix) = text.prefix()
            && *self.dictionary.data_type() == DataType::Utf8View
        {
            return self.bind_prefix(prefix, negated).map(Some);
        }
        Ok(test.as_is_null().map(|negated| match (negated, self.null_code) {
            (true, _) => self.set(0..self.vids()),
            (false, true) => CodeRanges::one(0..1, self.codes()),
            (false, false) => CodeRanges::none(self.codes()),
        }))
    }

    fn bind_compare(&self, op: CompareOp, value: &dyn Array) -> Result<CodeRanges, ExecError> {
        let below = || self.dictionary.lower_bound(value);
        let up_to = || self.dictionary.upper_bound(value);
        let vids = self.vids();
        Ok(match op {
            CompareOp::Eq => self.set(below()?..up_to()?),
            CompareOp::NotEq => self.set(0..below()?).union(&self.set(up_to()?..vids)),
            CompareOp::Lt => self.set(0..below()?),
            CompareOp::LtEq => self.set(0..up_to()?),
            CompareOp::Gt => self.set(up_to()?..vids),
            CompareOp::GtEq => self.set(below()?..vids),
        })
    }

    /// Texts that begin with `prefix` follow each other.
    fn bind_prefix(&self, prefix: &str, negated: bool) -> Result<CodeRanges, ExecError> {
        let bound = |text: &str| self.dictionary.lower_bound(&StringViewArray::from_iter_values([text]));
        let first = bound(prefix)?;
        let end = match behind(prefix) {
            Some(text) => bound(&text)?,
            None => self.vids(),
        };
        Ok(match negated {
            false => self.set(first..end),
            true => self.set(0..first).union(&self.set(end..self.vids())),
        })
    }

    fn bind_in(&self, values: &dyn Array, negated: bool) -> Result<CodeRanges, ExecError> {
        let mut found = Vec::with_capacity(values.len());
        for i in 0..values.len() {
            let value = values.slice(i, 1);
            found.push(self.of_vids(self.dictionary.lower_bound(&value)?..self.dictionary.upper_bound(&value)?));
        }
        found.sort_unstable_by_key(|r| r.start);
        let members = CodeRanges::ascending(found, self.codes());
        if !negated {
            return Ok(members);
        }
        Ok(members.complement().intersect(&self.set(0..self.vids())))
    }
}

/// The first text behind all that begin with `prefix`, if there is one.
fn behind(prefix: &str) -> Option<String> {
    let mut text = prefix.to_string();
    while let Some(last) = text.pop() {
        // The order of UTF-8's bytes is that of characters; what is no character between is stepped over.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn texts_behind_a_prefix() {
        for (prefix, expected) in [
            ("abc", Some("abd")),
            ("az", Some("a{")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("", None),
        ] {
            assert_eq!(behind(prefix).as_deref(), expected);
        }
    }
}
