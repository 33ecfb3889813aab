//! What a session asks about itself: `current_user`, `current_schema`, `version()`, `current_setting(name)` and the
//! like. Who plans a statement gives the answers with the functions; they are the statement's own, so that no plan with
//! one is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::catalog::PG_CATALOG;
use crate::catalog::path::is_temporary;
use crate::error::{statement_err, value_err};

/// The version of PostgreSQL whose SQL this is, as clients ask for it.
pub(crate) const SERVER_VERSION: &str = "15.0";
/// The same as a number.
pub(crate) const SERVER_VERSION_NUM: &str = "150000";

/// What the functions of a session answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Answers {
    /// Which of the process's sessions it is.
    pub session: i32,
    /// The name of its current role.
    pub user: String,
    /// The name of the role that it is of.
    pub session_user: String,
    /// The database's name.
    pub database: &'static str,
    /// Where names without a schema are looked up, in order.
    pub schemas: Vec<String>,
    /// Settings by their names in lower case; `None` for those that are not set.
    pub settings: BTreeMap<String, Option<String>>,
}

/// What a function does with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Question {
    Version,
    Database,
    Schema,
    Schemas,
    User,
    SessionUser,
    Session,
    Recovery,
    Setting,
    SetConfig,
    NoLocks,
}

const QUESTIONS: [(&str, Question); 14] = [
    ("version", Question::Version),
    ("current_database", Question::Database),
    ("current_catalog", Question::Database),
    ("current_schema", Question::Schema),
    ("current_schemas", Question::Schemas),
    ("current_user", Question::User),
    ("current_role", Question::User),
    ("session_user", Question::SessionUser),
    ("user", Question::User),
    ("pg_backend_pid", Question::Session),
    ("pg_is_in_recovery", Question::Recovery),
    ("current_setting", Question::Setting),
    ("set_config", Question::SetConfig),
    // Pools of connections give back what a session may have locked; there are no such locks.
    ("pg_advisory_unlock_all", Question::NoLocks),
];

/// The functions without answers, for who asks what functions there are.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let answers = Arc::new(Answers::default());
    QUESTIONS.iter().map(|(name, question)| asked(name, *question, &answers)).collect()
}

/// The function of a name with its answers, of which `answers` is told whether settings are asked for; `None` for other
/// functions.
pub(crate) fn function(name: &str, answers: impl FnOnce(bool) -> Answers) -> Option<Arc<ScalarUDF>> {
    let (name, question) = QUESTIONS.iter().find(|(known, _)| *known == name)?;
    Some(asked(name, *question, &Arc::new(answers(*question == Question::Setting))))
}

fn asked(name: &'static str, question: Question, answers: &Arc<Answers>) -> Arc<ScalarUDF> {
    let signature = match question {
        Question::Schemas => Signature::exact(vec![DataType::Boolean], Volatility::Stable),
        Question::Setting | Question::SetConfig => Signature::user_defined(Volatility::Stable),
        _ => Signature::nullary(Volatility::Stable),
    };
    Arc::new(ScalarUDF::from(Asked { name, question, signature, answers: Arc::clone(answers) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Asked {
    name: &'static str,
    question: Question,
    signature: Signature,
    answers: Arc<Answers>,
}

/// What `version()` says: clients tell by it what SQL they may write.
fn version() -> String {
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("PostgreSQL {SERVER_VERSION} (Nearside {}) on {architecture}-{system}", env!("CARGO_PKG_VERSION"))
}

fn text(value: &str) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::Utf8View(Some(value.into())))
}

fn element() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Utf8View, true))
}

impl Asked {
    /// `current_setting(name [, missing_ok])`.
    fn settings(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let names = cast(&args.args[0].to_array(rows)?, &DataType::Utf8View)?;
        let missing = args.args.get(1).map(|missing| missing.to_array(rows)).transpose()?;
        let mut values = StringViewBuilder::with_capacity(rows);
        for (row, name) in names.as_string_view().iter().enumerate() {
            let missing_ok =
                missing.as_ref().map(|missing| missing.is_valid(row).then(|| missing.as_boolean().value(row)));
            let (Some(name), Some(missing_ok)) = (name, missing_ok.unwrap_or(Some(false))) else {
                values.append_null();
                continue;
            };
            match self.answers.settings.get(&name.to_lowercase()) {
                Some(value) => values.append_option(value.as_deref()),
                None if missing_ok => values.append_null(),
                None => {
                    return value_err!(
                        UndefinedObject,
                        "setting '{name}' does not exist; SHOW ALL lists them, and current_setting(name, true) is NULL \
                         for what is none"
                    );
                }
            }
        }
        let values: ArrayRef = Arc::new(values.finish());
        match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) && rows > 0 {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }

    /// `current_schemas(with those that are looked into without being named)`.
    fn schemas(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let asked = args.args[0].to_array(args.number_rows)?;
        let mut names: Vec<&str> = Vec::new();
        let mut lengths = Vec::with_capacity(asked.len());
        for row in 0..asked.len() {
            let with_implied = asked.is_valid(row) && asked.as_boolean().value(row);
            let before = names.len();
            for schema in &self.answers.schemas {
                // Looked into before all, but for temporary tables.
                if with_implied && names.len() == before && !is_temporary(schema) {
                    names.push(PG_CATALOG);
                }
                if with_implied || !is_temporary(schema) {
                    names.push(schema);
                }
                if with_implied && is_temporary(schema) {
                    names.push(PG_CATALOG);
                }
            }
            if with_implied && names.len() == before {
                names.push(PG_CATALOG);
            }
            lengths.push(names.len() - before);
        }
        let names = StringViewArray::from_iter_values(names);
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls: Option<NullBuffer> = asked.nulls().cloned();
        let lists: ArrayRef = Arc::new(ListArray::try_new(element(), offsets, Arc::new(names), nulls)?);
        match &args.args[0] {
            ColumnarValue::Scalar(_) if !lists.is_empty() => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?))
            }
            _ => Ok(ColumnarValue::Array(lists)),
        }
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
        Ok(match self.question {
            Question::Session => DataType::Int32,
            Question::Recovery => DataType::Boolean,
            Question::Schemas => DataType::List(element()),
            _ => DataType::Utf8View,
        })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is = |of: &DataType, wanted: &DataType| match wanted {
            DataType::Boolean => matches!(of, DataType::Boolean | DataType::Null),
            _ => of.is_string() || of.is_null(),
        };
        let wanted: &[DataType] = match self.question {
            Question::Setting if types.len() == 1 => &[DataType::Utf8View],
            Question::Setting => &[DataType::Utf8View, DataType::Boolean],
            _ => &[DataType::Utf8View, DataType::Utf8View, DataType::Boolean],
        };
        if types.len() == wanted.len() && types.iter().zip(wanted).all(|(of, wanted)| is(of, wanted)) {
            return Ok(wanted.to_vec());
        }
        let arguments = match self.question {
            Question::Setting => "the name of a setting, and whether it may be missing",
            _ => "the name of a setting, its value, and whether it is for the transaction alone",
        };
        statement_err!(UndefinedFunction, "{} takes {arguments}", self.name)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match self.question {
            Question::Version => text(&version()),
            Question::Database => text(self.answers.database),
            Question::Schema => {
                let first = self.answers.schemas.iter().find(|schema| !is_temporary(schema));
                ColumnarValue::Scalar(ScalarValue::Utf8View(first.cloned()))
            }
            Question::User => text(&self.answers.user),
            Question::SessionUser => text(&self.answers.session_user),
            Question::Session => ColumnarValue::Scalar(ScalarValue::Int32(Some(self.answers.session))),
            Question::Recovery => ColumnarValue::Scalar(ScalarValue::Boolean(Some(false))),
            Question::NoLocks => text(""),
            Question::Schemas => return self.schemas(&args),
            Question::Setting => return self.settings(&args),
            Question::SetConfig => {
                return value_err!(
                    FeatureNotSupported,
                    "set_config() within a query is not supported; write SET, or SELECT set_config('name', 'value', \
                     false) alone, with texts as they are"
                );
            }
        })
    }
}
