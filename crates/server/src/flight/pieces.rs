//! Batches in pieces: messages of a size that clients take, each with the bytes of its own rows alone.
//!
//! Texts are views into buffers that many rows share, and a piece of a batch shares all of them; what is written of it
//! would be all of them too, as often as there are pieces.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// What a message has of rows, about.
const PIECE_BYTES: usize = 1 << 20;

/// A batch in pieces.
///
/// # Errors
/// None that batches have.
pub fn pieces(batch: &RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
    let bytes: usize = batch.columns().iter().map(bytes_of).sum();
    let rows = batch.num_rows();
    let each = rows.div_ceil(bytes.div_ceil(PIECE_BYTES).max(1)).max(1);
    (0..rows).step_by(each).map(|start| own(&batch.slice(start, each.min(rows - start)))).collect()
}

/// How many bytes the rows of an array have.
fn bytes_of(array: &ArrayRef) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Utf8View => rows * 16 + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => rows * 16 + array.as_binary_view().total_buffer_bytes_used(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_buffer_memory_size()),
    }
}

/// The same rows with what they have in buffers alone.
fn own(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(own_column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn own_column(column: &ArrayRef) -> ArrayRef {
    /// What is copied where less than this of the buffers is the rows'.
    fn is_others(buffers: usize, used: usize) -> bool {
        buffers > 2 * used + 4096
    }
    let all = |buffers: &[arrow::buffer::Buffer]| buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
    match column.data_type() {
        DataType::Utf8View => {
            let texts = column.as_string_view();
            match is_others(all(texts.data_buffers()), texts.total_buffer_bytes_used()) {
                true => Arc::new(texts.gc()),
                false => Arc::clone(column),
            }
        }
        DataType::BinaryView => {
            let bytes = column.as_binary_view();
            match is_others(all(bytes.data_buffers()), bytes.total_buffer_bytes_used()) {
                true => Arc::new(bytes.gc()),
                false => Arc::clone(column),
            }
        }
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn pieces_have_all_rows_and_no_bytes_of_others() {
        let texts = StringViewArray::from_iter_values((0..20_000).map(|n| format!("{n:0>200}")));
        let numbers = Int64Array::from_iter_values(0..20_000);
        let columns = [("t", Arc::new(texts) as ArrayRef), ("n", Arc::new(numbers) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let all = pieces(&batch).unwrap();
        assert!(all.len() > 3, "{}", all.len());
        for piece in &all {
            let texts = piece.column(0).as_string_view();
            let bytes: usize = texts.data_buffers().iter().map(|buffer| buffer.len()).sum();
            assert!(bytes < 2 * PIECE_BYTES, "{bytes}");
        }
        let again = arrow::compute::concat_batches(&batch.schema(), &all).unwrap();
        assert_eq!(again, batch);
        assert!(pieces(&batch.slice(0, 0)).unwrap().is_empty());
    }

    #[test]
    fn rows_without_columns_stay() {
        let options = RecordBatchOptions::new().with_row_count(Some(7));
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap();
        assert_eq!(pieces(&batch).unwrap()[0].num_rows(), 7);
    }
}
