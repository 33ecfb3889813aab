//! Joins of TPC-H's queries, written in the order of FROM.

use super::*;

fn two_names(plan: &Plan, a: &str, b: &str) -> Predicate {
    let both = |x: &str, y: &str| Predicate::And(vec![named(plan, a, x), named(plan, b, y)]);
    Predicate::Or(vec![both("name 001", "name 002"), both("name 002", "name 001")])
}

#[test]
fn q3() {
    let customer = where_name(scan("customer", &["c_custkey", "c_segment"]), "c_segment", "name 001");
    let orders = where_number(scan("orders", &["o_orderkey", "o_custkey", "o_date"]), "o_date", CompareOp::Lt, 1100);
    let lineitem = where_number(scan("lineitem", &["l_orderkey", "l_price", "l_date"]), "l_date", CompareOp::Gt, 1100);
    let plan = inner(inner(customer, orders, &[("c_custkey", "o_custkey")]), lineitem, &[("o_orderkey", "l_orderkey")]);
    let plan = optimized(&sums(plan, &["l_orderkey", "o_date"], &["l_price"]));
    assert_eq!(shape(&plan), "agg((lineitem * (orders * customer)))");
    let text = plan.to_string();
    // What is kept of customers is the key, of orders the key and the date.
    assert!(text.contains("Project: c_custkey"), "{text}");
    assert!(text.contains("Project: o_orderkey, o_date"), "{text}");
}

#[test]
fn q5() {
    let region = where_name(scan("region", &["r_regionkey", "r_name"]), "r_name", "name 001");
    let orders = where_number(scan("orders", &["o_orderkey", "o_custkey", "o_date"]), "o_date", CompareOp::Lt, 365);
    let plan = inner(scan("customer", &["c_custkey", "c_nationkey"]), orders, &[("c_custkey", "o_custkey")]);
    let plan = inner(plan, scan("lineitem", &["l_orderkey", "l_suppkey", "l_price"]), &[("o_orderkey", "l_orderkey")]);
    let supplier = scan("supplier", &["s_suppkey", "s_nationkey"]);
    let plan = inner(plan, supplier, &[("l_suppkey", "s_suppkey"), ("c_nationkey", "s_nationkey")]);
    let plan =
        inner(plan, scan("nation", &["n_nationkey", "n_name", "n_regionkey"]), &[("s_nationkey", "n_nationkey")]);
    let plan = inner(plan, region, &[("n_regionkey", "r_regionkey")]);
    let plan = optimized(&sums(plan, &["n_name"], &["l_price"]));
    let found = shape(&plan);
    assert!(found.starts_with("agg((") && found.trim_start_matches(['a', 'g', '(']).starts_with("lineitem"), "{found}");
    assert!(found.contains("(orders * customer)"), "{found}");
    // The region's nations thin out suppliers, and through the equality of nations customers and their orders.
    assert!(found.contains("(supplier * (nation * region))"), "{found}");
}

#[test]
fn q7() {
    let lineitem = where_number(
        scan("lineitem", &["l_orderkey", "l_suppkey", "l_price", "l_date"]),
        "l_date",
        CompareOp::Gt,
        1700,
    );
    let plan = inner(scan("supplier", &["s_suppkey", "s_nationkey"]), lineitem, &[("s_suppkey", "l_suppkey")]);
    let plan = inner(plan, scan("orders", &["o_orderkey", "o_custkey"]), &[("l_orderkey", "o_orderkey")]);
    let plan = inner(plan, scan("customer", &["c_custkey", "c_nationkey"]), &[("o_custkey", "c_custkey")]);
    let nation = |prefix| renamed(scan("nation", &["n_nationkey", "n_name"]), prefix);
    let plan = inner(plan, nation("a_"), &[("s_nationkey", "a_n_nationkey")]);
    let plan = inner(plan, nation("b_"), &[("c_nationkey", "b_n_nationkey")]);
    let either = two_names(&plan, "a_n_name", "b_n_name");
    let plan = optimized(&sums(plan.filter(either).unwrap(), &["a_n_name", "b_n_name"], &["l_price"]));
    let found = shape(&plan);
    assert!(found.contains("(supplier * nation)") && found.contains("(customer * nation)"), "{found}");
    assert!(found.trim_start_matches(['a', 'g', '(']).starts_with("lineitem"), "{found}");
    // Each nation is asked for both names, and the pair once more.
    let filters = plan.to_string().matches("name 001").count();
    assert_eq!(filters, 4, "{plan}");
}

#[test]
fn q9() {
    let part = where_name(scan("part", &["p_partkey", "p_brand"]), "p_brand", "name 001");
    let plan = inner(
        part,
        scan("lineitem", &["l_orderkey", "l_partkey", "l_suppkey", "l_price"]),
        &[("p_partkey", "l_partkey")],
    );
    let plan = inner(plan, scan("supplier", &["s_suppkey", "s_nationkey"]), &[("l_suppkey", "s_suppkey")]);
    let plan = inner(
        plan,
        scan("partsupp", &["ps_partkey", "ps_suppkey", "ps_cost"]),
        &[("l_suppkey", "ps_suppkey"), ("l_partkey", "ps_partkey")],
    );
    let plan = inner(plan, scan("orders", &["o_orderkey", "o_date"]), &[("l_orderkey", "o_orderkey")]);
    let plan = inner(plan, scan("nation", &["n_nationkey", "n_name"]), &[("s_nationkey", "n_nationkey")]);
    let plan = optimized(&sums(plan, &["n_name", "o_date"], &["l_price", "ps_cost"]));
    let found = shape(&plan);
    assert!(found.contains("* part)"), "parts are looked up: {found}");
    assert!(!found.contains("* lineitem)"), "line items are never kept whole: {found}");
}

#[test]
fn q17_parts_thin_out_the_average() {
    let part = where_name(scan("part", &["p_partkey", "p_brand", "p_size"]), "p_brand", "name 001");
    let part = where_number(part, "p_size", CompareOp::Eq, 7);
    let plan = inner(scan("lineitem", &["l_partkey", "l_price", "l_date"]), part, &[("l_partkey", "p_partkey")]);
    let average = renamed(sums(scan("lineitem", &["l_partkey", "l_date"]), &["l_partkey"], &["l_date"]), "x_");
    let plan = inner(plan, average, &[("p_partkey", "x_l_partkey")]);
    let less = Pair::of(place(&plan, "l_date"), CompareOp::Lt, place(&plan, "x_sum_l_date"));
    let plan = optimized(&sums(plan.filter(less).unwrap(), &[], &["l_price"]));
    let found = shape(&plan);
    assert!(found.contains("(agg(lineitem) * part)"), "the average streams past the parts: {found}");
}

#[test]
fn q18_large_orders_are_looked_up() {
    let big = sums(scan("lineitem", &["l_orderkey", "l_date"]), &["l_orderkey"], &["l_date"]);
    let big = where_number(big, "sum_l_date", CompareOp::Gt, 9000);
    let big = keep(big, &["l_orderkey"]);
    let orders = scan("orders", &["o_orderkey", "o_custkey", "o_date"]);
    let plan = inner(scan("customer", &["c_custkey", "c_name"]), orders, &[("c_custkey", "o_custkey")]);
    let plan =
        inner(plan, renamed(scan("lineitem", &["l_orderkey", "l_price"]), "m_"), &[("o_orderkey", "m_l_orderkey")]);
    let plan = semi(plan, big, &[("o_orderkey", "l_orderkey")]);
    let plan = optimized(&sums(plan, &["c_name", "c_custkey", "o_orderkey", "o_date"], &["m_l_price"]));
    let found = shape(&plan);
    assert!(found.contains("semi(orders, !agg(lineitem))"), "{found}");
    assert!(found.trim_start_matches(['a', 'g', '(']).starts_with("lineitem * "), "{found}");
}

#[test]
fn q20_forests() {
    let part = where_name(scan("part", &["p_partkey", "p_type"]), "p_type", "name 001");
    let sold =
        where_number(scan("lineitem", &["l_partkey", "l_suppkey", "l_price", "l_date"]), "l_date", CompareOp::Lt, 365);
    let sold = sums(sold, &["l_partkey", "l_suppkey"], &["l_price"]);
    let plan = semi(scan("partsupp", &["ps_partkey", "ps_suppkey", "ps_cost"]), part, &[("ps_partkey", "p_partkey")]);
    let plan = inner(plan, sold, &[("ps_partkey", "l_partkey"), ("ps_suppkey", "l_suppkey")]);
    let enough = Pair::of(place(&plan, "ps_cost"), CompareOp::Gt, place(&plan, "sum_l_price"));
    let plan = keep(plan.filter(enough).unwrap(), &["ps_suppkey"]);
    let nation = where_name(scan("nation", &["n_nationkey", "n_name"]), "n_name", "name 001");
    let supplier =
        inner(scan("supplier", &["s_suppkey", "s_name", "s_nationkey"]), nation, &[("s_nationkey", "n_nationkey")]);
    let plan = optimized(&keep(semi(supplier, plan, &[("s_suppkey", "ps_suppkey")]), &["s_name"]));
    let found = shape(&plan);
    assert!(found.contains("semi(partsupp, !part)"), "{found}");
    assert!(found.contains("(agg(lineitem) * "), "few parts are kept, the sums stream and are thinned out: {found}");
}

#[test]
fn q21_waiting() {
    let line = |prefix: &str| renamed(scan("lineitem", &["l_orderkey", "l_suppkey", "l_date", "l_commit"]), prefix);
    let late = |prefix: &str| {
        let plan = line(prefix);
        let late = Pair::of(
            place(&plan, &format!("{prefix}l_date")),
            CompareOp::Gt,
            place(&plan, &format!("{prefix}l_commit")),
        );
        plan.filter(late).unwrap()
    };
    let orders = where_name(scan("orders", &["o_orderkey", "o_status"]), "o_status", "name 001");
    let nation = where_name(scan("nation", &["n_nationkey", "n_name"]), "n_name", "name 001");
    let plan =
        inner(scan("supplier", &["s_suppkey", "s_name", "s_nationkey"]), late("a_"), &[("s_suppkey", "a_l_suppkey")]);
    let plan = inner(plan, orders, &[("a_l_orderkey", "o_orderkey")]);
    let plan = inner(plan, nation, &[("s_nationkey", "n_nationkey")]);
    let other = |kind, left: Plan, right: Plan, prefix: &str| {
        let own = place(&left, "a_l_suppkey");
        let theirs = left.schema().fields().len() + place(&right, &format!("{prefix}l_suppkey"));
        let residual = Pair::of(own, CompareOp::NotEq, theirs);
        join_of(kind, left, right, &[("a_l_orderkey", &format!("{prefix}l_orderkey"))], Some(residual))
    };
    let plan = other(JoinKind::Semi(Side::Left), plan, line("b_"), "b_");
    let plan = other(JoinKind::Anti(Side::Left), plan, late("c_"), "c_");
    let plan = optimized(&sums(plan, &["s_name"], &["a_l_date"]));
    let found = shape(&plan);
    assert!(found.contains("(supplier * nation)"), "{found}");
    assert!(
        found.contains(", lineitem)") && !found.contains("!lineitem"),
        "line items that are looked for stream: {found}"
    );
}

#[test]
fn filters_follow_equalities() {
    let orders = scan("orders", &["o_orderkey", "o_date"]);
    let plan = inner(orders, scan("lineitem", &["l_orderkey", "l_price"]), &[("o_orderkey", "l_orderkey")]);
    let plan = optimized(&where_number(plan, "o_orderkey", CompareOp::Lt, 10));
    let text = plan.to_string();
    assert!(text.contains("Filter: o_orderkey < 10") && text.contains("Filter: l_orderkey < 10"), "{text}");
}

#[test]
fn having_by_a_key_is_asked_before_grouping() {
    let plan = sums(scan("lineitem", &["l_orderkey", "l_price", "l_date"]), &["l_orderkey"], &["l_price"]);
    let plan = optimized(&where_number(plan, "l_orderkey", CompareOp::Eq, 5));
    assert!(plan.to_string().starts_with("Aggregate"), "{plan}");
    assert_eq!(read(&plan, "lineitem"), vec![vec!["l_orderkey".to_string(), "l_price".to_string()]]);
}

#[test]
fn an_outer_join_stays_one_unless_its_nulls_are_dropped() {
    let orders = || scan("orders", &["o_orderkey", "o_custkey"]);
    let plan =
        || join_of(JoinKind::Left, scan("customer", &["c_custkey"]), orders(), &[("c_custkey", "o_custkey")], None);
    assert_eq!(shape(&optimized(&plan())), "left(!customer, orders)");
    let plan = where_number(plan(), "o_orderkey", CompareOp::Lt, 100);
    assert_eq!(shape(&optimized(&plan)), "(customer * orders)");
}

#[test]
fn a_condition_that_may_fail_stays_behind_what_it_was_written_behind() {
    let plan = inner(
        scan("orders", &["o_orderkey", "o_date"]),
        scan("lineitem", &["l_orderkey", "l_price"]),
        &[("o_orderkey", "l_orderkey")],
    );
    let (a, b) = (place(&plan, "o_date"), place(&plan, "o_orderkey"));
    let plan = optimized(&plan.filter(Pair::dividing(a, b)).unwrap());
    let text = plan.to_string();
    assert!(text.find("Filter").unwrap() < text.find("Join").unwrap(), "{text}");
}

#[test]
fn a_shared_plan_stays_one() {
    let shared = sums(scan("lineitem", &["l_suppkey", "l_price"]), &["l_suppkey"], &["l_price"]).shared(7);
    let most = sums(shared.clone(), &[], &["sum_l_price"]);
    let plan = inner(scan("supplier", &["s_suppkey"]), shared, &[("s_suppkey", "l_suppkey")]);
    let plan = inner(plan, most, &[("sum_l_price", "sum_sum_l_price")]);
    fn find(plan: &Plan, into: &mut Vec<(usize, *const Plan)>) {
        if let Plan::Shared(shared) = plan {
            into.push((shared.id, &shared.plan));
        }
        plan.inputs().into_iter().for_each(|i| find(i, into));
    }
    let mut found = Vec::new();
    find(&optimized(&plan), &mut found);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].0, 7);
}

/// A grouped query over lineitem, in two places that each keep a few of its suppliers.
fn each_keeps_few(keep: bool) -> Plan {
    let plan = sums(scan("lineitem", &["l_suppkey", "l_price"]), &["l_suppkey"], &["l_price"]);
    let shared = Plan::Shared(Arc::new(crate::plan::Shared { id: 0, keep, plan }));
    let place = |bound: i64| where_number(shared.clone(), "l_suppkey", CompareOp::Lt, bound);
    Plan::Union(crate::plan::Union { schema: shared.schema(), inputs: vec![place(3), place(5)] })
}

#[test]
fn what_every_place_of_a_shared_plan_asks_is_asked_below_it() {
    let text = optimized(&each_keeps_few(false)).to_string();
    let condition = text.rfind("l_suppkey < ").unwrap_or_else(|| panic!("{text}"));
    assert!(condition > text.rfind("Aggregate").unwrap(), "{text}");
}

#[test]
fn a_materialized_plan_is_computed_as_it_is_written() {
    let text = optimized(&each_keeps_few(true)).to_string();
    assert!(text.contains("Shared"), "{text}");
    // Each place asks its own, and nobody asks anything below.
    assert_eq!(text.matches("l_suppkey < ").count(), 2, "{text}");
    assert!(text.contains("[sum(l_price)]\n        Scan"), "{text}");
}

#[test]
fn a_cheap_plan_of_which_each_place_keeps_another_part_is_computed_in_each() {
    let shared = inner(
        scan("orders", &["o_orderkey", "o_custkey", "o_date"]),
        scan("lineitem", &["l_orderkey", "l_price"]),
        &[("o_orderkey", "l_orderkey")],
    )
    .shared(3);
    let place = |key: i64| where_number(shared.clone(), "o_custkey", CompareOp::Eq, key);
    let text = optimized(&inner(place(1), place(2), &[("o_date", "o_date")])).to_string();
    assert!(!text.contains("Shared") || text.contains("o_custkey = 1 OR o_custkey = 2"), "{text}");
}
