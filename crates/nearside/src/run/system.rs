//! Settings of the whole database, which `ALTER SYSTEM` changes for everybody at once.
//!
//! They are part of the catalog's state: a database in a folder has them again when it is opened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion_common::config::ConfigEntry;
use units::balancer::Algorithm;

use crate::catalog::journal::{DiskLimits, RESTORE_WINDOW};
use crate::catalog::units::DEFAULT_BALANCER;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::idle::IDLE_MS_DEFAULT;
use crate::run::inner::Inner;
use crate::run::outcome::Done;
use crate::run::placer;
use crate::run::placer_state::{Mode, PERIOD_MS_DEFAULT as PLACER_MS_DEFAULT};
use crate::sql::AlterSystem;

/// A setting of the database.
struct SystemSetting {
    name: &'static str,
    description: &'static str,
    value: fn(&Inner) -> String,
    /// Takes a text, or the default.
    set: fn(&Arc<Inner>, Option<&str>) -> Result<(), String>,
}

const SETTINGS: [SystemSetting; 7] = [
    SystemSetting {
        name: "nearside.background_write_mb_per_s",
        description: "How many megabytes per second merges of small writes, compaction and backups write to the disk \
                      at most; 0 for as many as it takes; of databases in folders, for all sessions, by ALTER SYSTEM",
        value: |inner| (limits(inner).background_bytes_per_s / MB).to_string(),
        set: |inner, text| {
            let bytes = number(text, "a number of megabytes")?.saturating_mul(MB);
            set_limits(inner, text, |limits| limits.background_bytes_per_s = bytes)
        },
    },
    SystemSetting {
        name: "nearside.balancer",
        description: "How ranges of keys move between units that are accessed unlike each other: off, one_shot or \
                      ma(k), where k is how many neighbours on either side a unit shares with; for all sessions, by \
                      ALTER SYSTEM",
        value: |inner| inner.catalog.units_setup().balancer().to_string(),
        set: |inner, text| {
            let algorithm: Algorithm = text.map_or(Ok(DEFAULT_BALANCER), str::parse)?;
            inner.catalog.units_setup().set_balancer(algorithm);
            Ok(())
        },
    },
    SystemSetting {
        name: LOG_MIN_DURATION,
        description: "From how many milliseconds on a statement is told to the server's log when it ends, with its \
                      plan; 0 for each, -1 for none; for all sessions, by ALTER SYSTEM, also as \
                      log_min_duration_statement",
        value: |inner| inner.log_min_duration_ms.load(Ordering::Relaxed).to_string(),
        set: |inner, text| {
            let wrong = |text: &str| format!("a number of milliseconds, or -1 for no statement, not '{text}'");
            let ms: i64 = text.map_or(Ok(-1), |text| text.trim().parse().map_err(|_| wrong(text)))?;
            if ms < -1 {
                return Err(wrong(&ms.to_string()));
            }
            inner.log_min_duration_ms.store(ms, Ordering::Relaxed);
            Ok(())
        },
    },
    SystemSetting {
        name: "nearside.merge_idle_ms",
        description: "After how many milliseconds without a write the small writes of a table are merged, counted from \
                      its next write; 0 for never; for all sessions, by ALTER SYSTEM",
        value: |inner| inner.idle.after_ms().to_string(),
        set: |inner, text| {
            let number = |text: &str| text.parse().map_err(|_| format!("a number of milliseconds, not '{text}'"));
            inner.idle.set_after_ms(text.map_or(Ok(IDLE_MS_DEFAULT), number)?);
            Ok(())
        },
    },
    SystemSetting {
        name: "nearside.placer",
        description: "Whether columns are moved to other nodes, divided and put together by what is read of them: \
                      off, advise (nearside.advice says what would be done) or on; nothing on machines with one node; \
                      for all sessions, by ALTER SYSTEM",
        value: |inner| inner.placer.mode().to_string(),
        set: |inner, text| placer::set_mode(inner, text.map_or(Ok(Mode::default()), str::parse)?),
    },
    SystemSetting {
        name: "nearside.placer_period_ms",
        description: "How often the placer looks at what was read, in milliseconds; for all sessions, by ALTER SYSTEM",
        value: |inner| inner.placer.period_ms().to_string(),
        set: |inner, text| {
            let number = |text: &str| text.parse().map_err(|_| format!("a number of milliseconds, not '{text}'"));
            inner.placer.set_period_ms(text.map_or(Ok(PLACER_MS_DEFAULT), number)?)
        },
    },
    SystemSetting {
        name: RESTORE_WINDOW,
        description: "For how many seconds back the folder can be restored to any point of time (nearside restore); \
                      what that takes is kept there; 0 for none; of databases in folders, for all sessions, by ALTER \
                      SYSTEM",
        value: |inner| limits(inner).restore_window_s.to_string(),
        set: |inner, text| {
            let seconds = number(text, "a number of seconds")?;
            set_limits(inner, text, |limits| limits.restore_window_s = seconds)
        },
    },
];

/// See its description.
const LOG_MIN_DURATION: &str = "nearside.log_min_duration_statement_ms";

/// Bytes that users mean by a megabyte per second.
const MB: u64 = 1_000_000;

/// A number that was given, or 0 where the default is asked for.
fn number(text: Option<&str>, what: &str) -> Result<u64, String> {
    text.map_or(Ok(0), |text| text.trim().parse().map_err(|_| format!("{what}, not '{text}'")))
}

fn limits(inner: &Inner) -> DiskLimits {
    inner.catalog.journal().map(|journal| journal.limits()).unwrap_or_default()
}

/// Changes the limits of a database in a folder; one in memory has them at their defaults.
fn set_limits(inner: &Inner, text: Option<&str>, change: impl FnOnce(&mut DiskLimits)) -> Result<(), String> {
    match (inner.catalog.journal(), text) {
        (Some(journal), _) => {
            let mut limits = journal.limits();
            change(&mut limits);
            journal.set_limits(limits);
            Ok(())
        }
        (None, None) => Ok(()),
        (None, Some(_)) => Err("it is for a database in a folder, and this one is in memory alone".into()),
    }
}

fn find(name: &str) -> Option<&'static SystemSetting> {
    let name = config::full_name(name);
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(&name))
}

/// The names that there are.
pub(crate) fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.name).collect()
}

/// Name, value and meaning of each.
pub(crate) fn entries(inner: &Inner) -> Vec<ConfigEntry> {
    let entry = |setting: &SystemSetting| ConfigEntry {
        key: setting.name.into(),
        value: Some((setting.value)(inner)),
        description: setting.description,
    };
    SETTINGS.iter().map(entry).collect()
}

/// Refuses to `SET` or `RESET` for one session what is the database's.
///
/// # Errors
/// It is, and what to write in its place.
pub(crate) fn is_for_session(verb: &str, name: &str) -> Result<()> {
    match find(name) {
        Some(setting) => Err(Error::Setting(format!(
            "setting '{}' is the database's and holds for all sessions; write ALTER SYSTEM {verb} {}{}",
            setting.name,
            setting.name,
            if verb == "SET" { " = .." } else { "" }
        ))),
        None => Ok(()),
    }
}

/// Runs `ALTER SYSTEM`; `is_stopped` ends what takes long.
///
/// # Errors
/// No such setting, one of a session, a value that is none of those that there are. Then nothing has changed.
pub(crate) fn alter(alter: &AlterSystem, inner: &Arc<Inner>, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<Done> {
    let set = |name: &str, value: Option<&str>| {
        let setting = find(name).ok_or_else(|| not_system(name, inner))?;
        let before = inner.catalog.state().settings().get(setting.name).cloned();
        apply(setting, inner, value)?;
        // As it is shown: '1d' was given, and 86400 is kept, which whoever opens the folder reads.
        let value = value.map(|_| (setting.value)(inner));
        let kept = inner.catalog.commit(|state| {
            state.set_setting(setting.name, value.as_deref());
            Ok(())
        });
        // What cannot be kept is not so.
        kept.or_else(|error| apply(setting, inner, before.as_deref()).and(Err(error)))
    };
    match alter {
        AlterSystem::Set { name, value } => set(name, Some(value))?,
        AlterSystem::Reset(name) => set(name, None)?,
        AlterSystem::UndoPlacement(number) => placer::undo(inner, *number, is_stopped)?,
        AlterSystem::ResetAll => SETTINGS.iter().try_for_each(|setting| set(setting.name, None))?,
    }
    Ok(Done::new("ALTER SYSTEM"))
}

fn apply(setting: &SystemSetting, inner: &Arc<Inner>, value: Option<&str>) -> Result<()> {
    let time = value.and_then(|value| config::time_of(setting.name, value)).map(|time| time.to_string());
    let value = time.as_deref().or(value);
    (setting.set)(inner, value).map_err(|error| Error::Setting(format!("setting '{}': {error}", setting.name)))
}

/// Applies what an opened folder has. What does not hold here, on a machine with other nodes, say, is warned of and
/// stays in the folder.
pub(crate) fn restore(inner: &Arc<Inner>) {
    for (name, value) in inner.catalog.state().settings().iter() {
        let applied = match find(name) {
            Some(setting) => apply(setting, inner, Some(value)),
            None => Err(not_system(name, inner)),
        };
        if let Err(error) = applied {
            tracing::warn!("a setting of the database does not hold here: {error}");
        }
    }
}

/// What is wrong with a name that is no setting of the database.
fn not_system(name: &str, inner: &Inner) -> Error {
    let planner = inner.default_planner();
    if config::entries(planner.config_options()).iter().any(|entry| entry.key == name) {
        return Error::Setting(format!("setting '{name}' is a session's; write SET {name} = .."));
    }
    let near = nearest(name, names().into_iter());
    Error::NotFound { kind: "setting of the database", name: name.into(), nearest: near }
}
