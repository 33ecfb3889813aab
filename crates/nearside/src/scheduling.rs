//! How a session's tasks are scheduled: the scheduler's settings as `SET nearside.*` has them.
//!
//! A database starts with the settings that its builder gives; each session starts with those of the database and may change
//! its own. `nearside.scheduling` stands for all five: setting it sets them, and it reads `custom` where they are no preset.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 6 (OS, Target, Bound); Greinsmark 2020, section 2.5.

use std::str::FromStr;

use sched::{Preset, Settings};

use crate::config::NearsideOptions;
use crate::error::{Error, Result};

/// What `nearside.scheduling` reads where the settings are no preset.
const CUSTOM: &str = "custom";

/// The settings that a session's options stand for.
///
/// # Errors
/// [`Error::Setting`] with the values that there are.
pub(crate) fn settings(options: &NearsideOptions) -> Result<Settings> {
    Ok(Settings {
        affinities: value(&options.affinities)?,
        stealing: value(&options.stealing)?,
        steal: value(&options.steal)?,
        binding: value(&options.binding)?,
        parallelism: u16::try_from(options.parallelism)
            .map_err(|_| Error::Setting(format!("nearside.parallelism is at most {}; 0 is no limit", u16::MAX)))?,
        memory_intensive_bytes_per_us: options.memory_intensive_bytes_per_us,
    })
}

/// Writes settings into a session's options.
pub(crate) fn write(settings: &Settings, options: &mut NearsideOptions) {
    options.affinities = settings.affinities.to_string();
    options.stealing = settings.stealing.to_string();
    options.steal = settings.steal.to_string();
    options.binding = settings.binding.to_string();
    options.parallelism = u32::from(settings.parallelism);
    options.memory_intensive_bytes_per_us = settings.memory_intensive_bytes_per_us;
    options.scheduling = name(settings);
}

/// Makes options agree after `changed` (a full name) was set: the preset with the rest.
///
/// # Errors
/// As [`settings`]; the options are then not to be used.
pub(crate) fn settle(changed: &str, options: &mut NearsideOptions) -> Result<()> {
    if changed == "nearside.scheduling" {
        let preset: Preset = value(&options.scheduling)?;
        write(&Settings::preset(preset), options);
    }
    let settings = settings(options)?;
    options.scheduling = name(&settings);
    Ok(())
}

fn name(settings: &Settings) -> String {
    settings.strategy().map_or_else(|| CUSTOM.to_string(), |preset| preset.to_string())
}

fn value<T: FromStr<Err = sched::SettingError>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: sched::SettingError| Error::Setting(error.to_string()))
}
