//! A statement per operator, and per line of `nearside.traffic`: what the view says is what the page map and the plan
//! say, from node to node, and nothing else.
//!
//! Expected bytes are worked out here, from the bits of a column, the rows that a plan reads of it and the widths of
//! what operators keep. Tasks are bound to their data and their workers to their cpus, so the node of each task of a
//! scan is known: that of the widest column which its condition reads, else which it loads. Bytes are exact but where a
//! bound says why not. On a machine of one node all of it lies there; the multi-node virtual machines tell nodes apart.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nearside::arrow::array::{Array, AsArray, Int64Array};
use nearside::arrow::datatypes::{Int64Type, UInt32Type};
use nearside::{Database, Session};

/// Rows of a granule, which is what a task of a scan reads at least.
const GRANULE_ROWS: i64 = 65_536;
/// Granules, of which the last is not whole; codes of 512 rows are whole lines whatever their bits.
const ROWS: i64 = 3 * GRANULE_ROWS + 512;
const GRANULES: i64 = 4;
/// Rows of the small table: one chunk.
const SMALL_ROWS: i64 = 2048;
/// Rows that operators hand on at a time.
const CHUNK_ROWS: usize = 2048;
/// What comes from memory at a time.
const LINE: i64 = 64;
/// Rows that are kept of a scan are put together by tasks of one column each, unless they are one piece: written twice.
const TWICE: i64 = 2;

/// The columns of `t`, as functions of 1, 2, ..: codes of affine dictionaries but for `d` and `s`, which have entries,
/// and `f`, which is plain.
const T: &str = "CREATE TABLE t AS SELECT value AS k, value * 7919 % 100003 AS a, value % 1009 AS b, value * 31 % \
                 30011 AS c, (value % 5003) * (value % 5003) AS d, 'name ' || CAST(value % 601 AS VARCHAR) AS s, \
                 CAST(value AS DOUBLE) / 3 AS f FROM generate_series(1, 197120)";
/// The same of fewer columns.
const T_SMALL: &str = "CREATE TABLE t AS SELECT value AS k, value * 7919 % 100003 AS a, value * 31 % 30011 AS c FROM \
                       generate_series(1, 197120)";
const R: &str =
    "CREATE TABLE r AS SELECT value AS id, value % 7 AS v, value * value AS q FROM generate_series(1, 2048)";

/// Table (or what operators keep), column, component and phase.
type Item = (String, String, String, String);
/// The node of the bytes and that of the task.
type Way = (u32, u32);
/// Bytes by item and way.
type Told = BTreeMap<Item, BTreeMap<Way, i64>>;

/// What is expected of an item.
#[derive(Debug, Clone)]
struct Expected {
    item: Item,
    /// At least and at most.
    bytes: (i64, i64),
    /// The table and column beside which tasks run; `None`: anywhere.
    beside: Option<(&'static str, &'static str)>,
}

/// Exactly so many bytes.
fn just(bytes: i64) -> (i64, i64) {
    (bytes, bytes)
}

fn item(table: &str, column: &str, component: &str, phase: &str) -> Item {
    (table.into(), column.into(), component.into(), phase.into())
}

/// Codes, or values of a plain column, that are read to find rows.
fn found(of: (&'static str, &'static str), bytes: i64, beside: &'static str) -> Expected {
    Expected { item: item(of.0, of.1, "codes", "find"), bytes: just(bytes), beside: Some((of.0, beside)) }
}

/// Codes, or values of a plain column, of rows that were found.
fn loaded(of: (&'static str, &'static str), bytes: i64, beside: &'static str) -> Expected {
    Expected { item: item(of.0, of.1, "codes", "materialize"), bytes: just(bytes), beside: Some((of.0, beside)) }
}

fn entries(of: (&'static str, &'static str), phase: &str, bytes: i64, beside: Option<&'static str>) -> Expected {
    let beside = beside.map(|column| (of.0, column));
    Expected { item: item(of.0, of.1, "dictionary", phase), bytes: just(bytes), beside }
}

/// What an operator keeps (`keep`), reads again (`materialize`) or looks up (`look up`).
fn output(what: &str, phase: &str, bytes: (i64, i64)) -> Expected {
    Expected { item: item(what, "", "output", phase), bytes, beside: None }
}

/// A database with the two tables, and what its traffic was so far.
struct Measured {
    database: Database,
    session: Session,
    before: RefCell<Told>,
    /// Bytes by table, column and component, and node, as the page map says.
    pages: BTreeMap<(String, String, String), BTreeMap<u32, i64>>,
    /// Bits of a row, by table and column; of plain columns those of a value.
    bits: BTreeMap<(String, String), i64>,
    threads: i64,
}

impl Measured {
    /// Both tables, each of whose columns lies on a node of its own; every test runs in the same one, in turn, since
    /// making them takes an emulated machine a while.
    fn on_nodes_in_turn() -> MutexGuard<'static, Measured> {
        static ONE: LazyLock<Mutex<Measured>> = LazyLock::new(|| Mutex::new(Measured::new(&format!("{T}; {R}"), "rr")));
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tables, of which `t` lies as `placement` says, and tasks bound to their data.
    fn new(create: &str, placement: &str) -> Measured {
        let database = Database::builder().memory_bytes(1 << 30).build().unwrap();
        let session = database.session();
        session.execute("SET nearside.scheduling = 'bound'; SET nearside.binding = 'always'").unwrap();
        session.execute(&create.replace("t AS", &format!("t WITH (placement = '{placement}') AS"))).unwrap();
        let threads = database.scheduler().threads() as i64;
        let (before, pages, bits) = Default::default();
        let mut measured = Measured { database, session, before, pages, bits, threads };
        measured.look();
        measured
    }

    /// Reads the page map, and what the traffic is by now.
    fn look(&mut self) {
        let rows = rows_of(
            &self.session,
            "SELECT \"table\", \"column\", component, component, node, node, bytes FROM nearside.pages \
             WHERE node IS NOT NULL",
        );
        self.pages.clear();
        for ((table, column, component, _), by_node) in rows {
            let by_node = by_node.into_iter().map(|((node, _), bytes)| (node, bytes)).collect();
            self.pages.insert((table, column, component), by_node);
        }
        let rows = rows_of(
            &self.session,
            "SELECT \"table\", \"column\", encoding, encoding, node, node, CAST(coalesce(bits, 64) AS BIGINT) \
             FROM nearside.columns",
        );
        let of_column =
            |((table, column, ..), bits): (Item, BTreeMap<Way, i64>)| ((table, column), bits.values().sum());
        self.bits = rows.into_iter().map(of_column).collect();
        self.before.replace(self.settled(traffic(&self.session)));
    }

    /// The traffic as it is when nothing has come in for a while: a worker may let go of a statement, which is when
    /// the statement's comes in, a moment after the answer was there.
    fn settled(&self, mut known: Told) -> Told {
        let mut equal = 0;
        while equal < 5 {
            std::thread::sleep(Duration::from_millis(10));
            let now = traffic(&self.session);
            equal = if now == known { equal + 1 } else { 0 };
            known = now;
        }
        known
    }

    /// What a statement touched, once that was told.
    fn told(&self, run: impl FnOnce(&Session)) -> Told {
        run(&self.session);
        let end = Instant::now() + Duration::from_secs(60);
        let now = loop {
            let now = traffic(&self.session);
            if now != *self.before.borrow() {
                break self.settled(now);
            }
            assert!(Instant::now() < end, "no traffic came");
            std::thread::sleep(Duration::from_millis(2));
        };
        let before = self.before.replace(now.clone());
        let mut newer = now;
        for (item, ways) in &mut newer {
            for (way, bytes) in ways.iter_mut() {
                *bytes -= before.get(item).and_then(|known| known.get(way)).unwrap_or(&0);
            }
            ways.retain(|_, bytes| *bytes != 0);
        }
        newer.retain(|_, ways| !ways.is_empty());
        newer
    }

    fn told_of(&self, sql: &str) -> Told {
        self.told(|session| {
            drop(session.query(sql).and_then(|rows| rows.collect_all()).unwrap_or_else(|e| panic!("{sql}: {e}")))
        })
    }

    fn bits(&self, table: &str, column: &str) -> i64 {
        self.bits[&(table.to_string(), column.to_string())]
    }

    /// Bytes of the codes of all rows.
    fn all(&self, table: &str, column: &str) -> i64 {
        self.bits(table, column) * if table == "t" { ROWS } else { SMALL_ROWS } / 8
    }

    /// The nodes that a component lies on.
    fn lies(&self, table: &str, column: &str, component: &str) -> BTreeSet<u32> {
        let key = (table.to_string(), column.to_string(), component.to_string());
        self.pages.get(&key).map_or_else(BTreeSet::new, |by_node| by_node.keys().copied().collect())
    }

    fn bytes_of(&self, table: &str, column: &str, component: &str) -> i64 {
        self.pages[&(table.to_string(), column.to_string(), component.to_string())].values().sum()
    }

    /// Bytes of a column of `t` that are loaded for the rows that pass, found by position: a line for each, and no more
    /// than lies between the first and the last of a chunk's.
    fn picked(&self, column: &str, passes: impl Fn(i64) -> bool) -> i64 {
        let width = self.bits("t", column) as f64 / 8.0;
        let mut bytes = 0;
        for granule in 0..GRANULES {
            let rows = granule * GRANULE_ROWS..((granule + 1) * GRANULE_ROWS).min(ROWS);
            let positions: Vec<i64> = rows.filter(|row| passes(row + 1)).collect();
            for chunk in positions.chunks(CHUNK_ROWS) {
                let between = chunk[chunk.len() - 1] - chunk[0] + 1;
                let each = LINE as f64 * chunk.len() as f64;
                let of_all = (width * between as f64).max(LINE as f64);
                bytes += if between == chunk.len() as i64 { of_all } else { of_all.min(each) } as i64;
            }
        }
        bytes
    }

    /// What taking the values of every row out of a dictionary with `n` entries reads: by granule, each value once per
    /// row and no more than the whole.
    fn values(&self, column: &str, entries: i64) -> i64 {
        let all = self.bytes_of("t", column, "dictionary");
        let per_value = (all as f64 / entries as f64).min(LINE as f64);
        (0..GRANULES)
            .map(|granule| {
                let rows = GRANULE_ROWS.min(ROWS - granule * GRANULE_ROWS);
                let whole = rows / CHUNK_ROWS as i64 * (per_value * CHUNK_ROWS as f64) as i64;
                let rest = (per_value * (rows % CHUNK_ROWS as i64) as f64) as i64;
                (whole + rest).min(all)
            })
            .sum()
    }

    /// Runs a statement and compares.
    fn check(&self, sql: &str, expected: &[Expected]) {
        self.compare(sql, &self.told_of(sql), expected);
    }

    /// Compares what a statement touched with what is expected.
    fn compare(&self, sql: &str, told: &Told, expected: &[Expected]) {
        // Workers' groups are read when they are merged, as many as there were workers that had some: what they kept,
        // and what was merged of them. A worker that met no row has the one group of an aggregate without keys all the
        // same, and kept nothing.
        let merged = output("groups", "materialize", (0, 0)).item;
        let bytes_of = |item: &Item| told.get(item).map_or(0, |ways| ways.values().sum::<i64>());
        let kept = bytes_of(&output("groups", "keep", (0, 0)).item);
        assert!(bytes_of(&merged) <= kept * self.threads, "{sql}: {told:#?}");
        let items: BTreeSet<&Item> = told.keys().filter(|item| **item != merged).collect();
        let named: BTreeSet<&Item> = expected.iter().filter(|e| e.bytes.1 > 0).map(|e| &e.item).collect();
        let must: BTreeSet<&Item> = expected.iter().filter(|e| e.bytes.0 > 0).map(|e| &e.item).collect();
        assert!(items.is_subset(&named) && must.is_subset(&items), "{sql}: {told:#?}, expected {expected:#?}");
        for Expected { item, bytes, beside } in expected {
            let Some(ways) = told.get(item) else { continue };
            let sum: i64 = ways.values().sum();
            assert!(bytes.0 <= sum && sum <= bytes.1, "{sql}: {item:?}: {sum}, expected {bytes:?}; {told:#?}");
            let (table, column, component, phase) = item;
            let (from, to): (BTreeSet<u32>, BTreeSet<u32>) = ways.keys().copied().unzip();
            match component.as_str() {
                "output" if phase == "keep" => assert_eq!(from, to, "{sql}: {item:?}: {ways:?}"),
                "output" => {}
                _ => assert_eq!(from, self.lies(table, column, component), "{sql}: {item:?}: {ways:?}"),
            }
            if let Some((table, column)) = beside {
                assert_eq!(to, self.lies(table, column, "codes"), "{sql}: {item:?}: {ways:?}");
            }
        }
    }
}

/// Bytes by the first four columns of a query, which are texts, and the two that are nodes.
fn rows_of(session: &Session, sql: &str) -> Told {
    let mut told = Told::new();
    for batch in session.query(sql).and_then(|rows| rows.collect_all()).unwrap_or_else(|e| panic!("{sql}: {e}")) {
        let text = |column: usize, row: usize| match batch.column(column).is_null(row) {
            true => String::new(),
            false => batch.column(column).as_string_view().value(row).to_string(),
        };
        let node = |column: usize, row: usize| batch.column(column).as_primitive::<UInt32Type>().value(row);
        let bytes: &Int64Array = batch.column(6).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let item = (text(0, row), text(1, row), text(2, row), text(3, row));
            *told.entry(item).or_default().entry((node(4, row), node(5, row))).or_default() += bytes.value(row);
        }
    }
    told
}

fn traffic(session: &Session) -> Told {
    // No operator of this one keeps anything, and views are not counted.
    rows_of(session, "SELECT \"table\", \"column\", component, phase, from_node, to_node, bytes FROM nearside.traffic")
}

/// What the states of an aggregation may come to beside what its groups need: what tasks work with, for each worker.
const WORK: i64 = 256 << 10;

#[test]
fn scans_touch_what_the_page_map_says() {
    let m = Measured::on_nodes_in_turn();
    let all = |column| m.all("t", column);
    let groups = output("groups", "keep", (1, m.threads * WORK));
    // Codes, to find rows.
    m.check("SELECT count(*) FROM t WHERE a = 50001", &[found(("t", "a"), all("a"), "a"), groups.clone()]);
    // A condition over values of two columns is an operator's above the scan, which loads them: beside the wider one.
    m.check(
        "SELECT count(*) FROM t WHERE (a + b) % 7 = 3",
        &[loaded(("t", "a"), all("a"), "a"), loaded(("t", "b"), all("b"), "a"), groups.clone()],
    );
    // A column of few rows that were found: a line each.
    m.check(
        "SELECT sum(c) FROM t WHERE a = 50001",
        &[
            found(("t", "a"), all("a"), "a"),
            loaded(("t", "c"), m.picked("c", |i| i * 7919 % 100_003 == 50_001), "a"),
            groups.clone(),
        ],
    );
    // Of many rows, which are handed out as bits: whole windows of rows; blocks at their ends without a row are left
    // out.
    let by_bits = Expected { bytes: (all("c") * 9 / 10, all("c")), ..loaded(("t", "c"), 0, "b") };
    m.check("SELECT sum(c) FROM t WHERE b < 500", &[found(("t", "b"), all("b"), "b"), by_bits.clone(), groups.clone()]);
    m.check("SELECT c FROM t WHERE b < 500", &[found(("t", "b"), all("b"), "b"), by_bits]);
    // Values of a dictionary.
    m.check(
        "SELECT sum(d) FROM t",
        &[
            loaded(("t", "d"), all("d"), "d"),
            entries(("t", "d"), "materialize", m.values("d", 5003), Some("d")),
            groups.clone(),
        ],
    );
    // A plain column.
    m.check("SELECT sum(f) FROM t", &[loaded(("t", "f"), all("f"), "f"), groups.clone()]);
    // A condition that is tested per entry of a dictionary reads all of those once, somewhere.
    m.check(
        "SELECT count(*) FROM t WHERE s LIKE '%9'",
        &[
            entries(("t", "s"), "find", m.bytes_of("t", "s", "dictionary"), None),
            found(("t", "s"), all("s"), "s"),
            groups.clone(),
        ],
    );
    // Granules whose bounds tell are not read.
    m.check(
        "SELECT count(*) FROM t WHERE k > 131072 AND b <> 5",
        &[found(("t", "b"), m.bits("t", "b") * (ROWS - 2 * GRANULE_ROWS) / 8, "k"), groups],
    );
}

#[test]
fn groups_touch_what_the_plan_says() {
    let m = Measured::on_nodes_in_turn();
    let load = |column, beside| loaded(("t", column), m.all("t", column), beside);
    // At least the bit of an array that tells whether a group is there, a byte, for each group of one worker; at most a
    // state of four words for each group of every worker.
    let states = |groups: i64| output("groups", "keep", (groups, m.threads * (32 * groups + WORK)));
    // A line for each row, at most all of a worker's groups for each task.
    let look_ups = output("groups", "look up", (LINE, LINE * ROWS));
    m.check(
        "SELECT b, count(*), max(a) FROM t GROUP BY b",
        &[load("a", "a"), load("b", "a"), states(1009), look_ups.clone()],
    );
    // An array by key.
    let counts = output("groups", "keep", (8 * 100_003, m.threads * (32 * 100_003 + WORK)));
    m.check("SELECT a, count(*) FROM t GROUP BY a", &[load("a", "a"), counts, look_ups.clone()]);
    // Every value is kept.
    let values = output("groups", "keep", (4 * ROWS, 64 * ROWS));
    m.check("SELECT b, median(a) FROM t GROUP BY b", &[load("a", "a"), load("b", "a"), values, look_ups.clone()]);
    // Groups by one set are made of those by another, not of rows.
    let sets = output("groups", "keep", (8 * ROWS / 2, m.threads * (64 * ROWS + WORK)));
    m.check(
        "SELECT b, c, sum(a) FROM t GROUP BY ROLLUP (b, c)",
        &[load("a", "a"), load("b", "a"), load("c", "a"), sets, output("groups", "look up", (LINE, 8 * LINE * ROWS))],
    );
    m.check("SELECT DISTINCT b FROM t", &[load("b", "b"), states(1009), look_ups.clone()]);
    m.check(
        "SELECT b FROM t UNION SELECT c FROM t",
        &[load("b", "b"), load("c", "c"), states(30_011), output("groups", "look up", (LINE, 2 * LINE * ROWS))],
    );
}

#[test]
fn sorts_and_windows_touch_what_the_plan_says() {
    let m = Measured::on_nodes_in_turn();
    let load = |column, beside| loaded(("t", column), m.all("t", column), beside);
    let groups = output("groups", "keep", (1, m.threads * WORK));
    let keep = |bytes_per_row: i64| output("rows kept", "keep", just(bytes_per_row * ROWS));
    let again = |bytes_per_row: i64| output("rows kept", "materialize", just(bytes_per_row * ROWS));
    let keys = output("sort keys", "keep", just(8 * ROWS));
    // Two integers of a row are kept, put together, read for its key, and one is gathered.
    m.check(
        "SELECT a FROM t ORDER BY b, a LIMIT 1000000",
        &[load("a", "a"), load("b", "a"), keep(TWICE * 16), again(16 + 16 + LINE), keys.clone()],
    );
    // The first rows: every key is read, and of another column the rows that are left.
    let (c, k) = (("t", "c"), ("t", "k"));
    let of_ten = Expected { bytes: just(LINE), beside: None, ..loaded(c, 0, "c") };
    m.check(
        "SELECT c FROM t ORDER BY k DESC LIMIT 10",
        &[
            loaded(k, m.all("t", "k"), "k"),
            of_ten,
            output("rows kept", "keep", just(10 * 16)),
            output("rows kept", "materialize", just(10 * 8)),
        ],
    );
    // A number for each row is written once and read once.
    let results =
        [output("window results", "keep", just(8 * ROWS)), output("window results", "materialize", just(8 * ROWS))];
    let window = "SELECT sum(n) FROM (SELECT row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t)";
    let mut expected =
        vec![load("a", "a"), load("b", "a"), keep(TWICE * 16), again(16 + 16), keys.clone(), groups.clone()];
    expected.extend(results.clone());
    m.check(window, &expected);
    // The argument is read row by row in the order of the window, at most all of it by each task of 32 Ki rows.
    let pieces = (0..ROWS).step_by(32_768).map(|start| (LINE * (ROWS - start).min(32_768)).min(8 * ROWS));
    let argument = pieces.sum::<i64>();
    let window = "SELECT sum(n) FROM (SELECT max(c) OVER (PARTITION BY b ORDER BY a ROWS 3 PRECEDING) AS n FROM t)";
    let again = output("rows kept", "materialize", just((24 + 16) * ROWS + argument));
    let mut expected = vec![load("a", "a"), load("b", "a"), load("c", "a"), keep(TWICE * 24), again, keys, groups];
    expected.extend(results);
    m.check(window, &expected);
}

#[test]
fn joins_touch_what_the_plan_says() {
    let m = Measured::on_nodes_in_turn();
    let groups = output("groups", "keep", (1, m.threads * WORK));
    let load = |column, beside| loaded(("t", column), m.all("t", column), beside);
    let small = |column, beside| loaded(("r", column), m.all("r", column), beside);
    // A row of the build side is one piece: it is kept once, and read for its code.
    let kept = |columns: i64| output("rows kept", "keep", just(8 * columns * SMALL_ROWS));
    let codes = output("rows kept", "materialize", just(8 * SMALL_ROWS));
    // A line for each row, and at most the whole table for each task.
    let look_ups = |table: i64| output("join tables", "look up", (LINE, GRANULES * table));
    // By an array of a number for each key and one for all others.
    let array = 4 * (SMALL_ROWS + 1);
    m.check(
        "SELECT count(*) FROM t JOIN r ON c = id",
        &[
            load("c", "c"),
            small("id", "id"),
            kept(1),
            codes.clone(),
            output("join tables", "keep", just(array)),
            look_ups(array),
            groups.clone(),
        ],
    );
    // By hash: three of five entries of twelve bytes are used.
    let hashed = 12 * (SMALL_ROWS * 5 / 3 + 2);
    m.check(
        "SELECT count(*) FROM t JOIN r ON d = q",
        &[
            load("d", "d"),
            entries(("t", "d"), "materialize", m.values("d", 5003), Some("d")),
            small("q", "q"),
            kept(1),
            codes,
            output("join tables", "keep", just(hashed)),
            look_ups(hashed),
            groups.clone(),
        ],
    );
}

#[test]
fn other_operators_touch_what_the_plan_says() {
    let m = Measured::on_nodes_in_turn();
    let load = |column, beside| loaded(("t", column), m.all("t", column), beside);
    let groups = output("groups", "keep", (1, m.threads * WORK));
    m.check(
        "SELECT sum(x) FROM (SELECT a FROM t UNION ALL SELECT c FROM t) u(x)",
        &[load("a", "a"), load("c", "c"), groups.clone()],
    );
    m.check(
        "SELECT count(u) FROM (SELECT unnest([a, c]) AS u FROM t)",
        &[load("a", "a"), load("c", "a"), groups.clone()],
    );
    // A limit below keeps its rows; its input ends when the first pieces have enough, others have begun by then. What
    // is kept is put together, cut off, which is another copy, and read.
    let (most, least) = (m.all("t", "c"), 150_000 * m.bits("t", "c") / 8);
    let left = 8 * 150_000;
    m.check(
        "SELECT sum(x) FROM (SELECT c AS x FROM t LIMIT 150000)",
        &[
            Expected { bytes: (least, most), ..load("c", "c") },
            output("rows kept", "keep", (TWICE * left + left, TWICE * 8 * ROWS + left)),
            output("rows kept", "materialize", (left + 2 * left, 8 * ROWS + 2 * left)),
            groups.clone(),
        ],
    );
    m.check(
        "WITH RECURSIVE n(i) AS (SELECT max(b) FROM t UNION SELECT i - 1 FROM n WHERE i > 0) SELECT count(*) FROM n",
        &[
            load("b", "b"),
            groups.clone(),
            output("rows kept", "keep", (8 * 1009, 64 * 1009)),
            output("rows kept", "materialize", (8 * 1009, 128 * 1009)),
            output("rows seen", "keep", (8 * 1009, WORK)),
            output("rows seen", "look up", (LINE, LINE * 1010)),
        ],
    );
    // Rows that have a key of the other side are found in the scan, by codes; not where bounds of a granule tell.
    let c = |i: i64| i * 31 % 30_011;
    let tested = (0..GRANULES).map(|granule| granule * GRANULE_ROWS + 1..((granule + 1) * GRANULE_ROWS).min(ROWS) + 1);
    let tested = tested.filter(|rows| rows.clone().map(c).min().is_some_and(|lowest| lowest <= 1008));
    let tested: i64 = tested.map(|rows| (rows.end - rows.start) * m.bits("t", "c") / 8).sum();
    let any = |what, phase| output(what, phase, (1, 64 * ROWS));
    // One row in 30 passes: where that is one in 32 of a piece they are handed out as bits, in whole windows.
    let passing = (m.picked("c", |i| c(i) <= 1008), m.all("t", "c"));
    m.check(
        "SELECT b FROM t INTERSECT SELECT c FROM t",
        &[
            load("b", "b"),
            found(("t", "c"), tested, "c"),
            Expected { bytes: passing, ..loaded(("t", "c"), 0, "c") },
            any("groups", "keep"),
            any("groups", "look up"),
            any("join tables", "keep"),
            any("join tables", "look up"),
        ],
    );
    // A row of the build side is compared with each of the other, two of them here, 2,048 pairs at a time.
    let pairs = 2 * ROWS;
    m.check(
        "SELECT count(*) FROM t JOIN (SELECT id FROM r WHERE id < 3) y ON t.b < y.id",
        &[
            load("b", "b"),
            found(("r", "id"), m.all("r", "id"), "id"),
            loaded(("r", "id"), LINE, "id"),
            output("rows kept", "keep", just(2 * 8)),
            output("rows kept", "materialize", (16, 16 * (pairs / CHUNK_ROWS as i64 + GRANULES))),
            output("join tables", "keep", just(16)),
            output("join tables", "look up", (16, 16 * GRANULES)),
            groups,
        ],
    );
}

#[test]
fn the_callers_thread_touches_what_the_page_map_says() {
    let mut m = Measured::on_nodes_in_turn();
    m.session.execute("CREATE TABLE i AS SELECT a, c FROM t; CREATE INDEX ON i (a)").unwrap();
    let p = "CREATE TABLE p (id BIGINT PRIMARY KEY, v BIGINT, s TEXT);
             INSERT INTO p SELECT value * 7919 % 100003, value % 100, 'name ' || CAST(value % 601 AS VARCHAR)
             FROM generate_series(1, 70144)";
    m.session.execute(p).unwrap();
    m.look();
    let here = |expected: Expected| Expected { beside: None, ..expected };
    let index = |table: &str, column: &str, bytes| Expected {
        item: item(table, column, "index", "look up"),
        bytes: just(bytes),
        beside: None,
    };
    let is = |i: i64, a: i64| i * 7919 % 100_003 == a;
    let rows = (1..=ROWS).filter(|i| is(*i, 50_001)).count() as i64;
    // A line of the index, and one of each column for each row that it names.
    m.check(
        "SELECT c FROM i WHERE a = 50001",
        &[index("i", "a", LINE), here(found(("i", "a"), LINE * rows, "a")), here(loaded(("i", "c"), LINE * rows, "c"))],
    );
    // Many rows of the index lie behind each other.
    let between = |i: i64| (50_001..=50_100).contains(&(i * 7919 % 100_003));
    let rows = (1..=ROWS).filter(|i| between(*i)).count() as i64;
    m.check(
        "SELECT c FROM i WHERE a BETWEEN 50001 AND 50100",
        &[
            index("i", "a", 4 * rows),
            here(found(("i", "a"), LINE * rows, "a")),
            here(loaded(("i", "c"), LINE * rows, "c")),
        ],
    );
    m.check("SELECT c FROM t LIMIT 10", &[here(loaded(("t", "c"), LINE, "c"))]);
    // A row by its key, without a plan.
    let row = |rows: i64| {
        vec![
            index("p", "id", LINE * rows),
            here(loaded(("p", "v"), LINE * rows, "v")),
            entries(("p", "s"), "materialize", LINE * rows, None),
            here(loaded(("p", "s"), LINE * rows, "s")),
        ]
    };
    m.check("SELECT v, s FROM p WHERE id = 7919", &row(1));
    let by_key = m.session.prepare("SELECT v, s FROM p WHERE id = $1").unwrap();
    let told = m.told(|_| {
        let rows = by_key.query(&[nearside::ScalarValue::Int64(Some(15_838))]).unwrap().collect_all().unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    });
    m.compare("a prepared key", &told, &row(1));
    // What a small statement adds lies beside the table, and is scanned with it, however long the machine takes.
    m.session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    m.session.execute("INSERT INTO p VALUES (200000, 1, 'x'), (200001, 2, 'x'), (200002, 3, 'x')").unwrap();
    let base = m.bits("p", "v") * 70_144 / 8;
    m.look();
    let groups = output("groups", "keep", (1, m.threads * WORK));
    m.check("SELECT sum(v) FROM p", &[here(loaded(("p", "v"), base + LINE, "v")), groups]);
    let keyed = m.database.keyed("p").unwrap();
    let told = m.told(|_| {
        let found = keyed.lookup(&[7919_i64, 15_838, 200_001, 300_000][..]).unwrap();
        assert_eq!(found.rows.num_rows(), 3);
    });
    let mut expected = row(2);
    expected.push(here(loaded(("p", "id"), 2 * LINE, "id")));
    m.compare("keys", &told, &expected);
    let key = [nearside::ScalarValue::Int64(Some(23_757))];
    let update = m.session.prepare("UPDATE p SET v = v + 1 WHERE id = $1").unwrap();
    let mut expected = row(1);
    expected.push(here(loaded(("p", "id"), LINE, "id")));
    m.compare("an update by key", &m.told(|_| drop(update.run(&key).unwrap())), &expected);
    let delete = m.session.prepare("DELETE FROM p WHERE id = $1").unwrap();
    let key = [nearside::ScalarValue::Int64(Some(31_676))];
    m.compare("a delete by key", &m.told(|_| drop(delete.run(&key).unwrap())), &[index("p", "id", LINE)]);
    // The copy that is near is read: by this thread's node, which may become another one between two look-ups.
    m.session.execute("ALTER TABLE p SET PLACEMENT 'replicated'").unwrap();
    m.look();
    let mut near = false;
    for _ in 0..5 {
        let told = m.told_of("SELECT v, s FROM p WHERE id = 7919");
        assert_eq!(told.len(), row(1).len(), "{told:#?}");
        for (item, ways) in &told {
            let (table, column, component, _) = item;
            assert_eq!(ways.values().sum::<i64>(), LINE, "{told:#?}");
            assert!(by_node(ways).keys().all(|node| m.lies(table, column, component).contains(node)), "{told:#?}");
        }
        near |= told.values().flatten().all(|((from, to), _)| from == to);
    }
    assert!(near, "no copy that was read was near");
}

#[test]
fn explain_analyze_books_columns_where_they_lie() {
    let m = Measured::on_nodes_in_turn();
    for sql in [
        "SELECT count(*) FROM t WHERE (a + b) % 7 = 3",
        "SELECT b, count(*), sum(c) FROM t WHERE a > 50000 GROUP BY b",
        "SELECT a FROM t ORDER BY b, a LIMIT 1000000",
        "SELECT count(*) FROM t JOIN r ON c = id",
    ] {
        let mut analyzed = (0, 0);
        let told = m.told(|session| {
            for batch in session.query(&format!("EXPLAIN ANALYZE {sql}")).unwrap().collect_all().unwrap() {
                let sum = |name: &str| {
                    let numbers = batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
                    numbers.iter().flatten().sum::<i64>()
                };
                analyzed = (analyzed.0 + sum("bytes_local"), analyzed.1 + sum("bytes_remote"));
            }
        });
        let ways = told.values().flatten();
        let (near, far): (Vec<_>, Vec<_>) = ways.partition(|((from, to), _)| from == to);
        let sum = |ways: &[(&Way, &i64)]| ways.iter().map(|(_, bytes)| **bytes).sum::<i64>();
        assert_eq!(analyzed, (sum(&near), sum(&far)), "{sql}: {told:#?}");
        if m.lies("t", "a", "codes") != m.lies("t", "b", "codes") {
            assert!(analyzed.1 > 0, "{sql}: columns of two nodes are read, one of them from afar");
        }
    }
}

/// Bytes by the node that they lie on.
fn by_node(ways: &BTreeMap<Way, i64>) -> BTreeMap<u32, i64> {
    let mut by_node = BTreeMap::new();
    ways.iter().for_each(|((from, _), bytes)| *by_node.entry(*from).or_default() += bytes);
    by_node
}

#[test]
fn every_placement_is_read_where_its_pages_lie() {
    for (placement, beside) in
        [("ivp", true), ("replicated", true), ("interleaved", false), ("pp(2, hash(k))", true), ("local", false)]
    {
        let m = Measured::new(T_SMALL, placement);
        for column in ["a", "c"] {
            let told = m.told_of(&format!("SELECT sum({column}) FROM t"));
            let ways = &told[&item("t", column, "codes", "materialize")];
            let pages = &m.pages[&("t".to_string(), column.to_string(), "codes".to_string())];
            let (read, all) = (by_node(ways), m.all("t", column));
            let sum: i64 = read.values().sum();
            match placement {
                // The copy of the task's node.
                "replicated" => {
                    assert_eq!(sum, all, "{placement}: {told:#?}");
                    assert!(read.keys().all(|node| pages.contains_key(node)), "{placement}: {read:?} {pages:?}");
                }
                // Whoever touches them first has them; the kernel moves them to tasks that read them, so that the page
                // map of a moment ago says nothing.
                "local" => assert_eq!(sum, all, "{placement}: {told:#?}"),
                // The policy is believed: pages in turn, so a granule's last one is where it should not be.
                "interleaved" => {
                    assert_eq!(sum, all, "{placement}: {told:#?}");
                    let off = |(node, bytes): (&u32, &i64)| (bytes - read.get(node).unwrap_or(&0)).abs();
                    assert!(pages.iter().map(off).all(|off| off <= 4096 * GRANULES), "{read:?} {pages:?}");
                }
                // Codes are in blocks of 256 rows, which the last one of a part does not fill.
                "pp(2, hash(k))" => {
                    assert_eq!(read.keys().collect::<Vec<_>>(), pages.keys().collect::<Vec<_>>(), "{told:#?}");
                    let block = 256 * m.bits("t", column) / 8;
                    assert!(pages.iter().all(|(node, bytes)| (bytes - read[node]) >= 0 && bytes - read[node] <= block));
                }
                _ => assert_eq!(read, *pages, "{placement}: {told:#?}"),
            }
            if beside {
                assert!(ways.keys().all(|(from, to)| from == to), "{placement}: {told:#?}");
            }
        }
    }
}
