//! Demand by chance: how many others are at the memory while one is.
//!
//! Averages say that two threads which each wait half of their time never meet. They do, a quarter of the time. Here
//! each thread is at the memory with the probability that its own time has for it, independently of the others; a
//! thread that arrives finds a random number of others, and its transfers take `(1 + n) / h(1 + n)` as long, on average
//! over them. More waiting makes more waiting, so that the iteration from no waiting at all rises to the answer.
//!
//! # Limits
//! Independence is an approximation: exact answers have a product form (Baskett, Chandy, Muntz, Palacios, 1975), but
//! only for whole threads and without hidden traffic. How near this comes is measured in the tests.

use super::Hogs;
use super::party::{LocalDemand, Party};
use crate::curve::Curve;
use crate::job::Conditions;

/// Rounds after which it is accepted as it is. Each closes a good part of the gap that is left.
const ROUNDS_MAX: usize = 500;
/// Relative change at which the stretches have settled.
const SETTLED: f64 = 1e-11;

/// Each party's stretch, and the threads at the memory on average.
pub(super) fn meet(curve: &Curve, parties: &[Party], siblings: &[f64], links: &[f64], hogs: Hogs) -> LocalDemand {
    let mut stretches = vec![1.0; parties.len()];
    let mut last = stretches.clone();
    let mut threads = Vec::new();
    for round in 0..ROUNDS_MAX {
        threads = presences(parties, siblings, links, &stretches);
        let next: Vec<f64> = (0..parties.len()).map(|index| found(curve, &threads, Some(index), hogs.memory)).collect();
        let older = std::mem::replace(&mut last, std::mem::replace(&mut stretches, next));
        if stretches.iter().zip(&last).all(|(now, last)| (now - last).abs() <= SETTLED * now) {
            break;
        }
        // Two plain rounds say by which ratio the gap closes; the third leaps to where it would be closed.
        if round % 3 == 2 {
            leap(&mut stretches, &last, &older);
        }
    }
    let demand = threads.iter().map(|(count, presence)| count * presence).sum::<f64>() + hogs.memory;
    let hog_stretch = found(curve, &threads, None, (hogs.memory - 1.0).max(0.0));
    LocalDemand { demand, stretches, hog_stretch }
}

/// Of each party: its threads, and the probability that one of them is at the memory if transfers take so long.
fn presences(parties: &[Party], siblings: &[f64], links: &[f64], stretches: &[f64]) -> Vec<(f64, f64)> {
    let at = |((party, &sibling), &local): ((&Party, &f64), &f64)| {
        let stretch = party.stretch(local, links);
        let now = Conditions { stretch, sibling };
        let count = party.threads(now);
        let presence = if count > 0.0 { party.job.demand() * party.pace(now) * stretch / count } else { 0.0 };
        (count, presence.min(1.0))
    };
    parties.iter().zip(siblings).zip(stretches).map(at).collect()
}

/// Aitken's extrapolation of each stretch, where its steps shrink by a ratio that can be told from 1.
fn leap(now: &mut [f64], last: &[f64], older: &[f64]) {
    for (now, (last, older)) in now.iter_mut().zip(last.iter().zip(older)) {
        let step = *now - last;
        let ratio = step / (last - older);
        if ratio.abs() < 0.98 {
            *now += step * ratio / (1.0 - ratio);
        }
    }
}

/// The stretch that one thread finds, a thread of party `own` or a hog: the others are `threads` of each party with
/// their presence, less itself, and hogs.
fn found(curve: &Curve, threads: &[(f64, f64)], own: Option<usize>, hogs: f64) -> f64 {
    // Whole hogs are always there: they only move the numbers up.
    let always = hogs.floor();
    let mut others = Vec::with_capacity(1 + threads.len());
    others.push(1.0);
    present(&mut others, hogs - always, 1.0);
    for (index, &(count, presence)) in threads.iter().enumerate() {
        let itself = if own == Some(index) { count.min(1.0) } else { 0.0 };
        present(&mut others, count - itself, presence);
    }
    others.iter().enumerate().map(|(n, chance)| chance * curve.stretch(always + (n + 1) as f64)).sum()
}

/// Adds `count` threads, each there with probability `presence`, to the chances of finding 0, 1, .. of them. A part of
/// a thread is a thread with a part of its probability.
fn present(chances: &mut Vec<f64>, count: f64, presence: f64) {
    let mut left = count;
    while left > 0.0 {
        let here = presence * left.min(1.0);
        chances.push(0.0);
        for n in (1..chances.len()).rev() {
            chances[n] = chances[n] * (1.0 - here) + chances[n - 1] * here;
        }
        chances[0] *= 1.0 - here;
        left -= 1.0;
    }
}
