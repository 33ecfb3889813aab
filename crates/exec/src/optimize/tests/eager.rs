//! Aggregates below outer joins: when, and random joins before and after by the reference executor.

use proptest::prelude::*;

use super::*;
use crate::optimize::keys::tests::{sorted_rows, table};
use crate::optimize::tests::{keep, optimized, place, scan, shape};
use arrow::datatypes::Field;

fn outer(left: Plan, right: Plan, on: (&str, &str), kind: JoinKind) -> Plan {
    let on = vec![(place(&left, on.0), place(&right, on.1))];
    let (nulls_equal, null_aware, build) = (false, false, Side::Left);
    Plan::join(Join { left, right, kind, on, nulls_equal, null_aware, residual: None, build }).unwrap()
}

fn call(function: AggregateFunction, plan: &Plan, of: &str) -> AggregateCall {
    let field = Arc::new(Field::new(format!("{function:?}"), DataType::Int64, true));
    AggregateCall {
        function,
        arguments: vec![place(plan, of)],
        distinct: false,
        filter: None,
        order: Vec::new(),
        field,
    }
}

fn counted(plan: Plan, keys: &[&str], of: &str) -> Plan {
    let keys = keys.iter().map(|key| place(&plan, key)).collect();
    let count = call(AggregateFunction::Count, &plan, of);
    plan.aggregate(keys, vec![count]).unwrap()
}

#[test]
fn groups_are_made_below_the_join() {
    let customers = || scan("customer", &["c_custkey", "c_name"]);
    let orders = || scan("orders", &["o_orderkey", "o_custkey"]);
    let joined = || outer(customers(), orders(), ("c_custkey", "o_custkey"), JoinKind::Left);
    let narrow = || keep(joined(), &["c_custkey", "c_name", "o_orderkey"]);
    for (plan, moves) in [
        (counted(joined(), &["c_custkey"], "o_orderkey"), true),
        (counted(narrow(), &["c_name", "c_custkey"], "o_orderkey"), true),
        // Customers of one name are several groups below.
        (counted(narrow(), &["c_name"], "o_orderkey"), false),
        // Something is asked of the customer.
        (counted(joined(), &["c_custkey"], "c_name"), false),
        (counted(joined(), &["c_custkey", "o_orderkey"], "o_orderkey"), false),
        // Orders are many for a customer.
        (
            counted(outer(orders(), customers(), ("o_custkey", "c_custkey"), JoinKind::Left), &["o_custkey"], "c_name"),
            false,
        ),
    ] {
        let better = optimized(&plan);
        let below = shape(&better).contains("agg(orders)");
        assert_eq!(below, moves, "{plan}\n{better}");
    }
    let right = outer(orders(), customers(), ("o_custkey", "c_custkey"), JoinKind::Right);
    assert!(shape(&optimized(&counted(right, &["c_custkey"], "o_orderkey"))).contains("agg(orders)"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rows_are_the_same(
        left in prop::collection::vec(any::<(u8, u8)>(), 1..12),
        right in prop::collection::vec(any::<(u8, u8)>(), 1..12),
        unique: [bool; 2], mirrored: bool, on in prop::sample::select(vec!["bu", "bd"]),
        functions in prop::collection::vec(0usize..5, 1..4), filtered: bool, distinct: bool,
    ) {
        let (left, right) = (table(&left, unique[0], "a"), table(&right, unique[1], "b"));
        let joined = match mirrored {
            false => outer(left, right, ("au", on), JoinKind::Left),
            true => outer(right, left, (on, "au"), JoinKind::Right),
        };
        let calls = functions.iter().map(|&f| {
            use AggregateFunction::{Avg, Count, Max, Min, Sum};
            let function = [Count, Sum, Min, Max, Avg][f].clone();
            let call = call(function, &joined, ["bd", "bu"][f % 2]);
            let mean = matches!(call.function, Avg);
            let field = if mean { Arc::new(Field::new("mean", DataType::Float64, true)) } else { call.field.clone() };
            AggregateCall { distinct: distinct && f < 2, field, ..call }
        }).collect();
        let keys = ["at", "au"].iter().map(|key| place(&joined, key)).collect();
        let mut plan = joined.aggregate(keys, calls).unwrap();
        if filtered {
            plan = plan.filter(crate::Predicate::IsNull { column: 2, negated: true }).unwrap();
        }
        let better = optimized(&plan);
        prop_assert_eq!(sorted_rows(&better), sorted_rows(&plan), "{}\n{}", plan, better);
    }
}
