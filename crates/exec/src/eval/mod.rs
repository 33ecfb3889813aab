//! Expressions and conditions over chunks: [`Evaluator`] and [`Test`].
//!
//! An expression whose structure is known ([`Scalar`](crate::Scalar)) is compiled (`compile`) into a tree of loops over
//! integers, floats and vids (`node`, `lanes`), if the bounds of its columns prove that nothing in it can fail. An
//! expression of one column is evaluated once per value, where there are few (`entries`), or once per code, where it is
//! stored in codes of dictionaries with few entries (`by_codes`). What is left is evaluated over Arrow arrays,
//! for the rows of a chunk (`over_arrow`); so that errors are those of the expression's owner.

mod arithmetic;
mod by_codes;
mod calendar;
mod cast;
mod compile;
mod condition;
mod entries;
mod interval;
mod lanes;
mod lists;
mod node;
mod over_arrow;
#[cfg(test)]
mod tests;
mod typed;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use numa::Reservation;

use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector, is_integer};
use crate::codes::bind::Coding;
use crate::plan::expression::Expression;
use crate::plan::predicate::Predicate;
use crate::tasks::run::Run;
use by_codes::{ByCodes, Results};
pub(crate) use calendar::plus_months;
use compile::{compile, leaves_range};
use condition::Conjunction;
use entries::Site;
use lanes::Lanes;
use node::{BoolNode, FloatNode, IntNode, VidNode};
use over_arrow::ArrowLeaf;
use typed::{Node, TypedNode};

/// Computes a column.
pub(crate) trait Evaluator: Send + Sync {
    /// The values for every row of the chunk.
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError>;
}

/// Tells rows that pass.
pub(crate) trait Test: Send + Sync {
    /// Numbers of the rows of the chunk for which it is TRUE, ascending.
    fn passing(&self, chunk: &mut Chunk) -> Result<Vec<u32>, ExecError>;

    /// Keeps just these rows.
    fn narrow(&self, chunk: &mut Chunk) -> Result<(), ExecError>;
}

/// An expression over columns of which `infos` are known, and what is known of its result. What pays for about `rows`
/// rows is evaluated beforehand, on the threads of `run`; `codings` tells of a column what it may be stored as, and
/// about how many rows of it come as that.
pub(crate) fn prepared_evaluator(
    expression: &Arc<dyn Expression>,
    field: &FieldRef,
    infos: &[ColumnInfo],
    run: &Run<'_>,
    rows: u64,
    codings: &dyn Fn(usize) -> Vec<(Coding, u64)>,
) -> Result<(ColumnInfo, Arc<dyn Evaluator>), ExecError> {
    evaluator_at(expression, field, Site::new(infos, Some(run), rows), codings)
}

fn evaluator_at(
    expression: &Arc<dyn Expression>,
    field: &FieldRef,
    site: Site<'_>,
    codings: &dyn Fn(usize) -> Vec<(Coding, u64)>,
) -> Result<(ColumnInfo, Arc<dyn Evaluator>), ExecError> {
    if let Some((info, computes)) = computed(expression, field, &site) {
        let stops = expression.structure().is_some_and(leaves_range);
        let owner = stops.then(|| ArrowLeaf::new(expression.clone(), site.infos));
        let computed = Computed { computes, info: info.clone(), owner, _charged: site.reservations() };
        return Ok((info, Arc::new(computed)));
    }
    let info = ColumnInfo { nullable: true, ..ColumnInfo::plain(field.clone()) };
    let leaf = ArrowLeaf::new(expression.clone(), site.infos);
    if let (Some(run), [column], false) = (site.run(), expression.columns(), expression.volatile()) {
        let results = Results::of(expression, *column, site.infos, codings(*column), run)?;
        if let Some(results) = results {
            return Ok((info.clone(), Arc::new(ByCodes::new(leaf, info, *column, results))));
        }
    }
    Ok((info.clone(), Arc::new(Opaque { leaf, info })))
}

/// A condition over columns of which `infos` are known.
pub(crate) fn test(predicate: &Predicate, infos: &[ColumnInfo]) -> Result<Arc<dyn Test>, ExecError> {
    Ok(Arc::new(Conjunction::new(predicate, &Site::new(infos, None, 0))?))
}

/// As [`test`], for about `rows` rows: what pays for `n` is evaluated beforehand, on the threads of `run`.
pub(crate) fn prepared_test(
    predicate: &Predicate,
    infos: &[ColumnInfo],
    run: &Run<'_>,
    rows: u64,
) -> Result<Arc<dyn Test>, ExecError> {
    Ok(Arc::new(Conjunction::new(predicate, &Site::new(infos, Some(run), rows))?))
}

/// Can the condition be tested without Arrow arrays, and without ever failing?
pub(crate) fn is_structured(predicate: &Predicate, infos: &[ColumnInfo]) -> bool {
    let predicate = predicate.without_not();
    !condition::stops(&predicate) && condition::structured(&predicate, &Site::new(infos, None, 0)).is_some()
}

/// Fields of columns.
pub(crate) fn schema_of(infos: &[ColumnInfo]) -> Schema {
    let fields = infos.iter().map(|i| Arc::new(i.field.as_ref().clone().with_nullable(true)));
    Schema::new(fields.collect::<Vec<_>>())
}

/// What a compiled expression computes.
enum Computes {
    Int(IntNode),
    Float(FloatNode),
    Bool(BoolNode),
    Vid(VidNode),
}

/// A compiled expression.
struct Computed {
    computes: Computes,
    info: ColumnInfo,
    /// Evaluates it where a loop stops at a float out of range.
    owner: Option<ArrowLeaf>,
    /// Of the tables that it uses.
    _charged: Vec<Reservation>,
}

/// The expression compiled, if it can be.
fn computed(expression: &Arc<dyn Expression>, field: &FieldRef, site: &Site<'_>) -> Option<(ColumnInfo, Computes)> {
    let compiled = expression.structure().and_then(|tree| compile(tree, expression.columns(), site));
    let TypedNode { node, data_type, nullable } = compiled.or_else(|| site.by_entries(expression))?;
    if data_type != *field.data_type() {
        return None;
    }
    let info = |kind| ColumnInfo { field: field.clone(), kind, nullable };
    Some(match node {
        Node::Int(node, interval) if is_integer(&data_type) => {
            let (low, high) = interval.bounds()?;
            (info(ColumnKind::Int { low, high }), Computes::Int(node))
        }
        Node::Bool(node) if data_type == DataType::Boolean => {
            (info(ColumnKind::Int { low: 0, high: 1 }), Computes::Bool(node))
        }
        Node::Float(node) => (info(ColumnKind::Float), Computes::Float(node)),
        Node::Vid(node, dictionary) => (info(ColumnKind::Vid(dictionary)), Computes::Vid(node)),
        _ => return None,
    })
}

impl Evaluator for Computed {
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError> {
        match (self.by_loops(chunk), &self.owner) {
            (Err(ExecError::FloatRange), Some(owner)) => Ok(self.info.vector_of(&owner.evaluate(chunk)?)),
            (computed, _) => computed,
        }
    }
}

impl Computed {
    fn by_loops(&self, chunk: &mut Chunk) -> Result<Vector, ExecError> {
        let rows = chunk.rows();
        let (data, valid) = match &self.computes {
            Computes::Int(node) => {
                let Lanes { values, valid } = node.evaluate(chunk)?;
                (Data::Int(values.spread(rows)), valid.into_rows(rows))
            }
            Computes::Bool(node) => {
                let Lanes { values, valid } = node.evaluate(chunk)?.map(i64::from);
                (Data::Int(values.spread(rows)), valid.into_rows(rows))
            }
            Computes::Vid(node) => {
                let Lanes { values, valid } = node.evaluate(chunk)?;
                (Data::Vid(values.spread(rows)), valid.into_rows(rows))
            }
            Computes::Float(node) => {
                let Lanes { values, valid } = node.evaluate(chunk)?;
                (Data::Float(values.spread(rows)), valid.into_rows(rows))
            }
        };
        debug_assert!(self.info.nullable || valid.iter().flatten().all(|&v| v), "a NULL where none can be");
        Ok(cleared(data, valid))
    }
}

/// NULL rows hold 0: what was computed for them may lie outside of the bounds.
fn cleared(mut data: Data, valid: Option<Vec<bool>>) -> Vector {
    if let Some(valid) = &valid {
        match &mut data {
            Data::Int(values) => values.iter_mut().zip(valid).for_each(|(v, &valid)| *v *= i64::from(valid)),
            Data::Vid(vids) => vids.iter_mut().zip(valid).for_each(|(v, &valid)| *v *= u32::from(valid)),
            Data::Float(_) | Data::Arrow(_) => {}
        }
    }
    Vector { data, valid }
}

/// An expression that only its owner can evaluate.
struct Opaque {
    leaf: ArrowLeaf,
    info: ColumnInfo,
}

impl Evaluator for Opaque {
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError> {
        Ok(self.info.vector_of(&self.leaf.evaluate(chunk)?))
    }
}
