//! Databases on disks that lose, refuse and fail: what was acknowledged is there, what was refused never was.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use log_store::Files;
use log_store::sim::{Drawn, Failure, OnlySynced, SimFiles};
use parking_lot::Mutex;
use random::Random;

use super::open_in;
use crate::{Database, Error, Result, Session};

const PATH: &str = "db";

fn opened(files: &SimFiles) -> Result<Session> {
    let database = Database::builder().threads(2).memory_bytes(1 << 30).build()?;
    let session = database.session();
    let files: Arc<dyn Files> = Arc::new(files.clone());
    open_in(&session.running().inner, &files, Path::new(PATH))?;
    Ok(session)
}

/// All rows of all tables, names of columns and views, indexes and placements, in an order of their own.
fn seen(session: &Session) -> String {
    let text = |sql: &str| -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for batch in session.query(sql)? {
            let batch = batch?;
            let format = arrow::util::display::FormatOptions::default().with_null("NULL");
            let columns: Vec<_> = (batch.columns().iter())
                .map(|column| arrow::util::display::ArrayFormatter::try_new(column, &format).unwrap())
                .collect();
            for row in 0..batch.num_rows() {
                lines.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
            }
        }
        lines.sort();
        Ok(lines)
    };
    let mut all = text(
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM \
                        information_schema.columns WHERE table_schema = 'public'",
    )
    .unwrap();
    all.extend(text("SELECT \"table\", name, columns, \"unique\", origin FROM nearside.indexes").unwrap());
    all.extend(text("SELECT DISTINCT \"table\", \"column\", placement, parts FROM nearside.columns").unwrap());
    for name in ["a", "b", "renamed", "v", "other"] {
        match text(&format!("SELECT * FROM {name}")) {
            Ok(rows) => all.extend(rows.into_iter().map(|row| format!("{name}: {row}"))),
            Err(Error::NotFound { .. }) => all.push(format!("{name} is not there")),
            Err(other) => panic!("{name}: {other}"),
        }
    }
    all.join("\n")
}

/// A statement that may or may not work, or a transaction of several that is committed, rolled back, or partly so.
fn drawn(random: &mut Random) -> Vec<String> {
    if random.below(4) > 0 {
        return vec![one(random)];
    }
    let mut all = vec!["BEGIN".to_string()];
    all.extend((0..1 + random.below(4)).map(|_| one(random)));
    if random.below(3) == 0 {
        all.push("SAVEPOINT s".into());
        all.extend((0..1 + random.below(2)).map(|_| one(random)));
        all.push("ROLLBACK TO s".into());
    }
    all.push(if random.below(5) == 0 { "ROLLBACK" } else { "COMMIT" }.into());
    all
}

/// A statement that may or may not work.
fn one(random: &mut Random) -> String {
    let key = random.below(40);
    match random.below(22) {
        0 => "CREATE TABLE IF NOT EXISTS a (k BIGINT PRIMARY KEY, v TEXT DEFAULT 'none', d DECIMAL(12, 2))".into(),
        1 => "CREATE TABLE IF NOT EXISTS b (x INT NOT NULL, t TIMESTAMP, c VARCHAR(5)) WITH (placement = 'ivp')".into(),
        2 => "CREATE OR REPLACE VIEW v AS SELECT count(*) AS n FROM a".into(),
        3 => "DROP VIEW IF EXISTS v".into(),
        4 | 5 => format!("INSERT INTO a VALUES ({key}, 'one', {key}.25)"),
        6 | 7 => format!("INSERT INTO a (k) VALUES ({key}), ({}) ON CONFLICT (k) DO UPDATE SET v = 'again'", key + 50),
        8 => format!("UPDATE a SET v = v || '{}', d = d + 1 WHERE k % 7 = {}", key % 10, key % 7),
        9 => format!("DELETE FROM a WHERE k = {key}"),
        10 => format!(
            "INSERT INTO a SELECT value, 'many', value FROM generate_series({}, {})",
            1000 * key,
            1000 * key + 2500
        ),
        11 => format!("DELETE FROM a WHERE k >= {}", 1000 * key),
        12 => format!(
            "INSERT INTO b SELECT value, TIMESTAMP '2024-01-01', 'c' FROM generate_series(1, {})",
            1 + key * 100
        ),
        13 => "UPDATE b SET c = 'upd' WHERE x % 3 = 0".into(),
        14 => "TRUNCATE TABLE b".into(),
        15 => "CREATE INDEX IF NOT EXISTS by_v ON a (v)".into(),
        16 => "DROP INDEX IF EXISTS by_v".into(),
        17 => "ALTER TABLE b ADD COLUMN IF NOT EXISTS extra INT DEFAULT 7".into(),
        18 => "ALTER TABLE b SET PLACEMENT 'pp(2, hash(x))'".into(),
        19 => "CHECKPOINT".into(),
        20 => format!("DROP TABLE IF EXISTS {}", ["b", "renamed", "other"][key % 3]),
        _ => "ALTER TABLE b RENAME TO renamed".into(),
    }
}

/// The disk before some of the calls that change it, each with how many statements had ended by then.
type Moments = Vec<(SimFiles, usize)>;

/// Runs statements; what was seen after each, and some moments.
fn run(seed: u64, statements: usize, each: usize) -> (Vec<String>, Moments) {
    let (files, mut random) = (SimFiles::new(), Random::new(seed));
    let session = opened(&files).unwrap();
    let moments: Arc<Mutex<Moments>> = Arc::default();
    let ended = Arc::new(AtomicUsize::new(0));
    let (of_hook, known, mut calls) = (Arc::clone(&moments), Arc::clone(&ended), 0);
    files.before_changes(move |files| {
        calls += 1;
        if calls % each == 0 {
            of_hook.lock().push((files.copied(), known.load(Ordering::SeqCst)));
        }
    });
    let mut all = vec![seen(&session)];
    for statement in 0..statements {
        // Tables first, in which the others find something.
        let sql = match statement {
            0 => vec!["CREATE TABLE a (k BIGINT PRIMARY KEY, v TEXT DEFAULT 'none', d DECIMAL(12, 2))".to_string()],
            1 => vec!["CREATE TABLE b (x INT NOT NULL, t TIMESTAMP, c VARCHAR(5)) WITH (placement = 'ivp')".into()],
            _ => drawn(&mut random),
        };
        for sql in &sql {
            match session.execute(sql) {
                Ok(_) | Err(Error::NotFound { .. } | Error::Exists { .. } | Error::Execution(_)) => {}
                Err(Error::Plan { .. } | Error::Transaction(_)) => {}
                Err(other) => panic!("{sql}: {other}"),
            }
        }
        all.push(seen(&session));
        ended.fetch_add(1, Ordering::SeqCst);
    }
    files.before_changes(|_| {});
    let moments = std::mem::take(&mut *moments.lock());
    (all, moments)
}

#[test]
fn what_was_acknowledged_is_there_after_any_crash() {
    let mut looked = 0;
    for seed in 1..=3 {
        let (all, moments) = run(seed, 60, 6);
        for (number, (files, ended)) in moments.iter().enumerate() {
            let crashed = match number % 3 {
                0 => files.crashed(&mut OnlySynced),
                1 => files.killed(),
                _ => files.crashed(&mut Drawn::new(seed + number as u64)),
            };
            let found = seen(&opened(&crashed).unwrap_or_else(|e| panic!("seed {seed}, moment {number}: {e}")));
            let may_be = &all[*ended..all.len().min(ended + 2)];
            assert!(
                may_be.contains(&found),
                "seed {seed}, moment {number}, after {ended} statements:\n{found}\nis none of\n{}",
                may_be.join("\nor\n")
            );
            looked += 1;
        }
    }
    assert!(looked > 30, "{looked} moments");
}

#[test]
fn a_full_disk_refuses_statements_and_nothing_else() {
    let files = SimFiles::new();
    let session = opened(&files).unwrap();
    session.execute("CREATE TABLE a (k BIGINT PRIMARY KEY, v TEXT); INSERT INTO a VALUES (1, 'x')").unwrap();
    let before = seen(&session);
    files.set_room(Some(0));
    for sql in [
        "INSERT INTO a SELECT value, repeat('y', 100) || value FROM generate_series(10, 60000)",
        "CREATE TABLE other AS SELECT value FROM generate_series(1, 60000)",
    ] {
        let error = session.execute(sql).unwrap_err();
        assert!(matches!(&error, Error::Disk(text) if text.contains("no room on the disk")), "{error}");
    }
    assert_eq!(seen(&session), before);
    files.set_room(None);
    session.execute("INSERT INTO a SELECT value, 'y' FROM generate_series(10, 60000)").unwrap();
    let after = seen(&session);
    drop(session);
    assert_eq!(seen(&opened(&files.crashed(&mut OnlySynced)).unwrap()), after);
}

#[test]
fn a_disk_that_fails_ends_writing_and_reading_goes_on() {
    for call in 0..12 {
        let files = SimFiles::new();
        let session = opened(&files).unwrap();
        session.execute("CREATE TABLE a (k BIGINT PRIMARY KEY, v TEXT)").unwrap();
        files.fail_at(files.calls() + call, Failure::Disk);
        let mut acknowledged = 0;
        let mut failed = None;
        for key in 0..20 {
            match session.execute(&format!("INSERT INTO a VALUES ({key}, 'x')")) {
                Ok(_) => acknowledged += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let Some(error) = failed else { continue };
        assert!(matches!(&error, Error::Disk(text) if text.contains("nothing is written any more")), "{error}");
        let again = session.execute("INSERT INTO a VALUES (1000, 'x')").unwrap_err();
        assert!(matches!(again, Error::Disk(_)), "{again}");
        let rows = |session: &Session| {
            let batches = session.query("SELECT k FROM a").unwrap().collect_all().unwrap();
            batches.iter().map(|batch| batch.num_rows()).sum::<usize>()
        };
        assert!(rows(&session) >= acknowledged);
        drop(session);
        let found = rows(&opened(&files.crashed(&mut OnlySynced)).unwrap());
        assert!((acknowledged..=acknowledged + 1).contains(&found), "{found} of {acknowledged}");
    }
}
