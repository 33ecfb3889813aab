//! The probe: measures what it costs this machine's nodes to reach each other's memory, as [`Attributes`].
//!
//! - idle latency by chasing pointers over a random cycle, a cache line apart, in huge pages where there are any;
//! - bandwidth of all usable cpus of a node reading (wide loads at several places), writing (non-temporal stores) and
//!   copying every node's memory;
//! - STREAM's four kernels with first touch and striped, counted as STREAM counts;
//! - bandwidth as the number of threads grows, and latency while other cpus load the memory at several rates.
//!
//! Invariants: needs no rights; memory is allocated by policy and proven by the page map before it is timed and after,
//! and a figure whose memory was elsewhere is left out with a note; what is measured is decided by a pure function
//! (`plan`) of the machine's facts; time comes from a [`Clock`]; a full run ends within a minute, a quick one within
//! ten seconds, and what did not fit is named.
//!
//! # Limits
//! Idle latencies and bandwidths are the best of many short windows, latencies under load medians; on a machine that is
//! busy all of them are worse than it can.
//! Caches that a virtual machine hides may serve more than they should. Prefetchers and the frequency are left as they
//! are.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 2.1 and Tables 2.3 to 2.5; Greinsmark 2020, chapter 4 (latency
//! and bandwidth between sub-domains); McCalpin's STREAM for its kernels and its counting of bytes.

mod bandwidth;
mod chase;
mod clock;
mod facts;
mod hogs;
mod measure;
mod memory;
mod plan;
mod render;
mod run;
mod stats;
mod svg;
mod team;

pub use bandwidth::read_bandwidth;
pub use clock::{Clock, SystemClock};
pub use hogs::{HogKind, Hogs};
pub use memory::node_free_bytes;
pub use render::{csv, text};
pub use svg::svg;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::attributes::Attributes;
use crate::topology::Topology;

/// How to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Fewer and shorter windows on smaller buffers: under ten seconds instead of under a minute.
    pub quick: bool,
    /// The revision of the program that asks, for the result.
    pub revision: String,
}

/// Measures the machine that `topology` discovered. `progress` is called before each group of cells with what comes
/// next and the share of the work that is done, 0 to 1.
///
/// Nothing here fails: what cannot be measured (a full node, a refused call) is `None` or absent and stands in the
/// notes.
pub fn run(
    topology: &Topology,
    options: &Options,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(&str, f64),
) -> Attributes {
    let tempo = if options.quick { plan::Tempo::QUICK } else { plan::Tempo::FULL };
    let mut result = run::run(topology, &tempo, clock, progress);
    result.quick = options.quick;
    result.revision = options.revision.clone();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    result.taken_at = utc(since.as_secs());
    result
}

/// Seconds since 1970 as RFC 3339 in UTC.
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400;
    let second = seconds % 86_400;
    // Days are counted from the first of March of year 0, so that a leap day is the last of its year: 400 years have
    // 146,097 days, and the months from March are 153 days in every five.
    let days = days + 719_468;
    let era = days / 146_097;
    let day = days % 146_097;
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    let hour = second / 3600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests;
