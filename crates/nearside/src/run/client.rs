//! Settings that clients of PostgreSQL set and ask for, under the names that they have there.
//!
//! Most have one value, which says what is so: who sets them to that one is told that it is done, whatever else is
//! refused. Those that the server alone has can only be asked for.

use datafusion_common::config::ConfigOptions;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::session::{SERVER_VERSION, SERVER_VERSION_NUM};
use crate::plan::system::OfSession;
use crate::run::config;

/// A setting of one value.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// As it is shown.
    pub name: &'static str,
    /// What is so.
    pub value: &'static str,
    /// What it is about.
    pub description: &'static str,
    set: Set,
}

#[derive(Debug)]
enum Set {
    /// To these, in lower case, each of which says what is so.
    To(&'static [&'static str]),
    /// As a list of these.
    ToListOf(&'static [&'static str]),
    /// The server's.
    Never,
    /// Of the transaction; by the statement that says so.
    By(&'static str),
}

const OFF: Set = Set::To(&["off", "false", "no", "0"]);
const ON: Set = Set::To(&["on", "true", "yes", "1"]);

const fn fixed(name: &'static str, value: &'static str, set: Set, description: &'static str) -> Fixed {
    Fixed { name, value, description, set }
}

const FIXED: [Fixed; 24] = [
    fixed("bytea_output", "hex", Set::To(&["hex"]), "How bytes are written as texts"),
    fixed("check_function_bodies", "off", OFF, "Whether bodies of functions are checked; there are none"),
    fixed("client_encoding", "UTF8", Set::To(&["utf8", "utf-8", "unicode"]), "How texts of the client are encoded"),
    fixed("client_min_messages", "warning", Set::To(&["warning"]), "What is told besides errors; there are no notices"),
    fixed(
        "DateStyle",
        "ISO, MDY",
        Set::ToListOf(&["iso", "mdy", "us", "noneuro", "noneuropean"]),
        "How days are written, and in which order their parts are read",
    ),
    fixed("default_table_access_method", "heap", Set::To(&["heap"]), "How tables are kept, as pg_am calls it"),
    fixed(
        "default_tablespace",
        "",
        Set::To(&["", "pg_default"]),
        "Where tables are kept; their placement is another thing",
    ),
    fixed("integer_datetimes", "on", Set::Never, "Whether times are integers"),
    fixed("IntervalStyle", "postgres", Set::To(&["postgres"]), "How intervals are written"),
    fixed("is_superuser", "on", Set::Never, "Whether the current role may do everything"),
    fixed("jit", "off", OFF, "Whether expressions are compiled to machine code"),
    fixed("lc_collate", "C", Set::Never, "How texts are compared: by their bytes"),
    fixed("lc_ctype", "C", Set::Never, "How characters are classified"),
    fixed("lock_timeout", "0", Set::To(&["0"]), "After which time waiting for a lock fails; never"),
    fixed("max_index_keys", "32", Set::Never, "How many columns an index may have at least"),
    fixed("max_identifier_length", "63", Set::Never, "How many bytes a name may have at least"),
    fixed("row_security", "off", OFF, "Whether rows are hidden from roles; none are"),
    fixed("server_encoding", "UTF8", Set::Never, "How texts are encoded"),
    fixed("server_version", SERVER_VERSION, Set::Never, "The version of PostgreSQL whose SQL this is"),
    fixed("server_version_num", SERVER_VERSION_NUM, Set::Never, "The same as a number"),
    fixed("standard_conforming_strings", "on", ON, "Whether a backslash within '..' is one"),
    fixed(
        "transaction_isolation",
        "",
        Set::By("SET TRANSACTION ISOLATION LEVEL .., or SET default_transaction_isolation = .."),
        "The level of the transaction, or of the next one",
    ),
    fixed(
        "transaction_read_only",
        "",
        Set::By("SET TRANSACTION READ ONLY, or SET default_transaction_read_only = .."),
        "Whether the transaction is read only, or the next one",
    ),
    fixed("xmloption", "content", Set::To(&["content"]), "How texts become XML; there is none"),
];

/// The setting of one value that has a name.
pub(crate) fn fixed_of(name: &str) -> Option<&'static Fixed> {
    FIXED.iter().find(|fixed| fixed.name.eq_ignore_ascii_case(name))
}

impl Fixed {
    /// It is set to a value; to its default where there is none.
    ///
    /// # Errors
    /// Another value than the one that it has.
    pub(crate) fn set(&self, value: Option<&str>) -> Result<()> {
        let refused = |code, text: String| Err(Error::plan(code, text));
        let (name, now) = (self.name, self.value);
        let parts = |value: &str| value.split(',').map(|part| part.trim().to_lowercase()).collect::<Vec<_>>();
        let is_so = match (&self.set, value) {
            (Set::Never, _) => {
                return refused(SqlState::ObjectNotInPrerequisiteState, format!("setting '{name}' cannot be changed"));
            }
            (Set::By(statement), _) => {
                return refused(
                    SqlState::FeatureNotSupported,
                    format!("setting '{name}' is not set by its name; write {statement}"),
                );
            }
            (_, None) => true,
            (Set::To(values), Some(value)) => values.contains(&value.trim().to_lowercase().as_str()),
            (Set::ToListOf(values), Some(value)) => parts(value).iter().all(|part| values.contains(&part.as_str())),
        };
        if is_so {
            return Ok(());
        }
        let value = value.unwrap_or_default();
        let hint = match name {
            "client_encoding" => "; texts are UTF8 alone",
            "standard_conforming_strings" => "; write E'..' for a text with escapes",
            "bytea_output" => "; encode(x, 'escape') writes bytes in the other way",
            _ => "",
        };
        refused(
            SqlState::FeatureNotSupported,
            format!("setting '{name}' is {now}, and '{value}' is not supported{hint}"),
        )
    }
}

/// A setting as clients see it.
#[derive(Debug)]
pub(crate) struct Shown {
    /// As it is shown.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it is about.
    pub description: &'static str,
}

/// All settings that clients know by these names.
pub(crate) fn all(options: &ConfigOptions, of: &OfSession) -> Vec<Shown> {
    let own = config::nearside(options);
    let value = |fixed: &Fixed| match fixed.name {
        "is_superuser" => on_or_off(of.is_superuser),
        "transaction_isolation" => of.level.clone(),
        "transaction_read_only" => on_or_off(of.is_read_only),
        _ => fixed.value.into(),
    };
    let mut all: Vec<Shown> = FIXED
        .iter()
        .map(|fixed| Shown { name: fixed.name, value: value(fixed), description: fixed.description })
        .collect();
    let zone = options.execution.time_zone.clone().unwrap_or_default();
    let others = [
        ("application_name", own.application_name.clone(), "What the client calls itself"),
        ("default_transaction_isolation", own.default_transaction_isolation.clone(), "The level of transactions"),
        ("default_transaction_read_only", on_or_off(own.default_transaction_read_only), "Whether they are read only"),
        ("extra_float_digits", own.extra_float_digits.clone(), "How many digits beyond 15 floats have as texts"),
        (
            "idle_in_transaction_session_timeout",
            time(own.idle_in_transaction_session_timeout_ms),
            "After which time without a statement a transaction is rolled back",
        ),
        ("role", of.role.clone(), "The role that SET ROLE has chosen, or none"),
        ("search_path", own.search_path.clone(), "The schemas in which names without one are looked up"),
        ("session_authorization", of.session_user.clone(), "The role that the session is of"),
        ("statement_timeout", time(own.statement_timeout_ms), "After which time a statement fails"),
        ("synchronous_commit", on_or_off(own.synchronous_commit), "Whether COMMIT waits for the disk"),
        ("TimeZone", zone, "The zone of times with one"),
    ];
    all.extend(others.map(|(name, value, description)| Shown { name, value, description }));
    all.sort_by_key(|shown| shown.name.to_lowercase());
    all
}

/// The setting that SHOW names, if clients see it by one of these names.
pub(crate) fn shown(name: &str, options: &ConfigOptions, of: &OfSession) -> Option<Shown> {
    let name = match name.to_lowercase().as_str() {
        "time zone" | "time.zone" => "timezone".to_string(),
        "transaction isolation level" => "transaction_isolation".to_string(),
        other => other.to_string(),
    };
    all(options, of).into_iter().find(|shown| shown.name.eq_ignore_ascii_case(&name))
}

fn on_or_off(value: bool) -> String {
    if value { "on".into() } else { "off".into() }
}

/// Milliseconds in the largest unit that they are whole numbers of, as PostgreSQL shows times.
fn time(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_taken_however_it_is_written() {
        let set = |name: &str, value: &str| fixed_of(name).unwrap().set(Some(value)).is_ok();
        assert!(
            set("client_encoding", "UTF-8") && set("CLIENT_ENCODING", "unicode") && !set("client_encoding", "LATIN1")
        );
        assert!(set("datestyle", "iso") && set("datestyle", "ISO, MDY") && !set("datestyle", "SQL, DMY"));
        assert!(!set("server_version", "15.0"));
        assert!(FIXED.iter().all(|fixed| !matches!(fixed.set, Set::To(_)) || fixed.set(Some(fixed.value)).is_ok()));
    }

    #[test]
    fn times_are_shown_with_their_unit() {
        assert_eq!([0, 1, 5000, 90_000, 7_200_000].map(time), ["0", "1ms", "5s", "90s", "2h"]);
    }
}
