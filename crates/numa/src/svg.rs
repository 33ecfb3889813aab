//! Drawings as SVG: what pictures of machines, of figures and of experiments are written with.
//!
//! Invariants: text is escaped; nothing outside the drawing is referred to; the colours of series differ also for
//! people who see few colours.
//!
//! # Limits
//! Positions have one digit behind the point. Styles are attributes, as their user writes them.

use std::fmt::{Display, Write};

/// Okabe and Ito's colours, which people with any colour vision tell apart; none too light for white.
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5195", "#555555"];
const FONT: &str = "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#222\"";

/// What was drawn so far.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    body: String,
}

impl Drawing {
    /// A rectangle.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, style: &str) {
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {style}/>"
        ));
    }

    /// A rectangle that says something when it is pointed at.
    pub fn told_rect(&mut self, x: f64, y: f64, width: f64, height: f64, style: &str, told: &str) {
        let told = escape(told);
        let size = format!("width=\"{width:.1}\" height=\"{height:.1}\"");
        self.line(format_args!("<rect x=\"{x:.1}\" y=\"{y:.1}\" {size} {style}><title>{told}</title></rect>"));
    }

    /// A text, escaped.
    pub fn text(&mut self, x: f64, y: f64, style: &str, content: &str) {
        self.line(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escape(content)));
    }

    /// A path.
    pub fn path(&mut self, path: impl Display, style: &str) {
        self.line(format_args!("<path d=\"{path}\" {style}/>"));
    }

    /// A line through these points.
    pub fn polyline(&mut self, points: impl IntoIterator<Item = (f64, f64)>, style: &str) {
        let points: Vec<String> = points.into_iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        self.path(format_args!("M{}", points.join("L")), style);
    }

    /// A mark around a point, of the shape with this number, that says something when it is pointed at.
    pub fn mark(&mut self, shape: usize, (x, y): (f64, f64), fill: &str, told: &str) {
        let (name, shape) = match shape % 4 {
            0 => ("circle", format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"")),
            1 => ("rect", format!("x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"", x - 3.5, y - 3.5)),
            2 => ("path", format!("d=\"M{x:.1} {:.1}l4.5 8h-9z\"", y - 5.0)),
            _ => ("path", format!("d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"", y - 5.0)),
        };
        self.line(format_args!("<{name} {shape} fill=\"{fill}\"><title>{}</title></{name}>", escape(told)));
    }

    /// Another drawing, with its corner here.
    pub fn place(&mut self, x: f64, y: f64, other: &Drawing) {
        self.line(format_args!("<g transform=\"translate({x:.0} {y:.0})\">\n{}</g>", other.body));
    }

    /// The drawing as a file, on white.
    pub fn file(&self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" {FONT}>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// The drawing as a part of a page, with what it says to those who do not see it.
    pub fn inline(&self, width: f64, height: f64, told: &str) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" {FONT}>\n{}</svg>\n",
            escape(told),
            self.body
        )
    }

    fn line(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("a String takes all that is written to it");
    }
}

/// Text as markup, of SVG and HTML alike.
pub fn escape(content: &str) -> String {
    let mut out = String::with_capacity(content.len());
    for c in content.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has few other control characters.
            c if c.is_control() && c != '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// How a series is drawn as a line, in its colour.
pub fn stroke(colour: usize, dashes: Option<&str>) -> String {
    let dashes = dashes.map_or(String::new(), |dashes| format!(" stroke-dasharray=\"{dashes}\""));
    format!("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{dashes}", COLOURS[colour % COLOURS.len()])
}

/// A round step, about five of which fill the span of an axis.
pub fn round_step(span: f64) -> f64 {
    let rough = if span > 0.0 { span } else { 1.0 } / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power)
}

/// A number of an axis without needless zeros.
pub fn axis_number(value: f64) -> String {
    if value.abs() >= 1e6 {
        let (scaled, suffix) = if value.abs() >= 1e9 { (value / 1e9, "G") } else { (value / 1e6, "M") };
        return format!("{}{suffix}", axis_number(scaled));
    }
    let digits = if value != 0.0 && value.abs() < 0.01 { 6 } else { 3 };
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_wherever_it_stands() {
        let raw = "<a & \"b\">\u{1}";
        let escaped = "&lt;a &amp; &quot;b&quot;&gt; ";
        let mut drawing = Drawing::default();
        drawing.text(1.0, 2.0, "", raw);
        drawing.told_rect(0.0, 0.0, 1.0, 1.0, "", raw);
        drawing.mark(0, (0.0, 0.0), "#000", raw);
        let markup = drawing.inline(10.0, 10.0, raw);
        assert_eq!(markup.matches(escaped).count(), 4, "{markup}");
        assert!(!markup.contains(raw));
    }

    #[test]
    fn steps_are_round() {
        for (span, step) in [(10.0, 2.0), (31.7, 10.0), (0.7, 0.2), (1e-3, 2e-4), (0.0, 0.2)] {
            assert!((round_step(span) - step).abs() < 1e-9, "{span}");
        }
    }

    #[test]
    fn numbers_of_axes_are_short() {
        let shown = [2.5, 10.0, 0.0, -0.0, 2_500_000.0, 8e9, 0.00001].map(axis_number);
        assert_eq!(shown, ["2.5", "10", "0", "0", "2.5M", "8G", "0.00001"]);
    }
}
