//! The slow evaluator: one row at a time, in 128 bits, every step checked against its type.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
};
use arrow::compute::kernels::temporal;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema};

use crate::ExecError;
use crate::chunk::vector::{ints_of_arrow, is_integer};
use crate::eval::interval::range_of;
use crate::plan::expression::{ArithmeticOp, CompareOp, DatePart, Scalar};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
}

fn failed(text: &str) -> ExecError {
    ExecError::Evaluation(text.into())
}

/// A value of an array.
pub(super) fn of_array(array: &ArrayRef, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).into()),
        t if is_integer(t) => Value::Int(ints_of_arrow(array.as_ref())[row].into()),
        other => unreachable!("no {other} here"),
    })
}

/// Values as an array; booleans only, which is all that conditions need.
pub(super) fn to_array(values: &[Option<Value>], data_type: &DataType) -> Result<ArrayRef, ExecError> {
    if *data_type != DataType::Boolean {
        return Err(failed("only conditions are evaluated over arrays here"));
    }
    let bools = values.iter().map(|v| v.as_ref().map(|v| *v == Value::Bool(true)));
    Ok(Arc::new(BooleanArray::from_iter(bools)))
}

pub(super) fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        other => unreachable!("{other} is no decimal"),
    }
}

/// Type of a tree over the columns of the tests.
pub(super) fn type_of(tree: &Scalar) -> DataType {
    match tree {
        Scalar::Column(column) => match column {
            0 | 1 => DataType::Int64,
            2 => DataType::Int32,
            3 => DataType::Decimal128(15, 2),
            4 => DataType::Decimal128(12, 4),
            5 => DataType::Date32,
            6 => DataType::Float64,
            7 => DataType::Boolean,
            _ => DataType::Utf8View,
        },
        Scalar::Literal(value) => value.data_type().clone(),
        Scalar::Negate(input) => type_of(input),
        Scalar::Arithmetic { data_type, .. }
        | Scalar::Case { data_type, .. }
        | Scalar::Cast { data_type, .. }
        | Scalar::DatePart { data_type, .. } => data_type.clone(),
        Scalar::Opaque(expression) => expression.data_type().clone(),
        _ => DataType::Boolean,
    }
}

/// The value of a tree for a row.
pub(super) fn slow(tree: &Scalar, row: &dyn Fn(usize) -> Option<Value>) -> Result<Option<Value>, ExecError> {
    let part = |t: &Scalar| slow(t, row);
    Ok(match tree {
        Scalar::Column(column) => row(*column),
        Scalar::Literal(value) => of_array(value, 0),
        Scalar::Negate(input) => match part(input)? {
            Some(Value::Int(v)) => checked(-v, &type_of(input))?,
            Some(Value::Float(v)) => Some(Value::Float(-v)),
            _ => None,
        },
        Scalar::Arithmetic { op, left, right, data_type } => match (part(left)?, part(right)?) {
            (Some(Value::Float(a)), Some(Value::Float(b))) => Some(Value::Float(match op {
                ArithmeticOp::Add => a + b,
                ArithmeticOp::Subtract => a - b,
                ArithmeticOp::Multiply => a * b,
                _ => a / b,
            })),
            (Some(Value::Int(a)), Some(Value::Int(b))) => {
                let value = arithmetic(*op, (a, &type_of(left)), (b, &type_of(right)), data_type);
                checked(value.ok_or_else(|| failed("overflow or division by zero"))?, data_type)?
            }
            _ => None,
        },
        Scalar::Compare { op, left, right } => match (part(left)?, part(right)?) {
            (Some(a), Some(b)) => Some(Value::Bool(holds(*op, order(&a, &b)))),
            _ => None,
        },
        Scalar::And(parts) => chain(parts, row, false)?,
        Scalar::Or(parts) => chain(parts, row, true)?,
        Scalar::Not(input) => match part(input)? {
            Some(Value::Bool(v)) => Some(Value::Bool(!v)),
            _ => None,
        },
        Scalar::IsNull { input, negated } => Some(Value::Bool(part(input)?.is_none() != *negated)),
        Scalar::In { input, values, negated } => part(input)?.map(|value| {
            let found = (0..values.len()).any(|i| of_array(values, i).as_ref() == Some(&value));
            Value::Bool(found != *negated)
        }),
        Scalar::Case { whens, otherwise, .. } => {
            for (when, then) in whens {
                if part(when)? == Some(Value::Bool(true)) {
                    return part(then);
                }
            }
            match otherwise {
                Some(otherwise) => part(otherwise)?,
                None => None,
            }
        }
        Scalar::Cast { input, data_type } => match part(input)? {
            Some(value) => cast(value, &type_of(input), data_type)?,
            None => None,
        },
        Scalar::DatePart { part: which, input, .. } => match part(input)? {
            Some(Value::Int(day)) => Some(Value::Int(date_part(*which, day))),
            _ => None,
        },
        Scalar::Opaque(expression) => {
            let text: ArrayRef = Arc::new(StringViewArray::from_iter([match row(expression.columns()[0]) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            }]));
            let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Utf8View, true)]));
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let batch = RecordBatch::try_new_with_options(schema, vec![text], &options)?;
            of_array(&expression.evaluate(&batch)?, 0)
        }
    })
}

fn checked(value: i128, data_type: &DataType) -> Result<Option<Value>, ExecError> {
    let range = range_of(data_type).ok_or_else(|| failed("no range"))?;
    if (range.low..=range.high).contains(&value) { Ok(Some(Value::Int(value))) } else { Err(failed("out of range")) }
}

fn ten(digits: i32) -> Option<i128> {
    10i128.checked_pow(u32::try_from(digits).ok()?)
}

fn arithmetic(op: ArithmeticOp, (a, at): (i128, &DataType), (b, bt): (i128, &DataType), t: &DataType) -> Option<i128> {
    let (mut a, mut b) = (a, b);
    if let DataType::Decimal128(_, result) = t {
        let (at, bt, result) = (i32::from(scale(at)), i32::from(scale(bt)), i32::from(*result));
        match op {
            ArithmeticOp::Multiply => {}
            ArithmeticOp::Divide => a = a.checked_mul(ten(result - at + bt)?)?,
            _ => {
                a = a.checked_mul(ten(result - at)?)?;
                b = b.checked_mul(ten(result - bt)?)?;
            }
        }
    }
    match op {
        ArithmeticOp::Add => a.checked_add(b),
        ArithmeticOp::Subtract => a.checked_sub(b),
        ArithmeticOp::Multiply => a.checked_mul(b),
        // Half of the divisor more, without signs, and cut off.
        ArithmeticOp::Divide if matches!(t, DataType::Decimal128(..)) && b != 0 => {
            let quotient = a.abs().checked_mul(2)?.checked_add(b.abs())? / (2 * b.abs());
            Some(if (a < 0) == (b < 0) { quotient } else { -quotient })
        }
        ArithmeticOp::Divide => a.checked_div(b),
        ArithmeticOp::Remainder => a.checked_rem(b),
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
        (Value::Float(a), Value::Float(b)) if *a == 0.0 && *b == 0.0 => Ordering::Equal,
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        _ => unreachable!("values of one type"),
    }
}

fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::NotEq => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::LtEq => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::GtEq => order.is_ge(),
    }
}

/// AND or OR: decided by the first operand that is `deciding`.
fn chain(parts: &[Scalar], row: &dyn Fn(usize) -> Option<Value>, deciding: bool) -> Result<Option<Value>, ExecError> {
    let mut unknown = false;
    for part in parts {
        match slow(part, row)? {
            Some(Value::Bool(v)) if v == deciding => return Ok(Some(Value::Bool(deciding))),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(Value::Bool(!deciding)))
}

/// By Arrow's own kernel where the numbers are small enough for it.
fn cast(value: Value, from: &DataType, to: &DataType) -> Result<Option<Value>, ExecError> {
    if from == to {
        return Ok(Some(value));
    }
    let array: ArrayRef = match (value, from) {
        (Value::Bool(v), _) => Arc::new(BooleanArray::from(vec![v])),
        (Value::Int(v), DataType::Decimal128(precision, scale)) => {
            let array = arrow::array::Decimal128Array::from(vec![v]);
            Arc::new(array.with_precision_and_scale(*precision, *scale)?)
        }
        (Value::Int(v), DataType::Int32) => Arc::new(arrow::array::Int32Array::from(vec![v as i32])),
        (Value::Int(v), _) => Arc::new(Int64Array::from(vec![v as i64])),
        (other, _) => unreachable!("{other:?} is not cast here"),
    };
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    let result = arrow::compute::cast_with_options(&array, to, &options).map_err(|e| failed(&e.to_string()))?;
    // What no longer fits in 64 bits is a value all the same.
    if let DataType::Decimal128(..) = to {
        let value = result.as_primitive::<arrow::datatypes::Decimal128Type>().value(0);
        return Ok(Some(Value::Int(value)));
    }
    Ok(of_array(&result, 0))
}

fn date_part(part: DatePart, day: i128) -> i128 {
    let array = arrow::array::Date32Array::from(vec![day as i32]);
    let part = match part {
        DatePart::Year => temporal::DatePart::Year,
        DatePart::Quarter => temporal::DatePart::Quarter,
        DatePart::Month => temporal::DatePart::Month,
        DatePart::Day => temporal::DatePart::Day,
    };
    temporal::date_part(&array, part).expect("a date").as_primitive::<Int32Type>().value(0).into()
}
