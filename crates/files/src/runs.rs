//! Cuts what can be read on its own (row groups, batches) into runs of about equal bytes; pure.

use std::ops::Range;

/// Cuts consecutive items of the given sizes into at most `runs` runs of about equal size; at least one run, which is
/// empty if there is no item.
pub(crate) fn cut_runs(sizes: &[u64], runs: usize) -> Vec<Range<usize>> {
    let total: u128 = sizes.iter().map(|s| u128::from(*s)).sum();
    let runs = runs.clamp(1, sizes.len().max(1));
    let mut result = Vec::with_capacity(runs);
    let mut start = 0;
    let mut done: u128 = 0;
    for (i, size) in sizes.iter().enumerate() {
        done += u128::from(*size);
        let due = done * runs as u128 >= total * (result.len() as u128 + 1);
        // As many items must be left as runs, and the last run takes the rest.
        if due && result.len() + 1 < runs {
            result.push(start..i + 1);
            start = i + 1;
        }
    }
    if start < sizes.len() || result.is_empty() {
        result.push(start..sizes.len());
    }
    result
}

/// Each run with its share of the file's bytes; the shares add up to `file_bytes`.
pub(crate) fn with_shares(
    runs: Vec<Range<usize>>,
    sizes: &[u64],
    file_bytes: u64,
) -> impl Iterator<Item = (Range<usize>, u64)> + use<> {
    let total: u128 = sizes.iter().map(|s| u128::from(*s)).sum::<u128>().max(1);
    let count = runs.len();
    let sums: Vec<u128> = runs.iter().map(|run| sizes[run.clone()].iter().map(|s| u128::from(*s)).sum()).collect();
    let mut given = 0;
    runs.into_iter().zip(sums).enumerate().map(move |(i, (run, sum))| {
        let share = (u128::from(file_bytes) * sum / total) as u64;
        let share = if i + 1 == count { file_bytes - given } else { share };
        given += share;
        (run, share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_all_items_in_order() {
        for (sizes, runs) in
            [(vec![], 4), (vec![5], 4), (vec![1, 1, 1, 1], 2), (vec![0, 0, 9, 0], 3), (vec![7; 100], 8)]
        {
            let cut = cut_runs(&sizes, runs);
            assert!(!cut.is_empty() && cut.len() <= runs);
            assert_eq!(cut[0].start, 0);
            assert_eq!(cut.last().map(|r| r.end), Some(sizes.len()));
            assert!(cut.windows(2).all(|w| w[0].end == w[1].start && w[0].start < w[0].end));
            let shares: u64 = with_shares(cut, &sizes, 1000).map(|(_, bytes)| bytes).sum();
            assert_eq!(shares, 1000);
        }
        assert_eq!(cut_runs(&[1, 1, 1, 1], 2), vec![0..2, 2..4]);
    }
}
