use proptest::prelude::*;

use super::*;
use crate::curve::{Curve, Interpolation, Outside};
use crate::job::Job;
use crate::noise::Noise;
use crate::thesis::System;

const OBJECTIVES: [Objective; 3] = [Objective::Makespan, Objective::Response, Objective::Throughput];

fn machine() -> Machine {
    let curve = Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold);
    Machine::simple(curve.expect("a curve"), 8.0)
}

fn set(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Item>> {
    let one = (0.0f64..1.0, prop_oneof![Just(0.0), 0.0f64..0.4], 0.2f64..4.0, prop_oneof![Just(0.0), 0.0f64..1.0]);
    let item = |(q, sequential, t_s, arrives_s)| Item { job: Job { t_s, q, sequential, ..Job::default() }, arrives_s };
    prop::collection::vec(one.prop_map(item), count)
}

fn is_order(order: &[usize], count: usize) -> bool {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted == (0..count).collect::<Vec<_>>()
}

/// The slow twin of [`plan`]: tries every order.
fn exhaustive(
    machine: &Machine,
    items: &[Item],
    objective: Objective,
    search: Search,
) -> Result<ScoredPlan, OrderError> {
    let (mut seeker, at_once_max) = begin(machine, items, objective, search)?;
    let mut orders = Vec::new();
    permutations(&mut (0..items.len()).collect::<Vec<_>>(), 0, &mut orders);
    for at_once in 1..=at_once_max {
        for order in &orders {
            seeker.is_best(Plan { at_once, sharing: search.sharing, order: order.clone() });
        }
    }
    seeker.end()
}

fn permutations(order: &mut Vec<usize>, fixed: usize, out: &mut Vec<Vec<usize>>) {
    if fixed == order.len() {
        out.push(order.clone());
        return;
    }
    for at in fixed..order.len() {
        order.swap(fixed, at);
        permutations(order, fixed + 1, out);
        order.swap(fixed, at);
    }
}

proptest! {
    #![proptest_config(crate::noise::cases(12))]

    #[test]
    fn between_every_order_and_first_come(items in set(1..6), even: bool) {
        let machine = machine();
        let sharing = if even { Sharing::Even } else { Sharing::Fixed };
        let search = Search { sharing, at_once_max: 3, ..Search::default() };
        for objective in OBJECTIVES {
            let good = plan(&machine, &items, objective, search).expect("good jobs");
            let best = exhaustive(&machine, &items, objective, search).expect("few jobs");
            prop_assert!(is_order(&good.plan.order, items.len()));
            prop_assert!(best.score <= good.score * (1.0 + 1e-12), "nothing beats trying all");
            prop_assert!(good.score <= 1.05 * best.score, "{objective:?}: {good:?} {best:?}");
            for at_once in 1..=3usize.min(items.len()) {
                let simple = first_come(&machine, &items, objective, at_once, sharing).expect("good jobs");
                prop_assert!(good.score <= simple.score * (1.0 + 1e-12), "{objective:?}");
            }
        }
    }
}

/// The Xeon's fitted queries of Table 5.1, without the two that have a negative q.
fn thesis_set() -> Vec<Item> {
    let jobs = System::Xeon.queries().into_iter().filter_map(|query| Job::of_plain(query.job).ok());
    jobs.map(|job| Item { job, arrives_s: 0.0 }).collect()
}

#[test]
fn what_it_gains_on_jobs_with_sequential_parts() {
    // The thesis' jobs are too alike to gain much (its rho_model stays below 8%), jobs with parts for one thread are
    // not.
    let machine = machine();
    let search = Search { simulations_max: 400, ..Search::default() };
    let mut noise = Noise::new(11);
    let mixed: Vec<Item> = (0..10)
        .map(|_| {
            let job = Job {
                t_s: noise.between(0.2, 4.0),
                q: noise.between(0.0, 0.9),
                sequential: noise.between(0.0, 0.3),
                ..Job::default()
            };
            Item { job, arrives_s: 0.0 }
        })
        .collect();
    for (name, items, least) in [("thesis", thesis_set(), 0.01), ("mixed", mixed, 0.2)] {
        for objective in OBJECTIVES {
            let simple = first_come(&machine, &items, objective, 1, Sharing::Even).expect("good jobs");
            let good = plan(&machine, &items, objective, search).expect("good jobs");
            let gain = 1.0 - good.score / simple.score;
            println!(
                "{name} {objective:?}: {:.4} -> {:.4}, gain {:.3}, {} at a time",
                simple.score, good.score, gain, good.plan.at_once
            );
            assert!(gain > least, "{name} {objective:?} {gain}");
        }
    }
}

#[test]
fn a_plan_survives_parameters_that_are_a_little_wrong() {
    // Planned with figures that are 10% off, judged with the true ones.
    let machine = machine();
    let mut noise = Noise::new(5);
    let mut simple_s = 0.0;
    let mut planned_s = 0.0;
    for _ in 0..10 {
        let truth: Vec<Item> = (0..6)
            .map(|_| {
                let job = Job {
                    t_s: noise.between(0.2, 4.0),
                    q: noise.between(0.0, 0.9),
                    sequential: noise.between(0.0, 0.3),
                    ..Job::default()
                };
                Item { job, arrives_s: 0.0 }
            })
            .collect();
        let mut off = || 1.0 + noise.between(-0.1, 0.1);
        let believed: Vec<Item> = truth
            .iter()
            .map(|item| {
                let job = &item.job;
                let job = Job {
                    t_s: job.t_s * off(),
                    q: job.q * off(),
                    sequential: job.sequential * off(),
                    ..Job::default()
                };
                Item { job, ..item.clone() }
            })
            .collect();
        let planned =
            plan(&machine, &believed, Objective::Makespan, Search { simulations_max: 500, ..Search::default() });
        let planned = planned.expect("good jobs").plan;
        planned_s += run_queue(&machine, &truth, &planned).expect("good jobs").makespan_s;
        simple_s += first_come(&machine, &truth, Objective::Makespan, 1, Sharing::Even).expect("good jobs").score;
    }
    println!("first come {simple_s:.3}, planned with wrong figures {planned_s:.3}");
    assert!(planned_s < 0.9 * simple_s);
}

#[test]
fn the_example_of_section_5_4_1() {
    // Running together lowers the makespan, and short jobs first the mean response time.
    let machine = machine();
    let job = |q: f64, t_s: f64| Item { job: Job { t_s, q, ..Job::default() }, arrives_s: 0.0 };
    let items = [job(0.9, 1.0), job(0.0, 1.0)];
    let makespan = plan(&machine, &items, Objective::Makespan, Search::default()).expect("good jobs");
    assert_eq!(makespan.plan.at_once, 2);
    let response = plan(&machine, &items, Objective::Response, Search::default()).expect("good jobs");
    assert!(response.score < makespan.outcome.response_s);
    assert!(response.outcome.makespan_s >= makespan.score);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let machine = machine();
    let items = vec![Item { job: Job { t_s: 1.0, ..Job::default() }, arrives_s: 0.0 }; 8];
    let none = Search { at_once_max: 0, ..Search::default() };
    assert_eq!(plan(&machine, &items, Objective::Makespan, none), Err(OrderError::NoneAtOnce));
    let bad = [Item { job: Job::default(), arrives_s: 0.0 }];
    assert!(matches!(plan(&machine, &bad, Objective::Makespan, Search::default()), Err(OrderError::Fluid(_))));
    let nothing = plan(&machine, &[], Objective::Response, Search::default()).expect("nothing to do");
    assert!(nothing.plan.order.is_empty());
}
