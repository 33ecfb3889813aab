//! What benchmarks share: the JSON file with where its figures come from, the head of the printed table, medians.
//!
//! Invariants: a figure never loses its origin: the file says machine, topology, revision, version, arguments and that
//! it was measured; a file takes its name when it is whole, and one that cannot be made is told before anything is
//! measured; a target stands beside its figure, and missing it is no failure.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use numa::Topology;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::machine::{describe, processor};

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, bytes.
    Less,
    /// Rates, shares.
    More,
}

/// One number that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is of; unique within a report and the same in every run, so that revisions can be compared.
    pub name: String,
    /// The number: a median unless the benchmark says otherwise.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// What it should be at most, or at least.
    pub target: Option<f64>,
    /// Whether it is; absent without a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What else the benchmark knows of it.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl Figure {
    /// A figure without a target.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str, better: Better) -> Figure {
        Figure { name: name.into(), value, unit, better, target: None, met: None, details: Map::new() }
    }

    /// With what it should be at most (less is better) or at least.
    pub fn with_target(mut self, target: f64) -> Figure {
        self.target = Some(target);
        self.met = Some(match self.better {
            Better::Less => self.value <= target,
            Better::More => self.value >= target,
        });
        self
    }

    /// With the fields of an object.
    pub fn with_details(mut self, details: Value) -> Figure {
        if let Value::Object(details) = details {
            self.details.extend(details);
        }
        self
    }

    /// How its target was kept: `ok`, `missed`, or nothing.
    pub fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "ok",
            Some(false) => "missed",
            None => "",
        }
    }
}

/// A file for figures that was named on the command line.
#[derive(Debug)]
pub struct Output<'a>(&'a Path);

impl<'a> Output<'a> {
    /// Sees that the file can be written.
    ///
    /// # Errors
    /// It cannot.
    pub fn open(path: Option<&'a Path>) -> Result<Option<Output<'a>>, Failure> {
        let Some(path) = path else { return Ok(None) };
        can_write(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Some(Output(path)))
    }

    /// Writes it.
    ///
    /// # Errors
    /// A full disk and the like; then the earlier file is still there.
    pub fn write(&self, value: &Value) -> Result<(), Failure> {
        let json = |file: &mut BufWriter<File>| {
            serde_json::to_writer_pretty(&mut *file, value)?;
            writeln!(file)
        };
        write_whole(self.0, json).map_err(|error| cannot_write(self.0, &error))
    }

    /// Writes a text to it.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub fn write_text(&self, text: &str) -> Result<(), Failure> {
        write_whole(self.0, |file| file.write_all(text.as_bytes())).map_err(|error| cannot_write(self.0, &error))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.0
    }
}

/// The report of a benchmark: `arguments` are those that decide what was measured.
pub fn report(benchmark: &str, topology: &Topology, threads: usize, arguments: Value, figures: &[Figure]) -> Value {
    json!({
        "benchmark": benchmark,
        "source": "measured",
        "machine": describe(topology),
        "cpu_model": processor(),
        "cpus": topology.usable_cpus().len(),
        "nodes": topology.nodes().len(),
        "topology": topology,
        "revision": crate::REVISION,
        "version": env!("CARGO_PKG_VERSION"),
        "debug_build": cfg!(debug_assertions),
        "threads": threads,
        "arguments": arguments,
        "figures": figures,
    })
}

/// The lines that every table begins with.
///
/// # Errors
/// Standard output is closed.
pub fn write_head(out: &mut dyn Write, topology: &Topology, threads: usize) -> Result<(), Failure> {
    let build = if cfg!(debug_assertions) { ", built without optimisation: these figures say nothing" } else { "" };
    writeln!(out, "machine   {}", describe(topology))?;
    writeln!(out, "revision  {}{build}", crate::REVISION)?;
    writeln!(out, "threads   {threads}")?;
    out.flush()?;
    Ok(())
}

/// The middle value; the mean of the two middle ones of an even number; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, half) if n % 2 == 1 => sorted[half],
        (_, half) => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// The value that `percent` of the ascending values do not exceed; 0 of none.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * percent / 100.0).round() as usize).copied().unwrap_or(0.0)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// Where a file is written before it takes its name, so that a run that is broken off leaves the earlier one alone.
/// `None`: what has that name is no plain file, and is written to directly.
fn beside(path: &Path) -> Option<PathBuf> {
    if path.exists() && !path.is_file() {
        return None;
    }
    let mut name = path.file_name()?.to_owned();
    name.push(format!(".{}.part", std::process::id()));
    Some(path.with_file_name(name))
}

fn can_write(path: &Path) -> io::Result<()> {
    match beside(path) {
        Some(beside) => {
            File::create(&beside)?;
            fs::remove_file(beside)
        }
        None => File::options().write(true).open(path).map(drop),
    }
}

fn write_whole(path: &Path, content: impl Fn(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let write = |to: &Path| {
        let mut file = BufWriter::new(File::create(to)?);
        content(&mut file)?;
        file.flush()
    };
    let Some(beside) = beside(path) else { return write(path) };
    let done = write(&beside).and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_and_percentiles() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 3.0, 2.0])), (0.0, 2.0, 2.5));
        let values: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((percentile(&values, 50.0), percentile(&values, 99.0), percentile(&[], 50.0)), (50.0, 99.0, 0.0));
    }

    #[test]
    fn targets_are_kept_or_missed() {
        let figure = |value, better| Figure::new("x", value, "us", better);
        assert_eq!(figure(3.0, Better::Less).with_target(3.0).met, Some(true));
        assert_eq!(figure(3.1, Better::Less).with_target(3.0).verdict(), "missed");
        assert_eq!(figure(3.1, Better::More).with_target(3.0).verdict(), "ok");
        let plain = serde_json::to_value(figure(1.0, Better::More).with_details(json!({"runs": [1]}))).unwrap();
        assert_eq!(
            plain,
            json!({"name": "x", "value": 1.0, "unit": "us", "better": "more", "target": null, "runs": [1]})
        );
    }
}
