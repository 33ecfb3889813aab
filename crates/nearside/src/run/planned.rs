//! [`PlannedQuery`]: a query planned once and run often.
//!
//! How much is done once depends on the query. With values in plain comparisons with columns (`id = $1`, `d BETWEEN
//! $1 AND $2`), or none at all, it is optimised and lowered once ([`PlanKind::Lowered`]); where it reads one table, its
//! bound plan is kept too, and a run puts the snapshot and the values into a copy of it ([`BoundPlan`]). A query of the
//! row that has a key (`id = $1` where `id` is one) is no plan at all when it runs ([`KeyQuery`]). What is computed of
//! values and then compared (`id <= $1 + 99`) is computed before the run, and compared as a value ([`Derived`]). With
//! values elsewhere it is optimised once, and a run puts them in, folds what has become constant and lowers it
//! ([`PlanKind::Optimised`]). A query that depends on the moment (`now()`), or whose parameters have no known types, is
//! optimised for each run.
//!
//! Invariants: a run sees the tables as of its own start; a bound plan holds no rows, and is used only for the
//! version that it was bound to; a value takes exactly the places that its parameter had.

use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use datafusion_expr::LogicalPlan;
use exec::CheckedPlan;
use parking_lot::Mutex;
use storage::TableVersion;

use crate::catalog::CatalogState;
use crate::lower::{Derived, KeyQuery, LoweredPlan, key_query};
use crate::plan::headers;

/// A query that was planned.
#[derive(Debug)]
pub(crate) struct PlannedQuery {
    pub(super) kind: PlanKind,
    /// What it asks for, if that is the row of a key.
    pub(super) by_key: Option<KeyQuery>,
    pub(super) bound: Mutex<Option<Arc<BoundPlan>>>,
}

#[derive(Debug)]
pub(super) enum PlanKind {
    /// Optimised and lowered. Parameters stand only where a bound plan has literals.
    Lowered(LoweredPlan),
    /// As that, with further parameters, which are computed of those that are given.
    Derived(Box<DerivedPlan>),
    /// Optimised, and the names of its columns for users.
    Optimised(LogicalPlan, Vec<String>),
    /// As the planner made it.
    Unoptimised(LogicalPlan),
}

/// A plan with parameters that are computed of others.
#[derive(Debug)]
pub(super) struct DerivedPlan {
    pub(super) lowered: LoweredPlan,
    pub(super) derived: Derived,
    /// The plan as it was analysed, for values that nothing can be computed of.
    pub(super) analysed: LogicalPlan,
}

/// A plan over one version of one table, without its rows.
#[derive(Debug)]
pub(super) struct BoundPlan {
    pub(super) table: u64,
    pub(super) version: Weak<TableVersion>,
    pub(super) plan: CheckedPlan,
    pub(super) schema: SchemaRef,
}

impl PlannedQuery {
    /// A query that was optimised and lowered already; it has no parameters.
    pub(crate) fn lowered(plan: LoweredPlan, catalog: &CatalogState) -> PlannedQuery {
        let by_key = key_query(&plan.plan, catalog);
        PlannedQuery { kind: PlanKind::Lowered(plan), by_key, bound: Mutex::default() }
    }

    /// A query that is planned again for each run.
    pub(crate) fn unoptimised(plan: LogicalPlan) -> PlannedQuery {
        PlannedQuery { kind: PlanKind::Unoptimised(plan), by_key: None, bound: Mutex::default() }
    }

    /// Names and types of its rows as users see them; `None` where it is planned for each run.
    pub(crate) fn columns(&self) -> Option<SchemaRef> {
        match &self.kind {
            PlanKind::Lowered(lowered) => Some(Arc::clone(&lowered.schema)),
            PlanKind::Derived(plan) => Some(Arc::clone(&plan.lowered.schema)),
            PlanKind::Optimised(plan, names) => Some(headers::named(plan.schema().as_arrow(), names)),
            PlanKind::Unoptimised(_) => None,
        }
    }

    /// Whether anything of it was done once and for all.
    pub(crate) fn is_optimised(&self) -> bool {
        !matches!(self.kind, PlanKind::Unoptimised(_))
    }
}
