//! Numbered transactions, drawn and written down as statements.
//!
//! Each writes its number and its kind into a table of what was done, in the same transaction as what it does (money
//! that goes around between accounts, loads, upserts, tables that come and go); some are rolled back, wholly or to a
//! savepoint; between them checkpoints, indexes, placements and rows that are deleted in large numbers. In some
//! sessions commits do not wait for the disk now and then.
//!
//! # Limits
//! A number is used once, also when its transaction was lost. One session writes at a time.

use std::fmt::Write as _;

use random::Random;

/// Rows of the table that money goes around in, and what each has at first.
pub const ACCOUNTS: u64 = 50;
/// What each account has at first.
pub const MONEY: u64 = 1000;
/// Rows of a load: more than a table's delta takes at once.
pub const LOADED: u64 = 3000;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Moves money from one account to another.
    Transfer,
    /// Adds [`LOADED`] rows to `large`.
    Load,
    /// Adds its number to a row of `kept`.
    Upsert,
    /// Replaces the table `made` by one that has its number.
    Table,
    /// Takes all loads away.
    Unload,
    /// It is rolled back, whatever it has done.
    Nothing,
}

/// A transaction that was asked for, and commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its number.
    pub number: usize,
    /// What it does.
    pub kind: Kind,
    /// Whether its COMMIT waits for the disk (`synchronous_commit`).
    pub waits: bool,
}

/// Draws transactions.
pub struct Writer {
    random: Random,
    next: usize,
    waits: bool,
    /// Whether some commits of this session do not wait.
    wavers: bool,
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

    /// As the table of what was done has it.
    pub fn name(self) -> &'static str {
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

impl Writer {
    /// Numbers begin at 0.
    pub fn new(seed: u64) -> Writer {
        Writer { random: Random::new(seed), next: 0, waits: true, wavers: false }
    }

    /// A session begins, in which commits wait, or some of them do not.
    pub fn begin_session(&mut self, wavers: bool) {
        self.waits = true;
        self.wavers = wavers;
    }

    /// The next transaction's statements; what was asked for, unless it is rolled back.
    pub fn transaction(&mut self) -> (String, Option<Asked>) {
        let mut sql = String::new();
        if self.wavers && self.random.one_in(6) {
            self.waits = !self.waits;
            let _ = writeln!(sql, "SET synchronous_commit = {};", if self.waits { "on" } else { "off" });
        }
        let kind = Kind::drawn(&mut self.random);
        let number = self.next;
        self.next += 1;
        sql.push_str(&script(number, kind, &mut self.random));
        (sql, (kind != Kind::Nothing).then_some(Asked { number, kind, waits: self.waits }))
    }
}

/// The statements that make the tables.
pub fn tables() -> String {
    format!(
        "CREATE TABLE accounts (k BIGINT PRIMARY KEY, money BIGINT NOT NULL, moves BIGINT NOT NULL); \
         CREATE TABLE done (n BIGINT PRIMARY KEY, kind TEXT); CREATE TABLE large (a BIGINT, n BIGINT); \
         CREATE TABLE kept (k BIGINT PRIMARY KEY, n BIGINT); CREATE TABLE made AS SELECT 0 AS n; \
         INSERT INTO accounts SELECT value, {MONEY}, 0 FROM generate_series(0, {})",
        ACCOUNTS - 1
    )
}

/// The number in a line with which the program says that a transaction is done.
pub fn acknowledged(line: &str) -> Option<usize> {
    line.strip_prefix("acknowledged ")?.parse().ok()
}

/// The statements of a transaction, what comes beside it, and what says that it is done.
fn script(number: usize, kind: Kind, random: &mut Random) -> String {
    let mut sql = beside(random);
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

/// What is done between transactions, now and then.
fn beside(random: &mut Random) -> String {
    match random.below(24) {
        0 => "CHECKPOINT;\n".to_string(),
        1 => "CREATE INDEX IF NOT EXISTS by_n ON large (n);\n".into(),
        2 => "DROP INDEX IF EXISTS by_n;\n".into(),
        3 => {
            format!("ALTER TABLE accounts SET PLACEMENT {};\n", ["'rr'", "'ivp'", "'pp(3, hash(k))'"][random.below(3)])
        }
        4 => format!("INSERT INTO kept SELECT value, 0 FROM generate_series(1, {}) ON CONFLICT DO NOTHING;\n", 5000),
        5 => "DELETE FROM kept WHERE k > 0 AND k % 3 = 0;\n".into(),
        _ => String::new(),
    }
}

fn transfer(random: &mut Random) -> String {
    let account = |random: &mut Random| random.below(ACCOUNTS as usize);
    let (from, to) = (account(random), account(random));
    format!(
        "UPDATE accounts SET money = money - 1, moves = moves + 1 WHERE k = {from};\n\
         UPDATE accounts SET money = money + 1, moves = moves + 1 WHERE k = {to};\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rolled_back_says_nothing() {
        let mut writer = Writer::new(1);
        for number in 0..200 {
            let (sql, asked) = writer.transaction();
            assert_eq!(sql.contains(&format!("acknowledged {number}'")), asked.is_some(), "{sql}");
            assert_eq!(sql.contains("COMMIT"), asked.is_some(), "{sql}");
            assert_eq!(sql.matches("BEGIN;").count(), 1, "{sql}");
            assert!(asked.is_none_or(|asked| asked.number == number && asked.waits));
        }
    }

    #[test]
    fn commits_wait_as_the_last_setting_says() {
        let mut writer = Writer::new(2);
        writer.begin_session(true);
        let (mut on, mut waited, mut did_not) = (true, 0, 0);
        for _ in 0..500 {
            let (sql, asked) = writer.transaction();
            on = if sql.contains("synchronous_commit = on") { true } else { on && !sql.contains("commit = off") };
            let Some(asked) = asked else { continue };
            assert_eq!(asked.waits, on, "{sql}");
            if on { waited += 1 } else { did_not += 1 }
        }
        assert!(waited > 50 && did_not > 50, "{waited} {did_not}");
        writer.begin_session(false);
        assert!((0..100).all(|_| writer.transaction().1.is_none_or(|asked| asked.waits)));
    }

    #[test]
    fn acknowledgements_are_whole_lines() {
        assert_eq!(acknowledged("acknowledged 12"), Some(12));
        for other in ["said", "acknowledged", "acknowledged ", "acknowledged 1x", "not acknowledged 1"] {
            assert_eq!(acknowledged(other), None, "{other}");
        }
    }
}
