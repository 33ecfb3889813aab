//! Sessions from outside: cancellation, time-outs, budgets, snapshots, plans that are kept, async callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nearside::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use nearside::arrow::datatypes::Int64Type;
use nearside::{BatchProducer, Database, Error, LoadOptions, Outcome, ScalarValue, Session};

fn database() -> Database {
    Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap()
}

fn numbers(database: &Database, table: &str, rows: i64) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    database.register(table, vec![RecordBatch::try_from_iter([("n", column)]).unwrap()]).unwrap();
}

fn one(session: &Session, sql: &str) -> i64 {
    let batches = session.query(sql).unwrap().collect_all().unwrap();
    let batch = batches.iter().find(|b| b.num_rows() > 0).unwrap();
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

/// Work that would take hours, of each kind that has to be told to stop.
const ENDLESS: [&str; 4] = [
    // No row ever comes out of the join.
    "SELECT count(*) FROM generate_series(1, 10000000) a(x) CROSS JOIN generate_series(1, 10000000) b(y) WHERE x * y % \
     7 = 8",
    // Rows come out and are swallowed.
    "SELECT count(*) FROM generate_series(1, 1000000) a(x) CROSS JOIN generate_series(1, 10000000) b(y)",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT count(*) FROM r",
    // Native below, DataFusion above.
    "SELECT count(*) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c WHERE a.n + b.n + c.n = -1",
];

#[test]
fn a_statement_is_cancelled_and_the_session_goes_on() {
    let database = database();
    numbers(&database, "numbers", 200_000);
    for sql in ENDLESS {
        let session = database.session();
        let handle = session.cancel_handle();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            handle.cancel()
        });
        let started = Instant::now();
        let error = session.query(sql).and_then(|rows| rows.collect_all()).unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{sql}: {error}");
        assert!(canceller.join().unwrap());
        assert!(started.elapsed() < Duration::from_secs(60), "{sql} took {:?}", started.elapsed());
        assert_eq!(one(&session, "SELECT count(*) FROM numbers"), 200_000);
    }
}

#[test]
fn a_statement_runs_into_its_time_out() {
    let database = database();
    numbers(&database, "numbers", 200_000);
    let session = database.session();
    session.execute("SET nearside.statement_timeout_ms = 200").unwrap();
    for sql in ENDLESS {
        let started = Instant::now();
        let error = session.query(sql).and_then(|rows| rows.collect_all()).unwrap_err();
        assert!(matches!(error, Error::Timeout), "{sql}: {error}");
        assert!(started.elapsed() < Duration::from_secs(60), "{sql} took {:?}", started.elapsed());
    }
    session.execute("RESET nearside.statement_timeout_ms").unwrap();
    assert_eq!(one(&session, "SELECT count(*) FROM numbers"), 200_000);
}

#[test]
fn over_its_budget_a_statement_fails_alone() {
    let database = Database::builder().threads(2).memory_bytes(64 << 20).build().unwrap();
    numbers(&database, "numbers", 1_000_000);
    let session = database.session();
    let before = database.budget().used_bytes();
    for sql in [
        "SELECT a.n FROM numbers a ORDER BY a.n % 1000, a.n || 'some text that makes every row longer'",
        "SELECT n || 'x' AS k, count(*) FROM numbers GROUP BY k",
        "CREATE TABLE big AS SELECT md5(CAST(a.n AS TEXT)) AS t FROM numbers a, generate_series(1, 10)",
    ] {
        let outcome = session.execute(sql).and_then(|outcome| match outcome {
            Outcome::Rows(rows) => rows.collect_all().map(|_| ()),
            Outcome::Done(_) => Ok(()),
        });
        assert!(matches!(outcome, Err(Error::Memory(_))), "{sql}: {outcome:?}");
        assert_eq!(one(&session, "SELECT count(*) FROM numbers"), 1_000_000);
    }
    assert_eq!(database.table_names(), ["numbers"]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while database.budget().used_bytes() != before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(database.budget().used_bytes(), before, "a failed statement kept memory");
}

#[test]
fn a_failed_load_leaves_no_table() {
    let database = database();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let schema = batch.schema();
    let bad: BatchProducer =
        Box::new(vec![Ok(batch.clone()), Err(Error::Execution("the source broke".into()))].into_iter());
    let good: BatchProducer = Box::new(vec![Ok(batch)].into_iter());
    let error = database.load_batches("t", schema.clone(), vec![good, bad], &LoadOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "the source broke");
    let panics: BatchProducer = Box::new(std::iter::from_fn(|| panic!("a bug in the source")));
    let error = database.load_batches("t", schema, vec![panics], &LoadOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::Internal(text) if text.contains("a bug in the source")), "{error}");
    assert!(database.table_names().is_empty());
}

#[test]
fn a_reader_keeps_its_snapshot_while_others_write() {
    let database = database();
    numbers(&database, "numbers", 500_000);
    let session = database.session();
    let mut rows = session.query("SELECT n FROM numbers").unwrap();
    let first = rows.next().unwrap().unwrap().num_rows();
    let other = database.session();
    other.execute("DELETE FROM numbers WHERE n >= 10; INSERT INTO numbers VALUES (-1)").unwrap();
    other.execute("DROP TABLE numbers").unwrap();
    let rest: usize = rows.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(first + rest, 500_000);
}

#[test]
fn writers_of_one_table_lose_nothing() {
    let database = database();
    database.session().execute("CREATE TABLE t (a BIGINT); CREATE TABLE u (a BIGINT)").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let session = database.session();
            scope.spawn(move || {
                for i in 0..25 {
                    session.execute(&format!("INSERT INTO t VALUES ({writer}), ({i})")).unwrap();
                    session.execute(&format!("INSERT INTO u VALUES ({i})")).unwrap();
                    session.execute(&format!("UPDATE u SET a = a + 1 WHERE a = {i}")).unwrap();
                    if i % 5 == 0 {
                        session.execute("DELETE FROM u WHERE a > 100").unwrap();
                    }
                }
            });
        }
    });
    let session = database.session();
    assert_eq!(one(&session, "SELECT count(*) FROM t"), 400);
    assert_eq!(one(&session, "SELECT count(*) FROM u"), 200);
}

/// Whoever writes a table does what others wait with: each once, or not at all where it fails or is cancelled.
#[test]
fn prepared_writes_of_many_sessions_are_done_once_or_not_at_all() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE c (k INT PRIMARY KEY, n BIGINT); INSERT INTO c VALUES (0, 0), (1, 0)").unwrap();
    let (done, busy) = (AtomicI64::new(0), AtomicI64::new(6));
    std::thread::scope(|scope| {
        let (done, busy) = (&done, &busy);
        let mut handles = Vec::new();
        for writer in 0..6_i32 {
            let session = database.session();
            handles.push(session.cancel_handle());
            let update = session.prepare("UPDATE c SET n = n + 12 / $2 WHERE k = $1").unwrap();
            // It is planned before anybody cancels it: on a busy machine that takes longer than it would be let.
            update.run(&[ScalarValue::from(writer % 2), ScalarValue::from(12_i64)]).unwrap();
            done.fetch_add(1, Relaxed);
            scope.spawn(move || {
                for round in 0..400_i64 {
                    let divisor = if round % 7 == 0 { 0 } else { 12 };
                    match update.run(&[ScalarValue::from(writer % 2), ScalarValue::from(divisor)]) {
                        Ok(_) => {
                            assert_ne!(divisor, 0);
                            done.fetch_add(1, Relaxed);
                        }
                        Err(Error::Cancelled) => {}
                        Err(error) => assert!(divisor == 0 && error.to_string().contains("zero"), "{error}"),
                    }
                }
                busy.fetch_sub(1, Relaxed);
            });
        }
        scope.spawn(move || {
            for handle in handles.iter().cycle().take_while(|_| busy.load(Relaxed) > 0) {
                handle.cancel();
                std::thread::sleep(Duration::from_micros(300));
            }
        });
    });
    let done = done.into_inner();
    assert!(done > 0);
    assert_eq!(one(&session, "SELECT sum(n)::BIGINT FROM c"), done);
}

#[test]
fn kept_plans_see_new_rows_and_new_columns() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1)").unwrap();
    let sql = "SELECT sum(a) FROM t WHERE a < 100";
    assert_eq!(one(&session, sql), 1);
    session.execute("INSERT INTO t VALUES (2), (300)").unwrap();
    assert_eq!(one(&session, sql), 3);
    session.execute("DELETE FROM t WHERE a = 1").unwrap();
    assert_eq!(one(&session, sql), 2);
    session.execute("ALTER TABLE t RENAME COLUMN a TO b; ALTER TABLE t ADD COLUMN a BIGINT DEFAULT 5").unwrap();
    assert_eq!(one(&session, sql), 10);
    session.execute("CREATE OR REPLACE TABLE t AS SELECT CAST(7 AS BIGINT) AS a").unwrap();
    assert_eq!(one(&session, sql), 7);
    let first = one(&session, "SELECT CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)");
    std::thread::sleep(Duration::from_millis(20));
    assert!(one(&session, "SELECT CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)") > first, "now() froze");
}

#[test]
fn prepared_queries_take_values() {
    let database = database();
    numbers(&database, "numbers", 1000);
    let session = database.session();
    let prepared = session.prepare("SELECT count(*) FROM numbers WHERE n BETWEEN $1 AND $2").unwrap();
    assert_eq!(prepared.parameter_types().len(), 2);
    for (low, high) in [(0, 9), (10, 10), (990, 2000)] {
        let batches = prepared
            .query(&[ScalarValue::from(low as i64), ScalarValue::from(high as i64)])
            .unwrap()
            .collect_all()
            .unwrap();
        let count = batches[0].column(0).as_primitive::<Int64Type>().value(0);
        assert_eq!(count, (high.min(999) - low + 1) as i64);
    }
    let error = prepared.query(&[ScalarValue::from(1_i64)]).unwrap_err().to_string();
    assert!(error.contains("2 parameters"), "{error}");
    assert!(session.prepare("TRUNCATE TABLE numbers").is_err());
}

#[test]
fn works_inside_async_runtimes() {
    let database = database();
    numbers(&database, "numbers", 300_000);
    let session = database.session();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (sync, streamed) = runtime.block_on(async {
        // A synchronous call inside a runtime parks its thread and must not panic or need the runtime to turn.
        let sync = one(&session, "SELECT sum(n) FROM numbers");
        let mut streamed = 0;
        let mut rows = session.query("SELECT n, count(*) FROM numbers WHERE n >= 5 GROUP BY n").unwrap();
        while let Some(batch) = futures::StreamExt::next(&mut rows).await {
            streamed += batch.unwrap().num_rows();
        }
        (sync, streamed)
    });
    assert_eq!((sync, streamed), (44999850000, 299_995));
    runtime.block_on(async move {
        // The last handle may go inside a runtime.
        drop(session);
        drop(database);
    });
}

#[test]
fn plans_show_operators_of_ours_only() {
    let database = database();
    numbers(&database, "numbers", 100);
    let session = database.session();
    for query in [
        "SELECT n + 1 FROM numbers WHERE n > 5 LIMIT 3",
        "SELECT count(*) FROM numbers WHERE n > 5",
        "SELECT row_number() OVER (ORDER BY n) FROM numbers WHERE n > 5",
        "SELECT sum(n) OVER w, array_agg(n) OVER (w ROWS 2 PRECEDING EXCLUDE TIES) FROM numbers WINDOW w AS (ORDER \
         BY n % 7)",
        "SELECT n % 3, rank() OVER (ORDER BY sum(n) RANGE 2 PRECEDING) FROM numbers GROUP BY n % 3",
        "SELECT n FROM numbers INTERSECT ALL SELECT n + 1 FROM numbers",
        "SELECT n FROM numbers EXCEPT ALL SELECT n + 1 FROM numbers",
        "SELECT n FROM numbers QUALIFY lag(n, 1, 0) OVER (ORDER BY n) > 3",
    ] {
        for explain in ["EXPLAIN", "EXPLAIN ANALYZE"] {
            let batches = session.query(&format!("{explain} {query}")).unwrap().collect_all().unwrap();
            let operators: Vec<&str> = batches[0].column(0).as_string_view().iter().flatten().collect();
            let known = ["Project", "Limit", "Filter", "Scan", "Aggregate", "Window", "Sort", "Join", "Counters"];
            let ours = |operator: &&str| known.iter().any(|known| operator.trim_start().starts_with(known));
            assert!(!operators.is_empty() && operators.iter().all(ours), "{query}: {operators:?}");
        }
    }
}

#[test]
fn explain_analyze_counts_what_native_operators_do() {
    let database = database();
    numbers(&database, "numbers", 200_000);
    let session = database.session();
    let sql = "EXPLAIN ANALYZE SELECT a.n % 10, count(*) FROM numbers a JOIN numbers b ON a.n = b.n WHERE a.n < 50000 \
               GROUP BY a.n % 10 ORDER BY 1 LIMIT 3";
    let batches = session.query(sql).unwrap().collect_all().unwrap();
    let batch = &batches[0];
    let rows_of = |start: &str| -> Option<i64> {
        let operators = batch.column_by_name("operator").unwrap().as_string_view();
        let at = operators.iter().position(|o| o.unwrap().trim_start().starts_with(start)).unwrap();
        let rows = batch.column_by_name("rows").unwrap().as_primitive::<Int64Type>();
        (!rows.is_null(at)).then(|| rows.value(at))
    };
    assert_eq!(rows_of("Aggregate"), Some(10));
    assert_eq!(rows_of("Join"), Some(50_000));
    let sum =
        |name: &str| -> i64 { batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().flatten().sum() };
    assert!(sum("microseconds") > 0 && sum("tasks") > 0 && sum("bytes_local") > 0, "{batch:?}");
    assert!(batch.column_by_name("estimated_rows").unwrap().as_primitive::<Int64Type>().null_count() == 0);
}

/// The operators that a statement ran as, and the rows that each gave, where it was counted.
fn analyzed(session: &Session, sql: &str) -> Vec<(String, Option<i64>)> {
    let batches = session.query(&format!("EXPLAIN ANALYZE {sql}")).unwrap().collect_all().unwrap();
    let operators = batches[0].column_by_name("operator").unwrap().as_string_view();
    let rows = batches[0].column_by_name("rows").unwrap().as_primitive::<Int64Type>();
    operators.iter().map(|operator| operator.unwrap().trim_start().to_owned()).zip(rows.iter()).collect()
}

#[test]
fn explain_analyze_counts_what_is_shared_once() {
    let database = database();
    numbers(&database, "numbers", 200_000);
    let session = database.session();
    let query = "WITH c AS MATERIALIZED (SELECT n % 100 AS g, count(*) AS rows FROM numbers GROUP BY 1) \
                 SELECT a.g, b.rows FROM c a JOIN c b ON a.g = b.g WHERE a.g < 200";
    let rows_of = |lines: &[(String, Option<i64>)], name: &str| -> Vec<Option<i64>> {
        lines.iter().filter(|(operator, _)| operator.starts_with(name)).map(|(_, rows)| *rows).collect()
    };
    let lines = analyzed(&session, query);
    let of = |name| rows_of(&lines, name);
    assert_eq!(of("Shared 1: computed once"), [Some(100), Some(100)], "{lines:?}");
    assert_eq!(of("Shared 1: computed once, as above").len(), 1, "{lines:?}");
    assert_eq!((of("Aggregate"), of("Join")), (vec![Some(100)], vec![Some(100)]), "{lines:?}");
    assert_eq!(of("Scan"), [Some(200_000)], "{lines:?}");
}

/// How often each query groups rows, by EXPLAIN.
#[test]
fn what_is_computed_once_or_in_each_place_is_the_users_word() {
    let database = database();
    numbers(&database, "numbers", 200_000);
    let session = database.session();
    session.execute("CREATE VIEW often AS SELECT n % 7 AS g, count(*) AS rows FROM numbers GROUP BY 1").unwrap();
    let groups = "(SELECT n % 100 AS g, count(*) AS rows FROM numbers GROUP BY 1)";
    let twice = "SELECT a.g, b.rows FROM c a JOIN c b ON a.g = b.g";
    let cases = [
        (format!("WITH c AS {groups} {twice}"), 1),
        (format!("WITH c AS MATERIALIZED {groups} {twice}"), 1),
        (format!("WITH c AS NOT MATERIALIZED {groups} {twice}"), 2),
        (format!("WITH c (g, rows) AS NOT MATERIALIZED {groups} {twice}"), 2),
        (format!("SELECT * FROM (WITH c AS NOT MATERIALIZED {groups} {twice}) AS q"), 2),
        // Also what lies around it, and in it.
        (
            format!(
                "WITH c AS NOT MATERIALIZED {groups} SELECT a.g FROM (SELECT g, rows + 1 AS r FROM c WHERE rows > 5) a \
                 JOIN (SELECT g, rows + 1 AS r FROM c WHERE rows > 5) b ON a.g = b.g"
            ),
            2,
        ),
        (format!("WITH c AS NOT MATERIALIZED (SELECT * FROM often) {twice}"), 2),
        // The word of one within the other.
        (format!("WITH d AS MATERIALIZED {groups}, c AS NOT MATERIALIZED (SELECT * FROM d) {twice}"), 1),
        (format!("WITH d AS NOT MATERIALIZED {groups}, c AS MATERIALIZED (SELECT * FROM d) {twice}"), 1),
    ];
    for (query, expected) in cases {
        let batches = session.query(&format!("EXPLAIN {query}")).unwrap().collect_all().unwrap();
        let operators = batches[0].column_by_name("operator").unwrap().as_string_view();
        let found = operators.iter().flatten().filter(|line| line.trim_start().starts_with("Aggregate")).count();
        assert_eq!(found, expected, "{query}: {batches:?}");
    }
}

#[test]
fn days_beside_constant_times_are_compared_as_days() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE o AS SELECT DATE '1994-06-01' AS d, 1 AS k").unwrap();
    let cases = [
        ("d < DATE '1994-01-01' + INTERVAL '1 year'", "d < 1995-01-01"),
        ("d >= DATE '1995-01-01' - INTERVAL '1 hour'", "d > 1994-12-31"),
        ("DATE '1994-01-01' + INTERVAL '1 day' <> d", "d <> 1994-01-02"),
    ];
    for (condition, expected) in cases {
        let explain = format!("EXPLAIN SELECT k FROM o WHERE {condition}");
        let batches = session.query(&explain).unwrap().collect_all().unwrap();
        let operators = batches[0].column_by_name("operator").unwrap().as_string_view();
        let filters = operators.iter().flatten().filter(|line| line.contains("Filter")).collect::<Vec<_>>();
        assert!(filters.len() == 1 && filters[0].contains(expected), "{condition}: {filters:?}");
    }
}

#[test]
fn views_tell_of_bytes_and_tasks() {
    let database = database();
    numbers(&database, "numbers", 1_000_000);
    let session = database.session();
    let read = || one(&session, "SELECT coalesce(sum(bytes_local + bytes_remote), 0) FROM nearside.workers");
    let before = read();
    assert_eq!(one(&session, "SELECT count(*) FROM (SELECT n FROM numbers WHERE n % 7 = 3)"), 142_857);
    assert!(read() > before, "a scan of a million rows reads some bytes");
    assert!(one(&session, "SELECT sum(bytes_local + bytes_remote) FROM nearside.thread_groups") >= read());
    assert!(one(&session, "SELECT sum(tasks_run) FROM nearside.thread_groups") > 0);
    let states = "SELECT count(*) FROM nearside.workers WHERE inactive_seconds + free_seconds + parked_seconds >= 0";
    assert!(one(&session, states) > 0);
}

#[test]
fn parallelism_limits_a_statement_and_changes_no_result() {
    let database = database();
    numbers(&database, "numbers", 1_000_000);
    for parallelism in [1, 2, 3] {
        let session = database.session();
        session.execute(&format!("SET nearside.parallelism = {parallelism}")).unwrap();
        assert_eq!(one(&session, "SELECT count(*) FROM numbers WHERE n % 2 = 0"), 500_000);
        let rows = session.query("SELECT n FROM numbers WHERE n >= 10").unwrap().collect_all().unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 999_990);
        session.execute(&format!("CREATE TABLE copy{parallelism} AS SELECT n FROM numbers")).unwrap();
        assert_eq!(one(&session, &format!("SELECT count(*) FROM copy{parallelism}")), 1_000_000);
    }
}
