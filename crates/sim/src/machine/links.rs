//! Links between nodes and the routes over them.
//!
//! Invariant: a route is one of the shortest in links; among those the one over the lowest nodes, so it is always the
//! same.
//!
//! # Limits
//! Routes are static: real machines spread traffic over equal ones.

use std::collections::VecDeque;

use super::Figures;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The node that data leaves.
    pub from: usize,
    /// The node that it reaches.
    pub to: usize,
    /// Its bandwidth.
    pub bytes_per_second: f64,
}

/// Per reading node and node of memory: links, or hops.
pub(super) type Pairs<T> = Vec<Vec<T>>;

/// Routes per pair and how many links data crosses on them.
pub(super) fn routes(figures: &Figures) -> Result<(Pairs<Vec<usize>>, Pairs<f64>), String> {
    let nodes = figures.latency_ns.len();
    if figures.links.is_empty() {
        let hops = figures.hops.clone().unwrap_or_else(|| ranks(&figures.latency_ns));
        return Ok((vec![vec![Vec::new(); nodes]; nodes], hops));
    }
    let missing =
        |from: usize, to: usize| format!("no link leads from node {from} to node {to}; add one, or give none");
    let mut routes = vec![Vec::new(); nodes];
    for memory in 0..nodes {
        let ways = from_node(&figures.links, nodes, memory);
        for ((reader, way), row) in ways.into_iter().enumerate().zip(&mut routes) {
            row.push(way.ok_or_else(|| missing(memory, reader))?);
        }
    }
    let hops = routes.iter().map(|row| row.iter().map(|route| route.len() as f64).collect()).collect();
    Ok((routes, hops))
}

/// The way to every node from one, breadth first.
fn from_node(links: &[Link], nodes: usize, from: usize) -> Vec<Option<Vec<usize>>> {
    let mut ways = vec![None; nodes];
    ways[from] = Some(Vec::new());
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        let mut out: Vec<usize> = (0..links.len()).filter(|link| links[*link].from == here).collect();
        out.sort_by_key(|link| links[*link].to);
        for link in out {
            let there = links[link].to;
            if ways[there].is_none() {
                let mut way: Vec<usize> = ways[here].clone().unwrap_or_default();
                way.push(link);
                ways[there] = Some(way);
                next.push_back(there);
            }
        }
    }
    ways
}

/// The rank of a pair's latency among the classes of its row: latencies within a tenth of each other are one class.
fn ranks(latency_ns: &[Vec<f64>]) -> Pairs<f64> {
    let row = |from: usize| {
        let mut remote: Vec<f64> =
            latency_ns[from].iter().enumerate().filter(|(to, _)| *to != from).map(|(_, ns)| *ns).collect();
        remote.sort_by(f64::total_cmp);
        let mut classes: Vec<f64> = Vec::new();
        for ns in remote {
            if classes.last().is_none_or(|class| ns > class * 1.1) {
                classes.push(ns);
            }
        }
        let rank = |to: usize| {
            let ns = latency_ns[from][to];
            if to == from { 0.0 } else { classes.iter().filter(|class| **class <= ns).count().max(1) as f64 }
        };
        (0..latency_ns.len()).map(rank).collect()
    };
    (0..latency_ns.len()).map(row).collect()
}
