//! Who gets how much of memory's way: max-min fair shares of what flows use together.
//!
//! A flow moves bytes at a rate up to its cap and uses resources in proportion to that rate (a controller once per
//! byte, a reader's way out by the time a byte takes, links, the fabric that snoops fill; see [`crate::machine`]).
//! Rates are max-min fair: none can be raised without lowering one that is not higher. Equal flows are one [`Class`],
//! so the cost does not depend on how many flows there are.
//!
//! Invariants: no resource is used beyond its capacity, no flow beyond its cap, and every flow is at its cap or crosses
//! a full resource on which nobody is faster ([`filling`] is the slow twin; the property test compares the two).
//!
//! # Limits
//! Rates are those of a fluid: bursts, queues and turns on a bus are not seen.
//!
//! Source: Bertsekas and Gallager, Data Networks, section 6.5.2 (max-min fair flow control).

pub mod filling;
#[cfg(test)]
mod tests;

/// Something that flows share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resource {
    /// How much of it there is per second.
    pub capacity: f64,
}

impl Resource {
    /// A resource of this capacity.
    pub fn new(capacity: f64) -> Resource {
        Resource { capacity }
    }
}

/// Equal flows.
#[derive(Clone, Copy, Debug)]
pub struct Class<'a> {
    /// How many.
    pub flows: f64,
    /// The most that each gets, bytes per second; above zero.
    pub cap: f64,
    /// What a byte of each uses: places of resources, each at most once, and amounts above zero.
    pub uses: &'a [(usize, f64)],
}

/// Levels within this of each other are one: sums of many shares differ in their last digits.
const SAME: f64 = 1e-12;

/// Works out rates; keeps its buffers from one time to the next.
#[derive(Debug)]
pub struct Solver {
    capacities: Vec<f64>,
    /// Per resource: what frozen flows use, what a unit of rate of all others uses, and how many classes those are.
    frozen: Vec<f64>,
    weights: Vec<f64>,
    users: Vec<u32>,
    /// The rate at which each resource filled up, the last time; infinite where it did not.
    levels: Vec<f64>,
    /// Classes with flows, by cap.
    order: Vec<u32>,
    /// Which classes cross each resource: those of resource `r` are `crossing[starts[r]..starts[r + 1]]`.
    starts: Vec<u32>,
    crossing: Vec<u32>,
    done: Vec<bool>,
}

impl Solver {
    /// A solver for flows over these.
    pub fn new(resources: &[Resource]) -> Solver {
        let count = resources.len();
        Solver {
            capacities: resources.iter().map(|resource| resource.capacity).collect(),
            frozen: vec![0.0; count],
            weights: vec![0.0; count],
            users: vec![0; count],
            levels: vec![f64::INFINITY; count],
            order: Vec::new(),
            starts: vec![0; count + 1],
            crossing: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The rate of a flow of each class, in their order.
    ///
    /// Rounds: the lowest level at which a resource would fill up is found; classes whose cap is below it get their cap
    /// (others only gain from that); when there is none, those that cross the resource get the level.
    pub fn solve(&mut self, classes: &[Class<'_>], rates: &mut Vec<f64>) {
        rates.clear();
        rates.resize(classes.len(), 0.0);
        self.begin(classes);
        let mut next_capped = 0;
        let mut left = self.order.len();
        while left > 0 {
            let level = self.lowest_level();
            let before = left;
            while let Some(&place) = self.order.get(next_capped) {
                let (place, class) = (place as usize, &classes[place as usize]);
                if !self.done[place] {
                    if class.cap > level {
                        break;
                    }
                    self.freeze(place, class, class.cap);
                    rates[place] = class.cap;
                    left -= 1;
                }
                next_capped += 1;
            }
            if left == before {
                left -= self.fill(classes, level, rates);
            }
        }
        // Classes without flows get what one would get next to the others at most.
        for (class, rate) in classes.iter().zip(rates.iter_mut()).filter(|(class, _)| class.flows <= 0.0) {
            *rate = self.offer(class.cap, class.uses);
        }
    }

    /// What a flow that was not there the last time may count on: its cap, or the lowest level at which what it uses
    /// had filled up.
    pub fn offer(&self, cap: f64, uses: &[(usize, f64)]) -> f64 {
        uses.iter().fold(cap, |rate, (resource, _)| rate.min(self.levels[*resource]))
    }

    fn begin(&mut self, classes: &[Class<'_>]) {
        self.frozen.fill(0.0);
        self.weights.fill(0.0);
        self.users.fill(0);
        self.levels.fill(f64::INFINITY);
        self.done.clear();
        self.done.resize(classes.len(), false);
        self.order.clear();
        self.order.extend((0..classes.len() as u32).filter(|class| classes[*class as usize].flows > 0.0));
        let cap = |class: u32| classes[class as usize].cap;
        self.order.sort_unstable_by(|a, b| cap(*a).total_cmp(&cap(*b)).then(a.cmp(b)));
        let there = || classes.iter().enumerate().filter(|(_, class)| class.flows > 0.0);
        for (_, class) in there() {
            for (resource, amount) in class.uses {
                self.weights[*resource] += class.flows * amount;
                self.users[*resource] += 1;
            }
        }
        let mut sum = 0;
        for (start, users) in self.starts.iter_mut().zip(self.users.iter().chain([&0])) {
            sum += users;
            // Where the list ends; filling it backwards moves this to where it starts.
            *start = sum;
        }
        self.crossing.clear();
        self.crossing.resize(sum as usize, 0);
        for (place, class) in there() {
            for (resource, _) in class.uses {
                self.starts[*resource] -= 1;
                self.crossing[self.starts[*resource] as usize] = place as u32;
            }
        }
    }

    fn level(&self, resource: usize) -> f64 {
        if self.users[resource] == 0 {
            return f64::INFINITY;
        }
        let left = (self.capacities[resource] - self.frozen[resource]).max(0.0);
        left / self.weights[resource].max(f64::MIN_POSITIVE)
    }

    fn lowest_level(&self) -> f64 {
        (0..self.capacities.len()).map(|resource| self.level(resource)).fold(f64::INFINITY, f64::min)
    }

    /// Gives the level to every class that crosses a resource full at it; how many.
    fn fill(&mut self, classes: &[Class<'_>], level: f64, rates: &mut [f64]) -> usize {
        let mut frozen = 0;
        // Freezing at this level leaves other resources' levels at or above it, so each is looked at once.
        for resource in 0..self.capacities.len() {
            if self.level(resource) > level * (1.0 + SAME) {
                continue;
            }
            self.levels[resource] = level;
            for at in self.starts[resource]..self.starts[resource + 1] {
                let place = self.crossing[at as usize] as usize;
                if !self.done[place] {
                    self.freeze(place, &classes[place], level);
                    rates[place] = level;
                    frozen += 1;
                }
            }
        }
        frozen
    }

    fn freeze(&mut self, place: usize, class: &Class<'_>, rate: f64) {
        self.done[place] = true;
        for (resource, amount) in class.uses {
            let used = class.flows * amount;
            self.weights[*resource] -= used;
            self.frozen[*resource] += used * rate;
            self.users[*resource] -= 1;
        }
    }
}
