//! Available bandwidth (Seidel 2011, section 5.1), measured: what `n` hogs that only write memory get together, in what
//! one of them gets alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::declaration::{ModelPoint, ModelQuantity};
use lab::engine::RunError;
use lab::result::{Metric, Outcome};
use numa::Topology;
use numa::probe::{HogKind, Hogs};

use super::{Bench, failed};

/// Hogs that have just begun are not counted for this share of a run.
const BEGIN: f64 = 0.25;
/// How often a look is taken whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Measures one point of the bandwidth function.
pub fn run(bench: Bench<'_>, asked: &ModelPoint) -> Result<Outcome, RunError> {
    if asked.what != ModelQuantity::Bandwidth {
        let reason = "jobs are measured with 'nearside lab interference'; of the model's experiments only the \
                      bandwidth (what = \"bandwidth\") is measured here";
        return Err(RunError::Refused(reason.to_string()));
    }
    let topology = bench.stored.database().topology();
    let cpus =
        topology.nodes().iter().map(|node| node.cpus.iter().filter(|c| topology.usable_cpus().contains(c)).count());
    let most = cpus.filter(|cpus| *cpus > 0).min().unwrap_or(1);
    if asked.k > most as f64 {
        return Err(RunError::Refused(format!("k = {}: a node of this machine has cpus for {most} hogs", asked.k)));
    }
    let seconds = bench.conditions.seconds / 2.0;
    let one = moved(topology, 1.0, seconds, bench.conditions.stop)?;
    let all = moved(topology, asked.k, seconds, bench.conditions.stop)?;
    Ok(Outcome::default().with(Metric::Bandwidth, all / one).with(Metric::MemoryTraffic, all / 1e9))
}

/// Bytes per second that `n` hogs per node move.
fn moved(topology: &Topology, hogs: f64, seconds: f64, stop: &AtomicBool) -> Result<f64, RunError> {
    let mut kinds = vec![HogKind::Memory(1.0); hogs as usize];
    if hogs.fract() > 0.0 {
        kinds.push(HogKind::Memory(hogs.fract()));
    }
    let hogs = Hogs::start(topology, &kinds).map_err(failed)?;
    sleep(seconds * BEGIN, stop)?;
    let before = hogs.moved_bytes();
    let begun = Instant::now();
    sleep(seconds * (1.0 - BEGIN), stop)?;
    Ok((hogs.moved_bytes() - before) as f64 / begun.elapsed().as_secs_f64())
}

fn sleep(seconds: f64, stop: &AtomicBool) -> Result<(), RunError> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            left => std::thread::sleep(left.min(LOOK)),
        }
    }
}
