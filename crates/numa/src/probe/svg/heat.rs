//! A matrix of nodes as coloured cells with their figures, and the scale beside it.

use super::{Panel, short};
use crate::ids::NodeId;
use crate::svg::Drawing;

/// Light to dark: few.
pub(super) type Ramp = [(u8, u8, u8); 3];
/// For what is better when low.
pub(super) const ORANGE: Ramp = [(255, 245, 230), (253, 160, 85), (140, 45, 4)];
/// For what is better when high.
pub(super) const BLUE: Ramp = [(239, 245, 252), (107, 174, 214), (8, 48, 107)];

/// The matrix is about this wide, whatever the number of nodes.
const MATRIX_WIDTH: f64 = 400.0;
const CELL_MIN: f64 = 9.0;
const CELL_MAX: f64 = 84.0;
/// Cells narrower than this get no figure.
const LABELLED_MIN: f64 = 34.0;
/// For the numbers of the nodes and the name of the axis.
const LEFT: f64 = 56.0;
const TOP: f64 = 62.0;
const SCALE_GAP: f64 = 20.0;
const SCALE_WIDTH: f64 = 14.0;
const RIGHT: f64 = 56.0;

/// What is drawn.
pub(super) struct Heat<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    /// Where the cpus are.
    pub(super) rows: &'a [NodeId],
    /// Where the memory is.
    pub(super) columns: &'a [NodeId],
    pub(super) figures: Vec<Vec<Option<f64>>>,
    pub(super) ramp: Ramp,
}

impl Heat<'_> {
    /// The panel; `None` without figures.
    pub(super) fn draw(&self) -> Option<Panel> {
        let known = || self.figures.iter().flatten().flatten().copied();
        let low = known().reduce(f64::min)?;
        let high = known().reduce(f64::max)?;
        let largest = self.rows.len().max(self.columns.len()).max(1);
        let cell = (MATRIX_WIDTH / largest as f64).clamp(CELL_MIN, CELL_MAX);
        let width = cell * self.columns.len() as f64;
        let height = cell * self.rows.len() as f64;
        let mut body = Drawing::default();
        body.text(0.0, 14.0, "font-size=\"15\" font-weight=\"bold\"", &format!("{}, {}", self.title, self.unit));
        body.text(LEFT + width / 2.0, 34.0, "text-anchor=\"middle\" fill=\"#555\"", "memory of node");
        let middle = TOP + height / 2.0;
        let turned = format!("text-anchor=\"middle\" fill=\"#555\" transform=\"rotate(-90 12 {middle:.1})\"");
        body.text(12.0, middle, &turned, "cpus of node");
        self.ids(&mut body, cell);
        for (r, row) in self.figures.iter().enumerate() {
            for (c, figure) in row.iter().enumerate() {
                let share = figure.map(|figure| share(figure, low, high));
                self.cell(&mut body, LEFT + cell * c as f64, TOP + cell * r as f64, cell, *figure, share);
            }
        }
        let scale_height = height.max(60.0);
        self.scale(&mut body, LEFT + width + SCALE_GAP, scale_height, low, high);
        let width = LEFT + width + SCALE_GAP + SCALE_WIDTH + RIGHT;
        // A short matrix still has its whole title above it.
        Some(Panel {
            width: width.max(self.title.len() as f64 * 9.0 + 40.0),
            height: TOP + scale_height + 8.0,
            drawing: body,
        })
    }

    /// The numbers of the nodes, as many as there is room for.
    fn ids(&self, body: &mut Drawing, cell: f64) {
        let every = (16.0 / cell).ceil().max(1.0) as usize;
        for (c, node) in self.columns.iter().enumerate().step_by(every) {
            let x = LEFT + cell * (c as f64 + 0.5);
            body.text(x, TOP - 8.0, "text-anchor=\"middle\" font-size=\"11\"", &node.to_string());
        }
        for (r, node) in self.rows.iter().enumerate().step_by(every) {
            let y = TOP + cell * (r as f64 + 0.5) + 4.0;
            body.text(LEFT - 8.0, y, "text-anchor=\"end\" font-size=\"11\"", &node.to_string());
        }
    }

    fn cell(&self, body: &mut Drawing, x: f64, y: f64, cell: f64, figure: Option<f64>, share: Option<f64>) {
        let fill = share.map_or("#f0f0f0".to_string(), |share| colour(self.ramp, share));
        body.rect(x, y, cell, cell, &format!("fill=\"{fill}\" stroke=\"#fff\""));
        if cell >= LABELLED_MIN || figure.is_none() && cell >= 14.0 {
            let ink = if share.is_some_and(|share| share > 0.55) { "#fff" } else { "#222" };
            let size = if cell >= 48.0 { 14 } else { 11 };
            let label = figure.map_or("\u{2013}".to_string(), short);
            let style = format!("text-anchor=\"middle\" font-size=\"{size}\" fill=\"{ink}\"");
            body.text(x + cell / 2.0, y + cell / 2.0 + 4.5, &style, &label);
        }
    }

    /// The colours from low to high, bottom up, with the figures at the ends.
    fn scale(&self, body: &mut Drawing, x: f64, height: f64, low: f64, high: f64) {
        const STEPS: usize = 32;
        for step in 0..STEPS {
            let share = (step as f64 + 0.5) / STEPS as f64;
            let piece = height / STEPS as f64;
            let y = TOP + height - piece * (step + 1) as f64;
            // Pieces overlap a little, or seams would show.
            let fill = format!("fill=\"{}\"", colour(self.ramp, share));
            body.rect(x, y, SCALE_WIDTH, piece + 0.4, &fill);
        }
        body.rect(x, TOP, SCALE_WIDTH, height, "fill=\"none\" stroke=\"#999\"");
        let beside = x + SCALE_WIDTH + 5.0;
        let (bottom, top) = bounds(low, high);
        body.text(beside, TOP + 9.0, "font-size=\"11\"", &short(top));
        body.text(beside, TOP + height, "font-size=\"11\"", &short(bottom));
    }
}

/// Where a figure stands between the ends of the scale.
fn share(figure: f64, low: f64, high: f64) -> f64 {
    let (bottom, top) = bounds(low, high);
    ((figure - bottom) / (top - bottom)).clamp(0.0, 1.0)
}

/// The ends of the scale: figures that differ by little must not look like night and day, so it spans at least a fifth.
fn bounds(low: f64, high: f64) -> (f64, f64) {
    let least = (high * 0.2).max(f64::MIN_POSITIVE);
    if high - low >= least {
        return (low, high);
    }
    let middle = (low + high) / 2.0;
    (middle - least / 2.0, middle + least / 2.0)
}

fn colour([light, middle, dark]: Ramp, share: f64) -> String {
    let (from, to, part) = if share < 0.5 { (light, middle, share * 2.0) } else { (middle, dark, share * 2.0 - 1.0) };
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
