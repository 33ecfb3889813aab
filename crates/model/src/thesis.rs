//! The thesis' own figures: measured bandwidth curves, fitted jobs, gains of pairs, and the model's answer to them.
//!
//! [`gains`] computes every `rho_model` of Table 5.2 anew, from Table 5.1 and Table 2.4, as the thesis did: R's default
//! spline through (0, 0) and the measured bandwidth scaled to one thread, extended where `q` is negative, `q`
//! unclamped, half of a node's cpus per job.
//!
//! Source: Seidel 2011, Tables 2.4, 2.5, 5.1 and 5.2 (figures as printed).

#[cfg(test)]
mod tests;

use crate::curve::{Curve, CurveError, Interpolation, Outside};
use crate::pair::rho_model;
use crate::plain::PlainJob;

const LOCAL: &str = include_str!("../data/nbb_table_2_4.csv");
const REMOTE: &str = include_str!("../data/nbb_table_2_5.csv");
const JOBS: &str = include_str!("../data/nbb_table_5_1.csv");
const PAIRS: &str = include_str!("../data/nbb_table_5_2.csv");

/// One of the thesis' two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Four Xeon X7560, eight cores per node; `nbb-xeon-4`.
    Xeon,
    /// Four Opteron 6168, six cores per node; `nbb-opteron-8`.
    Opteron,
}

/// A job as Table 5.1 has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedQuery {
    /// The TPC-H query's number.
    pub query: u32,
    /// Its `q` (a share, not per cent) and `t`.
    pub job: PlainJob,
    /// The fit's sum of squared differences.
    pub squares: f64,
}

/// A pair as Table 5.2 has it, and what this crate computes for it; gains are shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The two queries' numbers.
    pub queries: (u32, u32),
    /// `rho_model` as computed here.
    pub computed: f64,
    /// `rho_model` as printed.
    pub published: f64,
    /// `rho`: what the thesis measured.
    pub measured: f64,
}

impl System {
    /// Both.
    pub const ALL: [System; 2] = [System::Xeon, System::Opteron];

    /// Cores of one node.
    pub fn cores(self) -> f64 {
        match self {
            System::Xeon => 8.0,
            System::Opteron => 6.0,
        }
    }

    /// Measured bandwidth of one node's memory by 1, 2, .. of its threads, in GiB/s (Table 2.4).
    pub fn local_gib_s(self) -> Vec<f64> {
        column(LOCAL, self.of(1, 2))
    }

    /// The same by threads of another node (Table 2.5), by hops: one row, or two.
    pub fn remote_gib_s(self) -> Vec<Vec<f64>> {
        let columns: &[usize] = match self {
            System::Xeon => &[1],
            System::Opteron => &[2, 3],
        };
        columns.iter().map(|&index| column(REMOTE, index)).collect()
    }

    /// The bandwidth function of section 5.1.
    pub fn curve(self) -> Result<Curve, CurveError> {
        Curve::of_threads(&self.local_gib_s(), Interpolation::Spline, Outside::Extend)
    }

    /// Its part of Table 5.1.
    pub fn queries(self) -> Vec<FittedQuery> {
        let at = self.of(1, 4);
        let row = |cells: &[Option<f64>]| {
            let job = PlainJob { q: cells[at]? / 100.0, t_s: cells[at + 1]? };
            Some(FittedQuery { query: cells[0]? as u32, job, squares: cells[at + 2]? })
        };
        rows(JOBS).filter_map(|cells| row(&cells)).collect()
    }

    fn of(self, xeon: usize, opteron: usize) -> usize {
        match self {
            System::Xeon => xeon,
            System::Opteron => opteron,
        }
    }
}

/// Its part of Table 5.2, computed anew beside what is printed.
pub fn gains(system: System) -> Result<Vec<Gain>, CurveError> {
    let curve = system.curve()?;
    let queries = system.queries();
    let half = system.cores() / 2.0;
    let q_of = |number: f64| queries.iter().find(|fitted| f64::from(fitted.query) == number).map(|fitted| fitted.job.q);
    let at = system.of(2, 5);
    let row = |cells: &[Option<f64>]| {
        let one = cells[0]?;
        let two = cells[1]?;
        let computed = rho_model(&curve, (q_of(one)?, half), (q_of(two)?, half));
        let published = cells[at]? / 100.0;
        let measured = cells[at + 1]? / 100.0;
        Some(Gain { queries: (one as u32, two as u32), computed, published, measured })
    };
    Ok(rows(PAIRS).filter_map(|cells| row(&cells)).collect())
}

fn column(table: &str, index: usize) -> Vec<f64> {
    rows(table).filter_map(|cells| cells.get(index).copied().flatten()).collect()
}

/// The cells of each line below the heading; an empty cell is none.
fn rows(table: &str) -> impl Iterator<Item = Vec<Option<f64>>> + '_ {
    table.lines().skip(1).map(|line| line.split(',').map(|cell| cell.trim().parse().ok()).collect())
}
