//! Requests that are cut, too long, too slow, or of strangers.

use std::io::{Read, Write};

use nearside::Database;
use nearside_server::{Options, Server};
use random::Random;

use super::client::{ask, connect, get, said, server};

#[test]
fn other_machines_and_other_sites_are_not_answered() {
    let database = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
    let http = vec!["0.0.0.0:0".parse().unwrap()];
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    assert!(Server::start(database, Options { listen, http, ..Options::default() }).is_err());
    let (_server, database, to) = server();
    let sql = [("Content-Type", "application/sql")];
    let with = |head: (&'static str, &'static str)| {
        ask(to, "POST", "/query", &[sql[0], head], b"CREATE TABLE stolen (a INT)").status
    };
    for head in [
        ("Host", "evil.example"),
        ("Host", "localhost.evil.example"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://localhost:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        assert_eq!(with(head), 403, "{head:?}");
    }
    assert!(database.session().query("SELECT * FROM stolen").is_err());
    let of_the_page = [("Origin", format!("http://{to}")), ("Sec-Fetch-Site", "same-origin".into())];
    let heads: Vec<(&str, &str)> = of_the_page.iter().map(|(name, value)| (*name, value.as_str())).chain(sql).collect();
    assert_eq!(ask(to, "POST", "/query", &heads, b"SELECT 1").status, 200);
}

#[test]
fn what_is_too_long_is_refused_before_it_is_held() {
    let (_server, _, to) = server();
    let status = |answer: &[u8]| String::from_utf8_lossy(answer).split(' ').nth(1).unwrap_or_default().to_string();
    let long = format!("GET /health HTTP/1.1\r\nHost: {to}\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    assert!(["431", ""].contains(&status(&said(to, long.as_bytes())).as_str()));
    let many = format!("GET /health HTTP/1.1\r\nHost: {to}\r\n{}\r\n", "X: 1\r\n".repeat(500));
    assert!(["431", "400", ""].contains(&status(&said(to, many.as_bytes())).as_str()));
    let large = ask(to, "POST", "/query", &[("Content-Type", "application/sql")], &vec![b' '; (16 << 20) + 1]);
    assert_eq!((large.status, large.code()), (413, "54000".into()));
    // A length that is never sent is nothing that is set aside.
    let mut waiting = connect(to);
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/sql\r\nContent-Length: 99999999999\r\n\r\n"
    );
    waiting.write_all(head.as_bytes()).unwrap();
    assert_eq!(get(to, "/health").status, 200);
}

#[test]
fn what_is_cut_or_spoilt_harms_nobody_else() {
    let (_server, _, to) = server();
    let body = r#"{"sql": "SELECT $1::int", "parameters": [1]}"#;
    let whole = format!(
        "POST /query HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: \
         {}\r\n\r\n{body}",
        body.len()
    );
    let mut random = Random::new(7);
    for case in 0..300 {
        let mut bytes = whole.clone().into_bytes();
        match case % 3 {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                let place = random.below(bytes.len());
                bytes[place] = random.below(256) as u8;
            }
            _ => {
                let place = random.below(bytes.len());
                bytes.splice(place..place, (0..8).map(|_| random.below(256) as u8));
            }
        }
        let mut stream = connect(to);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    let deep = format!("{{\"sql\": \"SELECT 1\", \"parameters\": [{}]}}", "[".repeat(100_000));
    let deep = ask(to, "POST", "/query", &[("Content-Type", "application/json")], deep.as_bytes());
    assert_eq!(deep.status, 400);
    assert_eq!(get(to, "/health").status, 200);
}
