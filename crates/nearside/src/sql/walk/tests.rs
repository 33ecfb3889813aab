//! Each walk over a statement changes the queries of every kind of statement.

use datafusion_sql::parser::DFParserBuilder;
use sqlparser::ast::{self, BinaryOperator, ObjectName};
use sqlparser::tokenizer::Tokenizer;

use super::*;
use crate::catalog::rules::Writable;
use crate::sql::dialect::SqlDialect;
use crate::sql::materialized::{CteWord, keep_wishes, put_back, without_words};
use crate::sql::{STEP, distinct, mend, ordinary, recursion, rows, scope, windows, writes};

/// Where a query can stand.
const STATEMENTS: [&str; 31] = [
    "{}",
    "EXPLAIN {}",
    "EXPLAIN ANALYZE {}",
    "EXPLAIN ANALYZE COPY ({}) TO 'f.csv' STORED AS CSV",
    "EXPLAIN CREATE TABLE c AS {}",
    "EXPLAIN INSERT INTO t {}",
    "EXPLAIN DELETE FROM t WHERE a IN ({})",
    "EXPLAIN UPDATE t SET a = 1 WHERE EXISTS ({})",
    "COPY ({}) TO 'f.csv' STORED AS CSV",
    "CREATE TABLE c AS {}",
    "CREATE OR REPLACE TABLE c AS {}",
    "CREATE VIEW v AS {}",
    "CREATE OR REPLACE VIEW v (b) AS {}",
    "INSERT INTO t {}",
    "INSERT INTO t VALUES (1), ((SELECT count(*) FROM ({}) AS s))",
    "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = (SELECT max(b) FROM ({}) AS s)",
    "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 WHERE EXISTS ({})",
    "DELETE FROM t WHERE a IN ({})",
    "DELETE FROM t USING ({}) AS s WHERE s.b = t.a",
    "UPDATE t SET a = 2 FROM ({}) AS s WHERE s.b = t.a",
    "UPDATE t SET a = (SELECT max(b) FROM ({}) AS s)",
    "PREPARE p AS {}",
    "EXECUTE p((SELECT count(*) FROM ({}) AS s))",
    "SELECT (SELECT count(*) FROM ({}) AS s), 1",
    "SELECT * FROM ({}) AS s",
    "SELECT 1 FROM t JOIN ({}) AS s ON s.b = t.a",
    "SELECT 1 FROM t GROUP BY a HAVING count(*) > (SELECT count(*) FROM ({}) AS s)",
    "SELECT 1 FROM t ORDER BY (SELECT count(*) FROM ({}) AS s)",
    "SELECT 1 FROM t LIMIT (SELECT count(*) FROM ({}) AS s)",
    "WITH w AS ({}) SELECT 1 FROM w",
    "SELECT 1 UNION ALL SELECT 2 FROM ({}) AS s",
];

fn parsed(sql: &str) -> (Statement, Vec<CteWord>) {
    let tokens = Tokenizer::new(&SqlDialect, sql).tokenize_with_location().unwrap();
    let (tokens, said) = without_words(tokens);
    let parser = DFParserBuilder::new(tokens).with_dialect(&SqlDialect).build();
    let mut statements = parser.unwrap().parse_statements().unwrap_or_else(|e| panic!("{sql}: {e}"));
    assert_eq!(statements.len(), 1, "{sql}");
    (statements.pop_front().unwrap(), said)
}

/// The statements that a walk leaves as it must not: those whose text `is_done` does not hold for.
fn passed_over(
    query: &str,
    walk: &dyn Fn(&mut Statement, &[CteWord]),
    is_done: &dyn Fn(&Statement) -> bool,
) -> Vec<String> {
    let all = STATEMENTS.iter().map(|around| around.replace("{}", query));
    let left = all.filter(|sql| {
        let (mut statement, said) = parsed(sql);
        assert!(!is_done(&statement), "{sql} has nothing to change");
        walk(&mut statement, &said);
        !is_done(&statement)
    });
    left.collect()
}

fn says(text: &'static str) -> impl Fn(&Statement) -> bool {
    move |statement| statement.to_string().contains(text)
}

#[test]
fn every_walk_meets_the_queries_of_every_statement() {
    let none: Vec<String> = Vec::new();
    let columns = |table: &ObjectName| match table.to_string().as_str() {
        "t" => Some(vec!["a".to_string()]),
        "u" => Some(vec!["a".to_string(), "b".to_string()]),
        _ => None,
    };

    let materialized = "WITH x AS MATERIALIZED (SELECT 1 AS b) SELECT b FROM x";
    assert_eq!(passed_over(materialized, &|s, said| put_back(s, said), &says("AS MATERIALIZED")), none);
    let keep = |statement: &mut Statement, said: &[CteWord]| {
        put_back(statement, said);
        keep_wishes(statement, &|_| false, &|_| false);
    };
    assert_eq!(passed_over(materialized, &keep, &says("__nearside_cte_")), none);

    let apart = "SELECT b FROM u WHERE a IS DISTINCT FROM 1 AND b = 2";
    assert_eq!(passed_over(apart, &|s, _| distinct::bind(s), &|s| !takes_conditions(s)), none);

    let named = "SELECT sum(b) OVER win AS b FROM u WINDOW win AS (ORDER BY a)";
    let resolve = |s: &mut Statement, _: &[CteWord]| windows::resolve_windows(s).unwrap();
    assert_eq!(passed_over(named, &resolve, &|s| !s.to_string().contains("OVER win")), none);

    let any = "SELECT b LIKE ANY (ARRAY['x']) AS b FROM u";
    let write_out = |s: &mut Statement, _: &[CteWord]| ordinary::write_out(s).unwrap();
    assert_eq!(passed_over(any, &write_out, &|s| !s.to_string().contains("ANY")), none);

    let recursive = "WITH RECURSIVE r AS (SELECT 1 AS b UNION ALL SELECT b + 1 FROM r WHERE b < 3) SELECT b FROM r";
    let mark = |s: &mut Statement, _: &[CteWord]| recursion::mark_steps(s).unwrap();
    assert_eq!(passed_over(recursive, &mark, &says(STEP)), none);

    let series = "SELECT generate_series(1, 3) AS b";
    let write_out = |s: &mut Statement, _: &[CteWord]| rows::write_out(s).unwrap();
    assert_eq!(passed_over(series, &write_out, &says("\"generate_series\"")), none);

    let merged = "SELECT b FROM t NATURAL JOIN u";
    let write_out = |s: &mut Statement, _: &[CteWord]| scope::write_out(s, &columns).unwrap();
    assert_eq!(passed_over(merged, &write_out, &|s| !s.to_string().contains("NATURAL")), none);

    let exponent = "SELECT 25e-1 AS b";
    assert_eq!(passed_over(exponent, &|s, _| mend::mend(s).unwrap(), &says("'25e-1'")), none);
}

#[test]
fn every_statement_that_writes_is_met() {
    let default = |_: &ObjectName, _: &str| Ok(Some(ast::Expr::Value(ast::Value::Boolean(true).into())));
    let columns = |_: &ObjectName| Some(vec!["a".to_string()]);
    for around in ["{}", "EXPLAIN {}", "EXPLAIN ANALYZE {}", "PREPARE p AS {}"] {
        for sql in ["INSERT INTO t VALUES (DEFAULT)", "UPDATE t SET a = DEFAULT", "DELETE FROM t AS x WHERE x.a = 1"] {
            let sql = around.replace("{}", sql);
            let (mut statement, _) = parsed(&sql);
            writes::write_out(&mut statement, &columns, (&default, &|_, _| Writable::Any)).unwrap();
            let text = statement.to_string();
            assert!(!text.contains("DEFAULT") && !text.contains("DELETE"), "{text}");
        }
    }
}

/// Whether a comparison has a condition on its right side, as the parser makes it.
fn takes_conditions(statement: &Statement) -> bool {
    struct Conditions;
    impl Visitor for Conditions {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::IsDistinctFrom(_, right)
                    if matches!(right.as_ref(), Expr::BinaryOp { op: BinaryOperator::And, .. }) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    visit(statement, &mut Conditions).is_break()
}
