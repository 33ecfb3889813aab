//! Latencies, counted in steps of about one percent.
//!
//! Invariant: percentiles are within a step of the true ones; mean and spread are exact.
//!
//! # Limits
//! Nothing above 2^63 ns.

/// Steps per doubling.
const STEPS: u32 = 64;

/// Counts of nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: f64,
    squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, ns: u64) {
        let step = step_of(ns);
        if step >= self.counts.len() {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum += ns as f64;
        self.squares += (ns as f64).powi(2);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 where there are none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Their standard deviation.
    fn deviation_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.squares / self.count as f64 - self.mean_ns().powi(2)).max(0.0).sqrt()
    }

    /// Standard deviation over mean: how unfair a workload is to its clients.
    pub fn spread(&self) -> f64 {
        if self.sum > 0.0 { self.deviation_ns() / self.mean_ns() } else { 0.0 }
    }

    /// The least.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The most.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that this share of all (0 to 1) does not exceed, within a step; 0 where there are none.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let wanted = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return value_of(step).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }
}

fn step_of(ns: u64) -> usize {
    if ns < u64::from(STEPS) {
        return ns as usize;
    }
    let doublings = ns.ilog2() - STEPS.ilog2();
    (doublings * STEPS) as usize + (ns >> doublings) as usize
}

/// The largest value of a step.
fn value_of(step: usize) -> u64 {
    let step = step as u64;
    let steps = u64::from(STEPS);
    if step < 2 * steps {
        return step;
    }
    let doublings = step / steps - 1;
    ((step - doublings * steps + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_near_those_of_a_sorted_list(
            mut values in proptest::collection::vec(0u64..1 << 40, 1..200),
            share in 0.0f64..1.0,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let exact = values[((share * values.len() as f64).ceil().max(1.0) as usize - 1).min(values.len() - 1)];
            let told = histogram.percentile_ns(share);
            prop_assert!(told >= exact && told as f64 <= exact as f64 * (1.0 + 1.0 / 64.0) + 1.0, "{} for \
                {}", told, exact);
            prop_assert_eq!(histogram.max_ns(), *values.last().unwrap());
        }
    }

    #[test]
    fn nothing_is_nothing() {
        let none = Histogram::default();
        assert_eq!((none.mean_ns(), none.spread(), none.percentile_ns(0.5)), (0.0, 0.0, 0));
    }
}
