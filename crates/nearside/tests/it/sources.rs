//! Rows that are read or computed while a statement runs, recursive queries, UNNEST, and functions that give another
//! value each time: what PostgreSQL gives, that consumers who have enough end them, and that every operator is ours.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use nearside::arrow::array::{AsArray, RecordBatch};
use nearside::arrow::datatypes::{Float64Type, Int64Type};
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, Error, Session};

fn database() -> Database {
    Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap()
}

fn rows(session: &Session, sql: &str) -> Vec<String> {
    let all = session.query(sql).and_then(|rows| rows.collect_all()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let options = FormatOptions::default().with_null("NULL");
    let texts = |batch: &RecordBatch| -> Vec<String> {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        (0..batch.num_rows())
            .map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"))
            .collect()
    };
    all.iter().flat_map(texts).collect()
}

fn is_ours(session: &Session, sql: &str) {
    let plan = session.query(&format!("EXPLAIN {sql}")).unwrap_or_else(|e| panic!("{sql}: {e}")).collect_all().unwrap();
    for batch in plan {
        let operators = batch.column(0).as_string_view();
        let foreign = |operator: Option<&str>| operator.is_none_or(|o| o.to_lowercase().contains("datafusion"));
        assert!(operators.iter().all(|operator| !foreign(operator)), "{sql}: {batch:?}");
    }
}

/// Queries and their rows, in order.
const ROWS: &[(&str, &[&str])] = &[
    ("SELECT * FROM generate_series(3)", &["0", "1", "2", "3"]),
    ("SELECT * FROM generate_series(1, 7, 3)", &["1", "4", "7"]),
    ("SELECT * FROM range(1, 7, 3)", &["1", "4"]),
    ("SELECT * FROM generate_series(3, 1, -1)", &["3", "2", "1"]),
    ("SELECT * FROM generate_series(3, 1)", &[]),
    ("SELECT * FROM generate_series(1, NULL)", &[]),
    (
        "SELECT * FROM generate_series(9223372036854775806, 9223372036854775807)",
        &["9223372036854775806", "9223372036854775807"],
    ),
    ("SELECT count(*) FROM generate_series(-9223372036854775808, 9223372036854775807, 4611686018427387904)", &["4"]),
    (
        "SELECT value::DATE FROM generate_series(DATE '2024-01-31', DATE '2024-04-30', INTERVAL '1 month')",
        &["2024-01-31", "2024-02-29", "2024-03-29", "2024-04-29"],
    ),
    (
        "SELECT value FROM range(TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 02:00:00', INTERVAL '1 hour')",
        &["2024-01-01T00:00:00", "2024-01-01T01:00:00"],
    ),
    ("SELECT unnest([1, 2]), unnest([10, 20, 30])", &["1|10", "2|20", "NULL|30"]),
    ("SELECT i, unnest(l) FROM (VALUES (1, [1, 2]), (2, NULL), (3, []), (4, [7])) t(i, l)", &["1|1", "1|2", "4|7"]),
    ("SELECT * FROM unnest([1, 2], ['a', 'b', 'c']) t(x, y)", &["1|a", "2|b", "NULL|c"]),
    ("SELECT sum(x) FROM unnest([1, 2, 3]) t(x)", &["6"]),
    ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t LIMIT 3", &["1", "2", "3"]),
    ("WITH RECURSIVE t(n) AS (VALUES (1) UNION SELECT (n + 1) % 4 FROM t) SELECT * FROM t", &["1", "2", "3", "0"]),
    ("WITH RECURSIVE t(n) AS (SELECT NULL::INT UNION SELECT n FROM t) SELECT * FROM t", &["NULL"]),
    (
        "WITH RECURSIVE t(n, f) AS (SELECT 1, 1.0 UNION ALL SELECT n + 1, f * 2 FROM t WHERE n < 4) SELECT n, f FROM t",
        &["1|1.0", "2|2.0", "3|4.0", "4|8.0"],
    ),
];

#[test]
fn rows_are_those_that_postgres_gives() {
    let database = database();
    let session = database.session();
    for (sql, expected) in ROWS {
        assert_eq!(rows(&session, sql), *expected, "{sql}");
        is_ours(&session, sql);
    }
}

#[test]
fn a_recursion_without_end_ends_with_its_consumer() {
    let database = database();
    let session = database.session();
    session.execute("SET nearside.statement_timeout_ms = 60000").unwrap();
    let t = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)";
    let ten: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    assert_eq!(rows(&session, &format!("{t} SELECT * FROM t LIMIT 10")), ten);
    assert_eq!(rows(&session, &format!("{t} SELECT n FROM t WHERE n < 11 LIMIT 10")), ten);
    assert_eq!(
        rows(&session, &format!("{t} SELECT count(*) FROM (SELECT n FROM t WHERE n % 2 = 0 LIMIT 10) x")),
        ["10"]
    );
    assert_eq!(
        rows(&session, &format!("{t} SELECT n FROM (SELECT n FROM t LIMIT 10) x ORDER BY n DESC LIMIT 1")),
        ["10"]
    );
    // A consumer who goes away.
    let started = Instant::now();
    let mut stream = session.query(&format!("{t} SELECT n FROM t")).unwrap();
    assert!(stream.next().unwrap().unwrap().num_rows() > 0);
    drop(stream);
    wait_until(|| database.budget().used_bytes() == 0 || idle(&session), "the recursion went on");
    assert!(started.elapsed() < Duration::from_secs(60));
    session.execute("SET nearside.statement_timeout_ms = 200").unwrap();
    for sql in [format!("{t} SELECT count(*) FROM t"), format!("{t} SELECT n FROM t WHERE n < 0")] {
        let error = session.query(&sql).and_then(|rows| rows.collect_all()).unwrap_err();
        assert!(matches!(error, Error::Timeout), "{sql}: {error}");
    }
    session.execute("RESET nearside.statement_timeout_ms").unwrap();
    wait_until(|| idle(&session), "a recursion that ran out of time went on");
}

/// Is there no statement with tasks, but perhaps the one that asks?
fn idle(session: &Session) -> bool {
    ["0", "1"].contains(&rows(session, "SELECT count(*) FROM nearside.statements")[0].as_str())
}

fn wait_until(done: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_slow_consumer_holds_little_of_many_rows() {
    let database = Database::builder().threads(2).memory_bytes(256 << 20).build().unwrap();
    let session = database.session();
    // A hundred times the budget, were it all kept.
    let mut stream = session.query("SELECT value, value * 2, value * 3 FROM generate_series(1, 1000000000)").unwrap();
    let first = stream.next().unwrap().unwrap();
    assert_eq!(first.column(0).as_primitive::<Int64Type>().value(0), 1);
    std::thread::sleep(Duration::from_millis(300));
    assert!(database.budget().used_bytes() < 200 << 20);
    let mut last = 0;
    for batch in stream.by_ref().take(200) {
        let batch = batch.unwrap();
        let values = batch.column(0).as_primitive::<Int64Type>();
        assert!(values.value(0) > last, "rows come in order");
        last = values.value(values.len() - 1);
    }
    assert_eq!(rows(&session, "SELECT count(*) FROM generate_series(1, 30000000) WHERE value % 3 = 0"), ["10000000"]);
}

#[test]
fn files_are_read_as_far_as_they_are_asked_for() {
    let database = database();
    let session = database.session();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let parquet = path("numbers.parquet");
    let csv = path("numbers.csv");
    session
        .execute(
            "CREATE TABLE numbers AS SELECT value AS n, 'text ' || value::TEXT AS t FROM generate_series(1, 300000)",
        )
        .unwrap();
    session.execute(&format!("COPY numbers TO '{parquet}'")).unwrap();
    session.execute(&format!("COPY numbers TO '{csv}'")).unwrap();
    for file in [&parquet, &csv] {
        let sql = format!("SELECT count(*), sum(n), min(t) FROM '{file}'");
        assert_eq!(rows(&session, &sql), ["300000|45000150000|text 1"]);
        is_ours(&session, &sql);
        assert_eq!(rows(&session, &format!("SELECT count(*) FROM '{file}'")), ["300000"]);
        assert_eq!(rows(&session, &format!("SELECT n FROM '{file}' LIMIT 3")), ["1", "2", "3"]);
        assert_eq!(rows(&session, &format!("SELECT t FROM '{file}' WHERE n = 299999")), ["text 299999"]);
        let joined = format!("SELECT count(*) FROM '{file}' f JOIN numbers m ON f.t = m.t AND f.n < 100");
        assert_eq!(rows(&session, &joined), ["99"]);
    }
    // What comes behind a fault is not asked for.
    fs::write(folder.path().join("bad.csv"), "n\n1\n2\n3\n").unwrap();
    session
        .execute(&format!("CREATE EXTERNAL TABLE e (n BIGINT) STORED AS CSV LOCATION '{}'", path("bad.csv")))
        .unwrap();
    assert_eq!(rows(&session, "SELECT sum(n) FROM e"), ["6"]);
    fs::write(folder.path().join("bad.csv"), "n\n1\nword\n3\n").unwrap();
    let error = session.query("SELECT sum(n) FROM e").and_then(|rows| rows.collect_all()).unwrap_err().to_string();
    assert!(error.contains("bad.csv") && error.contains("word"), "{error}");
}

#[test]
fn functions_that_give_another_value_each_time_do_so_once_per_row() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t AS SELECT value % 3 AS k, value AS n FROM generate_series(1, 5000)").unwrap();
    let column = |sql: &str| -> Vec<f64> {
        is_ours(&session, sql);
        let all = session.query(sql).unwrap().collect_all().unwrap();
        all.iter().flat_map(|b| b.column(0).as_primitive::<Float64Type>().values().to_vec()).collect()
    };
    let distinct = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<HashSet<_>>().len();
    // Per row, not per value of a column, and not once.
    assert!(distinct(&column("SELECT random() FROM t")) > 4990);
    assert!(distinct(&column("SELECT k + random() FROM t")) > 4990);
    // Two calls are two values, one name of a call is one.
    assert!(column("SELECT random() - random() FROM t").iter().filter(|d| **d == 0.0).count() < 10);
    assert!(column("SELECT r - r FROM (SELECT random() AS r FROM t) x").iter().all(|d| *d == 0.0));
    assert!(
        column("SELECT r - s FROM (SELECT random() AS r, random() AS s FROM t) x")
            .iter()
            .filter(|d| **d == 0.0)
            .count()
            < 10
    );
    // A filter, a sort key, a group, a join: once per row, or per pair.
    let half = column("SELECT n::DOUBLE FROM t WHERE random() < 0.5").len();
    assert!((2000..3000).contains(&half), "{half}");
    let kept = column("SELECT r FROM (SELECT random() AS r FROM t) x WHERE r < 0.5");
    assert!((2000..3000).contains(&kept.len()) && kept.iter().all(|r| *r < 0.5));
    let shuffled = column("SELECT n::DOUBLE FROM t ORDER BY random()");
    assert!(shuffled.len() == 5000 && shuffled.windows(2).any(|w| w[0] > w[1]));
    assert!(column("SELECT r FROM (SELECT random() AS r FROM t GROUP BY 1) x").len() > 4990);
    let pairs = column("SELECT 1.0::DOUBLE FROM t a JOIN t b ON a.n = b.n AND random() < 0.5").len();
    assert!((2000..3000).contains(&pairs), "{pairs}");
    let pairs = column("SELECT a.n::DOUBLE FROM t a LEFT JOIN t b ON a.n = b.n AND random() < 0.5").len();
    assert_eq!(pairs, 5000);
    let values = column("SELECT * FROM (VALUES (random()), (random()), (random())) v(x)");
    assert_eq!((values.len(), distinct(&values)), (3, 3));
    let texts = rows(&session, "SELECT uuid() FROM t LIMIT 100");
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 100);
}

#[test]
fn statements_that_write_read_from_elsewhere_too() {
    let database = database();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE t AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) \
        SELECT n FROM r",
        )
        .unwrap();
    session.execute("INSERT INTO t SELECT unnest([10, 20])").unwrap();
    session.execute("UPDATE t SET n = n + 1 WHERE n IN (SELECT value FROM generate_series(1, 2))").unwrap();
    session.execute("DELETE FROM t WHERE n IN (SELECT unnest([5, 20]))").unwrap();
    assert_eq!(rows(&session, "SELECT n FROM t ORDER BY n"), ["2", "3", "3", "4", "10"]);
    session.execute("PREPARE p (BIGINT) AS SELECT value FROM generate_series(1, 5) WHERE value > $1 LIMIT 2").unwrap();
    assert_eq!(rows(&session, "EXECUTE p(3)"), ["4", "5"]);
    let analysed = rows(
        &session,
        "EXPLAIN ANALYZE WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    );
    assert!(analysed.iter().any(|line| line.contains("Recursion") && line.contains("|5|")), "{analysed:?}");
}

#[test]
fn catalogs_are_read_by_our_operators() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t (i INT NOT NULL, d DECIMAL(10, 2)); CREATE VIEW v AS SELECT i FROM t").unwrap();
    for sql in [
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
        "SELECT column_name, ordinal_position, is_nullable, numeric_precision FROM information_schema.columns WHERE \
         table_name = 't' ORDER BY 2",
        "SELECT schema_name FROM information_schema.schemata ORDER BY 1",
        "SELECT function_type FROM information_schema.routines WHERE routine_name = 'generate_series' ORDER BY 1",
        "SELECT count(*) FROM nearside.settings",
        "SELECT definition IS NOT NULL FROM information_schema.views WHERE table_name = 'v'",
    ] {
        is_ours(&session, sql);
    }
    assert_eq!(
        rows(
            &session,
            "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
        ),
        ["t|BASE TABLE", "v|VIEW"]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT column_name, ordinal_position, is_nullable, numeric_precision FROM information_schema.columns \
             WHERE table_name = 't' ORDER BY 2"
        ),
        ["i|1|NO|32", "d|2|YES|10"]
    );
    assert!(rows(&session, "SHOW FUNCTIONS LIKE 'abs'").iter().any(|line| line.starts_with("abs|")));
    assert!(rows(&session, "SHOW TABLES").len() > 3);
    assert_eq!(rows(&session, "SHOW COLUMNS FROM t").len(), 2);
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t (i INT, l INT[])").unwrap();
    for (sql, part) in [
        ("SELECT * FROM generate_series(1, 2, 0)", "zero"),
        ("SELECT * FROM generate_serie(1, 2)", "generate_series"),
        ("SELECT * FROM generate_series('a', 2)", "integer"),
        ("SELECT i FROM t LIMIT (SELECT 1)", "LIMIT"),
        ("SELECT unnest(i) FROM t", "unnest"),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT 'x' FROM r) SELECT * FROM r", ""),
    ] {
        let error = session.query(sql).and_then(|rows| rows.collect_all()).map(|_| ()).unwrap_err().to_string();
        assert!(error.to_lowercase().contains(&part.to_lowercase()), "{sql}: {error}");
    }
}
