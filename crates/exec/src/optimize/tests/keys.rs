//! Group keys that follow from others: shapes, what is unique, and random joins whose groups are compared with those by
//! all keys.

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use numa::Allocator;
use proptest::prelude::*;
use storage::{ColumnAllocator, Serial, Stager, build_part};

use super::*;
use crate::optimize::push::Rewriter;
use crate::optimize::tests::{inner, optimized, place, scan, shape, stored, sums};
use crate::plan::{AggregateCall, AggregateFunction};
use crate::reference;

fn always(plan: Plan) -> Plan {
    let Plan::Aggregate(aggregation) = plan else { panic!("an aggregate is tried") };
    let input = Rewriter::default().push(aggregation.input, Vec::new());
    let aggregation = Aggregation { input: input.plan, keys: aggregation.keys, sets: None, calls: aggregation.calls };
    by_fewer_keys(aggregation, &input.estimate, f64::MAX, &|_, _, _| true).plan
}

fn orders_of_customers() -> Plan {
    let customers = scan("customer", &["c_custkey", "c_name", "c_nationkey"]);
    let customers = inner(customers, scan("nation", &["n_nationkey", "n_name"]), &[("c_nationkey", "n_nationkey")]);
    inner(scan("orders", &["o_orderkey", "o_custkey", "o_date"]), customers, &[("o_custkey", "c_custkey")])
}

#[test]
fn what_follows_is_fetched() {
    for (keys, expected, left) in [
        (&["c_custkey", "c_name", "n_name"][..], "((customer * agg((orders * (customer * nation)))) * nation)", 1),
        (&["c_name", "o_custkey"], "(customer * agg((orders * (customer * nation))))", 1),
        (&["o_orderkey", "c_name", "o_date"], "((orders * agg((orders * (customer * nation)))) * customer)", 1),
        (&["c_name", "o_date"], "agg((orders * (customer * nation)))", 2),
        (&["n_nationkey", "n_name", "c_name"], "(nation * agg((orders * (customer * nation))))", 2),
    ] {
        let plan = sums(orders_of_customers(), keys, &["o_date"]);
        let better = always(plan.clone());
        better.validate().unwrap();
        assert_eq!(better.schema().fields(), plan.schema().fields());
        let shape = shape(&better).replace("(nation * customer)", "(customer * nation)");
        assert_eq!(shape, expected, "{keys:?}\n{better}");
        fn aggregated(plan: &Plan) -> Option<usize> {
            match plan {
                Plan::Aggregate(aggregation) => Some(aggregation.keys.len()),
                other => other.inputs().into_iter().find_map(aggregated),
            }
        }
        assert_eq!(aggregated(&better), Some(left), "{keys:?}\n{better}");
    }
}

#[test]
fn numbers_stay_keys() {
    // Nine hundred names are numbers like others: nothing is won.
    let plan = sums(orders_of_customers(), &["c_custkey", "c_name"], &["o_date"]);
    assert!(matches!(optimized(&plan), Plan::Aggregate(_)), "{}", optimized(&plan));
}

#[test]
fn unique_columns_are_found() {
    let of = |table: &str, column: &str| {
        let Plan::Scan { snapshot, columns, .. } = scan(table, &[column]) else { unreachable!("a scan") };
        statistics::is_unique(&snapshot, columns[0])
    };
    assert!(of("customer", "c_custkey") && of("nation", "n_name") && of("orders", "o_orderkey"));
    assert!(!of("customer", "c_name") && !of("customer", "c_nationkey") && !of("partsupp", "ps_partkey"));
    // A second time, from memory.
    assert!(of("orders", "o_orderkey") && !of("customer", "c_name"));
}

#[test]
fn segments_are_unique_together() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    let batch = |values: Vec<Option<i64>>| {
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(values)) as ArrayRef]).unwrap()
    };
    let two = |first: Vec<Option<i64>>, second: Vec<Option<i64>>| {
        let first = stored(&schema, &batch(first));
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        stager.append(&batch(second)).unwrap();
        let staged = vec![stager.finish().unwrap()];
        let part = build_part(&schema, staged, &[ColumnAllocator::unplaced()], &Serial).unwrap();
        let whole = first.with_appended(part);
        statistics::is_unique(&whole, 0)
    };
    let some = |values: &[i64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    assert!(two(some(&[3, 9, 1]), some(&[2, 100])));
    assert!(!two(some(&[3, 9, 1]), some(&[2, 9])));
    assert!(!two(some(&[3, 9, 1]), vec![Some(2), None]));
    assert!(!two(some(&[3, 3]), some(&[1])));
    assert!(two(some(&[i64::MAX]), some(&[i64::MAX - 1])));
}

/// Two rows of tests: a table's rows as unique number, number, text.
pub(in crate::optimize) fn table(values: &[(u8, u8)], unique: bool, name: &str) -> Plan {
    let fields = ["u", "d", "t"].map(|c| {
        let data_type = if c == "t" { DataType::Utf8View } else { DataType::Int64 };
        Field::new(format!("{name}{c}"), data_type, true)
    });
    let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
    let own = |i: usize, v: u8| if unique { (i as i64 * 7) % 101 } else { i64::from(v % 6) };
    let first: Int64Array = values.iter().enumerate().map(|(i, (v, _))| Some(own(i, *v))).collect();
    let second: Int64Array = values.iter().map(|(_, v)| (v % 8 > 0).then_some(i64::from(v % 6) * 7)).collect();
    let third: StringArray = values.iter().map(|(a, b)| (a % 5 > 0).then(|| format!("text {}", a ^ b))).collect();
    let third = cast(&(Arc::new(third) as ArrayRef), &DataType::Utf8View).unwrap();
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(first), Arc::new(second), third]).unwrap();
    Plan::scan(name, stored(&schema, &batch), vec![2, 0, 1]).unwrap()
}

pub(in crate::optimize) fn sorted_rows(plan: &Plan) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in reference::execute(plan).unwrap() {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows.sort();
    rows
}

fn rows() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec(any::<(u8, u8)>(), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn groups_are_the_same(
        tables in [rows(), rows(), rows()], unique: [bool; 3], kinds in [0usize..8, 0usize..8],
        on in [(0usize..3, 0usize..2), (0usize..6, 0usize..2)], keys in prop::collection::vec(0usize..9, 1..6),
    ) {
        let outer = [JoinKind::Left, JoinKind::Right, JoinKind::Full];
        let kind = |k: usize| outer.get(k).copied().unwrap_or(JoinKind::Inner);
        let columns = ["u", "d"];
        let mut plan = table(&tables[0], unique[0], "a");
        for (i, name) in ["b", "c"].into_iter().enumerate() {
            let right = table(&tables[i + 1], unique[i + 1], name);
            let lefts: Vec<usize> = (0..plan.schema().fields().len()).filter(|c| c % 3 != 0).collect();
            let on = vec![(lefts[on[i].0 % lefts.len()], place(&right, &format!("{name}{}", columns[on[i].1])))];
            plan = Plan::join(Join {
                left: plan, right, kind: kind(kinds[i]), on, nulls_equal: kinds[i] == 7, null_aware: false,
                residual: None,
                build: Side::Right,
            }).unwrap();
        }
        let count = AggregateCall {
            function: AggregateFunction::CountRows,
            arguments: vec![],
            distinct: false,
            filter: None,
            order: Vec::new(),
            field: Arc::new(Field::new("count", DataType::Int64, false)),
        };
        let plan = plan.aggregate(keys, vec![count]).unwrap();
        let better = always(plan.clone());
        better.validate().unwrap();
        prop_assert_eq!(sorted_rows(&better), sorted_rows(&plan), "{}\n{}", plan, better);
    }
}
