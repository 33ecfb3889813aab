//! Nearside as a library: an in-memory analytical SQL database that keeps every query next to its data.
//!
//! ```
//! use nearside::Database;
//!
//! # fn main() -> nearside::Result<()> {
//! let database = Database::new()?;
//! let session = database.session();
//! session.execute("CREATE TABLE city (name TEXT, people BIGINT)")?;
//! session.execute("INSERT INTO city VALUES ('Berlin', 3769962), ('Hamburg', 1899160)")?;
//! for batch in session.query("SELECT name FROM city WHERE people > 2000000")? {
//!     assert_eq!(batch?.num_rows(), 1);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Database`] holds tables and workers, in memory or, opened with [`Database::open`], in a folder too; [`Session`]
//! runs statements; [`ResultStream`] gives rows, as an iterator and as a stream. Synchronous calls park their own
//! thread and may be made inside an async runtime; they never enter one.
//!
//! The way of a statement: `sql` (our statements, else DataFusion's parser), `plan` (names of one catalog state,
//! DataFusion's planner, analysis and optimisation) with the rules of `rewrite` and the functions of `functions`,
//! `lower` (an `exec::Plan`), then `run`: `exec` on `sched` workers. Plans are kept and bound to a snapshot when they
//! start. What is no query stands in `statements`, what there is in `catalog`, system views in `views`, what users hold
//! in `api`. Names of columns (`plan::headers`) and messages (`error::words`) are in words of SQL, not of the planner's
//! library. Folders import downwards only, in this order: `catalog`, `functions`, `tables`, `sql`, `rewrite`, `lower`,
//! `plan`, `run`, `views`, `statements`, `durable`, `api`.
//!
//! # Limits
//! One writer at a time per table; no transactions over several statements.

mod api;
mod catalog;
mod durable;
mod error;
mod functions;
mod json;
mod lower;
mod plan;
mod rewrite;
mod run;
mod scram;
mod sql;
mod stack;
mod statements;
mod tables;
mod views;

pub use ::files::{FileError, FileErrorKind, FileFormat, ReadOptions, texts_of_bytes};
pub use api::database::{Database, DatabaseBuilder, FolderReport, RestoredFolder, check_folder, restore_folder};
pub use api::keyed::{KeyColumns, KeyedRows, KeyedTable};
pub use api::logins::Login;
#[doc(hidden)]
pub use api::plan_times::PlanTimes;
pub use api::session::{CancelHandle, Prepared, Session};
pub use api::wire::TableName;
pub use arrow;
pub use catalog::CATALOG as DATABASE_NAME;
pub use catalog::lengths::LENGTH as LENGTH_KEY;
pub use catalog::named_types::TYPE as TYPE_KEY;
pub use catalog::pg_types;
pub use catalog::report::{ColumnReport, IndexReport};
pub use datafusion_common::ScalarValue;
pub use error::codes::{About, Message, SqlState};
pub use error::types::sql_type;
pub use error::{Error, Position, Result};
pub use functions::texts::{scale_of_any_digits, texts_of_values, without_zeros};
pub use run::outcome::{Done, Outcome};
pub use run::recording::{StatementKind, Workload};
pub use run::stream::ResultStream;
pub use scram::Verifier;
pub use sql::ScriptPiece;
pub use statements::load::{BatchProducer, LoadOptions, LoadProgress, LoadReport, ProgressFn};
