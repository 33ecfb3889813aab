//! Our loops against DataFusion's, and what stops them.

use std::time::{Duration, Instant};

use datafusion_optimizer::OptimizerRule;

use super::*;
use crate::Database;
use crate::Session;
use crate::run::statement::RunningStatement;
use crate::sql::AnyStatement;

fn session() -> Session {
    let session = Database::builder().threads(1).build().unwrap().session();
    session.execute("CREATE TABLE t (a INT, b INT, s TEXT); INSERT INTO t VALUES (1, 1, 'x'), (2, NULL, 'y')").unwrap();
    session
}

fn analysed(session: &Session, sql: &str) -> (LogicalPlan, Arc<RunningStatement>) {
    let running = session.running();
    let plan = AnyStatement::one(sql).unwrap().plan(&running.plan_context()).unwrap();
    (analyse(plan, running.as_ref()).unwrap(), running)
}

/// `a IN (SELECT a FROM t WHERE a IN (.. ))`, `levels` deep.
fn nested(levels: usize) -> String {
    format!("{}1{}", "SELECT a FROM t WHERE a IN (".repeat(levels), ")".repeat(levels))
}

#[test]
fn our_loop_gives_the_plans_of_datafusions() {
    let session = session();
    for sql in [
        "SELECT a + 1, count(*) FROM t WHERE b > 2 OR s LIKE 'x%' GROUP BY a + 1 ORDER BY 2 DESC LIMIT 3",
        "SELECT x.a FROM t x LEFT JOIN t y ON x.a = y.b WHERE y.s IS NOT NULL AND x.a IN (SELECT b FROM t WHERE s = \
         x.s)",
        "SELECT a, (SELECT max(b) FROM t y WHERE y.a = x.a) FROM t x WHERE EXISTS (SELECT 1 FROM t z WHERE z.b = x.b)",
        "SELECT a FROM t WHERE b = (SELECT max(b) FROM t) UNION SELECT b FROM t WHERE a NOT IN (SELECT b FROM t)",
    ] {
        let (plan, running) = analysed(&session, sql);
        let rules = running.planner.optimizer_rules();
        let ours = run_rules(plan.clone(), rules, running.as_ref()).unwrap();
        let (again, running) = analysed(&session, sql);
        let theirs = Optimizer::with_rules(running.planner.optimizer_rules().to_vec());
        let theirs = theirs.optimize(again, running.as_ref(), |_, _| {}).unwrap();
        // Names of generated aliases are numbered through.
        let shown = |plan: &LogicalPlan| {
            let text = plan.display_indent().to_string();
            text.split("_sq_").map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit())).collect::<String>()
        };
        assert_eq!(shown(&ours), shown(&theirs), "{sql}");
    }
}

#[test]
fn deeply_nested_subqueries_are_planned_at_once() {
    let session = session();
    let started = Instant::now();
    let deep = nested(40);
    assert_eq!(session.query(&deep).unwrap().collect_all().unwrap().iter().map(|b| b.num_rows()).sum::<usize>(), 1);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn what_is_wrong_with_a_subquery_is_found_at_every_depth() {
    let session = session();
    for levels in [0, 1, 2, 7] {
        let inner = "SELECT a FROM t x WHERE a = (SELECT b + random() FROM t y WHERE y.a = x.a)";
        let sql = nested(levels + 1).replace("(1)", &format!("({inner})"));
        let error = session.query(&sql).expect_err("it may differ each time").to_string();
        assert!(error.contains("in a subquery that refers to the row outside it"), "{levels}: {error}");
    }
}

#[test]
fn an_enormous_plan_is_refused() {
    let session = session();
    let mut ctes = vec!["c0 AS (SELECT a FROM t)".to_string()];
    ctes.extend((1..15).map(|n| format!("c{n} AS (SELECT x.a FROM c{m} x JOIN c{m} y ON x.a = y.a)", m = n - 1)));
    let error = session.query(&format!("WITH {} SELECT * FROM c14", ctes.join(", "))).expect_err("it is too large");
    assert!(error.to_string().contains("more than 50000 operators"), "{error}");
    let started = Instant::now();
    let mut not_in = "SELECT b FROM t".to_string();
    for _ in 0..20 {
        not_in = format!("SELECT b FROM t WHERE a = 1 OR b NOT IN ({not_in})");
    }
    let error = session.query(&not_in).expect_err("it is too large");
    assert!(error.to_string().contains("more than 50000 operators"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn planning_stops_when_the_statement_does() {
    let session = session();
    let (plan, running) = analysed(&session, &nested(30));
    running.statement.cancel();
    assert!(matches!(optimise(plan.clone(), running.as_ref()), Err(Error::Cancelled)));
    assert!(matches!(analyse(plan, running.as_ref()), Err(Error::Cancelled)));
    let (shallow, running) = analysed(&session, &nested(2));
    running.statement.cancel();
    assert!(matches!(optimise(shallow, running.as_ref()), Err(Error::Cancelled)));
}

#[test]
fn a_deadline_ends_planning_in_the_middle_of_a_rule() {
    #[derive(Debug)]
    struct Slow;
    impl OptimizerRule for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn apply_order(&self) -> Option<ApplyOrder> {
            Some(ApplyOrder::TopDown)
        }
        fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
            std::thread::sleep(Duration::from_millis(20));
            Ok(Transformed::no(plan))
        }
    }
    let session = session();
    let (plan, running) = analysed(&session, &nested(30));
    let stop = Stop::new(&running.statement, Some(Instant::now() + Duration::from_millis(60)));
    let started = Instant::now();
    let rules = [Arc::new(StoppableRule { rule: Arc::new(Slow), stop }) as _];
    let error = deep(|| run_rules(plan, &rules, running.as_ref())).unwrap_err();
    assert!(matches!(error, Error::Timeout), "{error}");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn planning_views_stops_when_the_statement_does() {
    let session = session();
    session.execute("CREATE VIEW v0 AS SELECT a FROM t").unwrap();
    for n in 1..4 {
        session
            .execute(&format!("CREATE VIEW v{n} AS SELECT x.a FROM v{m} x JOIN v{m} y ON x.a = y.a", m = n - 1))
            .unwrap();
    }
    let running = session.running();
    running.statement.cancel();
    let planned = AnyStatement::one("SELECT * FROM v3").unwrap().plan(&running.plan_context());
    assert!(matches!(planned, Err(Error::Cancelled)), "{planned:?}");
}
