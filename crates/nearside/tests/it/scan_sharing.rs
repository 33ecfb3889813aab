//! `nearside.scan_sharing`: its values, that rows are the same whatever it says, and what EXPLAIN ANALYZE tells.

use std::sync::Barrier;

use nearside::{Database, Session};

use crate::read::rows;

/// A table of four granules in no order, two columns.
fn database() -> Database {
    let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
    let values = "SELECT value * 7919 % 199999 AS a, value % 10 AS b FROM generate_series(1, 200000)";
    database.session().execute(&format!("CREATE TABLE t AS {values}")).unwrap();
    database
}

/// The rows of an answer, a line each.
fn text(session: &Session, sql: &str) -> String {
    let lines: Vec<String> = rows(session, sql).iter().map(|row| row.join(" ")).collect();
    lines.join("\n")
}

fn sharing(database: &Database, value: &str) -> Session {
    let session = database.session();
    session.execute(&format!("SET nearside.scan_sharing = {value}")).unwrap();
    session
}

#[test]
fn the_setting_takes_three_words() {
    let session = database().session();
    let value = || text(&session, "SHOW nearside.scan_sharing");
    assert!(value().ends_with("auto"));
    for word in ["'OFF'", "on", "'auto'", "off"] {
        session.execute(&format!("SET nearside.scan_sharing = {word}")).unwrap();
        assert!(value().ends_with(&word.trim_matches('\'').to_lowercase()), "{}", value());
    }
    let error = session.execute("SET nearside.scan_sharing = maybe").unwrap_err().to_string();
    assert!(error.contains("choose auto, on or off"), "{error}");
    assert!(value().ends_with("off"));
    session.execute("RESET nearside.scan_sharing").unwrap();
    assert!(value().ends_with("auto"));
}

#[test]
fn explain_analyze_tells_of_shared_passes() {
    let database = database();
    let two = "EXPLAIN ANALYZE SELECT count(*) FROM t x JOIN t y ON x.b = y.b \
               WHERE x.a BETWEEN 100 AND 120 AND y.a BETWEEN 500 AND 530";
    let on = text(&sharing(&database, "on"), two);
    assert!(on.contains("Shared passes: 4 granules read for other scans too, 4 read by other scans"), "{on}");
    for value in ["off", "auto"] {
        let told = text(&sharing(&database, value), two);
        assert!(!told.contains("Shared passes"), "{value}: {told}");
    }
}

#[test]
fn sessions_that_share_get_the_rows_that_they_get_alone() {
    let database = &database();
    let begin = &Barrier::new(6);
    std::thread::scope(|scope| {
        for client in 0..6 {
            scope.spawn(move || {
                let (off, on) = (sharing(database, "off"), sharing(database, "on"));
                for turn in 0..10 {
                    let low = (client * 31 + turn * 17) * 400;
                    let sql = format!(
                        "SELECT count(*), sum(b), min(a), max(a) FROM t WHERE a BETWEEN {low} AND {}",
                        low + 50 + 1000 * (turn % 3)
                    );
                    let expected = text(&off, &sql);
                    begin.wait();
                    assert_eq!(text(&on, &sql), expected, "{sql}");
                }
            });
        }
    });
}
