//! In which order, and how many at a time, a set of jobs should run.
//!
//! [`plan`] simulates candidates with the model (`fluid`) and keeps the best for the objective: as they came, shortest
//! first, longest first, partners with unlike demands side by side, each with one, two, .. jobs at a time; then it
//! exchanges jobs as long as that helps and the number of simulations allows. As they came, one at a time is among the
//! candidates, so by the model it is never worse than that.
//! [`first_come`] is what one has without a model.
//!
//! Section 5.4.1: running together never costs processor time in the model, so makespan and throughput gain from
//! partners that want different things, while the mean response time may suffer from sharing, and gains from short jobs
//! first.
//!
//! Invariants: deterministic; equal scores are decided by which candidate came first.
//!
//! # Limits
//! As good as the jobs' parameters. The set is known at the beginning, arrivals included; what comes unannounced needs
//! a new plan.
//!
//! Source: Seidel 2011, section 5.4.1 (effects on optimisation goals) and chapter 6 (left open).

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::fluid::{FluidError, Item, Outcome, Plan, Sharing, run_checked, run_queue};
use crate::machine::{Hogs, Machine};

/// How often the set is repeated to see its throughput: the last round's end, when fewer jobs run, weighs a quarter
/// then.
const ROUNDS: usize = 4;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The last job ends early.
    Makespan,
    /// Jobs end early after their arrival, on average.
    Response,
    /// The set, repeated, completes many jobs per second.
    Throughput,
}

/// How it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Jobs at a time, at most.
    pub at_once_max: usize,
    /// How cpus are divided among those that run.
    pub sharing: Sharing,
    /// Simulations, at most; candidates are always tried.
    pub simulations_max: usize,
}

impl Default for Search {
    /// Four at a time; 1000 simulations: under a second for 22 jobs on nodes of eight cpus, and within 1% of what four
    /// times as many find there.
    fn default() -> Search {
        Search { at_once_max: 4, sharing: Sharing::Even, simulations_max: 1000 }
    }
}

/// A plan and what the model expects of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoredPlan {
    /// The plan.
    pub plan: Plan,
    /// The set run once by it.
    pub outcome: Outcome,
    /// What was made small: seconds, or seconds per job for throughput.
    pub score: f64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum OrderError {
    /// The jobs or the machine.
    #[error(transparent)]
    Fluid(#[from] FluidError),
    /// Nobody may run.
    #[error("at least one job at a time has to be allowed")]
    NoneAtOnce,
}

/// The search as it stands.
struct Seeker<'a> {
    machine: &'a Machine,
    items: &'a [Item],
    objective: Objective,
    simulations_left: usize,
    best: Option<(Plan, f64)>,
}

impl Seeker<'_> {
    /// Simulates a plan; whether it is the best so far.
    fn is_best(&mut self, plan: Plan) -> bool {
        self.simulations_left = self.simulations_left.saturating_sub(1);
        let score = score(self.machine, self.items, &plan, self.objective);
        let is_best = self.best.as_ref().is_none_or(|(_, best)| score < *best);
        if is_best {
            self.best = Some((plan, score));
        }
        is_best
    }

    fn end(self) -> Result<ScoredPlan, OrderError> {
        let (plan, score) = self.best.ok_or(OrderError::NoneAtOnce)?;
        let outcome = run_checked(self.machine, self.items, &plan);
        Ok(ScoredPlan { plan, outcome, score })
    }
}

/// What the objective makes of a plan that has been checked; less is better.
fn score(machine: &Machine, items: &[Item], plan: &Plan, objective: Objective) -> f64 {
    match objective {
        Objective::Makespan => run_checked(machine, items, plan).makespan_s,
        Objective::Response => run_checked(machine, items, plan).response_s,
        Objective::Throughput => {
            let count = items.len() * ROUNDS;
            let again: Vec<Item> = items.iter().cycle().take(count).cloned().collect();
            let rounds = (0..ROUNDS).flat_map(|round| plan.order.iter().map(move |&index| round * items.len() + index));
            let repeated = Plan { order: rounds.collect(), ..plan.clone() };
            run_checked(machine, &again, &repeated).makespan_s / count.max(1) as f64
        }
    }
}

/// Jobs in the order in which they came, `at_once` at a time.
pub fn first_come(
    machine: &Machine,
    items: &[Item],
    objective: Objective,
    at_once: usize,
    sharing: Sharing,
) -> Result<ScoredPlan, OrderError> {
    let plan = Plan { at_once, sharing, order: by(items, |item, _| item.arrives_s) };
    let outcome = run_queue(machine, items, &plan)?;
    let score = score(machine, items, &plan, objective);
    Ok(ScoredPlan { plan, outcome, score })
}

/// A good plan; see the module.
pub fn plan(machine: &Machine, items: &[Item], objective: Objective, search: Search) -> Result<ScoredPlan, OrderError> {
    let (mut seeker, at_once_max) = begin(machine, items, objective, search)?;
    let all_s = |item: &Item| machine.time_s(&item.job, machine.cpus, Hogs::default());
    let times: Vec<f64> = items.iter().map(all_s).collect();
    let orders = [
        by(items, |item, _| item.arrives_s),
        by(items, |_, index| times[index]),
        by(items, |_, index| -times[index]),
        alternating(items),
    ];
    for at_once in 1..=at_once_max {
        for order in &orders {
            seeker.is_best(Plan { at_once, sharing: search.sharing, order: order.clone() });
        }
    }
    improve(&mut seeker, at_once_max);
    seeker.end()
}

fn begin<'a>(
    machine: &'a Machine,
    items: &'a [Item],
    objective: Objective,
    search: Search,
) -> Result<(Seeker<'a>, usize), OrderError> {
    let as_given = Plan { at_once: 1, sharing: search.sharing, order: (0..items.len()).collect() };
    run_queue(machine, items, &as_given)?;
    let at_once_max = search.at_once_max.min(machine.cpus as usize).min(items.len().max(1));
    if at_once_max == 0 {
        return Err(OrderError::NoneAtOnce);
    }
    Ok((Seeker { machine, items, objective, simulations_left: search.simulations_max, best: None }, at_once_max))
}

/// Indices of jobs, least key first; equals stay as they were.
pub(crate) fn by(items: &[Item], key: impl Fn(&Item, usize) -> f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&a, &b| key(&items[a], a).total_cmp(&key(&items[b], b)));
    order
}

/// The most and the least demanding jobs in turn.
fn alternating(items: &[Item]) -> Vec<usize> {
    let sorted = by(items, |item, _| -item.job.demand());
    let (high, low) = sorted.split_at(sorted.len().div_ceil(2));
    let mut order = Vec::with_capacity(sorted.len());
    for (at, &index) in high.iter().enumerate() {
        order.push(index);
        order.extend(low.len().checked_sub(at + 1).map(|from_end| low[from_end]));
    }
    order
}

/// Exchanges two jobs, moves one, or changes the number of at_once, as long as something helps.
fn improve(seeker: &mut Seeker, at_once_max: usize) {
    loop {
        let Some((from, _)) = seeker.best.clone() else { return };
        let count = from.order.len();
        let mut helped = false;
        let exchanges = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b, false)));
        let moves =
            (0..count).flat_map(|a| (0..count).map(move |b| (a, b, true))).filter(|&(a, b, _)| a.abs_diff(b) > 1);
        for (a, b, moved) in exchanges.chain(moves) {
            for at_once in 1..=at_once_max {
                if seeker.simulations_left == 0 {
                    return;
                }
                let mut plan = Plan { at_once, ..from.clone() };
                if moved {
                    let index = plan.order.remove(a);
                    plan.order.insert(b, index);
                } else {
                    plan.order.swap(a, b);
                }
                helped |= seeker.is_best(plan);
            }
        }
        if !helped {
            return;
        }
    }
}
