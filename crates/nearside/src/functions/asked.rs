//! What kind of value something is: `pg_typeof`, `num_nulls`, `num_nonnulls`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array};
use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::catalog::lengths::{LENGTH, Length};
use crate::catalog::named_types::name_of;
use crate::error::types::sql_type;

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let any = || Signature::variadic_any(Volatility::Immutable);
    let one = || Signature::any(1, Volatility::Immutable);
    let all = [
        ("pg_typeof", Asked::Type, one()),
        ("num_nulls", Asked::Nulls(true), any()),
        ("num_nonnulls", Asked::Nulls(false), any()),
    ];
    all.map(|(name, asked, signature)| Arc::new(ScalarUDF::from(OfValues { name, asked, signature }))).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asked {
    Type,
    /// How many are NULL, or are not.
    Nulls(bool),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfValues {
    name: &'static str,
    asked: Asked,
    signature: Signature,
}

/// PostgreSQL's name of a type; SQL's as messages have it, in lower case, for what PostgreSQL has no type for.
fn type_name(data_type: &DataType) -> String {
    use DataType as T;
    match data_type {
        T::Null => "unknown".into(),
        T::Float64 => "double precision".into(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "text".into(),
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => "numeric".into(),
        T::Time32(_) | T::Time64(_) => "time without time zone".into(),
        T::Timestamp(_, None) => "timestamp without time zone".into(),
        T::Timestamp(_, Some(_)) => "timestamp with time zone".into(),
        T::List(inner) | T::LargeList(inner) | T::ListView(inner) | T::LargeListView(inner) => list_of(inner),
        T::FixedSizeList(inner, _) => list_of(inner),
        T::Struct(_) => "record".into(),
        T::Dictionary(_, values) => type_name(values),
        T::RunEndEncoded(_, values) => type_name(values.data_type()),
        other => sql_type(other).to_lowercase(),
    }
}

/// Lists within lists are of one type, however deep.
fn list_of(element: &Field) -> String {
    let element = type_name(element.data_type());
    if element.ends_with("[]") { element } else { format!("{element}[]") }
}

/// The type of a field, whose length is part of its name.
fn type_of(field: &Field) -> String {
    if let Some(name) = name_of(field) {
        return name.into();
    }
    match field.metadata().get(LENGTH).and_then(|text| Length::of_text(text)) {
        Some(length) if length.is_fixed() => "character".into(),
        Some(_) => "character varying".into(),
        None => type_name(field.data_type()),
    }
}

/// What a call of `pg_typeof` says, as far as the statement tells: a text as it is written is of no type yet.
pub(crate) fn asked_type(call: &ScalarFunction, schema: &DFSchema) -> Option<String> {
    let function = call.func.inner().downcast_ref::<OfValues>()?;
    let ([of], Asked::Type) = (call.args.as_slice(), function.asked) else { return None };
    match of {
        Expr::Literal(value, None) if value.data_type().is_string() => Some("unknown".into()),
        Expr::Placeholder(_) => None,
        of => of.to_field(schema).ok().map(|(_, field)| type_of(&field)),
    }
}

impl ScalarUDFImpl for OfValues {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.asked {
            Asked::Nulls(_) => DataType::Int32,
            Asked::Type => DataType::Utf8View,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wants_nulls = match self.asked {
            Asked::Type => {
                return Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(type_of(&args.arg_fields[0])))));
            }
            Asked::Nulls(wants_nulls) => wants_nulls,
        };
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let mut counts = vec![0_i32; rows];
        for arg in &args.args {
            let values = arg.to_array(rows)?;
            let nulls = values.logical_nulls();
            let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            counts.iter_mut().enumerate().for_each(|(row, count)| *count += i32::from(is_null(row) == wants_nulls));
        }
        let counts: ArrayRef = Arc::new(Int32Array::from(counts));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&counts, 0)?),
            false => ColumnarValue::Array(counts),
        })
    }
}
