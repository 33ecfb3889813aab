//! INSERT of many rows into a table with a primary key: from another table and from a Parquet file, keys in their order
//! and in none.
//!
//! Invariants: each load has a database of its own, so that the peak of memory is its own; every row is checked.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nearside::Database;
use numa::Budget;
use serde_json::json;

use crate::bench::database_of;
use crate::bench::report::{Better, Figure};
use crate::bench::rows::{COLUMNS, Rows};
use crate::failure::Failure;

/// Rows per second of a load, at least.
const ROWS_TARGET: f64 = 3e6;
/// Memory at the peak of a load, as a multiple of what stays, at most.
const PEAK_TARGET: f64 = 1.5;
/// How often memory is looked at during a load.
const LOOK: Duration = Duration::from_millis(1);

/// Where rows come from and in what order.
#[derive(Clone, Copy, Debug)]
pub struct KeyedLoad {
    pub from_file: bool,
    pub shuffled: bool,
}

/// All loads, in their order.
pub const LOADS: [KeyedLoad; 4] = [
    KeyedLoad { from_file: false, shuffled: false },
    KeyedLoad { from_file: false, shuffled: true },
    KeyedLoad { from_file: true, shuffled: false },
    KeyedLoad { from_file: true, shuffled: true },
];

impl KeyedLoad {
    /// What its figures are called.
    pub fn name(self) -> String {
        let from = if self.from_file { "Parquet" } else { "table" };
        let order = if self.shuffled { "shuffled" } else { "ascending" };
        format!("load {from} {order}")
    }
}

/// A file that goes with what made it.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> TemporaryFile {
        TemporaryFile(std::env::temp_dir().join(format!("nearside-bench-writes-{}.parquet", std::process::id())))
    }

    /// As a text of SQL.
    fn quoted(&self) -> String {
        format!("'{}'", self.0.display().to_string().replace('\'', "''"))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A file that was never made is not there.
        let _ = std::fs::remove_file(self.path());
    }
}

/// Loads once: rows per second, and the peak against what stays.
///
/// # Errors
/// A load that fails, or rows that are not as they were made.
pub fn measure(rows: Rows, load: KeyedLoad, threads: Option<u16>) -> Result<[Figure; 2], Failure> {
    let database = database_of(threads)?;
    if !load.from_file {
        rows.load(&database, "made", load.shuffled)?;
        return insert(&database, rows, load, "INSERT INTO loaded SELECT * FROM made");
    }
    let file = TemporaryFile::new();
    rows.load(&database, "made", load.shuffled)?;
    database.session().execute(&format!("COPY made TO {}", file.quoted()))?;
    drop(database);
    insert(&database_of(threads)?, rows, load, &format!("COPY loaded FROM {}", file.quoted()))
}

fn insert(database: &Database, rows: Rows, load: KeyedLoad, sql: &str) -> Result<[Figure; 2], Failure> {
    let session = database.session();
    session.execute(&format!("CREATE TABLE loaded ({COLUMNS})"))?;
    let budget = database.budget();
    let before = budget.used_bytes();
    let (seconds, peak) = watched(budget, || {
        let started = Instant::now();
        session.execute(sql)?;
        Ok(started.elapsed().as_secs_f64())
    })?;
    let stays = budget.used_bytes().saturating_sub(before);
    let peak = peak.saturating_sub(before);
    rows.check(&session, "loaded", rows.count, &|i| Some(rows.b(i)))?;
    let of_peak = Figure::new(format!("{} peak", load.name()), peak as f64 / stays.max(1) as f64, "x", Better::Less);
    let of_peak = of_peak.with_target(PEAK_TARGET).with_details(json!({"peak_bytes": peak, "stays_bytes": stays}));
    let of_rows = Figure::new(load.name(), rows.count as f64 / seconds.max(1e-12), "rows/s", Better::More);
    let details = json!({"rows": rows.count, "seconds": seconds, "peak_bytes": peak, "stays_bytes": stays});
    Ok([of_rows.with_target(ROWS_TARGET).with_details(details), of_peak])
}

/// Does something, and tells the most bytes of a budget that were in use meanwhile: exactly where they were more than
/// ever before, else as somebody saw who looked again and again.
fn watched<T>(budget: &Budget, work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, u64), Failure> {
    let earlier = budget.peak_bytes();
    let (is_done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                seen.fetch_max(budget.used_bytes(), Ordering::Relaxed);
                thread::sleep(LOOK);
            }
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        done
    })?;
    let highest = budget.peak_bytes();
    Ok((done, if highest > earlier { highest } else { seen.into_inner().max(budget.used_bytes()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_the_work() {
        let budget = Budget::new("test", 1 << 20);
        let hold = |bytes: u64| {
            let held = budget.reserve(bytes).map_err(|error| Failure::new(error.to_string()))?;
            thread::sleep(LOOK * 100);
            drop(held);
            Ok(())
        };
        assert_eq!(watched(&budget, || hold(5000)).unwrap().1, 5000);
        // Less than before: it has to be seen.
        assert_eq!(watched(&budget, || hold(3000)).unwrap().1, 3000);
        assert_eq!(watched(&budget, || hold(7000)).unwrap().1, 7000);
        assert!(watched(&budget, || hold(1 << 21)).is_err());
    }
}
