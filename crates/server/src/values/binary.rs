//! Values as PostgreSQL's send functions write them, where that takes more than their bytes.

use super::unwritable::Unwritable;

/// Days from 1970-01-01 to PostgreSQL's first day, 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from one to the other.
pub const EPOCH_US: i64 = 946_684_800_000_000;

/// Days since 2000-01-01.
pub fn date(days: i32, to: &mut Vec<u8>) -> Result<(), Unwritable> {
    let days = days.checked_sub(EPOCH_DAYS).ok_or_else(|| Unwritable("a date is out of range".into()))?;
    to.extend(days.to_be_bytes());
    Ok(())
}

/// Microseconds since 2000-01-01, of units of which a second has `per_second`.
pub fn timestamp(count: i64, per_second: i64, to: &mut Vec<u8>) -> Result<(), Unwritable> {
    let us = i128::from(count) * 1_000_000;
    let us = us.div_euclid(per_second.into()) - i128::from(EPOCH_US);
    let us = i64::try_from(us).map_err(|_| Unwritable("a timestamp is out of range".into()))?;
    to.extend(us.to_be_bytes());
    Ok(())
}
