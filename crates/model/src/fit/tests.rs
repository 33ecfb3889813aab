use proptest::prelude::*;

use super::*;
use crate::curve::{Curve, Interpolation, Outside};
use crate::plain::PlainJob;
use crate::thesis::System;

fn lines() -> Curve {
    Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

fn run(cpus: f64, memory_hogs: f64, time_s: f64) -> Run {
    Run { cpus, memory_hogs, computing_hogs: 0.0, time_s, traffic_unit_s: None }
}

/// Figure 5.1: every number of cpus beside every number of hogs that leaves it them.
fn figure_5_1(cores: u32, time_s: impl Fn(f64, f64) -> f64) -> Vec<Run> {
    let settings = (1..=cores).flat_map(|cpus| (0..=cores - cpus).map(move |hogs| (f64::from(cpus), f64::from(hogs))));
    settings.map(|(cpus, hogs)| run(cpus, hogs, time_s(cpus, hogs))).collect()
}

proptest! {
    #[test]
    fn both_ways_find_what_was_there(q in 0.0f64..1.0, t_s in 0.01f64..100.0, seconds: bool, noise in prop::collection::vec(-0.02f64..0.02, 36)) {
        let residuals = if seconds { Residuals::Seconds } else { Residuals::Relative };
        let (curve, job) = (lines(), PlainJob { q, t_s });
        let exact = figure_5_1(8, |cpus, hogs| job.time_s(&curve, cpus, hogs));
        let found = fit_plain(&curve, &exact, residuals).expect("enough runs");
        prop_assert!((found.job.q - q).abs() < 1e-5 && (found.job.t_s / t_s - 1.0).abs() < 1e-5, "{found:?}");
        prop_assert!(found.mean_error < 1e-5);

        let noisy: Vec<Run> = exact.iter().zip(noise).map(|(run, noise)| Run { time_s: run.time_s * (1.0 + noise), ..*run }).collect();
        let fast = fit_plain(&curve, &noisy, residuals).expect("enough runs");
        let slow = fit_plain_by_grid(&curve, &noisy, residuals).expect("enough runs");
        prop_assert!(fast.squares <= slow.squares * (1.0 + 1e-6) + 1e-15, "{fast:?} {slow:?}");
        prop_assert!((fast.job.q - q).abs() < 0.05, "2% of noise: {fast:?} for {q}");
    }
}

#[test]
fn the_jobs_of_the_thesis_are_found_again() {
    // With its own spline, negative q included: Opteron query 1 has -24%.
    for system in System::ALL {
        let curve = system.curve().expect("a curve");
        for query in system.queries() {
            let runs = figure_5_1(system.cores() as u32, |cpus, hogs| query.job.time_s(&curve, cpus, hogs));
            let found = fit_plain(&curve, &runs, Residuals::Seconds).expect("enough runs");
            assert!((found.job.q - query.job.q).abs() < 1e-6, "{system:?} {query:?} {found:?}");
            assert!((found.job.t_s - query.job.t_s).abs() < 1e-6, "{system:?} {query:?} {found:?}");
        }
    }
}

#[test]
fn what_cannot_be_fitted_is_told() {
    let curve = lines();
    let of = |runs: &[Run]| fit_plain(&curve, runs, Residuals::Relative);
    assert_eq!(of(&[]), Err(FitError::TooFew { settings: 0 }));
    assert_eq!(of(&[run(1.0, 0.0, 2.0), run(1.0, 0.0, 2.1)]), Err(FitError::TooFew { settings: 1 }));
    assert!(matches!(of(&[run(1.0, 0.0, 2.0), run(0.0, 1.0, 2.1)]), Err(FitError::BadRun { index: 1, .. })));
    assert!(matches!(of(&[run(1.0, f64::NAN, 2.0), run(1.0, 1.0, 2.1)]), Err(FitError::BadRun { index: 0, .. })));
    let beside_computing = Run { computing_hogs: 1.0, ..run(2.0, 0.0, 1.0) };
    assert_eq!(of(&[run(1.0, 0.0, 2.0), beside_computing]), Err(FitError::TooFew { settings: 1 }));
    let two = of(&[run(1.0, 0.0, 2.0), run(1.0, 4.0, 3.0)]).expect("two settings, two parameters");
    assert_eq!(two.q_error, None);
    assert!(two.mean_error < 1e-9);
}
