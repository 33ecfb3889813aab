//! A small client that says exactly what a test has it say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use nearside::Database;
use nearside_server::{Options, Server};
use serde_json::Value;

use crate::wire::{WITHIN, with_options};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Lines of the head in small letters.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub is_whole: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The code of an error.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_string()
    }
}

/// A server of an empty database that speaks HTTP.
pub fn server() -> (Server, Database, SocketAddr) {
    let (server, database) = with_options(Options { http: vec!["127.0.0.1:0".parse().unwrap()], ..Options::default() });
    let address = server.http()[0];
    (server, database, address)
}

/// A connection.
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    stream.set_write_timeout(Some(WITHIN)).unwrap();
    stream
}

/// Sends bytes and reads until the server closes.
pub fn said(to: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(to);
    // A server that refuses early may close before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// A request and its answer, on a connection of their own.
pub fn ask(to: SocketAddr, method: &str, path: &str, heads: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\n");
    if !heads.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {to}\r\n"));
    }
    heads.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
    request.push_str(&format!("Connection: close\r\nContent-Length: {}\r\n\r\n", body.len()));
    let answer = said(to, &[request.as_bytes(), body].concat());
    taken_apart(&answer)
}

pub fn get(to: SocketAddr, path: &str) -> Answer {
    ask(to, "GET", path, &[], b"")
}

/// A statement as JSON, for rows as JSON.
pub fn query(to: SocketAddr, body: &Value) -> Answer {
    ask(to, "POST", "/query", &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

/// A statement as text, for rows in a form.
pub fn rows(to: SocketAddr, sql: &str, accept: &str) -> Answer {
    let heads = [("Content-Type", "application/sql"), ("Accept", accept)];
    ask(to, "POST", "/query", &heads, sql.as_bytes())
}

fn taken_apart(answer: &[u8]) -> Answer {
    let shown = || String::from_utf8_lossy(answer).into_owned();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no head: {}", shown()));
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{}", shown()));
    let mut rest = &answer[end + 4..];
    if !head.contains("transfer-encoding: chunked") {
        return Answer { status, head, body: rest.to_vec(), is_whole: true };
    }
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return Answer { status, head, body, is_whole: true };
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { break };
        body.extend(chunk);
        rest = rest.get(line + 4 + size..).unwrap_or_default();
    }
    Answer { status, head, body, is_whole: false }
}
