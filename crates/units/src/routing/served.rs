//! An inbox, the right to execute what lies in it, and who looks after it: the protocol without what commands mean.
//!
//! The right is a token that one thread at a time has. Who sends tries it afterwards, and executes if it is free. Who
//! gives it back looks into the inbox afterwards ([`Token`] does so when it is dropped, whatever it was taken for). So
//! a sender that found the token taken may sleep until it is answered. See `README.md` beside this file.
//!
//! Invariant: who has a token waits for nobody but the holder of a greater one.

#[cfg(not(loom))]
use super::inbox::Full;
use super::inbox::{Buffers, Inbox, Taken, Taker};
use crate::primitive::{AtomicU64, Mutex, MutexGuard, Ordering, fence, locked, try_locked};
use crate::waiter::Waiter;

/// See the module; `S` is what only the holder of the token touches.
#[derive(Debug)]
pub(crate) struct Served<B, S> {
    inbox: Inbox<B>,
    turn: Mutex<Turn<S>>,
    /// Senders that wait until something was taken out of a full inbox.
    room: Waiter,
}

#[derive(Debug)]
struct Turn<S> {
    taker: Taker,
    state: S,
}

/// Executes what was taken out of an inbox.
pub(crate) trait Executes<S> {
    /// Executes all of it; does not wait for anybody, and does not panic.
    fn execute(&self, state: &mut S, words: &[AtomicU64]);
}

impl<S, E: Executes<S>> Executes<S> for &E {
    fn execute(&self, state: &mut S, words: &[AtomicU64]) {
        (**self).execute(state, words);
    }
}

/// The right to execute; looks after what came meanwhile when it is dropped.
pub(crate) struct Token<'a, B: Buffers, S, E: Executes<S> + Copy> {
    served: &'a Served<B, S>,
    executes: E,
    /// `None` from when it is given back.
    turn: Option<MutexGuard<'a, Turn<S>>>,
}

impl<B: Buffers, S> Served<B, S> {
    pub(crate) fn new(buffers: B, state: S) -> Served<B, S> {
        let (inbox, taker) = Inbox::new(buffers);
        Served { inbox, turn: Mutex::new(Turn { taker, state }), room: Waiter::new() }
    }

    /// The inbox, to send to; who has sent calls [`run`](Self::run).
    pub(crate) fn inbox(&self) -> &Inbox<B> {
        &self.inbox
    }

    /// The token, if nobody has it.
    pub(crate) fn try_token<E: Executes<S> + Copy>(&self, executes: E) -> Option<Token<'_, B, S, E>> {
        let turn = try_locked(&self.turn)?;
        Some(Token { served: self, executes, turn: Some(turn) })
    }

    /// The token, as soon as it is free; for what is rare.
    pub(crate) fn token<E: Executes<S> + Copy>(&self, executes: E) -> Token<'_, B, S, E> {
        Token { served: self, executes, turn: Some(locked(&self.turn)) }
    }

    /// Executes what lies in the inbox as long as the token is free and there is something; to be called after sending.
    pub(crate) fn run<E: Executes<S> + Copy>(&self, executes: E) {
        fence(Ordering::SeqCst);
        loop {
            let Some(mut turn) = try_locked(&self.turn) else { return };
            let is_waiting = self.execute_inbox(&mut turn, executes);
            drop(turn);
            // Either a sender that found the token taken sees it free, or its words are seen here.
            fence(Ordering::SeqCst);
            if self.inbox.is_empty() && !is_waiting {
                return;
            }
            if is_waiting {
                pause();
            }
        }
    }

    /// Whether a sender was still writing what lies in the closed buffer.
    fn execute_inbox<E: Executes<S> + Copy>(&self, turn: &mut Turn<S>, executes: E) -> bool {
        loop {
            match turn.taker.take(&self.inbox) {
                Taken::Nothing => return false,
                Taken::NotYet => return true,
                Taken::Words(_) => {
                    // Taking has opened an empty buffer.
                    self.room.wake();
                    executes.execute(&mut turn.state, turn.taker.words(&self.inbox));
                }
            }
        }
    }

    /// Sends, however long the inbox is full: what lies in it is executed here if the token is free, and who has the
    /// token makes room otherwise.
    #[cfg(not(loom))]
    pub(crate) fn send<E: Executes<S> + Copy>(&self, len: usize, write: impl Fn(&[AtomicU64]), executes: E) {
        while let Err(Full) = self.inbox.append(len, &write) {
            self.run(executes);
            // Who has the token looks into the inbox afterwards, and makes room. Who finds it free looks here.
            self.room.wait(|| self.inbox.has_room(len) || try_locked(&self.turn).is_some());
            self.run(executes);
        }
    }

    /// Who waits for room.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn room(&self) -> &Waiter {
        &self.room
    }
}

impl<B: Buffers, S, E: Executes<S> + Copy> Token<'_, B, S, E> {
    /// Executes what lies in the inbox, before what the token was taken for.
    pub(crate) fn execute_inbox(&mut self) {
        let (served, executes) = (self.served, self.executes);
        if let Some(turn) = &mut self.turn {
            // Where a sender still writes, it is looked after when the token is dropped.
            let _ = served.execute_inbox(turn, executes);
        }
    }
}

impl<B: Buffers, S, E: Executes<S> + Copy> std::ops::Deref for Token<'_, B, S, E> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.turn.as_ref().expect("a token until it is dropped").state
    }
}

impl<B: Buffers, S, E: Executes<S> + Copy> std::ops::DerefMut for Token<'_, B, S, E> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.turn.as_mut().expect("a token until it is dropped").state
    }
}

impl<B: Buffers, S, E: Executes<S> + Copy> Drop for Token<'_, B, S, E> {
    fn drop(&mut self) {
        let is_waiting = self.turn.take().is_some_and(|turn| turn.taker.is_waiting());
        fence(Ordering::SeqCst);
        if is_waiting || !self.served.inbox.is_empty() {
            self.served.run(self.executes);
        }
    }
}

fn pause() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

#[cfg(all(test, loom))]
mod model;
