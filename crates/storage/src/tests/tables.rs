//! Table versions, constants and compaction.

use arrow::array::{Int64Array, StringArray, StringViewArray, UInt32Array};

use super::data::{Random, SHAPES, array, opaque_types, ordered_types};
use super::*;
use crate::thinned;

fn people() -> SchemaRef {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)];
    Arc::new(Schema::new(fields))
}

/// A part of the ids `from..to` and their names.
fn part_of(from: i64, to: i64) -> Part {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((from..to).map(|i| format!("name {}", i % 10))));
    let mut stager = Stager::new(people(), Allocator::unplaced());
    stager.append(&batch_of(&people(), vec![ids, names], (to - from) as usize)).unwrap();
    build_part(&people(), vec![stager.finish().unwrap()], &vec![ColumnAllocator::unplaced(); 2], &Serial).unwrap()
}

/// The ids that are not deleted, in row order.
fn ids(table: &TableVersion) -> Vec<i64> {
    let mut ids = Vec::new();
    for version in table.segments() {
        let all = version.segment.column(0).slice(0..version.segment.rows());
        let all = all.as_any().downcast_ref::<Int64Array>().unwrap().clone();
        ids.extend((0..all.len()).filter(|&row| version.is_live(row)).map(|row| all.value(row)));
    }
    ids
}

#[test]
fn versions_leave_their_predecessors_alone() {
    let empty = TableVersion::empty(&people());
    assert_eq!((empty.rows(), empty.bytes(), empty.schema.field(1).data_type()), (0, 0, &DataType::Utf8View));
    let ten = empty.with_appended(part_of(0, 10));
    let twenty = ten.with_appended(part_of(10, 20));
    assert_eq!((ten.rows(), twenty.rows(), twenty.parts.len(), twenty.version), (10, 20, 1, 2));
    let allocator = Allocator::unplaced();
    let delete = |segment, rows: &[u32]| RowsToDelete { part: 0, segment, rows: rows.to_vec() };
    let fewer = twenty.with_deleted(&[delete(1, &[0, 9]), delete(0, &[3]), delete(1, &[0, 5])], &allocator).unwrap();
    assert_eq!(ids(&fewer), [0, 1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18]);
    assert_eq!((fewer.rows(), twenty.rows()), (16, 20));
    assert!(fewer.bytes() > twenty.bytes());
    assert_eq!(fewer.truncated().rows(), 0);
    for bad in [delete(2, &[0]), delete(0, &[10]), RowsToDelete { part: 1, segment: 0, rows: vec![0] }] {
        assert!(matches!(twenty.with_deleted(&[bad], &allocator), Err(StoreError::NotThere { .. })));
    }
}

#[test]
fn columns_come_go_and_change_names() {
    let allocator = ColumnAllocator::unplaced();
    let table =
        TableVersion::empty(&people()).with_appended(part_of(0, 100_000)).with_appended(part_of(100_000, 100_007));
    let city = Field::new("city", DataType::Utf8, false);
    let value = StringArray::from(vec!["Cork"]);
    let wider = table.with_column_added(&city, Some(&value), &|_| allocator.clone()).unwrap();
    assert_eq!(wider.schema.field(2).data_type(), &DataType::Utf8View);
    for version in wider.segments() {
        let rows = version.segment.rows();
        let expected: ArrayRef = Arc::new(StringViewArray::from(vec!["Cork"; rows]));
        assert_same(&version.segment.column(2).slice(0..rows), &expected, "constant");
    }
    assert!(wider.bytes() < table.bytes() + 5000);

    let error = table.with_column_added(&city, None, &|_| allocator.clone()).unwrap_err();
    assert_eq!(error.to_string(), "column \"city\" is NOT NULL, the rows have a NULL there");
    let error = wider.with_column_added(&city, Some(&value), &|_| allocator.clone()).unwrap_err();
    assert_eq!(error.to_string(), "the table already has a column \"city\"");
    let wrong = Field::new("n", DataType::Int64, true);
    assert!(matches!(
        table.with_column_added(&wrong, Some(&value), &|_| allocator.clone()),
        Err(StoreError::NotComparable { .. })
    ));

    let narrower = wider.with_column_dropped(1).unwrap();
    assert_eq!(narrower.schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["id", "city"]);
    assert_eq!(ids(&narrower).len(), 100_007);
    let renamed = narrower.with_column_renamed(1, "town").unwrap();
    assert_eq!(renamed.schema.field(1).name(), "town");
    assert!(renamed.with_column_renamed(1, "town").is_ok());
    assert!(renamed.with_column_renamed(1, "id").is_err() && renamed.with_column_dropped(2).is_err());
    // A table without columns keeps its rows.
    let bare = renamed.with_column_dropped(1).unwrap().with_column_dropped(0).unwrap();
    assert_eq!((bare.rows(), bare.bytes()), (100_007, 0));
}

#[test]
fn constants_of_every_type() {
    let mut random = Random::new(20);
    let allocator = ColumnAllocator::unplaced();
    for t in ordered_types().into_iter().chain(opaque_types()) {
        let value = array(&t, SHAPES[0], 1, 0, &mut random);
        let rows = GRANULE_ROWS + 3;
        let column = constant_column(&t, Some(&value), rows, &allocator).unwrap();
        let surfaced = expected(&t, &[vec![value]]);
        let repeated = take(&surfaced, &UInt32Array::from(vec![0; rows]), None).unwrap();
        check_reads(&column, &repeated, &mut random);
        let column = constant_column(&t, None, rows, &allocator).unwrap();
        check_reads(&column, &arrow::array::new_null_array(&surface_type(&t), rows), &mut random);
        assert_eq!(constant_column(&t, None, 0, &allocator).unwrap().len(), 0);
    }
}

#[test]
fn compacting_keeps_the_live_rows_in_order() {
    let allocator = Allocator::unplaced();
    let mut table = TableVersion::empty(&people());
    for i in 0..12 {
        table = table.with_appended(part_of(i * 1000, (i + 1) * 1000));
    }
    let gone = |segment, rows: Vec<u32>| RowsToDelete { part: 0, segment, rows };
    let table = table.with_deleted(&[gone(3, (0..1000).collect()), gone(7, vec![5, 6])], &allocator).unwrap();
    let before = ids(&table);
    let segments = &table.parts[0].segments[2..9];
    let merged =
        compact(&table.schema, segments, &vec![ColumnAllocator::local(allocator.clone()); 2], &Threads).unwrap();
    assert_eq!(merged.len(), 1);
    let after = table.with_replaced(0, 2..9, merged).unwrap();
    assert_eq!((ids(&after), after.parts[0].segments.len()), (before, 6));
    assert!(after.segments().all(|version| version.deleted.is_none() || version.live_rows() == 998));
    // Nothing left: no segment.
    let segments = &table.parts[0].segments[3..4];
    assert!(compact(&table.schema, segments, &vec![ColumnAllocator::local(allocator); 2], &Serial).unwrap().is_empty());
}

#[test]
fn compacting_cuts_and_joins_large_segments() {
    let mut random = Random::new(21);
    let t = DataType::Utf8View;
    let big = array(&t, SHAPES[2], 17 * GRANULE_ROWS + 5, 9, &mut random);
    let small = array(&t, SHAPES[5], 3000, 9, &mut random);
    let segments: Vec<SegmentVersion> =
        [&big, &small].into_iter().flat_map(|a| load(&t, &[vec![a.clone()]], 8192, &Serial).segments).collect();
    let merged = compact(&schema_of(&t), &segments, &[ColumnAllocator::unplaced()], &Threads).unwrap();
    let expected = expected(&t, &[vec![big, small]]);
    check_reads(&only_column(&Part { segments: merged }), &expected, &mut random);
}

#[test]
fn ten_inserted_rows_never_rewrite_sixty_million() {
    let full = SEGMENT_ROWS_MAX;
    assert_eq!(compaction(&[full, full, full, 12_000_000, 10]), None);
    assert_eq!(compaction(&[full, 10, 10, 10, 10, 10, 10, 10]), None);
    assert_eq!(compaction(&[full, 10, 10, 10, 10, 10, 10, 10, 10]), Some(1..9));
    assert_eq!(compaction(&[full, 10, 0, 10]), Some(2..3));
    assert_eq!(compaction(&[]), None);
}

#[test]
fn a_segment_is_written_anew_when_a_quarter_of_it_is_deleted() {
    assert_eq!(thinned(&[]), None);
    assert_eq!(thinned(&[(100, 100), (0, 1000), (70_000, 90_000)]), None);
    assert_eq!(thinned(&[(100, 100), (67_501, 90_000), (67_500, 90_000), (0, 90_000)]), Some(2));
    assert_eq!(thinned(&[(SEGMENT_ROWS_MAX - (1 << 20), SEGMENT_ROWS_MAX)]), None);
    // Rows die at random and new ones take their place: what is written anew is about three rows for each.
    let (mut live, mut rows, mut rewritten, deaths) = (1 << 20, 1 << 20, 0, 4 << 20);
    for _ in 0..deaths {
        live -= 1;
        if thinned(&[(live, rows)]).is_some() {
            rewritten += live;
            (live, rows) = (1 << 20, 1 << 20);
        }
    }
    assert!(rewritten <= 3 * deaths, "{rewritten}");
}

#[test]
fn single_row_inserts_cost_little_and_leave_few_segments() {
    let mut sizes = Vec::new();
    let mut rewritten = 0usize;
    let mut longest = 0;
    let inserts = 20_000;
    for _ in 0..inserts {
        sizes.push(1);
        while let Some(range) = compaction(&sizes) {
            assert!(range.len() > 1);
            let rows: usize = sizes[range.clone()].iter().sum();
            let largest = sizes[range.clone()].iter().max().unwrap();
            assert!(2 * largest <= rows && rows <= SEGMENT_ROWS_MAX);
            rewritten += rows;
            sizes.splice(range, [rows]);
        }
        longest = longest.max(sizes.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), inserts);
    assert!(rewritten < 12 * inserts, "{rewritten}");
    assert!(longest <= 50, "{longest}");
}
