//! Functions that follow paths, and the type of these ([`crate::json::path`]).

use std::cell::RefCell;
use std::rc::Rc;

use regex::Regex;

use super::{Gives, JsonFunction, Out, Row, Takes};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::patterns::expression;
use crate::json::fault;
use crate::json::path::Path;
use crate::json::path::find::Found;
use crate::json::value::Value;

/// A cast to a path, which is kept as its text.
pub(crate) const AS_PATH: &str = "__nearside_jsonpath";
/// What a path finds, as a list.
pub(crate) const FOUND: &str = "__nearside_jsonb_path";
/// `@?` and `@@`
pub(super) const FINDS: &str = "__jsonb_finds";
pub(super) const MATCHES: &str = "__jsonb_matches";

thread_local! {
    /// The path that was read last: as a rule a call has the same for all rows.
    static LAST: RefCell<Option<(String, Rc<Path>)>> = const { RefCell::new(None) };
}

pub(super) fn functions() -> Vec<JsonFunction> {
    use Gives as G;
    use Takes as T;
    const ARGUMENTS: &[Takes] = &[T::Jsonb, T::Text, T::Jsonb, T::Truth];
    let of = |name, gives, run| JsonFunction::of_rows(name, ARGUMENTS, gives, run).optional(2);
    vec![
        JsonFunction::of_rows(AS_PATH, &[T::Any], G::Text, |row| {
            Ok(Out::Text(Path::read(row.text(0), matcher)?.text()))
        }),
        JsonFunction::of_rows(FINDS, &[T::Jsonb, T::Text], G::Truth, |row| exists(row, true)),
        JsonFunction::of_rows(MATCHES, &[T::Jsonb, T::Text], G::Truth, |row| matches(row, true)),
        of("jsonb_path_exists", G::Truth, |row| exists(row, row.truth(3, false))),
        of("jsonb_path_match", G::Truth, |row| matches(row, row.truth(3, false))),
        of("jsonb_path_query_array", G::Jsonb, |row| Ok(Out::Text(Value::Array(found(row, false)?.items).text()))),
        of("jsonb_path_query_first", G::Jsonb, |row| {
            Ok(found(row, false)?.items.first().map_or(Out::Null, |first| Out::Text(first.text())))
        }),
        of(FOUND, G::Texts, |row| {
            Ok(Out::Texts(found(row, false)?.items.iter().map(|value| Some(value.text())).collect()))
        }),
    ]
}

fn matcher(pattern: &str, options: &str) -> Result<Regex> {
    expression(pattern, options).map_err(Error::from)
}

fn path(row: &Row<'_>) -> Result<Rc<Path>> {
    let text = row.text(1);
    LAST.with_borrow_mut(|last| match last {
        Some((known, path)) if known == text => Ok(Rc::clone(path)),
        _ => {
            let path = Rc::new(Path::read(text, matcher)?);
            *last = Some((text.to_string(), Rc::clone(&path)));
            Ok(path)
        }
    })
}

fn variables(row: &Row<'_>) -> Result<Value> {
    if row.count() > 2 { row.value(2) } else { Ok(Value::Object(Vec::new())) }
}

fn found(row: &Row<'_>, is_silent: bool) -> Result<Found> {
    path(row)?.find(&row.value(0)?, &variables(row)?, is_silent || row.truth(3, false))
}

fn exists(row: &Row<'_>, is_silent: bool) -> Result<Out> {
    let found = path(row)?.finds(&row.value(0)?, &variables(row)?, is_silent)?;
    Ok(found.map_or(Out::Null, Out::Truth))
}

fn matches(row: &Row<'_>, is_silent: bool) -> Result<Out> {
    match &found(row, is_silent)?.items[..] {
        [Value::Truth(truth)] => Ok(Out::Truth(*truth)),
        [Value::Null] => Ok(Out::Null),
        _ if is_silent => Ok(Out::Null),
        _ => Err(fault(SqlState::SingletonSqlJsonItemRequired, "the path gives something else than one truth value")),
    }
}
