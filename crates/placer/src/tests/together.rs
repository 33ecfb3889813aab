//! Items that somebody placed like each other, or that are read with each other.

use super::*;

#[test]
fn what_is_placed_alike_moves_together() {
    // All of it lies on one node; of two pairs that are alike one of each is read.
    let mut machine = Machine::new(vec![1e9; 2], &[1.0, 0.0, 1.0, 0.0]);
    for (place, item) in machine.items.iter_mut().enumerate() {
        (item.lies, item.like) = (vec![0], Some(place as u64 / 2));
    }
    let decided = machine.run(&mut Placer::default(), 40, &mut Random::new(1));
    assert_eq!(decided.len(), 2, "{decided:?}");
    let lies: Vec<&Vec<usize>> = machine.items.iter().map(|item| &item.lies).collect();
    assert_eq!((lies[0], lies[2]), (lies[1], lies[3]), "{lies:?}");
    assert_ne!(lies[0], lies[2]);
}

#[test]
fn what_is_placed_alike_gets_the_same_ranges_and_is_put_together_together() {
    let mut machine = Machine::new(vec![1e9; 2], &[1.0, 0.2, 0.0]);
    (machine.items[0].like, machine.items[1].like) = (Some(7), Some(7));
    machine.items[1].ranges_max = 2;
    let mut placer = Placer::default();
    machine.run(&mut placer, 10, &mut Random::new(1));
    assert_eq!((&machine.items[0].lies, &machine.items[1].lies), (&vec![0, 1], &vec![0, 1]));
    // One of them is read no more: both stay as they are. Then neither is.
    machine.items[0].weight = 0.0;
    assert_eq!(machine.run(&mut placer, 3 * COLD_PERIODS as usize, &mut Random::new(1)), []);
    (machine.items[1].weight, machine.items[2].weight) = (0.0, 1.0);
    let decided = machine.run(&mut placer, 2 * COLD_PERIODS as usize, &mut Random::new(1));
    let cold: Vec<&Decision> = decided.iter().map(|(_, of)| of).filter(|of| of.reason == Reason::Cold).collect();
    assert_eq!((cold.len(), &cold[0].to), (2, &cold[1].to), "{decided:?}");
}

#[test]
fn what_is_alike_stays_where_a_user_placed_one_of_it() {
    let mut machine = Machine::new(vec![1e9; 2], &[1.0, 1.0]);
    machine.items.iter_mut().for_each(|item| (item.lies, item.like) = (vec![0], Some(1)));
    machine.items[1].is_users = true;
    assert_eq!(machine.run(&mut Placer::default(), 40, &mut Random::new(1)), []);
}

/// Four columns of a table, each half read with the one before it and half with the one behind: a little more or less
/// by chance. They stay one.
#[test]
fn neighbours_in_a_chain_stay_together() {
    let mut machine = Machine::new(vec![1e9; 2], &[1.0; 8]);
    machine.items.iter_mut().enumerate().for_each(|(place, item)| item.lies = vec![place / 4]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    for period in 0..40 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        let read = observation.items[0].served[0];
        // At first all are seen to be one; then chance has it that two pairs are less than half read together.
        let share = |pair: usize| if period < 4 || pair.is_multiple_of(2) { 0.55 } else { 0.42 };
        observation.together =
            (0..4).map(|place| (place, (place + 1) % 4, (2.0 * share(place) * read as f64) as u64)).collect();
        placer.decide(&observation);
        let together = placer.history.together(&observation);
        assert_eq!(together.len(), 4, "period {period}: {together:?}");
    }
    for _ in 0..60 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        observation.together = vec![(0, 1, observation.items[0].served[0] / 4)];
        placer.decide(&observation);
    }
    assert_eq!(placer.history.together(&machine.observe(f64::INFINITY, &mut random)), [], "they are read apart now");
}
