//! [`OptimizedPlan`]: a plan and what is known of its rows.

use super::cardinality::Estimate;
use super::conjuncts::filter;
use crate::plan::Plan;
use crate::plan::predicate::Predicate;

/// A plan and what is known of its rows.
pub(super) struct OptimizedPlan {
    /// The plan.
    pub(super) plan: Plan,
    /// Of its output.
    pub(super) estimate: Estimate,
}

impl OptimizedPlan {
    /// With conditions that stay above.
    pub(super) fn filtered(self, conjuncts: Vec<Predicate>) -> OptimizedPlan {
        if conjuncts.is_empty() {
            return self;
        }
        let estimate = self.estimate.filtered(&conjuncts);
        OptimizedPlan { plan: filter(self.plan, conjuncts), estimate }
    }
}
