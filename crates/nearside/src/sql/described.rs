//! Functions of JSON whose rows are described behind AS: `json_to_record(j) AS x(a INT, b TEXT)` and
//! `json_to_recordset`, as queries that take each field by its name and cast it.
//!
//! # Limits
//! Lists of JSON are no texts of lists, so a column `INT[]` fails when it is cast.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{DataType, Expr, FunctionArg, FunctionArgExpr, SetExpr, TableAlias, TableFactor, VisitorMut};
use sqlparser::parser::Parser;

use super::dialect::SqlDialect;
use super::names::quoted;
use super::normalised;
use super::walk::rewrite;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The functions, and the one that gives the elements of those that take a list.
const FUNCTIONS: [(&str, Option<&str>); 4] = [
    ("json_to_record", None),
    ("jsonb_to_record", None),
    ("json_to_recordset", Some("json_array_elements")),
    ("jsonb_to_recordset", Some("jsonb_array_elements")),
];

/// Writes such calls as queries.
///
/// # Errors
/// Columns that are not described, other arguments than one.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Described)
}

struct Described;

impl VisitorMut for Described {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match query(factor) {
            Ok(Some(query)) => {
                *factor = query;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// What stands in the place of a call, `None` for everything else.
fn query(factor: &TableFactor) -> Result<Option<TableFactor>> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => (name, &args.args, alias),
        TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return Ok(None),
    };
    let Some(name) = name.0.last().and_then(|part| part.as_ident().cloned()).map(normalised) else { return Ok(None) };
    let Some((name, elements)) = FUNCTIONS.into_iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = &args[..] else {
        return Err(Error::plan(SqlState::UndefinedFunction, format!("{name}() takes one argument, a value of JSON")));
    };
    let Some(alias) = alias.as_ref().filter(|alias| !alias.columns.is_empty()) else {
        return Err(Error::syntax(format!(
            "{name}() gives rows whose columns have to be described: FROM {name}(..) AS x(a INT, b TEXT)"
        )));
    };
    let value = match elements {
        Some(_) => "\"of\".\"value\"".to_string(),
        None => of_json(argument, name),
    };
    let mut fields = Vec::with_capacity(alias.columns.len());
    for column in &alias.columns {
        let field = normalised(column.name.clone());
        let Some(data_type) = &column.data_type else {
            return Err(Error::syntax(format!(
                "column \"{field}\" of {name}() has no type; write {field} TEXT or the like"
            )));
        };
        let key = field.replace('\'', "''");
        let part = match data_type {
            DataType::JSON | DataType::JSONB => format!("(({value}) -> '{key}')"),
            other => format!("CAST((({value}) ->> '{key}') AS {other})"),
        };
        // The keys are asked for because what is no object has none, and says so.
        let is_object = format!("cardinality(__nearside_json_keys({value})) >= 0");
        fields.push(format!("CASE WHEN {is_object} THEN {part} END AS {}", quoted(&field)));
    }
    let from = match elements {
        Some(elements) => format!(" FROM {elements}({argument}) AS \"of\""),
        None => String::new(),
    };
    let text = format!("SELECT {}{from}", fields.join(", "));
    let query = Parser::new(&SqlDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let subquery = query.map_err(datafusion_common::DataFusionError::from)?;
    if !matches!(subquery.body.as_ref(), SetExpr::Select(_)) {
        return Err(Error::Internal("a query of records of JSON".into()));
    }
    let alias = TableAlias { columns: Vec::new(), ..alias.clone() };
    Ok(Some(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None }))
}

/// The text of an argument; literals are of the type that the function takes.
fn of_json(argument: &Expr, name: &str) -> String {
    match argument {
        Expr::Value(_) => format!("CAST({argument} AS {})", if name.starts_with("jsonb") { "JSONB" } else { "JSON" }),
        other => other.to_string(),
    }
}
