//! How a scheduler is set up: what cannot be changed while it runs, and the settings that it starts with.

use std::time::Duration;

use crate::counting::CounterSource;
use crate::policy::Split;
use crate::settings::{Binding, Preset, Settings, Stealing};

/// How a scheduler is set up. The default uses every usable cpu and [`Settings::default`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Slots, spread evenly over the nodes; `None` is one per usable cpu. 0 counts as 1; more than
    /// [`Config::THREADS_MAX`] counts as that. More slots than cpus share cpus.
    pub threads: Option<usize>,
    /// Whom an idle worker may steal from.
    pub stealing: Stealing,
    /// When workers are pinned.
    pub binding: Binding,
    /// Everything else that can also be changed while the scheduler runs. Its stealing and binding are those above.
    pub settings: Settings,
    /// How nodes are split into thread groups.
    pub split: Split,
    /// The most worker threads, those that wait in blocking sections included; `None` is four per slot and 64 more.
    /// Where it is reached, a worker that blocks keeps its slot.
    pub workers_max: Option<usize>,
    /// What the watchdog does.
    pub watchdog: Watchdog,
    /// Where workers get hardware counters from.
    pub counters: CounterSource,
}

impl Config {
    /// The most slots that a scheduler has.
    pub const THREADS_MAX: usize = 4096;

    /// The default with the settings of a preset.
    pub fn preset(preset: Preset) -> Config {
        let settings = Settings::preset(preset);
        Config { stealing: settings.stealing, binding: settings.binding, settings, ..Config::default() }
    }

    /// The settings that the scheduler starts with.
    pub fn initial_settings(&self) -> Settings {
        Settings { stealing: self.stealing, binding: self.binding, ..self.settings }
    }
}

/// When the watchdog looks, and when it calls a worker stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// Time between two looks while anything runs. Nothing runs: it sleeps.
    pub period: Duration,
    /// A worker that is at one task or call for longer than this is reported once.
    pub stuck_after: Duration,
}

impl Default for Watchdog {
    fn default() -> Watchdog {
        Watchdog { period: Duration::from_millis(10), stuck_after: Duration::from_secs(30) }
    }
}
