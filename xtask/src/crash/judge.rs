//! What has to be there after a crash: a beginning of what was asked for, no shorter than what was acknowledged, and
//! each transaction whole.
//!
//! A commit that did not wait for the disk may be missing although it was acknowledged, unless a later one did wait:
//! what is lost is a last part.
//!
//! # Limits
//! Wholeness is seen in sums over tables, so two faults that cancel each other out would pass.

use std::fmt::Write as _;

use super::writer::{ACCOUNTS, Asked, Kind, LOADED, MONEY};

/// Asks which transactions are there.
pub const DONE: &str = "SELECT n, kind FROM done ORDER BY n";

/// What was asked for, and how much of it must be there.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    asked: Vec<Asked>,
    /// How many were there at the last check.
    there: usize,
    /// How many must be.
    least: usize,
}

impl Ledger {
    /// A transaction was asked for.
    pub fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    /// The program has said that this transaction is done.
    pub fn acknowledge(&mut self, number: usize) -> Result<(), String> {
        let place = self.asked.iter().position(|asked| asked.number == number);
        let place = place.ok_or_else(|| format!("transaction {number} was acknowledged, but never asked for"))?;
        if let Some(last) = self.asked[..=place].iter().rposition(|asked| asked.waits) {
            self.least = self.least.max(last + 1);
        }
        Ok(())
    }

    /// How many were there at the last check.
    pub fn there(&self) -> usize {
        self.there
    }

    /// How many must be there at the next one.
    pub fn least(&self) -> usize {
        self.least
    }

    /// Checks what is there, and goes on from it: `there` are the answers to [`DONE`], `sums` the one to [`sums`], as
    /// lines of CSV.
    pub fn check(&mut self, there: &[String], sums: &str) -> Result<(), String> {
        if there.len() < self.least {
            return Err(format!("{} transactions were acknowledged, {} are there", self.least, there.len()));
        }
        let asked: Vec<String> =
            self.asked.iter().map(|asked| format!("{},{}", asked.number, asked.kind.name())).collect();
        if there[..] != asked[..there.len().min(asked.len())] {
            let place = there.iter().zip(&asked).position(|(there, asked)| there != asked);
            return Err(format!("what is there is no beginning of what was asked for, at {place:?}"));
        }
        // What was seen after a crash is on the disk: opening has made it so.
        self.asked.truncate(there.len());
        (self.there, self.least) = (there.len(), there.len());
        let values: Vec<String> = questions().iter().map(|(_, value)| value(&self.asked)).collect();
        if sums != values.join(",") {
            return Err(format!("{}: {sums} in place of {}", self::sums(), values.join(",")));
        }
        Ok(())
    }
}

/// Asks for everything that shows whether transactions are whole, in one row.
pub fn sums() -> String {
    let mut sql = String::from("SELECT ");
    for (place, (query, _)) in questions().iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        let _ = write!(sql, "{comma}({query})");
    }
    sql
}

/// A question, and its answer where these transactions are there.
type Question = (String, fn(&[Asked]) -> String);

fn questions() -> Vec<Question> {
    // By the key as by looking at all rows.
    let keys = [0, 7, ACCOUNTS - 1].map(|key| format!("(SELECT money FROM accounts WHERE k = {key})"));
    let all = [0, 7, ACCOUNTS - 1].map(|key| format!("(SELECT max(money) FROM accounts WHERE k + 0 = {key})"));
    vec![
        ("SELECT sum(money) FROM accounts".into(), |_| (ACCOUNTS * MONEY).to_string()),
        ("SELECT sum(moves) FROM accounts".into(), |done| (2 * of_kind(done, Kind::Transfer).count()).to_string()),
        ("SELECT count(*) FROM large".into(), |done| (loads(done) as u64 * LOADED).to_string()),
        ("SELECT count(DISTINCT n) FROM large".into(), |done| loads(done).to_string()),
        ("SELECT coalesce(sum(n), 0) FROM kept WHERE k < 0".into(), |done| {
            of_kind(done, Kind::Upsert).sum::<usize>().to_string()
        }),
        ("SELECT sum(n) FROM made".into(), |done| of_kind(done, Kind::Table).last().unwrap_or(0).to_string()),
        (format!("SELECT {} = {}", keys.join(" + "), all.join(" + ")), |_| "true".into()),
    ]
}

/// Numbers of the transactions of this kind.
fn of_kind(done: &[Asked], kind: Kind) -> impl Iterator<Item = usize> {
    done.iter().filter(move |asked| asked.kind == kind).map(|asked| asked.number)
}

/// Loads that nothing has taken away; all that are there go together.
fn loads(done: &[Asked]) -> usize {
    let last_unload = done.iter().rposition(|asked| asked.kind == Kind::Unload).map_or(0, |place| place + 1);
    of_kind(&done[last_unload..], Kind::Load).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(number: usize, kind: Kind) -> Asked {
        Asked { number, kind, waits: true }
    }

    /// Five transactions; number 2 was rolled back, so nobody asked for it.
    fn ledger() -> Ledger {
        let kinds = [(0, Kind::Load), (1, Kind::Unload), (3, Kind::Load), (4, Kind::Transfer), (5, Kind::Upsert)];
        let mut ledger = Ledger::default();
        kinds.iter().for_each(|(number, kind)| ledger.ask(asked(*number, *kind)));
        ledger
    }

    const THERE: [&str; 5] = ["0,load", "1,unload", "3,load", "4,transfer", "5,upsert"];

    fn checked(ledger: &mut Ledger, there: &[&str], sums: &str) -> Result<(), String> {
        let there: Vec<String> = there.iter().map(|line| (*line).to_owned()).collect();
        ledger.check(&there, sums)
    }

    #[test]
    fn a_beginning_that_is_whole_is_right() {
        for (length, sums) in [
            (0, "50000,0,0,0,0,0,true"),
            (1, "50000,0,3000,1,0,0,true"),
            (2, "50000,0,0,0,0,0,true"),
            (4, "50000,2,3000,1,0,0,true"),
            (5, "50000,2,3000,1,5,0,true"),
        ] {
            let mut ledger = ledger();
            assert_eq!(checked(&mut ledger, &THERE[..length], sums), Ok(()), "{length}");
            assert_eq!(ledger.there(), length);
            // What has been seen must stay.
            let problem = checked(&mut ledger, &THERE[..length.saturating_sub(1)], sums);
            assert_eq!(problem.is_err(), length > 0, "{length}");
        }
    }

    #[test]
    fn what_is_missing_is_seen() {
        let mut ledger = ledger();
        ledger.acknowledge(4).unwrap();
        let problem = checked(&mut ledger, &THERE[..3], "50000,0,3000,1,0,0,true").unwrap_err();
        assert_eq!(problem, "4 transactions were acknowledged, 3 are there");
        assert!(ledger.acknowledge(2).unwrap_err().contains("transaction 2"));
    }

    #[test]
    fn holes_and_strangers_are_seen() {
        for there in [
            &["0,load", "3,load", "4,transfer"][..],
            &["1,unload"],
            &["0,transfer"],
            &["0,load", "1,unload", "3,load", "4,transfer", "5,upsert", "6,load"],
        ] {
            let problem = checked(&mut ledger(), there, "").unwrap_err();
            assert!(problem.contains("no beginning"), "{problem}");
        }
    }

    #[test]
    fn parts_are_seen() {
        let right = "50000,2,3000,1,5,0,true";
        for wrong in [
            "49999,2,3000,1,5,0,true",
            "50000,1,3000,1,5,0,true",
            "50000,2,2999,1,5,0,true",
            "50000,2,3000,2,5,0,true",
            "50000,2,3000,1,0,0,true",
            "50000,2,3000,1,5,1,true",
            "50000,2,3000,1,5,0,false",
            "",
        ] {
            assert!(checked(&mut ledger(), &THERE, wrong).unwrap_err().contains(right), "{wrong}");
        }
        let mut ledger = ledger();
        ledger.ask(asked(9, Kind::Table));
        let there = [&THERE[..], &["9,table"]].concat();
        assert_eq!(checked(&mut ledger, &there, "50000,2,3000,1,5,9,true"), Ok(()));
    }

    #[test]
    fn only_commits_that_wait_must_last() {
        let waits = [true, false, true, false, false];
        for (number, least) in [(0, 1), (1, 1), (3, 3), (5, 3)] {
            let mut ledger = ledger();
            ledger.asked.iter_mut().zip(waits).for_each(|(asked, waits)| asked.waits = waits);
            ledger.acknowledge(number).unwrap();
            assert_eq!(ledger.least, least, "{number}");
        }
    }
}
