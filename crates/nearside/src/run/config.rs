//! Settings: what `SET nearside.*` changes, and DataFusion's own settings as Nearside starts them.

use std::borrow::Cow;

use datafusion_common::config::{ConfigEntry, ConfigExtension, ConfigNonZeroUsize, ConfigOptions, ExtensionOptions};

use crate::catalog::transactions::Level;
use crate::catalog::{CATALOG, DEFAULT_SCHEMA};
use crate::error::{Error, Result};
use crate::run::options::{NearsideOptions, application_name, float_digits};
use crate::run::scheduling;

/// Most rows of a batch of a result.
pub(crate) const BATCH_ROWS: usize = 8192;

/// The settings a session starts with.
pub(crate) fn defaults(threads: usize, scheduling: &sched::Settings) -> ConfigOptions {
    let mut own = NearsideOptions::default();
    scheduling::write(scheduling, &mut own);
    let mut options = ConfigOptions::new();
    options.extensions.insert(own);
    // These have no effect: they are shown, and show what is so.
    options.catalog.default_catalog = CATALOG.into();
    options.catalog.default_schema = DEFAULT_SCHEMA.into();
    options.catalog.information_schema = true;
    options.catalog.create_default_catalog_and_schema = false;
    options.execution.target_partitions = threads;
    options.execution.batch_size = ConfigNonZeroUsize::try_new(BATCH_ROWS).expect("a batch has rows");
    // These have.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    // Aggregates such as array_agg see rows in the order of a subquery, as in PostgreSQL.
    options.sql_parser.enable_subquery_sort_elimination = false;
    // A third pass only puts columns back in the order of the first.
    options.optimizer.max_passes = 2;
    // Fields of structs are read per row anyway, and every plan pays for the search for them.
    options.optimizer.enable_leaf_expression_pushdown = false;
    // So that TIMESTAMP WITH TIME ZONE has one.
    options.execution.time_zone = Some("+00:00".into());
    options
}

/// What a setting is set to: for one that is true or false also by on, off and what else PostgreSQL reads so, for one
/// that is a time also with its unit.
pub(crate) fn value_of(setting: &str, value: &str, config: &ConfigOptions) -> String {
    if let Some(time) = time_of(setting, value) {
        return time.to_string();
    }
    let is_truth =
        |entry: &ConfigEntry| entry.key == setting && matches!(entry.value.as_deref(), Some("true" | "false"));
    let truth = match value.to_lowercase().as_str() {
        "on" | "yes" | "1" => "true",
        "off" | "no" | "0" => "false",
        _ => return value.into(),
    };
    if entries(config).iter().any(is_truth) { truth.into() } else { value.into() }
}

/// A time with its unit, in the unit of a setting whose name says one; `None` where either has none.
pub(crate) fn time_of(setting: &str, value: &str) -> Option<u64> {
    let unit_ms = match setting.rsplit_once('_')?.1 {
        "ms" => 1,
        "s" => 1000,
        _ => return None,
    };
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = value.split_at(digits);
    let ms: u64 = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()?.checked_mul(ms)?.div_ceil(unit_ms))
}

/// The full name of a setting that PostgreSQL calls so too.
pub(crate) fn full_name(setting: &str) -> String {
    let setting = setting.to_lowercase();
    match setting.as_str() {
        "synchronous_commit"
        | "default_transaction_isolation"
        | "default_transaction_read_only"
        | "application_name"
        | "search_path"
        | "extra_float_digits" => format!("nearside.{setting}"),
        "timezone" | "time zone" | "time.zone" => "datafusion.execution.time_zone".into(),
        // Milliseconds where nothing else is said.
        "statement_timeout" | "idle_in_transaction_session_timeout" | "log_min_duration_statement" => {
            format!("nearside.{setting}_ms")
        }
        _ => setting,
    }
}

/// Whether a setting limits what a role may take, and is for superusers to set.
pub(crate) fn is_limit(setting: &str) -> bool {
    setting.starts_with("nearside.max_")
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
pub(crate) fn nearside(config: &ConfigOptions) -> Cow<'_, NearsideOptions> {
    config.extensions.get::<NearsideOptions>().map_or_else(Cow::default, Cow::Borrowed)
}

/// What scans may use, by a configuration's settings.
pub(crate) fn scan_options(config: &ConfigOptions) -> exec::ScanOptions {
    match config.extensions.get::<NearsideOptions>() {
        Some(own) => exec::ScanOptions {
            index_lookups: own.index_lookups,
            block_skipping: own.block_skipping,
            // What is set is one of those that there are.
            sharing: own.scan_sharing.parse().unwrap_or_default(),
        },
        None => exec::ScanOptions::default(),
    }
}

/// Makes our settings agree with each other after one was set.
///
/// # Errors
/// A value that is none of those allowed.
pub(crate) fn settle(variable: &str, config: &mut ConfigOptions) -> Result<()> {
    match config.extensions.get_mut::<NearsideOptions>() {
        Some(own) => {
            scheduling::settle(variable, own)?;
            own.scan_sharing = scan_sharing(&own.scan_sharing)?.name().into();
            own.admission = AdmissionMode::of(&own.admission)?.name().into();
            own.application_name = application_name(&own.application_name);
            own.extra_float_digits = float_digits(&own.extra_float_digits)?;
            own.default_transaction_isolation = level(&own.default_transaction_isolation)?.name().into();
            Ok(())
        }
        None => Ok(()),
    }
}

/// How statements of a session are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionMode {
    /// At once.
    Fifo,
    /// By the model.
    Model,
}

impl AdmissionMode {
    /// What a setting says.
    ///
    /// # Errors
    /// [`Error::Setting`] with the values that there are.
    pub(crate) fn of(text: &str) -> Result<AdmissionMode> {
        let all = [AdmissionMode::Fifo, AdmissionMode::Model];
        let known = all.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text.trim()));
        known.ok_or_else(|| Error::Setting(format!("nearside.admission cannot be '{text}': choose fifo or model")))
    }

    /// In lower case, as it is shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AdmissionMode::Fifo => "fifo",
            AdmissionMode::Model => "model",
        }
    }
}

/// The level of transactions that a setting says.
fn level(text: &str) -> Result<Level> {
    Level::of(text).ok_or_else(|| {
        Error::Setting(format!(
            "nearside.default_transaction_isolation cannot be '{text}': choose read committed, repeatable read or \
             serializable"
        ))
    })
}

/// `nearside.scan_sharing` as it is meant.
fn scan_sharing(text: &str) -> Result<exec::ScanSharing> {
    text.parse()
        .map_err(|()| Error::Setting(format!("nearside.scan_sharing cannot be '{text}': choose auto, on or off")))
}

/// Takes the settings of `defaults` that a strategy stands for.
///
/// # Errors
/// None of them can be wrong, or the database would not have started.
pub(crate) fn reset_scheduling(config: &mut ConfigOptions, defaults: &ConfigOptions) -> Result<()> {
    let settings = scheduling::settings(&nearside(defaults), 0)?;
    if let Some(own) = config.extensions.get_mut::<NearsideOptions>() {
        scheduling::write_strategy(&settings, own);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::time_of;

    #[test]
    fn times_have_units() {
        let ms = |text| time_of("nearside.statement_timeout_ms", text);
        assert_eq!([ms("250ms"), ms("5s"), ms(" 10 min "), ms("1d")], [250, 5000, 600_000, 86_400_000].map(Some));
        assert_eq!([ms("250"), ms("5 parsecs"), ms("-5s"), ms("s"), ms("99999999999999999999s")], [None; 5]);
        assert_eq!(time_of("nearside.restore_window_s", "2h"), Some(7200));
        // No less than what was said.
        assert_eq!(time_of("nearside.restore_window_s", "1ms"), Some(1));
        assert_eq!(time_of("nearside.statement_memory_bytes", "5s"), None);
    }
}
