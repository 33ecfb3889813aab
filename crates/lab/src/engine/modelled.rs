//! What the bandwidth-sharing model computes: points by formula, and its published table.
//!
//! Source: Seidel 2011, chapter 5; `model::thesis` holds the tables.

use model::curve::{Curve, Interpolation, Outside};
use model::fit::{Residuals, Trial};
use model::pair::rho_model;
use model::plain::PlainJob;
use model::thesis::System;
use numa::{MachineDescription, Topology};

use super::{Conditions, Engine, RunError};
use crate::declaration::{CurveJoin, ModelPoint, ModelQuantity, Point, Workload};
use crate::result::{Metric, Outcome, ResultKind};

/// The model as an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelEngine;

impl Engine for ModelEngine {
    fn kind(&self) -> ResultKind {
        ResultKind::Modelled
    }

    fn machine(&self, point: &Point) -> Result<(String, Topology), RunError> {
        let name = &point.settings.machine.machine;
        let described = MachineDescription::parse(name).map_err(|e| RunError::Refused(e.to_string()))?;
        Ok((name.clone(), described.topology))
    }

    fn run(&self, point: &Point, _: Conditions<'_>) -> Result<Outcome, RunError> {
        match &point.settings.workload {
            Workload::Modelled(settings) => compute(system_of(&point.settings.machine.machine)?, settings),
            _ => {
                Err(RunError::Refused("the model computes workloads of kind \"model\" only; simulate this one".into()))
            }
        }
    }
}

fn system_of(machine: &str) -> Result<System, RunError> {
    match machine {
        "nbb-xeon-4" => Ok(System::Xeon),
        "nbb-opteron-8" => Ok(System::Opteron),
        other => Err(RunError::Refused(format!(
            "the thesis has bandwidths by threads of nbb-xeon-4 and nbb-opteron-8, not of '{other}'"
        ))),
    }
}

fn compute(system: System, m: &ModelPoint) -> Result<Outcome, RunError> {
    let curve = curve_of(system, m.interpolation)?;
    let job = if m.query == 0 { PlainJob { q: m.q, t_s: m.t } } else { fitted(system, m.query)? };
    let outcome = Outcome::default();
    match m.what {
        ModelQuantity::Bandwidth => Ok(outcome.with(Metric::Bandwidth, curve.bandwidth(m.k))),
        ModelQuantity::Time => Ok(outcome.with(Metric::RunTime, job.time_s(&curve, m.p, m.k))),
        ModelQuantity::Beside => {
            let other = beside(system, m)?;
            let left = system.cores() - m.p;
            if left <= 0.0 {
                let cores = system.cores();
                return Err(RunError::Refused(format!("p = {}: of {cores} cpus per node some must be left", m.p)));
            }
            Ok(outcome.with(Metric::RunTime, job.time_s(&curve, m.p, other * left)))
        }
        ModelQuantity::Pair => {
            let half = m.p / 2.0;
            Ok(outcome.with(Metric::Gain, rho_model(&curve, (job.q, half), (beside(system, m)?, half))))
        }
        ModelQuantity::Fit => {
            let found = fit_again(&curve, system, job)?;
            Ok(outcome.with(Metric::MemoryShare, found.q).with(Metric::RunTime, found.t_s))
        }
    }
}

/// The demand of one cpu of the job beside.
fn beside(system: System, m: &ModelPoint) -> Result<f64, RunError> {
    if m.beside == 0 { Ok(m.q_beside) } else { fitted(system, m.beside).map(|job| job.q) }
}

fn curve_of(system: System, joined: CurveJoin) -> Result<Curve, RunError> {
    let curve = match joined {
        CurveJoin::Spline => system.curve(),
        CurveJoin::Lines => Curve::of_threads(&system.local_gib_s(), Interpolation::Linear, Outside::Hold),
    };
    curve.map_err(|error| RunError::Failed(error.to_string()))
}

fn fitted(system: System, query: u32) -> Result<PlainJob, RunError> {
    let queries = system.queries();
    queries.iter().find(|known| known.query == query).map(|known| known.job).ok_or_else(|| {
        let known: Vec<String> = queries.iter().map(|known| known.query.to_string()).collect();
        RunError::Refused(format!("Table 5.1 has no query {query} on this machine; it has {}", known.join(", ")))
    })
}

/// Run times of the job on 1, 2, .. cpus beside 0, 1, .. hogs, and what a fit finds in them: a check of the fit, since
/// the thesis prints no run times.
fn fit_again(curve: &Curve, system: System, job: PlainJob) -> Result<PlainJob, RunError> {
    let cores = system.cores() as u32;
    let mut runs = Vec::new();
    for cpus in 1..=cores {
        for hogs in 0..=(cores - cpus) {
            let cpus = f64::from(cpus);
            let hogs = f64::from(hogs);
            let time_s = job.time_s(curve, cpus, hogs);
            runs.push(Trial {
                cpus,
                memory_hogs: hogs,
                computing_hogs: 0.0,
                time_s,
                traffic_unit_s: None,
                hogs_got: None,
            });
        }
    }
    let found = model::fit::fit_plain(curve, &runs, Residuals::Seconds);
    found.map(|found| found.job).map_err(|error| RunError::Failed(error.to_string()))
}
