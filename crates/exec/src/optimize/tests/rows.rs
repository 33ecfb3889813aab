//! An optimised plan gives the rows of the plan: random plans over random tables, by the reference executor.

use arrow::array::new_null_array;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;

use super::*;
use crate::plan::{SortKey, Union};
use crate::reference;

/// Numbers that decide what a plan looks like.
struct Dice {
    numbers: Vec<u16>,
    next: usize,
    shared: Vec<Plan>,
}

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        let number = self.numbers[self.next % self.numbers.len()];
        self.next += 1;
        number as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Rows of a few numbers, some of them NULL.
    fn table(&mut self) -> Plan {
        let (rows, width) = (self.below(12), 1 + self.below(3));
        let fields: Vec<Field> = (0..width).map(|c| Field::new(format!("c{c}"), DataType::Int64, true)).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let column = |dice: &mut Dice| -> ArrayRef {
            let value = |dice: &mut Dice| (!dice.one_in(6)).then(|| dice.below(5) as i64);
            Arc::new(Int64Array::from((0..rows).map(|_| value(dice)).collect::<Vec<_>>()))
        };
        let columns = (0..width).map(|_| column(self)).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        if self.one_in(8) {
            return Plan::Values { schema, batches: vec![batch] };
        }
        Plan::scan("t", stored(&schema, &batch), (0..width).collect()).unwrap()
    }

    fn numbers_of(&self, schema: &Schema) -> Vec<usize> {
        (0..schema.fields().len()).filter(|&c| schema.field(c).data_type() == &DataType::Int64).collect()
    }

    fn pick(&mut self, of: &[usize]) -> usize {
        of[self.below(of.len())]
    }

    fn predicate(&mut self, schema: &Schema, depth: usize) -> Predicate {
        let numbers = self.numbers_of(schema);
        if numbers.is_empty() {
            return Predicate::And(Vec::new());
        }
        let column = self.pick(&numbers);
        let op = [CompareOp::Eq, CompareOp::Lt, CompareOp::GtEq, CompareOp::NotEq][self.below(4)];
        match self.below(9) {
            0 if depth > 0 => Predicate::Or(vec![self.predicate(schema, depth - 1), self.predicate(schema, depth - 1)]),
            1 if depth > 0 => {
                Predicate::And(vec![self.predicate(schema, depth - 1), self.predicate(schema, depth - 1)])
            }
            2 if depth > 0 => Predicate::Not(Box::new(self.predicate(schema, depth - 1))),
            3 => Predicate::IsNull { column, negated: self.one_in(2) },
            4 => {
                let values = Arc::new(Int64Array::from(vec![self.below(5) as i64, self.below(5) as i64]));
                Predicate::In { column, values, negated: self.one_in(4) }
            }
            5..8 if numbers.len() > 1 => {
                let other = self.pick(&numbers);
                match () {
                    () if other == column => Predicate::IsNull { column, negated: true },
                    () if self.one_in(5) => Pair::dividing(column, other),
                    () => Pair::of(column, if self.one_in(2) { CompareOp::Eq } else { op }, other),
                }
            }
            _ => Predicate::Compare { column, op, value: number(self.below(5) as i64).into() },
        }
    }

    fn join(&mut self, depth: usize) -> Plan {
        let (left, right) = (self.plan(depth - 1), self.plan(depth - 1));
        let (l, r) = (self.numbers_of(&left.schema()), self.numbers_of(&right.schema()));
        let side = if self.one_in(2) { Side::Left } else { Side::Right };
        let kind = match self.below(12) {
            0 => JoinKind::Left,
            1 => JoinKind::Right,
            2 => JoinKind::Full,
            3 | 4 => JoinKind::Semi(side),
            5 => JoinKind::Anti(side),
            6 => JoinKind::Mark(side),
            _ => JoinKind::Inner,
        };
        let keys = if l.is_empty() || r.is_empty() { 0 } else { [1, 1, 1, 2, 0][self.below(5)] };
        let on: Vec<(usize, usize)> = (0..keys).map(|_| (self.pick(&l), self.pick(&r))).collect();
        let null_aware = matches!(kind, JoinKind::Anti(_)) && on.len() == 1 && self.one_in(2);
        let nulls_equal = !null_aware && self.one_in(8);
        let build = if self.one_in(2) { Side::Left } else { Side::Right };
        let mut join = Join { left, right, kind, on, nulls_equal, null_aware, residual: None, build };
        if !null_aware && self.one_in(3) {
            join.residual = Some(self.predicate(&join.pair_schema(), 1));
        }
        Plan::join(join).unwrap()
    }

    fn plan(&mut self, depth: usize) -> Plan {
        if depth == 0 {
            return self.table();
        }
        let choice = self.below(14);
        if choice < 6 {
            return self.join(depth);
        }
        let input = self.plan(depth - 1);
        let schema = input.schema();
        let numbers = self.numbers_of(&schema);
        match choice {
            6..9 => input.filter(self.predicate(&schema, 2)).unwrap(),
            9 if !schema.fields().is_empty() => {
                let count = 1 + self.below(4);
                let plain = |dice: &mut Dice| {
                    let column = dice.below(schema.fields().len());
                    Output::Column { column, field: schema.fields()[column].clone() }
                };
                let mut outputs: Vec<Output> = (0..count).map(|_| plain(self)).collect();
                if numbers.len() > 1 && self.one_in(3) {
                    let (a, b) = (numbers[0], numbers[1]);
                    let made = if self.one_in(3) { Pair::dividing(a, b) } else { Pair::of(a, CompareOp::Lt, b) };
                    let Predicate::Boolean(expression) = made else { unreachable!("made so") };
                    let field = Arc::new(Field::new("less", DataType::Boolean, true));
                    outputs.push(Output::Expression { expression, field });
                }
                input.project(outputs).unwrap()
            }
            10 if !numbers.is_empty() => {
                let keys = (0..self.below(3)).map(|_| self.pick(&numbers)).collect();
                let function =
                    [AggregateFunction::Sum, AggregateFunction::Min, AggregateFunction::Count][self.below(3)].clone();
                let field = Arc::new(Field::new("made", DataType::Int64, true));
                let arguments = vec![self.pick(&numbers)];
                let call = AggregateCall {
                    function,
                    arguments,
                    distinct: self.one_in(3),
                    filter: None,
                    order: Vec::new(),
                    field,
                };
                input.aggregate(keys, vec![call; 1 + self.below(2)]).unwrap_or_else(|e| panic!("{e}"))
            }
            11 => {
                // All columns, so that it does not matter which of equal rows come first.
                let all = 0..schema.fields().len();
                let keys = all.map(|column| SortKey { column, descending: false, nulls_first: false }).collect();
                let fetch = self.one_in(2).then(|| self.below(8));
                input.sort(keys, fetch).unwrap()
            }
            12 => Plan::Union(Union { inputs: vec![input.clone(), input], schema }),
            _ => {
                if self.shared.is_empty() || self.one_in(2) {
                    let (id, keep) = (self.shared.len(), self.one_in(4));
                    self.shared.push(Plan::Shared(Arc::new(crate::plan::Shared { id, keep, plan: input })));
                }
                let which = self.below(self.shared.len());
                self.shared[which].clone()
            }
        }
    }
}

/// Rows as text, sorted.
fn rows(plan: &Plan) -> Result<Vec<String>, ExecError> {
    let mut rows = Vec::new();
    for batch in reference::execute(plan)? {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter();
        let columns: Vec<ArrayFormatter> =
            columns.map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|r| {
            let values: Vec<String> = columns.iter().map(|c| c.value(r).to_string()).collect();
            values.join(", ")
        }));
    }
    rows.sort_unstable();
    Ok(rows)
}

#[test]
fn rows_with_nothing_in_common_are_told_apart() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]));
    let batch = |array| RecordBatch::try_new(schema.clone(), vec![array]).unwrap();
    let values = |array| Plan::Values { schema: schema.clone(), batches: vec![batch(array)] };
    assert_ne!(rows(&values(number(1))).unwrap(), rows(&values(new_null_array(&DataType::Int64, 1))).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn an_optimised_plan_gives_the_same_rows(numbers in proptest::collection::vec(any::<u16>(), 400)) {
        let plan = Dice { numbers, next: 0, shared: Vec::new() }.plan(5);
        // What fails as it is written may fail or not; what does not fail must not fail then.
        if let Ok(expected) = rows(&plan) {
            let better = optimized(&plan);
            match rows(&better) {
                Ok(found) => prop_assert_eq!(expected, found, "\n{}\n{}", plan, better),
                Err(error) => prop_assert!(false, "{}\n{}\n{}", error, plan, better),
            }
        }
    }
}
