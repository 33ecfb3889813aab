//! Workloads as they were run: what each kind of statement reads and computes, for `nearside.workload` and
//! `nearside whatif`.
//!
//! Statements are recorded while [`Database::record_workload`](crate::Database::record_workload) or their session's
//! `nearside.record_workload` is on. Those that differ in their constants only are of one kind. A recorded statement
//! runs with its operators profiled, as under EXPLAIN ANALYZE, and counts when its last row was taken: one that fails,
//! or whose rows nobody wants, does not.
//!
//! Invariants: sums only grow until the record is cleared; kinds are at most [`KINDS_MAX`], further ones are counted
//! together.
//!
//! # Limits
//! What a writing statement writes is not recorded, only what it reads. Cpu time is what threads were busy, waits for
//! memory included. Bytes are those that its tasks touched (`nearside.traffic`) of codes, dictionaries and indexes
//! together. A statement is known by the first 200 characters of its text.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Kinds of statements that are told apart.
const KINDS_MAX: usize = 500;
/// What further kinds are called.
const OTHERS: &str = "(other statements)";

/// What one kind of statement did, summed over its statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatementKind {
    /// The text with `?` for constants.
    pub sql: String,
    /// Statements that ended.
    pub count: u64,
    /// Rows that they gave.
    pub rows: u64,
    /// Tasks that they were cut into.
    pub tasks: u64,
    /// Time that threads were busy for them.
    pub cpu: Duration,
    /// From their start to their last row.
    pub elapsed: Duration,
    /// Bytes read, by table and column.
    pub bytes: BTreeMap<(String, String), u64>,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Kinds of statements, in the order of their texts.
    pub statements: Vec<StatementKind>,
    /// From the start of the first statement to the end of the last.
    pub elapsed: Duration,
}

impl Workload {
    /// Statements that were on their way at a time, on average; 0 where none was recorded.
    pub fn mean_active(&self) -> f64 {
        let all: f64 = self.statements.iter().map(|kind| kind.elapsed.as_secs_f64()).sum();
        let elapsed = self.elapsed.as_secs_f64();
        if elapsed > 0.0 { all / elapsed } else { 0.0 }
    }
}

/// What a database has recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    kinds: BTreeMap<String, StatementKind>,
    /// When the first recorded statement began and the last one ended.
    span: Option<(Instant, Instant)>,
}

impl Recorder {
    /// Records the statements of all sessions, or of those alone that ask for it.
    pub(crate) fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Whether the statements of all sessions are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// What was recorded so far.
    pub(crate) fn workload(&self) -> Workload {
        let log = self.log.lock();
        let elapsed = log.span.map_or(Duration::ZERO, |(began, ended)| ended - began);
        Workload { statements: log.kinds.values().cloned().collect(), elapsed }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.log.lock() = Log::default();
    }

    /// Adds a statement that ended, by its text.
    pub(crate) fn add(&self, label: &str, began: Instant, done: StatementKind) {
        let ended = Instant::now();
        let mut log = self.log.lock();
        let first = log.span.map_or(began, |(first, _)| first.min(began));
        log.span = Some((first, ended));
        let mut sql = kind_of(label);
        if log.kinds.len() >= KINDS_MAX && !log.kinds.contains_key(&sql) {
            sql = OTHERS.to_string();
        }
        let kind = log
            .kinds
            .entry(sql)
            .or_insert_with_key(|sql| StatementKind { sql: sql.clone(), ..StatementKind::default() });
        kind.count += 1;
        kind.rows += done.rows;
        kind.tasks += done.tasks;
        kind.cpu += done.cpu;
        kind.elapsed += ended - began;
        for (column, bytes) in done.bytes {
            *kind.bytes.entry(column).or_insert(0) += bytes;
        }
    }
}

/// A statement's text with `?` for numbers and strings, `?` once for lists of them, and single blanks.
pub(super) fn kind_of(sql: &str) -> String {
    let mut kind = String::with_capacity(sql.len());
    let mut chars = sql.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let in_word = kind.ends_with(|last: char| last.is_alphanumeric() || last == '_' || last == '$');
        match c {
            '\'' => {
                while chars.next().is_some_and(|c| c != '\'') {}
                // A doubled quote begins what looks like another string.
                if !kind.ends_with('?') {
                    kind.push('?');
                }
            }
            '"' => {
                kind.push(c);
                for c in chars.by_ref() {
                    kind.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            _ if c.is_ascii_digit() && !in_word => {
                while chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '.' || *c == '_').is_some() {}
                kind.push('?');
            }
            _ if c.is_whitespace() => {
                if !kind.ends_with(' ') {
                    kind.push(' ');
                }
            }
            _ => kind.push(c),
        }
    }
    while kind.contains("?, ?") {
        kind = kind.replace("?, ?", "?");
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::ScalarValue;

    #[test]
    fn constants_do_not_make_kinds() {
        for (sql, kind) in [
            ("SELECT a1 FROM t  WHERE b = 12.5e3", "SELECT a1 FROM t WHERE b = ?"),
            ("SELECT 'it''s' ,\n\"Sum 1\" FROM t2", "SELECT ? , \"Sum 1\" FROM t2"),
            ("SELECT x FROM t WHERE x IN (1, 2, 3, 4)", "SELECT x FROM t WHERE x IN (?)"),
            ("SELECT $1 FROM t", "SELECT $1 FROM t"),
            ("SELECT 'open", "SELECT ?"),
        ] {
            assert_eq!(kind_of(sql), kind);
        }
    }

    fn database() -> Database {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t AS SELECT value AS a, value % 7 AS b FROM generate_series(1, 100000)").unwrap();
        database
    }

    #[test]
    fn kinds_have_what_their_statements_did() {
        let database = database();
        let session = database.session();
        let query = |sql: &str| session.query(sql).unwrap().collect_all().unwrap();
        query("SELECT a FROM t WHERE a < 5");
        assert_eq!(database.workload(), Workload::default(), "nobody asked for it");
        session.execute("SET nearside.record_workload = true").unwrap();
        query("SELECT a FROM t WHERE a < 10");
        query("SELECT a FROM t WHERE a < 20");
        query("SELECT b, sum(a) FROM t GROUP BY b");
        assert!(session.query("SELECT a / (b - b) FROM t").unwrap().collect_all().is_err());
        drop(session.query("SELECT a, b FROM t").unwrap());
        let workload = database.workload();
        let texts: Vec<&str> = workload.statements.iter().map(|kind| kind.sql.as_str()).collect();
        assert_eq!(texts, ["SELECT a FROM t WHERE a < ?", "SELECT b, sum(a) FROM t GROUP BY b"]);
        let scans = &workload.statements[0];
        let groups = &workload.statements[1];
        assert_eq!((scans.count, scans.rows, groups.count, groups.rows), (2, 9 + 19, 1, 7));
        assert!(groups.cpu > Duration::ZERO && groups.tasks > 0 && groups.elapsed > Duration::ZERO, "{groups:?}");
        let columns: Vec<&(String, String)> = groups.bytes.keys().collect();
        assert_eq!(columns, [&("t".to_string(), "a".to_string()), &("t".to_string(), "b".to_string())]);
        // 17 bits and 3 bits per row.
        let [a, b] = ["a", "b"].map(|column| groups.bytes[&("t".to_string(), column.to_string())]);
        assert!(a > 4 * b && a + b < 400_000 && b > 20_000, "{a} {b}");
        assert!(workload.mean_active() > 0.0 && workload.mean_active() <= 1.0, "{workload:?}");
    }

    #[test]
    fn all_sessions_are_recorded_while_the_database_records() {
        let database = database();
        database.record_workload(true);
        let prepared = database.session().prepare("SELECT count(*) FROM t WHERE b = $1").unwrap();
        for value in [1_i64, 2, 3] {
            prepared.query(&[ScalarValue::from(value)]).unwrap().collect_all().unwrap();
        }
        let view = "SELECT sql, statements FROM nearside.workload WHERE rows = 3";
        let shown = database.session().query(view).unwrap().collect_all().unwrap();
        assert_eq!(shown.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
        database.record_workload(false);
        database.session().query("SELECT a FROM t").unwrap().collect_all().unwrap();
        let kinds = database.workload().statements;
        let counts: Vec<(&str, u64)> = kinds.iter().map(|kind| (kind.sql.as_str(), kind.count)).collect();
        assert_eq!(counts[0], ("SELECT count(*) FROM t WHERE b = $1", 3));
        assert!(!counts.iter().any(|(sql, _)| *sql == "SELECT a FROM t"), "{counts:?}");
        database.clear_workload();
        assert_eq!(database.workload(), Workload::default());
    }
}
