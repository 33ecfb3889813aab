//! What runs a point: the simulator, the model, or a program that measures.
//!
//! Invariants: an engine gives figures of one kind; what it cannot run it refuses with what is missing, it never
//! invents a figure. Simulated and modelled outcomes depend on the settings and the seed alone.

mod modelled;
mod simulated;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use numa::Topology;
use thiserror::Error;

use crate::declaration::Point;
use crate::result::{Outcome, ResultKind};

pub use modelled::ModelEngine;
pub use simulated::SimEngine;

/// Why a point has no figures.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// What it needs is not built yet.
    #[error("not yet: {0}")]
    NotYet(String),
    /// These settings cannot be run so.
    #[error("{0}")]
    Refused(String),
    /// It ran and failed.
    #[error("{0}")]
    Failed(String),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

/// How a point is run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// Decides all that is random.
    pub seed: u64,
    /// How long, in virtual or real seconds.
    pub seconds: f64,
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// Runs points.
pub trait Engine: Sync {
    /// What its figures are.
    fn kind(&self) -> ResultKind;

    /// The name and topology of the machine that the point is run on.
    ///
    /// # Errors
    /// There is no such machine.
    fn machine(&self, point: &Point) -> Result<(String, Topology), RunError>;

    /// Constants that the figures depend on.
    fn constants(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// How many points may run at once; measured ones disturb each other.
    fn parallel_max(&self) -> usize {
        usize::MAX
    }

    /// About how long the machine at hand takes for a point, in a unit of the engine's own: the longest are run first,
    /// so that no thread is left alone with one at the end. Decides nothing but the order.
    fn cost(&self, _: &Point, _: Conditions<'_>) -> f64 {
        0.0
    }

    /// Runs a point.
    ///
    /// # Errors
    /// [`RunError`].
    fn run(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError>;
}

/// What a program that can measure implements: `nearside` itself does, so the lab need not depend on it.
pub trait Measure: Sync {
    /// The machine at hand.
    fn machine(&self) -> (String, Topology);

    /// Runs a point on the machine at hand, scaled to its memory where that is too small; `notes` of the outcome say
    /// so.
    ///
    /// # Errors
    /// [`RunError::Refused`] for what does not make sense here, such as sub-domains on a machine without them.
    fn measure(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError>;
}

/// The engine of a program that measures: one point at a time.
pub struct MeasuredEngine<'a>(pub &'a dyn Measure);

impl Engine for MeasuredEngine<'_> {
    fn kind(&self) -> ResultKind {
        ResultKind::Measured
    }

    fn machine(&self, _: &Point) -> Result<(String, Topology), RunError> {
        Ok(self.0.machine())
    }

    fn parallel_max(&self) -> usize {
        1
    }

    fn run(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        self.0.measure(point, conditions)
    }
}
