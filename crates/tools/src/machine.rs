//! The machine: in one line for reports, and its memory's figures (`--machine`, as `nearside probe --json` wrote them)
//! for a database.

use std::collections::BTreeMap;

use nearside::DatabaseBuilder;
use numa::{MachineDescription, Topology};

use crate::failure::Failure;
use crate::size::human;

/// Gives the figures of a machine's description to a database that is about to start on this machine.
///
/// # Errors
/// There is no such file or name, or it holds no figures; whether they are of this machine is for the database to say.
pub fn with_machine(builder: DatabaseBuilder, machine: Option<&str>) -> Result<DatabaseBuilder, Failure> {
    let Some(machine) = machine else { return Ok(builder) };
    let description = MachineDescription::parse(machine).map_err(|e| Failure::new(e.to_string()))?;
    match description.attributes {
        Some(attributes) => Ok(builder.attributes(attributes)),
        None => Err(Failure::new(format!(
            "'{machine}' has no figures; make a file of them with: nearside probe --json FILE"
        ))),
    }
}

/// The machine in one line: processor, packages, nodes, cpus that may be used, memory.
pub fn describe(topology: &Topology) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let packages = topology.packages().len();
    let nodes = topology.nodes().len();
    let usable = topology.usable_cpus().len();
    let online = topology.online_cpus().len();
    format!(
        "{}: {}, {}, {usable} of {}, {} of memory",
        processor(),
        count(packages, "package"),
        count(nodes, "node"),
        count(online, "cpu"),
        human(topology.memory_bytes())
    )
}

/// The processor's name as the kernel gives it.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let fields: BTreeMap<&str, &str> =
        info.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim())).collect();
    let name = ["model name", "cpu model", "Model"].iter().find_map(|key| fields.get(key)).copied();
    name.filter(|name| !name.is_empty()).map_or_else(|| std::env::consts::ARCH.to_string(), str::to_string)
}
