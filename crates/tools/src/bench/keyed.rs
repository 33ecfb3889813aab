//! `nearside bench keyed`: reads and writes of 64-bit keys in batches, by units that each own a range of them.
//!
//! Invariants: every value that is read is checked; keys are all different, and each phase draws over all of them.
//!
//! # Limits
//! Keys and values of 64 bits, embedded; tables of SQL do not use it. What it is compared with is in the example
//! `keyed` of crates/units, which the command does not link.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use numa::{Allocator, Budget, Policy};
use sched::Scheduler;
use serde_json::json;
use units::balancer::Algorithm;
use units::bench::joins::Joined;
use units::bench::routing::{buffer_sizes, measure_routing};
use units::bench::shifting::{CHANGES, Shifting, Tick, measure_shifting};
use units::bench::transfers::measure_transfers;
use units::bench::{OrderedMap, PHASES, Plan, measure};
use units::store::{Keyed, Route, Store, UnitPlace};
use units::tree::SharedTree;

use super::database_of;
use super::report::{Better, Figure, Output, report, write_head};
use crate::failure::Failure;
use crate::size::{human, thousands};

/// Bytes that a pair of dense keys takes at most: 25 GB for a billion (Kissinger et al., ADMS 2014, section 4.2).
const DENSE_BYTES_TARGET: f64 = 25.0;

/// How often throughput of a range that moves is told, and a cycle of the balancer run.
const TICK: Duration = Duration::from_millis(250);

/// Commands that are sent for each size of outgoing buffers.
const COMMANDS_MAX: u64 = 4_000_000;

/// Arguments of `nearside bench keyed`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench keyed                               10 million random keys
  nearside bench keyed --keys 100000000 --json keyed.json
  nearside bench keyed --dense --batch 1             keys 0, 1, 2 .. in a mixed order, one at a time
  nearside bench keyed --dense --shared              and the same on one tree that every thread changes
  nearside bench keyed --joins                       then join by look-ups, from unit to unit and directly
  nearside bench keyed --routing                     then what routing costs by the size of outgoing buffers
  nearside bench keyed --hot 10 --balancer 'ma(8)'   then write a range that halves and moves, 10 seconds each

Four phases: every key is inserted; a quarter as many are written again at random; at most 20 million are read;
and a hundredth of those are ranges of 100 pairs. Each slot of the scheduler has a unit, and a caller that sends
batches to all of them.

Beside ordered maps of others: cargo run --release -p nearside-units --example keyed")]
pub struct Arguments {
    /// Keys, all different
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..=1 << 33))]
    keys: u64,
    /// Keys of a batch, which is one statement
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Keys side by side instead of any 64 bits
    #[arg(long)]
    dense: bool,
    /// Bits of a key that a node of the tree takes at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=8))]
    prefix_bits: u32,
    /// Slots, units and callers; one per usable cpu unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Then write all keys, a half of them, and that half four times a little to the left, as many seconds each, and
    /// say what is written per second over time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    hot: Option<u16>,
    /// With --hot: how ranges of keys move between units, four times a second: off, one_shot or ma(K)
    #[arg(long, value_name = "NAME", requires = "hot", default_value_t = Algorithm::Off)]
    balancer: Algorithm,
    /// Then hand half of the keys to another unit and back, linked and copied, and say what that takes per pair
    #[arg(long)]
    transfers: bool,
    /// Then join two objects of all keys by look-ups, with each pair's result written where it is found: once with
    /// look-ups by commands, once directly
    #[arg(long)]
    joins: bool,
    /// Then do the four phases on a shared index: one tree of the same kind, interleaved over the nodes, which every
    /// thread changes by atomic instructions, without units, routing and versions
    #[arg(long)]
    shared: bool,
    /// How keys are looked up: direct (the caller reads every unit's tree), commands (by the units that own the keys),
    /// or auto: commands for large batches where units lie on several nodes
    #[arg(long, value_name = "NAME", default_value_t = Route::Auto)]
    route: Route,
    /// Then send look-ups of one key each as commands, and say how many per second go through by how many of them for
    /// one unit are sent together, from 1 to 4096; and how many without being executed
    #[arg(long)]
    routing: bool,
    /// What keys and their order are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_of(arguments.threads)?;
    let scheduler = database.scheduler();
    let threads = scheduler.threads();
    let mut out = io::stdout();
    write_head(&mut out, database.topology(), threads)?;
    let plan =
        Plan { keys: arguments.keys, batch: arguments.batch as usize, dense: arguments.dense, seed: arguments.seed };
    // Pages that do not fit are refused by the budget, not by the system that ends the process.
    let budget = Budget::new("bench keyed", database.topology().memory_bytes() / 10 * 8);
    let store = Store::new(UnitPlace::of_slots(scheduler, &budget)).map_err(|error| Failure::new(error.to_string()))?;
    store.serve_on(scheduler);
    store.set_route(arguments.route);
    let keyed = store.create(plan.last_key(), arguments.prefix_bits);
    writeln!(out, "keys      {} in batches of {}\n", thousands(plan.keys), thousands(plan.batch as u64))?;
    let mut figures = run_phases(scheduler, &keyed, plan, "", &mut out)?;
    store.settle();
    let bytes = keyed.used_bytes();
    writeln!(out)?;
    figures.push(memory(bytes, keyed.len(), plan, "", &mut out)?);
    for (unit, counts) in store.counts().iter().enumerate() {
        let node = counts.node.map_or_else(String::new, |node| format!(" on node {node}"));
        writeln!(out, "unit {unit:<4} {} commands, {} keys{node}", thousands(counts.commands), thousands(counts.keys))?;
    }
    if arguments.routing {
        figures.extend(run_routing(scheduler, &keyed, plan, &mut out)?);
    }
    if let Some(seconds) = arguments.hot {
        store.set_balancer(arguments.balancer);
        let each = Duration::from_secs(u64::from(seconds));
        figures.extend(run_shifting(scheduler, &keyed, plan, each, &mut out)?);
    }
    // What follows fills objects and stores of its own, one after the other.
    drop(keyed);
    if arguments.joins {
        figures.extend(run_joins(scheduler, &store, plan, arguments.prefix_bits, &mut out)?);
    }
    if arguments.transfers {
        let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
        let costs = measure_transfers(&allocator, plan).map_err(Failure::new)?;
        writeln!(out)?;
        for (name, ns) in [("link", costs.link_ns), ("copy", costs.copy_ns)] {
            writeln!(out, "{name:<9} {ns:.2} ns per pair")?;
            figures.push(Figure::new(format!("{name} a pair"), ns, "ns", Better::Less));
        }
    }
    if arguments.shared {
        let nodes = database.topology().usable_memory_nodes().to_vec();
        let allocator = Allocator::new(Policy::Interleaved(nodes), budget);
        let shared = SharedTree::new(allocator, threads, arguments.prefix_bits);
        writeln!(out, "\nshared    one tree that every thread changes\n")?;
        figures.extend(run_phases(scheduler, &shared, plan, "shared ", &mut out)?);
        figures.push(memory(shared.used_bytes(), shared.len(), plan, "shared ", &mut out)?);
    }
    if let Some(json) = json {
        let given = json!({
            "keys": plan.keys, "batch": plan.batch, "dense": plan.dense, "prefix_bits": arguments.prefix_bits,
            "seed": plan.seed, "hot": arguments.hot, "balancer": arguments.balancer.to_string(),
            "route": arguments.route.to_string(), "routing": arguments.routing, "transfers": arguments.transfers,
            "joins": arguments.joins, "shared": arguments.shared,
        });
        json.write(&report("keyed", database.topology(), threads, given, &figures))?;
        writeln!(out, "\nwritten to {}", json.path().display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs and prints all phases on a map; figures have a word before the phase's name.
fn run_phases(
    scheduler: &Scheduler,
    map: &dyn OrderedMap,
    plan: Plan,
    word: &str,
    out: &mut impl Write,
) -> Result<Vec<Figure>, Failure> {
    writeln!(out, "{:<8} {:>14}", "phase", "per second")?;
    let mut figures = Vec::new();
    for phase in PHASES {
        let per_second = measure(scheduler, map, plan, phase).map_err(Failure::new)?;
        writeln!(out, "{phase:<8} {:>14}", thousands(per_second as u64))?;
        figures.push(Figure::new(format!("{word}{phase}"), per_second, "per s", Better::More));
    }
    Ok(figures)
}

/// Sends commands through outgoing buffers of each size, and prints each.
fn run_routing(
    scheduler: &Arc<Scheduler>,
    keyed: &Keyed,
    plan: Plan,
    out: &mut impl Write,
) -> Result<Vec<Figure>, Failure> {
    writeln!(out, "\nrouting   commands of one key per second, by commands for one unit that are sent together\n")?;
    writeln!(out, "{:>8} {:>16} {:>16}", "buffer", "not executed", "looked up")?;
    let mut figures = Vec::new();
    for buffer in buffer_sizes() {
        let commands = plan.keys.min(COMMANDS_MAX);
        let point = measure_routing(scheduler, keyed, plan, buffer, commands).map_err(Failure::new)?;
        let Some(point) = point else {
            writeln!(out, "{buffer:>8} more than an outgoing buffer for one of {} units holds", keyed.store().units())?;
            continue;
        };
        let (routed, looked_up) = (thousands(point.routed as u64), thousands(point.looked_up as u64));
        writeln!(out, "{buffer:>8} {routed:>16} {looked_up:>16}")?;
        for (name, per_second) in [("routed only", point.routed), ("routed look-ups", point.looked_up)] {
            let figure = Figure::new(format!("{name}, buffer {buffer}"), per_second, "per s", Better::More);
            figures.push(figure.with_details(json!({ "buffer": buffer, "commands": commands })));
        }
    }
    Ok(figures)
}

/// Joins by each route, and prints what goes through.
fn run_joins(
    scheduler: &Scheduler,
    store: &Arc<Store>,
    plan: Plan,
    prefix_bits: u32,
    out: &mut impl Write,
) -> Result<Vec<Figure>, Failure> {
    writeln!(
        out,
        "\njoins     of two objects by look-ups, pairs that are scanned, looked up and written per second\n"
    )?;
    let joined = Joined::new(scheduler, store, plan, prefix_bits).map_err(Failure::new)?;
    let mut figures = Vec::new();
    for route in [Route::Commands, Route::Direct] {
        let per_second = joined.measure(scheduler, route, prefix_bits).map_err(Failure::new)?;
        writeln!(out, "{route:<9} {:>13}", thousands(per_second as u64))?;
        figures.push(Figure::new(format!("join {route}"), per_second, "per s", Better::More));
    }
    Ok(figures)
}

/// Prints the memory of a map.
fn memory(bytes: u64, pairs: u64, plan: Plan, word: &str, out: &mut impl Write) -> Result<Figure, Failure> {
    let per_pair = bytes as f64 / pairs as f64;
    writeln!(out, "memory    {}, {per_pair:.1} bytes per pair", human(bytes))?;
    let figure = Figure::new(format!("{word}bytes per pair"), per_pair, "bytes", Better::Less);
    Ok(if plan.dense { figure.with_target(DENSE_BYTES_TARGET) } else { figure })
}

/// Writes the range that moves, and prints each tick.
fn run_shifting(
    scheduler: &Scheduler,
    keyed: &Keyed,
    plan: Plan,
    each: Duration,
    out: &mut impl Write,
) -> Result<Vec<Figure>, Failure> {
    let balancer = keyed.store().balancer();
    writeln!(out, "\nwrites    of all keys, half of them, and that half moving; balancer {balancer}\n")?;
    writeln!(out, "{:>8} {:>8} {:>14} {:>14} {:>10}", "seconds", "changes", "per second", "pairs moved", "in ms")?;
    let print = |tick: Tick| {
        let seconds = tick.at.as_secs_f64();
        let per_second = thousands(tick.per_second as u64);
        let moving = tick.moving.as_secs_f64() * 1e3;
        println!("{seconds:>8.2} {:>8} {per_second:>14} {:>14} {moving:>10.2}", tick.changes, thousands(tick.moved));
        true
    };
    let shifting = Shifting { all: each, each, length: Duration::MAX, tick: TICK };
    let ticks = measure_shifting(scheduler, keyed, plan, shifting, &print).map_err(Failure::new)?;
    let figures = (0..=CHANGES).map(|changes| {
        let own: Vec<&Tick> = ticks.iter().filter(|tick| tick.changes == changes).collect();
        let per_second = own.iter().map(|tick| tick.per_second).sum::<f64>() / own.len() as f64;
        let mut figure = Figure::new(format!("hot range {changes}"), per_second, "per s", Better::More);
        let over_time = |tick: &&Tick| json!([tick.at.as_secs_f64(), tick.per_second, tick.moved]);
        figure.details.insert("over_time".to_owned(), own.iter().map(over_time).collect());
        figure
    });
    let figures: Vec<Figure> = figures.collect();
    writeln!(out)?;
    for figure in &figures {
        writeln!(out, "{:<12} {:>14}", figure.name, thousands(figure.value as u64))?;
    }
    for of in keyed.partitions() {
        let first = of.first_key.map_or_else(|| "none".to_owned(), |key| format!("{key:#x}"));
        let time = of.time_per_key.map_or(0, |time| time.as_nanos());
        let pairs = thousands(of.pairs);
        writeln!(out, "unit {:<4} {pairs} pairs from key {first}, {}, {time} ns per key", of.unit, human(of.bytes))?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_shared_index_has_the_figures_of_units() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyed.json");
        let path = path.to_str().unwrap();
        let words = [
            "keyed",
            "--keys",
            "20000",
            "--dense",
            "--shared",
            "--joins",
            "--transfers",
            "--threads",
            "2",
            "--json",
            path,
        ];
        run(&Line::parse_from(words).arguments).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let figures = report["figures"].as_array().unwrap();
        let value =
            |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64().unwrap();
        for phase in PHASES {
            assert!(value(&phase.to_string()) > 0.0 && value(&format!("shared {phase}")) > 0.0);
        }
        // Trees of one shape: a unit more has a few blocks more.
        let (units, shared) = (value("bytes per pair"), value("shared bytes per pair"));
        assert!((shared..shared * 1.1).contains(&units), "{units} and {shared}");
        assert!(value("link a pair") > 0.0);
        assert!(value("join commands") > 0.0 && value("join direct") > 0.0);
    }
}
