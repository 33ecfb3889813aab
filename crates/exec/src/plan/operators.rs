//! Operators by number: what is known of an operator (counters, estimates) is kept by its [`OperatorId`].
//!
//! The number is the operator's place in a walk over the plan, so it is nowhere stored: a plan that is cloned, moved or
//! bound to other values has the numbers that it had, two equal subtrees have numbers of their own, and building a plan
//! costs nothing. Optimising makes another plan, with other numbers.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use super::Plan;

/// The number of an operator within its plan: its place in [`Plan::operators`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(u32);

impl OperatorId {
    /// The operator on top of a plan.
    pub(crate) const TOP: OperatorId = OperatorId(0);

    fn place(self) -> usize {
        self.0 as usize
    }
}

/// An operator as [`Plan::operators`] lists it.
#[derive(Clone)]
pub struct ListedOperator<'p> {
    /// Its number.
    pub id: OperatorId,
    /// How far below the top it stands.
    pub depth: usize,
    /// The operator.
    pub plan: &'p Plan,
    /// The numbers of [`Plan::inputs`]. What several places share has one number.
    pub inputs: Vec<OperatorId>,
}

/// Something for each operator of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerOperator<T>(Vec<T>);

impl<T> PerOperator<T> {
    /// What `of` gives for each.
    pub(crate) fn new<'p>(operators: &[ListedOperator<'p>], of: impl FnMut(&ListedOperator<'p>) -> T) -> Self {
        PerOperator(operators.iter().map(of).collect())
    }

    /// All, in the order of [`Plan::operators`].
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// What `of` gives for each of these.
    pub(crate) fn map<U>(&self, of: impl FnMut(&T) -> U) -> PerOperator<U> {
        PerOperator(self.0.iter().map(of).collect())
    }
}

impl<T> Index<OperatorId> for PerOperator<T> {
    type Output = T;

    fn index(&self, id: OperatorId) -> &T {
        &self.0[id.place()]
    }
}

impl<T> IndexMut<OperatorId> for PerOperator<T> {
    fn index_mut(&mut self, id: OperatorId) -> &mut T {
        &mut self.0[id.place()]
    }
}

impl Plan {
    /// This operator and all below, by number: every operator before those below it, the left ones first, as
    /// [`Display`](std::fmt::Display) lists them. What several places share stands below the first of them only.
    pub fn operators(&self) -> Vec<ListedOperator<'_>> {
        let mut walk = Walk::default();
        walk.list(self, 0);
        walk.all
    }
}

#[derive(Default)]
struct Walk<'p> {
    all: Vec<ListedOperator<'p>>,
    /// What is shared, by the number that its places have in common.
    shared: HashMap<usize, OperatorId>,
}

impl<'p> Walk<'p> {
    fn list(&mut self, plan: &'p Plan, depth: usize) -> OperatorId {
        let id = self.next();
        self.all.push(ListedOperator { id, depth, plan, inputs: Vec::new() });
        let inputs = match plan {
            Plan::Shared(shared) => match self.shared.get(&shared.id) {
                Some(&known) => vec![known],
                None => {
                    self.shared.insert(shared.id, self.next());
                    vec![self.list(&shared.plan, depth + 1)]
                }
            },
            other => other.inputs().into_iter().map(|input| self.list(input, depth + 1)).collect(),
        };
        self.all[id.place()].inputs = inputs;
        id
    }

    fn next(&self) -> OperatorId {
        OperatorId(self.all.len() as u32)
    }
}
