use std::path::Path;

use numa::Topology;
use proptest::prelude::*;

use super::*;
use crate::declaration::{Draw, Figure};
use crate::series::{Series, series_of};

fn record(kind: ResultKind, clients: u64, strategy: &str, throughput: f64) -> Record {
    let settings = [("clients", Value::from(clients)), ("strategy", Value::from(strategy))];
    Record {
        experiment: "own/small".into(),
        settings: settings.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
        seed: 7,
        seconds: 2.5,
        kind,
        outcome: Outcome::default().with(Metric::Throughput, throughput),
    }
}

fn figure() -> Figure {
    Figure {
        title: "Throughput".into(),
        draw: Draw::Lines,
        x: "clients".into(),
        log_x: true,
        y: Metric::Throughput,
        series: vec!["strategy".into()],
        only: toml::Table::new(),
    }
}

fn head(revision: &str) -> Head {
    Head {
        format: FORMAT,
        experiment: "own/small".into(),
        kind: ResultKind::Simulated,
        revision: revision.into(),
        machines: [("toy".to_string(), Topology::synthetic(2, 1, 2, 1))].into(),
        constants: [("task_ns".to_string(), 210.0)].into(),
    }
}

#[test]
fn simulated_and_measured_points_never_share_a_series() {
    let records = [
        record(ResultKind::Simulated, 1, "os", 1.0),
        record(ResultKind::Measured, 4, "os", 2.0),
        record(ResultKind::Simulated, 4, "os", 3.0),
        record(ResultKind::Measured, 1, "os", 4.0),
    ];
    let series = series_of(&figure(), &records);
    assert_eq!(series.len(), 2);
    assert_eq!((series[0].kind(), series[0].points()), (ResultKind::Simulated, &[(1.0, 1.0), (4.0, 3.0)][..]));
    assert_eq!((series[1].kind(), series[1].points()), (ResultKind::Measured, &[(1.0, 4.0), (4.0, 2.0)][..]));
    let mut simulated = Series::new(ResultKind::Simulated, "os");
    let error = simulated.add(ResultKind::Measured, 1.0, 1.0, "1").expect_err("another kind");
    assert!(error.to_string().contains("'os' is simulated"));
    assert!(simulated.points().is_empty());
}

proptest! {
    /// Whatever records there are, each series holds exactly the points of its kind and name: the slow way counts them.
    #[test]
    fn series_hold_the_points_of_their_kind_and_name(
        records in prop::collection::vec((0..3usize, 0..4u64, 0..3usize, 0.0..100.0f64), 0..40)
    ) {
        let kinds = [ResultKind::Simulated, ResultKind::Modelled, ResultKind::Measured];
        let names = ["os", "target", "bound"];
        let records: Vec<Record> =
            records.into_iter().map(|(kind, x, name, y)| record(kinds[kind], x, names[name], y)).collect();
        let series = series_of(&figure(), &records);
        for one in &series {
            let mut expected: Vec<(f64, f64)> = records
                .iter()
                .filter(|r| r.kind == one.kind() && r.settings["strategy"] == one.name())
                .map(|r| (r.settings["clients"].as_f64().unwrap(), r.get(Metric::Throughput).unwrap()))
                .collect();
            expected.sort_by(|a, b| a.0.total_cmp(&b.0));
            prop_assert_eq!(one.points(), &expected[..]);
        }
        prop_assert_eq!(series.iter().map(|one| one.points().len()).sum::<usize>(), records.len());
    }
}

#[test]
fn results_read_back_as_they_were_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("opens");
    let results = store.results(&head("abc")).expect("opens");
    let kept = record(ResultKind::Simulated, 4, "os", 0.1 + 0.2);
    results.add(&kept).expect("written");
    let again = store.results(&head("abc")).expect("opens");
    assert_eq!(again.get(&kept.key()), Some(&kept));
    let other = store.results(&head("another revision")).expect("opens");
    assert_eq!(other.get(&kept.key()), None, "another revision's results are others");
    let files = store.files().expect("readable");
    assert_eq!(files.iter().map(|(_, records)| records.len()).sum::<usize>(), 1);
    let (found, _) = files.iter().find(|(_, records)| !records.is_empty()).expect("the one");
    assert_eq!(found, &head("abc"), "machine, topology, revision and constants are there");
}

#[test]
fn a_line_that_was_cut_short_is_dropped_and_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("opens");
    let first = record(ResultKind::Simulated, 1, "os", 1.0);
    let second = record(ResultKind::Simulated, 2, "os", 2.0);
    let results = store.results(&head("abc")).expect("opens");
    results.add(&first).expect("written");
    results.add(&second).expect("written");
    drop(results);
    let path = only_file(folder.path());
    let text = std::fs::read_to_string(&path).expect("text");
    std::fs::write(&path, &text[..text.len() - 9]).expect("written");
    let results = store.results(&head("abc")).expect("opens");
    assert_eq!(results.get(&first.key()), Some(&first));
    assert_eq!(results.get(&second.key()), None);
    results.add(&second).expect("written");
    assert_eq!(std::fs::read_to_string(&path).expect("text"), text);
}

#[test]
fn a_folder_that_cannot_be_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let error = Store::open(&file.join("below")).expect_err("a file is no folder").to_string();
    assert!(error.contains("cannot keep results in"), "{error}");
}

#[test]
fn metrics_have_names_of_their_own() {
    for metric in METRICS {
        assert_eq!(Metric::named(metric.name()), Some(metric));
        assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
    }
    assert_eq!(METRICS.iter().map(|m| m.name()).collect::<std::collections::BTreeSet<_>>().len(), METRICS.len());
}

fn only_file(folder: &Path) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(folder).expect("readable");
    files.next().expect("a file").expect("readable").path()
}

#[test]
fn seeds_are_folded_into_means_and_nothing_else_is() {
    let of = |seed, clients, throughput| Record { seed, ..record(ResultKind::Simulated, clients, "os", throughput) };
    let longer = Record { seconds: 5.0, ..of(1, 1, 9.0) };
    let measured = Record { kind: ResultKind::Measured, ..of(1, 1, 7.0) };
    let found = over_seeds(&[of(1, 1, 2.0), of(1, 4, 3.0), of(2, 1, 4.0), of(3, 1, 6.0), longer, measured]);
    let told: Vec<_> = found.iter().map(|f| (f.mean.get(Metric::Throughput).unwrap(), f.seeds.clone())).collect();
    assert_eq!(told, [(4.0, vec![1, 2, 3]), (3.0, vec![1]), (9.0, vec![1]), (7.0, vec![1])]);
    assert_eq!(found[0].deviation[&Metric::Throughput], 2.0);
    assert!(found[1].deviation.is_empty() && found[1].mean == of(1, 4, 3.0));
    assert_eq!(spread(&[]), None);
}

#[test]
fn throughput_over_time_is_drawn_folded_and_kept() {
    let of = |seed, over_time: &[(f64, f64)]| {
        let mut record = Record { seed, ..record(ResultKind::Simulated, 1, "os", 1.0) };
        record.outcome.over_time = over_time.to_vec();
        record
    };
    let one = of(1, &[(0.5, 10.0), (1.0, 30.0)]);
    let two = of(2, &[(0.5, 20.0), (1.0, 10.0)]);
    let folded = |records: &[Record]| over_seeds(records)[0].mean.outcome.over_time.clone();
    assert_eq!(folded(&[one.clone(), two]), [(0.5, 15.0), (1.0, 20.0)]);
    assert_eq!(folded(&[one.clone(), of(2, &[(0.6, 20.0), (1.0, 10.0)])]), one.outcome.over_time, "other ends");
    let figure = Figure { draw: Draw::Time, x: String::new(), ..figure() };
    let series = series_of(&figure, std::slice::from_ref(&one));
    assert_eq!((series[0].name(), series[0].points()), ("os", &[(0.5, 10.0), (1.0, 30.0)][..]));
    let text = serde_json::to_string(&one).expect("written");
    assert_eq!(serde_json::from_str::<Record>(&text).expect("read"), one);
}

proptest! {
    /// Mean and deviation against the sums of squares of all pairs.
    #[test]
    fn the_deviation_is_that_of_all_pairs(values in prop::collection::vec(-1e3..1e3f64, 2..20)) {
        let pairs: f64 = values.iter().flat_map(|a| values.iter().map(move |b| (a - b).powi(2))).sum();
        let count = values.len() as f64;
        let expected = (pairs / (2.0 * count * (count - 1.0))).sqrt();
        let (_, deviation) = spread(&values).unwrap();
        prop_assert!((deviation.unwrap() - expected).abs() <= 1e-9 * (1.0 + expected));
    }
}
