//! Which events there are and how the kernel numbers them: its own names, and those that sources describe in sysfs.
//!
//! Invariants: pure but for reading files; a description that is not understood gives no event, never another one.
//!
//! Source: Linux, `Documentation/ABI/testing/sysfs-bus-event_source-devices-*`.

use crate::id_set::{IdSet, trim};
use crate::sys::perf::Event;
use crate::topology::files::Tree;

/// Where the kernel lists what can count.
const SOURCES: &str = "sys/bus/event_source/devices";
const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
const RAW: u32 = 4;

pub(crate) const CYCLES: Event = Event { kind: HARDWARE, config: [0, 0, 0] };
pub(crate) const INSTRUCTIONS: Event = Event { kind: HARDWARE, config: [1, 0, 0] };
const CACHE_MISSES: Event = Event { kind: HARDWARE, config: [3, 0, 0] };
/// The last cache (2), reads (0), misses (1).
const LAST_CACHE_READ_MISSES: Event = Event { kind: CACHE, config: [2 | 1 << 16, 0, 0] };
/// `ls_any_fills_from_sys`, from memory of the own node (8) and of others (40h): lines that the first cache got from
/// there.
const FILLS_FROM_MEMORY: Event = Event { kind: RAW, config: [0x4844, 0, 0] };
/// From this family on AMD's cpus number that event so.
const FILLS_SINCE_FAMILY: u32 = 0x19;

/// The events that count misses of the last cache, the best first, for a machine with this `/proc/cpuinfo`.
pub(crate) fn llc_misses(cpuinfo: &str) -> Vec<Event> {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| trim(name) == key))?;
        line.split_once(':').map(|(_, value)| trim(value))
    };
    match value("vendor_id") {
        // The kernel's own name stands for misses of the second cache there.
        Some("AuthenticAMD" | "HygonGenuine") => {
            let family: u32 = value("cpu family").and_then(|family| family.parse().ok()).unwrap_or(0);
            if family >= FILLS_SINCE_FAMILY { vec![FILLS_FROM_MEMORY] } else { Vec::new() }
        }
        _ => vec![LAST_CACHE_READ_MISSES, CACHE_MISSES],
    }
}

/// An event of a source outside of the cores, by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedEvent {
    /// The source, as sysfs has it.
    pub(crate) source: String,
    /// The event's name there.
    pub(crate) name: String,
    pub(crate) event: Event,
    /// The cpus that it is to be read on, one for each of its copies (one per package).
    pub(crate) cpus: Vec<u32>,
    /// How many bytes one count stands for.
    pub(crate) bytes: f64,
}

/// The events of these names, of all sources whose names begin so, that are given in bytes.
pub(crate) fn named(tree: &Tree, prefix: &str, names: &[&str]) -> Vec<NamedEvent> {
    let sources = tree.names(SOURCES);
    let sources = sources.iter().filter(|source| source.starts_with(prefix));
    sources.flat_map(|source| names.iter().filter_map(|name| of_source(tree, source, name))).collect()
}

fn of_source(tree: &Tree, source: &str, name: &str) -> Option<NamedEvent> {
    let folder = format!("{SOURCES}/{source}");
    let kind = u32::try_from(tree.number(&format!("{folder}/type"))?).ok()?;
    let cpus = IdSet::parse_list(&tree.text(&format!("{folder}/cpumask"))?)?;
    let event = format!("{folder}/events/{name}");
    let format = |term: &str| tree.text(&format!("{folder}/format/{term}"));
    let config = encoded(&tree.text(&event)?, &format)?;
    let scale: f64 = trim(&tree.text(&format!("{event}.scale"))?).parse().ok()?;
    let bytes = scale * unit_bytes(trim(&tree.text(&format!("{event}.unit"))?))?;
    let source = source.to_string();
    let name = name.to_string();
    (bytes.is_finite() && bytes > 0.0).then(|| NamedEvent {
        source,
        name,
        event: Event { kind, config },
        cpus: cpus.iter().collect(),
        bytes,
    })
}

fn unit_bytes(unit: &str) -> Option<f64> {
    match unit {
        "Bytes" => Some(1.0),
        "KiB" => Some(1024.0),
        "MiB" => Some(1024.0 * 1024.0),
        "GiB" => Some(1024.0 * 1024.0 * 1024.0),
        _ => None,
    }
}

/// An event's terms (`event=0x04,umask=0x03`) put where the source's formats say; `format` gives a term's.
pub(crate) fn encoded(terms: &str, format: &dyn Fn(&str) -> Option<String>) -> Option<[u64; 3]> {
    let mut config = [0; 3];
    for term in trim(terms).split(',') {
        // A term without a value is a flag.
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        place(value, trim(&format(name)?), &mut config)?;
    }
    Some(config)
}

/// Puts a value's bits where a format (`config:0-7,32-35`) wants them, the lowest first. `None` where they do not fit.
fn place(value: u64, format: &str, config: &mut [u64; 3]) -> Option<()> {
    let (word, bits) = format.split_once(':')?;
    let word = match word {
        "config" => &mut config[0],
        "config1" => &mut config[1],
        "config2" => &mut config[2],
        _ => return None,
    };
    let mut left = value;
    for range in bits.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= u64::BITS {
            return None;
        }
        let width = last - first + 1;
        let mask = u64::MAX >> (u64::BITS - width);
        *word |= (left & mask) << first;
        left = left.checked_shr(width).unwrap_or(0);
    }
    (left == 0).then_some(())
}
