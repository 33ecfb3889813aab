//! Clients in a closed loop: each has one statement on its way at any time, and issues the next when its rows have
//! come.
//!
//! Clients are futures over the library's streams, so a thousand of them need no thousand threads: a few driver threads
//! poll those that something has happened for, as a server would.
//!
//! Invariants: a statement counts in the window that it ends in; one that fails, or gives another number of rows than
//! it must, fails the run.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nearside::{Database, Session};

use super::work::Work;
use crate::failure::Failure;

/// Slots that one driver thread feeds.
const SLOTS_PER_DRIVER: usize = 16;
/// The share of a run that passes before the window opens: the first statements are all issued at once.
pub const WARM_UP: f64 = 0.25;
/// How often a load looks whether it shall end early.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// A statement that clients may issue.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its text.
    pub sql: String,
    /// How many rows it must give.
    pub rows: u64,
}

/// What clients do.
pub struct Load<'a> {
    /// Gives a client its session.
    pub session: &'a (dyn Fn() -> Session + Sync),
    /// The query that a random number stands for.
    pub pick: &'a (dyn Fn(u64) -> &'a Query + Sync),
    /// How many there are.
    pub clients: usize,
    /// How long they go on, the time before the window opens included.
    pub length: Duration,
    /// Decides which query comes when.
    pub seed: u64,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
}

/// What clients did in the window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// How long it was open.
    pub length: Duration,
    /// From issue to last row, of each statement that ended in it, in no order.
    pub latencies: Vec<Duration>,
    /// Resident memory of the process when it opened.
    pub resident_before: u64,
    /// The same when it closed.
    pub resident_after: u64,
    /// What was done while it was open.
    pub work: Work,
}

/// When the window opens and closes; after that, or when one failed, no client issues another statement.
struct Times<'a> {
    open: Instant,
    close: Instant,
    failed: AtomicBool,
    stop: &'a AtomicBool,
}

impl Times<'_> {
    /// Waits on this thread; a driver that fails unparks it.
    fn sleep_until(&self, time: Instant) {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() || self.ended() {
                return;
            }
            thread::park_timeout(left.min(STOP_LOOK));
        }
    }

    fn ended(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.stop.load(Ordering::Relaxed)
    }

    fn over(&self, now: Instant) -> bool {
        now >= self.close || self.ended()
    }
}

/// Runs `clients` clients for about `length`, a quarter of it before the window opens. `seed` decides which query comes
/// when.
///
/// # Errors
/// The first statement that failed or gave wrong rows.
pub fn run(
    database: &Database,
    queries: &[Query],
    clients: usize,
    length: Duration,
    seed: u64,
) -> Result<Window, Failure> {
    let pick = |random: u64| &queries[(random % queries.len() as u64) as usize];
    let (session, stop) = (|| database.session(), AtomicBool::new(false));
    run_load(database, &Load { session: &session, pick: &pick, clients, length, seed, stop: &stop })
}

/// Runs clients as a load says, a quarter of its length before the window opens. What is on its way when the window
/// closes is cancelled.
///
/// # Errors
/// The first statement that failed or gave wrong rows.
pub fn run_load(database: &Database, load: &Load<'_>) -> Result<Window, Failure> {
    let drivers = database.scheduler().threads().div_ceil(SLOTS_PER_DRIVER).min(load.clients);
    let begun = Instant::now();
    let open = begun + load.length.mul_f64(WARM_UP);
    let close = begun + load.length;
    let times = &Times { open, close, failed: AtomicBool::new(false), stop: load.stop };
    let waiting = &thread::current();
    let mut window = Window { length: close - open, ..Window::default() };
    let drive = |driver: usize| {
        let latencies = RefCell::new(Vec::new());
        let own = (driver..load.clients).step_by(drivers);
        let own = own.map(|client| closed_loop(load, times, load.seed ^ mixed(client as u64), &latencies));
        let done = block_on(together(own.collect(), times));
        if done.is_err() {
            times.failed.store(true, Ordering::Release);
            waiting.unpark();
        }
        done.map(|()| latencies.into_inner())
    };
    let drive = &drive;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..drivers).map(|driver| scope.spawn(move || drive(driver))).collect();
        times.sleep_until(times.open);
        window.resident_before = numa::resident_bytes();
        let before = Work::so_far(database.scheduler());
        times.sleep_until(times.close);
        window.work = Work::so_far(database.scheduler()).since(&before);
        window.resident_after = numa::resident_bytes();
        for thread in threads {
            // It may wait for a row that nobody counts any more.
            thread.thread().unpark();
            let latencies = thread.join().map_err(|_| Failure::new("a thread that drives clients panicked"))?;
            window.latencies.extend(latencies?);
        }
        Ok(window)
    })
}

/// All clients of one driver, until the time is over.
async fn together<F: Future<Output = nearside::Result<()>>>(
    mut clients: FuturesUnordered<F>,
    times: &Times<'_>,
) -> Result<(), Failure> {
    let mut next = poll_fn(move |context| {
        // What is still on its way goes with its client, which cancels it.
        if times.over(Instant::now()) { Poll::Ready(None) } else { clients.poll_next_unpin(context) }
    });
    while let Some(ended) = (&mut next).await {
        ended?;
    }
    Ok(())
}

/// One client.
async fn closed_loop(
    load: &Load<'_>,
    times: &Times<'_>,
    seed: u64,
    latencies: &RefCell<Vec<Duration>>,
) -> nearside::Result<()> {
    let session = (load.session)();
    let mut turn = 0;
    loop {
        let query = (load.pick)(mixed(seed.wrapping_add(turn)));
        turn += 1;
        let begun = Instant::now();
        let mut stream = session.query(&query.sql)?;
        let mut rows = 0;
        while let Some(batch) = StreamExt::next(&mut stream).await {
            rows += batch?.num_rows() as u64;
        }
        let ended = Instant::now();
        if rows != query.rows {
            let message = format!("'{}' gave {rows} rows instead of {}", query.sql, query.rows);
            return Err(nearside::Error::Execution(message.into()));
        }
        if times.over(ended) {
            return Ok(());
        }
        if ended >= times.open {
            latencies.borrow_mut().push(ended - begun);
        }
    }
}

/// Splitmix64's finish: numbers that look random, the same ones in every run.
pub fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Database {
        let database = Database::builder().threads(2).memory_bytes(1 << 30).build().unwrap();
        database.session().execute("CREATE TABLE n AS SELECT value AS v FROM generate_series(1, 100)").unwrap();
        database
    }

    fn query(rows: u64) -> Vec<Query> {
        vec![Query { sql: "SELECT v FROM n WHERE v <= 7".into(), rows }]
    }

    #[test]
    fn clients_issue_statements_until_the_time_is_over() {
        let window = run(&numbers(), &query(7), 5, Duration::from_millis(200), 1).unwrap();
        assert_eq!(window.length, Duration::from_millis(150));
        assert!(window.latencies.len() >= 5 && window.resident_before > 0 && window.resident_after > 0);
        assert!(window.latencies.iter().all(|latency| *latency > Duration::ZERO));
    }

    #[test]
    fn who_stops_a_load_need_not_wait_for_its_end() {
        let database = numbers();
        let queries = query(7);
        let stop = AtomicBool::new(true);
        let (session, pick) = (|| database.session(), |_: u64| &queries[0]);
        let length = Duration::from_secs(600);
        let load = Load { session: &session, pick: &pick, clients: 3, length, seed: 1, stop: &stop };
        let begun = Instant::now();
        assert!(run_load(&database, &load).unwrap().latencies.is_empty());
        assert!(begun.elapsed() < length / 2);
    }

    #[test]
    fn wrong_rows_and_failures_end_the_run() {
        let wrong = run(&numbers(), &query(8), 3, Duration::from_secs(60), 1).unwrap_err().to_string();
        assert!(wrong.contains("7 rows instead of 8"), "{wrong}");
        let missing = vec![Query { sql: "SELECT v FROM m".into(), rows: 0 }];
        let missing = run(&numbers(), &missing, 2, Duration::from_secs(60), 1).unwrap_err().to_string();
        assert!(missing.contains('m'), "{missing}");
    }
}
