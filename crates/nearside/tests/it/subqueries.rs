//! ANY, ALL, IN and EXISTS against an evaluator that goes through all rows, over small tables with NULLs. Inner and
//! outer tables share their names and those of their columns, so whatever catches a name of the other side gives
//! another answer.

use nearside::arrow::array::{Array, AsArray};
use nearside::arrow::datatypes::{Int32Type, Int64Type};
use nearside::{Database, Session};

/// One random source for what is tested here: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

type Row = [Option<i64>; 3];

/// The columns of both tables: the row's number, and two that hold NULL, 1, 2 or 3.
const COLUMNS: [&str; 3] = ["r", "i", "j"];
const OPERATORS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

struct Tables {
    t: Vec<Row>,
    u: Vec<Row>,
}

impl Tables {
    fn new(random: &mut Random) -> Tables {
        let mut rows = || {
            let count = random.of(&[0, 1, 3, 5]);
            let mut value = || random.of(&[None, Some(1), Some(2), Some(3)]);
            (0..count).map(|r| [Some(r), value(), value()]).collect()
        };
        Tables { t: rows(), u: rows() }
    }

    fn rows(&self, table: &str) -> &[Row] {
        if table == "t" { &self.t } else { &self.u }
    }

    fn create(&self, session: &Session) {
        for table in ["t", "u"] {
            session.execute(&format!("CREATE OR REPLACE TABLE {table} (r BIGINT, i BIGINT, j BIGINT)")).unwrap();
            let text = |v: &Option<i64>| v.map_or("NULL".into(), |v| v.to_string());
            let row = |row: &Row| format!("({})", row.iter().map(text).collect::<Vec<_>>().join(", "));
            let rows: Vec<String> = self.rows(table).iter().map(row).collect();
            if !rows.is_empty() {
                session.execute(&format!("INSERT INTO {table} VALUES {}", rows.join(", "))).unwrap();
            }
        }
    }
}

/// What names stand for, the innermost first.
type Scope = Vec<(&'static str, Row)>;

#[derive(Clone, Copy)]
struct Col {
    table: &'static str,
    column: usize,
}

impl Col {
    fn value(self, scope: &Scope) -> Option<i64> {
        let (_, row) = scope.iter().find(|(name, _)| *name == self.table).unwrap();
        row[self.column]
    }

    fn sql(self) -> String {
        format!("{}.{}", self.table, COLUMNS[self.column])
    }
}

#[derive(Clone, Copy)]
enum Value {
    Of(Col),
    Next(Col),
    Constant(Option<i64>),
}

impl Value {
    fn value(self, scope: &Scope) -> Option<i64> {
        match self {
            Value::Of(col) => col.value(scope),
            Value::Next(col) => col.value(scope).map(|v| v + 1),
            Value::Constant(v) => v,
        }
    }

    fn sql(self) -> String {
        match self {
            Value::Of(col) => col.sql(),
            Value::Next(col) => format!("{} + 1", col.sql()),
            Value::Constant(Some(v)) => v.to_string(),
            Value::Constant(None) => "CAST(NULL AS BIGINT)".into(),
        }
    }
}

fn compare(op: &str, left: Option<i64>, right: Option<i64>) -> Option<bool> {
    let left = left?;
    let right = right?;
    Some(match op {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|v| !v)
}

fn any(all: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = Some(false);
    for one in all {
        match one {
            Some(true) => return Some(true),
            None => known = None,
            Some(false) => {}
        }
    }
    known
}

/// `SELECT out FROM table [LEFT JOIN u AS w ON table.j = w.j] [WHERE filter]`.
struct Inner {
    table: &'static str,
    joined: bool,
    filter: Option<(Col, &'static str, Value)>,
    out: Col,
}

impl Inner {
    fn new(random: &mut Random, outside: &[&'static str]) -> Inner {
        let table = random.of(&["t", "u"]);
        let joined = random.chance(25);
        let out = Col { table: if joined { "w" } else { table }, column: 1 + random.below(2) };
        let filter = random.chance(70).then(|| {
            // What the query itself is over hides the table of the same name outside.
            let seen: Vec<&'static str> = outside.iter().copied().filter(|name| *name != table).collect();
            let right = match (random.chance(65), seen.is_empty()) {
                (true, false) => Value::Of(Col { table: random.of(&seen), column: 1 + random.below(2) }),
                _ => Value::Constant(Some(1 + random.below(3) as i64)),
            };
            (Col { table, column: 1 + random.below(2) }, random.of(&["=", "=", "<>", "<", ">="]), right)
        });
        Inner { table, joined, filter, out }
    }

    fn sql(&self) -> String {
        let join = if self.joined { format!(" LEFT JOIN u AS w ON {}.j = w.j", self.table) } else { String::new() };
        let filter = self
            .filter
            .as_ref()
            .map_or(String::new(), |(left, op, right)| format!(" WHERE {} {op} {}", left.sql(), right.sql()));
        format!("(SELECT {} FROM {}{join}{filter})", self.out.sql(), self.table)
    }

    fn values(&self, tables: &Tables, outside: &Scope) -> Vec<Option<i64>> {
        let mut values = Vec::new();
        for row in tables.rows(self.table) {
            let mut scopes: Vec<Scope> = Vec::new();
            if self.joined {
                let partners = tables.u.iter().filter(|w| compare("=", row[2], w[2]) == Some(true));
                scopes.extend(partners.map(|w| vec![("w", *w), (self.table, *row)]));
                if scopes.is_empty() {
                    scopes.push(vec![("w", [None; 3]), (self.table, *row)]);
                }
            } else {
                scopes.push(vec![(self.table, *row)]);
            }
            for mut scope in scopes {
                scope.extend(outside.iter().copied());
                let passes = self
                    .filter
                    .as_ref()
                    .is_none_or(|(left, op, right)| compare(op, left.value(&scope), right.value(&scope)) == Some(true));
                if passes {
                    values.push(self.out.value(&scope));
                }
            }
        }
        values
    }
}

enum Test {
    Any(Value, &'static str, Inner),
    All(Value, &'static str, Inner),
    In(Value, Inner),
    NotIn(Value, Inner),
    Exists(Inner),
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    IsNull(Box<Test>),
    Compared(Value, &'static str, Value),
}

impl Test {
    fn new(random: &mut Random, outside: &[&'static str], depth: usize) -> Test {
        let inner = |random: &mut Random| Box::new(Test::new(random, outside, depth - 1));
        if depth > 0 && random.chance(50) {
            return match random.below(4) {
                0 => Test::Not(inner(random)),
                1 => Test::And(inner(random), inner(random)),
                2 => Test::Or(inner(random), inner(random)),
                _ => Test::IsNull(inner(random)),
            };
        }
        let col = Col { table: random.of(outside), column: 1 + random.below(2) };
        let value = match random.below(8) {
            0 => Value::Constant(random.of(&[None, Some(1), Some(2)])),
            1 => Value::Next(col),
            _ => Value::Of(col),
        };
        let query = Inner::new(random, outside);
        match random.below(10) {
            0..=2 => Test::Any(value, random.of(&OPERATORS), query),
            3..=5 => Test::All(value, random.of(&OPERATORS), query),
            6 => Test::In(value, query),
            7 => Test::NotIn(value, query),
            8 => Test::Exists(query),
            _ => Test::Compared(value, random.of(&OPERATORS), Value::Constant(Some(2))),
        }
    }

    fn sql(&self) -> String {
        match self {
            Test::Any(value, op, query) => format!("{} {op} ANY {}", value.sql(), query.sql()),
            Test::All(value, op, query) => format!("{} {op} ALL {}", value.sql(), query.sql()),
            Test::In(value, query) => format!("{} IN {}", value.sql(), query.sql()),
            Test::NotIn(value, query) => format!("{} NOT IN {}", value.sql(), query.sql()),
            Test::Exists(query) => format!("EXISTS {}", query.sql()),
            Test::Not(inner) => format!("NOT ({})", inner.sql()),
            Test::And(left, right) => format!("({}) AND ({})", left.sql(), right.sql()),
            Test::Or(left, right) => format!("({}) OR ({})", left.sql(), right.sql()),
            Test::IsNull(inner) => format!("({}) IS NULL", inner.sql()),
            Test::Compared(left, op, right) => format!("{} {op} {}", left.sql(), right.sql()),
        }
    }

    fn value(&self, tables: &Tables, scope: &Scope) -> Option<bool> {
        let over = |value: &Value, op: &str, query: &Inner| {
            let left = value.value(scope);
            any(query.values(tables, scope).into_iter().map(|right| compare(op, left, right)))
        };
        match self {
            Test::Any(value, op, query) => over(value, op, query),
            Test::All(value, op, query) => {
                let left = value.value(scope);
                not(any(query.values(tables, scope).into_iter().map(|right| not(compare(op, left, right)))))
            }
            Test::In(value, query) => over(value, "=", query),
            Test::NotIn(value, query) => not(over(value, "=", query)),
            Test::Exists(query) => Some(!query.values(tables, scope).is_empty()),
            Test::Not(inner) => not(inner.value(tables, scope)),
            Test::And(left, right) => not(any([left, right].into_iter().map(|t| not(t.value(tables, scope))))),
            Test::Or(left, right) => any([left, right].into_iter().map(|t| t.value(tables, scope))),
            Test::IsNull(inner) => Some(inner.value(tables, scope).is_none()),
            Test::Compared(left, op, right) => compare(op, left.value(scope), right.value(scope)),
        }
    }

    /// Whether a query in it refers to the row outside.
    fn is_correlated(&self) -> bool {
        let refers = |query: &Inner| {
            query.filter.as_ref().is_some_and(|(_, _, right)| matches!(right, Value::Of(_) | Value::Next(_)))
        };
        match self {
            Test::Any(_, _, q) | Test::All(_, _, q) | Test::In(_, q) | Test::NotIn(_, q) | Test::Exists(q) => refers(q),
            Test::Not(inner) | Test::IsNull(inner) => inner.is_correlated(),
            Test::And(left, right) | Test::Or(left, right) => left.is_correlated() || right.is_correlated(),
            Test::Compared(..) => false,
        }
    }
}

/// Rows as numbers, NULL as -1, in order.
fn rows(session: &Session, sql: &str) -> Result<Vec<Vec<i64>>, nearside::Error> {
    let mut rows = Vec::new();
    for batch in session.query(sql)?.collect_all()? {
        for row in 0..batch.num_rows() {
            let value = |column: &std::sync::Arc<dyn Array>| {
                if column.is_null(row) {
                    return -1;
                }
                // An output that is a literal alone is an INTEGER, a column of the tables a BIGINT.
                match column.as_primitive_opt::<Int32Type>() {
                    Some(column) => i64::from(column.value(row)),
                    None => column.as_primitive::<Int64Type>().value(row),
                }
            };
            rows.push(batch.columns().iter().map(value).collect());
        }
    }
    rows.sort();
    Ok(rows)
}

/// The rows outside: of one table, or of both.
fn outside(tables: &Tables, names: &[&'static str]) -> Vec<Scope> {
    let one = |name: &'static str| tables.rows(name).iter().map(move |row| (name, *row));
    match names {
        [only] => one(only).map(|row| vec![row]).collect(),
        _ => one("t").flat_map(|t| one("u").map(move |u| vec![t, u])).collect(),
    }
}

#[test]
fn quantified_comparisons_and_subqueries_are_what_going_through_all_rows_gives() {
    let session = Database::builder().threads(2).memory_bytes(1 << 28).build().unwrap().session();
    let mut random = Random(20_260_801);
    let mut ran = 0;
    let mut refused = 0;
    for _ in 0..40 {
        let tables = Tables::new(&mut random);
        tables.create(&session);
        for _ in 0..25 {
            let names = random.of(&[&["t"][..], &["u"][..], &["t", "u"][..], &["t", "u"][..]]);
            let test = Test::new(&mut random, names, 2);
            let keys = names.iter().map(|name| format!("{name}.r")).collect::<Vec<_>>().join(", ");
            let from = names.join(", ");
            let condition = test.sql();
            let place = random.below(4);
            let sql = match place {
                0 => format!("SELECT {keys} FROM {from} WHERE {condition}"),
                1 => {
                    format!("SELECT {keys}, CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END FROM {from}")
                }
                2 => {
                    let columns = names.iter().flat_map(|n| COLUMNS.map(|c| format!("{n}.{c}"))).collect::<Vec<_>>();
                    format!("SELECT {keys} FROM {from} GROUP BY {} HAVING {condition}", columns.join(", "))
                }
                _ => format!("SELECT {keys}, CAST({condition} AS BIGINT) FROM {from}"),
            };
            let mut expected = Vec::new();
            for scope in outside(&tables, names) {
                let value = test.value(&tables, &scope);
                let mut row: Vec<i64> = scope.iter().map(|(_, row)| row[0].unwrap()).collect();
                match place {
                    0 | 2 if value != Some(true) => continue,
                    0 | 2 => {}
                    _ => row.push(value.map_or(-1, i64::from)),
                }
                expected.push(row);
            }
            expected.sort();
            match rows(&session, &sql) {
                Ok(found) => assert_eq!(found, expected, "{sql}\nt = {:?}\nu = {:?}", tables.t, tables.u),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("not supported") && test.is_correlated(), "{sql}: {text}");
                    refused += 1;
                }
            }
            ran += 1;
        }
    }
    assert!(refused * 10 < ran, "{refused} of {ran} refused");
}
