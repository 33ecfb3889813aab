//! Functions and operators of JSON and JSONB.
//!
//! Values of both types are texts. Which type a text is of, a field says by its metadata (`catalog::named_types`), as
//! far as a plan is made; what runs sees texts. So [`JsonFunction`] says what its arguments have to be, and
//! `rewrite::json` sees to it that they are that when the call runs: a text as it is written is read as JSON, and any
//! value that becomes part of JSON goes through `to_json` before.

mod calls;
pub(crate) mod paths;
pub(crate) mod planner;
mod rows;
mod to;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, Int32Array, Int64Array, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use crate::catalog::named_types::{self, TYPE};
use crate::error::Error;
use crate::error::codes::SqlState;

/// A cast to JSON.
pub(crate) const AS_JSON: &str = "__nearside_json";
/// A cast to JSONB.
pub(crate) const AS_JSONB: &str = "__nearside_jsonb";
/// The text of a value of JSON or JSONB.
pub(crate) const AS_TEXT: &str = "__nearside_json_as_text";
/// The same value, of the type that the second argument names.
pub(crate) const TYPED: &str = "__nearside_json_typed";
/// What values of JSONB compare by.
pub(crate) const KEY: &str = "__nearside_jsonb_key";
/// Texts of a number of JSONB, of a whole one, and its truth value.
pub(crate) const NUMBER: &str = "__nearside_jsonb_number";
pub(crate) const WHOLE: &str = "__nearside_jsonb_whole";
pub(crate) const TRUTH: &str = "__nearside_jsonb_truth";
/// A value as JSON, `null` for NULL.
pub(crate) const PART: &str = "__nearside_json_part";

/// The text of a value as JSON, for lists of them.
pub(crate) const ITEM: &str = "__nearside_json_item";

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Jsonb,
    /// Nothing of JSON.
    Other,
}

/// What an argument has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Json,
    Jsonb,
    /// One of the two.
    Either,
    Text,
    Int,
    Truth,
    /// `text[]`
    Texts,
    /// Anything, which becomes JSON.
    Part,
    /// Anything as it is.
    Any,
}

/// What a call gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Json,
    Jsonb,
    /// The type of the first argument.
    Same,
    Text,
    Int,
    Truth,
    Bytes,
    /// A list of texts.
    Texts,
}

/// A value that a call gives.
enum Out {
    Null,
    Text(String),
    Int(i32),
    Truth(bool),
    Bytes(Vec<u8>),
    Texts(Vec<Option<String>>),
}

/// The arguments of one row.
struct Row<'a> {
    columns: &'a [Column],
    at: usize,
}

enum Column {
    Texts(StringViewArray),
    Ints(Int64Array),
    Truths(BooleanArray),
    /// Where each list's texts are.
    Lists(arrow::array::ListArray, StringViewArray),
}

type Run = fn(&Row<'_>) -> crate::Result<Out>;

/// A function.
pub(crate) struct JsonFunction {
    name: &'static str,
    /// What its arguments have to be.
    pub(crate) takes: &'static [Takes],
    /// The last of them may stand there any number of times, or not at all.
    pub(crate) repeats: bool,
    /// How many of them may be left out.
    optional: usize,
    gives: Gives,
    /// Of NULL it gives NULL.
    strict: bool,
    how: How,
    signature: Signature,
}

#[derive(Clone, Copy)]
enum How {
    Rows(Run),
    /// The JSON of each value; NULL stays NULL, or is `null`.
    Parts {
        null: bool,
        normal: bool,
    },
    /// The first argument.
    Typed,
}

impl std::fmt::Debug for JsonFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for JsonFunction {
    fn eq(&self, other: &JsonFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for JsonFunction {}

impl Hash for JsonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

static FUNCTIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut all = calls::functions();
    all.extend(paths::functions());
    all.extend(rows::functions());
    all.extend(to::functions());
    all.push(JsonFunction::new(TYPED, &[Takes::Any, Takes::Any], Gives::Same, How::Typed));
    all.into_iter().map(|function| Arc::new(ScalarUDF::from(function))).collect()
});

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.clone()
}

/// A call of one of them.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let function = FUNCTIONS.iter().find(|function| function.name() == name).expect("a function of JSON");
    function.call(arguments)
}

/// The function that is called, where it is one of them.
pub(crate) fn called(function: &ScalarUDF) -> Option<&JsonFunction> {
    function.inner().downcast_ref::<JsonFunction>()
}

/// What a field's values are.
pub(crate) fn kind_of(field: &Field) -> Kind {
    match field.metadata().get(TYPE).map(String::as_str) {
        Some("json") => Kind::Json,
        Some("jsonb") => Kind::Jsonb,
        _ => Kind::Other,
    }
}

impl Kind {
    /// The type's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Json => "json",
            Kind::Jsonb => "jsonb",
            Kind::Other => "text",
        }
    }
}

impl JsonFunction {
    const fn new(name: &'static str, takes: &'static [Takes], gives: Gives, how: How) -> JsonFunction {
        let signature = Signature {
            type_signature: TypeSignature::VariadicAny,
            volatility: Volatility::Immutable,
            parameter_names: None,
        };
        JsonFunction { name, takes, repeats: false, optional: 0, gives, strict: true, how, signature }
    }

    const fn of_rows(name: &'static str, takes: &'static [Takes], gives: Gives, run: Run) -> JsonFunction {
        JsonFunction::new(name, takes, gives, How::Rows(run))
    }

    fn repeating(mut self) -> JsonFunction {
        self.repeats = true;
        let any = [TypeSignature::VariadicAny, TypeSignature::Nullary];
        self.signature = Signature::one_of(any.into(), Volatility::Immutable);
        self
    }

    const fn optional(mut self, count: usize) -> JsonFunction {
        self.optional = count;
        self
    }

    const fn of_nulls(mut self) -> JsonFunction {
        self.strict = false;
        self
    }

    /// What an argument has to be.
    pub(crate) fn takes_at(&self, place: usize) -> Takes {
        let last = self.takes.len().saturating_sub(1);
        self.takes.get(place.min(last)).copied().unwrap_or(Takes::Any)
    }

    /// Whether a call may have so many arguments.
    fn takes_count(&self, count: usize) -> bool {
        let all = self.takes.len();
        match self.repeats {
            true => count + 1 >= all,
            false => count <= all && count + self.optional >= all,
        }
    }

    fn data_type(&self) -> DataType {
        match self.gives {
            Gives::Json | Gives::Jsonb | Gives::Same | Gives::Text => DataType::Utf8View,
            Gives::Int => DataType::Int32,
            Gives::Truth => DataType::Boolean,
            Gives::Bytes => DataType::Binary,
            Gives::Texts => DataType::new_list(DataType::Utf8View, true),
        }
    }

    fn run(&self, run: Run, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let columns = args.iter().enumerate().map(|(place, arg)| Column::of(arg, self.takes_at(place)));
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let mut each = (0..rows).map(|at| {
            let row = Row { columns: &columns, at };
            if self.strict && row.has_null() {
                return Ok(Out::Null);
            }
            run(&row).map_err(Error::into_datafusion)
        });
        macro_rules! primitive {
            ($array:ident, $out:path) => {{
                let all = each.map(|out| out.map(|out| if let $out(value) = out { Some(value) } else { None }));
                Arc::new(all.collect::<Result<$array>>()?) as ArrayRef
            }};
        }
        Ok(match self.gives {
            Gives::Int => primitive!(Int32Array, Out::Int),
            Gives::Truth => primitive!(BooleanArray, Out::Truth),
            Gives::Bytes => {
                let mut all = BinaryBuilder::new();
                each.try_for_each(|out| {
                    all.append_option(match out? {
                        Out::Bytes(bytes) => Some(bytes),
                        _ => None,
                    });
                    Ok::<_, datafusion_common::DataFusionError>(())
                })?;
                Arc::new(all.finish())
            }
            Gives::Texts => {
                let mut all = ListBuilder::new(StringViewBuilder::new());
                each.try_for_each(|out| {
                    match out? {
                        Out::Texts(texts) => {
                            texts.iter().for_each(|text| all.values().append_option(text.as_deref()));
                            all.append(true);
                        }
                        _ => all.append(false),
                    }
                    Ok::<_, datafusion_common::DataFusionError>(())
                })?;
                Arc::new(all.finish())
            }
            Gives::Json | Gives::Jsonb | Gives::Same | Gives::Text => {
                let mut all = StringViewBuilder::with_capacity(rows);
                each.try_for_each(|out| {
                    all.append_option(match out? {
                        Out::Text(text) => Some(text),
                        _ => None,
                    });
                    Ok::<_, datafusion_common::DataFusionError>(())
                })?;
                Arc::new(all.finish())
            }
        })
    }
}

impl Column {
    fn of(values: &ArrayRef, takes: Takes) -> Result<Column> {
        Ok(match takes {
            Takes::Int => Column::Ints(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            Takes::Truth => Column::Truths(cast(values, &DataType::Boolean)?.as_boolean().clone()),
            Takes::Texts => {
                let lists = cast(values, &DataType::new_list(DataType::Utf8View, true))?.as_list::<i32>().clone();
                let texts = lists.values().as_string_view().clone();
                Column::Lists(lists, texts)
            }
            _ => Column::Texts(cast(values, &DataType::Utf8View)?.as_string_view().clone()),
        })
    }

    fn is_null(&self, at: usize) -> bool {
        match self {
            Column::Texts(all) => all.is_null(at),
            Column::Ints(all) => all.is_null(at),
            Column::Truths(all) => all.is_null(at),
            Column::Lists(all, _) => all.is_null(at),
        }
    }
}

impl Row<'_> {
    fn count(&self) -> usize {
        self.columns.len()
    }

    fn has_null(&self) -> bool {
        self.columns.iter().any(|column| column.is_null(self.at))
    }

    /// A text, or the text of JSON; empty for NULL.
    fn text(&self, place: usize) -> &str {
        self.maybe(place).unwrap_or("")
    }

    fn maybe(&self, place: usize) -> Option<&str> {
        match &self.columns[place] {
            Column::Texts(all) if all.is_valid(self.at) => Some(all.value(self.at)),
            _ => None,
        }
    }

    fn int(&self, place: usize) -> i64 {
        match &self.columns[place] {
            Column::Ints(all) if all.is_valid(self.at) => all.value(self.at),
            _ => 0,
        }
    }

    /// A truth value; what is left out, or NULL, is the other.
    fn truth(&self, place: usize, or: bool) -> bool {
        match self.columns.get(place) {
            Some(Column::Truths(all)) if all.is_valid(self.at) => all.value(self.at),
            _ => or,
        }
    }

    fn texts(&self, place: usize) -> Vec<Option<&str>> {
        match &self.columns[place] {
            Column::Lists(lists, texts) if lists.is_valid(self.at) => {
                let offsets = lists.value_offsets();
                let places = offsets[self.at] as usize..offsets[self.at + 1] as usize;
                places.map(|at| texts.is_valid(at).then(|| texts.value(at))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn value(&self, place: usize) -> crate::Result<crate::json::value::Value> {
        crate::json::value::Value::read(self.text(place))
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if !self.takes_count(args.arg_fields.len()) {
            let message = format!("there is no function {}() of {} arguments", self.name, args.arg_fields.len());
            return Err(Error::plan(SqlState::UndefinedFunction, message).into_datafusion());
        }
        let field = Field::new(self.name, self.data_type(), true);
        let kind = match (self.gives, self.how) {
            (_, How::Typed) => match args.scalar_arguments.get(1) {
                Some(Some(ScalarValue::Utf8(Some(name)))) if name == "json" => Kind::Json,
                _ => Kind::Jsonb,
            },
            (Gives::Json, _) => Kind::Json,
            (Gives::Jsonb, _) => Kind::Jsonb,
            (Gives::Same, _) => args.arg_fields.first().map_or(Kind::Other, |field| kind_of(field)),
            _ => Kind::Other,
        };
        Ok(Arc::new(match kind {
            Kind::Other => field,
            kind => field.with_metadata(named_types::metadata(kind.name())),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let How::Typed = self.how {
            return Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Utf8View(None))));
        }
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let values = match self.how {
            How::Rows(run) => self.run(run, &columns, rows)?,
            How::Parts { null, normal } => to::parts(&columns[0], null, normal)?,
            How::Typed => return datafusion_common::internal_err!("a value as it is"),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
