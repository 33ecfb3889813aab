//! Loading tables from files and producers of batches, in parallel and streaming: what was read is staged in compact
//! form at once, and no whole copy in Arrow ever exists.
//!
//! # Limits
//! A load through the library cannot be cancelled from outside; a producer that returns an error ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::TableReference;
use files::{FileFormat, FileSet, ReadOptions};
use parking_lot::Mutex;
use sched::Affinity;
use storage::ProducerRows;

use crate::catalog::index::{Origin, indexed};
use crate::catalog::{Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;
use crate::statements::keys::{check_keys, key_indexes};
use crate::statements::lasting;
use crate::statements::relations::is_referred_to_by_none;
use crate::statements::sequences;
use crate::statements::stage::{PartStager, build};
use crate::statements::transaction::until_nothing_is_in_the_way;
use crate::statements::types;
use crate::statements::write::{fitted, new_table};
use crate::statements::writer::is_left_alone;

/// A piece of a table's rows, made on whichever worker runs it. It must not wait for statements of the same database:
/// their operators may need the very worker that waits.
pub type BatchProducer = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// How far a load is. Called often, from several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadProgress {
    /// Rows staged so far.
    pub rows: u64,
    /// Bytes of the files read so far; 0 for producers.
    pub bytes: u64,
    /// Bytes of all files; 0 when not known.
    pub total_bytes: u64,
}

/// Told how far a load is.
pub type ProgressFn = Arc<dyn Fn(LoadProgress) + Send + Sync>;

/// How to load.
#[derive(Clone, Default)]
pub struct LoadOptions {
    /// The files' format; told from names and contents when not given.
    pub format: Option<FileFormat>,
    /// The character between fields of a CSV.
    pub delimiter: Option<u8>,
    /// Whether a CSV's first line names the columns.
    pub header: Option<bool>,
    /// The text that stands for NULL in a CSV, beside the empty field.
    pub null: Option<String>,
    /// Types of columns by name, as SQL writes them, instead of inferred ones.
    pub types: Vec<(String, String)>,
    /// Told how far the load is.
    pub progress: Option<ProgressFn>,
    /// Take the place of a table of the same name.
    pub replace: bool,
    /// Where the table lies, as in `WITH (placement = '..')` (docs/placement.md); by default each column on one node in
    /// turn.
    pub placement: Option<String>,
    /// The columns of the table's primary key, as in `PRIMARY KEY (..)`; none where this is empty.
    pub primary_key: Vec<String>,
}

impl std::fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadOptions")
            .field("format", &self.format)
            .field("types", &self.types)
            .field("replace", &self.replace)
            .finish_non_exhaustive()
    }
}

impl LoadOptions {
    /// For files of one format.
    pub fn of(format: FileFormat) -> LoadOptions {
        LoadOptions { format: Some(format), ..LoadOptions::default() }
    }

    fn read_options(&self, inner: &Arc<Inner>) -> Result<ReadOptions> {
        let mut options = ReadOptions {
            format: self.format,
            delimiter: self.delimiter,
            header: self.header,
            null: self.null.clone(),
            ..ReadOptions::default()
        };
        for (column, text) in &self.types {
            options.types.push((column.clone(), types::parse_alone(text, inner)?));
        }
        Ok(options)
    }
}

/// What a load did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadReport {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes the table holds in memory.
    pub bytes: u64,
    /// Time from the first byte read to the table's being there.
    pub elapsed: Duration,
}

/// Loads files as a new table.
pub(crate) fn load_files(inner: &Arc<Inner>, table: &str, path: &str, options: &LoadOptions) -> Result<LoadReport> {
    let name = table_name(table)?;
    check_free(inner, &name, options.replace)?;
    let files = FileSet::open(path, &options.read_options(inner)?)?;
    let total = files.total_bytes();
    let bytes = Arc::new(AtomicU64::new(0));
    let files = {
        let bytes = Arc::clone(&bytes);
        files.with_progress(Arc::new(move |read| {
            bytes.fetch_add(read, Ordering::Relaxed);
        }))
    };
    let schema = Arc::clone(files.schema());
    let producers = file_producers(&files, inner.scheduler.threads());
    load(inner, name, schema, producers, options, &bytes, total)
}

/// A file set's pieces as producers of this module's kind.
pub(crate) fn file_producers(files: &FileSet, threads: usize) -> Vec<BatchProducer> {
    let pieces = files.producers(threads).into_iter();
    pieces.map(|p| Box::new(p.map(|batch| batch.map_err(Error::from))) as BatchProducer).collect()
}

/// Loads producers as a new table.
pub(crate) fn load_batches(
    inner: &Arc<Inner>,
    table: &str,
    schema: SchemaRef,
    producers: Vec<BatchProducer>,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let name = table_name(table)?;
    check_free(inner, &name, options.replace)?;
    load(inner, name, schema, producers, options, &Arc::default(), 0)
}

fn table_name(text: &str) -> Result<Name> {
    if text.trim().is_empty() {
        return Err(Error::plan(SqlState::InvalidName, "a table needs a name"));
    }
    Name::resolve(&TableReference::from(text))
}

fn check_free(inner: &Arc<Inner>, name: &Name, replace: bool) -> Result<()> {
    match inner.catalog.state().get(name) {
        Some(entry) if replace && entry.is_written() => Ok(()),
        Some(other) => Err(Error::Exists { kind: other.kind(), name: name.shown() }),
        None => Ok(()),
    }
}

fn load(
    inner: &Arc<Inner>,
    name: Name,
    schema: SchemaRef,
    producers: Vec<BatchProducer>,
    options: &LoadOptions,
    bytes: &Arc<AtomicU64>,
    total_bytes: u64,
) -> Result<LoadReport> {
    let started = Instant::now();
    let schema = nullable(&storage::surface_schema(&schema), &options.primary_key)?;
    let running = Arc::new(RunningStatement::start(inner, inner.default_planner()));
    let mut table = new_table(name.clone(), Arc::clone(&schema), options.placement.as_deref(), &running)?;
    if !options.primary_key.is_empty() {
        let key = vec![(Origin::PrimaryKey, options.primary_key.clone())];
        table.indexes = Arc::new(key_indexes(key, &schema)?);
    }
    let rows = AtomicU64::new(0);
    let report = |added: u64| {
        let rows = rows.fetch_add(added, Ordering::Relaxed) + added;
        if let Some(progress) = &options.progress {
            progress(LoadProgress { rows, bytes: bytes.load(Ordering::Relaxed), total_bytes });
        }
    };
    let staged = stage_parallel(&table, producers, &running, &report)?;
    let table = build(staged, &table, &running)?.appended_to(&table, &table.base);
    let table = indexed(table, &running)?;
    check_keys(&table, None, &running)?;
    let version = &table.table().base;
    let report = LoadReport { rows: version.rows() as u64, bytes: version.bytes() as u64, elapsed: started.elapsed() };
    let _ahead = inner.catalog.ahead(&table.table().base)?;
    let put = |running: &Arc<RunningStatement>| {
        inner.catalog.commit(|state| {
            match state.get(&name) {
                Some(Entry::Table(table)) if options.replace && table.materialized.is_none() => {
                    is_left_alone(table, running)?;
                    let table = Arc::clone(table);
                    is_referred_to_by_none(state, &table)?;
                    sequences::drop_owned(state, &table, None)?;
                }
                Some(other) => return Err(Error::Exists { kind: other.kind(), name: name.shown() }),
                None => {}
            }
            state.put_table(name.clone(), table.clone())
        })
    };
    until_nothing_is_in_the_way(|| RunningStatement::start(inner, inner.default_planner()), put)?;
    lasting::settle(&running)?;
    Ok(report)
}

/// Loaded columns allow NULL, whatever the file says of its rows, but for those of the primary key, and have names of
/// their own.
fn nullable(schema: &Schema, primary_key: &[String]) -> Result<SchemaRef> {
    let mut seen = std::collections::HashSet::new();
    let mut fields = Vec::new();
    for field in schema.fields() {
        if !seen.insert(field.name().as_str()) {
            return Err(Error::plan(
                SqlState::DuplicateColumn,
                format!("column '{}' stands twice in the rows to load", field.name()),
            ));
        }
        if field.name() == crate::tables::stored::ROW_ID {
            return Err(Error::plan(
                SqlState::ReservedName,
                format!("the column name '{}' is taken by Nearside", field.name()),
            ));
        }
        fields.push(Field::new(field.name(), field.data_type().clone(), !primary_key.contains(field.name())));
    }
    if fields.is_empty() {
        return Err(Error::plan(SqlState::InvalidTableDefinition, "there are no columns to load"));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Runs the producers on the workers; each stages its own rows. The first error stops the others.
pub(crate) fn stage_parallel(
    table: &TableEntry,
    producers: Vec<BatchProducer>,
    running: &Arc<RunningStatement>,
    report: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Vec<ProducerRows>>> {
    let count = producers.len();
    let producers: Vec<Mutex<Option<BatchProducer>>> = producers.into_iter().map(|p| Mutex::new(Some(p))).collect();
    let results: Vec<Mutex<Option<Result<Vec<ProducerRows>>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let failed = AtomicBool::new(false);
    let body = |i: usize| {
        let Some(producer) = producers[i].lock().take() else { return };
        let stop = || failed.load(Ordering::Relaxed);
        let work = std::panic::AssertUnwindSafe(|| stage_one(table, producer, running, &stop, report));
        let result = std::panic::catch_unwind(work)
            .unwrap_or_else(|panic| Err(Error::Internal(sched::panic_text(panic.as_ref()))));
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        *results[i].lock() = Some(result);
    };
    let ran = running.inner.scheduler.parallel_for(&running.statement, count, &|_| Affinity::Anywhere, &body);
    let mut staged = Vec::with_capacity(count);
    let mut stopped = false;
    for result in results {
        match result.into_inner() {
            Some(Ok(piece)) => staged.push(piece),
            Some(Err(Error::Cancelled)) | None => stopped = true,
            Some(Err(error)) => return Err(error),
        }
    }
    running.check()?;
    ran.map_err(|e| Error::execution(SqlState::InternalError, e.to_string()))?;
    if stopped { Err(Error::Cancelled) } else { Ok(staged) }
}

fn stage_one(
    table: &TableEntry,
    producer: BatchProducer,
    running: &RunningStatement,
    stop: &dyn Fn() -> bool,
    report: &(dyn Fn(u64) + Sync),
) -> Result<Vec<ProducerRows>> {
    let schema = &table.base.schema;
    let mut stager = PartStager::new(table, running)?;
    for batch in producer {
        running.check()?;
        if stop() {
            return Err(Error::Cancelled);
        }
        let batch = batch?;
        if batch.num_columns() != schema.fields().len() {
            return Err(Error::execution(
                SqlState::DatatypeMismatch,
                format!("a batch has {} columns, and the table has {}", batch.num_columns(), schema.fields().len()),
            ));
        }
        let names =
            batch.schema_ref().fields().iter().zip(schema.fields()).find(|(have, want)| have.name() != want.name());
        if let Some((have, want)) = names {
            return Err(Error::execution(
                SqlState::DatatypeMismatch,
                format!(
                    "a batch has column '{}' where the table has '{}'; all batches need the same columns in the \
                     same order",
                    have.name(),
                    want.name()
                ),
            ));
        }
        stager.append(&surfaced(&batch, schema)?)?;
        report(batch.num_rows() as u64);
    }
    stager.finish()
}

/// Batches whose types surface to the table's go in as they are; others are cast as SQL's CAST does.
fn surfaced(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let fits = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .all(|(column, field)| storage::surface_type(column.data_type()) == *field.data_type());
    if fits { Ok(batch.clone()) } else { fitted(batch, schema) }
}
