//! Keys are checked by looking up what is new, whatever else the table holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::{LookedUp, by_grouping, by_look_ups, check_keys, duplicate, is_grouping_cheaper, key_indexes, shown};
use crate::Database;
use crate::Session;
use crate::catalog::index::{IndexEntry, Origin, indexed};
use crate::catalog::{Name, TableEntry};
use crate::run::statement::RunningStatement;
use crate::statements::stage::NewRows;
use crate::statements::write::stage;

/// Rows of the table that one more is added to.
const ROWS: i64 = 1_000_000;

fn session() -> Session {
    Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap().session()
}

fn table(running: &RunningStatement, name: &str) -> Arc<TableEntry> {
    Arc::clone(running.catalog.table(&Name { schema: "public".into(), table: name.into() }).unwrap())
}

fn new_rows(values: Vec<i64>, table: &TableEntry, running: &Arc<RunningStatement>) -> NewRows {
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
    stage([Ok(batch)].into_iter(), table, running).unwrap()
}

/// Builds the index of one added row and checks the key, and the median time that this took.
fn one_row(table: &TableEntry, running: &Arc<RunningStatement>, value: i64) -> (bool, Duration) {
    let mut times = Vec::new();
    let mut holds = true;
    for _ in 0..21 {
        let added = new_rows(vec![value], table, running).appended_to(table, &table.base);
        let started = Instant::now();
        let added = indexed(added, running).unwrap();
        holds = check_keys(&added, Some(&table.base), running).is_ok();
        times.push(started.elapsed());
    }
    times.sort();
    (holds, times[times.len() / 2])
}

#[test]
fn one_row_is_checked_without_a_look_at_the_others() {
    let session = session();
    // Rows in the order of the key, in another order, and wide apart: each kind of index.
    let kinds = ["value", "value * 7919 % 1000003", "value * 7919 % 1000003 * 1000000007"];
    for (i, expression) in kinds.into_iter().enumerate() {
        let sql = format!(
            "CREATE TABLE t{i} (id BIGINT PRIMARY KEY) AS SELECT {expression} AS id FROM generate_series(1, {ROWS})"
        );
        session.execute(&sql).unwrap();
        let running = session.running();
        let table = table(&running, &format!("t{i}"));
        let whole = indexed(TableEntry::clone(&table), &running).unwrap();
        check_keys(&whole, None, &running).unwrap();
        let started = Instant::now();
        assert_eq!(by_grouping(&whole, &whole.table().indexes[0], &running).unwrap(), None);
        let all = started.elapsed();
        let (holds, time) = one_row(&table, &running, -5);
        assert!(holds, "{expression}");
        eprintln!("{expression}: a key of {ROWS} rows: one row more {time:?}, by grouping {all:?}");
        let key = table.base.segments().next().unwrap().segment.column(0).take(&[4711]);
        let taken = key.as_any().downcast_ref::<Int64Array>().unwrap().value(0);
        let (holds, _) = one_row(&table, &running, taken);
        assert!(!holds, "{expression}");
        assert!(time * 5 < all, "{expression}: one row took {time:?}, and grouping {all:?}");
    }
}

#[test]
fn tables_without_a_change_keep_their_segments() {
    let session = session();
    session.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT UNIQUE)").unwrap();
    session.execute("INSERT INTO t SELECT value AS id, value AS v FROM generate_series(1, 100000)").unwrap();
    let running = session.running();
    let table = table(&running, "t");
    let again = indexed(TableEntry::clone(&table), &running).unwrap();
    let segments = |table: &TableEntry| table.base.segments().map(|s| Arc::as_ptr(&s.segment)).collect::<Vec<_>>();
    assert_eq!(segments(&table), segments(again.table()));
    assert!(table.base.segments().all(|s| s.segment.index(0).is_some() && s.segment.index(1).is_some()));
}

#[test]
fn a_key_is_kept_once() {
    let session = session();
    session.execute("CREATE TABLE t (a BIGINT, b BIGINT)").unwrap();
    let running = session.running();
    let schema = Arc::clone(&table(&running, "t").base.schema);
    let columns = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let keys = vec![
        (Origin::Unique, columns(&["a"])),
        (Origin::PrimaryKey, columns(&["a"])),
        (Origin::Unique, columns(&["b", "a"])),
        (Origin::Unique, columns(&["b", "a"])),
    ];
    let found = key_indexes(keys, &schema).unwrap();
    let expected = [
        IndexEntry::new(String::new(), columns(&["a"]), true, Origin::PrimaryKey),
        IndexEntry::new(String::new(), columns(&["b", "a"]), true, Origin::Unique),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_column_with_most_values_is_chosen_and_kept_while_it_is_good_enough() {
    let session = session();
    session.execute("CREATE TABLE t (a BIGINT, b BIGINT); CREATE INDEX i ON t (a, b)").unwrap();
    let chosen = || table(&session.running(), "t").indexes[0].indexed.clone();
    session.execute("INSERT INTO t SELECT value % 10, value % 100 FROM generate_series(1, 5000)").unwrap();
    assert_eq!(chosen(), "b");
    // A little better is not worth building all indexes anew; much better is.
    session.execute("INSERT INTO t SELECT value % 150, value % 100 FROM generate_series(1, 10000)").unwrap();
    assert_eq!(chosen(), "b");
    session.execute("INSERT INTO t SELECT value, value % 100 FROM generate_series(1, 100000)").unwrap();
    assert_eq!(chosen(), "a");
    let table = table(&session.running(), "t");
    assert!(table.base.segments().all(|s| s.segment.index(0).is_some() && s.segment.index(1).is_none()));
}

#[test]
fn a_value_that_is_everywhere_does_not_make_checks_quadratic() {
    let session = session();
    session
        .execute(
            "CREATE TABLE t AS SELECT CASE WHEN value % 2 = 0 THEN 0 ELSE value END AS a, value AS b
             FROM generate_series(1, 400000);
             CREATE TABLE u (a BIGINT, b TEXT, PRIMARY KEY (a, b))",
        )
        .unwrap();
    // Pairs of rows with a = 0, and with b = 'x': 2e10 each.
    session.execute("INSERT INTO u SELECT a, CASE WHEN a = 0 THEN b::TEXT ELSE 'x' END FROM t").unwrap();
    let error = session.execute("INSERT INTO u VALUES (0, '4')").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("(a, b) = (0, 4)"), "{error}");
    let error = session.execute("INSERT INTO u SELECT 1, repeat('long', 100) FROM generate_series(1, 2)");
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("long.. (400 bytes))") && error.len() < 300, "{error}");
}

#[test]
fn look_ups_and_grouping_agree() {
    let session = session();
    // Each column alone tells few rows apart: a look-up finds a hundred candidates.
    session
        .execute(
            "CREATE TABLE t AS SELECT value % 100 AS a, value / 100 AS b FROM generate_series(0, 9999);
             CREATE INDEX i ON t (a, b); CREATE TABLE u AS SELECT * FROM t; INSERT INTO u VALUES (17, 17), (17, NULL);
             CREATE INDEX j ON u (a, b)",
        )
        .unwrap();
    for (name, expected) in [("t", None), ("u", Some("17, 17".to_string()))] {
        let running = session.running();
        let table = indexed(TableEntry::clone(&table(&running, name)), &running).unwrap();
        let index = IndexEntry { unique: true, ..table.table().indexes[0].clone() };
        let new = vec![true; table.table().base.segments().count()];
        let looked_up = match by_look_ups(table.table(), &index, &new, u64::MAX, &running).unwrap() {
            LookedUp::Found(values) => Some(shown(&values)),
            LookedUp::Unique => None,
            LookedUp::TooMany => panic!("there is no limit"),
        };
        assert_eq!(looked_up, expected);
        if expected.is_none() {
            let limited = by_look_ups(table.table(), &index, &new, 5000, &running).unwrap();
            assert!(matches!(limited, LookedUp::TooMany), "{limited:?}");
        }
        let as_text = |values: Option<Vec<ArrayRef>>| values.map(|values| shown(&values));
        assert_eq!(as_text(by_grouping(&table, &index, &running).unwrap()), expected);
        // A query that is left before its end ends its statement.
        let running = session.running();
        assert_eq!(as_text(duplicate(&table, &index, None, &running).unwrap()), expected);
        assert!(is_grouping_cheaper(table.table(), &index, &new).unwrap());
        // A few rows more are looked up all the same.
        let few: Vec<bool> = new.iter().enumerate().map(|(i, _)| i > 0).collect();
        assert!(!is_grouping_cheaper(table.table(), &index, &few).unwrap());
    }
    let error = session.execute("CREATE UNIQUE INDEX k ON u (a, b)").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("two rows with (a, b) = (17, 17)"), "{error}");
    session.execute("CREATE UNIQUE INDEX k ON t (a, b)").unwrap();
    let error = session.execute("INSERT INTO t SELECT a, b FROM t").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("would hold two rows with the key (a, b)"), "{error}");
}
