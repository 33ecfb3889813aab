//! A unit's incoming commands: two buffers, of which one is open to everybody. See `README.md` beside this file.
//!
//! Invariants: a word that was appended is taken once; words of one append lie side by side; the words of the taken
//! buffer do not change until the next one is taken.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2 (after Levandoski et al., PVLDB 2013).

use crate::primitive::{AtomicU64, Ordering};

const OPEN: u64 = 1 << 63;
const WORDS_SHIFT: u32 = 31;
const WORDS_MASK: u64 = u32::MAX as u64;
const SENDERS_MASK: u64 = (1 << WORDS_SHIFT) - 1;
/// The most words of a buffer: what the descriptor can count.
const CAPACITY_MAX: usize = u32::MAX as usize;

/// Where the words of the buffers lie; both have as many.
pub(crate) trait Buffers {
    /// The words of one of the two.
    fn words(&self, buffer: usize) -> &[AtomicU64];
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox<B> {
    buffers: B,
    open: AtomicU64,
    descriptors: [AtomicU64; 2],
}

/// An append that found no place; nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// What [`Taker::take`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing was appended.
    Nothing,
    /// A sender is still writing; ask again.
    NotYet,
    /// So many words are there to execute.
    Words(usize),
}

/// The side of an inbox that its unit has: held by whoever holds the unit's token.
#[derive(Debug, Default)]
pub(crate) struct Taker {
    /// The closed buffer, when its senders were not done.
    closed: Option<usize>,
    /// The buffer that was taken last.
    taken: usize,
}

fn words_of(descriptor: u64) -> usize {
    (descriptor >> WORDS_SHIFT & WORDS_MASK) as usize
}

impl<B: Buffers> Inbox<B> {
    pub(crate) fn new(buffers: B) -> (Inbox<B>, Taker) {
        assert!(buffers.words(0).len().max(buffers.words(1).len()) <= CAPACITY_MAX, "a buffer is too long");
        let inbox = Inbox { buffers, open: AtomicU64::new(0), descriptors: [AtomicU64::new(OPEN), AtomicU64::new(0)] };
        (inbox, Taker { closed: None, taken: 1 })
    }

    /// Where its words lie.
    #[cfg(test)]
    pub(crate) fn buffers(&self) -> &B {
        &self.buffers
    }

    /// The most words of one append.
    pub(crate) fn capacity(&self) -> usize {
        self.buffers.words(0).len()
    }

    /// Appends words that `write` is given the place of.
    pub(crate) fn append(&self, len: usize, write: impl FnOnce(&[AtomicU64])) -> Result<(), Full> {
        loop {
            let buffer = self.open.load(Ordering::Acquire) as usize;
            let descriptor = &self.descriptors[buffer];
            let seen = descriptor.load(Ordering::Relaxed);
            if seen & OPEN == 0 {
                std::hint::spin_loop();
                #[cfg(loom)]
                loom::thread::yield_now();
                continue;
            }
            let start = words_of(seen);
            if start + len > self.capacity() {
                return Err(Full);
            }
            let taken = seen + ((len as u64) << WORDS_SHIFT) + 1;
            // Acquire: what the unit read of these words before it opened the buffer comes before they are written.
            if descriptor.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                write(&self.buffers.words(buffer)[start..start + len]);
                descriptor.fetch_sub(1, Ordering::Release);
                return Ok(());
            }
        }
    }

    /// Whether so many words may fit the open buffer.
    #[cfg(not(loom))]
    pub(crate) fn has_room(&self, len: usize) -> bool {
        let open = self.open.load(Ordering::Acquire) as usize;
        words_of(self.descriptors[open].load(Ordering::Acquire)) + len <= self.capacity()
    }

    /// Whether nothing waits in the open buffer.
    pub(crate) fn is_empty(&self) -> bool {
        let open = self.open.load(Ordering::Acquire) as usize;
        words_of(self.descriptors[open].load(Ordering::Acquire)) == 0
    }
}

impl Taker {
    /// Takes what was appended, when there is something and it is whole.
    pub(crate) fn take<B: Buffers>(&mut self, inbox: &Inbox<B>) -> Taken {
        let buffer = match self.closed {
            Some(buffer) => buffer,
            None if inbox.is_empty() => return Taken::Nothing,
            None => self.swap(inbox),
        };
        let descriptor = inbox.descriptors[buffer].load(Ordering::Acquire);
        if descriptor & SENDERS_MASK != 0 {
            self.closed = Some(buffer);
            return Taken::NotYet;
        }
        self.closed = None;
        self.taken = buffer;
        Taken::Words(words_of(descriptor))
    }

    /// Whether a buffer is closed whose senders were not done when it was last looked at.
    pub(crate) fn is_waiting(&self) -> bool {
        self.closed.is_some()
    }

    /// Opens the buffer that is done with and closes the other.
    fn swap<B: Buffers>(&mut self, inbox: &Inbox<B>) -> usize {
        let opened = self.taken;
        inbox.descriptors[opened].store(OPEN, Ordering::Release);
        inbox.open.store(opened as u64, Ordering::Release);
        let closed = 1 - opened;
        inbox.descriptors[closed].fetch_and(!OPEN, Ordering::AcqRel);
        closed
    }

    /// The words that were taken last.
    pub(crate) fn words<'a, B: Buffers>(&self, inbox: &'a Inbox<B>) -> &'a [AtomicU64] {
        let len = words_of(inbox.descriptors[self.taken].load(Ordering::Relaxed));
        &inbox.buffers.words(self.taken)[..len]
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) struct Heap([Box<[AtomicU64]>; 2]);

    impl Buffers for Heap {
        fn words(&self, buffer: usize) -> &[AtomicU64] {
            &self.0[buffer]
        }
    }

    pub(crate) fn heap(words: usize) -> Heap {
        let buffer = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Heap([buffer(), buffer()])
    }

    #[test]
    #[cfg(not(loom))]
    fn every_word_of_many_senders_is_taken_once_and_in_its_senders_order() {
        const SENDERS: u64 = 4;
        const EACH: u64 = 20_000;
        let (inbox, mut taker) = Inbox::new(heap(64));
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let inbox = &inbox;
                scope.spawn(move || {
                    let mut next = 0;
                    while next < EACH {
                        let len = (1 + next % 5).min(EACH - next);
                        let appended = inbox.append(len as usize, |words| {
                            for (place, word) in words.iter().enumerate() {
                                word.store(sender << 32 | (next + place as u64), Ordering::Relaxed);
                            }
                        });
                        match appended {
                            Ok(()) => next += len,
                            Err(Full) => std::thread::yield_now(),
                        }
                    }
                });
            }
            let mut expected = [0; SENDERS as usize];
            let mut left = SENDERS * EACH;
            while left > 0 {
                match taker.take(&inbox) {
                    Taken::Words(count) => {
                        assert_eq!(taker.words(&inbox).len(), count);
                        for word in taker.words(&inbox) {
                            let word = word.load(Ordering::Relaxed);
                            let sender = (word >> 32) as usize;
                            assert_eq!(word & u64::from(u32::MAX), expected[sender]);
                            expected[sender] += 1;
                        }
                        left -= count as u64;
                    }
                    Taken::Nothing | Taken::NotYet => std::thread::yield_now(),
                }
            }
            assert_eq!(taker.take(&inbox), Taken::Nothing);
        });
    }

    #[test]
    #[cfg(not(loom))]
    fn what_does_not_fit_is_refused_whole() {
        let (inbox, mut taker) = Inbox::new(heap(8));
        assert_eq!(inbox.append(9, |_| panic!("too long")), Err(Full));
        inbox.append(6, |words| words.iter().for_each(|word| word.store(1, Ordering::Relaxed))).unwrap();
        assert_eq!(inbox.append(3, |_| panic!("no place")), Err(Full));
        assert_eq!(taker.take(&inbox), Taken::Words(6));
        inbox.append(3, |words| words.iter().for_each(|word| word.store(2, Ordering::Relaxed))).unwrap();
        assert_eq!(taker.take(&inbox), Taken::Words(3));
        assert!(taker.words(&inbox).iter().all(|word| word.load(Ordering::Relaxed) == 2));
        assert_eq!((taker.take(&inbox), taker.closed), (Taken::Nothing, None));
    }
}
