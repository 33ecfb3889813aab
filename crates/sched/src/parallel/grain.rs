//! How much a worker takes at a time, and how much a body gets per call: pure, with times as numbers.
//!
//! A worker takes a *portion* of a pile's elements and runs it in one or more calls of the body. With an adaptive grain
//! the first portion is one element; each portion that was measured says how many elements take [`PORTION_NS`], and
//! the next may be up to eight times as large. Near the end of a pile portions shrink, so that all workers end
//! together.
//!
//! Invariants: a portion has at least one element and no more than there are; with a fixed grain every call but the
//! last of a stretch of elements has exactly that many.
//!
//! # Limits
//! A body whose calls cost more than [`PORTION_NS`] by themselves from the first one on gets one element per call; it
//! needs [`Grain::Elements`].
//!
//! Source: Seidel 2011, NUMA Building Blocks, chapter 6 names adaptive grains as future work; that portions shrink with
//! what is left is guided self-scheduling (Polychronopoulos and Kuck, 1987).

use std::sync::atomic::{AtomicUsize, Ordering};

/// What a portion should take: within the 20 to 50 us that make a hand-over cheap and waiting for the last one short.
pub(super) const PORTION_NS: u64 = 40_000;
/// Calls of the body that an adaptive portion is run in: between them its worker can see that others have nothing left.
const CALLS_PER_PORTION: usize = 4;
/// A portion is at most this many times what was measured before.
const GROWTH_MAX: usize = 8;
/// Long portions and calls are whole multiples of this many elements, so that two of them rarely share a cache line.
const UNIT: usize = 64;
/// A call that takes at least this long may be followed by a look at the clock; for shorter ones that would cost too
/// much.
const CLOCK_PAYS_NS: u64 = 4_000;

/// How many elements a body gets per call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// As many as take about 10 us (and a worker takes about 40 us' worth at a time), measured as the loop runs.
    #[default]
    Adaptive,
    /// This many elements (0 counts as 1), and fewer only where a stretch of elements ends.
    Elements(usize),
    /// As many elements as this many bytes hold, at least one. Elements of a plain range count as one byte.
    Bytes(u64),
}

impl Grain {
    /// Elements per call; `None` where they are to be measured.
    pub(super) fn fixed(self, element_bytes: usize) -> Option<usize> {
        match self {
            Grain::Adaptive => None,
            Grain::Elements(elements) => Some(elements.max(1)),
            Grain::Bytes(bytes) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                Some((bytes / element_bytes.max(1)).max(1))
            }
        }
    }
}

/// What the workers of one loop tell each other about its speed.
#[derive(Debug)]
pub(super) struct SharedPace {
    fixed: Option<usize>,
    /// Elements that take about [`PORTION_NS`].
    elements: AtomicUsize,
    /// See [`Pace::floor`].
    floor: AtomicUsize,
}

impl SharedPace {
    pub(super) fn new(fixed: Option<usize>) -> SharedPace {
        SharedPace { fixed, elements: AtomicUsize::new(fixed.unwrap_or(1)), floor: AtomicUsize::new(1) }
    }

    pub(super) fn get(&self) -> Pace {
        // A hint and nothing else: no order with other memory is needed.
        let floor = self.floor.load(Ordering::Relaxed);
        Pace { fixed: self.fixed, elements: self.elements.load(Ordering::Relaxed).max(floor), floor, long: None }
    }

    pub(super) fn set(&self, pace: Pace) {
        if self.elements.load(Ordering::Relaxed) != pace.elements {
            self.elements.store(pace.elements, Ordering::Relaxed);
        }
        if self.floor.load(Ordering::Relaxed) < pace.floor {
            self.floor.fetch_max(pace.floor, Ordering::Relaxed);
        }
    }
}

/// A worker's idea of a loop's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    fixed: Option<usize>,
    elements: usize,
    /// Below this, fewer elements do not take less time: calls have a cost of their own, as when each allocates or
    /// sleeps.
    floor: usize,
    /// A portion that took too long, and its time: what shorter ones are compared with.
    long: Option<(usize, u64)>,
}

impl Pace {
    /// How many of `left` elements (at least one) to take, when `n` workers may be at them.
    pub(super) fn portion(self, left: usize, workers: usize) -> usize {
        let share = if workers > 1 { left.div_ceil(2 * workers) } else { left };
        // Shares shrink towards nothing; a tenth of a portion is still worth the hand-over.
        let share = share.max(self.elements / 10);
        let wanted = self.elements.min(share).max(1);
        match self.fixed {
            Some(grain) => (wanted / grain).max(1).saturating_mul(grain).min(left),
            None => whole_units(wanted).min(left),
        }
    }

    /// How many elements of a portion of `portion` elements one call gets.
    pub(super) fn call(self, portion: usize) -> usize {
        match self.fixed {
            Some(grain) => grain,
            // The clock is too coarse for the first, tiny portions to be worth cutting.
            None if portion < CALLS_PER_PORTION => 1,
            None => whole_units(portion.div_ceil(CALLS_PER_PORTION)),
        }
    }

    /// Whether to look at the clock after a portion's call number `calls` of `call` elements.
    pub(super) fn looks_at_clock(self, calls: usize, call: usize) -> bool {
        // Powers of two bound what is missed when a call takes much longer than the ones before.
        calls.is_power_of_two() || self.estimate_ns(call) >= CLOCK_PAYS_NS
    }

    /// What `n` elements would take.
    pub(super) fn estimate_ns(self, elements: usize) -> u64 {
        let ns = elements as u128 * u128::from(PORTION_NS) / self.elements as u128;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Learns that `elements` (at least one) took `ns`.
    pub(super) fn observe(&mut self, elements: usize, ns: u64) {
        let full = elements as u128 * u128::from(PORTION_NS) / u128::from(ns.max(1));
        let full = usize::try_from(full).unwrap_or(usize::MAX);
        let known = self.elements;
        // A short rest of a stretch tells little, unless it took long.
        if elements < known / GROWTH_MAX && ns < PORTION_NS {
            return;
        }
        self.note_long(elements, ns);
        let most = known.max(elements).saturating_mul(GROWTH_MAX);
        let least = (known / GROWTH_MAX).max(self.floor);
        let next = if (PORTION_NS / 4..=PORTION_NS * 4).contains(&ns) { known / 2 + full / 2 } else { full };
        self.elements = next.clamp(least.min(most), most).max(self.fixed.unwrap_or(1));
    }

    /// Where half the elements take about the same time, portions shrink no further: they would end at one element,
    /// each at the full cost of a call.
    fn note_long(&mut self, elements: usize, ns: u64) {
        match self.long {
            _ if ns <= PORTION_NS => self.long = None,
            Some((many, long_ns)) if elements <= many / 2 => {
                // Much longer than before means that elements have become slower, which says nothing of calls.
                if (long_ns / 4 * 3..=long_ns.saturating_add(long_ns / 4)).contains(&ns) {
                    self.floor = self.floor.max(many);
                }
                self.long = Some((elements, ns));
            }
            Some(_) => {}
            None => self.long = Some((elements, ns)),
        }
    }
}

/// Rounded up to whole units where that changes it little.
fn whole_units(elements: usize) -> usize {
    if elements < 4 * UNIT { elements } else { elements.checked_next_multiple_of(UNIT).unwrap_or(elements) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a pile of elements that take `ns_of(index)` each, and returns the portions that were taken.
    fn portions(grain: Option<usize>, len: usize, workers: usize, ns_of: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
        let mut pace = SharedPace::new(grain).get();
        let mut at = 0;
        let mut taken = Vec::new();
        while at < len {
            let portion = pace.portion(len - at, workers);
            let ns = (at..at + portion).map(&ns_of).sum();
            pace.observe(portion, ns);
            taken.push((portion, ns));
            at += portion;
        }
        taken
    }

    #[test]
    fn portions_soon_take_the_time_that_they_should() {
        for ns in [1, 30, 1_000, 39_000] {
            let taken = portions(None, 4_000_000_000 / ns as usize / 50, 1, |_| ns);
            let long = taken.iter().skip(8).rev().skip(1);
            for (elements, took) in long {
                assert!((20_000..=80_000).contains(took), "{elements} elements of {ns} ns took {took} ns");
            }
            let first: u64 = taken.iter().take(3).map(|(_, took)| took).sum();
            assert!(first <= 80 * 39_000, "the first portions are small");
        }
    }

    #[test]
    fn a_sudden_rise_in_cost_is_followed_in_a_few_portions() {
        let taken = portions(None, 400_000, 2, |index| if index < 300_000 { 1 } else { 1_000 });
        let slow: Vec<u64> = taken.iter().map(|(_, took)| *took).filter(|took| *took > 500_000).collect();
        assert!(slow.len() <= 4, "portions that took too long: {slow:?}");
    }

    #[test]
    fn one_interruption_does_not_stay() {
        let mut pace = Pace { fixed: None, elements: 10_000, floor: 1, long: None };
        pace.observe(10_000, 10_000_000);
        assert_eq!(pace.elements, 1_250, "shrinks by no more than eight");
        pace.observe(1_250, 5_000);
        assert_eq!(pace.elements, 10_000);
    }

    #[test]
    fn calls_with_a_cost_of_their_own_do_not_shrink_to_nothing() {
        for call_ns in [60_000, 1_000_000] {
            let shared = SharedPace::new(None);
            let mut left = 100_000_000usize;
            let mut portions = 0;
            while left > 0 {
                // A runner's worth of portions, and the next one begins with what is shared.
                let mut pace = shared.get();
                for _ in 0..8 {
                    let portion = pace.portion(left.max(1), 1);
                    let call_ns = if left > 50_000_000 { 0 } else { call_ns };
                    pace.observe(portion, call_ns + portion as u64);
                    shared.set(pace);
                    left = left.saturating_sub(portion);
                    portions += 1;
                }
            }
            assert!(portions < 10_000, "{portions} portions for 100 ms of elements, {call_ns} ns a call");
        }
    }

    #[test]
    fn bytes_become_elements() {
        assert_eq!(Grain::Bytes(256 << 10).fixed(8), Some(32 << 10));
        assert_eq!(Grain::Bytes(3).fixed(8), Some(1));
        assert_eq!(Grain::Elements(0).fixed(8), Some(1));
        assert_eq!(Grain::Adaptive.fixed(8), None);
    }

    proptest! {
        #[test]
        fn portions_are_never_empty_and_never_too_long(
            elements in 1usize.., left in 1usize.., workers in 0usize..10_000, fixed in proptest::option::of(1usize..),
            took in any::<u64>(),
        ) {
            let mut pace = Pace { fixed, elements: elements.max(fixed.unwrap_or(1)), floor: 1, long: None };
            for _ in 0..3 {
                let portion = pace.portion(left, workers);
                prop_assert!(portion >= 1 && portion <= left);
                let call = pace.call(portion);
                prop_assert!(call >= 1);
                if let Some(grain) = fixed {
                    prop_assert!(call == grain && (portion == left || portion.is_multiple_of(grain)));
                }
                pace.observe(portion, took);
                prop_assert!(pace.elements >= 1);
            }
        }
    }
}
