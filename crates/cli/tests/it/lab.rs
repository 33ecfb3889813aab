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
    assert!(run(&only).ok().contains("2 claims: 1 holds, 0 misses, 0 not yet, 1 input"));
    let claims = std::fs::read_to_string(file("claims.json")).expect("a file");
    let claims: Value = serde_json::from_str(&claims).expect("JSON");
    assert_eq!(claims["claims"][1]["verdict"], "holds");
}

#[test]
fn what_is_wrong_is_told_in_one_sentence() {
    assert!(run(&["lab", "run", "vldb2015/fig8"]).failed().contains("did you mean"));
    assert!(run(&["lab", "run", "vldb2015/fig08", "--set", "client=1"]).failed().contains("did you mean 'clients'"));
    assert!(run(&["lab", "claims", "X1"]).failed().contains("there is no claim 'X1'"));
    assert!(run(&["lab", "run", "vldb2015/fig08", "--measured"]).failed().contains("cannot measure"));
}
