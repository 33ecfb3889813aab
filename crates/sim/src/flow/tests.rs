use proptest::prelude::*;

use super::*;

type Use = Vec<(usize, f64)>;

fn solved(resources: &[Resource], classes: &[(f64, f64, Use)]) -> Vec<f64> {
    let classes: Vec<Class<'_>> =
        classes.iter().map(|(flows, cap, uses)| Class { flows: *flows, cap: *cap, uses }).collect();
    let mut rates = Vec::new();
    Solver::new(resources).solve(&classes, &mut rates);
    rates
}

#[test]
fn flows_share_what_they_meet_at() {
    let resources = [Resource::new(10.0), Resource::new(100.0)];
    // Three flows over the narrow one; one of them also alone on the wide one; a capped one.
    let rates = solved(
        &resources,
        &[(2.0, 50.0, vec![(0, 1.0)]), (1.0, 2.0, vec![(0, 1.0), (1, 1.0)]), (1.0, 1e9, vec![(1, 1.0)])],
    );
    assert_eq!(rates, [4.0, 2.0, 98.0]);
}

#[test]
fn a_flow_that_uses_nothing_has_its_cap_and_an_offer_is_the_level() {
    let resources = [Resource::new(10.0)];
    assert_eq!(solved(&resources, &[(3.0, 7.0, vec![])]), [7.0]);
    let mut solver = Solver::new(&resources);
    let mut rates = Vec::new();
    let uses = vec![(0, 1.0)];
    solver.solve(&[Class { flows: 5.0, cap: 9.0, uses: &uses }], &mut rates);
    assert_eq!(solver.offer(9.0, &uses), 2.0);
    assert_eq!(solver.offer(1.0, &uses), 1.0);
}

fn amounts() -> impl Strategy<Value = f64> {
    (1u32..40).prop_map(|tenths| f64::from(tenths) / 10.0)
}

prop_compose! {
    fn worlds()(capacities in proptest::collection::vec(1u32..50, 1..6))(
        classes in proptest::collection::vec(
            (0u32..5, 1u32..30, proptest::collection::btree_map(0..capacities.len(), amounts(), 0..5)),
            1..8,
        ),
        capacities in Just(capacities),
    ) -> (Vec<Resource>, Vec<(f64, f64, Use)>) {
        let resources = capacities.iter().map(|capacity| Resource::new(f64::from(*capacity))).collect();
        let classes = classes
            .into_iter()
            .map(|(flows, cap, uses)| (f64::from(flows), f64::from(cap) / 3.0, uses.into_iter().collect()))
            .collect();
        (resources, classes)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fast_solver_is_progressive_filling((resources, classes) in worlds()) {
        let fast = solved(&resources, &classes);
        let views: Vec<Class<'_>> =
            classes.iter().map(|(flows, cap, uses)| Class { flows: *flows, cap: *cap, uses }).collect();
        let slow = filling::rates(&resources, &views);
        for (place, (fast, slow)) in fast.iter().zip(&slow).enumerate() {
            if views[place].flows > 0.0 {
                prop_assert!((fast - slow).abs() <= 1e-6 * slow.max(1e-3), "class {}: {} and {}", place, fast, slow);
            }
        }
    }

    #[test]
    fn rates_are_max_min_fair((resources, classes) in worlds()) {
        let rates = solved(&resources, &classes);
        let used = |place: usize| -> f64 {
            let of = |(class, rate): (&(f64, f64, Use), &f64)| -> f64 {
                class.2.iter().filter(|(of, _)| *of == place).map(|(_, amount)| class.0 * amount * rate).sum()
            };
            classes.iter().zip(&rates).map(of).sum()
        };
        let full: Vec<bool> = (0..resources.len()).map(|r| used(r) >= resources[r].capacity * (1.0 - 1e-9)).collect();
        for (place, resource) in resources.iter().enumerate() {
            prop_assert!(used(place) <= resource.capacity * (1.0 + 1e-9));
        }
        for (place, (flows, cap, uses)) in classes.iter().enumerate().filter(|(_, class)| class.0 > 0.0) {
            prop_assert!(*flows > 0.0 && rates[place] <= *cap * (1.0 + 1e-12));
            let fastest_there = |resource: usize| {
                let crosses = |class: &(f64, f64, Use)| class.0 > 0.0 && class.2.iter().any(|(of, _)| *of == resource);
                let there = classes.iter().zip(&rates).filter(|(class, _)| crosses(class));
                there.map(|(_, rate)| *rate).fold(0.0, f64::max)
            };
            let held = uses.iter().any(|(of, _)| full[*of] && rates[place] >= fastest_there(*of) * (1.0 - 1e-9));
            prop_assert!(held || rates[place] >= *cap * (1.0 - 1e-9), "class {} could go faster", place);
        }
    }
}
