//! Joins whose keys are integers far apart, so that a Bloom filter goes down to the scan of the probe side: the engine
//! and the reference agree.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use exec::{CompareOp, Join, JoinKind, Plan, Predicate, Side};
use storage::TableVersion;

use super::check;
use super::random::Random;
use crate::support::{int, scan, table};

/// The `i`-th of the possible keys.
fn key(i: u64) -> i64 {
    (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64
}

/// A key of `possible` or NULL, another one, and a number below 100: one segment per item of `rows`, with a dictionary
/// of its own or, where keys hardly repeat, without.
fn keyed(random: &mut Random, rows: &[usize], possible: u64, nulls: bool) -> Arc<TableVersion> {
    let fields = [("k", true), ("l", true), ("n", false)];
    let fields: Vec<Field> = fields.iter().map(|(name, null)| Field::new(*name, DataType::Int64, *null)).collect();
    let schema = Arc::new(Schema::new(fields));
    let mut column = |rows: usize, of: &dyn Fn(u64) -> i64, most: u64, nulls: bool| -> ArrayRef {
        let values = (0..rows).map(|_| (!(nulls && random.one_in(9))).then(|| of(random.below(most as usize) as u64)));
        Arc::new(values.collect::<Int64Array>())
    };
    let segments: Vec<RecordBatch> = rows
        .iter()
        .map(|&rows| {
            let columns = vec![
                column(rows, &key, possible, nulls),
                column(rows, &|i| key(i % 3), possible, nulls),
                column(rows, &|i| i as i64, 100, false),
            ];
            RecordBatch::try_new(schema.clone(), columns).unwrap()
        })
        .collect();
    Arc::new(table(&schema, &segments))
}

fn below(plan: Plan, most: i64) -> Plan {
    plan.filter(Predicate::Compare { column: 2, op: CompareOp::Lt, value: int(most).into() }).unwrap()
}

#[test]
fn joins_of_far_keys() {
    let random = &mut Random::new(5);
    // Keys that repeat, keys that hardly do, and more than are listed one by one.
    for (possible, left, right) in [(150, [500, 100], 200), (1 << 40, [500, 100], 200), (3000, [150, 30], 4700)] {
        for nulls in [false, true] {
            let (left, right) = (keyed(random, &left, possible, nulls), keyed(random, &[right], possible, nulls));
            for kind in JoinKind::ALL {
                for build in [Side::Left, Side::Right] {
                    let one_in = if build == Side::Left { (90, 100) } else { (100, 90) };
                    let join = Join {
                        left: below(scan(&left), one_in.0),
                        right: below(scan(&right), one_in.1),
                        kind,
                        on: if random.one_in(3) { vec![(0, 0), (1, 1)] } else { vec![(0, 0)] },
                        nulls_equal: nulls && random.one_in(2),
                        null_aware: false,
                        residual: None,
                        build,
                    };
                    let plan = Plan::join(join).unwrap();
                    if let Err((plan, problem)) = check(plan, random, true) {
                        panic!("{possible} keys\n{plan}\n{problem}");
                    }
                }
            }
        }
    }
}

/// A filter from above goes through joins, aggregates and unions; where one of those keeps rows without a match it must
/// not.
#[test]
fn far_keys_from_above() {
    let random = &mut Random::new(6);
    let tables: Vec<_> = [300, 200, 40].iter().map(|&rows| keyed(random, &[rows], 200, true)).collect();
    let join = |left: Plan, right: Plan, kind, build| {
        let on = vec![(0, 0)];
        Plan::join(Join { left, right, kind, on, nulls_equal: false, null_aware: false, residual: None, build })
            .unwrap()
    };
    for kind in JoinKind::ALL {
        for build in [Side::Left, Side::Right] {
            let inner = join(scan(&tables[0]), scan(&tables[1]), kind, build);
            for below_it in [
                inner.clone(),
                inner.clone().aggregate(vec![0], Vec::new()).unwrap(),
                scan(&tables[0])
                    .sort(vec![exec::SortKey { column: 0, descending: false, nulls_first: true }], None)
                    .unwrap(),
            ] {
                for above in [JoinKind::Inner, JoinKind::Semi(Side::Left), JoinKind::Left, JoinKind::Anti(Side::Left)] {
                    let plan = join(below_it.clone(), below(scan(&tables[2]), 60), above, Side::Right);
                    if let Err((plan, problem)) = check(plan, random, true) {
                        panic!("{plan}\n{problem}");
                    }
                }
            }
        }
    }
}
