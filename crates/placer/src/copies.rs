//! Copies of what is small, read from other nodes and hardly written: of whole items, and of dictionaries.
//!
//! A task that joins a large table with a small one runs beside the large one; what results look up in a dictionary
//! lies on all nodes of a divided column. Copies on these nodes make such reads local. Each costs its bytes and has to
//! be written too, so they are for what takes next to nothing of the memory that is free and stays as it is; they go
//! again where it is written after all, or a node with one is nearly full.
//!
//! Invariant: what is copied once is not divided, moved or balanced until its copies are gone.

use crate::decision::{Copies, Reason};
use crate::group::Scene;
use crate::history::History;
use crate::limits::{
    COLD_PERIODS, COPIES_REMOTE_MIN, COPY_FREE_MAX, DICTIONARY_REMOTE_MIN, HORIZON_PERIODS, SLIGHT_PERIODS,
    UNBALANCED_PERIODS,
};
use crate::memory::Memory;
use crate::{Item, Lies, Node};

/// What is to lie on nodes, with copies or without them from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copied {
    /// Its place among the items.
    pub(crate) item: usize,
    pub(crate) to: Vec<usize>,
    pub(crate) copies: Copies,
    pub(crate) reason: Reason,
    /// Bytes that are copied of each of its items.
    pub(crate) bytes: Vec<u64>,
}

/// Copies that go, as they are written, or a node that has one is nearly full.
pub(crate) fn dropped(scene: &Scene, history: &History, memory: &Memory, used: &dyn Fn(usize) -> f64) -> Vec<Copied> {
    let mut dropped = Vec::new();
    for (item, members) in scene.members.iter().enumerate() {
        let has_any = |member: &Item| matches!(member.lies, Lies::Replicated(_)) || member.dictionary.is_copied;
        let on = nodes_of(members);
        let is_written = members.iter().any(|member| history.written_for(member.id) >= UNBALANCED_PERIODS);
        let is_full = on.iter().any(|node| memory.is_full(&scene.nodes[*node]));
        let may = members.iter().all(|member| !member.is_users && history.may_decide(member));
        if !members.iter().any(has_any) || !(is_written || is_full) || !may {
            continue;
        }
        // Of ranges with copies of a dictionary the ranges stay.
        let is_whole = members.iter().any(|member| matches!(member.lies, Lies::Replicated(_)));
        let least = on.iter().copied().min_by(|a, b| used(*a).total_cmp(&used(*b)).then(a.cmp(b)));
        let to = if is_whole { least.into_iter().collect() } else { on };
        let (copies, bytes) = (Copies::None, vec![0; members.len()]);
        dropped.push(Copied { item, to, copies, reason: Reason::CopiesCost { is_written }, bytes });
    }
    dropped
}

/// What gets copies.
pub(crate) fn made(scene: &Scene, history: &History, memory: &Memory) -> Vec<Copied> {
    if history.still() < SLIGHT_PERIODS {
        return Vec::new();
    }
    let with_cpus: Vec<usize> = (0..scene.nodes.len()).filter(|node| scene.nodes[*node].cpus > 0.0).collect();
    let mut made = Vec::new();
    for (item, members) in scene.members.iter().enumerate() {
        let is_placed = |member: &Item| {
            let stays =
                !member.is_users && history.may_decide(member) && history.unwritten_for(member.id) >= COLD_PERIODS;
            stays && matches!(&member.lies, Lies::Ranges(on) if on.iter().all(|node| with_cpus.contains(node)))
        };
        if !members.iter().all(is_placed) {
            continue;
        }
        let sum = |of: &dyn Fn(&Item) -> f64| members.iter().map(of).sum::<f64>();
        let all = sum(&|member| history.read(member.id).all);
        let takes = |nodes: &[usize], bytes: f64| nodes.iter().all(|node| has_room(&scene.nodes[*node], memory, bytes));
        let pays = |remote: f64, bytes: f64, nodes: usize| {
            remote * scene.seconds * HORIZON_PERIODS >= 2.0 * bytes * nodes.saturating_sub(1) as f64
        };
        let (bytes, remote) = (sum(&|member| member.bytes as f64), sum(&|member| history.read(member.id).remote));
        let is_remote = remote >= COPIES_REMOTE_MIN * all && remote > 0.0;
        if is_remote && takes(&with_cpus, bytes) && pays(remote, bytes, with_cpus.len()) {
            let bytes = members.iter().map(|of| of.bytes * (with_cpus.len() as u64 - 1)).collect();
            let reason = Reason::ReadFromAfar { share: remote / all };
            made.push(Copied { item, to: with_cpus.clone(), copies: Copies::All, reason, bytes });
            continue;
        }
        let on = nodes_of(members);
        let is_divided = |member: &Item| matches!(&member.lies, Lies::Ranges(ranges) if *ranges == on && on.len() > 1);
        let bytes = sum(&|member| member.dictionary.bytes as f64);
        let remote = sum(&|member| history.read(member.id).dictionary);
        let has_copies = members.iter().any(|member| member.dictionary.is_copied);
        let is_remote = remote >= DICTIONARY_REMOTE_MIN * all && remote > 0.0;
        if members.iter().all(is_divided)
            && !has_copies
            && is_remote
            && takes(&on, bytes)
            && pays(remote, bytes, on.len())
        {
            let bytes = members.iter().map(|of| of.dictionary.bytes * (on.len() as u64 - 1)).collect();
            let reason = Reason::DictionaryFromAfar { share: remote / all };
            made.push(Copied { item, to: on, copies: Copies::Dictionary, reason, bytes });
        }
    }
    // What gains most first: each takes its time.
    let remote = |of: &Copied| scene.members[of.item].iter().map(|member| history.read(member.id).remote).sum::<f64>();
    made.sort_by(|a, b| remote(b).total_cmp(&remote(a)).then(a.item.cmp(&b.item)));
    made
}

/// The nodes of the first item: of groups that are copied all lie alike.
fn nodes_of(members: &[Item]) -> Vec<usize> {
    match members.first().map(|member| &member.lies) {
        Some(Lies::Ranges(on) | Lies::Replicated(on)) => on.clone(),
        Some(Lies::Otherwise) | None => Vec::new(),
    }
}

/// Whether so much is next to nothing of what a node has left, and it is not nearly full.
fn has_room(node: &Node, memory: &Memory, bytes: f64) -> bool {
    bytes <= COPY_FREE_MAX * node.free_bytes as f64 && !memory.is_full(node)
}
