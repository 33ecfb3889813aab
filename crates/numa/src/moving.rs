//! Moves pages to where they shall lie, a few mebibytes at a time, while other threads read and write them.
//!
//! Every step asks the kernel where pages are, moves those that are elsewhere, and asks again: what a call claims to
//! have moved is not believed. Pages are taken from their target node only, never from another when it is full, and the
//! kernel kills nobody for it. Huge pages move whole; one that shall lie on two nodes is split first.
//!
//! # Limits
//! Huge pages that were split stay split until the kernel joins them again, also when a move is undone. Pages of this
//! process only. Where move_pages is refused nothing moves: everything that is elsewhere is told as stuck.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.3 (moving and interleaving ranges with move_pages).

use std::collections::BTreeMap;
use std::io;
use std::ops::{AddAssign, Range};

use thiserror::Error;

use crate::error::MemoryError;
use crate::ids::NodeId;
use crate::machine::Machine;
use crate::page_map::PageMap;
use crate::refusals::refused;
use crate::sys::mapping::HUGE_PAGE_BYTES;
use crate::sys::migrate::{move_pages, split_huge_page};
use crate::sys::scan::{PageTable, Stretch};
use crate::sys::{nodes_of_pages, page_bytes};

/// Bytes moved between two questions whether to stop; a multiple of huge pages. The kernel empties caches of all cpus
/// at every call, so much smaller steps cost more than the copying.
const STEP_BYTES: usize = 8 << 20;
/// How often a page that did not move is tried again: it may have been in use by the kernel for a moment.
const ATTEMPTS: usize = 4;
/// What users lose when pages cannot be moved.
const STUCK: &str = "pages stay on the nodes where they are";

/// What became of bytes that were to lie on other nodes. Bytes that nobody has touched yet are in none of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveReport {
    /// Moved to where they shall be.
    pub moved_bytes: u64,
    /// Were there before.
    pub already_bytes: u64,
    /// The kernel would not move them: the call is refused, the node may not be used, or a page is pinned.
    pub stuck_bytes: u64,
}

impl AddAssign for MoveReport {
    fn add_assign(&mut self, other: MoveReport) {
        self.moved_bytes += other.moved_bytes;
        self.already_bytes += other.already_bytes;
        self.stuck_bytes += other.stuck_bytes;
    }
}

/// Why a move was given up. Pages and policy are back where they were, as far as their old nodes still had room.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MoveError {
    /// It was told to stop.
    #[error("moving memory was stopped; it is back where it was")]
    Stopped,
    /// A node has no room for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Where pages shall lie.
pub(crate) enum MoveTarget<'a> {
    /// Ascending runs of addresses on one node; what is in none stays.
    Runs(Vec<(Range<usize>, NodeId)>),
    /// These nodes (ascending) page by page, as the kernel interleaves: by the number of the page in the address space.
    Turns {
        /// At least one.
        nodes: Vec<NodeId>,
        /// Whether the pages are huge ones, whatever they are now; otherwise those are split.
        huge: bool,
    },
    /// Where this map says that they were; what it does not know stays.
    Back(&'a PageMap),
}

/// One page that is there, as far as it lies within what is moved.
#[derive(Clone, Debug)]
struct Page {
    bytes: Range<usize>,
    to: NodeId,
}

impl MoveTarget<'_> {
    /// The node for the page at the start of these bytes, and up to which address that node is meant.
    fn of(&self, bytes: &Range<usize>) -> Option<(NodeId, usize)> {
        match self {
            MoveTarget::Runs(runs) => {
                let (run, node) = runs.get(runs.partition_point(|(run, _)| run.end <= bytes.start))?;
                run.contains(&bytes.start).then_some((*node, run.end))
            }
            MoveTarget::Turns { nodes, huge } => {
                let unit = if *huge { HUGE_PAGE_BYTES } else { page_bytes() };
                let turn = bytes.start / unit;
                Some((nodes[turn % nodes.len()], if nodes.len() == 1 { bytes.end } else { (turn + 1) * unit }))
            }
            MoveTarget::Back(map) => map.run_from(bytes.start).map(|(run, node)| (node, run.end)),
        }
    }

    /// How many bytes of `bytes` must come to each node, given where its pages are now. Pages that are nowhere yet
    /// count: they will need the room. `Back` needs what was there anyway.
    fn needs(&self, bytes: &Range<usize>, now: &PageMap) -> BTreeMap<NodeId, u64> {
        let mut needs: BTreeMap<NodeId, u64> = BTreeMap::new();
        match self {
            MoveTarget::Runs(runs) => {
                for (run, node) in runs {
                    let run = run.start.max(bytes.start)..run.end.min(bytes.end);
                    if !run.is_empty() {
                        let there = now.bytes_within(run.clone()).get(node).copied().unwrap_or(0);
                        *needs.entry(*node).or_insert(0) += (run.len() as u64).saturating_sub(there);
                    }
                }
            }
            MoveTarget::Turns { nodes, .. } => {
                let share = (bytes.len() as u64).div_ceil(nodes.len() as u64);
                let there = now.bytes_within(bytes.clone());
                for node in nodes {
                    needs.insert(*node, share.saturating_sub(there.get(node).copied().unwrap_or(0)));
                }
            }
            MoveTarget::Back(_) => {}
        }
        needs.retain(|_, bytes| *bytes > 0);
        needs
    }
}

/// Asks whether each node has room for what shall come to it.
///
/// # Errors
/// `Memory` with the node that has not.
pub(crate) fn check_room(
    bytes: &Range<usize>,
    target: &MoveTarget<'_>,
    before: &PageMap,
    machine: &Machine,
) -> Result<(), MoveError> {
    for (node, needed) in target.needs(bytes, before) {
        machine.ask_node(node, needed)?;
    }
    Ok(())
}

/// Moves the pages of `bytes` (whole pages) to where they shall lie. `before` says where they are now; `stop` is asked
/// between steps.
///
/// # Errors
/// `Stopped`, or `Memory` with the node that is full; the pages are then back where `before` says.
pub(crate) fn move_to(
    bytes: &Range<usize>,
    target: &MoveTarget<'_>,
    before: &PageMap,
    machine: &Machine,
    stop: &dyn Fn() -> bool,
) -> Result<MoveReport, MoveError> {
    let table = PageTable::open();
    let mut sum = MoveReport::default();
    for step in steps(bytes) {
        let result = if stop() { Err(MoveError::Stopped) } else { move_step(&step, target, &table, machine) };
        match result {
            Ok(moved) => sum += moved,
            Err(error) => {
                move_back(&(bytes.start..step.end), before, machine);
                return Err(error);
            }
        }
    }
    Ok(sum)
}

/// Moves the pages of `bytes` to where `before` says that they were, as far as that can be done.
pub(crate) fn move_back(bytes: &Range<usize>, before: &PageMap, machine: &Machine) -> MoveReport {
    let target = MoveTarget::Back(before);
    let table = PageTable::open();
    let mut sum = MoveReport::default();
    for step in steps(bytes) {
        // A node that was filled by others meanwhile keeps no other step from being taken back.
        sum += move_step(&step, &target, &table, machine).unwrap_or_default();
    }
    sum
}

/// Pieces of [`STEP_BYTES`], but for the first and the last: they end where huge pages do.
fn steps(bytes: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *bytes;
    let mut next = start;
    std::iter::from_fn(move || {
        let from = next;
        next = (from / STEP_BYTES * STEP_BYTES).saturating_add(STEP_BYTES).min(end);
        (from < end).then_some(from..next)
    })
}

fn move_step(
    bytes: &Range<usize>,
    target: &MoveTarget<'_>,
    table: &Option<PageTable>,
    machine: &Machine,
) -> Result<MoveReport, MoveError> {
    let mut sum = MoveReport::default();
    let mut wrong: Vec<Page> = Vec::new();
    let mut wrong_at_first = 0;
    let mut tried = Ok(());
    for attempt in 0..ATTEMPTS {
        if attempt > 1 {
            // Pages larger than they look go wherever one of their parts was sent last.
            wrong.iter().for_each(|page| split_huge_page(page.bytes.start));
        }
        let pages = pages_of(bytes, target, table);
        let all = size_of_pages(&pages);
        wrong = match misplaced(pages) {
            Ok(wrong) => wrong,
            Err(error) => {
                refused("move_pages", &error, STUCK);
                return Ok(MoveReport { stuck_bytes: all, ..sum });
            }
        };
        if attempt == 0 {
            wrong_at_first = size_of_pages(&wrong);
            sum.already_bytes = all - wrong_at_first;
        }
        if wrong.is_empty() {
            break;
        }
        // The kernel copies pages in batches for as long as their target is the same.
        wrong.sort_by_key(|page| page.to);
        tried = send(&wrong);
        wrong = misplaced(wrong.clone()).unwrap_or(wrong);
        if tried.is_err() || wrong.is_empty() {
            break;
        }
    }
    sum.stuck_bytes = size_of_pages(&wrong);
    sum.moved_bytes = wrong_at_first.saturating_sub(sum.stuck_bytes);
    let mut stuck: BTreeMap<NodeId, u64> = BTreeMap::new();
    wrong
        .iter()
        .filter(|_| tried.is_ok())
        .for_each(|page| *stuck.entry(page.to).or_insert(0) += page.bytes.len() as u64);
    for (node, bytes) in stuck {
        machine.ask_node(node, bytes)?;
    }
    Ok(sum)
}

/// The pages of `bytes` that are there and have a node to lie on. Huge pages that shall lie on several are split.
fn pages_of(bytes: &Range<usize>, target: &MoveTarget<'_>, table: &Option<PageTable>) -> Vec<Page> {
    let scan = || match table {
        Some(table) => table.present(bytes),
        None => vec![Stretch { bytes: bytes.clone(), huge: false }],
    };
    let (pages, cut) = pages_in(scan(), target);
    if cut.is_empty() {
        return pages;
    }
    cut.into_iter().for_each(split_huge_page);
    // What the kernel would not split moves as a whole, to the node of its first byte.
    pages_in(scan(), target).0
}

/// The pages of these stretches, and one page of each huge one that must be split first. That may be one that does not
/// look huge: where policies or protections differ, or the kernel does not tell, its parts look like base pages, but
/// still move as one.
fn pages_in(stretches: Vec<Stretch>, target: &MoveTarget<'_>) -> (Vec<Page>, Vec<usize>) {
    let mut pages = Vec::new();
    let mut cut = Vec::new();
    for Stretch { bytes, huge } in stretches {
        let unit = if huge { HUGE_PAGE_BYTES } else { page_bytes() };
        let mut start = bytes.start;
        while start < bytes.end {
            let page = start..((start / unit + 1) * unit).min(bytes.end);
            start = page.end;
            let Some((to, until)) = target.of(&page) else { continue };
            if huge && (until < page.end || page.len() < HUGE_PAGE_BYTES) {
                cut.push(page.start);
            }
            pages.push(Page { bytes: page, to });
        }
    }
    let huge_page = |page: &Page| page.bytes.start / HUGE_PAGE_BYTES;
    for block in pages.chunk_by(|a, b| huge_page(a) == huge_page(b)).filter(|block| block.len() > 1) {
        let whole = block.iter().map(|page| page.bytes.len()).sum::<usize>() == HUGE_PAGE_BYTES;
        if !(whole && block.iter().all(|page| page.to == block[0].to)) {
            cut.push(block[0].bytes.start);
        }
    }
    (pages, cut)
}

/// Those of the pages that are on another node than they shall be.
fn misplaced(mut pages: Vec<Page>) -> io::Result<Vec<Page>> {
    let addresses: Vec<usize> = pages.iter().map(|page| page.bytes.start).collect();
    let mut nodes = Vec::with_capacity(addresses.len());
    nodes_of_pages(&addresses, &mut nodes)?;
    let mut nodes = nodes.into_iter();
    // A page that is gone by now is not misplaced.
    pages.retain(|page| nodes.next().flatten().is_some_and(|node| NodeId(node) != page.to));
    Ok(pages)
}

/// Asks the kernel to move these pages, and again node by node where it stumbles over one of the nodes.
fn send(pages: &[Page]) -> io::Result<()> {
    let call = |pages: &mut dyn Iterator<Item = &Page>| {
        let (addresses, nodes): (Vec<usize>, Vec<u32>) = pages.map(|page| (page.bytes.start, page.to.0)).unzip();
        move_pages(&addresses, &nodes)
    };
    let first = call(&mut pages.iter());
    if first.is_ok() {
        return first;
    }
    let mut nodes: Vec<NodeId> = pages.iter().map(|page| page.to).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut result = Ok(());
    for node in nodes {
        match call(&mut pages.iter().filter(|page| page.to == node)) {
            // No memory there: whether that node is full is asked by the caller.
            Err(error) if error.raw_os_error() != Some(libc::ENOMEM) => {
                refused("move_pages", &error, STUCK);
                result = Err(error);
            }
            _ => {}
        }
    }
    result
}

fn size_of_pages(pages: &[Page]) -> u64 {
    pages.iter().map(|page| page.bytes.len() as u64).sum()
}

#[cfg(test)]
mod tests;
