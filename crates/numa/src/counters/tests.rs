use proptest::prelude::*;

use super::events::{encoded, llc_misses, named};
use super::*;
use crate::fixture::Fixture;
use crate::refusals::refusals;
use crate::sys::deny::without_calls;

/// Time on a cpu, in nanoseconds: an event of the kernel's own, which is there without counters in the cpu.
const TASK_CLOCK: Event = Event { kind: 1, config: [1, 0, 0] };
const PAGE_FAULTS: Event = Event { kind: 1, config: [2, 0, 0] };
const NO_SUCH: Event = Event { kind: 1, config: [9999, 0, 0] };

fn format(term: &str) -> Option<String> {
    let known =
        [("event", "config:0-7,32-35"), ("umask", "config:8-15"), ("edge", "config:18"), ("filter", "config1:0-63")];
    known.iter().find(|(name, _)| *name == term).map(|(_, format)| format!("{format}\n"))
}

fn busy() -> u64 {
    (0..3_000_000u64).fold(1, |sum, i| std::hint::black_box(sum ^ i.wrapping_mul(sum)))
}

#[test]
fn terms_go_where_formats_say() {
    assert_eq!(encoded("event=0x04,umask=0x03\n", &format), Some([0x304, 0, 0]));
    assert_eq!(encoded("event=0x1c2", &format), Some([0x1_0000_00c2, 0, 0]), "over two ranges of bits");
    assert_eq!(encoded("edge,event=5,filter=0xffffffffffffffff", &format), Some([1 << 18 | 5, u64::MAX, 0]));
    assert_eq!(encoded("event=0x10c2,umask=1", &format), None, "more bits than there is room for");
    assert_eq!(encoded("threshold=1", &format), None, "a term that the source does not know");
    assert_eq!(encoded("event=?", &format), None);
    assert_eq!(encoded("", &format), None);
    for odd in ["config:7-0", "config:0-64", "config3:0-7", "config", "config:a-b", ""] {
        assert_eq!(encoded("event=1", &|_| Some(odd.to_string())), None, "{odd}");
    }
}

proptest! {
    /// The twin: bit by bit.
    #[test]
    fn bits_are_placed_one_by_one(value: u32, first in 0u32..32, width in 1u32..=16, second in 48u32..=63) {
        let format = format!("config:{first}-{},{second}", first + width - 1);
        let places: Vec<u32> = (first..first + width).chain([second]).collect();
        let fits = u64::from(value) >> places.len().min(63) == 0;
        let set = |word, (bit, place): (usize, _)| word | (u64::from(value) >> bit & 1) << place;
            let expected = places.iter().enumerate().fold(0u64, set);
        let found = encoded(&format!("event={value}"), &|_| Some(format.clone()));
        prop_assert_eq!(found, fits.then_some([expected, 0, 0]));
    }
}

#[test]
fn sources_that_are_not_understood_give_no_events() {
    let fixture = Fixture::empty();
    let tree = Tree::new(fixture.root());
    assert!(named(&tree, "uncore_imc", &["reads"]).is_empty(), "there is no folder");
    let folder = "sys/bus/event_source/devices/uncore_imc";
    fixture.write(&format!("{folder}/events/reads"), "event=0x1\n");
    assert!(named(&tree, "uncore_imc", &["reads"]).is_empty(), "without a type");
    fixture.write(&format!("{folder}/type"), "11\n");
    fixture.write(&format!("{folder}/cpumask"), "0\n");
    fixture.write(&format!("{folder}/format/event"), "config:0-7\n");
    assert!(named(&tree, "uncore_imc", &["reads"]).is_empty(), "without a unit");
    fixture.write(&format!("{folder}/events/reads.scale"), "0.0009765625\n");
    fixture.write(&format!("{folder}/events/reads.unit"), "Joules\n");
    assert!(named(&tree, "uncore_imc", &["reads"]).is_empty(), "in another unit");
    fixture.write(&format!("{folder}/events/reads.unit"), "MiB\n");
    let found = named(&tree, "uncore_imc", &["writes", "reads"]);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].bytes, found[0].cpus.as_slice(), found[0].event.kind), (1024.0, &[0][..], 11));
    fixture.write(&format!("{folder}/events/reads.scale"), "nan\n");
    assert!(named(&tree, "uncore_imc", &["reads"]).is_empty());
}

#[test]
fn misses_are_chosen_by_cpu() {
    let of = |vendor: &str, family: u32| {
        llc_misses(&format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 1\n"))
    };
    assert_eq!(of("GenuineIntel", 6).len(), 2);
    assert_eq!(of("AuthenticAMD", 0x17), []);
    assert_eq!(of("AuthenticAMD", 0x19), of("AuthenticAMD", 0x1a));
    assert_ne!(of("AuthenticAMD", 0x19), of("GenuineIntel", 6));
    assert_eq!(llc_misses("Processor : AArch64\n"), of("GenuineIntel", 6), "the kernel's names");
}

#[test]
fn what_is_unknown_stays_unknown() {
    let mut sum = Counts::default();
    assert!(sum.is_unknown());
    sum.add(&Counts::default());
    assert!(sum.is_unknown());
    sum.add(&Counts::default().with(Counter::Cycles, 5));
    sum.add(&Counts::default().with(Counter::Cycles, u64::MAX).with(Counter::LlcMisses, 0));
    assert_eq!(Counter::ALL.map(|counter| sum.get(counter)), [Some(u64::MAX), None, Some(0)]);
}

#[test]
fn counts_are_scaled_by_the_time_they_had() {
    let reading = |enabled_ns, running_ns, value| Reading { enabled_ns, running_ns, values: [value, 0, 0, 0] };
    let before = reading(100, 50, 1000);
    assert_eq!(scaled(0, &before, &reading(200, 150, 1400)), Some(400), "all the time");
    assert_eq!(scaled(0, &before, &reading(200, 75, 1400)), Some(1600), "a quarter of it");
    assert_eq!(scaled(0, &before, &reading(200, 50, 1000)), None, "not at all");
    assert_eq!(scaled(0, &before, &before), Some(0));
    assert_eq!(scaled(0, &reading(0, 0, 0), &reading(u64::MAX, 1, u64::MAX)), Some(u64::MAX));
}

#[test]
fn a_group_counts_what_the_thread_does() {
    let wanted = [
        (Counter::Cycles, vec![NO_SUCH, TASK_CLOCK]),
        (Counter::Instructions, vec![NO_SUCH]),
        (Counter::LlcMisses, vec![PAGE_FAULTS]),
    ];
    let mut counters = match ThreadCounters::open(&wanted) {
        Ok(counters) => counters,
        Err(error) => {
            eprintln!("skipped: the kernel counts nothing here: {error}");
            return;
        }
    };
    std::hint::black_box(busy());
    let pages = vec![1u8; 64 << 20];
    std::hint::black_box(&pages);
    let first = counters.since_last();
    assert!(first.get(Counter::Cycles) > Some(100_000), "nanoseconds, here: {first:?}");
    assert_eq!(first.get(Counter::Instructions), None, "the kernel has no such event");
    assert!(first.get(Counter::LlcMisses) > Some(0), "page faults, here: {first:?}");
    let second = counters.since_last();
    assert!(second.get(Counter::Cycles) < first.get(Counter::Cycles), "{first:?} {second:?}");
}

#[test]
fn this_machines_counters_count_or_are_refused_in_silence() {
    let Some(mut counters) = ThreadCounters::of_this_thread() else {
        assert!(ThreadCounters::of_this_thread().is_none());
        let told = refusals().into_iter().filter(|r| r.call == "perf_event_open" && r.effect.contains("cycles"));
        assert_eq!(told.count(), 0, "nobody asked");
        eprintln!("skipped: the cpu's counters cannot be read here");
        return;
    };
    std::hint::black_box(busy());
    let counts = counters.since_last();
    assert!(counts.get(Counter::Instructions).is_none_or(|count| count > 3_000_000), "{counts:?}");
    assert!(!counts.is_unknown());
}

#[test]
fn a_filter_of_a_container_is_an_error_and_no_more() {
    let refused = without_calls(&[libc::SYS_perf_event_open], libc::EPERM, || {
        let wanted = [(Counter::Cycles, vec![TASK_CLOCK])];
        ThreadCounters::open(&wanted).map_err(|error| error.raw_os_error())
    });
    if let Some(refused) = refused {
        assert_eq!(refused.map(|_| ()), Err(Some(libc::EPERM)));
    }
}

#[test]
fn counters_leave_files_to_others() {
    let open = OPEN.load(Ordering::Relaxed);
    assert!(Files::take_of(3, 8).is_err(), "a quarter of 8 is 2");
    let taken = Files::take_of(3, usize::MAX).unwrap();
    assert!(OPEN.load(Ordering::Relaxed) >= 3);
    drop(taken);
    // Other tests open and close counters meanwhile, three at a time.
    assert!(OPEN.load(Ordering::Relaxed) <= open + 9);
}
