//! Compiled expressions: trees of [`IntNode`], [`FloatNode`] and [`BoolNode`] over the columns of a chunk.
//!
//! Invariant: a compiled tree cannot fail on any row (what could was not compiled), so it may be evaluated for rows
//! whose result nobody asks for. Both sides of AND and every branch of CASE are evaluated for all rows, without a
//! branch; and integer arithmetic neither overflows nor is checked. For NULL rows arithmetic runs over values that mean
//! nothing: it wraps.

use std::cell::Cell;
use std::sync::Arc;

use super::calendar::part_of;
use super::interval::nearest_quotient;
use super::lanes::{Lanes, Valid, Values};
use super::over_arrow::{ArrowFilter, ArrowLeaf, ArrowTest};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::plan::expression::{CompareOp, DatePart};

/// Computes integers.
pub(super) enum IntNode {
    /// A column of the chunk.
    Column(usize),
    /// A constant.
    Const(i64),
    /// NULL.
    Null,
    /// Sum.
    Add(Box<IntNode>, Box<IntNode>),
    /// Difference.
    Subtract(Box<IntNode>, Box<IntNode>),
    /// Product.
    Multiply(Box<IntNode>, Box<IntNode>),
    /// Quotient, cut towards zero; the right side is never 0 where it is not NULL.
    Divide(Box<IntNode>, Box<IntNode>),
    /// Quotient, rounded half away from zero; as `Divide`.
    DivideNearest(Box<IntNode>, Box<IntNode>),
    /// `left * factor / right` in 128 bits, rounded half away from zero; as `Divide`.
    DivideWide { left: Box<IntNode>, factor: i128, right: Box<IntNode> },
    /// Remainder with the sign of the left side; as `Divide`.
    Remainder(Box<IntNode>, Box<IntNode>),
    /// Quotient by a positive constant, rounded half away from zero.
    Round(Box<IntNode>, i64),
    /// Quotient by a positive constant, rounded down.
    Floor(Box<IntNode>, i64),
    /// A part of the date of a day.
    Part(DatePart, Box<IntNode>),
    /// The result for each possible value.
    Table(Table<i64>),
    /// 1 where it is TRUE, 0 where it is FALSE.
    Bool(Box<BoolNode>),
    /// What only its owner can evaluate.
    Arrow(Box<ArrowLeaf>),
    /// The first result whose condition is TRUE.
    Case(Vec<(BoolNode, IntNode)>, Box<IntNode>),
}

/// Results by value: entry `value - low`, for vids or for integers of few values.
pub(super) struct Table<T> {
    /// What is looked up.
    pub(super) key: Key,
    /// Results; not empty.
    pub(super) results: Arc<[T]>,
    /// Results that are not NULL, if some are.
    pub(super) valid: Option<Arc<[bool]>>,
    /// The result for NULL; NULL if absent.
    pub(super) of_null: Option<T>,
}

/// What a table is looked up by.
pub(super) enum Key {
    /// A vid.
    Vid(VidNode),
    /// An integer less this.
    Int(Box<IntNode>, i64),
}

/// Computes floats.
pub(super) enum FloatNode {
    /// A column of the chunk.
    Column(usize),
    /// A constant.
    Const(f64),
    /// NULL.
    Null,
    /// Sum.
    Add(Box<FloatNode>, Box<FloatNode>),
    /// Difference.
    Subtract(Box<FloatNode>, Box<FloatNode>),
    /// Product.
    Multiply(Box<FloatNode>, Box<FloatNode>),
    /// Quotient.
    Divide(Box<FloatNode>, Box<FloatNode>),
    /// `-x`.
    Negate(Box<FloatNode>),
    /// An integer divided by a constant.
    Int(Box<IntNode>, f64),
    /// What only its owner can evaluate.
    Arrow(Box<ArrowLeaf>),
    /// The first result whose condition is TRUE.
    Case(Vec<(BoolNode, FloatNode)>, Box<FloatNode>),
}

/// Computes vids of one dictionary.
pub(super) enum VidNode {
    /// A column of the chunk.
    Column(usize),
    /// A constant.
    Const(u32),
    /// NULL.
    Null,
    /// The result for each vid of another dictionary, or for each of a few integers.
    Table(Box<Table<u32>>),
    /// The first result whose condition is TRUE.
    Case(Vec<(BoolNode, VidNode)>, Box<VidNode>),
}

/// Something that may be NULL.
pub(super) enum AnyNode {
    /// A column of any kind.
    Column(usize),
    Int(IntNode),
    Float(FloatNode),
    Vid(VidNode),
    Bool(BoolNode),
}

/// Computes TRUE, FALSE or NULL.
pub(super) enum BoolNode {
    /// A constant; `None` is NULL.
    Const(Option<bool>),
    /// Is an integer (0 or 1) not 0?
    NotZero(IntNode),
    /// Does an integer lie between two bounds, `low <= high`?
    Between { input: IntNode, low: i64, high: i64, negated: bool },
    /// Comparison of two integers.
    CompareInts(CompareOp, IntNode, IntNode),
    /// Comparison of two floats in the order of IEEE 754 totalOrder.
    CompareFloats(CompareOp, FloatNode, FloatNode),
    /// Does a vid lie in `start..end`?
    VidRange { input: VidNode, start: u32, end: u32, negated: bool },
    /// Comparison of two vids of one dictionary.
    CompareVids(CompareOp, VidNode, VidNode),
    /// The result for each possible value.
    Table(Table<bool>),
    /// Is an integer one of these, ascending? For lists whose values lie too far apart for a table.
    Among { input: IntNode, values: Arc<[i64]>, negated: bool },
    /// AND.
    And(Vec<BoolNode>),
    /// OR.
    Or(Vec<BoolNode>),
    /// NOT.
    Not(Box<BoolNode>),
    /// IS NULL.
    IsNull { input: Box<AnyNode>, negated: bool },
    /// What only its owner can evaluate.
    Arrow(Box<ArrowLeaf>),
    /// A leaf of a predicate over Arrow arrays.
    Test(Box<ArrowTest>),
    /// A predicate of parts that may fail; FALSE instead of NULL.
    Filter(Box<ArrowFilter>),
}

impl IntNode {
    /// The values for every row of the chunk.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<i64>, ExecError> {
        use IntNode::*;
        Ok(match self {
            Column(column) => Lanes::column(chunk.column(*column)),
            Const(value) => Lanes::constant(*value),
            Null => Lanes::null(),
            Add(a, b) => a.evaluate(chunk)?.combine(b.evaluate(chunk)?, i64::wrapping_add),
            Subtract(a, b) => a.evaluate(chunk)?.combine(b.evaluate(chunk)?, i64::wrapping_sub),
            Multiply(a, b) => a.evaluate(chunk)?.combine(b.evaluate(chunk)?, i64::wrapping_mul),
            Divide(a, b) => {
                let (a, b) = (a.evaluate(chunk)?, b.evaluate(chunk)?);
                a.combine(b, |a, b| a.wrapping_div(if b == 0 { 1 } else { b }))
            }
            DivideNearest(a, b) => {
                let (a, b) = (a.evaluate(chunk)?, b.evaluate(chunk)?);
                a.combine(b, |a, b| {
                    let b = if b == 0 { 1 } else { b };
                    let rest = a.wrapping_rem(b).unsigned_abs();
                    let further = i64::from(rest >= b.unsigned_abs() - rest);
                    a.wrapping_div(b).wrapping_add(if (a < 0) == (b < 0) { further } else { -further })
                })
            }
            Remainder(a, b) => {
                let (a, b) = (a.evaluate(chunk)?, b.evaluate(chunk)?);
                a.combine(b, |a, b| a.wrapping_rem(if b == 0 { 1 } else { b }))
            }
            DivideWide { left, factor, right } => {
                let (a, b, factor) = (left.evaluate(chunk)?, right.evaluate(chunk)?, *factor);
                a.combine(b, |a, b| {
                    let divisor = if b == 0 { 1 } else { i128::from(b) };
                    nearest_quotient(i128::from(a).wrapping_mul(factor), divisor) as i64
                })
            }
            Round(input, by) => {
                let (by, half) = (*by, *by / 2);
                update(input.evaluate(chunk)?, |v| {
                    let rest = v % by;
                    v / by + i64::from(rest >= half) - i64::from(rest <= -half)
                })
            }
            Floor(input, by) => {
                let by = *by;
                update(input.evaluate(chunk)?, |v| v.div_euclid(by))
            }
            Part(part, input) => {
                let part = *part;
                update(input.evaluate(chunk)?, |day| part_of(part, day))
            }
            Table(table) => table.evaluate(chunk)?,
            Bool(input) => input.evaluate(chunk)?.map(i64::from),
            Arrow(leaf) => leaf.ints(chunk)?,
            Case(whens, otherwise) => case(whens, otherwise.evaluate(chunk)?, chunk, IntNode::evaluate)?,
        })
    }
}

fn update(lanes: Lanes<i64>, f: impl Fn(i64) -> i64) -> Lanes<i64> {
    Lanes { values: lanes.values.update(f), valid: lanes.valid }
}

/// The branches from the last to the first, each in place of what follows where its condition is TRUE.
fn case<N, T: super::lanes::Lane>(
    whens: &[(BoolNode, N)],
    otherwise: Lanes<T>,
    chunk: &mut Chunk,
    evaluate: impl Fn(&N, &mut Chunk) -> Result<Lanes<T>, ExecError>,
) -> Result<Lanes<T>, ExecError> {
    let mut result = otherwise;
    for (when, then) in whens.iter().rev() {
        let chosen = when.evaluate(chunk)?.truth();
        result = evaluate(then, chunk)?.or_else(&chosen, result);
    }
    Ok(result)
}

impl<T: super::lanes::Lane> Table<T> {
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<T>, ExecError> {
        match &self.key {
            Key::Vid(input) => {
                let vids = input.evaluate(chunk)?;
                Ok(self.look_up(vids, |vid| vid as usize))
            }
            Key::Int(input, low) => {
                let (ints, low) = (input.evaluate(chunk)?, *low);
                Ok(self.look_up(ints, |value| value.wrapping_sub(low) as usize))
            }
        }
    }

    /// What stands in a NULL row may lie outside of the table.
    fn look_up<K: super::lanes::Lane>(&self, keys: Lanes<K>, index: impl Fn(K) -> usize) -> Lanes<T> {
        let (results, last) = (&self.results[..], self.results.len() - 1);
        let values = keys.values.map(|key| results[index(key).min(last)]);
        let valid = match &self.valid {
            None => Valid::Always,
            Some(valid) => Valid::of_flags(keys.values.map(|key| valid[index(key).min(last)])),
        };
        match self.of_null {
            None => Lanes { values, valid: keys.valid.and(valid) },
            Some(of_null) => Lanes { values, valid }.or_else(&keys.valid.flags(), Lanes::constant(of_null)),
        }
    }
}

/// `f` of both, which tells for each pair whether its result is out of range.
///
/// # Errors
/// [`ExecError::FloatRange`] where one is, also of a row that is NULL or not asked for.
#[inline(always)]
fn in_range(a: Lanes<f64>, b: Lanes<f64>, f: impl Fn(f64, f64) -> (f64, bool)) -> Result<Lanes<f64>, ExecError> {
    let out = Cell::new(false);
    let results = a.combine(b, |a, b| {
        let (result, is_out) = f(a, b);
        out.set(out.get() | is_out);
        result
    });
    if out.get() { Err(ExecError::FloatRange) } else { Ok(results) }
}

impl FloatNode {
    /// The values for every row of the chunk.
    ///
    /// # Errors
    /// Those of [`in_range`], and of what only its owner can evaluate.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<f64>, ExecError> {
        use FloatNode::*;
        Ok(match self {
            Column(column) => Lanes::column(chunk.column(*column)),
            Const(value) => Lanes::constant(*value),
            Null => Lanes::null(),
            Add(a, b) => in_range(a.evaluate(chunk)?, b.evaluate(chunk)?, |a, b| {
                let sum = a + b;
                (sum, sum.is_infinite() & a.is_finite() & b.is_finite())
            })?,
            Subtract(a, b) => in_range(a.evaluate(chunk)?, b.evaluate(chunk)?, |a, b| {
                let difference = a - b;
                (difference, difference.is_infinite() & a.is_finite() & b.is_finite())
            })?,
            Multiply(a, b) => in_range(a.evaluate(chunk)?, b.evaluate(chunk)?, |a, b| {
                let product = a * b;
                let over = product.is_infinite() & a.is_finite() & b.is_finite();
                (product, over | ((product == 0.0) & (a != 0.0) & (b != 0.0)))
            })?,
            Divide(a, b) => in_range(a.evaluate(chunk)?, b.evaluate(chunk)?, |a, b| {
                let quotient = a / b;
                let under = (quotient == 0.0) & (a != 0.0) & b.is_finite();
                (quotient, (quotient.is_infinite() & a.is_finite()) | under | (b == 0.0))
            })?,
            Negate(input) => input.evaluate(chunk)?.map(|v: f64| -v),
            Int(input, by) if *by == 1.0 => input.evaluate(chunk)?.map(|v| v as f64),
            Int(input, by) => {
                let by = *by;
                input.evaluate(chunk)?.map(|v| v as f64 / by)
            }
            Arrow(leaf) => leaf.floats(chunk)?,
            Case(whens, otherwise) => case(whens, otherwise.evaluate(chunk)?, chunk, FloatNode::evaluate)?,
        })
    }
}

impl VidNode {
    /// The values for every row of the chunk.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<u32>, ExecError> {
        Ok(match self {
            VidNode::Column(column) => Lanes::column(chunk.column(*column)),
            VidNode::Const(vid) => Lanes::constant(*vid),
            VidNode::Null => Lanes::null(),
            VidNode::Table(table) => table.evaluate(chunk)?,
            VidNode::Case(whens, otherwise) => case(whens, otherwise.evaluate(chunk)?, chunk, VidNode::evaluate)?,
        })
    }

    /// As [`BoolNode::cost`].
    fn cost(&self) -> u32 {
        match self {
            VidNode::Column(_) | VidNode::Const(_) | VidNode::Null => 1,
            VidNode::Table(table) => 4 + table.key.cost(),
            VidNode::Case(whens, otherwise) => {
                whens.iter().map(|(when, then)| 2 + when.cost() + then.cost()).sum::<u32>() + otherwise.cost()
            }
        }
    }
}

impl AnyNode {
    /// True for the rows that are not NULL.
    fn valid(&self, chunk: &mut Chunk) -> Result<Values<bool>, ExecError> {
        Ok(match self {
            AnyNode::Column(column) => match (chunk.column(*column), chunk.rows()) {
                (vector, rows) if matches!(vector.data, crate::chunk::vector::Data::Arrow(_)) => {
                    Values::Own((0..rows).map(|row| vector.is_valid(row)).collect())
                }
                (vector, _) => Valid::of(&vector).flags(),
            },
            AnyNode::Int(node) => node.evaluate(chunk)?.valid.flags(),
            AnyNode::Float(node) => node.evaluate(chunk)?.valid.flags(),
            AnyNode::Vid(node) => node.evaluate(chunk)?.valid.flags(),
            AnyNode::Bool(node) => node.evaluate(chunk)?.valid.flags(),
        })
    }
}

impl BoolNode {
    /// The values for every row of the chunk.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<bool>, ExecError> {
        use BoolNode::*;
        Ok(match self {
            Const(None) => Lanes::null(),
            Const(Some(value)) => Lanes::constant(*value),
            NotZero(input) => input.evaluate(chunk)?.map(|v| v != 0),
            Between { input, low, high, negated } => {
                let (low, width, negated) = (*low, high.wrapping_sub(*low) as u64, *negated);
                input.evaluate(chunk)?.map(|v| (v.wrapping_sub(low) as u64 <= width) != negated)
            }
            CompareInts(op, a, b) => compare(*op, a.evaluate(chunk)?, b.evaluate(chunk)?, |a: i64, b| a.cmp(&b)),
            CompareFloats(op, a, b) => {
                // SQL has both zeros equal (adding zero makes minus zero plus zero), and every NaN equal to any other
                // and above all.
                let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
                let order = |a: f64, b: f64| one(a).total_cmp(&one(b));
                compare(*op, a.evaluate(chunk)?, b.evaluate(chunk)?, order)
            }
            VidRange { input, start, end, negated } => {
                let vids = input.evaluate(chunk)?;
                let (start, width, negated) = (*start, end - start, *negated);
                vids.map(|vid| (vid.wrapping_sub(start) < width) != negated)
            }
            CompareVids(op, a, b) => compare(*op, a.evaluate(chunk)?, b.evaluate(chunk)?, |a: u32, b| a.cmp(&b)),
            Table(table) => table.evaluate(chunk)?,
            Among { input, values, negated } => {
                input.evaluate(chunk)?.map(|v| values.binary_search(&v).is_ok() != *negated)
            }
            And(parts) => parts
                .iter()
                .try_fold(Lanes::constant(true), |all, part| Ok::<_, ExecError>(all.and(part.evaluate(chunk)?)))?,
            Or(parts) => parts
                .iter()
                .try_fold(Lanes::constant(false), |any, part| Ok::<_, ExecError>(any.or(part.evaluate(chunk)?)))?,
            Not(input) => input.evaluate(chunk)?.not(),
            IsNull { input, negated } => {
                let (valid, negated) = (input.valid(chunk)?, *negated);
                Lanes { values: valid.update(|valid| valid == negated), valid: Valid::Always }
            }
            Arrow(leaf) => leaf.bools(chunk)?,
            Test(test) => test.evaluate(chunk)?,
            Filter(filter) => filter.evaluate(chunk)?,
        })
    }

    /// What a row costs, about, were an addition 1.
    pub(super) fn cost(&self) -> u32 {
        use BoolNode::*;
        match self {
            Const(_) => 0,
            VidRange { input, .. } => 1 + input.cost(),
            CompareVids(_, a, b) => 1 + a.cost() + b.cost(),
            Table(table) => 4 + table.key.cost(),
            NotZero(input) | Between { input, .. } => 1 + input.cost(),
            CompareInts(_, a, b) => 1 + a.cost() + b.cost(),
            CompareFloats(_, a, b) => 2 + a.cost() + b.cost(),
            Among { input, values, .. } => 4 * (values.len() as u32 + 2).ilog2() + input.cost(),
            And(parts) | Or(parts) => parts.iter().map(|p| 1 + p.cost()).sum(),
            Not(input) => 1 + input.cost(),
            IsNull { input, .. } => match input.as_ref() {
                AnyNode::Column(_) => 1,
                AnyNode::Int(node) => node.cost(),
                AnyNode::Float(node) => node.cost(),
                AnyNode::Vid(node) => node.cost(),
                AnyNode::Bool(node) => node.cost(),
            },
            Arrow(_) | Test(_) | Filter(_) => 200,
        }
    }
}

#[inline(always)]
fn compare<T: super::lanes::Lane>(
    op: CompareOp,
    a: Lanes<T>,
    b: Lanes<T>,
    order: impl Fn(T, T) -> std::cmp::Ordering,
) -> Lanes<bool> {
    match op {
        CompareOp::Eq => a.zip(b, |a, b| order(a, b).is_eq()),
        CompareOp::NotEq => a.zip(b, |a, b| order(a, b).is_ne()),
        CompareOp::Lt => a.zip(b, |a, b| order(a, b).is_lt()),
        CompareOp::LtEq => a.zip(b, |a, b| order(a, b).is_le()),
        CompareOp::Gt => a.zip(b, |a, b| order(a, b).is_gt()),
        CompareOp::GtEq => a.zip(b, |a, b| order(a, b).is_ge()),
    }
}

impl Key {
    fn cost(&self) -> u32 {
        match self {
            Key::Vid(input) => input.cost(),
            Key::Int(input, _) => input.cost(),
        }
    }
}

impl IntNode {
    /// As [`BoolNode::cost`].
    pub(super) fn cost(&self) -> u32 {
        use IntNode::*;
        match self {
            Column(_) | Const(_) | Null => 1,
            Add(a, b) | Subtract(a, b) => 1 + a.cost() + b.cost(),
            Multiply(a, b) => 2 + a.cost() + b.cost(),
            Divide(a, b) | DivideNearest(a, b) | Remainder(a, b) => 15 + a.cost() + b.cost(),
            DivideWide { left, right, .. } => 40 + left.cost() + right.cost(),
            Round(input, _) | Floor(input, _) => 15 + input.cost(),
            Part(_, input) => 20 + input.cost(),
            Table(table) => 4 + table.key.cost(),
            Bool(input) => 1 + input.cost(),
            Arrow(_) => 200,
            Case(whens, otherwise) => {
                whens.iter().map(|(when, then)| 2 + when.cost() + then.cost()).sum::<u32>() + otherwise.cost()
            }
        }
    }
}

impl FloatNode {
    /// As [`BoolNode::cost`].
    pub(super) fn cost(&self) -> u32 {
        use FloatNode::*;
        match self {
            Column(_) | Const(_) | Null => 1,
            Add(a, b) | Subtract(a, b) | Multiply(a, b) => 1 + a.cost() + b.cost(),
            Divide(a, b) => 5 + a.cost() + b.cost(),
            Negate(input) => 1 + input.cost(),
            Int(input, _) => 5 + input.cost(),
            Arrow(_) => 200,
            Case(whens, otherwise) => {
                whens.iter().map(|(when, then)| 2 + when.cost() + then.cost()).sum::<u32>() + otherwise.cost()
            }
        }
    }
}
