//! [`TextTest`]: whether a text is LIKE a pattern, without a regular expression.
//!
//! A pattern is cut at its `%` into *stretches* of literal bytes and `_`. One text matches when the first stretch
//! stands at its start, the last one at its end, and the others follow each other between: the leftmost place is always
//! good enough, since a stretch has a fixed number of characters.
//!
//! Texts that lie one after the other in memory are searched as one: [`memchr::memmem`] looks for the literal that is
//! rarest in a sample, every place where it is found is mapped to its row, and only those rows are matched. A place may
//! reach over the end of its row; then the search goes on behind its first byte.
//! [`Expression::evaluate`](crate::Expression::evaluate) is the slow and obvious twin.
//!
//! # Limits
//! Upper and lower case are different letters: ILIKE stays with its owner.

mod pattern;
#[cfg(test)]
mod tests;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use memchr::memmem::Finder;
use storage::Texts;

use crate::mask::Mask;
use pattern::Pattern;

/// Bytes in which literals are counted to tell which is the rarest.
const SAMPLE_BYTES: usize = 16 * 1024;
/// Fewer rows than one in `n` are matched one by one.
const SPARSE: usize = 8;
/// Rows that are stepped over together.
const COUNTED_AT_ONCE: usize = 8;
/// Longest text that a view holds itself.
const INLINE_BYTES_MAX: usize = 12;

/// `x LIKE pattern`, or NOT LIKE; NULL for a NULL.
#[derive(Debug, Clone)]
pub struct TextTest {
    pattern: Pattern,
    negated: bool,
}

impl TextTest {
    /// LIKE, where `%` is any text, `_` any character, and a backslash makes the character behind it mean itself.
    pub fn like(pattern: &str, negated: bool) -> TextTest {
        TextTest { pattern: Pattern::new(pattern), negated }
    }

    /// Is it NOT LIKE?
    pub(crate) fn negated(&self) -> bool {
        self.negated
    }

    /// Where it asks for nothing but how a text begins: that.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.pattern.only_prefix()
    }

    /// TRUE, FALSE or NULL for each text; `None` for an array of another type than `Utf8View`.
    pub fn evaluate(&self, texts: &ArrayRef) -> Option<BooleanArray> {
        let texts = texts.as_string_view_opt()?;
        let mut found = Mask::empty(texts.len());
        match self.pattern.searched() && self.search_views(texts, &mut found) {
            true => {}
            false => {
                found.clear();
                (0..texts.len()).filter(|&i| self.pattern.matches(view_bytes(texts, i))).for_each(|i| found.set(i));
            }
        }
        let found = found.into_boolean_buffer();
        let found = if self.negated { !&found } else { found };
        Some(BooleanArray::new(found, texts.logical_nulls()))
    }

    /// Keeps the rows of `mask` for which LIKE (NOT LIKE, if `negated`) is TRUE. `runs` are all its texts; its bit 0 is
    /// row `start`.
    pub(crate) fn narrow(&self, runs: &[Texts<'_>], start: usize, negated: bool, mask: &mut Mask) {
        if mask.count() * SPARSE < mask.rows() {
            return self.narrow_singly(runs, start, negated, mask);
        }
        let mut found = Mask::empty(mask.rows());
        for run in runs {
            let first = run.first - start;
            self.search(run.bytes, run.offsets, &mut |row| found.set(first + row));
        }
        if negated {
            mask.and_not(&found)
        } else {
            mask.and(&found)
        }
        for run in runs {
            let Some(nulls) = &run.nulls else { continue };
            let invalid = |row: &usize| nulls.is_null(*row);
            (0..nulls.len()).filter(invalid).for_each(|row| mask.unset(run.first - start + row));
        }
    }

    fn narrow_singly(&self, runs: &[Texts<'_>], start: usize, negated: bool, mask: &mut Mask) {
        let mut rows = Vec::with_capacity(mask.count());
        mask.positions_in(&(0..mask.rows()), start, &mut rows);
        let mut rest = runs.iter();
        let Some(mut run) = rest.next() else { return };
        for row in rows {
            let row = row as usize;
            while row - run.first >= run.offsets.len() - 1 {
                let Some(next) = rest.next() else { return };
                run = next;
            }
            let i = row - run.first;
            let text = &run.bytes[run.offsets[i] as usize..run.offsets[i + 1] as usize];
            let null = run.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i));
            if null || self.pattern.matches(text) == negated {
                mask.unset(row - start);
            }
        }
    }

    /// Calls `hit` with every row that matches: row `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    fn search(&self, bytes: &[u8], offsets: &[u32], hit: &mut dyn FnMut(usize)) {
        let rows = offsets.len() - 1;
        let end = offsets[rows] as usize;
        let Some((number, finder)) = self.rarest(bytes, offsets) else {
            let text = |row: usize| &bytes[offsets[row] as usize..offsets[row + 1] as usize];
            return (0..rows).filter(|&row| self.pattern.matches(text(row))).for_each(hit);
        };
        // The leftmost place of what every text has to have first leaves just the rest to be matched.
        let leads = self.pattern.leads(number);
        let needle = finder.needle().len();
        let (mut at, mut row) = (offsets[0] as usize, 0);
        while let Some(distance) = finder.find(&bytes[at..end]) {
            at += distance;
            row = row_of(offsets, row, at);
            let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
            if at + needle > to {
                // It reaches into the next row.
                at += 1;
                continue;
            }
            let matches = match leads {
                true => self.pattern.matches_behind(&bytes[at + needle..to]),
                false => self.pattern.matches(&bytes[from..to]),
            };
            if matches {
                hit(row);
            }
            at = to;
        }
    }

    /// The literal that is found least often in the first bytes, and which it is; `None` where each row is likely to
    /// have all of them.
    fn rarest(&self, bytes: &[u8], offsets: &[u32]) -> Option<(usize, &Finder<'static>)> {
        if !self.pattern.searched() {
            return None;
        }
        let (first, end) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        let sample = &bytes[first..end.min(first + SAMPLE_BYTES)];
        let rows = offsets.partition_point(|&offset| (offset as usize) < first + sample.len());
        let counted = self.pattern.literals().enumerate().map(|found| (found.1.find_iter(sample).count(), found));
        let (count, rarest) =
            counted.min_by_key(|(count, (_, finder))| (*count, usize::MAX - finder.needle().len()))?;
        (count * 2 <= rows).then_some(rarest)
    }

    /// Searches the long texts of an array as one, where they lie one after the other; false where they do not.
    fn search_views(&self, texts: &StringViewArray, found: &mut Mask) -> bool {
        let [buffer] = texts.data_buffers() else { return false };
        // Where each long text ends; short ones take no place.
        let mut ends: Vec<u32> = Vec::with_capacity(texts.len() + 1);
        for (row, &view) in texts.views().iter().enumerate() {
            let len = view as u32;
            let mut last = ends.last().copied();
            if len as usize > INLINE_BYTES_MAX {
                let offset = (view >> 96) as u32;
                if last.is_none() {
                    // Nothing but short texts came before.
                    ends.resize(row + 1, offset);
                    last = Some(offset);
                }
                if last != Some(offset) || offset as usize + len as usize > buffer.len() {
                    return false;
                }
                ends.push(offset + len);
                continue;
            }
            if let Some(last) = last {
                ends.push(last);
            }
            if self.pattern.bytes_min() <= len as usize && self.pattern.matches(view_bytes(texts, row)) {
                found.set(row);
            }
        }
        if !ends.is_empty() {
            self.search(buffer.as_slice(), &ends, &mut |row| found.set(row));
        }
        true
    }
}

/// The row, from `row` on, that has the byte at `at`; rows without bytes have none.
fn row_of(offsets: &[u32], row: usize, at: usize) -> usize {
    // Places that are found lie close to each other, and counting some at a time takes no branch that is hard to tell.
    let (mut low, at) = (row, at as u32);
    while let Some(next) = offsets.get(low + 1..low + 1 + COUNTED_AT_ONCE) {
        let passed = next.iter().map(|&offset| u32::from(offset <= at)).sum::<u32>() as usize;
        low += passed;
        if passed < COUNTED_AT_ONCE {
            return low;
        }
    }
    low + offsets[low + 1..].iter().take_while(|&&offset| offset <= at).count()
}

/// The bytes of a text.
fn view_bytes(texts: &StringViewArray, row: usize) -> &[u8] {
    if texts.is_null(row) { &[] } else { texts.value(row).as_bytes() }
}
