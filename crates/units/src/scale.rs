//! How much tests of drawn statements do: little in an ordinary run, which draws the same each time; four times as
//! much, and other draws in each round, in `cargo xtask soak`. Both say so by the words that proptest reads.

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What is drawn begins with this seed.
pub(crate) fn seed() -> u64 {
    number("PROPTEST_RNG_SEED").unwrap_or(0) << 8
}

/// `ordinary` times, or more.
pub(crate) fn times(ordinary: u64) -> u64 {
    (ordinary * number("PROPTEST_CASES").unwrap_or(256) / 256).max(1)
}
