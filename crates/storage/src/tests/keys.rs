//! Looking keys up against comparing them with every row.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Float64Array, Int64Array, StringArray};
use proptest::prelude::*;

use super::data::{Random, SHAPES, array, opaque_types, ordered_types};
use super::indexes::{indexed, keys, table_of};
use super::*;

/// Columns a (integers), b (texts), c (floats, all kinds of zeros and NaNs among them), d (wide integers).
fn columns(rows: usize, domain: usize, random: &mut Random) -> Vec<ArrayRef> {
    let mut ints = |factor: i64| -> Vec<Option<i64>> {
        let mut int = || (random.below(20) > 0).then(|| factor.wrapping_mul(random.below(domain) as i64));
        (0..rows).map(|_| int()).collect()
    };
    let special = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5];
    let float = |v: i64| special.get(v as usize).copied().unwrap_or(v as f64 / 3.0);
    vec![
        Arc::new(Int64Array::from(ints(1))),
        cast(&StringArray::from_iter(ints(3).into_iter().map(|v| v.map(|v| format!("text {v}")))), &DataType::Utf8View)
            .unwrap(),
        Arc::new(Float64Array::from_iter(ints(1).into_iter().map(|v| v.map(float)))),
        Arc::new(Int64Array::from(ints(0x1234_5678_9abc_def1))),
    ]
}

fn schema() -> SchemaRef {
    let types = [("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Float64), ("d", DataType::Int64)];
    Arc::new(Schema::new(types.map(|(name, t)| Field::new(name, t, true)).to_vec()))
}

fn find(table: &TableVersion, key: &[usize], wanted: &Keys) -> Vec<Option<RowPlace>> {
    wanted.find(table, key, &|| false, &Threads).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn keys_are_found_where_comparing_all_rows_finds_them(
        seed in any::<u64>(),
        sizes in proptest::collection::vec(0usize..40, 0..5),
        wanted in 0usize..60,
        domain in 2usize..300,
    ) {
        let mut random = Random::new(seed);
        let loads: Vec<_> = sizes.iter().map(|&rows| columns(rows, domain, &mut random)).collect();
        let mut table = table_of(&schema(), &loads);
        for segment in 0..table.parts.first().map_or(0, |part| part.segments.len()) {
            let rows = table.parts[0].segments[segment].segment.rows() as u32;
            let gone: Vec<u32> = (0..rows).filter(|_| random.below(3) == 0).collect();
            let delete = RowsToDelete { part: 0, segment, rows: gone };
            table = table.with_deleted(&[delete], &Allocator::unplaced()).unwrap();
        }
        let wanted = columns(wanted, domain, &mut random);
        let written = table_of(&schema(), std::slice::from_ref(&wanted));
        for key in [vec![0], vec![1], vec![2], vec![3], vec![1, 2], vec![0, 3], vec![2, 1, 0]] {
            let there = keys(&table, &key);
            let ours: Vec<_> = keys(&written, &key).into_iter().map(|(_, _, key)| key).collect();
            let places = |of: &Option<Vec<String>>| -> Vec<RowPlace> {
                let same = there.iter().filter(|(_, _, key)| of.is_some() && key == of);
                same.map(|&(segment, row, _)| RowPlace { segment: segment as u32, row }).collect()
            };
            let expected: Vec<Vec<RowPlace>> = ours.iter().map(places).collect();
            let values: Vec<ArrayRef> = key.iter().map(|&column| wanted[column].clone()).collect();
            let looked_up = Keys::new(&values).unwrap();
            for indexes in [&[][..], &key[..1], &key[key.len() - 1..], &key[..]] {
                let found = find(&indexed(&table, indexes), &key, &looked_up);
                prop_assert_eq!(found.len(), expected.len());
                for (found, places) in found.iter().zip(&expected) {
                    let is_right = found.map_or(places.is_empty(), |found| places.contains(&found));
                    prop_assert!(is_right, "{:?} {:?}: {:?} of {:?}", key, indexes, found, places);
                }
            }
            let first = |of: &Option<Vec<String>>| {
                ours.iter().position(|key| of.is_some() && key == of).map(|first| first as u32)
            };
            let firsts: Vec<Option<u32>> = ours.iter().map(first).collect();
            prop_assert_eq!(looked_up.first_equal(), &firsts[..]);
            prop_assert_eq!(looked_up.len(), ours.len());
            let all: Vec<ArrayRef> = table.segments().next().map_or(Vec::new(), |version| {
                key.iter().map(|&column| version.segment.column(column).slice(0..version.segment.rows())).collect()
            });
            let every: Vec<usize> = (0..key.len()).collect();
            if !all.is_empty() {
                let rows: Vec<Option<Vec<String>>> =
                    keys(&table_of(&schema_of_key(&key), std::slice::from_ref(&all)), &every)
                        .into_iter().map(|(_, _, key)| key).collect();
                prop_assert_eq!(looked_up.equal_to(&all).unwrap(), rows.iter().map(first).collect::<Vec<_>>());
            }
        }
    }
}

fn schema_of_key(key: &[usize]) -> SchemaRef {
    Arc::new(schema().project(key).unwrap())
}

#[test]
fn keys_of_every_type_are_found() {
    for (number, t) in ordered_types().into_iter().enumerate() {
        for (shape_number, shape) in SHAPES.into_iter().enumerate() {
            let mut random = Random::new((100 * number + shape_number) as u64);
            let loads: Vec<Vec<ArrayRef>> = (0..3).map(|_| vec![array(&t, shape, 60, 7, &mut random)]).collect();
            let table = indexed(&table_of(&schema_of(&t), &loads), &[0]);
            let there: Vec<ArrayRef> =
                table.segments().map(|s| s.segment.column(0).slice(0..s.segment.rows())).collect();
            let there: Vec<&dyn Array> = there.iter().map(|values| values.as_ref()).collect();
            let values = concat(&there).unwrap();
            let looked_up = Keys::new(std::slice::from_ref(&values)).unwrap();
            for (row, found) in find(&table, &[0], &looked_up).into_iter().enumerate() {
                assert_eq!(found.is_none(), values.is_null(row), "{t} {shape:?} {row}");
                let Some(found) = found else { continue };
                let version = table.segments().nth(found.segment as usize).unwrap();
                let there = version.segment.column(0).take(&[found.row]);
                assert_eq!(looked_up.equal_to(&[there]).unwrap(), [looked_up.first_equal()[row]], "{t} {shape:?}");
            }
        }
    }
}

/// Every key has half of the rows for candidates: they are looked through.
#[test]
fn a_value_that_is_everywhere_is_not_looked_up() {
    let rows = 100_000_i64;
    let schema = Arc::new(Schema::new(vec![
        Field::new("often", DataType::Int64, true),
        Field::new("once", DataType::Int64, true),
    ]));
    let often: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..rows).map(|i| if i % 2 == 0 { 7 } else { rows + i })));
    let once: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 7919 % rows)));
    let table = indexed(&table_of(&schema, &[vec![often.clone(), once.clone()]]), &[0]);
    let mixed: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values((0..rows).map(|_| 7))), once.clone()];
    let looked_up = Keys::new(&mixed).unwrap();
    let asked = AtomicUsize::new(0);
    let is_stopped = || asked.fetch_add(1, Ordering::Relaxed) == usize::MAX;
    let found = looked_up.find(&table, &[0, 1], &is_stopped, &Threads).unwrap();
    for (row, found) in found.into_iter().enumerate() {
        assert_eq!(found, (row % 2 == 0).then_some(RowPlace { segment: 0, row: row as u32 }));
    }
    assert!(asked.into_inner() > 20, "it can be stopped");
    let stopped = looked_up.find(&table, &[0, 1], &|| true, &Threads);
    assert!(matches!(stopped, Err(StoreError::Interrupted(Interruption::Cancelled))));
    let cancelled = looked_up.find(&table, &[0, 1], &|| false, &Cancelling(Mutex::new(0)));
    assert!(matches!(cancelled, Err(StoreError::Interrupted(_))));
    // One key of that value is looked up, and its candidates are tested.
    let one = Keys::new(&mixed.iter().map(|column| column.slice(500, 1)).collect::<Vec<_>>()).unwrap();
    assert_eq!(find(&table, &[0, 1], &one), [Some(RowPlace { segment: 0, row: 500 })]);
}

#[test]
fn keys_that_cannot_be_looked_up_are_named() {
    let error = Keys::new(&[array(&opaque_types()[4], SHAPES[5], 3, 0, &mut Random::new(1))]).err().unwrap();
    assert!(error.to_string().contains("of type List"), "{error}");
    assert!(Keys::new(&[]).is_err());
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let table = table_of(&schema(), &[columns(10, 5, &mut Random::new(2))]);
    let one = Keys::new(std::slice::from_ref(&ints)).unwrap();
    assert!(!one.is_empty());
    assert!(matches!(one.find(&table, &[1], &|| false, &Serial), Err(StoreError::NotComparable { .. })));
    assert!(matches!(one.find(&table, &[9], &|| false, &Serial), Err(StoreError::NotThere { .. })));
    assert!(matches!(one.find(&table, &[0, 3], &|| false, &Serial), Err(StoreError::ColumnCount { .. })));
    assert!(matches!(one.equal_to(&[]), Err(StoreError::ColumnCount { .. })));
}
