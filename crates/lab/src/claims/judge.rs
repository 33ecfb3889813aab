//! Judges a claim by its rule, from figures that were run.
//!
//! Pure: it runs nothing.
//!
//! Invariants: a claim holds only where every figure that its rule speaks of is there; what is missing makes it
//! `not yet`.

use serde::{Deserialize, Serialize};

use super::expression::{CLOSE, Comparison, Lookup};
use super::rules::{Expectation, InRange, Rule};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// It was repeated.
    #[serde(rename = "holds")]
    Holds,
    /// It came out as published, but something that is assumed was chosen so that it does: that repeats nothing.
    #[serde(rename = "fitted")]
    Fitted,
    /// It was not.
    #[serde(rename = "misses")]
    Misses,
    /// What it needs is not there yet.
    #[serde(rename = "not yet")]
    NotYet,
    /// It is a figure of the machine that is simulated.
    #[serde(rename = "input")]
    Input,
    /// It is so because the simulator was built so; that repeats nothing.
    #[serde(rename = "by construction")]
    ByConstruction,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 6] =
        [Verdict::Holds, Verdict::Fitted, Verdict::Misses, Verdict::NotYet, Verdict::Input, Verdict::ByConstruction];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fitted => "fitted",
            Verdict::Misses => "misses",
            Verdict::NotYet => "not yet",
            Verdict::Input => "input",
            Verdict::ByConstruction => "by construction",
        }
    }
}

/// A rule applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// What was obtained, in words and figures.
    pub(super) obtained: String,
    /// The largest relative distance from what was published; for ranges from the nearer end, 0 inside.
    pub(super) error: Option<f64>,
    /// Which parts were missed, or what is missing.
    pub(super) why: String,
    /// Each figure that was judged, by what it is; of a comparison its left side over its right one.
    pub(super) values: Vec<(String, f64)>,
}

/// Applies a rule to figures. Tables, inputs and what is not there yet are not judged here.
pub(super) fn judge(rule: &Rule, figures: Lookup<'_>) -> Option<Judgement> {
    let mut parts = Parts::default();
    match rule {
        Rule::Values { expect, holds } => {
            expect.iter().for_each(|e| parts.value(e, figures));
            holds.iter().for_each(|c| parts.comparison(c, figures));
        }
        Rule::Ranges { expect, holds } => {
            expect.iter().for_each(|e| parts.range(e, figures));
            holds.iter().for_each(|c| parts.comparison(c, figures));
        }
        Rule::Order { holds } => holds.iter().for_each(|c| parts.comparison(c, figures)),
        Rule::Table { .. } | Rule::Input { .. } | Rule::NotYet { .. } => return None,
    }
    Some(parts.judgement())
}

#[derive(Default)]
struct Parts {
    obtained: Vec<String>,
    missed: Vec<String>,
    missing: Vec<String>,
    error: Option<f64>,
    values: Vec<(String, f64)>,
}

impl Parts {
    fn value(&mut self, expected: &Expectation, figures: Lookup<'_>) {
        let Some(value) = expected.value.value(figures) else { return self.missing.push(expected.what.clone()) };
        let error = relative(value, expected.published);
        let built = if expected.by_construction { " (by construction)" } else { "" };
        self.obtained.push(format!("{} {}{built}", expected.what, figure(value)));
        self.values.push((expected.what.clone(), value));
        self.error = Some(self.error.map_or(error, |worst| if error.abs() > worst.abs() { error } else { worst }));
        let same_side = expected.side_of.is_none_or(|side| (value > side) == (expected.published > side));
        if error.abs() > CLOSE {
            self.missed.push(format!("{} is {} of the published value", expected.what, percent(1.0 + error)));
        } else if !same_side {
            self.missed.push(format!(
                "{} lies on the other side of {}",
                expected.what,
                expected.side_of.unwrap_or(1.0)
            ));
        }
    }

    fn range(&mut self, expected: &InRange, figures: Lookup<'_>) {
        let Some(value) = expected.value.value(figures) else { return self.missing.push(expected.what.clone()) };
        let InRange { low, high, .. } = *expected;
        let error = if value < low { relative(value, low) } else { relative(value, high).max(0.0) };
        self.obtained.push(format!("{} {}", expected.what, figure(value)));
        self.values.push((expected.what.clone(), value));
        self.error = Some(self.error.map_or(error, |worst| if error.abs() > worst.abs() { error } else { worst }));
        let sided = (high < 1.0 && value >= 1.0) || (low > 1.0 && value <= 1.0);
        if error.abs() > CLOSE || sided {
            self.missed.push(format!("{} is not in {} .. {}", expected.what, figure(low), figure(high)));
        }
    }

    fn comparison(&mut self, comparison: &Comparison, figures: Lookup<'_>) {
        let Some((left, right, holds)) = comparison.judge(figures) else {
            return self.missing.push(comparison.to_string());
        };
        self.obtained.push(format!("{comparison}: {} and {}", figure(left), figure(right)));
        if right != 0.0 {
            self.values.push((comparison.to_string(), left / right));
        }
        if !holds {
            self.missed.push(format!("not so: {comparison}"));
        }
    }

    fn judgement(self) -> Judgement {
        let obtained = self.obtained.join("; ");
        let values = self.values;
        if !self.missing.is_empty() {
            let why = format!("no figures for {}", self.missing.join(", "));
            return Judgement { verdict: Verdict::NotYet, obtained, error: self.error, why, values };
        }
        let verdict = if self.missed.is_empty() { Verdict::Holds } else { Verdict::Misses };
        Judgement { verdict, obtained, error: self.error, why: self.missed.join("; "), values }
    }
}

fn relative(value: f64, published: f64) -> f64 {
    if published == 0.0 { value } else { (value - published) / published.abs() }
}

/// Three digits that tell.
pub(crate) fn figure(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    match magnitude {
        6.. | ..=-5 => format!("{value:.2e}"),
        _ => format!("{value:.*}", (2 - magnitude).clamp(0, 6) as usize),
    }
}

fn percent(value: f64) -> String {
    format!("{:.0}%", value * 100.0)
}
