//! [`KeyTable`]: the rows of the build side by key code.
//!
//! A code is looked up in an array where the codes lie close together, in a [`RankIndex`] where they lie not far apart,
//! else in a [`HashIndex`]; each gives the row itself where no two rows share a key, else the number of a *group* of
//! rows. Where only the existence of a key matters the array has a bit per code. All are built by all threads: arrays
//! by atomic stores, hash tables by parting the rows by hash first.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use numa::Reservation;
use parking_lot::Mutex;

use super::rank::{self, Marks, RankIndex};
use crate::ExecError;
use crate::chunk::vector::NO_ROW;
use crate::keys::hash::hash;
use crate::keys::hash_index::{self, HashIndex, NONE, part_of};
use crate::keys::join::PIECE_ROWS;
use crate::tasks::run::Run;
use crate::tasks::traffic;

/// An array may have this many entries however few rows there are.
const DIRECT_ENTRIES: u64 = 64 << 10;
/// Entries of an array per row, at most.
const DIRECT_PER_ROW: u64 = 16;
/// Bits of an array that has one per code; and per row.
const DIRECT_BITS: u64 = 1 << 26;
const BITS_PER_ROW: u64 = 256;
/// Possible codes per row of a [`RankIndex`], at most: it is as large as a hash table then.
const RANKED_PER_ROW: u64 = 128;
/// From this many rows on a hash table is built in parts, and this many bits of the hash choose the part.
const PARTED_ROWS: usize = 2 * PIECE_ROWS;
const PART_BITS: u32 = 6;

/// Which kind of table is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The best for the keys.
    Auto,
    /// An array if that is possible at all.
    #[cfg(test)]
    Direct,
    /// An index of ranks if that is possible at all.
    #[cfg(test)]
    Ranked,
    /// A hash table.
    #[cfg(test)]
    Hash,
}

enum Index {
    /// By code: row or group; the last entry is [`NO_ROW`], for all codes beyond.
    Direct(Vec<u32>),
    /// The code is the group.
    Codes,
    /// A bit per code.
    Bits(Vec<u64>),
    /// By rank: the row, where each is given (and [`NO_ROW`] behind the last), else the group is the rank.
    Ranked(RankIndex, Option<Vec<u32>>),
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
    /// Absent where every key has one row at most, or its rows do not matter.
    groups: Option<Groups>,
    charged: Reservation,
}

/// Codes in pieces of [`PIECE_ROWS`], and what is said of them.
pub(super) struct Codes<'a> {
    /// The codes.
    pub(super) pieces: &'a [Vec<u64>],
    /// All are below, or [`NONE`].
    pub(super) domain: u64,
    /// Does it matter which rows have a key, or only whether any has?
    pub(super) rows_matter: bool,
}

impl Codes<'_> {
    fn rows(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Calls `body` with every row and its code, pieces in parallel, while it says so.
    fn each(&self, run: &Run<'_>, body: &(dyn Fn(&[u64], u32) -> bool + Sync)) -> Result<bool, ExecError> {
        let on = AtomicBool::new(true);
        run.for_each(self.pieces.len(), &|_| None, &|piece| {
            if on.load(Ordering::Relaxed) && !body(&self.pieces[piece], (piece * PIECE_ROWS) as u32) {
                on.store(false, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(on.into_inner())
    }
}

impl KeyTable {
    /// A table of the rows that have these codes.
    pub(super) fn build(codes: &Codes<'_>, strategy: Strategy, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let rows = codes.rows() as u64;
        let (least, per_row) =
            if codes.rows_matter { (DIRECT_ENTRIES, DIRECT_PER_ROW) } else { (DIRECT_BITS, BITS_PER_ROW) };
        let small = codes.domain <= least.max(per_row * rows);
        let ranked = codes.domain <= RANKED_PER_ROW * rows;
        let direct = match strategy {
            Strategy::Auto => small,
            #[cfg(test)]
            Strategy::Direct => codes.domain < 1 << 24 || small,
            #[cfg(test)]
            Strategy::Ranked | Strategy::Hash => false,
        };
        let ranked = match strategy {
            Strategy::Auto => ranked,
            #[cfg(test)]
            Strategy::Direct | Strategy::Hash => false,
            #[cfg(test)]
            Strategy::Ranked => ranked || codes.domain < 1 << 24,
        };
        let table = match (direct, codes.rows_matter) {
            (false, _) if ranked => Self::ranked(codes, run),
            (false, _) => Self::hashed(codes, run),
            (true, false) => Self::bits(codes, run),
            (true, true) => Self::direct(codes, run),
        }?;
        traffic::note_kept(traffic::JOIN_TABLES, table.bytes());
        Ok(table)
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        // An index by hash charges its own memory.
        let hashed = if let Index::Hash(index) = &self.index { index.bytes() } else { 0 };
        self.charged.bytes() + hashed
    }

    fn bits(codes: &Codes<'_>, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let words = codes.domain as usize / 64 + 1;
        let charged = run.reserve(8 * words as u64)?;
        let bits: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        codes.each(run, &|piece, _| {
            for &code in piece.iter().filter(|&&code| code != NONE) {
                let (word, bit) = (&bits[code as usize / 64], 1 << (code % 64));
                if word.load(Ordering::Relaxed) & bit == 0 {
                    word.fetch_or(bit, Ordering::Relaxed);
                }
            }
            true
        })?;
        let bits = bits.into_iter().map(AtomicU64::into_inner).collect();
        Ok(KeyTable { index: Index::Bits(bits), groups: None, charged })
    }

    fn direct(codes: &Codes<'_>, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let domain = codes.domain as usize;
        let mut charged = run.reserve(4 * (domain as u64 + 1))?;
        let slots: Vec<AtomicU32> = (0..=domain).map(|_| AtomicU32::new(NO_ROW)).collect();
        let mut unique = codes.each(run, &|piece, first| {
            let mut taken = false;
            for (row, &code) in (first..).zip(piece) {
                if code != NONE {
                    let slot = &slots[code as usize];
                    taken |= slot.load(Ordering::Relaxed) != NO_ROW;
                    slot.store(row, Ordering::Relaxed);
                }
            }
            !taken
        })?;
        if unique && codes.pieces.len() > 1 {
            // Two threads may have found the same slot free; then one of them does not find its row there now.
            unique = codes.each(run, &|piece, first| {
                (first..).zip(piece).all(|(row, &c)| c == NONE || slots[c as usize].load(Ordering::Relaxed) == row)
            })?;
        }
        if unique {
            let slots = slots.into_iter().map(AtomicU32::into_inner).collect();
            return Ok(KeyTable { index: Index::Direct(slots), groups: None, charged });
        }
        charged.grow(4 * codes.rows() as u64)?;
        let groups = Groups::of_codes(codes, slots, run, |code| code as usize)?;
        Ok(KeyTable { index: Index::Codes, groups: Some(groups), charged })
    }

    fn ranked(codes: &Codes<'_>, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        // The bits exist twice for a moment.
        let mut charged = run.reserve(rank::bytes_for(codes.domain) * 3 / 2)?;
        let marks = Marks::new(codes.domain);
        codes.each(run, &|piece, _| {
            piece.iter().filter(|&&code| code != NONE).for_each(|&code| marks.set(code));
            true
        })?;
        let index = RankIndex::new(marks);
        let count = index.count() as usize;
        let keyed: usize = codes.pieces.iter().map(|piece| piece.iter().filter(|&&code| code != NONE).count()).sum();
        charged.grow(4 * (count as u64 + 1))?;
        let slots: Vec<AtomicU32> = (0..=count).map(|_| AtomicU32::new(NO_ROW)).collect();
        if keyed == count {
            codes.each(run, &|piece, first| {
                for (row, &code) in (first..).zip(piece) {
                    if code != NONE {
                        slots[index.number(code) as usize].store(row, Ordering::Relaxed);
                    }
                }
                true
            })?;
            let rows = slots.into_iter().map(AtomicU32::into_inner).collect();
            return Ok(KeyTable { index: Index::Ranked(index, Some(rows)), groups: None, charged });
        }
        if !codes.rows_matter {
            return Ok(KeyTable { index: Index::Ranked(index, None), groups: None, charged });
        }
        charged.grow(4 * keyed as u64)?;
        let groups = Groups::of_codes(codes, slots, run, |code| index.number(code) as usize)?;
        Ok(KeyTable { index: Index::Ranked(index, None), groups: Some(groups), charged })
    }

    fn hashed(codes: &Codes<'_>, run: &Run<'_>) -> Result<KeyTable, ExecError> {
        let rows = codes.rows();
        let bits = if rows < PARTED_ROWS { 0 } else { PART_BITS };
        let mut charged = run.reserve(0)?;
        let passing = run.reserve(16 * rows as u64 + 12 * rows as u64)?;
        let parted: Vec<Vec<Vec<(u64, u32)>>> = run.map(codes.pieces.len(), &|piece| {
            let size = codes.pieces[piece].len();
            let mut parts: Vec<Vec<(u64, u32)>> =
                (0..1 << bits).map(|_| Vec::with_capacity(size.div_ceil(1 << bits) * 9 / 8)).collect();
            for (row, &code) in ((piece * PIECE_ROWS) as u32..).zip(&codes.pieces[piece]) {
                if code != NONE {
                    parts[part_of(hash(code), bits)].push((code, row));
                }
            }
            Ok(parts)
        })?;
        let sizes: Vec<usize> =
            (0..1 << bits).map(|part| parted.iter().map(|piece: &Vec<Vec<_>>| piece[part].len()).sum()).collect();
        let mut index = HashIndex::new(&sizes, bits, run.statement.budget())?;
        let empty: Vec<Mutex<Option<hash_index::IndexPart<'_>>>> =
            index.parts().into_iter().map(Some).map(Mutex::new).collect();
        let parts: Vec<Mutex<TablePart<'_>>> = run.map(1 << bits, &|part| {
            let entries = empty[part].lock().take().expect("a part is built once");
            Ok(Mutex::new(TablePart::of(
                entries,
                &parted.iter().map(|piece| piece[part].as_slice()).collect::<Vec<_>>(),
            )))
        })?;
        drop((parted, empty));
        let unique = parts.iter().all(|part| part.lock().is_unique());
        let mut first_group = Vec::with_capacity(parts.len());
        let groups = parts.iter().fold(0, |sum, part| {
            first_group.push(sum);
            sum + part.lock().first_rows.len() as u32
        });
        run.for_each(parts.len(), &|_| None, &|at| {
            let TablePart { entries, first_rows, .. } = &mut *parts[at].lock();
            if unique {
                entries.renumber(|group| first_rows[group as usize]);
            } else {
                entries.renumber(|group| first_group[at] + group);
            }
            Ok(())
        })?;
        let mut sorted = None;
        if !unique && codes.rows_matter {
            charged.grow(4 * (u64::from(groups) + 1))?;
            let mut all = Groups { starts: Vec::with_capacity(groups as usize + 1), rows: Vec::with_capacity(rows) };
            for part in &parts {
                part.lock().append_groups(&mut all);
            }
            all.starts.push(all.rows.len() as u32);
            sorted = Some(all);
        }
        drop(passing);
        drop(parts);
        Ok(KeyTable { index: Index::Hash(index), groups: sorted, charged })
    }

    /// Has every key one row at most? Then [`find`](Self::find) gives rows.
    pub(super) fn is_unique(&self) -> bool {
        self.groups.is_none()
    }

    /// Row or group of every code, [`NO_ROW`] for none, any other number where rows do not matter; `out` is
    /// overwritten.
    pub(super) fn find(&self, codes: &[u64], out: &mut Vec<u32>) {
        out.clear();
        match &self.index {
            Index::Direct(slots) => {
                let last = slots.len() - 1;
                out.extend(codes.iter().map(|&code| slots[(code as usize).min(last)]));
            }
            Index::Codes => {
                let starts = &self.groups.as_ref().expect("codes are groups").starts;
                let last = starts.len() - 1;
                out.extend(codes.iter().map(|&code| {
                    let code = code as usize;
                    if code < last && starts[code] < starts[code + 1] { code as u32 } else { NO_ROW }
                }));
            }
            Index::Bits(bits) => {
                // The last word has a bit that no code has.
                let last = bits.len() as u64 * 64 - 1;
                out.extend(codes.iter().map(|&code| {
                    let at = code.min(last);
                    // 1 becomes row 0, 0 becomes none.
                    ((bits[(at / 64) as usize] >> (at % 64) & 1) as u32).wrapping_sub(1)
                }));
            }
            Index::Ranked(index, None) => out.extend(codes.iter().map(|&code| index.number(code))),
            Index::Ranked(index, Some(rows)) => {
                let last = rows.len() - 1;
                out.extend(codes.iter().map(|&code| rows[(index.number(code) as usize).min(last)]));
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
    /// Sorts rows by group, by counting, which is done in `slots`: one more than there are groups.
    fn of_codes(
        codes: &Codes<'_>,
        slots: Vec<AtomicU32>,
        run: &Run<'_>,
        group: impl Fn(u64) -> usize + Sync,
    ) -> Result<Groups, ExecError> {
        slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
        let alone = codes.pieces.len() == 1;
        codes.each(run, &|piece, _| {
            for &code in piece.iter().filter(|&&code| code != NONE) {
                let slot = &slots[group(code)];
                if alone {
                    slot.store(slot.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                } else {
                    slot.fetch_add(1, Ordering::Relaxed);
                }
            }
            true
        })?;
        // Counts become ends, and ends become starts while rows are put down.
        let mut sum = 0;
        for slot in &slots {
            sum += slot.load(Ordering::Relaxed);
            slot.store(sum, Ordering::Relaxed);
        }
        let sorted: Vec<AtomicU32> = (0..sum).map(|_| AtomicU32::new(0)).collect();
        codes.each(run, &|piece, first| {
            for (row, &code) in (first..first + piece.len() as u32).zip(piece).rev() {
                if code != NONE {
                    let slot = &slots[group(code)];
                    let at = if alone {
                        let at = slot.load(Ordering::Relaxed) - 1;
                        slot.store(at, Ordering::Relaxed);
                        at
                    } else {
                        slot.fetch_sub(1, Ordering::Relaxed) - 1
                    };
                    sorted[at as usize].store(row, Ordering::Relaxed);
                }
            }
            true
        })?;
        Ok(Groups {
            starts: slots.into_iter().map(AtomicU32::into_inner).collect(),
            rows: sorted.into_iter().map(AtomicU32::into_inner).collect(),
        })
    }
}

/// The rows of one part of a hash table.
struct TablePart<'a> {
    entries: hash_index::IndexPart<'a>,
    /// The first row of each group.
    first_rows: Vec<u32>,
    /// The group of each row, in the order that they came in.
    groups: Vec<u32>,
    rows: Vec<u32>,
}

impl<'a> TablePart<'a> {
    fn of(mut entries: hash_index::IndexPart<'a>, pieces: &[&[(u64, u32)]]) -> TablePart<'a> {
        let count = pieces.iter().map(|piece| piece.len()).sum();
        entries.clear();
        let mut part = TablePart {
            entries,
            first_rows: Vec::with_capacity(count),
            groups: Vec::with_capacity(count),
            rows: Vec::with_capacity(count),
        };
        for &(code, row) in pieces.iter().copied().flatten() {
            let fresh = part.first_rows.len() as u32;
            let group = part.entries.insert(code, hash(code), fresh);
            if group == fresh {
                part.first_rows.push(row);
            }
            part.groups.push(group);
            part.rows.push(row);
        }
        part
    }

    fn is_unique(&self) -> bool {
        self.first_rows.len() == self.groups.len()
    }

    /// Appends the rows sorted by group; all but the last end.
    fn append_groups(&self, all: &mut Groups) {
        let first = all.rows.len() as u32;
        let mut ends = vec![0u32; self.first_rows.len()];
        self.groups.iter().for_each(|&group| ends[group as usize] += 1);
        let mut sum = first;
        for end in &mut ends {
            all.starts.push(sum);
            sum += *end;
            *end = sum;
        }
        all.rows.resize(sum as usize, 0);
        for (&group, &row) in self.groups.iter().zip(&self.rows).rev() {
            let end = &mut ends[group as usize];
            *end -= 1;
            all.rows[*end as usize] = row;
        }
    }
}
