//! Conditions: [`Predicate`]s as compiled parts, tested one by one on the rows that are left.
//!
//! The parts of a conjunction that cannot fail go first, cheapest first; those that may fail keep their order behind
//! them, so that each sees only rows that passed every part written before it. A part is tested on all rows of the
//! chunk as long as enough of them are left; after that the chunk is cut down to what is left, and columns are loaded
//! for those rows only.
//!
//! Where a part's loop over floats leaves their range, in whatever row, the whole condition is tested over Arrow arrays
//! on the rows that are left, which finds out whether that row counts.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use numa::Reservation;

use super::Test;
use super::compile::{compare, compile, in_list, leaves_range, literal, of_column};
use super::entries::Site;
use super::lanes::Values;
use super::node::{AnyNode, BoolNode, IntNode};
use super::over_arrow::{ArrowFilter, ArrowTest};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::ColumnKind;
use crate::plan::predicate::Predicate;

/// A conjunction.
pub(super) struct Conjunction {
    /// In the order of evaluation.
    parts: Vec<ConditionPart>,
    /// All of it, for when a loop stops; absent where none does.
    whole: Option<Box<BoolNode>>,
    /// Of the tables that parts use.
    _charged: Vec<Reservation>,
}

struct ConditionPart {
    node: BoolNode,
    /// It sees only rows that passed all before it.
    fallible: bool,
}

impl Conjunction {
    /// The condition over columns as the site knows them.
    pub(super) fn new(predicate: &Predicate, site: &Site<'_>) -> Result<Conjunction, ExecError> {
        let mut parts = Vec::new();
        let predicate = predicate.without_not();
        let whole = match stops(&predicate) {
            true => Some(Box::new(BoolNode::Filter(Box::new(ArrowFilter::new(&predicate, site.infos)?)))),
            false => None,
        };
        add(predicate, site, &mut parts)?;
        let mut parts = fused(parts);
        parts.sort_by_key(|part| if part.fallible { u32::MAX } else { part.node.cost() });
        Ok(Conjunction { parts, whole, _charged: site.reservations() })
    }

    /// The rows of the chunk that pass, `None` for all. Works on the chunk itself, which then holds just them, or, if
    /// it is to be left as it is, on a copy.
    fn run(&self, chunk: &mut Chunk, in_place: bool) -> Result<Option<Vec<u32>>, ExecError> {
        let mut copy: Option<Chunk> = None;
        // Rows of the chunk that the copy, or what the chunk has become, holds.
        let mut left: Option<Vec<u32>> = None;
        let mut mask: Option<Values<bool>> = None;
        for (i, part) in self.parts.iter().enumerate() {
            let current = copy.as_mut().unwrap_or(chunk);
            let (passed, last) = match (part.node.evaluate(current), &self.whole) {
                (Err(ExecError::FloatRange), Some(whole)) => (whole.evaluate(current)?.truth(), true),
                (passed, _) => (passed?.truth(), i + 1 == self.parts.len()),
            };
            let all = match mask.take() {
                Some(known) => known.combine(passed, |a, b| a & b),
                None => passed,
            };
            let count = match &all {
                Values::Const(true) if last => break,
                Values::Const(true) => continue,
                Values::Const(false) => 0,
                Values::Own(flags) => flags.iter().map(|&f| usize::from(f)).sum(),
                Values::Shared(_) => unreachable!("flags are computed"),
            };
            let rows = current.rows();
            if count == rows {
                if last {
                    break;
                }
                continue;
            }
            let next_fails = self.parts.get(i + 1).is_some_and(|next| next.fallible);
            // Every loaded column is cut down, which costs more than a few loops over it.
            let enough = if in_place { count * 2 > rows } else { count * 8 > rows };
            if enough && !next_fails && !last {
                mask = Some(all);
                continue;
            }
            left = Some(self.cut(chunk, &mut copy, in_place, &all, left, last));
            if count == 0 || last {
                break;
            }
        }
        if let Some(all) = mask {
            left = Some(self.cut(chunk, &mut copy, in_place, &all, left, true));
        }
        Ok(left)
    }

    /// Drops rows; gives back those that are left.
    fn cut(
        &self,
        chunk: &mut Chunk,
        copy: &mut Option<Chunk>,
        in_place: bool,
        flags: &Values<bool>,
        left: Option<Vec<u32>>,
        last: bool,
    ) -> Vec<u32> {
        let passing = positions(flags);
        if in_place {
            chunk.keep(&passing);
        } else if !last {
            copy.get_or_insert_with(|| chunk.clone()).keep(&passing);
        }
        match left {
            Some(left) => passing.iter().map(|&row| left[row as usize]).collect(),
            None => passing,
        }
    }
}

impl Test for Conjunction {
    fn passing(&self, chunk: &mut Chunk) -> Result<Vec<u32>, ExecError> {
        let rows = chunk.rows() as u32;
        Ok(self.run(chunk, false)?.unwrap_or_else(|| (0..rows).collect()))
    }

    fn narrow(&self, chunk: &mut Chunk) -> Result<(), ExecError> {
        self.run(chunk, true).map(|_| ())
    }
}

/// Numbers of the flags that are set; there is at least one flag.
fn positions(flags: &Values<bool>) -> Vec<u32> {
    let Values::Own(flags) = flags else { return Vec::new() };
    let mut rows = vec![0; flags.len()];
    let mut found = 0;
    for (row, &flag) in flags.iter().enumerate() {
        rows[found] = row as u32;
        found += usize::from(flag);
    }
    rows.truncate(found);
    rows
}

/// The parts of a conjunction.
fn add(predicate: Predicate, site: &Site<'_>, parts: &mut Vec<ConditionPart>) -> Result<(), ExecError> {
    match predicate {
        Predicate::And(inner) => inner.into_iter().try_for_each(|part| add(part, site, parts)),
        other => {
            let (node, fallible) = node(&other, site)?;
            match node {
                BoolNode::And(inner) if !fallible => {
                    parts.extend(inner.into_iter().map(|node| ConditionPart { node, fallible }));
                }
                node => parts.push(ConditionPart { node, fallible }),
            }
            Ok(())
        }
    }
}

/// The parts with one range per column in place of several.
fn fused(parts: Vec<ConditionPart>) -> Vec<ConditionPart> {
    let mut fused: Vec<ConditionPart> = Vec::with_capacity(parts.len());
    for part in parts {
        let BoolNode::Between { input: IntNode::Column(column), low, high, negated: false } = part.node else {
            fused.push(part);
            continue;
        };
        let known = fused.iter_mut().find_map(|known| match &mut known.node {
            BoolNode::Between { input: IntNode::Column(c), low, high, negated: false } if *c == column => {
                Some((low, high))
            }
            _ => None,
        });
        match known {
            Some((known_low, known_high)) if low.max(*known_low) <= high.min(*known_high) => {
                (*known_low, *known_high) = (low.max(*known_low), high.min(*known_high));
            }
            Some(_) => fused.push(ConditionPart { node: BoolNode::Const(Some(false)), fallible: false }),
            None => fused.push(part),
        }
    }
    fused
}

/// Does a loop of the condition stop where a float leaves its range?
pub(super) fn stops(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(stops),
        Predicate::Not(inner) => stops(inner),
        Predicate::Boolean(expression) => expression.structure().is_some_and(leaves_range),
        Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } => false,
    }
}

/// Is there a zero or a NaN among these floats without its like of the other sign?
fn tells_apart(values: &ArrayRef) -> bool {
    let floats: Vec<f64> = match values.data_type() {
        DataType::Float64 => values.as_primitive::<Float64Type>().iter().flatten().collect(),
        DataType::Float32 => values.as_primitive::<Float32Type>().iter().flatten().map(f64::from).collect(),
        _ => return false,
    };
    let zero = |negative: bool| floats.iter().any(|f| *f == 0.0 && f.is_sign_negative() == negative);
    zero(false) != zero(true) || floats.iter().any(|f| f.is_nan())
}

/// A condition that cannot fail, other than by the range of floats, and is tested without Arrow arrays, if it is one.
pub(super) fn structured(predicate: &Predicate, site: &Site<'_>) -> Option<BoolNode> {
    let typed = match predicate {
        // Predicates tell the zeros and NaNs apart (IEEE totalOrder), comparisons within expressions do not.
        Predicate::Compare { value, .. } if tells_apart(value) => return None,
        Predicate::In { values, .. } if tells_apart(values) => return None,
        Predicate::Compare { column, op, value } => compare(*op, of_column(*column, site.infos), literal(value)?)?,
        Predicate::In { column, values, negated } => in_list(of_column(*column, site.infos), values, *negated)?,
        Predicate::IsNull { column, negated } => {
            let known = !site.infos[*column].nullable
                && !matches!(site.infos[*column].kind, ColumnKind::Arrow | ColumnKind::Float);
            return Some(match known {
                true => BoolNode::Const(Some(*negated)),
                false => BoolNode::IsNull { input: Box::new(AnyNode::Column(*column)), negated: *negated },
            });
        }
        Predicate::And(parts) => return all(parts, site).map(BoolNode::And),
        Predicate::Or(parts) => return all(parts, site).map(BoolNode::Or),
        Predicate::Not(inner) => return Some(BoolNode::Not(Box::new(structured(inner, site)?))),
        Predicate::Boolean(expression) => match expression.structure() {
            Some(tree) => compile(tree, expression.columns(), site).or_else(|| site.by_entries(expression))?,
            None => site.by_entries(expression)?,
        },
    };
    typed.into_bool()
}

fn all(parts: &[Predicate], site: &Site<'_>) -> Option<Vec<BoolNode>> {
    parts.iter().map(|part| structured(part, site)).collect()
}

/// A condition and whether it may fail.
fn node(predicate: &Predicate, site: &Site<'_>) -> Result<(BoolNode, bool), ExecError> {
    let (Predicate::And(parts) | Predicate::Or(parts)) = predicate else {
        if let Some(node) = structured(predicate, site) {
            return Ok((node, false));
        }
        let test = ArrowTest::new(predicate, site.infos)?;
        let fallible = test.fallible();
        return Ok((BoolNode::Test(Box::new(test)), fallible));
    };
    let parts: Vec<(BoolNode, bool)> = parts.iter().map(|part| node(part, site)).collect::<Result<_, _>>()?;
    if parts.iter().any(|(_, fallible)| *fallible) {
        // A part that may fail must not see rows that others have decided.
        return Ok((BoolNode::Filter(Box::new(ArrowFilter::new(predicate, site.infos)?)), true));
    }
    let nodes = parts.into_iter().map(|(node, _)| node).collect();
    Ok((if matches!(predicate, Predicate::And(_)) { BoolNode::And(nodes) } else { BoolNode::Or(nodes) }, false))
}
