//! How many rows an operator gives, about, and what its columns hold: from dictionaries, samples and rules of thumb.
//!
//! Each column has *choices*: how many values it may take, given what is asked of this column alone. Joins and
//! groups are estimated with choices, not with the values that survive other columns' conditions: a key that is one of
//! `choices` values matches a row of the other side with probability `1 / choices`, whichever rows were dropped.
//!
//! # Limits
//! Columns of one table are correlated only as far as its sample shows it; columns of different tables are taken to be
//! independent.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use storage::TableVersion;

use super::cost::{self, Cost, Lookup};
use super::statistics::{self, Sample};
use crate::plan::delicate::is_delicate;
use crate::plan::expression::{CompareOp, DatePart, Scalar};
use crate::plan::predicate::Predicate;
use crate::plan::{AggregateFunction, Aggregation, Join, JoinKind, Output, RowSource, Side};

/// Rows of a sample that have to pass for their share to be believed.
const HITS_ENOUGH: usize = 8;
/// Shares of rows that pass conditions of which nothing is known.
const EQUAL: f64 = 0.1;
const RANGE: f64 = 0.3;
const OPAQUE: f64 = 0.25;
const NULL: f64 = 0.05;
/// Share of groups whose aggregate passes a comparison: HAVING is written to keep few.
const HAVING: f64 = 0.05;

/// What is known of one column of an operator's output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColumnEstimate {
    /// Values that it may take.
    pub(super) choices: f64,
    /// Smallest and largest of them, of integers (decimals unscaled).
    pub(super) bounds: Option<(f64, f64)>,
    /// May it be NULL?
    pub(super) nullable: bool,
    /// Is it an aggregate's result?
    pub(super) aggregate: bool,
}

/// What is known of an operator's output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Estimate {
    /// Rows.
    pub(super) rows: f64,
    /// Rows before filters: what bounds the number of combinations of several columns' values.
    pub(super) base_rows: f64,
    /// Per column.
    pub(super) columns: Vec<ColumnEstimate>,
    /// Of handing out the rows.
    pub(super) cost: Cost,
}

/// Rows of a scan that pass conjuncts over its output.
pub(super) fn scan(snapshot: &TableVersion, columns: &[usize], conjuncts: &[Predicate]) -> Estimate {
    let base_rows = snapshot.rows() as f64;
    let facts = columns.iter().map(|&c| {
        let facts = statistics::facts(snapshot, c);
        ColumnEstimate { choices: facts.distinct, bounds: facts.bounds, nullable: facts.nullable, aggregate: false }
    });
    let mut estimate = Estimate { rows: base_rows, base_rows, columns: facts.collect(), cost: Cost::default() };
    if base_rows > 0.0 && !conjuncts.is_empty() {
        let share = scan_share(snapshot, columns, conjuncts, &estimate);
        estimate.narrow(conjuncts, share);
    }
    estimate.cost.fixed = base_rows * cost::SCAN_TEST * conjuncts.len() as f64;
    estimate.cost.work = estimate.rows * cost::ROW;
    estimate
}

fn scan_share(snapshot: &TableVersion, columns: &[usize], conjuncts: &[Predicate], estimate: &Estimate) -> f64 {
    let of_table = |p: &Predicate| p.map_columns(&|c| columns[c]);
    let firm: Vec<Predicate> = conjuncts.iter().filter(|p| !is_delicate(p)).map(of_table).collect();
    let delicate: f64 = conjuncts.iter().filter(|p| is_delicate(p)).map(|p| estimate.share(p)).product();
    if firm.is_empty() {
        return delicate;
    }
    let sample = Sample::of(snapshot);
    let known = sample.passing(&firm.iter().collect::<Vec<_>>());
    let whole = snapshot.rows() <= 1024;
    let share = match known {
        Some((share, hits)) if hits >= HITS_ENOUGH || whole => share,
        _ => {
            // Too few to tell: each on its own, by the sample where that tells and else by what dictionaries say.
            let apart = conjuncts.iter().filter(|p| !is_delicate(p)).zip(&firm).map(|(p, of_table)| {
                let by_rule = estimate.share(p);
                match if firm.len() > 1 { sample.passing(&[of_table]) } else { known } {
                    Some((share, hits)) if hits >= HITS_ENOUGH => share,
                    Some((share, _)) => by_rule.min(share.max(0.002)),
                    None => by_rule,
                }
            });
            apart.product()
        }
    };
    share * delicate
}

/// Rows of a source of which nobody can tell how many there are.
const UNKNOWN_ROWS: f64 = 1e6;
/// Rows of a work table, and how often the step is taken.
const WORK_ROWS: f64 = 100.0;
const STEPS: f64 = 10.0;
/// Elements of a list.
const ELEMENTS: f64 = 8.0;

/// Rows from elsewhere.
pub(super) fn source(source: &dyn RowSource, columns: &[usize]) -> Estimate {
    let rows = source.rows().map_or(UNKNOWN_ROWS, |rows| rows as f64);
    let mut estimate = Estimate::of_rows(rows, columns.len());
    for (known, &column) in estimate.columns.iter_mut().zip(columns) {
        if let Some((low, high)) = source.bounds(column) {
            known.bounds = Some((low as f64, high as f64));
            known.choices = rows.min(high as f64 - low as f64 + 1.0).max(1.0);
        }
    }
    estimate
}

/// What the last step of a recursion has made.
pub(super) fn work_table(columns: usize) -> Estimate {
    Estimate::of_rows(WORK_ROWS, columns)
}

/// All that a recursion makes.
pub(super) fn recursion(base: &Estimate, step: &Estimate) -> Estimate {
    let mut all = Estimate::of_rows(base.rows + STEPS * step.rows, base.columns.len());
    all.cost.fixed = base.cost.total() + STEPS * step.cost.total();
    all
}

/// A row per element of some lists.
pub(super) fn unnested(mut input: Estimate, lists: usize) -> Estimate {
    input.rows *= ELEMENTS;
    input.base_rows *= ELEMENTS;
    input.cost.work += input.rows * cost::ROW;
    let element = ColumnEstimate { choices: input.rows.max(1.0), bounds: None, nullable: true, aggregate: false };
    input.columns.extend(std::iter::repeat_n(element, lists));
    input
}

impl Estimate {
    /// One row of columns of which nothing is known.
    pub(super) fn of_rows(rows: f64, columns: usize) -> Estimate {
        let column = ColumnEstimate { choices: rows.max(1.0), bounds: None, nullable: true, aggregate: false };
        let cost = Cost { fixed: 0.0, work: rows * cost::ROW };
        Estimate { rows, base_rows: rows, columns: vec![column; columns], cost }
    }

    /// Keeps a share of the rows, and the choices of columns that conjuncts are about.
    fn narrow(&mut self, conjuncts: &[Predicate], share: f64) {
        self.rows *= share.clamp(0.0, 1.0);
        for conjunct in conjuncts {
            if let Some(column) = super::conjuncts::about_one_column(conjunct) {
                let share = self.share(conjunct);
                let known = &mut self.columns[column];
                known.choices = (known.choices * share).max(1.0);
                known.nullable = false;
            }
        }
    }

    /// After conditions above whatever gives the rows.
    pub(super) fn filtered(mut self, conjuncts: &[Predicate]) -> Estimate {
        let share = conjuncts.iter().map(|p| self.share(p)).product();
        self.cost.work += self.rows * cost::TEST * conjuncts.len() as f64;
        self.narrow(conjuncts, share);
        self
    }

    /// With other columns.
    pub(super) fn projected(&self, outputs: &[Output]) -> Estimate {
        let column = |output: &Output| match output {
            Output::Column { column, .. } => self.columns[*column],
            Output::Expression { expression, .. } => {
                let arguments = expression.columns();
                let choices: f64 = arguments.iter().map(|&c| self.columns[c].choices).product();
                let choices = expression
                    .structure()
                    .and_then(|s| self.parts_of_date(s, arguments))
                    .map_or(choices, |parts| parts.min(choices));
                ColumnEstimate {
                    choices: choices.min(self.base_rows).max(1.0),
                    bounds: None,
                    nullable: arguments.iter().any(|&c| self.columns[c].nullable),
                    aggregate: arguments.iter().any(|&c| self.columns[c].aggregate),
                }
            }
        };
        let computed = outputs.iter().filter(|o| matches!(o, Output::Expression { .. })).count();
        let work = self.cost.work + self.rows * cost::TEST * computed as f64;
        Estimate { columns: outputs.iter().map(column).collect(), cost: Cost { work, ..self.cost }, ..*self }
    }

    fn parts_of_date(&self, scalar: &Scalar, arguments: &[usize]) -> Option<f64> {
        match scalar {
            Scalar::Cast { input, .. } => self.parts_of_date(input, arguments),
            Scalar::DatePart { part: DatePart::Month, .. } => Some(12.0),
            Scalar::DatePart { part: DatePart::Quarter, .. } => Some(4.0),
            Scalar::DatePart { part: DatePart::Day, .. } => Some(31.0),
            Scalar::DatePart { part: DatePart::Year, input, .. } => {
                let Scalar::Column(column) = input.as_ref() else { return None };
                let days = self.columns[arguments[*column]].choices;
                Some((days / 365.25).ceil() + 1.0)
            }
            _ => None,
        }
    }

    /// The share of rows that pass a condition.
    pub(super) fn share(&self, predicate: &Predicate) -> f64 {
        match predicate {
            Predicate::Compare { column, op, value } => self.compare_share(*column, *op, value),
            Predicate::In { column, values, negated } => {
                let known = self.columns.get(*column).map_or(10.0, |c| c.choices);
                let share = (values.len() as f64 / known).min(1.0);
                if *negated { 1.0 - share } else { share }
            }
            Predicate::IsNull { column, negated } => {
                let share = if self.columns.get(*column).is_some_and(|c| c.nullable) { NULL } else { 0.0 };
                if *negated { 1.0 - share } else { share }
            }
            Predicate::And(parts) => parts.iter().map(|p| self.share(p)).product(),
            Predicate::Or(parts) => 1.0 - parts.iter().map(|p| 1.0 - self.share(p)).product::<f64>(),
            Predicate::Not(inner) => 1.0 - self.share(inner),
            Predicate::Boolean(expression) => match expression.structure() {
                Some(Scalar::Compare { op, left, right }) => {
                    self.expression_share(*op, [left, right], expression.columns())
                }
                _ => OPAQUE,
            },
        }
    }

    fn expression_share(&self, op: CompareOp, sides: [&Scalar; 2], columns: &[usize]) -> f64 {
        let column = |s: &Scalar| match s {
            Scalar::Column(c) => self.columns.get(columns[*c]),
            _ => None,
        };
        let known = sides.map(column);
        let choices = known.iter().flatten().map(|c| c.choices).fold(1.0 / EQUAL, f64::max);
        match op {
            CompareOp::Eq => 1.0 / choices,
            CompareOp::NotEq => 1.0 - 1.0 / choices,
            _ => RANGE,
        }
    }

    fn compare_share(&self, column: usize, op: CompareOp, value: &ArrayRef) -> f64 {
        let Some(known) = self.columns.get(column) else { return RANGE };
        let equal = 1.0 / known.choices.max(1.0);
        let below = match (known.bounds, integer(value)) {
            (Some((low, high)), Some(value)) => ((value - low) / (high - low + 1.0)).clamp(0.0, 1.0),
            _ if known.aggregate && !matches!(op, CompareOp::Eq | CompareOp::NotEq) => return HAVING,
            _ => RANGE,
        };
        match op {
            CompareOp::Eq => equal,
            CompareOp::NotEq => 1.0 - equal,
            CompareOp::Lt => below,
            CompareOp::LtEq => (below + equal).min(1.0),
            CompareOp::Gt if known.bounds.is_none() => below,
            CompareOp::GtEq if known.bounds.is_none() => below,
            CompareOp::Gt => (1.0 - below - equal).max(0.0),
            CompareOp::GtEq => 1.0 - below,
        }
    }

    /// How many combinations of values some columns may have.
    pub(super) fn combinations(&self, columns: &[usize]) -> f64 {
        columns.iter().map(|&c| self.columns[c].choices).product::<f64>()
    }
}

/// Groups and aggregates.
pub(super) fn aggregate(input: &Estimate, aggregation: &Aggregation) -> Estimate {
    let groups = |keys: &[usize]| match keys.len() {
        0 => 1.0,
        _ => occupied(input.combinations(keys), input.rows).min(input.rows),
    };
    let rows = match &aggregation.sets {
        None => groups(&aggregation.keys),
        Some(sets) => {
            let keys = |places: &[usize]| places.iter().map(|&p| aggregation.keys[p]).collect::<Vec<_>>();
            sets.sets.iter().map(|set| groups(&keys(&set.keys))).sum()
        }
    };
    let key = |place: usize| {
        let column = input.columns[aggregation.keys[place]];
        ColumnEstimate { nullable: column.nullable || aggregation.key_of(place).is_none(), ..column }
    };
    let mut columns: Vec<ColumnEstimate> = (0..aggregation.keys.len()).map(key).collect();
    columns.extend(aggregation.sets.iter().map(|sets| ColumnEstimate {
        choices: sets.sets.len() as f64,
        bounds: None,
        nullable: false,
        aggregate: true,
    }));
    columns.extend(aggregation.calls.iter().map(|call| {
        let keeps = matches!(call.function, AggregateFunction::Min | AggregateFunction::Max);
        let known = call.arguments.first().filter(|_| keeps).map(|&a| input.columns[a]);
        let (choices, bounds) = known.map_or((rows, None), |c| (c.choices.min(rows), c.bounds));
        let nullable = !matches!(call.function, AggregateFunction::Count | AggregateFunction::CountRows);
        ColumnEstimate { choices: choices.max(1.0), bounds, nullable, aggregate: true }
    }));
    let per_row =
        if aggregation.keys.len() <= 1 && aggregation.sets.is_none() { cost::GROUP_ARRAY } else { cost::GROUP_HASH };
    let work = input.cost.work + input.rows * per_row + rows * cost::ROW;
    let fixed = input.cost.fixed + cost::START;
    Estimate { rows, base_rows: rows, columns, cost: Cost { fixed, work } }
}

/// How many of `places` values are seen in `rows` rows.
fn occupied(places: f64, rows: f64) -> f64 {
    if places <= 0.0 || rows <= 0.0 {
        return 0.0;
    }
    // 1 - (1 - 1/places)^rows of them; the exponential is close enough, and steady for large numbers.
    (places * -(-rows / places).exp_m1()).clamp(0.0, rows)
}

/// How often a row of one side matches a row of the other, by their key columns.
fn match_share(left: &Estimate, right: &Estimate, on: &[(usize, usize)]) -> f64 {
    match on {
        [] => 1.0,
        [(l, r)] => 1.0 / left.columns[*l].choices.max(right.columns[*r].choices).max(1.0),
        _ => {
            let (l, r): (Vec<usize>, Vec<usize>) = on.iter().copied().unzip();
            let combinations = |e: &Estimate, columns: &[usize]| (e.combinations(columns), e.base_rows.max(1.0));
            1.0 / several_keys(combinations(left, &l), combinations(right, &r))
        }
    }
}

/// Distinct combinations of several key columns that both sides share. A side with fewer rows than combinations is
/// likely to have each combination once, and the other side's to be among them.
pub(super) fn several_keys((left, left_rows): (f64, f64), (right, right_rows): (f64, f64)) -> f64 {
    let combinations = match (left > left_rows, right > right_rows) {
        (true, true) => left_rows.min(right_rows),
        (true, false) => left_rows.min(right),
        (false, true) => right_rows.min(left),
        (false, false) => left.max(right),
    };
    combinations.max(1.0)
}

/// The share of the kept side's rows that have a match.
pub(super) fn semi_share(kept: &Estimate, other: &Estimate, keys: &[(usize, usize)], residual: bool) -> f64 {
    if keys.is_empty() {
        return if other.rows >= 1.0 { 0.9 } else { 0.1 };
    }
    let (k, o): (Vec<usize>, Vec<usize>) = keys.iter().copied().unzip();
    let choices = kept.combinations(&k).min(kept.base_rows).max(1.0);
    let found = occupied(other.combinations(&o).min(choices.max(other.base_rows)), other.rows);
    let share = (found / choices).min(1.0);
    if residual { share * 0.8 } else { share }
}

/// A join as it stands. `lookup` is how its keys are looked up.
pub(super) fn join(left: &Estimate, right: &Estimate, join: &Join, lookup: Lookup) -> Estimate {
    let residual = join.residual.is_some();
    let pairs = left.rows * right.rows * match_share(left, right, &join.on) * if residual { RANGE } else { 1.0 };
    let flipped: Vec<(usize, usize)> = join.on.iter().map(|&(l, r)| (r, l)).collect();
    let semi = |side: Side| match side {
        Side::Left => (left, semi_share(left, right, &join.on, residual)),
        Side::Right => (right, semi_share(right, left, &flipped, residual)),
    };
    let unmatched = |side: Side| {
        let (kept, share) = semi(side);
        kept.rows * (1.0 - share)
    };
    let rows = match join.kind {
        JoinKind::Inner => pairs,
        JoinKind::Left => pairs + unmatched(Side::Left),
        JoinKind::Right => pairs + unmatched(Side::Right),
        JoinKind::Full => pairs + unmatched(Side::Left) + unmatched(Side::Right),
        JoinKind::Semi(side) => semi(side).0.rows * semi(side).1,
        JoinKind::Anti(side) => semi(side).0.rows * (1.0 - semi(side).1).max(0.05),
        JoinKind::Mark(side) => semi(side).0.rows,
    };
    let mut columns = match join.kind {
        JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) => semi(side).0.columns.clone(),
        _ => [left.columns.clone(), right.columns.clone()].concat(),
    };
    if let JoinKind::Mark(_) = join.kind {
        columns.push(ColumnEstimate { choices: 2.0, bounds: None, nullable: false, aggregate: false });
    }
    let cost = join_cost(left, right, join, lookup, rows);
    Estimate { rows, base_rows: rows.max(left.base_rows.min(right.base_rows)), columns, cost }
}

/// What a join costs with its build side as it is.
pub(super) fn join_cost(left: &Estimate, right: &Estimate, join: &Join, lookup: Lookup, rows: f64) -> Cost {
    let (kept, streamed, streamed_side) = match join.build {
        Side::Left => (left, right, Side::Right),
        Side::Right => (right, left, Side::Left),
    };
    let keys: Vec<(usize, usize)> = match join.build {
        Side::Left => join.on.iter().map(|&(l, r)| (r, l)).collect(),
        Side::Right => join.on.clone(),
    };
    // Rows of the streamed side that are given whether they match or not cannot be dropped by the keys of the other.
    let all_wanted = match join.kind {
        JoinKind::Inner | JoinKind::Semi(_) => false,
        JoinKind::Left => streamed_side == Side::Left,
        JoinKind::Right => streamed_side == Side::Right,
        JoinKind::Anti(side) | JoinKind::Mark(side) => streamed_side == side,
        JoinKind::Full => true,
    };
    let left_over =
        if all_wanted || join.nulls_equal { 1.0 } else { semi_share(streamed, kept, &keys, false).min(1.0) };
    let streaming = streamed.rows * left_over;
    let choices = match keys.as_slice() {
        [(_, k)] => kept.columns[*k].choices,
        _ => kept.rows,
    };
    let mut work = kept.cost.work + cost::build(kept.rows, kept.columns.len(), lookup);
    work += streamed.cost.work * left_over + cost::probe(streaming, kept.rows, choices, lookup) + rows;
    let filtering = if left_over < 0.9 { streamed.cost.fixed * 0.2 } else { 0.0 };
    Cost { fixed: kept.cost.fixed + streamed.cost.fixed + filtering + cost::START, work }
}

/// The value of a literal, for types whose values are kept as integers.
fn integer(value: &ArrayRef) -> Option<f64> {
    macro_rules! first {
        ($t:ty) => {
            value.as_primitive_opt::<$t>().map(|v| v.value(0) as f64)
        };
    }
    if value.is_empty() || value.is_null(0) {
        return None;
    }
    match value.data_type() {
        DataType::Int8 => first!(Int8Type),
        DataType::Int16 => first!(Int16Type),
        DataType::Int32 => first!(Int32Type),
        DataType::Int64 => first!(Int64Type),
        DataType::UInt8 => first!(UInt8Type),
        DataType::UInt16 => first!(UInt16Type),
        DataType::UInt32 => first!(UInt32Type),
        DataType::UInt64 => first!(UInt64Type),
        DataType::Date32 => first!(Date32Type),
        DataType::Date64 => first!(Date64Type),
        DataType::Decimal32(..) => first!(Decimal32Type),
        DataType::Decimal64(..) => first!(Decimal64Type),
        DataType::Decimal128(..) => first!(Decimal128Type),
        _ => None,
    }
}
