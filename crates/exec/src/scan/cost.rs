//! What a morsel costs: an estimate before it runs, for whoever decides where it may run.
//!
//! # Limits
//! Deleted rows and expressions' own memory are not counted.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (hints of tasks) and 6.1.2 (memory-intensive and cpu-intensive
//! tasks).

use sched::Hint;

use crate::tasks::counter::{LINE_BYTES, Read};

/// Picoseconds of cpu time per row, one thread, as `EXPLAIN ANALYZE` told of 16 million rows on an EPYC (Zen 3, 2.4
/// GHz, release build; codes of 13 and 20 bits): only their order of magnitude matters, since they are weighed against
/// a measured threshold. A test of codes by a kernel.
const CODE_TEST_PS: f64 = 260.0;
/// A test of values by an expression, such as `x + y = 3`, its columns decoded.
const ROW_TEST_PS: f64 = 2_000.0;
/// A value of a run of rows, decoded.
const VALUE_PS: f64 = 1_100.0;
/// A value of a row among others that did not pass, gathered at its position.
const GATHERED_VALUE_PS: f64 = 10_000.0;
/// The same where so many pass that whole blocks are unpacked: `bench scan` at 1% and 10% of 30 million rows (Zen 4).
const MARKED_VALUE_PS: f64 = 1_500.0;
/// Share of rows from which on they are.
const MARKED_FRACTION: f64 = 1.0 / 32.0;

/// What a row of a segment is expected to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PerRow {
    bytes: f64,
    cpu_ps: f64,
}

/// What is known of a segment before its morsels run.
pub(super) struct ExpectedWork<'a> {
    pub(super) reads: &'a [Read],
    /// Columns that the filter reads, once per test.
    pub(super) code_tests: &'a [usize],
    pub(super) row_tests: &'a [usize],
    /// Columns that are materialised, and bytes of a row of the output.
    pub(super) outputs: &'a [usize],
    pub(super) output_bytes: u64,
    /// Share of rows that are expected to pass.
    pub(super) fraction: f64,
}

impl PerRow {
    pub(super) fn of(expected: &ExpectedWork<'_>) -> PerRow {
        let width =
            |column: &usize| expected.reads.iter().find(|r| r.column == *column).map_or(0.0, |r| r.bytes_per_row);
        let tested: Vec<usize> = expected.code_tests.iter().chain(expected.row_tests).copied().collect();
        let scanned: f64 = tested.iter().map(width).sum();
        // Of a column that is only materialised, every line that holds a surviving row.
        let gathered = expected.outputs.iter().filter(|column| !tested.contains(column)).map(|column| {
            let width = width(column);
            width.min(expected.fraction * LINE_BYTES)
        });
        let values = expected.fraction * expected.outputs.len() as f64;
        PerRow {
            bytes: scanned + gathered.sum::<f64>() + expected.fraction * expected.output_bytes as f64,
            cpu_ps: CODE_TEST_PS * expected.code_tests.len() as f64
                + ROW_TEST_PS * expected.row_tests.len() as f64
                + values
                    * match expected.fraction {
                        1.0.. => VALUE_PS,
                        MARKED_FRACTION.. => MARKED_VALUE_PS,
                        _ => GATHERED_VALUE_PS,
                    },
        }
    }

    /// So much time and no bytes.
    #[cfg(test)]
    pub(super) fn of_cpu(cpu_ps: f64) -> PerRow {
        PerRow { bytes: 0.0, cpu_ps }
    }

    /// What `n` rows are expected to cost, on top of `hint`.
    pub(super) fn add_to(&self, hint: &mut Hint, rows: usize) {
        hint.bytes += (self.bytes * rows as f64) as u64;
        hint.cpu_ns += (self.cpu_ps * rows as f64 / 1000.0) as u64;
    }
}
