//! `SUMMARIZE t` and `SUMMARIZE query`, DuckDB's: for each column what it holds, as one query over all columns.

use std::fmt::Write;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_sql::parser::Statement;
use sqlparser::ast;

use crate::error::{Error, Result};
use crate::functions::json::{Kind, kind_of};
use crate::plan::headers;
use crate::rewrite::chars::delivered;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, plan_statement};
use crate::statements::explain::type_name;

/// How the quartiles and the bounds of a column are told.
enum Holds {
    /// A mean too.
    Numbers,
    /// What has an order.
    Ordered,
    Truths,
    /// Nothing but how many values there are.
    Others,
}

/// The query that tells of each column of a query what it holds.
///
/// # Errors
/// Those of planning the query.
pub(crate) fn of_query(query: &Statement, running: &Arc<RunningStatement>) -> Result<Statement> {
    let plan = delivered(plan_statement(query.clone(), &running.plan_context())?, running.planner.config_options())?;
    let schema = headers::named(plan.schema().as_arrow(), &headers::names(&plan));
    let columns: Vec<String> = (1..=schema.fields().len()).map(|place| format!("c{place}")).collect();
    let mut text = format!("WITH summarized ({}) AS MATERIALIZED (SELECT 1)", columns.join(", "));
    let mut lines = Vec::with_capacity(columns.len());
    for (place, (column, field)) in columns.iter().zip(schema.fields()).enumerate() {
        lines.push(line(place, column, field));
    }
    let _ = write!(
        text,
        " SELECT column_name, column_type, min, max, approx_unique, avg, std, q25, q50, q75, count, null_percentage \
         FROM ({}) AS lines (place, column_name, column_type, min, max, approx_unique, avg, std, q25, q50, q75, count, \
         null_percentage) ORDER BY place",
        lines.join(" UNION ALL ")
    );
    let AnyStatement::Sql(mut statement) = AnyStatement::one(&text)? else { return Err(other()) };
    let (Statement::Statement(outer), Statement::Statement(query)) = (statement.as_mut(), query) else {
        return Err(other());
    };
    let (ast::Statement::Query(outer), ast::Statement::Query(query)) = (outer.as_mut(), query.as_ref()) else {
        return Err(other());
    };
    let within = outer.with.as_mut().and_then(|with| with.cte_tables.first_mut()).ok_or_else(other)?;
    within.query.clone_from(query);
    Ok(*statement)
}

fn other() -> Error {
    Error::Internal("a summary is no query".into())
}

/// One row of the answer.
fn line(place: usize, column: &str, field: &Field) -> String {
    let holds = match (kind_of(field), field.data_type()) {
        (Kind::Other, data_type) if data_type.is_numeric() => Holds::Numbers,
        (Kind::Other, DataType::Boolean) => Holds::Truths,
        (Kind::Other, data_type) if data_type.is_temporal() || data_type.is_string() => Holds::Ordered,
        _ => Holds::Others,
    };
    const NONE: &str = "CAST(NULL AS TEXT)";
    let text = |of: String| format!("CAST({of} AS TEXT)");
    let quartile = |share: &str| text(format!("percentile_disc({share}) WITHIN GROUP (ORDER BY {column})"));
    let has_quartiles = matches!(holds, Holds::Numbers) || field.data_type().is_temporal();
    let quartiles = match has_quartiles && !matches!(holds, Holds::Others) {
        true => ["0.25", "0.5", "0.75"].map(quartile),
        false => [(); 3].map(|()| NONE.to_string()),
    };
    let (least, most) = match holds {
        Holds::Numbers | Holds::Ordered => (text(format!("min({column})")), text(format!("max({column})"))),
        Holds::Truths => (text(format!("bool_and({column})")), text(format!("bool_or({column})"))),
        Holds::Others => (NONE.into(), NONE.into()),
    };
    let (mean, deviation) = match holds {
        Holds::Numbers => {
            let number = format!("CAST({column} AS DOUBLE PRECISION)");
            (text(format!("avg({number})")), text(format!("stddev({number})")))
        }
        _ => (NONE.into(), NONE.into()),
    };
    let unique = match holds {
        Holds::Others => "CAST(NULL AS BIGINT)".to_string(),
        _ => {
            // What the sketch does not take is told apart by its text.
            let is_taken = field.data_type().is_integer() || field.data_type().is_string();
            let value = if is_taken { column.to_string() } else { format!("CAST({column} AS TEXT)") };
            format!("CAST(approx_distinct({value}) AS BIGINT)")
        }
    };
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
    let [q25, q50, q75] = quartiles;
    format!(
        "SELECT {place}, {}, {}, {least}, {most}, {unique}, {mean}, {deviation}, {q25}, {q50}, {q75}, count(*), \
         CAST(100 * (count(*) - count({column})) / CAST(nullif(count(*), 0) AS DOUBLE PRECISION) AS DECIMAL(9, 2)) \
         FROM summarized",
        quoted(field.name()),
        quoted(&type_name(field)),
    )
}
