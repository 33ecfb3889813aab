use proptest::prelude::*;

use super::*;
use crate::curve::{Curve, Interpolation, Outside};
use crate::fluid::run_queue;
use crate::job::JobStage;
use crate::machine::JobShare;

/// Four cpus whose memory gives as much as two threads ask for.
fn machine() -> Machine {
    let curve = Curve::of_threads(&[1.0, 2.0, 2.0, 2.0], Interpolation::Linear, Outside::Hold).expect("a curve");
    Machine::simple(curve, 4.0)
}

fn job(t_s: f64, q: f64) -> Job {
    Job { t_s, q, ..Job::default() }
}

fn waiting_for(job: Job, waited_s: f64) -> Waiting {
    Waiting { alone_s: alone_s(&machine(), &job), job, waited_s }
}

fn waits(t_s: f64) -> Waiting {
    waiting_for(job(t_s, 0.0), 0.0)
}

#[test]
fn runs_tell_what_a_job_is() {
    let machine = machine();
    let seen = |busy_s, traffic_s, elapsed_s, is_alone| Seen { busy_s, traffic_s, elapsed_s, is_alone };
    let learned = |seen: &[Seen]| {
        let mut learned = Learned::default();
        seen.iter().for_each(|seen| learned.observe(&machine, seen));
        learned.job(&machine)
    };
    assert_eq!(learned(&[]), None);
    assert_eq!(learned(&[seen(0.0, 1.0, 1.0, true), seen(1.0, f64::NAN, 1.0, true)]), None, "no runs");
    // A quarter of what four threads have is moved behind computing.
    let computes = learned(&[seen(4.0, 1.0, 1.0, true)]).unwrap();
    assert_eq!(computes, Job { t_s: 4.0, hidden: 0.25, ..Job::default() });
    // All of it: four threads move twice what there is, so one alone needs half.
    let moves = learned(&[seen(4.0, 2.0, 1.0, true)]).unwrap();
    assert_eq!(moves, Job { t_s: 2.0, q: 1.0, ..Job::default() });
    assert!((machine.time_s(&moves, 4.0, Hogs::default()) - 1.0).abs() < 0.2, "what was seen");
    // Half of the work by one thread: 2 s and then 2 s by four.
    let half = learned(&[seen(4.0, 0.0, 2.5, true)]).unwrap();
    assert!((half.sequential - 0.5).abs() < 1e-9, "{half:?}");
    assert_eq!(learned(&[seen(4.0, 0.0, 9.0, false)]).unwrap().sequential, 0.0, "others made it wait");
    for known in [computes, moves, half] {
        known.check().unwrap();
    }
    // The last runs count most.
    let runs: Vec<Seen> = (0..20).map(|run| seen(if run < 10 { 1.0 } else { 3.0 }, 0.0, 1.0, false)).collect();
    assert!((learned(&runs).unwrap().t_s - 3.0).abs() < 0.1);
}

#[test]
fn short_ones_begin_first_and_equal_ones_as_they_came() {
    let machine = machine();
    assert_eq!(choose(&machine, &[], &[]), Choice { begin: vec![], gain: 0.0 });
    assert_eq!(choose(&machine, &[], &[waits(1.0)]), Choice { begin: vec![0], gain: 0.0 });
    let choice = choose(&machine, &[], &[waits(10.0), waits(0.1)]);
    assert!(choice.begin.contains(&1) && choice.gain > 0.3, "{choice:?}");
    let choice = choose(&machine, &[], &[waits(1.0), waits(1.0), waits(1.0), waits(1.0), waits(1.0)]);
    assert_eq!(choice, Choice { begin: vec![0, 1], gain: 0.0 });
    // A long one has begun: a short one is the next beside it.
    let begun = Begun { job: job(4.0, 0.0), left: 0.5, since_s: 0.5 };
    let choice = choose(&machine, std::slice::from_ref(&begun), &[waits(40.0), waits(0.4)]);
    assert_eq!(choice.begin, [1]);
    // Sequential parts run beside others' parallel ones: the order of arrival leaves three cpus idle at its end.
    let lone = waiting_for(Job { sequential: 1.0, ..job(1.0, 0.0) }, 0.0);
    let choice = choose(&machine, &[], &[waits(4.4), waits(4.4), lone]);
    assert!(choice.begin.contains(&2), "{choice:?}");
}

#[test]
fn who_has_waited_for_long_begins() {
    let machine = machine();
    let late = Waiting { waited_s: 26.0, ..waits(10.0) };
    let waiting = [waits(0.1), waits(0.1), late.clone()];
    assert_eq!(choose(&machine, &[], &waiting).begin, [2]);
    let begun = |since_s| -> Vec<Begun> {
        (0..2).map(|place| Begun { job: job(9.0, 0.0), left: 0.5, since_s: since_s + f64::from(place) }).collect()
    };
    assert_eq!(choose(&machine, &begun(2.6), &waiting).begin, [2], "though all places are taken");
    assert!(choose(&machine, &begun(2.4), &waiting).begin.is_empty(), "somebody has just begun");
    assert!(choose(&machine, &begun(9.0), &waiting[..2]).begin.is_empty());
    // The latest first, and no more than places are free.
    let latest = Waiting { waited_s: 26.0, ..waits(1.0) };
    let waiting = [late.clone(), latest, late];
    assert_eq!(choose(&machine, &[], &waiting).begin, [1, 0]);
    assert_eq!(choose(&machine, &begun(1.0)[..1], &waiting).begin, [1]);
    assert_eq!(choose(&machine, &begun(1.0), &waiting).begin, [1], "it alone is short");
}

/// Lets a set of jobs that are all there run as `choose` says; the mean response time.
fn response_s(machine: &Machine, jobs: &[Job]) -> f64 {
    let left: Vec<f64> = vec![1.0; jobs.len()];
    let mut begun: Vec<usize> = Vec::new();
    let mut waiting: Vec<usize> = (0..jobs.len()).collect();
    let (mut now_s, mut sum_s) = (0.0, 0.0);
    while !(begun.is_empty() && waiting.is_empty()) {
        let those: Vec<Waiting> = waiting.iter().map(|job| waiting_for(jobs[*job].clone(), now_s)).collect();
        let with = |job: &usize| Begun { job: jobs[*job].clone(), left: left[*job], since_s: 0.0 };
        let with: Vec<Begun> = begun.iter().map(with).collect();
        let chosen: Vec<usize> = choose(machine, &with, &those).begin.iter().map(|place| waiting[*place]).collect();
        assert!(!(begun.is_empty() && chosen.is_empty()), "somebody runs");
        waiting.retain(|job| !chosen.contains(job));
        begun.extend(chosen);
        // Of jobs without sequential parts the first has all cpus.
        let first = begun.remove(0);
        let share = JobShare { job: &jobs[first], stage: JobStage::Parallel, cpus: machine.cpus };
        now_s += left[first] / machine.paces(&[share], Hogs::default()).speeds[0];
        sum_s += now_s;
    }
    sum_s / jobs.len() as f64
}

proptest! {
    #![proptest_config(crate::noise::cases(60))]
    #[test]
    fn sets_respond_no_later_than_as_they_came(
        set in prop::collection::vec((0.01f64..2.0, 0.0f64..1.0).prop_map(|(t_s, q)| job(t_s, q)), 1..9),
    ) {
        let machine = machine();
        let items: Vec<Item> = set.iter().map(|job| Item { job: job.clone(), arrives_s: 0.0 }).collect();
        let order: Vec<usize> = (0..set.len()).collect();
        let one_by_one = run_queue(&machine, &items, &Plan { at_once: 1, sharing: Sharing::Even, order }).unwrap();
        let ours = response_s(&machine, &set);
        prop_assert!(ours <= one_by_one.response_s * 1.05, "{ours} and {}", one_by_one.response_s);
    }
}
