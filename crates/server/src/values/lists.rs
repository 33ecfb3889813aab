//! Lists as texts: `{1,NULL,"a b"}`, taken apart, and what stands within quotes.

use super::text;

/// An element, in quotes where it would be read as something else without.
pub fn quoted(value: &[u8], to: &mut Vec<u8>) {
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
