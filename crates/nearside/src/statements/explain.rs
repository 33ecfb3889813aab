//! EXPLAIN, EXPLAIN ANALYZE and DESCRIBE.
//!
//! Operators come with the rows that they are estimated to give; ANALYZE runs the statement on workers, however small
//! it is, and adds what each operator did ([`exec::Profile`]).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::format::ExplainFormat;
use datafusion_expr::{DescribeTable, LogicalPlan};
use datafusion_sql::parser::{ExplainStatement, Statement};
use exec::{ListedOperator, OperatorProfile, Plan, Profile};
use numa::counters::{Counter, Counts};
use serde_json::json;
use sqlparser::ast;

use crate::error::types::sql_type;
use crate::error::words::expression_in_sql;
use crate::error::{Error, Result};
use crate::functions::json::{Kind, kind_of};
use crate::lower::{LoweredPlan, Slots, bind_with};
use crate::plan::headers;
use crate::rewrite::chars::delivered;
use crate::run::loading::load_read;
use crate::run::query::{self, context_of};
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::plan_statement;
use crate::statements::written_views::WrittenView;

/// How long ANALYZE waits for workers to tell what the statement's last tasks cost; they need some microseconds.
const COUNTS_WITHIN: Duration = Duration::from_millis(100);

/// One operator of a plan.
#[derive(Default)]
struct Line {
    depth: usize,
    operator: String,
    estimated_rows: Option<i64>,
    rows: Option<i64>,
    microseconds: Option<i64>,
    tasks: Option<i64>,
    bytes_local: Option<i64>,
    bytes_remote: Option<i64>,
}

/// `EXPLAIN [ANALYZE] [VERBOSE] statement`.
///
/// # Errors
/// What no plan is shown of; otherwise those of the statement.
pub(crate) fn explain(explain: &ExplainStatement, running: &Arc<RunningStatement>) -> Result<ResultStream> {
    let Statement::Statement(_) = explain.statement.as_ref() else {
        return Err(Error::Unsupported("EXPLAIN is for queries and for INSERT, UPDATE and DELETE".into()));
    };
    let context = running.plan_context();
    let statement = explain.statement.as_ref().clone();
    let planned = match WrittenView::of(&statement, running)? {
        Some(view) => LogicalPlan::Dml(view.planned(statement, false, running)?),
        None => plan_statement(statement, &context)?,
    };
    let plan = match planned {
        LogicalPlan::Dml(dml) if explain.options.analyze => {
            return Err(would_write(dml.name()));
        }
        LogicalPlan::Dml(dml) => Arc::unwrap_or_clone(dml.input),
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            return Err(Error::Unsupported("EXPLAIN is for queries and for INSERT, UPDATE and DELETE".into()));
        }
        plan => delivered(plan, running.planner.config_options())?,
    };
    explain_plan(explain, &query::prepare(plan, running)?, Slots::new(), running)
}

/// What ANALYZE says of a statement that writes.
pub(crate) fn would_write(statement: &str) -> Error {
    Error::Unsupported(format!("EXPLAIN ANALYZE {statement} is not supported: it would write"))
}

/// As [`explain`], of a plan that was lowered, with the values of its parameters.
///
/// # Errors
/// As there.
pub(crate) fn explain_plan(
    explain: &ExplainStatement,
    prepared: &LoweredPlan,
    values: Slots,
    running: &Arc<RunningStatement>,
) -> Result<ResultStream> {
    let mut lines = Vec::new();
    if explain.options.verbose {
        for line in prepared.plan.display_indent().to_string().lines() {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let operator = format!("logical: {}", line.trim_start());
            lines.push(Line { depth, operator, ..Line::default() });
        }
    }
    let analyze = explain.options.analyze;
    load_read(&prepared.plan, running)?;
    let plan = Arc::new(bind_with(prepared, &running.catalog, running.props(), values)?);
    let profile = Profile::new(&plan);
    let rows = if analyze { Some(drain(&plan, &profile, running)?) } else { None };
    operator_lines(&plan, rows.map(|rows| (rows, &profile)), &mut lines);
    if analyze {
        lines.extend(shared_line(&profile));
        lines.extend(counters_line(&running.statement.wait_for_counts(COUNTS_WITHIN)));
    }
    match explain.options.format {
        Some(ExplainFormat::PostgresJSON) => json(&lines),
        _ => table(&lines, analyze),
    }
}

/// What hardware counters say of the whole statement, if they say anything.
fn counters_line(counts: &Counts) -> Option<Line> {
    let of = |counter, name: &str| counts.get(counter).map(|count| format!("{name} = {count}"));
    let known = [
        of(Counter::Cycles, "cycles"),
        of(Counter::Instructions, "instructions"),
        of(Counter::LlcMisses, "llc_misses"),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    let operator = format!("Counters of the statement: {}", known.join(", "));
    (!known.is_empty()).then(|| Line { operator, ..Line::default() })
}

/// What passes over columns were shared with other scans, if any were.
fn shared_line(profile: &Profile) -> Option<Line> {
    let operators = profile.operators();
    let sum = |of: fn(&OperatorProfile) -> u64| operators.iter().flatten().map(of).sum::<u64>();
    let given = sum(|operator| operator.granules_shared);
    let taken = sum(|operator| operator.granules_taken);
    let operator = format!("Shared passes: {given} granules read for other scans too, {taken} read by other scans");
    (given + taken > 0).then(|| Line { operator, ..Line::default() })
}

fn drain(plan: &Arc<Plan>, profile: &Profile, running: &Arc<RunningStatement>) -> Result<i64> {
    let execution = exec::execute_profiled(Arc::clone(plan), context_of(running), profile);
    let mut rows = 0;
    while let Some(batch) = execution.next_blocking() {
        rows += batch?.num_rows() as i64;
    }
    Ok(rows)
}

/// The operators of a plan; with the rows that it gave and its profile, if it was run.
fn operator_lines(plan: &Plan, ran: Option<(i64, &Profile)>, lines: &mut Vec<Line>) {
    let estimates = exec::estimates(plan);
    let profiles = ran.map(|(_, profile)| profile.operators());
    let mut shared: Vec<usize> = Vec::new();
    let mut on_top = true;
    for ListedOperator { id, depth, plan: operator, .. } in plan.operators() {
        let text = match operator {
            Plan::Shared(one) => {
                let met = shared.iter().position(|known| *known == one.id);
                let number = met.unwrap_or_else(|| {
                    shared.push(one.id);
                    shared.len() - 1
                });
                let again = if met.is_some() { ", as above" } else { "" };
                format!("Shared {}: computed once{again}", number + 1)
            }
            other => other.describe_operator(),
        };
        let mut line = Line { depth, operator: text, ..Line::default() };
        line.estimated_rows = Some(estimates[id].round() as i64);
        if let Some(profile) = profiles.as_ref().and_then(|profiles| profiles[id]) {
            line.rows = Some(profile.rows as i64);
            line.microseconds = Some(profile.busy.as_micros() as i64);
            line.tasks = Some(profile.tasks as i64);
            line.bytes_local = Some(profile.bytes_local as i64);
            line.bytes_remote = Some(profile.bytes_remote as i64);
        }
        // Limits on top are the consumer's, below projections too, which have as many rows.
        if let (Some((rows, _)), true) = (ran, on_top) {
            line.rows = Some(rows);
        }
        on_top &= matches!(operator, Plan::Limit { .. } | Plan::Project { .. });
        lines.push(line);
    }
}

/// The plan as one text of JSON, in the form that PostgreSQL gives it: operators below others are their `Plans`.
fn json(lines: &[Line]) -> Result<ResultStream> {
    let mut rest = lines;
    let mut plans = Vec::new();
    while !rest.is_empty() {
        plans.push(json!({ "Plan": node(&mut rest) }));
    }
    let text = serde_json::to_string_pretty(&plans).map_err(|e| Error::Internal(e.to_string()))?;
    let schema = Arc::new(Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8View, false)]));
    let column: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// The first operator of some lines, and those below it, which are taken off.
fn node(lines: &mut &[Line]) -> serde_json::Value {
    let Some((line, rest)) = lines.split_first() else { return serde_json::Value::Null };
    *lines = rest;
    let operator = expression_in_sql(&line.operator);
    let mut node = json!({
        "Node Type": operator.split([':', '(', ' ']).next().unwrap_or_default(),
        "Operator": operator,
    });
    let numbers = [
        ("Plan Rows", line.estimated_rows),
        ("Actual Rows", line.rows),
        ("Microseconds", line.microseconds),
        ("Tasks", line.tasks),
        ("Bytes Local", line.bytes_local),
        ("Bytes Remote", line.bytes_remote),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            node[name] = number.into();
        }
    }
    let mut below = Vec::new();
    while lines.first().is_some_and(|next| next.depth > line.depth) {
        below.push(self::node(lines));
    }
    if !below.is_empty() {
        node["Plans"] = below.into();
    }
    node
}

fn table(lines: &[Line], analyze: bool) -> Result<ResultStream> {
    let text = |line: &Line| format!("{:indent$}{}", "", expression_in_sql(&line.operator), indent = line.depth * 2);
    let operators = lines.iter().map(|line| Some(text(line)));
    let mut fields = vec![Field::new("operator", DataType::Utf8View, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(operators.collect::<StringViewArray>())];
    let mut number = |name: &str, of: fn(&Line) -> Option<i64>| {
        fields.push(Field::new(name, DataType::Int64, true));
        columns.push(Arc::new(lines.iter().map(of).collect::<Int64Array>()));
    };
    number("estimated_rows", |l| l.estimated_rows);
    if analyze {
        number("rows", |l| l.rows);
        number("microseconds", |l| l.microseconds);
        number("tasks", |l| l.tasks);
        number("bytes_local", |l| l.bytes_local);
        number("bytes_remote", |l| l.bytes_remote);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// `DESCRIBE t`.
pub(crate) fn describe(describe: &DescribeTable) -> Result<ResultStream> {
    described(&describe.schema)
}

/// `DESCRIBE query`: its columns under the names that its rows have.
///
/// # Errors
/// A statement that is no query.
pub(crate) fn describe_query(statement: &ast::Statement, running: &Arc<RunningStatement>) -> Result<ResultStream> {
    if !matches!(statement, ast::Statement::Query(_)) {
        return Err(Error::Unsupported("DESCRIBE is for tables and queries".into()));
    }
    let statement = Statement::Statement(Box::new(statement.clone()));
    let plan = delivered(plan_statement(statement, &running.plan_context())?, running.planner.config_options())?;
    described(&headers::named(plan.schema().as_arrow(), &headers::names(&plan)))
}

pub(super) fn type_name(field: &Field) -> String {
    match kind_of(field) {
        Kind::Other => sql_type(field.data_type()),
        kind => kind.name().to_uppercase(),
    }
}

fn described(of: &Schema) -> Result<ResultStream> {
    let fields = of.fields();
    let schema = Arc::new(Schema::new(vec![
        Field::new("column_name", DataType::Utf8View, false),
        Field::new("data_type", DataType::Utf8View, false),
        Field::new("is_nullable", DataType::Utf8View, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(fields.iter().map(|f| Some(f.name().as_str())).collect::<StringViewArray>()),
        Arc::new(fields.iter().map(|f| Some(type_name(f))).collect::<StringViewArray>()),
        Arc::new(fields.iter().map(|f| Some(if f.is_nullable() { "YES" } else { "NO" })).collect::<StringViewArray>()),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}
