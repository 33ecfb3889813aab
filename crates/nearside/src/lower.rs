//! From DataFusion's optimised logical plan to Nearside's operators.
//!
//! Two steps, because plans are cached and rows change: [`lower`] marks the largest native subtrees of an optimised plan
//! by putting a [`NativeNode`] in their place; [`bind`] turns such a subtree into an [`exec::Plan`] over one snapshot when a
//! statement starts. What is native today: scans of stored tables, filters, projections and limits over them. Everything
//! above stays DataFusion's.
//!
//! An expression is native unless it needs something from outside the row (subqueries, outer columns, parameters) or may
//! differ from call to call. Comparisons with literals, lists and NULL tests become structured [`Predicate`]s, which `exec`
//! turns into ranges and sets of codes; the rest is opaque to it ([`PhysicalExpression`]).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result as DfResult, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, FetchType, LogicalPlan, Operator, SkipType, TableScan, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use exec::{CompareOp, ExecError, Expression, Output, Plan, Predicate, Scalar};

use crate::catalog::CatalogState;
use crate::checked;
use crate::context::{ROW_ID, StoredSource};
use crate::error::{Error, Result};
use crate::structure::structure;

/// A subtree of a logical plan that runs natively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeNode {
    /// The subtree, as DataFusion optimised it.
    pub plan: Arc<LogicalPlan>,
}

impl PartialOrd for NativeNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.plan.partial_cmp(&other.plan)
    }
}

impl Hash for NativeNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plan.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for NativeNode {
    fn name(&self) -> &str {
        "Nearside"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Nearside: {}", self.plan.display())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(self.clone())
    }
}

/// Puts a [`NativeNode`] in place of each largest native subtree, in subqueries too.
pub(crate) fn lower(plan: LogicalPlan) -> Result<LogicalPlan> {
    let lowered = plan.transform_down_with_subqueries(|node| {
        if !is_native(&node) {
            return Ok(Transformed::no(node));
        }
        let node = Extension { node: Arc::new(NativeNode { plan: Arc::new(node) }) };
        Ok(Transformed::new(LogicalPlan::Extension(node), true, TreeNodeRecursion::Jump))
    })?;
    Ok(lowered.data)
}

/// The native subtree that a whole plan is, if it is one.
pub(crate) fn wholly_native(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Extension(e) => e.node.as_any().downcast_ref::<NativeNode>().map(|n| n.plan.as_ref()),
        _ => None,
    }
}

fn is_native(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.source.is::<StoredSource>() && scan.filters.iter().all(is_exact),
        LogicalPlan::Filter(filter) => is_exact(&filter.predicate) && is_native(&filter.input),
        LogicalPlan::Projection(p) => p.expr.iter().all(is_exact) && is_native(&p.input),
        LogicalPlan::SubqueryAlias(alias) => is_native(&alias.input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_skip_type(), Ok(SkipType::Literal(_)))
                && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(_)))
                && is_native(&limit.input)
        }
        _ => false,
    }
}

/// True for expressions that `exec` can evaluate from the row alone.
pub(crate) fn is_exact(expr: &Expr) -> bool {
    let foreign = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::GroupingSet(_)
                | Expr::Unnest(_)
                | Expr::ScalarVariable(..)
                | Expr::HigherOrderFunction(_)
                | Expr::Lambda(_)
                | Expr::LambdaVariable(_)
        ))
    });
    matches!(foreign, Ok(false)) && !expr.is_volatile()
}

/// The plan of a native subtree over the rows of one catalog state.
pub(crate) fn bind(plan: &LogicalPlan, catalog: &CatalogState, props: &ExecutionProps) -> Result<Plan> {
    match plan {
        LogicalPlan::TableScan(scan) => bind_scan(scan, catalog, props),
        LogicalPlan::Filter(filter) => {
            let input = bind(&filter.input, catalog, props)?;
            let predicate = predicate(&filter.predicate, filter.input.schema(), props)?;
            filtered(input, predicate)
        }
        LogicalPlan::Projection(projection) => {
            let input = bind(&projection.input, catalog, props)?;
            let schema = projection.input.schema();
            let fields = projection.schema.fields();
            let outputs = projection.expr.iter().zip(fields).map(|(expr, field)| output(expr, field, schema, props));
            let outputs = outputs.collect::<Result<Vec<_>>>()?;
            input.project(outputs).map_err(bug)
        }
        LogicalPlan::SubqueryAlias(alias) => bind(&alias.input, catalog, props),
        LogicalPlan::Limit(limit) => {
            let input = bind(&limit.input, catalog, props)?;
            match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (SkipType::Literal(skip), FetchType::Literal(fetch)) => Ok(input.limit(skip, fetch)),
                _ => Err(Error::Internal("a limit that is no literal was lowered".into())),
            }
        }
        other => Err(Error::Internal(format!("{} was lowered", other.display()))),
    }
}

/// The plan of one scan, filters and limit pushed into it included.
pub(crate) fn bind_scan(scan: &TableScan, catalog: &CatalogState, props: &ExecutionProps) -> Result<Plan> {
    let source = scan
        .source
        .downcast_ref::<StoredSource>()
        .ok_or_else(|| Error::Internal(format!("table {} is not stored here", scan.table_name)))?;
    let table = catalog.by_id(source.id).ok_or_else(|| {
        Error::Execution(format!("table '{}' was dropped meanwhile; run the statement again", source.name.shown()))
    })?;
    let stored = &table.version.schema;
    let kept = source.schema.fields().iter().zip(stored.fields());
    let altered = kept.into_iter().any(|(a, b)| a.name() != b.name() || a.data_type() != b.data_type());
    if altered || source.schema.fields().len() != stored.fields().len() + usize::from(source.row_ids) {
        return Err(Error::Execution(format!(
            "table '{}' was altered meanwhile; run the statement again",
            source.name.shown()
        )));
    }
    let wanted: Vec<usize> = match &scan.projection {
        Some(columns) => columns.clone(),
        None => (0..source.schema.fields().len()).collect(),
    };
    let snapshot = match source.row_ids {
        true => Arc::new(table.version.with_row_ids(ROW_ID)),
        false => Arc::clone(&table.version),
    };
    if scan.filters.is_empty() {
        let plan = Plan::scan(source.name.shown(), snapshot, wanted).map_err(bug)?;
        return Ok(limited(plan, scan.fetch));
    }
    // Filters may read columns that the output does not have: read both, filter, then keep what is asked for.
    let full = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source.schema)?;
    let mut read = wanted.clone();
    for filter in &scan.filters {
        for column in filter.column_refs() {
            let index = full.index_of_column(column)?;
            if !read.contains(&index) {
                read.push(index);
            }
        }
    }
    let fields = read.iter().map(|&i| {
        let (qualifier, field) = full.qualified_field(i);
        (qualifier.cloned(), Arc::clone(field))
    });
    let schema = DFSchema::new_with_metadata(fields.collect(), full.metadata().clone())?;
    let mut plan = Plan::scan(source.name.shown(), snapshot, read.clone()).map_err(bug)?;
    for filter in &scan.filters {
        plan = filtered(plan, predicate(filter, &schema, props)?)?;
    }
    if read.len() > wanted.len() {
        let outputs = (0..wanted.len()).map(|i| {
            let field = Arc::clone(&schema.fields()[i]);
            Output::Column { column: i, field }
        });
        plan = plan.project(outputs.collect()).map_err(bug)?;
    }
    Ok(limited(plan, scan.fetch))
}

fn limited(plan: Plan, fetch: Option<usize>) -> Plan {
    match fetch {
        Some(rows) => plan.limit(0, Some(rows)),
        None => plan,
    }
}

fn filtered(input: Plan, predicate: Predicate) -> Result<Plan> {
    input.filter(predicate).map_err(bug)
}

fn bug(error: exec::PlanError) -> Error {
    Error::Internal(error.to_string())
}

fn output(expr: &Expr, field: &Arc<Field>, schema: &DFSchema, props: &ExecutionProps) -> Result<Output> {
    let field = Arc::clone(field);
    if let Expr::Column(column) = expr.clone().unalias() {
        return Ok(Output::Column { column: schema.index_of_column(&column)?, field });
    }
    let expression = PhysicalExpression::new(expr, schema, props)?;
    if field.data_type() != expression.data_type() {
        return Err(Error::Internal(format!(
            "{expr} was planned as {} and evaluates to {}",
            field.data_type(),
            expression.data_type()
        )));
    }
    Ok(Output::Expression { expression: Arc::new(expression), field })
}

/// A filter as `exec` understands it.
fn predicate(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<Predicate> {
    let structured = match expr {
        Expr::Alias(alias) => return predicate(&alias.expr, schema, props),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            return Ok(Predicate::And(vec![predicate(left, schema, props)?, predicate(right, schema, props)?]));
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            return Ok(Predicate::Or(vec![predicate(left, schema, props)?, predicate(right, schema, props)?]));
        }
        Expr::Not(inner) => return Ok(Predicate::Not(Box::new(predicate(inner, schema, props)?))),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compare(left, *op, right, schema)?,
        Expr::Between(between) => {
            let low = compare(&between.expr, Operator::GtEq, &between.low, schema)?;
            let high = compare(&between.expr, Operator::LtEq, &between.high, schema)?;
            match (low, high, between.negated) {
                (Some(low), Some(high), false) => Some(Predicate::And(vec![low, high])),
                (Some(low), Some(high), true) => Some(Predicate::Not(Box::new(Predicate::And(vec![low, high])))),
                _ => None,
            }
        }
        Expr::InList(list) => in_list(list, schema)?,
        Expr::IsNull(inner) => null_test(inner, false, schema)?,
        Expr::IsNotNull(inner) => null_test(inner, true, schema)?,
        _ => None,
    };
    match structured {
        Some(predicate) => Ok(predicate),
        None => Ok(Predicate::Boolean(Arc::new(PhysicalExpression::new(expr, schema, props)?))),
    }
}

fn compare(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<Option<Predicate>> {
    let (column, literal, op) = match (left, right) {
        (Expr::Column(c), Expr::Literal(v, _)) => (c, v, Some(op)),
        (Expr::Literal(v, _), Expr::Column(c)) => (c, v, op.swap()),
        _ => return Ok(None),
    };
    let op = match op {
        Some(Operator::Eq) => CompareOp::Eq,
        Some(Operator::NotEq) => CompareOp::NotEq,
        Some(Operator::Lt) => CompareOp::Lt,
        Some(Operator::LtEq) => CompareOp::LtEq,
        Some(Operator::Gt) => CompareOp::Gt,
        Some(Operator::GtEq) => CompareOp::GtEq,
        _ => return Ok(None),
    };
    let Some((column, field)) = comparable(column, schema)? else { return Ok(None) };
    let Some(literal) = same_type(literal, field.data_type()) else { return Ok(None) };
    match zeros(&literal) {
        Some([minus, plus]) => compare_zero(column, op, &minus, &plus).map(Some),
        None => Ok(literal_array(&literal).map(|value| Predicate::Compare { column, op, value })),
    }
}

/// Both zeros, when the literal is one of them: SQL has them equal, and dictionaries keep every bit pattern apart.
fn zeros(literal: &ScalarValue) -> Option<[ScalarValue; 2]> {
    match literal {
        ScalarValue::Float64(Some(0.0)) => Some([ScalarValue::from(-0.0_f64), ScalarValue::from(0.0_f64)]),
        ScalarValue::Float32(Some(0.0)) => Some([ScalarValue::from(-0.0_f32), ScalarValue::from(0.0_f32)]),
        _ => None,
    }
}

/// A comparison with zero: minus zero is the lesser of the two in the order of dictionaries.
fn compare_zero(column: usize, op: CompareOp, minus: &ScalarValue, plus: &ScalarValue) -> Result<Predicate> {
    let bound = match op {
        CompareOp::Eq | CompareOp::NotEq => {
            let values = ScalarValue::iter_to_array([minus.clone(), plus.clone()])?;
            return Ok(Predicate::In { column, values, negated: op == CompareOp::NotEq });
        }
        CompareOp::Lt | CompareOp::GtEq => minus,
        CompareOp::LtEq | CompareOp::Gt => plus,
    };
    Ok(Predicate::Compare { column, op, value: bound.to_array()? })
}

fn in_list(list: &InList, schema: &DFSchema) -> Result<Option<Predicate>> {
    let Expr::Column(column) = list.expr.as_ref() else { return Ok(None) };
    let Some((column, field)) = comparable(column, schema)? else { return Ok(None) };
    let mut values = Vec::with_capacity(list.list.len());
    for item in &list.list {
        let Expr::Literal(value, _) = item else { return Ok(None) };
        match same_type(value, field.data_type()) {
            Some(value) if !value.is_null() => match zeros(&value) {
                Some(both) => values.extend(both),
                None => values.push(value),
            },
            _ => return Ok(None),
        }
    }
    if values.is_empty() {
        return Ok(None);
    }
    let values = ScalarValue::iter_to_array(values)?;
    Ok(Some(Predicate::In { column, values, negated: list.negated }))
}

fn null_test(expr: &Expr, negated: bool, schema: &DFSchema) -> Result<Option<Predicate>> {
    match expr {
        Expr::Column(c) => Ok(Some(Predicate::IsNull { column: schema.index_of_column(c)?, negated })),
        _ => Ok(None),
    }
}

fn comparable<'a>(column: &Column, schema: &'a DFSchema) -> Result<Option<(usize, &'a Arc<Field>)>> {
    let index = schema.index_of_column(column)?;
    let field = &schema.fields()[index];
    let simple = field.data_type().is_primitive()
        || matches!(field.data_type(), DataType::Boolean | DataType::Utf8View | DataType::BinaryView);
    Ok((simple && !matches!(field.data_type(), DataType::Interval(_))).then_some((index, field)))
}

/// The literal as an array, unless it is NULL.
fn literal_array(value: &ScalarValue) -> Option<ArrayRef> {
    if value.is_null() {
        return None;
    }
    value.to_array().ok()
}

/// The literal in the column's type, where that is only another way to hold the same value.
fn same_type(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    if value.data_type() == *data_type {
        return Some(value.clone());
    }
    match (value, data_type) {
        (ScalarValue::Utf8(s) | ScalarValue::LargeUtf8(s), DataType::Utf8View) => {
            Some(ScalarValue::Utf8View(s.clone()))
        }
        (ScalarValue::Binary(s) | ScalarValue::LargeBinary(s), DataType::BinaryView) => {
            Some(ScalarValue::BinaryView(s.clone()))
        }
        _ => None,
    }
}

/// A DataFusion expression as `exec` sees one.
#[derive(Debug)]
pub(crate) struct PhysicalExpression {
    inner: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    data_type: DataType,
    fallible: bool,
    text: String,
    structure: Option<Scalar>,
}

impl PhysicalExpression {
    /// Plans `expr` over rows of `schema`; arithmetic is checked.
    pub(crate) fn new(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let mut planned = PhysicalExpression::opaque(expr, schema, props)?;
        let checked = checked::checked(expr.clone().unalias(), schema)?.data;
        planned.structure = structure(&checked, schema, &planned.columns, props);
        Ok(planned)
    }

    /// As [`new`](Self::new), but nothing is told of what it is made of.
    pub(crate) fn opaque(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let expr = expr.clone().unalias();
        let planned = checked::create_physical_expr(&expr, schema, props)?;
        let mut columns: Vec<usize> = collect_columns(&planned).iter().map(|c| c.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        // Evaluated over just its own columns.
        let inner = planned
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<datafusion::physical_expr::expressions::Column>() else {
                    return Ok(Transformed::no(node));
                };
                let index = columns.binary_search(&column.index()).unwrap_or_default();
                let column = datafusion::physical_expr::expressions::Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            })?
            .data;
        let narrow = Schema::new(columns.iter().map(|&i| Arc::clone(&schema.fields()[i])).collect::<Vec<_>>());
        let data_type = inner.data_type(&narrow)?;
        let fallible = fallible(&expr);
        let text = checked::plain(expr)?.data.to_string();
        Ok(PhysicalExpression { inner, columns, data_type, fallible, text, structure: None })
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
            Expr::BinaryExpr(b) => !matches!(
                b.op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
                    | Operator::And
                    | Operator::Or
            ),
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
        value.map_err(|e| ExecError::Evaluation(Error::from(e).to_string()))
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

    fn structure(&self) -> Option<&Scalar> {
        self.structure.as_ref()
    }
}
