//! `nearside lab`: its tables, its files, what it refuses.

use serde_json::Value;

use crate::program::run;

#[test]
fn experiments_are_listed_and_run_and_claims_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let results = file("results");
    let list = run(&["lab", "list"]).ok();
    assert!(list.contains("vldb2015/fig08") && list.contains("nbb2011/fig56"), "{list}");
    let figures = run(&["lab", "run", "nbb2011/fig56", "--results", &results]).ok();
    assert!(figures.contains("(modelled)") && figures.contains("q_beside"), "{figures}");
    let one = ["lab", "run", "vldb2015/fig08", "--set", "clients=4", "--set", "strategy=bound", "--results", &results];
    assert!(run(&one).ok().contains("(simulated)"));
    let kept = std::fs::read_dir(&results).expect("a folder").count();
    assert_eq!(kept, 2, "a file per experiment and origin");
    let only = ["lab", "claims", "N5", "S1", "--json", &file("claims.json"), "--results", &results];
    let said = "2 claims: 0 holds, 0 fitted, 0 misses, 0 not yet, 1 input, 1 by construction";
    assert!(run(&only).ok().contains(said));
    let claims = std::fs::read_to_string(file("claims.json")).expect("a file");
    let claims: Value = serde_json::from_str(&claims).expect("JSON");
    assert_eq!(claims["claims"][1]["verdict"], "by construction");
}

#[test]
fn what_is_wrong_is_told_in_one_sentence() {
    assert!(run(&["lab", "run", "vldb2015/fig8"]).failed().contains("did you mean"));
    assert!(run(&["lab", "run", "vldb2015/fig08", "--set", "client=1"]).failed().contains("did you mean 'clients'"));
    assert!(run(&["lab", "claims", "X1"]).failed().contains("there is no claim 'X1'"));
    let nodes = ["lab", "run", "vldb2015/fig08", "--measured", "--set", "nodes=4096"];
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().to_str().expect("UTF-8").to_string();
    let refused = run(&[&nodes[..], &["--results", &results]].concat());
    assert!(refused.failed().contains("no point of it could be run"));
    assert!(
        run(&["lab", "run", "vldb2015/fig19-tpch", "--measured"]).failed().contains("can be simulated, not measured")
    );
}

#[test]
fn what_is_measured_stays_apart_from_what_is_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_string();
    let results = file("results");
    // The file of a user's own: ours with points of a fraction of a second.
    let text = include_str!("../../../lab/experiments/vldb2015/fig12.toml");
    let short = text.replace("short_seconds = 1.0", "short_seconds = 0.2").replace("vldb2015/fig12", "own/ranges");
    assert_ne!(text, short);
    std::fs::write(file("own.toml"), short).expect("written");
    let own = file("own.toml");
    let set = ["rows=100_000", "columns=2", "clients=2", "partitions=1"];
    let mut arguments = vec!["lab", "run", &own, "--measured", "--results", &results];
    set.iter().for_each(|set| arguments.extend(["--set", set]));
    let figures = run(&arguments).ok();
    assert!(figures.contains("(measured)") && figures.contains("throughput 1/min"), "{figures}");
    assert!(figures.contains("note on 3 of 3 points"), "{figures}");
    let kept = std::fs::read_dir(&results).expect("a folder").next().expect("a file").expect("a file").path();
    assert!(kept.file_name().is_some_and(|name| name.to_string_lossy().contains("measured")), "{kept:?}");
    let lines = std::fs::read_to_string(kept).expect("a file");
    let points: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((points.len(), &points[0]["kind"], &points[3]["kind"]), (4, &"measured".into(), &"measured".into()));
    assert!(points[1]["metrics"]["latency-p95"].as_f64().is_some_and(|seconds| seconds > 0.0), "{}", points[1]);
}

#[test]
fn what_a_database_ran_is_recorded_and_simulated_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let workload = folder.path().join("workload.toml").to_str().expect("UTF-8").to_string();
    let table = "CREATE TABLE t AS SELECT value AS a, value % 1000 AS b FROM generate_series(1, 500000)";
    let queries =
        "SELECT sum(a) FROM t WHERE b < 500; SELECT sum(a) FROM t WHERE b < 700; SELECT b, max(a) FROM t GROUP BY b";
    run(&["sql", "--record-workload", &workload, "-c", table, "-c", queries]).ok();
    let text = std::fs::read_to_string(&workload).expect("a file");
    assert!(text.contains("kind = \"recorded\"") && text.contains("SELECT sum(a) FROM t WHERE b < ?"), "{text}");
    assert!(text.contains("count = 2,") && text.contains("{ table = \"t\", column = \"b\" }"), "{text}");
    let asked = ["whatif", "--machine", "ivybridge-ex-4", "--workload", &workload, "--strategy", "os,bound"];
    let advice = run(&asked).ok();
    assert!(advice.contains("simulated on ivybridge-ex-4") && advice.contains("choose placement"), "{advice}");
    assert!(!advice.contains("not simulated"), "{advice}");
    let nothing = run(&["sql", "--record-workload", &workload, "-c", "CREATE TABLE e (a INT)"]).failed();
    assert!(nothing.contains("no statement was recorded"), "{nothing}");
    let nowhere = run(&["sql", "--record-workload", "/no/such/folder/w.toml", "-c", "SELECT 1"]).failed();
    assert!(nowhere.contains("cannot write"), "{nowhere}");
}
