use toml::Table;

use super::page::balanced;
use super::*;
use crate::claims::{ClaimSelection, Engines, evaluate};
use crate::engine::{Conditions, Engine, ModelEngine, SimEngine};
use crate::result::{FORMAT, Head, as_json};
use crate::run::{Options, RunContext};
use crate::sensitivity::{Row, VerdictChange};
use crate::variation::{Finding, Variation, VariationStep};

fn modelled(id: &str) -> (Experiment, Vec<ResultFile>) {
    let experiment = Experiment::find(id).expect("ours");
    let points = experiment.grid_with(&Table::new()).expect("sound");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let conditions = Conditions { seed: 1, seconds: 1.0, stop: &stop };
    let record = |point: &crate::declaration::Point| Record {
        experiment: experiment.id.clone(),
        settings: as_json(&point.named),
        seed: 1,
        seconds: 1.0,
        kind: ResultKind::Modelled,
        outcome: ModelEngine.run(point, conditions).expect("computed"),
    };
    let head = Head {
        format: FORMAT,
        experiment: experiment.id.clone(),
        kind: ResultKind::Modelled,
        revision: "test <1>".into(),
        machines: [ModelEngine.machine(&points[0]).expect("published")].into(),
        constants: BTreeMap::new(),
    };
    let records = points.iter().map(record).collect();
    (experiment, vec![(head, records)])
}

fn material() -> Material {
    let only = ["N5", "S1"].map(String::from);
    let engines = Engines { simulated: &SimEngine::default(), modelled: &ModelEngine };
    let options = Options { seed: 1, threads: 1, revision: "test".into() };
    let stop = std::sync::atomic::AtomicBool::new(false);
    let claims = evaluate(
        engines,
        &ClaimSelection { full: false, only: &only, changes: None },
        RunContext { options: &options, store: None, progress: &|_| {}, stop: &stop },
    );
    let moved = VerdictChange { claim: "V1".into(), from: Verdict::Holds, to: Verdict::Misses, obtained: "4.1".into() };
    Material {
        experiments: vec![
            modelled("nbb2011/fig52"),
            modelled("nbb2011/fig56"),
            (Experiment::find("vldb2015/fig08").expect("ours"), Vec::new()),
        ],
        claims: Some(claims.expect("judged")),
        sensitivity: Some(Sensitivity {
            revision: "test".into(),
            seed: 1,
            share: 0.2,
            rows: vec![Row {
                constant: "task_ns".into(),
                factor: 1.2,
                value: 252.0,
                moved: vec![moved],
                touched: vec!["V1".into()],
                kept: 0,
                points: 0,
            }],
        }),
        variations: vec![VariationResult {
            variation: Variation {
                claim: "E1".into(),
                reason: "links <full>".into(),
                steps: Vec::new(),
                finding: Finding::Partly,
                found: "a part of it".into(),
            },
            steps: vec![VariationStep {
                changed: "as it is".into(),
                obtained: "4.93".into(),
                verdict: Verdict::Misses,
                missed: String::new(),
            }],
        }],
        revision: "test <1>".into(),
    }
}

#[test]
fn the_page_holds_itself_together_and_says_where_everything_comes_from() {
    let html = report(&material());
    balanced(&html).expect("well-formed");
    for part in [
        "Available bandwidth (modelled)",
        "Table 2.4 (published)",
        "Efficiency gained (modelled)",
        "revision test &lt;1&gt;",
        "nbb-xeon-4",
        "V1: holds to misses",
        "links &lt;full&gt;",
        "as it is: 4.93 (misses)",
        "143 of 143",
        "not yet",
        "Not run yet: <code>nearside lab run vldb2015/fig08</code>",
        "<html lang=\"en\">",
        "role=\"img\"",
        "scope=\"col\"",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("NaN") && !html.contains(">inf<"));
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = report(&material());
    for outside in ["http://", "https://", "<script", "<link", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_chart_of_each_kind_stands_alone() {
    let (experiment, mut results) = modelled("nbb2011/fig56");
    let mut measured = results[0].clone();
    measured.0.kind = ResultKind::Measured;
    measured.1.iter_mut().for_each(|record| record.kind = ResultKind::Measured);
    measured.1[0].outcome.notes.push("half <of> the rows".to_string());
    results.push(measured);
    let html = report(&Material { experiments: vec![(experiment, results)], ..Material::default() });
    assert_eq!(html.matches("Efficiency gained (modelled)</text>").count(), 1);
    assert_eq!(html.matches("Efficiency gained (measured)</text>").count(), 1);
    assert!(html.contains("measured: half &lt;of&gt; the rows (1 points)"));
    let charts: Vec<&str> = html.split("<svg").skip(1).collect();
    let lines = |chart: &str| chart.matches("stroke-width=\"2\"").count();
    // Four lines and their four samples in the legend, in each of both.
    assert_eq!(charts.iter().map(|chart| lines(chart)).collect::<Vec<_>>(), [8, 8]);
}
