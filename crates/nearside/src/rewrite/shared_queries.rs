//! [`SharedQuery`]: a query that stands in several places of a plan, and may be computed once for all of them.
//!
//! A common table expression, or a view, that is named twice is planned twice. Which parts of a plan are equal is found
//! before anything is optimised ([`mark`]): later each copy has its own filters and columns. A mark keeps DataFusion's
//! rules from moving anything across it; what is cheaper, computing once or in each place with that place's conditions,
//! is decided over the executable plan, where rows are known (`exec::optimize`).
//!
//! What the user says of a common table expression ([`Wish`]) comes first.
//!
//! # Limits
//! Equal parts are found where they are a query or view in FROM, or begin with an aggregate, DISTINCT, a window or a
//! filter.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchemaRef, Result as DfResult};
use datafusion_expr::{Expr, Extension, LogicalPlan, SubqueryAlias, UserDefinedLogicalNodeCore};

use crate::sql::Wish;
use crate::tables::stored::StoredSource;

/// A query that stands in several places.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct SharedQuery {
    /// Which: the same in all of its places.
    pub id: usize,
    /// The user wants it computed once.
    pub keep: bool,
    /// The query.
    pub query: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for SharedQuery {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.query]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.query.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Shared {}", self.id)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(SharedQuery { id: self.id, keep: self.keep, query: inputs.swap_remove(0) })
    }
}

impl SharedQuery {
    /// The one that an operator is.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&SharedQuery> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    fn mark(id: usize, keep: bool, query: LogicalPlan) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(SharedQuery { id, keep, query }) })
    }
}

/// Marks the queries of an analysed plan that may be shared.
pub(crate) fn mark(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut shape = Shape::default();
    shape.look(&plan)?;
    let mut ids = 0;
    let plan = match shape.wishes.is_empty() {
        true => plan,
        false => heed(plan, &shape.wishes, &mut ids)?,
    };
    if shape.costly < 2 {
        return Ok(plan);
    }
    mark_equals(plan, &mut ids)
}

/// What a plan has that could be of use here.
#[derive(Default)]
struct Shape {
    /// Operators that cost something.
    costly: usize,
    /// How often each common table expression with a wish stands in it.
    wishes: HashMap<u64, usize>,
}

impl Shape {
    fn look(&mut self, plan: &LogicalPlan) -> DfResult<()> {
        plan.apply_with_subqueries(|node| {
            self.costly += usize::from(is_costly(node));
            if let Some((number, _)) = wish(node) {
                *self.wishes.entry(number).or_default() += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }
}

fn wish(plan: &LogicalPlan) -> Option<(u64, Wish)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => Wish::of_name(alias.alias.table()),
        _ => None,
    }
}

/// Is it what the user wants computed wherever it stands? Then so is all that it is made of, unless the user says
/// otherwise of that.
fn is_in_each_place(plan: &LogicalPlan) -> bool {
    matches!(wish(plan), Some((_, Wish::InEachPlace)))
}

/// Marks what the user wants computed once, or what has to be.
fn heed(plan: LogicalPlan, places: &HashMap<u64, usize>, ids: &mut usize) -> DfResult<LogicalPlan> {
    let mut known: HashMap<u64, usize> = HashMap::new();
    let marked = plan.transform_up_with_subqueries(|node| {
        let (Some((number, wish)), LogicalPlan::SubqueryAlias(alias)) = (wish(&node), &node) else {
            return Ok(Transformed::no(node));
        };
        let once = match wish {
            Wish::Once => true,
            Wish::InEachPlace => false,
            Wish::SameEverywhere => places.get(&number).is_some_and(|places| *places > 1),
        };
        // What depends on a row outside of it is another query for each of those.
        if !once || depends_on_outside(&alias.input) {
            return Ok(Transformed::no(node));
        }
        let id = *known.entry(number).or_insert_with(|| {
            *ids += 1;
            *ids
        });
        let query = SharedQuery::mark(id, true, alias.input.as_ref().clone());
        let alias = SubqueryAlias::try_new(Arc::new(query), alias.alias.clone())?;
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
    })?;
    Ok(marked.data)
}

/// Marks equal subtrees, the outermost ones.
fn mark_equals(plan: LogicalPlan, ids: &mut usize) -> DfResult<LogicalPlan> {
    let mut equals: HashMap<LogicalPlan, usize> = HashMap::new();
    {
        let mut met: HashMap<&LogicalPlan, usize> = HashMap::new();
        walk(&plan, false, &mut met);
        let mut several: Vec<&LogicalPlan> = met.iter().filter(|(_, n)| **n > 1).map(|(plan, _)| *plan).collect();
        // Numbers do not depend on the order of hashing.
        several.sort_by_cached_key(|plan| plan.display_indent().to_string());
        for plan in several {
            *ids += 1;
            equals.insert(plan.clone(), *ids);
        }
    }
    if equals.is_empty() {
        return Ok(plan);
    }
    mark_some(plan, &equals, false)
}

/// Marks those subtrees. What a query within an expression begins with stays as it is: rules look at that.
fn mark_some(plan: LogicalPlan, equals: &HashMap<LogicalPlan, usize>, begins: bool) -> DfResult<LogicalPlan> {
    if is_in_each_place(&plan) {
        return Ok(plan);
    }
    if !begins
        && is_costly_inside(&plan)
        && let Some(&id) = equals.get(&plan)
    {
        return Ok(SharedQuery::mark(id, false, plan));
    }
    let begins = matches!(plan, LogicalPlan::Subquery(_));
    let below = |input: LogicalPlan| mark_some(input, equals, begins).map(Transformed::yes);
    let plan = plan.map_children(below)?.data;
    Ok(plan.map_subqueries(|query| mark_some(query, equals, true).map(Transformed::yes))?.data)
}

/// Counts subtrees that could be shared. What lies inside a subtree that was met before is part of that one.
fn walk<'p>(plan: &'p LogicalPlan, is_root: bool, met: &mut HashMap<&'p LogicalPlan, usize>) {
    if is_in_each_place(plan) {
        return;
    }
    if (is_root || is_root_shape(plan)) && SharedQuery::of(plan).is_none() && may_be_shared(plan) {
        let places = met.entry(plan).or_default();
        *places += 1;
        if *places > 1 {
            return;
        }
    }
    // Each term of a recursion is read by that alone.
    if matches!(plan, LogicalPlan::RecursiveQuery(_)) {
        return;
    }
    let below_alias = matches!(plan, LogicalPlan::SubqueryAlias(_));
    for query in subqueries(plan) {
        walk(query, false, met);
    }
    for input in plan.inputs() {
        walk(input, below_alias, met);
    }
}

fn is_root_shape(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_) | LogicalPlan::Filter(_)
    )
}

fn is_costly(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_))
}

fn is_costly_inside(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(is_costly(node))).unwrap_or(false)
}

/// It costs something, and equal texts mean equal rows: all its rows come from stored tables, whose names say which
/// they are, nothing depends on the moment, and nothing on a row outside of it.
fn may_be_shared(plan: &LogicalPlan) -> bool {
    let mut tables: HashMap<String, HashSet<u64>> = HashMap::new();
    let mut fits = is_costly_inside(plan) && !depends_on_outside(plan);
    let walked = plan.apply_with_subqueries(|node| {
        fits &= match node {
            LogicalPlan::TableScan(scan) => match scan.source.downcast_ref::<StoredSource>() {
                Some(stored) => {
                    let known = tables.entry(scan.table_name.to_string()).or_default();
                    known.insert(stored.id);
                    known.len() == 1 && !stored.row_ids
                }
                None => false,
            },
            LogicalPlan::RecursiveQuery(_) | LogicalPlan::Unnest(_) => false,
            LogicalPlan::Extension(_) => SharedQuery::of(node).is_some(),
            // Equal queries around it would otherwise compute it once.
            node => !is_in_each_place(node),
        };
        node.apply_expressions(|expr| {
            fits &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if fits { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && fits
}

/// Does it read columns of a query that it stands in?
fn depends_on_outside(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        found |= node.contains_outer_reference();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_err() || found
}

/// The queries in an operator's expressions.
fn subqueries(plan: &LogicalPlan) -> Vec<&LogicalPlan> {
    let expressions: Vec<&Expr> = match plan {
        LogicalPlan::Filter(filter) => vec![&filter.predicate],
        LogicalPlan::Projection(projection) => projection.expr.iter().collect(),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect(),
        LogicalPlan::Window(window) => window.window_expr.iter().collect(),
        LogicalPlan::Sort(sort) => sort.expr.iter().map(|s| &s.expr).collect(),
        LogicalPlan::Join(join) => join.filter.iter().collect(),
        _ => Vec::new(),
    };
    let mut found = Vec::new();
    for expr in expressions {
        // The walk never fails.
        let _ = expr.apply(|e| {
            match e {
                Expr::ScalarSubquery(query) => found.push(query.subquery.as_ref()),
                Expr::Exists(exists) => found.push(exists.subquery.subquery.as_ref()),
                Expr::InSubquery(test) => found.push(test.subquery.subquery.as_ref()),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    found
}
