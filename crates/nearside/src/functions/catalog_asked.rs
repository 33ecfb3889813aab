//! Functions that ask what there is, as clients of PostgreSQL call them: `format_type`, `pg_get_constraintdef`,
//! `'t'::regclass`, .. What they answer is answered by [`Answers`], which a statement binds them to when it plans.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int32Builder, Int64Builder, StringViewBuilder, UInt32Builder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::catalog::named_types::metadata;
use crate::error::statement_err;

/// Who knows what there is.
pub(crate) trait Answers: Debug + Send + Sync {
    /// What a function gives for arguments, of which those at the end may be missing.
    ///
    /// # Errors
    /// A name that stands for nothing.
    fn answer(&self, question: &str, args: &[Fact]) -> crate::error::Result<Fact>;
}

/// A value that a function is given, or gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// NULL.
    Null,
}

impl<T: Into<Fact>> From<Option<T>> for Fact {
    fn from(value: Option<T>) -> Fact {
        value.map_or(Fact::Null, Into::into)
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Fact {
        Fact::Text(text)
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Fact {
        Fact::Text(text.into())
    }
}

impl From<bool> for Fact {
    fn from(flag: bool) -> Fact {
        Fact::Flag(flag)
    }
}

impl From<u32> for Fact {
    fn from(number: u32) -> Fact {
        Fact::Number(number.into())
    }
}

/// What a function gives: the name of the type for what is told by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    Flag,
    Text,
    /// BIGINT.
    Number,
    /// INTEGER.
    Small,
    /// The number of something, which is shown as its name.
    Named(&'static str),
}

/// How casts to a type of names are called: of `regclass`, `__nearside_regclass`.
pub(crate) const NUMBER_OF: &str = "__nearside_";
/// What the names of such types are called: `__nearside_name_of_regclass`.
pub(crate) const NAME_OF: &str = "__nearside_name_of_";

/// Types whose values are numbers of what there is and are shown as its name.
pub(crate) const NAMED: [&str; 4] = ["regclass", "regtype", "regnamespace", "regrole"];

/// Each with how many arguments it takes, at least and at most.
const QUESTIONS: [(&str, (usize, usize), Gives); 70] = {
    use Gives::{Flag, Named, Number, Small, Text};
    [
        ("format_type", (2, 2), Text),
        ("pg_get_userbyid", (1, 1), Text),
        ("pg_table_is_visible", (1, 1), Flag),
        ("pg_type_is_visible", (1, 1), Flag),
        ("pg_function_is_visible", (1, 1), Flag),
        ("pg_operator_is_visible", (1, 1), Flag),
        ("pg_opclass_is_visible", (1, 1), Flag),
        ("pg_opfamily_is_visible", (1, 1), Flag),
        ("pg_collation_is_visible", (1, 1), Flag),
        ("pg_conversion_is_visible", (1, 1), Flag),
        ("pg_statistics_obj_is_visible", (1, 1), Flag),
        ("pg_ts_config_is_visible", (1, 1), Flag),
        ("pg_get_expr", (2, 3), Text),
        ("pg_get_constraintdef", (1, 2), Text),
        ("pg_get_indexdef", (1, 3), Text),
        ("pg_get_viewdef", (1, 2), Text),
        ("pg_get_ruledef", (1, 2), Text),
        ("pg_get_triggerdef", (1, 2), Text),
        ("pg_get_partkeydef", (1, 1), Text),
        ("pg_get_statisticsobjdef_columns", (1, 1), Text),
        ("pg_get_function_result", (1, 1), Text),
        ("pg_get_function_arguments", (1, 1), Text),
        ("pg_get_function_identity_arguments", (1, 1), Text),
        ("pg_get_functiondef", (1, 1), Text),
        ("pg_stat_get_numscans", (1, 1), Number),
        ("pg_relation_is_publishable", (1, 1), Flag),
        ("pg_index_column_has_property", (3, 3), Flag),
        ("pg_tablespace_location", (1, 1), Text),
        ("obj_description", (1, 2), Text),
        ("col_description", (2, 2), Text),
        ("shobj_description", (2, 2), Text),
        ("pg_relation_size", (1, 2), Number),
        ("pg_table_size", (1, 1), Number),
        ("pg_indexes_size", (1, 1), Number),
        ("pg_total_relation_size", (1, 1), Number),
        ("pg_database_size", (1, 1), Number),
        ("pg_encoding_to_char", (1, 1), Text),
        ("pg_char_to_encoding", (1, 1), Small),
        ("getdatabaseencoding", (0, 0), Text),
        ("pg_client_encoding", (0, 0), Text),
        ("has_table_privilege", (2, 3), Flag),
        ("has_any_column_privilege", (2, 3), Flag),
        ("has_column_privilege", (3, 4), Flag),
        ("has_sequence_privilege", (2, 3), Flag),
        ("has_schema_privilege", (2, 3), Flag),
        ("has_database_privilege", (2, 3), Flag),
        ("has_function_privilege", (2, 3), Flag),
        ("has_type_privilege", (2, 3), Flag),
        ("has_language_privilege", (2, 3), Flag),
        ("has_tablespace_privilege", (2, 3), Flag),
        ("has_foreign_data_wrapper_privilege", (2, 3), Flag),
        ("has_server_privilege", (2, 3), Flag),
        ("pg_has_role", (2, 3), Flag),
        ("row_security_active", (1, 1), Flag),
        ("pg_is_other_temp_schema", (1, 1), Flag),
        ("pg_my_temp_schema", (0, 0), Number),
        ("pg_collation_for", (1, 1), Text),
        ("to_regclass", (1, 1), Named("regclass")),
        ("to_regtype", (1, 1), Named("regtype")),
        ("to_regnamespace", (1, 1), Named("regnamespace")),
        ("to_regrole", (1, 1), Named("regrole")),
        ("__nearside_regclass", (1, 1), Named("regclass")),
        ("__nearside_regtype", (1, 1), Named("regtype")),
        ("__nearside_regnamespace", (1, 1), Named("regnamespace")),
        ("__nearside_regrole", (1, 1), Named("regrole")),
        ("__nearside_regproc", (1, 1), Text),
        ("__nearside_name_of_regclass", (1, 1), Text),
        ("__nearside_name_of_regtype", (1, 1), Text),
        ("__nearside_name_of_regnamespace", (1, 1), Text),
        ("__nearside_name_of_regrole", (1, 1), Text),
    ]
};

/// The functions unbound, for who asks what functions there are.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    QUESTIONS.iter().filter(|(name, ..)| !name.starts_with(NUMBER_OF)).map(|of| asked(of, None)).collect()
}

/// Whether a function is one of these.
pub(crate) fn is_asked(name: &str) -> bool {
    QUESTIONS.iter().any(|(known, ..)| *known == name)
}

/// The function of a name, bound; `None` for other functions.
pub(crate) fn function(name: &str, bound: Arc<dyn Answers>) -> Option<Arc<ScalarUDF>> {
    let of = QUESTIONS.iter().find(|(known, ..)| *known == name)?;
    Some(asked(of, Some(bound)))
}

/// The type of names that a field has the numbers of.
pub(crate) fn named_type(field: &Field) -> Option<&'static str> {
    let name = crate::catalog::named_types::name_of(field)?;
    NAMED.into_iter().find(|known| *known == name)
}

/// What writes numbers of a type as names, bound as the function `like` is; `None` where that is none of these.
pub(crate) fn naming(of: &str, like: &ScalarUDF) -> Option<Arc<ScalarUDF>> {
    let like = like.inner().downcast_ref::<Asked>()?;
    function(&format!("{NAME_OF}{of}"), Arc::clone(like.bound.as_ref()?))
}

fn asked(
    (name, count, gives): &(&'static str, (usize, usize), Gives),
    bound: Option<Arc<dyn Answers>>,
) -> Arc<ScalarUDF> {
    let signature = match count {
        (0, 0) => Signature::nullary(Volatility::Stable),
        _ => Signature::user_defined(Volatility::Stable),
    };
    Arc::new(ScalarUDF::from(Asked { name, count: *count, gives: *gives, signature, bound }))
}

#[derive(Debug)]
struct Asked {
    name: &'static str,
    count: (usize, usize),
    gives: Gives,
    signature: Signature,
    bound: Option<Arc<dyn Answers>>,
}

impl Asked {
    fn address(&self) -> usize {
        self.bound.as_ref().map_or(0, |bound| Arc::as_ptr(bound).cast::<()>().addr())
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Asked) -> bool {
        self.name == other.name && self.address() == other.address()
    }
}

impl Eq for Asked {}

impl Hash for Asked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.address()).hash(state);
    }
}

/// The form in which a function takes values of a type.
fn taken(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Boolean => Some(DataType::Boolean),
        DataType::Null => Some(DataType::Utf8View),
        of if of.is_integer() => Some(DataType::Int64),
        of if of.is_string() => Some(DataType::Utf8View),
        _ => None,
    }
}

fn given(values: &ArrayRef, row: usize) -> Fact {
    if values.is_null(row) {
        return Fact::Null;
    }
    match values.data_type() {
        DataType::Boolean => Fact::Flag(values.as_boolean().value(row)),
        DataType::Int64 => Fact::Number(values.as_primitive::<Int64Type>().value(row)),
        _ => Fact::Text(values.as_string_view().value(row).into()),
    }
}

impl ScalarUDFImpl for Asked {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.gives {
            Gives::Flag => DataType::Boolean,
            Gives::Text => DataType::Utf8View,
            Gives::Number => DataType::Int64,
            Gives::Named(_) => DataType::UInt32,
            Gives::Small => DataType::Int32,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name, self.return_type(&[])?, true);
        Ok(Arc::new(match self.gives {
            Gives::Named(of) => field.with_metadata(metadata(of)),
            _ => field,
        }))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.count;
        let all = types.iter().map(taken).collect::<Option<Vec<_>>>();
        match all.filter(|all| (least..=most).contains(&all.len())) {
            Some(all) => Ok(all),
            None if least == most => {
                statement_err!(
                    UndefinedFunction,
                    "{}() takes {least} arguments: numbers, texts and truth values",
                    self.name
                )
            }
            None => statement_err!(
                UndefinedFunction,
                "{}() takes {least} to {most} arguments: numbers, texts and truth values",
                self.name
            ),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(bound) = &self.bound else {
            return statement_err!(FeatureNotSupported, "{}() cannot be called here: it is for statements", self.name);
        };
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args
            .args
            .iter()
            .map(|arg| {
                let values = arg.to_array(rows)?;
                let to = taken(values.data_type()).unwrap_or(DataType::Utf8View);
                Ok(cast(&values, &to)?)
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        let answers = (0..rows).map(|row| {
            let given: Vec<Fact> = columns.iter().map(|values| given(values, row)).collect();
            bound.answer(self.name, &given).map_err(crate::error::Error::into_datafusion)
        });
        let values = collected(self.gives, answers)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

fn collected(gives: Gives, answers: impl Iterator<Item = Result<Fact>>) -> Result<ArrayRef> {
    macro_rules! built {
        ($builder:expr, $kind:pat => $value:expr) => {{
            let mut builder = $builder;
            for answer in answers {
                match answer? {
                    $kind => builder.append_value($value),
                    _ => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }};
    }
    match gives {
        Gives::Flag => built!(BooleanBuilder::new(), Fact::Flag(flag) => flag),
        Gives::Text => built!(StringViewBuilder::new(), Fact::Text(text) => text),
        Gives::Number => built!(Int64Builder::new(), Fact::Number(number) => number),
        Gives::Named(_) => built!(UInt32Builder::new(), Fact::Number(number) => u32::try_from(number).unwrap_or(0)),
        Gives::Small => {
            built!(Int32Builder::new(), Fact::Number(number) => i32::try_from(number).unwrap_or(i32::MAX))
        }
    }
}
