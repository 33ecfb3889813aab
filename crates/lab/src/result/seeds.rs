//! Records that differ by their seed only, as one: the mean of each figure and its standard deviation.
//!
//! Invariants: records of different settings, lengths or origins are never folded; a figure that some seeds do not have
//! is the mean of those that have it; the records themselves stay as they are.

use std::collections::BTreeMap;

use super::{Metric, Outcome, Record};

/// A point over several seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct OverSeeds {
    /// The mean of every figure; everything else is the first record's.
    pub mean: Record,
    /// The standard deviation of each figure of a sample, in the figure's unit; none of figures that only one seed has.
    pub deviation: BTreeMap<Metric, f64>,
    /// The seeds, in the order of the records.
    pub seeds: Vec<u64>,
}

/// Folds the records of each point, in the order in which points come first.
pub fn over_seeds(records: &[Record]) -> Vec<OverSeeds> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let same = |group: &&mut Vec<&Record>| {
            let first = group[0];
            (first.kind, first.seconds) == (record.kind, record.seconds)
                && first.experiment == record.experiment
                && first.settings == record.settings
                && !group.iter().any(|other| other.seed == record.seed)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups.iter().map(|group| folded(group)).collect()
}

/// The mean and the standard deviation of a sample; no deviation of a single value, nothing of none.
pub(crate) fn spread(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    match values.len() {
        0 => None,
        1 => Some((mean, None)),
        _ => Some((mean, Some((squares / (count - 1.0)).sqrt()))),
    }
}

/// The mean of each piece of time. Where pieces have other ends, as measured ones have, the first seed's stay.
fn over_time(group: &[&Record]) -> Vec<(f64, f64)> {
    let first = &group[0].outcome.over_time;
    let ends = |record: &Record| record.outcome.over_time.iter().map(|(end, _)| *end).collect::<Vec<_>>();
    if group.iter().any(|record| ends(record) != ends(group[0])) {
        return first.clone();
    }
    let mean = |place: usize| {
        let sum: f64 = group.iter().map(|record| record.outcome.over_time[place].1).sum();
        (first[place].0, sum / group.len() as f64)
    };
    (0..first.len()).map(mean).collect()
}

fn folded(group: &[&Record]) -> OverSeeds {
    let seeds = group.iter().map(|record| record.seed).collect();
    if let [one] = group {
        return OverSeeds { mean: (*one).clone(), deviation: BTreeMap::new(), seeds };
    }
    let first = &group[0].outcome;
    let mut metrics = BTreeMap::new();
    let mut deviation = BTreeMap::new();
    let mut every: Vec<Metric> = group.iter().flat_map(|record| record.outcome.metrics.keys().copied()).collect();
    every.sort_unstable();
    every.dedup();
    for metric in every {
        let values: Vec<f64> = group.iter().filter_map(|record| record.get(metric)).collect();
        if let Some((mean, off)) = spread(&values) {
            metrics.insert(metric, mean);
            deviation.extend(off.map(|off| (metric, off)));
        }
    }
    let of_node = |node: usize| -> Vec<f64> {
        group.iter().filter_map(|record| record.outcome.per_node.get(node).copied()).collect()
    };
    let per_node = (0..first.per_node.len()).filter_map(|node| spread(&of_node(node))).map(|(mean, _)| mean).collect();
    let over_time = over_time(group);
    let outcome = Outcome { metrics, per_node, over_time, ..first.clone() };
    OverSeeds { mean: Record { outcome, ..group[0].clone() }, deviation, seeds }
}
