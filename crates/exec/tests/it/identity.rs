//! What is found by a number: values of parameters in plans that were cloned, moved and optimised.

use exec::{CompareOp, Literal, ParameterId, Plan, Predicate};

use crate::support::{column_of_numbers, int, numbers, run, scan};

fn compare(op: CompareOp, value: impl Into<Literal>) -> Predicate {
    Predicate::Compare { column: 0, op, value: value.into() }
}

fn parameter(number: usize, value: i64) -> Literal {
    Literal::of_parameter(ParameterId(number), int(value))
}

fn rows(plan: &Plan) -> Vec<i64> {
    let mut rows: Vec<i64> = column_of_numbers(&run(plan).unwrap()).into_iter().flatten().collect();
    rows.sort_unstable();
    rows
}

#[test]
fn values_take_the_places_of_their_parameters() {
    let snapshot = numbers(&[(0..100).map(Some).collect()]);
    // One allocation stands for both parameters and for a literal; the first parameter stands in two places.
    let same = int(40);
    let plan = scan(&snapshot)
        .filter(Predicate::Or(vec![
            compare(CompareOp::Eq, Literal::of_parameter(ParameterId(0), same.clone())),
            compare(CompareOp::Eq, Literal::of_parameter(ParameterId(1), same.clone())),
            compare(CompareOp::Eq, same.clone()),
            Predicate::Not(Box::new(compare(CompareOp::LtEq, Literal::of_parameter(ParameterId(0), same)))),
        ]))
        .unwrap();
    let counts = |plan: &Plan| [0, 1, 2].map(|number| plan.count_parameter(ParameterId(number)));
    assert_eq!(counts(&plan), [2, 1, 0]);
    let expected =
        |a: i64, b: i64| -> Vec<i64> { (0..100).filter(|&x| x == a || x == b || x == 40 || x > a).collect() };
    assert_eq!(rows(&plan), expected(40, 40));
    // Copies of copies, of other values, still know them.
    let kept = Box::new(exec::optimize(plan.clone()));
    let moved = *kept;
    for (a, b) in [(97, 3), (98, 98), (0, 5)] {
        let again = moved.with_values(&snapshot, &[int(a), int(b)]).unwrap();
        assert_eq!(counts(&again), [2, 1, 0]);
        assert_eq!(rows(&again), expected(a, b), "{a}, {b}");
        let last = again.clone().with_values(&snapshot, &[int(b), int(a)]).unwrap();
        assert_eq!(rows(&last), expected(b, a), "{b}, {a}");
    }
}

#[test]
fn other_rows_take_the_place_of_a_scan() {
    let (few, many) = (numbers(&[(0..10).map(Some).collect()]), numbers(&[(0..1000).map(Some).collect()]));
    let plan = scan(&few).filter(compare(CompareOp::GtEq, parameter(0, 8))).unwrap();
    let plan = plan.aggregate(vec![0], Vec::new()).unwrap().limit(0, Some(100));
    assert_eq!(rows(&plan), [8, 9]);
    let again = plan.with_values(&many, &[int(996)]).unwrap();
    assert_eq!(rows(&again), [996, 997, 998, 999]);
    // A plan of more than one scan is not for that.
    assert!(plan.clone().shared(1).with_values(&many, &[int(1)]).is_none());
}
