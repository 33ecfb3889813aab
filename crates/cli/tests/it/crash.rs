//! A folder that a program has open, and one whose files are damaged. That nothing is lost when a program is killed,
//! `cargo xtask crash` tests.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::program::{nearside, run};

#[test]
fn a_folder_belongs_to_one_process_and_damage_is_told() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("shop");
    let path = folder.to_str().expect("UTF-8");
    let made = "CREATE TABLE t AS SELECT value AS n, 'text ' || value AS s FROM generate_series(1, 5000)";
    run(&["sql", "--database", path, "-c", made]).ok();
    let mut holder = nearside()
        .args(["sql", "--database", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut statements = holder.stdin.take().expect("a pipe");
    writeln!(statements, "SELECT count(*) FROM t;").expect("it reads");
    let mut answers = BufReader::new(holder.stdout.take().expect("a pipe"));
    // It has the folder once it answers.
    answers.read_line(&mut String::new()).expect("an answer");
    for arguments in [&["sql", "--database", path, "-c", "SELECT 1"][..], &["check", path]] {
        let error = run(arguments).failed();
        assert!(error.contains("is in use by process"), "{error}");
    }
    drop(statements);
    holder.wait().expect("it ends");
    let mut damaged = None;
    for file in std::fs::read_dir(&folder).expect("a folder") {
        let path = file.expect("a file").path();
        let is_larger = |known: &std::path::PathBuf| path.metadata().unwrap().len() > known.metadata().unwrap().len();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("data-"))
            && damaged.as_ref().is_none_or(is_larger)
        {
            damaged = Some(path);
        }
    }
    let file = damaged.expect("a file of data");
    let mut bytes = std::fs::read(&file).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).expect("it is written");
    for arguments in [&["sql", "--database", path, "-c", "SELECT * FROM t"][..], &["check", path]] {
        let error = run(arguments).failed();
        assert!(error.contains("is damaged at byte") && error.contains("table 't'"), "{error}");
        assert!(error.contains(file.file_name().expect("a name").to_str().expect("UTF-8")), "{error}");
    }
}
