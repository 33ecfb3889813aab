//! Points on the simulator: settings become a machine, a workload of clients and the settings of the scheduler.

use std::collections::BTreeMap;

use numa::Topology;
use sim::{Constants, Machine};

use super::{Conditions, Engine, RunError};
use crate::declaration::{Cores, MachineUse, Point};
use crate::result::{Kind, Outcome};

/// The simulator as an engine.
#[derive(Clone, Debug, Default)]
pub struct SimEngine {
    constants: Constants,
}

impl SimEngine {
    /// A simulator with these constants.
    pub fn new(constants: Constants) -> SimEngine {
        SimEngine { constants }
    }
}

impl Engine for SimEngine {
    fn kind(&self) -> Kind {
        Kind::Simulated
    }

    fn machine(&self, point: &Point) -> Result<(String, Topology), RunError> {
        let used = &point.settings.machine;
        Ok((used.machine.clone(), machine_of(used)?.topology().as_ref().clone()))
    }

    fn constants(&self) -> BTreeMap<String, f64> {
        let named = Constants::NAMES.iter().filter_map(|name| Some((name.to_string(), self.constants.get(name)?)));
        named.collect()
    }

    fn run(&self, _: &Point, _: Conditions<'_>) -> Result<Outcome, RunError> {
        Err(RunError::NotYet("the simulator does not run this kind of work".to_string()))
    }
}

fn machine_of(used: &MachineUse) -> Result<Machine, RunError> {
    if used.cores == Cores::Half {}
    Machine::parse(&used.machine).map_err(|error| RunError::Refused(error.to_string()))
}
