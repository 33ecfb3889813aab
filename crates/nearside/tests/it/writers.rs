//! Several writers of one table at the same time: what they do to the same rows and keys, they do as if one after the
//! other, beside merges and readers; nothing is lost and no statement is told of a conflict.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nearside::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use nearside::arrow::datatypes::Int64Type;
use nearside::{Database, Outcome, Prepared, ScalarValue, Session};
use random::Random;

use crate::read::{database, number};

const WRITERS: u64 = 6;

fn long(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

/// How many rows a prepared statement has changed, or what it says.
fn changed(statement: &Prepared, values: &[ScalarValue]) -> Result<u64, String> {
    match statement.run(values).map_err(|error| error.to_string())? {
        Outcome::Done(done) => Ok(done.rows.unwrap_or(0)),
        Outcome::Rows(_) => panic!("a write gave rows"),
    }
}

/// A database whose idle tables are merged at once, with a session.
fn merging(create: &str) -> (Database, Session) {
    let database = database();
    let session = database.session();
    session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 1").unwrap();
    session.execute(create).unwrap();
    (database, session)
}

/// Runs `write` on several threads, each with a session, a random source and its number, and `read` beside them until
/// all have ended.
fn beside(database: &Database, write: impl Fn(&Session, &mut Random, u64) + Sync, read: impl Fn(&Session) + Sync) {
    let (writing, ended) = (AtomicU64::new(WRITERS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (write, writing, ended) = (&write, &writing, &ended);
            scope.spawn(move || {
                struct Ends<'a>(&'a AtomicU64, &'a AtomicBool);
                impl Drop for Ends<'_> {
                    fn drop(&mut self) {
                        let was_last = self.0.fetch_sub(1, Ordering::SeqCst) == 1;
                        self.1.fetch_or(was_last, Ordering::SeqCst);
                    }
                }
                let _ends = Ends(writing, ended);
                write(&database.session(), &mut Random::new(writer), writer);
            });
        }
        let session = database.session();
        while !ended.load(Ordering::SeqCst) {
            read(&session);
        }
    });
}

#[test]
fn counters_count_everything() {
    const KEYS: i64 = 5;
    let (database, session) = merging("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, s TEXT)");
    let seen = AtomicU64::new(0);
    let write = |session: &Session, random: &mut Random, _: u64| {
        let upsert = "INSERT INTO t VALUES ($1, 1, 'new') ON CONFLICT (k) DO UPDATE SET v = t.v + 1";
        let upsert = session.prepare(upsert).unwrap();
        let update = session.prepare("UPDATE t SET v = v + 1, s = 'changed' WHERE k = $1").unwrap();
        for step in 0..400 {
            let key = long(random.below(KEYS as usize) as i64);
            // What is not there yet no UPDATE changes: then it is an upsert.
            match step % 2 {
                0 if changed(&update, std::slice::from_ref(&key)).unwrap() == 1 => {}
                _ => assert_eq!(changed(&upsert, &[key]), Ok(1)),
            }
            if random.one_in(100) {
                session.execute("UPDATE t SET s = 'all of them'").unwrap();
            }
        }
    };
    let read = |session: &Session| {
        let sum = number(session, "SELECT coalesce(sum(v), 0)::BIGINT FROM t") as u64;
        assert!(seen.fetch_max(sum, Ordering::SeqCst) <= sum, "a sum went down to {sum}");
    };
    beside(&database, write, read);
    assert_eq!(number(&session, "SELECT sum(v)::BIGINT FROM t"), 400 * WRITERS as i64);
    assert_eq!(number(&session, "SELECT count(*) FROM t"), KEYS);
}

#[test]
fn a_key_is_inserted_once_and_deleted_once() {
    const KEYS: i64 = 700;
    let (database, session) = merging("CREATE TABLE t (k BIGINT PRIMARY KEY, by BIGINT)");
    let (inserted, deleted) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = |session: &Session, _: &mut Random, writer: u64| {
        let insert = session.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
        for key in 0..KEYS {
            match changed(&insert, &[long(key), long(writer as i64)]) {
                Ok(count) => {
                    inserted.fetch_add(count, Ordering::SeqCst);
                }
                Err(text) => assert!(text.contains(&format!("(k) = ({key})")), "{text}"),
            }
        }
        let delete = session.prepare("DELETE FROM t WHERE k = $1").unwrap();
        for key in (0..KEYS).filter(|key| key % 2 == 0) {
            deleted.fetch_add(changed(&delete, &[long(key)]).unwrap(), Ordering::SeqCst);
        }
    };
    beside(&database, write, |session| {
        let twice = "SELECT count(*) FROM (SELECT k FROM t GROUP BY k HAVING count(*) > 1) AS twice";
        assert_eq!(number(session, twice), 0);
    });
    let ends = (inserted.into_inner() as i64, deleted.into_inner() as i64);
    // Keys that one thread had deleted another one may have inserted again.
    assert_eq!(number(&session, "SELECT count(*) FROM t"), ends.0 - ends.1);
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE k % 2 = 1"), KEYS / 2);
    assert!(ends.0 >= KEYS && ends.1 >= KEYS / 2, "{ends:?}");
}

/// Rows take values of a second unique column from each other.
#[test]
fn another_unique_column_stays_unique() {
    let create = "CREATE TABLE t (k BIGINT PRIMARY KEY, seat BIGINT UNIQUE, n BIGINT)";
    // Rows stay where they are, and go from part to part with their seat.
    for placement in ["rr", "pp(3, hash(seat))"] {
        take_seats(&format!("{create} WITH (placement = '{placement}')"));
    }
}

fn take_seats(create: &str) {
    const ROWS: i64 = 12;
    const SEATS: i64 = 16;
    let (database, session) = merging(create);
    let rows: Vec<String> = (0..ROWS).map(|row| format!("({row}, {row}, 0)")).collect();
    session.execute(&format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    let moved = AtomicU64::new(0);
    let write = |session: &Session, random: &mut Random, _: u64| {
        let update = session.prepare("UPDATE t SET seat = $2, n = n + 1 WHERE k = $1").unwrap();
        for _ in 0..400 {
            let (row, seat) = (random.below(ROWS as usize) as i64, random.below(SEATS as usize) as i64);
            match changed(&update, &[long(row), long(seat)]) {
                Ok(count) => {
                    moved.fetch_add(count, Ordering::SeqCst);
                }
                Err(text) => assert!(text.contains(&format!("(seat) = ({seat})")), "{text}"),
            }
        }
    };
    beside(&database, write, |session| {
        assert_eq!(number(session, "SELECT count(*) * 100 + count(DISTINCT seat) FROM t"), ROWS * 101);
    });
    assert_eq!(number(&session, "SELECT sum(n)::BIGINT FROM t"), moved.into_inner() as i64);
}

/// Batches by key that overlap: a reader finds each one whole.
#[test]
fn batches_are_seen_whole() {
    for placement in ["rr", "pp(3, hash(k))", "pp(4, hash(tag))", "units"] {
        batches_are_whole(&format!(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, tag BIGINT) WITH (placement = '{placement}')"
        ));
    }
}

fn batches_are_whole(create: &str) {
    const GROUPS: usize = 4;
    const ROWS: i64 = 40;
    let (database, session) = merging(create);
    let tags = AtomicU64::new(0);
    let keys = |group: usize| (0..ROWS).map(|row| row * GROUPS as i64 + group as i64).collect::<Vec<i64>>();
    let write = |_: &Session, random: &mut Random, writer: u64| {
        let table = database.keyed("t").unwrap();
        for _ in 0..60 {
            let keys = keys(random.below(GROUPS));
            if writer == 0 && random.one_in(4) {
                table.delete(&keys[..]).unwrap();
                continue;
            }
            let tag = tags.fetch_add(1, Ordering::SeqCst) as i64;
            let columns: [ArrayRef; 2] =
                [Arc::new(Int64Array::from(keys.clone())), Arc::new(Int64Array::from(vec![tag; keys.len()]))];
            let [k, tag] = columns;
            assert_eq!(table.upsert(&RecordBatch::try_from_iter([("k", k), ("tag", tag)]).unwrap()).unwrap(), 40);
        }
    };
    let read = |session: &Session| {
        for group in 0..GROUPS {
            let found = database.keyed("t").unwrap().lookup(&keys(group)[..]).unwrap();
            let tags: BTreeSet<i64> =
                found.rows.column(1).as_primitive::<Int64Type>().values().iter().copied().collect();
            assert!(tags.len() <= 1 && [0, ROWS as usize].contains(&found.rows.num_rows()), "{tags:?}");
        }
        let torn = format!(
            "SELECT count(*) FROM (SELECT k % {GROUPS} FROM t GROUP BY k % {GROUPS} \
             HAVING count(*) <> {ROWS} OR min(tag) <> max(tag)) AS torn"
        );
        assert_eq!(number(session, &torn), 0);
    };
    beside(&database, write, read);
    assert_eq!(number(&session, &format!("SELECT count(*) % {ROWS} FROM t")), 0);
}

/// A statement that fails leaves no row in the delta's log, however often it does.
#[test]
fn what_fails_again_and_again_takes_no_memory() {
    let database = database();
    let session = database.session();
    session
        .execute("CREATE TABLE t (k BIGINT PRIMARY KEY, seat BIGINT UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2)")
        .unwrap();
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
    let update = session.prepare("UPDATE t SET seat = $2 WHERE k = $1").unwrap();
    let upsert = "INSERT INTO t VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET seat = $2";
    let upsert = session.prepare(upsert).unwrap();
    for _ in 0..500 {
        assert!(changed(&insert, &[long(1), long(7)]).unwrap_err().contains("(k) = (1)"));
        assert!(changed(&insert, &[long(7), long(2)]).unwrap_err().contains("(seat) = (2)"));
        assert!(changed(&update, &[long(1), long(2)]).unwrap_err().contains("(seat) = (2)"));
        assert!(changed(&upsert, &[long(2), long(1)]).unwrap_err().contains("(seat) = (1)"));
    }
    // None where they were merged meanwhile.
    assert!(number(&session, "SELECT coalesce(max(rows), 0)::BIGINT FROM nearside.deltas") <= 2);
    assert_eq!(number(&session, "SELECT sum(k * 10 + seat)::BIGINT FROM t"), 33);
}
