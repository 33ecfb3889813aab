//! Defaults of columns: as they are written, and as they are planned.
//!
//! What is kept of a default, in folders and in exported scripts, is its text. It is planned from that text when the
//! table is made, too, so a text that means something else when it is read again is found at once. Times with a zone
//! are written as they are in UTC, since a text without an offset is read in the session's zone; what depends on the
//! zone otherwise is planned again in the zone of the session that made it ([`ColumnDefault::zone`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::{CreateMemoryTable, DdlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{self, ColumnDef, ColumnOption, VisitMut, VisitorMut, visit_expressions};
use sqlparser::parser::Parser;

use crate::catalog::defaults::ColumnDefault;
use crate::catalog::lengths::Length;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::functions::arrays::innermost;
use crate::functions::sequences::bound;
use crate::functions::uuids::UUID;
use crate::plan::context::PlanContext;
use crate::rewrite::assigned::is_assignable;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, SqlDialect, qualify, quoted};

/// What a column's definition says of its default.
pub(crate) fn written(column: &ColumnDef) -> Option<&ast::Expr> {
    column.options.iter().find_map(|option| match &option.option {
        ColumnOption::Default(value) => Some(value),
        _ => None,
    })
}

/// The default of a column; `None` for NULL.
///
/// # Errors
/// Queries, which PostgreSQL has not either; what cannot be read again as it is written; those of planning.
pub(crate) fn default_of(
    value: &ast::Expr,
    field: &Field,
    running: &Arc<RunningStatement>,
) -> Result<Option<ColumnDefault>> {
    let is_query = |expr: &ast::Expr| match expr {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if visit_expressions(value, is_query).is_break() {
        return Err(Error::plan(
            SqlState::FeatureNotSupported,
            format!("column '{}': a query cannot be in a default", field.name()),
        ));
    }
    if matches!(value, ast::Expr::Value(value) if value.value == ast::Value::Null) {
        return Ok(None);
    }
    let mut value = value.clone();
    let path = running.path();
    if !path.is_usual(&running.catalog) {
        qualify(&mut value, &|name| path.meant(name, &running.catalog));
    }
    let mut absolute = Absolute { running, failed: None };
    let is_text = matches!(&value, ast::Expr::Value(text) if matches!(text.value, ast::Value::SingleQuotedString(_)));
    if is_text && matches!(field.data_type(), DataType::Timestamp(_, Some(_))) {
        absolute.put(&mut value);
    } else {
        let _ = value.visit(&mut absolute);
    }
    if let Some(error) = absolute.failed {
        return Err(error);
    }
    let text = value.to_string();
    if !again(&text) {
        return Err(Error::Unsupported(format!(
            "column '{}': the default {text} cannot be kept as it is written; put its parts in brackets",
            field.name()
        )));
    }
    let zone = running.planner.config_options().execution.time_zone.clone();
    let expr = planned(field, &text, &running.own_context())?;
    is_of_type(field, &expr)?;
    if is_text {
        // A text that the type does not have is found now, as PostgreSQL finds it.
        let value = datafusion_expr::cast(expr.clone(), field.data_type().clone()).alias(field.name());
        let plan = LogicalPlanBuilder::empty(true).project([value])?.build()?;
        query::run(plan, Arc::clone(running), true)?.collect_all()?;
    }
    let zone = zone.filter(|_| has_zone(&expr) || matches!(field.data_type(), DataType::Timestamp(_, Some(_))));
    Ok(Some(ColumnDefault { expr, text: text.into(), zone: zone.map(Into::into) }))
}

/// Refuses a default of another type than its column's, which no row could be given; a text as it is written is of any.
///
/// # Errors
/// It is one.
pub(super) fn is_of_type(field: &Field, default: &Expr) -> Result<()> {
    // What has no type yet is told when it is planned.
    let Ok(of) = default.get_type(&DFSchema::empty()) else { return Ok(()) };
    let is_written = matches!(default, Expr::Literal(value, _) if value.try_as_str().is_some());
    if is_written || of == DataType::Null || is_assignable(&of, field.data_type()) {
        return Ok(());
    }
    Err(Error::plan(
        SqlState::DatatypeMismatch,
        format!(
            "column '{}' is of type {} but its default is of type {}; cast it",
            field.name(),
            sql_type(field.data_type()),
            sql_type(&of)
        ),
    ))
}

/// Refuses a default that is written as a text and is no label of its column's enum.
///
/// # Errors
/// It is none.
pub(crate) fn is_label(default: &ColumnDefault, length: Option<&Length>) -> Result<()> {
    let Some(of) = length.and_then(Length::enum_type) else { return Ok(()) };
    let value = match &default.expr {
        Expr::Literal(value, _) => value,
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => value,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    match value.try_as_str().flatten() {
        Some(text) => of.read(text).map(drop),
        None => Ok(()),
    }
}

/// Whether a text that an expression was written as is read as the same one.
pub(super) fn again(text: &str) -> bool {
    let again = Parser::new(&SqlDialect).try_with_sql(text).and_then(|mut parser| {
        let again = parser.parse_expr()?;
        Ok((again, parser.peek_token().token))
    });
    again.is_ok_and(|(again, end)| again.to_string() == text && end == sqlparser::tokenizer::Token::EOF)
}

/// A default as it was kept.
///
/// # Errors
/// A text that is none, a type that SQL has no name for.
pub(crate) fn kept(
    field: &Field,
    (text, zone): (&str, Option<&str>),
    running: &Arc<RunningStatement>,
) -> Result<ColumnDefault> {
    let context = running.own_context();
    let expr = match zone {
        Some(zone) => {
            let planner = running.planner.changed(|options| {
                options.execution.time_zone = Some(zone.into());
                Ok(())
            })?;
            planned(field, text, &PlanContext { planner: &planner, ..context })?
        }
        None => planned(field, text, &context)?,
    };
    Ok(ColumnDefault { expr, text: text.into(), zone: zone.map(Into::into) })
}

/// Plans a default as CREATE TABLE does.
fn planned(field: &Field, text: &str, context: &PlanContext<'_>) -> Result<Expr> {
    let of = sql_type(field.data_type());
    // No cast of Arrow's makes UUIDs of a text.
    let is_of_uuids = *innermost(field.data_type()) == UUID;
    let value = if is_of_uuids && is_text(text) { format!("CAST({text} AS {of})") } else { text.to_string() };
    let column = format!("{} {of} DEFAULT {value}", quoted(field.name()));
    let statement = AnyStatement::one(&format!("CREATE TABLE new_column ({column})")).map_err(|error| match error {
        Error::Syntax { .. } => {
            Error::Unsupported(format!("column '{}' cannot have a default: SQL has no name for its type", field.name()))
        }
        other => other,
    })?;
    match statement.plan(context)? {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(CreateMemoryTable { column_defaults, .. })) => {
            let default = column_defaults.into_iter().next().map(|(_, value)| value);
            default.as_ref().map_or(Ok(()), |default| is_of_no_rows(field, default))?;
            // It outlives the statement, whose session would be asked for values of sequences.
            let default = default.map(|default| bound(&default, None));
            default.ok_or_else(|| Error::Internal(format!("'{text}' is no default value")))
        }
        _ => Err(Error::Internal(format!("'{text}' is no default value"))),
    }
}

/// Refuses what needs other rows than the new one.
fn is_of_no_rows(field: &Field, default: &Expr) -> Result<()> {
    let mut found = None;
    default.apply(|part| {
        found = match part {
            Expr::AggregateFunction(_) => Some((SqlState::Grouping, "an aggregate")),
            Expr::WindowFunction(_) => Some((SqlState::WindowingError, "a window function")),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })?;
    match found {
        Some((code, what)) => {
            Err(Error::plan(code, format!("column '{}': {what} cannot be in a default", field.name())))
        }
        None => Ok(()),
    }
}

/// Whether a default is a text as it is written, and nothing else.
fn is_text(text: &str) -> bool {
    let parsed = Parser::new(&SqlDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    matches!(parsed, Ok(ast::Expr::Value(value)) if matches!(value.value, ast::Value::SingleQuotedString(_)))
}

/// Whether something in it is a time of a zone.
pub(super) fn has_zone(expr: &Expr) -> bool {
    let is_of_zone = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    expr.exists(|part| {
        Ok(match part {
            Expr::Cast(cast) => is_of_zone(cast.field.data_type()),
            Expr::TryCast(cast) => is_of_zone(cast.field.data_type()),
            Expr::Literal(value, _) => is_of_zone(&value.data_type()),
            Expr::ScalarFunction(call) => call.func.signature().volatility == datafusion_expr::Volatility::Stable,
            _ => false,
        })
    })
    .unwrap_or(true)
}

/// Writes times of a zone that are constants as they are in UTC.
struct Absolute<'a> {
    running: &'a Arc<RunningStatement>,
    failed: Option<Error>,
}

impl Absolute<'_> {
    fn put(&mut self, expr: &mut ast::Expr) {
        match self.in_utc(expr) {
            Ok(Some(absolute)) => *expr = absolute,
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    fn in_utc(&self, expr: &ast::Expr) -> Result<Option<ast::Expr>> {
        let sql = format!("SELECT CAST(CAST({expr} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS TEXT)");
        let plan = AnyStatement::one(&sql)?.plan(&self.running.own_context())?;
        let rows = query::run(plan, Arc::clone(self.running), true)?.collect_all()?;
        let text = rows.first().and_then(|batch| {
            let column = arrow::compute::cast(batch.column(0), &DataType::Utf8).ok()?;
            let texts = column.as_string::<i32>();
            (texts.len() == 1 && texts.is_valid(0)).then(|| texts.value(0).to_string())
        });
        let Some(text) = text else { return Ok(None) };
        let sql = format!("TIMESTAMPTZ '{text}+00'");
        let mut parser = Parser::new(&SqlDialect).try_with_sql(&sql).map_err(DataFusionError::from)?;
        Ok(Some(parser.parse_expr().map_err(DataFusionError::from)?))
    }
}

impl VisitorMut for Absolute<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        let is_of_zone = |data_type: &ast::DataType| {
            use ast::TimezoneInfo::{Tz, WithTimeZone};
            matches!(data_type, ast::DataType::Timestamp(_, Tz | WithTimeZone))
        };
        let is_text = |value: &ast::Expr| match value {
            ast::Expr::Value(value) => matches!(value.value, ast::Value::SingleQuotedString(_)),
            _ => false,
        };
        let is_constant = match &*expr {
            ast::Expr::TypedString(typed) => is_of_zone(&typed.data_type),
            ast::Expr::Cast { expr, data_type, .. } => is_of_zone(data_type) && is_text(expr),
            _ => false,
        };
        if is_constant {
            self.put(expr);
        }
        ControlFlow::Continue(())
    }
}
