//! `nearside bench sched`: what the scheduler costs, by itself, for loops, and under many statements at a time.
//!
//! Everything is measured in one run of one process on one database, part by part: empty tasks, loops beside plain
//! threads, statements of many clients.
//!
//! Invariants: a target that is met or missed is printed beside its figure; the exit code says whether the benchmark
//! ran and answers were right, never whether the machine was fast.
//!
//! # Limits
//! What loops are measured against here is threads that are started for each loop. rayon is not linked by the command;
//! the example `parallel` of crates/sched measures the same loops beside it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nearside::Database;
use sched::bench::{Figure, run as measure_tasks};
use sched::parallel::bench::{MEMORY_ELEMENTS, PlainThreads, Row as LoopRow, heading, run as measure_loops};
use serde_json::{Value, json};

use super::database_of;
use super::report::Output;
use super::statements::{self, Latency, PLACEMENTS, Plan, Row};
use crate::failure::Failure;
use crate::machine::describe;
use crate::size::{human, thousands};

/// What one element of the arrays takes: a number that is read and one that is written.
const BYTES_PER_ELEMENT: u64 = 16;
/// How loops are compared with rayon.
const RAYON: &str = "cargo run --release -p nearside-sched --example parallel";

/// Arguments of `nearside bench sched`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench sched
  nearside bench sched --threads 1 --json sched.json
  nearside bench sched --rows 16000000 --clients 32,256,1024 --seconds 20

Three parts: empty tasks (queued, to a parked worker); parallel_for and parallel_reduce beside plain threads; and
clients that each have one short range scan at a time on its way (a random column of eight, 0.01% of its rows), with
the columns placed round-robin (rr) and in one piece per node (ivp). On a machine of one node both placements are the
same.

Beside rayon, which the command does not link: cargo run --release -p nearside-sched --example parallel

The JSON file holds {benchmark, source, machine, topology, revision, version, debug_build, slots, thread_groups,
tasks:[{name, ns, target_ns, met, tasks}], loops:[{construct, load, grain_us, plain_ms, ours_ms, rival_ms, ratio,
quiet_ratio}], plan, statements:[{placement, clients, statements, per_second, ratio, latency_ms,
resident_before_bytes, resident_after_bytes, ..}]}. A ratio of loops below 1 is faster than the
rival; that of statements is the throughput divided by that of the number of clients given first.")]
pub struct Arguments {
    /// Empty tasks per run
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    tasks: u64,
    /// Slots; one per usable cpu unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Turns of each loop here and on plain threads
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Elements of the arrays that loops read and write
    #[arg(
        long, value_name = "N", default_value_t = MEMORY_ELEMENTS as u64,
        value_parser = clap::value_parser!(u64).range(1000..=1 << 40)
    )]
    elements: u64,
    /// Rows of the tables that statements scan
    #[arg(long, value_name = "N", default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    rows: u64,
    /// Numbers of clients, the one that the others are compared with first
    #[arg(
        long, value_name = "N,..", value_delimiter = ',', default_value = "32,1024",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    clients: Vec<u32>,
    /// Length of each run of clients, the first quarter of which is not counted
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    seconds: f64,
    /// Runs of each number of clients and placement, in turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// What values and the order of statements are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a length is a number of seconds from 0.05 to 3600".to_owned()),
    }
}

impl Arguments {
    fn plan(&self) -> Plan {
        Plan {
            rows: self.rows,
            clients: self.clients.iter().map(|clients| *clients as usize).collect(),
            seconds: self.seconds,
            rounds: usize::from(self.rounds),
            seed: self.seed,
        }
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // An output file that cannot be made should not cost minutes of measuring.
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_of(arguments.threads)?;
    fits(arguments.elements, database.topology().memory_bytes())?;
    let scheduler = database.scheduler();
    let mut out = io::stdout();
    writeln!(out, "machine   {}", describe(database.topology()))?;
    let build = if cfg!(debug_assertions) { ", built without optimisation: these times say nothing" } else { "" };
    writeln!(out, "revision  {}{build}", crate::REVISION)?;
    let groups = scheduler.layout().groups().len();
    writeln!(
        out,
        "slots     {} in {groups} thread group{}\n",
        scheduler.threads(),
        if groups == 1 { "" } else { "s" }
    )?;

    let tasks = measure_tasks(scheduler, arguments.tasks as usize);
    write_tasks(&mut out, &tasks)?;
    let rival = PlainThreads(scheduler.threads());
    let loops = measure_loops(scheduler, &rival, arguments.turns as usize, arguments.elements as usize);
    write_loops(&mut out, &rival, &loops)?;
    let plan = arguments.plan();
    let statements = statements::run(&database, &plan)?;
    write_statements(&mut out, &database, &plan, &statements)?;

    if let Some(json) = json {
        json.write(&to_json(&database, &tasks, &loops, &plan, &statements))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails when loops over `n` elements would not fit in the memory that the process may use.
fn fits(elements: u64, usable_bytes: u64) -> Result<(), Failure> {
    let bytes = elements.saturating_mul(BYTES_PER_ELEMENT);
    if bytes <= usable_bytes {
        return Ok(());
    }
    let wanted = human(bytes);
    let usable = human(usable_bytes);
    let most = thousands(usable_bytes / BYTES_PER_ELEMENT);
    Err(Failure::new(format!("--elements {elements} takes {wanted} of {usable} of memory: give at most {most}")))
}

/// Whether the figure's target, where it has one, is met.
fn met(figure: &Figure) -> Option<bool> {
    figure.target_ns.map(|target_ns| figure.value_ns <= target_ns)
}

/// How a target was kept.
fn word(met: bool) -> &'static str {
    if met { "ok" } else { "missed" }
}

fn write_tasks(out: &mut dyn Write, figures: &[Figure]) -> Result<(), Failure> {
    writeln!(out, "{:<50} {:>10} {:>9}", "empty tasks", "ns", "at most")?;
    for figure in figures {
        let Figure { name, value_ns, target_ns, .. } = figure;
        let target = target_ns.map_or(String::new(), |target_ns| format!("{target_ns:.0}"));
        writeln!(out, "{name:<50} {value_ns:>10.1} {target:>9}  {}", met(figure).map_or("", word))?;
    }
    Ok(())
}

fn write_loops(out: &mut dyn Write, rival: &PlainThreads, rows: &[LoopRow]) -> Result<(), Failure> {
    writeln!(out, "\n{}", heading(rival))?;
    for row in rows {
        writeln!(out, "{row}")?;
    }
    writeln!(out, "a ratio below 1 is faster than plain threads; beside rayon: {RAYON}")?;
    out.flush()?;
    Ok(())
}

fn write_statements(out: &mut dyn Write, database: &Database, plan: &Plan, rows: &[Row]) -> Result<(), Failure> {
    writeln!(
        out,
        "\nshort range scans of {} rows by clients in a closed loop, {} x {} s each",
        thousands(plan.rows),
        plan.rounds,
        plan.seconds
    )?;
    writeln!(
        out,
        "{:<9} {:>7} {:>12} {:>6}  {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}  {:>10} {:>10}",
        "placement",
        "clients",
        "statements/s",
        "ratio",
        "p5 ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "spread",
        "memory",
        "after"
    )?;
    for row in rows {
        let Latency { p5, p50, p95, p99, max, variation, .. } = row.latency_ms;
        let verdict = match (row.keeps_throughput(), row.is_flat()) {
            (true, true) => "ok",
            (false, _) => "missed: throughput",
            (true, false) => "missed: memory grows",
        };
        writeln!(
            out,
            "{:<9} {:>7} {:>12.1} {:>6.3}  {p5:>8.2} {p50:>8.2} {p95:>8.2} {p99:>8.2} {max:>8.2} {variation:>6.3}  \
             {:>10} {:>10}  {verdict}",
            row.placement,
            row.clients,
            row.per_second,
            row.ratio,
            human(row.resident_before_bytes),
            human(row.resident_after_bytes)
        )?;
    }
    writeln!(
        out,
        "ok: at least 95% of the throughput of {} clients, and memory that grows by at most 5%",
        plan.clients[0]
    )?;
    writeln!(out, "spread: the standard deviation of latencies divided by their mean")?;
    if database.topology().nodes().len() == 1 {
        writeln!(out, "this machine has one node, where {} are the same placement", PLACEMENTS.join(" and "))?;
    }
    Ok(())
}

fn to_json(database: &Database, tasks: &[Figure], loops: &[LoopRow], plan: &Plan, statements: &[Row]) -> Value {
    let task = |figure: &Figure| {
        json!({
            "name": figure.name,
            "ns": figure.value_ns,
            "target_ns": figure.target_ns,
            "met": met(figure),
            "tasks": figure.tasks,
        })
    };
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let one_loop = |row: &LoopRow| {
        json!({
            "construct": row.construct,
            "load": row.load,
            "grain_us": row.grain.map(|grain| grain.as_micros() as u64),
            "plain_ms": ms(row.plain),
            "ours_ms": ms(row.ours),
            "rival": "plain threads",
            "rival_ms": ms(row.rival),
            "ratio": row.ratio,
            "quiet_ratio": row.quiet_ratio,
        })
    };
    let statement = |row: &Row| {
        let mut value = json!(row);
        value["keeps_throughput"] = row.keeps_throughput().into();
        value["memory_is_flat"] = row.is_flat().into();
        value
    };
    let scheduler = database.scheduler();
    json!({
        "benchmark": "sched",
        "source": "measured",
        "machine": describe(database.topology()),
        "topology": &**database.topology(),
        "revision": crate::REVISION,
        "version": env!("CARGO_PKG_VERSION"),
        "debug_build": cfg!(debug_assertions),
        "slots": scheduler.threads(),
        "thread_groups": scheduler.layout().groups().len(),
        "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
        "loops": loops.iter().map(one_loop).collect::<Vec<_>>(),
        "plan": plan,
        "statements": statements.iter().map(statement).collect::<Vec<_>>(),
    })
}
