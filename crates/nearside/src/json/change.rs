//! Values of `JSONB` made of others: `||`, `-`, `#-`, `jsonb_set`, `jsonb_insert`, `jsonb_strip_nulls`.

use super::fault;
use super::value::{Value, find, object};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// What is done where a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another value for one that is there.
    Replace,
    /// The same, or one more.
    Create,
    /// One more in an array, before the element, or a key that is not there.
    Before,
    /// The same behind the element.
    After,
    /// It is taken away.
    Delete,
}

fn wrong(message: &str) -> Error {
    fault(SqlState::InvalidParameterValue, message)
}

/// `||`
pub(crate) fn concatenated(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Object(mut left), Value::Object(right)) => {
            left.extend(right);
            object(left)
        }
        (left, right) => {
            let all = |value| match value {
                Value::Array(all) => all,
                other => vec![other],
            };
            let mut left = all(left);
            left.extend(all(right));
            Value::Array(left)
        }
    }
}

/// `- text`, `- text[]`
///
/// # Errors
/// A value that has no members.
pub(crate) fn without_keys(from: Value, keys: &[&str]) -> Result<Value> {
    match from {
        Value::Object(mut all) => {
            all.retain(|(key, _)| !keys.contains(&key.as_str()));
            Ok(Value::Object(all))
        }
        Value::Array(mut all) => {
            all.retain(|value| !matches!(value, Value::Text(text) if keys.contains(&text.as_str())));
            Ok(Value::Array(all))
        }
        _ => Err(wrong("cannot delete from a scalar of JSONB")),
    }
}

/// `- integer`
///
/// # Errors
/// A value that is no array.
pub(crate) fn without_element(from: Value, place: i64) -> Result<Value> {
    match from {
        Value::Array(mut all) => {
            let place = if place < 0 { place.saturating_add(all.len() as i64) } else { place };
            if let Some(place) = usize::try_from(place).ok().filter(|place| *place < all.len()) {
                all.remove(place);
            }
            Ok(Value::Array(all))
        }
        Value::Object(_) => Err(wrong("cannot delete from an object of JSONB by an integer; write the key as a text")),
        _ => Err(wrong("cannot delete from a scalar of JSONB")),
    }
}

/// Without keys whose value is null, at every level.
pub(crate) fn without_nulls(from: Value) -> Value {
    match from {
        Value::Object(all) => {
            let kept = all.into_iter().filter(|(_, value)| *value != Value::Null);
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(all) => Value::Array(all.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A value with a change where a path leads to.
///
/// # Errors
/// A path into a scalar, an element of it that is NULL or should be a number and is none, a key that is there.
pub(crate) fn changed(mut of: Value, path: &[Option<&str>], new: Option<Value>, change: Change) -> Result<Value> {
    match &of {
        Value::Array(all) if all.is_empty() && matches!(change, Change::Replace | Change::Delete) => return Ok(of),
        Value::Object(all) if all.is_empty() && matches!(change, Change::Replace | Change::Delete) => return Ok(of),
        scalar if scalar.is_scalar() => {
            let what = if change == Change::Delete { "delete a path in" } else { "set a path in" };
            return Err(wrong(&format!("cannot {what} a scalar of JSONB")));
        }
        _ => {}
    }
    if !path.is_empty() {
        change_at(&mut of, path, 0, &mut { new }, change)?;
    }
    Ok(of)
}

fn change_at(
    of: &mut Value,
    path: &[Option<&str>],
    level: usize,
    new: &mut Option<Value>,
    change: Change,
) -> Result<()> {
    let Some(step) = path[level] else {
        let message = format!("the element of a path at position {} is NULL", level + 1);
        return Err(fault(SqlState::NullValueNotAllowed, message));
    };
    let is_last = level + 1 == path.len();
    let adds = !matches!(change, Change::Replace | Change::Delete);
    match of {
        Value::Object(all) => match find(all, step) {
            Ok(at) if !is_last => change_at(&mut all[at].1, path, level + 1, new, change)?,
            Ok(at) => match change {
                Change::Delete => drop(all.remove(at)),
                Change::Before | Change::After => {
                    return Err(wrong("cannot replace a key that is there; use jsonb_set"));
                }
                Change::Replace | Change::Create => all[at].1 = new.take().unwrap_or(Value::Null),
            },
            Err(at) if is_last && adds => all.insert(at, (step.to_string(), new.take().unwrap_or(Value::Null))),
            Err(_) => {}
        },
        Value::Array(all) => {
            let place = step.trim_start().parse::<i32>().map_err(|_| {
                let message = format!("the element of a path at position {} is not an integer: '{step}'", level + 1);
                fault(SqlState::InvalidTextRepresentation, message)
            })?;
            let count = all.len() as i64;
            let place = if place < 0 { count + i64::from(place) } else { i64::from(place) };
            let at = usize::try_from(place).ok().filter(|at| *at < all.len());
            match (at, is_last) {
                (Some(at), false) => change_at(&mut all[at], path, level + 1, new, change)?,
                (Some(at), true) => match change {
                    Change::Delete => drop(all.remove(at)),
                    Change::Before => all.insert(at, new.take().unwrap_or(Value::Null)),
                    Change::After => all.insert(at + 1, new.take().unwrap_or(Value::Null)),
                    Change::Replace | Change::Create => all[at] = new.take().unwrap_or(Value::Null),
                },
                (None, true) if adds => {
                    let at = if place < 0 { 0 } else { all.len() };
                    all.insert(at, new.take().unwrap_or(Value::Null));
                }
                (None, _) => {}
            }
        }
        _ => {}
    }
    Ok(())
}
