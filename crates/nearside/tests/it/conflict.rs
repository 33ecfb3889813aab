//! INSERT .. ON CONFLICT from outside: against a model, with many writers, with little memory, prepared.

use nearside::arrow::array::AsArray;
use nearside::arrow::datatypes::DataType;
use nearside::{Error, Outcome, Session};
use proptest::prelude::*;

use crate::read::{database, number};

fn count(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Done(done) => done.rows.unwrap(),
        Outcome::Rows(_) => panic!("a statement that writes gives no rows"),
    }
}

/// What the first key is made of.
#[derive(Debug, Clone, Copy)]
enum KeyKind {
    Int,
    Text,
    IntAndText,
}

/// A row: its key, which is of whatever kind made of a number, another key, and a value.
type Row = (Option<i64>, Option<i64>, i64);

/// What becomes of rows whose key is taken.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// DO NOTHING, whichever key.
    Nothing,
    /// DO NOTHING where the first key is taken.
    NothingOfFirst,
    /// DO UPDATE of the value, and of the other key; only of some rows.
    Update { only_even: bool, other_key: bool },
    /// DO UPDATE that gives the row another key.
    Move(i64),
}

#[derive(Debug, Clone)]
enum Operation {
    Insert(Vec<Row>, Action),
    Delete { from: i64, to: i64 },
}

impl KeyKind {
    fn columns(self) -> &'static str {
        match self {
            KeyKind::Int => "k INT UNIQUE",
            KeyKind::Text => "k TEXT UNIQUE",
            KeyKind::IntAndText => "k INT, s TEXT, UNIQUE (k, s)",
        }
    }

    fn target(self) -> &'static str {
        match self {
            KeyKind::Int | KeyKind::Text => "(k)",
            KeyKind::IntAndText => "(s, k)",
        }
    }

    /// The key made of a number, as values.
    fn values(self, key: Option<i64>) -> String {
        match (self, key) {
            (KeyKind::Int, Some(key)) => key.to_string(),
            (KeyKind::Text, Some(key)) => format!("'a key that is longer than twelve: {key}'"),
            // Neither column tells rows apart.
            (KeyKind::IntAndText, Some(key)) => format!("{}, 'k{}'", key.div_euclid(4), key.rem_euclid(4)),
            (KeyKind::Int | KeyKind::Text, None) => "NULL".into(),
            (KeyKind::IntAndText, None) => "1, NULL".into(),
        }
    }

    /// What makes a row's key that of a number that is larger.
    fn moved(self, by: i64) -> String {
        match self {
            KeyKind::Int => format!("k = k + {by}"),
            KeyKind::Text => {
                format!("k = 'a key that is longer than twelve: ' || (split_part(t.k, ' ', 8)::INT + {by})")
            }
            KeyKind::IntAndText => format!("(k, s) = (excluded.k + {}, t.s)", by / 4),
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => Just(Action::Nothing),
        1 => Just(Action::NothingOfFirst),
        4 => (any::<bool>(), any::<bool>())
            .prop_map(|(only_even, other_key)| Action::Update { only_even, other_key }),
        1 => prop_oneof![Just(-4_i64), Just(4), Just(8)].prop_map(Action::Move),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || prop::option::weighted(0.9, 0..24_i64);
    let rows = prop::collection::vec((key(), prop::option::weighted(0.7, 0..60_i64), 0..10_i64), 1..6);
    prop_oneof![
        6 => (rows, action()).prop_map(|(rows, action)| Operation::Insert(rows, action)),
        1 => (0..24_i64, 0..9_i64).prop_map(|(from, n)| Operation::Delete { from, to: from + n }),
    ]
}

/// The rows and how many were written; `None` where the statement fails.
fn model(rows: &[Row], proposed: &[Row], action: Action, two_keys: bool) -> Option<(Vec<Row>, u64)> {
    // With whether the statement has written it.
    let mut all: Vec<(Row, bool)> = rows.iter().map(|row| (*row, false)).collect();
    let mut written = 0;
    for row in proposed {
        let same = |key: Option<i64>, other: Option<i64>| key.is_some() && key == other;
        let first = all.iter().position(|(there, _)| same(there.0, row.0));
        let second = two_keys && all.iter().any(|(there, _)| same(there.1, row.1));
        match (action, first) {
            (Action::Nothing, first) if first.is_some() || second => {}
            (Action::NothingOfFirst, Some(_)) => {}
            (Action::Update { .. } | Action::Move(_), Some(place)) => {
                if all.iter().any(|(there, written)| same(there.0, row.0) && *written) {
                    return None;
                }
                let (there, is_written) = &mut all[place];
                match action {
                    Action::Update { only_even: true, .. } if row.2 % 2 > 0 => continue,
                    Action::Update { other_key, .. } => {
                        there.2 += row.2;
                        there.1 = if other_key { row.1 } else { there.1 };
                    }
                    Action::Move(by) => there.0 = there.0.map(|key| key + by),
                    Action::Nothing | Action::NothingOfFirst => unreachable!("DO UPDATE"),
                }
                *is_written = true;
                written += 1;
            }
            _ => {
                all.push((*row, true));
                written += 1;
            }
        }
    }
    let rows: Vec<Row> = all.into_iter().map(|(row, _)| row).collect();
    let mut keys: Vec<(bool, i64)> = rows.iter().filter_map(|row| Some((true, row.0?))).collect();
    keys.extend(rows.iter().filter_map(|row| Some((false, row.1?))).filter(|_| two_keys));
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    (keys.len() == count).then_some((rows, written))
}

fn insert_sql(proposed: &[Row], action: Action, kind: KeyKind) -> String {
    let null = |value: Option<i64>| value.map_or("NULL".to_string(), |value| value.to_string());
    let row = |row: &Row| format!("({}, {}, {})", kind.values(row.0), null(row.1), row.2);
    let values = proposed.iter().map(row).collect::<Vec<_>>().join(", ");
    let target = kind.target();
    let action = match action {
        Action::Nothing => "DO NOTHING".into(),
        Action::NothingOfFirst => format!("{target} DO NOTHING"),
        Action::Update { only_even, other_key } => {
            let other = if other_key { ", u = excluded.u" } else { "" };
            let condition = if only_even { " WHERE excluded.v % 2 = 0" } else { "" };
            format!("{target} DO UPDATE SET v = t.v + excluded.v{other}{condition}")
        }
        Action::Move(by) => format!("{target} DO UPDATE SET {}", kind.moved(by)),
    };
    format!("INSERT INTO t VALUES {values} ON CONFLICT {action}")
}

/// The table's rows as text, and the model's.
fn both(session: &Session, rows: &[Row], kind: KeyKind) -> (Vec<String>, Vec<String>) {
    let key = match kind {
        KeyKind::Int | KeyKind::Text => "k",
        KeyKind::IntAndText => "k::TEXT || ' ' || s",
    };
    let sql = format!("SELECT coalesce(({key})::TEXT, '-') || '|' || coalesce(u::TEXT, '-') || '|' || v FROM t");
    let batches = session.query(&sql).unwrap().collect_all().unwrap();
    let mut there: Vec<String> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string_view().iter().map(|text| text.unwrap().to_string()))
        .collect();
    let text = |value: Option<i64>| value.map_or("-".to_string(), |value| value.to_string());
    let key = |key: Option<i64>| match (kind, key) {
        (KeyKind::Text, Some(key)) => format!("a key that is longer than twelve: {key}"),
        (KeyKind::IntAndText, Some(key)) => format!("{} k{}", key.div_euclid(4), key.rem_euclid(4)),
        (_, key) => text(key),
    };
    let mut expected: Vec<String> =
        rows.iter().map(|row| format!("{}|{}|{}", key(row.0), text(row.1), row.2)).collect();
    there.sort_unstable();
    expected.sort_unstable();
    (there, expected)
}

fn against_model(operations: &[Operation], kind: KeyKind, two_keys: bool) -> Result<(), TestCaseError> {
    let session = database().session();
    let unique = if two_keys { "UNIQUE" } else { "" };
    let columns = match kind {
        KeyKind::IntAndText => format!("k INT, s TEXT, u INT {unique}, v BIGINT, UNIQUE (k, s)"),
        _ => format!("{}, u INT {unique}, v BIGINT", kind.columns()),
    };
    session.execute(&format!("CREATE TABLE t ({columns})")).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    for operation in operations {
        match operation {
            Operation::Insert(proposed, action) => {
                let sql = insert_sql(proposed, *action, kind);
                let done = session.execute(&sql);
                match (model(&rows, proposed, *action, two_keys), done) {
                    (Some((new, written)), Ok(done)) => {
                        prop_assert_eq!(count(done), written, "{}", sql);
                        rows = new;
                    }
                    (None, Err(Error::Execution(text))) => {
                        prop_assert!(text.contains("two rows with the key") || text.contains("twice"), "{}", text);
                    }
                    (expected, done) => prop_assert!(false, "{}: {:?}, and {:?}", sql, expected, done),
                }
            }
            Operation::Delete { from, to } => {
                let gone = |row: &Row| row.2 >= *from && row.2 < *to;
                let deleted = rows.iter().filter(|row| gone(row)).count() as u64;
                let done = session.execute(&format!("DELETE FROM t WHERE v >= {from} AND v < {to}")).unwrap();
                prop_assert_eq!(count(done), deleted);
                rows.retain(|row| !gone(row));
            }
        }
        let (there, expected) = both(&session, &rows, kind);
        prop_assert_eq!(there, expected, "after {:?}", operation);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(36))]
    #[test]
    fn upserts_agree_with_a_model(
        operations in prop::collection::vec(operation(), 1..14),
        kind in prop_oneof![Just(KeyKind::Int), Just(KeyKind::Text), Just(KeyKind::IntAndText)],
        two_keys in any::<bool>(),
    ) {
        against_model(&operations, kind, two_keys)?;
    }
}

#[test]
fn counters_lose_nothing_with_many_writers() {
    let database = database();
    database.session().execute("CREATE TABLE c (k INT PRIMARY KEY, n BIGINT)").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let session = database.session();
            scope.spawn(move || {
                for round in 0..20 {
                    let keys = format!("({}, 1), ({}, 1)", round % 5, 5 + (round + writer) % 3);
                    let sql = format!("INSERT INTO c VALUES {keys} ON CONFLICT (k) DO UPDATE SET n = c.n + excluded.n");
                    assert_eq!(count(session.execute(&sql).unwrap()), 2);
                }
            });
        }
    });
    let session = database.session();
    assert_eq!(number(&session, "SELECT sum(n)::BIGINT FROM c"), 160);
    assert_eq!(number(&session, "SELECT count(*) FROM c"), 8);
}

/// Many rows, in parts, among deleted ones; both ways of finding keys.
#[test]
fn many_rows_change_at_once() {
    let session = database().session();
    for (placement, key) in [("rr", "k"), ("pp(3, hash(k))", "k"), ("rr", "half, k")] {
        session.execute("DROP TABLE IF EXISTS t").unwrap();
        let columns = format!("k BIGINT, half BIGINT, v BIGINT, s TEXT, UNIQUE ({key})");
        let done = session.execute(&format!("CREATE TABLE t ({columns}) WITH (placement = '{placement}')"));
        done.unwrap_or_else(|e| panic!("{placement}: {e}"));
        let rows = |from: i64, to: i64| {
            format!(
                "SELECT value, CASE WHEN value % 2 = 0 THEN 7 ELSE value END, 1, 'row ' || value FROM \
                generate_series({from}, {to})"
            )
        };
        session.execute(&format!("INSERT INTO t {}", rows(1, 60_000))).unwrap();
        session.execute("DELETE FROM t WHERE k > 50000 OR k % 10 = 0").unwrap();
        let upsert = format!(
            "INSERT INTO t {} ON CONFLICT ({key}) DO UPDATE SET v = t.v + 1, s = excluded.s || '!' WHERE t.k % 3 = 0",
            rows(30_001, 70_000)
        );
        // 30001 to 50000 are there but for every tenth, of which a third changes; the others are not.
        let changed = number(&session, "SELECT count(*) FROM t WHERE k > 30000 AND k % 3 = 0");
        let there = number(&session, "SELECT count(*) FROM t WHERE k > 30000");
        let written = count(session.execute(&upsert).unwrap()) as i64;
        assert_eq!(written, changed + 40_000 - there, "{placement} {key}");
        assert_eq!(number(&session, "SELECT count(*) FROM t WHERE v = 2 AND s = 'row ' || k || '!'"), changed);
        assert_eq!(number(&session, "SELECT count(DISTINCT k) FROM t"), number(&session, "SELECT count(*) FROM t"));
        let again = count(
            session
                .execute(
                    &upsert.replace("DO UPDATE SET v = t.v + 1, s = excluded.s || '!' WHERE t.k % 3 = 0", "DO NOTHING"),
                )
                .unwrap(),
        );
        assert_eq!(again, 0);
    }
}

#[test]
fn what_does_not_fit_leaves_nothing_behind() {
    let session = database().session();
    session.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT)").unwrap();
    session.execute("INSERT INTO t SELECT value, 'a' FROM generate_series(1, 1000)").unwrap();
    session.execute("SET nearside.statement_memory_bytes = 1000000").unwrap();
    let large = "INSERT INTO t SELECT value, repeat('x', 200) FROM generate_series(500, 50000) ON CONFLICT (k) DO \
                 UPDATE SET s = excluded.s";
    assert!(matches!(session.execute(large), Err(Error::Memory(_))));
    session.execute("RESET nearside.statement_memory_bytes").unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE s = 'a'"), 1000);
    assert_eq!(number(&session, "SELECT count(*) FROM t"), 1000);
    assert_eq!(count(session.execute(large).unwrap()), 49_501);
}

#[test]
fn prepared_upserts_take_values_everywhere() {
    let session = database().session();
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, n BIGINT, s VARCHAR(5) DEFAULT 'none')").unwrap();
    let upsert = session
        .prepare(
            "INSERT INTO t (k, n) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n + $3, s = $4 \
             WHERE t.n < $5",
        )
        .unwrap();
    let types: Vec<_> = upsert.parameter_types().iter().map(|t| t.clone().unwrap()).collect();
    assert_eq!(types[..3], [DataType::Int32, DataType::Int64, DataType::Int64]);
    assert_eq!(types[4], DataType::Int64);
    let run = |k: i64, n: i64, s: &str| {
        upsert.run(&[k.into(), n.into(), 100_i64.into(), s.into(), 1000_i64.into()]).map(count)
    };
    assert_eq!(run(1, 1, "a").unwrap(), 1);
    assert_eq!(run(1, 1, "b").unwrap(), 1);
    assert_eq!(run(1, 5000, "c").unwrap(), 1);
    assert_eq!(run(1, 1, "d").unwrap(), 0, "n is too large by then");
    assert!(run(2, 1, "it is too long").is_ok(), "nothing is there to be set");
    assert!(matches!(run(2, 1, "it is too long"), Err(Error::Execution(_))));
    assert!(run(1 << 40, 1, "a").is_err(), "it is no INT");
    assert_eq!(number(&session, "SELECT n FROM t WHERE k = 1 AND s = 'c'"), 5202);
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE s = 'none'"), 1);
    // Each run sees the table's columns and rows as they are then.
    session.execute("ALTER TABLE t ADD COLUMN extra INT DEFAULT 3").unwrap();
    assert_eq!(run(9, 9, "e").unwrap(), 1);
    assert_eq!(number(&session, "SELECT extra::BIGINT FROM t WHERE k = 9"), 3);
    let counted = upsert.query(&[9.into(), 9.into(), 0.into(), "f".into(), 0.into()]).unwrap().collect_all().unwrap();
    assert_eq!(counted[0].num_rows(), 1);
}
