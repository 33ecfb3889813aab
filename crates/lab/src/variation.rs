//! Whether the reason that is given for a miss is one: what it names is varied, and the claim is judged again.
//!
//! Variations are data (`data/variations.toml`), a list per claim. A step changes constants of the simulator (by a
//! factor), settings of the points (to a value) or their virtual `seconds`; the claim is judged with each step. What
//! was concluded stands beside it, so whoever runs it again can disagree.
//!
//! Invariants: a variation never changes what `lab claims` says: steps are run besides it, with constants of their own;
//! a step names constants and settings that there are.
//!
//! # Limits
//! That a claim holds with a step says that its cause is enough, not that it was the paper's.

use serde::{Deserialize, Serialize};
use sim::Constants;
use toml::Table;

use crate::claims::{Changes, ClaimSelection, ClaimsError, Engines, Verdict, claims, evaluate};
use crate::engine::{ModelEngine, SimEngine};
use crate::result::{as_json, shown};
use crate::run::RunContext;

/// The variations, as text.
const VARIATIONS: &str = include_str!("../data/variations.toml");
/// The key of a step that is the length of a run.
const SECONDS: &str = "seconds";

/// What varying says of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// With it varied the claim comes out, or without it no more: the cause is enough, which does not make it the
    /// paper's.
    Sufficient,
    /// It moves as the reason says, but not far enough at any value that could be so.
    Partly,
    /// It does not move so.
    Refuted,
}

impl Finding {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Finding::Sufficient => "sufficient",
            Finding::Partly => "partly",
            Finding::Refuted => "refuted",
        }
    }
}

/// A reason and what is varied to test it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// The claim.
    pub claim: String,
    /// What is thought to be the reason.
    pub reason: String,
    /// What is changed, one after the other.
    pub steps: Vec<Table>,
    /// What came of it.
    pub finding: Finding,
    /// The same in words.
    pub found: String,
}

/// A claim judged with a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariationStep {
    /// What was changed: a factor of constants, a value of settings.
    pub changed: String,
    /// What was obtained.
    pub obtained: String,
    /// What the claim would then be.
    pub verdict: Verdict,
    /// What is missed, without the reason that the rules give.
    pub missed: String,
}

/// A variation that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariationResult {
    /// The reason and what was concluded.
    pub variation: Variation,
    /// What was obtained as things are, then with each step.
    pub steps: Vec<VariationStep>,
}

impl VariationResult {
    /// Whether what the list calls sufficient is: it misses as things are and a step makes it hold, or it holds and
    /// misses with a step that takes the cause away.
    pub fn is_borne_out(&self) -> bool {
        let holds = |step: &VariationStep| matches!(step.verdict, Verdict::Holds | Verdict::Fitted);
        let as_it_is = self.steps.first().is_some_and(holds);
        self.variation.finding != Finding::Sufficient || self.steps.iter().any(|step| holds(step) != as_it_is)
    }
}

/// All variations.
///
/// # Errors
/// The text in the program is wrong: a test sees to it that it is not.
pub fn variations() -> Result<Vec<Variation>, String> {
    parse(VARIATIONS)
}

fn parse(text: &str) -> Result<Vec<Variation>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        variation: Vec<Variation>,
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for variation in &file.variation {
        for step in &variation.steps {
            change(step).map_err(|error| format!("{}: {error}", variation.claim))?;
        }
    }
    Ok(file.variation)
}

/// Runs the variations of some claims (of all where `only` is empty).
///
/// # Errors
/// [`ClaimsError`]: a claim that there is not, a step that cannot be set, `stop`.
pub fn vary(only: &[String], context: RunContext<'_>) -> Result<Vec<VariationResult>, ClaimsError> {
    let all = variations().map_err(ClaimsError::List)?;
    if let Some(unknown) = only.iter().find(|id| !all.iter().any(|variation| variation.claim == **id)) {
        let mut known: Vec<&str> = all.iter().map(|variation| variation.claim.as_str()).collect();
        known.dedup();
        let known = known.join(", ");
        return Err(if claims().map_err(ClaimsError::List)?.iter().any(|row| row.id == *unknown) {
            ClaimsError::NotVaried { claim: unknown.clone(), known }
        } else {
            ClaimsError::Unknown(unknown.clone())
        });
    }
    let wanted = all.into_iter().filter(|variation| only.is_empty() || only.contains(&variation.claim));
    wanted
        .map(|variation| {
            let as_it_is = [Table::new()];
            let steps = as_it_is.iter().chain(&variation.steps);
            let steps = steps.map(|step| judged(&variation.claim, step, context));
            Ok(VariationResult { steps: steps.collect::<Result<_, ClaimsError>>()?, variation: variation.clone() })
        })
        .collect()
}

fn judged(claim: &str, step: &Table, context: RunContext<'_>) -> Result<VariationStep, ClaimsError> {
    let (constants, changes) = change(step).map_err(ClaimsError::List)?;
    let simulated = SimEngine::new(constants);
    let engines = Engines { simulated: &simulated, modelled: &ModelEngine };
    let only = [claim.to_string()];
    let wanted = ClaimSelection { full: false, only: &only, changes: Some(&changes) };
    let found = evaluate(engines, &wanted, context)?;
    let result = &found.claims[0];
    Ok(VariationStep {
        changed: told(step),
        obtained: result.obtained.clone(),
        verdict: result.verdict,
        missed: result.missed.clone(),
    })
}

/// The constants and the changed points of a step.
fn change(step: &Table) -> Result<(Constants, Changes), String> {
    let mut constants = Constants::default();
    let mut changes = Changes::default();
    for (key, value) in step {
        let told = told(step);
        let number = value.as_float().or(value.as_integer().map(|number| number as f64));
        if constants.get(key).is_some() {
            let scaled = number.and_then(|factor| constants.scaled(key, factor));
            constants = scaled.ok_or_else(|| format!("{told}: {key} needs a factor above 0"))?;
        } else if key == SECONDS {
            let seconds = number.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
            changes.seconds = Some(seconds.ok_or_else(|| format!("{told}: {key} must be above 0"))?);
        } else {
            changes.set.insert(key.clone(), value.clone());
        }
    }
    Ok((constants, changes))
}

fn told(step: &Table) -> String {
    let one = |(key, value): (&String, &serde_json::Value)| match Constants::default().get(key) {
        Some(_) => format!("{key} x {}", shown(value)),
        None => format!("{key} = {}", shown(value)),
    };
    let all: Vec<String> = as_json(step).iter().map(one).collect();
    if all.is_empty() { "as it is".to_string() } else { all.join(", ") }
}

#[cfg(test)]
mod tests;
