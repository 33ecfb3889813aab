//! Where columns should lie, given what was read of them: observe, decide; pure.
//!
//! Once per period whoever has the data says what each node's memory served and what of that each item (a column of a
//! table, a part of one) was responsible for ([`Observation`]). [`Placer::decide`] says what to do about it: an item is
//! moved to another node, divided over several, put together again, or gets copies ([`Decision`]), each with its reason
//! and the gain that it predicts. What the user undid is told back ([`Placer::undone`]).
//!
//! # Invariants
//! No clock, thread, system call or random source: the same observations give the same decisions. Nothing that a user
//! placed is named in a decision. What balances loads goes to nodes with cpus. Items that are read
//! together, or placed like each other, go together, to the same nodes in the same order. An
//! item rests for [`limits::REST_PERIODS`] after a decision about it, and does not go back to where it came from within
//! [`limits::RETURN_PERIODS`].
//!
//! Source: Psaroudakis et al., VLDB 2015, section 7, Figure 20, which says what is done about a node that is hotter
//! than others, and leaves open when it is, when an item dominates, and when one is cold: see [`limits`]. The number of
//! ranges is computed at once, for each further range would move all the others again.

mod balance;
mod chance;
mod copies;
mod decide;
mod decision;
mod group;
mod history;
pub mod limits;
mod memory;
mod plan;
#[cfg(test)]
mod tests;
mod throughput;
mod trial;
mod undo;

pub use decide::Placer;
pub use decision::{Copies, Decision, Reason};
use numa::NodeId;

/// What is placed as one: of which table, and which column or part of it that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId {
    /// The table.
    pub table: u64,
    /// What of it, by a number that never changes.
    pub number: u64,
}

/// What was seen in one period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Its length.
    pub seconds: f64,
    /// Nodes that data may be placed on, those without cpus too, in the order in which [`Item::served`] and [`Lies`]
    /// count them.
    pub nodes: Vec<Node>,
    /// What lies on them.
    pub items: Vec<Item>,
    /// Bytes of two items, by their places, that were read by tasks that read both; each pair once. What reads of one
    /// table's columns go hand in hand is told so; empty where nobody knows.
    pub together: Vec<(usize, usize, u64)>,
}

/// A node in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its number on the machine.
    pub id: NodeId,
    /// Bytes per second that its memory gives while all nodes are read, which may be less than alone: to its own cpus,
    /// or to those that read it where it has none.
    pub bandwidth: f64,
    /// Its cpus that run tasks; 0 for memory without cpus.
    pub cpus: f64,
    /// Bytes of its memory; 0 where nobody knows, which is never nearly full.
    pub bytes: u64,
    /// Bytes that it has left.
    pub free_bytes: u64,
    /// The package that it lies in, or without cpus beside; `None` where nobody knows.
    pub package: Option<u32>,
}

/// An item in a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Which.
    pub id: ItemId,
    /// What it takes, its dictionary included, each once.
    pub bytes: u64,
    /// Bytes of it that were read in the period, by the node on which they lie.
    pub served: Vec<u64>,
    /// Seconds that cpus, wherever they are, took for what they read of it, by the node on which that lies.
    pub busy: Vec<f64>,
    /// Of the bytes served, those that were read by cpus of other nodes.
    pub remote: u64,
    /// Bytes of it that were written in the period.
    pub written: u64,
    /// Its dictionary, where that is a part of its own.
    pub dictionary: Dictionary,
    /// Where it lies.
    pub lies: Lies,
    /// Into how many ranges of rows it can be divided; 1 where it cannot.
    pub ranges_max: usize,
    /// Items with the same number go together, to the same nodes with the same ranges, read together or not.
    pub like: Option<u64>,
    /// Whether a user said where it lies.
    pub is_users: bool,
}

/// The dictionary of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dictionary {
    /// What it takes, once; 0 where there is none, as of values that are computed.
    pub bytes: u64,
    /// Bytes of it that were read in the period by cpus of other nodes.
    pub remote: u64,
    /// Whether each node of the item has a copy.
    pub is_copied: bool,
}

/// Where an item lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lies {
    /// In consecutive ranges of equal size, on these nodes by their places in [`Observation::nodes`]; on one, whole.
    Ranges(Vec<usize>),
    /// All of it on each of these nodes.
    Replicated(Vec<usize>),
    /// Otherwise: it is left as it is.
    Otherwise,
}
