//! psql, where it is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::wire::server;

/// What psql writes to standard output and standard error; `None` where there is no psql.
fn psql(server: &nearside_server::Server, input: &str) -> Option<(String, String)> {
    let address = server.addresses()[0];
    let child = Command::new("psql")
        .args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-d",
            "nearside",
            "-h",
            &address.ip().to_string(),
            "-p",
            &address.port().to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(_) => {
            eprintln!("LEFT OUT: there is no psql here (Debian: postgresql-client)");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn psql_runs_statements_copies_and_shows_errors() {
    let (server, _) = server();
    let input = "
        CREATE TABLE t (a INT PRIMARY KEY, b TEXT);
        INSERT INTO t VALUES (1, 'one');
        \\copy t FROM stdin WITH (FORMAT csv)
2,\"two, too\"
3,
\\.
        SELECT * FROM t ORDER BY a;
        \\copy (SELECT a FROM t ORDER BY a DESC) TO stdout
        SELECT 1 \\; SELECT 2;
        BEGIN;
        SELECT nowhere;
        SELECT 1;
        ROLLBACK;
        SELECT 'é', NULL, 1.50::numeric(4, 2), ARRAY['a b', NULL], TIMESTAMP '2024-01-31 10:00';
        SELECT $1 + 1 \\bind 41 \\g
        \\echo :SERVER_VERSION_NUM :ENCODING
    ";
    let Some((out, err)) = psql(&server, &input.replace("SELECT $1 + 1 \\bind 41 \\g", "")) else { return };
    let expected = "1|one\n2|two, too\n3|\n3\n2\n1\n1\n2\né||1.50|{\"a b\",NULL}|2024-01-31 10:00:00\n150000 UTF8\n";
    assert_eq!(out, expected, "{err}");
    assert!(
        err.contains("ERROR:  column 'nowhere' does not exist\nLINE 1: SELECT nowhere;\n               ^"),
        "{err}"
    );
    assert_eq!(err.matches("ERROR").count(), 2, "{err}");
}

#[test]
fn psql_describes_what_there_is() {
    let (server, _) = server();
    let input = "
        CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10) DEFAULT 'x', c NUMERIC(10, 2) CHECK (c > 0));
        CREATE TABLE u (id SERIAL PRIMARY KEY, t_a INT REFERENCES t ON DELETE CASCADE);
        CREATE VIEW v AS SELECT a FROM t;
        \\d
        \\d t
        \\d u
        \\d v
        \\d u_id_seq
        SELECT pg_get_constraintdef(oid, true) FROM pg_constraint WHERE contype = 'f';
        \\di
        \\l
        \\dn
        \\df abs
        \\du
        \\sv v
        \\dx
        \\dRp
        \\dp t
        BEGIN;
        DECLARE c SCROLL CURSOR FOR SELECT a FROM t;
        FETCH ALL FROM c;
        COMMIT;
    ";
    let Some((out, err)) = psql(&server, input) else { return };
    assert_eq!(err, "", "{out}");
    for line in [
        "public|t|table|nearside",
        "public|u_id_seq|sequence|nearside",
        "public|v|view|nearside",
        "a|integer||not null|",
        "b|character varying(10)|||'x'",
        "c|numeric(10,2)|||",
        "id|integer||not null|nextval('u_id_seq'::regclass)",
        "integer|1|1|2147483647|1|no|1",
        "public|u_pkey|index|nearside|u",
        "FOREIGN KEY (t_a) REFERENCES t(a) ON DELETE CASCADE",
        "CREATE OR REPLACE VIEW public.v AS",
    ] {
        assert!(out.lines().any(|known| known.trim() == line.trim()), "{line}\n{out}");
    }
}
