//! What can go wrong for a user of the library: one enum, one clear sentence each.
//!
//! User faults (`Syntax`, `Plan`, `NotFound`, ..) say what to do; a bug of ours is `Internal` and says so.
//! DataFusion's nested errors are unwrapped to the sentence that matters and keep the SQL position where there is one.
//! [`Error::code`] is PostgreSQL's code of each: [`codes`].

pub(crate) mod codes;
pub(crate) mod instead;
pub(crate) mod names;
pub(crate) mod types;
pub(crate) mod words;

use std::fmt;

use arrow::error::ArrowError;
use datafusion_common::{Column, DataFusionError, SchemaError, TableReference};
use exec::ExecError;
use files::{FileError, FileErrorKind};
use numa::MemoryError;
use storage::{Interruption, StoreError};

use crate::error::codes::{About, Message, ShownValues, SqlState};
use crate::error::names::nearest;
use crate::error::words::in_sql;

/// Longer messages of other libraries are cut.
const SENTENCE_CHARS_MAX: usize = 400;

/// What the planner's library begins with where there is no cast.
const NO_CAST: &str = "Unsupported CAST from ";

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is said of a query as a value that has several rows.
pub(crate) const SEVERAL_ROWS: &str =
    "a scalar subquery gave more than one row; add LIMIT 1, or use an aggregate or IN";

/// A place in the text of a statement, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line of the text.
    pub line: u64,
    /// Character of the line.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL that Nearside reads.
    #[error("syntax error{}: {message}", at(.position))]
    Syntax {
        /// What was expected or found.
        message: String,
        /// Where in the statement.
        position: Option<Position>,
    },
    /// The statement is well-formed but cannot be planned: unknown names, wrong types, ..
    #[error("{}{}", in_sql(.message), at(.position))]
    Plan {
        /// What does not fit.
        message: Message,
        /// Where in the statement.
        position: Option<Position>,
    },
    /// A table, view, schema, .. that does not exist.
    #[error("{kind} '{name}' does not exist{}", hint(.nearest))]
    NotFound {
        /// `table`, `column`, `schema`, ..
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A name that is taken.
    #[error("{kind} '{name}' already exists{}", way_out(.kind))]
    Exists {
        /// `table`, `view`, ..
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Nearside does not do this (yet).
    #[error("{}", in_sql(.0))]
    Unsupported(String),
    /// A value made the statement fail: overflow, division by zero, a cast that does not fit, a violated constraint.
    #[error("{}", in_sql(.0))]
    Execution(Message),
    /// A budget or a node has no room.
    #[error("{0}")]
    Memory(String),
    /// A transaction meets what others have done since it began, and cannot go on: run it again.
    #[error("could not serialize access: {0}; run the transaction again")]
    Serialization(String),
    /// Transactions wait for each other, and this one was chosen to give way: run it again.
    #[error("deadlock: {0}; run the transaction again")]
    Deadlock(String),
    /// A statement that does not fit the state that the session's transaction is in.
    #[error("{0}")]
    Transaction(Message),
    /// The statement was cancelled.
    #[error("the statement was cancelled")]
    Cancelled,
    /// The statement ran longer than `nearside.statement_timeout_ms`.
    #[error("the statement ran into its time-out; raise nearside.statement_timeout_ms, or set it to 0 for none")]
    Timeout,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What keeps the database on the disk failed, or found a folder that is not as it was written.
    #[error("{0}")]
    Disk(Message),
    /// A setting of the wrong name or value.
    #[error("{}", in_sql(.0))]
    Setting(String),
    /// A bug in Nearside; the statement failed, nothing else did.
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

fn at(position: &Option<Position>) -> String {
    position.map_or_else(String::new, |p| format!(" at {p}"))
}

fn way_out(kind: &str) -> &'static str {
    match kind {
        "table" | "view" | "external table" => "; drop it first, or use another name, IF NOT EXISTS or OR REPLACE",
        "schema" => "; drop it first, or use IF NOT EXISTS",
        "index" => "; drop it first, or use another name or IF NOT EXISTS",
        "prepared statement" => "; DEALLOCATE it first",
        _ => "; use another name",
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean '{n}'?"))
}

impl Error {
    /// The same, where the text is none that the user has written.
    pub(crate) fn without_position(self) -> Error {
        match self {
            Error::Plan { message, .. } => Error::Plan { message, position: None },
            Error::Syntax { message, .. } => Error::Syntax { message, position: None },
            other => other,
        }
    }

    /// An error of planning without a position.
    pub(crate) fn plan(code: SqlState, message: impl Into<String>) -> Error {
        Error::Plan { message: Message::new(code, message), position: None }
    }

    /// An error of rows that shows values of a table's columns, of which who may not read them is told `without`.
    pub(crate) fn of_rows(
        code: SqlState,
        message: impl Into<String>,
        (schema, table): (&str, &str),
        columns: impl IntoIterator<Item = String>,
        without: impl Into<String>,
    ) -> Error {
        let shows = ShownValues {
            table: (schema.into(), table.into()),
            columns: columns.into_iter().collect(),
            without: without.into(),
        };
        Error::Execution(Message::new(code, message).showing(shows))
    }

    /// An error of a value, or of what a statement meets.
    pub(crate) fn execution(code: SqlState, message: impl Into<String>) -> Error {
        Error::Execution(Message::new(code, message))
    }

    /// The same, about a constraint of a table.
    pub(crate) fn of_constraint(self, (schema, table): (&str, &str), constraint: &str) -> Error {
        let (schema, table) = (schema.into(), table.into());
        self.naming(About { schema, table, column: None, constraint: Some(constraint.into()) })
    }

    /// The same, about a column of a table.
    pub(crate) fn of_column(self, (schema, table): (&str, &str), column: &str) -> Error {
        let (schema, table) = (schema.into(), table.into());
        self.naming(About { schema, table, column: Some(column.into()), constraint: None })
    }

    fn naming(self, about: About) -> Error {
        match self {
            Error::Execution(message) => Error::Execution(message.naming(about)),
            other => other,
        }
    }

    /// The table that it is about, and the column or the constraint, where rows break what the table says.
    pub fn about(&self) -> Option<&About> {
        match self {
            Error::Execution(message) => message.about(),
            _ => None,
        }
    }

    /// An error of the state that a transaction is in.
    pub(crate) fn transaction(code: SqlState, message: impl Into<String>) -> Error {
        Error::Transaction(Message::new(code, message))
    }

    /// An error of what keeps a database on the disk.
    pub(crate) fn disk(code: SqlState, message: impl Into<String>) -> Error {
        Error::Disk(Message::new(code, message))
    }

    /// An error of syntax without a position.
    pub(crate) fn syntax(message: impl Into<String>) -> Error {
        Error::Syntax { message: message.into(), position: None }
    }

    /// What kind of error it is, as PostgreSQL tells its clients.
    pub fn code(&self) -> SqlState {
        match self {
            Error::Syntax { .. } => SqlState::SyntaxError,
            Error::Plan { message, .. } => message.code().unwrap_or(SqlState::SyntaxOrAccessError),
            Error::NotFound { kind, .. } => of_missing(kind),
            Error::Exists { kind, .. } => of_taken(kind),
            Error::Unsupported(_) => SqlState::FeatureNotSupported,
            Error::Execution(message) => message.code().unwrap_or(SqlState::DataException),
            Error::Memory(_) => SqlState::OutOfMemory,
            Error::Serialization(_) => SqlState::SerializationFailure,
            Error::Deadlock(_) => SqlState::DeadlockDetected,
            Error::Transaction(message) => message.code().unwrap_or(SqlState::InvalidTransactionState),
            Error::Cancelled | Error::Timeout => SqlState::QueryCanceled,
            Error::File(error) => of_file(error.kind),
            Error::Disk(message) => message.code().unwrap_or(SqlState::IoError),
            Error::Setting(_) => SqlState::InvalidParameterValue,
            Error::Internal(_) => SqlState::InternalError,
        }
    }

    /// True when the fault lies in the statement or its data rather than in Nearside.
    pub fn is_user_fault(&self) -> bool {
        !matches!(self, Error::Internal(_))
    }

    /// As an error that can travel through DataFusion and come back whole.
    pub(crate) fn into_datafusion(self) -> DataFusionError {
        DataFusionError::External(Box::new(self))
    }
}

/// The code where a name stands for nothing.
fn of_missing(kind: &str) -> SqlState {
    match kind {
        "table" | "view" | "materialized view" | "external table" | "system view" => SqlState::UndefinedTable,
        "column" => SqlState::UndefinedColumn,
        "schema" => SqlState::InvalidSchemaName,
        "catalog" => SqlState::InvalidCatalogName,
        "savepoint" => SqlState::InvalidSavepointSpecification,
        "prepared statement" => SqlState::InvalidSqlStatementName,
        "table function" => SqlState::UndefinedFunction,
        "option" | "table option" | "option of a materialized view" => SqlState::InvalidParameterValue,
        _ => SqlState::UndefinedObject,
    }
}

/// The code where a name is taken.
fn of_taken(kind: &str) -> SqlState {
    match kind {
        "table" | "view" | "materialized view" | "external table" | "index" => SqlState::DuplicateTable,
        "column" => SqlState::DuplicateColumn,
        "schema" => SqlState::DuplicateSchema,
        "prepared statement" => SqlState::DuplicatePreparedStatement,
        _ => SqlState::DuplicateObject,
    }
}

fn of_file(kind: FileErrorKind) -> SqlState {
    match kind {
        FileErrorKind::NotFound => SqlState::UndefinedFile,
        FileErrorKind::Unreadable | FileErrorKind::Write => SqlState::IoError,
        FileErrorKind::Options | FileErrorKind::Format => SqlState::InvalidParameterValue,
        FileErrorKind::Schema | FileErrorKind::Corrupt | FileErrorKind::Record => SqlState::BadCopyFileFormat,
        FileErrorKind::Value => SqlState::InvalidTextRepresentation,
        _ => SqlState::IoError,
    }
}

/// Fails a function with a code, where a value is at fault.
macro_rules! value_err {
    ($code:ident, $($text:tt)*) => {{
        let code = $crate::error::codes::SqlState::$code;
        Err($crate::error::Error::execution(code, format!($($text)*)).into_datafusion())
    }};
}

/// Fails planning with a code, where the statement is at fault.
macro_rules! statement_err {
    ($code:ident, $($text:tt)*) => {{
        let code = $crate::error::codes::SqlState::$code;
        Err($crate::error::Error::plan(code, format!($($text)*)).into_datafusion())
    }};
}

pub(crate) use {statement_err, value_err};

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Error {
        let position = position_of(&error);
        convert(error, position)
    }
}

fn position_of(error: &DataFusionError) -> Option<Position> {
    let span = error.diagnostic().and_then(|d| d.span)?;
    (span.start.line > 0).then_some(Position { line: span.start.line, column: span.start.column })
}

fn convert(error: DataFusionError, position: Option<Position>) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => convert(*inner, position),
        DataFusionError::Collection(mut all) if !all.is_empty() => {
            let first = all.swap_remove(0);
            let position = position.or_else(|| position_of(&first));
            convert(first, position)
        }
        DataFusionError::Shared(inner) => shared(&inner),
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => convert(*inner, position),
                Err(other) => Error::Execution(Message::of(other.to_string())),
            },
        },
        DataFusionError::ArrowError(inner, _) => from_arrow(*inner, position),
        DataFusionError::SQL(inner, _) => syntax(&inner.to_string()),
        DataFusionError::SchemaError(inner, _) => from_schema(*inner, position),
        DataFusionError::ResourcesExhausted(text) => exhausted(&text),
        DataFusionError::NotImplemented(text) if text.starts_with(NO_CAST) => {
            let types = text.trim_start_matches(NO_CAST);
            let (from, to) = types.split_once(" to ").unwrap_or((types, "this type"));
            let text = sentence(&format!("there is no cast of {from} to {to}"));
            Error::Plan { message: Message::new(SqlState::CannotCoerce, text), position }
        }
        DataFusionError::NotImplemented(text) => Error::Unsupported(format!("not supported: {}", sentence(&text))),
        DataFusionError::Plan(text) => Error::Plan { message: planned(&text), position },
        DataFusionError::Configuration(text) => Error::Setting(sentence(&text)),
        DataFusionError::Execution(text) => Error::Execution(Message::of(sentence(&text))),
        DataFusionError::IoError(inner) => {
            Error::execution(SqlState::IoError, format!("input or output failed: {inner}"))
        }
        DataFusionError::Internal(text) => Error::Internal(sentence(&text)),
        other => Error::Execution(Message::of(sentence(&other.strip_backtrace()))),
    }
}

/// What functions say of their arguments comes within a sentence of the planner's, which knows what it is.
fn planned(text: &str) -> Message {
    match text.contains("coercion failed with: ") {
        true => Message::new(SqlState::UndefinedFunction, sentence(text)),
        false => Message::of(sentence(text)),
    }
}

/// DataFusion speaks of spilling to disk, which is off.
fn exhausted(text: &str) -> Error {
    let text = if text.contains("DiskManager") { "" } else { text };
    let more = "the statement needs more memory than its budget has; raise nearside.statement_memory_bytes or the \
        database's memory";
    Error::Memory(if text.is_empty() { more.into() } else { format!("{more} ({})", sentence(text)) })
}

/// A shared error cannot be taken apart by value: its sentence is kept, and the kinds that callers tell apart.
fn shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => shared(inner),
        DataFusionError::Shared(inner) => shared(inner),
        DataFusionError::ResourcesExhausted(text) => exhausted(text),
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(Error::Memory(text)) => Error::Memory(text.clone()),
            Some(Error::Cancelled) => Error::Cancelled,
            Some(Error::Timeout) => Error::Timeout,
            Some(other) => Error::execution(other.code(), other.to_string()),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => shared(inner),
                None => Error::Execution(Message::of(inner.to_string())),
            },
        },
        DataFusionError::ArrowError(inner, _) => Error::Execution(Message::of(arrow_sentence(inner))),
        DataFusionError::Execution(text) | DataFusionError::Plan(text) => Error::Execution(Message::of(sentence(text))),
        other => Error::Execution(Message::of(sentence(&other.strip_backtrace()))),
    }
}

fn from_arrow(error: ArrowError, position: Option<Position>) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => convert(*inner, position),
                Err(other) => Error::Execution(Message::of(other.to_string())),
            },
        },
        other => Error::Execution(Message::of(arrow_sentence(&other))),
    }
}

fn arrow_sentence(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => "division by zero".into(),
        ArrowError::ArithmeticOverflow(text) => {
            let text = text.trim_start_matches("Overflow happened on: ");
            format!("arithmetic overflow: {text}")
        }
        ArrowError::CastError(text) | ArrowError::ParseError(text) | ArrowError::ComputeError(text) => sentence(text),
        ArrowError::InvalidArgumentError(text) => sentence(text),
        other => sentence(&other.to_string()),
    }
}

fn from_schema(error: SchemaError, position: Option<Position>) -> Error {
    let (code, message) = match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // Names of ours and of the planner's say nothing to anybody else.
            let made = |name: &str| name.starts_with("__nearside") || name.starts_with("__correlated");
            if made(&field.name) || field.relation.as_ref().is_some_and(|relation| made(relation.table())) {
                return Error::Unsupported(
                    "a subquery that refers to the row outside it in this way is not supported; join the query's rows \
                     instead, or compute them in a WITH first"
                        .into(),
                );
            }
            let names: Vec<String> = valid_fields.iter().map(|c| c.name.clone()).filter(|name| !made(name)).collect();
            let hint = match nearest(&field.name, names.iter().map(String::as_str)) {
                Some(name) => format!("; did you mean '{name}'?"),
                None if names.is_empty() => String::new(),
                None => format!("; there are {}", listed(&names)),
            };
            let of = field.relation.as_ref().map(TableReference::table);
            let is_of = |column: &Column| column.relation.as_ref().map(TableReference::table) == of;
            let code = match of.is_some() && !valid_fields.is_empty() && !valid_fields.iter().any(is_of) {
                // There is no table of that name in FROM.
                true => SqlState::UndefinedTable,
                false => SqlState::UndefinedColumn,
            };
            (code, format!("column '{}' does not exist{hint}", field.flat_name()))
        }
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column '{}' is ambiguous; put the table's name before it", field.name);
            (SqlState::AmbiguousColumn, message)
        }
        SchemaError::DuplicateQualifiedField { name, .. } => {
            let message = format!("column '{name}' stands twice; give one of them another name with AS");
            (SqlState::DuplicateAlias, message)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            let message = format!("column '{name}' stands twice; give one of them another name with AS");
            (SqlState::DuplicateColumn, message)
        }
    };
    Error::Plan { message: Message::new(code, message), position }
}

fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", ..");
    }
    text
}

/// The parser's text ends in `at Line: 1, Column: 8`; the position is taken out of it.
pub(crate) fn syntax(text: &str) -> Error {
    let text = text.trim_start_matches("sql parser error: ").trim();
    let Some((message, place)) = text.rsplit_once(" at Line: ") else {
        return Error::syntax(text);
    };
    let mut numbers = place.split(", Column: ").map(|n| n.trim().parse::<u64>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(line)), Some(Ok(column))) if line > 0 => {
            Error::Syntax { message: message.into(), position: Some(Position { line, column }) }
        }
        _ => Error::syntax(text),
    }
}

/// DataFusion's texts carry back-traces, trailing advice for its own developers and prefixes; a user gets the sentence.
fn sentence(text: &str) -> String {
    let text = text.split("\n\nbacktrace:").next().unwrap_or(text);
    if let Some((_, rest)) = text.split_once("require unique expression names but the expression \"") {
        let (name, _) = rest.split_once("\" at position").unwrap_or((rest, ""));
        return format!(
            "two outputs are called '{name}'; give one of them another name with AS, or compute it in a subquery"
        );
    }
    if text.contains("Dot access not supported for non-string expr") {
        return "a field behind an expression by a dot is not supported; write (expression)['field']".to_string();
    }
    let text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or(text);
    let mut text = text.trim().trim_end_matches('.');
    for prefix in [
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "Cast error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "External error: ",
        "This feature is not implemented: ",
        "Parser error: ",
        "Arithmetic overflow: Overflow happened on: ",
    ] {
        text = text.trim_start_matches(prefix);
    }
    if text == "Divide by zero error" {
        return "division by zero".into();
    }
    // One line, and not the syntax trees that some messages end in.
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = words::meaning(&line).unwrap_or(line);
    match line.char_indices().nth(SENTENCE_CHARS_MAX) {
        Some((end, _)) => format!("{} ..", &line[..end]),
        None => line,
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Error {
        from_arrow(error, None)
    }
}

impl From<log_store::WriteError> for Error {
    fn from(error: log_store::WriteError) -> Self {
        match error {
            log_store::WriteError::Cancelled => Error::Cancelled,
            log_store::WriteError::Read(error) => Error::disk(of_reading(&error), error.to_string()),
            log_store::WriteError::Full { .. } => Error::disk(SqlState::DiskFull, error.to_string()),
            log_store::WriteError::TooLong { .. } => Error::disk(SqlState::ProgramLimitExceeded, error.to_string()),
            log_store::WriteError::NotEmpty { .. } => Error::disk(SqlState::DuplicateFile, error.to_string()),
            other => Error::disk(SqlState::IoError, other.to_string()),
        }
    }
}

impl From<log_store::ReadError> for Error {
    fn from(error: log_store::ReadError) -> Self {
        match error {
            log_store::ReadError::Store(error) => error.into(),
            other => Error::disk(of_reading(&other), other.to_string()),
        }
    }
}

/// The code where a file of a database cannot be read.
fn of_reading(error: &log_store::ReadError) -> SqlState {
    match error {
        log_store::ReadError::Damaged { .. } | log_store::ReadError::Missing { .. } => SqlState::DataCorrupted,
        log_store::ReadError::Version { .. } => SqlState::ObjectNotInPrerequisiteState,
        log_store::ReadError::Store(StoreError::Memory(_)) => SqlState::OutOfMemory,
        _ => SqlState::IoError,
    }
}

impl From<log_store::OpenError> for Error {
    fn from(error: log_store::OpenError) -> Self {
        match error {
            log_store::OpenError::Read(error) => error.into(),
            log_store::OpenError::Write(error) => error.into(),
            log_store::OpenError::Locked { .. } => Error::disk(SqlState::ObjectInUse, error.to_string()),
            log_store::OpenError::NotADatabase { .. } => Error::disk(SqlState::UndefinedFile, error.to_string()),
            log_store::OpenError::NotEmpty { .. } => Error::disk(SqlState::DuplicateFile, error.to_string()),
            log_store::OpenError::OutOfLog { .. } => Error::disk(SqlState::InvalidParameterValue, error.to_string()),
        }
    }
}

impl From<ExecError> for Error {
    fn from(error: ExecError) -> Error {
        match error {
            ExecError::Memory(inner) => inner.into(),
            ExecError::Cancelled => Error::Cancelled,
            ExecError::DeadlineExceeded => Error::Timeout,
            ExecError::Panicked(text) => Error::Internal(text),
            ExecError::Store(inner) => inner.into(),
            ExecError::Expression(inner) => of_expression(inner),
            ExecError::TooManyRows { .. } => Error::execution(SqlState::ProgramLimitExceeded, error.to_string()),
            other => Error::Execution(Message::of(sentence(&other.to_string()))),
        }
    }
}

/// What an expression of ours has failed with, which came through the executor.
fn of_expression(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => Error::Execution(Message::of(sentence(&other.to_string()))),
    }
}

/// The code of what the storage layer refuses.
fn of_store(error: &StoreError) -> SqlState {
    match error {
        StoreError::NullNotAllowed { .. } => SqlState::NotNullViolation,
        StoreError::TypeMismatch { .. } | StoreError::NotComparable { .. } => SqlState::DatatypeMismatch,
        StoreError::DuplicateColumn { .. } => SqlState::DuplicateColumn,
        StoreError::ValueTooLong { .. } | StoreError::TooManyRows { .. } => SqlState::ProgramLimitExceeded,
        _ => SqlState::DataException,
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Error {
        Error::Memory(error.to_string())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Memory(inner) => inner.into(),
            StoreError::Interrupted(Interruption::Panicked(text)) => Error::Internal(text),
            StoreError::Interrupted(Interruption::Cancelled) => Error::Cancelled,
            StoreError::Source(error) => match error.downcast::<log_store::ReadError>() {
                Ok(error) => (*error).into(),
                Err(error) => Error::disk(SqlState::IoError, error.to_string()),
            },
            other => Error::execution(of_store(&other), other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syntax_error_keeps_its_position() {
        let error = syntax("sql parser error: Expected: an expression, found: EOF at Line: 2, Column: 14");
        assert_eq!(error.to_string(), "syntax error at line 2, column 14: Expected: an expression, found: EOF");
    }

    #[test]
    fn own_errors_come_back_whole_from_datafusion() {
        let error: Error = Error::Cancelled.into_datafusion().context("somewhere").into();
        assert!(matches!(error, Error::Cancelled));
    }
}
