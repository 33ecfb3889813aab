//! Random plans of all operators over random tables: the engine and the reference agree.
//!
//! Every case is made from a number, which a failure names. `NEARSIDE_FUZZ_CASES` asks for more cases than a test run
//! has time for, `NEARSIDE_FUZZ_SEED` for other ones: `NEARSIDE_FUZZ_SEED=17 NEARSIDE_FUZZ_CASES=1` runs case 17 alone.

mod check;
mod elsewhere;
mod far_keys;
mod left_out;
mod opaque;
mod plans;
mod random;
mod stopping;

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, Schema};
use exec::{
    AggregateCall, AggregateFunction, Context, ExecError, GroupingSet, GroupingSets, Plan, ScanOptions, ScanSharing,
    SharedScans, execute, execute_on_workers,
};
use numa::{Budget, Topology};
use sched::{Config, Scheduler, Statement};

use crate::support::{drain, scan, scheduler, table};
use check::Expected;
use opaque::Mix;
use plans::{Generator, Limits};
use random::{Random, snapshot};

/// One node and one thread; four nodes and five threads; and what the other tests use.
fn schedulers() -> &'static [Arc<Scheduler>] {
    static ALL: LazyLock<Vec<Arc<Scheduler>>> = LazyLock::new(|| {
        let made = |topology: Topology, threads| {
            Scheduler::new(Arc::new(topology), Config { threads: Some(threads), ..Config::default() })
        };
        vec![scheduler(), made(Topology::synthetic(1, 1, 1, 1), 1), made(Topology::synthetic(2, 2, 2, 1), 5)]
    });
    &ALL
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, it is {text}")))
}

/// Runs cases `first..`, as many as the environment says or else `cases`.
fn cases(first: u64, cases: u64, case: impl Fn(&mut Random) -> Result<Plan, (Plan, String)>) {
    let first = number("NEARSIDE_FUZZ_SEED").unwrap_or(first);
    for seed in first..first + number("NEARSIDE_FUZZ_CASES").unwrap_or(cases) {
        struct Seed(u64);
        impl Drop for Seed {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!("this was case NEARSIDE_FUZZ_SEED={}", self.0);
                }
            }
        }
        let _seed = Seed(seed);
        if let Err((plan, problem)) = case(&mut Random::new(seed)) {
            panic!("{plan}\n{problem}");
        }
    }
}

/// Runs the plan in every way; what is wrong with it, if anything.
fn check(plan: Plan, random: &mut Random, inline_too: bool) -> Result<Plan, (Plan, String)> {
    let expected = Expected::of(&plan);
    let shared = Arc::new(plan.clone());
    let sharing = if random.one_in(2) { ScanSharing::On } else { ScanSharing::Auto };
    let scan = ScanOptions { index_lookups: !random.one_in(4), block_skipping: !random.one_in(4), sharing };
    let shared_scans = Arc::new(SharedScans::default());
    let context = |scheduler: &Arc<Scheduler>, batch_rows| Context {
        batch_rows,
        scan,
        shared: shared_scans.clone(),
        ..Context::new(scheduler.clone(), Statement::new(1, Budget::unlimited()))
    };
    let batch_rows = random.pick(&[1, 7, 1000, 8192]);
    let other = random.pick(schedulers());
    let mut runs = vec![
        ("on workers", execute_on_workers(shared.clone(), context(&scheduler(), 8192))),
        ("on other workers", execute_on_workers(shared.clone(), context(&other, batch_rows.max(1000)))),
    ];
    if inline_too {
        runs.push(("as it likes", execute(shared.clone(), context(&scheduler(), batch_rows))));
    }
    for (how, execution) in runs {
        let problem = match (drain(&execution), &expected) {
            (Ok(got), Ok(expected)) => expected.problem(&got),
            (Err(error), Ok(_)) => Some(format!("failed: {error}")),
            (Err(ExecError::Panicked(text)), Err(_)) => Some(format!("panicked: {text}")),
            (_, Err(_)) => None,
        };
        if let Some(problem) = problem {
            return Err((plan, format!("{how}: {problem}")));
        }
    }
    Ok(plan)
}

/// Many small tables: every operator, type and special case, a few rows each.
#[test]
fn small_plans() {
    cases(0, 500, |random| {
        let tables = (0..1 + random.below(3))
            .map(|_| {
                let segments: Vec<usize> = (0..random.below(4)).map(|_| 1 + random.below(60)).collect();
                snapshot(random, &segments)
            })
            .collect();
        let limits = Limits { rows: 800, pairs: 30_000, residual_pairs: 3000 };
        let depth = 1 + random.below(6);
        let plan = Generator::new(random, tables, limits).plan(depth);
        check(plan, random, true)
    });
}

/// A table of several granules beside small ones: several workers, states that are merged, ranges of sorted rows.
#[test]
fn large_plans() {
    cases(0, 12, |random| {
        let sizes = [vec![70_000, 66_000, 4000], vec![9, 130_000], vec![40_000], vec![12], vec![5, 7]];
        let large = random.below(3);
        let mut tables = vec![snapshot(random, &sizes[large])];
        tables.extend((3..5).map(|small| snapshot(random, &sizes[small])));
        let limits = Limits { rows: 200_000, pairs: 3_000_000, residual_pairs: 4000 };
        let depth = 1 + random.below(3);
        let plan = Generator::new(random, tables, limits).plan(depth);
        check(plan, random, false)
    });
}

/// No group, so no state that could be merged: there are columns all the same.
#[test]
fn grouping_sets_of_a_foreign_function_over_no_row() {
    let fields: Vec<Field> = ["k", "l", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec();
    let schema = Arc::new(Schema::new(fields));
    let none = Arc::new(table(&schema, &[]));
    let field = |name: &str, of: DataType| Arc::new(Field::new(name, of, true));
    let mixed = AggregateCall {
        function: AggregateFunction::Opaque(Mix::new()),
        arguments: vec![2],
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: field("mixed", DataType::Int64),
    };
    for sets in [vec![vec![0, 1]], vec![vec![0, 1], vec![0]], vec![vec![0], Vec::new()]] {
        let sets = (0..).zip(sets).map(|(id, keys)| GroupingSet { keys, id }).collect();
        let sets = GroupingSets { sets, id: field("id", DataType::UInt64) };
        let plan = scan(&none).aggregate_sets(vec![0, 1], sets, vec![mixed.clone()]).unwrap();
        cases(0, 1, |random| check(plan.clone(), random, true));
    }
}
