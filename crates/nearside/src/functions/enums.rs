//! Functions of enums, whose values are texts (`catalog::user_types`). The last argument of each says which enum it is,
//! as [`EnumType::text`] writes it; `rewrite::enums` puts the calls into plans.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::catalog::user_types::EnumType;
use crate::error::Error;
use crate::error::codes::SqlState;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EnumCall {
    /// A text as a label: a cast to the enum.
    Read,
    /// The place of a label, by which it is ordered.
    Place,
    /// The label of a place.
    Label,
    /// The text of a label: a cast to TEXT.
    Text,
    /// `enum_first`, `enum_last`, `enum_range` as they are written, without the enum: it is found from the argument.
    First,
    Last,
    Range,
}

/// The function that casts to an enum are written as.
pub(crate) const READ: &str = "__nearside_enum";

impl EnumCall {
    const ALL: [EnumCall; 7] = [
        EnumCall::Read,
        EnumCall::Place,
        EnumCall::Label,
        EnumCall::Text,
        EnumCall::First,
        EnumCall::Last,
        EnumCall::Range,
    ];

    fn name(self) -> &'static str {
        match self {
            EnumCall::Read => READ,
            EnumCall::Place => "__nearside_enum_place",
            EnumCall::Label => "__nearside_enum_label",
            EnumCall::Text => "__nearside_enum_text",
            EnumCall::First => "enum_first",
            EnumCall::Last => "enum_last",
            EnumCall::Range => "enum_range",
        }
    }
}

#[derive(Debug)]
struct EnumFunction {
    call: EnumCall,
    signature: Signature,
}

impl PartialEq for EnumFunction {
    fn eq(&self, other: &EnumFunction) -> bool {
        self.call == other.call
    }
}

impl Eq for EnumFunction {}

impl Hash for EnumFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.hash(state);
    }
}

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let made = |call| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::from(EnumFunction { call, signature }))
    };
    EnumCall::ALL.into_iter().map(made).collect()
});

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.clone()
}

/// A call over a value of an enum.
pub(crate) fn call(of: EnumCall, value: Expr, enum_type: &EnumType) -> Expr {
    let function = FUNCTIONS.iter().find(|known| known.name() == of.name()).expect("a function of enums");
    function.call(vec![value, lit(enum_type.text())])
}

/// Which of them a function is.
pub(crate) fn called(function: &ScalarUDF) -> Option<EnumCall> {
    function.inner().downcast_ref::<EnumFunction>().map(|function| function.call)
}

/// The enum that a call names.
fn named(value: Option<&ScalarValue>) -> Result<EnumType> {
    let text = value.and_then(|value| value.try_as_str().flatten());
    let of = text.and_then(EnumType::of_text);
    of.ok_or_else(|| Error::Internal("a function of enums without its enum".into()).into_datafusion())
}

impl ScalarUDFImpl for EnumFunction {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.call {
            EnumCall::Place => DataType::Int32,
            EnumCall::Range => DataType::new_list(DataType::Utf8View, true),
            _ => DataType::Utf8View,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), self.return_type(&[])?, true);
        Ok(Arc::new(match self.call {
            EnumCall::Read | EnumCall::Label => {
                field.with_metadata(named(args.scalar_arguments.last().copied().flatten())?.metadata())
            }
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(args.args.first(), Some(ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let [value, of] = args.args.as_slice() else { return Err(no_enum(self.name())) };
        let values = value.to_array(rows)?;
        let of = match of {
            ColumnarValue::Scalar(of) => named(Some(of))?,
            ColumnarValue::Array(_) => named(None)?,
        };
        let made = match values.data_type() {
            DataType::Null => new_null_array(&self.return_type(&[])?, rows),
            _ => self.run(&values, &of)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

impl EnumFunction {
    fn run(&self, values: &ArrayRef, of: &EnumType) -> Result<ArrayRef> {
        let texts = |values: &ArrayRef| Ok::<_, Error>(cast(values, &DataType::Utf8View)?.as_string_view().clone());
        let made = || -> crate::error::Result<ArrayRef> {
            Ok(match self.call {
                EnumCall::Read => {
                    let texts = texts(values)?;
                    texts.iter().flatten().try_for_each(|text| of.read(text).map(drop))?;
                    Arc::new(texts)
                }
                EnumCall::Place => {
                    let place = |text: &str| of.read(text).map(|place| i32::try_from(place).unwrap_or(i32::MAX));
                    let texts = texts(values)?;
                    let places = texts.iter().map(|text| text.map(place).transpose());
                    Arc::new(places.collect::<crate::error::Result<Int32Array>>()?)
                }
                EnumCall::Label => {
                    let places = cast(values, &DataType::Int32)?;
                    let places = places.as_primitive::<Int32Type>().iter();
                    let label = |place: i32| usize::try_from(place).ok().and_then(|place| of.labels.get(place));
                    let labels = places.map(|place| place.and_then(label).map(String::as_str));
                    Arc::new(labels.collect::<StringViewArray>())
                }
                EnumCall::Text => Arc::new(texts(values)?),
                EnumCall::First | EnumCall::Last | EnumCall::Range => {
                    return Err(Error::plan(SqlState::UndefinedFunction, wants(self.call.name())));
                }
            })
        };
        made().map_err(Error::into_datafusion)
    }
}

/// What the functions say that ask an enum of its labels, where there is none.
pub(crate) fn wants(name: &str) -> String {
    format!("{name} takes a value of an enum, which may be NULL: {name}(NULL::mood)")
}

fn no_enum(name: &str) -> datafusion_common::DataFusionError {
    Error::plan(SqlState::UndefinedFunction, wants(name)).into_datafusion()
}
