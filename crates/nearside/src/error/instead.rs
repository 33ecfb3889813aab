//! What to write in the place of functions that PostgreSQL or DuckDB has, and that are not there.

/// What to write in the place of functions that are not there.
const ADVICE: [(&[&str], &str); 25] = [
    (&["trim_scale"], "cast to DECIMAL(p, s) with the scale that is wanted"),
    (&["setseed"], "random() cannot be repeated; use hash functions such as md5 of a key"),
    (&["normalize", "to_ascii", "unistr", "parse_ident"], "prepare such texts before they are loaded"),
    (&["regexp_matches"], "use regexp_match for the first match, or regexp_count"),
    (&["regexp_substr"], "use (regexp_match(text, pattern))[1]"),
    (&["regexp_split_to_array"], "use string_to_array, with regexp_replace(text, pattern, ',', 'g') before it"),
    (&["regexp_split_to_table"], "use unnest(string_to_array(..)), with regexp_replace(text, pattern, ',', 'g') in it"),
    (&["string_to_table"], "use unnest(string_to_array(text, delimiter))"),
    (&["bit_count", "get_bit", "get_byte", "set_bit", "set_byte"], "use encode(bytes, 'hex') and text functions"),
    (
        &["convert", "convert_from", "convert_to"],
        "texts are UTF-8; CAST makes bytes of a text, and encode(.., 'escape') a text of bytes",
    ),
    (&["make_timestamptz"], "cast make_timestamp(..) to TIMESTAMPTZ"),
    (&["clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday"], "use now()"),
    (&["pg_sleep"], "a query does not wait"),
    (&["enum_first", "enum_last", "enum_range"], "there are no enumerations; use a table of values"),
    (
        &["area", "center", "diagonal", "diameter", "height", "npoints", "point", "circle"],
        "there are no geometric types; keep coordinates in columns",
    ),
    (
        &["abbrev", "broadcast", "family", "host", "masklen", "network"],
        "there are no types of network addresses; keep them as texts",
    ),
    (
        &["to_tsvector", "to_tsquery", "plainto_tsquery", "websearch_to_tsquery", "ts_rank", "ts_headline"],
        "there is no text search; use LIKE, ILIKE or ~",
    ),
    (&["xmlelement", "xmlagg", "xpath"], "there is no XML; use string_agg and concat"),
    (
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
        ],
        "there is no type JSON; COPY .. TO 'file.json' writes rows as JSON",
    ),
    (
        &[
            "json_array_elements",
            "jsonb_array_elements",
            "json_array_elements_text",
            "json_array_length",
            "jsonb_array_length",
            "json_each",
            "jsonb_each",
            "json_each_text",
            "json_extract_path",
            "json_extract_path_text",
            "json_object_keys",
            "jsonb_object_keys",
        ],
        "there is no type JSON; read files of JSON into columns, where objects are STRUCT and arrays lists",
    ),
    (
        &["jsonb_set", "jsonb_insert", "jsonb_pretty", "json_typeof", "jsonb_typeof", "jsonb_path_query"],
        "there is no type JSON; keep what is asked for in columns",
    ),
    (&["json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"], "there is no type JSON; use array_agg"),
    (&["range_agg"], "there are no range types; use min and max"),
    (&["arg_min", "argmin", "min_by"], "use first_value(x ORDER BY y) as an aggregate"),
    (&["arg_max", "argmax", "max_by"], "use first_value(x ORDER BY y DESC) as an aggregate"),
];

/// What to write in the place of a function that is not there.
pub(crate) fn advice(name: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}
