//! What the syntax tree holds is done or refused by name: one walk over a parsed statement that knows every field of
//! every node.
//!
//! The SQL planner passes over clauses that it does not know (`FOR UPDATE`, `FILTER` behind a function that is no
//! aggregate, the columns of an index hint, ..), and a statement would do something else than it says. So every node
//! that is let through is taken apart here field by field, without `..`: a parser that learns a clause does not
//! compile until somebody has said here what becomes of it. Kinds of statements, expressions and sources that are not
//! named here are refused. What a field says that changes no answer (spans, brackets, `AS` or no `AS`) is bound to
//! `_` beside its name.
//!
//! One file for each family: `statement` (SET, SHOW, DROP, ..), `create` (tables, views, indexes, schemas), `write`
//! (INSERT, UPDATE, DELETE), `query` (SELECT and what stands in it), `source` (FROM), `expression`, `function`,
//! `types`. A family imports those below it: `types`, `expression`, `function`, `query`, `source`, the lowest first.
//! What a node holds of a higher family it hands to the functions of this file.
//!
//! # Limits
//! Whether an operator or a value's notation is known is for the planner to say: it refuses what it does not know.
//! Without effect on any answer, and let through: the name of a constraint.

use datafusion_common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion_sql::parser::{
    CopyToSource, CopyToStatement, CreateExternalTable, ExplainStatement, ResetStatement, Statement,
};
use sqlparser::ast::{Function, Join, Query, TableWithJoins};

use crate::error::{Error, Result};

mod create;
mod expression;
mod function;
mod query;
mod source;
mod statement;
mod types;
mod write;

pub(super) use create::of_key;
pub(super) use function::is_aggregate;

/// Refuses what the statement says and nobody does.
///
/// # Errors
/// [`Error::Unsupported`] that names the clause.
pub(super) fn check(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Statement(inner) => statement::statement(inner),
        Statement::CreateExternalTable(create) => external(create),
        Statement::CopyTo(copy) => copy_to(copy),
        Statement::Explain(ExplainStatement { options, statement }) => {
            explain(options)?;
            check(statement)
        }
        Statement::Reset(ResetStatement::Variable(_)) => Ok(()),
    }
}

fn copy_to(copy: &CopyToStatement) -> Result<()> {
    // PARTITIONED BY and options are `copy`'s to refuse.
    let CopyToStatement { source, target: _, partitioned_by: _, stored_as: _, options: _ } = copy;
    match source {
        CopyToSource::Relation(_) => Ok(()),
        CopyToSource::Query(inner) => inner_query(inner),
    }
}

fn explain(options: &ExplainStatementOptions) -> Result<()> {
    let ExplainStatementOptions { analyze: _, verbose: _, format, analyze_level, analyze_categories, show_statistics } =
        options;
    refuse(&[
        (
            !matches!(format, None | Some(ExplainFormat::Indent | ExplainFormat::PostgresJSON)),
            "EXPLAIN (FORMAT ..) but for JSON and TEXT; leave it out, the plan comes as rows",
        ),
        (analyze_level.is_some(), "EXPLAIN ANALYZE with a level; leave it out"),
        (analyze_categories.is_some(), "EXPLAIN ANALYZE with categories; leave them out"),
        (show_statistics.is_some(), "EXPLAIN with SHOW_STATISTICS; leave it out"),
    ])
}

fn external(create: &CreateExternalTable) -> Result<()> {
    // `ddl::create_external` says what it takes of these.
    let CreateExternalTable {
        name: _,
        columns,
        file_type: _,
        locations: _,
        table_partition_cols: _,
        order_exprs: _,
        if_not_exists: _,
        or_replace: _,
        temporary,
        unbounded: _,
        options: _,
        constraints: _,
    } = create;
    refuse(&[(*temporary, "CREATE TEMPORARY EXTERNAL TABLE; leave TEMPORARY out and DROP the table in the end")])?;
    columns.iter().try_for_each(create::column)
}

/// A query within an expression or a call.
fn inner_query(of: &Query) -> Result<()> {
    query::query(of)
}

/// A call within an expression.
fn inner_call(of: &Function) -> Result<()> {
    function::function(of)
}

/// What a SELECT reads.
fn read_by(of: &TableWithJoins) -> Result<()> {
    source::with_joins(of)
}

/// What a query is joined with behind `|>`.
fn joined_with(of: &Join) -> Result<()> {
    source::join(of)
}

/// Refuses the first clause that is there. Its text may go on with `; what to do instead`.
fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    clauses.iter().find(|(there, _)| *there).map_or(Ok(()), |(_, clause)| Err(refused(clause)))
}

/// The error for a clause.
fn refused(clause: &str) -> Error {
    match clause.split_once("; ") {
        Some((clause, instead)) => Error::Unsupported(format!("{clause} is not supported; {instead}")),
        None => Error::Unsupported(format!("{clause} is not supported")),
    }
}

/// The error for something that only its text names.
fn refused_text(what: &str, text: &impl std::fmt::Display) -> Error {
    const CHARS_MAX: usize = 80;
    let text = text.to_string();
    let shown: String = text.chars().take(CHARS_MAX).collect();
    let dots = if shown.len() < text.len() { ".." } else { "" };
    Error::Unsupported(format!("{what} is not supported: {shown}{dots}"))
}

#[cfg(test)]
mod tests;
