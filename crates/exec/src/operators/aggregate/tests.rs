//! Groups of random rows against a map of lists of rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema};
use numa::{Allocator, Budget, NodeId};
use proptest::prelude::*;
use random::Random;
use sched::Statement;
use storage::{ColumnAllocator, Dictionary, Serial, Stager, TableVersion, build_part};

use super::strategy::Strategy;
use super::*;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Vector};
use crate::chunk::{Chunk, Origin, RowIds, Rows};
use crate::pipe::flow::Flow;
use crate::pipe::kept::{collect, of_rows};
use crate::plan::{AggregateFunction, GroupedRows, OpaqueAggregate, OpaqueGroups};
use crate::run::compile::compile;
use crate::scan::source::column_infos;
use crate::tasks::locate::PageMaps;
use crate::tasks::places::{Lookup, Places};
use crate::tasks::pretended::{Pretended, on};

/// A value, floats as bits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Null,
    Int(i128),
    Float(u64),
    Text(String),
}

fn values(array: &ArrayRef) -> Vec<Value> {
    fn of<T>(items: impl Iterator<Item = Option<T>>, f: impl Fn(T) -> Value) -> Vec<Value> {
        items.map(|v| v.map_or(Value::Null, &f)).collect()
    }
    match array.data_type() {
        DataType::Float64 => of(array.as_primitive::<Float64Type>().iter(), |v| Value::Float(v.to_bits())),
        DataType::Decimal128(..) => of(array.as_primitive::<Decimal128Type>().iter(), Value::Int),
        DataType::Utf8View => of(array.as_string_view().iter(), |v| Value::Text(v.to_string())),
        DataType::Boolean => of(array.as_boolean().iter(), |v| Value::Int(i128::from(v))),
        _ => {
            let wide = cast(array, &DataType::Int64).unwrap();
            of(wide.as_primitive::<Int64Type>().iter(), |v| Value::Int(i128::from(v)))
        }
    }
}

/// The sum of what it is given, wrapping; NULL over no row.
#[derive(Debug)]
struct Wrapping(DataType);

struct WrappingGroups(Vec<Option<i64>>);

impl OpaqueAggregate for Wrapping {
    fn name(&self) -> String {
        "wrapping".into()
    }
    fn data_type(&self) -> &DataType {
        &self.0
    }
    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError> {
        Ok(Box::new(WrappingGroups(Vec::new())))
    }
}

impl OpaqueGroups for WrappingGroups {
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError> {
        self.0.resize(rows.total, None);
        let values = cast(&arguments[0], &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        for (row, group) in rows.counted().filter(|(row, _)| values.is_valid(*row)) {
            let sum = &mut self.0[group];
            *sum = Some(sum.unwrap_or(0).wrapping_add(values.value(row)));
        }
        Ok(())
    }
    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError> {
        self.update(state, GroupedRows { groups, filter: None, total })
    }
    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(vec![self.finish()?])
    }
    fn finish(&mut self) -> Result<ArrayRef, ExecError> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.0))))
    }
    fn bytes(&self) -> usize {
        16 * self.0.capacity()
    }
}

fn words() -> Vec<String> {
    let mut words: Vec<String> = (0..40).map(|i| format!("{}word {i}", "a longer ".repeat(i % 3))).collect();
    words.sort();
    words
}

fn dictionary() -> (ColumnInfo, Arc<Dictionary>) {
    let schema = Arc::new(Schema::new(vec![Field::new("vid", DataType::Utf8View, true)]));
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..8).flat_map(|_| words())));
    let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&batch).unwrap();
    let staged = vec![stager.finish().unwrap()];
    let part = build_part(&schema, staged, &[ColumnAllocator::unplaced()], &Serial).unwrap();
    let version = TableVersion::empty(&schema).with_appended(part);
    let info = column_infos(&version, &[0]).pop().unwrap();
    let ColumnKind::Vid(dictionary) = info.kind.clone() else { panic!("strings have vids") };
    assert_eq!(dictionary.len(), words().len());
    (info, dictionary)
}

/// Columns of every kind; column 7 is a condition.
fn infos() -> Vec<ColumnInfo> {
    let field = |name: &str, t: DataType| Arc::new(Field::new(name, t, true));
    let mut vid = dictionary().0;
    vid.nullable = true;
    vec![
        ColumnInfo::int(field("small", DataType::Int64), -3, 5, true),
        ColumnInfo::int(field("large", DataType::Int64), 0, 999_999, false),
        ColumnInfo::int(field("full", DataType::Int64), i64::MIN, i64::MAX, true),
        ColumnInfo::plain(field("float", DataType::Float64)),
        vid,
        ColumnInfo::plain(field("text", DataType::Utf8View)),
        ColumnInfo::plain(field("wide", DataType::Decimal128(30, 2))),
        ColumnInfo::int(field("flag", DataType::Boolean), 0, 1, true),
        ColumnInfo::plain(field("narrow", DataType::Int32)),
        ColumnInfo::int(field("price", DataType::Decimal128(10, 2)), -90_000, 90_000, false),
        ColumnInfo::int(field("day", DataType::Date32), 9_000, 9_300, true),
    ]
}

fn column(info: &ColumnInfo, rows: usize, random: &mut Random) -> Vector {
    let null = |random: &mut Random| info.nullable && random.one_in(5);
    let ints: Vec<Option<i64>> = (0..rows)
        .map(|_| {
            if null(random) {
                return None;
            }
            Some(match info.field.name().as_str() {
                "full" => [i64::MIN, i64::MAX, 0, -1][random.below_u64(4) as usize],
                "large" => (random.below_u64(300) * 3_331) as i64,
                "narrow" => random.below_u64(50) as i64 - 25,
                _ => {
                    let (low, high) = info.bounds().unwrap_or((0, 39));
                    low + random.below_u64((high - low + 1).min(60) as u64) as i64
                }
            })
        })
        .collect();
    let valid = || ints.contains(&None).then(|| ints.iter().map(Option::is_some).collect::<Vec<bool>>());
    match (&info.kind, info.data_type()) {
        (ColumnKind::Int { .. }, _) => {
            use crate::chunk::vector::Data;
            Vector { data: Data::Int(ints.iter().map(|v| v.unwrap_or(0)).collect()), valid: valid() }
        }
        (ColumnKind::Vid(_), _) => {
            use crate::chunk::vector::Data;
            Vector { data: Data::Vid(ints.iter().map(|v| v.unwrap_or(0) as u32).collect()), valid: valid() }
        }
        (ColumnKind::Float, _) => {
            let special = [0.0, -0.0, f64::NAN, 1.5, -2.25, f64::INFINITY, 7.75];
            let floats = ints.iter().map(|v| v.map(|v| special[v as usize % 7]));
            info.vector_of(&(Arc::new(floats.collect::<Float64Array>()) as ArrayRef))
        }
        (_, DataType::Utf8View) => {
            let texts = ints.iter().map(|v| v.map(|v| words()[v as usize].clone()));
            info.vector_of(&(Arc::new(texts.collect::<StringViewArray>()) as ArrayRef))
        }
        (_, DataType::Decimal128(p, s)) => {
            let wide = ints.iter().map(|v| v.map(|v| i128::from(v - 20) * 1_000_000_000_000_000_000_007));
            let wide = wide.collect::<Decimal128Array>().with_precision_and_scale(*p, *s).unwrap();
            info.vector_of(&(Arc::new(wide) as ArrayRef))
        }
        _ => {
            let narrow = ints.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>();
            info.vector_of(&(Arc::new(narrow) as ArrayRef))
        }
    }
}

fn call(function: AggregateFunction, arguments: &[usize], infos: &[ColumnInfo]) -> AggregateCall {
    use AggregateFunction as F;
    let input = arguments.first().map(|&c| infos[c].data_type().clone());
    let result = match (&function, input) {
        (F::CountRows | F::Count | F::Opaque(_), _) | (_, None) => DataType::Int64,
        (F::Min | F::Max, Some(t)) => t,
        (F::Sum, Some(DataType::Decimal128(p, s))) => DataType::Decimal128((p + 10).min(38), s),
        (F::Avg, Some(DataType::Decimal128(p, s))) => DataType::Decimal128((p + 4).min(38), s + 4),
        (F::Sum, Some(DataType::Float64)) | (F::Avg, _) => DataType::Float64,
        (F::Sum, _) => DataType::Int64,
        (other, _) => unreachable!("{other:?} is not made here"),
    };
    let name = format!("{function:?}").to_lowercase();
    let field = Arc::new(Field::new(format!("{name}(x)"), result, true));
    AggregateCall { function, arguments: arguments.to_vec(), distinct: false, filter: None, order: Vec::new(), field }
}

fn random_call(infos: &[ColumnInfo], random: &mut Random) -> AggregateCall {
    use AggregateFunction as F;
    let numbers = [0, 1, 3, 6, 8, 9];
    let any = random.below_u64(infos.len() as u64) as usize;
    let number = numbers[random.below_u64(6) as usize];
    let mut call = match random.below_u64(8) {
        0 => call(F::CountRows, &[], infos),
        1 => call(F::Count, &[any], infos),
        2 => call(F::Count, &[any, number], infos),
        3 => call(F::Sum, &[number], infos),
        4 => call(F::Avg, &[number], infos),
        5 => call(F::Min, &[any], infos),
        6 => call(F::Max, &[any], infos),
        _ => call(F::Opaque(Arc::new(Wrapping(DataType::Int64))), &[[0, 1, 8][random.below_u64(3) as usize]], infos),
    };
    call.distinct = random.one_in(4);
    call.filter = random.one_in(4).then_some(7);
    call
}

/// What a call gives for some rows; the obvious way.
fn expected(call: &AggregateCall, rows: &[usize], table: &[Vec<Value>]) -> Value {
    use AggregateFunction as F;
    let filtered = rows.iter().copied().filter(|&r| call.filter.is_none_or(|f| table[f][r] == Value::Int(1)));
    let arguments =
        |row: usize| -> Vec<Value> { call.arguments.iter().map(|&c| canonical_key(&table[c][row])).collect() };
    let opaque = matches!(call.function, F::Opaque(_));
    let mut counted: Vec<usize> =
        filtered.filter(|&r| opaque || call.arguments.iter().all(|&c| table[c][r] != Value::Null)).collect();
    if call.distinct && !call.arguments.is_empty() {
        let mut seen = std::collections::BTreeSet::new();
        counted.retain(|&r| seen.insert(arguments(r)));
    }
    let raw = |row: usize| match call.distinct {
        true => canonical_key(&table[call.arguments[0]][row]),
        false => table[call.arguments[0]][row].clone(),
    };
    let floats =
        || counted.iter().filter_map(|&r| if let Value::Float(v) = raw(r) { Some(f64::from_bits(v)) } else { None });
    let ints = || counted.iter().filter_map(|&r| if let Value::Int(v) = raw(r) { Some(v) } else { None });
    let count = counted.len();
    if !matches!(call.function, F::CountRows | F::Count | F::Opaque(_)) && count == 0 {
        return Value::Null;
    }
    let is_float = !call.arguments.is_empty() && floats().next().is_some();
    match &call.function {
        F::CountRows | F::Count => Value::Int(count as i128),
        F::Sum if is_float => Value::Float(floats().sum::<f64>().to_bits()),
        F::Sum => Value::Int(ints().sum()),
        F::Avg if is_float => Value::Float((floats().sum::<f64>() / count as f64).to_bits()),
        F::Avg => match call.field.data_type() {
            DataType::Float64 => Value::Float((ints().sum::<i128>() as f64 / count as f64).to_bits()),
            _ => {
                let (total, count) = (ints().sum::<i128>() * 10_000, count as i128);
                let away = if 2 * (total % count).abs() >= count { total.signum() } else { 0 };
                Value::Int(total / count + away)
            }
        },
        F::Min if is_float => Value::Float(floats().map(one_nan).min_by(f64::total_cmp).unwrap().to_bits()),
        F::Max if is_float => Value::Float(floats().map(one_nan).max_by(f64::total_cmp).unwrap().to_bits()),
        F::Min => counted.iter().map(|&r| raw(r)).min().unwrap(),
        F::Max => counted.iter().map(|&r| raw(r)).max().unwrap(),
        F::Opaque(_) => match ints().next() {
            None => Value::Null,
            Some(_) => Value::Int(i128::from(ints().fold(0i64, |a, v| a.wrapping_add(v as i64)))),
        },
        other => unreachable!("{other:?} is not made here"),
    }
}

fn one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

fn canonical_key(value: &Value) -> Value {
    match value {
        Value::Float(bits) => Value::Float(crate::keys::float::bits(f64::from_bits(*bits))),
        other => other.clone(),
    }
}

/// Sums of floats have one zero and one NaN.
fn comparable(call: Option<&AggregateCall>, value: Value) -> Value {
    match call.map(|c| &c.function) {
        Some(AggregateFunction::Sum | AggregateFunction::Avg) | None => canonical_key(&value),
        _ => value,
    }
}

pub(super) fn statement() -> Arc<Statement> {
    Statement::new(1, Budget::unlimited())
}

pub(super) fn run_of(statement: &Arc<Statement>) -> Run<'_> {
    Run {
        statement,
        parallel: &Serial,
        threads: 2,
        places: Places {
            lookup: Lookup::Nowhere,
            options: crate::ScanOptions::default(),
            turn: None,
            morsels_min: usize::MAX,
            attached: None,
        },
        traffic: nowhere(),
    }
}

/// An account that nobody reads.
fn nowhere() -> &'static Arc<crate::Traffic> {
    static NOWHERE: std::sync::LazyLock<Arc<crate::Traffic>> = std::sync::LazyLock::new(Arc::default);
    &NOWHERE
}

/// As [`run_of`], on a machine with several nodes.
pub(super) fn run_on<'a>(statement: &'a Arc<Statement>, machine: &'a Pretended, maps: &'a PageMaps) -> Run<'a> {
    let run = run_of(statement);
    Run { parallel: machine, places: Places { lookup: Lookup::Maps(maps), ..run.places }, ..run }
}

/// Policies are believed.
pub(super) fn page_maps() -> PageMaps {
    PageMaps::new(Box::new(|_| None), usize::MAX)
}

/// Groups rows with several workers on three nodes that take chunks in turn.
fn group<K: GroupKey>(
    run: Run<'_>,
    rows: &Arc<Rows>,
    (coder, calls): (GroupCodec, Calls),
    strategy: Option<Strategy>,
    (workers, chunk_rows): (usize, usize),
) -> Result<Pipe, ExecError> {
    let count = rows.rows as u64;
    let mut sink = Grouping::<K>::new(run, (count, count), coder, Arc::new(calls), strategy)?;
    sink.flush_groups = chunk_rows;
    sink.little_bytes = 0;
    let node = |worker: usize| NodeId((worker % 3) as u32);
    let mut locals: Vec<Worker<K>> =
        (0..workers).map(|worker| on(node(worker), || sink.local())).collect::<Result<_, _>>()?;
    for (number, start) in (0..rows.rows).step_by(chunk_rows).enumerate() {
        let range = start..(start + chunk_rows).min(rows.rows);
        let chunk = Chunk::of(Origin::Rows(rows.clone()), RowIds::Range(range));
        on(node(number % workers), || sink.push(&mut locals[number % workers], chunk))?;
    }
    sink.finish(locals)
}

/// The output as rows, in order.
fn rows_of(flow: &Flow<'_>, pipe: &Pipe, calls: &[AggregateCall], keys: usize) -> Vec<Vec<Value>> {
    let rows = collect(pipe, &flow.run, None).unwrap();
    assert_eq!(rows.rows as u64, pipe.rows);
    let columns: Vec<Vec<Value>> = rows
        .infos
        .iter()
        .zip(&rows.columns)
        .map(|(info, vector)| {
            if let (ColumnKind::Int { low, high }, crate::chunk::vector::Data::Int(values)) = (&info.kind, &vector.data)
            {
                let inside = |r: usize| !vector.is_valid(r) || (*low..=*high).contains(&values[r]);
                assert!((0..values.len()).all(inside), "bounds of {} hold", info.field.name());
            }
            assert!(info.nullable || (0..vector.len()).all(|r| vector.is_valid(r)), "{} has a NULL", info.field.name());
            values(&info.to_arrow(vector))
        })
        .collect();
    let mut all: Vec<Vec<Value>> = (0..rows.rows)
        .map(|r| {
            let of = |c: usize| comparable(c.checked_sub(keys).map(|c| &calls[c]), columns[c][r].clone());
            (0..columns.len()).map(of).collect()
        })
        .collect();
    all.sort();
    all
}

fn expected_rows(table: &[Vec<Value>], rows: usize, keys: &[usize], calls: &[AggregateCall]) -> Vec<Vec<Value>> {
    let mut groups: BTreeMap<Vec<Value>, Vec<usize>> = BTreeMap::new();
    for row in (0..rows).collect::<Vec<_>>() {
        groups.entry(keys.iter().map(|&k| canonical_key(&table[k][row])).collect()).or_default().push(row);
    }
    if keys.is_empty() && groups.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    let mut all: Vec<Vec<Value>> = groups
        .into_iter()
        .map(|(mut key, rows)| {
            key.extend(calls.iter().map(|c| comparable(Some(c), expected(c, &rows, table))));
            key
        })
        .collect();
    all.sort();
    all
}

fn table_of(infos: &[ColumnInfo], rows: usize, random: &mut Random, sort_by: Option<usize>) -> Arc<Rows> {
    let mut columns: Vec<Vector> = infos.iter().map(|info| column(info, rows, random)).collect();
    if let Some(key) = sort_by {
        let keys = values(&infos[key].to_arrow(&columns[key]));
        let mut order: Vec<u32> = (0..rows as u32).collect();
        order.sort_by_key(|&r| keys[r as usize].clone());
        columns = columns.iter().map(|c| c.take(&order, false)).collect();
    }
    let columns = columns.into_iter().map(Arc::new).collect();
    Arc::new(Rows { infos: infos.to_vec(), columns, rows, _charged: Vec::new(), lies: None })
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let infos = infos();
    let rows = [0, 1, 7, 300, 2_000][random.below_u64(5) as usize];
    let keys: Vec<usize> = (0..random.below_u64(4)).map(|_| random.below_u64(infos.len() as u64) as usize).collect();
    let calls: Vec<AggregateCall> = (0..random.below_u64(6)).map(|_| random_call(&infos, &mut random)).collect();
    if keys.is_empty() && calls.is_empty() {
        return;
    }
    let sort_by = keys.first().copied().filter(|_| random.one_in(3));
    let input = table_of(&infos, rows, &mut random, sort_by);
    let shape = (1 + random.below_u64(8) as usize, [1, 16, 100, 2048][random.below_u64(4) as usize]);
    let statement = statement();
    let machine = Pretended::new(3);
    let maps = page_maps();
    let run = if random.one_in(2) { run_of(&statement) } else { run_on(&statement, &machine, &maps) };
    let flow = Flow::new(run, compile);
    let coder = || GroupCodec::new(&keys, &infos, 2).unwrap();
    let compiled = || Calls::new(&calls, &infos, keys.is_empty()).unwrap();
    let domain = coder().domain().filter(|&d| d <= 3_000_000 && !compiled().needs_dense_groups());
    let strategy = match (random.below_u64(4), domain) {
        (0, _) => None,
        (1, Some(domain)) => Some(Strategy::Direct { domain: domain as usize }),
        (2, Some(domain)) => Some(Strategy::TableThenDirect { domain: domain as usize, from: 5 }),
        _ => Some(Strategy::Table),
    };
    let pipe = match coder().words() {
        1 => group::<u64>(flow.run, &input, (coder(), compiled()), strategy, shape),
        _ => group::<u128>(flow.run, &input, (coder(), compiled()), strategy, shape),
    };
    let table: Vec<Vec<Value>> =
        infos.iter().zip(&input.columns).map(|(info, column)| values(&info.to_arrow(column))).collect();
    let found = rows_of(&flow, &pipe.unwrap(), &calls, keys.len());
    let wanted = expected_rows(&table, rows, &keys, &calls);
    assert_eq!(found, wanted, "seed {seed}, keys {keys:?}, calls {calls:?}, strategy {strategy:?}");
    // The way that statements take: one worker, two levels for DISTINCT.
    let pipe = grouped(&flow, &of_rows(input), &keys, &calls, None).unwrap();
    assert_eq!(rows_of(&flow, &pipe, &calls, keys.len()), wanted, "seed {seed}, keys {keys:?}, calls {calls:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 0, ..ProptestConfig::default() })]
    #[test]
    fn groups_are_those_of_a_map(seed in any::<u64>()) {
        check(seed);
    }
}

/// One column of integers in rows.
fn ints(values: Vec<i64>, data_type: DataType) -> (Vec<ColumnInfo>, Arc<Rows>) {
    let (low, high) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    let infos = vec![ColumnInfo::int(Arc::new(Field::new("x", data_type, false)), low, high, false)];
    let rows = values.len();
    let columns = vec![Arc::new(Vector::ints(values))];
    (infos.clone(), Arc::new(Rows { infos, columns, rows, _charged: Vec::new(), lies: None }))
}

fn group_ints(values: Vec<i64>, statement: &Arc<Statement>, keyed: bool) -> Result<Vec<Vec<Value>>, ExecError> {
    let (infos, rows) = ints(values, DataType::Int64);
    let flow = Flow::new(run_of(statement), compile);
    let calls = [call(AggregateFunction::Sum, &[0], &infos)];
    let keys: &[usize] = if keyed { &[0] } else { &[] };
    let pipe = grouped(&flow, &of_rows(rows), keys, &calls, None)?;
    Ok(rows_of(&flow, &pipe, &calls, keys.len()))
}

#[test]
fn a_sum_is_exact_and_checked_at_the_end() {
    let back_and_forth = vec![i64::MAX, i64::MAX, i64::MIN, i64::MIN, 5];
    assert_eq!(group_ints(back_and_forth, &statement(), false).unwrap(), [[Value::Int(3)]]);
    let error = group_ints(vec![i64::MAX, 1], &statement(), false).unwrap_err().to_string();
    assert_eq!(error, "integer overflow in sum(x): the total does not fit BIGINT; cast the argument to DECIMAL");
}

#[test]
fn sums_widen_when_rows_are_more_than_foreseen() {
    let big = i64::MAX / 4;
    let (infos, rows) = ints(vec![big; 3], DataType::Decimal128(19, 0));
    let calls = Calls::new(&[call(AggregateFunction::Sum, &[0], &infos)], &infos, true).unwrap();
    let mut states = calls.states(1, 1).unwrap();
    for _ in 0..4 {
        let mut chunk = Chunk::of(Origin::Rows(rows.clone()), RowIds::Range(0..3));
        calls.update(&mut states, &mut chunk, Groups::One(3)).unwrap();
    }
    let statement = statement();
    let columns = calls.finish(&mut states, &run_of(&statement)).unwrap();
    let (info, vectors) = column::settle(columns);
    assert_eq!(values(&info.to_arrow(&vectors[0])), [Value::Int(12 * i128::from(big))]);
}

#[test]
fn keys_of_one_value_take_no_room() {
    let one =
        |name: &str, low, high| ColumnInfo::int(Arc::new(Field::new(name, DataType::Int64, false)), low, high, false);
    let infos = vec![one("a", 7, 7), one("b", 0, 14), one("c", -1, -1), one("full", i64::MIN, i64::MAX)];
    let columns = [vec![7; 15], (0..15).collect(), vec![-1; 15], (0..15).map(|i| i64::MAX - i).collect()];
    let columns = columns.map(|c| Arc::new(Vector::ints(c))).to_vec();
    let rows = Arc::new(Rows { infos: infos.clone(), columns, rows: 15, _charged: Vec::new(), lies: None });
    let statement = statement();
    let flow = Flow::new(run_of(&statement), compile);
    for keys in [vec![0, 1], vec![1, 0], vec![0, 1, 2], vec![0], vec![3, 0, 2], vec![2, 3, 1, 0]] {
        let pipe = grouped(&flow, &of_rows(rows.clone()), &keys, &[], None).unwrap();
        let table: Vec<Vec<Value>> =
            infos.iter().zip(&rows.columns).map(|(info, column)| values(&info.to_arrow(column))).collect();
        assert_eq!(rows_of(&flow, &pipe, &[], keys.len()), expected_rows(&table, 15, &keys, &[]), "{keys:?}");
    }
}

#[test]
fn fewer_rows_than_foreseen_are_as_well() {
    let (infos, rows) = ints((0..20).map(|i| i << 50).collect(), DataType::Int64);
    let statement = statement();
    let flow = Flow::new(run_of(&statement), compile);
    let calls = [call(AggregateFunction::Sum, &[0], &infos)];
    for keys in [vec![], vec![0]] {
        let mut pipe = of_rows(rows.clone());
        pipe.rows = 1 << 40;
        let wanted =
            rows_of(&flow, &grouped(&flow, &of_rows(rows.clone()), &keys, &calls, None).unwrap(), &calls, keys.len());
        for strategy in [None, Some(Strategy::Table)] {
            let found = grouped(&flow, &pipe, &keys, &calls, strategy).unwrap();
            assert_eq!(rows_of(&flow, &found, &calls, keys.len()), wanted);
        }
    }
}

#[test]
fn totals_beyond_128_bits_come_back() {
    let most = 10i128.pow(38) - 1;
    let field = Arc::new(Field::new("x", DataType::Decimal128(38, 0), false));
    let infos = vec![ColumnInfo::plain(field)];
    let of = |values: Vec<i128>| -> Result<Vec<Vec<Value>>, ExecError> {
        let rows = values.len();
        let array: Decimal128Array = values.into_iter().map(Some).collect();
        let array: ArrayRef = Arc::new(array.with_precision_and_scale(38, 0).unwrap());
        let columns = vec![Arc::new(infos[0].vector_of(&array))];
        let rows = Arc::new(Rows { infos: infos.clone(), columns, rows, _charged: Vec::new(), lies: None });
        let (statement, calls) = (statement(), [call(AggregateFunction::Sum, &[0], &infos)]);
        let flow = Flow::new(run_of(&statement), compile);
        let compiled = Calls::new(&calls, &infos, true)?;
        let pipe = group::<u64>(flow.run, &rows, (GroupCodec::new(&[], &infos, 2)?, compiled), None, (2, 1))?;
        Ok(rows_of(&flow, &pipe, &calls, 0))
    };
    assert_eq!(of(vec![most, -most, most, -most, most, -most, most, 1 - most]).unwrap(), [[Value::Int(1)]]);
    let error = of(vec![most, 1, most, most]).unwrap_err().to_string();
    assert!(error.contains("does not fit DECIMAL(38, 0); cast the argument to DOUBLE"), "{error}");
}

#[test]
fn a_budget_that_is_too_small_is_an_error() {
    let statement = Statement::new(1, Budget::new("small", 100_000));
    let values: Vec<i64> = (0..50_000).map(|i: i64| i.wrapping_mul(0x5851_f42d_4c95_7f2d)).collect();
    let error = group_ints(values, &statement, true).unwrap_err();
    assert!(matches!(error, ExecError::Memory(_)), "{error}");
    assert_eq!(statement.budget().used_bytes(), 0);
}

#[test]
fn everything_is_charged_and_given_back() {
    let statement = Statement::new(1, Budget::new("large", 100_000_000));
    let values: Vec<i64> = (0..50_000).map(|i: i64| i.wrapping_mul(0x5851_f42d_4c95_7f2d)).collect();
    assert_eq!(group_ints(values, &statement, true).unwrap().len(), 50_000);
    assert!(statement.budget().peak_bytes() > 50_000 * 16);
    assert_eq!(statement.budget().used_bytes(), 0);
}

#[test]
fn a_cancelled_statement_stops() {
    let statement = statement();
    statement.cancel();
    let error = group_ints((0..100).collect(), &statement, true).unwrap_err();
    assert!(matches!(error, ExecError::Cancelled), "{error}");
}

#[test]
fn groups_that_are_many_come_in_pieces() {
    let statement = statement();
    for step in [1, 1 << 40] {
        let values: Vec<i64> = (0..100_000i64).map(|i| (i * 7_919 % 100_000) * step).collect();
        let (infos, rows) = ints(values, DataType::Int64);
        let calls = [call(AggregateFunction::Sum, &[0], &infos)];
        let flow = Flow::new(run_of(&statement), compile);
        let parts = || (GroupCodec::new(&[0], &infos, 2).unwrap(), Calls::new(&calls, &infos, false).unwrap());
        for workers in [1, 3] {
            let pipe = group::<u64>(flow.run, &rows, parts(), None, (workers, 2048)).unwrap();
            assert!(pipe.lanes.len() > 3);
            let wanted: Vec<Vec<Value>> = (0..100_000).map(|i| vec![Value::Int(i128::from(i * step)); 2]).collect();
            assert_eq!(rows_of(&flow, &pipe, &calls, 1), wanted);
        }
    }
}
