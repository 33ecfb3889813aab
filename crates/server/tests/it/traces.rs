//! Traces, as a collector takes them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nearside_server::{Options, Server, TraceOptions};
use serde_json::{Value, json};

use crate::http::client::ask;
use crate::wire::{WITHIN, Wire, bind, execute, parse, sync, with_options};

/// A collector: its address, and the head and body of each request.
fn collector(answer: &'static str) -> (SocketAddr, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (taken, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let request = taken_from(stream.unwrap(), answer);
            if taken.send(request).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn taken_from(mut stream: TcpStream, answer: &str) -> (String, Value) {
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head_end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let length: usize = length.parse().unwrap();
            if bytes.len() >= end + 4 + length {
                let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).unwrap();
                return (head, serde_json::from_slice(&bytes[end + 4..]).unwrap());
            }
        }
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "a request has an end");
        bytes.extend(&part[..read]);
    }
}

fn options(address: SocketAddr, texts: bool) -> TraceOptions {
    let headers = HashMap::from([("x-key".to_string(), "opens".to_string())]);
    TraceOptions { endpoint: format!("http://{address}"), ratio: 1.0, headers, texts }
}

/// All spans that are sent until the server has ended.
fn spans(server: Server, requests: &Receiver<(String, Value)>) -> Vec<Value> {
    server.stop(Duration::from_secs(10));
    let mut all = Vec::new();
    while let Ok((head, body)) = requests.recv_timeout(Duration::from_millis(500)) {
        assert!(head.starts_with("post /v1/traces http/1.1") && head.contains("x-key: opens"), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let of = &body["resourceSpans"][0];
        assert_eq!(
            of["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "nearside"}})
        );
        all.extend(of["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    all
}

fn told(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let value = &all.iter().find(|one| one["key"] == key)?["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_string)
}

#[test]
fn statements_have_spans_with_what_came_of_them() {
    let (address, requests) = collector("200 OK");
    let http = vec!["127.0.0.1:0".parse().unwrap()];
    let (server, _) = with_options(Options { http, traces: Some(options(address, true)), ..Options::default() });
    let mut wire = Wire::with(&server, &[("user", "test"), ("database", "nearside"), ("application_name", "tests")]);
    wire.query("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    wire.query("SELECT * FROM t");
    wire.query("SELECT * FROM nowhere");
    wire.send(
        &[parse("", "SELECT $1::int", &[]), bind("", "", &[0], &[Some(b"7")], &[]), execute("", 0), sync()].concat(),
    );
    wire.until_ready();
    wire.query("CREATE ROLE ann PASSWORD 'secret'");
    let around = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let heads = |traceparent| [("Content-Type", "application/sql"), ("traceparent", traceparent)];
    ask(server.http()[0], "POST", "/query", &heads(around), b"SELECT 40 + 2");
    // Whose trace is not recorded has no span.
    let unwanted = around.replace("-01", "-00");
    ask(server.http()[0], "POST", "/query", &heads(&unwanted), b"SELECT 43");
    drop(wire);
    let all = spans(server, &requests);
    let texts: Vec<String> = all.iter().filter_map(|span| told(span, "db.query.text")).collect();
    let find = |text: &str| all.iter().find(|span| told(span, "db.query.text").as_deref() == Some(text)).unwrap();
    assert_eq!(all.len(), 7, "{texts:?}");
    let insert = find("INSERT INTO t VALUES (1), (2)");
    assert_eq!((insert["name"].as_str(), insert["kind"].as_u64()), (Some("INSERT"), Some(2)));
    assert_eq!(told(insert, "db.response.returned_rows").as_deref(), Some("2"));
    assert_eq!(told(insert, "nearside.door").as_deref(), Some("PostgreSQL"));
    assert_eq!(told(insert, "nearside.role").as_deref(), Some("nearside"));
    assert_eq!(told(insert, "nearside.application").as_deref(), Some("tests"));
    let moment = |key: &str| insert[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(moment("startTimeUnixNano") <= moment("endTimeUnixNano"));
    assert_eq!(insert["traceId"].as_str().unwrap().len(), 32);
    assert!(insert.get("parentSpanId").is_none() && insert.get("status").is_none());
    assert_eq!(told(find("SELECT * FROM t"), "db.response.returned_rows").as_deref(), Some("2"));
    let failed = find("SELECT * FROM nowhere");
    assert_eq!(told(failed, "error.type").as_deref(), Some("42P01"));
    assert_eq!(failed["status"]["code"], 2);
    assert!(failed["status"]["message"].as_str().unwrap().contains("nowhere"));
    assert_eq!(told(find("SELECT $1::int"), "db.response.returned_rows").as_deref(), Some("1"));
    assert!(texts.contains(&"CREATE ROLE ann PASSWORD".to_string()));
    let asked = find("SELECT 40 + 2");
    assert_eq!(asked["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(asked["parentSpanId"], "b7ad6b7169203331");
    assert_eq!(told(asked, "nearside.door").as_deref(), Some("HTTP"));
}

#[test]
fn without_texts_no_values_are_told() {
    let (address, requests) = collector("200 OK");
    let (server, _) = with_options(Options { traces: Some(options(address, false)), ..Options::default() });
    Wire::open(&server).query("SELECT 'secret'::int");
    let all = spans(server, &requests);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["status"], json!({"code": 2}));
    assert!(!all[0].to_string().contains("secret"), "{}", all[0]);
}

#[test]
fn a_collector_that_is_gone_or_refuses_holds_nobody_up() {
    let (refusing, _requests) = collector("503 Service Unavailable");
    // Nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [refusing, gone] {
        let (server, _) = with_options(Options { traces: Some(options(address, false)), ..Options::default() });
        let mut wire = Wire::open(&server);
        for _ in 0..20 {
            assert_eq!(wire.value("SELECT 1"), "1");
        }
        drop(wire);
        server.stop(Duration::from_secs(10));
    }
}

#[test]
fn what_is_no_collector_is_told_at_the_start() {
    let database = nearside::Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
    let (address, _requests) = collector("200 OK");
    let good = options(address, false);
    let wrong = [
        TraceOptions { endpoint: "https://collector".into(), ..good.clone() },
        TraceOptions { ratio: 1.5, ..good.clone() },
        TraceOptions { headers: HashMap::from([("a b".to_string(), String::new())]), ..good },
    ];
    for traces in wrong {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        assert!(
            Server::start(database.clone(), Options { listen, traces: Some(traces), ..Options::default() }).is_err()
        );
    }
}
