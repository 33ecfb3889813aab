//! Rows from elsewhere in random plans, random lists, and random recursions.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, FixedSizeListBuilder, Int64Array, Int64Builder, LargeListBuilder, ListBuilder, RecordBatch,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use exec::{
    CompareOp, ExecError, Expression, Join, JoinKind, Output, Plan, Predicate, Recursion, RowPieces, RowSource, Side,
    SortKey, Union,
};
use parking_lot::Mutex;

use super::random::Random;
use super::{cases, check};
use crate::support::int;

/// Batches in pieces.
#[derive(Debug)]
pub struct Given {
    schema: SchemaRef,
    pieces: Vec<Vec<RecordBatch>>,
}

impl Given {
    /// The rows of a batch, cut at random.
    pub fn cut(random: &mut Random, rows: &RecordBatch) -> Plan {
        let (mut pieces, mut from) = (vec![Vec::new()], 0);
        while from < rows.num_rows() {
            let length = (1 + random.below(1 + rows.num_rows() / 2)).min(rows.num_rows() - from);
            pieces.last_mut().unwrap().push(rows.slice(from, length));
            from += length;
            (0..random.below(3)).for_each(|_| pieces.push(Vec::new()));
        }
        let schema = rows.schema();
        let columns = (0..schema.fields().len()).collect();
        Plan::Source { source: Arc::new(Given { schema, pieces }), columns }
    }
}

impl RowSource for Given {
    fn describe(&self) -> String {
        format!("{} pieces", self.pieces.len())
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn bytes(&self) -> u64 {
        1
    }

    fn open(&self, columns: &[usize], _threads: usize) -> Result<Box<dyn RowPieces>, ExecError> {
        let queue = |piece: &Vec<RecordBatch>| {
            let batches: Result<Vec<_>, _> = piece.iter().rev().map(|batch| batch.project(columns)).collect();
            batches.map(Mutex::new)
        };
        Ok(Box::new(Opened(self.pieces.iter().map(queue).collect::<Result<Vec<_>, _>>()?)))
    }
}

struct Opened(Vec<Mutex<Vec<RecordBatch>>>);

impl RowPieces for Opened {
    fn pieces(&self) -> usize {
        self.0.len()
    }

    fn next(&self, piece: usize) -> Result<Option<RecordBatch>, ExecError> {
        Ok(self.0[piece].try_lock().expect("a piece is asked by one thread at a time").pop())
    }
}

/// A function of the first column of its rows.
#[derive(Debug)]
struct Of {
    columns: [usize; 1],
    data_type: DataType,
    function: fn(&Int64Array) -> ArrayRef,
}

impl Expression for Of {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        Ok((self.function)(batch.column(0).as_primitive::<Int64Type>()))
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        "function".into()
    }

    fn fallible(&self) -> bool {
        false
    }
}

fn computed(column: usize, name: &str, function: fn(&Int64Array) -> ArrayRef) -> Output {
    let data_type = function(&Int64Array::from(vec![Some(1)])).data_type().clone();
    let field = Arc::new(Field::new(name, data_type.clone(), true));
    Output::Expression { expression: Arc::new(Of { columns: [column], data_type, function }), field }
}

fn column(column: usize, name: &str) -> Output {
    Output::Column { column, field: Arc::new(Field::new(name, DataType::Int64, true)) }
}

/// Numbers, some of them NULL, from a source or given.
fn numbers(random: &mut Random, columns: usize, rows: usize, below: usize) -> Plan {
    let names = ["a", "b", "c"];
    let fields: Vec<Field> = names[..columns].iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
    let mut array = || -> ArrayRef {
        let value = |_| (!random.one_in(9)).then(|| random.below(below) as i64);
        Arc::new((0..rows).map(value).collect::<Int64Array>())
    };
    let arrays = (0..columns).map(|_| array()).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    match random.one_in(3) {
        true => Plan::Values { schema: batch.schema(), batches: vec![batch] },
        false => Given::cut(random, &batch),
    }
}

/// As many elements as the number says, some of them NULL; `longest` for one number of fifty.
fn elements(value: Option<i64>, longest: i64) -> Option<Vec<Option<i64>>> {
    let value = value.filter(|value| value % 7 != 3)?;
    let length = if value % 50 == 49 { longest } else { value % 6 };
    Some((0..length).map(|i| (i % 4 != 2).then_some(value * 10 + i)).collect())
}

fn lists(values: &Int64Array) -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    values.iter().for_each(|value| builder.append_option(elements(value, 90)));
    Arc::new(builder.finish())
}

/// Some take more than a chunk.
fn long_lists(values: &Int64Array) -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    values.iter().for_each(|value| builder.append_option(elements(value, 5000)));
    Arc::new(builder.finish())
}

fn large_lists(values: &Int64Array) -> ArrayRef {
    let mut builder = LargeListBuilder::new(Int64Builder::new());
    values.iter().for_each(|value| builder.append_option(elements(value.map(|v| v + 1), 90)));
    Arc::new(builder.finish())
}

fn pairs(values: &Int64Array) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Int64Builder::new(), 2);
    for value in values.iter() {
        builder.values().append_option(value);
        builder.values().append_value(7);
        builder.append(value.is_some_and(|value| value % 3 != 0));
    }
    Arc::new(builder.finish())
}

#[test]
fn lists_are_taken_apart() {
    cases(0, 60, |random| {
        let long = random.one_in(2);
        let rows = if long { random.pick(&[0, 1, 40, 250]) } else { random.pick(&[0, 1, 30, 40]) };
        let input = numbers(random, 2, rows, 120);
        let kinds: [fn(&Int64Array) -> ArrayRef; 3] = [if long { long_lists } else { lists }, large_lists, pairs];
        let mut outputs = vec![column(0, "a"), column(1, "b")];
        let count = 1 + random.below(3);
        for _ in 0..count {
            outputs.push(computed(random.below(2), "list", random.pick(&kinds)));
        }
        let element = Arc::new(Field::new("element", DataType::Int64, true));
        let columns = (2..2 + count).map(|list| (list, element.clone())).collect();
        let mut plan = input.project(outputs).unwrap().unnest(columns, random.one_in(3)).unwrap();
        // Long lists beside each of their elements would be rows by the square of their length.
        let mut first = 2 + count;
        if long {
            let kept = [0, 1].into_iter().chain(first..first + count);
            plan = plan.project(kept.map(|c| column(c, &format!("c{c}"))).collect()).unwrap();
            first = 2;
        }
        if random.one_in(2) {
            let compared = random.pick(&[0, 1, first]);
            let less = Predicate::Compare { column: compared, op: CompareOp::Lt, value: int(60).into() };
            plan = plan.filter(less).unwrap();
        }
        if random.one_in(3) {
            plan = plan.aggregate(vec![first], Vec::new()).unwrap();
        }
        check(exec::optimize(plan), random, true)
    });
}

fn twice(values: &Int64Array) -> ArrayRef {
    Arc::new(values.unary::<_, Int64Type>(|v| (v * 2 + 1) % 41))
}

fn less(values: &Int64Array) -> ArrayRef {
    Arc::new(values.unary::<_, Int64Type>(|v| v - 3))
}

/// A step over the work table: it ends by itself, or because rows come again.
fn step(random: &mut Random, work: Plan, distinct: bool) -> Plan {
    let above = Predicate::Compare { column: 0, op: CompareOp::Gt, value: int(2).into() };
    let falls = |plan: Plan, first: usize, second: usize| {
        plan.filter(above.clone()).unwrap().project(vec![computed(first, "a", less), column(second, "b")]).unwrap()
    };
    match random.below(4) {
        0 if distinct => work.project(vec![computed(1, "a", twice), column(0, "b")]).unwrap(),
        1 if distinct => {
            let edges = numbers(random, 2, 40, 30);
            let edges = if random.one_in(2) { edges.shared(9) } else { edges };
            let (kind, on, build) = (JoinKind::Inner, vec![(1, 0)], random.pick(&[Side::Left, Side::Right]));
            let (nulls_equal, null_aware, residual) = (random.one_in(2), false, None);
            let join = Join { left: work, right: edges, kind, on, nulls_equal, null_aware, residual, build };
            Plan::join(join).unwrap().project(vec![column(0, "a"), column(3, "b")]).unwrap()
        }
        2 => {
            let other = falls(work.clone(), 0, 0);
            let more = falls(work, 0, 1).limit(0, Some(20));
            let schema = more.schema();
            Plan::Union(Union { inputs: vec![other.limit(0, Some(10)), more], schema })
        }
        _ => falls(work, 0, 1),
    }
}

#[test]
fn recursions_end_as_they_should() {
    cases(0, 300, |random| {
        let rows = random.pick(&[0, 1, 5, 60]);
        let base = numbers(random, 2, rows, 30);
        let (distinct, schema) = (random.one_in(2), base.schema());
        let work = Plan::WorkTable { id: 1, schema: schema.clone() };
        let step = step(random, work, distinct);
        let mut plan = Plan::recursive(Recursion { base, step, id: 1, distinct, schema: schema.clone() }).unwrap();
        match random.below(4) {
            0 => plan = plan.aggregate(vec![0], Vec::new()).unwrap(),
            1 => {
                // One within the step of another.
                let work = Plan::WorkTable { id: 2, schema: schema.clone() };
                let base =
                    work.clone().filter(Predicate::Compare { column: 0, op: CompareOp::Gt, value: int(20).into() });
                let inner = Plan::WorkTable { id: 3, schema: schema.clone() };
                let inner_step = inner
                    .filter(Predicate::Compare { column: 0, op: CompareOp::Gt, value: int(25).into() })
                    .unwrap()
                    .project(vec![computed(0, "a", less), column(1, "b")])
                    .unwrap();
                let inner =
                    Recursion { base: base.unwrap(), step: inner_step, id: 3, distinct: true, schema: schema.clone() };
                let step =
                    Plan::recursive(inner).unwrap().project(vec![computed(0, "a", less), column(1, "b")]).unwrap();
                plan = Plan::recursive(Recursion { base: plan, step, id: 2, distinct: true, schema }).unwrap();
            }
            2 => plan = plan.limit(random.below(4), Some(random.below(30))),
            _ => {}
        }
        check(exec::optimize(plan), random, true)
    });
}

/// Work that would never end ends with who wanted it.
#[test]
fn a_recursion_without_end_is_taken_as_far_as_it_is_wanted() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let one = RecordBatch::try_new(schema.clone(), vec![int(1)]).unwrap();
    let base = Plan::Values { schema: schema.clone(), batches: vec![one] };
    let work = Plan::WorkTable { id: 1, schema: schema.clone() };
    let step =
        work.project(vec![computed(0, "a", |values| Arc::new(values.unary::<_, Int64Type>(|v| v + 1)))]).unwrap();
    let endless = Plan::recursive(Recursion { base, step, id: 1, distinct: false, schema }).unwrap();
    let some = Predicate::Compare { column: 0, op: CompareOp::LtEq, value: int(70).into() };
    for plan in [
        endless.clone().limit(10, Some(60)),
        endless.clone().filter(some.clone()).unwrap().limit(10, Some(60)),
        endless.clone().limit(0, Some(70)).aggregate(vec![0], Vec::new()).unwrap(),
        endless
            .filter(some)
            .unwrap()
            .limit(0, Some(70))
            .sort(vec![SortKey { column: 0, descending: true, nulls_first: false }], None)
            .unwrap(),
    ] {
        let rows = crate::support::run(&plan).unwrap();
        assert_eq!(rows.num_rows(), if matches!(plan, Plan::Limit { .. }) { 60 } else { 70 }, "{plan}");
    }
}
