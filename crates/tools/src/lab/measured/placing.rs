//! Placing a table anew (Psaroudakis et al., VLDB 2015, section 6.2.3), measured: how long
//! `ALTER TABLE .. SET PLACEMENT` takes.

use std::time::Instant;

use lab::declaration::{Columns, Placing};
use lab::engine::RunError;
use lab::result::{Metric, Outcome};

use super::columns::{GB, memory_used};
use super::fit::fitted;
use super::places::placement;
use super::{Bench, failed};
use crate::bench::uniform::Uniform;

/// The table that is placed; it goes afterwards.
const TABLE: &str = "lab_placed";

/// Loads columns in turn and places them anew, once.
pub fn run(bench: Bench<'_>, asked: &Placing) -> Result<Outcome, RunError> {
    if bench.nodes.len() < 2 {
        let reason = "placing a table anew takes two nodes; of this machine one is used, where nothing would move";
        return Err(RunError::Refused(reason.to_string()));
    }
    placed(bench, asked)
}

/// The same on any machine.
pub fn placed(bench: Bench<'_>, asked: &Placing) -> Result<Outcome, RunError> {
    let columns = Columns {
        rows: asked.rows,
        columns: asked.columns,
        bits_min: asked.bits_min,
        bits_max: asked.bits_max,
        placement: asked.placement,
        ..Columns::default()
    };
    let fitted = fitted(&columns, bench.memory_bytes, bench.nodes.len());
    let before = Columns { placement: lab::declaration::Placement::Rr, ..columns.clone() };
    let seed = bench.conditions.seed;
    let table = Uniform { table: TABLE.into(), rows: fitted.rows, bits: fitted.bits, seed, keyed: false };
    let texts = [&before, &columns].map(|asked| placement(asked, table.bits.len(), bench.nodes));
    let [before, after] = texts;
    let database = bench.stored.database();
    table.load(database, &before?).map_err(failed)?;
    let session = database.session();
    let text = format!("ALTER TABLE {TABLE} SET PLACEMENT '{}'", after?);
    let begun = Instant::now();
    session.execute(&text).map_err(failed)?;
    let outcome = Outcome::default()
        .with(Metric::RunTime, begun.elapsed().as_secs_f64())
        .with(Metric::MemoryUsed, memory_used(database, TABLE) as f64 / GB);
    session.execute(&format!("DROP TABLE {TABLE}")).map_err(failed)?;
    Ok(Outcome { notes: fitted.note.into_iter().collect(), ..outcome })
}
