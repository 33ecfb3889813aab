//! `docs/functions.md` against the functions that there are: the page is made here, and a test fails where it differs.

use std::collections::BTreeSet;
use std::fmt::Write;

use datafusion_common::config::ConfigOptions;

use crate::error::instead::advice;
use crate::functions::series;
use crate::plan::planner::Planner;
use crate::sql::composed_names;

/// A section of the chapter, and its functions.
const SECTIONS: [(&str, &[&str]); 18] = [
    ("9.2 Comparison", &["num_nonnulls", "num_nulls"]),
    (
        "9.3 Mathematical",
        &[
            "abs",
            "cbrt",
            "ceil",
            "ceiling",
            "degrees",
            "div",
            "exp",
            "factorial",
            "floor",
            "gcd",
            "lcm",
            "ln",
            "log",
            "log10",
            "min_scale",
            "mod",
            "pi",
            "power",
            "radians",
            "round",
            "scale",
            "sign",
            "sqrt",
            "trim_scale",
            "trunc",
            "width_bucket",
            "random",
            "setseed",
            "acos",
            "acosd",
            "asin",
            "asind",
            "atan",
            "atand",
            "atan2",
            "atan2d",
            "cos",
            "cosd",
            "cot",
            "cotd",
            "sin",
            "sind",
            "tan",
            "tand",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
        ],
    ),
    (
        "9.4 Strings",
        &[
            "bit_length",
            "char_length",
            "character_length",
            "lower",
            "normalize",
            "octet_length",
            "upper",
            "ascii",
            "btrim",
            "chr",
            "concat",
            "concat_ws",
            "format",
            "initcap",
            "left",
            "length",
            "lpad",
            "ltrim",
            "md5",
            "parse_ident",
            "quote_ident",
            "quote_literal",
            "quote_nullable",
            "regexp_count",
            "regexp_instr",
            "regexp_like",
            "regexp_match",
            "regexp_matches",
            "regexp_replace",
            "regexp_split_to_array",
            "regexp_split_to_table",
            "regexp_substr",
            "repeat",
            "replace",
            "reverse",
            "right",
            "rpad",
            "rtrim",
            "split_part",
            "starts_with",
            "string_to_array",
            "string_to_table",
            "strpos",
            "substr",
            "to_ascii",
            "to_hex",
            "translate",
            "unistr",
        ],
    ),
    (
        "9.5 Bytes",
        &[
            "bit_count",
            "get_bit",
            "get_byte",
            "set_bit",
            "set_byte",
            "sha224",
            "sha256",
            "sha384",
            "sha512",
            "convert",
            "convert_from",
            "convert_to",
            "encode",
            "decode",
        ],
    ),
    ("9.8 Formatting", &["to_char", "to_date", "to_number", "to_timestamp"]),
    (
        "9.9 Dates and times",
        &[
            "age",
            "clock_timestamp",
            "date_bin",
            "date_part",
            "date_trunc",
            "isfinite",
            "justify_days",
            "justify_hours",
            "justify_interval",
            "make_date",
            "make_interval",
            "make_time",
            "make_timestamp",
            "make_timestamptz",
            "now",
            "overlaps",
            "statement_timestamp",
            "timeofday",
            "transaction_timestamp",
            "pg_sleep",
        ],
    ),
    ("9.10 Enumerations", &["enum_first", "enum_last", "enum_range"]),
    ("9.11 Geometry", &["area", "center", "diagonal", "diameter", "height", "npoints", "point", "circle"]),
    ("9.12 Network addresses", &["abbrev", "broadcast", "family", "host", "masklen", "network"]),
    (
        "9.13 Text search",
        &["to_tsvector", "to_tsquery", "plainto_tsquery", "websearch_to_tsquery", "ts_rank", "ts_headline"],
    ),
    ("9.14 UUID", &["gen_random_uuid"]),
    ("9.15 XML", &["xmlelement", "xmlagg", "xpath"]),
    (
        "9.16 JSON",
        &[
            "to_json",
            "to_jsonb",
            "array_to_json",
            "row_to_json",
            "json_build_array",
            "jsonb_build_array",
            "json_build_object",
            "jsonb_build_object",
            "json_object",
            "jsonb_object",
            "json_array_elements",
            "jsonb_array_elements",
            "json_array_elements_text",
            "jsonb_array_elements_text",
            "json_array_length",
            "jsonb_array_length",
            "json_each",
            "jsonb_each",
            "json_each_text",
            "jsonb_each_text",
            "json_extract_path",
            "jsonb_extract_path",
            "json_extract_path_text",
            "jsonb_extract_path_text",
            "json_object_keys",
            "jsonb_object_keys",
            "json_populate_record",
            "jsonb_populate_record",
            "json_populate_recordset",
            "jsonb_populate_recordset",
            "json_to_record",
            "jsonb_to_record",
            "json_to_recordset",
            "jsonb_to_recordset",
            "json_strip_nulls",
            "jsonb_strip_nulls",
            "jsonb_set",
            "jsonb_set_lax",
            "jsonb_insert",
            "jsonb_pretty",
            "json_typeof",
            "jsonb_typeof",
            "jsonb_path_exists",
            "jsonb_path_match",
            "jsonb_path_query",
            "jsonb_path_query_array",
            "jsonb_path_query_first",
            "json_agg",
            "jsonb_agg",
            "json_object_agg",
            "jsonb_object_agg",
        ],
    ),
    ("9.17 Sequences", &["nextval", "setval", "currval", "lastval"]),
    (
        "9.19 Arrays",
        &[
            "array_append",
            "array_cat",
            "array_dims",
            "array_fill",
            "array_length",
            "array_lower",
            "array_ndims",
            "array_position",
            "array_positions",
            "array_prepend",
            "array_remove",
            "array_replace",
            "array_to_string",
            "array_upper",
            "cardinality",
            "trim_array",
        ],
    ),
    (
        "9.21 Aggregates",
        &[
            "array_agg",
            "avg",
            "bit_and",
            "bit_or",
            "bit_xor",
            "bool_and",
            "bool_or",
            "count",
            "every",
            "max",
            "min",
            "range_agg",
            "string_agg",
            "sum",
            "xmlagg",
            "corr",
            "covar_pop",
            "covar_samp",
            "regr_avgx",
            "regr_avgy",
            "regr_count",
            "regr_intercept",
            "regr_r2",
            "regr_slope",
            "regr_sxx",
            "regr_sxy",
            "regr_syy",
            "stddev",
            "stddev_pop",
            "stddev_samp",
            "variance",
            "var_pop",
            "var_samp",
            "mode",
            "percentile_cont",
            "percentile_disc",
        ],
    ),
    (
        "9.22 Windows",
        &[
            "row_number",
            "rank",
            "dense_rank",
            "percent_rank",
            "cume_dist",
            "ntile",
            "lag",
            "lead",
            "first_value",
            "last_value",
            "nth_value",
        ],
    ),
    (
        "9.26, 9.27 System information and administration",
        &[
            "current_catalog",
            "current_database",
            "current_role",
            "current_schema",
            "current_schemas",
            "current_user",
            "session_user",
            "user",
            "version",
            "pg_advisory_unlock_all",
            "pg_backend_pid",
            "pg_is_in_recovery",
            "pg_typeof",
            "current_setting",
            "set_config",
            "format_type",
            "obj_description",
            "col_description",
            "shobj_description",
            "has_any_column_privilege",
            "has_column_privilege",
            "has_database_privilege",
            "has_foreign_data_wrapper_privilege",
            "has_function_privilege",
            "has_language_privilege",
            "has_schema_privilege",
            "has_sequence_privilege",
            "has_server_privilege",
            "has_table_privilege",
            "has_tablespace_privilege",
            "has_type_privilege",
            "pg_has_role",
            "row_security_active",
            "pg_get_constraintdef",
            "pg_get_expr",
            "pg_get_function_arguments",
            "pg_get_function_identity_arguments",
            "pg_get_function_result",
            "pg_get_functiondef",
            "pg_get_indexdef",
            "pg_get_partkeydef",
            "pg_get_ruledef",
            "pg_get_serial_sequence",
            "pg_get_statisticsobjdef_columns",
            "pg_get_triggerdef",
            "pg_get_userbyid",
            "pg_get_viewdef",
            "pg_index_column_has_property",
            "pg_collation_for",
            "pg_collation_is_visible",
            "pg_conversion_is_visible",
            "pg_function_is_visible",
            "pg_opclass_is_visible",
            "pg_operator_is_visible",
            "pg_opfamily_is_visible",
            "pg_statistics_obj_is_visible",
            "pg_table_is_visible",
            "pg_ts_config_is_visible",
            "pg_type_is_visible",
            "pg_is_other_temp_schema",
            "pg_my_temp_schema",
            "pg_relation_is_publishable",
            "pg_tablespace_location",
            "to_regclass",
            "to_regnamespace",
            "to_regrole",
            "to_regtype",
            "pg_char_to_encoding",
            "pg_encoding_to_char",
            "pg_client_encoding",
            "getdatabaseencoding",
            "pg_database_size",
            "pg_indexes_size",
            "pg_relation_size",
            "pg_size_pretty",
            "pg_table_size",
            "pg_total_relation_size",
        ],
    ),
];

/// Functions that SQL has a syntax of its own for, and those that are written as others (`sql::json`).
const FORMS: [&str; 30] = [
    "extract",
    "overlay",
    "position",
    "substring",
    "trim",
    "current_date",
    "current_timestamp",
    "current_time",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "json_array_elements",
    "jsonb_array_elements",
    "json_array_elements_text",
    "jsonb_array_elements_text",
    "json_each",
    "jsonb_each",
    "json_each_text",
    "jsonb_each_text",
    "json_object_keys",
    "jsonb_object_keys",
    "jsonb_path_query",
    "json_to_record",
    "jsonb_to_record",
    "json_to_recordset",
    "jsonb_to_recordset",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
];

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    const LINE: usize = 120;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.len() + 1 + word.len() > LINE {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn page() -> String {
    let planner = Planner::new(ConfigOptions::new());
    let is_word = |name: &&String| name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with('_');
    let of = |names: &mut dyn Iterator<Item = &String>| names.filter(is_word).cloned().collect::<BTreeSet<String>>();
    let scalars = of(&mut planner.scalar_functions().keys());
    let aggregates = of(&mut planner.aggregate_functions().keys());
    let windows = of(&mut planner.window_functions().keys());
    let is_there = |name: &str| {
        scalars.contains(name) || aggregates.contains(name) || windows.contains(name) || FORMS.contains(&name)
    };
    let mut page = String::from(
        "# Functions\n\nThe functions of [PostgreSQL's chapter 9](https://www.postgresql.org/docs/15/functions.html), \
         section by\nsection, and then all others. A test makes this page of the functions that there are, and fails \
         where it differs.\nWhat is there means what it means in PostgreSQL, but for what [SQL](sql.md) says of \
         types.\n",
    );
    for (section, names) in SECTIONS {
        let (there, missing): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_there(name));
        let _ = write!(page, "\n## {section}\n");
        if !there.is_empty() {
            let there: Vec<String> = there.iter().map(|name| format!("`{name}`")).collect();
            let _ = write!(page, "\n{}\n", wrapped(&there.join(", ")));
        }
        if !missing.is_empty() {
            let _ = write!(page, "\n| not there | instead |\n|---|---|\n");
        }
        let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
        for name in missing {
            let advice = advice(name).unwrap_or_else(|| panic!("{name} is not there, and nothing is said instead"));
            match rows.iter_mut().find(|(said, _)| *said == advice) {
                Some((_, names)) => names.push(format!("`{name}`")),
                None => rows.push((advice, vec![format!("`{name}`")])),
            }
        }
        for (advice, names) in rows {
            let _ = writeln!(page, "| {} | {advice} |", names.join(", "));
        }
    }
    let known: BTreeSet<&str> = SECTIONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let others = |names: &BTreeSet<String>| {
        names.iter().filter(|name| !known.contains(name.as_str())).cloned().collect::<BTreeSet<String>>()
    };
    let tables: BTreeSet<String> = series::FUNCTIONS.into_iter().map(str::to_string).collect();
    let composed: BTreeSet<String> = composed_names().map(str::to_string).collect();
    for (title, names) in [
        ("Other functions of a row", others(&scalars)),
        ("Other aggregates", others(&aggregates)),
        ("Other window functions", others(&windows)),
        ("Functions in FROM", tables),
        ("DuckDB's, made of others", others(&composed)),
    ] {
        if !names.is_empty() {
            let _ = write!(page, "\n## {title}\n\n{}\n", wrapped(&list(&names)));
        }
    }
    page
}

/// `NEARSIDE_WRITE_DOCS=1` writes the page.
#[test]
fn the_page_of_functions_says_what_there_is() {
    // Tests run in the folder of their crate.
    let path = "../../docs/functions.md";
    let page = page();
    if std::env::var_os("NEARSIDE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "{path} differs from the functions that there are; write it with NEARSIDE_WRITE_DOCS=1");
}

#[test]
fn what_is_there_has_no_advice() {
    let planner = Planner::new(ConfigOptions::new());
    for name in planner.scalar_functions().keys().chain(planner.aggregate_functions().keys()) {
        assert_eq!(advice(name), None, "{name}");
    }
}
