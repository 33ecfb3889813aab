//! Whether a role may do what a statement's plan says: which tables, views and columns it reads and writes is told of
//! the plan as the planner made it, before anything is optimised.
//!
//! As in PostgreSQL a column is read where an expression names it, whatever becomes of the expression; of a table of
//! which nothing is named, some column has to be readable. Views stand in plans by their queries: the query was checked
//! for the view's owner when the view was planned, and has a name of three parts for that, which no statement can give
//! ([`as_view`]).
//!
//! # Invariants
//! - What is not understood counts as reading all that it is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, TableReference};
use datafusion_expr::{
    DdlStatement, DmlStatement, Expr, LogicalPlan, Statement as PlanStatement, SubqueryAlias, WriteOp,
};

use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{May, Thing};
use crate::catalog::{CatalogState, Name};
use crate::error::Result;
use crate::sql::{Inserted, Writes};
use crate::tables::stored::StoredSource;

/// What stands before the name of a view that a query is given.
const VIEW: &str = "view that was checked";

/// The query of a view, which was checked for the view's owner.
///
/// # Errors
/// None that a query has which was planned.
pub(crate) fn as_view(plan: LogicalPlan, name: &Name) -> Result<LogicalPlan> {
    let name = TableReference::full(VIEW, name.schema.as_str(), name.table.as_str());
    Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), name)?))
}

fn view_of(alias: &SubqueryAlias) -> Option<Name> {
    match &alias.alias {
        TableReference::Full { catalog, schema, table } if catalog.as_ref() == VIEW => {
            Some(Name { schema: schema.to_string(), table: table.to_string() })
        }
        _ => None,
    }
}

/// Fails where a role may not do what a plan says. Scans of `target` of which nothing is read need nothing: it is what
/// the statement writes.
///
/// # Errors
/// So it is.
pub(crate) fn permits(
    (plan, writes): (&LogicalPlan, &Writes),
    target: Option<u64>,
    (may, state): (&May<'_>, &CatalogState),
) -> Result<()> {
    let mut walk = Walk::default();
    let mut target = target;
    match plan {
        LogicalPlan::Dml(dml) if dml.op != WriteOp::Ctas => {
            let Some(source) = dml.target.downcast_ref::<StoredSource>() else { return Ok(()) };
            may_write(dml, writes, source, may)?;
            target = Some(source.id);
            walk.written(dml, writes)?;
        }
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => walk.query(&create.input)?,
        LogicalPlan::Dml(dml) => walk.query(&dml.input)?,
        // What a view reads is asked of its owner when somebody reads it.
        LogicalPlan::Ddl(_) => {}
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            return permits((&prepare.input, writes), target, (may, state));
        }
        LogicalPlan::Statement(_) => {}
        query => walk.query(query)?,
    }
    for scan in walk.scans {
        if scan.used.is_empty() && scan.id.is_some() && scan.id == target {
            continue;
        }
        may.need_columns(&scan.thing(state), Privileges::SELECT, &scan.used)?;
    }
    Ok(())
}

/// The columns of a table that a plan reads which writes it.
///
/// # Errors
/// None that a plan has which was planned.
pub(crate) fn columns_read(plan: &LogicalPlan, writes: &Writes, table: u64) -> Result<BTreeSet<String>> {
    let mut walk = Walk::default();
    match plan {
        LogicalPlan::Dml(dml) => walk.written(dml, writes)?,
        query => walk.query(query)?,
    }
    Ok(walk.scans.into_iter().filter(|scan| scan.id == Some(table)).flat_map(|scan| scan.used).collect())
}

fn may_write(dml: &DmlStatement, writes: &Writes, source: &StoredSource, may: &May<'_>) -> Result<()> {
    let thing = Thing::named(&source.name);
    let fields = || source.schema.fields().iter().map(|field| field.name().clone());
    match (&dml.op, writes) {
        (WriteOp::Truncate, _) => may.need(&thing, Privileges::TRUNCATE),
        (WriteOp::Delete, _) | (_, Writes::Delete) => may.need(&thing, Privileges::DELETE),
        (WriteOp::Insert(_), Writes::Insert(Inserted::Named(columns))) => {
            may.need_columns(&thing, Privileges::INSERT, columns)
        }
        (WriteOp::Insert(_), Writes::Insert(Inserted::First(count))) => {
            may.need_columns(&thing, Privileges::INSERT, &fields().take(*count).collect())
        }
        (WriteOp::Update, Writes::Update(columns)) => may.need_columns(&thing, Privileges::UPDATE, columns),
        (WriteOp::Insert(_), _) => may.need_columns(&thing, Privileges::INSERT, &fields().collect()),
        _ => may.need_columns(&thing, Privileges::UPDATE, &fields().collect()),
    }
}

/// A table or view that a plan reads, and what of it.
struct Scan {
    name: Name,
    /// Of a table its number.
    id: Option<u64>,
    used: BTreeSet<String>,
}

impl Scan {
    fn thing(&self, state: &CatalogState) -> Thing {
        let table = self.id.and_then(|id| state.by_id(id));
        Thing::named(table.map_or(&self.name, |table| &table.name))
    }
}

/// From which scan, and which column of it, an output comes as it is; `None` for what was computed.
type Origins = Vec<Option<(usize, String)>>;

#[derive(Default)]
struct Walk {
    scans: Vec<Scan>,
    /// What is around a subquery, from the outermost in.
    outer: Vec<(DFSchema, Origins)>,
}

impl Walk {
    /// A query, all of whose outputs are read.
    fn query(&mut self, plan: &LogicalPlan) -> Result<()> {
        let origins = self.origins(plan)?;
        self.use_all(&origins);
        Ok(())
    }

    /// What a statement reads that writes: columns that stay as they are do not count.
    fn written(&mut self, dml: &DmlStatement, writes: &Writes) -> Result<()> {
        let assigned = match writes {
            Writes::Insert(_) => return self.query(&dml.input),
            Writes::Update(assigned) => assigned.clone(),
            Writes::Delete | Writes::Nothing => BTreeSet::new(),
        };
        let LogicalPlan::Projection(top) = dml.input.as_ref() else {
            self.origins(&dml.input)?;
            return Ok(());
        };
        let origins = self.origins(&top.input)?;
        let schema = top.input.schema().as_ref().clone();
        for (expr, field) in top.expr.iter().zip(top.schema.fields()) {
            let is_kept = matches!(expr.clone().unalias(), Expr::Column(column) if column.name == *field.name());
            if !is_kept || assigned.contains(field.name()) {
                self.read(expr, &schema, &origins)?;
            }
        }
        Ok(())
    }

    fn use_one(&mut self, origin: &Option<(usize, String)>) {
        if let Some((scan, column)) = origin {
            self.scans[*scan].used.insert(column.clone());
        }
    }

    fn use_all(&mut self, origins: &Origins) {
        origins.iter().for_each(|origin| self.use_one(origin));
    }

    fn scan(&mut self, name: Name, id: Option<u64>, schema: &DFSchema) -> Origins {
        let number = self.scans.len();
        self.scans.push(Scan { name, id, used: BTreeSet::new() });
        schema.fields().iter().map(|field| Some((number, field.name().clone()))).collect()
    }

    fn origins(&mut self, plan: &LogicalPlan) -> Result<Origins> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                if let Some(source) = scan.source.downcast_ref::<StoredSource>() {
                    let origins = self.scan(Name::clone(&source.name), Some(source.id), &scan.projected_schema);
                    let schema = scan.projected_schema.as_ref().clone();
                    scan.filters.iter().try_for_each(|filter| self.read(filter, &schema, &origins))?;
                    return Ok(origins);
                }
                if let Some(query) = scan.source.get_logical_plan() {
                    self.query(&query)?;
                }
                Ok(vec![None; scan.projected_schema.fields().len()])
            }
            LogicalPlan::SubqueryAlias(alias) => match view_of(alias) {
                Some(view) => Ok(self.scan(view, None, &alias.schema)),
                None => self.origins(&alias.input),
            },
            LogicalPlan::Projection(projection) => {
                self.read_all(plan, &projection.input)?;
                Ok(vec![None; projection.schema.fields().len()])
            }
            LogicalPlan::Subquery(subquery) => self.origins(&subquery.subquery),
            LogicalPlan::Join(join) => {
                let mut origins = self.origins(&join.left)?;
                // What stands beside it on the left is what a lateral query may name.
                self.outer.push((join.left.schema().as_ref().clone(), origins.clone()));
                let right = self.origins(&join.right);
                self.outer.pop();
                origins.extend(right?);
                let schema = join.left.schema().join(join.right.schema())?;
                for (left, right) in &join.on {
                    self.read(left, &schema, &origins)?;
                    self.read(right, &schema, &origins)?;
                }
                join.filter.iter().try_for_each(|filter| self.read(filter, &schema, &origins))?;
                Ok(self.passed(&join.schema, &schema, origins))
            }
            LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
                let inputs = plan.inputs();
                match inputs.as_slice() {
                    [input] => self.read_all(plan, input),
                    _ => Ok(Vec::new()),
                }
            }
            LogicalPlan::Window(window) => {
                let mut origins = self.read_all(plan, &window.input)?;
                origins.resize(window.schema.fields().len(), None);
                Ok(origins)
            }
            other => {
                for input in other.inputs() {
                    let origins = self.origins(input)?;
                    if !matches!(other, LogicalPlan::Aggregate(_)) {
                        self.use_all(&origins);
                    }
                    let schema = input.schema().as_ref().clone();
                    other.expressions().iter().try_for_each(|expr| self.read(expr, &schema, &origins))?;
                }
                if other.inputs().is_empty() {
                    let schema = DFSchema::empty();
                    other.expressions().iter().try_for_each(|expr| self.read(expr, &schema, &Vec::new()))?;
                }
                Ok(vec![None; other.schema().fields().len()])
            }
        }
    }

    /// Reads what a plan's expressions name of its input, and gives the input's origins.
    fn read_all(&mut self, plan: &LogicalPlan, input: &LogicalPlan) -> Result<Origins> {
        let origins = self.origins(input)?;
        let schema = input.schema().as_ref().clone();
        plan.expressions().iter().try_for_each(|expr| self.read(expr, &schema, &origins))?;
        Ok(origins)
    }

    /// The origins of a join's outputs, of which some of the inputs' may be missing.
    fn passed(&mut self, outputs: &DFSchema, inputs: &DFSchema, origins: Origins) -> Origins {
        if outputs.fields().len() == inputs.fields().len() {
            return origins;
        }
        let of = |(qualifier, field): (Option<&TableReference>, &FieldRef)| {
            let place = inputs.iter().position(|(q, f)| q == qualifier && f.name() == field.name())?;
            origins.get(place).cloned().flatten()
        };
        outputs.iter().map(of).collect()
    }

    /// What an expression names is read, as is what its subqueries give.
    fn read(&mut self, expr: &Expr, schema: &DFSchema, origins: &Origins) -> Result<()> {
        let mut columns: Vec<(Column, bool)> = Vec::new();
        let mut subqueries: Vec<LogicalPlan> = Vec::new();
        expr.apply(|part| {
            match part {
                Expr::Column(column) => columns.push((column.clone(), false)),
                Expr::OuterReferenceColumn(_, column) => columns.push((column.clone(), true)),
                Expr::ScalarSubquery(query) => subqueries.push(query.subquery.as_ref().clone()),
                Expr::Exists(exists) => subqueries.push(exists.subquery.subquery.as_ref().clone()),
                Expr::InSubquery(within) => subqueries.push(within.subquery.subquery.as_ref().clone()),
                Expr::SetComparison(compared) => subqueries.push(compared.subquery.subquery.as_ref().clone()),
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        for (column, is_outer) in columns {
            self.read_column(&column, is_outer, schema, origins);
        }
        for query in subqueries {
            self.outer.push((schema.clone(), origins.clone()));
            let done = self.query(&query);
            self.outer.pop();
            done?;
        }
        Ok(())
    }

    fn read_column(&mut self, column: &Column, is_outer: bool, schema: &DFSchema, origins: &Origins) {
        let found = |schema: &DFSchema, origins: &Origins| {
            let is_it = |(qualifier, field): (Option<&TableReference>, &FieldRef)| {
                let is_of = match (&column.relation, qualifier) {
                    (Some(wanted), Some(known)) => wanted.resolved_eq(known),
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                is_of && *field.name() == column.name
            };
            let places = schema.iter().enumerate().filter(|(_, field)| is_it(*field)).map(|(place, _)| place);
            let places: Vec<usize> = places.collect();
            (!places.is_empty()).then(|| places.into_iter().filter_map(|place| origins.get(place).cloned()).collect())
        };
        let mut named: Option<Origins> = if is_outer { None } else { found(schema, origins) };
        if named.is_none() {
            named = self.outer.iter().rev().find_map(|(schema, origins)| found(schema, origins));
        }
        match named {
            Some(named) => self.use_all(&named),
            // Whatever it is, it may be any column of the name.
            None => self.scans.iter_mut().for_each(|scan| {
                scan.used.insert(column.name.clone());
            }),
        }
    }
}
