//! Logins with passwords, and what who has not logged in can do: nothing.
//!
//! `NEARSIDE_LOGIN_CASES` has it try more, `NEARSIDE_LOGIN_SEED` others.

use std::time::Duration;

use nearside::Database;
use nearside_server::{Access, Limits, Method, Options, Origin, Rule, Server};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use random::Random;
use tokio_postgres::NoTls;

use crate::wire::{Wire, bind, code, describe, execute, first, message, parse, query, rows, sync, texts};

/// A server whose first role has a password, as have others.
fn guarded(options: Options) -> (Server, Database) {
    let (server, database) = crate::wire::with_options(options);
    let statements = "ALTER ROLE nearside PASSWORD 'first'; CREATE ROLE ann SUPERUSER LOGIN PASSWORD 'sécret';
                      CREATE ROLE bob LOGIN PASSWORD 'bob'; CREATE ROLE gone SUPERUSER PASSWORD 'gone';
                      CREATE ROLE late SUPERUSER LOGIN PASSWORD 'late' VALID UNTIL '2001-01-01';
                      CREATE ROLE nobody SUPERUSER LOGIN";
    database.session().execute(statements).unwrap();
    (server, database)
}

/// Nobody waits for logins that have failed.
fn quick() -> Options {
    Options { limits: Limits { login_delay: Duration::ZERO, ..Limits::default() }, ..Options::default() }
}

/// A connection that has said who it is.
fn begun(server: &Server, user: &str) -> Wire {
    let mut wire = Wire::raw(server.addresses()[0]);
    wire.send(&first(3 << 16, &[texts(&["user", user, "database", "nearside"]), vec![0]].concat()));
    wire
}

fn initial(mechanism: &str, data: &[u8]) -> Vec<u8> {
    message(b'p', &[&texts(&[mechanism])[..], &(data.len() as u32).to_be_bytes(), data].concat())
}

/// The kind and the data of an `Authentication..` message.
fn asked(wire: &mut Wire) -> (u32, Vec<u8>) {
    let (tag, body) = wire.next().expect("an answer");
    assert_eq!(tag, b'R', "{}", String::from_utf8_lossy(&body));
    (u32::from_be_bytes(body[..4].try_into().unwrap()), body[4..].to_vec())
}

/// What is said to who has failed, up to the end of the connection.
fn refused(wire: &mut Wire) -> String {
    let message = wire.next().expect("a reason");
    let code = code(&[message]);
    assert!(wire.next().is_none(), "the connection goes on");
    code
}

/// A whole exchange: `None` where it has succeeded, else the code.
fn exchanged(server: &Server, user: &str, password: &str) -> Option<String> {
    let mut wire = begun(server, user);
    assert_eq!(asked(&mut wire), (10, b"SCRAM-SHA-256\0\0".to_vec()));
    let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    wire.send(&initial("SCRAM-SHA-256", scram.message()));
    let (kind, challenge) = asked(&mut wire);
    assert_eq!(kind, 11);
    scram.update(&challenge).unwrap();
    wire.send(&message(b'p', scram.message()));
    match wire.next().unwrap() {
        (b'R', body) => {
            assert_eq!(body[..4], 12_u32.to_be_bytes());
            scram.finish(&body[4..]).expect("the server knows the password");
            assert_eq!(asked(&mut wire).0, 0);
            let greeting = wire.until_ready();
            assert!(greeting.iter().any(|(_, body)| *body == texts(&["session_authorization", user])));
            wire.send(&query("SELECT current_user"));
            assert_eq!(rows(&wire.until_ready()), [[Some(user.to_string())]]);
            None
        }
        other => {
            let code = code(&[other]);
            assert!(wire.next().is_none());
            Some(code)
        }
    }
}

#[test]
fn who_knows_the_password_comes_in() {
    let (server, database) = guarded(quick());
    assert_eq!(exchanged(&server, "ann", "sécret"), None);
    assert_eq!(exchanged(&server, "nearside", "first"), None);
    assert_eq!(exchanged(&server, "bob", "bob"), None);
    for (user, password, told) in [
        ("ann", "secret", "28P01"),
        ("nearside", "sécret", "28P01"),
        // Nobody learns who there is, who has no password, and whose has ended.
        ("eve", "x", "28P01"),
        ("nobody", "", "28P01"),
        ("late", "late", "28P01"),
        ("gone", "x", "28P01"),
        // Who knows the password does.
        ("gone", "gone", "28000"),
    ] {
        assert_eq!(exchanged(&server, user, password).as_deref(), Some(told), "{user}");
    }
    database.session().execute("ALTER ROLE ann PASSWORD 'another'").unwrap();
    assert_eq!(exchanged(&server, "ann", "sécret").as_deref(), Some("28P01"));
    assert_eq!(exchanged(&server, "ann", "another"), None);
}

#[test]
fn a_driver_logs_in() {
    let (server, _database) = guarded(quick());
    let port = server.addresses()[0].port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config =
            |password: &str| format!("host=127.0.0.1 port={port} user=ann dbname=nearside password={password}");
        let (client, connection) = tokio_postgres::connect(&config("sécret"), NoTls).await.unwrap();
        tokio::spawn(connection);
        let user: String = client.query_one("SELECT current_user", &[]).await.unwrap().get(0);
        assert_eq!(user, "ann");
        let failed = tokio_postgres::connect(&config("wrong"), NoTls).await.err().unwrap();
        assert_eq!(failed.code().unwrap().code(), "28P01");
    });
}

#[test]
fn who_has_not_logged_in_can_do_nothing() {
    let (server, database) = guarded(quick());
    database.session().execute("CREATE TABLE t (a INT)").unwrap();
    let messages = [
        query("INSERT INTO t VALUES (1)"),
        parse("", "INSERT INTO t VALUES (1)", &[]),
        bind("", "", &[], &[], &[]),
        describe(b'S', ""),
        execute("", 0),
        sync(),
        message(b'd', b"1\n"),
        message(b'c', &[]),
        message(b'f', b"x\0"),
        message(b'F', &[]),
        message(b'X', &[]),
        message(b'z', &[]),
        first(3 << 16, &[texts(&["user", "ann"]), vec![0]].concat()),
    ];
    for sent in &messages {
        // Before anything was asked, and in the middle of the exchange.
        for is_begun in [false, true] {
            let mut wire = begun(&server, "ann");
            assert_eq!(asked(&mut wire).0, 10);
            if is_begun {
                wire.send(&initial("SCRAM-SHA-256", b"n,,n=,r=abc"));
                assert_eq!(asked(&mut wire).0, 11);
            }
            wire.try_send(&[&sent[..], &query("INSERT INTO t VALUES (2)")].concat());
            assert_eq!(refused(&mut wire), "08P01", "{sent:?}");
        }
    }
    // All at once, without waiting for what is asked.
    let mut wire = Wire::raw(server.addresses()[0]);
    let start = first(3 << 16, &[texts(&["user", "ann", "database", "nearside"]), vec![0]].concat());
    wire.try_send(&[start, query("INSERT INTO t VALUES (3)")].concat());
    assert_eq!(asked(&mut wire).0, 10);
    assert_eq!(refused(&mut wire), "08P01");
    // Nothing has room for what a length says.
    for length in [0_u32, 3, 1029, 1 << 20, u32::MAX] {
        let mut wire = begun(&server, "ann");
        assert_eq!(asked(&mut wire).0, 10);
        wire.try_send(&[&b"p"[..], &length.to_be_bytes(), &[b'x'; 2000]].concat());
        assert_eq!(refused(&mut wire), "08P01", "{length}");
    }
    let written = database.session().query("SELECT * FROM t").unwrap().collect_all().unwrap();
    assert_eq!(written.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
    crate::wire::until("the connections end", || server.connected() == 0);
}

#[test]
fn what_is_no_exchange_is_refused() {
    let (server, _database) = guarded(quick());
    let first = |mechanism: &str, data: &str| {
        let mut wire = begun(&server, "ann");
        asked(&mut wire);
        wire.send(&initial(mechanism, data.as_bytes()));
        refused(&mut wire)
    };
    assert_eq!(first("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc"), "08P01");
    assert_eq!(first("PLAIN", "n,,n=,r=abc"), "08P01");
    for wrong in
        ["", "n", "n,", "x,,n=,r=abc", "p=tls-unique,,n=,r=abc", "n,,r=abc", "n,,n=", "n,,n=,r=", "n,,n=,r=\u{7}"]
    {
        assert_eq!(first("SCRAM-SHA-256", wrong), "08P01", "{wrong}");
    }
    assert_eq!(first("SCRAM-SHA-256", "n,a=bob,n=,r=abc"), "0A000");
    assert_eq!(first("SCRAM-SHA-256", "n,,m=x,n=,r=abc"), "0A000");
    let mut wire = begun(&server, "ann");
    asked(&mut wire);
    wire.send(&message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"));
    assert_eq!(refused(&mut wire), "08P01");
}

#[test]
fn an_exchange_is_good_once() {
    let (server, _database) = guarded(quick());
    let mut last = Vec::new();
    let mut nonce = Vec::new();
    for round in 0..2 {
        let mut wire = begun(&server, "ann");
        asked(&mut wire);
        let mut scram = ScramSha256::new("sécret".as_bytes(), ChannelBinding::unsupported());
        let own = scram.message().to_vec();
        if round == 0 {
            nonce = own;
        }
        // What the client says first is the same again.
        wire.send(&initial("SCRAM-SHA-256", &nonce));
        let (_, challenge) = asked(&mut wire);
        if round == 0 {
            scram.update(&challenge).unwrap();
            last = scram.message().to_vec();
            wire.send(&message(b'p', &last));
            assert_eq!(asked(&mut wire).0, 12);
        } else {
            wire.send(&message(b'p', &last));
            assert_eq!(refused(&mut wire), "08P01");
        }
    }
}

#[test]
fn rules_say_who_comes_in() {
    let rule = |from, role: Option<&str>, tls, method| Rule { from, role: role.map(str::to_string), tls, method };
    let rules = vec![
        rule(Origin::Loopback, Some("ann"), None, Method::Reject),
        rule(Origin::Loopback, Some("nearside"), None, Method::Trust),
        rule(Origin::Any, None, Some(true), Method::Scram),
        rule(Origin::Loopback, Some("eve"), None, Method::Trust),
    ];
    let (server, _database) = guarded(Options { access: Access(Some(rules)), ..quick() });
    assert_eq!(refused(&mut begun(&server, "ann")), "28000");
    assert_eq!(asked(&mut begun(&server, "nearside")).0, 0);
    assert_eq!(refused(&mut begun(&server, "bob")), "28000");
    assert_eq!(refused(&mut begun(&server, "eve")), "28000");
    server.reload(Access(None), None).unwrap();
    assert_eq!(exchanged(&server, "ann", "sécret"), None);
}

#[test]
fn who_has_lost_his_role_does_nothing_more() {
    let (server, database) = guarded(quick());
    let mut wire = begun(&server, "ann");
    asked(&mut wire);
    let mut scram = ScramSha256::new("sécret".as_bytes(), ChannelBinding::unsupported());
    wire.send(&initial("SCRAM-SHA-256", scram.message()));
    scram.update(&asked(&mut wire).1).unwrap();
    wire.send(&message(b'p', scram.message()));
    wire.until_ready();
    let mut ask = |sql: &str| {
        wire.send(&query(sql));
        wire.until_ready()
    };
    assert_eq!(code(&ask("DROP ROLE ann")), "55006");
    assert_eq!(code(&ask("DROP ROLE nearside")), "2BP01");
    database.session().execute("ALTER ROLE ann RENAME TO anna").unwrap();
    assert_eq!(rows(&ask("SELECT session_user")), [[Some("anna".to_string())]]);
    database.session().execute("ALTER ROLE anna NOSUPERUSER").unwrap();
    assert_eq!(rows(&ask("SELECT 1")), [[Some("1".to_string())]]);
    assert_eq!(code(&ask("CHECKPOINT")), "42501");
    database.session().execute("DROP ROLE anna; CREATE ROLE anna SUPERUSER").unwrap();
    assert_eq!(code(&ask("SELECT 1")), "42501");
}

/// A connection of a role that is in.
fn logged_in(server: &Server, user: &str, password: &str) -> Result<Wire, String> {
    let mut wire = begun(server, user);
    asked(&mut wire);
    let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
    wire.send(&initial("SCRAM-SHA-256", scram.message()));
    scram.update(&asked(&mut wire).1).unwrap();
    wire.send(&message(b'p', scram.message()));
    match wire.next().expect("an answer") {
        (b'R', _) => {
            wire.until_ready();
            Ok(wire)
        }
        other => Err(code(&[other])),
    }
}

fn done(wire: &mut Wire, sql: &str) -> Vec<(u8, Vec<u8>)> {
    wire.send(&query(sql));
    wire.until_ready()
}

#[test]
fn who_is_in_may_what_his_role_may() {
    let (server, database) = guarded(quick());
    let nearside = database.session();
    nearside.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 2), (3, 4)").unwrap();
    let mut bob = logged_in(&server, "bob", "bob").unwrap();
    let denied =
        ["SELECT a FROM t", "INSERT INTO t VALUES (5, 6)", "COPY t TO STDOUT", "COPY t FROM STDIN", "DROP TABLE t"];
    for sql in denied {
        assert_eq!(code(&done(&mut bob, sql)), "42501", "{sql}");
    }
    assert_eq!(rows(&done(&mut bob, "SHOW is_superuser")), [[Some("off".to_string())]]);
    nearside.execute("GRANT SELECT (a) ON t TO bob").unwrap();
    assert_eq!(rows(&done(&mut bob, "SELECT a FROM t WHERE a = 1")), [[Some("1".to_string())]]);
    // A statement that is prepared, read by its key, is looked at each time.
    let ready = [parse("s", "SELECT a FROM t WHERE a = $1", &[]), sync()];
    ready.iter().for_each(|message| bob.send(message));
    bob.until_ready();
    let run = |bob: &mut Wire| {
        bob.send(&bind("", "s", &[], &[Some(b"3")], &[]));
        bob.send(&execute("", 0));
        bob.send(&sync());
        bob.until_ready()
    };
    assert_eq!(rows(&run(&mut bob)), [[Some("3".to_string())]]);
    nearside.execute("REVOKE SELECT (a) ON t FROM bob").unwrap();
    assert_eq!(code(&run(&mut bob)), "42501");
    // Others' statements are theirs.
    assert_eq!(code(&done(&mut bob, "SELECT * FROM nearside.statements")), "42501");
    assert_eq!(code(&done(&mut bob, "SET SESSION AUTHORIZATION nearside")), "42501");
    assert_eq!(code(&done(&mut bob, "SET ROLE ann")), "42501");
    nearside.execute("REVOKE CONNECT ON DATABASE nearside FROM PUBLIC").unwrap();
    assert_eq!(logged_in(&server, "bob", "bob").err().as_deref(), Some("42501"));
    assert!(logged_in(&server, "ann", "sécret").is_ok());
}

#[test]
fn roles_have_limits() {
    let (server, database) = guarded(quick());
    let nearside = database.session();
    nearside.execute("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 10)").unwrap();
    let limits =
        "GRANT SELECT ON t TO bob; ALTER ROLE bob CONNECTION LIMIT 2; ALTER ROLE bob SET nearside.max_rows = 5;
                  ALTER ROLE bob SET nearside.max_statements = 1; ALTER ROLE bob SET application_name = 'bobs'";
    nearside.execute(limits).unwrap();
    let mut bob = logged_in(&server, "bob", "bob").unwrap();
    let second = logged_in(&server, "bob", "bob").unwrap();
    assert_eq!(logged_in(&server, "bob", "bob").err().as_deref(), Some("53300"));
    drop(second);
    assert_eq!(rows(&done(&mut bob, "SHOW application_name")), [[Some("bobs".to_string())]]);
    assert_eq!(rows(&done(&mut bob, "SELECT a FROM t ORDER BY a LIMIT 5")).len(), 5);
    assert_eq!(code(&done(&mut bob, "SELECT a FROM t")), "53400");
    for sql in ["SET nearside.max_rows = 0", "RESET nearside.max_rows", "ALTER ROLE bob RESET ALL"] {
        assert_eq!(code(&done(&mut bob, sql)), "42501", "{sql}");
    }
    done(&mut bob, "RESET ALL");
    done(&mut bob, "DISCARD ALL");
    assert_eq!(code(&done(&mut bob, "SELECT a FROM t")), "53400");
    // A cursor is a statement that runs.
    done(&mut bob, "BEGIN");
    done(&mut bob, "DECLARE c CURSOR FOR SELECT a FROM t");
    assert_eq!(code(&done(&mut bob, "SELECT 1")), "53400");
    done(&mut bob, "ROLLBACK");
    assert_eq!(rows(&done(&mut bob, "SELECT 1")).len(), 1);
}

#[test]
fn passwords_are_seen_nowhere() {
    let (server, database) = guarded(quick());
    drop(server);
    let session = database.session();
    session.execute("SET nearside.record_workload = true").unwrap();
    session.execute("BEGIN; ALTER ROLE ann PASSWORD 'hidden'").unwrap();
    for view in ["nearside.transactions", "nearside.workload", "pg_authid", "pg_shadow", "pg_roles", "pg_user"] {
        let seen = session.query(&format!("SELECT * FROM {view}")).unwrap().collect_all().unwrap();
        assert!(!format!("{seen:?}").contains("hidden"), "{view}");
    }
    session.execute("COMMIT").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("export");
    session.execute(&format!("EXPORT DATABASE '{}'", path.display())).unwrap();
    for file in std::fs::read_dir(path).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("hidden"));
    }
}

#[test]
fn spoilt_exchanges_never_come_in() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (server, _database) = guarded(quick());
    let mut random = Random::new(number("NEARSIDE_LOGIN_SEED", 1));
    for case in 0..number("NEARSIDE_LOGIN_CASES", 30) {
        let user = format!("user{case}");
        let mut wire = begun(&server, if case % 2 == 0 { &user } else { "ann" });
        asked(&mut wire);
        let mut scram = ScramSha256::new("another".as_bytes(), ChannelBinding::unsupported());
        let mut spoil = |mut bytes: Vec<u8>| {
            match random.below(4) {
                0 => {}
                1 => bytes.truncate(random.below(bytes.len())),
                2 => {
                    let place = random.below(bytes.len());
                    bytes[place] ^= 1 << random.below(8);
                }
                _ => {
                    let place = random.below(bytes.len());
                    bytes.insert(place, random.below(256) as u8);
                }
            }
            bytes
        };
        wire.try_send(&spoil(initial("SCRAM-SHA-256", scram.message())));
        wire.try_send(&spoil(message(b'p', b"c=biws,r=abc,p=AAAA")));
        let _ = scram.update(b"");
        wire.try_send(&spoil(query("SELECT 1")));
        wire.end();
        while let Some((tag, body)) = wire.next() {
            assert!(tag == b'E' || tag == b'R' && body[..4] == 11_u32.to_be_bytes(), "{case}: {tag} {body:?}");
        }
    }
    assert_eq!(exchanged(&server, "nearside", "first"), None);
}

#[test]
fn guesses_wait_for_each_other() {
    let (server, _database) = guarded(Options::default());
    let begun = std::time::Instant::now();
    for _ in 0..6 {
        assert_eq!(exchanged(&server, "ann", "guess").as_deref(), Some("28P01"));
    }
    assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
}

#[test]
fn addresses_that_others_reach_need_a_password() {
    let database = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
    let start = |access: Access| {
        let options = Options { listen: vec!["0.0.0.0:0".parse().unwrap()], access, ..Options::default() };
        Server::start(database.clone(), options).map_err(|error| error.to_string())
    };
    let told = start(Access::default()).err().unwrap();
    assert!(told.contains("no role has a password"), "{told}");
    database.session().execute("ALTER ROLE nearside PASSWORD 'secret'").unwrap();
    let told = start(Access::default()).err().unwrap();
    assert!(told.contains("certificate"), "{told}");
    let rule = Rule { from: Origin::Any, role: None, tls: Some(false), method: Method::Scram };
    let server = start(Access(Some(vec![rule]))).unwrap();
    assert!(server.reload(Access::default(), None).is_err());
    let mut wire = Wire::raw(([127, 0, 0, 1], server.addresses()[0].port()).into());
    wire.send(&first(3 << 16, &[texts(&["user", "nearside"]), vec![0]].concat()));
    assert_eq!(asked(&mut wire).0, 10);
}
