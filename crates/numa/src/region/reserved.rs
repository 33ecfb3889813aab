//! Reserved ranges: addresses first, memory later, for what grows in place.
//!
//! Invariants: only committed bytes can be reached, and exactly they count in the budget and in the usage; a range never
//! changes its address. The policy's cuts follow the whole range, so a part lies on the same node whenever it is committed.
//!
//! # Limits
//! Every boundary between committed and other parts, and between runs of a policy, costs a mapping of the kernel.

use std::ops::Range;

use super::allocator::{Allocator, system};
use super::shares_of;
use crate::budget::Reservation;
use crate::error::MemoryError;
use crate::ids::NodeId;
use crate::machine::Bound;
use crate::policy::Policy;
use crate::sys::memory::Word;
use crate::sys::page_bytes;
use crate::sys::reserved::Addresses;
use crate::usage::{Counts, UsageKind};

/// A range of addresses; see the module's invariants. Made by [`Allocator::reserve_range`].
#[derive(Debug)]
pub struct Reserved {
    addresses: Option<Addresses>,
    len_bytes: usize,
    allocator: Allocator,
    reservation: Option<Reservation>,
    parts: Vec<Part>,
}

/// Committed pages and what was asked of the kernel for them.
#[derive(Debug)]
struct Part {
    pages: Range<u64>,
    policy: Policy,
    bounds: Vec<Bound>,
}

impl Reserved {
    pub(super) fn new(allocator: &Allocator, len_bytes: usize) -> Result<Reserved, MemoryError> {
        let reserve = |len| Addresses::reserve(len, allocator.pages(len));
        let addresses = (len_bytes > 0).then(|| reserve(len_bytes)).transpose();
        let addresses = addresses.map_err(|error| system(len_bytes as u64, error))?;
        let reservation = allocator.reserve(0)?;
        Ok(Reserved { addresses, len_bytes, allocator: allocator.clone(), reservation, parts: Vec::new() })
    }

    /// Its length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.len_bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// The address of its first byte, for the page map; a multiple of the page size, 64 where it is empty.
    pub fn address(&self) -> usize {
        self.addresses.as_ref().map_or(64, Addresses::address)
    }

    /// Bytes that are memory now: whole pages.
    pub fn committed_bytes(&self) -> usize {
        self.addresses.as_ref().map_or(0, Addresses::committed_bytes)
    }

    /// Makes the pages that hold these bytes memory, zeroed; what is committed already stays as it is. Checks and charges
    /// only what is new.
    ///
    /// # Errors
    /// [`MemoryError`] as for a region, and for bytes beyond its end; then nothing is committed that was not before.
    pub fn commit(&mut self, bytes: Range<usize>) -> Result<(), MemoryError> {
        if bytes.end > self.len_bytes {
            let reason = format!("bytes {}..{} of a reserved range of {}", bytes.start, bytes.end, self.len_bytes);
            return Err(MemoryError::System { requested_bytes: bytes.len() as u64, reason });
        }
        let Some(addresses) = self.addresses.as_ref().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let gaps = addresses.gaps(addresses.pages(&bytes, false));
        let mut done: Vec<Range<usize>> = Vec::new();
        for gap in gaps {
            if let Err(error) = self.commit_gap(gap.clone()) {
                for gap in done {
                    // It was committed a moment ago, so nothing new is needed to undo that.
                    let _ = self.decommit(gap);
                }
                return Err(error);
            }
            done.push(gap);
        }
        Ok(())
    }

    /// Gives the memory of all whole pages within these bytes back, with their share of the budget. They read as zero when
    /// they are committed again.
    ///
    /// # Errors
    /// [`MemoryError::System`] when the kernel keeps them; they are then still committed.
    pub fn decommit(&mut self, bytes: Range<usize>) -> Result<(), MemoryError> {
        let bytes = bytes.start..bytes.end.min(self.len_bytes);
        let Some(addresses) = &mut self.addresses else { return Ok(()) };
        // The last page is a whole one of ours, even where the length ends within it.
        let end = if bytes.end == self.len_bytes { bytes.end.next_multiple_of(page_bytes()) } else { bytes.end };
        let pages = addresses.pages(&(bytes.start..end), true);
        if pages.is_empty() {
            return Ok(());
        }
        let before = addresses.committed_bytes();
        addresses.decommit(pages.clone()).map_err(|error| system(pages.len() as u64, error))?;
        let freed = (before - addresses.committed_bytes()) as u64;
        self.count(Counts::take);
        self.cut_out(pages.start as u64..pages.end as u64);
        self.count(Counts::add);
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(freed);
        }
        Ok(())
    }

    /// These bytes; `None` unless all of them are committed.
    pub fn bytes(&self, bytes: Range<usize>) -> Option<&[u8]> {
        self.words(bytes)
    }

    /// These bytes, to write; `None` unless all of them are committed.
    pub fn bytes_mut(&mut self, bytes: Range<usize>) -> Option<&mut [u8]> {
        self.words_mut(bytes)
    }

    /// Words of the machine's byte order, counted from the start in words; `None` unless all their bytes are committed.
    pub fn words<T: Word>(&self, words: Range<usize>) -> Option<&[T]> {
        self.addresses.as_ref()?.words(words)
    }

    /// Words of the machine's byte order, to write; `None` unless all their bytes are committed.
    pub fn words_mut<T: Word>(&mut self, words: Range<usize>) -> Option<&mut [T]> {
        self.addresses.as_mut()?.words_mut(words)
    }

    fn commit_gap(&mut self, gap: Range<usize>) -> Result<(), MemoryError> {
        let laid_out_bytes = self.laid_out_bytes();
        let Some(addresses) = &mut self.addresses else { return Ok(()) };
        let pages = gap.start as u64..gap.end as u64;
        let mut more = self.allocator.reserve(pages.end - pages.start)?;
        let plan = self.allocator.plan(laid_out_bytes, pages.clone())?;
        let machine = self.allocator.machine();
        let bounds = plan.carry_out(machine, |bytes, mode, nodes| addresses.bind(bytes, mode, nodes))?;
        addresses.commit(gap).map_err(|error| system(pages.end - pages.start, error))?;
        if let (Some(all), Some(more)) = (&mut self.reservation, &mut more) {
            all.join(more);
        }
        let part = Part { pages, policy: plan.policy, bounds };
        self.count_part(&part, &Counts::add);
        let at = self.parts.partition_point(|p| p.pages.start < part.pages.start);
        self.parts.insert(at, part);
        Ok(())
    }

    /// The length that the policy's cuts follow: whole pages.
    fn laid_out_bytes(&self) -> u64 {
        self.len_bytes.next_multiple_of(page_bytes()) as u64
    }

    /// Takes pages out of the parts; a part may fall into two.
    fn cut_out(&mut self, pages: Range<u64>) {
        let laid_out_bytes = self.laid_out_bytes();
        let machine = self.allocator.machine();
        let mut kept = Vec::with_capacity(self.parts.len() + 1);
        for mut part in std::mem::take(&mut self.parts) {
            let after = part.pages.start.max(pages.end)..part.pages.end;
            let before = part.pages.start..part.pages.end.min(pages.start);
            if !after.is_empty() && !before.is_empty() {
                let shares = shares_of(&part.policy, laid_out_bytes, after.clone());
                let bounds = part.bounds.iter().map(|b| machine.bound(b.node(), share(&shares, b.node())));
                kept.push(Part { pages: after.clone(), policy: part.policy.clone(), bounds: bounds.collect() });
            }
            let rest = if before.is_empty() { after } else { before };
            if rest.is_empty() {
                continue;
            }
            let shares = shares_of(&part.policy, laid_out_bytes, rest.clone());
            for bound in &mut part.bounds {
                bound.shrink_to(share(&shares, bound.node()));
            }
            kept.push(Part { pages: rest, ..part });
        }
        kept.sort_unstable_by_key(|part| part.pages.start);
        self.parts = kept;
    }

    fn count(&self, change: impl Fn(&Counts, Option<NodeId>, UsageKind, u64)) {
        for part in &self.parts {
            self.count_part(part, &change);
        }
    }

    fn count_part(&self, part: &Part, change: &impl Fn(&Counts, Option<NodeId>, UsageKind, u64)) {
        let counts = Counts::of(self.reservation.as_ref());
        let bytes = part.pages.end - part.pages.start;
        let only_node = self.allocator.machine().only_node();
        let shares = shares_of(&part.policy, self.laid_out_bytes(), part.pages.clone());
        if only_node.is_some() || shares.is_empty() {
            return change(counts, only_node, UsageKind::Region, bytes);
        }
        for (node, bytes) in shares {
            change(counts, Some(node), UsageKind::Region, bytes);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count(Counts::take);
    }
}

fn share(shares: &std::collections::BTreeMap<NodeId, u64>, node: NodeId) -> u64 {
    shares.get(&node).copied().unwrap_or(0)
}
