//! What predicates say: parts of conjunctions, equalities of columns, which NULLs they reject, and what they imply
//! about some of their columns alone.

use arrow::datatypes::DataType;

use crate::plan::Plan;
use crate::plan::delicate::is_delicate;
use crate::plan::expression::{CompareOp, Scalar};
use crate::plan::predicate::Predicate;

/// The parts of a conjunction, in order, NOT pushed to the leaves.
pub(super) fn conjuncts(predicate: &Predicate) -> Vec<Predicate> {
    match predicate.without_not() {
        Predicate::And(parts) => parts,
        other => vec![other],
    }
}

/// The two columns that it says are equal, if that is all it says. Floats are left out: a predicate tells -0.0 from
/// 0.0, a join key does not.
pub(super) fn equal_columns(predicate: &Predicate, types: &dyn Fn(usize) -> DataType) -> Option<(usize, usize)> {
    let Predicate::Boolean(expression) = predicate else { return None };
    let Some(Scalar::Compare { op: CompareOp::Eq, left, right }) = expression.structure() else { return None };
    let (Scalar::Column(left), Scalar::Column(right)) = (left.as_ref(), right.as_ref()) else { return None };
    let (left, right) = (expression.columns()[*left], expression.columns()[*right]);
    let (a, b) = (types(left), types(right));
    (left != right && a == b && !a.is_floating() && is_key_type(&a)).then_some((left, right))
}

/// Can values of this type be join keys?
fn is_key_type(data_type: &DataType) -> bool {
    !data_type.is_nested()
        && !matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::Interval(_))
}

/// Is it never TRUE for a row in which all columns for which `nulls` is true are NULL?
pub(super) fn rejects_nulls(predicate: &Predicate, nulls: &dyn Fn(usize) -> bool) -> bool {
    match predicate {
        Predicate::Compare { column, .. } | Predicate::In { column, .. } => nulls(*column),
        Predicate::IsNull { column, negated } => *negated && nulls(*column),
        Predicate::And(parts) => parts.iter().any(|p| rejects_nulls(p, nulls)),
        Predicate::Or(parts) => !parts.is_empty() && parts.iter().all(|p| rejects_nulls(p, nulls)),
        Predicate::Not(inner) => match inner.as_ref() {
            Predicate::Boolean(expression) => {
                let columns = expression.columns();
                expression.structure().is_some_and(|s| is_null_for(s, &|c| nulls(columns[c])))
            }
            _ => false,
        },
        Predicate::Boolean(expression) => {
            let columns = expression.columns();
            expression.structure().is_some_and(|s| is_not_true_for(s, &|c| nulls(columns[c])))
        }
    }
}

/// Is it NULL whenever the columns of `nulls` are?
fn is_null_for(scalar: &Scalar, nulls: &dyn Fn(usize) -> bool) -> bool {
    match scalar {
        Scalar::Column(column) => nulls(*column),
        Scalar::Arithmetic { left, right, .. } | Scalar::Compare { left, right, .. } => {
            is_null_for(left, nulls) || is_null_for(right, nulls)
        }
        Scalar::Negate(input) | Scalar::Not(input) => is_null_for(input, nulls),
        Scalar::In { input, .. } | Scalar::Cast { input, .. } | Scalar::DatePart { input, .. } => {
            is_null_for(input, nulls)
        }
        Scalar::And(parts) | Scalar::Or(parts) => !parts.is_empty() && parts.iter().all(|p| is_null_for(p, nulls)),
        Scalar::Literal(_) | Scalar::IsNull { .. } | Scalar::Case { .. } | Scalar::Opaque(_) => false,
    }
}

/// Is it FALSE or NULL whenever the columns of `nulls` are NULL?
fn is_not_true_for(scalar: &Scalar, nulls: &dyn Fn(usize) -> bool) -> bool {
    match scalar {
        Scalar::And(parts) => parts.iter().any(|p| is_not_true_for(p, nulls)),
        Scalar::Or(parts) => !parts.is_empty() && parts.iter().all(|p| is_not_true_for(p, nulls)),
        Scalar::IsNull { input, negated } => *negated && is_null_for(input, nulls),
        other => is_null_for(other, nulls),
    }
}

/// The strongest condition over the columns of `allowed` alone that follows from it; `None` if there is none.
pub(super) fn implied(predicate: &Predicate, allowed: &dyn Fn(usize) -> bool) -> Option<Predicate> {
    match predicate {
        Predicate::And(parts) => one_or(parts.iter().filter_map(|p| implied(p, allowed)).collect(), Predicate::And),
        Predicate::Or(parts) => {
            let parts: Option<Vec<Predicate>> = parts.iter().map(|p| implied(p, allowed)).collect();
            one_or(parts?, Predicate::Or)
        }
        leaf => {
            let columns = leaf.columns();
            (!columns.is_empty() && columns.iter().all(|&c| allowed(c)) && !is_delicate(leaf)).then(|| leaf.clone())
        }
    }
}

fn one_or(mut parts: Vec<Predicate>, whole: impl Fn(Vec<Predicate>) -> Predicate) -> Option<Predicate> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(whole(parts)),
    }
}

/// Does it say something about one column alone in terms of values, so that it holds for any column that is equal to
/// it?
pub(super) fn about_one_column(predicate: &Predicate) -> Option<usize> {
    match predicate {
        Predicate::Compare { column, .. } | Predicate::In { column, .. } => Some(*column),
        Predicate::And(parts) | Predicate::Or(parts) => {
            let mut columns = parts.iter().map(about_one_column);
            let first = columns.next()??;
            columns.all(|c| c == Some(first)).then_some(first)
        }
        _ => None,
    }
}

/// Conjuncts as one predicate; `None` for none.
pub(super) fn all_of(mut parts: Vec<Predicate>) -> Option<Predicate> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Predicate::And(parts)),
    }
}

/// The rows that pass conjuncts, in order. One that may fail gets a filter of its own: a part of an AND is also
/// evaluated for rows for which those before it are NULL.
pub(super) fn filter(mut plan: Plan, conjuncts: Vec<Predicate>) -> Plan {
    let mut group = Vec::new();
    let put = |plan: Plan, group: &mut Vec<Predicate>| match all_of(std::mem::take(group)) {
        Some(predicate) => Plan::Filter { input: Box::new(plan), predicate },
        None => plan,
    };
    for conjunct in conjuncts {
        if is_delicate(&conjunct) {
            plan = put(plan, &mut group);
        }
        group.push(conjunct);
    }
    put(plan, &mut group)
}
