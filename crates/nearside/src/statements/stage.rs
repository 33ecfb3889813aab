//! New rows of a table: staged part by part as they come, then encoded where their part's columns belong.
//!
//! # Limits
//! The first rows of a table that is cut by ranges are encoded twice: once to learn the ranges, once in their parts.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use numa::{Allocator, Policy};
use storage::{Part, Partitioner, ProducerRows, SegmentVersion, Stager, StoreError, TableVersion};

use crate::catalog::lengths::{Length, enforced};
use crate::catalog::placement::TablePlacement;
use crate::catalog::rules::RowRules;
use crate::catalog::{Name, TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::statements::telling::Teller;

/// Stages one producer's rows, each for its part.
pub(crate) struct PartStager {
    stagers: Vec<Stager>,
    partitioner: Option<Partitioner>,
    /// Names of the columns, and how long their texts may be; empty where none has a length.
    lengths: (Vec<Option<Length>>, Vec<String>),
    /// What the table says of each row, and its columns.
    rules: (Arc<RowRules>, SchemaRef),
    /// Who tells foreign keys of rows that come.
    teller: Option<Teller>,
    /// Number of the next row, which says whose turn it is when parts take turns.
    next_row: u64,
    /// The table's name, for errors.
    table: Arc<Name>,
}

/// How long texts of a table's columns may be, and the columns' names; empty where none has a length.
fn lengths_of(table: &TableEntry) -> (Vec<Option<Length>>, Vec<String>) {
    let mut lengths = (Vec::new(), Vec::new());
    if !table.lengths.is_empty() {
        for field in table.base.schema.fields() {
            lengths.0.push(table.lengths.get(field.name()).cloned());
            lengths.1.push(field.name().clone());
        }
    }
    lengths
}

/// The same columns, in which NULL may stand until rows are checked.
pub(crate) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Arc::new(Field::clone(field).with_nullable(true)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows of a table's types as the table would keep them: what it computes is computed.
///
/// # Errors
/// Texts that are too long for their column, NULL where none may be, a CHECK that is false.
pub(crate) fn as_kept(batch: RecordBatch, table: &TableEntry) -> Result<RecordBatch> {
    let (lengths, names) = lengths_of(table);
    let mut kept = enforced(&batch, &lengths, &names)?.unwrap_or(batch);
    if let Some(computed) = table.rules.computed(&kept, &table.base.schema)? {
        kept = enforced(&computed, &lengths, &names)?.unwrap_or(computed);
    }
    table.rules.check_domains(&kept, &table.base.schema)?;
    for (field, column) in table.base.schema.fields().iter().zip(kept.columns()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            return Err(null_in(field.name(), &table.name));
        }
    }
    table.rules.check(&kept, &table.base.schema, &table.name)?;
    Ok(kept)
}

fn null_in(column: &str, table: &Name) -> Error {
    let shown = table.shown();
    Error::execution(
        SqlState::NotNullViolation,
        format!("column '{column}' of table '{shown}' does not allow NULL, and a row has none for it"),
    )
    .of_column((&table.schema, &table.table), column)
}

/// Where rows are staged: on the node of whoever stages them, in the statement's budget.
pub(crate) fn staging(running: &RunningStatement) -> Allocator {
    Allocator::new(Policy::Local, Arc::clone(running.statement.budget()))
}

impl PartStager {
    /// For rows that are to be added to `table`.
    pub(crate) fn new(table: &TableEntry, running: &RunningStatement) -> Result<PartStager> {
        let schema = &table.base.schema;
        let partitioner = table.placement.partitioner(schema)?;
        let parts = partitioner.as_ref().map_or(1, Partitioner::parts);
        let stagers = (0..parts).map(|_| Stager::new(Arc::clone(schema), staging(running))).collect();
        let next_row = table.base.rows() as u64;
        let rules = (Arc::clone(&table.rules), Arc::clone(schema));
        let (lengths, name) = (lengths_of(table), Arc::clone(&table.name));
        let teller = Teller::of(table, running)?;
        Ok(PartStager { stagers, partitioner, lengths, rules, teller, next_row, table: name })
    }

    /// Adds rows of the table's columns.
    ///
    /// # Errors
    /// Texts that are too long for their column, a NULL where it allows none, a CHECK that is false.
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rules, schema) = &self.rules;
        let mut kept = enforced(batch, &self.lengths.0, &self.lengths.1)?;
        if let Some(computed) = rules.computed(kept.as_ref().unwrap_or(batch), schema)? {
            kept = Some(enforced(&computed, &self.lengths.0, &self.lengths.1)?.unwrap_or(computed));
        }
        let batch = kept.as_ref().unwrap_or(batch);
        rules.check(batch, schema, &self.table)?;
        if let Some(teller) = &self.teller {
            teller.tell(batch)?;
        }
        let first = self.next_row;
        self.next_row += batch.num_rows() as u64;
        let Some(partitioner) = &self.partitioner else {
            return match self.stagers.first_mut() {
                Some(only) => only.append(batch).map_err(|error| named(error, &self.table)),
                None => Err(Error::Internal("a table without a part".into())),
            };
        };
        for (stager, rows) in self.stagers.iter_mut().zip(partitioner.split(batch, first)?) {
            if let Some(rows) = rows {
                stager.append(&rows).map_err(|error| named(error, &self.table))?;
            }
        }
        Ok(())
    }

    /// What was staged, part by part.
    pub(crate) fn finish(self) -> Result<Vec<ProducerRows>> {
        self.stagers.into_iter().map(|stager| Ok(stager.finish()?)).collect()
    }
}

/// Encoded rows that belong to a table but are not in it yet.
pub(crate) struct NewRows {
    parts: Vec<Part>,
    /// The table's placement, when these rows told what it did not know.
    placement: Option<Arc<TablePlacement>>,
}

impl NewRows {
    /// How many.
    pub(crate) fn rows(&self) -> u64 {
        let segments = self.parts.iter().flat_map(|part| &part.segments);
        segments.map(|s| s.segment.rows() as u64).sum()
    }

    /// The table with these rows behind those of `version`.
    pub(crate) fn appended_to(self, table: &TableEntry, version: &TableVersion) -> TableEntry {
        let mut appended = table.clone();
        appended.base = Arc::new(version.with_appended_parts(self.parts));
        if let Some(placement) = self.placement {
            appended.placement = placement;
        }
        appended
    }
}

/// Encodes what producers staged, one `Vec` of parts each, on the workers.
pub(crate) fn build(
    staged: Vec<Vec<ProducerRows>>,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<NewRows> {
    let schema = &table.base.schema;
    let partitioner = table.placement.partitioner(schema)?;
    let mut by_part: Vec<Vec<ProducerRows>> =
        (0..partitioner.as_ref().map_or(1, Partitioner::parts)).map(|_| Vec::new()).collect();
    for producer in staged {
        for (part, staged) in by_part.iter_mut().zip(producer) {
            part.push(staged);
        }
    }
    let mut parts = Vec::with_capacity(by_part.len());
    for (index, staged) in by_part.into_iter().enumerate() {
        let segments = table.base.parts.get(index).map_or(0, |part| part.segments.len());
        let allocators = table.placement.allocators(index, segments, schema, &table.meta.allocator());
        let part = storage::build_part(schema, staged, &allocators, &running.parallel());
        let part = running.finished(part, || format!("encoding the rows of table '{}'", table.name.shown()))?;
        not_null(schema, &part.segments, &table.name)?;
        parts.push(part);
    }
    let rows = NewRows { parts, placement: None };
    match table.placement.unbounded() {
        Some(column) if rows.rows() > 0 => cut(rows, column, table, running),
        _ => Ok(rows),
    }
}

/// Learns the ranges of parts from the table's first rows, and cuts them.
fn cut(rows: NewRows, column: &str, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<NewRows> {
    let schema = &table.base.schema;
    let version = table.base.truncated().with_appended_parts(rows.parts);
    let (placement, parts) = cut_version(&version, &table.placement, column, schema, table, running)?;
    let parts = parts.into_iter().map(Arc::unwrap_or_clone).collect();
    Ok(NewRows { parts, placement: Some(Arc::new(placement)) })
}

/// The rows of a version cut by ranges of a column that its own rows decide.
fn cut_version(
    version: &TableVersion,
    placement: &TablePlacement,
    column: &str,
    schema: &SchemaRef,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<(TablePlacement, Vec<Arc<Part>>)> {
    let bounds = storage::range_bounds(version, schema.index_of(column)?, placement.parts())?;
    let placement = placement.with_bounds(bounds);
    let parts = recut(version, &placement, table, running)?;
    Ok((placement, parts))
}

/// The live rows of a version in the parts that a placement says; its ranges are learned where they are not known.
pub(crate) fn parts_of(
    version: &TableVersion,
    placement: &TablePlacement,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<(TablePlacement, Vec<Arc<Part>>)> {
    match placement.unbounded() {
        Some(column) if version.rows() > 0 => {
            let column = column.to_string();
            cut_version(version, placement, &column, &version.schema, table, running)
        }
        Some(_) => Ok((placement.clone(), Vec::new())),
        None => Ok((placement.clone(), recut(version, placement, table, running)?)),
    }
}

fn recut(
    version: &TableVersion,
    placement: &TablePlacement,
    table: &TableEntry,
    running: &Arc<RunningStatement>,
) -> Result<Vec<Arc<Part>>> {
    let schema = &version.schema;
    let partitioner = placement.partitioner(schema)?;
    let parts = partitioner.as_ref().map_or(1, Partitioner::parts);
    let allocator = table.meta.allocator();
    let allocators: Vec<_> = (0..parts).map(|part| placement.allocators(part, 0, schema, &allocator)).collect();
    let parts = storage::repartition(version, partitioner.as_ref(), &allocators, &running.parallel());
    running.finished(parts, || format!("cutting table '{}' into parts", table.name.shown()))
}

/// Merges small neighbouring segments of each part when there are many; within a transaction its own ones alone.
pub(crate) fn compacted(table: TableEntry, running: &Arc<RunningStatement>) -> Result<TableEntry> {
    let mut version = TableVersion::clone(&table.base);
    for part in 0..version.parts.len() {
        let segments = &version.parts[part].segments;
        let first = running.transaction.as_ref().map_or(0, |of| of.shared_segments(table.id, part));
        let sizes: Vec<usize> = segments.iter().skip(first).map(SegmentVersion::live_rows).collect();
        let Some(range) = storage::compaction(&sizes) else { continue };
        let range = range.start + first..range.end + first;
        let allocators = table.placement.allocators(part, range.start, &version.schema, &table.meta.allocator());
        let merged = storage::compact(&version.schema, &segments[range.clone()], &allocators, &running.parallel());
        let merged = running.finished(merged, || format!("merging segments of table '{}'", table.name.shown()))?;
        version = version.with_replaced(part, range, merged)?;
    }
    Ok(TableEntry { base: Arc::new(version), ..table })
}

/// Fails when a row has no value where the schema wants one.
fn not_null(schema: &SchemaRef, segments: &[SegmentVersion], name: &Name) -> Result<()> {
    for (i, field) in schema.fields().iter().enumerate() {
        if !field.is_nullable() && segments.iter().any(|s| s.segment.column(i).has_nulls()) {
            return Err(null_in(field.name(), name));
        }
    }
    Ok(())
}

/// An error of staging rows of a table.
fn named(error: StoreError, table: &Name) -> Error {
    match error {
        StoreError::NullNotAllowed { column } => null_in(&column, table),
        other => other.into(),
    }
}
