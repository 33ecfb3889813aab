//! Functions of numbers that DataFusion has not, or has otherwise: `div`, `mod`, `chr`, `width_bucket`, `scale`, and
//! trigonometry in degrees, which is exact where the angle is one of those that people know.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;

use super::checked::division_by_zero;
use super::defined::Defined;
use super::texts::nested::{as_lists, element};
use crate::error::value_err;

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let float = |_: &[DataType]| DataType::Float64;
    let int = |_: &[DataType]| DataType::Int32;
    let degrees = |name, runs| Defined::new(&[name], true, one_float, float, runs);
    let all = [
        Defined::new(&["div"], true, two_exact, quotient, div),
        Defined::new(&["mod"], true, two_exact, same, remainder),
        Defined::new(&["chr"], true, one_integer, |_| DataType::Utf8View, chr),
        Defined::new(&["width_bucket"], true, bucket, int, width_bucket),
        Defined::new(&["scale"], true, one_decimal, int, scale),
        Defined::new(&["min_scale"], true, one_decimal, int, min_scale),
        Defined::new(&["pg_size_pretty"], true, one_integer, |_| DataType::Utf8View, size_pretty),
        degrees("sind", |columns| each(columns, |x| finite("sind", x).map(sind))),
        degrees("cosd", |columns| each(columns, |x| finite("cosd", x).map(cosd))),
        degrees("tand", |columns| each(columns, |x| finite("tand", x).map(tand))),
        degrees("cotd", |columns| each(columns, |x| finite("cotd", x).map(|x| 1.0 / tand(x)))),
        degrees("asind", |columns| {
            each(columns, |x| unit("asind", x).map(|x| if x < 0.0 { -asind(-x) } else { asind(x) }))
        }),
        degrees("acosd", |columns| {
            each(columns, |x| unit("acosd", x).map(|x| if x < 0.0 { 90.0 + asind(-x) } else { acosd(x) }))
        }),
        degrees("atand", |columns| each(columns, |x| Ok(x.atan() / 1f64.atan() * 45.0))),
        Defined::new(&["atan2d"], true, two_floats, float, |columns| {
            let (y, x) = (columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>());
            let pairs = y.iter().zip(x.iter());
            let all = pairs.map(|(y, x)| Some(y?.atan2(x?) / 1f64.atan() * 45.0));
            Ok(Arc::new(all.collect::<Float64Array>()))
        }),
    ];
    all.into_iter().map(Defined::function).collect()
}

/// Bytes in the unit that leaves few digits, as PostgreSQL rounds them.
fn size_pretty(columns: &[ArrayRef]) -> Result<ArrayRef> {
    /// Each with the bits that a unit has, and how much is still written in it.
    const UNITS: [(&str, u32, i64); 6] = [
        ("bytes", 0, 10 << 10),
        ("kB", 10, (20 << 10) - 1),
        ("MB", 20, (20 << 10) - 1),
        ("GB", 30, (20 << 10) - 1),
        ("TB", 40, (20 << 10) - 1),
        ("PB", 50, i64::MAX),
    ];
    let text = |bytes: i64| {
        let mut size = bytes;
        for (place, (unit, bits, limit)) in UNITS.iter().enumerate() {
            // From kB on there is one more bit, by which it is rounded.
            let is_rounded = place > 0;
            if size.unsigned_abs() < limit.unsigned_abs() {
                let rounded = if is_rounded { (size + size.signum()) / 2 } else { size };
                return format!("{rounded} {unit}");
            }
            let next = UNITS.get(place + 1).map_or(0, |(_, next, _)| next - bits);
            size /= 1 << (next - 1 + u32::from(is_rounded));
        }
        format!("{size} PB")
    };
    let values = cast(&columns[0], &DataType::Int64)?;
    let mut texts = StringViewBuilder::with_capacity(values.len());
    values.as_primitive::<Int64Type>().iter().for_each(|bytes| texts.append_option(bytes.map(text)));
    Ok(Arc::new(texts.finish()))
}

fn one_float(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [of] if of.is_numeric() || *of == DataType::Null => Ok(vec![DataType::Float64]),
        _ => Err("it takes a number".into()),
    }
}

fn two_floats(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [a, b] if [a, b].iter().all(|of| of.is_numeric() || **of == DataType::Null) => Ok(vec![DataType::Float64; 2]),
        _ => Err("it takes two numbers".into()),
    }
}

fn one_decimal(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [DataType::Decimal128(..)] => Ok(types.to_vec()),
        [of] if of.is_integer() || *of == DataType::Null => Ok(vec![DataType::Decimal128(20, 0)]),
        _ => Err("it takes a decimal".into()),
    }
}

/// Integers and decimals as decimals of one scale, if one is a decimal.
fn exact(types: &[DataType]) -> Option<DataType> {
    let is_exact = |of: &DataType| of.is_integer() || matches!(of, DataType::Decimal128(..) | DataType::Null);
    if !types.iter().all(is_exact) {
        return None;
    }
    let scale = types.iter().filter_map(|of| if let DataType::Decimal128(_, scale) = of { Some(*scale) } else { None });
    Some(scale.max().map_or(DataType::Int64, |scale| DataType::Decimal128(38, scale)))
}

fn two_exact(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match (types.len(), exact(types)) {
        (2, Some(to)) => Ok(vec![to.clone(), to]),
        _ => Err("it takes two integers or decimals".into()),
    }
}

fn quotient(types: &[DataType]) -> DataType {
    match types.first() {
        Some(DataType::Decimal128(..)) => DataType::Decimal128(38, 0),
        _ => DataType::Int64,
    }
}

fn div(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = columns[0].len();
    if *columns[0].data_type() == DataType::Int64 {
        let (a, b) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_primitive::<Int64Type>());
        let mut found = Vec::with_capacity(rows);
        for (a, b) in a.iter().zip(b) {
            found.push(match (a, b) {
                (Some(_), Some(0)) => return Err(division_by_zero()),
                (Some(a), Some(b)) => match a.checked_div(b) {
                    Some(quotient) => Some(quotient),
                    None => return value_err!(NumericValueOutOfRange, "div({a}, {b}) does not fit BIGINT"),
                },
                _ => None,
            });
        }
        return Ok(Arc::new(Int64Array::from(found)));
    }
    let (a, b) = (columns[0].as_primitive::<Decimal128Type>(), columns[1].as_primitive::<Decimal128Type>());
    let mut found = Vec::with_capacity(rows);
    for (a, b) in a.iter().zip(b) {
        found.push(match (a, b) {
            (Some(_), Some(0)) => return Err(division_by_zero()),
            (Some(a), Some(b)) => Some(a / b),
            _ => None,
        });
    }
    Ok(Arc::new(Decimal128Array::from(found).with_precision_and_scale(38, 0)?))
}

fn same(types: &[DataType]) -> DataType {
    types.first().cloned().unwrap_or(DataType::Int64)
}

/// What is left over of a division that cuts off, which has the sign of the first number.
fn remainder(columns: &[ArrayRef]) -> Result<ArrayRef> {
    macro_rules! each {
        ($t:ty) => {{
            let (a, b) = (columns[0].as_primitive::<$t>(), columns[1].as_primitive::<$t>());
            let mut found = Vec::with_capacity(a.len());
            for (a, b) in a.iter().zip(b) {
                found.push(match (a, b) {
                    (Some(_), Some(0)) => return Err(division_by_zero()),
                    (Some(a), Some(b)) => Some(a.wrapping_rem(b)),
                    _ => None,
                });
            }
            found
        }};
    }
    Ok(match columns[0].data_type() {
        DataType::Decimal128(digits, scale) => {
            Arc::new(Decimal128Array::from(each!(Decimal128Type)).with_precision_and_scale(*digits, *scale)?)
        }
        _ => Arc::new(Int64Array::from(each!(Int64Type))),
    })
}

fn one_integer(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [of] if of.is_integer() || *of == DataType::Null => Ok(vec![DataType::Int64]),
        _ => Err("it takes the number of a character".into()),
    }
}

fn chr(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found = StringViewBuilder::new();
    for number in columns[0].as_primitive::<Int64Type>() {
        let Some(number) = number else {
            found.append_null();
            continue;
        };
        match u32::try_from(number).ok().filter(|number| *number > 0).and_then(char::from_u32) {
            Some(c) => found.append_value(c.encode_utf8(&mut [0; 4])),
            None if number == 0 => return value_err!(ProgramLimitExceeded, "null character not permitted"),
            None => return value_err!(ProgramLimitExceeded, "requested character not valid: {number}"),
        }
    }
    Ok(Arc::new(found.finish()))
}

fn scale(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = columns[0].data_type() else {
        return Ok(Arc::new(Int32Array::new_null(columns[0].len())));
    };
    let one = |row| columns[0].is_valid(row).then_some(i32::from(*scale));
    Ok(Arc::new((0..columns[0].len()).map(one).collect::<Int32Array>()))
}

fn min_scale(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = columns[0].data_type() else {
        return Ok(Arc::new(Int32Array::new_null(columns[0].len())));
    };
    let least = |value: i128| {
        let (mut value, mut scale) = (value, i32::from(*scale));
        while scale > 0 && value % 10 == 0 {
            value /= 10;
            scale -= 1;
        }
        scale
    };
    let values = columns[0].as_primitive::<Decimal128Type>().iter();
    Ok(Arc::new(values.map(|value| value.map(least)).collect::<Int32Array>()))
}

fn bucket(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let is_number = |of: &DataType| of.is_numeric() || *of == DataType::Null;
    match types {
        [value, list] if is_number(value) && element(list).is_some_and(is_number) => {
            let list = DataType::List(Arc::new(arrow::datatypes::Field::new_list_field(DataType::Float64, true)));
            Ok(vec![DataType::Float64, list])
        }
        [value, low, high, count] if [value, low, high].into_iter().all(is_number) && count.is_integer() => {
            let to = match exact(&types[..3]) {
                Some(DataType::Int64) => DataType::Decimal128(38, 0),
                Some(to) => to,
                None => DataType::Float64,
            };
            Ok(vec![to.clone(), to.clone(), to, DataType::Int32])
        }
        _ => Err("it takes a value, the lowest and highest bound and the number of buckets".into()),
    }
}

fn width_bucket(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let rows = columns[0].len();
    if columns.len() == 2 {
        return of_bounds(columns);
    }
    let counts = columns[3].as_primitive::<Int32Type>();
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        if columns.iter().any(|column| column.is_null(row)) {
            found.push(None);
            continue;
        }
        let count = counts.value(row);
        if count <= 0 {
            return value_err!(InvalidArgumentForWidthBucket, "count must be greater than zero");
        }
        let number = match columns[0].data_type() {
            DataType::Float64 => {
                let value = |at: usize| columns[at].as_primitive::<Float64Type>().value(row);
                let (value, low, high) = (value(0), value(1), value(2));
                if value.is_nan() || !low.is_finite() || !high.is_finite() || low == high {
                    return value_err!(
                        InvalidArgumentForWidthBucket,
                        "the bounds of width_bucket are finite and not equal, and the value is a number"
                    );
                }
                let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
                match value {
                    _ if value < low => 0,
                    _ if value >= high => i64::from(count) + 1,
                    _ => ((f64::from(count) * ((value - low) / (high - low))) as i64).min(i64::from(count) - 1) + 1,
                }
            }
            _ => {
                let value = |at: usize| columns[at].as_primitive::<Decimal128Type>().value(row);
                let (value, low, high) = (value(0), value(1), value(2));
                if low == high {
                    return value_err!(InvalidArgumentForWidthBucket, "lower bound cannot equal upper bound");
                }
                let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
                let far = value.checked_sub(low).and_then(|far| far.checked_mul(count.into()));
                match (far, high.checked_sub(low)) {
                    _ if value < low => 0,
                    _ if value >= high => i64::from(count) + 1,
                    (Some(far), Some(width)) => (far / width) as i64 + 1,
                    _ => return value_err!(NumericValueOutOfRange, "the bounds of width_bucket have too many digits"),
                }
            }
        };
        found.push(Some(number as i32));
    }
    Ok(Arc::new(Int32Array::from(found)))
}

/// How many of the bounds in a list are not above the value.
fn of_bounds(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = columns[0].as_primitive::<Float64Type>();
    let lists = as_lists(&columns[1])?;
    let mut found = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        if values.is_null(row) || lists.is_null(row) {
            found.push(None);
            continue;
        }
        let bounds = cast(&lists.value(row), &DataType::Float64)?;
        if bounds.null_count() > 0 {
            return value_err!(NullValueNotAllowed, "thresholds array must not contain NULLs");
        }
        let bounds = bounds.as_primitive::<Float64Type>();
        found.push(Some(bounds.values().iter().filter(|bound| **bound <= values.value(row)).count() as i32));
    }
    Ok(Arc::new(Int32Array::from(found)))
}

fn each(columns: &[ArrayRef], of: impl Fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    let values = columns[0].as_primitive::<Float64Type>().iter();
    Ok(Arc::new(values.map(|value| value.map(&of).transpose()).collect::<Result<Float64Array>>()?))
}

fn finite(name: &str, x: f64) -> Result<f64> {
    match x.is_infinite() {
        true => value_err!(NumericValueOutOfRange, "{name}({x}) has no value"),
        false => Ok(x),
    }
}

fn unit(name: &str, x: f64) -> Result<f64> {
    match x.abs() > 1.0 {
        true => value_err!(NumericValueOutOfRange, "{name}({x}) has no value; the argument is to be from -1 to 1"),
        false => Ok(x),
    }
}

// Angles of 30, 45 and 60 degrees have exact values: what is computed is scaled by what it is there.

fn sin_to_30(x: f64) -> f64 {
    x.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}

fn cos_to_60(x: f64) -> f64 {
    1.0 - (1.0 - x.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}

fn sin_to_90(x: f64) -> f64 {
    if x <= 30.0 { sin_to_30(x) } else { cos_to_60(90.0 - x) }
}

fn cos_to_90(x: f64) -> f64 {
    if x <= 60.0 { cos_to_60(x) } else { sin_to_30(90.0 - x) }
}

/// An angle from 0 to 90 with the same sine and cosine but for their signs.
fn folded(x: f64) -> (f64, f64, f64) {
    let (mut x, mut sine, mut cosine) = (x % 360.0, 1.0, 1.0);
    if x < 0.0 {
        (x, sine) = (-x, -sine);
    }
    if x > 180.0 {
        (x, sine) = (360.0 - x, -sine);
    }
    if x > 90.0 {
        (x, cosine) = (180.0 - x, -cosine);
    }
    (x, sine, cosine)
}

fn sind(x: f64) -> f64 {
    let (x, sine, _) = folded(x);
    sine * sin_to_90(x)
}

fn cosd(x: f64) -> f64 {
    let (x, _, cosine) = folded(x);
    cosine * cos_to_90(x)
}

fn tand(x: f64) -> f64 {
    let (x, sine, cosine) = folded(x);
    let of_45 = sin_to_90(45.0) / cos_to_90(45.0);
    sine * cosine * (sin_to_90(x) / cos_to_90(x) / of_45)
}

fn asind(x: f64) -> f64 {
    if x <= 0.5 { x.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - x.acos() / 0.5f64.acos() * 60.0 }
}

fn acosd(x: f64) -> f64 {
    if x <= 0.5 { 90.0 - x.asin() / 0.5f64.asin() * 30.0 } else { x.acos() / 0.5f64.acos() * 60.0 }
}
