//! What operators of this engine cost, in nanoseconds of one thread.
//!
//! A build side is kept in memory, as an array by key value where the key is one column of integers or vids and else as
//! a hash table; the probe side streams past it. The keys of a build side thin out the scans of the probe side: a row
//! that is dropped by such a test costs next to nothing. So costs are kept apart ([`Cost`]): what a scan costs however
//! few rows are wanted of it, and work that shrinks with the rows that key filters from above leave.

use arrow::datatypes::DataType;

/// Testing a row of a scan against one predicate or key filter on codes.
pub(super) const SCAN_TEST: f64 = 0.3;
/// Handing a row that passed on, with the columns that are read of it.
pub(super) const ROW: f64 = 4.0;
/// Evaluating a condition for a row above a scan.
pub(super) const TEST: f64 = 3.0;
/// Putting a row into a group, by an array or by hash.
pub(super) const GROUP_ARRAY: f64 = 3.0;
pub(super) const GROUP_HASH: f64 = 20.0;
/// Keeping a row of a build side, without its columns.
const BUILD_ARRAY: f64 = 4.0;
const BUILD_HASH: f64 = 25.0;
/// Keeping one column of a row.
const KEPT_COLUMN: f64 = 1.5;
/// Looking a key up where the table fits in the caches of a core, and where it does not.
const PROBE_NEAR: f64 = 2.5;
const PROBE_FAR: f64 = 8.0;
const PROBE_HASH_NEAR: f64 = 8.0;
const PROBE_HASH_FAR: f64 = 25.0;
/// Keys up to which a table is near, four bytes each.
const NEAR_KEYS: f64 = 256.0 * 1024.0;
/// Starting an operator.
pub(super) const START: f64 = 2_000.0;
/// Sorting a row, per doubling of the number of rows.
pub(super) const SORT_STEP: f64 = 4.0;

/// What it takes to hand out the rows of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cost {
    /// Needed whatever key filters say.
    pub(super) fixed: f64,
    /// Shrinks with the rows that key filters from above leave.
    pub(super) work: f64,
}

impl Cost {
    /// Both.
    pub(super) fn total(self) -> f64 {
        self.fixed + self.work
    }
}

/// How the keys of a join are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// One column of integers or vids.
    Array,
    /// Anything else.
    Hash,
    /// No key: every row with every row.
    Loop,
}

/// Keeping `rows` rows of `columns` columns as a build side.
pub(super) fn build(rows: f64, columns: usize, lookup: Lookup) -> f64 {
    let row = if lookup == Lookup::Hash { BUILD_HASH } else { BUILD_ARRAY };
    rows * (row + KEPT_COLUMN * columns as f64)
}

/// Looking up `rows` keys among `kept` rows whose keys have `choices` values.
pub(super) fn probe(rows: f64, kept: f64, choices: f64, lookup: Lookup) -> f64 {
    rows * match lookup {
        Lookup::Array if choices <= NEAR_KEYS => PROBE_NEAR,
        Lookup::Array => PROBE_FAR,
        Lookup::Hash if kept <= NEAR_KEYS / 8.0 => PROBE_HASH_NEAR,
        Lookup::Hash => PROBE_HASH_FAR,
        Lookup::Loop => 1.0 + kept,
    }
}

/// How keys of these types are looked up.
pub(super) fn lookup(types: &[&DataType]) -> Lookup {
    match types {
        [] => Lookup::Loop,
        [one] if !one.is_floating() && !one.is_nested() => Lookup::Array,
        _ => Lookup::Hash,
    }
}
