//! Scans of a whole table at rest, and while another session updates rows of it: single ones, or batches by their keys.
//!
//! Invariant: a scan sees each update that had ended before it began, and none that began after its end.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use nearside::{Database, KeyedTable, Session};
use serde_json::json;

use super::one_row::{Client, Kind, RowStatement, TABLE, make_table};
use crate::bench::clients::mixed;
use crate::bench::report::{Better, Figure, median};
use crate::bench::rows::Rows;
use crate::failure::Failure;
use crate::size::thousands;

/// Scans beside writes, as a share of those at rest, at least.
const SHARE_TARGET: f64 = 0.8;

/// What a writer has begun and ended.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    ended: AtomicU64,
    stop: AtomicBool,
}

/// Who writes beside scans, and how many rows per second: as many as it can without a number.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub of: Updates,
    pub per_second: Option<f64>,
}

/// How rows are updated.
#[derive(Clone, Copy, Debug)]
pub enum Updates {
    /// By a statement each.
    Statements(Kind),
    /// So many at a time, by [`nearside::KeyedTable::upsert`].
    Batches(usize),
}

impl Writer {
    /// What it does.
    pub fn name(self) -> String {
        let rate =
            self.per_second.map_or(String::new(), |rate| format!(", {} rows per second", thousands(rate as u64)));
        match self.of {
            Updates::Statements(kind) => format!("{}{rate}", kind.name()),
            Updates::Batches(rows) => format!("upserts of {rows} rows by key{rate}"),
        }
    }
}

/// Measures both: scans at rest and beside, the share, and the writer's rate.
///
/// # Errors
/// A statement that failed, or a wrong answer.
pub fn measure(database: &Database, rows: Rows, writer: Writer, seconds: f64) -> Result<Vec<Figure>, Failure> {
    let session = database.session();
    make_table(&session)?;
    let progress = &Progress::default();
    let at_rest = scan(&session, rows, seconds, progress)?;
    let (beside, written, took) = thread::scope(|scope| {
        let begun = Instant::now();
        let thread = scope.spawn(|| write(database, rows, writer, progress));
        let beside = scan(&session, rows, seconds, progress);
        progress.stop.store(true, Ordering::Relaxed);
        let written = thread.join().map_err(|_| Failure::new("the thread that writes panicked"))??;
        Ok::<_, Failure>((beside?, written, begun.elapsed().as_secs_f64()))
    })?;
    let mut expected: Vec<i64> = (0..rows.count).map(|i| rows.b(i)).collect();
    written.iter().for_each(|i| expected[*i as usize] += 1);
    rows.check(&session, TABLE, rows.count, &|i| Some(expected[i as usize]))?;
    session.execute(&format!("DROP TABLE {TABLE}"))?;
    let of_scans = |name: &str, scans: &[f64]| {
        let per_second = scans.len() as f64 / scans.iter().sum::<f64>().max(1e-12);
        let details = json!({"scans": scans.len(), "median_ms": median(scans) * 1e3, "sql": SCAN});
        Figure::new(name, per_second, "scans/s", Better::More).with_details(details)
    };
    let name = |what: &str| match writer.of {
        Updates::Statements(_) => what.to_string(),
        Updates::Batches(_) => format!("{what}, batches"),
    };
    let at_rest = of_scans(&name("scan at rest"), &at_rest);
    let beside = of_scans(&name("scan beside writes"), &beside);
    let share = Figure::new(name("scan beside : at rest"), beside.value / at_rest.value, "x", Better::More);
    let writes = Figure::new(name("writes beside scans"), written.len() as f64 / took, "rows/s", Better::More);
    let details = json!({"rows": written.len(), "asked_per_second": writer.per_second, "kind": writer.name()});
    Ok(vec![at_rest, beside, share.with_target(SHARE_TARGET), writes.with_details(details)])
}

/// The aggregate that is asked for.
const SCAN: &str = "SELECT count(*), CAST(sum(b) AS BIGINT), CAST(sum(a) AS BIGINT) FROM accounts";

/// Seconds of each scan for about so long, one at least.
fn scan(session: &Session, rows: Rows, seconds: f64, progress: &Progress) -> Result<Vec<f64>, Failure> {
    let sum_of_a: i64 = (0..rows.count).map(|i| i64::from(rows.a(i))).sum();
    let sum_of_b: i64 = (0..rows.count).map(|i| rows.b(i)).sum();
    let length = Duration::from_secs_f64(seconds);
    let begun = Instant::now();
    let mut scans = Vec::new();
    loop {
        let least = progress.ended.load(Ordering::SeqCst);
        let started = Instant::now();
        let batches = session.query(SCAN)?.collect_all()?;
        scans.push(started.elapsed().as_secs_f64());
        let most = progress.begun.load(Ordering::SeqCst);
        let value = |column: usize| batches[0].column(column).as_primitive::<Int64Type>().value(0);
        let updates = value(1) - sum_of_b;
        if value(0) != rows.count as i64 || value(2) != sum_of_a {
            return Err(Failure::new("a scan beside writes did not see every row once"));
        }
        if !(least as i64..=most as i64).contains(&updates) {
            return Err(Failure::new(format!(
                "a scan saw {updates} updates, and not the {least} to {most} that there were"
            )));
        }
        if begun.elapsed() >= length {
            return Ok(scans);
        }
    }
}

/// Updates rows and tells which ones.
type Update<'a> = Box<dyn FnMut(&mut Vec<u64>) -> Result<(), Failure> + 'a>;

/// Updates rows until it is told to stop; which ones.
fn write(database: &Database, rows: Rows, writer: Writer, progress: &Progress) -> Result<Vec<u64>, Failure> {
    let mut update = match writer.of {
        Updates::Statements(kind) => statements(Client::new(&database.session(), kind)?, rows, progress),
        Updates::Batches(count) => batches(database.keyed(TABLE)?, rows, count, progress),
    };
    let begun = Instant::now();
    let mut written = Vec::new();
    while !progress.stop.load(Ordering::Relaxed) {
        if let Some(per_second) = writer.per_second {
            let due = begun + Duration::from_secs_f64(written.len() as f64 / per_second);
            // In short pieces, so that a slow writer ends with the scans.
            let left = due.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
            if !left.is_zero() {
                thread::sleep(left);
                continue;
            }
        }
        update(&mut written)?;
    }
    Ok(written)
}

/// By statements of one row.
fn statements(client: Client, rows: Rows, progress: &Progress) -> Update<'_> {
    Box::new(move |written| {
        let i = mixed(rows.seed ^ mixed(written.len() as u64)) % rows.count;
        progress.begun.fetch_add(1, Ordering::SeqCst);
        client.issue(RowStatement::Update, rows, i)?;
        progress.ended.fetch_add(1, Ordering::SeqCst);
        written.push(i);
        Ok(())
    })
}

/// By upserts of `count` rows, or of all where there are fewer.
fn batches(table: KeyedTable, rows: Rows, count: usize, progress: &Progress) -> Update<'_> {
    let count = count.min(rows.count as usize);
    let mut b: Vec<i64> = (0..rows.count).map(|i| rows.b(i)).collect();
    Box::new(move |written| {
        let first = written.len();
        let mut numbers = HashSet::with_capacity(count);
        let mut turn = first as u64;
        // Each key once.
        while numbers.len() < count {
            let i = mixed(rows.seed ^ mixed(turn)) % rows.count;
            turn += 1;
            if numbers.insert(i) {
                b[i as usize] += 1;
                written.push(i);
            }
        }
        let batch = rows.batch(&written[first..], &|i| b[i as usize])?;
        progress.begun.fetch_add(count as u64, Ordering::SeqCst);
        if table.upsert(&batch)? != count as u64 {
            return Err(Failure::new("an upsert did not put every row"));
        }
        progress.ended.fetch_add(count as u64, Ordering::SeqCst);
        Ok(())
    })
}
