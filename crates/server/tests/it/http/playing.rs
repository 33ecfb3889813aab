//! A recorded run.

use std::io::Write;

use nearside_server::Player;
use serde_json::json;

use super::client::{ask, get, server};

fn file(lines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    file
}

#[test]
fn states_of_a_server_are_a_run() {
    let (_server, _, to) = server();
    let first = get(to, "/api/state").text();
    let second = first.replacen("\"seconds\":", "\"seconds\":1", 1);
    let run = file(&format!("{first}\n{second}"));
    let player = Player::start(run.path(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let at = player.address();
    assert_eq!(player.states(), 2);
    let told = get(at, "/api/run").json();
    assert_eq!((&told["live"], told["seconds"].as_array().unwrap().len()), (&json!(false), 2));
    assert_eq!(get(at, "/api/state?at=0").text(), first);
    assert_eq!(get(at, "/api/state?at=1").json()["nodes"], get(at, "/api/state?at=0").json()["nodes"]);
    for wrong in ["/api/state", "/api/state?at=2", "/api/state?at=-1", "/api/state?at=x", "/metrics"] {
        assert_eq!(get(at, wrong).status, 404, "{wrong}");
    }
    assert_eq!(get(at, "/").status, 200);
    assert_eq!(ask(at, "POST", "/query", &[("Content-Type", "application/sql")], b"SELECT 1").status, 405);
    assert_eq!(ask(at, "GET", "/", &[("Host", "evil.example")], b"").status, 403);
    player.stop();
}

#[test]
fn what_is_no_run_is_refused() {
    let of = |lines: &str| {
        let run = file(lines);
        Player::start(run.path(), "127.0.0.1:0".parse().unwrap()).err().map(|error| error.to_string())
    };
    let state = |seconds: u32| json!({ "version": 1, "seconds": seconds, "nodes": [{ "node": 0 }] }).to_string();
    assert_eq!(of(&format!("{}\n{}\n", state(0), state(1))), None);
    for (lines, why) in [
        (String::new(), "no state"),
        ("{}\n".into(), "line 1"),
        ("not json\n".into(), "line 1"),
        (format!("{}\n{{\"version\": 1", state(0)), "line 2"),
        (format!("{}\n{}\n", state(5), state(1)), "older"),
        (state(0).replace("\"version\":1", "\"version\":2"), "version 2"),
        (json!({ "version": 1, "seconds": 0, "nodes": [] }).to_string(), "no nodes"),
    ] {
        let told = of(&lines).unwrap_or_default();
        assert!(told.contains(why), "{lines}: {told}");
    }
    let run = file(&state(0));
    assert!(Player::start(run.path(), "0.0.0.0:0".parse().unwrap()).is_err());
}
