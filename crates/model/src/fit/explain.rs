//! Why a fitted `q` is negative, in place of clamping it.
//!
//! A share of waiting cannot be negative; the plain fit gives it nonetheless, for six of fourteen queries on the
//! thesis' Opteron. It says that the job gains *less* from cpus, or suffers less from company, than the plain model
//! allows: hogs stand where cpus are missing, so runs on many cpus have few hogs. If speed-up is lost (sequential
//! parts, overhead, siblings), those runs are slow, `t` rises to meet them, and runs on few cpus beside many hogs look
//! too fast, which only a negative `q` can give. The
//! thesis' spline adds a little: `h` is steeper than 1 near 0, so a negative demand slows runs down, and the more so
//! the more cpus they have. Of `q = -24%`, Opteron query 1, the model makes 1.10 to 1.15 times the time alone on one to
//! six cpus by this second way, and 0.53 times beside five hogs by the first.
//!
//! [`explain`] takes each extra of the fitted extended job out of the measured times and fits the plain model again:
//! what `q` becomes then is what that extra has to do with it.
//!
//! Source: Seidel 2011, section 5.3 (negative q, "beyond the scope").

use serde::{Deserialize, Serialize};

use super::extended::predict_s;
use super::{FitError, JobFit, Parameter, PlainFit, Residuals, Trial, fit_plain};
use crate::machine::Machine;

/// What a fitted `q` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// It is no negative figure: nothing to explain.
    Share,
    /// Without this extra it is no longer negative.
    Extra(Parameter),
    /// Only all extras together make it so.
    Extras,
    /// Within two standard errors of 0: the job does not depend on bandwidth, as far as these runs tell.
    Noise,
    /// Something that the extended model does not know either.
    Unknown,
}

/// A plain job's `q`, explained by the extended job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The plain fit's.
    pub q: f64,
    /// What it stands for.
    pub cause: Cause,
    /// For each extra that the job has: the plain `q` that would have been found without it.
    pub without: Vec<(Parameter, f64)>,
    /// The same without all of them; none where the job has no extras.
    pub without_all: Option<f64>,
}

/// Explains the plain fit of `runs` by the extended one.
pub fn explain(
    machine: &Machine,
    runs: &[Trial],
    plain: &PlainFit,
    extended: &JobFit,
    residuals: Residuals,
) -> Result<Explanation, FitError> {
    let job = &extended.job;
    let refit = |extras: &[Parameter]| -> Result<f64, FitError> {
        let bare = extras.iter().fold(job.clone(), |job, extra| extra.removed_from(&job));
        let ratio = |run: &Trial| predict_s(machine, &bare, run) / predict_s(machine, job, run);
        let cleaned: Vec<Trial> = runs.iter().map(|run| Trial { time_s: run.time_s * ratio(run), ..*run }).collect();
        Ok(fit_plain(&machine.local, &cleaned, residuals)?.job.q)
    };
    let has = |extra: &Parameter| extra.removed_from(job) != *job;
    let extras: Vec<Parameter> = Parameter::EXTRAS.into_iter().filter(has).collect();
    let mut without = Vec::with_capacity(extras.len());
    for &extra in &extras {
        without.push((extra, refit(&[extra])?));
    }
    let without_all = if extras.is_empty() { None } else { Some(refit(&extras)?) };
    let q = plain.job.q;
    // What lies below 0 by less than it can be known does not lie below it.
    let slack = 2.0 * plain.q_error.unwrap_or(0.0);
    let strongest = without.iter().max_by(|a, b| a.1.total_cmp(&b.1)).copied();
    let cause = match (strongest, without_all) {
        _ if q >= 0.0 => Cause::Share,
        (Some((extra, q)), _) if q >= 0.0 => Cause::Extra(extra),
        (_, Some(q)) if q >= 0.0 => Cause::Extras,
        _ if q >= -slack => Cause::Noise,
        _ => Cause::Unknown,
    };
    Ok(Explanation { q, cause, without, without_all })
}
