//! [`NearsideOptions`]: what `SET nearside.*` changes.

use datafusion_common::config::ConfigExtension;
use datafusion_common::extensions_options;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Longer names of applications are cut off, as PostgreSQL cuts names.
const NAME_BYTES_MAX: usize = 63;

extensions_options! {
    /// `SET nearside.*`.
    pub struct NearsideOptions {
        /// A statement that runs longer than this many milliseconds fails; 0 means no limit.
        pub statement_timeout_ms: u64, default = 0
        /// Bytes that one statement may hold at a time beside the tables; 0 means only the database's budget limits it.
        pub statement_memory_bytes: u64, default = 0
        /// How many rows a statement may give; 0 means no limit. This and the next three are for superusers to set, and
        /// to give to roles by ALTER ROLE .. SET
        pub max_rows: u64, default = 0
        /// Bytes that one statement may hold at most, whatever statement_memory_bytes says; 0 means no limit
        pub max_memory_bytes: u64, default = 0
        /// A statement that runs longer than this many milliseconds fails, whatever statement_timeout_ms says; 0 means
        /// no limit
        pub max_statement_ms: u64, default = 0
        /// How many statements sessions of the role may run at once; 0 means no limit
        pub max_statements: u32, default = 0
        /// Whether statements that write end once what they wrote is on the disk, of a database in a folder; otherwise
        /// it is there a fifth of a second later, and a crash may take what was committed last
        pub synchronous_commit: bool, default = true
        /// The level of transactions that do not say theirs: read committed, repeatable read or serializable
        pub default_transaction_isolation: String, default = "read committed".to_string()
        /// Whether transactions that do not say so are read only
        pub default_transaction_read_only: bool, default = false
        /// A transaction whose session does nothing for this many milliseconds is rolled back; 0 means no limit
        pub idle_in_transaction_session_timeout_ms: u64, default = 0
        /// What the client calls itself
        pub application_name: String, default = String::new()
        /// How many digits beyond 15 floats have as texts: from 1 on as few as tell them from others, which is all
        /// there is
        pub extra_float_digits: String, default = "1".to_string()
        /// Keep the plans of queries and use them again when nothing they depend on has changed.
        pub plan_cache: bool, default = true
        /// Statements that write few rows add them to the table's delta; otherwise they make segments as those do that
        /// write many
        pub small_writes: bool, default = true
        /// Look rows up in indexes where few of a table's pass a condition
        pub index_lookups: bool, default = true
        /// Skip blocks of rows whose smallest and largest values show that none of them passes a condition
        pub block_skipping: bool, default = true
        /// Whether scans of one column that run at the same time share their passes over it: auto (where there are
        /// enough of them and the column is large), on or off
        pub scan_sharing: String, default = "auto".to_string()
        /// Who begins first where queries wait for others: fifo (each at once, the tasks of older ones go first) or
        /// model (short ones first, and sequential parts beside others' parallel ones, by what earlier runs have cost)
        pub admission: String, default = "fifo".to_string()
        /// Record what each kind of statement of this session reads and computes, in nearside.workload; statements then
        /// run profiled
        pub record_workload: bool, default = false
        /// The schemas in which names without one are looked up, in order; new tables go to the first that exists
        pub search_path: String, default = "public".to_string()
        /// Where new tables lie when nothing else is said, as in CREATE TABLE .. WITH (placement = '..'): rr, ivp,
        /// pp(..), ..
        pub placement: String, default = "rr".to_string()
        /// The scheduling strategy: os, target or bound; setting it sets the four settings below; it reads custom when
        /// they are none of these strategies
        pub scheduling: String, default = "custom".to_string()
        /// What becomes of the affinities of tasks: ignored, soft, weighed (memory-intensive ones are hard) or hard
        pub affinities: String, default = "weighed".to_string()
        /// Whom idle workers steal from: off, neighbour (the package, or the nearest nodes) or any
        pub stealing: String, default = "neighbour".to_string()
        /// How much a thief takes: one or bulk
        pub steal: String, default = "one".to_string()
        /// When worker threads are pinned: none, preferred, opportunistic or always
        pub binding: String, default = "opportunistic".to_string()
        /// How many tasks one operation may have at a time; 1 switches parallelism within a query off, 0 is no limit
        pub parallelism: u32, default = 0
        /// From how many bytes per microsecond on a task counts as memory-intensive: a number, 0 for never, or auto for
        /// what this machine's memory gives
        pub memory_intensive_bytes_per_us: String, default = "auto".to_string()
        /// Where tasks of scans wait: auto (in the queue of their package where its sub-domains have the same
        /// bandwidth), on (wherever a package has sub-domains) or off (in that of their node)
        pub package_queues: String, default = "auto".to_string()
        /// Whether cycles, instructions and cache misses of this session's statements are counted: auto (where the
        /// system lets them be) or off
        pub hardware_counters: String, default = "auto".to_string()
    }
}

impl ConfigExtension for NearsideOptions {
    const PREFIX: &'static str = "nearside";
}

/// What is kept of a client's name: PostgreSQL has a `?` for each byte that is no character of ASCII.
pub(crate) fn application_name(name: &str) -> String {
    name.bytes()
        .take(NAME_BYTES_MAX)
        .map(|byte| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '?' })
        .collect()
}

/// `extra_float_digits` as it is kept.
///
/// # Errors
/// No number of digits, or one that would round floats.
pub(crate) fn float_digits(text: &str) -> Result<String> {
    match text.trim().parse::<i32>() {
        Ok(digits @ 1..=3) => Ok(digits.to_string()),
        Ok(digits @ -15..=0) => Err(Error::plan(
            SqlState::FeatureNotSupported,
            format!(
                "extra_float_digits of {digits} is not supported: floats are not rounded as they are written; set it \
                 to 1, 2 or 3, or use round()"
            ),
        )),
        _ => Err(Error::plan(
            SqlState::InvalidParameterValue,
            format!("extra_float_digits cannot be '{text}': choose 1, 2 or 3"),
        )),
    }
}
