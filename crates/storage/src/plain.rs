//! A column kept as its values, where a dictionary does not pay or the type has no order of ours.
//!
//! The column is a list of pieces of at most one granule's rows, as producers staged them: a granule that a producer
//! ended before it was full is not filled up, so nothing has to be copied when producers are put together.
//!
//! # Invariants
//! Pieces follow each other without gaps and cover the column; the bytes of one piece's strings fit one arrow buffer.

// Arrays are made of stored values without checking again that they are UTF-8.
#![allow(unsafe_code)]

mod data;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, new_empty_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::{concat, interleave};
use arrow::datatypes::DataType;
use numa::Region;

use crate::GRANULE_ROWS;
use crate::copies::Copies;
use crate::dictionary::Value;
use crate::identity::ColumnId;
use crate::kernels::share::region_buffer;
use crate::kernels::sum::{sum, sum_wide};
use crate::strings::{INLINE_BYTES_MAX, array_of_views, copy_long_values, moved_view, view_len, view_within};
use crate::types::{Native, Physical, number_array, with_native};
pub(crate) use data::{BytesData, FixedData, PlainData, PlainPiece};

/// Results refer to stored bytes only where at least this share of what they refer to is theirs (as 1 in this many):
/// who accounts for a batch counts every byte of its buffers.
const SHARED_WASTE_MAX: usize = 2;

/// One column of a segment, as values.
#[derive(Debug)]
pub struct PlainColumn {
    id: ColumnId,
    data_type: DataType,
    rows: usize,
    nulls: bool,
    pieces: Vec<PlainPiece>,
    /// The piece that holds each granule's first row.
    first_pieces: Vec<u32>,
    /// Of the values, every copy counted: asked for by every statement, and there may be many pieces.
    bytes: usize,
}

/// Strings of consecutive rows, one after the other.
#[derive(Debug, Clone)]
pub struct Texts<'a> {
    /// The first row.
    pub first: usize,
    /// Row `first + i` is `offsets[i]..offsets[i + 1]` of these bytes.
    pub bytes: &'a [u8],
    /// One more than there are rows; ascending.
    pub offsets: &'a [u32],
    /// Which are not NULL, where some may be.
    pub nulls: Option<NullBuffer>,
}

/// The data of the pieces; what neighbours share is listed once.
fn distinct_data(pieces: &[PlainPiece]) -> impl Iterator<Item = &Copies<Arc<PlainData>>> {
    let mut previous: *const PlainData = std::ptr::null();
    pieces.iter().map(|piece| &piece.data).filter(move |data| {
        let here = Arc::as_ptr(data.first());
        std::mem::replace(&mut previous, here) != here
    })
}

fn bytes_of(pieces: &[PlainPiece]) -> usize {
    distinct_data(pieces).flat_map(Copies::all).map(|data| data.bytes()).sum()
}

impl PlainColumn {
    /// The column of surface type `data_type` made of these pieces.
    pub(crate) fn new(data_type: DataType, pieces: Vec<PlainPiece>) -> PlainColumn {
        let rows = pieces.last().map_or(0, |piece| piece.start + piece.rows);
        let mut expected = 0;
        for piece in &pieces {
            assert!(piece.start == expected && piece.rows > 0);
            expected += piece.rows;
        }
        let starts = (0..rows.div_ceil(GRANULE_ROWS)).map(|granule| granule * GRANULE_ROWS);
        let piece_at = |row: usize| pieces.partition_point(|piece| piece.start <= row) as u32 - 1;
        let first_pieces = starts.map(piece_at).collect();
        let nulls = pieces.iter().any(|piece| piece.data.first().has_nulls());
        let bytes = bytes_of(&pieces);
        PlainColumn { id: ColumnId::next(), data_type, rows, nulls, pieces, first_pieces, bytes }
    }

    /// Its number.
    pub(crate) fn id(&self) -> ColumnId {
        self.id
    }

    /// The same under another number.
    pub(crate) fn numbered(self, id: ColumnId) -> PlainColumn {
        PlainColumn { id, ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The surface type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether a NULL may be among the values; never false where one is.
    pub fn has_nulls(&self) -> bool {
        self.nulls
    }

    /// The values of `rows`, in the surface type; shares the stored bytes where it can.
    pub fn slice(&self, rows: Range<usize>) -> ArrayRef {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        if rows.is_empty() {
            return new_empty_array(&self.data_type);
        }
        let first = self.piece_of(rows.start);
        let parts = self.pieces[first..].iter().take_while(|piece| piece.start < rows.end).map(|piece| {
            let from = rows.start.max(piece.start) - piece.start;
            let to = rows.end.min(piece.start + piece.rows) - piece.start;
            (piece, piece.offset + from..piece.offset + to)
        });
        let arrays: Vec<ArrayRef> = parts.map(|(piece, rows)| self.slice_piece(piece.data.near(), rows)).collect();
        self.joined(arrays)
    }

    /// The strings of `rows` as they lie in memory; `None` where they are no strings.
    pub fn texts(&self, rows: Range<usize>) -> Option<Vec<Texts<'_>>> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        if self.data_type != DataType::Utf8View {
            return None;
        }
        let first = if rows.is_empty() { self.pieces.len() } else { self.piece_of(rows.start) };
        let pieces = self.pieces[first..].iter().take_while(|piece| piece.start < rows.end).map(|piece| {
            let from = rows.start.max(piece.start);
            let to = rows.end.min(piece.start + piece.rows);
            let within = from - piece.start + piece.offset..to - piece.start + piece.offset;
            let data = piece.data.near();
            let PlainData::Bytes(strings) = data.as_ref() else { return None };
            Some(Texts {
                first: from,
                bytes: strings.all_bytes(),
                offsets: &strings.offsets.words::<u32>()[within.start..=within.end],
                nulls: strings.validity.as_ref().map(|bits| slice_validity(bits, within)),
            })
        });
        pieces.collect()
    }

    /// The values at `positions`, rows of the segment in any order, in the surface type.
    pub fn take(&self, positions: &[u32]) -> ArrayRef {
        if positions.is_empty() {
            return new_empty_array(&self.data_type);
        }
        if let Some(array) = self.take_of_one_piece(positions) {
            return array;
        }
        let mut last = 0;
        let places: Vec<(usize, usize)> = positions
            .iter()
            .map(|&position| {
                let row = position as usize;
                let piece = &self.pieces[last];
                if !(piece.start..piece.start + piece.rows).contains(&row) {
                    last = self.piece_of(row);
                }
                let piece = &self.pieces[last];
                (last, row - piece.start + piece.offset)
            })
            .collect();
        match Physical::of(&self.data_type) {
            Physical::Bytes => self.take_bytes(&places),
            Physical::Opaque => self.take_arrays(&places),
            physical => self.take_fixed(&places, physical),
        }
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The regions behind the values, those of all copies.
    pub(crate) fn regions(&self) -> Vec<&Region> {
        distinct_data(&self.pieces).flat_map(Copies::all).flat_map(|data| data.regions()).collect()
    }

    /// The value of a row, `None` for NULL; for columns of numbers, strings and binary values.
    #[inline]
    pub(crate) fn value_at(&self, row: usize) -> Option<Value<'_>> {
        let piece = &self.pieces[self.piece_of(row)];
        let at = row - piece.start + piece.offset;
        let data = piece.data.near().as_ref();
        if self.nulls && !data.is_valid(at) {
            return None;
        }
        Some(match data {
            PlainData::Fixed(fixed) => {
                let physical = Physical::of(&self.data_type);
                Value::Key(with_native!(physical, N => fixed.values.words::<N>()[at].wide_key()))
            }
            PlainData::Bytes(strings) => Value::Bytes(&strings.all_bytes()[strings.range(at)]),
            PlainData::Array(_) => unreachable!("types without an order of ours have no values that compare"),
        })
    }

    /// Calls `each` with every row of `rows` that is not NULL and its value, in order; for columns as above.
    pub(crate) fn for_each_value<'a>(&'a self, rows: Range<usize>, mut each: impl FnMut(usize, Value<'a>)) {
        if rows.is_empty() {
            return;
        }
        let physical = Physical::of(&self.data_type);
        let first = self.piece_of(rows.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < rows.end) {
            let from = rows.start.max(piece.start);
            let to = rows.end.min(piece.start + piece.rows);
            let at = from - piece.start + piece.offset..to - piece.start + piece.offset;
            let data = piece.data.near().as_ref();
            let nulls = data.has_nulls();
            match data {
                PlainData::Fixed(fixed) => with_native!(physical, N => {
                    for ((row, at), value) in (from..).zip(at.clone()).zip(&fixed.values.words::<N>()[at]) {
                        if !nulls || data.is_valid(at) {
                            each(row, Value::Key(value.wide_key()));
                        }
                    }
                }),
                PlainData::Bytes(strings) => {
                    let bytes = strings.all_bytes();
                    for (row, at) in (from..).zip(at) {
                        if !nulls || data.is_valid(at) {
                            each(row, Value::Bytes(&bytes[strings.range(at)]));
                        }
                    }
                }
                PlainData::Array(_) => unreachable!("types without an order of ours have no values that compare"),
            }
        }
    }

    /// The pieces, in row order.
    pub(crate) fn pieces(&self) -> &[PlainPiece] {
        &self.pieces
    }

    /// The same rows, each piece's data as `exchange` gives it.
    pub(crate) fn moved(&self, exchange: impl Fn(&Copies<Arc<PlainData>>) -> Copies<Arc<PlainData>>) -> PlainColumn {
        let pieces: Vec<PlainPiece> =
            self.pieces.iter().map(|piece| PlainPiece { data: exchange(&piece.data), ..piece.clone() }).collect();
        PlainColumn {
            id: ColumnId::next(),
            bytes: bytes_of(&pieces),
            data_type: self.data_type.clone(),
            rows: self.rows,
            nulls: self.nulls,
            pieces,
            first_pieces: self.first_pieces.clone(),
        }
    }

    /// The pieces that hold rows of a granule.
    pub(crate) fn pieces_of_granule(&self, granule: usize) -> &[PlainPiece] {
        let first = self.first_pieces[granule] as usize;
        let end = (granule + 1) * GRANULE_ROWS;
        let count = self.pieces[first..].partition_point(|piece| piece.start < end);
        &self.pieces[first..first + count]
    }

    fn piece_of(&self, row: usize) -> usize {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let granule = row / GRANULE_ROWS;
        let from = self.first_pieces[granule] as usize;
        let to = self.first_pieces.get(granule + 1).map_or(self.pieces.len(), |&piece| piece as usize + 1);
        from + self.pieces[from..to].partition_point(|piece| piece.start <= row) - 1
    }

    fn slice_piece(&self, data: &PlainData, rows: Range<usize>) -> ArrayRef {
        let nulls = data.validity().map(|bits| slice_validity(bits, rows.clone()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match data {
            PlainData::Array(array) => array.slice(rows.start, rows.len()),
            PlainData::Fixed(fixed) => {
                let width = Physical::of(&self.data_type).width_bytes();
                let values = region_buffer(&fixed.values, rows.start * width..rows.end * width);
                number_array(&self.data_type, rows.len(), values, nulls)
            }
            PlainData::Bytes(strings) => {
                let all = strings.all_bytes();
                let offsets = &strings.offsets.words::<u32>()[rows.start..=rows.end];
                let base = offsets[0] as usize;
                let views = offsets.windows(2).map(|ends| {
                    let from = ends[0] as usize;
                    let to = ends[1] as usize;
                    view_within(all, from..to, 0, from - base)
                });
                let views: Vec<u128> = views.collect();
                let buffers: Vec<Buffer> = match &strings.bytes {
                    Some(region) => vec![region_buffer(region, base..offsets[rows.len()] as usize)],
                    None => Vec::new(),
                };
                // SAFETY: each view is of its value's bytes, in a buffer that begins at the first of them. Pieces of a
                // column hold values of its type, which staging took out of arrow arrays: text is UTF-8.
                unsafe { array_of_views(&self.data_type, views.into(), buffers.into(), nulls) }
            }
        }
    }

    fn joined(&self, arrays: Vec<ArrayRef>) -> ArrayRef {
        if let [array] = &arrays[..] {
            return Arc::clone(array);
        }
        let parts: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        concat(&parts).expect("pieces of one column have one type and fit one array")
    }

    fn nulls_at(&self, places: &[(usize, usize)]) -> Option<NullBuffer> {
        if !self.nulls {
            return None;
        }
        let valid = |i: usize| self.pieces[places[i].0].data.near().is_valid(places[i].1);
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(places.len(), valid));
        (nulls.null_count() > 0).then_some(nulls)
    }

    /// Whether [`compress`](Self::compress) knows it.
    pub(crate) fn is_of_numbers(&self) -> bool {
        self.pieces.first().is_some_and(|piece| matches!(piece.data.first().as_ref(), PlainData::Fixed(_)))
    }

    /// The values of those of `rows` whose bits are set in `mask`, of a column of numbers.
    pub(crate) fn compress(&self, rows: Range<usize>, mask: &[u64]) -> ArrayRef {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        if rows.is_empty() {
            return new_empty_array(&self.data_type);
        }
        let first = self.piece_of(rows.start);
        let pieces = self.pieces[first..].iter().take_while(|piece| piece.start < rows.end);
        let marks: Vec<Marks<'_>> = pieces.map(|piece| Marks::of(piece, &rows, mask)).collect();
        let count = mask.iter().map(|word| word.count_ones() as usize).sum();
        let physical = Physical::of(&self.data_type);
        let values = with_native!(physical, N => {
            let mut kept = Vec::with_capacity(count);
            for of_piece in &marks {
                let PlainData::Fixed(fixed) = of_piece.data else { unreachable!("numbers are kept at a fixed width") };
                marked(&fixed.values.words::<N>()[of_piece.within.clone()], &of_piece.mask, &mut kept);
            }
            Buffer::from_vec(kept)
        });
        let nulls = self.nulls.then(|| {
            let mut valid = BooleanBufferBuilder::new(count);
            for of_piece in &marks {
                each_marked(&of_piece.mask, |row| valid.append(of_piece.data.is_valid(of_piece.within.start + row)));
            }
            NullBuffer::new(valid.finish())
        });
        number_array(&self.data_type, count, values, nulls.filter(|nulls| nulls.null_count() > 0))
    }

    /// The sum of integers of at most 64 bits that are not NULL; see [`Column::sum`](crate::Column::sum).
    pub(crate) fn sum(&self, rows: Range<usize>, mask: Option<&[u64]>) -> Option<i128> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let mut total = 0;
        if self.nulls || rows.is_empty() {
            return (!self.nulls).then_some(total);
        }
        let physical = Physical::of(&self.data_type);
        let first = self.piece_of(rows.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < rows.end) {
            let (within, mask) = match mask {
                Some(mask) => {
                    let marks = Marks::of(piece, &rows, mask);
                    (marks.within, Some(marks.mask))
                }
                None => {
                    let behind = |row: usize| row - piece.start + piece.offset;
                    let end = rows.end.min(piece.start + piece.rows);
                    (behind(rows.start.max(piece.start))..behind(end), None)
                }
            };
            let PlainData::Fixed(fixed) = piece.data.near().as_ref() else { return None };
            let mask = mask.as_deref();
            total += match physical {
                Physical::I8 => sum(&fixed.values.words::<i8>()[within], mask),
                Physical::I16 => sum(&fixed.values.words::<i16>()[within], mask),
                Physical::I32 => sum(&fixed.values.words::<i32>()[within], mask),
                Physical::I64 => sum_wide(&fixed.values.words::<i64>()[within], mask),
                Physical::U8 => sum(&fixed.values.words::<u8>()[within], mask),
                Physical::U16 => sum(&fixed.values.words::<u16>()[within], mask),
                Physical::U32 => sum(&fixed.values.words::<u32>()[within], mask),
                _ => return None,
            };
        }
        Some(total)
    }

    /// Numbers of rows that are all in the piece of the first; `None` where that is not so.
    fn take_of_one_piece(&self, positions: &[u32]) -> Option<ArrayRef> {
        let piece = &self.pieces[self.piece_of(positions[0] as usize)];
        let rows = piece.start..piece.start + piece.rows;
        // A loop without an exit is made of vector instructions.
        let is_within = |all, &position: &u32| all & rows.contains(&(position as usize));
        if self.pieces.len() > 1 && !positions.iter().fold(true, is_within) {
            return None;
        }
        let data = piece.data.near().as_ref();
        let PlainData::Fixed(fixed) = data else { return None };
        let physical = Physical::of(&self.data_type);
        let values = with_native!(physical, N => {
            let words = &fixed.values.words::<N>()[piece.offset..piece.offset + piece.rows];
            Buffer::from_vec(positions.iter().map(|&row| words[row as usize - piece.start]).collect::<Vec<N>>())
        });
        let valid = |i: usize| data.is_valid(positions[i] as usize - piece.start + piece.offset);
        let nulls = self.nulls.then(|| NullBuffer::new(BooleanBuffer::collect_bool(positions.len(), valid)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Some(number_array(&self.data_type, positions.len(), values, nulls))
    }

    fn take_fixed(&self, places: &[(usize, usize)], physical: Physical) -> ArrayRef {
        let values = with_native!(physical, N => {
            let value = |&(piece, row): &(usize, usize)| match self.pieces[piece].data.near().as_ref() {
                PlainData::Fixed(fixed) => fixed.values.words::<N>()[row],
                _ => unreachable!("numbers are kept at a fixed width"),
            };
            Buffer::from_vec(places.iter().map(value).collect::<Vec<N>>())
        });
        number_array(&self.data_type, places.len(), values, self.nulls_at(places))
    }

    fn take_bytes(&self, places: &[(usize, usize)]) -> ArrayRef {
        let mut taken = LongValues::default();
        let mut views = Vec::with_capacity(places.len());
        for &(piece, row) in places {
            let PlainData::Bytes(strings) = self.pieces[piece].data.near().as_ref() else {
                unreachable!("strings are kept as bytes")
            };
            let range = strings.range(row);
            let buffer = if range.len() > INLINE_BYTES_MAX { taken.touch(piece, strings, &range) } else { 0 };
            views.push(view_within(strings.all_bytes(), range.clone(), buffer, range.start));
        }
        let buffers = taken.buffers(&mut views);
        // SAFETY: one view per place, of its value's bytes in the buffer that `taken` says. Pieces of a column hold
        // values of its type, which staging took out of arrow arrays: text is UTF-8.
        unsafe { array_of_views(&self.data_type, views.into(), buffers, self.nulls_at(places)) }
    }

    fn take_arrays(&self, places: &[(usize, usize)]) -> ArrayRef {
        let mut arrays: Vec<&dyn Array> = Vec::new();
        // Each piece's place among `arrays`, once it is used.
        let mut slots = vec![None; self.pieces.len()];
        let mut indices = Vec::with_capacity(places.len());
        for &(piece, row) in places {
            let slot = *slots[piece].get_or_insert_with(|| {
                let PlainData::Array(array) = self.pieces[piece].data.first().as_ref() else {
                    unreachable!("types without a layout of ours are kept as arrays")
                };
                arrays.push(array.as_ref());
                arrays.len() - 1
            });
            indices.push((slot, row));
        }
        interleave(&arrays, &indices).expect("pieces of one column have one type and fit one array")
    }
}

/// Calls `f` with the number of each bit that is set.
fn each_marked(mask: &[u64], mut f: impl FnMut(usize)) {
    for (number, &word) in mask.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            f(number * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

/// Bits of a word from which on looking at all of them takes less time than finding those that are set.
const DENSE_MIN: u32 = 12;

/// Adds the values whose bits are set.
fn marked<T: Copy>(values: &[T], mask: &[u64], kept: &mut Vec<T>) {
    for (number, &word) in mask.iter().enumerate() {
        let first = number * 64;
        match word.count_ones() {
            64 => kept.extend_from_slice(&values[first..first + 64]),
            DENSE_MIN.. if values.len() >= first + 64 => {
                // No branch depends on a bit: each value is put where the next one is, which is over it or behind it.
                let mut dense = [values[first]; 64];
                let mut next = 0;
                for (bit, value) in values[first..first + 64].iter().enumerate() {
                    dense[next & 63] = *value;
                    next += (word >> bit & 1) as usize;
                }
                kept.extend_from_slice(&dense[..next]);
            }
            _ => each_marked(&[word], |row| kept.push(values[first + row])),
        }
    }
}

/// The pieces whose long values a `take` refers to, and the bytes it needs of each.
#[derive(Default)]
struct LongValues<'a> {
    pieces: Vec<(usize, &'a BytesData, Range<usize>)>,
    long_bytes: usize,
}

impl<'a> LongValues<'a> {
    /// Notes that `range` of a piece is needed and returns the number of its buffer.
    fn touch(&mut self, piece: usize, strings: &'a BytesData, range: &Range<usize>) -> usize {
        self.long_bytes += range.len();
        // Positions mostly ascend, so the piece is mostly the last one.
        let known = self.pieces.iter().rposition(|(p, ..)| *p == piece);
        let buffer = known.unwrap_or_else(|| {
            self.pieces.push((piece, strings, range.clone()));
            self.pieces.len() - 1
        });
        let needed = &mut self.pieces[buffer].2;
        *needed = needed.start.min(range.start)..needed.end.max(range.end);
        buffer
    }

    /// The buffers of the views, which are moved there: the stored bytes where most of them are needed, else a copy.
    fn buffers(self, views: &mut [u128]) -> Arc<[Buffer]> {
        let spanned: usize = self.pieces.iter().map(|(.., needed)| needed.len()).sum();
        if spanned > SHARED_WASTE_MAX * self.long_bytes {
            let source: Vec<&[u8]> = self.pieces.iter().map(|(_, strings, _)| strings.all_bytes()).collect();
            return copy_long_values(views, &source);
        }
        for view in views.iter_mut().filter(|view| view_len(**view) > INLINE_BYTES_MAX) {
            let buffer = (*view >> 64) as u32 as usize;
            let offset = (*view >> 96) as u32 as usize;
            *view = moved_view(*view, buffer, offset - self.pieces[buffer].2.start);
        }
        let shared = self.pieces.into_iter().map(|(_, strings, needed)| match &strings.bytes {
            Some(region) => region_buffer(region, needed),
            None => Buffer::default(),
        });
        shared.collect::<Vec<_>>().into()
    }
}

/// Rows of one piece that are marked.
struct Marks<'a> {
    data: &'a PlainData,
    /// Rows of the data.
    within: Range<usize>,
    /// A bit for each of them.
    mask: Cow<'a, [u64]>,
}

impl<'a> Marks<'a> {
    /// Those of a piece among `rows`, each of which has a bit in the mask.
    fn of(piece: &'a PlainPiece, rows: &Range<usize>, mask: &'a [u64]) -> Marks<'a> {
        let from = rows.start.max(piece.start);
        let to = rows.end.min(piece.start + piece.rows);
        let mask = match (from, to) == (rows.start, rows.end) {
            true => Cow::Borrowed(mask),
            false => Cow::Owned(bits(mask, from - rows.start..to - rows.start)),
        };
        let within = piece.offset + from - piece.start..piece.offset + to - piece.start;
        Marks { data: piece.data.near().as_ref(), within, mask }
    }
}

/// A range of the bits of a mask, from the first bit on; those behind it are not set.
fn bits(mask: &[u64], range: Range<usize>) -> Vec<u64> {
    let (word, shift) = (range.start / 64, range.start % 64);
    let mut bits = Vec::with_capacity(range.len().div_ceil(64));
    for place in 0..range.len().div_ceil(64) {
        let low = mask[word + place] >> shift;
        let high = mask.get(word + place + 1).map_or(0, |next| next.checked_shl(64 - shift as u32).unwrap_or(0));
        bits.push(low | high);
    }
    if let (Some(last), used @ 1..) = (bits.last_mut(), range.len() % 64) {
        *last &= (1 << used) - 1;
    }
    bits
}

/// The validity of `rows` as arrow sees it, without a copy.
fn slice_validity(bits: &Arc<Region>, rows: Range<usize>) -> NullBuffer {
    let first_byte = rows.start / 8;
    let buffer = region_buffer(bits, first_byte..rows.end.div_ceil(8));
    NullBuffer::new(BooleanBuffer::new(buffer, rows.start - 8 * first_byte, rows.len()))
}
