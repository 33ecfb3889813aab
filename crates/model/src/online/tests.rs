use proptest::prelude::*;

use super::*;
use crate::curve::{Interpolation, Outside};
use crate::job::JobStage;
use crate::linear::solve;
use crate::machine::{DemandRule, Hogs, Machine, Running, stretch_among};
use crate::noise::Noise;
use crate::thesis::System;

fn machine() -> Machine {
    let curve = Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold);
    Machine::simple(curve.expect("a curve"), 8.0)
}

/// What the scheduler would count in a span of `span_s` while the job has `cpus` beside `hogs`.
fn sample(machine: &Machine, job: &Job, cpus: f64, hogs: f64, span_s: f64, noise: f64) -> Sample {
    let running = Running { job, stage: JobStage::Parallel, cpus };
    let moment = machine.paces(&[running], Hogs { memory: hogs, computing: 0.0 });
    let moved_unit_s = moment.speeds[0] * job.t_s * job.demand() * span_s;
    Sample { busy_s: cpus * span_s * (1.0 + noise), moved_unit_s, stretch: moment.stretches[0] }
}

/// Weighted least squares over all samples at once, by the normal equations written out.
fn batch(samples: &[(Sample, f64)]) -> [f64; 2] {
    let mut matrix = vec![vec![0.0; 2]; 2];
    let mut right = vec![0.0; 2];
    for &(sample, weight) in samples {
        let row = [sample.moved_unit_s, sample.moved_unit_s * sample.stretch];
        let weight = weight / sample.moved_unit_s;
        for i in 0..2 {
            right[i] += weight * row[i] * sample.busy_s;
            for j in 0..2 {
                matrix[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let solved = solve(matrix, right).expect("the stretch varies");
    [solved[0], solved[1]]
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (0.01f64..2.0, 0.01f64..2.0, 1.0f64..5.0);
    let sample = |(busy_s, moved_unit_s, stretch)| Sample { busy_s, moved_unit_s, stretch };
    prop::collection::vec(one.prop_map(sample), 5..60)
}

fn close(split: Option<Split>, twin: [f64; 2]) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + twin[0].abs() + twin[1].abs());
    split.is_some_and(|split| near(split.computing, twin[0]) && near(split.waiting, twin[1]))
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn sums_say_what_all_samples_say(samples in samples(), keeps in 0.8f64..1.0, window in 3usize..20) {
        let spread = |samples: &[Sample]| {
            let stretches = samples.iter().map(|s| s.stretch);
            stretches.clone().fold(0.0, f64::max) - stretches.fold(f64::MAX, f64::min)
        };
        let last = &samples[samples.len().saturating_sub(window)..];
        prop_assume!(spread(last) > 0.1);
        let (mut recursive, mut windowed) = (Recursive::new(keeps).expect("a share"), Windowed::new(window).expect("long enough"));
        for &sample in &samples {
            recursive.add(sample).expect("a good sample");
            windowed.add(sample).expect("a good sample");
        }
        let weight = |(age, &sample): (usize, &Sample)| (sample, keeps.powi(age as i32));
        let twin = batch(&samples.iter().rev().enumerate().map(weight).collect::<Vec<_>>());
        prop_assert!(close(recursive.estimate().expect("samples").split, twin), "{recursive:?} {twin:?}");
        let twin = batch(&last.iter().map(|&sample| (sample, 1.0)).collect::<Vec<_>>());
        prop_assert!(close(windowed.estimate().expect("samples").split, twin), "{windowed:?} {twin:?}");
    }

    #[test]
    fn a_running_job_is_recognised(q in 0.02f64..0.9, hidden in 0.0f64..0.3, seed: u64) {
        let machine = machine();
        let job = Job { t_s: 4.0, q, hidden: hidden * (1.0 - q), ..Job::default() };
        let mut noise = Noise::new(seed);
        let mut exact = Recursive::new(1.0).expect("a share");
        let mut noisy = Windowed::new(200).expect("long enough");
        for _ in 0..200 {
            let hogs = noise.between(0.0, 3.0).floor();
            exact.add(sample(&machine, &job, 2.0, hogs, 0.01, 0.0)).expect("a good sample");
            noisy.add(sample(&machine, &job, 2.0, hogs, 0.01, 0.02 * noise.bell())).expect("a good sample");
        }
        let whole = job.t_s * job.demand();
        let found = exact.estimate().expect("samples").split.expect("hogs came and went");
        prop_assert!((found.q() - q).abs() < 1e-6 && (found.hidden() - job.hidden).abs() < 1e-6, "{found:?}");
        let again = found.job(whole).expect("in range");
        prop_assert!((again.t_s / job.t_s - 1.0).abs() < 1e-6);

        let rough = noisy.estimate().expect("samples").split.expect("hogs came and went");
        let error = rough.q_error.expect("many samples");
        prop_assert!((rough.q() - q).abs() < 5.0 * error + 1e-9 && error < 0.05, "{rough:?} for {q}");
        let again = rough.job(whole).expect("in range");
        prop_assert!((again.t_s / job.t_s - 1.0).abs() < 0.05, "{again:?}");
    }
}

#[test]
fn a_change_is_followed_by_those_who_forget() {
    let machine = machine();
    let [before, after] = [0.1, 0.7].map(|q| Job { t_s: 4.0, q, ..Job::default() });
    let mut noise = Noise::new(3);
    let mut all = Recursive::new(1.0).expect("a share");
    let mut recent = Recursive::new(0.95).expect("a share");
    let mut window = Windowed::new(60).expect("long enough");
    for step in 0..400 {
        let job = if step < 200 { &before } else { &after };
        let hogs = noise.between(0.0, 6.0).floor();
        let sample = sample(&machine, job, 2.0, hogs, 0.01, 0.01 * noise.bell());
        for result in [all.add(sample), recent.add(sample), window.add(sample)] {
            result.expect("a good sample");
        }
    }
    let q = |estimate: Option<Estimate>| estimate.and_then(|e| e.split).expect("hogs came and went").q();
    assert!((q(recent.estimate()) - 0.7).abs() < 0.03, "{}", q(recent.estimate()));
    assert!((q(window.estimate()) - 0.7).abs() < 0.03, "{}", q(window.estimate()));
    assert!((q(all.estimate()) - 0.7).abs() > 0.1, "who forgets nothing mixes both: {}", q(all.estimate()));
}

#[test]
fn one_stretch_tells_no_split_but_bounds() {
    let machine = machine();
    for (q, hidden) in [(0.3, 0.0), (0.0, 0.4), (0.5, 0.2)] {
        let job = Job { t_s: 4.0, q, hidden, ..Job::default() };
        let mut estimator = Recursive::new(1.0).expect("a share");
        assert_eq!(estimator.estimate(), None);
        for _ in 0..50 {
            estimator.add(sample(&machine, &job, 4.0, 2.0, 0.01, 0.0)).expect("a good sample");
        }
        let estimate = estimator.estimate().expect("samples");
        assert_eq!(estimate.split, None);
        let (least, most) = estimate.q_bounds();
        assert!(least <= q && q <= most + 1e-9 && most <= 1.0, "{q}: {least} {most}");
    }
}

#[test]
fn the_present_in_bandwidth_says_the_same_below_the_roof() {
    let machine = Machine { rule: DemandRule::Waiting, ..machine() };
    let curve = machine.local.clone();
    for threads in [0.5, 1.0, 2.5, 6.0] {
        let by_bandwidth = stretch_at(&curve, Present::Bandwidth(curve.bandwidth(threads)));
        assert!((by_bandwidth / stretch_at(&curve, Present::Threads(threads)) - 1.0).abs() < 1e-9, "{threads}");
    }
    // Both rules' stretches, from what a scheduler could count.
    let job = Job { t_s: 1.0, q: 0.6, ..Job::default() };
    let running = Running { job: &job, stage: JobStage::Parallel, cpus: 3.0 };
    let moment = machine.paces(&[running], Hogs { memory: 2.0, computing: 0.0 });
    assert!((stretch_at(&curve, Present::Threads(moment.demand)) - moment.stretches[0]).abs() < 1e-9);
    let by_chance =
        Machine { rule: DemandRule::Overlap, ..machine }.paces(&[running], Hogs { memory: 2.0, computing: 0.0 });
    let presence = (by_chance.demand - 2.0) / 3.0;
    let among = stretch_among(&curve, &[(2.0, presence), (2.0, 1.0)]);
    assert!((among - by_chance.stretches[0]).abs() < 1e-6, "{among} {by_chance:?}");
    assert!((moved_unit_s(&curve, 8.54) - 2.0).abs() < 1e-12, "4.27 GiB/s are a unit");
}

#[test]
fn what_is_no_sample_is_refused() {
    let good = Sample { busy_s: 1.0, moved_unit_s: 1.0, stretch: 1.0 };
    let mut windowed = Windowed::new(3).expect("long enough");
    for bad in
        [Sample { busy_s: 0.0, ..good }, Sample { moved_unit_s: f64::NAN, ..good }, Sample { stretch: -1.0, ..good }]
    {
        assert!(matches!(windowed.add(bad), Err(OnlineError::BadSample { .. })));
    }
    assert_eq!(windowed.estimate(), None);
    assert_eq!(Windowed::new(2), Err(OnlineError::BadWindow { samples: 2 }));
    assert_eq!(Recursive::new(0.0), Err(OnlineError::BadKeeps { keeps: 0.0 }));
    assert!(Recursive::new(f64::NAN).is_err());
}
