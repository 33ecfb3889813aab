//! The window of steps in flight and what they have made: pure bookkeeping, no thread and no lock.
//!
//! A step that was handed out has a *slot*. Slots are in the order of the source, and their batches are handed out in
//! that order: only the front slot's batches move on to the ready queue, where small ones are grouped so that a very
//! selective scan does not hand out a batch per granule. A slot that is gone (the limit is reached, someone failed,
//! nobody listens) tells its step to stop.
//!
//! Invariants: every batch made while its slot exists is handed out once, in order, unless the limit cuts it or an
//! error comes first; an error comes after the batches of the slots before it, and is the last thing handed out.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use numa::Reservation;

use crate::ExecError;
use crate::operators::limit::Limit;

/// Ready items for each slot: a granule makes as many when all its rows pass, in batches of 8192.
pub(crate) const ITEMS_PER_STEP: usize = 8;

/// A batch and what it is charged to.
pub(crate) struct ChargedBatch {
    pub(crate) batch: RecordBatch,
    pub(crate) reservation: Reservation,
}

/// What a consumer gets.
pub(crate) enum Item {
    /// To be handed out as one batch.
    Batches(Vec<ChargedBatch>),
    /// The end.
    Error(ExecError),
}

/// How much may be in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Slots; and [`ITEMS_PER_STEP`] times as many ready items.
    pub(crate) steps: usize,
    /// Steps that are queued or run.
    pub(crate) tasks: usize,
    /// Bytes made and not handed out, and expected of steps that have not made theirs.
    pub(crate) bytes: u64,
    /// Bytes that one step is expected to make.
    pub(crate) step_bytes: u64,
    /// Most rows of a batch.
    pub(crate) batch_rows: usize,
}

/// See the module. `S` is a step.
pub(crate) struct Window<S> {
    bounds: Bounds,
    limit: Option<Limit>,
    slots: VecDeque<Slot<S>>,
    /// Number of the front slot; numbers are never used again.
    first: u64,
    ready: VecDeque<Item>,
    group: Vec<ChargedBatch>,
    group_rows: usize,
    /// Bytes charged for batches in slots, group and ready items.
    held_bytes: u64,
    /// Nothing more will be pushed.
    closed: bool,
}

struct Slot<S> {
    /// Taken by whoever runs it.
    step: Option<S>,
    /// The step was run and has more to make, when what it made was taken.
    paused: bool,
    batches: VecDeque<ChargedBatch>,
    result: Option<Result<(), ExecError>>,
}

impl<S> Slot<S> {
    /// Whether somebody may take its step: a paused one goes on once what it made was taken.
    fn may_run(&self) -> bool {
        self.step.is_some() && (!self.paused || self.batches.is_empty())
    }
}

impl<S> Window<S> {
    pub(crate) fn new(bounds: Bounds, limit: Option<Limit>) -> Window<S> {
        Window {
            bounds,
            limit,
            slots: VecDeque::new(),
            first: 0,
            ready: VecDeque::new(),
            group: Vec::new(),
            group_rows: 0,
            held_bytes: 0,
            closed: limit.is_some_and(|l| l.is_done()),
        }
    }

    /// May another step start?
    pub(crate) fn is_open(&self) -> bool {
        if self.closed || self.slots.len() >= self.bounds.steps || self.is_full() {
            return false;
        }
        let unfinished = self.slots.iter().filter(|s| s.result.is_none()).count();
        if unfinished >= self.bounds.tasks.max(1) {
            return false;
        }
        let expected = self.held_bytes.saturating_add((unfinished as u64 + 1).saturating_mul(self.bounds.step_bytes));
        expected <= self.bounds.bytes || (self.slots.is_empty() && self.ready.is_empty())
    }

    /// Nothing moves on before something is handed out.
    fn is_full(&self) -> bool {
        self.ready.len() >= ITEMS_PER_STEP.saturating_mul(self.bounds.steps)
    }

    /// From now on so many steps are queued or run at a time.
    pub(crate) fn set_tasks(&mut self, tasks: usize) {
        self.bounds.tasks = tasks;
    }

    /// From now on a step is expected to make so many bytes.
    pub(crate) fn set_step_bytes(&mut self, bytes: u64) {
        self.bounds.step_bytes = bytes;
    }

    /// Adds a step at the end; its number.
    pub(crate) fn push(&mut self, step: S) -> u64 {
        self.slots.push_back(Slot { step: Some(step), paused: false, batches: VecDeque::new(), result: None });
        self.first + self.slots.len() as u64 - 1
    }

    /// Nothing more will be pushed.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Ends with `error` after what the steps before have made; nothing more will be pushed.
    pub(crate) fn close_with(&mut self, error: ExecError) {
        self.slots.push_back(Slot { step: None, paused: false, batches: VecDeque::new(), result: Some(Err(error)) });
        self.closed = true;
    }

    /// Ends with `error` at once; what was made is dropped.
    pub(crate) fn fail(&mut self, error: ExecError) {
        self.abandon();
        self.ready.push_back(Item::Error(error));
    }

    /// Ends at once; what was made is dropped.
    pub(crate) fn abandon(&mut self) {
        self.drop_slots();
        self.ready.clear();
        self.group.clear();
        self.group_rows = 0;
        self.held_bytes = 0;
    }

    fn drop_slots(&mut self) {
        self.first += self.slots.len() as u64;
        for slot in self.slots.drain(..) {
            self.held_bytes -= slot.batches.iter().map(|c| c.reservation.bytes()).sum::<u64>();
        }
        self.closed = true;
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot<S>> {
        self.slots.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Takes a step to run it; `None` where someone else did or its slot is gone.
    pub(crate) fn claim(&mut self, number: u64) -> Option<S> {
        self.slot(number).filter(|slot| !slot.paused)?.step.take()
    }

    /// Takes a step back that has more to make.
    pub(crate) fn pause(&mut self, number: u64, step: S) {
        if let Some(slot) = self.slot(number) {
            (slot.step, slot.paused) = (Some(step), true);
        }
    }

    /// The number of a step that paused and goes on, since all that it made was taken.
    pub(crate) fn resume(&mut self) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let index = self.slots.iter().position(|s| s.paused && s.batches.is_empty())?;
        self.slots[index].paused = false;
        Some(self.first + index as u64)
    }

    /// Takes the first step that nobody runs yet.
    pub(crate) fn claim_any(&mut self) -> Option<(u64, S)> {
        let index = self.slots.iter().position(Slot::may_run)?;
        self.slots[index].paused = false;
        let step = self.slots[index].step.take()?;
        Some((self.first + index as u64, step))
    }

    /// Is there a step that nobody runs yet?
    pub(crate) fn has_unclaimed(&self) -> bool {
        self.slots.iter().any(Slot::may_run)
    }

    /// Takes a batch that a step has made, and says whether it can move on: only the front slot's can. `None` where the
    /// slot is gone: the step may stop.
    pub(crate) fn emit(&mut self, number: u64, charged: ChargedBatch) -> Option<bool> {
        let bytes = charged.reservation.bytes();
        self.slot(number)?.batches.push_back(charged);
        self.held_bytes += bytes;
        Some(number == self.first)
    }

    /// A step has ended. After an error nothing more is pushed.
    pub(crate) fn finish(&mut self, number: u64, result: Result<(), ExecError>) {
        let failed = result.is_err();
        if let Some(slot) = self.slot(number) {
            slot.step = None;
            slot.result.get_or_insert(result);
            self.closed |= failed;
        }
    }

    /// Moves what the front slots have made on to the ready queue.
    pub(crate) fn advance(&mut self) {
        while !self.is_full() {
            let Some(front) = self.slots.front_mut() else {
                if self.closed {
                    self.flush();
                }
                return;
            };
            if let Some(charged) = front.batches.pop_front() {
                self.hand_on(charged);
                if self.limit.is_some_and(|l| l.is_done()) {
                    self.drop_slots();
                }
                continue;
            }
            match front.result.take() {
                None => return,
                Some(Ok(())) => {
                    self.slots.pop_front();
                    self.first += 1;
                }
                Some(Err(error)) => {
                    self.flush();
                    self.ready.push_back(Item::Error(error));
                    self.drop_slots();
                    return;
                }
            }
        }
    }

    /// Applies the limit to a batch and puts it into the group or the ready queue.
    fn hand_on(&mut self, mut charged: ChargedBatch) {
        if let Some(limit) = &mut self.limit {
            match limit.apply(&charged.batch) {
                Some(batch) => charged.batch = batch,
                None => {
                    self.held_bytes -= charged.reservation.bytes();
                    return;
                }
            }
        }
        let rows = charged.batch.num_rows();
        let large = rows * 2 >= self.bounds.batch_rows;
        if large || self.group_rows + rows > self.bounds.batch_rows {
            self.flush();
        }
        if large {
            self.ready.push_back(Item::Batches(vec![charged]));
        } else if rows > 0 {
            self.group.push(charged);
            self.group_rows += rows;
        } else {
            self.held_bytes -= charged.reservation.bytes();
        }
    }

    fn flush(&mut self) {
        if !self.group.is_empty() {
            self.ready.push_back(Item::Batches(std::mem::take(&mut self.group)));
            self.group_rows = 0;
        }
    }

    /// The next item, if there is one.
    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.ready.pop_front()?;
        match &item {
            Item::Batches(batches) => {
                self.held_bytes -= batches.iter().map(|c| c.reservation.bytes()).sum::<u64>();
            }
            Item::Error(_) => self.abandon(),
        }
        Some(item)
    }

    /// Items that a consumer can be served.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Is there a step that has not ended? Whoever runs it calls when it has.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.slots.iter().any(|slot| slot.result.is_none())
    }

    /// Nothing is left and nothing will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.slots.is_empty() && self.group.is_empty() && self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests;
