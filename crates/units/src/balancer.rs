//! Which keys each unit should own of an object, so that all are accessed alike: pure.
//!
//! What was accessed is told as a sample of keys per unit. Where units differ too much, a target is computed for each,
//! by one of the paper's algorithms, and ranges are cut where the sample has that many accesses.
//!
//! `store::balancing` decides by it, and so does the simulator (`sim::workload::shifting`), which is why what a cycle
//! goes by stands here too: how accesses are sampled, from when on they tell enough, and in what pieces copies go.
//!
//! Invariants: no clock, thread, system call or random source; every unit has one range, in the order of units, and
//! ranges leave no gap; the targets of an algorithm sum up to the accesses there were; a moving average over all units
//! is One-Shot.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.3.1. The paper does not say what a moving average does at the ends
//! and with its sum: the window is clipped there, and all targets are scaled alike so that the sum is kept. Its
//! histograms are sampled; keys of the sample in their order are one whose parts have equal counts, so it is as fine as
//! the accesses are, however wide a range is.

use std::fmt;
use std::str::FromStr;

use crate::routing::table::RangeTable;

/// Keys of which one is drawn, in the mean.
pub const KEYS_PER_SAMPLE: u64 = 64;
/// Keys that a partition remembers.
pub const SAMPLES: usize = 1024;
/// The standard deviation of accesses, in parts of their mean, from which on ranges move.
pub const THRESHOLD: f64 = 0.2;
/// Samples per unit, in the mean, without which a cycle waits for more: their own deviation would look like load.
pub const SAMPLES_PER_UNIT: u64 = 64;
/// Pairs that are copied while two units stand still.
pub const PIECE_PAIRS: usize = 1 << 15;
/// The part of the deviation that targets would take away which ranges have to take away themselves.
const GAIN_MIN: f64 = 0.1;

/// How targets are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Nothing is moved.
    #[default]
    Off,
    /// All units get the mean.
    OneShot,
    /// Each unit gets the mean of itself and of its `n` neighbours on either side.
    MovingAverage(u32),
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Off => f.pad("off"),
            Algorithm::OneShot => f.pad("one_shot"),
            Algorithm::MovingAverage(neighbours) => f.pad(&format!("ma({neighbours})")),
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Algorithm, String> {
        let word = text.trim().to_ascii_lowercase();
        let in_brackets = |rest: &str| rest.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim().parse().ok();
        let neighbours = word.strip_prefix("ma").and_then(in_brackets);
        match (word.as_str(), neighbours) {
            ("off", _) => Ok(Algorithm::Off),
            ("one_shot", _) => Ok(Algorithm::OneShot),
            (_, Some(neighbours)) if neighbours > 0 => Ok(Algorithm::MovingAverage(neighbours)),
            _ => Err(format!("a balancer is off, one_shot, or ma(n) with n neighbours of at least 1, not '{text}'")),
        }
    }
}

/// What was accessed of a unit's keys since the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    /// How many accesses there were.
    pub count: f64,
    /// Some of their keys, drawn evenly, in any order.
    pub sample: Vec<u64>,
}

/// A range of keys that changes its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who has it.
    pub from: usize,
    /// Who gets it.
    pub to: usize,
    /// Its first key.
    pub first: u64,
    /// Its last key.
    pub last: u64,
}

/// The standard deviation of loads over their mean; 0 where there is none.
pub fn deviation(loads: &[f64]) -> f64 {
    let count = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / count;
    let variance = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

/// What a cycle makes of what was accessed: the deviation of loads, and a range for each unit where they differ too
/// much to be left and new ranges are worth their transfers.
pub fn decision(seen: &[Accesses], algorithm: Algorithm) -> (f64, Option<RangeTable>) {
    let deviation = deviation(&seen.iter().map(|of| of.count).collect::<Vec<_>>());
    let is_wanted = algorithm != Algorithm::Off && deviation > THRESHOLD;
    let after = is_wanted.then(|| rebalanced(seen, algorithm)).flatten();
    (deviation, after.filter(|after| is_worth(seen, after, algorithm)))
}

/// The load that each unit should have.
pub fn targets(loads: &[f64], algorithm: Algorithm) -> Vec<f64> {
    let sum: f64 = loads.iter().sum();
    let reach = match algorithm {
        Algorithm::Off => return loads.to_vec(),
        Algorithm::OneShot => loads.len(),
        Algorithm::MovingAverage(neighbours) => neighbours as usize,
    };
    let window = |unit: usize| {
        let window = &loads[unit.saturating_sub(reach)..loads.len().min(unit.saturating_add(reach).saturating_add(1))];
        window.iter().sum::<f64>() / window.len() as f64
    };
    let mut targets: Vec<f64> = (0..loads.len()).map(window).collect();
    let scale = sum / targets.iter().sum::<f64>();
    if scale.is_finite() {
        targets.iter_mut().for_each(|target| *target *= scale);
    }
    targets
}

/// A range for each unit after a cycle; `None` where nothing was accessed.
pub fn rebalanced(accesses: &[Accesses], algorithm: Algorithm) -> Option<RangeTable> {
    let weight = |of: &Accesses| of.count / of.sample.len() as f64;
    let weighted = |of: &Accesses| {
        let weight = weight(of);
        of.sample.iter().map(move |key| (*key, weight)).collect::<Vec<_>>()
    };
    let mut sample: Vec<(u64, f64)> = accesses.iter().flat_map(weighted).collect();
    sample.sort_unstable_by_key(|access| access.0);
    if sample.is_empty() {
        return None;
    }
    // Who was accessed and has no sample cannot be cut; it counts for nothing.
    let loads: Vec<f64> = accesses.iter().map(|of| if of.sample.is_empty() { 0.0 } else { of.count }).collect();
    let targets = targets(&loads, algorithm);
    let mut firsts = vec![0];
    let mut wanted = 0.0;
    let mut seen = 0.0;
    let mut next = 0;
    for target in &targets[..targets.len() - 1] {
        wanted += target;
        // An access belongs where most of it lies.
        while next < sample.len() && seen + sample[next].1 / 2.0 < wanted {
            seen += sample[next].1;
            next += 1;
        }
        let cut = sample.get(next).map_or_else(|| sample[next - 1].0.saturating_add(1), |access| access.0);
        // Each unit keeps a key at least, so that there are as many ranges afterwards.
        let least = firsts[firsts.len() - 1] + 1;
        let most = u64::MAX - (targets.len() - firsts.len()) as u64;
        firsts.push(cut.max(least).min(most.max(least)));
    }
    RangeTable::new(firsts)
}

/// Whether accesses like these would be spread enough better over new ranges, a unit's each, for what moving costs. Not
/// where one key has most of them: no cut shares it, and each look would move what lies around it a little.
pub fn is_worth(accesses: &[Accesses], after: &RangeTable, algorithm: Algorithm) -> bool {
    let loads: Vec<f64> = accesses.iter().map(|of| if of.sample.is_empty() { 0.0 } else { of.count }).collect();
    let mut reached = vec![0.0; loads.len()];
    for of in accesses {
        for key in &of.sample {
            reached[after.owner_of(*key)] += of.count / of.sample.len() as f64;
        }
    }
    let before = deviation(&loads);
    let gain = before - deviation(&reached);
    gain > 0.0 && gain >= GAIN_MIN * (before - deviation(&targets(&loads, algorithm)))
}

/// What has to move, in the order of keys.
pub fn transfers(before: &RangeTable, after: &RangeTable) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    let mut first = 0;
    loop {
        let range = before.range_of(first);
        let target = after.range_of(first);
        let from = before.owners()[range];
        let to = after.owners()[target];
        let last = before.last(range).min(after.last(target));
        if from != to {
            transfers.push(Transfer { from, to, first, last });
        }
        match last.checked_add(1) {
            Some(next) => first = next,
            None => return transfers,
        }
    }
}

#[cfg(test)]
mod tests;
