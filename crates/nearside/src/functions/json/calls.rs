//! What functions of one value of JSON give: operators, paths, changes, casts.

use super::{AS_JSON, AS_JSONB, AS_TEXT, Gives, JsonFunction, KEY, NUMBER, Out, Row, TRUTH, Takes, WHOLE};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::json::change::{self, Change};
use crate::json::value::{Value, write_string};
use crate::json::{fault, normal, scan};

/// Functions behind operators. Outputs that are calls of these have no name of their own (`plan::headers`).
pub(super) const GET: &str = "__json_get";
pub(super) const GET_TEXT: &str = "__json_get_text";
pub(super) const ELEMENT: &str = "__json_element";
pub(super) const ELEMENT_TEXT: &str = "__json_element_text";
pub(super) const MEMBER: &str = "__jsonb_element";
pub(super) const MEMBER_TEXT: &str = "__jsonb_element_text";
pub(super) const PATH: &str = "__json_path";
/// A subscript, whose output has the name of what it is of.
pub(super) const SUBSCRIPT: &str = "__nearside_json_subscript";
pub(super) const PATH_TEXT: &str = "__json_path_text";
pub(super) const CONTAINS: &str = "__jsonb_contains";
pub(super) const HAS: &str = "__jsonb_has";
pub(super) const HAS_ANY: &str = "__jsonb_has_any";
pub(super) const HAS_ALL: &str = "__jsonb_has_all";
pub(super) const CONCAT: &str = "__jsonb_concat";
pub(super) const WITHOUT_KEY: &str = "__jsonb_without_key";
pub(super) const WITHOUT_KEYS: &str = "__jsonb_without_keys";
pub(super) const WITHOUT_ELEMENT: &str = "__jsonb_without_element";
pub(super) const WITHOUT_PATH: &str = "__jsonb_without_path";

pub(super) fn functions() -> Vec<JsonFunction> {
    use Gives as G;
    use Takes as T;
    let of = JsonFunction::of_rows;
    let mut all = vec![
        of(AS_JSON, &[T::Any], G::Json, |row| scan::check(row.text(0)).map(|()| text(row.text(0)))),
        of(AS_JSONB, &[T::Any], G::Jsonb, |row| normal(row.text(0)).map(Out::Text)),
        of(AS_TEXT, &[T::Any], G::Text, |row| Ok(text(row.text(0)))),
        of(KEY, &[T::Jsonb], G::Bytes, |row| Ok(Out::Bytes(row.value(0)?.key()))),
        of(NUMBER, &[T::Jsonb], G::Text, |row| a_number(row).map(Out::Text)),
        of(WHOLE, &[T::Jsonb], G::Text, |row| Ok(Out::Text(whole(&a_number(row)?)))),
        of(TRUTH, &[T::Jsonb], G::Truth, |row| match row.value(0)? {
            Value::Truth(truth) => Ok(Out::Truth(truth)),
            other => Err(no_cast(&other, "BOOLEAN")),
        }),
        of(GET, &[T::Either, T::Text], G::Same, |row| Ok(found(scan::field(row.text(0), row.text(1))))),
        of(GET_TEXT, &[T::Either, T::Text], G::Text, |row| as_text(scan::field(row.text(0), row.text(1)))),
        of(ELEMENT, &[T::Either, T::Int], G::Same, |row| Ok(found(scan::element(row.text(0), row.int(1))))),
        of(ELEMENT_TEXT, &[T::Either, T::Int], G::Text, |row| as_text(scan::element(row.text(0), row.int(1)))),
        of(MEMBER, &[T::Jsonb, T::Int], G::Jsonb, |row| Ok(found(member(row.text(0), row.int(1))))),
        of(MEMBER_TEXT, &[T::Jsonb, T::Int], G::Text, |row| as_text(member(row.text(0), row.int(1)))),
        of(PATH, &[T::Either, T::Texts], G::Same, |row| Ok(found(at_path(row.text(0), &row.texts(1))))),
        of(SUBSCRIPT, &[T::Jsonb, T::Texts], G::Jsonb, |row| Ok(found(at_path(row.text(0), &row.texts(1))))),
        of(PATH_TEXT, &[T::Either, T::Texts], G::Text, |row| as_text(at_path(row.text(0), &row.texts(1)))),
        of(CONTAINS, &[T::Jsonb, T::Jsonb], G::Truth, |row| Ok(Out::Truth(row.value(0)?.contains(&row.value(1)?)))),
        of(HAS, &[T::Jsonb, T::Text], G::Truth, |row| Ok(Out::Truth(row.value(0)?.has_key(row.text(1))))),
        of(HAS_ANY, &[T::Jsonb, T::Texts], G::Truth, |row| {
            let value = row.value(0)?;
            Ok(Out::Truth(row.texts(1).into_iter().flatten().any(|key| value.has_key(key))))
        }),
        of(HAS_ALL, &[T::Jsonb, T::Texts], G::Truth, |row| {
            let value = row.value(0)?;
            Ok(Out::Truth(row.texts(1).into_iter().flatten().all(|key| value.has_key(key))))
        }),
        of(CONCAT, &[T::Jsonb, T::Jsonb], G::Jsonb, |row| Ok(out(&change::concatenated(row.value(0)?, row.value(1)?)))),
        of(WITHOUT_KEY, &[T::Jsonb, T::Text], G::Jsonb, |row| {
            Ok(out(&change::without_keys(row.value(0)?, &[row.text(1)])?))
        }),
        of(WITHOUT_KEYS, &[T::Jsonb, T::Texts], G::Jsonb, |row| {
            let keys: Vec<&str> = row.texts(1).into_iter().flatten().collect();
            Ok(out(&change::without_keys(row.value(0)?, &keys)?))
        }),
        of(WITHOUT_ELEMENT, &[T::Jsonb, T::Int], G::Jsonb, |row| {
            Ok(out(&change::without_element(row.value(0)?, row.int(1))?))
        }),
        of(WITHOUT_PATH, &[T::Jsonb, T::Texts], G::Jsonb, |row| changed(row, None, Change::Delete)),
        of("jsonb_set", &[T::Jsonb, T::Texts, T::Jsonb, T::Truth], G::Jsonb, |row| {
            let change = if row.truth(3, true) { Change::Create } else { Change::Replace };
            changed(row, Some(row.value(2)?), change)
        })
        .optional(1),
        of("jsonb_set_lax", &[T::Jsonb, T::Texts, T::Jsonb, T::Truth, T::Text], G::Jsonb, set_lax)
            .optional(2)
            .of_nulls(),
        of("jsonb_insert", &[T::Jsonb, T::Texts, T::Jsonb, T::Truth], G::Jsonb, |row| {
            let change = if row.truth(3, false) { Change::After } else { Change::Before };
            changed(row, Some(row.value(2)?), change)
        })
        .optional(1),
        of("jsonb_pretty", &[T::Jsonb], G::Text, |row| {
            let mut pretty = String::new();
            row.value(0)?.write_pretty(0, &mut pretty);
            Ok(Out::Text(pretty))
        }),
        of("jsonb_strip_nulls", &[T::Jsonb], G::Jsonb, |row| Ok(out(&change::without_nulls(row.value(0)?)))),
        of("json_strip_nulls", &[T::Json], G::Json, |row| {
            let mut kept = String::new();
            strip(row.text(0), &mut kept);
            Ok(Out::Text(kept))
        }),
    ];
    for (name, takes) in [("json_array_length", &[T::Json]), ("jsonb_array_length", &[T::Jsonb])] {
        all.push(of(name, takes, G::Int, |row| match scan::first(row.text(0)) {
            b'[' => Ok(Out::Int(i32::try_from(scan::elements(row.text(0)).len()).unwrap_or(i32::MAX))),
            b'{' => Err(wrong("cannot get the array length of a non-array")),
            _ => Err(wrong("cannot get the array length of a scalar")),
        }));
    }
    for (name, takes) in [("json_typeof", &[T::Json]), ("jsonb_typeof", &[T::Jsonb])] {
        all.push(of(name, takes, G::Text, |row| Ok(text(type_of(row.text(0))))));
    }
    for (name, takes, gives) in
        [("json_extract_path", &[T::Json, T::Text], G::Json), ("jsonb_extract_path", &[T::Jsonb, T::Text], G::Jsonb)]
    {
        all.push(of(name, takes, gives, |row| Ok(found(at_path(row.text(0), &steps(row))))).repeating());
    }
    for (name, takes) in
        [("json_extract_path_text", &[T::Json, T::Text]), ("jsonb_extract_path_text", &[T::Jsonb, T::Text])]
    {
        all.push(of(name, takes, G::Text, |row| as_text(at_path(row.text(0), &steps(row)))).repeating());
    }
    all
}

fn wrong(message: &str) -> Error {
    fault(SqlState::InvalidParameterValue, message)
}

fn text(text: &str) -> Out {
    Out::Text(text.to_string())
}

fn out(value: &Value) -> Out {
    Out::Text(value.text())
}

fn found(value: Option<&str>) -> Out {
    value.map_or(Out::Null, text)
}

/// A value that was found as a text: strings without quotes, null as NULL.
pub(super) fn as_text(value: Option<&str>) -> Result<Out> {
    Ok(match value {
        None | Some("null") => Out::Null,
        Some(string) if string.starts_with('"') => Out::Text(scan::string(string)?),
        Some(other) => text(other),
    })
}

/// An element of JSONB, where a scalar is an array of itself, as in PostgreSQL.
fn member(of: &str, place: i64) -> Option<&str> {
    match scan::first(of) {
        b'[' => scan::element(of, place),
        b'{' => None,
        _ => matches!(place, 0 | -1).then_some(of),
    }
}

/// The arguments from the second on.
fn steps<'a>(row: &'a Row<'_>) -> Vec<Option<&'a str>> {
    (1..row.count()).map(|place| row.maybe(place)).collect()
}

fn at_path<'a>(of: &'a str, path: &[Option<&str>]) -> Option<&'a str> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    path.iter().try_fold(of.trim_matches(blank), |value, step| {
        let step = (*step)?;
        match scan::first(value) {
            b'{' => scan::field(value, step),
            b'[' => scan::element(value, step.trim_start().parse::<i32>().ok()?.into()),
            _ => None,
        }
    })
}

/// The name of a value's type.
pub(super) fn type_of(value: &str) -> &'static str {
    match scan::first(value) {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "boolean",
        b'n' => "null",
        _ => "number",
    }
}

fn changed(row: &Row<'_>, new: Option<Value>, how: Change) -> Result<Out> {
    Ok(out(&change::changed(row.value(0)?, &row.texts(1), new, how)?))
}

fn set_lax(row: &Row<'_>) -> Result<Out> {
    let is_given = |place: usize| place < row.count() && !row.columns[place].is_null(row.at);
    let treatment = if row.count() > 4 { row.maybe(4) } else { Some("use_json_null") };
    if !is_given(0) || !is_given(1) || (row.count() > 3 && !is_given(3)) {
        return Ok(Out::Null);
    }
    let how = if row.truth(3, true) { Change::Create } else { Change::Replace };
    if is_given(2) {
        return changed(row, Some(row.value(2)?), how);
    }
    match treatment {
        Some("use_json_null") => changed(row, Some(Value::Null), how),
        Some("delete_key") => changed(row, None, Change::Delete),
        Some("return_target") => Ok(text(row.text(0))),
        Some("raise_exception") => Err(fault(SqlState::NullValueNotAllowed, "the new value for jsonb_set_lax is NULL")),
        _ => Err(wrong(
            "null_value_treatment of jsonb_set_lax is 'delete_key', 'return_target', 'use_json_null' or \
             'raise_exception'",
        )),
    }
}

fn no_cast(value: &Value, to: &str) -> Error {
    wrong(&format!("cannot cast a jsonb {} to {to}", value.kind()))
}

fn a_number(row: &Row<'_>) -> Result<String> {
    match row.value(0)? {
        Value::Number(number) => Ok(number),
        other => Err(no_cast(&other, "a number")),
    }
}

/// A number without what is behind the point, rounded; halves go away from zero.
fn whole(normal: &str) -> String {
    let Some((whole, behind)) = normal.split_once('.') else { return normal.to_string() };
    if behind.as_bytes()[0] < b'5' {
        return whole.to_string();
    }
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut digits = digits.as_bytes().to_vec();
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return format!("{sign}{}", String::from_utf8_lossy(&digits));
        }
        *digit = b'0';
    }
    format!("{sign}1{}", String::from_utf8_lossy(&digits))
}

/// JSON without the keys whose value is null, and without blanks.
fn strip(value: &str, to: &mut String) {
    match scan::first(value) {
        b'{' => {
            to.push('{');
            let start = to.len();
            scan::each_field(value, |name, value| {
                if value == "null" {
                    return;
                }
                to.push_str(if to.len() > start { "," } else { "" });
                match scan::string(name) {
                    Ok(name) => write_string(&name, to),
                    Err(_) => to.push_str(name),
                }
                to.push(':');
                strip(value, to);
            });
            to.push('}');
        }
        b'[' => {
            to.push('[');
            for (at, value) in scan::elements(value).into_iter().enumerate() {
                to.push_str(if at > 0 { "," } else { "" });
                strip(value, to);
            }
            to.push(']');
        }
        b'"' => match scan::string(value) {
            Ok(text) => write_string(&text, to),
            Err(_) => to.push_str(value),
        },
        _ => to.push_str(value.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_away_from_zero() {
        for (number, expected) in [("1.4", "1"), ("1.5", "2"), ("-9.5", "-10"), ("99.99", "100"), ("-0.4", "-0")] {
            assert_eq!(whole(number), expected, "{number}");
        }
    }
}
