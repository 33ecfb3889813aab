//! [`Store`]: rows that functions of the order of rows keep until every row has come.
//!
//! A chunk's rows are kept as they come, with the keys that they are ordered by; a *locator* says where: the chunk's
//! number in the store and the row in it. Groups keep locators only. A chunk also has its *arrival*, its rank among
//! all chunks of the input, so that rows with equal keys come in the order of the input, whichever worker read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::row::Rows as ByteRows;
use parking_lot::{RwLock, RwLockReadGuard};

use super::column::{Column, Values};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::keys::group::load;
use crate::keys::order::OrderLayout;
use crate::plan::SortKey;
use crate::tasks::run::Run;

/// Bits of a locator, and of an arrival, for the row within its chunk.
const ROW_BITS: u32 = 16;
/// Bits of an arrival for the chunk within its piece of the pipeline.
const SEQUENCE_BITS: u32 = 24;
/// No row.
pub(super) const NOWHERE: u64 = u64::MAX;
/// Rows that are sorted without a look at the statement.
const RUN_ROWS: usize = 1 << 16;

/// Where the chunks of a worker stand among all chunks of the input.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrival(u64);

impl Arrival {
    /// Before the first chunk of a piece.
    pub(super) fn of_morsel(morsel: usize) -> Arrival {
        Arrival((morsel as u64) << SEQUENCE_BITS)
    }

    /// Of the next chunk of the piece. Pieces of more chunks than there are numbers would run into the next one, so
    /// the last number is theirs.
    pub(super) fn next(self) -> Arrival {
        let sequence = (1 << SEQUENCE_BITS) - 1;
        if self.0 & sequence == sequence { self } else { Arrival(self.0 + 1) }
    }

    /// Of a row.
    pub(super) fn of_row(self, row: usize) -> u64 {
        self.0 << ROW_BITS | row as u64
    }
}

/// Keys of a chunk's rows.
enum StoreKeys {
    Words(Vec<u128>),
    Bytes(ByteRows),
}

struct StoredChunk {
    arrival: Arrival,
    columns: Vec<Arc<Vector>>,
    keys: StoreKeys,
    /// Row numbers within the chunk as it came.
    rows: Vec<u32>,
}

/// Rows by locator.
pub(super) struct Store {
    /// Columns of the input that are kept.
    pub(super) columns: Vec<usize>,
    pub(super) order: Vec<SortKey>,
    /// Rows of a group with equal keys are one.
    pub(super) distinct: bool,
    layout: OrderLayout,
    chunks: RwLock<Vec<StoredChunk>>,
    bytes: AtomicU64,
}

/// A row on its way to where it belongs: its key, where it came, its locator.
type Entry = (u128, u64, u64);

impl Store {
    /// Of rows of chunks of which `infos` are known.
    pub(super) fn new(
        column: usize,
        order: &[SortKey],
        distinct: bool,
        infos: &[ColumnInfo],
    ) -> Result<Store, ExecError> {
        let mut order = order.to_vec();
        if distinct && order.iter().all(|key| key.column != column) {
            order.push(SortKey { column, descending: false, nulls_first: false });
        }
        let layout = OrderLayout::new(&order, infos)?;
        Ok(Store {
            columns: vec![column],
            order,
            distinct,
            layout,
            chunks: RwLock::default(),
            bytes: AtomicU64::new(0),
        })
    }

    /// Do keys fit a word?
    pub(super) fn has_words(&self) -> bool {
        matches!(self.layout, OrderLayout::Words(..))
    }

    /// Where a column is kept; it is from then on.
    pub(super) fn column(&mut self, column: usize) -> usize {
        self.columns.iter().position(|&c| c == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The keys of a chunk's rows, if they fit a word.
    pub(super) fn words(&self, chunk: &mut Chunk, infos: &[ColumnInfo]) -> Option<Vec<u128>> {
        let OrderLayout::Words(packed, _) = &self.layout else { return None };
        let mut words = Vec::new();
        packed.words(0..chunk.rows(), |column| load(chunk, column, &infos[column]), &mut words);
        Some(words)
    }

    /// Keeps rows of a chunk: the locator of the first; the others follow.
    pub(super) fn keep(
        &self,
        chunk: &mut Chunk,
        infos: &[ColumnInfo],
        rows: Vec<u32>,
        arrival: Arrival,
    ) -> Result<u64, ExecError> {
        debug_assert!(chunk.rows() <= 1 << ROW_BITS, "a locator has room for fewer rows");
        let all = rows.len() == chunk.rows() && rows.is_sorted();
        let mut column = |column: usize| {
            let vector = load(chunk, column, &infos[column]);
            if all { vector } else { Arc::new(vector.take(&rows, false)) }
        };
        let columns: Vec<Arc<Vector>> = self.columns.iter().map(|&c| column(c)).collect();
        let keys = match &self.layout {
            OrderLayout::Words(packed, _) => {
                let mut words = Vec::new();
                packed.words(0..rows.len(), column, &mut words);
                StoreKeys::Words(words)
            }
            OrderLayout::Bytes(bytes) => StoreKeys::Bytes(bytes.of_chunk(rows.len(), column)?),
        };
        let key_bytes = match &keys {
            StoreKeys::Words(words) => size_of_val(words.as_slice()),
            StoreKeys::Bytes(rows) => rows.size(),
        };
        let bytes = columns.iter().map(|c| c.bytes()).sum::<u64>() + (key_bytes + size_of_val(rows.as_slice())) as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut chunks = self.chunks.write();
        chunks.push(StoredChunk { arrival, columns, keys, rows });
        Ok(((chunks.len() - 1) as u64) << ROW_BITS)
    }

    /// All rows, to be read.
    pub(super) fn read<'s>(&'s self, infos: &'s [ColumnInfo]) -> Reader<'s> {
        Reader { store: self, chunks: self.chunks.read(), infos }
    }
}

/// Rows that are all there.
pub(super) struct Reader<'s> {
    store: &'s Store,
    chunks: RwLockReadGuard<'s, Vec<StoredChunk>>,
    infos: &'s [ColumnInfo],
}

fn chunk_of(locator: u64) -> usize {
    (locator >> ROW_BITS) as usize
}

fn row_of(locator: u64) -> usize {
    (locator & ((1 << ROW_BITS) - 1)) as usize
}

impl Reader<'_> {
    /// Puts a group's rows in order; of those that are equal by all keys one is left, where each is to be seen once.
    pub(super) fn order(&self, locators: &[u64], run: &Run<'_>) -> Result<Vec<u64>, ExecError> {
        if !self.store.has_words() {
            return self.order_by_bytes(locators, run);
        }
        let entries = locators.iter().map(|&locator| {
            let chunk = &self.chunks[chunk_of(locator)];
            let StoreKeys::Words(words) = &chunk.keys else { unreachable!("keys are words") };
            let row = row_of(locator);
            (words[row], chunk.arrival.of_row(chunk.rows[row] as usize), locator)
        });
        let mut entries: Vec<Entry> = sorted(entries.collect(), &|a, b| a < b, run)?;
        if self.store.distinct {
            entries.dedup_by_key(|entry| entry.0);
        }
        Ok(entries.into_iter().map(|entry| entry.2).collect())
    }

    fn order_by_bytes(&self, locators: &[u64], run: &Run<'_>) -> Result<Vec<u64>, ExecError> {
        let arrival = |locator: u64| {
            let chunk = &self.chunks[chunk_of(locator)];
            chunk.arrival.of_row(chunk.rows[row_of(locator)] as usize)
        };
        let less = |&a: &u64, &b: &u64| match self.bytes_of(a).cmp(self.bytes_of(b)) {
            std::cmp::Ordering::Equal => arrival(a) < arrival(b),
            other => other.is_lt(),
        };
        let mut locators = sorted(locators.to_vec(), &less, run)?;
        if self.store.distinct {
            locators.dedup_by(|&mut a, &mut b| self.bytes_of(a) == self.bytes_of(b));
        }
        Ok(locators)
    }

    fn bytes_of(&self, locator: u64) -> &[u8] {
        match &self.chunks[chunk_of(locator)].keys {
            StoreKeys::Bytes(rows) => rows.row(row_of(locator)).data(),
            StoreKeys::Words(_) => unreachable!("keys are bytes"),
        }
    }

    /// Have two rows equal keys?
    pub(super) fn are_equal(&self, a: u64, b: u64) -> bool {
        match (&self.chunks[chunk_of(a)].keys, &self.chunks[chunk_of(b)].keys) {
            (StoreKeys::Words(left), StoreKeys::Words(right)) => left[row_of(a)] == right[row_of(b)],
            _ => self.bytes_of(a) == self.bytes_of(b),
        }
    }

    /// The values of rows in a kept column; NULL for [`NOWHERE`].
    pub(super) fn gather(&self, locators: &[u64], column: usize) -> Result<Column, ExecError> {
        let info = self.infos[self.store.columns[column]].clone();
        let here = |locator: u64| {
            (locator != NOWHERE).then(|| (&*self.chunks[chunk_of(locator)].columns[column], row_of(locator)))
        };
        let valid: Vec<bool> = locators.iter().map(|&l| here(l).is_some_and(|(v, row)| v.is_valid(row))).collect();
        let valid = valid.contains(&false).then_some(valid);
        macro_rules! of {
            ($data:ident) => {
                locators
                    .iter()
                    .map(|&locator| match here(locator) {
                        Some((Vector { data: Data::$data(values), .. }, row)) => values[row],
                        _ => Default::default(),
                    })
                    .collect()
            };
        }
        let values = match &info.kind {
            ColumnKind::Int { .. } => Values::Int(of!(Int)),
            ColumnKind::Float => Values::Float(of!(Float)),
            ColumnKind::Vid(_) => Values::Vid(of!(Vid)),
            ColumnKind::Arrow => {
                let array = self.gather_arrow(locators, column, &info)?;
                return Ok(Column::new(info, Values::Arrow(array), None));
            }
        };
        Ok(Column::new(info, values, valid))
    }

    fn gather_arrow(&self, locators: &[u64], column: usize, info: &ColumnInfo) -> Result<ArrayRef, ExecError> {
        let null = new_null_array(info.data_type(), 1);
        // Chunks that rows are taken from, each once.
        let mut place_of = vec![usize::MAX; self.chunks.len()];
        let mut arrays: Vec<&dyn Array> = vec![null.as_ref()];
        let mut rows = Vec::with_capacity(locators.len());
        for &locator in locators {
            if locator == NOWHERE {
                rows.push((0, 0));
                continue;
            }
            let chunk = chunk_of(locator);
            if place_of[chunk] == usize::MAX {
                let Data::Arrow(array) = &self.chunks[chunk].columns[column].data else {
                    unreachable!("a vector has the kind of its column")
                };
                place_of[chunk] = arrays.len();
                arrays.push(array.as_ref());
            }
            rows.push((place_of[chunk], row_of(locator)));
        }
        Ok(interleave(&arrays, &rows)?)
    }
}

/// Values in order. Many are sorted in parts, by all threads, which are merged two by two, so that the statement is
/// looked at in between.
fn sorted<T: Copy + Send + Sync>(
    mut values: Vec<T>,
    less: &(dyn Fn(&T, &T) -> bool + Sync),
    run: &Run<'_>,
) -> Result<Vec<T>, ExecError> {
    use std::cmp::Ordering::{Greater, Less};
    // No two are equal: a row comes once.
    let order = |a: &T, b: &T| if less(a, b) { Less } else { Greater };
    if values.len() <= RUN_ROWS {
        values.sort_by(order);
        return Ok(values);
    }
    let parts: Vec<&[T]> = values.chunks(RUN_ROWS).collect();
    let mut parts = run.map(parts.len(), &|part| {
        let mut part = parts[part].to_vec();
        part.sort_by(order);
        Ok(part)
    })?;
    while parts.len() > 1 {
        let pairs: Vec<&[Vec<T>]> = parts.chunks(2).collect();
        parts = run.map(pairs.len(), &|pair| match pairs[pair] {
            [left, right] => merged(left, right, less, run),
            rest => Ok(rest[0].clone()),
        })?;
    }
    Ok(parts.pop().unwrap_or_default())
}

fn merged<T: Copy>(
    left: &[T],
    right: &[T],
    less: &(dyn Fn(&T, &T) -> bool + Sync),
    run: &Run<'_>,
) -> Result<Vec<T>, ExecError> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        if all.len() % RUN_ROWS == 0 {
            run.check()?;
        }
        if less(&right[r], &left[l]) {
            all.push(right[r]);
            r += 1;
        } else {
            all.push(left[l]);
            l += 1;
        }
    }
    all.extend_from_slice(&left[l..]);
    all.extend_from_slice(&right[r..]);
    Ok(all)
}
