//! Compiled expressions against a slow evaluator that looks at one row at a time and checks every step.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field};
use numa::{Allocator, Budget};
use random::Random;
use sched::Statement;
use storage::{Dictionary, Serial};

use super::compile::compile;
use super::entries::Site;
use super::typed::Node;
use super::*;
use crate::chunk::vector::integer_bounds;
use crate::plan::expression::{ArithmeticOp, CompareOp, DatePart, Scalar};
use crate::tasks::places::{Lookup, Places};
use crate::tasks::run::Run;

mod slow;

use slow::{Value, slow};

const ROWS: usize = 61;
const WORDS: [&str; 7] = ["", "a", "anchor", "banana and a long tail of it", "bee", "cab", "zebra"];

/// Columns, what is known of them, and their values one by one.
struct Table {
    infos: Vec<ColumnInfo>,
    vectors: Vec<Arc<Vector>>,
}

impl Table {
    fn chunk(&self) -> Chunk {
        let mut chunk = Chunk::empty(ROWS);
        self.vectors.iter().for_each(|v| chunk.push(v.clone()));
        chunk
    }

    fn value(&self, column: usize, row: usize) -> Option<Value> {
        let (info, vector) = (&self.infos[column], &self.vectors[column]);
        if !vector.is_valid(row) {
            return None;
        }
        Some(match (&vector.data, &info.kind) {
            (Data::Int(values), _) if *info.data_type() == DataType::Boolean => Value::Bool(values[row] != 0),
            (Data::Int(values), _) => Value::Int(values[row].into()),
            (Data::Float(values), _) => Value::Float(values[row]),
            (Data::Vid(vids), ColumnKind::Vid(dictionary)) => {
                Value::Text(String::from_utf8(dictionary.bytes_of(vids[row]).unwrap().to_vec()).unwrap())
            }
            _ => unreachable!("no other kinds here"),
        })
    }
}

const INTS: [usize; 3] = [0, 1, 2];
const DECIMALS: [usize; 2] = [3, 4];
const DATE: usize = 5;
const FLOAT: usize = 6;
const BOOL: usize = 7;
const TEXTS: [usize; 2] = [8, 9];

fn table(random: &mut Random) -> Table {
    let dictionary = Arc::new(Dictionary::of_strings(&WORDS, &Allocator::unplaced()).unwrap());
    let extreme = [(-5, 5), (1, 9), (i64::MIN, i64::MAX), (i64::MAX - 3, i64::MAX), (-4_000_000_000, 4_000_000_000)];
    let types = [
        DataType::Int64,
        DataType::Int64,
        DataType::Int32,
        DataType::Decimal128(15, 2),
        DataType::Decimal128(12, 4),
        DataType::Date32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Utf8View,
        DataType::Utf8View,
    ];
    let (mut infos, mut vectors) = (Vec::new(), Vec::new());
    for (column, data_type) in types.into_iter().enumerate() {
        let (low, high) = match column {
            0 | 1 => extreme[random.below(extreme.len())],
            2 => [(-100, 100), (0, 3), (i32::MIN.into(), i32::MAX.into())][random.below(3)],
            3 => [(-10, 1_000_000), (-999_999_999_999_999, 999_999_999_999_999)][random.below(2)],
            4 => [(1, 800_000), (-20_000, 50_000)][random.below(2)],
            5 => [(8_000, 10_600), (-700_000, 900_000), (-3_000_000, 0)][random.below(3)],
            7 => (0, 1),
            _ => (-4, 4),
        };
        let valid: Option<Vec<bool>> = (random.below(2) == 0).then(|| (0..ROWS).map(|_| random.below(5) > 0).collect());
        let is_valid = |row: usize| valid.as_ref().is_none_or(|v| v[row]);
        let (kind, data) = match data_type {
            DataType::Float64 => {
                let specials = [0.0, -0.0, f64::NAN, 1.5, -2.25, f64::INFINITY];
                (ColumnKind::Float, Data::Float((0..ROWS).map(|_| specials[random.below(specials.len())]).collect()))
            }
            DataType::Utf8View => {
                let vids = (0..ROWS).map(|r| if is_valid(r) { random.below(WORDS.len()) as u32 } else { 0 });
                (ColumnKind::Vid(dictionary.clone()), Data::Vid(vids.collect()))
            }
            _ => {
                let values = (0..ROWS).map(|r| if is_valid(r) { random.between(low, high) } else { 0 });
                (ColumnKind::Int { low, high }, Data::Int(values.collect()))
            }
        };
        let field = Arc::new(Field::new(format!("c{column}"), data_type, true));
        infos.push(ColumnInfo { field, kind, nullable: valid.is_some() });
        vectors.push(Arc::new(Vector { data, valid }));
    }
    Table { infos, vectors }
}

/// What a random tree is of.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Int,
    Decimal,
    Date,
    Float,
    Bool,
    Text,
}

fn constant(array: impl Array + 'static) -> Scalar {
    Scalar::Literal(Arc::new(array))
}

fn leaf(random: &mut Random, of: Of) -> Scalar {
    use arrow::array::{Date32Array, Decimal128Array, Float64Array, Int64Array};
    let null = random.below(12) == 0;
    let column = random.below(3) > 0;
    match of {
        Of::Int if column => Scalar::Column(INTS[random.below(2)]),
        Of::Int => constant(Int64Array::from(vec![(!null).then(|| random.between(-9, 9))])),
        Of::Decimal if column => Scalar::Column(DECIMALS[random.below(2)]),
        Of::Decimal => {
            let scale = random.below(4) as i8;
            let value = Decimal128Array::from(vec![(!null).then(|| i128::from(random.between(-900, 900)))]);
            constant(value.with_precision_and_scale(12, scale).unwrap())
        }
        Of::Date if column => Scalar::Column(DATE),
        Of::Date => constant(Date32Array::from(vec![(!null).then(|| random.between(-3000, 11_000) as i32)])),
        Of::Float if column => Scalar::Column(FLOAT),
        Of::Float => constant(Float64Array::from(vec![(!null).then(|| random.between(-2, 2) as f64)])),
        Of::Bool if column => Scalar::Column(BOOL),
        Of::Bool => constant(BooleanArray::from(vec![(!null).then(|| random.below(2) == 0)])),
        Of::Text if column => Scalar::Column(TEXTS[random.below(2)]),
        Of::Text => {
            let words = [WORDS[3], "aardvark", "zz", WORDS[1]];
            constant(StringViewArray::from(vec![(!null).then(|| words[random.below(4)])]))
        }
    }
}

fn tree(random: &mut Random, of: Of, depth: usize) -> Scalar {
    if depth == 0 || random.below(6) == 0 {
        return leaf(random, of);
    }
    let boxed = |random: &mut Random, of| Box::new(tree(random, of, depth - 1));
    let choice = random.below(8);
    if choice == 0 {
        return case(random, of, depth);
    }
    match of {
        Of::Int => match choice {
            1 => Scalar::Negate(boxed(random, of)),
            2 => cast(tree(random, Of::Bool, depth - 1), DataType::Int64),
            3 => cast(tree(random, Of::Decimal, depth - 1), DataType::Int64),
            4 => {
                let parts = [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::Day];
                let input = boxed(random, Of::Date);
                let part = Scalar::DatePart { part: parts[random.below(4)], input, data_type: DataType::Int32 };
                cast(part, DataType::Int64)
            }
            5 => cast(opaque(random, 1), DataType::Int64),
            _ => {
                let (left, right) = (boxed(random, of), boxed(random, of));
                Scalar::Arithmetic { op: op(random), left, right, data_type: DataType::Int64 }
            }
        },
        Of::Decimal => match choice {
            1 => Scalar::Negate(boxed(random, of)),
            2 => cast(tree(random, Of::Decimal, depth - 1), DataType::Decimal128(38, random.below(6) as i8)),
            3 => cast(tree(random, Of::Int, depth - 1), DataType::Decimal128(38, random.below(3) as i8)),
            _ => {
                let (op, left, right) = (op(random), boxed(random, of), boxed(random, of));
                let (a, b) = (slow::scale(&slow::type_of(&left)), slow::scale(&slow::type_of(&right)));
                let scale = match op {
                    ArithmeticOp::Multiply => a + b,
                    ArithmeticOp::Divide => a + 4,
                    _ => a.max(b),
                };
                Scalar::Arithmetic { op, left, right, data_type: DataType::Decimal128(38, scale) }
            }
        },
        Of::Date => leaf(random, of),
        Of::Float => match choice {
            1 => Scalar::Negate(boxed(random, of)),
            2 => cast(tree(random, Of::Int, depth - 1), DataType::Float64),
            3 => cast(tree(random, Of::Decimal, depth - 1), DataType::Float64),
            _ => {
                let ops = [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide];
                let (left, right) = (boxed(random, of), boxed(random, of));
                Scalar::Arithmetic { op: ops[random.below(4)], left, right, data_type: DataType::Float64 }
            }
        },
        Of::Text => opaque(random, 0),
        Of::Bool => condition(random, depth, choice),
    }
}

fn op(random: &mut Random) -> ArithmeticOp {
    use ArithmeticOp::*;
    [Add, Subtract, Multiply, Add, Subtract, Multiply, Divide, Remainder][random.below(8)]
}

fn cast(input: Scalar, data_type: DataType) -> Scalar {
    Scalar::Cast { input: Box::new(input), data_type }
}

fn case(random: &mut Random, of: Of, depth: usize) -> Scalar {
    let result = |random: &mut Random| match of {
        Of::Decimal => cast(tree(random, of, depth - 1), DataType::Decimal128(38, 3)),
        of => tree(random, of, depth - 1),
    };
    let whens = (0..1 + random.below(2)).map(|_| (tree(random, Of::Bool, depth - 1), result(random))).collect();
    let otherwise = (random.below(3) > 0).then(|| Box::new(result(random)));
    let data_type = match of {
        Of::Int => DataType::Int64,
        Of::Decimal => DataType::Decimal128(38, 3),
        Of::Date => DataType::Date32,
        Of::Float => DataType::Float64,
        Of::Bool => DataType::Boolean,
        Of::Text => DataType::Utf8View,
    };
    Scalar::Case { whens, otherwise, data_type }
}

fn condition(random: &mut Random, depth: usize, choice: usize) -> Scalar {
    let part = |random: &mut Random, of| tree(random, of, depth - 1);
    let ops = [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];
    let any = [Of::Int, Of::Decimal, Of::Date, Of::Float, Of::Bool, Of::Text];
    match choice {
        1 => Scalar::And((0..1 + random.below(3)).map(|_| part(random, Of::Bool)).collect()),
        2 => Scalar::Or((0..1 + random.below(3)).map(|_| part(random, Of::Bool)).collect()),
        3 => Scalar::Not(Box::new(part(random, Of::Bool))),
        4 => {
            let of = any[random.below(6)];
            Scalar::IsNull { input: Box::new(part(random, of)), negated: random.below(2) == 0 }
        }
        5 => {
            let negated = random.below(2) == 0;
            if random.below(2) == 0 {
                let values: ArrayRef = Arc::new(StringViewArray::from(vec!["bee", "nothing", "a", "cab", "zz"]));
                return Scalar::In { input: Box::new(part(random, Of::Text)), values, negated };
            }
            let lists = [vec![-3, 4], vec![1, 2, 3], vec![], vec![i64::MIN, 0, i64::MAX], vec![7]];
            let values: ArrayRef = Arc::new(arrow::array::Int64Array::from(lists[random.below(5)].clone()));
            Scalar::In { input: Box::new(part(random, Of::Int)), values, negated }
        }
        6 => opaque(random, 2),
        _ => {
            let of = any[random.below(6)];
            let mut sides = [part(random, of), part(random, of)];
            if of == Of::Decimal {
                sides = sides.map(|side| cast(side, DataType::Decimal128(38, 4)));
            }
            let [left, right] = sides.map(Box::new);
            Scalar::Compare { op: ops[random.below(6)], left, right }
        }
    }
}

/// Functions of a text that only their owner can evaluate: its first letter, its length, whether it has an `a`.
#[derive(Debug)]
struct OfText {
    columns: [usize; 1],
    function: usize,
    data_type: DataType,
}

fn opaque(random: &mut Random, function: usize) -> Scalar {
    let data_type = [DataType::Utf8View, DataType::Int32, DataType::Boolean][function].clone();
    Scalar::Opaque(Arc::new(OfText { columns: [TEXTS[random.below(2)]], function, data_type }))
}

impl Expression for OfText {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let texts = batch.column(0).as_string_view();
        Ok(match self.function {
            // NULL where there is none, and a word for NULL.
            0 => Arc::new(StringViewArray::from_iter(texts.iter().map(|t| t.map_or(Some("none"), |t| t.get(..1))))),
            1 => Arc::new(Int32Array::from_iter(texts.iter().map(|t| t.map(|t| t.len() as i32)))),
            _ => Arc::new(BooleanArray::from_iter(texts.iter().map(|t| t.map(|t| t.contains('a'))))),
        })
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        format!("function {} of a text", self.function)
    }

    fn fallible(&self) -> bool {
        false
    }
}

/// A tree as an expression; what is not compiled is evaluated by the slow evaluator.
#[derive(Debug)]
struct Tree {
    tree: Scalar,
    columns: Vec<usize>,
    data_type: DataType,
}

impl Expression for Tree {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let value = |column: usize, row: usize| slow::of_array(batch.column(column), row);
        let rows = (0..batch.num_rows()).map(|row| slow(&self.tree, &|c| value(c, row)));
        slow::to_array(&rows.collect::<Result<Vec<_>, _>>()?, &self.data_type)
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        format!("{:?}", self.tree)
    }

    fn fallible(&self) -> bool {
        true
    }

    fn structure(&self) -> Option<&Scalar> {
        Some(&self.tree)
    }
}

fn expression(tree: Scalar, infos: &[ColumnInfo]) -> Arc<dyn Expression> {
    let data_type = slow::type_of(&tree);
    Arc::new(Tree { tree, columns: (0..infos.len()).collect(), data_type })
}

fn with_run<T>(body: impl FnOnce(&Run<'_>) -> T) -> T {
    let statement = Statement::new(1, Budget::unlimited());
    let places = Places {
        lookup: Lookup::Nowhere,
        options: crate::ScanOptions::default(),
        turn: None,
        morsels_min: usize::MAX,
        attached: None,
    };
    body(&Run { statement: &statement, parallel: &Serial, threads: 1, places, traffic: &Arc::default() })
}

fn same(expected: &Option<Value>, info: &ColumnInfo, vector: &Vector, row: usize) -> bool {
    let found = vector.is_valid(row);
    match (expected, &vector.data, &info.kind) {
        (None, Data::Int(values), _) => !found && values[row] == 0,
        (None, Data::Vid(vids), _) => !found && vids[row] == 0,
        (None, ..) => !found,
        (Some(Value::Int(e)), Data::Int(v), ColumnKind::Int { low, high }) => {
            found && *e == i128::from(v[row]) && (*low..=*high).contains(&v[row])
        }
        (Some(Value::Bool(e)), Data::Int(v), _) => found && i64::from(*e) == v[row],
        // The sign of a NaN that arithmetic makes is nobody's promise.
        (Some(Value::Float(e)), Data::Float(v), _) => {
            found && (e.to_bits() == v[row].to_bits() || e.is_nan() && v[row].is_nan())
        }
        (Some(Value::Text(e)), Data::Vid(vids), ColumnKind::Vid(dictionary)) => {
            found && dictionary.bytes_of(vids[row]) == Some(e.as_bytes())
        }
        _ => false,
    }
}

#[test]
fn compiled_expressions_mean_what_they_say() {
    let kinds = [Of::Int, Of::Decimal, Of::Float, Of::Bool, Of::Text, Of::Date];
    let (mut compiled, mut failing, mut stopped) = (0, 0, 0);
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let table = table(&mut random);
        let of = kinds[random.below(kinds.len())];
        let depth = 1 + random.below(4);
        let tree = tree(&mut random, of, depth);
        let expected: Result<Vec<_>, _> = (0..ROWS).map(|row| slow(&tree, &|c| table.value(c, row))).collect();
        let expression = expression(tree, &table.infos);
        let field = Arc::new(Field::new("x", expression.data_type().clone(), true));
        with_run(|run| {
            let site = Site::new(&table.infos, Some(run), 1000);
            let Some((info, computes)) = computed(&expression, &field, &site) else { return };
            compiled += 1;
            let Ok(expected) = expected else {
                failing += 1;
                // A branch that is not taken may fail for nobody; what is taken may not.
                panic!("seed {seed}: compiled, but it fails: {expression:?}");
            };
            // What stops at a float out of range is evaluated by its owner, which has the same answer or an error.
            let stops = leaves_range(expression.structure().unwrap());
            let computed = Computed { computes, info: info.clone(), owner: None, _charged: site.reservations() };
            let vector = match computed.evaluate(&mut table.chunk()) {
                Err(ExecError::FloatRange) if stops => {
                    stopped += 1;
                    return;
                }
                vector => vector.unwrap(),
            };
            assert_eq!(vector.len(), ROWS);
            for (row, expected) in expected.iter().enumerate() {
                let columns: Vec<_> = (0..table.infos.len()).map(|c| table.value(c, row)).collect();
                assert!(
                    same(expected, &info, &vector, row),
                    "seed {seed}: row {row} {columns:?}: expected {expected:?}, found {:?} {}: {expression:?}",
                    vector.data,
                    vector.is_valid(row),
                );
            }
        });
    }
    assert!(compiled > 4_000, "many trees are compiled, {compiled} of 10000 were");
    assert_eq!(failing, 0);
    assert!((10..compiled / 4).contains(&stopped), "loops stopped at {stopped} of {compiled} trees");
}

/// A random condition of predicates and trees.
fn predicate(random: &mut Random, infos: &[ColumnInfo], depth: usize) -> Predicate {
    let many = |random: &mut Random| (0..1 + random.below(3)).map(|_| predicate(random, infos, depth - 1)).collect();
    match if depth == 0 { 3 + random.below(4) } else { random.below(7) } {
        0 => Predicate::And(many(random)),
        1 => Predicate::Or(many(random)),
        2 => Predicate::Not(Box::new(predicate(random, infos, depth - 1))),
        3 => Predicate::IsNull { column: random.below(infos.len()), negated: random.below(2) == 0 },
        4 => {
            let value: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![random.between(-6, 6)]));
            let ops = [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];
            Predicate::Compare { column: INTS[random.below(2)], op: ops[random.below(6)], value: value.into() }
        }
        5 => {
            let values: ArrayRef = Arc::new(StringViewArray::from(vec!["bee", "a", "zz"]));
            Predicate::In { column: TEXTS[random.below(2)], values, negated: random.below(2) == 0 }
        }
        _ => Predicate::Boolean(expression(tree(random, Of::Bool, 2), infos)),
    }
}

/// Three-valued truth of a condition for a row, left to right, as far as it is decided.
fn truth(predicate: &Predicate, row: &dyn Fn(usize) -> Option<Value>) -> Result<Option<bool>, ExecError> {
    let known = |value: Option<Value>| value.map(|v| v == Value::Bool(true));
    Ok(match predicate {
        Predicate::And(parts) => {
            let all: Result<Vec<_>, _> = parts.iter().map(|p| truth(p, row)).collect();
            let all = all?;
            if all.contains(&Some(false)) { Some(false) } else { (!all.contains(&None)).then_some(true) }
        }
        Predicate::Or(parts) => {
            let all: Result<Vec<_>, _> = parts.iter().map(|p| truth(p, row)).collect();
            let all = all?;
            if all.contains(&Some(true)) { Some(true) } else { (!all.contains(&None)).then_some(false) }
        }
        Predicate::Not(inner) => truth(inner, row)?.map(|v| !v),
        Predicate::IsNull { column, negated } => Some(row(*column).is_none() != *negated),
        Predicate::Compare { column, op, value } => {
            let (left, right) = (Box::new(Scalar::Column(*column)), Box::new(Scalar::Literal(value.value().clone())));
            known(slow(&Scalar::Compare { op: *op, left, right }, row)?)
        }
        Predicate::In { column, values, negated } => {
            let input = Box::new(Scalar::Column(*column));
            known(slow(&Scalar::In { input, values: values.clone(), negated: *negated }, row)?)
        }
        Predicate::Boolean(expression) => known(slow(expression.structure().unwrap(), row)?),
    })
}

#[test]
fn conditions_keep_the_rows_that_are_true() {
    let mut tested = 0;
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let table = table(&mut random);
        let predicate = predicate(&mut random, &table.infos, 3);
        let expected: Result<Vec<_>, _> = (0..ROWS).map(|row| truth(&predicate, &|c| table.value(c, row))).collect();
        // What fails for a row may or may not be reported, as the order of evaluation has it.
        let Ok(expected) = expected else { continue };
        let expected: Vec<u32> = (0..ROWS).filter(|&r| expected[r] == Some(true)).map(|r| r as u32).collect();
        with_run(|run| {
            let rows = if random.below(2) == 0 { 1000 } else { 3 };
            let test = prepared_test(&predicate, &table.infos, run, rows).unwrap();
            let mut chunk = table.chunk();
            assert_eq!(test.passing(&mut chunk).unwrap(), expected, "seed {seed}: {predicate:?}");
            assert_eq!(chunk.rows(), ROWS, "the chunk stays");
            test.narrow(&mut chunk).unwrap();
            assert_eq!(chunk.rows(), expected.len(), "seed {seed}: {predicate:?}");
            for column in 0..table.infos.len() {
                let kept = chunk.column(column);
                let (kept, whole) = (format!("{:?}", kept.data), table.vectors[column].take(&expected, false));
                assert_eq!(kept, format!("{:?}", whole.data), "seed {seed}: column {column}");
            }
        });
        tested += 1;
    }
    assert!(tested > 2_000, "{tested} conditions do not fail");
}

#[test]
fn parts_that_may_fail_see_only_rows_that_passed_those_before_them() {
    // 10 / x = 2 is asked only where x is not 0.
    let field = Arc::new(Field::new("x", DataType::Int64, false));
    let infos = [ColumnInfo::int(field, 0, 10, false)];
    let mut chunk = Chunk::empty(4);
    chunk.push(Arc::new(Vector::ints(vec![0, 5, 10, 0])));
    let int = |value: i64| -> ArrayRef { Arc::new(arrow::array::Int64Array::from(vec![value])) };
    let quotient = Scalar::Arithmetic {
        op: ArithmeticOp::Divide,
        left: Box::new(Scalar::Literal(int(10))),
        right: Box::new(Scalar::Column(0)),
        data_type: DataType::Int64,
    };
    let is_two =
        Scalar::Compare { op: CompareOp::Eq, left: Box::new(quotient), right: Box::new(Scalar::Literal(int(2))) };
    let risky = Predicate::Boolean(expression(is_two, &infos));
    let guard = Predicate::Compare { column: 0, op: CompareOp::NotEq, value: int(0).into() };
    let both = test(&Predicate::And(vec![guard, risky.clone()]), &infos).unwrap();
    assert_eq!(both.passing(&mut chunk.clone()).unwrap(), [1]);
    let alone = test(&risky, &infos).unwrap();
    assert!(matches!(alone.passing(&mut chunk), Err(ExecError::Evaluation(_))));
}

#[test]
fn an_expression_over_a_dictionary_gives_codes() {
    with_run(|run| {
        let mut random = Random::new(7);
        let table = table(&mut random);
        let Scalar::Opaque(first) = opaque(&mut random, 0) else { unreachable!("it is opaque") };
        let site = Site::new(&table.infos, Some(run), 1000);
        let typed = site.by_entries(&first).expect("7 entries for 1000 rows");
        assert!(matches!(typed.node, Node::Vid(..)));
        assert!(Site::new(&table.infos, Some(run), 3).by_entries(&first).is_none(), "more entries than rows");
        let scalar = Scalar::Compare {
            op: CompareOp::Lt,
            left: Box::new(Scalar::Opaque(first)),
            right: Box::new(constant(StringViewArray::from(vec!["b"]))),
        };
        let columns: Vec<usize> = (0..table.infos.len()).collect();
        assert!(compile(&scalar, &columns, &site).is_some(), "codes are compared with text");
        assert_eq!(integer_bounds(&Int32Array::from(vec![3, -1])), Some((-1, 3)));
    });
}
