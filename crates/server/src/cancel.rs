//! What runs for a connection is cancelled through another one, by a number and a key.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether a connection's message is to be cancelled.
#[derive(Debug, Default)]
pub struct Cancel {
    /// A message is being worked on.
    is_busy: AtomicBool,
    is_wanted: AtomicBool,
    /// Told when it is wanted.
    pub notify: Notify,
}

impl Cancel {
    /// A message begins, which nobody has cancelled yet.
    pub fn begin(&self) {
        self.is_wanted.store(false, Ordering::Release);
        self.is_busy.store(true, Ordering::Release);
    }

    /// It is over.
    pub fn end(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    /// Whether it is to be cancelled.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    fn want(&self) {
        if self.is_busy.load(Ordering::Acquire) {
            self.is_wanted.store(true, Ordering::Release);
            self.notify.notify_one();
        }
    }
}

/// A connection's number and key.
type Known = HashMap<i32, (Vec<u8>, Arc<Cancel>)>;

/// The connections that there are.
#[derive(Debug, Default)]
pub struct Cancels(Mutex<Known>);

/// A connection's entry, which goes with it.
#[derive(Debug)]
pub struct Registered {
    all: Arc<Cancels>,
    number: i32,
    /// Whether its message is to be cancelled.
    pub cancel: Arc<Cancel>,
}

impl Cancels {
    /// A connection comes.
    pub fn register(self: &Arc<Self>, number: i32, key: Vec<u8>) -> Registered {
        let cancel = Arc::new(Cancel::default());
        self.0.lock().insert(number, (key, Arc::clone(&cancel)));
        Registered { all: Arc::clone(self), number, cancel }
    }

    /// Cancels what runs for a connection, if this is its key. Nobody is told whether it is.
    pub fn cancel(&self, number: i32, key: &[u8]) {
        let known = self.0.lock();
        let Some((own, cancel)) = known.get(&number) else { return };
        // In a time that does not tell how much of it is right.
        let differs = own.iter().zip(key).fold(own.len() ^ key.len(), |sum, (a, b)| sum | usize::from(a ^ b));
        if differs == 0 {
            cancel.want();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_key_cancels_what_runs() {
        let all = Arc::new(Cancels::default());
        let one = all.register(7, vec![1, 2, 3, 4]);
        all.cancel(7, &[1, 2, 3, 4]);
        assert!(!one.cancel.is_wanted(), "nothing runs");
        one.cancel.begin();
        for (number, key) in
            [(8, &[1, 2, 3, 4][..]), (7, &[1, 2, 3, 5]), (7, &[1, 2, 3]), (7, &[]), (7, &[1, 2, 3, 4, 0])]
        {
            all.cancel(number, key);
            assert!(!one.cancel.is_wanted());
        }
        all.cancel(7, &[1, 2, 3, 4]);
        assert!(one.cancel.is_wanted());
        one.cancel.begin();
        assert!(!one.cancel.is_wanted());
        drop(one);
        assert!(all.0.lock().is_empty());
    }
}
