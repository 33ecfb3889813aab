//! EXPLAIN, EXPLAIN ANALYZE and DESCRIBE. Each operator says who runs it: `nearside` or `datafusion`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{DescribeTable, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::sql::parser::{ExplainStatement, Statement};
use exec::Plan;

use crate::error::{Error, Result};
use crate::lower::{bind, wholly_native};
use crate::native::{NativeExec, context_of};
use crate::parser::plan_statement;
use crate::query;
use crate::statement::Running;
use crate::stream::ResultStream;
use crate::watched::WatchedExec;

const NEARSIDE: &str = "nearside";
const DATAFUSION: &str = "datafusion";

/// One operator of a plan.
struct Line {
    depth: usize,
    operator: String,
    engine: &'static str,
    rows: Option<i64>,
    microseconds: Option<i64>,
}

/// `EXPLAIN [ANALYZE] [VERBOSE] statement`.
pub(crate) fn explain(explain: &ExplainStatement, running: &Arc<Running>) -> Result<ResultStream> {
    let Statement::Statement(_) = explain.statement.as_ref() else {
        return Err(Error::Unsupported("EXPLAIN is for queries and for INSERT, UPDATE and DELETE".into()));
    };
    let context = running.plan_context();
    let plan = match plan_statement(explain.statement.as_ref().clone(), &context)? {
        LogicalPlan::Dml(dml) if explain.options.analyze => {
            return Err(Error::Unsupported(format!("EXPLAIN ANALYZE {} is not supported: it would write", dml.name())));
        }
        LogicalPlan::Dml(dml) => Arc::unwrap_or_clone(dml.input),
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            return Err(Error::Unsupported("EXPLAIN is for queries and for INSERT, UPDATE and DELETE".into()));
        }
        plan => plan,
    };
    let prepared = query::prepare(plan, running)?;
    let mut lines = Vec::new();
    if explain.options.verbose {
        for line in prepared.display_indent().to_string().lines() {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let operator = format!("logical: {}", line.trim_start());
            lines.push(Line { depth, operator, engine: DATAFUSION, rows: None, microseconds: None });
        }
    }
    match wholly_native(&prepared) {
        Some(native) => {
            let plan = Arc::new(bind(native, &running.catalog, &running.props())?);
            let first = lines.len();
            native_lines(&plan, 0, &mut lines);
            if explain.options.analyze {
                let started = std::time::Instant::now();
                let rows = drain_native(&plan, running)?;
                lines[first].rows = Some(rows);
                lines[first].microseconds = Some(started.elapsed().as_micros() as i64);
            }
        }
        None => {
            let physical = query::physical(&prepared, running)?;
            if explain.options.analyze {
                for batch in ResultStream::spawn(Arc::clone(&physical), Arc::clone(running))? {
                    batch?;
                }
            }
            physical_lines(&physical, 0, explain.options.analyze, &mut lines);
        }
    }
    table(&lines, explain.options.analyze)
}

fn drain_native(plan: &Arc<Plan>, running: &Arc<Running>) -> Result<i64> {
    let execution = exec::execute(Arc::clone(plan), context_of(running));
    let mut rows = 0;
    while let Some(batch) = execution.next_blocking() {
        rows += batch?.num_rows() as i64;
    }
    Ok(rows)
}

fn native_lines(plan: &Plan, depth: usize, lines: &mut Vec<Line>) {
    lines.push(Line { depth, operator: plan.describe_operator(), engine: NEARSIDE, rows: None, microseconds: None });
    for input in plan.inputs() {
        native_lines(input, depth + 1, lines);
    }
}

fn physical_lines(plan: &Arc<dyn ExecutionPlan>, depth: usize, analyze: bool, lines: &mut Vec<Line>) {
    let metrics = plan.metrics().filter(|_| analyze).map(|m| m.aggregate_by_name());
    let rows = metrics.as_ref().and_then(|m| m.output_rows()).map(|n| n as i64);
    let microseconds = metrics.as_ref().and_then(|m| m.elapsed_compute()).map(|n| (n / 1000) as i64);
    if let Some(watched) = plan.downcast_ref::<WatchedExec>() {
        return physical_lines(watched.inner(), depth, analyze, lines);
    }
    if let Some(native) = plan.downcast_ref::<NativeExec>() {
        let first = lines.len();
        native_lines(native.plan(), depth, lines);
        lines[first].rows = rows;
        return;
    }
    let operator = displayable(plan.as_ref()).one_line().to_string().trim().to_string();
    lines.push(Line { depth, operator, engine: DATAFUSION, rows, microseconds });
    for child in plan.children() {
        physical_lines(child, depth + 1, analyze, lines);
    }
}

fn table(lines: &[Line], analyze: bool) -> Result<ResultStream> {
    let mut fields =
        vec![Field::new("operator", DataType::Utf8View, false), Field::new("engine", DataType::Utf8View, false)];
    let operators = lines.iter().map(|l| Some(format!("{:indent$}{}", "", l.operator, indent = l.depth * 2)));
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(operators.collect::<StringViewArray>()),
        Arc::new(lines.iter().map(|l| Some(l.engine)).collect::<StringViewArray>()),
    ];
    if analyze {
        fields.push(Field::new("rows", DataType::Int64, true));
        fields.push(Field::new("microseconds", DataType::Int64, true));
        columns.push(Arc::new(lines.iter().map(|l| l.rows).collect::<Int64Array>()));
        columns.push(Arc::new(lines.iter().map(|l| l.microseconds).collect::<Int64Array>()));
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}

/// `DESCRIBE t`, `DESCRIBE SELECT ..`.
pub(crate) fn describe(describe: &DescribeTable) -> Result<ResultStream> {
    let fields = describe.schema.fields();
    let schema = Arc::new(Schema::new(vec![
        Field::new("column_name", DataType::Utf8View, false),
        Field::new("data_type", DataType::Utf8View, false),
        Field::new("is_nullable", DataType::Utf8View, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(fields.iter().map(|f| Some(f.name().as_str())).collect::<StringViewArray>()),
        Arc::new(fields.iter().map(|f| Some(f.data_type().to_string())).collect::<StringViewArray>()),
        Arc::new(fields.iter().map(|f| Some(if f.is_nullable() { "YES" } else { "NO" })).collect::<StringViewArray>()),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(ResultStream::ready(schema, vec![batch]))
}
