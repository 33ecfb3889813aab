//! `--machine`: figures of this machine's memory, as `nearside probe --json` wrote them, given to a database.

use nearside::DatabaseBuilder;
use numa::MachineDescription;

use crate::failure::Failure;

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
