//! The reference executor: what a [`Plan`] means, slow and obvious. Property tests compare [`execute`](crate::execute)
//! with it.
//!
//! Every table is decoded as a whole; predicates and expressions are evaluated for one row at a time, in three-valued
//! logic as written, left to right: AND stops at the first FALSE and OR at the first TRUE, neither at NULL. So it
//! evaluates an expression that may fail at least wherever the real executor does: where this succeeds, that must
//! succeed too.
//!
//! Groups are found by comparing a row with the first row of every group, joins are two nested loops, and a shared plan
//! is run as often as it is met.

mod aggregate;
mod join;
mod keys;
mod ordered;
mod sort;
mod sources;
mod window;

use std::cmp::Ordering;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, make_comparator, new_empty_array,
};
use arrow::compute::{SortOptions, concat, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};

use crate::ExecError;
use crate::plan::expression::{CompareOp, Expression, argument_schema, evaluate_by_owner};
use crate::plan::predicate::Predicate;
use crate::plan::{Output, Plan};

/// Runs a plan on this thread. The batches are in order, none is empty; how rows are cut into batches means nothing.
pub fn execute(plan: &Plan) -> Result<Vec<RecordBatch>, ExecError> {
    plan.validate()?;
    let mut batches = run(plan)?;
    batches.retain(|b| b.num_rows() > 0);
    Ok(batches)
}

fn run(plan: &Plan) -> Result<Vec<RecordBatch>, ExecError> {
    match plan {
        Plan::Scan { snapshot, columns, .. } => {
            let schema = plan.schema();
            let of_segment = |version: &storage::SegmentVersion| {
                let segment = &version.segment;
                let live: Vec<u32> = (0..segment.rows()).filter(|&r| version.is_live(r)).map(|r| r as u32).collect();
                let whole = columns.iter().map(|&c| segment.column(c).slice(0..segment.rows())).collect();
                let whole = batch(&schema, whole, segment.rows())?;
                pick(&whole, &live)
            };
            snapshot.segments().map(of_segment).collect()
        }
        Plan::Filter { input, predicate } => run(input)?.iter().map(|b| filter(b, predicate)).collect(),
        Plan::Project { input, outputs } => run(input)?.iter().map(|b| project(b, outputs, &plan.schema())).collect(),
        Plan::Limit { input, skip, fetch } => {
            let (mut skip, mut left) = (*skip, fetch.unwrap_or(usize::MAX));
            let mut kept = Vec::new();
            for b in run(input)? {
                let from = skip.min(b.num_rows());
                let rows = left.min(b.num_rows() - from);
                kept.push(b.slice(from, rows));
                (skip, left) = (skip - from, left - rows);
            }
            Ok(kept)
        }
        Plan::Aggregate(operator) => {
            Ok(vec![aggregate::aggregate(operator, &plan.schema(), &whole(&operator.input)?)?])
        }
        Plan::Join(operator) => {
            let (left, right) = (whole(&operator.left)?, whole(&operator.right)?);
            Ok(vec![join::join(operator, &plan.schema(), &left, &right)?])
        }
        Plan::Sort(operator) => Ok(vec![sort::sort(operator, &whole(&operator.input)?)?]),
        Plan::Window(operator) => Ok(vec![window::window(operator, &plan.schema(), &whole(&operator.input)?)?]),
        Plan::Union(union) => {
            let mut all = Vec::new();
            for input in &union.inputs {
                for b in run(input)? {
                    all.push(batch(&union.schema, b.columns().to_vec(), b.num_rows())?);
                }
            }
            Ok(all)
        }
        Plan::Values { schema, batches } => {
            batches.iter().map(|b| batch(schema, b.columns().to_vec(), b.num_rows())).collect()
        }
        Plan::Shared(plan) => run(plan),
        Plan::Source { source, columns } => sources::source(source, columns, &plan.schema()),
        Plan::Recursive(recursion) => sources::recursion(recursion),
        Plan::WorkTable { id, .. } => Ok(sources::work_table(*id)),
        Plan::Unnest(operator) => sources::unnest(operator, &plan.schema()),
    }
}

/// All rows of a plan as one batch.
fn whole(plan: &Plan) -> Result<RecordBatch, ExecError> {
    let schema = plan.schema();
    let batches = run(plan)?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let columns = (0..schema.fields().len()).map(|c| {
        let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(c).as_ref()).collect();
        let none = || new_empty_array(schema.field(c).data_type());
        Ok(if parts.is_empty() { none() } else { concat(&parts)? })
    });
    batch(&schema, columns.collect::<Result<Vec<_>, ExecError>>()?, rows)
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ExecError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

fn pick(from: &RecordBatch, rows: &[u32]) -> Result<RecordBatch, ExecError> {
    if from.num_columns() == 0 {
        return batch(&from.schema(), Vec::new(), rows.len());
    }
    Ok(take_record_batch(from, &UInt32Array::from(rows.to_vec()))?)
}

fn filter(input: &RecordBatch, predicate: &Predicate) -> Result<RecordBatch, ExecError> {
    let mut passing = Vec::new();
    for row in 0..input.num_rows() {
        if truth(predicate, input, row)? == Some(true) {
            passing.push(row as u32);
        }
    }
    pick(input, &passing)
}

/// TRUE, FALSE or NULL for one row.
fn truth(predicate: &Predicate, input: &RecordBatch, row: usize) -> Result<Option<bool>, ExecError> {
    match predicate {
        Predicate::Compare { column, op, value } => {
            let column = input.column(*column);
            if column.is_null(row) {
                return Ok(None);
            }
            let ordering = compare(column, row, value, 0)?;
            Ok(Some(match op {
                CompareOp::Eq => ordering.is_eq(),
                CompareOp::NotEq => ordering.is_ne(),
                CompareOp::Lt => ordering.is_lt(),
                CompareOp::LtEq => ordering.is_le(),
                CompareOp::Gt => ordering.is_gt(),
                CompareOp::GtEq => ordering.is_ge(),
            }))
        }
        Predicate::In { column, values, negated } => {
            let column = input.column(*column);
            if column.is_null(row) {
                return Ok(None);
            }
            let mut found = false;
            for i in 0..values.len() {
                found |= compare(column, row, values, i)?.is_eq();
            }
            Ok(Some(found != *negated))
        }
        Predicate::IsNull { column, negated } => Ok(Some(input.column(*column).is_null(row) != *negated)),
        Predicate::And(parts) => until(false, parts, input, row),
        Predicate::Or(parts) => until(true, parts, input, row),
        Predicate::Not(inner) => Ok(truth(inner, input, row)?.map(|t| !t)),
        Predicate::Boolean(expression) => {
            let result = value(expression.as_ref(), input, row)?;
            let result = result.as_boolean();
            Ok((!result.is_null(0)).then(|| result.value(0)))
        }
    }
}

/// `decisive` as soon as a part is; NULL if any part is NULL; else its opposite.
fn until(decisive: bool, parts: &[Predicate], input: &RecordBatch, row: usize) -> Result<Option<bool>, ExecError> {
    let mut result = Some(!decisive);
    for part in parts {
        match truth(part, input, row)? {
            Some(t) if t == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn compare(left: &ArrayRef, i: usize, right: &ArrayRef, j: usize) -> Result<Ordering, ExecError> {
    Ok(make_comparator(left.as_ref(), right.as_ref(), SortOptions::default())?(i, j))
}

/// The expression's value for one row.
fn value(expression: &dyn Expression, input: &RecordBatch, row: usize) -> Result<ArrayRef, ExecError> {
    let arguments = expression.columns().iter().map(|&c| input.column(c).slice(row, 1)).collect();
    evaluate_by_owner(expression, &argument_schema(expression, &input.schema()), arguments, 1)
}

fn project(input: &RecordBatch, outputs: &[Output], schema: &Schema) -> Result<RecordBatch, ExecError> {
    let columns = outputs.iter().map(|output| match output {
        Output::Column { column, .. } => Ok(input.column(*column).clone()),
        Output::Expression { expression, .. } => {
            let rows = (0..input.num_rows()).map(|row| value(expression.as_ref(), input, row));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
            Ok(if rows.is_empty() { new_empty_array(expression.data_type()) } else { concat(&rows)? })
        }
    });
    batch(&schema.clone().into(), columns.collect::<Result<Vec<_>, ExecError>>()?, input.num_rows())
}
