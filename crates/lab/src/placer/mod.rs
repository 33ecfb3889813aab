//! The placer judged in the simulator: a suite of workloads on published machines, each beside the best placement that
//! does not change, and a search for workloads that make it lose.
//!
//! Invariants: the placer is the product's, decisions and throttle; the same machine, workload, options and seed give
//! the same verdict; a placement that does not change is run by the same clients as the placer.
//!
//! # Limits
//! Placements that are tried are round-robin by columns and by tables, the one that the run begins with, ranges and
//! parts over 2, 4, .. nodes and all of them, as far as there is room: the best of them is what is called best, a
//! cleverer one is not looked for.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 7, for what a placer is to do; what it must come to is this
//! project's.

mod chart;
pub mod command;
pub mod recording;
pub mod search;
pub mod suite;
#[cfg(test)]
mod tests;

use placer::limits::RETURN_PERIODS;
use serde::Serialize;
use sim::workload::columns::{Column, Ranges, Static, equal};
use sim::workload::placed::{Carried, Placed, PlacedClients};
use sim::{Machine, Options, SimError};

use suite::{Case, Must, nodes_of};

/// What a placer must keep of the best placement that does not change, and of round-robin.
pub const NEAR: f64 = 0.95;
/// What is better by less is the same.
const SAME: f64 = 0.01;
const SECOND_NS: u64 = 1_000_000_000;
/// A period of the placer: the product's usual one.
const PERIOD_NS: u64 = SECOND_NS;
/// How long a workload that does not change is run with the placer.
const STEADY_S: u64 = 300;
/// The end of each phase in which the placer has to be there.
const LAST_S: f64 = 60.0;
/// A placement that does not change: how long before it counts, and for how long it does, in each phase. As long as the
/// placer's last minute: where each column lies on one node and clients are many, they gather at one node or another
/// for tens of seconds, and none has yet done so in the first ones.
const STATIC_S: (f64, f64) = (60.0, 60.0);
/// Pieces of time that throughput is looked at in, so that single statements do not count.
const WINDOW_TICKS: usize = 20;
/// In the first seconds of a phase statements queue up where they will wait: throughput says nothing yet.
const QUEUED_S: f64 = 10.0;

/// A placement that does not change, and what it gave.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// Which.
    pub placement: String,
    /// Statements per second, by phase.
    pub by_phase: Vec<f64>,
    /// The fewest in any ten seconds of it, by phase: what is drawn at random queues here and there for a while.
    pub lowest_by_phase: Vec<f64>,
}

impl Tried {
    fn mean(&self) -> f64 {
        mean(&self.by_phase)
    }
}

/// A decision that was carried out.
#[derive(Clone, Debug, Serialize)]
pub struct Action {
    /// When it was begun, in virtual seconds.
    pub at_s: f64,
    /// When all was there; `None` where the run ended before.
    pub done_s: Option<f64>,
    /// The column.
    pub column: u64,
    /// The nodes that it lay on.
    pub from: Vec<usize>,
    /// Those that it lies on.
    pub to: Vec<usize>,
    /// Why.
    pub why: String,
    /// Bytes that went to another node.
    pub moved_bytes: f64,
}

/// What came of a workload on a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// Placements that do not change.
    pub tried: Vec<Tried>,
    /// The place of the best of them.
    pub best: usize,
    /// Statements per second with the placer, at the end of each phase.
    pub by_phase: Vec<f64>,
    /// Their mean, as a share of the best placement that does not change.
    pub of_best: f64,
    /// The least of them, as a share of that placement in the same phase.
    pub worst_phase: f64,
    /// Seconds until 95% of it, in the phase that took longest; `None` where it never was.
    pub to_near_s: Option<f64>,
    /// Bytes that went to another node.
    pub moved_bytes: f64,
    /// What was done.
    pub actions: Vec<Action>,
    /// Seconds below 95% of round-robin, by columns, while nothing was on its way.
    pub below_rr_s: f64,
    /// What it must come to, and does not.
    pub misses: Vec<String>,
    /// Statements per second over the run, by the end of each piece of time.
    pub over_time: Vec<(f64, f64)>,
}

impl Verdict {
    /// The best placement that does not change.
    pub fn best_static(&self) -> &Tried {
        &self.tried[self.best]
    }
}

/// The mean, 0 of nothing.
fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The placements that do not change that are tried for a workload.
fn statics(case: &Case, nodes: usize) -> Vec<Static> {
    let mut all = vec![Static::RrColumns, Static::RrTables];
    if !all.contains(&case.from) {
        all.push(case.from);
    }
    let mut counts: Vec<usize> = (1..).map(|power| 1 << power).take_while(|count| *count < nodes).collect();
    counts.push(nodes);
    for count in counts {
        all.push(Static::Ivp(count));
        // With a column a table, parts are ranges.
        if case.what.columns.iter().any(|column| column.table > 0) || case.name.starts_with("tpch") {
            all.push(Static::Pp(count));
        }
    }
    all
}

/// Whether nodes with cpus have room for columns that lie so.
fn fits(what: &Placed, lies: &[Ranges], machine: &Machine) -> bool {
    let Some(most) = what.memory_bytes else { return true };
    let taken = |node: usize| -> f64 {
        let of = |(column, ranges): (&Column, &Ranges)| -> f64 {
            ranges.iter().filter(|(other, _)| *other == node).map(|(_, share)| share * column.bytes).sum()
        };
        what.columns.iter().zip(lies).map(of).sum()
    };
    nodes_of(machine).into_iter().all(|node| taken(node) <= most)
}

/// The borders of a workload's phases, in seconds.
fn phases(what: &Placed) -> Vec<(f64, f64)> {
    let mut begin = 0.0;
    let end = |until_ns: u64| if until_ns == u64::MAX { STEADY_S as f64 } else { until_ns as f64 / 1e9 };
    what.phases
        .iter()
        .map(|phase| {
            let of = (begin, end(phase.until_ns));
            begin = of.1;
            of
        })
        .collect()
}

/// Runs a workload under all placements that do not change, and with the placer.
///
/// # Errors
/// The simulator's.
pub fn judge(case: &Case, machine: &Machine, options: &Options) -> Result<Verdict, SimError> {
    let nodes = &case.nodes;
    let borders = phases(&case.what);
    let mut tried = Vec::new();
    for placement in statics(case, nodes.len()) {
        if fits(&case.what, &placement.ranges(&case.what.columns, nodes), machine) {
            tried.push(of_static(&case.what, placement, (machine, options), nodes)?);
        }
    }
    let mut best = 0;
    for (place, of) in tried.iter().enumerate() {
        // Of equals the simplest.
        if of.mean() > (1.0 + SAME) * tried[best].mean() {
            best = place;
        }
    }
    let end_s = borders.last().map_or(0.0, |(_, end)| *end);
    let what = Placed { period_ns: Some(PERIOD_NS), ..case.what.clone() };
    let tick_s = what.tick_ns as f64 / 1e9;
    let mut clients = PlacedClients::new(what, machine);
    let options = Options { warm_up_ns: 0, measured_ns: (end_s * 1e9) as u64, ..options.clone() };
    sim::run(machine, &options, &mut clients)?;
    let ticks: Vec<f64> =
        clients.ticks().iter().take((end_s / tick_s) as usize).map(|tick| tick.statements as f64 / tick_s).collect();
    let at = |second: f64| ((second / tick_s) as usize).min(ticks.len());
    let by_phase: Vec<f64> =
        borders.iter().map(|(begin, end)| mean(&ticks[at((end - LAST_S).max(*begin))..at(*end)])).collect();
    let of_best = mean(&by_phase) / tried[best].mean();
    let shares = by_phase.iter().zip(&tried[best].by_phase).map(|(ours, theirs)| ours / theirs);
    let worst_phase = shares.fold(f64::INFINITY, f64::min);
    let to_near = |((begin, end), best): (&(f64, f64), &f64)| -> Option<f64> {
        let windows = ticks[at(*begin)..at(*end)].windows(WINDOW_TICKS);
        windows.enumerate().find(|(_, of)| mean(of) >= NEAR * best).map(|(place, _)| place as f64 * tick_s)
    };
    let to_near_s: Option<Vec<f64>> = borders.iter().zip(&tried[best].by_phase).map(to_near).collect();
    let to_near_s = to_near_s.map(|of| of.into_iter().fold(0.0, f64::max));
    let actions: Vec<Action> = clients.log().iter().map(action).collect();
    let below_rr_s = below(&ticks, tick_s, &borders, &tried[0].lowest_by_phase, &actions);
    let over_time = ticks.iter().enumerate().map(|(place, of)| ((place + 1) as f64 * tick_s, *of)).collect();
    let mut verdict = Verdict {
        workload: case.name.clone(),
        machine: machine.name().to_string(),
        tried,
        best,
        by_phase,
        of_best,
        worst_phase,
        to_near_s,
        moved_bytes: actions.iter().map(|action| action.moved_bytes).fold(0.0, |sum, bytes| sum + bytes),
        actions,
        below_rr_s,
        misses: Vec::new(),
        over_time,
    };
    verdict.misses = misses(&verdict, case, clients.log());
    Ok(verdict)
}

/// A placement that does not change, phase by phase: it remembers nothing, so each can be run by itself.
fn of_static(
    what: &Placed,
    placement: Static,
    (machine, options): (&Machine, &Options),
    nodes: &[usize],
) -> Result<Tried, SimError> {
    let (mut by_phase, mut lowest_by_phase) = (Vec::new(), Vec::new());
    for phase in &what.phases {
        let phases = vec![sim::workload::placed::Phase { until_ns: u64::MAX, weights: phase.weights.clone() }];
        let lies = placement.ranges(&what.columns, nodes);
        let mut clients = PlacedClients::new(Placed { phases, lies, period_ns: None, ..what.clone() }, machine);
        let (before, counted_s) = STATIC_S;
        let options =
            Options { warm_up_ns: (before * 1e9) as u64, measured_ns: (counted_s * 1e9) as u64, ..options.clone() };
        by_phase.push(sim::run(machine, &options, &mut clients)?.statements_per_second());
        let tick_s = what.tick_ns as f64 / 1e9;
        let counted = &clients.ticks()[(before / tick_s) as usize..];
        let windows = counted[..counted.len().min((counted_s / tick_s) as usize)].windows(WINDOW_TICKS);
        let rates =
            windows.map(|of| of.iter().map(|tick| tick.statements).sum::<u64>() as f64 / tick_s / of.len() as f64);
        lowest_by_phase.push(rates.fold(f64::INFINITY, f64::min));
    }
    Ok(Tried { placement: name_of(placement), by_phase, lowest_by_phase })
}

/// What a placement is called.
pub fn name_of(placement: Static) -> String {
    match placement {
        Static::RrColumns => "rr by column".to_string(),
        Static::RrTables => "rr by table".to_string(),
        Static::Blocks => "blocks".to_string(),
        Static::Ivp(ranges) => format!("ivp {ranges}"),
        Static::Pp(parts) => format!("pp {parts}"),
    }
}

fn action(of: &Carried) -> Action {
    Action {
        at_s: of.begun_ns as f64 / 1e9,
        done_s: of.done_ns.map(|ns| ns as f64 / 1e9),
        column: of.decision.item.number,
        from: of.decision.from.clone(),
        to: of.decision.to.clone(),
        why: of.decision.reason.to_string(),
        moved_bytes: of.moved_bytes,
    }
}

/// Seconds below 95% of the least that round-robin has while nothing was on its way, once it was there in a phase: a
/// run that begins with less has only what moves to become better.
fn below(ticks: &[f64], tick_s: f64, borders: &[(f64, f64)], rr: &[f64], actions: &[Action]) -> f64 {
    let is_moving = |begin: f64, end: f64| {
        let reaches = |action: &Action| action.done_s.unwrap_or(f64::INFINITY) + 2.0 * tick_s;
        actions.iter().any(|action| action.at_s - tick_s < end && reaches(action) > begin)
    };
    let mut below_s = 0.0;
    for ((begin, end), rr) in borders.iter().zip(rr) {
        let mut was_there = false;
        for (place, of) in ticks.windows(WINDOW_TICKS).enumerate() {
            let second = place as f64 * tick_s;
            let until = second + WINDOW_TICKS as f64 * tick_s;
            if second < *begin || until > *end {
                continue;
            }
            let is_below = of.iter().sum::<f64>() / (of.len() as f64) < NEAR * rr;
            was_there |= !is_below && second >= begin + QUEUED_S;
            below_s += if is_below && was_there && !is_moving(second, until) { tick_s } else { 0.0 };
        }
    }
    below_s
}

/// What must hold and does not.
fn misses(verdict: &Verdict, case: &Case, log: &[Carried]) -> Vec<String> {
    let mut misses = Vec::new();
    let phases = case.what.phases.len();
    // Columns lie in turn from the beginning, and neither what was tried nor what the placer made of it is better.
    let is_better = verdict.of_best > 1.0 + SAME;
    let is_best_already = phases == 1 && case.from == Static::RrColumns && verdict.best == 0 && !is_better;
    if verdict.of_best < NEAR {
        misses.push(format!("{:.2} of the best placement that does not change", verdict.of_best));
    }
    if (case.must == Must::LeaveAlone || is_best_already) && !verdict.actions.is_empty() {
        misses.push(format!("{} actions where round-robin is the best", verdict.actions.len()));
    }
    if verdict.below_rr_s > 1.0 {
        misses.push(format!("{:.1} s below 95% of round-robin while nothing moved", verdict.below_rr_s));
    }
    for (place, later) in log.iter().enumerate() {
        let is_back = |earlier: &&Carried| {
            let soon = later.period < earlier.period + RETURN_PERIODS;
            earlier.decision.item == later.decision.item
                && equal(&earlier.decision.from) == equal(&later.decision.to)
                && soon
        };
        if phases == 1 && log[..place].iter().any(|earlier| is_back(&earlier)) {
            misses.push(format!("column {} went back within ten periods", later.decision.item.number));
        }
    }
    misses
}
