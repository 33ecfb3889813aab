//! What is evaluated, and how often: per dictionary entry where that is cheaper, never visibly for values that no live
//! row holds, and only for rows that passed what was written before.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type};
use exec::{CompareOp, ExecError, Output, Plan, Predicate};
use numa::Allocator;
use storage::RowsToDelete;

use crate::support::{Function, Kind, column_of_numbers, expected, int, numbers, run, run_default, scan};

fn repeated(values: &[Option<i64>], rows: usize) -> Vec<Option<i64>> {
    (0..rows).map(|i| values[i % values.len()]).collect()
}

fn outputs(function: &Arc<Function>) -> Vec<Output> {
    use exec::Expression;
    let field = Arc::new(Field::new("y", function.data_type().clone(), true));
    vec![Output::Expression { expression: function.clone(), field }]
}

fn compare(op: CompareOp, value: i64) -> Predicate {
    Predicate::Compare { column: 0, op, value: int(value).into() }
}

#[test]
fn an_expression_is_evaluated_once_per_entry() {
    let rows = 150_000;
    let snapshot = numbers(&[repeated(&[Some(3), None, Some(900), Some(7_000_000), Some(12)], rows)]);
    let filter = Function::new(Kind::NullOrThird, vec![0]);
    let value = Function::new(Kind::Add(1), vec![0]);
    let plan = scan(&snapshot).filter(Predicate::Boolean(filter.clone())).unwrap().project(outputs(&value)).unwrap();
    let result = run(&plan).unwrap();
    assert_eq!(result.num_rows(), rows / 5 * 4);
    assert_eq!(filter.rows(), 5, "four values and NULL");
    assert_eq!(value.rows(), 5, "four values and NULL");
    assert_eq!(column_of_numbers(&result)[..4], [Some(4), None, Some(901), Some(13)]);
}

#[test]
fn few_rows_do_not_pay_for_a_large_dictionary() {
    let snapshot = numbers(&[(0..100_000).map(|i| Some(i * i)).collect()]);
    let filter = Function::new(Kind::Even, vec![0]);
    let few = Predicate::And(vec![compare(CompareOp::Lt, 100), Predicate::Boolean(filter.clone())]);
    let plan = scan(&snapshot).filter(few).unwrap();
    assert_eq!(column_of_numbers(&run(&plan).unwrap()), [0, 4, 16, 36, 64].map(Some));
    assert!(filter.rows() <= 10, "evaluated for {} rows", filter.rows());
}

#[test]
fn a_value_that_no_live_row_holds_never_fails() {
    // -7 makes the sum fail; it is in the dictionary, but its rows are deleted.
    let snapshot = numbers(&[repeated(&[Some(1), Some(-7), Some(400), Some(90_000)], 4000)]);
    let rows = (0..4000).filter(|r| r % 4 == 1).collect();
    let deleted = snapshot.with_deleted(&[RowsToDelete { part: 0, segment: 0, rows }], &Allocator::unplaced()).unwrap();
    let value = Function::new(Kind::Add(1), vec![0]);
    let plan = scan(&Arc::new(deleted)).project(outputs(&value)).unwrap();
    let result = run(&plan).unwrap();
    assert_eq!(result, expected(&plan).unwrap());
    assert_eq!(result.num_rows(), 3000);

    let with_the_rows = scan(&snapshot).project(outputs(&value)).unwrap();
    for result in [run(&with_the_rows), run_default(&with_the_rows)] {
        let Err(ExecError::Evaluation(text)) = result else { panic!("expected a failure, got {result:?}") };
        assert_eq!(text, "no sevens below zero");
    }
}

#[test]
fn what_may_fail_sees_only_rows_that_passed_before() {
    let snapshot = numbers(&[repeated(&[Some(0), Some(20), Some(50), None], 70_000)]);
    let divide = Function::new(Kind::Divide, vec![0]);
    let not_zero = compare(CompareOp::NotEq, 0);
    let plan = scan(&snapshot).filter(not_zero.clone()).unwrap().project(outputs(&divide)).unwrap();
    assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());

    // Moody fails on 5, which an expression written before it takes away.
    let snapshot = numbers(&[repeated(&[Some(5), Some(3), Some(4), None, Some(-1)], 70_000)]);
    let (even, moody) = (Function::new(Kind::Even, vec![0]), Function::new(Kind::Moody, vec![0]));
    let guarded = Predicate::And(vec![Predicate::Boolean(even.clone()), Predicate::Boolean(moody.clone())]);
    let plan = scan(&snapshot).filter(guarded).unwrap();
    assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());
    let unguarded = scan(&snapshot).filter(Predicate::Boolean(moody.clone())).unwrap();
    assert!(matches!(run(&unguarded), Err(ExecError::Evaluation(text)) if text == "five"));
    // In an OR, rows that are TRUE already need no second look.
    let either = Predicate::Or(vec![compare(CompareOp::Eq, 5), Predicate::Boolean(moody)]);
    let plan = scan(&snapshot).filter(either).unwrap();
    assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());
}

#[test]
fn what_may_fail_stays_behind_a_part_over_a_computed_column() {
    let snapshot = numbers(&[repeated(&[Some(5), Some(4), None], 70_000)]);
    let even = outputs(&Function::new(Kind::Even, vec![0])).remove(0);
    let x = Output::Column { column: 0, field: Arc::new(Field::new("x", DataType::Int64, true)) };
    let computed = scan(&snapshot).project(vec![x, even]).unwrap();
    let is_true: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let is_even = Predicate::Compare { column: 1, op: CompareOp::Eq, value: is_true.into() };
    // Moody reads a plain column and could move into the scan, where 5 has not been taken away yet.
    let moody = Predicate::Boolean(Function::new(Kind::Moody, vec![0]));
    let plan = computed.clone().filter(Predicate::And(vec![is_even.clone(), moody.clone()])).unwrap();
    assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());
    let plan = computed.filter(is_even).unwrap().filter(moody).unwrap();
    assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());
}

#[test]
fn not_of_a_null_is_not_true() {
    let snapshot = numbers(&[vec![Some(1), None, Some(-3), Some(4)]]);
    let moody = Predicate::Boolean(Function::new(Kind::Moody, vec![0]));
    let is_one = compare(CompareOp::Eq, 1);
    let not = |p: &Predicate| Predicate::Not(Box::new(p.clone()));
    let rows = |p: Predicate| column_of_numbers(&run(&scan(&snapshot).filter(p).unwrap()).unwrap());
    assert_eq!(rows(not(&is_one)), [Some(-3), Some(4)]);
    assert_eq!(rows(not(&moody)), [None], "FALSE for NULL, NULL for negative numbers");
    assert_eq!(rows(not(&not(&moody))), [Some(1), Some(4)]);
    let both = Predicate::And(vec![is_one.clone(), moody.clone()]);
    assert_eq!(rows(not(&both)), [None, Some(-3), Some(4)]);
    let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let in_nothing = |negated| Predicate::In { column: 0, values: empty.clone(), negated };
    assert_eq!(rows(in_nothing(false)), []);
    assert_eq!(rows(in_nothing(true)), [Some(1), Some(-3), Some(4)]);
}

#[test]
fn row_counts_survive_without_columns() {
    let snapshot = numbers(&[repeated(&[Some(1), Some(2)], 100_000), vec![Some(2)]]);
    let count = |plan: Plan| plan.project(Vec::new()).unwrap();
    assert_eq!(run(&count(scan(&snapshot))).unwrap().num_rows(), 100_001);
    let twos = count(scan(&snapshot).filter(compare(CompareOp::Eq, 2)).unwrap());
    assert_eq!(run(&twos).unwrap().num_rows(), 50_001);
    assert_eq!(run(&count(scan(&snapshot)).limit(1, Some(10))).unwrap().num_rows(), 10);
    let none = Plan::scan("t", snapshot, Vec::new()).unwrap();
    assert_eq!(run(&none).unwrap().num_rows(), 100_001);
    let constant = Function::new(Kind::Truth(Some(true)), vec![]);
    let projected = run(&none.project(outputs(&constant)).unwrap()).unwrap();
    assert_eq!(projected.column(0).as_boolean().true_count(), 100_001);
}

#[test]
fn dictionaries_of_segments_differ() {
    let snapshot =
        numbers(&[vec![Some(10), Some(20)], vec![Some(20), Some(30), None], vec![None, None], vec![Some(5)]]);
    for op in [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::GtEq] {
        let plan = scan(&snapshot).filter(compare(op, 20)).unwrap();
        assert_eq!(run(&plan).unwrap(), expected(&plan).unwrap());
        assert_eq!(run_default(&plan).unwrap(), expected(&plan).unwrap());
    }
    let sums = run(&scan(&snapshot).project(outputs(&Function::new(Kind::Add(1), vec![0]))).unwrap()).unwrap();
    assert_eq!(column_of_numbers(&sums), [Some(11), Some(21), Some(21), Some(31), None, None, None, Some(6)]);
}

#[test]
fn an_empty_table_gives_nothing() {
    let snapshot = numbers(&[]);
    let plan = scan(&snapshot).filter(compare(CompareOp::Eq, 1)).unwrap();
    assert_eq!(run(&plan).unwrap().num_rows(), 0);
    assert_eq!(run_default(&plan).unwrap().column(0).as_primitive::<Int64Type>().len(), 0);
    assert_eq!(plan.schema().field(0).data_type(), &DataType::Int64);
}
