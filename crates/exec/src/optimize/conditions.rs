//! [`Conditions`]: what the places of shared plans ask of their rows.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::delicate::is_delicate;
use crate::plan::predicate::Predicate;

/// Conditions that the places of shared plans ask of their rows.
#[derive(Default)]
pub(super) struct Conditions {
    /// By number: what each place asks, as conjuncts.
    asked: HashMap<usize, Vec<Vec<Predicate>>>,
    /// By number: what each place has asked before, whose disjunction is pushed below.
    pushed: HashMap<usize, Vec<Vec<Predicate>>>,
    /// A place asked something else.
    broken: bool,
}

impl Conditions {
    /// Notes what a place asks of a shared plan.
    pub(super) fn note(&mut self, id: usize, filters: &[Predicate]) {
        let firm: Vec<Predicate> = filters.iter().filter(|p| !is_delicate(p)).cloned().collect();
        if let Some(pushed) = self.pushed.get(&id) {
            self.broken |= !pushed.iter().any(|known| all_alike(known, &firm));
        }
        self.asked.entry(id).or_default().push(firm);
    }

    /// What is to be pushed below a shared plan: a row that some place wants passes.
    pub(super) fn of(&self, id: usize) -> Vec<Predicate> {
        let Some(places) = self.pushed.get(&id) else { return Vec::new() };
        let mut parts: Vec<Predicate> = Vec::new();
        for place in places {
            let part = match place.as_slice() {
                [one] => one.clone(),
                several => Predicate::And(several.to_vec()),
            };
            if !parts.iter().any(|known| alike(known, &part)) {
                parts.push(part);
            }
        }
        vec![if parts.len() == 1 { parts.remove(0) } else { Predicate::Or(parts) }.without_not()]
    }

    /// The conditions to push in another go: of shared plans of which every place asks something.
    pub(super) fn agreed(self) -> Conditions {
        let pushed = self.asked.into_iter().filter(|(_, places)| places.iter().all(|place| !place.is_empty()));
        Conditions { pushed: pushed.collect(), ..Conditions::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pushed.is_empty()
    }

    /// Every place asked what it was taken to ask.
    pub(super) fn held(&self) -> bool {
        !self.broken
    }
}

fn all_alike(a: &[Predicate], b: &[Predicate]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
}

/// Are they written alike? False says nothing.
fn alike(a: &Predicate, b: &Predicate) -> bool {
    match (a, b) {
        (Predicate::Compare { column, op, value }, Predicate::Compare { column: c, op: o, value: v }) => {
            column == c && op == o && value.to_data() == v.to_data()
        }
        (Predicate::In { column, values, negated }, Predicate::In { column: c, values: v, negated: n }) => {
            column == c && negated == n && values.to_data() == v.to_data()
        }
        (Predicate::IsNull { column, negated }, Predicate::IsNull { column: c, negated: n }) => {
            column == c && negated == n
        }
        (Predicate::And(a), Predicate::And(b)) | (Predicate::Or(a), Predicate::Or(b)) => all_alike(a, b),
        (Predicate::Not(a), Predicate::Not(b)) => alike(a, b),
        (Predicate::Boolean(a), Predicate::Boolean(b)) => {
            // A text does not tell which of several columns its names stand for.
            let told = a.columns().len() < 2 && a.columns() == b.columns();
            Arc::ptr_eq(a, b) || (told && a.data_type() == b.data_type() && a.describe() == b.describe())
        }
        _ => false,
    }
}
