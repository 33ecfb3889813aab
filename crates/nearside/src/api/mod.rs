//! What users hold: a database, its sessions, prepared statements, errors.

mod authorization;
mod control;
mod cursor_statements;
mod cursors;
pub(crate) mod database;
pub(crate) mod keyed;
mod late_checks;
pub(crate) mod logins;
mod modes;
mod on_commit;
mod parsed;
pub(crate) mod plan_times;
pub(crate) mod prepared;
mod prepared_write;
pub(crate) mod query_reference;
pub(crate) mod session;
mod settings;
mod shaped;
mod starts;
mod transactions;
pub(crate) mod wire;
