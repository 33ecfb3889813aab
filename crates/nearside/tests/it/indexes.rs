//! Indexes from outside: keys against a model, readers beside CREATE INDEX, budgets, statements that stop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearside::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use nearside::arrow::datatypes::Int64Type;
use nearside::{Database, Error, LoadOptions, Session};
use proptest::prelude::*;

use crate::read::{database, rows};

fn numbers(session: &Session, sql: &str) -> Vec<i64> {
    let batches = session.query(sql).unwrap().collect_all().unwrap();
    let mut all: Vec<i64> =
        batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().iter().map(Option::unwrap)).collect();
    all.sort_unstable();
    all
}

fn one(session: &Session, sql: &str) -> i64 {
    numbers(session, sql)[0]
}

/// What is done to a table with the keys `id`, `(a, s)` and `f`.
#[derive(Debug, Clone)]
enum Operation {
    Insert(Vec<Row>),
    /// `a = a + n` where `id % modulus = 0`.
    Shift {
        n: i64,
        modulus: i64,
    },
    /// `id = id + n` for all.
    Renumber(i64),
    Delete {
        from: i64,
        to: i64,
    },
    Reindex,
}

type Row = (i64, Option<i64>, Option<u8>, Option<i8>);

fn row() -> impl Strategy<Value = Row> {
    let null = |strategy: BoxedStrategy<i64>| prop::option::weighted(0.8, strategy);
    let text = prop::option::weighted(0.8, 0..3_u8);
    (0..60_i64, null((0..6_i64).boxed()), text, prop::option::weighted(0.3, -20..20_i8))
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => prop::collection::vec(row(), 1..6).prop_map(Operation::Insert),
        1 => (-2..3_i64, 1..4_i64).prop_map(|(n, modulus)| Operation::Shift { n, modulus }),
        1 => (-3..4_i64).prop_map(Operation::Renumber),
        2 => (0..60_i64, 0..20_i64).prop_map(|(from, n)| Operation::Delete { from, to: from + n }),
        1 => Just(Operation::Reindex),
    ]
}

fn literal<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "NULL".to_string(), |v| v.to_string())
}

fn text(value: Option<u8>) -> String {
    value.map_or_else(
        || "NULL".to_string(),
        |v| format!("'{}'", "long enough to lie outside of a view ".repeat(v.into())),
    )
}

fn sql(operation: &Operation) -> String {
    match operation {
        Operation::Insert(rows) => {
            // Halves, so that zero and its negative are both met.
            let float = |f: Option<i8>| f.map_or_else(|| "NULL".to_string(), |f| format!("CAST({f} AS DOUBLE) * -0.5"));
            let rows = rows.iter().map(|(id, a, s, f)| format!("({id}, {}, {}, {})", literal(*a), text(*s), float(*f)));
            format!("INSERT INTO t VALUES {}", rows.collect::<Vec<_>>().join(", "))
        }
        Operation::Shift { n, modulus } => format!("UPDATE t SET a = a + {n} WHERE id % {modulus} = 0"),
        Operation::Renumber(n) => format!("UPDATE t SET id = id + {n}"),
        Operation::Delete { from, to } => format!("DELETE FROM t WHERE id BETWEEN {from} AND {to}"),
        Operation::Reindex => "DROP INDEX IF EXISTS i; CREATE INDEX i ON t (a)".to_string(),
    }
}

fn apply(operation: &Operation, rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    match operation {
        Operation::Insert(new) => rows.extend(new.iter().cloned()),
        Operation::Shift { n, modulus } => {
            rows.iter_mut().filter(|r| r.0 % modulus == 0).for_each(|r| r.1 = r.1.map(|a| a + n));
        }
        Operation::Renumber(n) => rows.iter_mut().for_each(|r| r.0 += n),
        Operation::Delete { from, to } => rows.retain(|r| !(*from..=*to).contains(&r.0)),
        Operation::Reindex => {}
    }
    rows
}

/// Whether the keys hold, the obvious way.
fn holds(rows: &[Row]) -> bool {
    let unique = |keys: Vec<String>| {
        let mut counts = BTreeMap::new();
        keys.into_iter().for_each(|key| *counts.entry(key).or_insert(0) += 1);
        counts.values().all(|&count| count == 1)
    };
    unique(rows.iter().map(|r| r.0.to_string()).collect())
        && unique(rows.iter().filter_map(|r| Some(format!("{} {}", r.1?, r.2?))).collect())
        && unique(rows.iter().filter_map(|r| r.3.map(|f| f.to_string())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn keys_hold_as_in_a_model(operations in prop::collection::vec(operation(), 1..40), parts in any::<bool>()) {
        let session = database().session();
        let placement = if parts { " WITH (placement = 'pp(3, hash(id))')" } else { "" };
        session
            .execute(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, s TEXT, f DOUBLE UNIQUE, UNIQUE (a, \
                s)){placement}"))
            .unwrap();
        let mut rows: Vec<Row> = Vec::new();
        for operation in &operations {
            let after = apply(operation, &rows);
            let outcome = session.execute(&sql(operation)).map(|_| ());
            match holds(&after) {
                true => {
                    prop_assert!(outcome.is_ok(), "{operation:?}: {outcome:?}");
                    rows = after;
                }
                false => {
                    let error = outcome.expect_err("a key is broken").to_string();
                    prop_assert!(error.contains("would hold two rows with the key"), "{error}");
                }
            }
        }
        let mut ids: Vec<i64> = rows.iter().map(|r| r.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(numbers(&session, "SELECT id FROM t"), ids);
        // With and without look-ups the same rows.
        for lookups in [true, false] {
            session.execute(&format!("SET nearside.index_lookups = {lookups}")).unwrap();
            for a in 0..6 {
                let mut expected: Vec<i64> = rows.iter().filter(|r| r.1 == Some(a)).map(|r| r.0).collect();
                expected.sort_unstable();
                prop_assert_eq!(numbers(&session, &format!("SELECT id FROM t WHERE a = {a}")), expected, "{}", lookups);
            }
            for id in [0, 7, 30] {
                let expected: Vec<i64> = rows.iter().map(|r| r.0).filter(|&i| i == id).collect();
                prop_assert_eq!(numbers(&session, &format!("SELECT id FROM t WHERE id = {id}")), expected);
            }
        }
    }
}

#[test]
fn readers_keep_what_they_started_with() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 500000)").unwrap();
    let mut rows = session.query("SELECT a FROM t WHERE a > 0").unwrap();
    let first = rows.next().unwrap().unwrap().num_rows();
    let writer = database.session();
    writer.execute("CREATE UNIQUE INDEX i ON t (a); DELETE FROM t WHERE a > 10; DROP INDEX i").unwrap();
    let rest: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(first + rest, 500_000);
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 10);
}

#[test]
fn of_many_writers_of_one_key_one_wins() {
    let database = database();
    database.session().execute("CREATE TABLE t (k BIGINT PRIMARY KEY, who BIGINT)").unwrap();
    let won = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for who in 0..4 {
            let session = database.session();
            let won = &won;
            scope.spawn(move || {
                for k in 0..25 {
                    match session.execute(&format!("INSERT INTO t VALUES ({k}, {who})")) {
                        Ok(_) => drop(won.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert!(error.to_string().contains("two rows with the key (k)"), "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(won.load(Ordering::Relaxed), 25);
    assert_eq!(numbers(&database.session(), "SELECT k FROM t"), (0..25).collect::<Vec<_>>());
}

#[test]
fn an_index_that_does_not_fit_leaves_everything_as_it_was() {
    let database = Database::builder().threads(2).memory_bytes(64 << 20).build().unwrap();
    let session = database.session();
    // Values that no dictionary pays for, in no order.
    session
        .execute("CREATE TABLE t AS SELECT value * 7919 % 1000003 * 1000000007 AS a FROM generate_series(1, 1000000)")
        .unwrap();
    let used = database.budget().used_bytes();
    let free = database.budget().available_bytes().unwrap();
    let held = database.budget().reserve(free - (1 << 20)).unwrap();
    let error = session.execute("CREATE INDEX i ON t (a)").unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
    assert_eq!(one(&session, "SELECT count(*) FROM nearside.indexes"), 0);
    drop(held);
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 1_000_000);
    assert!(database.budget().used_bytes() <= used + (1 << 20));
    session.execute("CREATE INDEX i ON t (a)").unwrap();
    assert!(database.budget().used_bytes() > used + (2 << 20), "an index counts in the budget");
    assert!(one(&session, "SELECT bytes FROM nearside.indexes") > 2 << 20);
    session.execute("DROP INDEX i").unwrap();
    assert!(database.budget().used_bytes() <= used + (1 << 20));
}

#[test]
fn a_statement_that_runs_out_of_time_makes_no_index() {
    let session = database().session();
    session
        .execute("CREATE TABLE t AS SELECT value * 7919 % 1000003 * 1000000007 AS a FROM generate_series(1, 1000000)")
        .unwrap();
    session.execute("SET nearside.statement_timeout_ms = 1").unwrap();
    let error = session.execute("CREATE INDEX i ON t (a)").unwrap_err();
    assert!(matches!(error, Error::Timeout), "{error}");
    session.execute("RESET nearside.statement_timeout_ms").unwrap();
    assert_eq!(one(&session, "SELECT count(*) FROM nearside.indexes"), 0);
}

/// A load may declare a primary key, which holds from its first row on.
#[test]
fn loads_declare_primary_keys() {
    let batch = |keys: Vec<Option<i64>>| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..keys.len() as i64));
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]).unwrap()
    };
    let database = database();
    let load = |table: &str, key: &[&str], rows: RecordBatch| {
        let primary_key = key.iter().map(|column| column.to_string()).collect();
        let options = LoadOptions { primary_key, ..LoadOptions::default() };
        let producer = Box::new(std::iter::once(Ok(rows.clone())));
        database.load_batches(table, rows.schema(), vec![producer], &options).map_err(|error| error.to_string())
    };
    load("t", &["k"], batch((0..10_000).map(Some).collect())).unwrap();
    let session = database.session();
    let error = session.execute("INSERT INTO t VALUES (77, 0)").map(drop).unwrap_err().to_string();
    assert!(error.contains("(k) = (77)"), "{error}");
    session.execute("INSERT INTO t VALUES (77, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v").unwrap();
    assert_eq!(rows(&session, "SELECT v FROM t WHERE k = 77"), [["5"]]);
    for (key, keys, says) in [
        (&["k"][..], vec![Some(1), Some(2), Some(1)], "(k) = (1)"),
        (&["k"], vec![Some(1), None], "does not allow NULL"),
        (&["key"], vec![Some(1)], "'key'"),
        (&["k", "k"], vec![Some(1)], "stands twice"),
    ] {
        let error = load("u", key, batch(keys)).map(drop).unwrap_err();
        assert!(error.contains(says), "{key:?}: {error}");
        assert!(session.execute("SELECT * FROM u").is_err(), "nothing is there");
    }
}
