//! Random plans over random tables, put together so that their answer is one bag of rows: no limit over rows whose
//! order is free, no sum whose value depends on the order of its terms.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use exec::{
    AggregateCall, AggregateFunction, CompareOp, Expression, GroupingSet, GroupingSets, Join, JoinKind, Output, Plan,
    Predicate, Side, SortKey, Union,
};
use storage::TableVersion;

use super::elsewhere::Given;
use super::opaque::Mix;
use super::random::{Random, Spread, WEIRD, array, literal, numbers, plain, types};
use crate::support::{Function, Kind};

/// Means, which are no exact quarters: sums of them depend on the order.
const MEAN: &str = "avg";

/// What keeps the reference from taking forever.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Rows of any result.
    pub rows: usize,
    /// Pairs of rows that a join looks at.
    pub pairs: usize,
    /// Pairs of rows that a residual is evaluated for.
    pub residual_pairs: usize,
}

/// A plan, whether its rows have one order, and how many they are.
#[derive(Clone)]
pub struct Made {
    pub plan: Plan,
    ordered: bool,
    rows: usize,
}

/// Makes plans.
pub struct Generator<'a> {
    pub random: &'a mut Random,
    pub tables: Vec<Arc<TableVersion>>,
    pub limits: Limits,
    shared: Vec<Made>,
}

fn columns_of(schema: &Schema, wanted: impl Fn(&Field) -> bool) -> Vec<usize> {
    (0..schema.fields().len()).filter(|&c| wanted(schema.field(c))).collect()
}

fn is(data_type: DataType) -> impl Fn(&Field) -> bool {
    move |field| *field.data_type() == data_type
}

impl<'a> Generator<'a> {
    pub fn new(random: &'a mut Random, tables: Vec<Arc<TableVersion>>, limits: Limits) -> Generator<'a> {
        Generator { random, tables, limits, shared: Vec::new() }
    }

    /// A plan of up to `depth` operators one over the other, and perhaps an order or a limit on top.
    pub fn plan(&mut self, depth: usize) -> Plan {
        let made = self.made(depth);
        let schema = made.plan.schema();
        match self.random.below(5) {
            0 if !schema.fields().is_empty() => {
                let count = 1 + self.random.below(3);
                let fetch = self.random.one_in(2).then(|| self.few(made.rows));
                let usable = columns_of(&schema, |field| fetch.is_none() || plain(field));
                let columns: Vec<usize> = (0..count).filter_map(|_| self.random.choose(&usable)).collect();
                let keys = columns.into_iter().map(|c| self.key(c)).collect();
                made.plan.sort(keys, fetch).unwrap()
            }
            1 if !matches!(made.plan, Plan::Limit { .. }) => {
                let skip = if self.random.one_in(2) { 0 } else { self.few(made.rows) };
                let fetch = (!self.random.one_in(4)).then(|| self.few(made.rows));
                made.plan.limit(skip, fetch)
            }
            _ => made.plan,
        }
    }

    /// A number of rows, at times more than there are.
    fn few(&mut self, rows: usize) -> usize {
        match self.random.below(4) {
            0 => self.random.below(4),
            _ => self.random.below(rows + 3),
        }
    }

    fn key(&mut self, column: usize) -> SortKey {
        SortKey { column, descending: self.random.one_in(2), nulls_first: self.random.one_in(2) }
    }

    fn made(&mut self, depth: usize) -> Made {
        if depth == 0 || self.random.one_in(12) {
            return self.leaf();
        }
        let kind = self.random.below(16);
        if kind >= 13 && !self.shared.is_empty() && self.random.one_in(2) {
            return self.random.pick(&self.shared.clone());
        }
        let input = self.made(depth - 1);
        let made = match kind {
            0 | 1 => {
                let predicate = self.predicate(&input.plan.schema(), 2);
                self.checked(input.plan.clone().filter(predicate).unwrap(), input.ordered)
            }
            2 | 3 => {
                let outputs = self.outputs(&input.plan.schema());
                self.checked(input.plan.clone().project(outputs).unwrap(), input.ordered)
            }
            4 | 5 => self.limited(&input),
            6..=8 => self.aggregate(&input),
            9..=12 => self.join(&input, depth - 1),
            13 | 14 => self.union(&input, depth - 1),
            _ => {
                let shared = Made { plan: input.plan.clone().shared(self.shared.len()), ..input.clone() };
                self.shared.push(shared.clone());
                Some(shared)
            }
        };
        made.unwrap_or(input)
    }

    /// The plan, unless the reference fails or has too many rows.
    fn checked(&mut self, plan: Plan, ordered: bool) -> Option<Made> {
        let batches = exec::reference::execute(&plan).ok()?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        (rows <= self.limits.rows).then_some(Made { plan, ordered, rows })
    }

    fn leaf(&mut self) -> Made {
        let plan = match self.random.below(8) {
            0 => {
                let types: Vec<DataType> = (0..1 + self.random.below(3)).map(|_| self.random.pick(&types())).collect();
                let fields = types.iter().map(|t| Field::new("v", t.clone(), true)).collect::<Vec<_>>();
                self.values(Arc::new(Schema::new(fields)))
            }
            _ => {
                let table = self.random.pick(&self.tables.clone());
                let width = table.schema.fields().len();
                let columns = match self.random.below(6) {
                    0 => (0..self.random.below(5)).map(|_| self.random.below(width)).collect(),
                    _ => (0..width).collect(),
                };
                Plan::scan("t", table, columns).unwrap()
            }
        };
        let batches = exec::reference::execute(&plan).unwrap();
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        // At times the same rows come from elsewhere.
        let plan = match self.random.one_in(5) {
            true => Given::cut(self.random, &concat_batches(&plan.schema(), &batches).unwrap()),
            false => plan,
        };
        Made { plan, ordered: true, rows }
    }

    fn values(&mut self, schema: SchemaRef) -> Plan {
        let batches = (0..self.random.below(3)).map(|_| {
            let rows = self.random.below(8);
            let columns = schema.fields().iter().map(|field| {
                let numbers = numbers(self.random, rows, Spread::Few(6), field.is_nullable());
                array(field.data_type(), &numbers, false)
            });
            let columns = columns.collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(schema.clone(), columns, &options).unwrap()
        });
        let batches = batches.collect();
        Plan::Values { schema, batches }
    }

    fn predicate(&mut self, schema: &Schema, depth: usize) -> Predicate {
        let usable = columns_of(schema, plain);
        let kind = self.random.below(if depth == 0 { 7 } else { 10 });
        let Some(column) = self.random.choose(&usable) else { return Predicate::And(Vec::new()) };
        let data_type = schema.field(column).data_type();
        let ints = columns_of(schema, is(DataType::Int64));
        match kind {
            0..=2 => {
                use CompareOp::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
                let op = self.random.pick(&[Eq, NotEq, Lt, LtEq, Gt, GtEq]);
                Predicate::Compare { column, op, value: literal(self.random, data_type, 1).into() }
            }
            3 => {
                let count = self.random.below(6);
                let values = literal(self.random, data_type, count);
                Predicate::In { column, values, negated: self.random.one_in(2) }
            }
            4 => Predicate::IsNull { column, negated: self.random.one_in(2) },
            5 | 6 => {
                let pair = (self.random.choose(&ints), self.random.choose(&ints));
                let function = match (self.random.below(4), pair) {
                    (0, (Some(c), _)) => Function::new(Kind::Even, vec![c]),
                    (1, (Some(c), _)) => Function::new(Kind::NullOrThird, vec![c]),
                    (2, (Some(a), Some(b))) if a != b => Function::new(Kind::Less, vec![a.min(b), a.max(b)]),
                    (3, (Some(c), _)) => Function::new(Kind::Moody, vec![c]),
                    _ => Function::new(Kind::Truth(self.random.pick(&[Some(true), Some(false), None])), vec![]),
                };
                Predicate::Boolean(function)
            }
            7 => Predicate::Not(Box::new(self.predicate(schema, depth - 1))),
            8 => Predicate::And((0..self.random.below(4)).map(|_| self.predicate(schema, depth - 1)).collect()),
            _ => Predicate::Or((0..self.random.below(4)).map(|_| self.predicate(schema, depth - 1)).collect()),
        }
    }

    fn outputs(&mut self, schema: &Schema) -> Vec<Output> {
        let width = schema.fields().len();
        let computed = |function: Arc<Function>| {
            let field = Field::new("e", function.data_type().clone(), true);
            Output::Expression { expression: function, field: Arc::new(field) }
        };
        let ints = columns_of(schema, is(DataType::Int64));
        let texts = columns_of(schema, is(DataType::Utf8View));
        let output = |random: &mut Random| match (random.below(8), random.choose(&ints), random.choose(&texts)) {
            (0, Some(c), _) => Some(computed(Function::new(Kind::Add(random.below(50) as i64), vec![c]))),
            (1, Some(c), _) => Some(computed(Function::new(Kind::Even, vec![c]))),
            (2, _, Some(c)) => Some(computed(Function::new(Kind::Length, vec![c]))),
            _ if width > 0 => {
                let column = random.below(width);
                Some(Output::Column { column, field: schema.fields()[column].clone() })
            }
            _ => None,
        };
        (0..self.random.below(6)).filter_map(|_| output(self.random)).collect()
    }

    /// Some rows of an input that has an order; of any other the first in an order by all columns.
    fn limited(&mut self, input: &Made) -> Option<Made> {
        let schema = input.plan.schema();
        if input.ordered && self.random.one_in(2) {
            let skip = self.few(input.rows) / 2;
            let fetch = if self.random.one_in(4) { None } else { Some(self.few(input.rows)) };
            return self.checked(input.plan.clone().limit(skip, fetch), true);
        }
        if schema.fields().iter().any(|field| !plain(field)) {
            return None;
        }
        let mut columns: Vec<usize> = (0..schema.fields().len()).collect();
        for i in (1..columns.len()).rev() {
            columns.swap(i, self.random.below(i + 1));
        }
        let keys = columns.into_iter().map(|c| self.key(c)).collect();
        let fetch = (!self.random.one_in(3)).then(|| self.few(input.rows));
        let sorted = input.plan.clone().sort(keys, fetch).unwrap();
        let skip = self.few(input.rows) / 2;
        let plan = if self.random.one_in(2) { sorted } else { sorted.limit(skip, None) };
        self.checked(plan, true)
    }

    fn aggregate(&mut self, input: &Made) -> Option<Made> {
        let schema = input.plan.schema();
        let width = schema.fields().len();
        let keys = if width == 0 { 0 } else { self.random.below(4) };
        let keys: Vec<usize> = (0..keys).map(|_| self.random.below(width)).collect();
        let calls = (0..self.random.below(5)).map(|_| match self.random.one_in(4) {
            true => self.ordered_call(&schema, input.ordered),
            false => self.call(&schema),
        });
        let calls = calls.collect();
        if !self.random.one_in(3) {
            return self.checked(input.plan.clone().aggregate(keys, calls).unwrap(), false);
        }
        let set = |random: &mut Random, id| {
            let keys = (0..keys.len()).filter(|_| random.one_in(2)).collect();
            GroupingSet { keys, id }
        };
        let sets = (0..1 + self.random.below(4) as u64).map(|id| set(self.random, id)).collect();
        let id = Arc::new(Field::new("set", DataType::UInt16, false));
        let plan = input.plan.clone().aggregate_sets(keys, GroupingSets { sets, id }, calls);
        self.checked(plan.unwrap(), false)
    }

    /// A call whose result depends on the order of rows. Where the input has none of its own, rows that the call's
    /// order leaves equal are equal in the argument.
    fn ordered_call(&mut self, schema: &Schema, ordered: bool) -> AggregateCall {
        let usable = columns_of(schema, |field| plain(field) && !matches!(field.data_type(), DataType::List(_)));
        let Some(column) = self.random.choose(&usable) else { return self.call(schema) };
        let data_type = schema.field(column).data_type().clone();
        let filters = columns_of(schema, is(DataType::Boolean));
        let filter = if self.random.one_in(4) { self.random.choose(&filters) } else { None };
        let mut order = vec![self.key(column)];
        if ordered && self.random.one_in(2) {
            let columns: Vec<usize> = (0..self.random.below(3)).filter_map(|_| self.random.choose(&usable)).collect();
            order = columns.into_iter().map(|c| self.key(c)).collect();
        }
        let share = self.random.pick(&[0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0]);
        let place = self.random.pick(&[1, 1, -1, 2, -2, 7]);
        let nulls = self.random.one_in(2);
        let text = matches!(data_type, DataType::Utf8View);
        let number = data_type.is_integer() || matches!(data_type, DataType::Float64 | DataType::Decimal128(..));
        let mut name = "o";
        let (function, output) = match self.random.below(6) {
            0 => (AggregateFunction::Mode, data_type),
            1 if number => {
                name = MEAN;
                let output = match data_type {
                    DataType::Decimal128(..) if share == 0.5 => data_type,
                    _ => DataType::Float64,
                };
                (AggregateFunction::Quantile { share, continuous: true }, output)
            }
            1 | 2 => (AggregateFunction::Quantile { share, continuous: false }, data_type),
            3 if text => (AggregateFunction::Join { separator: ", ".into() }, data_type),
            3 | 4 => {
                name = WEIRD;
                let item = Field::new_list_field(data_type, true);
                (AggregateFunction::Collect { nulls }, DataType::List(Arc::new(item)))
            }
            _ => (AggregateFunction::Nth { place, nulls }, data_type),
        };
        if function.is_ranked() {
            order = vec![self.key(column)];
        }
        // Of distinct values the order has to be one of them.
        let distinct = order.iter().all(|key| key.column == column) && self.random.one_in(3);
        let field = Arc::new(Field::new(name, output, true));
        AggregateCall { function, arguments: vec![column], distinct, filter, order, field }
    }

    fn call(&mut self, schema: &Schema) -> AggregateCall {
        let filters = columns_of(schema, is(DataType::Boolean));
        let filter = if self.random.one_in(4) { self.random.choose(&filters) } else { None };
        let distinct = self.random.one_in(4);
        let any: Vec<usize> = (0..schema.fields().len()).collect();
        let usable = columns_of(schema, plain);
        let summable = columns_of(schema, |field| {
            let number = field.data_type().is_integer() || field.data_type().is_floating();
            let number = number || matches!(field.data_type(), DataType::Decimal128(..));
            plain(field) && number && !field.name().starts_with(MEAN)
        });
        let ints = columns_of(schema, is(DataType::Int64));
        let call = |function, arguments, distinct, name: &str, data_type: DataType| AggregateCall {
            function,
            arguments,
            distinct,
            filter,
            order: Vec::new(),
            field: Arc::new(Field::new(name, data_type, true)),
        };
        let random = &mut *self.random;
        match (random.below(10), random.choose(&any), random.choose(&usable), random.choose(&summable)) {
            (0, Some(c), ..) => call(AggregateFunction::Count, vec![c], distinct, "n", DataType::Int64),
            (1 | 2, _, Some(c), _) => {
                let function = if random.one_in(2) { AggregateFunction::Min } else { AggregateFunction::Max };
                let field = schema.field(c);
                call(function, vec![c], distinct, field.name(), field.data_type().clone())
            }
            (3..=5, _, _, Some(c)) => {
                call(AggregateFunction::Sum, vec![c], distinct, "s", sum_type(schema.field(c).data_type()))
            }
            (6 | 7, _, _, Some(c)) => {
                let (name, data_type) = match schema.field(c).data_type() {
                    DataType::Decimal128(p, s) => ("d", DataType::Decimal128((p + 4).min(38), s + 4)),
                    _ => (MEAN, DataType::Float64),
                };
                call(AggregateFunction::Avg, vec![c], distinct, name, data_type)
            }
            (8, ..) if !ints.is_empty() => {
                let arguments = (0..1 + random.below(2)).map(|_| random.pick(&ints)).collect();
                call(AggregateFunction::Opaque(Mix::new()), arguments, distinct, "o", DataType::Int64)
            }
            _ => call(AggregateFunction::CountRows, Vec::new(), false, "n", DataType::Int64),
        }
    }

    fn join(&mut self, left: &Made, depth: usize) -> Option<Made> {
        let deep = self.random.below(depth + 1);
        let right = if self.random.one_in(6) { left.clone() } else { self.made(deep) };
        let (of_left, of_right) = (left.plan.schema(), right.plan.schema());
        let mut candidates = Vec::new();
        for (l, field) in of_left.fields().iter().enumerate() {
            candidates.extend(columns_of(&of_right, is(field.data_type().clone())).into_iter().map(|r| (l, r)));
        }
        let keys = [0, 1, 1, 1, 1, 2, 2, 3][self.random.below(8)];
        let on: Vec<(usize, usize)> = (0..keys).filter_map(|_| self.random.choose(&candidates)).collect();
        let pairs = left.rows.saturating_mul(right.rows);
        if pairs > self.limits.pairs || (on.is_empty() && pairs > self.limits.rows) {
            return None;
        }
        use Side::{Left, Right};
        let kind = self.random.pick(&[
            JoinKind::Inner,
            JoinKind::Inner,
            JoinKind::Left,
            JoinKind::Right,
            JoinKind::Full,
            JoinKind::Semi(Left),
            JoinKind::Semi(Right),
            JoinKind::Anti(Left),
            JoinKind::Anti(Right),
            JoinKind::Anti(Left),
            JoinKind::Mark(Left),
            JoinKind::Mark(Right),
        ]);
        let null_aware = matches!(kind, JoinKind::Anti(_)) && on.len() == 1 && self.random.one_in(2);
        let with_residual = !null_aware && pairs <= self.limits.residual_pairs && self.random.one_in(3);
        let nulls_equal = !null_aware && self.random.one_in(5);
        let build = if self.random.one_in(2) { Left } else { Right };
        let (left, right) = (left.plan.clone(), right.plan);
        let mut join = Join { left, right, kind, on, nulls_equal, null_aware, residual: None, build };
        if with_residual {
            join.residual = Some(self.predicate(&join.pair_schema(), 1));
        }
        self.checked(Plan::join(join).unwrap(), false)
    }

    fn union(&mut self, first: &Made, depth: usize) -> Option<Made> {
        let schema = first.plan.schema();
        let mut inputs = vec![first.clone()];
        for _ in 0..self.random.below(3) {
            let other = match self.random.below(4) {
                0 => Made { plan: self.values(schema.clone()), ordered: true, rows: 0 },
                1 => {
                    let predicate = self.predicate(&schema, 1);
                    Made { plan: first.plan.clone().filter(predicate).unwrap(), ..first.clone() }
                }
                _ => {
                    let deep = self.random.below(depth + 1);
                    let other = self.made(deep);
                    match self.shaped(&other, &schema) {
                        Some(shaped) => shaped,
                        None => continue,
                    }
                }
            };
            inputs.push(other);
        }
        let schemas: Vec<SchemaRef> = inputs.iter().map(|input| input.plan.schema()).collect();
        let fields: Vec<FieldRef> = (0..schema.fields().len())
            .map(|c| {
                let of: Vec<&Field> = schemas.iter().map(|s| s.field(c)).collect();
                let marked = |mark| of.iter().any(|f| f.name().starts_with(mark)).then_some(mark);
                let name = marked(WEIRD).or(marked(MEAN)).unwrap_or("u");
                let nullable = of.iter().any(|f| f.is_nullable());
                Arc::new(Field::new(name, schema.field(c).data_type().clone(), nullable))
            })
            .collect();
        let ordered = inputs.iter().all(|input| input.ordered);
        let inputs = inputs.into_iter().map(|input| input.plan).collect();
        let union = Plan::Union(Union { inputs, schema: Arc::new(Schema::new(fields)) });
        self.checked(union, ordered)
    }

    /// A projection of the plan to columns of these types, if it has some of each.
    fn shaped(&mut self, made: &Made, schema: &Schema) -> Option<Made> {
        let own = made.plan.schema();
        let mut outputs = Vec::new();
        for field in schema.fields() {
            let column = self.random.choose(&columns_of(&own, is(field.data_type().clone())))?;
            outputs.push(Output::Column { column, field: own.fields()[column].clone() });
        }
        Some(Made { plan: made.plan.clone().project(outputs).unwrap(), ..made.clone() })
    }
}

fn sum_type(of: &DataType) -> DataType {
    match of {
        DataType::Decimal128(p, s) => DataType::Decimal128((p + 10).min(38), *s),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
        float if float.is_floating() => DataType::Float64,
        _ => DataType::Int64,
    }
}
