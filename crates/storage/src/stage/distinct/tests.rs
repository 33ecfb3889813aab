//! Estimates against counting, over columns of several natures.

use std::collections::HashMap;

use proptest::prelude::*;
use random::Random;

use super::*;

/// How the values of a column come.
#[derive(Debug, Clone, Copy)]
enum Nature {
    /// Each of `n` as likely as any other.
    Uniform(usize),
    /// The n-th of `n` with a likelihood of 1 / n.
    Zipf(usize),
    /// `n` rows of one value, then the next value.
    Runs(usize),
    /// Each value once.
    Unique,
}

fn natures() -> impl Strategy<Value = Nature> {
    prop_oneof![
        (1usize..400_000).prop_map(Nature::Uniform),
        (1_000usize..400_000).prop_map(Nature::Zipf),
        (1usize..40).prop_map(Nature::Runs),
        Just(Nature::Unique),
    ]
}

fn column(nature: Nature, rows: usize, random: &mut Random) -> Vec<u64> {
    let salt = random.next_u64();
    let value = |row: usize, random: &mut Random| match nature {
        Nature::Uniform(values) => random.below(values),
        // By the inverse of the sum of 1 / n, which is about a logarithm.
        Nature::Zipf(values) => ((values as f64 + 1.0).powf(random.unit()) - 1.0) as usize,
        Nature::Runs(length) => row / length,
        Nature::Unique => row,
    };
    (0..rows).map(|row| value(row, random) as u64 ^ salt).collect()
}

/// What staging would know after these rows, counted plainly.
fn seen(rows: &[u64]) -> Seen {
    let late_rows = rows.len() / 4;
    let mut counts: HashMap<u64, usize> = HashMap::new();
    let mut late_new = 0;
    for (row, value) in rows.iter().enumerate() {
        let count = counts.entry(*value).or_default();
        late_new += usize::from(*count == 0 && row >= rows.len() - late_rows);
        *count += 1;
    }
    let came = |times: usize| counts.values().filter(|count| **count == times).count();
    Seen { rows: rows.len(), distinct: counts.len(), once: came(1), twice: came(2), late_rows, late_new }
}

fn distinct(rows: &[u64]) -> usize {
    rows.iter().collect::<std::collections::HashSet<_>>().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_sketch_counts_what_it_was_shown(
        nature in natures(), rows in 0usize..60_000, cut in 0usize..60_000, seed: u64,
    ) {
        let values = column(nature, rows, &mut Random::new(seed));
        let mut first = Sketch::new();
        let mut second = Sketch::new();
        let (ahead, behind) = values.split_at(cut.min(rows));
        ahead.iter().for_each(|value| first.add(&value.to_le_bytes()));
        behind.iter().for_each(|value| second.add(&value.to_le_bytes()));
        first.merge(&second);
        let exact = distinct(&values);
        let off = first.estimate().abs_diff(exact);
        let most = 0.1 * exact as f64 + 3.0;
        prop_assert!(off as f64 <= most, "{} instead of {} for {:?}", first.estimate(), exact, nature);
        // The order and how often a value is shown do not matter.
        let mut whole = Sketch::new();
        values.iter().rev().chain(&values).for_each(|value| whole.add(&value.to_le_bytes()));
        prop_assert_eq!(whole.longest, first.longest);
    }

    #[test]
    fn what_is_foretold_comes_about(nature in natures(), times in 1usize..16, seed: u64) {
        const FIRST: usize = 20_000;
        let values = column(nature, FIRST * times, &mut Random::new(seed));
        let exact = distinct(&values) as f64;
        let seen = seen(&values[..FIRST]);
        let foretold = seen.foretold(values.len()) as f64;
        prop_assert!(foretold >= seen.distinct as f64 && foretold <= values.len() as f64);
        // Of a few frequent values and very many rare ones, the rare ones show late.
        let (least, most) = match nature {
            Nature::Zipf(_) => (0.5, 1.5),
            _ => (0.75, 1.25),
        };
        prop_assert!(
            foretold >= least * exact - 50.0 && foretold <= most * exact + 50.0,
            "{} instead of {} after {} rows: {:?}, {:?}", foretold, exact, values.len(), nature, seen
        );
    }
}

#[test]
fn sketches_of_many_values_stay_near() {
    let mut sketch = Sketch::new();
    assert_eq!(sketch.estimate(), 0);
    for (value, checked) in (1..=2_000_000_u64).zip((1..).map(|value: u64| value.is_power_of_two())) {
        sketch.add(&value.to_le_bytes());
        if checked {
            let off = sketch.estimate().abs_diff(value as usize);
            assert!(off as f64 <= 0.07 * value as f64 + 1.0, "{} of {value}", sketch.estimate());
        }
    }
}

#[test]
fn nothing_seen_foretells_nothing() {
    let none = Seen { rows: 0, distinct: 0, once: 0, twice: 0, late_rows: 0, late_new: 0 };
    assert_eq!(none.foretold(1000), 0);
    let one = Seen { rows: 1, distinct: 1, once: 1, twice: 0, late_rows: 0, late_new: 0 };
    assert!((1..=1000).contains(&one.foretold(1000)));
    assert_eq!(one.foretold(0), 1);
}
