//! How clients come in.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nearside_server::{Limits, Options, Server};

use crate::wire::{Wire, code, field, first, server, shown, tags, texts, until, with_options};

const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

fn parameters() -> Vec<u8> {
    [texts(&["user", "test", "database", "nearside"]), vec![0]].concat()
}

#[test]
fn encryption_is_declined() {
    let (server, _) = server();
    let mut wire = Wire::raw(server.addresses()[0]);
    for request in [GSS, SSL] {
        wire.send(&first(request, &[]));
        assert_eq!(wire.bytes::<1>(), *b"N");
    }
    wire.send(&first(3 << 16, &parameters()));
    assert_eq!(wire.until_ready().last().unwrap().0, b'Z');
}

#[test]
fn nothing_may_come_behind_a_request_for_encryption() {
    let (server, _) = server();
    let mut wire = Wire::raw(server.addresses()[0]);
    wire.send(&[first(SSL, &[]), first(3 << 16, &parameters())].concat());
    let all = wire.until_end();
    assert_eq!((tags(&all), code(&all), field(&all, b'E', b'S')), ("E".into(), "08P01".into(), "FATAL".into()));
}

#[test]
fn versions_are_agreed_on() {
    let (server, _) = server();
    let negotiated = |version: u32, more: &[u8]| {
        let mut wire = Wire::raw(server.addresses()[0]);
        wire.send(&first(version, &[more, &parameters()].concat()));
        let all = wire.until_ready();
        let key = all.iter().find(|(tag, _)| *tag == b'K').unwrap().1.len() - 4;
        (all.into_iter().find(|(tag, _)| *tag == b'v').map(|(_, body)| body), key)
    };
    assert_eq!(negotiated(3 << 16, &[]), (None, 4));
    assert_eq!(negotiated(3 << 16 | 2, &[]), (None, 32));
    let newest = [0, 3, 0, 2, 0, 0, 0, 0].to_vec();
    assert_eq!(negotiated(3 << 16 | 9999, &[]), (Some(newest), 32));
    let unknown = [&[0, 3, 0, 0, 0, 0, 0, 1][..], b"_pq_.wish\0"].concat();
    assert_eq!(negotiated(3 << 16, &texts(&["_pq_.wish", "1"])), (Some(unknown), 4));
    for version in [2 << 16, 4 << 16, 0] {
        let mut wire = Wire::raw(server.addresses()[0]);
        wire.send(&first(version, &parameters()));
        assert_eq!(code(&wire.until_end()), "0A000", "{version}");
    }
}

#[test]
fn who_asks_for_what_is_not_here_is_told_so() {
    let (server, _) = server();
    let refused = |parameters: &[&str]| {
        let mut wire = Wire::raw(server.addresses()[0]);
        wire.send(&first(3 << 16, &[texts(parameters), vec![0]].concat()));
        let all = wire.until_end();
        assert_eq!(field(&all, b'E', b'S'), "FATAL", "{}", shown(&all));
        code(&all)
    };
    assert_eq!(refused(&["user", "a", "database", "b"]), "3D000");
    assert_eq!(refused(&["database", "nearside"]), "28000");
    assert_eq!(refused(&["user", "a", "replication", "true"]), "0A000");
    assert_eq!(refused(&["user", "a", "client_encoding", "LATIN1"]), "0A000");
    assert_eq!(refused(&["user", "a", "no_such_setting", "1"]), "42704");
    assert_eq!(refused(&["user", "a", "a; SELECT 1", "1"]), "42704");
    assert_eq!(refused(&["user", "a", "options", "-x"]), "42601");
    // As clients say it that name no database, and write encodings as they like.
    let mut wire = Wire::with(&server, &[("user", "me"), ("client_encoding", "'utf-8'")]);
    assert_eq!(wire.value("SELECT current_database()"), "nearside");
}

#[test]
fn other_machines_cannot_come_in() {
    let database = nearside::Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:5432"] {
        let options = Options { listen: vec![address.parse().unwrap()], ..Options::default() };
        let error = Server::start(database.clone(), options).err().expect("it is refused").to_string();
        assert!(error.contains("password"), "{error}");
    }
    assert!(Server::start(database, Options::default()).is_err());
}

#[test]
fn a_socket_is_for_the_user_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Options { socket: Some(folder.path().into()), ..Options::default() };
    let (server, database) = with_options(options());
    let path = server.socket().unwrap().to_path_buf();
    let port = server.addresses()[0].port();
    assert_eq!(path, folder.path().join(format!(".s.PGSQL.{port}")));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // A second server does not take it away.
    let same = Options { listen: Vec::new(), ..options() };
    std::fs::write(folder.path().join("other"), "").unwrap();
    server.stop(Duration::from_secs(5));
    assert!(!path.exists());
    // What a server has left behind that was killed is taken away.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap());
    let server = Server::start(database.clone(), same.clone()).unwrap();
    assert!(Server::start(database, same).is_err());
    assert!(std::os::unix::net::UnixStream::connect(server.socket().unwrap()).is_ok());
}

#[test]
fn there_are_places_for_so_many_clients() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let (server, _) = with_options(Options { limits, ..Options::default() });
    let mut all: Vec<Wire> = (0..3).map(|_| Wire::open(&server)).collect();
    let mut one_more = Wire::raw(server.addresses()[0]);
    one_more.send(&first(3 << 16, &parameters()));
    assert_eq!(code(&one_more.until_end()), "53300");
    all.pop().unwrap().vanish();
    until("a place is free", || server.connected() < 3);
    assert_eq!(Wire::open(&server).value("SELECT 1"), "1");
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let limits = Limits { startup: Duration::from_millis(200), ..Limits::default() };
    let (server, _) = with_options(Options { limits, ..Options::default() });
    let begun = Instant::now();
    for bytes in [&[][..], &[0, 0], &first(3 << 16, &parameters())[..12]] {
        let mut wire = Wire::raw(server.addresses()[0]);
        wire.send(bytes);
        assert_eq!(tags(&wire.until_end()), "");
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    // Who has come in may be silent.
    let mut wire = Wire::open(&server);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(wire.value("SELECT 1"), "1");
}
