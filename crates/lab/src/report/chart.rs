//! Charts as inline SVG: lines over a number, groups of bars over names. The same look as the pictures of
//! `nearside probe`.
//!
//! Invariants: a chart's title says whether it is simulated, modelled or measured; axes are named with their units;
//! text is at least 11 pixels high; colours differ also for people who see few of them, and lines differ by dashes and
//! marks too; what was published is dashed and drawn beside, never joined with what is ours.

use numa::svg::{COLOURS, Drawing, axis_number, round_step, stroke};

use crate::claims::figure as short;
use crate::result::ResultKind;
use crate::series::Series;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 66.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
const LEGEND_ROW: f64 = 18.0;
const RIGHT: f64 = 16.0;
/// Lines of more points than this are drawn without marks.
const MARKED_MAX: usize = 40;
/// Names of what went on: how many rows of them, how high one is, how wide a character of 11 pixels at most, and the
/// least that is left between two.
const NAME_ROWS: usize = 6;
const NAME_ROW: f64 = 13.0;
const NAME_CHARACTER: f64 = 7.0;
const NAME_GAP: f64 = 3.0;

/// What is drawn.
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// What x is.
    pub(crate) x: &'a str,
    /// What y is, with its unit.
    pub(crate) y: &'a str,
    /// Simulated, modelled or measured.
    pub(crate) kind: ResultKind,
    pub(crate) log_x: bool,
    pub(crate) bars: bool,
    pub(crate) series: &'a [Series],
    /// Drawn below lines, at places of x.
    pub(crate) marks: &'a [Mark],
}

/// Something that went on for a while.
pub(crate) struct Mark {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Written at the bottom; of those that follow each other at once the first and the last one's.
    pub(crate) label: String,
    /// Shown to who points at it.
    pub(crate) told: String,
}

impl Chart<'_> {
    /// The picture as a part of a page; `None` without points.
    pub(super) fn draw(&self) -> Option<String> {
        let (body, (width, height), told) = self.drawing()?;
        Some(body.inline(width, height, &told))
    }

    /// The picture as a file; `None` without points.
    pub(crate) fn file(&self) -> Option<String> {
        let (body, (width, height), _) = self.drawing()?;
        Some(body.file(width, height))
    }

    /// The picture, its size, and what it says to those who do not see it.
    fn drawing(&self) -> Option<(Drawing, (f64, f64), String)> {
        let points = || self.series.iter().flat_map(|series| series.points().iter().copied());
        let y_max = points().map(|p| p.1).reduce(f64::max)?;
        let y_min = points().map(|p| p.1).reduce(f64::min)?;
        let y = Scale::of(y_min.min(0.0), y_max);
        let mut body = Drawing::default();
        y.draw_rows(&mut body);
        if self.bars {
            self.draw_bars(&mut body, &y)
        } else {
            self.draw_lines(&mut body, &y)?
        }
        let floor = TOP + HEIGHT;
        body.path(format_args!("M{LEFT} {TOP}V{floor}h{WIDTH}"), "fill=\"none\" stroke=\"#767676\"");
        let grey = "text-anchor=\"middle\" fill=\"#444\"";
        body.text(LEFT + WIDTH / 2.0, floor + 40.0, grey, self.x);
        let legend = self.legend(&mut body, floor + BOTTOM);
        let height = floor + BOTTOM + legend + 6.0;
        let width = LEFT + WIDTH + RIGHT;
        let head = format!("{} ({})", self.title, self.kind);
        body.text(0.0, 14.0, "font-size=\"15\" font-weight=\"bold\"", &head);
        body.text(0.0, 31.0, "fill=\"#444\"", self.y);
        let told = format!("{head}. {} over {}, {} series.", self.y, self.x, self.series.len());
        Some((body, (width, height), told))
    }

    fn draw_lines(&self, body: &mut Drawing, y: &Scale) -> Option<()> {
        let xs = || self.series.iter().flat_map(|series| series.points().iter().map(|p| p.0));
        let low = xs().reduce(f64::min)?;
        let high = xs().reduce(f64::max)?;
        let log = self.log_x && low > 0.0;
        let scaled = |x: f64| if log { x.log2() } else { x };
        let low = if log || low < 0.0 { low } else { 0.0 };
        let span = (scaled(high) - scaled(low)).max(f64::MIN_POSITIVE);
        let place = |x: f64| LEFT + (scaled(x) - scaled(low)) / span * WIDTH;
        for (x, label) in ticks_of_x(low, high, log, xs()) {
            let at = place(x);
            let floor = TOP + HEIGHT;
            body.path(format_args!("M{at:.1} {floor:.1}v5"), "stroke=\"#767676\"");
            body.text(at, floor + 19.0, "text-anchor=\"middle\" font-size=\"11\"", &label);
        }
        self.draw_marks(body, &place);
        for (i, series) in self.series.iter().enumerate() {
            let points: Vec<(f64, f64)> = series.points().iter().map(|p| (place(p.0), y.place(p.1))).collect();
            body.polyline(points.iter().copied(), &stroke(i, dashes(i, series)));
            if points.len() > MARKED_MAX {
                continue;
            }
            for (at, (x, y)) in points.into_iter().zip(series.points()) {
                let told = format!("{}: {} at {}", series.name(), short(*y), axis_number(*x));
                body.mark(i, at, colour(i), &told);
            }
        }
        Some(())
    }

    /// Shades what went on, and writes what it is called: names after all shades, which would lie on top of them.
    fn draw_marks(&self, body: &mut Drawing, place: &dyn Fn(f64) -> f64) {
        for mark in self.marks {
            let (left, right) = (place(mark.from), place(mark.to));
            body.told_rect(left, TOP, (right - left).max(1.5), HEIGHT, "fill=\"#c9d7ea\" stroke=\"none\"", &mark.told);
        }
        let spans: Vec<(f64, f64, &str)> =
            self.marks.iter().map(|mark| (place(mark.from), place(mark.to), mark.label.as_str())).collect();
        for Named { at, row, name } in named(&spans) {
            let y = TOP + HEIGHT - 6.0 - NAME_ROW * row as f64;
            body.text(at, y, "text-anchor=\"middle\" font-size=\"11\" fill=\"#444\"", &name);
        }
    }

    fn draw_bars(&self, body: &mut Drawing, y: &Scale) {
        let mut places: Vec<(f64, &str)> = Vec::new();
        for (point, label) in self.series.iter().flat_map(|s| s.points().iter().zip(s.labels())) {
            if !places.iter().any(|(_, known)| known == label) {
                places.push((point.0, label));
            }
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let group = WIDTH / places.len().max(1) as f64;
        let bar = group * 0.8 / self.series.len().max(1) as f64;
        let every =
            (places.iter().map(|(_, label)| label.len()).max().unwrap_or(1) as f64 * 6.5 / group).ceil().max(1.0);
        for (at, (_, label)) in places.iter().enumerate() {
            let x = LEFT + group * (at as f64 + 0.5);
            if at % every as usize == 0 {
                body.text(x, TOP + HEIGHT + 19.0, "text-anchor=\"middle\" font-size=\"11\"", label);
            }
        }
        for (i, series) in self.series.iter().enumerate() {
            for (point, label) in series.points().iter().zip(series.labels()) {
                let Some(at) = places.iter().position(|(_, known)| known == label) else { continue };
                let x = LEFT + group * (at as f64 + 0.1) + bar * i as f64;
                let top = y.place(point.1.max(0.0));
                let floor = y.place(point.1.min(0.0));
                let told = format!("{}, {label}: {}", series.name(), short(point.1));
                let width = (bar - 1.0).max(0.5);
                let height = (floor - top).max(0.5);
                body.told_rect(x, top, width, height, &bar_style(i, series.kind()), &told);
            }
        }
    }

    /// The names of the series below the chart; how high that is.
    fn legend(&self, body: &mut Drawing, top: f64) -> f64 {
        if self.series.len() < 2 {
            return 0.0;
        }
        for (i, series) in self.series.iter().enumerate() {
            let y = top + LEGEND_ROW * (i as f64 + 0.5);
            if self.bars {
                body.rect(LEFT + 8.0, y - 6.0, 14.0, 12.0, &bar_style(i, series.kind()));
            } else {
                body.path(format_args!("M{LEFT} {y:.1}h28"), &stroke(i, dashes(i, series)));
                body.mark(i, (LEFT + 14.0, y), colour(i), series.name());
            }
            let name = match series.kind() {
                ResultKind::Published => format!("{} (published)", series.name()),
                _ => series.name().to_string(),
            };
            body.text(LEFT + 36.0, y + 4.0, "", &name);
        }
        LEGEND_ROW * self.series.len() as f64
    }
}

/// What is written for marks that follow each other.
struct Named {
    /// The middle of it.
    at: f64,
    /// How many rows above the lowest one.
    row: usize,
    name: String,
}

/// The names of marks from and to places of x: one for those that follow each other at once, none on top of another.
/// Those for which no row is free are left out.
fn named(spans: &[(f64, f64, &str)]) -> Vec<Named> {
    let mut runs: Vec<(f64, f64, &str, &str)> = Vec::new();
    for (left, right, label) in spans {
        match runs.last_mut() {
            Some(run) if left - run.1 < NAME_GAP => (run.1, run.3) = (run.1.max(*right), *label),
            _ => runs.push((*left, *right, *label, *label)),
        }
    }
    let mut ends = [f64::NEG_INFINITY; NAME_ROWS];
    let mut all = Vec::new();
    for (left, right, first, last) in runs {
        let name = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let half = name.chars().count() as f64 * NAME_CHARACTER / 2.0;
        let at = ((left + right) / 2.0).clamp(LEFT + half, (LEFT + WIDTH - half).max(LEFT + half));
        let Some(row) = ends.iter().position(|end| end + NAME_GAP <= at - half) else { continue };
        ends[row] = at + half;
        all.push(Named { at, row, name });
    }
    all
}

/// The y axis.
struct Scale {
    low: f64,
    step: f64,
    high: f64,
}

impl Scale {
    fn of(low: f64, high: f64) -> Scale {
        let span = if high > low { high - low } else { 1.0 };
        let step = round_step(span);
        Scale { low: (low / step + 1e-9).floor() * step, step, high: (((low + span) / step) - 1e-9).ceil() * step }
    }

    fn place(&self, value: f64) -> f64 {
        TOP + HEIGHT - (value - self.low) / (self.high - self.low) * HEIGHT
    }

    fn draw_rows(&self, body: &mut Drawing) {
        let rows = ((self.high - self.low) / self.step).round() as usize;
        for row in 0..=rows {
            let value = self.low + self.step * row as f64;
            let y = self.place(value);
            body.path(format_args!("M{LEFT} {y:.1}h{WIDTH}"), "stroke=\"#e2e2e2\"");
            body.text(LEFT - 8.0, y + 4.0, "text-anchor=\"end\" font-size=\"11\"", &axis_number(value));
        }
    }
}

/// Where x has ticks: at its own values where they are few and grow by factors, else at round ones.
fn ticks_of_x(low: f64, high: f64, log: bool, xs: impl Iterator<Item = f64>) -> Vec<(f64, String)> {
    if log {
        let mut own: Vec<f64> = xs.collect();
        own.sort_by(f64::total_cmp);
        own.dedup();
        let every = own.len().div_ceil(9);
        return own.into_iter().step_by(every.max(1)).map(|x| (x, axis_number(x))).collect();
    }
    let step = round_step((high - low).max(f64::MIN_POSITIVE));
    let first = (low / step).ceil();
    (0..=((high / step - first) + 1e-9) as usize)
        .map(|i| (first + i as f64) * step)
        .map(|x| (x, axis_number(x)))
        .collect()
}

fn colour(i: usize) -> &'static str {
    COLOURS[i % COLOURS.len()]
}

/// What was published is dashed finely, and so is, coarsely, every other round of the colours.
fn dashes(i: usize, series: &Series) -> Option<&'static str> {
    match (series.kind(), i / COLOURS.len() % 2) {
        (ResultKind::Published, _) => Some("3 4"),
        (_, 1) => Some("9 4"),
        _ => None,
    }
}

/// Filled, or outlined and dashed where it was published.
fn bar_style(i: usize, kind: ResultKind) -> String {
    let colour = colour(i);
    match kind {
        ResultKind::Published => format!("fill=\"#fff\" stroke=\"{colour}\" stroke-dasharray=\"4 3\""),
        _ => format!("fill=\"{colour}\" stroke=\"{colour}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_reach_both_ends() {
        let scale = Scale::of(-0.3, 1.1);
        assert!(scale.low <= -0.3 && scale.high >= 1.1);
        assert!(scale.place(scale.high) < scale.place(scale.low));
        let flat = Scale::of(0.0, 0.0);
        assert!(flat.place(0.0).is_finite());
    }

    #[test]
    fn names_of_marks_are_neither_covered_nor_on_top_of_each_other() {
        let spans: Vec<(f64, f64, String)> =
            (0..60).map(|i| (70.0 + 5.0 * f64::from(i), 71.0 + 5.0 * f64::from(i), i.to_string())).collect();
        let spans: Vec<(f64, f64, &str)> = spans.iter().map(|(from, to, name)| (*from, *to, name.as_str())).collect();
        let all = named(&spans);
        assert!(all.len() > 30, "{} of 60", all.len());
        let half = |of: &Named| of.name.len() as f64 * NAME_CHARACTER / 2.0;
        for (place, of) in all.iter().enumerate() {
            let others = all[..place].iter().filter(|other| other.row == of.row);
            assert!(others.into_iter().all(|other| other.at + half(other) < of.at - half(of)), "{}", of.name);
        }
        let together = named(&[(70.0, 75.0, "1"), (75.0, 80.0, "2"), (81.0, 90.0, "3"), (200.0, 201.0, "4")]);
        let names: Vec<&str> = together.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["1-3", "4"]);
        let mark = |from, label: &str| Mark { from, to: from + 1.0, label: label.to_string(), told: String::new() };
        let mut line = Series::new(ResultKind::Simulated, "line");
        for x in [0.0, 100.0] {
            line.add(ResultKind::Simulated, x, 1.0, axis_number(x)).expect("one kind");
        }
        let marks = [mark(10.0, "first"), mark(40.0, "second")];
        let chart = Chart {
            title: "Runs",
            x: "seconds",
            y: "throughput",
            kind: ResultKind::Simulated,
            log_x: false,
            bars: false,
            series: &[line],
            marks: &marks,
        };
        let svg = chart.draw().expect("points");
        let last_shade = svg.rfind("#c9d7ea").expect("shades");
        assert!(svg.find(">first<").is_some_and(|at| at > last_shade), "no shade is drawn over a name");
    }

    #[test]
    fn a_chart_names_its_axes_its_unit_and_where_it_comes_from() {
        let mut ours = Series::new(ResultKind::Simulated, "bound <1>");
        for (x, y) in [(1.0, 10.0), (4.0, 30.0), (16.0, 90.0)] {
            ours.add(ResultKind::Simulated, x, y, axis_number(x)).expect("one kind");
        }
        let mut theirs = Series::new(ResultKind::Published, "bound");
        theirs.add(ResultKind::Published, 16.0, 80.0, "16").expect("one kind");
        let series = [ours, theirs];
        let chart = |bars| Chart {
            title: "Throughput",
            x: "clients",
            y: "throughput, 1/min",
            kind: ResultKind::Simulated,
            log_x: true,
            bars,
            series: &series,
            marks: &[],
        };
        for bars in [false, true] {
            let svg = chart(bars).draw().expect("points");
            for part in ["Throughput (simulated)", ">clients<", "throughput, 1/min", "(published)", "bound &lt;1&gt;"] {
                assert!(svg.contains(part), "{part}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("stroke-dasharray"));
            super::super::page::balanced(&svg).expect("well-formed");
        }
        assert!(Chart { series: &[], ..chart(false) }.draw().is_none());
    }
}
