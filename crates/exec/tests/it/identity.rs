//! What is found by a number: values of parameters in plans that were cloned, moved and optimised, and counters and
//! estimates of operators.

use std::sync::Arc;

use exec::{
    CompareOp, Join, JoinKind, Literal, OperatorId, ParameterId, Plan, Predicate, Profile, Recursion, Side, Union,
    execute_profiled,
};

use crate::support::{column_of_numbers, context, int, numbers, run, scan};

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
    let few = numbers(&[(0..10).map(Some).collect()]);
    let many = numbers(&[(0..1000).map(Some).collect()]);
    let plan = scan(&few).filter(compare(CompareOp::GtEq, parameter(0, 8))).unwrap();
    let plan = plan.aggregate(vec![0], Vec::new()).unwrap().limit(0, Some(100));
    assert_eq!(rows(&plan), [8, 9]);
    let again = plan.with_values(&many, &[int(996)]).unwrap();
    assert_eq!(rows(&again), [996, 997, 998, 999]);
    // A plan of more than one scan is not for that.
    assert!(plan.clone().shared(1).with_values(&many, &[int(1)]).is_none());
}

/// What each operator that is so called gave, in the order of the plan; `None` where it was not counted.
fn gave(plan: &Plan, profile: &Profile, name: &str) -> Vec<Option<u64>> {
    let profiles = profile.operators();
    let named = plan.operators().into_iter().filter(|o| o.plan.describe_operator().starts_with(name));
    named.map(|o| profiles[o.id].map(|of| of.rows)).collect()
}

/// Rows of a plan that is given away, after it was profiled.
fn profiled(plan: Plan, profile: &Profile) -> usize {
    let batches = execute_profiled(Arc::new(plan), context(), profile).collect_blocking().unwrap();
    batches.iter().map(|batch| batch.num_rows()).sum()
}

fn union(inputs: Vec<Plan>) -> Plan {
    let schema = inputs[0].schema();
    Plan::Union(Union { inputs, schema })
}

#[test]
fn a_copy_counts_for_the_plan() {
    let snapshot = numbers(&[(0..100).map(Some).collect()]);
    let plan = scan(&snapshot).filter(compare(CompareOp::Lt, int(30))).unwrap();
    let plan = plan.aggregate(vec![0], Vec::new()).unwrap().limit(5, None).filter(compare(CompareOp::Gt, int(-1)));
    let plan = plan.unwrap();
    let profile = Profile::new(&plan);
    let copy = Box::new(plan.clone()).as_ref().clone();
    assert_eq!(profiled(copy, &profile), 25);
    let of = |name| gave(&plan, &profile, name);
    // A filter over a scan is one with it.
    assert_eq!((of("Filter"), of("Scan")), (vec![Some(25), Some(30)], vec![None]));
    assert_eq!((of("Aggregate"), of("Limit")), (vec![Some(30)], vec![Some(25)]));
    // So are filters over each other: what gives rows to them gives those to the first.
    let above = |plan: Plan| plan.filter(compare(CompareOp::Gt, int(3))).unwrap();
    let plan = above(above(scan(&snapshot).aggregate(vec![0], Vec::new()).unwrap()));
    let profile = Profile::new(&plan);
    assert_eq!(profiled(plan.clone(), &profile), 96);
    let of = |name| gave(&plan, &profile, name);
    assert_eq!((of("Filter"), of("Aggregate"), of("Scan")), (vec![Some(96), None], vec![Some(100)], vec![Some(100)]));
}

#[test]
fn equal_subtrees_have_counters_of_their_own() {
    let snapshot = numbers(&[(0..50).map(Some).collect()]);
    let first = scan(&snapshot).limit(0, Some(1));
    let work = Plan::WorkTable { id: 7, schema: first.schema() };
    let schema = first.schema();
    let step = work.filter(compare(CompareOp::Lt, int(0))).unwrap();
    // Copies of a recursion are one allocation.
    let recursion = Plan::recursive(Recursion { base: first, step, id: 7, distinct: false, schema }).unwrap();
    let groups = scan(&snapshot).aggregate(vec![0], Vec::new()).unwrap();
    let plan = union(vec![recursion.clone(), groups.clone(), groups.limit(0, Some(20)), recursion.clone(), recursion]);
    let profile = Profile::new(&plan);
    assert_eq!(profiled(plan.clone(), &profile), 73);
    let of = |name| gave(&plan, &profile, name);
    assert_eq!(of("Recursion"), [Some(1); 3]);
    assert_eq!((of("WorkTable"), of("Aggregate")), (vec![Some(1); 3], vec![Some(50); 2]));
    assert_eq!(of("Limit"), [Some(1), Some(20), Some(1), Some(1)]);
}

#[test]
fn what_is_shared_counts_once_whoever_comes_first() {
    let snapshot = numbers(&[(0..100).map(Some).collect()]);
    let shared = || scan(&snapshot).filter(compare(CompareOp::Lt, int(10))).unwrap().shared(3);
    // The right side of the join runs first, the left one is listed first; each has an allocation of its own.
    let join = Join {
        left: shared(),
        right: shared(),
        kind: JoinKind::Inner,
        on: vec![(0, 0)],
        nulls_equal: false,
        null_aware: false,
        residual: None,
        build: Side::Right,
    };
    let plan = Plan::join(join).unwrap();
    let profile = Profile::new(&plan);
    assert_eq!(profiled(plan.clone(), &profile), 10);
    let of = |name| gave(&plan, &profile, name);
    assert_eq!(of("Shared"), [Some(10), Some(10)]);
    assert_eq!((of("Filter"), of("Join")), (vec![Some(10)], vec![Some(10)]));
    let operators = plan.operators();
    let bodies: Vec<OperatorId> = operators.iter().filter(|o| o.inputs.len() == 1).map(|o| o.inputs[0]).collect();
    assert_eq!(bodies[0], bodies[2], "both places have the shared filter below them");
    assert_eq!(exec::estimates(&plan)[operators[1].id], exec::estimates(&plan)[operators[4].id]);
}
