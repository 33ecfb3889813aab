//! [`SystemTables`]: what the planner asks of those who know the machine and what runs on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use chrono::{DateTime, Utc};
use datafusion_expr::{ScalarUDF, TableSource};

use crate::catalog::{CatalogState, Name};
use crate::error::Result;
use crate::functions::catalog_asked::Answers;
use crate::plan::planner::Planner;
use crate::plan::updatable::Updatable;

/// A table or view as `information_schema` describes it.
#[derive(Debug)]
pub(crate) struct TableDescription {
    /// Names and types of its columns.
    pub schema: SchemaRef,
    /// Whether it is a view.
    pub is_view: bool,
    /// Its query, where it is one.
    pub sql: Option<String>,
    /// How it is written, where it is a view that can be.
    pub written: Option<Updatable>,
}

/// Tables and views by name, schema by schema.
pub(crate) type Descriptions = BTreeMap<String, BTreeMap<String, TableDescription>>;

/// What a statement tells of the session that it is one of.
#[derive(Debug, Clone)]
pub(crate) struct OfSession {
    /// Which of the process's sessions.
    pub number: i32,
    /// The name of its current role.
    pub user: String,
    /// The name of the role that it is of.
    pub session_user: String,
    /// The number of its current role.
    pub user_id: u32,
    /// What SHOW role says: the current role, or `none` where it is the session's.
    pub role: String,
    /// Whether the current role may do everything.
    pub is_superuser: bool,
    /// The schemas in which names without one are looked up.
    pub path: Vec<String>,
    /// The level of its transaction.
    pub level: String,
    /// Whether its transaction is read only.
    pub is_read_only: bool,
    /// When the statement began.
    pub started: DateTime<Utc>,
}

/// The system views and `information_schema`.
pub(crate) trait SystemTables {
    /// Names and columns of all system views.
    fn schemas(&self) -> Vec<(&'static str, SchemaRef)>;

    /// The rows of a system view as they are now.
    ///
    /// # Errors
    /// There is no such view.
    fn view(&self, name: &Name, catalog: &CatalogState, planner: &Planner) -> Result<Arc<dyn TableSource>>;

    /// The settings, under the names that SET takes.
    ///
    /// # Errors
    /// None that settings have.
    fn settings(&self, planner: &Planner) -> Result<Arc<dyn TableSource>>;

    /// A function that a session asks about itself, with what it answers; `None` for other functions.
    fn session_function(&self, name: &str, planner: &Planner, of: &OfSession) -> Option<Arc<ScalarUDF>>;

    /// The rows of a table of `pg_catalog`, of what there is; `None` where there is no such table.
    ///
    /// # Errors
    /// None that rows of the catalog have.
    fn pg_catalog(
        &self,
        table: &str,
        all: (&Descriptions, &CatalogState),
        planner: &Planner,
        of: &OfSession,
    ) -> Result<Option<Arc<dyn TableSource>>>;

    /// Whether `pg_catalog` has a table of the name.
    fn is_in_pg_catalog(&self, table: &str) -> bool;

    /// Names of the tables of `pg_catalog`.
    fn names_in_pg_catalog(&self) -> Vec<&'static str>;

    /// What functions that ask the catalog are answered.
    fn answers(&self, state: &Arc<CatalogState>, planner: &Planner, of: &OfSession) -> Arc<dyn Answers>;

    /// The rows of a view of `information_schema`, of what there is; `None` where there is no such view.
    ///
    /// # Errors
    /// None that rows of the catalog have.
    fn information(
        &self,
        view: &str,
        all: (&Descriptions, &CatalogState),
        planner: &Planner,
        of: &OfSession,
    ) -> Result<Option<Arc<dyn TableSource>>>;
}
