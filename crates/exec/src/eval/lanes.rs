//! [`Lanes`]: the values of a part of an expression for the rows of a chunk, and the loops over them.
//!
//! Loops are over slices, without a branch or a check per row, so that the compiler can vectorise them; a side that is
//! one value for all rows is never spread out, and a side that nobody else holds is overwritten with the result. NULLs
//! are kept apart and looked at only where a side has some: values are computed for every row, and those of NULL rows
//! mean nothing.

use std::sync::Arc;

use crate::chunk::vector::{Data, Vector};

/// A value of a row.
pub(super) trait Lane: Copy + Default {
    /// The values of a column of this kind.
    fn of(vector: &Vector) -> &[Self];
}

impl Lane for i64 {
    fn of(vector: &Vector) -> &[i64] {
        vector.as_ints()
    }
}

impl Lane for u32 {
    fn of(vector: &Vector) -> &[u32] {
        vector.as_vids()
    }
}

impl Lane for f64 {
    fn of(vector: &Vector) -> &[f64] {
        match &vector.data {
            Data::Float(values) => values,
            _ => unreachable!("the column has no floats"),
        }
    }
}

impl Lane for bool {
    fn of(_: &Vector) -> &[bool] {
        unreachable!("booleans are integers in a column")
    }
}

/// One value per row.
pub(super) enum Values<T> {
    /// The same for every row.
    Const(T),
    /// Those of a column.
    Shared(Arc<Vector>),
    /// Computed.
    Own(Vec<T>),
}

/// One side of a loop.
enum Side<'a, T> {
    One(T),
    Each(&'a [T]),
}

impl<T: Lane> Values<T> {
    fn side(&self) -> Side<'_, T> {
        match self {
            Values::Const(value) => Side::One(*value),
            Values::Shared(vector) => Side::Each(T::of(vector)),
            Values::Own(values) => Side::Each(values),
        }
    }

    /// One value for each of `rows` rows.
    pub(super) fn spread(self, rows: usize) -> Vec<T> {
        match self {
            Values::Const(value) => vec![value; rows],
            Values::Own(values) => values,
            Values::Shared(vector) => T::of(&vector).to_vec(),
        }
    }

    /// `f` of each value.
    #[inline(always)]
    pub(super) fn map<U: Lane>(&self, f: impl Fn(T) -> U) -> Values<U> {
        match self.side() {
            Side::One(value) => Values::Const(f(value)),
            Side::Each(values) => Values::Own(values.iter().map(|&v| f(v)).collect()),
        }
    }

    /// `f` of each value, in its place where nobody else holds it.
    #[inline(always)]
    pub(super) fn update(self, f: impl Fn(T) -> T) -> Values<T> {
        match self {
            Values::Own(mut values) => {
                values.iter_mut().for_each(|v| *v = f(*v));
                Values::Own(values)
            }
            other => other.map(f),
        }
    }

    /// `f` of each pair of values.
    #[inline(always)]
    pub(super) fn zip<U: Lane, O: Lane>(&self, other: &Values<U>, f: impl Fn(T, U) -> O) -> Values<O> {
        match (self.side(), other.side()) {
            (Side::One(a), Side::One(b)) => Values::Const(f(a, b)),
            (Side::One(a), Side::Each(b)) => Values::Own(b.iter().map(|&b| f(a, b)).collect()),
            (Side::Each(a), Side::One(b)) => Values::Own(a.iter().map(|&a| f(a, b)).collect()),
            (Side::Each(a), Side::Each(b)) => Values::Own(a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()),
        }
    }

    /// `f` of each pair of values, in the place of one of them where nobody else holds it.
    #[inline(always)]
    pub(super) fn combine(self, other: Values<T>, f: impl Fn(T, T) -> T) -> Values<T> {
        match (self, other) {
            (Values::Own(mut a), b) => {
                match b.side() {
                    Side::One(b) => a.iter_mut().for_each(|a| *a = f(*a, b)),
                    Side::Each(b) => a.iter_mut().zip(b).for_each(|(a, &b)| *a = f(*a, b)),
                }
                Values::Own(a)
            }
            (a, Values::Own(mut b)) => {
                match a.side() {
                    Side::One(a) => b.iter_mut().for_each(|b| *b = f(a, *b)),
                    Side::Each(a) => b.iter_mut().zip(a).for_each(|(b, &a)| *b = f(a, *b)),
                }
                Values::Own(b)
            }
            (a, b) => a.zip(&b, f),
        }
    }
}

/// Which rows are not NULL.
pub(super) enum Valid {
    /// All.
    Always,
    /// None.
    Never,
    /// Those of a column.
    Shared(Arc<Vector>),
    /// Computed.
    Own(Vec<bool>),
}

impl Valid {
    /// Of a column that is no Arrow array.
    pub(super) fn of(vector: &Arc<Vector>) -> Valid {
        if vector.valid.is_some() { Valid::Shared(vector.clone()) } else { Valid::Always }
    }

    /// One entry per row, where not all or none are valid.
    fn each(&self) -> Option<&[bool]> {
        match self {
            Valid::Always | Valid::Never => None,
            Valid::Shared(vector) => vector.valid.as_deref(),
            Valid::Own(valid) => Some(valid),
        }
    }

    /// As values: true where valid.
    pub(super) fn flags(&self) -> Values<bool> {
        match (self, self.each()) {
            (_, Some(valid)) => Values::Own(valid.to_vec()),
            (Valid::Never, None) => Values::Const(false),
            (_, None) => Values::Const(true),
        }
    }

    /// Of flags that are true where valid.
    pub(super) fn of_flags(flags: Values<bool>) -> Valid {
        match flags {
            Values::Const(true) => Valid::Always,
            Values::Const(false) => Valid::Never,
            Values::Own(valid) => Valid::Own(valid),
            Values::Shared(_) => unreachable!("flags are computed"),
        }
    }

    /// Valid where both are.
    pub(super) fn and(self, other: Valid) -> Valid {
        match (self, other) {
            (Valid::Always, valid) | (valid, Valid::Always) => valid,
            (Valid::Never, _) | (_, Valid::Never) => Valid::Never,
            (a, b) => Valid::of_flags(a.flags().combine(b.flags(), |a, b| a & b)),
        }
    }

    /// As a vector has it.
    pub(super) fn into_rows(self, rows: usize) -> Option<Vec<bool>> {
        match self {
            Valid::Always => None,
            Valid::Never => Some(vec![false; rows]),
            Valid::Own(valid) => Some(valid),
            Valid::Shared(vector) => vector.valid.clone(),
        }
    }
}

/// Values and NULLs.
pub(super) struct Lanes<T> {
    pub(super) values: Values<T>,
    pub(super) valid: Valid,
}

impl<T: Lane> Lanes<T> {
    /// One value for every row.
    pub(super) fn constant(value: T) -> Lanes<T> {
        Lanes { values: Values::Const(value), valid: Valid::Always }
    }

    /// NULL for every row.
    pub(super) fn null() -> Lanes<T> {
        Lanes { values: Values::Const(T::default()), valid: Valid::Never }
    }

    /// A column of this kind.
    pub(super) fn column(vector: Arc<Vector>) -> Lanes<T> {
        Lanes { valid: Valid::of(&vector), values: Values::Shared(vector) }
    }

    /// `f` of both where neither is NULL.
    #[inline(always)]
    pub(super) fn combine(self, other: Lanes<T>, f: impl Fn(T, T) -> T) -> Lanes<T> {
        Lanes { values: self.values.combine(other.values, f), valid: self.valid.and(other.valid) }
    }

    /// `f` of both, of another type, where neither is NULL.
    #[inline(always)]
    pub(super) fn zip<U: Lane, O: Lane>(self, other: Lanes<U>, f: impl Fn(T, U) -> O) -> Lanes<O> {
        Lanes { values: self.values.zip(&other.values, f), valid: self.valid.and(other.valid) }
    }

    /// `f` where it is not NULL.
    #[inline(always)]
    pub(super) fn map<U: Lane>(self, f: impl Fn(T) -> U) -> Lanes<U> {
        Lanes { values: self.values.map(f), valid: self.valid }
    }

    /// This where `chosen`, else the other.
    pub(super) fn or_else(self, chosen: &Values<bool>, other: Lanes<T>) -> Lanes<T> {
        let chosen = match chosen.side() {
            Side::One(true) => return self,
            Side::One(false) => return other,
            Side::Each(chosen) => chosen,
        };
        let valid = match (&self.valid, &other.valid) {
            (Valid::Always, Valid::Always) => Valid::Always,
            (Valid::Never, Valid::Never) => Valid::Never,
            (a, b) => Valid::of_flags(pick(chosen, &a.flags(), b.flags())),
        };
        Lanes { values: pick(chosen, &self.values, other.values), valid }
    }
}

/// `a` where chosen, else `b`; neither side needs a branch.
fn pick<T: Lane>(chosen: &[bool], a: &Values<T>, b: Values<T>) -> Values<T> {
    #[inline(always)]
    fn of<T: Copy>(chosen: bool, a: T, b: T) -> T {
        if chosen { a } else { b }
    }
    Values::Own(match (a.side(), b) {
        (Side::One(a), Values::Own(mut b)) => {
            b.iter_mut().zip(chosen).for_each(|(b, &c)| *b = of(c, a, *b));
            b
        }
        (Side::Each(a), Values::Own(mut b)) => {
            b.iter_mut().zip(chosen).zip(a).for_each(|((b, &c), &a)| *b = of(c, a, *b));
            b
        }
        (a, b) => match (a, b.side()) {
            (Side::One(a), Side::One(b)) => chosen.iter().map(|&c| of(c, a, b)).collect(),
            (Side::One(a), Side::Each(b)) => chosen.iter().zip(b).map(|(&c, &b)| of(c, a, b)).collect(),
            (Side::Each(a), Side::One(b)) => chosen.iter().zip(a).map(|(&c, &a)| of(c, a, b)).collect(),
            (Side::Each(a), Side::Each(b)) => chosen.iter().zip(a).zip(b).map(|((&c, &a), &b)| of(c, a, b)).collect(),
        },
    })
}

impl Lanes<bool> {
    /// True where it is TRUE; NULL is not.
    pub(super) fn truth(self) -> Values<bool> {
        match self.valid {
            Valid::Always => self.values,
            Valid::Never => Values::Const(false),
            valid => self.values.combine(valid.flags(), |value, valid| value & valid),
        }
    }

    /// AND in three-valued logic.
    pub(super) fn and(self, other: Lanes<bool>) -> Lanes<bool> {
        if let (Valid::Always, Valid::Always) = (&self.valid, &other.valid) {
            return self.combine(other, |a, b| a & b);
        }
        // Known where both are known, or one is known to be FALSE.
        let (av, bv) = (self.valid.flags(), other.valid.flags());
        let a_false = self.values.zip(&av, |value, valid| valid & !value);
        let b_false = other.values.zip(&bv, |value, valid| valid & !value);
        let is_false = a_false.combine(b_false, |a, b| a | b);
        let valid = Valid::of_flags(av.combine(bv, |a, b| a & b).zip(&is_false, |known, is_false| known | is_false));
        Lanes { values: is_false.update(|v| !v), valid }
    }

    /// NOT in three-valued logic.
    pub(super) fn not(self) -> Lanes<bool> {
        Lanes { values: self.values.update(|v| !v), valid: self.valid }
    }

    /// OR in three-valued logic.
    pub(super) fn or(self, other: Lanes<bool>) -> Lanes<bool> {
        if let (Valid::Always, Valid::Always) = (&self.valid, &other.valid) {
            return self.combine(other, |a, b| a | b);
        }
        self.not().and(other.not()).not()
    }
}
