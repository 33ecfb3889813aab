//! Inboxes under loom: two senders and a unit that takes meanwhile; every word once, whole.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-units --lib model`, in a build folder of its own.

use loom::sync::Arc;
use loom::thread;

use super::tests::heap;
use super::*;

/// Switches that nothing forced: more take minutes.
const PREEMPTIONS: usize = 3;

#[test]
fn two_senders_and_a_unit() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(|| {
        let (inbox, mut taker) = Inbox::new(heap(4));
        let inbox = Arc::new(inbox);
        let senders: Vec<_> = (1..=2_u64)
            .map(|sender| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let write =
                        |words: &[AtomicU64]| words.iter().for_each(|word| word.store(sender, Ordering::Relaxed));
                    inbox.append(2, write).expect("both fit one buffer");
                })
            })
            .collect();
        let mut seen = [0; 3];
        let mut take = |taker: &mut Taker| {
            if let Taken::Words(count) = taker.take(&inbox) {
                let words: Vec<u64> = taker.words(&inbox).iter().map(|word| word.load(Ordering::Relaxed)).collect();
                assert_eq!(words.len(), count);
                for pair in words.chunks(2) {
                    assert_eq!(pair[0], pair[1], "a torn append");
                    seen[pair[0] as usize] += 1;
                }
            }
        };
        take(&mut taker);
        take(&mut taker);
        for sender in senders {
            sender.join().expect("a sender");
        }
        take(&mut taker);
        take(&mut taker);
        assert_eq!(seen, [0, 1, 1]);
        assert!(inbox.is_empty() && taker.closed.is_none());
    });
}
