//! How the server ends.

use std::time::{Duration, Instant};

use crate::wire::{Wire, code, completed, query, server, shown, status};

#[test]
fn who_is_idle_is_sent_away_and_who_works_may_finish() {
    let (server, database) = server();
    let (mut idle, mut working) = (Wire::open(&server), Wire::open(&server));
    working.query("CREATE TABLE t (a INT)");
    working.query("BEGIN; INSERT INTO t VALUES (1)");
    let address = server.addresses()[0];
    let ending = std::thread::spawn(move || server.stop(Duration::from_secs(30)));
    let all = idle.until_end();
    assert_eq!(code(&all), "57P01", "{}", shown(&all));
    let all = working.query("INSERT INTO t VALUES (2)");
    assert_eq!(status(&all), 'T');
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody comes in");
    assert_eq!(completed(&working.query("COMMIT")), ["COMMIT"]);
    assert_eq!(code(&working.until_end()), "57P01");
    ending.join().unwrap();
    let batches = database.session().query("SELECT a FROM t").unwrap().collect_all().unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
}

#[test]
fn who_does_not_finish_is_cancelled() {
    let (server, _) = server();
    let (mut busy, mut open, mut slow) = (Wire::open(&server), Wire::open(&server), Wire::open(&server));
    open.query("BEGIN");
    busy.send(&query(
        "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
         WHERE a.value * b.value % 7 = 8",
    ));
    slow.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 100000000)"));
    assert_eq!(slow.next().unwrap().0, b'T');
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    server.stop(Duration::from_millis(300));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(code(&open.until_end()), "57P01");
    let all = busy.until_end();
    assert_eq!(code(&all), "57014", "{}", shown(&all));
}
