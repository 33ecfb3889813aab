//! What meets in an expression: types of one kind ([`kinds`](super::kinds)), and where a float meets a decimal, both
//! become DOUBLE, as in other SQL databases.
//!
//! DataFusion makes them DECIMAL(30, 15), which most doubles do not fit: with literals that are decimals
//! (`price > 0.5`) comparing a DOUBLE column would fail on its large values and be wrong on its small ones. The rule
//! runs before DataFusion's coercion, over operators, BETWEEN, IN, quantified comparisons, CASE and the arguments of
//! numeric functions.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Between, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, cast};
use datafusion_optimizer::AnalyzerRule;
use datafusion_optimizer::analyzer::Analyzer;

use crate::error::Error;
use crate::functions::checked::CheckedArithmetic;
use crate::functions::floats::OneZeroConstants;
use crate::functions::letters::with_letters;
use crate::rewrite::casts::PlainCasts;
use crate::rewrite::chars::PaddedTexts;
use crate::rewrite::correlated::{CorrelatedNames, CorrelatedRefusals};
use crate::rewrite::days;
use crate::rewrite::kinds;
use crate::rewrite::not_in::NullAwareMarks;
use crate::rewrite::quantified::QuantifiedComparisons;
use crate::rewrite::set_all::SetOperationsAll;
use crate::rewrite::set_types::SetTypes;
use crate::rewrite::subquery_places::SubqueryPlaces;
use crate::rewrite::volatile::VolatileSubqueries;
use crate::rewrite::window_frames::WindowFrames;

/// Functions whose arguments meet; others (structs, texts, lists) keep each argument as it is.
const NUMERIC_FUNCTIONS: [&str; 12] =
    ["coalesce", "nullif", "nvl", "ifnull", "greatest", "least", "power", "pow", "atan2", "log", "nanvl", "mod"];

/// The analyzer rule.
#[derive(Debug, Default)]
struct FloatsWin;

/// DataFusion's analyzer rules with ours around them.
pub(crate) fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(PaddedTexts),
        Arc::new(SetTypes),
        Arc::new(VolatileSubqueries),
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
    rules.push(Arc::new(OneZeroConstants));
    rules.push(Arc::new(CheckedArithmetic));
    rules.push(Arc::new(PlainCasts));
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
    let rewritten = plan.map_expressions(|expr| {
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

fn met(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = kinds::meet(&mut expr, schema)?;
    let mut rewritten = rewrite(expr, schema)?;
    rewritten.transformed |= changed;
    Ok(rewritten)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(mut binary) => {
            let shifts = days::shifted(binary.op, &mut binary.left, &mut binary.right, schema);
            let mut sides = [*binary.left, *binary.right];
            let changed = unify(&mut sides.iter_mut().collect::<Vec<_>>(), schema) || shifts;
            let [left, right] = sides;
            binary.left = Box::new(left);
            binary.right = Box::new(right);
            Ok(Transformed::new_transformed(Expr::BinaryExpr(binary), changed))
        }
        Expr::Between(mut between) => {
            let mut all = [between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()];
            let changed = unify(&mut all, schema);
            comparable(&between, schema)?;
            Ok(Transformed::new_transformed(Expr::Between(between), changed))
        }
        Expr::InList(mut list) => {
            let mut all: Vec<&mut Expr> = list.list.iter_mut().collect();
            all.push(list.expr.as_mut());
            let changed = unify(&mut all, schema);
            Ok(Transformed::new_transformed(Expr::InList(list), changed))
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
            let changed = unify(&mut results, schema);
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut function) if NUMERIC_FUNCTIONS.contains(&function.name()) => {
            let changed = unify(&mut function.args.iter_mut().collect::<Vec<_>>(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        Expr::ScalarFunction(mut function) => {
            let changed = with_letters(function.func.name(), &mut function.args, schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Refuses a BETWEEN over types that nothing compares: DataFusion takes that for a bug of its own.
fn comparable(between: &Between, schema: &DFSchema) -> Result<()> {
    let types = [&between.expr, &between.low, &between.high].map(|e| e.get_type(schema));
    // What has no type yet is left to DataFusion, which says why.
    let [Ok(value), Ok(low), Ok(high)] = types else { return Ok(()) };
    let common = |a: &DataType, b: &DataType| {
        comparison_coercion(a, b).ok_or_else(|| {
            let message = format!("BETWEEN cannot compare {a} with {b}; cast one to the type of the other");
            Error::plan(message).into_datafusion()
        })
    };
    common(&common(&value, &low)?, &common(&value, &high)?).map(|_| ())
}

/// The same of a value and the rows of a query that it is compared with.
fn unify_query(value: &mut Expr, query: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let rows = Arc::clone(&query.subquery);
    let [column] = &rows.schema().columns()[..] else { return Ok(false) };
    let (Ok(of_value), of_rows) = (value.get_type(schema), rows.schema().field(0).data_type()) else {
        return Ok(false);
    };
    if of_value.is_decimal() && of_rows.is_floating() {
        *value = cast(std::mem::take(value), DataType::Float64);
        return Ok(true);
    }
    if !(of_value.is_floating() && of_rows.is_decimal()) {
        return Ok(false);
    }
    // With a name of its own: a cast has that of what it casts.
    let of_rows = cast(Expr::Column(column.clone()), DataType::Float64).alias("compared");
    query.subquery = Arc::new(LogicalPlanBuilder::from(rows).project([of_rows])?.build()?);
    Ok(true)
}

/// Casts the decimals among expressions to DOUBLE when there is a float too. True when it did.
fn unify(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    // What has no type yet is left to DataFusion, which says why.
    let types: Vec<Option<DataType>> = all.iter().map(|e| e.get_type(schema).ok()).collect();
    let any = |test: fn(&DataType) -> bool| types.iter().flatten().any(test);
    if !any(DataType::is_floating) || !any(DataType::is_decimal) {
        return false;
    }
    for (expr, data_type) in all.iter_mut().zip(&types) {
        if data_type.as_ref().is_some_and(DataType::is_decimal) {
            **expr = cast(std::mem::take(*expr), DataType::Float64);
        }
    }
    true
}
