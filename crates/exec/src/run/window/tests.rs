//! The window against what it promises, with steps that end in any order.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use numa::Budget;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Bounds, ChargedBatch, Item, Window};
use crate::ExecError;
use crate::operators::limit::Limit;

const BATCH_ROWS: usize = 10;

/// What one step will do: make batches of these lengths, then end, perhaps with an error.
type Script = (Vec<usize>, bool);

struct Simulation {
    window: Window<usize>,
    budget: Arc<Budget>,
    scripts: Vec<Script>,
    /// Values of each step's batches still to come.
    rest: Vec<std::vec::IntoIter<Vec<i64>>>,
    started: usize,
    /// Numbers of steps that run, and which script.
    running: Vec<(u64, usize)>,
    out: Vec<i64>,
    failed: bool,
}

fn batch(values: Vec<i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values));
    RecordBatch::try_from_iter([("v", column)]).unwrap()
}

impl Simulation {
    fn new(scripts: Vec<Script>, limit: Option<Limit>, steps: usize) -> Simulation {
        let bounds = Bounds { steps, tasks: usize::MAX, bytes: u64::MAX, step_bytes: 0, batch_rows: BATCH_ROWS };
        let mut next = 0..;
        let mut rest = Vec::new();
        for (lengths, _) in &scripts {
            let values = lengths.iter().map(|&n| next.by_ref().take(n).collect()).collect::<Vec<_>>();
            rest.push(values.into_iter());
        }
        let (window, budget) = (Window::new(bounds, limit), Budget::unlimited());
        Simulation { window, budget, scripts, rest, started: 0, running: Vec::new(), out: Vec::new(), failed: false }
    }

    /// One action of the source, of a step or of a consumer.
    fn act(&mut self, choice: u8, pick: u8) -> Result<(), TestCaseError> {
        self.window.advance();
        match choice % 4 {
            0 if self.window.is_open() => {
                if self.started == self.scripts.len() {
                    self.window.close();
                } else {
                    let number = self.window.push(self.started);
                    prop_assert_eq!(self.window.claim(number), Some(self.started));
                    prop_assert_eq!(self.window.claim(number), None, "a step runs once");
                    self.running.push((number, self.started));
                    self.started += 1;
                }
            }
            1 | 2 if !self.running.is_empty() => {
                let at = pick as usize % self.running.len();
                let (number, script) = self.running[at];
                let wanted = match self.rest[script].next() {
                    Some(values) => {
                        let reservation = self.budget.reserve(8 * values.len() as u64).unwrap();
                        self.window.emit(number, ChargedBatch { batch: batch(values), reservation }).is_some()
                    }
                    None => {
                        let fails = self.scripts[script].1;
                        let failure = || Err(ExecError::Evaluation("scripted".into()));
                        self.window.finish(number, if fails { failure() } else { Ok(()) });
                        false
                    }
                };
                if !wanted {
                    self.running.swap_remove(at);
                }
            }
            3 => match self.window.pop() {
                Some(Item::Batches(batches)) => {
                    prop_assert!(!self.failed, "nothing comes after an error");
                    let rows: usize = batches.iter().map(|c| c.batch.num_rows()).sum();
                    prop_assert!((1..=BATCH_ROWS).contains(&rows), "{} rows", rows);
                    for charged in batches {
                        self.out.extend(charged.batch.column(0).as_primitive::<Int64Type>().values());
                    }
                }
                Some(Item::Error(_)) => {
                    prop_assert!(!self.failed, "an error comes once");
                    self.failed = true;
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn batches_come_in_order_up_to_the_limit_or_the_first_error(
        scripts in vec((vec(0..=BATCH_ROWS, 0..5), prop::bool::weighted(0.05)), 0..12),
        limit in prop::option::of((0usize..40, prop::option::of(0usize..60))),
        steps in 1usize..6,
        actions in vec((any::<u8>(), any::<u8>()), 0..400),
    ) {
        let limit = limit.map(|(skip, fetch)| Limit::new(skip, fetch));
        let mut simulation = Simulation::new(scripts.clone(), limit, steps);
        for (choice, pick) in actions {
            simulation.act(choice, pick)?;
        }
        // Whatever was left undone: everyone goes on until the end, which must come.
        for round in 0..10_000u32 {
            if simulation.window.is_finished() {
                break;
            }
            simulation.act((round % 4) as u8, (round / 4) as u8)?;
        }
        prop_assert!(simulation.window.is_finished());
        drop(simulation.running);

        let failing = scripts.iter().position(|(_, fails)| *fails);
        let whole = failing.map_or(scripts.len(), |at| at + 1);
        let rows: usize = scripts[..whole].iter().flat_map(|(lengths, _)| lengths).sum();
        let all = batch((0..rows as i64).collect());
        let mut limit = limit.unwrap_or(Limit::new(0, None));
        let kept = limit.apply(&all).map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec());
        prop_assert_eq!(simulation.out, kept.unwrap_or_default());
        prop_assert_eq!(simulation.failed, failing.is_some() && !limit.is_done());
        drop(simulation.window);
        prop_assert_eq!(simulation.budget.used_bytes(), 0);
    }
}

#[test]
fn bytes_bound_what_is_in_flight_but_never_stop_it() {
    let bounds = Bounds { steps: 8, tasks: usize::MAX, bytes: 100, step_bytes: 40, batch_rows: BATCH_ROWS };
    let mut window = Window::new(bounds, None);
    assert_eq!((0..8).take_while(|&i| window.is_open() && window.push(i) == i).count(), 2, "two steps of 40 bytes fit");
    let budget = Budget::unlimited();
    let reservation = budget.reserve(500).unwrap();
    assert_eq!(window.emit(0, ChargedBatch { batch: batch((0..10).collect()), reservation }), Some(true));
    window.finish(0, Ok(()));
    window.finish(1, Ok(()));
    window.advance();
    assert!(!window.is_open(), "500 bytes wait for a consumer");
    assert!(matches!(window.pop(), Some(Item::Batches(batches)) if batches.len() == 1));
    assert!(window.is_open(), "nothing is left, so one step may go on however much it makes");
    window.push(2);
    window.fail(ExecError::Cancelled);
    assert!(matches!(window.pop(), Some(Item::Error(ExecError::Cancelled))));
    assert!(window.is_finished() && !window.is_open() && budget.used_bytes() == 0);
}

#[test]
fn no_more_steps_are_in_flight_than_tasks_are_allowed() {
    let bounds = Bounds { steps: 8, tasks: 2, bytes: u64::MAX, step_bytes: 0, batch_rows: BATCH_ROWS };
    let mut window: Window<u64> = Window::new(bounds, None);
    let numbers = [window.push(0), window.push(1)];
    assert!(!window.is_open());
    window.finish(numbers[1], Ok(()));
    assert!(window.is_open(), "one that has ended makes room, though the one before it has not");
    window.set_tasks(1);
    assert!(!window.is_open());
    window.finish(numbers[0], Ok(()));
    assert!(window.is_open());
    window.push(2);
    assert!(!window.is_open());
    window.set_tasks(0);
    window.advance();
    assert!(!window.is_open(), "but never none at all");
}
