//! Look-ups and scans of callers that wait for them, by commands or directly, and the rule that chooses.
//!
//! Directly: the caller walks through every unit's tree itself, wherever it lies. By commands: keys go to their units,
//! which look all of them up at once, and values come back. Both see the same.
//!
//! # Limits
//! A scan by commands is told pairs in pieces of thousands, whatever the caller wants; so the rule never chooses it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::window::WINDOW_KEYS;
use super::{Keyed, Store};
use crate::read::{Callback, Part, is_in_callback};
use crate::versions::Pin;

/// Pairs of a scan that are on their way together, if its parts are not more.
const WINDOW_PAIRS: usize = 8192;
/// The least pairs that a part of a scan is asked for.
const PART_PAIRS_LEAST: usize = 64;

/// Keys per unit from which on a batch goes to where the keys are. Reading remote memory costs a look-up, several of
/// which wait together, some tens of nanoseconds more; a worker that is woken costs some tens of microseconds once.
const KEYS_PER_UNIT: usize = 512;

/// How callers that wait read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Large look-ups by commands where units lie on several nodes and workers serve them; everything else directly.
    #[default]
    Auto,
    /// The caller itself, everywhere.
    Direct,
    /// The units that own the keys.
    Commands,
}

const ROUTES: [(Route, &str); 3] = [(Route::Auto, "auto"), (Route::Direct, "direct"), (Route::Commands, "commands")];

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ROUTES.iter().find(|(route, _)| route == self).map_or("", |known| known.1);
        f.pad(name)
    }
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Route, String> {
        let known = ROUTES.iter().find(|(_, name)| *name == text);
        known.map(|known| known.0).ok_or_else(|| format!("{text} is no way to read; say auto, direct or commands"))
    }
}

/// A route that threads read without a lock.
#[derive(Debug, Default)]
pub(super) struct ChosenRoute(AtomicU64);

/// Whether a look-up of so many keys goes by commands: the rule of [`Route::Auto`].
fn look_up_goes_by_commands(route: Route, keys: usize, units: usize, nodes: usize, is_served: bool) -> bool {
    match route {
        Route::Direct => false,
        Route::Commands => true,
        Route::Auto => nodes > 1 && is_served && keys >= KEYS_PER_UNIT * units,
    }
}

impl Store {
    /// Sets how callers that wait read.
    pub fn set_route(&self, route: Route) {
        let place = ROUTES.iter().position(|(known, _)| *known == route).unwrap_or(0);
        self.route.0.store(place as u64, Ordering::Relaxed);
    }

    /// How they read; [`Route::Auto`] unless set.
    pub fn route(&self) -> Route {
        ROUTES[self.route.0.load(Ordering::Relaxed) as usize].0
    }
}

/// A part of a scan, with its pairs.
type PartPairs = (Part, Vec<(u64, u64)>);

/// Parts of a scan that came back.
#[derive(Debug, Default)]
struct Scanned(Mutex<Vec<PartPairs>>);

impl Callback for Scanned {
    fn values(&self, _: u64, _: &[u64], _: &[Option<u64>]) {
        panic!("nothing is looked up for a scan");
    }

    fn pairs(&self, _: u64, part: Part, pairs: &[(u64, u64)]) {
        self.0.lock().push((part, pairs.to_vec()));
    }
}

impl Scanned {
    /// What came back since, the last part first.
    fn take(&self) -> Vec<PartPairs> {
        let mut parts = std::mem::take(&mut *self.0.lock());
        parts.sort_unstable_by_key(|(part, _)| std::cmp::Reverse(part.first));
        parts
    }
}

impl Keyed {
    /// Whether a look-up of so many keys goes by commands.
    pub(super) fn looks_up_by_commands(&self, keys: usize) -> bool {
        let route = self.store.route();
        if route == Route::Direct || is_in_callback() {
            return false;
        }
        look_up_goes_by_commands(route, keys, self.object.trees.len(), self.store.nodes, self.store.is_served())
    }

    /// Whether a scan goes by commands.
    pub(super) fn scans_by_commands(&self) -> bool {
        self.store.route() == Route::Commands && !is_in_callback()
    }

    /// Looks keys up by commands; false, and nothing was done, where no outgoing buffers are to be had.
    pub(super) fn look_up_by_commands(
        &self,
        keys: &[u64],
        pin: &Pin,
        found: &mut impl FnMut(usize, Option<u64>),
    ) -> bool {
        let callback = |buffers: &super::sender::Buffers| -> Arc<dyn Callback> { Arc::clone(&buffers.window) as _ };
        let Ok(mut sender) = self.sender_for(pin, usize::MAX, callback) else { return false };
        let mut split = std::mem::take(&mut sender.buffers().split);
        let mut by_unit = std::mem::take(&mut sender.buffers().keys);
        let window = Arc::clone(&sender.buffers().window);
        for (number, keys) in keys.chunks(WINDOW_KEYS).enumerate() {
            self.object.routing.read(|view| view.split(keys, self.object.trees.len(), &mut split));
            by_unit.clear();
            by_unit.extend(split.places().iter().map(|place| keys[*place]));
            sender.look_up(0, &by_unit);
            if let Err(error) = sender.wait() {
                panic!("{error}");
            }
            for (at, place) in split.places().iter().enumerate() {
                found(number * WINDOW_KEYS + place, window.value(at));
            }
        }
        sender.buffers().split = split;
        sender.buffers().keys = by_unit;
        true
    }

    /// Scans a range by commands, in order; false, and nothing was done, where no outgoing buffers are to be had.
    pub(super) fn scan_by_commands(
        &self,
        (first, last): (u64, u64),
        pin: &Pin,
        each: &mut impl FnMut(u64, u64) -> bool,
    ) -> bool {
        let scanned = Arc::new(Scanned::default());
        let Ok(mut sender) = self.sender(pin, Arc::clone(&scanned) as _, usize::MAX) else { return false };
        let parts = self.object.trees.len().max(1);
        let mut ask = |first: u64, last: u64, limit: usize| {
            sender.scan(0, first, last, limit);
            if let Err(error) = sender.wait() {
                panic!("{error}");
            }
            scanned.take()
        };
        // The next part is the last of these.
        let mut waiting = ask(first, last, (WINDOW_PAIRS / parts).max(PART_PAIRS_LEAST));
        while let Some((part, pairs)) = waiting.pop() {
            for (key, value) in pairs {
                if !each(key, value) {
                    return true;
                }
            }
            if let Some(rest) = part.rest {
                waiting.extend(ask(rest, part.last, WINDOW_PAIRS));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
