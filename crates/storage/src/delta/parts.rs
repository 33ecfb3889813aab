//! The deltas of a table's parts, as one.
//!
//! Each part has a [`Delta`] of its own over the segments of that part alone. A statement writes those of the parts
//! that its rows belong to, and is committed in all of them by one version: what holds for versions of one delta holds
//! for all together (README.md beside this file). Which parts have rows at all is kept in a bitmap, the bitmap
//! partition table of Kissinger et al. (ADMS 2014, section 3.2), so that a reader of a table in many parts looks at
//! these alone.
//!
//! # Invariants
//! - Rows of all logs have numbers of their own: the part in the upper bits, the row of its log in the lower ones.
//! - Rows of the base are told by their segment among those of all parts, outside of this file's inside.
//! - Whoever reads several parts reads them as of one version that was told: else a row that moved from one part to
//!   another could be seen in both or in neither.
//!
//! # Limits
//! At most [`DELTA_PARTS_MAX`] parts; each log has at most 2^32 rows divided by the number of parts, rounded up to a
//! power of two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use numa::{Allocator, Budget};

use super::holds::RowHold;
use super::rebase::Caught;
use super::{Delta, DeltaView, DeltaWrite, TableRow, log, nullable};
use crate::compact::Compacted;
use crate::error::StoreError;
use crate::parallel::Parallel;
use crate::placement::ColumnAllocator;
use crate::segment::Part;
use crate::table::TableVersion;
use crate::types::surface_schema;

/// Most parts of a table whose parts have deltas.
pub const DELTA_PARTS_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct Deltas {
    parts: Vec<Arc<Delta>>,
    /// Which parts have something in their delta.
    written: PartSet,
    /// Bits of a row's number that are the row of its part's log.
    row_bits: u32,
    /// Turns of parts that were given out, in all deltas of the table.
    turns: Arc<AtomicUsize>,
    /// Of no row.
    nothing: RecordBatch,
}

/// What a reader of one version sees of all parts.
#[derive(Clone, Debug)]
pub struct DeltasView {
    deltas: Arc<Deltas>,
    /// Of the parts that had something.
    parts: Vec<(usize, DeltaView)>,
    version: u64,
}

/// What a part's delta has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaCounts {
    /// As [`Delta::live_rows`].
    pub live_rows: usize,
    /// As [`Delta::dead_base_rows`].
    pub dead_base_rows: usize,
    /// As [`Delta::bytes`].
    pub bytes: u64,
}

/// As [`DeltaWrite`], of several parts.
#[derive(Debug)]
pub struct DeltasWrite {
    deltas: Arc<Deltas>,
    /// Mostly there is one.
    first: Option<(usize, DeltaWrite)>,
    others: Vec<(usize, DeltaWrite)>,
}

/// What was committed after a view and is not known yet, as [`Caught`], of all parts.
#[derive(Debug, Default)]
pub struct DeltasCaught {
    parts: Vec<Caught>,
    /// Numbers of the rows that were added and live, each with its number in the deltas that go on.
    pub added: Vec<(u32, u32)>,
    /// Numbers of rows that died and were added after the view.
    pub died: Vec<u32>,
}

/// A set of parts, to which parts are added.
#[derive(Debug)]
struct PartSet([AtomicU64; DELTA_PARTS_MAX / 64]);

impl PartSet {
    fn empty() -> PartSet {
        PartSet([const { AtomicU64::new(0) }; DELTA_PARTS_MAX / 64])
    }

    /// Adds a part; who reads of a version that was committed afterwards finds it.
    fn add(&self, part: usize) {
        let (word, bit) = (&self.0[part / 64], 1 << (part % 64));
        if word.load(Ordering::Acquire) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(place, word)| {
            let mut left = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * place + bit)
            })
        })
    }
}

impl Deltas {
    /// Deltas without an entry for the parts of a table of this schema, one at least. What is added is charged to
    /// `budget`. Where parts take turns, the first is that of `turn`.
    ///
    /// # Panics
    /// For more than [`DELTA_PARTS_MAX`] parts.
    pub fn new(schema: SchemaRef, budget: &Arc<Budget>, parts: usize, turn: usize) -> Arc<Deltas> {
        let schema = Arc::new(nullable(&surface_schema(&schema)));
        let rows_max = 1_u32.checked_shl(row_bits(parts)).unwrap_or(u32::MAX);
        let parts = (0..parts.max(1)).map(|_| Delta::of_part(&schema, budget, rows_max));
        Arc::new(Deltas::of(parts.collect(), Arc::new(AtomicUsize::new(turn))))
    }

    fn of(parts: Vec<Arc<Delta>>, turns: Arc<AtomicUsize>) -> Deltas {
        assert!(parts.len() <= DELTA_PARTS_MAX, "{} parts have no deltas", parts.len());
        let written = PartSet::empty();
        parts.iter().enumerate().filter(|(_, delta)| !delta.is_empty()).for_each(|(part, _)| written.add(part));
        let row_bits = row_bits(parts.len());
        let nothing = RecordBatch::new_empty(Arc::clone(&parts[0].schema));
        Deltas { parts, written, row_bits, turns, nothing }
    }

    /// The part and the row of its log that a number stands for.
    fn place_of(&self, number: u32) -> (usize, u32) {
        let part = number.checked_shr(self.row_bits).unwrap_or(0);
        let row = number & 1_u32.checked_shl(self.row_bits).map_or(u32::MAX, |rows| rows - 1);
        (part as usize, row)
    }

    /// The number of a row of a part's log.
    fn number_of(&self, part: usize, row: u32) -> u32 {
        (part as u32).checked_shl(self.row_bits).unwrap_or(0) | row
    }

    /// The parts whose deltas have something.
    fn present(&self) -> impl Iterator<Item = (usize, &Arc<Delta>)> {
        self.written.iter().map(|part| (part, &self.parts[part]))
    }

    fn sum(&self, of: impl Fn(&Delta) -> usize) -> usize {
        match &self.parts[..] {
            [one] => of(one),
            _ => self.present().map(|(_, delta)| of(delta)).sum(),
        }
    }

    /// Whether nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.present().all(|(_, delta)| delta.is_empty())
    }

    /// As [`Delta::rows`].
    pub fn rows(&self) -> usize {
        self.sum(Delta::rows)
    }

    /// As [`Delta::live_rows`].
    pub fn live_rows(&self) -> usize {
        self.sum(Delta::live_rows)
    }

    /// As [`Delta::dead_base_rows`].
    pub fn dead_base_rows(&self) -> usize {
        self.sum(Delta::dead_base_rows)
    }

    /// As [`Delta::entries`]; a statement counts in each part that it wrote.
    pub fn entries(&self) -> usize {
        self.sum(Delta::entries)
    }

    /// As [`Delta::bytes`].
    pub fn bytes(&self) -> u64 {
        self.sum(|delta| delta.bytes() as usize) as u64
    }

    /// What [`bytes`](Self::bytes) will be, nearly, once these rows are added.
    pub fn bytes_with(&self, rows: &RecordBatch) -> u64 {
        self.bytes() + log::bytes_with(rows)
    }

    /// What a part has; `None` where it was never written.
    pub fn of_part(&self, part: usize) -> Option<DeltaCounts> {
        let delta = self.parts.get(part).filter(|_| self.written.iter().any(|written| written == part))?;
        let (live_rows, dead_base_rows, bytes) = (delta.live_rows(), delta.dead_base_rows(), delta.bytes());
        Some(DeltaCounts { live_rows, dead_base_rows, bytes })
    }

    /// Whose turn it is, where parts take turns.
    pub fn next_part(&self) -> usize {
        self.turns.fetch_add(1, Ordering::Relaxed) % self.parts.len()
    }

    /// As [`Delta::take`].
    ///
    /// # Panics
    /// As there.
    pub fn take(&self, column: usize, rows: &[u32]) -> ArrayRef {
        let first = match rows {
            [first, ..] if self.parts.len() > 1 => *first,
            _ => return self.parts[0].take(column, rows),
        };
        let first_part = self.place_of(first).0;
        let mut by_part: Vec<(usize, Vec<u32>)> = vec![(first_part, Vec::with_capacity(rows.len()))];
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let (part, row) = self.place_of(*row);
            let known = by_part.iter().position(|(known, _)| *known == part).unwrap_or(by_part.len());
            if known == by_part.len() {
                by_part.push((part, Vec::new()));
            }
            places.push((known, by_part[known].1.len()));
            by_part[known].1.push(row);
        }
        let arrays: Vec<ArrayRef> = by_part.iter().map(|(part, rows)| self.parts[*part].take(column, rows)).collect();
        match &arrays[..] {
            [one] => Arc::clone(one),
            several => {
                let several: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
                interleave(&several, &places).expect("rows of deltas of one type")
            }
        }
    }

    /// As [`Delta::is_live`].
    pub fn is_live(&self, place: TableRow, base: &TableVersion, version: u64) -> bool {
        match place {
            TableRow::Delta { row } => {
                let (part, row) = self.place_of(row);
                self.parts[part].is_live(TableRow::Delta { row }, base, version)
            }
            TableRow::Base { .. } if self.parts.len() == 1 => self.parts[0].is_live(place, base, version),
            TableRow::Base { segment, row } => {
                let Some((part, local)) = part_of(base, segment) else { return false };
                let of_base = &base.parts[part].segments[local as usize];
                (row as usize) < of_base.segment.rows()
                    && of_base.is_live(row as usize)
                    && !self.parts[part].is_dead_in_base(local, row, version)
            }
        }
    }

    /// As [`Delta::write`], of rows of some parts, each part at most once. `base` is what the dead rows of the base are
    /// of.
    ///
    /// # Errors
    /// As there.
    pub fn write<'a>(
        self: &Arc<Self>,
        rows: impl IntoIterator<Item = (usize, &'a RecordBatch)>,
        dead: &[TableRow],
        base: &TableVersion,
    ) -> Result<Option<DeltasWrite>, StoreError> {
        let mut write = DeltasWrite { deltas: Arc::clone(self), first: None, others: Vec::new() };
        let mut rows = rows.into_iter();
        if let [only] = &self.parts[..] {
            let rows = rows.next().map_or(&self.nothing, |(_, rows)| rows);
            let Some(of_part) = only.write(rows, dead)? else { return Ok(None) };
            self.written.add(0);
            write.first = Some((0, of_part));
            return Ok(Some(write));
        }
        let mut dead_by_part = self.by_part(dead, base)?;
        // All claims before any row: a statement that meets another leaves none behind.
        let rows: Vec<(usize, &RecordBatch)> = rows.collect();
        let with_rows = rows.len();
        let mut begun: Vec<(usize, DeltaWrite)> = Vec::with_capacity(with_rows + dead_by_part.len());
        for (part, _) in &rows {
            let dead = dead_by_part.extract_if(.., |(of, _)| of == part).next().map_or(Vec::new(), |(_, rows)| rows);
            let Some(of_part) = self.parts[*part].begin(&dead)? else { return Ok(None) };
            begun.push((*part, of_part));
        }
        for (part, dead) in dead_by_part {
            let Some(of_part) = self.parts[part].begin(&dead)? else { return Ok(None) };
            begun.push((part, of_part));
        }
        for ((part, of_part), (_, rows)) in begun.iter_mut().zip(rows) {
            of_part.add(rows)?;
            self.written.add(*part);
        }
        begun[with_rows..].iter().for_each(|(part, _)| self.written.add(*part));
        let mut begun = begun.into_iter();
        write.first = begun.next();
        write.others = begun.collect();
        Ok(Some(write))
    }

    /// Holds rows for a transaction, from this step of it on: nobody else can let them die until they are released,
    /// also in whatever takes the place of these deltas. Whether it does, else none: one is dead by now, claimed, or
    /// held by another so that it cannot be held so.
    ///
    /// Who holds and releases has the table's write turn alone.
    ///
    /// # Errors
    /// As [`Delta::write`].
    pub fn hold(
        self: &Arc<Self>,
        (holder, step): (u64, u64),
        kind: RowHold,
        rows: &[TableRow],
        base: &TableVersion,
    ) -> Result<bool, StoreError> {
        let by_part = self.by_part(rows, base)?;
        for (place, (part, rows)) in by_part.iter().enumerate() {
            if !self.parts[*part].hold(holder, step, kind, rows)? {
                // A step holds once.
                by_part[..place].iter().for_each(|(part, _)| self.parts[*part].release_held(holder, step - 1));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives back what a transaction holds since a step.
    pub fn release_held(&self, holder: u64, after_step: u64) {
        self.parts.iter().for_each(|delta| delta.release_held(holder, after_step));
    }

    /// The rows that a transaction takes away, in any order.
    pub fn held(&self, holder: u64, base: &TableVersion) -> Vec<TableRow> {
        if let [only] = &self.parts[..] {
            return only.held(holder);
        }
        let mut rows = Vec::new();
        let mut first_of_base = 0;
        for (part, delta) in self.parts.iter().enumerate() {
            rows.extend(delta.held(holder).into_iter().map(|row| match row {
                TableRow::Delta { row } => TableRow::Delta { row: self.number_of(part, row) },
                TableRow::Base { segment, row } => TableRow::Base { segment: first_of_base + segment, row },
            }));
            first_of_base += base.parts.get(part).map_or(0, |part| part.segments.len()) as u32;
        }
        rows
    }

    /// Whether anybody holds a row.
    pub fn has_holds(&self) -> bool {
        self.parts.iter().any(|delta| delta.has_holds())
    }

    /// How many rows others than a transaction hold.
    pub fn held_by_others(&self, holder: u64) -> usize {
        self.parts.iter().map(|delta| delta.held_by_others(holder)).sum()
    }

    /// Who holds one of some rows in whatever way, if that is another than `holder`: they cannot be taken away.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn holder_of(
        &self,
        rows: &[TableRow],
        holder: Option<u64>,
        base: &TableVersion,
    ) -> Result<Option<u64>, StoreError> {
        self.holder_against(rows, holder, RowHold::Death, base)
    }

    /// Who holds one of some rows so that another, `holder`, cannot hold it as `kind`.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn holder_against(
        &self,
        rows: &[TableRow],
        holder: Option<u64>,
        kind: RowHold,
        base: &TableVersion,
    ) -> Result<Option<u64>, StoreError> {
        let by_part = self.by_part(rows, base)?;
        Ok(by_part.into_iter().find_map(|(part, rows)| self.parts[part].holder_of(&rows, holder, kind)))
    }

    /// Who takes one of some rows away, if that is another than `holder`.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn taker_of(
        &self,
        rows: &[TableRow],
        holder: Option<u64>,
        base: &TableVersion,
    ) -> Result<Option<u64>, StoreError> {
        let by_part = self.by_part(rows, base)?;
        Ok(by_part.into_iter().find_map(|(part, rows)| self.parts[part].taker_of(&rows, holder)))
    }

    /// Whether a transaction takes a row away.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn is_taken(&self, row: TableRow, holder: u64, base: &TableVersion) -> Result<bool, StoreError> {
        let (part, row) = self.local(row, base)?;
        Ok(self.parts[part].is_taken(row, holder))
    }

    /// As [`write`](Self::write), of rows of some parts, and lets all rows die that a transaction takes away, which it
    /// holds no more.
    ///
    /// # Errors
    /// As there; what it held is released.
    pub fn write_held<'a>(
        self: &Arc<Self>,
        holder: u64,
        rows: impl IntoIterator<Item = (usize, &'a RecordBatch)>,
    ) -> Result<DeltasWrite, StoreError> {
        let mut held = Vec::new();
        for (part, delta) in self.parts.iter().enumerate().filter(|(_, delta)| delta.has_holds()) {
            held.push((part, delta.take_held(holder)?));
        }
        let mut begun = Vec::new();
        for (part, rows) in rows {
            let own = held.extract_if(.., |(of, _)| *of == part).next();
            let mut of_part = match own {
                Some((_, of_part)) => of_part,
                None => self.parts[part].begin(&[])?.expect("nothing is claimed"),
            };
            of_part.add(rows)?;
            begun.push((part, of_part));
        }
        begun.extend(held);
        begun.iter().for_each(|(part, _)| self.written.add(*part));
        let mut begun = begun.into_iter();
        let first = begun.next();
        Ok(DeltasWrite { deltas: Arc::clone(self), first, others: begun.collect() })
    }

    /// Rows as their parts have them.
    fn by_part(&self, rows: &[TableRow], base: &TableVersion) -> Result<Vec<(usize, Vec<TableRow>)>, StoreError> {
        if self.parts.len() == 1 {
            return Ok(vec![(0, rows.to_vec())]);
        }
        let mut by_part: Vec<(usize, Vec<TableRow>)> = Vec::new();
        for row in rows {
            let (part, row) = self.local(*row, base)?;
            match by_part.iter_mut().find(|(known, _)| *known == part) {
                Some((_, rows)) => rows.push(row),
                None => by_part.push((part, vec![row])),
            }
        }
        Ok(by_part)
    }

    /// The part that a row is of; `None` where it is not there.
    pub fn part_of(&self, row: TableRow, base: &TableVersion) -> Option<usize> {
        self.local(row, base).ok().map(|(part, _)| part)
    }

    /// A row as its part has it.
    fn local(&self, row: TableRow, base: &TableVersion) -> Result<(usize, TableRow), StoreError> {
        match row {
            TableRow::Delta { row } => {
                let (part, local) = self.place_of(row);
                match part < self.parts.len() {
                    true => Ok((part, TableRow::Delta { row: local })),
                    false => Err(StoreError::NotThere { what: "row", index: row as usize, count: self.rows() }),
                }
            }
            TableRow::Base { segment, row } => match part_of(base, segment) {
                Some((part, segment)) if part < self.parts.len() => Ok((part, TableRow::Base { segment, row })),
                _ => {
                    let count = base.segments().count();
                    Err(StoreError::NotThere { what: "segment", index: segment as usize, count })
                }
            },
        }
    }

    /// What a reader of `version` sees, which is one that was told to readers; any other where nobody writes.
    pub fn view(self: &Arc<Self>, version: u64) -> DeltasView {
        let parts: Vec<(usize, DeltaView)> = self.present().map(|(part, delta)| (part, delta.view(version))).collect();
        let version = parts.iter().map(|(_, view)| view.version()).max().unwrap_or(0);
        DeltasView { deltas: Arc::clone(self), parts, version }
    }

    /// As [`Delta::newest_seen`].
    pub fn newest_seen(&self, version: u64) -> u64 {
        self.present().map(|(_, delta)| delta.newest_seen(version)).max().unwrap_or(0)
    }

    /// As [`Delta::since`].
    ///
    /// # Errors
    /// As there.
    pub fn since(self: &Arc<Self>, view: &DeltasView, base: &TableVersion) -> Result<Option<Arc<Deltas>>, StoreError> {
        if !Arc::ptr_eq(self, &view.deltas) {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for (part, delta) in self.parts.iter().enumerate() {
            let seen = view.of(part).cloned().unwrap_or_else(|| delta.view(0));
            let Some(rest) = delta.since(&seen, &self.alone(base, part))? else { return Ok(None) };
            parts.push(rest);
        }
        Ok(Some(Arc::new(Deltas::of(parts, Arc::clone(&self.turns)))))
    }

    /// As [`Delta::moved`].
    ///
    /// # Errors
    /// As there.
    pub fn moved(&self, compacted: &Compacted, base: &TableVersion) -> Result<Arc<Deltas>, StoreError> {
        if self.parts.len() == 1 {
            return Ok(Arc::new(Deltas::of(vec![self.parts[0].moved(compacted, base)?], Arc::clone(&self.turns))));
        }
        let part = compacted.part();
        let mut parts = self.parts.clone();
        let count = parts.len();
        let delta = parts.get_mut(part).ok_or(StoreError::NotThere { what: "part", index: part, count })?;
        // Where it is the only part with segments, segments are counted as its delta counts them.
        let mut alone: Vec<Arc<Part>> = (0..part).map(|_| Arc::default()).collect();
        alone.extend(base.parts.get(part).cloned());
        let alone = TableVersion { schema: Arc::clone(&base.schema), parts: alone, version: base.version };
        *delta = delta.moved(compacted, &alone)?;
        Ok(Arc::new(Deltas::of(parts, Arc::clone(&self.turns))))
    }

    /// As [`Delta::caught`], up to a version that was told to readers.
    pub fn caught(&self, view: &DeltasView, known: &DeltasCaught, version: u64) -> DeltasCaught {
        let mut caught = DeltasCaught::default();
        let nothing = Caught::default();
        for (part, delta) in self.parts.iter().enumerate() {
            let before = known.parts.get(part).unwrap_or(&nothing);
            let seen = view.of(part).cloned().unwrap_or_else(|| delta.view(0));
            let mut of_part = delta.caught(&seen, before, version);
            let number = |row: u32| self.number_of(part, row);
            caught.added.extend(of_part.added.drain(..).map(|(old, new)| (number(old), number(new))));
            caught.died.extend(of_part.died.drain(..).map(number));
            caught.parts.push(of_part);
        }
        caught
    }

    /// A part of the base by itself, as its delta has it for a base.
    fn alone(&self, base: &TableVersion, part: usize) -> TableVersion {
        let parts = match self.parts.len() {
            1 => base.parts.clone(),
            _ => base.parts.get(part).cloned().into_iter().collect(),
        };
        TableVersion { schema: Arc::clone(&base.schema), parts, version: base.version }
    }
}

impl DeltasView {
    /// As [`DeltaView::version`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The deltas that it is a view of.
    pub fn deltas(&self) -> &Arc<Deltas> {
        &self.deltas
    }

    fn of(&self, part: usize) -> Option<&DeltaView> {
        self.parts.iter().find(|(known, _)| *known == part).map(|(_, view)| view)
    }

    /// As [`DeltaView::consolidated`], each part with its delta's rows; `allocators` gives those of a part's columns.
    ///
    /// # Errors
    /// As there.
    pub fn consolidated(
        &self,
        base: &TableVersion,
        allocators: &dyn Fn(usize) -> Vec<ColumnAllocator>,
        table_allocator: &Allocator,
        parallel: &dyn Parallel,
    ) -> Result<TableVersion, StoreError> {
        let mut whole = base.clone();
        for (part, view) in &self.parts {
            let alone = self.deltas.alone(base, *part);
            // Without a base, the rows are the first part's.
            let of = if self.deltas.parts.len() == 1 { base.parts.len().saturating_sub(1) } else { *part };
            let made = view.consolidated(&alone, &allocators(of), table_allocator, parallel)?;
            whole.version += made.version - base.version;
            if self.deltas.parts.len() == 1 {
                whole.parts = made.parts;
                continue;
            }
            let Some(made) = made.parts.into_iter().next() else { continue };
            if whole.parts.len() <= *part {
                whole.parts.resize_with(part + 1, Arc::default);
            }
            whole.parts[*part] = made;
        }
        Ok(whole)
    }

    /// Where a row is in what [`consolidated`](Self::consolidated) makes of this view and this base: its part, the
    /// part's segment, and the row of that.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn place_in_whole(&self, row: TableRow, base: &TableVersion) -> Result<(usize, usize, u32), StoreError> {
        let (part, local) = self.deltas.local(row, base)?;
        match local {
            // With one delta, the segments of all parts are counted together.
            TableRow::Base { segment, row } if self.deltas.parts.len() == 1 => {
                let count = base.segments().count();
                let (part, segment) = part_of(base, segment).ok_or(StoreError::NotThere {
                    what: "segment",
                    index: segment as usize,
                    count,
                })?;
                Ok((part, segment as usize, row))
            }
            TableRow::Base { segment, row } => Ok((part, segment as usize, row)),
            TableRow::Delta { row } => {
                let place = self.of(part).and_then(|view| view.log.place_of(row));
                let (place, row) = place.ok_or(StoreError::NotThere { what: "row", index: row as usize, count: 0 })?;
                // Without a base, the rows are the first part's.
                let of = if self.deltas.parts.len() == 1 { base.parts.len().saturating_sub(1) } else { part };
                Ok((of, base.parts.get(of).map_or(0, |part| part.segments.len()) + place, row))
            }
        }
    }

    /// Where rows of what [`consolidated`](Self::consolidated) makes of this view and this base are.
    pub fn places<'a>(&'a self, base: &'a TableVersion) -> Places<'a> {
        let mut parts = Vec::new();
        let (mut first, mut first_of_base) = (0, 0);
        for part in 0..self.deltas.parts.len().max(base.parts.len()) {
            let of_base = base.parts.get(part).map_or(0, |part| part.segments.len());
            let view = self.of(part);
            parts.push(PlacesOfPart { part, first, first_of_base, view, alone: self.deltas.alone(base, part) });
            first += of_base + view.map_or(0, DeltaView::log_segments);
            first_of_base += of_base;
        }
        Places { view: self, base, parts, segments: first }
    }
}

/// See [`DeltasView::places`].
#[derive(Debug)]
pub struct Places<'a> {
    view: &'a DeltasView,
    base: &'a TableVersion,
    parts: Vec<PlacesOfPart<'a>>,
    segments: usize,
}

#[derive(Debug)]
struct PlacesOfPart<'a> {
    part: usize,
    /// Its first segment, among those of all parts, with the logs' segments and without.
    first: usize,
    first_of_base: usize,
    view: Option<&'a DeltaView>,
    alone: TableVersion,
}

impl Places<'_> {
    /// As [`DeltaView::place_of`].
    ///
    /// # Errors
    /// As there.
    pub fn of(&self, segment: usize, row: u32) -> Result<TableRow, StoreError> {
        let deltas = &self.view.deltas;
        if let ([(_, view)], 1) = (&self.view.parts[..], deltas.parts.len()) {
            return view.place_of(self.base, segment, row);
        }
        let place = self.parts.partition_point(|of| of.first <= segment);
        let of = match place.checked_sub(1).map(|place| &self.parts[place]) {
            Some(of) if segment < self.segments => of,
            _ => return Err(StoreError::NotThere { what: "segment", index: segment, count: self.segments }),
        };
        let of_part = match of.view {
            Some(view) => view.place_of(&of.alone, segment - of.first, row)?,
            None => TableRow::Base { segment: (segment - of.first) as u32, row },
        };
        Ok(match of_part {
            TableRow::Delta { row } => TableRow::Delta { row: deltas.number_of(of.part, row) },
            TableRow::Base { segment, row } => TableRow::Base { segment: of.first_of_base as u32 + segment, row },
        })
    }
}

impl DeltasWrite {
    /// Number of the first of the rows of each part, in the order in which they were given; behind those, of parts
    /// where rows died alone, any.
    pub fn first_rows(&self) -> impl Iterator<Item = u32> {
        let number = |(part, write): &(usize, DeltaWrite)| self.deltas.number_of(*part, write.first_row());
        self.first.iter().chain(&self.others).map(number)
    }

    /// As [`DeltaWrite::commit`], in all parts.
    pub fn commit(self, version: u64) {
        self.first.into_iter().chain(self.others).for_each(|(_, write)| write.commit(version));
    }
}

/// Bits of a row's number that are the row of its part's log.
fn row_bits(parts: usize) -> u32 {
    u32::BITS - parts.next_power_of_two().trailing_zeros()
}

/// The part of a segment among those of all parts, and which of the part's it is.
fn part_of(base: &TableVersion, segment: u32) -> Option<(usize, u32)> {
    let mut left = segment as usize;
    for (part, of) in base.parts.iter().enumerate() {
        match left < of.segments.len() {
            true => return Some((part, left as u32)),
            false => left -= of.segments.len(),
        }
    }
    None
}
