//! IN lists: a range, a table over the span of the members, or binary search.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use storage::Dictionary;

use super::node::{BoolNode, IntNode, Key, Table, VidNode};
use crate::chunk::vector::ints_of_arrow;

/// Most entries of a table over the span of a list's members.
const TABLE_SPAN: u64 = 1 << 16;
/// Lists of no more members than this are compared one by one where a table would have many entries.
const COMPARED_MAX: usize = 4;
/// Dictionaries of more entries than this get no table for a short list.
const SMALL_DICTIONARY: usize = 1 << 14;

/// `input IN (values)`, for integers without NULL that mean the same as the input's.
pub(super) fn int_list(input: IntNode, values: &ArrayRef, negated: bool) -> Option<BoolNode> {
    crate::chunk::vector::integer_bounds(values.as_ref())?;
    let mut members = ints_of_arrow(values.as_ref());
    members.sort_unstable();
    members.dedup();
    let (low, high) = (members.first().copied().unwrap_or(0), members.last().copied().unwrap_or(0));
    let span = high.wrapping_sub(low) as u64;
    if !members.is_empty() && span == members.len() as u64 - 1 {
        return Some(BoolNode::Between { input, low, high, negated });
    }
    if span > TABLE_SPAN {
        return Some(BoolNode::Among { input, values: members.into(), negated });
    }
    // The last entry is for every value outside of the span, which is looked up there.
    let mut results = vec![negated; span as usize + 2];
    for member in members {
        results[(member - low) as usize] = !negated;
    }
    let key = Key::Int(Box::new(input), low);
    Some(BoolNode::Table(Table { key, results: results.into(), valid: None, of_null: None }))
}

/// `input IN (values)`, for values of the dictionary's type without NULL.
pub(super) fn vid_list(
    input: VidNode,
    dictionary: &Arc<Dictionary>,
    values: &ArrayRef,
    negated: bool,
) -> Option<BoolNode> {
    if values.null_count() > 0 {
        return None;
    }
    let values = as_entry(values, dictionary)?;
    let mut members = Vec::new();
    for i in 0..values.len() {
        let value = values.slice(i, 1);
        members.extend(dictionary.lower_bound(&value).ok()?..dictionary.upper_bound(&value).ok()?);
    }
    members.sort_unstable();
    members.dedup();
    Some(of_vids(input, dictionary.len(), &members, negated))
}

/// Is the vid one of `members`, ascending?
fn of_vids(input: VidNode, entries: usize, members: &[u32], negated: bool) -> BoolNode {
    let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
        return BoolNode::VidRange { input, start: 0, end: 0, negated };
    };
    if (last - first) as usize == members.len() - 1 {
        return BoolNode::VidRange { input, start: first, end: last + 1, negated };
    }
    if let (true, true, &VidNode::Column(column)) = (members.len() <= COMPARED_MAX, entries > SMALL_DICTIONARY, &input)
    {
        let each = members.iter().map(|&vid| {
            let input = VidNode::Column(column);
            BoolNode::VidRange { input, start: vid, end: vid + 1, negated: false }
        });
        let any = BoolNode::Or(each.collect());
        return if negated { BoolNode::Not(Box::new(any)) } else { any };
    }
    let mut results = vec![negated; entries];
    for &vid in members {
        results[vid as usize] = !negated;
    }
    BoolNode::Table(Table { key: Key::Vid(input), results: results.into(), valid: None, of_null: None })
}

/// The literal in the dictionary's type, where that is only another way to hold the same value.
pub(super) fn as_entry(value: &ArrayRef, dictionary: &Dictionary) -> Option<ArrayRef> {
    match (value.data_type(), dictionary.data_type()) {
        (found, wanted) if found == wanted => Some(value.clone()),
        (DataType::Utf8 | DataType::LargeUtf8, DataType::Utf8View)
        | (DataType::Binary | DataType::LargeBinary, DataType::BinaryView) => {
            arrow::compute::cast(value, dictionary.data_type()).ok()
        }
        _ => None,
    }
}
