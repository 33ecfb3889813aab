//! `SELECT .. FOR UPDATE` and its like: the query is planned with the identities of the rows that it reads as further
//! columns, and all its rows are taken; then they are locked, as the transaction's
//! ([`crate::statements::transaction::wanted`]), and given.
//!
//! A statement by itself runs as a transaction of its own. Where rows that others have locked are left out, a LIMIT
//! counts those that could be locked, so it is taken off the plan: as many rows more are asked for as others hold.
//!
//! # Limits
//! A query that keeps rows of its tables apart: no groups, DISTINCT, set operations, window functions, and no rows of
//! the optional side of an outer join. Queries in WITH are not locked, as in PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::DataType;
use datafusion_common::{Column as ColumnName, ScalarValue};
use datafusion_expr::logical_plan::TableScanBuilder;
use datafusion_expr::{Expr, Join, JoinType, LogicalPlan, Projection, TableScan, lit};

use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::rewrite::chars::delivered;
use crate::run::locks::{RowLimit, SelectedOf, SelectedRows, WantedLocks};
use crate::run::outcome::{Done, Outcome};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{LockClause, LockingSelect, Wait, plan_statement};
use crate::statements::transaction::view::to_be_written;
use crate::tables::stored::{ROW_ID, StoredSource};

/// The plan of such a query, as that of one that locks nothing.
///
/// # Errors
/// Wrong SQL, unknown names.
pub(crate) fn plan_of(select: &LockingSelect, running: &RunningStatement) -> Result<LogicalPlan> {
    Ok(delivered(
        plan_statement(select.query.as_ref().clone(), &running.plan_context())?,
        running.planner.config_options(),
    )?)
}

/// Runs the query of a plan, which has no parameters any more. What it gives is there once its rows are locked.
///
/// # Errors
/// A query whose rows are none of a table's; otherwise as queries.
pub(crate) fn run(select: &LockingSelect, plan: LogicalPlan, running: &Arc<RunningStatement>) -> Result<Outcome> {
    let Some(of) = &running.transaction else { return Err(running.wants_transaction()) };
    if of.is_read_only {
        let clause = select.clauses[0].name();
        return Err(Error::transaction(
            SqlState::ReadOnlySqlTransaction,
            format!("the transaction is read only: SELECT .. {clause} cannot lock rows"),
        ));
    }
    let mut numbered = Numbered { select, running, found: Vec::new(), named: Vec::new() };
    let columns = plan.schema().fields().len();
    let skips = select.clauses.iter().any(|clause| clause.wait == Wait::Skips);
    let (plan, limit) = if skips { without_limit(plan)? } else { (plan, None) };
    let plan = numbered.plan(plan, Scope::Named)?;
    numbered.check_names()?;
    let tables = numbered.found;
    let mut running = Arc::clone(running);
    for found in &tables {
        // As in PostgreSQL, who locks rows has to be able to change them.
        let may = running.may();
        may.need_columns(&Thing::named(&found.source.name), Privileges::UPDATE, &BTreeSet::new())?;
        let table = Arc::clone(running.catalog.table(&found.source.name)?);
        running = to_be_written(of, &table, &running)?;
    }
    let (plan, limit) = match limit {
        Some((skip, fetch)) => {
            let most = skip.saturating_add(fetch).saturating_add(held_by_others(&tables, of.id, &running));
            let limited = datafusion_expr::Limit {
                skip: None,
                fetch: Some(Box::new(lit(i64::try_from(most).unwrap_or(i64::MAX)))),
                input: Arc::new(plan),
            };
            (LogicalPlan::Limit(limited), Some((skip, fetch, most)))
        }
        None => (plan, None),
    };
    let places: Vec<usize> = tables.iter().map(|found| place_of(&plan, &found.column)).collect::<Result<_>>()?;
    let rows = query::run(plan, Arc::clone(&running), true)?;
    let schema = Arc::new(rows.schema().project(&(0..columns).collect::<Vec<_>>())?);
    let mut ids: Vec<Vec<u64>> = vec![Vec::new(); tables.len()];
    let mut batches = Vec::new();
    for batch in rows {
        let batch = batch?;
        for (ids, place) in ids.iter_mut().zip(&places) {
            let column = batch.column(*place).as_any().downcast_ref::<UInt64Array>();
            let column = column.ok_or_else(|| Error::Internal("row identities of another type".into()))?;
            ids.extend(column.values());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let shown = batch.columns()[..columns].to_vec();
        batches.push(RecordBatch::try_new_with_options(Arc::clone(&schema), shown, &options)?);
    }
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let limit = limit.map(|(skip, fetch, most)| RowLimit { skip, fetch, is_cut: count >= most });
    let tables = tables.into_iter().zip(ids).map(|(found, ids)| SelectedOf {
        table: found.source.id,
        kind: found.clause.kind,
        wait: found.clause.wait,
        ids,
    });
    let rows = SelectedRows { schema, batches, tables: tables.collect(), limit };
    *of.wanted.lock() = Some(WantedLocks::Rows(rows));
    Ok(Outcome::Done(Done::new("SELECT")))
}

/// How many rows of some tables others hold.
fn held_by_others(tables: &[Found], id: u64, running: &RunningStatement) -> usize {
    let now = running.inner.catalog.state();
    let held = |found: &Found| Some(now.by_id(found.source.id)?.delta.as_ref()?.rows.held_by_others(id));
    tables.iter().filter_map(held).sum()
}

/// The plan without the LIMIT and OFFSET at its top, and these.
fn without_limit(plan: LogicalPlan) -> Result<(LogicalPlan, Option<(usize, usize)>)> {
    let LogicalPlan::Limit(limit) = plan else { return Ok((plan, None)) };
    let skip = row_count(limit.skip.as_deref(), ("OFFSET", SqlState::InvalidRowCountInOffset))?.unwrap_or(0);
    let fetch = row_count(limit.fetch.as_deref(), ("LIMIT", SqlState::InvalidRowCountInLimit))?;
    Ok((Arc::unwrap_or_clone(limit.input), Some((skip, fetch.unwrap_or(usize::MAX)))))
}

fn row_count(expr: Option<&Expr>, (clause, code): (&str, SqlState)) -> Result<Option<usize>> {
    let Some(expr) = expr else { return Ok(None) };
    let value = match expr {
        Expr::Literal(value, _) => value.cast_to(&DataType::Int64).ok(),
        Expr::Cast(cast) => cast.expr.as_literal().and_then(|value| value.cast_to(&DataType::Int64).ok()),
        Expr::Negative(inner) => inner.as_literal().and_then(|value| value.cast_to(&DataType::Int64).ok()),
        _ => None,
    };
    match value {
        Some(ScalarValue::Int64(None)) => Ok(None),
        Some(ScalarValue::Int64(Some(rows))) if !matches!(expr, Expr::Negative(_)) && rows >= 0 => {
            Ok(Some(usize::try_from(rows).unwrap_or(usize::MAX)))
        }
        Some(_) => Err(Error::execution(code, format!("{clause} {expr}: it takes a number of rows, 0 or more"))),
        None => Err(Error::Unsupported(format!("{clause} {expr} beside SKIP LOCKED is not supported; write a number"))),
    }
}

fn place_of(plan: &LogicalPlan, column: &ColumnName) -> Result<usize> {
    let place = plan.schema().maybe_index_of_column(column);
    place.ok_or_else(|| Error::Internal("the identities of rows that are to be locked are missing".into()))
}

/// A table whose rows are to be locked.
struct Found {
    source: StoredSource,
    clause: LockClause,
    /// The column in which the identities of its rows are.
    column: ColumnName,
}

/// Which tables below an operator are meant.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// Those that clauses name, by their names here.
    Named,
    /// All, as this clause says.
    All(&'a LockClause),
    /// None.
    None,
}

/// A query's plan that gets columns with the identities of rows.
struct Numbered<'a> {
    select: &'a LockingSelect,
    running: &'a Arc<RunningStatement>,
    found: Vec<Found>,
    /// Names behind OF that were met.
    named: Vec<String>,
}

impl<'a> Numbered<'a> {
    /// How a table of this name is locked.
    fn clause(&mut self, name: &str) -> Option<LockClause> {
        let mut meant = self.select.clauses.iter().filter(|c| c.of.is_empty() || c.of.iter().any(|of| of == name));
        let mut clause = meant.next()?.clone();
        for other in meant {
            clause.kind = clause.kind.max(other.kind);
            clause.wait = clause.wait.max(other.wait);
        }
        self.named.push(name.to_string());
        Some(clause)
    }

    /// Fails where OF names what is not there.
    fn check_names(&self) -> Result<()> {
        for clause in &self.select.clauses {
            if let Some(name) = clause.of.iter().find(|name| !self.named.contains(name)) {
                if self.select.with.contains(name) {
                    return Err(Error::Unsupported(format!(
                        "{} of '{name}', a query of WITH, is not supported; lock the rows within it",
                        clause.name()
                    )));
                }
                return Err(Error::plan(
                    SqlState::UndefinedTable,
                    format!("{} OF {name}: FROM has no table of this name", clause.name()),
                ));
            }
        }
        Ok(())
    }

    fn refused(&self, what: &str) -> Error {
        let clause = self.select.clauses[0].name();
        Error::Unsupported(format!("{clause} is not allowed with {what}; lock the rows of a query without"))
    }

    fn plan(&mut self, plan: LogicalPlan, scope: Scope<'_>) -> Result<LogicalPlan> {
        if matches!(scope, Scope::None) {
            return Ok(plan);
        }
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan, scope),
            LogicalPlan::SubqueryAlias(alias) => {
                let name = alias.alias.table().to_string();
                if self.select.with.contains(&name) {
                    return Ok(LogicalPlan::SubqueryAlias(alias));
                }
                let clause = match scope {
                    Scope::All(clause) => Some(clause.clone()),
                    _ => self.clause(&name),
                };
                let known = self.found.len();
                let input = Arc::unwrap_or_clone(alias.input);
                let input = self.plan(input, clause.as_ref().map_or(Scope::None, Scope::All))?;
                for found in &mut self.found[known..] {
                    found.column.relation = Some(alias.alias.clone());
                }
                Ok(LogicalPlan::SubqueryAlias(datafusion_expr::SubqueryAlias::try_new(Arc::new(input), alias.alias)?))
            }
            LogicalPlan::Projection(projection) => {
                let known = self.found.len();
                let input = self.plan(Arc::unwrap_or_clone(projection.input), scope)?;
                let mut exprs = projection.expr;
                for (place, found) in self.found.iter_mut().enumerate().skip(known) {
                    // Of several tables below one name each has its own.
                    let name = format!("{ROW_ID}_{place}");
                    exprs.push(Expr::Column(found.column.clone()).alias(&name));
                    found.column = ColumnName::new_unqualified(name);
                }
                Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
            }
            LogicalPlan::Join(join) => self.join(join, scope),
            plan @ (LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_)) => {
                let input = self.plan(plan.inputs()[0].clone(), scope)?;
                Ok(plan.with_new_exprs(plan.expressions(), vec![input])?)
            }
            plan @ (LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_)) => Ok(plan),
            LogicalPlan::Aggregate(_) => Err(self.refused("GROUP BY, HAVING or aggregate functions")),
            LogicalPlan::Distinct(_) => Err(self.refused("DISTINCT")),
            LogicalPlan::Union(_) => Err(self.refused("UNION")),
            LogicalPlan::Window(_) => Err(self.refused("window functions")),
            LogicalPlan::Unnest(_) => Err(self.refused("functions that give rows")),
            LogicalPlan::RecursiveQuery(_) => Err(self.refused("WITH RECURSIVE")),
            LogicalPlan::Subquery(_) => Err(self.refused("LATERAL queries")),
            _ => Err(self.refused("this query")),
        }
    }

    /// A table's rows, with their identities where they are locked.
    fn scan(&mut self, scan: TableScan, scope: Scope<'_>) -> Result<LogicalPlan> {
        let Some(source) = scan.source.downcast_ref::<StoredSource>() else {
            return Ok(LogicalPlan::TableScan(scan));
        };
        let clause = match scope {
            Scope::All(clause) => Some(clause.clone()),
            _ => self.clause(scan.table_name.table()),
        };
        let Some(clause) = clause else { return Ok(LogicalPlan::TableScan(scan)) };
        let table = self.running.catalog.table(&source.name)?;
        let column = ColumnName::new(Some(scan.table_name.clone()), ROW_ID);
        let source = StoredSource::with_row_ids(table);
        self.found.push(Found { source, clause, column });
        let source = Arc::new(StoredSource::with_row_ids(table));
        let builder = TableScanBuilder::new(scan.table_name, source).with_filters(scan.filters);
        Ok(LogicalPlan::TableScan(builder.with_fetch(scan.fetch).build()?))
    }

    fn join(&mut self, join: Join, scope: Scope<'_>) -> Result<LogicalPlan> {
        let known = self.found.len();
        let left = self.plan(join.left.as_ref().clone(), scope)?;
        let of_left = self.found.len();
        let right = self.plan(join.right.as_ref().clone(), scope)?;
        let of_right = self.found.len();
        let may_be_missing = match join.join_type {
            JoinType::Inner => false,
            JoinType::Left => of_right > of_left,
            JoinType::Right => of_left > known,
            JoinType::Full => of_right > known,
            _ => return Err(self.refused("this join")),
        };
        if may_be_missing {
            return Err(self.refused("rows of the optional side of an outer join"));
        }
        let join = LogicalPlan::Join(join);
        Ok(join.with_new_exprs(join.expressions(), vec![left, right])?)
    }
}
