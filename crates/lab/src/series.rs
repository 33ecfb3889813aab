//! Series for drawing: points of one kind under one name.
//!
//! Invariant: a series never holds simulated and measured points together. Its kind is fixed when it is made, its
//! points can be added through [`Series::add`] only, and that refuses another kind.

use thiserror::Error;

use crate::declaration::{Draw, Figure};
use crate::result::{Metric, Record, ResultKind, as_json, shown};

/// Points that are drawn as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    kind: ResultKind,
    name: String,
    points: Vec<(f64, f64)>,
    /// What stands under each point where x is a name.
    labels: Vec<String>,
}

/// Points of two kinds were to be drawn as one series.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{name}' is {of}; a point that is {other} belongs to another series")]
pub struct MixedKinds {
    /// The series.
    pub name: String,
    /// What it is.
    pub of: ResultKind,
    /// What was to be added.
    pub other: ResultKind,
}

impl Series {
    /// An empty series.
    pub fn new(kind: ResultKind, name: impl Into<String>) -> Series {
        Series { kind, name: name.into(), points: Vec::new(), labels: Vec::new() }
    }

    /// Adds a point that is `kind`.
    ///
    /// # Errors
    /// [`MixedKinds`]: the series is of another kind.
    pub fn add(&mut self, kind: ResultKind, x: f64, y: f64, label: impl Into<String>) -> Result<(), MixedKinds> {
        if kind != self.kind {
            return Err(MixedKinds { name: self.name.clone(), of: self.kind, other: kind });
        }
        self.points.push((x, y));
        self.labels.push(label.into());
        Ok(())
    }

    /// Where its points come from.
    pub fn kind(&self) -> ResultKind {
        self.kind
    }

    /// Its name, without the kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its points, by x where they were added so.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// What stands under each point.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }
}

/// The series of a figure, from records of any kind: records of two kinds never meet in one.
pub fn series_of(figure: &Figure, records: &[Record]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    for record in records.iter().filter(|record| fits(figure, record)) {
        let name = name_of(figure, record);
        let at = match all.iter().position(|series| series.kind == record.kind && series.name == name) {
            Some(at) => at,
            None => {
                all.push(Series::new(record.kind, name));
                all.len() - 1
            }
        };
        for (x, y, label) in points_of(figure, record, &mut places) {
            let added = all[at].add(record.kind, x, y, label);
            assert!(added.is_ok(), "a series was chosen by its kind");
        }
    }
    for series in &mut all {
        let mut order: Vec<usize> = (0..series.points.len()).collect();
        order.sort_by(|a, b| series.points[*a].0.total_cmp(&series.points[*b].0));
        series.points = order.iter().map(|at| series.points[*at]).collect();
        series.labels = order.iter().map(|at| series.labels[*at].clone()).collect();
    }
    all
}

fn fits(figure: &Figure, record: &Record) -> bool {
    let only = as_json(&figure.only);
    only.iter().all(|(key, value)| record.settings.get(key) == Some(value))
}

fn name_of(figure: &Figure, record: &Record) -> String {
    let parts = figure.series.iter().filter_map(|key| record.settings.get(key).map(|value| (key, value)));
    let parts: Vec<String> = parts
        .map(|(key, value)| match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Bool(true) => key.replace('_', " "),
            serde_json::Value::Bool(false) => format!("no {}", key.replace('_', " ")),
            other => format!("{} {}", key.replace('_', " "), shown(other)),
        })
        .collect();
    if parts.is_empty() { figure.y.title().to_string() } else { parts.join(", ") }
}

/// Where a record's figures stand: at a number, or at the place of a name, in the order that names are met.
fn points_of(figure: &Figure, record: &Record, places: &mut Vec<String>) -> Vec<(f64, f64, String)> {
    if figure.draw == Draw::Nodes {
        let nodes = record.outcome.per_node.iter().enumerate();
        return nodes.map(|(node, rate)| (node as f64, *rate, node.to_string())).collect();
    }
    if figure.draw == Draw::Time {
        return record.outcome.over_time.iter().map(|(end, rate)| (*end, *rate, end.to_string())).collect();
    }
    let (Some(y), Some(x)) = (record.get(figure.y), record.settings.get(&figure.x)) else { return Vec::new() };
    let label = shown(x);
    let x = x.as_f64().unwrap_or_else(|| match places.iter().position(|place| *place == label) {
        Some(at) => at as f64,
        None => {
            places.push(label.clone());
            (places.len() - 1) as f64
        }
    });
    vec![(x, y, label)]
}

/// The unit of what a figure draws.
pub(crate) fn unit_of(figure: &Figure) -> &'static str {
    match figure.draw {
        Draw::Nodes => Metric::MemoryTraffic.unit(),
        Draw::Time => Metric::Throughput.unit(),
        Draw::Lines | Draw::Bars => figure.y.unit(),
    }
}
