//! What a [`KeyFilter`] says of a column's codes: the vids of a dictionary, and NULL before them where the column has a
//! code for it.
//!
//! Bounds tell something of any dictionary, without memory: codes ascend with values. A bit per code ([`CodeSet`])
//! tells all, and is charged to the statement. Where the dictionary is too large for that, or the budget has no room,
//! bounds it is, and values are tested behind them.
//!
//! # Limits
//! A few keys are looked up one by one; a dictionary that is no arithmetic progression of step 1 is else asked entry by
//! entry.

use std::sync::Arc;

use numa::Reservation;
use storage::{CodePredicate, CodeSet, Dictionary};

use super::{KeyFilter, Run};
use crate::ExecError;
use crate::tasks::traffic::{TouchPhase, note_values};

/// Codes of a dictionary that is no arithmetic progression are decoded in pieces of this many, and such pieces are put
/// together to tasks.
const DECODED: usize = 4096;
const DECODED_TASK: usize = 16 * DECODED;

/// Of larger dictionaries `n` entries are asked first: where these show that nearly all pass, the others are not.
const SAMPLED: usize = 1024;

/// A few keys are looked up in a dictionary rather than its entries in them, where it has at least `n` entries for
/// each.
const ENTRIES_PER_LOOK_UP: usize = 32;

/// Values between two looks at the statement: texts may be long.
const CHECK_VALUES: usize = 4096;

/// Another dictionary's entries are compared one by one up to this many.
const MERGED_ENTRIES: usize = 64 << 10;

/// What a filter says of a column's codes.
#[derive(Debug, Clone)]
pub(crate) struct OnCodes {
    /// The codes that may match, perhaps some more; `None` where codes do not tell.
    pub(crate) predicate: Option<CodePredicate>,
    /// Would testing values ([`KeyFilter::passing`]) leave out more?
    pub(crate) values_tell_more: bool,
    /// What the predicate's set is charged to.
    pub(crate) charged: Option<Arc<Reservation>>,
}

impl OnCodes {
    fn all(predicate: CodePredicate) -> OnCodes {
        OnCodes { predicate: Some(predicate), values_tell_more: false, charged: None }
    }

    fn partly(predicate: CodePredicate) -> OnCodes {
        OnCodes { values_tell_more: true, ..OnCodes::all(predicate) }
    }

    fn nothing(values_tell_more: bool) -> OnCodes {
        OnCodes { predicate: None, values_tell_more, charged: None }
    }

    /// A set of some of `all` codes, or what is as good as one.
    fn set(words: Vec<u32>, all: usize, charged: Reservation) -> OnCodes {
        let passing = CodeSet::from_words(words);
        match passing.len() {
            0 => OnCodes::all(CodePredicate::Nothing),
            some if few_dropped(some, all) => OnCodes::all(CodePredicate::Everything),
            _ => OnCodes { charged: Some(Arc::new(charged)), ..OnCodes::all(CodePredicate::Set(Arc::new(passing))) },
        }
    }
}

impl KeyFilter {
    /// What it says of the codes of a column. `rows` is how many rows have codes of this dictionary: entries cost as
    /// much to ask as rows that are tested by value. A set is made for no more than `entries_max` entries.
    ///
    /// # Errors
    /// The statement is to stop.
    pub(crate) fn on_codes(
        &self,
        dictionary: &Arc<Dictionary>,
        null_code: bool,
        (rows, entries_max): (usize, usize),
        run: &Run<'_>,
    ) -> Result<OnCodes, ExecError> {
        let (shift, vids) = (usize::from(null_code), dictionary.len());
        if vids == 0 {
            return Ok(OnCodes::all(CodePredicate::Nothing));
        }
        let integers = dictionary.integer_bounds().is_some();
        match self {
            KeyFilter::Vids(..) if vids > entries_max => return Ok(OnCodes::nothing(false)),
            KeyFilter::Vids(..) => {}
            _ if !integers => return Ok(OnCodes::nothing(true)),
            KeyFilter::Scattered { few: Some(few), .. } if few.len() * ENTRIES_PER_LOOK_UP < vids => {
                return Ok(looked_up(few, dictionary, shift, entries_max, run));
            }
            KeyFilter::Scattered { bloom, .. } if bloom.is_none() || vids > rows.min(entries_max) => {
                return Ok(self.by_bounds(dictionary, shift));
            }
            KeyFilter::Integers { .. } if vids > entries_max => return Ok(self.by_bounds(dictionary, shift)),
            _ if self.window_in(dictionary).is_none() && self.passes_sample(dictionary) => {
                return Ok(OnCodes::all(CodePredicate::Everything));
            }
            _ => {}
        }
        // All words are there twice for a moment where they are put together from parts.
        let bytes = bytes_of(vids + shift);
        let Some(mut charged) = run.reserve_help(2 * bytes) else { return Ok(self.by_bounds(dictionary, shift)) };
        let Some(mut words) = self.words(dictionary, shift, run)? else { return Ok(OnCodes::nothing(false)) };
        if null_code {
            // A window that begins before the first value may have begun with another key's bit.
            words[0] &= !1;
        }
        charged.shrink(bytes);
        Ok(OnCodes::set(words, vids, charged))
    }

    /// A bit per code; `None` where the keys are vids whose values would take too long to find in this dictionary.
    fn words(&self, dictionary: &Arc<Dictionary>, shift: usize, run: &Run<'_>) -> Result<Option<Vec<u32>>, ExecError> {
        let codes = dictionary.len() + shift;
        Ok(match self {
            KeyFilter::Vids(own, bits, _) if Arc::ptr_eq(own, dictionary) => {
                Some(window_of(&bits.words, -(shift as i64), codes))
            }
            KeyFilter::Vids(own, bits, _) => {
                let translated = translated(own, &bits.words, dictionary, run)?;
                translated.map(|bits| window_of(&bits, -(shift as i64), codes))
            }
            _ => match self.window_in(dictionary) {
                Some((bits, from)) => Some(window_of(bits, from - shift as i64, codes)),
                None => Some(self.decoded(dictionary, shift, run)?),
            },
        })
    }

    /// The bits of integers, and which of them is the first entry's, where the dictionary counts up by one.
    fn window_in(&self, dictionary: &Dictionary) -> Option<(&[u64], i64)> {
        let KeyFilter::Integers { base, bits, .. } = self else { return None };
        let Some((first, 1)) = dictionary.affine_integers() else { return None };
        let from = first.checked_sub(*base).filter(|from| from.unsigned_abs() < 1 << 40)?;
        Some((&bits.words, from))
    }

    /// What the lowest and the highest key say.
    fn by_bounds(&self, dictionary: &Dictionary, shift: usize) -> OnCodes {
        match self {
            KeyFilter::Vids(..) => OnCodes::nothing(false),
            KeyFilter::Integers { base, len, .. } => {
                OnCodes::partly(range_of(dictionary, (*base, base + (*len as i64 - 1)), shift))
            }
            KeyFilter::Scattered { low, high, few, bloom } => {
                let values_tell_more = few.is_some() || bloom.is_some();
                OnCodes { values_tell_more, ..OnCodes::all(range_of(dictionary, (*low, *high), shift)) }
            }
        }
    }

    /// Do nearly all entries of a large dictionary pass, to judge by some?
    fn passes_sample(&self, dictionary: &Dictionary) -> bool {
        let every = dictionary.len() / SAMPLED;
        if every < 16 {
            return false;
        }
        let some: Vec<u32> = (0..SAMPLED).map(|i| (i * every) as u32).collect();
        let mut values = Vec::with_capacity(SAMPLED);
        dictionary.integers(&some, &mut values);
        few_dropped(values.iter().filter(|&&value| self.has_integer(value)).count(), SAMPLED)
    }

    /// The bits of codes whose values are looked up one by one.
    fn decoded(&self, dictionary: &Dictionary, shift: usize, run: &Run<'_>) -> Result<Vec<u32>, ExecError> {
        let codes = dictionary.len() + shift;
        let parts = run.map(codes.div_ceil(DECODED_TASK), &|task| {
            let task = task * DECODED_TASK..((task + 1) * DECODED_TASK).min(codes);
            let mut words = vec![0u32; task.len().div_ceil(32)];
            let (mut piece, mut values) = (Vec::new(), Vec::new());
            for start in task.clone().step_by(DECODED) {
                // Code 0 is NULL where codes are shifted.
                let from = start.max(shift);
                piece.clear();
                values.clear();
                piece.extend((from - shift) as u32..((start + DECODED).min(task.end) - shift) as u32);
                note_values(dictionary.id(), TouchPhase::Find, piece.len());
                dictionary.integers(&piece, &mut values);
                for (code, &value) in (from - task.start..).zip(&values) {
                    words[code / 32] |= u32::from(self.has_integer(value)) << (code % 32);
                }
            }
            Ok(words)
        })?;
        Ok(parts.concat())
    }
}

/// The codes of values in a range, inclusive.
fn range_of(dictionary: &Dictionary, (low, high): (i64, i64), shift: usize) -> CodePredicate {
    let from = first_vid(dictionary, |value| value >= low);
    let to = first_vid(dictionary, |value| value > high);
    match (from, to) {
        (from, to) if from >= to => CodePredicate::Nothing,
        (from, to) if few_dropped(to - from, dictionary.len()) => CodePredicate::Everything,
        (from, to) => CodePredicate::Range { lo: (from + shift) as u32, hi: (to - 1 + shift) as u32 },
    }
}

/// The vid of a value, if it is there.
fn vid_of(dictionary: &Dictionary, value: i64) -> Option<usize> {
    let vid = first_vid(dictionary, |there| there >= value);
    if vid == dictionary.len() {
        return None;
    }
    let mut there = Vec::with_capacity(1);
    dictionary.integers(&[vid as u32], &mut there);
    (there[0] == value).then_some(vid)
}

/// The codes of a few integers, ascending: all where a set of the dictionary's codes is not too large, else the first
/// and the last.
fn looked_up(few: &[i64], dictionary: &Dictionary, shift: usize, entries_max: usize, run: &Run<'_>) -> OnCodes {
    let vids = few.iter().filter_map(|&key| vid_of(dictionary, key));
    let codes: Vec<u32> = vids.map(|vid| (vid + shift) as u32).collect();
    let (lo, hi) = match codes.as_slice() {
        [] => return OnCodes::all(CodePredicate::Nothing),
        [one] => return OnCodes::all(CodePredicate::Range { lo: *one, hi: *one }),
        [first, .., last] => (*first, *last),
    };
    let all = dictionary.len() + shift;
    let charged = if dictionary.len() > entries_max { None } else { run.reserve_help(bytes_of(all)) };
    let Some(charged) = charged else { return OnCodes::partly(CodePredicate::Range { lo, hi }) };
    let mut words = vec![0u32; all.div_ceil(32)];
    codes.iter().for_each(|&code| words[code as usize / 32] |= 1 << (code % 32));
    OnCodes::set(words, dictionary.len(), charged)
}

/// Bytes of a bit per code.
fn bytes_of(codes: usize) -> u64 {
    4 * codes.div_ceil(32) as u64
}

/// Do so few entries of all drop out that testing for them does not pay?
fn few_dropped(passing: usize, all: usize) -> bool {
    passing as u64 * 10 > all as u64 * 9
}

/// `len` bits from bit `from` on; there are none before bit 0 and behind the last one.
pub(super) fn window_of(bits: &[u64], from: i64, len: usize) -> Vec<u32> {
    let word = |at: i64| usize::try_from(at).ok().and_then(|at| bits.get(at)).copied().unwrap_or(0);
    let mut words: Vec<u32> = (0..len.div_ceil(32) as i64)
        .map(|i| {
            let bit = from + 32 * i;
            let (at, shift) = (bit.div_euclid(64), bit.rem_euclid(64) as u32);
            let low = word(at) >> shift;
            // Two shifts, for a shift by 64 is none.
            (if shift > 32 { low | word(at + 1) << 1 << (63 - shift) } else { low }) as u32
        })
        .collect();
    if !len.is_multiple_of(32)
        && let Some(last) = words.last_mut()
    {
        *last &= (1 << (len % 32)) - 1;
    }
    words
}

/// The first vid whose value passes, where all values above it do too.
fn first_vid(dictionary: &Dictionary, passes: impl Fn(i64) -> bool) -> usize {
    let (mut from, mut to) = (0, dictionary.len());
    let mut value = Vec::with_capacity(1);
    while from < to {
        let middle = from + (to - from) / 2;
        value.clear();
        dictionary.integers(&[middle as u32], &mut value);
        if passes(value[0]) { to = middle } else { from = middle + 1 }
    }
    from
}

/// Vids of `to` for the values of `bits`, which are over `from`; `None` where finding them would take too long.
fn translated(from: &Dictionary, bits: &[u64], to: &Dictionary, run: &Run<'_>) -> Result<Option<Vec<u64>>, ExecError> {
    let set: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
    if set * 16 > (MERGED_ENTRIES + to.len()) as u64 && from.len().max(to.len()) > MERGED_ENTRIES {
        return Ok(None);
    }
    if [from, to].iter().any(|texts| !texts.is_empty() && texts.bytes_of(0).is_none()) {
        return Ok(None);
    }
    note_values(from.id(), TouchPhase::Find, set as usize);
    note_values(to.id(), TouchPhase::Find, set as usize * (usize::BITS - to.len().leading_zeros()) as usize);
    let mut found = vec![0u64; to.len().div_ceil(64)];
    let mut start = 0;
    for (number, vid) in (0..from.len()).filter(|vid| bits[vid / 64] >> (vid % 64) & 1 == 1).enumerate() {
        if number.is_multiple_of(CHECK_VALUES) {
            run.check()?;
        }
        let value = from.bytes_of(vid as u32);
        // Values ascend, so each search begins where the last one ended.
        let (mut low, mut high) = (start, to.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if to.bytes_of(middle as u32) < value { low = middle + 1 } else { high = middle }
        }
        start = low;
        if low < to.len() && to.bytes_of(low as u32) == value {
            found[low / 64] |= 1 << (low % 64);
        }
    }
    Ok(Some(found))
}
