//! Conditions: comparisons with literals, lists and NULL tests become structured [`Predicate`]s, the rest is a
//! [`PhysicalExpression`].

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Column, DFSchema, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{BinaryExpr, Expr, Operator};
use exec::{CompareOp, Predicate};

use super::{PhysicalExpression, Props};
use crate::error::Result;
use crate::functions::floats::with_one_nan;
use crate::lower::structure::comparison;

/// A filter as `exec` understands it.
pub(super) fn predicate(expr: &Expr, schema: &DFSchema, props: &Props) -> Result<Predicate> {
    let structured = match expr {
        Expr::Alias(alias) => return predicate(&alias.expr, schema, props),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            return Ok(Predicate::And(vec![predicate(left, schema, props)?, predicate(right, schema, props)?]));
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            return Ok(Predicate::Or(vec![predicate(left, schema, props)?, predicate(right, schema, props)?]));
        }
        Expr::Not(inner) => return Ok(Predicate::Not(Box::new(predicate(inner, schema, props)?))),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compare(left, *op, right, schema, props)?,
        Expr::Between(between) => {
            let low = compare(&between.expr, Operator::GtEq, &between.low, schema, props)?;
            let high = compare(&between.expr, Operator::LtEq, &between.high, schema, props)?;
            match (low, high, between.negated) {
                (Some(low), Some(high), false) => Some(Predicate::And(vec![low, high])),
                (Some(low), Some(high), true) => Some(Predicate::Not(Box::new(Predicate::And(vec![low, high])))),
                _ => None,
            }
        }
        Expr::InList(list) => in_list(list, schema)?,
        Expr::IsNull(inner) => null_test(inner, false, schema)?,
        Expr::IsNotNull(inner) => null_test(inner, true, schema)?,
        _ => None,
    };
    match structured {
        Some(predicate) => Ok(predicate),
        None => Ok(Predicate::Boolean(Arc::new(PhysicalExpression::new(expr, schema, props)?))),
    }
}

/// A comparison of a column with a literal, or with a parameter that has a value.
fn compare(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema, props: &Props) -> Result<Option<Predicate>> {
    let (column, literal, op) = match (left, right) {
        (Expr::Column(c), value) => (c, value, Some(op)),
        (value, Expr::Column(c)) => (c, value, op.swap()),
        _ => return Ok(None),
    };
    let Some(op) = op.and_then(comparison) else { return Ok(None) };
    let literal = match literal {
        Expr::Literal(value, _) => value,
        Expr::Placeholder(parameter) => {
            let Some((column, field)) = comparable(column, schema)? else { return Ok(None) };
            let value = props.value_of(parameter, field.data_type());
            return Ok(value.map(|value| Predicate::Compare { column, op, value }));
        }
        _ => return Ok(None),
    };
    let Some((column, field)) = comparable(column, schema)? else { return Ok(None) };
    let Some(literal) = same_type(literal, field.data_type()) else { return Ok(None) };
    match zeros(&literal) {
        Some([minus, plus]) => compare_zero(column, op, &minus, &plus).map(Some),
        None => Ok(literal_array(&literal).map(|value| Predicate::Compare { column, op, value: value.into() })),
    }
}

/// Both zeros, when the literal is one of them: SQL has them equal, and dictionaries keep every bit pattern apart.
fn zeros(literal: &ScalarValue) -> Option<[ScalarValue; 2]> {
    match literal {
        ScalarValue::Float64(Some(0.0)) => Some([ScalarValue::from(-0.0_f64), ScalarValue::from(0.0_f64)]),
        ScalarValue::Float32(Some(0.0)) => Some([ScalarValue::from(-0.0_f32), ScalarValue::from(0.0_f32)]),
        _ => None,
    }
}

/// A comparison with zero: minus zero is the lesser of the two in the order of dictionaries.
fn compare_zero(column: usize, op: CompareOp, minus: &ScalarValue, plus: &ScalarValue) -> Result<Predicate> {
    let bound = match op {
        CompareOp::Eq | CompareOp::NotEq => {
            let values = ScalarValue::iter_to_array([minus.clone(), plus.clone()])?;
            return Ok(Predicate::In { column, values, negated: op == CompareOp::NotEq });
        }
        CompareOp::Lt | CompareOp::GtEq => minus,
        CompareOp::LtEq | CompareOp::Gt => plus,
    };
    Ok(Predicate::Compare { column, op, value: bound.to_array()?.into() })
}

fn in_list(list: &InList, schema: &DFSchema) -> Result<Option<Predicate>> {
    let Expr::Column(column) = list.expr.as_ref() else { return Ok(None) };
    let Some((column, field)) = comparable(column, schema)? else { return Ok(None) };
    let mut values = Vec::with_capacity(list.list.len());
    for item in &list.list {
        let Expr::Literal(value, _) = item else { return Ok(None) };
        match same_type(value, field.data_type()) {
            Some(value) if !value.is_null() => match zeros(&value) {
                Some(both) => values.extend(both),
                None => values.push(value),
            },
            _ => return Ok(None),
        }
    }
    if values.is_empty() {
        return Ok(None);
    }
    let values = ScalarValue::iter_to_array(values)?;
    Ok(Some(Predicate::In { column, values, negated: list.negated }))
}

fn null_test(expr: &Expr, negated: bool, schema: &DFSchema) -> Result<Option<Predicate>> {
    match expr {
        Expr::Column(c) => Ok(Some(Predicate::IsNull { column: schema.index_of_column(c)?, negated })),
        _ => Ok(None),
    }
}

/// The column's place and field, if comparisons with it can be structured.
pub(super) fn comparable<'a>(column: &Column, schema: &'a DFSchema) -> Result<Option<(usize, &'a Arc<Field>)>> {
    let index = schema.index_of_column(column)?;
    let field = &schema.fields()[index];
    let simple = field.data_type().is_primitive()
        || matches!(field.data_type(), DataType::Boolean | DataType::Utf8View | DataType::BinaryView);
    Ok((simple && !matches!(field.data_type(), DataType::Interval(_))).then_some((index, field)))
}

/// The literal as an array, unless it is NULL.
fn literal_array(value: &ScalarValue) -> Option<ArrayRef> {
    if value.is_null() {
        return None;
    }
    value.to_array().ok()
}

/// The literal in the column's type, where that is only another way to hold the same value.
fn same_type(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    if value.data_type() == *data_type {
        // Dictionaries keep one NaN, and order values by their bits: one with a sign would be below all of them.
        return Some(with_one_nan(value.clone()));
    }
    match (value, data_type) {
        (ScalarValue::Utf8(s) | ScalarValue::LargeUtf8(s), DataType::Utf8View) => {
            Some(ScalarValue::Utf8View(s.clone()))
        }
        (ScalarValue::Binary(s) | ScalarValue::LargeBinary(s), DataType::BinaryView) => {
            Some(ScalarValue::BinaryView(s.clone()))
        }
        _ => None,
    }
}
