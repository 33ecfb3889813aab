use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::expression::{Comparison, Expression};
use super::judge::judge;
use super::rules::parse;
use super::*;
use crate::declaration::Point;
use crate::engine::{Conditions, ModelEngine, SimEngine};
use crate::result::Outcome;

fn expression(text: &str) -> Result<Expression, String> {
    Expression::try_from(text.to_string())
}

/// Points a, b with a throughput each; c has none.
fn figures(name: &str, metric: Metric) -> Option<f64> {
    match (name, metric) {
        ("a", Metric::Throughput) => Some(4.4),
        ("b", Metric::Throughput) => Some(1.0),
        ("zero", _) => Some(0.0),
        _ => None,
    }
}

#[test]
fn every_row_has_a_rule_and_every_rule_a_row() {
    let rows = claims().expect("the list is right");
    assert_eq!(rows.len(), 65);
    let rules = rules().expect("the rules are right");
    let ids: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids.len(), 65);
    assert_eq!(ids, rules.keys().map(String::as_str).collect());
    let everything = ClaimSelection { full: false, only: &[], changes: None };
    let (prepared, jobs) = prepare(&everything).expect("every point is one of its experiment");
    assert_eq!(prepared.len(), 65);
    assert!(jobs.len() > 50);
    // A row's machine is the one that its points run on, unless a point says otherwise.
    for one in &prepared {
        let machines: Vec<&str> =
            one.points.values().map(|at| jobs[*at].point.settings.machine.machine.as_str()).collect();
        assert!(machines.is_empty() || machines.contains(&one.claim.machine.as_str()), "{}", one.claim.id);
    }
}

#[test]
fn expressions_compute_what_they_say() {
    let value = |text: &str| expression(text).expect(text).value(&figures);
    assert_eq!(value("a.throughput / b.throughput"), Some(4.4));
    assert_eq!(value("1 - a.throughput * 2 + (b.throughput + 3) / 4"), Some(1.0 - 8.8 + 1.0));
    assert_eq!(value("a.throughput / zero.throughput"), None, "divided by zero is unknown");
    assert_eq!(value("c.throughput"), None);
    for wrong in ["", "a", "a.thoughput", "a.throughput /", "(a.throughput", "a.throughput b.throughput", "1 )"] {
        assert!(expression(wrong).is_err(), "{wrong}");
    }
    assert!(Comparison::try_from("a.throughput = b.throughput".to_string()).is_err());
}

proptest! {
    /// Sums and products of numbers against a straightforward evaluation.
    #[test]
    fn arithmetic_follows_precedence(terms in prop::collection::vec(prop::collection::vec(1..50i32, 1..4), 1..5)) {
        let text = terms.iter()
            .map(|factors| factors.iter().map(i32::to_string).collect::<Vec<_>>().join(" * "))
            .collect::<Vec<_>>()
            .join(" - ");
        let mut products = terms.iter().map(|factors| factors.iter().map(|f| f64::from(*f)).product::<f64>());
        let first = products.next().unwrap();
        let expected = products.fold(first, |sum, product| sum - product);
        prop_assert_eq!(expression(&text).unwrap().value(&figures), Some(expected));
    }
}

fn verdict_of(rule: &str) -> (Verdict, Option<f64>, String) {
    let text = format!("[V1]\npoints.a = {{}}\npoints.b = {{}}\n{rule}");
    let rules = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let judged = judge(&rules["V1"].rule, &figures).expect("judged by figures");
    (judged.verdict, judged.error, judged.why)
}

#[test]
fn ratios_hold_within_ten_percent_and_on_their_side() {
    let ratio = |published: f64, side: &str| {
        verdict_of(&format!(
            "rule = \"values\"\nexpect = \
             [{{ what = \"r\", value = \"a.throughput / b.throughput\", published = {published}{side} }}]"
        ))
    };
    assert_eq!(ratio(4.85, "").0, Verdict::Holds);
    assert_eq!(ratio(4.01, "").0, Verdict::Holds);
    assert_eq!(ratio(3.99, "").0, Verdict::Misses);
    assert_eq!(ratio(4.9, "").0, Verdict::Misses);
    assert!((ratio(5.0, "").1.expect("an error") + 0.12).abs() < 1e-9);
    assert_eq!(ratio(4.6, ", side_of = 4.5").0, Verdict::Misses);
    assert_eq!(ratio(4.3, ", side_of = 4.2").0, Verdict::Holds);
}

#[test]
fn ranges_hold_inside_and_a_little_beside_but_not_across_one() {
    let range = |value: &str, low: f64, high: f64| {
        verdict_of(&format!(
            "rule = \"ranges\"\nexpect = \
             [{{ what = \"r\", value = \"{value}\", low = {low:?}, high = {high:?} }}]\nholds = [\"a.throughput > \
             b.throughput\"]"
        ))
    };
    assert_eq!(range("a.throughput", 4.0, 5.0), (Verdict::Holds, Some(0.0), String::new()));
    assert_eq!(range("a.throughput", 4.5, 5.0).0, Verdict::Holds);
    assert_eq!(range("a.throughput", 5.0, 6.0).0, Verdict::Misses);
    assert_eq!(range("b.throughput", 0.9, 0.96).0, Verdict::Misses, "no loss does not repeat a loss");
    assert_eq!(range("b.throughput", 0.96, 1.02).0, Verdict::Holds);
}

#[test]
fn orders_hold_only_when_every_comparison_does() {
    let order = |holds: &str| verdict_of(&format!("rule = \"order\"\nholds = [{holds}, \"b.throughput > 0\"]")).0;
    assert_eq!(order("\"a.throughput > b.throughput\""), Verdict::Holds);
    assert_eq!(order("\"b.throughput > a.throughput\""), Verdict::Misses);
    assert_eq!(order("\"a.throughput > 4.35\""), Verdict::Misses, "within the noise of runs");
    assert_eq!(order("\"a.throughput >= 4.45\""), Verdict::Holds);
    assert_eq!(order("\"a.throughput >= 4.6\""), Verdict::Misses);
    assert_eq!(order("\"a.throughput ~ 4.8\""), Verdict::Holds);
    assert_eq!(order("\"a.throughput ~ 5\""), Verdict::Misses);
    assert_eq!(order("\"a.latency-mean > 1\""), Verdict::NotYet, "a figure that is missing decides nothing");
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let told = |text: &str| parse(text).expect_err(text);
    assert!(told("[V1]\nrule = \"order\"\nholds = [\"x.throughput > 1\"]").contains("'x' is not among its points"));
    let unused = "[V1]\nrule = \"order\"\npoints.a = {}\npoints.b = {}\nholds = [\"a.throughput > 1\"]";
    assert!(told(unused).contains("nothing speaks of the point 'b'"));
    assert!(told("[V1]\nrule = \"not-yet\"\nmissing = \"x\"\nmising = 1").contains("mising"));
    assert!(told("[V1]\nrule = \"luck\"").contains("luck"));
}

#[test]
fn inputs_and_the_table_are_reported_without_a_run() {
    let only = ["S1", "S2", "N5"].map(String::from);
    let engines = Engines { simulated: &SimEngine::default(), modelled: &ModelEngine };
    let options = Options { seed: 1, threads: 1, revision: "test".into() };
    let stop = AtomicBool::new(false);
    let context = RunContext { options: &options, store: None, progress: &|_| {}, stop: &stop };
    let wanted = ClaimSelection { full: false, only: &only, changes: None };
    let found = evaluate(engines, &wanted, context).expect("judged");
    let by_id = |id: &str| found.claims.iter().find(|result| result.claim.id == id).expect("wanted");
    assert_eq!(by_id("S1").verdict, Verdict::Input);
    // The published machine gives the published change.
    assert!(by_id("S1").error.expect("a number").abs() < 0.05 && by_id("S2").error.expect("a number").abs() < 0.05);
    // The model is the thesis' own.
    assert_eq!((by_id("N5").verdict, by_id("N5").kind), (Verdict::ByConstruction, Some(ResultKind::Modelled)));
    assert_eq!(by_id("N5").values[0].1, 1.0);
    assert!(by_id("N5").obtained.starts_with("143 of 143"), "{}", by_id("N5").obtained);
    let unknown = ClaimSelection { full: false, only: &["V99".to_string()], changes: None };
    let error = evaluate(engines, &unknown, context).expect_err("no such claim");
    assert!(error.to_string().contains("V99"));
}

/// One claim, judged.
fn judged(claim: &str) -> Evaluation {
    let only = [claim.to_string()];
    let engines = Engines { simulated: &SimEngine::default(), modelled: &ModelEngine };
    let options = Options { seed: 1, threads: 1, revision: "test".into() };
    let stop = AtomicBool::new(false);
    let context = RunContext { options: &options, store: None, progress: &|_| {}, stop: &stop };
    evaluate(engines, &ClaimSelection { full: false, only: &only, changes: None }, context).expect("judged")
}

#[test]
fn what_could_not_come_out_otherwise_does_not_hold() {
    let found = judged("N5");
    assert_eq!(found.claims[0].verdict, Verdict::ByConstruction);
    assert!(found.claims[0].reason.contains("The thesis' own formula"));
    assert_eq!((found.count(Verdict::Holds), found.count(Verdict::ByConstruction)), (0, 1));
}

/// Where all sockets read from all, links have queues (V3): without them Bound does 1.75 times what OS does.
#[test]
fn links_that_are_nearly_full_have_queues() {
    let claim = &judged("V3").claims[0];
    assert_eq!(claim.verdict, Verdict::Holds, "{}", claim.obtained);
}

#[test]
fn what_an_assumption_was_chosen_by_does_not_hold() {
    let found = judged("E9");
    assert_eq!((found.count(Verdict::Holds), found.count(Verdict::Fitted)), (0, 1), "{:?}", found.claims[0]);
    assert!(found.claims[0].reason.contains("links beside each other: remote_under_load = 1.11"));
    assert!(found.claims[0].assumed.contains(&"links beside each other".to_string()));
}

/// Throughput, its lowest, and the time until it is back, by the balancer of a point.
type Figures = fn(&str) -> [f64; 3];

/// An engine that is told its figures, or is not built.
struct Told(Option<Figures>);

impl Engine for Told {
    fn kind(&self) -> ResultKind {
        ResultKind::Simulated
    }

    fn machine(&self, point: &Point) -> Result<(String, numa::Topology), RunError> {
        SimEngine::default().machine(point)
    }

    fn run(&self, point: &Point, _: Conditions<'_>) -> Result<Outcome, RunError> {
        let told = self.0.ok_or_else(|| RunError::NotYet("a wheel is missing".to_string()))?;
        let [throughput, lowest, recovery] = told(point.named["balancer"].as_str().expect("a name"));
        let outcome = Outcome::default().with(Metric::Throughput, throughput);
        Ok(outcome.with(Metric::Lowest, lowest).with(Metric::Recovery, recovery))
    }
}

/// Figure 13 of ERIS, judged.
fn balancing(told: Option<Figures>) -> ClaimResult {
    let only = ["E11".to_string()];
    let engines = Engines { simulated: &Told(told), modelled: &ModelEngine };
    let options = Options { seed: 1, threads: 1, revision: "test".into() };
    let stop = AtomicBool::new(false);
    let context = RunContext { options: &options, store: None, progress: &|_| {}, stop: &stop };
    let wanted = ClaimSelection { full: false, only: &only, changes: None };
    evaluate(engines, &wanted, context).expect("judged").claims.remove(0)
}

#[test]
fn what_cannot_be_run_is_not_yet_and_says_what_is_missing() {
    let found = balancing(None);
    assert_eq!(found.verdict, Verdict::NotYet);
    assert!(found.reason.contains("a wheel is missing"), "{}", found.reason);
}

#[test]
fn balancers_are_judged_by_their_drops_their_recovery_and_what_they_do_in_all() {
    let published: Figures = |balancer| match balancer {
        "one_shot" => [90.0, 10.0, 1.0],
        "ma(8)" => [95.0, 30.0, 3.0],
        _ => [70.0, 50.0, 15.0],
    };
    assert_eq!(balancing(Some(published)).verdict, Verdict::Holds);
    let gentle: Figures = |balancer| match balancer {
        "one_shot" => [90.0, 35.0, 1.0],
        "ma(8)" => [95.0, 30.0, 3.0],
        _ => [70.0, 50.0, 15.0],
    };
    let found = balancing(Some(gentle));
    assert!(found.verdict == Verdict::Misses && found.missed.contains("ma8.lowest > one_shot.lowest"), "{found:?}");
    let quick: Figures = |balancer| match balancer {
        "one_shot" => [99.0, 10.0, 1.0],
        "ma(8)" => [95.0, 30.0, 3.0],
        _ => [70.0, 50.0, 2.0],
    };
    let missed = balancing(Some(quick)).missed;
    assert!(missed.contains("ma1.recovery > ma8.recovery") && missed.contains("ma8.throughput > one_shot.throughput"));
}

#[test]
fn figures_have_three_digits() {
    let shown = [0.0, 0.0123456, 1.0, 12.345, 987.6, 123_456.0, 12_345_678.0, -2.5].map(figure);
    assert_eq!(shown, ["0.00", "0.0123", "1.00", "12.3", "988", "123456", "1.23e7", "-2.50"]);
}
