//! What limits statements beside what their session has set: `nearside.max_*`, which roles are given and cannot change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The smaller of two limits, of which 0 is none.
pub(crate) fn tighter(one: u64, other: u64) -> u64 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        (one, other) => one.min(other),
    }
}

/// What a statement may take that its budget and its deadline do not tell; 0 is no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoleLimits {
    /// Rows that it may give.
    pub rows: u64,
    /// Statements that its role may run at once.
    pub statements: u32,
}

/// How many statements sessions of each role run, or how many sessions each has.
#[derive(Debug, Default)]
pub(crate) struct RunningOfRoles(Mutex<HashMap<u32, u32>>);

/// One of those that a role may have at once, until it is dropped.
#[derive(Debug)]
pub(crate) struct RoleTurn {
    all: Arc<RunningOfRoles>,
    role: u32,
}

impl RunningOfRoles {
    /// One more begins; `None` where the role has as many as it may.
    pub(crate) fn begin(self: &Arc<Self>, role: u32, most: u32) -> Option<RoleTurn> {
        let mut all = self.0.lock();
        let running = all.entry(role).or_default();
        if *running >= most {
            return None;
        }
        *running += 1;
        Some(RoleTurn { all: Arc::clone(self), role })
    }
}

impl Drop for RoleTurn {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(running) = all.get_mut(&self.role) {
            *running -= 1;
            if *running == 0 {
                all.remove(&self.role);
            }
        }
    }
}

/// Rows that a statement may still give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsLeft {
    most: u64,
    given: u64,
}

impl RowsLeft {
    /// Of so many; `None` where 0 says that there is no limit.
    pub(crate) fn of(most: u64) -> Option<RowsLeft> {
        (most > 0).then_some(RowsLeft { most, given: 0 })
    }

    /// It gives some.
    ///
    /// # Errors
    /// They are more than it may give.
    pub(crate) fn give(&mut self, rows: usize) -> Result<()> {
        self.given += rows as u64;
        match self.given > self.most {
            true => Err(Error::execution(
                SqlState::ConfigurationLimitExceeded,
                format!("the statement gives more than {} rows (nearside.max_rows); add a LIMIT", self.most),
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_counted_until_they_end() {
        let all = Arc::new(RunningOfRoles::default());
        let first = all.begin(7, 2).unwrap();
        let _second = all.begin(7, 2).unwrap();
        assert!(all.begin(7, 2).is_none() && all.begin(8, 1).is_some());
        drop(first);
        assert!(all.begin(7, 2).is_some());
    }

    #[test]
    fn no_limit_is_no_limit() {
        assert_eq!([tighter(0, 0), tighter(0, 5), tighter(3, 0), tighter(3, 5)], [0, 5, 3, 3]);
        assert!(RowsLeft::of(0).is_none());
        let mut left = RowsLeft::of(3).unwrap();
        assert!(left.give(3).is_ok() && left.give(1).is_err());
    }
}
