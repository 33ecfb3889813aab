//! Who comes in, and until when.

use std::time::Duration;

use arrow_flight::Action;
use nearside::Database;
use nearside_server::{Limits, Options, Server};
use tonic::Code;

use super::client::{code, connect, query, runtime, server};

/// A server whose roles have passwords.
fn guarded() -> (Server, Database) {
    let limits = Limits { login_delay: Duration::ZERO, ..Limits::default() };
    let (server, database) = server(Options { limits, ..Options::default() });
    let roles = "ALTER ROLE nearside PASSWORD 'first'; CREATE ROLE ann SUPERUSER LOGIN PASSWORD 'sécret';
                 CREATE ROLE bob LOGIN PASSWORD 'bob'";
    database.session().execute(roles).unwrap();
    (server, database)
}

#[test]
fn a_token_is_good_until_its_password_changes_or_it_is_closed() {
    let (server, database) = guarded();
    runtime().block_on(async {
        let mut client = connect(&server).await;
        assert_eq!(code(client.execute("SELECT 1".into(), None).await), (Code::Unauthenticated, "28P01".into()));
        assert!(client.handshake("ann", "secret").await.is_err());
        assert!(client.handshake("nobody", "sécret").await.is_err());
        database.session().execute("CREATE TABLE hidden (n INT)").unwrap();
        let mut ordinary = connect(&server).await;
        ordinary.handshake("bob", "bob").await.unwrap();
        assert_eq!(query(&mut ordinary, "SELECT current_user").await.unwrap(), ["bob"]);
        let denied = code(ordinary.execute("SELECT * FROM hidden".into(), None).await);
        assert_eq!(denied, (Code::PermissionDenied, "42501".into()));
        client.handshake("ann", "sécret").await.unwrap();
        assert_eq!(query(&mut client, "SELECT current_user").await.unwrap(), ["ann"]);
        // A session is the token's, whatever connection it comes by.
        client.execute_update("CREATE TEMP TABLE own (n int)".into(), None).await.unwrap();
        let mut other = connect(&server).await;
        other.set_token(client.token().unwrap().clone());
        assert_eq!(query(&mut other, "SELECT count(*) FROM own").await.unwrap(), ["0"]);
        other.handshake("ann", "sécret").await.unwrap_err();
        database.session().execute("ALTER ROLE ann PASSWORD 'another'").unwrap();
        assert_eq!(code(client.execute("SELECT 1".into(), None).await), (Code::Unauthenticated, "28P01".into()));

        let mut client = connect(&server).await;
        client.handshake("nearside", "first").await.unwrap();
        let mut action = tonic::Request::new(Action::new("CloseSession", ""));
        let token = format!("Bearer {}", client.token().unwrap()).parse().unwrap();
        action.metadata_mut().insert("authorization", token);
        client.inner_mut().do_action(action).await.unwrap();
        assert_eq!(code(client.execute("SELECT 1".into(), None).await).0, Code::Unauthenticated);
        client.set_token("0".repeat(64));
        assert_eq!(code(client.execute("SELECT 1".into(), None).await).0, Code::Unauthenticated);
    });
}

#[test]
fn a_name_and_a_password_come_with_each_call_too() {
    use base64::Engine;
    let (server, _database) = guarded();
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let said = |text: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text));
        client.set_header("authorization", said("ann:sécret"));
        client.execute_update("CREATE TEMP TABLE own (n int)".into(), None).await.unwrap();
        assert_eq!(query(&mut client, "SELECT count(*) FROM own").await.unwrap(), ["0"]);
        client.set_header("authorization", said("nearside:first"));
        assert_eq!(code(client.execute("SELECT count(*) FROM own".into(), None).await).1, "42P01");
        client.set_header("authorization", said("ann:other"));
        assert_eq!(code(client.execute("SELECT 1".into(), None).await).1, "28P01");
        client.set_header("authorization", "Negotiate abc");
        assert_eq!(code(client.execute("SELECT 1".into(), None).await).1, "28P01");
    });
}

#[test]
fn a_server_that_ends_lets_calls_come_to_their_end() {
    let (server, _database) = server(Options::default());
    let runtime = runtime();
    let mut client = runtime.block_on(connect(&server));
    let id = runtime.block_on(client.begin_transaction()).unwrap();
    drop(client);
    drop(id);
    let begun = std::time::Instant::now();
    server.stop(Duration::from_secs(20));
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[test]
fn addresses_that_others_reach_need_a_certificate() {
    let database = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
    database.session().execute("ALTER ROLE nearside PASSWORD 'x'").unwrap();
    for options in [
        Options { flight: vec!["0.0.0.0:0".parse().unwrap()], ..Options::default() },
        Options { http: vec!["0.0.0.0:0".parse().unwrap()], ..Options::default() },
    ] {
        let options = Options { listen: vec!["127.0.0.1:0".parse().unwrap()], ..options };
        let failed = Server::start(database.clone(), options).err().expect("it is refused").to_string();
        assert!(failed.contains("certificate"), "{failed}");
    }
}
