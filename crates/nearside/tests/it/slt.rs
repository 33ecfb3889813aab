//! Runs every `tests/slt/*.slt` file (sqllogictest's format) against a fresh database.

use std::path::Path;

use nearside::arrow::array::{Array, ArrayRef, RecordBatch};
use nearside::arrow::datatypes::DataType;
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, Error, Outcome, Session, texts_of_values};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

struct Nearside {
    session: Session,
}

impl DB for Nearside {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Error> {
        match self.session.execute(sql)? {
            Outcome::Done(done) => Ok(DBOutput::StatementComplete(done.rows.unwrap_or(0))),
            Outcome::Rows(rows) => {
                let types = rows.schema().fields().iter().map(|f| column_type(f.data_type())).collect();
                let batches = rows.collect_all()?;
                Ok(DBOutput::Rows { types, rows: batches.iter().flat_map(texts).collect() })
            }
        }
    }

    fn engine_name(&self) -> &str {
        "nearside"
    }
}

fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        t if t.is_integer() => DefaultColumnType::Integer,
        t if t.is_floating() || t.is_decimal() => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

/// Numbers and times are written as Arrow writes them, what Arrow has other words for as a cast to text does.
fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let as_sql = |column: &ArrayRef| match column.data_type() {
        t if t.is_nested()
            || matches!(t, DataType::Interval(_) | DataType::Duration(_) | DataType::FixedSizeBinary(_)) =>
        {
            texts_of_values(column).unwrap().unwrap_or_else(|| column.clone())
        }
        _ => column.clone(),
    };
    let columns: Vec<ArrayRef> = batch.columns().iter().map(as_sql).collect();
    let formatters: Vec<_> = columns.iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
    let text = |row: usize, column: usize| {
        let value = formatters[column].value(row).to_string();
        if value.is_empty() && !batch.column(column).is_null(row) { "(empty)".to_string() } else { value }
    };
    (0..batch.num_rows()).map(|row| (0..formatters.len()).map(|column| text(row, column)).collect()).collect()
}

fn run(path: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = Runner::new(|| async {
        Ok(Nearside { session: Database::builder().threads(2).memory_bytes(1 << 30).build()?.session() })
    });
    runner.set_var("FOLDER".into(), folder.path().to_string_lossy().into_owned());
    if let Err(error) = runner.run_file(path) {
        panic!("{}", error.display(false));
    }
}

#[test]
fn every_file_passes() {
    // Tests run in the folder of their crate, wherever that is by now; the path of the build may be another clone's.
    let mut files: Vec<_> = std::fs::read_dir("tests/slt").unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "slt"));
    files.sort();
    assert!(files.len() >= 5, "the SQL files are missing");
    for file in files {
        eprintln!("{}", file.display());
        run(&file);
    }
}
