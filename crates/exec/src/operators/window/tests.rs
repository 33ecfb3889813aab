//! Random windows over random tables: the engine, whose pieces have 32 rows here, and the reference agree.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::row::{RowConverter, SortField};
use numa::{Allocator, Budget};
use random::Random;
use sched::Statement;
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};

use super::*;
use crate::plan::expression::CompareOp;
use crate::plan::predicate::Predicate;
use crate::plan::{
    Amount, Frame, FrameBound, FrameExclusion, FrameOffset, FrameUnits, GroupedRows, OpaqueAggregate, OpaqueGroups,
};
use crate::run::compile::compile;
use crate::tasks::places::{Lookup, Places};
use crate::tasks::profile::OperatorPlace;

const COLUMNS: [&str; 12] = ["g", "s", "t", "f", "d", "ts", "dec", "wide", "v", "x", "b", "n"];
const G: usize = 0;
const S: usize = 1;
const T: usize = 2;
const F: usize = 3;
const D: usize = 4;
const TS: usize = 5;
const DEC: usize = 6;
const WIDE: usize = 7;
const V: usize = 8;
const X: usize = 9;
const B: usize = 10;
const N: usize = 11;

/// All values, one after the other; past `n` bytes in a frame it fails.
#[derive(Debug)]
struct Joined(usize);

struct JoinedGroups(Vec<String>, usize);

impl OpaqueAggregate for Joined {
    fn name(&self) -> String {
        "joined".into()
    }
    fn data_type(&self) -> &DataType {
        &DataType::Utf8
    }
    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError> {
        Ok(Box::new(JoinedGroups(Vec::new(), self.0)))
    }
}

impl JoinedGroups {
    fn push(&mut self, group: usize, text: &str) -> Result<(), ExecError> {
        self.0[group].push_str(text);
        match self.0[group].len() > self.1 {
            true => Err(ExecError::Evaluation("too long".into())),
            false => Ok(()),
        }
    }
}

impl OpaqueGroups for JoinedGroups {
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError> {
        self.0.resize(rows.total, String::new());
        let texts = cast(&arguments[0], &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        for (row, group) in rows.counted() {
            self.push(group, if texts.is_null(row) { "-" } else { texts.value(row) })?;
            self.push(group, ";")?;
        }
        Ok(())
    }
    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError> {
        self.0.resize(total, String::new());
        for (text, &group) in state[0].as_string::<i32>().iter().zip(groups) {
            self.push(group, text.unwrap_or(""))?;
        }
        Ok(())
    }
    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(vec![self.finish()?])
    }
    fn finish(&mut self) -> Result<ArrayRef, ExecError> {
        Ok(Arc::new(StringArray::from_iter_values(std::mem::take(&mut self.0))))
    }
    fn bytes(&self) -> usize {
        self.0.iter().map(String::len).sum()
    }
}

fn column(random: &mut Random, number: usize, rows: usize) -> ArrayRef {
    let few = [1, 2, 7, 40, 1000][random.below_u64(5) as usize];
    let nulls = random.one_in(2) && number != X;
    let mut numbers: Vec<Option<i64>> = Vec::new();
    for _ in 0..rows {
        let value = random.below_u64(few) as i64 - few as i64 / 3;
        numbers.push((!nulls || !random.one_in(4)).then_some(value));
    }
    let some = || numbers.iter().copied();
    let extreme = random.one_in(3);
    match number {
        S => Arc::new(some().map(|v| v.map(|v| format!("some text, {v}"))).collect::<StringViewArray>()),
        F => {
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, -0.0, 0.0];
            let float = |v: i64| if extreme && v % 3 == 0 { special[v.rem_euclid(6) as usize] } else { v as f64 / 2.0 };
            Arc::new(some().map(|v| v.map(float)).collect::<Float64Array>())
        }
        D => Arc::new(some().map(|v| v.map(|v| 11_000 + v as i32 * 9)).collect::<Date32Array>()),
        TS => Arc::new(some().map(|v| v.map(|v| v * 7_000_000_000_007)).collect::<TimestampMicrosecondArray>()),
        DEC => decimals(some().map(|v| v.map(i128::from)), 12),
        WIDE if extreme => decimals(some().map(|v| v.map(|v| i128::from(v) * 10i128.pow(35))), 38),
        WIDE => decimals(some().map(|v| v.map(i128::from)), 38),
        V if extreme => Arc::new(some().map(|v| v.map(|v| v.wrapping_mul(i64::MAX / 700))).collect::<Int64Array>()),
        X => Arc::new(some().map(|v| v.map(|v| v as f64 / 4.0)).collect::<Float64Array>()),
        B => Arc::new(some().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        N => Arc::new(some().map(|v| v.map(|v| v.rem_euclid(9) - 2)).collect::<Int64Array>()),
        _ => Arc::new(some().collect::<Int64Array>()),
    }
}

fn decimals(values: impl Iterator<Item = Option<i128>>, digits: u8) -> ArrayRef {
    Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(digits, 2).unwrap())
}

fn data_type(number: usize) -> DataType {
    match number {
        S => DataType::Utf8View,
        F | X => DataType::Float64,
        D => DataType::Date32,
        TS => DataType::Timestamp(TimeUnit::Microsecond, None),
        DEC => DataType::Decimal128(12, 2),
        WIDE => DataType::Decimal128(38, 2),
        B => DataType::Boolean,
        _ => DataType::Int64,
    }
}

/// A table in one or two segments, or given rows.
fn input(random: &mut Random) -> Plan {
    let rows = [0, 1, 2, 30, 33, 70, 150, 260][random.below_u64(8) as usize];
    let fields = COLUMNS.iter().enumerate().map(|(c, name)| Field::new(*name, data_type(c), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |random: &mut Random, rows: usize| {
        let columns = (0..COLUMNS.len()).map(|c| column(random, c, rows)).collect();
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    };
    if random.one_in(3) {
        return Plan::Values { schema: schema.clone(), batches: vec![batch(random, rows)] };
    }
    let mut version = TableVersion::empty(&schema);
    for part in [rows / 3, rows - rows / 3] {
        if part > 0 {
            let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
            stager.append(&batch(random, part)).unwrap();
            let staged = vec![stager.finish().unwrap()];
            let allocators: [ColumnAllocator; 12] = std::array::from_fn(|_| ColumnAllocator::unplaced());
            let part = build_part(&schema, staged, &allocators, &Serial).unwrap();
            version = version.with_appended(part);
        }
    }
    Plan::scan("t", Arc::new(version), (0..COLUMNS.len()).collect()).unwrap()
}

fn frame(random: &mut Random, order: &[SortKey]) -> Frame {
    use FrameBound::{CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding};
    let units = random.pick(&[FrameUnits::Rows, FrameUnits::Range, FrameUnits::Groups]);
    let offset = |random: &mut Random| match (units, order) {
        (FrameUnits::Rows | FrameUnits::Groups, _) => {
            let far = if random.one_in(12) { u64::MAX } else { 90 };
            let near = random.pick(&[1, 3, 12, far]);
            Some(FrameOffset::Count(random.below_u64(near)))
        }
        (FrameUnits::Range, [key]) => match key.column {
            F | X => Some(FrameOffset::Float(random.pick(&[0.0, 0.5, 3.0, 1e300, f64::INFINITY]))),
            D | TS => Some(FrameOffset::Interval {
                months: random.below_u64(3) as i32,
                days: random.below_u64(40) as i32,
                nanoseconds: random.pick(&[0, 1000, 90_000_000_000_000]),
            }),
            S | B => None,
            _ => Some(FrameOffset::Integer(random.pick(&[0, 1, 5, 300, 1i128 << 100]))),
        },
        _ => None,
    };
    let bound = |random: &mut Random, unbounded: FrameBound| match (random.below_u64(4), offset(random)) {
        (0, _) => unbounded,
        (1, Some(offset)) => Preceding(offset),
        (2, Some(offset)) => Following(offset),
        _ => CurrentRow,
    };
    use FrameExclusion::{Group, NoOthers, Ties};
    let exclusion = random.pick(&[NoOthers, NoOthers, NoOthers, FrameExclusion::CurrentRow, Group, Ties]);
    Frame { units, start: bound(random, UnboundedPreceding), end: bound(random, UnboundedFollowing), exclusion }
}

fn call(random: &mut Random, order: &[SortKey]) -> WindowCall {
    let amount = |random: &mut Random| match random.below_u64(4) {
        0 => Amount::Column(N),
        1 if random.one_in(3) => Amount::Constant(None),
        _ => Amount::Constant(Some(random.below_u64(40) as i64 - if random.one_in(9) { 20 } else { 0 })),
    };
    let value = random.below_u64(COLUMNS.len() as u64) as usize;
    let default = (random.one_in(2)).then_some(()).and_then(|()| match value {
        G | T | V | N => Some(random.pick(&[G, T, V, N])),
        F | X => Some(random.pick(&[F, X])),
        other => random.one_in(2).then_some(other),
    });
    let (mut arguments, mut result) = (vec![value], data_type(value));
    let function = match random.below_u64(18) {
        place @ 0..=5 => {
            arguments.clear();
            result = if place < 4 { random.pick(&[DataType::UInt64, DataType::Int64]) } else { DataType::Float64 };
            match place {
                0 => WindowFunction::RowNumber,
                1 => WindowFunction::Rank,
                2 => WindowFunction::DenseRank,
                3 => WindowFunction::Ntile(random.pick(&[Some(1), Some(2), Some(3), Some(7), Some(i64::MAX), None])),
                4 => WindowFunction::PercentRank,
                _ => WindowFunction::CumeDist,
            }
        }
        6 | 7 => WindowFunction::Lag { offset: amount(random), default },
        8 => WindowFunction::Lead { offset: amount(random), default },
        9 => WindowFunction::FirstValue,
        10 => WindowFunction::LastValue,
        11 => WindowFunction::NthValue(Amount::Constant(random.pick(&[Some(1), Some(2), Some(30), None]))),
        _ => {
            let (function, argument, data_type) = aggregate(random, value);
            arguments = argument;
            result = data_type;
            let distinct = random.one_in(4) && !matches!(function, AggregateFunction::Opaque(_));
            let distinct = distinct && !arguments.is_empty();
            let floats = arguments.first().is_some_and(|a| matches!(*a, F | X));
            let sums = matches!(function, AggregateFunction::Sum | AggregateFunction::Avg);
            WindowFunction::Aggregate { function, distinct: distinct && !(floats && sums) }
        }
    };
    let is_aggregate = matches!(function, WindowFunction::Aggregate { .. });
    WindowCall {
        function,
        arguments,
        filter: (is_aggregate && random.one_in(4)).then_some(B),
        ignore_nulls: random.one_in(3),
        frame: frame(random, order),
        field: Arc::new(Field::new("w", result, true)),
    }
}

/// A call that gives the same whichever of its peers comes first: a window below may have another order.
fn steady(random: &mut Random, order: &[SortKey]) -> WindowCall {
    loop {
        let call = call(random, order);
        let by_rows = call.frame.units == FrameUnits::Rows && call.frame != Frame::WHOLE;
        let fits = match &call.function {
            WindowFunction::Rank | WindowFunction::DenseRank | WindowFunction::PercentRank => true,
            WindowFunction::CumeDist => true,
            WindowFunction::Aggregate { function: AggregateFunction::Opaque(_), .. } => false,
            WindowFunction::Aggregate { .. } => !by_rows,
            _ => false,
        };
        if fits {
            return call;
        }
    }
}

fn aggregate(random: &mut Random, any: usize) -> (AggregateFunction, Vec<usize>, DataType) {
    let number = random.pick(&[G, DEC, WIDE, V, V, X]);
    match random.below_u64(9) {
        0 => (AggregateFunction::CountRows, Vec::new(), DataType::Int64),
        1 => (AggregateFunction::Count, vec![any], DataType::Int64),
        2 | 3 => (
            AggregateFunction::Sum,
            vec![number],
            match number {
                DEC => DataType::Decimal128(22, 2),
                WIDE => DataType::Decimal128(38, 2),
                X => DataType::Float64,
                _ => DataType::Int64,
            },
        ),
        4 => (
            AggregateFunction::Avg,
            vec![number],
            match number {
                DEC => DataType::Decimal128(16, 6),
                WIDE => DataType::Decimal128(38, 6),
                _ => DataType::Float64,
            },
        ),
        5 => (AggregateFunction::Min, vec![any], data_type(any)),
        6 => (AggregateFunction::Max, vec![any], data_type(any)),
        _ => {
            let limit = random.pick(&[usize::MAX, 300]);
            (AggregateFunction::Opaque(Arc::new(Joined(limit))), vec![random.pick(&[G, S, V])], DataType::Utf8)
        }
    }
}

fn window(random: &mut Random, input: Plan) -> Plan {
    let partition = (0..random.below_u64(3)).map(|_| random.pick(&[G, S, T, F, D])).collect();
    let keys = random.pick(&[0, 1, 1, 1, 2]);
    let mut order = Vec::new();
    for _ in 0..keys {
        let column = random.below_u64(COLUMNS.len() as u64) as usize;
        order.push(SortKey { column, descending: random.one_in(2), nulls_first: random.one_in(2) });
    }
    let calls = (0..1 + random.below_u64(3)).map(|_| call(random, &order)).collect();
    input.window(partition, order, calls).unwrap()
}

/// Windows over one another, the upper one with an order that begins the lower one's at times; perhaps a filter.
fn plan(random: &mut Random) -> Plan {
    let mut plan = input(random);
    plan = window(random, plan);
    if let Plan::Window(below) = plan.clone()
        && random.one_in(2)
    {
        let keys = random.below_u64(below.order.len() as u64 + 1) as usize;
        let order = below.order[..keys].to_vec();
        let calls = (0..1 + random.below_u64(2)).map(|_| steady(random, &order)).collect();
        plan = plan.window(below.partition.clone(), order, calls).unwrap();
    } else if random.one_in(3) {
        let key = SortKey { column: random.pick(&[G, S, T]), descending: random.one_in(2), nulls_first: false };
        let calls = (0..1 + random.below_u64(2)).map(|_| steady(random, &[key])).collect();
        plan = plan.window(vec![random.pick(&[G, S, D])], vec![key], calls).unwrap();
    }
    if random.one_in(3) {
        let value = Arc::new(Int64Array::from(vec![random.below_u64(5) as i64])) as ArrayRef;
        plan = plan.filter(Predicate::Compare { column: G, op: CompareOp::LtEq, value: value.into() }).unwrap();
    }
    plan
}

fn run(plan: &Plan) -> Result<RecordBatch, ExecError> {
    let statement = Statement::new(1, Budget::unlimited());
    let options = crate::ScanOptions::default();
    let places = Places { lookup: Lookup::Nowhere, options, turn: None, morsels_min: usize::MAX, attached: None };
    let traffic = Arc::default();
    let run = Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &traffic };
    let flow = Flow::new(run, compile);
    let rows = flow.rows(plan, &OperatorPlace::default(), &Filters::new())?;
    let columns = rows.infos.iter().zip(&rows.columns).map(|(info, vector)| info.to_arrow(vector)).collect();
    Ok(RecordBatch::try_new(plan.schema(), columns).unwrap())
}

/// Every row as bytes, floats with one zero and one NaN.
fn rows(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(|c| match c.data_type() {
            DataType::Float64 => {
                let floats = c.as_primitive::<arrow::datatypes::Float64Type>();
                Arc::new(floats.iter().map(|v| v.map(one)).collect::<Float64Array>()) as ArrayRef
            }
            _ => c.clone(),
        })
        .collect();
    let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let bytes = RowConverter::new(fields).unwrap().convert_columns(&columns).unwrap();
    let mut rows: Vec<Vec<u8>> = bytes.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort();
    rows
}

fn check(seed: u64, plan: Plan) {
    let expected = crate::reference::execute(&plan);
    for plan in [plan.clone(), crate::optimize(plan)] {
        match (&expected, run(&plan)) {
            (Ok(expected), Ok(got)) => {
                let expected = concat_batches(&plan.schema(), expected).unwrap();
                if rows(&expected) != rows(&got) {
                    let show = |batch: &RecordBatch| {
                        arrow::util::pretty::pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string()
                    };
                    panic!("seed {seed}\n{plan}\nexpected\n{}\ngot\n{}", show(&expected), show(&got));
                }
            }
            (Err(_), Err(ExecError::Panicked(text))) => panic!("seed {seed}\n{plan}\n{text}"),
            (Err(_), _) => {}
            (Ok(_), Err(error)) => panic!("seed {seed}\n{plan}\n{error}"),
        }
    }
}

#[test]
fn random_windows() {
    (0..900).for_each(|seed| check(seed, plan(&mut Random::new(seed))));
}

/// Aggregates over whole partitions are grouped: no window is left of them.
#[test]
fn totals() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let input = input(random);
        let partition = (0..random.below_u64(3)).map(|_| random.pick(&[G, S, T, F, D])).collect();
        let key = SortKey { column: random.pick(&[G, S, V]), descending: false, nulls_first: true };
        let order = if random.one_in(3) { vec![key] } else { Vec::new() };
        let by_peers = Frame { units: FrameUnits::Range, end: FrameBound::CurrentRow, ..Frame::WHOLE };
        let mut total = || loop {
            let mut call = call(random, &order);
            call.frame = if order.is_empty() { random.pick(&[Frame::WHOLE, by_peers]) } else { Frame::WHOLE };
            match &call.function {
                WindowFunction::Aggregate { function: AggregateFunction::Opaque(_), .. } => {}
                WindowFunction::Aggregate { .. } => return call,
                _ => {}
            }
        };
        let calls = vec![total(), total()];
        let plan = input.window(partition, order, calls).unwrap();
        let grouped = crate::optimize(plan.clone()).to_string();
        assert!(!grouped.contains("Window"), "seed {seed}\n{grouped}");
        check(seed, plan);
    }
}

/// An error of the reference is one of the engine where no filter may have dropped what fails.
#[test]
fn what_fails_fails() {
    let mut failed = 0;
    for seed in 10_000..11_000 {
        let plan = plan(&mut Random::new(seed));
        if !matches!(plan, Plan::Filter { .. }) && crate::reference::execute(&plan).is_err() {
            assert!(run(&plan).is_err(), "seed {seed}\n{plan}");
            failed += 1;
        }
    }
    assert!(failed > 0, "nothing failed");
}

fn numbers(values: &[i64]) -> Plan {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
    Plan::Values { schema, batches: vec![batch] }
}

fn simple(function: WindowFunction, arguments: Vec<usize>, frame: Frame) -> WindowCall {
    let field = Arc::new(Field::new("w", DataType::Int64, true));
    WindowCall { function, arguments, filter: None, ignore_nulls: false, frame, field }
}

#[test]
fn a_total_that_does_not_fit_is_an_error_in_the_frame_that_has_it_only() {
    let sum = || WindowFunction::Aggregate { function: AggregateFunction::Sum, distinct: false };
    let frame = |end| Frame { end, ..Frame::WHOLE };
    let input = || numbers(&[i64::MAX, 1, -2]);
    let key = SortKey { column: 0, descending: false, nulls_first: false };
    let all = input().window(Vec::new(), vec![key], vec![simple(sum(), vec![0], frame(FrameBound::CurrentRow))]);
    assert_eq!(rows(&run(&all.unwrap()).unwrap()).len(), 3);
    let key = SortKey { descending: true, ..key };
    let all = input().window(Vec::new(), vec![key], vec![simple(sum(), vec![0], frame(FrameBound::CurrentRow))]);
    assert!(run(&all.unwrap()).unwrap_err().to_string().contains("overflow"));
}

#[test]
fn numbers_below_one_are_errors() {
    let frame = Frame::WHOLE;
    for function in [WindowFunction::NthValue(Amount::Constant(Some(0))), WindowFunction::Ntile(Some(0))] {
        let arguments = if matches!(function, WindowFunction::Ntile(_)) { Vec::new() } else { vec![0] };
        let plan = |values: &[i64]| {
            numbers(values)
                .window(Vec::new(), Vec::new(), vec![simple(function.clone(), arguments.clone(), frame)])
                .unwrap()
        };
        assert!(run(&plan(&[1])).is_err());
        assert_eq!(run(&plan(&[])).unwrap().num_rows(), 0);
    }
}

#[test]
fn a_window_over_one_that_sorts_enough_has_no_sort_of_its_own() {
    let key = SortKey { column: 0, descending: false, nulls_first: false };
    let number = || vec![simple(WindowFunction::RowNumber, Vec::new(), Frame::WHOLE)];
    let plan = numbers(&[3, 1, 2]).window(Vec::new(), vec![key], number()).unwrap();
    let plan = plan.window(Vec::new(), Vec::new(), number()).unwrap();
    let Plan::Window(window) = &plan else { unreachable!("it is one") };
    assert_eq!(levels(window).len(), 2);
    let Plan::Window(below) = &window.input else { unreachable!("it is one") };
    let over = |column| Window { order: vec![SortKey { column, ..key }], ..window.as_ref().clone() };
    assert_eq!(levels(below).len(), 1);
    // What the lower one makes is not there yet.
    assert_eq!(levels(&over(1)).len(), 1);
}

#[test]
fn working_memory_is_charged_and_given_back() {
    let budget = Budget::unlimited();
    let statement = Statement::new(1, budget.clone());
    let options = crate::ScanOptions::default();
    let places = Places { lookup: Lookup::Nowhere, options, turn: None, morsels_min: usize::MAX, attached: None };
    let traffic = Arc::default();
    let run = Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &traffic };
    let flow = Flow::new(run, compile);
    let values: Vec<i64> = (0..5000).collect();
    let sum = WindowFunction::Aggregate { function: AggregateFunction::Sum, distinct: false };
    let plan = numbers(&values).window(Vec::new(), Vec::new(), vec![simple(sum, vec![0], Frame::WHOLE)]).unwrap();
    let rows = flow.rows(&plan, &OperatorPlace::default(), &Filters::new()).unwrap();
    assert!(budget.peak_bytes() > 5000 * 20, "{}", budget.peak_bytes());
    drop(rows);
    assert_eq!(budget.used_bytes(), 0);
}
