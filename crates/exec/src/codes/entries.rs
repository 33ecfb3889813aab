//! [`Entries`]: an expression of one column, evaluated once per dictionary entry instead of once per row.
//!
//! The work is cut into chunks of entries, so that several tasks share a large dictionary. An entry that no live row
//! holds may make the expression fail; then nothing is reported and the expression is evaluated over rows instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use numa::Reservation;
use parking_lot::Mutex;
use sched::Statement;
use storage::Encoding;

use super::bind::Coding;
use super::filter::RowTest;
use super::ranges::CodeRanges;
use crate::ExecError;
use crate::charge::array_bytes;
use crate::plan::expression::{Expression, evaluate_over};

/// Entries that one task evaluates.
const CHUNK_ENTRIES: u32 = 65_536;

/// Something to evaluate for each code of a coding, and the results so far.
pub(crate) struct Entries {
    coding: Coding,
    function: Function,
    chunks: Vec<Mutex<Option<ArrayRef>>>,
    /// Some entry made it fail, or there is no room.
    failed: AtomicBool,
    reservations: Mutex<Vec<Reservation>>,
}

/// What is evaluated.
pub(crate) enum Function {
    /// A leaf of a filter.
    Test(Arc<RowTest>),
    /// An output, and the schema of its argument.
    Value(Arc<dyn Expression>, SchemaRef),
}

impl Function {
    fn evaluate(&self, values: ArrayRef) -> Result<ArrayRef, ExecError> {
        let rows = values.len();
        match self {
            Function::Test(test) => Ok(Arc::new(test.evaluate(vec![values], rows)?)),
            Function::Value(expression, schema) => evaluate_over(expression.as_ref(), schema, vec![values], rows),
        }
    }
}

/// Is evaluating per entry cheaper than for `rows` rows? An affine dictionary may list values that no row holds, so it
/// has to be shorter still.
pub(crate) fn pays(coding: &Coding, rows: u64) -> bool {
    let entries = u64::from(coding.codes());
    match coding.dictionary().encoding() {
        Encoding::Affine => entries < rows / 2,
        _ => entries <= rows,
    }
}

impl Entries {
    /// Nothing evaluated yet.
    pub(crate) fn new(coding: Coding, function: Function) -> Entries {
        let chunks = coding.codes().div_ceil(CHUNK_ENTRIES).max(1);
        Entries {
            coding,
            function,
            chunks: (0..chunks).map(|_| Mutex::new(None)).collect(),
            failed: AtomicBool::new(false),
            reservations: Mutex::new(Vec::new()),
        }
    }

    /// Pieces that the work is cut into.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The coding it is for.
    pub(crate) fn coding(&self) -> &Coding {
        &self.coding
    }

    /// Evaluates one chunk and charges its result to the statement. A failure of the expression, and a budget without
    /// room for the result, is remembered, not reported: rows are then evaluated a batch at a time.
    pub(crate) fn evaluate_chunk(&self, chunk: usize, statement: &Statement) -> Result<(), ExecError> {
        if self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let charged = self.chunk_results(chunk).and_then(|results| {
            let reservation = statement.budget().reserve(array_bytes(results.as_ref()))?;
            Ok((results, reservation))
        });
        match charged {
            Ok((results, reservation)) => {
                self.reservations.lock().push(reservation);
                *self.chunks[chunk].lock() = Some(results);
                Ok(())
            }
            Err(ExecError::Evaluation(_) | ExecError::Expression(_) | ExecError::Memory(_)) => {
                self.failed.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// The entries of a chunk.
    pub(crate) fn vids(&self, chunk: usize) -> std::ops::Range<u32> {
        let first = chunk as u32 * CHUNK_ENTRIES;
        first..first.saturating_add(CHUNK_ENTRIES).min(self.coding.vids())
    }

    /// Results for the codes of a chunk. NULL, if it is a code, belongs to the first.
    fn chunk_results(&self, chunk: usize) -> Result<ArrayRef, ExecError> {
        let vids = self.vids(chunk);
        let dictionary = self.coding.dictionary();
        let arguments = |vids| match &self.function {
            Function::Test(_) => dictionary.values_to_test(vids),
            Function::Value(..) => dictionary.values(vids),
        };
        let values = if vids.is_empty() { None } else { Some(self.function.evaluate(arguments(vids))?) };
        if chunk > 0 || !self.coding.null_code() {
            return values.map_or_else(|| self.function.evaluate(new_null_array(dictionary.data_type(), 0)), Ok);
        }
        let null = self.function.evaluate(new_null_array(dictionary.data_type(), 1))?;
        match values {
            Some(values) => Ok(concat(&[null.as_ref(), values.as_ref()])?),
            None => Ok(null),
        }
    }

    /// The result for each code; `None` where some entry failed.
    pub(crate) fn results(&self) -> Result<Option<ArrayRef>, ExecError> {
        if self.failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let chunks: Vec<ArrayRef> = self.chunks.iter().filter_map(|c| c.lock().take()).collect();
        debug_assert_eq!(chunks.len(), self.chunks.len());
        if let [one] = chunks.as_slice() {
            return Ok(Some(one.clone()));
        }
        let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
        Ok(Some(concat(&chunks)?))
    }

    /// The codes for which a test is TRUE; `None` where some entry failed.
    pub(crate) fn passing_codes(&self) -> Result<Option<CodeRanges>, ExecError> {
        let Some(results) = self.results()? else { return Ok(None) };
        let results = results.as_boolean();
        let passing = match results.nulls() {
            Some(nulls) => results.values() & nulls.inner(),
            None => results.values().clone(),
        };
        let ranges = passing.set_slices().map(|(start, end)| start as u32..end as u32);
        Ok(Some(CodeRanges::ascending(ranges, self.coding.codes())))
    }

    /// What the results are charged to, for as long as they are used.
    pub(crate) fn take_reservations(&self) -> Vec<Reservation> {
        std::mem::take(&mut self.reservations.lock())
    }
}
