//! [`Distances`]: ends of frames by distance, `RANGE BETWEEN 5 PRECEDING AND ..`.
//!
//! As in PostgreSQL: the frame of a row whose key is NULL reaches, at such an end, to the ends of its peers; NaN is
//! greater than every number and near
//! to no other; infinities are near to each other only. Integers are compared in 128 bits, where nothing overflows;
//! dates and timestamps are moved by the
//! calendar's months, then by days, then by what is left.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, TimeUnit};

use super::places::{OrderedRows, RowPlace, filled};
use crate::ExecError;
use crate::chunk::vector::{Data, Vector, ints_of_arrow, is_integer};
use crate::eval::plus_months;
use crate::keys::float::one;
use crate::plan::{FrameOffset, SortKey};
use crate::tasks::run::Run;

const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

/// Which end of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Its first row.
    Start,
    /// What is behind its last one.
    End,
}

/// Keys by position.
enum DistanceKeys {
    Small(Vec<i64>),
    Wide(Vec<i128>),
    Floats(Vec<f64>),
}

/// How far an end has come in a partition.
#[derive(Default)]
pub(super) struct EndCursor {
    pub(super) partition: Range<usize>,
    /// The partition's rows whose key is not NULL.
    pub(super) values: Range<usize>,
    pub(super) position: usize,
}

/// One end of every frame.
pub(super) struct Distances {
    keys: DistanceKeys,
    /// Positions whose key is NULL are 1; absent where none is.
    nulls: Option<Vec<u8>>,
    nulls_first: bool,
    descending: bool,
    /// How far; to be taken off the key rather than added.
    offset: FrameOffset,
    subtract: bool,
    /// Nanoseconds of a step of the key, where the distance is an interval.
    unit: i128,
    end: End,
}

impl Distances {
    /// Of the rows' only key.
    pub(super) fn new(
        run: &Run<'_>,
        ordered: &OrderedRows<'_>,
        key: SortKey,
        offset: FrameOffset,
        preceding: bool,
        end: End,
    ) -> Result<Distances, ExecError> {
        let (info, vector) = ordered.column(key.column);
        let data_type = info.data_type();
        let unit = match (offset, unit_nanoseconds(data_type)) {
            (FrameOffset::Interval { .. }, Some(unit)) => unit,
            (FrameOffset::Interval { .. }, None) => return Err(unusable(data_type)),
            _ => 1,
        };
        let keys = keys(run, ordered, vector, data_type)?;
        if matches!(keys, DistanceKeys::Floats(_)) != matches!(offset, FrameOffset::Float(_)) {
            return Err(unusable(data_type));
        }
        let has_nulls = info.nullable && (0..ordered.len()).any(|row| !vector.is_valid(row));
        let nulls = match has_nulls {
            false => None,
            true => Some(filled(run, ordered.len(), &|range, part: &mut [u8]| {
                let rows = &ordered.order[range];
                part.iter_mut().zip(rows).for_each(|(null, &row)| *null = u8::from(!vector.is_valid(row as usize)));
                Ok(())
            })?),
        };
        let subtract = preceding != key.descending;
        let (nulls_first, descending) = (key.nulls_first, key.descending);
        Ok(Distances { keys, nulls, nulls_first, descending, offset, subtract, unit, end })
    }

    /// The end of a row's frame; `reached` is where that of the row before it was.
    pub(super) fn of(&self, place: &RowPlace, reached: &mut EndCursor) -> usize {
        if reached.partition != place.partition {
            reached.partition = place.partition.clone();
            reached.values = self.values_of(&place.partition);
            // Far behind the first row of the partition the end is not looked for from its start.
            reached.position = self.first_from(place, &reached.values);
        }
        if !reached.values.contains(&place.row) {
            return match self.end {
                End::Start => place.peers.start,
                End::End => place.peers.end,
            };
        }
        let stays = self.stays_before(place.row);
        // A later day of a month may end up earlier: months have different lengths.
        while reached.position > reached.values.start && !stays(reached.position - 1) {
            reached.position -= 1;
        }
        while reached.position < reached.values.end && stays(reached.position) {
            reached.position += 1;
        }
        reached.position
    }

    fn first_from(&self, place: &RowPlace, values: &Range<usize>) -> usize {
        let row = place.row.clamp(values.start, values.end);
        if row == values.end {
            return values.start;
        }
        let stays = self.stays_before(row);
        let (mut low, mut high) = (values.start, values.end);
        while low < high {
            let middle = low.midpoint(high);
            if stays(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The rows of a partition whose key is not NULL: all others are before or behind them.
    fn values_of(&self, partition: &Range<usize>) -> Range<usize> {
        let Some(nulls) = &self.nulls else { return partition.clone() };
        let part = &nulls[partition.clone()];
        match self.nulls_first {
            true => partition.start + part.partition_point(|&null| null == 1)..partition.end,
            false => partition.start..partition.start + part.partition_point(|&null| null == 0),
        }
    }

    /// Tells of positions whether they lie before the end of a row's frame.
    fn stays_before(&self, row: usize) -> impl Fn(usize) -> bool + '_ {
        let limit = self.limit(row);
        move |position| {
            let order = match (&self.keys, limit) {
                (DistanceKeys::Floats(keys), Limit::Float(limit)) => one(keys[position]).total_cmp(&limit),
                (keys, Limit::Number(limit)) => (keys.number(position) * self.unit).cmp(&limit),
                _ => unreachable!("a limit is of the kind of its key"),
            };
            let order = if self.descending { order.reverse() } else { order };
            match self.end {
                End::Start => order.is_lt(),
                End::End => order.is_le(),
            }
        }
    }

    /// The key at which a row's frame ends.
    fn limit(&self, row: usize) -> Limit {
        let sign = if self.subtract { -1 } else { 1 };
        match (&self.keys, self.offset) {
            (DistanceKeys::Floats(keys), FrameOffset::Float(offset)) => {
                let key = one(keys[row]);
                let limit = one(if self.subtract { key - offset } else { key + offset });
                if limit.is_nan() && !key.is_nan() {
                    // From one infinity by as much: every number is near enough.
                    let low = (self.end == End::Start) != self.descending;
                    return Limit::Float(if low { f64::NEG_INFINITY } else { f64::INFINITY });
                }
                Limit::Float(limit)
            }
            (keys, FrameOffset::Integer(offset)) => Limit::Number(keys.number(row).saturating_add(sign * offset)),
            (keys, FrameOffset::Interval { months, days, nanoseconds }) => {
                let key = keys.number(row) * self.unit;
                let (day, rest) = (key.div_euclid(DAY_NANOSECONDS), key.rem_euclid(DAY_NANOSECONDS));
                let day = plus_months(day as i64, sign as i64 * i64::from(months)) as i128 + sign * i128::from(days);
                Limit::Number(day * DAY_NANOSECONDS + rest + sign * i128::from(nanoseconds))
            }
            _ => unreachable!("a distance is of the kind of its key"),
        }
    }
}

#[derive(Clone, Copy)]
enum Limit {
    Number(i128),
    Float(f64),
}

impl DistanceKeys {
    #[inline]
    fn number(&self, position: usize) -> i128 {
        match self {
            DistanceKeys::Small(keys) => i128::from(keys[position]),
            DistanceKeys::Wide(keys) => keys[position],
            DistanceKeys::Floats(_) => unreachable!("floats are compared as such"),
        }
    }
}

fn unusable(data_type: &DataType) -> ExecError {
    ExecError::Evaluation(format!(
        "RANGE with an offset is not possible over an order by {data_type} with an offset of this type; order by a \
         number, or \
         by a date or timestamp with an INTERVAL as the offset"
    ))
}

/// Nanoseconds of a step of a date or timestamp.
fn unit_nanoseconds(data_type: &DataType) -> Option<i128> {
    let of = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    match data_type {
        DataType::Date32 => Some(DAY_NANOSECONDS),
        DataType::Date64 => Some(1_000_000),
        DataType::Timestamp(unit, _) => Some(of(unit)),
        _ => None,
    }
}

/// A column's values by position.
fn keys(
    run: &Run<'_>,
    ordered: &OrderedRows<'_>,
    vector: &Vector,
    data_type: &DataType,
) -> Result<DistanceKeys, ExecError> {
    fn picked<T: Copy + Default + Send + Sync>(
        run: &Run<'_>,
        ordered: &OrderedRows<'_>,
        values: &[T],
    ) -> Result<Vec<T>, ExecError> {
        filled(run, ordered.len(), &|range, part: &mut [T]| {
            let rows = &ordered.order[range];
            part.iter_mut().zip(rows).for_each(|(value, &row)| *value = values[row as usize]);
            Ok(())
        })
    }
    match &vector.data {
        Data::Int(values) if *data_type != DataType::Boolean => Ok(DistanceKeys::Small(picked(run, ordered, values)?)),
        Data::Float(values) => Ok(DistanceKeys::Floats(picked(run, ordered, values)?)),
        Data::Arrow(array) => match data_type {
            DataType::Float32 | DataType::Float16 => {
                let wide = cast(array, &DataType::Float64)?;
                Ok(DistanceKeys::Floats(picked(run, ordered, wide.as_primitive::<Float64Type>().values())?))
            }
            DataType::Decimal128(..) | DataType::UInt64 => {
                let wide = match data_type {
                    DataType::UInt64 => cast(array, &DataType::Decimal128(38, 0))?,
                    _ => Arc::clone(array),
                };
                Ok(DistanceKeys::Wide(picked(run, ordered, wide.as_primitive::<Decimal128Type>().values())?))
            }
            other if is_integer(other) && *other != DataType::Boolean => {
                Ok(DistanceKeys::Small(picked(run, ordered, &ints_of_arrow(array.as_ref()))?))
            }
            other => Err(unusable(other)),
        },
        _ => Err(unusable(data_type)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Date32Type;

    use super::plus_months;

    #[test]
    fn months_are_those_of_the_calendar() {
        for day in (-800_000..2_900_000).step_by(37) {
            for months in [-25, -12, -11, -1, 0, 1, 2, 12, 13, 100] {
                let expected = Date32Type::add_year_months_opt(day, months).unwrap();
                assert_eq!(plus_months(i64::from(day), i64::from(months)), i64::from(expected), "{day} {months}");
            }
        }
    }
}
