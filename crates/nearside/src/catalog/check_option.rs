//! `CHECK OPTION` of a view that is written.

use serde::{Deserialize, Serialize};

/// Which rows that are written through a view it has to show afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckOption {
    /// All, as far as its own condition says.
    Local,
    /// All, also as far as conditions of the views say that it reads.
    Cascaded,
}

impl CheckOption {
    /// As SQL writes it.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            CheckOption::Local => "LOCAL",
            CheckOption::Cascaded => "CASCADED",
        }
    }

    /// What SQL's words say.
    pub(crate) fn of(text: &str) -> Option<CheckOption> {
        [CheckOption::Local, CheckOption::Cascaded].into_iter().find(|check| check.sql().eq_ignore_ascii_case(text))
    }
}
