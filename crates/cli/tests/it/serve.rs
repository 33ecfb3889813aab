//! `nearside serve`, from the first client to SIGTERM.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::{nearside, run};

/// A server on a port that the system chooses, and the address that it says.
fn served(folder: &Path) -> (Child, String) {
    let mut child = nearside()
        .args(["serve", "--listen", "127.0.0.1:0", "--threads", "1", "--memory", "256MB", "--drain", "5", "--database"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_string();
    (child, address)
}

/// What comes of a text, up to ReadyForQuery.
fn query(stream: &mut TcpStream, sql: Option<&str>) -> Vec<u8> {
    let mut message = Vec::new();
    match sql {
        None => {
            let body = b"\0\x03\0\0user\0me\0database\0nearside\0\0";
            message.extend((body.len() as u32 + 4).to_be_bytes());
            message.extend(body);
        }
        Some(sql) => {
            message.push(b'Q');
            message.extend((sql.len() as u32 + 5).to_be_bytes());
            message.extend(sql.bytes());
            message.push(0);
        }
    }
    stream.write_all(&message).expect("the server reads");
    let mut all = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("a message");
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().expect("4 bytes")) as usize - 4];
        stream.read_exact(&mut body).expect("its body");
        if head[0] == b'Z' {
            return all;
        }
        all.push(head[0]);
        all.extend(body);
    }
}

fn connected(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    query(&mut stream, None);
    stream
}

fn ended(child: Child) {
    assert_eq!(said(child), "");
}

/// What a server has said on standard error, after SIGTERM.
fn said(mut child: Child) -> String {
    // The child was not waited for, so nobody else has its number.
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let status = child.wait().expect("the program ends");
    let mut err = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("UTF-8");
    assert_eq!(status.code(), Some(0), "{err}");
    err
}

#[test]
fn what_clients_commit_is_there_after_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (child, address) = served(folder.path());
    let mut client = connected(&address);
    query(&mut client, Some("CREATE TABLE t (a INT); INSERT INTO t VALUES (42)"));
    let mut open = connected(&address);
    query(&mut open, Some("BEGIN; INSERT INTO t VALUES (43)"));
    ended(child);
    let (child, address) = served(folder.path());
    let found = query(&mut connected(&address), Some("SELECT sum(a), count(*) FROM t"));
    assert!(String::from_utf8_lossy(&found).contains("42"), "{found:?}");
    ended(child);
}

#[test]
fn slow_statements_are_told_with_their_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (child, address) = served(folder.path());
    let mut client = connected(&address);
    for sql in [
        "CREATE TABLE quick (a INT)",
        "ALTER SYSTEM SET log_min_duration_statement = '10min'",
        "SELECT count(*) FROM quick WHERE a > 11",
        "ALTER SYSTEM SET log_min_duration_statement = 0",
        "SELECT count(*) FROM quick WHERE a > 22",
        "CREATE ROLE ann PASSWORD 'moonlight'",
        "PREPARE above (INT) AS SELECT count(*) FROM quick WHERE a > $1",
        "EXECUTE above (33)",
        "SHOW log_min_duration_statement",
        "ALTER SYSTEM RESET log_min_duration_statement",
        "SELECT count(*) FROM quick WHERE a > 44",
    ] {
        query(&mut client, Some(sql));
    }
    let wrong = query(&mut client, Some("ALTER SYSTEM SET log_min_duration_statement = -2"));
    assert!(String::from_utf8_lossy(&wrong).contains("or -1 for no statement"), "{wrong:?}");
    let said = said(child);
    assert!(said.contains("a statement has taken long"), "{said}");
    for (told, is_told) in [
        ("> 11", false),
        ("statement=\"SELECT count(*) FROM quick WHERE a > 22\"", true),
        ("Filter: a > 22", true),
        ("Filter: a > 33", true),
        ("CREATE ROLE ann PASSWORD", true),
        ("moonlight", false),
        ("SHOW log_min_duration_statement", true),
        ("> 44", false),
    ] {
        assert_eq!(said.contains(told), is_told, "{told} in {said}");
    }
}

#[test]
fn an_address_that_others_reach_is_refused() {
    for address in ["0.0.0.0:5432", "[::]:5432"] {
        let run = run(&["serve", "--threads", "1", "--memory", "256MB", "--listen", address]).failed();
        assert!(run.contains("127.0.0.1:5432") && run.contains("PASSWORD"), "{run}");
    }
    let nonsense = run(&["serve", "--listen", "nonsense"]);
    assert_eq!(nonsense.code, 2, "{nonsense:?}");
    assert!(nonsense.err.contains("127.0.0.1:5432"), "{nonsense:?}");
    let run = run(&["serve", "--listen", "127.0.0.1:0", "--socket", "/nowhere/at/all"]).failed();
    assert!(run.contains("/nowhere/at/all"), "{run}");
}

#[test]
fn settings_are_read_from_a_file_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nearside.toml");
    let written = |method: &str| {
        let text = format!(
            "listen = ['127.0.0.1:0']\nthreads = 1\nmemory = '256MB'\ndrain = 5\n[[access]]\nfrom = 'loopback'\n\
             method = '{method}'\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    written("trust");
    let mut child = nearside()
        .args(["serve", "--settings"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        line.trim().to_string()
    };
    let address = line().strip_prefix("listening on ").expect("an address").to_string();
    drop(connected(&address));
    written("reject");
    let sent = Command::new("kill").args(["-HUP", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    assert_eq!(line(), "settings were read again");
    let mut stream = TcpStream::connect(&address).expect("a server");
    let body = b"\0\x03\0\0user\0me\0database\0nearside\0\0";
    stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()).expect("the server reads");
    let mut told = Vec::new();
    stream.read_to_end(&mut told).expect("an end");
    assert!(told.starts_with(b"E") && String::from_utf8_lossy(&told).contains("28000"), "{told:?}");
    ended(child);
    std::fs::write(&file, "listen = ['127.0.0.1:0']\nconnectoins = 5\n").unwrap();
    let told = run(&["serve", "--settings", file.to_str().unwrap()]).failed();
    assert!(told.contains("connectoins") && told.contains("line 2"), "{told}");
}
