//! Units that balance themselves while what is looked up changes (Kissinger et al., ADMS 2014, section 4.3).
//!
//! # Limits
//! The whole run counts, from its first moment on: there is no warm-up.

use sim::Options;
use sim::workload::shifting::{self, CHANGES, ShiftingClients};

use super::{Bench, NS, RunError, metrics};
use crate::declaration::{Shifting, Transfers};
use crate::result::{Metric, Outcome, with_recovery};

pub(super) fn run(bench: Bench, s: &Shifting) -> Result<Outcome, RunError> {
    let ns = |seconds: f64| (seconds * NS).clamp(1.0, 1e18) as u64;
    let what = shifting::Shifting {
        transfers: match s.transfers {
            Transfers::AtOnce => shifting::Transfers::AtOnce,
            Transfers::InTurn => shifting::Transfers::InTurn,
        },
        period_ns: u64::from(s.period_ms) * 1_000_000,
        all_ns: ns(s.all_seconds),
        each_ns: ns(s.each_seconds),
        page_bytes: u64::from(s.page_kib) * 1024,
        ..shifting::Shifting::new(s.keys, s.balancer.0)
    };
    let bench = Bench { options: Options { warm_up_ns: 0, ..bench.options }, ..bench };
    let layout = bench.options.layout(&bench.machine);
    if s.keys < layout.slots().len() as u64 {
        return Err(RunError::Refused(format!("keys = {}: there are more units than keys", s.keys)));
    }
    let mut clients = ShiftingClients::new(what, &bench.machine, &layout);
    let found = bench.run(&mut clients)?;
    let tick_s = what.tick_ns as f64 / NS;
    // The last piece of time may not have been whole.
    let whole = (bench.options.measured_ns / what.tick_ns) as usize;
    let ticks = clients.ticks().iter().take(whole).enumerate();
    let over_time = ticks.map(|(at, tick)| ((at + 1) as f64 * tick_s, tick.lookups / tick_s * 60.0)).collect();
    let moves = clients.moves();
    let mut outcome = Outcome { over_time, ..metrics(&found) }
        .with(Metric::Throughput, found.items_per_second() * 60.0)
        .with(Metric::MovedPairs, (moves.linked + moves.copied) as f64);
    if moves.cycles > 0 {
        let (cycles, linked, copied) = (moves.cycles, moves.linked, moves.copied);
        outcome.notes.push(format!("{cycles} cycles moved {linked} pairs within nodes and {copied} between them"));
    }
    let change = |change: u32| s.all_seconds + f64::from(change) * s.each_seconds;
    Ok(with_recovery(outcome, &(0..CHANGES).map(change).collect::<Vec<_>>()))
}
