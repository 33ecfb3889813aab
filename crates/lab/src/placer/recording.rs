//! A run with the placer as a file that `nearside lab play` shows: a state a line, in the form that the server's
//! `/api/state` has. docs/lab.md says what a state holds.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use sim::workload::columns::{Column, Ranges};
use sim::workload::placed::{Carried, Placed, PlacedClients};
use sim::workload::watched::Look;
use sim::{Machine, Options};

use super::suite::{Case, NAMES, case, settings_of};
use super::{PERIOD_NS, SECOND_NS};
use crate::command::{CommandError, can_write, write_text};

/// `lab record`.
#[derive(Clone, Debug)]
pub struct RecordArguments {
    /// One of [`NAMES`].
    pub workload: String,
    /// A name, a file or a specification.
    pub machine: String,
    /// Virtual seconds.
    pub seconds: u32,
    /// Decides all that is random.
    pub seed: u64,
    /// Where the states go.
    pub file: PathBuf,
}

/// Simulates a workload with the placer and writes a state for each virtual second.
///
/// # Errors
/// [`CommandError`]: an unknown workload or machine, a file that cannot be written.
pub fn record(arguments: &RecordArguments, out: &mut dyn Write) -> Result<(), CommandError> {
    can_write(&arguments.file)?;
    let refused = |text: String| CommandError::Refused(text);
    let machine = Machine::parse(&arguments.machine).map_err(|error| refused(error.to_string()))?;
    let (seed, settings) = (arguments.seed, settings_of(&machine));
    let options = Options { seed, settings, ..Options::default() }.on(&machine);
    let name = &arguments.workload;
    let of = case(name, &machine, &options.constants);
    let of = of.ok_or_else(|| refused(format!("there is no workload '{name}'; choose of {}", NAMES.join(", "))))?;
    let states = states(&of, (&machine, &options), arguments.seconds).map_err(|error| refused(error.to_string()))?;
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    write_text(&arguments.file, &lines)?;
    let path = arguments.file.display();
    writeln!(out, "{path}: {} states, simulated; nearside lab play {path} shows them", states.len())?;
    Ok(())
}

/// A state for each virtual second.
///
/// # Errors
/// The simulator's.
pub fn states(case: &Case, on: (&Machine, &Options), seconds: u32) -> Result<Vec<Value>, sim::SimError> {
    let (machine, options) = on;
    let what = Placed { period_ns: Some(PERIOD_NS), ..case.what.clone() };
    let mut clients = PlacedClients::new(what, machine).watched(SECOND_NS);
    let measured_ns = u64::from(seconds) * SECOND_NS;
    let options = Options { warm_up_ns: 0, measured_ns, ..options.clone() };
    sim::run(machine, &options, &mut clients)?;
    let looks = clients.looks().iter().filter(|look| look.at_ns <= measured_ns);
    Ok(looks.map(|look| state(look, case, machine, clients.log())).collect())
}

fn state(look: &Look, case: &Case, machine: &Machine, log: &[Carried]) -> Value {
    let id = |place: usize| machine.node_id(place).0;
    let columns = &case.what.columns;
    let nodes = machine.nodes().iter().enumerate().map(|(place, facts)| {
        let node = machine.topology().node(facts.id);
        let cpus = node.map(|node| node.cpus.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(","));
        let package = machine.topology().home_package(facts.id).map(|package| package.0);
        let all = node.map_or(0, |node| node.memory_bytes);
        let memory = case.what.memory_bytes.filter(|_| facts.cpus > 0).map_or(all, |bytes| bytes as u64);
        json!({
            "node": facts.id.0, "package": package, "cpus": cpus, "memory_bytes": memory, "usable": true,
            "stored_bytes": stored(place, columns, &look.lies) as u64,
            "bandwidth": facts.controller_bytes_per_second as u64,
        })
    });
    let groups = machine.nodes().iter().enumerate().filter(|(_, facts)| facts.cpus > 0).map(|(place, facts)| {
        let ran_here = look.pairs.iter().filter(|((_, near), _)| *near == place);
        let (local, remote): (Vec<_>, Vec<_>) = ran_here.partition(|((node, near), _)| node == near);
        let sum = |of: Vec<(&(usize, usize), &f64)>| of.iter().map(|(_, bytes)| **bytes).sum::<f64>() as u64;
        json!({
            "thread_group": place, "node": facts.id.0, "cpus": facts.cpus, "slots": facts.cpus,
            "bytes_local": sum(local), "bytes_remote": sum(remote),
        })
    });
    let traffic = look
        .pairs
        .iter()
        .map(|((node, near), bytes)| json!({ "from_node": id(*node), "to_node": id(*near), "bytes": *bytes as u64 }));
    let of_columns = columns.iter().zip(&look.lies).enumerate().map(|(number, (column, ranges))| {
        json!({
            "schema": "public", "table": table(column), "column": name(number), "type": "INTEGER",
            "rows": column.rows as u64, "bytes": column.bytes as u64, "parts": 1,
            "placement": placement(ranges.iter().map(|(place, _)| id(*place))),
            "bytes_by_node": by_node(column, ranges, machine),
        })
    });
    let read = columns.iter().zip(&look.read).enumerate().map(|(number, (column, read))| {
        json!({ "table": table(column), "column": name(number), "bytes": read.iter().sum::<f64>() as u64 })
    });
    let decided = log.iter().enumerate().filter(|(_, of)| of.begun_ns <= look.at_ns).rev().take(100);
    let log = decided.map(|(place, of)| {
        let is_done = of.done_ns.is_some_and(|done_ns| done_ns <= look.at_ns);
        let column = of.decision.item.number as usize;
        json!({
            "number": place + 1, "at": format!("{:.0} s", of.begun_ns as f64 / SECOND_NS as f64),
            "schema": "public", "table": columns.get(column).map(table), "column": name(column),
            "from_placement": placement(of.decision.from.iter().map(|place| id(*place))),
            "to_placement": placement(of.decision.to.iter().map(|place| id(*place))),
            "why": of.decision.reason.to_string(), "bytes": of.decision.bytes,
            "predicted_gain": of.decision.gain, "outcome": if is_done { "done" } else { "moving" },
        })
    });
    let mut state = json!({
        "version": 1,
        "seconds": look.at_ns as f64 / SECOND_NS as f64,
        "counts": { "statements": look.statements, "failed": 0 },
        "nodes": nodes.collect::<Vec<_>>(),
        "thread_groups": groups.collect::<Vec<_>>(),
        "traffic": traffic.collect::<Vec<_>>(),
        "columns": of_columns.collect::<Vec<_>>(),
        "column_traffic": read.collect::<Vec<_>>(),
        "placement_log": log.collect::<Vec<_>>(),
    });
    // What does not change stands in the first state alone.
    if look.at_ns == 0 {
        state["title"] = format!("{} on {}, simulated", case.name, machine.name()).into();
        state["links"] = links(machine).into();
    }
    state
}

/// Bytes of columns on a node.
fn stored(node: usize, columns: &[Column], lies: &[Ranges]) -> f64 {
    let share =
        |ranges: &Ranges| ranges.iter().filter(|(place, _)| *place == node).map(|(_, share)| share).sum::<f64>();
    columns.iter().zip(lies).map(|(column, ranges)| column.bytes * share(ranges)).sum()
}

fn table(column: &Column) -> String {
    format!("t{}", column.table)
}

fn name(number: usize) -> String {
    format!("c{number}")
}

/// As `nearside.columns` says where a column is to lie.
fn placement(nodes: impl Iterator<Item = u32>) -> String {
    let nodes: Vec<String> = nodes.map(|node| node.to_string()).collect();
    match &nodes[..] {
        [one] => format!("node({one})"),
        several => format!("ivp(nodes {})", several.join(", ")),
    }
}

fn by_node(column: &Column, ranges: &Ranges, machine: &Machine) -> String {
    let mut bytes = std::collections::BTreeMap::<u32, f64>::new();
    for (place, share) in ranges {
        *bytes.entry(machine.node_id(*place).0).or_default() += column.bytes * share;
    }
    bytes.iter().map(|(node, bytes)| format!("{node}:{}", *bytes as u64)).collect::<Vec<_>>().join(" ")
}

fn links(machine: &Machine) -> Vec<Value> {
    let places = 0..machine.node_count();
    let from = places.clone().filter(|place| machine.nodes()[*place].cpus > 0);
    let pairs = from.flat_map(|from| places.clone().map(move |to| (from, to)));
    let link = |(from, to): (usize, usize)| {
        let (a, b) = (machine.node_id(from), machine.node_id(to));
        json!({
            "from_node": a.0, "to_node": b.0, "distance": machine.topology().distance(a, b),
            "hops": machine.topology().hop_class(a, b).map(|class| class.name.clone()),
            "latency_ns": machine.latency_ns(from, to), "read_bytes_per_second": machine.bandwidth(from, to),
        })
    };
    pairs.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_state_a_second_whose_columns_lie_whole() {
        let machine = Machine::parse("ivybridge-ex-4").unwrap();
        let options = Options { settings: settings_of(&machine), ..Options::default() }.on(&machine);
        let case = case("skewed", &machine, &options.constants).unwrap();
        let states = states(&case, (&machine, &options), 12).unwrap();
        assert_eq!(states.len(), 12, "one at the beginning of each second");
        assert!(states[0]["links"].as_array().is_some_and(|links| links.len() == 16));
        assert!(states[1].get("links").is_none());
        let last = &states[11];
        assert!(last["counts"]["statements"].as_u64() > states[3]["counts"]["statements"].as_u64());
        assert!(!last["placement_log"].as_array().unwrap().is_empty(), "a hot node is left in twelve seconds");
        for column in last["columns"].as_array().unwrap() {
            let lies = column["bytes_by_node"].as_str().unwrap().split(' ');
            let sum: u64 = lies.map(|of| of.split_once(':').unwrap().1.parse::<u64>().unwrap()).sum();
            assert!(sum.abs_diff(column["bytes"].as_u64().unwrap()) < 64, "{column}");
        }
    }
}
