//! Merges of small writes beside the statements that go on: no row is lost or there twice, no key is there twice, and
//! nobody waits for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use nearside::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use nearside::{Database, ScalarValue, Session};
use random::Random;

use crate::read::{database, number, rows};

/// Asks a query of one truth value until it holds.
pub fn until(session: &Session, sql: &str) {
    let begin = Instant::now();
    loop {
        let batches = session.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).collect_all().unwrap();
        let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap_or_else(|| panic!("{sql}: no row"));
        let value = batch.column(0).as_boolean();
        if value.value(0) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "never: {sql}; {:?}", rows(session, ALL));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that others may end, also where a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const ALL: &str = "SELECT * FROM nearside.deltas";

fn idle_after(session: &Session, ms: u64) {
    session.execute(&format!("ALTER SYSTEM SET nearside.merge_idle_ms = {ms}")).unwrap();
}

fn pairs(rows: &[(i64, i64)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap()
}

/// Writers move amounts between their own rows, others write many rows at once, and every scan finds the same sum.
#[test]
fn sums_hold_in_every_scan_while_deltas_are_merged() {
    const ROWS: i64 = 3000;
    const WRITERS: i64 = 2;
    let database = database();
    let session = database.session();
    idle_after(&session, 1);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let all = format!("INSERT INTO t SELECT value, 100 FROM generate_series(0, {})", WRITERS * ROWS - 1);
    session.execute(&all).unwrap();
    let is_done = AtomicBool::new(false);
    let is_done = &is_done;
    let models: Vec<BTreeMap<i64, i64>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let table = database.keyed("t").unwrap();
                scope.spawn(move || {
                    let mut random = Random::new(writer as u64 + 3);
                    let first = writer * ROWS;
                    let mut model: BTreeMap<i64, i64> = (first..first + ROWS).map(|key| (key, 100)).collect();
                    for round in 0..110 {
                        let mut batch = BTreeMap::new();
                        for _ in 0..random.pick(&[1, 30, 500]) {
                            let (from, to) = (first + random.between(0, ROWS - 1), first + random.between(0, ROWS - 1));
                            let amount = random.between(1, 9);
                            for (key, by) in [(from, -amount), (to, amount)] {
                                *model.get_mut(&key).unwrap() += by;
                                batch.insert(key, model[&key]);
                            }
                        }
                        let batch: Vec<_> = batch.into_iter().collect();
                        assert_eq!(table.upsert(&pairs(&batch)).unwrap(), batch.len() as u64);
                        // Rows die in whatever they are by now, and come again.
                        if round % 10 == 0 {
                            let key = first + random.between(0, ROWS - 1);
                            let found = table.lookup(&[key][..]).unwrap();
                            let value = found.rows.column(1).as_primitive::<nearside::arrow::datatypes::Int64Type>();
                            assert_eq!(value.value(0), model[&key]);
                        }
                        if round % 25 == 24 {
                            std::thread::sleep(Duration::from_millis(15));
                        }
                    }
                    model
                })
            })
            .collect();
        let (many, reader) = (database.session(), database.session());
        let others = scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                let insert = "INSERT INTO t SELECT 1000000 + value, 0 FROM generate_series(1, 3000)";
                many.execute(insert).unwrap();
                many.execute("DELETE FROM t WHERE k > 1000000").unwrap();
                std::thread::sleep(Duration::from_millis(60));
            }
        });
        let reading = scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(number(&reader, "SELECT sum(v)::BIGINT FROM t"), 100 * WRITERS * ROWS);
                assert_eq!(number(&reader, "SELECT count(*) FROM t WHERE k < 1000000"), WRITERS * ROWS);
                assert_eq!(number(&reader, "SELECT count(DISTINCT k) FROM t WHERE k < 1000000"), WRITERS * ROWS);
            }
        });
        let models = writers.into_iter().map(|writer| writer.join());
        let models: Vec<_> = models.collect();
        is_done.store(true, Ordering::Relaxed);
        others.join().unwrap();
        reading.join().unwrap();
        models.into_iter().map(|model| model.unwrap()).collect()
    });
    let expected = || models.iter().flatten().map(|(k, v)| vec![k.to_string(), v.to_string()]).collect::<Vec<_>>();
    assert_eq!(rows(&session, "SELECT k, v FROM t ORDER BY k"), expected());
    session.execute("INSERT INTO t VALUES (-1, 0)").unwrap();
    session.execute("DELETE FROM t WHERE k = -1").unwrap();
    until(&session, "SELECT merges > 0 AND statements = 0 AND NOT merging FROM nearside.deltas");
    assert_eq!(rows(&session, "SELECT k, v FROM t ORDER BY k"), expected());
    assert_eq!(rows(&session, "SELECT last_failure FROM nearside.deltas"), [["NULL"]]);
}

/// Statements that change the table itself while it is written and merged.
#[test]
fn what_changes_a_table_meanwhile_loses_no_row() {
    let database = database();
    let session = database.session();
    idle_after(&session, 1);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let (is_done, written) = (AtomicBool::new(false), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let (is_done, written) = (&is_done, &written);
        let _ends = Ends(is_done);
        for writer in 0..2 {
            let database = database.clone();
            scope.spawn(move || {
                let session = database.session();
                let insert = session.prepare("INSERT INTO t (k, v) VALUES ($1, $2)").unwrap();
                let mut key = writer;
                while !is_done.load(Ordering::Relaxed) {
                    let values = [ScalarValue::Int64(Some(key)), ScalarValue::Int64(Some(1))];
                    insert.run(&values).unwrap();
                    key += 2;
                    written.fetch_add(1, Ordering::Relaxed);
                    // It is there already, wherever it lies by now.
                    if key % 50 < 2 {
                        let error = insert.run(&values).map(|_| ()).unwrap_err().to_string();
                        assert!(error.contains("two rows with the key"), "{error}");
                    }
                    if key % 200 < 2 {
                        std::thread::sleep(Duration::from_millis(4));
                    }
                }
            });
        }
        for round in 0..6 {
            for change in [
                "ALTER TABLE t ADD COLUMN extra INT",
                "CREATE INDEX i ON t (v)",
                "ALTER TABLE t SET PLACEMENT 'rr'",
                "DROP INDEX i",
                "ALTER TABLE t DROP COLUMN extra",
            ] {
                session.execute(change).unwrap_or_else(|error| panic!("{round}, {change}: {error}"));
                std::thread::sleep(Duration::from_millis(7));
                let found = rows(&session, "SELECT count(*) = count(DISTINCT k), count(*) = count(v) FROM t");
                assert_eq!(found, [["true", "true"]], "{change}");
            }
        }
    });
    assert_eq!(number(&session, "SELECT count(*) FROM t"), written.load(Ordering::Relaxed));
    assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), written.load(Ordering::Relaxed));
}

#[test]
fn tables_go_while_they_are_merged() {
    let database = database();
    let session = database.session();
    idle_after(&session, 1);
    for round in 0..12 {
        session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
        let table = database.keyed("t").unwrap();
        for first in (0..36_000).step_by(2000) {
            table.upsert(&pairs(&(first..first + 2000).map(|key| (key, round)).collect::<Vec<_>>())).unwrap();
        }
        match round % 3 {
            0 => {}
            1 => {
                session.execute("TRUNCATE t").unwrap();
                assert_eq!(number(&session, "SELECT count(*) FROM t"), 0);
                table.upsert(&pairs(&[(7, 1)])).unwrap();
                assert_eq!(number(&session, "SELECT count(*) FROM t"), 1);
                until(&session, "SELECT statements = 0 AND NOT merging FROM nearside.deltas");
                assert_eq!(rows(&session, "SELECT k, v FROM t"), [["7", "1"]]);
            }
            _ => {
                session.execute("CREATE OR REPLACE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(number(&session, "SELECT count(*) FROM t"), 0);
            }
        }
        session.execute("DROP TABLE t").unwrap();
        assert_eq!(rows(&session, ALL), Vec::<Vec<String>>::new());
    }
}

/// Keys of rows that were merged, that are being merged and that came meanwhile: each is there once.
#[test]
fn keys_are_refused_across_merges() {
    let database = database();
    let session = database.session();
    idle_after(&session, 1);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT UNIQUE)").unwrap();
    let table = database.keyed("t").unwrap();
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
    let mut random = Random::new(11);
    let mut next = 0;
    for round in 0..60 {
        let count = random.pick(&[1, 200, 1800]);
        table.upsert(&pairs(&(next..next + count).map(|key| (key, -key)).collect::<Vec<_>>())).unwrap();
        next += count;
        if round % 7 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..4 {
            let key = random.between(0, next - 1);
            let number = |value| ScalarValue::Int64(Some(value));
            for values in [[number(key), number(1)], [number(next + 5), number(-key)]] {
                let error = insert.run(&values).map(|_| ()).unwrap_err().to_string();
                assert!(error.contains("two rows with the key"), "{error}");
            }
        }
        // A row of before goes, and its keys are free.
        let key = random.between(0, next - 1);
        assert_eq!(table.delete(&[key][..]).unwrap(), 1);
        insert.run(&[ScalarValue::Int64(Some(key)), ScalarValue::Int64(Some(-key))]).unwrap();
        assert_eq!(number(&session, "SELECT count(*) FROM t"), next);
    }
    until(&session, "SELECT merges > 0 AND statements = 0 AND NOT merging AND NOT compacting FROM nearside.deltas");
    assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), next);
    assert_eq!(number(&session, "SELECT count(DISTINCT v) FROM t"), next);
    assert_eq!(number(&session, "SELECT sum(k + v)::BIGINT FROM t"), 0);
    // It has few segments: those of each merge were compacted.
    let segments = number(&session, "SELECT max(segments) FROM nearside.columns WHERE \"table\" = 't'");
    assert!(segments < 20, "{segments}");
}

/// What cannot be merged for want of memory stays as it is, and is merged when there is some.
#[test]
fn a_merge_without_memory_changes_nothing() {
    let database = Database::builder().threads(2).memory_bytes(24 << 20).build().unwrap();
    let session = database.session();
    idle_after(&session, 1);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)").unwrap();
    session.execute("CREATE TABLE filler (v TEXT)").unwrap();
    session.execute("SET nearside.small_writes = false").unwrap();
    let fill = |first: i64| {
        format!("INSERT INTO filler SELECT repeat(md5(({first} + value)::TEXT), 200) FROM generate_series(1, 100)")
    };
    let filled = (0..100_000).step_by(100).find(|first| session.execute(&fill(*first)).is_err());
    assert!(filled.is_some(), "the budget never fills");
    session.execute("SET nearside.small_writes = true").unwrap();
    let mut held = 0;
    for round in 0..200 {
        let sql = format!("INSERT INTO t SELECT {held} + value, md5(value::TEXT) FROM generate_series(1, 50)");
        held += if session.execute(&sql).is_ok() { 50 } else { 0 };
        if round % 20 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    session.execute("DROP TABLE filler").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM t"), held);
    session.execute("INSERT INTO t VALUES (-1, 'x')").unwrap();
    until(&session, "SELECT count(*) = 1 AND sum(statements) = 0 FROM nearside.deltas WHERE NOT merging");
    assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), held + 1);
}

/// Nobody waits for merges, nor they for anybody, when a database goes.
#[test]
fn a_database_goes_while_it_merges() {
    for round in 0..8 {
        let database = Database::builder().threads(1 + round % 2).memory_bytes(1 << 28).build().unwrap();
        let session = database.session();
        idle_after(&session, 1);
        session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
        let table = database.keyed("t").unwrap();
        for first in (0..34_000 + 9000 * round as i64).step_by(2000) {
            table.upsert(&pairs(&(first..first + 2000).map(|key| (key, 1)).collect::<Vec<_>>())).unwrap();
        }
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

/// Queries have the one worker all the time, so that merges have none: who writes does not write more than it merges.
#[test]
fn who_writes_merges_where_the_workers_do_not() {
    let database = Database::builder().threads(1).memory_bytes(1 << 30).build().unwrap();
    let session = database.session();
    idle_after(&session, 0);
    session.execute("CREATE TABLE big AS SELECT value AS v FROM generate_series(1, 400000)").unwrap();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&is_done);
        for _ in 0..3 {
            let (reader, is_done) = (database.session(), &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    assert_eq!(number(&reader, "SELECT count(*) FROM big WHERE v % 7 = 3"), 57_143);
                }
            });
        }
        let table = database.keyed("t").unwrap();
        for round in 0..70 {
            let first = round * 2000;
            table.upsert(&pairs(&(first..first + 2000).map(|key| (key, 1)).collect::<Vec<_>>())).unwrap();
            if round % 7 == 6 {
                let rows = number(&session, "SELECT coalesce(max(rows), 0)::BIGINT FROM nearside.deltas");
                assert!(rows <= 2 * 32_768, "{rows} rows after {round} batches");
            }
        }
    });
    assert!(number(&session, "SELECT merges FROM nearside.deltas") > 0);
    assert_eq!(rows(&session, "SELECT count(*), count(DISTINCT k), sum(v) FROM t"), [["140000", "140000", "140000"]]);
}

/// What a delta lets die in the base takes memory too, and is merged in time.
#[test]
fn many_deletes_by_key_are_merged_before_memory_is_full() {
    const ROWS: i64 = 300_000;
    let database = Database::builder().threads(2).memory_bytes(24 << 20).build().unwrap();
    let session = database.session();
    idle_after(&session, 3_600_000);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    session.execute(&format!("INSERT INTO t SELECT value, value % 10 FROM generate_series(1, {ROWS})")).unwrap();
    let table = database.keyed("t").unwrap();
    let keys: Vec<i64> = (1..=ROWS - 1000).collect();
    for keys in keys.chunks(2000) {
        assert_eq!(table.delete(keys).unwrap(), keys.len() as u64);
    }
    assert!(number(&session, "SELECT merges FROM nearside.deltas") > 0);
    assert_eq!(rows(&session, "SELECT count(*), min(k) FROM t"), [["1000".to_string(), (ROWS - 999).to_string()]]);
}

/// A slice is as large as its rows, whatever else its batch has.
#[test]
fn slices_of_a_large_batch_are_small_writes() {
    let database = Database::builder().threads(2).memory_bytes(128 << 20).build().unwrap();
    let session = database.session();
    idle_after(&session, 3_600_000);
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let table = database.keyed("t").unwrap();
    let all = pairs(&(0..2_500_000).map(|key| (key, 1)).collect::<Vec<_>>());
    for slice in 0..200 {
        table.upsert(&all.slice(slice * 10_000, 10)).unwrap();
    }
    let deltas = "SELECT statements, rows, bytes < 1000000, merges FROM nearside.deltas";
    assert_eq!(rows(&session, deltas), [["200", "2000", "true", "0"]]);
    assert_eq!(number(&session, "SELECT sum(k)::BIGINT FROM t"), (0..200).map(|n| 100_000 * n + 45).sum::<i64>());
}
