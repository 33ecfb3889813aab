//! Loads of nodes as they are, and as they would be.

use crate::history::History;
use crate::{Item, Lies, Observation};

/// Bytes per second of each item from each node, and what nodes give at most.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    bandwidth: Vec<f64>,
    of_nodes: Vec<f64>,
    of_items: Vec<Vec<f64>>,
}

/// An item somewhere else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    /// Its place among the items.
    pub(crate) item: usize,
    /// Nodes, a range on each.
    pub(crate) to: Vec<usize>,
}

impl Loads {
    /// As seen: smoothed loads, divided as the last period's were, or as the item lies where that read nothing.
    pub(crate) fn new(observation: &Observation, history: &History) -> Loads {
        let nodes = observation.nodes.len();
        let of_item = |item: &Item| -> Vec<f64> {
            let (load, served) = (history.load(item.id), item.served.iter().sum::<u64>());
            match &item.lies {
                _ if served > 0 => (0..nodes).map(|n| load * item.served[n] as f64 / served as f64).collect(),
                Lies::Ranges(on) => divided(load, on, nodes),
                Lies::Otherwise => vec![0.0; nodes],
            }
        };
        let of_items: Vec<Vec<f64>> = observation.items.iter().map(of_item).collect();
        let of_nodes = (0..nodes).map(|node| of_items.iter().map(|of| of[node]).sum()).collect();
        Loads { bandwidth: observation.nodes.iter().map(|node| node.bandwidth).collect(), of_nodes, of_items }
    }

    /// Of what its memory gives, how much a node gives.
    pub(crate) fn utilisation(&self, node: usize) -> f64 {
        self.of_nodes[node] / self.bandwidth[node]
    }

    /// The node with the highest utilisation.
    pub(crate) fn hottest(&self) -> usize {
        let order = |a: &usize, b: &usize| self.utilisation(*a).total_cmp(&self.utilisation(*b)).then(b.cmp(a));
        (0..self.bandwidth.len()).max_by(order).expect("there are nodes")
    }

    /// What all nodes give together, of what they could.
    pub(crate) fn mean(&self) -> f64 {
        self.of_nodes.iter().sum::<f64>() / self.bandwidth.iter().sum::<f64>()
    }

    /// What an item takes from a node, as a part of what the node gives.
    pub(crate) fn share(&self, item: usize, node: usize) -> f64 {
        self.of_items[item][node] / self.of_nodes[node].max(f64::MIN_POSITIVE)
    }

    /// Bytes per second that an item is read with.
    pub(crate) fn load(&self, item: usize) -> f64 {
        self.of_items[item].iter().sum()
    }

    /// Whether an item is read from one node alone.
    pub(crate) fn is_whole(&self, item: usize) -> bool {
        self.of_items[item].iter().filter(|load| **load > 0.0).count() == 1
    }

    /// Whether an item is read from a node.
    pub(crate) fn is_read_from(&self, item: usize, node: usize) -> bool {
        self.of_items[item][node] > 0.0
    }

    /// The highest utilisation of any node.
    pub(crate) fn peak(&self) -> f64 {
        self.utilisation(self.hottest())
    }

    /// An item in `ranges` ranges, on those of the nodes that give least without it.
    pub(crate) fn spread(&self, item: usize, ranges: usize, may: &dyn Fn(usize) -> bool) -> Option<Place> {
        let of_item = &self.of_items[item];
        let without = |node: usize| (self.of_nodes[node] - of_item[node]) / self.bandwidth[node];
        let mut nodes: Vec<usize> = (0..self.bandwidth.len()).filter(|node| may(*node)).collect();
        nodes.sort_by(|a, b| without(*a).total_cmp(&without(*b)).then(a.cmp(b)));
        if nodes.len() < ranges {
            return None;
        }
        nodes.truncate(ranges);
        nodes.sort_unstable();
        Some(Place { item, to: nodes })
    }

    /// The highest utilisation of the nodes that some items are on now or are put on.
    pub(crate) fn peak_with(&self, places: &[Place]) -> f64 {
        let mut with = self.clone();
        places.iter().for_each(|place| with.put(place.item, &place.to));
        let is_touched =
            |node: &usize| places.iter().any(|place| self.of_items[place.item][*node] > 0.0 || place.to.contains(node));
        (0..self.bandwidth.len()).filter(is_touched).map(|node| with.utilisation(node)).fold(0.0, f64::max)
    }

    /// With an item somewhere else.
    pub(crate) fn put(&mut self, item: usize, to: &[usize]) {
        let load = self.of_items[item].iter().sum();
        let new = divided(load, to, self.bandwidth.len());
        for (node, new) in new.iter().enumerate() {
            self.of_nodes[node] += new - self.of_items[item][node];
        }
        self.of_items[item] = new;
    }
}

fn divided(load: f64, on: &[usize], nodes: usize) -> Vec<f64> {
    let mut of_nodes = vec![0.0; nodes];
    on.iter().for_each(|node| of_nodes[*node] += load / on.len() as f64);
    of_nodes
}
