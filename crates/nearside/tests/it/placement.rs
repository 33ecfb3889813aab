//! Placements from outside: every placement gives the same answers, changes below running queries, and lies where it
//! says.
//!
//! On a machine of one node the parts that read nodes back say that they are skipped; the multi-node virtual machines
//! run them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nearside::arrow::array::{Array, AsArray};
use nearside::arrow::datatypes::{Int64Type, UInt32Type};
use nearside::arrow::util::pretty::pretty_format_batches;
use nearside::{Database, Error, Outcome, Session};

/// Granules of 64 Ki rows: at least one per node of the largest virtual machine.
const ROWS: i64 = 7 * 65_536 + 1234;

/// Every kind of placement; those with node numbers are made for the machine.
fn placements(nodes: &[u32]) -> Vec<String> {
    let first = nodes[0];
    let last = nodes[nodes.len() - 1];
    [
        "ivp".to_string(),
        "rr".into(),
        "pp(3, hash(k))".into(),
        "ivp(2)".into(),
        "pp(4, range(v))".into(),
        format!("node({last})"),
        "pp(2)".into(),
        "rr(blocks)".into(),
        "units".into(),
        "rr_tables".into(),
        "replicated".into(),
        "interleaved".into(),
        format!("rr; s: dictionary = replicated; v: ivp(nodes {first})"),
        "pp(5, hash(s, k)); v: replicated".into(),
        "local".into(),
        "striped".into(),
    ]
    .to_vec()
}

fn database() -> Database {
    Database::builder().memory_bytes(1 << 30).build().unwrap()
}

/// Keys, numbers with NULLs, few and many strings, doubles.
fn table(session: &Session, with: &str) {
    session
        .execute(&format!(
            "CREATE TABLE t {with} AS SELECT value AS k, CASE WHEN value % 10 = 3 THEN NULL ELSE value * 7919 % 100003 \
             END AS v,
                'name ' || CAST(value % 17 AS VARCHAR) AS s, CAST(value AS DOUBLE) / 3 AS d,
                'text of row ' || CAST(value AS VARCHAR) AS u FROM generate_series(1, {ROWS})"
        ))
        .unwrap();
}

fn text(session: &Session, sql: &str) -> String {
    let batches = session.query(sql).and_then(|rows| rows.collect_all()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    pretty_format_batches(&batches).unwrap().to_string()
}

const QUESTIONS: [&str; 5] = [
    "SELECT count(*), count(v), sum(k), sum(v), min(u), max(u), min(d), max(d) FROM t",
    "SELECT s, count(*), sum(v) FROM t WHERE k % 3 = 0 GROUP BY s ORDER BY s",
    "SELECT k, v, s, u FROM t WHERE v BETWEEN 500 AND 520 ORDER BY k",
    "SELECT count(*), sum(k) FROM t WHERE s = 'name 3' AND v IS NOT NULL",
    "SELECT k, d FROM t WHERE v IS NULL ORDER BY k DESC LIMIT 7",
];

fn answers(session: &Session) -> Vec<String> {
    QUESTIONS.iter().map(|sql| text(session, sql)).collect()
}

fn usable_nodes(session: &Session) -> Vec<u32> {
    let batches = session
        .query("SELECT node FROM nearside.nodes WHERE usable AND cpus <> '' ORDER BY node")
        .unwrap()
        .collect_all()
        .unwrap();
    batches.iter().flat_map(|b| b.column(0).as_primitive::<UInt32Type>().values().to_vec()).collect()
}

/// Bytes of `table` by column, part, component and node, as the kernel says.
type Pages = BTreeMap<(String, u32, String), BTreeMap<Option<u32>, i64>>;

fn pages(session: &Session) -> Pages {
    let sql = "SELECT \"column\", part, component, node, bytes FROM nearside.pages WHERE \"table\" = 't'";
    let mut pages = Pages::new();
    for batch in session.query(sql).unwrap().collect_all().unwrap() {
        let nodes = batch.column(3).as_primitive::<UInt32Type>();
        for row in 0..batch.num_rows() {
            let key = (
                batch.column(0).as_string_view().value(row).to_string(),
                batch.column(1).as_primitive::<UInt32Type>().value(row),
                batch.column(2).as_string_view().value(row).to_string(),
            );
            let node = (!nodes.is_null(row)).then(|| nodes.value(row));
            pages.entry(key).or_default().insert(node, batch.column(4).as_primitive::<Int64Type>().value(row));
        }
    }
    pages
}

/// The nodes of components that are large enough to be placed by pages.
fn nodes_of(pages: &Pages, wanted: impl Fn(&str, u32, &str) -> bool) -> BTreeSet<u32> {
    let large = |by_node: &&BTreeMap<Option<u32>, i64>| by_node.values().sum::<i64>() >= 64 << 10;
    let chosen = pages.iter().filter(|((c, p, k), _)| wanted(c, *p, k)).map(|(_, by_node)| by_node);
    chosen.filter(large).flat_map(|by_node| by_node.keys().flatten().copied().collect::<Vec<_>>()).collect()
}

fn set(session: &Session, placement: &str) {
    session
        .execute(&format!("ALTER TABLE t SET PLACEMENT '{placement}'"))
        .unwrap_or_else(|e| panic!("{placement}: {e}"));
}

#[test]
fn every_placement_gives_the_same_answers() {
    let database = database();
    let session = database.session();
    table(&session, "");
    let expected = answers(&session);
    for placement in placements(&usable_nodes(&session)) {
        set(&session, &placement);
        for (question, expected) in QUESTIONS.iter().zip(&expected) {
            assert_eq!(text(&session, question), *expected, "{placement}: {question}");
        }
    }
}

#[test]
fn rows_written_under_a_placement_are_all_there() {
    let database = database();
    let session = database.session();
    for placement in placements(&usable_nodes(&session)) {
        session.execute("CREATE OR REPLACE TABLE w (k BIGINT, v BIGINT, s VARCHAR)").unwrap();
        session.execute(&format!("ALTER TABLE w SET PLACEMENT '{placement}'")).unwrap();
        for i in 0..12 {
            session
                .execute(&format!(
                    "INSERT INTO w SELECT value, value % 5, 's' || CAST(value % 7 AS VARCHAR) FROM generate_series({}, \
                     {})",
                    i * 1000 + 1,
                    (i + 1) * 1000
                ))
                .unwrap();
        }
        session.execute("DELETE FROM w WHERE k % 4 = 0; UPDATE w SET v = v + 100 WHERE s = 's3'").unwrap();
        session.execute("ALTER TABLE w ADD COLUMN n INT DEFAULT 7; ALTER TABLE w RENAME COLUMN v TO x").unwrap();
        const TOTALS: &str = "SELECT count(*) AS a, count(DISTINCT k) AS b, sum(k) AS c, sum(x) AS d, sum(n) AS e";
        let found = text(&session, &format!("{TOTALS} FROM w"));
        session
            .execute(
                "CREATE OR REPLACE TABLE plain AS SELECT k, CASE WHEN k % 7 = 3 THEN k % 5 + 100 ELSE k % 5 \
            END AS x, 7 AS n
            FROM (SELECT value AS k FROM generate_series(1, 12000)) WHERE k % 4 <> 0",
            )
            .unwrap();
        let expected = text(&session, &format!("{TOTALS} FROM plain"));
        assert_eq!(found, expected, "{placement}");
        session.execute("TRUNCATE TABLE w; INSERT INTO w VALUES (1, 2, 'three', 4), (5, NULL, NULL, NULL)").unwrap();
        assert!(text(&session, "SELECT count(*) FROM w").contains(" 2 "), "{placement}");
    }
}

#[test]
fn queries_go_on_while_the_placement_changes() {
    let database = database();
    let session = database.session();
    table(&session, "");
    let expected = answers(&session);
    let done = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|reader| {
                let session = database.session();
                let expected = &expected;
                let done = &done;
                scope.spawn(move || {
                    let mut asked = 0;
                    while !done.load(Ordering::Relaxed) || asked < QUESTIONS.len() {
                        let question = (asked + reader) % QUESTIONS.len();
                        assert_eq!(text(&session, QUESTIONS[question]), expected[question]);
                        asked += 1;
                    }
                    asked
                })
            })
            .collect();
        for placement in placements(&usable_nodes(&session)) {
            set(&session, &placement);
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().map(|r| r.join().unwrap()).sum::<usize>()
    });
    assert!(asked >= 3 * QUESTIONS.len());
}

/// The same with little to do, for emulated machines.
#[test]
fn pages_move_below_a_query() {
    let database = database();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE t AS SELECT value AS k, value % 1000 AS v, 'text ' || CAST(value AS VARCHAR) AS u FROM \
            generate_series(1, 140000)",
        )
        .unwrap();
    const QUESTION: &str = "SELECT count(*) AS a, sum(k) AS b, sum(v) AS c, max(u) AS d FROM t WHERE v < 900";
    let expected = text(&session, QUESTION);
    let last = usable_nodes(&session).last().copied().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = database.session();
        let expected = &expected;
        let done = &done;
        scope.spawn(move || {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) || asked < 3 {
                assert_eq!(text(&reader, QUESTION), *expected);
                asked += 1;
            }
        });
        let on_last = format!("node({last})");
        for placement in ["ivp", on_last.as_str(), "pp(2, hash(k))", "interleaved", "replicated", "rr"] {
            set(&session, placement);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_cancelled_change_leaves_the_old_placement() {
    let database = database();
    let session = database.session();
    table(&session, "");
    let expected = answers(&session);
    let mut cancelled = 0;
    for (round, placement) in ["ivp", "pp(3, hash(k))", "replicated", "rr(blocks)"].iter().cycle().take(16).enumerate()
    {
        set(&session, "rr");
        let before = pages(&session);
        let handle = session.cancel_handle();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(200 << (round / 2)));
            handle.cancel();
        });
        let outcome = session.execute(&format!("ALTER TABLE t SET PLACEMENT '{placement}'"));
        canceller.join().unwrap();
        let now = text(&session, "SELECT DISTINCT placement FROM nearside.columns WHERE \"table\" = 't'");
        match outcome {
            Ok(_) => assert!(now.contains(placement), "{now}"),
            Err(Error::Cancelled) => {
                cancelled += 1;
                assert!(now.contains(" rr "), "{placement}: {now}");
                assert_eq!(pages(&session), before, "{placement}");
            }
            Err(error) => panic!("{placement}: {error}"),
        }
        assert_eq!(answers(&session), expected, "{placement}");
    }
    assert!(cancelled > 0, "no change was cancelled in time");
}

#[test]
fn a_change_that_does_not_fit_leaves_the_old_placement() {
    let database = Database::builder().memory_bytes(100 << 20).build().unwrap();
    let session = database.session();
    table(&session, "WITH (placement = 'ivp')");
    let expected = answers(&session);
    // Less is left than the table takes a second time.
    let table_bytes = database.budget().used_bytes();
    let left = || database.budget().available_bytes().unwrap();
    let mut fillers = 0;
    while left() > table_bytes / 2 {
        fillers += 1;
        session
            .execute(&format!("CREATE TABLE filler{fillers} AS SELECT u || '{fillers}' AS u FROM t LIMIT 60000"))
            .unwrap();
    }
    let used = database.budget().used_bytes();
    let outcome = session.execute("ALTER TABLE t SET PLACEMENT 'pp(4, hash(u))'");
    assert!(matches!(outcome, Err(Error::Memory(_))), "{outcome:?}");
    assert!(text(&session, "SELECT DISTINCT placement FROM nearside.columns WHERE \"table\" = 't'").contains(" ivp "));
    assert_eq!(answers(&session), expected);
    let deadline = Instant::now() + Duration::from_secs(10);
    while database.budget().used_bytes() != used && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(database.budget().used_bytes(), used);
    assert!(text(&session, "SELECT error FROM nearside.placement_changes").contains("budget"));
}

#[test]
fn columns_lie_where_the_placement_says() {
    let database = database();
    let session = database.session();
    let nodes = usable_nodes(&session);
    if nodes.len() < 2 {
        eprintln!("skipped: where columns lie is checked on machines of several nodes");
        return;
    }
    let all: BTreeSet<u32> = nodes.iter().copied().collect();
    let spread =
        |from: usize, count: usize| -> BTreeSet<u32> { (0..count).map(|i| nodes[(from + i) % nodes.len()]).collect() };
    table(&session, "WITH (placement = 'rr')");
    let check_rr = |when: &str| {
        for (i, column) in ["k", "v", "s", "d", "u"].iter().enumerate() {
            let found = nodes_of(&pages(&session), |c, _, _| c == *column);
            assert!(found.len() <= 1 && found.is_subset(&spread(i, 1)), "{when}: {column} on {found:?}");
        }
    };
    check_rr("at creation");
    set(&session, "ivp");
    for column in ["k", "v", "d", "u"] {
        assert_eq!(nodes_of(&pages(&session), |c, _, k| c == column && k == "codes"), all, "{column}");
    }
    set(&session, "rr");
    check_rr("moved back");
    session.execute("CREATE TABLE second WITH (placement = 'rr_tables') AS SELECT k, v FROM t").unwrap();
    let second =
        text(&session, "SELECT DISTINCT node FROM nearside.pages WHERE \"table\" = 'second' AND node IS NOT NULL");
    assert!(second.contains(&format!("| {} ", nodes[1])) && second.lines().count() == 5, "{second}");
    session.execute("DROP TABLE second").unwrap();
    set(&session, "rr_tables");
    assert_eq!(nodes_of(&pages(&session), |_, _, _| true), spread(0, 1), "the first table, whole");
    let shown = text(&session, "SELECT DISTINCT placement FROM nearside.columns WHERE \"table\" = 't'");
    assert!(shown.contains("rr_tables"), "{shown}");
    set(&session, "rr_columns");
    check_rr("dealt by columns again");
    session.execute(&format!("ALTER TABLE t NUMA NODE ('{}')", nodes[1])).unwrap();
    assert_eq!(nodes_of(&pages(&session), |_, _, _| true), spread(1, 1));
    session.execute(&format!("ALTER TABLE t ALTER COLUMN v NUMA NODE ({})", nodes[0])).unwrap();
    assert_eq!(nodes_of(&pages(&session), |c, _, _| c == "v"), spread(0, 1));
    assert_eq!(nodes_of(&pages(&session), |c, _, _| c != "v"), spread(1, 1));
    session.execute(&format!("ALTER TABLE t ALTER COLUMN d ROWS 0 TO 65536 NUMA NODE ({})", nodes[0])).unwrap();
    assert_eq!(nodes_of(&pages(&session), |c, _, _| c == "d"), spread(0, 2));
    set(&session, "pp(2, hash(k))");
    for part in 0..2 {
        assert_eq!(nodes_of(&pages(&session), |_, p, _| p == part), spread(part as usize, 1), "part {part}");
    }
    session.execute(&format!("ALTER TABLE t PARTITION 0 NUMA NODE ('{}')", nodes[1])).unwrap();
    assert_eq!(nodes_of(&pages(&session), |_, _, _| true), spread(1, 1));
    set(&session, "replicated");
    for column in ["k", "v", "d", "u"] {
        let found = pages(&session);
        assert_eq!(nodes_of(&found, |c, _, k| c == column && k == "codes"), all, "{column}");
    }
    set(&session, "interleaved");
    assert_eq!(nodes_of(&pages(&session), |c, _, _| c == "k"), all);
    let report =
        text(&session, "SELECT moved_bytes > 0, rewritten_bytes > 0, stuck_bytes FROM nearside.placement_changes");
    assert!(report.contains("true"), "{report}");
    // Each unit's rows lie on its node.
    set(&session, "units");
    let sql = "SELECT unit, node FROM nearside.partitions WHERE \"table\" = 't' ORDER BY unit";
    let batches = session.query(sql).and_then(|rows| rows.collect_all()).unwrap();
    let mut units = 0;
    for batch in &batches {
        let numbers = |column: usize| batch.column(column).as_primitive::<UInt32Type>().values().to_vec();
        for (unit, node) in numbers(0).into_iter().zip(numbers(1)) {
            assert_eq!(nodes_of(&pages(&session), |_, p, _| p == unit), BTreeSet::from([node]), "unit {unit}");
            units += 1;
        }
    }
    assert_eq!(units, database.scheduler().threads());
}

#[test]
fn tables_cut_alike_lie_together() {
    let database = database();
    let session = database.session();
    table(&session, "WITH (placement = 'pp(4, range(k))')");
    session
        .execute("CREATE TABLE other WITH (placement = 'pp(like t(b))') AS SELECT k AS b, v FROM t WHERE k % 2 = 0")
        .unwrap();
    let bounds = |table: &str, column: &str| {
        let sql = format!(
            "SELECT DISTINCT p.part, c.placement FROM nearside.pages p
             JOIN nearside.columns c ON p.\"table\" = c.\"table\" AND p.\"column\" = c.\"column\"
             WHERE c.\"table\" = '{table}' AND c.\"column\" = '{column}' ORDER BY p.part"
        );
        text(&session, &sql)
    };
    assert_eq!(bounds("other", "b").matches("pp(4, range(b)").count(), 4, "{}", bounds("other", "b"));
    assert!(text(&session, "SELECT count(*) FROM t JOIN other ON k = b").contains(&(ROWS / 2).to_string()));
}

#[test]
fn an_exported_table_keeps_its_placement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let database = database();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE t (k BIGINT, \"odd ; name\" VARCHAR) WITH (placement = 'pp(3, hash(k)); \"odd ; name\": \
            ivp')",
        )
        .unwrap();
    session
        .execute("INSERT INTO t SELECT value, CAST(value AS VARCHAR) AS text FROM generate_series(1, 1000)")
        .unwrap();
    session.execute("CREATE TABLE o (a BIGINT) WITH (placement = 'pp(like t(a))')").unwrap();
    session.execute("ALTER TABLE o PARTITION 2 NUMA NODE (0)").unwrap();
    session.execute(&format!("EXPORT DATABASE '{}'", path.display())).unwrap();
    let again = self::database().session();
    again.execute(&format!("IMPORT DATABASE '{}'", path.display())).unwrap();
    let columns = "SELECT \"column\", placement, parts, rows FROM nearside.columns ORDER BY \"column\"";
    assert_eq!(text(&again, columns), text(&session, columns));
    assert!(text(&again, columns).contains("pp(3, hash(k))"));
}

#[test]
fn a_table_from_another_machine_comes_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let session = database().session();
    session.execute("CREATE TABLE t WITH (placement = 'node(0); k: ivp(nodes 0)') AS SELECT 1 AS k").unwrap();
    session.execute(&format!("EXPORT DATABASE '{}'", path.display())).unwrap();
    let schema = path.join("schema.sql");
    let script = std::fs::read_to_string(&schema).unwrap();
    std::fs::write(&schema, script.replace("node(0)", "node(4000)")).unwrap();
    let again = database().session();
    again.execute(&format!("IMPORT DATABASE '{}'", path.display())).unwrap();
    assert!(text(&again, "SELECT placement FROM nearside.columns").contains(" rr "));
}

#[test]
fn a_strategy_leaves_parallelism_and_the_threshold_alone() {
    let session = database().session();
    let value = |name: &str| {
        text(&session, &format!("SELECT concat('=', value, '=') FROM nearside.settings WHERE name = 'nearside.{name}'"))
    };
    assert!(value("memory_intensive_bytes_per_us").contains("=auto="));
    session.execute("SET nearside.parallelism = 3; SET nearside.memory_intensive_bytes_per_us = 2147483647").unwrap();
    session.execute("SET nearside.affinities = ' HARD '; SET nearside.stealing = 'ANY'").unwrap();
    assert!(value("affinities").contains("=hard=") && value("stealing").contains("=any="));
    assert!(value("scheduling").contains("=bound="), "{}", value("scheduling"));
    for change in ["SET nearside.scheduling = 'OS'", "SET nearside.scheduling = 'custom'", "RESET nearside.scheduling"]
    {
        session.execute(change).unwrap();
        assert!(value("parallelism").contains("=3="), "{change}");
        assert!(value("memory_intensive_bytes_per_us").contains("=2147483647="), "{change}");
    }
    assert!(value("affinities").contains("=weighed="));
    session.execute("SET nearside.memory_intensive_bytes_per_us = 'AUTO'").unwrap();
    assert!(value("memory_intensive_bytes_per_us").contains("=auto="));
    let error = nearside::Database::builder().threads(4097).build().unwrap_err().to_string();
    assert!(error.contains("4097") && error.contains("4096"), "{error}");
}

#[test]
fn scheduling_is_set_per_session() {
    let database = database();
    let session = database.session();
    table(&session, "");
    let expected = answers(&session);
    for preset in ["os", "target", "bound"] {
        session.execute(&format!("SET nearside.scheduling = '{preset}'")).unwrap();
        assert!(text(&session, "SHOW nearside.scheduling").contains(preset));
        assert_eq!(answers(&session), expected, "{preset}");
    }
    session.execute("SET nearside.stealing = 'off'; SET nearside.parallelism = 1").unwrap();
    assert!(text(&session, "SHOW nearside.scheduling").contains("custom"));
    assert_eq!(answers(&session), expected);
    for (wrong, said) in [
        ("nearside.stealing = 'sometimes'", "off, neighbour, any"),
        ("nearside.scheduling = 'best'", "os, target, bound"),
        ("nearside.scheduling = 'best'", "nearside.scheduling cannot be 'best'"),
        ("nearside.parallelism = 70000", "at most 65535"),
        ("nearside.memory_intensive_bytes_per_us = 2147483648", "up to 2147483647"),
        ("nearside.memory_intensive_bytes_per_us = 'much'", "choose auto, 0 (never)"),
    ] {
        let error = session.execute(&format!("SET {wrong}")).unwrap_err().to_string();
        assert!(error.contains(said), "{wrong}: {error}");
    }
    session.execute("RESET nearside.scheduling").unwrap();
    assert!(
        text(&session, "SELECT value FROM nearside.settings WHERE name = 'nearside.stealing'").contains("neighbour")
    );
    let slots = format!("SELECT sum(slots) = {} FROM nearside.thread_groups", database.scheduler().threads());
    assert!(text(&session, &slots).contains("true"));
    // A statement whose rows are not all taken is still running.
    let other = database.session();
    let mut rows = other.query("SELECT k, u FROM t").unwrap();
    rows.next().unwrap().unwrap();
    assert!(text(&session, "SELECT sql FROM nearside.statements").contains("SELECT k, u FROM t"));
    drop(rows);
    assert!(text(&session, "SELECT count(*) >= 0 FROM nearside.tasks").contains("true"));
}

#[test]
fn loads_take_a_placement_and_sessions_a_default() {
    let database = database();
    let session = database.session();
    session.execute("SET nearside.placement = 'ivp(2)'; CREATE TABLE a (n BIGINT)").unwrap();
    let placement =
        |table: &str| text(&session, &format!("SELECT placement FROM nearside.columns WHERE \"table\" = '{table}'"));
    assert!(placement("a").contains("ivp(2)"));
    session.execute("CREATE TABLE b (n BIGINT) WITH (placement = 'rr')").unwrap();
    assert!(placement("b").contains(" rr "));
    let Outcome::Done(_) = session.execute("RESET nearside.placement").unwrap() else { panic!("RESET gave rows") };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.csv");
    std::fs::write(&file, "n\n1\n2\n3\n").unwrap();
    let options = nearside::LoadOptions { placement: Some("pp(2, hash(n))".into()), ..Default::default() };
    assert_eq!(database.load("c", file.to_str().unwrap(), &options).unwrap().rows, 3);
    assert!(placement("c").contains("pp(2, hash(n))"));
    let options = nearside::LoadOptions { placement: Some("somewhere".into()), ..Default::default() };
    let error = database.load("d", file.to_str().unwrap(), &options).unwrap_err().to_string();
    assert!(error.contains("placement 'somewhere'"), "{error}");
}
