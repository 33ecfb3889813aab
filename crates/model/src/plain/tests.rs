use proptest::prelude::*;

use super::*;
use crate::curve::{Interpolation, Outside};
use crate::thesis::System;

fn curve() -> Curve {
    Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

/// The same course in small steps: how far has it come after each?
fn walk(curve: &Curve, job: PlainJob, course: &[Change], step_s: f64) -> f64 {
    let (mut now_s, mut done) = (0.0, 0.0);
    while done < 1.0 {
        let at = course.iter().rev().find(|change| change.at_s <= now_s).expect("begins at 0");
        // A step ends where something changes; without that it would count for what held at its beginning.
        let next = course.iter().map(|change| change.at_s).find(|&at_s| at_s > now_s);
        let step_s = next.map_or(step_s, |next| step_s.min(next - now_s));
        done += step_s / job.time_s(curve, at.cpus, at.others);
        now_s += step_s;
    }
    now_s
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn changes_on_the_way_add_up(
        q in 0.0f64..1.0,
        steps in prop::collection::vec((0.0f64..0.2, 0u32..9, 0.0f64..8.0), 0..6),
        cpus in 1u32..9,
    ) {
        let (curve, job) = (curve(), PlainJob { q, t_s: 1.0 });
        let mut course = vec![Change { at_s: 0.0, cpus: f64::from(cpus), others: 0.0 }];
        let mut at_s = 0.0;
        for (wait_s, cpus, others) in steps {
            at_s += wait_s;
            course.push(Change { at_s, cpus: f64::from(cpus), others });
        }
        // Whatever it was taken away, in the end it gets a cpu.
        course.push(Change { at_s: at_s + 0.1, cpus: 1.0, others: 1.0 });
        let fast = job.time_changing_s(&curve, &course).expect("a good course");
        let slow = walk(&curve, job, &course, 1e-4);
        prop_assert!(fast <= slow + 1e-9 && slow <= fast + 1.1e-4, "one step too long at most: {fast} {slow}");
    }

    #[test]
    fn a_change_to_the_same_changes_nothing(q in 0.0f64..1.0, others in 0.0f64..8.0, at in 0.01f64..0.99) {
        let (curve, job) = (curve(), PlainJob { q, t_s: 3.0 });
        let whole = job.time_s(&curve, 2.0, others);
        let course = [0.0, at * whole].map(|at_s| Change { at_s, cpus: 2.0, others });
        prop_assert!((job.time_changing_s(&curve, &course).expect("a good course") - whole).abs() < 1e-9);
    }

    #[test]
    fn time_is_what_section_5_1_says(q in 0.0f64..1.0, cpus in 1u32..9, others in 0.0f64..8.0) {
        let (curve, cpus) = (curve(), f64::from(cpus));
        let demand = cpus * q + others;
        let share = if demand == 0.0 { 1.0 } else { curve.bandwidth(demand) / demand };
        let time = PlainJob { q, t_s: 2.0 }.time_s(&curve, cpus, others);
        prop_assert!((time - 2.0 / cpus * (q / share + (1.0 - q))).abs() < 1e-9);
        prop_assert!(time >= 2.0 / cpus - 1e-9, "bandwidth held back never helps");
    }
}

#[test]
fn the_formula_of_the_thesis_for_one_change() {
    let (curve, job) = (curve(), PlainJob { q: 0.4, t_s: 10.0 });
    // time(p, q, k, r t) + time(p, q, k', (1 - r) t)
    let r = 1.0 / job.time_s(&curve, 3.0, 1.0);
    let part = |share: f64, others: f64| PlainJob { q: 0.4, t_s: share * 10.0 }.time_s(&curve, 3.0, others);
    let course = [(0.0, 1.0), (1.0, 5.0)].map(|(at_s, others)| Change { at_s, cpus: 3.0, others });
    assert!((job.time_changing_s(&curve, &course).expect("good") - part(r, 1.0) - part(1.0 - r, 5.0)).abs() < 1e-12);
}

#[test]
fn courses_that_are_none() {
    let (curve, job) = (curve(), PlainJob { q: 0.4, t_s: 10.0 });
    let change = |at_s: f64, cpus: f64| Change { at_s, cpus, others: 0.0 };
    let of = |course: &[Change]| job.time_changing_s(&curve, course);
    assert_eq!(of(&[]), Err(CourseError::NoStart));
    assert_eq!(of(&[change(1.0, 1.0)]), Err(CourseError::NoStart));
    assert_eq!(of(&[change(0.0, 1.0), change(2.0, -1.0)]), Err(CourseError::BadEntry { index: 1 }));
    assert_eq!(of(&[change(0.0, 1.0), change(2.0, 1.0), change(1.0, 1.0)]), Err(CourseError::BadEntry { index: 2 }));
    assert_eq!(of(&[change(0.0, 1.0), change(2.0, 0.0)]), Err(CourseError::NeverEnds { at_s: 2.0 }));
}
