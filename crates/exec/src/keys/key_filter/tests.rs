use std::collections::HashSet;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use numa::{Allocator, Budget};
use proptest::prelude::*;
use sched::Statement;
use storage::{CodePredicate, CodeSet, Column, ColumnAllocator, GRANULE_ROWS, Serial, Stager, build_part};

use super::codes::window_of;
use super::*;
use crate::tasks::places::{Lookup, Places};

fn with_run<T>(budget: &Arc<Budget>, body: impl FnOnce(&Run<'_>) -> T) -> T {
    let statement = Statement::new(1, budget.clone());
    let places = Places {
        lookup: Lookup::Nowhere,
        options: crate::ScanOptions::default(),
        turn: None,
        morsels_min: usize::MAX,
        attached: None,
    };
    body(&Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &std::sync::Arc::default() })
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
    random::mixed(i) as i64
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
    stored_array(Arc::new(Int64Array::from(values.to_vec())))
}

fn stored_array(array: ArrayRef) -> Arc<Column> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", array.data_type().clone(), true)]));
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
        (keys, column) in proptest::sample::select(vec![60u64, 150, 5000])
            .prop_flat_map(|n| (keys(n, 300), keys(n, 2000))),
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

/// Ids drawn from a domain of 2^32: their dictionary has as many entries, though there are few.
fn far_ids(rows: u64) -> Arc<Column> {
    let column = stored(&(0..rows).map(|i| Some(hashed(i) & 0xffff_ffff)).collect::<Vec<_>>());
    let entries = column.as_coded().expect("four bytes are less than eight").dictionary().len();
    assert!(entries > 1 << 31, "{entries}");
    column
}

#[test]
fn no_set_of_codes_is_larger_than_the_rows_are_worth() {
    let ids = far_ids(40_000);
    let coded = ids.as_coded().unwrap();
    let limits = (40_000, 16 * 40_000);
    let of: [&dyn Fn(u64) -> i64; 2] = [&|i| hashed(i) & 0xffff_ffff, &|i| 1_000_000 + i as i64];
    for key in of {
        for keys in [2, 1000, 5000] {
            let budget = Budget::unlimited();
            with_run(&budget, |run| {
                let keys: Vec<_> = (0..keys).map(|i| Some(key(i))).collect();
                let (filter, _) = filter_of(&keys, run);
                let before = budget.used_bytes();
                let told = filter.on_codes(coded.dictionary(), coded.null_code(), limits, run).unwrap();
                let predicate = told.predicate.as_ref().expect("bounds tell something");
                assert!(!matches!(predicate, CodePredicate::Set(_)), "{predicate:?}");
                assert!(told.values_tell_more && told.charged.is_none());
                assert_eq!(budget.used_bytes(), before);
            });
        }
    }
    // A key that is there alone, and keys that are not, need no set.
    with_run(&Budget::unlimited(), |run| {
        for (keys, codes) in [(vec![Some(i64::MIN), Some(1 << 30)], 1), (vec![Some(i64::MIN), Some(i64::MAX)], 0)] {
            let told = filter_of(&keys, run).0.on_codes(coded.dictionary(), coded.null_code(), limits, run).unwrap();
            match told.predicate {
                Some(CodePredicate::Range { lo, hi }) => assert_eq!((lo, codes), (hi, 1)),
                Some(CodePredicate::Nothing) => assert_eq!(codes, 0),
                other => panic!("{other:?}"),
            }
            assert!(!told.values_tell_more);
        }
    });
}

#[test]
fn sets_of_codes_are_charged_and_bounds_stand_in_for_them() {
    let column: Vec<Option<i64>> = (0..200_000).map(|i| Some(i * 7919 % 100_000)).collect();
    let stored = stored(&column);
    let coded = stored.as_coded().unwrap();
    let limits = (column.len(), 1 << 20);
    let patterns: [(&str, Vec<Option<i64>>); 3] = [
        ("close", (0..30_000).map(|i| Some(2 * i)).collect()),
        ("far", (0..30_000).map(|i| Some(if i == 0 { -1 << 40 } else { 2 * i })).collect()),
        ("few", (0..100).map(|i| Some(if i == 0 { -1 << 40 } else { 900 * i })).collect()),
    ];
    for (name, keys) in patterns {
        let (roomy, tight) = (Budget::unlimited(), Budget::unlimited());
        let (room, none) = with_run(&roomy, |run| {
            let (filter, set) = filter_of(&keys, run);
            let told = |run: &Run<'_>| filter.on_codes(coded.dictionary(), coded.null_code(), limits, run).unwrap();
            let before = roomy.used_bytes();
            let room = told(run);
            assert!(matches!(room.predicate, Some(CodePredicate::Set(_))), "{name}");
            assert_eq!(roomy.used_bytes() - before, 4 * 100_000u64.div_ceil(32), "{name}");
            let taken = tight.reserve(u64::MAX / 2).unwrap();
            let small = tight.child("a small one", Some(40_000));
            let none = with_run(&small, told);
            assert_eq!(small.used_bytes(), 0, "{name}");
            drop(taken);
            let mut codes = Vec::new();
            coded.unpack(0..column.len(), &mut codes);
            for told in [&room, &none] {
                let predicate = told.predicate.as_ref().unwrap();
                let kept = |row: &usize| column[*row].is_some_and(|v| set.contains(&v));
                assert!((0..column.len()).filter(kept).all(|row| predicate.passes(codes[row])), "{name}");
            }
            (room, none)
        });
        assert!(!room.values_tell_more && none.values_tell_more && none.charged.is_none(), "{name}");
        assert!(!matches!(none.predicate, Some(CodePredicate::Set(_))), "{name}");
        drop(room);
        assert_eq!(roomy.used_bytes(), 0, "{name}");
    }
}

#[test]
fn no_room_for_a_filter_fails_nothing() {
    let budget = Budget::new("a test", 4 << 20);
    with_run(&budget, |run| {
        // Bits for all that lies between would take 7.5 MB.
        let (filter, _) = filter_of(&[Some(0), Some(60_000_000)], run);
        assert!(filter.has_integer(0) && filter.has_integer(60_000_000));
        assert!(!filter.has_integer(-1) && !filter.has_integer(60_000_001));
        assert!(budget.used_bytes() < 1000);
        let far: Vec<Option<i64>> = (0..3_000_000).map(|i| Some(20 * i)).collect();
        let (filter, _) = filter_of(&far, run);
        assert!(far.iter().flatten().all(|&key| filter.has_integer(key)));
        assert!(!filter.has_integer(-1) && !filter.has_integer(60_000_001));
        // What helps leaves most of the room to what it helps.
        assert!(budget.used_bytes() <= 1 << 20, "{}", budget.used_bytes());
    });
    assert_eq!(budget.used_bytes(), 0);

    let texts =
        stored_array(Arc::new(StringViewArray::from_iter_values((0..8000).map(|i| format!("text {}", i % 4000)))));
    let dictionary = texts.as_coded().expect("texts that repeat have codes").dictionary().clone();
    let field = Arc::new(Field::new("k", DataType::Utf8View, true));
    let info = ColumnInfo { kind: ColumnKind::Vid(dictionary), ..ColumnInfo::plain(field) };
    let vector = Vector { data: Data::Vid(vec![3, 5]), valid: None };
    for (bytes, made) in [(1000, false), (1 << 20, true)] {
        let filter = |run: &Run<'_>| KeyFilter::of(&info, &vector, false, run).unwrap();
        assert_eq!(with_run(&Budget::new("a test", bytes), |run| filter(run).is_some()), made);
    }
}
