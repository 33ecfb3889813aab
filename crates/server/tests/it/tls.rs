//! Encrypted connections.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use nearside::Database;
use nearside_server::{Access, Method, Options, Origin, Rule, Server};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::wire::{Wire, code, first, message, query, texts};

/// A certificate for this machine that is signed by itself, and its key.
fn certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    (certificate, key)
}

fn encrypting(files: (PathBuf, PathBuf)) -> (Server, Database) {
    let (server, database) = crate::wire::with_options(Options { tls: Some(files), ..Options::default() });
    database.session().execute("ALTER ROLE nearside PASSWORD 'secret'").unwrap();
    (server, database)
}

/// Asks for encryption: what the server says to that.
fn asked(server: &Server) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(server.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(crate::wire::WITHIN)).unwrap();
    stream.write_all(&first(1234 << 16 | 5679, &[])).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    (stream, answer[0])
}

/// An encrypted connection to who has a certificate.
fn encrypted(server: &Server, certificate: &Path) -> StreamOwned<ClientConnection, TcpStream> {
    let (stream, answer) = asked(server);
    assert_eq!(answer, b'S');
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream)
}

/// What psql says; `None` where there is none.
fn psql(server: &Server, options: &str, sql: &str) -> Option<Output> {
    let port = server.addresses()[0].port();
    let to = format!("host=127.0.0.1 port={port} user=nearside dbname=nearside connect_timeout=30 {options}");
    match Command::new("psql").args(["-X", "-A", "-t", "-q", "-d", &to, "-c", sql]).output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("LEFT OUT: there is no psql here (Debian: postgresql-client)");
            None
        }
    }
}

#[test]
fn psql_trusts_the_certificate_and_binds_its_login_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let root = files.0.display().to_string();
    let (server, _database) = encrypting(files);
    let options = |mode: &str, binding: &str| {
        format!("sslmode={mode} sslrootcert={root} channel_binding={binding} password=secret")
    };
    for (mode, binding) in [("verify-full", "require"), ("verify-full", "disable"), ("require", "prefer")] {
        let Some(output) = psql(&server, &options(mode, binding), "SELECT current_user") else { return };
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "nearside\n", "{mode} {binding}: {told}");
    }
    let output = psql(&server, &options("disable", "require"), "SELECT 1").unwrap();
    assert!(!output.status.success());
    let output = psql(&server, &options("disable", "prefer"), "SELECT 1").unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
}

#[test]
fn an_encrypted_connection_is_one_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let certificate = files.0.clone();
    let rule = |tls, method| Rule { from: Origin::Any, role: None, tls: Some(tls), method };
    let access = Access(Some(vec![rule(true, Method::Trust), rule(false, Method::Reject)]));
    let (server, _) = crate::wire::with_options(Options { tls: Some(files), access, ..Options::default() });
    let mut stream = encrypted(&server, &certificate);
    stream.write_all(&first(3 << 16, &[texts(&["user", "a", "database", "nearside"]), vec![0]].concat())).unwrap();
    let mut next = || {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
        stream.read_exact(&mut body).unwrap();
        (head[0], body)
    };
    while next().0 != b'Z' {}
    // More than is sent at once, there and back.
    let long = "x".repeat(300_000);
    stream.write_all(&query(&format!("SELECT '{long}'"))).unwrap();
    let mut all = Vec::new();
    while !all.ends_with(b"Z\0\0\0\x05I") {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        all.extend(&bytes[..read]);
    }
    assert!(all.len() > 300_000);
    let mut plain = Wire::raw(server.addresses()[0]);
    plain.send(&first(3 << 16, &[texts(&["user", "a", "database", "nearside"]), vec![0]].concat()));
    assert_eq!(code(&[plain.next().unwrap()]), "28000");
}

#[test]
fn what_comes_before_the_handshake_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _database) = encrypting(certificate(folder.path()));
    // Behind the request, before the server has said whether it encrypts.
    let mut wire = Wire::raw(server.addresses()[0]);
    wire.send(&[first(1234 << 16 | 5679, &[]), query("SELECT 1")].concat());
    assert_eq!(code(&[wire.next().unwrap()]), "08P01");
    // Something else than a handshake.
    let (mut stream, answer) = asked(&server);
    assert_eq!(answer, b'S');
    stream.write_all(&message(b'Q', b"SELECT 1\0")).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"R"), "{rest:?}");
    // TLS without being asked for.
    let mut wire = Wire::raw(server.addresses()[0]);
    wire.send(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
    assert_eq!(code(&[wire.next().unwrap()]), "08P01");
    // A request within what is encrypted.
    let mut stream = encrypted(&server, &folder.path().join("server.crt"));
    stream.write_all(&first(1234 << 16 | 5679, &[])).unwrap();
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    assert!(told.starts_with(b"E") && String::from_utf8_lossy(&told).contains("08P01"));
    crate::wire::until("the connections end", || server.connected() == 0);
}

#[test]
fn certificates_are_read_again() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, _database) = encrypting(certificate(one.path()));
    let other = certificate(two.path());
    let has = |stream: &mut StreamOwned<ClientConnection, TcpStream>| {
        stream.conn.complete_io(&mut stream.sock).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(has(&mut encrypted(&server, &one.path().join("server.crt"))), Ok(()));
    server.reload(Access::default(), Some(other.clone())).unwrap();
    assert!(has(&mut encrypted(&server, &one.path().join("server.crt"))).is_err());
    assert_eq!(has(&mut encrypted(&server, &other.0)), Ok(()));
    // What is none changes nothing.
    fs::write(&other.0, "no certificate").unwrap();
    assert!(server.reload(Access::default(), Some(other.clone())).is_err());
    assert_eq!(asked(&server).1, b'S');
    server.reload(Access::default(), None).unwrap();
    assert_eq!(asked(&server).1, b'N');
}

#[test]
fn files_that_are_no_certificate_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let start = |files: (&Path, &Path)| {
        let database = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
        let tls = Some((files.0.to_path_buf(), files.1.to_path_buf()));
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        Server::start(database, Options { listen, tls, ..Options::default() }).err().map(|error| error.to_string())
    };
    assert_eq!(start((&certificate, &key)), None);
    assert!(start((&key, &key)).unwrap().contains("server.key"));
    assert!(start((&folder.path().join("none"), &key)).unwrap().contains("none"));
    let second = tempfile::tempdir().unwrap();
    let (other, _) = self::certificate(second.path());
    assert!(start((&other, &key)).is_some(), "a key of another certificate");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start((&certificate, &key)).unwrap().contains("chmod 600"));
}

#[test]
fn http_and_flight_are_encrypted_by_the_same_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path());
    let certificate = files.0.clone();
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let options = Options { tls: Some(files), http: any(), flight: any(), ..Options::default() };
    let (server, _database) = crate::wire::with_options(options);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let encrypted = |to, protocol: &[u8]| {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(crate::wire::WITHIN)).unwrap();
        let mut config = config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    };
    // Who encrypts has seen whom it asks, by whatever name.
    let mut stream = encrypted(server.http()[0], b"http/1.1");
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: db.example.org\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    // Without it the same port goes on as before.
    let mut stream = TcpStream::connect(server.http()[0]).unwrap();
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: db.example.org\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&answer));
    // HTTP/2 begins with the server's settings, whatever comes.
    let mut stream = encrypted(server.flight()[0], b"h2");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!((head[3], &head[5..]), (4, &[0; 4][..]));
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
}
