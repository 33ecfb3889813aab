//! Sequences: numbers that are given out once, whatever becomes of who took them.
//!
//! Values are no part of a snapshot and are not taken back by ROLLBACK. So that none is given out again after a crash,
//! the log says how far a sequence may have gone before values are given out: it is told of [`AHEAD`] more than are
//! taken, and those are given out without it. A checkpoint, or a record of the sequence itself, has where it really is;
//! what comes after it is told anew.
//!
//! # Invariants
//! A value is given out only when the log has one as far, or further. Who tells the log has the journal's gate before
//! the sequence's lock, as a checkpoint has.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::comments::Comments;
use crate::catalog::journal::{Journal, Position};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Values that the log is told of before they are taken, so that it is not told of each; PostgreSQL's number.
const AHEAD: u64 = 32;

/// The type whose range a sequence has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SequenceType {
    /// Of 16 bits.
    Small,
    /// Of 32 bits.
    Int,
    /// Of 64 bits.
    #[default]
    Big,
}

impl SequenceType {
    /// SQL's name.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            SequenceType::Small => "SMALLINT",
            SequenceType::Int => "INTEGER",
            SequenceType::Big => "BIGINT",
        }
    }

    /// Its least and greatest value.
    pub(crate) fn range(self) -> (i64, i64) {
        match self {
            SequenceType::Small => (i16::MIN.into(), i16::MAX.into()),
            SequenceType::Int => (i32::MIN.into(), i32::MAX.into()),
            SequenceType::Big => (i64::MIN, i64::MAX),
        }
    }

    /// The type that a name of SQL says.
    pub(crate) fn of(name: &str) -> Option<SequenceType> {
        match name.to_ascii_lowercase().as_str() {
            "smallint" | "int2" => Some(SequenceType::Small),
            "integer" | "int" | "int4" => Some(SequenceType::Int),
            "bigint" | "int8" => Some(SequenceType::Big),
            _ => None,
        }
    }
}

/// What values a sequence has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequenceSpec {
    pub data_type: SequenceType,
    /// The first value.
    pub start: i64,
    /// From one value to the next; not 0.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    /// How many values a session might take at once. All sessions take theirs one by one here, in any case.
    pub cache: i64,
    /// Whether it begins anew behind its last value.
    pub cycle: bool,
}

impl fmt::Display for SequenceSpec {
    /// As the options of CREATE SEQUENCE.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SequenceSpec { data_type: _, start, increment, min, max, cache, cycle } = self;
        write!(f, "INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start} CACHE {cache}")?;
        f.write_str(if *cycle { " CYCLE" } else { " NO CYCLE" })
    }
}

/// What a statement says of a sequence; what it does not say stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SequenceOptions {
    pub data_type: Option<SequenceType>,
    pub start: Option<i64>,
    pub increment: Option<i64>,
    /// `NO MINVALUE`: `Some(None)`.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    /// `RESTART`, with or without a value.
    pub restart: Option<Option<i64>>,
    /// The name of an identity's, as SQL writes it: `SEQUENCE NAME`.
    pub name: Option<String>,
}

impl SequenceOptions {
    /// A new sequence, or what becomes of one.
    ///
    /// # Errors
    /// Options that do not go together.
    pub(crate) fn applied(&self, before: Option<&SequenceSpec>) -> Result<SequenceSpec> {
        let wrong = |text: String| Err(Error::plan(SqlState::InvalidParameterValue, text));
        let data_type = self.data_type.or(before.map(|of| of.data_type)).unwrap_or_default();
        let increment = self.increment.or(before.map(|of| of.increment)).unwrap_or(1);
        if increment == 0 {
            return wrong("INCREMENT must not be zero".into());
        }
        let (least, greatest) = data_type.range();
        // Where another type is given alone, bounds that were the type's are the new type's.
        let was = |bound: fn(&SequenceSpec) -> i64, of_type: fn((i64, i64)) -> i64| {
            let before = before?;
            let is_of_type = bound(before) == of_type(before.data_type.range());
            (self.data_type.is_none() || !is_of_type).then(|| bound(before))
        };
        let usual_max = if increment > 0 { greatest } else { -1 };
        let usual_min = if increment > 0 { 1 } else { least };
        let max = match self.max {
            Some(given) => given.unwrap_or(usual_max),
            None => was(|of| of.max, |range| range.1).unwrap_or(usual_max),
        };
        let min = match self.min {
            Some(given) => given.unwrap_or(usual_min),
            None => was(|of| of.min, |range| range.0).unwrap_or(usual_min),
        };
        if max > greatest || min < least {
            let (value, bound) = if max > greatest { (max, "MAXVALUE") } else { (min, "MINVALUE") };
            return wrong(format!("{bound} ({value}) is out of range for a sequence of type {}", data_type.sql()));
        }
        if min >= max {
            return wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
        }
        let usual_start = if increment > 0 { min } else { max };
        let start = self.start.or(before.map(|of| of.start)).unwrap_or(usual_start);
        if start < min || start > max {
            let (bound, name, than) =
                if start < min { (min, "MINVALUE", "less") } else { (max, "MAXVALUE", "greater") };
            return wrong(format!("START value ({start}) cannot be {than} than {name} ({bound})"));
        }
        let cache = self.cache.or(before.map(|of| of.cache)).unwrap_or(1);
        if cache < 1 {
            return wrong(format!("CACHE ({cache}) must be greater than zero"));
        }
        let cycle = self.cycle.or(before.map(|of| of.cycle)).unwrap_or(false);
        Ok(SequenceSpec { data_type, start, increment, min, max, cache, cycle })
    }

    /// Where the sequence is once the options are applied: as it was, or where RESTART puts it.
    ///
    /// # Errors
    /// A value that is none of the sequence's.
    pub(crate) fn position(&self, spec: &SequenceSpec, before: Option<Position>) -> Result<Position> {
        let position = match (self.restart, before) {
            (Some(at), _) => Position { last: at.unwrap_or(spec.start), is_called: false },
            (None, Some(before)) => before,
            (None, None) => Position { last: spec.start, is_called: false },
        };
        if position.last < spec.min || position.last > spec.max {
            let (bound, name, than) = match position.last < spec.min {
                true => (spec.min, "MINVALUE", "less"),
                false => (spec.max, "MAXVALUE", "greater"),
            };
            return Err(Error::plan(
                SqlState::InvalidParameterValue,
                format!("RESTART value ({}) cannot be {than} than {name} ({bound})", position.last),
            ));
        }
        Ok(position)
    }
}

impl Position {
    /// Where the sequence is after so many more values, which go to `each`.
    ///
    /// # Errors
    /// The sequence ends.
    fn after(self, spec: &SequenceSpec, values: u64, mut each: impl FnMut(i64)) -> std::result::Result<Position, End> {
        let mut at = self;
        for _ in 0..values {
            let next = match at.is_called {
                false => at.last,
                true => match at.last.checked_add(spec.increment).filter(|next| *next <= spec.max && *next >= spec.min)
                {
                    Some(next) => next,
                    None if spec.cycle && spec.increment > 0 => spec.min,
                    None if spec.cycle => spec.max,
                    None => return Err(End(at)),
                },
            };
            each(next);
            at = Position { last: next, is_called: true };
        }
        Ok(at)
    }
}

/// A sequence has no further value behind this one.
struct End(Position);

/// The column whose sequence it is: it goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequenceOwner {
    /// The table's identity.
    pub table: u64,
    /// The column's name.
    pub column: String,
}

/// A sequence.
#[derive(Debug, Clone)]
pub(crate) struct SequenceEntry {
    /// Unique for the life of the database, among tables too.
    pub id: u64,
    /// What values it has.
    pub spec: SequenceSpec,
    /// Whose it is.
    pub owner: Option<SequenceOwner>,
    /// Where it is.
    pub values: Arc<SequenceValues>,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

/// Where a sequence is, which all states of the catalog share.
#[derive(Debug)]
pub(crate) struct SequenceValues(Mutex<Values>);

#[derive(Debug)]
struct Values {
    at: Position,
    /// How many more may be given out without telling the log.
    told: u64,
    /// Grows when the log is told: what was told before says nothing any more.
    epoch: u64,
}

impl SequenceValues {
    /// Of a sequence that is there.
    pub(crate) fn at(position: Position) -> Arc<SequenceValues> {
        Arc::new(SequenceValues(Mutex::new(Values { at: position, told: 0, epoch: 0 })))
    }

    /// Where it is.
    pub(crate) fn position(&self) -> Position {
        self.0.lock().at
    }

    /// Whether the log has it further than it is.
    pub(crate) fn is_told_ahead(&self) -> bool {
        self.0.lock().told > 0
    }

    /// Where it is, for a record or a checkpoint that says so: the log is told of what comes afterwards. With the
    /// journal's gate in hand.
    pub(crate) fn to_be_kept(&self) -> Position {
        let mut values = self.0.lock();
        values.told = 0;
        values.epoch += 1;
        values.at
    }

    /// The next `count` values. `lasts`: whether the sequence is one that the log knows.
    ///
    /// # Errors
    /// The sequence `name` has ended; the log takes nothing.
    pub(crate) fn next(
        &self,
        (name, sequence): (&str, &SequenceEntry),
        count: u64,
        journal: Option<&Arc<dyn Journal>>,
    ) -> Result<Vec<i64>> {
        let ended = |spec: &SequenceSpec| {
            let (what, bound) = if spec.increment > 0 { ("maximum", spec.max) } else { ("minimum", spec.min) };
            Error::execution(
                SqlState::SequenceGeneratorLimitExceeded,
                format!("sequence '{name}' has reached its {what} value ({bound})"),
            )
        };
        let spec = &sequence.spec;
        let mut taken = Vec::with_capacity(count.min(1 << 16) as usize);
        {
            let mut values = self.0.lock();
            if journal.is_none() || values.told >= count {
                values.at = values.at.after(spec, count, |value| taken.push(value)).map_err(|_| ended(spec))?;
                values.told = values.told.saturating_sub(count);
                return Ok(taken);
            }
        }
        let Some(journal) = journal else { return Ok(taken) };
        let epoch = {
            let _shared = journal.gate().read();
            let mut values = self.0.lock();
            let at = values.at.after(spec, count, |value| taken.push(value)).map_err(|_| ended(spec))?;
            let ahead = at.after(spec, AHEAD, |_| {}).unwrap_or_else(|End(last)| last);
            journal.sequence(sequence.id, ahead)?;
            values.at = at;
            values.told = 0;
            values.epoch += 1;
            values.epoch
        };
        journal.settle()?;
        let mut values = self.0.lock();
        if values.epoch == epoch {
            values.told = AHEAD;
        }
        Ok(taken)
    }

    /// Puts it somewhere else.
    ///
    /// # Errors
    /// A value that is none of the sequence `name`'s; the log takes nothing.
    pub(crate) fn set(
        &self,
        (name, sequence): (&str, &SequenceEntry),
        to: Position,
        journal: Option<&Arc<dyn Journal>>,
    ) -> Result<()> {
        let SequenceSpec { min, max, .. } = sequence.spec;
        if to.last < min || to.last > max {
            return Err(Error::execution(
                SqlState::NumericValueOutOfRange,
                format!("{} is out of bounds for sequence '{name}' ({min} to {max})", to.last),
            ));
        }
        {
            let _shared = journal.map(|journal| journal.gate().read());
            let mut values = self.0.lock();
            if let Some(journal) = journal {
                journal.sequence(sequence.id, to)?;
            }
            values.at = to;
            values.told = 0;
            values.epoch += 1;
        }
        match journal {
            Some(journal) => journal.settle(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(spec: &SequenceSpec, count: u64) -> Vec<i64> {
        let mut all = Vec::new();
        let first = Position { last: spec.start, is_called: false };
        let _ = first.after(spec, count, |value| all.push(value));
        all
    }

    #[test]
    fn values_go_up_or_down_and_around() {
        let up = SequenceOptions::default().applied(None).unwrap();
        assert_eq!(values(&up, 3), [1, 2, 3]);
        assert_eq!((up.min, up.max), (1, i64::MAX));
        let down = SequenceOptions { increment: Some(-2), ..Default::default() }.applied(None).unwrap();
        assert_eq!(values(&down, 3), [-1, -3, -5]);
        assert_eq!((down.min, down.max), (i64::MIN, -1));
        let around = SequenceOptions {
            min: Some(Some(3)),
            max: Some(Some(5)),
            start: Some(4),
            cycle: Some(true),
            ..Default::default()
        };
        assert_eq!(values(&around.applied(None).unwrap(), 6), [4, 5, 3, 4, 5, 3]);
        let once = SequenceOptions { cycle: None, ..around };
        assert_eq!(values(&once.applied(None).unwrap(), 6), [4, 5]);
        let wide = SequenceOptions { increment: Some(i64::MAX), ..Default::default() }.applied(None).unwrap();
        assert_eq!(values(&wide, 3), [1]);
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        let wrong = |options: SequenceOptions| options.applied(None).unwrap_err().to_string();
        let none = SequenceOptions::default;
        assert!(wrong(SequenceOptions { increment: Some(0), ..none() }).contains("must not be zero"));
        assert!(wrong(SequenceOptions { start: Some(0), ..none() }).contains("cannot be less than MINVALUE (1)"));
        assert!(wrong(SequenceOptions { cache: Some(0), ..none() }).contains("CACHE"));
        let small = Some(SequenceType::Small);
        assert!(
            wrong(SequenceOptions { data_type: small, max: Some(Some(40_000)), ..none() }).contains("out of range")
        );
        assert!(wrong(SequenceOptions { min: Some(Some(5)), max: Some(Some(5)), ..none() }).contains("less than"));
    }

    #[test]
    fn another_type_has_other_bounds_where_they_were_the_types() {
        let int = SequenceOptions { data_type: Some(SequenceType::Int), ..Default::default() }.applied(None).unwrap();
        assert_eq!(int.max, i64::from(i32::MAX));
        let big = SequenceOptions { data_type: Some(SequenceType::Big), ..Default::default() };
        assert_eq!(big.applied(Some(&int)).unwrap().max, i64::MAX);
        let bounded = SequenceSpec { max: 100, ..int };
        assert_eq!(big.applied(Some(&bounded)).unwrap().max, 100);
    }
}
