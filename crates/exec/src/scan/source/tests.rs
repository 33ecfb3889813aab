use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use numa::{Allocator, Budget};
use sched::Statement;
use storage::{ColumnAllocator, Serial, Stager, build_part};

use super::*;
use crate::chunk::vector::Vector;
use crate::codes::filter::Filter;
use crate::tasks::places::{Lookup, Places};

/// A table of one column, each list a segment with a dictionary of its own.
fn table(segments: &[Vec<i64>]) -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let mut version = TableVersion::empty(&schema);
    for values in segments {
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        let array = Arc::new(Int64Array::from(values.clone()));
        stager.append(&RecordBatch::try_new(schema.clone(), vec![array]).unwrap()).unwrap();
        let allocators = [ColumnAllocator::unplaced()];
        version =
            version.with_appended(build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap());
    }
    Arc::new(version)
}

/// How many tests of codes and of values each segment gets for these keys, and the bytes that the sets of codes take.
fn tests_for(keys: Vec<i64>, segments: &[Vec<i64>]) -> (Vec<(usize, usize)>, u64) {
    let budget = Budget::unlimited();
    let statement = Statement::new(1, budget.clone());
    let places = Places {
        lookup: Lookup::Nowhere,
        options: crate::ScanOptions::default(),
        turn: None,
        morsels_min: usize::MAX,
        attached: None,
    };
    let run = Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &std::sync::Arc::default() };
    let snapshot = table(segments);
    let field = snapshot.schema.fields()[0].clone();
    let (low, high) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
    let info = ColumnInfo::int(field.clone(), low, high, false);
    let filter = Arc::new(KeyFilter::of(&info, &Vector::ints(keys), false, &run).unwrap().unwrap());
    let before = budget.used_bytes();
    let filters = vec![ColumnKeys::new(0, filter)];
    let scan = Scan::new(snapshot.clone(), Filter::new(&[], &snapshot.schema).unwrap(), vec![0], None);
    let infos = column_infos(&snapshot, &[0]);
    let source = ScanSource::new(scan, vec![0], infos, &filters, &run).unwrap();
    (source.tests.iter().map(|t| (t.codes.len(), t.values.len())).collect(), budget.used_bytes() - before)
}

#[test]
fn a_dictionary_is_weighed_against_the_rows_that_share_it() {
    // Each part draws from 50,000 numbers: more than it has rows, fewer than the table has.
    let part = |part: i64| (0..30_000).map(|i| (i * 7919 + part) % 50_000).collect::<Vec<i64>>();
    let parts: Vec<_> = (0..4).map(part).collect();
    // Many keys that are far apart, some of which are there.
    let keys: Vec<i64> = (0..20_000).map(|i| if i % 2 == 0 { i } else { i << 40 }).collect();
    let (tests, bytes) = tests_for(keys.clone(), &parts);
    assert!(tests.iter().all(|&(_, values)| values == 1), "rows are fewer than entries: {tests:?}");
    assert_eq!(bytes, 0);
    // Half as many numbers have a set of codes each.
    let parts: Vec<Vec<i64>> = parts.iter().map(|part| part.iter().map(|v| v / 2).collect()).collect();
    let (tests, bytes) = tests_for(keys, &parts);
    assert_eq!(tests, [(1, 0); 4]);
    assert_eq!(bytes, 4 * 4 * 25_000u64.div_ceil(32));
}
