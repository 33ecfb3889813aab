use proptest::prelude::*;

use super::*;
use crate::curve::{Interpolation, Outside};
use crate::thesis::System;

fn curve() -> Curve {
    Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold).expect("a curve")
}

proptest! {
    #![proptest_config(crate::noise::cases(256))]

    #[test]
    fn the_gain_is_what_work_alone_would_have_taken(
        q1 in 0.0f64..1.0, q2 in 0.0f64..1.0, t1 in 0.1f64..3.0, t2 in 0.1f64..3.0, cpus1 in 1u32..5, cpus2 in 1u32..5,
    ) {
        // With unequal cpus too, which the thesis' formula does not cover: what both complete in one second together,
        // one after the other on all cpus.
        let cpus1 = f64::from(cpus1);
        let cpus2 = f64::from(cpus2);
        let [one, two] = [PlainJob { q: q1, t_s: t1 }, PlainJob { q: q2, t_s: t2 }];
        let (time1, time2) = predict_s(&curve(), (one, cpus1), (two, cpus2));
        let alone = |job: PlainJob| job.time_s(&curve(), cpus1 + cpus2, 0.0);
        let saved = 1.0 - 1.0 / (alone(one) / time1 + alone(two) / time2);
        let predicted = rho_model(&curve(), (q1, cpus1), (q2, cpus2));
        prop_assert!((saved - predicted).abs() < 1e-9, "{saved} {predicted}");
    }

    #[test]
    fn halves_give_the_formula_of_the_thesis(q1 in -0.2f64..1.0, q2 in -0.2f64..1.0, cpus in 1u32..5) {
        let curve = curve();
        let cpus = f64::from(cpus);
        let together = cpus * q1 + cpus * q2;
        let pi1 = cost(&curve, q1, together);
        let pi2 = cost(&curve, q2, together);
        let sigma1 = cost(&curve, q1, 2.0 * cpus * q1);
        let sigma2 = cost(&curve, q2, 2.0 * cpus * q2);
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
