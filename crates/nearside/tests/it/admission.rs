//! Admission by the model from outside: it is switched, learns what queries cost, lets all of them end with right
//! answers, and lets go of those that are stopped while they wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearside::{Database, Error, Session};

use crate::read::{number, rows};

/// So many that a scan of them is not let in at once.
const ROWS: i64 = 3_000_000;

const SHORT: &str = "SELECT count(*) FROM t WHERE v < 500";
const LONG: &str = "SELECT count(*) FROM (SELECT DISTINCT v % 77777 AS a, k % 1000 AS b FROM t) AS d";

fn loaded() -> Database {
    let database = Database::builder().memory_bytes(2 << 30).build().unwrap();
    let session = database.session();
    session.execute("CREATE TABLE t (k BIGINT, v BIGINT)").unwrap();
    let values = "value, value * 7919 % 999983 * 1000";
    session.execute(&format!("INSERT INTO t SELECT {values} FROM generate_series(1, {ROWS})")).unwrap();
    database
}

fn patient(database: &Database) -> Session {
    let session = database.session();
    session.execute("SET nearside.admission = model").unwrap();
    session
}

#[test]
fn it_is_switched_and_says_what_is_wrong() {
    let database = Database::builder().memory_bytes(1 << 26).build().unwrap();
    let session = database.session();
    let shown = || rows(&session, "SHOW nearside.admission")[0].last().cloned().unwrap();
    assert_eq!(shown(), "fifo");
    session.execute("SET nearside.admission = 'MODEL'").unwrap();
    assert_eq!(shown(), "model");
    let error = session.execute("SET nearside.admission = lifo").unwrap_err().to_string();
    assert!(error.contains("nearside.admission cannot be 'lifo': choose fifo or model"), "{error}");
    assert_eq!(shown(), "model");
    session.execute("RESET nearside.admission").unwrap();
    assert_eq!(shown(), "fifo");
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.admission"), 0);
}

#[test]
fn queries_of_many_clients_end_with_right_answers() {
    let database = loaded();
    let session = patient(&database);
    let expected = [SHORT, LONG].map(|sql| number(&session, sql));
    let known = rows(&session, "SELECT sql, statements, alone_seconds > 0 FROM nearside.admission ORDER BY sql");
    assert!(known.len() == 2 && known.iter().all(|kind| kind[1] == "1" && kind[2] == "true"), "{known:?}");
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (database, expected) = (&database, &expected);
            scope.spawn(move || {
                // One does not wait for its turn.
                let session = if client == 5 { database.session() } else { patient(database) };
                let prepared = session.prepare(SHORT).unwrap();
                for round in 0..6 {
                    let which = (client + round) % 2;
                    assert_eq!(number(&session, [SHORT, LONG][which]), expected[which]);
                    let batches = prepared.query(&[]).unwrap().collect_all().unwrap();
                    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
                }
            });
        }
    });
    let runs = number(&session, "SELECT CAST(sum(statements) AS BIGINT) FROM nearside.admission");
    assert!(runs > 40, "{runs}");
}

/// Of prepared statements what they were prepared from is a kind, whatever they are given; so is what is recorded.
#[test]
fn kinds_are_those_of_what_runs() {
    let database = loaded();
    let session = patient(&database);
    session.execute("PREPARE q AS SELECT count(*) FROM t WHERE v < $1").unwrap();
    for below in [500, 5_000, 999_983_000] {
        number(&session, &format!("EXECUTE q({below})"));
    }
    let known = || rows(&session, "SELECT sql, statements FROM nearside.admission ORDER BY sql");
    assert_eq!(known(), [["SELECT count(*) FROM t WHERE v < $1", "3"]]);
    session.execute("SET nearside.record_workload = on").unwrap();
    number(&session, "EXECUTE q(7)");
    assert_eq!(known()[0][1], "4");
}

/// A statement whose rows nobody takes holds up nobody for long; one that waits can be stopped, and runs out of time.
#[test]
fn who_waits_can_be_stopped_and_nobody_waits_for_ever() {
    let database = loaded();
    let session = patient(&database);
    let all = "SELECT k, v FROM t WHERE v >= 0";
    let expected = number(&session, SHORT);
    // Known, and then taken by nobody.
    session.query(all).unwrap().for_each(|batch| drop(batch.unwrap()));
    let stalled: Vec<_> = (0..3).map(|_| patient(&database).query(all).unwrap()).collect();
    let first: Vec<_> = stalled.into_iter().map(|mut rows| (rows.next().unwrap().unwrap(), rows)).collect();
    let begin = Instant::now();
    assert_eq!(number(&patient(&database), SHORT), expected);
    assert!(begin.elapsed() < Duration::from_secs(60), "it waited for {:?}", begin.elapsed());
    drop(first);

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = patient(&database);
                while !over.load(Ordering::SeqCst) {
                    number(&session, LONG);
                }
            });
        }
        let hurried = patient(&database);
        hurried.execute("SET nearside.statement_timeout_ms = 1").unwrap();
        let mut failed = 0;
        for _ in 0..20 {
            match hurried.query(LONG).and_then(|rows| rows.collect_all()) {
                Err(Error::Timeout) => failed += 1,
                Err(other) => panic!("{other}"),
                Ok(_) => {}
            }
        }
        // Those that are dropped before they began leave nothing behind.
        (0..20).for_each(|_| drop(patient(&database).query(LONG)));
        over.store(true, Ordering::SeqCst);
        assert!(failed > 0);
    });
    assert_eq!(number(&session, SHORT), expected);
}
