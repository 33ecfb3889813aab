//! Items that somebody placed like each other.

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
