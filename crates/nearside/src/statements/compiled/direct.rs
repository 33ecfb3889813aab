//! Values of simple expressions over one row, without arrays for what lies between.
//!
//! Simple are a column, a constant, and `+ - *` of integers, or of 64-bit floats, over these and casts of integers.
//!
//! Invariant: what [`Direct::of`] gives is what evaluating the planned expression gives. Where that may fail, or is
//! another value than the type's usual ones, it gives nothing, and the planned expression is evaluated: errors come
//! from there alone.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{BinaryExpr, Expr, Operator};

use crate::functions::checked::as_operator;

/// See the module.
#[derive(Debug)]
pub(super) enum Direct {
    /// A column of the row as it is.
    Column(usize),
    /// The same for each row.
    Constant(ArrayRef),
    /// A number that is computed.
    Number(Step, NumberType),
}

/// What is done to numbers.
#[derive(Debug)]
pub(super) enum Step {
    Column(usize, NumberType),
    Constant(Option<Number>),
    /// Both operands are of the type.
    Arithmetic(Operator, Box<(Step, Step)>, NumberType),
    /// Of an integer to one of the type.
    Cast(Box<Step>, NumberType),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberType {
    Int8,
    Int16,
    Int32,
    Int64,
    Float64,
}

impl Direct {
    /// For an optimised expression over `schema` whose values are of `data_type`; `None` for one that is not simple.
    pub(super) fn new(expression: &Expr, schema: &DFSchema, data_type: &DataType) -> Option<Direct> {
        match expression {
            Expr::Column(column) => {
                let place = schema.index_of_column(column).ok()?;
                (schema.field(place).data_type() == data_type).then_some(Direct::Column(place))
            }
            Expr::Literal(value, _) if value.data_type() == *data_type => value.to_array().ok().map(Direct::Constant),
            _ => {
                let (step, number) = Step::new(expression, schema)?;
                (NumberType::of(data_type) == Some(number)).then_some(Direct::Number(step, number))
            }
        }
    }

    /// The value for a row, if it is sure to have one.
    pub(super) fn of(&self, row: &[ArrayRef]) -> Option<ArrayRef> {
        match self {
            Direct::Column(place) => row.get(*place).map(Arc::clone),
            Direct::Constant(value) => Some(Arc::clone(value)),
            Direct::Number(step, number) => number.array(step.of(row)?),
        }
    }
}

impl Step {
    fn new(expression: &Expr, schema: &DFSchema) -> Option<(Step, NumberType)> {
        match expression {
            Expr::Column(column) => {
                let place = schema.index_of_column(column).ok()?;
                let number = NumberType::of(schema.field(place).data_type())?;
                Some((Step::Column(place, number), number))
            }
            Expr::Literal(value, _) => {
                let constant = match value {
                    ScalarValue::Int8(value) => value.map(|value| Number::Integer(value.into())),
                    ScalarValue::Int16(value) => value.map(|value| Number::Integer(value.into())),
                    ScalarValue::Int32(value) => value.map(|value| Number::Integer(value.into())),
                    ScalarValue::Int64(value) => value.map(Number::Integer),
                    ScalarValue::Float64(value) => value.map(Number::Float),
                    _ => return None,
                };
                Some((Step::Constant(constant), NumberType::of(&value.data_type())?))
            }
            Expr::Cast(cast) => {
                let (step, from) = Step::new(&cast.expr, schema)?;
                let to = NumberType::of(cast.field.data_type())?;
                let are_integers = from != NumberType::Float64 && to != NumberType::Float64;
                are_integers.then(|| (Step::Cast(Box::new(step), to), to))
            }
            other => {
                let (op, left, right) = match other {
                    Expr::BinaryExpr(BinaryExpr { left, op, right }) => (*op, left.as_ref(), right.as_ref()),
                    other => match as_operator(other)? {
                        (op, [left, right]) => (op, left, right),
                        _ => return None,
                    },
                };
                if !matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) {
                    return None;
                }
                let (left, number) = Step::new(left, schema)?;
                let (right, other) = Step::new(right, schema)?;
                (number == other).then(|| (Step::Arithmetic(op, Box::new((left, right)), number), number))
            }
        }
    }

    /// Its value for a row, `None` within for NULL; `None` where it is not sure to have one.
    fn of(&self, row: &[ArrayRef]) -> Option<Option<Number>> {
        match self {
            Step::Column(place, number) => number.at(row.get(*place)?),
            Step::Constant(value) => Some(*value),
            Step::Cast(step, to) => match step.of(row)? {
                None => Some(None),
                Some(number) => to.has(number).then_some(Some(number)),
            },
            // An operand that fails does so beside a NULL too.
            Step::Arithmetic(op, operands, number) => match (operands.0.of(row)?, operands.1.of(row)?) {
                (Some(left), Some(right)) => {
                    let value = computed(*op, left, right)?;
                    number.has(value).then_some(Some(value))
                }
                _ => Some(None),
            },
        }
    }
}

fn computed(op: Operator, left: Number, right: Number) -> Option<Number> {
    match (left, right) {
        (Number::Integer(left), Number::Integer(right)) => match op {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            _ => None,
        }
        .map(Number::Integer),
        (Number::Float(left), Number::Float(right)) => match op {
            Operator::Plus => Some(left + right),
            Operator::Minus => Some(left - right),
            Operator::Multiply => Some(left * right),
            _ => None,
        }
        .map(Number::Float),
        _ => None,
    }
}

impl NumberType {
    fn of(data_type: &DataType) -> Option<NumberType> {
        Some(match data_type {
            DataType::Int8 => NumberType::Int8,
            DataType::Int16 => NumberType::Int16,
            DataType::Int32 => NumberType::Int32,
            DataType::Int64 => NumberType::Int64,
            DataType::Float64 => NumberType::Float64,
            _ => return None,
        })
    }

    /// Whether the number is one of the type; of floats, a usual one.
    fn has(self, number: Number) -> bool {
        match (self, number) {
            (NumberType::Int8, Number::Integer(value)) => i8::try_from(value).is_ok(),
            (NumberType::Int16, Number::Integer(value)) => i16::try_from(value).is_ok(),
            (NumberType::Int32, Number::Integer(value)) => i32::try_from(value).is_ok(),
            (NumberType::Int64, Number::Integer(_)) => true,
            (NumberType::Float64, Number::Float(value)) => value.is_normal(),
            _ => false,
        }
    }

    /// The first value of an array of the type; `None` for an array of another.
    fn at(self, array: &ArrayRef) -> Option<Option<Number>> {
        fn first<T: ArrowPrimitiveType>(
            array: &ArrayRef,
            number: impl Fn(T::Native) -> Number,
        ) -> Option<Option<Number>> {
            let array = array.as_primitive_opt::<T>()?;
            Some(array.is_valid(0).then(|| number(array.value(0))))
        }
        match self {
            NumberType::Int8 => first::<Int8Type>(array, |value| Number::Integer(value.into())),
            NumberType::Int16 => first::<Int16Type>(array, |value| Number::Integer(value.into())),
            NumberType::Int32 => first::<Int32Type>(array, |value| Number::Integer(value.into())),
            NumberType::Int64 => first::<Int64Type>(array, Number::Integer),
            NumberType::Float64 => first::<Float64Type>(array, Number::Float),
        }
    }

    /// An array of the value.
    fn array(self, number: Option<Number>) -> Option<ArrayRef> {
        fn one<T: ArrowPrimitiveType>(value: T::Native) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(vec![value]), None))
        }
        Some(match (self, number) {
            (NumberType::Int8, Some(Number::Integer(value))) => one::<Int8Type>(value.try_into().ok()?),
            (NumberType::Int16, Some(Number::Integer(value))) => one::<Int16Type>(value.try_into().ok()?),
            (NumberType::Int32, Some(Number::Integer(value))) => one::<Int32Type>(value.try_into().ok()?),
            (NumberType::Int64, Some(Number::Integer(value))) => one::<Int64Type>(value),
            (NumberType::Float64, Some(Number::Float(value))) => one::<Float64Type>(value),
            (NumberType::Int8, None) => new_null_array(&DataType::Int8, 1),
            (NumberType::Int16, None) => new_null_array(&DataType::Int16, 1),
            (NumberType::Int32, None) => new_null_array(&DataType::Int32, 1),
            (NumberType::Int64, None) => new_null_array(&DataType::Int64, 1),
            (NumberType::Float64, None) => new_null_array(&DataType::Float64, 1),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::compiled::RowSchema;
    use arrow::array::{Float64Array, Int16Array, Int32Array, Int64Array, StringViewArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion_expr::{cast, lit};
    use random::Random;

    fn schema() -> Arc<Schema> {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        Arc::new(Schema::new(vec![
            field("a", DataType::Int16),
            field("b", DataType::Int32),
            field("c", DataType::Int64),
            field("d", DataType::Int64),
            field("x", DataType::Float64),
            field("y", DataType::Float64),
            field("s", DataType::Utf8View),
        ]))
    }

    /// An integer, often one at an end of a type.
    fn integer(random: &mut Random) -> i64 {
        let ends = [0, 1, -1, 127, -128, 32767, -32768, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
        match random.below(3) {
            0 => ends[random.below(ends.len())],
            1 => ends[random.below(ends.len())].wrapping_add(random.between(-2, 2)),
            _ => random.between(-50, 50),
        }
    }

    fn float(random: &mut Random) -> f64 {
        let ends = [0.0, -0.0, 1.5, -2.25, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN, -f64::NAN];
        if random.one_in(2) { ends[random.below(ends.len())] } else { random.between(-50, 50) as f64 / 8.0 }
    }

    fn row(random: &mut Random) -> Vec<ArrayRef> {
        let is_null = |random: &mut Random| random.one_in(8);
        let a: Option<i16> = (!is_null(random)).then(|| integer(random) as i16);
        let b: Option<i32> = (!is_null(random)).then(|| integer(random) as i32);
        let mut long = || (!is_null(random)).then(|| integer(random));
        let (c, d) = (long(), long());
        let mut double = || (!is_null(random)).then(|| float(random));
        let (x, y) = (double(), double());
        vec![
            Arc::new(Int16Array::from(vec![a])),
            Arc::new(Int32Array::from(vec![b])),
            Arc::new(Int64Array::from(vec![c])),
            Arc::new(Int64Array::from(vec![d])),
            Arc::new(Float64Array::from(vec![x])),
            Arc::new(Float64Array::from(vec![y])),
            Arc::new(StringViewArray::from(vec![(!random.one_in(4)).then_some("text")])),
        ]
    }

    fn expression(random: &mut Random, depth: u32, floats: bool) -> Expr {
        let column = |name: &str| Expr::Column(datafusion_common::Column::from_name(name));
        if depth == 0 || random.one_in(4) {
            return match (floats, random.below(4)) {
                (true, 0) => lit(float(random)),
                (true, n) => column(["x", "y"][n % 2]),
                (false, 0) => match random.below(4) {
                    0 => lit(integer(random)),
                    1 => lit(integer(random) as i32),
                    2 => lit(integer(random) as i16),
                    _ => lit(ScalarValue::Int64(None)),
                },
                (false, n) => column(["a", "b", "c", "d"][(n + random.below(2)) % 4]),
            };
        }
        if !floats && random.one_in(5) {
            let to = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64][random.below(4)].clone();
            return cast(expression(random, depth - 1, floats), to);
        }
        let left = Box::new(expression(random, depth - 1, floats));
        let right = Box::new(expression(random, depth - 1, floats));
        let op = [Operator::Plus, Operator::Minus, Operator::Multiply, Operator::Divide][random.below(4)];
        Expr::BinaryExpr(BinaryExpr { left, op, right })
    }

    #[test]
    fn direct_values_are_those_of_the_planned_expression() {
        let database = crate::Database::builder().threads(2).memory_bytes(1 << 28).build().unwrap();
        let running = database.session().running();
        let schema = schema();
        let over = RowSchema::new(Some(&schema), &Arc::new(Schema::empty())).unwrap();
        let mut random = Random::new(17);
        let (mut sure, mut unsure, mut failed, mut nulls) = (0, 0, 0, 0);
        for round in 0..600 {
            let depth = random.below(4) as u32;
            let expression = match round % 20 {
                0 => Expr::Column(datafusion_common::Column::from_name("s")),
                1 => lit("text"),
                n => expression(&mut random, depth, n % 4 == 0),
            };
            let to = match round % 3 {
                0 => None,
                _ => {
                    let types = [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Float64];
                    let to = types[random.below(4)].clone();
                    Some(Arc::new(Schema::new(vec![Field::new("to", to, true)])))
                }
            };
            let Some(compiled) = over.compiled(vec![expression.clone()], to.as_ref(), &running).unwrap() else {
                continue;
            };
            for _ in 0..20 {
                let row = row(&mut random);
                let planned = compiled[0].planned_of(&row);
                failed += usize::from(planned.is_err());
                let Some(direct) = compiled[0].direct_of(&row) else {
                    unsure += 1;
                    continue;
                };
                sure += 1;
                nulls += direct.null_count();
                let planned = planned.unwrap_or_else(|e| panic!("{expression} of {row:?}: {direct:?}, but {e}"));
                assert_eq!(planned.to_data(), direct.to_data(), "{expression} of {row:?}");
            }
        }
        assert!(sure > 3000 && unsure > 1000 && failed > 500 && nulls > 300, "{sure} {unsure} {failed} {nulls}");
    }
}
