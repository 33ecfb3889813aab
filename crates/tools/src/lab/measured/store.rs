//! The database of measured points: its tables, sessions and queries, kept from point to point while there is room.
//!
//! Invariants: the same data under the same placement are loaded once; one session per set of settings, so that its
//! plans are kept.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::declaration::{Columns, Strategy};
use lab::engine::RunError;
use nearside::{Database, Session};
use numa::{CpuId, Topology};

use super::failed;
use crate::bench::clients::Query;
use crate::bench::uniform::Uniform;

/// Tables go, the one unused for longest first, until they take no more than this share of the database's memory.
const KEPT_SHARE: f64 = 0.5;
/// Ranges of queries over all columns together: fewer than the plans that a database keeps.
const QUERIES_MAX: usize = 256;
/// Ranges per column at most.
const RANGES_MAX: usize = 16;

/// A database with what earlier points left.
pub struct KeptDatabase {
    database: Database,
    cpus: Vec<CpuId>,
    tables: Vec<Table>,
    sessions: BTreeMap<String, Session>,
    /// Numbers tables and the times that they are used.
    clock: u64,
}

struct Table {
    uniform: Uniform,
    placement: String,
    indexed: bool,
    used: u64,
    /// By selectivity, as bits of the number: columns in turn, the same number of ranges for each.
    queries: BTreeMap<u64, Vec<Query>>,
}

impl KeptDatabase {
    /// An empty database over the part of a machine that has these cpus.
    pub fn new(topology: Topology, cpus: &[CpuId]) -> Result<KeptDatabase, RunError> {
        let database = Database::builder().topology(topology).build().map_err(failed)?;
        let tables = Vec::new();
        let sessions = BTreeMap::new();
        Ok(KeptDatabase { database, cpus: cpus.to_vec(), tables, sessions, clock: 0 })
    }

    /// The cpus that it works on.
    pub fn cpus(&self) -> &[CpuId] {
        &self.cpus
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The session with the settings of these queries.
    pub fn session(&mut self, asked: &Columns) -> Result<Session, RunError> {
        let scheduling = match asked.strategy {
            Strategy::Os => "os",
            Strategy::Target => "target",
            Strategy::Bound => "bound",
        };
        let settings = format!(
            "SET nearside.scheduling = '{scheduling}'; SET nearside.parallelism = {}; SET nearside.index_lookups = {}; \
             SET nearside.block_skipping = {}",
            u32::from(!asked.parallel),
            asked.index,
            asked.pruning
        );
        self.session_with(&settings)
    }

    /// The session in which these statements were run first.
    pub fn session_with(&mut self, settings: &str) -> Result<Session, RunError> {
        if let Some(session) = self.sessions.get(settings) {
            return Ok(session.clone());
        }
        let session = self.database.session();
        session.execute(settings).map_err(failed)?;
        self.sessions.insert(settings.to_string(), session.clone());
        Ok(session)
    }

    /// Sees that there is a table of these rows and columns under this placement; gives its name.
    pub fn loaded(&mut self, table: &Uniform, placement: &str) -> Result<&str, RunError> {
        let at = self.place_of(table, placement)?;
        Ok(&self.tables[at].uniform.table)
    }

    fn place_of(&mut self, table: &Uniform, placement: &str) -> Result<usize, RunError> {
        self.clock += 1;
        let same = |kept: &Table| {
            let named = Uniform { table: kept.uniform.table.clone(), ..table.clone() };
            kept.placement == placement && kept.uniform == named
        };
        let at = match self.tables.iter().position(same) {
            Some(at) => at,
            None => {
                self.make_room()?;
                let uniform = Uniform { table: format!("lab_{}", self.clock), ..table.clone() };
                uniform.load(&self.database, placement).map_err(failed)?;
                let placement = placement.to_string();
                let used = self.clock;
                self.tables.push(Table { uniform, placement, indexed: false, used, queries: BTreeMap::new() });
                self.tables.len() - 1
            }
        };
        self.tables[at].used = self.clock;
        Ok(at)
    }

    /// As [`KeptDatabase::loaded`], with indexes if queries need them; gives its name and its queries, columns in turn,
    /// the same number of ranges for each.
    pub fn table(
        &mut self,
        table: &Uniform,
        placement: &str,
        asked: &Columns,
        stop: &AtomicBool,
    ) -> Result<(&str, &[Query]), RunError> {
        let at = self.place_of(table, placement)?;
        let session = self.database.session();
        let kept = &mut self.tables[at];
        if asked.index && !kept.indexed {
            for column in 0..kept.uniform.bits.len() {
                go_on(stop)?;
                session.execute(&format!("CREATE INDEX ON {} (c{column})", kept.uniform.table)).map_err(failed)?;
            }
            kept.indexed = true;
        }
        let key = asked.selectivity.to_bits();
        if !kept.queries.contains_key(&key) {
            let queries = queries(&kept.uniform, &session, asked.selectivity, stop)?;
            kept.queries.insert(key, queries);
        }
        Ok((&kept.uniform.table, &kept.queries[&key]))
    }

    /// Drops tables until another one of the largest one's size has room.
    fn make_room(&mut self) -> Result<(), RunError> {
        let budget = self.database.budget();
        let most = (budget.limit_bytes().unwrap_or(u64::MAX) as f64 * KEPT_SHARE) as u64;
        while budget.used_bytes() > most
            && let Some(at) = (0..self.tables.len()).min_by_key(|at| self.tables[*at].used)
        {
            let gone = self.tables.swap_remove(at);
            self.database.session().execute(&format!("DROP TABLE {}", gone.uniform.table)).map_err(failed)?;
        }
        Ok(())
    }
}

/// An error once the run is to stop.
fn go_on(stop: &AtomicBool) -> Result<(), RunError> {
    if stop.load(Ordering::Relaxed) { Err(RunError::Stopped) } else { Ok(()) }
}

fn queries(table: &Uniform, session: &Session, selectivity: f64, stop: &AtomicBool) -> Result<Vec<Query>, RunError> {
    let columns = table.bits.len();
    let ranges = (QUERIES_MAX / columns).clamp(1, RANGES_MAX) as u64;
    let mut queries = Vec::with_capacity(columns * ranges as usize);
    for column in 0..columns {
        for range in 0..ranges {
            go_on(stop)?;
            let number = column as u64 * ranges + range;
            queries.push(table.query(session, column, selectivity, number).map_err(failed)?);
        }
    }
    Ok(queries)
}
