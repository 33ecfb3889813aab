//! One cell of the probe: a loop of [`crate::sys::probe`] run by a team of threads over slices of a buffer.
//!
//! Invariants: threads work on disjoint slices of equal length, each round and round over its own; bytes are counted as
//! STREAM counts them (what the loop names, not what the hardware moves).

use std::hint::black_box;
use std::time::Duration;

use super::chase;
use super::clock::Clock;
use super::plan::LOAD_SHARES;
use super::stats::median;
use super::team::{self, Tallies, Timing};
use crate::ids::CpuId;
use crate::sys::probe as kernels;
use crate::sys::probe::READ_STREAMS;

/// Words of an array in one step: 64 KiB, long enough to forget the call, short enough to end in time.
const STEP_WORDS: usize = 8 << 10;
/// Words of each place in one step of reading, 128 KiB in all.
const READ_WORDS: usize = (16 << 10) / READ_STREAMS;
/// The same for load that is put on at a given rate: 8 KiB, so that it comes evenly.
const PACED_WORDS: usize = 1 << 10;
/// Links followed between two looks at the clock.
const STEP_LINKS: u64 = 2048;
/// Slices start at whole huge pages where they are that large, else at whole pages.
const HUGE_WORDS: usize = (2 << 20) / size_of::<u64>();
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// Words of each of `threads` equal slices of a buffer.
fn slice_words(words: usize, threads: usize) -> usize {
    let each = words / threads.max(1);
    let unit = [HUGE_WORDS, PAGE_WORDS, READ_STREAMS].into_iter().find(|unit| each >= *unit).unwrap_or(1);
    (each / unit * unit).max(1)
}

/// Writes `value` everywhere, each cpu its slice and the last one what is left, so that pages come from the policy or,
/// without one, from the node of the cpu that will use them.
pub(super) fn touch(cpus: &[CpuId], words: &mut [u64], value: u64, clock: &dyn Clock) -> Tallies {
    let each = slice_words(words.len(), cpus.len());
    let mut slices: Vec<&mut [u64]> = Vec::new();
    let mut left = words;
    for _ in 1..cpus.len() {
        let (slice, rest) = left.split_at_mut(each.min(left.len()));
        slices.push(slice);
        left = rest;
    }
    slices.push(left);
    let once = Timing { windows: 1, window: Duration::ZERO };
    team::run(cpus, &mut slices, once, clock, |slice| {
        kernels::fill(slice, value);
        size_of_val(&**slice) as u64
    })
}

/// Nanoseconds per load in each window, following the links from `at`, which moves on.
pub(super) fn latency(cpu: CpuId, links: &[u64], at: &mut u64, timing: Timing, clock: &dyn Clock) -> Tallies {
    team::run(&[cpu], std::slice::from_mut(at), timing, clock, |at| {
        *at = kernels::chase(links, *at, STEP_LINKS);
        STEP_LINKS
    })
}

/// A slice that is read at several places side by side.
struct Reader<'a> {
    places: [&'a [u64]; READ_STREAMS],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(slice: &'a [u64]) -> Reader<'a> {
        let each = slice.len() / READ_STREAMS;
        Reader { places: std::array::from_fn(|i| &slice[i * each..(i + 1) * each]), at: 0 }
    }

    /// Reads the next words of each place and gives how many bytes that were.
    fn step(&mut self, words: usize) -> u64 {
        let range = turn(&mut self.at, words, self.places[0].len());
        black_box(kernels::sum(self.places.map(|place| &place[range.clone()])));
        (range.len() * READ_STREAMS * size_of::<u64>()) as u64
    }
}

/// The next `words` of a slice of `len`, from the start again where no whole step is left.
fn turn(at: &mut usize, words: usize, len: usize) -> std::ops::Range<usize> {
    let words = words.min(len);
    if *at + words > len {
        *at = 0;
    }
    let start = *at;
    *at += words;
    start..start + words
}

/// Bytes read per second.
pub(super) fn read(cpus: &[CpuId], words: &[u64], timing: Timing, clock: &dyn Clock) -> Tallies {
    let mut readers: Vec<Reader> = words.chunks_exact(slice_words(words.len(), cpus.len())).map(Reader::new).collect();
    team::run(cpus, &mut readers, timing, clock, |reader| reader.step(READ_WORDS))
}

/// Bytes written per second.
pub(super) fn write(cpus: &[CpuId], words: &mut [u64], timing: Timing, clock: &dyn Clock) -> Tallies {
    let each = slice_words(words.len(), cpus.len());
    let mut slices: Vec<(&mut [u64], usize)> = words.chunks_exact_mut(each).map(|slice| (slice, 0)).collect();
    team::run(cpus, &mut slices, timing, clock, |(slice, at)| {
        let range = turn(at, 2 * STEP_WORDS, slice.len());
        kernels::fill(&mut slice[range.clone()], 1);
        (range.len() * size_of::<u64>()) as u64
    })
}

/// Bytes read and written per second, from one half of the words to the other.
pub(super) fn copy(cpus: &[CpuId], words: &mut [f64], timing: Timing, clock: &dyn Clock) -> Tallies {
    let (from, to) = words.split_at_mut(words.len() / 2);
    let each = slice_words(from.len(), cpus.len());
    let mut slices: Vec<(&[f64], &mut [f64], usize)> =
        from.chunks_exact(each).zip(to.chunks_exact_mut(each)).map(|(from, to)| (from, to, 0)).collect();
    team::run(cpus, &mut slices, timing, clock, |(from, to, at)| {
        let range = turn(at, STEP_WORDS, from.len());
        kernels::copy(&mut to[range.clone()], &from[range.clone()]);
        (2 * range.len() * size_of::<f64>()) as u64
    })
}

/// Bytes per second of STREAM's copy, scale, add and triad, one after the other.
pub(super) fn stream(cpus: &[CpuId], arrays: [&mut [f64]; 3], timing: Timing, clock: &dyn Clock) -> [Tallies; 4] {
    let [a, b, c] = arrays;
    let each = slice_words(a.len(), cpus.len());
    let mut slices: Vec<([&mut [f64]; 3], usize)> = a
        .chunks_exact_mut(each)
        .zip(b.chunks_exact_mut(each))
        .zip(c.chunks_exact_mut(each))
        .map(|((a, b), c)| ([a, b, c], 0))
        .collect();
    [0, 1, 2, 3].map(|kernel| {
        team::run(cpus, &mut slices, timing, clock, |([a, b, c], at)| {
            let part = turn(at, STEP_WORDS, a.len());
            let a = &mut a[part.clone()];
            let b = &mut b[part.clone()];
            let c = &mut c[part.clone()];
            let arrays = match kernel {
                0 => (kernels::copy(c, a), 2).1,
                1 => (kernels::scale(b, c), 2).1,
                2 => (kernels::add(c, a, b), 3).1,
                _ => (kernels::triad(a, b, c), 3).1,
            };
            (arrays * part.len() * size_of::<f64>()) as u64
        })
    })
}

/// What a cpu saw while others loaded the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UnderLoad {
    /// What the others read, in bytes per second.
    pub(super) rate: f64,
    /// What the one saw, in nanoseconds.
    pub(super) latency_ns: f64,
}

/// What a thread does while latency is measured under load.
enum Role<'a> {
    Chase { links: &'a [u64], at: u64 },
    Load { reader: Reader<'a>, pace: Pace },
}

/// Keeps a thread to a rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes per second; infinite is as fast as it goes, 0 rests.
    rate: f64,
    due: Duration,
}

impl Pace {
    /// When the next step may begin, after one of `n` bytes. Lost time is not caught up: that would be a burst.
    fn next(&mut self, bytes: u64, now: Duration) -> Duration {
        let step = Duration::from_secs_f64((bytes as f64 / self.rate).clamp(0.0, 1.0));
        self.due = (self.due + step).max(now.saturating_sub(step));
        self.due
    }
}

/// How long a thread that puts no load on waits before it looks at the clock again.
const REST: Duration = Duration::from_micros(100);

/// The latency of one cpu while the others read at each of the shares of their full rate, lightest first; medians over
/// the windows. `links` and `words` may not overlap, or the load would serve the chase from its caches.
pub(super) fn loaded(
    chaser: CpuId,
    loaders: &[CpuId],
    links: &[u64],
    words: &[u64],
    timing: Timing,
    clock: &dyn Clock,
) -> (Vec<UnderLoad>, Vec<Tallies>) {
    let mut all = Vec::new();
    let mut at = 0;
    let mut run = |rate: f64| {
        let tallies = under_load(chaser, loaders, links, &mut at, words, rate, timing, clock);
        let point = tallies.threads.split_first().map(|(one, others)| UnderLoad {
            rate: median(&team::rates(others)),
            latency_ns: median(&one.iter().map(|t| t.ns_per_unit()).collect::<Vec<_>>()),
        });
        all.push(tallies);
        point
    };
    let Some(full) = run(f64::INFINITY) else { return (Vec::new(), all) };
    let paced = LOAD_SHARES.iter().filter(|share| **share < 1.0);
    let mut points: Vec<UnderLoad> = paced.filter_map(|share| run(full.rate * share / loaders.len() as f64)).collect();
    points.push(full);
    (points, all)
}

/// One load: the chaser's thread first, then the others, each at `rate` bytes per second.
#[allow(clippy::too_many_arguments)]
fn under_load(
    chaser: CpuId,
    loaders: &[CpuId],
    links: &[u64],
    at: &mut u64,
    words: &[u64],
    rate: f64,
    timing: Timing,
    clock: &dyn Clock,
) -> Tallies {
    let cpus: Vec<CpuId> = std::iter::once(chaser).chain(loaders.iter().copied()).collect();
    let pace = Pace { rate, due: clock.now() };
    let readers = words.chunks_exact(slice_words(words.len(), loaders.len())).map(Reader::new);
    let mut roles: Vec<Role> = std::iter::once(Role::Chase { links, at: *at })
        .chain(readers.map(|reader| Role::Load { reader, pace }))
        .collect();
    let tallies = team::run(&cpus, &mut roles, timing, clock, |role| match role {
        Role::Chase { links, at } => {
            *at = kernels::chase(links, *at, STEP_LINKS);
            STEP_LINKS
        }
        Role::Load { pace, .. } if pace.rate <= 0.0 => {
            std::thread::sleep(REST);
            0
        }
        Role::Load { reader, pace } if pace.rate.is_infinite() => reader.step(READ_WORDS / 4),
        Role::Load { reader, pace } => {
            let bytes = reader.step(PACED_WORDS / READ_STREAMS);
            let due = pace.next(bytes, clock.now());
            while clock.now() < due {
                std::hint::spin_loop();
            }
            bytes
        }
    });
    if let Some(Role::Chase { at: end, .. }) = roles.first() {
        *at = *end;
    }
    tallies
}

/// Lays the chase over the first bytes of a buffer and gives how many words it takes.
pub(super) fn lay(words: &mut [u64], chase_bytes: u64, seed: u64) -> usize {
    let wanted = (chase_bytes as usize / size_of::<u64>()).min(words.len());
    let used = chase::usable_words(wanted);
    chase::lay(&mut words[..used], seed);
    used
}

#[cfg(test)]
mod tests {
    use super::super::clock::{SystemClock, Ticks};
    use super::*;

    const SHORT: Timing = Timing { windows: 2, window: Duration::from_millis(1) };

    #[test]
    fn slices_are_disjoint_and_fit() {
        for (words, threads) in [(1, 1), (10, 3), (5000, 4), (1 << 20, 2), (1 << 22, 3), (100, 200)] {
            let each = slice_words(words, threads);
            assert!(each >= 1 && (each * threads <= words || each == 1), "{words} words, {threads} threads: {each}");
        }
        assert_eq!(slice_words(1 << 22, 3), 5 * HUGE_WORDS);
        assert_eq!(slice_words(10_000, 3), 6 * PAGE_WORDS);
    }

    #[test]
    fn turns_go_round_over_whole_steps() {
        let mut at = 0;
        let turns: Vec<_> = (0..4).map(|_| turn(&mut at, 40, 100)).collect();
        assert_eq!(turns, [0..40, 40..80, 0..40, 40..80]);
        let mut at = 0;
        assert_eq!([turn(&mut at, 40, 10), turn(&mut at, 40, 10)], [0..10, 0..10]);
    }

    #[test]
    fn touching_reaches_every_word() {
        for (words, threads) in [(0, 2), (7, 3), (100_000, 3)] {
            let mut buffer = vec![0; words];
            touch(&vec![CpuId(0); threads], &mut buffer, 9, &SystemClock::new());
            assert!(buffer.iter().all(|word| *word == 9), "{words} words, {threads} threads");
        }
    }

    #[test]
    fn figures_follow_from_the_bytes_and_the_clock() {
        // One thread asks the clock before and after each step: 1 ms for each, and a window is one step of 128 KiB.
        let clock = Ticks::of(Duration::from_millis(1));
        let one = Timing { windows: 3, window: Duration::from_micros(1) };
        let mut words = vec![0u64; 1 << 16];
        let step = (128 << 10) as f64 * 1000.0;
        assert_eq!(read(&[CpuId(0)], &words, one, &clock).rates(), [step; 3]);
        assert_eq!(write(&[CpuId(0)], &mut words, one, &clock).rates(), [step; 3]);
        assert!(words[..2 * STEP_WORDS].iter().all(|word| *word == 1));
        let mut numbers = vec![1.5; 1 << 16];
        let copied = 2.0 * (STEP_WORDS * 8) as f64 * 1000.0;
        assert_eq!(copy(&[CpuId(0)], &mut numbers, one, &clock).rates(), [copied; 3]);
        let used = lay(&mut words, 1 << 16, 5);
        let mut at = 0;
        let chased = latency(CpuId(0), &words[..used], &mut at, one, &clock);
        assert_eq!(chased.threads[0].iter().map(|t| t.ns_per_unit()).collect::<Vec<_>>(), [1e6 / STEP_LINKS as f64; 3]);
    }

    #[test]
    fn stream_computes_what_stream_computes() {
        let len = 4 * STEP_WORDS;
        let mut a = vec![1.0; len];
        let mut b = vec![2.0; len];
        let mut c = vec![0.0; len];
        // Ten steps go over the four there are more than twice.
        let timing = Timing { windows: 1, window: Duration::from_millis(10) };
        let clock = Ticks::of(Duration::from_millis(1));
        let rates = stream(&[CpuId(0)], [&mut a, &mut b, &mut c], timing, &clock);
        let arrays = (STEP_WORDS * 8) as f64 * 1000.0;
        assert_eq!(rates.map(|r| (r.rates()[0] / arrays).round()), [2.0, 2.0, 3.0, 3.0]);
        // copy: c = 1; scale: b = 3; add: c = 4; triad: a = 3 + 12.
        assert_eq!((a[0], b[0], c[0]), (15.0, 3.0, 4.0));
        assert_eq!((a[len - 1], b[len - 1], c[len - 1]), (15.0, 3.0, 4.0));
    }

    #[test]
    fn a_pace_keeps_the_rate_and_does_not_catch_up() {
        let ms = Duration::from_millis;
        let mut pace = Pace { rate: 1000.0, due: ms(0) };
        assert_eq!(pace.next(10, ms(1)), ms(10));
        assert_eq!(pace.next(10, ms(11)), ms(20));
        assert_eq!(pace.next(10, ms(100)), ms(90));
    }

    #[test]
    fn load_is_told_lightest_first() {
        let mut links = vec![0u64; 1 << 12];
        let used = lay(&mut links, 1 << 15, 3);
        let words = vec![1u64; 1 << 14];
        let (points, all) = loaded(CpuId(0), &[CpuId(0)], &links[..used], &words, SHORT, &SystemClock::new());
        assert_eq!((points.len(), all.len()), (LOAD_SHARES.len(), LOAD_SHARES.len()));
        assert_eq!(points[0].rate, 0.0);
        assert!(points.iter().skip(1).all(|p| p.rate > 0.0));
        assert!(points.iter().all(|p| p.latency_ns > 0.0));
    }
}
