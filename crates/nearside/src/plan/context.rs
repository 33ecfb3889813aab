//! What the SQL planner asks while it plans one statement: tables, functions and settings, as of one catalog state.
//!
//! Names resolve in this order: system views, `information_schema`, tables and views, then files
//! (`'lineitem.parquet'`). Views are planned from their SQL each time, so they follow the tables beneath them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::Column;
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DFSchema, DataFusionError, Result as DfResult, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, TableType, WindowUDF,
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::parser::Statement;
use datafusion_sql::planner::object_name_to_table_reference;
use parking_lot::Mutex;
use sqlparser::ast::{self, ObjectName};
use sqlparser::parser::Parser;

use crate::catalog::domains::DomainEntry;
use crate::catalog::made_functions::MadeFunction;
use crate::catalog::path::SearchPath;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{May, Thing};
use crate::catalog::roles::PredefinedRole;
use crate::catalog::rules::Writable;
use crate::catalog::sequences::SequenceEntry;
use crate::catalog::user_types::EnumType;
use crate::catalog::{Entry, INFORMATION_SCHEMA, Name, PG_CATALOG, SYSTEM_SCHEMA, Snapshot, TableEntry, ViewEntry};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::functions::catalog_asked::{self, Answers};
use crate::functions::clock;
use crate::functions::of_domains;
use crate::functions::sequences::{self, Sequences};
use crate::functions::series;
use crate::functions::sleep;
use crate::functions::uuids::UUID;
use crate::plan::headers::with_names_apart;
use crate::plan::permission;
use crate::plan::planner::Planner;
use crate::plan::stop::Stop;
use crate::plan::system::{Descriptions, OfSession, SystemTables, TableDescription};
use crate::plan::updatable::{Known, Updatable, WhyNot};
use crate::rewrite::argument_types;
use crate::rewrite::assigned::assigned;
use crate::rewrite::parameter_types;
use crate::rewrite::volatile::calls_volatile;
use crate::sql::{AnyStatement, KnownTables, SqlDialect, Writes, fresh_name, is_made, is_real, may_be_made};
use crate::tables::files::FileTable;
use crate::tables::sources::{ForeignSource, GivenSource, WorkSource};
use crate::tables::stored::StoredSource;

/// Types that the planner has not.
#[derive(Debug)]
struct OwnTypes;

impl TypePlanner for OwnTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> DfResult<Option<FieldRef>> {
        Ok(match sql_type {
            ast::DataType::Uuid => Some(Arc::new(Field::new("", UUID, true))),
            ast::DataType::Custom(name, modifiers) if modifiers.is_empty() => named_type(name).map(Arc::new),
            // Which of the two it is, say `catalog::lengths` and `sql::json`.
            ast::DataType::JSON | ast::DataType::JSONB => Some(Arc::new(Field::new("", DataType::Utf8View, true))),
            ast::DataType::Float(_) if is_real(sql_type) => Some(Arc::new(Field::new("", DataType::Float32, true))),
            ast::DataType::Float(_) => Some(Arc::new(Field::new("", DataType::Float64, true))),
            _ => None,
        })
    }
}

/// A type of `pg_catalog` that values may be cast to.
fn named_type(name: &ObjectName) -> Option<Field> {
    let [part] = name.0.as_slice() else { return None };
    let ident = part.as_ident()?;
    match (ident.value.to_lowercase().as_str(), ident.quote_style) {
        ("oid", None) => Some(Field::new("", DataType::UInt32, true)),
        ("name", None) | ("char", Some(_)) => Some(Field::new("", DataType::Utf8View, true)),
        _ => None,
    }
}

/// A view: its plan stands in its place.
struct ViewSource {
    schema: SchemaRef,
    plan: LogicalPlan,
}

impl TableSource for ViewSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

/// One statement's view of the world for planning.
pub(crate) struct PlanContext<'a> {
    /// Functions and settings.
    pub planner: &'a Planner,
    /// What exists.
    pub catalog: Snapshot,
    /// The system views and `information_schema`.
    pub system: Arc<dyn SystemTables>,
    /// Whose statement it is.
    pub session: OfSession,
    /// Who gives out values of sequences, where there is a statement that asks.
    pub sequences: Option<Arc<dyn Sequences>>,
    /// The views that are being planned, from the outermost in.
    pub planning: Vec<Name>,
    /// Whether to go on: views that name views may be planned very often.
    pub stop: Stop,
    /// Told where a function may wait.
    pub waits: Arc<AtomicBool>,
    /// Queries of the statement that are planned by themselves, by the names that stand in their place.
    pub given: Mutex<HashMap<String, Arc<dyn TableSource>>>,
    /// Names and columns of everything, once somebody has asked.
    pub described: Arc<OnceLock<Arc<Descriptions>>>,
    /// Where names without a schema are looked up.
    pub path: SearchPath,
    /// Whether views are planned for their columns alone.
    pub describes: bool,
    /// What functions that ask the catalog are answered, once there is one.
    pub answers: Arc<OnceLock<Arc<dyn Answers>>>,
    /// The number of the role that has to be allowed what is planned; `None` for what the system does by itself.
    pub user: Option<u32>,
    /// The table that is written by what is planned, of which nothing has to be readable where nothing is read.
    pub target: Option<u64>,
    /// The view that is written by what is planned, as if it were a table.
    pub written: Option<Arc<TableEntry>>,
}

impl PlanContext<'_> {
    /// What the role may do that has to be allowed what is planned; `None` for one that may do everything.
    fn may(&self) -> Option<May<'_>> {
        let user = self.user.filter(|_| !self.describes)?;
        let may = self.catalog.may(user);
        (!may.do_everything()).then_some(may)
    }

    /// Fails where a role may not name what is in a schema. Names in a view's text were looked up when it was made.
    fn may_name(&self, reference: &TableReference, name: &Name, may: &May<'_>) -> Result<()> {
        let schema = Thing::Schema(name.schema.clone());
        match may.with(&schema).has(Privileges::USAGE) || !self.planning.is_empty() {
            true => Ok(()),
            false if reference.schema().is_some() => Err(may.denied(&schema)),
            // What a search path cannot use it does not find.
            false => Err(self.catalog.not_found("table", name)),
        }
    }

    fn lookup(&self, reference: &TableReference) -> Result<Arc<dyn TableSource>> {
        if is_made(reference.table())
            && let Some(given) = self.given.lock().get(reference.table())
        {
            return Ok(Arc::clone(given));
        }
        if let Some(source) = self.pg_catalog(reference)? {
            return Ok(source);
        }
        let name = self.path.resolve(reference, &self.catalog)?;
        let may = self.may();
        if name.schema == SYSTEM_SCHEMA {
            if let Some(may) = may.filter(|_| name.table != "settings") {
                may.need_superuser(Some(PredefinedRole::ReadAllStats), &format!("read {}", name.shown()))?;
            }
            return self.system.view(&name, &self.catalog, self.planner);
        }
        if name.schema == INFORMATION_SCHEMA {
            return self.information_schema(&name);
        }
        let found = self.catalog.get(&name);
        if let (Some(may), true) = (&may, found.is_some()) {
            self.may_name(reference, &name, may)?;
        }
        if let (Some(may), Some(Entry::Sequence(_) | Entry::External(_))) = (&may, found) {
            may.need(&Thing::named(&name), Privileges::SELECT)?;
        }
        if let Some(view) = self.written.as_ref().filter(|view| *view.name == name) {
            return Ok(Arc::new(self.stored(view)));
        }
        match found {
            Some(Entry::Table(table)) => Ok(Arc::new(self.stored(table))),
            Some(Entry::Sequence(sequence)) => Ok(GivenSource::table(sequence_row(sequence)?)),
            Some(Entry::View(view)) => self.view(&name, view),
            Some(Entry::External(e)) => Ok(ForeignSource::table(Arc::new(FileTable::open(&e.path, &e.options)?))),
            Some(Entry::Type(_) | Entry::Function(_) | Entry::Domain(_)) => Err(self.catalog.not_found("table", &name)),
            None if reference.schema().is_none() && FileTable::looks_like_path(reference.table()) => {
                if let Some(may) = &may {
                    may.need_superuser(Some(PredefinedRole::ReadServerFiles), "read files of the server's machine")?;
                }
                let table = FileTable::open(reference.table(), &Default::default())?;
                Ok(ForeignSource::table(Arc::new(table)))
            }
            None => Err(self.catalog.not_found("table", &name)),
        }
    }

    /// A table, whose defaults take values of sequences on behalf of the statement.
    pub(crate) fn stored(&self, table: &TableEntry) -> StoredSource {
        StoredSource::new(table).counting(self.sequences.as_ref().map(|of| of.of_defaults()).as_ref())
    }

    /// A table of `pg_catalog`, which is looked into before any other schema where none is named.
    fn pg_catalog(&self, reference: &TableReference) -> Result<Option<Arc<dyn TableSource>>> {
        let table = reference.table();
        match reference.schema() {
            None if self.system.is_in_pg_catalog(table) => {}
            Some(PG_CATALOG) if self.system.is_in_pg_catalog(table) => {}
            Some(PG_CATALOG) => {
                let name = format!("{PG_CATALOG}.{table}");
                let nearest = nearest(table, self.system.names_in_pg_catalog().into_iter());
                let nearest = nearest.map(|table| format!("{PG_CATALOG}.{table}"));
                return Err(Error::NotFound { kind: "table", name, nearest });
            }
            _ => return Ok(None),
        }
        let is_secret = ["pg_authid", "pg_shadow", "pg_statistic"].contains(&table);
        if let Some(may) = self.may().filter(|_| is_secret) {
            return Err(may.denied(&Thing::Relation(PG_CATALOG.into(), table.into())));
        }
        self.system.pg_catalog(table, (self.described(), &self.catalog), self.planner, &self.session)
    }

    /// Names and columns of everything.
    fn described(&self) -> &Descriptions {
        static NOTHING: Descriptions = Descriptions::new();
        match self.describes {
            // Of a view over these tables the columns are asked for, which do not depend on rows.
            true => &NOTHING,
            false => self.described.get_or_init(|| Arc::new(self.describe())),
        }
    }

    /// What functions that ask the catalog are answered: the same for all of a statement, which tells equal calls by
    /// it.
    /// What a function that waits heeds.
    fn check_of_stop(&self) -> sleep::Check {
        self.waits.store(true, Ordering::Release);
        let stop = self.stop.clone();
        Arc::new(move || stop.check())
    }

    fn answers(&self) -> Arc<dyn Answers> {
        let made = || self.system.answers(self.catalog.state(), self.planner, &self.session);
        Arc::clone(self.answers.get_or_init(made))
    }

    fn information_schema(&self, name: &Name) -> Result<Arc<dyn TableSource>> {
        if name.table == "df_settings" {
            // What SHOW reads.
            return self.system.settings(self.planner);
        }
        let none = || Error::NotFound { kind: "table", name: name.shown(), nearest: None };
        let all = (self.described(), &*self.catalog);
        self.system.information(&name.table, all, self.planner, &self.session)?.ok_or_else(none)
    }

    /// Names and columns of everything, for `information_schema`; a view that no longer plans is listed without
    /// columns.
    fn describe(&self) -> Descriptions {
        let views = PlanContext { planning: Vec::new(), describes: true, ..self.within() };
        let mut schemas = Descriptions::new();
        for schema in self.catalog.schemas() {
            schemas.insert(schema.into(), BTreeMap::new());
        }
        for (name, entry) in self.catalog.entries() {
            let described = match entry {
                // As in PostgreSQL, the standard does not know them.
                Entry::Table(t) if t.materialized.is_some() => continue,
                Entry::Table(t) => {
                    TableDescription { schema: Arc::clone(&t.base.schema), is_view: false, sql: None, written: None }
                }
                // information_schema.sequences has them.
                Entry::Sequence(_) | Entry::Type(_) | Entry::Function(_) | Entry::Domain(_) => continue,
                Entry::View(v) => {
                    let schema = views.view(name, v).map(|s| s.schema()).unwrap_or_else(|_| Arc::new(Schema::empty()));
                    let written = views.updatable(name).ok().and_then(Result::ok);
                    TableDescription { schema, is_view: true, sql: Some(v.sql.clone()), written }
                }
                Entry::External(e) => {
                    let table = FileTable::open(&e.path, &e.options);
                    let schema = table.map(|t| t.columns()).unwrap_or_else(|_| Arc::new(Schema::empty()));
                    TableDescription { schema, is_view: false, sql: None, written: None }
                }
            };
            schemas.entry(name.schema.clone()).or_default().insert(name.table.clone(), described);
        }
        let view = |(table, schema): (&str, SchemaRef)| {
            (table.into(), TableDescription { schema, is_view: true, sql: None, written: None })
        };
        schemas.insert(SYSTEM_SCHEMA.into(), self.system.schemas().into_iter().map(view).collect());
        schemas
    }

    /// How a view is written, or why it cannot be.
    ///
    /// # Errors
    /// Texts that cannot be read.
    pub(crate) fn updatable(&self, name: &Name) -> Result<Result<Updatable, WhyNot>> {
        let columns = |name: &Name, view: &ViewEntry| {
            let schema = self.columns_of_entry(name, view).ok()?;
            Some(schema.fields().iter().map(|field| field.name().clone()).collect())
        };
        let path = self.path.lasting();
        let known = Known { catalog: &self.catalog, path: &path, planner: self.planner, columns: &columns };
        Updatable::of(name, &known)
    }

    /// That of a query within the statement's.
    fn within(&self) -> PlanContext<'_> {
        PlanContext {
            planner: self.planner,
            catalog: self.catalog.clone(),
            system: Arc::clone(&self.system),
            session: self.session.clone(),
            sequences: self.sequences.as_ref().map(|of| of.of_views()),
            planning: self.planning.clone(),
            stop: self.stop.clone(),
            waits: Arc::clone(&self.waits),
            given: Mutex::default(),
            described: Arc::clone(&self.described),
            answers: Arc::clone(&self.answers),
            describes: self.describes,
            // Names in a view's text are those of who has said nothing.
            path: self.path.lasting(),
            user: self.user,
            target: None,
            written: None,
        }
    }

    /// The columns of a view.
    ///
    /// # Errors
    /// There is none of the name, or it can no longer be used.
    pub(crate) fn columns_of_view(&self, name: &Name) -> Result<SchemaRef> {
        match self.catalog.get(name) {
            Some(Entry::View(view)) => Ok(self.view(name, view)?.schema()),
            _ => Err(self.catalog.not_found("view", name)),
        }
    }

    /// The plan of the query of a materialized view, which its owner has to be allowed.
    ///
    /// # Errors
    /// As the query has them.
    pub(crate) fn plan_as_owner(&self, name: &Name, sql: &str) -> Result<LogicalPlan> {
        let owner = self.catalog.owner_of(&Thing::named(name));
        let within = self.within();
        // A refresh is a statement of its own: sequences give it values.
        let sequences = self.sequences.clone();
        AnyStatement::one(sql)?.plan(&PlanContext { user: self.user.map(|_| owner), sequences, ..within })
    }

    /// The plan of a view.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn plan_of_view(&self, name: &Name, view: &ViewEntry) -> Result<LogicalPlan> {
        let source = self.view(name, view)?;
        let plan = source.get_logical_plan().map(Cow::into_owned);
        plan.ok_or_else(|| Error::Internal("a view without a plan".into()))
    }

    /// The columns that a view has, or would have.
    ///
    /// # Errors
    /// It cannot be used.
    pub(crate) fn columns_of_entry(&self, name: &Name, view: &ViewEntry) -> Result<SchemaRef> {
        Ok(self.view(name, view)?.schema())
    }

    fn view(&self, name: &Name, view: &ViewEntry) -> Result<Arc<dyn TableSource>> {
        if self.planning.contains(name) {
            return Err(Error::plan(
                SqlState::InvalidObjectDefinition,
                format!("view '{}' refers to itself", name.shown()),
            ));
        }
        self.stop.check()?;
        let mut planning = self.planning.clone();
        planning.push(name.clone());
        let outermost = self.planning.is_empty();
        let owner = self.catalog.owner_of(&Thing::named(name));
        let inner = PlanContext { planning, user: self.user.map(|_| owner), ..self.within() };
        let plan = AnyStatement::one(&view.sql)?.plan(&inner).map_err(|e| match outermost {
            true if e.code() == SqlState::InsufficientPrivilege => e,
            true if !matches!(e, Error::Cancelled | Error::Timeout) => {
                Error::plan(e.code(), format!("view '{}' can no longer be used: {e}", name.shown()))
            }
            _ => e,
        })?;
        let mut plan = with_column_names(plan, &view.columns)?;
        // Who may do everything reads it as if its query stood there, if its owner may read all of that too.
        if self.may().is_some() {
            plan = permission::as_view(plan, name)?;
        }
        let schema = Arc::new(plan.schema().as_arrow().clone());
        Ok(Arc::new(ViewSource { schema, plan }))
    }
}

/// What a query of a sequence sees.
fn sequence_row(sequence: &SequenceEntry) -> Result<RecordBatch> {
    let at = sequence.values.position();
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let schema = Schema::new(vec![
        field("last_value", DataType::Int64),
        field("log_cnt", DataType::Int64),
        field("is_called", DataType::Boolean),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![at.last])),
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(BooleanArray::from(vec![at.is_called])),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// `CREATE VIEW v (a, b) AS ..`: the names given replace the query's.
///
/// # Errors
/// More or fewer names than columns.
pub(crate) fn with_column_names(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    if names.is_empty() {
        return with_names_apart(plan);
    }
    let columns: Vec<Column> = plan.schema().columns();
    if columns.len() != names.len() {
        return Err(Error::plan(
            SqlState::SyntaxError,
            format!("{} column names are given for {} columns", names.len(), columns.len()),
        ));
    }
    let outputs = columns.into_iter().zip(names).map(|(c, name)| Expr::Column(c).alias(name));
    Ok(LogicalPlanBuilder::from(plan).project(outputs)?.build()?)
}

impl KnownTables for PlanContext<'_> {
    fn columns(&self, table: &ObjectName) -> Option<Vec<String>> {
        let normalise = self.options().sql_parser.enable_ident_normalization;
        let reference = object_name_to_table_reference(table.clone(), normalise).ok()?;
        let source = self.lookup(&reference).ok()?;
        Some(source.schema().fields().iter().map(|field| field.name().clone()).collect())
    }

    fn default_of(&self, table: &ObjectName, column: &str) -> Result<Option<ast::Expr>> {
        let normalise = self.options().sql_parser.enable_ident_normalization;
        let source = self.lookup(&object_name_to_table_reference(table.clone(), normalise)?)?;
        let Some(text) = source.downcast_ref::<StoredSource>().and_then(|source| source.default_text(column)) else {
            return Ok(None);
        };
        let parsed = Parser::new(&SqlDialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
        Ok(Some(parsed.map_err(DataFusionError::from)?))
    }

    fn writable(&self, table: &ObjectName, column: &str) -> Writable {
        let normalise = self.options().sql_parser.enable_ident_normalization;
        let name = object_name_to_table_reference(table.clone(), normalise).ok();
        let Some(name) = name.and_then(|name| self.path.resolve(&name, &self.catalog).ok()) else {
            return Writable::Any;
        };
        if let Some(view) = self.written.as_ref().filter(|view| *view.name == name) {
            return view.rules.writable(column);
        }
        match self.catalog.get(&name) {
            Some(Entry::Table(table)) => table.rules.writable(column),
            _ => Writable::Any,
        }
    }

    fn made_type(&self, name: &ObjectName) -> Result<Option<Arc<EnumType>>> {
        if !may_be_made(name) {
            return Ok(None);
        }
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let name = self.path.resolve(&reference, &self.catalog)?;
        self.catalog.user_type(&name).map(|found| Some(Arc::clone(&found.of)))
    }

    fn made_domain(&self, name: &ObjectName) -> Option<Arc<DomainEntry>> {
        if !may_be_made(name) {
            return None;
        }
        let reference = object_name_to_table_reference(name.clone(), true).ok()?;
        let name = self.path.resolve(&reference, &self.catalog).ok()?;
        match self.catalog.get(&name) {
            Some(Entry::Domain(found)) => Some(Arc::clone(found)),
            _ => None,
        }
    }

    fn made_function(&self, name: &ObjectName) -> Result<Option<Arc<MadeFunction>>> {
        let Ok(reference) = object_name_to_table_reference(name.clone(), true) else { return Ok(None) };
        let key = format!("{}()", reference.table());
        let reference = match (reference.catalog(), reference.schema()) {
            (Some(catalog), Some(schema)) => TableReference::full(catalog, schema, key),
            (None, Some(schema)) => TableReference::partial(schema, key),
            _ => TableReference::bare(key),
        };
        let Ok(name) = self.path.resolve(&reference, &self.catalog) else { return Ok(None) };
        Ok(match self.catalog.get(&name) {
            Some(Entry::Function(found)) => Some(Arc::clone(&found.of)),
            _ => None,
        })
    }

    fn with_arguments(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        argument_types::checked(plan)
    }

    fn give(&self, plan: LogicalPlan) -> String {
        let name = fresh_name("query");
        let schema = Arc::new(plan.schema().as_arrow().clone());
        self.given.lock().insert(name.clone(), Arc::new(ViewSource { schema, plan }));
        name
    }

    fn assigned(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        assigned(parameter_types::of_one_type_each(parameter_types::typed(plan)?)?)
    }

    fn writes(&self, statement: &Statement) -> Writes {
        match self.user {
            Some(_) => Writes::of(statement),
            None => Writes::Nothing,
        }
    }

    fn permits(&self, plan: &LogicalPlan, writes: &Writes) -> Result<()> {
        match self.may() {
            Some(may) => permission::permits((plan, writes), self.target, (&may, &self.catalog)),
            None => Ok(()),
        }
    }

    fn is_volatile_view(&self, table: &ObjectName) -> bool {
        let normalise = self.options().sql_parser.enable_ident_normalization;
        let Ok(reference) = object_name_to_table_reference(table.clone(), normalise) else { return false };
        let Ok(name) = self.path.resolve(&reference, &self.catalog) else { return false };
        if !matches!(self.catalog.get(&name), Some(Entry::View(_))) {
            return false;
        }
        let source = self.lookup(&reference).ok();
        source
            .and_then(|view| view.get_logical_plan().map(|plan| calls_volatile(&plan).unwrap_or(false)))
            .unwrap_or(false)
    }
}

impl ContextProvider for PlanContext<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        self.lookup(&name).map_err(Error::into_datafusion)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let context = SimplifyContext::builder().with_config_options(Arc::clone(self.planner.config_options())).build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|e| simplifier.simplify(e)))
            .collect::<DfResult<Vec<_>>>()?;
        match series::table_function(name, &args).map_err(Error::into_datafusion)? {
            Some(rows) => Ok(ForeignSource::table(rows)),
            None => {
                let nearest = nearest(name, series::FUNCTIONS.into_iter());
                Err(Error::NotFound { kind: "table function", name: name.into(), nearest }.into_datafusion())
            }
        }
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(WorkSource::table(name, schema))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.planner.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &[]
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(OwnTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let counted = self.sequences.as_ref().and_then(|of| sequences::function(name, of));
        let of_catalog =
            || catalog_asked::is_asked(name).then(|| catalog_asked::function(name, self.answers())).flatten();
        let of_domain = || {
            let (_, domain) = self.catalog.domain_of(of_domains::domain_of(name)?)?;
            Some(of_domains::function(self.catalog.rules_of_domain(domain)))
        };
        let zone = self.planner.config_options().execution.time_zone.as_deref();
        let asked = counted
            .or_else(of_catalog)
            .or_else(of_domain)
            .or_else(|| clock::of_statement(name, self.session.started, zone))
            .or_else(|| sleep::of_statement(name, || self.check_of_stop()))
            .or_else(|| self.system.session_function(name, self.planner, &self.session));
        asked.or_else(|| self.planner.scalar_functions().get(name).cloned())
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.planner.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.planner.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.planner.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.planner.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.planner.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.planner.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.planner.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.planner.window_functions().keys().cloned().collect()
    }
}
