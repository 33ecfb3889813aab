//! What queries of `pg_catalog` are written with, in words of the planner.
//!
//! ```text
//! x::pg_catalog.int4                x::int4
//! a OPERATOR(pg_catalog.~) b        a ~ b
//! x COLLATE "C"                     x                 texts are compared by their bytes
//! 't'::regclass, regtype, ..        a call that gives the number of what has the name, told as of that type
//! oid::regclass::text               a call that gives the name
//! f::regproc                        a call that gives the function's name
//! FROM pg_catalog.unnest(x)         FROM unnest(x)
//! pg_partition_ancestors(x)         unnest of nothing: no table has partitions
//! ```

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Array, ArrayElemTypeDef, BinaryOperator, ColumnOption, DataType, Expr, FunctionArg, FunctionArgExpr, Ident,
    ObjectName, Select, SelectItem, TableFactor, UnaryOperator, VisitorMut,
};
use sqlparser::parser::Parser;

use super::calls::call;
use super::figured::figured;
use super::normalised;
use super::scope::quoted;
use super::text_rows::EXPANDED;
use super::walk::rewrite;
use crate::catalog::{INFORMATION_SCHEMA, PG_CATALOG};
use crate::error::Error;
use crate::error::Result;
use crate::functions::catalog_asked::{NAME_OF, NAMED, NUMBER_OF};
use crate::sql::dialect::SqlDialect;

/// Collations that compare texts by their bytes, as all texts are compared.
const COLLATIONS: [&str; 5] = ["c", "posix", "default", "ucs_basic", "c.utf-8"];

/// Writes types, operators and names of `pg_catalog` without it.
///
/// # Errors
/// None.
pub(super) fn without_schema(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Plain)
}

/// Writes casts to types whose values are names of what there is.
///
/// # Errors
/// None.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Named)
}

struct Plain;

impl VisitorMut for Plain {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        if let ast::Statement::CreateTable(create) = statement {
            for column in &mut create.columns {
                plain_type(&mut column.data_type);
                column.options.retain(
                    |option| !matches!(&option.option, ColumnOption::Collation(collation) if is_by_bytes(collation)),
                );
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        plain_function(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Cast { expr: inner, data_type, .. } => {
                plain_type(data_type);
                if is_first_character(data_type) {
                    let whole = std::mem::replace(inner.as_mut(), null());
                    **inner = first_character(whole);
                }
            }
            Expr::TypedString(typed) => plain_type(&mut typed.data_type),
            Expr::Function(function) if function.name.0.len() == 2 => {
                if let Some(own) = own_name(&function.name).cloned().filter(|own| normalised(own.clone()) == EXPANDED) {
                    function.name = ObjectName::from(vec![own]);
                }
            }
            Expr::Collate { expr: inner, collation } if is_by_bytes(collation) => {
                let inner = std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null));
                *expr = inner;
            }
            Expr::BinaryOp { left, op, right } => {
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let [.., name] = parts.as_slice()
                    && (parts.len() == 1 || parts[0].eq_ignore_ascii_case(PG_CATALOG))
                {
                    match operator(name) {
                        Some(known) => *op = known,
                        None => {
                            let both = [left, right].map(|side| std::mem::replace(side.as_mut(), null()));
                            if let Some(like) = like(name, both) {
                                *expr = like;
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn null() -> Expr {
    Expr::value(ast::Value::Null)
}

/// Whether a type is `"char"`, whose values have one character.
fn is_first_character(data_type: &DataType) -> bool {
    match data_type {
        DataType::Custom(name, _) => {
            own_name(name).is_some_and(|name| name.quote_style.is_some() && name.value == "char")
        }
        _ => false,
    }
}

fn first_character(whole: Expr) -> Expr {
    let length = ast::CharacterLength::IntegerLength { length: 1, unit: None };
    Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(whole),
        data_type: DataType::Varchar(Some(length)),
        array: false,
        format: None,
    }
}

/// Whether texts are compared by their bytes in a collation.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let last = collation.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|name| COLLATIONS.contains(&name.value.to_lowercase().as_str()))
}

/// A name's last part, where it has no other or that of the schema.
fn own_name(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [name] => name.as_ident(),
        [schema, name] => {
            let (schema, name) = (normalised(schema.as_ident()?.clone()), name.as_ident()?);
            let is_expanded = || schema == INFORMATION_SCHEMA && normalised(name.clone()) == EXPANDED;
            (schema == PG_CATALOG || is_expanded()).then_some(name)
        }
        _ => None,
    }
}

/// A type of `pg_catalog` without the schema.
fn plain_type(data_type: &mut DataType) {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _) | ArrayElemTypeDef::AngleBracket(inner)) => {
            plain_type(inner);
        }
        DataType::Custom(name, modifiers) if name.0.len() == 2 => {
            let Some(own) = own_name(name) else { return };
            let modifiers = if modifiers.is_empty() { String::new() } else { format!("({})", modifiers.join(", ")) };
            let text = format!("{own}{modifiers}");
            let parsed = Parser::new(&SqlDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_data_type());
            if let Ok(plain) = parsed {
                *data_type = plain;
            }
        }
        _ => {}
    }
}

/// The operator that a name is of.
fn operator(name: &str) -> Option<BinaryOperator> {
    use BinaryOperator as B;
    Some(match name {
        "=" => B::Eq,
        "<>" | "!=" => B::NotEq,
        "<" => B::Lt,
        "<=" => B::LtEq,
        ">" => B::Gt,
        ">=" => B::GtEq,
        "+" => B::Plus,
        "-" => B::Minus,
        "*" => B::Multiply,
        "/" => B::Divide,
        "%" => B::Modulo,
        "||" => B::StringConcat,
        "~" => B::PGRegexMatch,
        "~*" => B::PGRegexIMatch,
        "!~" => B::PGRegexNotMatch,
        "!~*" => B::PGRegexNotIMatch,
        "@>" => B::AtArrow,
        "<@" => B::ArrowAt,
        "&&" => B::PGOverlap,
        "&" => B::BitwiseAnd,
        "|" => B::BitwiseOr,
        "#" => B::PGBitwiseXor,
        _ => return None,
    })
}

/// The operators that LIKE and its like have.
fn like(name: &str, [left, right]: [Expr; 2]) -> Option<Expr> {
    let (negated, folds) = match name {
        "~~" => (false, false),
        "!~~" => (true, false),
        "~~*" => (false, true),
        "!~~*" => (true, true),
        _ => return None,
    };
    let (expr, pattern) = (Box::new(left), Box::new(right));
    Some(match folds {
        true => Expr::ILike { negated, any: false, expr, pattern, escape_char: None },
        false => Expr::Like { negated, any: false, expr, pattern, escape_char: None },
    })
}

/// A function in FROM without the schema.
fn plain_function(factor: &mut TableFactor) {
    if let TableFactor::Function { name, .. } = factor
        && let Some(own) = own_name(name).cloned()
    {
        *name = ObjectName::from(vec![own]);
    }
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } = factor else { return };
    let Some(own) = own_name(name).cloned() else { return };
    let folded = normalised(own.clone());
    let array_exprs: Vec<Expr> = match folded.as_str() {
        "unnest" => args.args.iter().filter_map(plain_argument).collect(),
        ANCESTORS => vec![no_numbers()],
        _ => {
            *name = ObjectName::from(vec![own]);
            return;
        }
    };
    *factor = TableFactor::UNNEST {
        alias: alias.take(),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    };
}

fn plain_argument(arg: &FunctionArg) -> Option<Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    }
}

/// What gives the tables that one is a partition of.
const ANCESTORS: &str = "pg_partition_ancestors";

/// A list of no number.
fn no_numbers() -> Expr {
    let none = Expr::Array(Array { elem: Vec::new(), named: true });
    let element = Box::new(DataType::Custom(ObjectName::from(vec![Ident::new("oid")]), Vec::new()));
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(none),
        data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(element, None)),
        array: false,
        format: None,
    }
}

struct Named;

impl VisitorMut for Named {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_cast(expr)
            {
                let alias = quoted(&figured(expr));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        // From the outside in: a cast to TEXT around one to such a type asks for the name.
        if let Expr::Cast { expr: inner, data_type, .. } = expr
            && is_text(data_type)
            && let Some((of, value)) = cast_of(inner)
        {
            *expr = match of {
                REGPROC => call(&format!("{NUMBER_OF}{REGPROC}"), vec![value]),
                of => {
                    let number = call(&format!("{NUMBER_OF}{of}"), vec![value]);
                    call(&format!("{NAME_OF}{of}"), vec![number])
                }
            };
        } else if let Some((of, value)) = cast_of(expr) {
            *expr = call(&format!("{NUMBER_OF}{of}"), vec![value]);
        } else if let Expr::Function(function) = expr
            && own_name(&function.name).is_some_and(|name| normalised(name.clone()) == ANCESTORS)
        {
            *expr = call("unnest", vec![no_numbers()]);
        }
        ControlFlow::Continue(())
    }
}

const REGPROC: &str = "regproc";

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None))
}

/// A cast to a type of names, and what is cast.
fn cast_of(expr: &Expr) -> Option<(&'static str, Expr)> {
    let expr = match expr {
        Expr::Nested(inner) => inner.as_ref(),
        expr => expr,
    };
    let (value, data_type) = match expr {
        Expr::Cast { expr: value, data_type, .. } => (value.as_ref().clone(), data_type),
        Expr::TypedString(typed) => (Expr::Value(typed.value.clone()), &typed.data_type),
        _ => return None,
    };
    Some((type_of_names(data_type)?, value))
}

fn type_of_names(data_type: &DataType) -> Option<&'static str> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_string(),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => normalised(own_name(name)?.clone()),
        _ => return None,
    };
    match name.as_str() {
        // Names of functions with what they take are not told apart.
        REGPROC | "regprocedure" => Some(REGPROC),
        name => NAMED.into_iter().find(|known| *known == name),
    }
}

/// Whether an output is such a cast, or one of such a cast.
fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { expr: inner, .. } => cast_of(expr).is_some() || is_cast(inner),
        Expr::Nested(inner) => is_cast(inner),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => is_cast(expr),
        expr => cast_of(expr).is_some(),
    }
}
