//! [`Database`]: one machine's memory and workers, and everything stored in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use chrono::{DateTime, Utc};
use numa::{Attributes, Budget, Topology};
use sched::Scheduler;
use units::store::UnitPlace;

use crate::api::keyed::KeyedTable;
use crate::api::session::Session;
use crate::catalog::placement::MachineNodes;
use crate::catalog::report::{self, ColumnReport, IndexReport};
use crate::catalog::roles::FIRST;
use crate::catalog::units::Units;
use crate::catalog::{Catalog, Entry, Name};
use crate::durable;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::recording::Workload;
use crate::statements::load::{self, BatchProducer, LoadOptions, LoadReport};
use crate::views;

/// The share of the usable memory that the budget takes when none is given.
const MEMORY_SHARE: f64 = 0.8;

/// A database in memory, and with a folder on the disk. Clones are handles to the same one; it goes when the last
/// handle, session and result goes.
///
/// ```
/// use nearside::Database;
///
/// # fn main() -> nearside::Result<()> {
/// let database = Database::builder().threads(2).memory_bytes(1 << 30).build()?;
/// let session = database.session();
/// session.execute("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two')")?;
/// let batches = session.query("SELECT b FROM t WHERE a = 2")?.collect_all()?;
/// assert_eq!(batches[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Database {
    pub(super) inner: Arc<Inner>,
}

/// What a database may use.
#[derive(Debug, Default)]
pub struct DatabaseBuilder {
    threads: Option<usize>,
    memory_bytes: Option<u64>,
    topology: Option<Topology>,
    attributes: Option<Attributes>,
    scheduling: sched::Settings,
    folder: Option<PathBuf>,
}

impl DatabaseBuilder {
    /// Worker threads, at most [`sched::Config::THREADS_MAX`]; by default one per cpu that the process may use.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Bytes that tables and statements may hold together; by default four fifths of the memory that the process may
    /// use.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// The machine to run on; by default the one at hand is read. For tests and experiments.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// What was measured of this machine's memory (`nearside probe --json`).
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = Some(attributes);
        self
    }

    /// How tasks are scheduled, where a session does not say otherwise (`SET nearside.scheduling` and the like). A
    /// threshold of 0 for memory-intensive tasks leaves it to the machine (`auto`).
    pub fn scheduling(mut self, settings: sched::Settings) -> Self {
        self.scheduling = settings;
        self
    }

    /// A folder in which what is committed lasts; it is made where it is not there. See [`Database::open`].
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Starts the workers, and opens the folder.
    ///
    /// # Errors
    /// The machine cannot be read, no thread, too many, or no byte is allowed, or the attributes are those of another
    /// machine; as [`Database::open`].
    pub fn build(self) -> Result<Database> {
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::discover()
                .map_err(|e| Error::execution(SqlState::ObjectNotInPrerequisiteState, e.to_string()))?,
        };
        if let Some(attributes) = &self.attributes {
            same_machine(attributes, &topology)?;
        }
        if self.threads == Some(0) {
            return Err(Error::Setting("the number of threads must be at least 1".into()));
        }
        if let Some(threads) = self.threads.filter(|threads| *threads > sched::Config::THREADS_MAX) {
            let most = sched::Config::THREADS_MAX;
            return Err(Error::Setting(format!("{threads} threads are too many: at most {most}, one per cpu is best")));
        }
        let bytes = self.memory_bytes.unwrap_or((topology.memory_bytes() as f64 * MEMORY_SHARE) as u64);
        if bytes == 0 {
            return Err(Error::Setting("the memory budget must be at least 1 byte".into()));
        }
        let topology = Arc::new(topology);
        let budget = Budget::new("database", bytes);
        let threads = self.threads.unwrap_or_else(|| topology.default_threads());
        let settings = self.scheduling;
        let stealing = settings.stealing;
        let binding = settings.binding;
        let config = sched::Config { threads: Some(threads), stealing, binding, settings, ..sched::Config::default() };
        let scheduler = Scheduler::new(Arc::clone(&topology), config);
        let places = UnitPlace::of_slots(&scheduler, &budget);
        let nodes = MachineNodes::of(&topology).with_units(places.iter().map(|place| place.node));
        let units = Arc::new(Units::new(places, &scheduler));
        let catalog = Arc::new(Catalog::new(nodes, Arc::clone(&budget), units));
        let inner = Inner::new(topology, self.attributes, scheduler, budget, catalog, views::system_tables);
        let inner = Arc::new(inner);
        if let Some(folder) = &self.folder {
            durable::open(&inner, folder)?;
        }
        Ok(Database { inner })
    }
}

/// What a folder has that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderReport {
    /// Files that were read.
    pub files: usize,
    /// Bytes of data.
    pub bytes: u64,
    /// Segments of the last checkpoint.
    pub segments: usize,
    /// Records of the log behind it.
    pub records: u64,
    /// Checkpoints before it that the folder can be restored from.
    pub history: usize,
    /// The earliest point of time that it can be restored to.
    pub restorable_from: DateTime<Utc>,
}

/// What [`restore_folder`] copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredFolder {
    /// When the last commit of the copy was made, or the checkpoint before it.
    pub last_at: DateTime<Utc>,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// Reads every byte of a database's folder that nobody has open, and changes none.
///
/// # Errors
/// The first damage, with its file and where in it.
pub fn check_folder(folder: &Path) -> Result<FolderReport> {
    let report = durable::check(folder)?;
    let log_store::CheckReport { files, bytes, segments, records, history, restorable_from_us, .. } = report;
    let restorable_from = durable::time(restorable_from_us);
    Ok(FolderReport { files, bytes, segments, records, history, restorable_from })
}

/// Copies a database's folder that nobody has open to a new one, as it was at a point of time: all that was committed
/// by then, and nothing else. How far a folder goes back is `nearside.restore_window_s`; a backup goes back as far as
/// its folder did.
///
/// # Errors
/// The folder does not go back so far; something in it is damaged; there is something in the new one.
pub fn restore_folder(folder: &Path, to: &Path, at: DateTime<Utc>) -> Result<RestoredFolder> {
    let report = durable::restore_folder(folder, to, at)?;
    Ok(RestoredFolder { last_at: durable::time(report.time_us), bytes: report.bytes })
}

/// Fails when figures were measured on a machine of other nodes or cpus.
fn same_machine(attributes: &Attributes, topology: &Topology) -> Result<()> {
    let shape = |t: &Topology| t.nodes().iter().map(|n| (n.id, n.cpus.clone())).collect::<Vec<_>>();
    if shape(&attributes.topology) == shape(topology) {
        return Ok(());
    }
    Err(Error::Setting(format!(
        "the figures given are those of another machine ({}: {} nodes, {} cpus; this one: {} nodes, {} cpus); run \
         nearside probe here",
        attributes.machine,
        attributes.topology.nodes().len(),
        attributes.topology.online_cpus().len(),
        topology.nodes().len(),
        topology.online_cpus().len()
    )))
}

impl Database {
    /// An empty database with the machine's defaults.
    ///
    /// # Errors
    /// The machine cannot be read.
    pub fn new() -> Result<Database> {
        Database::builder().build()
    }

    /// The database in a folder, or a new one where the folder is empty or not there. Statements
    /// read the columns that they need, the rest is read beside them; what is committed from then on lasts, through any
    /// crash once the statement has ended (`SET synchronous_commit`).
    ///
    /// ```
    /// # fn main() -> nearside::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let folder = dir.path().join("shop");
    /// use nearside::Database;
    ///
    /// let database = Database::open(&folder)?;
    /// database.session().execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")?;
    /// drop(database);
    ///
    /// let database = Database::open(&folder)?;
    /// assert_eq!(database.session().query("SELECT * FROM t")?.collect_all()?[0].num_rows(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Another process has it, it holds something else, a file of it is missing, cut off or of another version, it does
    /// not fit into memory. Damage within a column is told by the statements that read it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Database> {
        Database::builder().folder(folder).build()
    }

    /// An empty database with limits of your own.
    pub fn builder() -> DatabaseBuilder {
        DatabaseBuilder::default()
    }

    /// A session: settings, prepared statements and what is cancelled together.
    pub fn session(&self) -> Session {
        Session::new(Arc::clone(&self.inner), FIRST)
    }

    /// Cancels a statement of any session by its `statement_time` in `nearside.statements`; false where it is over.
    pub fn cancel_statement(&self, statement_time: u64) -> bool {
        self.inner.sessions.cancel(statement_time)
    }

    /// How many statements of all sessions were begun since the database was started, and how many of those have
    /// failed.
    pub fn statement_counts(&self) -> (u64, u64) {
        self.inner.statements.read()
    }

    /// Rows of a table by its primary key, in batches, without SQL.
    ///
    /// # Errors
    /// There is no such table, or it has no primary key.
    pub fn keyed(&self, table: &str) -> Result<KeyedTable> {
        KeyedTable::new(Arc::clone(&self.inner), table)
    }

    /// Loads a file, folder or glob of Parquet, CSV, TSV, JSON lines or Arrow IPC into a new table.
    ///
    /// ```no_run
    /// # fn main() -> nearside::Result<()> {
    /// let database = nearside::Database::new()?;
    /// let report = database.load("lineitem", "data/lineitem*.parquet", &Default::default())?;
    /// println!("{} rows", report.rows);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A file that is missing, damaged or does not fit its types; a name that is taken (unless `replace`); a full
    /// budget or node. Then no table exists.
    pub fn load(&self, table: &str, path: &str, options: &LoadOptions) -> Result<LoadReport> {
        load::load_files(&self.inner, table, path, options)
    }

    /// [`Database::load`] for Parquet.
    pub fn load_parquet(&self, table: &str, path: &str) -> Result<LoadReport> {
        self.load(table, path, &LoadOptions::of(files::FileFormat::Parquet))
    }

    /// [`Database::load`] for CSV.
    pub fn load_csv(&self, table: &str, path: &str) -> Result<LoadReport> {
        self.load(table, path, &LoadOptions::of(files::FileFormat::Csv))
    }

    /// [`Database::load`] for JSON lines.
    pub fn load_json(&self, table: &str, path: &str) -> Result<LoadReport> {
        self.load(table, path, &LoadOptions::of(files::FileFormat::JsonLines))
    }

    /// [`Database::load`] for Arrow IPC.
    pub fn load_arrow(&self, table: &str, path: &str) -> Result<LoadReport> {
        self.load(table, path, &LoadOptions::of(files::FileFormat::ArrowIpc))
    }

    /// Loads a new table from producers of batches that run in parallel; rows keep the order of the producers.
    ///
    /// # Errors
    /// As [`Database::load`], and the first error of a producer.
    pub fn load_batches(
        &self,
        table: &str,
        schema: SchemaRef,
        producers: Vec<BatchProducer>,
        options: &LoadOptions,
    ) -> Result<LoadReport> {
        load::load_batches(&self.inner, table, schema, producers, options)
    }

    /// Stores batches as a new table.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # fn main() -> nearside::Result<()> {
    /// use nearside::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    ///
    /// let database = nearside::Database::new()?;
    /// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// database.register("numbers", vec![RecordBatch::try_from_iter([("n", column)])?])?;
    /// let sum = database.session().query("SELECT sum(n) FROM numbers")?.collect_all()?;
    /// assert_eq!(sum[0].num_rows(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// No batch (a table needs columns), batches of different columns, a name that is taken, a full budget.
    pub fn register(&self, table: &str, batches: Vec<RecordBatch>) -> Result<()> {
        let schema = match batches.first() {
            Some(batch) => batch.schema(),
            None => {
                return Err(Error::plan(
                    SqlState::InvalidParameterValue,
                    "register needs at least one batch, if only an empty one, to know the columns",
                ));
            }
        };
        let producer: BatchProducer = Box::new(batches.into_iter().map(Ok));
        load::load_batches(&self.inner, table, schema, vec![producer], &LoadOptions::default()).map(|_| ())
    }

    /// The tables and views, as a statement would name them, in order.
    pub fn table_names(&self) -> Vec<String> {
        self.inner.catalog.state().entries().map(|(name, _)| name.shown()).collect()
    }

    /// The columns of a stored table; empty for any other name.
    pub fn column_names(&self, table: &str) -> Vec<String> {
        let state = self.inner.catalog.state();
        let Ok(name) = Name::resolve(&table.into()) else { return Vec::new() };
        match state.get(&name) {
            Some(Entry::Table(t)) => t.base.schema.fields().iter().map(|f| f.name().clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The machine.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.inner.topology
    }

    /// The workers.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.inner.scheduler
    }

    /// The budget of tables and statements.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.inner.budget
    }

    /// Records what the statements of all sessions read and compute from now on, or (as at the start) only those of
    /// sessions with `nearside.record_workload` on. Recorded statements run profiled, which costs looks at the clock.
    pub fn record_workload(&self, on: bool) {
        self.inner.recorder.set(on);
    }

    /// What was recorded so far, by kind of statement (`nearside.workload`).
    pub fn workload(&self) -> Workload {
        self.inner.recorder.workload()
    }

    /// Forgets what was recorded.
    pub fn clear_workload(&self) {
        self.inner.recorder.clear();
    }

    /// The indexes of all tables, those of keys among them.
    pub fn index_report(&self) -> Vec<IndexReport> {
        report::indexes(&self.inner.catalog.state())
    }

    /// How each stored column is encoded and where it lies, read from the kernel.
    pub fn storage_report(&self) -> Vec<ColumnReport> {
        report::columns(&self.inner.catalog.state())
    }
}
