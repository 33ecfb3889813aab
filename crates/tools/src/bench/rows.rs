//! Rows of tables that benchmarks look up and write: a key with gaps and three more columns.
//!
//! Invariant: all values depend on the seed and the row's number alone, so that any answer can be checked, and a whole
//! table against what it must hold.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, Schema, SchemaRef};
use nearside::{BatchProducer, Database, LoadOptions, Session};

use super::clients::mixed;
use crate::failure::Failure;

/// The columns of a table that has these rows.
pub const COLUMNS: &str = "id BIGINT PRIMARY KEY, a INT NOT NULL, b BIGINT NOT NULL, c DOUBLE NOT NULL";
/// Rows of a batch that is loaded.
const BATCH_ROWS: u64 = 64 * 1024;
/// Keys are so far apart on average.
const KEY_GAP: u64 = 4;

/// The table's rows, as functions of the row's number.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// How many there are.
    pub count: u64,
    /// What values are made from.
    pub seed: u64,
}

impl Rows {
    /// The key of the `i`th smallest: ascending in `i`, with gaps.
    pub fn key(self, i: u64) -> i64 {
        (i * KEY_GAP + mixed(self.seed ^ i) % KEY_GAP) as i64
    }

    /// A key between that of the `i`th and its neighbours that no row has.
    pub fn gap(self, i: u64) -> i64 {
        let offset = mixed(self.seed ^ i) % KEY_GAP;
        (i * KEY_GAP + (offset + 1) % KEY_GAP) as i64
    }

    /// Which row has a key, if one has.
    pub fn number(self, key: i64) -> Option<u64> {
        let i = u64::try_from(key).ok()? / KEY_GAP;
        (self.key(i) == key).then_some(i)
    }

    /// What column `a` holds beside the `i`th key.
    pub fn a(self, i: u64) -> i32 {
        (i % 1000) as i32
    }

    /// What column `b` holds beside the `i`th key.
    pub fn b(self, i: u64) -> i64 {
        (mixed(self.seed.wrapping_add(i)) >> 30) as i64
    }

    /// What column `c` holds beside the `i`th key.
    pub fn c(self, i: u64) -> f64 {
        (i % 4096) as f64 / 16.0
    }

    /// Which key the row at `position` has when rows are shuffled: a bijection.
    pub fn shuffled(self, position: u64) -> u64 {
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // Near the golden section, so that neighbours are far apart.
        let mut step = (self.count as f64 * 0.618_033_988_75) as u64 | 1;
        while gcd(step, self.count) != 1 {
            step += 2;
        }
        (u128::from(position) * u128::from(step) % u128::from(self.count)) as u64
    }

    /// Makes a table of them without a key.
    ///
    /// # Errors
    /// It does not fit, or there is such a table.
    pub fn load(self, database: &Database, table: &str, shuffled: bool) -> Result<(), Failure> {
        let producers = database.scheduler().threads() as u64 * 4;
        let share = self.count.div_ceil(producers).next_multiple_of(BATCH_ROWS);
        let producer = |number: u64| -> BatchProducer {
            let first = (number * share).min(self.count);
            let end = ((number + 1) * share).min(self.count);
            Box::new((first..end).step_by(BATCH_ROWS as usize).map(move |begin| {
                let order = begin..end.min(begin + BATCH_ROWS);
                let numbers: Vec<u64> = order.map(|at| if shuffled { self.shuffled(at) } else { at }).collect();
                self.batch(&numbers, &|i| self.b(i))
            }))
        };
        let producers = (0..producers).map(producer).collect();
        database.load_batches(table, schema(), producers, &LoadOptions::default())?;
        Ok(())
    }

    /// Some rows, in this order, with what `b` gives in column `b`.
    ///
    /// # Errors
    /// None that the schema does not cause.
    pub fn batch(self, numbers: &[u64], b: &dyn Fn(u64) -> i64) -> nearside::Result<RecordBatch> {
        let of = || numbers.iter().copied();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(of().map(|i| self.key(i)))),
            Arc::new(Int32Array::from_iter_values(of().map(|i| self.a(i)))),
            Arc::new(Int64Array::from_iter_values(of().map(b))),
            Arc::new(Float64Array::from_iter_values(of().map(|i| self.c(i)))),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }

    /// Reads a whole table and compares it with what it must hold: of the rows `0..numbers`, which may be more than
    /// [`count`](Self::count), each with what `b` gives in column `b`, once, and none where that is `None`.
    ///
    /// # Errors
    /// A row that is missing, twice there, not to be there, or has another value.
    pub fn check(
        self,
        session: &Session,
        table: &str,
        numbers: u64,
        b: &dyn Fn(u64) -> Option<i64>,
    ) -> Result<(), Failure> {
        let mut seen = vec![false; numbers as usize];
        for batch in session.query(&format!("SELECT id, a, b, c FROM {table}"))? {
            let batch = batch?;
            let ids = batch.column(0).as_primitive::<Int64Type>().values();
            let of_a = batch.column(1).as_primitive::<Int32Type>().values();
            let of_b = batch.column(2).as_primitive::<Int64Type>().values();
            let of_c = batch.column(3).as_primitive::<Float64Type>().values();
            for (row, id) in ids.iter().enumerate() {
                let wrong = |what: &str| Failure::new(format!("table {table} is wrong: the row of id {id} {what}"));
                let i = self.number(*id).filter(|i| *i < numbers).ok_or_else(|| wrong("was never written"))?;
                let expected = b(i).ok_or_else(|| wrong("was deleted or never written"))?;
                if std::mem::replace(&mut seen[i as usize], true) {
                    return Err(wrong("is there twice"));
                }
                if (of_a[row], of_b[row]) != (self.a(i), expected) || of_c[row].to_bits() != self.c(i).to_bits() {
                    return Err(wrong("has other values than were written"));
                }
            }
        }
        match (0..numbers).find(|i| !seen[*i as usize] && b(*i).is_some()) {
            None => Ok(()),
            Some(i) => Err(Failure::new(format!("table {table} is wrong: the row of id {} is not there", self.key(i)))),
        }
    }
}

/// The columns of [`COLUMNS`].
fn schema() -> SchemaRef {
    let fields = [("id", DataType::Int64), ("a", DataType::Int32), ("b", DataType::Int64), ("c", DataType::Float64)];
    Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, false)).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_with_gaps_and_shuffling_keeps_them_all() {
        let rows = Rows { count: 1000, seed: 5 };
        let keys: Vec<i64> = (0..1000).map(|i| rows.key(i)).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((0..1000).all(|i| keys.binary_search(&rows.gap(i)).is_err()));
        assert!((0..1000).all(|i| rows.number(rows.key(i)) == Some(i) && rows.number(rows.gap(i)).is_none()));
        for count in [100, 1000, 1001, 1024] {
            let rows = Rows { count, seed: 5 };
            let mut shuffled: Vec<u64> = (0..count).map(|at| rows.shuffled(at)).collect();
            assert!(shuffled.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count() < 3, "{count}");
            shuffled.sort_unstable();
            assert!(shuffled.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn wrong_tables_are_told() {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        let session = database.session();
        let rows = Rows { count: 500, seed: 3 };
        rows.load(&database, "t", true).unwrap();
        let check = |b: &dyn Fn(u64) -> Option<i64>| rows.check(&session, "t", 501, b).map_err(|e| e.to_string());
        let as_loaded = |i: u64| (i < 500).then(|| rows.b(i));
        check(&as_loaded).unwrap();
        assert!(check(&|i| as_loaded(i).filter(|_| i != 7)).unwrap_err().contains("was deleted or never written"));
        assert!(check(&|i| Some(rows.b(i))).unwrap_err().contains("is not there"));
        assert!(check(&|i| as_loaded(i).map(|b| b + i64::from(i == 9))).unwrap_err().contains("other values"));
        session.execute("INSERT INTO t SELECT * FROM t WHERE a = 33").unwrap();
        assert!(check(&as_loaded).unwrap_err().contains("is there twice"));
        session
            .execute(&format!("DELETE FROM t WHERE a = 33; INSERT INTO t VALUES ({}, 1, 2, 3)", rows.gap(8)))
            .unwrap();
        assert!(check(&as_loaded).unwrap_err().contains("was never written"));
    }
}
