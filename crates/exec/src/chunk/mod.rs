//! [`Chunk`]: a few rows on their way through a pipeline, with columns that are loaded when somebody reads them.
//!
//! A chunk remembers for each *group* of columns where its rows come from (rows of a segment, rows kept by a join) and
//! as which row numbers; dropping rows drops numbers, and a column that nobody reads is never touched. [`Rows`] is what
//! a pipeline breaker keeps: whole columns.
//!
//! Invariant: every loaded column and every group has exactly `rows()` rows.

pub(crate) mod vector;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use numa::Reservation;
use storage::{CodedColumn, Column, Segment, mask_positions};

use crate::ExecError;
use crate::codes::bind::Coding;
use crate::codes::input::{InputRows as Chosen, MarkedInput};
use crate::tasks::counter::Counter;
use crate::tasks::traffic::{KeptRows, TouchPhase};
use vector::{ColumnInfo, ColumnKind, Data, NO_ROW, Vector};

/// Most rows of a chunk that a source makes (DESIGN.md, Execution).
pub(crate) const CHUNK_ROWS: usize = 2048;

/// Rows are picked from unpacked ones where that unpacks at most `n` for each.
const DENSE_SPAN: usize = 4;
/// Runs of consecutive rows are copied as such where they are this long, on average.
const RUN_ROWS: usize = 8;

/// Most rows that are kept in one place: they have numbers of 32 bits, of which the last is [`NO_ROW`].
pub(crate) const KEPT_ROWS_MAX: usize = NO_ROW as usize;

/// An error where there are more rows than can be kept in one place; whoever keeps rows asks, since numbers would wrap.
pub(crate) fn check_kept(rows: usize) -> Result<(), ExecError> {
    if rows <= KEPT_ROWS_MAX { Ok(()) } else { Err(ExecError::TooManyRows { rows, most: KEPT_ROWS_MAX }) }
}

/// Rows that are kept as whole columns.
pub(crate) struct Rows {
    /// What is known of the columns.
    pub(crate) infos: Vec<ColumnInfo>,
    /// The columns, each of `rows` rows.
    pub(crate) columns: Vec<Arc<Vector>>,
    /// Number of rows, also where there is no column.
    pub(crate) rows: usize,
    /// What they are charged to.
    pub(crate) _charged: Vec<Reservation>,
    /// Where they lie, if that is noted when they are read.
    pub(crate) lies: Option<KeptRows>,
}

impl Rows {
    /// No row.
    pub(crate) fn none(infos: Vec<ColumnInfo>) -> Rows {
        let columns = infos.iter().map(|info| Arc::new(info.empty())).collect();
        Rows { infos, columns, rows: 0, _charged: Vec::new(), lies: None }
    }

    /// A column of which the task on this thread reads `n` consecutive rows itself, without a chunk.
    pub(crate) fn column_read(&self, column: usize, rows: usize) -> &Arc<Vector> {
        if let Some(lies) = &self.lies {
            lies.read(column, rows, false);
        }
        &self.columns[column]
    }

    /// Consecutive rows.
    pub(crate) fn slice(mut self, start: usize, rows: usize) -> Rows {
        if rows < self.rows {
            for column in 0..self.columns.len() {
                self.column_read(column, rows);
            }
            self.columns = self.columns.iter().map(|c| Arc::new(c.slice(start.min(self.rows), rows))).collect();
            self.rows = rows;
            self.lies = self.lies.map(|lies| lies.written_again(rows, self.columns.iter().map(|c| c.bytes())));
        }
        self
    }
}

/// Row numbers of a group.
#[derive(Clone)]
pub(crate) enum RowIds {
    /// Consecutive rows.
    Range(Range<usize>),
    /// Any rows; [`NO_ROW`] only in a group that says so.
    List(Arc<RowList>),
    /// Ascending rows that are close to each other.
    Marked(Arc<MarkedRows>),
}

/// Row numbers as bits: columns that are read by them unpack whole blocks and move what is marked to the front.
pub(crate) struct MarkedRows {
    /// The rows that have a bit; the first one's number is a multiple of 256.
    rows: Range<usize>,
    mask: Vec<u64>,
    count: usize,
    /// The same as numbers, for whoever wants those.
    list: OnceLock<RowList>,
}

impl MarkedRows {
    fn list(&self) -> &RowList {
        self.list.get_or_init(|| {
            let mut rows = Vec::with_capacity(self.count);
            mask_positions(&self.mask, self.rows.start as u32, &mut rows);
            RowList::new(rows)
        })
    }
}

/// Row numbers, and what columns that are read by them share.
pub(crate) struct RowList {
    rows: Vec<u32>,
    /// Set by the first column that is unpacked by them.
    span: OnceLock<Span>,
    /// From the first to behind the last: set by the first column that is read by them.
    ends: OnceLock<Range<usize>>,
}

/// How rows lie.
enum Span {
    /// Far from each other.
    Apart,
    /// All between these two, and more than a quarter of what is there.
    Close(Range<usize>),
    /// The same, in few runs of consecutive rows: start of each, counted from the first row, and length.
    Runs(Range<usize>, Vec<(u32, u32)>),
}

impl RowList {
    fn new(rows: Vec<u32>) -> RowList {
        RowList { rows, span: OnceLock::new(), ends: OnceLock::new() }
    }

    /// From the first row to behind the last.
    fn ends(&self) -> Range<usize> {
        let ends = self.ends.get_or_init(|| {
            let both = |(low, high): (u32, u32), &row: &u32| (low.min(row), high.max(row));
            let (low, high) = self.rows.iter().fold((u32::MAX, 0), both);
            if self.rows.is_empty() { 0..0 } else { low as usize..high as usize + 1 }
        });
        ends.clone()
    }

    fn span(&self) -> &Span {
        self.span.get_or_init(|| {
            let Range { start: first, end } = self.ends();
            if end - first > DENSE_SPAN * self.rows.len() {
                return Span::Apart;
            }
            let breaks = self.rows.windows(2).filter(|pair| pair[0].wrapping_add(1) != pair[1]).count();
            if breaks * RUN_ROWS > self.rows.len() {
                return Span::Close(first..end);
            }
            let mut runs: Vec<(u32, u32)> = Vec::with_capacity(breaks + 1);
            for &row in &self.rows {
                match runs.last_mut() {
                    Some((start, rows)) if first as u32 + *start + *rows == row => *rows += 1,
                    _ => runs.push((row - first as u32, 1)),
                }
            }
            Span::Runs(first..end, runs)
        })
    }
}

impl RowIds {
    /// Any rows.
    pub(crate) fn list(rows: Vec<u32>) -> RowIds {
        RowIds::List(Arc::new(RowList::new(rows)))
    }

    /// Ascending rows: consecutive ones as such.
    pub(crate) fn ascending(rows: &[u32]) -> RowIds {
        match (rows.first(), rows.last()) {
            (Some(&first), Some(&last)) if (last - first) as usize + 1 == rows.len() => {
                RowIds::Range(first as usize..last as usize + 1)
            }
            _ => RowIds::list(rows.to_vec()),
        }
    }

    /// The rows of a segment that have a bit in `mask`, `count` of them; bit 0 is row `rows.start`, a multiple of 256.
    pub(crate) fn marked(rows: Range<usize>, mask: Vec<u64>, count: usize) -> RowIds {
        RowIds::Marked(Arc::new(MarkedRows { rows, mask, count, list: OnceLock::new() }))
    }

    fn len(&self) -> usize {
        match self {
            RowIds::Range(range) => range.len(),
            RowIds::List(list) => list.rows.len(),
            RowIds::Marked(marked) => marked.count,
        }
    }

    /// As a scan's columns are read by them.
    fn chosen(&self) -> Chosen<'_> {
        match self {
            RowIds::Range(range) => Chosen::Range(range.clone()),
            RowIds::List(list) => Chosen::Positions(&list.rows),
            RowIds::Marked(marked) => {
                Chosen::Marked(MarkedInput { rows: marked.rows.clone(), mask: &marked.mask, count: marked.count })
            }
        }
    }

    /// Some of these rows.
    fn keep(&self, rows: &[u32]) -> RowIds {
        RowIds::list(match self {
            RowIds::Range(range) => rows.iter().map(|&r| r + range.start as u32).collect(),
            RowIds::List(list) => rows.iter().map(|&r| list.rows[r as usize]).collect(),
            RowIds::Marked(marked) => rows.iter().map(|&r| marked.list().rows[r as usize]).collect(),
        })
    }
}

/// Where the columns of a group are read.
#[derive(Clone)]
pub(crate) enum Origin {
    /// Columns of a segment: column `i` of the group is column `columns[i]` of the segment.
    Segment {
        /// The segment.
        segment: Arc<Segment>,
        /// Its columns that the group has.
        columns: Arc<[usize]>,
        /// What is known of those.
        infos: Arc<[ColumnInfo]>,
        /// Where it is noted what is read of them, if it is.
        counter: Option<Arc<Counter>>,
    },
    /// Columns of rows kept.
    Rows(Arc<Rows>),
}

#[derive(Clone)]
struct Group {
    origin: Origin,
    rows: RowIds,
    /// Some row may be [`NO_ROW`].
    nulls: bool,
}

#[derive(Clone)]
enum Slot {
    Here(Arc<Vector>),
    Lazy { group: usize, column: usize },
}

/// Rows on their way through a pipeline.
#[derive(Clone)]
pub(crate) struct Chunk {
    rows: usize,
    slots: Vec<Slot>,
    groups: Vec<Group>,
    /// Stored columns, by group and place in it, that somebody wanted as Arrow has them.
    arrays: Vec<((usize, usize), ArrayRef)>,
}

impl Chunk {
    /// Rows without any column.
    pub(crate) fn empty(rows: usize) -> Chunk {
        Chunk { rows, slots: Vec::new(), groups: Vec::new(), arrays: Vec::new() }
    }

    /// Some rows of an origin with `columns` columns.
    pub(crate) fn of(origin: Origin, ids: RowIds) -> Chunk {
        let mut chunk = Chunk::empty(ids.len());
        chunk.append(origin, ids, false);
        chunk
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.slots.len()
    }

    /// Adds the columns of an origin at the end; `ids` names a row for each row here, [`NO_ROW`] for NULLs if `nulls`.
    pub(crate) fn append(&mut self, origin: Origin, ids: RowIds, nulls: bool) {
        debug_assert_eq!(ids.len(), self.rows);
        let columns = match &origin {
            Origin::Segment { columns, .. } => columns.len(),
            Origin::Rows(rows) => rows.columns.len(),
        };
        let group = self.groups.len();
        self.groups.push(Group { origin, rows: ids, nulls });
        self.slots.extend((0..columns).map(|column| Slot::Lazy { group, column }));
    }

    /// The same rows, whose loaded columns are repeated only where somebody reads them: [`keep`](Self::keep) moves row
    /// numbers.
    pub(crate) fn repeatable(mut self, infos: &[ColumnInfo]) -> Chunk {
        let (mut columns, mut of, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, slot) in self.slots.iter().enumerate() {
            if let Slot::Here(vector) = slot {
                columns.push(vector.clone());
                of.push(infos[place].clone());
                places.push(place);
            }
        }
        let kept = Rows { infos: of, columns, rows: self.rows, _charged: Vec::new(), lies: None };
        let group = self.groups.len();
        let rows = RowIds::Range(0..self.rows);
        self.groups.push(Group { origin: Origin::Rows(Arc::new(kept)), rows, nulls: false });
        for (column, place) in places.into_iter().enumerate() {
            self.slots[place] = Slot::Lazy { group, column };
        }
        self
    }

    /// Adds a column at the end.
    pub(crate) fn push(&mut self, vector: Arc<Vector>) {
        debug_assert_eq!(vector.len(), self.rows);
        self.slots.push(Slot::Here(vector));
    }

    /// Bytes that it holds on its own, about: columns that are loaded, and row numbers.
    pub(crate) fn bytes(&self) -> u64 {
        let loaded = |slot: &Slot| match slot {
            Slot::Here(vector) => vector.bytes(),
            Slot::Lazy { .. } => 0,
        };
        let numbers = |group: &Group| match &group.rows {
            RowIds::Range(_) => 0,
            RowIds::List(list) => 4 * list.rows.len() as u64,
            RowIds::Marked(marked) => 8 * marked.mask.len() as u64,
        };
        self.slots.iter().map(loaded).sum::<u64>() + self.groups.iter().map(numbers).sum::<u64>()
    }

    /// The values of a column; loaded if they are not here yet.
    pub(crate) fn column(&mut self, column: usize) -> Arc<Vector> {
        let vector = match &self.slots[column] {
            Slot::Here(vector) => return vector.clone(),
            Slot::Lazy { group, column } => Arc::new(self.groups[*group].load(*column)),
        };
        self.slots[column] = Slot::Here(vector.clone());
        vector
    }

    /// The sum of a column's integers, where it is stored, nobody has loaded it, and it can be added where it lies
    /// ([`Column::sum`](storage::Column::sum)).
    pub(crate) fn sum(&self, column: usize) -> Option<i128> {
        let Slot::Lazy { group, column } = self.slots[column] else { return None };
        self.groups[group].sum(column)
    }

    /// As [`column`](Self::column), after the source has told what was read of its rows: the rest is told here.
    pub(crate) fn column_late(&mut self, column: usize) -> Arc<Vector> {
        let lazy = match self.slots[column] {
            Slot::Lazy { group, column } => Some((group, column)),
            Slot::Here(_) => None,
        };
        let vector = self.column(column);
        if let Some((group, stored)) = lazy
            && let Origin::Segment { columns, counter: Some(counter), .. } = &self.groups[group].origin
        {
            counter.settle_column(columns[stored]);
        }
        vector
    }

    /// The values of a column as Arrow has them. What is stored and nobody has loaded comes straight from there: a copy
    /// less than by way of [`column`](Self::column).
    pub(crate) fn array(&mut self, column: usize, info: &ColumnInfo) -> ArrayRef {
        let Slot::Lazy { group, column: stored } = self.slots[column] else {
            return info.to_arrow(&self.column(column));
        };
        if let Some((_, array)) = self.arrays.iter().find(|(of, _)| *of == (group, stored)) {
            return array.clone();
        }
        let Some(array) = self.groups[group].stored(stored) else { return info.to_arrow(&self.column(column)) };
        self.arrays.push(((group, stored), array.clone()));
        array
    }

    /// What a column's codes are of, where it is stored in codes and nobody has loaded it.
    pub(crate) fn coding(&self, column: usize) -> Option<Coding> {
        let Slot::Lazy { group, column } = self.slots[column] else { return None };
        self.groups[group].coded(column).map(Coding::of)
    }

    /// The codes of such a column.
    pub(crate) fn codes(&self, column: usize) -> Option<Vec<u32>> {
        let Slot::Lazy { group, column } = self.slots[column] else { return None };
        let group = &self.groups[group];
        let coded = group.coded(column)?;
        group.note(column, false);
        Some(codes_of(coded, &group.rows))
    }

    /// Keeps the rows that `rows` names, in its order, as often as it names them.
    pub(crate) fn keep(&mut self, rows: &[u32]) {
        // Groups that no column is left of would be carried along for nothing.
        let mut used = vec![false; self.groups.len()];
        for slot in &mut self.slots {
            match slot {
                Slot::Here(vector) => *vector = Arc::new(vector.take(rows, false)),
                Slot::Lazy { group, .. } => used[*group] = true,
            }
        }
        for (group, used) in self.groups.iter_mut().zip(used) {
            group.rows = if used { group.rows.keep(rows) } else { RowIds::Range(0..rows.len()) };
        }
        self.arrays.clear();
        self.rows = rows.len();
    }

    /// The same rows with these of the columns, in this order, as often as they are named.
    pub(crate) fn project(mut self, columns: &[usize]) -> Chunk {
        self.slots = columns.iter().map(|&c| self.slots[c].clone()).collect();
        self
    }

    /// As a record batch.
    pub(crate) fn batch(&mut self, infos: &[ColumnInfo], schema: &SchemaRef) -> Result<RecordBatch, ExecError> {
        let arrays = infos.iter().enumerate().map(|(i, info)| self.array(i, info)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
    }
}

impl Group {
    fn load(&self, column: usize) -> Vector {
        match &self.origin {
            Origin::Rows(rows) => {
                if let Some(lies) = &rows.lies {
                    lies.read(column, self.rows.len(), !matches!(self.rows, RowIds::Range(_)));
                }
                match &self.rows {
                    RowIds::Range(range) => rows.columns[column].slice(range.start, range.len()),
                    RowIds::List(list) => rows.columns[column].take(&list.rows, self.nulls),
                    RowIds::Marked(marked) => rows.columns[column].take(&marked.list().rows, self.nulls),
                }
            }
            Origin::Segment { segment, columns, infos, .. } => {
                debug_assert!(!self.nulls);
                // Vids go on as they are; integers come out of the dictionary.
                self.note(column, !matches!(infos[column].kind, ColumnKind::Vid(_)));
                load_stored(segment.column(columns[column]), &infos[column], &self.rows)
            }
        }
    }

    fn sum(&self, column: usize) -> Option<i128> {
        let Origin::Segment { segment, columns, infos, .. } = &self.origin else { return None };
        if !matches!(infos[column].kind, ColumnKind::Int { .. }) {
            return None;
        }
        let stored = segment.column(columns[column]);
        let total = match &self.rows {
            RowIds::Range(range) => stored.sum(range.clone(), None),
            RowIds::Marked(marked) => stored.sum(marked.rows.clone(), Some(&marked.mask)),
            RowIds::List(_) => None,
        }?;
        self.note(column, true);
        Some(total)
    }

    /// The values of a column of a segment as Arrow has them.
    fn stored(&self, column: usize) -> Option<ArrayRef> {
        let Origin::Segment { segment, columns, .. } = &self.origin else { return None };
        self.note(column, true);
        Some(array_of(segment.column(columns[column]), &self.rows))
    }

    fn coded(&self, column: usize) -> Option<&CodedColumn> {
        match &self.origin {
            Origin::Segment { segment, columns, .. } => segment.column(columns[column]).as_coded(),
            Origin::Rows(_) => None,
        }
    }

    /// Notes that a column is read, and the values of its dictionary too where they are wanted.
    fn note(&self, column: usize, values: bool) {
        if let Origin::Segment { columns, counter: Some(counter), .. } = &self.origin {
            match &self.rows {
                RowIds::List(list) if !list.rows.is_empty() => {
                    let rows = (list.rows.len(), list.ends().len());
                    counter.reads_among(columns[column], rows, TouchPhase::Materialize);
                }
                rows => counter.reads(columns[column], &rows.chosen(), TouchPhase::Materialize),
            }
            if values {
                counter.takes_values(columns[column], self.rows.len());
            }
        }
    }
}

/// Codes of some rows. Where they lie close together, unpacking all between the first and the last and picking from
/// those in the cache costs less than finding each in the packed words.
fn codes_of(column: &CodedColumn, rows: &RowIds) -> Vec<u32> {
    let mut codes = Vec::with_capacity(rows.len());
    match rows {
        RowIds::Range(range) => column.unpack(range.clone(), &mut codes),
        RowIds::Marked(marked) => column.compress(marked.rows.clone(), &marked.mask, &mut codes),
        RowIds::List(list) => {
            let mut all = Vec::new();
            let mut unpack = |span: &Range<usize>| {
                all.reserve_exact(span.len());
                column.unpack(span.clone(), &mut all);
            };
            match list.span() {
                Span::Apart => column.gather(&list.rows, &mut codes),
                Span::Close(span) => {
                    unpack(span);
                    codes.extend(list.rows.iter().map(|&row| all[row as usize - span.start]));
                }
                Span::Runs(span, runs) => {
                    unpack(span);
                    for &(start, rows) in runs {
                        codes.extend_from_slice(&all[start as usize..(start + rows) as usize]);
                    }
                }
            }
        }
    }
    codes
}

/// Rows of a stored column in its surface type.
fn array_of(column: &Column, rows: &RowIds) -> ArrayRef {
    match rows {
        RowIds::Range(range) => column.slice(range.clone()),
        RowIds::List(list) => column.take(&list.rows),
        RowIds::Marked(marked) => column.take_marked(marked.rows.clone(), &marked.mask),
    }
}

/// Decodes rows of a stored column into the kind that `info` asks for.
fn load_stored(column: &Column, info: &ColumnInfo, rows: &RowIds) -> Vector {
    let (Some(coded), false) = (column.as_coded(), matches!(info.kind, ColumnKind::Arrow | ColumnKind::Float)) else {
        return info.vector_of(&array_of(column, rows));
    };
    let mut codes = codes_of(coded, rows);
    let valid = coded.null_code().then(|| {
        let valid: Vec<bool> = codes.iter().map(|&code| code != 0).collect();
        codes.iter_mut().for_each(|code| *code = code.saturating_sub(1));
        valid
    });
    let data = match &info.kind {
        ColumnKind::Vid(_) => Data::Vid(codes),
        // A column of nothing but NULLs has an empty dictionary.
        _ if coded.dictionary().is_empty() => Data::Int(vec![0; codes.len()]),
        _ => {
            let mut values = Vec::with_capacity(codes.len());
            coded.dictionary().integers(&codes, &mut values);
            Data::Int(values)
        }
    };
    Vector { data, valid }
}
