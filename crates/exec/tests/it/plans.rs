//! Plans as data: what they say of themselves and what they refuse.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{CompareOp, Output, Plan, PlanError, Predicate, Union};
use storage::TableVersion;

use crate::support::{Function, Kind, int, numbers, run, scan};

fn column(column: usize, name: &str, data_type: DataType) -> Output {
    Output::Column { column, field: Arc::new(Field::new(name, data_type, true)) }
}

#[test]
fn explain_reads_from_the_root() {
    let snapshot = numbers(&[vec![Some(1), Some(2)], vec![Some(3)]]);
    let ten: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let filter = Predicate::And(vec![
        Predicate::Compare { column: 0, op: CompareOp::GtEq, value: int(2).into() },
        Predicate::Or(vec![
            Predicate::IsNull { column: 0, negated: true },
            Predicate::Not(Box::new(Predicate::In { column: 0, values: ten, negated: true })),
        ]),
    ]);
    let even = Function::new(Kind::Even, vec![0]);
    let computed = Output::Expression { expression: even, field: Arc::new(Field::new("e", DataType::Boolean, true)) };
    let plan = scan(&snapshot).filter(filter).unwrap();
    let plan = plan.project(vec![column(0, "x", DataType::Int64), column(0, "z", DataType::Int64), computed]).unwrap();
    let text = plan.limit(1, Some(2)).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "Limit: skip=1, fetch=2",
            "  Project: x, x AS z, Even([0]) AS e",
            "    Filter: x >= 2 AND (x IS NOT NULL OR NOT (x NOT IN (0, 1, 2, 3, 4, 5, 6, 7, .. 10 values)))",
            "      Scan: t [x] parts=1 rows=3",
        ]
    );
    let text: ArrayRef = Arc::new(arrow::array::StringViewArray::from(vec!["it's"]));
    let quoted = Predicate::Compare { column: 0, op: CompareOp::Eq, value: text.into() };
    assert_eq!(quoted.describe(&Schema::new(vec![Field::new("s", DataType::Utf8View, true)])), "s = 'it''s'");
}

#[test]
fn what_does_not_fit_is_refused() {
    let snapshot = numbers(&[vec![Some(1)]]);
    let refused = |plan: Result<Plan, PlanError>| plan.expect_err("should be refused").to_string();
    let text = refused(Plan::scan("t", snapshot.clone(), vec![0, 1]));
    assert!(text.contains("scan of t") && text.contains("column 1"), "{text}");
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let compare =
        |column, value: &ArrayRef| Predicate::Compare { column, op: CompareOp::Lt, value: value.clone().into() };
    let text = refused(scan(&snapshot).filter(compare(0, &narrow)));
    assert!(text.contains("Int64") && text.contains("Int32") && text.contains("cast"), "{text}");
    assert!(matches!(scan(&snapshot).filter(compare(9, &int(1))), Err(PlanError::UnknownColumn { column: 9, .. })));
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
    assert!(matches!(scan(&snapshot).filter(compare(0, &null)), Err(PlanError::BadLiteral { .. })));
    let none = Predicate::In { column: 0, values: null, negated: false };
    assert!(matches!(scan(&snapshot).filter(Predicate::Not(Box::new(none))), Err(PlanError::BadLiteral { .. })));
    let wrong = column(0, "x", DataType::Utf8View);
    assert!(matches!(scan(&snapshot).project(vec![wrong]), Err(PlanError::TypeMismatch { .. })));
    let number = Predicate::Boolean(Function::new(Kind::Add(1), vec![0]));
    assert!(matches!(scan(&snapshot).filter(number), Err(PlanError::TypeMismatch { .. })));
    let backwards = Predicate::Boolean(Function::new(Kind::Less, vec![1, 0]));
    assert!(matches!(scan(&snapshot).filter(backwards), Err(PlanError::ColumnsOutOfOrder { .. })));
    let far = Predicate::Boolean(Function::new(Kind::Even, vec![4]));
    assert!(matches!(scan(&snapshot).filter(far), Err(PlanError::UnknownColumn { .. })));
    let list = Schema::new(vec![Field::new_list("l", Field::new_list_field(DataType::Int64, true), true)]);
    let lists = Plan::scan("t", Arc::new(TableVersion::empty(&list)), vec![0]).unwrap();
    assert!(matches!(lists.filter(compare(0, &int(1))), Err(PlanError::NotComparable { .. })));
}

#[test]
fn estimates_follow_what_is_touched() {
    let large = scan(&numbers(&[(0..200_000).map(Some).collect()]));
    let bytes = large.estimated_bytes();
    // 18 bits per code, a bit per row, and eight bytes per value.
    assert!((200_000 * 10..200_000 * 13).contains(&bytes), "{bytes}");
    let first = large.clone().limit(0, Some(10)).estimated_bytes();
    assert!(first < 1000, "{first}");
    let filtered = large.clone().filter(Predicate::IsNull { column: 0, negated: false }).unwrap().limit(0, Some(10));
    assert!(filtered.estimated_bytes() > 400_000);
    let counted = large.project(Vec::new()).unwrap().estimated_bytes();
    assert!(counted < 200_000, "{counted}");
}

#[test]
fn what_is_shared_is_known_by_its_number() {
    let snapshot = numbers(&[(0..100).map(Some).collect()]);
    let function = Function::new(Kind::Truth(Some(true)), vec![]);
    let counted = || scan(&snapshot).filter(Predicate::Boolean(function.clone())).unwrap();
    let union = |left: Plan, right: Plan| {
        let schema = left.schema();
        Plan::Union(Union { inputs: vec![left, right], schema })
    };
    // Two allocations, one number: run once, listed once, estimated alike.
    let one = union(counted().shared(4), counted().shared(4));
    assert_eq!(run(&one).unwrap().num_rows(), 200);
    assert_eq!(function.rows.swap(0, Ordering::Relaxed), 100);
    assert_eq!(one.operators().len(), 5);
    assert_eq!(exec::estimates(&one).iter().count(), 5);
    // Estimates try conditions out on samples.
    function.rows.store(0, Ordering::Relaxed);
    let two = union(counted().shared(4), counted().shared(5));
    assert_eq!(run(&two).unwrap().num_rows(), 200);
    assert_eq!(function.rows(), 200);
    assert_eq!((two.operators().len(), exec::estimates(&two).iter().count()), (7, 7));
}
