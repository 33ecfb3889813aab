//! Filter: which rows of an input are TRUE for a predicate.
//!
//! [`Filter`] is the predicate with its leaves numbered. [`Filter::bind`] turns it into a [`Bound`] for one combination
//! of dictionaries: a leaf over a coded column has become a set of codes, leaves over the same column are merged, and
//! what is left is tested row by row. [`Bound::evaluate`] narrows a mask: code tests first (a granule whose code bounds
//! cannot match is never read), then row tests over the surviving rows only.
//!
//! Invariant: an expression that may fail sees only rows that passed every part written before it. Moving parts that
//! cannot fail ahead of it removes rows and adds none; parts that may fail keep their order.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{is_not_null, is_null, not};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use hashbrown::HashSet;
use storage::{CodePredicate, CodeSet};

use super::input::{Input, InputRows};
use super::ranges::CodeRanges;
use crate::ExecError;
use crate::mask::Mask;
use crate::plan::expression::{CompareOp, Expression, argument_schema, evaluate_over};
use crate::plan::predicate::Predicate;
use crate::plan::text::TextTest;

/// Rows that a row test is evaluated over at a time; a multiple of 64, small enough for the values to stay in cache.
const CHUNK_ROWS: usize = 8192;

/// A predicate, free of NOT above its leaves, with its leaves numbered.
pub(crate) struct Filter {
    condition: Condition,
    leaves: Vec<Arc<RowTest>>,
}

enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Leaf(usize),
}

impl Filter {
    /// The conjunction of `conjuncts`, in order, over columns of `input`.
    pub(crate) fn new(conjuncts: &[Predicate], input: &Schema) -> Result<Filter, ExecError> {
        let mut leaves = Vec::new();
        let condition = match conjuncts {
            [one] if one.is_plain_leaf() => number(one, input, &mut leaves)?,
            _ => number(&Predicate::And(conjuncts.to_vec()).without_not(), input, &mut leaves)?,
        };
        Ok(Filter { condition, leaves })
    }

    /// The leaves; a leaf's number is its place here.
    pub(crate) fn leaves(&self) -> &[Arc<RowTest>] {
        &self.leaves
    }

    /// The leaves that a row has to pass to pass the whole.
    pub(crate) fn conjuncts(&self) -> impl Iterator<Item = &Arc<RowTest>> {
        let parts = match &self.condition {
            Condition::And(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        parts.iter().filter_map(|part| match part {
            Condition::Leaf(leaf) => Some(&self.leaves[*leaf]),
            _ => None,
        })
    }

    /// Binds to codes: `codes` gives what is known of a leaf as a set of codes of its column, `None` where it has to be
    /// tested row by row.
    pub(crate) fn bind(&self, codes: &dyn Fn(usize) -> Option<CodeRanges>) -> Bound {
        match self.condition.part(&self.leaves, codes) {
            FilterPart::Codes(column, set) => Bound::of_codes(column, set),
            FilterPart::Rest(bound) => bound,
        }
    }
}

fn number(predicate: &Predicate, input: &Schema, leaves: &mut Vec<Arc<RowTest>>) -> Result<Condition, ExecError> {
    let all = |parts: &[Predicate], leaves: &mut Vec<Arc<RowTest>>| {
        parts.iter().map(|p| number(p, input, leaves)).collect::<Result<Vec<_>, _>>()
    };
    match predicate {
        Predicate::And(parts) => Ok(Condition::And(all(parts, leaves)?)),
        Predicate::Or(parts) => Ok(Condition::Or(all(parts, leaves)?)),
        leaf => {
            leaves.push(Arc::new(RowTest::new(leaf, input)?));
            Ok(Condition::Leaf(leaves.len() - 1))
        }
    }
}

/// What a part of a condition has become, before code tests are made of it.
enum FilterPart {
    Codes(usize, CodeRanges),
    Rest(Bound),
}

impl Condition {
    fn part(&self, leaves: &[Arc<RowTest>], codes: &dyn Fn(usize) -> Option<CodeRanges>) -> FilterPart {
        match self {
            Condition::Leaf(leaf) => match codes(*leaf) {
                Some(set) => FilterPart::Codes(leaves[*leaf].columns()[0], set),
                None => FilterPart::Rest(Bound::Rows(leaves[*leaf].clone())),
            },
            Condition::And(parts) => merge(parts.iter().map(|p| p.part(leaves, codes)), true),
            Condition::Or(parts) => merge(parts.iter().map(|p| p.part(leaves, codes)), false),
        }
    }
}

/// AND (`conjunction`) or OR of parts: code sets over one column become one set, constants are folded, cheap parts go
/// first.
fn merge(parts: impl Iterator<Item = FilterPart>, conjunction: bool) -> FilterPart {
    let mut sets: Vec<(usize, CodeRanges)> = Vec::new();
    let mut rest = Vec::new();
    for part in parts {
        match part {
            FilterPart::Codes(column, set) => match sets.iter_mut().find(|(c, _)| *c == column) {
                Some((_, known)) => *known = if conjunction { known.intersect(&set) } else { known.union(&set) },
                None => sets.push((column, set)),
            },
            FilterPart::Rest(bound) => rest.push(bound),
        }
    }
    if rest.is_empty() && sets.len() == 1 {
        let (column, set) = sets.swap_remove(0);
        return FilterPart::Codes(column, set);
    }
    let mut bounds: Vec<Bound> = sets.into_iter().map(|(column, set)| Bound::of_codes(column, set)).collect();
    bounds.append(&mut rest);
    if bounds.iter().any(|b| matches!(b, Bound::Constant(c) if *c != conjunction)) {
        return FilterPart::Rest(Bound::Constant(!conjunction));
    }
    bounds.retain(|b| !matches!(b, Bound::Constant(_)));
    bounds.sort_by_key(Bound::cost);
    FilterPart::Rest(match (bounds.len(), conjunction) {
        (0, _) => Bound::Constant(conjunction),
        (1, _) => bounds.swap_remove(0),
        (_, true) => Bound::And(bounds),
        (_, false) => Bound::Or(bounds),
    })
}

/// A filter as it applies to inputs with given dictionaries.
#[derive(Debug)]
pub(crate) enum Bound {
    /// Every row or none.
    Constant(bool),
    /// Rows whose code is in a set.
    Codes(CodeTest),
    /// Rows whose values pass.
    Rows(Arc<RowTest>),
    /// Rows that pass all, tested in order of cost.
    And(Vec<Bound>),
    /// Rows that pass any, tested in order of cost.
    Or(Vec<Bound>),
}

/// A set of codes and the kernel tests that find it.
#[derive(Debug, Clone)]
pub(crate) struct CodeTest {
    column: usize,
    set: Arc<CodeRanges>,
    /// A row passes when it passes all.
    tests: Vec<CodePredicate>,
}

impl Bound {
    fn of_codes(column: usize, set: CodeRanges) -> Bound {
        if set.is_empty() {
            return Bound::Constant(false);
        }
        if set.is_everything() {
            return Bound::Constant(true);
        }
        Bound::Codes(CodeTest::new(column, set))
    }

    /// Order of evaluation: what cannot fail goes before what can, code tests before row tests.
    fn cost(&self) -> u32 {
        match self {
            Bound::Constant(_) => 0,
            Bound::Codes(test) => {
                test.tests.iter().map(|t| if matches!(t, CodePredicate::Set(_)) { 3 } else { 1 }).sum()
            }
            Bound::Rows(test) if test.fallible() => 100_000,
            Bound::Rows(_) => 1000,
            Bound::And(parts) | Bound::Or(parts) => {
                let sum: u32 = parts.iter().map(|p| p.cost().min(100_000)).fold(5, u32::saturating_add);
                if parts.iter().any(|p| p.cost() >= 100_000) { 100_000 } else { sum.min(99_999) }
            }
        }
    }

    /// Can any row of an input with these code bounds pass? `None` for a column without codes.
    pub(crate) fn may_match(&self, bounds: &dyn Fn(usize) -> Option<(u32, u32)>) -> bool {
        match self {
            Bound::Constant(value) => *value,
            Bound::Codes(test) => bounds(test.column).is_none_or(|(min, max)| test.set.meets(min, max)),
            Bound::Rows(_) => true,
            Bound::And(parts) => parts.iter().all(|p| p.may_match(bounds)),
            Bound::Or(parts) => parts.iter().any(|p| p.may_match(bounds)),
        }
    }

    /// Share of rows that pass, were codes evenly used and parts independent of each other; a row test lets the share
    /// `row_test` through.
    pub(crate) fn fraction(&self, row_test: f64) -> f64 {
        match self {
            Bound::Constant(value) => f64::from(u8::from(*value)),
            Bound::Codes(test) => test.set.fraction(),
            Bound::Rows(_) => row_test,
            Bound::And(parts) => parts.iter().map(|p| p.fraction(row_test)).product(),
            Bound::Or(parts) => parts.iter().map(|p| p.fraction(row_test)).sum::<f64>().min(1.0),
        }
    }

    /// Keeps the rows of `mask` that are TRUE.
    pub(crate) fn evaluate(&self, input: &dyn Input, mask: &mut Mask) -> Result<(), ExecError> {
        match self {
            Bound::Constant(true) => {}
            Bound::Constant(false) => mask.clear(),
            Bound::Codes(test) => test.evaluate(input, mask),
            Bound::Rows(test) => test.evaluate_on(input, mask)?,
            Bound::And(parts) => {
                for part in parts {
                    if mask.is_empty() {
                        break;
                    }
                    part.evaluate(input, mask)?;
                }
            }
            Bound::Or(parts) => {
                let mut passed = Mask::empty(mask.rows());
                for part in parts {
                    let mut now = mask.clone();
                    part.evaluate(input, &mut now)?;
                    mask.and_not(&now);
                    passed.or(&now);
                    if mask.is_empty() {
                        break;
                    }
                }
                *mask = passed;
            }
        }
        Ok(())
    }
}

impl Bound {
    /// The tests of codes that a row has to pass, whatever else: each with its place among the parts.
    pub(crate) fn code_tests(&self) -> impl Iterator<Item = (usize, &CodeTest)> {
        self.parts().iter().enumerate().filter_map(|(place, part)| match part {
            Bound::Codes(test) => Some((place, test)),
            _ => None,
        })
    }

    /// What a row has to pass all of.
    fn parts(&self) -> &[Bound] {
        match self {
            Bound::And(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// As [`evaluate`](Self::evaluate), of rows that are known to pass the part at `known`.
    pub(crate) fn evaluate_but(&self, known: usize, input: &dyn Input, mask: &mut Mask) -> Result<(), ExecError> {
        let others = self.parts().iter().enumerate().filter(|(place, _)| *place != known);
        for (_, part) in others {
            if mask.is_empty() {
                break;
            }
            part.evaluate(input, mask)?;
        }
        Ok(())
    }

    /// As [`narrow`](Self::narrow), of rows that are known to pass the part at `known`.
    pub(crate) fn narrow_but(&self, known: usize, input: &dyn Input, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        let others = self.parts().iter().enumerate().filter(|(place, _)| *place != known);
        others.map(|(_, part)| part).try_for_each(|part| part.narrow(input, rows))
    }

    /// Keeps those of `rows`, ascending row numbers of the input, that are TRUE: what [`evaluate`](Self::evaluate) does
    /// for a mask, for rows that are few and far between.
    pub(crate) fn narrow(&self, input: &dyn Input, rows: &mut Vec<u32>) -> Result<(), ExecError> {
        if rows.is_empty() {
            return Ok(());
        }
        match self {
            Bound::Constant(true) => {}
            Bound::Constant(false) => rows.clear(),
            Bound::Codes(test) => {
                let codes = input
                    .codes(test.column, &InputRows::Positions(rows))
                    .expect("only coded columns are bound to codes");
                let mut codes = codes.into_iter();
                rows.retain(|_| codes.next().is_some_and(|code| test.set.meets(code, code)));
            }
            Bound::Rows(test) => {
                let mut passed = Vec::with_capacity(rows.len());
                for chunk in rows.chunks(CHUNK_ROWS) {
                    let result = test.evaluate(test.arguments(input, &InputRows::Positions(chunk))?, chunk.len())?;
                    let passes = |i: &usize| result.is_valid(*i) && result.value(*i);
                    passed.extend((0..chunk.len()).filter(passes).map(|i| chunk[i]));
                }
                *rows = passed;
            }
            Bound::And(parts) => {
                for part in parts {
                    part.narrow(input, rows)?;
                }
            }
            Bound::Or(parts) => {
                let mut passed = Vec::new();
                for part in parts {
                    let mut now = rows.clone();
                    part.narrow(input, &mut now)?;
                    rows.retain(|row| now.binary_search(row).is_err());
                    passed.append(&mut now);
                }
                passed.sort_unstable();
                *rows = passed;
            }
        }
        Ok(())
    }
}

impl CodeTest {
    /// Of codes of a column.
    pub(crate) fn new(column: usize, set: CodeRanges) -> CodeTest {
        let tests = kernel_tests(&set);
        CodeTest { column, set: Arc::new(set), tests }
    }

    /// The column.
    pub(crate) fn column(&self) -> usize {
        self.column
    }

    /// The codes.
    pub(crate) fn set(&self) -> &CodeRanges {
        &self.set
    }

    /// The tests, all of which a row has to pass.
    pub(crate) fn tests(&self) -> &[CodePredicate] {
        &self.tests
    }

    fn evaluate(&self, input: &dyn Input, mask: &mut Mask) {
        if let Some((min, max)) = input.code_bounds(self.column) {
            if !self.set.meets(min, max) {
                return mask.clear();
            }
            if self.set.covers(min, max) {
                return;
            }
        }
        for test in &self.tests {
            input.select(self.column, test, mask);
        }
    }
}

/// The bitmap of codes up to here fits a core's caches.
const BITMAP_CODES: u32 = 1 << 23;
/// How many gaps are tested one by one rather than by a larger bitmap.
const GAPS_MAX: usize = 64;

/// Kernel tests whose conjunction is the set: its span and the gaps in it where they are few, else a bitmap over the
/// codes.
pub(crate) fn kernel_tests(set: &CodeRanges) -> Vec<CodePredicate> {
    let gaps = set.complement();
    if let [gap] = gaps.ranges() {
        return vec![CodePredicate::NotRange { lo: gap.start, hi: gap.end - 1 }];
    }
    let ranges = set.ranges();
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return vec![CodePredicate::Nothing] };
    let few = if last.end <= BITMAP_CODES { 1 } else { GAPS_MAX };
    if ranges.len() > few + 1 {
        return vec![CodePredicate::Set(Arc::new(CodeSet::from_ranges(ranges)))];
    }
    let span = CodePredicate::Range { lo: first.start, hi: last.end - 1 };
    let between = ranges.windows(2).map(|pair| CodePredicate::NotRange { lo: pair[0].end, hi: pair[1].start - 1 });
    std::iter::once(span).chain(between).collect()
}

/// A leaf of a predicate, evaluated over arrays.
#[derive(Debug)]
pub(crate) struct RowTest {
    columns: Vec<usize>,
    kind: TestKind,
}

#[derive(Debug)]
enum TestKind {
    Compare { op: CompareOp, value: ArrayRef },
    In { values: ArrayRef, members: Members, negated: bool },
    IsNull { negated: bool },
    Boolean { expression: Arc<dyn Expression>, schema: SchemaRef, negated: bool },
}

impl RowTest {
    fn new(leaf: &Predicate, input: &Schema) -> Result<RowTest, ExecError> {
        let boolean = |expression: &Arc<dyn Expression>, negated| RowTest {
            columns: expression.columns().to_vec(),
            kind: TestKind::Boolean {
                schema: argument_schema(expression.as_ref(), input),
                expression: expression.clone(),
                negated,
            },
        };
        Ok(match leaf {
            Predicate::Compare { column, op, value } => {
                RowTest { columns: vec![*column], kind: TestKind::Compare { op: *op, value: value.value().clone() } }
            }
            Predicate::In { column, values, negated } => {
                let members = Members::new(values)?;
                RowTest {
                    columns: vec![*column],
                    kind: TestKind::In { values: values.clone(), members, negated: *negated },
                }
            }
            Predicate::IsNull { column, negated } => {
                RowTest { columns: vec![*column], kind: TestKind::IsNull { negated: *negated } }
            }
            Predicate::Boolean(expression) => boolean(expression, false),
            Predicate::Not(inner) => match inner.as_ref() {
                Predicate::Boolean(expression) => boolean(expression, true),
                other => unreachable!("NOT was pushed below {other:?}"),
            },
            Predicate::And(_) | Predicate::Or(_) => unreachable!("not a leaf"),
        })
    }

    /// Columns that it reads.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// May it fail on some value?
    pub(crate) fn fallible(&self) -> bool {
        matches!(&self.kind, TestKind::Boolean { expression, .. } if expression.fallible())
    }

    /// Is it an expression, which only evaluating tells about?
    pub(crate) fn is_expression(&self) -> bool {
        let ordered = self.as_text().is_some_and(|(_, test, _)| test.prefix().is_some());
        matches!(self.kind, TestKind::Boolean { .. }) && !ordered
    }

    /// Must it see each row exactly once?
    pub(crate) fn volatile(&self) -> bool {
        matches!(&self.kind, TestKind::Boolean { expression, .. } if expression.volatile())
    }

    /// The comparison, if it is one.
    pub(crate) fn as_compare(&self) -> Option<(CompareOp, &ArrayRef)> {
        match &self.kind {
            TestKind::Compare { op, value } => Some((*op, value)),
            _ => None,
        }
    }

    /// The list and whether it is NOT IN, if it is one.
    pub(crate) fn as_in(&self) -> Option<(&ArrayRef, bool)> {
        match &self.kind {
            TestKind::In { values, negated, .. } => Some((values, *negated)),
            _ => None,
        }
    }

    /// Column and pattern, if it is LIKE, and whether it is NOT that.
    pub(crate) fn as_text(&self) -> Option<(usize, &TextTest, bool)> {
        let TestKind::Boolean { expression, negated, .. } = &self.kind else { return None };
        let [column] = self.columns[..] else { return None };
        let test = expression.text_test()?;
        Some((column, test, test.negated() != *negated))
    }

    /// Whether it is IS NOT NULL, if it is a NULL test.
    pub(crate) fn as_is_null(&self) -> Option<bool> {
        match &self.kind {
            TestKind::IsNull { negated } => Some(*negated),
            _ => None,
        }
    }

    /// TRUE, FALSE or NULL for each row of `arguments`, one array per column.
    pub(crate) fn evaluate(&self, arguments: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray, ExecError> {
        match &self.kind {
            TestKind::Compare { op, value } => {
                let (left, right) = (&arguments[0], Scalar::new(value));
                Ok(match op {
                    CompareOp::Eq => cmp::eq(left, &right),
                    CompareOp::NotEq => cmp::neq(left, &right),
                    CompareOp::Lt => cmp::lt(left, &right),
                    CompareOp::LtEq => cmp::lt_eq(left, &right),
                    CompareOp::Gt => cmp::gt(left, &right),
                    CompareOp::GtEq => cmp::gt_eq(left, &right),
                }?)
            }
            TestKind::In { members, negated, .. } => members.test(&arguments[0], *negated),
            TestKind::IsNull { negated: false } => Ok(is_null(&arguments[0])?),
            TestKind::IsNull { negated: true } => Ok(is_not_null(&arguments[0])?),
            TestKind::Boolean { expression, schema, negated } => {
                let result = evaluate_over(expression.as_ref(), schema, arguments, rows)?;
                let result = result.as_boolean();
                Ok(if *negated { not(result)? } else { result.clone() })
            }
        }
    }

    /// Keeps the rows of `mask` that are TRUE, a chunk at a time.
    fn evaluate_on(&self, input: &dyn Input, mask: &mut Mask) -> Result<(), ExecError> {
        if let Some((column, test, negated)) = self.as_text()
            && let Some(texts) = input.texts(column)
        {
            test.narrow(&texts, input.start(), negated, mask);
            return Ok(());
        }
        let mut start = 0;
        while start < mask.rows() {
            let chunk = start..(start + CHUNK_ROWS).min(mask.rows());
            self.evaluate_chunk(input, mask, &chunk)?;
            start = chunk.end;
        }
        Ok(())
    }

    fn evaluate_chunk(&self, input: &dyn Input, mask: &mut Mask, chunk: &Range<usize>) -> Result<(), ExecError> {
        let candidates = mask.count_in(chunk);
        if candidates == 0 {
            return Ok(());
        }
        let offset = input.start();
        // Half the rows or more: decoding them all and dropping some costs less than picking.
        let may_see_others = !self.fallible() && !self.volatile();
        if candidates == chunk.len() || (may_see_others && candidates * 2 >= chunk.len()) {
            let rows = InputRows::Range(chunk.start + offset..chunk.end + offset);
            let test = self.evaluate(self.arguments(input, &rows)?, chunk.len())?;
            mask.keep_true(chunk.start, &test);
            return Ok(());
        }
        let mut positions = Vec::with_capacity(candidates);
        mask.positions_in(chunk, offset, &mut positions);
        let test = self.evaluate(self.arguments(input, &InputRows::Positions(&positions))?, candidates)?;
        for (i, &position) in positions.iter().enumerate() {
            if test.is_null(i) || !test.value(i) {
                mask.unset(position as usize - offset);
            }
        }
        Ok(())
    }

    fn arguments(&self, input: &dyn Input, rows: &InputRows<'_>) -> Result<Vec<ArrayRef>, ExecError> {
        self.columns.iter().map(|&c| input.column(c, rows)).collect()
    }
}

/// The members of an IN list in Arrow's row format, which is equal exactly where values are (floats by totalOrder).
struct Members {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>, foldhash::fast::FixedState>,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} members", self.rows.len())
    }
}

impl Members {
    fn new(values: &ArrayRef) -> Result<Members, ExecError> {
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let list = converter.convert_columns(std::slice::from_ref(values))?;
        let rows = list.iter().map(|row| row.as_ref().into()).collect();
        Ok(Members { converter, rows })
    }

    /// `values IN members`, or NOT IN; NULL for a NULL.
    fn test(&self, values: &ArrayRef, negated: bool) -> Result<BooleanArray, ExecError> {
        let rows = self.converter.convert_columns(std::slice::from_ref(values))?;
        let found = BooleanBuffer::collect_bool(values.len(), |i| self.rows.contains(rows.row(i).as_ref()) != negated);
        Ok(BooleanArray::new(found, values.logical_nulls()))
    }
}
