use std::collections::HashSet;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use numa::{Allocator, Budget};
use proptest::prelude::*;
use sched::Statement;
use storage::{Column, ColumnAllocator, GRANULE_ROWS, Serial, Stager, build_part};

use super::*;
use crate::operators::scan::{Lookup, Places};

fn with_run<T>(budget: &Arc<Budget>, body: impl FnOnce(&Run<'_>) -> T) -> T {
    let statement = Statement::new(1, budget.clone());
    let places =
        Places { lookup: Lookup::Nowhere, options: crate::ScanOptions::default(), turn: None, morsels_min: usize::MAX };
    body(&Run { statement: &statement, parallel: &Serial, threads: 1, places })
}

fn info(values: &[i64]) -> ColumnInfo {
    let (low, high) = (values.iter().min(), values.iter().max());
    let field = Arc::new(Field::new("k", DataType::Int64, true));
    ColumnInfo::int(field, low.copied().unwrap_or(0), high.copied().unwrap_or(0), true)
}

/// The filter of these keys, `None` being NULL, and the slow twin.
fn filter_of(keys: &[Option<i64>], run: &Run<'_>) -> (KeyFilter, HashSet<i64>) {
    let valid: Vec<bool> = keys.iter().map(Option::is_some).collect();
    let set: HashSet<i64> = keys.iter().flatten().copied().collect();
    let data = Data::Int(keys.iter().map(|key| key.unwrap_or(0)).collect());
    let vector = Vector { data, valid: valid.contains(&false).then_some(valid) };
    let present: Vec<i64> = keys.iter().flatten().copied().collect();
    let filter = KeyFilter::of(&info(&present), &vector, false, run).unwrap().expect("integers have a filter");
    (filter, set)
}

/// Numbers that look random.
fn hashed(i: u64) -> i64 {
    let mut x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as i64
}

/// False alarms in a hundred, at most.
const FALSE_MAX: usize = 2;
/// And so many more, where there are few values.
const BY_CHANCE: usize = 8;

#[test]
fn a_bloom_filter_has_no_false_no_and_few_false_yes() {
    let budget = Budget::unlimited();
    type Pattern = (&'static str, fn(u64) -> i64);
    let patterns: [Pattern; 5] = [
        ("random", hashed),
        ("in turn", |i| i as i64),
        ("far apart", |i| (i as i64).wrapping_mul(1 << 32)),
        ("primes apart", |i| (i as i64).wrapping_mul(1_000_003)),
        ("from the top", |i| i64::MAX - (i as i64 * 4096)),
    ];
    for (name, key) in patterns {
        for keys in [0usize, 1, 2, 5, 100, 5000, 70_000, 300_000] {
            with_run(&budget, |run| {
                let bloom = Bloom::of(&Vector::ints((0..keys as u64).map(key).collect()), run).unwrap().unwrap();
                assert!(bloom.bytes() <= keys * 12 / 8 + 8, "{name} {keys}: {} bytes", bloom.bytes());
                assert!((0..keys as u64).all(|i| bloom.may_have(key(i))), "{name} {keys}");
                // The keys that follow, and others.
                for other in [key, hashed] {
                    let others = (1 << 20..(1 << 20) + 20_000).map(other);
                    let wrong = others.filter(|&key| bloom.may_have(key)).count();
                    assert!(wrong * 100 <= FALSE_MAX * 20_000, "{name} {keys}: {wrong} of 20000");
                }
            });
        }
    }
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn without_room_there_is_a_range_instead_of_a_bloom_filter() {
    let budget = Budget::new("a test", 10_000);
    with_run(&budget, |run| {
        let keys: Vec<Option<i64>> = (0..20_000).map(|i| Some(hashed(i) >> 1)).collect();
        let (filter, set) = filter_of(&keys, run);
        assert!(matches!(filter, KeyFilter::Scattered { few: None, bloom: None, .. }));
        assert!(set.iter().all(|&key| filter.has_integer(key)));
        assert!(!filter.has_integer(i64::MAX) && !filter.has_integer(i64::MIN));
    });
    assert_eq!(budget.used_bytes(), 0);
}

/// A column of a table, with a dictionary if it has one.
fn stored(values: &[Option<i64>]) -> Arc<Column> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(schema.clone(), vec![array]).unwrap()).unwrap();
    let allocators = [ColumnAllocator::unplaced()];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    part.segments[0].segment.column(0).clone()
}

/// What a filter says of codes and of values leaves no match out, and little else in.
fn check(keys: &[Option<i64>], column: &[Option<i64>], limits: (usize, usize)) -> Result<(), TestCaseError> {
    with_run(&Budget::unlimited(), |run| {
        let (filter, set) = filter_of(keys, run);
        let wanted: Vec<u32> =
            (0u32..).zip(column).filter(|(_, v)| v.is_some_and(|v| set.contains(&v))).map(|(row, _)| row).collect();
        let valid: Vec<bool> = column.iter().map(Option::is_some).collect();
        let values = Data::Int(column.iter().map(|v| v.unwrap_or(0)).collect());
        let vector = Vector { data: values, valid: valid.contains(&false).then_some(valid) };
        let mut kept = Vec::new();
        filter.passing(&vector, &mut kept);
        prop_assert!(wanted.iter().all(|row| kept.binary_search(row).is_ok()));
        prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        let wrong: HashSet<i64> =
            kept.iter().filter_map(|&row| column[row as usize]).filter(|v| !set.contains(v)).collect();
        let different = column.iter().collect::<HashSet<_>>().len();
        prop_assert!(wrong.len() <= different * FALSE_MAX / 100 + BY_CHANCE, "{} of {different}", wrong.len());

        let column = stored(column);
        let Some(coded) = column.as_coded() else { return Ok(()) };
        let told = filter.on_codes(coded.dictionary(), coded.null_code(), limits, run).unwrap();
        let predicate = told.predicate.unwrap_or(CodePredicate::Everything);
        let mut codes = Vec::new();
        coded.unpack(0..column.len(), &mut codes);
        prop_assert!(wanted.iter().all(|&row| predicate.passes(codes[row as usize])));
        // One look-up per value is all there is to tell, unless it would cost too much or hardly pay.
        if !told.values_tell_more && !matches!(predicate, CodePredicate::Everything) {
            let passing: HashSet<u32> = codes.iter().copied().filter(|&code| predicate.passes(code)).collect();
            let matching: HashSet<u32> = wanted.iter().map(|&row| codes[row as usize]).collect();
            let wrong = passing.difference(&matching).count();
            prop_assert!(wrong <= different * FALSE_MAX / 100 + BY_CHANCE, "{wrong} of {different}");
        }
        Ok(())
    })
}

fn keys(possible: u64, most: usize) -> impl Strategy<Value = Vec<Option<i64>>> {
    let key = (0..possible, 0u8..10).prop_map(move |(i, null)| (null > 0).then(|| spread(i, possible)));
    proptest::collection::vec(key, 1..most)
}

/// Keys of few possible ones lie close together, of 150 at random, others far apart.
fn spread(i: u64, possible: u64) -> i64 {
    match possible {
        0..100 => i as i64 - 7,
        150 => hashed(i),
        _ => (i as i64) << 20,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn filters_leave_out_what_has_no_key(
        (keys, column) in proptest::sample::select(vec![60u64, 150, 5000]).prop_flat_map(|n| (keys(n, 300), keys(n, 2000))),
        rows in proptest::sample::select(vec![0usize, 100, 1 << 20]),
        entries_max in proptest::sample::select(vec![0usize, 50, 1 << 20]),
    ) {
        prop_assume!(keys.iter().any(Option::is_some));
        check(&keys, &column, (rows, entries_max))?;
    }
}

#[test]
fn many_far_keys_are_marked_in_a_dictionary() {
    let keys: Vec<Option<i64>> = (0..30_000).map(|i| Some(hashed(i))).collect();
    // Each value four times, a quarter of them keys.
    let column: Vec<Option<i64>> = (0..480_000).map(|i| (i % 100 != 99).then(|| hashed(i * 7 % 120_000))).collect();
    for limits in [(480_000, 1 << 20), (1000, 1 << 20), (480_000, 1000)] {
        check(&keys, &column, limits).unwrap();
    }
    let few: Vec<Option<i64>> = (0..100).map(|i| Some(hashed(i * 1000))).collect();
    check(&few, &column, (480_000, 1 << 20)).unwrap();
    check(&few, &column[..300], (300, 1 << 20)).unwrap();
}

#[test]
fn bounds_alone_leave_every_match_in_and_far_granules_out() {
    let rows = 3 * GRANULE_ROWS - 1000;
    let column = stored(&(0..rows as i64).map(|i| Some(i / 100)).collect::<Vec<_>>());
    let coded = column.as_coded().expect("numbers in turn have codes");
    let last = (rows as u32 - 1) / 100;
    for (lo, hi) in [(0, 10), (700, 800), (0, last), (last, last), (GRANULE_ROWS as u32 / 100, 900)] {
        for predicate in [CodePredicate::Range { lo, hi }, CodePredicate::Set(Arc::new(CodeSet::new(lo..=hi)))] {
            let all = vec![u64::MAX; rows.div_ceil(64)];
            let (mut by_bounds, mut by_code) = (all.clone(), all);
            coded.select_by_bounds(0..rows, &predicate, &mut by_bounds);
            coded.select(0..rows, &predicate, &mut by_code);
            assert!(by_code.iter().zip(&by_bounds).all(|(code, bounds)| code & !bounds == 0));
            for granule in 0..3 {
                let words = granule * GRANULE_ROWS / 64..((granule + 1) * GRANULE_ROWS / 64).min(by_code.len());
                let some = |mask: &[u64]| mask[words.clone()].iter().any(|&word| word != 0);
                assert_eq!(some(&by_bounds), some(&by_code), "{lo} {hi} {granule}");
            }
        }
    }
}

#[test]
fn windows_agree_with_looking_at_every_bit() {
    let bits = [0x8000_0000_0000_0001u64, 0xdead_beef_1234_5678, u64::MAX];
    for from in -140..260i64 {
        for len in [1, 31, 32, 33, 64, 65, 200] {
            let words = window_of(&bits, from, len);
            assert_eq!(words.len(), len.div_ceil(32));
            for i in 0..words.len() * 32 {
                let at = from + i as i64;
                let expected = i < len && (0..192).contains(&at) && bits[(at / 64) as usize] >> (at % 64) & 1 == 1;
                assert_eq!(words[i / 32] >> (i % 32) & 1 == 1, expected, "{from} {len} {i}");
            }
        }
    }
}
