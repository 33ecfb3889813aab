//! Medians, percentiles and modes over numbers that keep the order of values.
//!
//! A group's value is selected, not sorted for. Of one large group all threads look for it: a sample gives two bounds
//! that it most likely lies between, one pass over the numbers counts those below and takes those between, and among
//! the few that were taken it is selected. Where the sample was wrong all are taken.

use arrow::datatypes::{DataType, i256};

use super::column::{Column, Values};
use super::lists::Lists;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind};
use crate::keys::float::{of_ordered, rank};
use crate::plan::{AggregateCall, AggregateFunction};
use crate::tasks::run::Run;

/// Numbers that are worth more than one thread.
const MANY: usize = 1 << 17;
/// Numbers of a sample.
const SAMPLE: usize = 1 << 12;
/// How far in the sample the bounds lie from where the number should be: five times the deviation to be expected, at
/// most.
const MARGIN: usize = 160;
/// Numbers that are looked at without a look at the statement.
const PIECE: usize = 1 << 16;

/// What is asked of the values of a group.
#[derive(Debug, Clone, Copy)]
pub(super) enum RankWish {
    /// The value at this share of the way.
    At(f64),
    /// The same, between two values where it lies between them.
    Between(f64),
    /// The most frequent one.
    Mode,
}

/// How a call's result is made of the numbers of each group.
#[derive(Clone)]
pub(super) struct RankFinish {
    pub(super) wanted: RankWish,
    /// The result is that of the values in descending order.
    pub(super) descending: bool,
    /// Each value counts once.
    pub(super) distinct: bool,
    /// Of the argument, with the name and type of the result.
    info: ColumnInfo,
    /// Digits behind the point of the argument.
    scale: i32,
}

/// An integer as a number of the same order.
pub(super) fn of_int(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

fn to_int(number: u64) -> i64 {
    (number ^ 1 << 63) as i64
}

/// A float as a number of the same order, of one zero and one NaN.
pub(super) fn of_float(value: f64) -> u64 {
    rank(value)
}

/// The two of `count` values in order that a share lies between, and how far it lies from the first one.
pub(super) fn between(share: f64, count: usize) -> (usize, usize, f64) {
    let place = share * (count - 1) as f64;
    let first = (place.floor() as usize).min(count - 1);
    (first, (first + 1).min(count - 1), place - first as f64)
}

/// The first of `count` values in order that has this share of all up to itself.
pub(super) fn at(share: f64, count: usize) -> usize {
    ((share * count as f64).ceil() as usize).clamp(1, count) - 1
}

/// What lies so far from `low` on the way to `high`.
pub(super) fn mean_of_floats(low: f64, high: f64, part: f64) -> f64 {
    if part == 0.0 || low == high { low } else { low + (high - low) * part }
}

/// The same of unscaled decimals, rounded half away from zero; halves are exact.
pub(super) fn mean_of_decimals(low: i128, high: i128, part: f64) -> i128 {
    if part == 0.0 {
        return low;
    }
    if part != 0.5 {
        return low + ((high - low) as f64 * part).round() as i128;
    }
    let total = i256::from_i128(low).wrapping_add(i256::from_i128(high));
    let away = i256::from_i128(if total.is_negative() { -1 } else { 1 });
    // One more than an odd number's magnitude is even; an even number's half stays.
    let two = i256::from_i128(2);
    let whole = if total.wrapping_rem(two) == i256::ZERO { total } else { total.wrapping_add(away) };
    whole.wrapping_div(two).to_i128().expect("a mean lies between its values")
}

impl RankFinish {
    /// Of a call over a column of numbers.
    pub(super) fn new(call: &AggregateCall, info: &ColumnInfo) -> RankFinish {
        let scale = match info.data_type() {
            DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => i32::from(*s),
            _ => 0,
        };
        RankFinish {
            wanted: RankWish::of(&call.function),
            descending: call.order.first().is_some_and(|key| key.descending),
            distinct: call.distinct,
            info: ColumnInfo { field: call.field.clone(), ..info.clone() },
            scale,
        }
    }

    /// The results of `n` groups.
    pub(super) fn finish(&self, lists: &Lists, groups: usize, run: &Run<'_>) -> Result<Column, ExecError> {
        let (mut firsts, mut seconds, mut parts) = (vec![0; groups], Vec::new(), Vec::new());
        let mut valid = vec![true; groups];
        let mut scratch = Vec::new();
        for group in 0..groups {
            if group % 1024 == 0 {
                run.check()?;
            }
            let mut numbers = lists.of(group);
            if numbers.is_empty() {
                valid[group] = false;
                if let RankWish::Between(_) = self.wanted {
                    seconds.push(0);
                    parts.push(0.0);
                }
                continue;
            }
            let mut own;
            if self.distinct {
                own = numbers.to_vec();
                own.sort_unstable();
                own.dedup();
                numbers = &own;
            }
            match self.wanted {
                RankWish::Mode => firsts[group] = self.mode(numbers, &mut scratch),
                RankWish::At(share) => {
                    let place = self.ascending_place(at(share, numbers.len()), numbers.len());
                    firsts[group] = select(numbers, (place, place), &mut scratch, run)?.0;
                }
                RankWish::Between(share) => {
                    let (first, second, part) = between(share, numbers.len());
                    let (first, second) =
                        (self.ascending_place(first, numbers.len()), self.ascending_place(second, numbers.len()));
                    let (low, high) = select(numbers, (first.min(second), first.max(second)), &mut scratch, run)?;
                    let (from, to) = if self.descending { (high, low) } else { (low, high) };
                    firsts[group] = from;
                    seconds.push(to);
                    parts.push(part);
                }
            }
        }
        let valid = valid.contains(&false).then_some(valid);
        Ok(match self.wanted {
            RankWish::Between(_) => self.means(&firsts, &seconds, &parts, valid),
            _ => self.values(&firsts, valid),
        })
    }

    /// A place in the call's order as one in ascending order.
    fn ascending_place(&self, place: usize, count: usize) -> usize {
        if self.descending { count - 1 - place } else { place }
    }

    fn mode(&self, numbers: &[u64], scratch: &mut Vec<u64>) -> u64 {
        scratch.clear();
        scratch.extend_from_slice(numbers);
        scratch.sort_unstable();
        let mut best = (0, 0);
        for run in scratch.chunk_by(|a, b| a == b) {
            if run.len() > best.0 || (self.descending && run.len() == best.0) {
                best = (run.len(), run[0]);
            }
        }
        best.1
    }

    fn values(&self, numbers: &[u64], valid: Option<Vec<bool>>) -> Column {
        let is_value = |group: usize| valid.as_ref().is_none_or(|v| v[group]);
        let values = match &self.info.kind {
            ColumnKind::Vid(_) => Values::Vid(numbers.iter().map(|&n| n as u32).collect()),
            ColumnKind::Float => Values::Float(
                numbers.iter().enumerate().map(|(g, &n)| if is_value(g) { of_ordered(n) } else { 0.0 }).collect(),
            ),
            _ => {
                Values::Int(numbers.iter().enumerate().map(|(g, &n)| if is_value(g) { to_int(n) } else { 0 }).collect())
            }
        };
        Column::new(self.info.clone(), values, valid)
    }

    fn means(&self, firsts: &[u64], seconds: &[u64], parts: &[f64], valid: Option<Vec<bool>>) -> Column {
        let info = ColumnInfo::plain(self.info.field.clone());
        let pairs = firsts.iter().zip(seconds).zip(parts);
        if *info.data_type() != DataType::Float64 {
            let mean = |((&a, &b), &part): ((&u64, &u64), &f64)| {
                mean_of_decimals(to_int(a).into(), to_int(b).into(), part) as i64
            };
            return Column::new(info, Values::Int(pairs.map(mean).collect()), valid);
        }
        let unit = 10f64.powi(self.scale);
        let float = |number: u64| match self.info.kind {
            ColumnKind::Float => of_ordered(number),
            _ => to_int(number) as f64 / unit,
        };
        let means = pairs.map(|((&a, &b), &part)| mean_of_floats(float(a), float(b), part));
        Column::new(info, Values::Float(means.collect()), valid)
    }
}

impl RankWish {
    /// What a function wants.
    pub(super) fn of(function: &AggregateFunction) -> RankWish {
        match function {
            AggregateFunction::Quantile { share, continuous: true } => RankWish::Between(*share),
            AggregateFunction::Quantile { share, continuous: false } => RankWish::At(*share),
            _ => RankWish::Mode,
        }
    }
}

/// The numbers at two places in ascending order that are the same or neighbours.
fn select(
    numbers: &[u64],
    places: (usize, usize),
    scratch: &mut Vec<u64>,
    run: &Run<'_>,
) -> Result<(u64, u64), ExecError> {
    if numbers.len() >= MANY
        && let Some(found) = select_between(numbers, places, run)?
    {
        return Ok(found);
    }
    scratch.clear();
    scratch.extend_from_slice(numbers);
    Ok(selected(scratch, places))
}

fn selected(numbers: &mut [u64], (first, second): (usize, usize)) -> (u64, u64) {
    let (_, &mut at_first, above) = numbers.select_nth_unstable(first);
    let at_second = if second == first { at_first } else { above.iter().copied().min().unwrap_or(at_first) };
    (at_first, at_second)
}

/// As [`select`] among those between two bounds of a sample; `None` if it told wrong.
fn select_between(
    numbers: &[u64],
    (first, second): (usize, usize),
    run: &Run<'_>,
) -> Result<Option<(u64, u64)>, ExecError> {
    let count = numbers.len();
    // Steps of the golden section are spread evenly and follow no period of the rows.
    let step = (count as f64 * 0.618_033_988_749_895) as usize | 1;
    let mut sample: Vec<u64> = (0..SAMPLE).map(|i| numbers[i * step % count]).collect();
    sample.sort_unstable();
    let place = |of: usize| (of as u128 * SAMPLE as u128 / count as u128) as usize;
    let low = place(first).checked_sub(MARGIN).map_or(0, |at| sample[at]);
    let high = sample.get(place(second) + MARGIN).copied().unwrap_or(u64::MAX);
    let pieces: Vec<&[u64]> = numbers.chunks(PIECE).collect();
    let taken = run.map(pieces.len(), &|piece| {
        let mut below = 0;
        let mut between = Vec::new();
        for &number in pieces[piece] {
            below += usize::from(number < low);
            if number >= low && number <= high {
                between.push(number);
            }
        }
        Ok((below, between))
    })?;
    let below: usize = taken.iter().map(|(below, _)| below).sum();
    let mut between: Vec<u64> = taken.into_iter().flat_map(|(_, between)| between).collect();
    if first < below || second >= below + between.len() {
        return Ok(None);
    }
    Ok(Some(selected(&mut between, (first - below, second - below))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::aggregate::tests::{run_of, statement};

    #[test]
    fn means_of_decimals_are_rounded_away_from_zero() {
        assert_eq!(mean_of_decimals(1, 2, 0.5), 2);
        assert_eq!(mean_of_decimals(-2, -1, 0.5), -2);
        assert_eq!(mean_of_decimals(-1, 2, 0.5), 1);
        assert_eq!(mean_of_decimals(-3, 3, 0.5), 0);
        assert_eq!(mean_of_decimals(7, 9, 0.0), 7);
        let most = 10i128.pow(38) - 1;
        assert_eq!(mean_of_decimals(most - 2, most, 0.5), most - 1);
        assert_eq!(mean_of_decimals(-most, most, 0.5), 0);
    }

    #[test]
    fn places_are_those_of_the_standard() {
        assert_eq!((at(0.0, 4), at(0.25, 4), at(0.26, 4), at(1.0, 4)), (0, 0, 1, 3));
        assert_eq!((between(0.5, 4), between(1.0, 4), between(0.3, 1)), ((1, 2, 0.5), (3, 3, 0.0), (0, 0, 0.0)));
    }

    /// What all threads look for is what sorting finds, whatever the numbers look like.
    #[test]
    fn selecting_finds_what_sorting_finds() {
        let statement = statement();
        let run = run_of(&statement);
        let count = MANY + 4321;
        let mixed = |i: usize| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shapes: [&dyn Fn(usize) -> u64; 6] = [
            &mixed,
            &|i| i as u64,
            &|i| (count - i) as u64,
            &|i| mixed(i) % 3,
            &|_| 7,
            // Nearly all numbers are equal, and a sample misses the others.
            &|i| if i % 50_000 == 7 { u64::MAX } else { mixed(i) % 2 },
        ];
        for shape in shapes {
            let numbers: Vec<u64> = (0..count).map(shape).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            for first in [0, 1, 999, count / 2, count - 3, count - 2] {
                for second in [first, first + 1] {
                    let found = select(&numbers, (first, second), &mut Vec::new(), &run).unwrap();
                    assert_eq!(found, (sorted[first], sorted[second]), "of {first} and {second}");
                }
            }
        }
    }
}
