//! What is written comes back, whatever the column; what was damaged does not.

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use arrow::datatypes::DataType;
use numa::Allocator;
use random::Random;

use super::*;
use crate::tests::data::{SHAPES, Shape, array, opaque_types, ordered_types};
use crate::tests::{check_reads, expected, load, only_column};
use crate::{Column, ColumnAllocator, ColumnPlacement, DeletedRows, Dictionary, Encoding, Serial};

/// Blobs in memory.
struct Kept<'a>(&'a [Vec<u8>], Cell<usize>);

impl BlobSource for Kept<'_> {
    fn len_bytes(&self, blob: usize) -> Option<usize> {
        self.0.get(blob).map(Vec::len)
    }

    fn read(&self, blob: usize, into: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        into.copy_from_slice(&self.0[blob]);
        self.1.set(self.1.get() + 1);
        Ok(())
    }
}

/// A head and blobs of their own.
type Copied = (Vec<u8>, Vec<Vec<u8>>);

fn copied(written: Written<'_>) -> Copied {
    (written.head, written.blobs.iter().map(|blob| blob.to_vec()).collect())
}

fn dictionary_back((head, blobs): &Copied, of: &ColumnAllocator) -> Result<Arc<Dictionary>, ReadBackError> {
    read_dictionary(head, &Kept(blobs, Cell::new(0)), of).map(Arc::new)
}

fn column_back(
    (head, blobs): &Copied,
    dictionary: Option<&Arc<Dictionary>>,
    of: &ColumnAllocator,
) -> Result<Column, ReadBackError> {
    let source = Kept(blobs, Cell::new(0));
    let column = read_column(head, &source, dictionary, of, 0)?;
    assert_eq!(source.1.get(), blobs.len(), "every blob is read once");
    Ok(column)
}

fn round_trip(column: &Column, of: &ColumnAllocator) -> Column {
    let dictionary = column.as_coded().map(|coded| {
        let written = copied(write_dictionary(coded.dictionary()).unwrap());
        dictionary_back(&written, of).unwrap()
    });
    column_back(&copied(write_column(column).unwrap()), dictionary.as_ref(), of).unwrap()
}

#[test]
fn every_type_and_shape_comes_back() {
    let mut random = Random::new(40);
    let mut encodings = [0; 4];
    for t in ordered_types().into_iter().chain(opaque_types()) {
        for shape in SHAPES {
            for rows in [1, 300, 3000] {
                let null_every = random.pick(&[0, 3, 40]);
                let producers = [vec![array(&t, shape, rows, null_every, &mut random)]];
                let column = only_column(&load(&t, &producers, 700, &Serial));
                let back = round_trip(&column, &ColumnAllocator::unplaced());
                let same = |c: &Column| (c.encoding(), c.bits(), c.bytes_codes(), c.bytes_dictionary(), c.has_nulls());
                // Arrow counts its own memory by what it happened to take.
                if !matches!(column.data_type(), t if opaque_types().contains(t)) {
                    assert_eq!(same(&back), same(&column), "{t} {shape:?} {rows}");
                }
                check_reads(&back, &expected(&t, &producers), &mut random);
                encodings[column.encoding() as usize] += 1;
            }
        }
    }
    let many = |encoding: Encoding| encodings[encoding as usize] > 20;
    assert!(
        many(Encoding::Affine) && many(Encoding::SortedFixed) && many(Encoding::SortedStrings) && many(Encoding::Plain)
    );
}

#[test]
fn several_granules_and_pieces_come_back() {
    let mut random = Random::new(41);
    for t in [DataType::Int64, DataType::Utf8View, DataType::Float64, opaque_types()[4].clone()] {
        for shape in [Shape::Anything, Shape::FewDistinct] {
            // Producers whose granules end early, and batches that pieces share.
            let mut make = |rows| vec![array(&t, shape, rows, 9, &mut random)];
            let producers = [make(70_000), make(9_000), make(66_000)];
            let column = only_column(&load(&t, &producers, 33_000, &Serial));
            let back = round_trip(&column, &ColumnAllocator::unplaced());
            check_reads(&back, &expected(&t, &producers), &mut random);
            if let (Column::Coded(old), Column::Coded(new)) = (column.as_ref(), &back) {
                for granule in 0..old.granules() {
                    assert_eq!(old.code_bounds(granule), new.code_bounds(granule));
                }
            }
        }
    }
}

#[test]
fn what_is_read_lies_where_its_allocator_says() {
    let node = numa::online_nodes()[0];
    let budget = numa::Budget::new("reading", 1 << 20);
    let allocator = Allocator::new(numa::Policy::Local, Arc::clone(&budget));
    let of = ColumnAllocator::new(ColumnPlacement::one(node), allocator);
    let words: arrow::array::ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..9000).map(|i| format!("the word number {:03}", i % 500))));
    let column = only_column(&load(&DataType::Utf8View, &[vec![words]], 9000, &Serial));
    let back = round_trip(&column, &of);
    assert!(budget.used_bytes() as usize >= back.bytes_codes() + back.bytes_dictionary());
    assert!(back.components().iter().all(|(_, region)| region.policy() == numa::Policy::Node(node)));
    let small = ColumnAllocator::local(Allocator::new(numa::Policy::Local, numa::Budget::new("small", 1000)));
    let written = copied(write_column(&column).unwrap());
    let dictionary = column.as_coded().map(|coded| Arc::clone(coded.dictionary()));
    let error = column_back(&written, dictionary.as_ref(), &small).unwrap_err();
    assert!(matches!(error, ReadBackError::Store(_)), "{error}");
}

/// Whatever is wrong with the bytes, reading returns, and what it returns can be read.
#[test]
fn damaged_bytes_are_refused_or_harmless() {
    let mut random = Random::new(42);
    let (mut refused, mut plain) = (0, 0);
    let types =
        [DataType::Int32, DataType::Utf8View, DataType::FixedSizeBinary(20), DataType::BinaryView, DataType::Float64];
    for t in types {
        for shape in [Shape::FewDistinct, Shape::Anything, Shape::Extremes] {
            // Few rows always have codes.
            let (rows, rounds) = if matches!(shape, Shape::Anything) { (40_000, 10) } else { (400, 200) };
            let column = only_column(&load(&t, &[vec![array(&t, shape, rows, 5, &mut random)]], rows, &Serial));
            plain += usize::from(column.as_plain().is_some());
            let of = ColumnAllocator::unplaced();
            let dictionary = column.as_coded().map(|coded| copied(write_dictionary(coded.dictionary()).unwrap()));
            let written = copied(write_column(&column).unwrap());
            for _ in 0..rounds {
                let (mut dictionary, mut written) = (dictionary.clone(), written.clone());
                let which = if random.one_in(2) { dictionary.as_mut().unwrap_or(&mut written) } else { &mut written };
                // The packed codes are believed.
                let believed = column.as_coded().is_some() && which.0[0] == CODED && which.0.len() > 4;
                damage(which, !believed, &mut random);
                let Ok(dictionary) = dictionary.map(|bytes| dictionary_back(&bytes, &of)).transpose() else {
                    refused += 1;
                    continue;
                };
                match column_back(&written, dictionary.as_ref(), &of) {
                    Err(_) => refused += 1,
                    Ok(column) if column.as_coded().is_none_or(|coded| coded.bits() == 0) => {
                        column.slice(0..column.len().min(400)).to_data().validate_full().unwrap();
                    }
                    Ok(column) => {
                        let values = column.as_coded().unwrap().dictionary().len().min(500) as u32;
                        let all = column.as_coded().unwrap().dictionary().values(0..values);
                        all.to_data().validate_full().unwrap();
                    }
                }
            }
        }
    }
    assert!(refused > 1000 && plain > 0, "{refused} {plain}");
}

/// Changes, cuts off or adds a few bytes.
fn damage((head, blobs): &mut Copied, blobs_too: bool, random: &mut Random) {
    let place = if blobs_too && !blobs.is_empty() { random.below(blobs.len() + 1) } else { blobs.len() };
    let bytes = blobs.get_mut(place).unwrap_or(head);
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() + 1)),
        1 => bytes.push(random.next_u64() as u8),
        _ => {
            let at = random.below(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

#[test]
fn text_that_is_none_is_refused() {
    let texts = |rows: usize, different: usize| -> arrow::array::ArrayRef {
        let text = |row: usize| format!("a longer word {} of many", row % different);
        Arc::new(StringViewArray::from_iter_values((0..rows).map(text)))
    };
    let of = ColumnAllocator::unplaced();
    let column = only_column(&load(&DataType::Utf8View, &[vec![texts(100_000, 100_000)]], 9000, &Serial));
    assert!(column.as_plain().is_some());
    let mut written = copied(write_column(&column).unwrap());
    written.1[1][3] = 0xff;
    let error = column_back(&written, None, &of).unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
    let column = only_column(&load(&DataType::Utf8View, &[vec![texts(2000, 40)]], 9000, &Serial));
    let mut written = copied(write_dictionary(column.as_coded().unwrap().dictionary()).unwrap());
    written.1[1][15] = 0xff;
    let error = dictionary_back(&written, &of).unwrap_err().to_string();
    assert!(error.contains("UTF-8") || error.contains("utf-8"), "{error}");
}

#[test]
fn deleted_rows_come_back() {
    let mut random = Random::new(43);
    for rows in [1, 77, 16_384, 50_001] {
        for share in [1, 2, 100] {
            let of = Allocator::unplaced();
            let positions: Vec<u32> = (0..rows).filter(|_| random.one_in(share)).collect();
            let deleted = DeletedRows::none(rows as usize).with_deleted(&positions, &of).unwrap();
            let bytes = deleted_to_bytes(&deleted);
            let back = deleted_from_bytes(&bytes, &of).unwrap();
            assert_eq!((back.rows(), back.count()), (rows as usize, positions.len()));
            assert!(positions.iter().all(|row| back.contains(*row as usize)));
            for end in 0..bytes.len().min(50) {
                deleted_from_bytes(&bytes[..end], &of).unwrap_err();
            }
        }
    }
}
