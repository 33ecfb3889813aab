//! What the server is and can, and which types there are, as clients of ODBC and JDBC ask for it.

use std::sync::OnceLock;

use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
    XdbcDatetimeSubcode,
};

use crate::fault::{Fault, codes};

/// The version of the library whose messages these are.
const ARROW_VERSION: &str = nearside::arrow::ARROW_VERSION;

fn unmade(error: impl std::fmt::Display) -> Fault {
    Fault::new(codes::INTERNAL_ERROR, error.to_string())
}

/// What the server is and can.
///
/// # Errors
/// None.
pub fn sql_info() -> Result<&'static SqlInfoData, Fault> {
    static MADE: OnceLock<Result<SqlInfoData, String>> = OnceLock::new();
    let make = || {
        let mut all = SqlInfoDataBuilder::new();
        all.append(SqlInfo::FlightSqlServerName, "Nearside");
        all.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
        all.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
        all.append(SqlInfo::FlightSqlServerReadOnly, false);
        all.append(SqlInfo::FlightSqlServerSql, true);
        all.append(SqlInfo::FlightSqlServerSubstrait, false);
        all.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
        all.append(SqlInfo::FlightSqlServerCancel, true);
        all.append(SqlInfo::FlightSqlServerBulkIngestion, true);
        all.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
        all.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
        all.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
        all.append(SqlInfo::SqlDdlCatalog, false);
        all.append(SqlInfo::SqlDdlSchema, true);
        all.append(SqlInfo::SqlDdlTable, true);
        let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
        all.append(SqlInfo::SqlIdentifierCase, lower);
        all.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
        all.append(
            SqlInfo::SqlQuotedIdentifierCase,
            SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
        );
        all.append(SqlInfo::SqlAllTablesAreSelectable, true);
        all.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
        all.append(SqlInfo::SqlSearchStringEscape, "\\");
        all.append(SqlInfo::SqlSupportsColumnAliasing, true);
        all.append(SqlInfo::SqlNullPlusNullIsNull, true);
        all.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
        all.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
        all.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
        all.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
        all.append(SqlInfo::SqlSupportsNonNullableColumns, true);
        all.append(SqlInfo::SqlSchemaTerm, "schema");
        all.append(SqlInfo::SqlCatalogTerm, "database");
        all.append(SqlInfo::SqlCatalogAtStart, true);
        all.append(SqlInfo::SqlSelectForUpdateSupported, true);
        all.append(SqlInfo::SqlStoredProceduresSupported, false);
        all.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
        all.append(SqlInfo::SqlTransactionsSupported, true);
        all.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
        all.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
        all.append(SqlInfo::SqlBatchUpdatesSupported, true);
        all.append(SqlInfo::SqlSavepointsSupported, true);
        all.append(SqlInfo::SqlNamedParametersSupported, false);
        all.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
        all.build().map_err(|error| error.to_string())
    };
    MADE.get_or_init(make).as_ref().map_err(unmade)
}

/// A type: its name, what it is to clients, how large a value is at most, what stands before and after one in SQL.
type Type = (&'static str, XdbcDataType, Option<XdbcDatetimeSubcode>, Option<i32>, &'static str, &'static str);

/// The types that there are, those of a kind together.
const TYPES: [Type; 16] = {
    use {XdbcDataType as T, XdbcDatetimeSubcode as S};
    [
        ("boolean", T::XdbcBit, None, Some(1), "", ""),
        ("bigint", T::XdbcBigint, None, Some(19), "", ""),
        ("bytea", T::XdbcLongvarbinary, None, None, "'\\x", "'"),
        ("text", T::XdbcLongvarchar, None, None, "'", "'"),
        ("character", T::XdbcChar, None, None, "'", "'"),
        ("numeric", T::XdbcNumeric, None, Some(38), "", ""),
        ("integer", T::XdbcInteger, None, Some(10), "", ""),
        ("smallint", T::XdbcSmallint, None, Some(5), "", ""),
        ("real", T::XdbcReal, None, Some(24), "", ""),
        ("double precision", T::XdbcDouble, None, Some(53), "", ""),
        ("interval", T::XdbcInterval, None, None, "INTERVAL '", "'"),
        ("character varying", T::XdbcVarchar, None, None, "'", "'"),
        ("date", T::XdbcDate, Some(S::XdbcSubcodeYear), Some(10), "DATE '", "'"),
        ("time", T::XdbcTime, Some(S::XdbcSubcodeTime), Some(15), "TIME '", "'"),
        ("timestamp", T::XdbcTimestamp, Some(S::XdbcSubcodeTimestamp), Some(29), "TIMESTAMP '", "'"),
        (
            "timestamp with time zone",
            T::XdbcTimestamp,
            Some(S::XdbcSubcodeTimestampWithTimezone),
            Some(35),
            "TIMESTAMPTZ '",
            "'",
        ),
    ]
};

/// The types that there are.
///
/// # Errors
/// None.
pub fn types() -> Result<&'static XdbcTypeInfoData, Fault> {
    static MADE: OnceLock<Result<XdbcTypeInfoData, String>> = OnceLock::new();
    let make = || {
        let mut all = XdbcTypeInfoDataBuilder::new();
        for (name, data_type, datetime_subcode, column_size, before, after) in TYPES {
            let is_text = after == "'" && datetime_subcode.is_none() && data_type != XdbcDataType::XdbcLongvarbinary;
            let is_number = before.is_empty() && data_type != XdbcDataType::XdbcBit;
            let is_binary = matches!(data_type, XdbcDataType::XdbcReal | XdbcDataType::XdbcDouble);
            let word = |word: &str| (!word.is_empty()).then(|| word.to_string());
            let parameters = match data_type {
                XdbcDataType::XdbcNumeric => Some(vec!["precision".to_string(), "scale".to_string()]),
                XdbcDataType::XdbcChar | XdbcDataType::XdbcVarchar => Some(vec!["length".to_string()]),
                _ => None,
            };
            all.append(XdbcTypeInfo {
                type_name: name.into(),
                data_type,
                column_size,
                literal_prefix: word(before),
                literal_suffix: word(after),
                create_params: parameters,
                nullable: Nullable::NullabilityNullable,
                case_sensitive: is_text && data_type != XdbcDataType::XdbcInterval,
                searchable: if is_text { Searchable::Full } else { Searchable::Basic },
                unsigned_attribute: is_number.then_some(false),
                fixed_prec_scale: false,
                auto_increment: is_number.then_some(false),
                local_type_name: Some(name.into()),
                minimum_scale: (data_type == XdbcDataType::XdbcNumeric).then_some(0),
                maximum_scale: (data_type == XdbcDataType::XdbcNumeric).then_some(38),
                sql_data_type: if datetime_subcode.is_some() { XdbcDataType::XdbcDatetime } else { data_type },
                datetime_subcode,
                num_prec_radix: is_number.then_some(if is_binary { 2 } else { 10 }),
                interval_precision: None,
            });
        }
        all.build().map_err(|error| error.to_string())
    };
    MADE.get_or_init(make).as_ref().map_err(unmade)
}
