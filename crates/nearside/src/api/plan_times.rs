//! What planning a query takes, step by step, for `nearside bench plan`: everything up to where rows would begin to
//! flow, and no row.
//!
//! Invariants: the steps are those of [`Session::run`] on a query that is in no cache; the plan cache is neither read
//! nor written.
//!
//! # Limits
//! Hidden from the documentation, and no stable interface. Operators choose their algorithms when their inputs have
//! run; that is no part of planning.

use std::time::{Duration, Instant};

use datafusion_expr::LogicalPlan;

use crate::api::session::{Session, not_on_a_worker};
use crate::error::{Error, Result};
use crate::lower::bind;
use crate::plan::headers;
use crate::run::loading::load_read;
use crate::run::query;
use crate::sql::AnyStatement;

/// The steps from a text to a plan that can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanTimes {
    /// Splitting and parsing the text.
    pub parse: Duration,
    /// Names, types and subqueries: the logical plan.
    pub resolve: Duration,
    /// Analysing and optimising it.
    pub optimize: Duration,
    /// Making sure that there is an operator for everything.
    pub lower: Duration,
    /// Tying it to rows, with the order of joins.
    pub bind: Duration,
}

impl PlanTimes {
    /// All steps.
    pub fn total(&self) -> Duration {
        self.parse + self.resolve + self.optimize + self.lower + self.bind
    }
}

impl Session {
    /// Plans one query and times the steps; runs nothing, save subqueries that planning needs the value of.
    ///
    /// # Errors
    /// Wrong SQL, unknown names, a statement that is not a query.
    #[doc(hidden)]
    pub fn plan_times(&self, sql: &str) -> Result<PlanTimes> {
        not_on_a_worker()?;
        let running = self.running();
        let mut times = PlanTimes::default();
        let mut since = Instant::now();
        let mut lap = |step: &mut Duration| {
            let now = Instant::now();
            *step = now - since;
            since = now;
        };
        let parsed = AnyStatement::one(sql)?;
        lap(&mut times.parse);
        let plan = parsed.plan(&running.plan_context())?;
        if matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Statement(_)) {
            return Err(Error::Unsupported("only queries are planned without running them".into()));
        }
        lap(&mut times.resolve);
        let names = headers::names(&plan);
        let plan = query::optimised(plan, &running)?;
        lap(&mut times.optimize);
        let plan = query::lowered(plan, &names)?;
        lap(&mut times.lower);
        load_read(&plan.plan, &running)?;
        drop(bind(&plan, &running.catalog, running.props())?);
        lap(&mut times.bind);
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;

    #[test]
    fn queries_are_planned_and_not_run() {
        let database = Database::builder().threads(1).memory_bytes(1 << 28).build().unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 100)").unwrap();
        let times = session.plan_times("SELECT sum(n) FROM t WHERE n > 3 GROUP BY n % 7").unwrap();
        assert!(times.total() > times.parse, "{times:?}");
        session.plan_times("SELECT n, rank() OVER (ORDER BY n) FROM t").unwrap();
        // It would fail if a row were made.
        session.plan_times("SELECT 1 / (n - 50) FROM t").unwrap();
        for wrong in ["SELEC", "SELECT m FROM t", "DROP TABLE t", "DELETE FROM t", "SELECT 1; SELECT 2"] {
            assert!(session.plan_times(wrong).is_err(), "{wrong}");
        }
        assert_eq!(database.table_names(), ["t"]);
    }
}
