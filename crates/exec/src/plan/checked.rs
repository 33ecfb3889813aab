//! [`CheckedPlan`]: a plan that was found to be valid, for whoever runs it often.
//!
//! Checking a plan and making its schema takes as long as much of a look-up by an index, so a plan that is run with
//! other values for its parameters is checked once.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use storage::TableVersion;

use super::Plan;
use crate::PlanError;

/// A plan that is valid, and the schema of its rows.
#[derive(Debug, Clone)]
pub struct CheckedPlan {
    plan: Arc<Plan>,
    schema: SchemaRef,
}

impl CheckedPlan {
    /// Checks a plan.
    ///
    /// # Errors
    /// Those of [`Plan::validate`].
    pub fn new(plan: Plan) -> Result<CheckedPlan, PlanError> {
        plan.validate()?;
        let schema = plan.schema();
        Ok(CheckedPlan { plan: Arc::new(plan), schema })
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// See [`Plan::estimated_bytes`].
    pub fn estimated_bytes(&self) -> u64 {
        self.plan.estimated_bytes_as(&self.schema)
    }

    /// See [`Plan::with_values`]; the snapshot has the same columns, and the values have the parameters' types, so that
    /// nothing is checked again.
    ///
    /// # Panics
    /// If a parameter has no value.
    pub fn with_values(&self, snapshot: &Arc<TableVersion>, values: &[ArrayRef]) -> Option<CheckedPlan> {
        let plan = self.plan.with_values(snapshot, values)?;
        debug_assert!(plan.validate().is_ok(), "{:?}", plan.validate());
        Some(CheckedPlan { plan: Arc::new(plan), schema: Arc::clone(&self.schema) })
    }
}
