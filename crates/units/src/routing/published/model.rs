//! Published tables under loom: a reader beside a transfer is always sent to a root that has the key, by each replica.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-units --lib model`, in a build folder of its own.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// A reader of one of several replicas.
fn check(replicas: usize, read: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let table = RangeTable::new(vec![0, 10]).expect("two ranges");
        let published = Arc::new(Published::new(&table, 4, (0..replicas).map(|_| Replica::on_heap(None, 4)).collect()));
        // Whether a unit's root leads to the key 5.
        let roots = Arc::new([AtomicU64::new(1), AtomicU64::new(0)]);
        let reader = {
            let (published, roots) = (Arc::clone(&published), Arc::clone(&roots));
            thread::spawn(move || {
                let replica = &published.replicas()[read];
                let mut last = 0;
                for _ in 0..2 {
                    let (has_key, number) =
                        published.read_of(replica, |view| roots[view.owner_of(5)].load(Ordering::Acquire));
                    assert_eq!(has_key, 1, "a table with the roots of another");
                    assert!(number >= last);
                    last = number;
                }
            })
        };
        // As a transfer does: filled before, emptied with the table.
        roots[1].store(1, Ordering::Release);
        published.publish(&table.moved(0, 9, 1), || roots[0].store(0, Ordering::Release));
        reader.join().expect("the reader");
    });
}

#[test]
fn a_reader_finds_the_key_while_its_range_moves() {
    check(1, 0);
}

#[test]
fn a_reader_of_any_replica_finds_the_key_while_its_range_moves() {
    check(2, 0);
    check(2, 1);
}
