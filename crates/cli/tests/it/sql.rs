//! `nearside sql` without a terminal.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{file, nearside, run, run_with};
use crate::pty;

/// Runs for years unless it is cancelled, and gives no row before it ends.
pub const ENDLESS: &str = "SELECT sum(x + y) FROM generate_series(1, 10000000) a(x) \
    CROSS JOIN generate_series(1, 10000000) b(y)";

#[test]
fn statements_come_from_everywhere() {
    let script = "SELECT 6 * 7 AS answer;\n-- a comment\nSELECT 'a;b' AS text";
    let expected = "answer\n42\ntext\na;b\n";
    assert_eq!(run_with(&["sql", "--format", "csv"], script.as_bytes()).ok(), expected);
    assert_eq!(run(&["sql", "--format", "csv", "-c", script]).ok(), expected);
    let two = ["sql", "--format", "csv", "-c", "SELECT 6 * 7 AS answer", "-c", "SELECT 'a;b' AS text;"];
    assert_eq!(run(&two).ok(), expected);
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "script.sql", &format!("\u{feff}{script}"));
    assert_eq!(run(&["sql", "--format", "csv", "-f", &path]).ok(), expected);
    assert_eq!(run(&["sql"]).ok(), "");
}

#[test]
fn tables_are_for_people() {
    let out = run(&["sql", "-c", "SELECT 1 AS n, 'x' AS s UNION ALL SELECT 22, NULL ORDER BY n"]).ok();
    assert_eq!(out, "  n | s\n----+------\n  1 | x\n 22 | NULL\n(2 rows)\n");
    let out = run(&["sql", "-c", "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT a FROM t WHERE a > 5"]);
    let out = out.ok();
    assert!(out.ends_with(" a\n---\n(0 rows)\n") && out.contains("CREATE TABLE") && out.contains('2'), "{out}");
}

#[test]
fn json_is_an_array_per_statement() {
    let script = "SELECT 1 AS n, NULL AS x, 1.50 AS d; CREATE TABLE t (a INT); SELECT * FROM t; SELECT 'q\"' AS s";
    let out = run(&["sql", "--format", "json", "-c", script]).ok();
    let arrays: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(arrays, [json!([{"n": 1, "x": null, "d": 1.5}]), json!([]), json!([{"s": "q\""}])]);
    // A field for each column, though columns are called alike.
    let out = run(&["sql", "--format", "json", "-c", "SELECT 1, 2, count(*), count(*)"]).ok();
    let array: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(array, json!([{"?column?": 1, "?column?_1": 2, "count": 1, "count_1": 1}]));
}

#[test]
fn commands_work_in_scripts() {
    let script =
        "CREATE TABLE fruit AS SELECT 'apple' AS name, 3 AS n;\n\\d\n\\d fruit\n\\timing\nSELECT 1;\n\\q\nnonsense";
    let out = run_with(&["sql"], script.as_bytes()).ok();
    for piece in ["fruit", "name", "Timing is on.", "Time: "] {
        assert!(out.contains(piece), "{piece} in\n{out}");
    }
    let help = run_with(&["sql"], b"\\?\n").ok();
    assert!(help.contains("\\timing") && help.contains("\\d TABLE"), "{help}");
    let unknown = run_with(&["sql"], b"SELECT 1;\n\\nope\n").failed();
    assert!(unknown.contains("line 2") && unknown.contains("\\nope"), "{unknown}");
    let coded = run_with(&["sql"], b"\\codes\nSELECT 1 / 0;\n").failed();
    assert!(coded.contains("22012: division by zero"), "{coded}");
    let coded = run_with(&["sql"], b"\\codes on\n\\codes off\nSELECT 1 / 0;\n").failed();
    assert!(coded.contains("division by zero") && !coded.contains("22012"), "{coded}");
    let missing = run_with(&["sql"], b"CREATE TABLE fruit (a INT);\n\\d fruits\n").failed();
    assert!(missing.contains("fruits") && missing.contains("did you mean 'fruit'"), "{missing}");
}

#[test]
fn a_table_is_described_with_its_indexes() {
    let script = "CREATE TABLE fruit (name TEXT PRIMARY KEY, n INT);\nCREATE INDEX by_n ON fruit (n);\n\\d fruit\n";
    let out = run_with(&["sql", "--format", "csv"], script.as_bytes()).ok();
    let lines: Vec<&str> = out.lines().skip_while(|line| !line.starts_with("index,")).collect();
    assert_eq!(
        lines,
        ["index,columns,unique,kinds,bytes", "fruit_pkey,name,true,\"\",0", "by_n,n,false,\"\",0"],
        "{out}"
    );
}

#[test]
fn the_first_error_ends_a_script_and_says_where() {
    let script = "SELECT 1 AS one;\n\nSELECT 2 / 0;\nSELECT 3 AS three;\n";
    let failed = run_with(&["sql", "--format", "csv"], script.as_bytes());
    assert_eq!(failed.out.lines().next(), Some("one"), "{failed:?}");
    assert!(!failed.out.contains("three"), "{failed:?}");
    let sentence = failed.failed();
    assert!(sentence.contains("line 3") && sentence.contains("division by zero"), "{sentence}");

    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "broken.sql", "SELECT 1;\nSELECT 2;  SELECT (\n  3 4);\n");
    let sentence = run(&["sql", "-f", &path]).failed();
    assert!(sentence.contains("broken.sql") && sentence.contains("line 3, column"), "{sentence}");

    let path = file(folder.path(), "typo.sql", "CREATE TABLE fruit (name TEXT);\nSELECT nane FROM fruit;\n");
    let sentence = run(&["sql", "-f", &path]).failed();
    assert!(sentence.contains("line 2") && sentence.contains("did you mean 'name'"), "{sentence}");
}

#[test]
fn bad_input_is_one_sentence() {
    for (statement, pieces) in [
        ("SELEC 1", &["SELEC"][..]),
        ("SELECT * FROM nowhere", &["nowhere", "does not exist"]),
        ("SELECT 9223372036854775807 + 1", &["overflow"]),
        ("SELECT 'unclosed", &[]),
        ("SELECT * FROM 'nowhere.parquet'", &["nowhere.parquet"]),
    ] {
        let sentence = run(&["sql", "-c", statement]).failed();
        for piece in pieces {
            assert!(sentence.contains(piece), "{statement}: {sentence}");
        }
    }
    let sentence = run(&["sql", "-f", "/nonexistent/x.sql"]).failed();
    assert!(sentence.contains("/nonexistent/x.sql"), "{sentence}");
    let sentence = run(&["sql", "--load", "t=/nonexistent/x.parquet"]).failed();
    assert!(sentence.contains("/nonexistent/x.parquet"), "{sentence}");
    let sentence = run_with(&["sql"], b"SELECT 1;\nSELECT '\xff';").failed();
    assert!(sentence.contains("line 2") && sentence.contains("UTF-8"), "{sentence}");
}

#[test]
fn files_are_loaded_with_given_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "places.csv", "zip,n\n01234,1\n00007,2\n");
    let load = format!("places={path}");
    let query = "SELECT zip, n + 1 AS m FROM places ORDER BY n";
    let inferred = run(&["sql", "--load", &load, "--format", "csv", "-c", query]).ok();
    assert!(inferred.contains("\n7,3\n"), "{inferred}");
    let given = run(&["sql", "--load", &load, "--types", "places.zip=varchar", "--format", "csv", "-c", query]).ok();
    assert_eq!(given, "zip,m\n01234,2\n00007,3\n");
    let bad = file(folder.path(), "bad.csv", "a,b\n1,2\n3\n");
    let sentence = run(&["sql", "--load", &format!("bad={bad}")]).failed();
    assert!(sentence.contains("bad.csv") && sentence.contains('3'), "{sentence}");
    let wrong_type = run(&["sql", "--load", &load, "--types", "places.zip=nonsense", "-c", query]).failed();
    assert!(wrong_type.contains("nonsense"), "{wrong_type}");
}

#[test]
fn limits_are_kept() {
    let query = "SELECT a.value % 1000000 AS k, count(*) FROM generate_series(1, 3000000) a GROUP BY k ORDER BY k";
    let sentence = run(&["sql", "--memory", "4MiB", "-c", query]).failed();
    assert!(sentence.to_lowercase().contains("memory") || sentence.contains("budget"), "{sentence}");
    assert_eq!(
        run(&["sql", "--memory", "50%", "--threads", "1", "--format", "csv", "-c", "SELECT 1 AS n"]).ok(),
        "n\n1\n"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for format in ["csv", "json", "table"] {
        let mut child = nearside()
            .args(["sql", "--format", format, "-c", "SELECT value FROM generate_series(1, 100000000)"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut head = [0; 64];
        child.stdout.take().expect("a pipe").read_exact(&mut head).expect("some output");
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
    }
}

#[test]
fn statements_run_as_they_arrive() {
    let mut child = nearside()
        .args(["sql", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for n in 1..=3 {
        std::io::Write::write_all(&mut stdin, format!("SELECT {n} AS n;\n").as_bytes()).expect("a statement is taken");
        assert_eq!(answers.next().expect("a header").expect("text"), "n");
        assert_eq!(answers.next().expect("a row").expect("text"), n.to_string());
    }
    drop(stdin);
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}

#[test]
fn an_interrupt_cancels_and_fails() {
    let child = nearside()
        .args(["sql", "-c", ENDLESS])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Before the handler is there a SIGINT would end the program by itself.
    std::thread::sleep(Duration::from_secs(2));
    let sent = Instant::now();
    pty::interrupt(child.id());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: the statement was cancelled\n");
    assert!(sent.elapsed() < Duration::from_secs(20));
}
