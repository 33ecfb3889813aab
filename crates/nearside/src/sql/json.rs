//! JSON as the planner takes it: casts to JSON and JSONB are calls, since both are texts to it; aggregates are
//! functions of the list that `array_agg` gives, so that they have its ORDER BY, FILTER and OVER; functions that give
//! rows are `unnest` of lists.
//!
//! # Limits
//! DISTINCT in an aggregate of JSON, WITH ORDINALITY, and functions that give several columns outside FROM are refused.
//! Those whose rows are described behind AS (`json_to_recordset`) are in [`described`](super::described).

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, TableAlias, TableFactor, TypedString, Values, VisitorMut, visit_expressions_mut,
};
use sqlparser::parser::Parser;

use super::calls::call;
use super::dialect::SqlDialect;
use super::names::quoted;
use super::normalised;
use super::scope::output_name;
use super::walk::rewrite;
use crate::error::codes::SqlState;
use crate::error::instead::advice;
use crate::error::{Error, Result};
use crate::functions::json::paths::{AS_PATH, FOUND};
use crate::functions::json::{AS_JSON, AS_JSONB, ITEM, TYPED};

/// Functions that give rows of one column: their names, what gives the list, the column, and its type.
const COLUMN: [(&str, &str, &str, &str); 7] = [
    ("json_array_elements", "__nearside_json_elements", "value", "json"),
    ("jsonb_array_elements", "__nearside_json_elements", "value", "jsonb"),
    ("json_array_elements_text", "__nearside_json_elements_text", "value", ""),
    ("jsonb_array_elements_text", "__nearside_json_elements_text", "value", ""),
    ("json_object_keys", "__nearside_json_keys", "", ""),
    ("jsonb_object_keys", "__nearside_json_keys", "", ""),
    (PATH_QUERY, FOUND, "", "jsonb"),
];

/// What a path finds, as rows: of more than one argument, unlike the others.
const PATH_QUERY: &str = "jsonb_path_query";

/// Those of keys and values.
const PAIRS: [(&str, &str, &str); 4] = [
    ("json_each", "__nearside_json_values", "json"),
    ("jsonb_each", "__nearside_json_values", "jsonb"),
    ("json_each_text", "__nearside_json_values_text", ""),
    ("jsonb_each_text", "__nearside_json_values_text", ""),
];

/// Aggregates: their names, and what makes one value of a list.
const AGGREGATES: [(&str, &str, bool); 4] = [
    ("json_agg", "__nearside_json_agg", false),
    ("jsonb_agg", "__nearside_jsonb_agg", false),
    ("json_object_agg", "__nearside_json_object_agg", true),
    ("jsonb_object_agg", "__nearside_jsonb_object_agg", true),
];

/// Functions that make JSON of any value.
const OF_VALUES: [&str; 10] = [
    "to_json",
    "to_jsonb",
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
];

/// Writes what is about JSON as the planner takes it.
///
/// # Errors
/// What is refused (see the module).
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Json)
}

struct Json;

impl VisitorMut for Json {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            cast_alike(values);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let names: Vec<Option<String>> = select.projection.iter().map(name_of_item).collect();
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = name_of(expr)
                && names.iter().flatten().filter(|other| **other == name).count() == 1
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
        let mut aliases = Vec::new();
        for factor in select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
        {
            if let Some((name, _)) = function_in_from(factor)
                && COLUMN.iter().any(|(known, _, column, _)| *known == name && !column.is_empty())
            {
                let alias = alias_of(factor).filter(|alias| alias.columns.is_empty()).map(|alias| alias.name.clone());
                aliases.extend(alias.or_else(|| alias_of(factor).is_none().then(|| Ident::new(name))));
            }
        }
        // The name of such a source alone is its value.
        let named = |name: &Ident| {
            aliases.iter().find(|alias| normalised((*alias).clone()) == normalised(name.clone())).cloned()
        };
        if !aliases.is_empty() {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr @ Expr::Identifier(_)) = item
                    && let Expr::Identifier(name) = expr
                    && let Some(alias) = named(name)
                {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            let _ = visit_expressions_mut(select, |expr| {
                if let Expr::Identifier(name) = expr
                    && let Some(alias) = named(name)
                {
                    *expr = Expr::CompoundIdentifier(vec![alias, Ident::new("value")]);
                }
                ControlFlow::<()>::Continue(())
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match in_from(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match in_expression(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Texts and NULLs below or above a cast to JSON or JSONB in rows of values are of its type.
fn cast_alike(values: &mut Values) {
    let of = |expr: &Expr| match expr {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            cast_to(data_type).map(|_| data_type.clone())
        }
        _ => None,
    };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let Some(to) = values.rows.iter().find_map(|row| row.content.get(column).and_then(of)) else { continue };
        for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
            if matches!(value, Expr::Value(_)) {
                let expr = Box::new(value.clone());
                let data_type = to.clone();
                *value = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            }
        }
    }
}

/// The name of an output, as far as it is known here.
fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normalised(alias.clone())),
        SelectItem::UnnamedExpr(expr) => name_of(expr).or_else(|| output_name(expr)),
        _ => None,
    }
}

/// The name of an output that becomes another call.
fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => name_of(inner),
        Expr::Cast { expr: inner, data_type, .. } => {
            let own = cast_to(data_type)?.trim_start_matches("__nearside_").to_string();
            Some(output_name(inner).or_else(|| name_of(inner)).unwrap_or(own))
        }
        Expr::TypedString(TypedString { data_type, .. }) => {
            Some(cast_to(data_type)?.trim_start_matches("__nearside_").to_string())
        }
        Expr::Function(function) => {
            let name = called(&function.name)?;
            let known = COLUMN.iter().map(|row| row.0).chain(AGGREGATES.iter().map(|row| row.0));
            known.into_iter().any(|known| known == name).then_some(name)
        }
        _ => None,
    }
}

/// The function that a cast to a type is written as.
fn cast_to(data_type: &ast::DataType) -> Option<&'static str> {
    match data_type {
        ast::DataType::JSON => Some(AS_JSON),
        ast::DataType::JSONB => Some(AS_JSONB),
        ast::DataType::Custom(name, of) if of.is_empty() && called(name).as_deref() == Some("jsonpath") => {
            Some(AS_PATH)
        }
        _ => None,
    }
}

fn called(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().map(normalised),
        [schema, part] if schema.to_string() == "pg_catalog" => part.as_ident().cloned().map(normalised),
        _ => None,
    }
}

fn in_expression(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Cast { kind, expr: inner, data_type, .. } => {
            let Some(function) = cast_to(data_type) else { return Ok(()) };
            if matches!(kind, CastKind::TryCast | CastKind::SafeCast) {
                let message = "TRY_CAST to JSON is not supported; use CAST, which fails where a text is no JSON";
                return Err(Error::Unsupported(message.into()));
            }
            let inner = std::mem::replace(inner.as_mut(), Expr::Value(ast::Value::Null.into()));
            *expr = call(function, vec![inner]);
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            let Some(function) = cast_to(data_type) else { return Ok(()) };
            *expr = call(function, vec![Expr::Value(value.clone())]);
        }
        Expr::Function(function) => {
            let Some(name) = called(&function.name) else { return Ok(()) };
            if OF_VALUES.contains(&name.as_str()) {
                check_parameters(function)?;
            }
            if let Some((_, list, _, data_type)) = COLUMN.iter().find(|(known, ..)| *known == name) {
                let rows = call("unnest", vec![call(list, arguments(function, &name)?)]);
                *expr = typed(rows, data_type);
            } else if PAIRS.iter().any(|(known, ..)| *known == name) {
                let message = format!("{name}() gives rows of two columns, and can stand in FROM only");
                return Err(Error::Unsupported(message));
            } else if let Some((_, of_list, pairs)) = AGGREGATES.iter().find(|(known, ..)| *known == name) {
                let list = of_rows(function.clone(), &name, *pairs)?;
                *expr = call(of_list, vec![list]);
            } else {
                refuse(&name)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Refuses parameters of which nobody says whether they are texts, which become strings, or JSON: what a client
/// declares as JSON is a text when it arrives.
fn check_parameters(function: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    for arg in &list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) = arg
            && let ast::Value::Placeholder(parameter) = &value.value
        {
            let message = format!(
                "the parameter {parameter} may be a text or JSON; write {parameter}::text, {parameter}::jsonb or the \
                 like"
            );
            return Err(Error::plan(SqlState::IndeterminateDatatype, message));
        }
    }
    Ok(())
}

/// Functions that are not there, by their names.
fn refuse(name: &str) -> Result<()> {
    match name.starts_with("json").then(|| advice(name)).flatten() {
        Some(advice) => Err(Error::Unsupported(format!("{name}() is not supported; {advice}"))),
        None => Ok(()),
    }
}

/// An argument as the type that the function's name says.
fn of_kind(argument: Expr, name: &str) -> Expr {
    match &argument {
        Expr::Value(_) => call(if name.starts_with("jsonb") { AS_JSONB } else { AS_JSON }, vec![argument]),
        _ => argument,
    }
}

fn typed(expr: Expr, data_type: &str) -> Expr {
    match data_type {
        "" => expr,
        name => call(TYPED, vec![expr, Expr::Value(ast::Value::SingleQuotedString(name.into()).into())]),
    }
}

/// The arguments of a call that gives rows.
fn arguments(function: &Function, name: &str) -> Result<Vec<Expr>> {
    match &function.args {
        FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none() => {
            all_arguments(&list.args, name)
        }
        _ => all_arguments(&[], name),
    }
}

/// One argument, or those of what a path finds; the first as the type that the function's name says.
fn all_arguments(args: &[FunctionArg], name: &str) -> Result<Vec<Expr>> {
    if name != PATH_QUERY {
        return Ok(vec![of_kind(one_argument(args, name)?, name)]);
    }
    let each = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg.clone()),
        _ => None,
    });
    match each.collect::<Option<Vec<Expr>>>().filter(|all| (2..=4).contains(&all.len())) {
        Some(mut all) => {
            all[0] = of_kind(all[0].clone(), name);
            Ok(all)
        }
        None => Err(Error::plan(
            SqlState::UndefinedFunction,
            format!("{name}() takes a value of jsonb, a path, and maybe variables and whether faults are forgiven"),
        )),
    }
}

fn one_argument(args: &[FunctionArg], name: &str) -> Result<Expr> {
    match args {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Ok(argument.clone()),
        _ => Err(Error::plan(
            SqlState::UndefinedFunction,
            format!(
                "{name}() takes one argument, a value of {}",
                if name.starts_with("jsonb") { "jsonb" } else { "json" }
            ),
        )),
    }
}

/// `array_agg` of the JSON of each row's values.
fn of_rows(mut function: Function, name: &str, pairs: bool) -> Result<Expr> {
    let wanted = if pairs { 2 } else { 1 };
    let FunctionArguments::List(list) = &mut function.args else { return one_argument(&[], name) };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg.clone()),
        _ => None,
    });
    let args: Option<Vec<Expr>> = args.collect();
    let Some(args) = args.filter(|args| args.len() == wanted) else {
        let message = format!("{name}() takes {wanted} argument{}", if pairs { "s" } else { "" });
        return Err(Error::plan(SqlState::UndefinedFunction, message));
    };
    let part = if pairs { "__nearside_json_pair" } else { ITEM };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call(part, args)))];
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    Ok(Expr::Function(function))
}

/// A function that is called in FROM.
fn function_in_from(factor: &TableFactor) -> Option<(String, &[FunctionArg])> {
    match factor {
        TableFactor::Table { name, args: Some(args), .. } => Some((called(name)?, &args.args)),
        TableFactor::Function { name, args, .. } => Some((called(name)?, args)),
        _ => None,
    }
}

fn alias_of(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// A query in the place of a function in FROM.
fn in_from(factor: &mut TableFactor) -> Result<()> {
    let Some((name, args)) = function_in_from(factor) else { return Ok(()) };
    refuse(&name)?;
    let column = COLUMN.iter().find(|(known, ..)| *known == name);
    let pairs = PAIRS.iter().find(|(known, ..)| *known == name);
    if column.is_none() && pairs.is_none() {
        return Ok(());
    }
    let of = all_arguments(args, &name)?;
    let alias = alias_of(factor).cloned();
    let table = alias.as_ref().map_or_else(|| Ident::new(name.clone()), |alias| alias.name.clone());
    let text = match (column, pairs) {
        (Some((_, list, column, data_type)), _) => {
            let value = typed(call("unnest", vec![call(list, of)]), data_type);
            let column = if column.is_empty() { table.to_string() } else { quoted(column) };
            format!("SELECT {value} AS {column}")
        }
        (_, Some((_, list, data_type))) => {
            let keys = call("unnest", vec![call("__nearside_json_keys", of.clone())]);
            let values = typed(call("unnest", vec![call(list, of)]), data_type);
            format!("SELECT {keys} AS \"key\", {values} AS \"value\"")
        }
        _ => return Ok(()),
    };
    let query = Parser::new(&SqlDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let subquery = query.map_err(datafusion_common::DataFusionError::from)?;
    if !matches!(subquery.body.as_ref(), SetExpr::Select(_)) {
        return Err(Error::Internal("a query of rows of JSON".into()));
    }
    let alias = alias.unwrap_or(TableAlias { explicit: true, name: table, columns: Vec::new(), at: None });
    *factor = TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None };
    Ok(())
}
