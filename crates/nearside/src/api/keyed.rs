//! [`KeyedTable`]: a table's rows by its primary key, in batches, without SQL.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow::compute::concat_batches;
use datafusion_common::ScalarValue;
use numa::Reservation;
use storage::{Keys, TableRow};
use units::versions::Pin;

use crate::api::session::{Session, not_on_a_worker};
use crate::catalog::delta::FoundKeys;
use crate::catalog::roles::FIRST;
use crate::catalog::{Name, TableEntry, Workers};
use crate::error::{Error, Result};
use crate::run::by_key::account;
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::quoted;
use crate::statements::keyed::{delete, fitted_keys, primary_key, upsert};
use crate::statements::lasting;
use crate::statements::transaction::until_nothing_is_in_the_way;
use crate::statements::written;

/// Rows that are read before the statement is asked whether it goes on, and charged what they take.
const PIECE_ROWS: usize = 2048;

/// Rows of a table by its primary key. Each call is a statement: whole or not at all, over what is committed when it
/// begins; reads wait for nobody.
///
/// ```
/// # use std::sync::Arc;
/// use nearside::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// # fn main() -> nearside::Result<()> {
/// let database = nearside::Database::new()?;
/// database.session().execute("CREATE TABLE stock (item BIGINT PRIMARY KEY, pieces BIGINT)")?;
/// let stock = database.keyed("stock")?;
/// let items: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let pieces: ArrayRef = Arc::new(Int64Array::from(vec![10, 20, 30]));
/// stock.upsert(&RecordBatch::try_from_iter([("item", items), ("pieces", pieces)])?)?;
/// let found = stock.lookup(&[3_i64, 4, 1][..])?;
/// assert_eq!((found.rows.num_rows(), &found.places[..]), (2, &[0, 2][..]));
/// assert_eq!(stock.delete(&[2_i64, 4][..])?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeyedTable {
    inner: Arc<Inner>,
    name: Name,
}

/// Rows that were found by their keys.
#[derive(Clone, Debug)]
pub struct KeyedRows {
    /// All columns of the rows, in the order of the keys that they were asked for by. Texts of `CHAR(n)` have no blanks
    /// at their end.
    pub rows: RecordBatch,
    /// For each row the place of its key among those asked for; keys that no row has are left out.
    pub places: Vec<usize>,
}

/// What can be given as keys: slices for keys of one column, an array for each column of a key. Values of other types
/// are cast to those of the key's columns.
pub trait KeyColumns {
    /// The keys, column by column.
    fn into_columns(self) -> Vec<ArrayRef>;
}

impl KeyColumns for Vec<ArrayRef> {
    fn into_columns(self) -> Vec<ArrayRef> {
        self
    }
}

impl KeyColumns for &[ArrayRef] {
    fn into_columns(self) -> Vec<ArrayRef> {
        self.to_vec()
    }
}

impl KeyColumns for &[i64] {
    fn into_columns(self) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from_iter_values(self.iter().copied()))]
    }
}

impl KeyColumns for &[i32] {
    fn into_columns(self) -> Vec<ArrayRef> {
        vec![Arc::new(Int32Array::from_iter_values(self.iter().copied()))]
    }
}

impl KeyColumns for &[&str] {
    fn into_columns(self) -> Vec<ArrayRef> {
        vec![Arc::new(StringViewArray::from_iter_values(self))]
    }
}

impl KeyedTable {
    /// The table of this name.
    pub(super) fn new(inner: Arc<Inner>, table: &str) -> Result<KeyedTable> {
        let name = Name::resolve(&table.into())?;
        primary_key(inner.catalog.state().table(&name)?)?;
        Ok(KeyedTable { inner, name })
    }

    /// The rows that have these keys.
    ///
    /// # Errors
    /// Keys of another number of columns, or that do not fit their types; the table was dropped; no memory.
    pub fn lookup(&self, keys: impl KeyColumns) -> Result<KeyedRows> {
        let running = self.running()?;
        let (state, pin) = running.home.pinned();
        let table = state.table(&self.name)?;
        let (number, index) = primary_key(table)?;
        let keys = fitted_keys(keys.into_columns(), table, index)?;
        let keys = Keys::new(keys.columns())?;
        table.load_all(&running)?;
        let found = |table: &TableEntry| {
            table.find(number, &keys, pin.as_ref(), &|| running.check().is_err(), &running.parallel())
        };
        match found(table)? {
            FoundKeys::Rows(rows) => self.rows_of(table, &rows, &running),
            FoundKeys::Clash => {
                let merged = table.merged_at(pin.as_ref().map_or(u64::MAX, Pin::version))?;
                match found(&merged)? {
                    FoundKeys::Rows(rows) => self.rows_of(&merged, &rows, &running),
                    FoundKeys::Clash => Err(Error::Internal("keys of a merged table clash".into())),
                }
            }
        }
    }

    /// The rows whose keys lie between two, both included, in the order of the keys.
    ///
    /// # Errors
    /// A key of several columns; values that are not of its type.
    pub fn range(&self, first: ScalarValue, last: ScalarValue) -> Result<ResultStream> {
        let state = self.inner.catalog.state();
        let (_, index) = primary_key(state.table(&self.name)?)?;
        let [column] = &index.columns[..] else {
            return Err(Error::Unsupported(format!(
                "a range of the key ({}) of several columns is not supported; query it with conditions on its columns",
                index.columns.join(", ")
            )));
        };
        let (table, column) = (written::name(&self.name), quoted(column));
        let sql = format!("SELECT * FROM {table} WHERE {column} BETWEEN $1 AND $2 ORDER BY {column}");
        Session::new(Arc::clone(&self.inner), FIRST).prepare(&sql)?.query(&[first, last])
    }

    /// Puts rows under their keys, in the place of those that have them, and gives how many. The rows have all columns
    /// of the table, by name.
    ///
    /// # Errors
    /// Columns that are not the table's, values that do not fit, NULL where none may be, a key that is given twice, a
    /// value of another unique column that is there already; no memory. Then nothing was written.
    pub fn upsert(&self, rows: &RecordBatch) -> Result<u64> {
        self.written(|running| upsert(&self.name, rows, running))
    }

    /// Takes away the rows that have these keys, and gives how many there were.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup). Then nothing was taken away.
    pub fn delete(&self, keys: impl KeyColumns) -> Result<u64> {
        let keys = keys.into_columns();
        self.written(|running| delete(&self.name, &keys, running))
    }

    /// Writes, and waits until that is on the disk, where the database has one.
    fn written(&self, write: impl Fn(&Arc<RunningStatement>) -> Result<u64>) -> Result<u64> {
        not_on_a_worker()?;
        let start = || RunningStatement::start(&self.inner, self.inner.default_planner());
        until_nothing_is_in_the_way(start, |running| {
            let rows = write(running)?;
            lasting::settle(running)?;
            Ok(rows)
        })
    }

    fn running(&self) -> Result<Arc<RunningStatement>> {
        not_on_a_worker()?;
        Ok(Arc::new(RunningStatement::start(&self.inner, self.inner.default_planner())))
    }

    fn rows_of(&self, table: &TableEntry, found: &[Option<TableRow>], running: &RunningStatement) -> Result<KeyedRows> {
        let (places, rows): (Vec<usize>, Vec<TableRow>) =
            found.iter().enumerate().filter_map(|(place, row)| Some((place, (*row)?))).unzip();
        let all: Vec<usize> = (0..table.base.schema.fields().len()).collect();
        let schema = &table.base.schema;
        // Charged while they are put together; after that they are the caller's.
        let (number, _) = primary_key(table)?;
        let by_key = found.len() * size_of::<(Option<TableRow>, usize, TableRow)>();
        let mut charged = vec![running.statement.budget().reserve(by_key as u64)?];
        let mut pieces = Vec::new();
        for rows in rows.chunks(PIECE_ROWS) {
            running.check()?;
            let since = Instant::now();
            let columns = table.columns_at(rows, &all)?;
            account(table, &self.name.shown(), (number, &all), rows, (running, since));
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let piece = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
            charged.push(running.statement.budget().reserve(exec::batch_bytes(&piece))?);
            pieces.push(piece);
        }
        if pieces.len() == 1 {
            return Ok(KeyedRows { rows: pieces.swap_remove(0), places });
        }
        // Once more for the rows put together.
        let bytes = charged.iter().map(Reservation::bytes).sum();
        charged.push(running.statement.budget().reserve(bytes)?);
        Ok(KeyedRows { rows: concat_batches(schema, &pieces)?, places })
    }
}
