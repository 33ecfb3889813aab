//! What bad input, a full budget and a cancelled statement do.

use arrow::array::{Int32Array, Int64Array, StringArray};
use numa::{Budget, Policy};

use super::data::{Random, Shape, array};
use super::*;

fn two_columns() -> SchemaRef {
    let fields = vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8, true)];
    Arc::new(Schema::new(fields))
}

#[test]
fn faults_of_a_batch_name_the_column_and_leave_the_stager_usable() {
    let schema = two_columns();
    let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let relaxed =
        |t: DataType| Arc::new(Schema::new(vec![Field::new("id", t, true), Field::new("name", DataType::Utf8, true)]));

    let short = batch_of(&schema_of(&DataType::Int64), vec![ids.clone()], 2);
    let error = stager.append(&short).unwrap_err();
    assert_eq!(error.to_string(), "the rows have 1 columns, the table has 2");

    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let error = stager.append(&batch_of(&relaxed(DataType::Int32), vec![narrow, names.clone()], 2)).unwrap_err();
    assert_eq!(error.to_string(), "column \"id\" is of type Int64, the rows have Int32; cast them to Int64");

    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let error = stager.append(&batch_of(&relaxed(DataType::Int64), vec![nulls, names.clone()], 2)).unwrap_err();
    assert_eq!(error.to_string(), "column \"id\" is NOT NULL, the rows have a NULL there");

    stager.append(&batch_of(&schema, vec![ids, names], 2)).unwrap();
    assert_eq!(stager.rows(), 2);
    let allocators = vec![ColumnAllocator::unplaced(); 2];
    let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    assert_eq!(part.live_rows(), 2);
}

#[test]
fn whatever_the_budget_nothing_stays_reserved() {
    let mut random = Random::new(12);
    let types = [DataType::Int64, DataType::Utf8, DataType::Utf8, DataType::Float64];
    let shapes = [Shape::Steps, Shape::FewDistinct, Shape::Anything, Shape::Anything];
    let schema = Arc::new(Schema::new(
        types.iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true)).collect::<Vec<_>>(),
    ));
    let columns: Vec<ArrayRef> =
        types.iter().zip(shapes).map(|(t, shape)| array(t, shape, 100_000, 6, &mut random)).collect();
    let batch = batch_of(&schema, columns, 100_000);
    let mut failed = 0;
    let mut fitted = 0;
    for shift in 12..28 {
        let budget = Budget::new("test", 1 << shift);
        let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
        let load = || -> Result<Part, StoreError> {
            let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
            stager.append(&batch)?;
            let staged = vec![stager.finish()?];
            build_part(&schema, staged, &vec![ColumnAllocator::local(allocator.clone()); 4], &Threads)
        };
        match load() {
            Err(StoreError::Memory(_)) => failed += 1,
            Err(other) => panic!("{other}"),
            Ok(part) => {
                fitted += 1;
                assert!(budget.used_bytes() > 0);
                drop(part);
            }
        }
        assert_eq!(budget.used_bytes(), 0, "budget of 2^{shift}");
    }
    assert!(failed > 5 && fitted > 0, "{failed} {fitted}");
}

#[test]
fn the_peak_stays_near_what_is_kept() {
    let mut random = Random::new(13);
    let schema: SchemaRef = Arc::new(Schema::new(
        (0..8).map(|i| Field::new(format!("c{i}"), DataType::Utf8View, true)).collect::<Vec<_>>(),
    ));
    let budget = Budget::new("test", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
    let unique = array(&DataType::Utf8View, Shape::Anything, 300_000, 0, &mut random);
    stager.append(&batch_of(&schema, vec![unique; 8], 300_000)).unwrap();
    let part =
        build_part(&schema, vec![stager.finish().unwrap()], &vec![ColumnAllocator::local(allocator); 8], &Serial)
            .unwrap();
    let kept = budget.used_bytes();
    assert!(kept > 50 << 20, "{kept}");
    assert!(budget.peak_bytes() < kept + kept / 5, "peak {} of {kept}", budget.peak_bytes());
    drop(part);
}

#[test]
fn a_cancelled_build_ends_with_an_error_and_frees_everything() {
    let mut random = Random::new(14);
    let array = array(&DataType::Int64, Shape::Steps, 3 * 8 * GRANULE_ROWS, 0, &mut random);
    let schema = schema_of(&DataType::Int64);
    for tasks in 0..3 {
        let budget = Budget::new("test", u64::MAX);
        let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
        let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
        stager.append(&batch_of(&schema, vec![array.clone()], array.len())).unwrap();
        let staged = vec![stager.finish().unwrap()];
        let error = build_part(&schema, staged, &[ColumnAllocator::local(allocator)], &Cancelling(Mutex::new(tasks)))
            .unwrap_err();
        assert!(matches!(error, StoreError::Interrupted(Interruption::Cancelled)), "{error}");
        assert_eq!(budget.used_bytes(), 0);
    }
}
