//! Tables of a folder come into memory: what a query reads before it runs, the rest beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DFSchema, Result as DfResult};
use datafusion_expr::{LogicalPlan, TableScan};
use storage::{ColumnOnDisk, load_columns_with};

use crate::catalog::{TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::background::{self, Background};
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;
use crate::tables::stored::StoredSource;

/// Brings the columns into memory that a plan reads, by all workers.
///
/// # Errors
/// A file that is damaged or cannot be read, no memory, a cancelled statement.
pub(crate) fn load_read(plan: &LogicalPlan, running: &Arc<RunningStatement>) -> Result<()> {
    if running.home.is_resident() {
        return Ok(());
    }
    let mut wanted: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.source.downcast_ref::<StoredSource>()
        {
            wanted.entry(source.id).or_default().extend(read_columns(scan, source)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    for (id, columns) in wanted {
        // A table that is gone is told of by who binds the plan.
        if let Some(table) = running.catalog.by_id(id) {
            table.load(|column| columns.contains(&column), running)?;
        }
    }
    Ok(())
}

/// The columns that a scan has or filters by.
fn read_columns(scan: &TableScan, source: &StoredSource) -> DfResult<Vec<usize>> {
    let all = || (0..source.schema.fields().len()).collect();
    let mut read: Vec<usize> = scan.projection.clone().unwrap_or_else(all);
    if !scan.filters.is_empty() {
        let full = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &source.schema)?;
        for column in scan.filters.iter().flat_map(|filter| filter.column_refs()) {
            read.push(full.index_of_column(column)?);
        }
    }
    Ok(read)
}

/// Has everything brought into memory that is not there, on a thread of its own which ends with the database.
pub(crate) fn load_rest(inner: &Arc<Inner>) -> Result<()> {
    let tables: Vec<Unread> = inner.catalog.state().tables().filter_map(|table| Unread::of(table)).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let (weak, at_once) = (Arc::downgrade(inner), 2 * inner.topology.usable_cpus().len());
    let work = move || {
        for table in tables {
            for columns in table.columns.chunks(at_once) {
                match load(&weak, columns) {
                    Ok(()) => {}
                    // Whoever reads them tries again.
                    Err(Some(error)) => tracing::error!("columns of table '{}' could not be read: {error}", table.name),
                    Err(None) => return,
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("nearside-load".into()).spawn(work);
    thread
        .map(drop)
        .map_err(|e| Error::execution(SqlState::ConfigurationLimitExceeded, format!("no thread could be had: {e}")))
}

/// Columns of a table that are on the disk alone.
struct Unread {
    name: String,
    columns: Vec<Weak<ColumnOnDisk>>,
}

impl Unread {
    fn of(table: &TableEntry) -> Option<Unread> {
        let columns: Vec<_> = table.base.on_disk(|_| true).into_iter().map(Arc::downgrade).collect();
        (!columns.is_empty()).then(|| Unread { name: table.name.shown(), columns })
    }
}

/// Loads some columns, after everything else that the workers have to do.
///
/// # Errors
/// What could not be read; `None` where the database has ended.
fn load(inner: &Weak<Inner>, columns: &[Weak<ColumnOnDisk>]) -> std::result::Result<(), Option<Error>> {
    let inner = inner.upgrade().ok_or(None)?;
    let columns: Vec<Arc<ColumnOnDisk>> = columns.iter().filter_map(Weak::upgrade).collect();
    let statement = background::statement(&inner, "reading columns");
    let workers = Background::new(&inner.scheduler, Arc::clone(&statement));
    inner.reading.begin(&statement);
    drop(inner);
    // Queries get the workers meanwhile, however long the disk takes.
    let load = |column: &ColumnOnDisk| sched::blocking(|| column.load().map(drop));
    let loaded = load_columns_with(columns.iter().collect(), &workers.parallel(), load);
    match workers.finished(loaded, || "reading columns".into()) {
        Err(Error::Cancelled) => Err(None),
        done => done.map_err(Some),
    }
}
