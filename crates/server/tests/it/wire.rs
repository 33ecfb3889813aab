//! A small client that says exactly what a test has it say.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nearside::Database;
use nearside_server::{Options, Server};

/// How long a test waits for the server at most.
pub const WITHIN: Duration = Duration::from_secs(60);

/// A message: its type and its body.
pub type Message = (u8, Vec<u8>);

/// A server of an empty database.
pub fn server() -> (Server, Database) {
    with_options(Options::default())
}

/// The same with options, on an address of its own.
pub fn with_options(options: Options) -> (Server, Database) {
    let database = Database::builder().threads(2).memory_bytes(1 << 29).build().unwrap();
    let options = Options { listen: vec!["127.0.0.1:0".parse().unwrap()], ..options };
    let server = Server::start(database.clone(), options).unwrap();
    (server, database)
}

/// A connection.
pub struct Wire {
    stream: TcpStream,
    /// The number by which it is cancelled.
    pub number: i32,
    /// The key that belongs to it.
    pub key: Vec<u8>,
    /// What it was told when it came in.
    pub greeting: Vec<Message>,
}

/// A message to be sent.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

/// Texts with a zero behind each.
pub fn texts(all: &[&str]) -> Vec<u8> {
    all.iter().flat_map(|text| text.bytes().chain([0])).collect()
}

/// A first message, behind its length.
pub fn first(version: u32, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u32 + 8).to_be_bytes().to_vec();
    message.extend(version.to_be_bytes());
    message.extend(body);
    message
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &texts(&[sql]))
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = texts(&[name, sql]);
    body.extend((types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
    message(b'P', &body)
}

/// `formats` and `results`: 0 for text, 1 for binary.
pub fn bind(portal: &str, statement: &str, formats: &[i16], values: &[Option<&[u8]>], results: &[i16]) -> Vec<u8> {
    let mut body = texts(&[portal, statement]);
    let list = |codes: &[i16], body: &mut Vec<u8>| {
        body.extend((codes.len() as u16).to_be_bytes());
        codes.iter().for_each(|code| body.extend(code.to_be_bytes()));
    };
    list(formats, &mut body);
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(value) => {
                body.extend((value.len() as i32).to_be_bytes());
                body.extend(*value);
            }
        }
    }
    list(results, &mut body);
    message(b'B', &body)
}

pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[kind][..], &texts(&[name])].concat())
}

pub fn close(kind: u8, name: &str) -> Vec<u8> {
    message(b'C', &[&[kind][..], &texts(&[name])].concat())
}

pub fn execute(portal: &str, rows: i32) -> Vec<u8> {
    message(b'E', &[&texts(&[portal])[..], &rows.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}

/// A statement without values, in the extended protocol, up to its run.
pub fn run(sql: &str) -> Vec<u8> {
    [parse("", sql, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat()
}

impl Wire {
    /// Connects, and waits until the server is ready.
    pub fn open(server: &Server) -> Wire {
        Wire::with(server, &[("user", "test"), ("database", "nearside")])
    }

    /// The same with other parameters.
    pub fn with(server: &Server, parameters: &[(&str, &str)]) -> Wire {
        let mut wire = Wire::raw(server.addresses()[0]);
        let words: Vec<&str> = parameters.iter().flat_map(|(name, value)| [*name, *value]).collect();
        wire.send(&first(3 << 16, &[texts(&words), vec![0]].concat()));
        wire.greeting = wire.until_ready();
        let (_, key) = wire.greeting.iter().find(|(tag, _)| *tag == b'K').expect("a key");
        wire.number = i32::from_be_bytes(key[..4].try_into().unwrap());
        wire.key = key[4..].to_vec();
        wire
    }

    /// A connection on which nothing was said.
    pub fn raw(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream.set_write_timeout(Some(WITHIN)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire { stream, number: 0, key: Vec::new(), greeting: Vec::new() }
    }

    /// The same connection, to be read by others.
    pub fn reading(&self) -> Wire {
        let stream = self.stream.try_clone().unwrap();
        Wire { stream, number: self.number, key: self.key.clone(), greeting: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Says nothing more.
    pub fn end(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Sends what may not be read any more.
    pub fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next message; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Whether something arrives within a time.
    pub fn is_there(&self, within: Duration) -> bool {
        self.stream.set_read_timeout(Some(within)).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(WITHIN)).unwrap();
        peeked.is_ok()
    }

    /// Some bytes as they are.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    /// Messages up to the next ReadyForQuery, that included.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let message =
                self.next().unwrap_or_else(|| panic!("the server has closed the connection after {}", shown(&all)));
            let is_ready = message.0 == b'Z';
            all.push(message);
            if is_ready {
                return all;
            }
        }
    }

    /// All messages up to the end of the connection.
    pub fn until_end(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// What comes of a text.
    pub fn query(&mut self, sql: &str) -> Vec<Message> {
        self.send(&query(sql));
        self.until_ready()
    }

    /// The rows of a query, as texts; panics where it fails.
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        let all = self.query(sql);
        assert!(all.iter().all(|(tag, _)| *tag != b'E'), "{sql}: {}", shown(&all));
        rows(&all)
    }

    /// The one value of a query.
    pub fn value(&mut self, sql: &str) -> String {
        self.rows(sql).remove(0).remove(0).unwrap_or_else(|| "NULL".into())
    }

    /// Goes without a word.
    pub fn vanish(self) {
        drop(self);
    }
}

/// The types of messages, in order: `TDDCZ`.
pub fn tags(all: &[Message]) -> String {
    all.iter().map(|(tag, _)| char::from(*tag)).collect()
}

/// Messages for people.
pub fn shown(all: &[Message]) -> String {
    let text =
        |(tag, body): &Message| format!("{}({})", char::from(*tag), String::from_utf8_lossy(body).replace('\0', "|"));
    all.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The rows among messages.
pub fn raw_rows(all: &[Message]) -> Vec<Vec<Option<Vec<u8>>>> {
    let row = |body: &[u8]| {
        let mut rest = &body[2..];
        let count = u16::from_be_bytes(body[..2].try_into().unwrap());
        (0..count)
            .map(|_| {
                let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
                rest = &rest[4..];
                let length = usize::try_from(length).ok()?;
                let value = rest[..length].to_vec();
                rest = &rest[length..];
                Some(value)
            })
            .collect()
    };
    all.iter().filter(|(tag, _)| *tag == b'D').map(|(_, body)| row(body)).collect()
}

pub fn rows(all: &[Message]) -> Vec<Vec<Option<String>>> {
    let text = |value: Option<Vec<u8>>| value.map(|value| String::from_utf8(value).unwrap());
    raw_rows(all).into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

/// A field of the first error or notice of a type among messages.
pub fn field(all: &[Message], tag: u8, letter: u8) -> String {
    let (_, body) = all.iter().find(|(own, _)| *own == tag).unwrap_or_else(|| panic!("no {tag} in {}", shown(all)));
    let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&letter));
    found.map_or_else(String::new, |field| String::from_utf8(field[1..].to_vec()).unwrap())
}

/// The code of the first error.
pub fn code(all: &[Message]) -> String {
    field(all, b'E', b'C')
}

/// What CommandComplete says, each time.
pub fn completed(all: &[Message]) -> Vec<String> {
    let text = |body: &Vec<u8>| String::from_utf8(body[..body.len() - 1].to_vec()).unwrap();
    all.iter().filter(|(tag, _)| *tag == b'C').map(|(_, body)| text(body)).collect()
}

/// The state of the transaction, as the last message tells it.
pub fn status(all: &[Message]) -> char {
    let (tag, body) = all.last().unwrap();
    assert_eq!(*tag, b'Z', "{}", shown(all));
    char::from(body[0])
}

/// Waits until something is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WITHIN, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}
