//! What PostgreSQL calls an output that has no name by AS, from how it is written.
//!
//! ```text
//! i, t.i, i::INT   i             sum(i), count(*)   sum, count        CASE .. END     case, or what ELSE is called
//! i + 1, 'x'       ?column?      '5'::INT, DATE ''  int4, date        EXISTS (..)     exists
//! ```
//! `plan::headers` says the same of a planned query.

use sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Function, Query, SelectItem, SetExpr, Subscript, TimezoneInfo,
    TrimWhereField, Value,
};

use super::values::is_real;
use super::{is_made, normalised};

/// What nobody has named.
pub(super) const UNNAMED: &str = "?column?";

/// How much a name says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Figure {
    /// A column's name, or a function's.
    Own(String),
    /// That of the kind of expression, unless something within has one.
    Kind(String),
    None,
}

/// The name of an output.
pub(super) fn figured(expr: &Expr) -> String {
    match figure(expr) {
        Figure::Own(name) | Figure::Kind(name) => name,
        Figure::None => UNNAMED.into(),
    }
}

/// Whether an output has a name of its own: that of a column, of which the planner makes the same.
pub(super) fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) => true,
        Expr::CompoundIdentifier(names) => names.len() <= 2,
        _ => false,
    }
}

fn own(name: &str) -> Figure {
    Figure::Own(name.into())
}

fn kind(name: &str) -> Figure {
    Figure::Kind(name.into())
}

fn figure(expr: &Expr) -> Figure {
    match expr {
        Expr::Identifier(name) => Figure::Own(normalised(name.clone())),
        Expr::CompoundIdentifier(names) => {
            names.last().map_or(Figure::None, |name| Figure::Own(normalised(name.clone())))
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(normalised(name.clone())),
                AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) => match &value.value {
                    Value::SingleQuotedString(name) => Some(name.clone()),
                    _ => None,
                },
                _ => None,
            });
            field.map_or_else(|| figure(root), Figure::Own)
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Named { name, .. } => Figure::Own(normalised(name.clone())),
        Expr::Cast { expr: inner, data_type, .. } => of_cast(figure(inner), data_type),
        Expr::TypedString(typed) => Figure::Kind(type_word(&typed.data_type)),
        Expr::Interval(_) => kind("interval"),
        Expr::Function(call) => of_call(call),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(figure) {
            Some(Figure::Own(name)) => Figure::Own(name),
            _ => kind("case"),
        },
        Expr::Array(_) => own("array"),
        Expr::Tuple(_) | Expr::Struct { .. } => own("row"),
        Expr::Exists { negated: false, .. } => own("exists"),
        Expr::Subquery(query) => of_query(query).map_or(Figure::None, Figure::Own),
        Expr::AtTimeZone { .. } => own("timezone"),
        Expr::Extract { .. } => own("extract"),
        Expr::Ceil { .. } => own("ceil"),
        Expr::Floor { .. } => own("floor"),
        Expr::Position { .. } => own("position"),
        Expr::Substring { shorthand, .. } => own(if *shorthand { "substr" } else { "substring" }),
        Expr::Overlay { .. } => own("overlay"),
        Expr::Trim { trim_where, .. } => own(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        _ => Figure::None,
    }
}

fn of_call(call: &Function) -> Figure {
    let Some(name) = call.name.0.last().and_then(|part| part.as_ident()) else { return Figure::None };
    let name = normalised(name.clone());
    if !is_made(&name) {
        return Figure::Own(name);
    }
    // One of ours around what was written.
    let sqlparser::ast::FunctionArguments::List(list) = &call.args else { return Figure::None };
    match list.args.first() {
        Some(sqlparser::ast::FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(inner))) => figure(inner),
        _ => Figure::None,
    }
}

fn of_cast(inner: Figure, data_type: &DataType) -> Figure {
    match inner {
        Figure::Own(name) => Figure::Own(name),
        Figure::Kind(_) | Figure::None => Figure::Kind(type_word(data_type)),
    }
}

/// The name of a query's first output, where it is told without its tables.
fn of_query(query: &Query) -> Option<String> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::Query(inner) => &inner.body,
            SetExpr::SetOperation { left, .. } => left,
            SetExpr::Values(_) => return Some("column1".into()),
            SetExpr::Select(select) => {
                return match select.projection.first()? {
                    SelectItem::UnnamedExpr(expr) => Some(figured(expr)),
                    SelectItem::ExprWithAlias { alias, .. } => Some(normalised(alias.clone())),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
}

/// PostgreSQL's short name of a type.
fn type_word(data_type: &DataType) -> String {
    use DataType as T;
    let word = match data_type {
        T::Boolean | T::Bool => "bool",
        T::SmallInt(_) | T::Int2(_) | T::Int16 => "int2",
        T::Int(_) | T::Integer(_) | T::Int4(_) | T::Int32 => "int4",
        T::BigInt(_) | T::Int8(_) | T::Int64 => "int8",
        real if is_real(real) => "float4",
        T::Double(_) | T::DoublePrecision | T::Float8 | T::Float64 | T::Float(_) => "float8",
        T::Numeric(_) | T::Decimal(_) | T::Dec(_) => "numeric",
        T::Varchar(_) | T::CharacterVarying(_) | T::CharVarying(_) => "varchar",
        T::Char(_) | T::Character(_) => "bpchar",
        T::Text | T::String(_) => "text",
        T::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timestamptz",
        T::Timestamp(..) => "timestamp",
        T::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => "timetz",
        T::Time(..) => "time",
        T::Interval { .. } => "interval",
        T::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => return type_word(inner),
        other => {
            let text = other.to_string().to_lowercase();
            return text.split('(').next().unwrap_or_default().trim().replace(' ', "_");
        }
    };
    word.into()
}

#[cfg(test)]
mod tests {
    use super::super::parsed;
    use super::*;

    fn name(expr: &str) -> String {
        of_query(&parsed::query(&format!("SELECT {expr} FROM t")).unwrap()).unwrap()
    }

    #[test]
    fn outputs_are_named_as_postgresql_names_them() {
        for (expr, wanted) in [
            ("a", "a"),
            ("t.\"B\"", "B"),
            ("(a)::int", "a"),
            ("a + 1", UNNAMED),
            ("'5'::int", "int4"),
            ("'5'::varchar(3)", "varchar"),
            ("DATE '2024-01-31'", "date"),
            ("INTERVAL '1 day'", "interval"),
            ("true", UNNAMED),
            ("Max(a)", "max"),
            ("count(*) OVER ()", "count"),
            ("pg_catalog.abs(a)", "abs"),
            ("CASE WHEN a THEN b ELSE c END", "c"),
            ("CASE WHEN a THEN b ELSE 1 END", "case"),
            ("(CASE WHEN a THEN b END)::text", "text"),
            ("ARRAY[1]", "array"),
            ("ROW(1, 2)", "row"),
            ("EXISTS (SELECT 1)", "exists"),
            ("NOT EXISTS (SELECT 1)", UNNAMED),
            ("(SELECT max(b) FROM u)", "max"),
            ("(SELECT b + 1 FROM u)", UNNAMED),
            ("trim(a)", "btrim"),
            ("extract(year FROM a)", "extract"),
            ("a[1]", "a"),
            ("a IS NULL", UNNAMED),
            ("-a", UNNAMED),
        ] {
            assert_eq!(name(expr), wanted, "{expr}");
        }
    }
}
