//! [`Column`]: a column of one piece of a result, and how pieces become one column.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, PrimitiveArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};

/// Values of a column before all pieces are known.
pub(crate) enum Values {
    Int(Vec<i64>),
    Wide(Vec<i128>),
    Float(Vec<f64>),
    Vid(Vec<u32>),
    Arrow(ArrayRef),
}

/// A column of one piece of the result.
pub(crate) struct Column {
    pub(super) info: ColumnInfo,
    pub(super) values: Values,
    pub(super) valid: Option<Vec<bool>>,
    /// Of integers that are not NULL; found by [`bound`](Self::bound).
    pub(super) bounds: Option<(i64, i64)>,
}

impl Column {
    /// Values of which the bounds are not known yet.
    pub(crate) fn new(info: ColumnInfo, values: Values, valid: Option<Vec<bool>>) -> Column {
        Column { info, values, valid, bounds: None }
    }

    /// Of a whole vector.
    pub(super) fn of_vector(info: ColumnInfo, vector: Vector) -> Column {
        let values = match vector.data {
            Data::Int(values) => Values::Int(values),
            Data::Float(values) => Values::Float(values),
            Data::Vid(vids) => Values::Vid(vids),
            Data::Arrow(array) => Values::Arrow(array),
        };
        Column::new(info, values, vector.valid).bound()
    }

    /// As an Arrow array.
    pub(super) fn into_arrow(self) -> ArrayRef {
        let data = match self.values {
            Values::Int(values) => Data::Int(values),
            Values::Float(values) => Data::Float(values),
            Values::Vid(vids) => Data::Vid(vids),
            Values::Arrow(array) => return array,
            Values::Wide(values) => return wide_array(values, self.valid, self.info.data_type()),
        };
        self.info.to_arrow(&Vector { data, valid: self.valid })
    }

    /// Bytes that its values take, without what says which are NULL.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match &self.values {
            Values::Int(values) => size_of_val(values.as_slice()),
            Values::Float(values) => size_of_val(values.as_slice()),
            Values::Vid(vids) => size_of_val(vids.as_slice()),
            Values::Wide(values) => size_of_val(values.as_slice()),
            Values::Arrow(array) => array.get_array_memory_size(),
        };
        bytes as u64
    }

    /// The same with bounds.
    pub(crate) fn bound(mut self) -> Column {
        let Values::Int(values) = &self.values else { return self };
        let of = |values: &mut dyn Iterator<Item = i64>| {
            values.fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (low, high) = match &self.valid {
            None => values.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v))),
            Some(valid) => of(&mut values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(&v, _)| v)),
        };
        self.bounds = (low <= high).then_some((low, high));
        self
    }
}

/// One column of all pieces: what is known of it, and its vectors.
pub(crate) fn settle(pieces: Vec<Column>) -> (ColumnInfo, Vec<Vector>) {
    let mut info = pieces[0].info.clone();
    info.nullable = pieces.iter().any(|p| match &p.values {
        Values::Arrow(array) => array.logical_null_count() > 0,
        _ => p.valid.as_ref().is_some_and(|v| v.contains(&false)),
    });
    let wide = pieces.iter().any(|p| matches!(p.values, Values::Wide(_)));
    if wide {
        info.kind = ColumnKind::Arrow;
    } else if matches!(pieces[0].values, Values::Int(_)) {
        let bounds = pieces.iter().filter_map(|p| p.bounds).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (low, high) = bounds.unwrap_or((0, 0));
        info.kind = ColumnKind::Int { low, high };
    }
    let vectors = pieces.into_iter().map(|piece| {
        let data = match piece.values {
            Values::Int(values) if wide => {
                let values = values.into_iter().map(i128::from).collect();
                return Vector { data: Data::Arrow(wide_array(values, piece.valid, info.data_type())), valid: None };
            }
            Values::Wide(values) => {
                return Vector { data: Data::Arrow(wide_array(values, piece.valid, info.data_type())), valid: None };
            }
            Values::Int(values) => Data::Int(values),
            Values::Float(values) => Data::Float(values),
            Values::Vid(vids) => Data::Vid(vids),
            Values::Arrow(array) if matches!(info.kind, ColumnKind::Float) => return info.vector_of(&array),
            Values::Arrow(array) => Data::Arrow(array),
        };
        Vector { data, valid: piece.valid }
    });
    let vectors = vectors.collect();
    (info, vectors)
}

fn wide_array(values: Vec<i128>, valid: Option<Vec<bool>>, data_type: &DataType) -> ArrayRef {
    let nulls = valid.map(NullBuffer::from);
    match data_type {
        DataType::UInt64 => {
            let values: Vec<u64> = values.into_iter().map(|v| v as u64).collect();
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        DataType::Decimal128(..) => {
            let array: Decimal128Array = PrimitiveArray::new(values.into(), nulls);
            Arc::new(array.with_data_type(data_type.clone()))
        }
        other => unreachable!("{other} has no more than 64 bits"),
    }
}
