//! Threads that do nothing but use up a resource, for measuring what others lose beside them (Seidel 2011, section
//! 5.3).
//!
//! A memory hog writes past the caches over its own buffer, so that it takes bandwidth and no room in caches; a
//! computing hog works in registers. Hogs run until they are dropped and tell what they moved.
//!
//! # Limits
//! Where there are no streaming stores, memory hogs write through the caches. Hogs may run on any cpu of their node:
//! who runs where is up to the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::MemoryError;
use crate::ids::{CpuId, NodeId};
use crate::policy::Policy;
use crate::process::pin_current_thread;
use crate::region::{Allocator, Region};
use crate::sys::probe::fill;
use crate::topology::Topology;

/// The buffer of a memory hog. What is written past the caches need not be larger than they are.
const BUFFER_BYTES: usize = 64 << 20;
/// Words that are written between two looks at the clock: 256 KiB.
const STEP_WORDS: usize = 32 << 10;
/// A hog that pauses does so for spells of this length: short beside a query, long beside an access.
const SPELL: Duration = Duration::from_millis(1);

/// What a hog does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HogKind {
    /// Moves memory for this share of the time, between 0 and 1.
    Memory(f64),
    /// Computes.
    Computing,
}

/// Running hogs; dropping them ends them.
#[derive(Debug)]
pub struct Hogs {
    stop: Arc<AtomicBool>,
    moved: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts one hog of each kind on every node that has usable cpus.
    ///
    /// # Errors
    /// No memory for a buffer.
    pub fn start(topology: &Topology, kinds: &[HogKind]) -> Result<Hogs, MemoryError> {
        let mut hogs = Hogs { stop: Arc::default(), moved: Arc::default(), threads: Vec::new() };
        for (node, cpus) in usable(topology) {
            for kind in kinds {
                let buffer = match kind {
                    HogKind::Computing => None,
                    HogKind::Memory(_) => {
                        let mut region = Allocator::unplaced().with_policy(Policy::Node(node)).region(BUFFER_BYTES)?;
                        // Pages come now, not while somebody measures.
                        fill(region.words_mut(), 1);
                        Some(region)
                    }
                };
                let kind = *kind;
                let cpus = cpus.clone();
                let stop = hogs.stop.clone();
                let moved = hogs.moved.clone();
                hogs.threads.push(std::thread::spawn(move || {
                    pin_current_thread(&cpus);
                    match (kind, buffer) {
                        (HogKind::Memory(share), Some(buffer)) => move_memory(buffer, share, &stop, &moved),
                        _ => compute(&stop),
                    }
                }));
            }
        }
        Ok(hogs)
    }

    /// Bytes that all of them have moved since they started.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A hog has nothing that could fail.
            let _ = thread.join();
        }
    }
}

/// Usable cpus by node.
fn usable(topology: &Topology) -> Vec<(NodeId, Vec<CpuId>)> {
    let of = |node: NodeId| {
        let cpus = topology.usable_cpus().iter().copied();
        cpus.filter(|cpu| topology.node_of_cpu(*cpu) == Some(node)).collect::<Vec<_>>()
    };
    let nodes = topology.nodes().iter().map(|node| (node.id, of(node.id)));
    nodes.filter(|(_, cpus)| !cpus.is_empty()).collect()
}

fn move_memory(mut buffer: Region, share: f64, stop: &AtomicBool, moved: &AtomicU64) {
    let mut value = 2;
    let mut spell = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        for words in buffer.words_mut::<u64>().chunks_mut(STEP_WORDS) {
            fill(words, value);
            moved.fetch_add(size_of_val(words) as u64, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let worked = spell.elapsed();
            if share < 1.0 && worked >= SPELL {
                std::thread::sleep(worked.mul_f64((1.0 - share) / share.max(0.01)));
                spell = Instant::now();
            }
        }
        value += 1;
    }
}

fn compute(stop: &AtomicBool) {
    let mut state = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_move_memory_until_they_are_dropped() {
        let topology = Topology::discover().expect("a machine");
        let hogs = Hogs::start(&topology, &[HogKind::Memory(0.5), HogKind::Computing]).expect("memory");
        let deadline = Instant::now() + Duration::from_secs(60);
        while hogs.moved_bytes() < 1 << 24 && Instant::now() < deadline {
            std::thread::sleep(SPELL);
        }
        assert!(hogs.moved_bytes() >= 1 << 24);
        let moved = hogs.moved.clone();
        drop(hogs);
        let after = moved.load(Ordering::Relaxed);
        std::thread::sleep(5 * SPELL);
        assert_eq!(moved.load(Ordering::Relaxed), after);
    }
}
