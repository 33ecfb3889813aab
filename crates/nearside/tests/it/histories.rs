//! Histories of transactions that run beside each other, checked for what their level forbids.
//!
//! Transactions read lists and append numbers to them, each number once, so what was read tells what was written before
//! it, and in which order (Adya, Liskov and O'Neil, ICDE 2000, name what may go wrong). Dependencies between
//! transactions make a graph; which circles it may have depends on the level. The checker is tried on histories with
//! planted faults first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nearside::{Database, Error, Session};
use random::Random;

use crate::read::{database, rows};

const KEYS: usize = 4;

/// What a transaction has done.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    /// Appended a number to the list of a key.
    Append(usize, u64),
    /// Read the list of a key.
    Read(usize, Vec<u64>),
}

/// A transaction, from its beginning to its end.
#[derive(Clone, Debug)]
struct Transaction {
    ops: Vec<Op>,
    is_committed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// How one transaction comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dependency {
    /// It has written what the other wrote before.
    Write,
    /// It has read what the other wrote.
    Read,
    /// It has written what the other has read otherwise.
    Anti,
}

/// The first thing that a history has and a level forbids, where the lists are these in the end.
fn fault(history: &[Transaction], last: &BTreeMap<usize, Vec<u64>>, level: Level) -> Option<String> {
    let mut writer: HashMap<u64, usize> = HashMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for op in &transaction.ops {
            if let Op::Append(_, id) = op {
                writer.insert(*id, number);
            }
        }
    }
    let empty = Vec::new();
    let last_of = |key: &usize| last.get(key).unwrap_or(&empty);
    for (key, list) in last {
        if let Some(id) = list.iter().find(|id| !history[writer[*id]].is_committed) {
            return Some(format!("aborted write: list {key} has {id}"));
        }
    }
    let mut edges: BTreeSet<(usize, usize, Dependency)> = BTreeSet::new();
    for (number, transaction) in history.iter().enumerate().filter(|(_, of)| of.is_committed) {
        let mut own: HashMap<usize, Vec<u64>> = HashMap::new();
        let mut before: HashMap<usize, Vec<u64>> = HashMap::new();
        for op in &transaction.ops {
            match op {
                Op::Append(key, id) => {
                    if !last_of(key).contains(id) {
                        return Some(format!("lost write: {id} is not in list {key}"));
                    }
                    own.entry(*key).or_default().push(*id);
                }
                Op::Read(key, list) => {
                    let written = own.get(key).map_or(&[][..], Vec::as_slice);
                    let Some(others) = list.strip_suffix(written) else {
                        return Some(format!(
                            "transaction {number} does not see what it wrote to list {key}: {list:?}"
                        ));
                    };
                    if let Some(id) = others.iter().find(|id| !history[writer[*id]].is_committed) {
                        return Some(format!("aborted read (G1a): {id}"));
                    }
                    if !last_of(key).starts_with(others) {
                        return Some(format!("list {key} was {others:?}, and is {:?}", last_of(key)));
                    }
                    if let Some(id) = others.last() {
                        let by = writer[id];
                        let appended = history[by].ops.iter().rev().find_map(|op| match op {
                            Op::Append(of, id) if of == key => Some(*id),
                            _ => None,
                        });
                        if by != number && appended != Some(*id) {
                            return Some(format!("intermediate read (G1b): {id}"));
                        }
                        edges.insert((by, number, Dependency::Read));
                    }
                    if let Some(next) = last_of(key).get(others.len()) {
                        edges.insert((number, writer[next], Dependency::Anti));
                    }
                    let known = before.entry(*key).or_insert_with(|| others.to_vec());
                    if level > Level::ReadCommitted && known != others {
                        return Some(format!("unrepeatable read: list {key} was {known:?}, then {others:?}"));
                    }
                }
            }
        }
    }
    for list in last.values() {
        edges.extend(list.windows(2).map(|pair| (writer[&pair[0]], writer[&pair[1]], Dependency::Write)));
    }
    edges.retain(|(from, to, _)| from != to);
    let among = |kinds: &[Dependency]| -> Vec<(usize, usize)> {
        edges.iter().filter(|(.., kind)| kinds.contains(kind)).map(|(from, to, _)| (*from, *to)).collect()
    };
    use Dependency::{Anti, Read, Write};
    let count = history.len();
    let closes = |kinds: &[Dependency], by: &[Dependency]| {
        let reached = Reach::new(count, &among(kinds));
        among(by).into_iter().find(|(from, to)| reached.is_path(*to, *from))
    };
    let circle = |name: &str, (from, to): (usize, usize)| format!("{name}: a circle over {from} and {to}");
    if let Some(edge) = closes(&[Write], &[Write]) {
        return Some(circle("dirty write (G0)", edge));
    }
    if let Some(edge) = closes(&[Write, Read], &[Write, Read]) {
        return Some(circle("circular information flow (G1c)", edge));
    }
    if level >= Level::RepeatableRead
        && let Some(edge) = closes(&[Write, Read], &[Anti])
    {
        return Some(circle("read skew or lost update (G-single)", edge));
    }
    if level == Level::Serializable
        && let Some(edge) = closes(&[Write, Read, Anti], &[Anti])
    {
        return Some(circle("write skew (G2)", edge));
    }
    None
}

/// Which transactions come after which.
struct Reach {
    next: Vec<Vec<usize>>,
}

impl Reach {
    fn new(count: usize, edges: &[(usize, usize)]) -> Reach {
        let mut next = vec![Vec::new(); count];
        edges.iter().for_each(|(from, to)| next[*from].push(*to));
        Reach { next }
    }

    fn is_path(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut left) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = left.pop() {
            if at == to {
                return true;
            }
            left.extend(self.next[at].iter().filter(|next| seen.insert(**next)));
        }
        false
    }
}

#[test]
fn planted_faults_are_found() {
    use Op::{Append, Read};
    let done = |ops: &[Op]| Transaction { ops: ops.to_vec(), is_committed: true };
    let undone = |ops: &[Op]| Transaction { ops: ops.to_vec(), is_committed: false };
    let lists = |all: &[(usize, &[u64])]| all.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    let (rc, rr, sr) = (Level::ReadCommitted, Level::RepeatableRead, Level::Serializable);
    // What is found, in which transactions, what was there in the end, and the level that they had.
    type Case = (&'static str, Vec<Transaction>, BTreeMap<usize, Vec<u64>>, Level);
    let cases: [Case; 11] = [
        ("", vec![done(&[Append(0, 1)]), done(&[Read(0, vec![1]), Append(0, 2)])], lists(&[(0, &[1, 2])]), sr),
        ("aborted write", vec![undone(&[Append(0, 1)])], lists(&[(0, &[1])]), rc),
        ("lost write", vec![done(&[Append(0, 1)])], lists(&[]), rc),
        ("aborted read", vec![undone(&[Append(0, 1)]), done(&[Read(0, vec![1])])], lists(&[]), rc),
        (
            "intermediate read",
            vec![done(&[Append(0, 1), Append(0, 2)]), done(&[Read(0, vec![1])])],
            lists(&[(0, &[1, 2])]),
            rc,
        ),
        (
            "dirty write",
            vec![done(&[Append(0, 1), Append(1, 2)]), done(&[Append(0, 3), Append(1, 4)])],
            lists(&[(0, &[1, 3]), (1, &[4, 2])]),
            rc,
        ),
        (
            "circular",
            vec![done(&[Append(0, 1), Read(1, vec![2])]), done(&[Append(1, 2), Read(0, vec![1])])],
            lists(&[(0, &[1]), (1, &[2])]),
            rc,
        ),
        ("does not see", vec![done(&[Append(0, 1), Read(0, vec![])])], lists(&[(0, &[1])]), rc),
        (
            "unrepeatable read",
            vec![done(&[Append(0, 1)]), done(&[Read(0, vec![]), Read(0, vec![1])])],
            lists(&[(0, &[1])]),
            rr,
        ),
        (
            "G-single",
            vec![done(&[Append(0, 1), Append(1, 2)]), done(&[Read(0, vec![]), Read(1, vec![2])])],
            lists(&[(0, &[1]), (1, &[2])]),
            rr,
        ),
        (
            "write skew",
            vec![done(&[Read(0, vec![]), Append(1, 1)]), done(&[Read(1, vec![]), Append(0, 2)])],
            lists(&[(0, &[2]), (1, &[1])]),
            sr,
        ),
    ];
    for (expected, history, last, level) in cases {
        let found = fault(&history, &last, level);
        match expected {
            "" => assert_eq!(found, None),
            _ => assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{expected}: {found:?}"),
        }
        // What a higher level forbids a lower one may have.
        if level > rc {
            assert_eq!(fault(&history, &last, rc), None, "{expected}");
        }
    }
}

fn list(session: &Session, key: usize) -> Result<Vec<u64>, Error> {
    let sql = format!("SELECT entries FROM lists WHERE k = {key}");
    let batches = session.query(&sql)?.collect_all()?;
    let column = batches.iter().find(|batch| batch.num_rows() > 0).expect("every key has a list").column(0).clone();
    let text = nearside::arrow::util::display::array_value_to_string(&column, 0)?;
    Ok(text.split_whitespace().map(|id| id.parse().expect("a number")).collect())
}

/// One transaction; what it has done until it ended or failed.
fn run(session: &Session, level: &str, random: &mut Random, next: &mut u64) -> Transaction {
    let mut ops = Vec::new();
    let mut go = || -> Result<(), Error> {
        session.execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        for _ in 0..1 + random.below(4) {
            let key = random.below(KEYS);
            if random.below(2) == 0 {
                ops.push(Op::Read(key, list(session, key)?));
            } else {
                *next += 1;
                let id = *next;
                // Also where it fails, it may have been done.
                ops.push(Op::Append(key, id));
                session.execute(&format!("UPDATE lists SET entries = entries || ' {id}' WHERE k = {key}"))?;
            }
        }
        match random.below(8) {
            0 => session.execute("ROLLBACK").map(|_| ()).and(Err(Error::Cancelled)),
            _ => session.execute("COMMIT").map(|_| ()),
        }
    };
    let ended = go();
    if let Err(error) = &ended {
        let is_told = matches!(error, Error::Serialization(_) | Error::Deadlock(_) | Error::Cancelled);
        assert!(is_told, "{error}");
        session.execute("ROLLBACK").expect("it can always be rolled back");
    }
    Transaction { ops, is_committed: ended.is_ok() }
}

fn checked(database: &Database, level: Level, name: &str) {
    const THREADS: u64 = 4;
    let setup = database.session();
    setup.execute("CREATE OR REPLACE TABLE lists (k BIGINT PRIMARY KEY, entries TEXT NOT NULL)").unwrap();
    setup.execute(&format!("INSERT INTO lists SELECT value, '' FROM generate_series(0, {})", KEYS - 1)).unwrap();
    let history = Mutex::new(Vec::new());
    // A while, and where the machine is slow until there are some.
    let (begun, committed) = (Instant::now(), AtomicUsize::new(0));
    let goes_on = || {
        let is_long = begun.elapsed() > Duration::from_millis(1500);
        !is_long || committed.load(SeqCst) <= 40 && begun.elapsed() < Duration::from_secs(60)
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (history, goes_on, committed) = (&history, &goes_on, &committed);
            scope.spawn(move || {
                let (session, mut random) = (database.session(), Random::new(100 * level as u64 + thread));
                let mut next = thread * 1_000_000;
                while goes_on() {
                    let done = run(&session, name, &mut random, &mut next);
                    committed.fetch_add(usize::from(done.is_committed), SeqCst);
                    history.lock().unwrap().push(done);
                }
            });
        }
    });
    let history = history.into_inner().unwrap();
    let last: BTreeMap<usize, Vec<u64>> = (0..KEYS).map(|key| (key, list(&setup, key).unwrap())).collect();
    let committed = history.iter().filter(|of| of.is_committed).count();
    assert!(committed > 20, "{name}: {committed} of {} were committed", history.len());
    assert_eq!(fault(&history, &last, level), None, "{name}");
    assert_eq!(rows(&setup, "SELECT count(*) FROM nearside.transactions"), [["0"]]);
    eprintln!("{name}: {committed} of {} transactions were committed", history.len());
}

#[test]
fn each_level_has_what_it_may_have() {
    let database = database();
    // Merges come between.
    database.session().execute("ALTER SYSTEM SET nearside.merge_idle_ms = 5").unwrap();
    checked(&database, Level::ReadCommitted, "READ COMMITTED");
    checked(&database, Level::RepeatableRead, "REPEATABLE READ");
    checked(&database, Level::Serializable, "SERIALIZABLE");
}
