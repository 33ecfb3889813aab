use toml::{Table, Value};

use super::*;

const SMALL: &str = r#"
id = "own/small"
title = "A small one"
kinds = ["simulated"]
found = "Nothing."
metrics = ["throughput"]
[source]
paper = "none"
section = "1"
figures = ["Figure 1"]
[machine]
name = "ivybridge-ex-4"
[data]
rows = 1000
[workload]
kind = "columns"
clients = 8
strategy = "bound"
[length]
seconds = 2.0
short_seconds = 1.0
[[grid]]
clients = [1, 8]
strategy = ["os", "bound"]
[[grid]]
clients = 8
placement = ["rr", "pp"]
[[figure]]
title = "Throughput"
draw = "lines"
x = "clients"
y = "throughput"
series = ["strategy"]
"#;

#[test]
fn every_experiment_of_ours_is_sound_and_named_as_its_file() {
    for (id, text) in embedded() {
        let experiment = Experiment::parse(id, text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(experiment.id, *id);
        assert!(!experiment.figures.is_empty() && !experiment.found.is_empty(), "{id}");
        let points = experiment.points(&Table::new()).expect("checked");
        for figure in &experiment.figures {
            let drawn =
                points.iter().any(|point| figure.only.iter().all(|(key, value)| point.named.get(key) == Some(value)));
            assert!(drawn, "{id}: no point of the grid is in '{}'", figure.title);
        }
    }
    assert_eq!(Experiment::all().len(), embedded().len());
}

#[test]
fn every_file_of_the_folder_is_embedded() {
    // Tests run in the folder of their crate, wherever that is by now; the path of the build may be another clone's.
    let folder = std::path::Path::new("experiments");
    let mut files = Vec::new();
    for paper in std::fs::read_dir(folder).expect("the crate's own folder") {
        let paper = paper.expect("readable").path();
        for file in std::fs::read_dir(&paper).expect("a folder per paper") {
            let path = file.expect("readable").path();
            let id = path.strip_prefix(folder).expect("below").with_extension("");
            files.push(id.display().to_string());
        }
    }
    let mut ids: Vec<&str> = embedded().iter().map(|(id, _)| *id).collect();
    files.sort();
    ids.sort_unstable();
    assert_eq!(files, ids);
}

#[test]
fn a_grid_is_the_union_of_its_products_without_repeats() {
    let experiment = Experiment::parse("small", SMALL).expect("sound");
    let points = experiment.points(&Table::new()).expect("sound");
    // 2 x 2, and of the second grid only pp: (8, bound, rr) is there already.
    assert_eq!(points.len(), 5);
    let set = experiment.read_settings(&["clients=3".into(), "strategy=target".into()]).expect("known names");
    let fewer = experiment.grid_with(&set).expect("sound");
    assert_eq!(fewer.len(), 2, "what is set is not varied");
    assert!(fewer.iter().all(|point| matches!(&point.settings.workload, Workload::Columns(c) if c.clients == 3)));
}

#[test]
fn wrong_names_and_values_are_refused_with_what_would_be_right() {
    let experiment = Experiment::parse("small", SMALL).expect("sound");
    let refused = |given: &str| {
        let set = experiment.read_settings(&[given.to_string()]);
        set.and_then(|set| experiment.grid_with(&set)).map(|_| ()).expect_err(given).to_string()
    };
    assert!(refused("client=3").contains("did you mean 'clients'"));
    assert!(refused("clients").contains("key=value"));
    assert!(refused("clients=many").contains("clients") || refused("clients=many").contains("invalid type"));
    assert!(refused("clients=0").contains("above 0"));
    assert!(refused("selectivity=2.0").contains("0 to 1"));
    assert!(refused("strategy=best").contains("`os`, `target`, `bound`"));
    assert!(refused("result_cache=true").contains("never kept"));
    assert!(refused("bits_max=40").contains("1 to 32 bits"));
    for (from, to, told) in [
        ("clients = 8\nstrategy", "clents = 8\nstrategy", "clents"),
        ("[length]", "[lenght]", "lenght"),
        ("short_seconds = 1.0", "short_seconds = 3.0", "short_seconds"),
        ("x = \"clients\"", "x = \"customers\"", "customers"),
        ("y = \"throughput\"", "y = \"latency-mean\"", "metrics"),
        ("rows = 1000", "rows = 1000\nclients = 2", "two tables"),
        ("kind = \"columns\"", "kind = \"rows\"", "there are columns"),
    ] {
        let error = Experiment::parse("small", &SMALL.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

#[test]
fn an_unknown_experiment_names_the_nearest_and_a_file_is_read() {
    let error = Experiment::find("vldb2015/fig8").expect_err("no such id").to_string();
    assert!(error.contains("vldb2015/fig08") || error.contains("vldb2015/fig18"), "{error}");
    assert!(Experiment::find("none.toml").expect_err("no such file").to_string().contains("cannot read"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    std::fs::write(&path, SMALL).expect("written");
    let found = Experiment::find(&path.display().to_string()).expect("a declaration");
    assert_eq!(found.id, "own/small");
}

#[test]
fn points_run_for_the_time_of_the_first_exception_that_fits() {
    let except = "short_seconds = 1.0\nexcept = [{ only = { clients = 1 }, seconds = 0.4, short_seconds = 0.2 }]";
    let experiment = Experiment::parse("small", &SMALL.replace("short_seconds = 1.0", except)).expect("sound");
    let seconds = |clients: &str| {
        let set = experiment.read_settings(&[clients.to_string()]).expect("known");
        let point = experiment.point_with(&set).expect("sound");
        (experiment.seconds_of(&point, true), experiment.seconds_of(&point, false))
    };
    assert_eq!((seconds("clients=1"), seconds("clients=2")), ((0.4, 0.2), (2.0, 1.0)));
    for wrong in [except.replace("clients = 1", "client = 1"), except.replace("0.2", "0.5")] {
        assert!(Experiment::parse("small", &SMALL.replace("short_seconds = 1.0", &wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn predicates_are_two_numbers() {
    let read = |text: &str| Predicates::try_from(text.to_string());
    assert_eq!(read("4+2"), Ok(Predicates { first: 4, second: 2 }));
    assert_eq!(String::from(Predicates { first: 0, second: 6 }), "0+6");
    for wrong in ["4", "+", "0+0", "4+-2", "4+x", "99999+1"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_of_the_command_line_become_values() {
    let experiment = Experiment::parse("small", SMALL).expect("sound");
    let given = ["machine=westmere-ex-8", "index=true", "selectivity=0.1", "nodes = 2"].map(String::from);
    let set = experiment.read_settings(&given).expect("known");
    assert_eq!(set.get("machine"), Some(&Value::String("westmere-ex-8".into())));
    assert_eq!(set.get("index"), Some(&Value::Boolean(true)));
    assert_eq!(set.get("nodes"), Some(&Value::Integer(2)));
}
