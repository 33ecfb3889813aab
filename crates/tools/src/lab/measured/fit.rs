//! How much of an experiment's table the machine at hand holds.
//!
//! Columns go first, down to one per bit case and some per node, then rows. The room for indexes is reckoned with
//! whether an experiment has them or not, and nothing depends on clients, selectivity, placement or strategy: so all
//! points of a grid have the same table.

use lab::declaration::Columns;

use crate::size::thousands;

/// The share of the memory that one table takes at most: three are kept for the placements that a grid varies.
const TABLE_SHARE: f64 = 0.2;
/// Columns per node that are left at least, so that each node has some of them.
const COLUMNS_PER_NODE: usize = 4;
/// Bytes of an index per row, about.
const INDEX_BYTES: f64 = 6.0;
/// Fewer rows than these are not worth scanning.
const ROWS_MIN: u64 = 100_000;

/// A table that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedTable {
    /// Its rows.
    pub rows: u64,
    /// The bits of each of its columns.
    pub bits: Vec<u32>,
    /// What was cut, in words; `None` where nothing was.
    pub note: Option<String>,
}

/// The table of an experiment, cut to `memory_bytes` and `nodes`.
pub fn fitted(asked: &Columns, memory_bytes: u64, nodes: usize) -> FittedTable {
    let room = memory_bytes as f64 * TABLE_SHARE;
    let cases = (asked.bits_max - asked.bits_min + 1) as usize;
    let all = asked.columns as usize;
    let bits = |columns: usize| (asked.bits_min..=asked.bits_max).cycle().take(columns).collect::<Vec<u32>>();
    let row_bytes = |columns: usize| bits(columns).iter().map(|bits| f64::from(*bits) / 8.0 + INDEX_BYTES).sum::<f64>();
    let least = cases.max(COLUMNS_PER_NODE * nodes).min(all);
    let columns = (least..=all).rev().find(|columns| row_bytes(*columns) * asked.rows as f64 <= room).unwrap_or(least);
    let rows = asked.rows.min((room / row_bytes(columns)) as u64).max(ROWS_MIN.min(asked.rows));
    let mut cut = Vec::new();
    if rows < asked.rows {
        cut.push(format!("{} rows of {}", thousands(rows), thousands(asked.rows)));
    }
    if columns < all {
        cut.push(format!("{columns} columns of {all}"));
    }
    let note = (!cut.is_empty()).then(|| format!("scaled to this machine's memory: {}", cut.join(", ")));
    FittedTable { rows, bits: bits(columns), note }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(rows: u64, columns: u32) -> Columns {
        Columns { rows, columns, ..Columns::default() }
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let all = fitted(&asked(1_000_000, 20), 64 << 30, 1);
        assert_eq!((all.rows, all.bits.len(), all.note), (1_000_000, 20, None));
        assert_eq!(all.bits[..11], [17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 17]);
    }

    #[test]
    fn columns_are_cut_before_rows() {
        let some = fitted(&asked(100_000_000, 160), 128 << 30, 4);
        assert_eq!(some.rows, 100_000_000);
        assert!((16..160).contains(&some.bits.len()), "{}", some.bits.len());
        let few = fitted(&asked(100_000_000, 160), 16 << 30, 4);
        assert_eq!(few.bits.len(), 16);
        assert!((10_000_000..100_000_000).contains(&few.rows), "{}", few.rows);
        assert!(few.note.unwrap().contains("16 columns of 160"));
        assert_eq!(fitted(&asked(100_000_000, 160), 1, 1).rows, ROWS_MIN);
    }

    #[test]
    fn a_grid_has_one_table() {
        let base = fitted(&asked(100_000_000, 160), 32 << 30, 2);
        for index in [false, true] {
            let varied = Columns { index, clients: 7, selectivity: 0.1, parallel: false, ..asked(100_000_000, 160) };
            assert_eq!(fitted(&varied, 32 << 30, 2), base);
        }
    }
}
