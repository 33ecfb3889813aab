//! Prepared queries against their twin: the same text with the values written out has to give the same rows, or fail
//! too, before and after rows, columns and settings change.

use std::time::{Duration, Instant};

use nearside::arrow::array::RecordBatch;
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, ScalarValue, Session};

/// Queries and what kinds of values their parameters take. One of each way to be prepared, and of what only looks like
/// it.
const QUERIES: &[(&str, &[Kind])] = &[
    // Comparisons with a column: bound once.
    ("SELECT k, s FROM t WHERE k = $1", &[Kind::Int]),
    ("SELECT k, s FROM t WHERE $1 < k", &[Kind::Int]),
    ("SELECT k, s FROM t WHERE k BETWEEN $1 AND $2", &[Kind::Int, Kind::Int]),
    ("SELECT k, s FROM t WHERE k NOT BETWEEN $1 AND $2 AND s <> $3", &[Kind::Int, Kind::Int, Kind::Text]),
    ("SELECT k, s FROM t WHERE NOT (k = $1 OR s = $2)", &[Kind::Int, Kind::Text]),
    ("SELECT k FROM t WHERE k >= $1 AND j <= $1", &[Kind::Int]),
    ("SELECT k + 1, upper(s) FROM t WHERE s = $1", &[Kind::Text]),
    ("SELECT k FROM t WHERE f = $1", &[Kind::Float]),
    ("SELECT k FROM t WHERE f < $1", &[Kind::Float]),
    ("SELECT s, count(*), sum(k) FROM t WHERE k > $1 GROUP BY s", &[Kind::Int]),
    ("SELECT k FROM t WHERE k > $1 ORDER BY k DESC LIMIT 3", &[Kind::Int]),
    ("SELECT k FROM (SELECT k, s FROM t WHERE s = $2) WHERE k > $1", &[Kind::Int, Kind::Text]),
    // Values that are equal, to each other and to what is written.
    ("SELECT k FROM t WHERE k = $1 OR k = $2 OR k = 7 OR j = $1", &[Kind::Int, Kind::Int]),
    ("SELECT k, s FROM t WHERE k >= $1 AND j <> $2 AND k < $3 AND k <> 3", &[Kind::Int, Kind::Int, Kind::Int]),
    // A contradiction for some values, and for none.
    ("SELECT k FROM t WHERE k = $1 AND k = $2", &[Kind::Int, Kind::Int]),
    ("SELECT k FROM t WHERE k = $1 AND k = 3", &[Kind::Int]),
    // Joins and subqueries: bound for each run.
    ("SELECT t.k, u.n FROM t JOIN u ON t.k = u.n WHERE t.k < $1", &[Kind::Int]),
    ("SELECT k FROM t WHERE k IN (SELECT n FROM u WHERE n < $1)", &[Kind::Int]),
    ("SELECT k FROM t WHERE k = (SELECT max(n) FROM u WHERE n < $1)", &[Kind::Int]),
    ("SELECT k FROM t WHERE k < $1 UNION ALL SELECT n FROM u WHERE n > $1", &[Kind::Int]),
    // Values that are computed of those given, and compared with columns, also of narrower types.
    ("SELECT k, s FROM t WHERE k BETWEEN $1 AND $1 + 9", &[Kind::Int]),
    ("SELECT k FROM t WHERE k NOT BETWEEN $1 - 3 AND $2 * 2", &[Kind::Int, Kind::Int]),
    ("SELECT k FROM t WHERE i BETWEEN $1::BIGINT AND $1::BIGINT + 9", &[Kind::Int]),
    ("SELECT k FROM t WHERE i = $1::BIGINT * 2 OR m < $2::BIGINT - 1 OR 7 - $1::BIGINT > m", &[Kind::Int, Kind::Int]),
    ("SELECT k FROM t WHERE i <> $1::BIGINT + 0 AND NOT (m >= $1::BIGINT + 1)", &[Kind::Int]),
    ("SELECT count(*), sum(k) FROM t WHERE i > 20 / $1::BIGINT", &[Kind::Int]),
    ("SELECT k FROM t WHERE k <= $1 + 9223372036854775807", &[Kind::Int]),
    ("SELECT k FROM t WHERE s = lower(upper($1)) OR f <= $2 / 2", &[Kind::Text, Kind::Float]),
    ("SELECT k FROM t WHERE s >= $1 || $2 AND f <> $3 * 0", &[Kind::Text, Kind::Text, Kind::Float]),
    ("SELECT s FROM t WHERE k = abs($1)", &[Kind::Int]),
    ("SELECT k FROM t WHERE k = $1 OR i < $2::BIGINT + 1", &[Kind::Int, Kind::Int]),
    ("SELECT k FROM t WHERE f < $1 AND i <> $2::BIGINT + 1", &[Kind::Float, Kind::Int]),
    ("SELECT k FROM t WHERE k = CASE WHEN $1 = 0 THEN 7 ELSE 21 / $1 END", &[Kind::Int]),
    ("SELECT t.k FROM t JOIN u ON t.k = u.n WHERE t.i < $1::BIGINT + 40", &[Kind::Int]),
    // Values elsewhere.
    ("SELECT k FROM t WHERE k IN ($1, $2, 5)", &[Kind::Int, Kind::Int]),
    ("SELECT k + $1 FROM t WHERE k < 5", &[Kind::Int]),
    ("SELECT k FROM t WHERE k + 1 = $1", &[Kind::Int]),
    ("SELECT k FROM t WHERE k = $1 + 1", &[Kind::Int]),
    ("SELECT k FROM t WHERE s LIKE $1", &[Kind::Text]),
    ("SELECT k FROM t WHERE k = $1 OR $2 IS NULL", &[Kind::Int, Kind::Text]),
    ("SELECT k FROM t WHERE k IS DISTINCT FROM $1", &[Kind::Int]),
    ("SELECT k FROM t WHERE coalesce($1, 3) = k", &[Kind::Int]),
    ("SELECT k / $1 FROM t WHERE k < 3", &[Kind::Int]),
    ("SELECT k FROM t ORDER BY k LIMIT $1", &[Kind::Int]),
    ("SELECT sum(k) FILTER (WHERE k > $1) FROM t", &[Kind::Int]),
    ("SELECT k, row_number() OVER (ORDER BY k) FROM t WHERE k > $1", &[Kind::Int]),
    ("SELECT $1::BIGINT AS a, $2::TEXT AS b", &[Kind::Int, Kind::Text]),
    ("SELECT k FROM t WHERE now() > TIMESTAMP '2020-01-01' AND k = $1", &[Kind::Int]),
];

/// Statements that write `w`, and what kinds of values their parameters take.
const WRITES: &[(&str, &[Kind])] = &[
    ("INSERT INTO w VALUES ($1, $2, $3)", &[Kind::Int, Kind::Text, Kind::Float]),
    ("INSERT INTO w (s, k) VALUES ($2, $1 + 10), ('x', $1 + 20)", &[Kind::Int, Kind::Text]),
    ("INSERT INTO w SELECT $1, $2, 1.5", &[Kind::Int, Kind::Text]),
    ("INSERT INTO w SELECT k + $1, s, f FROM w WHERE k < $1 AND s <> $2", &[Kind::Int, Kind::Text]),
    ("INSERT INTO w (k) VALUES ($1)", &[Kind::Float]),
    ("INSERT INTO w (k) VALUES ($1), (-300)", &[Kind::Text]),
    ("UPDATE w SET s = $1, f = $2 WHERE k < $3", &[Kind::Text, Kind::Float, Kind::Int]),
    ("UPDATE w SET k = $1 WHERE s = $2", &[Kind::Float, Kind::Text]),
    ("UPDATE w SET k = k + $1, f = f * $2 WHERE k BETWEEN $1 AND 40", &[Kind::Int, Kind::Float]),
    ("UPDATE w AS x SET s = upper($1) WHERE x.k = (SELECT max(k) FROM w WHERE k < $2)", &[Kind::Text, Kind::Int]),
    ("INSERT INTO w VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", &[Kind::Int, Kind::Text, Kind::Float]),
    (
        "INSERT INTO w AS x VALUES ($1, $2, 0) ON CONFLICT (k) DO UPDATE SET s = $2 || 'y', f = $3 WHERE x.k > $4",
        &[Kind::Int, Kind::Text, Kind::Float, Kind::Int],
    ),
    ("UPDATE w SET f = $2 WHERE k = $1", &[Kind::Int, Kind::Float]),
    ("UPDATE w SET c = $2 WHERE k = $1", &[Kind::Int, Kind::Text]),
    ("UPDATE w SET f = 8.5 WHERE k = $1 AND c = $2", &[Kind::Int, Kind::Text]),
    ("UPDATE w SET s = CASE WHEN c = $2 THEN 'same' ELSE length(c)::TEXT END WHERE k = $1", &[Kind::Int, Kind::Text]),
    (
        "INSERT INTO w (k, c) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET s = CASE WHEN w.c = $2 THEN 'a' END",
        &[Kind::Int, Kind::Text],
    ),
    ("DELETE FROM w WHERE k = $1", &[Kind::Float]),
    ("DELETE FROM w AS x WHERE x.k = $1 OR x.s = $2", &[Kind::Int, Kind::Text]),
];

#[derive(Clone, Copy)]
enum Kind {
    Int,
    Text,
    Float,
}

impl Kind {
    /// Values of the kind, and how SQL writes them.
    fn values(self) -> Vec<(ScalarValue, String)> {
        match self {
            Kind::Int => {
                let mut all: Vec<_> =
                    [-1, 0, 3, 7, 50, 1 << 40].iter().map(|&v: &i64| (ScalarValue::from(v), v.to_string())).collect();
                all.push((ScalarValue::Int64(None), "NULL::BIGINT".into()));
                all
            }
            Kind::Text => {
                let mut all: Vec<_> = ["s1", "s4", "none", "%3", "s1   "]
                    .iter()
                    .map(|&v| (ScalarValue::from(v), format!("'{v}'")))
                    .collect();
                all.push((ScalarValue::Utf8(None), "NULL::TEXT".into()));
                all
            }
            Kind::Float => {
                let mut all: Vec<_> = [0.0, -0.0, 0.5, 100.0, -f64::NAN]
                    .iter()
                    .map(|&v: &f64| (ScalarValue::from(v), format!("'{v:?}'::DOUBLE")))
                    .collect();
                all.push((ScalarValue::Float64(None), "NULL::DOUBLE".into()));
                all
            }
        }
    }
}

fn rows(batches: Result<Vec<RecordBatch>, nearside::Error>) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for batch in batches.map_err(|e| e.to_string())? {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            all.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    all.sort();
    Ok(all)
}

/// Every combination of values, up to some.
fn combinations(kinds: &[Kind]) -> Vec<Vec<(ScalarValue, String)>> {
    let mut all = vec![Vec::new()];
    for kind in kinds {
        let values = kind.values();
        all = all
            .into_iter()
            .flat_map(|before: Vec<_>| values.iter().map(move |v| [before.clone(), vec![v.clone()]].concat()))
            .collect();
    }
    let step = (all.len() / 12).max(1);
    all.into_iter().step_by(step).collect()
}

fn compare(session: &Session, prepared: &[nearside::Prepared], state: &str) {
    for ((sql, kinds), prepared) in QUERIES.iter().zip(prepared) {
        for values in combinations(kinds) {
            let mut text = sql.to_string();
            for (i, (_, literal)) in values.iter().enumerate() {
                text = text.replace(&format!("${}", i + 1), literal);
            }
            let given: Vec<ScalarValue> = values.iter().map(|(v, _)| v.clone()).collect();
            let fast = rows(prepared.query(&given).and_then(nearside::ResultStream::collect_all));
            let plain = rows(session.query(&text).and_then(nearside::ResultStream::collect_all));
            match (&fast, &plain) {
                (Err(_), Err(_)) => {}
                _ => assert_eq!(fast, plain, "{state}: {sql} with {given:?}"),
            }
        }
    }
}

#[test]
fn values_in_a_prepared_query_are_values_in_its_text() {
    let database = Database::new().unwrap();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, j BIGINT, s TEXT, f DOUBLE, i INT, m SMALLINT);
             INSERT INTO t SELECT value, value % 9, CASE WHEN value % 6 = 0 THEN NULL ELSE 's' || (value % 5)::TEXT END,
                                  CASE WHEN value % 7 = 0 THEN NULL ELSE (value % 4 - 1)::DOUBLE / 2 END,
                                  value - 20, CASE WHEN value % 8 > 0 THEN value % 20 END
             FROM generate_series(0, 60);
             INSERT INTO t VALUES (100, NULL, 'none', -0.0, 2147483647, 32767);
             CREATE TABLE u AS SELECT value * 3 AS n FROM generate_series(0, 20)",
        )
        .unwrap();
    let prepared: Vec<_> = QUERIES.iter().map(|(sql, _)| session.prepare(sql).unwrap()).collect();
    compare(&session, &prepared, "at first");
    for change in [
        "INSERT INTO t VALUES (200, 3, 's1', 0.5), (201, 50, 's9', NULL)",
        "DELETE FROM t WHERE k = 3",
        "UPDATE t SET s = 's4' WHERE k = 7",
        "ALTER TABLE t ADD COLUMN more INT",
        "SET nearside.plan_cache = false",
        "RESET nearside.plan_cache",
        "TRUNCATE t",
    ] {
        session.execute(change).unwrap();
        compare(&session, &prepared, change);
    }
    session.execute("DROP TABLE t").unwrap();
    let error = prepared[0].query(&[ScalarValue::from(1_i64)]).unwrap_err().to_string();
    assert!(error.contains("'t'"), "{error}");
    session.execute("CREATE TABLE t (k TEXT, s TEXT); INSERT INTO t VALUES ('1', 'one')").unwrap();
    let found = rows(prepared[0].query(&[ScalarValue::from(1_i64)]).and_then(nearside::ResultStream::collect_all));
    let error = found.unwrap_err();
    assert!(error.contains("cannot compare VARCHAR with BIGINT"), "{error}");
}

#[test]
fn explain_shows_the_plan_that_an_execute_has() {
    let session = Database::new().unwrap().session();
    let create = "CREATE TABLE t (k INT PRIMARY KEY, s TEXT);
                  INSERT INTO t SELECT value, 's' || value FROM generate_series(1, 1000);
                  PREPARE range (BIGINT) AS SELECT count(s) FROM t WHERE k BETWEEN $1 AND $1 + 9;
                  PREPARE written (INT) AS UPDATE t SET s = 'x' WHERE k = $1";
    session.execute(create).unwrap();
    let shown = |sql: &str| {
        let rows = rows(session.query(sql).and_then(nearside::ResultStream::collect_all));
        rows.map(|rows| rows.join("\n"))
    };
    let plan = shown("EXPLAIN EXECUTE range (5)").unwrap();
    assert!(plan.contains("k >= 5 AND k <= 14"), "{plan}");
    // No value of the column's type: the comparison is another one.
    let plan = shown("EXPLAIN EXECUTE range (5000000000)").unwrap();
    assert!(!plan.contains("k >= 5"), "{plan}");
    let ran = shown("EXPLAIN ANALYZE EXECUTE range (5)").unwrap();
    assert!(ran.contains("k >= 5 AND k <= 14"), "{ran}");
    let plan = shown("EXPLAIN EXECUTE written (7)").unwrap();
    assert!(plan.contains("k = 7"), "{plan}");
    for (sql, words) in [
        ("EXPLAIN ANALYZE EXECUTE written (7)", "it would write"),
        ("EXPLAIN EXECUTE range", "1 parameters, and 0 values"),
        ("EXPLAIN EXECUTE none (7)", "'none' does not exist"),
    ] {
        let error = shown(sql).unwrap_err();
        assert!(error.contains(words), "{sql}: {error}");
    }
    assert_eq!(shown("SELECT count(*) FROM t WHERE s = 'x'").unwrap(), "0");
}

#[test]
fn a_nan_of_either_sign_is_the_one() {
    let session = Database::new().unwrap().session();
    let found = |text: &str| rows(session.query(text).and_then(nearside::ResultStream::collect_all)).unwrap();
    for (float, nans) in [
        ("DOUBLE", [f64::NAN, -f64::NAN].map(ScalarValue::from)),
        ("REAL", [f32::NAN, -f32::NAN].map(ScalarValue::from)),
    ] {
        let create = format!(
            "CREATE TABLE f (k BIGINT PRIMARY KEY, x {float});
             INSERT INTO f VALUES (1, 1.5), (2, 'NaN'), (3, -0.0), (4, 'Infinity'), (5, NULL), (6, -('NaN'::{float}))"
        );
        session.execute(&create).unwrap();
        let conditions = ["x < #", "x <= #", "x = #", "x <> #", "x > #", "x >= #", "# > x", "x IS DISTINCT FROM #"];
        let more = ["x IN (#, 1.5)", "x NOT IN (#)", "x BETWEEN 0 AND #", "nullif(x, #) IS NULL", "x + # = x"];
        for condition in conditions.into_iter().chain(more) {
            let query = |value: &str| format!("SELECT k FROM f WHERE {}", condition.replace('#', value));
            let plain = found(&query(&format!("'NaN'::{float}")));
            for written in [format!("-('NaN'::{float})"), format!("('Infinity'::{float} - 'Infinity'::{float})")] {
                assert_eq!(found(&query(&written)), plain, "{condition} of {written}");
            }
            let prepared = session.prepare(&query("$1")).unwrap();
            for nan in &nans {
                let given = prepared.query(std::slice::from_ref(nan)).and_then(nearside::ResultStream::collect_all);
                assert_eq!(rows(given).unwrap(), plain, "{condition} of {nan:?}");
            }
        }
        let insert = session.prepare("INSERT INTO f VALUES ($1, $2)").unwrap();
        let delete = session.prepare("DELETE FROM f WHERE x >= $1 AND k > 6").unwrap();
        for nan in &nans {
            insert.run(&[ScalarValue::from(7_i64), nan.clone()]).unwrap();
            assert_eq!(found("SELECT k, x FROM f WHERE x = 'NaN' AND k > 6"), ["7|NaN"]);
            delete.run(std::slice::from_ref(nan)).unwrap();
            assert_eq!(found("SELECT count(*) FROM f"), ["6"]);
        }
        session.execute("DROP TABLE f").unwrap();
    }
}

#[test]
fn a_kept_plan_does_not_keep_rows() {
    let database = Database::new().unwrap();
    let session = database.session();
    session
        .execute("CREATE TABLE t AS SELECT value AS k, value * 12345 AS v FROM generate_series(1, 1000000)")
        .unwrap();
    let full = database.budget().used_bytes();
    let prepared = session.prepare("SELECT v FROM t WHERE k = $1").unwrap();
    let once = |k: i64| prepared.query(&[k.into()]).unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>();
    assert_eq!((once(5), once(6)), (1, 1));
    assert_eq!(session.query("SELECT v FROM t WHERE k = 5").unwrap().collect_all().unwrap().len(), 1);
    session.execute("TRUNCATE t").unwrap();
    // A task of a query that has given all its rows may end a little later, and drops its snapshot then.
    let deadline = Instant::now() + Duration::from_secs(20);
    while database.budget().used_bytes() >= full / 10 {
        assert!(Instant::now() < deadline, "{} of {full} bytes are still held", database.budget().used_bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(once(5), 0);
}

#[test]
fn system_views_are_read_anew() {
    let session = Database::new().unwrap().session();
    session.execute("CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 10)").unwrap();
    let prepared = session.prepare("SELECT count(*) FROM nearside.columns WHERE \"table\" = $1").unwrap();
    let count = || rows(prepared.query(&["t".into()]).and_then(nearside::ResultStream::collect_all)).unwrap();
    let once = count();
    assert_eq!(once, ["1"]);
    let rows_of = session.prepare("SELECT rows FROM nearside.columns WHERE \"table\" = 't'").unwrap();
    let shown = || rows(rows_of.query(&[]).and_then(nearside::ResultStream::collect_all)).unwrap();
    assert_eq!(shown(), ["10"]);
    session.execute("INSERT INTO t VALUES (11)").unwrap();
    assert_eq!(shown(), ["11"]);
}

#[test]
fn values_that_do_not_fit_the_column_are_compared_as_they_are() {
    let session = Database::new().unwrap().session();
    session.execute("CREATE TABLE t (a INT, c DECIMAL(10, 2)); INSERT INTO t VALUES (2, 1.50)").unwrap();
    let found = |sql: &str, value: ScalarValue| {
        rows(session.prepare(sql).unwrap().query(&[value]).and_then(nearside::ResultStream::collect_all)).unwrap()
    };
    let fraction = ScalarValue::Decimal128(Some(25), 2, 1);
    let exact = ScalarValue::Decimal128(Some(20), 2, 1);
    assert_eq!(found("SELECT a FROM t WHERE a = $1", fraction.clone()), [""; 0]);
    assert_eq!(found("SELECT a FROM t WHERE a < $1", fraction), ["2"]);
    assert_eq!(found("SELECT a FROM t WHERE a = $1", exact), ["2"]);
    assert_eq!(found("SELECT c FROM t WHERE c = $1", ScalarValue::Decimal128(Some(1501), 4, 3)), [""; 0]);
    assert_eq!(found("SELECT a FROM t WHERE a < $1", ScalarValue::Int64(Some(1 << 40))), ["2"]);
    assert_eq!(found("SELECT c FROM t WHERE c = $1", ScalarValue::Decimal128(Some(1500), 4, 3)), ["1.50"]);
}

#[test]
fn execute_takes_constants() {
    let session = Database::new().unwrap().session();
    session
        .execute(
            "CREATE TABLE t AS SELECT value AS k, DATE '2024-01-01' + value::INT AS d FROM generate_series(1, 100)",
        )
        .unwrap();
    session.execute("PREPARE p AS SELECT k FROM t WHERE d = $1; PREPARE q AS SELECT k FROM t WHERE k = $1").unwrap();
    let found = |sql: &str| rows(session.query(sql).and_then(nearside::ResultStream::collect_all)).unwrap();
    assert_eq!(found("EXECUTE p(DATE '2024-01-08')"), ["7"]);
    assert_eq!(found("EXECUTE p(DATE '2024-01-08' + INTERVAL '1 day')"), ["8"]);
    assert_eq!(found("EXECUTE q(1e1)"), ["10"]);
    assert_eq!(found("EXECUTE q(-(-5))"), ["5"]);
    assert_eq!(found("EXECUTE q('7')"), ["7"]);
    // A declared type is the value's type; an inferred one is only a guess at it.
    session.execute("PREPARE b (INT) AS SELECT 7 / $1 AS x; PREPARE f (BOOLEAN) AS SELECT $1 AS x").unwrap();
    assert_eq!((found("EXECUTE b(2.0)"), found("EXECUTE b(2.5)")), (vec!["3".to_string()], vec!["2".to_string()]));
    assert_eq!(found("EXECUTE f('yes')"), ["true"]);
    let error = |sql: &str| session.execute(sql).map(|_| ()).unwrap_err().to_string();
    assert!(error("UPDATE t SET k = 1, k = 2").contains("set twice"));
    assert!(error("EXECUTE q(random())").contains("must be a constant, and random() is not"));
    assert!(error("EXECUTE q((SELECT 1))").contains("must be a constant"));
    assert!(error("EXECUTE q(1 / 0)").to_lowercase().contains("zero"), "{}", error("EXECUTE q(1 / 0)"));
    let too_large = error("EXECUTE q(9223372036854775807 + 1)");
    assert!(too_large.to_lowercase().contains("overflow"), "{too_large}");
}

/// Prepared, by name and as text: each in a database of its own.
#[test]
fn values_in_a_prepared_write_are_values_in_its_text() {
    let new = || {
        let session = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap().session();
        session
            .execute("CREATE TABLE w (k INT UNIQUE, s VARCHAR(9) DEFAULT 'none', f DOUBLE, c CHAR(4) DEFAULT 's1')")
            .unwrap();
        session.execute("INSERT INTO w SELECT value, 's' || value, value / 4.0 FROM generate_series(1, 30)").unwrap();
        session
    };
    let sessions = [new(), new(), new()];
    let all = |session: &Session| rows(session.query("SELECT * FROM w").and_then(nearside::ResultStream::collect_all));
    let done = |outcome: Result<nearside::Outcome, nearside::Error>| match outcome {
        Ok(nearside::Outcome::Done(done)) => Ok(done.to_string()),
        Ok(nearside::Outcome::Rows(_)) => panic!("a statement that writes gives no rows"),
        Err(_) => Err(()),
    };
    let mut outcomes = [0, 0];
    for (sql, kinds) in WRITES {
        let prepared = sessions[0].prepare(sql).unwrap();
        assert_eq!(prepared.parameter_types().len(), kinds.len(), "{sql}");
        sessions[1].execute(&format!("PREPARE p AS {sql}")).unwrap();
        for values in combinations(kinds).into_iter().step_by(2) {
            let mut text = sql.to_string();
            for (place, (_, written)) in values.iter().enumerate().rev() {
                text = text.replace(&format!("${}", place + 1), written);
            }
            let written: Vec<&str> = values.iter().map(|(_, written)| written.as_str()).collect();
            let scalars: Vec<ScalarValue> = values.iter().map(|(value, _)| value.clone()).collect();
            let expected = done(sessions[2].execute(&text));
            outcomes[usize::from(expected.is_ok())] += 1;
            assert_eq!(done(prepared.run(&scalars)), expected, "{text}");
            assert_eq!(done(sessions[1].execute(&format!("EXECUTE p({})", written.join(", ")))), expected, "{text}");
            let there = all(&sessions[2]);
            assert_eq!(all(&sessions[0]), there, "{text}");
            assert_eq!(all(&sessions[1]), there, "{text}");
        }
        sessions[1].execute("DEALLOCATE p").unwrap();
    }
    assert!(outcomes.iter().all(|&n| n > 20), "some fit, some do not: {outcomes:?}");
}

/// What is planned once asks for the moment of each run.
#[test]
fn a_prepared_write_has_the_moment_of_its_run() {
    let session = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap().session();
    session
        .execute("CREATE TABLE m (k INT PRIMARY KEY, at TIMESTAMP, made TIMESTAMPTZ DEFAULT now(), day DATE)")
        .unwrap();
    session.execute("SET TimeZone = 'Asia/Tokyo'").unwrap();
    let one = |sql: &str| rows(session.query(sql).and_then(nearside::ResultStream::collect_all)).unwrap()[0].clone();
    let texts = [
        "INSERT INTO m (k, at, day) VALUES ($1, CURRENT_TIMESTAMP, now()::DATE)",
        "INSERT INTO m (k) VALUES ($1) ON CONFLICT (k) DO UPDATE SET at = now(), day = CURRENT_DATE",
        "UPDATE m SET at = now() + INTERVAL '0 s', made = now() WHERE k = $1",
    ];
    let prepared: Vec<_> = texts.iter().map(|sql| session.prepare(sql).unwrap()).collect();
    for key in 0..10 {
        for write in &prepared {
            for transaction in [false, true] {
                let before = one("SELECT clock_timestamp()::TIMESTAMP");
                if transaction {
                    session.execute("BEGIN").unwrap();
                }
                if transaction && std::ptr::eq(write, &prepared[0]) {
                    session.execute(&format!("DELETE FROM m WHERE k = {key}")).unwrap();
                }
                write.run(&[ScalarValue::from(key)]).unwrap();
                let is_right = format!(
                    "SELECT at BETWEEN TIMESTAMP '{before}' AND clock_timestamp()::TIMESTAMP AND day = CURRENT_DATE \
                     AND ({} OR at = now()::TIMESTAMP) FROM m WHERE k = {key}",
                    !transaction
                );
                assert_eq!(one(&is_right), "true", "{before}");
                if transaction {
                    session.execute("COMMIT").unwrap();
                }
            }
        }
    }
    assert_eq!(one("SELECT count(DISTINCT at) = count(*) FROM m"), "true");
}

#[test]
fn texts_of_clients_are_read_as_texts_in_statements() {
    let session = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap().session();
    session
        .execute("CREATE TABLE t (k INT PRIMARY KEY, b BYTEA, ts TIMESTAMP, c TIME, d DATE, n DECIMAL(9, 2), f DOUBLE)")
        .unwrap();
    let insert = session.prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)").unwrap();
    let select = session.prepare("INSERT INTO t SELECT $1, $2, $3, $4, $5, $6, $7").unwrap();
    let texts = ["\\x41", "2024-01-31 10:00+02", "1030", "2024-01-31", "1.555", "1e3"];
    let row = |key: &str| -> Vec<ScalarValue> {
        std::iter::once(key).chain(texts).map(|text| ScalarValue::Utf8(Some(text.into()))).collect()
    };
    let count = |prepared: &nearside::Prepared, text: &str| {
        let text = ScalarValue::Utf8(Some(text.into()));
        let nearside::Outcome::Done(done) = prepared.run(&[text]).unwrap() else { panic!("a write gave rows") };
        done.rows
    };
    insert.run(&row("1")).unwrap();
    select.run(&row("2")).unwrap();
    let literals = texts.map(|text| format!("'{text}'")).join(", ");
    session.execute(&format!("INSERT INTO t VALUES ('3', {literals})")).unwrap();
    let distinct = "SELECT DISTINCT b::TEXT, ts::TEXT, c::TEXT, d::TEXT, n, f, count(*) OVER () FROM t";
    assert_eq!(
        rows(session.query(distinct).and_then(nearside::ResultStream::collect_all)).unwrap(),
        ["\\x41|2024-01-31 10:00:00|10:30:00|2024-01-31|1.56|1000.0|3"]
    );
    for (column, text) in [("b", "\\x41"), ("ts", "2024-01-31 10:00-08"), ("c", "10:30"), ("n", "1.56")] {
        let update = session.prepare(&format!("UPDATE t SET {column} = $1 WHERE {column} = $1")).unwrap();
        assert_eq!(count(&update, text), Some(3), "{column}");
    }
    // As exact as it is written.
    let exact = session.prepare("DELETE FROM t WHERE n = $1").unwrap();
    assert_eq!(count(&exact, "1.559"), Some(0));
    let mut wrong = row("4");
    wrong[1] = ScalarValue::Utf8(Some("\\x4".into()));
    for prepared in [&insert, &select] {
        let error = prepared.run(&wrong).unwrap_err().to_string();
        assert!(error.contains("two hexadecimal digits are a byte"), "{error}");
    }
}

#[test]
fn types_of_a_prepared_write_are_those_of_its_columns() {
    use nearside::arrow::datatypes::DataType::{Date32, Float64, Int32, Utf8View};
    let session = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap().session();
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, s TEXT, f DOUBLE, d DATE)").unwrap();
    for (sql, expected) in [
        ("INSERT INTO t VALUES ($1, $2, $3, $4)", vec![Some(Int32), Some(Utf8View), Some(Float64), Some(Date32)]),
        ("INSERT INTO t (d, k) SELECT $2, $1", vec![Some(Int32), Some(Date32)]),
        ("UPDATE t SET d = $1 WHERE f > $2 AND k = 3", vec![Some(Date32), Some(Float64)]),
        ("DELETE FROM t WHERE d < $1", vec![Some(Date32)]),
        (
            "INSERT INTO t (k) VALUES ($1) ON CONFLICT (k) DO UPDATE SET d = $2, f = t.f + $3 WHERE t.s <> $4",
            vec![Some(Int32), Some(Date32), Some(Float64), Some(Utf8View)],
        ),
    ] {
        assert_eq!(session.prepare(sql).unwrap().parameter_types(), expected, "{sql}");
    }
    for (sql, part) in [
        ("INSERT INTO t (k) VALUES ($2)", "without gaps"),
        ("INSERT INTO t (k, d) VALUES ($1, $1)", "parameter $1 is written to columns of the types INTEGER and DATE"),
        ("INSERT INTO t (k) VALUES ($1) ON CONFLICT (k) DO UPDATE SET d = $1", "$1 is"),
        ("INSERT INTO nowhere VALUES ($1)", "nowhere"),
        ("INSERT INTO t (k) VALUES (1) ON CONFLICT (d) DO NOTHING", "ON CONFLICT (d)"),
        ("DROP TABLE t", "only queries, INSERT, UPDATE and DELETE"),
    ] {
        let error = session.prepare(sql).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{sql}: {error}");
    }
}
