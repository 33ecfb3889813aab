//! What all connections of a server share: what they may have, how they are cancelled, and how far its end has come.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use nearside::{Database, Session};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};

use crate::access::Access;
use crate::attempts::Attempts;
use crate::cancel::Cancels;
use crate::tls::Tls;
use crate::traces::{Trace, Traces};

/// What clients may have.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How many may be connected.
    pub connections: usize,
    /// How long a message may be that holds statements or data, in bytes; others are shorter.
    pub message_bytes: usize,
    /// Within which time a client has to have come in.
    pub startup: Duration,
    /// How long the first login waits that waits for others that have failed; further ones wait longer.
    pub login_delay: Duration,
    /// How long rows wait for a client of HTTP or Flight that takes none, before their statement is cancelled; `None`:
    /// as long as it is there.
    pub stall: Option<Duration>,
    /// How many statements outside of transactions may do what blocks at once; the others wait.
    pub blocking: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Limits {
            connections: 1000,
            message_bytes: 64 << 20,
            startup: Duration::from_secs(60),
            login_delay: Duration::from_millis(100),
            stall: Some(Duration::from_secs(600)),
            blocking: (4 * cpus).max(16),
        }
    }
}

/// How far the server's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// It goes on.
    Never,
    /// Nobody comes in; who is in no transaction goes when its statement is done.
    WhenIdle,
    /// Statements are cancelled, and everybody goes.
    Now,
}

/// What all connections share.
pub struct Shared {
    /// What they talk to.
    pub database: Database,
    /// What they may have.
    pub limits: Limits,
    /// How they are cancelled.
    pub cancels: Arc<Cancels>,
    /// Turns of statements that do what blocks.
    pub turns: Arc<Semaphore>,
    /// How many are connected.
    pub connected: AtomicUsize,
    /// Who may come in.
    pub access: RwLock<Arc<Access>>,
    /// How connections are encrypted, if they can be.
    pub tls: RwLock<Option<Arc<Tls>>>,
    /// Logins that have failed.
    pub attempts: Attempts,
    /// What the answers to those are made of who are nobody.
    pub secret: [u8; 32],
    /// Turns of logins by their addresses.
    pub logins: Mutex<HashMap<Option<IpAddr>, Arc<Semaphore>>>,
    /// What makes spans of statements, where somebody asks for them.
    pub traces: Option<Traces>,
}

impl Shared {
    /// The span of a statement that begins, where statements are traced.
    pub fn trace(&self, sql: &str, session: &Session, door: &'static str) -> Trace {
        self.traces.as_ref().map_or_else(Trace::default, |traces| traces.begun(sql, session, door))
    }

    /// The turns of logins from an address: the others wait.
    pub fn logins_of(&self, address: Option<IpAddr>) -> Arc<Semaphore> {
        /// How many from one address may log in at once.
        const AT_ONCE: usize = 20;
        /// From how many addresses on those are forgotten from which nobody logs in.
        const ADDRESSES: usize = 100;
        let mut logins = self.logins.lock();
        if logins.len() >= ADDRESSES {
            logins.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        Arc::clone(logins.entry(address).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
    }
}

/// Waits until the server's end has come so far.
pub async fn until(stopped: &mut watch::Receiver<Stop>, far: Stop) {
    // Without a server there is nothing left to be done either.
    let _ = stopped.wait_for(|stop| *stop >= far).await;
}
