//! What no paper prints of its machine or of its system and is simulated all the same, each by name.
//!
//! Assumptions are data (`data/assumptions.toml`): of machines, for every experiment on them, or of a paper's system,
//! for points whose `system` names it. An assumption gives constants of the simulator and settings their values. A
//! claim that one was chosen by is *fitted*: it repeats nothing, whatever comes of it.
//!
//! Invariants: none is of a single claim; each says why. A setting that a point gives itself is the point's. Without a
//! `system` nothing of any system is assumed: then it is this product that is simulated.
//!
//! # Limits
//! Only the simulator assumes; what is measured is this product, on the machine at hand.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sim::Constants;
use toml::Table;

use crate::declaration::Point;
use crate::result::{as_json, shown};

/// The assumptions, as text.
const ASSUMPTIONS: &str = include_str!("../data/assumptions.toml");

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What it is called.
    pub name: String,
    /// The machines that it is of.
    #[serde(default)]
    pub machines: Vec<String>,
    /// The systems that it is of, as points have them in `system`.
    #[serde(default)]
    pub systems: Vec<String>,
    /// Constants of the simulator, with their values.
    #[serde(default)]
    pub constants: Table,
    /// Settings, with their values.
    #[serde(default)]
    pub settings: Table,
    /// The source, or how the value was chosen.
    pub because: String,
    /// The claims that it was chosen by.
    #[serde(default)]
    pub fitted: Vec<String>,
}

impl Assumption {
    /// Whether it is of this point's machine or system.
    pub fn is_of(&self, point: &Point) -> bool {
        let used = &point.settings.machine;
        self.machines.contains(&used.machine) || self.systems.contains(&used.system)
    }

    /// `dispatching: dispatch_us = 17`.
    pub fn told(&self) -> String {
        let values: Table = self.constants.iter().chain(&self.settings).map(|(k, v)| (k.clone(), v.clone())).collect();
        let all: Vec<String> =
            as_json(&values).iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
        format!("{}: {}", self.name, all.join(", "))
    }
}

/// All assumptions.
///
/// # Panics
/// The text in the program is wrong: a test sees to it that it is not.
pub fn assumptions() -> &'static [Assumption] {
    static ALL: OnceLock<Vec<Assumption>> = OnceLock::new();
    ALL.get_or_init(|| parse(ASSUMPTIONS).expect("the list of assumptions is right"))
}

fn parse(text: &str) -> Result<Vec<Assumption>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        assumption: Vec<Assumption>,
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for one in &file.assumption {
        if one.machines.is_empty() == one.systems.is_empty() {
            return Err(format!("'{}' must be of machines, or of systems", one.name));
        }
        assumed_constants(&Constants::default(), std::slice::from_ref(one))?;
    }
    Ok(file.assumption)
}

/// Those of a point.
pub fn of_point(point: &Point) -> impl Iterator<Item = &'static Assumption> {
    assumptions().iter().filter(|one| one.is_of(point))
}

/// Constants with what is assumed of a point's machine and system; what they were scaled by before, they still are.
///
/// # Errors
/// A constant that there is not, or a value that is no number above zero.
pub(crate) fn constants_of(constants: &Constants, point: &Point) -> Result<Constants, String> {
    let of: Vec<Assumption> = of_point(point).cloned().collect();
    assumed_constants(constants, &of)
}

fn assumed_constants(constants: &Constants, of: &[Assumption]) -> Result<Constants, String> {
    let mut assumed = constants.unread();
    for (name, value) in of.iter().flat_map(|one| &one.constants) {
        let wrong = || format!("{name} = {value:?}: it must be a constant of the simulator, with a number above 0");
        let usual = Constants::default().get(name).ok_or_else(wrong)?;
        let value = value.as_float().or(value.as_integer().map(|number| number as f64)).ok_or_else(wrong)?;
        assumed = assumed.scaled(name, value / usual).ok_or_else(wrong)?;
    }
    Ok(assumed)
}

/// A point with what is assumed in place of settings that were left to their defaults.
///
/// # Errors
/// A value that a setting cannot take.
pub(crate) fn settings_of(point: &Point) -> Result<Point, String> {
    let settings: Table = of_point(point).flat_map(|one| one.settings.clone()).collect();
    if settings.is_empty() { Ok(point.clone()) } else { point.with_defaults(&settings) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::claims;
    use crate::declaration::{Experiment, Workload};

    fn point(id: &str, set: &str) -> Point {
        Experiment::find(id).expect("ours").point_with(&toml::from_str(set).expect("toml")).expect("sound")
    }

    #[test]
    fn every_assumption_is_of_something_that_is_simulated_and_fitted_by_claims_that_there_are() {
        let all = assumptions();
        let rows = claims().expect("the list is right");
        let points: Vec<Point> = Experiment::all()
            .iter()
            .flat_map(|experiment| experiment.grid_with(&Table::new()).expect("sound"))
            .collect();
        for one in all {
            assert!(points.iter().any(|point| one.is_of(point)), "{}: nothing is run so", one.name);
            assert!(one.fitted.iter().all(|id| rows.iter().any(|row| row.id == *id)), "{}", one.name);
            for setting in one.settings.keys() {
                let takes = |point: &&Point| one.is_of(point) && point.named.contains_key(setting);
                assert!(points.iter().any(|point| takes(&point)), "{}: nothing has {setting}", one.name);
            }
        }
    }

    #[test]
    fn what_is_assumed_of_a_system_is_neither_of_the_product_nor_in_place_of_what_is_set() {
        let dispatch_us = |set: &str| match settings_of(&point("vldb2015/fig12", set)).expect("sound").settings.workload
        {
            Workload::Columns(columns) => columns.dispatch_us,
            other => panic!("{other:?}"),
        };
        assert_eq!(dispatch_us(""), 17.0);
        assert_eq!(dispatch_us("system = ''"), 0.0);
        assert_eq!(dispatch_us("dispatch_us = 3.0"), 3.0);
    }

    #[test]
    fn what_is_assumed_of_a_machine_is_scaled_with_the_constant() {
        let usual = Constants::default();
        let here = constants_of(&usual, &point("vldb2015/fig12", "system = ''")).expect("sound");
        assert_eq!(here.get("remote_at_controller"), Some(2.0));
        let more = usual.scaled("remote_at_controller", 1.5).expect("listed");
        let more = constants_of(&more, &point("vldb2015/fig12", "")).expect("sound");
        assert_eq!(more.get("remote_at_controller"), Some(3.0));
        let other = constants_of(&usual, &point("vldb2015/fig09", "")).expect("sound");
        assert_eq!(other.get("remote_at_controller"), usual.get("remote_at_controller"));
    }

    /// All nodes read from all: what is left of remote bandwidths once waits and load agree.
    #[test]
    fn the_queues_of_full_links_are_computed() {
        const SERVICE_NS: f64 = 9.0 * 8.0 / 12.8;
        let machine = sim::Machine::parse("westmere-ex-8").expect("published");
        let nodes = machine.node_count();
        let remote = 1..nodes;
        let hops = |to: usize| machine.hops(0, to);
        let snoops = 2.0 * remote.clone().map(hops).sum::<f64>();
        let of_fabric = (0..nodes).map(|to| 1.0 + 9.0 * hops(to) / snoops).sum::<f64>() / nodes as f64;
        // Seconds that a node takes for a byte of each other one.
        let takes = |wait_ns: f64| {
            let pair = |to: usize| (1.0 + hops(to) * wait_ns / machine.latency_ns(0, to)) / machine.bandwidth(0, to);
            remote.clone().map(pair).sum::<f64>()
        };
        let mut left = 1.0;
        for _ in 0..100 {
            let read = (nodes * nodes) as f64 * left / takes(0.0);
            let load = read * of_fabric / machine.total_local();
            let wait_ns = SERVICE_NS * load / (2.0 * (1.0 - load));
            left = (left + takes(0.0) / takes(wait_ns)) / 2.0;
        }
        let of = assumptions().iter().find(|one| one.name == "queues of full links").expect("listed");
        let assumed = of.constants["remote_under_load"].as_float().expect("a number");
        assert!((left - assumed).abs() < 0.002, "{left} and {assumed}");
    }

    #[test]
    fn an_assumption_that_makes_no_sense_is_refused() {
        let told = |of: &str| {
            let text = format!("[[assumption]]\nname = 'n'\nbecause = 'b'\n{of}");
            parse(&text).expect_err(of)
        };
        assert!(told("").contains("must be of machines, or of systems"));
        assert!(told("systems = ['s']\nmachines = ['m']").contains("must be of machines, or of systems"));
        assert!(told("systems = ['s']\nconstants = { luck = 1.0 }").contains("luck"));
        assert!(told("systems = ['s']\nconstants = { task_ns = 0.0 }").contains("above 0"));
        assert!(told("systems = ['s']\nclaim = 'V1'").contains("claim"));
    }
}
