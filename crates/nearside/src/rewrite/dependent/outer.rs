//! The columns of outer rows that a query reads, and finding and replacing references to them.

use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan, Projection, Subquery, TableScan};

use arrow::datatypes::FieldRef;

use crate::functions::anywhere::any_node;
use crate::sql::fresh_name;
use crate::tables::sources::WorkSource;

/// Columns of outer rows, each with the column that carries it through the query, which has a name of its own.
#[derive(Debug, Clone)]
pub(super) struct Outer {
    columns: Vec<(Column, Column)>,
    /// What steps of recursive queries read, which carries outer rows already: by name, with columns for these.
    works: Vec<(String, LogicalPlan)>,
}

impl Outer {
    /// Those that a query reads of rows of this shape.
    pub(super) fn of(query: &LogicalPlan, rows: &DFSchema) -> Result<Outer> {
        let mut columns: Vec<Column> = Vec::new();
        in_plan(query.clone(), &mut Vec::new(), &mut |_, column| {
            if rows.has_column(column) && !columns.contains(column) {
                columns.push(column.clone());
            }
            None
        })?;
        Ok(Outer::carried(columns))
    }

    /// All columns of rows of this shape.
    pub(super) fn all(rows: &DFSchema) -> Outer {
        Outer::carried(rows.columns())
    }

    fn carried(columns: Vec<Column>) -> Outer {
        let carried = |column| (column, Column::from_name(fresh_name("carried")));
        Outer { columns: columns.into_iter().map(carried).collect(), works: Vec::new() }
    }

    /// The same for the step of a recursive query of a name, which reads `work`.
    pub(super) fn within_step(&self, name: &str, work: LogicalPlan) -> Outer {
        let mut within = self.clone();
        within.works.push((name.into(), work));
        within
    }

    /// What a step reads by this scan, with the outer rows.
    pub(super) fn work(&self, scan: &TableScan) -> Option<&LogicalPlan> {
        let of = scan.source.downcast_ref::<WorkSource>()?;
        self.works.iter().rev().find(|(name, _)| *name == of.name).map(|(_, work)| work)
    }

    /// Whether a plan reads what a step does.
    fn reads_work(&self, plan: &LogicalPlan) -> Result<bool> {
        if self.works.is_empty() {
            return Ok(false);
        }
        any_node(plan, |node| Ok(matches!(node, LogicalPlan::TableScan(scan) if self.work(scan).is_some())))
    }

    /// The same columns, carried by others.
    pub(super) fn afresh(&self) -> Outer {
        Outer::carried(self.columns.iter().map(|(column, _)| column.clone()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The columns themselves.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> + '_ {
        self.columns.iter().map(|(column, _)| column)
    }

    /// The columns that carry them.
    pub(super) fn carriers(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().map(|(_, carrier)| Expr::Column(carrier.clone()))
    }

    /// The carried columns under their own names.
    pub(super) fn restored(&self) -> impl Iterator<Item = Expr> + '_ {
        self.columns.iter().map(|(column, carrier)| {
            Expr::Column(carrier.clone()).alias_qualified(column.relation.clone(), &column.name)
        })
    }

    /// Each column beside its carrier.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Expr, Expr)> + '_ {
        self.columns.iter().map(|(column, carrier)| (Expr::Column(column.clone()), Expr::Column(carrier.clone())))
    }

    /// The columns of `rows` under the names of what carries them.
    pub(super) fn rows(&self, rows: &LogicalPlan) -> Result<LogicalPlan> {
        let carried = self.columns.iter().map(|(own, by)| Expr::Column(own.clone()).alias(&by.name)).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(carried, Arc::new(rows.clone()))?))
    }

    /// As [`rows`](Self::rows), equal ones once.
    pub(super) fn distinct_rows(&self, rows: &LogicalPlan) -> Result<LogicalPlan> {
        Ok(super::distinct(self.rows(rows)?))
    }

    /// An expression of an operator with what carries the columns in their place, also within subqueries.
    pub(super) fn in_place(&self, expr: Expr, of: &LogicalPlan) -> Result<Expr> {
        let mut hidden = Vec::new();
        in_expr(expr, &inputs(of), &mut hidden, &mut |_, column| self.carrier(column))
    }

    /// Whether a plan reads any of the columns.
    pub(super) fn is_read_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut any = self.reads_work(plan)?;
        in_plan(plan.clone(), &mut Vec::new(), &mut |_, column| {
            any |= self.carrier(column).is_some();
            None
        })?;
        Ok(any)
    }

    fn carrier(&self, column: &Column) -> Option<Column> {
        self.columns.iter().find(|(own, _)| own == column).map(|(_, carrier)| carrier.clone())
    }
}

/// What to put in the place of a reference to an outer column, `None` to leave it.
type Replace<'a> = dyn FnMut(&FieldRef, &Column) -> Option<Column> + 'a;

/// What the expressions of an operator read.
fn inputs(of: &LogicalPlan) -> Vec<DFSchemaRef> {
    of.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect()
}

/// The plan with references to rows outside of it replaced. `hidden` are rows between it and those: what they have is
/// theirs.
fn in_plan(plan: LogicalPlan, hidden: &mut Vec<DFSchemaRef>, replace: &mut Replace) -> Result<LogicalPlan> {
    if let LogicalPlan::Subquery(query) = plan {
        return Ok(LogicalPlan::Subquery(in_query(query, &[], hidden, replace)?));
    }
    let beside = match &plan {
        // The right side may read columns of the left one, if it is LATERAL.
        LogicalPlan::Join(join) => Some(Arc::clone(join.left.schema())),
        _ => None,
    };
    let mut place = 0;
    let plan = plan.map_children(|child| {
        let hides = beside.iter().filter(|_| place == 1 && super::lateral_query(&child).is_some());
        let n = hidden.len();
        hidden.extend(hides.cloned());
        place += 1;
        let child = in_plan(child, hidden, replace);
        hidden.truncate(n);
        Ok(Transformed::yes(child?))
    })?;
    let inputs = inputs(&plan.data);
    let names = NamePreserver::new(&plan.data);
    let plan = plan.data.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(in_expr(expr, &inputs, hidden, replace)?)))
    })?;
    Ok(plan.data)
}

/// As [`in_plan`], of an expression over rows of these shapes; what it reads itself is not outside of it any more where
/// `hidden` is empty.
fn in_expr(expr: Expr, inputs: &[DFSchemaRef], hidden: &mut Vec<DFSchemaRef>, replace: &mut Replace) -> Result<Expr> {
    let replaced = expr.transform_up(|part| {
        Ok(Transformed::yes(match part {
            Expr::OuterReferenceColumn(field, column) => {
                match of_reference(&field, &column, hidden, replace) {
                    // Within subqueries of the query it goes on to be one of an outer row.
                    Some(own) if is_within(hidden) => Expr::OuterReferenceColumn(field, own),
                    Some(own) => Expr::Column(own),
                    None => Expr::OuterReferenceColumn(field, column),
                }
            }
            Expr::ScalarSubquery(query) => Expr::ScalarSubquery(in_query(query, inputs, hidden, replace)?),
            Expr::Exists(mut test) => {
                test.subquery = in_query(test.subquery, inputs, hidden, replace)?;
                Expr::Exists(test)
            }
            Expr::InSubquery(mut test) => {
                test.subquery = in_query(test.subquery, inputs, hidden, replace)?;
                Expr::InSubquery(test)
            }
            Expr::SetComparison(mut test) => {
                test.subquery = in_query(test.subquery, inputs, hidden, replace)?;
                Expr::SetComparison(test)
            }
            other => other,
        }))
    })?;
    Ok(replaced.data)
}

/// As [`in_plan`], of a subquery of an operator over rows of these shapes.
fn in_query(
    mut query: Subquery,
    inputs: &[DFSchemaRef],
    hidden: &mut Vec<DFSchemaRef>,
    replace: &mut Replace,
) -> Result<Subquery> {
    let n = hidden.len();
    hidden.extend(inputs.iter().cloned());
    let plan = in_plan(Arc::unwrap_or_clone(query.subquery), hidden, replace);
    for reference in &mut query.outer_ref_columns {
        if let Expr::OuterReferenceColumn(field, column) = reference
            && let Some(own) = of_reference(field, column, hidden, replace)
        {
            *reference = Expr::OuterReferenceColumn(Arc::clone(field), own);
        }
    }
    hidden.truncate(n);
    query.subquery = Arc::new(plan?);
    Ok(query)
}

fn of_reference(field: &FieldRef, column: &Column, hidden: &[DFSchemaRef], replace: &mut Replace) -> Option<Column> {
    let is_hidden = hidden.iter().any(|rows| rows.has_column(column));
    if is_hidden { None } else { replace(field, column) }
}

fn is_within(hidden: &[DFSchemaRef]) -> bool {
    !hidden.is_empty()
}
