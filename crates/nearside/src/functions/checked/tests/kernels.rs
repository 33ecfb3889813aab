//! The kernels against plain wide arithmetic, value by value, for arrays and scalars with NULLs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{Decimal128Type, Int8Type, Int64Type, UInt8Type, UInt64Type, i256};
use datafusion_common::ScalarValue;
use datafusion_expr::{ColumnarValue, Operator};
use proptest::prelude::*;

use super::super::kernels::binary;
use super::super::operators::result_type;
use super::super::total::Total;

const OPERATORS: [Operator; 5] =
    [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide, Operator::Modulo];

/// Two operands, either of which may be NULL.
type Pair<N> = (Option<N>, Option<N>);

/// The exact result; `None` for a zero divisor.
fn exact(op: Operator, a: i128, b: i128) -> Option<i128> {
    match op {
        Operator::Plus => Some(a + b),
        Operator::Minus => Some(a - b),
        Operator::Multiply => Some(a * b),
        Operator::Divide => a.checked_div(b),
        _ => a.checked_rem(b),
    }
}

/// Runs `op` for every pairing of array and scalar operands and compares with `exact`.
fn compare_integers<T: ArrowPrimitiveType>(pairs: &[Pair<T::Native>])
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    let column = |side: fn(&Pair<T::Native>) -> Option<T::Native>| {
        Arc::new(pairs.iter().map(side).collect::<PrimitiveArray<T>>()) as ArrayRef
    };
    let left = column(|p| p.0);
    let right = column(|p| p.1);
    let scalar = |array: &ArrayRef| ColumnarValue::Scalar(ScalarValue::try_from_array(array, 0).unwrap());
    let operands = [
        (ColumnarValue::Array(Arc::clone(&left)), ColumnarValue::Array(Arc::clone(&right))),
        (scalar(&left), ColumnarValue::Array(Arc::clone(&right))),
        (ColumnarValue::Array(Arc::clone(&left)), scalar(&right)),
        (scalar(&left), scalar(&right)),
    ];
    for op in OPERATORS {
        for (l, r) in &operands {
            let rows = pairs.len();
            let la = l.to_array(rows).unwrap();
            let ra = r.to_array(rows).unwrap();
            let la = la.as_primitive::<T>();
            let ra = ra.as_primitive::<T>();
            let expected: Option<Vec<Option<T::Native>>> = (0..rows)
                .map(|i| {
                    if la.is_null(i) || ra.is_null(i) {
                        return Some(None);
                    }
                    let value = exact(op, la.value(i).into(), ra.value(i).into())?;
                    T::Native::try_from(value).ok().map(Some)
                })
                .collect();
            let found = binary(op, l, r, rows, &T::DATA_TYPE);
            match expected {
                None => assert!(found.is_err(), "{op} of {la:?} and {ra:?} gave {found:?}"),
                Some(expected) => {
                    let found = found.unwrap().into_array(rows).unwrap();
                    let found: Vec<_> = found.as_primitive::<T>().iter().collect();
                    assert_eq!(found, expected, "{op} of {la:?} and {ra:?}");
                }
            }
        }
    }
}

/// Values near the edges of the type and near zero, which is where arithmetic goes wrong, and NULLs.
fn edgy(min: i128, max: i128) -> impl Strategy<Value = Option<i128>> {
    let mid = max / 2;
    prop_oneof![
        1 => Just(None),
        4 => (-3i128..=3).prop_map(move |v| Some(v.clamp(min, max))),
        2 => (0i128..=2).prop_map(move |v| Some(min + v)),
        2 => (0i128..=2).prop_map(move |v| Some(max - v)),
        2 => (-2i128..=2).prop_map(move |v| Some(mid + v)),
        4 => (min..=max).prop_map(Some),
    ]
}

fn pairs(min: i128, max: i128) -> impl Strategy<Value = Vec<Pair<i128>>> {
    prop::collection::vec((edgy(min, max), edgy(min, max)), 1..4)
}

fn narrow<N: TryFrom<i128>>(pairs: &[Pair<i128>]) -> Vec<Pair<N>> {
    let one = |v: Option<i128>| v.and_then(|v| N::try_from(v).ok());
    pairs.iter().map(|&(a, b)| (one(a), one(b))).collect()
}

/// What DataFusion's types say `a op b` is, exactly, at the result's scale; `None` for a zero divisor.
fn exact_decimal(op: Operator, a: i128, s1: i8, b: i128, s2: i8) -> Option<i256> {
    let ten = |n: i8| i256::from_i128(10).checked_pow(n as u32).unwrap();
    let wide_a = i256::from_i128(a);
    let wide_b = i256::from_i128(b);
    let common = s1.max(s2);
    Some(match op {
        Operator::Plus => wide_a * ten(common - s1) + wide_b * ten(common - s2),
        Operator::Minus => wide_a * ten(common - s1) - wide_b * ten(common - s2),
        Operator::Multiply => wide_a * wide_b,
        _ if b == 0 => return None,
        _ => (wide_a * ten(common - s1)) % (wide_b * ten(common - s2)),
    })
}

proptest! {
    #[test]
    fn bytes(p in pairs(-128, 127)) {
        compare_integers::<Int8Type>(&narrow::<i8>(&p));
    }

    #[test]
    fn unsigned_bytes(p in pairs(0, 255)) {
        compare_integers::<UInt8Type>(&narrow::<u8>(&p));
    }

    #[test]
    fn bigints(p in pairs(i64::MIN.into(), i64::MAX.into())) {
        compare_integers::<Int64Type>(&narrow::<i64>(&p));
    }

    #[test]
    fn unsigned_bigints(p in pairs(0, u64::MAX.into())) {
        // The product of two does not fit 128 bits signed, so the oracle would fail: only sums and quotients.
        let p: Vec<_> = narrow::<u64>(&p).into_iter().map(|(a, b)| (a, b.map(|b| b >> 1))).collect();
        compare_integers::<UInt64Type>(&p);
    }

    #[test]
    fn decimals(
        p1 in 1u8..=38, p2 in 1u8..=38, f1 in 0u8..=9, f2 in 0u8..=9,
        a in any::<i128>(), b in any::<i128>(), cut in 0u32..=38,
    ) {
        let s1 = f1.min(p1) as i8;
        let s2 = f2.min(p2) as i8;
        let a = a % 10i128.pow(u32::from(p1));
        let b = b % 10i128.pow(u32::from(p2).min(cut));
        let operand = |v: i128, p: u8, s: i8| {
            let array = PrimitiveArray::<Decimal128Type>::from(vec![Some(v), None]);
            ColumnarValue::Array(Arc::new(array.with_precision_and_scale(p, s).unwrap()))
        };
        let l = operand(a, p1, s1);
        let r = operand(b, p2, s2);
        for op in OPERATORS.into_iter().filter(|op| *op != Operator::Divide) {
            let result = result_type(&op, &l.data_type(), &r.data_type()).unwrap();
            let arrow::datatypes::DataType::Decimal128(p, _) = result else { panic!("{result}") };
            let found = binary(op, &l, &r, 2, &result);
            let exact = exact_decimal(op, a, s1, b, s2).and_then(|v| v.to_i128());
            let fits = exact.filter(|v| v.unsigned_abs() < 10u128.pow(u32::from(p)));
            match fits {
                None => prop_assert!(found.is_err(), "{op} gave {found:?}"),
                Some(value) => {
                    let found = found.unwrap().into_array(2).unwrap();
                    prop_assert_eq!(found.data_type(), &result);
                    prop_assert_eq!(found.as_primitive::<Decimal128Type>().value(0), value);
                    prop_assert!(found.is_null(1));
                }
            }
        }
    }

    #[test]
    fn totals_are_exact(values in prop::collection::vec(any::<i128>(), 0..40), leave in 0usize..40) {
        let mut total = Total::default();
        let mut other = Total::default();
        for (i, &v) in values.iter().enumerate() {
            if i % 3 == 0 { other.add(v) } else { total.add(v) }
        }
        total.merge(other);
        for &v in values.iter().skip(leave) {
            total.sub(v);
        }
        let mut expected = i256::ZERO;
        for &v in values.iter().take(leave) {
            expected += i256::from_i128(v);
        }
        let found = i256::from_parts(total.low as u128, (total.low >> 127) + i128::from(total.wraps));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn the_row_that_fails_is_the_one_named() {
    let left: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from(vec![1, 2, i64::MAX, i64::MAX]));
    let right: ArrayRef = Arc::new(PrimitiveArray::<Int64Type>::from(vec![1, 2, 3, 4]));
    let error = binary(
        Operator::Plus,
        &ColumnarValue::Array(left),
        &ColumnarValue::Array(right),
        4,
        &arrow::datatypes::DataType::Int64,
    )
    .unwrap_err();
    assert!(error.to_string().contains("9223372036854775807 + 3 "), "{error}");
}
