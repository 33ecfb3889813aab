//! What if this workload ran on that machine: every placement under every strategy, simulated, and which to choose.
//!
//! A workload is described in TOML by the tables `data` and `workload` of a declaration (docs/lab.md), by hand or by
//! [`workload_file`], which writes what a database has recorded; `placement` and `strategy` are what is tried.
//!
//! Invariants: every combination gets the same seed and the same virtual time; what cannot be simulated is told and not
//! left out silently.
//!
//! # Limits
//! Times are those of the simulator: trust ratios more than seconds.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::Constants;
use toml::{Table, Value};

use crate::command::{CommandError, Context};
use crate::declaration::{DeclarationError, Experiment, Length, Publication, RecordedWorkload, Settings};
use crate::engine::SimEngine;
use crate::result::{Metric, ResultKind};
use crate::run::{Job, Options, run};

/// Placements that are tried unless the caller names some, the simplest first.
pub const PLACEMENTS: [&str; 4] = ["rr", "ivp", "pp", "placer"];
/// Strategies that are tried unless the caller names some.
const STRATEGIES: [&str; 3] = ["os", "target", "bound"];
/// Virtual seconds of a run unless the workload says otherwise.
const SECONDS: f64 = 6.0;
/// Figures that differ by less are alike: the simulator does not know better.
const ALIKE: f64 = 0.03;
/// A workload is no longer than this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is asked.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// A published machine, a probe's file, or a specification.
    pub machine: String,
    /// The workload's file.
    pub workload: PathBuf,
    /// What is tried; [`PLACEMENTS`] where it is empty.
    pub placements: Vec<String>,
    /// What is tried; [`STRATEGIES`] where it is empty.
    pub strategies: Vec<String>,
    /// Decides all that is random.
    pub seed: u64,
}

/// A combination and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Where columns lie.
    pub placement: String,
    /// How tasks are scheduled.
    pub strategy: String,
    /// Statements per minute.
    pub throughput: Option<f64>,
    /// Seconds.
    pub latency_mean: Option<f64>,
    /// Seconds that 95 of 100 statements stay below.
    pub latency_p95: Option<f64>,
    /// Share of bytes that came from another node.
    pub remote_share: Option<f64>,
    /// Share of the cpus' time that they worked.
    pub cpu_load: Option<f64>,
    /// Why it could not be simulated.
    pub refused: Option<String>,
}

/// All combinations, and the one to take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The machine.
    pub machine: String,
    /// In the order of placements and strategies.
    pub choices: Vec<Choice>,
    /// Place of the one to take among them; `None` where none could be simulated.
    pub best: Option<usize>,
    /// Where the figures come from: always `simulated`.
    pub source: String,
    /// The revision that simulated.
    pub revision: String,
    /// What decided all that is random.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedWorkload {
    #[serde(default)]
    data: Table,
    workload: Table,
    #[serde(default = "usual_seconds")]
    seconds: f64,
}

fn usual_seconds() -> f64 {
    SECONDS
}

/// The text of a workload file that [`whatif`] reads back.
///
/// # Errors
/// What cannot be written as a workload: nothing was recorded, or a figure is none.
pub fn workload_file(recorded: &RecordedWorkload) -> Result<String, String> {
    let mut named = Table::try_from(recorded).map_err(|error| error.to_string())?;
    named.insert("kind".into(), "recorded".into());
    named.insert("machine".into(), "any".into());
    Settings::from_named(&named)?;
    let text = recorded_text(recorded);
    match text.len() as u64 {
        0..=FILE_BYTES_MAX => Ok(text),
        bytes => Err(format!("it would have {bytes} bytes; a workload has at most {FILE_BYTES_MAX}")),
    }
}

/// The file, a line per column and statement. Placements and strategies are tried, so they are left out.
fn recorded_text(recorded: &RecordedWorkload) -> String {
    let mut text = String::from(
        "# Recorded by Nearside. What one statement of each kind did on average; columns are numbered from 0.\n",
    );
    let seconds = seconds_for(recorded);
    let clients = recorded.clients;
    text += &format!("seconds = {seconds:?}\n\n[workload]\nkind = \"recorded\"\nclients = {clients}\ncolumns = [\n");
    for column in &recorded.columns {
        text += &format!("  {{ table = {}, column = {} }},\n", quoted(&column.table), quoted(&column.column));
    }
    text += "]\nstatements = [\n";
    for statement in &recorded.statements {
        let reads = statement.reads.iter().map(|r| format!("{{ column = {}, bytes = {:?} }}", r.column, r.bytes));
        text += &format!(
            "  {{ count = {}, tasks = {:?}, cpu_seconds = {:?}, seconds = {:?}, reads = [{}], sql = {} }},\n",
            statement.count,
            statement.tasks,
            statement.cpu_seconds,
            statement.seconds,
            reads.collect::<Vec<_>>().join(", "),
            quoted(&statement.sql)
        );
    }
    text + "]\n"
}

/// A basic string of TOML: JSON's escapes are among its own, but it wants one more character escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// Virtual seconds in which some hundred statements end, were it as where they were recorded; within bounds that take
/// no long time to simulate.
fn seconds_for(recorded: &RecordedWorkload) -> f64 {
    let count: u64 = recorded.statements.iter().map(|statement| statement.count).sum();
    let all: f64 = recorded.statements.iter().map(|statement| statement.count as f64 * statement.seconds).sum();
    let mean = all / count.max(1) as f64;
    (mean * 500.0 / f64::from(recorded.clients.max(1))).clamp(0.01, 60.0)
}

/// Simulates a workload under every placement and strategy and prints what came out and which to choose.
///
/// # Errors
/// [`CommandError`]: a file that describes no workload, an unknown machine, `stop`.
pub fn whatif(arguments: &WhatIf, context: &Context<'_>, out: &mut dyn Write) -> Result<Advice, CommandError> {
    let experiment = experiment(arguments)?;
    let points = experiment.grid_with(&Table::new())?;
    let seconds = experiment.length.seconds;
    let name = |point: &crate::declaration::Point, key: &str| point.named.get(key).map_or(String::new(), text);
    let named: Vec<(String, String)> =
        points.iter().map(|point| (name(point, "placement"), name(point, "strategy"))).collect();
    let jobs: Vec<Job> =
        points.into_iter().map(|point| Job { experiment: experiment.id.clone(), point, seconds }).collect();
    let options = Options { seed: arguments.seed, threads: context.threads, revision: context.revision.clone() };
    let engine = SimEngine::new(Constants::default());
    let results = run(&engine, &jobs, context.run(&options, None))?;
    let choice = |((placement, strategy), result): ((String, String), crate::run::JobResult)| {
        let get = |metric| result.as_ref().ok().and_then(|record| record.get(metric));
        Choice {
            placement,
            strategy,
            throughput: get(Metric::Throughput),
            latency_mean: get(Metric::LatencyMean),
            latency_p95: get(Metric::LatencyP95),
            remote_share: get(Metric::RemoteShare),
            cpu_load: get(Metric::CpuLoad),
            refused: result.as_ref().err().map(ToString::to_string),
        }
    };
    let choices: Vec<Choice> = named.into_iter().zip(results).map(choice).collect();
    let best = best(&choices);
    let machine = arguments.machine.clone();
    let source = "simulated".to_string();
    let advice = Advice { machine, choices, best, source, revision: context.revision.clone(), seed: arguments.seed };
    write(out, &advice)?;
    Ok(advice)
}

fn experiment(arguments: &WhatIf) -> Result<Experiment, CommandError> {
    sim::Machine::parse(&arguments.machine).map_err(|error| CommandError::Refused(error.to_string()))?;
    let described = read(&arguments.workload)?;
    let given = |asked: &[String], usual: &[&str]| {
        let names: Vec<String> =
            if asked.is_empty() { usual.iter().map(ToString::to_string).collect() } else { asked.to_vec() };
        Value::Array(names.into_iter().map(Value::String).collect())
    };
    let mut grid = Table::new();
    grid.insert("placement".into(), given(&arguments.placements, &PLACEMENTS));
    grid.insert("strategy".into(), given(&arguments.strategies, &STRATEGIES));
    let mut machine = Table::new();
    machine.insert("name".into(), Value::String(arguments.machine.clone()));
    let mut workload = described.workload;
    workload.entry("placement").or_insert_with(|| Value::String(PLACEMENTS[0].into()));
    workload.entry("strategy").or_insert_with(|| Value::String(STRATEGIES[0].into()));
    let none = || "none".to_string();
    let experiment = Experiment {
        id: "whatif".to_string(),
        title: "A workload under every placement and strategy".to_string(),
        source: Publication { paper: none(), section: none(), figures: vec![none()] },
        found: String::new(),
        kinds: vec![ResultKind::Simulated],
        metrics: vec![Metric::Throughput],
        machine,
        data: described.data,
        workload,
        grid: vec![grid],
        length: Length { seconds: described.seconds, short_seconds: described.seconds, except: Vec::new() },
        figures: Vec::new(),
        published: Vec::new(),
    };
    Ok(experiment)
}

fn read(path: &Path) -> Result<DescribedWorkload, DeclarationError> {
    let failure = |reason: String| DeclarationError::File { path: path.to_path_buf(), reason };
    let bytes = std::fs::metadata(path).map_err(|error| failure(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(failure(format!("it has {bytes} bytes; a workload has at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    let described: DescribedWorkload =
        toml::from_str(&text).map_err(|error| failure(error.to_string().trim_end().to_string()))?;
    if !described.seconds.is_finite() || described.seconds <= 0.0 {
        return Err(failure(
            "'seconds' is how long each combination runs, in virtual seconds: a positive number".into(),
        ));
    }
    Ok(described)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// Of those with about the best throughput the one with about the least mean latency; of equals the first, which is the
/// simplest to keep.
fn best(choices: &[Choice]) -> Option<usize> {
    let most = choices.iter().filter_map(|choice| choice.throughput).fold(0.0, f64::max);
    let good = |choice: &&Choice| choice.throughput.is_some_and(|it| it > 0.0 && it >= most * (1.0 - ALIKE));
    let least = choices.iter().filter(good).filter_map(|choice| choice.latency_mean).fold(f64::INFINITY, f64::min);
    choices
        .iter()
        .position(|choice| good(&choice) && choice.latency_mean.is_none_or(|latency| latency <= least * (1.0 + ALIKE)))
}

fn write(out: &mut dyn Write, advice: &Advice) -> Result<(), CommandError> {
    writeln!(out, "simulated on {}", advice.machine)?;
    let head = ["placement", "strategy", "1/min", "of best", "mean s", "p95 s", "remote", "cpu load"];
    let [placement, strategy, rest @ ..] = head;
    write!(out, "{placement:<12} {strategy:<10}")?;
    rest.iter().try_for_each(|title| write!(out, " {title:>9}"))?;
    writeln!(out)?;
    let most = advice.choices.iter().filter_map(|choice| choice.throughput).fold(0.0, f64::max);
    for choice in &advice.choices {
        write!(out, "{:<12} {:<10}", choice.placement, choice.strategy)?;
        if let Some(reason) = &choice.refused {
            writeln!(out, "  not simulated: {reason}")?;
            continue;
        }
        let number = |value: Option<f64>| value.map_or("-".to_string(), significant);
        let share = |value: Option<f64>| value.map_or("-".to_string(), |it| format!("{:.0}%", it * 100.0));
        let of_best = share(choice.throughput.filter(|_| most > 0.0).map(|it| it / most));
        let cells = [
            number(choice.throughput),
            of_best,
            number(choice.latency_mean),
            number(choice.latency_p95),
            share(choice.remote_share),
            share(choice.cpu_load),
        ];
        cells.iter().try_for_each(|cell| write!(out, " {cell:>9}"))?;
        writeln!(out)?;
    }
    match advice.best.map(|best| &advice.choices[best]) {
        Some(best) => writeln!(
            out,
            "choose placement {} with scheduling {}: of those within {:.0}% of the best throughput the one with the \
             least mean latency, and of equals the simplest",
            best.placement,
            best.strategy,
            ALIKE * 100.0
        )?,
        None => writeln!(out, "nothing to choose: no combination could be simulated")?,
    }
    Ok(())
}

/// Three digits.
fn significant(value: f64) -> String {
    let digits = if value > 0.0 { (2 - value.log10().floor() as i32).clamp(0, 6) as usize } else { 0 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::declaration::{RecordedColumn, RecordedRead, RecordedStatement};

    const WORKLOAD: &str = "seconds = 0.5
[data]
rows = 10_000_000
columns = 16
[workload]
kind = \"columns\"
clients = 64
selectivity = 0.00001
";

    fn ask(text: &str, machine: &str, placements: &[&str]) -> Result<(Advice, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let workload = folder.path().join("workload.toml");
        std::fs::write(&workload, text).unwrap();
        let stop = AtomicBool::new(false);
        let context = Context { revision: "r".into(), threads: 2, progress: &|_| {}, stop: &stop, measure: None };
        let placements = placements.iter().map(ToString::to_string).collect();
        let arguments = WhatIf { machine: machine.into(), workload, placements, strategies: Vec::new(), seed: 1 };
        let mut out = Vec::new();
        let advice = whatif(&arguments, &context, &mut out).map_err(|error| error.to_string())?;
        Ok((advice, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn binding_is_advised_where_remote_memory_is_slow() {
        let (advice, text) = ask(WORKLOAD, "ivybridge-ex-4", &["rr", "ivp"]).unwrap();
        assert_eq!(advice.choices.len(), 6);
        let best = &advice.choices[advice.best.unwrap()];
        assert_ne!(best.strategy, "os", "{text}");
        assert!(text.contains("choose placement") && text.contains("100%"), "{text}");
    }

    fn recorded() -> RecordedWorkload {
        let column = |table: &str, column: &str| RecordedColumn { table: table.into(), column: column.into() };
        let statement = |sql: &str, count, cpu_seconds, reads: &[(usize, f64)]| RecordedStatement {
            sql: sql.into(),
            count,
            tasks: 8.0,
            cpu_seconds,
            seconds: 0.01,
            reads: reads.iter().map(|(column, bytes)| RecordedRead { column: *column, bytes: *bytes }).collect(),
        };
        RecordedWorkload {
            clients: 64,
            columns: vec![column("t", "a"), column("t", "b"), column("u", "a"), column("v", "a")],
            statements: vec![
                statement("SELECT a FROM t WHERE b = ?", 30, 0.004, &[(0, 2e8), (1, 1e8)]),
                statement("SELECT \"u\".a FROM u, v", 10, 0.008, &[(2, 3e8), (3, 4e8)]),
                statement("SELECT ?\n-- \u{7f}\\", 1, 1e-6, &[]),
            ],
            ..RecordedWorkload::default()
        }
    }

    #[test]
    fn a_recorded_workload_is_written_read_and_simulated() {
        let text = workload_file(&recorded()).unwrap();
        assert!(text.contains("kind = \"recorded\"") && !text.contains("placement"), "{text}");
        let read: Table = toml::from_str(&text).unwrap();
        let mut workload = read["workload"].as_table().unwrap().clone();
        assert_eq!(workload.remove("kind"), Some("recorded".into()));
        assert_eq!(workload.try_into::<RecordedWorkload>().unwrap(), recorded());
        let (advice, shown) = ask(&text, "ivybridge-ex-4", &[]).unwrap();
        assert_eq!(advice.choices.len(), 12);
        let get = |placement: &str, strategy: &str| {
            let one = advice.choices.iter().find(|c| c.placement == placement && c.strategy == strategy);
            one.unwrap_or_else(|| panic!("{placement} {strategy} is missing: {shown}"))
        };
        assert!(advice.choices.iter().all(|choice| choice.throughput.is_some_and(|it| it > 0.0)), "{shown}");
        // Ranges of one table lie together; whole columns of one table lie on two nodes.
        assert!(get("ivp", "bound").remote_share < Some(0.55), "{shown}");
        // Four columns of four sizes: the placer has to come near to ranges of all.
        assert!(get("placer", "bound").throughput > get("rr", "bound").throughput, "{shown}");
        assert!(get("ivp", "os").remote_share > get("ivp", "bound").remote_share, "{shown}");
        assert!(get("ivp", "bound").throughput > get("ivp", "os").throughput, "{shown}");
        assert_eq!(ask(&text, "ivybridge-ex-4", &[]).unwrap().0, advice, "the same seed");
    }

    #[test]
    fn what_is_no_record_is_told() {
        assert!(workload_file(&RecordedWorkload::default()).unwrap_err().contains("no statement was recorded"));
        let mut wrong = recorded();
        wrong.statements[0].reads[0].column = 9;
        assert!(workload_file(&wrong).unwrap_err().contains("reads column 9, of 4"));
        let mut wrong = recorded();
        wrong.statements[1].cpu_seconds = f64::NAN;
        assert!(workload_file(&wrong).unwrap_err().contains("0 or more"));
        let text = workload_file(&recorded()).unwrap().replace("cpu_seconds", "gpu_seconds");
        assert!(ask(&text, "ivybridge-ex-4", &[]).unwrap_err().contains("gpu_seconds"));
    }

    #[test]
    fn what_is_no_workload_is_told() {
        assert!(ask("x = 1", "ivybridge-ex-4", &[]).unwrap_err().contains("workload"));
        assert!(ask(WORKLOAD, "no-such-machine", &[]).unwrap_err().contains("no-such-machine"));
        assert!(ask(WORKLOAD, "ivybridge-ex-4", &["nowhere"]).is_err());
        assert!(ask(&WORKLOAD.replace("0.5", "-1"), "ivybridge-ex-4", &[]).unwrap_err().contains("seconds"));
        assert!(ask(&WORKLOAD.replace("clients", "cleints"), "ivybridge-ex-4", &[]).unwrap_err().contains("cleints"));
    }

    #[test]
    fn alike_is_as_good() {
        let choice = |throughput: f64, latency: f64| Choice {
            placement: String::new(),
            strategy: String::new(),
            throughput: Some(throughput),
            latency_mean: Some(latency),
            latency_p95: None,
            remote_share: None,
            cpu_load: None,
            refused: None,
        };
        assert_eq!(best(&[choice(50.0, 0.1), choice(98.0, 2.0), choice(100.0, 1.02), choice(99.0, 1.0)]), Some(2));
        assert_eq!(best(&[]), None);
        assert_eq!([significant(12.345), significant(0.01234), significant(1234.5)], ["12.3", "0.0123", "1234"]);
    }
}
