use std::sync::atomic::AtomicUsize;

use numa::Topology;
use toml::Table;

use super::*;
use crate::declaration::Experiment;
use crate::result::{Metric, Outcome, ResultKind};

/// An engine that counts: the figure of a point is its seed and clients.
#[derive(Default)]
struct Counting {
    runs: AtomicUsize,
    /// Sets `stop` after `n` runs.
    stop_after: Option<usize>,
}

impl Engine for Counting {
    fn kind(&self) -> ResultKind {
        ResultKind::Simulated
    }

    fn machine(&self, _: &Point) -> Result<(String, Topology), RunError> {
        Ok(("toy".into(), Topology::synthetic(1, 1, 1, 1)))
    }

    fn run(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        let runs = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        if self.stop_after == Some(runs) {
            conditions.stop.store(true, Ordering::Relaxed);
        }
        let clients = point.named["clients"].as_integer().unwrap();
        if clients == 13 {
            return Err(RunError::NotYet("thirteen".into()));
        }
        Ok(Outcome::default().with(Metric::Throughput, clients as f64 * 1000.0 + conditions.seed as f64))
    }
}

fn jobs(clients: &[i64]) -> Vec<Job> {
    let experiment = Experiment::find("vldb2015/fig08").expect("ours");
    let job = |clients: &i64| {
        let set: Table = [("clients".to_string(), (*clients).into())].into_iter().collect();
        Job { experiment: experiment.id.clone(), point: experiment.point_with(&set).expect("sound"), seconds: 1.0 }
    };
    clients.iter().map(job).collect()
}

fn options(threads: usize) -> Options {
    Options { seed: 5, threads, revision: "test".into() }
}

/// Nobody is told of progress.
fn context<'a>(options: &'a Options, store: Option<&'a Store>, stop: &'a AtomicBool) -> RunContext<'a> {
    RunContext { options, store, progress: &|_| {}, stop }
}

/// Nobody stops it.
fn go_on() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn records_come_in_the_order_of_the_jobs_whatever_the_threads() {
    let wanted: Vec<i64> = (1..=40).collect();
    let of = |threads| {
        let engine = Counting::default();
        let done = AtomicUsize::new(0);
        let told = |progress: Progress<'_>| {
            done.fetch_add(1, Ordering::Relaxed);
            assert!(progress.done <= progress.all);
        };
        let found =
            run(&engine, &jobs(&wanted), RunContext { progress: &told, ..context(&options(threads), None, &go_on()) });
        assert_eq!(done.into_inner(), 40);
        found.expect("not stopped")
    };
    let one = of(1);
    assert_eq!(one, of(4));
    assert_eq!(one[6].as_ref().expect("run").get(Metric::Throughput), Some(7005.0));
    assert_eq!(one[12], Err(RunError::NotYet("thirteen".into())));
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path()).expect("opens");
    let wanted = jobs(&[1, 2, 3, 4, 5]);
    let first = Counting { stop_after: Some(2), ..Counting::default() };
    let stopped = run(&first, &wanted, context(&options(1), Some(&store), &go_on()));
    let error = stopped.expect_err("stopped").to_string();
    assert!(error.contains("stopped after 2 of 5"), "{error}");
    let second = Counting::default();
    let whole = run(&second, &wanted, context(&options(1), Some(&store), &go_on())).expect("finished");
    assert_eq!(second.runs.into_inner(), 3, "two points were kept");
    let third = Counting::default();
    let kept = run(&third, &wanted, context(&options(2), Some(&store), &go_on())).expect("finished");
    assert_eq!((third.runs.into_inner(), kept), (0, whole));
    let other_seed = Options { seed: 6, ..options(1) };
    let fourth = Counting::default();
    run(&fourth, &wanted, context(&other_seed, Some(&store), &go_on())).expect("finished");
    assert_eq!(fourth.runs.into_inner(), 5, "another seed is another run");
}
