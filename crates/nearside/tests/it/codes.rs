//! PostgreSQL's codes of errors, for statements of all kinds.

use std::collections::BTreeSet;

use nearside::{Database, Error, Result, Session, SqlState};

const SETUP: &str = "
    CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, s TEXT, v VARCHAR(3), d DATE, f DOUBLE PRECISION);
    INSERT INTO t VALUES (1, 1, 'x', 'abc', '2020-01-01', 1.5), (2, 2, 'y', 'd', '2020-01-02', -1);
    CREATE TABLE u (a INT, c INT);
    INSERT INTO u VALUES (1, 1), (1, 2);
    CREATE VIEW w AS SELECT a FROM t;
    CREATE SCHEMA full_one;
    CREATE TABLE full_one.x (a INT);
    PREPARE p AS SELECT 1";

/// Statements that both fail, each with the code that PostgreSQL 15 gives.
const ALIKE: &[(&str, &str)] = &[
    // Syntax.
    ("SELEC 1", "42601"),
    ("SELECT 1 FROM", "42601"),
    ("SELECT (1", "42601"),
    ("SELECT 'x", "42601"),
    ("INSERT INTO t VALUES", "42601"),
    // Names.
    ("SELECT * FROM nothing", "42P01"),
    ("SELECT nothing FROM t", "42703"),
    ("SELECT t.nothing FROM t", "42703"),
    ("SELECT x.a FROM t", "42P01"),
    ("SELECT a FROM t JOIN u ON true", "42702"),
    ("SELECT nothing(1)", "42883"),
    ("SELECT upper(1, 2)", "42883"),
    ("SELECT * FROM t, t", "42712"),
    ("INSERT INTO nothing VALUES (1)", "42P01"),
    ("INSERT INTO t (nothing) VALUES (1)", "42703"),
    ("UPDATE t SET nothing = 1", "42703"),
    ("DELETE FROM nothing", "42P01"),
    ("DROP TABLE nothing", "42P01"),
    ("DROP VIEW nothing", "42P01"),
    ("DROP INDEX nothing", "42704"),
    ("CREATE TABLE y (a nothing)", "42704"),
    ("SELECT CAST(1 AS nothing)", "42704"),
    ("DROP SCHEMA nothing", "3F000"),
    ("CREATE TABLE nothing.x (a INT)", "3F000"),
    ("ALTER TABLE t DROP COLUMN nothing", "42703"),
    ("ALTER TABLE t ADD COLUMN a INT", "42701"),
    ("ALTER TABLE t RENAME COLUMN a TO b", "42701"),
    ("CREATE TABLE t (a INT)", "42P07"),
    ("CREATE VIEW t AS SELECT 1", "42P07"),
    ("CREATE SCHEMA full_one", "42P06"),
    ("DROP SCHEMA full_one", "2BP01"),
    ("CREATE TABLE y (a INT, a INT)", "42701"),
    ("CREATE TABLE y (a INT PRIMARY KEY, b INT PRIMARY KEY)", "42P16"),
    ("DROP TABLE w", "42809"),
    ("DROP VIEW t", "42809"),
    ("EXECUTE nothing", "26000"),
    ("DEALLOCATE nothing", "26000"),
    ("PREPARE p AS SELECT 2", "42P05"),
    ("SET nothing = 1", "42704"),
    ("SHOW nothing", "42704"),
    // Roles.
    ("CREATE ROLE public", "42939"),
    ("CREATE ROLE x LOGIN NOLOGIN", "42601"),
    ("CREATE ROLE x CONNECTION LIMIT -2", "22023"),
    ("CREATE ROLE x VALID UNTIL 'soon'", "22007"),
    ("ALTER ROLE nothing LOGIN", "42704"),
    ("DROP ROLE nothing", "42704"),
    ("SET ROLE nothing", "22023"),
    ("GRANT nothing TO nothing", "42704"),
    // Types.
    ("SELECT 1 + 'x'", "22P02"),
    ("SELECT a + d FROM t WHERE s", "42804"),
    ("SELECT s + 1 FROM t", "42883"),
    ("SELECT a = d FROM t", "42883"),
    ("SELECT CASE WHEN a THEN 1 END FROM t", "42804"),
    ("SELECT CASE WHEN true THEN 1 ELSE d END FROM t", "42804"),
    ("SELECT a FROM t UNION SELECT d FROM t", "42804"),
    ("SELECT a FROM t UNION SELECT a, c FROM u", "42601"),
    ("SELECT a FROM t WHERE a", "42804"),
    ("INSERT INTO t (a, b) VALUES (DATE '2020-01-01', 1)", "42804"),
    ("UPDATE t SET b = DATE '2020-01-01'", "42804"),
    ("SELECT CAST(DATE '2020-01-01' AS BOOLEAN)", "42846"),
    ("SELECT sum(s) FROM t", "42883"),
    ("VALUES (1, 2), (3)", "42601"),
    ("INSERT INTO t (a, b) VALUES (1)", "42601"),
    ("UPDATE t SET b = 1, b = 2", "42601"),
    // Groups and windows.
    ("SELECT a, count(*) FROM u", "42803"),
    ("SELECT c FROM u GROUP BY a", "42803"),
    ("SELECT a FROM u WHERE count(*) > 1", "42803"),
    ("SELECT sum(count(*)) FROM u", "42803"),
    ("SELECT sum(a) OVER nothing FROM u", "42704"),
    ("SELECT a FROM u ORDER BY 3", "42P10"),
    ("SELECT a FROM u GROUP BY 3", "42P10"),
    ("SELECT ntile(0) OVER () FROM u", "22014"),
    ("SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM u", "42P20"),
    ("SELECT sum(a) OVER (ORDER BY a ROWS -1 PRECEDING) FROM u", "22013"),
    // Values.
    ("SELECT 1 / 0", "22012"),
    ("SELECT a / (a - a) FROM t", "22012"),
    ("SELECT 1 % 0", "22012"),
    ("SELECT 1.5 / 0", "22012"),
    ("SELECT CAST(2147483647 AS INT) + CAST(1 AS INT)", "22003"),
    ("SELECT a + CAST(2147483647 AS INT) FROM t", "22003"),
    ("SELECT 9223372036854775807 + 1", "22003"),
    ("SELECT CAST(3000000000 AS INT)", "22003"),
    ("SELECT CAST(a * 100000.0 AS SMALLINT) FROM t", "22003"),
    ("SELECT CAST(12345.6 AS DECIMAL(4, 1))", "22003"),
    ("SELECT CAST('x' AS INT)", "22P02"),
    ("SELECT CAST(s AS INT) FROM t", "22P02"),
    ("SELECT CAST('1.5' AS INT)", "22P02"),
    ("SELECT CAST('99999999999' AS INT)", "22003"),
    ("SELECT CAST('x' AS DOUBLE PRECISION)", "22P02"),
    ("SELECT CAST('maybe' AS BOOLEAN)", "22P02"),
    ("SELECT CAST('x' AS DATE)", "22007"),
    ("SELECT CAST('2020-13-45' AS DATE)", "22008"),
    ("SELECT CAST('x' AS TIMESTAMP)", "22007"),
    ("SELECT CAST('x' AS INTERVAL)", "22007"),
    ("SELECT CAST('x' AS TIME)", "22007"),
    ("SELECT a FROM t WHERE a = 'x'", "22P02"),
    ("SELECT a FROM t WHERE d = 'x'", "22007"),
    ("SELECT ln(0)", "2201E"),
    ("SELECT ln(f) FROM t", "2201E"),
    ("SELECT sqrt(-1)", "2201F"),
    ("SELECT power(-1, 0.5)", "2201F"),
    ("SELECT exp(1000)", "22003"),
    ("SELECT acos(2)", "22003"),
    ("SELECT 'a' ~ '('", "2201B"),
    ("SELECT regexp_replace(s, '[', '') FROM t", "2201B"),
    ("SELECT decode('x', 'hex')", "22023"),
    ("SELECT decode('x', 'nothing')", "22023"),
    ("SELECT TIMESTAMP '2020-01-01' AT TIME ZONE 'nothing'", "22023"),
    ("SELECT extract(nonsense FROM d) FROM t", "22023"),
    ("SELECT date_trunc('nonsense', d) FROM t", "22023"),
    ("SELECT a FROM t LIMIT -1", "2201W"),
    ("SELECT a FROM t OFFSET -1", "2201X"),
    ("SELECT (SELECT a FROM t)", "21000"),
    ("SELECT (SELECT c FROM u WHERE u.a = t.a) FROM t", "21000"),
    ("SELECT generate_series(1, 2, 0)", "22023"),
    // Rows.
    ("INSERT INTO t (a, b) VALUES (1, 1)", "23505"),
    ("INSERT INTO t (a, b) VALUES (3, 3), (3, 4)", "23505"),
    ("UPDATE t SET a = 1", "23505"),
    ("INSERT INTO t (a) VALUES (3)", "23502"),
    ("INSERT INTO t (a, b) VALUES (NULL, 1)", "23502"),
    ("UPDATE t SET b = NULL", "23502"),
    ("INSERT INTO t (a, b, v) VALUES (3, 3, 'abcd')", "22001"),
    ("INSERT INTO t (a, b) VALUES (3000000000, 1)", "22003"),
    ("INSERT INTO t (a, b, d) VALUES (3, 3, 'x')", "22007"),
    ("CREATE UNIQUE INDEX i ON u (a)", "23505"),
    ("ALTER TABLE u ADD COLUMN e INT NOT NULL", "23502"),
    ("INSERT INTO t (a, b) VALUES (3, 3) ON CONFLICT (b) DO NOTHING", "42P10"),
    ("INSERT INTO t (a, b) VALUES (3, 3), (3, 4) ON CONFLICT (a) DO UPDATE SET b = 5", "21000"),
    ("INSERT INTO t (a, b) VALUES (3, 3) ON CONFLICT ON CONSTRAINT nothing DO NOTHING", "42704"),
    // Transactions.
    ("SAVEPOINT s", "25P01"),
    ("ROLLBACK TO s", "25P01"),
    ("RELEASE s", "25P01"),
];

/// The same, where Nearside's code is another than PostgreSQL's.
const OTHERS: &[(&str, &str)] = &[
    // What Nearside does not have, whether or not there is such a thing.
    ("SELECT a FROM u WHERE row_number() OVER () = 1", "0A000"),
    ("SELECT nth_value(a, 0) OVER () FROM u", "0A000"),
    ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT count(*) FROM r) SELECT * FROM r", "0A000"),
];

fn session() -> Session {
    let session = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap().session();
    for piece in session.statements(SETUP).unwrap() {
        session.execute(&piece.sql).unwrap();
    }
    session
}

fn code(outcome: Result<Vec<nearside::arrow::array::RecordBatch>>) -> &'static str {
    outcome.map_or_else(|error| error.code().as_str(), |_| "none")
}

fn run(session: &Session, sql: &str) -> &'static str {
    code(session.query(sql).and_then(|rows| rows.collect_all()))
}

#[test]
fn statements_that_fail_have_postgresqls_codes() {
    let session = session();
    let mut wrong = Vec::new();
    for (sql, expected) in ALIKE.iter().chain(OTHERS) {
        let outcome = session.query(sql).and_then(|rows| rows.collect_all());
        let said = outcome.as_ref().err().map_or_else(String::new, ToString::to_string);
        let found = code(outcome);
        if found != *expected {
            wrong.push(format!("{sql}: {found}, not {expected} ({said})"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_of_errors_has_each_code() {
    let page = include_str!("../../../../docs/errors.md");
    let told: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |state: &SqlState| format!("| `{state}` | {} | {} |", state.name(), state.meaning());
    assert_eq!(told, SqlState::ALL.iter().map(row).collect::<Vec<String>>());
}

#[test]
fn statements_of_transactions_have_codes() {
    let session = session();
    let both = |statements: &[&str], last: &str, expected: &str| {
        for sql in statements {
            run(&session, sql);
        }
        assert_eq!(run(&session, last), expected, "{statements:?}, {last}");
        run(&session, "ROLLBACK");
    };
    both(&["BEGIN"], "BEGIN READ ONLY", "25001");
    both(&["BEGIN", "SELECT a FROM t"], "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "25001");
    both(&["BEGIN", "SELECT 1 / 0"], "SELECT 1", "25P02");
    both(&["BEGIN", "SELECT 1 / 0"], "SAVEPOINT s", "25P02");
    both(&["BEGIN"], "ROLLBACK TO nothing", "3B001");
    both(&["BEGIN READ ONLY"], "INSERT INTO t (a, b) VALUES (5, 5)", "25006");
    both(&["BEGIN"], "ALTER SYSTEM SET nearside.restore_window_s = 5", "25001");
    both(&[], "COMMIT AND CHAIN", "25P01");
    both(&[], "SET LOCAL synchronous_commit = off", "25P01");
}

#[test]
fn what_the_world_does_to_statements_has_codes() {
    let database = Database::builder().threads(2).memory_bytes(1 << 24).build().unwrap();
    let (session, other) = (database.session(), database.session());
    session.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1), (2, 2)").unwrap();
    let large = "CREATE TABLE large AS SELECT value::TEXT || 'some text' AS a FROM generate_series(1, 10000000)";
    assert_eq!(run(&session, large), "53200");
    session.execute("SET statement_timeout = 50").unwrap();
    let long =
        "SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 1000000) AS b(y) WHERE x < y";
    assert_eq!(run(&session, long), "57014");
    session.execute("RESET statement_timeout").unwrap();
    assert_eq!(run(&session, "SELECT * FROM '/nowhere/nothing.csv'"), "58P01");
    assert_eq!(run(&session, "COPY t FROM '/nowhere/nothing.csv'"), "58P01");
    assert_eq!(run(&session, "COPY t TO '/nowhere/nothing.csv'"), "58030");
    assert_eq!(run(&session, "CHECKPOINT"), "22023");
    assert_eq!(run(&session, "SELECT a FROM t FETCH FIRST 1 ROWS WITH TIES"), "42601");
    assert_eq!(run(&session, "CREATE DOMAIN whole AS INT[]"), "0A000");
    // Others are faster.
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    session.execute("SELECT * FROM t").unwrap();
    other.execute("UPDATE t SET b = 3 WHERE a = 1").unwrap();
    let mut error = session.execute("UPDATE t SET b = 4 WHERE a = 1").unwrap_err();
    assert_eq!((error.code(), error.code().name()), (SqlState::SerializationFailure, "serialization_failure"));
    session.execute("ROLLBACK").unwrap();
    // Two wait for each other.
    for (session, a) in [(&session, 1), (&other, 2)] {
        session.execute("BEGIN").unwrap();
        session.execute(&format!("UPDATE t SET b = 5 WHERE a = {a}")).unwrap();
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let outcome = session.execute("UPDATE t SET b = 6 WHERE a = 2");
            session.execute("ROLLBACK").unwrap();
            outcome
        });
        let outcome = other.execute("UPDATE t SET b = 6 WHERE a = 1");
        other.execute("ROLLBACK").unwrap();
        let outcomes = [waits.join().unwrap(), outcome];
        error = outcomes.into_iter().find_map(Result::err).expect("one gives way");
    });
    assert_eq!(error.code(), SqlState::DeadlockDetected);
}

#[test]
fn folders_that_cannot_be_opened_have_codes() {
    let folder = std::env::temp_dir().join(format!("nearside-codes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let opened = Database::open(&folder).unwrap();
    let again = Database::open(&folder).unwrap_err();
    assert_eq!(again.code(), SqlState::ObjectInUse, "{again}");
    drop(opened);
    std::fs::write(folder.join("manifest"), b"nonsense").unwrap();
    let damaged = Database::open(&folder).unwrap_err();
    assert_eq!(damaged.code(), SqlState::DataCorrupted, "{damaged}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn each_code_of_an_sql_statement_is_one_that_there_is() {
    let known: BTreeSet<&str> = SqlState::ALL.iter().map(|state| state.as_str()).collect();
    assert!(ALIKE.iter().chain(OTHERS).all(|(_, code)| known.contains(code)));
    assert_eq!(Error::Cancelled.code().as_str(), "57014");
}
