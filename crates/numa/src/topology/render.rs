//! A topology as text that a person can read.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Cache, CacheKind, CpuId, Node, NodeId, Topology};
use crate::error::size;
use crate::id_set::IdSet;

/// See [`Topology::render_text`].
pub(super) fn text(machine: &Topology) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(machine, &mut out);
    out
}

fn write(machine: &Topology, out: &mut String) -> std::fmt::Result {
    let cpus = machine.online_cpus().len();
    let total = machine.nodes().iter().fold(0u64, |sum, n| sum.saturating_add(n.memory_bytes));
    let packages = match machine.packages().len() {
        0 => "packages unknown".to_string(),
        n => count(n, "package"),
    };
    writeln!(
        out,
        "machine: {packages}, {}, {}, {}, {}",
        count(machine.nodes().len(), "node"),
        count(machine.cores().len(), "core"),
        count(cpus, "cpu"),
        size(total)
    )?;
    write!(out, "usable:  {} ({})", count(machine.usable_cpus().len(), "cpu"), cpu_list(machine.usable_cpus()))?;
    let nodes: IdSet = machine.usable_memory_nodes().iter().map(|n| n.0).collect();
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    write!(out, ", memory of {word} {nodes}, {}", size(machine.memory_bytes()))?;
    match machine.memory_limit_bytes() {
        Some(limit) => writeln!(out, " (cgroup limit {})", size(limit))?,
        None => writeln!(out)?,
    }
    tree(machine, out)?;
    if machine.nodes().len() > 1 {
        distances(machine, out)?;
    }
    if !machine.warnings().is_empty() {
        writeln!(out, "\nwarnings")?;
        for warning in machine.warnings() {
            writeln!(out, "  {warning}")?;
        }
    }
    Ok(())
}

/// Packages with their nodes, then the nodes that no single package holds.
fn tree(machine: &Topology, out: &mut String) -> std::fmt::Result {
    writeln!(out)?;
    for package in machine.packages() {
        let whole = machine.nodes().iter().filter(|n| n.package == Some(package.id));
        writeln!(out, "package {}: {}", package.id, cpus_text(&package.cpus))?;
        for node in whole {
            write_node(machine, node, out)?;
        }
    }
    let mut others = machine.nodes().iter().filter(|n| n.package.is_none()).peekable();
    if others.peek().is_some() {
        writeln!(out, "{}", if machine.packages().is_empty() { "no packages known" } else { "in no one package" })?;
    }
    for node in others {
        write_node(machine, node, out)?;
    }
    Ok(())
}

fn write_node(machine: &Topology, node: &Node, out: &mut String) -> std::fmt::Result {
    let usable = if machine.usable_memory_nodes().contains(&node.id) { "" } else { " (memory not usable)" };
    let memory = if node.memory_bytes == 0 { "memory unknown or none".to_string() } else { size(node.memory_bytes) };
    let across: IdSet = machine.packages().iter().filter(|p| p.nodes.contains(&node.id)).map(|p| p.id.0).collect();
    let across = if across.len() > 1 { format!(", in packages {across}") } else { String::new() };
    writeln!(out, "  node {}: {}, {memory}{usable}{across}", node.id, cpus_text(&node.cpus))?;
    let cores = machine.cores().iter().filter(|c| c.node == Some(node.id));
    let mut by_threads: BTreeMap<usize, usize> = BTreeMap::new();
    for core in cores {
        *by_threads.entry(core.cpus.len()).or_insert(0) += 1;
    }
    let cores: Vec<String> =
        by_threads.iter().map(|(threads, n)| format!("{} of {}", count(*n, "core"), count(*threads, "cpu"))).collect();
    if !cores.is_empty() {
        writeln!(out, "    {}", cores.join(", "))?;
    }
    for line in cache_lines(machine.caches(), node) {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// One line per level, kind, size and number of sharing cpus.
fn cache_lines(caches: &[Cache], node: &Node) -> Vec<String> {
    let mut alike: BTreeMap<(u32, CacheKind, u64, usize), usize> = BTreeMap::new();
    for cache in caches.iter().filter(|c| c.cpus.iter().any(|cpu| node.cpus.binary_search(cpu).is_ok())) {
        *alike.entry((cache.level, cache.kind, cache.size_bytes, cache.cpus.len())).or_insert(0) += 1;
    }
    alike
        .into_iter()
        .map(|((level, kind, bytes, cpus), n)| {
            let kind = match kind {
                CacheKind::Data => "d",
                CacheKind::Instruction => "i",
                CacheKind::Unified => "",
            };
            let bytes = if bytes == 0 { "of unknown size".to_string() } else { size(bytes) };
            let shared = if cpus == 1 { "for one cpu".to_string() } else { format!("shared by {cpus} cpus") };
            let times = if n == 1 { String::new() } else { format!("{n} x ") };
            format!("L{level}{kind} {times}{bytes}, {shared}")
        })
        .collect()
}

/// The table of distances, rows from, columns to.
fn distances(machine: &Topology, out: &mut String) -> std::fmt::Result {
    let ids: Vec<NodeId> = machine.nodes().iter().map(|n| n.id).collect();
    let row = |from: &NodeId| ids.iter().map(|to| machine.distance(*from, *to).to_string()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = ids.iter().map(row).collect();
    let names: Vec<String> = ids.iter().map(NodeId::to_string).collect();
    let width = rows.iter().flatten().chain(&names).map(String::len).max().unwrap_or(0).max(2) + 1;
    let line = |cells: &[String]| cells.iter().map(|c| format!("{c:>width$}")).collect::<String>();
    writeln!(out, "\ndistances (from row to column)")?;
    writeln!(out, "  {:>width$} {}", "", line(&names))?;
    for (name, row) in names.iter().zip(&rows) {
        writeln!(out, "  {name:>width$} {}", line(row))?;
    }
    Ok(())
}

fn cpus_text(cpus: &[CpuId]) -> String {
    match cpus {
        [] => "no cpus".to_string(),
        _ => format!("{} ({})", count(cpus.len(), "cpu"), cpu_list(cpus)),
    }
}

fn cpu_list(cpus: &[CpuId]) -> String {
    cpus.iter().map(|cpu| cpu.0).collect::<IdSet>().to_string()
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
