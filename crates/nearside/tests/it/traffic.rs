//! What `nearside.traffic` says that statements touched is what their plans read, where the kernel says that it lies,
//! and what they keep.
//!
//! On a machine of one node all of it lies there; the multi-node virtual machines have more to tell apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nearside::arrow::array::{Array, AsArray};
use nearside::arrow::datatypes::{Int64Type, UInt32Type};
use nearside::{Database, Session};

/// Granules of 64 Ki rows, the last one not whole.
const ROWS: i64 = 5 * 65_536 + 777;
const GRANULES: i64 = 6;

/// Bytes by column, component and node.
type Bytes = BTreeMap<(String, String), BTreeMap<u32, i64>>;

fn bytes(session: &Session, sql: &str) -> Bytes {
    let mut found = Bytes::new();
    for batch in session.query(sql).unwrap().collect_all().unwrap() {
        let text = |column: usize, row| batch.column(column).as_string_view().value(row).to_string();
        for row in (0..batch.num_rows()).filter(|row| !batch.column(2).is_null(*row)) {
            let node = batch.column(2).as_primitive::<UInt32Type>().value(row);
            let bytes = batch.column(3).as_primitive::<Int64Type>().value(row);
            *found.entry((text(0, row), text(1, row))).or_default().entry(node).or_default() += bytes;
        }
    }
    found
}

/// Bits of a row's code, by column.
fn bits(session: &Session) -> BTreeMap<String, i64> {
    let sql = "SELECT \"column\", bits FROM nearside.columns WHERE \"table\" = 't'";
    let batches = session.query(sql).unwrap().collect_all().unwrap();
    let of = |row| {
        let bits = batches[0].column(1).as_primitive::<UInt32Type>().value(row);
        (batches[0].column(0).as_string_view().value(row).to_string(), i64::from(bits))
    };
    (0..batches[0].num_rows()).map(of).collect()
}

fn traffic(session: &Session) -> Bytes {
    let of_t = "FROM nearside.traffic WHERE \"table\" = 't' AND \"column\" IS NOT NULL";
    bytes(
        session,
        &format!("SELECT \"column\", component, from_node, CAST(sum(bytes) AS BIGINT) {of_t} GROUP BY 1, 2, 3"),
    )
}

/// What is new since `before`, once a statement has told all that it touched.
fn newer(before: &Bytes, now: impl Fn() -> Bytes) -> Bytes {
    let end = Instant::now() + Duration::from_secs(60);
    let mut last = now();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = now();
        if now == last && now != *before {
            break;
        }
        assert!(Instant::now() < end, "no traffic came");
        last = now;
    }
    for (item, by_node) in &mut last {
        for (node, bytes) in by_node.iter_mut() {
            *bytes -= before.get(item).and_then(|known| known.get(node)).unwrap_or(&0);
        }
        by_node.retain(|_, bytes| *bytes > 0);
    }
    last.retain(|_, by_node| !by_node.is_empty());
    last
}

/// A statement per operator, and the columns whose codes it reads, each how often.
const STATEMENTS: [(&str, &[(&str, i64)]); 8] = [
    ("SELECT count(*) FROM t WHERE a = 77", &[("a", 1)]),
    ("SELECT count(*) FROM t WHERE (a + b) % 7 = 3", &[("a", 1), ("b", 1)]),
    ("SELECT sum(c) FROM t", &[("c", 1)]),
    ("SELECT b, count(*), max(a) FROM t GROUP BY b", &[("a", 1), ("b", 1)]),
    ("SELECT a FROM t ORDER BY c, a LIMIT 1000000", &[("a", 1), ("c", 1)]),
    ("SELECT sum(n) FROM (SELECT row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t)", &[("a", 1), ("b", 1)]),
    ("SELECT b, c, sum(a) FROM t GROUP BY ROLLUP (b, c)", &[("a", 1), ("b", 1), ("c", 1)]),
    (
        "SELECT count(*) FROM (SELECT a FROM t UNION ALL SELECT c FROM t) u(x) WHERE x >= 0 AND x % 2 = 0",
        &[("a", 1), ("c", 1)],
    ),
];

/// Bytes by operator and phase of what operators keep.
fn kept(session: &Session) -> Bytes {
    let of_operators = "FROM nearside.traffic WHERE \"column\" IS NULL AND component = 'output'";
    // Without operators that keep something themselves.
    bytes(session, &format!("SELECT \"table\", phase, from_node, bytes {of_operators}"))
}

#[test]
fn what_operators_keep_is_told() {
    let database = Database::builder().memory_bytes(1 << 30).build().unwrap();
    let session = database.session();
    let rows = format!("SELECT value * 7919 % 100003 AS a, value % 1009 AS b FROM generate_series(1, {ROWS})");
    session.execute(&format!("CREATE TABLE t AS {rows}")).unwrap();
    let sorted = [("rows kept", "keep", 32), ("sort keys", "keep", 8), ("rows kept", "materialize", 16 + 16 + 64)];
    /// Component, phase, bytes of a row.
    type Line = (&'static str, &'static str, i64);
    let numbered = [("window results", "keep", 8), ("window results", "materialize", 8), ("rows kept", "keep", 32)];
    let statements: [(&str, &[Line]); 4] = [
        // Two integers of a row are kept, and written again when their columns are put together; both are read for that
        // and for the key, which is a word, and one is read at the end, a line of memory for each row.
        ("SELECT a FROM t ORDER BY b, a LIMIT 1000000", &sorted),
        ("SELECT b, count(*) FROM t GROUP BY b", &[("groups", "keep", 0), ("groups", "look up", 0)]),
        (
            "SELECT count(*) FROM t x JOIN t y ON x.a = y.a AND x.b < y.b",
            &[("join tables", "keep", 0), ("join tables", "look up", 0)],
        ),
        // A number for each row is written once and read once.
        ("SELECT sum(n) FROM (SELECT row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t)", &numbered),
    ];
    for (sql, expected) in statements {
        let before = kept(&session);
        session.query(sql).unwrap().collect_all().unwrap();
        let found = newer(&before, || kept(&session));
        for (operator, phase, bytes_per_row) in expected {
            let by_node = found.get(&(operator.to_string(), phase.to_string()));
            let sum: i64 = by_node.map_or(0, |by_node| by_node.values().sum());
            match bytes_per_row {
                0 => assert!(sum > 0, "{sql}: {operator}: {found:?}"),
                of_row => assert_eq!(sum, of_row * ROWS, "{sql}: {operator}, {phase}: {found:?}"),
            }
        }
    }
}

#[test]
fn columns_lie_where_the_traffic_says() {
    let database = Database::builder().memory_bytes(1 << 30).build().unwrap();
    let session = database.session();
    for placement in ["rr", "ivp"] {
        session.execute("DROP TABLE IF EXISTS t").unwrap();
        let create = format!(
            "CREATE TABLE t WITH (placement = '{placement}') AS SELECT value * 7919 % 100003 AS a, value % 1009 AS b,
             value * 31 % 30011 AS c FROM generate_series(1, {ROWS})"
        );
        session.execute(&create).unwrap();
        let pages =
            bytes(&session, "SELECT \"column\", component, node, bytes FROM nearside.pages WHERE \"table\" = 't'");
        let bits = bits(&session);
        for (sql, columns) in STATEMENTS {
            let before = traffic(&session);
            session.query(sql).unwrap().collect_all().unwrap();
            let found = newer(&before, || traffic(&session));
            let touched: BTreeSet<&str> = found.keys().map(|(column, _)| column.as_str()).collect();
            let named: BTreeSet<&str> = columns.iter().map(|(column, _)| *column).collect();
            assert_eq!(touched, named, "{placement}: {sql}: {found:?}");
            for (column, times) in columns {
                let codes = (column.to_string(), "codes".to_string());
                let by_node = &found[&codes];
                let lies = &pages[&codes];
                let sum: i64 = by_node.values().sum();
                let all = times * ROWS * bits[*column] / 8;
                // Each granule's share of each node is a whole number of bytes.
                let rounded = GRANULES * (1 + lies.len() as i64) * 4;
                assert!((all - rounded..=all + rounded).contains(&sum), "{placement}: {sql}: {column}: {sum} of {all}");
                assert!(by_node.keys().all(|node| lies.contains_key(node)), "{placement}: {sql}: {by_node:?} {lies:?}");
            }
        }
    }
}
