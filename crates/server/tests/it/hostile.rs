//! What comes from a peer that does not know the protocol, or means no good: the server and everybody else go on.
//!
//! `NEARSIDE_WIRE_CASES` has it try more, `NEARSIDE_WIRE_SEED` others.

use std::time::Duration;

use nearside_server::{Limits, Options};
use random::Random;

use crate::wire::{
    Wire, bind, close, code, describe, execute, first, flush, message, parse, query, run, shown, sync, tags, texts,
    with_options,
};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How many cases there are to be, and from which seed.
pub fn cases(default: u64) -> (u64, u64) {
    (number("NEARSIDE_WIRE_CASES", default), number("NEARSIDE_WIRE_SEED", 1))
}

/// A message that is as it should be, more or less.
fn good(random: &mut Random) -> Vec<u8> {
    const STATEMENTS: [&str; 14] = [
        "SELECT 1",
        "SELECT $1::int",
        "SELECT * FROM t",
        "INSERT INTO t VALUES ($1)",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SELECT 1; SELECT 2",
        "COPY t FROM STDIN",
        "COPY t TO STDOUT (FORMAT binary)",
        "SELEC",
        "",
        "SET application_name = 'x'",
        "SELECT value FROM generate_series(1, 3000)",
    ];
    const NAMES: [&str; 3] = ["", "a", "b"];
    let sql = STATEMENTS[random.below(STATEMENTS.len())];
    let name = NAMES[random.below(3)];
    let value: &[u8] = if random.below(2) == 0 { b"7" } else { &[0, 0, 0, 7] };
    match random.below(14) {
        0 | 1 => query(sql),
        2 | 3 => parse(name, sql, if random.below(2) == 0 { &[] } else { &[23] }),
        4 | 5 => bind(name, NAMES[random.below(3)], &[random.below(3) as i16], &[Some(value)], &[1]),
        6 => bind(name, name, &[], &[], &[0]),
        7 => describe(if random.below(2) == 0 { b'S' } else { b'P' }, name),
        8 | 9 => execute(name, random.below(3) as i32 - 1),
        10 => close(b'S', name),
        11 => message(b'd', b"7\n8\n"),
        12 => message(if random.below(2) == 0 { b'c' } else { b'H' }, &[]),
        _ => sync(),
    }
}

/// The same, spoilt.
fn spoilt(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let any = |random: &mut Random, length: usize| random.below(length.max(1));
    match random.below(8) {
        // Cut off, with the length that it had, or with the one that it has.
        0 => bytes.truncate(any(random, bytes.len())),
        1 if bytes.len() > 5 => {
            bytes.truncate(5 + any(random, bytes.len() - 5));
            let length = (bytes.len() as u32 - 1).to_be_bytes();
            bytes[1..5].copy_from_slice(&length);
        }
        // Other bytes.
        2 | 3 if !bytes.is_empty() => {
            for _ in 0..=random.below(4) {
                let at = any(random, bytes.len());
                bytes[at] = random.below(256) as u8;
            }
        }
        // A length of what is not there.
        4 if bytes.len() >= 5 => {
            const LENGTHS: [u32; 8] = [0, 3, 4, 5, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 20_000];
            bytes[1..5].copy_from_slice(&LENGTHS[any(random, LENGTHS.len())].to_be_bytes());
        }
        // Something within it twice, or not at all.
        5 if bytes.len() > 6 => {
            let at = 5 + any(random, bytes.len() - 5);
            let part = bytes[at..].to_vec();
            bytes.extend(part);
            let length = (bytes.len() as u32 - 1).to_be_bytes();
            bytes[1..5].copy_from_slice(&length);
        }
        6 => bytes = (0..random.below(64)).map(|_| random.below(256) as u8).collect(),
        _ => {}
    }
    bytes
}

#[test]
fn what_makes_no_sense_harms_nobody() {
    let limits = Limits { startup: Duration::from_secs(5), message_bytes: 1 << 20, ..Limits::default() };
    let (server, _) = with_options(Options { limits, ..Options::default() });
    let mut witness = Wire::open(&server);
    witness.query("CREATE TABLE t (a INT); CREATE TABLE w (n INT)");
    let (cases, seed) = cases(1500);
    let mut random = Random::new(seed);
    for case in 0..cases {
        if random.below(8) == 0 {
            let mut wire = Wire::raw(server.addresses()[0]);
            let mut hello = first(3 << 16, &[texts(&["user", "a", "database", "nearside"]), vec![0]].concat());
            for _ in 0..=random.below(3) {
                let at = random.below(hello.len());
                hello[at] = random.below(256) as u8;
            }
            wire.try_send(&hello);
        } else {
            let mut wire = Wire::open(&server);
            for _ in 0..random.below(12) {
                let bytes = good(&mut random);
                let bytes = if random.below(3) == 0 { spoilt(bytes, &mut random) } else { bytes };
                wire.try_send(&bytes);
            }
            // Who waits for an answer gets one, or the end.
            if random.below(4) == 0 {
                wire.try_send(&[message(b'c', &[]), sync(), sync()].concat());
                wire.is_there(Duration::from_millis(20));
            }
        }
        if case % 50 == 0 {
            let all = witness.query(&format!("INSERT INTO w VALUES ({case})"));
            assert_eq!(tags(&all), "CZ", "case {case} of seed {seed}: {}", shown(&all));
        }
    }
    crate::wire::until("all are gone", || server.connected() == 1);
    assert_eq!(witness.value("SELECT count(*) FROM w"), cases.div_ceil(50).to_string());
}

#[test]
fn a_length_that_no_message_has_ends_the_connection() {
    let limits = Limits { message_bytes: 100_000, ..Limits::default() };
    let (server, _) = with_options(Options { limits, ..Options::default() });
    let ended = |bytes: &[u8]| {
        let mut wire = Wire::open(&server);
        wire.try_send(bytes);
        let all = wire.until_end();
        assert_eq!(code(&all), "08P01", "{bytes:?}");
        assert_eq!(crate::wire::field(&all, b'E', b'S'), "FATAL");
    };
    ended(b"Q\0\0\0\x03");
    ended(b"Q\x7f\xff\xff\xff");
    ended(b"Q\xff\xff\xff\xff");
    ended(b"Q\0\x01\x86\xa1");
    // What has a name in it is shorter.
    ended(b"D\0\0\x27\x11");
    ended(b"\0\0\0\0\x04");
    ended(b"p\0\0\0\x08pass");
    let mut wire = Wire::open(&server);
    let long = format!("SELECT length('{}')", "x".repeat(90_000));
    assert_eq!(wire.value(&long), "90000");
}

#[test]
fn what_is_wrong_within_a_message_is_an_error() {
    let (server, _) = crate::wire::server();
    let mut wire = Wire::open(&server);
    // Cut texts, counts of what is not there, bytes behind the end.
    for (tag, body) in [(b'Q', &b"SELECT 1"[..]), (b'Q', b"SELECT 1\0x"), (b'Q', b"")] {
        wire.send(&message(tag, body));
        let all = wire.until_ready();
        assert_eq!((tags(&all), code(&all)), ("EZ".into(), "08P01".into()), "{}", shown(&all));
    }
    wire.send(&message(b'Q', b"SELECT '\xff'\0"));
    assert_eq!(code(&wire.until_ready()), "22021");
    for (tag, body) in [
        (b'P', &b"a\0SELECT 1\0\x7f\xff"[..]),
        (b'B', b"\0\0\xff\xff"),
        (b'B', b"\0\0\0\0\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        (b'D', b"X\0"),
        (b'E', b"\0\0"),
        (b'C', b""),
    ] {
        wire.send(&[message(tag, body), run("SELECT 1"), flush(), sync()].concat());
        let all = wire.until_ready();
        assert_eq!((tags(&all), code(&all)), ("EZ".into(), "08P01".into()), "{tag} {body:?}: {}", shown(&all));
    }
    // Data of no COPY is left out.
    wire.send(&[message(b'd', b"x"), message(b'c', b""), message(b'f', b"x\0"), query("SELECT 1")].concat());
    assert_eq!(tags(&wire.until_ready()), "TDCZ");
}

#[test]
fn names_and_values_are_bounded() {
    let (server, _) = crate::wire::server();
    let mut wire = Wire::open(&server);
    let mut all = Vec::new();
    for number in 0..4200 {
        all.extend(parse(&format!("s{number}"), "", &[]));
    }
    all.extend(sync());
    wire.send(&all);
    let all = wire.until_ready();
    assert_eq!(code(&all), "54000");
}
