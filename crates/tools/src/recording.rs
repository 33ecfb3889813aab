//! Workload files from what a database has recorded: `nearside sql --record-workload FILE`.
//!
//! Invariant: that the file can be written is seen before anything runs.
//!
//! # Limits
//! `clients` is how many statements were on their way on average; whoever wants to know of more edits the file.

use std::path::Path;

use lab::declaration::{RecordedColumn, RecordedRead, RecordedStatement, RecordedWorkload};
use nearside::{Database, Workload};

use crate::bench::report::Output;
use crate::failure::Failure;

/// A database that is being recorded for a file.
pub struct Recording<'a> {
    database: Database,
    output: Output<'a>,
}

impl<'a> Recording<'a> {
    /// Records from now on, where a file is named.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(database: &Database, path: Option<&'a Path>) -> Result<Option<Recording<'a>>, Failure> {
        let Some(output) = Output::open(path)? else { return Ok(None) };
        database.record_workload(true);
        Ok(Some(Recording { database: database.clone(), output }))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Nothing was recorded, or the file cannot be written after all.
    pub fn write(self) -> Result<(), Failure> {
        let path = self.output.path().display();
        let text = lab::whatif::workload_file(&recorded(&self.database.workload()))
            .map_err(|reason| Failure::new(format!("no workload was written to {path}: {reason}")))?;
        self.output.write_text(&text)
    }
}

/// The workload as the lab simulates it: what one statement of each kind did on average.
fn recorded(workload: &Workload) -> RecordedWorkload {
    let all = workload.statements.iter().flat_map(|kind| kind.bytes.keys());
    let mut names: Vec<&(String, String)> = all.collect();
    names.sort_unstable();
    names.dedup();
    let statements = workload.statements.iter().map(|kind| {
        let each = 1.0 / kind.count.max(1) as f64;
        let place = |name: &(String, String)| names.binary_search(&name).unwrap_or_default();
        let read = |(name, bytes): (&(String, String), &u64)| RecordedRead {
            column: place(name),
            bytes: *bytes as f64 * each,
        };
        RecordedStatement {
            sql: kind.sql.clone(),
            count: kind.count,
            tasks: kind.tasks as f64 * each,
            cpu_seconds: kind.cpu.as_secs_f64() * each,
            seconds: kind.elapsed.as_secs_f64() * each,
            reads: kind.bytes.iter().map(read).collect(),
        }
    });
    let column = |(table, column): &(String, String)| RecordedColumn { table: table.clone(), column: column.clone() };
    RecordedWorkload {
        clients: workload.mean_active().round().clamp(1.0, f64::from(u32::MAX)) as u32,
        statements: statements.collect(),
        columns: names.into_iter().map(column).collect(),
        ..RecordedWorkload::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nearside::StatementKind;

    use super::*;

    #[test]
    fn figures_are_of_one_statement() {
        let bytes = |columns: &[(&str, u64)]| {
            columns.iter().map(|(column, bytes)| (("t".to_string(), column.to_string()), *bytes)).collect()
        };
        let kind = |sql: &str, count, columns: &[(&str, u64)]| StatementKind {
            sql: sql.into(),
            count,
            rows: 1,
            tasks: 8,
            cpu: Duration::from_secs(2),
            elapsed: Duration::from_secs(6),
            bytes: bytes(columns),
        };
        let statements = vec![kind("one", 4, &[("a", 400), ("c", 40)]), kind("two", 1, &[("b", 7)])];
        let found = recorded(&Workload { statements, elapsed: Duration::from_secs(5) });
        let names: Vec<&str> = found.columns.iter().map(|column| column.column.as_str()).collect();
        assert_eq!((found.clients, names), (2, vec!["a", "b", "c"]));
        let one = &found.statements[0];
        assert_eq!((one.tasks, one.cpu_seconds, one.seconds, one.count), (2.0, 0.5, 1.5, 4));
        let reads: Vec<(usize, f64)> = one.reads.iter().map(|read| (read.column, read.bytes)).collect();
        assert_eq!(reads, [(0, 100.0), (2, 10.0)]);
        assert_eq!(found.statements[1].reads[0], RecordedRead { column: 1, bytes: 7.0 });
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_anything_runs() {
        let database = Database::builder().threads(1).memory_bytes(1 << 26).build().unwrap();
        assert!(Recording::begin(&database, Some(Path::new("/no/such/folder/w.toml"))).is_err());
        assert!(Recording::begin(&database, None).unwrap().is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.toml");
        let recording = Recording::begin(&database, Some(&path)).unwrap().unwrap();
        assert!(recording.write().unwrap_err().to_string().contains("no statement was recorded"));
        assert!(!path.exists());
    }
}
