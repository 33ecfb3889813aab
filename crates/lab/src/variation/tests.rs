use std::sync::atomic::AtomicBool;

use super::*;
use crate::claims::{Rule, rules};
use crate::run::Options;

#[test]
fn variations_are_of_claims_and_their_steps_can_be_set() {
    let all = variations().expect("the list is right");
    let rows = claims().expect("the list is right");
    let rules = rules().expect("the rules are right");
    for variation in &all {
        assert!(rows.iter().any(|row| row.id == variation.claim), "{}", variation.claim);
        assert!(!variation.steps.is_empty() && !variation.found.is_empty(), "{}", variation.claim);
        let rule = &rules[&variation.claim];
        assert!(
            !matches!(rule.rule, Rule::NotYet { .. } | Rule::Input { .. } | Rule::Table { .. }),
            "{}",
            variation.claim
        );
        for step in &variation.steps {
            let (_, changes) = change(step).expect("parse has checked it");
            crate::claims::can_be_prepared(&variation.claim, &changes).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn a_step_that_makes_no_sense_is_refused() {
    let of = |step: &str| {
        parse(&format!(
            "[[variation]]\nclaim = \"V1\"\nreason = \"r\"\nsteps = [{{ {step} }}]\nfinding = \"refuted\"\nfound \
             = \"f\""
        ))
    };
    assert_eq!(of("task_ns = 10").expect("sound").len(), 1);
    assert!(of("task_ns = \"10\"").expect_err("a word").contains("needs a factor above 0"));
    assert!(of("task_ns = 0").expect_err("no factor").contains("needs a factor above 0"));
    assert!(of("seconds = -1").expect_err("no time").contains("must be above 0"));
}

#[test]
fn a_step_changes_what_it_names_and_nothing_else() {
    let step: Table = toml::from_str("task_ns = 10\nseconds = 2\nclients = 8").expect("toml");
    let (constants, changes) = change(&step).expect("sound");
    assert_eq!(constants, Constants::default().scaled("task_ns", 10.0).expect("listed"));
    assert_eq!((changes.seconds, changes.set.len()), (Some(2.0), 1));
    assert_eq!(told(&step), "clients = 8, seconds = 2, task_ns x 10");
    assert_eq!(told(&Table::new()), "as it is");
}

#[test]
fn what_is_varied_is_judged_as_it_is_and_with_each_step() {
    let options = Options { seed: 1, threads: 1, revision: "test".into() };
    let stop = AtomicBool::new(false);
    let context = RunContext { options: &options, store: None, progress: &|_| {}, stop: &stop };
    let judge = |step: &str| {
        let step: Table = toml::from_str(step).expect("toml");
        judged("N4", &step, context).expect("judged")
    };
    let usual = judge("");
    let less = judge("remote_under_load = 0.5");
    assert_eq!(usual.changed, "as it is");
    assert_ne!(usual.obtained, less.obtained, "striped memory is remote memory");
    let refused = |claim: &str| vary(&[claim.to_string()], context).expect_err("nothing").to_string();
    assert!(refused("V0").contains("there is no claim 'V0'"), "{}", refused("V0"));
    assert!(refused("V1").contains("nothing is varied for 'V1'; there are variations of V3, V6, V9, V10, V11, V13"));
}

#[test]
fn sufficient_is_only_what_makes_a_verdict_move() {
    let borne_out = |finding, verdicts: &[Verdict]| {
        let step = |verdict: &Verdict| VariationStep {
            changed: String::new(),
            obtained: String::new(),
            verdict: *verdict,
            missed: String::new(),
        };
        let variation =
            Variation { claim: "V1".into(), reason: String::new(), steps: Vec::new(), finding, found: String::new() };
        VariationResult { variation, steps: verdicts.iter().map(step).collect() }.is_borne_out()
    };
    use Verdict::{Holds, Misses};
    assert!(borne_out(Finding::Sufficient, &[Misses, Misses, Holds]));
    assert!(!borne_out(Finding::Sufficient, &[Misses, Misses, Misses]));
    assert!(!borne_out(Finding::Sufficient, &[Holds, Holds]));
    assert!(borne_out(Finding::Sufficient, &[Holds, Misses]), "without it, it misses");
    assert!(!borne_out(Finding::Sufficient, &[Verdict::Fitted, Holds]));
    assert!(borne_out(Finding::Partly, &[Misses, Misses]));
}

#[test]
fn the_design_page_says_what_the_list_says() {
    let page = include_str!("../../../../docs/design/lab.md");
    for variation in variations().expect("the list is right") {
        let row = format!("{}: {} |", variation.finding.word(), variation.found);
        assert!(page.contains(&row), "{} {}", variation.claim, variation.reason);
    }
}
