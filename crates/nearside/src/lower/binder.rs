//! [`Binder`]: what binding one plan needs, and the way from an operator to those below it.
//!
//! Operators, and scalar subqueries within their expressions, stand over plans of any kind. So whoever makes a plan of
//! one asks the binder for what lies below, and only [`bind`](super::bind) knows which operator is bound by whom.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use datafusion_expr::LogicalPlan;
use exec::Plan;

use super::Props;
use crate::catalog::Snapshot;
use crate::error::Result;
use crate::rewrite::shared_queries::SharedQuery;

/// Makes the plan of one operator.
pub(super) type BindOperator = fn(&Binder<'_>, &LogicalPlan) -> Result<Plan>;

/// What binding one subtree needs.
pub(super) struct Binder<'a> {
    /// Stored tables.
    pub catalog: &'a Snapshot,
    /// The statement's time and settings, and the values of parameters.
    pub props: &'a Props,
    /// Plans of queries that stand in several places, by id.
    known: RefCell<HashMap<usize, Arc<exec::Shared>>>,
    /// Names and numbers of the recursive queries whose steps are being bound, from the outermost in.
    pub recursions: RefCell<Vec<(String, usize)>>,
    numbers: Cell<usize>,
    operator: BindOperator,
}

impl<'a> Binder<'a> {
    /// Over one state; `operator` binds whatever is no query that stands in several places.
    pub(super) fn new(catalog: &'a Snapshot, props: &'a Props, operator: BindOperator) -> Binder<'a> {
        Binder {
            catalog,
            props,
            known: RefCell::default(),
            recursions: RefCell::default(),
            numbers: Cell::new(0),
            operator,
        }
    }

    /// A number that no other recursive query of the plan has, nor anything else that asks for one.
    pub(super) fn next_number(&self) -> usize {
        self.numbers.replace(self.numbers.get() + 1) + 1
    }

    /// The plan of a subtree.
    pub(super) fn plan(&self, plan: &LogicalPlan) -> Result<Plan> {
        let Some(SharedQuery { id, keep, query }) = SharedQuery::of(plan) else { return (self.operator)(self, plan) };
        let known = self.known.borrow().get(id).cloned();
        if let Some(known) = known {
            return Ok(Plan::Shared(known));
        }
        let bound = Arc::new(exec::Shared { id: *id, keep: *keep, plan: self.plan(query)? });
        self.known.borrow_mut().insert(*id, Arc::clone(&bound));
        Ok(Plan::Shared(bound))
    }
}
