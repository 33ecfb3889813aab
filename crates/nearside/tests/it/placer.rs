//! The placer from outside: what it may be told, and on machines of several nodes what it does.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use nearside::{Database, ScalarValue, Session};

use crate::read::{database, number, rows};

/// Segments of one granule each: so few that they are not merged, and as many as nodes.
const SEGMENTS: i64 = 7;
const ROWS: i64 = SEGMENTS * 65_536;

#[test]
fn it_is_switched_and_says_what_is_wrong() {
    let database = database();
    let session = database.session();
    let show = |name: &str| rows(&session, &format!("SHOW nearside.{name}"))[0].last().cloned().unwrap();
    assert_eq!((show("placer"), show("placer_period_ms")), ("off".into(), "1000".into()));
    for mode in ["advise", "on", "off", "'ON'"] {
        session.execute(&format!("ALTER SYSTEM SET nearside.placer = {mode}")).unwrap();
        assert_eq!(show("placer"), mode.trim_matches('\'').to_lowercase());
    }
    session.execute("ALTER SYSTEM RESET nearside.placer").unwrap();
    session.execute("ALTER SYSTEM SET nearside.placer_period_ms = 50").unwrap();
    assert_eq!((show("placer"), show("placer_period_ms")), ("off".into(), "50".into()));
    for (statement, says) in [
        ("ALTER SYSTEM SET nearside.placer = maybe", "choose off, advise or on"),
        ("ALTER SYSTEM SET nearside.placer_period_ms = 1", "the shortest is 10"),
        ("ALTER SYSTEM SET nearside.placer_period_ms = often", "a number of milliseconds"),
        ("SET nearside.placer = on", "ALTER SYSTEM SET nearside.placer"),
        ("ALTER SYSTEM UNDO PLACEMENT 3", "there is no decision 3"),
        ("ALTER SYSTEM UNDO PLACEMENT", "Expected"),
        ("ALTER SYSTEM UNDO 3", "PLACEMENT and the number of a decision"),
    ] {
        let error = session.execute(statement).unwrap_err().to_string();
        assert!(error.contains(says), "{statement}: {error}");
    }
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.placement_log"), 0);
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.advice"), 0);
}

fn nodes_of(session: &Session, column: &str) -> BTreeSet<String> {
    let sql = format!(
        "SELECT DISTINCT node FROM nearside.pages WHERE \"table\" = 't' AND \"column\" = '{column}' AND component = \
         'codes' AND node IS NOT NULL"
    );
    rows(session, &sql).into_iter().map(|mut row| row.remove(0)).collect()
}

fn until(what: &str, session: &Session, sql: &str) {
    let begin = Instant::now();
    while number(session, sql) == 0 {
        let log = || rows(session, "SELECT * FROM nearside.placement_log");
        assert!(begin.elapsed() < Duration::from_secs(240), "never: {what}; {:?}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Those of some rows for which the query of the clients asks.
fn is_found(row: &i64) -> bool {
    row * 31 % 1000 % 7 == 3
}

/// Reads one column.
const COUNT: &str = "SELECT count(*) FROM t WHERE v % 7 = 3";
/// Reads two together.
const SUM: &str = "SELECT CAST(sum(w) AS BIGINT) FROM t WHERE v % 7 = 3";

/// Clients that ask for something, and one that writes, until they are told to stop.
fn beside<T>(database: &Database, written: &AtomicI64, query: &str, work: impl FnOnce() -> T) -> T {
    let expected = match query {
        COUNT => (0..ROWS).filter(is_found).count() as i64,
        _ => (0..ROWS).filter(is_found).map(|row| row % 5).sum(),
    };
    let is_over = AtomicBool::new(false);
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        for _ in 0..6 {
            scope.spawn(|| {
                let session = database.session();
                while !is_over.load(Ordering::SeqCst) {
                    assert_eq!(number(&session, query), expected);
                }
            });
        }
        scope.spawn(|| {
            let session = database.session();
            let insert = session.prepare("INSERT INTO t VALUES ($1, 0, 0)").unwrap();
            while !is_over.load(Ordering::SeqCst) {
                let key = -1 - written.load(Ordering::SeqCst);
                insert.run(&[ScalarValue::Int64(Some(key))]).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        });
        work()
    })
}

/// A database with the table, and a session; `None` where the machine has one node.
fn with_a_table() -> Option<(Database, Session)> {
    let database = Database::builder().memory_bytes(1 << 30).build().unwrap();
    let session = database.session();
    let count = number(&session, "SELECT count(*) FROM nearside.nodes WHERE usable AND cpus <> ''");
    if count < 2 {
        eprintln!("skipped: this machine has one memory node");
        return None;
    }
    session.execute("ALTER SYSTEM SET nearside.placer_period_ms = 300").unwrap();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, w BIGINT)").unwrap();
    for segment in 0..SEGMENTS {
        let (first, last) = (segment * 65_536, (segment + 1) * 65_536 - 1);
        let values = "value, value * 31 % 1000, value % 5";
        session.execute(&format!("INSERT INTO t SELECT {values} FROM generate_series({first}, {last})")).unwrap();
    }
    Some((database, session))
}

/// Two columns are asked for together by all: they go to the same nodes, with the same ranges.
#[test]
fn columns_that_are_read_together_go_together() {
    let Some((database, session)) = with_a_table() else { return };
    let done = "FROM nearside.placement_log WHERE \"column\" IN ('v', 'w') AND outcome = 'done'";
    beside(&database, &AtomicI64::new(0), SUM, || {
        session.execute("ALTER SYSTEM SET nearside.placer = on").unwrap();
        until("a move of both", &session, &format!("SELECT count(DISTINCT \"column\") / 2 {done}"));
    });
    session.execute("ALTER SYSTEM SET nearside.placer = off").unwrap();
    let log = rows(&session, &format!("SELECT \"column\", to_placement {done} ORDER BY number"));
    let last = |column: &str| &log.iter().rfind(|line| line[0] == column).expect("it was moved")[1];
    assert!(last("v").starts_with("ivp("), "{log:?}");
    assert_eq!(last("v"), last("w"), "{log:?}");
    assert_eq!(nodes_of(&session, "v"), nodes_of(&session, "w"));
}

/// One column is asked for by all: it is divided over the nodes, where the page map shows it, while queries and a
/// writer go on; a user undoes that; what a user placed is left alone.
#[test]
fn a_column_that_everybody_reads_is_divided_over_several_nodes() {
    let Some((database, session)) = with_a_table() else { return };
    assert_eq!(nodes_of(&session, "v").len(), 1);

    // Only said.
    let written = AtomicI64::new(0);
    beside(&database, &written, COUNT, || {
        session.execute("ALTER SYSTEM SET nearside.placer = advise").unwrap();
        until("advice", &session, "SELECT count(*) FROM nearside.advice WHERE \"column\" = 'v'");
    });
    assert_eq!(nodes_of(&session, "v").len(), 1);
    session.execute("ALTER SYSTEM SET nearside.placer = off").unwrap();

    let done = "FROM nearside.placement_log WHERE \"column\" = 'v' AND outcome = 'done'";
    beside(&database, &written, COUNT, || {
        session.execute("ALTER SYSTEM SET nearside.placer = on").unwrap();
        until("a move", &session, &format!("SELECT count(*) {done}"));
        // At once: what is measured on a machine that is busy otherwise may put it together again.
        let all = || rows(&session, "SELECT * FROM nearside.placement_log");
        assert!(nodes_of(&session, "v").len() > 1, "{:?}", all());
        let before = written.load(Ordering::SeqCst);
        let begin = Instant::now();
        while written.load(Ordering::SeqCst) == before {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is written any more");
            std::thread::yield_now();
        }
    });
    session.execute("ALTER SYSTEM SET nearside.placer = off").unwrap();
    let log = rows(&session, &format!("SELECT number, to_placement, why, predicted_gain > 1 {done} ORDER BY number"));
    assert!(log[0][1].starts_with("ivp(") && log[0][3] == "true", "{log:?}");
    let error = session.execute("ALTER SYSTEM UNDO PLACEMENT 1000000").unwrap_err().to_string();
    assert!(error.contains("there is no decision"), "{error}");
    for decision in log.iter().rev() {
        session.execute(&format!("ALTER SYSTEM UNDO PLACEMENT {}", decision[0])).unwrap();
    }
    assert_eq!(nodes_of(&session, "v").len(), 1);
    let error = session.execute(&format!("ALTER SYSTEM UNDO PLACEMENT {}", log[0][0])).unwrap_err().to_string();
    assert!(error.contains("is undone"), "{error}");

    // What a user places is a user's.
    session.execute("ALTER TABLE t ALTER COLUMN v SET PLACEMENT 'local'").unwrap();
    let lines = number(&session, "SELECT count(*) FROM nearside.placement_log");
    beside(&database, &written, COUNT, || {
        session.execute("ALTER SYSTEM SET nearside.placer = on").unwrap();
        std::thread::sleep(Duration::from_secs(4));
    });
    session.execute("ALTER SYSTEM SET nearside.placer = off").unwrap();
    let of_v = format!("SELECT count(*) FROM nearside.placement_log WHERE number > {lines} AND \"column\" = 'v'");
    assert_eq!(number(&session, &of_v), 0);
    let kept = number(&session, "SELECT count(*) FROM t WHERE k < 0");
    assert_eq!(kept, written.load(Ordering::SeqCst));
}
