//! Operators whose rows are not those of a table: a [`RowSource`], which reads or computes them, and a [`Recursion`]
//! with the work table that its step reads.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::predicate::{Predicate, same_type};
use super::{Output, Plan, Shared};
use crate::{ExecError, PlanError};

/// Rows that come from elsewhere: files, functions.
///
/// Opened once per run; pieces are read in parallel, each by one task on a worker, so whatever waits in them marks that
/// ([`sched::blocking`]). The concatenation of the pieces is the rows' order.
pub trait RowSource: Send + Sync + Debug {
    /// Text for EXPLAIN: what is read.
    fn describe(&self) -> String;

    /// Names and types of its columns. NULLs are only in columns that may have some.
    fn schema(&self) -> SchemaRef;

    /// Rows, about; `None` where nobody can tell.
    fn rows(&self) -> Option<u64>;

    /// Bytes that reading it touches, about. Below 256 KiB a statement may run on the thread that polls it.
    fn bytes(&self) -> u64;

    /// Smallest and largest value of an integer column, where that is known of all its rows.
    fn bounds(&self, _column: usize) -> Option<(i64, i64)> {
        None
    }

    /// Opens it for these of its columns (of each at most once, in this order) and about `n` threads.
    ///
    /// # Errors
    /// What is read cannot be opened.
    fn open(&self, columns: &[usize], threads: usize) -> Result<Box<dyn RowPieces>, ExecError>;
}

/// An opened [`RowSource`].
pub trait RowPieces: Send + Sync {
    /// How many pieces there are.
    fn pieces(&self) -> usize;

    /// The next batch of a piece, of any length; `None` at its end. A piece is asked by one thread at a time.
    ///
    /// # Errors
    /// What cannot be read.
    fn next(&self, piece: usize) -> Result<Option<RecordBatch>, ExecError>;
}

/// The rows of `base`, and those that `step` makes of what came before, again and again until it makes none.
///
/// The step reads a work table ([`Plan::WorkTable`] of `id`): at first the rows of `base`, then those that it made of
/// these, and so on.
pub struct Recursion {
    /// The first rows.
    pub base: Plan,
    /// What is made of the work table's rows.
    pub step: Plan,
    /// The work table's number; each recursion of a plan has its own.
    pub id: usize,
    /// Each row once (UNION); a row that was there before is in no later work table.
    pub distinct: bool,
    /// Names of the columns; types are those of both inputs.
    pub schema: SchemaRef,
}

impl Recursion {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        for input in [&self.base, &self.step] {
            same_columns(&input.schema(), &self.schema, "WITH RECURSIVE")?;
        }
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        format!("Recursion {}: {}", self.id, if self.distinct { "each row once" } else { "all rows" })
    }
}

/// Fails where columns differ in number or type.
fn same_columns(found: &Schema, expected: &Schema, what: &str) -> Result<(), PlanError> {
    if found.fields().len() != expected.fields().len() {
        let problem = format!("an input has {} columns, not {}", found.fields().len(), expected.fields().len());
        return Err(PlanError::BadLiteral { context: what.into(), problem });
    }
    for (found, expected) in found.fields().iter().zip(expected.fields()) {
        same_type(expected.data_type(), found.data_type(), &|| format!("column {} of {what}", expected.name()))?;
    }
    Ok(())
}

impl Plan {
    /// The rows of `base` and of `step` over the work table of `id`.
    ///
    /// # Errors
    /// Columns that differ.
    pub fn recursive(recursion: Recursion) -> Result<Plan, PlanError> {
        Plan::Recursive(Arc::new(recursion)).checked()
    }

    /// Work tables that it reads and does not fill itself.
    pub(crate) fn work_tables(&self) -> Vec<usize> {
        let mut read = Vec::new();
        self.collect_work_tables(&mut Vec::new(), &mut read);
        read
    }

    fn collect_work_tables(&self, filled: &mut Vec<usize>, read: &mut Vec<usize>) {
        if let Plan::WorkTable { id, .. } = self
            && !filled.contains(id)
            && !read.contains(id)
        {
            read.push(*id);
        }
        let Plan::Recursive(recursion) = self else {
            return self.inputs().into_iter().for_each(|input| input.collect_work_tables(filled, read));
        };
        recursion.base.collect_work_tables(filled, read);
        filled.push(recursion.id);
        recursion.step.collect_work_tables(filled, read);
        filled.pop();
    }
}

impl Plan {
    /// The plan of a step in which what takes work, and is the same for every step, is computed once. `number` gives
    /// numbers that no other shared plan of the tree has.
    pub fn kept_between_steps(&self, number: &mut dyn FnMut() -> usize) -> Plan {
        if !self.work_tables().is_empty() {
            return self.map_inputs(&mut |input| input.kept_between_steps(number));
        }
        match self.takes_work() && !self.is_volatile() {
            true => Plan::Shared(Arc::new(Shared { id: number(), keep: true, plan: self.clone() })),
            false => self.clone(),
        }
    }

    /// Is it more than a scan with what looks at one row at a time over it?
    fn takes_work(&self) -> bool {
        match self {
            Plan::Scan { .. } | Plan::Values { .. } | Plan::WorkTable { .. } | Plan::Shared(_) => false,
            Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => input.takes_work(),
            _ => true,
        }
    }

    /// May some expression of it give another value each time?
    fn is_volatile(&self) -> bool {
        let here = match self {
            Plan::Filter { predicate, .. } => predicate.volatile(),
            Plan::Project { outputs, .. } => {
                outputs.iter().any(|o| matches!(o, Output::Expression { expression, .. } if expression.volatile()))
            }
            Plan::Join(join) => join.residual.as_ref().is_some_and(Predicate::volatile),
            _ => false,
        };
        here || self.inputs().into_iter().any(Plan::is_volatile)
    }
}
