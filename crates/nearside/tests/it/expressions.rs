//! Expressions computed twice: by DataFusion's own evaluation over Arrow arrays, which a plain projection runs, and by
//! the engine over integers and codes, which runs what is below a sort.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use nearside::{Database, Session};

/// `id` and 24 rows of numbers, decimals, dates, texts and NULLs, some at the edge of their type.
fn table() -> Session {
    let session = Database::builder().threads(2).build().expect("a database").session();
    session
        .execute(
            "CREATE TABLE t (id INT, a BIGINT, b BIGINT, i INT, price DECIMAL(15, 2), disc DECIMAL(15, 2), tax \
             DECIMAL(12, 4),
             d DATE, e DATE, ts TIMESTAMP, f DOUBLE, g BOOLEAN, s TEXT, u TEXT)",
        )
        .expect("a table");
    let words = ["'PROMO tin'", "'ECONOMY brass'", "''", "NULL", "'13-555'", "'BRAZIL'"];
    let rows: Vec<String> = (0..24i64)
        .map(|n| {
            let null = |at: i64, text: String| if n % 8 == at { "NULL".to_string() } else { text };
            format!(
                "({n}, {}, {}, {}, {}, 0.0{}, {}, {}, DATE '1995-0{}-17', {}, {}, {}, {}, {})",
                null(1, (n * 7 - 60).to_string()),
                null(2, if n == 11 { i64::MAX.to_string() } else { (n % 5 - 2).to_string() }),
                null(3, if n == 10 { i32::MIN.to_string() } else { (n % 6).to_string() }),
                null(4, format!("{}.{:02}", n * 4321 + 901, n)),
                n % 9,
                null(5, format!("-0.{:04}", 1111 + n * 37)),
                null(6, format!("DATE '199{}-1{}-2{}'", n % 8, n % 3, n % 9)),
                n % 9 + 1,
                null(7, format!("TIMESTAMP '20{:02}-03-01 1{}:30:00'", n + 10, n % 9)),
                null(0, format!("{}.5", n - 12)),
                ["true", "false", "NULL"][(n % 3) as usize],
                words[(n % 6) as usize],
                words[(n / 4) as usize],
            )
        })
        .collect();
    session.execute(&format!("INSERT INTO t VALUES {}", rows.join(", "))).expect("rows");
    session
}

/// The rows, or what is wrong.
fn rows(session: &Session, sql: &str) -> Result<RecordBatch, String> {
    let stream = session.query(sql).map_err(|e| e.to_string())?;
    let schema = Arc::clone(stream.schema());
    let batches = stream.collect_all().map_err(|e| e.to_string())?;
    Ok(concat_batches(&schema, &batches).expect("one schema"))
}

fn same(session: &Session, expr: &str) {
    let plain = rows(session, &format!("SELECT id, {expr} AS x FROM t"));
    let engine = rows(session, &format!("SELECT id, x FROM (SELECT id, {expr} AS x FROM t) ORDER BY id"));
    match (plain, engine) {
        (Ok(plain), Ok(engine)) => assert_eq!(plain, engine, "{expr}"),
        (Err(plain), Err(engine)) => assert_eq!(plain, engine, "{expr}"),
        (plain, engine) => panic!("{expr}: {plain:?} and {engine:?}"),
    }
    // As a condition too: of the rows themselves, and above a sort.
    if rows(session, &format!("SELECT id FROM t WHERE {expr}")).is_ok() {
        let plain = rows(session, &format!("SELECT id FROM t WHERE {expr}")).expect("it ran before");
        let above = format!("SELECT id FROM (SELECT * FROM t ORDER BY id LIMIT 100) WHERE {expr}");
        assert_eq!(plain, rows(session, &above).expect("as below"), "{expr}");
    }
}

#[test]
fn numbers_agree() {
    let session = table();
    for expr in [
        "a + i",
        "a - b * 2",
        "-a",
        "a / 3",
        "a % 5",
        "a / b",
        "b * b",
        "i * 1000000",
        "i - 1",
        "price * (1 - disc)",
        "price * (1 - disc) * (1 + tax)",
        "price / 7",
        "price / disc",
        "price % 10",
        "price + tax - i",
        "tax * tax * tax",
        "CAST(price AS DECIMAL(12, 1))",
        "CAST(tax AS DECIMAL(12, 2))",
        "CAST(tax AS BIGINT)",
        "CAST(a AS DECIMAL(20, 3))",
        "CAST(a AS DOUBLE) * f",
        "CAST(price AS DOUBLE)",
        "CAST(b AS INT)",
        "f * 2.5 - f / 3",
        "f / (f + 0.5)",
        "-f",
        "CAST(g AS INT) + 1",
    ] {
        same(&session, expr);
    }
}

#[test]
fn conditions_agree() {
    let session = table();
    for expr in [
        "a > 5 AND NOT (b < 0 OR i = 3)",
        "a BETWEEN b AND 50",
        "d < e",
        "d < DATE '1995-01-01' AND d >= DATE '1994-01-01'",
        "i IN (1, 3, 5)",
        "a NOT IN (-60, -53, 3, 100000)",
        "price > 30000.5 OR tax < -0.13",
        "s = 'BRAZIL'",
        "'ECONOMY' <= s",
        "s = u",
        "s < u",
        "s IN ('BRAZIL', '', 'nothing')",
        "s IS NULL OR u IS NOT NULL",
        "a + b IS NULL",
        "g",
        "NOT g",
        "g IS NOT TRUE",
        "g IS UNKNOWN",
        "(a > 0) = g",
        "f > -3.5 AND f <= 4",
        "f = 0.5",
        "s LIKE 'PROMO%' AND a > -50",
        "s LIKE '%O%' OR i = 2",
        "upper(s) = 'PROMO TIN'",
        "substring(s, 1, 2) IN ('13', 'BR')",
        "b <> 0 AND a / b > 3",
        "b = 0 OR a / b > 3",
        "a IS DISTINCT FROM b",
    ] {
        same(&session, expr);
    }
}

#[test]
fn cases_and_dates_agree() {
    let session = table();
    for expr in [
        "CASE WHEN s = 'BRAZIL' THEN price ELSE 0 END",
        "CASE WHEN s LIKE 'PROMO%' THEN price * (1 - disc) ELSE 0 END",
        "CASE WHEN s = 'BRAZIL' OR s = '' THEN 1 ELSE 0 END",
        "CASE s WHEN 'BRAZIL' THEN a WHEN '' THEN b END",
        "CASE WHEN b <> 0 THEN a / b ELSE -1 END",
        "CASE WHEN b <> 0 THEN a / b > 3 ELSE false END",
        "CASE WHEN a > 0 THEN s ELSE u END",
        "CASE WHEN a > 0 THEN s ELSE 'BRAZIL' END",
        "CASE WHEN a > 50 THEN 'big' WHEN a > 0 THEN 'small' END",
        "CASE WHEN g THEN f ELSE -f END",
        "CASE WHEN g THEN d END",
        "extract(year from d)",
        "extract(month from d) + 1",
        "extract(day from ts)",
        "date_part('quarter', d)",
        "extract(year from ts) * 100 + extract(month from ts)",
        "CAST(d AS TIMESTAMP) < ts",
        "CAST(ts AS DATE)",
        "length(s) + i",
        "substring(s, 1, 2)",
        "upper(u)",
        "coalesce(a, b, 0)",
        "d + INTERVAL '1 month'",
        "nullif(i, 3)",
    ] {
        same(&session, expr);
    }
}

#[test]
fn groups_of_computed_texts_are_counted() {
    let session = table();
    let found = rows(&session, "SELECT substring(s, 1, 2) AS x, count(*) AS n FROM t GROUP BY 1 ORDER BY 1").unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&[found]).unwrap().to_string();
    let cells: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
    for expected in [["13", "4"], ["BR", "4"], ["EC", "4"], ["PR", "4"]] {
        assert!(cells.contains(&expected.to_vec()), "{shown}");
    }
}
