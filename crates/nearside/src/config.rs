//! Settings: what `SET nearside.*` changes, and DataFusion's own settings as Nearside starts them.

use datafusion::common::extensions_options;
use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::prelude::SessionConfig;

use crate::catalog::{CATALOG, DEFAULT_SCHEMA};

/// Rows of a batch that operators exchange with DataFusion.
pub(crate) const BATCH_ROWS: usize = 8192;

extensions_options! {
    /// `SET nearside.*`.
    pub struct NearsideOptions {
        /// A statement that runs longer than this many milliseconds fails; 0 means no limit.
        pub statement_timeout_ms: u64, default = 0
        /// Bytes that one statement may hold at a time beside the tables; 0 means only the database's budget limits it.
        pub statement_memory_bytes: u64, default = 0
        /// Keep the plans of queries and use them again when nothing they depend on has changed.
        pub plan_cache: bool, default = true
        /// Where new tables lie when nothing else is said, as in CREATE TABLE .. WITH (placement = '..'): rr, ivp, pp(..), ..
        pub placement: String, default = "rr".to_string()
    }
}

impl ConfigExtension for NearsideOptions {
    const PREFIX: &'static str = "nearside";
}

/// The settings a session starts with.
pub(crate) fn session_config(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_option_extension(NearsideOptions::default());
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    options.execution.planning_concurrency = 1;
    // So that TIMESTAMP WITH TIME ZONE has one.
    options.execution.time_zone = Some("+00:00".into());
    config
}

/// Every setting under its full name: ours first, then DataFusion's.
pub(crate) fn entries(config: &ConfigOptions) -> Vec<ConfigEntry> {
    let mut entries = nearside(config).entries();
    for entry in &mut entries {
        if !entry.key.starts_with(NearsideOptions::PREFIX) {
            entry.key = format!("{}.{}", NearsideOptions::PREFIX, entry.key);
        }
    }
    let mut others = config.entries();
    others.retain(|e| e.key.starts_with("datafusion."));
    others.sort_by(|a, b| a.key.cmp(&b.key));
    entries.extend(others);
    entries
}

/// The `nearside.*` settings of a configuration.
pub(crate) fn nearside(config: &ConfigOptions) -> NearsideOptions {
    config.extensions.get::<NearsideOptions>().cloned().unwrap_or_default()
}
