//! [`TypedNode`]: a compiled expression of any kind, with its type.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use storage::Dictionary;

use super::interval::Interval;
use super::node::{BoolNode, FloatNode, IntNode, VidNode};

/// A compiled part of an expression.
pub(super) enum Node {
    Int(IntNode, Interval),
    Float(FloatNode),
    Bool(BoolNode),
    /// Vids of a dictionary.
    Vid(VidNode, Arc<Dictionary>),
    /// A constant that has no number: one value that is not NULL.
    Text(ArrayRef),
    /// NULL.
    Null,
    /// A column that is only asked whether it is NULL.
    Column(usize),
}

/// A compiled part and what is known of its result.
pub(super) struct TypedNode {
    pub(super) node: Node,
    pub(super) data_type: DataType,
    pub(super) nullable: bool,
}

impl TypedNode {
    pub(super) fn new(node: Node, data_type: DataType, nullable: bool) -> TypedNode {
        TypedNode { node, data_type, nullable }
    }

    pub(super) fn null(data_type: DataType) -> TypedNode {
        TypedNode { node: Node::Null, data_type, nullable: true }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.node, Node::Null)
    }

    /// As an integer with bounds. An empty interval stands for NULL's.
    pub(super) fn into_int(self) -> Option<(IntNode, Interval)> {
        match self.node {
            Node::Int(node, interval) => Some((node, interval)),
            Node::Bool(node) => Some((IntNode::Bool(Box::new(node)), Interval::of(0, 1))),
            _ => None,
        }
    }

    pub(super) fn into_float(self) -> Option<FloatNode> {
        match self.node {
            Node::Float(node) => Some(node),
            Node::Null => Some(FloatNode::Null),
            _ => None,
        }
    }

    pub(super) fn into_bool(self) -> Option<BoolNode> {
        match self.node {
            Node::Bool(node) => Some(node),
            Node::Null => Some(BoolNode::Const(None)),
            _ => None,
        }
    }
}
