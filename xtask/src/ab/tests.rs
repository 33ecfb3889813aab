//! The statistics against counting by hand, and against machines that are made up: noise alone is seldom taken for a
//! difference, a difference seldom for noise.

use super::*;

/// About normal: mean 0, standard deviation 1.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// One pair on a noisy machine: noise of the moment that both meet, noise of each run, now and then a run that
/// something held up; B takes `factor`.
fn pair(random: &mut Random, factor: f64) -> (f64, f64) {
    let moment = (0.1 * normal(random)).exp();
    let mut run = || {
        let held_up = if random.unit() < 0.05 { 1.0 + 2.0 * random.unit() } else { 1.0 };
        moment * held_up * (0.02 * normal(random)).exp()
    };
    let a = run();
    (a, factor * run())
}

/// What `figures` figures of `rounds` rounds are told to be.
fn experiment(random: &mut Random, figures: usize, rounds: usize, factor: f64) -> (Vec<Verdict>, Verdict) {
    let logs: Vec<Vec<f64>> = (0..figures)
        .map(|_| super::logs(&(0..rounds).map(|_| pair(random, factor)).collect::<Vec<_>>(), true))
        .collect();
    let of = |logs: &[f64]| {
        let chance = signed_rank(logs);
        let ratio = median(logs).exp();
        let verdict = verdict(chance, ratio);
        Comparison { median_a: 0.0, median_b: 0.0, ratio, low: 0.0, high: 0.0, chance, verdict }
    };
    let mut all: Vec<Comparison> = logs.iter().map(|logs| of(logs)).collect();
    correct(all.iter_mut());
    let means: Vec<f64> = (0..rounds).map(|r| logs.iter().map(|logs| logs[r]).sum::<f64>() / figures as f64).collect();
    (all.iter().map(|c| c.verdict).collect(), of(&means).verdict)
}

#[test]
fn a_revision_against_itself_is_seldom_told_to_differ() {
    let mut random = Random::new(7);
    let experiments = 500;
    let mut any = 0;
    let mut overall = 0;
    for _ in 0..experiments {
        let (verdicts, together) = experiment(&mut random, 22, 12, 1.0);
        any += usize::from(verdicts.iter().any(|verdict| *verdict != Verdict::Same));
        overall += usize::from(together != Verdict::Same);
    }
    // 5% of 500 are 25, give or take 10.
    assert!(any <= 40 && overall <= 40, "{any} and {overall} of {experiments}");
    assert!(overall > 3, "a test that never rejects: {overall}");
}

#[test]
fn a_difference_is_found() {
    let mut random = Random::new(11);
    let mut slower = 0;
    let mut faster = 0;
    for _ in 0..100 {
        slower +=
            usize::from(experiment(&mut random, 5, 20, 1.1).0.iter().filter(|v| **v == Verdict::Slower).count() >= 4);
        faster += usize::from(experiment(&mut random, 22, 12, 0.94).1 == Verdict::Faster);
    }
    assert!(slower >= 85 && faster >= 85, "{slower} and {faster} of 100");
}

/// The share of all choices of signs whose smaller sum of ranks is as small.
fn by_counting(differences: &[f64]) -> f64 {
    let (ranks, positive) = doubled_ranks(differences);
    let total: usize = ranks.iter().sum();
    let extreme = positive.min(total - positive);
    let as_extreme = |signs: &u32| {
        let sum: usize = ranks.iter().enumerate().filter(|(i, _)| signs >> i & 1 == 1).map(|(_, rank)| rank).sum();
        sum <= extreme
    };
    let tail = (0..1_u32 << ranks.len()).filter(as_extreme).count() as f64 / f64::from(1_u32 << ranks.len());
    (2.0 * tail).min(1.0)
}

#[test]
fn the_test_is_exact() {
    let mut random = Random::new(3);
    for count in 0..=10 {
        for _ in 0..20 {
            // Small integers: equals and zeros are common.
            let differences: Vec<f64> = (0..count).map(|_| random.below(9) as f64 - 3.0).collect();
            let fast = signed_rank(&differences);
            let slow = by_counting(&differences);
            assert!((fast - slow).abs() < 1e-12, "{differences:?}: {fast} and {slow}");
        }
    }
    // A table's value: six positive differences give 2 / 64.
    assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.0 / 64.0);
    assert_eq!((signed_rank(&[]), signed_rank(&[0.0, 0.0])), (1.0, 1.0));
}

#[test]
fn ratios_say_how_many_times_worse() {
    let slower = compare(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], true);
    assert_eq!((slower.median_a, slower.median_b), (2.0, 4.0));
    assert!(
        (slower.ratio - 2.0).abs() < 1e-12 && (slower.low - 2.0).abs() < 1e-12 && (slower.high - 2.0).abs() < 1e-12
    );
    assert_eq!(slower.verdict, Verdict::Same, "three rounds tell nothing");
    let rates = compare(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], false);
    assert!((rates.ratio - 0.5).abs() < 1e-12);
    let many: Vec<(f64, f64)> = (1..=8).map(|i| (f64::from(i), 1.5 * f64::from(i))).collect();
    assert_eq!((compare(&many, true).verdict, compare(&many, false).verdict), (Verdict::Slower, Verdict::Faster));
}

#[test]
fn many_figures_need_more() {
    let of = |chance: f64| Comparison { ratio: 1.1, chance, ..compare(&[(1.0, 1.1)], true) };
    let mut all = [of(0.04), of(0.001), of(0.02)];
    correct(all.iter_mut());
    let chances: Vec<f64> = all.iter().map(|c| (c.chance * 1e6).round() / 1e6).collect();
    assert_eq!(chances, [0.04, 0.003, 0.04]);
    assert!(all.iter().all(|c| c.verdict == Verdict::Slower));
    let mut all = [of(0.04), of(0.03)];
    correct(all.iter_mut());
    assert!(all.iter().all(|c| c.verdict == Verdict::Same && (c.chance - 0.06).abs() < 1e-12));
}

#[test]
fn the_interval_holds_the_median() {
    let mut random = Random::new(5);
    let values: Vec<f64> = (0..25).map(|_| normal(&mut random)).collect();
    let (low, high) = bootstrap(&values);
    assert!(low < median(&values) && median(&values) < high && high - low < 2.0, "{low} {high}");
    assert_eq!(bootstrap(&values), (low, high));
    assert_eq!(bootstrap(&[]), (0.0, 0.0));
}
