//! `pg_type`, `format_type`, and types by their names.

use super::layout::{Row, Value};
use super::numbers::{INDEX_METHOD, USER};

/// A type of PostgreSQL's that there is here, with that of its arrays.
pub(super) struct Known {
    pub oid: u32,
    pub name: &'static str,
    /// As SQL writes it.
    pub sql: &'static str,
    /// Bytes of a value; -1 where they differ.
    pub length: i64,
    pub by_value: bool,
    pub category: &'static str,
    pub is_preferred: bool,
    /// The number of its arrays; 0 where it has none.
    pub array: u32,
    pub align: &'static str,
    pub storage: &'static str,
    /// `b`, or `p` for a pseudo-type.
    pub kind: &'static str,
    /// The number of its elements, for what is told as an array by itself.
    pub element: u32,
    /// Its collation.
    pub collation: u32,
    /// What its functions begin with.
    pub functions: &'static str,
}

/// PostgreSQL's numbers, of the types that there are here or that its tables have.
#[rustfmt::skip]
pub(super) const KNOWN: [Known; 36] = [
    known(16, "bool", "boolean", (1, true), ("B", true), 1000, ("c", "p")),
    known(17, "bytea", "bytea", (-1, false), ("U", false), 1001, ("i", "x")),
    known(18, "char", "\"char\"", (1, true), ("Z", false), 1002, ("c", "p")),
    Known { element: 18, collation: 950, ..known(19, "name", "name", (64, false), ("S", false), 1003, ("c", "p")) },
    known(20, "int8", "bigint", (8, true), ("N", false), 1016, ("d", "p")),
    known(21, "int2", "smallint", (2, true), ("N", false), 1005, ("s", "p")),
    Known { element: 21, ..known(22, "int2vector", "int2vector", (-1, false), ("A", false), 1006, ("i", "p")) },
    known(23, "int4", "integer", (4, true), ("N", false), 1007, ("i", "p")),
    known(24, "regproc", "regproc", (4, true), ("N", false), 1008, ("i", "p")),
    Known { collation: 100, ..known(25, "text", "text", (-1, false), ("S", true), 1009, ("i", "x")) },
    known(26, "oid", "oid", (4, true), ("N", true), 1028, ("i", "p")),
    known(28, "xid", "xid", (4, true), ("U", false), 1011, ("i", "p")),
    Known { element: 26, ..known(30, "oidvector", "oidvector", (-1, false), ("A", false), 1013, ("i", "p")) },
    Known { functions: "json_", ..known(114, "json", "json", (-1, false), ("U", false), 199, ("i", "x")) },
    Known {
        collation: 100,
        functions: "pg_node_tree_",
        ..known(194, "pg_node_tree", "pg_node_tree", (-1, false), ("Z", false), 0, ("i", "x"))
    },
    known(700, "float4", "real", (4, true), ("N", false), 1021, ("i", "p")),
    known(701, "float8", "double precision", (8, true), ("N", true), 1022, ("d", "p")),
    Known { kind: "p", ..known(705, "unknown", "unknown", (-2, false), ("X", false), 0, ("c", "p")) },
    known(1033, "aclitem", "aclitem", (12, false), ("U", false), 1034, ("i", "p")),
    Known { collation: 100, ..known(1042, "bpchar", "character", (-1, false), ("S", false), 1014, ("i", "x")) },
    Known {
        collation: 100,
        ..known(1043, "varchar", "character varying", (-1, false), ("S", false), 1015, ("i", "x"))
    },
    Known { functions: "date_", ..known(1082, "date", "date", (4, true), ("D", false), 1182, ("i", "p")) },
    Known {
        functions: "time_",
        ..known(1083, "time", "time without time zone", (8, true), ("D", false), 1183, ("d", "p"))
    },
    Known {
        functions: "timestamp_",
        ..known(1114, "timestamp", "timestamp without time zone", (8, true), ("D", false), 1115, ("d", "p"))
    },
    Known {
        functions: "timestamptz_",
        ..known(1184, "timestamptz", "timestamp with time zone", (8, true), ("D", true), 1185, ("d", "p"))
    },
    Known { functions: "interval_", ..known(1186, "interval", "interval", (16, false), ("T", true), 1187, ("d", "p")) },
    Known { functions: "numeric_", ..known(1700, "numeric", "numeric", (-1, false), ("N", false), 1231, ("i", "m")) },
    known(2202, "regprocedure", "regprocedure", (4, true), ("N", false), 2207, ("i", "p")),
    known(2205, "regclass", "regclass", (4, true), ("N", false), 2210, ("i", "p")),
    known(2206, "regtype", "regtype", (4, true), ("N", false), 2211, ("i", "p")),
    Known {
        kind: "p",
        functions: "record_",
        ..known(2249, "record", "record", (-1, false), ("P", false), 2287, ("d", "x"))
    },
    Known { kind: "p", functions: "void_", ..known(2278, "void", "void", (4, true), ("P", false), 0, ("i", "p")) },
    Known { functions: "uuid_", ..known(2950, "uuid", "uuid", (16, false), ("U", false), 2951, ("c", "p")) },
    Known { functions: "jsonb_", ..known(3802, "jsonb", "jsonb", (-1, false), ("U", false), 3807, ("i", "x")) },
    known(4089, "regnamespace", "regnamespace", (4, true), ("N", false), 4090, ("i", "p")),
    known(4096, "regrole", "regrole", (4, true), ("N", false), 4097, ("i", "p")),
];

pub(super) const fn known(
    oid: u32,
    name: &'static str,
    sql: &'static str,
    (length, by_value): (i64, bool),
    (category, is_preferred): (&'static str, bool),
    array: u32,
    (align, storage): (&'static str, &'static str),
) -> Known {
    let (kind, element, collation, functions) = ("b", 0, 0, "");
    Known {
        oid,
        name,
        sql,
        length,
        by_value,
        category,
        is_preferred,
        array,
        align,
        storage,
        kind,
        element,
        collation,
        functions,
    }
}

/// A type by its number; that of the elements, for one of arrays, and whether it is one.
pub(super) fn of(oid: u32) -> Option<(&'static Known, bool)> {
    let own = KNOWN.iter().find(|known| known.oid == oid).map(|known| (known, false));
    own.or_else(|| KNOWN.iter().find(|known| oid != 0 && known.array == oid).map(|known| (known, true)))
}

/// The number of a type that is written as SQL or PostgreSQL's catalog has it: `integer`, `int4`, `_int4`, `int4[]`.
/// Lengths and digits say nothing.
pub(super) fn by_name(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Some(element) = text.strip_suffix("[]") {
        let element = by_name(element.trim_end().trim_end_matches("[]"))?;
        return Some(of(element)?.0.array).filter(|array| *array != 0);
    }
    let text = text.strip_prefix("pg_catalog.").unwrap_or(text);
    let bare = without_digits(text).to_lowercase();
    let bare = bare.split_whitespace().collect::<Vec<_>>().join(" ");
    if text == "\"char\"" {
        return Some(18);
    }
    let named = |name: &str| KNOWN.iter().find(|known| known.name == name || known.sql == name);
    if let Some(element) = bare.strip_prefix('_') {
        return Some(named(element)?.array).filter(|array| *array != 0);
    }
    let plain = match bare.as_str() {
        "char" | "bpchar" => "bpchar",
        "int" => "int4",
        "decimal" => "numeric",
        "float" | "double" => "float8",
        "string" => "text",
        "timestamp" => "timestamp",
        "time" => "time",
        other => other,
    };
    named(plain).map(|known| known.oid)
}

/// `numeric(10,2)` without `(10,2)`, wherever it stands.
fn without_digits(text: &str) -> String {
    match (text.find('('), text.find(')')) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &text[..from], &text[to + 1..]),
        _ => text.to_string(),
    }
}

/// A type as SQL writes it, with the length and digits that the modifier says.
pub(super) fn format_type(oid: i64, modifier: Option<i64>) -> String {
    let Some((known, is_array)) = u32::try_from(oid).ok().and_then(of) else {
        return if oid == 0 { "-".into() } else { "???".into() };
    };
    let array = if is_array { "[]" } else { "" };
    let Some(modifier) = modifier.filter(|modifier| *modifier >= 0) else {
        // Without a length it is CHAR of any length, which SQL has no other word for.
        let sql = if known.oid == 1042 && modifier.is_some() { "bpchar" } else { known.sql };
        return format!("{sql}{array}");
    };
    let sql = match known.oid {
        1042 | 1043 => format!("{}({})", known.sql, modifier - 4),
        1700 => format!("numeric({},{})", (modifier - 4) >> 16, (modifier - 4) & 0xffff),
        1083 | 1114 | 1184 => match known.sql.split_once(' ') {
            Some((name, zone)) => format!("{name}({modifier}) {zone}"),
            None => known.sql.into(),
        },
        _ => known.sql.into(),
    };
    format!("{sql}{array}")
}

/// The number of the class of operators by which an index orders values of a type.
pub(super) fn class_of(oid: u32) -> u32 {
    10_000 + oid
}

/// `pg_opclass`: one for each type, by which indexes order its values.
pub(super) fn pg_opclass() -> Vec<Row> {
    let row = |of: &Known| {
        vec![
            ("oid", class_of(of.oid).into()),
            ("opcmethod", INDEX_METHOD.into()),
            ("opcname", format!("{}_ops", of.name).into()),
            ("opcnamespace", 11_u32.into()),
            ("opcowner", USER.into()),
            ("opcfamily", class_of(of.oid).into()),
            ("opcintype", of.oid.into()),
            ("opcdefault", true.into()),
            ("opckeytype", 0_u32.into()),
        ]
    };
    KNOWN.iter().filter(|of| of.kind == "b").map(row).collect()
}

/// `pg_type`, of PostgreSQL's types.
pub(super) fn pg_type() -> Vec<Row> {
    let own = KNOWN.iter().map(|of| row(of, of.oid, of.name.into(), of.array, of.element));
    let arrays = KNOWN.iter().filter(|of| of.array != 0).map(|of| {
        let mut row = row(of, of.array, format!("_{}", of.name), 0, of.oid);
        let array: [(&str, Value); 9] = [
            ("typlen", (-1_i64).into()),
            ("typbyval", false.into()),
            ("typcategory", "A".into()),
            ("typispreferred", false.into()),
            ("typtype", if of.kind == "p" { "p" } else { "b" }.into()),
            ("typstorage", "x".into()),
            ("typinput", "array_in".into()),
            ("typoutput", "array_out".into()),
            ("typreceive", "array_recv".into()),
        ];
        for (name, value) in array {
            if let Some(cell) = row.iter_mut().find(|(known, _)| *known == name) {
                cell.1 = value;
            }
        }
        if let Some(send) = row.iter_mut().find(|(known, _)| *known == "typsend") {
            send.1 = "array_send".into();
        }
        row
    });
    own.chain(arrays).collect()
}

pub(super) fn row(of: &Known, oid: u32, name: String, array: u32, element: u32) -> Row {
    let prefix = if of.functions.is_empty() { of.name } else { of.functions };
    vec![
        ("oid", oid.into()),
        ("typname", name.into()),
        ("typnamespace", 11_u32.into()),
        ("typowner", USER.into()),
        ("typlen", of.length.into()),
        ("typbyval", of.by_value.into()),
        ("typtype", of.kind.into()),
        ("typcategory", of.category.into()),
        ("typispreferred", of.is_preferred.into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typrelid", 0_u32.into()),
        ("typsubscript", "-".into()),
        ("typelem", element.into()),
        ("typarray", array.into()),
        ("typinput", format!("{prefix}in").into()),
        ("typoutput", format!("{prefix}out").into()),
        ("typreceive", format!("{prefix}recv").into()),
        ("typsend", format!("{prefix}send").into()),
        ("typmodin", "-".into()),
        ("typmodout", "-".into()),
        ("typanalyze", "-".into()),
        ("typalign", of.align.into()),
        ("typstorage", of.storage.into()),
        ("typnotnull", false.into()),
        ("typbasetype", 0_u32.into()),
        ("typtypmod", (-1_i64).into()),
        ("typndims", 0_i64.into()),
        ("typcollation", of.collation.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names_and_written_again() {
        for (text, oid) in [
            ("integer", 23),
            ("pg_catalog.int4", 23),
            ("INT", 23),
            ("character varying(10)", 1043),
            ("varchar", 1043),
            ("_text", 1009),
            ("text[]", 1009),
            ("timestamp with time zone", 1184),
            ("timestamp(3) without time zone", 1114),
            ("\"char\"", 18),
            ("char", 1042),
            ("double  precision", 701),
            ("numeric(10,2)", 1700),
        ] {
            assert_eq!(by_name(text), Some(oid), "{text}");
        }
        assert_eq!(by_name("nothing"), None);
        assert_eq!(by_name("void[]"), None);
        for known in &KNOWN {
            if known.oid != 18 && known.kind == "b" {
                assert_eq!(by_name(known.sql), Some(known.oid), "{}", known.sql);
            }
        }
    }

    #[test]
    fn formats_are_postgresqls() {
        for (oid, modifier, text) in [
            (1043, Some(14), "character varying(10)"),
            (1042, None, "character"),
            (1042, Some(7), "character(3)"),
            (1700, Some(655_366), "numeric(10,2)"),
            (1700, Some(-1), "numeric"),
            (1114, Some(3), "timestamp(3) without time zone"),
            (1184, None, "timestamp with time zone"),
            (1007, Some(-1), "integer[]"),
            (0, None, "-"),
            (99_999, None, "???"),
        ] {
            assert_eq!(format_type(oid, modifier), text);
        }
    }
}
