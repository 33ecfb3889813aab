//! Statements of a transaction: what they see ([`view`]), what they lock of what they have written ([`locking`]), and
//! how all of it becomes everybody's ([`commit`]). docs/design/transactions.md says what a transaction is here, and
//! why; [`crate::run::transaction`] has what it consists of.

use std::sync::Arc;

use crate::error::Result;
use crate::run::statement::RunningStatement;

pub(crate) mod by_keys;
pub(crate) mod commit;
pub(crate) mod ending;
pub(crate) mod locking;
mod serializable;
pub(crate) mod view;
pub(crate) mod wanted;

/// Runs a statement that is part of no transaction; where it meets what a transaction has locked it waits, and begins
/// again, so that it never fails for that.
///
/// # Errors
/// Those of `work`; it was cancelled, or had no more time.
pub(crate) fn until_nothing_is_in_the_way<T>(
    start: impl Fn() -> RunningStatement,
    work: impl Fn(&Arc<RunningStatement>) -> Result<T>,
) -> Result<T> {
    let mut running = Arc::new(start());
    loop {
        let outcome = work(&running);
        let Some(holder) = running.blocker().filter(|_| outcome.is_err()) else { return outcome };
        running.inner.transactions.wait(None, holder, || running.check())?;
        running = Arc::new(start().begun_again(&running));
    }
}
