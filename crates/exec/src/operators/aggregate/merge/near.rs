//! Where pieces of groups are merged, and what is merged before: groups of workers of one node.
//!
//! A piece is merged by one task, which reads what each worker has of it. It runs on the node that has the most of the
//! piece, its *home*: all of it where keys are clustered as rows are, so that nothing crosses the interconnect; where
//! all nodes have about as much of all pieces, homes are dealt out evenly. What the other nodes have crosses once per
//! worker, so their workers' groups are merged on their own nodes before, and cross once per node. That helps if they
//! are the same groups. Entries of arrays by key are, for sure; of other groups nobody knows before they are merged. A
//! task that finds that most are different gives up, and with it all others of its node.
//!
//! # Limits
//! Functions that keep all values of a group keep as many when they are merged: nothing is merged before.
//!
//! Source: two phases of grouping, Leis et al., SIGMOD 2014, section 4.4; the merge per node is ours.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use numa::{NodeId, Reservation};

use super::{key_of, places, united};
use crate::ExecError;
use crate::keys::group::GroupKey;
use crate::operators::aggregate::calls::States;
use crate::operators::aggregate::groups::Pick;
use crate::operators::aggregate::state::State;
use crate::operators::aggregate::table::Table;
use crate::operators::aggregate::{Grouping, too_many};
use crate::tasks::traffic;

/// A node has about as much of a piece as another one if it has one in `n` of its bytes.
const ABOUT_AS_MUCH: u64 = 2;
/// Merging before pays if one in `n` groups of a node's workers is left at most: those are merged once more, which is
/// taken to cost as much as a group saves that does not cross.
const SAME_GROUPS: usize = 2;
/// Nanoseconds to merge a group; a guess of the order of magnitude.
const GROUP_NS: u64 = 5;

/// What a worker has, cut into pieces.
pub(super) struct Input<'a, K> {
    /// By group; nothing where groups are entries of an array by key.
    pub(super) keys: &'a [K],
    /// Which entries of the array have rows, where no count tells; `None` where there is no array.
    pub(super) seen: Option<&'a [bool]>,
    /// Sealed.
    pub(super) states: &'a States,
    /// Piece `p` has the groups `starts[p]..starts[p + 1]`.
    pub(super) starts: Vec<usize>,
    /// Where it lies.
    pub(super) node: Option<NodeId>,
}

/// How groups find each other.
#[derive(Clone, Copy)]
pub(super) enum Joining {
    /// There is one.
    One,
    /// Keys of each input ascend, or there is one input.
    Ordered,
    /// Keys come in no order.
    Hashed,
    /// Keys are entries of an array, of which a piece has `size`.
    Array { size: usize, domain: usize },
}

/// Some groups of a piece.
#[derive(Clone)]
struct Share<'a, K> {
    keys: &'a [K],
    seen: Option<&'a [bool]>,
    states: &'a States,
    groups: Range<usize>,
    node: Option<NodeId>,
    bytes: u64,
}

/// What a node's workers have of a piece, merged.
struct NodeGroups<K> {
    keys: Vec<K>,
    /// Which entries have rows, where keys are entries.
    seen: Option<Vec<bool>>,
    states: States,
    node: NodeId,
    bytes: u64,
    _held: Reservation,
}

/// Merges each piece and hands it to `end`.
pub(super) fn merged<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    inputs: &[Input<'_, K>],
    joining: Joining,
    rows: u64,
    end: &super::End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let pieces = inputs.first().map_or(0, |input| input.starts.len() - 1);
    let homes = homes(sink, inputs, pieces);
    let first = node_first(sink, inputs, joining, &homes, rows)?;
    let body = |piece: usize| {
        let merged_before = |share: &Share<'_, K>| first[piece].iter().any(|groups| Some(groups.node) == share.node);
        let others = shares_of(inputs, piece).filter(|share| !merged_before(share));
        let shares: Vec<Share<'_, K>> = first[piece].iter().map(NodeGroups::share).chain(others).collect();
        shares.iter().for_each(Share::note);
        let (keys, states) = joining.merge(sink, piece, &shares, rows)?;
        end(&keys, states)
    };
    if let (Joining::One, [None]) = (joining, &homes[..]) {
        return Ok(vec![body(0)?]);
    }
    let cost_of = |piece: usize| match homes[piece] {
        Some(_) => cost_of(shares_of(inputs, piece)),
        None => (0, 0),
    };
    sink.run.map_near(pieces, &|piece| homes[piece], &cost_of, &body)
}

/// What every worker has of a piece, if anything.
fn shares_of<'a, K>(inputs: &'a [Input<'a, K>], piece: usize) -> impl Iterator<Item = Share<'a, K>> {
    let of = move |input: &'a Input<'a, K>| {
        let groups = input.starts[piece]..input.starts[piece + 1];
        let keys = if input.seen.is_some() { &[] } else { &input.keys[groups.clone()] };
        let bytes = u128::from(input.states.bytes()) * groups.len() as u128 / input.states.groups.max(1) as u128;
        let bytes = bytes as u64 + size_of_val(keys) as u64;
        Share { keys, seen: input.seen, states: input.states, groups, node: input.node, bytes }
    };
    inputs.iter().map(of).filter(|share| !share.groups.is_empty())
}

/// Bytes and nanoseconds that it takes to merge them.
fn cost_of<'a, K: 'a>(shares: impl Iterator<Item = Share<'a, K>>) -> (u64, u64) {
    shares.fold((0, 0), |(bytes, ns), share| (bytes + share.bytes, ns + share.groups.len() as u64 * GROUP_NS))
}

/// Where each piece is merged.
fn homes<K: GroupKey>(sink: &Grouping<'_, K>, inputs: &[Input<'_, K>], pieces: usize) -> Vec<Option<NodeId>> {
    let bytes: u64 = inputs.iter().map(|input| input.states.bytes() + size_of_val(input.keys) as u64).sum();
    if !sink.run.places.have_nodes() || bytes < sink.little_bytes {
        return vec![None; pieces];
    }
    let mut dealt: BTreeMap<NodeId, u64> = BTreeMap::new();
    let home = |piece| {
        let mut on: BTreeMap<NodeId, u64> = BTreeMap::new();
        for share in shares_of(inputs, piece) {
            share.node.into_iter().for_each(|node| *on.entry(node).or_default() += share.bytes);
        }
        let most = on.values().max().copied()?;
        let near = on.iter().filter(|(_, bytes)| ABOUT_AS_MUCH * **bytes >= most);
        let home = near.map(|(node, _)| *node).min_by_key(|node| dealt.get(node).copied().unwrap_or(0))?;
        *dealt.entry(home).or_default() += on.values().sum::<u64>();
        Some(home)
    };
    (0..pieces).map(home).collect()
}

/// Of each piece the groups that are merged before, on nodes that are not its home.
fn node_first<K: GroupKey>(
    sink: &Grouping<'_, K>,
    inputs: &[Input<'_, K>],
    joining: Joining,
    homes: &[Option<NodeId>],
    rows: u64,
) -> Result<Vec<Vec<NodeGroups<K>>>, ExecError> {
    let mut first: Vec<Vec<NodeGroups<K>>> = homes.iter().map(|_| Vec::new()).collect();
    let tasks = worth_merging(sink, inputs, homes);
    if tasks.is_empty() {
        return Ok(first);
    }
    let nodes: BTreeMap<NodeId, AtomicBool> = tasks.iter().map(|(_, node)| (*node, AtomicBool::new(false))).collect();
    let of_node =
        |(piece, node): (usize, NodeId)| shares_of(inputs, piece).filter(move |share| share.node == Some(node));
    let made = sink.run.map_near(
        tasks.len(),
        &|task| Some(tasks[task].1),
        &|task| cost_of(of_node(tasks[task])),
        &|task| {
            let (piece, node) = tasks[task];
            if nodes[&node].load(Relaxed) {
                return Ok(None);
            }
            let shares: Vec<Share<'_, K>> = of_node(tasks[task]).collect();
            let groups = joining.merge_on_node(sink, piece, node, &shares, rows)?;
            if groups.is_none() {
                nodes[&node].store(true, Relaxed);
            }
            Ok(groups)
        },
    )?;
    for ((piece, _), groups) in tasks.iter().zip(made) {
        first[*piece].extend(groups);
    }
    Ok(first)
}

/// Which pieces may be worth merging on which nodes before, if it saves enough.
fn worth_merging<K: GroupKey>(
    sink: &Grouping<'_, K>,
    inputs: &[Input<'_, K>],
    homes: &[Option<NodeId>],
) -> Vec<(usize, NodeId)> {
    let mut tasks = Vec::new();
    let mut saved = 0;
    if sink.calls.has_lists() || homes.iter().all(Option::is_none) {
        return tasks;
    }
    for (piece, home) in homes.iter().enumerate() {
        // How many, all bytes and those of the largest, by node.
        let mut on: BTreeMap<NodeId, (usize, u64, u64)> = BTreeMap::new();
        for share in shares_of(inputs, piece).filter(|share| share.node != *home) {
            let Some(node) = share.node else { continue };
            let (count, all, largest) = on.entry(node).or_default();
            *count += 1;
            *all += share.bytes;
            *largest = share.bytes.max(*largest);
        }
        for (node, (_, all, largest)) in on.into_iter().filter(|(_, (count, ..))| *count > 1) {
            saved += all - largest;
            tasks.push((piece, node));
        }
    }
    if saved < sink.little_bytes {
        tasks.clear();
    }
    tasks
}

impl<K> Share<'_, K> {
    /// Tells the account of the task on this thread that it reads them.
    fn note(&self) {
        traffic::note_kept_read(traffic::GROUPS, self.node, self.bytes);
    }
}

impl<K> NodeGroups<K> {
    fn share(&self) -> Share<'_, K> {
        let groups = 0..self.states.groups;
        let (node, bytes) = (Some(self.node), self.bytes);
        Share { keys: &self.keys, seen: self.seen.as_deref(), states: &self.states, groups, node, bytes }
    }
}

impl Joining {
    /// The groups of all shares, each once.
    fn merge<K: GroupKey>(
        self,
        sink: &Grouping<'_, K>,
        piece: usize,
        shares: &[Share<'_, K>],
        rows: u64,
    ) -> Result<(Vec<K>, States), ExecError> {
        let Joining::Array { size, .. } = self else {
            let merged = self.merge_listed(sink, shares, rows, usize::MAX)?;
            return Ok(merged.expect("any number of groups will do"));
        };
        let (mut states, present) = self.merge_entries(sink, piece, shares, rows)?;
        let live: Vec<u32> = (0..present.len() as u32).filter(|&g| present[g as usize]).collect();
        let keys: Vec<K> = live.iter().map(|&g| key_of(piece * size + g as usize)).collect();
        if live.len() < present.len() {
            let mut packed = sink.calls.states(live.len(), rows)?;
            sink.calls.take_over(&mut packed, &mut states, &Pick::List(&live), None)?;
            states = packed;
        }
        Ok((keys, states))
    }

    /// The same of the shares of one node, to be merged again; `None` where that does not pay.
    fn merge_on_node<K: GroupKey>(
        self,
        sink: &Grouping<'_, K>,
        piece: usize,
        node: NodeId,
        shares: &[Share<'_, K>],
        rows: u64,
    ) -> Result<Option<NodeGroups<K>>, ExecError> {
        // Before there is anything: what is merged takes no more than what it is merged of.
        let most = shares.iter().map(|share| share.bytes).sum();
        let Some(held_before) = sink.run.reserve_help(most) else { return Ok(None) };
        let (keys, seen, mut states) = match self {
            Joining::Array { .. } => {
                let (states, present) = self.merge_entries(sink, piece, shares, rows)?;
                let seen = if sink.calls.row_count().is_some() { Vec::new() } else { present };
                (Vec::new(), Some(seen), states)
            }
            _ => {
                let all: usize = shares.iter().map(|share| share.groups.len()).sum();
                let most = if matches!(self, Joining::One) { all } else { all / SAME_GROUPS };
                let Some((keys, states)) = self.merge_listed(sink, shares, rows, most)? else { return Ok(None) };
                (keys, None, states)
            }
        };
        sink.calls.seal(&mut states)?;
        let bytes = states.bytes() + size_of_val(&keys[..]) as u64;
        drop(held_before);
        let Some(held) = sink.run.reserve_help(bytes) else { return Ok(None) };
        shares.iter().for_each(Share::note);
        traffic::note_kept(traffic::GROUPS, bytes);
        Ok(Some(NodeGroups { keys, seen, states, node, bytes, _held: held }))
    }

    /// Groups that have keys; `None` where there are more than `most`.
    fn merge_listed<K: GroupKey>(
        self,
        sink: &Grouping<'_, K>,
        shares: &[Share<'_, K>],
        rows: u64,
        most: usize,
    ) -> Result<Option<(Vec<K>, States)>, ExecError> {
        let mut targets: Vec<Option<Vec<u32>>> = vec![None; shares.len()];
        let keys = match self {
            Joining::One => vec![K::default()],
            Joining::Ordered => {
                let keys = shares.iter().fold(Vec::new(), |all, share| united(all, share.keys));
                for (share, targets) in shares.iter().zip(&mut targets).filter(|(s, _)| s.keys.len() < keys.len()) {
                    *targets = Some(places(share.keys, &keys));
                }
                keys
            }
            _ => {
                let lengths = || shares.iter().map(|share| share.groups.len());
                too_many(lengths().sum())?;
                let mut table = Table::<K>::with_groups(lengths().max().unwrap_or(0));
                for (share, targets) in shares.iter().zip(&mut targets) {
                    table.groups(share.keys, targets.insert(Vec::new()));
                }
                table.into_keys()
            }
        };
        if keys.len() > most {
            return Ok(None);
        }
        let mut states = sink.calls.states(keys.len(), rows)?;
        for (share, targets) in shares.iter().zip(&targets) {
            sink.calls.merge(&mut states, share.states, &Pick::Range(share.groups.clone()), targets.as_deref())?;
        }
        Ok(Some((keys, states)))
    }

    /// The entries of a piece of an array, and which of them have rows.
    fn merge_entries<K: GroupKey>(
        self,
        sink: &Grouping<'_, K>,
        piece: usize,
        shares: &[Share<'_, K>],
        rows: u64,
    ) -> Result<(States, Vec<bool>), ExecError> {
        let Joining::Array { size, domain } = self else { unreachable!("only arrays have entries") };
        let range = piece * size..((piece + 1) * size).min(domain);
        let mut present = vec![false; range.len()];
        let mut states = sink.calls.states(range.len(), rows)?;
        for share in shares {
            let pick = Pick::Range(share.groups.clone());
            if let Some(seen) = share.seen {
                mark(share.states, sink.calls.row_count(), seen, share.groups.clone(), &mut present);
                sink.calls.merge(&mut states, share.states, &pick, None)?;
                continue;
            }
            let target = |key: &K| (key.low() as usize - range.start) as u32;
            let targets: Vec<u32> = share.keys.iter().map(target).collect();
            targets.iter().for_each(|&t| present[t as usize] = true);
            sink.calls.merge(&mut states, share.states, &pick, Some(&targets))?;
        }
        Ok((states, present))
    }
}

/// Which entries of an array have rows: a count tells, or else `seen` does.
fn mark(states: &States, counts: Option<usize>, seen: &[bool], range: Range<usize>, present: &mut [bool]) {
    match counts.map(|c| &states.states[c]) {
        Some(State::Count(counts)) => {
            present.iter_mut().zip(&counts[range]).for_each(|(p, &count)| *p |= count > 0);
        }
        _ => present.iter_mut().zip(&seen[range]).for_each(|(p, &seen)| *p |= seen),
    }
}

#[cfg(test)]
mod tests;
