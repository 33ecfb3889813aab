//! What the placer is told to do, and what it knows: see [`placer`](super::placer), which is at work on it.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use numa::NodeId;
use parking_lot::{Condvar, Mutex};
use placer::Placer;

use crate::run::placer_log::Log;

/// How long a period is, unless somebody says otherwise: some hundred statements of a busy machine, and short to who
/// waits for it.
pub(crate) const PERIOD_MS_DEFAULT: u64 = 1000;
/// The shortest.
const PERIOD_MS_MIN: u64 = 10;
/// How long a move sleeps at most before it looks whether it was stopped.
const LOOK: Duration = Duration::from_millis(20);

/// What the placer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    #[default]
    Off,
    /// It says what it would do.
    Advise,
    /// It does it.
    On,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Off => "off",
            Mode::Advise => "advise",
            Mode::On => "on",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let all = [Mode::Off, Mode::Advise, Mode::On];
        let known = all.into_iter().find(|mode| mode.to_string().eq_ignore_ascii_case(text.trim()));
        known.ok_or_else(|| format!("it cannot be '{text}'; choose off, advise or on"))
    }
}

/// See the module; one of a database.
#[derive(Debug)]
pub(crate) struct LivePlacer {
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
    pub(crate) log: Log,
    /// Held by who moves data: one move at a time.
    pub(super) moving: Mutex<()>,
    /// Held by who decides: nobody else waits for that.
    pub(super) decides: Mutex<Placer>,
    /// What each node's memory gives, once it is known.
    pub(super) bandwidth: OnceLock<HashMap<NodeId, f64>>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) mode: Mode,
    period: Duration,
    pub(super) has_thread: bool,
    is_ended: bool,
    /// Entries of the log whose gain is not known yet: when it is, in periods, and bytes that were read per second
    /// before.
    pub(super) open: Vec<(u64, u64, f64)>,
}

impl Default for LivePlacer {
    fn default() -> LivePlacer {
        let state = State {
            mode: Mode::Off,
            period: Duration::from_millis(PERIOD_MS_DEFAULT),
            has_thread: false,
            is_ended: false,
            open: Vec::new(),
        };
        LivePlacer {
            state: Mutex::new(state),
            changed: Condvar::new(),
            log: Log::default(),
            moving: Mutex::default(),
            decides: Mutex::default(),
            bandwidth: OnceLock::new(),
        }
    }
}

impl LivePlacer {
    /// What it does.
    pub(crate) fn mode(&self) -> Mode {
        self.state.lock().mode
    }

    /// How long a period is.
    pub(crate) fn period_ms(&self) -> u64 {
        self.state.lock().period.as_millis() as u64
    }

    /// Sets how long a period is.
    ///
    /// # Errors
    /// It is too short.
    pub(crate) fn set_period_ms(&self, ms: u64) -> Result<(), String> {
        if ms < PERIOD_MS_MIN {
            return Err(format!("a period of {ms} ms is too short; the shortest is {PERIOD_MS_MIN}"));
        }
        self.state.lock().period = Duration::from_millis(ms);
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing more is decided.
    pub(crate) fn end(&self) {
        self.state.lock().is_ended = true;
        self.changed.notify_all();
    }

    /// Whether a move has to stop: the placer was switched off.
    pub(super) fn is_stopped(&self) -> bool {
        let state = self.state.lock();
        state.is_ended || state.mode != Mode::On
    }

    /// Waits for a period; whether there is another one.
    pub(super) fn waited(&self) -> bool {
        let mut state = self.state.lock();
        let begin = Instant::now();
        while state.mode != Mode::Off && !state.is_ended {
            let left = state.period.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            self.changed.wait_for(&mut state, left);
        }
        let goes_on = state.mode != Mode::Off && !state.is_ended;
        state.has_thread = goes_on;
        goes_on
    }

    /// Sleeps between two steps of a move, as long as it is not stopped.
    pub(super) fn pause(&self, time: Duration, is_stopped: &(dyn Fn() -> bool + Sync)) {
        let begin = Instant::now();
        while let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
            && !is_stopped()
        {
            // Who is stopped by something else than the placer's mode is not told.
            self.changed.wait_for(&mut self.state.lock(), left.min(LOOK));
        }
    }
}
