//! What monitors and the page ask for.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{ask, get, query, server};
use crate::wire::WITHIN;

const CANCEL: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[test]
fn monitors_are_answered() {
    let (server, _, to) = server();
    assert_eq!((get(to, "/health").status, get(to, "/ready").text().as_str()), (200, "ready\n"));
    query(to, &json!({ "sql": "SELECT 1/0" }));
    let metrics = get(to, "/metrics");
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"));
    assert!(metrics.text().contains("nearside_statements_failed_total 1\n"), "{}", metrics.text());
    assert_eq!(get(to, "/nothing").status, 404);
    assert_eq!(ask(to, "DELETE", "/metrics", &[], b"").status, 405);
    server.stop(Duration::from_secs(5));
    assert!(std::net::TcpStream::connect(to).is_err(), "nobody comes in");
}

#[test]
fn the_state_has_the_machine_and_its_tables() {
    let (_server, database, to) = server();
    let name = "<img src=x onerror=alert(1)>\"'";
    let quoted = name.replace('"', "\"\"");
    database
        .session()
        .execute(&format!("CREATE TABLE \"{quoted}\" AS SELECT value AS n FROM generate_series(1, 1000)"))
        .unwrap();
    assert_eq!(get(to, "/api/run").json(), json!({ "live": true }));
    let answer = get(to, "/api/state");
    let state = answer.json();
    assert_eq!(answer.text().lines().count(), 1, "a state is a line, so that they can be recorded");
    assert_eq!(state["version"], 1);
    assert!(state["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty() && nodes[0]["memory_bytes"].is_number()));
    assert!(state["columns"].as_array().unwrap().iter().any(|column| column["table"] == name), "{state}");
    for list in ["links", "workers", "thread_groups", "statements", "placement_log", "units", "transactions"] {
        assert!(state[list].is_array(), "{list}");
    }
}

#[test]
fn a_statement_is_cancelled_by_its_time() {
    let (_server, database, to) = server();
    let none = ask(to, "POST", "/api/cancel", &CANCEL, br#"{"statement": 1234567}"#);
    assert_eq!(none.json(), json!({ "cancelled": false }));
    assert_eq!(ask(to, "POST", "/api/cancel", &CANCEL, b"{}").status, 400);
    assert_eq!(ask(to, "POST", "/api/cancel", &[("Content-Type", "text/plain")], br#"{"statement": 1}"#).status, 415);
    let session = database.session();
    let long = std::thread::spawn(move || {
        let rows = session.query(
            "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
             WHERE a.value * b.value % 7 = 8",
        );
        rows.and_then(|rows| rows.collect_all()).unwrap_err().to_string()
    });
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < WITHIN);
        let state = get(to, "/api/state").json();
        let all = state["statements"].as_array().unwrap().clone();
        if let Some(found) = all.iter().find(|of| of["sql"].as_str().is_some_and(|sql| sql.contains("% 7 = 8"))) {
            let body = json!({ "statement": found["statement_time"] }).to_string();
            assert_eq!(ask(to, "POST", "/api/cancel", &CANCEL, body.as_bytes()).json()["cancelled"], true);
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(long.join().unwrap().contains("cancelled"));
}

/// Whether node takes a text for a module; `None` without node.
fn is_module(text: &str) -> Option<Result<(), String>> {
    use std::io::Write;
    let mut node = Command::new("node")
        .args(["--input-type=module", "--check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    node.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let done = node.wait_with_output().ok()?;
    Some(if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) })
}

#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    let (_server, _, to) = server();
    let page = get(to, "/");
    assert_eq!(page.status, 200);
    for head in ["content-security-policy: default-src 'none'; script-src 'self'", "nosniff", "x-frame-options: deny"] {
        assert!(page.head.contains(head), "{head} of {}", page.head);
    }
    let mut wanted = vec!["/page/main.js".to_string(), "/page/style.css".to_string(), "/page/icon.svg".to_string()];
    let mut seen = Vec::new();
    while let Some(path) = wanted.pop() {
        if seen.contains(&path) {
            continue;
        }
        let file = get(to, &path);
        assert_eq!(file.status, 200, "{path}");
        let text = file.text();
        // SVG's name of itself is an address that nobody is asked at.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "://"] {
            assert!(!text.contains(forbidden), "{forbidden} in {path}");
        }
        if path.ends_with(".js") {
            match is_module(&file.text()) {
                None => eprintln!("skipped: there is no node to read {path} with"),
                Some(read) => assert_eq!(read, Ok(()), "{path}"),
            }
            let imports = text.lines().filter_map(|line| line.split_once(" from \"./"));
            wanted.extend(imports.map(|(_, rest)| format!("/page/{}", rest.trim_end_matches("\";"))));
        }
        seen.push(path);
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[test]
fn passwords_are_asked_for_where_the_wire_asks_for_them() {
    let (server, database, to) = server();
    assert_eq!(get(to, "/api/state").status, 200);
    let statements = "ALTER ROLE nearside PASSWORD 'first'; CREATE ROLE ann SUPERUSER LOGIN PASSWORD 's\u{e9}cret:2';
                      CREATE ROLE bob LOGIN PASSWORD 'bob'";
    database.session().execute(statements).unwrap();
    // "nearside:first", "ann:s\u{e9}cret:2", "bob:bob", "ann:first", "nobody:x".
    let [first, ann, bob, wrong, nobody] =
        ["bmVhcnNpZGU6Zmlyc3Q=", "YW5uOnPDqWNyZXQ6Mg==", "Ym9iOmJvYg==", "YW5uOmZpcnN0", "bm9ib2R5Ong="];
    let as_user = |method: &str, path: &str, basic: Option<&str>, body: &[u8]| {
        let said = basic.map(|basic| format!("Basic {basic}"));
        let mut heads = vec![("Content-Type", "application/sql")];
        heads.extend(said.as_deref().map(|said| ("Authorization", said)));
        ask(to, method, path, &heads, body)
    };
    let who = |basic: Option<&str>| as_user("POST", "/query", basic, b"SELECT current_user");
    for path in ["/", "/metrics", "/api/state", "/api/run", "/nothing"] {
        let answer = as_user("GET", path, None, b"");
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: basic"), "{}", answer.head);
    }
    assert_eq!((as_user("GET", "/health", None, b"").status, as_user("GET", "/ready", None, b"").status), (200, 200));
    assert_eq!(who(None).status, 401);
    for basic in [first, ann, first, ann] {
        let answer = who(Some(basic));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains(if basic == first { "nearside" } else { "ann" }), "{}", answer.text());
    }
    for basic in [wrong, nobody, "!", ""] {
        let answer = who(Some(basic));
        assert_eq!((answer.status, answer.code().as_str()), (401, "28P01"), "{}", answer.text());
    }
    assert_eq!(who(Some(bob)).status, 200);
    // Who is no superuser does not see what others do.
    for path in ["/metrics", "/api/state"] {
        let answer = as_user("GET", path, Some(bob), b"");
        assert_eq!((answer.status, answer.code().as_str()), (403, "42501"), "{path}");
    }
    assert_eq!(as_user("POST", "/api/cancel", Some(bob), b"").status, 403);
    database.session().execute("GRANT pg_monitor TO bob").unwrap();
    assert_eq!(as_user("GET", "/metrics", Some(bob), b"").status, 200);
    // What was right is so no more with another password.
    database.session().execute("ALTER ROLE ann PASSWORD 'other'").unwrap();
    assert_eq!(who(Some(ann)).status, 401);
    server.stop(Duration::from_secs(5));
}
