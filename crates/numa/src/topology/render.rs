//! A topology as text that a person can read: a tree of drawers, books, packages, dies, nodes, then tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Cache, CacheKind, CpuGroup, CpuId, Node, NodeId, Package, Topology};
use crate::error::size;
use crate::id_set::IdSet;

/// Where lines of prose are broken.
const WIDTH: usize = 110;

/// See [`Topology::render_text`].
pub(super) fn text(machine: &Topology) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(machine, &mut out);
    out
}

/// The first lines: what the machine is and what may be used of it, each with its title.
pub(super) fn summary(machine: &Topology) -> Vec<(&'static str, String)> {
    let total = machine.nodes().iter().fold(0u64, |sum, n| sum.saturating_add(n.memory_bytes));
    let packages = match machine.packages().len() {
        0 => "packages unknown".to_string(),
        n => count(n, "package"),
    };
    let whole = [
        packages,
        count(machine.nodes().len(), "node"),
        count(machine.cores().len(), "core"),
        count(machine.online_cpus().len(), "cpu"),
        size(total),
    ];
    let mut lines = vec![("machine", whole.join(", "))];
    if let Some(model) = machine.cpu_model() {
        lines.push(("model", model.to_string()));
    }
    let nodes: IdSet = machine.usable_memory_nodes().iter().map(|n| n.0).collect();
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    let limit = machine.memory_limit_bytes().map(|limit| format!(" (cgroup limit {})", size(limit)));
    lines.push((
        "usable",
        format!(
            "{} ({}), memory of {word} {nodes}, {}{}",
            count(machine.usable_cpus().len(), "cpu"),
            cpu_list(machine.usable_cpus()),
            size(machine.memory_bytes()),
            limit.unwrap_or_default()
        ),
    ));
    let threads = count(machine.default_threads(), "thread");
    lines.push(("default", format!("{threads}, memory budget {}", size(machine.default_memory_bytes()))));
    lines
}

fn write(machine: &Topology, out: &mut String) -> std::fmt::Result {
    for (title, line) in summary(machine) {
        writeln!(out, "{:<9}{line}", format!("{title}:"))?;
    }
    writeln!(out)?;
    let alike = alike_details(machine);
    for branch in tree(machine, alike.is_none()) {
        branch.write(out)?;
    }
    if let Some(details) = alike {
        writeln!(out, "\nevery node with cpus")?;
        for line in details {
            writeln!(out, "  {line}")?;
        }
    }
    tiers(machine, out)?;
    if machine.nodes().len() > 1 {
        distances(machine, out)?;
        hops(machine, out)?;
    }
    if !machine.warnings().is_empty() {
        writeln!(out, "\nwarnings")?;
        for warning in machine.warnings() {
            writeln!(out, "  - {}", wrapped(warning, WIDTH - 4).join("\n    "))?;
        }
    }
    Ok(())
}

/// A line with what is below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

impl Branch {
    fn leaf(line: String) -> Branch {
        Branch { line, below: Vec::new() }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", self.line)?;
        self.write_below("", out)
    }

    fn write_below(&self, indent: &str, out: &mut String) -> std::fmt::Result {
        for (i, branch) in self.below.iter().enumerate() {
            let (mark, next) = if i + 1 == self.below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            writeln!(out, "{indent}{mark}{}", branch.line)?;
            branch.write_below(&format!("{indent}{next}"), out)?;
        }
        Ok(())
    }
}

/// Drawers with books with packages with their nodes, then the nodes that no single package holds.
fn tree(machine: &Topology, detailed: bool) -> Vec<Branch> {
    let mut packages: Vec<(&Package, Branch)> =
        machine.packages().iter().map(|p| (p, package(machine, p, detailed))).collect();
    let mut top = Vec::new();
    let mut books: Vec<(&CpuGroup, Branch)> = Vec::new();
    for book in machine.books() {
        books.push((book, group("book", book, take(&mut packages, |p| within(&p.cpus, book)))));
    }
    for drawer in machine.drawers() {
        let mut below = take(&mut books, |book| within(&book.cpus, drawer));
        below.extend(take(&mut packages, |p| within(&p.cpus, drawer)));
        top.push(group("drawer", drawer, below));
    }
    top.extend(books.into_iter().map(|(_, branch)| branch));
    top.extend(packages.into_iter().map(|(_, branch)| branch));
    let others: Vec<&Node> = machine.nodes().iter().filter(|n| machine.home_package(n.id).is_none()).collect();
    if !others.is_empty() {
        let line = if machine.packages().is_empty() { "no packages known" } else { "in no one package" };
        let below = others.into_iter().map(|n| node_branch(machine, n, detailed)).collect();
        top.push(Branch { line: line.to_string(), below });
    }
    top
}

/// Removes what `chosen` says and hands out its branches.
fn take<T>(from: &mut Vec<(&T, Branch)>, chosen: impl Fn(&T) -> bool) -> Vec<Branch> {
    let (taken, left) = std::mem::take(from).into_iter().partition(|(of, _)| chosen(of));
    *from = left;
    let taken: Vec<(&T, Branch)> = taken;
    taken.into_iter().map(|(_, branch)| branch).collect()
}

fn within(cpus: &[CpuId], group: &CpuGroup) -> bool {
    cpus.iter().all(|cpu| group.cpus.binary_search(cpu).is_ok())
}

fn group(what: &str, group: &CpuGroup, below: Vec<Branch>) -> Branch {
    let id = group.id.map_or_else(|| "?".to_string(), |id| id.to_string());
    Branch { line: format!("{what} {id}: {}", cpus_text(&group.cpus)), below }
}

/// A package: its dies with the nodes that lie in one, then its other nodes; memory without cpus that is nearest to it.
fn package(machine: &Topology, package: &Package, detailed: bool) -> Branch {
    let sub_domains = machine.sub_domains().iter().any(|s| s.package == package.id);
    let sub_domains = if sub_domains { ", its nodes are sub-domains" } else { "" };
    let line = format!("package {}: {}{sub_domains}", package.id, cpus_text(&package.cpus));
    let mut nodes: Vec<(&Node, Branch)> = machine
        .nodes()
        .iter()
        .filter(|n| machine.home_package(n.id) == Some(package.id))
        .map(|n| (n, node_branch(machine, n, detailed)))
        .collect();
    let dies = machine.dies().iter().filter(|die| die.package == Some(package.id));
    let mut below: Vec<Branch> =
        dies.map(|die| group("die", die, take(&mut nodes, |n| !n.cpus.is_empty() && within(&n.cpus, die)))).collect();
    below.extend(nodes.into_iter().map(|(_, branch)| branch));
    // A package that is one node takes one line.
    if let [only] = below.as_mut_slice()
        && package.nodes.len() == 1
        && machine.node(package.nodes[0]).is_some_and(|n| n.cpus == package.cpus && n.package == Some(package.id))
    {
        let below = std::mem::take(&mut only.below);
        return Branch { line: format!("package {}, {}", package.id, only.line), below };
    }
    Branch { line, below }
}

fn node_branch(machine: &Topology, node: &Node, detailed: bool) -> Branch {
    let usable = if machine.usable_memory_nodes().contains(&node.id) { "" } else { " (memory not usable)" };
    let mut line = format!("node {}: {}, {}{usable}", node.id, cpus_text(&node.cpus), memory_text(machine, node));
    let across: IdSet = machine.packages().iter().filter(|p| p.nodes.contains(&node.id)).map(|p| p.id.0).collect();
    if across.len() > 1 {
        let _ = write!(line, ", in packages {across}");
    }
    if node.cpus.is_empty() {
        let near: IdSet = machine.nearest_cpu_nodes(node.id).iter().map(|n| n.0).collect();
        if !near.is_empty() {
            let _ = write!(line, ", nearest to {} {near}", if near.len() == 1 { "node" } else { "nodes" });
        }
    }
    let mut below: Vec<Branch> = memory_lines(node).into_iter().map(Branch::leaf).collect();
    if detailed {
        below.extend(details(machine, node).into_iter().map(Branch::leaf));
    }
    Branch { line, below }
}

/// How much memory, of what kind where that is worth a word, and how much is free.
pub(super) fn memory_text(machine: &Topology, node: &Node) -> String {
    if node.memory_bytes == 0 {
        return "memory unknown or none".to_string();
    }
    let mut text = size(node.memory_bytes);
    if machine.tiers().len() > 1 || node.cpus.is_empty() {
        let _ = write!(text, " {}", node.memory_kind);
        if let Some(tier) = machine.tier_of(node.id) {
            let _ = write!(text, ", tier {tier}");
        }
    }
    if let Some(free) = node.free_bytes {
        let _ = write!(text, " ({} free)", size(free));
    }
    text
}

/// What there is of huge pages, memory-side caches and declared speed.
pub(super) fn memory_lines(node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    let huge: Vec<String> = node
        .pages
        .iter()
        .skip(1)
        .filter(|p| p.total > 0)
        .map(|p| format!("{} of {} ({} free)", p.total, size(p.size_bytes), p.free))
        .collect();
    if !huge.is_empty() {
        lines.push(format!("huge pages: {}", huge.join(", ")));
    }
    for cache in &node.side_caches {
        let bytes = if cache.size_bytes == 0 { "of unknown size".to_string() } else { size(cache.size_bytes) };
        lines.push(format!("memory-side cache: {bytes}"));
    }
    if let Some(access) = node.access.last() {
        let ns = |of: Option<u64>| of.map(|ns| format!("{ns} ns"));
        let rate = |of: Option<u64>| of.map(|b| format!("{:.1} GB/s", b as f64 / 1e9));
        let told: Vec<String> =
            [ns(access.read_latency_ns), rate(access.read_bytes_per_second)].into_iter().flatten().collect();
        if !told.is_empty() {
            lines.push(format!("firmware: reading {}", told.join(", ")));
        }
    }
    lines
}

/// The details of every node with cpus, where there are several and all alike.
fn alike_details(machine: &Topology) -> Option<Vec<String>> {
    let mut of: Vec<Vec<String>> =
        machine.nodes().iter().filter(|n| !n.cpus.is_empty()).map(|n| details(machine, n)).collect();
    let several = of.len() > 1;
    of.dedup();
    if several && of.len() == 1 { of.pop().filter(|lines| !lines.is_empty()) } else { None }
}

/// Cores, groups of cores and caches of a node.
pub(super) fn details(machine: &Topology, node: &Node) -> Vec<String> {
    let mut by_threads: BTreeMap<usize, usize> = BTreeMap::new();
    for core in machine.cores().iter().filter(|c| c.node == Some(node.id)) {
        *by_threads.entry(core.cpus.len()).or_insert(0) += 1;
    }
    let cores: Vec<String> =
        by_threads.iter().map(|(threads, n)| format!("{} of {}", count(*n, "core"), count(*threads, "cpu"))).collect();
    let mut lines = Vec::new();
    if !cores.is_empty() {
        lines.push(cores.join(", "));
    }
    for (what, groups) in [("die", machine.dies()), ("cluster", machine.clusters())] {
        let inner: Vec<&CpuGroup> = groups.iter().filter(|g| g.nodes == [node.id] && g.cpus != node.cpus).collect();
        if let Some(first) = inner.first() {
            let alike = inner.iter().all(|g| g.cpus.len() == first.cpus.len());
            let cpus = if alike { format!(" of {}", count(first.cpus.len(), "cpu")) } else { String::new() };
            lines.push(format!("{}{cpus}", count(inner.len(), what)));
        }
    }
    lines.extend(cache_lines(machine.caches(), node));
    lines
}

/// One line per level, kind, size and number of sharing cpus.
fn cache_lines(caches: &[Cache], node: &Node) -> Vec<String> {
    let mut alike: BTreeMap<(u32, CacheKind, u64, usize), usize> = BTreeMap::new();
    for cache in caches.iter().filter(|c| serves(c, node)) {
        *alike.entry((cache.level, cache.kind, cache.size_bytes, cache.cpus.len())).or_insert(0) += 1;
    }
    alike
        .into_iter()
        .rev()
        .map(|((level, kind, bytes, cpus), n)| {
            let bytes = if bytes == 0 { "of unknown size".to_string() } else { size(bytes) };
            let shared = if cpus == 1 { "for one cpu".to_string() } else { format!("shared by {cpus} cpus") };
            let times = if n == 1 { String::new() } else { format!("{n} x ") };
            format!("{} {times}{bytes}, {shared}", cache_name(level, kind))
        })
        .collect()
}

/// Whether a cpu of this node shares the cache.
pub(super) fn serves(cache: &Cache, node: &Node) -> bool {
    let apart = cache.cpus.last() < node.cpus.first() || cache.cpus.first() > node.cpus.last();
    !apart && cache.cpus.iter().any(|cpu| node.cpus.binary_search(cpu).is_ok())
}

/// `L1d`, `L2`, ...
pub(super) fn cache_name(level: u32, kind: CacheKind) -> String {
    let kind = match kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    format!("L{level}{kind}")
}

fn tiers(machine: &Topology, out: &mut String) -> std::fmt::Result {
    if machine.tiers().len() < 2 {
        return Ok(());
    }
    writeln!(out, "\nmemory tiers (0 is the fastest)")?;
    for tier in machine.tiers() {
        let kinds: Vec<String> = tier.kinds.iter().map(ToString::to_string).collect();
        let nodes: IdSet = tier.nodes.iter().map(|n| n.0).collect();
        let word = if nodes.len() == 1 { "node" } else { "nodes" };
        writeln!(out, "  tier {}: {}, {word} {nodes}, {}", tier.tier, kinds.join(" and "), size(tier.memory_bytes))?;
    }
    Ok(())
}

/// The table of distances, rows from, columns to.
fn distances(machine: &Topology, out: &mut String) -> std::fmt::Result {
    let ids: Vec<NodeId> = machine.nodes().iter().map(|n| n.id).collect();
    writeln!(out, "\ndistances (from row to column)")?;
    table(&ids, &ids, |from, to| machine.distance(from, to).to_string(), out)?;
    let skewed = |a: &NodeId, b: &NodeId| a < b && machine.distance(*a, *b) != machine.distance(*b, *a);
    let skewed = ids.iter().flat_map(|a| ids.iter().filter(move |b| skewed(a, b))).count();
    if skewed > 0 {
        let are = if skewed == 1 { "pair of nodes is" } else { "pairs of nodes are" };
        writeln!(out, "  {skewed} {are} not as far one way as the other")?;
    }
    Ok(())
}

/// A table of figures, rows and columns named by nodes.
pub(crate) fn table(
    rows: &[NodeId],
    columns: &[NodeId],
    cell: impl Fn(NodeId, NodeId) -> String,
    out: &mut String,
) -> std::fmt::Result {
    let cells: Vec<Vec<String>> = rows.iter().map(|from| columns.iter().map(|to| cell(*from, *to)).collect()).collect();
    let names = |ids: &[NodeId]| ids.iter().map(NodeId::to_string).collect::<Vec<_>>();
    let rows = names(rows);
    let columns = names(columns);
    let texts = cells.iter().flatten().chain(&rows).chain(&columns);
    let width = texts.map(|text| text.chars().count()).max().unwrap_or(0).max(2) + 1;
    let line = |cells: &[String]| cells.iter().map(|c| format!("{c:>width$}")).collect::<String>();
    writeln!(out, "  {:>width$} {}", "", line(&columns))?;
    for (name, row) in rows.iter().zip(&cells) {
        writeln!(out, "  {name:>width$} {}", line(row))?;
    }
    Ok(())
}

fn hops(machine: &Topology, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\nhop classes")?;
    let width = machine.hop_classes().iter().map(|c| c.name.len()).max().unwrap_or(0);
    for class in machine.hop_classes() {
        let pairs = count(usize::try_from(class.pairs).unwrap_or(usize::MAX), "pair");
        writeln!(out, "  {:<width$}  distance {:>3}  {pairs}", class.name, class.distance)?;
    }
    Ok(())
}

fn cpus_text(cpus: &[CpuId]) -> String {
    match cpus {
        [] => "no cpus".to_string(),
        _ => format!("{} ({})", count(cpus.len(), "cpu"), cpu_list(cpus)),
    }
}

/// Cpus as a list of ranges.
pub(super) fn cpu_list(cpus: &[CpuId]) -> String {
    let list = cpus.iter().map(|cpu| cpu.0).collect::<IdSet>().to_string();
    strided(cpus).filter(|short| short.len() < list.len()).unwrap_or(list)
}

/// `1-77 by 4` for cpus that are dealt out in turn.
fn strided(cpus: &[CpuId]) -> Option<String> {
    let [first, second, .., last] = cpus else { return None };
    let step = second.0.checked_sub(first.0).filter(|step| *step > 1)?;
    let even = cpus.windows(2).all(|w| w[1].0.checked_sub(w[0].0) == Some(step));
    even.then(|| format!("{first}-{last} by {step}"))
}

/// `1 node`, `2 nodes`, `2 dies`.
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A text in lines of no more than `width` characters, where its words allow.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
