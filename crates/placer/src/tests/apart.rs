//! Items that are read together and lie on nodes of their own.

use super::*;

/// Four nodes with an item each, of which three quarters are read from other nodes while they lie apart: cpus are busy
/// waiting then, for so many seconds, and so much is read of what could be; `together` is whether tasks read all of
/// them.
fn run_with(together: bool, (apart, busy): (f64, f64), periods: usize) -> (Machine, Vec<(usize, Decision)>) {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0; 4]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let mut all = Vec::new();
    for period in 0..periods {
        let is_apart = machine.items.iter().any(|item| item.lies != machine.items[0].lies);
        let most = if is_apart { apart * machine.throughput() } else { f64::INFINITY };
        let mut observation = machine.observe(most, &mut random);
        for (place, item) in observation.items.iter_mut().enumerate().filter(|_| is_apart) {
            item.remote = item.served.iter().sum::<u64>() * 3 / 4;
            item.busy[place] = busy;
        }
        if together {
            let bytes = observation.items[0].served.iter().sum::<u64>() * 2;
            let pairs = (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b, bytes)));
            observation.together = pairs.collect();
        }
        let decisions = placer.decide(&observation);
        machine.carry_out(&decisions);
        all.extend(decisions.into_iter().map(|decision| (period, decision)));
    }
    (machine, all)
}

fn run(together: bool, apart: f64, periods: usize) -> (Machine, Vec<(usize, Decision)>) {
    run_with(together, (apart, 4.0), periods)
}

/// What comes over links leaves nodes idle: neither their memory nor their cpus are busy.
#[test]
fn what_lies_apart_is_seen_where_nodes_are_idle() {
    let (machine, decided) = run_with(true, (0.05, 0.3), 100);
    assert_eq!(decided.len(), 4, "{decided:?}");
    assert!(decided.iter().all(|(_, of)| matches!(of.reason, Reason::Apart { .. })), "{decided:?}");
    assert!(machine.items.iter().all(|item| item.lies == [0, 1, 2, 3]));
}

#[test]
fn what_is_read_together_and_lies_apart_gets_the_same_ranges() {
    let (machine, decided) = run(true, 0.5, 100);
    assert_eq!(decided.len(), 4, "{decided:?}");
    assert!(decided.iter().all(|(_, of)| matches!(of.reason, Reason::Apart { .. })), "{decided:?}");
    assert!(decided[0].1.reason.to_string().contains("75% of that is read from other nodes"));
    assert!(machine.items.iter().all(|item| item.lies == [0, 1, 2, 3]));
}

#[test]
fn what_lies_apart_goes_back_where_the_same_ranges_do_not_help() {
    let (machine, decided) = run(true, 1.0, 200);
    let lies: Vec<&[usize]> = machine.items.iter().map(|item| item.lies.as_slice()).collect();
    assert_eq!(lies, [&[0][..], &[1], &[2], &[3]], "{decided:?}");
    let back = decided.iter().filter(|(_, of)| of.reason == Reason::DidNotHelp);
    assert_eq!((decided.len(), back.count()), (8, 4), "once there, once back: {decided:?}");
}

#[test]
fn what_is_not_read_together_may_lie_apart() {
    assert_eq!(run(false, 0.5, COLD_PERIODS as usize - 5).1, []);
}
