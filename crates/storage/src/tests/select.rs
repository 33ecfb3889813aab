//! Selection and dictionary bounds against the obvious.

use arrow::array::make_comparator;
use arrow::compute::SortOptions;
use proptest::prelude::*;

use super::data::{Random, SHAPES, array, ordered_types};
use super::*;

fn predicates(codes: u32, random: &mut Random) -> Vec<CodePredicate> {
    let mut code = || random.below(codes as usize + 2) as u32;
    let mut all = vec![CodePredicate::Nothing, CodePredicate::Everything];
    for _ in 0..4 {
        let lo = code();
        let hi = code();
        all.push(CodePredicate::Range { lo, hi });
        all.push(CodePredicate::NotRange { lo, hi });
        all.push(CodePredicate::Range { lo, hi: lo });
    }
    all.push(CodePredicate::Range { lo: 1, hi: u32::MAX });
    let few: Vec<u32> = (0..5).map(|_| code()).collect();
    let many: Vec<u32> = (0..codes.min(5000)).map(|_| code()).collect();
    all.extend([few, many, vec![0], vec![]].map(|codes| CodePredicate::Set(Arc::new(CodeSet::new(codes)))));
    all
}

fn check_select(column: &CodedColumn, rows: std::ops::Range<usize>, random: &mut Random) {
    let mut codes = Vec::new();
    column.unpack(rows.clone(), &mut codes);
    let count = column.dictionary().len() as u32 + u32::from(column.null_code());
    for predicate in predicates(count, random) {
        let before: Vec<u64> = (0..rows.len().div_ceil(64)).map(|_| random.next_u64() | random.next_u64()).collect();
        let mut mask = before.clone();
        column.select(rows.clone(), &predicate, &mut mask);
        for i in 0..mask.len() * 64 {
            let was = before[i / 64] >> (i % 64) & 1 == 1;
            let expected = i < rows.len() && was && predicate.passes(codes[i]);
            assert_eq!(mask[i / 64] >> (i % 64) & 1 == 1, expected, "{predicate:?} row {i} of {rows:?}");
        }
    }
}

/// The bounds of every granule are the smallest and largest code.
fn check_granules(column: &CodedColumn) {
    for granule in 0..column.len().div_ceil(GRANULE_ROWS) {
        let mut codes = Vec::new();
        column.unpack(granule * GRANULE_ROWS..column.len().min((granule + 1) * GRANULE_ROWS), &mut codes);
        let bounds = (*codes.iter().min().unwrap(), *codes.iter().max().unwrap());
        assert_eq!(column.code_bounds(granule), bounds);
    }
}

/// Vids ascend as values do, and bounds are where a search through all values finds them.
fn check_bounds(dictionary: &Dictionary, probes: &ArrayRef) {
    let values = dictionary.values(0..dictionary.len() as u32);
    let order = make_comparator(&values, &values, SortOptions::default()).unwrap();
    assert!((1..values.len()).all(|i| order(i - 1, i).is_lt()), "{dictionary:?} is not sorted");
    let order = make_comparator(&values, probes, SortOptions::default()).unwrap();
    let search = |holds: &dyn Fn(usize) -> bool| {
        let mut from = 0;
        let mut to = values.len();
        while from < to {
            let middle = (from + to) / 2;
            if holds(middle) { from = middle + 1 } else { to = middle }
        }
        from as u32
    };
    for i in (0..probes.len()).filter(|&i| probes.is_valid(i)) {
        let probe = probes.slice(i, 1);
        assert_eq!(dictionary.lower_bound(&probe).unwrap(), search(&|vid| order(vid, i).is_lt()));
        assert_eq!(dictionary.upper_bound(&probe).unwrap(), search(&|vid| order(vid, i).is_le()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_predicate_on_every_type(
        type_index in any::<prop::sample::Index>(),
        shape in 0usize..6,
        rows in 1usize..3000,
        null_every in 0usize..4,
        block in 0usize..12,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let types = ordered_types();
        let t = type_index.get(&types);
        let array = array(t, SHAPES[shape], rows, null_every, &mut random);
        let column = only_column(&load(t, &[vec![array]], 1000, &Serial));
        if let Some(coded) = column.as_coded() {
            let start = (block * BLOCK_ROWS).min(rows / BLOCK_ROWS * BLOCK_ROWS);
            let end = start + random.below(rows - start + 1);
            check_select(coded, start..end, &mut random);
            check_select(coded, 0..rows, &mut random);
            check_granules(coded);
        }
    }

    #[test]
    fn bounds_on_every_type(
        type_index in any::<prop::sample::Index>(),
        shapes in (0usize..6, 0usize..6),
        null_every in 0usize..4,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let types = ordered_types();
        let t = type_index.get(&types);
        let array_of = |shape: usize, random: &mut Random| array(t, SHAPES[shape], 200, null_every, random);
        let stored = array_of(shapes.0, &mut random);
        let others = array_of(shapes.1, &mut random);
        let column = only_column(&load(t, &[vec![stored.clone()]], 1000, &Serial));
        if let Some(coded) = column.as_coded() && coded.dictionary().len() < 100_000 {
            check_bounds(coded.dictionary(), &expected(t, &[vec![stored, others]]));
        }
    }
}

#[test]
fn granules_that_cannot_match_and_granules_that_must() {
    // Ascending values: each granule has its own range of codes.
    let rows = 3 * GRANULE_ROWS + 1234;
    let ascending: ArrayRef =
        Arc::new(arrow::array::Int64Array::from_iter_values((0..rows as i64).map(|i| i / 1000 * 7)));
    let column = only_column(&load(&DataType::Int64, &[vec![ascending]], 50_000, &Threads));
    let coded = column.as_coded().unwrap();
    assert_eq!((column.encoding(), coded.dictionary().len()), (Encoding::Affine, rows / 1000 + 1));
    assert!(coded.code_bounds(0).1 < coded.code_bounds(2).0);
    let mut random = Random::new(6);
    check_select(coded, 0..rows, &mut random);
    check_select(coded, GRANULE_ROWS - 512..rows - 1, &mut random);
    check_select(coded, 2 * GRANULE_ROWS..2 * GRANULE_ROWS, &mut random);
    check_granules(coded);
}

#[test]
fn a_constant_of_another_type_is_an_error() {
    use arrow::array::{Decimal128Array, Int32Array, Int64Array, StringViewArray};
    let decimals = |scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(vec![100, 250]).with_precision_and_scale(15, scale).unwrap())
    };
    let column = only_column(&load(&DataType::Decimal128(15, 2), &[vec![decimals(2)]], 10, &Serial));
    let dictionary = column.as_coded().unwrap().dictionary();
    let other_precision = Decimal128Array::from(vec![101]).with_precision_and_scale(38, 2).unwrap();
    assert_eq!(dictionary.lower_bound(&other_precision).unwrap(), 1);
    let error = dictionary.lower_bound(&decimals(3).slice(0, 1)).unwrap_err();
    assert!(matches!(error, StoreError::NotComparable { .. }), "{error}");
    let error = dictionary.lower_bound(&decimals(2)).unwrap_err();
    assert_eq!(error.to_string(), "one value that is not NULL is needed here, got 2 of which 0 NULL");

    let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let column = only_column(&load(&DataType::Int32, &[vec![ints.clone()]], 10, &Serial));
    let dictionary = column.as_coded().unwrap().dictionary();
    assert!(dictionary.upper_bound(&Int64Array::from(vec![1])).is_err());
    assert!(dictionary.upper_bound(&ints.slice(1, 1)).is_err());
    assert!(dictionary.upper_bound(&StringViewArray::from(vec!["1"])).is_err());
}
