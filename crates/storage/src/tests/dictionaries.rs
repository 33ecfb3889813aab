//! Dictionaries of columns whose first rows do not tell how many values there are.

use arrow::array::{AsArray, Float64Array, Int64Array, StringViewArray, UInt64Array};
use numa::{Budget, Policy};

use super::data::Random;
use super::*;

fn texts(values: impl Iterator<Item = usize>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values.map(|value| format!("v{value:08x}"))))
}

#[test]
fn many_values_of_many_more_rows_are_coded() {
    // The first granule has 48,000 different values, near three quarters of its rows.
    let mut random = Random::new(61);
    let array = texts((0..1_000_000).map(|_| random.below(100_000)));
    for parallel in [&Serial as &dyn Parallel, &Threads] {
        let producers = [vec![array.slice(0, 700_000)], vec![array.slice(700_000, 300_000)]];
        let column = only_column(&load(&DataType::Utf8View, &producers, 8192, parallel));
        assert_eq!((column.encoding(), column.bits()), (Encoding::SortedStrings, Some(17)));
        let bytes = column.bytes_codes() + column.bytes_dictionary();
        assert!(bytes < 5_000_000, "{bytes} bytes, of 13,000,000 as they are");
        check_reads(&column, &array, &mut random);
    }
}

#[test]
fn values_that_come_once_per_producer_are_coded_once_all_rows_are_there() {
    // Each producer sees every value once.
    let mut random = Random::new(62);
    let producers: Vec<Vec<ArrayRef>> =
        (0..5_usize).map(|i| vec![texts((0..90_000).map(|row| (row * 7 + i * 31) % 90_000))]).collect();
    let column = only_column(&load(&DataType::Utf8View, &producers, 8192, &Threads));
    let coded = column.as_coded().expect("coded");
    assert_eq!((coded.dictionary().len(), coded.bits()), (90_000, 17));
    check_reads(&column, &expected(&DataType::Utf8View, &producers), &mut random);

    // With three of them a value comes thrice, which is not worth reading the rows again.
    let column = only_column(&load(&DataType::Utf8View, &producers[..3], 8192, &Threads));
    assert_eq!(column.encoding(), Encoding::Plain);
    check_reads(&column, &expected(&DataType::Utf8View, &producers[..3]), &mut random);
}

#[test]
fn near_unique_text_stays_as_it_is() {
    // As comments of TPC-H: three quarters of the values come once.
    let mut random = Random::new(63);
    let array = texts((0..600_000).map(|row| if random.below(4) == 0 { random.below(50_000) } else { 50_000 + row }));
    let producers = [vec![array.slice(0, 400_000)], vec![array.slice(400_000, 200_000)]];
    let column = only_column(&load(&DataType::Utf8View, &producers, 8192, &Threads));
    assert_eq!(column.encoding(), Encoding::Plain);
    check_reads(&column, &array, &mut random);
}

#[test]
fn unique_text_takes_no_more_memory_than_its_bytes_and_a_third() {
    let rows = 12 * GRANULE_ROWS;
    let schema = schema_of(&DataType::Utf8View);
    let budget = Budget::new("unique", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
    for from in (0..rows).step_by(8192) {
        let value = |row: usize| format!("{row:08} a value of fifty bytes, unlike all the other");
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values((from..from + 8192).map(value)));
        stager.append(&batch_of(&schema, vec![array], 8192)).unwrap();
    }
    let staged = stager.finish().unwrap();
    let part = build_part(&schema, vec![staged], &[ColumnAllocator::local(allocator)], &Serial).unwrap();
    let column = only_column(&part);
    assert_eq!(column.encoding(), Encoding::Plain);
    let plain_bytes = (rows * (50 + 4)) as u64;
    assert!(budget.peak_bytes() <= plain_bytes * 13 / 10, "{} of {plain_bytes}", budget.peak_bytes());
}

#[test]
fn numbers_far_apart_get_a_dictionary_of_more_values_than_are_tracked() {
    let mut random = Random::new(64);
    let values: Vec<u64> = (0..100_000).map(|_| random.next_u64()).collect();
    let rows: Vec<u64> = (0..1_000_000).map(|_| values[random.below(values.len())]).collect();
    let arrays: [ArrayRef; 3] = [
        Arc::new(UInt64Array::from(rows.clone())),
        Arc::new(Int64Array::from_iter(rows.iter().map(|v| (v % 11 > 0).then_some(*v as i64)))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|v| (*v >> 11) as f64 / 3.0))),
    ];
    for array in arrays {
        let t = array.data_type().clone();
        let producers = [vec![array.slice(0, 600_000)], vec![array.slice(600_000, 400_000)]];
        let column = only_column(&load(&t, &producers, 8192, &Threads));
        assert_eq!((column.encoding(), column.bits()), (Encoding::SortedFixed, Some(17)), "{t}");
        check_reads(&column, &array, &mut random);
    }
}

#[test]
fn many_numbers_stay_as_they_are_or_near() {
    let mut random = Random::new(65);
    let plain = |array: ArrayRef| only_column(&load(&array.data_type().clone(), &[vec![array]], 8192, &Serial));
    // Too many for the rows.
    let values: Vec<i64> = (0..120_000).map(|_| random.next_u64() as i64).collect();
    let thrice = Int64Array::from_iter_values((0..360_000).map(|row| values[row % values.len()]));
    assert_eq!(plain(Arc::new(thrice)).encoding(), Encoding::Plain);
    // Near each other: numbered by distance, without a dictionary.
    let near = Int64Array::from_iter_values((0..600_000).map(|_| random.below(100_000) as i64 * 900));
    assert_eq!(plain(Arc::new(near)).encoding(), Encoding::Affine);
}

/// Producers that know their keys exactly, by a sketch, and not at all, since they are near each other there.
#[test]
fn producers_that_know_their_numbers_differently_are_put_together() {
    let mut random = Random::new(66);
    let few: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500_000).map(|row| i64::MIN + row % 100)));
    let near: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|row| 5 + row * 7919 % 70_000)));
    let far: Vec<i64> = (0..80_000).map(|_| random.next_u64() as i64).collect();
    let far: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|row| far[row % far.len()])));
    let producers = [vec![few], vec![near], vec![far]];
    let column = only_column(&load(&DataType::Int64, &producers, 8192, &Threads));
    assert_eq!((column.encoding(), column.bits()), (Encoding::SortedFixed, Some(18)));
    assert_eq!(column.as_coded().expect("coded").dictionary().len(), 150_100);
    check_reads(&column, &expected(&DataType::Int64, &producers), &mut random);
}

/// What is encoded again and turns out to have more values than was thought is there all the same, as it is.
#[test]
fn encoding_is_given_up_when_there_are_too_many_values() {
    use crate::stage::strings::{StagedStrings, StringStage};
    let rows = 3 * GRANULE_ROWS + 5;
    let allocator = Allocator::unplaced();
    let array = texts(0..rows);
    let mut stage = StringStage::new("c", &allocator);
    stage.append(array.as_ref()).unwrap();
    let StagedStrings::Plain { pieces, .. } = stage.finish().unwrap() else { panic!("unique values are kept plain") };
    let again = StringStage::encoded(pieces, GRANULE_ROWS + 10, &allocator).unwrap();
    let about = again.sketch().estimate();
    assert!(about.abs_diff(rows) < rows / 10, "{about}");
    assert_eq!((again.plain_rows(), again.rows()), (rows, rows));
    let StagedStrings::Plain { pieces, total_bytes, .. } = again else { panic!("plain rows") };
    assert_eq!(total_bytes, 9 * rows);
    let StagedStrings::Coded { table, .. } = StringStage::encoded(pieces, rows, &allocator).unwrap() else {
        panic!("as many values as are allowed")
    };
    assert_eq!(table.len(), rows);
    let value = |row: usize| array.as_string_view().value(row).as_bytes();
    assert!((0..rows).all(|row| table.value(row as u32) == value(row)));
}
