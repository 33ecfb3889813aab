//! What becomes of each operator of a query when outer rows are pushed below it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion_expr::expr::{Sort as SortKey, WindowFunction};
use datafusion_expr::logical_plan::{DistinctOn, FetchType, SkipType};
use datafusion_expr::utils::conjunction;
use datafusion_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, Filter, Join, JoinConstraint, Limit, LogicalPlan, LogicalPlanBuilder,
    Projection, RecursiveQuery, Sort, SubqueryAlias, Union, Unnest, Values, Window, lit, when,
};
use datafusion_functions_window::expr_fn::row_number;

use crate::error::Error;
use crate::rewrite::dependent::grouping::as_union;
use crate::rewrite::dependent::outer::Outer;
use crate::rewrite::null_keys::not_null;
use crate::sql::fresh_name;
use crate::tables::sources::WorkSource;

/// The rows that a query gives for each of the outer rows, with the columns that carry those. The outer rows are
/// different from each other, unless the query [is row-wise](super::simple::is_row_wise).
pub(super) fn push(query: &LogicalPlan, rows: &LogicalPlan, outer: &Outer) -> Result<LogicalPlan> {
    if !outer.is_read_by(query)? {
        return match query {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row && empty.schema.fields().is_empty() => {
                Ok(rows.clone())
            }
            _ => LogicalPlanBuilder::from(rows.clone()).cross_join(query.clone())?.build(),
        };
    }
    let pushed = Pushed { query, rows, outer };
    match query {
        LogicalPlan::Projection(outputs) => pushed.projection(outputs),
        LogicalPlan::Filter(filter) => {
            let condition = outer.in_place(filter.predicate.clone(), query)?;
            let input = push(&filter.input, rows, outer)?;
            Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?))
        }
        LogicalPlan::SubqueryAlias(alias) => pushed.alias(alias),
        LogicalPlan::Aggregate(grouped) => pushed.aggregate(grouped),
        LogicalPlan::Distinct(Distinct::All(input)) => Ok(super::distinct(push(input, rows, outer)?)),
        LogicalPlan::Distinct(Distinct::On(first)) => pushed.first_of_each(first),
        LogicalPlan::Sort(sort) => {
            if sort.fetch.is_some() {
                return refused("a sort with a limit");
            }
            let expr = pushed.keys(&sort.expr)?;
            let input = Arc::new(push(&sort.input, rows, outer)?);
            Ok(LogicalPlan::Sort(Sort { expr, input, fetch: None }))
        }
        LogicalPlan::Limit(limit) => pushed.limit(limit),
        LogicalPlan::Window(window) => pushed.window(window),
        LogicalPlan::Union(union) => pushed.union(union),
        LogicalPlan::Values(values) => pushed.values(values),
        LogicalPlan::Unnest(unnest) => pushed.unnest(unnest),
        LogicalPlan::Join(join) => pushed.join(join),
        // What it reads of rows beside it, its join has taken care of.
        LogicalPlan::Subquery(lateral) => push(&lateral.subquery, rows, outer),
        LogicalPlan::RecursiveQuery(recursive) => pushed.recursive(recursive),
        LogicalPlan::TableScan(scan) if let Some(work) = outer.work(scan) => Ok(work.clone()),
        _ => refused("this"),
    }
}

/// These outputs of a plan.
pub(super) fn projected(plan: LogicalPlan, outputs: impl IntoIterator<Item = Expr>) -> Result<LogicalPlan> {
    // Not by the builder: it looks for the table of a column without one among all that have one of that name.
    Ok(LogicalPlan::Projection(Projection::try_new(outputs.into_iter().collect(), Arc::new(plan))?))
}

fn refused<T>(what: &str) -> Result<T> {
    let message =
        format!("{what} in a subquery that refers to the row outside it is not supported; write it as a join");
    Err(Error::Unsupported(message).into_datafusion())
}

/// The expression under the name that another one had.
fn named_as(original: &Expr, expr: Expr) -> Expr {
    let name = original.qualified_name();
    if expr.qualified_name() == name { expr } else { expr.alias_qualified(name.0, name.1) }
}

/// Each expression once.
fn without_repeats(exprs: impl Iterator<Item = Expr>) -> Vec<Expr> {
    let mut once = Vec::new();
    for expr in exprs {
        if !once.contains(&expr) {
            once.push(expr);
        }
    }
    once
}

/// The columns that an operator makes of expressions, under other names.
fn named_by(exprs: &[Expr], names: impl IntoIterator<Item = Column>) -> impl Iterator<Item = Expr> {
    exprs.iter().zip(names).map(|(expr, name)| {
        let (relation, made) = expr.qualified_name();
        named_as(&Expr::Column(name), Expr::Column(Column::new(relation, made)))
    })
}

/// An operator that outer rows are pushed below.
struct Pushed<'a> {
    query: &'a LogicalPlan,
    rows: &'a LogicalPlan,
    outer: &'a Outer,
}

impl Pushed<'_> {
    fn input(&self, input: &LogicalPlan) -> Result<LogicalPlan> {
        push(input, self.rows, self.outer)
    }

    fn own(&self, expr: &Expr) -> Result<Expr> {
        self.outer.in_place(expr.clone(), self.query)
    }

    fn named(&self, exprs: &[Expr]) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| Ok(named_as(expr, self.own(expr)?))).collect()
    }

    fn keys(&self, keys: &[SortKey]) -> Result<Vec<SortKey>> {
        keys.iter().map(|key| Ok(SortKey { expr: self.own(&key.expr)?, ..key.clone() })).collect()
    }

    /// The columns that carry outer rows, and those of `plan` from number `first` on under the names of `shape`.
    fn restored(&self, plan: LogicalPlan, first: usize, shape: &DFSchema) -> Result<LogicalPlan> {
        let made = plan.schema().columns();
        let own = made.into_iter().skip(first).zip(shape.columns());
        let own = own.map(|(made, name)| named_as(&Expr::Column(name), Expr::Column(made)));
        projected(plan, self.outer.carriers().chain(own))
    }

    fn projection(&self, outputs: &Projection) -> Result<LogicalPlan> {
        let input = self.input(&outputs.input)?;
        let exprs = self.outer.carriers().chain(self.named(&outputs.expr)?).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
    }

    fn alias(&self, alias: &SubqueryAlias) -> Result<LogicalPlan> {
        let input = self.input(&alias.input)?;
        let own = alias.input.schema().columns().into_iter().zip(alias.schema.columns());
        let own = own.map(|(below, above)| Expr::Column(below).alias_qualified(above.relation, above.name));
        projected(input, self.outer.carriers().chain(own))
    }

    /// Groups are those of one outer row. An aggregate without groups has a row for each of the outer rows, so these
    /// are joined with what they have; where it is nothing, no row passes the aggregates' filter.
    fn aggregate(&self, grouped: &Aggregate) -> Result<LogicalPlan> {
        if matches!(grouped.group_expr[..], [Expr::GroupingSet(_)]) {
            return self.input(&as_union(grouped)?);
        }
        let mut input = self.input(&grouped.input)?;
        // What stands twice is one column.
        let groups = without_repeats(grouped.group_expr.iter().cloned());
        if groups.len() + grouped.aggr_expr.len() != grouped.schema.fields().len() {
            return refused("GROUP BY of this");
        }
        let groups = groups.iter().map(|expr| self.own(expr)).collect::<Result<Vec<_>>>()?;
        let mut aggregates = grouped.aggr_expr.iter().map(|expr| self.own(expr)).collect::<Result<Vec<_>>>()?;
        if groups.is_empty() {
            let marker = fresh_name("is_row");
            input = self.or_nothing(input, &grouped.input, &marker)?;
            let is_row = Expr::Column(Column::from_name(marker)).is_not_null();
            for aggregate in &mut aggregates {
                *aggregate = filtered(std::mem::take(aggregate), &is_row)?;
            }
        }
        let made: Vec<Expr> = groups.iter().chain(&aggregates).cloned().collect();
        let groups = without_repeats(self.outer.carriers().chain(groups));
        let grouped_by_both = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        let own = named_by(&made, grouped.schema.columns());
        let outputs = self.outer.carriers().chain(own);
        projected(LogicalPlan::Aggregate(grouped_by_both), outputs)
    }

    /// Each outer row with its rows, marked by a column of this name, or with none.
    fn or_nothing(&self, pushed: LogicalPlan, of: &LogicalPlan, marker: &str) -> Result<LogicalPlan> {
        let own = self.outer.afresh();
        let renamed = self.outer.carriers().zip(own.carriers());
        let renamed = renamed.map(|(carrier, own)| carrier.alias(own.qualified_name().1));
        let columns = of.schema().columns().into_iter().map(Expr::Column);
        let marked = renamed.chain(columns).chain([lit(true).alias(marker)]);
        let right = projected(pushed, marked)?;
        let left = self.rows.clone();
        let on = not_null(self.outer.carriers().zip(own.carriers()), [left.schema(), right.schema()])?;
        let (left, right, nulls) = (Arc::new(left), Arc::new(right), NullEquality::NullEqualsNothing);
        let join = Join::try_new(left, right, on, None, JoinType::Left, JoinConstraint::On, nulls, false)?;
        Ok(LogicalPlan::Join(join))
    }

    fn first_of_each(&self, first: &DistinctOn) -> Result<LogicalPlan> {
        let on = self.outer.carriers().chain(first.on_expr.iter().map(|e| self.own(e)).collect::<Result<Vec<_>>>()?);
        let outputs = self.outer.carriers().chain(self.named(&first.select_expr)?);
        let carried = self.outer.carriers().map(|carrier| carrier.sort(true, false));
        let keys = first.sort_expr.as_ref().map(|keys| self.keys(keys)).transpose()?;
        let keys = keys.map(|keys| carried.chain(keys).collect());
        let input = Arc::new(self.input(&first.input)?);
        let made = DistinctOn::try_new(on.collect(), outputs.collect(), keys, input)?;
        let made = LogicalPlan::Distinct(Distinct::On(made));
        self.restored(made, self.outer.len(), &first.schema)
    }

    /// Rows are numbered for each outer row.
    fn limit(&self, limit: &Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return refused("LIMIT or OFFSET by an expression");
        };
        // What is computed of sorted rows is in their order.
        if let LogicalPlan::Projection(outputs) = limit.input.as_ref()
            && matches!(outputs.input.as_ref(), LogicalPlan::Sort(_) | LogicalPlan::Projection(_))
        {
            let below = LogicalPlan::Limit(Limit { input: Arc::clone(&outputs.input), ..limit.clone() });
            let above = Projection::try_new(outputs.expr.clone(), Arc::new(below))?;
            return self.input(&LogicalPlan::Projection(above));
        }
        let (keys, below) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => {
                let sorted = Pushed { query: &limit.input, ..*self };
                (sorted.keys(&sort.expr)?, &sort.input)
            }
            _ => (Vec::new(), &limit.input),
        };
        let number = row_number().partition_by(self.outer.carriers().collect()).order_by(keys).build()?;
        let name = Expr::Column(Column::from_name(number.schema_name().to_string()));
        let first = skip as u64;
        let after = (first > 0).then(|| name.clone().gt(lit(first)));
        let until = fetch.map(|n| name.lt_eq(lit(first.saturating_add(n as u64))));
        let numbered = LogicalPlanBuilder::from(self.input(below)?).window(vec![number])?;
        let kept = match conjunction(after.into_iter().chain(until)) {
            Some(condition) => numbered.filter(condition)?,
            None => numbered,
        };
        let own = below.schema().columns().into_iter().map(Expr::Column);
        projected(kept.build()?, self.outer.carriers().chain(own))
    }

    fn window(&self, window: &Window) -> Result<LogicalPlan> {
        let n = window.input.schema().fields().len();
        let mut made = self.input(&window.input)?;
        let by_outer = |part: Expr| {
            Ok(match part {
                Expr::WindowFunction(mut call) => {
                    let WindowFunction { params, .. } = call.as_mut();
                    params.partition_by = self.outer.carriers().chain(params.partition_by.drain(..)).collect();
                    Transformed::yes(Expr::WindowFunction(call))
                }
                other => Transformed::no(other),
            })
        };
        let own = |expr: &Expr| Ok(self.own(expr)?.transform_up(by_outer)?.data);
        let exprs = window.window_expr.iter().map(own).collect::<Result<Vec<_>>>()?;
        made = LogicalPlan::Window(Window::try_new(exprs.clone(), Arc::new(made))?);
        let below = window.input.schema().columns().into_iter().map(Expr::Column);
        let values = named_by(&exprs, window.schema.columns().into_iter().skip(n));
        projected(made, self.outer.carriers().chain(below).chain(values))
    }

    fn union(&self, union: &Union) -> Result<LogicalPlan> {
        let inputs = union.inputs.iter().map(|input| {
            let own = input.schema().columns().into_iter().map(Expr::Column);
            Ok(Arc::new(projected(self.input(input)?, self.outer.carriers().chain(own))?))
        });
        let made = Union::try_new(inputs.collect::<Result<_>>()?)?;
        self.restored(LogicalPlan::Union(made), self.outer.len(), &union.schema)
    }

    fn values(&self, values: &Values) -> Result<LogicalPlan> {
        let names = values.schema.columns();
        let row = |row: &Vec<Expr>| {
            let own = row.iter().zip(&names).map(|(value, name)| Ok(self.own(value)?.alias(&name.name)));
            let own = own.collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(projected(self.rows.clone(), self.outer.carriers().chain(own))?))
        };
        let mut rows = values.values.iter().map(row).collect::<Result<Vec<_>>>()?;
        match rows.pop() {
            Some(one) if rows.is_empty() => Ok(Arc::unwrap_or_clone(one)),
            Some(last) => {
                rows.push(last);
                let made = LogicalPlan::Union(Union::try_new(rows)?);
                self.restored(made, self.outer.len(), &values.schema)
            }
            None => refused("VALUES without a row"),
        }
    }

    fn unnest(&self, unnest: &Unnest) -> Result<LogicalPlan> {
        let input = LogicalPlanBuilder::from(self.input(&unnest.input)?);
        let made = input.unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?;
        let own = unnest.schema.columns().into_iter().map(Expr::Column);
        projected(made.build()?, self.outer.carriers().chain(own))
    }

    /// Outer rows go to the side that reads them. Where both do, the sides meet by them too.
    fn join(&self, join: &Join) -> Result<LogicalPlan> {
        if join.null_aware {
            return refused("NOT IN");
        }
        if let Some(joined) = super::unnested(join)? {
            return self.input(&joined);
        }
        let reads = |side: &LogicalPlan| self.outer.is_read_by(side);
        let (left_reads, right_reads) = (reads(&join.left)?, reads(&join.right)?);
        let right_leads =
            matches!(join.join_type, JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let on = join.on.iter().map(|(l, r)| Ok((self.own(l)?, self.own(r)?))).collect::<Result<Vec<_>>>()?;
        let condition = join.filter.as_ref().map(|filter| self.own(filter)).transpose()?;
        let made = |left: LogicalPlan, right: LogicalPlan, outer_keys: Vec<(Expr, Expr)>| {
            let (left, right, on) = (Arc::new(left), Arc::new(right), on.iter().cloned().chain(outer_keys).collect());
            let (kind, constraint, nulls) = (join.join_type, join.join_constraint, join.null_equality);
            Ok(LogicalPlan::Join(Join::try_new(left, right, on, condition.clone(), kind, constraint, nulls, false)?))
        };
        let by_left = || made(self.input(&join.left)?, join.right.as_ref().clone(), Vec::new());
        let by_right = || made(join.left.as_ref().clone(), self.input(&join.right)?, Vec::new());
        match join.join_type {
            JoinType::Full => {
                let left = self.input(&join.left)?;
                let (right, again, outer_keys) = self.following(&join.right, &left)?;
                let both = made(left, right, outer_keys)?;
                // An outer row is on the side that has a row of it.
                let carried = self.outer.carriers().zip(again.carriers());
                let carried = carried.map(|(left, right)| {
                    let name = left.qualified_name().1;
                    Ok(when(left.clone().is_not_null(), left).otherwise(right)?.alias(name))
                });
                let carried = carried.collect::<Result<Vec<_>>>()?;
                return projected(both, carried.into_iter().chain(join.schema.columns().into_iter().map(Expr::Column)));
            }
            JoinType::Inner if !left_reads && right_reads => return by_right(),
            _ if right_leads && !left_reads => return by_right(),
            _ if !right_leads && !right_reads => return by_left(),
            _ => {}
        }
        let again = self.outer.afresh();
        let follower = if right_leads { &join.left } else { &join.right };
        let renamed = self.outer.carriers().zip(again.carriers()).map(|(c, own)| c.alias(own.qualified_name().1));
        let columns = follower.schema().columns().into_iter().map(Expr::Column);
        let follows = projected(self.input(follower)?, renamed.chain(columns))?;
        let leads = self.outer.carriers();
        if right_leads {
            let right = self.input(&join.right)?;
            let outer_keys = not_null(again.carriers().zip(leads), [follows.schema(), right.schema()])?;
            made(follows, right, outer_keys)
        } else {
            let left = self.input(&join.left)?;
            let outer_keys = not_null(leads.zip(again.carriers()), [left.schema(), follows.schema()])?;
            made(left, follows, outer_keys)
        }
    }
}

impl Pushed<'_> {
    /// Outer rows go to the first rows, and each step carries them on.
    fn recursive(&self, query: &RecursiveQuery) -> Result<LogicalPlan> {
        let own = || query.static_term.schema().columns().into_iter().map(Expr::Column);
        let base = projected(self.input(&query.static_term)?, self.outer.carriers().chain(own()))?;
        let carried = self.outer.len();
        let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        let carriers = base.schema().fields().iter().take(carried).map(nullable);
        let fields: Vec<FieldRef> = carriers.clone().chain(query.schema.fields().iter().map(nullable)).collect();
        let source = WorkSource::table(&query.name, Arc::new(Schema::new(fields)));
        let scan = LogicalPlanBuilder::scan(query.name.as_str(), source, None)?.build()?;
        let made = scan.schema().columns();
        let names = self
            .outer
            .carriers()
            .zip(&made)
            .map(|(carrier, made)| Expr::Column(made.clone()).alias(carrier.qualified_name().1));
        let work = projected(scan, names.chain(made.iter().skip(carried).cloned().map(Expr::Column)))?;
        let within = self.outer.within_step(&query.name, work);
        let step = push(&query.recursive_term, self.rows, &within)?;
        let step = projected(
            step,
            self.outer.carriers().chain(query.recursive_term.schema().columns().into_iter().map(Expr::Column)),
        )?;
        let qualified = carriers.map(|field| (None, field));
        let own = query.schema.iter().map(|(relation, field)| (relation.cloned(), Arc::clone(field)));
        let schema = DFSchema::new_with_metadata(qualified.chain(own).collect(), HashMap::new())?;
        Ok(LogicalPlan::RecursiveQuery(RecursiveQuery {
            name: query.name.clone(),
            static_term: Arc::new(base),
            recursive_term: Arc::new(step),
            is_distinct: query.is_distinct,
            schema: Arc::new(schema),
        }))
    }
}

/// A side of a join, the outer rows that it carries, and the keys by which it meets the other side.
type Followed = (LogicalPlan, Outer, Vec<(Expr, Expr)>);

impl Pushed<'_> {
    /// A side of a join with outer rows carried by columns of its own, and the keys by which it meets those of the
    /// other one.
    fn following(&self, side: &LogicalPlan, other: &LogicalPlan) -> Result<Followed> {
        let again = self.outer.afresh();
        let renamed = self.outer.carriers().zip(again.carriers()).map(|(c, own)| c.alias(own.qualified_name().1));
        let columns = side.schema().columns().into_iter().map(Expr::Column);
        let follows = projected(self.input(side)?, renamed.chain(columns))?;
        let keys = not_null(self.outer.carriers().zip(again.carriers()), [other.schema(), follows.schema()])?;
        Ok((follows, again, keys))
    }
}

/// The aggregate of those rows only of which a condition is true.
fn filtered(aggregate: Expr, condition: &Expr) -> Result<Expr> {
    let filtered = aggregate.transform_up(|part| {
        Ok(match part {
            Expr::AggregateFunction(mut call) => {
                let own = call.params.filter.take().map(|filter| *filter);
                call.params.filter = conjunction([condition.clone()].into_iter().chain(own)).map(Box::new);
                Transformed::yes(Expr::AggregateFunction(call))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(filtered.data)
}
