//! Queries of the row that has a key: `SELECT columns FROM t WHERE key = $1`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion_common::Column;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, TableScan};
use exec::ParameterId;

use super::props::id_of;
use crate::catalog::{CatalogState, TableEntry};
use crate::tables::stored::StoredSource;

/// A query of columns of the row that has a key.
#[derive(Debug)]
pub(crate) struct KeyQuery {
    /// The table's identity.
    pub table: u64,
    /// The table's name as people write it.
    pub shown: Arc<str>,
    /// Which of the table's unique indexes.
    pub index: usize,
    /// The key, in the order of the index's columns.
    pub key: Vec<KeyValue>,
    /// The table's columns that the query gives.
    pub columns: Vec<usize>,
}

/// A value of a key.
#[derive(Debug, Clone)]
pub(crate) enum KeyValue {
    /// Given for each run.
    Parameter(ParameterId),
    /// Written in the query.
    Literal(ArrayRef),
}

/// What a plan asks for, where all that it does is to give columns of the one row that has a key, which has the very
/// types of the key's columns.
pub(crate) fn key_query(plan: &LogicalPlan, catalog: &CatalogState) -> Option<KeyQuery> {
    let (outputs, plan) = match plan {
        LogicalPlan::Projection(projection) => (Some(&projection.expr), without_alias(&projection.input)),
        plan => (None, without_alias(plan)),
    };
    let (filter, plan) = match plan {
        LogicalPlan::Filter(filter) => (Some(&filter.predicate), without_alias(&filter.input)),
        plan => (None, plan),
    };
    let LogicalPlan::TableScan(scan) = plan else { return None };
    let source = scan.source.downcast_ref::<StoredSource>()?;
    let table = catalog.by_id(source.id).filter(|_| !source.row_ids && scan.fetch.is_none_or(|rows| rows > 0))?;
    table.is_readable().ok()?;
    let schema = &source.schema;
    let columns = match outputs {
        None => match &scan.projection {
            Some(columns) => columns.clone(),
            None => (0..schema.fields().len()).collect(),
        },
        Some(outputs) => {
            let column = |output: &Expr| schema.index_of(&column_of(output)?.name).ok();
            outputs.iter().map(column).collect::<Option<Vec<_>>>()?
        }
    };
    let equal = scan.filters.iter().chain(filter).flat_map(datafusion_expr::utils::split_conjunction);
    let equal = equal.map(|condition| equality(condition, scan)).collect::<Option<Vec<_>>>()?;
    let (index, key) = index_of(table, &equal)?;
    Some(KeyQuery { table: source.id, shown: Arc::clone(&source.shown), index, key, columns })
}

/// What an alias of a table stands for; its columns keep their names.
fn without_alias(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => without_alias(&alias.input),
        plan => plan,
    }
}

fn column_of(output: &Expr) -> Option<&Column> {
    match output {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// The column and the value of `column = value`.
fn equality(condition: &Expr, scan: &TableScan) -> Option<(String, KeyValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let (column, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), value) | (value, Expr::Column(column)) => (column, value),
        _ => return None,
    };
    let schema = scan.source.schema();
    let data_type = schema.field_with_name(&column.name).ok()?.data_type().clone();
    let value = match value {
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().filter(|field| *field.data_type() == data_type)?;
            KeyValue::Parameter(id_of(parameter)?)
        }
        Expr::Literal(value, _) if value.data_type() == data_type && !value.is_null() => {
            KeyValue::Literal(value.to_array().ok()?)
        }
        _ => return None,
    };
    Some((column.name.clone(), value))
}

/// The unique index of which each column, and nothing else, is compared, and the values in its order.
fn index_of(table: &TableEntry, equal: &[(String, KeyValue)]) -> Option<(usize, Vec<KeyValue>)> {
    let value = |column: &String| equal.iter().find(|(name, _)| name == column).map(|(_, value)| value.clone());
    table.unique_indexes().enumerate().find_map(|(number, index)| {
        let key = index.columns.iter().map(value).collect::<Option<Vec<_>>>()?;
        (key.len() == equal.len()).then_some((number, key))
    })
}
