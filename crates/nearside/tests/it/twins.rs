//! Every operator against its twin: the same SQL by the reference executor, as the plan was written, has to give the
//! same rows, or fail too.

use nearside::arrow::array::{AsArray, RecordBatch};
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, Session};

/// Tables with NULLs, duplicates, keys without a partner, several types, and one without rows.
const TABLES: &str = "
    CREATE TABLE a (k INT, g TEXT, v BIGINT, p DECIMAL(12, 2), d DATE, f DOUBLE, b BOOLEAN);
    INSERT INTO a
    SELECT CASE WHEN value % 11 = 0 THEN NULL ELSE value % 40 END,
           CASE WHEN value % 7 = 0 THEN NULL ELSE 'g' || (value % 5)::TEXT END,
           CASE WHEN value % 13 = 0 THEN NULL ELSE value * 3 - 100 END,
           CASE WHEN value % 17 = 0 THEN NULL ELSE (value % 1000)::DECIMAL(12, 2) / 8 END,
           CASE WHEN value % 19 = 0 THEN NULL ELSE DATE '1995-01-01' + (value % 300)::INT END,
           CASE WHEN value % 23 = 0 THEN NULL ELSE (value % 16)::DOUBLE / 4 END,
           CASE WHEN value % 5 = 0 THEN NULL ELSE value % 2 = 0 END
    FROM generate_series(1, 500);
    CREATE TABLE b (k INT, g TEXT, w BIGINT);
    INSERT INTO b
    SELECT CASE WHEN value % 9 = 0 THEN NULL ELSE 20 + value % 50 END,
           CASE WHEN value % 8 = 0 THEN NULL ELSE 'g' || (value % 6)::TEXT END,
           value
    FROM generate_series(1, 90);
    CREATE TABLE u (k BIGINT PRIMARY KEY, name TEXT);
    INSERT INTO u SELECT value, 'name ' || value::TEXT FROM generate_series(0, 30);
    CREATE TABLE nothing (k INT, g TEXT, v BIGINT);
    CREATE TABLE nulls (k INT);
    INSERT INTO nulls VALUES (NULL), (NULL);
    CREATE TABLE large AS SELECT value AS id, value % 100 AS k, value % 7 AS r FROM generate_series(1, 2000);
    CREATE TABLE lists (id INT, l INT[], m INT[], n TEXT[]);
    INSERT INTO lists VALUES (1, [1, 2, 3], [10], ['a', 'b']), (2, [], [20, 21], NULL), (3, NULL, NULL, []), (4, \
    [NULL, 5], [], [NULL]);
    CREATE TABLE edges (a BIGINT, z BIGINT);
    INSERT INTO edges SELECT value % 37, (value * 7) % 41 FROM generate_series(1, 60);
";

/// Queries that run natively from the first operator to the last.
const NATIVE: &[&str] = &[
    // Joins of every kind, with and without keys, residuals, expressions as keys.
    "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k",
    "SELECT a.k, v, w FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT b.k, v, w FROM a RIGHT JOIN b ON a.k = b.k",
    "SELECT a.k, b.k, v, w FROM a FULL JOIN b ON a.k = b.k",
    "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k AND a.g = b.g",
    "SELECT a.k, v, w FROM a LEFT JOIN b ON a.k = b.k AND v > w",
    "SELECT a.k, b.k, v, w FROM a FULL JOIN b ON a.k = b.k AND v > w",
    "SELECT a.k, v, name FROM a JOIN u ON a.k = u.k",
    "SELECT a.k, v, name FROM a LEFT JOIN u ON a.k = u.k",
    "SELECT a.v, b.w FROM a JOIN b ON a.k + 1 = b.k - 1",
    "SELECT a.v, b.w FROM a LEFT JOIN b ON upper(a.g) = upper(b.g) AND a.k = b.k",
    "SELECT a.v, b.w FROM a JOIN b ON a.v < b.w - 80",
    "SELECT a.v, b.w FROM a LEFT JOIN b ON a.v < b.w - 80",
    "SELECT count(*) FROM a CROSS JOIN b",
    "SELECT * FROM (SELECT k FROM a WHERE v < -90) x CROSS JOIN nulls",
    "SELECT a.v FROM a JOIN nothing n ON a.k = n.k",
    "SELECT a.v, n.v FROM a LEFT JOIN nothing n ON a.k = n.k",
    "SELECT a.v, n.v FROM nothing n FULL JOIN a ON a.k = n.k",
    "SELECT count(*) FROM large x JOIN large y ON x.id = y.id WHERE x.r = 3",
    "SELECT x.k, y.w FROM large x JOIN b y ON x.k = y.k AND x.r = y.w % 7",
    // EXISTS, IN, and their opposites.
    "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w > a.v)",
    "SELECT v FROM a WHERE k IN (SELECT k FROM b)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM nothing)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM nulls)",
    "SELECT v FROM a WHERE k IN (SELECT k FROM b) OR v > 1000",
    "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w < a.v) OR g = 'g1'",
    "SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM nothing) AND v < 0",
    // Scalar subqueries: of no row, of one, correlated.
    "SELECT v FROM a WHERE v > (SELECT avg(v) FROM a)",
    "SELECT v, (SELECT max(w) FROM b) FROM a WHERE k = 7",
    "SELECT v, (SELECT w FROM b WHERE w = 5) AS x, (SELECT w FROM b WHERE w = -1) AS y FROM a WHERE k = 7",
    "SELECT v FROM a WHERE v = (SELECT k FROM nothing)",
    "SELECT g, sum(v) FROM a GROUP BY g HAVING sum(v) > (SELECT sum(v) / 7 FROM a)",
    "SELECT v FROM a WHERE v > (SELECT sum(w) FROM b WHERE b.k = a.k)",
    "SELECT a.v, b.w FROM a JOIN b ON a.k = b.k WHERE a.v + b.w > (SELECT max(w) FROM b)",
    // Aggregates.
    "SELECT count(*), count(k), sum(v), min(p), max(d), avg(f) FROM a",
    "SELECT count(*), count(k), sum(v), min(v), max(g), avg(v) FROM nothing",
    "SELECT g, count(*), count(k), sum(v), sum(p), min(p), max(d), min(g), max(b) FROM a GROUP BY g",
    "SELECT k, v % 3, sum(p) FROM a GROUP BY k, v % 3",
    "SELECT d, b, count(*) FROM a GROUP BY d, b",
    "SELECT f, count(*), avg(p), avg(k) FROM a GROUP BY f",
    "SELECT p, count(*) FROM a GROUP BY p",
    "SELECT g, sum(v) FROM nothing GROUP BY g",
    "SELECT g, count(DISTINCT k), count(DISTINCT v % 4), sum(DISTINCT k) FROM a GROUP BY g",
    "SELECT count(DISTINCT g), count(DISTINCT d) FROM a",
    "SELECT g, count(*) FILTER (WHERE v > 0), sum(v) FILTER (WHERE b), avg(p) FILTER (WHERE k = 3) FROM a GROUP BY g",
    "SELECT g, sum(100 / (k - 3)) FILTER (WHERE k <> 3) FROM a GROUP BY g",
    "SELECT g, bool_and(b), bool_or(b), bit_xor(v), median(v), var_pop(k) FROM a GROUP BY g",
    "SELECT bool_and(b), median(v), approx_distinct(k) FROM a",
    "SELECT bool_and(k > 1), median(v) FROM nothing",
    "SELECT sum(CASE WHEN k = 1 THEN v ELSE 0 END), sum(k + v) FROM a",
    "SELECT k, count(*) FROM large GROUP BY k HAVING count(*) > 19",
    "SELECT id % 100003, sum(k) FROM large GROUP BY id % 100003 HAVING sum(k) > 90",
    "SELECT r, count(DISTINCT k), min(id), max(id) FROM large GROUP BY r",
    // Grouping sets.
    "SELECT k, g, sum(v) FROM a GROUP BY ROLLUP (k, g)",
    "SELECT k, g, b, grouping(k, g), count(*), avg(v), min(d), count(DISTINCT v % 7) FROM a GROUP BY CUBE (k, g, b)",
    "SELECT k, g, b, sum(p), bool_or(b), count(v) FROM a GROUP BY GROUPING SETS ((k, g), (g, b), (k), (k), ())",
    "SELECT k + 1, g, sum(v) FROM nothing GROUP BY CUBE (k + 1, g)",
    "SELECT id % 5003, r, count(*), sum(id), approx_distinct(k) FROM large GROUP BY ROLLUP (r, id % 5003)",
    "SELECT g, sum(v) FROM a GROUP BY ROLLUP (g) HAVING sum(v) > 1000",
    // The order of rows.
    "SELECT g, array_agg(v ORDER BY v) FROM a WHERE g IS NOT NULL GROUP BY g",
    "SELECT g, array_agg(k ORDER BY v DESC, k), first_value(k ORDER BY v, k) FROM a GROUP BY g",
    "SELECT g, last_value(v ORDER BY d, v), any_value(v) IS NULL FROM a GROUP BY g",
    "SELECT r, first_value(id ORDER BY k DESC, id), nth_value(id, 3 ORDER BY k, id) FROM large GROUP BY r",
    "SELECT k, string_agg(g, ',' ORDER BY v DESC) FILTER (WHERE v > 0) FROM a GROUP BY k",
    "SELECT k, median(id), median(r) FROM large GROUP BY k",
    "SELECT median(id), percentile_cont(0.3) WITHIN GROUP (ORDER BY id DESC), median(DISTINCT r) FROM large",
    "SELECT DISTINCT ON (g) g, v FROM a ORDER BY g, v",
    "SELECT count(*) FROM (SELECT DISTINCT ON (k) k, id, r FROM large ORDER BY k, id DESC) x",
    // DISTINCT, UNION, INTERSECT, EXCEPT.
    "SELECT DISTINCT k, g FROM a",
    "SELECT DISTINCT b FROM a",
    "SELECT k FROM a UNION ALL SELECT k FROM b",
    "SELECT k, g FROM a UNION SELECT k, g FROM b",
    "SELECT g FROM a UNION ALL SELECT g FROM nothing UNION ALL SELECT name FROM u",
    "SELECT k FROM a UNION ALL SELECT v FROM a UNION ALL SELECT NULL",
    "SELECT k, g FROM a INTERSECT SELECT k, g FROM b",
    "SELECT k, g FROM a EXCEPT SELECT k, g FROM b",
    "SELECT sum(n) FROM (SELECT k AS n FROM a UNION ALL SELECT w FROM b) x",
    // Values, no table at all.
    "SELECT 1 + 1",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (1 + 2, 'c')) t(x, y)",
    "SELECT v, y FROM a JOIN (VALUES (1, 'one'), (2, 'two')) t(x, y) ON a.k = t.x",
    // Common table expressions, once and twice; views of views.
    "WITH s AS (SELECT k, sum(v) AS total FROM a GROUP BY k) SELECT x.k, x.total FROM s x WHERE x.total = (SELECT \
     max(total) FROM s)",
    "WITH s AS (SELECT k, sum(v) AS total FROM a GROUP BY k) SELECT x.k, y.total FROM s x JOIN s y ON x.k = y.k + 1",
    "WITH s AS (SELECT a.k, w FROM a JOIN b ON a.k = b.k) SELECT * FROM s UNION ALL SELECT * FROM s",
    // Windows: every function, frames of every kind, with NULLs and ties.
    "SELECT v, row_number() OVER (PARTITION BY g ORDER BY v, id) FROM (SELECT *, row_number() OVER (ORDER BY v, k, \
     d) AS id FROM a WHERE v IS NOT NULL) x",
    "SELECT * FROM (SELECT v, rank() OVER (ORDER BY n) AS r FROM (SELECT v, count(*) AS n FROM a JOIN b ON a.k = b.k \
     GROUP BY v) x) y WHERE r < 4",
    "SELECT k, rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w FROM a WINDOW w AS \
     (PARTITION BY g ORDER BY k)",
    "SELECT v, ntile(7) OVER (ORDER BY v), lag(v, 3, 0) OVER (ORDER BY v), lead(v) OVER (PARTITION BY k ORDER BY v) \
     FROM a WHERE v IS NOT NULL",
    "SELECT v, first_value(v) OVER w, last_value(v) OVER w, nth_value(v, 3) OVER w FROM a WHERE v IS NOT NULL WINDOW \
     w AS (PARTITION BY g ORDER BY v ROWS BETWEEN 2 PRECEDING AND 4 FOLLOWING)",
    "SELECT v, sum(v) OVER w, avg(v) OVER w, min(v) OVER w, max(v) OVER w, count(v) OVER w FROM a WHERE v IS NOT \
     NULL WINDOW w AS (PARTITION BY g ORDER BY v ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)",
    "SELECT k, sum(p) OVER w, avg(p) OVER w, min(g) OVER w, max(d) OVER w, sum(f) OVER w FROM a WINDOW w AS (ORDER \
     BY k RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
    "SELECT k, sum(p) OVER w, max(g) OVER w FROM a WINDOW w AS (PARTITION BY b ORDER BY k DESC RANGE BETWEEN 3 \
     PRECEDING AND 2 FOLLOWING)",
    "SELECT k, sum(v) OVER w, count(*) OVER w FROM a WINDOW w AS (ORDER BY k GROUPS BETWEEN 2 PRECEDING AND 1 \
     FOLLOWING)",
    "SELECT d, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '3 days' FOLLOWING) \
     FROM a",
    "SELECT f, count(*) OVER (ORDER BY f RANGE BETWEEN 0.5 PRECEDING AND CURRENT ROW), min(f) OVER (PARTITION BY b \
     ORDER BY k) FROM a",
    "SELECT v, bool_or(b) OVER w, string_agg(g, ',') OVER w FROM a WHERE v IS NOT NULL WINDOW w AS (PARTITION BY k \
     ORDER BY v ROWS 3 PRECEDING)",
    "SELECT v, sum(v) FILTER (WHERE b) OVER (PARTITION BY g ORDER BY v ROWS 9 PRECEDING) FROM a WHERE v IS NOT NULL",
    "SELECT id, sum(k) OVER (PARTITION BY r ORDER BY id ROWS BETWEEN 100 PRECEDING AND CURRENT ROW), max(k) OVER \
     (ORDER BY id ROWS 1000 PRECEDING) FROM large",
    "SELECT id, rank() OVER (ORDER BY k), avg(k) OVER (ORDER BY id) FROM large",
    "SELECT sum(v) OVER (ORDER BY v) FROM nothing",
    "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
    "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
];

/// The same for queries whose rows come in an order.
const ORDERED: &[&str] = &[
    "SELECT v FROM a ORDER BY v",
    "SELECT v, g FROM a ORDER BY g, v DESC",
    "SELECT v, g FROM a ORDER BY g DESC NULLS LAST, v NULLS FIRST",
    "SELECT v FROM a ORDER BY p * 2, v LIMIT 7",
    "SELECT v FROM a ORDER BY d DESC, v LIMIT 5 OFFSET 3",
    "SELECT v FROM a ORDER BY f, v OFFSET 490",
    "SELECT v FROM a ORDER BY v LIMIT 0",
    "SELECT id FROM large ORDER BY k DESC, id LIMIT 10",
    "SELECT k, count(*) AS n FROM a GROUP BY k ORDER BY n DESC, k LIMIT 3",
    "SELECT v FROM nothing ORDER BY v LIMIT 3",
    "SELECT k FROM a UNION SELECT k FROM b ORDER BY k",
    "SELECT x.v FROM (SELECT v FROM a ORDER BY v LIMIT 20) x ORDER BY x.v DESC LIMIT 3",
    "SELECT DISTINCT g FROM a ORDER BY g LIMIT 3",
];

/// Rows from elsewhere, recursion, lists, what every pair of a join is asked.
const FROM_ELSEWHERE: &[&str] = &[
    "SELECT value * 2, value % 7 FROM generate_series(1, 3000) WHERE value % 3 = 1",
    "SELECT count(*), min(value), max(value) FROM range(0, 100000, 7)",
    "SELECT a.v, s.value FROM a JOIN generate_series(-50, 1500, 3) s ON a.v = s.value",
    "SELECT s.value, count(a.v) FROM generate_series(1, 40) s LEFT JOIN a ON a.k = s.value GROUP BY s.value",
    "SELECT value FROM generate_series(DATE '2024-01-31', DATE '2024-12-31', INTERVAL '1 month')",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n, w FROM r JOIN b ON r.n = \
     b.w",
    "WITH RECURSIVE r AS (SELECT a, z FROM edges UNION SELECT r.a, e.z FROM r JOIN edges e ON r.z = e.a) SELECT a, z \
     FROM r",
    "WITH RECURSIVE r (n, t) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, t || 'y' FROM r WHERE n < 9) SELECT n, t FROM r",
    "WITH RECURSIVE r AS (SELECT k FROM a UNION SELECT k % 7 FROM r) SELECT k FROM r",
    "WITH RECURSIVE r AS (SELECT f FROM a UNION SELECT -f FROM r) SELECT count(*), sum(f) FROM r",
    "WITH RECURSIVE r AS (SELECT k FROM nothing UNION ALL SELECT k + 1 FROM r) SELECT * FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 20), s AS (SELECT n AS m FROM r WHERE \
     n < 4 UNION ALL SELECT m + 100 FROM s WHERE m < 300) SELECT n, m FROM r JOIN s ON m % 20 = n % 20",
    "WITH RECURSIVE r AS (SELECT 3 AS n UNION ALL SELECT n - 1 FROM r WHERE n > 0 AND EXISTS (SELECT 1 FROM b WHERE \
     b.w = r.n)) SELECT n FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(id) FROM lists)) SELECT \
     x.n, y.n FROM r x JOIN r y ON x.n <= y.n",
    "WITH RECURSIVE r AS (SELECT 1 AS n, 1::BIGINT AS m UNION ALL SELECT n + 1, m + c FROM r JOIN (SELECT k, count(*) \
     AS c FROM a GROUP BY k) g ON g.k = r.n) SELECT * FROM r",
    "SELECT id, unnest(l) FROM lists",
    "SELECT id, unnest(l), unnest(m), unnest(n) FROM lists",
    "SELECT unnest([[1, 2], [3], []]), id FROM lists",
    "SELECT unnest(unnest([[1, 2], [], [3]])), id FROM lists",
    "SELECT sum(x) FROM (SELECT unnest(range(0, 5000)) AS x FROM lists) y",
    "SELECT g, count(*) FROM (SELECT unnest([g, 'g9']) AS g FROM a) x GROUP BY g",
    "SELECT unnest(named_struct('p', id, 'q', l)) FROM lists",
    "SELECT a.v, b.w FROM a LEFT JOIN b ON a.v < b.w AND a.g || 'x' < b.g",
    "SELECT a.v, b.w FROM a FULL JOIN b ON a.k = b.k AND length(a.g || b.g) > 4 AND a.v > (SELECT avg(v) FROM a)",
    "SELECT a.v, b.w FROM a RIGHT JOIN b ON a.v + b.w = (SELECT max(w) FROM b)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.w > a.v)",
    "SELECT v FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.g = a.g)",
    "SELECT x.id, y.id FROM lists x JOIN lists y ON x.l = y.l",
    "SELECT x.id, y.id FROM lists x JOIN lists y ON x.id = y.id::DOUBLE",
    "SELECT x.* FROM (VALUES (1, (SELECT max(w) FROM b)), ((SELECT min(w) FROM b), 2)) x(p, q)",
    "SELECT NULL AS n, count(*) FROM a",
    "SELECT 1 FROM a LIMIT 2 + 1 OFFSET 1",
    "SELECT struct(k, g) AS s, [v, 1] AS l FROM a WHERE k = 3",
];

/// The same in an order.
const FROM_ELSEWHERE_ORDERED: &[&str] = &[
    "SELECT value FROM generate_series(1, 20000) ORDER BY value DESC LIMIT 5 OFFSET 2",
    "SELECT id, l FROM lists ORDER BY l, id",
    "SELECT x FROM (SELECT unnest([3, 1, 2]) AS x) t ORDER BY x",
    "SELECT v, v + 1 FROM (SELECT v FROM a ORDER BY v DESC NULLS LAST) x LIMIT 4",
    "SELECT value FROM generate_series(1, 5) UNION ALL SELECT value FROM generate_series(9, 7, -1)",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5000) SELECT n FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 500) SELECT n FROM r LIMIT 10 OFFSET 3",
];

/// Queries that fail, whoever runs them.
const FAILING: &[&str] = &[
    "SELECT v, (SELECT w FROM b) FROM a",
    "SELECT v FROM a WHERE v > (SELECT w FROM b WHERE w < 3)",
    "SELECT sum(x) FROM (VALUES (9223372036854775807), (1)) t(x)",
    "SELECT g, sum(v / (k - 3)) FROM a GROUP BY g",
    "SELECT a.v FROM a JOIN b ON a.v / (a.k - 3) = b.k",
];

fn session() -> (Database, Session) {
    let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
    let session = database.session();
    session.execute(TABLES).unwrap();
    (database, session)
}

fn operators(session: &Session, sql: &str) -> Vec<String> {
    let plan = session.query(&format!("EXPLAIN {sql}")).unwrap().collect_all().unwrap();
    let lines =
        |b: &RecordBatch| b.column(0).as_string_view().iter().flatten().map(str::to_lowercase).collect::<Vec<_>>();
    plan.iter().flat_map(lines).collect()
}

fn is_native(session: &Session, sql: &str) -> Result<(), String> {
    let plan = operators(session, sql);
    match plan.iter().all(|line| !line.contains("datafusion")) {
        true => Ok(()),
        false => Err(format!("{sql}\n  {}", plan.join("\n  "))),
    }
}

fn texts(all: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let of_batch = |batch: &RecordBatch| -> Vec<String> {
        let formatters: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        let row = |row| formatters.iter().map(|f| f.value(row).to_string()).collect::<Vec<_>>().join("|");
        (0..batch.num_rows()).map(row).collect()
    };
    all.iter().flat_map(of_batch).collect()
}

/// Rows of the query by the engine and by the reference.
fn check(session: &Session, sql: &str, ordered: bool, failed: &mut Vec<String>) {
    failed.extend(is_native(session, sql).err());
    let ours = session.query(sql).and_then(|rows| rows.collect_all());
    let theirs = session.query_by_reference(sql);
    let sorted = |rows: Vec<RecordBatch>| {
        let mut rows = texts(&rows);
        if !ordered {
            rows.sort();
        }
        rows
    };
    match (ours.map(sorted), theirs.map(sorted)) {
        (Ok(ours), Ok(theirs)) if ours == theirs => {}
        (Ok(ours), Ok(theirs)) => {
            let at = ours.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
            let show = |rows: &[String]| rows.get(at).cloned().unwrap_or_default();
            failed.push(format!(
                "{sql}: {} rows, not {}; first difference '{}', not '{}'",
                ours.len(),
                theirs.len(),
                show(&ours),
                show(&theirs)
            ));
        }
        (ours, theirs) => {
            let of = |side: Result<Vec<String>, nearside::Error>| {
                side.map_or_else(|e| e.to_string(), |r| r.len().to_string())
            };
            failed.push(format!("{sql}: {}, not {}", of(ours), of(theirs)));
        }
    }
}

fn none(failed: &[String]) {
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn rows_are_those_of_the_reference() {
    let (_database, session) = session();
    let mut failed = Vec::new();
    NATIVE.iter().for_each(|sql| check(&session, sql, false, &mut failed));
    ORDERED.iter().for_each(|sql| check(&session, sql, true, &mut failed));
    none(&failed);
}

#[test]
fn rows_from_elsewhere_are_those_of_the_reference() {
    let (_database, session) = session();
    let mut failed = Vec::new();
    FROM_ELSEWHERE.iter().for_each(|sql| check(&session, sql, false, &mut failed));
    FROM_ELSEWHERE_ORDERED.iter().for_each(|sql| check(&session, sql, true, &mut failed));
    none(&failed);
}

#[test]
fn what_fails_by_the_reference_fails() {
    let (_database, session) = session();
    for sql in FAILING {
        assert!(session.query_by_reference(sql).is_err(), "{sql}");
        assert!(session.query(sql).and_then(|rows| rows.collect_all()).is_err(), "{sql}");
        assert!(session.query("SELECT count(*) FROM a JOIN b ON a.k = b.k").and_then(|r| r.collect_all()).is_ok());
    }
}
