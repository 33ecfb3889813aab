//! Experiments as declared files: where each comes from, on which machine, over which data, what is varied, what is
//! drawn.
//!
//! A declaration is TOML. Its tables `machine`, `data` and `workload` hold the settings with their default values; each
//! table of `grid` names the values that some of them take, and the experiment's points are the products of those. So
//! whatever an experiment varies, and whatever it holds fixed, is set by one name: `--set clients=64`.
//!
//! Invariants: a name that means nothing is refused, never ignored; every point of a grid has been checked before the
//! first of them runs; a setting stands in one table only.
//!
//! # Limits
//! Settings that depend on each other are declared as several grids.

mod embedded;
mod families;
mod grid;
mod recorded;
mod settings;
mod shifting;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use strsim::levenshtein;
use thiserror::Error;
use toml::Table;

use crate::result::{Metric, ResultKind};

pub use embedded::embedded;
pub use families::*;
pub use recorded::{RecordedColumn, RecordedRead, RecordedStatement, RecordedWorkload};
pub use settings::{Cores, MachineUse, Settings, Workload};
pub use shifting::{Balancer, Shifting, Transfers};

/// A declaration is no longer than this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why something is no experiment, or cannot be set so.
#[derive(Debug, Error)]
pub enum DeclarationError {
    /// The file could not be read.
    #[error("cannot read the experiment '{}': {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The text is no declaration.
    #[error("'{name}' declares no experiment: {reason}")]
    Text {
        /// The file, or the id.
        name: String,
        /// What is wrong, with the line where that is known.
        reason: String,
    },
    /// Neither an id of ours nor a file.
    #[error(
        "there is no experiment '{name}'; did you mean '{nearest}'? ('lab list' lists them; a file of your own is \
         given by its path)"
    )]
    Unknown {
        /// What was given.
        name: String,
        /// The id that is most like it.
        nearest: String,
    },
    /// A setting that the experiment does not have, or a value that it cannot take.
    #[error("'{id}': {reason}")]
    Setting {
        /// The experiment.
        id: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Where an experiment was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// The paper, by its public name.
    pub paper: String,
    /// The section of the paper.
    pub section: String,
    /// Its figures or tables, as the paper numbers them.
    pub figures: Vec<String>,
}

/// How long a point is run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Virtual or real seconds of a full run.
    pub seconds: f64,
    /// The same of a shortened run, which `lab claims` uses.
    pub short_seconds: f64,
    /// Points that are run for another time: the first that fits counts.
    #[serde(default)]
    pub except: Vec<Except>,
}

/// Points that are run for another time, since their statements are much shorter or longer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Except {
    /// Points with these settings.
    pub only: Table,
    /// As in [`Length`].
    pub seconds: f64,
    /// As in [`Length`].
    pub short_seconds: f64,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// Lines over a number.
    Lines,
    /// Groups of bars over names or few numbers.
    Bars,
    /// A bar per node, grouped by series.
    Nodes,
    /// Lines over the time of the run: throughput, a line per point.
    Time,
}

/// A figure of an experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Lines or bars.
    pub draw: Draw,
    /// The setting along x; for bars per node and lines over time it is left out.
    #[serde(default)]
    pub x: String,
    /// Whether x grows by factors.
    #[serde(default)]
    pub log_x: bool,
    /// What is drawn.
    pub y: Metric,
    /// The settings whose values make a series.
    #[serde(default)]
    pub series: Vec<String>,
    /// Only points with these settings.
    #[serde(default)]
    pub only: Table,
}

/// Values that the paper prints, to be drawn beside ours.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedSeries {
    /// The number of the figure in this file, from 0.
    pub figure: usize,
    /// The name of the series.
    pub series: String,
    /// Along x.
    pub x: Vec<f64>,
    /// Along y, in the unit of the figure's metric.
    pub y: Vec<f64>,
}

/// A declared experiment.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its id: the paper's short name and the figure, e.g. `vldb2015/fig08`.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where it was published.
    pub source: Publication,
    /// What the paper found, in our words.
    pub found: String,
    /// How it can be run: simulated, modelled, measured.
    pub kinds: Vec<ResultKind>,
    /// What is looked at.
    pub metrics: Vec<Metric>,
    /// The machine and how much of it is used.
    pub machine: Table,
    /// What is stored.
    #[serde(default)]
    pub data: Table,
    /// What is done, where things lie and how tasks are scheduled.
    pub workload: Table,
    /// What is varied: each table's product is a part of the grid.
    #[serde(default)]
    pub grid: Vec<Table>,
    /// How long each point runs.
    pub length: Length,
    /// What is drawn.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// What the paper prints of it.
    #[serde(default)]
    pub published: Vec<PublishedSeries>,
}

/// One run of an experiment: all its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The settings by name, those that are varied and those that are not.
    pub named: Table,
    /// The same, typed.
    pub settings: Settings,
}

impl Experiment {
    /// Reads a declaration and checks every point of its grid.
    ///
    /// # Errors
    /// [`DeclarationError::Text`] with the line, or the setting that is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, DeclarationError> {
        let wrong = |reason: String| DeclarationError::Text { name: name.to_string(), reason };
        let experiment: Experiment = toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().to_string()))?;
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// An experiment of ours by id, or a file by path.
    ///
    /// # Errors
    /// [`DeclarationError`].
    pub fn find(name: &str) -> Result<Experiment, DeclarationError> {
        if let Some((id, text)) = embedded().iter().find(|(id, _)| *id == name) {
            return Experiment::parse(id, text);
        }
        let path = Path::new(name);
        if path.exists() || name.ends_with(".toml") {
            return Experiment::read(path);
        }
        let nearest = embedded().iter().map(|(id, _)| *id).min_by_key(|id| (!id.contains(name), levenshtein(name, id)));
        Err(DeclarationError::Unknown { name: name.to_string(), nearest: nearest.unwrap_or_default().to_string() })
    }

    fn read(path: &Path) -> Result<Experiment, DeclarationError> {
        let failure = |reason: String| DeclarationError::File { path: path.to_path_buf(), reason };
        let facts = std::fs::metadata(path).map_err(|e| failure(e.to_string()))?;
        if !facts.is_file() || facts.len() > FILE_BYTES_MAX {
            return Err(failure(format!("it is no file of at most {} KiB", FILE_BYTES_MAX >> 10)));
        }
        let text = std::fs::read_to_string(path).map_err(|e| failure(e.to_string()))?;
        Experiment::parse(&path.display().to_string(), &text)
    }

    /// All experiments of ours, in the order of the papers.
    pub fn all() -> Vec<Experiment> {
        // That every one of them parses is a test's business.
        embedded().iter().filter_map(|(id, text)| Experiment::parse(id, text).ok()).collect()
    }

    /// Whether it can be run like that.
    pub fn runs_as(&self, kind: ResultKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// How long a point is run, in virtual or real seconds.
    pub fn seconds_of(&self, point: &Point, full: bool) -> f64 {
        let fits = |e: &&Except| e.only.iter().all(|(key, value)| point.named.get(key) == Some(value));
        let (seconds, short) = match self.length.except.iter().find(fits) {
            Some(except) => (except.seconds, except.short_seconds),
            None => (self.length.seconds, self.length.short_seconds),
        };
        if full { seconds } else { short }
    }

    fn check(&self) -> Result<(), String> {
        if self.kinds.is_empty() || self.kinds.contains(&ResultKind::Published) {
            return Err("'kinds' says how it is run: \"simulated\", \"modelled\" or \"measured\"".to_string());
        }
        let points = self.points(&Table::new())?;
        let lengths = self.length.except.iter().map(|e| (e.seconds, e.short_seconds));
        for (seconds, short) in lengths.chain([(self.length.seconds, self.length.short_seconds)]) {
            if !(seconds.is_finite() && short.is_finite() && short > 0.0 && short <= seconds) {
                return Err("'length' must have 0 < short_seconds <= seconds".to_string());
            }
        }
        let mut excepted = self.length.except.iter().flat_map(|e| e.only.keys());
        if let Some(key) = excepted.find(|key| !points[0].named.contains_key(*key)) {
            return Err(format!("'length' speaks of '{key}', which is no setting of this file"));
        }
        for figure in &self.figures {
            let mut keys: Vec<&String> = figure.series.iter().chain(figure.only.keys()).collect();
            if !matches!(figure.draw, Draw::Nodes | Draw::Time) {
                keys.push(&figure.x);
            }
            if figure.draw == Draw::Time && figure.y != Metric::Throughput {
                let (title, y) = (&figure.title, figure.y.name());
                return Err(format!("figure '{title}' draws '{y}' over time: only throughput is known over time"));
            }
            if let Some(key) = keys.into_iter().find(|key| !points[0].named.contains_key(*key)) {
                return Err(format!("figure '{}' speaks of '{key}', which is no setting of this file", figure.title));
            }
            if !self.metrics.contains(&figure.y) {
                return Err(format!(
                    "figure '{}' draws '{}', which is not in 'metrics'",
                    figure.title,
                    figure.y.name()
                ));
            }
        }
        for series in &self.published {
            if series.figure >= self.figures.len() || series.x.len() != series.y.len() || series.x.is_empty() {
                return Err(format!("published series '{}' needs a figure and as many x as y", series.series));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
