use proptest::prelude::*;

use super::*;
use crate::curve::{Curve, CurveSpec, Interpolation, Outside};
use crate::job::Job;
use crate::machine::{DemandRule, Hogs, Machine};
use crate::noise::Noise;
use crate::plain::PlainJob;
use crate::thesis::System;

fn lines() -> Curve {
    Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

fn run(cpus: f64, memory_hogs: f64, time_s: f64) -> Trial {
    Trial { cpus, memory_hogs, computing_hogs: 0.0, time_s, traffic_unit_s: None, hogs_got: None }
}

/// Figure 5.1: every number of cpus beside every number of hogs that leaves it them.
fn figure_5_1(cores: u32, mut time_s: impl FnMut(f64, f64) -> f64) -> Vec<Trial> {
    let settings = (1..=cores).flat_map(|cpus| (0..=cores - cpus).map(move |hogs| (f64::from(cpus), f64::from(hogs))));
    settings.map(|(cpus, hogs)| run(cpus, hogs, time_s(cpus, hogs))).collect()
}

proptest! {
    #![proptest_config(crate::noise::cases(100))]

    #[test]
    fn both_ways_find_what_was_there(
        q in 0.0f64..1.0, t_s in 0.01f64..100.0, seconds: bool, noise in prop::collection::vec(-0.02f64..0.02, 36),
    ) {
        let residuals = if seconds { Residuals::Seconds } else { Residuals::Relative };
        let curve = lines();
        let job = PlainJob { q, t_s };
        let exact = figure_5_1(8, |cpus, hogs| job.time_s(&curve, cpus, hogs));
        let found = fit_plain(&curve, &exact, residuals).expect("enough runs");
        prop_assert!((found.job.q - q).abs() < 1e-5 && (found.job.t_s / t_s - 1.0).abs() < 1e-5, "{found:?}");
        prop_assert!(found.mean_error < 1e-5);

        let disturb = |(run, noise): (&Trial, f64)| Trial { time_s: run.time_s * (1.0 + noise), ..*run };
        let noisy: Vec<Trial> = exact.iter().zip(noise).map(disturb).collect();
        let fast = fit_plain(&curve, &noisy, residuals).expect("enough runs");
        let slow = fit_plain_by_grid(&curve, &noisy, residuals).expect("enough runs");
        prop_assert!(fast.squares <= slow.squares * (1.0 + 1e-6) + 1e-15, "{fast:?} {slow:?}");
        // Noise may conspire: the worst of what 2% can do, not what it usually does.
        prop_assert!((fast.job.q - q).abs() < 0.15, "2% of noise: {fast:?} for {q}");
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
    let of = |runs: &[Trial]| fit_plain(&curve, runs, Residuals::Relative);
    assert_eq!(of(&[]), Err(FitError::TooFew { settings: 0 }));
    assert_eq!(of(&[run(1.0, 0.0, 2.0), run(1.0, 0.0, 2.1)]), Err(FitError::TooFew { settings: 1 }));
    assert!(matches!(of(&[run(1.0, 0.0, 2.0), run(0.0, 1.0, 2.1)]), Err(FitError::BadRun { index: 1, .. })));
    assert!(matches!(of(&[run(1.0, f64::NAN, 2.0), run(1.0, 1.0, 2.1)]), Err(FitError::BadRun { index: 0, .. })));
    let beside_computing = Trial { computing_hogs: 1.0, ..run(2.0, 0.0, 1.0) };
    assert_eq!(of(&[run(1.0, 0.0, 2.0), beside_computing]), Err(FitError::TooFew { settings: 1 }));
    let two = of(&[run(1.0, 0.0, 2.0), run(1.0, 4.0, 3.0)]).expect("two settings, two parameters");
    assert_eq!(two.q_error, None);
    assert!(two.mean_error < 1e-9);
}

fn xeon() -> Machine {
    Machine::simple(lines(), 8.0)
}

fn measured(machine: &Machine, job: &Job, noise: f64, seed: u64) -> Vec<Trial> {
    let mut source = Noise::new(seed);
    figure_5_1(8, |cpus, memory| {
        machine.time_s(job, cpus, Hogs { memory, computing: 0.0 }) * (1.0 + noise * source.bell())
    })
}

proptest! {
    #![proptest_config(crate::noise::cases(12))]

    #[test]
    fn an_extended_job_is_found_again(
        q in 0.0f64..0.9, hidden in 0.0f64..1.0, sequential in 0.0f64..0.3, overhead in 0.0f64..0.02, seed: u64,
    ) {
        let machine = xeon();
        let job = Job { t_s: 3.0, q, hidden: hidden * (1.0 - q), sequential, overhead, ..Job::default() };
        let mut runs = measured(&machine, &job, 0.01, seed);
        runs.retain(|run| run.memory_hogs < 3.0 || run.cpus + run.memory_hogs == 8.0);
        for run in &mut runs {
            run.traffic_unit_s = Some(job.t_s * job.demand());
        }
        let found = fit_job(&machine, &runs, &[], 0.01).expect("enough runs");
        prop_assert!(found.mean_error < 0.015, "{found:?}");
        prop_assert!((found.job.demand() - job.demand()).abs() < 0.1, "{found:?}");
        // What is waited and what is hidden cannot be told apart where memory is the only limit. What follows from them
        // can.
        let mut errors = Vec::new();
        for cpus in 1..8 {
            let cpus = f64::from(cpus);
            for other in [Job { t_s: 1.0, q: 0.5, ..Job::default() }, Job { t_s: 1.0, hidden: 0.7, ..Job::default() }] {
                let [fitted, truth] = [&found.job, &job]
                    .map(|job| machine.together_s(&[(job, cpus), (&other, 8.0 - cpus)], Hogs::default()));
                errors.extend(fitted.iter().zip(&truth).map(|(fitted, truth)| (fitted / truth - 1.0).abs()));
            }
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        // Bounds that 1% of noise does not reach by chance; usually the mean is below 0.01.
        prop_assert!(mean < 0.05 && worst < 0.25, "{mean} {worst} {found:?}");
    }
}

/// The extended fit by trying: a grid of shares, `t` following from each. What it makes small is written down anew
/// here.
fn fit_by_grid(machine: &Machine, trials: &[Trial], noise: f64) -> f64 {
    let shares = |count: u32| (0..count).map(move |n| f64::from(n) / f64::from(count));
    let mut best = f64::MAX;
    for (q, hidden) in shares(15).flat_map(|q| shares(8).map(move |hidden| (q, hidden))) {
        for sequential in (0..12).map(|n| f64::from(n) * 0.02) {
            let job = Job { t_s: 1.0, q, hidden: hidden * (1.0 - q), sequential, ..Job::default() };
            let ratios = trials
                .iter()
                .map(|t| machine.time_s(&job, t.cpus, Hogs { memory: t.memory_hogs, computing: 0.0 }) / t.time_s);
            let ratios: Vec<f64> = ratios.collect();
            let t_s = ratios.iter().sum::<f64>() / ratios.iter().map(|ratio| ratio * ratio).sum::<f64>();
            let misses: f64 = ratios.iter().map(|ratio| (ratio * t_s - 1.0).powi(2)).sum();
            best = best.min(misses + noise * noise * (hidden * hidden + sequential * sequential));
        }
    }
    best
}

proptest! {
    #![proptest_config(crate::noise::cases(10))]

    #[test]
    fn no_grid_finds_a_better_extended_job(
        q in 0.0f64..0.9, hidden in 0.0f64..1.0, sequential in 0.0f64..0.2, waiting: bool, seed: u64,
    ) {
        let rule = if waiting { DemandRule::Waiting } else { DemandRule::Overlap };
        let machine = Machine { rule, ..xeon() };
        let job = Job { t_s: 3.0, q, hidden: hidden * (1.0 - q), sequential, ..Job::default() };
        let all = measured(&machine, &job, 0.01, seed);
        let is_one_of_few = |trial: &Trial| [1.0, 4.0].contains(&trial.cpus) && trial.memory_hogs != 3.0;
        let few: Vec<Trial> = all.into_iter().filter(is_one_of_few).collect();
        let found = fit_job(&machine, &few, &[], 0.01).expect("enough runs");
        let share = found.job.hidden / (1.0 - found.job.q).max(1e-9);
        let objective = found.squares + 1e-4 * (share * share + found.job.sequential.powi(2));
        let slow = fit_by_grid(&machine, &few, 0.01);
        // The fit goes downhill from several starts, so it may end a little above the best of all.
        prop_assert!(objective <= slow * 1.2, "{found:?} {objective} {slow}");
    }
}

#[test]
fn siblings_are_told_by_computing_hogs() {
    // One core, two cpus: a machine for which the thesis' model has no words.
    let curve = Curve::of_threads(&[1.0, 1.3], Interpolation::Linear, Outside::Hold).expect("a curve");
    let machine = Machine { cpus: 2.0, cores: 1.0, ..Machine::simple(curve, 2.0) };
    let job = Job { t_s: 2.0, q: 0.25, smt: 0.7, sequential: 0.1, ..Job::default() };
    let runs: Vec<Trial> = [(1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 0.5, 0.0), (1.0, 0.0, 1.0), (2.0, 0.0, 0.0)]
        .into_iter()
        .map(|(cpus, memory, computing)| {
            let of = |memory: f64| machine.time_s(&job, cpus, Hogs { memory, computing });
            // Half a hog is a whole one, half of the time.
            let time_s = if memory == 0.5 { 2.0 / (1.0 / of(0.0) + 1.0 / of(1.0)) } else { of(memory) };
            Trial { computing_hogs: computing, ..run(cpus, memory, time_s) }
        })
        .collect();
    let found = fit_job(&machine, &runs, &[], 0.001).expect("enough runs");
    assert!((found.job.smt - 0.7).abs() < 0.1 && found.mean_error < 1e-3, "{found:?}");
    // Five runs, five figures: they are pulled towards 0 a little; beside another of its kind it is predicted all the
    // same.
    let [fitted, truth] =
        [&found.job, &job].map(|job| machine.together_s(&[(job, 1.0), (job, 1.0)], Hogs::default())[0]);
    assert!((fitted / truth - 1.0).abs() < 0.03, "{fitted} {truth}");
    let blind = fit_plain(&machine.local, &runs, Residuals::Relative).expect("enough runs").job;
    let plain = blind.time_s(&machine.local, 1.0, blind.demand(1.0));
    assert!((plain / truth - 1.0).abs() > 0.1, "the plain model cannot know: {plain} {truth}");
}

#[test]
fn remote_shares_are_taken_into_account() {
    // The same job on interleaved memory: with its remote share known, the same figures come out.
    let local = xeon();
    let measured_gib_s = &System::Xeon.remote_gib_s()[0];
    let points = measured_gib_s.iter().zip(1..).map(|(&gib_s, threads)| [f64::from(threads), gib_s]);
    let remote = Curve::new(CurveSpec {
        points: points.collect(),
        unit: Some(local.local.unit()),
        ..local.local.spec().clone()
    })
    .expect("a curve");
    let machine = Machine { remote: vec![remote], ..local };
    let job = Job { t_s: 2.0, q: 0.5, remote: vec![0.75], ..Job::default() };
    let trials = measured(&machine, &job, 0.005, 2);
    let known = fit_job(&machine, &trials, &[0.75], 0.005).expect("enough runs");
    assert!((known.job.q - 0.5).abs() < 0.02 && (known.job.t_s - 2.0).abs() < 0.03, "{known:?}");
    let ignored = fit_job(&machine, &trials, &[], 0.005).expect("enough runs");
    assert!(ignored.mean_error > 2.0 * known.mean_error, "{ignored:?}");
}

#[test]
fn machines_and_trials_have_to_fit() {
    let machine = xeon();
    let trials = [run(16.0, 0.0, 1.0), run(1.0, 0.0, 8.0)];
    assert_eq!(fit_job(&machine, &trials, &[], 0.01), Err(FitError::TooManyCpus { index: 0, cpus: 16.0, most: 8.0 }));
    let broken = Machine { cores: f64::NAN, ..machine };
    assert!(matches!(fit_job(&broken, &trials[1..], &[], 0.01), Err(FitError::Machine(_))));
}

#[test]
fn hogs_tell_what_is_hidden() {
    // A job that hides all its traffic is not slowed by this company: its own times say nothing about it.
    let machine = xeon();
    let job = Job { t_s: 2.0, hidden: 0.5, ..Job::default() };
    let mut runs: Vec<Trial> = Vec::new();
    for hogs in [0.0, 0.5, 1.0, 2.0] {
        let time_s = machine.time_s(&job, 1.0, Hogs { memory: hogs, computing: 0.0 });
        assert!((time_s - 2.0).abs() < 1e-9);
        runs.push(run(1.0, hogs, time_s));
    }
    let blind = fit_job(&machine, &runs, &[], 0.01).expect("enough runs").job;
    assert!(blind.hidden < 0.05, "{blind:?}");
    for run in &mut runs {
        let get = |memory: f64| machine.hogs_get(&job, 1.0, Hogs { memory, computing: 0.0 });
        run.hogs_got =
            (run.memory_hogs > 0.0).then(|| if run.memory_hogs == 0.5 { get(1.0) / 2.0 } else { get(run.memory_hogs) });
    }
    let told = fit_job(&machine, &runs, &[], 0.01).expect("enough runs").job;
    assert!((told.hidden - 0.5).abs() < 0.02 && told.q < 0.01, "{told:?}");
}

#[test]
fn a_negative_q_is_lost_speed_up() {
    let machine = xeon();
    for (name, job, expected) in [
        ("overhead", Job { t_s: 2.0, q: 0.01, overhead: 0.01, ..Job::default() }, Parameter::Overhead),
        ("sequential", Job { t_s: 2.0, q: 0.01, sequential: 0.15, ..Job::default() }, Parameter::Sequential),
    ] {
        let runs = measured(&machine, &job, 0.005, 3);
        let plain = fit_plain(&machine.local, &runs, Residuals::Relative).expect("enough runs");
        assert!(plain.job.q < 0.0, "{name}: {plain:?}");
        let extended = fit_job(&machine, &runs, &[], 0.005).expect("enough runs");
        assert!((extended.job.q - 0.01).abs() < 0.02, "{name}: {extended:?}");
        assert!(extended.mean_error < 0.25 * plain.mean_error, "{name}: {extended:?} {plain:?}");
        let why = explain(&machine, &runs, &plain, &extended, Residuals::Relative).expect("the same runs");
        println!("{name}: {plain:?} {why:?}");
        let is_expected = matches!(why.cause, Cause::Extra(extra) if extra == expected) || why.cause == Cause::Extras;
        assert!(is_expected, "{name}: {why:?}");
        assert!(why.without_all.is_some_and(|q| q > plain.job.q));
    }
}

#[test]
fn a_job_that_only_computes_is_noise_around_zero() {
    let machine = xeon();
    let job = Job { t_s: 2.0, ..Job::default() };
    let mut causes = Vec::new();
    for seed in 0..20 {
        let runs = measured(&machine, &job, 0.01, seed);
        let plain = fit_plain(&machine.local, &runs, Residuals::Relative).expect("enough runs");
        assert!(plain.job.q.abs() < 0.02, "{plain:?}");
        let extended = fit_job(&machine, &runs, &[], 0.01).expect("enough runs");
        causes.push(explain(&machine, &runs, &plain, &extended, Residuals::Relative).expect("the same runs").cause);
    }
    assert!(causes.iter().all(|cause| *cause != Cause::Unknown), "{causes:?}");
    assert!(causes.contains(&Cause::Share) && causes.iter().any(|cause| *cause != Cause::Share), "{causes:?}");
}

#[test]
fn repeated_runs_tell_the_noise() {
    let machine = xeon();
    let job = Job { t_s: 2.0, q: 0.4, ..Job::default() };
    let mut runs = measured(&machine, &job, 0.03, 1);
    runs.extend(measured(&machine, &job, 0.03, 2));
    runs.extend(measured(&machine, &job, 0.03, 4));
    let found = fit_job(&machine, &runs, &[], 0.5).expect("enough runs");
    assert!((0.02..0.04).contains(&found.noise), "{found:?}");
    let error = |parameter| found.fitted.iter().find(|(p, _)| *p == parameter).expect("fitted").1;
    assert!(
        (found.job.q - 0.4).abs() < 4.0 * error(Parameter::Waiting) && error(Parameter::Waiting) < 0.1,
        "{found:?}"
    );
}
