//! Hardware counters in SQL: what is known where the machine has them, NULL everywhere else.

use nearside::arrow::util::display::array_value_to_string;
use nearside::{Database, Session};
use numa::counters::ThreadCounters;

fn text(session: &Session, sql: &str) -> String {
    let batches = session.query(sql).unwrap().collect_all().unwrap();
    let row = |batch: &nearside::arrow::array::RecordBatch, row| {
        let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
        values.collect::<Vec<_>>().join(" | ")
    };
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at)));
    rows.collect::<Vec<_>>().join("\n")
}

const SUM: &str = "SELECT sum(x * y) FROM t";

fn session() -> Session {
    let database = Database::builder().threads(2).memory_bytes(512 << 20).build().unwrap();
    let session = database.session();
    session.execute("CREATE TABLE t AS SELECT i AS x, i % 7 AS y FROM generate_series(1, 300000) AS s(i)").unwrap();
    session
}

#[test]
fn they_are_shown_where_there_are_any_and_null_elsewhere() {
    let session = session();
    let analyzed = text(&session, &format!("EXPLAIN ANALYZE {SUM}"));
    let of_nodes = text(&session, "SELECT sum(cycles + instructions) > 0 AS counted FROM nearside.nodes");
    let known = match ThreadCounters::of_this_thread() {
        Some(mut counters) => !counters.since_last().is_unknown(),
        None => false,
    };
    if !known {
        eprintln!("no counters here: they must be unknown, not 0");
        assert!(!analyzed.contains("Counters of the statement"), "{analyzed}");
        assert!(!of_nodes.contains("true") && !of_nodes.contains("false"), "{of_nodes}");
        return;
    }
    assert!(analyzed.contains("Counters of the statement: "), "{analyzed}");
    session.execute("SET nearside.hardware_counters = off").unwrap();
    let analyzed = text(&session, &format!("EXPLAIN ANALYZE {SUM}"));
    assert!(!analyzed.contains("Counters of the statement"), "{analyzed}");
}

#[test]
fn the_setting_takes_two_words() {
    let session = session();
    let value = || text(&session, "SELECT value FROM nearside.settings WHERE name = 'nearside.hardware_counters'");
    assert!(value().contains("auto"));
    session.execute("SET nearside.hardware_counters = 'OFF'").unwrap();
    assert!(value().contains("off"));
    let error = session.execute("SET nearside.hardware_counters = 'on'").unwrap_err().to_string();
    assert!(error.contains("choose auto or off"), "{error}");
    assert!(value().contains("off"));
    session.execute("RESET nearside.hardware_counters").unwrap();
    assert!(value().contains("auto"));
}
