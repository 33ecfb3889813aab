//! What it costs to hand a range of keys to another unit: linked within a node, copied between nodes.
//!
//! Half of the keys go from one unit to another and back, while nobody reads or writes. Units of which one names a node
//! and the other none have arenas of their own, so that copies can be measured on a machine of one node; what remote
//! memory adds is not in it.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.3.2.

use std::time::Instant;

use numa::{Allocator, NodeId};

use super::{Plan, value_of};
use crate::request::WriteKind;
use crate::store::{Store, UnitPlace};

/// Times that a range goes to and fro; the fastest counts.
const ROUNDS: usize = 3;

/// Nanoseconds per pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferCosts {
    /// To a unit of the same node.
    pub link_ns: f64,
    /// To a unit of another node.
    pub copy_ns: f64,
}

/// Measures both on this thread, in memory of `allocator`.
///
/// # Errors
/// A write or a transfer failed; the text says why.
pub fn measure_transfers(allocator: &Allocator, plan: Plan) -> Result<TransferCosts, String> {
    let node = Some(NodeId(0));
    Ok(TransferCosts {
        link_ns: ns_per_pair(allocator, plan, [node, node])?,
        copy_ns: ns_per_pair(allocator, plan, [node, None])?,
    })
}

fn ns_per_pair(allocator: &Allocator, plan: Plan, nodes: [Option<NodeId>; 2]) -> Result<f64, String> {
    let places = nodes.map(|node| UnitPlace { node, allocator: allocator.clone() });
    let store = Store::new(places.to_vec()).map_err(|error| error.to_string())?;
    let keyed = store.create(plan.last_key(), 8);
    let mut pairs = Vec::new();
    for first in (0..plan.keys).step_by(plan.batch) {
        pairs.clear();
        pairs.extend((first..plan.keys.min(first + plan.batch as u64)).map(|number| {
            let key = plan.key(number);
            (key, value_of(key))
        }));
        keyed.write(WriteKind::Insert, &pairs).map_err(|error| error.to_string())?;
    }
    store.settle();
    let half = plan.last_key() / 2;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        for unit in [1, 0] {
            let begin = Instant::now();
            let moved = keyed.move_range(0, half, unit).map_err(|error| error.to_string())?;
            let took = begin.elapsed();
            let linked = moved.iter().all(|moved| moved.linked);
            assert_eq!(linked, nodes[0] == nodes[1], "within a node ranges are linked");
            let pairs: u64 = moved.iter().map(|moved| moved.pairs).sum();
            best = best.min(took.as_nanos() as f64 / pairs as f64);
        }
    }
    match keyed.len() == plan.keys {
        true => Ok(best),
        false => Err(format!("{} keys are {} after transfers", plan.keys, keyed.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_measured_and_no_key_is_lost() {
        let plan = Plan { keys: 20_000, batch: 500, dense: true, seed: 3 };
        let costs = measure_transfers(&Allocator::unplaced(), plan).unwrap();
        assert!(costs.link_ns.is_finite() && costs.link_ns > 0.0);
        assert!(costs.copy_ns > costs.link_ns, "{costs:?}");
    }
}
