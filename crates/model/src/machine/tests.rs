use proptest::prelude::*;

use super::*;
use crate::curve::{CurveSpec, Interpolation};
use crate::noise::Noise;
use crate::pair::predict_s;
use crate::plain::PlainJob;
use crate::thesis::System;

fn lines(system: System) -> Curve {
    Curve::of_threads(&system.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

fn machine() -> Machine {
    Machine::simple(lines(System::Xeon), 8.0)
}

fn job(q: f64, hidden: f64) -> Job {
    Job { t_s: 1.0, q, hidden: hidden * (1.0 - q), ..Job::default() }
}

const NO_HOGS: Hogs = Hogs { memory: 0.0, computing: 0.0 };

fn memory(hogs: f64) -> Hogs {
    Hogs { memory: hogs, computing: 0.0 }
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn without_extras_it_is_the_thesis_model(
        q1 in 0.0f64..1.0,
        q2 in 0.0f64..1.0,
        cpus1 in 1u32..8,
        hogs in 0.0f64..8.0,
    ) {
        let machine = Machine { rule: DemandRule::Requested, ..machine() };
        let one = PlainJob { q: q1, t_s: 2.0 };
        let two = PlainJob { q: q2, t_s: 3.0 };
        let p1 = f64::from(cpus1);
        let p2 = 8.0 - f64::from(cpus1);
        let jobs = [one, two].map(|plain| Job::of_plain(plain).expect("a share"));
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        prop_assert!(close(machine.time_s(&jobs[0], p1, memory(hogs)), one.time_s(&machine.local, p1, hogs)));
        let (time1, time2) = predict_s(&machine.local, (one, p1), (two, p2));
        let together = machine.together_s(&[(&jobs[0], p1), (&jobs[1], p2)], NO_HOGS);
        prop_assert!(close(together[0], time1) && close(together[1], time2));
        let rho = crate::pair::rho_model(&machine.local, (q1, p1), (q2, p2));
        prop_assert!((machine.rho(&[(&jobs[0], p1), (&jobs[1], p2)]) - rho).abs() < 1e-9);
    }

    #[test]
    fn bandwidth_used_is_bandwidth_there(
        parties in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0, 0.0f64..0.2, 0.2f64..6.0), 1..5),
        hogs in 0.0f64..4.0,
    ) {
        // The twin walks demand up in small steps until what would be moved at that stretch is no more than there is.
        let machine = Machine { rule: DemandRule::Waiting, ..machine() };
        let jobs: Vec<(Job, f64)> =
            parties.iter().map(|&(q, hidden, overhead, cpus)| (Job { overhead, ..job(q, hidden) }, cpus)).collect();
        let running: Vec<JobShare> =
            jobs.iter().map(|(job, cpus)| JobShare { job, stage: JobStage::Parallel, cpus: *cpus }).collect();
        let moment = machine.paces(&running, memory(hogs));
        let pace = |job: &Job, cpus: f64, stretch: f64| {
            let computing = (1.0 - job.q) * (1.0 + job.overhead * cpus * (cpus - 1.0).max(0.0));
            cpus / (job.q * stretch + computing.max(job.hidden * stretch))
        };
        let step = 1e-4;
        let mut demand = step;
        loop {
            let stretch = machine.local.stretch(demand);
            let moved: f64 = jobs.iter().map(|(job, cpus)| (job.q + job.hidden) * pace(job, *cpus, stretch)).sum();
            if moved + hogs / stretch <= machine.local.bandwidth(demand) {
                break;
            }
            demand += step;
        }
        prop_assert!((moment.demand - demand).abs() <= 2.0 * step, "{} {demand}", moment.demand);
        prop_assert!((moment.bandwidth - machine.local.bandwidth(moment.demand)).abs() < 1e-9);
        for ((job, cpus), speed) in jobs.iter().zip(&moment.speeds) {
            let twin = pace(job, *cpus, machine.local.stretch(demand));
            prop_assert!((speed / twin - 1.0).abs() < 1e-3, "{speed} {twin}");
        }
    }

    #[test]
    fn company_never_helps(
        q in 0.0f64..1.0,
        hidden in 0.0f64..1.0,
        sequential in 0.0f64..1.0,
        cpus in 1u32..8,
        hogs in 0.0f64..8.0,
    ) {
        let job = Job { sequential, ..job(q, hidden) };
        let cpus = f64::from(cpus);
        let times = [0.0, hogs / 2.0, hogs].map(|hogs| machine().time_s(&job, cpus, memory(hogs)));
        prop_assert!(times[0] <= times[1] * (1.0 + 1e-9) && times[1] <= times[2] * (1.0 + 1e-9), "{times:?}");
        prop_assert!(times[0] >= sequential + (1.0 - sequential) / cpus - 1e-9);
    }

    #[test]
    fn remote_traffic_is_bounded_by_both_curves(share in 0.0f64..1.0, cpus in 1u32..9) {
        let machine = with_remote();
        let mover = Job { t_s: 1.0, q: 1.0, remote: vec![share], ..Job::default() };
        let running = JobShare { job: &mover, stage: JobStage::Parallel, cpus: f64::from(cpus) };
        let moved = machine.paces(&[running], NO_HOGS).speeds[0];
        prop_assert!(moved <= machine.local.roof() * (1.0 + 1e-9));
        prop_assert!(share * moved <= machine.remote[0].roof() * (1.0 + 1e-9), "{moved}");
    }
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn whatever_is_asked_has_an_answer(
        jobs in prop::collection::vec(
            (0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0, 0.0f64..0.1, 0.0f64..2.0, 0.0f64..1.0, 0.05f64..16.0), 1..5),
        hogs in (0.0f64..9.0, 0.0f64..9.0), cores in 1u32..17, rule in 0usize..3,
    ) {
        // Every extra at once: answers are positive numbers, no thread does more than its work, and another hog hardly
        // helps.
        let rule = [DemandRule::Requested, DemandRule::Waiting, DemandRule::Overlap][rule];
        let machine = Machine { cpus: 16.0, cores: f64::from(cores), rule, ..with_remote() };
        let jobs: Vec<(Job, f64)> = jobs
            .into_iter()
            .map(|(q, hidden, sequential, overhead, smt, remote, cpus)| {
                (Job { sequential, overhead, smt, remote: vec![remote], ..job(q, hidden) }, cpus)
            })
            .collect();
        let borrowed: Vec<(&Job, f64)> = jobs.iter().map(|(job, cpus)| (job, *cpus)).collect();
        prop_assert_eq!(machine.check_jobs(borrowed.iter().copied()), Ok(()));
        let beside = Hogs { memory: hogs.0, computing: hogs.1 };
        let times = machine.together_s(&borrowed, beside);
        let more = machine.together_s(&borrowed, Hogs { memory: hogs.0 + 1.0, ..beside });
        for ((time, more), (_, cpus)) in times.iter().zip(&more).zip(&jobs) {
            prop_assert!(time.is_finite() && *time >= 1.0 / cpus - 1e-9, "{time} on {cpus}");
            // A memory hog takes bandwidth. It may also sit beside a thread in place of one that computes, and what it
            // takes from one job another has left of remote memory, so it may help that one a little.
            prop_assert!(cores < 16 || *more >= time * 0.95, "{time} {more}");
        }
        let rho = machine.rho(&borrowed);
        prop_assert!(rho < 1.0 && rho.is_finite());
    }
}

fn with_remote() -> Machine {
    let local = lines(System::Xeon);
    let measured = &System::Xeon.remote_gib_s()[0];
    let points = measured.iter().zip(1..).map(|(&gib_s, threads)| [f64::from(threads), gib_s]);
    let remote = Curve::new(CurveSpec { points: points.collect(), unit: Some(local.unit()), ..local.spec().clone() })
        .expect("a curve");
    Machine { remote: vec![remote], ..Machine::simple(local, 8.0) }
}

#[test]
fn remote_memory_alone_gives_table_2_5() {
    let machine = with_remote();
    let mover = Job { t_s: 1.0, q: 1.0, remote: vec![1.0], ..Job::default() };
    for (gib_s, cpus) in System::Xeon.remote_gib_s()[0].iter().zip(1..) {
        let running = JobShare { job: &mover, stage: JobStage::Parallel, cpus: f64::from(cpus) };
        let moved = machine.paces(&[running], NO_HOGS).speeds[0];
        assert!((moved * 4.270 - gib_s).abs() < 1e-6, "{cpus} threads move {moved}");
    }
}

#[test]
fn sections_follow_each_other() {
    let computes = Job { sequential: 0.25, ..job(0.0, 0.0) };
    assert!((machine().time_s(&computes, 4.0, NO_HOGS) - (0.25 + 0.75 / 4.0)).abs() < 1e-12, "Amdahl");
    let all = Job { sequential: 1.0, ..job(0.0, 0.0) };
    assert!((machine().time_s(&all, 4.0, NO_HOGS) - 1.0).abs() < 1e-12);
    // One thread at a time has all the bandwidth, many have not.
    let waits = Job { sequential: 0.5, ..job(1.0, 0.0) };
    let expected = 0.5 + 0.5 * 1.0 / machine().local.bandwidth(8.0);
    assert!((machine().time_s(&waits, 8.0, NO_HOGS) - expected).abs() < 1e-9);
}

#[test]
fn hidden_traffic_hurts_others_and_not_oneself_until_it_shows() {
    let machine = machine();
    let hides = job(0.0, 0.6);
    assert!((machine.time_s(&hides, 2.0, NO_HOGS) - 0.5).abs() < 1e-12, "1.2 units on two cpus: not a trace");
    let victim = job(0.5, 0.0);
    let beside = |other: &Job| machine.together_s(&[(&victim, 4.0), (other, 4.0)], NO_HOGS)[0];
    assert!(beside(&hides) > 1.1 * beside(&job(0.0, 0.0)));
    assert!(machine.time_s(&hides, 2.0, memory(6.0)) > 0.5, "transfers take longer than what hid them");
}

#[test]
fn hogs_feel_what_a_job_hides() {
    let machine = machine();
    let alone = machine.hogs_get(&job(0.0, 0.0), 4.0, memory(4.0));
    assert!((alone - machine.local.bandwidth(4.0)).abs() < 1e-9, "a job that only computes takes nothing");
    let beside = machine.hogs_get(&job(0.0, 0.5), 4.0, memory(4.0));
    assert!(beside < 0.9 * alone, "{beside} {alone}");
    // Half of the run nobody else is there but one thread.
    let half = Job { sequential: 0.5, ..job(0.0, 0.5) };
    assert!(machine.hogs_get(&half, 4.0, memory(4.0)) > beside);
}

#[test]
fn siblings_share_a_core() {
    let one_core = Machine { cpus: 2.0, cores: 1.0, ..machine() };
    let computes = Job { smt: 0.6, ..job(0.0, 0.0) };
    assert!((one_core.time_s(&computes, 1.0, NO_HOGS) - 1.0).abs() < 1e-12);
    assert!((one_core.time_s(&computes, 2.0, NO_HOGS) - 0.8).abs() < 1e-12, "two threads at 1 / 1.6 each");
    assert!((one_core.time_s(&computes, 1.0, Hogs { memory: 0.0, computing: 1.0 }) - 1.6).abs() < 1e-12);
    assert!((one_core.time_s(&computes, 1.0, memory(1.0)) - 1.0).abs() < 1e-12, "who waits leaves the core alone");
    // Twelve threads on eight cores: four cores have two, so two thirds of the threads have a sibling.
    let eight = Machine { cpus: 16.0, cores: 8.0, ..machine() };
    let expected = (1.0 + 0.6 * 2.0 / 3.0) / 12.0;
    assert!((eight.time_s(&computes, 12.0, NO_HOGS) - expected).abs() < 1e-9);
    assert!((eight.time_s(&computes, 8.0, NO_HOGS) - 1.0 / 8.0).abs() < 1e-12);
}

/// Threads one by one: each moves data and computes in turn, for random spells, and those that move at a moment share
/// what the curve gives as many. What the averages of the model stand for. Work per second of each job.
fn threads_one_by_one(curve: &Curve, jobs: &[(f64, usize)], spells: usize, noise: &mut Noise) -> Vec<f64> {
    struct Thread {
        job: usize,
        moves: bool,
        left: f64,
    }
    let mut threads: Vec<Thread> = Vec::new();
    for (job, &(q, count)) in jobs.iter().enumerate() {
        threads.extend((0..count).map(|_| Thread { job, moves: true, left: q * noise.wait() }));
    }
    let mut done = vec![0.0; jobs.len()];
    let mut now = 0.0;
    for _ in 0..spells {
        let moving = threads.iter().filter(|thread| thread.moves).count() as f64;
        let share = if moving > 0.0 { curve.bandwidth(moving) / moving } else { 1.0 };
        let speed = |thread: &Thread| if thread.moves { share } else { 1.0 };
        let for_s = threads.iter().map(|thread| thread.left / speed(thread)).fold(f64::MAX, f64::min);
        now += for_s;
        for thread in &mut threads {
            let speed = speed(thread);
            done[thread.job] += for_s * speed;
            thread.left -= for_s * speed;
            if thread.left <= 1e-12 {
                thread.moves = !thread.moves;
                let q = jobs[thread.job].0;
                thread.left = if thread.moves { q } else { 1.0 - q } * noise.wait();
            }
        }
    }
    done.iter().map(|done| done / now).collect()
}

#[test]
fn rules_against_threads_one_by_one() {
    // Mean and worst error of each rule against threads one by one: pairs on both thesis machines, half of the cpus
    // each, and on two cpus, one each.
    let mut noise = Noise::new(7);
    let small = Curve::of_threads(&[1.0, 1.3], Interpolation::Linear, Outside::Hold).expect("a curve");
    let rules = [DemandRule::Requested, DemandRule::Waiting, DemandRule::Overlap];
    for (name, curve, cpus) in
        [("xeon", lines(System::Xeon), 8), ("opteron", lines(System::Opteron), 6), ("two cpus", small, 2)]
    {
        let mut errors = [Vec::new(), Vec::new(), Vec::new()];
        for (q1, q2) in [(0.1, 0.1), (0.2, 0.6), (0.3, 0.3), (0.5, 0.5), (0.1, 0.9), (0.6, 0.9), (0.0, 0.5)] {
            let truth = threads_one_by_one(&curve, &[(q1, cpus / 2), (q2, cpus / 2)], 200_000, &mut noise);
            for (rule, errors) in rules.into_iter().zip(&mut errors) {
                let machine = Machine { rule, ..Machine::simple(curve.clone(), cpus as f64) };
                let one = job(q1, 0.0);
                let two = job(q2, 0.0);
                let running =
                    [&one, &two].map(|job| JobShare { job, stage: JobStage::Parallel, cpus: (cpus / 2) as f64 });
                let speeds = machine.paces(&running, NO_HOGS).speeds;
                errors.extend(speeds.iter().zip(&truth).map(|(got, truth)| (got / truth - 1.0).abs()));
            }
        }
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
        for (rule, errors) in rules.iter().zip(&errors) {
            println!("{name} {rule:?}: mean {:.4} worst {:.4}", mean(errors), worst(errors));
        }
        let [requested, waiting, overlap] = errors;
        if cpus > 2 {
            assert!(mean(&waiting) < 0.5 * mean(&requested), "{name}");
        }
        assert!(mean(&overlap) < 0.7 * mean(&waiting) && worst(&overlap) < 0.06, "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let machine = machine();
    let good = job(0.5, 0.5);
    assert_eq!(machine.check_jobs([(&good, 2.0)]), Ok(()));
    assert_eq!(machine.check_jobs([(&good, 0.0)]), Err(MachineError::BadShare { index: 0, cpus: 0.0, most: 8.0 }));
    assert!(matches!(machine.check_jobs([(&good, 9.0)]), Err(MachineError::BadShare { .. })));
    let large = Machine { cpus: 1e9, cores: 1e9, ..machine.clone() };
    assert_eq!(large.check(), Err(MachineError::TooManyCpus { cpus: 1e9 }));
    assert_eq!(Machine { rule: DemandRule::Waiting, ..large }.check(), Ok(()));
    let distant = Job { remote: vec![0.5], ..good.clone() };
    assert_eq!(
        machine.check_jobs([(&good, 1.0), (&distant, 2.0)]),
        Err(MachineError::NoClass { index: 1, used: 1, known: 0 })
    );
    for (field, bad) in [
        ("q", Job { q: -0.1, ..good.clone() }),
        ("hidden", Job { hidden: 0.6, ..good.clone() }),
        ("sequential", Job { sequential: 1.5, ..good.clone() }),
        ("overhead", Job { overhead: f64::NAN, ..good.clone() }),
        ("smt", Job { smt: -1.0, ..good.clone() }),
        ("remote", Job { remote: vec![0.7, 0.7], ..good.clone() }),
        ("remote", Job { remote: vec![0.7, -0.2], ..good.clone() }),
    ] {
        assert!(matches!(bad.check(), Err(JobError::OutOfRange { field: f, .. }) if f == field), "{bad:?}");
    }
    assert_eq!(Job { t_s: 0.0, ..good.clone() }.check(), Err(JobError::NoTime { t_s: 0.0 }));
    assert!(Job::of_plain(PlainJob { q: -0.2, t_s: 1.0 }).is_err());
    assert!(matches!(Machine { cores: 9.0, ..machine.clone() }.check(), Err(MachineError::BadCpus { .. })));
    let extended = System::Xeon.curve().expect("a curve");
    assert_eq!(Machine::simple(extended.clone(), 8.0).check(), Err(MachineError::Extended));
    assert_eq!(Machine { rule: DemandRule::Requested, ..Machine::simple(extended, 8.0) }.check(), Ok(()));
}
