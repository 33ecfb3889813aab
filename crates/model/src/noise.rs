//! Repeatable noise for tests.

use random::Random;

/// A seeded source of noise.
pub(crate) struct Noise(Random);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(Random::new(seed))
    }

    /// Between 0 and 1, even.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.unit()
    }

    /// Between two bounds, even.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Bell-shaped around 0 with standard deviation 1: the sum of twelve, less six.
    pub(crate) fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }

    /// Waits between events that come once per unit of time.
    pub(crate) fn wait(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

/// `n` cases of a property that holds with near certainty and not for every noise: the same ones each time, so that a
/// run of the tests fails for what was changed. `PROPTEST_RNG_SEED` takes others.
pub(crate) fn cases(count: u32) -> proptest::test_runner::Config {
    use proptest::test_runner::{Config, RngSeed};
    let chosen = Config::with_cases(count);
    match chosen.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(20_110_516), failure_persistence: None, ..chosen },
        RngSeed::Fixed(_) => chosen,
    }
}
