//! Which types there are to a column: how a type surfaces in results, and which native numbers lie behind it.
//!
//! Every type that is an ordered number (booleans, integers, dates, times, timestamps, durations, decimals, floats) is
//! handled as a *key*: an integer of 64 bits (128 for wide decimals) whose order is the type's order and which turns
//! back into exactly the same bits. For floats that order is IEEE 754's total order: -0.0 before 0.0, NaN last. All
//! NaNs are kept as one, without a sign, since SQL has them equal and greatest.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, BooleanArray, PrimitiveArray, downcast_primitive, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Field, Schema, TimeUnit};

/// The type in which a column of type `t` appears in results: strings and binary as views, dictionaries as their
/// values, everything else as it is.
pub fn surface_type(t: &DataType) -> DataType {
    match t {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => surface_type(values),
        other => other.clone(),
    }
}

/// `s` with every field's type as [`surface_type`] gives it; names, nullability and metadata stay.
pub fn surface_schema(s: &Schema) -> Schema {
    let fields: Vec<Arc<Field>> =
        s.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_data_type(surface_type(f.data_type())))).collect();
    Schema::new_with_metadata(fields, s.metadata().clone())
}

/// What a surface type is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Physical {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// Strings and binary, fixed-size binary too.
    Bytes,
    /// Kept as arrow arrays.
    Opaque,
}

impl Physical {
    /// What the surface type `t` is made of.
    pub(crate) fn of(t: &DataType) -> Physical {
        match t {
            DataType::Boolean => Physical::Bool,
            DataType::Int8 => Physical::I8,
            DataType::Int16 => Physical::I16,
            DataType::Int32 | DataType::Date32 | DataType::Decimal32(..) => Physical::I32,
            DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond) => Physical::I32,
            DataType::Int64 | DataType::Date64 | DataType::Decimal64(..) => Physical::I64,
            DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => Physical::I64,
            DataType::Timestamp(..) | DataType::Duration(_) => Physical::I64,
            DataType::Decimal128(..) => Physical::I128,
            DataType::UInt8 => Physical::U8,
            DataType::UInt16 => Physical::U16,
            DataType::UInt32 => Physical::U32,
            DataType::UInt64 => Physical::U64,
            DataType::Float32 => Physical::F32,
            DataType::Float64 => Physical::F64,
            DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) => Physical::Bytes,
            _ => Physical::Opaque,
        }
    }

    /// True for what has a key.
    pub(crate) fn is_number(self) -> bool {
        !matches!(self, Physical::Bytes | Physical::Opaque)
    }

    /// True for floats.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Physical::F32 | Physical::F64)
    }

    /// Bytes of one stored value; 1 for booleans, 0 for what is not a number.
    pub(crate) fn width_bytes(self) -> usize {
        match self {
            Physical::Bool | Physical::I8 | Physical::U8 => 1,
            Physical::I16 | Physical::U16 => 2,
            Physical::I32 | Physical::U32 | Physical::F32 => 4,
            Physical::I64 | Physical::U64 | Physical::F64 => 8,
            Physical::I128 => 16,
            Physical::Bytes | Physical::Opaque => 0,
        }
    }
}

/// A number as arrow keeps it, and its key. Booleans are stored as `u8`.
pub(crate) trait Native: ArrowNativeType + numa::Word {
    /// The key; `None` where it needs 128 bits.
    fn key(self) -> Option<i64>;
    /// The key at full width.
    fn wide_key(self) -> i128;
    /// The number of a key that [`Native::key`] made.
    fn from_key(key: i64) -> Self;
    /// The number of a key that [`Native::wide_key`] made.
    fn from_wide_key(key: i128) -> Self;
}

macro_rules! native_integer {
    ($($t:ty)*) => {$(
        impl Native for $t {
            #[inline]
            fn key(self) -> Option<i64> {
                Some(self as i64)
            }
            #[inline]
            fn wide_key(self) -> i128 {
                i128::from(self)
            }
            #[inline]
            fn from_key(key: i64) -> Self {
                key as $t
            }
            #[inline]
            fn from_wide_key(key: i128) -> Self {
                key as $t
            }
        }
    )*};
}
native_integer!(i8 i16 i32 i64 u8 u16 u32);

impl Native for u64 {
    #[inline]
    fn key(self) -> Option<i64> {
        Some((self ^ (1 << 63)) as i64)
    }
    #[inline]
    fn wide_key(self) -> i128 {
        i128::from((self ^ (1 << 63)) as i64)
    }
    #[inline]
    fn from_key(key: i64) -> Self {
        key as u64 ^ (1 << 63)
    }
    #[inline]
    fn from_wide_key(key: i128) -> Self {
        Self::from_key(key as i64)
    }
}

impl Native for i128 {
    #[inline]
    fn key(self) -> Option<i64> {
        i64::try_from(self).ok()
    }
    #[inline]
    fn wide_key(self) -> i128 {
        self
    }
    #[inline]
    fn from_key(key: i64) -> Self {
        i128::from(key)
    }
    #[inline]
    fn from_wide_key(key: i128) -> Self {
        key
    }
}

/// The bits of a float; of a NaN those of the one that is kept, so that order and equality have it as SQL does.
macro_rules! one_nan {
    ($t:ty, $value:expr) => {
        if $value.is_nan() { <$t>::NAN.to_bits() } else { $value.to_bits() }
    };
}

// IEEE 754 total order: negative numbers have all bits but the sign flipped, which is its own inverse.
impl Native for f32 {
    #[inline]
    fn key(self) -> Option<i64> {
        let bits = one_nan!(f32, self) as i32;
        Some(i64::from(bits ^ (((bits >> 31) as u32) >> 1) as i32))
    }
    #[inline]
    fn wide_key(self) -> i128 {
        let bits = one_nan!(f32, self) as i32;
        i128::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
    }
    #[inline]
    fn from_key(key: i64) -> Self {
        let key = key as i32;
        f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32)
    }
    #[inline]
    fn from_wide_key(key: i128) -> Self {
        Self::from_key(key as i64)
    }
}

impl Native for f64 {
    #[inline]
    fn key(self) -> Option<i64> {
        let bits = one_nan!(f64, self) as i64;
        Some(bits ^ (((bits >> 63) as u64) >> 1) as i64)
    }
    #[inline]
    fn wide_key(self) -> i128 {
        let bits = one_nan!(f64, self) as i64;
        i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
    }
    #[inline]
    fn from_key(key: i64) -> Self {
        f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
    }
    #[inline]
    fn from_wide_key(key: i128) -> Self {
        Self::from_key(key as i64)
    }
}

/// Runs `$body` with `$N` as the native type of `$physical`, which must be a number (booleans give `u8`).
macro_rules! with_native {
    ($physical:expr, $N:ident => $body:expr) => {{
        use $crate::types::Physical as P;
        match $physical {
            P::I8 => {
                type $N = i8;
                $body
            }
            P::I16 => {
                type $N = i16;
                $body
            }
            P::I32 => {
                type $N = i32;
                $body
            }
            P::I64 => {
                type $N = i64;
                $body
            }
            P::I128 => {
                type $N = i128;
                $body
            }
            P::Bool | P::U8 => {
                type $N = u8;
                $body
            }
            P::U16 => {
                type $N = u16;
                $body
            }
            P::U32 => {
                type $N = u32;
                $body
            }
            P::U64 => {
                type $N = u64;
                $body
            }
            P::F32 => {
                type $N = f32;
                $body
            }
            P::F64 => {
                type $N = f64;
                $body
            }
            P::Bytes | P::Opaque => unreachable!("not a number"),
        }
    }};
}
pub(crate) use with_native;

/// An array of the number type `t` over `values`, which holds `len` native values (booleans: one byte each).
pub(crate) fn number_array(t: &DataType, len: usize, values: Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
    if *t == DataType::Boolean {
        let bytes = values.as_slice();
        let bits = BooleanBuffer::collect_bool(len, |i| bytes[i] != 0);
        return Arc::new(BooleanArray::new(bits, nulls));
    }
    macro_rules! primitive {
        ($type:ty) => {{
            let values = ScalarBuffer::new(values, 0, len);
            Arc::new(PrimitiveArray::<$type>::new(values, nulls).with_data_type(t.clone()))
        }};
    }
    // What is not among these types is made of a description of it, which takes longer.
    downcast_primitive! {
        t => (primitive),
        _ => {
            let data = ArrayData::builder(t.clone()).len(len).add_buffer(values).nulls(nulls);
            make_array(data.build().expect("a buffer of native values is a valid number array"))
        }
    }
}

/// The key of value `i` of a number array.
pub(crate) fn wide_key_at(array: &dyn Array, i: usize) -> i128 {
    use arrow::array::AsArray;
    use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type};
    // What keys mostly are, without the copy of its description that an array gives of itself.
    match array.data_type() {
        DataType::Int64 => return array.as_primitive::<Int64Type>().value(i).wide_key(),
        DataType::Int32 => return array.as_primitive::<Int32Type>().value(i).wide_key(),
        DataType::Date32 => return array.as_primitive::<Date32Type>().value(i).wide_key(),
        DataType::Decimal128(..) => return array.as_primitive::<Decimal128Type>().value(i).wide_key(),
        _ => {}
    }
    let physical = Physical::of(array.data_type());
    if physical == Physical::Bool {
        return i128::from(array.as_boolean().value(i));
    }
    with_native!(physical, N => native_slice::<N>(&array.to_data())[i].wide_key())
}

/// The native values behind a number array's data, booleans excepted.
pub(crate) fn native_slice<N: Native>(data: &ArrayData) -> &[N] {
    &data.buffer::<N>(0)[..data.len()]
}
