//! Foreign keys and sequences while others write, and after a folder was opened again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nearside::{Database, Session, SqlState};
use random::Random;

use crate::read::{database, number};
use crate::transactions::{run, until_one_waits};

const FAMILY: &str = "CREATE TABLE parent (id BIGINT PRIMARY KEY, n BIGINT);
    CREATE TABLE child (id BIGINT PRIMARY KEY, of BIGINT REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE,
      kept BIGINT REFERENCES parent (id))";

fn code(session: &Session, sql: &str) -> Option<SqlState> {
    session.execute(sql).err().map(|error| error.code())
}

/// Rows that refer to what is not there.
fn orphans(session: &Session) -> i64 {
    number(
        session,
        "SELECT count(*) FROM child WHERE (of IS NOT NULL AND of NOT IN (SELECT id FROM parent)) \
         OR (kept IS NOT NULL AND kept NOT IN (SELECT id FROM parent))",
    )
}

#[test]
fn who_takes_a_key_away_waits_for_who_refers_to_it() {
    let database = database();
    let (own, other) = (database.session(), database.session());
    run(&own, &format!("{FAMILY}; INSERT INTO parent VALUES (1, 1), (2, 2)"));
    run(&own, "BEGIN; INSERT INTO child VALUES (1, NULL, 1)");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| code(&other, "DELETE FROM parent WHERE id = 1"));
        until_one_waits(&database);
        run(&own, "COMMIT");
        assert_eq!(waiting.join().unwrap(), Some(SqlState::ForeignKeyViolation));
    });
    run(&own, "BEGIN; DELETE FROM parent WHERE id = 2");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| code(&other, "INSERT INTO child VALUES (2, 2, NULL)"));
        until_one_waits(&database);
        run(&own, "COMMIT");
        assert_eq!(waiting.join().unwrap(), Some(SqlState::ForeignKeyViolation));
    });
    assert_eq!(orphans(&own), 0);
}

/// A transaction of one snapshot does not see the row that was written since, and must not leave it without its key.
#[test]
fn a_key_of_an_old_snapshot_is_not_taken_from_rows_that_came_since() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let database = database();
        let (own, other) = (database.session(), database.session());
        run(&own, &format!("{FAMILY}; INSERT INTO parent VALUES (1, 1), (2, 2)"));
        run(&own, &format!("BEGIN ISOLATION LEVEL {level}; SELECT * FROM parent"));
        run(&other, "INSERT INTO child VALUES (1, NULL, 1)");
        let deleted = code(&own, "DELETE FROM parent WHERE id = 1");
        let committed = code(&own, "COMMIT");
        assert!(deleted.or(committed).is_some(), "{level}");
        run(&own, "ROLLBACK");
        assert_eq!(orphans(&own), 0, "{level}");
    }
}

#[test]
fn no_row_is_left_without_what_it_refers_to_while_all_write() {
    const PARENTS: usize = 12;
    let database = database();
    let session = database.session();
    run(&session, &format!("{FAMILY}; INSERT INTO parent SELECT value, 0 FROM generate_series(1, {PARENTS})"));
    let done = AtomicUsize::new(0);
    let write = |seed: u64| {
        let session = database.session();
        let mut random = Random::new(seed);
        for step in 0..60_u64 {
            let (parent, other) = (random.below(PARENTS) + 1, random.below(PARENTS) + 1);
            let id = seed * 1000 + step;
            let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][random.below(3)];
            let statement = match random.below(7) {
                0 => format!("DELETE FROM parent WHERE id = {parent}"),
                1 => format!("INSERT INTO parent VALUES ({parent}, {step}) ON CONFLICT (id) DO UPDATE SET n = {step}"),
                2 => format!("INSERT INTO child VALUES ({id}, {parent}, {other})"),
                3 => format!("INSERT INTO child VALUES ({id}, {parent}, NULL)"),
                4 => format!("UPDATE child SET of = {parent} WHERE id % 7 = {}", random.below(7)),
                5 => format!("DELETE FROM child WHERE id % 5 = {}", random.below(5)),
                _ => format!("UPDATE parent SET id = {parent} WHERE id = {other}"),
            };
            let sql = match random.below(3) {
                0 => format!("BEGIN ISOLATION LEVEL {level}; {statement}; COMMIT"),
                _ => statement,
            };
            match session.execute(&sql) {
                Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    let expected = [
                        SqlState::ForeignKeyViolation,
                        SqlState::UniqueViolation,
                        SqlState::SerializationFailure,
                        SqlState::DeadlockDetected,
                    ];
                    assert!(expected.contains(&error.code()), "{sql}: {error}");
                    if sql.starts_with("BEGIN") {
                        run(&session, "ROLLBACK");
                    }
                    0
                }
            };
            assert_eq!(orphans(&session), 0, "behind {sql}");
        }
    };
    std::thread::scope(|scope| {
        (1..=3).for_each(|seed| {
            scope.spawn(move || write(seed));
        })
    });
    assert!(done.load(Ordering::Relaxed) > 30, "{done:?}");
}

#[test]
fn each_value_of_a_sequence_is_given_once() {
    let database = database();
    run(&database.session(), "CREATE TABLE t (id BIGSERIAL PRIMARY KEY, by INT)");
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_i32 {
            let (database, failed) = (&database, &failed);
            scope.spawn(move || {
                let session = database.session();
                let insert = session.prepare("INSERT INTO t (by) VALUES ($1)").unwrap();
                for step in 0..300 {
                    let done = match step % 3 {
                        0 => insert.run(&[thread.into()]).map(drop),
                        1 => session.execute(&format!("INSERT INTO t (by) VALUES ({thread}), ({thread})")).map(drop),
                        _ => session.query("SELECT nextval('t_id_seq')").and_then(|rows| rows.collect_all()).map(drop),
                    };
                    failed.fetch_or(done.is_err(), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(!failed.into_inner());
    let session = database.session();
    assert_eq!(number(&session, "SELECT count(DISTINCT id) FROM t"), 900);
    assert_eq!(number(&session, "SELECT last_value FROM t_id_seq"), 1200);
}

#[test]
fn what_rows_keep_is_kept_by_folders() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Database::builder().threads(2).memory_bytes(1 << 30).folder(folder.path()).build().unwrap();
    let made = "CREATE TABLE parent (id INT GENERATED ALWAYS AS IDENTITY (START 5) PRIMARY KEY,
          a INT CONSTRAINT positive CHECK (a > 0), twice INT GENERATED ALWAYS AS (a * 2) STORED);
        CREATE TABLE child (of INT REFERENCES parent ON DELETE CASCADE);
        CREATE SEQUENCE apart START WITH 100;
        INSERT INTO parent (a) VALUES (1), (2); INSERT INTO child VALUES (5), (6);
        SELECT nextval('apart'); SET nearside.placement = 'rr'";
    run(&open().session(), made);
    let mut given = BTreeSet::new();
    for (time, checkpoint) in [true, false, true].into_iter().enumerate() {
        let database = open();
        let session = database.session();
        assert_eq!(code(&session, "INSERT INTO parent (a) VALUES (0)"), Some(SqlState::CheckViolation));
        assert_eq!(code(&session, "INSERT INTO parent (id, a) VALUES (1, 1)"), Some(SqlState::GeneratedAlways));
        assert_eq!(code(&session, "INSERT INTO child VALUES (1000)"), Some(SqlState::ForeignKeyViolation));
        run(&session, "INSERT INTO parent (a) VALUES (21)");
        assert_eq!(number(&session, "SELECT twice::BIGINT FROM parent ORDER BY id DESC LIMIT 1"), 42);
        assert!(given.insert(number(&session, "SELECT nextval('apart')")), "{time}");
        if checkpoint {
            run(&session, "CHECKPOINT");
            assert!(given.insert(number(&session, "SELECT nextval('apart')")), "{time}");
        }
    }
    // A folder that was closed in order leaves no value out.
    assert_eq!(given.iter().copied().collect::<Vec<_>>(), [101, 102, 103, 104, 105]);
    let database = open();
    let session = database.session();
    run(&session, "DELETE FROM parent WHERE id = 5");
    assert_eq!(number(&session, "SELECT count(*) FROM child"), 1);
    assert_eq!(number(&session, "SELECT count(DISTINCT id) FROM parent"), 4);
}
