//! Statements that move tables between memory and files: COPY TO and FROM, EXPORT and IMPORT DATABASE.
//!
//! An exported database is a folder: `schema.sql` with the statements that make its schemas, tables and views, and one
//! Parquet file per table. A file appears under its name only when it is whole.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{Column as ColumnName, TableReference};
use datafusion_expr::{Expr, LogicalPlan, Projection, TableScanBuilder, cast};
use datafusion_sql::parser::{CopyToSource, CopyToStatement, Statement as DfStatement};
use datafusion_sql::resolve::resolve_table_references;
use files::{Compression, FileFormat, FileSet, ReadOptions, WriteOptions};
use sqlparser::ast::{AlterTable, AlterTableOperation, Statement, TableConstraint};

use crate::catalog::defaults::ColumnDefault;
use crate::catalog::lengths::told;
use crate::catalog::made_functions::called;
use crate::catalog::path::is_temporary;
use crate::catalog::placement::spec::Spec;
use crate::catalog::rights::Thing;
use crate::catalog::{Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::sequences::bound;
use crate::functions::texts::nested::is_list;
use crate::functions::texts::{scale_of_any_digits, texts_of_values};
use crate::functions::uuids::UUID;
use crate::rewrite::chars::delivered;
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{
    AnyStatement, CopyFrom, SequenceStatement, TypeStatement, columns_of, domains as domains_of, fresh_name, lengths,
    option_pairs, plan_statement, quoted, statements, take_check_option, take_placement, take_rules,
};
use crate::statements::allowed;
use crate::statements::comments;
use crate::statements::compiled::{Compiled, RowSchema};
use crate::statements::default_values::default_value;
use crate::statements::index;
use crate::statements::like::Likeness;
use crate::statements::load::{BatchProducer, file_producers, stage_parallel};
use crate::statements::options::{Destination, read_options, write_options};
use crate::statements::relations::within_a_transaction;
use crate::statements::stage::build;
use crate::statements::write::{Definition, commit_checked, create_table, fitted};
use crate::statements::writer::as_writer;
use crate::statements::written;
use crate::statements::{ddl, domains, made_functions, materialized_views, sequences, user_types, views};
use crate::tables::sources::GivenSource;

/// The file of an exported database that holds its statements.
const SCHEMA_FILE: &str = "schema.sql";

/// `COPY t | (query) TO 'file'`.
pub(crate) fn copy_to(copy: CopyToStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    if !copy.partitioned_by.is_empty() {
        return Err(Error::Unsupported("COPY .. TO with PARTITIONED BY is not supported".into()));
    }
    let Destination { format, compression, options } =
        write_options(&option_pairs(&copy.options, copy.stored_as.as_deref()))?;
    let path = Path::new(&copy.target);
    let format = match format.or_else(|| FileFormat::from_path(path)) {
        Some(format) => format,
        None => {
            return Err(Error::plan(
                SqlState::InvalidParameterValue,
                format!(
                    "the format of '{}' cannot be told from its name; add STORED AS PARQUET, CSV, TSV, JSON or ARROW",
                    copy.target
                ),
            ));
        }
    };
    let plan = match copy.source {
        CopyToSource::Relation(name) => {
            let computed = match running.named(&name).ok().and_then(|name| running.catalog.get(&name).cloned()) {
                Some(Entry::Table(table)) => is_any_computed(&table).then_some(table),
                _ => None,
            };
            match computed {
                Some(table) => given_columns(&table, running)?,
                None => whole_table(&name.to_string(), running)?,
            }
        }
        CopyToSource::Query(query) => {
            let statement = DfStatement::Statement(Box::new(Statement::Query(query)));
            plan_statement(statement, &running.plan_context())?
        }
    };
    let rows = write_rows(plan, path, format, compression, &options, running)?;
    Ok(Done::rows("COPY", rows))
}

/// The plan of a query for all of a table.
fn whole_table(name: &str, running: &Arc<RunningStatement>) -> Result<LogicalPlan> {
    AnyStatement::one(&format!("SELECT * FROM {name}"))?.plan(&running.plan_context())
}

fn is_any_computed(table: &TableEntry) -> bool {
    !table.rules.generated.is_empty()
}

/// The plan of a query for the columns of a table that are not computed: COPY FROM takes those.
fn given_columns(table: &TableEntry, running: &Arc<RunningStatement>) -> Result<LogicalPlan> {
    let given = table.base.schema.fields().iter().filter(|field| !table.rules.generated.contains_key(field.name()));
    let columns: Vec<String> = given.map(|field| quoted(field.name())).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), written::name(&table.name));
    AnyStatement::one(&sql)?.plan(&running.plan_context())
}

fn write_rows(
    plan: LogicalPlan,
    path: &Path,
    format: FileFormat,
    compression: Option<Compression>,
    options: &WriteOptions,
    running: &Arc<RunningStatement>,
) -> Result<u64> {
    let rows =
        query::run(delivered(plan, running.planner.config_options())?, Arc::clone(running), true)?.with_names_apart();
    let schema = rows.schema();
    // Which columns have texts in a file of texts, where Arrow's would be others.
    let as_text = |field: &Arc<Field>| match field.data_type() {
        DataType::Interval(_) | DataType::Duration(_) => format.is_text(),
        DataType::Struct(_) => format.is_delimited(),
        data_type if is_list(data_type) || scale_of_any_digits(data_type).is_some() => format.is_delimited(),
        data_type => *data_type == UUID && format.is_text(),
    };
    let as_text: Vec<bool> = schema.fields().iter().map(as_text).collect();
    let field = |(field, as_text): (&Arc<Field>, &bool)| match as_text {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        false => Arc::clone(field),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().zip(&as_text).map(field).collect();
    let written = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let mut writer = files::write(path, format, compression, options, &written)?;
    for batch in rows {
        let batch = batch?;
        let text = |(column, as_text): (&ArrayRef, &bool)| match as_text {
            true => Ok(texts_of_values(column)?.unwrap_or_else(|| Arc::clone(column))),
            false => Ok(Arc::clone(column)),
        };
        let columns = batch.columns().iter().zip(&as_text).map(text).collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        writer.write(&RecordBatch::try_new_with_options(Arc::clone(&written), columns, &rows)?)?;
        running.check()?;
    }
    Ok(writer.finish()?.rows)
}

/// `COPY t FROM 'file'`: columns go by position.
pub(crate) fn copy_from(copy: CopyFrom, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.named(&copy.table)?;
    let options = read_options(&copy.options)?;
    as_writer(&name, running, |table, running| {
        within_a_transaction(table, running)?;
        table.load_all(running)?;
        let targets = target_columns(table, &copy.columns)?;
        let files = open_for(&copy.path, &options, table, &targets)?;
        let producers = file_producers(&files, running.inner.scheduler.threads());
        let count = append(table, producers, &targets, running)?;
        Ok(Done::rows("COPY", count))
    })
}

/// Adds rows that a client sends to a table, whose `columns` they have, in order; all where these are empty. Texts are
/// read as the columns' types.
///
/// # Errors
/// Unknown names, values that do not fit, constraints.
pub(crate) fn append_batches(
    name: &Name,
    columns: &[String],
    batches: Vec<RecordBatch>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    allowed::check_fill(name, columns, running)?;
    as_writer(name, running, |table, running| {
        within_a_transaction(table, running)?;
        table.load_all(running)?;
        let targets = target_columns(table, columns)?;
        if let Some(batch) = batches.iter().find(|batch| batch.num_columns() != targets.len()) {
            let message = format!("{} columns were given, and {} are to be filled", batch.num_columns(), targets.len());
            return Err(Error::execution(SqlState::BadCopyFileFormat, message));
        }
        let read = batches.into_iter().map(|batch| read_by_casts(batch, table, &targets, running));
        let batches = read.collect::<Result<Vec<_>>>()?;
        let producer: BatchProducer = Box::new(batches.into_iter().map(Ok));
        Ok(Done::rows("COPY", append(table, vec![producer], &targets, running)?))
    })
}

/// Rows in which texts that the session's settings have a say in, or that the rules of casts alone read, are values.
fn read_by_casts(
    batch: RecordBatch,
    table: &TableEntry,
    targets: &[usize],
    running: &Arc<RunningStatement>,
) -> Result<RecordBatch> {
    let to = |place: usize| table.base.schema.field(targets[place]).data_type();
    let is_cast = |place: usize| {
        let by_casts = matches!(to(place), DataType::Timestamp(_, Some(_)) | DataType::Interval(_));
        by_casts && batch.column(place).data_type().is_string()
    };
    if !(0..targets.len()).any(is_cast) {
        return Ok(batch);
    }
    let name = TableReference::bare(fresh_name("copied"));
    let fields = batch.columns().iter().enumerate();
    let fields = fields.map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true));
    let given = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), batch.columns().to_vec())?;
    let outputs = (0..targets.len()).map(|place| {
        let column = Expr::Column(ColumnName::new(Some(name.clone()), format!("c{place}")));
        if is_cast(place) { cast(column, to(place).clone()).alias(format!("c{place}")) } else { column }
    });
    let scan = LogicalPlan::TableScan(TableScanBuilder::new(name.clone(), GivenSource::table(given)).build()?);
    let plan = LogicalPlan::Projection(Projection::try_new(outputs.collect(), Arc::new(scan))?);
    let rows = query::run(plan, Arc::clone(running), true)?;
    let schema = Arc::clone(rows.schema());
    let batches = rows.collect_all()?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The columns of a table that rows of a client go to, in order.
///
/// # Errors
/// Unknown names, one that stands twice.
pub(crate) fn columns_to_fill(name: &Name, columns: &[String], running: &RunningStatement) -> Result<Schema> {
    let table = running.catalog.table(name)?;
    allowed::check_fill(name, columns, running)?;
    Ok(told(&table.base.schema, &table.lengths).project(&target_columns(table, columns)?)?)
}

fn target_columns(table: &TableEntry, columns: &[String]) -> Result<Vec<usize>> {
    let schema = &table.base.schema;
    if columns.is_empty() {
        let is_given = |column: &usize| !table.rules.generated.contains_key(schema.field(*column).name());
        return Ok((0..schema.fields().len()).filter(is_given).collect());
    }
    if let Some(computed) = columns.iter().find(|column| table.rules.generated.contains_key(*column)) {
        return Err(Error::plan(
            SqlState::InvalidColumnReference,
            format!("column '{computed}' is computed, and COPY cannot fill it; leave it out of the list"),
        ));
    }
    if let Some(twice) = columns.iter().enumerate().find(|(i, c)| columns[..*i].contains(c)).map(|(_, c)| c) {
        return Err(Error::plan(SqlState::DuplicateColumn, format!("column '{twice}' stands twice in the list")));
    }
    let found = columns.iter().map(|column| {
        schema.index_of(column).map_err(|_| Error::NotFound {
            kind: "column",
            name: column.clone(),
            nearest: crate::error::names::nearest(column, schema.fields().iter().map(|f| f.name().as_str())),
        })
    });
    found.collect()
}

/// Opens the files so that text is read as the table's types.
fn open_for(path: &str, options: &ReadOptions, table: &TableEntry, targets: &[usize]) -> Result<FileSet> {
    let files = FileSet::open(path, options)?;
    let columns = files.schema().fields();
    if columns.len() != targets.len() {
        return Err(Error::execution(
            SqlState::BadCopyFileFormat,
            format!(
                "{path} has {} columns, and {} are to be filled; name the columns after the table's name",
                columns.len(),
                targets.len()
            ),
        ));
    }
    if !files.format().is_text() {
        return Ok(files);
    }
    let mut options = options.clone();
    let schema = &table.base.schema;
    let pairs = columns.iter().zip(targets);
    let is_json = files.format() == FileFormat::JsonLines;
    let read_as = |to: &DataType| match to {
        // Files have no words for these; `fitted` reads their texts.
        DataType::Interval(_) | DataType::Duration(_) => DataType::Utf8View,
        to if *to == UUID || (is_list(to) && !is_json) => DataType::Utf8View,
        other => other.clone(),
    };
    options.types = pairs.map(|(c, &t)| (c.name().clone(), read_as(schema.field(t).data_type()))).collect();
    Ok(FileSet::open(path, &options)?)
}

/// Adds the producers' rows to a table in one commit; other columns get their defaults.
fn append(
    table: &TableEntry,
    producers: Vec<BatchProducer>,
    targets: &[usize],
    running: &Arc<RunningStatement>,
) -> Result<u64> {
    let schema = Arc::clone(&table.base.schema);
    let fillers = fillers(table, targets, running)?;
    let arranged = producers.into_iter().map(|producer| {
        let schema = Arc::clone(&schema);
        let fillers = fillers.clone();
        let targets = targets.to_vec();
        Box::new(producer.map(move |batch| arrange(&batch?, &targets, &fillers, &schema))) as BatchProducer
    });
    let staged = stage_parallel(table, arranged.collect(), running, &|_| {})?;
    let new = build(staged, table, running)?;
    let count = new.rows();
    commit_checked(new.appended_to(table, &table.base), running)?;
    Ok(count)
}

/// What a column that the file does not fill gets.
#[derive(Clone)]
enum Filler {
    /// The file fills it.
    File,
    /// The same value in each row.
    Value(arrow::array::ArrayRef),
    /// A value of its own in each row.
    Each(Arc<Compiled>),
}

type Fillers = Vec<Filler>;

fn fillers(table: &TableEntry, targets: &[usize], running: &Arc<RunningStatement>) -> Result<Fillers> {
    let schema = &table.base.schema;
    let value = |(i, field): (usize, &Arc<arrow::datatypes::Field>)| {
        if targets.contains(&i) {
            return Ok(Filler::File);
        }
        match table.default_of(field.name()) {
            Some(default) if default.expr.is_volatile() => each_time(default, field, running).map(Filler::Each),
            Some(default) => default_value(&default.expr, field, running).map(Filler::Value),
            None => Ok(Filler::Value(arrow::array::new_null_array(field.data_type(), 1))),
        }
    };
    schema.fields().iter().enumerate().map(value).collect()
}

/// A default that gives another value each time.
fn each_time(
    default: &ColumnDefault,
    field: &arrow::datatypes::FieldRef,
    running: &Arc<RunningStatement>,
) -> Result<Arc<Compiled>> {
    let none = Arc::new(Schema::empty());
    let to = Arc::new(Schema::new(vec![Arc::clone(field)]));
    let default = bound(&default.expr, Some(&running.sequences().of_defaults()));
    let compiled = match RowSchema::new(None, &none) {
        Some(row) => row.compiled(vec![default], Some(&to), running)?.and_then(|mut all| all.pop()),
        None => None,
    };
    compiled.map(Arc::new).ok_or_else(|| {
        Error::Unsupported(format!(
            "the default of column '{}' differs from row to row, and can be filled in by INSERT only",
            field.name()
        ))
    })
}

fn arrange(batch: &RecordBatch, targets: &[usize], fillers: &Fillers, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let mut columns: Vec<Option<arrow::array::ArrayRef>> = vec![None; schema.fields().len()];
    for (column, &target) in batch.columns().iter().zip(targets) {
        columns[target] = Some(Arc::clone(column));
    }
    let zeros = arrow::array::UInt32Array::from(vec![0; batch.num_rows()]);
    let mut all = Vec::with_capacity(columns.len());
    for (column, filler) in columns.into_iter().zip(fillers) {
        match (column, filler) {
            (Some(column), _) => all.push(column),
            (None, Filler::Value(value)) => all.push(arrow::compute::take(value, &zeros, None)?),
            (None, Filler::Each(default)) => all.push(default.over(&[], batch.num_rows())?),
            (None, Filler::File) => return Err(Error::Internal("a column is neither filled nor given".into())),
        }
    }
    let fields = all
        .iter()
        .zip(schema.fields())
        .map(|(a, f)| Arc::new(arrow::datatypes::Field::new(f.name(), a.data_type().clone(), true)));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), all)?;
    fitted(&batch, schema)
}

/// `EXPORT DATABASE 'folder'`.
pub(crate) fn export(folder: &str, running: &Arc<RunningStatement>) -> Result<Done> {
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder).map_err(|e| {
        Error::execution(SqlState::IoError, format!("{}: the folder cannot be made: {e}", folder.display()))
    })?;
    let target = folder.join(SCHEMA_FILE);
    if target.exists() {
        return Err(Error::execution(
            SqlState::DuplicateFile,
            format!("{} holds a database already; choose another folder", folder.display()),
        ));
    }
    if let Some((name, _)) = running.catalog.entries().find(|(_, e)| matches!(e, Entry::External(_))) {
        return Err(Error::Unsupported(format!(
            "external table '{}' cannot be exported; drop it, or CREATE TABLE .. AS SELECT from it first",
            name.shown()
        )));
    }
    let mut script = String::from("-- A Nearside database: read it with IMPORT DATABASE.\n");
    for schema in running.catalog.schemas().filter(|s| *s != crate::catalog::DEFAULT_SCHEMA) {
        script.push_str(&format!("CREATE SCHEMA {};\n", quoted(schema)));
    }
    for schema in running.catalog.schemas() {
        let rights = running.catalog.rights_to(&Thing::Schema(schema.to_string()));
        if let Some(said) = rights.and_then(|rights| rights.comment.as_ref()) {
            script.push_str(&format!("COMMENT ON SCHEMA {} IS {};\n", quoted(schema), written::text(said)));
        }
    }
    let mut late = Vec::new();
    for (_, entry) in running.catalog.entries().filter(|(name, _)| !is_temporary(&name.schema)) {
        if let Entry::Type(found) = entry {
            script.push_str(&format!("{};\n", written::create_type(&found.of)));
        }
    }
    // In the order in which they were made, since one may be over another.
    let mut domains: Vec<_> = running.catalog.domains().filter(|(name, _)| !is_temporary(&name.schema)).collect();
    domains.sort_by_key(|(_, domain)| domain.id());
    for (_, domain) in domains {
        script.push_str(&format!("{};\n", written::create_domain(domain, &running.catalog)));
        late.extend(written::add_checks_to_domain(domain));
    }
    // In the order in which they were made, since they may call each other.
    let mut functions: Vec<_> =
        running.catalog.made_functions().filter(|(key, _)| !is_temporary(&key.schema)).collect();
    functions.sort_by_key(|(_, entry)| entry.of.id);
    for (key, entry) in functions {
        let name = Name { schema: key.schema.clone(), table: called(key).to_string() };
        match made_functions::reads(&entry.of)? {
            // Those that read tables come once these are there.
            true => late.push(made_functions::create_statement(&name, &entry.of)),
            false => script.push_str(&format!("{};\n", made_functions::create_statement(&name, &entry.of))),
        }
    }
    let (sequences, positions) = sequences::scripts(&running.catalog);
    sequences.iter().for_each(|statement| script.push_str(&format!("{statement};\n")));
    let mut rows = 0;
    let mut tables = 0;
    let lasting = |schema: &str| !is_temporary(schema);
    for (name, entry) in running.catalog.entries().filter(|(name, _)| lasting(&name.schema)) {
        match entry {
            Entry::Table(table) if table.materialized.is_none() => {
                let file = file_name(name);
                let plan = match is_any_computed(table) {
                    true => given_columns(table, running)?,
                    false => whole_table(&written::name(name), running)?,
                };
                let options = WriteOptions::default();
                rows += write_rows(plan, &folder.join(&file), FileFormat::Parquet, None, &options, running)?;
                script.push_str(&format!("{};\n", written::create_table(table, running)?));
                script.push_str(&format!("COPY {} FROM {};\n", written::name(name), written::text(&file)));
                for statement in written::add_deferrable_keys(table).chain(written::add_checks(table)) {
                    script.push_str(&format!("{statement};\n"));
                }
                for index in written::create_indexes(table) {
                    script.push_str(&format!("{index};\n"));
                }
                tables += 1;
            }
            _ => {}
        }
    }
    for table in running.catalog.tables().filter(|table| lasting(&table.name.schema)) {
        for statement in written::add_foreign_keys(table, &running.catalog) {
            script.push_str(&format!("{statement};\n"));
        }
    }
    late.iter().for_each(|statement| script.push_str(&format!("{statement};\n")));
    positions.iter().for_each(|statement| script.push_str(&format!("{statement};\n")));
    for view in views_in_order(running)? {
        script.push_str(&format!("{view};\n"));
    }
    let is_kept = |(name, entry): &(&Name, &Entry)| lasting(&name.schema) && !matches!(entry, Entry::External(_));
    for (name, entry) in running.catalog.entries().filter(is_kept) {
        for statement in written::comments(name, entry) {
            script.push_str(&format!("{statement};\n"));
        }
    }
    let unfinished = folder.join(format!(".{SCHEMA_FILE}.unfinished"));
    std::fs::write(&unfinished, script)
        .and_then(|()| std::fs::rename(&unfinished, &target))
        .map_err(|e| Error::execution(SqlState::IoError, format!("{}: cannot be written: {e}", target.display())))?;
    Ok(Done { tag: format!("EXPORT of {tables} tables,"), rows: Some(rows) })
}

/// The views' statements, each after those it reads.
fn views_in_order(running: &Arc<RunningStatement>) -> Result<Vec<String>> {
    let views = running.catalog.entries().filter(|(name, _)| !is_temporary(&name.schema));
    let mut left: Vec<(&Name, &Entry, &str)> =
        views.filter_map(|(name, entry)| Some((name, entry, entry.query()?))).collect();
    let mut done = Vec::new();
    while !left.is_empty() {
        let names: Vec<&Name> = left.iter().map(|(n, ..)| *n).collect();
        let is_ready = |query: &str, own: &Name| -> Result<bool> {
            let AnyStatement::Sql(statement) = AnyStatement::one(query)? else { return Ok(true) };
            let normalise = running.planner.config_options().sql_parser.enable_ident_normalization;
            let (references, _) = resolve_table_references(&statement, normalise)?;
            let mut waits = false;
            for reference in references {
                if let Ok(name) = Name::resolve(&reference) {
                    waits |= &name != own && names.contains(&&name);
                }
            }
            Ok(!waits)
        };
        let mut ready = None;
        for (i, (name, _, query)) in left.iter().enumerate() {
            if is_ready(query, name)? {
                ready = Some(i);
                break;
            }
        }
        let (name, entry, _) = left.remove(ready.unwrap_or(0));
        match entry {
            Entry::View(view) => done.push(written::create_view(name, view)),
            Entry::Table(table) if let Some(of) = &table.materialized => {
                done.extend(written::create_materialized_view(table, of));
            }
            _ => {}
        }
    }
    Ok(done)
}

fn file_name(name: &Name) -> String {
    let safe = |text: &str| -> String {
        let keep = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        text.chars().map(|c| if keep(c) { c.to_string() } else { format!("%{:x}", c as u32) }).collect()
    };
    format!("{}.{}.parquet", safe(&name.schema), safe(&name.table))
}

/// `IMPORT DATABASE 'folder'`: everything or nothing.
pub(crate) fn import(folder: &str, running: &Arc<RunningStatement>) -> Result<Done> {
    let path = Path::new(folder).join(SCHEMA_FILE);
    let script = std::fs::read_to_string(&path).map_err(|e| {
        Error::execution(
            SqlState::UndefinedFile,
            format!("{}: cannot be read: {e}; EXPORT DATABASE makes such a folder", path.display()),
        )
    })?;
    // The import is made in a catalog of its own and moves over in one commit.
    let scratch = Arc::new(running.scratch());
    let mut rows = 0;
    let mut tables = 0;
    for written in statements(&script)? {
        running.check()?;
        let step = Arc::new(scratch.refreshed());
        let text = written.piece.sql.clone();
        let outcome = match AnyStatement::of(written)? {
            AnyStatement::CopyFrom(copy) => {
                let file = Path::new(folder).join(&copy.path);
                let copy = CopyFrom { path: glob_escaped(&file.to_string_lossy()), ..copy };
                copy_from(copy, &step)
            }
            AnyStatement::Sequence(
                statement @ (SequenceStatement::Create { .. } | SequenceStatement::Alter { .. }),
            ) => sequences::run(&statement, &step),
            AnyStatement::Comment(of) => comments::comment(&of, &step),
            AnyStatement::Function(of) => made_functions::run(&of, &step),
            AnyStatement::Materialized(of) => materialized_views::run(&of, &step),
            AnyStatement::Domain(statement) => domains::run(&statement, &step),
            AnyStatement::Type(statement @ TypeStatement::Create { .. }) => user_types::run(&statement, &step),
            AnyStatement::Sql(statement) => import_statement(*statement, &step),
            _ => Err(Error::execution(
                SqlState::BadCopyFileFormat,
                format!("{}: {} is not expected here", path.display(), text),
            )),
        };
        let done = outcome?;
        rows += done.rows.unwrap_or(0);
        tables += u64::from(done.tag == "COPY");
    }
    let made = scratch.home.state();
    let ahead = |table: &Arc<TableEntry>| running.home.ahead(&table.base);
    let _ahead = made.tables().map(ahead).collect::<Result<Vec<_>>>()?;
    running.home.commit(|state| {
        state.absorb(&made)?;
        made.entries().for_each(|(name, _)| state.made_by(running.user, Thing::named(name)));
        Ok(())
    })?;
    Ok(Done { tag: format!("IMPORT of {tables} tables,"), rows: Some(rows) })
}

fn adds_constraints(alter: &AlterTable) -> bool {
    let is_one = |operation: &AlterTableOperation| {
        matches!(
            operation,
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::Check(_)
                    | TableConstraint::ForeignKey(_)
                    | TableConstraint::Unique(_)
                    | TableConstraint::PrimaryKey(_),
                ..
            }
        )
    };
    alter.operations.iter().all(is_one)
}

fn glob_escaped(path: &str) -> String {
    if path.contains(['*', '?', '[']) { glob::Pattern::escape(path) } else { path.to_string() }
}

fn import_statement(mut statement: DfStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    if let DfStatement::Statement(inner) = &statement {
        match inner.as_ref() {
            Statement::Query(_) if statement.to_string().starts_with("SELECT setval(") => {
                let plan = plan_statement(statement, &running.plan_context())?;
                query::run(plan, Arc::clone(running), true)?.collect_all()?;
                return Ok(Done::new("SELECT"));
            }
            Statement::AlterTable(alter) if adds_constraints(alter) => return ddl::alter_table(alter, running),
            _ => {}
        }
    }
    let is_create = matches!(&statement, DfStatement::Statement(s) if matches!(
        s.as_ref(),
        Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::CreateSchema { .. }
            | Statement::CreateIndex(_)
    ));
    if !is_create {
        return Err(Error::execution(
            SqlState::BadCopyFileFormat,
            format!("'{statement}' does not belong in an exported database"),
        ));
    }
    if let DfStatement::Statement(inner) = &statement
        && let Statement::CreateIndex(create) = inner.as_ref()
    {
        return index::create(create, running);
    }
    // A table from a machine with other nodes comes in all the same, and lies as tables do here.
    let placement = match take_placement(&mut statement)? {
        Some(text) if !running.home.fits(&Spec::parse(&text)?) => {
            tracing::warn!(placement = text, "a placement names nodes that are not here; the table is placed as usual");
            None
        }
        other => other,
    };
    let mut rules = take_rules(&mut statement)?;
    let check_option = take_check_option(&mut statement)?;
    let lengths = lengths(&statement, &running.plan_context())?;
    rules.domains = domains_of(&statement, &running.plan_context())?;
    let columns = columns_of(&statement).to_vec();
    let text = statement.to_string();
    match plan_statement(statement, &running.plan_context())? {
        LogicalPlan::Ddl(datafusion_expr::DdlStatement::CreateMemoryTable(create)) => create_table(
            create,
            placement.as_deref(),
            Definition { lengths, columns: &columns, rules: &rules, likeness: Likeness::default() },
            running,
        ),
        LogicalPlan::Ddl(datafusion_expr::DdlStatement::CreateView(mut create)) => {
            create.definition = Some(text);
            views::create_view(create, check_option, running)
        }
        LogicalPlan::Ddl(other) => crate::statements::ddl::ddl(other, running),
        _ => Err(Error::Internal("a CREATE planned to something else".into())),
    }
}
