//! [`Values`]: the values of one column of a batch, written one by one as text or binary.

use std::io::Write;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array,
    FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray, StructArray,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Field, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64NanosecondType, TimeUnit,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{pg_types as types, scale_of_any_digits, without_zeros};

use super::lists::quoted;
use super::unwritable::Unwritable;
use super::{binary, numeric, text, times};
use crate::wire::Format;

type Result<T> = std::result::Result<T, Unwritable>;

const NS_PER_SECOND: i64 = 1_000_000_000;

/// How times are written.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Those with a zone are written as of this one.
    pub zone: Tz,
    /// Whether digits behind the microseconds are left out: clients of PostgreSQL know none, and fail over them.
    pub to_us: bool,
}
/// The first byte of a value of `jsonb` in binary.
pub(super) const JSONB_VERSION: u8 = 1;

/// The values of a column, of which each is asked for by its row.
pub struct Values {
    array: ArrayRef,
    nulls: Option<arrow::buffer::NullBuffer>,
    kind: Kind,
}

enum Kind {
    Null,
    Boolean(BooleanArray),
    /// Of 2, 4 or 8 bytes.
    Integer(ScalarBuffer<i64>, usize),
    Float4(ScalarBuffer<f32>),
    Float8(ScalarBuffer<f64>),
    Decimal(Decimal128Array, i32),
    WideDecimal(Decimal256Array, i32),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    /// Texts whose binary form has the number of its version before it.
    Jsonb(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    BytesView(BinaryViewArray),
    FixedBytes(FixedSizeBinaryArray),
    Date(ScalarBuffer<i32>),
    Time(ScalarBuffer<i64>),
    Timestamp {
        counts: ScalarBuffer<i64>,
        per_second: i64,
        zone: Option<Tz>,
    },
    Interval(ScalarBuffer<IntervalMonthDayNano>),
    List(Box<List>),
    Record(Vec<(u32, Values)>),
    /// What PostgreSQL has no type for: as we show it.
    Shown,
}

impl Values {
    /// The values of a column, in the form of the type that the field is told as.
    ///
    /// # Errors
    /// As [`Values::new`].
    pub fn of_field(array: &ArrayRef, field: &Field, times: Times) -> Result<Values> {
        let mut values = Values::new(array, times)?;
        if let Kind::Integer(_, width) = &mut values.kind
            && let Ok(told) = usize::try_from(types::of_field(field).length)
        {
            *width = told;
        }
        if types::of_field(field).oid == types::JSONB
            && let Kind::TextView(texts) = &values.kind
        {
            values.kind = Kind::Jsonb(texts.clone());
        }
        Ok(values)
    }

    /// The values of an array.
    ///
    /// # Errors
    /// None that an array of a query has.
    pub fn new(array: &ArrayRef, times: Times) -> Result<Values> {
        use DataType as T;
        // Types that differ in how they are kept alone.
        let kept = match array.data_type() {
            T::Dictionary(_, values) => values.as_ref().clone(),
            T::RunEndEncoded(_, values) => values.data_type().clone(),
            T::Float16 => T::Float32,
            T::Int8 | T::Int16 | T::Int32 | T::UInt8 | T::UInt16 | T::UInt32 => T::Int64,
            T::UInt64 => T::Decimal128(20, 0),
            T::Decimal32(precision, scale) | T::Decimal64(precision, scale) => T::Decimal128(*precision, *scale),
            T::Date64 => T::Date32,
            T::Time32(_) | T::Time64(_) => T::Time64(TimeUnit::Nanosecond),
            T::Interval(_) => T::Interval(IntervalUnit::MonthDayNano),
            T::Duration(_) => T::Duration(TimeUnit::Nanosecond),
            other => other.clone(),
        };
        let width = match array.data_type() {
            T::Int8 | T::UInt8 | T::Int16 => 2,
            T::Int32 | T::UInt16 | T::UInt32 => 4,
            _ => 8,
        };
        if kept != *array.data_type() {
            let array = cast(array, &kept)?;
            return match kept {
                T::Int64 => {
                    Ok(Values::of(&array, Kind::Integer(array.as_primitive::<Int64Type>().values().clone(), width)))
                }
                _ => Values::new(&array, times),
            };
        }
        let kind = match &kept {
            T::Null => Kind::Null,
            T::Boolean => Kind::Boolean(array.as_boolean().clone()),
            T::Int64 => Kind::Integer(array.as_primitive::<Int64Type>().values().clone(), 8),
            T::Float32 => Kind::Float4(array.as_primitive::<Float32Type>().values().clone()),
            T::Float64 => Kind::Float8(array.as_primitive::<Float64Type>().values().clone()),
            T::Decimal128(_, scale) => Kind::Decimal(array.as_primitive().clone(), (*scale).into()),
            T::Decimal256(_, scale) => Kind::WideDecimal(array.as_primitive().clone(), (*scale).into()),
            T::Utf8 => Kind::Text(array.as_string().clone()),
            T::LargeUtf8 => Kind::LargeText(array.as_string().clone()),
            T::Utf8View => Kind::TextView(array.as_string_view().clone()),
            T::Binary => Kind::Bytes(array.as_binary().clone()),
            T::LargeBinary => Kind::LargeBytes(array.as_binary().clone()),
            T::BinaryView => Kind::BytesView(array.as_binary_view().clone()),
            T::FixedSizeBinary(_) => Kind::FixedBytes(array.as_fixed_size_binary().clone()),
            T::Date32 => Kind::Date(array.as_primitive::<Date32Type>().values().clone()),
            T::Time64(_) => {
                let ns = array.as_primitive::<Time64NanosecondType>().values();
                Kind::Time(if times.to_us { ns.iter().map(|ns| ns / 1000 * 1000).collect() } else { ns.clone() })
            }
            T::Timestamp(unit, has_zone) => {
                let counts = cast(array, &T::Int64)?.as_primitive::<Int64Type>().values().clone();
                let (counts, per_second) = match per_second(*unit) {
                    NS_PER_SECOND if times.to_us => (counts.iter().map(|ns| ns.div_euclid(1000)).collect(), 1_000_000),
                    per_second => (counts, per_second),
                };
                Kind::Timestamp { counts, per_second, zone: has_zone.as_ref().map(|_| times.zone) }
            }
            T::Interval(_) => Kind::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values().clone()),
            T::Duration(_) => {
                let spans = cast(array, &T::Int64)?;
                let of = |ns: &i64| {
                    let (days, rest) = times::days_and_rest(*ns);
                    // A duration in nanoseconds has 106,751 days at most.
                    IntervalMonthDayNano::new(0, days as i32, rest)
                };
                Kind::Interval(spans.as_primitive::<Int64Type>().values().iter().map(of).collect())
            }
            T::Struct(fields) => Kind::Record(record(array.as_struct(), fields.len(), times)?),
            other if types::element(other).is_some() => Kind::List(Box::new(List::new(array, times)?)),
            _ => Kind::Shown,
        };
        Ok(Values::of(array, kind))
    }

    fn of(array: &ArrayRef, kind: Kind) -> Values {
        Values { nulls: array.logical_nulls(), array: array.clone(), kind }
    }

    /// Whether a row has NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// A row's value behind its length, -1 for NULL.
    ///
    /// # Errors
    /// A value that has no such form, or that is too long.
    pub fn write_sized(&self, row: usize, format: Format, to: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            to.extend((-1_i32).to_be_bytes());
            return Ok(());
        }
        let start = to.len();
        to.extend([0; 4]);
        match format {
            Format::Text => self.write_text(row, to)?,
            Format::Binary => self.write_binary(row, to)?,
        }
        let length = i32::try_from(to.len() - start - 4);
        let length = length.map_err(|_| Unwritable("a value is longer than 2 GiB".into()))?;
        to[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// A row's value, which is not NULL, as text.
    ///
    /// # Errors
    /// None but for what PostgreSQL has no type for.
    pub fn write_text(&self, row: usize, to: &mut Vec<u8>) -> Result<()> {
        match &self.kind {
            Kind::Null => {}
            Kind::Boolean(values) => to.push(if values.value(row) { b't' } else { b'f' }),
            Kind::Integer(values, _) => {
                let _ = write!(to, "{}", values[row]);
            }
            Kind::Float4(values) => text::float4(values[row], to),
            Kind::Float8(values) => text::float8(values[row], to),
            Kind::Decimal(values, scale) => {
                let value = values.value(row);
                let digits = value.unsigned_abs().to_string();
                let (digits, scale) = self.decimal(&digits, *scale);
                numeric::text(value < 0, digits, scale, to);
            }
            Kind::WideDecimal(values, scale) => {
                let value = values.value(row).to_string();
                let (digits, scale) = self.decimal(value.trim_start_matches('-'), *scale);
                numeric::text(value.starts_with('-'), digits, scale, to);
            }
            Kind::Text(values) => to.extend(values.value(row).as_bytes()),
            Kind::LargeText(values) => to.extend(values.value(row).as_bytes()),
            Kind::TextView(values) | Kind::Jsonb(values) => to.extend(values.value(row).as_bytes()),
            Kind::Bytes(values) => text::bytes(values.value(row), to),
            Kind::LargeBytes(values) => text::bytes(values.value(row), to),
            Kind::BytesView(values) => text::bytes(values.value(row), to),
            Kind::FixedBytes(values) if values.value_length() == 16 => text::uuid(values.value(row), to),
            Kind::FixedBytes(values) => text::bytes(values.value(row), to),
            Kind::Date(values) => times::date(values[row].into(), to),
            Kind::Time(values) => times::time(values[row], to),
            Kind::Timestamp { counts, per_second, zone } => {
                let count = counts[row];
                let offset = zone.map(|zone| text::offset(count, *per_second, zone));
                let local = i128::from(count) + i128::from(offset.unwrap_or(0)) * i128::from(*per_second);
                times::timestamp(local, *per_second, offset, to);
            }
            Kind::Interval(values) => {
                let IntervalMonthDayNano { months, days, nanoseconds } = values[row];
                times::interval(months, days.into(), nanoseconds, to);
            }
            Kind::List(list) => list.write_text(row, to)?,
            Kind::Record(fields) => write_record(fields, row, to)?,
            Kind::Shown => {
                let options = FormatOptions::new().with_null("NULL");
                let shown = ArrayFormatter::try_new(self.array.as_ref(), &options)?;
                let _ = write!(to, "{}", shown.value(row).try_to_string()?);
            }
        }
        Ok(())
    }

    /// How many digits of a decimal stand behind the point, and which it has.
    fn decimal<'d>(&self, digits: &'d str, scale: i32) -> (&'d str, i32) {
        match scale_of_any_digits(self.array.data_type()) {
            Some(_) => without_zeros(digits, scale),
            None => (digits, scale),
        }
    }

    /// A row's value, which is not NULL, as binary.
    ///
    /// # Errors
    /// Lists of lists of several lengths; times that PostgreSQL's binary cannot hold.
    fn write_binary(&self, row: usize, to: &mut Vec<u8>) -> Result<()> {
        match &self.kind {
            Kind::Boolean(values) => to.push(values.value(row).into()),
            Kind::Integer(values, width) => to.extend(&values[row].to_be_bytes()[8 - width..]),
            Kind::Float4(values) => to.extend(values[row].to_be_bytes()),
            Kind::Float8(values) => to.extend(values[row].to_be_bytes()),
            Kind::Decimal(values, scale) => {
                let value = values.value(row);
                let digits = value.unsigned_abs().to_string();
                let (digits, scale) = self.decimal(&digits, *scale);
                numeric::binary(value < 0, digits, scale, to);
            }
            Kind::WideDecimal(values, scale) => {
                let value = values.value(row).to_string();
                let (digits, scale) = self.decimal(value.trim_start_matches('-'), *scale);
                numeric::binary(value.starts_with('-'), digits, scale, to);
            }
            Kind::Bytes(values) => to.extend(values.value(row)),
            Kind::LargeBytes(values) => to.extend(values.value(row)),
            Kind::BytesView(values) => to.extend(values.value(row)),
            Kind::FixedBytes(values) => to.extend(values.value(row)),
            Kind::Date(values) => binary::date(values[row], to)?,
            Kind::Time(values) => to.extend((values[row] / 1000).to_be_bytes()),
            Kind::Timestamp { counts, per_second, .. } => binary::timestamp(counts[row], *per_second, to)?,
            Kind::Interval(values) => {
                let IntervalMonthDayNano { months, days, nanoseconds } = values[row];
                to.extend((nanoseconds / 1000).to_be_bytes());
                to.extend(days.to_be_bytes());
                to.extend(months.to_be_bytes());
            }
            Kind::List(list) => list.write_binary(row, to)?,
            Kind::Record(fields) => {
                to.extend((fields.len() as i32).to_be_bytes());
                for (oid, values) in fields {
                    to.extend(oid.to_be_bytes());
                    values.write_sized(row, Format::Binary, to)?;
                }
            }
            Kind::Jsonb(_) => {
                to.push(JSONB_VERSION);
                self.write_text(row, to)?;
            }
            // A text's bytes are the same in both.
            Kind::Null | Kind::Text(_) | Kind::LargeText(_) | Kind::TextView(_) | Kind::Shown => {
                self.write_text(row, to)?;
            }
        }
        Ok(())
    }
}

fn record(of: &StructArray, count: usize, times: Times) -> Result<Vec<(u32, Values)>> {
    let field = |place: usize| {
        let values = of.column(place);
        Ok((types::of_type(values.data_type()).oid, Values::new(values, times)?))
    };
    (0..count).map(field).collect()
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// `(1,"a b",)`.
fn write_record(fields: &[(u32, Values)], row: usize, to: &mut Vec<u8>) -> Result<()> {
    let mut value = Vec::new();
    to.push(b'(');
    for (place, (_, values)) in fields.iter().enumerate() {
        if place > 0 {
            to.push(b',');
        }
        if values.is_null(row) {
            continue;
        }
        value.clear();
        values.write_text(row, &mut value)?;
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || text::is_blank(*byte);
        match value.is_empty() || value.iter().any(is_special) {
            true => {
                to.push(b'"');
                for &byte in &value {
                    if matches!(byte, b'"' | b'\\') {
                        to.push(byte);
                    }
                    to.push(byte);
                }
                to.push(b'"');
            }
            false => to.extend(&value),
        }
    }
    to.push(b')');
    Ok(())
}

/// The lists of a column.
struct List {
    /// Where each begins and ends.
    offsets: Vec<usize>,
    elements: Elements,
    /// The type of what stands in the innermost.
    oid: u32,
}

enum Elements {
    Lists(Box<List>, Option<arrow::buffer::NullBuffer>),
    Values(Box<Values>),
}

impl List {
    /// The lists of an array; see [`Values::new`].
    fn new(array: &ArrayRef, times: Times) -> Result<List> {
        let element = types::element(array.data_type()).cloned().unwrap_or(DataType::Null);
        let plain = DataType::LargeList(Arc::new(Field::new_list_field(element.clone(), true)));
        let lists = if *array.data_type() == plain { Arc::clone(array) } else { cast(array, &plain)? };
        let lists = lists.as_list::<i64>();
        // Offsets of an array are not negative.
        let offsets = lists.offsets().iter().map(|offset| *offset as usize).collect();
        let values = lists.values();
        let elements = match types::element(&element) {
            Some(_) => Elements::Lists(Box::new(List::new(values, times)?), values.logical_nulls()),
            None => Elements::Values(Box::new(Values::new(values, times)?)),
        };
        let oid = types::of_type(types::innermost(&element).unwrap_or(&element)).oid;
        Ok(List { offsets, elements, oid })
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row]..self.offsets[row + 1]
    }

    /// `{1,NULL,"a b"}`.
    fn write_text(&self, row: usize, to: &mut Vec<u8>) -> Result<()> {
        let mut value = Vec::new();
        to.push(b'{');
        let range = self.range(row);
        for at in range.clone() {
            if at > range.start {
                to.push(b',');
            }
            match &self.elements {
                Elements::Lists(_, nulls) if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) => {
                    to.extend(b"NULL");
                }
                Elements::Lists(lists, _) => lists.write_text(at, to)?,
                Elements::Values(values) if values.is_null(at) => to.extend(b"NULL"),
                Elements::Values(values) => {
                    value.clear();
                    values.write_text(at, &mut value)?;
                    quoted(&value, to);
                }
            }
        }
        to.push(b'}');
        Ok(())
    }

    /// Dimensions, then values.
    ///
    /// # Errors
    /// Lists within one that are of several lengths, or NULL.
    fn write_binary(&self, row: usize, to: &mut Vec<u8>) -> Result<()> {
        let mut dimensions = Vec::new();
        let leaves = self.leaves(row, 0, &mut dimensions)?;
        if leaves.is_empty() {
            dimensions.clear();
        }
        let values = self.innermost();
        let has_null = leaves.iter().any(|at| values.is_null(*at));
        to.extend((dimensions.len() as i32).to_be_bytes());
        to.extend(i32::from(has_null).to_be_bytes());
        to.extend(self.oid.to_be_bytes());
        for length in dimensions {
            let length = i32::try_from(length).map_err(|_| Unwritable("a list is too long".into()))?;
            to.extend(length.to_be_bytes());
            to.extend(1_i32.to_be_bytes());
        }
        leaves.into_iter().try_for_each(|at| values.write_sized(at, Format::Binary, to))
    }

    fn innermost(&self) -> &Values {
        match &self.elements {
            Elements::Lists(lists, _) => lists.innermost(),
            Elements::Values(values) => values,
        }
    }

    /// Where the values of a list stand; `dimensions` has the lengths that lists of each depth must have.
    fn leaves(&self, row: usize, depth: usize, dimensions: &mut Vec<usize>) -> Result<Vec<usize>> {
        let range = self.range(row);
        match dimensions.get(depth) {
            None => dimensions.push(range.len()),
            Some(length) if *length == range.len() => {}
            Some(_) => {
                return Err(Unwritable(
                    "lists within a list are of several lengths, which PostgreSQL's arrays in binary cannot be".into(),
                ));
            }
        }
        match &self.elements {
            Elements::Values(_) => Ok(range.collect()),
            Elements::Lists(lists, nulls) => {
                let mut all = Vec::new();
                for at in range {
                    if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                        return Err(Unwritable("a NULL in the place of a list within a list".into()));
                    }
                    all.extend(lists.leaves(at, depth + 1, dimensions)?);
                }
                Ok(all)
            }
        }
    }
}
