//! What users see has no word of the planner's library: names of columns, messages, EXPLAIN, DESCRIBE.

use nearside::{Database, Outcome, Session};

const SETUP: &str = "
    CREATE TABLE t (i INT, d DECIMAL(10, 2), s TEXT, f DOUBLE, ts TIMESTAMP, l INT[]);
    INSERT INTO t VALUES (1, 1.5, 'a', 1.5, '2020-01-01', [1, 2]), (2, 2.5, 'b', 2.5, '2020-01-02', [3]);
    CREATE TABLE u (i INT, s TEXT);
    CREATE TABLE chars (c CHAR(4))";

fn session() -> Session {
    let session = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap().session();
    for piece in session.statements(SETUP).unwrap() {
        session.execute(&piece.sql).unwrap();
    }
    session
}

fn headers(session: &Session, sql: &str) -> Vec<String> {
    let rows = session.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let names = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    for batch in rows {
        let batch = batch.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let of_batch: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(of_batch, names, "{sql}");
    }
    names
}

/// As PostgreSQL 15 names them, but for the types in the comments.
const NAMES: [(&str, &[&str]); 33] = [
    ("SELECT 1, i + 1, -i, 'x', 1.5, NULL FROM t", &["?column?"; 6]),
    ("SELECT i, t.i AS j, s AS \"S\" FROM t", &["i", "j", "S"]),
    ("SELECT count(*), sum(i), sum(i + 1), count(DISTINCT i) FROM t", &["count", "sum", "sum", "count"]),
    ("SELECT count(*), count(*), sum(i), sum(i) FROM t", &["count", "count", "sum", "sum"]),
    (
        "SELECT row_number() OVER (ORDER BY i), sum(i) OVER (PARTITION BY s ORDER BY i ROWS 1 PRECEDING) FROM t",
        &["row_number", "sum"],
    ),
    ("SELECT sum(i) OVER w, rank() OVER w FROM t WINDOW w AS (ORDER BY i)", &["sum", "rank"]),
    ("SELECT unnest(l) FROM t", &["unnest"]),
    ("SELECT unnest(l) + 1 FROM t", &["?column?"]),
    ("SELECT CAST(i AS BIGINT), '5'::INT, '5'::DOUBLE, DATE '2020-01-01' FROM t", &["i", "int4", "float8", "date"]),
    ("SELECT CAST(i + 1 AS BIGINT), CAST(sum(i) AS INT) FROM t GROUP BY i", &["int8", "sum"]),
    ("SELECT CASE WHEN i > 1 THEN 2 ELSE 3 END, CASE WHEN i > 1 THEN 2 ELSE i END FROM t", &["case", "i"]),
    ("SELECT s LIKE 'a%', i IN (1, 2), i IS NULL, i BETWEEN 1 AND 2, NOT (i = 1) FROM t", &["?column?"; 5]),
    ("SELECT (SELECT max(i) FROM t), EXISTS (SELECT 1 FROM t), (SELECT 1)", &["max", "exists", "?column?"]),
    ("SELECT i = ANY (SELECT 1), i = ANY (ARRAY[1]) FROM t", &["?column?"; 2]),
    ("SELECT upper(s), coalesce(s, 'x'), date_trunc('month', ts) FROM t", &["upper", "coalesce", "date_trunc"]),
    ("SELECT length(s), pow(i, 2), power(i, 2), ROW(1, 2) FROM t", &["length", "pow", "power", "row"]),
    // Two names of one function, and a syntax of its own beside it.
    (
        "SELECT trim(s), btrim(s), BTRIM(s), trim(leading 'x' FROM s), ltrim(s) FROM t",
        &["btrim", "btrim", "btrim", "ltrim", "ltrim"],
    ),
    ("SELECT position('a' IN s), strpos(s, 'a'), position('a' IN s) FROM t", &["position", "strpos", "position"]),
    (
        "SELECT substring(s FROM 2), substring(s FROM 2 FOR 1), substring(s, 2), substr(s, 2) FROM t",
        &["substring", "substring", "substring", "substr"],
    ),
    (
        "SELECT extract(YEAR FROM ts), date_part('year', ts), extract(MONTH FROM ts) FROM t",
        &["extract", "date_part", "extract"],
    ),
    (
        "SELECT substring(s FROM 1 FOR 1), count(*) FROM t GROUP BY substring(s FROM 1 FOR 1) ORDER BY 2",
        &["substring", "count"],
    ),
    ("SELECT length(c), c = 'x ', c || 'y' FROM chars", &["length", "?column?", "?column?"]),
    ("SELECT ARRAY[1, 2], l[1] FROM t", &["array", "l"]),
    ("SELECT ARRAY(SELECT i FROM t)", &["array"]),
    ("SELECT sum(i) FILTER (WHERE i > 1), array_agg(i ORDER BY i) FROM t", &["sum", "array_agg"]),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FROM t", &["percentile_cont"]),
    (
        "SELECT i % 2, count(*) FROM t GROUP BY i % 2 HAVING count(*) > 0 ORDER BY sum(i) LIMIT 1",
        &["?column?", "count"],
    ),
    ("SELECT DISTINCT i + 1 FROM t ORDER BY 1", &["?column?"]),
    ("SELECT 1 UNION ALL SELECT i FROM t", &["?column?"]),
    ("SELECT * FROM (SELECT sum(i), s FROM t GROUP BY s) AS x", &["sum", "s"]),
    ("WITH x AS (SELECT count(*) FROM t) SELECT * FROM x", &["count"]),
    ("SELECT * FROM (VALUES (1, 2)) AS v(a, b)", &["a", "b"]),
    ("SELECT s, grouping(s), sum(i) FROM t GROUP BY ROLLUP (s)", &["s", "grouping", "sum"]),
];

#[test]
fn columns_are_called_as_in_postgresql() {
    let session = session();
    for (sql, names) in NAMES {
        assert_eq!(headers(&session, sql), names, "{sql}");
        // From the plan that is kept, and prepared.
        assert_eq!(headers(&session, sql), names, "{sql}");
        let prepared = session.prepare(sql).unwrap().query(&[]).unwrap();
        let fields = prepared.schema().fields().iter().map(|field| field.name().clone());
        assert_eq!(fields.collect::<Vec<_>>(), names, "{sql}");
    }
}

#[test]
fn names_stay_when_values_are_put_in() {
    let session = session();
    let prepared = session.prepare("SELECT sum(i), i + $1 FROM t WHERE i > $2 GROUP BY i").unwrap();
    for value in [1, 2] {
        let rows = prepared.query(&[value.into(), 0.into()]).unwrap();
        assert_eq!(rows.schema().field(0).name(), "sum");
        assert_eq!(rows.schema().field(1).name(), "?column?");
    }
}

#[test]
fn tables_views_and_files_have_names_that_differ() {
    let session = session();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.csv").to_string_lossy().into_owned();
    session
        .execute("CREATE TABLE c AS SELECT count(*), sum(i), sum(i + 1), i + 1, s AS sum_1 FROM t GROUP BY i, s")
        .unwrap();
    assert_eq!(headers(&session, "SELECT * FROM c"), ["count", "sum", "sum_2", "?column?", "sum_1"]);
    session.execute("CREATE VIEW v AS SELECT count(*), max(i), max(i + 1) FROM t").unwrap();
    assert_eq!(headers(&session, "SELECT count, max_1 FROM v"), ["count", "max_1"]);
    session.execute(&format!("COPY (SELECT 1, 2, max(i) FROM t) TO '{file}'")).unwrap();
    assert_eq!(headers(&session, &format!("SELECT * FROM '{file}'")), ["?column?", "?column?_1", "max"]);
}

/// Words of the planner's library and of Arrow's types.
const WORDS: [&str; 28] = [
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt",
    "Float32",
    "Float64",
    "Utf8",
    "Decimal128",
    "Decimal256",
    "Date32",
    "Time64",
    "Timestamp(",
    "List(",
    "Struct(",
    "Interval(",
    "MonthDayNano",
    "Boolean",
    "BinaryView",
    "__unnest",
    "__nearside",
    "__subquery",
    "coerc",
    "DataFusion",
    "datafusion",
    "Error during planning",
    "signature",
    "Span(",
];

fn library_words(text: &str) -> Vec<&'static str> {
    WORDS.into_iter().filter(|word| text.contains(word)).collect()
}

/// Statements that fail, when they are planned or when they run.
const FAULTS: [&str; 78] = [
    "SELECT CAST('NaN'::DOUBLE AS INT)",
    "SELECT CAST(f / 0 AS INT) FROM t",
    "SELECT CAST('abc' AS INT)",
    "SELECT CAST('abc' AS DATE)",
    "SELECT CAST('abc' AS TIMESTAMP)",
    "SELECT CAST('abc' AS DOUBLE)",
    "SELECT CAST('abc' AS BOOLEAN)",
    "SELECT CAST('abc' AS DECIMAL(5, 2))",
    "SELECT CAST(300 AS TINYINT)",
    "SELECT CAST(1e30 AS BIGINT)",
    "SELECT CAST(s AS INT) FROM t",
    "SELECT CAST(123456.78 AS DECIMAL(4, 2))",
    "SELECT i + 'a' FROM t",
    "SELECT s + 1 FROM t",
    "SELECT s + s FROM t",
    "SELECT sum(s) FROM t",
    "SELECT upper(i) FROM t",
    "SELECT foo(i) FROM t",
    "SELECT upper(s, s) FROM t",
    "SELECT substr(s) FROM t",
    "SELECT round('x') FROM t",
    "SELECT i FROM t UNION SELECT s FROM t",
    "SELECT l + 1 FROM t",
    "SELECT i LIKE 'a' FROM t",
    "SELECT NOT i FROM t",
    "SELECT -s FROM t",
    "SELECT i AND s FROM t",
    "SELECT CASE WHEN i THEN 1 ELSE 'a' END FROM t",
    "SELECT CASE WHEN i > 1 THEN i ELSE s END FROM t",
    "SELECT coalesce(i, 'a') FROM t",
    "SELECT i FROM t WHERE s",
    "SELECT i FROM t WHERE i = 'a'",
    "SELECT ts + 1 FROM t",
    "SELECT ts - s FROM t",
    "SELECT date_trunc('foo', ts) FROM t",
    "SELECT extract(foo FROM ts) FROM t",
    "SELECT i FROM t LIMIT 'a'",
    "SELECT i FROM t ORDER BY 5",
    "SELECT i FROM t GROUP BY s",
    "SELECT i, count(*) FROM t",
    "SELECT sum(sum(i + 1)) FROM t",
    "SELECT i FROM t WHERE sum(i) > 1",
    "INSERT INTO t (i, s) VALUES (1)",
    "INSERT INTO t (i) VALUES (X'41')",
    "INSERT INTO t (i) SELECT X'41'",
    "DELETE FROM t, t u",
    "UPDATE t JOIN t u ON t.i = u.i SET i = 1",
    "CREATE TABLE nokey (a INT, UNIQUE (nope))",
    "PREPARE zero AS SELECT $0",
    "INSERT INTO t (t.i) VALUES (1)",
    "EXPLAIN (BUFFERS) SELECT 1",
    "INSERT INTO t (i) VALUES ('abc')",
    "INSERT INTO t (i) VALUES (99999999999)",
    "UPDATE t SET i = 'x'",
    "SELECT * FROM t WHERE i IN (SELECT i, s FROM t)",
    "SELECT (SELECT i, s FROM t)",
    "SELECT 1 / 0",
    "SELECT i / 0 FROM t",
    "SELECT 9223372036854775807 + 1",
    "SELECT lag(i, 'a') OVER (ORDER BY i) FROM t",
    "SELECT lag(i, 1, 'x') OVER (ORDER BY i) FROM t",
    "SELECT ntile(0) OVER (ORDER BY i) FROM t",
    "SELECT sum(i) OVER (ORDER BY s RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT sum(DISTINCT l) FROM t",
    "SELECT l = 1 FROM t",
    "SELECT struct(1, 2) = 1",
    "SELECT [1, 'a']",
    "SELECT i FROM t WHERE i > ALL (SELECT s FROM t)",
    "SELECT * FROM t JOIN u ON t.i = u.s",
    "SELECT generate_series(1, 'a')",
    "SELECT * FROM generate_series('a', 'b')",
    "SELECT lpad('a', 'b')",
    "SELECT position(1 IN s) FROM t",
    "SELECT l[s] FROM t",
    "SELECT unnest(i) FROM t",
    "SELECT avg(ts) FROM t",
    "SELECT bool_and(i) FROM t",
    "SELECT stddev(s) FROM t",
];

#[test]
fn messages_are_in_words_of_sql() {
    let session = session();
    let mut leaks = Vec::new();
    for sql in FAULTS {
        let error = match session.execute(sql) {
            Err(error) => Some(error),
            Ok(Outcome::Rows(rows)) => rows.collect_all().err(),
            Ok(Outcome::Done(_)) => None,
        };
        let Some(error) = error.map(|e| e.to_string()) else {
            // Nothing of the other tables joins; everything else fails.
            assert!(sql.contains("JOIN u") || sql.contains("f / 0"), "{sql} did not fail");
            continue;
        };
        let words = library_words(&error);
        if !words.is_empty() || error.starts_with("internal") || error.contains("Internal") {
            leaks.push(format!("{sql}: {error}"));
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}

#[test]
fn plans_are_in_words_of_sql() {
    let session = session();
    let mut leaks = Vec::new();
    let own = NAMES.iter().map(|(sql, _)| sql.to_string());
    let more = [
        "SELECT i + 1 FROM t WHERE i > 1 AND s = 'a' AND d > 1.5 AND ts > '2020-01-01'",
        "SELECT s, sum(i + 1) FROM t GROUP BY s HAVING sum(i + 1) > 2 ORDER BY 2 DESC LIMIT 3",
        "SELECT TRY_CAST(s AS DOUBLE), CASE WHEN i > 1 THEN 'x' END FROM t WHERE i IN (1, 2, 3) OR s LIKE '%a%'",
        "SELECT * FROM t WHERE i > (SELECT avg(i) FROM t)",
        "SELECT * FROM t JOIN u ON t.i = u.i AND t.s <> u.s",
        "SELECT ts + INTERVAL '1 day', ts > TIMESTAMP '2020-01-01', DATE '2020-01-01' FROM t",
        "SELECT i NOT IN (SELECT i FROM u) FROM t",
    ];
    for sql in own.chain(more.map(str::to_string)) {
        for explain in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
            let rows = session.query(&format!("{explain} {sql}")).unwrap_or_else(|e| panic!("{sql}: {e}"));
            let batches = rows.collect_all().unwrap();
            let text = nearside::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
            if !library_words(&text).is_empty() {
                leaks.push(format!("{explain} {sql}\n{text}"));
            }
        }
    }
    let described = session.query("DESCRIBE t").unwrap().collect_all().unwrap();
    let text = nearside::arrow::util::pretty::pretty_format_batches(&described).unwrap().to_string();
    if !library_words(&text).is_empty() {
        leaks.push(text);
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
