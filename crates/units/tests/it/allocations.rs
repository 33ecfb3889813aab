//! Commands are routed, executed and answered without allocating anything for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numa::{Allocator, NodeId};
use units::read::{Callback, Part};
use units::request::WriteKind;
use units::store::{Sender, Store, UnitPlace};

use crate::counting::allocations;

const KEYS: u64 = 10_000;

#[derive(Default)]
struct Sums {
    values: AtomicU64,
    pairs: AtomicU64,
}

impl Callback for Sums {
    fn values(&self, _: u64, _: &[u64], values: &[Option<u64>]) {
        self.values.fetch_add(values.iter().flatten().count() as u64, Ordering::Relaxed);
    }

    fn pairs(&self, _: u64, _: Part, pairs: &[(u64, u64)]) {
        self.pairs.fetch_add(pairs.len() as u64, Ordering::Relaxed);
    }
}

fn ask(sender: &mut Sender<'_>, commands: u64) {
    for number in 0..commands {
        let key = random::mixed(number) % KEYS;
        sender.look_up(number, &[key]);
        if number % 50 == 0 {
            sender.scan(number, key, u64::MAX, 10);
            sender.look_up(number, &[key, key + 1, key + 2]);
            sender.route_only(number, &[key]);
        }
    }
    sender.wait().unwrap();
}

#[test]
fn a_command_allocates_nothing() {
    // Of the other ones no thread is on a node that has a replica of the routing table.
    for nodes in [[0, 0, 1, 1], [500, 500, 501, 501]] {
        allocates_nothing_on(nodes);
    }
}

fn allocates_nothing_on(nodes: [u32; 4]) {
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
    let store = Store::new(nodes.map(place).to_vec()).unwrap();
    let keyed = store.create(KEYS - 1, 8);
    let pairs: Vec<(u64, u64)> = (0..KEYS).map(|key| (key, key)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    let pin = store.pin();
    for commands in [1, 100, usize::MAX] {
        let sums = Arc::new(Sums::default());
        let mut sender = keyed.sender(&pin, Arc::clone(&sums) as Arc<dyn Callback>, commands).unwrap();
        // What is kept for the next commands grows at first.
        ask(&mut sender, 20_000);
        let before = sums.values.load(Ordering::Relaxed);
        assert_eq!(allocations(|| ask(&mut sender, 20_000)), 0, "{commands} at a time");
        assert!(sums.values.load(Ordering::Relaxed) - before > 20_000 && sums.pairs.load(Ordering::Relaxed) > 0);
    }
}
