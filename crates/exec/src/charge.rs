//! What results weigh: bytes charged to a statement's budget while it holds them.
//!
//! Values that a batch shares with others (views into one buffer, slices) are counted as if it held a copy of just its
//! own.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{ByteViewType, DataType};

/// Views of this length or less keep their bytes inside.
const INLINE_VIEW_BYTES: u64 = 12;

/// Bytes of a batch.
pub fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|c| array_bytes(c.as_ref())).sum()
}

/// Bytes of an array's own values.
pub(crate) fn array_bytes(array: &dyn Array) -> u64 {
    let nulls = if array.nulls().is_some() { array.len().div_ceil(8) as u64 } else { 0 };
    // What most arrays hold, without the copy of its description that an array gives of itself.
    if let Some(width) = array.data_type().primitive_width() {
        return nulls + (width * array.len()) as u64;
    }
    let values = match array.data_type() {
        DataType::Utf8View => view_bytes(array.as_string_view()),
        DataType::BinaryView => view_bytes(array.as_binary_view()),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size()) as u64,
    };
    nulls + values
}

fn view_bytes<T: ByteViewType + ?Sized>(array: &arrow::array::GenericByteViewArray<T>) -> u64 {
    let outside = array.lengths().map(u64::from).filter(|&length| length > INLINE_VIEW_BYTES).sum::<u64>();
    outside + 16 * array.len() as u64
}
