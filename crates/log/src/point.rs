//! Points of a log: numbers of records, and times.

use std::fmt;

/// The number of a record; the first has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A point of time to restore to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// This record is the last.
    Lsn(Lsn),
    /// The last record of this time, in microseconds since 1970, or before is.
    TimeUs(u64),
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::Lsn(lsn) => write!(f, "record {lsn}"),
            Until::TimeUs(time_us) => write!(f, "the time {time_us} (microseconds since 1970)"),
        }
    }
}
