//! [`Attempts`]: logins that fail slow down those behind them.
//!
//! Each login with a password counts for its address and for its role, before it is known whether it succeeds: so those
//! that go on beside it wait too. One that succeeds counts no more. What is counted runs off with time. So a guess
//! costs [`LONGEST`] soon, and whoever guesses for somebody else's role makes him wait for [`LONGEST_OF_ROLE`] at most.
//!
//! # Invariants
//! - What is remembered has a bound, whatever names and addresses come.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many attempts wait for nothing.
const FREE: f64 = 3.0;
/// How long one waits at most, for its address and for its role.
const LONGEST: Duration = Duration::from_secs(10);
const LONGEST_OF_ROLE: Duration = Duration::from_secs(1);
/// After which time an attempt is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Addresses and roles that are remembered.
const KNOWN_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The network of an address: one machine has many of IPv6.
    Address(IpAddr),
    Role(String),
}

#[derive(Debug, Clone, Copy)]
struct Count {
    attempts: f64,
    at: Instant,
}

impl Count {
    fn now(&self, now: Instant) -> f64 {
        let gone = now.saturating_duration_since(self.at).as_secs_f64() / FORGOTTEN.as_secs_f64();
        (self.attempts - gone).max(0.0)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Attempts {
    /// How long the first one waits that does; each further one twice as long.
    first: Duration,
    known: Mutex<HashMap<Key, Count>>,
}

fn keys(address: Option<IpAddr>, role: &str) -> Vec<Key> {
    let network = |address: IpAddr| match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    };
    let role = Key::Role(role.chars().take(64).collect());
    address.map(|address| Key::Address(network(address))).into_iter().chain([role]).collect()
}

impl Attempts {
    /// Nobody has tried yet. The first attempt that waits does so for this long.
    pub fn new(first: Duration) -> Attempts {
        Attempts { first, known: Mutex::default() }
    }

    /// Counts an attempt: how long it has to wait.
    pub fn begin(&self, address: Option<IpAddr>, role: &str, now: Instant) -> Duration {
        let mut known = self.known.lock();
        let mut wait = Duration::ZERO;
        for key in keys(address, role) {
            if known.len() >= KNOWN_MAX && !known.contains_key(&key) {
                make_room(&mut known, now);
            }
            let longest = if matches!(key, Key::Role(_)) { LONGEST_OF_ROLE } else { LONGEST };
            let count = known.entry(key).or_insert(Count { attempts: 0.0, at: now });
            let attempts = count.now(now);
            *count = Count { attempts: attempts + 1.0, at: now };
            if attempts >= FREE {
                let times = 2_f64.powf((attempts - FREE).min(30.0));
                wait = wait.max(self.first.mul_f64(times).min(longest));
            }
        }
        wait
    }

    /// It has succeeded, and counts no more.
    pub fn succeeded(&self, address: Option<IpAddr>, role: &str, now: Instant) {
        let mut known = self.known.lock();
        for key in keys(address, role) {
            if let Some(count) = known.get_mut(&key) {
                *count = Count { attempts: (count.now(now) - 1.0).max(0.0), at: now };
            }
        }
    }
}

/// Forgets who has waited long enough, or else who has tried least.
fn make_room(known: &mut HashMap<Key, Count>, now: Instant) {
    known.retain(|_, count| count.now(now) > 0.0);
    if known.len() >= KNOWN_MAX {
        let least = known.iter().min_by(|(_, a), (_, b)| a.now(now).total_cmp(&b.now(now)));
        if let Some(least) = least.map(|(key, _)| key.clone()) {
            known.remove(&least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn failures_slow_down_and_are_forgotten() {
        let attempts = Attempts::new(Duration::from_millis(100));
        let now = Instant::now();
        let waits: Vec<u128> = (0..12).map(|_| attempts.begin(address("10.0.0.1"), "ann", now).as_millis()).collect();
        assert_eq!(waits[..6], [0, 0, 0, 100, 200, 400]);
        assert_eq!(waits[11], 10_000);
        // Another address waits for the role alone, another role for nothing.
        assert_eq!(attempts.begin(address("10.0.0.2"), "ann", now), LONGEST_OF_ROLE);
        assert_eq!(attempts.begin(address("10.0.0.3"), "bob", now), Duration::ZERO);
        assert_eq!(attempts.begin(address("10.0.0.1"), "ann", now + FORGOTTEN * 20), Duration::ZERO);
    }

    #[test]
    fn who_succeeds_waits_for_nothing() {
        let attempts = Attempts::new(Duration::from_millis(100));
        let now = Instant::now();
        for _ in 0..100 {
            assert_eq!(attempts.begin(address("::1"), "ann", now), Duration::ZERO);
            attempts.succeeded(address("::1"), "ann", now);
        }
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let attempts = Attempts::new(Duration::from_millis(100));
        let now = Instant::now();
        for n in 0..KNOWN_MAX + 100 {
            attempts.begin(None, &n.to_string(), now);
        }
        assert!(attempts.known.lock().len() <= KNOWN_MAX);
        let addresses = ["fd00::1", "fd00::2", "fd00::3", "fd00::4"];
        let waits = addresses.map(|from| attempts.begin(address(from), from, now));
        assert!(waits[3] > Duration::ZERO, "{waits:?}");
    }
}
