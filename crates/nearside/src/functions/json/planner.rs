//! Operators of JSON and subscripts of JSONB, planned as calls of the functions here.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::Placeholder;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion_expr::{Expr, ExprSchemable, GetFieldAccess, cast, lit};
use sqlparser::ast::BinaryOperator;

use super::calls::{
    CONCAT, CONTAINS, ELEMENT, ELEMENT_TEXT, GET, GET_TEXT, HAS, HAS_ALL, HAS_ANY, MEMBER, MEMBER_TEXT, PATH,
    PATH_TEXT, SUBSCRIPT, WITHOUT_ELEMENT, WITHOUT_KEY, WITHOUT_KEYS, WITHOUT_PATH,
};
use super::paths::{FINDS, MATCHES};
use super::{AS_JSONB, Kind, call, kind_of};
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::texts::nested::is_list;

#[derive(Debug)]
struct Operators;

/// The planner of these operators.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Operators)
}

/// Functions that give one of their arguments.
pub(crate) const CHOICES: [&str; 3] = ["coalesce", "nvl", "ifnull"];

/// Functions over rows that give a value as it is.
pub(crate) const HANDED_ON: [&str; 7] =
    ["first_value", "last_value", "nth_value", "any_value", "lag", "lead", "single_value"];

/// The first of several that is one.
fn first_kind<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Kind {
    all.into_iter().map(|expr| kind(expr, schema)).find(|of| *of != Kind::Other).unwrap_or(Kind::Other)
}

/// What an expression is, as far as its schema tells.
pub(crate) fn kind(expr: &Expr, schema: &DFSchema) -> Kind {
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
            first_kind(results, schema)
        }
        Expr::ScalarFunction(function) if CHOICES.contains(&function.name()) => first_kind(&function.args, schema),
        Expr::ScalarFunction(function) if function.name() == "nullif" => first_kind(function.args.first(), schema),
        Expr::AggregateFunction(call) if HANDED_ON.contains(&call.func.name()) => {
            first_kind(call.params.args.first(), schema)
        }
        Expr::WindowFunction(call) if HANDED_ON.contains(&call.fun.name()) => {
            first_kind(call.params.args.first(), schema)
        }
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::ScalarFunction(_)
        | Expr::Placeholder(_) => expr.to_field(schema).map_or(Kind::Other, |(_, field)| kind_of(&field)),
        Expr::Literal(_, Some(metadata)) => kind_of(&metadata.add_to_field(Field::new("", DataType::Utf8View, true))),
        Expr::Alias(alias) => match &alias.metadata {
            Some(metadata) => kind_of(&metadata.add_to_field(Field::new("", DataType::Utf8View, true))),
            None => kind(&alias.expr, schema),
        },
        _ => Kind::Other,
    }
}

/// A text, NULL or parameter whose type nobody has said. A parameter that a client declares as a text, or as JSON,
/// which is a text by then, is read as what it stands beside.
pub(crate) fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, None) => value.is_null() || value.data_type().is_string(),
        Expr::Placeholder(parameter) => parameter.field.as_ref().is_none_or(|field| field.data_type().is_string()),
        _ => false,
    }
}

/// The operand of a type that a parameter has where nobody has said another.
fn of_type(expr: Expr, data_type: &DataType) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Some(Arc::new(Field::new(id.clone(), data_type.clone(), true)));
            Expr::Placeholder(Placeholder { id, field })
        }
        Expr::Literal(value, None) if is_list(data_type) && value.data_type().is_string() => {
            cast(Expr::Literal(value, None), data_type.clone())
        }
        other => other,
    }
}

/// Whether only values of JSON have an operator.
fn is_of_json(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::Arrow
            | B::LongArrow
            | B::HashArrow
            | B::HashLongArrow
            | B::HashMinus
            | B::Question
            | B::QuestionPipe
            | B::QuestionAnd
            | B::AtQuestion
            | B::AtAt
    )
}

fn refused(left: &str, op: &BinaryOperator, right: &str) -> datafusion_common::DataFusionError {
    let message = format!("there is no operator {left} {op} {right}; cast one side");
    Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
}

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let kinds = (kind(&expr.left, schema), kind(&expr.right, schema));
        let (left, right) = match (kinds, &expr.op) {
            // The text or parameter beside JSONB is JSONB where both sides are.
            ((Kind::Jsonb, _), _) | ((_, Kind::Jsonb), B::AtArrow | B::ArrowAt | B::StringConcat) => kinds,
            ((Kind::Json, _), _) => kinds,
            (_, op) if !is_of_json(op) => return Ok(PlannerResult::Original(expr)),
            _ => kinds,
        };
        let RawBinaryExpr { op, left: of, right: by } = expr;
        let text = DataType::Utf8View;
        let texts = DataType::new_list(DataType::Utf8View, true);
        let by_type = by.get_type(schema).unwrap_or(DataType::Null);
        let (is_text, is_int) = (by_type.is_string() && right == Kind::Other, by_type.is_integer());
        let untyped = is_untyped(&by);
        let is_null = matches!(&by, Expr::Literal(value, _) if value.is_null());
        let as_jsonb = |expr: Expr, kind: Kind| match kind {
            Kind::Jsonb => expr,
            _ => call(AS_JSONB, vec![of_type(expr, &DataType::Utf8View)]),
        };
        let name = |expr: &Expr, kind: Kind| match kind {
            Kind::Other => match expr.get_type(schema) {
                _ if is_untyped(expr) => "unknown".to_string(),
                Ok(other) => crate::error::types::sql_type(&other).to_lowercase(),
                Err(_) => "unknown".to_string(),
            },
            kind => kind.name().to_string(),
        };
        if (left, right) == (Kind::Other, Kind::Other) {
            return Err(refused(&name(&of, left), &op, &name(&by, right)));
        }
        let none = || refused(&name(&of, left), &op, &name(&by, right));
        let both = match (left, right) {
            (Kind::Jsonb, Kind::Jsonb) => true,
            (Kind::Jsonb, _) => untyped,
            (_, Kind::Jsonb) => is_untyped(&of),
            _ => false,
        };
        let is_path = (is_list(&by_type) && right == Kind::Other) || untyped;
        let is_key = is_text || untyped;
        let planned = match &op {
            B::Arrow if is_int && !is_null => call(if left == Kind::Jsonb { MEMBER } else { ELEMENT }, vec![of, by]),
            B::LongArrow if is_int && !is_null => {
                call(if left == Kind::Jsonb { MEMBER_TEXT } else { ELEMENT_TEXT }, vec![of, by])
            }
            B::Arrow if is_key => call(GET, vec![of, of_type(by, &text)]),
            B::LongArrow if is_key => call(GET_TEXT, vec![of, of_type(by, &text)]),
            B::HashArrow if is_path => call(PATH, vec![of, of_type(by, &texts)]),
            B::HashLongArrow if is_path => call(PATH_TEXT, vec![of, of_type(by, &texts)]),
            B::AtArrow if both => call(CONTAINS, vec![as_jsonb(of, left), as_jsonb(by, right)]),
            B::ArrowAt if both => call(CONTAINS, vec![as_jsonb(by, right), as_jsonb(of, left)]),
            B::StringConcat if both => call(CONCAT, vec![as_jsonb(of, left), as_jsonb(by, right)]),
            // A text beside it makes a text of both.
            B::StringConcat if right == Kind::Other || left == Kind::Other => {
                let as_text = |expr: Expr, kind: Kind| match kind {
                    Kind::Other => expr,
                    _ => call(super::AS_TEXT, vec![expr]),
                };
                let (left, right) = (as_text(of, left), as_text(by, right));
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
            }
            B::Question if left == Kind::Jsonb && is_key => call(HAS, vec![of, of_type(by, &text)]),
            B::QuestionPipe if left == Kind::Jsonb && is_path => call(HAS_ANY, vec![of, of_type(by, &texts)]),
            B::QuestionAnd if left == Kind::Jsonb && is_path => call(HAS_ALL, vec![of, of_type(by, &texts)]),
            B::HashMinus if left == Kind::Jsonb && is_path => call(WITHOUT_PATH, vec![of, of_type(by, &texts)]),
            B::Minus if left == Kind::Jsonb && is_int && !is_null => call(WITHOUT_ELEMENT, vec![of, by]),
            B::Minus if left == Kind::Jsonb && is_key => call(WITHOUT_KEY, vec![of, of_type(by, &text)]),
            B::Minus if left == Kind::Jsonb && is_path => call(WITHOUT_KEYS, vec![of, by]),
            B::AtQuestion if left == Kind::Jsonb && is_key => call(FINDS, vec![of, of_type(by, &text)]),
            B::AtAt if left == Kind::Jsonb && is_key => call(MATCHES, vec![of, of_type(by, &text)]),
            B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => {
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left: of, right: by }));
            }
            B::And | B::Or => return Ok(PlannerResult::Original(RawBinaryExpr { op, left: of, right: by })),
            _ => return Err(none()),
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        match kind(&expr.expr, schema) {
            Kind::Other => return Ok(PlannerResult::Original(expr)),
            Kind::Json => {
                let message = "cannot subscript type json; use ->, or cast it to JSONB";
                return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
            }
            Kind::Jsonb => {}
        }
        let RawFieldAccessExpr { field_access, expr: of } = expr;
        Ok(PlannerResult::Planned(match field_access {
            GetFieldAccess::NamedStructField { name } => {
                let name = match name {
                    ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)) => lit(name),
                    other => Expr::Literal(other, None),
                };
                subscript(of, name)
            }
            GetFieldAccess::ListIndex { key } => {
                let key_type = key.get_type(schema)?;
                match key.as_ref() {
                    _ if key_type.is_integer() => call(SUBSCRIPT, vec![of, path(cast(*key, DataType::Utf8View))]),
                    _ if key_type.is_string() && kind(&key, schema) == Kind::Other => subscript(of, *key),
                    Expr::Placeholder(_) => subscript(of, of_type(*key, &DataType::Utf8View)),
                    _ => {
                        let message = "a subscript of JSONB is a text or an integer";
                        return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
                    }
                }
            }
            GetFieldAccess::ListRange { .. } => {
                let message = "a range of JSONB is not supported; use jsonb_array_elements() with ORDINALITY";
                return Err(Error::Unsupported(message.into()).into_datafusion());
            }
        }))
    }
}

/// A step of a path, which a text is in arrays too.
fn subscript(of: Expr, key: Expr) -> Expr {
    call(SUBSCRIPT, vec![of, path(key)])
}

fn path(key: Expr) -> Expr {
    datafusion_functions_nested::make_array::make_array_udf().call(vec![key])
}
