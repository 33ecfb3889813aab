//! The simple protocol.

use crate::wire::{Wire, code, completed, field, rows, server, shown, status, tags};

#[test]
fn statements_give_rows_or_say_what_was_done() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let said = |all: &[(u8, Vec<u8>)]| (tags(all), completed(all).join(","));
    let mut run = |sql: &str| {
        let all = wire.query(sql);
        said(&all)
    };
    let done = |tag: &str| ("CZ".to_string(), tag.to_string());
    assert_eq!(run("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)"), done("CREATE TABLE"));
    assert_eq!(run("INSERT INTO t VALUES (1, 'one'), (2, NULL)"), done("INSERT 0 2"));
    assert_eq!(run("UPDATE t SET b = 'x' WHERE a = 1"), done("UPDATE 1"));
    assert_eq!(run("SELECT * FROM t ORDER BY a"), ("TDDCZ".into(), "SELECT 2".into()));
    assert_eq!(run("DELETE FROM t WHERE a = 2 RETURNING a"), ("TDCZ".into(), "DELETE 1".into()));
    assert_eq!(run("CREATE TABLE u AS SELECT 1 AS x"), done("SELECT 1"));
    assert_eq!(run("TRUNCATE u"), done("TRUNCATE TABLE"));
    assert_eq!(run("SET application_name = 'me'"), ("CSZ".into(), "SET".into()));
    assert_eq!(run("SHOW application_name"), ("TDCZ".into(), "SHOW".into()));
    assert_eq!(run("START TRANSACTION READ ONLY"), done("START TRANSACTION"));
    assert_eq!(run("COMMIT"), done("COMMIT"));
    assert_eq!(run(" -- nothing\n;"), ("IZ".into(), String::new()));
    assert_eq!(run("SELECT 1 WHERE false"), ("TCZ".into(), "SELECT 0".into()));
    server.stop(crate::wire::WITHIN);
}

#[test]
fn statements_of_a_text_are_one_transaction() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT)");
    let all = wire.query("INSERT INTO t VALUES (1); SELECT count(*) FROM t; SELECT 1/0; INSERT INTO t VALUES (2)");
    assert_eq!((tags(&all), code(&all), status(&all)), ("CTDCTEZ".into(), "22012".into(), 'I'));
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    let all = wire.query("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);");
    assert_eq!((completed(&all).len(), status(&all)), (2, 'I'));
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
    // What was begun in between stays open, with what came before it.
    let all = wire.query("INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4)");
    assert_eq!(status(&all), 'T', "{}", shown(&all));
    wire.query("ROLLBACK");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
    // And what ends in between has ended.
    let all = wire.query("INSERT INTO t VALUES (3); COMMIT; INSERT INTO t VALUES (4); SELECT 1/0");
    assert_eq!((field(&all, b'N', b'C'), status(&all)), ("25P01".into(), 'I'));
    assert_eq!(wire.value("SELECT count(*) FROM t"), "3");
}

#[test]
fn the_status_is_that_of_the_transaction() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    assert_eq!(status(&wire.query("BEGIN")), 'T');
    let all = wire.query("BEGIN");
    assert_eq!((field(&all, b'N', b'C'), status(&all)), ("25001".into(), 'T'));
    assert_eq!(status(&wire.query("SELECT nowhere")), 'E');
    let all = wire.query("SELECT 1");
    assert_eq!((code(&all), status(&all)), ("25P02".into(), 'E'));
    let all = wire.query("COMMIT");
    assert_eq!((completed(&all), status(&all)), (vec!["ROLLBACK".into()], 'I'));
    let all = wire.query("COMMIT");
    assert_eq!((field(&all, b'N', b'C'), field(&all, b'N', b'S')), ("25P01".into(), "WARNING".into()));
    // A failure that only the wire sees is one of the transaction too.
    wire.query("BEGIN");
    assert_eq!(status(&wire.query("COPY nowhere FROM STDIN (FORMAT xml)")), 'E');
    wire.query("ROLLBACK");
    // A savepoint gets it back.
    wire.query("BEGIN; SAVEPOINT a");
    assert_eq!(status(&wire.query("SELECT 1/0")), 'E');
    assert_eq!(status(&wire.query("ROLLBACK TO a")), 'T');
    assert_eq!(status(&wire.query("ROLLBACK")), 'I');
}

#[test]
fn the_transaction_of_a_text_has_no_savepoints_and_no_next_one() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    for last in ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s"] {
        for text in [last.to_string(), format!("SELECT 1; {last}"), format!("{last}; SELECT 1")] {
            let all = wire.query(&text);
            assert_eq!((code(&all), status(&all)), ("25P01".into(), 'I'), "{text}: {}", shown(&all));
        }
    }
    // One that the text begins has both.
    let all = wire.query("SELECT 1; BEGIN READ ONLY; SAVEPOINT s; ROLLBACK TO s; COMMIT AND CHAIN");
    assert_eq!(status(&all), 'T', "{}", shown(&all));
    assert_eq!(wire.value("SHOW transaction_read_only"), "on");
    assert_eq!(status(&wire.query("COMMIT AND NO CHAIN")), 'I');
}

#[test]
fn errors_say_what_where_and_of_which_kind() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let all = wire.query("SELECT 1;\nSELECT 'é', nowhere");
    assert_eq!((code(&all), field(&all, b'E', b'P')), ("42703".into(), "23".into()), "{}", shown(&all));
    assert!(!field(&all, b'E', b'M').contains("line"), "{}", shown(&all));
    assert_eq!((field(&all, b'E', b'S'), field(&all, b'E', b'V')), ("ERROR".into(), "ERROR".into()));
    let all = wire.query("SELEC 1");
    assert_eq!((code(&all), field(&all, b'E', b'P')), ("42601".into(), "1".into()));
    let all = wire.query("SELECT 'open");
    assert_eq!((code(&all), tags(&all)), ("42601".into(), "EZ".into()));
    // It goes on.
    assert_eq!(wire.value("SELECT 7"), "7");
}

#[test]
fn settings_are_told_when_they_change() {
    let (server, _) = server();
    let mut wire = Wire::with(
        &server,
        &[
            ("user", "test"),
            ("database", "nearside"),
            ("application_name", "a'b"),
            ("options", "-c statement_timeout=5s --timezone=Europe/Berlin"),
        ],
    );
    let told = |all: &[(u8, Vec<u8>)], name: &str| {
        all.iter().filter(|(tag, _)| *tag == b'S').find_map(|(_, body)| {
            let mut parts = body.split(|byte| *byte == 0);
            (parts.next() == Some(name.as_bytes())).then(|| String::from_utf8_lossy(parts.next().unwrap()).into_owned())
        })
    };
    for (name, value) in [
        ("application_name", "a'b"),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("server_version", "15.0"),
        ("TimeZone", "Europe/Berlin"),
        ("IntervalStyle", "postgres"),
    ] {
        assert_eq!(told(&wire.greeting, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(wire.value("SHOW statement_timeout"), "5s");
    let all = wire.query("SET TimeZone = 'UTC'");
    assert_eq!(told(&all, "TimeZone").as_deref(), Some("UTC"));
    let all = wire.query("BEGIN; SET LOCAL application_name = 'x'; SELECT 1");
    assert_eq!(told(&all, "application_name").as_deref(), Some("x"));
    let all = wire.query("COMMIT");
    assert_eq!(told(&all, "application_name").as_deref(), Some("a'b"));
    assert_eq!(wire.value("SELECT pg_backend_pid()"), wire.number.to_string());
}

#[test]
fn what_copy_and_functions_by_number_do_not_do_is_said() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.send(&crate::wire::message(b'F', &[0, 0, 0, 1]));
    assert_eq!(code(&wire.until_ready()), "0A000");
    let all = wire.query("COPY (SELECT 1) TO STDOUT (FORCE_QUOTE *)");
    assert_eq!(code(&all), "0A000");
    assert_eq!(rows(&wire.query("SELECT 1")).len(), 1);
}
