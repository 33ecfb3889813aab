//! What tasks run with and what they account for: budgets and workers ([`run`]), where pages lie ([`locate`]), which
//! bytes were touched ([`traffic`]) and how long threads worked for which operator ([`profile`]).

pub(crate) mod counter;
pub(crate) mod locate;
pub(crate) mod parallel;
pub(crate) mod places;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod traffic;
