//! Data-oriented units: keyed reads and writes on data that each unit owns alone.
//!
//! A [`tree::Tree`] is the ordered map of one partition. Its [`tree::Owner`] is the right to change it, held by one
//! thread at a time; everybody else reads the newest committed state, or an older one, without a latch and without
//! asking the owner ([`versions::Versions::pin`]).
//!
//! ```
//! use std::sync::Arc;
//! use numa::Allocator;
//! use units::arena::Arena;
//! use units::tree::{Change, Owner};
//! use units::versions::Versions;
//!
//! let versions = Versions::new();
//! let mut owner = Owner::new(Arc::new(Arena::new(Allocator::unplaced())), Arc::clone(&versions), 8);
//! let tree = Arc::clone(owner.tree());
//!
//! let write = versions.begin().unwrap();
//! owner.change(7, Change::Put(70), &write).unwrap();
//! assert_eq!(tree.get(7, &versions.pin()), None); // nobody sees it before it is committed
//! write.commit();
//! assert_eq!(tree.get(7, &versions.pin()), Some(70));
//! ```
//!
//! Invariants: readers never wait for a writer to finish a statement; a statement's changes become visible together;
//! what a reader may still need is not reused.
//!
//! Under loom there is what its models run, and no memory of regions: units and stores are left out.
//!
//! # Limits
//! docs/design/units.md says what is built and what is not.
//!
//! Source: Kissinger et al., ADMS 2014 (ERIS), section 3.

pub mod arena;
pub mod balancer;
#[cfg(not(loom))]
pub mod bench;
#[cfg(not(loom))]
pub mod read;
#[cfg(not(loom))]
pub mod request;
pub mod routing;
#[cfg(not(loom))]
pub mod store;
pub mod tree;
pub mod versions;

#[cfg(not(loom))]
mod bell;
#[cfg(all(test, not(loom)))]
mod journal;
#[cfg(not(loom))]
mod monitor;
mod primitive;
#[cfg(test)]
mod scale;
#[cfg(not(loom))]
mod unit;
mod waiter;
