//! What the SQL planner asks while it plans one statement: tables, functions and settings, as of one catalog state.
//!
//! Names resolve in this order: system views, `information_schema`, tables and views, then files (`'lineitem.parquet'`).
//! Views are planned from their SQL each time, so they follow the tables beneath them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemTable, SchemaProvider, TableFunctionArgs, TableProvider,
};
use datafusion::common::{
    Constraint, Constraints, DFSchema, DataFusionError, Result as DfResult, TableReference, plan_err,
};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableProviderFilterPushDown,
    TableSource, TableType, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::Column;

use crate::catalog::{CATALOG, CatalogState, Entry, INFORMATION_SCHEMA, Name, SYSTEM_SCHEMA, TableEntry, ViewEntry};
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::files::FileTable;
use crate::lower::is_exact;
use crate::parser::Parsed;
use crate::planning::Stop;
use crate::views;

/// The hidden column that DELETE and UPDATE read: which row of which segment.
pub(crate) const ROW_ID: &str = "__nearside_row";

/// A stored table as the planner sees it: identity and columns, no rows.
#[derive(Debug)]
pub(crate) struct StoredSource {
    /// The table's identity.
    pub id: u64,
    /// The table's name.
    pub name: Name,
    /// The same as people write it.
    pub shown: Arc<str>,
    /// Columns, with [`ROW_ID`] last where asked for.
    pub schema: SchemaRef,
    /// Whether the last column is [`ROW_ID`].
    pub row_ids: bool,
    defaults: Arc<HashMap<String, Expr>>,
    constraints: Constraints,
}

impl StoredSource {
    /// For reading and inserting.
    pub(crate) fn new(table: &TableEntry) -> StoredSource {
        let schema = Arc::clone(&table.version.schema);
        // A key that may be NULL does not tell NULLs apart, and the planner would take it for one that does.
        let columns = |key: &[String]| key.iter().map(|c| schema.index_of(c).ok()).collect::<Option<Vec<usize>>>();
        let required = |key: &Vec<usize>| key.iter().all(|&column| !schema.field(column).is_nullable());
        let keys: Vec<_> = table.keys().filter_map(columns).filter(required).map(Constraint::Unique).collect();
        StoredSource {
            id: table.id,
            name: table.name.clone(),
            shown: table.name.shown().into(),
            constraints: Constraints::new_unverified(keys),
            schema,
            row_ids: false,
            defaults: Arc::clone(&table.defaults),
        }
    }

    /// For DELETE and UPDATE: the rows' identities stand in a last column.
    pub(crate) fn with_row_ids(table: &TableEntry) -> StoredSource {
        let mut source = StoredSource::new(table);
        let mut fields: Vec<_> = source.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(arrow::datatypes::Field::new(ROW_ID, DataType::UInt64, false)));
        source.schema = Arc::new(Schema::new(fields));
        source.row_ids = true;
        source
    }
}

impl TableSource for StoredSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let answer = |f: &&Expr| {
            if is_exact(f) { TableProviderFilterPushDown::Exact } else { TableProviderFilterPushDown::Unsupported }
        };
        Ok(filters.iter().map(answer).collect())
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
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
    /// Functions, types and settings.
    pub state: &'a SessionState,
    /// What exists.
    pub catalog: Arc<CatalogState>,
    /// Machine, workers and budget, for the system views.
    pub inner: &'a Arc<Inner>,
    /// The views that are being planned, from the outermost in.
    pub planning: Vec<Name>,
    /// Whether to go on: views that name views may be planned very often.
    pub stop: Stop,
}

impl PlanContext<'_> {
    fn lookup(&self, reference: &TableReference) -> Result<Arc<dyn TableSource>> {
        let name = Name::resolve(reference)?;
        if name.schema == SYSTEM_SCHEMA {
            let table = views::system_table(&name, self.inner, &self.catalog, self.state)?;
            return Ok(provider_as_source(table));
        }
        if name.schema == INFORMATION_SCHEMA {
            return self.information_schema(&name);
        }
        match self.catalog.get(&name) {
            Some(Entry::Table(table)) => Ok(Arc::new(StoredSource::new(table))),
            Some(Entry::View(view)) => self.view(&name, view),
            Some(Entry::External(e)) => {
                Ok(provider_as_source(Arc::new(FileTable::open(&e.path, &e.options, self.inner)?)))
            }
            None if reference.schema().is_none() && FileTable::looks_like_path(reference.table()) => {
                let table = FileTable::open(reference.table(), &Default::default(), self.inner)?;
                Ok(provider_as_source(Arc::new(table)))
            }
            None => Err(self.catalog.not_found("table", &name)),
        }
    }

    fn information_schema(&self, name: &Name) -> Result<Arc<dyn TableSource>> {
        if name.table == "df_settings" {
            // What SHOW reads; DataFusion's own lists the names of extensions' settings without their prefix.
            return Ok(provider_as_source(views::settings_table(self.state)?));
        }
        let list = Arc::new(CatalogView { catalog: Arc::clone(&self.catalog), schemas: self.describe()? });
        let provider = InformationSchemaProvider::new(list);
        match ready(provider.table(&name.table))?? {
            Some(table) => Ok(provider_as_source(table)),
            None => Err(Error::NotFound { kind: "table", name: name.shown(), nearest: None }),
        }
    }

    /// Names and columns of everything, for `information_schema`; a view that no longer plans is listed without columns.
    fn describe(&self) -> Result<HashMap<String, Arc<SchemaView>>> {
        let mut schemas: HashMap<String, SchemaView> = HashMap::new();
        for schema in self.catalog.schemas() {
            schemas.insert(schema.into(), SchemaView::default());
        }
        for (name, entry) in self.catalog.entries() {
            let (schema, kind, sql) = match entry {
                Entry::Table(t) => (Arc::clone(&t.version.schema), TableType::Base, None),
                Entry::View(v) => {
                    let schema = self.view(name, v).map(|s| s.schema()).unwrap_or_else(|_| Arc::new(Schema::empty()));
                    (schema, TableType::View, Some(v.sql.clone()))
                }
                Entry::External(e) => {
                    let table = FileTable::open(&e.path, &e.options, self.inner);
                    let schema = table.map(|t| t.schema()).unwrap_or_else(|_| Arc::new(Schema::empty()));
                    (schema, TableType::Base, None)
                }
            };
            let view = TableView { schema, kind, sql };
            schemas.entry(name.schema.clone()).or_default().tables.insert(name.table.clone(), Arc::new(view));
        }
        let mut system = SchemaView::default();
        for (table, schema) in views::schemas() {
            let view = TableView { schema, kind: TableType::View, sql: None };
            system.tables.insert(table.into(), Arc::new(view));
        }
        schemas.insert(SYSTEM_SCHEMA.into(), system);
        Ok(schemas.into_iter().map(|(k, v)| (k, Arc::new(v))).collect())
    }

    fn view(&self, name: &Name, view: &ViewEntry) -> Result<Arc<dyn TableSource>> {
        if self.planning.contains(name) {
            return Err(Error::plan(format!("view '{}' refers to itself", name.shown())));
        }
        self.stop.check()?;
        let mut planning = self.planning.clone();
        planning.push(name.clone());
        let outermost = self.planning.is_empty();
        let (catalog, stop) = (Arc::clone(&self.catalog), self.stop.clone());
        let inner = PlanContext { state: self.state, catalog, inner: self.inner, planning, stop };
        let plan = Parsed::one(&view.sql)?.plan(&inner).map_err(|e| match outermost {
            true if !matches!(e, Error::Cancelled | Error::Timeout) => {
                Error::plan(format!("view '{}' can no longer be used: {e}", name.shown()))
            }
            _ => e,
        })?;
        let plan = with_column_names(plan, &view.columns)?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        Ok(Arc::new(ViewSource { schema, plan }))
    }
}

/// `CREATE VIEW v (a, b) AS ..`: the names given replace the query's.
pub(crate) fn with_column_names(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    if names.is_empty() {
        return Ok(plan);
    }
    let columns: Vec<Column> = plan.schema().columns();
    if columns.len() != names.len() {
        return Err(Error::plan(format!("{} column names are given for {} columns", names.len(), columns.len())));
    }
    let outputs = columns.into_iter().zip(names).map(|(c, name)| Expr::Column(c).alias(name));
    Ok(LogicalPlanBuilder::from(plan).project(outputs)?.build()?)
}

/// The value of a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> Result<T> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(Error::Internal("a catalog look-up waited".into())),
    }
}

impl ContextProvider for PlanContext<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        self.lookup(&name).map_err(Error::into_datafusion)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(name) else {
            return plan_err!("table function '{name}' does not exist");
        };
        let context = SimplifyContext::builder().with_config_options(Arc::clone(self.state.config_options())).build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|e| simplifier.simplify(e)))
            .collect::<DfResult<Vec<_>>>()?;
        Ok(provider_as_source(function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        None
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The catalog as `information_schema` reads it.
#[derive(Debug)]
struct CatalogView {
    catalog: Arc<CatalogState>,
    schemas: HashMap<String, Arc<SchemaView>>,
}

#[derive(Debug, Default)]
struct SchemaView {
    tables: HashMap<String, Arc<TableView>>,
}

#[derive(Debug)]
struct TableView {
    schema: SchemaRef,
    kind: TableType,
    sql: Option<String>,
}

impl CatalogProviderList for CatalogView {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let own = CatalogView { catalog: Arc::clone(&self.catalog), schemas: self.schemas.clone() };
        (name == CATALOG).then(|| Arc::new(own) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for CatalogView {
    fn schema_names(&self) -> Vec<String> {
        self.schemas.keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.schemas.get(name).map(|s| Arc::clone(s) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait::async_trait]
impl SchemaProvider for SchemaView {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.tables.get(name).map(|t| Arc::clone(t) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}

#[async_trait::async_trait]
impl TableProvider for TableView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.kind
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.sql.as_deref()
    }

    async fn scan(
        &self,
        state: &dyn datafusion::catalog::Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
        // Only its description is ever asked for: rows are read through `StoredSource`.
        MemTable::try_new(Arc::clone(&self.schema), vec![vec![]])?.scan(state, projection, filters, limit).await
    }
}
