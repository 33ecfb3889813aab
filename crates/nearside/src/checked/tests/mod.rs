//! Checked arithmetic through SQL, on a session built as `register` builds it, and its kernels against an oracle.

mod aggregates;
mod guards;
mod kernels;
mod operators;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::ArithmeticError;

/// Integers at their limits, a divisor that is zero once, decimals of 38 and of 15 digits; one row of NULLs.
const TABLE: &str = "create table t(g int, a bigint, b bigint, i int, d decimal(38, 2), e decimal(15, 2)) as values
    (1, 9223372036854775807, 0, 2147483647, 999999999999999999999999999999999999.99, 1.50),
    (1, 1, 1, 1, 0.01, 2.25),
    (2, -9223372036854775808, -1, -2147483648, -1.00, 3.00),
    (2, null, 2, null, null, null)";

/// A session with two partitions, so that aggregates have partial states, and the table `t`.
struct Sql {
    runtime: tokio::runtime::Runtime,
    context: SessionContext,
}

impl Sql {
    fn new() -> Sql {
        let mut config = SessionConfig::new().with_target_partitions(2);
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let state = super::register(builder).build();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_stack_size(8 << 20).build().unwrap();
        let sql = Sql { runtime, context: SessionContext::new_with_state(state) };
        sql.run(TABLE).unwrap();
        sql
    }

    fn run(&self, text: &str) -> Result<Vec<RecordBatch>, DataFusionError> {
        self.runtime.block_on(async { self.context.sql(text).await?.collect().await })
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

    #[track_caller]
    fn fault(&self, text: &str) -> ArithmeticError {
        match self.run(text) {
            Ok(_) => panic!("{text} gave {:?}", self.rows(text)),
            Err(error) => {
                ArithmeticError::of(&error).unwrap_or_else(|| panic!("{text} failed, but not in arithmetic: {error}"))
            }
        }
    }

    #[track_caller]
    fn fails(&self, text: &str, message: &str) {
        assert_eq!(self.fault(text).to_string(), message, "{text}");
    }
}
