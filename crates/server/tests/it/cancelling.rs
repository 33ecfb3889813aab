//! Statements are cancelled through other connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearside_server::Server;

use crate::wire::{Wire, code, first, run, server, shown, status, sync, tags};

/// Minutes of work.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                    WHERE a.value * b.value % 7 = 8";

fn cancel(server: &Server, number: i32, key: &[u8]) {
    let mut wire = Wire::raw(server.addresses()[0]);
    wire.send(&first(80_877_102, &[&number.to_be_bytes()[..], key].concat()));
    // Nobody is told what came of it.
    assert_eq!(tags(&wire.until_end()), "");
}

#[test]
fn what_runs_is_cancelled_in_both_protocols() {
    let (server, _) = server();
    // What little there is to compute is not computed by the connection's own task.
    let sleeping = ["SELECT pg_sleep(60)", "SELECT (SELECT pg_sleep(60))", "VALUES (pg_sleep(60))"];
    let all = sleeping.into_iter().chain([LONG]);
    for messages in all.flat_map(|sql| [crate::wire::query(sql), [run(sql), sync()].concat()]) {
        let mut wire = Wire::open(&server);
        wire.send(&messages);
        std::thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        let mut wrong = wire.key.clone();
        wrong[0] ^= 1;
        cancel(&server, wire.number, &wrong);
        cancel(&server, wire.number + 1, &wire.key);
        let is_over = AtomicBool::new(false);
        let all = std::thread::scope(|scope| {
            // Before the server has read the query there is nothing to be cancelled.
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) && begun.elapsed() < Duration::from_secs(60) {
                    cancel(&server, wire.number, &wire.key);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let all = wire.reading().until_ready();
            is_over.store(true, Ordering::Release);
            all
        });
        assert_eq!((code(&all), status(&all)), ("57014".into(), 'I'), "{}", shown(&all));
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(wire.value("SELECT 1"), "1");
    }
}

#[test]
fn clients_that_sleep_hold_nobody_up() {
    let (server, _) = server();
    let mut sleeping: Vec<Wire> = (0..16).map(|_| Wire::open(&server)).collect();
    for wire in &mut sleeping {
        wire.send(&crate::wire::query("SELECT pg_sleep(60)"));
    }
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let mut wire = Wire::open(&server);
    assert_eq!(wire.value("SELECT count(*) FROM generate_series(1, 1000)"), "1000");
    assert!(begun.elapsed() < Duration::from_secs(20));
    for wire in &mut sleeping {
        cancel(&server, wire.number, &wire.key);
        assert_eq!(code(&wire.until_ready()), "57014");
    }
}

#[test]
fn what_has_not_begun_yet_is_cancelled_too() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    for pause in 0..20 {
        wire.send(&crate::wire::query(LONG));
        std::thread::sleep(Duration::from_micros(pause * 300));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Before the server has read the query there is nothing to be cancelled.
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    cancel(&server, wire.number, &wire.key);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let all = wire.reading().until_ready();
            is_over.store(true, Ordering::Release);
            assert_eq!(code(&all), "57014");
        });
    }
    // A cancellation that comes late cancels nothing.
    cancel(&server, wire.number, &wire.key);
    assert_eq!(wire.value("SELECT 1"), "1");
}

#[test]
fn who_waits_for_a_lock_is_cancelled() {
    let (server, _) = server();
    let (mut holder, mut waiting) = (Wire::open(&server), Wire::open(&server));
    holder.query("CREATE TABLE t (a INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)");
    holder.query("BEGIN; UPDATE t SET n = 1 WHERE a = 1");
    waiting.query("BEGIN");
    waiting.send(&crate::wire::query("UPDATE t SET n = 2 WHERE a = 1"));
    assert!(!waiting.is_there(Duration::from_millis(200)));
    cancel(&server, waiting.number, &waiting.key);
    let all = waiting.until_ready();
    assert_eq!((code(&all), status(&all)), ("57014".into(), 'E'));
    holder.query("COMMIT");
    waiting.query("ROLLBACK");
    assert_eq!(waiting.value("SELECT n FROM t"), "1");
}

#[test]
fn copy_that_waits_for_data_is_cancelled() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT)");
    wire.send(&crate::wire::query("COPY t FROM STDIN"));
    assert_eq!(wire.next().unwrap().0, b'G');
    wire.send(&crate::wire::message(b'd', b"1\n"));
    std::thread::sleep(Duration::from_millis(100));
    cancel(&server, wire.number, &wire.key);
    assert_eq!(code(&wire.until_ready()), "57014");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn keys_of_the_newest_version_are_longer() {
    let (server, _) = server();
    let mut wire = Wire::raw(server.addresses()[0]);
    let parameters = [crate::wire::texts(&["user", "test", "database", "nearside"]), vec![0]].concat();
    wire.send(&first(3 << 16 | 2, &parameters));
    let greeting = wire.until_ready();
    let key = greeting.iter().find(|(tag, _)| *tag == b'K').unwrap().1.clone();
    wire.send(&crate::wire::query(LONG));
    std::thread::sleep(Duration::from_millis(200));
    let number = i32::from_be_bytes(key[..4].try_into().unwrap());
    cancel(&server, number, &key[4..8]);
    assert_eq!(wire.next().unwrap().0, b'T');
    assert!(!wire.is_there(Duration::from_millis(200)));
    cancel(&server, number, &key[4..]);
    assert_eq!(code(&wire.until_ready()), "57014");
}
