//! Values as PostgreSQL writes them, as text and as binary.

use crate::wire::{Wire, bind, execute, parse, raw_rows, server, shown, sync};

/// What PostgreSQL 15 gives: an expression, its text, and its binary in hexadecimal.
const VALUES: &[(&str, &str, &str)] = &[
    ("true", "t", "01"),
    ("false", "f", "00"),
    ("(-2)::smallint", "-2", "fffe"),
    ("7::int", "7", "00000007"),
    ("(-9223372036854775807)::bigint", "-9223372036854775807", "8000000000000001"),
    ("1.5::real", "1.5", "3fc00000"),
    ("0.1::double precision", "0.1", "3fb999999999999a"),
    ("'NaN'::double precision", "NaN", "7ff8000000000000"),
    ("'-Infinity'::double precision", "-Infinity", "fff0000000000000"),
    ("1e15::double precision", "1e+15", "430c6bf526340000"),
    ("123.45::numeric(10,2)", "123.45", "0002000000000002007b1194"),
    ("(-0.005)::numeric(6,3)", "-0.005", "0001ffff400000030032"),
    ("0::numeric(6,3)", "0.000", "0000000000000003"),
    ("100000000::numeric(10,0)", "100000000", "00010002000000000001"),
    ("'é'::text", "é", "c3a9"),
    ("''", "", ""),
    ("'\\x00ff'::bytea", "\\x00ff", "00ff"),
    (
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ),
    ("DATE '2024-02-29'", "2024-02-29", "00002279"),
    ("DATE '1999-12-31'", "1999-12-31", "ffffffff"),
    ("TIME '12:34:56.789'", "12:34:56.789", "0000000a8be62608"),
    ("TIMESTAMP '2000-01-02 00:00:00.000001'", "2000-01-02 00:00:00.000001", "000000141dd76001"),
    ("TIMESTAMP '1999-12-31 23:59:59.5'", "1999-12-31 23:59:59.5", "fffffffffff85ee0"),
    ("TIMESTAMPTZ '2000-01-01 02:00:00+02'", "2000-01-01 00:00:00+00", "0000000000000000"),
    (
        "INTERVAL '1 year 2 months 3 days 04:05:06.7'",
        "1 year 2 mons 3 days 04:05:06.7",
        "000000036c966ee0000000030000000e",
    ),
    ("ARRAY[1, NULL]::int[]", "{1,NULL}", "0000000100000001000000170000000200000001000000040000000 1ffffffff"),
    ("ARRAY['a b', '']", "{\"a b\",\"\"}", "00000001000000000000001900000002000000010000000361206200000000"),
    (
        "ARRAY[ARRAY[1::int, 2::int], ARRAY[3::int, 4::int]]",
        "{{1,2},{3,4}}",
        concat!(
            "0000000200000000000000170000000200000001000000020000000100000004000000010000000400000002",
            "00000004000000030000000400000004"
        ),
    ),
    ("NULL", "NULL", "NULL"),
];

#[test]
fn values_are_written_as_postgres_writes_them() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    for (expression, text, binary) in VALUES {
        let sql = format!("SELECT {expression}");
        let found = |format: i16, wire: &mut Wire| {
            wire.send(&[parse("", &sql, &[]), bind("", "", &[], &[], &[format]), execute("", 0), sync()].concat());
            let all = wire.until_ready();
            let rows = raw_rows(&all);
            assert_eq!(rows.len(), 1, "{sql}: {}", shown(&all));
            rows[0][0].clone()
        };
        let null = || b"NULL".to_vec();
        assert_eq!(String::from_utf8(found(0, &mut wire).unwrap_or_else(null)).unwrap(), *text, "{sql}");
        let bytes = found(1, &mut wire);
        let hex = bytes.map_or("NULL".to_string(), |bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        assert_eq!(hex, binary.replace(' ', ""), "{sql}");
    }
}

#[test]
fn what_is_sent_as_binary_comes_back() {
    let (server, _) = server();
    let mut wire = Wire::open(&server);
    for (expression, _, binary) in VALUES {
        let (name, oid) = match expression {
            e if e.contains("ARRAY['") => ("text[]", 1009),
            e if e.contains("[ARRAY[") => continue,
            e if e.contains("ARRAY") => ("int[]", 1007),
            e if e.contains("smallint") => ("smallint", 21),
            e if e.contains("bigint") => ("bigint", 20),
            e if e.contains("real") => ("real", 700),
            e if e.contains("double") => ("double precision", 701),
            e if e.contains("bytea") => ("bytea", 17),
            e if e.contains("uuid") => ("uuid", 2950),
            e if e.contains("DATE") => ("date", 1082),
            e if e.contains("TIMESTAMPTZ") => ("timestamptz", 1184),
            e if e.contains("TIMESTAMP") => ("timestamp", 1114),
            e if e.contains("TIME") => ("time", 1083),
            e if e.contains("INTERVAL") => ("interval", 1186),
            &"true" | &"false" => ("boolean", 16),
            &"7::int" => ("int", 23),
            e if e.contains('\'') => ("text", 25),
            _ => continue,
        };
        let bytes: Vec<u8> = binary
            .replace(' ', "")
            .as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect();
        let sql = format!("SELECT $1::{name}");
        wire.send(
            &[parse("", &sql, &[oid]), bind("", "", &[1], &[Some(&bytes)], &[1]), execute("", 0), sync()].concat(),
        );
        let all = wire.until_ready();
        assert_eq!(raw_rows(&all), [[Some(bytes)]], "{expression}: {}", shown(&all));
    }
}
