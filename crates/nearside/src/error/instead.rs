//! What to write in the place of functions that PostgreSQL or DuckDB has, and that are not there.

/// What to write in the place of functions that are not there.
const ADVICE: &[(&[&str], &str)] = &[
    (&["trim_scale"], "cast to DECIMAL(p, s) with the scale that is wanted"),
    (&["setseed"], "random() cannot be repeated; use hash functions such as md5 of a key"),
    (&["normalize", "to_ascii", "unistr"], "prepare such texts before they are loaded"),
    (&["bit_count", "get_bit", "get_byte", "set_bit", "set_byte"], "use encode(bytes, 'hex') and text functions"),
    (
        &["convert", "convert_from", "convert_to"],
        "texts are UTF-8; CAST makes bytes of a text, and encode(.., 'escape') a text of bytes",
    ),
    (&["make_timestamptz"], "cast make_timestamp(..) to TIMESTAMPTZ"),
    (&["timeofday"], "use clock_timestamp()"),
    (
        &[
            "pg_advisory_lock",
            "pg_advisory_lock_shared",
            "pg_advisory_unlock",
            "pg_advisory_unlock_shared",
            "pg_advisory_xact_lock",
            "pg_advisory_xact_lock_shared",
            "pg_try_advisory_lock",
            "pg_try_advisory_lock_shared",
            "pg_try_advisory_xact_lock",
            "pg_try_advisory_xact_lock_shared",
        ],
        "there are no locks of numbers; lock a row that stands for the number by SELECT .. FOR UPDATE",
    ),
    (&["pg_sleep_for", "pg_sleep_until"], "use pg_sleep(seconds)"),
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
            "jsonb_path_exists_tz",
            "jsonb_path_match_tz",
            "jsonb_path_query_tz",
            "jsonb_path_query_array_tz",
            "jsonb_path_query_first_tz",
        ],
        "paths know no times of day; use the function without _tz",
    ),
    (
        &["json_populate_record", "json_populate_recordset", "jsonb_populate_record", "jsonb_populate_recordset"],
        "use json_to_record(..) AS x(a INT, b TEXT), or json_to_recordset where there are many rows",
    ),
    (&["range_agg"], "there are no range types; use min and max"),
    (&["typeof"], "use pg_typeof(x)"),
    (&["len"], "use length() of texts and cardinality() of lists"),
    (&["strptime", "try_strptime"], "use to_timestamp(text, template), with templates such as 'DD/MM/YYYY'"),
    (&["product"], "use exp(sum(ln(x))) of positive numbers"),
    (&["histogram"], "count in a query with GROUP BY"),
    (&["printf"], "use format(text, ..) with %s"),
    (
        &["list_transform", "list_filter", "list_reduce"],
        "there are no functions as arguments; use ARRAY(SELECT .. FROM unnest(list))",
    ),
    (&["pg_cancel_backend", "pg_terminate_backend"], "cancel with the client, or with POST /api/cancel over HTTP"),
    (&["date_sub"], "use age(a, b), or date_diff"),
    (&["make_timestamp_ms", "epoch_ns"], "use to_timestamp(seconds), or extract(epoch FROM t)"),
];

/// What to write in the place of a function that is not there.
pub(crate) fn advice(name: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}
