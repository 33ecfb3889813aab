//! COPY with the client.

use crate::wire::{Message, Wire, code, completed, field, message, query, run, server, shown, status, sync, tags};

/// The data among messages.
fn data(all: &[Message]) -> String {
    all.iter().filter(|(tag, _)| *tag == b'd').map(|(_, body)| String::from_utf8_lossy(body).into_owned()).collect()
}

/// Sends data for a COPY, in pieces of a length.
fn copied(wire: &mut Wire, sql: &str, bytes: &[u8], length: usize) -> Vec<Message> {
    wire.send(&query(sql));
    match wire.next() {
        Some((b'G', _)) => {}
        Some(other) => {
            let mut all = vec![other];
            all.extend(wire.until_ready());
            return all;
        }
        None => panic!("the connection is closed"),
    }
    for piece in bytes.chunks(length) {
        wire.send(&message(b'd', piece));
    }
    wire.send(&message(b'c', &[]));
    wire.until_ready()
}

#[test]
fn rows_go_in_and_out() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query(
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c NUMERIC(8, 2), d TIMESTAMP, e BOOLEAN, f DOUBLE PRECISION, \
         g BYTEA, h INT[], i TEXT DEFAULT 'none', j DATE, k TIMESTAMPTZ, l BIGINT)",
    );
    let lines = [
        "1\tone\\ttab\t1.50\t2024-02-29 12:30:00.5\tt\t1e+20\t\\\\x6162\t{1,NULL,3}\tx\t2024-01-01\t",
        "2024-01-01 10:00:00+00\t9\n",
        "2\t\\N\t-3.25\t\\N\tf\tNaN\t\\\\x\t{}\t\\N\t1999-12-31\t1999-12-31 23:59:59.5+00\t-9\n",
    ]
    .concat();
    let lines = lines.as_str();
    for length in [1, 7, usize::MAX] {
        let all = copied(&mut wire, "COPY t FROM STDIN", lines.as_bytes(), length);
        assert_eq!((completed(&all), status(&all)), (vec!["COPY 2".into()], 'I'), "{}", shown(&all));
        let all = wire.query("COPY (SELECT * FROM t ORDER BY a) TO STDOUT");
        assert_eq!((data(&all).as_str(), completed(&all)), (lines, vec!["COPY 2".into()]));
        wire.query("DELETE FROM t");
    }
    copied(&mut wire, "COPY t FROM STDIN", lines.as_bytes(), 100);
    // Binary and CSV go back in as they came out.
    for options in
        ["(FORMAT binary)", "(FORMAT csv, HEADER)", "(FORMAT csv, HEADER match, NULL 'null')", "(DELIMITER '|')"]
    {
        let out = options.replace(" match", "");
        let all = wire.query(&format!("COPY (SELECT * FROM t ORDER BY a) TO STDOUT {out}"));
        let bytes: Vec<u8> = all.iter().filter(|(tag, _)| *tag == b'd').flat_map(|(_, body)| body.clone()).collect();
        wire.query("DELETE FROM t");
        let all = copied(&mut wire, &format!("COPY t FROM STDIN {options}"), &bytes, 11);
        assert_eq!(completed(&all), ["COPY 2"], "{options}: {}", shown(&all));
        assert_eq!(data(&wire.query("COPY (SELECT * FROM t ORDER BY a) TO STDOUT")), lines, "{options}");
    }
    // Columns that are not named have their defaults.
    let all = copied(&mut wire, "COPY t (l, a) FROM STDIN WITH CSV", b"5,3\n6,4", 100);
    assert_eq!(completed(&all), ["COPY 2"], "{}", shown(&all));
    assert_eq!(data(&wire.query("COPY (SELECT i, l FROM t WHERE a = 4) TO STDOUT (FORMAT csv)")), "none,6\n");
    // What goes out comes in again: computed columns do neither.
    wire.query("CREATE TABLE twice (a INT, double INT GENERATED ALWAYS AS (a * 2) STORED)");
    wire.query("INSERT INTO twice (a) VALUES (21)");
    assert_eq!(data(&wire.query("COPY twice TO STDOUT")), "21\n");
    assert_eq!(data(&wire.query("COPY twice (double) TO STDOUT")), "42\n");
    // Times of a zone are the session's.
    wire.query("SET TimeZone = 'Europe/Berlin'");
    copied(&mut wire, "COPY t (a, k) FROM STDIN", b"5\t2024-07-01 12:00:00\n", 100);
    assert_eq!(wire.value("SELECT k FROM t WHERE a = 5"), "2024-07-01 12:00:00+02");
    assert_eq!(wire.value("SELECT k = TIMESTAMPTZ '2024-07-01 10:00+00' FROM t WHERE a = 5"), "t");
}

#[test]
fn what_is_wrong_leaves_nothing_behind() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(3) NOT NULL)");
    for (data, expected, place) in [
        ("1\tx\n2\n", "22P04", "COPY t, line 2"),
        ("1\tx\n2\ty\tz\n", "22P04", "COPY t, line 2"),
        ("1\tx\nzwei\ty\n", "22P02", "COPY t, line 2, column a: \"zwei\""),
        ("1\tx\n1\ty\n", "23505", ""),
        ("1\t\\N\n", "23502", ""),
        ("1\tlong\n", "22001", ""),
        ("1\t\u{fffd}\u{fffd}\n", "", ""),
    ] {
        let all = copied(&mut wire, "COPY t FROM STDIN", data.as_bytes(), 3);
        if expected.is_empty() {
            assert_eq!(completed(&all), ["COPY 1"]);
            wire.query("DELETE FROM t");
            continue;
        }
        assert_eq!((code(&all).as_str(), status(&all)), (expected, 'I'), "{data:?}: {}", shown(&all));
        assert!(field(&all, b'E', b'W').starts_with(place), "{data:?}: {}", shown(&all));
        assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    }
    let all = copied(&mut wire, "COPY t FROM STDIN", b"1\t\xff\n", 10);
    assert_eq!(code(&all), "22021");
    assert_eq!(code(&copied(&mut wire, "COPY t FROM STDIN (FORMAT binary)", b"no signature", 5)), "22P04");
    assert_eq!(code(&copied(&mut wire, "COPY none FROM STDIN", b"", 5)), "42P01");
    assert_eq!(code(&copied(&mut wire, "COPY t (c) FROM STDIN", b"", 5)), "42703");
    assert_eq!(code(&wire.query("COPY (SELECT nowhere) TO STDOUT")), "42703");
    assert_eq!(code(&wire.query("COPY nowhere TO STDOUT")), "42P01");
    // The client gives up, or says something else.
    for (more, expected) in [(message(b'f', b"enough\0"), "57014"), (query("SELECT 1"), "08P01")] {
        wire.send(&[query("COPY t FROM STDIN"), message(b'd', b"1\tx\n"), more].concat());
        let all = wire.until_ready();
        assert_eq!((code(&all).as_str(), status(&all)), (expected, 'I'), "{}", shown(&all));
    }
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    // In a transaction, all of it has failed.
    wire.query("BEGIN; INSERT INTO t VALUES (7, 'x')");
    let all = copied(&mut wire, "COPY t FROM STDIN", b"x\ty\n", 10);
    assert_eq!(status(&all), 'E');
    wire.query("ROLLBACK");
    // And what was right goes with the transaction.
    wire.query("BEGIN");
    let all = copied(&mut wire, "COPY t FROM STDIN", b"1\ty\n", 10);
    assert_eq!((completed(&all), status(&all)), (vec!["COPY 1".into()], 'T'));
    wire.query("ROLLBACK");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn many_rows_go_in_some_at_a_time_and_together() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT, b TEXT)");
    let text = "x".repeat(100);
    let lines: String = (0..150_000).map(|a| format!("{a}\t{text}\n")).collect();
    let mut other = Wire::open(&server);
    let all = copied(&mut wire, "COPY t FROM STDIN", &[lines.as_bytes(), b"wrong\tx\n"].concat(), 60_000);
    assert_eq!(code(&all), "22P02", "{}", shown(&all));
    assert_eq!(other.value("SELECT count(*) FROM t"), "0");
    let all = copied(&mut wire, "COPY t FROM STDIN", lines.as_bytes(), 60_000);
    assert_eq!(completed(&all), ["COPY 150000"]);
    assert_eq!(other.value("SELECT sum(a) FROM t"), (0..150_000_i64).sum::<i64>().to_string());
}

#[test]
fn copy_goes_through_the_extended_protocol() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT)");
    wire.send(&[run("COPY t FROM STDIN"), message(b'd', b"1\n2\n"), message(b'c', &[]), sync()].concat());
    let all = wire.until_ready();
    assert_eq!((tags(&all), completed(&all)), ("12GCZ".into(), vec!["COPY 2".into()]), "{}", shown(&all));
    wire.send(&[run("COPY t TO STDOUT"), sync()].concat());
    assert_eq!(data(&wire.until_ready()), "1\n2\n");
    wire.send(&[run("COPY t FROM STDIN"), message(b'f', b"no\0"), sync()].concat());
    assert_eq!(code(&wire.until_ready()), "57014");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
}
