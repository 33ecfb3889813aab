//! How often things are likely to be asked for, given how often each was.
//!
//! Of many that are asked for equally often some were asked for more often than others by chance. What each is likely
//! to be asked for is what all of them are, as far as chance can have made it what it was (empirical Bayes): the mean
//! of the rates that there are, each weighted by how likely it makes the count. The rates that there are are the counts
//! themselves at first, and then what came of that: two rounds take from a spread about as much as chance makes of it,
//! further ones would take real differences as well.
//!
//! Source: H. Robbins, "An empirical Bayes approach to statistics", 1956, for the idea. That two rounds are right is by
//! computation: of a spread `v` of which chance makes `n`, a round leaves the part `v / (v + n)`.

/// Rounds: see the module.
const ROUNDS: usize = 2;

/// The likely rates behind counts, in the order of these; what was not counted stays 0.
pub(crate) fn expected(counts: &[f64]) -> Vec<f64> {
    let mut rates = counts.to_vec();
    for _ in 0..ROUNDS {
        let known: Vec<(f64, f64)> = rates.iter().filter(|rate| **rate > 0.0).map(|rate| (*rate, rate.ln())).collect();
        rates = counts.iter().map(|count| if *count > 0.0 { likely(*count, &known) } else { 0.0 }).collect();
    }
    rates
}

/// The mean of rates, with their logarithms, by how likely each makes a count (Poisson).
fn likely(count: f64, rates: &[(f64, f64)]) -> f64 {
    let log = |(rate, logarithm): &(f64, f64)| count * logarithm - rate;
    let most = rates.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
    let weights = rates.iter().map(|of| ((log(of) - most).exp(), of.0));
    let (all, weighted) = weights.fold((0.0, 0.0), |(all, sum), (weight, rate)| (all + weight, sum + weight * rate));
    if all > 0.0 { weighted / all } else { count }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::expected;

    /// How often each is drawn of so many draws.
    fn drawn(weights: &[f64], draws: usize, random: &mut Random) -> Vec<f64> {
        let all: f64 = weights.iter().sum();
        let mut counts = vec![0.0; weights.len()];
        for _ in 0..draws {
            let mut left = random.unit() * all;
            let place = weights.iter().position(|weight| {
                left -= weight;
                left < 0.0
            });
            counts[place.unwrap_or(0)] += 1.0;
        }
        counts
    }

    fn error(of: &[f64], weights: &[f64], draws: usize) -> f64 {
        let all: f64 = weights.iter().sum();
        let squares =
            of.iter().zip(weights).map(|(of, weight)| (of / (weight / all * draws as f64) - 1.0).powi(2)).sum::<f64>();
        (squares / of.len() as f64).sqrt()
    }

    /// Forty hot ones among forty cold ones, drawn twenty times each.
    #[test]
    fn equals_are_seen_to_be_equal() {
        let weights: Vec<f64> = (0..80).map(|place| if place % 2 == 0 { 4.0 } else { 1.0 }).collect();
        for seed in 0..20 {
            let counts = drawn(&weights, 2000, &mut Random::new(seed));
            let found = expected(&counts);
            let [before, after] = [&counts, &found].map(|of| error(of, &weights, 2000));
            assert!(after < 0.6 * before, "seed {seed}: {before} and {after}");
        }
    }

    /// What differs by more than chance makes stays about what it was.
    #[test]
    fn differences_are_left() {
        let weights: Vec<f64> = (1..=20).map(f64::from).collect();
        for seed in 0..20 {
            let counts = drawn(&weights, 40_000, &mut Random::new(seed));
            let found = expected(&counts);
            assert!(error(&found, &weights, 40_000) < 0.06, "seed {seed}: {found:?}");
            let few = expected(&drawn(&weights, 400, &mut Random::new(seed)));
            assert!(few[19] > 2.0 * few[2], "seed {seed}: {few:?}");
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_expected() {
        assert_eq!(expected(&[]), [0.0; 0]);
        assert_eq!(expected(&[0.0, 0.0]), [0.0, 0.0]);
        let found = expected(&[0.0, 1e6, 1e-9]);
        assert!(found[0] == 0.0 && (found[1] / 1e6 - 1.0).abs() < 1e-6 && found[2] < 1e-6, "{found:?}");
    }
}
