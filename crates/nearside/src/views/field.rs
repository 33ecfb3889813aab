//! The kinds of columns that system views have; all may be NULL.

use arrow::datatypes::{DataType, Field, TimeUnit};

/// A text.
pub(super) fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, true)
}

/// A count or an amount, as BIGINT.
pub(super) fn number(name: &str) -> Field {
    Field::new(name, DataType::Int64, true)
}

/// The number of something that has numbers: a node, a cpu, a worker.
pub(super) fn id(name: &str) -> Field {
    Field::new(name, DataType::UInt32, true)
}

/// 64 bits, as BIGINT UNSIGNED.
pub(super) fn word(name: &str) -> Field {
    Field::new(name, DataType::UInt64, true)
}

/// Yes or no.
pub(super) fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, true)
}

/// A measured figure, as DOUBLE.
pub(super) fn decimal(name: &str) -> Field {
    Field::new(name, DataType::Float64, true)
}

/// A point in time.
pub(super) fn moment(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, None), true)
}
