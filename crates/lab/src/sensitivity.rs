//! Which conclusions depend on a constant that no paper gives: each is changed by 20% up and down, one at a time, and all
//! claims are judged again.
//!
//! Invariant: nothing but the one constant differs between two evaluations that are compared: same points, same seed, same
//! lengths.

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use sim::Constants;

use crate::claims::{ClaimsError, Engines, Evaluation, Verdict, Wanted, evaluate};
use crate::engine::{ModelEngine, SimEngine};
use crate::result::Store;
use crate::run::{Options, Progress};

/// By how much a constant is changed.
pub const SHARE: f64 = 0.2;

/// A claim whose verdict is another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// The claim.
    pub claim: String,
    /// Its verdict with all constants as they are.
    pub from: Verdict,
    /// Its verdict with this one changed.
    pub to: Verdict,
    /// What was then obtained.
    pub obtained: String,
}

/// One constant, changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub constant: String,
    /// What it was multiplied by.
    pub factor: f64,
    /// What it then was.
    pub value: f64,
    /// Claims whose verdict moved.
    pub moved: Vec<Moved>,
}

/// All constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The revision of Nearside.
    pub revision: String,
    /// What decided all that is random.
    pub seed: u64,
    /// By how much each was changed.
    pub share: f64,
    /// Two rows per constant: down, up.
    pub rows: Vec<Row>,
}

/// Changes each constant in turn; `names` empty for all of them.
///
/// # Errors
/// [`ClaimsError`]; a name that is no constant is one.
pub fn sensitivity(
    names: &[String],
    wanted: &Wanted<'_>,
    options: &Options,
    store: Option<&Store>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
    stop: &AtomicBool,
) -> Result<Sensitivity, ClaimsError> {
    let base = Constants::default();
    let judged = |constants: Constants| -> Result<Evaluation, ClaimsError> {
        let (simulated, modelled) = (SimEngine::new(constants), ModelEngine);
        evaluate(Engines { simulated: &simulated, modelled: &modelled }, wanted, options, store, progress, stop)
    };
    if let Some(unknown) = names.iter().find(|name| base.get(name).is_none()) {
        let known = Constants::NAMES.join(", ");
        return Err(ClaimsError::List(format!("the simulator has no constant '{unknown}'; it has {known}")));
    }
    let unchanged = judged(base.clone())?;
    let mut rows = Vec::new();
    for name in Constants::NAMES.iter().filter(|name| names.is_empty() || names.iter().any(|n| n == *name)) {
        for factor in [1.0 - SHARE, 1.0 + SHARE] {
            let Some(constants) = base.scaled(name, factor) else { continue };
            let value = constants.get(name).unwrap_or_default();
            let changed = judged(constants)?;
            rows.push(Row { constant: name.to_string(), factor, value, moved: moved(&unchanged, &changed) });
        }
    }
    Ok(Sensitivity { revision: options.revision.clone(), seed: options.seed, share: SHARE, rows })
}

/// The claims whose verdicts differ.
fn moved(before: &Evaluation, after: &Evaluation) -> Vec<Moved> {
    let pairs = before.claims.iter().zip(&after.claims);
    pairs
        .filter(|(before, after)| before.verdict != after.verdict)
        .map(|(before, after)| Moved {
            claim: after.claim.id.clone(),
            from: before.verdict,
            to: after.verdict,
            obtained: after.obtained.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{ClaimResult, claims};

    #[test]
    fn only_verdicts_that_differ_are_told() {
        let result = |verdict| ClaimResult {
            claim: claims().expect("the list is right")[0].clone(),
            experiment: String::new(),
            kind: None,
            obtained: "4.4".to_string(),
            error: None,
            verdict,
            reason: String::new(),
            judged: String::new(),
        };
        let of = |verdicts: &[Verdict]| Evaluation {
            revision: String::new(),
            seed: 1,
            full: false,
            constants: Default::default(),
            claims: verdicts.iter().map(|verdict| result(*verdict)).collect(),
        };
        let found = moved(&of(&[Verdict::Holds, Verdict::Misses]), &of(&[Verdict::Misses, Verdict::Misses]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from, found[0].to, found[0].claim.as_str()), (Verdict::Holds, Verdict::Misses, "V1"));
        assert!(moved(&of(&[Verdict::Holds]), &of(&[Verdict::Holds])).is_empty());
    }
}
