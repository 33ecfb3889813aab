//! What tasks run with and what they account for: budgets and workers ([`run`]), where pages lie ([`locate`]), which
//! bytes were touched ([`traffic`]), how long threads worked for which operator ([`profile`]), and what that says of
//! tasks to come ([`feedback`]).

pub(crate) mod counter;
pub(crate) mod feedback;
pub(crate) mod locate;
pub(crate) mod parallel;
pub(crate) mod places;
#[cfg(test)]
pub(crate) mod pretended;
pub(crate) mod profile;
pub(crate) mod rows;
pub(crate) mod run;
pub(crate) mod traffic;
