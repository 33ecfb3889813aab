//! Which conclusions depend on a constant that no paper gives: each is changed by 20% up and down, one at a time, and
//! all claims are judged again.
//!
//! A point whose simulation did not read the constant is not simulated again: records say what was read
//! ([`crate::result::Outcome::constants`]), and the simulator notes each read where it happens
//! ([`sim::Constants::read`]).
//!
//! Invariant: nothing but the one constant differs between two evaluations that are compared: same points, same seed,
//! same lengths. What is reused equals what would be simulated anew; a test simulates it anew.

use std::collections::BTreeMap;

use numa::Topology;
use serde::{Deserialize, Serialize};
use sim::Constants;

use crate::claims::{ClaimResult, ClaimSelection, ClaimsError, Engines, Evaluation, Verdict, evaluate_with_records};
use crate::declaration::Point;
use crate::engine::{Conditions, Engine, ModelEngine, RunError, SimEngine};
use crate::result::{Key, Outcome, ResultKind, as_json, key};
use crate::run::{JobResult, Options, RunContext};

/// By how much a constant is changed.
const SHARE: f64 = 0.2;

/// A claim whose verdict is another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictChange {
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
    pub moved: Vec<VerdictChange>,
    /// Claims some point of which read the constant: no other one can move.
    #[serde(default)]
    pub touched: Vec<String>,
    /// Points that were simulated with the constant as it is and did not read it, so that they hold for this row too.
    #[serde(default)]
    pub kept: usize,
    /// Points that are simulated for the claims.
    #[serde(default)]
    pub points: usize,
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
    wanted: &ClaimSelection<'_>,
    context: RunContext<'_>,
) -> Result<Sensitivity, ClaimsError> {
    let base = Constants::default();
    if let Some(unknown) = names.iter().find(|name| base.get(name).is_none()) {
        let known = Constants::NAMES.join(", ");
        return Err(ClaimsError::List(format!("the simulator has no constant '{unknown}'; it has {known}")));
    }
    let judged = |simulated: &dyn Engine| {
        let engines = Engines { simulated, modelled: &ModelEngine };
        evaluate_with_records(engines, wanted, context)
    };
    let (unchanged, records) = judged(&SimEngine::new(base.clone()))?;
    let known = simulated(&records);
    let mut rows = Vec::new();
    for name in Constants::NAMES.iter().filter(|name| names.is_empty() || names.iter().any(|n| n == *name)) {
        for factor in [1.0 - SHARE, 1.0 + SHARE] {
            let Some(constants) = base.scaled(name, factor) else { continue };
            let value = constants.get(name).unwrap_or_default();
            let engine = VariedEngine { engine: SimEngine::new(constants), constant: name, known: &known };
            let (changed, _) = judged(&engine)?;
            let kept = known.values().filter(|outcome| !reads(outcome, name)).count();
            let moved = moved(&unchanged, &changed);
            let touches = |result: &&ClaimResult| result.constants.iter().any(|read| read == name);
            let touched = unchanged.claims.iter().filter(touches).map(|result| result.claim.id.clone()).collect();
            let points = known.len();
            rows.push(Row { constant: name.to_string(), factor, value, moved, touched, kept, points });
        }
    }
    let Options { revision, seed, .. } = context.options.clone();
    Ok(Sensitivity { revision, seed, share: SHARE, rows })
}

/// The simulator with one constant changed, and what it gave before that.
struct VariedEngine<'a> {
    engine: SimEngine,
    constant: &'a str,
    known: &'a BTreeMap<Key, Outcome>,
}

impl VariedEngine<'_> {
    fn before(&self, point: &Point, conditions: Conditions<'_>) -> Option<&Outcome> {
        self.known.get(&key("", &as_json(&point.named), conditions.seed, conditions.seconds))
    }
}

impl Engine for VariedEngine<'_> {
    fn kind(&self) -> ResultKind {
        self.engine.kind()
    }

    fn machine(&self, point: &Point) -> Result<(String, Topology), RunError> {
        self.engine.machine(point)
    }

    fn constants(&self) -> BTreeMap<String, f64> {
        self.engine.constants()
    }

    /// What it went through before is a better guess than the engine's.
    fn cost(&self, point: &Point, conditions: Conditions<'_>) -> f64 {
        match self.before(point, conditions) {
            Some(outcome) if !reads(outcome, self.constant) => 0.0,
            Some(outcome) => outcome.events as f64,
            None => self.engine.cost(point, conditions),
        }
    }

    fn run(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        match self.before(point, conditions) {
            Some(outcome) if !reads(outcome, self.constant) => Ok(outcome.clone()),
            _ => self.engine.run(point, conditions),
        }
    }
}

/// Whether it depends on a constant, as far as is known: a record that does not tell what was read may depend on all.
fn reads(outcome: &Outcome, constant: &str) -> bool {
    outcome.constants.is_empty() || outcome.constants.iter().any(|read| read == constant)
}

/// What was simulated, by settings, seed and length: what an experiment is called makes no difference.
fn simulated(records: &[JobResult]) -> BTreeMap<Key, Outcome> {
    let records = records.iter().filter_map(|result| result.as_ref().ok());
    let of = |kind: ResultKind| records.filter(move |record| record.kind == kind);
    of(ResultKind::Simulated)
        .map(|record| (key("", &record.settings, record.seed, record.seconds), record.outcome.clone()))
        .collect()
}

/// The claims whose verdicts differ.
fn moved(before: &Evaluation, after: &Evaluation) -> Vec<VerdictChange> {
    let pairs = before.claims.iter().zip(&after.claims);
    pairs
        .filter(|(before, after)| before.verdict != after.verdict)
        .map(|(before, after)| VerdictChange {
            claim: after.claim.id.clone(),
            from: before.verdict,
            to: after.verdict,
            obtained: after.obtained.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::claims::claims;
    use crate::declaration::Experiment;

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
            missed: String::new(),
            judged: String::new(),
            values: Vec::new(),
            constants: Vec::new(),
            assumed: Vec::new(),
            by_seed: Vec::new(),
        };
        let of = |verdicts: &[Verdict]| Evaluation {
            revision: String::new(),
            seed: 1,
            seeds: vec![1],
            full: false,
            constants: Default::default(),
            claims: verdicts.iter().map(|verdict| result(*verdict)).collect(),
        };
        let found = moved(&of(&[Verdict::Holds, Verdict::Misses]), &of(&[Verdict::Misses, Verdict::Misses]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from, found[0].to, found[0].claim.as_str()), (Verdict::Holds, Verdict::Misses, "V1"));
        assert!(moved(&of(&[Verdict::Holds]), &of(&[Verdict::Holds])).is_empty());
    }

    /// A small point of every experiment that can be simulated, and one more of each kind that takes another way.
    fn points() -> Vec<Point> {
        let all = Experiment::all().into_iter().filter(|experiment| experiment.runs_as(ResultKind::Simulated));
        let small = ["clients=4", "connections=4", "keys=1000000", "rows=1000000", "range_pred=1000", "nodes=2"];
        let ways = ["index=true", "selectivity=0.1", "design=units"];
        let of = |experiment: Experiment| {
            let known = |texts: &[&str]| -> Vec<String> {
                let known = |text: &&&str| experiment.read_settings(&[text.to_string()]).is_ok();
                texts.iter().filter(known).map(|text| text.to_string()).collect()
            };
            let set = |texts: Vec<String>| experiment.point_with(&experiment.read_settings(&texts).expect("known"));
            let usual = known(&small);
            let more = known(&ways).into_iter().map(|way| [usual.clone(), vec![way]].concat());
            std::iter::once(usual.clone()).chain(more).filter_map(|texts| set(texts).ok()).collect::<Vec<_>>()
        };
        all.flat_map(of).collect()
    }

    #[test]
    fn what_is_kept_is_what_would_be_simulated_anew() {
        let stop = AtomicBool::new(false);
        let conditions = Conditions { seed: 3, seconds: 0.002, stop: &stop };
        let base = SimEngine::default();
        let mut known = BTreeMap::new();
        let mut found = Vec::new();
        for point in points() {
            if let Ok(outcome) = base.run(&point, conditions) {
                let key = key("", &as_json(&point.named), conditions.seed, conditions.seconds);
                known.insert(key, outcome);
                found.push(point);
            }
        }
        assert!(found.len() > 40, "{}", found.len());
        let mut kept = 0;
        let mut moved = 0;
        for name in Constants::NAMES {
            let constants = Constants::default().scaled(name, 1.0 + SHARE).expect("listed");
            let anew = SimEngine::new(constants.clone());
            let varied = VariedEngine { engine: SimEngine::new(constants), constant: name, known: &known };
            for point in &found {
                let before = varied.before(point, conditions).expect("run above");
                // What reads the constant is simulated by either.
                if reads(before, name) {
                    moved += 1;
                    continue;
                }
                let kept_one = varied.run(point, conditions);
                let anew_one = anew.run(point, conditions);
                assert_eq!(kept_one, anew_one, "{name}: {:?}", point.named);
                assert_eq!(varied.cost(point, conditions), 0.0);
                kept += 1;
            }
        }
        assert!(kept > 200 && moved > 200, "{kept} kept, {moved} to be simulated");
    }

    /// The list of what was read must not be empty by mistake, and a record of an older program that has none is not
    /// trusted.
    #[test]
    fn what_a_record_does_not_tell_is_simulated_again() {
        let told = Outcome { constants: vec!["task_ns".to_string()], ..Outcome::default() };
        assert!(reads(&told, "task_ns") && !reads(&told, "llc_ns"));
        assert!(reads(&Outcome::default(), "llc_ns"));
    }
}
