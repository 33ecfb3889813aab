//! `cargo xtask crash`: a program that writes a database in a folder is killed, again and again, and what it has said
//! is done is there.
//!
//! The writer is `nearside sql` with statements from a pipe: numbered transactions, each of which writes its number and
//! its kind into a table of what was done, in the same transaction as what it does (money that goes around between
//! accounts, loads, upserts, tables that come and go), some of which are rolled back, wholly or to a savepoint; between
//! them checkpoints, indexes, placements and rows that are deleted in large numbers. It is killed by SIGKILL at a
//! random moment. Then the folder is verified, opened, and asked: which transactions are there has to be a beginning of
//! what was asked for, no shorter than what was acknowledged, and each of them whole.
//!
//! # Limits
//! One session writes. The kernel's cache survives the process: what a machine that is switched off may lose is tested
//! with `log`'s disks in memory.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use random::Random;

use crate::command;
use crate::programs::Workspace;

const USAGE: &str = "\
usage: cargo xtask crash [--kills N] [--seed S] [--program FILE]

Kills `nearside sql --database` while it writes, N times over one folder, and checks what is there. Exit code 1 when
something that was acknowledged is missing, or something is there in part.

  --kills N       how often (1000)
  --seed S        of what is written and when it is killed (from the clock; it is printed)
  --program FILE  the program (`nearside` of the debug build)
";

/// Rows of the table that money goes around in, and what each has at first.
const ACCOUNTS: u64 = 50;
const MONEY: u64 = 1000;
/// Rows of a load: more than a table's delta takes at once.
const LOADED: u64 = 3000;
/// After how many numbers a folder is begun anew, so that a long run does not open one that only grows.
const NUMBERS_MAX: usize = 3000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    kills: usize,
    seed: u64,
    program: Option<PathBuf>,
}

/// The command. Exit code 0: everything was there; 1: something was not; 2: used wrongly.
pub fn command(root: &Path, words: &[&str]) -> ExitCode {
    command::run("crash", USAGE, words, |words| Request::parse(words, clock()), |request| run(root, request))
}

fn clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Request {
    /// Reads the words after `crash`. The error is a sentence.
    fn parse(words: &[&str], seed: u64) -> Result<Request, String> {
        let mut request = Request { kills: 1000, seed, program: None };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: not a number"));
            match word {
                "--kills" => request.kills = number()? as usize,
                "--seed" => request.seed = number()?,
                "--program" => request.program = Some(PathBuf::from(value)),
                _ => return Err(format!("there is no flag {word}")),
            }
        }
        Ok(request)
    }
}

fn run(root: &Path, request: &Request) -> Result<bool, String> {
    let program = match &request.program {
        Some(program) => program.clone(),
        None => Workspace::read(root)?.target.join("debug/nearside"),
    };
    if !program.is_file() {
        return Err(format!("{} is not there; `cargo build --package nearside-cli` makes it", program.display()));
    }
    let begun = Instant::now();
    let place = std::env::temp_dir().join(format!("nearside-crash-{}", std::process::id()));
    println!("crash: seed {}, {} kills of {}", request.seed, request.kills, program.display());
    let mut random = Random::new(request.seed);
    let mut bank = Bank::made(&program, &place)?;
    let (mut acknowledged, mut there, mut folders) = (0, 0, 1);
    for kill in 0..request.kills {
        if bank.done.len() > NUMBERS_MAX {
            bank = Bank::made(&program, &place)?;
            folders += 1;
        }
        let before = bank.done.len();
        let said = bank.killed_while_it_writes(&mut random)?;
        if let Err(problem) = bank.check(before + said) {
            println!("crash: kill {kill}: {problem}\ncrash: the folder is {}", place.display());
            return Ok(false);
        }
        acknowledged += said;
        there += bank.done.len() - before;
    }
    let _ = std::fs::remove_dir_all(&place);
    println!(
        "crash: {} kills over {folders} folders in {} s: {acknowledged} transactions were acknowledged, {there} are \
         there, all of them whole",
        request.kills,
        begun.elapsed().as_secs()
    );
    Ok(true)
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transfer,
    Load,
    Upsert,
    Table,
    Unload,
    /// It is rolled back, whatever it has done.
    Nothing,
}

impl Kind {
    fn drawn(random: &mut Random) -> Kind {
        match random.below(20) {
            0..=8 => Kind::Transfer,
            9 => Kind::Load,
            10..=13 => Kind::Upsert,
            14 => Kind::Table,
            15 => Kind::Unload,
            _ => Kind::Nothing,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Transfer => "transfer",
            Kind::Load => "load",
            Kind::Upsert => "upsert",
            Kind::Table => "table",
            Kind::Unload => "unload",
            Kind::Nothing => "nothing",
        }
    }
}

/// A folder, and which transactions are there.
struct Bank<'a> {
    program: &'a Path,
    place: PathBuf,
    /// Numbers and kinds, as they were asked for.
    done: Vec<(usize, Kind)>,
    next: usize,
}

impl Bank<'_> {
    fn made<'a>(program: &'a Path, place: &Path) -> Result<Bank<'a>, String> {
        let _ = std::fs::remove_dir_all(place);
        let bank = Bank { program, place: place.to_path_buf(), done: Vec::new(), next: 0 };
        bank.asked(&format!(
            "CREATE TABLE accounts (k BIGINT PRIMARY KEY, money BIGINT NOT NULL, moves BIGINT NOT NULL); \
             CREATE TABLE done (n BIGINT PRIMARY KEY, kind TEXT); CREATE TABLE large (a BIGINT, n BIGINT); \
             CREATE TABLE kept (k BIGINT PRIMARY KEY, n BIGINT); CREATE TABLE made AS SELECT 0 AS n; \
             INSERT INTO accounts SELECT value, {MONEY}, 0 FROM generate_series(0, {})",
            ACCOUNTS - 1
        ))?;
        Ok(bank)
    }

    /// What the program answers, as lines of CSV without the names of columns.
    fn asked(&self, sql: &str) -> Result<Vec<String>, String> {
        let mut program = Command::new(self.program);
        program.args(["sql", "--database"]).arg(&self.place).args(["--format", "csv", "-c", sql]);
        let out = program.output().map_err(|e| format!("{}: {e}", self.program.display()))?;
        if !out.status.success() {
            return Err(format!("{sql}: {}", String::from_utf8_lossy(&out.stderr)));
        }
        Ok(String::from_utf8_lossy(&out.stdout).lines().skip(1).map(str::to_owned).collect())
    }

    /// Writes until the program is killed; how many transactions it has said are done.
    fn killed_while_it_writes(&mut self, random: &mut Random) -> Result<usize, String> {
        let mut writer = Command::new(self.program)
            .args(["sql", "--database"])
            .arg(&self.place)
            .args(["--format", "csv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let mut statements = writer.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(writer.stdout.take().ok_or("no pipe")?);
        let acknowledged = AtomicUsize::new(0);
        let lasts = Duration::from_millis(200 + random.below(1200) as u64);
        let mut drawn = Random::new(random.next_u64());
        let (next, done) = (&mut self.next, &mut self.done);
        thread::scope(|scope| {
            scope.spawn(|| {
                // The pipe ends with the program.
                loop {
                    let kind = Kind::drawn(&mut drawn);
                    if statements.write_all(script(*next, kind, &mut drawn).as_bytes()).is_err() {
                        return;
                    }
                    if kind != Kind::Nothing {
                        done.push((*next, kind));
                    }
                    *next += 1;
                }
            });
            scope.spawn(|| {
                let of_done = answers.lines().map_while(Result::ok).filter(|line| line.starts_with("acknowledged "));
                for _ in of_done {
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
            thread::sleep(lasts);
            let killed = writer.kill();
            let _ = writer.wait();
            killed.map_err(|e| format!("the program ended by itself: {e}"))
        })?;
        Ok(acknowledged.load(Ordering::SeqCst))
    }

    /// Checks what is there, where so many transactions were acknowledged, and goes on from it.
    fn check(&mut self, acknowledged: usize) -> Result<(), String> {
        let verified = Command::new(self.program).arg("check").arg(&self.place).output().map_err(|e| e.to_string())?;
        if !verified.status.success() {
            return Err(String::from_utf8_lossy(&verified.stderr).into_owned());
        }
        let there = self.asked("SELECT n, kind FROM done ORDER BY n")?;
        let asked: Vec<String> = self.done.iter().map(|(n, kind)| format!("{n},{}", kind.name())).collect();
        if there.len() < acknowledged {
            return Err(format!("{acknowledged} transactions were acknowledged, {} are there", there.len()));
        }
        if there[..] != asked[..there.len().min(asked.len())] {
            let place = there.iter().zip(&asked).position(|(there, asked)| there != asked);
            return Err(format!("what is there is no beginning of what was asked for, at {place:?}"));
        }
        self.done.truncate(there.len());
        let count = |kind: Kind| self.done.iter().filter(|(_, of)| *of == kind).count();
        // Loads are taken away all together.
        let last_unload = self.done.iter().rposition(|(_, kind)| *kind == Kind::Unload).map_or(0, |place| place + 1);
        let loads = self.done[last_unload..].iter().filter(|(_, kind)| *kind == Kind::Load).count();
        let upserts: usize = self.done.iter().filter(|(_, kind)| *kind == Kind::Upsert).map(|(n, _)| n).sum();
        let made = self.done.iter().rfind(|(_, kind)| *kind == Kind::Table).map_or(0, |(n, _)| *n);
        let mut expected: Vec<(String, String)> = vec![
            ("SELECT sum(money) FROM accounts".into(), (ACCOUNTS * MONEY).to_string()),
            ("SELECT sum(moves) FROM accounts".into(), (2 * count(Kind::Transfer)).to_string()),
            ("SELECT count(*) FROM large".into(), (loads as u64 * LOADED).to_string()),
            ("SELECT count(DISTINCT n) FROM large".into(), loads.to_string()),
            ("SELECT coalesce(sum(n), 0) FROM kept WHERE k < 0".into(), upserts.to_string()),
            ("SELECT sum(n) FROM made".into(), made.to_string()),
        ];
        // By the key as by looking at all rows.
        let keys = [0, 7, ACCOUNTS - 1].map(|key| format!("(SELECT money FROM accounts WHERE k = {key})"));
        let all = [0, 7, ACCOUNTS - 1].map(|key| format!("(SELECT max(money) FROM accounts WHERE k + 0 = {key})"));
        expected.push((format!("SELECT {} = {}", keys.join(" + "), all.join(" + ")), "true".into()));
        let mut sql = String::from("SELECT ");
        for (place, (query, _)) in expected.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            let _ = write!(sql, "{comma}({query})");
        }
        let found = self.asked(&sql)?.join("");
        let values: Vec<&str> = expected.iter().map(|(_, value)| value.as_str()).collect();
        if found != values.join(",") {
            return Err(format!("{sql}: {found} in place of {}", values.join(",")));
        }
        Ok(())
    }
}

/// The statements of a transaction, what comes beside it, and what says that it is done.
fn script(number: usize, kind: Kind, random: &mut Random) -> String {
    let account = |random: &mut Random| random.below(ACCOUNTS as usize);
    let transfer = |random: &mut Random| {
        let (from, to) = (account(random), account(random));
        format!(
            "UPDATE accounts SET money = money - 1, moves = moves + 1 WHERE k = {from};\n\
             UPDATE accounts SET money = money + 1, moves = moves + 1 WHERE k = {to};\n"
        )
    };
    let mut sql = match random.below(24) {
        0 => "CHECKPOINT;\n".to_string(),
        1 => "CREATE INDEX IF NOT EXISTS by_n ON large (n);\n".into(),
        2 => "DROP INDEX IF EXISTS by_n;\n".into(),
        3 => {
            format!("ALTER TABLE accounts SET PLACEMENT {};\n", ["'rr'", "'ivp'", "'pp(3, hash(k))'"][random.below(3)])
        }
        4 => format!("INSERT INTO kept SELECT value, 0 FROM generate_series(1, {}) ON CONFLICT DO NOTHING;\n", 5000),
        5 => "DELETE FROM kept WHERE k > 0 AND k % 3 = 0;\n".into(),
        _ => String::new(),
    };
    sql.push_str("BEGIN;\n");
    if random.below(4) == 0 {
        let undone = transfer(random);
        let _ = write!(sql, "SAVEPOINT s;\n{undone}INSERT INTO large VALUES (1, 1);\nROLLBACK TO s;\n");
    }
    match kind {
        Kind::Transfer => sql.push_str(&transfer(random)),
        Kind::Load => {
            let _ = writeln!(sql, "INSERT INTO large SELECT value, {number} FROM generate_series(1, {LOADED});");
        }
        Kind::Upsert => {
            let key = -1 - random.below(20) as i64;
            let _ = writeln!(
                sql,
                "INSERT INTO kept VALUES ({key}, {number}) ON CONFLICT (k) DO UPDATE SET n = kept.n + excluded.n;"
            );
        }
        Kind::Table => {
            let _ = writeln!(sql, "CREATE OR REPLACE TABLE made AS SELECT 1 AS n;\nUPDATE made SET n = {number};");
        }
        Kind::Unload => sql.push_str("TRUNCATE TABLE large;\n"),
        Kind::Nothing => {
            let undone = transfer(random);
            let _ =
                writeln!(sql, "{undone}DELETE FROM large;\nDROP TABLE made;\nCREATE TABLE made (a INT);\nROLLBACK;");
            return sql;
        }
    }
    let _ = writeln!(sql, "INSERT INTO done VALUES ({number}, '{}');\nCOMMIT;", kind.name());
    let _ = writeln!(sql, "SELECT 'acknowledged {number}' AS said;");
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request = |words: &[&str]| Request::parse(words, 7);
        assert_eq!(request(&[]), Ok(Request { kills: 1000, seed: 7, program: None }));
        let all = request(&["--kills", "25", "--seed", "3", "--program", "p"]).unwrap();
        assert_eq!(all, Request { kills: 25, seed: 3, program: Some("p".into()) });
        assert_eq!(request(&["--kills"]), Err("--kills needs a value".into()));
        assert_eq!(request(&["--kills", "x"]), Err("--kills x: not a number".into()));
        assert_eq!(request(&["--kill", "1"]), Err("there is no flag --kill".into()));
    }

    #[test]
    fn what_is_rolled_back_says_nothing() {
        let mut random = Random::new(1);
        for number in 0..200 {
            let kind = Kind::drawn(&mut random);
            let sql = script(number, kind, &mut random);
            assert_eq!(sql.contains("acknowledged"), kind != Kind::Nothing, "{sql}");
            assert_eq!(sql.matches("BEGIN;").count(), 1, "{sql}");
        }
    }
}
