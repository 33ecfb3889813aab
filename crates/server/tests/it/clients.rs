//! Clients that are slow, that are gone, and that are many.

use std::time::{Duration, Instant};

use crate::wire::{Wire, execute, parse, query, raw_rows, server, sync, until};

/// Minutes of rows.
const ENDLESS: &str = "SELECT a.value, b.value, repeat('x', 100) FROM generate_series(1, 1000000) a, \
                       generate_series(1, 1000000) b";

/// How many threads this process has.
fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn the_first_row_leaves_when_it_is_there() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    let begun = Instant::now();
    wire.send(&query(ENDLESS));
    assert_eq!(wire.next().unwrap().0, b'T');
    assert_eq!(wire.next().unwrap().0, b'D');
    assert!(begun.elapsed() < Duration::from_secs(20));
    wire.vanish();
    until("the query of a client that is gone ends", || server.connected() == 0);
}

#[test]
fn a_client_that_takes_no_rows_holds_back_its_query_alone() {
    let (server, database) = server();
    let mut slow = Wire::open(&server);
    slow.send(&query(ENDLESS));
    assert_eq!(slow.next().unwrap().0, b'T');
    // What waits for the client does not grow any more.
    let used = || database.budget().used_bytes();
    let stays = || {
        let before = used();
        std::thread::sleep(Duration::from_millis(700));
        used() == before
    };
    until("it stops growing", stays);
    let mut other = Wire::open(&server);
    other.query("CREATE TABLE t (a INT)");
    for number in 0..20 {
        other.query(&format!("INSERT INTO t VALUES ({number})"));
    }
    assert_eq!(other.value("SELECT count(*) FROM t"), "20");
    // And it goes on where it was.
    for _ in 0..1000 {
        assert_eq!(slow.next().unwrap().0, b'D');
    }
    slow.vanish();
    until("it ends", || server.connected() == 1);
}

#[test]
fn a_query_ends_whose_client_is_gone() {
    let (server, _) = server();
    let long = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                WHERE a.value * b.value % 7 = 8";
    let mut wire = Wire::open(&server);
    wire.send(&query(long));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.connected(), 1);
    wire.vanish();
    until("the query ends", || server.connected() == 0);
    // So does what it has locked.
    let mut wire = Wire::open(&server);
    wire.query("CREATE TABLE t (a INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)");
    wire.query("BEGIN; UPDATE t SET n = 1");
    wire.vanish();
    until("the transaction ends", || server.connected() == 0);
    let mut wire = Wire::open(&server);
    assert_eq!(wire.query("UPDATE t SET n = 2").first().unwrap().0, b'C');
    assert_eq!(wire.value("SELECT n FROM t"), "2");
}

#[test]
fn who_waits_costs_no_thread() {
    let (server, _) = server();
    let mut all: Vec<Wire> = (0..4).map(|_| Wire::open(&server)).collect();
    all[0].value("SELECT 1");
    let before = threads();
    all.extend((0..200).map(|_| Wire::open(&server)));
    // Each has run something, but not all at once.
    for wire in &mut all {
        assert_eq!(wire.value("SELECT 1"), "1");
    }
    let now = threads();
    assert!(now < before + 50, "{before} {now}");
    assert_eq!(server.connected(), 204);
}

#[test]
fn who_waits_for_locks_keeps_nobody_from_giving_them_back() {
    let limits = nearside_server::Limits { blocking: 2, ..Default::default() };
    let options = nearside_server::Options { limits, ..Default::default() };
    let (server, _) = crate::wire::with_options(options);
    let mut holder = Wire::open(&server);
    holder.query("CREATE TABLE t (a INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)");
    holder.query("BEGIN; UPDATE t SET n = 1 WHERE a = 1");
    // More than there are turns for.
    let mut waiting: Vec<Wire> = (0..6).map(|_| Wire::open(&server)).collect();
    for wire in &mut waiting {
        wire.send(&query("UPDATE t SET n = n + 1 WHERE a = 1"));
    }
    std::thread::sleep(Duration::from_millis(200));
    holder.query("UPDATE t SET n = 10 WHERE a = 1");
    holder.query("COMMIT");
    for wire in &mut waiting {
        assert_eq!(wire.until_ready()[0].0, b'C');
    }
    assert_eq!(holder.value("SELECT n FROM t"), "16");
}

#[test]
fn a_portal_that_is_left_open_holds_nobody_back() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    wire.query("BEGIN");
    wire.send(&[parse("", ENDLESS, &[]), crate::wire::bind("p", "", &[], &[], &[]), execute("p", 3), sync()].concat());
    assert_eq!(raw_rows(&wire.until_ready()).len(), 3);
    let mut other = Wire::open(&server);
    assert_eq!(other.value("SELECT count(*) FROM generate_series(1, 100000)"), "100000");
    assert_eq!(wire.value("SELECT 5"), "5");
    wire.send(&[execute("p", 2), sync()].concat());
    assert_eq!(raw_rows(&wire.until_ready()).len(), 2);
    wire.query("COMMIT");
}
