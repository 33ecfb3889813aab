//! Targets, cuts and transfers of any accesses.

use super::*;
use random::Random;

fn random_loads(random: &mut Random, count: usize) -> Vec<f64> {
    (0..count).map(|_| if random.one_in(4) { 0.0 } else { random.below(1000) as f64 }).collect()
}

#[test]
fn sums_are_kept_and_a_window_over_all_is_one_shot() {
    let mut random = Random::new(3);
    for _ in 0..300 {
        let count = 1 + random.below(20);
        let loads = random_loads(&mut random, count);
        let sum: f64 = loads.iter().sum();
        for reach in [1, 2, 8, count as u32, u32::MAX] {
            let targets = targets(&loads, Algorithm::MovingAverage(reach));
            assert!((targets.iter().sum::<f64>() - sum).abs() <= 1e-6 * sum, "{loads:?}");
        }
        let one_shot = targets(&loads, Algorithm::OneShot);
        let over_all = targets(&loads, Algorithm::MovingAverage(count as u32));
        assert!(one_shot.iter().zip(&over_all).all(|(a, b)| (a - b).abs() <= 1e-6 * sum.max(1.0)));
        assert_eq!(targets(&loads, Algorithm::Off), loads);
    }
}

/// Accesses spread evenly over a range, as the units of a table see them.
fn accesses_of(table: &RangeTable, first: u64, width: u64, samples: u64) -> Vec<Accesses> {
    let mut accesses = vec![Accesses::default(); table.ranges()];
    for sample in 0..samples {
        let key = first + (u128::from(width) * u128::from(sample) / u128::from(samples)) as u64;
        let of = &mut accesses[table.owner_of(key)];
        of.count += 64.0;
        of.sample.push(key);
    }
    accesses
}

fn loads_of(accesses: &[Accesses]) -> Vec<f64> {
    accesses.iter().map(|of| of.count).collect()
}

#[test]
fn the_example_of_the_paper_is_balanced() {
    // Figure 6: partitions 3 to 6 of 8 have a quarter of the accesses each.
    let table = RangeTable::equal(8);
    let eighth = 1 << 61;
    let accesses = accesses_of(&table, 2 * eighth, 4 * eighth, 8000);
    assert!(deviation(&loads_of(&accesses)) > 0.2);
    assert!(deviation(&[5.0, 5.0, 5.1]) < 0.2 && deviation(&[0.0, 0.0]) == 0.0);
    let after = rebalanced(&accesses, Algorithm::OneShot).unwrap();
    let near = |key: u64, expected: u64| key.abs_diff(expected) < eighth / 1000;
    assert!(near(after.firsts()[1], 2 * eighth + eighth / 2), "{after:?}");
    assert!(near(after.firsts()[4], 4 * eighth));
    let gentle = rebalanced(&accesses, Algorithm::MovingAverage(1)).unwrap();
    assert!(gentle.firsts()[1] < after.firsts()[1], "a moving average moves less at a time");
    let moved = |after: &RangeTable| -> u128 {
        transfers(&table, after).iter().map(|transfer| u128::from(transfer.last - transfer.first) + 1).sum()
    };
    assert!(moved(&gentle) < moved(&after));
}

#[test]
fn cycles_of_any_accesses_keep_ranges_and_come_to_rest() {
    let mut random = Random::new(9);
    for algorithm in [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(8)] {
        for _ in 0..30 {
            let units = 2 + random.below(20);
            let mut table = RangeTable::equal(units);
            // What is accessed lies anywhere, evenly.
            let first = random.next_u64() / 2;
            let width = (1 << 20) + random.next_u64() / 4;
            for _ in 0..400 {
                let next = rebalanced(&accesses_of(&table, first, width, 2000), algorithm).unwrap();
                if next == table {
                    break;
                }
                assert_eq!((next.ranges(), next.owners().is_sorted()), (units, true));
                let mut moved = table.clone();
                for transfer in transfers(&table, &next) {
                    assert_eq!(table.owner_of(transfer.first), transfer.from);
                    moved = moved.moved(transfer.first, transfer.last, transfer.to);
                }
                assert_eq!(moved, next, "the transfers lead there");
                table = next;
            }
            let loads = loads_of(&accesses_of(&table, first, width, 2000));
            assert!(deviation(&loads) < 0.2, "{algorithm}: {loads:?}");
        }
    }
}

#[test]
fn cycles_that_gain_enough_come_to_rest_where_accesses_are_even() {
    let mut random = Random::new(19);
    for algorithm in [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(8)] {
        for _ in 0..10 {
            let units = 2 + random.below(20);
            let mut table = RangeTable::equal(units);
            let first = random.next_u64() / 2;
            let width = (1 << 20) + random.next_u64() / 4;
            let accesses = |table: &RangeTable| accesses_of(table, first, width, 200 * units as u64);
            for _ in 0..400 {
                let accesses = accesses(&table);
                if deviation(&loads_of(&accesses)) <= 0.2 {
                    break;
                }
                let after = rebalanced(&accesses, algorithm).unwrap();
                assert!(is_worth(&accesses, &after, algorithm), "{algorithm}: {:?}", loads_of(&accesses));
                table = after;
            }
            let loads = loads_of(&accesses(&table));
            assert!(deviation(&loads) <= 0.2, "{algorithm}: {loads:?}");
        }
    }
}

/// How much of all keys moves in 250 cycles, after some to begin with, where a third of the accesses are of one key and
/// the others of any; with cycles that gain little, or without.
fn moved_around_a_key(units: usize, algorithm: Algorithm, is_moved_anyway: bool) -> f64 {
    let mut random = Random::new(units as u64);
    let hot = random.next_u64();
    let mut table = RangeTable::equal(units);
    let mut moved = 0.0;
    for cycle in 0..300 {
        let mut accesses = vec![Accesses::default(); units];
        for _ in 0..100 * units {
            let key = if random.one_in(3) { hot } else { random.next_u64() };
            let of = &mut accesses[table.owner_of(key)];
            of.count += 64.0;
            of.sample.push(key);
        }
        let Some(after) = rebalanced(&accesses, algorithm) else { continue };
        if deviation(&loads_of(&accesses)) > 0.2 && (is_moved_anyway || is_worth(&accesses, &after, algorithm)) {
            let width = |transfer: &Transfer| (transfer.last - transfer.first) as f64 / u64::MAX as f64;
            let all: f64 = transfers(&table, &after).iter().map(width).sum();
            moved += if cycle < 50 { 0.0 } else { all };
            table = after;
        }
    }
    moved
}

#[test]
fn around_a_key_that_no_cut_shares_little_moves() {
    for algorithm in [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(8)] {
        for units in [2, 7, 64] {
            let moved = moved_around_a_key(units, algorithm, false);
            assert!(moved < 1.0, "{algorithm} over {units} units: {moved}");
        }
    }
    assert!(moved_around_a_key(64, Algorithm::OneShot, true) > 5.0);
    let even = vec![Accesses { count: 64.0, sample: vec![5] }; 1];
    assert!(!is_worth(&even, &RangeTable::equal(1), Algorithm::OneShot), "nothing to gain");
    assert!(!is_worth(&[], &RangeTable::equal(1), Algorithm::OneShot));
}

#[test]
fn one_key_and_the_ends_of_all_keys_are_cut_as_well_as_can_be() {
    for key in [0, 1, 77, u64::MAX - 1, u64::MAX] {
        let mut accesses = vec![Accesses::default(); 5];
        accesses[2] = Accesses { count: 1000.0, sample: vec![key; 10] };
        let after = rebalanced(&accesses, Algorithm::OneShot).unwrap();
        assert_eq!(after.ranges(), 5, "{after:?}");
    }
    assert_eq!(rebalanced(&vec![Accesses::default(); 3], Algorithm::OneShot), None);
    assert_eq!(rebalanced(&vec![Accesses { count: 5.0, sample: Vec::new() }; 3], Algorithm::OneShot), None);
}

#[test]
fn ranges_that_a_failed_cycle_left_come_into_order() {
    let mut random = Random::new(12);
    for _ in 0..100 {
        let units = 2 + random.below(8);
        let mut table = RangeTable::equal(units);
        for _ in 0..10 {
            let first = random.next_u64();
            table = table.moved(first, first.saturating_add(random.next_u64()), random.below(units));
        }
        let after = RangeTable::equal(units);
        let moved = transfers(&table, &after)
            .iter()
            .fold(table, |table, transfer| table.moved(transfer.first, transfer.last, transfer.to));
        assert_eq!(moved, after);
    }
}

#[test]
fn balancers_have_names() {
    for algorithm in [Algorithm::Off, Algorithm::OneShot, Algorithm::MovingAverage(8)] {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
    }
    for (text, neighbours) in [("ma(8)", 8), (" MA ( 1 ) ", 1), ("ma(4294967295)", u32::MAX)] {
        assert_eq!(text.parse(), Ok(Algorithm::MovingAverage(neighbours)));
    }
    for wrong in
        ["", "ma", "ma(0)", "ma(-1)", "oneshot", "ma(1", "ma()", "ma(1.5)", "ma(4294967296)", "max(1)", "ma((1))"]
    {
        assert!(wrong.parse::<Algorithm>().is_err(), "{wrong}");
    }
}
