//! Strings that were staged as they are and are worth a dictionary after all.
//!
//! A producer decides while rows come, and does not know how many will; here all rows are there, and sketches tell how
//! many values they have. Encoding them now reads every row a second time, so it is done where values come several
//! times and the column becomes smaller. What is stored in the end is decided by measured size, in [`super::strings`].

use numa::NodeId;

use crate::build::plan::code_bytes;
use crate::build::strings::{VIEW_BYTES, long_len_of};
use crate::error::StoreError;
use crate::kernels::bits_for;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::stage::StagedColumn;
use crate::stage::strings::{StagedStrings, StringStage};

/// How often a value comes on average before rows are read a second time for it: hashing them and sorting the values
/// costs several times what keeping them costs.
const TIMES_MIN: usize = 4;
/// More values than the sketches tell of, by this factor, and encoding is given up.
const VALUES_SLACK: usize = 2;

/// Encodes the strings of columns that are worth it, one task for each producer.
pub(super) fn recoded(
    columns: Vec<Vec<StagedColumn>>,
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Result<Vec<Vec<StagedColumn>>, StoreError> {
    let worth: Vec<Option<usize>> = columns.iter().map(|producers| values_worth(producers)).collect();
    if worth.iter().all(Option::is_none) {
        return Ok(columns);
    }
    let counts: Vec<usize> = columns.iter().map(Vec::len).collect();
    let nodes: Vec<Option<NodeId>> =
        counts.iter().zip(allocators).flat_map(|(count, of)| std::iter::repeat_n(of.home(), *count)).collect();
    let tasks: Vec<(usize, StagedColumn)> = columns
        .into_iter()
        .enumerate()
        .flat_map(|(column, producers)| producers.into_iter().map(move |staged| (column, staged)))
        .collect();
    let encode = |(column, staged): (usize, StagedColumn)| match (staged, worth[column]) {
        (StagedColumn::Strings(StagedStrings::Plain { pieces, .. }), Some(values)) => {
            let encoded = StringStage::encoded(pieces, values, &allocators[column].dictionary())?;
            Ok(StagedColumn::Strings(encoded))
        }
        (staged, _) => Ok(staged),
    };
    let mut done = map(parallel, tasks, &|task| nodes[task], &encode)?.into_iter();
    Ok(counts.into_iter().map(|count| done.by_ref().take(count).collect()).collect())
}

/// How many values a producer of this column may find, where some staged strings as they are and a dictionary pays.
fn values_worth(producers: &[StagedColumn]) -> Option<usize> {
    let strings = || {
        producers.iter().filter_map(|staged| match staged {
            StagedColumn::Strings(strings) => Some(strings),
            _ => None,
        })
    };
    if !strings().any(|strings| matches!(strings, StagedStrings::Plain { .. })) {
        return None;
    }
    let rows = strings().map(StagedStrings::rows).sum();
    let total_bytes = strings().map(StagedStrings::total_bytes).sum();
    let mut sketches = strings().map(StagedStrings::sketch);
    let mut union = sketches.next()?;
    sketches.for_each(|sketch| union.merge(&sketch));
    let values = union.estimate();
    pays(rows, values, total_bytes).then_some(values.saturating_mul(VALUES_SLACK))
}

/// Whether a dictionary of `values` values makes `rows` strings of `total_bytes` bytes smaller, and enough of them
/// share one.
fn pays(rows: usize, values: usize, total_bytes: usize) -> bool {
    let value_bytes = total_bytes.div_ceil(rows.max(1));
    let dictionary = values as u128 * (VIEW_BYTES + long_len_of(value_bytes)) as u128;
    let coded = dictionary + code_bytes(rows, bits_for(u32::try_from(values).unwrap_or(u32::MAX)));
    values.saturating_mul(TIMES_MIN) <= rows && coded < (total_bytes + 4 * rows) as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_pay_and_many_do_not() {
        let m = 1_000_000;
        assert!(pays(10 * m, 100_000, 100 * m));
        assert!(pays(10 * m, m, 120 * m), "as the ten-million-row column of the issue, with ten times the values");
        // Comments of TPC-H at scale 1, and values that come twice.
        assert!(!pays(6 * m, 4_580_000, 160 * m));
        assert!(!pays(10 * m, 5 * m, 500 * m));
        // Values shorter than what their dictionary takes.
        assert!(!pays(10 * m, 5 * m / 2, 10 * m));
        assert!(!pays(0, 0, 0));
    }
}
