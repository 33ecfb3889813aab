//! Group keys that other keys determine are fetched afterwards: `GROUP BY c_custkey, c_name, c_comment` groups by the
//! number alone and joins the groups with the customers again, where the names of those groups are read that anybody
//! asks for.
//!
//! A column is traced to the table that it was read from, through everything that hands rows on unchanged. Where a key
//! is a column without equals (or is equal to one by an inner join), all columns of the same row of that table follow
//! from it, and so do those of tables that are found by one of them.
//!
//! Invariant: every group has exactly one partner in each join, since a key without equals and without NULLs is looked
//! up in the table that it came from.
//!
//! # Limits
//! Only where a key that follows is text that costs more to group by than to look up; numbers are packed into one word
//! with the others. A table whose rows an outer join may have made up is left alone.

use std::sync::Arc;

use arrow::datatypes::DataType;
use storage::TableVersion;

use super::cardinality::{self, Estimate};
use super::cost::Lookup;
use super::optimized::OptimizedPlan;
use super::statistics;
use crate::plan::{Aggregation, Join, JoinKind, Output, Plan, Side};

/// Text whose dictionary has at most `n` entries is a number like others.
const CHEAP_ENTRIES: usize = 4096;
/// Nanoseconds that a text costs as a key of one row, and a row of a table that is scanned for keys.
const TEXT_KEY: f64 = 40.0;
const LOOKED_AT: f64 = 1.0;

/// A table as one scan reads it.
struct Relation<'p> {
    table: &'p Arc<str>,
    snapshot: &'p Arc<TableVersion>,
    /// An outer join may have made up NULLs for its columns.
    padded: bool,
}

/// A column of a relation: which, and which column of the table.
type Origin = (usize, usize);

/// Where columns come from.
#[derive(Default)]
struct Lineage<'p> {
    relations: Vec<Relation<'p>>,
    columns: Vec<Option<Origin>>,
    /// Columns that are equal in every row, unless the row is made up.
    equal: Vec<(Origin, Origin)>,
}

impl<'p> Lineage<'p> {
    fn of(plan: &'p Plan) -> Lineage<'p> {
        match plan {
            Plan::Scan { table, snapshot, columns } => Lineage {
                relations: vec![Relation { table, snapshot, padded: false }],
                columns: columns.iter().map(|&c| Some((0, c))).collect(),
                equal: Vec::new(),
            },
            Plan::Filter { input, .. } | Plan::Limit { input, .. } => Lineage::of(input),
            Plan::Sort(sort) => Lineage::of(&sort.input),
            Plan::Window(window) => {
                let mut lineage = Lineage::of(&window.input);
                lineage.columns.resize(lineage.columns.len() + window.calls.len(), None);
                lineage
            }
            Plan::Shared(plan) => Lineage::of(plan),
            Plan::Project { input, outputs } => {
                Lineage::of(input).with_columns(outputs.iter().map(|output| match output {
                    Output::Column { column, .. } => Some(*column),
                    Output::Expression { .. } => None,
                }))
            }
            Plan::Aggregate(aggregation) => {
                let keys = (0..aggregation.keys.len()).map(|key| aggregation.key_of(key));
                let rest = aggregation.key_columns() - aggregation.keys.len() + aggregation.calls.len();
                Lineage::of(&aggregation.input).with_columns(keys.chain((0..rest).map(|_| None)))
            }
            Plan::Join(join) => Lineage::of_join(join),
            Plan::Union(_)
            | Plan::Values { .. }
            | Plan::Source { .. }
            | Plan::Recursive(_)
            | Plan::WorkTable { .. }
            | Plan::Unnest(_) => Lineage { columns: vec![None; plan.schema().fields().len()], ..Lineage::default() },
        }
    }

    fn with_columns(mut self, columns: impl Iterator<Item = Option<usize>>) -> Lineage<'p> {
        self.columns = columns.map(|column| self.columns[column?]).collect();
        self
    }

    fn of_join(join: &'p Join) -> Lineage<'p> {
        let one = |side| Lineage::of(if side == Side::Left { &join.left } else { &join.right });
        let (mut left, mut right) = match join.kind {
            JoinKind::Semi(side) | JoinKind::Anti(side) => return one(side),
            JoinKind::Mark(side) => {
                let mut lineage = one(side);
                lineage.columns.push(None);
                return lineage;
            }
            _ => (one(Side::Left), one(Side::Right)),
        };
        left.pad(matches!(join.kind, JoinKind::Right | JoinKind::Full));
        right.pad(matches!(join.kind, JoinKind::Left | JoinKind::Full));
        let shift = left.relations.len();
        let shifted = |(relation, column): Origin| (relation + shift, column);
        if join.kind == JoinKind::Inner && !join.nulls_equal {
            let schema = join.left.schema();
            for &(l, r) in join.on.iter().filter(|(l, _)| !schema.field(*l).data_type().is_floating()) {
                if let (Some(l), Some(r)) = (left.columns[l], right.columns[r]) {
                    left.equal.push((l, shifted(r)));
                }
            }
        }
        left.relations.append(&mut right.relations);
        left.columns.extend(right.columns.iter().map(|origin| origin.map(shifted)));
        left.equal.extend(right.equal.iter().map(|&(a, b)| (shifted(a), shifted(b))));
        left
    }

    fn pad(&mut self, pad: bool) {
        self.relations.iter_mut().for_each(|relation| relation.padded |= pad);
    }

    /// All columns that are equal to this one, itself first.
    fn equals_of(&self, origin: Origin) -> Vec<Origin> {
        let mut equals = vec![origin];
        let mut next = 0;
        while next < equals.len() {
            let at = equals[next];
            next += 1;
            for &(a, b) in &self.equal {
                let other = if a == at { b } else { a };
                if (a == at || b == at) && !equals.contains(&other) {
                    equals.push(other);
                }
            }
        }
        equals
    }

    /// The columns without equals, of relations in `among`, that hold what this one does.
    fn found_by(&self, origin: Origin, among: impl Fn(usize) -> bool) -> impl Iterator<Item = Origin> {
        let usable = |&(relation, column): &Origin| {
            let found = &self.relations[relation];
            !found.padded && among(relation) && statistics::is_unique(found.snapshot, column)
        };
        self.equals_of(origin).into_iter().filter(usable).collect::<Vec<_>>().into_iter()
    }
}

/// A relation that is looked up again.
#[derive(Debug)]
struct FetchedColumns {
    relation: usize,
    /// Its column without equals.
    unique: usize,
    /// What that is equal to: a key that stays, or a column of a relation that is fetched before.
    by: By,
    /// Keys that it has, by their place, and their columns in the table.
    keys: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Copy)]
enum By {
    Key(usize),
    Column(Origin),
}

/// Is text of this column dear as a key?
fn is_dear(relation: &Relation<'_>, column: usize) -> bool {
    let text = matches!(
        relation.snapshot.schema.field(column).data_type(),
        DataType::Utf8View | DataType::BinaryView | DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary
    );
    text && relation.snapshot.segments().any(|version| {
        let coded = version.segment.column(column).as_coded();
        coded.is_none_or(|coded| coded.dictionary().len() > CHEAP_ENTRIES)
    })
}

/// What is fetched instead of grouped by. Tables that are found by columns of others have at most `rows_max` rows;
/// `worth` says of a table and the columns that would be fetched whether that pays, and is told whether it is the
/// first.
fn fetched(
    lineage: &Lineage<'_>,
    keys: &[usize],
    rows_max: f64,
    worth: &dyn Fn(&Relation<'_>, &[usize], bool) -> bool,
) -> Vec<FetchedColumns> {
    let origins: Vec<Option<Origin>> = keys.iter().map(|&key| lineage.columns[key]).collect();
    let mut all: Vec<FetchedColumns> = Vec::new();
    // Keys that are needed, or gone.
    let mut settled = vec![false; keys.len()];
    let of = |relation: usize, settled: &[bool], but: Option<usize>| -> Vec<(usize, usize)> {
        let key = |(place, origin): (usize, &Option<Origin>)| {
            let (r, column) = (*origin)?;
            (r == relation && !settled[place] && Some(place) != but).then_some((place, column))
        };
        origins.iter().enumerate().filter_map(key).collect()
    };
    for place in 0..keys.len() {
        let Some(origin) = origins[place].filter(|_| !settled[place]) else { continue };
        // Reading whether a column has equals takes time: only of tables that it pays for.
        let pays = |relation: usize| {
            let columns: Vec<usize> = of(relation, &settled, Some(place)).iter().map(|(_, column)| *column).collect();
            !columns.is_empty() && worth(&lineage.relations[relation], &columns, all.is_empty())
        };
        let new = |relation: usize| all.iter().all(|f: &FetchedColumns| f.relation != relation) && pays(relation);
        let Some((relation, unique)) = lineage.found_by(origin, new).next() else { continue };
        let follow = of(relation, &settled, Some(place));
        settled[place] = true;
        follow.iter().for_each(|&(key, _)| settled[key] = true);
        all.push(FetchedColumns { relation, unique, by: By::Key(place), keys: follow });
    }
    // Relations of the keys that are left, found by columns of those.
    let mut next = 0;
    while next < all.len() {
        let from = all[next].relation;
        next += 1;
        for relation in 0..lineage.relations.len() {
            let follow = of(relation, &settled, None);
            let rows = lineage.relations[relation].snapshot.rows();
            if follow.is_empty() || all.iter().any(|f| f.relation == relation) || rows as f64 > rows_max {
                continue;
            }
            let columns = lineage.equal.iter().flat_map(|&(a, b)| [a, b]).filter(|origin| origin.0 == from);
            let way =
                columns.flat_map(|by| lineage.found_by(by, |r| r == relation).map(move |found| (by, found))).next();
            if let Some((by, (_, unique))) = way {
                follow.iter().for_each(|&(key, _)| settled[key] = true);
                all.push(FetchedColumns { relation, unique, by: By::Column(by), keys: follow });
            }
        }
    }
    all
}

/// The aggregation, by fewer keys where that pays.
pub(super) fn aggregate(aggregation: Aggregation, input: &Estimate) -> OptimizedPlan {
    if aggregation.sets.is_some() {
        // Every set would need the lookup of its own.
        let estimate = cardinality::aggregate(input, &aggregation);
        return OptimizedPlan { plan: Plan::Aggregate(Box::new(aggregation)), estimate };
    }
    let worth = |relation: &Relation<'_>, columns: &[usize], first: bool| {
        let (dear, rows) = (columns.iter().filter(|&&c| is_dear(relation, c)).count(), relation.snapshot.rows() as f64);
        dear as f64 * TEXT_KEY * input.rows > LOOKED_AT * rows && (first || rows <= input.rows)
    };
    by_fewer_keys(aggregation, input, input.rows, &worth)
}

fn by_fewer_keys(
    aggregation: Aggregation,
    input: &Estimate,
    rows_max: f64,
    worth: &dyn Fn(&Relation<'_>, &[usize], bool) -> bool,
) -> OptimizedPlan {
    let lineage = if aggregation.keys.len() > 1 { Lineage::of(&aggregation.input) } else { Lineage::default() };
    let all =
        if lineage.relations.is_empty() { Vec::new() } else { fetched(&lineage, &aggregation.keys, rows_max, worth) };
    // The scans: the column that is looked up, what is asked for, and what others are found by.
    let scans: Vec<(Plan, Vec<usize>)> = all
        .iter()
        .map(|fetched| {
            let relation = &lineage.relations[fetched.relation];
            let mut columns = vec![fetched.unique];
            let finds = all.iter().filter_map(|f| match f.by {
                By::Column((relation, column)) if relation == fetched.relation => Some(column),
                _ => None,
            });
            for column in fetched.keys.iter().map(|(_, column)| *column).chain(finds) {
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
            let (table, snapshot) = (Arc::clone(relation.table), relation.snapshot.clone());
            (Plan::Scan { table, snapshot, columns: columns.clone() }, columns)
        })
        .collect();
    let schema = aggregation.schema();
    let Aggregation { input: below, keys, sets, calls } = aggregation;
    let gone = |place: usize| all.iter().any(|f| f.keys.iter().any(|(key, _)| *key == place));
    let stay: Vec<usize> = (0..keys.len()).filter(|&place| !gone(place)).collect();
    let kept = stay.iter().map(|&place| keys[place]).collect();
    // Where keys, calls and columns that others are found by stand.
    let mut places: Vec<usize> = vec![0; schema.fields().len()];
    stay.iter().enumerate().for_each(|(at, &place)| places[place] = at);
    (0..calls.len()).for_each(|call| places[keys.len() + call] = stay.len() + call);
    let aggregation = Aggregation { input: below, keys: kept, sets, calls };
    let estimate = cardinality::aggregate(input, &aggregation);
    let mut made = OptimizedPlan { plan: Plan::Aggregate(Box::new(aggregation)), estimate };
    if all.is_empty() {
        return made;
    }
    let mut firsts: Vec<usize> = Vec::new();
    for (fetched, (scan, columns)) in all.iter().zip(&scans) {
        let first = made.plan.schema().fields().len();
        let at = match fetched.by {
            By::Key(place) => places[place],
            By::Column((relation, column)) => {
                let from = all.iter().position(|f| f.relation == relation).expect("it is fetched before");
                firsts[from] + place_of(&scans[from].1, column)
            }
        };
        fetched.keys.iter().for_each(|&(key, column)| places[key] = first + place_of(columns, column));
        firsts.push(first);
        // The groups are kept, so that the columns of the first table are read only for rows that somebody asks for;
        // what is joined with those streams past the other tables, which are smaller.
        made = made.joined(scan.clone(), at, if firsts.len() == 1 { Side::Left } else { Side::Right });
    }
    let output = |(place, field): (&usize, &Arc<_>)| Output::Column { column: *place, field: Arc::clone(field) };
    let outputs: Vec<Output> = places.iter().zip(schema.fields()).map(output).collect();
    let estimate = made.estimate.projected(&outputs);
    OptimizedPlan { plan: Plan::Project { input: Box::new(made.plan), outputs }, estimate }
}

fn place_of(columns: &[usize], column: usize) -> usize {
    columns.iter().position(|&c| c == column).expect("it is read")
}

impl OptimizedPlan {
    /// Each row with its partner in a scan, by the scan's first column.
    fn joined(self, scan: Plan, by: usize, build: Side) -> OptimizedPlan {
        let Plan::Scan { snapshot, columns, .. } = &scan else { unreachable!("only tables are fetched from") };
        let right = cardinality::scan(snapshot, columns, &[]);
        let join = Join {
            left: self.plan,
            right: scan,
            kind: JoinKind::Inner,
            on: vec![(by, 0)],
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build,
        };
        let rows = self.estimate.rows;
        let estimate = Estimate { rows, ..cardinality::join(&self.estimate, &right, &join, Lookup::Array) };
        OptimizedPlan { plan: Plan::Join(Box::new(join)), estimate }
    }
}

#[cfg(test)]
#[path = "tests/keys.rs"]
pub(super) mod tests;
