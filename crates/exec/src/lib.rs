//! Execution: what a lowered SQL statement runs as.
//!
//! A [`Plan`] is a small tree of operators over a snapshot of a table. [`execute`] compiles it into pipelines whose
//! morsels (one per 64 Ki rows of a segment) run as tasks on `sched` workers, each near the pages that it reads, and
//! hands back an [`Execution`] that any number of consumers, synchronous or not, drain together.
//!
//! Invariants:
//! - No SQL and no DataFusion here: functions arrive as [`Expression`], an opaque trait over Arrow arrays.
//! - Values stay codes as long as possible: a predicate is bound to codes once per dictionary, never once per row, and
//!   only rows that survive are materialised.
//! - A worker never blocks on a consumer; a window of morsels is in flight and consuming opens it further.
//! - [`reference`](mod@reference) means the same and is compared by property tests.
//!
//! The design is `docs/design/exec.md`; finding matches and materialising them follows Psaroudakis et al., VLDB 2015,
//! section 5.2.
//!
//! # Limits
//! Nothing spills. docs/design/engine.md and exec.md say what else is not here.

mod charge;
mod chunk;
mod codes;
mod error;
mod eval;
mod keys;
mod mask;
mod operators;
mod optimize;
mod pipe;
mod plan;
pub mod reference;
mod run;
mod scan;
mod tasks;

pub use crate::codes::shared::{ScanSharing, SharedScans};
pub use crate::plan::expression::CompareOp;
pub use crate::plan::expression::{ArithmeticOp, DatePart, Scalar};
pub use crate::plan::predicate::Predicate;
pub use crate::run::context::{BATCH_ROWS, Context};
pub use crate::run::execution::{Execution, execute, execute_checked, execute_on_workers, execute_profiled};
pub use crate::tasks::places::ScanOptions;
pub use charge::batch_bytes;
pub use error::{ExecError, PlanError};
pub use optimize::{estimates, optimize};
pub use plan::expression::Expression;
pub use plan::literal::{Literal, ParameterId};
pub use plan::text::TextTest;
pub use plan::{
    AggregateCall, AggregateFunction, Aggregation, Amount, CheckedPlan, Frame, FrameBound, FrameExclusion, FrameOffset,
    FrameUnits, GroupedRows, GroupingSet, GroupingSets, Join, JoinKind, ListedOperator, OpaqueAggregate, OpaqueGroups,
    OperatorId, Output, PerOperator, Plan, Recursion, RowPieces, RowSource, Shared, Side, Sort, SortKey, Union,
    Unnesting, Window, WindowCall, WindowFunction,
};
pub use run::affinities::{TaskPlace, affinities};
pub use tasks::feedback::{Feedback, TaskShape};
pub use tasks::parallel::SchedParallel;
pub use tasks::profile::{OperatorProfile, Profile};
pub use tasks::rows::{RowsRead, account_rows};
pub use tasks::traffic::{TouchPhase, Touched, TouchedComponent, TouchedTogether, Traffic, TrafficLine};
