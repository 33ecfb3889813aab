//! Arrays of every type and many shapes, from a seed.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
pub(crate) use random::Random;

use crate::types::{Physical, number_array, with_native};

/// How values are spread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Constant,
    AllNull,
    FewDistinct,
    Steps,
    Extremes,
    Anything,
}

pub(crate) const SHAPES: [Shape; 6] =
    [Shape::Constant, Shape::AllNull, Shape::FewDistinct, Shape::Steps, Shape::Extremes, Shape::Anything];

/// Every type that has codes.
pub(crate) fn ordered_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64];
    types.extend([Date32, Date64, Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    types.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond), Duration(TimeUnit::Second)]);
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.push(Timestamp(unit, None));
        types.push(Timestamp(unit, Some("+02:00".into())));
    }
    types.extend([Decimal32(9, 2), Decimal64(18, 3), Decimal128(15, 2), Decimal128(38, 10)]);
    types.extend([Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView]);
    types.extend([FixedSizeBinary(1), FixedSizeBinary(5), FixedSizeBinary(12), FixedSizeBinary(20)]);
    types.push(Dictionary(Box::new(Int32), Box::new(Utf8)));
    types.push(Dictionary(Box::new(UInt16), Box::new(Int64)));
    types
}

/// Types that are kept as arrow arrays.
pub(crate) fn opaque_types() -> Vec<DataType> {
    use DataType::*;
    let item = Arc::new(Field::new("item", Int32, true));
    let fields = Fields::from(vec![Field::new("a", Int64, true), Field::new("b", Utf8, true)]);
    vec![Null, Float16, Decimal256(60, 3), Interval(IntervalUnit::MonthDayNano), List(item), Struct(fields)]
}

/// An array of `rows` values, of which about one in `null_every` is NULL (none for 0).
pub(crate) fn array(t: &DataType, shape: Shape, rows: usize, null_every: usize, random: &mut Random) -> ArrayRef {
    let nulls: Option<NullBuffer> = match (shape, null_every) {
        (Shape::AllNull, _) => Some(NullBuffer::new_null(rows)),
        (_, 0) => None,
        _ => Some((0..rows).map(|_| random.below(null_every) != 0).collect()),
    };
    if let DataType::Dictionary(_, values) = t {
        return cast(&array(values, Shape::FewDistinct, rows, null_every, random), t).unwrap();
    }
    let surface = crate::surface_type(t);
    match Physical::of(&surface) {
        Physical::Bytes => cast(&bytes(&surface, shape, rows, nulls, random), t).unwrap(),
        Physical::Opaque => opaque(t, rows, nulls, random),
        physical => numbers(t, physical, shape, rows, nulls, random),
    }
}

fn numbers(
    t: &DataType,
    physical: Physical,
    shape: Shape,
    rows: usize,
    nulls: Option<NullBuffer>,
    random: &mut Random,
) -> ArrayRef {
    if physical == Physical::Bool {
        let constant = random.below(2) == 0;
        let one = matches!(shape, Shape::Constant);
        let values: Vec<u8> = (0..rows).map(|_| u8::from(if one { constant } else { random.below(2) == 0 })).collect();
        return number_array(t, rows, Buffer::from_vec(values), nulls);
    }
    let base = i128::from(random.next_u64() as i64 >> random.below(64));
    let step = 1 + random.below(1000) as i128;
    let few: Vec<i128> = (0..1 + random.below(50)).map(|_| anything(physical, random)).collect();
    let keys = (0..rows).map(|_| match shape {
        Shape::Constant | Shape::AllNull => few[0],
        Shape::FewDistinct => few[random.below(few.len())],
        Shape::Steps => base + step * random.below(5000) as i128,
        Shape::Extremes => extremes(physical)[random.below(7)],
        Shape::Anything => anything(physical, random),
    });
    let keys: Vec<i128> = keys.collect();
    let floats = physical.is_float() && matches!(shape, Shape::Steps);
    let buffer = with_native!(physical, N => {
        use crate::types::Native;
        // Of NaNs the one that is kept.
        let plain = |key: i128| N::from_wide_key(N::from_wide_key(key).wide_key());
        let value = |&key: &i128| if floats { N::from_wide_key(float_key(physical, key)) } else { plain(key) };
        Buffer::from_vec(keys.iter().map(value).collect::<Vec<N>>())
    });
    number_array(t, rows, buffer, nulls)
}

/// The key of a number with a few decimals.
fn float_key(physical: Physical, key: i128) -> i128 {
    use crate::types::Native;
    let value = (key % 100_000) as f64 / 4.0;
    if physical == Physical::F32 { (value as f32).wide_key() } else { value.wide_key() }
}

fn extremes(physical: Physical) -> [i128; 7] {
    use crate::types::Native;
    match physical {
        Physical::F32 => [0.0f32, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::MIN, f32::from_bits(0x7fc0_1234)]
            .map(Native::wide_key),
        Physical::F64 => {
            let odd_nan = f64::from_bits(0x7ff8_0000_dead_beef);
            [0.0f64, -0.0, f64::NAN, -f64::NAN, f64::NEG_INFINITY, f64::MAX, odd_nan].map(Native::wide_key)
        }
        Physical::I128 => {
            let most = 10i128.pow(38) - 1;
            [most, -most, 0, i128::MIN, i128::MAX, i64::MAX.into(), i64::MIN.into()]
        }
        _ => [i64::MIN, i64::MAX, 0, -1, 1, i64::MIN + 1, i64::MAX - 1].map(i128::from),
    }
}

fn anything(physical: Physical, random: &mut Random) -> i128 {
    let low = random.next_u64();
    match physical {
        Physical::I128 if random.below(4) > 0 => (i128::from(random.next_u64() as i64) << 64 | i128::from(low)) >> 2,
        _ => i128::from(low as i64),
    }
}

fn bytes(t: &DataType, shape: Shape, rows: usize, nulls: Option<NullBuffer>, random: &mut Random) -> ArrayRef {
    let few: Vec<String> = (0..1 + random.below(60)).map(|i| text(i, random)).collect();
    let mut unique = 0;
    let mut value = |random: &mut Random| match shape {
        Shape::Constant | Shape::AllNull => few[0].clone(),
        Shape::FewDistinct | Shape::Steps => few[random.below(few.len())].clone(),
        Shape::Extremes => {
            ["", "a", "ab\0", "twelve bytes", "thirteen byte", "żółć 你好", "\u{10ffff}"][random.below(7)].into()
        }
        Shape::Anything => {
            unique += 1;
            text(unique, random)
        }
    };
    let values = (0..rows).map(|i| (value(random), nulls.as_ref().is_none_or(|n| n.is_valid(i))));
    let values: Vec<Option<String>> = values.map(|(value, valid)| valid.then_some(value)).collect();
    match t {
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(values)),
        DataType::BinaryView => {
            Arc::new(BinaryViewArray::from_iter(values.iter().map(|v| v.as_ref().map(|v| v.as_bytes()))))
        }
        DataType::FixedSizeBinary(width) => {
            let width = *width as usize;
            let mut bytes = Vec::new();
            for value in &values {
                let mut value = value.clone().unwrap_or_default().into_bytes();
                value.resize(width, 7);
                bytes.extend(value);
            }
            let array = FixedSizeBinaryArray::try_new_with_len(width as i32, Buffer::from_vec(bytes), nulls, rows);
            Arc::new(array.unwrap())
        }
        _ => unreachable!(),
    }
}

fn text(i: usize, random: &mut Random) -> String {
    match random.below(20) {
        0 => String::new(),
        1 => "ü".repeat(random.below(3000)),
        2..9 => format!("{:x}", random.next_u64() % 100_000),
        _ => format!("a longer value, the number {i} {:x} of them", random.next_u64()),
    }
}

fn opaque(t: &DataType, rows: usize, nulls: Option<NullBuffer>, random: &mut Random) -> ArrayRef {
    match t {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Float16 => {
            let values: Vec<u16> = (0..rows).map(|_| random.next_u64() as u16).collect();
            let data = ArrayData::builder(t.clone()).len(rows).add_buffer(Buffer::from_vec(values)).nulls(nulls);
            make_array(data.build().unwrap())
        }
        DataType::Decimal256(..) => {
            let values = (0..rows).map(|_| i256::from_i128(i128::from(random.next_u64())));
            Arc::new(Decimal256Array::new(values.collect::<Vec<_>>().into(), nulls).with_data_type(t.clone()))
        }
        DataType::Interval(_) => {
            let values =
                (0..rows).map(|_| IntervalMonthDayNano::new(random.next_u64() as i32, 1, random.next_u64() as i64));
            Arc::new(IntervalMonthDayNanoArray::new(values.collect::<Vec<_>>().into(), nulls))
        }
        DataType::List(item) => {
            let lengths: Vec<usize> = (0..rows).map(|_| random.below(4)).collect();
            let total = lengths.iter().sum();
            let child = array(item.data_type(), Shape::Anything, total, 5, random);
            Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), child, nulls))
        }
        DataType::Struct(fields) => {
            let children = fields.iter().map(|f| array(f.data_type(), Shape::FewDistinct, rows, 5, random)).collect();
            Arc::new(StructArray::new(fields.clone(), children, nulls))
        }
        other => unreachable!("{other}"),
    }
}
