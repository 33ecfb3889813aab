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
    fn time_is_what_section_5_1_says(q in 0.0f64..1.0, cpus in 1u32..9, others in 0.0f64..8.0) {
        let curve = curve();
        let cpus = f64::from(cpus);
        let demand = cpus * q + others;
        let share = if demand == 0.0 { 1.0 } else { curve.bandwidth(demand) / demand };
        let time = PlainJob { q, t_s: 2.0 }.time_s(&curve, cpus, others);
        prop_assert!((time - 2.0 / cpus * (q / share + (1.0 - q))).abs() < 1e-9);
        prop_assert!(time >= 2.0 / cpus - 1e-9, "bandwidth held back never helps");
    }
}
