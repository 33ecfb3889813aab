//! Tables, expressions and runners that the tests share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray, UInt16Array, new_null_array,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use exec::{Context, ExecError, Execution, Expression, Plan, execute, execute_on_workers};
use numa::{Allocator, Budget, Topology};
use sched::{Config, Scheduler, Statement};
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part, surface_type};

/// A scheduler of three threads on two synthetic nodes.
pub fn scheduler() -> Arc<Scheduler> {
    static SHARED: LazyLock<Arc<Scheduler>> = LazyLock::new(|| {
        let topology = Arc::new(Topology::synthetic(2, 1, 2, 1));
        Scheduler::new(topology, Config { threads: Some(3), ..Config::default() })
    });
    SHARED.clone()
}

/// A plan that runs on workers, however little it touches.
pub fn started(plan: &Plan, context: Context) -> Execution {
    execute_on_workers(Arc::new(plan.clone()), context)
}

/// Waits until something has happened, but not for ever.
pub fn soon(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn context() -> Context {
    Context::new(scheduler(), Statement::new(1, Budget::unlimited()))
}

/// Some columns and rows, stored: each item of `segments` becomes segments of its own with their own dictionaries.
pub fn table(schema: &SchemaRef, segments: &[RecordBatch]) -> TableVersion {
    let mut version = TableVersion::empty(schema);
    for batch in segments {
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        stager.append(batch).unwrap();
        let allocators = vec![ColumnAllocator::unplaced(); schema.fields().len()];
        let part = build_part(schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        version = version.with_appended(part);
    }
    version
}

/// A table of one Int64 column, one segment per list.
pub fn numbers(segments: &[Vec<Option<i64>>]) -> Arc<TableVersion> {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    let batches: Vec<_> = segments
        .iter()
        .map(|values| {
            RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(values.clone())) as _]).unwrap()
        })
        .collect();
    Arc::new(table(&schema, &batches))
}

pub fn scan(snapshot: &Arc<TableVersion>) -> Plan {
    let columns = (0..snapshot.schema.fields().len()).collect();
    Plan::scan("t", snapshot.clone(), columns).unwrap()
}

pub fn int(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

/// Everything that an execution gives, as one batch.
pub fn drain(execution: &Execution) -> Result<RecordBatch, ExecError> {
    let batches = execution.collect_blocking()?;
    assert!(batches.iter().all(|b| b.num_rows() > 0), "no batch is empty");
    assert!(execution.next_blocking().is_none(), "after the end there is nothing");
    Ok(concat_batches(execution.schema(), &batches).unwrap())
}

/// The result of running a plan as tasks.
pub fn run(plan: &Plan) -> Result<RecordBatch, ExecError> {
    drain(&execute_on_workers(Arc::new(plan.clone()), context()))
}

/// The result of running a plan as `execute` likes.
pub fn run_default(plan: &Plan) -> Result<RecordBatch, ExecError> {
    drain(&execute(Arc::new(plan.clone()), context()))
}

/// The reference's result.
pub fn expected(plan: &Plan) -> Result<RecordBatch, ExecError> {
    Ok(concat_batches(&plan.schema(), &exec::reference::execute(plan)?).unwrap())
}

/// The first column as numbers.
pub fn column_of_numbers(batch: &RecordBatch) -> Vec<Option<i64>> {
    batch.column(0).as_primitive::<Int64Type>().iter().collect()
}

/// Types that the random tables use.
pub fn types() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int32,
        DataType::UInt16,
        DataType::Boolean,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::Float64,
        DataType::Decimal128(20, 2),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Int64,
    ]
}

/// A column of `data_type` made of seeds; with `nullable`, every fifth seed is NULL.
pub fn values(data_type: &DataType, seeds: &[u16], nullable: bool) -> ArrayRef {
    let of = |f: &dyn Fn(u16) -> i64| -> Vec<Option<i64>> {
        seeds.iter().map(|&s| (!nullable || s % 5 != 0).then(|| f(s))).collect()
    };
    match data_type {
        DataType::Int64 => Arc::new(Int64Array::from(of(&|s| i64::from(s % 23) - 7))),
        DataType::Int32 => {
            let sparse = of(&|s| i64::from(s % 11).pow(7));
            Arc::new(sparse.into_iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>())
        }
        DataType::UInt16 => {
            Arc::new(of(&|s| i64::from(s)).into_iter().map(|v| v.map(|v| v as u16)).collect::<UInt16Array>())
        }
        DataType::Boolean => {
            Arc::new(of(&|s| i64::from(s % 2)).into_iter().map(|v| v.map(|v| v == 1)).collect::<BooleanArray>())
        }
        DataType::Utf8View => {
            let text = of(&|s| i64::from(s % 13))
                .into_iter()
                .map(|v| v.map(|v| "quite a long text ".repeat(v as usize % 4) + &v.to_string()));
            cast(&(Arc::new(text.collect::<StringArray>()) as ArrayRef), data_type).unwrap()
        }
        DataType::BinaryView => {
            let bytes: Vec<Option<Vec<u8>>> =
                of(&|s| i64::from(s % 9)).into_iter().map(|v| v.map(|v| vec![v as u8; v as usize])).collect();
            let bytes: BinaryArray = bytes.iter().map(|v| v.as_deref()).collect();
            cast(&(Arc::new(bytes) as ArrayRef), data_type).unwrap()
        }
        DataType::Float64 => {
            let special = [0.0, -0.0, f64::NAN, f64::INFINITY, 1.5, -2.25, 1e300];
            let floats = of(&|s| i64::from(s)).into_iter().map(|v| v.map(|v| special[v as usize % special.len()]));
            Arc::new(floats.collect::<Float64Array>())
        }
        DataType::Decimal128(precision, scale) => {
            let wide = of(&|s| i64::from(s % 19) * 12_345 - 50_000).into_iter().map(|v| v.map(i128::from));
            Arc::new(wide.collect::<Decimal128Array>().with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Date32 => Arc::new(
            of(&|s| 9000 + i64::from(s % 31)).into_iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>(),
        ),
        DataType::Timestamp(_, zone) => {
            let times = TimestampMicrosecondArray::from(of(&|s| i64::from(s % 29) * 3_600_000_000));
            Arc::new(times.with_timezone_opt(zone.clone()))
        }
        other => new_null_array(other, seeds.len()),
    }
}

/// What a test expression computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `x + k` over Int64, fails on overflow and on -7.
    Add(i64),
    /// `100 / x` over Int64, fails on 0.
    Divide,
    /// `x % 2 = 0` over Int64.
    Even,
    /// TRUE for NULL, else `x % 3 = 0`, over Int64.
    NullOrThird,
    /// NULL for negative numbers, FALSE for NULL, else TRUE; fails on 5.
    Moody,
    /// `a < b` over two Int64.
    Less,
    /// Number of bytes over Utf8View.
    Length,
    /// TRUE, FALSE or NULL, of no column.
    Truth(Option<bool>),
    /// Panics.
    Panic,
}

/// A test expression; counts the rows that it was evaluated for.
#[derive(Debug)]
pub struct Function {
    pub kind: Kind,
    columns: Vec<usize>,
    data_type: DataType,
    pub rows: AtomicUsize,
}

impl Function {
    pub fn new(kind: Kind, columns: Vec<usize>) -> Arc<Function> {
        let data_type = match kind {
            Kind::Add(_) | Kind::Divide => DataType::Int64,
            Kind::Length => DataType::Int32,
            _ => DataType::Boolean,
        };
        Arc::new(Function { kind, columns, data_type, rows: AtomicUsize::new(0) })
    }

    pub fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }
}

fn failure(text: &str) -> ExecError {
    ExecError::Evaluation(text.into())
}

impl Expression for Function {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        self.rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
        assert_eq!(batch.num_columns(), self.columns.len());
        let ints = |c: usize| batch.column(c).as_primitive::<Int64Type>();
        let map = |f: &dyn Fn(i64) -> Result<i64, ExecError>| -> Result<ArrayRef, ExecError> {
            let result: Result<Int64Array, _> = ints(0).iter().map(|v| v.map(f).transpose()).collect();
            Ok(Arc::new(result?))
        };
        Ok(match self.kind {
            Kind::Add(k) => map(&|v| match v {
                -7 => Err(failure("no sevens below zero")),
                v => v.checked_add(k).ok_or_else(|| failure("overflow")),
            })?,
            Kind::Divide => map(&|v| 100i64.checked_div(v).ok_or_else(|| failure("division by zero")))?,
            Kind::Even => Arc::new(ints(0).iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
            Kind::NullOrThird => {
                Arc::new(ints(0).iter().map(|v| Some(v.is_none_or(|v| v % 3 == 0))).collect::<BooleanArray>())
            }
            Kind::Moody => {
                let moods = ints(0).iter().map(|v| match v {
                    Some(5) => Err(failure("five")),
                    Some(v) => Ok((v >= 0).then_some(true)),
                    None => Ok(Some(false)),
                });
                Arc::new(moods.collect::<Result<BooleanArray, _>>()?)
            }
            Kind::Less => {
                let (a, b) = (ints(0), ints(1));
                Arc::new(a.iter().zip(b.iter()).map(|(a, b)| Some(a? < b?)).collect::<BooleanArray>())
            }
            Kind::Length => {
                let text = batch.column(0).as_string_view();
                Arc::new(text.iter().map(|v| v.map(|v| v.len() as i32)).collect::<Int32Array>())
            }
            Kind::Truth(value) => Arc::new(BooleanArray::from(vec![value; batch.num_rows()])),
            Kind::Panic => panic!("the expression went off"),
        })
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        format!("{:?}({:?})", self.kind, self.columns)
    }

    fn fallible(&self) -> bool {
        matches!(self.kind, Kind::Add(_) | Kind::Divide | Kind::Moody | Kind::Panic)
    }
}

/// Schema of the random tables: a column per type, the last one NOT NULL.
pub fn random_schema() -> SchemaRef {
    let types = types();
    let last = types.len() - 1;
    let field = |(i, t): (usize, &DataType)| Field::new(format!("c{i}"), surface_type(t), i != last);
    Arc::new(Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>()))
}

/// A batch of [`random_schema`]: `seeds(row, column)`.
pub fn random_batch(schema: &SchemaRef, rows: usize, seeds: &dyn Fn(usize, usize) -> u16) -> RecordBatch {
    let columns = schema.fields().iter().enumerate().map(|(c, field)| {
        let seeds: Vec<u16> = (0..rows).map(|r| seeds(r, c)).collect();
        values(field.data_type(), &seeds, field.is_nullable())
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
}

pub fn no_nulls(array: &ArrayRef) -> ArrayRef {
    arrow::compute::filter(array, &arrow::compute::is_not_null(array).unwrap()).unwrap()
}
