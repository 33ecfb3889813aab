//! One statement for every clause that is refused, and statements in which nothing may be.

use crate::error::Error;
use crate::sql::AnyStatement;

/// Refused, with the words that the error must hold.
const REFUSED: &[(&str, &str)] = &[
    // Behind and within queries.
    ("SELECT 1 FROM (SELECT 1 FROM t FOR UPDATE) AS x", "FOR UPDATE"),
    ("SELECT 1 FROM (SELECT 1 FROM t FOR SHARE SKIP LOCKED) AS x", "FOR SHARE"),
    ("SELECT a FROM t FETCH FIRST 3 PERCENT ROWS ONLY", "PERCENT"),
    ("SELECT TOP 3 a FROM t", "TOP"),
    ("SELECT a INTO UNLOGGED u FROM t", "SELECT .. INTO UNLOGGED"),
    ("SELECT * FROM (SELECT a INTO u FROM t) x", "SELECT .. INTO UNLOGGED, or within a statement"),
    ("SELECT a FROM t LATERAL VIEW explode(b) x AS y", "LATERAL VIEW"),
    ("SELECT a FROM t SORT BY a", "SORT BY"),
    ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY"),
    ("SELECT a FROM t DISTRIBUTE BY a", "DISTRIBUTE BY"),
    ("SELECT a FROM t START WITH a = 1 CONNECT BY b = PRIOR a", "CONNECT BY"),
    ("SELECT a FROM t PREWHERE a > 1", "PREWHERE"),
    ("SELECT a FROM t SETTINGS x = 1", "SETTINGS"),
    ("SELECT a FROM t FORMAT JSON", "FORMAT"),
    ("SELECT a FROM t LIMIT 3 BY a", "LIMIT .. BY"),
    ("SELECT a FROM t ORDER BY a WITH FILL", "WITH FILL"),
    ("SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP", "GROUP BY .. WITH ROLLUP"),
    ("SELECT a, count(*) FROM t GROUP BY a WITH TOTALS", "TOTALS"),
    ("FROM t |> AGGREGATE sum(a) AS s GROUP BY b DESC", "|> AGGREGATE"),
    ("FROM t |> DROP a", "pipe operator"),
    ("FROM t |> SELECT * RENAME a AS b", "* RENAME"),
    ("WITH x(a INT) AS (SELECT 1) SELECT * FROM x", "alias"),
    // Sources.
    ("SELECT * FROM t WITH (NOLOCK)", "WITH (hints)"),
    ("SELECT * FROM pragma(1) WITH ORDINALITY", "WITH ORDINALITY"),
    ("SELECT * FROM UNNEST([1, 2]) AS x WITH OFFSET", "WITH OFFSET"),
    ("SELECT * FROM t PARTITION (p1)", "PARTITION"),
    ("SELECT * FROM t GLOBAL JOIN u ON t.a = u.a", "GLOBAL"),
    ("SELECT * FROM t CROSS APPLY f(a)", "CROSS APPLY"),
    ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2) DEFAULT ON NULL (0))", "DEFAULT ON NULL"),
    ("SELECT * FROM t ASOF JOIN u MATCH_CONDITION (t.a >= u.a) ON t.b = u.b", "ASOF"),
    ("SELECT * FROM generate_series(start => 1, stop => 3)", "named argument"),
    // Expressions.
    ("SELECT a COLLATE \"en_US\" FROM t", "COLLATE"),
    ("SELECT a FROM t ORDER BY a COLLATE \"de\"", "COLLATE"),
    ("SELECT a SIMILAR TO b FROM t", "SIMILAR TO"),
    ("SELECT a RLIKE 'x' FROM t", "RLIKE"),
    ("SELECT a LIKE ANY (l) FROM t", "LIKE ANY"),
    ("SELECT CAST(a AS DATE FORMAT 'YYYY') FROM t", "FORMAT"),
    ("SELECT CONVERT(a, INT) FROM t", "CONVERT"),
    ("SELECT CEIL(a TO DAY) FROM t", "CEIL or FLOOR"),
    ("SELECT EXTRACT(WEEK(MONDAY) FROM a) FROM t", "WEEK"),
    ("SELECT INTERVAL '1' SECOND (3, 2)", "a precision in INTERVAL of what are no seconds"),
    ("SELECT INTERVAL '1' DAY (3)", "a precision in INTERVAL of what are no seconds"),
    ("SELECT a IS NFC NORMALIZED FROM t", "NORMALIZED"),
    ("SELECT a IN UNNEST(b) FROM t", "IN UNNEST"),
    ("SELECT 'a' MEMBER OF (b) FROM t", "MEMBER OF"),
    // Functions.
    ("SELECT abs(a) FILTER (WHERE a > 1) FROM t", "FILTER is not supported for abs()"),
    ("SELECT abs(a) OVER () FROM t", "OVER is not supported for abs()"),
    ("SELECT abs(DISTINCT a) FROM t", "DISTINCT is not supported for abs()"),
    ("SELECT upper(a ORDER BY b) FROM t", "ORDER BY is not supported for upper()"),
    ("SELECT upper(a) WITHIN GROUP (ORDER BY b) FROM t", "WITHIN GROUP"),
    ("SELECT sum(a) IGNORE NULLS FROM t", "IGNORE NULLS"),
    ("SELECT row_number() IGNORE NULLS OVER (ORDER BY a) FROM t", "IGNORE NULLS"),
    ("SELECT row_number() FILTER (WHERE a > 1) OVER (ORDER BY a) FROM t", "FILTER"),
    ("SELECT lag(DISTINCT a) OVER (ORDER BY a) FROM t", "DISTINCT"),
    ("SELECT corr(DISTINCT a, b) FROM t", "DISTINCT"),
    ("SELECT nth_value(a, -1) OVER (ORDER BY a) FROM t", "nth_value"),
    ("SELECT nth_value(a, 0) OVER (ORDER BY a) FROM t", "nth_value"),
    ("SELECT count(s.t.*) FROM s.t", "all columns of a table"),
    ("SELECT array_agg(a LIMIT 3) FROM t", "LIMIT within a call"),
    ("SELECT listagg(a, ',' ON OVERFLOW ERROR) FROM t", "ON OVERFLOW"),
    ("SELECT any_value(a HAVING MAX b) FROM t", "HAVING within a call"),
    ("SELECT group_concat(a SEPARATOR ';') FROM t", "SEPARATOR"),
    ("SELECT f(a)(b) FROM t", "second list of arguments"),
    // Types.
    ("CREATE TABLE x (a INT(4))", "width"),
    ("CREATE TABLE x (a FLOAT(5, 3))", "FLOAT with a scale"),
    ("CREATE TABLE x (a XML)", "type"),
    ("SELECT CAST(1 AS HUGEINT)", "type"),
    // CREATE.
    ("CREATE TABLE x (a INT, b INT GENERATED ALWAYS AS (a * 2) VIRTUAL)", "not stored"),
    ("CREATE TABLE x (a JSONPATH)", "JSONPATH"),
    ("CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES t (a) MATCH PARTIAL)", "MATCH PARTIAL"),
    ("CREATE TABLE x (a TEXT COLLATE \"de\")", "COLLATE"),
    ("CREATE COLLATION c (LOCALE = 'de')", "CREATE or ALTER COLLATION"),
    ("CREATE TABLE x (a INT COMMENT 'c')", "COMMENT"),
    ("CREATE TABLE x (a INT UNIQUE NOT ENFORCED)", "NOT ENFORCED"),
    ("CREATE TABLE x (a INT, UNIQUE NULLS NOT DISTINCT (a))", "NULLS NOT DISTINCT"),
    ("CREATE TABLE x (a INT, INDEX i (a))", "type is not supported: i(a)"),
    ("CREATE TABLE x LIKE t", "LIKE"),
    ("CREATE TABLE x (a INT) INHERITS (t)", "INHERITS"),
    ("CREATE TABLE x (a INT) ON COMMIT DELETE ROWS", "ON COMMIT"),
    ("CREATE TABLE x (a INT) PARTITION BY a", "PARTITION BY"),
    ("CREATE TABLE x (a INT) COMMENT = 'c'", "not supported"),
    ("CREATE OR REPLACE MATERIALIZED VIEW x AS SELECT 1", "MATERIALIZED"),
    ("CREATE VIEW IF NOT EXISTS x AS SELECT 1", "IF NOT EXISTS"),
    ("CREATE VIEW x AS SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
    ("ALTER TABLE t ADD COLUMN a INT FIRST", "FIRST or AFTER"),
    // Writing.
    ("INSERT INTO t VALUES (1) RETURNING a COLLATE \"de\"", "COLLATE"),
    ("INSERT OVERWRITE t VALUES (1) RETURNING a", "RETURNING of INSERT OVERWRITE"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 COLLATE \"de\"", "COLLATE"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 WHERE a SIMILAR TO b", "SIMILAR TO"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = (SELECT 1 FROM u FOR UPDATE)", "FOR UPDATE"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (lower(a)) DO NOTHING", "an expression, COLLATE"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 1 DO NOTHING", "WHERE behind the columns"),
    ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", "ON DUPLICATE KEY"),
    ("INSERT INTO t VALUES (1) AS x ON CONFLICT DO NOTHING", "an alias behind the rows"),
    ("INSERT OVERWRITE t VALUES (1) ON CONFLICT DO NOTHING", "INSERT OVERWRITE"),
    ("INSERT OR IGNORE INTO t VALUES (1)", "OR or IGNORE"),
    ("INSERT INTO t SELECT a FROM u FOR UPDATE", "FOR UPDATE"),
    ("REPLACE INTO t VALUES (1)", "REPLACE INTO"),
    ("SELECT a FROM t SEMI JOIN u USING (a)", "SEMI JOIN"),
    ("DELETE FROM t ORDER BY a LIMIT 1", "ORDER BY or LIMIT in DELETE"),
    ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE RETURNING a", "RETURNING of MERGE"),
    ("MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = 1 WHERE a = 2", "WHERE behind"),
    ("MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT VALUES (a COLLATE \"de\")", "COLLATE"),
    ("COMMENT ON TABLESPACE s IS 'x'", "COMMENT ON TABLESPACE"),
    // The rest.
    ("SET GLOBAL nearside.plan_cache = false", "SET GLOBAL"),
    ("EXPLAIN FORMAT TREE SELECT 1", "EXPLAIN (FORMAT ..)"),
    ("SELECT a ~ ANY (SELECT b FROM u) FROM t", "this operator before ANY or ALL"),
    ("SHOW TABLES LIKE 'a%'", "SHOW"),
    ("SHOW TABLES FROM x", "SHOW TABLES FROM"),
    ("GRANT EXECUTE ON FUNCTION f TO joe", "GRANT and REVOKE of EXECUTE"),
    ("VACUUM FULL t", "FULL"),
];

/// Let through: what stands in them is done, or refused by whoever does it.
const LET_THROUGH: &[&str] = &[
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9), m AS (SELECT 2) SELECT * FROM r, m",
    "SELECT DISTINCT ON (a) a, b FROM t x (a, b) ORDER BY a DESC NULLS LAST OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY",
    "SELECT * EXCLUDE (a) REPLACE (b + 1 AS b) FROM t",
    "SELECT sum(a) OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY c)",
    "SELECT a FROM t WINDOW w AS (PARTITION BY c), v AS w QUALIFY sum(a) OVER v > 1 ORDER BY sum(a) OVER w",
    "SELECT sum(a) OVER w, nth_value(a, 2) IGNORE NULLS OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
     FROM t WINDOW w AS (PARTITION BY c)",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), array_agg(DISTINCT a ORDER BY a), count(*) FILTER (WHERE a \
     > 1) FROM t",
    "SELECT CASE a WHEN 1 THEN CAST(b AS VARCHAR(3)) ELSE TRIM(BOTH 'x' FROM c) END, EXTRACT(YEAR FROM d), INTERVAL '1 \
     day' FROM t",
    "SELECT a > ANY (SELECT b FROM u), a <> ALL (ARRAY[1, 2]), a[1], a[1:2], {'x': 1}, POSITION('a' IN b), SUBSTRING(a \
     FROM 1 FOR 2) FROM t",
    "SELECT a FROM t RIGHT JOIN u USING (a) NATURAL FULL JOIN v",
    "SELECT a FROM t LEFT JOIN u USING (a) NATURAL JOIN v CROSS JOIN LATERAL (SELECT 1) WHERE EXISTS (SELECT 1 FROM w)",
    "SELECT a, grouping(a) FROM t GROUP BY GROUPING SETS ((a), ()), ROLLUP (b) HAVING count(*) > 1",
    "FROM t |> WHERE a > 1 |> AGGREGATE sum(a) AS s GROUP BY b |> ORDER BY s |> LIMIT 3",
    "CREATE OR REPLACE TABLE x (a BIGINT PRIMARY KEY, b DECIMAL(10, 2) NOT NULL DEFAULT 0, c VARCHAR(20) UNIQUE, d \
     INT[], e STRUCT<f INT>)",
    "CREATE TABLE x (a INT, CONSTRAINT k PRIMARY KEY (a)) WITH (placement = 'rr')",
    "CREATE VIEW v (a) AS SELECT 1",
    "CREATE UNIQUE INDEX IF NOT EXISTS i ON t (a, b)",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT DEFAULT 3, DROP COLUMN b",
    "INSERT INTO t (a) VALUES (1), (2)",
    "INSERT OVERWRITE t SELECT 1",
    "UPDATE t SET a = b + 1 WHERE a IN (SELECT 1)",
    "DELETE FROM t WHERE a = 1",
    "TRUNCATE TABLE t",
    "TRUNCATE TABLE t, u RESTRICT",
    "VACUUM ANALYZE t",
    "DROP SCHEMA s CASCADE",
    "SET nearside.plan_cache = false",
    "SET TIME ZONE '+02:00'",
    "EXPLAIN ANALYZE VERBOSE SELECT 1",
    "DESCRIBE t",
    "PREPARE p (INT) AS SELECT $1",
    "EXECUTE p(1)",
    "SHOW COLUMNS FROM t",
    "COPY (SELECT a FROM t) TO 'x.csv'",
    "BEGIN",
];

#[test]
fn every_clause_that_nobody_does_is_refused_by_name() {
    let mut wrong = Vec::new();
    for (sql, words) in REFUSED {
        match AnyStatement::one(sql) {
            Err(Error::Unsupported(text)) if text.contains(words) => {}
            Err(Error::Syntax { message, .. }) if message.contains(words) && message.contains("not supported") => {}
            Err(other) => wrong.push(format!("{sql}: {other:?}")),
            Ok(_) => wrong.push(format!("{sql}: let through")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_done_is_let_through() {
    let refused = LET_THROUGH.iter().filter_map(|sql| AnyStatement::one(sql).err().map(|e| format!("{sql}: {e}")));
    let refused: Vec<String> = refused.collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn long_texts_are_cut_in_errors() {
    let sql = format!("CREATE EXTENSION {}", "t".repeat(500));
    let text = AnyStatement::one(&sql).unwrap_err().to_string();
    assert!(text.len() < 160 && text.ends_with(".."), "{text}");
}
