//! Statements that write a view: what they do to the table that it reads, through other views maybe.
//!
//! The statement is planned as if the view were a table, so that names, types and the rights of who runs it are those
//! of the view. Then the view's query takes the place of that table's scan, with the columns of the table itself
//! carried along under names that nothing else has, and the outputs become those of the table ([`spine`]). Rows that
//! are written are looked at by RETURNING and CHECK OPTION through the view's query again, without its conditions.
//!
//! # Limits
//! Of views nothing is kept from one run to the next: each run of a prepared statement plans anew.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion_common::{DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion_expr::logical_plan::dml::InsertOp;
use datafusion_expr::{DmlStatement, Expr, ExprSchemable, LogicalPlan, TableSource, WriteOp};
use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, FromTable, ObjectName, TableFactor, TableObject};
use storage::TableVersion;

use crate::catalog::check_option::CheckOption;
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::lengths::told;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Thing;
use crate::catalog::rules::RowRules;
use crate::catalog::{Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::context::PlanContext;
use crate::plan::permission::columns_read;
use crate::plan::updatable::{Updatable, WhyNot};
use crate::run::statement::RunningStatement;
use crate::sql::{Inserted, Writes, fresh_name, plan_statement};
use crate::statements::given::given;
use crate::tables::stored::StoredSource;

mod checks;
mod pairs;

mod spine;

pub(crate) use checks::ViewChecks;

/// The number of a view that is written as if it were a table; no table has so high a one, but for those of pairs and
/// of tables that are changed.
const VIEW_ID: u64 = u64::MAX - 2;

/// A view that a statement writes.
#[derive(Debug)]
pub(crate) struct WrittenView {
    /// The view as if it were a table.
    pub as_table: Arc<TableEntry>,
    /// What lies between it and the table that is written.
    pub of: Updatable,
    /// Its query, as what the system plans by itself.
    plan: LogicalPlan,
    /// For each column of the table a name that nothing else has.
    kept: Vec<String>,
}

/// What a statement does to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    fn words(self) -> &'static str {
        match self {
            Verb::Insert => "insert into",
            Verb::Update => "update",
            Verb::Delete => "delete from",
        }
    }

    fn privilege(self) -> Privileges {
        match self {
            Verb::Insert => Privileges::INSERT,
            Verb::Update => Privileges::UPDATE,
            Verb::Delete => Privileges::DELETE,
        }
    }
}

/// The name of what a statement writes.
fn target(statement: &Statement) -> Option<(&ObjectName, Verb)> {
    let Statement::Statement(inner) = statement else { return None };
    let table = |factor: &'_ TableFactor| matches!(factor, TableFactor::Table { args: None, .. });
    match inner.as_ref() {
        ast::Statement::Insert(insert) => match &insert.table {
            TableObject::TableName(name) => Some((name, Verb::Insert)),
            _ => None,
        },
        ast::Statement::Update(update) if table(&update.table.relation) => match &update.table.relation {
            TableFactor::Table { name, .. } => Some((name, Verb::Update)),
            _ => None,
        },
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            match &from.first()?.relation {
                TableFactor::Table { name, args: None, .. } => Some((name, Verb::Delete)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl WrittenView {
    /// The view that a statement writes, if it writes one.
    ///
    /// # Errors
    /// One that cannot be written.
    pub(crate) fn of(statement: &Statement, running: &RunningStatement) -> Result<Option<Arc<WrittenView>>> {
        match target(statement) {
            Some((name, verb)) => WrittenView::named(name, verb, running),
            None => Ok(None),
        }
    }

    fn named(name: &ObjectName, verb: Verb, running: &RunningStatement) -> Result<Option<Arc<WrittenView>>> {
        let Ok(name) = running.named(name) else { return Ok(None) };
        let Some(Entry::View(view)) = running.catalog.get(&name) else { return Ok(None) };
        let context = running.own_context();
        let of = match updatable(&name, running)? {
            Ok(of) => of,
            Err(why) => return Err(not_written(verb.words(), &name, &why)),
        };
        let plan = context.plan_of_view(&name, view)?;
        let mut as_table = as_table(&name, &of, &plan);
        if verb != Verb::Insert {
            // As in PostgreSQL, the table's defaults are for columns that INSERT leaves out; those of a view are NULL.
            as_table.defaults = Arc::default();
        }
        let kept = of.table.base.schema.fields().iter().map(|_| fresh_name("kept")).collect();
        Ok(Some(Arc::new(WrittenView { as_table: Arc::new(as_table), of, plan, kept })))
    }

    /// What plans statements that write it.
    pub(crate) fn context<'a>(self: &Arc<WrittenView>, running: &'a RunningStatement) -> PlanContext<'a> {
        PlanContext { written: Some(Arc::clone(&self.as_table)), target: Some(VIEW_ID), ..running.plan_context() }
    }

    /// The plan of a statement that writes the table, for one that writes the view, without RETURNING and ON CONFLICT;
    /// `returns` where it has the former.
    ///
    /// # Errors
    /// Columns that cannot be written, what the view's owner must not do, those of planning.
    pub(crate) fn planned(
        self: &Arc<WrittenView>,
        statement: Statement,
        returns: bool,
        running: &RunningStatement,
    ) -> Result<DmlStatement> {
        let writes = Writes::of(&statement);
        let LogicalPlan::Dml(dml) = plan_statement(statement, &self.context(running))? else {
            return Err(Error::Internal("a statement that writes planned to something else".into()));
        };
        let verb = match &writes {
            Writes::Insert(_) => Verb::Insert,
            Writes::Update(_) => Verb::Update,
            Writes::Delete | Writes::Nothing => Verb::Delete,
        };
        let given = self.given(&writes);
        self.are_writable(&given, verb)?;
        let reads = returns || !columns_read(&LogicalPlan::Dml(dml.clone()), &writes, VIEW_ID)?.is_empty();
        self.owners_may(&given, verb, reads, running)?;
        let table = &self.of.table;
        let input = match verb {
            Verb::Insert => self.inserted(&dml, &given, running)?,
            Verb::Update | Verb::Delete => self.changed(&dml, &given)?,
        };
        let op = match dml.op {
            WriteOp::Insert(InsertOp::Append) | WriteOp::Update | WriteOp::Delete => dml.op,
            other => {
                return Err(Error::Unsupported(format!("{} of a view is not supported", other.name())));
            }
        };
        let source: Arc<dyn TableSource> = Arc::new(StoredSource::new(table));
        Ok(DmlStatement::new(reference(&table.name), source, op, Arc::new(self.with_views(input)?)))
    }

    /// The names of the view's columns that a statement gives values.
    fn given(&self, writes: &Writes) -> BTreeSet<String> {
        let all = || self.as_table.base.schema.fields().iter().map(|field| field.name().clone());
        match writes {
            Writes::Insert(Inserted::Named(columns)) | Writes::Update(columns) => columns.clone(),
            Writes::Insert(Inserted::First(count)) => all().take(*count).collect(),
            Writes::Insert(Inserted::All) => all().collect(),
            Writes::Delete | Writes::Nothing => BTreeSet::new(),
        }
    }

    /// Fails where a column is given a value that is none of the table, or one of the table's is given two.
    fn are_writable(&self, given: &BTreeSet<String>, verb: Verb) -> Result<()> {
        let shown = self.as_table.name.shown();
        let has = |(_, source): &(String, Option<String>)| source.is_some();
        if verb != Verb::Delete && !self.of.levels.iter().all(|level| level.columns.iter().any(has)) {
            let why = WhyNot { view: Name::clone(&self.as_table.name), kind: "views without a column of their table" };
            return Err(not_written(verb.words(), &self.as_table.name, &why));
        }
        let mut seen = BTreeSet::new();
        for column in given {
            let Some(of) = self.of.column(column) else {
                let what = if verb == Verb::Insert { "inserted into" } else { "updated" };
                return Err(Error::plan(
                    SqlState::FeatureNotSupported,
                    format!("column '{column}' of view '{shown}' cannot be {what}: it is no column of a table"),
                ));
            };
            if !seen.insert(of.clone()) {
                return Err(Error::plan(
                    SqlState::SyntaxError,
                    format!("column '{of}' is set twice through view '{shown}'; give it one value"),
                ));
            }
        }
        Ok(())
    }

    /// Fails where the owner of the view must not do that to what it reads, and so on down to the table.
    fn owners_may(&self, given: &BTreeSet<String>, verb: Verb, reads: bool, running: &RunningStatement) -> Result<()> {
        let mut columns = given.clone();
        for (place, level) in self.of.levels.iter().enumerate() {
            let below = self.of.levels.get(place + 1).map_or(&*self.of.table.name, |level| &level.name);
            let may = running.catalog.may(running.catalog.owner_of(&Thing::named(&level.name)));
            columns = columns.iter().filter_map(|column| level.column(column).cloned()).collect();
            let thing = Thing::named(below);
            match verb {
                Verb::Delete => may.need(&thing, Privileges::DELETE)?,
                _ => may.need_columns(&thing, verb.privilege(), &columns)?,
            }
        }
        // What it reads its owner has to be allowed to read, whatever of it is read.
        if reads && let Some(Entry::View(view)) = running.catalog.get(&self.as_table.name) {
            running.plan_context().plan_of_view(&self.as_table.name, view)?;
        }
        Ok(())
    }

    /// The rows that are inserted into the table.
    fn inserted(
        &self,
        dml: &DmlStatement,
        given: &BTreeSet<String>,
        running: &RunningStatement,
    ) -> Result<LogicalPlan> {
        let source = running.plan_context().stored(&self.of.table);
        let (outputs, input) = outputs(&dml.input);
        let none = DFSchema::empty();
        let columns = self.of.table.base.schema.fields().iter().map(|field| {
            let value = match self.place_of(field.name(), given) {
                Some(place) => outputs[place].clone().unalias(),
                None => match source.get_column_default(field.name()) {
                    Some(default) => default.clone().cast_to(field.data_type(), &none)?,
                    None => Expr::Literal(ScalarValue::try_from(field.data_type())?, None),
                },
            };
            Ok(value.alias(field.name()))
        });
        spine::projected(columns.collect::<Result<_>>()?, input)
    }

    /// The table's rows that are changed, as they are then, or that are deleted.
    fn changed(&self, dml: &DmlStatement, given: &BTreeSet<String>) -> Result<LogicalPlan> {
        let (outputs, input) = match dml.op {
            WriteOp::Update => outputs(&dml.input),
            _ => (Vec::new(), LogicalPlan::clone(&dml.input)),
        };
        let rows = spine::through(&self.plan, &self.scan()?, &self.kept, true)?;
        let input = spine::in_place_of(input, VIEW_ID, &rows, &self.kept)?;
        let columns = self.of.table.base.schema.fields().iter().zip(&self.kept).map(|(field, kept)| {
            let value = match self.place_of(field.name(), given) {
                Some(place) => outputs[place].clone().unalias(),
                None => Expr::Column(spine::column(&input, kept)?),
            };
            Ok(value.alias(field.name()))
        });
        spine::projected(columns.collect::<Result<_>>()?, input.clone())
    }

    /// Which column of the view gives one of the table its value.
    fn place_of(&self, column: &str, given: &BTreeSet<String>) -> Option<usize> {
        let mut fields = self.as_table.base.schema.fields().iter();
        fields.position(|field| given.contains(field.name()) && self.of.column(field.name()).as_deref() == Some(column))
    }

    /// The table's rows, each column twice: as it is called, and as it is kept.
    fn scan(&self) -> Result<LogicalPlan> {
        let table = &self.of.table;
        let source: Arc<dyn TableSource> = Arc::new(StoredSource::new(table));
        let scan = datafusion_expr::TableScanBuilder::new(reference(&table.name), source).build()?;
        let scan = LogicalPlan::TableScan(scan);
        let columns = scan.schema().columns();
        let kept = columns.iter().zip(&self.kept).map(|(column, kept)| Expr::Column(column.clone()).alias(kept));
        let outputs = columns.iter().cloned().map(Expr::Column).chain(kept.collect::<Vec<_>>());
        spine::projected(outputs.collect(), scan)
    }

    /// A plan in which the view is read as any view is, wherever it is read as if it were a table.
    ///
    /// # Errors
    /// None that a plan has which was planned.
    pub(crate) fn with_views(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        spine::with_views(plan, &self.plan)
    }

    /// Which of a plan's columns is the first that is none of the view, in a plan that [`planned`](Self::planned)
    /// gave.
    pub(crate) fn width(&self) -> usize {
        self.as_table.base.schema.fields().len() + self.kept.len()
    }

    /// Rows of the table, with others' columns behind, as a query of the view with these outputs would see them.
    ///
    /// # Errors
    /// Rows of other types.
    pub(crate) fn seen(&self, of: &DFSchemaRef, rows: &[RecordBatch]) -> Result<LogicalPlan> {
        let width = self.as_table.base.schema.fields().len();
        let own = told(&self.of.table.base.schema, &self.of.table.lengths);
        let others: Vec<(String, &Arc<Field>)> =
            of.fields().iter().skip(width).map(|field| (fresh_name("joined"), field)).collect();
        let beside = others.iter().map(|(name, field)| Arc::new(Field::clone(field).with_name(name)));
        let schema = Schema::new(own.fields().iter().cloned().chain(beside).collect::<Vec<_>>());
        let leaf = given(&Arc::new(DFSchema::try_from(schema)?), rows)?;
        let names: Vec<String> = others.into_iter().map(|(name, _)| name).collect();
        let seen = spine::through(&self.plan, &leaf, &names, false)?;
        let columns = seen.schema().columns().into_iter().zip(of.iter());
        let columns = columns
            .map(|(column, (qualifier, field))| Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
        spine::projected(columns.collect(), seen.clone())
    }

    /// What CHECK OPTION of it and of the views that it reads says of rows that are written.
    ///
    /// # Errors
    /// Views that can no longer be used.
    pub(crate) fn checks(&self, running: &RunningStatement) -> Result<ViewChecks> {
        let mut checks = Vec::new();
        let mut cascades = false;
        for level in &self.of.levels {
            let is_looked_at = cascades || level.check.is_some();
            cascades |= level.check == Some(CheckOption::Cascaded);
            if !is_looked_at || !level.has_condition {
                continue;
            }
            let Some(Entry::View(view)) = running.catalog.get(&level.name) else { continue };
            let plan = running.own_context().plan_of_view(&level.name, view)?;
            checks.push((level.name.clone(), plan));
        }
        // As in PostgreSQL, the innermost is looked at first.
        checks.reverse();
        Ok(ViewChecks::new(checks, Arc::clone(&self.of.table)))
    }
}

/// What has to be known to write a view, or why it cannot be written.
///
/// # Errors
/// Texts that cannot be read.
pub(crate) fn updatable(name: &Name, running: &RunningStatement) -> Result<Result<Updatable, WhyNot>> {
    running.own_context().updatable(name)
}

fn not_written(what: &str, name: &Name, why: &WhyNot) -> Error {
    let through = match why.view == *name {
        true => String::new(),
        false => format!(", which reads view '{}'", why.view.shown()),
    };
    Error::plan(
        SqlState::ObjectNotInPrerequisiteState,
        format!(
            "cannot {what} view '{}'{through}: {} cannot be written; write the tables that it reads",
            name.shown(),
            why.kind
        ),
    )
}

fn reference(name: &Name) -> TableReference {
    TableReference::partial(name.schema.as_str(), name.table.as_str())
}

/// The outputs of a statement's rows, and what they are of.
fn outputs(plan: &LogicalPlan) -> (Vec<Expr>, LogicalPlan) {
    match plan {
        LogicalPlan::Projection(top) => (top.expr.clone(), LogicalPlan::clone(&top.input)),
        other => (other.schema().columns().into_iter().map(Expr::Column).collect(), other.clone()),
    }
}

/// The view as if it were a table.
fn as_table(name: &Name, of: &Updatable, plan: &LogicalPlan) -> TableEntry {
    let table = &of.table;
    let mut fields = Vec::new();
    let mut defaults: HashMap<String, ColumnDefault> = HashMap::new();
    let mut lengths = HashMap::new();
    let mut rules = RowRules::default();
    for field in plan.schema().fields() {
        let column = field.name();
        let source = of.column(column);
        let known = source.as_ref().and_then(|source| table.base.schema.field_with_name(source).ok());
        let of_type = known.unwrap_or(field);
        fields.push(Field::clone(of_type).with_name(column).with_nullable(true));
        let Some(source) = source else { continue };
        if let Some(default) = table.default_of(&source) {
            defaults.insert(column.clone(), default.clone());
        }
        if let Some(length) = table.lengths.get(&source) {
            lengths.insert(column.clone(), length.clone());
        }
        if let Some(computed) = table.rules.generated.get(&source) {
            rules.generated.insert(column.clone(), computed.clone());
        }
        if let Some(always) = table.rules.identities.get(&source) {
            rules.identities.insert(column.clone(), *always);
        }
    }
    TableEntry {
        id: VIEW_ID,
        name: Arc::new(name.clone()),
        base: Arc::new(TableVersion::empty(&Schema::new(fields))),
        delta: None,
        defaults: Arc::new(defaults),
        lengths: Arc::new(lengths),
        rules: Arc::new(rules),
        indexes: Arc::default(),
        materialized: None,
        ..TableEntry::clone(table)
    }
}
