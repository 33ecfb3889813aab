//! The process is killed: `nearside sql` over a folder of this machine, with statements from a pipe.
//!
//! # Limits
//! The kernel's cache survives the process; [`super::power`] is for what a machine loses that is switched off.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use random::Random;

use super::judge::{DONE, Ledger, sums};
use super::request::Request;
use super::writer::{self, Writer};

/// After how many transactions a folder is begun anew, so that a long run does not open one that only grows.
const THERE_MAX: usize = 2400;

/// Kills the program as often as it was asked for; whether everything was there each time.
pub fn run(request: &Request, program: &Path) -> Result<bool, String> {
    let begun = Instant::now();
    let place = std::env::temp_dir().join(format!("nearside-crash-{}", std::process::id()));
    println!("crash: seed {}, {} kills of {}", request.seed, request.kills, program.display());
    let mut random = Random::new(request.seed);
    let mut writer = Writer::new(random.next_u64());
    let mut bank = Bank::made(program, &place)?;
    let (mut acknowledged, mut there, mut folders) = (0, 0, 1);
    for kill in 0..request.kills {
        if bank.ledger.there() > THERE_MAX {
            bank = Bank::made(program, &place)?;
            folders += 1;
        }
        let before = bank.ledger.there();
        writer.begin_session(random.one_in(4));
        let lasts = Duration::from_millis(200 + random.below(1200) as u64);
        let said = bank.killed_while_it_writes(&mut writer, lasts)?;
        if let Err(problem) = bank.check() {
            println!("crash: kill {kill}: {problem}\ncrash: the folder is {}", place.display());
            return Ok(false);
        }
        acknowledged += said;
        there += bank.ledger.there() - before;
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

/// A folder, and which transactions are there.
struct Bank<'a> {
    program: &'a Path,
    place: PathBuf,
    ledger: Ledger,
}

impl Bank<'_> {
    fn made<'a>(program: &'a Path, place: &Path) -> Result<Bank<'a>, String> {
        let _ = std::fs::remove_dir_all(place);
        let bank = Bank { program, place: place.to_path_buf(), ledger: Ledger::default() };
        bank.asked(&writer::tables())?;
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
    fn killed_while_it_writes(&mut self, writer: &mut Writer, lasts: Duration) -> Result<usize, String> {
        let mut process = Command::new(self.program)
            .args(["sql", "--database"])
            .arg(&self.place)
            .args(["--format", "csv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let mut statements = process.stdin.take().ok_or("no pipe")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        let ledger = &mut self.ledger;
        let acknowledged = thread::scope(|scope| {
            scope.spawn(|| {
                // The pipe ends with the program.
                loop {
                    let (sql, asked) = writer.transaction();
                    // First, since what is written in part may be done before the program ends.
                    asked.into_iter().for_each(|asked| ledger.ask(asked));
                    if statements.write_all(sql.as_bytes()).is_err() {
                        return;
                    }
                }
            });
            let said = scope.spawn(|| {
                let lines = answers.lines().map_while(Result::ok);
                lines.filter_map(|line| writer::acknowledged(&line)).collect::<Vec<usize>>()
            });
            thread::sleep(lasts);
            let killed = process.kill();
            let _ = process.wait();
            killed.map_err(|e| format!("the program ended by itself: {e}"))?;
            said.join().map_err(|_| "the answers could not be read".to_owned())
        })?;
        acknowledged.iter().try_for_each(|number| self.ledger.acknowledge(*number))?;
        Ok(acknowledged.len())
    }

    fn check(&mut self) -> Result<(), String> {
        let verified = Command::new(self.program).arg("check").arg(&self.place).output().map_err(|e| e.to_string())?;
        if !verified.status.success() {
            return Err(String::from_utf8_lossy(&verified.stderr).into_owned());
        }
        let there = self.asked(DONE)?;
        let found = self.asked(&sums())?.join("");
        self.ledger.check(&there, &found)
    }
}
