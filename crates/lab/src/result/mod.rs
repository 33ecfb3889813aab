//! What a run gave, and where it comes from.
//!
//! Invariants: a figure never loses its origin: a record carries experiment, settings, seed, length and whether it was
//! simulated, modelled or measured, and its file the machine, its topology and the revision; a
//! [`Series`](crate::series::Series) holds points of one kind, and refuses those of another.

mod metric;
mod recovery;
mod seeds;
mod store;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use metric::{METRICS, Metric};
pub use recovery::with_recovery;
pub(crate) use seeds::spread;
pub use seeds::{OverSeeds, over_seeds};
pub(crate) use store::Results;
pub use store::{FORMAT, Head, ResultFile, Store, StoreError};

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultKind {
    /// From the simulator, in virtual time, on a machine that is described.
    Simulated,
    /// From the bandwidth-sharing model, by formula.
    Modelled,
    /// From this program on the machine at hand.
    Measured,
    /// From a paper.
    Published,
}

impl ResultKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            ResultKind::Simulated => "simulated",
            ResultKind::Modelled => "modelled",
            ResultKind::Measured => "measured",
            ResultKind::Published => "published",
        }
    }
}

impl fmt::Display for ResultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The figures of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Each metric that was looked at, in its unit.
    pub metrics: BTreeMap<Metric, f64>,
    /// Bytes per second that each node's memory gave, in GB/s, by position of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_node: Vec<f64>,
    /// Throughput over the time of the run, where that was looked at: each piece of time by its end, in seconds, and
    /// what was done in it, per minute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<(f64, f64)>,
    /// What a reader must know of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The simulator's constants that were read for it, by name: it is the same whatever the others are. Empty where
    /// nothing was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<String>,
    /// Events that the simulator went through, which is what takes its time; 0 where nothing was simulated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub events: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Outcome {
    /// Adds a figure; one that is no number is left out.
    pub fn with(mut self, metric: Metric, value: f64) -> Outcome {
        if value.is_finite() {
            self.metrics.insert(metric, value);
        }
        self
    }
}

/// A point that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The experiment's id.
    pub experiment: String,
    /// All settings by name.
    pub settings: BTreeMap<String, Value>,
    /// What decided all that is random.
    pub seed: u64,
    /// How long it ran, in virtual or real seconds.
    pub seconds: f64,
    /// Where it comes from.
    pub kind: ResultKind,
    /// Its figures.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Record {
    /// The figure, where there is one.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.outcome.metrics.get(&metric).copied()
    }

    /// What tells it from other records of its file.
    pub(crate) fn key(&self) -> Key {
        key(&self.experiment, &self.settings, self.seed, self.seconds)
    }
}

/// What tells a record from others of its file.
pub(crate) type Key = String;

/// The key of a record with these.
pub(crate) fn key(experiment: &str, settings: &BTreeMap<String, Value>, seed: u64, seconds: f64) -> Key {
    let settings = serde_json::to_string(settings).unwrap_or_default();
    format!("{experiment} {seed} {seconds} {settings}")
}

/// Settings as a result file has them.
pub(crate) fn as_json(named: &toml::Table) -> BTreeMap<String, Value> {
    named.iter().map(|(key, value)| (key.clone(), json_of(value))).collect()
}

fn json_of(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(yes) => Value::from(*yes),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(values) => values.iter().map(json_of).collect(),
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json_of(value))).collect(),
    }
}

/// A setting as people read it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What readers of records must know, in order of appearance, and of how many records.
pub(crate) fn notes(records: &[Record]) -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for note in records.iter().flat_map(|record| &record.outcome.notes) {
        match all.iter_mut().find(|(known, _)| known == note) {
            Some((_, points)) => *points += 1,
            None => all.push((note.clone(), 1)),
        }
    }
    all
}

#[cfg(test)]
mod tests;
