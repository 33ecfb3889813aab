//! Attributes as a picture: heat maps of the matrices, lines for threads and load. Standalone SVG on white.
//!
//! Invariants: every figure has its unit and every picture its origin; text is at least 11 pixels high and dark on
//! light or light on dark; colours of lines differ also for people who see few colours, and writing is dashed.
//!
//! # Limits
//! Cells of more than 24 nodes get no numbers, the colours and the scale tell them; JSON and CSV have all figures.

mod heat;
mod lines;

use self::heat::Heat;
use self::lines::{Chart, Line};
use super::render::{heading, loads, origin, verb};
use crate::attributes::{Attributes, TransferKind};
use crate::svg::Drawing;

/// Around everything and between panels.
const MARGIN: f64 = 32.0;
/// Height of the title and the origin.
const TITLE_HEIGHT: f64 = 64.0;

/// A drawing with its size, placed by its user.
struct Panel {
    width: f64,
    height: f64,
    drawing: Drawing,
}

/// The picture.
pub fn svg(attributes: &Attributes) -> String {
    let ns: Vec<Vec<Option<f64>>> =
        attributes.latency.iter().map(|row| row.iter().map(|cell| cell.map(|l| l.avg_ns)).collect()).collect();
    let gb = |matrix: &[Vec<Option<f64>>]| -> Vec<Vec<Option<f64>>> {
        matrix.iter().map(|row| row.iter().map(|cell| cell.map(|rate| rate / 1e9)).collect()).collect()
    };
    let heat = |title: &str, unit: &str, figures: Vec<Vec<Option<f64>>>, ramp| {
        Heat { title, unit, rows: &attributes.nodes, columns: &attributes.targets, figures, ramp }.draw()
    };
    let maps = [
        heat("Idle latency", "ns", ns, heat::ORANGE),
        heat("Read bandwidth", "GB/s", gb(&attributes.read), heat::BLUE),
        heat("Write bandwidth", "GB/s", gb(&attributes.write), heat::BLUE),
        heat("Copy bandwidth (read and written)", "GB/s", gb(&attributes.copy), heat::BLUE),
    ];
    let rows = [maps.into_iter().flatten().collect::<Vec<_>>(), charts(attributes)];
    compose(&heading(attributes), &origin(attributes), rows)
}

/// The lines: bandwidth by threads, latency under load.
fn charts(attributes: &Attributes) -> Vec<Panel> {
    let pair = |from, to| if from == to { format!("node {from}, local") } else { format!("node {from} to node {to}") };
    let mut colours: Vec<_> = attributes.by_threads.iter().map(|c| (c.initiator, c.target)).collect();
    colours.dedup();
    colours.sort_unstable();
    colours.dedup();
    let colour = |of| colours.iter().position(|known| *known == of).unwrap_or(0);
    let by_threads = attributes.by_threads.iter().map(|curve| Line {
        name: format!("{} {}", verb(curve.kind), pair(curve.initiator, curve.target)),
        points: curve.bytes_per_second.iter().enumerate().map(|(i, rate)| ((i + 1) as f64, rate / 1e9)).collect(),
        colour: colour((curve.initiator, curve.target)),
        dashed: curve.kind == TransferKind::Write,
    });
    let by_load = loads(attributes).into_iter().map(|((from, to), points)| Line {
        name: pair(from, to),
        points: points.into_iter().map(|(rate, ns)| (rate / 1e9, ns)).collect(),
        colour: colour((from, to)),
        dashed: false,
    });
    let threads =
        Chart { title: "Bandwidth by threads", x: "threads", y: "GB/s", whole: true, lines: by_threads.collect() };
    let load = Chart {
        title: "Latency under load",
        x: "GB/s read by the others",
        y: "ns",
        whole: false,
        lines: by_load.collect(),
    };
    [threads, load].into_iter().filter_map(|chart| chart.draw()).collect()
}

/// Puts panels in rows, two of a row side by side, under the title.
fn compose(title: &str, origin: &str, rows: [Vec<Panel>; 2]) -> String {
    let mut all = Drawing::default();
    all.text(MARGIN, 44.0, "font-size=\"20\" font-weight=\"bold\"", title);
    all.text(MARGIN, 68.0, "fill=\"#555\"", origin);
    let mut width = 640.0f64;
    let mut y = TITLE_HEIGHT + MARGIN;
    for row in rows.iter().flat_map(|row| row.chunks(2)) {
        let mut x = MARGIN;
        for panel in row {
            all.place(x, y, &panel.drawing);
            x += panel.width + MARGIN;
        }
        width = width.max(x);
        y += row.iter().map(|p| p.height).fold(0.0, f64::max) + MARGIN;
    }
    all.file(width, y)
}

/// A figure with as many digits as a cell holds: `7.25`, `12.4`, `350`.
fn short(value: f64) -> String {
    let digits = if value.abs() >= 99.95 {
        0
    } else if value.abs() >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests;
