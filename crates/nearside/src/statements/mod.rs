//! What each kind of statement does that is no query: one file per kind.

pub(crate) mod conflict;
pub(crate) mod copy;
pub(crate) mod ddl;
pub(crate) mod dml;
pub(crate) mod explain;
pub(crate) mod index;
pub(crate) mod kept;
pub(crate) mod keyed;
pub(crate) mod keys;
pub(crate) mod lasting;
pub(crate) mod load;
pub(crate) mod lock_table;
pub(crate) mod locked_select;
pub(crate) mod merge;
pub(crate) mod merging;
pub(crate) mod options;
pub(crate) mod parameters;
pub(crate) mod placement;
pub(crate) mod returning;
pub(crate) mod small;
pub(crate) mod stage;
pub(crate) mod transaction;
pub(crate) mod types;
pub(crate) mod write;
pub(crate) mod writer;
pub(crate) mod written;
