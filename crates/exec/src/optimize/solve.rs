//! From a [`Cluster`] to joins again: what follows from equalities, which relation gets which condition, the order, the
//! plan.

use arrow::datatypes::{DataType, SchemaRef};

use super::cardinality::{Estimate, semi_share};
use super::cluster::Cluster;
use super::conjuncts::{about_one_column, all_of, filter, implied};
use super::cost::lookup;
use super::optimized::OptimizedPlan;
use super::order::{Class, Condition, Graph, Relation, Semi, Set, Tree, order};
use crate::plan::predicate::Predicate;
use crate::plan::{Join, JoinKind, Output, Plan, Side};

/// Share of pairs that pass a condition of which single relations have had their part already.
const REST: f64 = 0.5;

/// Columns that are all equal, at most one of each relation.
type Equal = Vec<usize>;

/// Joins the relations of a cluster, whose plans `push` rewrites with conditions over them; `outputs` are the numbers
/// of the columns of `schema`.
pub(super) fn solve(
    mut cluster: Cluster,
    outputs: &[usize],
    schema: &SchemaRef,
    push: &mut dyn FnMut(Plan, Vec<Predicate>) -> OptimizedPlan,
) -> OptimizedPlan {
    let classes = equal_columns(&cluster);
    follow(&mut cluster, &classes);
    let (of_members, conditions) = distribute(&cluster);
    let mut members = Vec::with_capacity(cluster.members.len());
    for (member, predicates) in cluster.members.iter_mut().zip(of_members) {
        let plan = member.plan.take().expect("taken once");
        let local = predicates.iter().map(|p| p.map_columns(&|c| c - member.first)).collect();
        members.push(push(plan, local));
    }
    let estimates: Vec<&Estimate> = members.iter().map(|m| &m.estimate).collect();
    let graph = graph(&cluster, &classes, &conditions, &estimates);
    let found = order(&graph);
    let column = |c: usize| {
        let member = cluster.owners[c];
        estimates[member].columns[c - cluster.members[member].first]
    };
    let estimate = Estimate {
        rows: found.rows,
        base_rows: estimates.iter().map(|e| e.base_rows).fold(found.rows, f64::max),
        columns: outputs.iter().map(|&c| column(c)).collect(),
        cost: found.cost,
    };
    let plans = members.into_iter().map(|m| Some(m.plan)).collect();
    let late = std::mem::take(&mut cluster.late);
    let mut assembly = Assembly {
        cluster: &cluster,
        classes: &classes,
        conditions: conditions.into_iter().map(|c| Some(c.0)).collect(),
        plans,
    };
    let (mut plan, layout) = assembly.tree(&found.tree);
    let rest = assembly.conditions.iter_mut().filter_map(Option::take).collect::<Vec<_>>();
    let last: Vec<Predicate> = rest.into_iter().chain(late).collect();
    let mut estimate = estimate;
    if !last.is_empty() {
        estimate.rows *= 0.5f64.powi(last.len().min(8) as i32);
    }
    let last = last.iter().map(|p| p.map_columns(&|c| position(&layout, c))).collect();
    plan = filter(plan, last);
    if layout != outputs {
        let output = |(i, &c): (usize, &usize)| Output::Column {
            column: position(&layout, c),
            field: schema.fields()[i].clone(),
        };
        plan = Plan::Project { input: Box::new(plan), outputs: outputs.iter().enumerate().map(output).collect() };
    }
    OptimizedPlan { plan, estimate }
}

fn position(layout: &[usize], column: usize) -> usize {
    layout.iter().position(|&c| c == column).expect("a column that is read is there")
}

/// Classes of equal columns. Two columns of one relation never share a class (nobody would compare them then): such an
/// equality is a class of its own.
fn equal_columns(cluster: &Cluster) -> Vec<Equal> {
    let mut classes: Vec<Equal> = Vec::new();
    for &(a, b) in &cluster.equalities {
        let find = |c: usize| classes.iter().position(|class| class.contains(&c));
        let apart =
            |x: &[usize], y: &[usize]| x.iter().all(|&c| y.iter().all(|&d| cluster.owners[c] != cluster.owners[d]));
        match (find(a), find(b)) {
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) if apart(&classes[x], &classes[y]) => {
                let merged = classes.swap_remove(x.max(y));
                classes[x.min(y)].extend(merged);
            }
            (Some(x), None) if apart(&classes[x], &[b]) => classes[x].push(b),
            (None, Some(y)) if apart(&classes[y], &[a]) => classes[y].push(a),
            _ => classes.push(vec![a, b]),
        }
    }
    classes
}

/// Adds conditions that hold because columns are equal. Not of floats: -0.0 and 0.0 are equal keys.
fn follow(cluster: &mut Cluster, classes: &[Equal]) {
    let mut added: Vec<(usize, Predicate)> = Vec::new();
    let known: Vec<(usize, Predicate)> =
        cluster.predicates.iter().filter_map(|p| about_one_column(p).map(|c| (c, p.clone()))).collect();
    for (column, predicate) in known {
        if cluster.types[column].is_floating() {
            continue;
        }
        let mut equal: Vec<usize> = vec![column];
        // Keys of a class hold for each other; those of a semi join for its other side, and back unless it is an anti
        // join.
        let mut next = 0;
        while next < equal.len() {
            let from = equal[next];
            let in_class = classes.iter().filter(|class| class.contains(&from)).flatten().copied();
            let by_semi = cluster.semis.iter().filter(|s| !s.null_aware).flat_map(|s| {
                s.on.iter().filter_map(|&(k, o)| match from {
                    f if f == k => Some(o),
                    f if f == o && !s.anti => Some(k),
                    _ => None,
                })
            });
            let more: Vec<usize> = in_class.chain(by_semi).collect();
            for c in more {
                if !equal.contains(&c) {
                    equal.push(c);
                }
            }
            next += 1;
        }
        for &c in &equal[1..] {
            let same = predicate.map_columns(&|_| c);
            // Said already, by the statement or by another column of the class.
            let text = format!("{same:?}");
            let said = cluster.predicates.iter().chain(added.iter().map(|a| &a.1));
            if !said.into_iter().any(|p| about_one_column(p) == Some(c) && format!("{p:?}") == text) {
                added.push((c, same));
            }
        }
    }
    cluster.predicates.extend(added.into_iter().map(|a| a.1));
}

/// The conditions of each relation, and those over several: with its relations, and whether they have had a part of it.
#[allow(clippy::type_complexity)]
fn distribute(cluster: &Cluster) -> (Vec<Vec<Predicate>>, Vec<(Predicate, Set, bool)>) {
    let mut of_members: Vec<Vec<Predicate>> = vec![Vec::new(); cluster.members.len()];
    let mut conditions = Vec::new();
    for predicate in &cluster.predicates {
        let owners = predicate.columns().iter().fold(0, |set: Set, &c| set | 1 << cluster.owners[c]);
        if owners.count_ones() == 1 {
            of_members[owners.trailing_zeros() as usize].push(predicate.clone());
            continue;
        }
        let mut had = false;
        for (member, of_member) in of_members.iter_mut().enumerate() {
            if owners >> member & 1 == 1
                && let Some(part) = implied(predicate, &|c| cluster.owners[c] == member)
            {
                of_member.push(part);
                had = true;
            }
        }
        conditions.push((predicate.clone(), owners, had));
    }
    (of_members, conditions)
}

fn graph(
    cluster: &Cluster,
    classes: &[Equal],
    conditions: &[(Predicate, Set, bool)],
    estimates: &[&Estimate],
) -> Graph {
    let local = |c: usize| (cluster.owners[c], c - cluster.members[cluster.owners[c]].first);
    let choices = |c: usize| {
        let (member, column) = local(c);
        estimates[member].columns[column].choices
    };
    let relations = estimates.iter().map(|e| Relation {
        rows: e.rows,
        base_rows: e.base_rows,
        columns: e.columns.len(),
        cost: e.cost,
    });
    let class = |class: &Equal| Class {
        members: class.iter().map(|&c| (cluster.owners[c], choices(c))).collect(),
        array: is_array_key(&cluster.types[class[0]]),
    };
    let all_columns = |e: &mut Estimate| e.columns.clear();
    let semi = |semi: &super::cluster::SemiJoin| {
        let other = estimates[semi.relation];
        let columns = semi.on.iter().map(|k| k.0).chain(semi.residual.iter().flat_map(|p| p.columns()));
        let needs = columns.fold(0, |set: Set, c| set | 1 << cluster.owners[c]) & !(1 << semi.relation);
        // Seen from the given side: one estimate with its key columns side by side.
        let mut kept = estimates[needs.trailing_zeros().min(63) as usize % estimates.len()].clone();
        all_columns(&mut kept);
        for &(k, _) in &semi.on {
            let (member, column) = local(k);
            kept.columns.push(estimates[member].columns[column]);
            kept.base_rows = kept.base_rows.max(estimates[member].base_rows);
        }
        let keys: Vec<(usize, usize)> = semi.on.iter().enumerate().map(|(i, &(_, o))| (i, local(o).1)).collect();
        let share = semi_share(&kept, other, &keys, !semi.residual.is_empty());
        let others: Vec<usize> = keys.iter().map(|k| k.1).collect();
        let types: Vec<&DataType> = semi.on.iter().map(|k| &cluster.types[k.0]).collect();
        Semi {
            relation: semi.relation,
            needs,
            share: if semi.anti { (1.0 - share).max(0.05) } else { share },
            anti: semi.anti,
            lookup: lookup(&types),
            choices: other.combinations(&others).min(other.base_rows.max(1.0)),
            filters: !semi.nulls_equal && !semi.null_aware && !semi.on.is_empty(),
        }
    };
    let share = |(predicate, needs, had): &(Predicate, Set, bool)| {
        if *had {
            return REST;
        }
        // One estimate with all columns where the numbers say.
        let columns =
            cluster.owners.iter().enumerate().map(|(c, &m)| estimates[m].columns[c - cluster.members[m].first]);
        let all = Estimate {
            columns: columns.collect(),
            ..estimates[needs.trailing_zeros() as usize % estimates.len()].clone()
        };
        all.share(predicate)
    };
    Graph {
        relations: relations.collect(),
        classes: classes.iter().map(class).collect(),
        semis: cluster.semis.iter().map(semi).collect(),
        conditions: conditions.iter().filter(|c| c.1 != 0).map(|c| Condition { needs: c.1, share: share(c) }).collect(),
    }
}

/// Can keys of this type be looked up in an array?
fn is_array_key(data_type: &DataType) -> bool {
    super::cost::lookup(&[data_type]) == super::cost::Lookup::Array
}

/// Plans put together in the order that was found.
struct Assembly<'a> {
    cluster: &'a Cluster,
    classes: &'a [Equal],
    /// Conditions over several relations that are not in the plan yet.
    conditions: Vec<Option<Predicate>>,
    plans: Vec<Option<Plan>>,
}

impl Assembly<'_> {
    /// The plan and the numbers of its columns.
    fn tree(&mut self, tree: &Tree) -> (Plan, Vec<usize>) {
        match tree {
            Tree::Leaf(relation) => {
                let member = &self.cluster.members[*relation];
                let plan = self.plans[*relation].take().expect("each relation is joined once");
                (plan, (member.first..member.first + member.width).collect())
            }
            Tree::Join { probe, build } => {
                let (left, mut layout) = self.tree(probe);
                let (right, right_layout) = self.tree(build);
                let key = |class: &Equal| {
                    let find = |layout: &[usize]| layout.iter().position(|c| class.contains(c));
                    Some((find(&layout)?, find(&right_layout)?))
                };
                let on: Vec<(usize, usize)> = self.classes.iter().filter_map(key).collect();
                layout.extend(right_layout);
                let condition = self.ready(&layout);
                let (residual, filter) = if on.is_empty() { (condition, None) } else { (None, condition) };
                let kind = JoinKind::Inner;
                let (nulls_equal, null_aware, build) = (false, false, Side::Right);
                let join = Join { left, right, kind, on, nulls_equal, null_aware, residual, build };
                let plan = Plan::Join(Box::new(join));
                match filter {
                    Some(predicate) => (Plan::Filter { input: Box::new(plan), predicate }, layout),
                    None => (plan, layout),
                }
            }
            Tree::Semi { kept, semi, builds_kept } => {
                let (left, layout) = self.tree(kept);
                let semi = &self.cluster.semis[*semi];
                let (right, right_layout) = self.tree(&Tree::Leaf(semi.relation));
                let on = semi.on.iter().map(|&(k, o)| (position(&layout, k), position(&right_layout, o))).collect();
                let pairs: Vec<usize> = layout.iter().chain(&right_layout).copied().collect();
                let residual = all_of(semi.residual.clone()).map(|r| r.map_columns(&|c| position(&pairs, c)));
                let join = Join {
                    left,
                    right,
                    kind: if semi.anti { JoinKind::Anti(Side::Left) } else { JoinKind::Semi(Side::Left) },
                    on,
                    nulls_equal: semi.nulls_equal,
                    null_aware: semi.null_aware,
                    residual,
                    build: if *builds_kept { Side::Left } else { Side::Right },
                };
                (Plan::Join(Box::new(join)), layout)
            }
        }
    }

    /// What can be asked of rows with these columns and has not been.
    fn ready(&mut self, layout: &[usize]) -> Option<Predicate> {
        let mut ready = Vec::new();
        for condition in &mut self.conditions {
            let columns = condition.as_ref().map(Predicate::columns).unwrap_or_default();
            if !columns.is_empty() && columns.iter().all(|c| layout.contains(c)) {
                ready.extend(condition.take().map(|p| p.map_columns(&|c| position(layout, c))));
            }
        }
        all_of(ready)
    }
}
