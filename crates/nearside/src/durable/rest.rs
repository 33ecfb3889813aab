//! The bytes of a record one after the other.

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Bytes that are left of a record.
#[derive(Debug)]
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    /// The next bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(|| malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| malformed("it ends too early"))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn len(&mut self) -> Result<usize> {
        usize::try_from(self.u64()?).map_err(|_| malformed("it is longer than memory"))
    }
}

/// The error where bytes are no record.
pub(super) fn malformed(what: &str) -> Error {
    Error::disk(
        SqlState::DataCorrupted,
        format!("a commit is not what was written: {what}; restore the folder from a backup"),
    )
}
