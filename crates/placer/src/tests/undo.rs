//! Plans after which less is read than before.

use super::*;
use crate::limits::UNDO_PERIODS;

/// Runs with a rate that depends on what lies where and on the period; decisions by period.
fn run(machine: &mut Machine, periods: usize, rate: &dyn Fn(&Machine, usize) -> f64) -> Vec<(usize, Decision)> {
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let mut all = Vec::new();
    for period in 0..periods {
        let most = rate(machine, period) * (1.0 + 0.04 * (random.unit() - 0.5));
        let decisions = placer.decide(&machine.observe(most, &mut random));
        machine.carry_out(&decisions);
        all.extend(decisions.into_iter().map(|decision| (period, decision)));
    }
    all
}

fn is_lost(of: &Decision) -> bool {
    matches!(of.reason, Reason::Lost { .. })
}

/// Two of four nodes have all of the load, and give nearly all that they have.
fn skewed() -> (Machine, f64) {
    let machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    let rate = 0.98 * machine.throughput();
    (machine, rate)
}

#[test]
fn a_plan_with_which_less_is_read_goes_back_once_and_for_all() {
    let (mut machine, usual) = skewed();
    let before: Vec<Vec<usize>> = machine.items.iter().map(|item| item.lies.clone()).collect();
    let is_as_before =
        |machine: &Machine| machine.items.iter().zip([0, 1, 2, 3, 0, 1]).all(|(item, node)| item.lies == [node]);
    let decided = run(&mut machine, 400, &|machine, _| if is_as_before(machine) { usual } else { 0.7 * usual });
    // Nodes are idle, which is tried by itself.
    let is_tried = |of: &Decision| matches!(of.reason, Reason::Idle { .. } | Reason::DidNotHelp);
    let (there, back): (Vec<_>, Vec<_>) =
        decided.iter().filter(|(_, of)| !is_tried(of)).partition(|(_, of)| !is_lost(of));
    assert!(!there.is_empty() && there.len() == back.len(), "{decided:?}");
    assert!(there.iter().all(|(period, _)| *period == there[0].0), "not again: {decided:?}");
    assert!(back[0].0 >= there[0].0 + UNDO_PERIODS as usize);
    assert!(back[0].1.reason.to_string().starts_with("since it was moved 7"), "{}", back[0].1.reason);
    assert_eq!(machine.items.iter().map(|item| item.lies.clone()).collect::<Vec<_>>(), before);
}

#[test]
fn a_plan_with_which_as_much_is_read_stays() {
    let (mut machine, usual) = skewed();
    let decided = run(&mut machine, 400, &|_, _| usual);
    assert!(!decided.is_empty() && !decided.iter().any(|(_, of)| is_lost(of)), "{decided:?}");
}

/// Clients go as a plan is carried out: it goes back, which does not help; it may be made again then, and stays.
#[test]
fn a_plan_is_not_to_blame_for_clients_that_go() {
    let (mut machine, usual) = skewed();
    let decided = run(&mut machine, 400, &|_, period| if period < 6 { usual } else { 0.6 * usual });
    let lost: Vec<usize> = decided.iter().filter(|(_, of)| is_lost(of)).map(|(period, _)| *period).collect();
    assert!(lost.iter().all(|period| *period == lost[0]), "at most once: {decided:?}");
    let mut demand = machine.demand(&machine.items.iter().map(|item| item.lies.as_slice()).collect::<Vec<_>>());
    demand.sort_by(f64::total_cmp);
    assert!(demand[3] < 1.1 * demand[0], "it is balanced in the end: {demand:?} {decided:?}");
}

#[test]
fn with_another_load_nothing_is_known() {
    let (mut machine, usual) = skewed();
    let mut placer = Placer::default();
    let mut random = Random::new(1);
    let mut decided = machine.run(&mut placer, 4, &mut random);
    assert!(!decided.is_empty());
    machine.items.iter_mut().for_each(|item| item.weight = 1.0 - item.weight);
    for _ in 0..60 {
        let decisions = placer.decide(&machine.observe(0.3 * usual, &mut random));
        machine.carry_out(&decisions);
        decided.extend(decisions.into_iter().map(|decision| (4, decision)));
    }
    assert!(!decided.iter().any(|(_, of)| is_lost(of)), "{decided:?}");
}
