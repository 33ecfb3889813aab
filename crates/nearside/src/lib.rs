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
//! [`Database`] holds tables and workers; [`Session`] runs statements; [`ResultStream`] gives rows, as an iterator and as
//! a stream. Synchronous calls park their own thread and may be made inside an async runtime; they never enter one.
//!
//! The way of a statement: `parser` (our statements, else DataFusion's), `context` (names of one catalog state), DataFusion's
//! analysis and optimisation by the rules and functions of a `planner`, `lower` (an `exec::Plan`), then `exec` on `sched`
//! workers. Plans are kept (`plan_cache`) and bound to a snapshot when they start.
//!
//! # Limits
//! One writer at a time per table; no transactions over several statements.

mod any_of_list;
mod catalog;
mod checked;
mod coerce;
mod config;
mod context;
mod copy;
mod correlated;
mod database;
mod ddl;
mod error;
mod explain;
mod files;
mod flat;
mod floats;
mod index;
mod lengths;
mod like;
mod load;
mod lower;
mod names;
mod not_in;
mod optimizer;
mod ordered_sets;
mod parser;
mod placement;
mod plan_cache;
mod plan_times;
mod planner;
mod planning;
mod prepared;
mod quantified;
mod query;
mod query_reference;
mod recording;
mod report;
mod scheduling;
mod series;
mod session;
mod set_all;
mod set_types;
mod shared_queries;
mod sources;
mod sql_text;
mod statement;
mod stream;
mod structure;
mod subquery_places;
mod substring;
mod types;
mod views;
mod volatile;
mod window_frames;
mod write;

pub use ::files::{FileError, FileErrorKind, FileFormat, ReadOptions};
pub use arrow;
pub use database::{Database, DatabaseBuilder};
pub use datafusion_common::ScalarValue;
pub use error::{Error, Position, Result};
pub use load::{BatchProducer, LoadOptions, LoadProgress, LoadReport, ProgressFn};
pub use parser::Piece;
#[doc(hidden)]
pub use plan_times::PlanTimes;
pub use recording::{StatementKind, Workload};
pub use report::{ColumnReport, IndexReport};
pub use session::{CancelHandle, Done, Outcome, Prepared, Session};
pub use stream::ResultStream;
