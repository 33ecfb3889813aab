//! The library from outside: SQL files, sessions, files and failures. One binary of modules, for link time.

mod admission;
mod balancing;
mod conflict;
mod counters;
mod expressions;
mod folders;
mod histories;
mod indexes;
mod merging;
mod placement;
mod placer;
mod prepared;
mod read;
mod scan_sharing;
mod session;
mod slt;
mod small_writes;
mod sources;
mod subqueries;
mod traffic;
mod traffic_operators;
mod transaction_model;
mod transactions;
mod twins;
mod words;
mod writers;
