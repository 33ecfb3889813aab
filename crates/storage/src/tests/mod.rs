//! Stored columns against plain arrow arrays: whatever goes in comes out, whichever way it is kept and read.

pub(crate) mod data;
mod dictionaries;
mod failures;
mod indexes;
mod keys;
mod partitioning;
mod placing;
mod real_nodes;
mod roundtrip;
mod select;
mod shapes;
mod tables;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::{Allocator, NodeId};

use crate::*;

/// Three threads that take tasks as they come.
pub(crate) struct Threads;

impl Parallel for Threads {
    fn for_each(&self, tasks: usize, _node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        match next.fetch_add(1, Ordering::Relaxed) {
                            task if task < tasks => body(task),
                            _ => return,
                        }
                    }
                });
            }
        });
        Ok(())
    }
}

/// Runs the first tasks and then claims to have been cancelled.
pub(crate) struct Cancelling(pub(crate) Mutex<usize>);

impl Parallel for Cancelling {
    fn for_each(&self, tasks: usize, _node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        for task in 0..tasks {
            let mut left = self.0.lock().unwrap();
            if *left == 0 {
                return Err(Interruption::Cancelled);
            }
            *left -= 1;
            drop(left);
            body(task);
        }
        Ok(())
    }
}

pub(crate) fn schema_of(t: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("c", t.clone(), true)]))
}

pub(crate) fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).unwrap()
}

/// Stages each producer's arrays as batches of at most `batch_rows` rows and builds a part.
pub(crate) fn load(t: &DataType, producers: &[Vec<ArrayRef>], batch_rows: usize, parallel: &dyn Parallel) -> Part {
    let schema = schema_of(t);
    let staged = producers.iter().map(|arrays| {
        let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
        for array in arrays {
            for from in (0..array.len().max(1)).step_by(batch_rows) {
                let rows = batch_rows.min(array.len() - from);
                let columns = vec![array.slice(from, rows)];
                let schema = schema_of(array.data_type());
                stager.append(&batch_of(&schema, columns, rows)).unwrap();
            }
        }
        stager.finish().unwrap()
    });
    build_part(&schema, staged.collect(), &[ColumnAllocator::unplaced()], parallel).unwrap()
}

/// What the producers' rows should read as.
pub(crate) fn expected(t: &DataType, producers: &[Vec<ArrayRef>]) -> ArrayRef {
    let surface = surface_type(t);
    let cast: Vec<ArrayRef> = producers.iter().flatten().map(|array| cast(array, &surface).unwrap()).collect();
    let parts: Vec<&dyn Array> = cast.iter().map(|array| array.as_ref()).collect();
    concat(&parts).unwrap()
}

/// The only column of a part of one segment.
pub(crate) fn only_column(part: &Part) -> Arc<Column> {
    assert_eq!(part.segments.len(), 1);
    Arc::clone(part.segments[0].segment.column(0))
}

pub(crate) fn assert_same(got: &ArrayRef, expected: &ArrayRef, what: &str) {
    assert_eq!(got.data_type(), expected.data_type(), "{what}");
    if got != expected {
        let differs = (0..got.len().min(expected.len())).find(|&i| got.slice(i, 1) != expected.slice(i, 1));
        panic!("{what}: {} rows of {}, first difference at {differs:?}", got.len(), expected.len());
    }
    got.to_data().validate_full().unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Reads a column in every way and compares with the array.
pub(crate) fn check_reads(column: &Column, expected: &ArrayRef, random: &mut data::Random) {
    let rows = expected.len();
    assert_eq!(column.len(), rows);
    assert_eq!(column.data_type(), expected.data_type());
    assert!(column.has_nulls() || expected.logical_null_count() == 0);
    assert_same(&column.slice(0..rows), expected, "the whole column");
    for _ in 0..6 {
        let a = random.below(rows + 1);
        let b = random.below(rows + 1);
        let range = a.min(b)..a.max(b);
        let slice = expected.slice(range.start, range.len());
        assert_same(&column.slice(range.clone()), &slice, &format!("rows {range:?}"));
    }
    for count in [0, 1, 5, 300] {
        let count = if rows == 0 { 0 } else { count };
        let mut positions: Vec<u32> = (0..count).map(|_| random.below(rows) as u32).collect();
        if count == 300 {
            positions.sort_unstable();
        }
        let indices = arrow::array::UInt32Array::from(positions.clone());
        let taken = take(expected.as_ref(), &indices, None).unwrap();
        assert_same(&column.take(&positions), &taken, &format!("positions {positions:?}"));
    }
    for _ in 0..4 {
        // Marks over a run that begins at a block and ends anywhere.
        let start = random.below(rows / crate::BLOCK_ROWS + 1) * crate::BLOCK_ROWS;
        let end = start + random.below(rows - start + 1);
        let every = 1 + random.below(40);
        // Few rows, or all but few.
        let few = random.one_in(2);
        let marked: Vec<u32> =
            (start..end).filter(|_| (random.below(every) == 0) == few).map(|row| row as u32).collect();
        let mut mask = vec![0_u64; (end - start).div_ceil(64)];
        marked.iter().map(|row| *row as usize - start).for_each(|bit| mask[bit / 64] |= 1 << (bit % 64));
        let taken = take(expected.as_ref(), &arrow::array::UInt32Array::from(marked), None).unwrap();
        assert_same(&column.take_marked(start..end, &mask), &taken, &format!("marks in {start}..{end}"));
    }
    check_integers(column);
}

/// A dictionary that has integers gives those of its values.
fn check_integers(column: &Column) {
    let Some(dictionary) = column.as_coded().map(|coded| coded.dictionary()) else { return };
    let Some((low, high)) = dictionary.integer_bounds() else { return };
    let mut vids: Vec<u32> = (0..dictionary.len().min(2000) as u32).collect();
    vids.push(dictionary.len() as u32 - 1);
    let mut integers = Vec::new();
    dictionary.integers(&vids, &mut integers);
    let expected = plain_integers(&dictionary.take(&vids));
    assert!(integers.iter().map(|&i| i128::from(i)).eq(expected), "{dictionary:?}");
    assert_eq!((low, high), (integers[0], integers[integers.len() - 1]), "{dictionary:?}");
}

/// The numbers that the bytes of an array without NULLs stand for.
fn plain_integers(array: &ArrayRef) -> Vec<i128> {
    if let Some(booleans) = array.as_boolean_opt() {
        return booleans.values().iter().map(i128::from).collect();
    }
    let unsigned = array.data_type().is_unsigned_integer();
    let width = array.data_type().primitive_width().expect("integers are of one width");
    let data = array.to_data();
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width];
    let number = |bytes: &[u8]| {
        let negative = !unsigned && bytes[width - 1] >= 0x80;
        let mut all = [if negative { 0xff } else { 0 }; 16];
        all[..width].copy_from_slice(bytes);
        i128::from_le_bytes(all)
    };
    bytes.chunks(width).map(number).collect()
}

/// What is handed between threads can be.
#[test]
fn handed_between_threads() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<Stager>();
    sent::<ProducerRows>();
    shared::<TableVersion>();
    shared::<CodePredicate>();
    shared::<StoreError>();
}
