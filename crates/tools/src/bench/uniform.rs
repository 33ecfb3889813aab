//! Tables of uniform random integers, a column per bit case, and range queries over them: the data of Psaroudakis et
//! al., VLDB 2015, section 6.1.
//!
//! Invariants: a value depends on seed, row and column alone; the rows of a query are counted by the database once, and
//! every later answer must have as many.
//!
//! # Limits
//! Values are uniform over all codes of their bits, so dictionaries are affine and take no memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use nearside::{BatchProducer, Database, LoadOptions, Session};

use super::clients::{Query, mixed};
use crate::failure::Failure;

/// Rows of a batch that is loaded.
const BATCH_ROWS: u64 = 64 * 1024;

/// A table of uniform integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// The bits of column `c0`, `c1`, ..: 1 to 31 each.
    pub bits: Vec<u32>,
    /// What values are made from.
    pub seed: u64,
    /// Whether column `k` has the rows' numbers, from 0.
    pub keyed: bool,
}

impl Uniform {
    /// The value of a row and column.
    pub fn value(&self, row: u64, column: usize) -> i32 {
        let number = row.wrapping_mul(self.bits.len() as u64).wrapping_add(column as u64);
        (mixed(self.seed ^ mixed(number)) >> (64 - self.bits[column])) as i32
    }

    /// Makes the table, on all threads (at most 2^31 rows where it has keys), placed as in
    /// `CREATE TABLE .. WITH (placement = '..')`.
    ///
    /// # Errors
    /// It does not fit, or there is such a table.
    pub fn load(&self, database: &Database, placement: &str) -> Result<(), Failure> {
        let names = self.keyed.then(|| "k".to_string()).into_iter();
        let names = names.chain((0..self.bits.len()).map(|column| format!("c{column}")));
        let fields = names.map(|name| Field::new(name, DataType::Int32, false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let producers = database.scheduler().threads() as u64;
        let share = self.rows.div_ceil(producers);
        let producer = |number: u64| -> BatchProducer {
            let schema = Arc::clone(&schema);
            let own = self.clone();
            let first = (number * share).min(own.rows);
            let end = ((number + 1) * share).min(own.rows);
            Box::new((first..end).step_by(BATCH_ROWS as usize).map(move |begin| {
                let rows = begin..end.min(begin + BATCH_ROWS);
                let numbers = || Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| row as i32))) as ArrayRef;
                let key = own.keyed.then(numbers);
                let columns = (0..own.bits.len()).map(|column| {
                    let values = rows.clone().map(|row| own.value(row, column));
                    Arc::new(Int32Array::from_iter_values(values)) as ArrayRef
                });
                Ok(RecordBatch::try_new(Arc::clone(&schema), key.into_iter().chain(columns).collect())?)
            }))
        };
        let producers = (0..producers).map(producer).collect();
        let options = LoadOptions { placement: Some(placement.to_owned()), ..LoadOptions::default() };
        database.load_batches(&self.table, Arc::clone(&schema), producers, &options)?;
        Ok(())
    }

    /// A range query over a column: `number` tells ranges of one column apart.
    pub fn query(&self, session: &Session, column: usize, selectivity: f64, number: u64) -> Result<Query, Failure> {
        let domain = 1_u64 << self.bits[column];
        let width = ((domain as f64 * selectivity) as u64).clamp(1, domain);
        let low = mixed(self.seed ^ mixed(number)) % (domain - width).max(1);
        let filter = format!("FROM {} WHERE c{column} >= {low} AND c{column} <= {}", self.table, low + width - 1);
        let counted = session.query(&format!("SELECT count(*) {filter}"))?.collect_all()?;
        let count = counted.iter().find(|batch| batch.num_rows() > 0);
        let rows = count.map_or(0, |batch| batch.column(0).as_primitive::<Int64Type>().value(0)) as u64;
        Ok(Query { sql: format!("SELECT c{column} {filter}"), rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_bits_of_their_column() {
        let bits: Vec<u32> = (17..25).collect();
        let table = Uniform { table: "t".into(), rows: 0, bits, seed: 1, keyed: false };
        for (column, bits) in table.bits.iter().enumerate() {
            let max = (0..20_000).map(|row| table.value(row, column)).max();
            let domain = 1 << bits;
            assert!(max > Some(domain - domain / 100) && max < Some(domain), "column {column}: {max:?}");
        }
    }

    #[test]
    fn queries_know_how_many_rows_they_give() {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        let table = Uniform { table: "u".into(), rows: 5_000, bits: vec![3, 31], seed: 7, keyed: true };
        table.load(&database, "rr").unwrap();
        let session = database.session();
        let keys = session.query("SELECT DISTINCT k FROM u WHERE k >= 0 AND k < 5000").unwrap().collect_all().unwrap();
        assert_eq!(keys.iter().map(RecordBatch::num_rows).sum::<usize>(), 5_000);
        for (column, selectivity) in [(0, 0.5), (1, 0.25), (1, 1e-9), (0, 1.0)] {
            let query = table.query(&session, column, selectivity, 3).unwrap();
            let values: Vec<i32> = (0..5_000).map(|row| table.value(row, column)).collect();
            let bounds: Vec<i64> = query.sql.split([' ', ')']).filter_map(|word| word.parse().ok()).collect();
            let inside = values.iter().filter(|value| (bounds[0]..=bounds[1]).contains(&i64::from(**value))).count();
            assert_eq!(query.rows, inside as u64, "{}", query.sql);
            assert!((query.rows as f64 / 5_000.0 - selectivity).abs() < 0.02, "{} {}", query.sql, query.rows);
        }
    }
}
