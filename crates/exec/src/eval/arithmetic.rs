//! Arithmetic that cannot overflow: which node computes it, and between which bounds. Of floats no bounds are known:
//! what leaves their range is found by the loops.

use arrow::datatypes::DataType;

use super::interval::{Interval, decimal};
use super::node::{FloatNode, IntNode};
use super::typed::{Node, TypedNode};
use crate::plan::expression::ArithmeticOp;

/// `left op right`; `None` where it may fail, other than by the range of floats, or a value may not fit.
pub(super) fn arithmetic(
    op: ArithmeticOp,
    left: TypedNode,
    right: TypedNode,
    data_type: &DataType,
) -> Option<TypedNode> {
    if left.is_null() || right.is_null() {
        return Some(TypedNode::null(data_type.clone()));
    }
    let nullable = left.nullable || right.nullable;
    let node = if *data_type == DataType::Float64 {
        let (left, right) = (Box::new(left.into_float()?), Box::new(right.into_float()?));
        Node::Float(match op {
            ArithmeticOp::Add => FloatNode::Add(left, right),
            ArithmeticOp::Subtract => FloatNode::Subtract(left, right),
            ArithmeticOp::Multiply => FloatNode::Multiply(left, right),
            ArithmeticOp::Divide => FloatNode::Divide(left, right),
            ArithmeticOp::Remainder => return None,
        })
    } else if data_type.is_integer() {
        if left.data_type != *data_type || right.data_type != *data_type {
            return None;
        }
        let (node, interval) = integers(op, left.into_int()?, right.into_int()?)?;
        Node::Int(node, interval)
    } else {
        let scales = [decimal(&left.data_type)?.1, decimal(&right.data_type)?.1, decimal(data_type)?.1];
        let (node, interval) = decimals(op, left.into_int()?, right.into_int()?, scales)?;
        Node::Int(node, interval)
    };
    match &node {
        Node::Int(_, interval) if !interval.fits(data_type) => None,
        _ => Some(TypedNode::new(node, data_type.clone(), nullable)),
    }
}

/// `-x`.
pub(super) fn negated(input: TypedNode) -> Option<TypedNode> {
    let (data_type, nullable) = (input.data_type.clone(), input.nullable);
    let node = match input.node {
        Node::Null => Node::Null,
        Node::Float(node) => Node::Float(FloatNode::Negate(Box::new(node))),
        Node::Int(node, interval) if data_type.is_signed_integer() || decimal(&data_type).is_some() => {
            let interval = Interval::of(0, 0).minus(interval)?;
            if !interval.fits(&data_type) {
                return None;
            }
            Node::Int(IntNode::Subtract(Box::new(IntNode::Const(0)), Box::new(node)), interval)
        }
        _ => return None,
    };
    Some(TypedNode::new(node, data_type, nullable))
}

type Int = (IntNode, Interval);

/// Of one scale.
fn integers(op: ArithmeticOp, (a, ai): Int, (b, bi): Int) -> Option<Int> {
    let interval = match op {
        ArithmeticOp::Add => ai.plus(bi),
        ArithmeticOp::Subtract => ai.minus(bi),
        ArithmeticOp::Multiply => ai.times(bi),
        ArithmeticOp::Divide => ai.over(bi),
        ArithmeticOp::Remainder => ai.modulo(bi),
    }?;
    interval.bounds()?;
    let (a, b) = (Box::new(a), Box::new(b));
    let node = match op {
        ArithmeticOp::Add => IntNode::Add(a, b),
        ArithmeticOp::Subtract => IntNode::Subtract(a, b),
        ArithmeticOp::Multiply => IntNode::Multiply(a, b),
        ArithmeticOp::Divide => IntNode::Divide(a, b),
        ArithmeticOp::Remainder => IntNode::Remainder(a, b),
    };
    Some((node, interval))
}

/// `value * 10^digits`; `None` for a negative number of digits, too.
pub(super) fn scaled((node, interval): Int, digits: i32) -> Option<Int> {
    if digits == 0 {
        return Some((node, interval));
    }
    let factor = 10i64.checked_pow(u32::try_from(digits).ok()?)?;
    let interval = interval.times(Interval::of(factor, factor))?;
    interval.bounds()?;
    let node = match node {
        IntNode::Const(value) => IntNode::Const(value * factor),
        node => IntNode::Multiply(Box::new(node), Box::new(IntNode::Const(factor))),
    };
    Some((node, interval))
}

fn decimals(op: ArithmeticOp, a: Int, b: Int, [of_a, of_b, result]: [i8; 3]) -> Option<Int> {
    let (of_a, of_b, result) = (i32::from(of_a), i32::from(of_b), i32::from(result));
    match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract => {
            integers(op, scaled(a, result - of_a)?, scaled(b, result - of_b)?)
        }
        ArithmeticOp::Multiply if of_a + of_b == result => integers(op, a, b),
        ArithmeticOp::Multiply => None,
        ArithmeticOp::Remainder => {
            let common = of_a.max(of_b);
            if common != result {
                return None;
            }
            integers(op, scaled(a, common - of_a)?, scaled(b, common - of_b)?)
        }
        ArithmeticOp::Divide => {
            let shift = result - of_a + of_b;
            let factor = 10i128.checked_pow(u32::try_from(shift).ok()?)?;
            let (left, ai) = a;
            let (right, bi) = b;
            let dividend = ai.times(Interval { low: factor, high: factor })?;
            let interval = dividend.over_nearest(bi)?;
            interval.bounds()?;
            if dividend.bounds().is_some() {
                let (left, _) = scaled((left, ai), shift)?;
                return Some((IntNode::DivideNearest(Box::new(left), Box::new(right)), interval));
            }
            Some((IntNode::DivideWide { left: Box::new(left), factor, right: Box::new(right) }, interval))
        }
    }
}
