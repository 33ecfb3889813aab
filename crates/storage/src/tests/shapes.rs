//! Which encoding is chosen, what it takes, and what results share with the store.

use arrow::array::{AsArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::TimeUnit;

use super::data::{Random, Shape, array};
use super::*;

fn stored(array: ArrayRef) -> Arc<Column> {
    only_column(&load(&array.data_type().clone(), &[vec![array]], 8192, &Serial))
}

#[test]
fn constants_and_nulls_take_no_codes() {
    for t in [DataType::Int64, DataType::Utf8View, DataType::Float64, DataType::Boolean] {
        for shape in [Shape::Constant, Shape::AllNull] {
            let column = stored(array(&t, shape, 70_000, 0, &mut Random::new(7)));
            let coded = column.as_coded().unwrap();
            assert_eq!((coded.bits(), column.bytes_codes()), (0, 0), "{t} {shape:?}");
            assert_eq!(coded.null_code(), matches!(shape, Shape::AllNull));
            assert!(column.bytes_dictionary() < 5000);
        }
    }
}

#[test]
fn steps_are_found_and_stored_nowhere() {
    // Quarter hours in nanoseconds: 64 bits of value, a few bits of code.
    let quarter = 900_000_000_000;
    let values = Int64Array::from_iter_values((0..10_000).map(|i| -5 + (i * 7919 % 3000) * quarter));
    let t = DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
    let column = stored(arrow::compute::cast(&values, &t).unwrap());
    assert_eq!((column.encoding(), column.bits(), column.bytes_dictionary()), (Encoding::Affine, Some(12), 0));

    let prices = Decimal128Array::from_iter_values((0..10_000).map(|i| i128::from(i % 50) * 100));
    let column = stored(Arc::new(prices.with_precision_and_scale(15, 2).unwrap()));
    assert_eq!((column.encoding(), column.bits()), (Encoding::Affine, Some(6)));

    let days = Date32Array::from_iter_values((0..10_000).map(|i| 8000 + i % 2526));
    assert_eq!(stored(Arc::new(days)).bits(), Some(12));
}

#[test]
fn the_smaller_encoding_is_chosen() {
    // Few values far apart: sorted. Random 64-bit numbers: plain. Few floats: sorted, many: plain.
    let mut random = Random::new(8);
    let few: Vec<i64> = (0..100).map(|_| random.next_u64() as i64).collect();
    let column = stored(Arc::new(Int64Array::from_iter_values((0..200_000).map(|i| few[i * 31 % 100]))));
    assert_eq!((column.encoding(), column.bits()), (Encoding::SortedFixed, Some(7)));
    let column = stored(Arc::new(Int64Array::from_iter_values((0..200_000).map(|_| random.next_u64() as i64))));
    assert_eq!(column.encoding(), Encoding::Plain);
    let column = stored(Arc::new(Float64Array::from_iter_values((0..200_000).map(|i| f64::from(i % 11) / 100.0))));
    assert_eq!((column.encoding(), column.bits()), (Encoding::SortedFixed, Some(4)));
    let column = stored(Arc::new(Float64Array::from_iter_values((0..200_000).map(|i| f64::from(i).sqrt()))));
    assert_eq!((column.encoding(), column.bytes_codes()), (Encoding::Plain, 8 * 200_000));
}

#[test]
fn producers_share_one_dictionary_and_order_their_rows() {
    let words = |from: i64| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..5000).map(|i| format!("word {:05}", (from + i * 3) % 4000))))
    };
    let producers = [vec![words(0)], vec![words(1)], vec![words(2)]];
    let column = only_column(&load(&DataType::Utf8View, &producers, 777, &Threads));
    let coded = column.as_coded().unwrap();
    assert_eq!((coded.dictionary().len(), coded.bits()), (4000, 12));
    check_reads(&column, &expected(&DataType::Utf8View, &producers), &mut Random::new(9));
}

#[test]
fn large_dictionaries_are_copied_from_and_small_ones_shared() {
    let words = |count: usize| -> ArrayRef {
        let word =
            |i: usize| format!("a value that is long enough to be kept outside of its view, number {:07}", i % count);
        Arc::new(StringViewArray::from_iter_values((0..200_000).map(word)))
    };
    let small = stored(words(1000));
    assert_eq!(small.encoding(), Encoding::SortedStrings);
    let a = small.slice(0..10);
    let b = small.slice(5000..5010);
    let buffer = |array: &ArrayRef| array.as_string_view().data_buffers()[0].as_ptr();
    assert_eq!(buffer(&a), buffer(&b));

    let large = stored(words(20_000));
    assert_eq!(large.encoding(), Encoding::SortedStrings);
    assert!(large.bytes_dictionary() > 1 << 20);
    let ten = large.slice(100..110);
    assert_eq!(ten.as_string_view().data_buffers()[0].len(), 10 * 74);
    assert!(ten.get_buffer_memory_size() < 1000);
}

#[test]
fn slices_of_plain_strings_refer_to_just_their_bytes() {
    let unique: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..150_000).map(|i| format!("comment {i} of many, all of them unlike")),
    ));
    let column = stored(unique.clone());
    assert_eq!(column.encoding(), Encoding::Plain);
    let slice = column.slice(70_000..70_100);
    assert_eq!(slice.as_string_view().data_buffers().len(), 1);
    let bytes: usize = unique.slice(70_000, 100).as_string_view().iter().flatten().map(str::len).sum();
    assert_eq!(slice.as_string_view().data_buffers()[0].capacity(), bytes);
    // The store's bytes, not a copy.
    let inside = slice.as_string_view().data_buffers()[0].as_ptr() as usize;
    let lies = |(_, region): &(Component, &numa::Region)| {
        (region.address()..region.address() + region.len()).contains(&inside)
    };
    assert!(column.components().iter().any(lies));
    // Far apart: a copy of what is needed.
    let positions: Vec<u32> = (0..100).map(|i| i * 1400).collect();
    assert!(column.take(&positions).get_buffer_memory_size() < 10_000);
}

#[test]
fn results_outlive_the_store() {
    let unique = |i| format!("comment {i} of many, all of them unlike");
    let column = stored(Arc::new(StringViewArray::from_iter_values((0..100_000).map(unique))));
    let slice = column.slice(90_000..90_002);
    drop(column);
    assert_eq!(slice.as_string_view().value(1), "comment 90001 of many, all of them unlike");
}

#[test]
fn many_small_producers_are_put_together() {
    let mut random = Random::new(10);
    for t in [DataType::Utf8, DataType::Float64, data::opaque_types()[4].clone()] {
        let producer = |i: usize| -> ArrayRef {
            match &t {
                DataType::Utf8 => Arc::new(StringViewArray::from_iter(
                    (0..1000).map(|row| (row % 20 != 3).then(|| format!("row {row} of the producer {i}"))),
                )),
                t => array(t, Shape::Anything, 1000, 20, &mut random),
            }
        };
        let producers: Vec<Vec<ArrayRef>> = (0..300).map(producer).map(|array| vec![array]).collect();
        let column = only_column(&load(&t, &producers, 1000, &Threads));
        assert_eq!(column.encoding(), Encoding::Plain, "{t}");
        // At most an offset, a byte and a validity region per granule, however many producers there were.
        assert!(column.components().len() <= 3 * 5, "{}", column.components().len());
        check_reads(&column, &expected(&t, &producers), &mut random);
    }
}

#[test]
fn two_segments_share_a_dictionary() {
    let rows = SEGMENT_ROWS_MAX + 1000;
    let mut random = Random::new(11);
    let t = DataType::Int16;
    let block = array(&t, Shape::FewDistinct, 1 << 20, 10, &mut random);
    let mut arrays = vec![block.clone(); 16];
    arrays.push(block.slice(5, 1000));
    let part = load(&t, &[arrays], 1 << 20, &Threads);
    assert_eq!(part.segments.len(), 2);
    let columns: Vec<&Column> = part.segments.iter().map(|s| s.segment.column(0).as_ref()).collect();
    assert_eq!((columns[0].len(), columns[1].len()), (SEGMENT_ROWS_MAX, rows - SEGMENT_ROWS_MAX));
    let dictionaries = columns.iter().map(|c| c.as_coded().unwrap().dictionary()).collect::<Vec<_>>();
    assert!(Arc::ptr_eq(dictionaries[0], dictionaries[1]));
    assert_same(&columns[1].slice(0..1000), &block.slice(5, 1000), "second segment");
    assert_same(&columns[0].slice((1 << 20) - 5..(1 << 20)), &block.slice((1 << 20) - 5, 5), "first segment");
}

/// Sums where the values lie are those of a plain loop, of all rows and of few or most of them.
#[test]
fn sums_of_marked_rows_are_those_of_a_loop() {
    let mut random = Random::new(5);
    let narrow = Int64Array::from_iter_values((0..20_000).map(|i| 1000 - i * 7919 % 3000));
    let wide = Int64Array::from_iter_values((0..300_000).map(|_| random.between(i64::MIN, i64::MAX)));
    let few: Vec<i64> = (0..300).map(|_| random.between(i64::MIN, i64::MAX)).collect();
    let listed = Int64Array::from_iter_values((0..300_000).map(|_| random.pick(&few)));
    let (mut plain, mut affine) = (0, 0);
    for values in [narrow, wide, listed] {
        let column = stored(Arc::new(values.clone()));
        let is_plain = column.as_plain().is_some();
        plain += usize::from(is_plain);
        affine += column.as_coded().and_then(|column| column.dictionary().affine_integers()).iter().count();
        for _ in 0..200 {
            let first = 256 * random.below(70);
            // Values as they are lie in pieces as they were staged, and are added within one.
            let end = if is_plain { 20_000.min((first / 8192 + 1) * 8192) } else { 20_000 };
            let rows = first..first + 1 + random.below(end - first);
            let one_in = random.pick(&[1, 2, 3, 50]);
            let inverted = random.one_in(2);
            let is_marked: Vec<bool> = rows.clone().map(|_| random.one_in(one_in) != inverted).collect();
            let mut mask = vec![0_u64; rows.len().div_ceil(64)];
            is_marked.iter().enumerate().for_each(|(i, marked)| mask[i / 64] |= u64::from(*marked) << (i % 64));
            let value = |row: usize| i128::from(values.value(row));
            let all: i128 = rows.clone().map(value).sum();
            let marked: i128 =
                rows.clone().zip(&is_marked).filter(|(_, marked)| **marked).map(|(row, _)| value(row)).sum();
            assert_eq!(column.sum(rows.clone(), None), Some(all), "{rows:?}");
            assert_eq!(column.sum(rows.clone(), Some(&mask)), Some(marked), "{rows:?}, one in {one_in}");
        }
    }
    assert_eq!((plain, affine), (1, 1));
}
