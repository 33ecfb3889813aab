//! From DataFusion's optimised logical plan to Nearside's operators.
//!
//! Two steps, because plans are cached and rows change: [`lower`] refuses what there is no operator for, by name
//! ([`refuse`]); [`bind`] makes an [`exec::Plan`] over one snapshot when a statement starts. What there is an operator
//! for says [`support`].
//!
//! An expression is native unless it needs something from outside the row (outer columns, parameters). Comparisons with
//! literals, lists and NULL tests become structured [`Predicate`](exec::Predicate)s, which `exec` turns into ranges and
//! sets of codes; the rest is opaque to it ([`PhysicalExpression`]). Scalar subqueries become columns ([`scope`]).
//!
//! Invariant: whatever [`support::is_native`] says yes to, [`bind`] can bind.

mod aggregate;
mod bind;
mod binder;
mod by_key;
mod constant;
mod derived;
mod join;
pub(crate) mod like;
mod opaque;
mod parameters;
mod predicate;
mod props;
mod refuse;
mod scan;
mod scope;
mod sources;
pub(crate) mod structure;
pub(crate) mod substring;
mod support;
mod unnest;
mod window;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::{Expr, LogicalPlan, Operator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::utils::collect_columns;
use exec::{ExecError, Expression, Scalar, TextTest};

use crate::error::{Error, Result};
use crate::functions::checked;
use crate::functions::floats;
use crate::lower::like::text_test;
use crate::lower::structure::structure;
use crate::lower::substring::with_substring;

pub(crate) use bind::{bind, bind_as_written, bind_with};
pub(crate) use by_key::{KeyQuery, KeyValue, key_query};
pub(crate) use derived::{Derived, derived, is_plain};
pub(crate) use parameters::{count_parameter, only_table, with_parameters};
pub(crate) use props::{Props, Slots, id_of as parameter_id};

/// A query's optimised plan of which every operator is one of ours.
#[derive(Debug, Clone)]
pub(crate) struct LoweredPlan {
    /// The plan, as it was optimised.
    pub plan: Arc<LogicalPlan>,
    /// Names and types of its rows as users see them.
    pub schema: SchemaRef,
}

impl LoweredPlan {
    /// A plan of which every operator is one of ours, with the planner's names.
    fn new(plan: LogicalPlan) -> LoweredPlan {
        let schema = Arc::new(plan.schema().as_arrow().clone());
        LoweredPlan { plan: Arc::new(plan), schema }
    }
}

/// Makes sure that [`bind`] can make an [`exec::Plan`] of an optimised plan.
///
/// # Errors
/// What no operator is there for, by its name in SQL.
pub(crate) fn lower(plan: LogicalPlan) -> Result<LoweredPlan> {
    match support::is_native(&plan) {
        true => Ok(LoweredPlan::new(plan)),
        false => Err(refuse::refusal(&plan)),
    }
}

fn bug(error: exec::PlanError) -> Error {
    Error::Internal(error.to_string())
}

/// A DataFusion expression as `exec` sees one.
#[derive(Debug)]
pub(crate) struct PhysicalExpression {
    inner: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    data_type: DataType,
    fallible: bool,
    volatile: bool,
    text: String,
    structure: Option<Scalar>,
    text_test: Option<TextTest>,
}

impl PhysicalExpression {
    /// Plans `expr` over rows of `schema`; arithmetic is checked.
    pub(crate) fn new(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let mut planned = PhysicalExpression::opaque(expr, schema, props)?;
        let checked = checked::checked(expr.clone().unalias(), schema)?.data;
        // What differs from call to call is evaluated by its owner, once per row.
        if !planned.volatile {
            planned.structure = structure(&checked, schema, &planned.columns, props);
        }
        Ok(planned)
    }

    /// As [`new`](Self::new), but nothing is told of what it is made of.
    pub(crate) fn opaque(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let expr = expr.clone().unalias();
        let comparable = floats::in_expression(expr.clone(), schema)?;
        let planned = checked::create_physical_expr(&with_substring(comparable)?, schema, props)?;
        let mut columns: Vec<usize> = collect_columns(&planned).iter().map(|c| c.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        // Evaluated over just its own columns.
        let inner = planned
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<datafusion_physical_expr::expressions::Column>() else {
                    return Ok(Transformed::no(node));
                };
                let index = columns.binary_search(&column.index()).unwrap_or_default();
                let column = datafusion_physical_expr::expressions::Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            })?
            .data;
        let narrow = Schema::new(columns.iter().map(|&i| Arc::clone(&schema.fields()[i])).collect::<Vec<_>>());
        let data_type = inner.data_type(&narrow)?;
        let fallible = fallible(&expr);
        let volatile = expr.is_volatile();
        let text_test = text_test(&expr, schema);
        let text = checked::plain(expr)?.data.to_string();
        Ok(PhysicalExpression { inner, columns, data_type, fallible, volatile, text, structure: None, text_test })
    }

    /// The same over a batch of just `columns`, ascending; `None` if one that it reads is missing.
    pub(crate) fn within(mut self, columns: &[usize]) -> Option<PhysicalExpression> {
        for column in &mut self.columns {
            *column = columns.binary_search(column).ok()?;
        }
        Some(self)
    }
}

/// False for what can never fail: comparisons, logic, NULL tests, LIKE and literals over columns.
fn fallible(expr: &Expr) -> bool {
    let risky = expr.exists(|e| {
        Ok(match e {
            Expr::Column(_) | Expr::Literal(..) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => false,
            Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => false,
            Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => false,
            Expr::Between(_) | Expr::InList(_) | Expr::Alias(_) => false,
            // A pattern from a column may be malformed.
            Expr::Like(like) => !matches!(like.pattern.as_ref(), Expr::Literal(..)),
            Expr::BinaryExpr(b) => !floats::is_comparison(b.op) && !matches!(b.op, Operator::And | Operator::Or),
            _ => true,
        })
    });
    !matches!(risky, Ok(false))
}

impl Expression for PhysicalExpression {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let value = self.inner.evaluate(batch).and_then(|v| v.into_array(batch.num_rows()));
        value.map_err(|e| ExecError::Expression(Box::new(Error::from(e))))
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        self.text.clone()
    }

    fn fallible(&self) -> bool {
        self.fallible
    }

    fn volatile(&self) -> bool {
        self.volatile
    }

    fn structure(&self) -> Option<&Scalar> {
        self.structure.as_ref()
    }

    fn text_test(&self) -> Option<&TextTest> {
        self.text_test.as_ref()
    }
}
