//! Casts that cannot fail, as Arrow has them.
//!
//! # Limits
//! Numbers, booleans and dates; text is not cast here.

use arrow::datatypes::{DataType, TimeUnit};

use super::arithmetic::scaled;
use super::interval::{Interval, decimal};
use super::node::{BoolNode, FloatNode, IntNode};
use super::typed::{Node, TypedNode};

/// `input` as `to`; `None` where it may fail, or is none of ours.
pub(super) fn cast(input: TypedNode, to: &DataType) -> Option<TypedNode> {
    let (from, nullable) = (input.data_type.clone(), input.nullable);
    if from == *to {
        return Some(input);
    }
    if input.is_null() {
        return Some(TypedNode::null(to.clone()));
    }
    let typed = |node| Some(TypedNode::new(node, to.clone(), nullable));
    if from == DataType::Boolean && to.is_integer() {
        return typed(Node::Int(IntNode::Bool(Box::new(input.into_bool()?)), Interval::of(0, 1)));
    }
    if from.is_integer() && *to == DataType::Boolean {
        return typed(Node::Bool(BoolNode::NotZero(input.into_int()?.0)));
    }
    if *to == DataType::Float64 {
        let Node::Int(node, _) = input.node else { return None };
        let by = match decimal(&from) {
            Some((_, scale)) if (0..=22).contains(&scale) => 10f64.powi(i32::from(scale)),
            None if from.is_integer() => 1.0,
            _ => return None,
        };
        return typed(Node::Float(FloatNode::Int(Box::new(node), by)));
    }
    let Node::Int(node, interval) = input.node else { return None };
    let (node, interval) = match (decimal(&from), decimal(to)) {
        (Some((_, a)), Some((_, b))) if b >= a => scaled((node, interval), i32::from(b) - i32::from(a))?,
        (Some((_, a)), Some((_, b))) => {
            let by = 10i64.checked_pow(u32::try_from(i32::from(a) - i32::from(b)).ok()?)?;
            rounded(node, interval, by)?
        }
        (None, Some((_, b))) if from.is_integer() && b >= 0 => scaled((node, interval), i32::from(b))?,
        (Some((_, a)), None) if to.is_integer() && a >= 0 => {
            let by = 10i64.checked_pow(u32::try_from(a).ok()?)?;
            let by_interval = Interval::of(by, by);
            match by {
                1 => (node, interval),
                _ => (IntNode::Divide(Box::new(node), Box::new(IntNode::Const(by))), interval.over(by_interval)?),
            }
        }
        (None, None) if from.is_integer() && to.is_integer() => (node, interval),
        (None, None) => dates(node, interval, &from, to)?,
        _ => return None,
    };
    if !interval.fits(to) {
        return None;
    }
    typed(Node::Int(node, interval))
}

/// Divided by a power of ten, rounded half away from zero.
fn rounded(node: IntNode, interval: Interval, by: i64) -> Option<(IntNode, Interval)> {
    let of = |value: i128| {
        let (by, half) = (i128::from(by), i128::from(by / 2));
        let rest = value % by;
        value / by + i128::from(rest >= half) - i128::from(rest <= -half)
    };
    let interval = Interval { low: of(interval.low), high: of(interval.high) };
    Some((IntNode::Round(Box::new(node), by), interval))
}

/// Between dates and timestamps without a zone.
fn dates(node: IntNode, interval: Interval, from: &DataType, to: &DataType) -> Option<(IntNode, Interval)> {
    let per_second = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000i64,
    };
    let factor = match (from, to) {
        (DataType::Date32, DataType::Date64) => 86_400_000,
        (DataType::Date32, DataType::Timestamp(unit, None)) => 86_400 * per_second(unit),
        (DataType::Timestamp(a, None), DataType::Timestamp(b, None)) if per_second(b) >= per_second(a) => {
            per_second(b) / per_second(a)
        }
        _ => return None,
    };
    let interval = interval.times(Interval::of(factor, factor))?;
    interval.bounds()?;
    Some((IntNode::Multiply(Box::new(node), Box::new(IntNode::Const(factor))), interval))
}
