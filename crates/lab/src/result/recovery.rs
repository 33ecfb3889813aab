//! How throughput falls and comes back after changes of what is done.
//!
//! Pure. Of one run only, each time between two changes for itself: its lowest throughput, when it was back at its
//! highest, and how high that is beside what there was before the first change. A run that stays where it fell is back
//! at once, at a low level; one that goes on rising is back late.

use super::{Metric, Outcome};

/// Throughput has come back when it stays above this share of the highest until the next change.
const BACK: f64 = 0.9;

/// Adds what is told of changes at these seconds: the lowest throughput after a change, how long it took until it
/// stayed above 90% of the highest, and the highest as a share of what it was before the first change; means over
/// the changes. Nothing where nothing was done before the first change or after it.
#[must_use]
pub fn with_recovery(outcome: Outcome, changes: &[f64]) -> Outcome {
    let Some([lowest, recovery, regained]) = recovery(&outcome.over_time, changes) else { return outcome };
    outcome.with(Metric::Lowest, lowest).with(Metric::Recovery, recovery).with(Metric::Regained, regained)
}

fn recovery(over_time: &[(f64, f64)], changes: &[f64]) -> Option<[f64; 3]> {
    let first = *changes.first()?;
    let starts = std::iter::once(0.0).chain(over_time.iter().map(|(end, _)| *end));
    let ticks: Vec<(f64, f64, f64)> = starts.zip(over_time).map(|(start, (end, rate))| (start, *end, *rate)).collect();
    // The first half of that time is for warming up.
    let before: Vec<f64> =
        ticks.iter().filter(|(start, end, _)| *start >= first / 2.0 && *end <= first).map(|tick| tick.2).collect();
    let usual = before.iter().sum::<f64>() / before.len() as f64;
    if !(usual.is_finite() && usual > 0.0) {
        return None;
    }
    let end = ticks.last()?.1;
    let mut lowest = Vec::new();
    let mut took = Vec::new();
    let mut regained = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let until = changes.get(at + 1).copied().unwrap_or(end).min(end);
        // What lies across a change belongs to neither side.
        let own = || ticks.iter().filter(|(start, end, _)| *start >= *change && *end <= until);
        let Some(low) = own().map(|tick| tick.2).reduce(f64::min) else { continue };
        let high = own().map(|tick| tick.2).fold(0.0, f64::max);
        lowest.push(low);
        took.push(own().filter(|tick| tick.2 < BACK * high).map(|tick| tick.1 - change).fold(0.0, f64::max));
        regained.push(high / usual);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (!lowest.is_empty()).then(|| [mean(&lowest), mean(&took), mean(&regained)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rates: &[f64], changes: &[f64]) -> Option<[f64; 3]> {
        let over_time: Vec<(f64, f64)> = rates.iter().enumerate().map(|(at, rate)| (at as f64 + 1.0, *rate)).collect();
        recovery(&over_time, changes)
    }

    #[test]
    fn the_lowest_and_the_time_until_the_highest_is_back() {
        // Warming up, usual; a fall and back after three seconds; none; one that rises until the end.
        let rates = [1.0, 5.0, 10.0, 10.0, 8.0, 2.0, 8.0, 9.5, 10.0, 9.1, 9.5, 9.0, 4.0, 3.0, 5.0];
        assert_eq!(told(&rates[..8], &[4.0]), Some([2.0, 3.0, 0.95]));
        let [lowest, took, regained] = told(&rates, &[4.0, 8.0, 12.0]).unwrap();
        assert!((lowest - (2.0 + 9.0 + 3.0) / 3.0).abs() < 1e-9);
        assert!((took - (3.0 + 0.0 + 2.0) / 3.0).abs() < 1e-9);
        assert!((regained - (0.95 + 1.0 + 0.5) / 3.0).abs() < 1e-9);
        // A second fall counts until it is over, too; who stays down is back at once, at a low level.
        assert_eq!(told(&[10.0, 10.0, 1.0, 10.0, 1.0, 10.0], &[2.0]), Some([1.0, 3.0, 1.0]));
        assert_eq!(told(&[10.0, 10.0, 5.0, 5.0], &[2.0]), Some([5.0, 0.0, 0.5]));
    }

    #[test]
    fn what_was_not_run_is_not_told() {
        assert_eq!(told(&[10.0, 10.0], &[2.0]), None, "nothing after the change");
        assert_eq!(told(&[0.0, 0.0, 5.0], &[2.0]), None, "nothing before it");
        assert_eq!(told(&[], &[2.0]), None);
        assert_eq!(told(&[10.0, 10.0, 5.0], &[]), None);
        let later = told(&[10.0, 10.0, 5.0], &[2.0, 30.0]);
        assert_eq!(later, Some([5.0, 0.0, 0.5]), "changes that came later do not count");
        let outcome = Outcome { over_time: vec![(1.0, 4.0), (2.0, 4.0), (3.0, 1.0), (4.0, 2.0)], ..Outcome::default() };
        let metrics = with_recovery(outcome, &[2.0]).metrics;
        assert_eq!([Metric::Lowest, Metric::Recovery, Metric::Regained].map(|of| metrics[&of]), [1.0, 1.0, 0.5]);
    }
}
