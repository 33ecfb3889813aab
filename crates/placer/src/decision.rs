//! [`Decision`]: an item that is to lie elsewhere, and why.

use std::fmt;

use numa::NodeId;

use crate::ItemId;

/// An item that is to lie elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Which.
    pub item: ItemId,
    /// On which nodes it lies, by their places in [`Observation::nodes`], a range or a copy on each.
    pub from: Vec<usize>,
    /// On which it is to lie, a range on each; with [`Copies::All`] all of it on each.
    pub to: Vec<usize>,
    /// What each of these nodes is to have a copy of; other copies go.
    pub copies: Copies,
    /// Why.
    pub reason: Reason,
    /// How much less the hottest node gives then, as a factor: 2 is half. 1 where nothing is gained but order.
    pub gain: f64,
    /// Bytes that have to be moved.
    pub bytes: u64,
}

/// What of an item each of its nodes has all of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Nothing: a range of it lies on each.
    #[default]
    None,
    /// Its dictionary, beside a range of its codes.
    Dictionary,
    /// The item.
    All,
}

/// Why an item is to lie elsewhere. Utilisations are parts of what a node has, of the
/// bandwidth of its memory or of the time of its cpus, whichever is shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Its node is hotter than the others, and the item is a part of it.
    Hot {
        /// The node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
        /// What of the node's is the item's, as a part.
        share: f64,
    },
    /// As [`Hot`](Self::Hot), and no node that takes the item whole would be cooler.
    Dominates {
        /// The node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
        /// What of the node's is the item's, as a part.
        share: f64,
    },
    /// It goes so that a node takes what makes another one hot.
    MakesRoom {
        /// The hot node.
        node: NodeId,
        /// What it gives.
        utilisation: f64,
        /// What all nodes give, in the mean.
        mean: f64,
    },
    /// All nodes are idle at times, though their load is the same: it is divided to see whether that helps.
    Idle {
        /// What all nodes give, in the mean.
        mean: f64,
    },
    /// It is read together with others that lie elsewhere: all get the same ranges, to see whether that helps.
    Apart {
        /// How much of what is read of them comes from other nodes, as a part.
        remote: f64,
    },
    /// It was divided to see whether that helps, and did not.
    DidNotHelp,
    /// It went somewhere with others, and with that less is read: all of them go back.
    Lost {
        /// What is read per second of what was before, as a part.
        read: f64,
    },
    /// Nobody has read the divided item for long.
    Cold,
    /// Its node's memory is nearly full, and it is read least for what it takes.
    NearlyFull {
        /// The node.
        node: NodeId,
        /// How much of its memory is used, as a part.
        used: f64,
    },
    /// It lies on memory without cpus and is read.
    ComesBack {
        /// That memory.
        node: NodeId,
        /// How often per second all of it is read over.
        times: f64,
    },
    /// It is small, hardly written, and read from other nodes.
    ReadFromAfar {
        /// How much of what is read of it is, as a part.
        share: f64,
    },
    /// Entries of its dictionary are read from other nodes.
    DictionaryFromAfar {
        /// How much that is of what is read of it, as a part.
        share: f64,
    },
    /// It has copies, and is written or lies on a node that is nearly full.
    CopiesCost {
        /// Whether it is written.
        is_written: bool,
    },
    /// It makes room on a node with cpus for what is read more and lies on memory without.
    Colder {
        /// The node with cpus.
        node: NodeId,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hot = |f: &mut fmt::Formatter<'_>, node: &NodeId, utilisation: &f64, mean: &f64| {
            let NodeId(node) = node;
            write!(
                f,
                "what lies on node {node} takes {utilisation:.2} of what the node has, {mean:.2} in the mean of all; "
            )
        };
        match self {
            Reason::Hot { node, utilisation, mean, share } => {
                hot(f, node, utilisation, mean)?;
                write!(f, "this is {share:.2} of it")
            }
            Reason::Dominates { node, utilisation, mean, share } => {
                hot(f, node, utilisation, mean)?;
                match share {
                    0.0 => f.write_str("divided, this makes room for it"),
                    _ => write!(f, "this is {share:.2} of it, and divided it is less for any one node"),
                }
            }
            Reason::MakesRoom { node, utilisation, mean } => {
                hot(f, node, utilisation, mean)?;
                f.write_str("this makes room for it")
            }
            Reason::Idle { mean } => write!(
                f,
                "no node is hot, but all are idle at times ({mean:.2} in the mean): divided, each statement has all"
            ),
            Reason::Apart { remote } => write!(
                f,
                "what is read together with it lies elsewhere, and {:.0}% of that is read from other nodes: all get \
                 the same ranges",
                100.0 * remote
            ),
            Reason::DidNotHelp => f.write_str("it was divided to see whether that helps, and did not"),
            Reason::Lost { read } => write!(
                f,
                "since it was moved {:.0}% of what was read per second before is read, of the same: it goes back",
                100.0 * read
            ),
            Reason::Cold => f.write_str("it is divided, and nobody reads it"),
            Reason::NearlyFull { node: NodeId(node), used } => write!(
                f,
                "{:.0}% of the memory of node {node} is used; of what lies there this is read least for its size",
                100.0 * used
            ),
            Reason::ComesBack { node: NodeId(node), times } => write!(
                f,
                "it lies on node {node}, which has no cpus, and all of it is read {times:.2} times per second"
            ),
            Reason::ReadFromAfar { share } => write!(
                f,
                "it is small, hardly written, and {:.0}% of what is read of it is read from other nodes: each gets one",
                100.0 * share
            ),
            Reason::DictionaryFromAfar { share } => write!(
                f,
                "{:.0}% of what is read of it is entries of its dictionary from other nodes: each gets a copy",
                100.0 * share
            ),
            Reason::CopiesCost { is_written: true } => f.write_str("it has copies, and is written"),
            Reason::CopiesCost { is_written: false } => {
                f.write_str("it has copies, and the memory of a node that has one is nearly full")
            }
            Reason::Colder { node: NodeId(node) } => write!(
                f,
                "it makes room on node {node} for what is read more often for its size and lies on memory without cpus"
            ),
        }
    }
}
