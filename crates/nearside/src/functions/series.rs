//! `generate_series(start, stop, step)` and `range(start, stop, step)` in FROM: integers, dates and points in time.
//!
//! Integers are computed in pieces that any worker takes; points in time one after the other, since a step of months
//! depends on where it starts, as in PostgreSQL.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, Schema, SchemaRef, TimeUnit, TimestampNanosecondType};
use datafusion_common::ScalarValue;
use datafusion_expr::Expr;
use exec::{ExecError, RowPieces, RowSource};
use parking_lot::Mutex;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Most rows of a piece of a series.
const BATCH_ROWS: usize = 8192;

/// Values of one piece of integers.
const PIECE_VALUES: u64 = 1 << 16;
/// More pieces than this are made longer.
const PIECES_MAX: u64 = 1 << 16;

/// The functions, for `information_schema.routines`.
pub(crate) const FUNCTIONS: [&str; 2] = ["generate_series", "range"];

/// A table function by name, called with literals; `None` where there is no such function.
///
/// # Errors
/// Arguments that it does not take.
pub(crate) fn table_function(name: &str, arguments: &[Expr]) -> Result<Option<Arc<dyn RowSource>>> {
    let Some(&name) = FUNCTIONS.iter().find(|known| **known == name) else { return Ok(None) };
    let literals = arguments.iter().map(|argument| match argument {
        Expr::Literal(value, _) => Ok(value.clone()),
        other => Err(Error::plan(
            SqlState::FeatureNotSupported,
            format!("{name} in FROM takes constants, and {other} is none"),
        )),
    });
    let series = Series::of(name, &literals.collect::<Result<Vec<_>>>()?)?;
    Ok(Some(Arc::new(series)))
}

/// A series of values.
#[derive(Debug, Clone)]
struct Series {
    text: String,
    schema: SchemaRef,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    /// NULL was among the arguments.
    Nothing,
    Integers {
        start: i64,
        step: i64,
        count: u64,
    },
    Moments(Moments),
}

/// Points in time, in nanoseconds.
#[derive(Debug, Clone)]
struct Moments {
    start: i64,
    stop: i64,
    step: IntervalMonthDayNano,
    zone: Option<Arc<str>>,
    with_stop: bool,
}

impl Series {
    fn of(name: &str, arguments: &[ScalarValue]) -> Result<Series> {
        let with_stop = name == "generate_series";
        let arguments = arguments.iter().map(wide).collect::<Vec<_>>();
        let arguments = arguments.as_slice();
        let text = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let text = format!("{name}({text})");
        let Some(first) = arguments.first().filter(|_| arguments.len() <= 3) else {
            return Err(Error::plan(
                SqlState::UndefinedFunction,
                format!("{name} takes one to three arguments, not {}", arguments.len()),
            ));
        };
        let (data_type, values) = match first.data_type() {
            DataType::Null | DataType::Int64 => (DataType::Int64, integers(name, arguments, with_stop)?),
            DataType::Date32 | DataType::Timestamp(..) => {
                let zone = match first.data_type() {
                    DataType::Timestamp(_, zone) => zone,
                    _ => None,
                };
                let values = moments(name, arguments, zone.clone(), with_stop)?;
                (DataType::Timestamp(TimeUnit::Nanosecond, zone), values)
            }
            other => {
                return Err(Error::plan(
                    SqlState::UndefinedFunction,
                    format!("{name} begins with an integer, a date or a timestamp, not with {other}"),
                ));
            }
        };
        let schema = Arc::new(Schema::new(vec![Field::new("value", data_type, false)]));
        Ok(Series { text, schema, values })
    }
}

/// An integer of another width as one of 64 bits; what is none, or too large, as it is.
fn wide(value: &ScalarValue) -> ScalarValue {
    match value.data_type().is_integer() {
        true => value.cast_to(&DataType::Int64).unwrap_or_else(|_| value.clone()),
        false => value.clone(),
    }
}

fn integers(name: &str, arguments: &[ScalarValue], with_stop: bool) -> Result<Values> {
    let mut given = Vec::with_capacity(3);
    for (i, argument) in arguments.iter().enumerate() {
        match argument {
            ScalarValue::Int64(value) => given.push(*value),
            ScalarValue::Null => given.push(None),
            other => {
                let place = i + 1;
                return Err(Error::plan(
                    SqlState::UndefinedFunction,
                    format!("argument {place} of {name} is an integer or NULL, not {}", other.data_type()),
                ));
            }
        }
    }
    let Some(given) = given.into_iter().collect::<Option<Vec<i64>>>() else { return Ok(Values::Nothing) };
    let (start, stop, step) = match given[..] {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        _ => (given[0], given[1], given[2]),
    };
    if step == 0 {
        return Err(Error::plan(SqlState::InvalidParameterValue, format!("the step of {name} cannot be zero")));
    }
    Ok(Values::Integers { start, step, count: count_of(start, stop, step, with_stop) })
}

/// Nanoseconds of an interval whose months have 30 days, as intervals are compared.
fn length_of(step: IntervalMonthDayNano) -> i128 {
    const DAY_NS: i128 = 86_400_000_000_000;
    i128::from(step.nanoseconds) + (i128::from(step.days) + 30 * i128::from(step.months)) * DAY_NS
}

/// How many integers there are from `start` to `stop`; the last of all 2^64 is left out.
fn count_of(start: i64, stop: i64, step: i64, with_stop: bool) -> u64 {
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let step = i128::from(step).abs();
    let count = match (distance, with_stop) {
        (..0, _) => 0,
        (_, true) => distance / step + 1,
        (_, false) => (distance + step - 1) / step,
    };
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn moments(name: &str, arguments: &[ScalarValue], zone: Option<Arc<str>>, with_stop: bool) -> Result<Values> {
    let [start, stop, step] = arguments else {
        return Err(Error::plan(
            SqlState::UndefinedFunction,
            format!("{name} over dates and timestamps takes a start, a stop and an interval"),
        ));
    };
    let moment = |value: &ScalarValue| {
        let to = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
        match value.data_type() {
            DataType::Null | DataType::Date32 | DataType::Timestamp(..) => match value.cast_to(&to)? {
                ScalarValue::TimestampNanosecond(value, _) => Ok(value),
                other => Err(Error::Internal(format!("a timestamp became {other}"))),
            },
            other => Err(Error::plan(
                SqlState::UndefinedFunction,
                format!("{name} goes from a date or timestamp to another, not to {other}"),
            )),
        }
    };
    let start = moment(start)?;
    let stop = moment(stop)?;
    let step = match step {
        ScalarValue::Null => None,
        ScalarValue::IntervalMonthDayNano(step) => *step,
        other => {
            return Err(Error::plan(
                SqlState::UndefinedFunction,
                format!("the step of {name} is an INTERVAL, not {}", other.data_type()),
            ));
        }
    };
    let (Some(start), Some(stop), Some(step)) = (start, stop, step) else { return Ok(Values::Nothing) };
    if length_of(step) == 0 {
        return Err(Error::plan(SqlState::InvalidParameterValue, format!("the step of {name} cannot be zero")));
    }
    Ok(Values::Moments(Moments { start, stop, step, zone, with_stop }))
}

impl RowSource for Series {
    fn describe(&self) -> String {
        self.text.clone()
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn rows(&self) -> Option<u64> {
        match &self.values {
            Values::Nothing => Some(0),
            Values::Integers { count, .. } => Some(*count),
            Values::Moments(moments) => Some(moments.about()),
        }
    }

    fn bytes(&self) -> u64 {
        self.rows().unwrap_or(0).saturating_mul(8)
    }

    fn bounds(&self, _column: usize) -> Option<(i64, i64)> {
        match &self.values {
            Values::Integers { start, step, count } if *count > 0 => {
                let last = value_at(*start, *step, count - 1);
                Some((*start.min(&last), *start.max(&last)))
            }
            _ => None,
        }
    }

    fn open(&self, columns: &[usize], _threads: usize) -> Result<Box<dyn RowPieces>, ExecError> {
        let schema = Arc::new(self.schema.project(columns)?);
        Ok(match &self.values {
            Values::Nothing => {
                Box::new(IntegerPieces { schema, start: 0, step: 1, count: 0, piece: 1, done: Vec::new() })
            }
            Values::Integers { start, step, count } => {
                let piece = count.div_ceil(PIECES_MAX).max(PIECE_VALUES);
                let done = (0..count.div_ceil(piece)).map(|_| Mutex::new(0)).collect();
                Box::new(IntegerPieces { schema, start: *start, step: *step, count: *count, piece, done })
            }
            Values::Moments(moments) => {
                let zone = moments.zone.as_deref().unwrap_or("+00:00");
                let zone = Tz::from_str(zone)?;
                let next = Mutex::new(Some(moments.start));
                Box::new(MomentPieces { schema, moments: moments.clone(), zone, next })
            }
        })
    }
}

fn value_at(start: i64, step: i64, place: u64) -> i64 {
    start.wrapping_add(step.wrapping_mul(place as i64))
}

fn batch_of(schema: &SchemaRef, values: ArrayRef) -> Result<RecordBatch, ExecError> {
    let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
    let columns = if schema.fields().is_empty() { Vec::new() } else { vec![values] };
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

struct IntegerPieces {
    schema: SchemaRef,
    start: i64,
    step: i64,
    count: u64,
    /// Values of a piece; the last may have fewer.
    piece: u64,
    /// Values that each piece has given.
    done: Vec<Mutex<u64>>,
}

impl RowPieces for IntegerPieces {
    fn pieces(&self) -> usize {
        self.done.len()
    }

    fn next(&self, piece: usize) -> Result<Option<RecordBatch>, ExecError> {
        let mut done = self.done[piece].lock();
        let first = piece as u64 * self.piece + *done;
        let end = ((piece as u64 + 1).saturating_mul(self.piece)).min(self.count).min(first + BATCH_ROWS as u64);
        if first >= end {
            return Ok(None);
        }
        *done += end - first;
        let values = (first..end).map(|place| value_at(self.start, self.step, place));
        batch_of(&self.schema, Arc::new(Int64Array::from_iter_values(values))).map(Some)
    }
}

struct MomentPieces {
    schema: SchemaRef,
    moments: Moments,
    zone: Tz,
    /// What comes next, if anything does.
    next: Mutex<Option<i64>>,
}

impl Moments {
    fn is_falling(&self) -> bool {
        length_of(self.step) < 0
    }

    fn is_within(&self, moment: i64) -> bool {
        match (self.is_falling(), self.with_stop) {
            (false, true) => moment <= self.stop,
            (false, false) => moment < self.stop,
            (true, true) => moment >= self.stop,
            (true, false) => moment > self.stop,
        }
    }

    /// How many there are, were all months and days of equal length.
    fn about(&self) -> u64 {
        let distance = i128::from(self.stop) - i128::from(self.start);
        u64::try_from(distance / length_of(self.step) + 1).unwrap_or(0)
    }
}

impl RowPieces for MomentPieces {
    fn pieces(&self) -> usize {
        1
    }

    fn next(&self, _piece: usize) -> Result<Option<RecordBatch>, ExecError> {
        let mut next = self.next.lock();
        let mut values = Vec::with_capacity(BATCH_ROWS);
        while let Some(moment) = next.filter(|&moment| values.len() < BATCH_ROWS && self.moments.is_within(moment)) {
            values.push(moment);
            // Past the last moment that there is nothing comes.
            *next = TimestampNanosecondType::add_month_day_nano(moment, self.moments.step, self.zone);
        }
        if values.is_empty() {
            return Ok(None);
        }
        let array = TimestampNanosecondArray::from(values).with_timezone_opt(self.moments.zone.clone());
        batch_of(&self.schema, Arc::new(array)).map(Some)
    }
}
