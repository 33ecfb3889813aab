//! A tree of inner, semi and anti joins taken apart: relations, what is equal, and what else is asked of their rows.
//!
//! Columns of all relations are numbered through; equalities and predicates are over these numbers. Inner joins without
//! NULLs that are equal, semi and anti joins whose residual cannot fail, projections of plain columns and filters in
//! between are taken apart; an outer join is an inner one where something above drops the rows that it adds. Everything
//! else is a relation.

use arrow::datatypes::DataType;

use super::conjuncts::{conjuncts, equal_columns, rejects_nulls};
use crate::plan::delicate::is_delicate;
use crate::plan::predicate::Predicate;
use crate::plan::{Join, JoinKind, Output, Plan, Side};

/// Relations up to which joins are taken apart; sets of them are bits of a word.
const RELATIONS_MAX: usize = 60;

/// Is it the top of a cluster of not too many relations? A larger tree is taken apart further down.
pub(super) fn is_small_cluster(plan: &Plan) -> bool {
    is_cluster(plan) && relations(plan) <= RELATIONS_MAX
}

/// How many relations it may be taken apart into.
fn relations(plan: &Plan) -> usize {
    match plan {
        Plan::Join(join) => match join.kind {
            JoinKind::Semi(Side::Left) | JoinKind::Anti(Side::Left) => relations(&join.left) + 1,
            JoinKind::Semi(Side::Right) | JoinKind::Anti(Side::Right) => relations(&join.right) + 1,
            // Outer joins may become inner ones.
            JoinKind::Mark(_) => 1,
            _ => relations(&join.left) + relations(&join.right),
        },
        Plan::Filter { input, .. } | Plan::Project { input, .. } => relations(input),
        _ => 1,
    }
}

/// What is joined.
pub(super) struct Member {
    /// Taken when it is rewritten.
    pub(super) plan: Option<Plan>,
    /// Number of its first column.
    pub(super) first: usize,
    /// How many it has.
    pub(super) width: usize,
}

/// A semi or anti join.
pub(super) struct SemiJoin {
    /// The other side.
    pub(super) relation: usize,
    /// Rows without a match are given.
    pub(super) anti: bool,
    /// Key columns: of the given rows, and of the other side.
    pub(super) on: Vec<(usize, usize)>,
    /// What else a pair has to pass to match.
    pub(super) residual: Vec<Predicate>,
    /// As in [`Join`].
    pub(super) nulls_equal: bool,
    /// As in [`Join`].
    pub(super) null_aware: bool,
}

/// Joins taken apart.
#[derive(Default)]
pub(super) struct Cluster {
    /// Relations.
    pub(super) members: Vec<Member>,
    /// Relation of each column.
    pub(super) owners: Vec<usize>,
    /// Type of each column.
    pub(super) types: Vec<DataType>,
    /// Pairs of columns of inner joins that are equal.
    pub(super) equalities: Vec<(usize, usize)>,
    /// Conditions that cannot fail.
    pub(super) predicates: Vec<Predicate>,
    /// Conditions that may fail, in the order in which they are to be evaluated, behind everything else.
    pub(super) late: Vec<Predicate>,
    /// Semi and anti joins.
    pub(super) semis: Vec<SemiJoin>,
}

/// Is it the top of a cluster?
fn is_cluster(plan: &Plan) -> bool {
    match plan {
        Plan::Join(join) => match join.kind {
            JoinKind::Inner => !join.nulls_equal && !join.residual.as_ref().is_some_and(Predicate::volatile),
            JoinKind::Semi(_) | JoinKind::Anti(_) => !join.residual.as_ref().is_some_and(is_delicate),
            _ => false,
        },
        Plan::Filter { input, predicate } => !predicate.volatile() && is_cluster(input),
        Plan::Project { input, outputs } => {
            outputs.iter().all(|o| matches!(o, Output::Column { .. })) && is_cluster(input)
        }
        _ => false,
    }
}

impl Cluster {
    /// Takes a plan apart. `rejected` says of its columns whether rows with NULL there are dropped later on. Gives the
    /// number of each output column.
    pub(super) fn take(&mut self, plan: Plan, rejected: &[bool]) -> Vec<usize> {
        let plan = inner_where_rejected(plan, rejected);
        if !is_cluster(&plan) {
            return self.member(plan);
        }
        match plan {
            Plan::Join(join) if join.kind == JoinKind::Inner => self.take_inner(*join, rejected),
            Plan::Join(join) => self.take_semi(*join, rejected),
            Plan::Filter { input, predicate } => {
                let parts = conjuncts(&predicate);
                let mut rejected = rejected.to_vec();
                for (column, known) in rejected.iter_mut().enumerate() {
                    *known |= parts.iter().any(|p| rejects_nulls(p, &|c| c == column));
                }
                let numbers = self.take(*input, &rejected);
                parts.iter().for_each(|p| self.ask(p.map_columns(&|c| numbers[c])));
                numbers
            }
            Plan::Project { input, outputs } => {
                let column = |o: &Output| match o {
                    Output::Column { column, .. } => *column,
                    Output::Expression { .. } => unreachable!("a cluster projects plain columns"),
                };
                let mut below = vec![false; input.schema().fields().len()];
                outputs.iter().zip(rejected).for_each(|(o, &r)| below[column(o)] |= r);
                let numbers = self.take(*input, &below);
                outputs.iter().map(|o| numbers[column(o)]).collect()
            }
            other => self.member(other),
        }
    }

    /// Adds a condition.
    pub(super) fn ask(&mut self, predicate: Predicate) {
        if is_delicate(&predicate) {
            self.late.push(predicate);
            return;
        }
        match equal_columns(&predicate, &|c| self.types[c].clone()) {
            Some((a, b)) if self.owners[a] != self.owners[b] => self.equalities.push((a, b)),
            _ => self.predicates.push(predicate),
        }
    }

    fn take_inner(&mut self, join: Join, rejected: &[bool]) -> Vec<usize> {
        let width = join.left.schema().fields().len();
        let mut rejected = rejected.to_vec();
        for &(l, r) in &join.on {
            (rejected[l], rejected[width + r]) = (true, true);
        }
        let mut numbers = self.take(join.left, &rejected[..width]);
        numbers.extend(self.take(join.right, &rejected[width..]));
        self.equalities.extend(join.on.iter().map(|&(l, r)| (numbers[l], numbers[width + r])));
        for part in join.residual.iter().flat_map(conjuncts) {
            self.ask(part.map_columns(&|c| numbers[c]));
        }
        numbers
    }

    fn take_semi(&mut self, join: Join, rejected: &[bool]) -> Vec<usize> {
        let (side, anti) = match join.kind {
            JoinKind::Semi(side) => (side, false),
            JoinKind::Anti(side) => (side, true),
            _ => unreachable!("the other kinds are no clusters"),
        };
        let width = join.left.schema().fields().len();
        let of_kept = |&(l, r): &(usize, usize)| if side == Side::Left { (l, r) } else { (r, l) };
        let on: Vec<(usize, usize)> = join.on.iter().map(of_kept).collect();
        let (kept, other) = if side == Side::Left { (join.left, join.right) } else { (join.right, join.left) };
        let mut rejected = rejected.to_vec();
        if !anti && !join.nulls_equal {
            on.iter().for_each(|(k, _)| rejected[*k] = true);
        }
        let kept = self.take(kept, &rejected);
        let relation = self.members.len();
        let other = self.member(other);
        let pair = |c: usize| match (c < width, side) {
            (true, Side::Left) => kept[c],
            (true, Side::Right) => other[c],
            (false, Side::Left) => other[c - width],
            (false, Side::Right) => kept[c - width],
        };
        let mut on: Vec<(usize, usize)> = on.iter().map(|&(k, o)| (kept[k], other[o])).collect();
        let mut residual = Vec::new();
        for part in join.residual.iter().flat_map(conjuncts).map(|p| p.map_columns(&pair)) {
            let columns = part.columns();
            let foreign = columns.iter().filter(|c| self.owners[**c] == relation).count();
            match equal_columns(&part, &|c| self.types[c].clone()) {
                Some((a, b)) if foreign == 1 && !join.nulls_equal && !join.null_aware => {
                    on.push(if self.owners[a] == relation { (b, a) } else { (a, b) });
                }
                // A row has a match only if this holds for it.
                _ if foreign == 0 && !columns.is_empty() && !anti => self.predicates.push(part),
                // Rows of the other side for which it does not hold match nothing; but a null-aware join asks whether
                // there is any.
                _ if foreign == columns.len() && foreign > 0 && !join.null_aware => self.predicates.push(part),
                _ => residual.push(part),
            }
        }
        let (nulls_equal, null_aware) = (join.nulls_equal, join.null_aware);
        self.semis.push(SemiJoin { relation, anti, on, residual, nulls_equal, null_aware });
        kept
    }

    fn member(&mut self, plan: Plan) -> Vec<usize> {
        let (first, relation, schema) = (self.owners.len(), self.members.len(), plan.schema());
        let width = schema.fields().len();
        self.owners.resize(first + width, relation);
        self.types.extend(schema.fields().iter().map(|f| f.data_type().clone()));
        self.members.push(Member { plan: Some(plan), first, width });
        (first..first + width).collect()
    }
}

/// An outer join as one that does not add rows that are dropped anyway.
pub(super) fn inner_where_rejected(plan: Plan, rejected: &[bool]) -> Plan {
    let Plan::Join(mut join) = plan else { return plan };
    if let JoinKind::Left | JoinKind::Right | JoinKind::Full = join.kind {
        let width = join.left.schema().fields().len();
        // Rows with NULLs for one side are dropped.
        let (left, right) = (rejected[..width].contains(&true), rejected[width..].contains(&true));
        join.kind = match (join.kind, left, right) {
            (JoinKind::Left, _, true) | (JoinKind::Right, true, _) | (JoinKind::Full, true, true) => JoinKind::Inner,
            (JoinKind::Full, true, false) => JoinKind::Left,
            (JoinKind::Full, false, true) => JoinKind::Right,
            (kind, ..) => kind,
        };
    }
    Plan::Join(join)
}
