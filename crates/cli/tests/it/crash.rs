//! A program that writes a database in a folder is killed, again and again: what it said is done is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use random::Random;

use crate::program::{nearside, run};

/// Rows of the table that money goes around in, and what all of them have together.
const ACCOUNTS: u64 = 50;
const MONEY: u64 = 1000 * ACCOUNTS;
const KILLS: u64 = 4;

/// The one value of a query over a folder.
fn value(folder: &str, sql: &str) -> u64 {
    let out = run(&["sql", "--database", folder, "--format", "csv", "-c", sql]).ok();
    let value = out.lines().nth(1).unwrap_or_default();
    value.parse().unwrap_or_else(|_| panic!("{sql}: {out}"))
}

/// Transfers between accounts, each with a line in a table of what was done, until the program is killed; how many it
/// has said are done, of those that begin with `first`.
fn killed_while_it_writes(folder: &Path, first: u64, random: &mut Random) -> u64 {
    let mut writer = nearside()
        .args(["sql", "--database"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut statements = writer.stdin.take().expect("a pipe");
    let answers = BufReader::new(writer.stdout.take().expect("a pipe"));
    let done = AtomicU64::new(0);
    let lasts = Duration::from_millis(300 + random.below(900) as u64);
    let seed = random.next_u64();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(seed);
            for number in first.. {
                let (from, to) = (random.below(ACCOUNTS as usize), random.below(ACCOUNTS as usize));
                let moved = format!(
                    "UPDATE accounts SET money = money + CASE k WHEN {from} THEN -1 ELSE 1 END \
                     WHERE k IN ({from}, {to}) AND {from} <> {to};"
                );
                let large = format!("INSERT INTO large SELECT value, {number} FROM generate_series(1, 3000);");
                let large = if number % 8 == 7 { large } else { String::new() };
                let said = format!("INSERT INTO done VALUES ({number});");
                // The pipe ends with the program.
                if writeln!(statements, "{moved}\n{large}\n{said}").is_err() {
                    return;
                }
            }
        });
        scope.spawn(|| {
            let of_done = answers.lines().map_while(Result::ok).filter(|line| line == "INSERT 1");
            for _ in of_done {
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
        thread::sleep(lasts);
        writer.kill().expect("it runs");
        writer.wait().expect("it ends");
    });
    done.load(Ordering::SeqCst)
}

#[test]
fn what_a_killed_program_said_is_done_is_there() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("bank");
    let path = folder.to_str().expect("UTF-8");
    let made = format!(
        "CREATE TABLE accounts (k BIGINT PRIMARY KEY, money BIGINT NOT NULL); \
         CREATE TABLE done (n BIGINT PRIMARY KEY); CREATE TABLE large (a BIGINT, n BIGINT); \
         INSERT INTO accounts SELECT value, 1000 FROM generate_series(0, {})",
        ACCOUNTS - 1
    );
    run(&["sql", "--database", path, "-c", &made]).ok();
    let mut random = Random::new(7);
    let mut before = 0;
    for _ in 0..KILLS {
        let said = killed_while_it_writes(&folder, before, &mut random);
        assert!(run(&["check", path]).ok().contains("is whole"));
        assert_eq!(value(path, "SELECT sum(money) FROM accounts"), MONEY);
        let done = value(path, "SELECT count(*) FROM done");
        assert!(done >= before + said, "{said} were acknowledged, {} are there", done - before);
        assert_eq!(value(path, "SELECT count(*) FROM done WHERE n >= 0 AND n < (SELECT count(*) FROM done)"), done);
        assert_eq!(value(path, "SELECT count(*) FROM (SELECT n FROM large GROUP BY n HAVING count(*) <> 3000)"), 0);
        before = done;
    }
    assert!(before > 0, "nothing was written");
}

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
    for arguments in [&["sql", "--database", path, "-c", "SELECT count(*) FROM t"][..], &["check", path]] {
        let error = run(arguments).failed();
        assert!(error.contains("is damaged at byte") && error.contains("table 't'"), "{error}");
        assert!(error.contains(file.file_name().expect("a name").to_str().expect("UTF-8")), "{error}");
    }
}
