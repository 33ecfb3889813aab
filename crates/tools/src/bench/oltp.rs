//! `nearside bench oltp`: transactions of a row or two by many clients, in a folder or in memory.
//!
//! Each client is a thread with a session of its own and one transaction on its way at any time. What a commit waits
//! for is the disk, which is synced once for all who wait by then: *per sync* says for how many.
//!
//! Invariants: every transaction that was told to be done is counted, and when a kind has ended the tables hold what
//! those counts say, no more and no less.
//!
//! # Limits
//! Embedded, so without a network or a protocol. `bench/compare oltp` puts it beside PostgreSQL.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use clap::{Args, ValueEnum};
use nearside::{Database, Prepared, ScalarValue, Session};
use random::Random;
use serde_json::{Value, json};

use super::database_in;
use super::report::{Better, Figure, Output, percentile, report, write_head};
use crate::failure::Failure;
use crate::size::thousands;

/// The share of the time of a kind that passes before transactions count.
const WARM_UP: f64 = 0.2;
/// What every account has at first.
const BALANCE: i64 = 1000;

/// Arguments of `nearside bench oltp`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench oltp --database oltp         32 clients, each commit on the disk before it is answered
  nearside bench oltp --database oltp --synchronous-commit off
  nearside bench oltp --clients 1                      in memory alone

The folder must be empty or not there: its tables are made here.")]
pub struct Arguments {
    /// The folder of the database [default: none, in memory alone]
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// Whether a commit waits for the disk
    #[arg(long, value_enum, default_value = "on")]
    synchronous_commit: OnOff,
    /// Sessions, each in a thread of its own
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Rows of the table of accounts
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..))]
    rows: u32,
    /// Length of each kind, the first fifth of which is not counted
    #[arg(long, value_name = "S", default_value = "5", value_parser = super::sched::parse_seconds)]
    seconds: f64,
    /// What is done
    #[arg(long, value_enum, value_delimiter = ',', default_value = "insert,update,upsert,transfer")]
    kinds: Vec<Kind>,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// What accounts are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// One INSERT of a row into a table without a key
    Insert,
    /// One UPDATE of a row by its key
    Update,
    /// One INSERT .. ON CONFLICT DO UPDATE of a row that is there
    Upsert,
    /// BEGIN, two UPDATEs by key, an INSERT, COMMIT
    Transfer,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Upsert => "upsert",
            Kind::Transfer => "transfer",
        }
    }
}

/// What one client prepared.
struct Client {
    session: Session,
    kind: Kind,
    rows: i64,
    insert: Prepared,
    add: Prepared,
    upsert: Prepared,
    random: Random,
}

impl Client {
    fn new(database: &Database, arguments: &Arguments, kind: Kind, number: u64) -> Result<Client, Failure> {
        let session = database.session();
        if arguments.synchronous_commit == OnOff::Off {
            session.execute("SET synchronous_commit = off")?;
        }
        let insert = session.prepare("INSERT INTO history VALUES ($1, $2)")?;
        let add = session.prepare("UPDATE accounts SET balance = balance + $2 WHERE id = $1")?;
        let upsert = "INSERT INTO accounts VALUES ($1, $2) \
                      ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance";
        let upsert = session.prepare(upsert)?;
        let random = Random::new(arguments.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number));
        Ok(Client { session, kind, rows: i64::from(arguments.rows), insert, add, upsert, random })
    }

    /// An account from `first` on, of so many.
    fn account(&mut self, first: i64, count: i64) -> i64 {
        first + (self.random.next_u64() % count as u64) as i64
    }

    /// One transaction, to its commit.
    fn issue(&mut self) -> Result<(), Failure> {
        let two = |a: i64, b: i64| [ScalarValue::Int64(Some(a)), ScalarValue::Int64(Some(b))];
        match self.kind {
            Kind::Insert => {
                let account = self.account(0, self.rows);
                one_row(&self.insert, &two(account, 1))
            }
            Kind::Update => {
                let account = self.account(0, self.rows);
                one_row(&self.add, &two(account, 1))
            }
            Kind::Upsert => {
                let account = self.account(0, self.rows);
                one_row(&self.upsert, &two(account, 1))
            }
            Kind::Transfer => {
                // From one half to the other: rows are taken in the same order by all, so nobody waits in a circle.
                let half = self.rows / 2;
                let (from, to) = (self.account(0, half), self.account(half, half));
                self.session.execute("BEGIN")?;
                one_row(&self.add, &two(from, -1))?;
                one_row(&self.add, &two(to, 1))?;
                one_row(&self.insert, &two(from, 1))?;
                self.session.execute("COMMIT")?;
                Ok(())
            }
        }
    }
}

/// Runs a statement that writes one row.
fn one_row(prepared: &Prepared, values: &[ScalarValue]) -> Result<(), Failure> {
    let batches = prepared.query(values)?.collect_all()?;
    let written = batches.first().map(|batch| batch.column(0).as_primitive::<arrow::datatypes::UInt64Type>().value(0));
    match written {
        Some(1) => Ok(()),
        other => Err(Failure::new(format!("a statement wrote {} rows, not one", other.unwrap_or(0)))),
    }
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_in(arguments.database.as_deref(), arguments.threads)?;
    if !database.table_names().is_empty() {
        return Err(Failure::new("the folder has tables already; name one that is empty or not there"));
    }
    let (topology, threads) = (database.topology(), database.scheduler().threads());
    let mut out = io::stdout();
    write_head(&mut out, topology, threads)?;
    let place = match (&arguments.database, arguments.synchronous_commit) {
        (None, _) => "in memory alone".to_owned(),
        (Some(folder), OnOff::On) => format!("{}, each commit waits for the disk", folder.display()),
        (Some(folder), OnOff::Off) => format!("{}, no commit waits for the disk", folder.display()),
    };
    writeln!(out, "database  {place}")?;
    writeln!(out, "clients   {} over {} accounts\n", arguments.clients, thousands(u64::from(arguments.rows)))?;
    let (kind, done, rate) = ("transaction", "done", "per second");
    writeln!(out, "{kind:<12} {done:>10} {rate:>12} {:>10} {:>10} {:>10}", "p50 us", "p99 us", "per sync")?;
    let mut figures = Vec::new();
    for kind in &arguments.kinds {
        let figure = measure(&database, arguments, *kind)?;
        let detail = |name: &str| figure.details.get(name).and_then(Value::as_f64);
        let shown = |name: &str| detail(name).map_or("-".to_owned(), |value| format!("{value:.1}"));
        writeln!(
            out,
            "{:<12} {:>10} {:>12} {:>10} {:>10} {:>10}",
            figure.name,
            thousands(detail("transactions").unwrap_or(0.0) as u64),
            thousands(figure.value as u64),
            shown("p50_us"),
            shown("p99_us"),
            shown("per_sync")
        )?;
        out.flush()?;
        figures.push(figure);
    }
    if let Some(json) = json {
        let given = json!({
            "database": arguments.database.is_some(), "synchronous_commit": arguments.synchronous_commit == OnOff::On,
            "clients": arguments.clients, "rows": arguments.rows, "seconds": arguments.seconds, "seed": arguments.seed,
        });
        json.write(&report("oltp", topology, threads, given, &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the tables anew.
fn make_tables(session: &Session, rows: u32) -> Result<(), Failure> {
    let last = rows - 1;
    session.execute(&format!(
        "DROP TABLE IF EXISTS accounts; DROP TABLE IF EXISTS history;
         CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
         CREATE TABLE history (account BIGINT NOT NULL, amount BIGINT NOT NULL);
         INSERT INTO accounts SELECT i, {BALANCE} FROM generate_series(0, {last}) AS s(i)"
    ))?;
    Ok(())
}

/// Runs one kind by all clients, and looks at the tables afterwards.
fn measure(database: &Database, arguments: &Arguments, kind: Kind) -> Result<Figure, Failure> {
    let session = database.session();
    make_tables(&session, arguments.rows)?;
    let clients = 0..u64::from(arguments.clients);
    let made = clients.map(|number| Client::new(database, arguments, kind, number));
    let made: Vec<Client> = made.collect::<Result<_, _>>()?;
    let gate = Barrier::new(made.len() + 1);
    let length = Duration::from_secs_f64(arguments.seconds);
    let warm_up = length.mul_f64(WARM_UP);
    let (ended, syncs, window) = thread::scope(|scope| -> Result<_, Failure> {
        let gate = &gate;
        let started: Vec<_> = made.into_iter().map(|client| scope.spawn(move || drive(client, gate, length))).collect();
        gate.wait();
        let begun = Instant::now();
        thread::sleep(warm_up);
        let before = syncs(&session)?;
        let opened = begun.elapsed();
        thread::sleep(length.saturating_sub(begun.elapsed()));
        let synced = syncs(&session)?.zip(before).map(|(now, before)| now - before);
        let closed = begun.elapsed();
        let joined = started.into_iter().map(|client| client.join().expect("clients give errors"));
        let ended: Vec<Vec<(Duration, Duration)>> = joined.collect::<Result<_, _>>()?;
        Ok((ended.concat(), synced, (opened, closed)))
    })?;
    check(&session, kind, arguments.rows, ended.len())?;
    Ok(figure(kind, &ended, syncs, window))
}

/// Transactions of one client until the time is over: when each ended, and how long it took.
fn drive(mut client: Client, gate: &Barrier, length: Duration) -> Result<Vec<(Duration, Duration)>, Failure> {
    gate.wait();
    let begun = Instant::now();
    let mut ended = Vec::new();
    while begun.elapsed() < length {
        let issued = Instant::now();
        client.issue()?;
        ended.push((begun.elapsed(), issued.elapsed()));
    }
    Ok(ended)
}

/// How often the log was synced; `None` of a database without one.
fn syncs(session: &Session) -> Result<Option<u64>, Failure> {
    let batches = session.query("SELECT CAST(syncs AS BIGINT) FROM nearside.durability")?.collect_all()?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0);
    Ok(first.map(|batch| batch.column(0).as_primitive::<Int64Type>().value(0) as u64))
}

/// Whether the tables hold what was done.
fn check(session: &Session, kind: Kind, rows: u32, done: usize) -> Result<(), Failure> {
    let sum = |sql: &str| -> Result<i64, Failure> {
        let batches = session.query(sql)?.collect_all()?;
        Ok(batches[0].column(0).as_primitive::<Int64Type>().value(0))
    };
    let accounts = sum("SELECT CAST(sum(balance) AS BIGINT) FROM accounts")?;
    let history = sum("SELECT CAST(count(*) AS BIGINT) FROM history")?;
    let (begun, done) = (i64::from(rows) * BALANCE, done as i64);
    let wanted = match kind {
        Kind::Insert => (begun, done),
        Kind::Update | Kind::Upsert => (begun + done, 0),
        Kind::Transfer => (begun, done),
    };
    match (accounts, history) == wanted {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "after {done} of {} accounts have {accounts} and history {history} rows, not {} and {}",
            kind.name(),
            wanted.0,
            wanted.1
        ))),
    }
}

/// The rate of what ended while the window was open, and how many of them had a sync.
fn figure(
    kind: Kind,
    ended: &[(Duration, Duration)],
    syncs: Option<u64>,
    (opened, closed): (Duration, Duration),
) -> Figure {
    let counted = ended.iter().filter(|(at, _)| *at > opened && *at <= closed);
    let mut latencies: Vec<f64> = counted.map(|(_, took)| took.as_secs_f64() * 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    let per_second = latencies.len() as f64 / (closed - opened).as_secs_f64().max(1e-12);
    let per_sync = syncs.filter(|syncs| *syncs > 0).map(|syncs| latencies.len() as f64 / syncs as f64);
    Figure::new(kind.name(), per_second, "transactions/s", Better::More).with_details(json!({
        "transactions": latencies.len(), "syncs": syncs, "per_sync": per_sync,
        "p50_us": percentile(&latencies, 50.0),
        "p99_us": percentile(&latencies, 99.0),
        "max_us": percentile(&latencies, 100.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn rates_are_of_what_ended_in_the_window() {
        let ended = [(ms(100), ms(9)), (ms(300), ms(1)), (ms(500), ms(3)), (ms(1100), ms(9))];
        let figure = figure(Kind::Update, &ended, Some(1), (ms(200), ms(1000)));
        assert!((figure.value - 2.0 / 0.8).abs() < 1e-9, "{}", figure.value);
        assert_eq!((&figure.details["per_sync"], &figure.details["max_us"]), (&json!(2.0), &json!(3000.0)));
        let none = super::figure(Kind::Update, &ended, None, (ms(200), ms(1000)));
        assert_eq!(none.details["per_sync"], json!(null));
    }

    #[test]
    fn what_is_missing_is_found() {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        let session = database.session();
        make_tables(&session, 100).unwrap();
        check(&session, Kind::Update, 100, 0).unwrap();
        session.execute("UPDATE accounts SET balance = balance + 1 WHERE id = 7").unwrap();
        check(&session, Kind::Upsert, 100, 1).unwrap();
        assert!(check(&session, Kind::Update, 100, 2).unwrap_err().to_string().contains("after 2 of update"));
        assert!(check(&session, Kind::Transfer, 100, 1).is_err());
    }
}
