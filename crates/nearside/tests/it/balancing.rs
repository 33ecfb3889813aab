//! How units balance the keys of tables with small writes: the setting, the views, and cycles that nobody calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nearside::Session;
use nearside::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use nearside::arrow::datatypes::UInt64Type;
use storage::Keys;

use crate::read::{database, number, rows};

fn refused(session: &Session, sql: &str) -> String {
    session.execute(sql).map(|_| ()).expect_err(sql).to_string()
}

fn shown(session: &Session) -> String {
    let shown = rows(session, "SHOW nearside.balancer");
    let listed = rows(session, "SELECT name, value FROM nearside.settings WHERE name = 'nearside.balancer'");
    assert_eq!(shown, listed);
    assert_eq!(shown.len(), 1);
    shown[0][1].clone()
}

#[test]
fn the_balancer_is_set_for_everybody_shown_and_reset() {
    let database = database();
    let (session, other) = (database.session(), database.session());
    assert_eq!(shown(&session), "one_shot");
    for (sql, expected) in [
        ("ALTER SYSTEM SET nearside.balancer = off", "off"),
        ("alter system set Nearside.Balancer to MA(8)", "ma(8)"),
        ("ALTER SYSTEM SET nearside.balancer = 'ma(1)'", "ma(1)"),
        ("ALTER SYSTEM SET nearside.balancer = One_Shot", "one_shot"),
        ("ALTER SYSTEM SET nearside.balancer = ma ( 3 );", "ma(3)"),
        ("ALTER SYSTEM SET nearside.balancer = DEFAULT", "one_shot"),
        ("ALTER SYSTEM SET nearside.balancer = 'off'", "off"),
        ("ALTER SYSTEM RESET nearside.balancer", "one_shot"),
        ("ALTER SYSTEM SET \"nearside\".balancer = off", "off"),
        ("ALTER SYSTEM RESET ALL", "one_shot"),
    ] {
        session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!((shown(&session).as_str(), shown(&other).as_str()), (expected, expected), "{sql}");
    }
    // It is set before there are units, and while there are.
    session.execute("ALTER SYSTEM SET nearside.balancer = ma(2)").unwrap();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(shown(&database.session()), "ma(2)");
    assert_eq!(rows(&session, "SHOW ALL").iter().filter(|row| row[0] == "nearside.balancer").count(), 1);
    // Another database has its own.
    assert_eq!(shown(&self::database().session()), "one_shot");
}

#[test]
fn what_is_no_balancer_and_no_setting_is_refused_and_changes_nothing() {
    let session = database().session();
    session.execute("ALTER SYSTEM SET nearside.balancer = ma(5)").unwrap();
    for (sql, parts) in [
        ("ALTER SYSTEM SET nearside.balancer = fast", &["nearside.balancer", "off, one_shot, or ma(n)", "fast"][..]),
        ("ALTER SYSTEM SET nearside.balancer = ma(0)", &["ma(n)", "at least 1"]),
        ("ALTER SYSTEM SET nearside.balancer = ma(-1)", &["ma(n)"]),
        ("ALTER SYSTEM SET nearside.balancer = ma(99999999999)", &["ma(n)"]),
        ("ALTER SYSTEM SET nearside.balancer = ''", &["ma(n)"]),
        ("ALTER SYSTEM SET nearside.balancer = NULL", &["ma(n)"]),
        ("ALTER SYSTEM SET nearside.balancer = off off", &["ma(n)"]),
        ("ALTER SYSTEM SET nearside.balancer = 'off' 'off'", &["syntax error", "end of statement"]),
        ("ALTER SYSTEM SET nearside.balancer =", &["syntax error", "value"]),
        ("ALTER SYSTEM SET nearside.balancer", &["syntax error", "= or TO"]),
        ("ALTER SYSTEM SET", &["syntax error"]),
        ("ALTER SYSTEM", &["syntax error", "SET, RESET or UNDO PLACEMENT"]),
        ("ALTER SYSTEM FLUSH", &["syntax error", "SET, RESET or UNDO PLACEMENT"]),
        ("ALTER SYSTEM RESET", &["syntax error"]),
        ("ALTER SYSTEM RESET nearside.balancer 1", &["syntax error", "end of statement"]),
        ("ALTER SYSTEM SET nearside.balanser = off", &["does not exist", "did you mean 'nearside.balancer'"]),
        ("ALTER SYSTEM RESET nearside.nothing", &["nearside.nothing", "does not exist"]),
        (
            "ALTER SYSTEM SET nearside.plan_cache = false",
            &["nearside.plan_cache", "a session's", "SET nearside.plan_cache"],
        ),
        ("SET nearside.balancer = off", &["all sessions", "ALTER SYSTEM SET nearside.balancer"]),
        ("SET nearside.balancer = ma(8)", &["all sessions", "ALTER SYSTEM SET nearside.balancer"]),
        ("RESET nearside.balancer", &["all sessions", "ALTER SYSTEM RESET nearside.balancer"]),
        ("SET nearside.balanser = off", &["did you mean 'nearside.balancer'"]),
        ("SHOW nearside.balanser", &["did you mean 'nearside.balancer'"]),
        ("PREPARE p AS ALTER SYSTEM SET nearside.balancer = off", &[""]),
        ("EXPLAIN ALTER SYSTEM SET nearside.balancer = off", &[""]),
    ] {
        let error = refused(&session, sql);
        for part in parts {
            assert!(error.contains(part), "{sql}: {error}");
        }
        assert_eq!(shown(&session), "ma(5)", "{sql}");
    }
    assert!(session.prepare("ALTER SYSTEM SET nearside.balancer = off").unwrap_err().to_string().contains("prepared"));
}

#[test]
fn views_of_units_say_what_there_is() {
    let database = database();
    let session = database.session();
    for view in ["partitions", "routing", "balancing"] {
        assert_eq!(rows(&session, &format!("SELECT * FROM nearside.{view}")), Vec::<Vec<String>>::new());
    }
    session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    session.execute("CREATE SCHEMA s; CREATE TABLE s.t (k BIGINT PRIMARY KEY, u TEXT UNIQUE, v INT)").unwrap();
    session.execute("CREATE TABLE plain (k BIGINT); INSERT INTO plain VALUES (1)").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.partitions"), 0, "nothing is keyed yet");
    session.execute("INSERT INTO s.t SELECT value, 'u' || value, 0 FROM generate_series(1, 1000)").unwrap();
    session.execute("INSERT INTO s.t VALUES (2000, NULL, 1)").unwrap();
    session.execute("DELETE FROM s.t WHERE k <= 10").unwrap();
    let found = rows(
        &session,
        "SELECT schema, \"table\", index, object, count(*), sum(ranges), sum(keys), min(bytes) > 0, sum(accesses) > 0, \
         min(first_key), max(last_key) FROM nearside.partitions GROUP BY 1, 2, 3, 4 ORDER BY 3",
    );
    let whole = ["true", "true", "0", "18446744073709551615"];
    let line = |index: &str, object: &str, keys: &str| {
        ["s", "t", index, object, "2", "2", keys].iter().chain(&whole).map(|s| s.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found, [line("t_pkey", "0", "991"), line("t_u_key", "1", "990")]);
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.partitions WHERE mean_execution_ns > 0"), 4);
    // Partitions and routing tables agree, and units are those of nearside.units.
    let agree = "SELECT count(*) FROM nearside.partitions p JOIN nearside.routing r ON p.object = r.object AND \
                 p.unit = r.unit AND p.first_key = r.first_key AND p.last_key = r.last_key AND p.node = r.node \
                 JOIN nearside.units u ON u.unit = p.unit AND u.node = p.node";
    assert_eq!(number(&session, agree), 4);
    let routing = "SELECT index, \"range\", unit, version, replicas, first_key, last_key FROM nearside.routing \
                   ORDER BY 1, 2";
    let half = (1_u64 << 63) - 1;
    // A replica for each node that has units.
    let replicas = number(&session, "SELECT count(DISTINCT node) FROM nearside.units").to_string();
    let line = |index: &str, range: u64, first: u64, last: u64| {
        let (number, first, last) = (range.to_string(), first.to_string(), last.to_string());
        vec![index.to_owned(), number.clone(), number, "0".into(), replicas.clone(), first, last]
    };
    let expected = [
        line("t_pkey", 0, 0, half - 1),
        line("t_pkey", 1, half, u64::MAX),
        line("t_u_key", 0, 0, half - 1),
        line("t_u_key", 1, half, u64::MAX),
    ];
    assert_eq!(rows(&session, routing), expected);
    // A name changes with the table, and what is merged or gone is not there.
    session.execute("ALTER TABLE s.t RENAME TO w").unwrap();
    session.execute("INSERT INTO s.w VALUES (3000, 'x', 1)").unwrap();
    assert_eq!(rows(&session, "SELECT DISTINCT \"table\" FROM nearside.routing"), [["w"]]);
    session.execute("CREATE INDEX ON s.w (v)").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.partitions"), 0);
    session.execute("INSERT INTO s.w VALUES (4000, 'y', 1)").unwrap();
    assert_eq!(number(&session, "SELECT sum(keys)::BIGINT FROM nearside.partitions"), 2);
    session.execute("DROP TABLE s.w").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.routing"), 0);
    let error = refused(&session, "SELECT * FROM nearside.partition");
    assert!(error.contains("did you mean 'nearside.partitions'"), "{error}");
    assert!(session.execute("DELETE FROM nearside.routing").is_err());
}

/// Rows of a table whose keys' codes lie in the first eighth of all.
fn hot_keys(keys: i64) -> Vec<i64> {
    let all: Vec<i64> = (0..keys).collect();
    let column: ArrayRef = Arc::new(Int64Array::from(all.clone()));
    let codes: Vec<_> = Keys::new(&[column]).unwrap().codes().collect();
    all.into_iter().filter(|key| codes[*key as usize].unwrap() < u64::MAX / 8).collect()
}

#[test]
fn keys_that_are_asked_for_more_are_shared_though_nobody_calls_for_it() {
    const ROWS: i64 = 16_000;
    const LIMIT: Duration = Duration::from_secs(120);
    let database = database();
    let session = database.session();
    session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    let table = database.keyed("t").unwrap();
    for first in (0..ROWS).step_by(2000) {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 2000));
        table.upsert(&RecordBatch::try_from_iter([("k", keys.clone()), ("v", keys)]).unwrap()).unwrap();
    }
    session.execute("ALTER SYSTEM SET nearside.balancer = off").unwrap();
    let hot = hot_keys(ROWS);
    assert!(hot.len() > 1000, "an eighth of all: {}", hot.len());
    let read = || {
        let found = table.lookup(&hot[..]).unwrap();
        assert_eq!(found.rows.num_rows(), hot.len());
    };
    (0..20).for_each(|_| read());
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.balancing"), 0);
    session.execute("ALTER SYSTEM RESET nearside.balancer").unwrap();
    let begin = Instant::now();
    while number(&session, "SELECT count(*) FROM nearside.balancing") == 0 {
        read();
        assert!(begin.elapsed() < LIMIT, "no range has moved");
    }
    let cycle = "SELECT schema, \"table\", index, algorithm, deviation > 0.2, ranges, keys > 1000, linked_ranges + \
                 copied_ranges, seconds > 0, error, at > TIMESTAMP '2020-01-01', object \
                 FROM nearside.balancing LIMIT 1";
    let expected = ["public", "t", "t_pkey", "one_shot", "true", "1", "true", "1", "true", "NULL", "true", "0"];
    assert_eq!(rows(&session, cycle), [expected]);
    let batches =
        session.query("SELECT first_key FROM nearside.routing WHERE unit = 1").unwrap().collect_all().unwrap();
    let first = batches[0].column(0).as_primitive::<UInt64Type>().value(0);
    assert!(first < u64::MAX / 4, "the second unit has keys of the first eighth: {first}");
    assert!(number(&session, "SELECT min(version) FROM nearside.routing") > 0);
    // The table is what it was.
    assert_eq!(number(&session, "SELECT sum(v)::BIGINT FROM t"), (0..ROWS).sum::<i64>());
    read();
    session.execute("DROP TABLE t").unwrap();
    let gone = rows(&session, "SELECT DISTINCT \"table\" FROM nearside.balancing");
    assert_eq!(gone, [["t"]], "what was done stays known");
}
