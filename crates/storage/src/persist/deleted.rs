//! Deleted rows as bytes, and back.
//!
//! ```text
//! rows u32, then for each 16,384 rows: how many are deleted u16, and either
//!   up to 1,024 of them   their numbers within the run, u16 each, ascending
//!   more                  2,048 bytes, a bit for each row
//! ```

use std::sync::Arc;

use numa::Allocator;

use super::ReadBackError;
use super::bytes::Reader;
use crate::SEGMENT_ROWS_MAX;
use crate::deleted::DeletedRows;

/// Rows of a run.
const RUN_ROWS: usize = 16 * 1024;
/// Most rows of a run that are listed.
const LISTED_MAX: usize = 1024;

/// The deleted rows as bytes.
pub fn deleted_to_bytes(deleted: &DeletedRows) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&(deleted.rows() as u32).to_le_bytes());
    let rows = deleted.since(None);
    let mut rows = rows.as_slice();
    for start in (0..deleted.rows()).step_by(RUN_ROWS) {
        let (of_run, rest) = rows.split_at(rows.partition_point(|row| (*row as usize) < start + RUN_ROWS));
        rows = rest;
        out.extend_from_slice(&(of_run.len() as u16).to_le_bytes());
        if of_run.len() <= LISTED_MAX {
            of_run.iter().for_each(|row| out.extend_from_slice(&((*row as usize - start) as u16).to_le_bytes()));
            continue;
        }
        let mut bits = [0_u8; RUN_ROWS / 8];
        for row in of_run {
            let row = *row as usize - start;
            bits[row / 8] |= 1 << (row % 8);
        }
        out.extend_from_slice(&bits);
    }
    out
}

/// The deleted rows that [`deleted_to_bytes`] made these bytes of.
///
/// # Errors
/// [`ReadBackError::Malformed`], [`ReadBackError::Store`] without memory.
pub fn deleted_from_bytes(bytes: &[u8], allocator: &Allocator) -> Result<Arc<DeletedRows>, ReadBackError> {
    let malformed = || ReadBackError::Malformed("a list of deleted rows is not what was written".to_owned());
    let mut reader = Reader::new(bytes);
    let rows = reader.u32().ok_or_else(malformed)? as usize;
    if rows > SEGMENT_ROWS_MAX {
        return Err(malformed());
    }
    let mut deleted = None;
    let mut positions = Vec::new();
    for start in (0..rows).step_by(RUN_ROWS) {
        let count = usize::from(u16::from_le_bytes(reader.array().ok_or_else(malformed)?));
        positions.clear();
        if count <= LISTED_MAX {
            let listed = reader.take(2 * count).ok_or_else(malformed)?;
            positions.extend(
                listed.chunks_exact(2).map(|row| (start + usize::from(row[0]) + 256 * usize::from(row[1])) as u32),
            );
        } else {
            let bits = reader.take(RUN_ROWS / 8).ok_or_else(malformed)?;
            let is_set = |row: &usize| bits[row / 8] >> (row % 8) & 1 == 1;
            positions.extend((0..RUN_ROWS).filter(is_set).map(|row| (start + row) as u32));
        }
        let end = rows.min(start + RUN_ROWS);
        if positions.len() != count || !positions.is_sorted() || positions.iter().any(|row| *row as usize >= end) {
            return Err(malformed());
        }
        DeletedRows::delete_in(&mut deleted, rows, &positions, allocator)?;
    }
    if !reader.is_empty() {
        return Err(malformed());
    }
    Ok(deleted.unwrap_or_else(|| Arc::new(DeletedRows::none(rows))))
}
