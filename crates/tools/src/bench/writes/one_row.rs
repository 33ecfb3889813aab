//! Statements of one row each, one after the other, by one session or by several at the same time.
//!
//! Invariants: each kind begins with the same table and leaves it checked, row by row; every answer is checked as it
//! comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, UInt64Type};
use nearside::{Database, Prepared, ScalarValue, Session};
use serde_json::json;

use crate::bench::clients::mixed;
use crate::bench::report::{Better, Figure, percentile};
use crate::bench::rows::{COLUMNS, Rows};
use crate::failure::Failure;

/// Prepared SELECTs of one row per second, at least.
const SELECTS_TARGET: f64 = 250_000.0;
/// Prepared upserts of one row per second, at least.
const UPSERTS_TARGET: f64 = 150_000.0;
/// The share of the time of a kind that passes before statements count.
const WARM_UP: f64 = 0.2;
/// The table that is read and written.
pub const TABLE: &str = "accounts";
/// What every such table is made from.
pub const SOURCE: &str = "made";

/// What a statement does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStatement {
    /// Reads one that is there.
    Select,
    /// Adds one behind all others.
    Insert,
    /// Changes one that is there, any.
    Update,
    /// Takes one away, in no order of the keys.
    Delete,
    /// Changes one if it is there, as every other one is, and adds it otherwise.
    Upsert,
}

impl RowStatement {
    fn name(self) -> &'static str {
        match self {
            RowStatement::Select => "SELECT",
            RowStatement::Insert => "INSERT",
            RowStatement::Update => "UPDATE",
            RowStatement::Delete => "DELETE",
            RowStatement::Upsert => "upsert",
        }
    }

    /// With `$1`, `$2`, .. for its values.
    fn sql(self) -> &'static str {
        match self {
            RowStatement::Select => "SELECT a, b FROM accounts WHERE id = $1",
            RowStatement::Insert => "INSERT INTO accounts VALUES ($1, $2, $3, $4)",
            RowStatement::Update => "UPDATE accounts SET b = b + 1 WHERE id = $1",
            RowStatement::Delete => "DELETE FROM accounts WHERE id = $1",
            RowStatement::Upsert => {
                "INSERT INTO accounts VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET b = accounts.b + 1"
            }
        }
    }

    /// Its values for a row.
    fn values(self, rows: Rows, i: u64) -> Vec<ScalarValue> {
        let key = ScalarValue::Int64(Some(rows.key(i)));
        match self {
            RowStatement::Insert | RowStatement::Upsert => vec![
                key,
                ScalarValue::Int32(Some(rows.a(i))),
                ScalarValue::Int64(Some(rows.b(i))),
                ScalarValue::Float64(Some(rows.c(i))),
            ],
            _ => vec![key],
        }
    }

    /// The row that a session's next statement is for, if there is one left.
    fn row(self, rows: Rows, turn: u64, random: u64) -> Option<u64> {
        match self {
            RowStatement::Select | RowStatement::Update => Some(random % rows.count),
            RowStatement::Insert => Some(rows.count + turn),
            RowStatement::Delete => (turn < rows.count).then(|| rows.shuffled(turn)),
            RowStatement::Upsert => Some(random % (2 * rows.count)),
        }
    }

    /// What a statement makes of column `b` of its row; `None`: there is no such row.
    fn effect(self, before: Option<i64>, rows: Rows, i: u64) -> Option<i64> {
        match self {
            RowStatement::Select => before,
            RowStatement::Insert => Some(rows.b(i)),
            RowStatement::Update => before.map(|b| b + 1),
            RowStatement::Delete => None,
            RowStatement::Upsert => Some(before.map_or(rows.b(i), |b| b + 1)),
        }
    }
}

/// A kind of statements, and who issues them.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub statement: RowStatement,
    /// Prepared once, and not given as a text each time.
    pub is_prepared: bool,
    pub sessions: usize,
}

/// Every kind, in the order in which they are measured: several sessions after one.
pub const KINDS: [Kind; 12] = [
    Kind { statement: RowStatement::Select, is_prepared: false, sessions: 1 },
    Kind { statement: RowStatement::Insert, is_prepared: false, sessions: 1 },
    Kind { statement: RowStatement::Update, is_prepared: false, sessions: 1 },
    Kind { statement: RowStatement::Delete, is_prepared: false, sessions: 1 },
    Kind { statement: RowStatement::Upsert, is_prepared: false, sessions: 1 },
    Kind { statement: RowStatement::Select, is_prepared: true, sessions: 1 },
    Kind { statement: RowStatement::Insert, is_prepared: true, sessions: 1 },
    Kind { statement: RowStatement::Update, is_prepared: true, sessions: 1 },
    Kind { statement: RowStatement::Delete, is_prepared: true, sessions: 1 },
    Kind { statement: RowStatement::Upsert, is_prepared: true, sessions: 1 },
    Kind { statement: RowStatement::Update, is_prepared: false, sessions: 4 },
    Kind { statement: RowStatement::Update, is_prepared: true, sessions: 4 },
];

impl Kind {
    /// What its figure is called.
    pub fn name(self) -> String {
        let form = if self.is_prepared { "prepared" } else { "text" };
        let together = if self.sessions == 1 { String::new() } else { format!(" by {} sessions", self.sessions) };
        format!("{} {form}{together}", self.statement.name())
    }

    fn target(self, figures: &[Figure]) -> Option<f64> {
        match (self.statement, self.is_prepared, self.sessions) {
            (RowStatement::Select, true, 1) => Some(SELECTS_TARGET),
            (RowStatement::Upsert, true, 1) => Some(UPSERTS_TARGET),
            (_, _, 1) => None,
            // Together they must not do less than one alone.
            _ => {
                let alone = Kind { sessions: 1, ..self }.name();
                figures.iter().find(|figure| figure.name == alone).map(|figure| figure.value)
            }
        }
    }
}

/// Makes the table anew, without a delta.
///
/// # Errors
/// It does not fit.
pub fn make_table(session: &Session) -> Result<(), Failure> {
    session.execute(&format!(
        "DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} ({COLUMNS}); INSERT INTO {TABLE} SELECT * FROM {SOURCE}"
    ))?;
    Ok(())
}

/// A session that issues statements of one kind.
pub struct Client {
    session: Session,
    prepared: Option<Prepared>,
}

impl Client {
    pub fn new(session: &Session, kind: Kind) -> nearside::Result<Client> {
        let prepared = kind.is_prepared.then(|| session.prepare(kind.statement.sql())).transpose()?;
        Ok(Client { session: session.clone(), prepared })
    }

    fn run(&self, statement: RowStatement, rows: Rows, i: u64) -> nearside::Result<Vec<RecordBatch>> {
        let values = statement.values(rows, i);
        match &self.prepared {
            Some(prepared) => prepared.query(&values)?.collect_all(),
            None => self.session.query(&text(statement.sql(), &values))?.collect_all(),
        }
    }

    /// Issues one statement and checks its answer; that of a SELECT is as the row was loaded.
    pub fn issue(&self, statement: RowStatement, rows: Rows, i: u64) -> Result<(), Failure> {
        let batches = self.run(statement, rows, i)?;
        let one = match &batches[..] {
            [one] if one.num_rows() == 1 => Some(one),
            _ => None,
        };
        let is_right = one.is_some_and(|one| match statement {
            RowStatement::Select => {
                let a = one.column(0).as_primitive::<Int32Type>().value(0);
                let b = one.column(1).as_primitive::<Int64Type>().value(0);
                (a, b) == (rows.a(i), rows.b(i))
            }
            _ => one.column(0).as_primitive::<UInt64Type>().value(0) == 1,
        });
        match is_right {
            true => Ok(()),
            false => {
                let what = statement.name();
                Err(Failure::new(format!("{what} of id {} did not give the one row that it must", rows.key(i))))
            }
        }
    }
}

/// A statement with values in place of `$1`, `$2`, ..
fn text(sql: &str, values: &[ScalarValue]) -> String {
    use std::fmt::Write;
    let mut pieces = sql.split('$');
    let mut text = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = piece[..digits].parse().expect("parameters are numbered");
        let _ = write!(text, "{}{}", values[number - 1], &piece[digits..]);
    }
    text
}

/// What sessions did.
#[derive(Debug, Default)]
struct Issued {
    /// When each statement had ended, in seconds since the beginning, and what it took.
    ended: Vec<(f64, f64)>,
    /// The rows they were for.
    rows: Vec<u64>,
}

/// Measures a kind for about so long and checks the table.
///
/// # Errors
/// A statement that failed or a wrong answer.
pub fn measure(
    database: &Database,
    rows: Rows,
    kind: Kind,
    seconds: f64,
    earlier: &[Figure],
) -> Result<Figure, Failure> {
    let session = database.session();
    make_table(&session)?;
    let failed = &AtomicBool::new(false);
    let begun = Instant::now();
    let by_session: Vec<Issued> = thread::scope(|scope| {
        let client =
            |number: usize| scope.spawn(move || issue(database, rows, kind, number as u64, begun, seconds, failed));
        let threads: Vec<_> = (0..kind.sessions).map(client).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Issued, Failure>>| {
            thread.join().map_err(|_| Failure::new("a thread that issues statements panicked"))?
        };
        // All are waited for before the first failure is told.
        threads.into_iter().map(join).collect::<Vec<_>>().into_iter().collect::<Result<_, _>>()
    })?;
    let mut expected: Vec<Option<i64>> = (0..rows.count).map(|i| Some(rows.b(i))).collect();
    for i in by_session.iter().flat_map(|issued| issued.rows.iter().copied()) {
        if i as usize >= expected.len() {
            expected.resize(i as usize + 1, None);
        }
        expected[i as usize] = kind.statement.effect(expected[i as usize], rows, i);
    }
    rows.check(&session, TABLE, expected.len() as u64, &|i| expected[i as usize])?;
    session.execute(&format!("DROP TABLE {TABLE}"))?;
    let ended = by_session.into_iter().flat_map(|issued| issued.ended).collect();
    let figure = figure(kind, ended, seconds * WARM_UP);
    Ok(match kind.target(earlier) {
        Some(target) => figure.with_target(target),
        None => figure,
    })
}

/// What one session does.
fn issue(
    database: &Database,
    rows: Rows,
    kind: Kind,
    number: u64,
    begun: Instant,
    seconds: f64,
    failed: &AtomicBool,
) -> Result<Issued, Failure> {
    let client = Client::new(&database.session(), kind)?;
    let length = Duration::from_secs_f64(seconds);
    let mut issued = Issued::default();
    let mut turn = 0;
    while !failed.load(Ordering::Relaxed) {
        let random = mixed(rows.seed ^ mixed(turn ^ number << 48));
        let Some(i) = kind.statement.row(rows, turn, random) else { break };
        let started = Instant::now();
        client.issue(kind.statement, rows, i).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        let ended = Instant::now();
        turn += 1;
        issued.rows.push(i);
        issued.ended.push(((ended - begun).as_secs_f64(), (ended - started).as_secs_f64()));
        if ended - begun >= length {
            break;
        }
    }
    Ok(issued)
}

/// The figure of statements: their rate after the warm-up, of all of them where none ended later.
fn figure(kind: Kind, ended: Vec<(f64, f64)>, warm_up: f64) -> Figure {
    let last = ended.iter().map(|(at, _)| *at).fold(0.0, f64::max);
    let from = if last > warm_up { warm_up } else { 0.0 };
    let counted = ended.iter().filter(|(at, _)| *at > from);
    let mut latencies: Vec<f64> = counted.map(|(_, took)| took * 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    let per_second = latencies.len() as f64 / (last - from).max(1e-12);
    Figure::new(kind.name(), per_second, "statements/s", Better::More).with_details(json!({
        "statements": latencies.len(), "sessions": kind.sessions, "sql": kind.statement.sql(),
        "p50_us": percentile(&latencies, 50.0),
        "p99_us": percentile(&latencies, 99.0),
        "max_us": percentile(&latencies, 100.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_values() {
        let rows = Rows { count: 10, seed: 1 };
        let insert = text(RowStatement::Insert.sql(), &RowStatement::Insert.values(rows, 3));
        assert_eq!(insert, format!("INSERT INTO accounts VALUES ({}, 3, {}, 0.1875)", rows.key(3), rows.b(3)));
        assert_eq!(text("a $2, $1 b", &[1_i64.into(), 2_i64.into()]), "a 2, 1 b");
    }

    #[test]
    fn rates_are_of_what_ended_after_the_warm_up() {
        let kind = Kind { statement: RowStatement::Update, is_prepared: false, sessions: 4 };
        let of = |ended: &[(f64, f64)], warm_up| figure(kind, ended.to_vec(), warm_up);
        let figure = of(&[(0.1, 0.1), (0.5, 0.1), (1.0, 0.5), (0.6, 0.1)], 0.2);
        assert_eq!(figure.name, "UPDATE text by 4 sessions");
        assert!((figure.value - 3.0 / 0.8).abs() < 1e-9, "{}", figure.value);
        assert_eq!(figure.details["max_us"], json!(500_000.0));
        assert!((of(&[(0.1, 0.1)], 0.2).value - 10.0).abs() < 1e-9);
        let alone = Figure::new("UPDATE text", 7.0, "statements/s", Better::More);
        assert_eq!((kind.target(&[alone]), kind.target(&[])), (Some(7.0), None));
    }

    #[test]
    fn wrong_answers_end_the_run() {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        let session = database.session();
        let rows = Rows { count: 100, seed: 1 };
        rows.load(&database, SOURCE, false).unwrap();
        make_table(&session).unwrap();
        let kind = |statement| Kind { statement, is_prepared: false, sessions: 1 };
        let issue = |statement, i| Client::new(&session, kind(statement)).unwrap().issue(statement, rows, i);
        issue(RowStatement::Select, 99).unwrap();
        assert!(issue(RowStatement::Update, 100).unwrap_err().to_string().contains("did not give the one row"));
        issue(RowStatement::Update, 5).unwrap();
        assert!(issue(RowStatement::Select, 5).unwrap_err().to_string().contains("did not give the one row"));
    }
}
