//! Times of a coarser unit beside constants of a finer one: `TIMESTAMP(0)` columns compared with `12:00:00.5`.
//!
//! The constant is not to lose what is finer than the column: DataFusion's optimiser would take the cast from the
//! column and put one around the constant, which cuts off, and `12:00:00` were equal to `12:00:00.5`. So the cast is a
//! function until constants are folded; then [`of_moments`] compares the column with a constant of its own unit, which
//! tables keep and indexes know, by the operator that is right for it.
//!
//! A cast of a decimal to fewer digits behind the point is kept in its place likewise: 1.46 is 1.5 as a DECIMAL(10, 1).
//!
//! A time that is cast to a coarser unit is rounded, as in PostgreSQL, where Arrow cuts off (towards 1970). That is a
//! function too, and so are casts between times of a zone and times of none ([`between_clocks`]).
//!
//! # Limits
//! In lists and choices of which not all are constants the column is cast for each row.

use std::cmp::Ordering;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::expr::{Cast, InList, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion_optimizer::AnalyzerRule;

use super::kinds::is_comparison;
use crate::functions::zones::between_clocks;

/// The analyzer rule, behind all others that see casts.
#[derive(Debug, Default)]
pub(crate) struct FinerMoments;

/// A time in a finer unit, or a decimal that was cast. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Finer {
    to: DataType,
    signature: Signature,
}

/// A time in a coarser unit, rounded. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Coarser {
    to: DataType,
    signature: Signature,
}

impl AnalyzerRule for FinerMoments {
    fn name(&self) -> &str {
        "finer_moments"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any |= expr.exists(|part| Ok(is_concerned(part)))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !any {
        return Ok(Transformed::no(node));
    }
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let kept = expr.transform_up(|part| {
            let kept = keep(part, &schema).transform_data(|part| Ok(by_clocks(part, &schema)));
            kept?.transform_data(|part| Ok(round(part, &schema)))
        })?;
        Ok(kept.update_data(|expr| name.restore(expr)))
    })
}

fn is_concerned(expr: &Expr) -> bool {
    let (Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })) = expr else { return false };
    matches!(field.data_type(), DataType::Timestamp(..)) || field.data_type().is_decimal()
}

/// Puts the function that knows zones in the place of a cast between times that have one and times that have none.
fn by_clocks(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = &expr else {
        return Transformed::no(expr);
    };
    let Ok(from) = inner.get_type(schema) else { return Transformed::no(expr) };
    match between_clocks(inner, &from, field.data_type(), matches!(expr, Expr::TryCast(_))) {
        Some(found) => Transformed::yes(found),
        None => Transformed::no(expr),
    }
}

/// Rounds what is cast to a coarser unit.
fn round(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = &expr else {
        return Transformed::no(expr);
    };
    let to = field.data_type();
    let (DataType::Timestamp(unit, zone), Ok(from)) = (to, inner.get_type(schema)) else {
        return Transformed::no(expr);
    };
    let fine = match &from {
        DataType::Timestamp(fine, _) => *fine,
        // What a text has behind the point, as far as PostgreSQL reads it.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => TimeUnit::Microsecond,
        _ => return Transformed::no(expr),
    };
    if per_second(fine) <= per_second(*unit) {
        return Transformed::no(expr);
    }
    let own = DataType::Timestamp(fine, zone.clone());
    let inner = match &expr {
        _ if from == own => inner.as_ref().clone(),
        Expr::TryCast(_) => datafusion_expr::try_cast(inner.as_ref().clone(), own),
        _ => datafusion_expr::cast(inner.as_ref().clone(), own),
    };
    let function = Coarser { to: to.clone(), signature: Signature::any(1, Volatility::Immutable) };
    Transformed::yes(ScalarUDF::from(function).call(vec![inner]))
}

/// Keeps casts within a comparison from being moved.
fn keep(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    let mut finer = |side: &mut Expr| changed |= make_finer(side, schema);
    match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            finer(&mut binary.left);
            finer(&mut binary.right);
        }
        Expr::Between(between) => {
            [&mut between.expr, &mut between.low, &mut between.high].into_iter().for_each(|e| finer(e));
        }
        Expr::InList(list) => finer(&mut list.expr),
        _ => {}
    }
    Transformed::new_transformed(expr, changed)
}

/// Puts the function in the place of a cast to a finer unit, and around a cast of a decimal to fewer digits, which
/// rounds; true when it was one, of something with a column in it.
fn make_finer(expr: &mut Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = &*expr else {
        return false;
    };
    let (to, Ok(from)) = (field.data_type().clone(), inner.get_type(schema)) else { return false };
    let is_finer = matches!(expr, Expr::Cast(_)) && factor(&from, &to).is_some();
    let rounds = matches!((scale(&from), scale(&to)), (Some(from), Some(to)) if to < from);
    if !inner.any_column_refs() || !(is_finer || rounds) {
        return false;
    }
    let argument = if is_finer { inner.as_ref().clone() } else { std::mem::take(expr) };
    *expr = ScalarUDF::from(Finer { to, signature: Signature::any(1, Volatility::Immutable) }).call(vec![argument]);
    true
}

/// Digits of a decimal behind the point.
fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// How many units of a finer time are one of a coarser; `None` where they are no such times.
fn factor(coarse: &DataType, fine: &DataType) -> Option<i64> {
    let (DataType::Timestamp(coarse, from), DataType::Timestamp(fine, to)) = (coarse, fine) else { return None };
    let factor = per_second(*fine) / per_second(*coarse);
    (from.is_some() == to.is_some() && factor > 1).then_some(factor)
}

/// The time that is cast to a finer unit, its type, and how many finer units are one of it.
fn coarse_of<'e>(expr: &'e Expr, schema: &DFSchema) -> Option<(&'e Expr, DataType, i64)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let finer = call.func.inner().downcast_ref::<Finer>()?;
    let [inner] = call.args.as_slice() else { return None };
    let coarse = inner.get_type(schema).ok()?;
    let factor = factor(&coarse, &finer.to)?;
    Some((inner, coarse, factor))
}

/// The last coarse time that is not behind a constant, and whether it is the constant.
fn last_coarse(constant: &Expr, coarse: &DataType, factor: i64) -> Option<(Expr, bool)> {
    let value = match constant.as_literal()? {
        ScalarValue::TimestampSecond(Some(value), _)
        | ScalarValue::TimestampMillisecond(Some(value), _)
        | ScalarValue::TimestampMicrosecond(Some(value), _)
        | ScalarValue::TimestampNanosecond(Some(value), _) => *value,
        _ => return None,
    };
    let last = ScalarValue::Int64(Some(value.div_euclid(factor))).cast_to(coarse).ok()?;
    Some((lit(last), value.rem_euclid(factor) == 0))
}

/// A comparison of a time, in a finer unit, with constants, as one of its own unit.
pub(super) fn of_moments(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            let (found, op, constant) = match (coarse_of(left, schema), coarse_of(right, schema)) {
                (Some(found), None) => (found, *op, right),
                (None, Some(found)) => (found, op.swap()?, left),
                _ => return None,
            };
            let (time, coarse, factor) = found;
            let (last, exact) = last_coarse(constant, &coarse, factor)?;
            let op = match op {
                Operator::Lt if !exact => Operator::LtEq,
                Operator::GtEq if !exact => Operator::Gt,
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
                op if exact => op,
                // Equal to no time of the unit: NULL for no time, so it is no constant.
                _ => return None,
            };
            Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(time.clone()), op, Box::new(last))))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let (time, coarse, factor) = coarse_of(expr, schema)?;
            let known = list.iter().map(|constant| last_coarse(constant, &coarse, factor));
            let known: Vec<(Expr, bool)> = known.collect::<Option<_>>()?;
            let list: Vec<Expr> = known.into_iter().filter(|(_, exact)| *exact).map(|(last, _)| last).collect();
            (!list.is_empty()).then(|| Expr::InList(InList::new(Box::new(time.clone()), list, *negated)))
        }
        _ => None,
    }
}

impl ScalarUDFImpl for Finer {
    fn name(&self) -> &str {
        "finer"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.cast_to(&self.to)?),
            ColumnarValue::Array(values) => ColumnarValue::Array(cast(values, &self.to)?),
        })
    }
}

impl ScalarUDFImpl for Coarser {
    fn name(&self) -> &str {
        "coarser"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = args.args.as_slice() else { return internal_err!("coarser takes one argument") };
        let is_scalar = matches!(values, ColumnarValue::Scalar(_));
        let values = values.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let (Some(factor), DataType::Timestamp(unit, _)) = (factor(&self.to, values.data_type()), &self.to) else {
            return internal_err!("{} is no coarser unit than that of {}", self.to, values.data_type());
        };
        let middle = MIDDLE_SECONDS * per_second(*unit);
        let values = cast(&values, &DataType::Int64)?;
        let rounded = values.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| nearest(value, factor, middle));
        let rounded = cast(&rounded, &self.to)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?),
            false => ColumnarValue::Array(rounded),
        })
    }
}

/// The year 2000, from which PostgreSQL counts, in seconds: times in the middle of two are rounded away from it.
const MIDDLE_SECONDS: i64 = 946_684_800;

/// The nearest of the units that have `factor` of a value's.
fn nearest(value: i64, factor: i64, middle: i64) -> i64 {
    let last = value.div_euclid(factor);
    let rest = value.rem_euclid(factor);
    let up = match rest.cmp(&(factor - rest)) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => last >= middle,
    };
    last + i64::from(up)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, Schema};
    use datafusion_expr::col;

    use super::*;

    #[test]
    fn times_in_the_middle_go_away_from_2000() {
        let of = |value| nearest(value, 1000, MIDDLE_SECONDS);
        assert_eq!([499, 500, 501, 1499, -1, -500, -501].map(of), [0, 0, 1, 1, 0, -1, -1]);
        let late = MIDDLE_SECONDS * 1000;
        assert_eq!(
            [late - 500, late + 499, late + 500].map(of),
            [MIDDLE_SECONDS - 1, MIDDLE_SECONDS, MIDDLE_SECONDS + 1]
        );
        assert_eq!((of(i64::MAX), of(i64::MIN)), (i64::MAX / 1000 + 1, i64::MIN / 1000 - 1));
    }

    #[test]
    fn coarse_times_compare_as_fine_ones() {
        let coarse = DataType::Timestamp(TimeUnit::Second, None);
        let fine = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Schema::new(vec![Field::new("t", coarse, true)]);
        let schema = DFSchema::try_from(Arc::new(schema)).unwrap();
        let holds = |a: i64, op: Operator, b: i64| match op {
            Operator::Lt => a < b,
            Operator::LtEq => a <= b,
            Operator::Gt => a > b,
            Operator::GtEq => a >= b,
            Operator::Eq => a == b,
            _ => a != b,
        };
        let ops = [Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq, Operator::Eq, Operator::NotEq];
        for constant in (-2_500..2_500).step_by(250) {
            for op in ops {
                let mut time = datafusion_expr::cast(col("t"), fine.clone());
                assert!(make_finer(&mut time, &schema));
                let value = lit(ScalarValue::TimestampMillisecond(Some(constant), None));
                let test = Expr::BinaryExpr(BinaryExpr::new(Box::new(time), op, Box::new(value)));
                let Some(Expr::BinaryExpr(BinaryExpr { op: new, right, .. })) = of_moments(&test, &schema) else {
                    assert!(constant % 1000 != 0 && matches!(op, Operator::Eq | Operator::NotEq), "{constant} {op}");
                    continue;
                };
                let Expr::Literal(ScalarValue::TimestampSecond(Some(last), None), _) = *right else {
                    panic!("{right}")
                };
                for second in -3..4 {
                    assert_eq!(
                        holds(second, new, last),
                        holds(second * 1000, op, constant),
                        "{second} {op} {constant}"
                    );
                }
            }
        }
    }
}
