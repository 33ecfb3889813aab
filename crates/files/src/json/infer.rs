//! The schema of a JSON lines file, from a streaming parse of every line.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::read::{Line, next_line};
use crate::error::{FileError, FileErrorKind, shorten};
use crate::text::TextSource;

/// A line of one of the files.
#[derive(Debug, Clone, Copy)]
struct Place {
    file: usize,
    line: u64,
}

/// The kinds of values that a member was seen to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guess {
    boolean: bool,
    integer: bool,
    /// An integer above `i64::MAX`.
    huge: bool,
    negative: bool,
    float: bool,
    text: bool,
    /// Where a scalar, an object and a list came first: what an error about a mix points at.
    scalar: Option<Place>,
    object: Option<Place>,
    list: Option<Place>,
    members: Vec<(String, Guess)>,
    by_name: HashMap<String, usize>,
    item: Option<Box<Guess>>,
}

/// Adds the lines of the file that is number `file` of several to `root` and returns how many there are. Members named
/// in `given` are not looked into.
pub(crate) fn infer(source: &TextSource, file: usize, root: &mut Guess, given: &[&str]) -> Result<u64, FileError> {
    let mut buffer = source.open(None)?;
    let mut rows = 0;
    let mut place = Place { file, line: 1 };
    while let Some(Line { start, end, next }) = next_line(&mut buffer, 0)? {
        let pending = &buffer.pending()[start..end];
        if !pending.trim_ascii().is_empty() {
            let parsed = parse(pending, root, place, given);
            if let Err(message) = parsed {
                buffer.check_utf8(end)?;
                return Err(buffer.error_at(0, FileErrorKind::Record, message));
            }
            rows += 1;
        }
        buffer.consume(next);
        place.line += 1;
    }
    Ok(rows)
}

fn parse(line: &[u8], root: &mut Guess, place: Place, given: &[&str]) -> Result<(), String> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        let hint = "each line must hold one JSON object, from { to }; a file that is one array or one object over \
                    several lines must be converted to lines first";
        return Err(hint.to_string());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let seed = Look { guess: root, place, given };
    let result = seed.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    result.map_err(|e| {
        let text = e.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text);
        format!("is not one JSON object: {} at character {}", shorten(text, 200), e.column())
    })
}

impl Guess {
    /// The members as fields, `given` types taking precedence; `columns` are the wanted ones, and what is not wanted
    /// need not have a type.
    pub(crate) fn fields(
        &self,
        given: &[(String, DataType)],
        columns: Option<&[String]>,
        files: &[&Path],
    ) -> Result<Fields, FileError> {
        let wanted = |name: &String| columns.is_none_or(|columns| columns.contains(name));
        self.members
            .iter()
            .map(|(name, guess)| {
                let data_type = match given.iter().find(|(column, _)| column == name) {
                    Some((_, data_type)) => data_type.clone(),
                    None if !wanted(name) => DataType::Null,
                    None => guess.data_type(name, DataType::Utf8View, files)?,
                };
                Ok(Arc::new(Field::new(name, data_type, true)))
            })
            .collect()
    }

    /// The type of what was seen; `text` is the type of strings at this depth.
    fn data_type(&self, path: &str, text: DataType, files: &[&Path]) -> Result<DataType, FileError> {
        let kinds = [(self.scalar, "a plain value"), (self.object, "an object"), (self.list, "a list")];
        let mut seen: Vec<_> = kinds.into_iter().filter_map(|(place, what)| Some((place?, what))).collect();
        seen.sort_by_key(|(place, _)| (place.file, place.line));
        if let [(before, was), (here, is), ..] = seen.as_slice() {
            let message = format!(
                "is {is} here and {was} in line {} of {}; a member must hold one kind of value, so convert the file or \
                 read the other columns only",
                before.line,
                files[before.file].display()
            );
            let error = FileError::new(FileErrorKind::Schema, message).at(files[here.file]);
            return Err(error.line(here.line).column(path));
        }
        if self.object.is_some() {
            let members = self.members.iter().map(|(name, guess)| {
                let data_type = guess.data_type(&format!("{path}.{name}"), DataType::Utf8, files)?;
                Ok(Arc::new(Field::new(name, data_type, true)))
            });
            return Ok(DataType::Struct(members.collect::<Result<Fields, FileError>>()?));
        }
        if self.list.is_some() {
            let item = match &self.item {
                Some(item) => item.data_type(&format!("{path}[]"), DataType::Utf8, files)?,
                None => DataType::Utf8,
            };
            return Ok(DataType::new_list(item, true));
        }
        let number = self.integer || self.float;
        Ok(match (self.text, self.boolean, number) {
            (false, true, false) => DataType::Boolean,
            (false, false, true) if self.float || self.huge && self.negative => DataType::Float64,
            (false, false, true) if self.huge => DataType::UInt64,
            (false, false, true) => DataType::Int64,
            _ => text,
        })
    }

    fn member(&mut self, name: String) -> &mut Guess {
        let index = match self.by_name.get(&name) {
            Some(index) => *index,
            None => {
                self.members.push((name.clone(), Guess::default()));
                self.by_name.insert(name, self.members.len() - 1);
                self.members.len() - 1
            }
        };
        &mut self.members[index].1
    }
}

/// Adds one value to a guess while it is parsed.
struct Look<'a> {
    guess: &'a mut Guess,
    place: Place,
    /// Members of the value that are not looked into.
    given: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.guess.boolean = true;
        self.guess.scalar.get_or_insert(self.place);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.guess.integer = true;
        self.guess.negative |= value < 0;
        self.guess.scalar.get_or_insert(self.place);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.guess.integer = true;
        self.guess.huge |= i64::try_from(value).is_err();
        self.guess.scalar.get_or_insert(self.place);
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.guess.float = true;
        self.guess.scalar.get_or_insert(self.place);
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.guess.text = true;
        self.guess.scalar.get_or_insert(self.place);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.guess.list.get_or_insert(self.place);
        let item = self.guess.item.get_or_insert_default();
        while items.next_element_seed(Look { guess: &mut *item, place: self.place, given: &[] })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.guess.object.get_or_insert(self.place);
        while let Some(name) = members.next_key::<String>()? {
            let ignored = self.given.contains(&name.as_str());
            let member = self.guess.member(name);
            if ignored {
                members.next_value::<IgnoredAny>()?;
            } else {
                members.next_value_seed(Look { guess: member, place: self.place, given: &[] })?;
            }
        }
        Ok(())
    }
}
