//! What meets in an expression: types of one kind ([`kinds`](super::kinds)), and where a float meets a decimal, or a
//! REAL an integer, both become DOUBLE, as in PostgreSQL; where one of them is chosen (CASE, COALESCE, constants
//! of lists), a decimal beside a REAL becomes REAL.
//!
//! DataFusion makes them DECIMAL(30, 15), which most doubles do not fit: with literals that are decimals
//! (`price > 0.5`) comparing a DOUBLE column would fail on its large values and be wrong on its small ones. The rule
//! runs before DataFusion's coercion, over operators, BETWEEN, IN, quantified comparisons, CASE and the arguments of
//! numeric functions.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, Like, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, cast, lit,
    when,
};
use datafusion_optimizer::AnalyzerRule;
use datafusion_optimizer::analyzer::Analyzer;

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::asked::asked_type;
use crate::functions::checked::CheckedArithmetic;
use crate::functions::floats::OneZeroConstants;
use crate::functions::letters::with_letters;
use crate::functions::patterns::in_operator;
use crate::functions::round;
use crate::functions::uuids::UUID;
use crate::rewrite::casts::{PlainCasts, keys};
use crate::rewrite::chars::PaddedTexts;
use crate::rewrite::correlated::{CorrelatedNames, CorrelatedRefusals};
use crate::rewrite::days;
use crate::rewrite::dependent::{DependentJoins, OuterJoins, TestsAsValues};
use crate::rewrite::enums::EnumMeaning;
use crate::rewrite::json::JsonMeaning;
use crate::rewrite::kinds;
use crate::rewrite::moments::FinerMoments;
use crate::rewrite::named::VectorBounds;
use crate::rewrite::no_row::NoRowIsNull;
use crate::rewrite::not_in::NullAwareMarks;
use crate::rewrite::null_keys::NullKeys;
use crate::rewrite::numerics;
use crate::rewrite::quantified::QuantifiedComparisons;
use crate::rewrite::session_zone::SessionZone;
use crate::rewrite::set_all::SetOperationsAll;
use crate::rewrite::set_types::SetTypes;
use crate::rewrite::spans::ComparedSpans;
use crate::rewrite::subquery_places::SubqueryPlaces;
use crate::rewrite::text_arguments;
use crate::rewrite::texts::WrittenTexts;
use crate::rewrite::volatile::VolatileSubqueries;
use crate::rewrite::window_frames::WindowFrames;
use crate::rewrite::windows_once::WindowsOnce;

/// Functions whose arguments meet; others (structs, texts, lists) keep each argument as it is.
const NUMERIC_FUNCTIONS: [&str; 12] =
    ["coalesce", "nullif", "nvl", "ifnull", "greatest", "least", "power", "pow", "atan2", "log", "nanvl", "mod"];

/// Those of which one argument is the result.
const CHOICES: [&str; 5] = ["coalesce", "nvl", "ifnull", "greatest", "least"];

/// Rules that leave a plan as it is in which no query stands in an expression or under LATERAL.
const ABOUT_SUBQUERIES: [&str; 9] = [
    "no_row_is_null",
    "volatile_subqueries",
    "outer_joins",
    "tests_as_values",
    "correlated_refusals",
    "subquery_places",
    "null_aware_marks",
    "correlated_names",
    "dependent_joins",
];

/// Whether an analyzer rule has something to do only where a query stands in an expression or under LATERAL.
pub(crate) fn is_about_subqueries(rule: &str) -> bool {
    ABOUT_SUBQUERIES.contains(&rule)
}

/// The analyzer rule.
#[derive(Debug, Default)]
struct FloatsWin;

/// DataFusion's analyzer rules with ours around them.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(NoRowIsNull),
        Arc::new(PaddedTexts),
        Arc::new(VectorBounds),
        Arc::new(EnumMeaning),
        Arc::new(JsonMeaning),
        Arc::new(SetTypes),
        Arc::new(VolatileSubqueries),
        Arc::new(OuterJoins),
        Arc::new(TestsAsValues),
        Arc::new(CorrelatedRefusals),
        Arc::new(WindowFrames),
        Arc::new(SetOperationsAll),
        Arc::new(SubqueryPlaces),
        Arc::new(QuantifiedComparisons),
        Arc::new(NullAwareMarks),
        Arc::new(CorrelatedNames::default()),
        Arc::new(FloatsWin),
    ];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(ComparedSpans));
    rules.push(Arc::new(SessionZone));
    rules.push(Arc::new(WrittenTexts));
    rules.push(Arc::new(OneZeroConstants));
    rules.push(Arc::new(CheckedArithmetic));
    rules.push(Arc::new(PlainCasts));
    rules.push(Arc::new(FinerMoments));
    rules.push(Arc::new(WindowsOnce));
    rules.push(Arc::new(DependentJoins));
    rules.push(Arc::new(NullKeys));
    // What stands in EXISTS may have become joins.
    rules.push(Arc::new(CorrelatedRefusals));
    rules
}

impl AnalyzerRule for FloatsWin {
    fn name(&self) -> &str {
        "floats_win"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = Cell::new(false);
        Ok(plan.transform_up_with_subqueries(|plan| rewrite_plan(plan, &changed))?.data)
    }
}

/// `changed` says whether anything has become another type, here or in what was rewritten before.
fn rewrite_plan(plan: LogicalPlan, changed: &Cell<bool>) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    }
    kinds::check_join(&plan)?;
    let plan = with_joined_floats(plan, changed)?;
    let outputs: Vec<&Expr> = match &plan {
        LogicalPlan::Projection(projection) => projection.expr.iter().collect(),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect(),
        LogicalPlan::Window(window) => window.window_expr.iter().collect(),
        _ => Vec::new(),
    };
    // Grouping sets have no name of their own.
    let name = |expr: &&Expr| (!matches!(expr, Expr::GroupingSet(_))).then(|| expr.schema_name().to_string());
    let names: Vec<Option<String>> = outputs.iter().map(name).collect();
    let mut place = 0;
    let rewritten = plan.map_expressions(|mut expr| {
        // The names are those of what is in the sets.
        if let Expr::GroupingSet(sets) = &mut expr {
            let mut transformed = false;
            for key in keys(sets) {
                let name = key.schema_name().to_string();
                let rewritten = std::mem::take(key).transform_up(|e| met(e, &schema))?;
                transformed |= rewritten.transformed;
                *key = match rewritten.transformed && rewritten.data.schema_name().to_string() != name {
                    true => rewritten.data.alias(name),
                    false => rewritten.data,
                };
            }
            place += 1;
            return Ok(Transformed::new_transformed(expr, transformed));
        }
        let rewritten = expr.transform_up(|e| met(e, &schema))?;
        // Columns are named after their expressions, which a cast would change.
        let name = names.get(place).and_then(Option::as_ref);
        place += 1;
        Ok(match name {
            Some(name) if rewritten.transformed && rewritten.data.schema_name().to_string() != *name => {
                rewritten.map_data(|e| Ok(e.alias(name.clone())))?
            }
            _ => rewritten,
        })
    })?;
    changed.set(changed.get() || rewritten.transformed);
    match changed.get() {
        // Also where only something below has changed its type.
        true => rewritten.map_data(LogicalPlan::recompute_schema),
        false => Ok(rewritten),
    }
}

/// Columns that USING makes equal meet as operands do.
fn with_joined_floats(plan: LogicalPlan, changed: &Cell<bool>) -> Result<LogicalPlan> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(plan) };
    for (left, right) in &mut join.on {
        let (Ok(a), Ok(b)) = (left.get_type(join.left.schema()), right.get_type(join.right.schema())) else { continue };
        for (side, meets) in [(left, becomes_double(&a, &b)), (right, becomes_double(&b, &a))] {
            if meets {
                *side = cast(std::mem::take(side), DataType::Float64);
                changed.set(true);
            }
        }
    }
    Ok(LogicalPlan::Join(join))
}

fn met(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = kinds::meet(&mut expr, schema)?;
    let mut rewritten = rewrite(expr, schema)?;
    rewritten.transformed |= changed;
    Ok(rewritten)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(mut binary) => {
            if let Some(day) = days::counted(&binary, schema) {
                return Ok(Transformed::yes(day));
            }
            has_bits(&binary, schema)?;
            let matches = in_operator(&mut binary)?;
            let shifts = days::shifted(binary.op, &mut binary.left, &mut binary.right, schema);
            let mut sides = [*binary.left, *binary.right];
            let changed = meet_as_operands(&mut sides.iter_mut().collect::<Vec<_>>(), schema) || shifts || matches;
            let [left, right] = sides;
            binary.left = Box::new(left);
            binary.right = Box::new(right);
            Ok(Transformed::new_transformed(Expr::BinaryExpr(binary), changed))
        }
        Expr::Between(mut between) => {
            let mut all = [between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()];
            let changed = meet_as_operands(&mut all, schema);
            comparable(&between, schema)?;
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        Expr::InList(mut list) => {
            let reals = as_reals(&list.expr, &mut list.list, schema);
            let mut all: Vec<&mut Expr> = list.list.iter_mut().collect();
            all.push(list.expr.as_mut());
            let changed = meet_as_operands(&mut all, schema) || reals;
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
        }
        Expr::Like(like) => {
            check_escapes(&like)?;
            Ok(Transformed::no(Expr::Like(like)))
        }
        Expr::InSubquery(mut test) => {
            let changed = unify_query(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::InSubquery(test), changed))
        }
        Expr::SetComparison(mut test) => {
            let changed = unify_query(&mut test.expr, &mut test.subquery, schema)?;
            Ok(Transformed::new_transformed(Expr::SetComparison(test), changed))
        }
        Expr::Case(mut case) => {
            let mut results: Vec<&mut Expr> = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut()).collect();
            results.extend(case.else_expr.as_deref_mut());
            let mut changed = meet_as_choices(&mut results, schema);
            if let Some(operand) = case.expr.as_deref_mut() {
                let mut compared = vec![operand];
                compared.extend(case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
                changed |= meet_as_operands(&mut compared, schema);
            }
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(function) if keeps_its_type(&function, schema) => {
            let [day, time] = &function.args[..] else { return Ok(Transformed::no(Expr::ScalarFunction(function))) };
            let same = rewrite(day.clone().eq(time.clone()), schema)?.data;
            let null = lit(ScalarValue::try_from(day.get_type(schema)?)?);
            Ok(Transformed::yes(when(same, null).otherwise(day.clone())?))
        }
        Expr::ScalarFunction(mut function) if NUMERIC_FUNCTIONS.contains(&function.name()) => {
            let mut all: Vec<&mut Expr> = function.args.iter_mut().collect();
            let changed = match CHOICES.contains(&function.func.name()) {
                true => meet_as_choices(&mut all, schema),
                false => meet_as_operands(&mut all, schema),
            };
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        Expr::ScalarFunction(function) if let Some(name) = asked_type(&function, schema) => {
            Ok(Transformed::yes(lit(ScalarValue::Utf8View(Some(name)))))
        }
        Expr::ScalarFunction(function) if let Some(settled) = numerics::settled(&function, schema)? => {
            Ok(Transformed::yes(settled))
        }
        Expr::ScalarFunction(function) if let Some(settled) = round::settled(&function, schema)? => {
            Ok(Transformed::yes(settled))
        }
        Expr::ScalarFunction(function) if let Some(length) = text_arguments::of_scalar(&function, schema)? => {
            Ok(Transformed::yes(length))
        }
        Expr::AggregateFunction(mut call) => {
            text_arguments::of_aggregate(&call, schema)?;
            let sums = call.func.name() == "sum" && !call.params.distinct && in_days(&mut call.params.args, schema);
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), sums))
        }
        Expr::WindowFunction(mut window) => {
            let sums = window.fun.name() == "sum" && in_days(&mut window.params.args, schema);
            Ok(Transformed::new_transformed(Expr::WindowFunction(window), sums))
        }
        Expr::ScalarFunction(mut function) => {
            let mut changed = with_letters(function.func.name(), &mut function.args, schema);
            changed |= in_list_of_uuids(&mut function, schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Makes intervals of differences of times, whose sum adds days and hours each; true when there was one.
fn in_days(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for argument in arguments {
        if matches!(argument.get_type(schema), Ok(DataType::Duration(_))) {
            *argument = cast(std::mem::take(argument), DataType::Interval(IntervalUnit::MonthDayNano));
            changed = true;
        }
    }
    changed
}

/// `id = ANY ('{..}')`: the text is a list of UUIDs.
fn in_list_of_uuids(function: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let name = function.func.name();
    let [value, list] = function.args.as_mut_slice() else { return false };
    let is = (name.ends_with(" ANY") || name.ends_with(" ALL"))
        && kinds::written(list).is_some()
        && matches!(value.get_type(schema), Ok(UUID));
    if is {
        *list = cast(std::mem::take(list), DataType::new_list(UUID, true));
    }
    is
}

/// A pattern of LIKE whose last character escapes nothing.
///
/// # Errors
/// That is what it is; nothing could match it.
fn check_escapes(like: &Like) -> Result<()> {
    let escapes = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    if like.escape_char.is_none() && kinds::written(&like.pattern).is_some_and(escapes) {
        let message = "a pattern of LIKE ends with the character that escapes; write it twice for itself";
        return Err(Error::plan(SqlState::InvalidEscapeSequence, message).into_datafusion());
    }
    Ok(())
}

/// Refuses an operator on bits over numbers that have none: DataFusion would round them.
fn has_bits(binary: &BinaryExpr, schema: &DFSchema) -> Result<()> {
    let shown = match binary.op {
        Operator::BitwiseAnd => "&",
        Operator::BitwiseOr => "|",
        Operator::BitwiseXor => "#",
        Operator::BitwiseShiftLeft => "<<",
        Operator::BitwiseShiftRight => ">>",
        _ => return Ok(()),
    };
    let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) else { return Ok(()) };
    if [&left, &right].into_iter().any(|of| of.is_floating() || of.is_decimal()) {
        let message = format!("there is no {left} {shown} {right}; cast both sides to an integer type");
        return Err(Error::plan(SqlState::UndefinedFunction, message).into_datafusion());
    }
    Ok(())
}

/// Refuses a BETWEEN over types that nothing compares: DataFusion takes that for a bug of its own.
fn comparable(between: &Between, schema: &DFSchema) -> Result<()> {
    let types = [&between.expr, &between.low, &between.high].map(|e| e.get_type(schema));
    // What has no type yet is left to DataFusion, which says why.
    let [Ok(value), Ok(low), Ok(high)] = types else { return Ok(()) };
    let common = |a: &DataType, b: &DataType| {
        comparison_coercion(a, b).ok_or_else(|| {
            let message = format!("BETWEEN cannot compare {a} with {b}; cast one to the type of the other");
            Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
        })
    };
    common(&common(&value, &low)?, &common(&value, &high)?).map(|_| ())
}

/// Whether it is a `nullif` of a day and a time, or of a REAL and another number: it gives the day, or the REAL.
fn keeps_its_type(function: &ScalarFunction, schema: &DFSchema) -> bool {
    let [day, time] = &function.args[..] else { return false };
    let mixed = match (day.get_type(schema), time.get_type(schema)) {
        (Ok(DataType::Date32), Ok(DataType::Timestamp(..))) => true,
        (Ok(DataType::Float32), Ok(other)) => other.is_numeric() && other != DataType::Float32,
        _ => false,
    };
    function.name() == "nullif" && mixed && !day.is_volatile()
}

/// Several constants in a list become one type before the value is compared with them: beside a REAL and no DOUBLE all
/// are REAL. True when one was cast.
fn as_reals(value: &Expr, list: &mut [Expr], schema: &DFSchema) -> bool {
    let mut constants: Vec<&mut Expr> = list.iter_mut().filter(|item| !item.any_column_refs()).collect();
    if constants.len() < 2 {
        return false;
    }
    let types = types_of(&constants, schema);
    let of_value = value.get_type(schema).ok();
    if kinds::common_float(types.iter().flatten().chain(&of_value)) != Some(DataType::Float32) {
        return false;
    }
    cast_all(&mut constants, &types, &DataType::Float32, &|of| of.is_decimal() || of.is_integer())
}

/// The same of a value and the rows of a query that it is compared with.
fn unify_query(value: &mut Expr, query: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let rows = Arc::clone(&query.subquery);
    let [column] = &rows.schema().columns()[..] else { return Ok(false) };
    let (Ok(of_value), of_rows) = (value.get_type(schema), rows.schema().field(0).data_type()) else {
        return Ok(false);
    };
    if becomes_double(&of_value, of_rows) {
        *value = cast(std::mem::take(value), DataType::Float64);
        return Ok(true);
    }
    if !becomes_double(of_rows, &of_value) {
        return Ok(false);
    }
    // With a name of its own: a cast has that of what it casts.
    let of_rows = cast(Expr::Column(column.clone()), DataType::Float64).alias("compared");
    query.subquery = Arc::new(LogicalPlanBuilder::from(rows).project([of_rows])?.build()?);
    Ok(true)
}

/// Whether a value of a type becomes a DOUBLE beside one of another type: a REAL has not the digits of an integer.
fn becomes_double(data_type: &DataType, other: &DataType) -> bool {
    (data_type.is_decimal() && other.is_floating()) || (data_type.is_integer() && *other == DataType::Float32)
}

/// What an operator takes: where a float meets a decimal, or a REAL an integer, all are DOUBLE. True when one was
/// cast.
fn meet_as_operands(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = types_of(all, schema);
    let meets = |data_type: &DataType| types.iter().flatten().any(|other| becomes_double(data_type, other));
    cast_all(all, &types, &DataType::Float64, &meets)
}

/// What one of is given: decimals beside floats are DOUBLE, and REAL where all floats are. True when one was cast.
fn meet_as_choices(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types = types_of(all, schema);
    let to = kinds::common_float(types.iter().flatten());
    let Some(to) = to else { return false };
    cast_all(all, &types, &to, &DataType::is_decimal)
}

/// The types of expressions. What has no type yet is left to DataFusion, which says why.
fn types_of(all: &[&mut Expr], schema: &DFSchema) -> Vec<Option<DataType>> {
    all.iter().map(|e| e.get_type(schema).ok()).collect()
}

fn cast_all(
    all: &mut [&mut Expr],
    types: &[Option<DataType>],
    to: &DataType,
    concerned: &dyn Fn(&DataType) -> bool,
) -> bool {
    let mut changed = false;
    for (expr, data_type) in all.iter_mut().zip(types) {
        if data_type.as_ref().is_some_and(concerned) {
            **expr = cast(std::mem::take(*expr), to.clone());
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_subqueries_are_there() {
        let rules = analyzer_rules();
        for name in ABOUT_SUBQUERIES {
            assert!(rules.iter().any(|rule| rule.name() == name), "{name}");
        }
    }
}
