//! JSON taken apart into lists, of which rows are made, and put together of lists: what set-returning functions and
//! aggregates of JSON are written as (`sql::json`), and the functions that build objects and arrays.

use super::calls::as_text;
use super::{Gives, ITEM, JsonFunction, Out, Row, Takes};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::json::value::write_string;
use crate::json::{fault, normal, scan};

pub(super) fn functions() -> Vec<JsonFunction> {
    use Gives as G;
    use Takes as T;
    let of = JsonFunction::of_rows;
    let mut all = vec![
        of("__nearside_json_elements", &[T::Either], G::Texts, |row| {
            elements(row, |value| Ok(Some(value.to_string())))
        }),
        of("__nearside_json_elements_text", &[T::Either], G::Texts, |row| elements(row, read)),
        of("__nearside_json_values", &[T::Either], G::Texts, |row| values(row, |value| Ok(Some(value.to_string())))),
        of("__nearside_json_values_text", &[T::Either], G::Texts, |row| values(row, read)),
        of("__nearside_json_keys", &[T::Either], G::Texts, keys),
        of("__nearside_json_agg", &[T::Texts], G::Json, |row| Ok(Out::Text(array(row.texts(0))))),
        of("__nearside_jsonb_agg", &[T::Texts], G::Jsonb, |row| normal(&array(row.texts(0))).map(Out::Text)),
        of("__nearside_json_object_agg", &[T::Texts], G::Json, |row| Ok(Out::Text(pairs(&row.texts(0))))),
        of("__nearside_jsonb_object_agg", &[T::Texts], G::Jsonb, |row| normal(&pairs(&row.texts(0))).map(Out::Text)),
        of(ITEM, &[T::Part], G::Text, |row| Ok(Out::Text(part(row, 0).to_string()))).of_nulls(),
        of("__nearside_json_pair", &[T::Part, T::Part], G::Text, |row| {
            let mut pair = String::new();
            pair_of(part(row, 0), part(row, 1), &mut pair)?;
            Ok(Out::Text(pair))
        })
        .of_nulls(),
        of("json_build_array", &[T::Part], G::Json, |row| Ok(Out::Text(array(all_of(row))))).repeating(),
        of("jsonb_build_array", &[T::Part], G::Jsonb, |row| normal(&array(all_of(row))).map(Out::Text)).repeating(),
        of("json_build_object", &[T::Part], G::Json, |row| object(row).map(Out::Text)).repeating(),
        of("jsonb_build_object", &[T::Part], G::Jsonb, |row| normal(&object(row)?).map(Out::Text)).repeating(),
        of("json_object", &[T::Texts, T::Texts], G::Json, |row| of_texts(row).map(Out::Text)).optional(1),
        of("jsonb_object", &[T::Texts, T::Texts], G::Jsonb, |row| normal(&of_texts(row)?).map(Out::Text)).optional(1),
    ];
    all.iter_mut().filter(|function| function.repeats).for_each(|function| function.strict = false);
    all
}

fn wrong(message: &str) -> Error {
    fault(SqlState::InvalidParameterValue, message)
}

fn read(value: &str) -> Result<Option<String>> {
    Ok(match as_text(Some(value))? {
        Out::Text(text) => Some(text),
        _ => None,
    })
}

fn elements(row: &Row<'_>, what: fn(&str) -> Result<Option<String>>) -> Result<Out> {
    match scan::first(row.text(0)) {
        b'[' => Ok(Out::Texts(scan::elements(row.text(0)).into_iter().map(what).collect::<Result<_>>()?)),
        b'{' => Err(wrong("cannot extract elements from an object")),
        _ => Err(wrong("cannot extract elements from a scalar")),
    }
}

fn fields<'a>(row: &'a Row<'_>) -> Result<Vec<(&'a str, &'a str)>> {
    let text = row.columns.first().map_or("", |_| row.text(0));
    match scan::first(text) {
        b'{' => {
            let mut all = Vec::new();
            scan::each_field(text, |name, value| all.push((name, value)));
            Ok(all)
        }
        b'[' => Err(wrong("cannot take an array apart as an object")),
        _ => Err(wrong("cannot take a scalar apart as an object")),
    }
}

fn values(row: &Row<'_>, what: fn(&str) -> Result<Option<String>>) -> Result<Out> {
    Ok(Out::Texts(fields(row)?.into_iter().map(|(_, value)| what(value)).collect::<Result<_>>()?))
}

fn keys(row: &Row<'_>) -> Result<Out> {
    Ok(Out::Texts(fields(row)?.into_iter().map(|(name, _)| scan::string(name).map(Some)).collect::<Result<_>>()?))
}

fn all_of<'a>(row: &'a Row<'_>) -> Vec<Option<&'a str>> {
    (0..row.count()).map(|place| row.maybe(place)).collect()
}

fn array(all: Vec<Option<&str>>) -> String {
    let all: Vec<&str> = all.into_iter().map(|value| value.unwrap_or("null")).collect();
    format!("[{}]", all.join(", "))
}

fn pairs(all: &[Option<&str>]) -> String {
    let all: Vec<&str> = all.iter().copied().flatten().collect();
    format!("{{ {} }}", all.join(", "))
}

/// `"key" : value`; both are JSON.
fn pair_of(key: &str, value: &str, to: &mut String) -> Result<()> {
    match scan::first(key) {
        b'"' => to.push_str(key),
        b'n' => return Err(wrong("the name of a field of JSON must not be NULL")),
        b'{' | b'[' => return Err(wrong("a key of JSON is a scalar, no array, row or json")),
        _ => write_string(key, to),
    }
    to.push_str(" : ");
    to.push_str(value);
    Ok(())
}

/// An argument as JSON, of which NULL is `null`.
fn part<'a>(row: &'a Row<'_>, place: usize) -> &'a str {
    row.maybe(place).unwrap_or("null")
}

fn object(row: &Row<'_>) -> Result<String> {
    if !row.count().is_multiple_of(2) {
        return Err(wrong("the arguments of json_build_object and jsonb_build_object are keys and values in turn"));
    }
    let mut object = String::from("{");
    for place in (0..row.count()).step_by(2) {
        object.push_str(if place > 0 { ", " } else { "" });
        pair_of(part(row, place), part(row, place + 1), &mut object)?;
    }
    object.push('}');
    Ok(object)
}

fn of_texts(row: &Row<'_>) -> Result<String> {
    let first = row.texts(0);
    let pairs: Vec<(Option<&str>, Option<&str>)> = match row.count() {
        1 if !first.len().is_multiple_of(2) => {
            return Err(fault(
                SqlState::ArraySubscriptError,
                "an array of keys and values has an even number of elements",
            ));
        }
        1 => first.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
        _ => {
            let second = row.texts(1);
            if first.len() != second.len() {
                return Err(fault(SqlState::ArraySubscriptError, "there are as many keys as values, or none"));
            }
            first.into_iter().zip(second).collect()
        }
    };
    let mut object = String::from("{");
    for (at, (key, value)) in pairs.into_iter().enumerate() {
        let key = key.ok_or_else(|| fault(SqlState::NullValueNotAllowed, "a key of an object of JSON is NULL"))?;
        object.push_str(if at > 0 { ", " } else { "" });
        write_string(key, &mut object);
        object.push_str(" : ");
        match value {
            Some(value) => write_string(value, &mut object),
            None => object.push_str("null"),
        }
    }
    object.push('}');
    Ok(object)
}
