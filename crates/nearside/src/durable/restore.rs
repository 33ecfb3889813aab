//! A database from its folder: the last checkpoint, and what the log says came after it.
//!
//! Records are applied to a picture of the catalog in which rows are places on the disk, numbers and arrow batches;
//! tables are made of what is left in the end, so that nothing is loaded that a later record takes away. Rows of deltas
//! become segments, indexes are built; other columns stay on the disk until they are read.
//!
//! # Invariants
//! The same names, definitions and rows as when the last record was told. Nothing is believed that does not fit: a
//! record of a table, row or segment that is not there is an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use files::ReadOptions;
use log_store::Folder;
use storage::persist::{ReadBackError, deleted_from_bytes};
use storage::{DeletedRows, Part, RowsToDelete, SegmentVersion, TableRow, TableVersion, UnreadColumns};

use crate::catalog::check_option::CheckOption;
use crate::catalog::comments::{self, Comments};
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::{IndexEntry, IndexedTable, Origin, indexed};
use crate::catalog::journal::Position;
use crate::catalog::lengths::Length;
use crate::catalog::made_functions::{FunctionEntry, MadeFunction};
use crate::catalog::materialized::Materialized;
use crate::catalog::placement::KeptPlacement;
use crate::catalog::rights::AllRights;
use crate::catalog::roles::Roles;
use crate::catalog::rules::{Check, Deferral, ForeignKey, OnChange, RowRules};
use crate::catalog::sequences::{SequenceEntry, SequenceOwner, SequenceSpec, SequenceType, SequenceValues};
use crate::catalog::user_types::{EnumType, TypeEntry};
use crate::catalog::{CatalogState, DEFAULT_SCHEMA, ExternalEntry, Name, TableEntry, ViewEntry};
use crate::durable::record::{
    Blobs, CheckOf, CommentOf, Content, Domain, External, ForeignKeyOf, Index, NameOf, Next, Placement, QueryOf,
    Record, Rows, Rule, SegmentOf, Sequence, State, Table, What, read,
};
use crate::durable::rest::malformed;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::statements::write::stage;
use crate::statements::{defaults, domains, rules};

/// Batches of a table's delta that are kept apart; of more, those rows that live are put together.
const BATCHES_MAX: usize = 4096;

/// What exists as of some record.
#[derive(Debug, Default)]
pub(super) struct Picture {
    schemas: BTreeSet<String>,
    names: BTreeMap<NameOf, Named>,
    tables: HashMap<u64, TableOf>,
    sequences: HashMap<u64, Sequence>,
    settings: BTreeMap<String, String>,
    roles: Roles,
    rights: AllRights,
    /// What was said of what names stand for.
    comments: BTreeMap<NameOf, Vec<CommentOf>>,
    next: Next,
}

#[derive(Debug)]
enum Named {
    Table(u64),
    View { sql: String, columns: Vec<String>, check: Option<CheckOption> },
    External(ExternalEntry),
    Sequence(u64),
    Enum(EnumType),
    Domain(Domain),
    Function(MadeFunction),
}

/// A table whose rows are not loaded.
#[derive(Debug)]
struct TableOf {
    schema: SchemaRef,
    defaults: Vec<(String, String)>,
    zones: Vec<(String, String)>,
    lengths: Vec<(String, String)>,
    generated: Vec<(String, Rule)>,
    checks: Vec<CheckOf>,
    foreign_keys: Vec<ForeignKeyOf>,
    identities: Vec<(String, bool)>,
    domains: Vec<(String, u64)>,
    indexes: Vec<Index>,
    query: Option<QueryOf>,
    placement: KeptPlacement,
    segments: Vec<SegmentAt>,
    parts: usize,
    delta: DeltaOf,
}

/// A segment on the disk.
#[derive(Debug)]
struct SegmentAt {
    part: usize,
    /// In the checkpoint.
    number: usize,
    deleted: Option<Arc<DeletedRows>>,
    /// Rows that died since.
    dead: Vec<u32>,
}

/// Rows of a delta, by their numbers: which batch, and which row of it.
#[derive(Debug, Default)]
struct DeltaOf {
    batches: Vec<RecordBatch>,
    rows: BTreeMap<u32, (usize, usize)>,
}

impl Named {
    fn domain(&self) -> Option<&Domain> {
        match self {
            Named::Domain(of) => Some(of),
            _ => None,
        }
    }
}

impl Picture {
    /// An empty database.
    pub(super) fn empty() -> Picture {
        Picture { schemas: [DEFAULT_SCHEMA.to_string()].into(), ..Picture::default() }
    }

    /// Does what a record says.
    ///
    /// # Errors
    /// It is none, or does not fit what is there.
    pub(super) fn apply(&mut self, bytes: &[u8], running: &RunningStatement) -> Result<()> {
        let schema_of = |table: u64| self.tables.get(&table).map(|table| Arc::clone(&table.schema));
        match read(bytes, &schema_of)? {
            Record::State(state, blobs) => self.apply_state(state, blobs, running),
            Record::Rows(rows) => rows.into_iter().try_for_each(|rows| self.apply_rows(rows)),
            Record::Sequence(id, at) => {
                // Of one that was dropped meanwhile somebody may have taken a value still.
                if let Some(sequence) = self.sequences.get_mut(&id) {
                    sequence.last = (at.last, at.is_called);
                }
                Ok(())
            }
        }
    }

    fn apply_state(&mut self, state: State, blobs: Blobs<'_>, running: &RunningStatement) -> Result<()> {
        self.next = state.next;
        if let Some(schemas) = state.schemas {
            self.schemas = schemas.into_iter().collect();
        }
        self.settings = state.settings.unwrap_or_else(|| std::mem::take(&mut self.settings));
        self.roles = state.roles.unwrap_or_else(|| std::mem::take(&mut self.roles));
        self.rights = state.rights.unwrap_or_else(|| std::mem::take(&mut self.rights));
        for name in &state.removed {
            self.comments.remove(name);
            self.names.remove(name).ok_or_else(|| malformed(&format!("'{}' is not there to be removed", name.name)))?;
        }
        for put in state.put {
            let named = match put.what {
                What::View { sql, columns, check } => Named::View { sql, columns, check },
                What::External(external) => Named::External(external_of(external, blobs)?),
                What::Sequence(sequence) => {
                    let id = sequence.id;
                    self.sequences.insert(id, sequence);
                    Named::Sequence(id)
                }
                What::Enum(of) => Named::Enum(of),
                What::Function(of) => Named::Function(of),
                What::Domain(of) => Named::Domain(of),
                What::Table(table) => {
                    let id = table.id;
                    let before = self.tables.remove(&id);
                    self.tables.insert(id, TableOf::new(*table, before, blobs, running)?);
                    Named::Table(id)
                }
            };
            match put.comments.is_empty() {
                true => drop(self.comments.remove(&put.name)),
                false => drop(self.comments.insert(put.name.clone(), put.comments)),
            }
            self.names.insert(put.name, named);
        }
        // A table without a name is gone; one that was renamed has another.
        let named: BTreeSet<u64> = self.names.values().filter_map(Named::table).collect();
        self.tables.retain(|id, _| named.contains(id));
        let named: BTreeSet<u64> = self.names.values().filter_map(Named::sequence).collect();
        self.sequences.retain(|id, _| named.contains(id));
        Ok(())
    }

    fn apply_rows(&mut self, rows: Rows) -> Result<()> {
        let table =
            self.tables.get_mut(&rows.table).ok_or_else(|| malformed("a table that is not there is written"))?;
        for dead in &rows.dead {
            match *dead {
                TableRow::Base { segment, row } => {
                    let segment = table.segments.get_mut(segment as usize);
                    segment.ok_or_else(|| malformed("a row of a segment that is not there died"))?.dead.push(row);
                }
                TableRow::Delta { row } => {
                    let gone = table.delta.rows.remove(&row);
                    gone.ok_or_else(|| malformed("a row that is not there died"))?;
                }
            }
        }
        for (first, batch) in rows.added {
            table.delta.add((0..).map(|row| first.wrapping_add(row)), batch)?;
        }
        Ok(())
    }

    /// Whether a table has rows that become segments.
    pub(super) fn has_deltas(&self) -> bool {
        self.tables.values().any(|table| !table.delta.rows.is_empty())
    }

    /// Settings of the database that are not at their defaults.
    pub(super) fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// What new tables begin with.
    pub(super) fn next(&self) -> Next {
        self.next
    }

    /// Makes it what exists, in a state without anything.
    ///
    /// # Errors
    /// Files that are missing or damaged, no memory: of which table.
    pub(super) fn load(self, folder: &Arc<Folder>, running: &Arc<RunningStatement>) -> Result<CatalogState> {
        self.fits(folder, running)?;
        let mut state = CatalogState::clone(&running.catalog);
        self.settings.iter().for_each(|(name, value)| state.set_setting(name, Some(value)));
        *state.roles_mut() = self.roles.clone();
        self.schemas.iter().filter(|schema| *schema != DEFAULT_SCHEMA).for_each(|schema| {
            state.create_schema(schema);
        });
        if !self.schemas.contains(DEFAULT_SCHEMA) {
            return Err(malformed("the schema of names without one is gone"));
        }
        // Defaults and conditions of tables may cast to types and call functions.
        for (name, named) in &self.names {
            if let Named::Function(of) = named {
                let key = Name { schema: name.schema.clone(), table: name.name.clone() };
                let of = Arc::new(of.clone());
                state.put_function(key, Arc::new(FunctionEntry { of, comments: Arc::default() }))?;
            }
            if let Named::Enum(of) = named {
                let name = Name { schema: name.schema.clone(), table: name.name.clone() };
                let of = Arc::new(of.clone());
                state.put_type(name, Arc::new(TypeEntry { of, comments: Arc::default() }))?;
            }
        }
        let of_domains = self.names.iter().filter_map(|(name, of)| Some((name, of.domain()?)));
        let mut domains: Vec<(&NameOf, &Domain)> = of_domains.collect();
        domains.sort_by_key(|(_, domain)| domain.id);
        for (name, domain) in domains {
            let running = &Arc::new(running.over(running.catalog.over(Arc::new(state.clone()))));
            let name = Name { schema: name.schema.clone(), table: name.name.clone() };
            state.put_domain(name.clone(), Arc::new(domain_of(name, domain, running)?))?;
        }
        let running = &Arc::new(running.over(running.catalog.over(Arc::new(state.clone()))));
        let (mut tables, mut sequences) = (self.tables, self.sequences);
        for (name, named) in self.names {
            let name = Name { schema: name.schema, table: name.name };
            match named {
                Named::View { sql, columns, check } => {
                    state.put_view(name, Arc::new(ViewEntry { sql, columns, check, comments: Arc::default() }))?
                }
                Named::External(files) => state.put_external(name, Arc::new(files))?,
                Named::Sequence(id) => {
                    let sequence = sequences.remove(&id).ok_or_else(|| malformed("a name stands for no sequence"))?;
                    state.put_sequence(name, Arc::new(sequence_of(sequence)?))?;
                }
                Named::Enum(_) | Named::Function(_) | Named::Domain(_) => {}
                Named::Table(id) => {
                    let table = tables.remove(&id).ok_or_else(|| malformed("a name stands for no table"))?;
                    let loaded = table.load(id, &name, folder, running);
                    let loaded = loaded.map_err(|error| match error {
                        Error::Memory(text) => Error::Memory(format!("table '{}': {text}", name.shown())),
                        // What is read of it says so itself.
                        told @ Error::Disk(_) if told.to_string().starts_with("table '") => told,
                        other => Error::disk(SqlState::DataCorrupted, format!("table '{}': {other}", name.shown())),
                    })?;
                    state.put_table(name, loaded)?;
                }
            }
        }
        for (name, comments) in &self.comments {
            let name = Name { schema: name.schema.clone(), table: name.name.clone() };
            state.set_comments(&name, comments_of(comments)?);
        }
        state.set_rights(Arc::new(self.rights));
        Ok(state)
    }
}

impl Picture {
    /// Whether there is memory for all that will be loaded, before any of it is. Files of data have columns as they lie
    /// in memory.
    ///
    /// # Errors
    /// There is not: what is needed, and by which tables most.
    fn fits(&self, folder: &Arc<Folder>, running: &RunningStatement) -> Result<()> {
        let allocator = running.home.allocator();
        let Some(available) = allocator.budget().and_then(|budget| budget.available_bytes()) else { return Ok(()) };
        let mut all = BTreeMap::new();
        let mut tables = Vec::new();
        for (name, named) in &self.names {
            let Some(table) = named.table().and_then(|id| self.tables.get(&id)) else { continue };
            let segments = table.segments.iter().filter(|at| at.number < folder.segments());
            let files: BTreeMap<u64, u64> = segments.flat_map(|at| folder.segment_files(at.number)).collect();
            let of_delta: usize = table.delta.batches.iter().map(RecordBatch::get_array_memory_size).sum();
            let name = Name { schema: name.schema.clone(), table: name.name.clone() };
            tables.push((files.values().sum::<u64>() + of_delta as u64, name.shown()));
            all.extend(files);
        }
        let needed: u64 = all.values().sum();
        if needed <= available {
            return Ok(());
        }
        tables.sort_unstable_by(|a, b| b.cmp(a));
        let largest: Vec<String> =
            tables.iter().take(3).map(|(bytes, name)| format!("'{name}' {} MiB", bytes >> 20)).collect();
        Err(Error::Memory(format!(
            "the tables of {} need {} MiB of memory and more for indexes, there are {} MiB (most: {}); open it with a \
             larger budget of memory, or on a machine with more",
            folder.path().display(),
            needed.div_ceil(1 << 20),
            available >> 20,
            largest.join(", ")
        )))
    }
}

impl Named {
    fn table(&self) -> Option<u64> {
        match self {
            Named::Table(id) => Some(*id),
            _ => None,
        }
    }

    fn sequence(&self) -> Option<u64> {
        match self {
            Named::Sequence(id) => Some(*id),
            _ => None,
        }
    }
}

impl DeltaOf {
    fn add(&mut self, numbers: impl Iterator<Item = u32>, batch: RecordBatch) -> Result<()> {
        let place = self.batches.len();
        for (row, number) in numbers.take(batch.num_rows()).enumerate() {
            if self.rows.insert(number, (place, row)).is_some() {
                return Err(malformed("two rows have one number"));
            }
        }
        self.batches.push(batch);
        if self.batches.len() > BATCHES_MAX {
            let live = self.live()?;
            self.rows.values_mut().enumerate().for_each(|(row, place)| *place = (0, row));
            self.batches = live.into_iter().collect();
        }
        Ok(())
    }

    /// The rows that live, in the order of their numbers.
    fn live(&self) -> Result<Option<RecordBatch>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let places: Vec<(usize, usize)> = self.rows.values().copied().collect();
        Ok(Some(interleave_record_batch(&batches, &places)?))
    }
}

impl TableOf {
    fn new(table: Table, before: Option<TableOf>, blobs: Blobs<'_>, running: &RunningStatement) -> Result<TableOf> {
        let Placement { text, first_turn, turns, by_placer, bounds } = table.placement;
        let array = |(blob, shared)| Ok::<(ArrayRef, bool), Error>((blobs.array(blob)?, shared));
        let bounds = bounds.map(array).transpose()?;
        let mut made = TableOf {
            schema: blobs.schema(table.schema)?,
            defaults: table.defaults,
            zones: table.zones,
            lengths: table.lengths,
            generated: table.generated,
            checks: table.checks,
            foreign_keys: table.foreign_keys,
            identities: table.identities,
            domains: table.domains,
            indexes: table.indexes,
            query: table.query,
            placement: KeptPlacement { text, first_turn, turns, by_placer, bounds },
            segments: Vec::new(),
            parts: 0,
            delta: DeltaOf::default(),
        };
        match (table.rows, before) {
            (Some(content), _) => made.set_rows(content, blobs, running)?,
            (None, Some(before)) => {
                let TableOf { segments, parts, delta, .. } = before;
                (made.segments, made.parts, made.delta) = (segments, parts, delta);
            }
            (None, None) => return Err(malformed("a table goes on with rows that it never had")),
        }
        Ok(made)
    }

    fn set_rows(&mut self, content: Content, blobs: Blobs<'_>, running: &RunningStatement) -> Result<()> {
        self.parts = content.parts.len();
        let allocator = running.home.allocator();
        for (part, segments) in content.parts.into_iter().enumerate() {
            for SegmentOf { number, deleted } in segments {
                let deleted = deleted.map(|blob| deleted_from_bytes(blobs.get(blob)?, &allocator).map_err(of_bytes));
                self.segments.push(SegmentAt { part, number, deleted: deleted.transpose()?, dead: Vec::new() });
            }
        }
        for piece in content.delta {
            let (numbers, batch) = (blobs.numbers(piece.numbers)?, blobs.batch(piece.rows)?);
            if numbers.len() != batch.num_rows() {
                return Err(malformed("rows have more or fewer numbers than there are"));
            }
            self.delta.add(numbers.into_iter(), batch)?;
        }
        Ok(())
    }

    /// The table in memory.
    fn load(self, id: u64, name: &Name, folder: &Arc<Folder>, running: &Arc<RunningStatement>) -> Result<IndexedTable> {
        let mut table = running.home.restored_table(id, name.clone(), &self.schema, &self.placement)?;
        table.lengths = Arc::new(self.lengths.iter().map(length).collect::<Result<_>>()?);
        table.defaults = Arc::new(self.planned_defaults(running)?);
        table.indexes = Arc::new(self.indexes.iter().map(index).collect::<Result<_>>()?);
        let of = |QueryOf { sql, is_populated }: QueryOf| Arc::new(Materialized { sql, is_populated });
        table.materialized = self.query.clone().map(of);
        table.base = Arc::new(self.segments(&table, folder, running.home.unread())?);
        // Indexes are built over them now.
        let indexed_columns: BTreeSet<&String> = table.indexes.iter().flat_map(|index| &index.columns).collect();
        table.load(|column| indexed_columns.contains(self.schema.field(column).name()), running)?;
        if let Some(rows) = self.delta.live()? {
            let new = stage(std::iter::once(Ok(rows)), &table, running)?;
            table = new.appended_to(&table, &table.base);
        }
        // The rows that are there were looked at when they were written.
        table.rules = Arc::new(self.planned_rules(&table, running)?);
        indexed(table, running)
    }

    fn planned_rules(&self, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<RowRules> {
        let planned = |rule: &Rule| rules::kept(table, (&rule.text, rule.zone.as_deref()), running);
        let mut all = RowRules { identities: self.identities.iter().cloned().collect(), ..RowRules::default() };
        for (column, id) in &self.domains {
            let (_, domain) =
                running.catalog.domain_of(*id).ok_or_else(|| malformed("a column is of a domain that is not there"))?;
            all.domains.insert(column.clone(), Arc::new(running.catalog.rules_of_domain(domain)));
        }
        for (column, rule) in &self.generated {
            let field = self.schema.field_with_name(column)?;
            all.generated
                .insert(column.clone(), rules::computing(table, (&rule.text, rule.zone.as_deref()), field, running)?);
        }
        for CheckOf { name, condition, is_valid } in &self.checks {
            all.add(Check { name: name.clone(), condition: planned(condition)?, is_valid: *is_valid });
        }
        for key in &self.foreign_keys {
            let action = |text: &str| {
                OnChange::of(text).ok_or_else(|| malformed(&format!("'{text}' is nothing that a foreign key does")))
            };
            all.refer(ForeignKey {
                name: key.name.clone(),
                columns: key.columns.clone(),
                to: key.to,
                to_columns: key.to_columns.clone(),
                on_delete: action(&key.on_delete)?,
                on_update: action(&key.on_update)?,
                is_full: key.is_full,
                deferral: deferral(key.deferral.as_deref())?,
            });
        }
        Ok(all)
    }

    fn planned_defaults(&self, running: &Arc<RunningStatement>) -> Result<HashMap<String, ColumnDefault>> {
        let default = |(column, text): &(String, String)| {
            let field = self.schema.field_with_name(column)?;
            let zone = self.zones.iter().find(|(of, _)| of == column).map(|(_, zone)| zone.as_str());
            Ok((column.clone(), defaults::kept(field, (text, zone), running)?))
        };
        self.defaults.iter().map(default).collect()
    }

    /// Its segments, whose columns stay on the disk until they are read.
    fn segments(&self, table: &TableEntry, folder: &Arc<Folder>, unread: &UnreadColumns) -> Result<TableVersion> {
        let columns = self.schema.fields().len();
        let is_there = |at: &SegmentAt| at.number < folder.segments() && folder.segment_shape(at.number).1 == columns;
        if !self.segments.iter().all(is_there) {
            return Err(malformed("a segment is not in the checkpoint, or has other columns than its table"));
        }
        let allocator = table.meta.allocator();
        let mut parts: Vec<Part> = vec![Part::default(); self.parts];
        let mut deletes = Vec::new();
        for at in &self.segments {
            let part = &mut parts[at.part];
            let place = part.segments.len();
            let allocators = table.placement.allocators(at.part, place, &self.schema, &allocator);
            let segment = folder.segment(at.number, allocators, place, &[&table.meta.unread, unread])?;
            if at.deleted.as_ref().is_some_and(|deleted| deleted.rows() != segment.rows()) {
                return Err(malformed("deleted rows of a segment of another length"));
            }
            deletes.push(RowsToDelete { part: at.part, segment: place, rows: at.dead.clone() });
            part.segments.push(SegmentVersion { segment: Arc::new(segment), deleted: at.deleted.clone() });
        }
        let base = table.base.with_parts(parts.into_iter().map(Arc::new).collect());
        Ok(base.with_deleted(&deletes, &allocator)?)
    }
}

/// The table of a segment of a checkpoint, where its catalog can be read.
pub(super) fn table_of(segment: usize, catalog: &[u8]) -> Option<String> {
    let Ok(Record::State(state, _)) = read(catalog, &|_| None) else { return None };
    let has = |table: &Table| {
        let segments = table.rows.iter().flat_map(|rows| rows.parts.iter().flatten());
        segments.into_iter().any(|of| of.number == segment)
    };
    state.put.into_iter().find_map(|put| match put.what {
        What::Table(table) if has(&table) => Some(Name { schema: put.name.schema, table: put.name.name }.shown()),
        _ => None,
    })
}

fn length((column, text): &(String, String)) -> Result<(String, Length)> {
    let length = Length::of_text(text).ok_or_else(|| malformed(&format!("'{text}' is no length")))?;
    Ok((column.clone(), length))
}

fn index(index: &Index) -> Result<IndexEntry> {
    let origin = match index.origin.as_str() {
        "primary key" => Origin::PrimaryKey,
        "unique" => Origin::Unique,
        "created" => Origin::Created,
        other => return Err(malformed(&format!("'{other}' is no origin of an index"))),
    };
    let entry = IndexEntry::new(index.name.clone(), index.columns.clone(), index.unique, origin);
    Ok(match deferral(index.deferral.as_deref())? {
        Deferral::Never => entry,
        late => entry.deferrable(late),
    })
}

fn deferral(text: Option<&str>) -> Result<Deferral> {
    text.map_or(Ok(Deferral::Never), |text| {
        Deferral::of(text).ok_or_else(|| malformed(&format!("'{text}' is no time to look at a key")))
    })
}

fn domain_of(name: Name, of: &Domain, running: &Arc<RunningStatement>) -> Result<DomainEntry> {
    let text = |rule: &Rule| (rule.text.clone(), rule.zone.clone());
    let checks = of.checks.iter().map(|check| (check.name.clone(), text(&check.condition), check.is_valid));
    let kept = domains::Kept {
        id: of.id,
        base: of.base.clone(),
        over: of.over,
        default: of.default.as_ref().map(text),
        is_required: of.is_required,
        checks: checks.collect(),
    };
    domains::kept(name, kept, running)
}

fn comments_of(all: &[CommentOf]) -> Result<Comments> {
    let mut comments = Comments::default();
    for CommentOf { part, text } in all {
        let part = match part {
            None => None,
            Some((part, name)) => {
                let of = comments::Part::of(part)
                    .ok_or_else(|| malformed(&format!("'{part}' is nothing that has a comment")))?;
                Some((of, name.as_str()))
            }
        };
        comments.set(part, Some(text));
    }
    Ok(comments)
}

fn sequence_of(sequence: Sequence) -> Result<SequenceEntry> {
    let Sequence { id, data_type, start, increment, min, max, cache, cycle, owner, last: (last, is_called) } = sequence;
    let data_type =
        SequenceType::of(&data_type).ok_or_else(|| malformed(&format!("'{data_type}' is no sequence's")))?;
    if increment == 0 || min > max {
        return Err(malformed("a sequence that has no values"));
    }
    Ok(SequenceEntry {
        id,
        spec: SequenceSpec { data_type, start, increment, min, max, cache, cycle },
        owner: owner.map(|(table, column)| SequenceOwner { table, column }),
        values: SequenceValues::at(Position { last, is_called }),
        comments: Arc::default(),
    })
}

fn external_of(external: External, blobs: Blobs<'_>) -> Result<ExternalEntry> {
    let External { path, format, compression, delimiter, quote, header, null, types, columns } = external;
    let types = blobs.schema(types)?;
    let types: Vec<(String, DataType)> =
        types.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let options =
        ReadOptions { format, compression, delimiter, quote, header, null, types, columns, ..Default::default() };
    Ok(ExternalEntry { path, options, comments: Arc::default() })
}

fn of_bytes(error: ReadBackError) -> Error {
    match error {
        ReadBackError::Store(error) => error.into(),
        other => malformed(&other.to_string()),
    }
}
