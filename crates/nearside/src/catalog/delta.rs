//! What small statements have written to a table since its rows were last merged, and where its keys are.
//!
//! A table is its *base*, segments that never change, and maybe a *delta*: rows that were added, in order, and rows
//! that died. A small statement adds to the delta and encodes nothing, several at the same time; a scan sees base and
//! delta as one ([`TableEntry::whole`]), up to its version; a statement that writes much merges both first, and a delta
//! that is large, or that nobody writes for a while, is merged beside the statements that go on
//! ([`crate::catalog::merges`]). Units keep the keys of the delta's rows, an object for each unique index; keys of the
//! base are found in its indexes. All of a delta, its keys included, is of one *generation*: merging begins another,
//! with what was written while it went on, and whoever reads an older state of the catalog has the older one.
//!
//! Invariants: rows become visible in the same moment as their keys, by one version of the units
//! ([`SmallStatement::commit`]); a key that a delta's row has and that a row of the base had is found in the delta, and
//! the base's row is dead; of two statements that change one row or one key at the same time one is told so.
//!
//! # Limits
//! Tables that are cut into more than [`DELTA_PARTS_MAX`] parts have no delta, nor have those whose first rows have yet
//! to tell the ranges of their parts: their statements make segments.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::compute::interleave;
use parking_lot::Mutex;
use storage::{DELTA_PARTS_MAX, Deltas, DeltasView, DeltasWrite, Keys, Parallel, Serial, TableRow, TableVersion};
use units::request::WriteKind;
use units::store::{Keyed, Statement, Store, WriteError};
use units::versions::Pin;

use crate::catalog::TableEntry;
use crate::catalog::index::{IndexEntry, position};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Statements that write more rows make segments.
pub(crate) const SMALL_ROWS_MAX: usize = 2048;
/// Bits of a key that a node of the units' trees takes, at most.
const PREFIX_BITS: u32 = 8;

/// A generation of a table's delta.
#[derive(Debug)]
pub(crate) struct TableDelta {
    /// Rows that were added and that died.
    pub rows: Arc<Deltas>,
    /// The keys of added rows.
    pub keys: Arc<DeltaKeys>,
    /// The newest rows that somebody scanned.
    whole: Mutex<Option<Whole>>,
}

/// Rows of a table as somebody scanned them.
#[derive(Debug)]
struct Whole {
    /// Whose rows they are beside the delta's: who makes segments of a table keeps a delta that has no row.
    base: Weak<TableVersion>,
    view: DeltasView,
    rows: Arc<TableVersion>,
}

impl Whole {
    /// Whether they are what a reader of a version of the delta sees over this base.
    fn is_of(&self, base: &Arc<TableVersion>, version: u64) -> bool {
        // As long as it is known here, no other one can lie in its place.
        std::ptr::eq(self.base.as_ptr(), Arc::as_ptr(base)) && self.view.version() == version
    }
}

/// The keys of one generation of a delta: for each unique index of the table, in their order, from the key's code to
/// the number of the delta's row that has it.
#[derive(Debug)]
pub(crate) struct DeltaKeys {
    /// By unique index.
    pub objects: Vec<Keyed>,
    /// Where they are, and who counts versions.
    units: Arc<Store>,
}

/// The changes of one unique index: keys that go, keys that get another row of the delta, and keys that no row of the
/// delta has.
#[derive(Debug, Default)]
pub(crate) struct KeyChanges {
    removed: Vec<(u64, u64)>,
    moved: Vec<(u64, u64)>,
    added: Vec<(u64, u64)>,
}

/// What a statement has written to a delta and its keys, until it commits; dropped before, it never was.
#[derive(Debug)]
pub(crate) struct SmallStatement {
    pub(crate) rows: DeltasWrite,
    pub(crate) keys: Statement,
}

/// The rows that have some keys.
#[derive(Debug)]
pub(crate) enum FoundKeys {
    /// The live row of each.
    Rows(Vec<Option<TableRow>>),
    /// Two keys have one code: the delta has to be merged before such a key can be looked up.
    Clash,
}

impl TableDelta {
    /// A generation with these rows and their keys.
    pub(crate) fn new(rows: Arc<Deltas>, keys: Arc<DeltaKeys>) -> TableDelta {
        TableDelta { rows, keys, whole: Mutex::default() }
    }

    /// A generation without a row.
    ///
    /// # Errors
    /// No memory for the units.
    pub(crate) fn empty(table: &TableEntry, units: &dyn Fn() -> Result<Arc<Store>>) -> Result<TableDelta> {
        let keys = Arc::new(DeltaKeys::new(table, units)?);
        let schema = Arc::clone(&table.base.schema);
        Ok(TableDelta::new(Deltas::new(schema, table.meta.budget(), table.placement.parts(), table.base.rows()), keys))
    }
}

impl SmallStatement {
    /// Makes rows and keys visible; see [`Catalog::commit_rows`](crate::catalog::Catalog::commit_rows).
    pub(super) fn commit(self) {
        let SmallStatement { rows, keys } = self;
        keys.commit_with(|version| rows.commit(version));
    }
}

impl KeyChanges {
    /// Keys by their codes; those that are removed and added get another row.
    pub(crate) fn new(mut removed: Vec<(u64, u64)>, mut added: Vec<(u64, u64)>) -> KeyChanges {
        let mut moved = Vec::new();
        if let ([(gone, _)], [(come, _)]) = (&removed[..], &added[..]) {
            if gone == come {
                removed.clear();
                std::mem::swap(&mut moved, &mut added);
            }
        } else if !removed.is_empty() && !added.is_empty() {
            let gone: HashSet<u64> = removed.iter().map(|(code, _)| *code).collect();
            moved = added.extract_if(.., |(code, _)| gone.contains(code)).collect();
            let stays: HashSet<u64> = moved.iter().map(|(code, _)| *code).collect();
            removed.retain(|(code, _)| !stays.contains(code));
        }
        KeyChanges { removed, moved, added }
    }

    /// The codes of keys that rows have from now on.
    pub(crate) fn put(&self) -> impl Iterator<Item = u64> {
        self.moved.iter().chain(&self.added).map(|(code, _)| *code)
    }

    /// Rows were counted from 0: they have these numbers.
    pub(crate) fn number(&mut self, number_of: impl Fn(u64) -> u64) {
        self.moved.iter_mut().chain(&mut self.added).for_each(|(_, row)| *row = number_of(*row));
    }

    /// Keys that go, and keys that have a row from now on, whether they had another or not.
    pub(crate) fn replacing(removed: Vec<(u64, u64)>, put: Vec<(u64, u64)>) -> KeyChanges {
        let mut changes = KeyChanges::new(removed, put);
        changes.moved.append(&mut changes.added);
        changes
    }
}

impl DeltaKeys {
    /// No keys yet, of the unique indexes of a table.
    ///
    /// # Errors
    /// No memory for the units.
    pub(crate) fn new(table: &TableEntry, units: &dyn Fn() -> Result<Arc<Store>>) -> Result<DeltaKeys> {
        let units = units()?;
        let object = |index: &IndexEntry| {
            let name = [&table.name.schema, &table.name.table, &index.name].map(String::clone);
            units.create_named(Arc::new(name), u64::MAX, PREFIX_BITS)
        };
        Ok(DeltaKeys { objects: table.unique_indexes().map(object).collect(), units })
    }

    /// The statement of units with changes of each unique index, to be committed; `None` where another statement has
    /// changed one of the keys, or is changing it.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn written(&self, changes: &[KeyChanges]) -> Result<Option<Statement>> {
        let mut statement = self.begin()?;
        Ok(self.write(&mut statement, changes)?.then_some(statement))
    }

    /// A statement of units, of the keys of any tables.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn begin(&self) -> Result<Statement> {
        self.units.begin().map_err(units_error)
    }

    /// As [`written`](Self::written), with the changes of others in one statement; whether it was done.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn write(&self, statement: &mut Statement, changes: &[KeyChanges]) -> Result<bool> {
        for (object, change) in self.objects.iter().zip(changes) {
            let kinds = [
                (WriteKind::Delete, &change.removed),
                (WriteKind::Upsert, &change.moved),
                (WriteKind::Insert, &change.added),
            ];
            for (kind, pairs) in kinds.into_iter().filter(|(_, pairs)| !pairs.is_empty()) {
                match statement.write(object, kind, pairs) {
                    Ok(_) => {}
                    Err(WriteError::Busy | WriteError::Duplicate { .. }) => return Ok(false),
                    Err(error) => return Err(units_error(error)),
                }
            }
        }
        Ok(true)
    }

    /// The newest version that readers were told of.
    pub(crate) fn told(&self) -> u64 {
        self.units.committed()
    }

    /// A reader that sees the newest keys.
    pub(crate) fn pin(&self) -> Pin {
        self.units.pin()
    }
}

fn units_error(error: WriteError) -> Error {
    match error {
        WriteError::Memory(error) => error.into(),
        WriteError::Panicked(text) => Error::Internal(format!("writing keys failed: {text}")),
        other => Error::execution(SqlState::DataException, other.to_string()),
    }
}

impl TableEntry {
    /// Whether small statements may write a delta.
    pub(crate) fn has_room_for_delta(&self) -> bool {
        self.placement.parts() <= DELTA_PARTS_MAX && self.placement.unbounded().is_none()
    }

    /// A reader of units that sees the delta's newest keys, and up to which version its rows are seen.
    pub(crate) fn newest_keys(&self) -> Option<Pin> {
        Some(self.delta.as_ref()?.keys.pin())
    }

    /// Its indexes that no two rows may share a key of, in the order of [`DeltaKeys::objects`].
    pub(crate) fn unique_indexes(&self) -> impl Iterator<Item = &IndexEntry> {
        self.indexes.iter().filter(|index| index.unique)
    }

    /// Its keys that are DEFERRABLE, whose rows are looked at once a statement has written them.
    pub(crate) fn deferrable_keys(&self) -> impl Iterator<Item = &IndexEntry> {
        self.indexes.iter().filter(|index| index.is_deferrable())
    }

    /// Rows that are not deleted, as of now.
    pub(crate) fn live_rows(&self) -> usize {
        match &self.delta {
            Some(delta) => self.base.rows() + delta.rows.live_rows() - delta.rows.dead_base_rows(),
            None => self.base.rows(),
        }
    }

    /// All of its rows up to a version as segments, the delta's encoded.
    ///
    /// # Errors
    /// The budget or a node has no room for them.
    pub(crate) fn whole(&self, version: u64) -> Result<Arc<TableVersion>> {
        match &self.delta {
            None => Ok(Arc::clone(&self.base)),
            Some(delta) => Ok(self.view_and_whole(delta, version)?.1),
        }
    }

    /// As [`whole`](Self::whole), of all rows that are committed by now.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn newest(&self) -> Result<Arc<TableVersion>> {
        self.whole(u64::MAX)
    }

    /// What a reader of a version sees of the delta, and with it of the table. Readers that see the same get the same.
    /// All that is committed is what was told of by now: a statement is not seen in one part and not in another.
    pub(crate) fn view_and_whole(&self, delta: &TableDelta, version: u64) -> Result<(DeltasView, Arc<TableVersion>)> {
        let version = if version == u64::MAX { delta.keys.told() } else { version };
        let seen = delta.rows.newest_seen(version);
        if let Some(known) = delta.whole.lock().as_ref().filter(|known| known.is_of(&self.base, seen)) {
            return Ok((known.view.clone(), Arc::clone(&known.rows)));
        }
        let allocator = self.meta.allocator();
        let allocators = |part: usize| {
            let segments = self.base.parts.get(part).map_or(0, |part| part.segments.len());
            self.placement.allocators(part, segments, &self.base.schema, &allocator)
        };
        let view = delta.rows.view(seen);
        let made = Arc::new(view.consolidated(&self.base, &allocators, &allocator, &Serial)?);
        let mut known = delta.whole.lock();
        match known.as_ref() {
            // Another reader was first.
            Some(known) if known.is_of(&self.base, seen) => Ok((known.view.clone(), Arc::clone(&known.rows))),
            Some(newer) if newer.view.version() > seen => Ok((view, made)),
            _ => {
                let base = Arc::downgrade(&self.base);
                *known = Some(Whole { base, view: view.clone(), rows: Arc::clone(&made) });
                Ok((view, made))
            }
        }
    }

    /// All of its rows, as a table without a delta, for who writes it alone. Its new segments have no indexes yet.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub(crate) fn merged(&self) -> Result<TableEntry> {
        self.merged_at(u64::MAX)
    }

    /// As [`merged`](Self::merged), and with a delta of no row where transactions hold rows: they hold them in it.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn merged_holding(&self, units: &dyn Fn() -> Result<Arc<Store>>) -> Result<TableEntry> {
        let Some(delta) = self.delta.as_ref().filter(|delta| delta.rows.has_holds()) else { return self.merged() };
        let (view, base) = self.view_and_whole(delta, u64::MAX)?;
        let rest = view.deltas().since(&view, &self.base)?;
        let rest = rest.ok_or_else(|| Error::Internal("a delta does not know its own view".into()))?;
        let keys = Arc::new(DeltaKeys::new(self, units)?);
        Ok(TableEntry { base, delta: Some(Arc::new(TableDelta::new(rest, keys))), ..self.clone() })
    }

    /// As [`merged`](Self::merged), for who reads it as of a version.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub(crate) fn merged_at(&self, version: u64) -> Result<TableEntry> {
        Ok(TableEntry { base: self.whole(version)?, delta: None, ..self.clone() })
    }

    /// Where rows of its newest rows as segments are, as DELETE and UPDATE read them: the segment in the upper half of
    /// a number, the row in the lower. For who writes the table alone.
    pub(crate) fn places(&self, ids: impl Iterator<Item = u64>) -> Result<Vec<TableRow>> {
        let view = match &self.delta {
            Some(delta) => Some(self.view_and_whole(delta, u64::MAX)?.0),
            None => None,
        };
        let places = view.as_ref().map(|view| view.places(&self.base));
        let place = |id: u64| match &places {
            Some(places) => Ok(places.of((id >> 32) as usize, id as u32)?),
            None => Ok(TableRow::Base { segment: (id >> 32) as u32, row: id as u32 }),
        };
        ids.map(place).collect()
    }

    /// The live rows that have these keys in the columns of a unique index, its `number`th; the columns of `keys` are
    /// in the order of the index's. `pin` sees what this state of the catalog does. `is_stopped` is asked now and then,
    /// and ends it.
    pub(crate) fn find(
        &self,
        number: usize,
        keys: &Keys,
        pin: Option<&Pin>,
        is_stopped: &(dyn Fn() -> bool + Sync),
        parallel: &dyn Parallel,
    ) -> Result<FoundKeys> {
        let index = self.unique_indexes().nth(number);
        let index = index.ok_or_else(|| Error::Internal("a unique index that the table does not have".into()))?;
        let columns = self.key_columns(index)?;
        let in_base = keys.find(&self.base, &columns, is_stopped, parallel)?;
        let version = pin.map_or(0, Pin::version);
        let is_live =
            |row: &TableRow| self.delta.as_ref().is_none_or(|delta| delta.rows.is_live(*row, &self.base, version));
        let place = |found: storage::RowPlace| TableRow::Base { segment: found.segment, row: found.row };
        let mut rows: Vec<Option<TableRow>> =
            in_base.into_iter().map(|found| found.map(place).filter(|row| is_live(row))).collect();
        if let (Some(delta), Some(pin)) = (&self.delta, pin) {
            let present = keys.codes().enumerate().filter_map(|(key, code)| Some((key, code?)));
            let (places, codes): (Vec<usize>, Vec<u64>) = present.unzip();
            let mut found: Vec<(usize, u32)> = Vec::new();
            delta.keys.objects[number].lookup(&codes, pin, |place, row| {
                found.extend(row.map(|row| (places[place], row as u32)));
            });
            if !self.agree(delta, &columns, keys, &found)? {
                return Ok(FoundKeys::Clash);
            }
            found.iter().for_each(|(place, row)| rows[*place] = Some(TableRow::Delta { row: *row }));
        }
        Ok(FoundKeys::Rows(rows))
    }

    /// The columns of an index, in its order.
    pub(crate) fn key_columns(&self, index: &IndexEntry) -> Result<Vec<usize>> {
        index.columns.iter().map(|column| position(column, &self.base.schema)).collect()
    }

    /// Whether rows of the delta have the very keys whose codes found them.
    fn agree(&self, delta: &TableDelta, columns: &[usize], keys: &Keys, found: &[(usize, u32)]) -> Result<bool> {
        if found.is_empty() {
            return Ok(true);
        }
        let rows: Vec<u32> = found.iter().map(|(_, row)| *row).collect();
        let values: Vec<ArrayRef> = columns.iter().map(|column| delta.rows.take(*column, &rows)).collect();
        let equal = keys.equal_to(&values)?;
        let first = keys.first_equal();
        Ok(found.iter().zip(equal).all(|((place, _), equal)| equal.is_some() && first[*place] == equal))
    }

    /// The values of some columns in some rows, in the order of the rows.
    pub(crate) fn columns_at(&self, rows: &[TableRow], columns: &[usize]) -> Result<Vec<ArrayRef>> {
        if let [row] = rows {
            let (source, row) = source_of(*row);
            return columns.iter().map(|column| self.taken(*column, source, &[row])).collect();
        }
        // Each segment's rows are read at once.
        let mut sources: Vec<(Option<u32>, Vec<u32>)> = Vec::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let (source, row) = source_of(*row);
            let known = sources.iter().position(|(known, _)| *known == source).unwrap_or(sources.len());
            if known == sources.len() {
                sources.push((source, Vec::new()));
            }
            places.push((known, sources[known].1.len()));
            sources[known].1.push(row);
        }
        columns.iter().map(|column| self.column_at(*column, &sources, &places)).collect()
    }

    /// A column's values in rows of the base's segments and of the delta (`None`), put together as `places` says: of
    /// which source, and the which of its rows.
    fn column_at(
        &self,
        column: usize,
        sources: &[(Option<u32>, Vec<u32>)],
        places: &[(usize, usize)],
    ) -> Result<ArrayRef> {
        let mut arrays = Vec::with_capacity(sources.len());
        for (source, rows) in sources {
            arrays.push(self.taken(column, *source, rows)?);
        }
        match &arrays[..] {
            [] => Ok(new_empty_array(self.base.schema.field(column).data_type())),
            [one] => Ok(Arc::clone(one)),
            several => {
                let several: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
                Ok(interleave(&several, places)?)
            }
        }
    }

    /// A column's values in rows of one of the base's segments, or of the delta (`None`).
    fn taken(&self, column: usize, source: Option<u32>, rows: &[u32]) -> Result<ArrayRef> {
        let missing = |of: &str| Error::Internal(format!("a row of a {of} that is not there"));
        match source {
            Some(segment) => {
                let segment = self.base.segments().nth(segment as usize).ok_or_else(|| missing("segment"))?;
                Ok(segment.segment.column(column).take(rows))
            }
            None => {
                let delta = self.delta.as_ref().ok_or_else(|| missing("delta"))?;
                Ok(delta.rows.take(column, rows))
            }
        }
    }
}

/// The base's segment that a row lies in, `None` for the delta, and the row's number there.
fn source_of(row: TableRow) -> (Option<u32>, u32) {
    match row {
        TableRow::Base { segment, row } => (Some(segment), row),
        TableRow::Delta { row } => (None, row),
    }
}
