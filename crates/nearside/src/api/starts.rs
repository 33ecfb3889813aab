//! What sessions begin with: settings, and the numbers that tell settings apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalog::roles::FIRST;
use crate::plan::planner::{Planner, Who};
use crate::run::client;
use crate::run::inner::Inner;
use crate::run::session_settings::put;

/// Tells settings apart in the plan cache's keys; 0 are the defaults.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number for settings that are no others'.
pub(super) fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// What a session of a role begins with, and the number that tells it apart; what a role was given and is no setting
/// any more is left out.
pub(super) fn start_of(user: u32, inner: &Inner) -> (Arc<Planner>, u64) {
    let state = inner.catalog.state();
    let settings = state.roles().by_id(user).map(|(_, role)| role.settings.clone()).unwrap_or_default();
    if user == FIRST && settings.is_empty() {
        return (inner.default_planner(), 0);
    }
    let mut starts = inner.starts.lock();
    if let Some((of, planner, number)) = starts.get(&user)
        && *of == settings
    {
        return (Arc::clone(planner), *number);
    }
    let mut planner = inner.default_planner().run_as(Who { session: user, user });
    for (name, value) in &settings {
        if client::fixed_of(name).is_none()
            && let Ok(changed) = planner.changed(|options| put(name, value, options))
        {
            planner = changed;
        }
    }
    let (planner, number) = (Arc::new(planner), next_number());
    starts.insert(user, (settings, Arc::clone(&planner), number));
    (planner, number)
}
