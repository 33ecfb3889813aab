//! Sources of chunks: [`ScanSource`], rows of a table that pass a filter, and [`RowsSource`], rows that were kept.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use numa::{NodeId, Reservation};
use sched::Hint;
use sched::policy::concurrency::Pieces;
use storage::{BLOCK_ROWS, CodePredicate, Column, DictionaryId, Encoding, GRANULE_ROWS, Segment, TableVersion};

use super::{Matches, Scan};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, is_integer, type_bounds};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds};
use crate::codes::bind::{Coding, CodingKey};
use crate::codes::input::InputRows;
use crate::keys::key_filter::{KeyFilter, Most, OnCodes, Worth};
use crate::mask::Mask;
use crate::pipe::filters::{ColumnKeys, Filters};
use crate::pipe::{ChunkSource, Out};
use crate::tasks::counter::Counter;
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, Traffic};

/// Keys of joins are marked as codes where a dictionary has at most `n` for each row that has one of them, or so few.
const CODES_PER_ROW: usize = 16;
const CODES_MIN: usize = 1 << 20;

/// Rows of a table.
pub(crate) struct ScanSource {
    scan: Scan,
    columns: Arc<[usize]>,
    infos: Arc<[ColumnInfo]>,
    /// Per segment, tests that joins above have made of their keys.
    tests: Vec<Tests>,
}

/// Tests of a segment's rows.
#[derive(Default)]
struct Tests {
    /// Of codes.
    codes: Vec<CodeTest>,
    /// Of the values of rows that pass those.
    values: Vec<ValueTest>,
}

/// A test of a column's codes.
struct CodeTest {
    /// Of the table.
    column: usize,
    predicate: CodePredicate,
    /// One per filter, whichever segment it is tested in.
    worth: Arc<Worth>,
    /// What a set of codes is charged to; segments with the same dictionary share it.
    _charged: Option<Arc<Reservation>>,
}

/// A test of a column's values.
struct ValueTest {
    /// Of the table.
    column: usize,
    /// The column alone; what is read of it is told by whoever tests.
    origin: Origin,
    filter: Arc<KeyFilter>,
    worth: Arc<Worth>,
}

impl ScanSource {
    /// Prepares the scan. `filters` are over table columns; what cannot be told by codes is left to the joins.
    pub(crate) fn new(
        scan: Scan,
        columns: Vec<usize>,
        infos: Vec<ColumnInfo>,
        filters: &Filters,
        run: &Run<'_>,
    ) -> Result<ScanSource, ExecError> {
        let few = filters.iter().filter(|wanted| wanted.keys.few().is_some());
        let scan = scan.with_keys(few.map(|wanted| (wanted.column, wanted.keys.clone())).collect());
        scan.make_known(run);
        scan.prepare_with(run)?;
        let mut known: HashMap<(usize, CodingKey), OnCodes> = HashMap::new();
        let mut tests = Vec::with_capacity(scan.segments().len());
        let worth = |wanted: &ColumnKeys| {
            let worth = |most| Arc::new(if wanted.always { Worth::always() } else { Worth::new(most) });
            (worth(Most::Codes), worth(Most::Values))
        };
        let worth: Vec<_> = filters.iter().map(worth).collect();
        let sharing = rows_by_dictionary(&scan, filters);
        for (segment, version) in scan.segments().iter().enumerate() {
            let mut of_segment = Tests::default();
            // Of rows that an index names few are left: the joins see to those.
            let filters = if scan.is_sought(segment) { &[] } else { filters.as_slice() };
            for (number, ColumnKeys { column, keys: filter, .. }) in filters.iter().enumerate() {
                let place = columns.iter().position(|c| c == column).expect("filters are over columns that are read");
                let mut by_value = true;
                if let Some(coded) = version.segment.column(*column).as_coded() {
                    let (dictionary, null) = (coded.dictionary().id(), coded.null_code());
                    let told = match known.entry((number, (dictionary, null))) {
                        Entry::Occupied(told) => told.get().clone(),
                        Entry::Vacant(told) => {
                            let rows = sharing[&(*column, dictionary)];
                            let entries = (rows, CODES_MIN.max(CODES_PER_ROW * rows));
                            told.insert(filter.on_codes(coded.dictionary(), null, entries, run)?).clone()
                        }
                    };
                    by_value = told.values_tell_more;
                    let (worth, charged) = (worth[number].0.clone(), told.charged);
                    let test = |predicate| CodeTest { column: *column, predicate, worth, _charged: charged };
                    let some = told.predicate.filter(|predicate| !matches!(predicate, CodePredicate::Everything));
                    of_segment.codes.extend(some.map(test));
                }
                if by_value && filter.tells_values(&infos[place]) {
                    let (columns, infos) = (Arc::from([*column]), Arc::from([infos[place].clone()]));
                    let origin = Origin::Segment { segment: version.segment.clone(), columns, infos, counter: None };
                    of_segment.values.push(ValueTest {
                        column: *column,
                        origin,
                        filter: filter.clone(),
                        worth: worth[number].1.clone(),
                    });
                }
            }
            tests.push(of_segment);
        }
        Ok(ScanSource { scan, columns: columns.into(), infos: infos.into(), tests })
    }
}

impl ScanSource {
    /// Rows that it hands out at most.
    pub(crate) fn rows(&self) -> u64 {
        self.scan.rows_at_most() as u64
    }

    /// Hands out what passes of a morsel, in chunks of at most `most` rows. Rows that are close to each other come as
    /// bits, which is less work for whoever loads their columns than their numbers are, also where all are meant but
    /// the few that were deleted.
    fn morsel(&self, morsel: usize, most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut left = self.scan.rows_needed().unwrap_or(usize::MAX);
        let mut positions = Vec::new();
        for (segment, rows) in &self.scan.morsel(morsel).pieces {
            if left == 0 {
                break;
            }
            run.check()?;
            let counter = self.scan.counter(*segment, rows);
            let piece = SourcePiece { source: self, segment: *segment, rows: rows.clone(), counter: counter.clone() };
            let wanted = piece.hand_out(&mut left, most, &mut positions, out);
            counter.settle();
            if !wanted? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Rows of a segment on their way out.
struct SourcePiece<'a> {
    source: &'a ScanSource,
    segment: usize,
    rows: Range<usize>,
    counter: Arc<Counter>,
}

impl SourcePiece<'_> {
    /// Hands out the rows that pass, at most `left`; `positions` is room to work in. False where nobody wants more.
    fn hand_out(
        &self,
        left: &mut usize,
        most: usize,
        positions: &mut Vec<u32>,
        out: &mut Out<'_>,
    ) -> Result<bool, ExecError> {
        let SourcePiece { source, segment, rows, counter } = self;
        let mut matches = source.scan.matches(*segment, rows, counter)?;
        let tests = &source.tests[*segment];
        if let (Matches::Rows(found), false) = (&matches, tests.codes.is_empty()) {
            matches = Matches::Mask(Mask::of(rows.len(), found.iter().map(|&row| row as usize - rows.start)));
        }
        if let Matches::Mask(mask) = &mut matches {
            let skips = source.scan.skips_blocks();
            tests.by_code(&source.scan.segments()[*segment].segment, rows, (skips, counter), mask);
            let marked = mask.count();
            let may_be_bits = tests.values.is_empty() && most >= BLOCK_ROWS && *left >= rows.len();
            if marked == 0 {
                return Ok(true);
            }
            if may_be_bits && mask.is_dense(marked) {
                *left -= marked;
                for (window, count) in mask.windows(marked, most) {
                    let of_segment = |row: usize| rows.start + row;
                    let ids = match mask.run_in(&window, count) {
                        Some(run) => RowIds::Range(of_segment(run.start)..of_segment(run.end)),
                        None => {
                            let words = mask.words_in(&window).to_vec();
                            RowIds::marked(of_segment(window.start)..of_segment(window.end), words, count)
                        }
                    };
                    if !out(self.chunk(ids))? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        }
        let found = matches.found(rows, positions);
        let found = tests.by_value(rows, found, counter, positions);
        let wanted = found.min(*left);
        *left -= wanted;
        for done in (0..wanted).step_by(most) {
            let take = (wanted - done).min(most);
            let ids = match found == rows.len() {
                true => RowIds::Range(rows.start + done..rows.start + done + take),
                false => RowIds::ascending(&positions[done..done + take]),
            };
            if !out(self.chunk(ids))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn chunk(&self, ids: RowIds) -> Chunk {
        let ScanSource { scan, columns, infos, .. } = self.source;
        let segment = scan.segments()[self.segment].segment.clone();
        let (columns, infos, counter) = (columns.clone(), infos.clone(), Some(self.counter.clone()));
        Chunk::of(Origin::Segment { segment, columns, infos, counter }, ids)
    }
}

impl ChunkSource for ScanSource {
    fn morsels(&self) -> usize {
        self.scan.morsels()
    }

    fn morsel_rows(&self) -> usize {
        self.scan.morsel_rows()
    }

    fn node_of(&self, morsel: usize) -> Option<NodeId> {
        self.scan.morsel(morsel).node
    }

    fn hint(&self, morsel: usize) -> Hint {
        self.scan.morsel(morsel).hint
    }

    fn shape(&self, traffic: &Traffic) -> Option<String> {
        Some(self.scan.shape(traffic))
    }

    fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        self.scan.spread()
    }

    fn rows_expected(&self) -> Option<u64> {
        Some(self.scan.rows_expected() as u64)
    }

    fn codings(&self, column: usize) -> Vec<(Coding, u64)> {
        self.scan.codings(self.columns[column])
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.morsel(morsel, CHUNK_ROWS, run, out)
    }

    fn run_in(&self, morsel: usize, most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.morsel(morsel, most, run, out)
    }
}

const _: () = assert!(GRANULE_ROWS.is_multiple_of(CHUNK_ROWS), "a granule makes whole chunks");

/// Rows of the segments that have a dictionary in common, by the column of a filter and the dictionary.
fn rows_by_dictionary(scan: &Scan, filters: &Filters) -> HashMap<(usize, DictionaryId), usize> {
    let mut columns: Vec<usize> = filters.iter().map(|wanted| wanted.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut rows = HashMap::new();
    for segment in scan.segments().iter().map(|version| &version.segment) {
        for &column in &columns {
            if let Some(coded) = segment.column(column).as_coded() {
                *rows.entry((column, coded.dictionary().id())).or_default() += segment.rows();
            }
        }
    }
    rows
}

impl Tests {
    /// Takes rows out of the mask whose codes do not pass. `rows` are of one granule.
    fn by_code(&self, segment: &Segment, rows: &Range<usize>, (skips, counter): (bool, &Counter), mask: &mut Mask) {
        let mut marked = if self.codes.is_empty() { 0 } else { mask.count() };
        for CodeTest { column, predicate, worth, .. } in &self.codes {
            let coded = segment.column(*column).as_coded().expect("tests are made for columns with codes");
            if marked == 0 {
                return;
            }
            if !worth.pays() {
                // Bounds of a granule cost nothing.
                if skips {
                    coded.select_by_bounds(rows.clone(), predicate, mask.words_mut());
                    marked = mask.count();
                }
                continue;
            }
            if !skips || !coded.bounds_decide(rows.start / GRANULE_ROWS, predicate) {
                counter.reads(*column, &InputRows::Range(rows.clone()), TouchPhase::Find);
            }
            match skips {
                true => coded.select(rows.clone(), predicate, mask.words_mut()),
                false => coded.select_each(rows.clone(), predicate, mask.words_mut()),
            }
            let kept = mask.count();
            worth.note(marked, kept);
            marked = kept;
        }
    }

    /// Of `found` rows of `rows`, which are in `positions` unless they are all, leaves those whose values pass; how
    /// many.
    fn by_value(&self, rows: &Range<usize>, mut found: usize, counter: &Counter, positions: &mut Vec<u32>) -> usize {
        let mut passing = Vec::new();
        for test in &self.values {
            if found == 0 || !test.worth.pays() {
                continue;
            }
            let all = found == rows.len();
            let read = if all { InputRows::Range(rows.clone()) } else { InputRows::Positions(positions) };
            counter.reads(test.column, &read, TouchPhase::Find);
            counter.takes_values(test.column, found);
            let mut kept = Vec::with_capacity(found);
            for start in (0..found).step_by(CHUNK_ROWS) {
                let end = (start + CHUNK_ROWS).min(found);
                let ids = match all {
                    true => RowIds::Range(rows.start + start..rows.start + end),
                    false => RowIds::list(positions[start..end].to_vec()),
                };
                test.filter.passing(&Chunk::of(test.origin.clone(), ids).column(0), &mut passing);
                match all {
                    true => kept.extend(passing.iter().map(|&row| (rows.start + start) as u32 + row)),
                    false => kept.extend(passing.iter().map(|&row| positions[start + row as usize])),
                }
            }
            test.worth.note(found, kept.len());
            if kept.len() < found {
                found = kept.len();
                *positions = kept;
            }
        }
        found
    }
}

/// What is known of columns of a table.
pub(crate) fn column_infos(snapshot: &TableVersion, columns: &[usize]) -> Vec<ColumnInfo> {
    columns.iter().map(|&column| column_info(snapshot, column)).collect()
}

fn column_info(snapshot: &TableVersion, column: usize) -> ColumnInfo {
    let field = snapshot.schema.fields()[column].clone();
    let stored: Vec<&Arc<Column>> =
        snapshot.segments().filter(|v| v.live_rows() > 0).map(|v| v.segment.column(column)).collect();
    let nullable = stored.iter().any(|c| c.has_nulls());
    let mut info = ColumnInfo::plain(field);
    info.nullable = nullable;
    if is_integer(info.data_type()) {
        if let Some((low, high)) = stored_bounds(&stored, &info) {
            info.kind = ColumnKind::Int { low, high };
        }
        return info;
    }
    if let Some(first) = stored.first().and_then(|c| c.as_coded())
        && !matches!(info.kind, ColumnKind::Float)
        && first.dictionary().encoding() == Encoding::SortedStrings
        && stored.iter().all(|c| c.as_coded().is_some_and(|c| Arc::ptr_eq(c.dictionary(), first.dictionary())))
    {
        info.kind = ColumnKind::Vid(first.dictionary().clone());
    }
    info
}

/// Bounds of the values of an integer column; `None` where some may not fit.
fn stored_bounds(stored: &[&Arc<Column>], info: &ColumnInfo) -> Option<(i64, i64)> {
    let mut bounds: Option<(i64, i64)> = None;
    for column in stored {
        let (low, high) = match column.as_coded() {
            Some(coded) if coded.dictionary().is_empty() => continue,
            Some(coded) => coded.dictionary().integer_bounds()?,
            None => type_bounds(info.data_type())?,
        };
        let known = bounds.unwrap_or((low, high));
        bounds = Some((known.0.min(low), known.1.max(high)));
    }
    Some(bounds.unwrap_or((0, 0)))
}
