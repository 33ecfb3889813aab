//! 1024 clients on 32 nodes for two virtual minutes: how long that takes, and what comes out.
//!
//! `cargo run --release -p nearside-sim --example two_minutes [MACHINE [CLIENTS [SECONDS [lazy|exact [all]]]]]`; `all`
//! adds IVP and PP over all nodes

use std::time::Instant;

use sched::{Preset, Settings};
use sim::workload::scan::{Placement, Scans};
use sim::{Machine, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "ivybridge-ex-32".to_owned());
    let clients: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(120.0), |text| text.parse())?;
    let resolve = match arguments.next().as_deref() {
        Some("exact") => sim::Resolve::Exact,
        _ => Options::default().resolve,
    };
    let machine = Machine::parse(&name)?;
    println!(
        "{} ({} nodes, {} cpus), {clients} clients, {seconds} virtual seconds",
        machine.name(),
        machine.node_count(),
        machine.cpus()
    );
    let nodes = machine.node_count();
    let mut placements = vec![Placement::RoundRobin];
    if arguments.next().as_deref() == Some("all") {
        placements.extend([Placement::Ivp(nodes), Placement::Pp(nodes)]);
    }
    println!(
        "{:<14} {:<7} {:>12} {:>9} {:>8} {:>7} {:>9} {:>9} {:>8} {:>9} {:>9} {:>8}",
        "placement",
        "preset",
        "statements/s",
        "GiB/s",
        "remote",
        "busy",
        "mean ms",
        "spread",
        "stolen",
        "events",
        "solutions",
        "took s"
    );
    for placement in placements {
        for preset in Preset::ALL {
            let mut workload = Scans { clients, ..Scans::vldb(placement) }.workload();
            let options = Options {
                settings: Settings::preset(*preset),
                warm_up_ns: 0,
                resolve,
                measured_ns: (seconds * 1e9) as u64,
                ..Options::default()
            };
            let begun = Instant::now();
            let outcome = sim::run(&machine, &options, &mut workload)?;
            let took = begun.elapsed().as_secs_f64();
            println!(
                "{:<14} {:<7} {:>12.1} {:>9.1} {:>8.3} {:>7.3} {:>9.1} {:>9.3} {:>8.3} {:>9} {:>9} {:>8.2}",
                format!("{placement:?}"),
                preset.name(),
                outcome.statements_per_second(),
                outcome.bytes_per_second() / f64::from(1u32 << 30),
                outcome.remote_share(),
                outcome.busy,
                outcome.latency.mean_ns() / 1e6,
                outcome.latency.spread(),
                outcome.stolen_across_nodes as f64 / outcome.tasks.max(1) as f64,
                outcome.events,
                outcome.solutions,
                took
            );
        }
    }
    Ok(())
}
