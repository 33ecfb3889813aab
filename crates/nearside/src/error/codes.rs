//! [`SqlState`]: PostgreSQL's codes of errors, and which of them what other libraries say is.
//!
//! A code is chosen where the error is made. What the planner's library, its kernels and the executor say has no code:
//! it gets one by its sentence, here and nowhere else. A sentence that is not known has the code of its kind of error.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};

/// Names each code once: the variant, what it says, and PostgreSQL's name for it.
macro_rules! states {
    ($($variant:ident = $code:literal $name:literal: $what:literal;)*) => {
        /// What kind of error it is, as PostgreSQL tells its clients: five characters, of which the first two are the
        /// class. `docs/errors.md` has when each is given.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum SqlState {
            $(#[doc = concat!("`", $code, "`: ", $what)] $variant,)*
        }

        impl SqlState {
            /// All there are, in the order of their codes.
            pub const ALL: &'static [SqlState] = &[$(SqlState::$variant,)*];

            /// The five characters.
            pub fn as_str(self) -> &'static str {
                match self { $(SqlState::$variant => $code,)* }
            }

            /// PostgreSQL's name, `unique_violation`.
            pub fn name(self) -> &'static str {
                match self { $(SqlState::$variant => $name,)* }
            }

            /// When it is given, in a few words.
            pub fn meaning(self) -> &'static str {
                match self { $(SqlState::$variant => $what,)* }
            }
        }
    };
}

states! {
    FeatureNotSupported = "0A000" "feature_not_supported": "Nearside does not do this";
    InvalidGrantOperation = "0LP01" "invalid_grant_operation":
        "a role would be a member of itself; a privilege that such a thing has not";
    CardinalityViolation = "21000" "cardinality_violation":
        "a scalar subquery has several rows, or ON CONFLICT DO UPDATE meets a row twice";
    DataException = "22000" "data_exception": "a value made the statement fail, and no other code of 22 says how";
    StringDataRightTruncation = "22001" "string_data_right_truncation": "a text is longer than its column allows";
    NumericValueOutOfRange = "22003" "numeric_value_out_of_range": "a number does not fit its type";
    NullValueNotAllowed = "22004" "null_value_not_allowed": "an argument is NULL where it has to be a value";
    InvalidDatetimeFormat = "22007" "invalid_datetime_format": "a text is not a date, time, timestamp or interval";
    DatetimeFieldOverflow = "22008" "datetime_field_overflow": "a date, time or interval is out of range";
    SequenceGeneratorLimitExceeded = "2200H" "sequence_generator_limit_exceeded":
        "a sequence has no further value";
    DivisionByZero = "22012" "division_by_zero": "a division by zero";
    InvalidPrecedingOrFollowingSize = "22013" "invalid_preceding_or_following_size":
        "the offset of a window's frame is negative or NULL";
    InvalidArgumentForNtile = "22014" "invalid_argument_for_ntile_function": "ntile of less than 1";
    InvalidArgumentForNthValue = "22016" "invalid_argument_for_nth_value_function": "nth_value of less than 1";
    InvalidRegularExpression = "2201B" "invalid_regular_expression": "a pattern that is no regular expression";
    InvalidArgumentForLogarithm = "2201E" "invalid_argument_for_logarithm": "the logarithm of zero or less";
    InvalidArgumentForPower = "2201F" "invalid_argument_for_power_function":
        "a power or a root that is no real number";
    InvalidArgumentForWidthBucket = "2201G" "invalid_argument_for_width_bucket_function":
        "bounds or a number of buckets that make none";
    InvalidRowCountInLimit = "2201W" "invalid_row_count_in_limit_clause": "a negative LIMIT";
    InvalidRowCountInOffset = "2201X" "invalid_row_count_in_result_offset_clause": "a negative OFFSET";
    InvalidParameterValue = "22023" "invalid_parameter_value":
        "a setting, an option or an argument has a value that it does not take";
    InvalidEscapeSequence = "22025" "invalid_escape_sequence":
        "ESCAPE is no character, or a pattern ends with it";
    ArraySubscriptError = "2202E" "array_subscript_error": "a number of elements that a list does not have";
    InvalidSqlJsonSubscript = "22033" "invalid_sql_json_subscript":
        "a subscript in a path of JSON that the array does not have";
    NonNumericSqlJsonItem = "22036" "non_numeric_sql_json_item":
        "a method of numbers in a path of JSON, of another value";
    SingletonSqlJsonItemRequired = "22038" "singleton_sql_json_item_required":
        "a path of JSON gives none or several values where it has to give one";
    SqlJsonArrayNotFound = "22039" "sql_json_array_not_found": "a step of arrays in a path of JSON, of another value";
    SqlJsonMemberNotFound = "2203A" "sql_json_member_not_found": "a key in a path of JSON that an object does not have";
    SqlJsonNumberNotFound = "2203B" "sql_json_number_not_found": "a sign in a path of JSON, of what is no number";
    SqlJsonObjectNotFound = "2203C" "sql_json_object_not_found":
        "a step of objects in a path of JSON, of another value";
    InvalidTextRepresentation = "22P02" "invalid_text_representation": "a text is not a value of a type";
    BadCopyFileFormat = "22P04" "bad_copy_file_format": "a file that is read has records of another shape";
    UntranslatableCharacter = "22P05" "untranslatable_character": "a character that a text cannot have";
    NotNullViolation = "23502" "not_null_violation": "a NULL in a column that takes none";
    ForeignKeyViolation = "23503" "foreign_key_violation":
        "a row refers to one that is not there, or one that is referred to would go";
    UniqueViolation = "23505" "unique_violation": "two rows with one key";
    CheckViolation = "23514" "check_violation": "a row for which a CHECK is false";
    InvalidTransactionState = "25000" "invalid_transaction_state": "the transaction is over, or has ended meanwhile";
    ActiveSqlTransaction = "25001" "active_sql_transaction":
        "a statement that does not go together with a transaction, or comes too late in it";
    ReadOnlySqlTransaction = "25006" "read_only_sql_transaction": "a transaction that is READ ONLY writes";
    NoActiveSqlTransaction = "25P01" "no_active_sql_transaction": "a statement for transactions, outside of one";
    InFailedSqlTransaction = "25P02" "in_failed_sql_transaction": "a statement of the transaction has failed before";
    IdleInTransactionSessionTimeout = "25P03" "idle_in_transaction_session_timeout":
        "the transaction was rolled back, since its session did nothing for too long";
    InvalidSqlStatementName = "26000" "invalid_sql_statement_name": "there is no prepared statement of that name";
    DependentObjectsStillExist = "2BP01" "dependent_objects_still_exist": "others depend on what is to be dropped";
    InvalidCursorName = "34000" "invalid_cursor_name": "there is no cursor of that name";
    InvalidSavepointSpecification = "3B001" "invalid_savepoint_specification": "there is no savepoint of that name";
    InvalidCatalogName = "3D000" "invalid_catalog_name": "there is no database of that name";
    InvalidSchemaName = "3F000" "invalid_schema_name": "there is no schema of that name";
    SerializationFailure = "40001" "serialization_failure": "others were faster: run the transaction again";
    DeadlockDetected = "40P01" "deadlock_detected": "transactions wait for each other: run this one again";
    SyntaxOrAccessError = "42000" "syntax_error_or_access_rule_violation":
        "a statement cannot be planned, and no other code of 42 says why";
    InsufficientPrivilege = "42501" "insufficient_privilege": "the role may not do that";
    SyntaxError = "42601" "syntax_error": "the text is not SQL";
    InvalidName = "42602" "invalid_name": "a name that cannot be one";
    InvalidColumnDefinition = "42611" "invalid_column_definition": "a column that cannot be defined so";
    DuplicateColumn = "42701" "duplicate_column": "a column stands twice, or is there already";
    AmbiguousColumn = "42702" "ambiguous_column": "several columns have that name";
    UndefinedColumn = "42703" "undefined_column": "there is no column of that name";
    UndefinedObject = "42704" "undefined_object": "there is no index, type, setting or window of that name";
    DuplicateObject = "42710" "duplicate_object": "the name is taken";
    DuplicateAlias = "42712" "duplicate_alias": "two tables of a query have one name";
    DuplicateFunction = "42723" "duplicate_function": "there is a function of that name already";
    Grouping = "42803" "grouping_error": "a column outside of GROUP BY, or an aggregate where none may stand";
    DatatypeMismatch = "42804" "datatype_mismatch": "a value of another type than is expected";
    WrongObjectType = "42809" "wrong_object_type": "a view where a table is meant, a function that is no aggregate";
    InvalidForeignKey = "42830" "invalid_foreign_key": "a foreign key to columns that are no key";
    CannotCoerce = "42846" "cannot_coerce": "there is no cast between the two types";
    UndefinedFunction = "42883" "undefined_function":
        "there is no function or operator of that name for these arguments";
    GeneratedAlways = "428C9" "generated_always": "a value for a column whose values are always generated";
    ReservedName = "42939" "reserved_name": "a name that belongs to the system";
    UndefinedTable = "42P01" "undefined_table": "there is no table or view of that name";
    UndefinedParameter = "42P02" "undefined_parameter": "there is no parameter of that number";
    DuplicateCursor = "42P03" "duplicate_cursor": "there is a cursor of that name already";
    DuplicatePreparedStatement = "42P05" "duplicate_prepared_statement":
        "there is a prepared statement of that name already";
    DuplicateSchema = "42P06" "duplicate_schema": "there is a schema of that name already";
    DuplicateTable = "42P07" "duplicate_table": "there is a table, view or index of that name already";
    AmbiguousParameter = "42P08" "ambiguous_parameter": "a parameter is of two types";
    AmbiguousAlias = "42P09" "ambiguous_alias": "several tables of a query have that name";
    InvalidColumnReference = "42P10" "invalid_column_reference":
        "a column that ORDER BY, ON CONFLICT or a join cannot refer to";
    InvalidFunctionDefinition = "42P13" "invalid_function_definition": "a function that cannot be made so";
    InvalidTableDefinition = "42P16" "invalid_table_definition": "a table that cannot be made so";
    InvalidObjectDefinition = "42P17" "invalid_object_definition": "a view or index that cannot be made so";
    IndeterminateDatatype = "42P18" "indeterminate_datatype": "the type of a parameter is not known";
    InvalidRecursion = "42P19" "invalid_recursion": "a recursive query that is not of the form that there is";
    WindowingError = "42P20" "windowing_error": "a window that cannot be, or a window function where none may stand";
    WithCheckOptionViolation = "44000" "with_check_option_violation":
        "a row is written through a view that would not show it";
    DiskFull = "53100" "disk_full": "no room on the disk: nothing was done, and writing goes on when there is";
    OutOfMemory = "53200" "out_of_memory": "a memory budget or a node has no room";
    TooManyConnections = "53300" "too_many_connections": "the server, or the role, has as many connections as it may";
    ConfigurationLimitExceeded = "53400" "configuration_limit_exceeded": "more than a limit of the system allows";
    ProgramLimitExceeded = "54000" "program_limit_exceeded": "a value, a row count or a record that is too large";
    StatementTooComplex = "54001" "statement_too_complex": "a statement that nests too deeply, or has too many parts";
    ObjectNotInPrerequisiteState = "55000" "object_not_in_prerequisite_state":
        "what is asked for cannot be done to this database or table";
    ObjectInUse = "55006" "object_in_use": "another process, or a transaction, has it";
    LockNotAvailable = "55P03" "lock_not_available": "NOWAIT, and another transaction has the row or table";
    QueryCanceled = "57014" "query_canceled": "the statement was cancelled, or ran into its time-out";
    IoError = "58030" "io_error": "a file could not be read or written";
    UndefinedFile = "58P01" "undefined_file": "there is no such file";
    DuplicateFile = "58P02" "duplicate_file": "there is such a file or folder already";
    InternalError = "XX000" "internal_error": "a bug in Nearside";
    DataCorrupted = "XX001" "data_corrupted": "a file of the database is not what was written";
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A sentence, and the code of what it says where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    text: String,
    code: Option<SqlState>,
    shows: Option<Box<ShownValues>>,
    about: Option<Box<About>>,
}

/// What a sentence is about, by its names, as clients are told beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column, if it is one.
    pub column: Option<String>,
    /// The constraint, or the unique index, that does not hold.
    pub constraint: Option<String>,
}

/// Values of a table that a sentence shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownValues {
    /// The table's schema and name.
    pub table: (String, String),
    /// The columns that they are of.
    pub columns: Vec<String>,
    /// What is said to who may not read them.
    pub without: String,
}

impl Message {
    /// A sentence of a kind.
    pub fn new(code: SqlState, text: impl Into<String>) -> Message {
        Message { text: text.into(), code: Some(code), shows: None, about: None }
    }

    /// A sentence of another library's: its code is told by its words.
    pub(crate) fn of(text: impl Into<String>) -> Message {
        let text = text.into();
        Message { code: of_sentence(&text), text, shows: None, about: None }
    }

    /// Which values of which table it shows, if it does.
    pub(crate) fn shows(&self) -> Option<&ShownValues> {
        self.shows.as_deref()
    }

    /// What kind of error it tells, where that is known.
    pub fn code(&self) -> Option<SqlState> {
        self.code
    }
}

impl Message {
    /// The same, which shows values.
    pub(crate) fn showing(self, shows: ShownValues) -> Message {
        Message { shows: Some(Box::new(shows)), ..self }
    }

    /// What it is about, where that has names.
    pub(crate) fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    /// The same about this.
    pub(crate) fn naming(self, about: About) -> Message {
        Message { about: Some(Box::new(about)), ..self }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message { text, code: None, shows: None, about: None }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::from(text.to_string())
    }
}

impl std::ops::Deref for Message {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What sentences begin with.
const BEGINNINGS: &[(&str, SqlState)] = &[
    ("division by zero", SqlState::DivisionByZero),
    ("arithmetic overflow", SqlState::NumericValueOutOfRange),
    ("value out of range", SqlState::NumericValueOutOfRange),
    ("there is no function ", SqlState::UndefinedFunction),
    ("function '", SqlState::UndefinedFunction),
    ("there is no cast of ", SqlState::CannotCoerce),
    ("a condition is a BOOLEAN", SqlState::DatatypeMismatch),
    ("NOT takes a BOOLEAN", SqlState::DatatypeMismatch),
    ("LIMIT takes a number", SqlState::DatatypeMismatch),
    ("unnest takes a list", SqlState::DatatypeMismatch),
    ("a query with one column is expected", SqlState::SyntaxError),
    ("row ", SqlState::SyntaxError),
    ("two outputs are called ", SqlState::DuplicateColumn),
    ("out of memory", SqlState::OutOfMemory),
    ("ntile(", SqlState::InvalidArgumentForNtile),
    ("nth_value", SqlState::InvalidArgumentForNthValue),
    ("table alias '", SqlState::DuplicateAlias),
    ("UNION ", SqlState::SyntaxError),
    ("INTERSECT ", SqlState::SyntaxError),
    ("EXCEPT ", SqlState::SyntaxError),
    ("Aggregate functions are not allowed", SqlState::Grouping),
    ("Aggregate function calls cannot be nested", SqlState::Grouping),
    ("Cannot find column with position ", SqlState::InvalidColumnReference),
    ("Invalid window frame: frame offsets", SqlState::InvalidPrecedingOrFollowingSize),
    ("Invalid window frame", SqlState::WindowingError),
    ("Cannot cast value ", SqlState::InvalidTextRepresentation),
    ("Invalid input syntax for type interval", SqlState::InvalidDatetimeFormat),
    ("cannot take square root of a negative", SqlState::InvalidArgumentForPower),
    ("Date part '", SqlState::InvalidParameterValue),
    ("Unsupported date_trunc granularity", SqlState::InvalidParameterValue),
    ("LIMIT must be >= 0", SqlState::InvalidRowCountInLimit),
    ("OFFSET must be >=0", SqlState::InvalidRowCountInOffset),
    ("step can't be 0 ", SqlState::InvalidParameterValue),
];

/// What sentences hold: the first that fits counts.
const PARTS: &[(&str, SqlState)] = &[
    (" overflow: ", SqlState::NumericValueOutOfRange),
    (" overflow in ", SqlState::NumericValueOutOfRange),
    (" underflow: ", SqlState::NumericValueOutOfRange),
    ("must stand in GROUP BY", SqlState::Grouping),
    (" does not fit a DECIMAL", SqlState::NumericValueOutOfRange),
    (" does not fit ", SqlState::NumericValueOutOfRange),
    (" does not take arguments of these types", SqlState::UndefinedFunction),
    (" arguments, not ", SqlState::UndefinedFunction),
    ("; cast one side", SqlState::UndefinedFunction),
    ("is not a variable which can be viewed", SqlState::UndefinedObject),
    (" is out of range: TIMESTAMP has ", SqlState::DatetimeFieldOverflow),
    (" is out of range", SqlState::NumericValueOutOfRange),
    ("there is no such column in the SELECT list", SqlState::InvalidColumnReference),
    (" is not between -", SqlState::NumericValueOutOfRange),
];

/// The code where a text is not a value of a type.
pub(crate) fn unreadable(text: &str, to: &DataType) -> SqlState {
    let text = text.trim();
    match to {
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Interval(_) => {
            // Numbers where numbers stand in such texts: one of them is out of its range.
            let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
            match parts.len() >= 3 && parts.iter().all(|part| !part.is_empty()) {
                true => SqlState::DatetimeFieldOverflow,
                false => SqlState::InvalidDatetimeFormat,
            }
        }
        _ if to.is_integer() => {
            let digits = text.trim_start_matches(['-', '+']);
            match !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
                true => SqlState::NumericValueOutOfRange,
                false => SqlState::InvalidTextRepresentation,
            }
        }
        _ if to.is_numeric() => match text.parse::<f64>() {
            Ok(_) => SqlState::NumericValueOutOfRange,
            Err(_) => SqlState::InvalidTextRepresentation,
        },
        _ => SqlState::InvalidTextRepresentation,
    }
}

/// The code of a sentence of another library's, where it is known.
fn of_sentence(text: &str) -> Option<SqlState> {
    if let Some((value, rest)) = text.split_once(" cannot be read as ") {
        let word = rest.split([';', ':']).next().unwrap_or(rest).trim();
        let to = word.parse::<DataType>().ok();
        let to = to.or_else(|| word.starts_with("TIMESTAMP").then_some(DataType::Timestamp(TimeUnit::Second, None)));
        return Some(unreadable(value.trim_matches('\''), &to.unwrap_or(DataType::Utf8)));
    }
    let beginning = BEGINNINGS.iter().find(|(beginning, _)| text.starts_with(beginning));
    let part = || PARTS.iter().find(|(part, _)| text.contains(part));
    beginning.or_else(part).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_five_characters_each_once_in_order() {
        let codes: Vec<&str> = SqlState::ALL.iter().map(|state| state.as_str()).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        for state in SqlState::ALL {
            let is_code = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit();
            assert!(state.as_str().len() == 5 && state.as_str().bytes().all(is_code), "{state}");
            assert!(state.name().bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{state}");
        }
    }
}
