//! Names and types of the columns of `pg_catalog`'s tables, and rows that are told by the names of their columns.
//!
//! `columns.txt` has a line per table, as PostgreSQL 15 has it: its name, its number, `r` for a table, `v` for a view
//! or `f` for what a function gives, and its columns with their types, a blank within a type being `_`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float32Builder, Int16Builder, Int32Builder, Int64Builder, ListBuilder, RecordBatch,
    StringViewBuilder, TimestampNanosecondBuilder, UInt32Builder, new_null_array,
};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};

use crate::catalog::named_types::{REGPROC, metadata};
use crate::error::{Error, Result};

const COLUMNS: &str = include_str!("columns.txt");

/// A table of `pg_catalog`.
pub(super) struct Layout {
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub oid: u32,
    /// `r`, `v` or `f`.
    pub kind: &'static str,
    columns: &'static str,
}

/// All tables.
pub(super) fn all() -> impl Iterator<Item = Layout> {
    COLUMNS.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let (name, oid, kind) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some(Layout { name, oid, kind, columns: words.next()? })
    })
}

/// The table of a name.
pub(super) fn of(name: &str) -> Option<Layout> {
    all().find(|layout| layout.name == name)
}

/// A value of a row.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number, of whatever width.
    Number(i64),
    /// A text.
    Text(String),
    /// Numbers.
    Numbers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
    /// A time, in microseconds since 1970.
    Moment(i64),
    /// NULL.
    Null,
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// A row: values by the names of their columns. Columns that it does not name are NULL.
pub(super) type Row = Vec<(&'static str, Value)>;

impl Layout {
    /// Names and types of its columns.
    fn fields(&self) -> impl Iterator<Item = Field> {
        self.columns.split(' ').filter_map(|column| {
            let (name, of) = column.split_once(':')?;
            Some(field(name, &of.replace('_', " ")))
        })
    }

    /// The same as a schema.
    pub(super) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields().collect::<Vec<_>>()))
    }

    /// The rows as a batch.
    ///
    /// # Errors
    /// A row with a column that the table has not, or a value of another kind: faults of who made it.
    pub(super) fn batch(&self, rows: &[Row]) -> Result<RecordBatch> {
        let fields: Vec<Field> = self.fields().collect();
        for (name, _) in rows.iter().flatten() {
            if !fields.iter().any(|field| field.name() == name) {
                return Err(Error::Internal(format!("{} has no column {name}", self.name)));
            }
        }
        let column = |field: &Field| {
            let values = rows.iter().map(|row| {
                let value = row.iter().find(|(name, _)| field.name() == name);
                value.map_or(&Value::Null, |(_, value)| value)
            });
            array(field, values)
        };
        let columns = fields.iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

/// A column of one of PostgreSQL's types. What there is no type for here is its text.
fn field(name: &str, of: &str) -> Field {
    use DataType as T;
    if let Some(element) = of.strip_suffix("[]") {
        let element = field("item", element);
        return Field::new(name, T::List(Arc::new(element)), true);
    }
    let list = |element| T::List(Arc::new(Field::new_list_field(element, true)));
    let data_type = match of {
        "oid" => return Field::new(name, T::UInt32, true).with_metadata(metadata("oid")),
        "name" | "\"char\"" | REGPROC => return Field::new(name, T::Utf8View, true).with_metadata(metadata(of)),
        "int2vector" => return Field::new(name, list(T::Int16), true).with_metadata(metadata(of)),
        "oidvector" => return Field::new(name, list(T::UInt32), true).with_metadata(metadata(of)),
        "boolean" => T::Boolean,
        "smallint" => T::Int16,
        "integer" => T::Int32,
        "bigint" => T::Int64,
        "real" => T::Float32,
        "double precision" => T::Float64,
        "interval" => T::Interval(IntervalUnit::MonthDayNano),
        "timestamp with time zone" => T::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
        _ => T::Utf8View,
    };
    Field::new(name, data_type, true)
}

fn array<'a>(field: &Field, values: impl Iterator<Item = &'a Value> + Clone) -> Result<ArrayRef> {
    let wrong = || Error::Internal(format!("a value of another type for column {}", field.name()));
    macro_rules! built {
        ($builder:expr, $kind:pat => $value:expr) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    $kind => builder.append_value($value),
                    Value::Null => builder.append_null(),
                    _ => return Err(wrong()),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    Ok(match field.data_type() {
        DataType::Boolean => built!(BooleanBuilder::new(), Value::Flag(flag) => *flag),
        DataType::Int16 => built!(Int16Builder::new(), Value::Number(n) => i16::try_from(*n).map_err(|_| wrong())?),
        DataType::Int32 => built!(Int32Builder::new(), Value::Number(n) => i32::try_from(*n).map_err(|_| wrong())?),
        DataType::Int64 => built!(Int64Builder::new(), Value::Number(n) => *n),
        DataType::UInt32 => built!(UInt32Builder::new(), Value::Number(n) => u32::try_from(*n).map_err(|_| wrong())?),
        DataType::Float32 => built!(Float32Builder::new(), Value::Number(n) => *n as f32),
        DataType::Utf8View => built!(StringViewBuilder::new(), Value::Text(text) => text),
        DataType::List(element) if values.clone().any(|value| matches!(value, Value::Numbers(_))) => {
            let numbers = |value: &Value| match value {
                Value::Numbers(numbers) => Some(numbers.clone()),
                _ => None,
            };
            lists(element, values.map(numbers))?
        }
        DataType::List(_) if values.clone().any(|value| matches!(value, Value::Texts(_))) => {
            let mut lists = ListBuilder::new(StringViewBuilder::new());
            for value in values {
                match value {
                    Value::Texts(texts) => lists.append_value(texts.iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            arrow::compute::cast(&(Arc::new(lists.finish()) as ArrayRef), field.data_type())?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) => {
            let mut builder = TimestampNanosecondBuilder::new().with_timezone(Arc::clone(zone));
            for value in values {
                match value {
                    Value::Moment(at) => builder.append_option(at.checked_mul(1000)),
                    Value::Null => builder.append_null(),
                    _ => return Err(wrong()),
                }
            }
            Arc::new(builder.finish())
        }
        // Nothing is told of these.
        other => new_null_array(other, values.count()),
    })
}

fn lists(element: &Arc<Field>, values: impl Iterator<Item = Option<Vec<i64>>>) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for value in values {
        match value {
            Some(numbers) => lists.append_value(numbers.into_iter().map(Some)),
            None => lists.append_null(),
        }
    }
    let lists: ArrayRef = Arc::new(lists.finish());
    Ok(arrow::compute::cast(&lists, &DataType::List(Arc::clone(element)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_columns() {
        for layout in all() {
            let batch = layout.batch(&[]).unwrap();
            assert!(batch.num_columns() > 1, "{}", layout.name);
        }
        assert_eq!(of("pg_class").map(|layout| layout.oid), Some(1259));
        assert!(of("pg_klass").is_none());
    }

    #[test]
    fn what_a_row_does_not_name_is_null() {
        let layout = of("pg_index").unwrap();
        let row = vec![("indkey", Value::Numbers(vec![2, 1])), ("indisunique", true.into())];
        let batch = layout.batch(&[row]).unwrap();
        assert!(batch.column_by_name("indpred").unwrap().is_null(0));
        assert!(batch.column_by_name("indkey").unwrap().is_valid(0));
        assert!(layout.batch(&[vec![("relname", "t".into())]]).is_err());
        assert!(layout.batch(&[vec![("indisunique", "t".into())]]).is_err());
    }
}
