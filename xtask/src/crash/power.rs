//! The machine is switched off: the program writes in an emulated machine, on a disk whose write cache is lost with the
//! machine's memory, again and again over one disk.
//!
//! Each boot mounts the disk, verifies and asks what is there, writes on, and is switched off; some are switched off
//! while they recover. What is judged is what a killed process is judged by ([`super::judge`]).
//!
//! # Limits
//! The seed repeats what is written and what is lost, not how far the machine came: its time is real.

use std::path::Path;
use std::time::Instant;

use random::Random;

use super::boot::{self, Off, Plan, Setup};
use super::disk::{Disk, Loss, Lost};
use super::guest::{Heard, MOUNTED, Task, WRITE};
use super::judge::Ledger;
use super::request::Request;
use super::writer::{Asked, Writer};
use crate::vm;

/// After how many transactions a disk is begun anew.
const THERE_MAX: usize = 2400;
/// Transactions that a boot has statements for; it is switched off long before.
const SCRIPT: usize = 400;
/// After how many acknowledgements the power goes at the latest, but for some requests.
const ACKNOWLEDGED_MAX: usize = 12;
/// Within how many requests a boot is switched off that shall not come to writing; it has about as many to recover.
const EARLY_MAX: usize = 120;

/// Switches the machine off as often as it was asked for; whether everything was there each time.
pub fn run(request: &Request, program: &Path, home: &Path) -> Result<bool, String> {
    vm::enough_memory(boot::MEMORY_MIB, "close something")?;
    vm::remove_old_runs(home);
    let folder = home.join(format!("run-{}", std::process::id()));
    vm::create(&folder)?;
    let well = Setup::made(program, home, &folder).and_then(|setup| match request.self_check {
        true => self_check(&setup, request.seed),
        false => switch_off_often(&setup, request, program, &folder),
    });
    match well {
        // What a person may want to read stays; the archives are large and can be made again.
        Ok(false) => ["base", "initramfs"].iter().for_each(|name| vm::remove(&folder.join(name))),
        _ => vm::remove(&folder),
    }
    well
}

fn switch_off_often(setup: &Setup, request: &Request, program: &Path, folder: &Path) -> Result<bool, String> {
    println!("crash: seed {}, {} power-offs of a machine with {}", request.seed, request.kills, program.display());
    let begun = Instant::now();
    let mut random = Random::new(request.seed);
    let mut writer = Writer::new(random.next_u64());
    let mut bank = Bank::made(setup.formatted()?);
    let mut sum = Sum { disks: 1, ..Sum::default() };
    let mut offs = 0;
    loop {
        // The last boot of a disk only asks.
        let last = offs == request.kills || bank.ledger.there() > THERE_MAX;
        let (plan, asked) = bank.planned(&mut writer, &mut random, last);
        let at = Instant::now();
        let boot = bank.boot(setup, &plan, asked, Loss::drawn(&mut random), &mut random)?;
        println!("crash: {} s: {}", at.elapsed().as_secs(), boot.told(&plan));
        if let Some(problem) = boot.problem {
            let image = folder.join("disk.img");
            bank.before.write(&image).map_err(|error| format!("{}: {error}", image.display()))?;
            println!("crash: after {offs} power-offs: {problem}");
            println!("crash: the disk before this boot is {}, beside what the machine said", image.display());
            return Ok(false);
        }
        sum.acknowledged += boot.acknowledged;
        sum.there += boot.found;
        sum.early += usize::from(!boot.wrote && !last);
        sum.lost.unflushed += boot.lost.unflushed;
        sum.lost.lost += boot.lost.lost;
        if offs == request.kills {
            break;
        } else if last {
            bank = Bank::made(setup.formatted()?);
            sum.disks += 1;
        } else {
            offs += 1;
        }
    }
    println!(
        "crash: {} power-offs ({} before anything was written) over {} disks in {} s: {} transactions were \
         acknowledged, {} are there, all of them whole; of {} blocks that were not flushed {} were lost",
        request.kills,
        sum.early,
        sum.disks,
        begun.elapsed().as_secs(),
        sum.acknowledged,
        sum.there,
        sum.lost.unflushed,
        sum.lost.lost
    );
    Ok(true)
}

/// What all boots did.
#[derive(Default)]
struct Sum {
    disks: usize,
    acknowledged: usize,
    there: usize,
    early: usize,
    lost: Lost,
}

/// A disk, and which transactions are there.
#[derive(Clone)]
struct Bank {
    /// As the next boot finds it.
    disk: Disk,
    /// As the last boot found it.
    before: Disk,
    ledger: Ledger,
    /// Whether there are tables.
    made: bool,
}

/// What came of a boot.
#[derive(Default)]
struct Boot {
    problem: Option<String>,
    /// Transactions that it found more than the one before.
    found: usize,
    acknowledged: usize,
    /// How many more the next one must find.
    lasting: usize,
    wrote: bool,
    lost: Lost,
}

impl Bank {
    fn made(disk: Disk) -> Bank {
        Bank { before: disk.clone(), disk, ledger: Ledger::default(), made: false }
    }

    /// What the next boot does, and the transactions that it writes.
    fn planned(&self, writer: &mut Writer, random: &mut Random, last: bool) -> (Plan, Vec<Asked>) {
        let task = if self.made { Task::Ask } else { Task::Make };
        let mounted = MOUNTED[random.below(MOUNTED.len())];
        if last {
            return (Plan { task, mounted, script: String::new(), off: Off::Done }, Vec::new());
        }
        let early = self.made && random.one_in(5);
        writer.begin_session(random.one_in(4));
        let (script, asked) = script(writer);
        // Mostly soon, so that it is within the commit that follows, or the next one.
        let most = 1 << random.below(7);
        let requests = random.below(most);
        let off = match early {
            true => Off::Early(1 + random.below(EARLY_MAX)),
            false => Off::Acknowledged(1 + random.below(ACKNOWLEDGED_MAX), requests),
        };
        (Plan { task, mounted, script, off }, asked)
    }

    /// Boots, and judges what it found. An error is one of the machine; once there are tables, a machine that hangs is
    /// what it found.
    fn boot(
        &mut self,
        setup: &Setup,
        plan: &Plan,
        asked: Vec<Asked>,
        loss: Loss,
        random: &mut Random,
    ) -> Result<Boot, String> {
        let mut boot = Boot::default();
        self.before = self.disk.clone();
        let heard = match setup.boot(self.disk.clone(), plan) {
            Ok((heard, disk)) => {
                self.disk = disk;
                heard
            }
            Err(problem) if self.made => return Ok(Boot { problem: Some(problem), ..boot }),
            Err(problem) => return Err(problem),
        };
        boot.lost = self.disk.switch_off(loss, random);
        boot.acknowledged = heard.acknowledged().count();
        boot.wrote = heard.has_begun(WRITE);
        boot.problem = self.judge(&heard, asked, &mut boot.found).err();
        boot.lasting = self.ledger.least() - self.ledger.there();
        Ok(boot)
    }

    fn judge(&mut self, heard: &Heard, asked: Vec<Asked>, found: &mut usize) -> Result<(), String> {
        if let Some((step, said)) = heard.failed() {
            return Err(format!("`{step}` failed: {said}"));
        }
        if let Some((there, sums)) = heard.answers() {
            let before = self.ledger.there();
            self.ledger.check(there, sums)?;
            *found = self.ledger.there() - before;
        }
        // It is heard before anything is written, so what is not heard has not been asked for.
        if heard.has_begun(WRITE) {
            self.made = true;
            asked.into_iter().for_each(|asked| self.ledger.ask(asked));
        }
        heard.acknowledged().try_for_each(|number| self.ledger.acknowledge(number))
    }
}

impl Boot {
    /// A line for people.
    fn told(&self, plan: &Plan) -> String {
        let Lost { unflushed, lost } = self.lost;
        let asked = if plan.task == Task::Ask { format!("{} more are there; ", self.found) } else { String::new() };
        format!(
            "{}: {asked}{} acknowledged, {} more must be there next; off {}, {lost} of {unflushed} blocks lost",
            plan.mounted, self.acknowledged, self.lasting, plan.off
        )
    }
}

/// Statements of many transactions.
fn script(writer: &mut Writer) -> (String, Vec<Asked>) {
    let (texts, asked): (Vec<String>, Vec<Option<Asked>>) = (0..SCRIPT).map(|_| writer.transaction()).unzip();
    (texts.concat(), asked.into_iter().flatten().collect())
}

/// A way to lose what was acknowledged, on purpose.
struct Fault {
    name: &'static str,
    /// The disk says that it has flushed, and has not.
    dishonest: bool,
    /// Statements before all others. Commits are judged as if they waited.
    first: &'static str,
}

const FAULTS: [Fault; 2] = [
    Fault { name: "a disk that does not flush", dishonest: true, first: "" },
    Fault { name: "commits that do not wait", dishonest: false, first: "SET synchronous_commit = off;\n" },
];

/// How often a fault may lose nothing by luck.
const TRIES: usize = 5;

/// Plants each fault; whether all are seen.
fn self_check(setup: &Setup, seed: u64) -> Result<bool, String> {
    let mut random = Random::new(seed);
    let mut made = Bank::made(setup.formatted()?);
    let plan = Plan { task: Task::Make, mounted: MOUNTED[0], script: "SELECT 1;".to_owned(), off: Off::Done };
    let boot = made.boot(setup, &plan, Vec::new(), Loss::All, &mut random)?;
    if let Some(problem) = boot.problem {
        return Err(format!("the tables cannot be made: {problem}"));
    }
    let mut well = true;
    for fault in &FAULTS {
        let begun = Instant::now();
        let seen = seen(setup, made.clone(), fault, &mut random)?;
        well &= seen.is_some();
        println!(
            "crash: {}self-check, {}: {}, in {} s",
            if seen.is_some() { "" } else { "FAILED: " },
            fault.name,
            seen.as_deref().unwrap_or("nothing was missing"),
            begun.elapsed().as_secs()
        );
    }
    Ok(well)
}

/// How it was seen that what was acknowledged is missing, if it was.
fn seen(setup: &Setup, mut bank: Bank, fault: &Fault, random: &mut Random) -> Result<Option<String>, String> {
    if fault.dishonest {
        bank.disk = bank.disk.dishonest();
    }
    let mut writer = Writer::new(random.next_u64());
    for _ in 0..TRIES {
        let (text, asked) = script(&mut writer);
        let script = format!("{}{text}", fault.first);
        let write = Plan { task: Task::Ask, mounted: MOUNTED[0], script, off: Off::Acknowledged(5, 0) };
        let ask = Plan { script: String::new(), off: Off::Done, ..write };
        for (plan, asked) in [(&write, asked), (&ask, Vec::new())] {
            match bank.boot(setup, plan, asked, Loss::All, random)?.problem {
                Some(problem) if problem.contains("transactions were acknowledged") => return Ok(Some(problem)),
                Some(problem) => return Err(format!("{} is seen as something else: {problem}", fault.name)),
                None => {}
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::disk::tests::empty;
    use super::super::writer::Kind;
    use super::*;

    fn heard(lines: &str) -> Heard {
        let mut heard = Heard::default();
        lines.lines().for_each(|line| heard.line(line));
        heard
    }

    /// A bank that has asked for two loads and heard that the first is done.
    fn bank() -> Bank {
        let mut bank = Bank::made(empty(1));
        let asked = |number| Asked { number, kind: Kind::Load, waits: true };
        let first = "@vm begin make\n@vm end make 0\n@vm begin write\nsaid\nacknowledged 0\n";
        assert_eq!(bank.judge(&heard(first), vec![asked(0), asked(1)], &mut 0), Ok(()));
        assert!(bank.made);
        bank
    }

    #[test]
    fn what_was_heard_is_judged_by_the_next_boot() {
        let there =
            |lines: &str, sums: &str| heard(&format!("@vm begin ask\nn,kind\n{lines}a,b\n{sums}\n@vm end ask 0"));
        let mut found = 0;
        let both = there("0,load\n1,load\n", "50000,0,6000,2,0,0,true");
        assert_eq!(bank().judge(&both, Vec::new(), &mut found), Ok(()));
        assert_eq!(found, 2);
        let half = there("0,load\n1,load\n", "50000,0,4000,2,0,0,true");
        assert!(bank().judge(&half, Vec::new(), &mut 0).unwrap_err().contains("in place of"));
        let none = there("", "50000,0,0,0,0,0,true");
        assert!(bank().judge(&none, Vec::new(), &mut 0).unwrap_err().contains("1 transactions were acknowledged"));
        let damaged = heard("@vm begin check\nfile is damaged\n@vm end check 1");
        assert_eq!(bank().judge(&damaged, Vec::new(), &mut 0), Err("`check` failed: file is damaged".to_owned()));
    }

    #[test]
    fn a_boot_that_ends_early_asks_for_nothing() {
        let mut bank = bank();
        let asked = |number| Asked { number, kind: Kind::Load, waits: true };
        let early = heard("@vm begin mount\n@vm end mount 0\n@vm begin check");
        assert_eq!(bank.judge(&early, vec![asked(2)], &mut 0), Ok(()));
        assert_eq!((bank.ledger.there(), bank.ledger.least()), (0, 1));
        let next = heard("@vm begin ask\nn,kind\n0,load\n1,load\n2,load\na,b\nx\n@vm end ask 0");
        assert!(bank.judge(&next, Vec::new(), &mut 0).unwrap_err().contains("no beginning"));
    }
}
