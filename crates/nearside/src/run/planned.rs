//! [`Planned`]: a query planned once and run often.
//!
//! How much is done once depends on the query. With values in plain comparisons with columns (`id = $1`, `d BETWEEN
//! $1 AND $2`), or none at all, it is optimised and lowered once ([`Kind::Lowered`]); where it reads one table, its
//! bound plan is kept too, and a run puts the snapshot and the values into a copy of it ([`Bound`]). With values
//! elsewhere it is optimised once, and a run puts them in, folds what has become constant and lowers it
//! ([`Kind::Optimised`]). A query that depends on the moment (`now()`), or whose parameters have no known types, is
//! optimised for each run.
//!
//! Invariants: a run sees the tables as of its own start; a bound plan holds no rows, and is used only for the
//! version that it was bound to; a value takes exactly the places that its parameter had.

use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use datafusion_expr::LogicalPlan;
use exec::Plan;
use parking_lot::Mutex;
use storage::TableVersion;

use crate::lower::{Lowered, Slots};

/// A query that was planned.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(super) kind: Kind,
    pub(super) bound: Mutex<Option<Arc<Bound>>>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Optimised and lowered. Parameters stand only where a bound plan has literals.
    Lowered(Lowered),
    /// Optimised, and the names of its columns for users.
    Optimised(LogicalPlan, Vec<String>),
    /// As the planner made it.
    Unoptimised(LogicalPlan),
}

/// A plan over one version of one table, without its rows.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) table: u64,
    pub(super) version: Weak<TableVersion>,
    pub(super) plan: Plan,
    /// What stands for the values of the parameters.
    pub(super) slots: Slots,
    pub(super) schema: SchemaRef,
}

impl Planned {
    /// A query that was optimised and lowered already; it has no parameters.
    pub(crate) fn lowered(plan: Lowered) -> Planned {
        Planned { kind: Kind::Lowered(plan), bound: Mutex::default() }
    }

    /// A query that is planned again for each run.
    pub(crate) fn unoptimised(plan: LogicalPlan) -> Planned {
        Planned { kind: Kind::Unoptimised(plan), bound: Mutex::default() }
    }

    /// Whether anything of it was done once and for all.
    pub(crate) fn is_optimised(&self) -> bool {
        !matches!(self.kind, Kind::Unoptimised(_))
    }
}
