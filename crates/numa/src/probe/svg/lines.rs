//! A chart of lines with axes from zero and a legend.

use super::{Panel, short};
use crate::svg::{COLOURS, Drawing, axis_number, round_step, stroke};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 48.0;
const LEGEND_ROW: f64 = 18.0;

/// One line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Its number among the colours.
    pub(super) colour: usize,
    pub(super) dashed: bool,
}

/// What is drawn.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Whether x counts things: it then starts at 1 and has ticks at whole numbers.
    pub(super) whole: bool,
    pub(super) lines: Vec<Line>,
}

impl Chart<'_> {
    /// The panel; `None` without points.
    pub(super) fn draw(&self) -> Option<Panel> {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let x_max = points().map(|p| p.0).reduce(f64::max)?;
        let y_max = points().map(|p| p.1).reduce(f64::max)?;
        let x_min = if self.whole { 1.0 } else { 0.0 };
        let (y_step, y_top) = ticks(y_max);
        let (x_step, x_top) = if self.whole { whole_ticks(x_max) } else { ticks(x_max) };
        let x_top = if self.whole { x_max.max(2.0) } else { x_top };
        let at = |(x, y): (f64, f64)| (LEFT + (x - x_min) / (x_top - x_min) * WIDTH, TOP + HEIGHT - y / y_top * HEIGHT);
        let mut body = Drawing::default();
        body.text(0.0, 14.0, "font-size=\"15\" font-weight=\"bold\"", &format!("{}, {}", self.title, self.y));
        let mut y = 0.0;
        while y <= y_top * 1.0001 {
            let (_, line) = at((x_min, y));
            body.path(format_args!("M{LEFT} {line:.1}h{WIDTH}"), "stroke=\"#e2e2e2\"");
            body.text(LEFT - 8.0, line + 4.0, "text-anchor=\"end\" font-size=\"11\"", &axis_number(y));
            y += y_step;
        }
        let mut x = x_min;
        while x <= x_top * 1.0001 {
            let (place, _) = at((x, 0.0));
            let below = TOP + HEIGHT;
            body.path(format_args!("M{place:.1} {below:.1}v5"), "stroke=\"#999\"");
            body.text(place, below + 19.0, "text-anchor=\"middle\" font-size=\"11\"", &axis_number(x));
            // From 1, the next whole tick is a multiple of the step.
            x = if self.whole && x_step > 1.0 && x == 1.0 { x_step } else { x + x_step };
        }
        body.path(format_args!("M{LEFT} {TOP}v{HEIGHT}h{WIDTH}"), "fill=\"none\" stroke=\"#999\"");
        let style = "text-anchor=\"middle\" fill=\"#555\"";
        body.text(LEFT + WIDTH / 2.0, TOP + HEIGHT + 38.0, style, self.x);
        for line in &self.lines {
            line.draw(&mut body, at);
        }
        let legend = TOP + HEIGHT + BOTTOM;
        for (i, line) in self.lines.iter().enumerate() {
            let y = legend + LEGEND_ROW * (i as f64 + 0.5);
            body.path(format_args!("M{LEFT} {y:.1}h28"), &line.stroke());
            body.text(LEFT + 36.0, y + 4.0, "", &line.name);
        }
        let height = legend + LEGEND_ROW * self.lines.len() as f64 + 8.0;
        Some(Panel { width: LEFT + WIDTH + 16.0, height, drawing: body })
    }
}

impl Line {
    fn draw(&self, body: &mut Drawing, at: impl Fn((f64, f64)) -> (f64, f64)) {
        body.polyline(self.points.iter().map(|point| at(*point)), &self.stroke());
        // Many threads would make a string of beads of it.
        if self.points.len() <= 32 {
            for point in &self.points {
                let fill = COLOURS[self.colour % COLOURS.len()];
                body.mark(0, at(*point), fill, &format!("{} at {}", short(point.1), short(point.0)));
            }
        }
    }

    fn stroke(&self) -> String {
        stroke(self.colour, self.dashed.then_some("6 4"))
    }
}

/// A round step and the first multiple of it that no value passes.
fn ticks(max: f64) -> (f64, f64) {
    let max = if max > 0.0 { max } else { 1.0 };
    let step = round_step(max);
    (step, (max / step - 1e-9).ceil() * step)
}

/// The same for whole numbers.
fn whole_ticks(max: f64) -> (f64, f64) {
    if max <= 16.0 {
        return (1.0, max);
    }
    let (step, top) = ticks(max);
    (step.round().max(1.0), top)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        for (max, expected) in [(10.0, (2.0, 10.0)), (31.7, (10.0, 40.0)), (0.7, (0.2, 0.8)), (1e-3, (2e-4, 1e-3))] {
            let (step, top) = ticks(max);
            assert!((step - expected.0).abs() < 1e-9 && (top - expected.1).abs() < 1e-9, "{max}: {step} {top}");
        }
        assert_eq!(ticks(0.0).1, 1.0);
        assert_eq!(whole_ticks(7.0), (1.0, 7.0));
        assert!(whole_ticks(128.0).0 >= 10.0);
    }
}
