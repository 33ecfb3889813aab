//! Plans kept for the next time the same text comes: of queries, and of statements that differ in literals alone.
//!
//! Key: the text, the settings, the catalog's DDL version. A plan names tables by identity and binds to their rows
//! when it starts, so new rows do not spoil it; a changed column, view or setting makes another key. Plans that hold
//! the time of their planning (`now()`) or data (system views, files) are not kept.

use std::collections::HashMap;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan, ScalarUDF, Volatility};
use parking_lot::Mutex;

use crate::functions::sequences::{is_next, is_of_sequence};
use crate::functions::sleep::is_sleep;
use crate::tables::stored::StoredSource;

/// Plans of queries that a database keeps.
pub(crate) const PLANS_MAX: usize = 512;
/// Longer statements are not kept: their plans are as long, and no budget counts them.
const SQL_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The statement's text.
    pub sql: String,
    /// Which settings it was planned with.
    pub settings: u64,
    /// Which names and columns it was planned with.
    pub ddl_version: u64,
}

#[derive(Debug)]
struct Entries<P> {
    by_key: HashMap<Key, (u64, P)>,
    clock: u64,
    hits: u64,
}

/// Plans by what they were made of.
#[derive(Debug)]
pub(crate) struct PlanCache<P> {
    entries: Mutex<Entries<P>>,
    most: usize,
}

impl<P: Clone> PlanCache<P> {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> PlanCache<P> {
        PlanCache { entries: Mutex::new(Entries { by_key: HashMap::new(), clock: 0, hits: 0 }), most }
    }

    /// The plan kept under a key.
    pub(crate) fn get(&self, key: &Key) -> Option<P> {
        let mut entries = self.entries.lock();
        entries.clock += 1;
        let clock = entries.clock;
        let (used, plan) = entries.by_key.get_mut(key)?;
        *used = clock;
        let plan = plan.clone();
        entries.hits += 1;
        Some(plan)
    }

    /// Keeps a plan; the one unused for longest goes when there are too many.
    pub(crate) fn put(&self, key: Key, plan: P) {
        if key.sql.len() > SQL_BYTES_MAX {
            return;
        }
        let mut entries = self.entries.lock();
        if entries.by_key.len() >= self.most && !entries.by_key.contains_key(&key) {
            let oldest = entries.by_key.iter().min_by_key(|(_, (used, _))| *used).map(|(k, _)| k.clone());
            if let Some(oldest) = oldest {
                entries.by_key.remove(&oldest);
            }
        }
        entries.clock += 1;
        let clock = entries.clock;
        entries.by_key.insert(key, (clock, plan));
    }

    /// How often a kept plan was used.
    #[cfg(test)]
    pub(crate) fn hits(&self) -> u64 {
        self.entries.lock().hits
    }
}

/// True when the plan of a query means the same tomorrow, and for any session: stored tables only, and no function that
/// depends on the moment or takes values of sequences.
pub(crate) fn is_cacheable(plan: &LogicalPlan) -> bool {
    is_lasting(plan, &|function| !is_of_run(function) && !is_of_sequence(function))
}

/// True when it means the same tomorrow for the session that it was planned for, who gives it the moment of each run:
/// it may take values of sequences.
pub(crate) fn is_keepable(plan: &LogicalPlan) -> bool {
    is_lasting(plan, &|function| match is_of_sequence(function) {
        true => is_next(function),
        false => !is_of_run(function) || is_now(function),
    })
}

/// As [`is_keepable`], without sequences.
pub(crate) fn is_keepable_without_sequences(plan: &LogicalPlan) -> bool {
    is_lasting(plan, &|function| !is_of_sequence(function) && (!is_of_run(function) || is_now(function)))
}

/// Whether a function gives the moment of its statement.
pub(crate) fn is_now(function: &ScalarUDF) -> bool {
    function.name() == "now"
}

/// Whether a function is of one run of a statement alone.
fn is_of_run(function: &ScalarUDF) -> bool {
    function.signature().volatility == Volatility::Stable || is_sleep(function)
}

fn is_lasting(plan: &LogicalPlan, may_call: &dyn Fn(&ScalarUDF) -> bool) -> bool {
    let mut cacheable = true;
    let walked = plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) if !scan.source.is::<StoredSource>() => cacheable = false,
            LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Statement(_) | LogicalPlan::RecursiveQuery(_) => {
                cacheable = false;
            }
            _ => {}
        }
        for expr in node.expressions() {
            if expr.exists(|e| Ok(is_momentary(e, may_call))).unwrap_or(true) {
                cacheable = false;
            }
        }
        Ok(if cacheable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && cacheable
}

fn is_momentary(expr: &Expr, may_call: &dyn Fn(&ScalarUDF) -> bool) -> bool {
    match expr {
        Expr::ScalarFunction(f) => !may_call(&f.func),
        Expr::ScalarVariable(..) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion_expr::LogicalPlanBuilder;

    use super::*;
    use crate::catalog::CatalogState;
    use crate::lower::lower;
    use crate::run::planned::PlannedQuery;

    #[test]
    fn the_plan_unused_for_longest_goes_first() {
        let cache = PlanCache::new(PLANS_MAX);
        let lowered = lower(LogicalPlanBuilder::empty(true).build().unwrap()).unwrap();
        let plan = Arc::new(PlannedQuery::lowered(lowered, &CatalogState::default()));
        let key = |i: usize| Key { sql: i.to_string(), settings: 0, ddl_version: 0 };
        for i in 0..PLANS_MAX {
            cache.put(key(i), Arc::clone(&plan));
        }
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(PLANS_MAX), plan);
        assert!(cache.get(&key(0)).is_some());
        assert!(cache.get(&key(1)).is_none());
        assert_eq!(cache.hits(), 2);
    }
}
