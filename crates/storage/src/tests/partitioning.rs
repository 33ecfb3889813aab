//! Partitioners and repartitioning against row-by-row twins.

use arrow::array::{
    Date32Array, Date64Array, Decimal64Array, Decimal128Array, Float64Array, Int8Array, Int64Array, StringArray,
    UInt32Array, UInt64Array,
};
use arrow::row::{RowConverter, SortField};

use super::data::{Random, SHAPES, Shape, array, opaque_types, ordered_types};
use super::*;

/// A table of one column `c` of this type and a column `n` that numbers the rows; segments with dictionaries of their
/// own and some rows deleted.
fn table(t: &DataType, shape: Shape, sizes: &[usize], random: &mut Random) -> TableVersion {
    let fields = vec![Field::new("c", t.clone(), true), Field::new("n", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields));
    let mut version = TableVersion::empty(&schema);
    let mut first = 0;
    for &rows in sizes {
        let values = array(t, shape, rows, 5, random);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
        let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
        stager.append(&batch_of(&schema, vec![values, numbers], rows)).unwrap();
        let allocators = vec![ColumnAllocator::unplaced(); 2];
        let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        version = version.with_appended(part);
        first += rows as i64;
    }
    for segment in 0..version.parts.first().map_or(0, |part| part.segments.len()) {
        let rows = version.parts[0].segments[segment].segment.rows();
        let rows = (0..rows as u32).filter(|_| random.below(7) == 0).collect();
        let delete = [RowsToDelete { part: 0, segment, rows }];
        version = version.with_deleted(&delete, &Allocator::unplaced()).unwrap();
    }
    version
}

/// The live rows, as one batch.
fn live(version: &TableVersion) -> RecordBatch {
    let schema = Arc::new(surface_schema(&version.schema));
    let batches: Vec<RecordBatch> = version.segments().map(|v| live_of(&schema, v)).collect();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

fn live_of(schema: &SchemaRef, version: &SegmentVersion) -> RecordBatch {
    let rows: Vec<u32> = (0..version.segment.rows() as u32).filter(|&row| version.is_live(row as usize)).collect();
    let columns = version.segment.columns().map(|column| column.take(&rows)).collect();
    batch_of(schema, columns, rows.len())
}

/// The parts that the rows of `all` go to, one row at a time.
fn expected_parts(all: &RecordBatch, partitioner: &Partitioner) -> Vec<RecordBatch> {
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); partitioner.parts()];
    for row in 0..all.num_rows() {
        let part = partitioner.route(&all.slice(row, 1), row as u64).unwrap()[0];
        rows[part as usize].push(row as u32);
    }
    rows.into_iter().map(|rows| arrow::compute::take_record_batch(all, &UInt32Array::from(rows)).unwrap()).collect()
}

fn check_repartition(version: &TableVersion, partitioner: Option<&Partitioner>, what: &str) {
    let all = live(version);
    let parts = partitioner.map_or(1, Partitioner::parts);
    let allocators: Vec<_> = (0..parts)
        .map(|part| {
            let one = ColumnPlacement::one(NodeId(part as u32 % 4));
            vec![ColumnAllocator::new(one, Allocator::unplaced()); 2]
        })
        .collect();
    let made = repartition(version, partitioner, &allocators, &Threads).unwrap();
    assert_eq!(made.len(), parts, "{what}");
    let expected = match partitioner {
        Some(partitioner) => expected_parts(&all, partitioner),
        None => vec![all],
    };
    let mut dictionaries = std::collections::HashSet::new();
    for (i, (part, expected)) in made.iter().zip(&expected).enumerate() {
        let found = live(&version.with_parts(vec![Arc::clone(part)]));
        assert_eq!(found.num_rows(), expected.num_rows(), "{what}, part {i} of {parts}");
        for (found, expected) in found.columns().iter().zip(expected.columns()) {
            assert_same(found, expected, &format!("{what}, part {i} of {parts}"));
        }
        for segment in &part.segments {
            assert!(segment.deleted.is_none());
            for column in segment.segment.columns().filter_map(|column| column.as_coded()) {
                dictionaries.insert((Arc::as_ptr(column.dictionary()), i));
            }
        }
    }
    let mut owners = std::collections::HashMap::new();
    assert!(
        dictionaries.iter().all(|(dictionary, part)| *owners.entry(*dictionary).or_insert(*part) == *part),
        "{what}"
    );
}

#[test]
fn every_row_is_in_the_part_that_the_rule_says() {
    let mut random = Random::new(51);
    for t in ordered_types() {
        for shape in SHAPES {
            let table = table(&t, shape, &[500, 0, 3, 900], &mut random);
            let parts = [1, 2, 3, 7][random.below(4)];
            let bounds = range_bounds(&table, 0, parts).unwrap();
            assert_eq!((bounds.len(), bounds.null_count()), (parts - 1, 0), "{t} {shape:?}");
            for partitioner in [
                Partitioner::Range { column: 0, bounds },
                Partitioner::Hash { columns: vec![0], parts },
                Partitioner::Hash { columns: vec![1, 0], parts },
                Partitioner::RoundRobin { parts },
            ] {
                check_repartition(&table, Some(&partitioner), &format!("{t} {shape:?} {partitioner:?}"));
            }
        }
    }
}

#[test]
fn ranges_agree_with_comparing_one_by_one() {
    let mut random = Random::new(52);
    for t in ordered_types() {
        for shape in [Shape::FewDistinct, Shape::Steps, Shape::Extremes, Shape::Anything] {
            let table = table(&t, shape, &[700, 800], &mut random);
            let bounds = range_bounds(&table, 0, 5).unwrap();
            let all = live(&table);
            let partitioner = Partitioner::Range { column: 0, bounds: Arc::clone(&bounds) };
            let routes = partitioner.route(&all, 0).unwrap();
            // Arrow's row format sorts as its types do; zeros and NaNs are made equal first.
            let values = canonical(all.column(0));
            let bounds = canonical(&bounds);
            let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]).unwrap();
            let rows = converter.convert_columns(std::slice::from_ref(&values)).unwrap();
            let cuts = converter.convert_columns(&[bounds]).unwrap();
            for (i, route) in routes.iter().enumerate() {
                let mut part = 0;
                if values.is_valid(i) {
                    while part < 4 && rows.row(i) >= cuts.row(part) {
                        part += 1;
                    }
                }
                assert_eq!(*route as usize, part, "{t} {shape:?} row {i}");
            }
        }
    }
}

fn canonical(values: &ArrayRef) -> ArrayRef {
    let float = |value: f64| {
        if value.is_nan() {
            f64::NAN
        } else if value == 0.0 {
            0.0
        } else {
            value
        }
    };
    match values.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let wide = cast(values, &DataType::Float64).unwrap();
            let wide = wide.as_any().downcast_ref::<Float64Array>().unwrap().clone();
            Arc::new(wide.unary::<_, arrow::datatypes::Float64Type>(float))
        }
        _ => Arc::clone(values),
    }
}

#[test]
fn bounds_give_equal_shares() {
    let mut random = Random::new(53);
    let words = DataType::Utf8View;
    for (t, shape) in [(DataType::Int32, Shape::Steps), (DataType::Int64, Shape::Anything), (words, Shape::Anything)] {
        let table = table(&t, shape, &[40_000, 70_000, 30_000], &mut random);
        for parts in [2, 4, 9] {
            let bounds = range_bounds(&table, 0, parts).unwrap();
            let all = live(&table);
            let routes = Partitioner::Range { column: 0, bounds }.route(&all, 0).unwrap();
            let mut counts = vec![0; parts];
            for (row, &part) in routes.iter().enumerate() {
                counts[part as usize] += usize::from(all.column(0).is_valid(row));
            }
            let share = counts.iter().sum::<usize>() / parts;
            assert!(counts.iter().all(|count| count.abs_diff(share) <= share / 10), "{t} {counts:?}");
        }
    }
}

#[test]
fn odd_tables() {
    let mut random = Random::new(54);
    let int = DataType::Int64;
    let hash = |parts| Partitioner::Hash { columns: vec![0], parts };
    // Without a row; more parts than rows; all NULL; a value in every row; no partitioner.
    let empty = TableVersion::empty(&Schema::new(vec![
        Field::new("c", int.clone(), true),
        Field::new("n", int.clone(), false),
    ]));
    check_repartition(&empty, Some(&hash(3)), "empty");
    assert_eq!(range_bounds(&empty, 0, 3).unwrap().len(), 2);
    check_repartition(&table(&int, Shape::Steps, &[5], &mut random), Some(&hash(64)), "few rows");
    for t in [int.clone(), DataType::Utf8, DataType::Float64] {
        let nulls = table(&t, Shape::AllNull, &[300], &mut random);
        let bounds = range_bounds(&nulls, 0, 4).unwrap();
        for partitioner in [Partitioner::Range { column: 0, bounds }, hash(4)] {
            let parts = Partitioner::route(&partitioner, &live(&nulls), 0).unwrap();
            assert!(parts.iter().all(|part| *part == 0));
            check_repartition(&nulls, Some(&partitioner), "all NULL");
        }
        check_repartition(&table(&t, Shape::Constant, &[100, 50], &mut random), Some(&hash(4)), "constant");
        check_repartition(&table(&t, Shape::Anything, &[100, 50], &mut random), None, "one part");
    }
    // Types without an order go with their rows.
    for t in opaque_types() {
        let table = table(&t, Shape::Anything, &[100, 50], &mut random);
        check_repartition(&table, Some(&Partitioner::RoundRobin { parts: 3 }), &format!("{t}"));
    }
}

#[test]
fn several_granules_and_runs() {
    let mut random = Random::new(55);
    let table = table(&DataType::Utf8, Shape::FewDistinct, &[17 * GRANULE_ROWS + 99, 70_000], &mut random);
    let bounds = range_bounds(&table, 0, 3).unwrap();
    let partitioner = Partitioner::Range { column: 0, bounds };
    let allocators = vec![vec![ColumnAllocator::unplaced(); 2]; 3];
    let made = repartition(&table, Some(&partitioner), &allocators, &Threads).unwrap();
    let all = live(&table);
    let routes = partitioner.route(&all, 0).unwrap();
    for (i, part) in made.iter().enumerate() {
        let rows: Vec<u32> = (0u32..).zip(&routes).filter(|(_, part)| **part == i as u32).map(|(row, _)| row).collect();
        let expected = arrow::compute::take_record_batch(&all, &UInt32Array::from(rows)).unwrap();
        let found = live(&table.with_parts(vec![Arc::clone(part)]));
        assert_same(found.column(1), expected.column(1), "numbers");
        assert_same(found.column(0), expected.column(0), "words");
    }
}

#[test]
fn equal_values_of_other_types_go_to_the_same_part() {
    let route = |column: ArrayRef| {
        let schema = schema_of(column.data_type());
        let rows = column.len();
        Partitioner::Hash { columns: vec![0], parts: 1000 }.route(&batch_of(&schema, vec![column], rows), 0).unwrap()
    };
    let small: Vec<i8> = vec![0, 1, -1, 7, 100, -128, 127];
    let wide: Vec<i64> = small.iter().map(|&v| v.into()).collect();
    let of = route(Arc::new(Int64Array::from(wide.clone())));
    assert_eq!(of, route(Arc::new(Int8Array::from(small.clone()))));
    let units = |scale: u32| wide.iter().map(|v| v * 10i64.pow(scale)).collect::<Vec<_>>();
    for scale in [0, 2, 5] {
        let narrow = Decimal64Array::from(units(scale)).with_precision_and_scale(18, scale as i8).unwrap();
        let broad: Vec<i128> = units(scale).into_iter().map(i128::from).collect();
        let broad = Decimal128Array::from(broad).with_precision_and_scale(30, scale as i8).unwrap();
        assert_eq!(of, route(Arc::new(narrow)), "scale {scale}");
        assert_eq!(of, route(Arc::new(broad)), "scale {scale}");
    }
    let unsigned = [0u64, 1, 7, 100, 127];
    let signed: ArrayRef = Arc::new(Int64Array::from_iter_values(unsigned.iter().map(|&v| v as i64)));
    assert_eq!(route(Arc::new(UInt64Array::from(unsigned.to_vec()))), route(signed));
    let days = [0i32, 1, -1, 19_000];
    let ms = Date64Array::from_iter_values(days.iter().map(|&d| i64::from(d) * 86_400_000));
    assert_eq!(route(Arc::new(Date32Array::from(days.to_vec()))), route(Arc::new(ms)));
    let odd_nan = f64::from_bits(0xfff8_0000_dead_beef);
    let floats = route(Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, odd_nan, 1.5, 1.5])));
    assert!(floats[0] == floats[1] && floats[2] == floats[3] && floats[4] == floats[5] && floats[0] != floats[2]);
    let words: ArrayRef = Arc::new(StringArray::from(vec!["", "a", "a longer one, beyond twelve bytes", "a\0"]));
    let as_words = route(cast(&words, &DataType::Utf8View).unwrap());
    for t in [
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
    ] {
        assert_eq!(route(cast(&words, &t).unwrap()), as_words, "{t}");
    }
    assert_ne!(as_words[1], as_words[3]);
    // The very numbers: tables that were partitioned by another build of this program must still fit.
    assert_eq!(&of[..3], &PINNED_NUMBERS);
    assert_eq!(&as_words[..3], &PINNED_WORDS);
}

const PINNED_NUMBERS: [u32; 3] = [923, 541, 3];
const PINNED_WORDS: [u32; 3] = [728, 895, 159];

#[test]
fn hashes_spread_evenly() {
    let rows = 60_000;
    let strided: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i * 4096)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("customer#{i:09}"))));
    for column in [strided, texts] {
        let schema = schema_of(column.data_type());
        for parts in [2usize, 3, 8, 60] {
            let batch = batch_of(&schema, vec![column.clone()], rows as usize);
            let mut counts = vec![0usize; parts];
            for part in (Partitioner::Hash { columns: vec![0], parts }).route(&batch, 0).unwrap() {
                counts[part as usize] += 1;
            }
            let share = rows as usize / parts;
            assert!(counts.iter().all(|count| count.abs_diff(share) < share / 7), "{counts:?}");
        }
    }
}

#[test]
fn rules_that_do_not_fit_are_refused() {
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = batch_of(&schema_of(&DataType::Int64), vec![ints.clone()], 2);
    let says = |partitioner: Partitioner| partitioner.route(&batch, 0).unwrap_err().to_string();
    let range = |bounds: ArrayRef| Partitioner::Range { column: 0, bounds };
    assert_eq!(says(Partitioner::RoundRobin { parts: 0 }), "a table has 1 to 65535 parts, not 0");
    assert_eq!(says(Partitioner::Hash { columns: vec![1], parts: 2 }), "there is no column 1, only 1");
    assert!(says(Partitioner::Hash { columns: vec![], parts: 2 }).contains("name the columns"));
    assert!(says(range(Arc::new(Int64Array::from(vec![2, 1])))).contains("sort them"));
    assert!(says(range(Arc::new(Int64Array::from(vec![None, Some(1)])))).contains("NULL"));
    assert!(says(range(Arc::new(Int8Array::from(vec![1])))).contains("of type Int8, the column of type Int64; cast"));
    let lists = array(&opaque_types()[4], Shape::Anything, 2, 0, &mut Random::new(1));
    let batch = batch_of(&schema_of(lists.data_type()), vec![lists], 2);
    let error = Partitioner::Hash { columns: vec![0], parts: 2 }.route(&batch, 0).unwrap_err();
    assert!(error.to_string().contains("choose a number or text column"), "{error}");
}

#[test]
fn splitting_a_batch_and_appending_its_parts() {
    let mut random = Random::new(56);
    let table = table(&DataType::Int32, Shape::Steps, &[200], &mut random);
    let partitioner = Partitioner::Hash { columns: vec![0], parts: 3 };
    let allocators = vec![vec![ColumnAllocator::unplaced(); 2]; 3];
    let parts = repartition(&table, Some(&partitioner), &allocators, &Serial).unwrap();
    let cut = table.with_parts(parts);
    let batch = live(&table).slice(0, 50);
    let build = |batch: Option<RecordBatch>| {
        let Some(batch) = batch else { return Part::default() };
        let mut stager = Stager::new(batch.schema(), Allocator::unplaced());
        stager.append(&batch).unwrap();
        build_part(&batch.schema(), vec![stager.finish().unwrap()], &allocators[0], &Serial).unwrap()
    };
    let new: Vec<Part> = partitioner.split(&batch, 0).unwrap().into_iter().map(build).collect();
    let grown = cut.with_appended_parts(new.clone());
    assert_eq!((grown.rows(), grown.parts.len()), (cut.rows() + 50, 3));
    for (i, part) in grown.parts.iter().enumerate() {
        let rows = live(&table.with_parts(vec![part.clone()]));
        assert!(partitioner.route(&rows, 0).unwrap().iter().all(|part| *part as usize == i));
    }
    assert_eq!(TableVersion::empty(&table.schema).with_appended_parts(new).parts.len(), 3);
}

#[test]
fn without_memory_nothing_is_left() {
    let mut random = Random::new(57);
    let table = table(&DataType::Utf8, Shape::Anything, &[30_000, 30_000], &mut random);
    let mut refused = 0;
    let mut fitted = 0;
    for shift in 12..28 {
        let budget = numa::Budget::new("test", 1 << shift);
        let allocator = Allocator::new(numa::Policy::Local, Arc::clone(&budget));
        let allocators = vec![vec![ColumnAllocator::local(allocator); 2]; 3];
        let partitioner = Partitioner::Hash { columns: vec![0], parts: 3 };
        match repartition(&table, Some(&partitioner), &allocators, &Threads) {
            Err(StoreError::Memory(_)) => refused += 1,
            Err(other) => panic!("{other}"),
            Ok(parts) => {
                fitted += 1;
                drop(parts);
            }
        }
        assert_eq!(budget.used_bytes(), 0);
    }
    assert!(refused > 3 && fitted > 2, "{refused} {fitted}");
}
