//! Days beside times: a DATE and an interval make a TIMESTAMP, as in PostgreSQL, since an interval may end within a
//! day; and a DATE that is compared with a constant TIMESTAMP is compared with a day, which is what tables keep and
//! indexes know. The same holds of times of coarser units ([`moments`](super::moments)).
//!
//! # Limits
//! In lists of times (`d IN (..)`) each day is made a time.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::Cast;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion_optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::functions::days::date_of;

use super::kinds::is_comparison;
use super::moments::of_moments;

/// What a day and an interval make; every DATE is one of these.
const TIMES: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Makes a time of a day that an interval is added to, or taken from; true when it did.
pub(super) fn shifted(op: Operator, left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> bool {
    let day = match (left.get_type(schema), right.get_type(schema)) {
        (Ok(DataType::Date32), Ok(DataType::Interval(_))) if matches!(op, Operator::Plus | Operator::Minus) => left,
        (Ok(DataType::Interval(_)), Ok(DataType::Date32)) if op == Operator::Plus => right,
        _ => return false,
    };
    *day = cast(std::mem::take(day), TIMES);
    true
}

/// A day and a number of days, as numbers: DataFusion makes a length of time of the number, in nanoseconds, which are
/// too many beyond 292 years. `None` for other operands.
pub(super) fn counted(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
    let is_day = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
    let counts = match binary.op {
        Operator::Plus => (is_day(left) && is_number(right)) || (is_number(left) && is_day(right)),
        Operator::Minus => is_day(left) && is_number(right),
        _ => false,
    };
    let number = |expr: &Expr| match is_day(expr) {
        true => cast(cast(expr.clone(), DataType::Int32), DataType::Int64),
        false => cast(expr.clone(), DataType::Int64),
    };
    counts.then(|| {
        let days = BinaryExpr::new(Box::new(number(left)), binary.op, Box::new(number(right)));
        date_of(Expr::BinaryExpr(days))
    })
}

/// The optimiser's rule, after constants were folded.
#[derive(Debug, Default)]
pub(crate) struct ComparedDays;

impl OptimizerRule for ComparedDays {
    fn name(&self) -> &str {
        "compared_days"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let of = |part: &Expr| of_days(part, &schema).or_else(|| of_moments(part, &schema));
            if !expr.exists(|part| Ok(of(part).is_some()))? {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let compared = expr.transform_up(|part| match of(&part) {
                Some(compared) => Ok(Transformed::yes(compared)),
                None => Ok(Transformed::no(part)),
            })?;
            Ok(compared.update_data(|expr| name.restore(expr)))
        })
    }
}

/// A comparison of a day, as a time, with a constant, as one of days.
fn of_days(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    if !is_comparison(*op) {
        return None;
    }
    let (day, op, time) = match (day_of(left, schema), day_of(right, schema)) {
        (Some(day), None) => (day, *op, right),
        (None, Some(day)) => (day, op.swap()?, left),
        _ => return None,
    };
    let (last, exact) = last_day(time)?;
    let op = match op {
        Operator::Lt if !exact => Operator::LtEq,
        Operator::GtEq if !exact => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        op if exact => op,
        // Equal to no day: NULL for no day, so it is no constant.
        _ => return None,
    };
    let last = lit(ScalarValue::Date32(Some(last)));
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(day.clone()), op, Box::new(last))))
}

/// The DATE that is cast to a TIMESTAMP.
fn day_of<'e>(expr: &'e Expr, schema: &DFSchema) -> Option<&'e Expr> {
    let Expr::Cast(Cast { expr: day, field }) = expr else { return None };
    let time = matches!(field.data_type(), DataType::Timestamp(_, None));
    (time && matches!(day.get_type(schema), Ok(DataType::Date32))).then_some(day)
}

/// The last day that begins at a constant TIMESTAMP or before, and whether it begins at it.
fn last_day(time: &Expr) -> Option<(i32, bool)> {
    const SECONDS: i64 = 86_400;
    let (value, per_day) = match time {
        Expr::Literal(ScalarValue::TimestampSecond(Some(value), None), _) => (value, SECONDS),
        Expr::Literal(ScalarValue::TimestampMillisecond(Some(value), None), _) => (value, SECONDS * 1000),
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(value), None), _) => (value, SECONDS * 1_000_000),
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(value), None), _) => (value, SECONDS * 1_000_000_000),
        _ => return None,
    };
    Some((i32::try_from(value.div_euclid(per_day)).ok()?, value.rem_euclid(per_day) == 0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Schema};

    use super::*;

    #[test]
    fn days_compare_with_days_as_with_times() {
        let schema = Schema::new(vec![Field::new("d", DataType::Date32, true)]);
        let schema = DFSchema::try_from(Arc::new(schema)).unwrap();
        let ops = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq, Operator::Eq, Operator::NotEq];
        const HOUR: i64 = 3_600_000_000;
        let holds = |a: i64, op: Operator, b: i64| match op {
            Operator::Lt => a < b,
            Operator::LtEq => a <= b,
            Operator::Gt => a > b,
            Operator::GtEq => a >= b,
            Operator::Eq => a == b,
            _ => a != b,
        };
        for hours in -60..60 {
            let time = lit(ScalarValue::TimestampMicrosecond(Some(hours * HOUR), None));
            for op in ops {
                for turned in [false, true] {
                    let day = cast(datafusion_expr::col("d"), TIMES);
                    let (left, right) = if turned { (time.clone(), day) } else { (day, time.clone()) };
                    let compared =
                        of_days(&Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))), &schema);
                    let Some(Expr::BinaryExpr(BinaryExpr { op: new, right, .. })) = compared else {
                        assert!(hours % 24 != 0 && matches!(op, Operator::Eq | Operator::NotEq), "{hours} {op}");
                        continue;
                    };
                    let Expr::Literal(ScalarValue::Date32(Some(last)), _) = *right else { panic!("{right}") };
                    for day in -5..5 {
                        let (a, b) = (day * 24 * HOUR, hours * HOUR);
                        let expected = if turned { holds(b, op, a) } else { holds(a, op, b) };
                        assert_eq!(holds(day, new, last.into()), expected, "day {day} {op} {hours} h, {turned}");
                    }
                }
            }
        }
    }
}
