//! Items that are read together, or placed like each other, as one.
//!
//! A task that reads rows of several columns runs near one node: what of these columns lies elsewhere comes over links.
//! So columns of which at least half is read together are moved, divided and put together as one, with the same
//! ranges; and so are items of which somebody said that one lies like the other.

use std::collections::BTreeMap;

use crate::history::History;
use crate::{Dictionary, Item, Lies, Node, Observation};

/// Nodes, and groups of items that lie on them; a group is one item to who decides.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) seconds: f64,
    pub(crate) nodes: Vec<Node>,
    /// A group each, under the name of its first item. One that lies in different places has no range.
    pub(crate) items: Vec<Item>,
    /// The items of each group.
    pub(crate) members: Vec<Vec<Item>>,
}

impl Scene {
    /// Groups by what was read together or is placed alike; for each the places of its items.
    pub(crate) fn groups(observation: &Observation, history: &History) -> Vec<Vec<usize>> {
        let mut first: Vec<usize> = (0..observation.items.len()).collect();
        fn of(first: &[usize], mut item: usize) -> usize {
            while first[item] != item {
                item = first[item];
            }
            item
        }
        let mut alike: BTreeMap<u64, usize> = BTreeMap::new();
        let with = |(place, item): (usize, &Item)| Some((place, *alike.entry(item.like?).or_insert(place)));
        let alike: Vec<(usize, usize)> = observation.items.iter().enumerate().filter_map(with).collect();
        for (a, b) in history.together(observation).into_iter().chain(alike) {
            let (a, b) = (of(&first, a), of(&first, b));
            let (low, high) = (a.min(b), a.max(b));
            first[high] = low;
        }
        let mut groups: Vec<Vec<usize>> = vec![Vec::new(); observation.items.len()];
        (0..first.len()).for_each(|item| groups[of(&first, item)].push(item));
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// These groups of an observation.
    pub(crate) fn new(observation: &Observation, groups: &[Vec<usize>]) -> Scene {
        let member = |place: &usize| observation.items[*place].clone();
        let members: Vec<Vec<Item>> = groups.iter().map(|group| group.iter().map(member).collect()).collect();
        let items = members.iter().map(|members| merged(members, observation.nodes.len())).collect();
        Scene { seconds: observation.seconds, nodes: observation.nodes.clone(), items, members }
    }
}

fn merged(members: &[Item], nodes: usize) -> Item {
    let first = &members[0];
    let is_otherwise = members.iter().any(|member| !matches!(member.lies, Lies::Ranges(_)));
    let lies = match members.iter().all(|member| member.lies == first.lies) {
        true => first.lies.clone(),
        false if is_otherwise => Lies::Otherwise,
        false => Lies::Ranges(Vec::new()),
    };
    let sum = |node: usize| members.iter().map(|member| member.served[node]).sum();
    let busy = |node: usize| members.iter().map(|member| member.busy[node]).sum();
    Item {
        id: first.id,
        bytes: members.iter().map(|member| member.bytes).sum(),
        served: (0..nodes).map(sum).collect(),
        busy: (0..nodes).map(busy).collect(),
        remote: members.iter().map(|member| member.remote).sum(),
        written: members.iter().map(|member| member.written).sum(),
        dictionary: Dictionary {
            bytes: members.iter().map(|member| member.dictionary.bytes).sum(),
            remote: members.iter().map(|member| member.dictionary.remote).sum(),
            is_copied: members.iter().any(|member| member.dictionary.is_copied),
        },
        lies,
        ranges_max: members.iter().map(|member| member.ranges_max).min().unwrap_or(1),
        like: first.like,
        is_users: members.iter().any(|member| member.is_users),
    }
}
