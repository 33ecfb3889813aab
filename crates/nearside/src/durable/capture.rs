//! What a commit has changed, as a record of it.
//!
//! # Invariants
//! Applied to what stood before, the record gives what stands after it: names, definitions and rows. What is the same
//! object as before is not written again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use files::ReadOptions;
use storage::{Segment, SegmentVersion, StoredColumn, TableRow, TableVersion, persist};

use crate::catalog::comments::Part;
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::made_functions::MadeFunction;
use crate::catalog::materialized::Materialized;
use crate::catalog::path::is_temporary;
use crate::catalog::roles::Roles;
use crate::catalog::rules::{Check, Deferral, ForeignKey, RowExpression};
use crate::catalog::sequences::{SequenceEntry, SequenceSpec};
use crate::catalog::user_types::EnumType;
use crate::catalog::{CatalogState, Entry, ExternalEntry, Name, TableEntry};
use crate::durable::record::{
    BlobsWriter, CheckOf, CommentOf, Content, DeltaPiece, Domain, External, ForeignKeyOf, Index, NameOf, Next,
    Placement, Put, QueryOf, Rule, SegmentOf, Sequence, State, Table, What,
};
use crate::error::{Error, Result};

/// Puts a segment into a checkpoint and gives its number there.
pub(super) type Keep<'a> = dyn FnMut(&Segment) -> Result<usize> + 'a;

/// What makes one state of another.
#[derive(Debug)]
pub(super) enum Difference {
    /// Nothing that lasts.
    Nothing,
    /// What a record says.
    Record(Box<State>, BlobsWriter),
    /// Rows of segments, for which it takes a checkpoint.
    Rows,
}

/// What makes `after` of `before`.
///
/// # Errors
/// A default value that is no SQL.
pub(super) fn difference(before: &CatalogState, after: &CatalogState, next: Next) -> Result<Difference> {
    let mut state = State { next, ..State::default() };
    let mut blobs = BlobsWriter::default();
    if !before.has_schemas_of(after) && schemas(before) != schemas(after) {
        state.schemas = Some(schemas(after));
    }
    if before.settings() != after.settings() {
        state.settings = Some(BTreeMap::clone(after.settings()));
    }
    if before.roles() != after.roles() {
        state.roles = Some(Roles::clone(after.roles()));
    }
    if !Arc::ptr_eq(before.rights(), after.rights()) {
        state.rights = Some(after.rights().lasting()).filter(|lasting| *lasting != before.rights().lasting());
    }
    let is_gone = |name: &Name| after.get(name).is_none() && lasts(name);
    state.removed = before.entries().filter(|(name, _)| is_gone(name)).map(|(name, _)| of(name)).collect();
    for (name, entry) in after.entries().filter(|(name, _)| lasts(name)) {
        let what = match (entry, before.get(name)) {
            (Entry::View(new), Some(Entry::View(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::External(new), Some(Entry::External(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Sequence(new), Some(Entry::Sequence(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Type(new), Some(Entry::Type(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Function(new), Some(Entry::Function(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Domain(new), Some(Entry::Domain(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Table(new), Some(Entry::Table(old))) if Arc::ptr_eq(new, old) => continue,
            (Entry::Table(table), known) => {
                let old = before.by_id(table.id);
                let has_same_rows = old.is_some_and(|old| has_same_rows(old, table));
                let has_rows = table.base.segments().next().is_some() || has_delta(table);
                if !has_same_rows && has_rows {
                    return Ok(Difference::Rows);
                }
                let is_same_name = matches!(known, Some(Entry::Table(known)) if known.id == table.id);
                if is_same_name && has_same_rows && old.is_some_and(|old| is_defined_alike(old, table)) {
                    continue;
                }
                let rows = if has_same_rows { None } else { Some(Content::default()) };
                What::Table(Box::new(definition(table, rows, &mut blobs)?))
            }
            (other, _) => plain(other, &mut blobs)?,
        };
        state.put.push(Put { name: of(name), what, comments: comments_of(entry) });
    }
    let is_nothing = state.schemas.is_none()
        && state.settings.is_none()
        && state.roles.is_none()
        && state.rights.is_none()
        && state.removed.is_empty()
        && state.put.is_empty();
    Ok(if is_nothing { Difference::Nothing } else { Difference::Record(Box::new(state), blobs) })
}

/// All of a state, whose segments a checkpoint takes.
///
/// # Errors
/// As [`difference`]; those of `keep`; no memory to encode what deltas have.
pub(super) fn whole(all: &CatalogState, next: Next, keep: &mut Keep<'_>) -> Result<(State, BlobsWriter)> {
    let settings = Some(BTreeMap::clone(all.settings()));
    let roles = (!all.roles().is_untouched()).then(|| Roles::clone(all.roles()));
    let rights = Some(all.rights().lasting()).filter(|rights| !rights.is_empty());
    let mut state = State { next, schemas: Some(schemas(all)), settings, roles, rights, ..State::default() };
    let mut blobs = BlobsWriter::default();
    for (name, entry) in all.entries().filter(|(name, _)| lasts(name)) {
        let what = match entry {
            Entry::Table(table) => {
                let rows = content(table, &mut blobs, keep)?;
                What::Table(Box::new(definition(table, Some(rows), &mut blobs)?))
            }
            other => plain(other, &mut blobs)?,
        };
        state.put.push(Put { name: of(name), what, comments: comments_of(entry) });
    }
    Ok((state, blobs))
}

fn comments_of(entry: &Entry) -> Vec<CommentOf> {
    let comment = |(part, text): (Option<(Part, &str)>, &str)| CommentOf {
        part: part.map(|(part, name)| (part.sql().into(), name.into())),
        text: text.into(),
    };
    entry.comments().all().map(comment).collect()
}

/// Whether something outlives sessions.
fn lasts(name: &Name) -> bool {
    !is_temporary(&name.schema)
}

fn schemas(state: &CatalogState) -> Vec<String> {
    state.schemas().filter(|schema| !is_temporary(schema)).map(str::to_string).collect()
}

/// What a name stands for that is no table of ours.
fn plain(entry: &Entry, blobs: &mut BlobsWriter) -> Result<What> {
    match entry {
        Entry::View(view) => Ok(What::View { sql: view.sql.clone(), columns: view.columns.clone(), check: view.check }),
        Entry::External(files) => Ok(What::External(external(files, blobs)?)),
        Entry::Sequence(sequence) => Ok(What::Sequence(sequence_of(sequence))),
        Entry::Type(found) => Ok(What::Enum(EnumType::clone(&found.of))),
        Entry::Function(found) => Ok(What::Function(MadeFunction::clone(&found.of))),
        Entry::Domain(found) => Ok(What::Domain(domain(found))),
        Entry::Table(_) => Err(Error::Internal("a table is no plain entry".into())),
    }
}

fn domain(of: &DomainEntry) -> Domain {
    Domain {
        id: of.id(),
        base: of.base.clone(),
        over: of.over,
        default: of
            .default()
            .map(|default| Rule { text: default.text.to_string(), zone: default.zone.as_deref().map(str::to_string) }),
        is_required: of.is_required(),
        checks: of.of.rules.checks.iter().map(check).collect(),
    }
}

fn sequence_of(sequence: &SequenceEntry) -> Sequence {
    let SequenceSpec { data_type, start, increment, min, max, cache, cycle } = sequence.spec;
    // The log is told of its values behind this record.
    let at = sequence.values.to_be_kept();
    Sequence {
        id: sequence.id,
        data_type: data_type.sql().into(),
        start,
        increment,
        min,
        max,
        cache,
        cycle,
        owner: sequence.owner.as_ref().map(|owner| (owner.table, owner.column.clone())),
        last: (at.last, at.is_called),
    }
}

fn rule(expression: &RowExpression) -> Rule {
    Rule { text: expression.text.to_string(), zone: expression.zone.as_ref().map(|zone| zone.to_string()) }
}

fn deferral(of: Deferral) -> Option<String> {
    (of != Deferral::Never).then(|| of.sql().into())
}

fn foreign_key(key: &ForeignKey) -> ForeignKeyOf {
    ForeignKeyOf {
        name: key.name.clone(),
        columns: key.columns.clone(),
        to: key.to,
        to_columns: key.to_columns.clone(),
        on_delete: key.on_delete.sql().into(),
        on_update: key.on_update.sql().into(),
        is_full: key.is_full,
        deferral: deferral(key.deferral),
    }
}

fn check(check: &Check) -> CheckOf {
    CheckOf { name: check.name.clone(), condition: rule(&check.condition), is_valid: check.is_valid }
}

/// Whether the table has a delta with something in it.
fn has_delta(table: &TableEntry) -> bool {
    table.delta.as_ref().is_some_and(|delta| !delta.rows.is_empty())
}

fn of(name: &Name) -> NameOf {
    NameOf { schema: name.schema.clone(), name: name.table.clone() }
}

/// Whether the rows are those of the same objects; a delta that only begins has none.
fn has_same_rows(old: &TableEntry, new: &TableEntry) -> bool {
    let same_delta = match (&old.delta, &new.delta) {
        (Some(old), Some(new)) => Arc::ptr_eq(&old.rows, &new.rows),
        (None, Some(new)) => new.rows.is_empty(),
        (old, None) => old.is_none(),
    };
    // Indexes are no part of what is kept.
    let segments = |version: &TableVersion| -> Vec<(Vec<_>, Option<*const _>)> {
        let of = |version: &SegmentVersion| {
            let columns = version.segment.stored_columns().iter().map(StoredColumn::id).collect();
            (columns, version.deleted.as_ref().map(Arc::as_ptr))
        };
        version.segments().map(of).collect()
    };
    let parts = |version: &TableVersion| version.parts.iter().map(|part| part.segments.len()).collect::<Vec<_>>();
    let same_base = Arc::ptr_eq(&old.base, &new.base)
        || (parts(&old.base) == parts(&new.base) && segments(&old.base) == segments(&new.base));
    same_base && same_delta
}

/// Whether all but the rows is the same.
fn is_defined_alike(old: &TableEntry, new: &TableEntry) -> bool {
    old.name == new.name
        && old.base.schema == new.base.schema
        && old.defaults == new.defaults
        && old.lengths == new.lengths
        && old.rules == new.rules
        && old.indexes == new.indexes
        && old.comments == new.comments
        && old.materialized == new.materialized
        && old.placement.is_kept_alike(&new.placement)
}

/// A table's definition, and its rows where they are given.
fn definition(table: &TableEntry, rows: Option<Content>, blobs: &mut BlobsWriter) -> Result<Table> {
    // In the order of their names, so that the same table is written the same.
    let defaults: BTreeMap<_, _> = table.defaults.iter().collect();
    let text = |(column, default): (&&String, &&ColumnDefault)| ((*column).clone(), default.text.to_string());
    let zone =
        |(column, default): (&&String, &&ColumnDefault)| Some(((*column).clone(), default.zone.as_ref()?.to_string()));
    let lengths: BTreeMap<_, _> = table.lengths.iter().collect();
    let kept = table.placement.kept();
    let bounds = kept.bounds.map(|(values, shared)| Ok::<_, Error>((blobs.add_array(&values)?, shared))).transpose()?;
    Ok(Table {
        id: table.id,
        schema: blobs.add_schema(&table.base.schema)?,
        defaults: defaults.iter().map(text).collect(),
        zones: defaults.iter().filter_map(zone).collect(),
        lengths: lengths.into_iter().map(|(column, length)| (column.clone(), length.sql())).collect(),
        generated: table.rules.generated.iter().map(|(column, of)| (column.clone(), rule(of))).collect(),
        checks: table.rules.checks.iter().map(check).collect(),
        foreign_keys: table.rules.foreign_keys.iter().map(foreign_key).collect(),
        identities: table.rules.identities.iter().map(|(column, always)| (column.clone(), *always)).collect(),
        domains: table.rules.domains.iter().map(|(column, domain)| (column.clone(), domain.id)).collect(),
        indexes: table.indexes.iter().map(index).collect(),
        query: table.materialized.as_deref().map(query),
        placement: Placement {
            text: kept.text,
            first_turn: kept.first_turn,
            turns: kept.turns,
            by_placer: kept.by_placer,
            bounds,
        },
        rows,
    })
}

fn query(of: &Materialized) -> QueryOf {
    QueryOf { sql: of.sql.clone(), is_populated: of.is_populated }
}

fn index(index: &IndexEntry) -> Index {
    let origin = match index.origin {
        Origin::PrimaryKey => "primary key",
        Origin::Unique => "unique",
        Origin::Created => "created",
    };
    Index {
        name: index.name.clone(),
        columns: index.columns.clone(),
        unique: index.unique,
        origin: origin.to_string(),
        deferral: deferral(index.deferral),
    }
}

/// A table's rows: its segments, without those of its delta that died, and the rows of the delta.
fn content(table: &TableEntry, blobs: &mut BlobsWriter, keep: &mut Keep<'_>) -> Result<Content> {
    let (view, whole) = match &table.delta {
        Some(delta) => {
            let (view, whole) = table.view_and_whole(delta, u64::MAX)?;
            (Some(view), whole)
        }
        None => (None, Arc::clone(&table.base)),
    };
    let places = view.as_ref().map(|view| view.places(&table.base));
    let mut content = Content::default();
    let mut first = 0;
    for (part, of_part) in whole.parts.iter().enumerate() {
        let of_base = table.base.parts.get(part).map_or(0, |part| part.segments.len());
        let mut segments = Vec::with_capacity(of_base);
        for version in &of_part.segments[..of_base.min(of_part.segments.len())] {
            let number = keep(&version.segment)?;
            let deleted = version.deleted.as_ref().filter(|deleted| deleted.count() > 0);
            let deleted = deleted.map(|deleted| blobs.add(&persist::deleted_to_bytes(deleted)));
            segments.push(SegmentOf { number, deleted });
        }
        content.parts.push(segments);
        for (place, version) in of_part.segments.iter().enumerate().skip(of_base) {
            let number = |row: u32| match places.as_ref().map(|places| places.of(first + place, row)) {
                Some(Ok(TableRow::Delta { row })) => Ok(row),
                _ => Err(Error::Internal("a row of a delta that is none".into())),
            };
            content.delta.extend(delta_piece(table, version, &number, blobs)?);
        }
        first += of_part.segments.len();
    }
    Ok(content)
}

/// The live rows of a segment that a delta's rows were made into; `None` where there are none.
fn delta_piece(
    table: &TableEntry,
    version: &SegmentVersion,
    number: &dyn Fn(u32) -> Result<u32>,
    blobs: &mut BlobsWriter,
) -> Result<Option<DeltaPiece>> {
    let rows: Vec<u32> =
        (0..version.segment.rows()).filter(|row| version.is_live(*row)).map(|row| row as u32).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let columns = version.segment.columns().map(|column| column.take(&rows)).collect();
    let batch = RecordBatch::try_new(Arc::clone(&table.base.schema), columns)?;
    let mut numbers = Vec::with_capacity(4 * rows.len());
    for row in rows {
        numbers.extend_from_slice(&number(row)?.to_le_bytes());
    }
    Ok(Some(DeltaPiece { numbers: blobs.add(&numbers), rows: blobs.add_batch(&batch)? }))
}

/// A table in files.
fn external(files: &ExternalEntry, blobs: &mut BlobsWriter) -> Result<External> {
    let ReadOptions { format, compression, delimiter, quote, header, null, types, columns, batch_rows: _ } =
        files.options.clone();
    let field = |(name, data_type): (String, DataType)| Field::new(name, data_type, true);
    let types = blobs.add_schema(&Schema::new(types.into_iter().map(field).collect::<Vec<_>>()))?;
    Ok(External { path: files.path.clone(), format, compression, delimiter, quote, header, null, types, columns })
}
