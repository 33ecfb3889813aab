//! Choosing the encoding of a number column.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use foldhash::fast::RandomState;
use numa::Allocator;

use crate::affine::Affine;
use crate::build::plan::{Mapping, Plan, PlannedColumn, SortedKeys, StagedRows, code_bytes, worth_coding};
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::kernels::bits_for;
use crate::stage::chunk::{Frame, common_frame};
use crate::stage::distinct::Sketch;
use crate::stage::numbers::{StagedNumbers, are_near};
use crate::types::{Native, Physical, with_native};

/// Most vids of a dictionary: one below what a `u32` counts, and NULL's code.
const VIDS_MAX: u128 = u32::MAX as u128 - 2;
/// Most keys that are looked for among all rows: while rows are encoded, each takes some 100 bytes of the heap.
const KEYS_MAX: usize = 1 << 20;
/// How often a key comes on average before rows are read once more for it.
const TIMES_MIN: usize = 4;
/// How often a key comes on average before codes may take more than the values themselves.
const REPEATED_MIN: usize = 2;
/// More keys than the sketches tell of, by this factor, and looking for them is given up.
const KEYS_SLACK: usize = 2;

/// Puts the producers' numbers together.
pub(crate) fn plan_numbers(
    data_type: DataType,
    producers: Vec<StagedNumbers>,
    rows: usize,
    allocator: &Allocator,
) -> Result<PlannedColumn, StoreError> {
    let physical = Physical::of(&data_type);
    let chunks = || producers.iter().flat_map(|producer| &producer.chunks);
    let null_code = chunks().any(|chunk| chunk.nulls > 0);
    let frame = common_frame(chunks().filter_map(|chunk| chunk.frame));
    let affine = match frame {
        Some(frame) if !physical.is_float() => affine_of(frame),
        None if !physical.is_float() => Some((Affine { base: 0, step: 1 }, 0)),
        _ => None,
    };
    let far = frame.is_some_and(|frame| !are_near(physical, frame));
    let keys = distinct_keys(&producers).or_else(|| if far { looked_for(&producers, rows) } else { None });
    let sources = in_order(producers);

    let code_count = |vids: u128| vids as u32 + u32::from(null_code);
    let bytes_of = |vids: u128| code_bytes(rows, bits_for(code_count(vids).saturating_sub(1)));
    let plain_bytes = (rows * physical.width_bytes()) as u128 + if null_code { rows as u128 / 8 } else { 0 };
    let affine_bytes = affine.map(|(_, len)| bytes_of(len.into()));
    let sorted_bytes = keys
        .as_ref()
        .filter(|keys| keys.len() as u128 <= VIDS_MAX)
        .map(|keys| bytes_of(keys.len() as u128) + (keys.len() * physical.width_bytes()) as u128);
    // A dictionary that stores nothing is also the faster one: a sorted one has to be a tenth smaller.
    let affine_wins = match (affine_bytes, sorted_bytes) {
        (Some(affine), Some(sorted)) => affine * 10 <= sorted * 11,
        (affine, _) => affine.is_some(),
    };
    if let (Some((affine, len)), Some(bytes), true) = (affine, affine_bytes, affine_wins)
        && (worth_coding(bytes, plain_bytes) || physical == Physical::Bool)
    {
        let dictionary = Dictionary::affine(data_type, affine, len);
        return Ok(PlannedColumn::coded(dictionary, null_code, Mapping::Affine(affine), sources, rows));
    }
    // Of values that hardly come twice codes save nobody a comparison, and each value is looked for in the list.
    let is_worth = |keys: &[i128], bytes| {
        if keys.len() * REPEATED_MIN <= rows { worth_coding(bytes, plain_bytes) } else { bytes <= plain_bytes }
    };
    if let (Some(keys), Some(bytes)) = (keys, sorted_bytes)
        && is_worth(&keys, bytes)
    {
        let dictionary = sorted_dictionary(data_type, &keys, allocator)?;
        let vids = keys.iter().copied().zip(0..).collect();
        let mapping = Mapping::Sorted(SortedKeys { keys, vids });
        return Ok(PlannedColumn::coded(dictionary, null_code, mapping, sources, rows));
    }
    let new_bytes = plain_bytes as usize;
    Ok(PlannedColumn { data_type, plan: Plan::Fixed, sources, new_bytes })
}

fn affine_of(frame: Frame) -> Option<(Affine, u32)> {
    let last = frame.span() / frame.step;
    (last < VIDS_MAX).then(|| (Affine { base: frame.min, step: frame.step }, last as u32 + 1))
}

/// The keys of all producers, ascending, where every producer knows its own.
fn distinct_keys(producers: &[StagedNumbers]) -> Option<Vec<i128>> {
    let mut keys = Vec::new();
    for producer in producers {
        keys.extend(producer.distinct.as_ref()?.iter().copied());
    }
    keys.sort_unstable();
    keys.dedup();
    Some(keys)
}

/// The keys of all producers, ascending, found by going through all rows, where there are few for so many rows.
fn looked_for(producers: &[StagedNumbers], rows: usize) -> Option<Vec<i128>> {
    let mut room = Vec::new();
    let mut sketch = Sketch::new();
    for producer in producers {
        match (&producer.distinct, &producer.sketch) {
            (Some(keys), _) => keys.iter().for_each(|&key| sketch.add_number(key)),
            (None, Some(seen)) => sketch.merge(seen),
            // Near each other within one producer, and not all together.
            (None, None) => {
                producer.chunks.iter().for_each(|chunk| chunk.for_each_key(&mut room, |key| sketch.add_number(key)));
            }
        }
    }
    let about = sketch.estimate();
    if about > KEYS_MAX || about.saturating_mul(TIMES_MIN) > rows {
        return None;
    }
    let mut keys: HashSet<i128, RandomState> = HashSet::default();
    for chunk in producers.iter().flat_map(|producer| &producer.chunks) {
        chunk.for_each_key(&mut room, |key| {
            keys.insert(key);
        });
        if keys.len() > about * KEYS_SLACK {
            return None;
        }
    }
    let mut keys: Vec<i128> = keys.into_iter().collect();
    keys.sort_unstable();
    Some(keys)
}

fn in_order(producers: Vec<StagedNumbers>) -> Vec<StagedRows> {
    let chunks = producers.into_iter().enumerate().flat_map(|(i, p)| p.chunks.into_iter().map(move |chunk| (chunk, i)));
    chunks.map(|(chunk, producer)| StagedRows::chunk(chunk, producer)).collect()
}

fn sorted_dictionary(data_type: DataType, keys: &[i128], allocator: &Allocator) -> Result<Dictionary, StoreError> {
    if keys.is_empty() {
        return Ok(Dictionary::fixed(data_type, None, 0));
    }
    let physical = Physical::of(&data_type);
    let mut region = allocator.region(keys.len() * physical.width_bytes())?;
    with_native!(physical, N => {
        for (slot, &key) in region.words_mut::<N>().iter_mut().zip(keys) {
            *slot = N::from_wide_key(key);
        }
    });
    Ok(Dictionary::fixed(data_type, Some(region), keys.len() as u32))
}
