//! Arrow Flight SQL: Arrow's batches over gRPC, for clients of ADBC, JDBC and `pyarrow`.
//!
//! `serve` has connections and their limits, `service` which call is what, `sessions` who calls and what he holds,
//! `statements` statements and their rows, `prepared` those with parameters, whose values `parameters` reads,
//! `transactions` what belongs together, `ingest` batches on their way into a table, `catalog` and `facts` what there
//! is and what the server can, `pieces` messages of a size that clients take, `status` what a client is told when
//! something fails. `docs/design/server.md` has the whole.

mod catalog;
mod facts;
mod ingest;
mod parameters;
mod pieces;
mod prepared;
mod serve;
mod service;
mod sessions;
mod statements;
mod status;
mod transactions;

pub use serve::Flight;
