//! Loads of nodes as they are, and as they would be.

use crate::chance;
use crate::history::{History, Resource};
use crate::limits::{AS_GOOD, BUSY_MIN, FULL_MIN};
use crate::{Item, ItemId, Lies, Node, Observation};

/// What each item takes from each node per second of one resource, and what nodes have of it.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    capacity: Vec<f64>,
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
    /// Of the resource that some node has least left of, smoothed.
    pub(crate) fn new(observation: &Observation, history: &History) -> Loads {
        Loads::scarcer(observation, &|item, of| history.load(item, of))
    }

    /// The same in the mean of some periods.
    pub(crate) fn mean_of(observation: &Observation, history: &History) -> Loads {
        Loads::scarcer(observation, &|item, of| history.mean(item, of))
    }

    fn scarcer(observation: &Observation, load: &dyn Fn(ItemId, Resource) -> f64) -> Loads {
        let of = [Resource::Memory, Resource::Cpus].map(|resource| Loads::of(observation, load, resource));
        let [memory, cpus] = of;
        // Where a node's memory gives all that it has, cpus have as much more to do as there is who waits for it.
        let is_full = memory.peak() >= FULL_MIN;
        if cpus.peak() > memory.peak() && !is_full { cpus } else { memory }
    }

    /// Whether the period itself, without those before it, has its load on few nodes.
    pub(crate) fn is_seen(observation: &Observation, least: f64) -> bool {
        let mut alone = History::default();
        alone.observe(observation);
        is_hotter(&Loads::new(observation, &alone), least)
    }

    /// What groups of items take together.
    pub(crate) fn summed(&self, groups: &[Vec<usize>]) -> Loads {
        let of_group = |group: &Vec<usize>| -> Vec<f64> {
            (0..self.capacity.len()).map(|node| group.iter().map(|item| self.of_items[*item][node]).sum()).collect()
        };
        Loads { of_items: groups.iter().map(of_group).collect(), ..self.clone() }
    }

    /// As seen: smoothed loads, divided as the last period's were, or as the item lies where that read nothing. Of the
    /// time of cpus what they waited for their node's memory is taken off, as far as it can be seen.
    fn of(observation: &Observation, load: &dyn Fn(ItemId, Resource) -> f64, resource: Resource) -> Loads {
        let nodes = observation.nodes.len();
        let waits = match resource {
            Resource::Memory => vec![1.0; nodes],
            Resource::Cpus => waits(observation),
        };
        let of_item = |item: &Item| -> Vec<f64> {
            let load = load(item.id, resource);
            let seen: Vec<f64> = match resource {
                Resource::Memory => item.served.iter().map(|bytes| *bytes as f64).collect(),
                Resource::Cpus => item.busy.clone(),
            };
            let all: f64 = seen.iter().sum();
            match &item.lies {
                _ if all > 0.0 => seen.iter().map(|seen| load * seen / all).collect(),
                Lies::Ranges(on) | Lies::Replicated(on) => divided(load, on, nodes),
                Lies::Otherwise => vec![0.0; nodes],
            }
        };
        // Nodes without cpus take no part in balancing: what is read there is read by cpus of others.
        let capacity = |node: &Node| match resource {
            _ if node.cpus == 0.0 => 0.0,
            Resource::Memory => node.bandwidth,
            Resource::Cpus => node.cpus,
        };
        let mut of_items: Vec<Vec<f64>> = observation.items.iter().map(of_item).collect();
        for of_item in &mut of_items {
            of_item.iter_mut().zip(&waits).for_each(|(load, waits)| *load /= waits);
        }
        let of_nodes = (0..nodes).map(|node| of_items.iter().map(|of| of[node]).sum()).collect();
        Loads { capacity: observation.nodes.iter().map(capacity).collect(), of_nodes, of_items }
    }

    /// Of what it has, how much a node gives.
    pub(crate) fn utilisation(&self, node: usize) -> f64 {
        match self.capacity[node] {
            0.0 => 0.0,
            capacity => self.of_nodes[node] / capacity,
        }
    }

    /// The node with the highest utilisation.
    pub(crate) fn hottest(&self) -> usize {
        let order = |a: &usize, b: &usize| self.utilisation(*a).total_cmp(&self.utilisation(*b)).then(b.cmp(a));
        (0..self.capacity.len()).max_by(order).expect("there are nodes")
    }

    /// What all nodes with cpus give together, of what they could.
    pub(crate) fn mean(&self) -> f64 {
        let given = self.of_nodes.iter().zip(&self.capacity).filter(|(_, capacity)| **capacity > 0.0);
        given.map(|(given, _)| given).sum::<f64>() / self.capacity.iter().sum::<f64>()
    }

    /// What an item takes from a node, as a part of what the node gives.
    pub(crate) fn share(&self, item: usize, node: usize) -> f64 {
        self.of_items[item][node] / self.of_nodes[node].max(f64::MIN_POSITIVE)
    }

    /// How much hotter than the mean each node is, as a part of the mean, and how far it would be by chance alone (a
    /// standard error): `reads` is how often each item has been read at least.
    pub(crate) fn excess(&self, reads: &[f64]) -> Vec<(f64, f64)> {
        let (mean, all) = (self.mean(), self.capacity.iter().sum::<f64>());
        let of_node = |node: usize| {
            let capacity = self.capacity[node];
            if capacity == 0.0 || mean == 0.0 {
                return (0.0, 0.0);
            }
            // A read more or less of an item changes what the node takes, and the mean of all.
            let by_item = self.of_items.iter().zip(reads).filter(|(_, reads)| **reads > 0.0);
            let variance = by_item.map(|(of_item, reads)| {
                let apart = of_item[node] / capacity - of_item.iter().sum::<f64>() / all;
                apart * apart / reads
            });
            ((self.utilisation(node) - mean) / mean, variance.sum::<f64>().sqrt() / mean)
        };
        (0..self.capacity.len()).map(of_node).collect()
    }

    /// Items get what items like them take, as far as they differ by chance: `reads` is how often each has been read at
    /// least. What looks largest among equals was drawn most often, and a plan that goes by that moves too little. What
    /// each node gives in all stays, which is known better.
    pub(crate) fn without_chance(&mut self, reads: &[f64]) {
        let expected = chance::expected(reads);
        let likely: Vec<f64> = reads
            .iter()
            .zip(&expected)
            .map(|(reads, likely)| if *reads > 0.0 { likely / reads } else { 1.0 })
            .collect();
        for (node, given) in self.of_nodes.iter().enumerate() {
            let of_likely: f64 = self.of_items.iter().zip(&likely).map(|(of, likely)| of[node] * likely).sum();
            let kept = if of_likely > 0.0 { given / of_likely } else { 1.0 };
            self.of_items.iter_mut().zip(&likely).for_each(|(of, likely)| of[node] *= likely * kept);
        }
    }

    /// What an item takes of the resource per second.
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

    /// An item in `ranges` ranges, on those of the nodes that give least without it. Ranges within one package are
    /// taken where that is as good, of one that the item lies in first: what goes between its nodes is near.
    pub(crate) fn spread(
        &self,
        (item, from): (usize, &[usize]),
        ranges: usize,
        nodes: &[Node],
        may: &dyn Fn(usize) -> bool,
    ) -> Option<Place> {
        let anywhere = self.spread_over(item, ranges, nodes, may)?;
        let most = (1.0 + AS_GOOD) * self.peak_with(std::slice::from_ref(&anywhere));
        let mut packages: Vec<u32> = nodes.iter().filter_map(|node| node.package).collect();
        packages.sort_unstable();
        packages.dedup();
        let is_own = |package: &u32| from.iter().any(|node| nodes[*node].package == Some(*package));
        // A single range elsewhere is within one package anyway.
        packages.retain(|package| ranges > 1 || is_own(package));
        packages.sort_by_key(|package| !is_own(package));
        let within = packages.into_iter().filter_map(|package| {
            self.spread_over(item, ranges, nodes, &|node| may(node) && nodes[node].package == Some(package))
        });
        let is_as_good = |place: &Place| place.to != from && self.peak_with(std::slice::from_ref(place)) <= most;
        Some(within.into_iter().find(is_as_good).unwrap_or(anywhere))
    }

    fn spread_over(&self, item: usize, ranges: usize, facts: &[Node], may: &dyn Fn(usize) -> bool) -> Option<Place> {
        let of_item = &self.of_items[item];
        let without = |node: usize| (self.of_nodes[node] - of_item[node]) / self.capacity[node];
        let mut nodes: Vec<usize> =
            (0..self.capacity.len()).filter(|node| may(*node) && self.capacity[*node] > 0.0).collect();
        nodes.sort_by(|a, b| without(*a).total_cmp(&without(*b)).then(a.cmp(b)));
        if nodes.len() < ranges {
            return None;
        }
        nodes.truncate(ranges);
        nodes.sort_by_key(|node| (facts[*node].package, *node));
        Some(Place { item, to: nodes })
    }

    /// The highest utilisation of the nodes that some items are on now or are put on.
    pub(crate) fn peak_with(&self, places: &[Place]) -> f64 {
        let mut peak: f64 = 0.0;
        for (node, capacity) in self.capacity.iter().enumerate() {
            let mut of_node = self.of_nodes[node];
            let mut is_touched = false;
            for place in places {
                let here = self.of_items[place.item][node];
                let ranges = if place.to.contains(&node) { self.load(place.item) / place.to.len() as f64 } else { 0.0 };
                is_touched |= here > 0.0 || ranges > 0.0;
                of_node += ranges - here;
            }
            if is_touched && *capacity > 0.0 {
                peak = peak.max(of_node / capacity);
            }
        }
        peak
    }

    /// How much more of what it has each node gives with an item somewhere else.
    pub(crate) fn change(&self, place: &Place) -> Vec<f64> {
        let there = divided(self.load(place.item), &place.to, self.capacity.len());
        let change = |node: usize| match self.capacity[node] {
            0.0 => 0.0,
            capacity => (there[node] - self.of_items[place.item][node]) / capacity,
        };
        (0..self.capacity.len()).map(change).collect()
    }

    /// With an item somewhere else.
    pub(crate) fn put(&mut self, item: usize, to: &[usize]) {
        let load = self.of_items[item].iter().sum();
        let new = divided(load, to, self.capacity.len());
        for (node, new) in new.iter().enumerate() {
            self.of_nodes[node] += new - self.of_items[item][node];
        }
        self.of_items[item] = new;
    }
}

/// By node, how many times as long cpus take there for what other nodes do faster: they wait for its memory. Items that
/// lie on several nodes show it, of which the same is read everywhere; where none does, nothing is known.
///
/// A node whose memory gives all that it can keeps its cpus busy whatever they have to do, and one beside it that has
/// a tenth less to give seems half idle: what is decided by that puts far too much there.
fn waits(observation: &Observation) -> Vec<f64> {
    let nodes = observation.nodes.len();
    let (mut takes, mut least_takes) = (vec![0.0; nodes], vec![0.0; nodes]);
    for item in &observation.items {
        let read: Vec<usize> = (0..nodes).filter(|node| item.served[*node] > 0 && item.busy[*node] > 0.0).collect();
        if read.len() < 2 {
            continue;
        }
        let per_byte = |node: usize| item.busy[node] / item.served[node] as f64;
        let least = read.iter().map(|node| per_byte(*node)).fold(f64::INFINITY, f64::min);
        for node in read {
            takes[node] += item.busy[node];
            least_takes[node] += least * item.served[node] as f64;
        }
    }
    let waits = |(takes, least): (f64, &f64)| if *least > 0.0 { (takes / least).max(1.0) } else { 1.0 };
    takes.into_iter().zip(&least_takes).map(waits).collect()
}

/// Whether some node is hotter than the mean by more than that, as a part of it, and busy.
pub(crate) fn is_hotter(loads: &Loads, least: f64) -> bool {
    let (hottest, mean) = (loads.utilisation(loads.hottest()), loads.mean());
    hottest >= BUSY_MIN && hottest - mean > least * mean
}

fn divided(load: f64, on: &[usize], nodes: usize) -> Vec<f64> {
    let mut of_nodes = vec![0.0; nodes];
    on.iter().for_each(|node| of_nodes[*node] += load / on.len() as f64);
    of_nodes
}
