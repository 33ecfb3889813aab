//! Queries by [`exec::reference`](mod@exec::reference), which means what the engine means, slowly: tests compare the
//! two.
//!
//! # Limits
//! Hidden from the documentation, and no stable interface. Everything runs on the calling thread, and joins are
//! nested loops.

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::lower::{Slots, bind_as_written, wholly_native};
use crate::parser::Parsed;
use crate::query;
use crate::session::{Session, not_on_a_worker};

impl Session {
    /// The rows of one query as its plan was written, before anything was moved to where it costs less.
    ///
    /// # Errors
    /// What the query refuses, too.
    #[doc(hidden)]
    pub fn query_by_reference(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        not_on_a_worker()?;
        let running = self.running();
        let plan = query::prepare(Parsed::one(sql)?.plan(&running.plan_context())?, &running)?;
        let unsupported = || Error::Unsupported("the reference has no operator for this query".into());
        let native = wholly_native(&plan).ok_or_else(unsupported)?;
        let plan = bind_as_written(native, &running.catalog, running.props(), Slots::new())?;
        Ok(exec::reference::execute(&plan)?)
    }
}
