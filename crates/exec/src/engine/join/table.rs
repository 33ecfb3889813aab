//! [`KeyTable`]: the rows of the build side by key code.
//!
//! A code is looked up in an array where the codes lie close together, else in a [`HashIndex`]; either gives the row itself
//! where no two rows share a key, else the number of a *group* of rows.

use super::hash::{ENTRY_BYTES, HashIndex, Region, entries_for, hash};
use super::keys::NONE;
use crate::ExecError;
use crate::engine::Run;
use crate::engine::vector::NO_ROW;
use numa::Reservation;

/// An array may have this many entries however few rows there are.
const DIRECT_ENTRIES: u64 = 64 << 10;
/// Entries of an array per row, at most.
const DIRECT_PER_ROW: u64 = 16;
/// Rows between two looks at the statement.
const CHECK_ROWS: usize = 1 << 18;

/// Which kind of table is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The best for the keys.
    Auto,
    /// An array if that is possible at all.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    Direct,
    /// A hash table.
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests"))]
    Hash,
}

enum Index {
    /// By code: row or group; the last entry is [`NO_ROW`], for all codes beyond.
    Direct(Vec<u32>),
    /// The code is the group.
    Codes,
    /// By hash: row or group.
    Hash(HashIndex),
}

/// Rows of groups.
struct Groups {
    /// Where each group begins in `rows`, and where the last one ends.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

/// Rows by key code.
pub(super) struct KeyTable {
    index: Index,
    /// Absent where every key has one row at most.
    groups: Option<Groups>,
    _charged: Reservation,
}

impl KeyTable {
    /// A table of rows numbered as `codes`, all of which are below `domain` or [`NONE`].
    pub(super) fn build(codes: &[u64], domain: u64, strategy: Strategy, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let small = domain <= DIRECT_ENTRIES.max(DIRECT_PER_ROW * codes.len() as u64);
        let direct = match strategy {
            Strategy::Auto => small,
            Strategy::Direct => domain < 1 << 24 || small,
            Strategy::Hash => false,
        };
        if direct { Self::direct(codes, domain as usize, run) } else { Self::hashed(codes, run) }
    }

    fn direct(codes: &[u64], domain: usize, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let mut charged = run.reserve(4 * (domain as u64 + 1))?;
        let mut slots = vec![NO_ROW; domain + 1];
        let mut repeated = false;
        for (start, part) in pieces(codes, run) {
            run.check()?;
            for (row, &code) in (start as u32..).zip(part) {
                if code != NONE {
                    repeated |= std::mem::replace(&mut slots[code as usize], row) != NO_ROW;
                }
            }
            if repeated {
                break;
            }
        }
        if !repeated {
            return Ok(KeyTable { index: Index::Direct(slots), groups: None, _charged: charged });
        }
        charged.grow(4 * codes.len() as u64)?;
        slots.fill(0);
        let groups = Groups::sorted(codes.len(), slots, &|row| codes[row], run)?;
        Ok(KeyTable { index: Index::Codes, groups: Some(groups), _charged: charged })
    }

    fn hashed(codes: &[u64], run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let mut charged = run.reserve(entries_for(codes.len()) as u64 * ENTRY_BYTES + 4 * codes.len() as u64)?;
        let mut region = Region::new(codes.len());
        let (mut first_rows, mut group_of) = (Vec::new(), Vec::with_capacity(codes.len()));
        let mut matching = 0;
        for (start, part) in pieces(codes, run) {
            run.check()?;
            for (row, &code) in (start as u32..).zip(part) {
                if code == NONE {
                    group_of.push(NO_ROW);
                    continue;
                }
                matching += 1;
                let fresh = first_rows.len() as u32;
                let group = region.insert(code, hash(code), fresh);
                if group == fresh {
                    first_rows.push(row);
                }
                group_of.push(group);
            }
        }
        if first_rows.len() == matching {
            region.renumber(|group| first_rows[group as usize]);
            let index = Index::Hash(HashIndex::new(vec![region], 0));
            return Ok(KeyTable { index, groups: None, _charged: charged });
        }
        charged.grow(8 * codes.len() as u64)?;
        let of = |row: usize| if group_of[row] == NO_ROW { NONE } else { u64::from(group_of[row]) };
        let groups = Groups::sorted(codes.len(), vec![0; first_rows.len() + 1], &of, run)?;
        let index = Index::Hash(HashIndex::new(vec![region], 0));
        Ok(KeyTable { index, groups: Some(groups), _charged: charged })
    }

    /// Has every key one row at most? Then [`find`](Self::find) gives rows.
    pub(super) fn is_unique(&self) -> bool {
        self.groups.is_none()
    }

    /// Could this code be a key? For asserts.
    pub(super) fn holds(&self, code: u64) -> bool {
        match &self.index {
            Index::Direct(slots) => code < slots.len() as u64,
            Index::Codes => self.groups.as_ref().is_some_and(|g| code < g.starts.len() as u64),
            Index::Hash(_) => true,
        }
    }

    /// Row or group of every code, [`NO_ROW`] for none; `out` is overwritten.
    pub(super) fn find(&self, codes: &[u64], out: &mut Vec<u32>) {
        match &self.index {
            Index::Direct(slots) => {
                out.clear();
                let last = slots.len() - 1;
                out.extend(codes.iter().map(|&code| slots[(code as usize).min(last)]));
            }
            Index::Codes => {
                out.clear();
                let starts = &self.groups.as_ref().expect("codes are groups").starts;
                let last = starts.len() - 1;
                out.extend(codes.iter().map(|&code| {
                    let code = code as usize;
                    if code < last && starts[code] < starts[code + 1] { code as u32 } else { NO_ROW }
                }));
            }
            Index::Hash(index) => index.find(codes, out),
        }
    }

    /// The rows of a group, where keys are not unique.
    pub(super) fn rows_of(&self, group: u32) -> &[u32] {
        let groups = self.groups.as_ref().expect("keys are not unique");
        &groups.rows[groups.starts[group as usize] as usize..groups.starts[group as usize + 1] as usize]
    }
}

impl Groups {
    /// Sorts rows by group, by counting; `counts` is all 0 and one longer than there are groups; rows of group [`NONE`] are
    /// left out.
    fn sorted(
        rows: usize,
        mut counts: Vec<u32>,
        group_of: &dyn Fn(usize) -> u64,
        run: &Run<'_>,
    ) -> Result<Groups, ExecError> {
        run.check()?;
        for row in 0..rows {
            let group = group_of(row);
            if group != NONE {
                counts[group as usize] += 1;
            }
        }
        // Counts become ends, and ends become starts while rows are put down from the last one on.
        let mut sum = 0;
        for count in &mut counts {
            sum += *count;
            *count = sum;
        }
        run.check()?;
        let mut sorted = vec![0; sum as usize];
        for row in (0..rows).rev() {
            let group = group_of(row);
            if group != NONE {
                let start = &mut counts[group as usize];
                *start -= 1;
                sorted[*start as usize] = row as u32;
            }
        }
        Ok(Groups { starts: counts, rows: sorted })
    }
}

/// Pieces of codes and where they begin, small enough to look at the statement in between.
fn pieces<'a>(codes: &'a [u64], _run: &Run<'_>) -> impl Iterator<Item = (usize, &'a [u64])> {
    codes.chunks(CHECK_ROWS).enumerate().map(|(i, part)| (i * CHECK_ROWS, part))
}
