//! Queries whose parameters get their values after lowering.

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, ParamValues, ScalarValue};
use datafusion_expr::expr::Placeholder;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use exec::ParameterId;

use super::LoweredPlan;
use super::predicate::comparable;
use super::props::id_of;
use crate::error::Result;
use crate::lower::structure::comparison;
use crate::tables::stored::StoredSource;

/// The native plan of an optimised query with parameters, if it is wholly native and each parameter is compared with a
/// column of its own type, in a condition: there a bound plan has a literal that another can take the place of. A query
/// without parameters is lowered in any case.
///
/// # Errors
/// As `lowered`, which lowers a plan without parameters.
pub(crate) fn with_parameters(
    plan: &LogicalPlan,
    lowered: &dyn Fn(LogicalPlan) -> Result<LoweredPlan>,
) -> Result<Option<LoweredPlan>> {
    let parameters = parameters(plan)?;
    if parameters.is_empty() {
        return lowered(plan.clone()).map(Some);
    }
    let Some(defaults) = defaults(&parameters) else { return Ok(None) };
    if comparisons(plan)? != parameters.len() {
        return Ok(None);
    }
    lowered(plan.clone().with_param_values(ParamValues::from(defaults))?)?;
    Ok(Some(LoweredPlan::new(plan.clone())))
}

/// How often a parameter stands in a plan.
///
/// # Errors
/// None that a plan which was made by the planner has.
pub(crate) fn count_parameter(plan: &LogicalPlan, id: ParameterId) -> Result<usize> {
    Ok(parameters(plan)?.iter().filter(|p| id_of(p) == Some(id)).count())
}

/// The identity of the one stored table that a plan reads, by one scan.
pub(crate) fn only_table(plan: &LogicalPlan) -> Option<u64> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let source = scan.source.downcast_ref::<StoredSource>()?;
            (!source.row_ids).then_some(source.id)
        }
        _ => match plan.inputs().as_slice() {
            [input] => only_table(input),
            _ => None,
        },
    }
}

/// Every place where a parameter stands.
pub(super) fn parameters(plan: &LogicalPlan) -> Result<Vec<Placeholder>> {
    let mut all = Vec::new();
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            expr.apply(|e| {
                if let Expr::Placeholder(parameter) = e {
                    all.push(parameter.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

/// Some value for each parameter; `None` where a type is not known.
fn defaults(parameters: &[Placeholder]) -> Option<Vec<ScalarValue>> {
    let count = parameters.iter().map(id_of).max().flatten()?.0 + 1;
    let mut values = vec![ScalarValue::Null; count];
    for parameter in parameters {
        let data_type = parameter.field.as_ref()?.data_type();
        values[id_of(parameter)?.0] = ScalarValue::new_default(data_type).ok()?;
    }
    Some(values)
}

/// How often a parameter is compared with a column of its type, in conditions of filters and scans.
fn comparisons(plan: &LogicalPlan) -> Result<usize> {
    let mut count = 0;
    plan.apply(|node| {
        match node {
            LogicalPlan::Filter(filter) => count += compared(&filter.predicate, filter.input.schema()),
            LogicalPlan::TableScan(scan) => {
                let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                count += scan.filters.iter().map(|f| compared(f, &schema)).sum::<usize>();
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

fn compared(condition: &Expr, schema: &DFSchema) -> usize {
    match condition {
        Expr::Alias(alias) => compared(&alias.expr, schema),
        Expr::Not(inner) => compared(inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            compared(left, schema) + compared(right, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if comparison(*op).is_some() => {
            usize::from(is_pair(left, right, schema) || is_pair(right, left, schema))
        }
        Expr::Between(between) => {
            let ends = [&between.low, &between.high].map(|end| is_pair(&between.expr, end, schema));
            let literals = [&between.low, &between.high].map(|end| matches!(**end, Expr::Literal(..)));
            match (ends, literals) {
                ([true, true], _) => 2,
                ([true, _], [_, true]) | ([_, true], [true, _]) => 1,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// True for a column and a parameter of its type.
fn is_pair(column: &Expr, value: &Expr, schema: &DFSchema) -> bool {
    let (Expr::Column(column), Expr::Placeholder(parameter)) = (column, value) else { return false };
    match (comparable(column, schema), &parameter.field) {
        (Ok(Some((_, of_column))), Some(of_value)) => of_column.data_type() == of_value.data_type(),
        _ => false,
    }
}
