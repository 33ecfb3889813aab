//! The settings of each kind of work, with the defaults of its paper's set-up.
//!
//! Invariants: an unknown name is refused; every field has a default.
//!
//! Sources: Psaroudakis et al., VLDB 2015, section 6; Kissinger et al., ADMS 2014, section 4; Greinsmark 2020, section
//! 5.1; Seidel 2011, chapters 2, 4 and 5.

use serde::{Deserialize, Serialize};

/// Where the columns of a table lie (VLDB 2015, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each column on one node, in turn.
    Rr,
    /// The codes of each column in equal ranges over the nodes; dictionary and index interleaved.
    Ivp,
    /// The table in parts, each with dictionaries of its own, one part per node.
    Pp,
    /// As `rr`, and the placer moves columns while statements run; counted once it had two minutes.
    Placer,
}

/// How tasks find a worker (VLDB 2015, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// No affinity, nothing bound.
    Os,
    /// Affinities; tasks may be stolen.
    Target,
    /// Hard affinities: tasks are not stolen by other nodes.
    Bound,
}

/// How columns are dealt to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutOrder {
    /// Column after column, each on the next node.
    InTurn,
    /// The first columns on the first node, the next on the second: the hot half then lies on half of the nodes.
    Blocks,
}

/// Range queries over the columns of one table (VLDB 2015, section 6).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Rows of the table.
    pub rows: u64,
    /// Columns that are queried.
    pub columns: u32,
    /// The narrowest column, in bits.
    pub bits_min: u32,
    /// The widest column, in bits; widths in between come in turn.
    pub bits_max: u32,
    /// Clients, each with one query on its way.
    pub clients: u32,
    /// The share of rows that qualify, 0 to 1.
    pub selectivity: f64,
    /// Whether a query may use the index.
    pub index: bool,
    /// Whether a query is several tasks.
    pub parallel: bool,
    /// Whether summaries skip blocks that cannot match; uniform values never let them.
    pub pruning: bool,
    /// Kept results: always off.
    pub result_cache: bool,
    /// The share of columns that are hot, the last ones of the table.
    pub hot_columns: f64,
    /// The share of queries that go to them.
    pub hot_queries: f64,
    /// How columns are dealt to nodes.
    pub order: LayoutOrder,
    /// Where columns lie.
    pub placement: Placement,
    /// Parts or ranges of each column under `ivp` and `pp`; 0 for one per node.
    pub partitions: u32,
    /// How tasks find a worker.
    pub strategy: Strategy,
    /// Whether scans of one column on a node at the same time read it from memory once, as those behind the first find
    /// it in the cache and catch up: what nothing prints, to be varied.
    pub cache_sharing: bool,
    /// Microseconds that a statement takes for each node of its tasks, one statement of the machine after the other: as
    /// above.
    pub dispatch_us: f64,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns {
            rows: 100_000_000,
            columns: 160,
            bits_min: 17,
            bits_max: 26,
            clients: 1024,
            selectivity: 1e-5,
            index: false,
            parallel: true,
            pruning: false,
            result_cache: false,
            hot_columns: 0.5,
            hot_queries: 0.5,
            order: LayoutOrder::InTurn,
            placement: Placement::Rr,
            partitions: 0,
            strategy: Strategy::Bound,
            cache_sharing: false,
            dispatch_us: 0.0,
        }
    }
}

/// Aggregations over whole tables (VLDB 2015, section 6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aggregate {
    /// Tables of equal size, queried in turn at random.
    pub tables: u32,
    /// Rows of each.
    pub rows: u64,
    /// Bytes read of each row.
    pub row_bytes: f64,
    /// Computation for each row, in ns of one cpu, beside what reading costs.
    pub row_ns: f64,
    /// Clients, each with one query on its way.
    pub clients: u32,
    /// Parts of each table.
    pub partitions: u32,
    /// How tasks find a worker.
    pub strategy: Strategy,
    /// As [`Columns::dispatch_us`].
    pub dispatch_us: f64,
}

impl Default for Aggregate {
    fn default() -> Aggregate {
        Aggregate {
            tables: 1,
            rows: 600_000_000,
            row_bytes: 14.0,
            row_ns: 10.0,
            clients: 32,
            partitions: 1,
            strategy: Strategy::Bound,
            dispatch_us: 0.0,
        }
    }
}

/// Placing a table anew (VLDB 2015, section 6.2.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Placing {
    /// Rows of the table.
    pub rows: u64,
    /// Its columns.
    pub columns: u32,
    /// The narrowest column, in bits.
    pub bits_min: u32,
    /// The widest column, in bits.
    pub bits_max: u32,
    /// What it becomes: `ivp` or `pp`.
    pub placement: Placement,
}

impl Default for Placing {
    fn default() -> Placing {
        Placing { rows: 100_000_000, columns: 160, bits_min: 17, bits_max: 26, placement: Placement::Ivp }
    }
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Scans of the whole column.
    Scan,
    /// Lookups of random keys.
    Lookup,
    /// Values set of random keys that are there.
    Upsert,
    /// Commands of lookups that are routed and not run.
    Route,
}

/// Where a store's memory lies and who reads it (ERIS, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDesign {
    /// All on one node, read by every cpu.
    SingleRam,
    /// Interleaved over all nodes, read by every cpu: for lookups, the shared index.
    Interleaved,
    /// In partitions, each read by the one unit that owns it.
    Units,
}

/// A store of entries or keys (ERIS, section 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// What it is asked for.
    pub operation: Operation,
    /// Where its memory lies and who reads it.
    pub design: StoreDesign,
    /// Entries of the column, or keys of the index.
    pub keys: u64,
    /// Bytes of an entry of the column.
    pub entry_bytes: u32,
    /// Commands in an outgoing buffer before it is sent.
    pub batch: u32,
    /// Keys that a command has at most; 0: all that a round has for one unit.
    pub command_keys: u32,
    /// Keys that a unit draws before it sends what its buffers hold and looks at what others have sent.
    pub round: u32,
    /// KiB of the pages that an index lies on, as far as page tables are simulated; what is measured lies on what the
    /// kernel gives.
    pub page_kib: u32,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            operation: Operation::Scan,
            design: StoreDesign::Units,
            keys: 8_000_000_000,
            entry_bytes: 8,
            batch: 128,
            command_keys: 0,
            round: 8192,
            page_kib: 2048,
        }
    }
}

/// What is asked of the tables on sub-domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryKind {
    /// One row by its primary key.
    Row,
    /// How many rows fulfil one of six predicates.
    Count,
    /// Rows of the first table that have a partner in the second.
    Join,
}

/// Sub-domains of the first package, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Its first sub-domain.
    A,
    /// Its second sub-domain.
    B,
    /// All its sub-domains.
    Both,
    /// All sub-domains of all packages.
    All,
}

/// Where tables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The first table on the first sub-domain, the second on the second.
    Apart,
    /// Each table interleaved by software over the sub-domains, page by page.
    Interleaved,
}

/// Stealing modes (Greinsmark 2020, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stealing {
    /// None beyond the node.
    Off,
    /// Within the package.
    Neighbour,
    /// From everywhere.
    Any,
}

/// How a count unites the rows that its predicates found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unions {
    /// By bits, a block at a time, as this product does: no list of theirs is ever written to memory.
    Bitmap,
    /// All lists of positions are merged into one.
    AtOnce,
    /// One list after the other is merged with what there is.
    InTurn,
}

/// How many predicates each table gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Predicates {
    /// Columns scanned of the first table.
    pub first: u32,
    /// Columns scanned of the second table.
    pub second: u32,
}

impl TryFrom<String> for Predicates {
    type Error = String;

    fn try_from(text: String) -> Result<Predicates, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n <= 1000);
        match text.split_once('+').map(|(a, b)| (number(a), number(b))) {
            Some((Some(first), Some(second))) if first + second > 0 => Ok(Predicates { first, second }),
            _ => Err(format!("predicates are written as \"4+2\" (first table + second table), not '{text}'")),
        }
    }
}

impl From<Predicates> for String {
    fn from(p: Predicates) -> String {
        format!("{}+{}", p.first, p.second)
    }
}

/// Queries over tables on sub-domains (Greinsmark 2020, section 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubDomains {
    /// What is asked.
    pub query: QueryKind,
    /// Rows of each table.
    pub rows: u64,
    /// Bits of each column that is scanned.
    pub bits: u32,
    /// Connections, each with one query on its way.
    pub connections: u32,
    /// Columns scanned of the first and of the second table.
    pub predicates: Predicates,
    /// Values below this qualify, of as many values as there are rows.
    pub range_pred: u64,
    /// The sub-domains whose cpus work.
    pub workers: Where,
    /// Where the tables lie.
    pub memory: Memory,
    /// What may be stolen.
    pub stealing: Stealing,
    /// How rows that predicates found are united.
    pub unions: Unions,
}

impl Default for SubDomains {
    fn default() -> SubDomains {
        SubDomains {
            query: QueryKind::Count,
            rows: 50_000_000,
            bits: 26,
            connections: 56,
            predicates: Predicates { first: 3, second: 3 },
            range_pred: 10_000,
            workers: Where::Both,
            memory: Memory::Apart,
            stealing: Stealing::Off,
            unions: Unions::Bitmap,
        }
    }
}

/// The task of a loop (Seidel 2011, sections 2.1 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NbbTask {
    /// STREAM's triad.
    Stream,
    /// A query of TPC-H at scale 100, as a scan of its bytes with its computation.
    Query,
}

/// Loops over memory that lies somewhere (Seidel 2011).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loops {
    /// What the loop does.
    pub task: NbbTask,
    /// The query of TPC-H, where it does one; 0 for `q` and `t`.
    pub query: u32,
    /// The share of time spent waiting for memory, where no query is named.
    pub q: f64,
    /// Seconds on one cpu per node, where no query is named.
    pub t: f64,
    /// What a query reads while it computes, as a share of what one thread could read in the time; not waited for, so
    /// not part of `q`.
    pub hidden: f64,
    /// Columns that a query reads: memory that is not striped has each whole on one node, in turn.
    pub columns: u32,
    /// Whether memory is striped over the nodes; else it lies where it was first touched.
    pub striped: bool,
    /// Whether the scheduler knows where memory lies.
    pub aware: bool,
    /// Whether the grain adapts to the loop; else it is `grain_kib`.
    pub adaptive_grain: bool,
    /// What a task reads where the grain is fixed, in KiB; 256 is the thesis' default (section 3.3.1).
    pub grain_kib: u32,
}

impl Default for Loops {
    fn default() -> Loops {
        Loops {
            task: NbbTask::Stream,
            query: 5,
            q: 0.2,
            t: 1.0,
            hidden: 0.0,
            columns: 4,
            striped: true,
            aware: true,
            adaptive_grain: true,
            grain_kib: 256,
        }
    }
}

/// What of the bandwidth-sharing model is computed (Seidel 2011, chapter 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelQuantity {
    /// The bandwidth that a demand of `k` gets.
    Bandwidth,
    /// time(p, q, k, t).
    Time,
    /// The same, with another job on the other cpus of each node in place of `k`.
    Beside,
    /// The efficiency gained by two jobs side by side, each on half of `p` cpus per node.
    Pair,
    /// q and t, fitted to run times that the model makes of them.
    Fit,
}

/// How measured bandwidths are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveJoin {
    /// By a cubic spline, extended beyond its ends.
    Spline,
    /// By straight lines, level beyond the last point.
    Lines,
}

/// The bandwidth-sharing model (Seidel 2011, chapter 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelPoint {
    /// What is computed.
    pub what: ModelQuantity,
    /// How measured bandwidths are joined.
    pub interpolation: CurveJoin,
    /// Cpus of the job, per node.
    pub p: f64,
    /// Bandwidth that others ask for, in that of one thread.
    pub k: f64,
    /// The share of time spent waiting for memory, where no query is named.
    pub q: f64,
    /// Seconds on one cpu per node, where no query is named.
    pub t: f64,
    /// The query of Table 5.1 that is the job; 0 for `q` and `t`.
    pub query: u32,
    /// The query of Table 5.1 beside it; 0 for `q_beside`.
    pub beside: u32,
    /// The share of memory waits of the job beside it.
    pub q_beside: f64,
}

impl Default for ModelPoint {
    fn default() -> ModelPoint {
        ModelPoint {
            what: ModelQuantity::Time,
            interpolation: CurveJoin::Spline,
            p: 1.0,
            k: 0.0,
            q: 0.5,
            t: 1.0,
            query: 0,
            beside: 0,
            q_beside: 0.0,
        }
    }
}
