//! The extended protocol.

use crate::wire::{
    Wire, bind, close, code, completed, describe, execute, field, flush, parse, raw_rows, rows, run, server, shown,
    status, sync, tags,
};

fn said(wire: &mut Wire, messages: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    wire.send(&messages.concat());
    wire.until_ready()
}

#[test]
fn a_statement_is_prepared_described_and_run() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10)); INSERT INTO t VALUES (1, 'one'), (2, 'two')");
    let all = said(
        &mut wire,
        &[
            parse("s", "SELECT a, b FROM t WHERE a = $1", &[]),
            describe(b'S', "s"),
            bind("", "s", &[1], &[Some(&[0, 0, 0, 2])], &[1, 0]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ],
    );
    assert_eq!(tags(&all), "1tT2TDCZ", "{}", shown(&all));
    assert_eq!(all[1].1, [0, 1, 0, 0, 0, 23]);
    assert_eq!(raw_rows(&all), [[Some(vec![0, 0, 0, 2]), Some(b"two".to_vec())]]);
    // varchar(10)
    assert!(all[2].1.ends_with(&[0, 0, 4, 19, 0xFF, 0xFF, 0, 0, 0, 14, 0, 0]), "{:?}", all[2].1);
    // It is run again, with a text.
    let all = said(&mut wire, &[bind("", "s", &[], &[Some(b"1")], &[]), execute("", 0), sync()]);
    assert_eq!(rows(&all), [[Some("1".into()), Some("one".into())]]);
    let all = said(&mut wire, &[close(b'S', "s"), bind("", "s", &[], &[Some(b"1")], &[]), sync()]);
    assert_eq!((tags(&all), code(&all)), ("3EZ".into(), "26000".into()));
    // What gives no rows.
    let all = said(
        &mut wire,
        &[
            parse("", "INSERT INTO t VALUES ($1, $2)", &[20, 25]),
            describe(b'S', ""),
            bind("", "", &[1, 0], &[Some(&7_i64.to_be_bytes()), None], &[]),
            execute("", 0),
            sync(),
        ],
    );
    assert_eq!((tags(&all), completed(&all)), ("1tn2CZ".into(), vec!["INSERT 0 1".into()]), "{}", shown(&all));
    assert_eq!(all[1].1, [0, 2, 0, 0, 0, 20, 0, 0, 0, 25]);
    assert_eq!(wire.value("SELECT count(*) FROM t WHERE a = 7 AND b IS NULL"), "1");
    let all = said(
        &mut wire,
        &[parse("", " ", &[]), bind("", "", &[], &[], &[]), describe(b'P', ""), execute("", 0), sync()],
    );
    assert_eq!(tags(&all), "12nIZ");
    for (sql, expected) in
        [("SHOW DateStyle", "SHOW"), ("EXPLAIN SELECT 1", "EXPLAIN"), ("SET application_name = 'x'", "SET")]
    {
        let all = said(&mut wire, &[parse("", sql, &[]), describe(b'S', ""), run(sql), sync()]);
        assert_eq!(completed(&all), [expected], "{}", shown(&all));
    }
}

#[test]
fn an_error_skips_what_follows_up_to_sync() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY)");
    let all = said(
        &mut wire,
        &[
            run("INSERT INTO t VALUES (1)"),
            run("INSERT INTO t VALUES (1)"),
            run("INSERT INTO t VALUES (2)"),
            flush(),
            sync(),
        ],
    );
    assert_eq!((tags(&all), code(&all), status(&all)), ("12C12EZ".into(), "23505".into(), 'I'), "{}", shown(&all));
    // They were one transaction.
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    wire.send(&[run("INSERT INTO t VALUES (1)"), run("INSERT INTO t VALUES (2)"), sync()].concat());
    wire.send(&[run("INSERT INTO t VALUES (3)"), sync(), run("SELECT count(*) FROM t"), sync()].concat());
    assert_eq!(tags(&wire.until_ready()), "12C12CZ");
    assert_eq!(tags(&wire.until_ready()), "12CZ");
    assert_eq!(rows(&wire.until_ready()), [[Some("3".into())]]);
}

#[test]
fn many_statements_may_be_on_their_way() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let mut sending = Vec::new();
    for number in 0..500 {
        sending.extend(run(&format!("SELECT {number}")));
        sending.extend(sync());
    }
    wire.send(&sending);
    for number in 0..500 {
        assert_eq!(rows(&wire.until_ready()), [[Some(number.to_string())]]);
    }
}

#[test]
fn rows_are_taken_some_at_a_time() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let begin = [run("BEGIN"), parse("", "SELECT value FROM generate_series(1, 5)", &[])];
    let mut all = said(
        &mut wire,
        &[
            begin.concat(),
            bind("p", "", &[], &[], &[]),
            bind("q", "", &[], &[], &[]),
            execute("p", 2),
            execute("q", 5),
            execute("p", 2),
            sync(),
        ],
    );
    assert_eq!(tags(&all), "12C122DDsDDDDDsDDsZ", "{}", shown(&all));
    // Sync ends no portal of a transaction.
    all.extend(said(&mut wire, &[execute("p", 2), execute("p", 0), execute("q", 0), sync()]));
    let all: Vec<_> = all.into_iter().filter(|(tag, _)| *tag == b'C').collect();
    assert_eq!(completed(&all), ["BEGIN", "SELECT 1", "SELECT 0", "SELECT 0"]);
    // What ends the transaction does.
    let all = said(&mut wire, &[run("COMMIT"), execute("p", 0), sync()]);
    assert_eq!((tags(&all), code(&all)), ("12CEZ".into(), "34000".into()));
    // Without one they end with Sync.
    let all =
        said(&mut wire, &[parse("", "SELECT 1", &[]), bind("p", "", &[], &[], &[]), sync(), execute("p", 0), sync()]);
    assert_eq!(tags(&all), "12Z");
    assert_eq!(code(&wire.until_ready()), "34000");
    // What was done is not done again.
    wire.query("CREATE TABLE t (a INT)");
    let all = said(&mut wire, &[run("INSERT INTO t VALUES (1)"), execute("", 0), sync()]);
    assert_eq!((tags(&all), code(&all)), ("12CEZ".into(), "55000".into()));
}

#[test]
fn names_are_not_taken_twice() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let all = said(&mut wire, &[parse("s", "SELECT 1", &[]), parse("s", "SELECT 2", &[]), sync()]);
    assert_eq!((tags(&all), code(&all)), ("1EZ".into(), "42P05".into()));
    let all = said(&mut wire, &[run("BEGIN"), bind("p", "s", &[], &[], &[]), bind("p", "s", &[], &[], &[]), sync()]);
    assert_eq!((code(&all), status(&all)), ("42P03".into(), 'E'));
    wire.query("ROLLBACK");
    // The unnamed one gives way, and goes with a simple query.
    let all = said(&mut wire, &[parse("", "SELECT 1", &[]), run("SELECT 2"), sync()]);
    assert_eq!(rows(&all), [[Some("2".into())]]);
    wire.query("SELECT 1");
    let all = said(&mut wire, &[bind("", "", &[], &[], &[]), sync()]);
    assert_eq!(code(&all), "26000");
    // The one with a name stays.
    let all = said(&mut wire, &[bind("", "s", &[], &[], &[]), execute("", 0), sync()]);
    assert_eq!(rows(&all), [[Some("1".into())]]);
}

#[test]
fn what_does_not_fit_the_statement_is_an_error() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let mut refused = |messages: &[Vec<u8>]| {
        let all = said(
            &mut wire,
            &[messages.concat(), sync()].concat().chunks(usize::MAX).map(<[u8]>::to_vec).collect::<Vec<_>>(),
        );
        code(&all)
    };
    let one = || parse("", "SELECT $1::int, 2", &[]);
    assert_eq!(refused(&[one(), bind("", "", &[], &[], &[])]), "08P01");
    assert_eq!(refused(&[one(), bind("", "", &[], &[Some(b"1"), Some(b"2")], &[])]), "08P01");
    assert_eq!(refused(&[one(), bind("", "", &[0, 0], &[Some(b"1")], &[])]), "08P01");
    assert_eq!(refused(&[one(), bind("", "", &[7], &[Some(b"1")], &[])]), "08P01");
    assert_eq!(refused(&[one(), bind("", "", &[], &[Some(b"1")], &[0, 0, 0])]), "08P01");
    assert_eq!(refused(&[one(), bind("", "", &[1], &[Some(b"1")], &[])]), "22P03");
    assert_eq!(refused(&[one(), bind("", "", &[], &[Some(b"x")], &[])]), "22P02");
    assert_eq!(refused(&[one(), bind("", "", &[], &[Some(b"\xff")], &[])]), "22021");
    assert_eq!(refused(&[parse("", "SELECT $1::text", &[]), bind("", "", &[], &[Some(b"\xff")], &[])]), "22021");
    assert_eq!(refused(&[parse("", "SELECT 1; SELECT 2", &[])]), "42601");
    assert_eq!(refused(&[parse("", "SELECT $1", &[600])]), "0A000");
    assert_eq!(refused(&[describe(b'S', "none")]), "26000");
    assert_eq!(refused(&[describe(b'P', "none")]), "34000");
    assert_eq!(refused(&[execute("none", 0)]), "34000");
    assert_eq!(rows(&wire.query("SELECT 1")).len(), 1);
}

#[test]
fn a_plan_that_gives_other_types_is_not_run() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT)");
    said(&mut wire, &[parse("s", "SELECT * FROM t", &[]), sync()]);
    wire.query("DROP TABLE t; CREATE TABLE t (a BIGINT)");
    let all = said(&mut wire, &[bind("", "s", &[], &[], &[]), execute("", 0), sync()]);
    assert_eq!(code(&all), "0A000");
}

#[test]
fn parameters_have_the_types_that_clients_declare() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY, n NUMERIC(10, 2)); INSERT INTO t VALUES (1, 12.34)");
    let mut one = |sql: &str, types: &[u32], format: i16, value: &[u8]| {
        let all = said(
            &mut wire,
            &[parse("", sql, types), bind("", "", &[format], &[Some(value)], &[]), execute("", 0), sync()],
        );
        assert_eq!(tags(&all), "12DCZ", "{sql}: {}", shown(&all));
        rows(&all).remove(0).remove(0).unwrap()
    };
    assert_eq!(one("SELECT $1", &[], 0, b"as it is"), "as it is");
    assert_eq!(one("SELECT $1", &[23], 1, &[0, 0, 0, 9]), "9");
    assert_eq!(one("SELECT $1 + 1", &[20], 0, b"41"), "42");
    assert_eq!(one("SELECT count(*) FROM t WHERE a = $1", &[20], 1, &1_i64.to_be_bytes()), "1");
    assert_eq!(one("SELECT count(*) FROM t WHERE a = $1", &[20], 1, &i64::MAX.to_be_bytes()), "0");
    assert_eq!(one("SELECT count(*) FROM t WHERE n = $1", &[1700], 0, b"12.34"), "1");
    assert_eq!(one("SELECT count(*) FROM t WHERE n < $1", &[1700], 0, b"12.3401"), "1");
    assert_eq!(one("SELECT count(*) FROM t WHERE n = $1", &[], 1, &[0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 13, 72]), "1");
    assert_eq!(one("SELECT $1::int[]", &[], 0, b"{1,NULL,3}"), "{1,NULL,3}");
    assert_eq!(one("SELECT a FROM t WHERE a = ANY($1)", &[1007], 0, b"{1,2}"), "1");
    assert_eq!(one("SELECT $1::date + 1", &[1082], 1, &0_i32.to_be_bytes()), "2000-01-02");
    assert_eq!(one("SELECT $1::timestamptz", &[1184], 0, b"2024-01-01 12:00:00+02"), "2024-01-01 10:00:00+00");
    assert_eq!(one("SELECT $1::interval", &[], 0, b"1 day 2 hours"), "1 day 02:00:00");
    assert_eq!(one("SELECT $1::bytea", &[17], 1, b"ab"), "\\x6162");
    assert_eq!(one("SELECT $1 || 'x'", &[1043], 0, b"y"), "yx");
}

#[test]
fn transactions_go_through_both_protocols() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT)");
    assert_eq!(status(&said(&mut wire, &[run("BEGIN"), sync()])), 'T');
    assert_eq!(status(&said(&mut wire, &[run("INSERT INTO t VALUES (1)"), sync()])), 'T');
    let all = said(&mut wire, &[run("SELECT 1/0"), sync()]);
    assert_eq!((code(&all), status(&all)), ("22012".into(), 'E'));
    let all = said(&mut wire, &[parse("", "SELECT 1", &[]), sync()]);
    assert_eq!((code(&all), status(&all)), ("25P02".into(), 'E'));
    let all = said(&mut wire, &[run("ROLLBACK"), sync()]);
    assert_eq!((completed(&all), status(&all)), (vec!["ROLLBACK".into()], 'I'));
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    // What does not go into a transaction commits by itself.
    let all = said(&mut wire, &[run("CHECKPOINT"), flush(), sync()]);
    assert_ne!(status(&all), 'T', "{}", shown(&all));
}

#[test]
fn cursors_are_declared_with_parameters() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3), (4)");
    wire.query("BEGIN");
    let declare = "DECLARE c SCROLL CURSOR FOR SELECT a FROM t WHERE a > $1 ORDER BY a";
    let all = said(
        &mut wire,
        &[
            parse("", declare, &[]),
            describe(b'S', ""),
            bind("", "", &[1], &[Some(&1_i32.to_be_bytes())], &[]),
            execute("", 0),
            sync(),
        ],
    );
    assert_eq!((tags(&all), completed(&all)), ("1tn2CZ".into(), vec!["DECLARE CURSOR".into()]), "{}", shown(&all));
    assert_eq!(all[1].1, [0, 1, 0, 0, 0, 23]);
    assert_eq!(wire.rows("FETCH 2 FROM c"), [[Some("2".into())], [Some("3".into())]]);
    // A value is missing; a text is none of the type.
    let all = said(&mut wire, &[parse("", &declare.replace(" c ", " d "), &[]), bind("", "", &[], &[], &[]), sync()]);
    assert_eq!(code(&all), "08P01");
    wire.query("ROLLBACK");
    wire.query("BEGIN");
    let given: [Option<&[u8]>; 1] = [Some(b"x")];
    let all = said(&mut wire, &[parse("", declare, &[]), bind("", "", &[], &given, &[]), sync()]);
    assert_eq!(code(&all), "22P02");
    wire.query("ROLLBACK");
    let given: [Option<&[u8]>; 1] = [Some(b"1")];
    let all = said(&mut wire, &[parse("", declare, &[]), bind("", "", &[], &given, &[]), execute("", 0), sync()]);
    assert_eq!(code(&all), "25P01", "{}", shown(&all));
}

#[test]
fn errors_name_what_they_are_about() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query(
        "CREATE TABLE p (a INT PRIMARY KEY); \
         CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL CONSTRAINT small CHECK (b < 10), \
         c INT CONSTRAINT of_p REFERENCES p); INSERT INTO t VALUES (1, 1, NULL)",
    );
    for (sql, table, column, constraint) in [
        ("INSERT INTO t VALUES (1, 1, NULL)", "t", "", "t_pkey"),
        ("INSERT INTO t SELECT 1, 1", "t", "", "t_pkey"),
        ("INSERT INTO t VALUES (2, NULL, NULL)", "t", "b", ""),
        ("INSERT INTO t VALUES (2, 11, NULL)", "t", "", "small"),
        ("UPDATE t SET b = 11", "t", "", "small"),
        ("INSERT INTO t VALUES (2, 1, 5)", "t", "", "of_p"),
        ("CREATE UNIQUE INDEX i ON t ((1))", "", "", ""),
    ] {
        let all = wire.query(sql);
        let told = |letter: u8| field(&all, b'E', letter);
        let expected = [table, column, constraint].map(String::from);
        assert_eq!([told(b't'), told(b'c'), told(b'n')], expected, "{sql}: {}", shown(&all));
        assert_eq!(told(b's'), if table.is_empty() { "" } else { "public" }, "{sql}");
    }
    // A statement that is prepared has its place too, in the client's text.
    let all = said(&mut wire, &[parse("", "\n SELECT a,\n  nowhere FROM t", &[]), sync()]);
    assert_eq!((code(&all).as_str(), field(&all, b'E', b'P').as_str()), ("42703", "15"), "{}", shown(&all));
    // Drivers look for this name before they prepare a statement anew.
    said(&mut wire, &[parse("s", "SELECT * FROM p", &[]), sync()]);
    wire.query("ALTER TABLE p ADD COLUMN d INT");
    let all = said(&mut wire, &[bind("", "s", &[], &[], &[]), execute("", 0), sync()]);
    assert_eq!(field(&all, b'E', b'R'), "RevalidateCachedQuery", "{}", shown(&all));
}

#[test]
fn deallocate_gives_up_what_messages_have_prepared() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let prepared = |wire: &mut Wire| {
        let all = said(wire, &[parse("A b", "SELECT 1", &[]), bind("", "A b", &[], &[], &[]), execute("", 0), sync()]);
        tags(&all)
    };
    assert_eq!(prepared(&mut wire), "12DCZ");
    assert_eq!(prepared(&mut wire), "EZ");
    assert_eq!(completed(&wire.query("DEALLOCATE \"A b\"")), ["DEALLOCATE"]);
    assert_eq!(code(&wire.query("DEALLOCATE \"A b\"")), "26000");
    assert_eq!(prepared(&mut wire), "12DCZ");
    let all = said(&mut wire, &[run("DEALLOCATE PREPARE \"A b\""), sync()]);
    assert_eq!(completed(&all), ["DEALLOCATE"], "{}", shown(&all));
    for all_of_them in ["DEALLOCATE ALL", "DISCARD ALL"] {
        assert_eq!(prepared(&mut wire), "12DCZ");
        assert_eq!(completed(&wire.query(all_of_them)), [all_of_them]);
    }
    // In a transaction that has failed nothing is given up.
    assert_eq!(prepared(&mut wire), "12DCZ");
    wire.query("BEGIN; SELECT 1 / 0");
    assert_eq!(code(&wire.query("DEALLOCATE \"A b\"")), "25P02");
    wire.query("ROLLBACK");
    assert_eq!(completed(&wire.query("DEALLOCATE \"A b\"")), ["DEALLOCATE"]);
}

#[test]
fn parameters_that_are_void_are_no_arguments() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE FUNCTION doubled(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2'");
    let all = said(
        &mut wire,
        &[
            parse("", "SELECT doubled($1, $2)", &[2278, 23]),
            describe(b'S', ""),
            bind("", "", &[0, 1], &[None, Some(&[0, 0, 0, 21])], &[]),
            execute("", 0),
            sync(),
        ],
    );
    assert_eq!(rows(&all), [[Some("42".into())]], "{}", shown(&all));
    assert_eq!(all[1].1, [0, 2, 0, 0, 0x08, 0xe6, 0, 0, 0, 23]);
    let all = said(&mut wire, &[parse("", "SELECT $1", &[2278]), sync()]);
    assert_eq!(code(&all), "0A000");
}

#[test]
fn lists_of_numeric_are_declared() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (l NUMERIC(10, 2)[])");
    let value = b"{1.5,NULL,-2}";
    let all = said(
        &mut wire,
        &[
            parse("", "INSERT INTO t VALUES ($1)", &[1231]),
            bind("", "", &[0], &[Some(value)], &[]),
            execute("", 0),
            sync(),
        ],
    );
    assert_eq!(completed(&all), ["INSERT 0 1"], "{}", shown(&all));
    assert_eq!(wire.value("SELECT l FROM t"), "{1.50,NULL,-2.00}");
}
