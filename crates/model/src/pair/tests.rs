use proptest::prelude::*;

use super::*;
use crate::curve::{Interpolation, Outside};
use crate::thesis::System;

fn curve() -> Curve {
    Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

/// What section 5.4 does, played with the plain model: both jobs repeat until `t_min`, then again one after the other.
fn play(curve: &Curve, one: (PlainJob, f64), two: (PlainJob, f64), t_min_s: f64) -> f64 {
    let (time1, time2) = predict_s(curve, one, two);
    let runs = |time_s: f64| -> Vec<RunTime> {
        let count = ((t_min_s + time1.max(time2)) / time_s).ceil() as usize + 2;
        (0..count).map(|n| RunTime { start_s: n as f64 * time_s, stop_s: (n + 1) as f64 * time_s }).collect()
    };
    let measured = Measurement::of_runs(&runs(time1), &runs(time2), t_min_s).expect("good runs");
    let cpus = one.1 + two.1;
    let sequential = |job: PlainJob, runs: f64| {
        let runs = runs.ceil() as u32;
        Sequential { total_s: f64::from(runs) * job.time_s(curve, cpus, 0.0), runs }
    };
    measured.rho([sequential(one.0, measured.runs[0]), sequential(two.0, measured.runs[1])]).expect("positive times")
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn measuring_the_model_gives_its_gain(
        q1 in 0.0f64..1.0, q2 in 0.0f64..1.0, t1 in 0.1f64..3.0, t2 in 0.1f64..3.0, cpus1 in 1u32..5, cpus2 in 1u32..5,
    ) {
        // With unequal cpus too, which the thesis' formula does not cover.
        let (cpus1, cpus2) = (f64::from(cpus1), f64::from(cpus2));
        let played = play(&curve(), (PlainJob { q: q1, t_s: t1 }, cpus1), (PlainJob { q: q2, t_s: t2 }, cpus2), 20.0);
        let predicted = rho_model(&curve(), (q1, cpus1), (q2, cpus2));
        prop_assert!((played - predicted).abs() < 1e-6, "{played} {predicted}");
    }

    #[test]
    fn halves_give_the_formula_of_the_thesis(q1 in -0.2f64..1.0, q2 in -0.2f64..1.0, cpus in 1u32..5) {
        let (curve, cpus) = (curve(), f64::from(cpus));
        let together = cpus * q1 + cpus * q2;
        let (pi1, pi2) = (cost(&curve, q1, together), cost(&curve, q2, together));
        let (sigma1, sigma2) = (cost(&curve, q1, 2.0 * cpus * q1), cost(&curve, q2, 2.0 * cpus * q2));
        let published = 1.0 - 2.0 * pi1 * pi2 / (sigma1 * pi2 + pi1 * sigma2);
        prop_assert!((rho_model(&curve, (q1, cpus), (q2, cpus)) - published).abs() < 1e-12);
    }

    #[test]
    fn equals_gain_nothing(q in 0.0f64..1.0, cpus1 in 1u32..5, cpus2 in 1u32..5) {
        prop_assert!(rho_model(&curve(), (q, f64::from(cpus1)), (q, f64::from(cpus2))).abs() < 1e-12);
    }
}

#[test]
fn running_together_never_costs_on_the_measured_curve() {
    // Section 5.4.1 claims rho_model >= 0; it is looked for on a grid, on both machines' straight-line curves.
    let mut least = f64::MAX;
    for system in System::ALL {
        let curve = Curve::of_threads(&system.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve");
        for (one, two) in
            (0..=50).flat_map(|one| (0..=50).map(move |two| (f64::from(one) / 50.0, f64::from(two) / 50.0)))
        {
            for cpus in 1..system.cores() as u32 {
                let (cpus, rest) = (f64::from(cpus), system.cores() - f64::from(cpus));
                least = least.min(rho_model(&curve, (one, cpus), (two, rest)));
            }
        }
    }
    println!("least gain {least}");
    assert!(least > -1e-9, "{least}");
}

fn runs(times: &[(f64, f64)]) -> Vec<RunTime> {
    times.iter().map(|&(start_s, stop_s)| RunTime { start_s, stop_s }).collect()
}

#[test]
fn the_run_under_way_counts_in_part() {
    // The example of Figure 5.7: job 1 stops the clock at 12, job 2 is two thirds through its third run then.
    let one = runs(&[(0.0, 4.0), (4.0, 8.0), (8.0, 12.0), (12.0, 16.0)]);
    let two = runs(&[(0.0, 5.0), (5.0, 10.0), (10.0, 13.0)]);
    let measured = Measurement::of_runs(&one, &two, 10.5).expect("good runs");
    assert_eq!(measured.t_par_s, 12.0);
    assert_eq!(measured.runs[0], 3.0);
    assert!((measured.runs[1] - (2.0 + 2.0 / 3.0)).abs() < 1e-12);
    // The same with the jobs' roles changed.
    let turned = Measurement::of_runs(&two, &one, 10.5).expect("good runs");
    assert_eq!((turned.runs[0], turned.runs[1]), (measured.runs[1], measured.runs[0]));
    // 3 runs of 3 s and 3 runs of 4.5 s alone, of which 2.667 count: 9 + 12 = 21 s one after the other.
    let alone = [Sequential { total_s: 9.0, runs: 3 }, Sequential { total_s: 13.5, runs: 3 }];
    assert!((measured.rho(alone).expect("positive") - (1.0 - 12.0 / 21.0)).abs() < 1e-12);
}

#[test]
fn ends_at_the_same_instant_and_pauses_between_runs() {
    let measured =
        Measurement::of_runs(&runs(&[(0.0, 2.0), (2.0, 4.0)]), &runs(&[(0.0, 4.0)]), 3.0).expect("good runs");
    assert_eq!(measured.runs, [2.0, 1.0]);
    let paused = Measurement::of_runs(&runs(&[(0.0, 4.0)]), &runs(&[(0.0, 2.0), (4.5, 6.0)]), 4.0).expect("good runs");
    assert_eq!(paused.runs, [1.0, 1.0]);
}

#[test]
fn runs_that_measure_nothing() {
    let good = runs(&[(0.0, 4.0), (4.0, 8.0)]);
    let of = |second: &[(f64, f64)], t_min_s: f64| Measurement::of_runs(&good, &runs(second), t_min_s);
    assert_eq!(of(&[(0.0, 3.0), (2.0, 5.0)], 4.0), Err(MeasureError::BadRun { job: 2, index: 1 }));
    assert_eq!(of(&[(0.0, 3.0)], 100.0), Err(MeasureError::TooShort { t_min_s: 100.0 }));
    assert_eq!(of(&[(0.0, 3.0)], 8.0), Err(MeasureError::Gap { job: 2, t_par_s: 8.0 }));
    let measured = of(&[(0.0, 9.0)], 4.0).expect("good runs");
    let none = Sequential { total_s: 0.0, runs: 0 };
    let some = Sequential { total_s: 1.0, runs: 1 };
    assert!(matches!(measured.rho([some, none]), Err(MeasureError::BadSequential { job: 2, .. })));
}
