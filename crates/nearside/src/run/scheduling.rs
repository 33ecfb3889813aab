//! How a session's tasks are scheduled: the scheduler's settings as `SET nearside.*` has them.
//!
//! A database starts with the settings that its builder gives; each session starts with those of the database and may
//! change its own. `nearside.scheduling` stands for four of them (affinities, stealing, steal, binding): setting it
//! sets these, and it reads `custom` where they are no preset; parallelism and the threshold of memory-intensive tasks
//! stay as they are.
//!
//! Invariants: the options hold names as the settings' own types write them. With `auto` the threshold is 0 until it is
//! known; it is measured once, by the first large statement that finds nobody else at it.
//!
//! # Limits
//! A threshold that could not be measured in a few tries (other work kept the workers busy) stays 0.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 6 (OS, Target, Bound); Greinsmark 2020, section 2.5.

use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use numa::{Attributes, NodeId, Topology};
use parking_lot::Mutex;
use sched::policy::PackageQueues;
use sched::{Calibration, Preset, Scheduler, Settings};

use crate::error::{Error, Result};
use crate::run::options::NearsideOptions;

/// What `nearside.scheduling` reads where the settings are no preset.
const CUSTOM: &str = "custom";
/// The threshold that leaves it to the machine.
const AUTO: &str = "auto";
/// The word for what is to be done wherever it can be.
const ON: &str = "on";
/// The word for what is not to be done, or read.
const OFF: &str = "off";
/// The largest threshold there is; see [`Settings::memory_intensive_bytes_per_us`].
const THRESHOLD_MAX: u32 = i32::MAX as u32;
/// From this many estimated bytes on a statement is worth measuring the threshold for.
const CALIBRATED_FROM_BYTES: u64 = 64 << 20;
/// How often it is tried.
const TRIES: u32 = 3;

/// From how many bytes per microsecond a task is memory-intensive on this machine, once that is known.
pub(crate) struct Threshold {
    known: OnceLock<u32>,
    /// How often measuring it has been tried. Held meanwhile.
    tries: Mutex<u32>,
}

impl Threshold {
    /// What can be said without measuring: never where all slots are on one node, since no task could leave its data;
    /// else what the probe's figures say.
    pub(crate) fn of(scheduler: &Scheduler, attributes: Option<&Attributes>) -> Threshold {
        let mut nodes: Vec<_> = scheduler.layout().groups().iter().map(|group| group.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let given = |attributes: &Attributes| {
            let of_node = |node: &numa::NodeId| {
                let rate = attributes.read_bytes_per_second(*node, *node)?;
                let cpus = attributes.topology.node(*node)?.cpus.len();
                Some(Calibration::from_rates(rate, cpus).memory_intensive_bytes_per_us)
            };
            nodes.iter().filter_map(of_node).min()
        };
        let known = if nodes.len() <= 1 { Some(0) } else { attributes.and_then(given) };
        Threshold { known: known.map_or_else(OnceLock::new, OnceLock::from), tries: Mutex::new(0) }
    }

    /// The threshold, if it is known.
    pub(crate) fn known(&self) -> Option<u32> {
        self.known.get().copied()
    }

    /// Measures it unless another statement does. `None` where it stays unknown for now.
    fn measured(&self, scheduler: &Arc<Scheduler>, statement: &Arc<sched::Statement>) -> Option<u32> {
        let mut tries = self.tries.try_lock()?;
        if self.known().is_none() {
            *tries += 1;
            // A statement that was stopped meanwhile says so itself.
            let measured = Calibration::measure(scheduler, statement).ok().flatten();
            match measured {
                Some(calibration) => _ = self.known.set(calibration.memory_intensive_bytes_per_us),
                None if *tries >= TRIES => _ = self.known.set(0),
                None => {}
            }
        }
        self.known()
    }
}

/// Which packages share their queue, by what `nearside.package_queues` says.
pub(crate) struct PackageChoice {
    /// Those whose sub-domains have the same bandwidth.
    even: Arc<PackageQueues>,
    /// Those with sub-domains.
    all: Arc<PackageQueues>,
}

impl PackageChoice {
    /// Of a machine, by the probe's figures where there are any.
    pub(crate) fn of(topology: &Topology, attributes: Option<&Attributes>) -> PackageChoice {
        let rate = |from: NodeId, to: NodeId| attributes?.read_bytes_per_second(from, to);
        let (even, all) = (PackageQueues::even(topology, &rate), PackageQueues::all(topology));
        PackageChoice { even: Arc::new(even), all: Arc::new(all) }
    }

    /// What a session's setting, which is one of those that there are, makes of it.
    pub(crate) fn wanted(&self, text: &str) -> Arc<PackageQueues> {
        match text {
            ON => Arc::clone(&self.all),
            OFF => Arc::default(),
            _ => Arc::clone(&self.even),
        }
    }
}

/// `nearside.package_queues` as it is written.
///
/// # Errors
/// [`Error::Setting`] with the values that there are.
fn package_queues(text: &str) -> Result<&'static str> {
    let known = [AUTO, ON, OFF].into_iter().find(|value| text.trim().eq_ignore_ascii_case(value));
    known.ok_or_else(|| {
        Error::Setting(format!("nearside.package_queues cannot be '{text}': choose {AUTO}, {ON} or {OFF}"))
    })
}

/// Before a statement that is estimated to read `n` bytes: gives it the machine's threshold, measured if need be.
pub(crate) fn calibrate(
    threshold: &Threshold,
    options: &NearsideOptions,
    scheduler: &Arc<Scheduler>,
    statement: &Arc<sched::Statement>,
    estimated_bytes: u64,
) {
    if options.memory_intensive_bytes_per_us != AUTO
        || threshold.known().is_some()
        || estimated_bytes < CALIBRATED_FROM_BYTES
    {
        return;
    }
    if let Some(measured) = threshold.measured(scheduler, statement) {
        statement.set_settings(settings(options, measured).ok());
    }
}

/// The settings that a session's options stand for; `machine` is the threshold where they leave it to the machine.
///
/// # Errors
/// [`Error::Setting`] with the values that there are.
pub(crate) fn settings(options: &NearsideOptions, machine: u32) -> Result<Settings> {
    Ok(Settings {
        affinities: value(&options.affinities)?,
        stealing: value(&options.stealing)?,
        steal: value(&options.steal)?,
        binding: value(&options.binding)?,
        parallelism: u16::try_from(options.parallelism)
            .map_err(|_| Error::Setting(format!("nearside.parallelism is at most {}; 0 is no limit", u16::MAX)))?,
        memory_intensive_bytes_per_us: threshold(&options.memory_intensive_bytes_per_us)?.unwrap_or(machine),
    })
}

/// The number in a threshold's text; `None` for `auto`.
fn threshold(text: &str) -> Result<Option<u32>> {
    if text.trim().eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    match text.trim().parse() {
        Ok(bytes) if bytes <= THRESHOLD_MAX => Ok(Some(bytes)),
        _ => Err(Error::Setting(format!(
            "nearside.memory_intensive_bytes_per_us cannot be '{text}': choose {AUTO}, 0 (never) or a whole number up \
             to \
             {THRESHOLD_MAX}"
        ))),
    }
}

/// Whether hardware counters count for a session's statements.
///
/// # Errors
/// [`Error::Setting`] with the values that there are.
pub(crate) fn counted(text: &str) -> Result<bool> {
    match text.trim() {
        text if text.eq_ignore_ascii_case(AUTO) => Ok(true),
        text if text.eq_ignore_ascii_case(OFF) => Ok(false),
        _ => Err(Error::Setting(format!("nearside.hardware_counters cannot be '{text}': choose {AUTO} or {OFF}"))),
    }
}

/// Writes settings into a session's options. A threshold of 0 is left to the machine.
pub(crate) fn write(settings: &Settings, options: &mut NearsideOptions) {
    write_strategy(settings, options);
    options.parallelism = u32::from(settings.parallelism);
    options.memory_intensive_bytes_per_us = match settings.memory_intensive_bytes_per_us {
        0 => AUTO.to_string(),
        bytes => bytes.min(THRESHOLD_MAX).to_string(),
    };
}

/// Writes the four settings that a strategy stands for.
pub(crate) fn write_strategy(settings: &Settings, options: &mut NearsideOptions) {
    options.affinities = settings.affinities.to_string();
    options.stealing = settings.stealing.to_string();
    options.steal = settings.steal.to_string();
    options.binding = settings.binding.to_string();
    options.scheduling = name(settings);
}

/// Makes options agree after `changed` (a full name) was set: the preset with the rest, and every name as it is
/// written.
///
/// # Errors
/// As [`settings`]; the options are then not to be used.
pub(crate) fn settle(changed: &str, options: &mut NearsideOptions) -> Result<()> {
    if changed == "nearside.scheduling" && !options.scheduling.trim().eq_ignore_ascii_case(CUSTOM) {
        let preset: Preset = value(&options.scheduling)?;
        write_strategy(&Settings::preset(preset), options);
    }
    let settings = settings(options, 0)?;
    write_strategy(&settings, options);
    options.package_queues = package_queues(&options.package_queues)?.into();
    options.hardware_counters = if counted(&options.hardware_counters)? { AUTO.into() } else { OFF.into() };
    options.memory_intensive_bytes_per_us =
        threshold(&options.memory_intensive_bytes_per_us)?.map_or_else(|| AUTO.to_string(), |bytes| bytes.to_string());
    Ok(())
}

fn name(settings: &Settings) -> String {
    settings.strategy().map_or_else(|| CUSTOM.to_string(), |preset| preset.to_string())
}

fn value<T: FromStr<Err = sched::SettingError>>(text: &str) -> Result<T> {
    text.parse().map_err(|error: sched::SettingError| Error::Setting(format!("nearside.{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::run::config;
    use crate::run::statement::RunningStatement;

    fn database(packages: u32, attributes: Option<Attributes>) -> Database {
        let topology = Topology::synthetic(packages, 1, 1, 1);
        let builder = Database::builder().topology(topology).memory_bytes(256 << 20);
        match attributes {
            Some(attributes) => builder.attributes(attributes).build().unwrap(),
            None => builder.build().unwrap(),
        }
    }

    /// What stands before a statement's plan runs.
    fn before(running: &RunningStatement, estimated_bytes: u64) {
        let options = config::nearside(running.planner.config_options());
        let inner = &running.inner;
        calibrate(&inner.threshold, &options, &inner.scheduler, &running.statement, estimated_bytes);
    }

    fn threshold_of(running: &RunningStatement) -> u32 {
        running.statement.settings().unwrap().memory_intensive_bytes_per_us
    }

    #[test]
    fn one_node_needs_no_threshold_and_figures_give_one() {
        let one = database(1, None).session().running();
        assert_eq!((one.inner.threshold.known(), threshold_of(&one)), (Some(0), 0));
        let mut figures = Attributes::empty(Topology::synthetic(2, 1, 1, 1), "two", "measured");
        let nodes = figures.topology.nodes().iter().map(|node| node.id).collect::<Vec<_>>();
        (figures.nodes, figures.targets) = (nodes.clone(), nodes);
        figures.read = vec![vec![Some(10e9), Some(1e9)], vec![Some(1e9), Some(8e9)]];
        let two = database(2, Some(figures)).session().running();
        assert_eq!(threshold_of(&two), 4000, "half of what the slower node gives its one cpu");
    }

    #[test]
    fn sub_domains_share_a_queue_where_figures_say_so_or_the_session_does() {
        let topology = Topology::synthetic(2, 2, 1, 1);
        let shares = |queues: &PackageQueues| -> Vec<bool> {
            let place =
                |node| !matches!(queues.near(NodeId(node)), sched::Affinity::Near { place: sched::Place::Node(_), .. });
            (0..4).map(place).collect()
        };
        let unknown = PackageChoice::of(&topology, None);
        assert_eq!(shares(&unknown.wanted(AUTO)), [false; 4], "firmware says 12");
        assert_eq!(shares(&unknown.wanted(ON)), [true; 4]);
        let mut figures = Attributes::empty(topology.clone(), "snc", "measured");
        let read = |from: u32, to: u32| Some(if from / 2 == to / 2 { 20e9 } else { 8e9 });
        figures.read = (0..4).map(|from| (0..4).map(|to| read(from, to)).collect()).collect();
        // Of the second package one direction is slower.
        figures.read[2][3] = Some(12e9);
        let known = PackageChoice::of(&topology, Some(&figures));
        assert_eq!(shares(&known.wanted(AUTO)), [true, true, false, false]);
        assert_eq!(shares(&known.wanted(OFF)), [false; 4]);
    }

    #[test]
    fn the_setting_is_one_of_three() {
        let session = database(2, None).session();
        session.execute("SET nearside.package_queues = 'ON'").unwrap();
        let running = session.running();
        assert_eq!(config::nearside(running.planner.config_options()).package_queues, ON);
        let error = session.execute("SET nearside.package_queues = 'some'").unwrap_err().to_string();
        assert!(error.contains("nearside.package_queues cannot be 'some': choose auto, on or off"), "{error}");
    }

    #[test]
    fn a_large_statement_measures_what_nobody_gave() {
        let database = database(2, None);
        let session = database.session();
        let small = session.running();
        before(&small, CALIBRATED_FROM_BYTES - 1);
        assert_eq!(small.inner.threshold.known(), None);
        session.execute("SET nearside.memory_intensive_bytes_per_us = 5").unwrap();
        let fixed = session.running();
        before(&fixed, CALIBRATED_FROM_BYTES);
        assert_eq!((fixed.inner.threshold.known(), threshold_of(&fixed)), (None, 5));
        session.execute("RESET nearside.memory_intensive_bytes_per_us").unwrap();
        let large = session.running();
        {
            let _other = large.inner.threshold.tries.lock();
            before(&large, CALIBRATED_FROM_BYTES);
            assert_eq!(large.inner.threshold.known(), None, "whoever does not get to measure goes on");
        }
        (0..TRIES).for_each(|_| before(&large, CALIBRATED_FROM_BYTES));
        let known = large.inner.threshold.known().expect("measured, or given up");
        assert_eq!((threshold_of(&large), threshold_of(&session.running())), (known, known));
    }
}
