//! Which types the parts of UNION, INTERSECT and EXCEPT may have, as PostgreSQL has it: types of one kind, and texts as
//! they are written take the type of the other side.
//!
//! DataFusion makes a text of a number where it meets one. So columns of different kinds are refused here, before it
//! looks, and literals are cast; where a float meets a decimal both are floats. In recursive queries the step has to
//! have the types of the first part: what a cast could change is refused.
//!
//! # Limits
//! A literal is one where it stands alone in the SELECT list of a part.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{JoinType, NullEquality, Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, RecursiveQuery, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Union, Volatility, cast,
};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::rewrite::casts::without_calls;
use crate::rewrite::kinds::{common_float, common_instant, is_local, same_kind};
use crate::sql::STEP;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct SetTypes;

impl AnalyzerRule for SetTypes {
    fn name(&self) -> &str {
        "set_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = Cell::new(false);
        let fitted = plan.transform_up_with_subqueries(|node| {
            let fitted = fit(node)?;
            changed.set(changed.get() || fitted.transformed);
            match (changed.get(), fitted) {
                (false, fitted) => Ok(fitted),
                // It would keep the types that it had.
                (true, Transformed { data: LogicalPlan::Union(union), .. }) => {
                    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)))
                }
                (true, fitted) => fitted.map_data(LogicalPlan::recompute_schema),
            }
        })?;
        Ok(fitted.data)
    }
}

fn fit(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Union(union) => {
            let inputs: Vec<LogicalPlan> = union.inputs.iter().map(|input| input.as_ref().clone()).collect();
            Ok(match matched("UNION", inputs)? {
                Some(inputs) => {
                    let inputs = inputs.into_iter().map(Arc::new).collect();
                    Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
                }
                None => Transformed::no(LogicalPlan::Union(union)),
            })
        }
        LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull
                && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) =>
        {
            let (left, all) = match join.left.as_ref() {
                LogicalPlan::Distinct(Distinct::All(input)) => (input.as_ref().clone(), false),
                other => (other.clone(), true),
            };
            let except = join.join_type == JoinType::LeftAnti;
            let name = if except { "EXCEPT" } else { "INTERSECT" };
            let Some(inputs) = matched(name, vec![left, join.right.as_ref().clone()])? else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            let [left, right]: [LogicalPlan; 2] = inputs
                .try_into()
                .map_err(|_| Error::Internal("a set operation has two sides".into()).into_datafusion())?;
            let rebuilt = match except {
                true => LogicalPlanBuilder::except(left, right, all)?,
                false => LogicalPlanBuilder::intersect(left, right, all)?,
            };
            Ok(Transformed::yes(rebuilt))
        }
        LogicalPlan::RecursiveQuery(query) => {
            check_step(&query)?;
            let step = without_calls(query.recursive_term.as_ref().clone(), STEP)?;
            match step.transformed {
                true => {
                    let query = RecursiveQuery { recursive_term: Arc::new(step.data), ..query };
                    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
                }
                false => Ok(Transformed::no(LogicalPlan::RecursiveQuery(query))),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The parts with columns that fit together, or `None` where they do as they are.
fn matched(operation: &str, inputs: Vec<LogicalPlan>) -> Result<Option<Vec<LogicalPlan>>> {
    let columns = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let mut casts: Vec<Vec<Option<DataType>>> = inputs.iter().map(|_| vec![None; columns]).collect();
    let mut any = false;
    for column in 0..columns {
        let types: Vec<&DataType> = inputs.iter().map(|input| input.schema().field(column).data_type()).collect();
        if types.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let literals: Vec<bool> = inputs.iter().map(|input| is_text_literal(input, column)).collect();
        let mut known = types.iter().zip(&literals).filter(|(t, literal)| !**literal && **t != &DataType::Null);
        let Some((first, _)) = known.next() else { continue };
        if let Some((other, _)) = known.find(|(other, _)| !same_kind(first, other)) {
            let message = format!(
                "{operation} types {first} and {other} cannot be matched in column {}; cast one to the type of \
                 the other",
                column + 1
            );
            return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
        }
        let plain = || types.iter().zip(&literals).filter(|(_, literal)| !**literal).map(|(t, _)| *t);
        let float = common_float(plain());
        let instant = common_instant(plain());
        for (casts, (data_type, literal)) in casts.iter_mut().zip(types.iter().zip(&literals)) {
            let target = match (literal, &float) {
                (true, _) if !same_kind(data_type, first) => Some((*first).clone()),
                (false, Some(float)) if data_type.is_decimal() => Some(float.clone()),
                (false, None) if is_local(data_type) => instant.clone(),
                _ => None,
            };
            any |= target.is_some();
            casts[column] = target;
        }
    }
    if !any {
        return Ok(None);
    }
    inputs.into_iter().zip(casts).map(|(input, casts)| with_casts(input, casts)).collect::<Result<Vec<_>>>().map(Some)
}

fn with_casts(input: LogicalPlan, casts: Vec<Option<DataType>>) -> Result<LogicalPlan> {
    if casts.iter().all(Option::is_none) {
        return Ok(input);
    }
    let columns = input.schema().columns();
    let outputs = columns.into_iter().zip(casts).map(|(column, to)| match to {
        Some(to) => {
            let relation = column.relation.clone();
            let name = column.name.clone();
            cast(Expr::Column(column), to).alias_qualified(relation, name)
        }
        None => Expr::Column(column),
    });
    let outputs: Vec<Expr> = outputs.collect();
    LogicalPlanBuilder::from(input).project(outputs)?.build()
}

/// Whether a part's column is a text as it is written, whose type nobody has said.
fn is_text_literal(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => projection.expr.get(column).is_some_and(is_text),
        LogicalPlan::Distinct(Distinct::All(input)) => is_text_literal(input, column),
        // The planner tells the sides of INTERSECT and EXCEPT apart so, where columns have the same names.
        LogicalPlan::SubqueryAlias(side) => is_text_literal(&side.input, column),
        _ => false,
    }
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_text(&alias.expr),
        Expr::Literal(value, _) => {
            matches!(value, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
        }
        _ => false,
    }
}

/// Refuses a step of which a cast to the first part's types could change a value.
fn check_step(query: &RecursiveQuery) -> Result<()> {
    let LogicalPlan::Projection(outputs) = query.recursive_term.as_ref() else { return Ok(()) };
    for (place, output) in outputs.expr.iter().enumerate() {
        let Expr::Cast(made) = bare(output) else { continue };
        let own = match made.expr.as_ref() {
            Expr::ScalarFunction(call) if call.func.name() == STEP => &call.args[0],
            other => other,
        };
        let from = own.get_type(outputs.input.schema())?;
        let to = made.field.data_type();
        if is_text(own) || keeps_values(&from, to) {
            continue;
        }
        let message = format!(
            "recursive query '{}': column {} is {to} in its first part and {from} in its step; cast one to the type of \
             the other",
            query.name,
            place + 1
        );
        return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
    }
    Ok(())
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// Whether a cast gives the same value or an error.
fn keeps_values(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    let scale = |t: &DataType| match t {
        T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) | T::Decimal256(_, scale) => {
            Some(*scale)
        }
        _ => None,
    };
    if from == to || matches!(from, T::Null) || (from.is_integer() && to.is_numeric()) {
        return true;
    }
    if let (Some(from), Some(to)) = (scale(from), scale(to)) {
        return from <= to;
    }
    match (from, to) {
        (_, T::Float64) => from.is_numeric(),
        (T::Date32, T::Timestamp(..)) => true,
        (T::Timestamp(from, _), T::Timestamp(to, _)) => from <= to,
        _ => {
            let texts = |t: &DataType| matches!(t, T::Utf8 | T::LargeUtf8 | T::Utf8View);
            let lists = |t: &DataType| matches!(t, T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Struct(_));
            (texts(from) && texts(to)) || (lists(from) && lists(to) && same_kind(from, to))
        }
    }
}

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(StepFunction { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StepFunction {
    signature: Signature,
}

impl ScalarUDFImpl for StepFunction {
    fn name(&self) -> &str {
        STEP
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
