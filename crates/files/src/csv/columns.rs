//! Builds one Arrow column from the fields of a run of records.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::builder::{BinaryViewBuilder, BooleanBuilder, PrimitiveBuilder, StringViewBuilder};
use arrow::array::timezone::Tz;
use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow::compute::kernels::cast_utils::{Parser, parse_decimal, string_to_datetime};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};

use super::Dialect;
use super::records::{FieldKind, Records};
use crate::bytes::read_bytes;

/// Longest text that is tried as a decimal: beyond it no precision helps, and the parser counts digits in a byte.
const DECIMAL_CHARS_MAX: usize = 120;

/// Where a value did not fit: the row within the records, and the value.
pub(super) struct Misfit {
    pub row: usize,
    pub value: String,
}

/// The fields of one column.
pub(super) struct Fields<'a> {
    pub text: &'a str,
    pub records: &'a Records,
    pub dialect: &'a Dialect,
    pub column: usize,
}

impl Fields<'_> {
    /// The column as an array of `data_type`.
    pub(super) fn build(&self, data_type: &DataType) -> Result<ArrayRef, Misfit> {
        use DataType as T;
        match data_type {
            T::Utf8View => Ok(self.strings()),
            T::Boolean => self.booleans(),
            T::Int8 => self.integers::<Int8Type>(data_type),
            T::Int16 => self.integers::<Int16Type>(data_type),
            T::Int32 => self.integers::<Int32Type>(data_type),
            T::Int64 => self.integers::<Int64Type>(data_type),
            T::UInt8 => self.integers::<UInt8Type>(data_type),
            T::UInt16 => self.integers::<UInt16Type>(data_type),
            T::UInt32 => self.integers::<UInt32Type>(data_type),
            T::UInt64 => self.integers::<UInt64Type>(data_type),
            T::Float32 => self.parsed::<Float32Type>(data_type),
            T::Float64 => self.parsed::<Float64Type>(data_type),
            T::Date32 => self.parsed::<Date32Type>(data_type),
            T::Date64 => self.parsed::<Date64Type>(data_type),
            T::Time32(TimeUnit::Second) => self.parsed::<Time32SecondType>(data_type),
            T::Time32(TimeUnit::Millisecond) => self.parsed::<Time32MillisecondType>(data_type),
            T::Time64(TimeUnit::Microsecond) => self.parsed::<Time64MicrosecondType>(data_type),
            T::Time64(TimeUnit::Nanosecond) => self.parsed::<Time64NanosecondType>(data_type),
            T::Decimal32(p, s) if *s >= 0 => self.decimals::<Decimal32Type>(data_type, *p, *s),
            T::Decimal64(p, s) if *s >= 0 => self.decimals::<Decimal64Type>(data_type, *p, *s),
            T::Decimal128(p, s) if *s >= 0 => self.decimals::<Decimal128Type>(data_type, *p, *s),
            T::Decimal256(p, s) if *s >= 0 => self.decimals::<Decimal256Type>(data_type, *p, *s),
            T::Timestamp(unit, zone) => self.timestamps(data_type, *unit, zone.as_deref()),
            other => self.cast(other),
        }
    }

    /// Calls `each` with every value in turn, `None` for NULL.
    fn values(&self, text_column: bool, mut each: impl FnMut(Option<&str>) -> bool) -> Result<(), Misfit> {
        let mut scratch = String::new();
        let quote = self.dialect.quote.unwrap_or(b'"');
        let null = self.dialect.null.as_str();
        for row in 0..self.records.rows {
            let span = self.records.spans[row * self.records.width + self.column];
            let value = if span.kind == FieldKind::Plain {
                let raw = &self.text[span.range()];
                if text_column {
                    (raw != null).then_some(raw)
                } else {
                    let trimmed = raw.trim_ascii();
                    (!trimmed.is_empty() && raw != null).then_some(trimmed)
                }
            } else {
                let value = span.text(self.text, quote, &mut scratch);
                if text_column {
                    Some(value)
                } else {
                    // Programs that quote every field write NULL so; a number cannot be an empty text.
                    Some(value.trim_ascii()).filter(|v| !v.is_empty())
                }
            };
            if !each(value) {
                return Err(Misfit { row, value: value.unwrap_or_default().to_string() });
            }
        }
        Ok(())
    }

    fn strings(&self) -> ArrayRef {
        let mut builder = StringViewBuilder::with_capacity(self.records.rows);
        // Every text fits a text column.
        let _ = self.values(true, |value| {
            builder.append_option(value);
            true
        });
        Arc::new(builder.finish())
    }

    fn booleans(&self) -> Result<ArrayRef, Misfit> {
        let mut builder = BooleanBuilder::with_capacity(self.records.rows);
        self.values(false, |value| {
            match value {
                None => builder.append_null(),
                Some(text) => match parse_bool(text) {
                    Some(value) => builder.append_value(value),
                    None => return false,
                },
            }
            true
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn integers<T: ArrowPrimitiveType>(&self, data_type: &DataType) -> Result<ArrayRef, Misfit>
    where
        T::Native: FromStr,
    {
        self.primitives::<T>(data_type, |text| text.parse().ok())
    }

    fn parsed<T: ArrowPrimitiveType + Parser>(&self, data_type: &DataType) -> Result<ArrayRef, Misfit> {
        self.primitives::<T>(data_type, |text| T::parse(text))
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        data_type: &DataType,
        parse: impl Fn(&str) -> Option<T::Native>,
    ) -> Result<ArrayRef, Misfit> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.records.rows).with_data_type(data_type.clone());
        self.values(false, |value| {
            match value {
                None => builder.append_null(),
                Some(text) => match parse(text) {
                    Some(value) => builder.append_value(value),
                    None => return false,
                },
            }
            true
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn decimals<T: DecimalType>(&self, data_type: &DataType, precision: u8, scale: i8) -> Result<ArrayRef, Misfit> {
        self.primitives::<T>(data_type, |text| {
            if !fits_scale(text, scale) {
                return None;
            }
            let value = parse_decimal::<T>(text, precision, scale).ok()?;
            T::is_valid_decimal_precision(value, precision).then_some(value)
        })
    }

    fn timestamps(&self, data_type: &DataType, unit: TimeUnit, zone: Option<&str>) -> Result<ArrayRef, Misfit> {
        let Ok(zone) = zone.unwrap_or("+00:00").parse::<Tz>() else {
            // The schema was checked when the files were opened, so this zone is known.
            return self.cast(data_type);
        };
        let time = |text: &str| string_to_datetime(&zone, text).ok();
        match unit {
            TimeUnit::Second => self.primitives::<TimestampSecondType>(data_type, |t| time(t).map(|t| t.timestamp())),
            TimeUnit::Millisecond => {
                self.primitives::<TimestampMillisecondType>(data_type, |t| time(t).map(|t| t.timestamp_millis()))
            }
            TimeUnit::Microsecond => {
                self.primitives::<TimestampMicrosecondType>(data_type, |t| time(t).map(|t| t.timestamp_micros()))
            }
            TimeUnit::Nanosecond => {
                self.primitives::<TimestampNanosecondType>(data_type, |t| time(t).and_then(|t| t.timestamp_nanos_opt()))
            }
        }
    }

    /// Types without a parser above go through Arrow's cast from text.
    fn cast(&self, data_type: &DataType) -> Result<ArrayRef, Misfit> {
        let text_column = matches!(data_type, DataType::BinaryView | DataType::FixedSizeBinary(_));
        let mut builder = StringViewBuilder::with_capacity(self.records.rows);
        self.values(text_column, |value| {
            builder.append_option(value);
            true
        })?;
        let strings = builder.finish();
        if *data_type == DataType::BinaryView {
            let mut all = BinaryViewBuilder::with_capacity(strings.len());
            for (row, text) in strings.iter().enumerate() {
                let misfit = |_| Misfit { row, value: text.unwrap_or_default().to_string() };
                all.append_option(text.map(read_bytes).transpose().map_err(misfit)?);
            }
            return Ok(Arc::new(all.finish()));
        }
        let misfit = |row: usize| Misfit { row, value: strings.value(row).to_string() };
        let options = CastOptions { safe: true, ..CastOptions::default() };
        let first_value = || (0..strings.len()).find(|row| strings.is_valid(*row)).unwrap_or(0);
        let array = cast_with_options(&strings, data_type, &options).map_err(|_| misfit(first_value()))?;
        match (0..strings.len()).find(|row| strings.is_valid(*row) && array.is_null(*row)) {
            Some(row) => Err(misfit(row)),
            None => Ok(array),
        }
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    const WORDS: [(&str, bool); 8] = [
        ("true", true),
        ("false", false),
        ("t", true),
        ("f", false),
        ("1", true),
        ("0", false),
        ("yes", true),
        ("no", false),
    ];
    WORDS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, value)| *value)
}

/// Whether `text` looks like a number and loses no digit at `scale`; Arrow's parser would cut digits off in silence.
fn fits_scale(text: &str, scale: i8) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        // Three digits are more than any decimal can hold, and as many as the parser counts without overflow.
        Some((mantissa, exponent)) => match exponent.parse::<i64>() {
            Ok(exponent) if exponent.abs() < 1000 => (mantissa, exponent),
            _ => return false,
        },
        None => (text, 0),
    };
    if text.len() > DECIMAL_CHARS_MAX || !mantissa.bytes().any(|b| b.is_ascii_digit()) {
        return false;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    // How many digits stand after the point, less than none for 1200.
    let places = match (fraction.len(), whole.len() - whole.trim_end_matches('0').len()) {
        (0, zeros) if zeros == whole.trim_start_matches(['+', '-']).len() => return true,
        (0, zeros) => -(zeros as i64),
        (digits, _) => digits as i64,
    };
    places - exponent <= i64::from(scale)
}

/// Whether CSV fields can be read as `data_type`.
pub(super) fn readable(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Timestamp(_, zone) => zone.as_deref().is_none_or(|zone| zone.parse::<Tz>().is_ok()),
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => true,
        T::Null | T::Dictionary(..) | T::RunEndEncoded(..) | T::Union(..) | T::Map(..) => false,
        other if other.is_nested() => false,
        other => arrow::compute::can_cast_types(&T::Utf8View, other),
    }
}
