//! Changing where a table lies: `ALTER TABLE .. SET PLACEMENT`, `.. NUMA NODE`.
//!
//! Pages move below running queries, which neither wait nor notice; what has to be rewritten (PP, copies) is rewritten
//! beside the old and takes its place in one commit. Writers of the table wait. A change that fails or is cancelled
//! leaves rows, pages and the table's placement as they were.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.2 and 4.3.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use datafusion_common::TableReference;
use numa::NodeId;
use storage::ColumnPlacement;

use crate::catalog::index::indexed;
use crate::catalog::placement::changes::{PlacementChange, Report};
use crate::catalog::placement::spec::{By, ColumnSpec, Deal, Nodes, Spec, TableSpec, Where, wrong};
use crate::catalog::placement::{TablePlacement, column_index};
use crate::catalog::{TableEntry, Workers};
use crate::error::Result;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{AlterPlacement, Change};
use crate::statements::stage::parts_of;
use crate::statements::writer::as_owner;

/// Runs the statement.
pub(crate) fn alter(statement: &AlterPlacement, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.named(&statement.table)?;
    if statement.if_exists && running.catalog.get(&name).is_none() {
        return Ok(Done::new("ALTER TABLE"));
    }
    as_owner(&name, running, |table, running| {
        table.load_all(running)?;
        let started = Instant::now();
        let mut changed = PlacementChange {
            at: Utc::now(),
            table: name.clone(),
            from: table.placement.spec().to_string(),
            to: String::new(),
            report: Report::default(),
            elapsed: Duration::ZERO,
            error: None,
        };
        let result = carry_out(table, &statement.change, running, &mut changed);
        changed.elapsed = started.elapsed();
        changed.error = result.as_ref().err().map(ToString::to_string);
        running.inner.changes.push(changed);
        result.map(|()| Done::new("ALTER TABLE"))
    })
}

fn carry_out(
    table: &TableEntry,
    change: &Change,
    running: &Arc<RunningStatement>,
    log: &mut PlacementChange,
) -> Result<()> {
    if let Change::Nodes { column, rows: Some(rows), nodes } = change {
        return place_rows(table, column.as_deref(), rows, nodes, running, log);
    }
    let placement = wanted(table, change, running)?;
    log.to = placement.spec().to_string();
    // From here on the table lies where it was asked to, so it is too late to cancel.
    let entry = indexed(move_to(table, placement, running, &mut log.report)?, running)?;
    let _ahead = running.home.ahead(&entry.table().base)?;
    running.home.commit(|state| state.set_table(entry))
}

/// The placement that a change asks for.
fn wanted(table: &TableEntry, change: &Change, running: &RunningStatement) -> Result<TablePlacement> {
    let schema = &table.base.schema;
    let old = &table.placement;
    match change {
        Change::Table(text) => resolved(Spec::parse(text)?, table, running),
        Change::Column { column, text } => {
            column_index(schema, column)?;
            with_column(table, column, ColumnSpec::parse(text)?)
        }
        Change::Nodes { column: None, nodes, .. } => {
            let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
            let spec = match nodes.as_slice() {
                [] => Spec::default(),
                [one] => Spec::on_node(*one),
                _ => Spec {
                    table: TableSpec::RoundRobin { deal: Deal::Columns, nodes: Nodes::These(nodes) },
                    ..Spec::default()
                },
            };
            old.changed(spec, schema)
        }
        Change::Nodes { column: Some(column), nodes, .. } => {
            column_index(schema, column)?;
            let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
            match nodes.as_slice() {
                [] => Ok(old.without_column_spec(column)),
                [one] => with_column(table, column, ColumnSpec::All(Where::Node(*one))),
                _ => with_column(table, column, ColumnSpec::All(Where::Interleaved(Nodes::These(nodes)))),
            }
        }
        Change::Part { part, node } => old.with_part_on(*part, NodeId(*node), schema),
    }
}

/// A table's placement from its text, with `like` looked up.
pub(crate) fn resolved(spec: Spec, table: &TableEntry, running: &RunningStatement) -> Result<TablePlacement> {
    let schema = &table.base.schema;
    let TableSpec::Parts(parts) = &spec.table else { return table.placement.changed(spec, schema) };
    let By::Like { table: other, columns } = &parts.by else { return table.placement.changed(spec, schema) };
    let other = running.resolve(&TableReference::from(other.as_str()))?;
    let other = running.catalog.table(&other)?;
    for column in columns {
        column_index(schema, column)?;
    }
    let plain = Spec { table: TableSpec::default(), columns: spec.columns.clone() };
    table.placement.changed(plain, schema)?.like(&other.placement, columns, schema)
}

fn with_column(table: &TableEntry, column: &str, spec: ColumnSpec) -> Result<TablePlacement> {
    table.placement.with_column_spec(column, spec, &table.base.schema)
}

/// The table where the placement says.
fn move_to(
    table: &TableEntry,
    placement: TablePlacement,
    running: &Arc<RunningStatement>,
    report: &mut Report,
) -> Result<TableEntry> {
    let schema = &table.base.schema;
    let mut entry = table.clone();
    if placement.cuts_like(&table.placement) {
        let columns = |part| placement.columns(part, schema).into_iter().map(Some).collect();
        let parts: Vec<Vec<Option<ColumnPlacement>>> = (0..table.base.parts.len()).map(columns).collect();
        let stop = || running.check().is_err();
        let allocator = table.meta.allocator();
        let placed = storage::place_parts(&table.base, &parts, &allocator, &running.parallel(), &stop);
        let (version, placed) = running.finished(placed, || format!("moving table '{}'", table.name.shown()))?;
        report.placed = placed;
        entry.base = Arc::new(version);
        entry.placement = Arc::new(placement);
    } else {
        let (placement, parts) = parts_of(&table.base, &placement, table, running)?;
        let version = table.base.with_parts(parts);
        report.rewritten_bytes = version.bytes() as u64;
        entry.base = Arc::new(version);
        entry.placement = Arc::new(placement);
    }
    Ok(entry)
}

fn place_rows(
    table: &TableEntry,
    column: Option<&str>,
    rows: &Range<u64>,
    nodes: &[u32],
    running: &Arc<RunningStatement>,
    log: &mut PlacementChange,
) -> Result<()> {
    let &[node] = nodes else { return Err(wrong("a range of rows goes to one node")) };
    let schema = &table.base.schema;
    // Checks the node, and writes it down as users would.
    table.placement.changed(Spec::on_node(NodeId(node)), schema)?;
    log.to = format!("rows {} to {} of {} on node {node}", rows.start, rows.end, column.unwrap_or("all columns"));
    let total: u64 = table.base.segments().map(|s| s.segment.rows() as u64).sum();
    if rows.start >= rows.end || rows.end > total {
        return Err(wrong(format!("rows {} to {} are not rows of a table of {total} rows", rows.start, rows.end)));
    }
    let columns = match column {
        Some(column) => column_index(schema, column)?..column_index(schema, column)? + 1,
        None => 0..schema.fields().len(),
    };
    let stop = || running.check().is_err();
    let placed = storage::place_rows(&table.base, columns, rows.clone(), NodeId(node), &stop);
    log.report.placed = running.finished(placed, || format!("moving rows of table '{}'", table.name.shown()))?;
    Ok(())
}
