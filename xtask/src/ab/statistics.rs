//! Whether two revisions differ: pure functions of paired measurements.
//!
//! The pairs of rounds become logarithms of ratios. Their median is the difference, a bootstrap of it the interval, and
//! Wilcoxon's signed-rank test, exact, says how often as lopsided a set of signs and ranks comes about when the two are
//! the same; Holm's procedure corrects that for the number of figures.
//!
//! Sources: Wilcoxon 1945, "Individual Comparisons by Ranking Methods"; Holm 1979, "A Simple Sequentially Rejective
//! Multiple Test Procedure".
//!
//! # Limits
//! Rounds are taken to be independent of each other; a machine that gets slower all the time is met by alternating who
//! goes first.

use random::Random;

/// Differences that come about by chance more often than this are none.
const CHANCE_MAX: f64 = 0.05;
/// Samples of the bootstrap.
const SAMPLES: usize = 2000;

/// What is told of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better, beyond chance.
    Faster,
    /// B is worse, beyond chance.
    Slower,
    /// It may be chance.
    Same,
}

impl Verdict {
    /// The word of tables; nothing where nothing was found.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "",
        }
    }
}

/// One figure of both revisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The median of A.
    pub median_a: f64,
    /// The median of B.
    pub median_b: f64,
    /// The median over rounds of B divided by A (A divided by B where more is better): above 1, B is worse.
    pub ratio: f64,
    /// Below it, the ratio lies with a chance of 2.5%.
    pub low: f64,
    /// Above it, the same.
    pub high: f64,
    /// How often as large a difference comes about by chance.
    pub chance: f64,
    /// What that means.
    pub verdict: Verdict,
}

/// Compares the numbers of A and B, round by round; all of them above 0.
pub fn compare(pairs: &[(f64, f64)], less_is_better: bool) -> Comparison {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    Comparison { median_a: median(&a), median_b: median(&b), ..judged(&logs(pairs, less_is_better)) }
}

/// All figures as one: the mean logarithm of each round.
pub fn overall(logs: &[Vec<f64>]) -> Comparison {
    let rounds = logs.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |round: usize| logs.iter().map(|logs| logs[round]).sum::<f64>() / logs.len() as f64;
    judged(&(0..rounds).map(mean).collect::<Vec<_>>())
}

/// The logarithms of how many times worse B is, by round.
pub fn logs(pairs: &[(f64, f64)], less_is_better: bool) -> Vec<f64> {
    pairs.iter().map(|(a, b)| if less_is_better { (b / a).ln() } else { (a / b).ln() }).collect()
}

fn judged(logs: &[f64]) -> Comparison {
    let middle = median(logs);
    let (low, high) = bootstrap(logs);
    let chance = signed_rank(logs);
    let ratio = middle.exp();
    let verdict = verdict(chance, ratio);
    Comparison { median_a: 0.0, median_b: 0.0, ratio, low: low.exp(), high: high.exp(), chance, verdict }
}

fn verdict(chance: f64, ratio: f64) -> Verdict {
    match (chance < CHANCE_MAX, ratio) {
        (true, r) if r > 1.0 => Verdict::Slower,
        (true, r) if r < 1.0 => Verdict::Faster,
        _ => Verdict::Same,
    }
}

/// Corrects chances and verdicts for there being many figures (Holm).
pub fn correct<'a>(comparisons: impl Iterator<Item = &'a mut Comparison>) {
    let mut all: Vec<&mut Comparison> = comparisons.collect();
    all.sort_by(|a, b| a.chance.total_cmp(&b.chance));
    let count = all.len();
    let mut least = 0.0_f64;
    for (rank, comparison) in all.into_iter().enumerate() {
        least = least.max((comparison.chance * (count - rank) as f64).min(1.0));
        comparison.chance = least;
        comparison.verdict = verdict(least, comparison.ratio);
    }
}

/// How often signs that are as good as coins give ranks at least as lopsided: Wilcoxon's signed-rank test, two-sided
/// and exact. Zeros are left out, equals share their rank.
fn signed_rank(differences: &[f64]) -> f64 {
    let (ranks, positive) = doubled_ranks(differences);
    let total: usize = ranks.iter().sum();
    // How many of the 2^n choices of signs give each sum of ranks, as shares.
    let mut shares = vec![0.0; total + 1];
    shares[0] = 1.0;
    for rank in ranks {
        for sum in (0..=total).rev() {
            let with = if sum >= rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = (shares[sum] + with) / 2.0;
        }
    }
    let extreme = positive.min(total - positive);
    let tail: f64 = shares[..=extreme].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Twice the rank of each difference by its size, and the sum of those of the positive ones.
fn doubled_ranks(differences: &[f64]) -> (Vec<usize>, usize) {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut ranks = vec![0; sorted.len()];
    let mut from = 0;
    while from < sorted.len() {
        let to = (from..sorted.len()).find(|i| sorted[*i].abs() != sorted[from].abs()).unwrap_or(sorted.len());
        // Ranks from + 1 to `to`, on average, twice.
        ranks[from..to].fill(from + 1 + to);
        from = to;
    }
    let positive = ranks.iter().zip(&sorted).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    (ranks, positive)
}

/// Where the median lies in 95 of 100 samples drawn from the values; always the same for the same values.
fn bootstrap(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mut random = Random::new(0x5EED);
    let sample = |_| median(&(0..values.len()).map(|_| values[random.below(values.len())]).collect::<Vec<_>>());
    let mut medians: Vec<f64> = (0..SAMPLES).map(sample).collect();
    medians.sort_by(f64::total_cmp);
    (medians[SAMPLES * 25 / 1000], medians[SAMPLES * 975 / 1000])
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, half) if n % 2 == 1 => sorted[half],
        (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
