//! `POST /query`.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use arrow::ipc::reader::StreamReader;
use serde_json::json;

use super::client::{ask, connect, query, rows, server};
use crate::wire::WITHIN;

const ARROW: &str = "application/vnd.apache.arrow.stream";
const PARQUET: &str = "application/vnd.apache.parquet";

#[test]
fn rows_come_as_json_with_all_their_digits() {
    let (_server, _, to) = server();
    let sql = "SELECT 1::smallint a, 9007199254740993::bigint b, 12345678901234567890.10::numeric(30,2) c, \
               0.1::float8 d, \
               'NaN'::float8 e, true f, NULL g, 'a\"ä\n' h, DATE '2020-02-03' i, ARRAY[1,2] j, -5::bigint k";
    let answer = query(to, &json!({ "sql": sql }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.head.contains("content-type: application/json"));
    let told = answer.json();
    let expected = json!([[
        1,
        "9007199254740993",
        "12345678901234567890.10",
        0.1,
        "NaN",
        true,
        null,
        "a\"ä\n",
        "2020-02-03",
        "{1,2}",
        -5
    ]]);
    assert_eq!(told["rows"], expected);
    let types: Vec<&str> = told["columns"].as_array().unwrap().iter().map(|of| of["type"].as_str().unwrap()).collect();
    assert_eq!(types[..6], ["smallint", "bigint", "numeric", "double precision", "double precision", "boolean"]);
    assert_eq!((types[8], types[9]), ("date", "integer[]"));
    assert_eq!((&told["row_count"], &told["command"]), (&json!(1), &json!("SELECT 1")));
    let none = query(to, &json!({ "sql": "SELECT 1 AS a WHERE false" })).json();
    assert_eq!((&none["rows"], &none["command"]), (&json!([]), &json!("SELECT 0")));
}

#[test]
fn statements_that_write_say_what_they_did_and_last() {
    let (_server, _, to) = server();
    let made = query(to, &json!({ "sql": "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)" }));
    assert_eq!((made.status, &made.json()["command"]), (200, &json!("CREATE TABLE")));
    let written =
        query(to, &json!({ "sql": "INSERT INTO t VALUES ($1, $2), ($3, NULL)", "parameters": [1, "it's", 2] }));
    assert_eq!(written.json()["command"], "INSERT 0 2", "{}", written.text());
    let returned = query(to, &json!({ "sql": "DELETE FROM t WHERE a = 2 RETURNING a" })).json();
    assert_eq!((&returned["rows"], &returned["command"]), (&json!([[2]]), &json!("DELETE 1")));
    let quiet = rows(to, "INSERT INTO t VALUES (7, 'x')", "text/csv");
    assert_eq!(quiet.status, 204);
    assert!(quiet.head.contains("nearside-command: insert 0 1"), "{}", quiet.head);
    let all = rows(to, "SELECT a, b, NULL::text AS c FROM t ORDER BY a", "text/csv");
    assert_eq!(all.text(), "a,b,c\n1,it's,\n7,x,\n");
}

#[test]
fn parameters_are_read_as_their_places_want_them() {
    let (_server, _, to) = server();
    let one = |sql: &str, parameters: serde_json::Value| {
        let answer = query(to, &json!({ "sql": sql, "parameters": parameters }));
        (answer.status, if answer.status == 200 { answer.json()["rows"][0][0].clone() } else { json!(answer.code()) })
    };
    assert_eq!(one("SELECT $1::numeric(30,3) + 1", json!(["12345678901234567890.125"])).1, "12345678901234567891.125");
    assert_eq!(one("SELECT $1::bigint", json!(["9223372036854775807"])).1, "9223372036854775807");
    assert_eq!(one("SELECT $1::date", json!(["2020-02-03"])).1, "2020-02-03");
    assert_eq!(one("SELECT $1::boolean", json!([true])).1, true);
    assert_eq!(one("SELECT $1::int IS NULL", json!([null])).1, true);
    assert_eq!(one("SELECT $1::int", json!(["x"])), (400, json!("22P02")));
    assert_eq!(one("SELECT $1::int", json!([1, 2])), (400, json!("08P01")));
    assert_eq!(one("SELECT 1", json!([1])), (400, json!("08P01")));
    assert_eq!(one("CREATE TABLE x (a INT)", json!([1])), (501, json!("0A000")));
    // Digits are those that were sent, not those of a floating-point number.
    let body = br#"{"sql": "SELECT $1::numeric(30,2)", "parameters": [12345678901234567890.12]}"#;
    let exact = ask(to, "POST", "/query", &[("Content-Type", "application/json")], body);
    assert_eq!(exact.json()["rows"][0][0], "12345678901234567890.12", "{}", exact.text());
}

#[test]
fn rows_come_as_arrow_and_parquet() {
    let (_server, _, to) = server();
    let sql = "SELECT value AS n, value * 2 AS n, 'x' || value AS t FROM generate_series(1, 10000)";
    let arrow = rows(to, sql, ARROW);
    assert!(arrow.head.contains(ARROW) && arrow.is_whole, "{}", arrow.head);
    let batches = StreamReader::try_new(&arrow.body[..], None).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 10_000);
    assert_eq!(batches[0].num_columns(), 3);
    let parquet = rows(to, "SELECT value AS n, 'x' || value AS t FROM generate_series(1, 10000)", PARQUET);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.parquet");
    std::fs::write(&file, &parquet.body).unwrap();
    let read = format!("SELECT count(*), sum(n), max(t) FROM '{}'", file.display());
    assert_eq!(query(to, &json!({ "sql": read })).json()["rows"], json!([[10_000, 50_005_000, "x9999"]]));
    let none = rows(to, "SELECT INTERVAL '1 month' AS i", PARQUET);
    assert_eq!((none.status, none.code().as_str()), (501, "0A000"), "{}", none.text());
    assert!(none.text().contains("cast it to TEXT"), "{}", none.text());
    let none = rows(to, "SELECT 1 AS a WHERE false", ARROW);
    assert_eq!(StreamReader::try_new(&none.body[..], None).unwrap().count(), 0);
}

#[test]
fn errors_have_a_code_a_place_and_a_status() {
    let (_server, _, to) = server();
    let wrong = query(to, &json!({ "sql": "SELECT 1,\n  nowhere" }));
    assert_eq!((wrong.status, wrong.code()), (400, "42703".into()), "{}", wrong.text());
    let place = wrong.json()["error"]["position"].as_u64();
    assert_eq!(place, Some(13), "{}", wrong.text());
    let cases = [
        ("SELEC 1", 400, "42601"),
        ("SELECT 1/0", 400, "22012"),
        ("SELECT 1; SELECT 2", 400, "42601"),
        ("", 400, "42601"),
        ("BEGIN", 501, "0A000"),
        ("COMMIT", 501, "0A000"),
        ("COPY t FROM STDIN", 501, "0A000"),
    ];
    for (sql, status, code) in cases {
        let answer = query(to, &json!({ "sql": sql }));
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{sql}: {}", answer.text());
    }
    let late = query(
        to,
        &json!({ "sql": "SELECT count(*) FROM generate_series(1, 3000000) a, \
        generate_series(1, 3000000) b WHERE a.value * b.value % 7 = 8", "timeout_ms": 100 }),
    );
    assert_eq!((late.status, late.code()), (408, "57014".into()), "{}", late.text());
}

#[test]
fn an_error_among_rows_is_told_where_the_form_can_and_breaks_off_where_it_cannot() {
    let (_server, _, to) = server();
    let sql = "SELECT 10 / (400000 - value) FROM generate_series(1, 1000000)";
    let told = rows(to, sql, "application/json");
    assert_eq!(told.json()["error"]["code"], "22012");
    let broken = rows(to, sql, "text/csv");
    assert!(broken.status == 400 || !broken.is_whole, "nobody takes it for all of it");
}

#[test]
fn a_reader_that_goes_ends_its_statement_and_one_that_takes_nothing_holds_back_only_that() {
    let (_server, database, to) = server();
    let slow = |sql: &str| {
        let mut stream = connect(to);
        let head = format!(
            "POST /query HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/sql\r\nContent-Length: {}\r\n\r\n{sql}",
            sql.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let running = || {
        let all = database.session().query("SELECT sql FROM nearside.statements WHERE sql LIKE '%100000000%'").unwrap();
        all.collect_all().unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>()
    };
    let mut idle = slow("SELECT repeat('x', 1000) FROM generate_series(1, 100000000)");
    let mut some = [0; 4096];
    idle.read_exact(&mut some).unwrap();
    assert_eq!(query(to, &json!({ "sql": "SELECT 1" })).status, 200);
    let computing = slow(
        "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 3000000) b \
         WHERE a.value * b.value % 7 = 8",
    );
    let begun = Instant::now();
    let wait = |until: &dyn Fn(usize) -> bool| {
        while !until(running()) {
            assert!(begun.elapsed() < WITHIN);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&|count| count >= 2);
    drop(computing);
    drop(idle);
    wait(&|count| count <= 1);
}

#[test]
fn what_is_asked_in_another_way_is_refused() {
    let (_server, _, to) = server();
    let sql = |heads: &[(&str, &str)], path: &str| ask(to, "POST", path, heads, b"SELECT 1").status;
    assert_eq!(sql(&[], "/query"), 415);
    assert_eq!(sql(&[("Content-Type", "text/plain")], "/query"), 415);
    assert_eq!(sql(&[("Content-Type", "application/x-www-form-urlencoded")], "/query"), 415);
    assert_eq!(sql(&[("Content-Type", "application/sql"), ("Accept", "image/png")], "/query"), 406);
    assert_eq!(sql(&[("Content-Type", "application/sql")], "/query?format=xml"), 400);
    assert_eq!(sql(&[("Content-Type", "application/sql")], "/query?format=csv"), 200);
    assert_eq!(sql(&[("Content-Type", "application/json")], "/query"), 400);
    assert_eq!(query(to, &json!({ "sql": "SELECT 1", "more": 1 })).status, 400);
    assert_eq!(ask(to, "GET", "/query", &[], b"").status, 405);
    assert_eq!(ask(to, "POST", "/query", &[("Content-Type", "application/sql")], b"SELECT '\xff'").code(), "22021");
}

#[test]
fn a_reader_that_stalls_ends_its_statement() {
    let stall = Some(std::time::Duration::from_millis(200));
    let limits = nearside_server::Limits { stall, ..nearside_server::Limits::default() };
    let http = vec!["127.0.0.1:0".parse().unwrap()];
    let (server, database) = crate::wire::with_options(nearside_server::Options { http, limits, ..Default::default() });
    let mut stream = super::client::connect(server.http()[0]);
    let sql = "SELECT 'stalls' AS a, g FROM generate_series(1, 1000000000) g";
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sql\r\nContent-Length: {}\r\n\r\n{sql}",
        sql.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let running = "SELECT count(*) FROM nearside.statements WHERE sql LIKE '%stalls%' AND sql NOT LIKE '%LIKE%'";
    let count = || {
        let counted = database.session().query(running).unwrap().collect_all().unwrap();
        nearside::arrow::util::display::array_value_to_string(counted[0].column(0), 0).unwrap()
    };
    let begun = std::time::Instant::now();
    // It begins, and ends although its client is there.
    while count() == "0" {
        assert!(begun.elapsed() < crate::wire::WITHIN, "it never began");
    }
    while count() != "0" {
        assert!(begun.elapsed() < crate::wire::WITHIN, "it runs on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(stream);
}
