//! Where demand and bandwidth meet: stretches and sibling loads of everybody at one moment.
//!
//! Without SMT and remote memory one equation is solved, for the demand on the local curve. With them, that is repeated
//! with the siblings' loads and the links' stretches of the round before, until nothing moves any more.

use super::party::{LocalDemand, Party};
use super::{DemandRule, Hogs, Machine, overlap};
use crate::job::Conditions;

/// Rounds after which it is accepted as it is; each halves the error at least on the machines of the papers.
const ROUNDS_MAX: usize = 100;
/// Relative change at which a round has settled.
const SETTLED: f64 = 1e-12;

/// What rounding leaves of nothing, as a share of what is added up.
const NOTHING: f64 = 1e-14;

/// The answer: conditions of each party, the demand on the local curve, and how much longer a memory hog's transfers
/// take.
pub(super) struct Balance {
    pub(super) now: Vec<Conditions>,
    pub(super) demand: f64,
    pub(super) hog_stretch: f64,
}

impl Machine {
    pub(super) fn solve(&self, parties: &[Party], hogs: Hogs) -> Balance {
        let mut links: Vec<f64> = self.remote.iter().map(|curve| curve.stretch(0.0)).collect();
        let mut siblings = vec![0.0; parties.len()];
        let uses_links = parties.iter().any(|party| party.job.remote.iter().any(|&share| share > 0.0));
        let uses_siblings = self.cores < self.cpus && parties.iter().any(|party| party.job.smt > 0.0);
        let mut local = self.meet_local(parties, &siblings, &links, hogs);
        if uses_links || uses_siblings {
            for _ in 0..ROUNDS_MAX {
                let before = (local.stretches, links.clone(), siblings.clone());
                if uses_siblings {
                    siblings = self.sibling_loads(parties, &before.0, &links, hogs);
                }
                if uses_links {
                    for class in 0..links.len() {
                        links[class] = self.meet_link(class, parties, &siblings, &before.0, &links);
                    }
                }
                local = self.meet_local(parties, &siblings, &links, hogs);
                let all = |now: &[f64], before: &[f64]| now.iter().zip(before).all(|(&a, &b)| settled(a, b));
                let stands = all(&local.stretches, &before.0) && all(&links, &before.1) && all(&siblings, &before.2);
                if stands {
                    break;
                }
            }
        }
        let now = conditions(parties, &siblings, &local.stretches, &links);
        Balance { now, demand: local.demand, hog_stretch: local.hog_stretch }
    }

    /// The demand on the local curve, and each party's stretch there.
    fn meet_local(&self, parties: &[Party], siblings: &[f64], links: &[f64], hogs: Hogs) -> LocalDemand {
        let alike = |demand: f64| {
            let stretch = self.local.stretch(demand);
            LocalDemand { demand, stretches: vec![stretch; parties.len()], hog_stretch: stretch }
        };
        match self.rule {
            DemandRule::Requested => alike(requested(parties) + hogs.memory),
            DemandRule::Waiting => alike(self.waiting(parties, siblings, links, hogs)),
            DemandRule::Overlap => overlap::meet(&self.local, parties, siblings, links, hogs),
        }
    }

    fn waiting(&self, parties: &[Party], siblings: &[f64], links: &[f64], hogs: Hogs) -> f64 {
        let moved = |local: f64| -> f64 {
            let work = |(party, &sibling): (&Party, &f64)| {
                party.job.demand() * party.pace(Conditions { stretch: party.stretch(local, links), sibling })
            };
            parties.iter().zip(siblings).map(work).sum()
        };
        let most = parties.iter().map(|party| party.cpus).sum::<f64>() + hogs.memory;
        meet(most, |demand| {
            let share = self.local.share(demand);
            self.local.bandwidth(demand) - moved(1.0 / share) - hogs.memory * share
        })
    }

    /// The stretch of class `class`, if everything else stays.
    fn meet_link(&self, class: usize, parties: &[Party], siblings: &[f64], local: &[f64], links: &[f64]) -> f64 {
        let curve = &self.remote[class];
        let share_of = |party: &Party| party.job.remote.get(class).copied().unwrap_or(0.0);
        let all = parties.iter().zip(siblings).zip(local).map(|((&party, &sibling), &local)| (party, sibling, local));
        let users: Vec<(Party, f64, f64)> = all.filter(|(party, ..)| share_of(party) > 0.0).collect();
        if self.rule == DemandRule::Requested {
            return curve.stretch(users.iter().map(|(p, ..)| p.cpus * p.job.demand() * share_of(p)).sum());
        }
        let mut links = links.to_vec();
        let most = users.iter().map(|(party, ..)| party.cpus).sum();
        let demand = meet(most, |demand| {
            links[class] = curve.stretch(demand);
            let moved = |&(party, sibling, local): &(Party, f64, f64)| {
                let now = Conditions { stretch: party.stretch(local, &links), sibling };
                share_of(&party) * party.job.demand() * party.pace(now)
            };
            curve.bandwidth(demand) - users.iter().map(moved).sum::<f64>()
        });
        curve.stretch(demand)
    }

    /// How busy each party's sibling is computing: is there one, times how busy the others are.
    fn sibling_loads(&self, parties: &[Party], local: &[f64], links: &[f64], hogs: Hogs) -> Vec<f64> {
        let idle = vec![0.0; parties.len()];
        let now = conditions(parties, &idle, local, links);
        let threads: Vec<f64> = parties.iter().zip(&now).map(|(party, &now)| party.threads(now)).collect();
        let busy: Vec<f64> =
            parties.iter().zip(&now).zip(&threads).map(|((party, now), &n)| party.job.busy(n, now.stretch)).collect();
        let all = threads.iter().sum::<f64>() + hogs.memory + hogs.computing;
        let computing = threads.iter().zip(&busy).map(|(n, busy)| n * busy).sum::<f64>() + hogs.computing;
        // Threads that have a sibling, of all: those beyond the cores, and whom they joined.
        let paired = (2.0 * (all - self.cores) / all).clamp(0.0, 1.0);
        let beside = |(own, n): (&f64, &f64)| {
            let one = n.min(1.0);
            if all > one { (paired * (computing - one * own) / (all - one)).clamp(0.0, 1.0) } else { 0.0 }
        };
        busy.iter().zip(&threads).map(beside).collect()
    }
}

fn conditions(parties: &[Party], siblings: &[f64], local: &[f64], links: &[f64]) -> Vec<Conditions> {
    let all = parties.iter().zip(siblings).zip(local);
    all.map(|((party, &sibling), &local)| Conditions { stretch: party.stretch(local, links), sibling }).collect()
}

fn requested(parties: &[Party]) -> f64 {
    let free = Conditions { stretch: 1.0, sibling: 0.0 };
    parties.iter().map(|party| party.threads(free) * party.job.demand()).sum()
}

fn settled(now: f64, before: f64) -> bool {
    (now - before).abs() <= SETTLED * now.abs().max(1.0)
}

/// Where `excess` rises through 0 between 0 and `most`: halving and secants in turn (Dekker's idea, Dowell and
/// Jarratt's Illinois weighting), so that a kink in a curve costs a few steps and no more.
fn meet(most: f64, mut excess: impl FnMut(f64) -> f64) -> f64 {
    if most.is_nan() || most <= 0.0 {
        return 0.0;
    }
    let mut low = 0.0;
    let mut high = most;
    let mut below = excess(low);
    let mut above = excess(high);
    if below >= 0.0 {
        return low;
    }
    if above <= 0.0 {
        return high;
    }
    // Which end the last step left where it was: +1 the upper, -1 the lower. Left twice running, it counts for half.
    let mut kept = 0;
    for round in 0..200 {
        let middle = match round % 3 {
            2 => (low + high) / 2.0,
            _ => (low * above - high * below) / (above - below),
        };
        // Rounding may put a secant on an end.
        let middle = if middle > low && middle < high { middle } else { (low + high) / 2.0 };
        let at = excess(middle);
        if at.abs() <= NOTHING * most || high - low <= NOTHING * high {
            return middle;
        }
        if at < 0.0 {
            (low, below) = (middle, at);
            above = if kept == 1 { above / 2.0 } else { above };
            kept = 1;
        } else {
            (high, above) = (middle, at);
            below = if kept == -1 { below / 2.0 } else { below };
            kept = -1;
        }
    }
    (low + high) / 2.0
}
