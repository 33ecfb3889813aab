//! Checked arithmetic through SQL, and its kernels against an oracle.

mod aggregates;
mod guards;
mod kernels;
mod operators;
mod quotient;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_expr::LogicalPlan;

use crate::Database;
use crate::Error;
use crate::Outcome;
use crate::Session;
use crate::plan::planning::{analyse, optimise};
use crate::sql::AnyStatement;

/// Integers at their limits, a divisor that is zero once, decimals of 38 and of 15 digits; one row of NULLs.
const TABLE: &str = "create table t(g int, a bigint, b bigint, i int, d decimal(38, 2), e decimal(15, 2));
    insert into t values
    (1, 9223372036854775807, 0, 2147483647, 999999999999999999999999999999999999.99, 1.50),
    (1, 1, 1, 1, 0.01, 2.25),
    (2, -9223372036854775808, -1, -2147483648, -1.00, 3.00),
    (2, null, 2, null, null, null)";

/// A session of a database with two workers, so that aggregates have partial states, and the table `t`.
struct Sql {
    session: Session,
}

impl Sql {
    fn new() -> Sql {
        let session = Database::builder().threads(2).build().unwrap().session();
        session.execute(TABLE).unwrap();
        Sql { session }
    }

    /// The statement's plan after all rules.
    fn optimised(&self, text: &str) -> LogicalPlan {
        let running = self.session.running();
        let plan = AnyStatement::one(text).unwrap().plan(&running.plan_context()).unwrap();
        optimise(analyse(plan, running.as_ref()).unwrap(), running.as_ref()).unwrap()
    }

    fn run(&self, text: &str) -> Result<Vec<RecordBatch>, Error> {
        match self.session.execute(text)? {
            Outcome::Rows(rows) => rows.collect(),
            Outcome::Done(_) => Ok(Vec::new()),
        }
    }

    /// The rows in order, columns joined by `|`, NULL as nothing.
    fn rows(&self, text: &str) -> Vec<String> {
        let batches = self.run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let options = FormatOptions::default();
        let mut rows = Vec::new();
        for batch in &batches {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
                .collect();
            for row in 0..batch.num_rows() {
                let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
                rows.push(cells.join("|"));
            }
        }
        rows
    }

    #[track_caller]
    fn gives(&self, text: &str, expected: &[&str]) {
        assert_eq!(self.rows(text), expected, "{text}");
    }

    /// The rows in no particular order.
    #[track_caller]
    fn gives_set(&self, text: &str, expected: &[&str]) {
        let mut rows = self.rows(text);
        rows.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(rows, expected, "{text}");
    }

    /// What the statement fails with, in execution.
    #[track_caller]
    fn fault(&self, text: &str) -> String {
        match self.run(text) {
            Ok(_) => panic!("{text} gave {:?}", self.rows(text)),
            Err(error @ Error::Execution(_)) => error.to_string(),
            Err(error) => panic!("{text} failed, but not in arithmetic: {error}"),
        }
    }

    #[track_caller]
    fn fails(&self, text: &str, message: &str) {
        assert_eq!(self.fault(text), message, "{text}");
    }
}
