//! `nearside lab order`: in which order, and how many at a time, measured queries should run.
//!
//! Reads what `nearside lab interference --json` wrote, so the machine and the queries are those that were measured;
//! the plan is [`model::order`]'s, beside what comes of running them one after the other as they are listed.
//!
//! # Limits
//! What the model expects, not a measurement; the extended model's jobs only. All queries are there at the beginning.
//!
//! Source: Seidel 2011, section 5.4.1 and chapter 6.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use model::fluid::Item;
use model::job::Job;
use model::machine::Machine;
use model::order::{Objective, ScoredPlan, Search, first_come, plan};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// Arguments of `nearside lab order`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside lab interference --json measured.json
  nearside lab order measured.json
  nearside lab order measured.json --objective response --at-once 2")]
pub struct Arguments {
    /// What `nearside lab interference --json` wrote
    #[arg(value_name = "FILE")]
    measured: PathBuf,
    /// What is wanted
    #[arg(long, value_enum, default_value_t = Goal::Makespan)]
    objective: Goal,
    /// Queries at a time, at most
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// The last query ends early
    Makespan,
    /// Queries end early, on average
    Response,
    /// The set, repeated, completes many queries per second
    Throughput,
}

/// A measured machine and its queries by name.
#[derive(Debug)]
struct MeasuredMachine {
    machine: Machine,
    names: Vec<String>,
    items: Vec<Item>,
}

/// What is read of a query's report.
#[derive(Deserialize)]
struct Query {
    name: String,
    extended: FittedQuery,
}

#[derive(Deserialize)]
struct FittedQuery {
    job: Job,
}

/// Plans and prints.
///
/// # Errors
/// The file cannot be read, is not of `lab interference`, or holds figures that no model reckons with.
pub fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<(), Failure> {
    let measured = read(&arguments.measured)?;
    let objective = match arguments.objective {
        Goal::Makespan => Objective::Makespan,
        Goal::Response => Objective::Response,
        Goal::Throughput => Objective::Throughput,
    };
    let search = Search { at_once_max: usize::from(arguments.at_once), ..Search::default() };
    let failure = |error: model::order::OrderError| Failure::new(error.to_string());
    let best = plan(&measured.machine, &measured.items, objective, search).map_err(failure)?;
    let listed = first_come(&measured.machine, &measured.items, objective, 1, search.sharing).map_err(failure)?;
    write(out, &measured, &best, &listed)
}

fn read(path: &Path) -> Result<MeasuredMachine, Failure> {
    let wrong = |reason: String| {
        Failure::new(format!(
            "{}: {reason}; give a file that 'nearside lab interference --json FILE' wrote",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(format!("is not JSON ({error})")))?;
    measured(&value).map_err(wrong)
}

fn measured(value: &Value) -> Result<MeasuredMachine, String> {
    let machine: Machine = part(value, "/input/machine")?;
    // Fits may have found that cpus share cores.
    let cores: f64 = part(value, "/report/cores")?;
    let queries: Vec<Query> = part(value, "/report/queries")?;
    if queries.is_empty() {
        return Err("holds no query".to_string());
    }
    let names = queries.iter().map(|query| query.name.clone()).collect();
    let items = queries.into_iter().map(|query| Item { job: query.extended.job, arrives_s: 0.0 }).collect();
    Ok(MeasuredMachine { machine: Machine { cores, ..machine }, names, items })
}

fn part<T: DeserializeOwned>(value: &Value, place: &str) -> Result<T, String> {
    let found = value.pointer(place).ok_or_else(|| format!("has no {place}"))?;
    T::deserialize(found).map_err(|error| format!("{place} is not what it should be ({error})"))
}

fn write(
    out: &mut dyn Write,
    measured: &MeasuredMachine,
    best: &ScoredPlan,
    listed: &ScoredPlan,
) -> Result<(), Failure> {
    let order: Vec<&str> = best.plan.order.iter().map(|&index| measured.names[index].as_str()).collect();
    writeln!(out, "{} at a time, in this order: {}", best.plan.at_once, order.join(" "))?;
    writeln!(out, "\n{:<22} {:>12} {:>12}", "predicted", "makespan ms", "response ms")?;
    for (name, planned) in [("planned", best), ("one by one, as listed", listed)] {
        let outcome = &planned.outcome;
        writeln!(out, "{name:<22} {:>12.1} {:>12.1}", outcome.makespan_s * 1e3, outcome.response_s * 1e3)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::curve::{Curve, Interpolation, Outside};
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        let curve = Curve::of_threads(&[1.0, 1.5, 1.8, 2.0], Interpolation::Linear, Outside::Hold).unwrap();
        let machine = Machine::simple(curve, 4.0);
        let query =
            |name: &str, t_s: f64, q: f64| json!({"name": name, "extended": {"job": Job { t_s, q, ..Job::default() }}});
        json!({
            "input": {"machine": machine},
            "report": {"cores": 4.0, "queries": [query("1", 8.0, 0.9), query("6", 1.0, 0.1), query("9", 2.0, 0.5)]},
        })
    }

    #[test]
    fn a_plan_is_no_worse_than_the_list() {
        let measured = measured(&sample()).unwrap();
        for objective in [Objective::Makespan, Objective::Response, Objective::Throughput] {
            let search = Search { at_once_max: 2, ..Search::default() };
            let best = plan(&measured.machine, &measured.items, objective, search).unwrap();
            let listed = first_come(&measured.machine, &measured.items, objective, 1, search.sharing).unwrap();
            assert!(best.score <= listed.score * (1.0 + 1e-9), "{objective:?}");
            let mut text = Vec::new();
            write(&mut text, &measured, &best, &listed).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("at a time") && text.contains("one by one, as listed"), "{text}");
        }
        // Short ones first end early on average.
        let best = plan(
            &measured.machine,
            &measured.items,
            Objective::Response,
            Search { at_once_max: 1, ..Search::default() },
        );
        assert_eq!(best.unwrap().plan.order, [1, 2, 0]);
    }

    #[test]
    fn what_is_not_of_interference_is_refused() {
        assert!(measured(&json!({})).unwrap_err().contains("has no /input/machine"));
        let mut none = sample();
        none["report"]["queries"] = json!([]);
        assert_eq!(measured(&none).unwrap_err(), "holds no query");
        let mut wrong = sample();
        wrong["report"]["queries"][0]["extended"] = json!({"job": 3});
        assert!(measured(&wrong).unwrap_err().contains("/report/queries is not what it should be"));
    }
}
