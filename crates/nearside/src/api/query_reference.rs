//! Queries by [`exec::reference`](mod@exec::reference), which means what the engine means, slowly: tests compare the
//! two.
//!
//! # Limits
//! Hidden from the documentation, and no stable interface. Everything runs on the calling thread, and joins are
//! nested loops.

use arrow::array::RecordBatch;

use crate::api::session::{Session, not_on_a_worker};
use crate::error::Result;
use crate::lower::{Slots, bind_as_written};
use crate::run::loading::load_read;
use crate::run::query;
use crate::sql::AnyStatement;

impl Session {
    /// The rows of one query as its plan was written, before anything was moved to where it costs less.
    ///
    /// # Errors
    /// What the query refuses, too.
    #[doc(hidden)]
    pub fn query_by_reference(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        not_on_a_worker()?;
        let running = self.running();
        let plan = query::prepare(AnyStatement::one(sql)?.plan(&running.plan_context())?, &running)?;
        load_read(&plan.plan, &running)?;
        let plan = bind_as_written(&plan, &running.catalog, running.props(), Slots::new())?;
        Ok(exec::reference::execute(&plan)?)
    }
}
