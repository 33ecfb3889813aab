//! What a table says of each row by itself: planned from its text, as a column that is computed or as a condition.
//!
//! As with defaults, what is kept is the text, and it is planned from that when it is made, too. It is planned as the
//! one output of a query of a table with the row's columns, then compiled as the expressions of kept writes are.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Volatility};
use sqlparser::ast::{self, VisitMut, VisitorMut, visit_expressions};

use crate::catalog::lengths::told;
use crate::catalog::rules::{Check, OverRows, RowExpression, RowRules};
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::rewrite::assigned::is_assignable;
use crate::run::query;
use crate::run::sequences::as_needed;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, KnownTables, WrittenCheck, WrittenRules, normalised, quoted};
use crate::statements::compiled::{Compiled, RowSchema};
use crate::statements::defaults::{again, has_zone};
use crate::statements::over::over;
use crate::statements::written;
use crate::tables::sources::GivenSource;

/// An expression that is evaluated over the columns that it reads.
#[derive(Debug)]
struct Evaluated(Compiled);

impl OverRows for Evaluated {
    fn of(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.over(columns, rows)
    }
}

/// Puts what a statement says of a table's rows into a table that has its columns.
///
/// # Errors
/// What cannot be evaluated for a row by itself; names that are taken; those of planning.
pub(crate) fn put(table: &mut TableEntry, of: &WrittenRules, running: &Arc<RunningStatement>) -> Result<()> {
    let mut rules = RowRules::clone(&table.rules);
    for (column, expression) in &of.generated {
        let schema = Arc::clone(&table.base.schema);
        let field = schema.field_with_name(column)?;
        if let Some(other) = columns_of(expression, &table.base.schema).into_iter().find(|read| {
            read == column || of.generated.iter().any(|(of, _)| of == read) || rules.generated.contains_key(read)
        }) {
            return Err(Error::plan(
                SqlState::InvalidObjectDefinition,
                format!("column '{column}' cannot be computed of column '{other}', which is computed itself"),
            ));
        }
        let text = text_of(expression, table)?;
        let expression = planned(table, (&text, None), Some(field), running)?;
        rules.generated.insert(column.clone(), expression);
    }
    for (column, domain) in &of.domains {
        rules.domains.insert(column.clone(), Arc::new(running.catalog.rules_of_domain(domain)));
    }
    table.rules = Arc::new(rules);
    of.checks.iter().try_for_each(|check| add_check(table, check, running))
}

/// Adds a condition to a table; whether its rows keep it is not looked at.
///
/// # Errors
/// As [`put`].
pub(crate) fn add_check(table: &mut TableEntry, check: &WrittenCheck, running: &Arc<RunningStatement>) -> Result<()> {
    let text = text_of(&check.condition, table)?;
    let condition = planned(table, (&text, None), None, running)?;
    let name = match &check.name {
        Some(name) => {
            is_free(table, name)?;
            name.clone()
        }
        None => free_name(
            table,
            check.column.as_deref().or(match &condition.columns[..] {
                [one] => Some(one.as_str()),
                _ => None,
            }),
        ),
    };
    Arc::make_mut(&mut table.rules).add(Check { name, condition, is_valid: check.is_valid });
    Ok(())
}

/// Refuses a name that another constraint of the table has.
pub(crate) fn is_free(table: &TableEntry, name: &str) -> Result<()> {
    match constraint_names(table).any(|taken| taken == name) {
        true => Err(Error::plan(
            SqlState::DuplicateObject,
            format!("table '{}' has a constraint '{name}' already; give it another name", table.name.shown()),
        )),
        false => Ok(()),
    }
}

/// The names of a table's keys and conditions.
pub(crate) fn constraint_names(table: &TableEntry) -> impl Iterator<Item = &str> {
    let keys = table.indexes.iter().filter(|index| index.is_key()).map(|index| index.name.as_str());
    let checks = table.rules.checks.iter().map(|check| check.name.as_str());
    keys.chain(checks).chain(table.rules.foreign_keys.iter().map(|key| key.name.as_str()))
}

/// A name for a condition that nobody named: of its table and, where it is about one, of its column.
fn free_name(table: &TableEntry, column: Option<&str>) -> String {
    let usual = match column {
        Some(column) => format!("{}_{column}_check", table.name.table),
        None => format!("{}_check", table.name.table),
    };
    let numbered = (1_u64..).map(|n| format!("{usual}{n}"));
    let mut names = std::iter::once(usual.clone()).chain(numbered);
    names.find(|name| is_free(table, name).is_ok()).unwrap_or(usual)
}

/// A condition as it was kept.
///
/// # Errors
/// A text that is none.
pub(crate) fn kept(
    table: &TableEntry,
    text: (&str, Option<&str>),
    running: &Arc<RunningStatement>,
) -> Result<RowExpression> {
    planned(table, text, None, running)
}

/// What a column is computed by, as it was kept.
///
/// # Errors
/// A text that is none.
pub(crate) fn computing(
    table: &TableEntry,
    text: (&str, Option<&str>),
    column: &Field,
    running: &Arc<RunningStatement>,
) -> Result<RowExpression> {
    planned(table, text, Some(column), running)
}

/// Whether all rows of a table keep a condition.
///
/// # Errors
/// A row does not; those of evaluating it.
pub(crate) fn is_kept_by_all(table: &TableEntry, check: &Check, running: &Arc<RunningStatement>) -> Result<()> {
    let alone = RowRules { checks: vec![check.clone()], ..RowRules::default() };
    each_batch(table, running, &mut |rows| alone.check(rows, &table.base.schema, &table.name))
}

/// Looks at all rows of a table.
///
/// # Errors
/// Those of `look`; those of reading them.
pub(crate) fn each_batch(
    table: &TableEntry,
    running: &Arc<RunningStatement>,
    look: &mut dyn FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    table.load_all(running)?;
    let (state, name) = over(table, running)?;
    let running = &Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let sql = format!("SELECT * FROM {}", written::name(&name));
    let plan = AnyStatement::one(&sql)?.plan(&running.own_context())?;
    for rows in query::run(plan, Arc::clone(running), true)? {
        look(&rows?)?;
    }
    Ok(())
}

/// The rules of a table with a column that has another name.
///
/// # Errors
/// Those of planning them anew, which no other name causes.
pub(crate) fn renamed(
    table: &TableEntry,
    (from, to): (&str, &str),
    running: &Arc<RunningStatement>,
) -> Result<RowRules> {
    let again = |expression: &RowExpression, of: Option<&Field>| {
        if !expression.columns.iter().any(|column| column == from) {
            return Ok(expression.clone());
        }
        let mut parsed = parse(&expression.text)?;
        let _ = parsed.visit(&mut Rename { from, to });
        planned(table, (&parsed.to_string(), expression.zone.as_deref()), of, running)
    };
    let name = |column: &String| if column == from { to.to_string() } else { column.clone() };
    let mut rules = RowRules::default();
    for (column, expression) in &table.rules.generated {
        let column = name(column);
        let field = table.base.schema.field_with_name(&column)?;
        rules.generated.insert(column.clone(), again(expression, Some(field))?);
    }
    for check in &table.rules.checks {
        rules.add(Check { condition: again(&check.condition, None)?, ..check.clone() });
    }
    rules.foreign_keys = table.rules.foreign_keys.clone();
    for key in &mut rules.foreign_keys {
        key.columns.iter_mut().filter(|column| *column == from).for_each(|column| *column = to.into());
        if key.to == table.id {
            key.to_columns.iter_mut().filter(|column| *column == from).for_each(|column| *column = to.into());
        }
    }
    rules.identities = table.rules.identities.iter().map(|(column, always)| (name(column), *always)).collect();
    rules.domains = table.rules.domains.iter().map(|(column, domain)| (name(column), Arc::clone(domain))).collect();
    Ok(rules)
}

/// The rules of a table, one of whose columns has another type now.
///
/// # Errors
/// One that is not for that type.
pub(crate) fn retyped(table: &TableEntry, column: &str, running: &Arc<RunningStatement>) -> Result<RowRules> {
    let reads = |expression: &RowExpression| expression.columns.iter().any(|read| read == column);
    let mut rules = RowRules::clone(&table.rules);
    for (computed, expression) in &mut rules.generated {
        if computed == column || reads(expression) {
            let field = table.base.schema.field_with_name(computed)?;
            *expression = planned(table, (&expression.text, expression.zone.as_deref()), Some(field), running)?;
        }
    }
    for check in &mut rules.checks {
        if reads(&check.condition) {
            let text = (&*check.condition.text, check.condition.zone.as_deref());
            check.condition = planned(table, text, None, running)?;
        }
    }
    Ok(rules)
}

struct Rename<'a> {
    from: &'a str,
    to: &'a str,
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Identifier(name) = expr
            && normalised(name.clone()) == self.from
        {
            *name = match as_needed(self.to) == self.to {
                true => ast::Ident::new(self.to),
                false => ast::Ident::with_quote('"', self.to),
            };
        }
        ControlFlow::Continue(())
    }
}

/// The columns of a table that an expression reads, each once.
fn columns_of(expression: &ast::Expr, schema: &Schema) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    let _ = visit_expressions(expression, |part: &ast::Expr| {
        let name = match part {
            ast::Expr::Identifier(name) => Some(name),
            ast::Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let name = name.map(|name| normalised(name.clone()));
        if let Some(name) = name.filter(|name| schema.index_of(name).is_ok() && !columns.contains(name)) {
            columns.push(name);
        }
        ControlFlow::<()>::Continue(())
    });
    columns
}

/// An expression as it is kept: without the table's name before columns.
///
/// # Errors
/// Queries; what cannot be read again as it is written.
fn text_of(expression: &ast::Expr, table: &TableEntry) -> Result<String> {
    let is_query = |expr: &ast::Expr| match expr {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    if visit_expressions(expression, is_query).is_break() {
        return Err(Error::plan(
            SqlState::FeatureNotSupported,
            "a query cannot be in a CHECK or in what a column is computed by: both are about one row",
        ));
    }
    let mut expression = expression.clone();
    let _ = expression.visit(&mut Unqualified(&table.name));
    let text = expression.to_string();
    match again(&text) {
        true => Ok(text),
        false => Err(Error::Unsupported(format!(
            "the expression {text} cannot be kept as it is written; put its parts in brackets"
        ))),
    }
}

/// Takes the table's name away from before its columns.
struct Unqualified<'a>(&'a Name);

impl VisitorMut for Unqualified<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::CompoundIdentifier(parts) = expr {
            let names: Vec<String> = parts.iter().cloned().map(normalised).collect();
            let is_table = match &names[..] {
                [table, _] => *table == self.0.table,
                [schema, table, _] => *table == self.0.table && *schema == self.0.schema,
                _ => false,
            };
            if let Some(column) = parts.pop_if(|_| is_table) {
                *expr = ast::Expr::Identifier(column);
            }
        }
        ControlFlow::Continue(())
    }
}

pub(crate) fn parse(text: &str) -> Result<ast::Expr> {
    let mut parser = sqlparser::parser::Parser::new(&crate::sql::SqlDialect)
        .try_with_sql(text)
        .map_err(datafusion_common::DataFusionError::from)?;
    Ok(parser.parse_expr().map_err(datafusion_common::DataFusionError::from)?)
}

/// Plans an expression over a row of a table: what a column is computed by, or a condition.
fn planned(
    table: &TableEntry,
    (text, zone): (&str, Option<&str>),
    column: Option<&Field>,
    running: &Arc<RunningStatement>,
) -> Result<RowExpression> {
    let zoned = match zone {
        Some(zone) => Arc::new(running.with_planner(running.planner.changed(|options| {
            options.execution.time_zone = Some(zone.into());
            Ok(())
        })?)),
        None => Arc::clone(running),
    };
    let running = &zoned;
    let context = running.own_context();
    let session_zone = running.planner.config_options().execution.time_zone.clone();
    let row = told(&table.base.schema, &table.lengths);
    let source = GivenSource::table(arrow::array::RecordBatch::new_empty(Arc::clone(&row)));
    let name = context.give(LogicalPlanBuilder::scan("row", source, None)?.build()?);
    let sql = format!("SELECT ({text}) FROM {} AS {}", quoted(&name), quoted(&table.name.table));
    let plan = AnyStatement::one(&sql)?.plan(&context).map_err(Error::without_position)?;
    let (expression, is_alone) = match &plan {
        LogicalPlan::Projection(projection) => {
            let is_row = matches!(*projection.input, LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_));
            (projection.expr.first().cloned().filter(|_| projection.expr.len() == 1), is_row)
        }
        _ => (None, false),
    };
    let what = if column.is_some() { "what a column is computed by" } else { "a CHECK" };
    let Some(expression) = expression.filter(|_| is_alone) else {
        return Err(Error::plan(
            SqlState::Grouping,
            format!("{text}: an aggregate, a window or a function that gives rows cannot be in {what}"),
        ));
    };
    let data_type = expression.get_type(plan_input(&plan))?;
    // What is wrong with types is said here.
    query::optimised(plan.clone(), running).map_err(Error::without_position)?;
    let expression = expression.unalias();
    if let Some(function) = changing(&expression)? {
        return Err(Error::plan(
            if column.is_some() { SqlState::InvalidObjectDefinition } else { SqlState::FeatureNotSupported },
            format!("{text}: {function} is not the same each time, and cannot be in {what}"),
        ));
    }
    let wanted = match column {
        None if matches!(data_type, DataType::Boolean | DataType::Null) => DataType::Boolean,
        None => {
            return Err(Error::plan(
                SqlState::DatatypeMismatch,
                format!("{text}: a CHECK is true or false, and this is {}", sql_type(&data_type)),
            ));
        }
        Some(field) if is_assignable(&data_type, field.data_type()) => field.data_type().clone(),
        Some(field) => {
            return Err(Error::plan(
                SqlState::DatatypeMismatch,
                format!(
                    "column '{}' is {}, and {text} is {}; write a cast around it",
                    field.name(),
                    sql_type(field.data_type()),
                    sql_type(&data_type)
                ),
            ));
        }
    };
    let mut columns: Vec<String> = Vec::new();
    for column in expression.column_refs() {
        if !columns.contains(&column.name) {
            columns.push(column.name.clone());
        }
    }
    columns.sort_by_key(|name| row.index_of(name).unwrap_or(usize::MAX));
    let fields = columns.iter().map(|name| Ok(row.field_with_name(name)?.clone())).collect::<Result<Vec<_>>>()?;
    let read: SchemaRef = Arc::new(Schema::new(fields));
    let evaluated = compiled(&expression, (&read, &wanted), running)?.ok_or_else(|| {
        Error::Unsupported(format!("{text} is not supported in {what}: it is not evaluated for one row by itself"))
    })?;
    let depends = has_zone(&expression) || reads_zone(&fields_of(&read), &wanted);
    Ok(RowExpression {
        text: text.into(),
        zone: session_zone.filter(|_| depends).map(Into::into),
        columns,
        evaluated: Arc::new(Evaluated(evaluated)),
    })
}

fn fields_of(schema: &Schema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// Whether what is read or made is a time of a zone.
fn reads_zone(read: &[DataType], made: &DataType) -> bool {
    let is_of_zone = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
    read.iter().any(is_of_zone) || is_of_zone(made)
}

fn plan_input(plan: &LogicalPlan) -> &datafusion_common::DFSchema {
    match plan.inputs().first() {
        Some(input) => input.schema(),
        None => plan.schema(),
    }
}

/// A function of an expression that gives something else at another time.
fn changing(expression: &Expr) -> Result<Option<String>> {
    let mut found = None;
    datafusion_common::tree_node::TreeNode::apply(expression, |part| {
        if let Expr::ScalarFunction(call) = part
            && call.func.signature().volatility != Volatility::Immutable
        {
            found = Some(format!("{}()", call.func.name()));
        }
        Ok(datafusion_common::tree_node::TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn compiled(
    expression: &Expr,
    (read, wanted): (&SchemaRef, &DataType),
    running: &Arc<RunningStatement>,
) -> Result<Option<Compiled>> {
    let Some(row) = RowSchema::new(Some(read), &Arc::new(Schema::empty())) else { return Ok(None) };
    let to: SchemaRef = Arc::new(Schema::new(vec![Field::new("value", wanted.clone(), true)]));
    Ok(row.compiled(vec![expression.clone()], Some(&to), running)?.and_then(|mut all| all.pop()))
}
