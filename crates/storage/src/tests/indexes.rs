//! Indexes against looking at every row.

use std::collections::HashMap;
use std::ops::Bound;

use arrow::array::{Float64Array, Int64Array, Scalar, StringArray, UInt32Array};
use arrow::compute::kernels::cmp;
use proptest::prelude::*;

use super::data::{Random, SHAPES, Shape, array, opaque_types, ordered_types};
use super::*;

pub(super) fn table_of(schema: &SchemaRef, loads: &[Vec<ArrayRef>]) -> TableVersion {
    let mut table = TableVersion::empty(schema);
    for columns in loads {
        let mut stager = Stager::new(Arc::clone(schema), Allocator::unplaced());
        stager.append(&batch_of(schema, columns.clone(), columns[0].len())).unwrap();
        let allocators = vec![ColumnAllocator::unplaced(); columns.len()];
        let part = build_part(schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        table = table.with_appended(part);
    }
    table
}

pub(super) fn indexed(table: &TableVersion, columns: &[usize]) -> TableVersion {
    table.with_indexes(columns, &|_, _| ColumnAllocator::unplaced(), &Threads).unwrap()
}

type Ends<'a> = (Bound<&'a dyn Array>, Bound<&'a dyn Array>);

fn scalar(value: &dyn Array) -> Scalar<ArrayRef> {
    Scalar::new(arrow::array::make_array(value.to_data()))
}

/// The rows between two bounds, by comparing every value as arrow does.
fn twin(values: &ArrayRef, (from, to): Ends<'_>) -> Vec<u32> {
    let test = |bound: Bound<&dyn Array>, lower: bool| {
        let passes = match (bound, lower) {
            (Bound::Included(v), true) => cmp::gt_eq(values, &scalar(v)),
            (Bound::Excluded(v), true) => cmp::gt(values, &scalar(v)),
            (Bound::Included(v), false) => cmp::lt_eq(values, &scalar(v)),
            (Bound::Excluded(v), false) => cmp::lt(values, &scalar(v)),
            (Bound::Unbounded, _) => return (0..values.len()).map(|i| values.is_valid(i)).collect(),
        };
        passes.unwrap().iter().map(|p| p == Some(true)).collect::<Vec<bool>>()
    };
    let above = test(from, true);
    let below = test(to, false);
    (0..values.len()).filter(|&row| above[row] && below[row]).map(|row| row as u32).collect()
}

fn check_look_ups(segment: &Segment, column: usize, probes: &ArrayRef, random: &mut Random, what: &str) {
    let stored = segment.column(column);
    let index = segment.index(column).expect("an index");
    let values = stored.slice(0..segment.rows());
    let all = index.rows_at(index.order_between(stored, Bound::Unbounded, Bound::Unbounded).unwrap());
    assert_eq!((all.len(), index.rows()), (values.len() - values.logical_null_count(), all.len()), "{what}");
    if values.len() <= 2000 {
        let order = arrow::compute::sort_to_indices(&values, None, None).unwrap();
        let sorted = take(&values, &order, None).unwrap();
        let runs = arrow::compute::partition(std::slice::from_ref(&sorted)).unwrap().ranges();
        let runs = runs.into_iter().filter(|run| sorted.is_valid(run.start)).count();
        assert_eq!((index.distinct(), index.is_unique()), (runs, runs == all.len()), "{what}");
    }
    let rounds = if values.len() > 100_000 { 2 } else { 6 };
    for _ in 0..rounds {
        let mut pick = || probes.slice(random.below(probes.len()), 1);
        let a = pick();
        let b = pick();
        if a.is_null(0) || b.is_null(0) {
            continue;
        }
        let (a, b): (&dyn Array, &dyn Array) = (a.as_ref(), b.as_ref());
        let ends: [Ends<'_>; 5] = [
            (Bound::Included(a), Bound::Included(a)),
            (Bound::Included(a), Bound::Excluded(b)),
            (Bound::Excluded(a), Bound::Included(b)),
            (Bound::Unbounded, Bound::Excluded(a)),
            (Bound::Excluded(a), Bound::Unbounded),
        ];
        for (number, ends) in ends.into_iter().enumerate() {
            let found = index.rows_at(index.order_between(stored, ends.0, ends.1).unwrap());
            let mut rows: Vec<u32> = found.iter().collect();
            assert_eq!(rows.len(), found.len());
            if number == 0 {
                assert!(rows.is_sorted(), "{what}: rows of one value ascend");
            }
            rows.sort_unstable();
            assert_eq!(rows, twin(&values, ends), "{what} {:?} {ends:?}", index.kind());
        }
    }
    if let Some(coded) = stored.as_coded() {
        let mut codes = Vec::new();
        coded.unpack(0..segment.rows(), &mut codes);
        for _ in 0..rounds {
            let most = coded.dictionary().len() as u32 + 2;
            let from = random.next_u64() as u32 % most;
            let to = random.next_u64() as u32 % most;
            let mut rows: Vec<u32> = index.rows_of_codes(coded, from..to).iter().collect();
            rows.sort_unstable();
            let passes = |code: u32| (from..to).contains(&code) && (code > 0 || !coded.null_code());
            let expected = (0..codes.len() as u32).filter(|&row| passes(codes[row as usize]));
            assert_eq!(rows, expected.collect::<Vec<_>>(), "{what} codes {from}..{to}");
        }
    }
}

/// Keys that ascend evenly, with gaps, ever faster, in few places or several times.
#[test]
fn ascending_keys_are_found_however_they_are_spread() {
    let mut random = Random::new(11);
    for rows in [1_usize, 2, 65, 3000, 70_000] {
        let mut gaps = 0;
        let shapes: [Vec<i64>; 6] = [
            (0..rows as i64).collect(),
            (0..rows as i64)
                .map(|row| {
                    gaps += random.pick(&[1, 1, 1, 5]);
                    row + gaps
                })
                .collect(),
            (0..rows as i64).map(|row| row * row).collect(),
            (0..rows as i64)
                .map(|row| if row % 1000 == 999 { 1 << 40 } else { 1 } + (row << 20))
                .scan(0, |sum, step| {
                    *sum += step;
                    Some(*sum)
                })
                .collect(),
            (0..rows as i64).map(|row| row / 3).collect(),
            (0..rows as i64).map(|row| if row < rows as i64 / 2 { row } else { 1 << 33 }).collect(),
        ];
        for (shape, values) in shapes.into_iter().enumerate() {
            let what = format!("shape {shape}, {rows} rows");
            let values: ArrayRef = Arc::new(Int64Array::from(values));
            let table = indexed(&table_of(&schema_of(values.data_type()), &[vec![values]]), &[0]);
            let segment = &table.segments().next().unwrap().segment;
            let index = segment.index(0).unwrap();
            assert_eq!(index.kind(), IndexKind::Ascending, "{what}");
            let Some(coded) = segment.column(0).as_coded() else { continue };
            let mut codes = Vec::new();
            coded.unpack(0..rows, &mut codes);
            let before = |code: u32| codes.partition_point(|&here| here < code) as u32;
            let last = coded.dictionary().len() as u32;
            for number in 0..last.min(4000) {
                let code = if last <= 4000 { number } else { random.next_u64() as u32 % (last + 2) };
                for end in [code + 1, code + 1 + random.next_u64() as u32 % last] {
                    let expected = IndexRows::Range(before(code)..before(end).max(before(code)));
                    assert_eq!(index.rows_of_codes(coded, code..end), expected, "{what}: codes {code}..{end}");
                }
            }
        }
    }
}

#[test]
fn look_ups_agree_with_scans_for_every_type_and_shape() {
    let mut kinds: HashMap<String, usize> = HashMap::new();
    for (number, t) in ordered_types().into_iter().enumerate() {
        for (shape_number, shape) in SHAPES.into_iter().enumerate() {
            for (case, (rows, null_every)) in
                [(1, 0), (700, 0), (900, 3), (67_000, 0), (67_000, 9)].into_iter().enumerate()
            {
                let anything = matches!(shape, Shape::Anything) && number % 3 == 0;
                if rows > 1000 && !anything && (number + shape_number) % 12 > 0 {
                    continue;
                }
                let mut random = Random::new((1000 * number + 10 * shape_number + case) as u64);
                let first = array(&t, shape, rows, null_every, &mut random);
                let order = arrow::compute::sort_to_indices(&first, None, None).unwrap();
                let ascending = take(&first, &order, None).unwrap();
                let others = array(&t, Shape::Anything, 50, 0, &mut random);
                let table = table_of(&schema_of(&t), &[vec![first], vec![ascending], vec![others.clone()]]);
                let table = indexed(&table, &[0]);
                let what = format!("{t} {shape:?} {rows} {null_every}");
                let segments: Vec<&SegmentVersion> = table.segments().collect();
                let mut probes: Vec<ArrayRef> = segments.iter().map(|s| s.segment.column(0).slice(0..1)).collect();
                probes.push(segments[0].segment.column(0).slice(0..rows.min(300)));
                probes.push(segments[2].segment.column(0).slice(0..50));
                let probes: Vec<&dyn Array> = probes.iter().map(|p| p.as_ref()).collect();
                let probes = concat(&probes).unwrap();
                for version in &segments {
                    let kind = version.segment.index(0).unwrap().kind();
                    *kinds.entry(format!("{kind:?} {}", version.segment.column(0).bits().is_some())).or_default() += 1;
                    check_look_ups(&version.segment, 0, &probes, &mut random, &what);
                }
                if null_every == 0 && !matches!(shape, Shape::AllNull) {
                    let (kind, bytes) = segments[1].segment.index(0).map(|i| (i.kind(), i.bytes())).unwrap();
                    assert_eq!((kind, bytes), (IndexKind::Ascending, 0), "{what}");
                }
            }
        }
    }
    for kind in ["Ascending true", "Ascending false", "Positions true", "Permutation false", "Permutation true"] {
        assert!(kinds.get(kind).is_some_and(|&count| count > 5), "{kind} of {kinds:?}");
    }
}

/// Several lots: each is sorted by a task of its own.
#[test]
fn large_segments_are_sorted_in_lots() {
    let rows = 1_200_000i64;
    let spread = |i: i64| i.wrapping_mul(7_368_787) % rows;
    let schema = Arc::new(Schema::new(vec![
        Field::new("permuted", DataType::Int64, false),
        Field::new("repeated", DataType::Int64, true),
        Field::new("gaps", DataType::Int64, false),
        Field::new("wide", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
        Field::new("skewed", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(spread))),
        Arc::new(Int64Array::from_iter((0..rows).map(|i| (i % 7 != 3).then_some(spread(i) / 5)))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|i| spread(i) * spread(i) % 9_000_000))),
        Arc::new(Int64Array::from_iter_values(
            (0..rows).map(|i| spread(i).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64)),
        )),
        Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("Customer#{:09}", spread(i))))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|i| if i % 3 == 0 { spread(i) } else { 77 }))),
    ];
    let table = indexed(&table_of(&schema, &[columns]), &[0, 1, 2, 3, 4, 5]);
    let segment = &table.segments().next().unwrap().segment;
    let of = |column: usize| segment.index(column).unwrap();
    use IndexKind::{Permutation, Positions};
    let kinds = [Positions, Positions, Permutation, Permutation, Permutation, Positions];
    assert_eq!([0, 1, 2, 3, 4, 5].map(|c| of(c).kind()), kinds);
    assert_eq!([0, 3, 4].map(|c| (of(c).is_unique(), of(c).distinct())), [(true, rows as usize); 3]);
    assert_eq!(of(0).bytes(), 4 * rows as usize, "where each code occurs once there are no offsets");
    let mut random = Random::new(5);
    for column in 0..6 {
        let probes = segment.column(column).take(&(0..8).map(|i| i * 140_000 + i).collect::<Vec<u32>>());
        check_look_ups(segment, column, &probes, &mut random, schema.field(column).name());
    }
}

#[test]
fn versions_carry_indexes_along() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("list", opaque_types()[4].clone(), true),
    ]));
    let mut random = Random::new(8);
    let mut load = |from: i64, rows: i64| {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((from..from + rows).map(|i| i ^ 5)));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("name {}", i % 10))));
        vec![ids, names, array(&opaque_types()[4], Shape::Anything, rows as usize, 0, &mut random)]
    };
    let plain = table_of(&schema, &[load(0, 5000), load(5000, 70)]);
    let table = indexed(&plain, &[0, 1]);
    assert_eq!((table.version, table.rows()), (plain.version, plain.rows()));
    let own: usize = table.segments().flat_map(|s| [0, 1].map(|c| s.segment.index(c).unwrap().bytes())).sum();
    assert!(own > 0 && table.bytes() == plain.bytes() + own);
    let has = |table: &TableVersion| -> Vec<Vec<usize>> {
        let of =
            |s: &SegmentVersion| (0..s.segment.columns().len()).filter(|&c| s.segment.index(c).is_some()).collect();
        table.segments().map(of).collect()
    };
    let still_right = |table: &TableVersion| {
        for version in table.segments() {
            for column in (0..version.segment.columns().len()).filter(|&c| version.segment.index(c).is_some()) {
                let probes = version.segment.column(column).slice(0..version.segment.rows().min(50));
                check_look_ups(&version.segment, column, &probes, &mut Random::new(3), "carried");
            }
        }
    };
    assert_eq!(has(&table), [[0, 1], [0, 1]]);
    // What is there is shared, what is not wanted goes, what is missing comes.
    let fewer = indexed(&table, &[1]);
    assert_eq!(has(&fewer), [[1], [1]]);
    for (a, b) in fewer.segments().zip(table.segments()) {
        assert!(Arc::ptr_eq(a.segment.index(1).unwrap(), b.segment.index(1).unwrap()));
    }
    for (a, b) in indexed(&table, &[1, 0]).segments().zip(table.segments()) {
        assert!(Arc::ptr_eq(&a.segment, &b.segment));
    }
    let appended = table.with_appended(table_of(&schema, &[load(9000, 30)]).parts[0].as_ref().clone());
    assert_eq!(has(&appended), [vec![0, 1], vec![0, 1], vec![]]);
    assert_eq!(has(&indexed(&appended, &[0, 1])), [[0, 1]; 3]);

    let value = StringArray::from(vec!["Cork"]);
    let wider = table
        .with_column_added(&Field::new("city", DataType::Utf8, false), Some(&value), &|_| ColumnAllocator::unplaced());
    assert_eq!(has(&wider.unwrap()), [[0, 1], [0, 1]]);
    let dropped = table.with_column_dropped(0).unwrap();
    assert_eq!(has(&dropped), [[0], [0]]);
    still_right(&dropped);
    assert_eq!(has(&table.with_column_renamed(0, "key").unwrap()), [[0, 1], [0, 1]]);
    let numbered = table.with_row_ids("row");
    assert_eq!(has(&numbered), [[0, 1], [0, 1]]);
    still_right(&numbered);
    let rows = RowsToDelete { part: 0, segment: 0, rows: vec![3, 4, 4000] };
    assert_eq!(has(&table.with_deleted(&[rows], &Allocator::unplaced()).unwrap()), [[0, 1], [0, 1]]);

    let on_node = Some(ColumnPlacement::one(NodeId(0)));
    let wishes = [on_node.clone(), on_node, None];
    let (placed, report) = place(&table, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
    assert_eq!(has(&placed), [[0, 1], [0, 1]]);
    assert!(report.moved_bytes + report.copied_bytes + report.already_bytes + report.stuck_bytes >= own as u64);
    still_right(&placed);
    let everywhere = Some(ColumnPlacement::replicated(vec![NodeId(0), NodeId(1)]));
    let wishes = [everywhere.clone(), everywhere, None];
    let (copied, _) = place(&table, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
    still_right(&copied);
    let first = |table: &TableVersion| table.segments().next().unwrap().segment.index(0).unwrap().bytes();
    assert_eq!(first(&copied), 2 * first(&table));
    assert_eq!(first(&table), first(&indexed(&plain, &[0])), "the old version keeps one copy");

    let segments: Vec<SegmentVersion> = table.segments().cloned().collect();
    let merged = compact(&table.schema, &segments, &vec![ColumnAllocator::unplaced(); 3], &Serial).unwrap();
    let merged = table.with_replaced(0, 0..2, merged).unwrap();
    assert_eq!((has(&merged), merged.rows()), (vec![vec![]], 5070));
    still_right(&indexed(&merged, &[0, 1]));
}

#[test]
fn what_cannot_be_indexed_is_named() {
    let table = TableVersion::empty(&schema_of(&opaque_types()[4]));
    let error = table.with_indexes(&[0], &|_, _| ColumnAllocator::unplaced(), &Serial).unwrap_err();
    assert!(error.to_string().starts_with("column \"c\" is of type List"), "{error}");
    let error = table.with_indexes(&[1], &|_, _| ColumnAllocator::unplaced(), &Serial).unwrap_err();
    assert_eq!(error.to_string(), "there is no column 1, only 1");
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let table = table_of(
        &schema_of(&DataType::Int64),
        &[vec![take(&ids, &UInt32Array::from_iter_values((0..100_000).rev()), None).unwrap()]],
    );
    assert!(matches!(duplicate_key(&table, &[0], &|_| true, KeyLimits::NONE, &Serial), Err(StoreError::NoIndex)));
    let budget = numa::Budget::new("small", 100_000);
    let small = |_: usize, _: usize| ColumnAllocator::local(Allocator::new(numa::Policy::Local, budget.clone()));
    assert!(matches!(table.with_indexes(&[0], &small, &Serial), Err(StoreError::Memory(_))));
    assert_eq!(budget.used_bytes(), 0);
    let error = table.with_indexes(&[0], &|_, _| ColumnAllocator::unplaced(), &Cancelling(Mutex::new(1))).unwrap_err();
    assert!(matches!(error, StoreError::Interrupted(_)));
}

#[test]
fn checks_of_keys_end_where_a_value_is_everywhere() {
    // A look-up of `a` finds half of the rows for half of the rows; `b` has no index.
    let rows = 200_000_i64;
    let schema =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
    let often: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| if i % 2 == 0 { 7 } else { i })));
    let once: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 7919 % rows)));
    let table = indexed(&table_of(&schema, &[vec![often, once]]), &[0]);
    let check = |limits: KeyLimits<'_>| duplicate_key(&table, &[0, 1], &|_| true, limits, &Threads);
    let few = KeyLimits { candidates_max: 100_000, ..KeyLimits::NONE };
    assert_eq!(check(few).unwrap(), KeyCheck::TooMany);
    // Two equal keys: they are found, or there was too much to look at, but they are never called unique.
    let twice: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| (i + 2) % (rows - 1))));
    let often: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| 7)));
    let doubled = indexed(&table_of(&schema, &[vec![often, twice]]), &[0]);
    for candidates_max in [0, 10_000, 1_000_000] {
        let limits = KeyLimits { candidates_max, ..KeyLimits::NONE };
        let found = duplicate_key(&doubled, &[0, 1], &|_| true, limits, &Threads).unwrap();
        assert_ne!(found, KeyCheck::Unique, "{candidates_max}");
    }
    // TRUE once is enough.
    let once = std::sync::atomic::AtomicBool::new(true);
    let is_stopped = || once.swap(false, std::sync::atomic::Ordering::Relaxed);
    let stopped = KeyLimits { is_stopped: &is_stopped, ..KeyLimits::NONE };
    assert!(matches!(check(stopped), Err(StoreError::Interrupted(_))));
    let looks = std::sync::atomic::AtomicUsize::new(0);
    let is_stopped = || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 10;
    let stopped = KeyLimits { is_stopped: &is_stopped, ..KeyLimits::NONE };
    assert!(matches!(check(stopped), Err(StoreError::Interrupted(_))));
    assert!(looks.into_inner() < 10_000);
}

/// Keys of live rows, `None` where a column is NULL, as SQL compares them.
pub(super) fn keys(table: &TableVersion, key: &[usize]) -> Vec<(usize, u32, Option<Vec<String>>)> {
    let mut keys = Vec::new();
    for (s, version) in table.segments().enumerate() {
        let columns: Vec<ArrayRef> =
            key.iter().map(|&c| version.segment.column(c).slice(0..version.segment.rows())).collect();
        for row in (0..version.segment.rows()).filter(|&row| version.is_live(row)) {
            let text = |column: &ArrayRef| {
                column.is_valid(row).then(|| match column.data_type() {
                    DataType::Float64 => {
                        let v = column.as_primitive::<arrow::datatypes::Float64Type>().value(row);
                        if v.is_nan() { "NaN".into() } else { format!("{:?}", v + 0.0) }
                    }
                    _ => arrow::util::display::array_value_to_string(column, row).unwrap(),
                })
            };
            keys.push((s, row as u32, columns.iter().map(text).collect()));
        }
    }
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn duplicates_agree_with_comparing_all_rows(
        seed in any::<u64>(),
        sizes in proptest::collection::vec(0usize..40, 1..5),
        domain in 5usize..400,
        new in any::<u8>(),
        one_load in any::<bool>(),
    ) {
        let mut random = Random::new(seed);
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("c", DataType::Float64, true),
            Field::new("d", DataType::Int64, true),
        ]));
        let mut load = |rows: usize| -> Vec<ArrayRef> {
            let mut ints = |factor: i64| -> Vec<Option<i64>> {
        let mut int = || (random.below(20) > 0).then(|| factor.wrapping_mul(random.below(domain) as i64));
        (0..rows).map(|_| int()).collect()
    };
            let a = ints(1);
            let b = ints(3);
            let c = ints(1);
            let d = ints(0x1234_5678_9abc_def1);
            let special = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5];
            let float = |v: i64| special.get(v as usize).copied().unwrap_or(v as f64 / 3.0);
            vec![
                Arc::new(Int64Array::from(a)),
                Arc::new(StringArray::from_iter(b.into_iter().map(|v| v.map(|v| format!("text {v}"))))),
                Arc::new(Float64Array::from_iter(c.into_iter().map(|v| v.map(float)))),
                Arc::new(Int64Array::from(d)),
            ]
        };
        let mut table = table_of(&schema, &sizes.iter().map(|&rows| load(rows)).collect::<Vec<_>>());
        if one_load {
            // Segments that share dictionaries.
            let segments: Vec<SegmentVersion> = table.segments().cloned().collect();
            table = table.with_appended(Part { segments });
        }
        let deletes = table.parts.first().map_or(0, |part| part.segments.len());
        for segment in 0..deletes {
            let rows = table.parts[0].segments[segment].segment.rows() as u32;
            let gone: Vec<u32> = (0..rows).filter(|_| random.below(3) == 0).collect();
            let delete = RowsToDelete { part: 0, segment, rows: gone };
            table = table.with_deleted(&[delete], &Allocator::unplaced()).unwrap();
        }
        let is_new = |segment: usize| new >> (segment % 8) & 1 == 1;
        let keys_and_indexes = [
        (vec![0], vec![0]),
        (vec![1], vec![1]),
        (vec![2], vec![2]),
        (vec![3], vec![3]),
        (vec![1, 2], vec![2]),
        (vec![0, 3], vec![0, 3]),
        (vec![2, 1, 0], vec![0, 1, 2]),
    ];
    for (key, indexes) in keys_and_indexes {
            let table = indexed(&table, &indexes);
            let found = duplicate_key(&table, &key, &is_new, KeyLimits::NONE, &Threads).unwrap();
            let all = keys(&table, &key);
            let twice = |one: &(usize, u32, Option<Vec<String>>)| {
                one.2.is_some() && all.iter().any(|other| (other.0, other.1) != (one.0, one.1) && other.2 == one.2)
            };
            let expected = all.iter().filter(|one| is_new(one.0) && twice(one)).map(|one| (one.0, one.1));
        let expected: Vec<(usize, u32)> = expected.collect();
            match found {
                KeyCheck::Duplicate(DuplicateKey { segment, row }) => {
                    prop_assert!(expected.contains(&(segment, row)), "{key:?}");
                }
                KeyCheck::TooMany => prop_assert!(false, "there is no limit"),
                KeyCheck::Unique => prop_assert!(expected.is_empty(), "{:?} {:?}", key, expected),
            }
        }
    }
}
