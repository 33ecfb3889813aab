//! CHECK OPTION of views: rows that are written through one have to be rows that it shows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion_common::DFSchema;
use datafusion_expr::{Expr, Filter, LogicalPlan, Projection, lit};

use super::spine;
use crate::catalog::lengths::told;
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::statements::given::given;

/// What views say of rows that are written through them.
#[derive(Debug)]
pub(crate) struct ViewChecks {
    /// Views with conditions and their queries, in the order in which they are looked at.
    of: Vec<(Name, LogicalPlan)>,
    table: Arc<TableEntry>,
}

impl ViewChecks {
    /// Of these views, over this table.
    pub(super) fn new(of: Vec<(Name, LogicalPlan)>, table: Arc<TableEntry>) -> ViewChecks {
        ViewChecks { of, table }
    }

    /// Whether there is nothing to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Looks at rows as the table would keep them; what stands behind its columns does not matter.
    ///
    /// # Errors
    /// A row that a view does not show.
    pub(crate) fn check(&self, rows: &[RecordBatch], running: &Arc<RunningStatement>) -> Result<()> {
        let schema = told(&self.table.base.schema, &self.table.lengths);
        let width: Vec<usize> = (0..schema.fields().len()).collect();
        let rows = rows.iter().map(|batch| Ok(batch.project(&width)?)).collect::<Result<Vec<_>>>()?;
        let leaf = given(&Arc::new(DFSchema::try_from(schema.as_ref().clone())?), &rows)?;
        for (view, plan) in &self.of {
            let Some(condition) = spine::condition(plan) else { continue };
            let seen = spine::through(&condition.input, &leaf, &[], false)?;
            let is_hidden = Expr::IsNotTrue(Box::new(condition.predicate.clone()));
            let hidden = LogicalPlan::Filter(Filter::try_new(is_hidden, Arc::new(seen))?);
            let one = Projection::try_new(vec![lit(1_i64).alias("hidden")], Arc::new(hidden))?;
            for batch in query::run(LogicalPlan::Projection(one), Arc::clone(running), true)? {
                if batch?.num_rows() > 0 {
                    return Err(Error::execution(
                        SqlState::WithCheckOptionViolation,
                        format!("a row violates the check option of view '{}', which would not show it", view.shown()),
                    ));
                }
            }
        }
        Ok(())
    }
}
