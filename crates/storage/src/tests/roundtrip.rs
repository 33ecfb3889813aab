//! Every type and shape, in and out.

use arrow::array::{AsArray, Float64Array};
use arrow::datatypes::Float64Type;
use proptest::prelude::*;

use super::data::{Random, SHAPES, array, opaque_types, ordered_types};
use super::*;

/// Sizes around blocks and granules.
const ODD_ROWS: [usize; 8] = [0, 1, 255, 256, 257, 511, 1000, 4097];

#[test]
fn every_type_and_shape_in_odd_sizes() {
    let mut random = Random::new(1);
    for t in ordered_types().into_iter().chain(opaque_types()) {
        for shape in SHAPES {
            for (i, null_every) in [0, 3].into_iter().enumerate() {
                let rows = ODD_ROWS[random.below(ODD_ROWS.len())];
                let arrays = vec![array(&t, shape, rows, null_every, &mut random)];
                let part = load(&t, std::slice::from_ref(&arrays), 700, &Serial);
                if rows == 0 {
                    assert!(part.segments.is_empty());
                    continue;
                }
                let context = format!("{t} {shape:?} {rows} rows, nulls {i}");
                let expected = expected(&t, &[arrays]);
                let column = only_column(&part);
                assert_same(&column.slice(0..rows), &expected, &context);
                check_reads(&column, &expected, &mut random);
            }
        }
    }
}

#[test]
fn one_nan_is_kept_and_both_zeros() {
    let odd = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_dead_beef), 0.0, -0.0, f64::INFINITY, 1.5];
    let bits =
        |array: &ArrayRef| array.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let expected = [f64::NAN, f64::NAN, f64::NAN, 0.0, -0.0, f64::INFINITY, 1.5].map(f64::to_bits);
    // Once with a dictionary, and once too varied for one.
    for spread in [0, 30_000] {
        let others = (0..spread).map(|i| f64::from(i).sqrt());
        let array: ArrayRef = Arc::new(Float64Array::from_iter_values(odd.into_iter().chain(others)));
        let part = load(&DataType::Float64, &[vec![array]], 700, &Serial);
        assert_eq!(bits(&only_column(&part).slice(0..odd.len())), expected);
    }
}

#[test]
fn every_type_around_the_granule() {
    let mut random = Random::new(2);
    for (i, t) in ordered_types().into_iter().chain(opaque_types()).enumerate() {
        let rows = GRANULE_ROWS - 1 + i % 3;
        let shape = SHAPES[2 + i % 4];
        let arrays = vec![array(&t, shape, rows, if i % 2 == 0 { 9 } else { 0 }, &mut random)];
        let part = load(&t, std::slice::from_ref(&arrays), 10_000, &Threads);
        check_reads(&only_column(&part), &expected(&t, &[arrays]), &mut random);
    }
}

#[test]
fn strings_that_stop_paying_are_kept_plain_from_then_on() {
    // A chunk of few values, then unique ones: the stager changes its mind after the second chunk.
    let mut random = Random::new(3);
    let t = DataType::Utf8;
    for null_every in [0, 11] {
        let few = array(&t, data::Shape::FewDistinct, GRANULE_ROWS, null_every, &mut random);
        let unique = array(&t, data::Shape::Anything, 2 * GRANULE_ROWS + 77, null_every, &mut random);
        let producers = [vec![few.clone(), unique.clone()], vec![few], vec![unique]];
        let part = load(&t, &producers, 8192, &Threads);
        let column = only_column(&part);
        assert_eq!(column.encoding(), Encoding::Plain);
        check_reads(&column, &expected(&t, &producers), &mut random);
    }
}

#[test]
fn a_few_plain_rows_join_the_dictionary_of_the_others() {
    let mut random = Random::new(4);
    let t = DataType::Utf8View;
    let few = array(&t, data::Shape::FewDistinct, 6 * GRANULE_ROWS, 5, &mut random);
    let unique = array(&t, data::Shape::Anything, GRANULE_ROWS + 1, 5, &mut random);
    let producers = [vec![few], vec![unique]];
    let column = only_column(&load(&t, &producers, 8192, &Threads));
    assert_eq!(column.encoding(), Encoding::SortedStrings);
    check_reads(&column, &expected(&t, &producers), &mut random);
}

#[test]
fn numbers_of_all_kinds_of_chunks_meet_in_one_column() {
    // Chunks that are packed, 64 and 128 bits wide; with few values they share a sorted dictionary, else they are
    // plain.
    let mut random = Random::new(5);
    for t in [DataType::Decimal128(38, 4), DataType::Int64, DataType::UInt64, DataType::Float64] {
        use data::Shape::*;
        for shapes in [[FewDistinct, Extremes, AllNull], [Steps, Anything, FewDistinct], [Constant, AllNull, Constant]]
        {
            let producers = shapes.map(|shape| vec![array(&t, shape, GRANULE_ROWS / 2 + 3000, 7, &mut random)]);
            let column = only_column(&load(&t, &producers, 9999, &Threads));
            check_reads(&column, &expected(&t, &producers), &mut random);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn producers_of_any_size(
        type_index in any::<prop::sample::Index>(),
        sizes in proptest::collection::vec((0usize..3000, 0usize..6), 1..5),
        null_every in 0usize..5,
        batch_rows in 1usize..2000,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let types: Vec<_> = ordered_types().into_iter().chain(opaque_types()).collect();
        let t = type_index.get(&types);
        let producers: Vec<Vec<ArrayRef>> =
            sizes.iter().map(|&(rows, shape)| vec![array(t, SHAPES[shape], rows, null_every, &mut random)]).collect();
        let part = load(t, &producers, batch_rows, &Threads);
        let expected = expected(t, &producers);
        if expected.is_empty() {
            prop_assert!(part.segments.is_empty());
        } else {
            check_reads(&only_column(&part), &expected, &mut random);
        }
    }
}

#[test]
fn values_of_no_bytes() {
    let t = DataType::FixedSizeBinary(0);
    let nulls: arrow::buffer::NullBuffer = (0..600).map(|i| i % 5 != 0).collect();
    let array = arrow::array::FixedSizeBinaryArray::try_new_with_len(0, Default::default(), Some(nulls), 600).unwrap();
    let array: ArrayRef = Arc::new(array);
    let column = only_column(&load(&t, &[vec![array.clone()]], 1000, &Serial));
    assert_eq!(column.bits(), Some(1));
    assert_eq!(column.slice(3..500).nulls(), array.slice(3, 497).nulls());
    assert_eq!(column.take(&[0, 1, 599]).nulls().unwrap().iter().collect::<Vec<_>>(), [false, true, true]);
}
