//! A value of `JSONB` as a tree: read, written, compared.

use super::scan::{Scanner, string};
use super::{DEPTH_MAX, number, too_deep};
use crate::error::Result;

/// A value. Objects are in the order of their keys: by length, then by bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
    /// In its normal form.
    Number(String),
    Truth(bool),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// What JSON calls such a value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Text(_) => "string",
            Value::Number(_) => "number",
            Value::Truth(_) => "boolean",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// The value that a text means.
    ///
    /// # Errors
    /// A text that is no JSON, or of which `JSONB` has no value.
    pub(crate) fn read(text: &str) -> Result<Value> {
        let mut scanner = Scanner::new(text);
        let value = read(&mut scanner, 0)?;
        scanner.end()?;
        Ok(value)
    }

    /// Its normal form.
    pub(crate) fn write(&self, to: &mut String) {
        match self {
            Value::Null => to.push_str("null"),
            Value::Truth(truth) => to.push_str(if *truth { "true" } else { "false" }),
            Value::Number(number) => to.push_str(number),
            Value::Text(text) => write_string(text, to),
            Value::Array(all) => {
                to.push('[');
                for (at, value) in all.iter().enumerate() {
                    to.push_str(if at > 0 { ", " } else { "" });
                    value.write(to);
                }
                to.push(']');
            }
            Value::Object(all) => {
                to.push('{');
                for (at, (key, value)) in all.iter().enumerate() {
                    to.push_str(if at > 0 { ", " } else { "" });
                    write_string(key, to);
                    to.push_str(": ");
                    value.write(to);
                }
                to.push('}');
            }
        }
    }

    /// Its normal form.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// Over several lines, as `jsonb_pretty` has it.
    pub(crate) fn write_pretty(&self, level: usize, to: &mut String) {
        let line = |level: usize, to: &mut String| {
            to.push('\n');
            to.extend(std::iter::repeat_n(' ', 4 * level));
        };
        match self {
            Value::Array(all) => {
                to.push('[');
                for (at, value) in all.iter().enumerate() {
                    to.push_str(if at > 0 { "," } else { "" });
                    line(level + 1, to);
                    value.write_pretty(level + 1, to);
                }
                line(level, to);
                to.push(']');
            }
            Value::Object(all) => {
                to.push('{');
                for (at, (key, value)) in all.iter().enumerate() {
                    to.push_str(if at > 0 { "," } else { "" });
                    line(level + 1, to);
                    write_string(key, to);
                    to.push_str(": ");
                    value.write_pretty(level + 1, to);
                }
                line(level, to);
                to.push('}');
            }
            other => other.write(to),
        }
    }

    /// Bytes that are equal where values are, and whose order is that of values: null, strings, numbers, truth values,
    /// arrays, objects, of which those with fewer members come first. An empty array comes before everything else where
    /// it is the whole value, as in PostgreSQL.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        match self {
            Value::Array(all) if all.is_empty() => key.push(0),
            other => other.write_key(&mut key),
        }
        key
    }

    fn write_key(&self, key: &mut Vec<u8>) {
        let text = |text: &str, key: &mut Vec<u8>| {
            // No text has a zero in it.
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        };
        let count = |all: usize, key: &mut Vec<u8>| key.extend_from_slice(&(all as u32).to_be_bytes());
        match self {
            Value::Null => key.push(1),
            Value::Text(of) => {
                key.push(2);
                text(of, key);
            }
            Value::Number(number) => {
                key.push(3);
                number::write_key(number, key);
            }
            Value::Truth(truth) => key.extend([4, u8::from(*truth)]),
            Value::Array(all) => {
                key.push(5);
                count(all.len(), key);
                all.iter().for_each(|value| value.write_key(key));
            }
            Value::Object(all) => {
                key.push(6);
                count(all.len(), key);
                for (name, value) in all {
                    text(name, key);
                    value.write_key(key);
                }
            }
        }
    }

    /// Whether it is a string, number, truth value or null.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, Value::Array(_) | Value::Object(_))
    }

    /// Whether two values are equal.
    pub(crate) fn is_equal(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Number(left), Value::Number(right)) => number::bare(left) == number::bare(right),
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.is_equal(right))
            }
            (Value::Object(left), Value::Object(right)) => {
                let same =
                    |((a, left), (b, right)): (&(String, Value), &(String, Value))| a == b && left.is_equal(right);
                left.len() == right.len() && left.iter().zip(right).all(same)
            }
            (left, right) => left == right,
        }
    }

    /// The value of a key.
    pub(crate) fn field(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(all) => find(all, key).ok().map(|at| &all[at].1),
            _ => None,
        }
    }

    /// `@>`
    pub(crate) fn contains(&self, other: &Value) -> bool {
        match (self, other) {
            // An array may have a value that is not in one.
            (Value::Array(all), scalar) if scalar.is_scalar() => all.iter().any(|value| value.is_equal(scalar)),
            (left, right) => left.contains_within(right),
        }
    }

    fn contains_within(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Object(_), Value::Object(wanted)) => {
                wanted.iter().all(|(key, value)| self.field(key).is_some_and(|own| own.contains_within(value)))
            }
            (Value::Array(all), Value::Array(wanted)) => {
                wanted.iter().all(|value| all.iter().any(|own| own.contains_within(value)))
            }
            (left, right) => left.is_scalar() && right.is_scalar() && left.is_equal(right),
        }
    }

    /// `?`
    pub(crate) fn has_key(&self, key: &str) -> bool {
        match self {
            Value::Object(_) => self.field(key).is_some(),
            Value::Array(all) => all.iter().any(|value| matches!(value, Value::Text(text) if text == key)),
            Value::Text(text) => text == key,
            _ => false,
        }
    }
}

/// Where a key is, or would be.
pub(crate) fn find(all: &[(String, Value)], key: &str) -> std::result::Result<usize, usize> {
    all.binary_search_by(|(name, _)| (name.len(), name.as_str()).cmp(&(key.len(), key)))
}

/// An object of keys in any order, of which the last of equal ones counts.
pub(crate) fn object(mut all: Vec<(String, Value)>) -> Value {
    all.reverse();
    all.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
    all.dedup_by(|later, first| later.0 == first.0);
    Value::Object(all)
}

/// Writes a text as a string of JSON.
pub(crate) fn write_string(text: &str, to: &mut String) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\0'..='\u{1f}' => to.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => to.push(c),
        }
    }
    to.push('"');
}

fn read(scanner: &mut Scanner<'_>, depth: usize) -> Result<Value> {
    match scanner.peek() {
        Some(b'{' | b'[') if depth >= DEPTH_MAX => Err(too_deep()),
        Some(b'{') => {
            scanner.takes(b'{');
            let mut all = Vec::new();
            if scanner.takes(b'}') {
                return Ok(Value::Object(all));
            }
            loop {
                let key = string(scanner.key()?)?;
                all.push((key, read(scanner, depth + 1)?));
                if !scanner.more(b'}', "',' or '}'")? {
                    return Ok(object(all));
                }
            }
        }
        Some(b'[') => {
            scanner.takes(b'[');
            let mut all = Vec::new();
            if scanner.takes(b']') {
                return Ok(Value::Array(all));
            }
            loop {
                all.push(read(scanner, depth + 1)?);
                if !scanner.more(b']', "',' or ']'")? {
                    return Ok(Value::Array(all));
                }
            }
        }
        Some(b'"') => Ok(Value::Text(string(scanner.quoted()?)?)),
        Some(b'-' | b'0'..=b'9') => Ok(Value::Number(number::normal(scanner.number()?)?)),
        Some(_) => Ok(match scanner.word()? {
            "true" => Value::Truth(true),
            "false" => Value::Truth(false),
            _ => Value::Null,
        }),
        None => Err(scanner.wrong("a value")),
    }
}
