//! Random transactions of several sessions against a plain model with the same levels: what each statement gives, which
//! fail, what is there in the end.
//!
//! Statements come one after the other, so that the model knows what each has to find; one that would wait for another
//! session is given a short time and must run out of it, or is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use nearside::arrow::array::AsArray;
use nearside::arrow::datatypes::{Int64Type, UInt64Type};
use nearside::{Database, Error, Session};
use random::Random;

use crate::read::{database, rows};

/// Keys and values that statements draw from: few, so that they meet.
const KEYS: i64 = 8;
const VALUES: i64 = 6;
const SESSIONS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// A condition of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    All,
    Key(i64),
    /// Values from one to another.
    Values(i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    Begin(Level),
    Select(Where),
    /// Adds to the values.
    Update(Where, i64),
    Delete(Where),
    Insert(i64, i64),
    /// Sets the value of a key that is there.
    Upsert(i64, i64),
    Savepoint,
    RollBackTo,
    Commit,
    RollBack,
}

/// What a statement gives.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gives {
    Done,
    Rows(Vec<(i64, i64)>),
    Written(usize),
    /// A key that is taken.
    Duplicate,
    /// Run it again.
    Serialization,
    /// Another session is in the way.
    Waits,
    /// Nothing, since a statement before it has failed.
    Refused,
}

/// A row; another version of it has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    value: i64,
    stamp: u64,
}

type Rows = BTreeMap<i64, Row>;

#[derive(Clone, Debug)]
struct Transaction {
    level: Level,
    snapshot: Option<Rows>,
    own: BTreeMap<i64, Option<Row>>,
    savepoints: Vec<BTreeMap<i64, Option<Row>>>,
    has_failed: bool,
    reads: Vec<Where>,
}

#[derive(Debug, Default)]
struct Model {
    committed: Rows,
    stamp: u64,
    sessions: Vec<Option<Transaction>>,
    is_merging: bool,
}

impl Where {
    fn drawn(random: &mut Random) -> Where {
        match random.below(6) {
            0 => Where::All,
            1..=3 => Where::Key(random.between(0, KEYS - 1)),
            _ => {
                let from = random.between(0, VALUES - 1);
                Where::Values(from, from + random.between(0, 2))
            }
        }
    }

    fn passes(self, key: i64, row: Row) -> bool {
        match self {
            Where::All => true,
            Where::Key(of) => key == of,
            Where::Values(from, to) => (from..=to).contains(&row.value),
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::All => Ok(()),
            Where::Key(key) => write!(f, " WHERE id = {key}"),
            Where::Values(from, to) => write!(f, " WHERE v BETWEEN {from} AND {to}"),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Begin(Level::ReadCommitted) => write!(f, "BEGIN"),
            Statement::Begin(Level::RepeatableRead) => write!(f, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
            Statement::Begin(Level::Serializable) => write!(f, "BEGIN ISOLATION LEVEL SERIALIZABLE"),
            Statement::Select(of) => write!(f, "SELECT id, v FROM t{of}"),
            Statement::Update(of, by) => write!(f, "UPDATE t SET v = (v + {by}) % {VALUES}{of}"),
            Statement::Delete(of) => write!(f, "DELETE FROM t{of}"),
            Statement::Insert(key, value) => write!(f, "INSERT INTO t VALUES ({key}, {value})"),
            Statement::Upsert(key, value) => {
                write!(f, "INSERT INTO t VALUES ({key}, {value}) ON CONFLICT (id) DO UPDATE SET v = excluded.v")
            }
            Statement::Savepoint => write!(f, "SAVEPOINT s"),
            Statement::RollBackTo => write!(f, "ROLLBACK TO s"),
            Statement::Commit => write!(f, "COMMIT"),
            Statement::RollBack => write!(f, "ROLLBACK"),
        }
    }
}

impl Statement {
    fn drawn(random: &mut Random, of: Option<&Transaction>) -> Statement {
        let Some(of) = of else {
            return match random.below(3) {
                0 => Statement::write(random),
                _ => Statement::Begin(
                    [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable][random.below(3)],
                ),
            };
        };
        match random.below(if of.has_failed { 4 } else { 14 }) {
            0 => Statement::Commit,
            1 => Statement::RollBack,
            2 if !of.savepoints.is_empty() => Statement::RollBackTo,
            3 => Statement::Savepoint,
            4..=7 => Statement::Select(Where::drawn(random)),
            _ => Statement::write(random),
        }
    }

    fn write(random: &mut Random) -> Statement {
        let (key, value) = (random.between(0, KEYS - 1), random.between(0, VALUES - 1));
        match random.below(8) {
            0..=2 => Statement::Update(Where::drawn(random), random.between(1, 2)),
            3 => Statement::Delete(Where::drawn(random)),
            4 | 5 => Statement::Insert(key, value),
            _ => Statement::Upsert(key, value),
        }
    }
}

impl Transaction {
    fn new(level: Level) -> Transaction {
        Transaction {
            level,
            snapshot: None,
            own: BTreeMap::new(),
            savepoints: Vec::new(),
            has_failed: false,
            reads: Vec::new(),
        }
    }

    /// What a statement of it sees that begins now.
    fn view(&mut self, committed: &Rows) -> Rows {
        let mut rows = match self.level {
            Level::ReadCommitted => committed.clone(),
            _ => self.snapshot.get_or_insert_with(|| committed.clone()).clone(),
        };
        for (key, row) in &self.own {
            match row {
                Some(row) => rows.insert(*key, *row),
                None => rows.remove(key),
            };
        }
        rows
    }
}

impl Transaction {
    /// Whether others have changed since what passes any of some conditions.
    fn has_read_otherwise(&self, reads: &[Where], committed: &Rows) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        let keys: BTreeSet<i64> = snapshot.keys().chain(committed.keys()).copied().collect();
        keys.into_iter().any(|key| {
            let (then, now) = (snapshot.get(&key), committed.get(&key));
            let passes = |row: &Row| reads.iter().any(|read| read.passes(key, *row));
            !is_same(then, now) && (then.is_some_and(passes) || now.is_some_and(passes))
        })
    }
}

/// Whether two states of a row are the same version of it.
fn is_same(a: Option<&Row>, b: Option<&Row>) -> bool {
    a.map(|row| row.stamp) == b.map(|row| row.stamp)
}

impl Model {
    fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// What a statement of a session does; `None` where it is not defined: it must not be run.
    fn run(&mut self, session: usize, statement: Statement) -> Option<Gives> {
        let (mut of, is_alone) = match self.sessions[session].take() {
            Some(of) => (of, false),
            None => (Transaction::new(Level::ReadCommitted), true),
        };
        let ends = matches!(statement, Statement::Commit | Statement::RollBack);
        let gives = match statement {
            Statement::Begin(level) => {
                of = Transaction::new(level);
                Some(Gives::Done)
            }
            Statement::RollBack => Some(Gives::Done),
            // It rolls back, and says so by its tag alone.
            Statement::Commit if of.has_failed => Some(Gives::Done),
            Statement::Commit => Some(self.commit(&of)),
            Statement::RollBackTo => {
                of.has_failed = false;
                of.own = of.savepoints.last().cloned().unwrap_or_default();
                Some(Gives::Done)
            }
            _ if of.has_failed => Some(Gives::Refused),
            Statement::Savepoint => {
                of.savepoints.push(of.own.clone());
                Some(Gives::Done)
            }
            other => self.rows(session, &mut of, other),
        };
        of.has_failed |= matches!(gives, Some(Gives::Duplicate | Gives::Serialization | Gives::Waits));
        if is_alone && !matches!(statement, Statement::Begin(_)) {
            if matches!(gives, Some(Gives::Written(_))) {
                self.commit(&of);
            }
        } else if !ends {
            self.sessions[session] = Some(of);
        }
        gives
    }

    fn commit(&mut self, of: &Transaction) -> Gives {
        if of.level == Level::Serializable && !of.own.is_empty() && of.has_read_otherwise(&of.reads, &self.committed) {
            return Gives::Serialization;
        }
        for (key, row) in &of.own {
            match row {
                Some(row) => self.committed.insert(*key, *row),
                None => self.committed.remove(key),
            };
        }
        Gives::Done
    }

    /// Whether another session has a key for itself.
    fn is_held(&self, session: usize, key: i64) -> bool {
        let has = |of: &Option<Transaction>| of.as_ref().is_some_and(|of| of.own.contains_key(&key));
        self.sessions.iter().enumerate().any(|(other, of)| other != session && has(of))
    }

    fn rows(&mut self, session: usize, of: &mut Transaction, statement: Statement) -> Option<Gives> {
        let seen = of.view(&self.committed);
        let passing = |of: Where| -> Vec<(i64, Row)> {
            seen.iter().filter(|(key, row)| of.passes(**key, **row)).map(|(key, row)| (*key, *row)).collect()
        };
        match statement {
            Statement::Select(condition) => {
                of.reads.push(condition);
                Some(Gives::Rows(passing(condition).into_iter().map(|(key, row)| (key, row.value)).collect()))
            }
            Statement::Update(condition, _) | Statement::Delete(condition) => {
                of.reads.push(condition);
                let found = passing(condition);
                let is_held = found.iter().any(|(key, _)| self.is_held(session, *key));
                let is_changed = |(key, _): &(i64, Row)| {
                    !of.own.contains_key(key) && !is_same(seen.get(key), self.committed.get(key))
                };
                let is_other =
                    |(key, row): &(i64, Row)| self.committed.get(key).is_none_or(|now| now.value != row.value);
                match (is_held, found.iter().any(is_changed)) {
                    // Which row it comes to first is nobody's business.
                    (true, true) => return None,
                    // Rows that a merge has moved are found by their keys: one of the same value is as good.
                    (false, true) if self.is_merging && !found.iter().any(is_other) => return None,
                    (true, false) => return Some(Gives::Waits),
                    (false, true) => return Some(Gives::Serialization),
                    (false, false) => {}
                }
                for (key, row) in &found {
                    let new = match statement {
                        Statement::Update(_, by) => Some(Row { value: (row.value + by) % VALUES, stamp: self.stamp() }),
                        _ => None,
                    };
                    of.own.insert(*key, new);
                }
                Some(Gives::Written(found.len()))
            }
            Statement::Insert(key, value) | Statement::Upsert(key, value) => {
                let is_upsert = matches!(statement, Statement::Upsert(..));
                let is_own = of.own.contains_key(&key);
                if !is_own && self.is_held(session, key) {
                    // Of a row that another is about to change PostgreSQL waits to say that its key is taken.
                    return (!seen.contains_key(&key) && !self.committed.contains_key(&key)).then_some(Gives::Waits);
                }
                let is_changed = !is_own && !is_same(seen.get(&key), self.committed.get(&key));
                match (seen.get(&key), is_changed) {
                    // Others have taken it away, and it is seen: PostgreSQL gives it twice.
                    (Some(_), true) => return None,
                    (None, true) => return Some(Gives::Serialization),
                    (Some(_), false) if !is_upsert => return Some(Gives::Duplicate),
                    // What it makes of the row that is there, all of the table is read for.
                    (Some(_), false) => of.reads.push(Where::Key(key)),
                    (None, false) => {}
                }
                let stamp = self.stamp();
                of.own.insert(key, Some(Row { value, stamp }));
                Some(Gives::Written(1))
            }
            _ => None,
        }
    }
}

/// What the database does with a statement.
fn run(session: &Session, statement: Statement) -> Gives {
    let sql = statement.to_string();
    let gives = session.query(&sql).and_then(|rows| rows.collect_all());
    match gives {
        Ok(batches) => match statement {
            Statement::Select(_) => {
                let mut rows: Vec<(i64, i64)> = batches
                    .iter()
                    .flat_map(|batch| {
                        let column = |n: usize| batch.column(n).as_primitive::<Int64Type>().values().to_vec();
                        column(0).into_iter().zip(column(1)).collect::<Vec<_>>()
                    })
                    .collect();
                rows.sort_unstable();
                Gives::Rows(rows)
            }
            Statement::Update(..) | Statement::Delete(_) | Statement::Insert(..) | Statement::Upsert(..) => {
                Gives::Written(batches[0].column(0).as_primitive::<UInt64Type>().value(0) as usize)
            }
            _ => Gives::Done,
        },
        Err(Error::Serialization(_)) => Gives::Serialization,
        Err(Error::Cancelled) => Gives::Waits,
        Err(Error::Transaction(text)) if text.contains("has failed") => Gives::Refused,
        Err(error) if error.to_string().contains("would hold two rows with the key") => Gives::Duplicate,
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// The same, of one that is cancelled after a while.
fn cancelled(session: &Session, statement: Statement) -> Gives {
    let handle = session.cancel_handle();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(session, statement));
        std::thread::sleep(Duration::from_millis(40));
        while !running.is_finished() {
            handle.cancel();
            std::thread::sleep(Duration::from_millis(1));
        }
        running.join().unwrap()
    })
}

fn table(session: &Session) -> Vec<Vec<String>> {
    rows(session, "SELECT id, v FROM t ORDER BY id")
}

/// A run of so many statements. `is_merging`: merges move rows between statements, after which SERIALIZABLE knows less.
fn compare(database: &Database, seed: u64, statements: usize, is_merging: bool) {
    let mut random = Random::new(seed);
    let sessions: Vec<Session> = (0..SESSIONS).map(|_| database.session()).collect();
    let watcher = database.session();
    watcher.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let mut model = Model { sessions: (0..SESSIONS).map(|_| None).collect(), is_merging, ..Model::default() };
    let mut done: Vec<String> = Vec::new();
    for _ in 0..statements {
        let session = random.below(SESSIONS);
        let statement = Statement::drawn(&mut random, model.sessions[session].as_ref());
        let before = model.sessions.clone();
        let (committed, stamp) = (model.committed.clone(), model.stamp);
        let wanted = model.run(session, statement);
        // To wait takes time, and a statement that nobody knows the outcome of is none.
        let is_left_out = wanted.is_none() || (wanted == Some(Gives::Waits) && random.below(8) > 0);
        let Some(wanted) = wanted.filter(|_| !is_left_out) else {
            (model.sessions, model.committed, model.stamp) = (before, committed, stamp);
            continue;
        };
        done.push(format!("{session}: {statement} -- {wanted:?}"));
        if is_merging && random.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
        let found = match wanted {
            Gives::Waits => cancelled(&sessions[session], statement),
            _ => run(&sessions[session], statement),
        };
        let is_alike = found == wanted || {
            // Rows that were moved are not compared with conditions: any change of the table counts.
            let of = before[session].as_ref();
            is_merging
                && statement == Statement::Commit
                && found == Gives::Serialization
                && of.is_some_and(|of| {
                    of.level == Level::Serializable && of.has_read_otherwise(&[Where::All], &committed)
                })
        };
        let last = || done[done.len().saturating_sub(60)..].join("\n");
        assert!(is_alike, "seed {seed}: {found:?} in place of {wanted:?} after\n{}", last());
        if found != wanted {
            model.committed = committed;
        }
        let expected: Vec<Vec<String>> =
            model.committed.iter().map(|(key, row)| vec![key.to_string(), row.value.to_string()]).collect();
        assert_eq!(table(&watcher), expected, "seed {seed}, after\n{}", last());
    }
}

/// More of them with NEARSIDE_MODEL_RUNS.
fn seeds(first: u64) -> std::ops::Range<u64> {
    let runs = std::env::var("NEARSIDE_MODEL_RUNS").ok().and_then(|text| text.parse().ok());
    first..first + runs.unwrap_or(8)
}

#[test]
fn transactions_do_what_a_plain_model_does() {
    let database = database();
    database.session().execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    for seed in seeds(0) {
        compare(&database, seed, 250, false);
    }
}

#[test]
fn transactions_do_what_a_plain_model_does_beside_merges() {
    let database = database();
    database.session().execute("ALTER SYSTEM SET nearside.merge_idle_ms = 1").unwrap();
    for seed in seeds(1000) {
        compare(&database, seed, 250, true);
    }
}
