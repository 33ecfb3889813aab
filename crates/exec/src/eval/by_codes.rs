//! [`ByCodes`]: an expression of one stored column, evaluated once per code of each dictionary that the column has.
//!
//! Where the segments of a table have dictionaries of their own there are no vids to look up by (`entries`), but codes
//! lie in the segments all the same. What a chunk brings from elsewhere, or from a dictionary that has too many
//! entries, is evaluated by row; so is everything where an entry makes the expression fail, since perhaps no row holds
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use numa::Reservation;

use super::over_arrow::ArrowLeaf;
use super::{Evaluator, schema_of};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, Vector};
use crate::codes::bind::{Coding, CodingKey};
use crate::codes::entries::{Entries, Function, pays};
use crate::plan::expression::{Expression, argument_schema};
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, note_values};

/// What an expression gives for each code.
pub(super) struct Results {
    of: HashMap<CodingKey, ArrayRef>,
    _charged: Vec<Reservation>,
}

impl Results {
    /// Evaluates it for every coding of its column that has fewer codes than rows are expected; `None` where none has.
    pub(super) fn of(
        expression: &Arc<dyn Expression>,
        column: usize,
        infos: &[ColumnInfo],
        codings: Vec<(Coding, u64)>,
        run: &Run<'_>,
    ) -> Result<Option<Results>, ExecError> {
        debug_assert_eq!(expression.columns(), [column]);
        let paying = codings.into_iter().filter(|(coding, rows)| pays(coding, *rows));
        let mut jobs = Vec::new();
        for (coding, _) in paying {
            let schema = argument_schema(expression.as_ref(), &schema_of(infos));
            jobs.push(Entries::new(coding, Function::Value(expression.clone(), schema)));
        }
        if jobs.is_empty() {
            return Ok(None);
        }
        let tasks: Vec<(usize, usize)> =
            jobs.iter().enumerate().flat_map(|(j, job)| (0..job.chunks()).map(move |chunk| (j, chunk))).collect();
        run.for_each(tasks.len(), &|_| None, &|task| {
            let (job, chunk) = tasks[task];
            let entries: &Entries = &jobs[job];
            note_values(entries.coding().dictionary().id(), TouchPhase::Materialize, entries.vids(chunk).len());
            entries.evaluate_chunk(chunk, run.statement)
        })?;
        let (mut of, mut charged) = (HashMap::new(), Vec::new());
        for job in jobs {
            if let Some(results) = job.results()? {
                of.insert(job.coding().key(), results);
                charged.append(&mut job.take_reservations());
            }
        }
        Ok((!of.is_empty()).then_some(Results { of, _charged: charged }))
    }
}

/// See the module.
pub(super) struct ByCodes {
    leaf: ArrowLeaf,
    info: ColumnInfo,
    column: usize,
    results: Results,
}

impl ByCodes {
    /// `leaf` evaluates by row.
    pub(super) fn new(leaf: ArrowLeaf, info: ColumnInfo, column: usize, results: Results) -> ByCodes {
        ByCodes { leaf, info, column, results }
    }
}

impl Evaluator for ByCodes {
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError> {
        let known = chunk.coding(self.column).and_then(|coding| self.results.of.get(&coding.key()));
        let array = match known.zip(chunk.codes(self.column)) {
            Some((results, codes)) => take(results, &UInt32Array::from(codes), None)?,
            None => self.leaf.evaluate(chunk)?,
        };
        Ok(self.info.vector_of(&array))
    }
}
