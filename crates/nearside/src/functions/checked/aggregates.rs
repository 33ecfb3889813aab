//! `sum` and `avg`, exact: what Nearside registers under the names of DataFusion's own.
//!
//! Types: integers total to BIGINT (unsigned ones to UINT64), decimals of `p` digits to `DECIMAL(min(38, p + 10), s)`,
//! durations and intervals to themselves; an average of decimals has four more digits, as in DataFusion. Floats, and
//! averages of integers (which are DOUBLE), are DataFusion's, unchanged.
//!
//! # Limits
//! `sum` over `DECIMAL` of more than 38 digits and over intervals is checked at every step instead of at the end;
//! `avg` over `DECIMAL` of more than 63 digits is refused.

use std::sync::Arc;

use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Field, FieldRef, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType, TimeUnit, UInt64Type,
};
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, Volatility,
};
use datafusion_functions_aggregate::average::Avg;
use datafusion_functions_aggregate::sum::Sum;

use super::accumulators::{DistinctAccumulator, ExactAccumulator, StepwiseSum};
use super::groups::GroupTotals;
use super::span_average::{SPAN, SpanAverage, state};
use super::total::{AggregateKind, Finish};
use crate::error::statement_err;

/// Digits behind the point that the average of decimals has where there is room for them, as a quotient has.
const AVG_SCALE: i8 = 16;
/// Digits that it adds to the scale in any case.
const AVG_DIGITS: i8 = 4;
/// Digits that `sum` adds to the precision of a decimal, as DataFusion does.
const SUM_DIGITS: u8 = 10;
/// The longest `DECIMAL` whose average DataFusion can total without wrapping.
const AVG_DIGITS_MAX: u8 = 63;

/// The aggregate functions that replace DataFusion's: `sum` and `avg` (also called `mean`).
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    vec![
        Arc::new(AggregateUDF::new_from_impl(CheckedSum::default())),
        Arc::new(AggregateUDF::new_from_impl(CheckedAvg::default())),
    ]
}

/// `sum`, exact for everything but floats.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    signature: Signature,
    floats: Sum,
}

impl Default for CheckedSum {
    fn default() -> Self {
        CheckedSum { signature: Signature::user_defined(Volatility::Immutable), floats: Sum::new() }
    }
}

/// `avg`, exact for decimals and durations.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedAvg {
    signature: Signature,
    aliases: Vec<String>,
    others: Avg,
}

impl Default for CheckedAvg {
    fn default() -> Self {
        CheckedAvg {
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: vec!["mean".to_string()],
            others: Avg::new(),
        }
    }
}

/// Calls `$then!(T)` with the arrow type of `$t` when its values fit 128 bits and are one number.
macro_rules! dispatch_exact {
    ($t:expr, $then:ident, $else:expr) => {
        match $t {
            DataType::Int64 => $then!(Int64Type),
            DataType::UInt64 => $then!(UInt64Type),
            DataType::Decimal128(..) => $then!(Decimal128Type),
            DataType::Duration(TimeUnit::Second) => $then!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => $then!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => $then!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => $then!(DurationNanosecondType),
            DataType::Interval(IntervalUnit::YearMonth) => $then!(IntervalYearMonthType),
            _ => $else,
        }
    };
}

/// Whether values of `t` are totalled exactly, in 128 bits.
fn is_exact(t: &DataType) -> bool {
    macro_rules! yes {
        ($t:ty) => {
            true
        };
    }
    dispatch_exact!(t, yes, false)
}

/// The accumulator of one group, one frame or all rows.
fn exact_accumulator(finish: Finish, input: &DataType, distinct: bool) -> Result<Box<dyn Accumulator>> {
    macro_rules! make {
        ($t:ty) => {{
            let inner = Box::new(ExactAccumulator::<$t>::new(finish));
            Ok(if distinct { Box::new(DistinctAccumulator::<$t>::new(input, inner)) } else { inner })
        }};
    }
    dispatch_exact!(input, make, not_impl_err!("no exact total for {input}"))
}

fn exact_groups(finish: Finish, input: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    macro_rules! make {
        ($t:ty) => {
            Ok(Box::new(GroupTotals::<$t>::new(finish)))
        };
    }
    dispatch_exact!(input, make, not_impl_err!("no exact total for {input}"))
}

/// The state of `DISTINCT`: one list of values.
fn distinct_state(name: &str, input: &DataType) -> Vec<FieldRef> {
    vec![Arc::new(Field::new_list(
        format_state_name(name, "distinct"),
        Field::new_list_field(input.clone(), true),
        false,
    ))]
}

/// The state of an exact total: for an average its count, then low half and wraps.
fn exact_state(name: &str, input: &DataType, average: bool) -> Vec<FieldRef> {
    let scale = match input {
        DataType::Decimal128(_, s) => *s,
        _ => 0,
    };
    let field = |part: &str, t, nullable| Arc::new(Field::new(format_state_name(name, part), t, nullable));
    let mut fields = Vec::with_capacity(3);
    if average {
        fields.push(field("count", DataType::UInt64, true));
    }
    fields.push(field("low", DataType::Decimal128(38, scale), true));
    fields.push(field("wraps", DataType::Int64, true));
    fields
}

/// The type that an argument of type `t` is brought to before it is totalled; `None` when it cannot be.
fn total_type(t: &DataType) -> Option<DataType> {
    Some(match t {
        DataType::Null => DataType::Int64,
        t if t.is_signed_integer() => DataType::Int64,
        t if t.is_unsigned_integer() => DataType::UInt64,
        t if t.is_floating() => DataType::Float64,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Duration(_) | DataType::Interval(_) => {
            t.clone()
        }
        DataType::Dictionary(_, value) => return total_type(value),
        DataType::RunEndEncoded(_, value) => return total_type(value.data_type()),
        _ => return None,
    })
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = types else {
            return statement_err!(UndefinedFunction, "sum takes one argument, not {}", types.len());
        };
        match total_type(t) {
            Some(t) => Ok(vec![t]),
            None => statement_err!(UndefinedFunction, "sum takes numbers and intervals, not {t}; cast the argument"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(p, s)] => Ok(DataType::Decimal128(p.saturating_add(SUM_DIGITS).min(38), *s)),
            [DataType::Decimal256(p, s)] => Ok(DataType::Decimal256(p.saturating_add(SUM_DIGITS).min(76), *s)),
            [t] if total_type(t).as_ref() == Some(t) => Ok(t.clone()),
            _ => statement_err!(UndefinedFunction, "sum takes numbers and intervals, not {types:?}"),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = args.expr_fields[0].data_type().clone();
        if is_exact(&input) {
            let result = args.return_field.data_type();
            let finish = Finish::new(AggregateKind::Sum, args.name, &input, result)?;
            return exact_accumulator(finish, &input, args.is_distinct);
        }
        macro_rules! stepwise {
            ($t:ty) => {{
                let result = args.return_field.data_type();
                let inner = Box::new(StepwiseSum::<$t>::new(args.name, result));
                Ok(if args.is_distinct { Box::new(DistinctAccumulator::<$t>::new(&input, inner)) } else { inner })
            }};
        }
        match input {
            DataType::Decimal256(..) => stepwise!(Decimal256Type),
            DataType::Interval(IntervalUnit::DayTime) => stepwise!(IntervalDayTimeType),
            DataType::Interval(IntervalUnit::MonthDayNano) => stepwise!(IntervalMonthDayNanoType),
            _ => self.floats.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 => self.floats.create_sliding_accumulator(args),
            _ => self.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields[0].data_type();
        match input {
            DataType::Float64 => self.floats.state_fields(args),
            _ if args.is_distinct => Ok(distinct_state(args.name, input)),
            _ if is_exact(input) => Ok(exact_state(args.name, input, false)),
            _ => Ok(vec![Arc::new(Field::new(
                format_state_name(args.name, "sum"),
                args.return_field.data_type().clone(),
                true,
            ))]),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let input = args.expr_fields[0].data_type();
        !args.is_distinct && (is_exact(input) || *input == DataType::Float64)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let input = args.expr_fields[0].data_type();
        if !is_exact(input) {
            return self.floats.create_groups_accumulator(args);
        }
        let result = args.return_field.data_type();
        exact_groups(Finish::new(AggregateKind::Sum, args.name, input, result)?, input)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        if data_type.is_unsigned_integer() { SetMonotonicity::Increasing } else { SetMonotonicity::NotMonotonic }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.floats.documentation()
    }
}

/// The finish of an average of `input`, or `None` where DataFusion computes it.
fn average_finish(name: &str, input: &DataType, result: &DataType) -> Result<Option<Finish>> {
    let shift = match (input, result) {
        (DataType::Decimal128(_, s), DataType::Decimal128(_, t)) => i32::from(*t) - i32::from(*s),
        (DataType::Duration(_), DataType::Duration(_)) => 0,
        _ => return Ok(None),
    };
    let Ok(shift) = u32::try_from(shift) else {
        return not_impl_err!("avg from {input} to {result}");
    };
    Finish::new(AggregateKind::Average { shift }, name, input, result).map(Some)
}

impl AggregateUDFImpl for CheckedAvg {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = types else {
            return statement_err!(UndefinedFunction, "avg takes one argument, not {}", types.len());
        };
        match total_type(t) {
            Some(DataType::Int64 | DataType::UInt64) => Ok(vec![DataType::Float64]),
            Some(DataType::Decimal256(p, _)) if p > AVG_DIGITS_MAX => {
                statement_err!(
                    UndefinedFunction,
                    "avg takes decimals of at most {AVG_DIGITS_MAX} digits, not {p}; cast the argument"
                )
            }
            Some(DataType::Interval(_)) => Ok(vec![SPAN]),
            None => {
                statement_err!(UndefinedFunction, "avg takes numbers, not {t}; cast the argument")
            }
            Some(t) => Ok(vec![t]),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Interval(_)] => Ok(SPAN),
            [DataType::Decimal128(p, s)] => {
                // Digits before the point come first: an average has no more of them than its values.
                let left = 38_i8.saturating_sub(*p as i8);
                let further = left.min(AVG_SCALE - *s).max(AVG_DIGITS).min(38_i8.saturating_sub(*s));
                Ok(DataType::Decimal128(p.saturating_add(further as u8).min(38), s.saturating_add(further)))
            }
            _ => self.others.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = args.expr_fields[0].data_type();
        match average_finish(args.name, input, args.return_field.data_type())? {
            None if *input == SPAN => Ok(Box::new(SpanAverage::default())),
            Some(finish) => exact_accumulator(finish, input, args.is_distinct),
            None => self.others.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = args.expr_fields[0].data_type();
        match average_finish(args.name, input, args.return_field.data_type())? {
            None if *input == SPAN => Ok(Box::new(SpanAverage::default())),
            Some(finish) => exact_accumulator(finish, input, args.is_distinct),
            None => self.others.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields[0].data_type();
        match input {
            DataType::Interval(_) => Ok(state(args.name)),
            DataType::Decimal128(..) | DataType::Duration(_) if args.is_distinct => {
                Ok(distinct_state(args.name, input))
            }
            DataType::Decimal128(..) | DataType::Duration(_) => Ok(exact_state(args.name, input, true)),
            _ => self.others.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match args.expr_fields[0].data_type() {
            DataType::Decimal128(..) | DataType::Duration(_) => !args.is_distinct,
            DataType::Interval(_) => false,
            _ => self.others.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let input = args.expr_fields[0].data_type();
        match average_finish(args.name, input, args.return_field.data_type())? {
            Some(finish) => exact_groups(finish, input),
            None => self.others.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.others.documentation()
    }
}
