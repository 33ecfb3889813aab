//! Cursors: queries whose rows are taken some at a time.
//!
//! A cursor has the result of its query, which goes on where it was left, and sees what its statement saw. It ends with
//! its transaction, unless it is declared WITH HOLD and that commits, and with a savepoint that is rolled back. Rows
//! that were taken are kept where it SCROLLs, and are given up otherwise.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::stream::ResultStream;
use crate::run::transaction::Transaction;
use crate::sql::Direction;

/// The cursors of a session by their names.
#[derive(Debug, Default)]
pub(super) struct Cursors(pub(super) Mutex<HashMap<String, Arc<Mutex<Cursor>>>>);

#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) rows: Rows,
    pub(super) scrolls: bool,
    /// Whether it outlives its transaction where that commits.
    pub(super) holds: bool,
    /// The transaction that it ends with; `None` where it was declared outside of one, or has outlived it.
    pub(super) of: Option<Weak<Transaction>>,
    /// How many savepoints that had made before.
    pub(super) savepoints: u64,
}

/// The rows of a query, and where among them a cursor is.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) schema: SchemaRef,
    stream: Option<ResultStream>,
    /// Rows that were taken from the stream and are kept, in order.
    kept: Vec<RecordBatch>,
    /// How many rows before those were given up.
    given_up: u64,
    /// The number of the row that it is on, from 1; 0 before the first, one more than there are behind the last.
    position: u64,
}

impl Rows {
    /// Those of a query's result, before the first.
    pub(super) fn of(stream: ResultStream) -> Rows {
        let schema = Arc::clone(stream.schema());
        Rows { schema, stream: Some(stream), kept: Vec::new(), given_up: 0, position: 0 }
    }

    /// How many rows were taken from the stream.
    fn taken(&self) -> u64 {
        self.given_up + self.kept.iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }

    /// Takes rows from the stream until there are so many, or no more.
    fn take_until(&mut self, count: u64) -> Result<()> {
        while self.taken() < count
            && let Some(stream) = &mut self.stream
        {
            match stream.next() {
                Some(batch) => self.kept.extend(Some(batch?).filter(|batch| batch.num_rows() > 0)),
                None => self.stream = None,
            }
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<u64> {
        self.take_until(u64::MAX)?;
        Ok(self.taken())
    }

    /// The rows of numbers from `first` on, so many of them, which are kept; the last one first where they go back.
    fn between(&self, first: u64, count: u64, back: bool) -> Result<Vec<RecordBatch>> {
        let (mut batches, mut start, end) = (Vec::new(), self.given_up + 1, first + count);
        for batch in &self.kept {
            let rows = batch.num_rows() as u64;
            let (from, to) = (first.max(start), end.min(start + rows));
            if from < to {
                batches.push(batch.slice((from - start) as usize, (to - from) as usize));
            }
            start += rows;
        }
        if !back || batches.is_empty() {
            return Ok(batches);
        }
        let all = concat_batches(&batches[0].schema(), &batches)?;
        let backwards: UInt64Array = (0..all.num_rows() as u64).rev().collect();
        Ok(vec![take_record_batch(&all, &backwards)?])
    }

    /// Gives up the rows before the one that it is on.
    fn give_up(&mut self) {
        let mut gone = 0;
        for batch in &self.kept {
            let rows = batch.num_rows() as u64;
            if self.given_up + gone + rows >= self.position {
                break;
            }
            gone += rows;
        }
        let mut left = gone;
        self.kept.retain(|batch| {
            let is_gone = left > 0;
            left = left.saturating_sub(batch.num_rows() as u64);
            !is_gone
        });
        self.given_up += gone;
    }

    /// The next rows, and it is on the last of them.
    fn forward(&mut self, count: Option<u64>) -> Result<Vec<RecordBatch>> {
        let last = count.map_or(u64::MAX, |count| self.position.saturating_add(count));
        self.take_until(last)?;
        let there = self.taken();
        let first = self.position + 1;
        let batches = self.between(first, last.min(there).saturating_sub(self.position), false)?;
        self.position = if last > there { there + 1 } else { last };
        Ok(batches)
    }

    /// The rows before, the nearest first.
    fn backward(&mut self, count: Option<u64>) -> Result<Vec<RecordBatch>> {
        let count = count.unwrap_or(u64::MAX).min(self.position.saturating_sub(1));
        let first = self.position - count;
        let batches = self.between(first, count, true)?;
        self.position = first;
        Ok(batches)
    }

    /// The row of a number, on which it is then.
    fn at(&mut self, number: u64) -> Result<Vec<RecordBatch>> {
        self.take_until(number)?;
        let there = self.taken();
        self.position = number.min(there + 1);
        if number == 0 || number > there { Ok(Vec::new()) } else { self.between(number, 1, false) }
    }
}

impl Cursor {
    pub(super) fn fetch(&mut self, direction: Direction) -> Result<Vec<RecordBatch>> {
        let position = self.rows.position;
        // Where it goes, as far as that is known without looking.
        let back = match direction {
            Direction::Forward(Some(count)) => count < 0,
            Direction::Forward(None) => false,
            Direction::Backward(Some(count)) => count > 0,
            Direction::Backward(None) => true,
            Direction::Absolute(number) => number < 0 || u64::try_from(number).is_ok_and(|number| number < position),
            Direction::Relative(by) => by < 0,
        };
        if back && !self.scrolls {
            return Err(Error::transaction(
                SqlState::ObjectNotInPrerequisiteState,
                "the cursor only goes forward; declare it with SCROLL",
            ));
        }
        let rows = &mut self.rows;
        let batches = match direction {
            Direction::Forward(Some(0)) | Direction::Backward(Some(0)) | Direction::Relative(0) => rows.at(position)?,
            Direction::Forward(Some(count)) if count > 0 => rows.forward(Some(count.unsigned_abs()))?,
            Direction::Forward(Some(count)) => Self::backward(rows, Some(count.unsigned_abs()))?,
            Direction::Forward(None) => rows.forward(None)?,
            Direction::Backward(Some(count)) if count < 0 => rows.forward(Some(count.unsigned_abs()))?,
            Direction::Backward(count) => Self::backward(rows, count.map(i64::unsigned_abs))?,
            Direction::Absolute(number) if number >= 0 => rows.at(number.unsigned_abs())?,
            Direction::Absolute(number) => {
                let there = rows.take_all()?;
                rows.at((there + 1).saturating_sub(number.unsigned_abs()))?
            }
            Direction::Relative(by) => rows.at(position.saturating_add_signed(by))?,
        };
        if !self.scrolls {
            self.rows.give_up();
        }
        Ok(batches)
    }

    /// Backwards past the first row it is before that.
    fn backward(rows: &mut Rows, count: Option<u64>) -> Result<Vec<RecordBatch>> {
        let passes = count.is_none_or(|count| count >= rows.position);
        let batches = rows.backward(count)?;
        if passes {
            rows.position = 0;
        }
        Ok(batches)
    }
}
