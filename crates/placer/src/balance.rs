//! A plan for a hot node: items that move, are divided or change places until no node is much hotter than others.

use crate::Lies;
use crate::decide::Placer;
use crate::decision::{Decision, Reason};
use crate::group::Scene;
use crate::limits::{
    AS_GOOD, COOLEST, FURTHER_GAIN_MIN, GAIN_MIN, HORIZON_PERIODS, LARGEST, PLANS_MAX, STEP_MIN, UNBALANCED_MIN,
};
use crate::memory::Room;
use crate::plan::{Loads, Place, is_hotter};

impl Placer {
    /// Moves, divides and exchanges items until no node is hotter than the mean by more than `least`, as a part of it,
    /// or nothing helps.
    ///
    /// What helps by itself is done first, as long as something does. Where all of that leaves a node hot, each of the
    /// largest items on hot nodes is divided first, and then several, which may make others hot, and then as before:
    /// the best end counts. What is moved takes its time, so of ends that are as good one counts that makes no node
    /// clearly hotter on the way than the hottest is now.
    pub(crate) fn balance(&mut self, scene: &Scene, loads: Loads, least: f64) -> Vec<Decision> {
        let (before, node, mean) = (loads.peak(), loads.hottest(), loads.mean());
        let mut plans = vec![self.plan(scene, (&loads, least), Vec::new())];
        if is_hotter(&plans[0].1, least) {
            let is_hot = |node: &usize| loads.utilisation(*node) > (1.0 + least) * mean;
            for hot in (0..scene.nodes.len()).filter(is_hot) {
                let left = PLANS_MAX.saturating_sub(plans.len());
                for first in self.first_steps(scene, &loads, hot).into_iter().take(left) {
                    plans.push(self.plan(scene, (&loads, least), vec![first]));
                }
            }
            for first in self.divided(scene, &loads) {
                plans.push(self.plan(scene, (&loads, least), first));
            }
        }
        let peak = |plan: &(Vec<Place>, Loads)| plan.1.peak();
        let best = plans.iter().map(peak).fold(f64::INFINITY, f64::min);
        let bytes_of = |places: &[Place]| places.iter().map(|place| scene.items[place.item].bytes).sum::<u64>();
        let ranges_of = |places: &[Place]| places.iter().map(|place| place.to.len()).sum::<usize>();
        let as_good = plans.into_iter().filter(|plan| peak(plan) <= (1.0 + AS_GOOD) * best);
        let ordered = as_good.map(|(places, after)| (in_order(scene, &loads, &places), after));
        let order = |plan: &(Ordered, Loads)| (plan.0.is_hot, ranges_of(&plan.0.places), bytes_of(&plan.0.places));
        let Some((Ordered { places, is_hot }, after)) = ordered.min_by_key(order) else { return Vec::new() };
        let gained = (before - after.peak()) * HORIZON_PERIODS * scene.seconds;
        // What makes nodes hot does so for as long as each single item takes.
        let single = places.iter().map(|place| scene.members[place.item].len()).sum();
        let further = if is_hot { single } else { places.len() }.saturating_sub(1);
        let wanted = GAIN_MIN * least + FURTHER_GAIN_MIN * further as f64;
        if after.peak() > (1.0 - wanted) * before || gained < cost(bytes_of(&places), scene) {
            return Vec::new();
        }
        let gain = before / after.peak().max(f64::MIN_POSITIVE);
        let hot = scene.nodes[node].id;
        let mut decisions = Vec::with_capacity(places.len());
        for Place { item: place, to } in places {
            let share = loads.share(place, node);
            let item = &scene.items[place];
            let is_divided = to.len() > 1 && matches!(&item.lies, Lies::Ranges(from) if to.len() > from.len());
            let reason = match (loads.is_read_from(place, node), is_divided) {
                (_, true) => Reason::Dominates { node: hot, utilisation: before, mean, share },
                (true, false) => Reason::Hot { node: hot, utilisation: before, mean, share },
                (false, false) => Reason::MakesRoom { node: hot, utilisation: before, mean },
            };
            decisions.extend(self.of_group(scene, place, &to, reason, gain));
        }
        decisions
    }

    /// What is done one after the other after some first steps, each for the hottest node as it is then, and the loads
    /// in the end. A later step for an item takes the place of an earlier one.
    fn plan(&self, scene: &Scene, (loads, least): (&Loads, f64), first: Vec<Place>) -> (Vec<Place>, Loads) {
        let (before, mut room) = (loads, Room::new(&scene.nodes));
        let (mut loads, mut done) = (loads.clone(), first);
        done.iter().for_each(|place| loads.put(place.item, &place.to));
        if !room.is_enough_for(scene, &done) {
            return (Vec::new(), before.clone());
        }
        for _ in 0..2 * scene.items.len() {
            if !is_hotter(&loads, least) {
                break;
            }
            let node = loads.hottest();
            let hottest = loads.utilisation(node);
            let mut steps: Vec<(f64, Vec<Place>)> = Vec::new();
            let largest = self.largest(scene, &loads, node);
            for item in &largest {
                for place in self.places(scene, &loads, &room, *item) {
                    steps.push((loads.peak_with(std::slice::from_ref(&place)), vec![place]));
                }
            }
            let best = steps.iter().map(|step| step.0).fold(f64::INFINITY, f64::min);
            if best > (1.0 + least) * loads.mean() {
                steps.extend(self.exchanges(scene, (&loads, &room), node, &largest));
            }
            let Some(best) = steps.iter().map(|step| step.0).min_by(f64::total_cmp) else { break };
            if best > (1.0 - STEP_MIN) * hottest {
                break;
            }
            let order = |step: &(f64, Vec<Place>)| {
                let ranges: usize = step.1.iter().map(|place| place.to.len()).sum();
                let bytes: u64 = step.1.iter().map(|place| scene.items[place.item].bytes).sum();
                (ranges, bytes)
            };
            let as_good = steps.into_iter().filter(|step| step.0 <= (1.0 + AS_GOOD) * best);
            let Some((_, step)) = as_good.min_by_key(order) else { break };
            for place in &step {
                loads.put(place.item, &place.to);
                let earlier = done.iter().find(|earlier| earlier.item == place.item);
                room.put_all(&scene.members[place.item], earlier.map(|earlier| earlier.to.as_slice()), &place.to);
            }
            done.retain(|earlier| step.iter().all(|place| place.item != earlier.item));
            done.extend(step);
        }
        done.retain(|place| scene.items[place.item].lies != Lies::Ranges(place.to.clone()));
        // A step may have taken the place of one that made room for others.
        match Room::new(&scene.nodes).is_enough_for(scene, &done) {
            true => (done, loads),
            false => (Vec::new(), before.clone()),
        }
    }

    /// The items that most is read of from a node, and about which something may be decided.
    fn largest(&self, scene: &Scene, loads: &Loads, node: usize) -> Vec<usize> {
        let is_movable = |place: &usize| loads.is_read_from(*place, node) && self.may_decide(scene, *place);
        let mut items: Vec<usize> = (0..scene.items.len()).filter(is_movable).collect();
        items.sort_by(|a, b| loads.share(*b, node).total_cmp(&loads.share(*a, node)).then(a.cmp(b)));
        items.truncate(LARGEST);
        items
    }

    /// The largest items of a node, divided.
    fn first_steps(&self, scene: &Scene, loads: &Loads, node: usize) -> Vec<Place> {
        let largest = self.largest(scene, loads, node);
        let room = Room::new(&scene.nodes);
        let of = |item: usize| self.places(scene, loads, &room, item).into_iter().filter(|place| place.to.len() > 1);
        largest.into_iter().flat_map(of).collect()
    }

    /// The items that most is read of, over as many nodes as have room: one of them, two, and so on.
    fn divided(&self, scene: &Scene, loads: &Loads) -> Vec<Vec<Place>> {
        let mut items: Vec<usize> = (0..scene.items.len()).collect();
        items.retain(|place| self.may_decide(scene, *place) && loads.load(*place) > 0.0);
        items.sort_by(|a, b| loads.load(*b).total_cmp(&loads.load(*a)).then(a.cmp(b)));
        items.truncate(LARGEST);
        let room = Room::new(&scene.nodes);
        let most = |item| self.places(scene, loads, &room, item).pop();
        let places: Vec<Place> = items.into_iter().filter_map(most).collect();
        (1..=places.len()).map(|count| places[..count].to_vec()).collect()
    }

    /// Whole items of a node, each for a whole one of another.
    fn exchanges(
        &self,
        scene: &Scene,
        (loads, room): (&Loads, &Room),
        node: usize,
        largest: &[usize],
    ) -> Vec<(f64, Vec<Place>)> {
        let mut steps = Vec::new();
        let has_cpus = |other: &usize| *other != node && scene.nodes[*other].cpus > 0.0;
        let mut others: Vec<usize> = (0..scene.nodes.len()).filter(has_cpus).collect();
        others.sort_by(|a, b| loads.utilisation(*a).total_cmp(&loads.utilisation(*b)).then(a.cmp(b)));
        others.truncate(COOLEST);
        for other in others {
            let others = self.largest(scene, loads, other);
            for (a, b) in largest.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
                let exchange = [(a, node, other), (b, other, node)].map(|(place, from, to)| {
                    let item = &scene.items[place];
                    let has_room = room.takes(to, item.bytes);
                    let goes = loads.share(place, from) > 0.0 && loads.is_whole(place) && has_room;
                    (goes && self.may_go(scene, place, &[to])).then(|| Place { item: place, to: vec![to] })
                });
                if let [Some(a), Some(b)] = exchange {
                    let step = vec![a, b];
                    steps.push((loads.peak_with(&step), step));
                }
            }
        }
        steps
    }

    /// Where an item could go: whole, and in so many ranges.
    fn places(&self, scene: &Scene, loads: &Loads, room: &Room, place: usize) -> Vec<Place> {
        let item = &scene.items[place];
        let Lies::Ranges(from) = &item.lies else { return Vec::new() };
        let most = item.ranges_max.min(scene.nodes.len()).max(from.len());
        // What is divided is not put together as long as it is read.
        let of = (from.len().max(1)..=most).filter_map(|ranges| {
            let has_room = |node: usize| {
                let is_there = from.contains(&node);
                is_there || room.takes(node, item.bytes.div_ceil(ranges as u64))
            };
            loads.spread((place, from), ranges, &scene.nodes, &has_room)
        });
        of.filter(|place| place.to != *from && self.may_go(scene, place.item, &place.to)).collect()
    }
}

/// The steps of a plan in the order in which they are done.
struct Ordered {
    places: Vec<Place>,
    /// Whether a node is hotter on the way than the hottest is now, by [`UNBALANCED_MIN`] of it.
    is_hot: bool,
}

/// The steps of a plan so that no node is hot on the way, as far as that can be: what leaves nodes coolest comes first.
fn in_order(scene: &Scene, loads: &Loads, places: &[Place]) -> Ordered {
    let nodes = 0..scene.nodes.len();
    let now: Vec<f64> = nodes.map(|node| loads.utilisation(node)).collect();
    let changes: Vec<Vec<f64>> = places.iter().map(|place| loads.change(place)).collect();
    let peak_with =
        |now: &[f64], step: usize| now.iter().zip(&changes[step]).map(|(of, change)| of + change).fold(0.0, f64::max);
    let add = |now: &mut [f64], step: usize| now.iter_mut().zip(&changes[step]).for_each(|(of, change)| *of += change);
    let (mut left, mut ordered): (Vec<usize>, Vec<usize>) = ((0..places.len()).collect(), Vec::new());
    let mut then = now.clone();
    while !left.is_empty() {
        let order = |a: &usize, b: &usize| peak_with(&then, left[*a]).total_cmp(&peak_with(&then, left[*b]));
        let Some(coolest) = (0..left.len()).min_by(order) else { break };
        let step = left.remove(coolest);
        add(&mut then, step);
        ordered.push(step);
    }
    let in_order = |steps: &[usize]| -> Vec<Place> { steps.iter().map(|step| places[*step].clone()).collect() };
    // What is moved first may be what makes room for others.
    if !Room::new(&scene.nodes).is_enough_for(scene, &in_order(&ordered)) {
        ordered.sort_unstable();
    }
    let most = (1.0 + UNBALANCED_MIN) * loads.peak();
    let mut then = now;
    let is_above = |step: &usize| {
        let peak = peak_with(&then, *step);
        add(&mut then, *step);
        peak > most
    };
    Ordered { is_hot: ordered.iter().any(is_above), places: in_order(&ordered) }
}

/// Seconds of a node's memory that moving so much takes: it is read and written.
fn cost(bytes: u64, scene: &Scene) -> f64 {
    let with_cpus = scene.nodes.iter().filter(|node| node.cpus > 0.0);
    let least = with_cpus.map(|node| node.bandwidth).fold(f64::INFINITY, f64::min);
    2.0 * bytes as f64 / least
}
