//! Where a float meets a decimal, both become DOUBLE, as in other SQL databases.
//!
//! DataFusion makes them DECIMAL(30, 15), which most doubles do not fit: with literals that are decimals
//! (`price > 0.5`) comparing a DOUBLE column would fail on its large values and be wrong on its small ones. The rule
//! runs before DataFusion's coercion, over operators, BETWEEN, IN, CASE and the arguments of numeric functions.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Between, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion_optimizer::AnalyzerRule;
use datafusion_optimizer::analyzer::Analyzer;

use crate::error::Error;
use crate::functions::checked::CheckedArithmetic;
use crate::functions::floats::OneZeroConstants;
use crate::rewrite::correlated::{CorrelatedNames, CorrelatedRefusals};
use crate::rewrite::not_in::NullAwareMarks;
use crate::rewrite::quantified::QuantifiedComparisons;
use crate::rewrite::set_all::SetOperationsAll;
use crate::rewrite::set_types::{SetTypes, same_kind};
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
    let names: Vec<String> = match &plan {
        LogicalPlan::Projection(projection) => projection.expr.iter().map(|e| e.schema_name().to_string()).collect(),
        _ => Vec::new(),
    };
    let mut place = 0;
    let rewritten = plan.map_expressions(|expr| {
        let rewritten = expr.transform_up(|e| rewrite(e, &schema))?;
        // A projection's columns are named after their expressions, which a cast would change.
        let name = names.get(place);
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

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(mut binary) => {
            let mut sides = [*binary.left, *binary.right];
            let changed = unify(&mut sides.iter_mut().collect::<Vec<_>>(), schema);
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
        Expr::Case(mut case) => {
            let mut results: Vec<&mut Expr> = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut()).collect();
            results.extend(case.else_expr.as_deref_mut());
            let changed = of_one_kind(&mut results, schema)? | unify(&mut results, schema);
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut function) if NUMERIC_FUNCTIONS.contains(&function.name()) => {
            let changed = unify(&mut function.args.iter_mut().collect::<Vec<_>>(), schema);
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Casts texts as they are written to the type of the other results of a CASE, as PostgreSQL does; refuses results of
/// different kinds, of which DataFusion would make texts. True when it did.
fn of_one_kind(results: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let is_text = |e: &Expr| {
        let text = |v: &ScalarValue| matches!(v, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_));
        matches!(e, Expr::Literal(value, _) if text(value))
    };
    let types: Vec<Option<DataType>> = results.iter().map(|e| e.get_type(schema).ok()).collect();
    let known = results.iter().zip(&types).filter(|(e, _)| !is_text(e)).filter_map(|(_, t)| t.clone());
    let known: Vec<DataType> = known.filter(|t| *t != DataType::Null).collect();
    let Some(first) = known.first() else { return Ok(false) };
    if let Some(other) = known.iter().find(|other| !same_kind(first, other)) {
        let message = format!("CASE types {first} and {other} cannot be matched; cast one to the type of the other");
        return Err(Error::plan(message).into_datafusion());
    }
    if same_kind(first, &DataType::Utf8) {
        return Ok(false);
    }
    let mut changed = false;
    for result in results.iter_mut().filter(|e| is_text(e)) {
        **result = cast(std::mem::take(*result), first.clone());
        changed = true;
    }
    Ok(changed)
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
