//! `x op ANY (query)` and `x op ALL (query)`, with SQL's three values.
//!
//! The planner has resolved both sides, each in its own scope, before this rule of the analyser sees them; what it
//! builds refers to `x` and to the query's column by names that nothing else has (`sql::fresh_name`), so neither side
//! can catch the other's columns.
//!
//! ```text
//! x = ANY (q)                  x IN (q)
//! x <> ALL (q)                 x NOT IN (q)
//! x > ANY (q)                  rows > 0 AND (x > min OR (rows <> known AND NULL))
//! x > ALL (q)                  rows = 0 OR (x > max AND (rows = known OR NULL))
//! x <> ANY (q), x = ALL (q)    as above, with both bounds
//! x op ANY (q), q correlated   EXISTS (q WHERE x op c)
//!                              OR (NULL AND (EXISTS (q WHERE c IS NULL) OR (x IS NULL AND EXISTS (q))))
//! x op ALL (q), q correlated   NOT (x not-op ANY (q))
//! ```
//!
//! `min`, `max`, `rows` (count(*)) and `known` (count(c)) are one aggregate over the query, whose single row is
//! joined to every row. An `x` that is more than a column is computed once, in a projection below.
//!
//! # Limits
//! Values that have no order (lists, structs, intervals) take the way of correlated queries. In the ON of an outer
//! join only those that are IN stand.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr, cast, lit, not,
};
use datafusion_functions_aggregate::expr_fn::{count, max, min};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::anywhere::any_node;
use crate::sql::fresh_name;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct QuantifiedComparisons;

impl AnalyzerRule for QuantifiedComparisons {
    fn name(&self) -> &str {
        "quantified_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match any_node(&plan, compares)? {
            true => Ok(plan.transform_up_with_subqueries(rewrite)?.data),
            false => Ok(plan),
        }
    }
}

fn compares(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::SetComparison(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !compares(&node)? {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    let inputs = node.inputs();
    let [input] = inputs[..] else {
        // A join: what is IN needs nothing below it.
        return node.map_expressions(|expr| expr.transform_up(as_in));
    };
    let columns = node.schema().columns();
    let mut below = Below { input: input.clone() };
    let mut exprs = node.expressions();
    for expr in &mut exprs {
        let name = names.save(expr);
        let rewritten = std::mem::take(expr).transform_up(|part| match as_in(part)? {
            Transformed { data: Expr::SetComparison(test), .. } => Ok(Transformed::yes(below.spelled_out(test)?)),
            other => Ok(other),
        })?;
        *expr = name.restore(rewritten.data);
    }
    let rewritten = node.with_new_exprs(exprs, vec![below.input])?;
    if rewritten.schema().fields().len() == columns.len() {
        return Ok(Transformed::yes(rewritten));
    }
    // Filters and windows hand all columns of their input on.
    let own = LogicalPlanBuilder::from(rewritten).project(columns.into_iter().map(Expr::Column))?;
    Ok(Transformed::yes(own.build()?))
}

/// `= ANY` and `<> ALL` as IN and NOT IN.
fn as_in(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::SetComparison(test) = expr else { return Ok(Transformed::no(expr)) };
    let negated = match (test.op, &test.quantifier) {
        (Operator::Eq, SetQuantifier::Any) => false,
        (Operator::NotEq, SetQuantifier::All) => true,
        _ => return Ok(Transformed::no(Expr::SetComparison(test))),
    };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery::new(test.expr, test.subquery, negated))))
}

/// What stands below an operator, and gets the columns that its conditions need.
pub(crate) struct Below {
    /// The operator's input.
    pub input: LogicalPlan,
}

impl Below {
    /// A value that is computed once for a row, under a name that no query's columns have; constants stay as they are.
    pub(crate) fn bound(&mut self, value: Expr) -> Result<Expr> {
        if matches!(value, Expr::Literal(..) | Expr::Placeholder(_)) || value.contains_outer() {
            return Ok(value);
        }
        let name = fresh_name("value");
        let columns = self.input.schema().columns().into_iter().map(Expr::Column);
        let own = columns.chain([value.alias(&name)]).collect::<Vec<_>>();
        self.input = LogicalPlanBuilder::from(std::mem::take(&mut self.input)).project(own)?.build()?;
        Ok(Expr::Column(Column::from_name(name)))
    }

    fn spelled_out(&mut self, test: SetComparison) -> Result<Expr> {
        let SetComparison { expr, subquery, op, quantifier } = test;
        if !is_comparison(op) {
            let message =
                format!("{op} {quantifier} (query) is not supported; the comparisons are =, <>, <, <=, > and >=");
            return Err(Error::Unsupported(message).into_datafusion());
        }
        let common = common_type(&expr, self.input.schema(), &subquery)?;
        let by_bounds = subquery.outer_ref_columns.is_empty() && has_order(&common);
        let is_column = matches!(expr.as_ref(), Expr::Column(_));
        let value = if by_bounds && is_column { *expr } else { self.bound(*expr)? };
        let (query, column) = named(&subquery, &common)?;
        match (quantifier, by_bounds) {
            (SetQuantifier::Any, true) => self.any_by_bounds(value, op, query, column),
            (SetQuantifier::All, true) => self.all_by_bounds(value, op, query, column),
            (SetQuantifier::Any, false) => self.any_by_marks(value, op, &query, column),
            (SetQuantifier::All, false) => {
                let opposite = op.negate().unwrap_or(op);
                Ok(not(self.any_by_marks(value, opposite, &query, column)?))
            }
        }
    }

    fn any_by_bounds(&mut self, x: Expr, op: Operator, query: Subquery, column: Expr) -> Result<Expr> {
        let bounds = self.bounds(query, column)?;
        let known = match op {
            Operator::Gt | Operator::GtEq => binary_expr(x, op, bounds.min),
            Operator::Lt | Operator::LtEq => binary_expr(x, op, bounds.max),
            _ => binary_expr(x.clone(), op, bounds.min).or(binary_expr(x, op, bounds.max)),
        };
        let unknown = bounds.rows.clone().not_eq(bounds.known).and(null());
        Ok(bounds.rows.gt(lit(0i64)).and(known.or(unknown)))
    }

    fn all_by_bounds(&mut self, x: Expr, op: Operator, query: Subquery, column: Expr) -> Result<Expr> {
        let bounds = self.bounds(query, column)?;
        let known = match op {
            Operator::Gt | Operator::GtEq => binary_expr(x, op, bounds.max),
            Operator::Lt | Operator::LtEq => binary_expr(x, op, bounds.min),
            _ => binary_expr(x.clone(), op, bounds.min).and(binary_expr(x, op, bounds.max)),
        };
        let complete = bounds.rows.clone().eq(bounds.known).or(null());
        Ok(bounds.rows.eq(lit(0i64)).or(known.and(complete)))
    }

    /// Joins the one row of what is known of the query's values.
    fn bounds(&mut self, query: Subquery, column: Expr) -> Result<Bounds> {
        let counted = [min(column.clone()), max(column.clone()), count(lit(1i64)), count(column)];
        let none: Vec<Expr> = Vec::new();
        let row = LogicalPlanBuilder::from(query.subquery.as_ref().clone()).aggregate(none, counted)?.build()?;
        let names = ["min", "max", "rows", "known"].map(fresh_name);
        let own = row.schema().columns().into_iter().zip(&names).map(|(column, name)| Expr::Column(column).alias(name));
        let own: Vec<Expr> = own.collect();
        let row = LogicalPlanBuilder::from(row).project(own)?.build()?;
        self.input = LogicalPlanBuilder::from(std::mem::take(&mut self.input)).cross_join(row)?.build()?;
        let [min, max, rows, known] = names.map(|name| Expr::Column(Column::from_name(name)));
        Ok(Bounds { min, max, rows, known })
    }

    fn any_by_marks(&self, x: Expr, op: Operator, query: &Subquery, column: Expr) -> Result<Expr> {
        let outside = self.outside(&x)?;
        let found = exists(query, Some(binary_expr(outside, op, column.clone())))?;
        let unknown = exists(query, Some(column.is_null()))?.or(x.is_null().and(exists(query, None)?));
        Ok(found.or(null().and(unknown)))
    }

    /// A value of the row, as conditions within a query name it.
    pub(crate) fn outside(&self, value: &Expr) -> Result<Expr> {
        let Expr::Column(column) = value else { return Ok(value.clone()) };
        let field = Arc::clone(self.input.schema().qualified_field_from_column(column)?.1);
        Ok(Expr::OuterReferenceColumn(field, column.clone()))
    }
}

/// What one pass over a query tells of its values.
struct Bounds {
    min: Expr,
    max: Expr,
    rows: Expr,
    known: Expr,
}

fn null() -> Expr {
    lit(ScalarValue::Boolean(None))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether `min` and `max` know the type.
fn has_order(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        || matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        || matches!(data_type, DataType::Boolean | DataType::Timestamp(..))
        || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_))
}

/// The type that both sides are compared in: the bounds are those of values as they are compared.
fn common_type(x: &Expr, schema: &DFSchema, query: &Subquery) -> Result<DataType> {
    let x = x.get_type(schema)?;
    let c = query.subquery.schema().field(0).data_type().clone();
    let floats = (x.is_floating() && c.is_decimal()) || (x.is_decimal() && c.is_floating());
    let common = if floats { Some(DataType::Float64) } else { comparison_coercion(&x, &c) };
    common.ok_or_else(|| {
        let message = format!("ANY and ALL cannot compare {x} with {c}; cast one to the type of the other");
        Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
    })
}

/// The query with its one column under a name that nothing else has.
pub(crate) fn named(query: &Subquery, data_type: &DataType) -> Result<(Subquery, Expr)> {
    let mut query = query.clone();
    let field = query.subquery.schema().qualified_field(0);
    let same = field.1.data_type() == data_type;
    let column = Expr::Column(Column::from(field));
    let name = fresh_name("in");
    let value = if same { column } else { cast(column, data_type.clone()) };
    let plan = LogicalPlanBuilder::from(query.subquery.as_ref().clone()).project([value.alias(&name)])?.build()?;
    query.subquery = Arc::new(plan);
    Ok((query, Expr::Column(Column::from_name(name))))
}

/// EXISTS (query), or of its rows that pass.
///
/// # Errors
/// A condition over a query that keeps only some of the rows that belong to the row outside: DataFusion's EXISTS
/// would drop the LIMIT.
pub(crate) fn exists(query: &Subquery, condition: Option<Expr>) -> Result<Expr> {
    let mut query = query.clone();
    if let Some(condition) = condition {
        if !query.outer_ref_columns.is_empty() && limits(&query.subquery)? {
            let message = "a comparison with a query that refers to columns outside of it and has a LIMIT is not \
                supported in this \
                           place; number the rows with row_number() and compare with those that are wanted";
            return Err(Error::Unsupported(message.into()).into_datafusion());
        }
        condition.apply(|part| {
            if matches!(part, Expr::OuterReferenceColumn(..)) && !query.outer_ref_columns.contains(part) {
                query.outer_ref_columns.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        query.subquery = LogicalPlan::Filter(Filter::try_new(condition, query.subquery)?).into();
    }
    Ok(Expr::Exists(Exists::new(query, false)))
}

fn limits(query: &LogicalPlan) -> Result<bool> {
    query.exists(|node| Ok(matches!(node, LogicalPlan::Limit(_)) && !node.all_out_ref_exprs().is_empty()))
}
