//! From [`Scalar`] trees to compiled ones, once the bounds of the columns are known.
//!
//! Whatever may fail for some row, or whose values may not fit in 64 bits, is not compiled: [`Expression::evaluate`]
//! then stays in charge of the whole expression, so errors are exactly its own. Scales and results of decimals are
//! those of Arrow (the Hive rules; quotients are rounded), as `nearside`'s checked arithmetic has them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, TimeUnit};
use storage::Dictionary;

use super::arithmetic::{arithmetic, negated};
use super::calendar::{DAYS, part_bounds, part_of};
use super::cast::cast;
use super::entries::{Site, is_text};
use super::interval::{Interval, decimal};
use super::lists::{as_entry, int_list, vid_list};
use super::node::{AnyNode, BoolNode, FloatNode, IntNode, Key, Table, VidNode};
use super::over_arrow::ArrowLeaf;
use super::typed::{Node, TypedNode};
use crate::chunk::vector::{ColumnInfo, ColumnKind, integer_bounds, is_integer, type_bounds};
#[cfg(doc)]
use crate::plan::expression::Expression;
use crate::plan::expression::{CompareOp, DatePart, RemappedExpression, Scalar};

/// Most days for which parts of dates are put into a table.
const TABLE_DAYS: i64 = 32_768;

/// Compiles a tree whose column `n` is column `columns[n]` of the chunk.
pub(super) fn compile(scalar: &Scalar, columns: &[usize], site: &Site<'_>) -> Option<TypedNode> {
    let part = |s: &Scalar| compile(s, columns, site);
    match scalar {
        Scalar::Column(column) => Some(of_column(columns[*column], site.infos)),
        Scalar::Literal(value) => literal(value),
        Scalar::Arithmetic { op, left, right, data_type } => arithmetic(*op, part(left)?, part(right)?, data_type),
        Scalar::Negate(input) => negated(part(input)?),
        Scalar::Compare { op, left, right } => compare(*op, part(left)?, part(right)?),
        Scalar::And(parts) => logic(parts, &part, BoolNode::And),
        Scalar::Or(parts) => logic(parts, &part, BoolNode::Or),
        Scalar::Not(input) => {
            let input = part(input)?;
            let nullable = input.nullable;
            Some(boolean(BoolNode::Not(Box::new(input.into_bool()?)), nullable))
        }
        Scalar::IsNull { input, negated } => is_null(part(input)?, *negated),
        Scalar::In { input, values, negated } => in_list(part(input)?, values, *negated),
        Scalar::Case { whens, otherwise, data_type } => {
            let mut compiled = Vec::with_capacity(whens.len());
            for (when, then) in whens {
                compiled.push((part(when)?.into_bool()?, part(then)?));
            }
            let otherwise = match otherwise {
                Some(otherwise) => part(otherwise)?,
                None => TypedNode::null(data_type.clone()),
            };
            case(compiled, otherwise, data_type, site)
        }
        Scalar::Cast { input, data_type } => cast(part(input)?, data_type),
        Scalar::DatePart { part: which, input, data_type } => date_part(*which, part(input)?, data_type),
        Scalar::Opaque(expression) => {
            let expression = RemappedExpression::over(expression.clone(), &|c| columns[c]);
            if let Some(typed) = site.by_entries(&expression) {
                return Some(typed);
            }
            if expression.fallible() || expression.volatile() {
                return None;
            }
            let leaf = || Box::new(ArrowLeaf::new(expression.clone(), site.infos));
            let node = match expression.data_type() {
                DataType::Boolean => Node::Bool(BoolNode::Arrow(leaf())),
                DataType::Float64 => Node::Float(FloatNode::Arrow(leaf())),
                other if is_integer(other) => {
                    let (low, high) = type_bounds(other)?;
                    Node::Int(IntNode::Arrow(leaf()), Interval::of(low, high))
                }
                _ => return None,
            };
            Some(TypedNode::new(node, expression.data_type().clone(), true))
        }
    }
}

/// Does a loop of it stop where a float leaves its range ([`ExecError::FloatRange`](crate::ExecError::FloatRange))?
pub(super) fn leaves_range(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Column(_) | Scalar::Literal(_) | Scalar::Opaque(_) => false,
        Scalar::Arithmetic { left, right, data_type, .. } => {
            *data_type == DataType::Float64 || leaves_range(left) || leaves_range(right)
        }
        Scalar::Compare { left, right, .. } => leaves_range(left) || leaves_range(right),
        Scalar::And(parts) | Scalar::Or(parts) => parts.iter().any(leaves_range),
        Scalar::Negate(input) | Scalar::Not(input) => leaves_range(input),
        Scalar::IsNull { input, .. } | Scalar::In { input, .. } => leaves_range(input),
        Scalar::Cast { input, .. } | Scalar::DatePart { input, .. } => leaves_range(input),
        Scalar::Case { whens, otherwise, .. } => {
            let whens = whens.iter().any(|(when, then)| leaves_range(when) || leaves_range(then));
            whens || otherwise.as_deref().is_some_and(leaves_range)
        }
    }
}

/// A column of the chunk.
pub(super) fn of_column(column: usize, infos: &[ColumnInfo]) -> TypedNode {
    let info = &infos[column];
    let node = match &info.kind {
        ColumnKind::Int { .. } if *info.data_type() == DataType::Boolean => {
            Node::Bool(BoolNode::NotZero(IntNode::Column(column)))
        }
        ColumnKind::Int { low, high } => Node::Int(IntNode::Column(column), Interval::of(*low, *high)),
        ColumnKind::Float => Node::Float(FloatNode::Column(column)),
        ColumnKind::Vid(dictionary) => Node::Vid(VidNode::Column(column), dictionary.clone()),
        ColumnKind::Arrow => Node::Column(column),
    };
    TypedNode::new(node, info.data_type().clone(), info.nullable)
}

/// A constant.
pub(super) fn literal(value: &ArrayRef) -> Option<TypedNode> {
    let data_type = value.data_type().clone();
    if value.len() != 1 {
        return None;
    }
    if value.is_null(0) || data_type == DataType::Null {
        return Some(TypedNode::null(data_type));
    }
    let node = match &data_type {
        DataType::Boolean => Node::Bool(BoolNode::Const(Some(value.as_boolean().value(0)))),
        DataType::Float64 => Node::Float(FloatNode::Const(value.as_primitive::<Float64Type>().value(0))),
        other if is_integer(other) => {
            let (value, _) = integer_bounds(value.as_ref())?;
            Node::Int(IntNode::Const(value), Interval::of(value, value))
        }
        _ => Node::Text(value.clone()),
    };
    Some(TypedNode::new(node, data_type, false))
}

pub(super) fn boolean(node: BoolNode, nullable: bool) -> TypedNode {
    TypedNode::new(Node::Bool(node), DataType::Boolean, nullable)
}

fn logic(
    parts: &[Scalar],
    part: &impl Fn(&Scalar) -> Option<TypedNode>,
    of: impl Fn(Vec<BoolNode>) -> BoolNode,
) -> Option<TypedNode> {
    let parts: Option<Vec<TypedNode>> = parts.iter().map(part).collect();
    let parts = parts?;
    let nullable = parts.iter().any(|p| p.nullable);
    let parts: Option<Vec<BoolNode>> = parts.into_iter().map(TypedNode::into_bool).collect();
    Some(boolean(of(parts?), nullable))
}

fn is_null(input: TypedNode, negated: bool) -> Option<TypedNode> {
    let node = match input.node {
        _ if !input.nullable => BoolNode::Const(Some(negated)),
        Node::Null => BoolNode::Const(Some(!negated)),
        Node::Column(column) | Node::Vid(VidNode::Column(column), _) => {
            BoolNode::IsNull { input: Box::new(AnyNode::Column(column)), negated }
        }
        Node::Int(IntNode::Column(column), _) => BoolNode::IsNull { input: Box::new(AnyNode::Column(column)), negated },
        Node::Int(node, _) => BoolNode::IsNull { input: Box::new(AnyNode::Int(node)), negated },
        Node::Vid(node, _) => BoolNode::IsNull { input: Box::new(AnyNode::Vid(node)), negated },
        Node::Float(node) => BoolNode::IsNull { input: Box::new(AnyNode::Float(node)), negated },
        Node::Bool(node) => BoolNode::IsNull { input: Box::new(AnyNode::Bool(node)), negated },
        Node::Text(_) => return None,
    };
    Some(boolean(node, false))
}

/// Do equal integers mean equal values?
fn same_numbers(a: &DataType, b: &DataType) -> bool {
    match (decimal(a), decimal(b)) {
        (Some((_, a)), Some((_, b))) => a == b,
        (None, None) => a == b || (a.is_integer() && b.is_integer()),
        _ => false,
    }
}

/// The comparison with its sides changed.
fn swapped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::LtEq => CompareOp::GtEq,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::GtEq => CompareOp::LtEq,
        same => same,
    }
}

/// A comparison.
pub(super) fn compare(op: CompareOp, left: TypedNode, right: TypedNode) -> Option<TypedNode> {
    if left.is_null() || right.is_null() {
        return Some(boolean(BoolNode::Const(None), true));
    }
    let nullable = left.nullable || right.nullable;
    let same = same_numbers(&left.data_type, &right.data_type);
    let node = match (left.node, right.node) {
        (Node::Int(a, _), Node::Int(IntNode::Const(b), _)) if same => compare_const(op, a, b),
        (Node::Int(IntNode::Const(a), _), Node::Int(b, _)) if same => compare_const(swapped(op), b, a),
        (Node::Int(a, _), Node::Int(b, _)) if same => BoolNode::CompareInts(op, a, b),
        (Node::Float(a), Node::Float(b)) => BoolNode::CompareFloats(op, a, b),
        (Node::Bool(a), Node::Bool(b)) => {
            BoolNode::CompareInts(op, IntNode::Bool(Box::new(a)), IntNode::Bool(Box::new(b)))
        }
        (Node::Vid(input, dictionary), Node::Text(text)) => compare_vid(op, input, &dictionary, &text)?,
        (Node::Text(text), Node::Vid(input, dictionary)) => compare_vid(swapped(op), input, &dictionary, &text)?,
        (Node::Vid(a, of_a), Node::Vid(b, of_b)) if Arc::ptr_eq(&of_a, &of_b) => BoolNode::CompareVids(op, a, b),
        _ => return None,
    };
    Some(boolean(node, nullable))
}

fn compare_const(op: CompareOp, input: IntNode, value: i64) -> BoolNode {
    let (low, high, negated) = match op {
        CompareOp::Eq => (value, value, false),
        CompareOp::NotEq => (value, value, true),
        CompareOp::LtEq => (i64::MIN, value, false),
        CompareOp::GtEq => (value, i64::MAX, false),
        CompareOp::Gt => value.checked_add(1).map_or((i64::MIN, value, true), |low| (low, i64::MAX, false)),
        CompareOp::Lt => value.checked_sub(1).map_or((value, i64::MAX, true), |high| (i64::MIN, high, false)),
    };
    BoolNode::Between { input, low, high, negated }
}

fn compare_vid(op: CompareOp, input: VidNode, dictionary: &Dictionary, text: &ArrayRef) -> Option<BoolNode> {
    let text = as_entry(text, dictionary)?;
    let (below, up_to) = (dictionary.lower_bound(&text).ok()?, dictionary.upper_bound(&text).ok()?);
    let len = dictionary.len() as u32;
    let (start, end, negated) = match op {
        CompareOp::Eq => (below, up_to, false),
        CompareOp::NotEq => (below, up_to, true),
        CompareOp::Lt => (0, below, false),
        CompareOp::LtEq => (0, up_to, false),
        CompareOp::Gt => (up_to, len, false),
        CompareOp::GtEq => (below, len, false),
    };
    Some(BoolNode::VidRange { input, start, end, negated })
}

/// Membership of a list without NULLs.
pub(super) fn in_list(input: TypedNode, values: &ArrayRef, negated: bool) -> Option<TypedNode> {
    if input.is_null() {
        return Some(boolean(BoolNode::Const(None), true));
    }
    let nullable = input.nullable;
    let node = match input.node {
        Node::Int(node, _) if same_numbers(&input.data_type, values.data_type()) && values.null_count() == 0 => {
            int_list(node, values, negated)?
        }
        Node::Vid(input, dictionary) => vid_list(input, &dictionary, values, negated)?,
        _ => return None,
    };
    Some(boolean(node, nullable))
}

/// CASE; `whens` hold conditions and results.
fn case(
    whens: Vec<(BoolNode, TypedNode)>,
    otherwise: TypedNode,
    data_type: &DataType,
    site: &Site<'_>,
) -> Option<TypedNode> {
    let results = || whens.iter().map(|(_, then)| then).chain([&otherwise]);
    let nullable = results().any(|r| r.nullable);
    let same = |t: &DataType| t == data_type || same_numbers(t, data_type) || (is_text(t) && is_text(data_type));
    if !results().all(|r| r.is_null() || same(&r.data_type)) {
        return None;
    }
    if *data_type == DataType::Float64 {
        let whens: Option<Vec<_>> = whens.into_iter().map(|(when, then)| Some((when, then.into_float()?))).collect();
        return Some(TypedNode::new(
            Node::Float(FloatNode::Case(whens?, Box::new(otherwise.into_float()?))),
            data_type.clone(),
            nullable,
        ));
    }
    if is_text(data_type) {
        return site.strings(whens, otherwise, data_type, nullable);
    }
    let mut hull: Option<Interval> = None;
    let mut of_result = |result: TypedNode| -> Option<IntNode> {
        if result.is_null() {
            return Some(IntNode::Null);
        }
        let (node, interval) = result.into_int()?;
        hull = Some(hull.map_or(interval, |known| known.or(interval)));
        Some(node)
    };
    let whens: Option<Vec<_>> = whens.into_iter().map(|(when, then)| Some((when, of_result(then)?))).collect();
    let node = IntNode::Case(whens?, Box::new(of_result(otherwise)?));
    // Nothing but NULLs needs no case.
    let node = match *data_type {
        DataType::Boolean => Node::Bool(BoolNode::NotZero(node)),
        _ => Node::Int(node, hull?),
    };
    Some(TypedNode::new(node, data_type.clone(), nullable))
}

/// EXTRACT.
fn date_part(part: DatePart, input: TypedNode, data_type: &DataType) -> Option<TypedNode> {
    if *data_type != DataType::Int32 {
        return None;
    }
    if input.is_null() {
        return Some(TypedNode::null(data_type.clone()));
    }
    let per_day = match input.data_type {
        DataType::Date32 => 1,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, None) => 86_400_000,
        DataType::Timestamp(TimeUnit::Second, None) => 86_400,
        DataType::Timestamp(TimeUnit::Microsecond, None) => 86_400_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => 86_400_000_000_000,
        _ => return None,
    };
    let nullable = input.nullable;
    let (node, interval) = input.into_int()?;
    let (low, high) = interval.bounds()?;
    let (low, high) = (low.div_euclid(per_day), high.div_euclid(per_day));
    if low < DAYS.0 || high > DAYS.1 {
        return None;
    }
    let days = if per_day == 1 { node } else { IntNode::Floor(Box::new(node), per_day) };
    let node = if high - low < TABLE_DAYS {
        let results = (low..=high).map(|day| part_of(part, day)).collect();
        IntNode::Table(Table { key: Key::Int(Box::new(days), low), results, valid: None, of_null: None })
    } else {
        IntNode::Part(part, Box::new(days))
    };
    let (low, high) = part_bounds(part, (low, high));
    Some(TypedNode::new(Node::Int(node, Interval::of(low, high)), data_type.clone(), nullable))
}
