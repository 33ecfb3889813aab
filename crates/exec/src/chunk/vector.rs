//! [`Vector`]: a column of a chunk, and [`ColumnInfo`], what is known of it before any row is seen.
//!
//! Integers of every type travel as `i64` (decimals unscaled, dates and times in their unit, booleans as 0 and 1) where
//! their bounds prove that they fit; strings as vids of one dictionary; what is neither as an Arrow array. The kind of
//! a column is the same for every chunk of a pipeline and is known when the pipeline is compiled, which is after all
//! pipelines below it have run: bounds are those of real rows.
//!
//! Invariants: a vector has the kind of its column; `valid`, where present, has an entry per row; the value of a NULL
//! row is any value of the column's bounds, or 0, or vid 0. Arrow arrays keep their own NULLs and have `valid: None`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, FieldRef,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use storage::Dictionary;

use crate::tasks::traffic::{TouchPhase, note_values};

/// The row that is not there: NULL in every column.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// How the values of a column are kept.
#[derive(Clone)]
pub(crate) enum ColumnKind {
    /// `i64`; every value that is not NULL lies in `low..=high`.
    Int {
        /// Smallest possible value.
        low: i64,
        /// Largest possible value.
        high: i64,
    },
    /// `f64`; type Float64.
    Float,
    /// Vids of this dictionary.
    Vid(Arc<Dictionary>),
    /// Arrow arrays of the field's type.
    Arrow,
}

/// What is known of a column of a pipeline.
#[derive(Clone)]
pub(crate) struct ColumnInfo {
    /// Name and type.
    pub(crate) field: FieldRef,
    /// How values are kept.
    pub(crate) kind: ColumnKind,
    /// Whether any row may be NULL.
    pub(crate) nullable: bool,
}

/// Values of some rows.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Of [`ColumnKind::Int`].
    Int(Vec<i64>),
    /// Of [`ColumnKind::Float`].
    Float(Vec<f64>),
    /// Of [`ColumnKind::Vid`].
    Vid(Vec<u32>),
    /// Of [`ColumnKind::Arrow`].
    Arrow(ArrayRef),
}

/// A column of some rows.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    /// Values.
    pub(crate) data: Data,
    /// False for NULL; absent where no row is.
    pub(crate) valid: Option<Vec<bool>>,
}

impl Vector {
    /// Integers without NULL.
    pub(crate) fn ints(values: Vec<i64>) -> Vector {
        Vector { data: Data::Int(values), valid: None }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Data::Int(values) => values.len(),
            Data::Float(values) => values.len(),
            Data::Vid(vids) => vids.len(),
            Data::Arrow(array) => array.len(),
        }
    }

    /// Is this row a value?
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        match (&self.data, &self.valid) {
            (Data::Arrow(array), _) => array.is_valid(row),
            (_, Some(valid)) => valid[row],
            (_, None) => true,
        }
    }

    /// Integers; the kind must be [`ColumnKind::Int`].
    pub(crate) fn as_ints(&self) -> &[i64] {
        match &self.data {
            Data::Int(values) => values,
            _ => unreachable!("the column is no integer"),
        }
    }

    /// Vids; the kind must be [`ColumnKind::Vid`].
    pub(crate) fn as_vids(&self) -> &[u32] {
        match &self.data {
            Data::Vid(vids) => vids,
            _ => unreachable!("the column has no vids"),
        }
    }

    /// Rows by number, in any order and as often as they are named. [`NO_ROW`] is NULL if `nulls` says that it may be
    /// named.
    pub(crate) fn take(&self, rows: &[u32], nulls: bool) -> Vector {
        if nulls && rows.contains(&NO_ROW) {
            return self.take_nulls(rows);
        }
        let data = match &self.data {
            Data::Int(values) => Data::Int(rows.iter().map(|&r| values[r as usize]).collect()),
            Data::Float(values) => Data::Float(rows.iter().map(|&r| values[r as usize]).collect()),
            Data::Vid(vids) => Data::Vid(rows.iter().map(|&r| vids[r as usize]).collect()),
            Data::Arrow(array) => Data::Arrow(take_arrow(array, UInt32Array::from(rows.to_vec()))),
        };
        let valid = self.valid.as_ref().map(|valid| rows.iter().map(|&r| valid[r as usize]).collect());
        Vector { data, valid }
    }

    fn take_nulls(&self, rows: &[u32]) -> Vector {
        fn pick<T: Copy + Default>(values: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&r| values.get(r as usize).copied().unwrap_or_default()).collect()
        }
        let data = match &self.data {
            Data::Int(values) => Data::Int(pick(values, rows)),
            Data::Float(values) => Data::Float(pick(values, rows)),
            Data::Vid(vids) => Data::Vid(pick(vids, rows)),
            Data::Arrow(array) => {
                let rows: UInt32Array = rows.iter().map(|&r| (r != NO_ROW).then_some(r)).collect();
                return Vector { data: Data::Arrow(take_arrow(array, rows)), valid: None };
            }
        };
        let valid = match &self.valid {
            Some(valid) => pick(valid, rows),
            None => rows.iter().map(|&r| r != NO_ROW).collect(),
        };
        Vector { data, valid: Some(valid) }
    }

    /// Consecutive rows.
    pub(crate) fn slice(&self, start: usize, rows: usize) -> Vector {
        let range = start..start + rows;
        let data = match &self.data {
            Data::Int(values) => Data::Int(values[range.clone()].to_vec()),
            Data::Float(values) => Data::Float(values[range.clone()].to_vec()),
            Data::Vid(vids) => Data::Vid(vids[range.clone()].to_vec()),
            Data::Arrow(array) => Data::Arrow(array.slice(start, rows)),
        };
        Vector { data, valid: self.valid.as_ref().map(|valid| valid[range].to_vec()) }
    }

    /// All rows of some vectors of one kind, in order; none of an empty list would have no kind.
    pub(crate) fn concat(parts: Vec<Vector>) -> Vector {
        let rows: usize = parts.iter().map(Vector::len).sum();
        if parts.len() == 1 {
            return parts.into_iter().next().expect("there is one");
        }
        let valid = parts.iter().any(|p| p.valid.is_some()).then(|| {
            let mut all = Vec::with_capacity(rows);
            for part in &parts {
                match &part.valid {
                    Some(valid) => all.extend_from_slice(valid),
                    None => all.resize(all.len() + part.len(), true),
                }
            }
            all
        });
        let data = match &parts[0].data {
            Data::Int(_) => Data::Int(joined(&parts, rows, |v| v.as_ints())),
            Data::Vid(_) => Data::Vid(joined(&parts, rows, |v| v.as_vids())),
            Data::Float(_) => Data::Float(joined(&parts, rows, |v| match &v.data {
                Data::Float(values) => values.as_slice(),
                _ => unreachable!("parts are of one kind"),
            })),
            Data::Arrow(_) => {
                let arrays: Vec<&dyn Array> = parts
                    .iter()
                    .map(|v| match &v.data {
                        Data::Arrow(array) => array.as_ref(),
                        _ => unreachable!("parts are of one kind"),
                    })
                    .collect();
                Data::Arrow(compacted(concat(&arrays).expect("arrays of one type")))
            }
        };
        Vector { data, valid }
    }

    /// Bytes that it holds, about.
    pub(crate) fn bytes(&self) -> u64 {
        let data = match &self.data {
            Data::Int(values) => 8 * values.len() as u64,
            Data::Float(values) => 8 * values.len() as u64,
            Data::Vid(vids) => 4 * vids.len() as u64,
            Data::Arrow(array) => crate::charge::array_bytes(array.as_ref()),
        };
        data + self.valid.as_ref().map_or(0, |v| v.len() as u64)
    }
}

fn joined<'a, T: Copy + 'a>(parts: &'a [Vector], rows: usize, of: impl Fn(&'a Vector) -> &'a [T]) -> Vec<T> {
    let mut all = Vec::with_capacity(rows);
    parts.iter().for_each(|part| all.extend_from_slice(of(part)));
    all
}

/// The same values with bytes of their own: views that were put together refer to the buffers of every piece, each
/// array made of them would carry all of these along, and what is put together of those again would have them many
/// times over.
fn compacted(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}

fn take_arrow(array: &ArrayRef, rows: UInt32Array) -> ArrayRef {
    take(array, &rows, None).expect("rows of the array")
}

/// Calls `$body` with `$T` as the Arrow type behind an integer data type other than Boolean; `$other` for any other
/// type.
macro_rules! with_integer {
    ($data_type:expr, $T:ident => $body:expr, $other:expr) => {
        match $data_type {
            DataType::Int8 => {
                type $T = Int8Type;
                $body
            }
            DataType::Int16 => {
                type $T = Int16Type;
                $body
            }
            DataType::Int32 => {
                type $T = Int32Type;
                $body
            }
            DataType::Int64 => {
                type $T = Int64Type;
                $body
            }
            DataType::UInt8 => {
                type $T = UInt8Type;
                $body
            }
            DataType::UInt16 => {
                type $T = UInt16Type;
                $body
            }
            DataType::UInt32 => {
                type $T = UInt32Type;
                $body
            }
            DataType::UInt64 => {
                type $T = UInt64Type;
                $body
            }
            DataType::Date32 => {
                type $T = Date32Type;
                $body
            }
            DataType::Date64 => {
                type $T = Date64Type;
                $body
            }
            DataType::Time32(TimeUnit::Second) => {
                type $T = Time32SecondType;
                $body
            }
            DataType::Time32(TimeUnit::Millisecond) => {
                type $T = Time32MillisecondType;
                $body
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                type $T = Time64MicrosecondType;
                $body
            }
            DataType::Time64(TimeUnit::Nanosecond) => {
                type $T = Time64NanosecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                type $T = TimestampSecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                type $T = TimestampMillisecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                type $T = TimestampMicrosecondType;
                $body
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                type $T = TimestampNanosecondType;
                $body
            }
            DataType::Duration(TimeUnit::Second) => {
                type $T = DurationSecondType;
                $body
            }
            DataType::Duration(TimeUnit::Millisecond) => {
                type $T = DurationMillisecondType;
                $body
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                type $T = DurationMicrosecondType;
                $body
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                type $T = DurationNanosecondType;
                $body
            }
            DataType::Decimal32(..) => {
                type $T = Decimal32Type;
                $body
            }
            DataType::Decimal64(..) => {
                type $T = Decimal64Type;
                $body
            }
            DataType::Decimal128(..) => {
                type $T = Decimal128Type;
                $body
            }
            _ => $other,
        }
    };
}

/// A native integer of Arrow's, narrowed to and widened from 64 bits.
trait Narrow: Copy {
    /// The value, if it fits.
    fn narrow(self) -> Option<i64>;
    /// The native value; the caller knows that it fits.
    fn widen(value: i64) -> Self;
}

macro_rules! narrow {
    ($($t:ty)*) => {$(
        impl Narrow for $t {
            #[inline]
            fn narrow(self) -> Option<i64> {
                i64::try_from(self).ok()
            }
            #[inline]
            fn widen(value: i64) -> Self {
                value as $t
            }
        }
    )*};
}

narrow!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

/// Smallest and largest value of an array as integers; `None` where the type is no integer or a value does not fit. An
/// array without values has the bounds `(0, 0)`.
pub(crate) fn integer_bounds(array: &dyn Array) -> Option<(i64, i64)> {
    if *array.data_type() == DataType::Boolean {
        return Some((0, 1));
    }
    fn of<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<(i64, i64)>
    where
        T::Native: Narrow,
    {
        let mut bounds: Option<(i64, i64)> = None;
        for value in array.as_primitive::<T>().iter().flatten() {
            let value = value.narrow()?;
            let (low, high) = bounds.unwrap_or((value, value));
            bounds = Some((low.min(value), high.max(value)));
        }
        Some(bounds.unwrap_or((0, 0)))
    }
    with_integer!(array.data_type(), T => of::<T>(array), None)
}

/// Is this a type whose values may travel as [`ColumnKind::Int`]?
pub(crate) fn is_integer(data_type: &DataType) -> bool {
    *data_type == DataType::Boolean || with_integer!(data_type, T => T::DATA_TYPE.is_primitive(), false)
}

/// Bounds of every value that an integer type can hold; of 64 bits where it can hold more.
pub(crate) fn type_bounds(data_type: &DataType) -> Option<(i64, i64)> {
    Some(match data_type {
        DataType::Boolean => (0, 1),
        DataType::Int8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DataType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DataType::UInt8 => (0, i64::from(u8::MAX)),
        DataType::UInt16 => (0, i64::from(u16::MAX)),
        DataType::UInt32 => (0, i64::from(u32::MAX)),
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            (i64::MIN, i64::MAX)
        }
        DataType::Decimal32(p, _) | DataType::Decimal64(p, _) | DataType::Decimal128(p, _) if *p <= 18 => {
            let most = 10i64.pow(u32::from(*p)) - 1;
            (-most, most)
        }
        _ => return None,
    })
}

impl ColumnInfo {
    /// A column kept as Arrow arrays, or as `f64`.
    pub(crate) fn plain(field: FieldRef) -> ColumnInfo {
        let kind = if *field.data_type() == DataType::Float64 { ColumnKind::Float } else { ColumnKind::Arrow };
        let nullable = field.is_nullable();
        ColumnInfo { field, kind, nullable }
    }

    /// Integers between two bounds.
    pub(crate) fn int(field: FieldRef, low: i64, high: i64, nullable: bool) -> ColumnInfo {
        debug_assert!(is_integer(field.data_type()));
        ColumnInfo { field, kind: ColumnKind::Int { low, high }, nullable }
    }

    /// No rows of this column.
    pub(crate) fn empty(&self) -> Vector {
        let data = match self.kind {
            ColumnKind::Int { .. } => Data::Int(Vec::new()),
            ColumnKind::Float => Data::Float(Vec::new()),
            ColumnKind::Vid(_) => Data::Vid(Vec::new()),
            ColumnKind::Arrow => Data::Arrow(arrow::array::new_empty_array(self.data_type())),
        };
        Vector { data, valid: None }
    }

    /// Type of the values.
    pub(crate) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Bounds, where it is an integer.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        match self.kind {
            ColumnKind::Int { low, high } => Some((low, high)),
            _ => None,
        }
    }

    /// The values as Arrow has them.
    pub(crate) fn to_arrow(&self, vector: &Vector) -> ArrayRef {
        let nulls = || {
            let valid = vector.valid.as_ref()?;
            let nulls = NullBuffer::new(BooleanBuffer::collect_bool(valid.len(), |i| valid[i]));
            (nulls.null_count() > 0).then_some(nulls)
        };
        match (&vector.data, &self.kind) {
            (Data::Arrow(array), _) => array.clone(),
            (Data::Float(values), _) => {
                Arc::new(PrimitiveArray::<Float64Type>::new(ScalarBuffer::from(values.clone()), nulls()))
            }
            (Data::Vid(_), ColumnKind::Vid(dictionary)) if dictionary.is_empty() => {
                new_null_array(self.data_type(), vector.len())
            }
            (Data::Vid(vids), ColumnKind::Vid(dictionary)) => {
                note_values(dictionary.id(), TouchPhase::Materialize, vids.len());
                let values = with_nulls(&dictionary.take(vids), nulls());
                // Computed text may have another type than columns have.
                if values.data_type() == self.data_type() {
                    return values;
                }
                cast(&values, self.data_type()).expect("text is text")
            }
            (Data::Vid(_), _) => unreachable!("vids without a dictionary"),
            (Data::Int(values), _) => ints_to_arrow(values, nulls(), self.data_type()),
        }
    }

    /// Values of this column's type and bounds from Arrow. Vids cannot be made this way.
    pub(crate) fn vector_of(&self, array: &ArrayRef) -> Vector {
        let valid = || array.logical_nulls().filter(|n| n.null_count() > 0).map(|n| n.iter().collect());
        match self.kind {
            ColumnKind::Arrow => Vector { data: Data::Arrow(array.clone()), valid: None },
            ColumnKind::Float => {
                Vector { data: Data::Float(array.as_primitive::<Float64Type>().values().to_vec()), valid: valid() }
            }
            ColumnKind::Int { .. } => Vector { data: Data::Int(ints_of_arrow(array.as_ref())), valid: valid() },
            ColumnKind::Vid(_) => unreachable!("values have no vids"),
        }
    }
}

/// The same array with other NULLs.
fn with_nulls(array: &ArrayRef, nulls: Option<NullBuffer>) -> ArrayRef {
    match nulls {
        None => array.clone(),
        Some(nulls) => {
            let data = array.to_data().into_builder().nulls(Some(nulls)).build().expect("as many NULL bits as rows");
            arrow::array::make_array(data)
        }
    }
}

fn ints_to_arrow(values: &[i64], nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(values: &[i64], nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef
    where
        T::Native: Narrow,
    {
        let values: ScalarBuffer<T::Native> = values.iter().map(|&v| T::Native::widen(v)).collect();
        Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
    }
    if *data_type == DataType::Boolean {
        return Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(values.len(), |i| values[i] != 0), nulls));
    }
    with_integer!(data_type, T => of::<T>(values, nulls, data_type), unreachable!("{data_type} is no integer"))
}

/// Values as integers, 0 for NULL; the type is an integer and every value fits.
pub(crate) fn ints_of_arrow(array: &dyn Array) -> Vec<i64> {
    fn of<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<i64>
    where
        T::Native: Narrow,
    {
        let array = array.as_primitive::<T>();
        if array.null_count() == 0 {
            return array.values().iter().map(|v| v.narrow().unwrap_or(0)).collect();
        }
        array.iter().map(|v| v.and_then(Narrow::narrow).unwrap_or(0)).collect()
    }
    if *array.data_type() == DataType::Boolean {
        return array.as_boolean().iter().map(|v| i64::from(v == Some(true))).collect();
    }
    let data_type = array.data_type();
    with_integer!(data_type, T => of::<T>(array), unreachable!("{data_type} is no integer"))
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn text_put_together_again_and_again_has_few_buffers() {
        let text = |i: usize| format!("a text that is too long for its view, {i}");
        let array = |i: usize| Arc::new(StringViewArray::from_iter_values([text(i)])) as ArrayRef;
        let piece = |array: ArrayRef| Vector { data: Data::Arrow(array), valid: None };
        let mut vector = Vector::concat((0..100).map(|i| piece(array(i))).collect());
        for _ in 0..5 {
            let pieces = (0..100).map(|i| vector.take(&[i], false)).collect();
            vector = Vector::concat(pieces);
        }
        let Data::Arrow(array) = &vector.data else { unreachable!("it was text") };
        assert_eq!(array.as_string_view().data_buffers().len(), 1);
        assert!((0..100).all(|i| array.as_string_view().value(i) == text(i)));
    }
}
