//! Lists as PostgreSQL's arrays, which have one length per dimension.

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use std::sync::Arc;

use super::column::{Unwritable, Values};
use super::{text, types};
use crate::wire::Format;

/// The lists of a column.
pub struct List {
    /// Where each begins and ends.
    offsets: Vec<usize>,
    elements: Elements,
    /// The type of what stands in the innermost.
    oid: u32,
}

enum Elements {
    Lists(Box<List>, Option<arrow::buffer::NullBuffer>),
    Values(Box<Values>),
}

impl List {
    /// The lists of an array; see [`Values::new`].
    pub fn new(array: &ArrayRef, zone: Tz) -> Result<List, Unwritable> {
        let element = types::element(array.data_type()).cloned().unwrap_or(DataType::Null);
        let plain = DataType::LargeList(Arc::new(Field::new_list_field(element.clone(), true)));
        let lists = if *array.data_type() == plain { Arc::clone(array) } else { cast(array, &plain)? };
        let lists = lists.as_list::<i64>();
        // Offsets of an array are not negative.
        let offsets = lists.offsets().iter().map(|offset| *offset as usize).collect();
        let values = lists.values();
        let elements = match types::element(&element) {
            Some(_) => Elements::Lists(Box::new(List::new(values, zone)?), values.logical_nulls()),
            None => Elements::Values(Box::new(Values::new(values, zone)?)),
        };
        let oid = types::of_type(types::innermost(&element).unwrap_or(&element)).oid;
        Ok(List { offsets, elements, oid })
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// `{1,NULL,"a b"}`.
    pub fn write_text(&self, row: usize, to: &mut Vec<u8>) -> Result<(), Unwritable> {
        let mut value = Vec::new();
        to.push(b'{');
        let range = self.range(row);
        for at in range.clone() {
            if at > range.start {
                to.push(b',');
            }
            match &self.elements {
                Elements::Lists(_, nulls) if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) => {
                    to.extend(b"NULL");
                }
                Elements::Lists(lists, _) => lists.write_text(at, to)?,
                Elements::Values(values) if values.is_null(at) => to.extend(b"NULL"),
                Elements::Values(values) => {
                    value.clear();
                    values.write_text(at, &mut value)?;
                    quoted(&value, to);
                }
            }
        }
        to.push(b'}');
        Ok(())
    }

    /// Dimensions, then values.
    ///
    /// # Errors
    /// Lists within one that are of several lengths, or NULL.
    pub fn write_binary(&self, row: usize, to: &mut Vec<u8>) -> Result<(), Unwritable> {
        let mut dimensions = Vec::new();
        let leaves = self.leaves(row, 0, &mut dimensions)?;
        if leaves.is_empty() {
            dimensions.clear();
        }
        let values = self.innermost();
        let has_null = leaves.iter().any(|at| values.is_null(*at));
        to.extend((dimensions.len() as i32).to_be_bytes());
        to.extend(i32::from(has_null).to_be_bytes());
        to.extend(self.oid.to_be_bytes());
        for length in dimensions {
            let length = i32::try_from(length).map_err(|_| Unwritable("a list is too long".into()))?;
            to.extend(length.to_be_bytes());
            to.extend(1_i32.to_be_bytes());
        }
        leaves.into_iter().try_for_each(|at| values.write_sized(at, Format::Binary, to))
    }

    fn innermost(&self) -> &Values {
        match &self.elements {
            Elements::Lists(lists, _) => lists.innermost(),
            Elements::Values(values) => values,
        }
    }

    /// Where the values of a list stand; `dimensions` has the lengths that lists of each depth must have.
    fn leaves(&self, row: usize, depth: usize, dimensions: &mut Vec<usize>) -> Result<Vec<usize>, Unwritable> {
        let range = self.range(row);
        match dimensions.get(depth) {
            None => dimensions.push(range.len()),
            Some(length) if *length == range.len() => {}
            Some(_) => {
                return Err(Unwritable(
                    "lists within a list are of several lengths, which PostgreSQL's arrays in binary cannot be".into(),
                ));
            }
        }
        match &self.elements {
            Elements::Values(_) => Ok(range.collect()),
            Elements::Lists(lists, nulls) => {
                let mut all = Vec::new();
                for at in range {
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                        return Err(Unwritable("a NULL in the place of a list within a list".into()));
                    }
                    all.extend(lists.leaves(at, depth + 1, dimensions)?);
                }
                Ok(all)
            }
        }
    }
}

/// An element, in quotes where it would be read as something else without.
fn quoted(value: &[u8], to: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || text::is_blank(*byte);
    if !value.is_empty() && !value.eq_ignore_ascii_case(b"null") && !value.iter().any(is_special) {
        return to.extend(value);
    }
    to.push(b'"');
    for &byte in value {
        if matches!(byte, b'"' | b'\\') {
            to.push(b'\\');
        }
        to.push(byte);
    }
    to.push(b'"');
}

/// A list that is read from a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// NULL.
    Null,
    /// A value.
    Value(String),
    /// A list within the list.
    List(Vec<Item>),
}

/// How deep lists may nest, as PostgreSQL's dimensions.
const DEPTH_MAX: usize = 6;

/// Takes `{1,NULL,"a b"}` apart.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut rest = text.trim_matches(char::is_whitespace);
    let wrong = || format!("malformed array literal: \"{text}\"");
    let items = list(&mut rest, 0).ok_or_else(wrong)?;
    if rest.is_empty() { Ok(items) } else { Err(wrong()) }
}

fn list(rest: &mut &str, depth: usize) -> Option<Vec<Item>> {
    if depth >= DEPTH_MAX {
        return None;
    }
    *rest = rest.strip_prefix('{')?.trim_start();
    let mut items = Vec::new();
    if let Some(behind) = rest.strip_prefix('}') {
        *rest = behind;
        return Some(items);
    }
    loop {
        items.push(match rest.chars().next()? {
            '{' => Item::List(list(rest, depth + 1)?),
            '"' => Item::Value(in_quotes(rest)?),
            _ => bare(rest)?,
        });
        *rest = rest.trim_start();
        match rest.chars().next()? {
            ',' => *rest = rest[1..].trim_start(),
            '}' => {
                *rest = &rest[1..];
                return Some(items);
            }
            _ => return None,
        }
    }
}

fn in_quotes(rest: &mut &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = rest[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &rest[1 + at + 1..];
                return Some(value);
            }
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

fn bare(rest: &mut &str) -> Option<Item> {
    let mut value = String::new();
    let mut was_escaped = false;
    let mut chars = rest.char_indices();
    let end = loop {
        let (at, c) = chars.next()?;
        match c {
            ',' | '}' => break at,
            '{' | '"' => return None,
            '\\' => {
                was_escaped = true;
                value.push(chars.next()?.1);
            }
            other => value.push(other),
        }
    };
    *rest = &rest[end..];
    let value = value.trim_end();
    match value.is_empty() {
        true => None,
        false if !was_escaped && value.eq_ignore_ascii_case("null") => Some(Item::Null),
        false => Some(Item::Value(value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        let value = |text: &str| Item::Value(text.into());
        assert_eq!(parse("{}"), Ok(vec![]));
        assert_eq!(
            parse(" { 1 , NULL,\"a \\\"b\", \"NULL\" } "),
            Ok(vec![value("1"), Item::Null, value("a \"b"), value("NULL")])
        );
        assert_eq!(parse("{{1,2},{3}}").unwrap().len(), 2);
        let deep = "{".repeat(10_000);
        for wrong in ["", "1", "{", "{1", "{1,}", "{,1}", "{1}}", "{\"a}", "{a\"b}", "{{1}", "{1 {2}}", deep.as_str()] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
