use proptest::prelude::*;

use super::*;
use crate::curve::{Curve, Interpolation, Outside};
use crate::machine::DemandRule;
use crate::thesis::System;

fn machine() -> Machine {
    let curve = Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold);
    Machine::simple(curve.expect("a curve"), 8.0)
}

fn item((q, hidden, sequential, t_s, arrives_s): (f64, f64, f64, f64, f64)) -> Item {
    Item { job: Job { t_s, q, hidden: hidden * (1.0 - q), sequential, ..Job::default() }, arrives_s }
}

fn items(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Item>> {
    let one = (
        0.0f64..1.0,
        0.0f64..1.0,
        prop_oneof![Just(0.0), 0.0f64..1.0],
        0.2f64..4.0,
        prop_oneof![Just(0.0), 0.0f64..1.0],
    );
    prop::collection::vec(one.prop_map(item), count)
}

/// The same in small steps, stages and who may run looked at anew in each.
fn walk(machine: &Machine, items: &[Item], plan: &Plan, step_s: f64) -> Vec<f64> {
    let mut ends = vec![f64::NAN; items.len()];
    let mut done: Vec<Option<f64>> = vec![None; items.len()];
    let mut now_s = 0.0;
    while ends.iter().any(|end| end.is_nan()) {
        let at_work = |done: &[Option<f64>]| done.iter().flatten().filter(|&&done| done < 1.0).count();
        for &index in &plan.order {
            if done[index].is_none() && items[index].arrives_s <= now_s && at_work(&done) < plan.at_once {
                done[index] = Some(0.0);
            }
        }
        let indices: Vec<usize> = (0..items.len()).filter(|&i| done[i].is_some_and(|done| done < 1.0)).collect();
        let count = if plan.sharing == Sharing::Fixed { plan.at_once } else { indices.len().max(1) };
        let running: Vec<JobShare> = indices
            .iter()
            .map(|&index| {
                let job = &items[index].job;
                let alone = done[index].is_some_and(|done| done < job.sequential);
                let stage = if alone { JobStage::Sequential } else { JobStage::Parallel };
                JobShare { job, stage, cpus: machine.cpus / count as f64 }
            })
            .collect();
        let moment = machine.paces(&running, Hogs::default());
        now_s += step_s;
        for (&index, speed) in indices.iter().zip(moment.speeds) {
            let now_done = done[index].unwrap_or(0.0) + speed * step_s;
            done[index] = Some(now_done);
            if now_done >= 1.0 {
                ends[index] = now_s;
            }
        }
    }
    ends
}

proptest! {
    #![proptest_config(crate::noise::cases(24))]

    #[test]
    fn events_are_what_small_steps_see(items in items(1..5), at_once in 1usize..4, even: bool) {
        // The quicker rule: it is steps that are compared here.
        let machine = Machine { rule: DemandRule::Waiting, ..machine() };
        let sharing = if even { Sharing::Even } else { Sharing::Fixed };
        // In order of arrival: else an end a step before or after an arrival makes another job the next.
        let mut order: Vec<usize> = (0..items.len()).rev().collect();
        order.sort_by(|&a, &b| items[a].arrives_s.total_cmp(&items[b].arrives_s));
        let plan = Plan { at_once, sharing, order };
        let exact = run_queue(&machine, &items, &plan).expect("good jobs");
        let walked = walk(&machine, &items, &plan, 2e-4);
        for (run, end_s) in exact.runs.iter().zip(walked) {
            // Every event before it may come a step late, at eight cpus' speed instead of one's.
            prop_assert!((run.stop_s - end_s).abs() < 0.03, "{run:?} {end_s}");
        }
    }

    #[test]
    fn nobody_starts_before_arriving_or_runs_beside_too_many(items in items(1..9), at_once in 1usize..5, even: bool) {
        let sharing = if even { Sharing::Even } else { Sharing::Fixed };
        let plan = Plan { at_once, sharing, order: (0..items.len()).collect() };
        let outcome = run_queue(&machine(), &items, &plan).expect("good jobs");
        for (run, item) in outcome.runs.iter().zip(&items) {
            prop_assert!(run.start_s >= item.arrives_s && run.stop_s > run.start_s);
            let beside = outcome.runs.iter().filter(|other| other.start_s <= run.start_s && other.stop_s > run.start_s);
            prop_assert!(beside.count() <= at_once);
        }
        prop_assert!(outcome.makespan_s >= outcome.response_s);
    }
}

#[test]
fn one_at_a_time_is_the_sum_of_times_alone() {
    let machine = machine();
    let items = [(0.3, 0.0, 0.1, 1.0, 0.0), (0.9, 0.0, 0.0, 2.0, 0.0)].map(item);
    let plan = Plan { at_once: 1, sharing: Sharing::Even, order: vec![1, 0] };
    let outcome = run_queue(&machine, &items, &plan).expect("good jobs");
    let times = items.each_ref().map(|item| machine.time_s(&item.job, 8.0, Hogs::default()));
    assert!((outcome.makespan_s - times[0] - times[1]).abs() < 1e-9);
    assert!((outcome.response_s - (2.0 * times[1] + times[0]) / 2.0).abs() < 1e-9);
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let machine = machine();
    let items = [(0.3, 0.0, 0.1, 1.0, 0.0), (0.9, 0.0, 0.0, 2.0, 0.0)].map(item);
    let of = |order: &[usize], at_once: usize| {
        run_queue(&machine, &items, &Plan { at_once, sharing: Sharing::Fixed, order: order.to_vec() })
    };
    assert_eq!(of(&[0], 1), Err(FluidError::BadOrder { jobs: 2 }));
    assert_eq!(of(&[0, 0], 1), Err(FluidError::BadOrder { jobs: 2 }));
    assert_eq!(of(&[0, 2], 1), Err(FluidError::BadOrder { jobs: 2 }));
    assert_eq!(of(&[0, 1], 0), Err(FluidError::BadAtOnce { at_once: 0, cpus: 8.0 }));
    assert_eq!(of(&[0, 1], 9), Err(FluidError::BadAtOnce { at_once: 9, cpus: 8.0 }));
    let late = [Item { arrives_s: f64::NAN, ..items[0].clone() }];
    let plan = Plan { at_once: 1, sharing: Sharing::Fixed, order: vec![0] };
    assert!(matches!(run_queue(&machine, &late, &plan), Err(FluidError::BadArrival { index: 0, .. })));
    let bad = Item { job: Job { q: 2.0, ..items[0].job.clone() }, arrives_s: 0.0 };
    assert!(matches!(run_queue(&machine, &[bad], &plan), Err(FluidError::Machine(_))));
    let none =
        run_queue(&machine, &[], &Plan { at_once: 1, sharing: Sharing::Even, order: vec![] }).expect("nothing to do");
    assert_eq!(none.makespan_s, 0.0);
}
