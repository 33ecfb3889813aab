//! Every kind of join over every kind of key against a nested loop over values as text.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use numa::{Allocator, Budget, Topology};
use random::Random;
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Parallel, Serial, Stager, TableVersion, build_part};

use super::pipe_with;
use super::table::Strategy;
use crate::chunk::CHUNK_ROWS;
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::plan::expression::CompareOp;
use crate::plan::predicate::Predicate;
use crate::plan::{Join, JoinKind, Plan, Side};
use crate::run::compile::compile;
use crate::tasks::places::{Lookup, Places};
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
use crate::{ExecError, Expression, SchedParallel};

/// What key columns are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Int,
    /// A few values far apart.
    Sparse,
    /// Values of all 64 bits.
    Wide,
    Unsigned,
    Date,
    Money,
    /// More digits than fit in 64 bits.
    Huge,
    Text,
    Float,
    Small,
    Truth,
}

const KEYS: [Key; 11] = [
    Key::Int,
    Key::Sparse,
    Key::Wide,
    Key::Unsigned,
    Key::Date,
    Key::Money,
    Key::Huge,
    Key::Text,
    Key::Float,
    Key::Small,
    Key::Truth,
];

fn key_array(key: Key, seeds: &[Option<u64>]) -> ArrayRef {
    let ints = |f: &dyn Fn(u64) -> i64| -> Vec<Option<i64>> { seeds.iter().map(|s| s.map(f)).collect() };
    match key {
        Key::Int => Arc::new(Int64Array::from(ints(&|s| s as i64 - 3))),
        Key::Sparse => Arc::new(Int64Array::from(ints(&|s| s as i64 * 1_000_003_000_007))),
        Key::Wide => Arc::new(Int64Array::from(ints(&|s| match s {
            0 => i64::MIN,
            1 => i64::MAX,
            s => s as i64,
        }))),
        Key::Unsigned => Arc::new(seeds.iter().map(|s| s.map(|s| u64::MAX - s)).collect::<UInt64Array>()),
        Key::Date => Arc::new(seeds.iter().map(|s| s.map(|s| 9000 + s as i32)).collect::<Date32Array>()),
        Key::Money => Arc::new(
            seeds
                .iter()
                .map(|s| s.map(|s| i128::from(s) * 25))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Key::Huge => Arc::new(
            seeds
                .iter()
                .map(|s| s.map(|s| i128::from(s) * 10i128.pow(30) - 5))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(38, 2)
                .unwrap(),
        ),
        Key::Text => {
            let text = seeds.iter().map(|s| s.map(|s| format!("{}{s}", "long and longer ".repeat(s as usize % 3))));
            cast(&(Arc::new(text.collect::<StringArray>()) as ArrayRef), &DataType::Utf8View).unwrap()
        }
        Key::Float => Arc::new(
            seeds
                .iter()
                .map(|s| {
                    s.map(|s| match s {
                        0 => 0.0,
                        1 => -0.0,
                        2 => f64::NAN,
                        3 => -f64::NAN,
                        s => s as f64 / 3.0,
                    })
                })
                .collect::<Float64Array>(),
        ),
        Key::Small => Arc::new(
            seeds.iter().map(|s| s.map(|s| if s < 2 { -0.0 * s as f32 } else { s as f32 })).collect::<Float32Array>(),
        ),
        Key::Truth => Arc::new(seeds.iter().map(|s| s.map(|s| s % 2 == 0)).collect::<BooleanArray>()),
    }
}

/// `p1 < p2` over two Int64 columns.
#[derive(Debug)]
struct Less(Vec<usize>);

impl Expression for Less {
    fn columns(&self) -> &[usize] {
        &self.0
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let of = |c: usize| batch.column(c).as_primitive::<Int64Type>();
        Ok(Arc::new(of(0).iter().zip(of(1).iter()).map(|(a, b)| Some(a? < b?)).collect::<BooleanArray>()))
    }

    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn describe(&self) -> String {
        "less".into()
    }

    fn fallible(&self) -> bool {
        false
    }
}

/// Keys, then a payload Int64.
fn side(keys: &[Key], rows: usize, range: u64, nulls: u64, random: &mut Random) -> RecordBatch {
    let mut columns = Vec::new();
    let mut fields = Vec::new();
    for (i, &key) in keys.iter().enumerate() {
        let seeds: Vec<Option<u64>> =
            (0..rows).map(|_| (nulls == 0 || random.below_u64(nulls) != 0).then(|| random.below_u64(range))).collect();
        let array = key_array(key, &seeds);
        fields.push(Field::new(format!("k{i}"), array.data_type().clone(), true));
        columns.push(array);
    }
    let payload: Vec<i64> = (0..rows).map(|_| random.below_u64(40) as i64).collect();
    fields.push(Field::new("p", DataType::Int64, true));
    columns.push(Arc::new(Int64Array::from(payload)));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn stored(schema: &SchemaRef, pieces: &[RecordBatch]) -> Plan {
    let mut version = TableVersion::empty(schema);
    for piece in pieces {
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        stager.append(piece).unwrap();
        let allocators = vec![ColumnAllocator::unplaced(); schema.fields().len()];
        let part = build_part(schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        version = version.with_appended(part);
    }
    Plan::scan("t", Arc::new(version), (0..schema.fields().len()).collect()).unwrap()
}

/// How a batch becomes a plan.
#[derive(Debug, Clone, Copy)]
enum Made {
    OneSegment,
    TwoSegments,
    Values,
}

fn plan_of(batch: &RecordBatch, made: Made) -> Plan {
    let schema = batch.schema();
    let half = batch.num_rows() / 2;
    match made {
        Made::OneSegment => stored(&schema, std::slice::from_ref(batch)),
        Made::TwoSegments => stored(&schema, &[batch.slice(0, half), batch.slice(half, batch.num_rows() - half)]),
        Made::Values => {
            Plan::Values { schema, batches: vec![batch.slice(0, half), batch.slice(half, batch.num_rows() - half)] }
        }
    }
}

fn text(array: &ArrayRef) -> Vec<Option<String>> {
    let float = |v: f64| if v.is_nan() { "NaN".to_string() } else { format!("{:?}", v + 0.0) };
    match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().map(|v| v.map(float)).collect(),
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().map(|v| v.map(|v| float(v.into()))).collect(),
        _ => {
            let formatter = ArrayFormatter::try_new(array.as_ref(), &FormatOptions::default()).unwrap();
            (0..array.len()).map(|i| array.is_valid(i).then(|| formatter.value(i).to_string())).collect()
        }
    }
}

type Row = Vec<Option<String>>;

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let columns: Vec<Vec<Option<String>>> = batch.columns().iter().map(text).collect();
    (0..batch.num_rows()).map(|i| columns.iter().map(|c| c[i].clone()).collect()).collect()
}

/// What a join means, row by row. The residual, where there is one, is that the left payload is below the right one.
fn nested_loop(join: &Join, left: &RecordBatch, right: &RecordBatch) -> Vec<Row> {
    let (left, right) = (rows_of(left), rows_of(right));
    let number = |row: &Row| row.last().unwrap().as_ref().unwrap().parse::<i64>().unwrap();
    let matches = |l: &Row, r: &Row| {
        join.on.iter().all(|&(a, b)| l[a] == r[b] && (l[a].is_some() || join.nulls_equal))
            && (join.residual.is_none() || number(l) < number(r))
    };
    let (left_width, right_width) = (join.left.schema().fields().len(), join.right.schema().fields().len());
    let mut out = Vec::new();
    let kept = |side: Side| if side == Side::Left { (&left, &right) } else { (&right, &left) };
    let has = |side: Side, row: &Row| match side {
        Side::Left => right.iter().any(|r| matches(row, r)),
        Side::Right => left.iter().any(|l| matches(l, row)),
    };
    match join.kind {
        JoinKind::Semi(side) => out.extend(kept(side).0.iter().filter(|row| has(side, row)).cloned()),
        JoinKind::Anti(side) => {
            let (rows, others) = kept(side);
            let key = |row: &Row, side: Side| {
                let (l, r) = join.on[0];
                row[if side == Side::Left { l } else { r }].clone()
            };
            let other = if side == Side::Left { Side::Right } else { Side::Left };
            out.extend(
                rows.iter()
                    .filter(|row| {
                        if join.null_aware && !others.is_empty() {
                            let null = others.iter().any(|o| key(o, other).is_none()) || key(row, side).is_none();
                            return !null && !has(side, row);
                        }
                        !has(side, row)
                    })
                    .cloned(),
            );
        }
        JoinKind::Mark(side) => out.extend(kept(side).0.iter().map(|row| {
            let mut row = row.clone();
            let mark = has(side, &row);
            row.push(Some(mark.to_string()));
            row
        })),
        kind => {
            for l in &left {
                for r in right.iter().filter(|r| matches(l, r)) {
                    out.push([l.clone(), r.clone()].concat());
                }
                if matches!(kind, JoinKind::Left | JoinKind::Full) && !has(Side::Left, l) {
                    out.push([l.clone(), vec![None; right_width]].concat());
                }
            }
            if matches!(kind, JoinKind::Right | JoinKind::Full) {
                out.extend(
                    right.iter().filter(|r| !has(Side::Right, r)).map(|r| [vec![None; left_width], r.clone()].concat()),
                );
            }
        }
    }
    out.sort();
    out
}

fn with_run<T>(budget: Arc<Budget>, parallel: &dyn Parallel, body: impl FnOnce(Run<'_>) -> T) -> T {
    let statement = Statement::new(1, budget);
    body(Run {
        statement: &statement,
        parallel,
        threads: 3,
        places: Places {
            lookup: Lookup::Nowhere,
            options: crate::ScanOptions::default(),
            turn: None,
            morsels_min: usize::MAX,
            attached: None,
        },
        traffic: &Arc::default(),
    })
}

fn run_join(join: &Join, strategy: Strategy) -> Result<Vec<Row>, ExecError> {
    with_run(Budget::unlimited(), &Serial, |run| {
        let flow = Flow::new(run, compile);
        let pipe = pipe_with(&flow, join, &OperatorPlace::default(), &Filters::new(), strategy)?;
        let schema = join.schema();
        assert_eq!(pipe.infos.len(), schema.fields().len());
        let mut rows = Vec::new();
        for morsel in 0..pipe.morsels() {
            pipe.run(morsel, &run, &mut |mut chunk| {
                assert!(chunk.rows() > 0 && chunk.rows() <= CHUNK_ROWS);
                check_kinds(&mut chunk, &pipe.infos);
                rows.extend(rows_of(&chunk.batch(&pipe.infos, &schema)?));
                Ok(true)
            })?;
        }
        rows.sort();
        Ok(rows)
    })
}

/// What is promised of the columns holds.
fn check_kinds(chunk: &mut crate::chunk::Chunk, infos: &[crate::chunk::vector::ColumnInfo]) {
    assert_eq!(chunk.columns(), infos.len());
    for (c, info) in infos.iter().enumerate() {
        let vector = chunk.column(c);
        for row in 0..vector.len() {
            assert!(info.nullable || vector.is_valid(row), "a NULL in {}", info.field);
            if let (Some((low, high)), true) = (info.bounds(), vector.is_valid(row)) {
                assert!((low..=high).contains(&vector.as_ints()[row]));
            }
        }
    }
}

/// Every kind, side, strategy, with and without a residual and NULLs that are equal.
fn check_all(left: &RecordBatch, right: &RecordBatch, made: (Made, Made), on: &[(usize, usize)], context: &str) {
    let columns = vec![left.num_columns() - 1, left.num_columns() + right.num_columns() - 1];
    let mut join = Join {
        left: plan_of(left, made.0),
        right: plan_of(right, made.1),
        kind: JoinKind::Inner,
        on: on.to_vec(),
        nulls_equal: false,
        null_aware: false,
        residual: None,
        build: Side::Left,
    };
    for kind in JoinKind::ALL {
        for (nulls_equal, null_aware) in [(false, false), (true, false), (false, true)] {
            if null_aware && !(matches!(kind, JoinKind::Anti(_)) && on.len() == 1) || nulls_equal && on.is_empty() {
                continue;
            }
            for residual in [None, Some(Predicate::Boolean(Arc::new(Less(columns.clone()))))] {
                if null_aware && residual.is_some() {
                    continue;
                }
                (join.kind, join.nulls_equal, join.null_aware, join.residual) =
                    (kind, nulls_equal, null_aware, residual);
                let expected = nested_loop(&join, left, right);
                for build in [Side::Left, Side::Right] {
                    for strategy in [Strategy::Auto, Strategy::Direct, Strategy::Ranked, Strategy::Hash] {
                        join.build = build;
                        let found = run_join(&join, strategy).unwrap();
                        let plan = Plan::Join(Box::new(join.clone()));
                        assert!(found == expected, "{context} {strategy:?} {plan}: {found:?}, not {expected:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_kind_over_every_type_of_key() {
    let mut random = Random::new(7);
    for key in KEYS {
        for (rows, range, nulls) in [((30, 40), 12, 6), ((25, 20), 200, 0), ((40, 3), 30, 9)] {
            let left = side(&[key], rows.0, range, nulls, &mut random);
            let right = side(&[key], rows.1, range, nulls, &mut random);
            for made in [
                (Made::OneSegment, Made::OneSegment),
                (Made::TwoSegments, Made::OneSegment),
                (Made::OneSegment, Made::Values),
                (Made::Values, Made::Values),
            ] {
                check_all(&left, &right, made, &[(0, 0)], &format!("{key:?} {rows:?} {made:?}"));
            }
        }
    }
}

#[test]
fn several_keys() {
    let mut random = Random::new(11);
    for keys in [
        vec![Key::Int, Key::Text],
        vec![Key::Wide, Key::Sparse],
        vec![Key::Float, Key::Wide, Key::Float],
        vec![Key::Truth, Key::Date, Key::Money],
        vec![Key::Huge, Key::Unsigned],
    ] {
        let left = side(&keys, 60, 3, 8, &mut random);
        let right = side(&keys, 50, 4, 8, &mut random);
        let on: Vec<(usize, usize)> = (0..keys.len()).map(|k| (k, k)).collect();
        for made in [(Made::OneSegment, Made::TwoSegments), (Made::Values, Made::OneSegment)] {
            check_all(&left, &right, made, &on, &format!("{keys:?} {made:?}"));
        }
    }
}

#[test]
fn cross_joins_and_joins_by_inequality() {
    let mut random = Random::new(13);
    for rows in [(20, 30), (1, 25), (25, 1), (0, 12), (12, 0), (0, 0)] {
        let left = side(&[Key::Int], rows.0, 9, 4, &mut random);
        let right = side(&[Key::Text], rows.1, 9, 4, &mut random);
        check_all(&left, &right, (Made::OneSegment, Made::TwoSegments), &[], &format!("{rows:?}"));
    }
}

#[test]
fn empty_sides_and_sides_of_nothing_but_null() {
    let mut random = Random::new(17);
    for key in [Key::Int, Key::Text, Key::Float] {
        for (rows, nulls) in [((0, 9), (0, 3)), ((9, 0), (3, 0)), ((7, 8), (1, 0)), ((7, 8), (0, 1)), ((5, 5), (1, 1))]
        {
            let left = side(&[key], rows.0, 5, nulls.0, &mut random);
            let right = side(&[key], rows.1, 5, nulls.1, &mut random);
            for made in [(Made::OneSegment, Made::OneSegment), (Made::Values, Made::OneSegment)] {
                check_all(&left, &right, made, &[(0, 0)], &format!("{key:?} {rows:?} {nulls:?}"));
            }
        }
    }
}

#[test]
fn keys_of_one_dictionary_are_compared_as_vids() {
    let mut random = Random::new(19);
    let batch = side(&[Key::Text], 50, 20, 7, &mut random);
    let plan = plan_of(&batch, Made::OneSegment);
    let most = |plan: &Plan, most: i64| {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![most]));
        plan.clone().filter(Predicate::Compare { column: 1, op: CompareOp::Lt, value: value.into() }).unwrap()
    };
    let kept = |most: i64| {
        let payload = batch.column(1).as_primitive::<Int64Type>();
        let mask: BooleanArray = payload.iter().map(|v| v.map(|v| v < most)).collect();
        arrow::compute::filter_record_batch(&batch, &mask).unwrap()
    };
    for kind in JoinKind::ALL {
        let join = Join {
            left: most(&plan, 30),
            right: most(&plan, 20),
            kind,
            on: vec![(0, 0)],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build: Side::Right,
        };
        assert_eq!(run_join(&join, Strategy::Auto).unwrap(), nested_loop(&join, &kept(30), &kept(20)));
    }
}

fn many(rows: usize, of: impl Fn(usize) -> i64) -> RecordBatch {
    let schema =
        Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("p", DataType::Int64, false)]));
    let keys: Int64Array = (0..rows).map(|i| Some(of(i))).collect();
    let payload: Int64Array = (0..rows as i64).map(Some).collect();
    RecordBatch::try_new(schema, vec![Arc::new(keys), Arc::new(payload)]).unwrap()
}

fn inner(left: Plan, right: Plan, on: Vec<(usize, usize)>) -> Join {
    Join {
        left,
        right,
        kind: JoinKind::Inner,
        on,
        nulls_equal: false,
        null_aware: false,
        residual: None,
        build: Side::Right,
    }
}

/// Rows that come out, counted, with the memory that was charged at most.
fn count(join: &Join, strategy: Strategy, budget: &Arc<Budget>, stop_at: usize) -> Result<usize, ExecError> {
    let scheduler = Scheduler::new(Topology::synthetic(1, 1, 3, 1).into(), Config::default());
    let threads = SchedParallel::new(scheduler, Statement::new(1, Budget::unlimited()));
    with_run(budget.clone(), &threads, |run| {
        let flow = Flow::new(run, compile);
        let pipe = pipe_with(&flow, join, &OperatorPlace::default(), &Filters::new(), strategy)?;
        let mut rows = 0;
        for morsel in 0..pipe.morsels() {
            pipe.run(morsel, &run, &mut |chunk| {
                assert!(chunk.rows() <= CHUNK_ROWS);
                rows += chunk.rows();
                if rows >= stop_at {
                    run.statement.cancel();
                }
                Ok(true)
            })?;
        }
        Ok(rows)
    })
}

#[test]
fn a_huge_fan_out_takes_little_memory_and_can_be_stopped() {
    let rows = 6000;
    let plan = plan_of(&many(rows, |_| 5), Made::OneSegment);
    let join = inner(plan.clone(), plan, vec![(0, 0)]);
    let budget = Budget::new("test", 1 << 20);
    assert_eq!(count(&join, Strategy::Auto, &budget, usize::MAX).unwrap(), rows * rows);
    assert_eq!(count(&join, Strategy::Hash, &budget, usize::MAX).unwrap(), rows * rows);
    assert!(matches!(count(&join, Strategy::Auto, &budget, 1 << 20), Err(ExecError::Cancelled)));
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_budget_that_is_too_small_is_a_clear_error() {
    let plan = plan_of(&many(50_000, |i| i as i64 * 7919), Made::OneSegment);
    let join = inner(plan.clone(), plan, vec![(0, 0)]);
    for limit in [1 << 10, 900 << 10] {
        for strategy in [Strategy::Auto, Strategy::Ranked, Strategy::Hash] {
            let budget = Budget::new("the statement's memory", limit);
            let error = count(&join, strategy, &budget, usize::MAX).unwrap_err();
            assert!(matches!(error, ExecError::Memory(_)), "{error}");
            assert_eq!(budget.used_bytes(), 0);
        }
    }
}

#[test]
fn large_sides_of_every_strategy_give_every_pair() {
    let rows = 150_000usize;
    for (spread, repeats) in [(1i64, 1usize), (4, 1), (1, 3), (50, 1), (50, 2), (1_000_003, 1), (1_000_003, 2)] {
        let build = many(rows, |i| (i / repeats) as i64 * spread);
        let probe = many(rows, |i| ((i * 7) % (2 * rows)) as i64 * spread);
        let expected: usize = (0..rows)
            .map(|i| {
                let key = (i * 7) % (2 * rows);
                (0..repeats).filter(|r| key * repeats + r < rows).count()
            })
            .sum();
        let join = inner(plan_of(&probe, Made::TwoSegments), plan_of(&build, Made::OneSegment), vec![(0, 0)]);
        for strategy in [Strategy::Auto, Strategy::Direct, Strategy::Ranked, Strategy::Hash] {
            assert_eq!(
                count(&join, strategy, &Budget::unlimited(), usize::MAX).unwrap(),
                expected,
                "{spread} {repeats}"
            );
        }
    }
}
