//! A topology as a drawing (SVG): packages as boxes, in them nodes with cpus, caches and memory; beside them the
//! distances as a heat map; below, what the colours mean and the warnings.
//!
//! Invariants: text is escaped; nothing outside the file is referred to; a box is as high as what it holds.
//!
//! # Limits
//! From [`COMPACT_NODES_MIN`] nodes on cores are not drawn one by one. Width of text is estimated, since no font is
//! known.

use std::collections::BTreeMap;

use super::render::{cache_name, count, cpu_list, details, memory_lines, memory_text, serves, summary, wrapped};
use super::{CacheKind, CpuId, MemoryKind, Node, PackageId, Topology};
use crate::svg::Drawing;

/// From this many nodes on, boxes hold text only.
const COMPACT_NODES_MIN: usize = 17;
const MARGIN: f64 = 24.0;
const GAP: f64 = 12.0;
const PAD: f64 = 10.0;
const LINE: f64 = 15.0;
const TEXT: f64 = 11.0;
const CORE: f64 = 12.0;
const CORES_IN_ROW: usize = 8;
const INK: &str = "#1c2733";
const FAINT: &str = "#5d6b7a";
const EDGE: &str = "#9fb0c0";

/// See [`Topology::render_svg`].
pub(super) fn svg(machine: &Topology) -> String {
    let mut canvas = Canvas::default();
    let mut y = MARGIN + 6.0;
    for (i, (title, line)) in summary(machine).into_iter().enumerate() {
        let (size, ink) = if i == 0 { (17.0, INK) } else { (12.0, FAINT) };
        canvas.text(MARGIN, y + size, size, ink, &if i == 0 { line } else { format!("{title}: {line}") });
        y += size + 6.0;
    }
    y += GAP;
    let boxes = packages(machine, y, &mut canvas);
    let mut bottom = boxes.bottom;
    if machine.nodes().len() > 1 {
        bottom = bottom.max(matrix(machine, boxes.right + 2.0 * GAP, y, &mut canvas));
    }
    bottom = legend(machine, bottom + 2.0 * GAP, &mut canvas);
    let columns = (((canvas.right - MARGIN) / (TEXT * 0.52)) as usize).max(60);
    for warning in machine.warnings() {
        for (i, line) in wrapped(warning, columns).into_iter().enumerate() {
            let mark = if i == 0 { "! " } else { "   " };
            canvas.text(MARGIN, bottom + LINE, TEXT, "#8a4b00", &format!("{mark}{line}"));
            bottom += LINE;
        }
    }
    canvas.finish(bottom + MARGIN)
}

/// What was drawn so far, and how far to the right.
#[derive(Default)]
struct Canvas {
    drawing: Drawing,
    right: f64,
}

impl Canvas {
    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, style: &str) {
        self.right = self.right.max(x + width);
        self.drawing.rect(x, y, width, height, style);
    }

    fn text(&mut self, x: f64, y: f64, size: f64, ink: &str, text: &str) {
        self.right = self.right.max(x + text_width(text, size));
        self.drawing.text(x, y, &format!(r#"font-size="{size}" fill="{ink}""#), text);
    }

    fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        self.right = self.right.max(x + text_width(text, size) * 1.08);
        self.drawing.text(x, y, &format!(r#"font-size="{size}" fill="{INK}" font-weight="bold""#), text);
    }

    fn centred(&mut self, x: f64, y: f64, size: f64, ink: &str, text: &str) {
        self.drawing.text(x, y, &format!(r#"font-size="{size}" fill="{ink}" text-anchor="middle""#), text);
    }

    fn finish(self, height: f64) -> String {
        self.drawing.file(self.right + MARGIN, height)
    }
}

/// How far the boxes reach.
struct Extent {
    right: f64,
    bottom: f64,
}

/// A node's box before it is drawn.
struct NodeBox<'a> {
    node: &'a Node,
    lines: Vec<String>,
    /// Groups of cores that share the last cache, in cores.
    groups: Vec<Vec<&'a [CpuId]>>,
    width: f64,
    height: f64,
}

/// A package's box, or that of the nodes without one.
struct PackageBox<'a> {
    title: String,
    nodes: Vec<NodeBox<'a>>,
    columns: usize,
    width: f64,
    height: f64,
}

/// Lays out all packages in rows so that the whole is about as wide as high, and draws them.
fn packages(machine: &Topology, top: f64, canvas: &mut Canvas) -> Extent {
    let compact = machine.nodes().len() >= COMPACT_NODES_MIN;
    let mut by_package: BTreeMap<Option<PackageId>, Vec<NodeBox<'_>>> = BTreeMap::new();
    for package in machine.packages() {
        by_package.insert(Some(package.id), Vec::new());
    }
    for node in machine.nodes() {
        by_package.entry(machine.home_package(node.id)).or_default().push(node_box(machine, node, compact));
    }
    // None sorts first, but what has no package comes last.
    let unpackaged = by_package.remove(&None);
    let several = by_package.len() + usize::from(unpackaged.is_some());
    let named = by_package.into_iter().chain(unpackaged.map(|nodes| (None, nodes)));
    let mut boxes: Vec<PackageBox<'_>> =
        named.map(|(id, nodes)| package_box(machine, id, nodes, if several == 1 { 4 } else { 2 })).collect();
    // Boxes of one width line up; a single odd one does not widen all others.
    let widest = boxes.iter().map(|b| b.width).fold(0.0, f64::max);
    for of in &mut boxes {
        of.width = if of.width > 0.7 * widest { widest } else { of.width };
    }
    let area: f64 = boxes.iter().map(|b| (b.width + GAP) * (b.height + GAP)).sum();
    let wide = (area * 1.25).sqrt().max(widest + 1.0).max(420.0);
    let mut x = MARGIN;
    let mut y = top;
    let mut row_height = 0.0f64;
    let mut right = MARGIN;
    for of in &boxes {
        if x > MARGIN && x + of.width > MARGIN + wide {
            (x, y, row_height) = (MARGIN, y + row_height + GAP, 0.0);
        }
        draw_package(machine, of, x, y, canvas);
        right = right.max(x + of.width);
        row_height = row_height.max(of.height);
        x += of.width + GAP;
    }
    Extent { right, bottom: y + row_height }
}

fn node_box<'a>(machine: &'a Topology, node: &'a Node, compact: bool) -> NodeBox<'a> {
    let cpus = if node.cpus.is_empty() { "no cpus".to_string() } else { count(node.cpus.len(), "cpu") };
    let mut lines = Vec::new();
    if !node.cpus.is_empty() {
        lines.push(format!("{cpus}: {}", shortened(&cpu_list(&node.cpus), 30)));
    } else {
        lines.push(cpus);
    }
    lines.push(memory_text(machine, node));
    if !machine.usable_memory_nodes().contains(&node.id) {
        lines.push("memory not usable".to_string());
    }
    let mut groups = Vec::new();
    if !compact {
        lines.extend(memory_lines(node));
        lines.extend(details(machine, node));
        groups = core_groups(machine, node);
    } else if let Some(last) = machine.caches().iter().rev().find(|c| serves(c, node)) {
        lines.push(format!("{} {}", cache_name(last.level, last.kind), crate::error::size(last.size_bytes)));
    }
    let text = lines.iter().map(|line| text_width(line, TEXT)).fold(70.0, f64::max);
    let (flow_width, flow_height) = flow(&groups, |_, _, _| ());
    let flow_height = if groups.is_empty() { 0.0 } else { flow_height + GAP / 2.0 };
    let width = text.max(flow_width) + 2.0 * PAD;
    NodeBox { node, height: PAD + LINE * (lines.len() + 1) as f64 + flow_height + PAD, lines, groups, width }
}

/// The cores of a node by the last cache that they share.
fn core_groups<'a>(machine: &'a Topology, node: &Node) -> Vec<Vec<&'a [CpuId]>> {
    let shared = machine.caches().iter().filter(|c| c.level > 2 && c.kind != CacheKind::Instruction);
    let last = shared.clone().map(|c| c.level).max();
    let mut by_cache: BTreeMap<Option<CpuId>, Vec<&[CpuId]>> = BTreeMap::new();
    for core in machine.cores().iter().filter(|c| c.node == Some(node.id)) {
        let of = shared.clone().find(|c| Some(c.level) == last && c.cpus.binary_search(&core.cpus[0]).is_ok());
        by_cache.entry(of.map(|c| c.cpus[0])).or_default().push(&core.cpus);
    }
    by_cache.into_values().collect()
}

/// Places groups of cores in rows; tells each its index and corner, and how large the whole is.
fn flow(groups: &[Vec<&[CpuId]>], mut place: impl FnMut(usize, f64, f64)) -> (f64, f64) {
    let mut x = 0.0f64;
    let mut y = 0.0;
    let mut row = 0.0f64;
    let mut right = 0.0f64;
    for (i, group) in groups.iter().enumerate() {
        let (width, height) = group_size(group.len());
        if x > 0.0 && x + width > 4.0 * group_size(CORES_IN_ROW).0 / 2.0 {
            (x, y, row) = (0.0, y + row + 4.0, 0.0);
        }
        place(i, x, y);
        row = row.max(height);
        right = right.max(x + width);
        x += width + 4.0;
    }
    (right, y + row)
}

fn group_size(cores: usize) -> (f64, f64) {
    let columns = cores.clamp(1, CORES_IN_ROW);
    let rows = cores.div_ceil(CORES_IN_ROW).max(1);
    (columns as f64 * (CORE + 2.0) + 6.0, rows as f64 * (CORE + 2.0) + 6.0)
}

fn package_box<'a>(
    machine: &Topology,
    id: Option<PackageId>,
    nodes: Vec<NodeBox<'a>>,
    columns: usize,
) -> PackageBox<'a> {
    let title = match id {
        Some(id) => {
            let sub_domains = machine.sub_domains().iter().any(|s| s.package == id);
            let bare = machine.packages().iter().find(|p| p.id == id && nodes.is_empty());
            let cpus = bare.map(|p| format!(": {}, {}", count(p.cpus.len(), "cpu"), shortened(&cpu_list(&p.cpus), 30)));
            format!("package {id}{}{}", if sub_domains { ": sub-domains" } else { "" }, cpus.unwrap_or_default())
        }
        None if machine.packages().is_empty() => "no packages known".to_string(),
        None => "in no one package".to_string(),
    };
    let columns = columns.min(nodes.len()).max(1);
    let widest = nodes.iter().map(|n| n.width).fold(0.0, f64::max);
    let rows = nodes.chunks(columns).map(|row| row.iter().map(|n| n.height).fold(0.0, f64::max));
    let height = PAD + LINE + rows.map(|h| h + GAP / 2.0).sum::<f64>() + PAD / 2.0;
    let width = (columns as f64 * (widest + GAP / 2.0) - GAP / 2.0).max(text_width(&title, 12.0) * 1.1) + 2.0 * PAD;
    PackageBox { title, columns, width, height, nodes }
}

fn draw_package(machine: &Topology, of: &PackageBox<'_>, x: f64, y: f64, canvas: &mut Canvas) {
    let style = format!(r##"rx="6" fill="#f4f6f8" stroke="{EDGE}""##);
    canvas.rect(x, y, of.width, of.height, &style);
    canvas.bold(x + PAD, y + PAD + 7.0, 12.0, &of.title);
    let columns = of.columns as f64;
    let width = (of.width - 2.0 * PAD - (columns - 1.0) * GAP / 2.0) / columns;
    let mut top = y + PAD + LINE;
    for row in of.nodes.chunks(of.columns) {
        let height = row.iter().map(|n| n.height).fold(0.0, f64::max);
        for (i, node) in row.iter().enumerate() {
            draw_node(machine, node, x + PAD + i as f64 * (width + GAP / 2.0), top, (width, height), canvas);
        }
        top += height + GAP / 2.0;
    }
}

fn draw_node(machine: &Topology, of: &NodeBox<'_>, x: f64, y: f64, (width, height): (f64, f64), canvas: &mut Canvas) {
    let dashes = if of.node.cpus.is_empty() { r#" stroke-dasharray="5 3""# } else { "" };
    let fill = kind_colour(of.node.memory_kind);
    canvas.rect(x, y, width, height, &format!(r##"rx="4" fill="{fill}" stroke="#6f8296"{dashes}"##));
    let mut line = y + PAD + 8.0;
    canvas.bold(x + PAD, line, 12.0, &format!("node {}", of.node.id));
    for text in &of.lines {
        line += LINE;
        canvas.text(x + PAD, line, TEXT, INK, text);
    }
    let top = line + GAP / 2.0 + 2.0;
    let mut corners = Vec::new();
    flow(&of.groups, |i, left, down| corners.push((i, x + PAD + left, top + down)));
    for (i, left, top) in corners {
        let cores = &of.groups[i];
        let (width, height) = group_size(cores.len());
        canvas.rect(left, top, width, height, &format!(r##"rx="2" fill="#ffffff" stroke="{EDGE}""##));
        for (n, cpus) in cores.iter().enumerate() {
            let column = (n % CORES_IN_ROW) as f64 * (CORE + 2.0);
            let row = (n / CORES_IN_ROW) as f64 * (CORE + 2.0);
            draw_core(machine, cpus, left + 4.0 + column, top + 4.0 + row, canvas);
        }
    }
}

/// A square, cut into as many bars as the core has cpus; those that may not be used are pale.
fn draw_core(machine: &Topology, cpus: &[CpuId], x: f64, y: f64, canvas: &mut Canvas) {
    let height = CORE / cpus.len() as f64;
    for (i, cpu) in cpus.iter().enumerate() {
        let usable = machine.usable_cpus().binary_search(cpu).is_ok();
        let fill = if usable { "#3b6ea5" } else { "#cfd8e0" };
        let gap = if cpus.len() > 1 { 1.0 } else { 0.0 };
        canvas.rect(x, y + i as f64 * height, CORE, (height - gap).max(0.5), &format!(r#"fill="{fill}""#));
    }
}

/// The heat map of distances; returns how far down it reaches.
fn matrix(machine: &Topology, left: f64, top: f64, canvas: &mut Canvas) -> f64 {
    let n = machine.nodes().len();
    let cell = if n <= 64 { (640.0 / n as f64).clamp(17.0, 40.0) } else { (1100.0 / n as f64).max(3.0) };
    let digits = machine.hop_classes().iter().map(|c| c.distance.to_string().len()).max().unwrap_or(2).max(2);
    let font = (cell / (digits as f64 * 0.62)).min(cell * 0.42);
    let numbers = n <= 64;
    canvas.bold(left, top + 11.0, 12.0, "distances, from row to column");
    let x0 = left + 28.0;
    let y0 = top + 34.0;
    let colours = Heat::of(machine);
    let step = if numbers { 1 } else { n.div_ceil(32) };
    for (i, from) in machine.nodes().iter().enumerate() {
        let along = (i as f64 + 0.5) * cell;
        if i % step == 0 {
            let size = if numbers { (cell * 0.5).min(11.0) } else { 9.0 };
            canvas.centred(x0 + along, y0 - 5.0, size, FAINT, &from.id.to_string());
            canvas.centred(x0 - 13.0, y0 + along + size * 0.36, size, FAINT, &from.id.to_string());
        }
        let y = y0 + i as f64 * cell;
        let row: Vec<u32> = machine.nodes().iter().map(|to| machine.distance(from.id, to.id)).collect();
        let mut j = 0;
        // Without numbers, equal neighbours are one rectangle.
        for alike in row.chunk_by(|a, b| !numbers && a == b) {
            let (fill, ink) = colours.colour(alike[0]);
            let x = x0 + j as f64 * cell;
            let line = if numbers { r##" stroke="#ffffff" stroke-width="0.6""## } else { "" };
            canvas.rect(x, y, alike.len() as f64 * cell, cell, &format!(r#"fill="{fill}"{line}"#));
            if numbers {
                canvas.centred(x + cell / 2.0, y + cell / 2.0 + font * 0.36, font, ink, &alike[0].to_string());
            }
            j += alike.len();
        }
    }
    let mut y = y0 + n as f64 * cell + 20.0;
    for class in machine.hop_classes().iter().take(24) {
        let (fill, _) = colours.colour(class.distance);
        canvas.rect(x0, y - 9.0, 12.0, 12.0, &format!(r##"fill="{fill}" stroke="{EDGE}""##));
        let pairs = count(usize::try_from(class.pairs).unwrap_or(usize::MAX), "pair");
        canvas.text(x0 + 18.0, y + 1.0, TEXT, INK, &format!("{}: distance {}, {pairs}", class.name, class.distance));
        y += LINE + 1.0;
    }
    y
}

/// Colours by the rank of a distance among those that occur, so that one far outlier does not make all others alike.
struct Heat {
    distances: Vec<u32>,
}

impl Heat {
    fn of(machine: &Topology) -> Heat {
        let mut distances: Vec<u32> = machine.nodes().iter().flat_map(|n| n.distances.values().copied()).collect();
        distances.sort_unstable();
        distances.dedup();
        Heat { distances }
    }

    /// Fill and ink.
    fn colour(&self, distance: u32) -> (String, &'static str) {
        let rank = self.distances.partition_point(|d| *d < distance) as f64;
        let share = rank / (self.distances.len().max(2) - 1) as f64;
        let (fill, dark) = shade(share);
        (fill, if dark { "#ffffff" } else { INK })
    }
}

/// A shade from pale to deep for 0 to 1, and whether it is dark.
fn shade(share: f64) -> (String, bool) {
    const STOPS: [[f64; 3]; 4] =
        [[237.0, 246.0, 237.0], [166.0, 210.0, 200.0], [62.0, 137.0, 169.0], [33.0, 52.0, 107.0]];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (place as usize).min(STOPS.len() - 2);
    let part = place - low as f64;
    let mix = |i: usize| (STOPS[low][i] + (STOPS[low + 1][i] - STOPS[low][i]) * part).round() as u8;
    (format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2)), place > 1.7)
}

/// What the boxes' colours mean; returns how far down it reaches.
fn legend(machine: &Topology, top: f64, canvas: &mut Canvas) -> f64 {
    let mut kinds: Vec<MemoryKind> = machine.tiers().iter().flat_map(|t| t.kinds.iter().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut x = MARGIN;
    let mut entry = |fill: &str, dashed: bool, text: &str| {
        let dashes = if dashed { r#" stroke-dasharray="3 2""# } else { "" };
        canvas.rect(x, top - 9.0, 12.0, 12.0, &format!(r##"fill="{fill}" stroke="#6f8296"{dashes}"##));
        canvas.text(x + 18.0, top + 1.0, TEXT, FAINT, text);
        x += 18.0 + text_width(text, TEXT) + 20.0;
    };
    for kind in kinds {
        entry(kind_colour(kind), false, &kind.to_string());
    }
    if machine.nodes().iter().any(|n| n.cpus.is_empty()) {
        entry("#ffffff", true, "memory without cpus");
    }
    if machine.nodes().len() < COMPACT_NODES_MIN {
        entry("#3b6ea5", false, "cpu, a square per core, framed by the last cache");
        if machine.usable_cpus().len() < machine.online_cpus().len() {
            entry("#cfd8e0", false, "cpu that may not be used");
        }
    }
    top + LINE
}

fn kind_colour(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Dram => "#e6f0fa",
        MemoryKind::Hbm => "#e2f5e4",
        MemoryKind::Cxl => "#fdf1d6",
        MemoryKind::Gpu => "#f1e6f8",
        MemoryKind::Pmem => "#fbe4de",
    }
}

fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_string();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// About how wide a text is.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}
