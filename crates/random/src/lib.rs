//! The one source of numbers that look random: a small seeded generator, for simulations, random orders and tests.
//!
//! ```
//! let mut random = random::Random::new(7);
//! let die = 1 + random.below(6);
//! assert!((1..=6).contains(&die));
//! assert_eq!(random::Random::new(7).below(6) + 1, die);
//! ```
//!
//! Invariant: the same seed gives the same numbers on every machine and in every version.
//!
//! # Limits
//! Not for secrets. Ranges are drawn by multiplication, whose bias is below 2^-32 for ranges of up to 2^32.
//!
//! Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014 (SplitMix64).

#![deny(unsafe_code)]
#![warn(missing_docs)]

/// What the state moves by.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of numbers from a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let word = mixed(self.state);
        self.state = self.state.wrapping_add(STEP);
        word
    }

    /// A number below `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.below_u64(end as u64) as usize
    }

    /// As [`Random::below`], of 64 bits on every machine.
    pub fn below_u64(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from `low` to `high`, both included; `low` where `high` is less.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let numbers = (i128::from(high) - i128::from(low) + 1).max(1) as u128;
        let word = u128::from(self.next_u64());
        // Of all numbers of 64 bits there are more than a word can count.
        let at = if numbers > u128::from(u64::MAX) { word } else { (word * numbers) >> 64 };
        (i128::from(low) + at as i128) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One of these, if there is any.
    pub fn choose<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| self.pick(from))
    }

    /// Puts these in a random order, each order as likely as any other (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// A number that looks random, for this one alone: `Random::new(number)` begins with it.
pub fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(STEP);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_and_ranges_hold() {
        // The published test vector of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(mixed(1_234_567), 6_457_827_717_110_365_317);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| (-3..=4).contains(&random.between(-3, 4))));
        assert_eq!((random.between(5, 5), random.between(5, 4)), (5, 5));
        assert!((0..1000).any(|_| random.between(i64::MIN, i64::MAX) < 0));
        assert!((0..1000).all(|_| [2, 3].contains(&random.pick(&[2, 3]))));
        let hits = (0..6000).filter(|_| random.one_in(6)).count();
        assert!((850..1150).contains(&hits), "{hits}");
    }

    #[test]
    fn every_order_of_three_comes_about_as_often() {
        let mut random = Random::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
