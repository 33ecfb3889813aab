use super::twin::{Query, laboratory, random_query};
use super::*;
use crate::curve::{Curve, Interpolation, Outside};
use crate::fit::Cause;
use crate::machine::DemandRule;
use crate::noise::Noise;
use crate::pair::predict_s;
use crate::plain::PlainJob;
use crate::thesis::System;

fn xeon() -> Machine {
    let curve = Curve::of_threads(&System::Xeon.local_gib_s(), Interpolation::Linear, Outside::Hold);
    Machine::simple(curve.expect("a curve"), 8.0)
}

/// Two cpus that share a core, and a memory that one of them nearly fills.
fn one_core() -> Machine {
    let curve = Curve::of_threads(&[10.0, 13.0], Interpolation::Linear, Outside::Hold).expect("a curve");
    Machine { cpus: 2.0, cores: 1.0, ..Machine::simple(curve, 2.0) }
}

/// Figure 5.1's settings, thinned.
const XEON_SETTINGS: [[f64; 3]; 8] = [
    [1.0, 0.0, 0.0],
    [1.0, 1.0, 0.0],
    [1.0, 4.0, 0.0],
    [4.0, 0.0, 0.0],
    [4.0, 1.0, 0.0],
    [4.0, 4.0, 0.0],
    [2.0, 0.0, 0.0],
    [8.0, 0.0, 0.0],
];

const ONE_CORE_SETTINGS: [[f64; 3]; 5] =
    [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.5, 0.0], [1.0, 0.0, 1.0]];

fn queries(count: usize, seed: u64) -> Vec<Query> {
    let mut noise = Noise::new(seed);
    (0..count).map(|_| random_query(&mut noise)).collect()
}

/// The input without what hogs and counters told.
fn without(input: &Input, traffic: bool, hogs: bool) -> Input {
    let mut input = input.clone();
    for run in input.queries.iter_mut().flat_map(|query| &mut query.trials) {
        run.traffic_unit_s = run.traffic_unit_s.filter(|_| !traffic);
        run.hogs_got = run.hogs_got.filter(|_| !hogs);
    }
    input
}

#[test]
fn extensions_halve_the_error_on_synthetic_queries() {
    for (name, machine, settings) in
        [("xeon", xeon(), &XEON_SETTINGS[..]), ("one core", one_core(), &ONE_CORE_SETTINGS)]
    {
        let mut noise = Noise::new(42);
        let whole = laboratory(&machine, &queries(8, 9), settings, (0.01, &mut noise));
        for (told, input) in [
            ("times only", without(&whole, true, true)),
            ("and hogs", without(&whole, true, false)),
            ("and counters", without(&whole, false, true)),
        ] {
            let errors = analyse(&input).expect("good figures").errors.expect("pairs were measured");
            println!("{name}, {told}: {errors:?}");
            assert_eq!(errors.pairs, 36);
            assert!(errors.ratio.is_some_and(|ratio| ratio < 0.5), "{name}, {told}: {errors:?}");
            assert!(errors.alone.is_some_and(|alone| errors.extended.mean < 0.5 * alone.mean), "{name}: {errors:?}");
        }
    }
}

#[test]
fn noise_of_three_per_cent_is_borne() {
    let mut noise = Noise::new(4);
    let whole = laboratory(&one_core(), &queries(6, 21), &ONE_CORE_SETTINGS, (0.03, &mut noise));
    let errors = analyse(&without(&whole, true, false)).expect("good figures").errors.expect("pairs were measured");
    println!("{errors:?}");
    assert!(errors.ratio.is_some_and(|ratio| ratio < 0.75) && errors.extended.mean < 0.04, "{errors:?}");
}

#[test]
fn a_curve_that_falls_is_noted() {
    let mut noise = Noise::new(4);
    let whole = laboratory(&one_core(), &queries(2, 5), &ONE_CORE_SETTINGS, (0.01, &mut noise));
    let mut input = without(&whole, true, false);
    assert!(analyse(&input).expect("good figures").notes.is_empty());
    let falling = Curve::of_threads(&[10.0, 18.0, 15.0], Interpolation::Linear, Outside::Hold);
    input.machine.local = falling.expect("a curve");
    let notes = analyse(&input).expect("good figures").notes;
    assert!(notes.iter().any(|note| note.contains("it falls at a demand of 2.00")), "{notes:?}");
}

#[test]
fn shared_cores_are_found_out() {
    let [shared, apart] = [1.0, 2.0].map(|cores| {
        let truth = Machine { cores, ..one_core() };
        let mut noise = Noise::new(8);
        let whole = laboratory(&truth, &queries(4, 5), &ONE_CORE_SETTINGS, (0.01, &mut noise));
        let mut input = without(&whole, true, false);
        input.machine.cores = 2.0;
        analyse(&input).expect("good figures")
    });
    assert_eq!((shared.cores, shared.notes.len()), (1.0, 1), "{:?}", shared.notes);
    assert_eq!((apart.cores, apart.notes.len()), (2.0, 0), "{:?}", apart.notes);
    for report in [shared, apart] {
        let errors = report.errors.expect("pairs were measured");
        println!("{} cores: {errors:?}", report.cores);
        assert!(errors.extended.mean < 0.04, "{errors:?}");
    }
}

/// Two queries on four cpus that the thesis' model describes, measured without noise.
fn small() -> Input {
    let machine = Machine { rule: DemandRule::Requested, ..Machine::simple(xeon().local, 4.0) };
    let jobs = [PlainJob { q: 0.6, t_s: 2.0 }, PlainJob { q: 0.1, t_s: 5.0 }];
    let runs = |job: PlainJob| {
        let settings = [(1.0, 0.0), (1.0, 3.0), (2.0, 0.0), (2.0, 2.0), (4.0, 0.0)];
        let run = |(cpus, memory_hogs)| Trial {
            cpus,
            memory_hogs,
            computing_hogs: 0.0,
            time_s: job.time_s(&machine.local, cpus, memory_hogs),
            traffic_unit_s: None,
            hogs_got: None,
        };
        settings.map(run).to_vec()
    };
    let named = [("scan", jobs[0]), ("join", jobs[1])];
    let queries = named.map(|(name, job)| QueryTrials { name: name.to_owned(), trials: runs(job), remote: Vec::new() });
    let (scan_s, join_s) = predict_s(&machine.local, (jobs[0], 2.0), (jobs[1], 2.0));
    let pair = MeasuredPair {
        first: "scan".to_owned(),
        second: "join".to_owned(),
        cpus: [2.0, 2.0],
        time_s: [scan_s, join_s],
    };
    Input { machine, queries: queries.to_vec(), pairs: vec![pair], residuals: Residuals::Seconds, noise: 0.01 }
}

#[test]
fn plain_jobs_need_no_extensions() {
    let report = analyse(&small()).expect("good figures");
    let errors = report.errors.expect("a pair was measured");
    assert!(errors.plain.mean < 1e-6 && errors.extended.mean < 0.01, "{errors:?}");
    for (query, q) in report.queries.iter().zip([0.6, 0.1]) {
        assert!((query.plain.job.q - q).abs() < 1e-5 && (query.extended.job.q - q).abs() < 0.02, "{query:?}");
        assert_eq!(query.explanation.cause, Cause::Share);
    }
    // The measured pair first, then the two that were not.
    let names: Vec<[&str; 2]> = report.pairs.iter().map(|p| [p.first.as_str(), p.second.as_str()]).collect();
    assert_eq!(names, [["scan", "join"], ["scan", "scan"], ["join", "join"]]);
    let measured = &report.pairs[0];
    let rho = measured.rho.measured.expect("both were measured alone on four cpus");
    assert!((rho - measured.rho.plain).abs() < 1e-6 && (rho - measured.rho.extended).abs() < 0.01, "{measured:?}");
    assert!(report.pairs[1].measured_s.is_none() && report.pairs[1].rho.measured.is_none());
    assert!(report.pairs[1].alone_s[0].is_some());
}

#[test]
fn files_are_read_back() {
    let input = small();
    let text = serde_json::to_string(&input).expect("plain data");
    assert_eq!(serde_json::from_str::<Input>(&text).expect("as written"), input);
    let report = analyse(&input).expect("good figures");
    let text = serde_json::to_string(&report).expect("plain data");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("as written"), report);
    // What need not be said.
    let short = r#"{"machine": {"local": {"points": [[1, 10.0], [2, 13.0]]}, "cpus": 2, "cores": 1},
        "queries": [{"name": "q1", "trials": [{"cpus": 1, "time_s": 2.0},
            {"cpus": 1, "memory_hogs": 1, "time_s": 2.5}]}]}"#;
    let input: Input = serde_json::from_str(short).expect("defaults for the rest");
    let report = analyse(&input).expect("good figures");
    assert_eq!((report.pairs.len(), report.errors), (1, None));
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let refused = |change: &dyn Fn(&mut Input)| {
        let mut input = small();
        change(&mut input);
        analyse(&input).expect_err("it is wrong").to_string()
    };
    assert!(refused(&|input| input.queries[1].name = "scan".to_owned()).contains("twice"));
    assert!(refused(&|input| input.pairs[0].second = "sort".to_owned()).contains("there are: scan, join"));
    assert!(refused(&|input| input.pairs[0].time_s[1] = f64::NAN).contains("pair 0 (scan, join)"));
    assert!(refused(&|input| input.machine.cores = 0.0).contains("cores"));
    assert!(refused(&|input| input.machine.local = System::Xeon.curve().expect("a curve")).contains("hold"));
    assert!(refused(&|input| input.noise = -1.0).contains("0.01 for one per cent"));
    assert!(refused(&|input| input.queries[0].remote = vec![0.5]).contains("0 classes"));
    assert!(refused(&|input| input.queries[0].trials.truncate(1)).contains("query 'scan'"));
    assert!(refused(&|input| input.queries[0].trials[2].time_s = 0.0).contains("trial 2"));
}
