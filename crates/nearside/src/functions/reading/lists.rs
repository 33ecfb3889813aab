//! Lists as texts, read as PostgreSQL reads them: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`.
//!
//! # Limits
//! A list has as many dimensions as its type has, and counts from 1: `[0:1]={1,2}` is refused.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder, new_empty_array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field};

use super::read;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::texts::nested::{element, is_blank};

/// How deep lists may stand within each other; PostgreSQL's limit.
const DEPTH_MAX: usize = 6;

#[derive(Debug, PartialEq, Eq)]
enum Node {
    /// An element, or NULL.
    Element(Option<String>),
    List(Vec<Node>),
}

/// The lists of texts; where `tries`, a text that cannot be read is NULL, also for one of its elements.
///
/// # Errors
/// A text that is no list of the type, and those of its elements.
pub(super) fn lists(texts: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef> {
    if tries {
        let one = |row| lists(&texts.slice(row, 1), to, false).unwrap_or_else(|_| new_null_array(to, 1));
        let all: Vec<ArrayRef> = (0..texts.len()).map(one).collect();
        let all: Vec<&dyn Array> = all.iter().map(AsRef::as_ref).collect();
        return Ok(if all.is_empty() { new_empty_array(to) } else { concat(&all)? });
    }
    let mut depth = 0;
    let mut innermost = to;
    while let Some(inner) = element(innermost) {
        innermost = inner;
        depth += 1;
    }
    let mut levels: Vec<Level> = (0..depth).map(|_| Level::default()).collect();
    let mut elements = StringViewBuilder::new();
    for text in texts.as_string_view() {
        let node = text.map(|text| parse(text).and_then(|node| shape(&node, depth).map(|()| node)));
        match node.transpose() {
            Ok(None) => levels[0].push(None),
            Ok(Some(Node::List(nodes))) => add(nodes, &mut levels, &mut elements),
            Ok(Some(Node::Element(_))) => levels[0].push(None),
            Err(why) => {
                let (text, to) = (text.unwrap_or_default(), sql_type(to));
                let message = format!("'{text}' cannot be read as {to}: {why}");
                return Err(Error::execution(SqlState::InvalidTextRepresentation, message));
            }
        }
    }
    let elements: ArrayRef = Arc::new(elements.finish());
    let mut values = match innermost {
        DataType::Utf8View | DataType::Null => elements,
        _ => read(&elements, innermost, false)?,
    };
    while let Some(level) = levels.pop() {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let nulls = NullBuffer::from(level.valid);
        values = Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(level.lengths), values, Some(nulls))?);
    }
    Ok(if values.data_type() == to { values } else { cast(&values, to)? })
}

/// The lists of one dimension.
#[derive(Default)]
struct Level {
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Level {
    fn push(&mut self, length: Option<usize>) {
        self.lengths.push(length.unwrap_or(0));
        self.valid.push(length.is_some());
    }
}

fn add(nodes: Vec<Node>, levels: &mut [Level], elements: &mut StringViewBuilder) {
    let Some((level, inner)) = levels.split_first_mut() else { return };
    level.push(Some(nodes.len()));
    for node in nodes {
        match node {
            Node::List(nodes) => add(nodes, inner, elements),
            Node::Element(text) => elements.append_option(text),
        }
    }
}

/// Whether a list has as many dimensions as its type, and lists of one dimension are of one length.
fn shape(node: &Node, depth: usize) -> Result<(), String> {
    let Node::List(nodes) = node else { return Err("a list stands in braces".into()) };
    let mut length = None;
    for node in nodes {
        match node {
            Node::Element(_) if depth == 1 => {}
            Node::Element(_) => {
                return Err(format!("it has fewer than the {depth} dimensions of the type"));
            }
            Node::List(_) if depth == 1 => {
                return Err("it has more dimensions than the type; write [] once for each".into());
            }
            Node::List(inner) => {
                if length.replace(inner.len()).is_some_and(|before| before != inner.len()) {
                    return Err("lists of one dimension have to be of one length".into());
                }
                if inner.is_empty() {
                    return Err("a list within a list cannot be empty".into());
                }
                shape(node, depth - 1)?;
            }
        }
    }
    Ok(())
}

fn parse(text: &str) -> Result<Node, String> {
    let mut rest = text.trim_matches(is_blank);
    if rest.starts_with('[') {
        let (bounds, list) = rest.split_once('=').ok_or("a list stands in braces")?;
        let from_one = |bounds: &str| {
            bounds.trim_end().trim_end_matches(']').split("][").all(|bound| {
                bound.trim_start_matches('[').split_once(':').is_some_and(|(lower, _)| lower.trim() == "1")
            })
        };
        if !from_one(bounds) {
            return Err("the elements of a list are numbered from 1".into());
        }
        let list = list.trim_start_matches(is_blank);
        let mut copy = list;
        let node = list_of(&mut copy, 1)?;
        let expected = dimensions(&node);
        if bounds.split_whitespace().collect::<String>() != expected {
            return Err("its dimensions are not those that are written before it".into());
        }
        rest = list;
    }
    let node = list_of(&mut rest, 1)?;
    match rest.is_empty() {
        true => Ok(node),
        false => Err("there is something behind its closing brace".into()),
    }
}

/// `[1:2][1:3]`
fn dimensions(node: &Node) -> String {
    let mut text = String::new();
    let mut node = Some(node);
    while let Some(Node::List(nodes)) = node {
        text.push_str(&format!("[1:{}]", nodes.len()));
        node = nodes.first();
    }
    text
}

fn list_of(rest: &mut &str, depth: usize) -> Result<Node, String> {
    let inner = rest.strip_prefix('{').ok_or("a list stands in braces")?;
    if depth > DEPTH_MAX {
        return Err(format!("a list has at most {DEPTH_MAX} dimensions"));
    }
    *rest = inner.trim_start_matches(is_blank);
    let mut nodes = Vec::new();
    if let Some(behind) = rest.strip_prefix('}') {
        *rest = behind;
        return Ok(Node::List(nodes));
    }
    loop {
        *rest = rest.trim_start_matches(is_blank);
        nodes.push(match rest.chars().next() {
            Some('{') => list_of(rest, depth + 1)?,
            _ => element_of(rest)?,
        });
        *rest = rest.trim_start_matches(is_blank);
        match rest.chars().next() {
            Some(',') => *rest = &rest[1..],
            Some('}') => {
                *rest = &rest[1..];
                return Ok(Node::List(nodes));
            }
            Some(_) => return Err("a comma or a closing brace is missing".into()),
            None => return Err("its closing brace is missing".into()),
        }
    }
}

fn element_of(rest: &mut &str) -> Result<Node, String> {
    let mut text = String::new();
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    *rest = &quoted[at + 1..];
                    return Ok(Node::Element(Some(text)));
                }
                '\\' => text.push(chars.next().ok_or("a quote is not closed")?.1),
                c => text.push(c),
            }
        }
        return Err("a quote is not closed".into());
    }
    let mut escapes = false;
    // Blanks at the end are none of the element's, but for those behind a backslash.
    let mut kept = 0;
    let mut chars = rest.char_indices();
    loop {
        match chars.next() {
            None => return Err("its closing brace is missing".into()),
            Some((at, ',' | '}')) => {
                *rest = &rest[at..];
                break;
            }
            Some((_, '{' | '"')) => return Err("a brace or a quote stands within an element".into()),
            Some((_, '\\')) => {
                escapes = true;
                text.push(chars.next().ok_or("its closing brace is missing")?.1);
                kept = text.len();
            }
            Some((_, c)) => {
                text.push(c);
                if !is_blank(c) {
                    kept = text.len();
                }
            }
        }
    }
    text.truncate(kept);
    if text.is_empty() {
        return Err("an element is missing; an empty text is \"\"".into());
    }
    Ok(Node::Element(if !escapes && text.eq_ignore_ascii_case("null") { None } else { Some(text) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::reading::read_one;

    fn list_of_type(element: DataType) -> DataType {
        DataType::List(Arc::new(Field::new_list_field(element, true)))
    }

    #[test]
    fn lists_are_read_as_postgresql_reads_them() {
        let ints = list_of_type(DataType::Int32);
        for (text, expected) in
            [("{1,2}", "[1, 2]"), (" { 1 , NULL } ", "[1, ]"), ("{}", "[]"), ("[1:2]={1,2}", "[1, 2]")]
        {
            assert_eq!(read_one(text, &ints).unwrap().to_string(), expected, "{text}");
        }
        for wrong in
            ["", "1,2", "{1,2", "{1,,2}", "{1}x", "{{1}}", "{a}", "[0:1]={1,2}", "[1:3]={1,2}", "{1 2}", "{\"1}"]
        {
            assert!(read_one(wrong, &ints).is_err(), "{wrong}");
        }
        let texts = list_of_type(DataType::Utf8View);
        for (text, expected) in
            [(r#"{a b, "c,d" ,"null",null}"#, "[a b, c,d, null, ]"), (r#"{"a\"b",c\,d,""}"#, "[a\"b, c,d, ]")]
        {
            assert_eq!(read_one(text, &texts).unwrap().to_string(), expected, "{text}");
        }
        let nested = list_of_type(ints);
        assert_eq!(read_one("{{1,2},{3,4}}", &nested).unwrap().to_string(), "[[1, 2], [3, 4]]");
        for wrong in ["{1,2}", "{{1,2},{3}}", "{{}}", "{{{1}}}"] {
            assert!(read_one(wrong, &nested).is_err(), "{wrong}");
        }
    }
}
