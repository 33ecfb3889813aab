//! Rows from elsewhere, recursion step by step, and a row per element of lists.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, SchemaRef};

use super::keys::{Equality, key_columns};
use super::{batch, pick, run, whole};
use crate::ExecError;
use crate::plan::{Recursion, RowSource, Unnesting};

thread_local! {
    /// Work tables of the recursions that this thread is in, by number.
    static WORK: RefCell<Vec<(usize, RecordBatch)>> = const { RefCell::new(Vec::new()) };
}

/// All rows of a source, piece by piece.
pub(super) fn source(
    source: &Arc<dyn RowSource>,
    columns: &[usize],
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, ExecError> {
    let pieces = source.open(columns, 1)?;
    let mut all = Vec::new();
    for piece in 0..pieces.pieces() {
        while let Some(rows) = pieces.next(piece)? {
            all.push(batch(schema, rows.columns().to_vec(), rows.num_rows())?);
        }
    }
    Ok(all)
}

/// The work table of a recursion that runs.
pub(super) fn work_table(id: usize) -> Vec<RecordBatch> {
    WORK.with_borrow(|all| {
        all.iter().rev().find(|(known, _)| *known == id).map(|(_, rows)| rows.clone()).into_iter().collect()
    })
}

/// The rows of the base and of every step.
pub(super) fn recursion(recursion: &Recursion) -> Result<Vec<RecordBatch>, ExecError> {
    let named = |rows: RecordBatch| batch(&recursion.schema, rows.columns().to_vec(), rows.num_rows());
    let mut all: Vec<RecordBatch> = Vec::new();
    let mut work = named(whole(&recursion.base)?)?;
    loop {
        if recursion.distinct {
            work = unseen(&all, work)?;
        }
        if work.num_rows() == 0 {
            return Ok(all);
        }
        all.push(work.clone());
        WORK.with_borrow_mut(|tables| tables.push((recursion.id, work)));
        let made = whole(&recursion.step);
        WORK.with_borrow_mut(|tables| tables.pop());
        work = named(made?)?;
    }
}

/// Rows that are in none of the batches before, each once.
fn unseen(before: &[RecordBatch], rows: RecordBatch) -> Result<RecordBatch, ExecError> {
    let columns: Vec<usize> = (0..rows.num_columns()).collect();
    let own = key_columns(&rows, &columns);
    let mut kept: Vec<u32> = Vec::new();
    let among = Equality::new(own.clone(), own.clone(), true)?;
    let others = before.iter().map(|b| Equality::new(own.clone(), key_columns(b, &columns), true));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    for row in 0..rows.num_rows() {
        let known = others.iter().zip(before).any(|(other, b)| (0..b.num_rows()).any(|there| other.equal(row, there)));
        if !known && !kept.iter().any(|&there| among.equal(row, there as usize)) {
            kept.push(row as u32);
        }
    }
    pick(&rows, &kept)
}

/// A row per element.
pub(super) fn unnest(operator: &Unnesting, schema: &SchemaRef) -> Result<Vec<RecordBatch>, ExecError> {
    let mut all = Vec::new();
    for input in run(&operator.input)? {
        for row in 0..input.num_rows() {
            let lists = operator.lists.iter().map(|(column, _)| elements(&input.column(*column).slice(row, 1)));
            let lists = lists.collect::<Result<Vec<ArrayRef>, _>>()?;
            let rows = lists.iter().map(|list| list.len()).max().unwrap_or(0).max(usize::from(operator.outer));
            let mut columns = pick(&input, &vec![row as u32; rows])?.columns().to_vec();
            for list in lists {
                let rest = new_null_array(list.data_type(), rows - list.len());
                columns.push(concat(&[list.as_ref(), rest.as_ref()])?);
            }
            all.push(batch(schema, columns, rows)?);
        }
    }
    Ok(all)
}

/// The elements of one list.
fn elements(list: &ArrayRef) -> Result<ArrayRef, ExecError> {
    use arrow::array::AsArray;
    let field = match list.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => field.clone(),
        other => unreachable!("{other} is no list, which was checked"),
    };
    if list.is_null(0) {
        return Ok(arrow::array::new_empty_array(field.data_type()));
    }
    let list = cast(list, &DataType::LargeList(field))?;
    Ok(list.as_list::<i64>().value(0))
}
