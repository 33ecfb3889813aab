//! A database for a test, and what queries give.

use nearside::arrow::array::AsArray;
use nearside::arrow::datatypes::Int64Type;
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, Session};

/// One with two workers and a GiB.
pub fn database() -> Database {
    Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap()
}

/// All rows as texts.
pub fn rows(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for batch in session.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).collect_all().unwrap() {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        all.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()));
    }
    all
}

/// The first column of the first row, a BIGINT.
pub fn number(session: &Session, sql: &str) -> i64 {
    let batches = session.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).collect_all().unwrap();
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap_or_else(|| panic!("{sql}: no row"));
    batch.column(0).as_primitive::<Int64Type>().value(0)
}
