use super::*;
use crate::sql::Change;

fn texts(script: &str) -> Vec<String> {
    split(script).unwrap().into_iter().map(|p| p.sql).collect()
}

#[test]
fn semicolons_inside_strings_names_and_comments_do_not_split() {
    let script = "select ';' as \"a;b\" -- c;d\n, 1 /* ; */;\n\n ; insert into t values (1);select 2";
    assert_eq!(texts(script), ["select ';' as \"a;b\" -- c;d\n, 1 /* ; */", "insert into t values (1)", "select 2"]);
    assert_eq!(split("\n  ä; select 1").unwrap()[1].start, Position { line: 2, column: 6 });
}

#[test]
fn non_ascii_text_is_cut_at_characters() {
    assert_eq!(texts("select 'äöü€';select 'ß'"), ["select 'äöü€'", "select 'ß'"]);
}

#[test]
fn a_prompt_waits_for_the_semicolon() {
    assert!(is_complete(""));
    assert!(is_complete("select 1;  -- done\n"));
    assert!(!is_complete("select 1"));
    assert!(!is_complete("select 'a;"));
}

#[test]
fn own_statements_are_taken() {
    assert!(matches!(AnyStatement::one("export database '/a'").unwrap(), AnyStatement::Export(p) if p == "/a"));
    assert!(matches!(AnyStatement::one("IMPORT DATABASE 'x';").unwrap(), AnyStatement::Import(p) if p == "x"));
    assert!(matches!(AnyStatement::one("checkpoint;").unwrap(), AnyStatement::Checkpoint));
    assert!(matches!(AnyStatement::one("Backup Database To '/b'").unwrap(), AnyStatement::Backup(p) if p == "/b"));
    for wrong in ["CHECKPOINT now", "BACKUP DATABASE '/b'", "BACKUP TABLE t TO '/b'", "BACKUP DATABASE TO 5"] {
        assert!(AnyStatement::one(wrong).is_err(), "{wrong}");
    }
    assert!(matches!(AnyStatement::one("copy t to 'x.csv'").unwrap(), AnyStatement::CopyTo(_)));
    assert!(matches!(AnyStatement::one("copy (select 1) to 'x.csv'").unwrap(), AnyStatement::CopyTo(_)));
    let AnyStatement::CopyFrom(c) =
        AnyStatement::one("copy s.t (a, \"B\") from 'x' with (format csv, header, delimiter '|')").unwrap()
    else {
        panic!("not a COPY FROM")
    };
    assert_eq!(c.columns, ["a", "B"]);
    let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
    assert_eq!(c.options, [pair("format", "csv"), pair("header", "true"), pair("delimiter", "|")]);
}

#[test]
fn changes_of_placement_are_taken_and_other_alters_are_left() {
    let change = |sql: &str| match AnyStatement::one(sql).unwrap() {
        AnyStatement::AlterPlacement(alter) => alter.change,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(change("alter table t set placement 'ivp(4)'"), Change::Table("ivp(4)".into()));
    assert_eq!(
        change("ALTER TABLE s.t SET PLACEMENT pp(4, hash(\"K\"))"),
        Change::Table("pp ( 4 , hash ( \"K\" ) )".into())
    );
    let text = "replicated".to_string();
    assert_eq!(
        change("alter table if exists t alter column C set placement replicated"),
        Change::Column { column: "c".into(), text }
    );
    let nodes = |column: Option<&str>, rows, nodes: &[u32]| Change::Nodes {
        column: column.map(str::to_string),
        rows,
        nodes: nodes.to_vec(),
    };
    assert_eq!(change("alter table t numa node ('0')"), nodes(None, None, &[0]));
    assert_eq!(change("alter table t numa node (1, '3' to '5') immediate"), nodes(None, None, &[1, 3, 4, 5]));
    assert_eq!(change("alter table t numa node null"), nodes(None, None, &[]));
    assert_eq!(change("alter table t alter c numa node 2"), nodes(Some("c"), None, &[2]));
    assert_eq!(change("alter table t rows 0 to 65536 numa node (1)"), nodes(None, Some(0..65536), &[1]));
    assert_eq!(change("alter table t partition 3 numa node ('1')"), Change::Part { part: 3, node: 1 });
    for sql in
        ["alter table t add column c int", "alter table t rename to u", "alter table t alter column c drop default"]
    {
        assert!(matches!(AnyStatement::one(sql), Ok(AnyStatement::Sql(_))), "{sql}");
    }
    for sql in [
        "alter table t numa node",
        "alter table t numa node ('x')",
        "alter table t rows 1 numa node (0)",
        "alter table t partition 1 numa node (0, 1)",
        "alter table t numa node (3 to 1)",
    ] {
        assert!(matches!(AnyStatement::one(sql), Err(Error::Syntax { .. })), "{sql}");
    }
}

#[test]
fn long_chains_of_operators_are_refused_and_long_lists_are_not() {
    let chain = format!("SELECT {}", vec!["a"; 3000].join(" - "));
    let error = AnyStatement::one(&chain).unwrap_err().to_string();
    assert!(error.contains("2000 operators"), "{error}");
    // Brackets within brackets, each long by itself but not too long.
    let group = |inner: &str| format!("({inner}{})", " + 0".repeat(900));
    let nested = |levels: usize| format!("SELECT {}", (0..levels).fold("1".to_string(), |inner, _| group(&inner)));
    assert!(AnyStatement::one(&nested(2)).is_ok());
    assert!(AnyStatement::one(&nested(3)).unwrap_err().to_string().contains("within each other"));
    let beside = format!("SELECT {0}, {0}, {0}", group("1"));
    assert!(AnyStatement::one(&beside).is_ok());
    let list = format!("SELECT a IN ({}) FROM t", vec!["-1"; 3000].join(", "));
    assert!(AnyStatement::one(&list).is_ok());
    let rows = format!("INSERT INTO t VALUES {}", vec!["(1, -2 * 3, 'x')"; 3000].join(", "));
    assert!(AnyStatement::one(&rows).is_ok());
}

#[test]
fn errors_say_where() {
    let error = AnyStatement::one("\n\n  selec 1").unwrap_err().to_string();
    assert!(error.contains("line 3, column 3"), "{error}");
    let error = AnyStatement::one("copy t from 'x' nonsense").unwrap_err().to_string();
    assert!(error.contains("line 1, column 17"), "{error}");
}

fn mended(sql: &str) -> String {
    let AnyStatement::Sql(mut statement) = AnyStatement::one(sql).unwrap() else { panic!("{sql}") };
    mend(&mut statement).unwrap();
    statement.to_string()
}

#[test]
fn outputs_of_one_name_are_called_otherwise() {
    for (sql, expected) in [
        ("SELECT a, a FROM t", "SELECT a, a AS \".._as_a\" FROM t"),
        ("SELECT t.a, t.a, u.a FROM t, u", "SELECT t.a, t.a AS \".._as_a\", u.a FROM t, u"),
        ("SELECT 1 AS a, 2 AS a, 3 AS b", "SELECT 1 AS a, 2 AS \".._as_a\", 3 AS b"),
        (
            "SELECT a, CAST(a AS TEXT), (a) FROM t",
            "SELECT a, \"__nearside_cast\"(CAST(a AS TEXT)) AS \".._as_a\", (a) AS \".._as_a\" FROM t",
        ),
        ("SELECT 1, 1 UNION SELECT 2, 2", "SELECT 1, 1 AS \"..\" UNION SELECT 2, 2 AS \"..\""),
        ("SELECT * FROM (SELECT sum(a), sum(a) FROM t)", "SELECT * FROM (SELECT sum(a), sum(a) AS \"..\" FROM t)"),
        ("INSERT INTO t SELECT 1, 1", "INSERT INTO t SELECT 1, 1 AS \"..\""),
        ("SELECT a, A, \"a\", \"A\" FROM t", "SELECT a, A AS \".._as_a\", \"a\" AS \".._as_a\", \"A\" FROM t"),
        // A star may give the same columns.
        ("SELECT a, 1, t.b, * FROM t", "SELECT a AS \".._as_a\", 1, t.b AS \".._as_b\", * FROM t"),
        ("SELECT t.*, a AS b FROM t", "SELECT t.*, a AS b FROM t"),
        ("SELECT a, b AS a FROM t", "SELECT a AS \".._as_a\", b AS a FROM t"),
        ("SELECT a, t.a FROM t", "SELECT a AS \".._as_a\", t.a FROM t"),
        ("SELECT 1 AS a, a FROM t", "SELECT 1 AS a, a AS \".._as_a\" FROM t"),
    ] {
        assert_eq!(without_made(&mended(sql)), expected);
    }
}

/// With two dots for names that are given anew each time.
fn without_made(sql: &str) -> String {
    let parts = sql.split("__nearside_output_");
    let parts = parts.enumerate().map(|(i, part)| match i {
        0 => part.to_string(),
        _ => format!("..{}", part.trim_start_matches(|c: char| c.is_ascii_digit())),
    });
    parts.collect()
}

#[test]
fn time_zones_are_set_as_the_standard_has_it() {
    assert_eq!(mended("SET TIME ZONE '+02:00'"), "SET TIMEZONE = '+02:00'");
    assert_eq!(mended("SET TIME ZONE = '+02:00'"), mended("SET TIMEZONE = '+02:00'"));
}

#[test]
fn long_outputs_are_compared_on_any_stack() {
    let sum = vec!["a"; 1900].join(" + ");
    let sql = format!("SELECT {sum}, {sum} FROM t");
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || deep(|| mended(&sql).len()));
    assert!(thread.unwrap().join().unwrap() > 15_000);
}

#[test]
fn errors_are_told_where_they_stand_in_the_script() {
    let session = crate::Database::builder().threads(1).build().unwrap().session();
    let place = |line, column| Some(Position { line, column });
    for (script, expected) in [
        ("SELEC 1", place(1, 1)),
        ("\n  SELEC 1", place(2, 3)),
        ("SELECT 1;\n SELECT 'ä;', )", place(2, 15)),
        ("SELECT 1; SELECT 2;\n\n  SELECT nothing", place(3, 10)),
        ("SELECT 1;\n ALTER TABLE t SET PLACEMENT 'rr' 5", place(2, 35)),
        (
            "SELECT 1;\n SELECT sum(a) OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES), nothing FROM (SELECT 1 AS a)",
            place(2, 65),
        ),
        ("SELECT 1;\nWITH w AS MATERIALIZED (SELECT 1 AS a) SELECT a, nothing FROM w", place(2, 50)),
    ] {
        let error = session.execute(script).unwrap_err();
        let position = match &error {
            Error::Syntax { position, .. } | Error::Plan { position, .. } => *position,
            _ => None,
        };
        assert_eq!(position, expected, "{script}: {error}");
        let alone = session.run(script).unwrap_err();
        if split(script).unwrap().len() == 1 {
            assert_eq!(alone.to_string(), error.to_string());
        }
    }
}
