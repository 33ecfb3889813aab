//! Statements that write few rows, beside those that write many, readers that stay, and a model of what a table holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nearside::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use nearside::arrow::datatypes::{DataType, Int64Type};
use nearside::arrow::util::display::{ArrayFormatter, FormatOptions};
use nearside::{Database, KeyedRows, Outcome, ScalarValue, Session};
use random::Random;

use crate::merging::until;
use crate::read::{database, number, rows};

fn changed(session: &Session, sql: &str) -> Result<u64, String> {
    match session.execute(sql).map_err(|error| error.to_string())? {
        Outcome::Done(done) => Ok(done.rows.unwrap_or(0)),
        Outcome::Rows(_) => panic!("{sql} gave rows"),
    }
}

/// A row of the model: a number that may be a key, a text that may be one too, a number that may be missing.
type Row = (i64, String, Option<i64>);

/// A table with its keys, and what it should hold.
struct Model {
    /// What makes it.
    create: &'static str,
    /// The columns of each key: of 0 the first, ...
    keys: &'static [&'static [usize]],
    rows: Vec<Row>,
}

impl Model {
    fn key(row: &Row, columns: &[usize]) -> Option<Vec<String>> {
        let value = |column: &usize| match column {
            0 => Some(row.0.to_string()),
            1 => Some(row.1.clone()),
            _ => row.2.map(|value| value.to_string()),
        };
        columns.iter().map(value).collect()
    }

    fn holds(&self, rows: &[Row]) -> bool {
        self.keys.iter().all(|columns| {
            let keys: Vec<_> = rows.iter().filter_map(|row| Model::key(row, columns)).collect();
            keys.iter().collect::<std::collections::BTreeSet<_>>().len() == keys.len()
        })
    }

    /// What a statement makes of the rows, and how many it changes; nothing where a key would not hold.
    fn changed(&mut self, change: impl Fn(&mut Vec<Row>) -> u64) -> Result<u64, String> {
        let mut after = self.rows.clone();
        let count = change(&mut after);
        if !self.holds(&after) {
            return Err("two rows with the key".into());
        }
        self.rows = after;
        Ok(count)
    }

    fn sorted(&self) -> Vec<Vec<String>> {
        let mut rows = self.rows.clone();
        rows.sort();
        let text = |row: Row| vec![row.0.to_string(), row.1, row.2.map_or("NULL".into(), |value| value.to_string())];
        rows.into_iter().map(text).collect()
    }
}

fn values(rows: &[Row]) -> String {
    let value = |row: &Row| {
        format!("({}, '{}', {})", row.0, row.1, row.2.map_or("NULL".to_string(), |value| value.to_string()))
    };
    rows.iter().map(value).collect::<Vec<_>>().join(", ")
}

/// One random statement, on the table and on the model.
fn step(random: &mut Random, model: &mut Model) -> (String, Result<u64, String>) {
    let range = 60;
    let row = |random: &mut Random| -> Row {
        let number = random.between(0, range);
        let missing = (!random.one_in(4)).then(|| random.between(0, range));
        (number, format!("t{}", random.below(40)), missing)
    };
    match random.below(10) {
        0..4 => {
            let rows: Vec<Row> = (0..1 + random.below(3)).map(|_| row(random)).collect();
            let added = rows.clone();
            let expected = model.changed(|all| {
                all.extend(added.clone());
                added.len() as u64
            });
            (format!("INSERT INTO t VALUES {}", values(&rows)), expected)
        }
        4..6 => {
            let (a, by) = (random.between(0, range), random.between(-2, 2));
            let expected = model.changed(|all| {
                let hit = all.iter_mut().filter(|row| row.0 == a);
                hit.map(|row| row.2 = row.2.map(|value| value + by)).count() as u64
            });
            (format!("UPDATE t SET c = c + {by} WHERE a = {a}"), expected)
        }
        6 => {
            // Keys move over each other.
            let (from, by) = (random.between(0, range), random.between(-3, 3));
            let expected = model.changed(|all| {
                let hit = all.iter_mut().filter(|row| row.0 >= from && row.0 < from + 8);
                hit.map(|row| row.0 += by).count() as u64
            });
            (format!("UPDATE t SET a = a + {by} WHERE a >= {from} AND a < {from} + 8"), expected)
        }
        7 => {
            let text = format!("t{}", random.below(40));
            let expected = model.changed(|all| {
                let before = all.len();
                all.retain(|row| row.1 != text);
                (before - all.len()) as u64
            });
            (format!("DELETE FROM t WHERE b = '{text}'"), expected)
        }
        8 => {
            let least = random.between(0, 20 * range);
            let expected = model.changed(|all| {
                let before = all.len();
                all.retain(|row| row.2.is_none_or(|value| value < least));
                (before - all.len()) as u64
            });
            (format!("DELETE FROM t WHERE c >= {least}"), expected)
        }
        _ => {
            let (first, count) = (1000 * random.between(1, 9), 5 * random.between(1, 4));
            let expected = model.changed(|all| {
                all.extend((first..first + count).map(|n| (n, format!("s{n}"), None)));
                count as u64
            });
            let series = format!("generate_series({first}, {first} + {count} - 1)");
            (format!("INSERT INTO t SELECT value, 's' || value, NULL FROM {series}"), expected)
        }
    }
}

/// Statements that merge what small ones wrote, and change no row.
const MERGES: [&str; 3] = [
    "ALTER TABLE t ADD COLUMN extra INT; ALTER TABLE t DROP COLUMN extra",
    "CREATE INDEX i ON t (c); DROP INDEX i",
    "INSERT INTO t SELECT value + 100000, 'x', NULL FROM generate_series(1, 5000); DELETE FROM t WHERE a > 100000",
];

#[test]
fn a_table_holds_what_a_model_of_it_does() {
    let mut merged = 0;
    let tables = [
        ("CREATE TABLE t (a BIGINT, b TEXT, c BIGINT)", &[] as &[&[usize]]),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT, c BIGINT)", &[&[0]]),
        ("CREATE TABLE t (a BIGINT, b TEXT PRIMARY KEY, c BIGINT UNIQUE)", &[&[1], &[2]]),
        ("CREATE TABLE t (a BIGINT, b TEXT, c BIGINT, PRIMARY KEY (a, b), UNIQUE (c, a))", &[&[0, 1], &[2, 0]]),
        ("CREATE TABLE t (a BIGINT, b TEXT, c BIGINT) WITH (units = on)", &[]),
        ("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT, c BIGINT) WITH (placement = 'pp(3, hash(a))')", &[&[0]]),
        (
            "CREATE TABLE t (a BIGINT, b TEXT PRIMARY KEY, c BIGINT UNIQUE) WITH (placement = 'pp(4, range(a))')",
            &[&[1], &[2]],
        ),
        // Rows go from part to part with the value that they have.
        (
            "CREATE TABLE t (a BIGINT, b TEXT, c BIGINT, PRIMARY KEY (a, b), UNIQUE (c, a)) \
             WITH (placement = 'pp(5, hash(c))')",
            &[&[0, 1], &[2, 0]],
        ),
    ];
    let placements = ["rr", "pp(2, hash(b))", "units", "pp(7, hash(c, a))", "pp(3, range(c))"];
    // Merged by these statements alone, and beside them as often as can be.
    for (seed, ((create, keys), idle_ms)) in tables.into_iter().flat_map(|table| [(table, 0), (table, 1)]).enumerate() {
        let mut random = Random::new(seed as u64 + 7);
        let session = database().session();
        session.execute(&format!("ALTER SYSTEM SET nearside.merge_idle_ms = {idle_ms}")).unwrap();
        let mut model = Model { create, keys, rows: Vec::new() };
        session.execute(model.create).unwrap();
        let mut kept = None;
        for round in 0..250 {
            let (sql, expected) = step(&mut random, &mut model);
            let found = changed(&session, &sql);
            match (&found, &expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{create}; {sql}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected.as_str()), "{create}; {sql}: {found}"),
                _ => panic!("{create}; {sql}: {found:?}, expected {expected:?}"),
            }
            if round % 3 == 0 {
                assert_eq!(rows(&session, "SELECT a, b, c FROM t ORDER BY 1, 2, 3 NULLS FIRST"), model.sorted());
            }
            if round % 5 == 0 {
                let count = model.rows.len() as i64;
                assert_eq!(number(&session, "SELECT count(*) FROM t"), count, "{create}; {sql}");
                let key = random.between(0, 60);
                let with_key = model.rows.iter().filter(|row| row.0 == key).count();
                assert_eq!(number(&session, &format!("SELECT count(*) FROM t WHERE a = {key}")), with_key as i64);
            }
            // A result that was begun shows what was there then.
            if round % 10 == 0 {
                let stream = session.query("SELECT a, b, c FROM t ORDER BY 1, 2, 3 NULLS FIRST").unwrap();
                if let Some((stream, count)) = kept.replace((stream, model.rows.len())) {
                    let batches: Vec<_> = stream.collect_all().unwrap();
                    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), count);
                }
            }
            let is_free = keys.iter().all(|columns| columns.contains(&0)) || keys.is_empty();
            if round % 37 == 36 {
                let place = format!("ALTER TABLE t SET PLACEMENT '{}'", random.pick(&placements));
                let merge = random.pick(&[MERGES[0], MERGES[1], MERGES[2], &place]);
                if !merge.contains("'x'") || is_free {
                    session.execute(merge).unwrap_or_else(|error| panic!("{merge}: {error}"));
                    assert_eq!(number(&session, "SELECT count(*) FROM nearside.deltas WHERE statements > 0"), 0);
                    merged += 1;
                }
            }
        }
        assert_eq!(rows(&session, "SELECT a, b, c FROM t ORDER BY 1, 2, 3 NULLS FIRST"), model.sorted());
    }
    assert!(merged > 10);
}

#[test]
fn small_writes_are_seen_in_the_views_and_merged_when_they_are_many() {
    let session = database().session();
    session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)").unwrap();
    session.execute("INSERT INTO t SELECT value, 'base' FROM generate_series(1, 10000)").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.deltas"), 0);
    session.execute("INSERT INTO t VALUES (20001, 'x'), (20002, 'y')").unwrap();
    session.execute("UPDATE t SET v = 'z' WHERE k = 17").unwrap();
    session.execute("DELETE FROM t WHERE k = 20002").unwrap();
    let found = rows(
        &session,
        "SELECT \"table\", statements, rows, live_rows, dead_base_rows, bytes > 0, key_bytes > 0 FROM nearside.deltas",
    );
    assert_eq!(found, [["t", "3", "3", "2", "1", "true", "true"]]);
    assert_eq!(number(&session, "SELECT sum(keys) FROM nearside.units"), 4);
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v = 'base'"), 9999);
    for round in 0..40 {
        let first = 30_000 + round * 1000;
        session
            .execute(&format!("INSERT INTO t SELECT value, 'i' FROM generate_series({first}, {first} + 999)"))
            .unwrap();
    }
    // 32 Ki rows are merged, and what was written meanwhile is left.
    until(&session, "SELECT merges > 0 AND NOT merging AND rows < 10000 FROM nearside.deltas");
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 50_001);
    assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), 50_001);
    let error = session.execute("INSERT INTO t VALUES (30017, 'again')").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("(k) = (30017)"), "{error}");
}

#[test]
fn sums_hold_in_every_scan_while_threads_transfer() {
    const ACCOUNTS: i64 = 200;
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE accounts (id BIGINT PRIMARY KEY, cents BIGINT)").unwrap();
    session.execute(&format!("INSERT INTO accounts SELECT value, 100 FROM generate_series(1, {ACCOUNTS})")).unwrap();
    let is_done = AtomicBool::new(false);
    let moved: BTreeMap<i64, i64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|seed| {
                let session = database.session();
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    let mut moved: BTreeMap<i64, i64> = BTreeMap::new();
                    for _ in 0..150 {
                        let (from, to) = (random.between(1, ACCOUNTS), random.between(1, ACCOUNTS));
                        let cents = random.between(1, 9);
                        if from == to {
                            continue;
                        }
                        let sql = format!(
                            "UPDATE accounts SET cents = cents + CASE WHEN id = {from} THEN -{cents} ELSE {cents} END \
                             WHERE id IN ({from}, {to})"
                        );
                        assert_eq!(changed(&session, &sql), Ok(2));
                        *moved.entry(from).or_default() -= cents;
                        *moved.entry(to).or_default() += cents;
                    }
                    moved
                })
            })
            .collect();
        let reader = database.session();
        let is_done = &is_done;
        let reading = scope.spawn(move || {
            let mut reads = 0;
            while !is_done.load(Ordering::Relaxed) || reads < 20 {
                assert_eq!(number(&reader, "SELECT sum(cents)::BIGINT FROM accounts"), 100 * ACCOUNTS);
                assert_eq!(number(&reader, "SELECT count(*) FROM accounts"), ACCOUNTS);
                reads += 1;
            }
        });
        let mut all: BTreeMap<i64, i64> = BTreeMap::new();
        for writer in writers {
            for (account, cents) in writer.join().unwrap() {
                *all.entry(account).or_default() += cents;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        reading.join().unwrap();
        all
    });
    for (account, cents) in moved {
        assert_eq!(number(&session, &format!("SELECT cents FROM accounts WHERE id = {account}")), 100 + cents);
    }
}

#[test]
fn a_full_budget_leaves_nothing_behind() {
    let database = Database::builder().threads(2).memory_bytes(24 << 20).build().unwrap();
    let session = database.session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)").unwrap();
    let mut held = 0;
    let error = loop {
        let sql = format!(
            "INSERT INTO t SELECT {held} + value, repeat(md5(({held} + value)::TEXT), 280) FROM generate_series(1, 50)"
        );
        match changed(&session, &sql) {
            Ok(count) => held += count as i64,
            Err(error) => break error,
        }
        assert!(held < 10_000, "the budget never fills");
    };
    assert!(error.contains("memory") || error.contains("budget"), "{error}");
    session.execute(&format!("DELETE FROM t WHERE k > {held} - 100")).unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM t"), held - 100);
    assert_eq!(number(&session, "SELECT max(k) FROM t"), held - 100);
    session.execute("TRUNCATE t").unwrap();
    session.execute("INSERT INTO t VALUES (1, 'again')").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 1);
}

/// Statements and what kinds of values their parameters take: those that are planned once, and some that are not.
const TEMPLATES: &[(&str, &str)] = &[
    ("INSERT INTO t VALUES ($1, $2, $3, $4)", "itdi"),
    ("INSERT INTO t (k, v) VALUES ($1, $2)", "ii"),
    ("INSERT INTO t (k, s) SELECT $1, upper($2)", "it"),
    ("INSERT INTO t (k, v) VALUES ($1, $2 + 1), ($1 + 1, 7)", "ii"),
    ("INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT DO NOTHING", "ii"),
    ("INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT (k) DO NOTHING", "ii"),
    ("INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v", "ii"),
    ("INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = t.v + excluded.v + $3, s = NULL", "iii"),
    (
        "INSERT INTO t AS own (k, s, v) VALUES ($1, $2, 1) ON CONFLICT (k) DO UPDATE
         SET (s, v) = (excluded.s || own.s, 0) WHERE own.v < excluded.v + $3",
        "iti",
    ),
    ("INSERT INTO t (k, s) VALUES ($1, $2) ON CONFLICT (s) DO UPDATE SET k = excluded.k", "it"),
    ("UPDATE t SET v = v + $1 WHERE k = $2", "ii"),
    ("UPDATE t AS own SET v = own.v * 2, d = $1 WHERE own.k = $2", "di"),
    ("UPDATE t SET k = $1 WHERE k = $2", "ii"),
    ("UPDATE t SET s = $1 WHERE s = $2", "tt"),
    ("UPDATE t SET s = s || '+', d = d / $1 WHERE k = $2", "di"),
    ("UPDATE t SET v = $1 WHERE k = $2 AND v > 3", "ii"),
    ("UPDATE t SET v = (SELECT max(v) FROM t) + $1 WHERE k = $2", "ii"),
    ("UPDATE t SET v = v + 1 WHERE k = $1 + 1", "i"),
    ("UPDATE t SET v = v - 1 WHERE $1 = k", "i"),
    ("DELETE FROM t WHERE k = $1", "i"),
    ("DELETE FROM t WHERE s = $1", "t"),
    ("DELETE FROM t AS own WHERE own.k = $1", "i"),
    ("DELETE FROM t WHERE k = $1 OR v = $2", "ii"),
    ("UPDATE w SET n = n + $1 WHERE a = $2 AND b = $3", "ifw"),
    ("INSERT INTO w VALUES ($1, $2, $3) ON CONFLICT (b, a) DO UPDATE SET n = excluded.n", "fwi"),
    ("DELETE FROM w WHERE b = $1 AND a = $2", "wf"),
    ("DELETE FROM w WHERE a = $1", "f"),
];

fn value(random: &mut Random, kind: char) -> (ScalarValue, String) {
    if random.one_in(12) {
        let null = match kind {
            'i' | 'f' => ScalarValue::Int64(None),
            't' | 'w' => ScalarValue::Utf8(None),
            _ => ScalarValue::Decimal128(None, 10, 2),
        };
        return (null, "NULL".into());
    }
    // Few numbers and words for keys of both.
    let number = random.between(0, if matches!(kind, 'f' | 'w') { 3 } else { 25 });
    match kind {
        'i' if random.one_in(15) => (ScalarValue::Float64(Some(number as f64 + 0.5)), format!("{number}.5::DOUBLE")),
        'i' if random.one_in(10) => (ScalarValue::Int32(Some(number as i32)), number.to_string()),
        'i' | 'f' => (ScalarValue::Int64(Some(number)), number.to_string()),
        't' | 'w' => (ScalarValue::Utf8(Some(format!("s{number}"))), format!("'s{number}'")),
        _ => (ScalarValue::Decimal128(Some(number as i128 * 10), 10, 2), format!("{}.{}", number / 10, number % 10)),
    }
}

#[test]
fn prepared_writes_do_what_their_texts_do() {
    let create = "
        CREATE TABLE t (k INT PRIMARY KEY, s VARCHAR(6) UNIQUE, d DECIMAL(10, 2) DEFAULT 1.5,
            v BIGINT NOT NULL DEFAULT 3);
        CREATE TABLE w (a BIGINT, b TEXT, n INT, PRIMARY KEY (a, b))";
    let (prepared, written) = (database().session(), database().session());
    for session in [&prepared, &written] {
        session.execute(create).unwrap();
    }
    let all: Vec<_> = TEMPLATES
        .iter()
        .map(|(sql, kinds)| (prepared.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}")), *sql, *kinds))
        .collect();
    let mut random = Random::new(11);
    let mut outcomes: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for round in 0..1500 {
        let (statement, sql, kinds) = &all[random.below(all.len())];
        let values: Vec<(ScalarValue, String)> = kinds.chars().map(|kind| value(&mut random, kind)).collect();
        let mut text = sql.to_string();
        for (place, (_, value)) in values.iter().enumerate().rev() {
            text = text.replace(&format!("${}", place + 1), &format!("({value})"));
        }
        let given: Vec<ScalarValue> = values.into_iter().map(|(value, _)| value).collect();
        let found = match statement.run(&given).map_err(|error| error.to_string()) {
            Ok(Outcome::Done(done)) => Ok(done.rows.unwrap_or(0)),
            Ok(Outcome::Rows(_)) => panic!("{sql} gave rows"),
            Err(error) => Err(error),
        };
        let expected = changed(&written, &text);
        assert_eq!(found.is_ok(), expected.is_ok(), "{text}: {found:?}, {expected:?}");
        if let (Ok(found), Ok(expected)) = (&found, &expected) {
            assert_eq!(found, expected, "{text}");
        }
        let counts = outcomes.entry(sql).or_default();
        counts.0 += u32::from(found.as_ref().is_ok_and(|rows| *rows > 0));
        counts.1 += u32::from(found.is_err());
        if round % 20 == 0 {
            for query in ["SELECT * FROM t ORDER BY k", "SELECT * FROM w ORDER BY a, b"] {
                assert_eq!(rows(&prepared, query), rows(&written, query), "after {text}");
            }
        }
        // Columns and settings change.
        if round % 300 == 299 {
            for session in [&prepared, &written] {
                let wanted = if round % 600 == 299 { "false" } else { "true" };
                session.execute(&format!("SET nearside.small_writes = {wanted}")).unwrap();
                session.execute("CREATE INDEX i ON t (v); DROP INDEX i; DELETE FROM t WHERE k % 3 = 0").unwrap();
            }
        }
    }
    for (sql, (done, failed)) in outcomes {
        assert!(done > 0, "{sql} never did anything ({failed} failed)");
    }
}

/// A statement that finds nothing begins a delta of no row; who makes segments of the table keeps it.
#[test]
fn what_was_scanned_over_an_empty_delta_is_of_the_segments_of_then() {
    let session = database().session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    session.execute("SET nearside.small_writes = false; INSERT INTO t VALUES (1, 1)").unwrap();
    session.execute("SET nearside.small_writes = true").unwrap();
    let delete = session.prepare("DELETE FROM t WHERE k = $1").unwrap();
    delete.run(&[ScalarValue::Int64(Some(9))]).unwrap();
    assert_eq!(rows(&session, "SELECT * FROM t ORDER BY k"), [["1", "1"]]);
    session.execute("SET nearside.small_writes = false").unwrap();
    session.execute("INSERT INTO t VALUES (2, 2) ON CONFLICT (k) DO UPDATE SET v = excluded.v").unwrap();
    assert_eq!(rows(&session, "SELECT * FROM t ORDER BY k"), [["1", "1"], ["2", "2"]]);
}

#[test]
fn a_delta_is_thrown_away_by_truncate() {
    let session = database().session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT)").unwrap();
    session.execute("INSERT INTO t SELECT value, 'x' FROM generate_series(1, 5000)").unwrap();
    session.execute("INSERT INTO t VALUES (-1, 'a'), (-2, 'b'); DELETE FROM t WHERE k IN (5, -2)").unwrap();
    assert_eq!(changed(&session, "TRUNCATE t"), Ok(5000));
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 0);
    assert_eq!(changed(&session, "INSERT INTO t VALUES (-1, 'a'), (5, 'b')"), Ok(2));
    assert!(changed(&session, "INSERT INTO t VALUES (-1, 'a')").unwrap_err().contains("(k) = (-1)"));
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 2);
}

#[test]
fn a_missing_value_is_told_alike_by_small_and_large_statements() {
    let session = database().session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, a INT NOT NULL); INSERT INTO t VALUES (1, 1)").unwrap();
    for wanted in ["true", "false"] {
        session.execute(&format!("SET nearside.small_writes = {wanted}")).unwrap();
        for statement in ["INSERT INTO t VALUES (2, NULL)", "UPDATE t SET a = NULL WHERE k = 1"] {
            let error = changed(&session, statement).unwrap_err();
            assert!(error.contains("column 'a' of table 't' does not allow NULL"), "{statement}: {error}");
        }
    }
    let many = "INSERT INTO t SELECT value, NULL FROM generate_series(10, 5000)";
    assert!(changed(&session, many).unwrap_err().contains("column 'a' of table 't' does not allow NULL"));
}

/// A table's rows of two columns as a keyed look-up gives them, with the places of their keys.
fn pairs(found: &KeyedRows) -> Vec<(usize, String)> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        found.rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let text = |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" ");
    found.places.iter().enumerate().map(|(row, place)| (*place, text(row))).collect()
}

#[test]
fn keyed_tables_hold_what_a_model_of_them_does() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE t (v BIGINT, k INT PRIMARY KEY)").unwrap();
    let keyed = database.keyed("t").unwrap();
    let mut model: BTreeMap<i64, i64> = BTreeMap::new();
    let mut random = Random::new(5);
    for round in 0..60 {
        // Batches that fit a delta, and some that do not.
        let count = if round % 20 == 19 { 4000 } else { 1 + random.below(40) };
        let keys: Vec<i64> = (0..count)
            .map(|_| random.between(0, 9000))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        if random.one_in(3) {
            let gone = keys.iter().filter(|key| model.remove(key).is_some()).count();
            assert_eq!(keyed.delete(&keys[..]).unwrap(), gone as u64);
        } else {
            let values: Vec<i64> = keys.iter().map(|_| random.between(0, 1000)).collect();
            let columns: [(&str, ArrayRef); 2] =
                [("k", Arc::new(Int64Array::from(keys.clone()))), ("v", Arc::new(Int64Array::from(values.clone())))];
            let written = keyed.upsert(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
            assert_eq!(written, keys.len() as u64);
            model.extend(keys.iter().copied().zip(values));
        }
        let asked: Vec<i64> = (0..50).map(|_| random.between(0, 9000)).collect();
        let expected = asked.iter().enumerate();
        let expected = expected.filter_map(|(place, key)| Some((place, format!("{} {key}", model.get(key)?))));
        assert_eq!(pairs(&keyed.lookup(&asked[..]).unwrap()), expected.collect::<Vec<_>>());
        let (first, last) = (random.between(0, 9000), random.between(0, 9000));
        let range = keyed.range(first.into(), last.into()).unwrap();
        let found: usize = range.map(|batch| batch.unwrap().num_rows()).sum();
        let expected = if first <= last { model.range(first..=last).count() } else { 0 };
        assert_eq!(found, expected);
        assert_eq!(number(&session, "SELECT coalesce(sum(v), 0)::BIGINT FROM t"), model.values().sum::<i64>());
    }
}

#[test]
fn keyed_rows_count_in_the_budget_and_come_in_the_order_of_their_keys() {
    let database = Database::builder().threads(2).memory_bytes(64 << 20).build().unwrap();
    let session = database.session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)").unwrap();
    let insert = "INSERT INTO t SELECT value, 'a text that is no short one: ' || value FROM range(100000)";
    session.execute(insert).unwrap();
    let keyed = database.keyed("t").unwrap();
    let keys: Vec<i64> = (0..100_000).rev().collect();
    let found = keyed.lookup(&keys[..]).unwrap();
    assert_eq!(found.rows.column(0).as_primitive::<Int64Type>().values(), &keys[..]);
    assert_eq!(found.rows.column(1).as_string_view().value(99_990), "a text that is no short one: 9");
    let often: Vec<i64> = (0..3_000_000).map(|row| row % 100_000).collect();
    let error = keyed.lookup(&often[..]).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
    assert_eq!(keyed.lookup(&keys[..2]).unwrap().rows.num_rows(), 2);
}

#[test]
fn keyed_tables_refuse_what_is_not_theirs() {
    let database = database();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE n (a INT); CREATE TABLE t (a INT, b TEXT, c INT UNIQUE, PRIMARY KEY (b, a));
             CREATE VIEW w AS SELECT * FROM t; INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)",
        )
        .unwrap();
    let missing = |table: &str| database.keyed(table).unwrap_err().to_string();
    assert!(missing("n").contains("no primary key"), "{}", missing("n"));
    assert!(missing("m").contains("'m'") && missing("w").contains("view"));
    let keyed = database.keyed("t").unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["y", "x", "y"]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![2, 2, 2]));
    let both = vec![Arc::clone(&texts), Arc::clone(&numbers)];
    assert_eq!(pairs(&keyed.lookup(both.clone()).unwrap()), [(0, "2 y 20".into()), (2, "2 y 20".into())]);
    assert!(keyed.lookup(&[1_i64][..]).unwrap_err().to_string().contains("has 2 columns"));
    assert!(keyed.lookup(vec![Arc::clone(&texts), texts.slice(0, 2)]).is_err());
    let error = keyed.lookup(vec![Arc::clone(&texts), Arc::clone(&texts)]).unwrap_err().to_string();
    assert!(error.contains("column 'a'"), "{error}");
    assert!(keyed.range(1_i64.into(), 2_i64.into()).unwrap_err().to_string().contains("(b, a)"));
    let rows = |c: Vec<i64>| {
        let columns: [(&str, ArrayRef); 3] =
            [("a", Arc::clone(&numbers)), ("b", Arc::clone(&texts)), ("c", Arc::new(Int64Array::from(c)))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let error = keyed.upsert(&rows(vec![1, 2, 3])).unwrap_err().to_string();
    assert!(error.contains("(b, a) = (y, 2)") && error.contains("twice"), "{error}");
    // Another key is there already.
    let error = keyed.upsert(&rows(vec![10, 30, 30]).slice(0, 2)).unwrap_err().to_string();
    assert!(error.contains("(c) = (10)"), "{error}");
    let error = keyed.upsert(&rows(vec![1, 2, 3]).project(&[0, 1]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("no column 'c'"), "{error}");
    assert_eq!(number(&session, "SELECT sum(c)::BIGINT FROM t"), 30);
    assert_eq!(keyed.upsert(&rows(vec![21, 30, 0]).slice(0, 2)).unwrap(), 2);
    assert_eq!(number(&session, "SELECT sum(c)::BIGINT FROM t"), 61);
    assert_eq!(keyed.delete(both).unwrap(), 2);
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 1);
    session.execute("DROP TABLE t").unwrap();
    assert!(keyed.lookup(vec![texts, numbers]).unwrap_err().to_string().contains("'t'"));
}

#[test]
fn large_statements_of_few_changes_keep_what_small_ones_wrote() {
    for key in ["k BIGINT PRIMARY KEY, v TEXT", "k BIGINT PRIMARY KEY, v TEXT, w BIGINT UNIQUE"] {
        let session = database().session();
        let columns = if key.contains("UNIQUE") { "value, 'a', value" } else { "value, 'a'" };
        session.execute(&format!("CREATE TABLE t ({key})")).unwrap();
        session.execute(&format!("INSERT INTO t SELECT {columns} FROM generate_series(1, 5000)")).unwrap();
        session.execute("INSERT INTO t (k, v) VALUES (6000, 'x'), (6001, 'y')").unwrap();
        session.execute("DELETE FROM t WHERE k = 6001 OR k = 7").unwrap();
        let insert = format!("INSERT INTO t SELECT {columns} FROM generate_series(1, 5001) ON CONFLICT");
        assert_eq!(changed(&session, &format!("{insert} DO NOTHING")), Ok(2));
        assert_eq!(number(&session, "SELECT count(*) FROM t"), 5002);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE k = 6000 AND v = 'x'"), 1);
        session.execute("UPDATE t SET v = 'small' WHERE k = 6000").unwrap();
        let update = format!("{insert} (k) DO UPDATE SET v = 'large' WHERE t.k % 1000 = 0");
        assert_eq!(changed(&session, &update), Ok(5));
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v = 'large'"), 5);
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v = 'small'"), 1);
        assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), 5002);
    }
}

#[test]
fn what_a_kept_write_is_not_sure_of_is_planned() {
    let database = database();
    let session = database.session();
    session
        .execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, \"$1\" BIGINT, v BIGINT); INSERT INTO t VALUES (1, 7, 0);
             CREATE TABLE c (c CHAR(3) PRIMARY KEY, v INT); INSERT INTO c VALUES ('ab', 0);
             CREATE TABLE e (id BIGINT PRIMARY KEY, a INT, s TEXT, b BOOLEAN)",
        )
        .unwrap();
    // A column is no parameter.
    assert!(session.execute("UPDATE t SET v = $1 WHERE id = 1").is_err());
    assert_eq!(number(&session, "SELECT v FROM t"), 0);
    let error = session.execute("UPDATE e SET b = (a = s) WHERE id = 5").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("e.a") && !error.contains("row."), "{error}");
    let prepared = session.prepare("UPDATE c SET v = CASE WHEN c = $1 THEN 1 ELSE 2 END WHERE c = 'ab'").unwrap();
    prepared.run(&["ab ".into()]).unwrap();
    assert_eq!(rows(&session, "SELECT v FROM c"), [["1"]]);
    for sql in ["SELECT v FROM c WHERE c = $1", "SELECT v FROM c WHERE c IN ($1)", "UPDATE c SET v = 1 WHERE c = $1"] {
        let prepared = session.prepare(sql).unwrap();
        assert_eq!(prepared.parameter_types(), [Some(DataType::Utf8View)], "{sql}");
        for text in ["ab", "ab "] {
            let given: usize = prepared.query(&[text.into()]).unwrap().map(|rows| rows.unwrap().num_rows()).sum();
            assert_eq!(given, 1, "{sql}: {text:?}");
        }
    }
    // What is declared TEXT is compared with its blanks.
    session.execute("PREPARE declared(TEXT) AS SELECT v FROM c WHERE c = $1").unwrap();
    assert_eq!(rows(&session, "EXECUTE declared('ab')"), [["1"]]);
    assert!(rows(&session, "EXECUTE declared('ab ')").is_empty());
    assert!(
        session
            .execute("INSERT INTO t SELECT t.* FROM t JOIN t AS u ON conflict(t.id + 1)")
            .is_err_and(|e| !e.to_string().contains("ON CONFLICT"))
    );
    let keyed = database.keyed("c").unwrap();
    assert_eq!(pairs(&keyed.lookup(&["ab "][..]).unwrap()), [(0, "ab 1".to_string())]);
    assert_eq!(keyed.delete(&["ab "][..]).unwrap(), 1);
    session
        .execute("INSERT INTO c VALUES ('ab', 0); CREATE TABLE b (v VARCHAR(5)); INSERT INTO b VALUES ('ab ')")
        .unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM b WHERE v IN (SELECT c FROM c)"), 1);
}

/// Rows of a table in units go to the units in turn, and the bitmap says which have some.
#[test]
fn rows_go_to_units_in_turn() {
    let database = Database::builder().threads(4).build().unwrap();
    let session = database.session();
    session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 0").unwrap();
    session.execute("CREATE TABLE t (v BIGINT, w TEXT) WITH (units = on)").unwrap();
    let units = "SELECT unit, keys FROM nearside.partitions WHERE \"table\" = 't' ORDER BY unit";
    assert!(rows(&session, units).is_empty());
    for value in 0..6 {
        session.execute(&format!("INSERT INTO t VALUES ({value}, 'w{value}')")).unwrap();
    }
    assert_eq!(rows(&session, units), [["0", "2"], ["1", "2"], ["2", "1"], ["3", "1"]]);
    let routing =
        "SELECT unit, \"index\" IS NULL, range IS NULL FROM nearside.routing WHERE \"table\" = 't' ORDER BY 1";
    assert_eq!(rows(&session, routing).len(), 4);
    assert_eq!(rows(&session, "SELECT statements, rows FROM nearside.deltas"), [["6", "6"]]);
    session.execute("DELETE FROM t WHERE v = 2").unwrap();
    session.execute("UPDATE t SET w = 'new' WHERE v >= 4").unwrap();
    // Rows stay with the unit of the first one when they change.
    session.execute("UPDATE t SET w = 'w1' WHERE v = 1").unwrap();
    session.execute("UPDATE t SET w = 'w1' WHERE v = 1").unwrap();
    let rows_of = "SELECT keys FROM nearside.partitions WHERE \"table\" = 't' ORDER BY unit";
    assert_eq!(rows(&session, rows_of), [["3"], ["1"], ["0"], ["1"]]);
    let all = "SELECT v, w FROM t ORDER BY v";
    let expected = [["0", "w0"], ["1", "w1"], ["3", "w3"], ["4", "new"], ["5", "new"]];
    assert_eq!(rows(&session, all), expected);
    session.execute("CREATE INDEX i ON t (v)").unwrap();
    assert_eq!(rows(&session, all), expected);
    assert_eq!(number(&session, "SELECT count(*) FROM nearside.deltas WHERE rows > 0"), 0);
    assert_eq!(number(&session, "SELECT sum(keys)::BIGINT FROM nearside.partitions WHERE \"table\" = 't'"), 5);
    for (wrong, says) in [
        ("CREATE TABLE u (v INT) WITH (units = maybe)", "on or off"),
        ("CREATE TABLE u (v INT) WITH (units = on, units = on)", "twice"),
        ("CREATE TABLE u (v INT) WITH (units = on, placement = 'rr')", "leave the placement out"),
        ("CREATE TABLE u (v INT) WITH (unit = on)", "units"),
        ("CREATE TABLE u (v INT) WITH (placement = 'units(3)')", "units"),
        ("CREATE TABLE u (v INT) WITH (placement = 'pp(like t(v))')", "in turn"),
    ] {
        let error = session.execute(wrong).map(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{wrong}: {error}");
    }
    session.execute("CREATE TABLE off (v INT) WITH (units = off)").unwrap();
}

/// Tables cut alike are joined part by part: rows of deltas are in the parts that their keys say.
#[test]
fn tables_cut_alike_join_what_small_writes_added() {
    let mut random = Random::new(3);
    for (first, second) in [("pp(4, hash(k))", "pp(like a(k))"), ("pp(3, range(k))", "pp(like a(k))")] {
        let session = database().session();
        session.execute("ALTER SYSTEM SET nearside.merge_idle_ms = 1").unwrap();
        session.execute(&format!("CREATE TABLE a (k BIGINT, v BIGINT) WITH (placement = '{first}')")).unwrap();
        session.execute("INSERT INTO a SELECT value % 500, value FROM generate_series(1, 3000)").unwrap();
        session.execute(&format!("CREATE TABLE b (k INT, w BIGINT) WITH (placement = '{second}')")).unwrap_or_else(
            // Bounds are of one type: then the columns are.
            |_| session.execute(&format!("CREATE TABLE b (k BIGINT, w BIGINT) WITH (placement = '{second}')")).unwrap(),
        );
        session.execute("CREATE TABLE c (k BIGINT, v BIGINT); CREATE TABLE d (k BIGINT, w BIGINT)").unwrap();
        session.execute("INSERT INTO c SELECT * FROM a").unwrap();
        for round in 0..60 {
            let key = if random.one_in(9) { "NULL".to_string() } else { random.between(-50, 700).to_string() };
            let statement = match random.below(4) {
                0 => format!("INSERT INTO {{a}} VALUES ({key}, {round}), (7, {round})"),
                1 => format!("INSERT INTO {{b}} VALUES ({key}, {round}), (3, {round}), ({round}, 1)"),
                2 => format!("UPDATE {{a}} SET k = k + 300 WHERE v % 97 = {round}"),
                _ => format!("DELETE FROM {{b}} WHERE w = {}", random.between(0, round)),
            };
            for (a, b) in [("a", "b"), ("c", "d")] {
                session.execute(&statement.replace("{a}", a).replace("{b}", b)).unwrap();
            }
            let join = |a: &str, b: &str| {
                let sql = format!(
                    "SELECT x.k, count(*), sum(v)::BIGINT, sum(w)::BIGINT FROM {a} x LEFT JOIN {b} y ON x.k = y.k \
                     GROUP BY x.k ORDER BY 1, 2"
                );
                rows(&session, &sql)
            };
            assert_eq!(join("a", "b"), join("c", "d"), "{statement}");
        }
    }
}

/// Statements that differ in literals alone do, from the second one on, what each does by itself.
#[test]
fn statements_of_one_shape_do_what_each_does_by_itself() {
    let mut random = Random::new(8);
    let database = database();
    let (shaped, plain) = (database.session(), database.session());
    plain.execute("SET nearside.plan_cache = false").unwrap();
    for table in ["shaped", "texted"] {
        let columns =
            "k INT PRIMARY KEY, s VARCHAR(5), d DECIMAL(6,2), f DOUBLE, b BOOLEAN, day DATE DEFAULT '2020-01-01'";
        shaped.execute(&format!("CREATE TABLE {table} ({columns})")).unwrap();
    }
    let literals = ["1", "-2", "0", "12.5", "-0.75", "12.345", "99999", "3000000000", "'a'", "'it''s'", "'toolong'"];
    let more = ["''", "'5'", "NULL", "true", "1e2", "'2021-02-03'", "9007199254740993", "DEFAULT"];
    let all: Vec<&str> = literals.iter().chain(&more).copied().collect();
    let outcome = |session: &Session, sql: &str| match session.execute(sql) {
        Ok(Outcome::Done(done)) => format!("{} {:?}", done.tag, done.rows),
        Ok(Outcome::Rows(found)) => {
            let mut found: Vec<String> = found
                .collect_all()
                .unwrap()
                .iter()
                .flat_map(|batch| (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1))))
                .collect();
            found.sort();
            found.join("; ")
        }
        Err(error) => format!("error: {error}"),
    };
    let (mut errors, mut done) = (0, 0);
    for _ in 0..1500 {
        let mut any = || random.pick(&all);
        let key = any();
        let sql = match key.len() % 2 + 2 * (any().len() % 4) {
            0 => format!("INSERT INTO % VALUES ({key}, {}, {}, {}, {})", any(), any(), any(), any()),
            1 => format!("INSERT INTO % (k, s) VALUES ({key}, {})", any()),
            2 => format!("INSERT INTO % (k, f) VALUES ({key}, {}) ON CONFLICT (k) DO UPDATE SET f = excluded.f", any()),
            3 => match any().len() % 3 {
                0 => format!("UPDATE % SET d = {}, f = f + 1 WHERE k = {key}", any()),
                1 => format!("UPDATE % SET f = f + {}, d = d - {} WHERE k = {key}", any(), any()),
                _ => format!("UPDATE % SET k = k + {}, f = d + 1 WHERE k = {key}", any()),
            },
            4 => format!("UPDATE % SET s = {} WHERE d = {key}", any()),
            5 => format!("DELETE FROM % WHERE k = {key} AND s = {}", any()),
            6 => format!("SELECT k, s, d, f, b FROM % WHERE f = {key}"),
            _ => format!("SELECT * FROM % WHERE k = {key}"),
        };
        let [a, b] = [("shaped", &shaped), ("texted", &plain)]
            .map(|(table, session)| outcome(session, &sql.replace('%', table)).replace(table, "x"));
        assert_eq!(a, b, "{sql}");
        if a.starts_with("error") { errors += 1 } else { done += 1 }
    }
    assert!(errors > 100 && done > 300, "{errors} {done}");
    assert_eq!(rows(&shaped, "SELECT * FROM shaped ORDER BY k"), rows(&plain, "SELECT * FROM texted ORDER BY k"));
    // What is refused as it is written is refused again.
    for _ in 0..3 {
        let error = shaped.execute("DELETE FROM shaped WHERE k = 5and s = 'a'").map(drop).unwrap_err().to_string();
        assert!(error.contains("5and"), "{error}");
    }
    // What a shape was planned for changes.
    for round in 0..3 {
        for key in [1, 2] {
            let key = 100_000 + 10 * round + key;
            shaped.execute(&format!("INSERT INTO shaped (k, s) VALUES ({key}, 'abc')")).unwrap();
        }
        shaped.execute(&format!("ALTER TABLE shaped ADD COLUMN x{round} INT")).unwrap();
        assert_eq!(rows(&shaped, "SELECT * FROM shaped WHERE k = 100001")[0].len() as i64, 7 + round);
    }
}

/// A transaction holds a row, so that a table which is made into segments keeps a delta without a row: what others have
/// written is seen.
#[test]
fn segments_beside_rows_that_are_held_are_seen() {
    for (write, expected) in [
        ("INSERT INTO t SELECT value, 'new' FROM generate_series(1001, 100000)", 99_000),
        (
            "INSERT INTO t SELECT value, 'new' FROM generate_series(2, 100000) ON CONFLICT (k) DO UPDATE SET s = 'new'",
            99_999,
        ),
        ("INSERT INTO t SELECT value, 'new' FROM generate_series(2, 100000) ON CONFLICT (k) DO NOTHING", 99_000),
        ("UPDATE t SET s = 'new' WHERE k > 1", 999),
        ("DELETE FROM t WHERE k > 1; INSERT INTO t SELECT value, 'new' FROM generate_series(2, 100000)", 99_999),
        (
            "SET nearside.small_writes = false; INSERT INTO t VALUES (1001, 'new'); UPDATE t SET s = 'new' WHERE k = 2",
            2,
        ),
    ] {
        let database = database();
        let (session, holder) = (database.session(), database.session());
        session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT)").unwrap();
        session.execute("INSERT INTO t SELECT value, 'old' FROM generate_series(1, 1000)").unwrap();
        holder.execute("BEGIN; UPDATE t SET s = 'held' WHERE k = 1").unwrap();
        for round in 0..2 {
            if round == 0 {
                session.execute(write).unwrap_or_else(|error| panic!("{write}: {error}"));
            } else {
                session.execute("UPDATE t SET s = s WHERE k > 1").unwrap();
            }
            assert_eq!(number(&session, "SELECT count(*) FROM t WHERE s = 'new'"), expected, "{write}, {round}");
        }
        holder.execute("COMMIT").unwrap();
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE s = 'held'"), 1, "{write}");
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE s = 'new'"), expected, "{write}");
    }
}
