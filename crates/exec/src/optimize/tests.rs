//! Tests of the optimiser: tables like those of TPC-H but small, plans written by column names, and plans shown in a
//! line.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use numa::Allocator;
use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};

use super::*;
use crate::plan::expression::CompareOp;
use crate::plan::predicate::Predicate;
use crate::plan::{AggregateCall, AggregateFunction, Join, JoinKind, Output, Plan, Side};
use crate::{ArithmeticOp, ExecError, Expression, Scalar};

mod order;
mod rows;
mod tpch;

/// A column: its name, whether its values are numbers or names, how many different ones, and how row numbers become
/// them.
pub(super) type ColumnRule = (&'static str, Rule);

/// How values follow from row numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The row's number from 1.
    Key,
    /// One of `n` numbers, from 1, scattered.
    Any(u64),
    /// The same for `n` rows in turn, from 1.
    Runs(u64),
    /// One of `n` names, scattered.
    Name(u64),
}

fn scattered(row: u64, salt: u64) -> u64 {
    let mut x = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 32)
}

/// A table of `rows` rows.
pub(super) fn table(rows: u64, columns: &[ColumnRule]) -> Arc<TableVersion> {
    let field = |(name, rule): &ColumnRule| match rule {
        Rule::Name(_) => Field::new(*name, DataType::Utf8View, false),
        _ => Field::new(*name, DataType::Int64, false),
    };
    let schema: SchemaRef = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let array = |(salt, (_, rule)): (usize, &ColumnRule)| -> ArrayRef {
        let salt = salt as u64 + rows;
        match *rule {
            Rule::Key => Arc::new(Int64Array::from_iter_values(1..=rows as i64)),
            Rule::Any(n) => {
                Arc::new(Int64Array::from_iter_values((0..rows).map(|r| (scattered(r, salt) % n) as i64 + 1)))
            }
            Rule::Runs(n) => Arc::new(Int64Array::from_iter_values((0..rows).map(|r| (r / n) as i64 + 1))),
            Rule::Name(n) => {
                // Of few rows each has a name of its own.
                let name = |r| if n >= rows { r } else { scattered(r, salt) % n };
                let names = (0..rows).map(|r| Some(format!("name {:03}", name(r))));
                cast(&(Arc::new(names.collect::<StringArray>()) as ArrayRef), &DataType::Utf8View).unwrap()
            }
        }
    };
    let batch = RecordBatch::try_new(schema.clone(), columns.iter().enumerate().map(array).collect()).unwrap();
    stored(&schema, &batch)
}

/// A batch as a table.
pub(super) fn stored(schema: &SchemaRef, batch: &RecordBatch) -> Arc<TableVersion> {
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(batch).unwrap();
    let allocators = vec![ColumnAllocator::unplaced(); schema.fields().len()];
    let part = build_part(schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
    Arc::new(TableVersion::empty(schema).with_appended(part))
}

/// TPC-H at a hundredth, as far as its queries' joins go. Dates are days from 1 to 2400.
static TPCH: LazyLock<HashMap<&'static str, Arc<TableVersion>>> = LazyLock::new(|| {
    use Rule::{Any, Key, Name, Runs};
    let tables: [(&'static str, u64, Vec<ColumnRule>); 8] = [
        ("region", 5, vec![("r_regionkey", Key), ("r_name", Name(5))]),
        ("nation", 25, vec![("n_nationkey", Key), ("n_name", Name(25)), ("n_regionkey", Any(5))]),
        ("supplier", 100, vec![("s_suppkey", Key), ("s_name", Name(100)), ("s_nationkey", Any(25))]),
        (
            "customer",
            1500,
            vec![("c_custkey", Key), ("c_name", Name(900)), ("c_nationkey", Any(25)), ("c_segment", Name(5))],
        ),
        ("part", 2000, vec![("p_partkey", Key), ("p_brand", Name(25)), ("p_type", Name(150)), ("p_size", Any(50))]),
        ("partsupp", 8000, vec![("ps_partkey", Runs(4)), ("ps_suppkey", Any(100)), ("ps_cost", Any(1000))]),
        (
            "orders",
            15000,
            vec![("o_orderkey", Key), ("o_custkey", Any(1500)), ("o_date", Any(2400)), ("o_status", Name(2))],
        ),
        (
            "lineitem",
            60000,
            vec![
                ("l_orderkey", Runs(4)),
                ("l_partkey", Any(2000)),
                ("l_suppkey", Any(100)),
                ("l_date", Any(2400)),
                ("l_commit", Any(2400)),
                ("l_price", Any(10000)),
                ("l_flag", Name(3)),
            ],
        ),
    ];
    tables.into_iter().map(|(name, rows, columns)| (name, table(rows, &columns))).collect()
});

/// Some columns of a table.
pub(super) fn scan(name: &str, columns: &[&str]) -> Plan {
    let snapshot = TPCH[name].clone();
    let columns = columns.iter().map(|c| snapshot.schema.index_of(c).unwrap()).collect();
    Plan::scan(name, snapshot, columns).unwrap()
}

pub(super) fn place(plan: &Plan, column: &str) -> usize {
    plan.schema().index_of(column).unwrap_or_else(|_| panic!("no column {column} in\n{plan}"))
}

/// All columns under other names: a table that is used twice.
pub(super) fn renamed(plan: Plan, prefix: &str) -> Plan {
    let schema = plan.schema();
    let outputs = schema.fields().iter().enumerate().map(|(column, f)| Output::Column {
        column,
        field: Arc::new(f.as_ref().clone().with_name(format!("{prefix}{}", f.name()))),
    });
    plan.project(outputs.collect()).unwrap()
}

/// Some columns.
pub(super) fn keep(plan: Plan, columns: &[&str]) -> Plan {
    let schema = plan.schema();
    let output = |c: &&str| {
        let column = place(&plan, c);
        Output::Column { column, field: schema.fields()[column].clone() }
    };
    let outputs = columns.iter().map(output).collect();
    plan.project(outputs).unwrap()
}

fn join_of(kind: JoinKind, left: Plan, right: Plan, on: &[(&str, &str)], residual: Option<Predicate>) -> Plan {
    let on = on.iter().map(|(l, r)| (place(&left, l), place(&right, r))).collect();
    let (nulls_equal, null_aware, build) = (false, false, Side::Left);
    Plan::join(Join { left, right, kind, on, nulls_equal, null_aware, residual, build }).unwrap()
}

pub(super) fn inner(left: Plan, right: Plan, on: &[(&str, &str)]) -> Plan {
    join_of(JoinKind::Inner, left, right, on, None)
}

pub(super) fn semi(left: Plan, right: Plan, on: &[(&str, &str)]) -> Plan {
    join_of(JoinKind::Semi(Side::Left), left, right, on, None)
}

pub(super) fn number(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

pub(super) fn compare(plan: &Plan, column: &str, op: CompareOp, value: i64) -> Predicate {
    Predicate::Compare { column: place(plan, column), op, value: number(value).into() }
}

pub(super) fn named(plan: &Plan, column: &str, value: &str) -> Predicate {
    let value = cast(&(Arc::new(StringArray::from(vec![value])) as ArrayRef), &DataType::Utf8View).unwrap();
    Predicate::Compare { column: place(plan, column), op: CompareOp::Eq, value: value.into() }
}

/// Rows with a number in the column on one side of a value.
pub(super) fn where_number(plan: Plan, column: &str, op: CompareOp, value: i64) -> Plan {
    let predicate = compare(&plan, column, op, value);
    plan.filter(predicate).unwrap()
}

/// Rows with a name in the column.
pub(super) fn where_name(plan: Plan, column: &str, value: &str) -> Plan {
    let predicate = named(&plan, column, value);
    plan.filter(predicate).unwrap()
}

/// Sums of columns by others.
pub(super) fn sums(plan: Plan, keys: &[&str], of: &[&str]) -> Plan {
    let call = |column: &&str| AggregateCall {
        function: AggregateFunction::Sum,
        arguments: vec![place(&plan, column)],
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: Arc::new(Field::new(format!("sum_{column}"), DataType::Int64, true)),
    };
    let calls = of.iter().map(call).collect();
    let keys = keys.iter().map(|k| place(&plan, k)).collect();
    plan.aggregate(keys, calls).unwrap()
}

/// `a op b` of two columns, or `100 / a > b`, which may fail.
#[derive(Debug)]
pub(super) struct Pair {
    columns: Vec<usize>,
    tree: Scalar,
    op: CompareOp,
    swapped: bool,
    divides: bool,
}

impl Pair {
    pub(super) fn of(a: usize, op: CompareOp, b: usize) -> Predicate {
        let (swapped, columns) = if a < b { (false, vec![a, b]) } else { (true, vec![b, a]) };
        let sides = if swapped { [1, 0] } else { [0, 1] }.map(|c| Box::new(Scalar::Column(c)));
        let [left, right] = sides;
        Predicate::Boolean(Arc::new(Pair {
            columns,
            tree: Scalar::Compare { op, left, right },
            op,
            swapped,
            divides: false,
        }))
    }

    /// `100 / a > b`, an error where a is 0.
    pub(super) fn dividing(a: usize, b: usize) -> Predicate {
        let Predicate::Boolean(like) = Pair::of(a, CompareOp::Gt, b) else { unreachable!("made so") };
        let columns = like.columns().to_vec();
        let [left, right] = if a < b { [0, 1] } else { [1, 0] }.map(|c| Box::new(Scalar::Column(c)));
        let hundred = Box::new(Scalar::Literal(number(100)));
        let data_type = DataType::Int64;
        let left = Box::new(Scalar::Arithmetic { op: ArithmeticOp::Divide, left: hundred, right: left, data_type });
        let tree = Scalar::Compare { op: CompareOp::Gt, left, right };
        Predicate::Boolean(Arc::new(Pair { columns, tree, op: CompareOp::Gt, swapped: a > b, divides: true }))
    }
}

impl Expression for Pair {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let (a, b) = if self.swapped { (1, 0) } else { (0, 1) };
        let (a, b) = (batch.column(a).as_primitive::<Int64Type>(), batch.column(b).as_primitive::<Int64Type>());
        let mut results = Vec::with_capacity(a.len());
        for (a, b) in a.iter().zip(b) {
            let (Some(mut a), Some(b)) = (a, b) else {
                results.push(None);
                continue;
            };
            if self.divides {
                a = 100i64.checked_div(a).ok_or_else(|| ExecError::Evaluation("division by zero".into()))?;
            }
            results.push(Some(match self.op {
                CompareOp::Eq => a == b,
                CompareOp::NotEq => a != b,
                CompareOp::Lt => a < b,
                CompareOp::LtEq => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::GtEq => a >= b,
            }));
        }
        Ok(Arc::new(BooleanArray::from(results)))
    }

    fn data_type(&self) -> &DataType {
        &DataType::Boolean
    }

    fn describe(&self) -> String {
        format!(
            "{}#{} {} #{}",
            if self.divides { "100 / " } else { "" },
            self.columns[0],
            self.op.symbol(),
            self.columns[1]
        )
    }

    fn fallible(&self) -> bool {
        self.divides
    }

    fn structure(&self) -> Option<&Scalar> {
        Some(&self.tree)
    }
}

/// A plan in a line: `(probe * build)` for inner joins, `semi(kept, other)`, the kept side in memory where it says `!`.
pub(super) fn shape(plan: &Plan) -> String {
    match plan {
        Plan::Scan { table, .. } => table.to_string(),
        Plan::Join(join) => {
            let (left, right) = (shape(&join.left), shape(&join.right));
            let builds = |side: Side, text: String| if join.build == side { format!("!{text}") } else { text };
            match join.kind {
                JoinKind::Inner if join.build == Side::Right => format!("({left} * {right})"),
                JoinKind::Inner => format!("({right} * {left})"),
                kind => {
                    let name = format!("{kind:?}").to_lowercase();
                    let name = name.split('(').next().unwrap_or_default().to_string();
                    let (left, right) = (builds(Side::Left, left), builds(Side::Right, right));
                    match kind {
                        JoinKind::Semi(Side::Right) | JoinKind::Anti(Side::Right) => format!("{name}({right}, {left})"),
                        _ => format!("{name}({left}, {right})"),
                    }
                }
            }
        }
        Plan::Aggregate(aggregation) => format!("agg({})", shape(&aggregation.input)),
        other => other.inputs().into_iter().map(shape).collect::<Vec<_>>().join(" + "),
    }
}

/// An optimised plan, which is valid and has the columns that it had.
pub(super) fn optimized(plan: &Plan) -> Plan {
    plan.validate().unwrap();
    let better = optimize(plan.clone());
    better.validate().unwrap_or_else(|e| panic!("{e}\n{plan}\n{better}"));
    assert_eq!(better.schema().fields(), plan.schema().fields(), "{plan}\n{better}");
    assert_eq!(super::estimates(&better).iter().count(), better.operators().len());
    better
}

/// The columns that scans of a table read, by name.
pub(super) fn read(plan: &Plan, wanted: &str) -> Vec<Vec<String>> {
    match plan {
        Plan::Scan { table, .. } if **table == *wanted => {
            vec![plan.schema().fields().iter().map(|f| f.name().clone()).collect()]
        }
        other => other.inputs().into_iter().flat_map(|i| read(i, wanted)).collect(),
    }
}
