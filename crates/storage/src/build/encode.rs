//! Encoding planned columns: tasks over runs of granules.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::Array;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use numa::{Allocator, MemoryError, NodeId, Region};

use crate::build::plan::{Mapping, Plan, PlannedColumn, SourceData, StagedRows};
use crate::coded::{CodedColumn, code_bits};
use crate::column::Column;
use crate::copies::Copies;
use crate::error::StoreError;
use crate::kernels::pack::pack;
use crate::kernels::words_for;
use crate::parallel::{Parallel, map};
use crate::placement::{ColumnAllocator, Placement};
use crate::plain::{FixedData, PlainColumn, PlainData, PlainPiece};
use crate::stage::bytes::BytesWriter;
use crate::stage::chunk::{ChunkView, NumberChunk};
use crate::stage::strings::decode_ids;
use crate::stage::table::StringTable;
use crate::types::{Native, Physical, with_native};
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// Granules that one task encodes.
const RUN_GRANULES: usize = 8;
/// Staged pieces of fewer rows than this on average are copied together.
const PIECE_ROWS_MIN: usize = GRANULE_ROWS / 8;
/// Offsets of up to this many bits are looked up in a table made per chunk.
const TABLE_BITS_MAX: u8 = 18;

/// Rows of a source.
struct Slice {
    source: StagedRows,
    rows: Range<usize>,
}

/// A run of granules of one column.
struct EncodeTask<'a> {
    column: usize,
    /// Where it writes.
    node: Option<NodeId>,
    granules: Vec<Vec<Slice>>,
    /// For values that are kept.
    values: Allocator,
    /// Where the codes and their bounds go; empty where values are kept.
    words: &'a mut [u32],
    bounds: &'a mut [(u32, u32)],
}

/// The memory of one segment of a coded column.
struct Codes {
    region: Option<Region>,
    bounds: Vec<(u32, u32)>,
}

/// What a task made of values that are kept: rows `offset .. offset + rows` of the data.
struct NewPiece {
    rows: usize,
    offset: usize,
    data: Arc<PlainData>,
}

/// What is needed of a column to encode it.
struct EncodeTarget<'a> {
    data_type: DataType,
    plan: Plan,
    bits: u8,
    /// Copy pieces together instead of moving them.
    recut: bool,
    allocator: &'a ColumnAllocator,
}

/// Encodes a group of columns of `rows` rows; returns each one's segments.
pub(crate) fn encode_group(
    group: Vec<(PlannedColumn, &ColumnAllocator)>,
    rows: usize,
    parallel: &dyn Parallel,
) -> Result<Vec<Vec<Column>>, StoreError> {
    let mut targets = Vec::with_capacity(group.len());
    let mut sources = Vec::with_capacity(group.len());
    let mut memory = Vec::with_capacity(group.len());
    for (column, allocator) in group {
        let bits = match &column.plan {
            Plan::Coded { dictionary, null_code, .. } => code_bits(dictionary, *null_code),
            _ => 0,
        };
        memory.push(allocate(&column.plan, bits, rows, allocator)?);
        let recut = wants_recut(&column.sources, rows, &allocator.placement.codes);
        targets.push(EncodeTarget { data_type: column.data_type, plan: column.plan, bits, recut, allocator });
        sources.push(column.sources);
    }
    let mut tasks = Vec::new();
    for (column, (sources, memory)) in sources.into_iter().zip(&mut memory).enumerate() {
        let target = &targets[column];
        push_tasks(&mut tasks, column, sources, target, rows, memory);
    }
    let nodes: Vec<_> = tasks.iter().map(|task| task.node).collect();
    let columns_of: Vec<usize> = tasks.iter().map(|task| task.column).collect();
    let made = map(parallel, tasks, &|task| nodes[task], &|task: EncodeTask<'_>| encode(&targets[task.column], task))?;
    let mut pieces: Vec<Vec<NewPiece>> = targets.iter().map(|_| Vec::new()).collect();
    for (column, made) in columns_of.into_iter().zip(made) {
        pieces[column].extend(made);
    }
    let finished = targets.into_iter().zip(memory).zip(pieces);
    Ok(finished.map(|((target, memory), pieces)| finish(target, memory, pieces, rows)).collect())
}

/// The memory of a column's segments; empty where values are kept.
fn allocate(plan: &Plan, bits: u8, rows: usize, allocator: &ColumnAllocator) -> Result<Vec<Codes>, MemoryError> {
    if !matches!(plan, Plan::Coded { .. }) {
        return Ok(Vec::new());
    }
    let of_segment = |start: usize| {
        let rows = (rows - start).min(SEGMENT_ROWS_MAX);
        let words = words_for(rows, bits);
        let codes = || allocator.codes(rows, bits, start / SEGMENT_ROWS_MAX).region(4 * words);
        let region = if words > 0 { Some(codes()?) } else { None };
        Ok(Codes { region, bounds: vec![(0, 0); rows.div_ceil(GRANULE_ROWS)] })
    };
    (0..rows).step_by(SEGMENT_ROWS_MAX).map(of_segment).collect()
}

/// Whether strings are copied together instead of moved: where producers left small pieces, and where pieces have to
/// end with granules, since granules lie on different nodes.
fn wants_recut(sources: &[StagedRows], rows: usize, placement: &Placement) -> bool {
    let small = sources.len() > 1 && rows / sources.len() < PIECE_ROWS_MIN;
    let split = matches!(placement, Placement::Striped(nodes) if nodes.len() > 1);
    let last = sources.len().saturating_sub(1);
    small || split && sources[..last].iter().any(|source| source.rows != GRANULE_ROWS)
}

/// Cuts a column's rows into tasks: runs of granules of one segment and, where that is known, of one node.
fn push_tasks<'a>(
    tasks: &mut Vec<EncodeTask<'a>>,
    column: usize,
    sources: Vec<StagedRows>,
    target: &EncodeTarget<'_>,
    rows: usize,
    memory: &'a mut [Codes],
) {
    let placement = &target.allocator.placement.codes;
    let mut granules = cut(sources).into_iter();
    if granules.len() == 0 {
        // Codes that take no memory have no source.
        return;
    }
    let mut memory = memory.iter_mut();
    for (segment, start) in (0..rows).step_by(SEGMENT_ROWS_MAX).enumerate() {
        let count = (rows - start).min(SEGMENT_ROWS_MAX).div_ceil(GRANULE_ROWS);
        let (mut words, mut bounds): (&mut [u32], &mut [(u32, u32)]) = match memory.next() {
            Some(Codes { region: Some(region), bounds }) => (region.words_mut(), bounds),
            _ => (&mut [], &mut []),
        };
        let mut first = 0;
        while first < count {
            let end = placement.run_end(count, segment, first).min(first + RUN_GRANULES);
            let run_words = words_for((end - first) * GRANULE_ROWS, target.bits).min(words.len());
            let run_bounds = (end - first).min(bounds.len());
            let (of_words, of_bounds);
            (of_words, words) = words.split_at_mut(run_words);
            (of_bounds, bounds) = bounds.split_at_mut(run_bounds);
            tasks.push(EncodeTask {
                column,
                node: placement.node_of_granule(count, segment, first),
                granules: granules.by_ref().take(end - first).collect(),
                values: target.allocator.piece(count, segment, first),
                words: of_words,
                bounds: of_bounds,
            });
            first = end;
        }
    }
}

/// The rows of `sources`, cut into granules.
fn cut(sources: Vec<StagedRows>) -> Vec<Vec<Slice>> {
    let mut granules = Vec::new();
    let mut room = 0;
    for source in sources {
        let mut from = 0;
        while from < source.rows {
            if room == 0 {
                granules.push(Vec::new());
                room = GRANULE_ROWS;
            }
            let to = source.rows.min(from + room);
            room -= to - from;
            if let Some(granule) = granules.last_mut() {
                granule.push(Slice { source: source.clone(), rows: from..to });
            }
            from = to;
        }
    }
    granules
}

fn encode(target: &EncodeTarget<'_>, task: EncodeTask<'_>) -> Result<Vec<NewPiece>, StoreError> {
    match &target.plan {
        Plan::Coded { mapping, null_code, .. } => {
            encode_codes(mapping, *null_code, target.bits, task);
            Ok(Vec::new())
        }
        Plan::Fixed => {
            let physical = Physical::of(&target.data_type);
            let mut pieces = Vec::with_capacity(task.granules.len());
            for granule in task.granules {
                pieces.push(fixed_piece(physical, granule, &task.values)?);
            }
            Ok(pieces)
        }
        Plan::Bytes { tables } => bytes_pieces(tables, task.granules, target.recut, &task.values),
        Plan::Arrays => array_pieces(task.granules, target.recut),
    }
}

/// Maps and packs a run of granules; each source is freed once its last granule is done.
fn encode_codes(mapping: &Mapping, null_code: bool, bits: u8, task: EncodeTask<'_>) {
    let granule_words = words_for(GRANULE_ROWS, bits);
    let mut codes = Vec::with_capacity(GRANULE_ROWS);
    let outputs = task.words.chunks_mut(granule_words).zip(task.bounds);
    for (granule, (words, bounds)) in task.granules.into_iter().zip(outputs) {
        codes.clear();
        for slice in granule {
            let SourceData::Chunk(chunk) = &slice.source.data else { unreachable!("codes are made of chunks") };
            append_codes(mapping, null_code, slice.source.producer, chunk, slice.rows, &mut codes);
        }
        let first = codes.first().copied().unwrap_or(0);
        *bounds = codes.iter().fold((first, first), |(min, max), &code| (min.min(code), max.max(code)));
        pack(&codes, bits, words);
    }
}

/// Appends the codes of rows of a chunk.
fn append_codes(
    mapping: &Mapping,
    null_code: bool,
    producer: usize,
    chunk: &NumberChunk,
    rows: Range<usize>,
    codes: &mut Vec<u32>,
) {
    let old_len = codes.len();
    let Some(frame) = chunk.frame else {
        codes.resize(old_len + rows.len(), 0);
        return;
    };
    let first = u32::from(null_code);
    match (mapping, chunk.view()) {
        (Mapping::Zero, _) => codes.resize(old_len + rows.len(), 0),
        (Mapping::Affine(affine), ChunkView::Offsets(_)) => {
            chunk.offsets(rows.clone(), codes);
            let base = (frame.min.wrapping_sub(affine.base) as u128 / affine.step) as u32 + first;
            let factor = if frame.span() == 0 { 0 } else { (frame.step / affine.step) as u32 };
            for code in &mut codes[old_len..] {
                *code = base + *code * factor;
            }
        }
        (Mapping::Ids(codes_of), ChunkView::Offsets(_)) => {
            chunk.offsets(rows.clone(), codes);
            let codes_of = codes_of[producer].as_ref().map_or(&[][..], |region| region.words::<u32>());
            for code in &mut codes[old_len..] {
                *code = codes_of[*code as usize];
            }
        }
        (Mapping::Sorted(sorted), ChunkView::Offsets(bits)) => {
            chunk.offsets(rows.clone(), codes);
            let key_of = |offset: u32| frame.min.wrapping_add(frame.step.wrapping_mul(offset.into()) as i128);
            if bits <= TABLE_BITS_MAX && rows.len() > 1 << (bits / 2) {
                let table = sorted.table(frame, bits);
                for code in &mut codes[old_len..] {
                    *code = table[*code as usize] + first;
                }
            } else {
                for code in &mut codes[old_len..] {
                    *code = sorted.vids[&key_of(*code)] + first;
                }
            }
        }
        (Mapping::Sorted(sorted), ChunkView::Narrow(keys)) => {
            codes.extend(keys[rows.clone()].iter().map(|&key| sorted.vids[&i128::from(key)] + first));
        }
        (Mapping::Sorted(sorted), ChunkView::Wide(keys)) => {
            codes.extend(keys[rows.clone()].iter().map(|key| sorted.vids[key] + first));
        }
        (Mapping::Affine(affine), ChunkView::Narrow(keys)) => {
            codes.extend(keys[rows.clone()].iter().map(|&key| affine.lower_bound(key.into(), u32::MAX) + first));
        }
        (Mapping::Affine(affine), ChunkView::Wide(keys)) => {
            codes.extend(keys[rows.clone()].iter().map(|&key| affine.lower_bound(key, u32::MAX) + first));
        }
        (Mapping::Ids(_), _) => unreachable!("ids are packed"),
    }
    if chunk.nulls > 0 {
        for (code, row) in codes[old_len..].iter_mut().zip(rows) {
            *code = if chunk.is_valid(row) { *code } else { 0 };
        }
    }
}

/// One granule of native numbers.
fn fixed_piece(physical: Physical, granule: Vec<Slice>, allocator: &Allocator) -> Result<NewPiece, StoreError> {
    let rows: usize = granule.iter().map(|slice| slice.rows.len()).sum();
    let mut values = allocator.region(rows * physical.width_bytes())?;
    let mut validity = None;
    let mut from = 0;
    let mut offsets = Vec::new();
    for slice in granule {
        let SourceData::Chunk(chunk) = &slice.source.data else { unreachable!("numbers are staged in chunks") };
        let count = slice.rows.len();
        with_native!(physical, N => {
            let slots = &mut values.words_mut::<N>()[from..from + count];
            write_numbers(chunk, slice.rows.clone(), slots, &mut offsets);
        });
        if chunk.nulls > 0 {
            let bits = match &mut validity {
                Some(bits) => bits,
                None => validity.insert(all_valid(rows, allocator)?),
            };
            let words = bits.words_mut::<u64>();
            for (row, place) in slice.rows.zip(from..) {
                words[place / 64] &= !(u64::from(!chunk.is_valid(row)) << (place % 64));
            }
        }
        from += count;
    }
    let data = FixedData { values: Arc::new(values), validity: validity.map(Arc::new) };
    Ok(NewPiece { rows, offset: 0, data: Arc::new(PlainData::Fixed(data)) })
}

fn all_valid(rows: usize, allocator: &Allocator) -> Result<Region, MemoryError> {
    let mut region = allocator.region(rows.div_ceil(64) * 8)?;
    region.words_mut::<u64>().fill(u64::MAX);
    Ok(region)
}

fn write_numbers<N: Native>(chunk: &NumberChunk, rows: Range<usize>, slots: &mut [N], offsets: &mut Vec<u32>) {
    let Some(frame) = chunk.frame else { return };
    match chunk.view() {
        ChunkView::Narrow(keys) => {
            for (slot, &key) in slots.iter_mut().zip(&keys[rows]) {
                *slot = N::from_key(key);
            }
        }
        ChunkView::Wide(keys) => {
            for (slot, &key) in slots.iter_mut().zip(&keys[rows]) {
                *slot = N::from_wide_key(key);
            }
        }
        ChunkView::Offsets(_) => {
            offsets.clear();
            chunk.offsets(rows, offsets);
            for (slot, &offset) in slots.iter_mut().zip(offsets.iter()) {
                let key = frame.min.wrapping_add(frame.step.wrapping_mul(offset.into()) as i128);
                *slot = N::from_wide_key(key);
            }
        }
    }
}

/// Strings: what was staged as it is moves, ids are decoded.
fn bytes_pieces(
    tables: &[Option<Box<StringTable>>],
    granules: Vec<Vec<Slice>>,
    recut: bool,
    allocator: &Allocator,
) -> Result<Vec<NewPiece>, StoreError> {
    let mut pieces: Vec<NewPiece> = Vec::new();
    let mut writer = BytesWriter::new(allocator);
    for granule in granules {
        for slice in granule {
            match &slice.source.data {
                SourceData::Piece(data) if recut => {
                    let PlainData::Bytes(bytes) = data.as_ref() else { unreachable!("strings are kept as bytes") };
                    let valid =
                        bytes.validity.is_some().then(|| (0..slice.source.rows).map(|i| data.is_valid(i)).collect());
                    writer.append(valid.as_ref(), slice.rows, |row| &bytes.all_bytes()[bytes.range(row)])?;
                }
                SourceData::Piece(data) => {
                    take_written(&mut writer, &mut pieces, allocator);
                    push_piece(&mut pieces, &slice.rows, data);
                }
                SourceData::Chunk(chunk) => {
                    let Some(table) = &tables[slice.source.producer] else { unreachable!("ids have a table") };
                    decode_ids(chunk, slice.rows, table, &mut writer)?;
                }
            }
        }
    }
    take_written(&mut writer, &mut pieces, allocator);
    Ok(pieces)
}

fn take_written(writer: &mut BytesWriter, pieces: &mut Vec<NewPiece>, allocator: &Allocator) {
    let written = std::mem::replace(writer, BytesWriter::new(allocator)).finish();
    pieces.extend(written.into_iter().map(|piece| NewPiece { rows: piece.rows, offset: 0, data: piece.data }));
}

/// Appends rows of staged data, which may go on where the last piece ends.
fn push_piece(pieces: &mut Vec<NewPiece>, rows: &Range<usize>, data: &Arc<PlainData>) {
    if let Some(last) = pieces.last_mut()
        && Arc::ptr_eq(&last.data, data)
        && last.offset + last.rows == rows.start
    {
        last.rows += rows.len();
        return;
    }
    pieces.push(NewPiece { rows: rows.len(), offset: rows.start, data: Arc::clone(data) });
}

fn array_pieces(granules: Vec<Vec<Slice>>, recut: bool) -> Result<Vec<NewPiece>, StoreError> {
    let mut pieces = Vec::new();
    for granule in granules {
        if !recut {
            for slice in granule {
                if let SourceData::Piece(data) = &slice.source.data {
                    push_piece(&mut pieces, &slice.rows, data);
                }
            }
            continue;
        }
        let arrays: Vec<_> = granule.iter().filter_map(sliced_array).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        let array = concat(&arrays)?;
        pieces.push(NewPiece { rows: array.len(), offset: 0, data: Arc::new(PlainData::Array(array)) });
    }
    Ok(pieces)
}

fn sliced_array(slice: &Slice) -> Option<arrow::array::ArrayRef> {
    match &slice.source.data {
        SourceData::Piece(data) => match data.as_ref() {
            PlainData::Array(array) => Some(array.slice(slice.rows.start, slice.rows.len())),
            _ => None,
        },
        SourceData::Chunk(_) => None,
    }
}

/// The segments of a column.
fn finish(target: EncodeTarget<'_>, memory: Vec<Codes>, pieces: Vec<NewPiece>, rows: usize) -> Vec<Column> {
    let starts = (0..rows).step_by(SEGMENT_ROWS_MAX);
    if let Plan::Coded { dictionary, null_code, .. } = target.plan {
        let segments = starts.zip(memory).map(|(start, Codes { region, bounds })| {
            let rows = (rows - start).min(SEGMENT_ROWS_MAX);
            Column::Coded(CodedColumn::new(rows, Arc::clone(&dictionary), null_code, region, bounds))
        });
        return segments.collect();
    }
    let mut pieces = pieces.into_iter().peekable();
    let mut segments = Vec::new();
    for _ in starts {
        let mut of_segment = Vec::new();
        let mut start = 0;
        // Tasks end at segment boundaries, so no piece crosses one.
        while let Some(NewPiece { rows, offset, data }) = pieces.next_if(|_| start < SEGMENT_ROWS_MAX) {
            of_segment.push(PlainPiece { start, rows, offset, data: Copies::one(data) });
            start += rows;
        }
        segments.push(Column::Plain(PlainColumn::new(target.data_type.clone(), of_segment)));
    }
    segments
}
