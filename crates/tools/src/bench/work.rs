//! What a process and its workers have done, between two looks.
//!
//! Invariant: all figures only grow, so the difference of two looks is what was done in between.
//!
//! # Limits
//! Bytes are those that tasks reported to have touched, not what memory controllers moved. A statement so small that
//! its client's thread runs it counts in the cpu time only.

use std::time::Duration;

use numa::NodeId;
use sched::Scheduler;

/// Ticks of `/proc/self/stat` per second: fixed by the kernel's interface to programs on all machines that Nearside
/// runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Work done by one node's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// The node.
    pub node: NodeId,
    /// Tasks that they ran.
    pub tasks: u64,
    /// Those of them that were taken from another node.
    pub stolen: u64,
    /// Bytes of their own node.
    pub bytes_local: u64,
    /// Bytes of other nodes.
    pub bytes_remote: u64,
}

/// Work done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// By node, ascending.
    pub nodes: Vec<NodeWork>,
    /// Cpu time of the whole process; zero where `/proc` does not tell.
    pub cpu: Duration,
}

impl Work {
    /// All that was done until now.
    pub fn so_far(scheduler: &Scheduler) -> Work {
        let node = |stats: sched::NodeStats| NodeWork {
            node: stats.node,
            tasks: stats.tasks_run,
            stolen: stats.stolen,
            bytes_local: stats.bytes_local,
            bytes_remote: stats.bytes_remote,
        };
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Work { nodes: scheduler.stats().nodes.into_iter().map(node).collect(), cpu: cpu_of(&stat) }
    }

    /// What was done since an earlier look.
    pub fn since(&self, before: &Work) -> Work {
        let less = |now: &NodeWork| {
            let before = before.nodes.iter().find(|node| node.node == now.node);
            let of = |figure: fn(&NodeWork) -> u64| figure(now).saturating_sub(before.map_or(0, figure));
            NodeWork {
                node: now.node,
                tasks: of(|node| node.tasks),
                stolen: of(|node| node.stolen),
                bytes_local: of(|node| node.bytes_local),
                bytes_remote: of(|node| node.bytes_remote),
            }
        };
        Work { nodes: self.nodes.iter().map(less).collect(), cpu: self.cpu.saturating_sub(before.cpu) }
    }

    /// A figure summed over all nodes.
    pub fn sum(&self, figure: fn(&NodeWork) -> u64) -> u64 {
        self.nodes.iter().map(figure).sum()
    }
}

/// User and system time of a line of `/proc/PID/stat`, whose second field is a name in parentheses and may hold
/// anything.
fn cpu_of(stat: &str) -> Duration {
    let after_name = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    // Fields 14 and 15, of which the first after the name is the third.
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Duration::from_secs_f64(ticks / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_strange_name() {
        let stat = "7 (a) R 1) (b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 100 0 0";
        assert_eq!(cpu_of(stat), Duration::from_secs(2));
        assert_eq!(cpu_of(""), Duration::ZERO);
    }

    #[test]
    fn work_is_what_was_done_in_between() {
        let node = |tasks, bytes_local| NodeWork { node: NodeId(0), tasks, stolen: 1, bytes_local, bytes_remote: 0 };
        let look = |tasks, bytes, seconds| Work { nodes: vec![node(tasks, bytes)], cpu: Duration::from_secs(seconds) };
        let done = look(5, 700, 9).since(&look(2, 100, 4));
        assert_eq!((done.sum(|node| node.tasks), done.sum(|node| node.bytes_local)), (3, 600));
        assert_eq!((done.sum(|node| node.stolen), done.cpu), (0, Duration::from_secs(5)));
        assert_eq!(look(5, 700, 9).since(&Work::default()).sum(|node| node.tasks), 5);
    }
}
