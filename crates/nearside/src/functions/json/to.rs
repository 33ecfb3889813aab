//! Any value as JSON: `to_json`, `to_jsonb`, `array_to_json`, `row_to_json`, and values that become part of JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::Result;

use super::{Gives, How, JsonFunction, Kind, PART, Takes, kind_of};
use crate::error::Error;
use crate::functions::texts::nested::{as_lists, is_list};
use crate::functions::texts::texts_of_values;
use crate::json::normal;
use crate::json::value::write_string;

pub(super) fn functions() -> Vec<JsonFunction> {
    let of = |name, gives, null, normal| JsonFunction::new(name, &[Takes::Any], gives, How::Parts { null, normal });
    vec![
        of("to_json", Gives::Json, false, false),
        of("to_jsonb", Gives::Jsonb, false, true),
        of("array_to_json", Gives::Json, false, false),
        of("row_to_json", Gives::Json, false, false),
        of(PART, Gives::Json, true, false),
    ]
}

/// The JSON of each value; NULL stays NULL, or is `null`.
pub(super) fn parts(values: &ArrayRef, null: bool, as_normal: bool) -> Result<ArrayRef> {
    let writer = Writer::of(values)?;
    let mut all = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for at in 0..values.len() {
        if writer.is_null(at) && !null {
            all.append_null();
            continue;
        }
        text.clear();
        writer.write(at, &mut text);
        match as_normal {
            true => all.append_value(normal(&text).map_err(Error::into_datafusion)?),
            false => all.append_value(&text),
        }
    }
    Ok(Arc::new(all.finish()))
}

/// Writes the values of a column.
enum Writer {
    Null,
    /// Texts that are JSON.
    Plain(ArrayRef),
    /// Numbers of which some are none.
    Float(ArrayRef, ArrayRef),
    Quoted(ArrayRef),
    List(ArrayRef, Vec<i32>, Box<Writer>),
    Row(ArrayRef, Vec<(String, Writer)>),
}

impl Writer {
    fn of(values: &ArrayRef) -> Result<Writer> {
        use DataType as T;
        let texts = |values: &ArrayRef| -> Result<ArrayRef> {
            let texts = texts_of_values(values).map_err(Error::into_datafusion)?;
            Ok(cast(&texts.unwrap_or_else(|| Arc::clone(values)), &T::Utf8View)?)
        };
        Ok(match values.data_type() {
            T::Null => Writer::Null,
            T::Boolean => Writer::Plain(cast(values, &T::Utf8View)?),
            T::Float16 | T::Float32 | T::Float64 => Writer::Float(texts(values)?, cast(values, &T::Float64)?),
            number if number.is_numeric() => Writer::Plain(texts(values)?),
            T::Struct(fields) => {
                let columns = fields.iter().zip(values.as_struct().columns());
                let all = columns.map(|(field, column)| {
                    let of_field = match kind_of(field) {
                        Kind::Other => Writer::of(column)?,
                        Kind::Json | Kind::Jsonb => Writer::Plain(cast(column, &T::Utf8View)?),
                    };
                    Ok((field.name().clone(), of_field))
                });
                Writer::Row(Arc::clone(values), all.collect::<Result<_>>()?)
            }
            list if is_list(list) => {
                let lists = as_lists(values)?;
                let within = Writer::of(lists.values())?;
                let offsets = lists.value_offsets().to_vec();
                Writer::List(Arc::new(lists), offsets, Box::new(within))
            }
            T::Timestamp(..) => Writer::Quoted(moments(&texts(values)?)),
            T::Map(..) | T::Union(..) => {
                let message = "a MAP or UNION as JSON is not supported; use json_object of its keys and values";
                return Err(Error::Unsupported(message.into()).into_datafusion());
            }
            T::Dictionary(_, of) => return Writer::of(&cast(values, of)?),
            _ => Writer::Quoted(texts(values)?),
        })
    }

    fn is_null(&self, at: usize) -> bool {
        match self {
            Writer::Null => true,
            Writer::Plain(values) | Writer::Quoted(values) | Writer::Float(values, _) => values.is_null(at),
            Writer::List(values, ..) | Writer::Row(values, _) => values.is_null(at),
        }
    }

    fn write(&self, at: usize, to: &mut String) {
        if self.is_null(at) {
            to.push_str("null");
            return;
        }
        match self {
            Writer::Null => to.push_str("null"),
            Writer::Plain(values) => to.push_str(values.as_string_view().value(at)),
            Writer::Float(texts, values) => match values.as_primitive::<Float64Type>().value(at).is_finite() {
                true => to.push_str(texts.as_string_view().value(at)),
                false => write_string(texts.as_string_view().value(at), to),
            },
            Writer::Quoted(values) => write_string(values.as_string_view().value(at), to),
            Writer::List(_, offsets, within) => {
                to.push('[');
                for place in offsets[at]..offsets[at + 1] {
                    to.push_str(if place > offsets[at] { "," } else { "" });
                    within.write(place as usize, to);
                }
                to.push(']');
            }
            Writer::Row(_, fields) => {
                to.push('{');
                for (place, (name, values)) in fields.iter().enumerate() {
                    to.push_str(if place > 0 { "," } else { "" });
                    write_string(name, to);
                    to.push(':');
                    values.write(at, to);
                }
                to.push('}');
            }
        }
    }
}

/// Moments as ISO 8601 has them: a `T` between day and time, and minutes of the zone.
fn moments(texts: &ArrayRef) -> ArrayRef {
    let mut all = StringViewBuilder::with_capacity(texts.len());
    for text in texts.as_string_view() {
        all.append_option(text.map(|text| {
            let moment = text.replacen(' ', "T", 1);
            let zone = moment.rfind(['+', '-']).filter(|at| moment[..*at].contains(':') && moment.len() - at == 3);
            if zone.is_some() { format!("{moment}:00") } else { moment }
        }));
    }
    Arc::new(all.finish())
}
