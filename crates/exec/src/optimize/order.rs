//! In which order relations are joined, and which side of each join is kept: a search over numbers only.
//!
//! Up to [`EXHAUSTIVE_MAX`] relations every tree is looked at (dynamic programming over connected subsets, bushy trees
//! included); beyond that the two trees whose join gives the fewest rows are joined first. Semi and anti joins are
//! relations that can only be joined to a tree that has the columns they compare, so their place is found by cost too.
//!
//! The cost of a tree (see [`cost`](super::cost)) knows that keys of a build side thin out the scans of its probe side,
//! wherever in it the key comes from: work below shrinks by the share of rows that match, so in which order the joins
//! of one pipeline come hardly matters, but what is kept and what streams does.

use super::cost::{self, Cost, Lookup};

/// Relations up to which every order is looked at.
const EXHAUSTIVE_MAX: usize = 10;

/// Keys of a build side are made a filter of the probe side where fewer than this share of its rows match.
const FILTERS_BELOW: f64 = 0.9;

/// A set of relations, a bit each.
pub(super) type Set = u64;

/// What is joined.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// Rows.
    pub(super) rows: f64,
    /// Rows before its filters.
    pub(super) base_rows: f64,
    /// Columns that are kept of it if it is a build side.
    pub(super) columns: usize,
    /// Of handing out its rows.
    pub(super) cost: Cost,
}

/// Columns of different relations, at most one of each, that are all equal.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// Relation and number of values that its column may take.
    pub(super) members: Vec<(usize, f64)>,
    /// Can the values be looked up in an array?
    pub(super) array: bool,
}

impl Class {
    fn relations(&self) -> Set {
        self.members.iter().fold(0, |set, (r, _)| set | 1 << r)
    }
}

/// A semi or anti join with a relation.
#[derive(Debug, Clone)]
pub(super) struct Semi {
    /// The other side.
    pub(super) relation: usize,
    /// Relations whose columns are compared with it.
    pub(super) needs: Set,
    /// Share of rows that stay.
    pub(super) share: f64,
    /// Rows without a match stay.
    pub(super) anti: bool,
    /// How keys are looked up.
    pub(super) lookup: Lookup,
    /// Combinations of values that the key columns of the other side may have.
    pub(super) choices: f64,
    /// May keys of one side be used to drop rows of the other? Not where NULLs match or are looked for.
    pub(super) filters: bool,
}

/// A condition over several relations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    /// Its relations.
    pub(super) needs: Set,
    /// Share of rows that pass.
    pub(super) share: f64,
}

/// Everything there is to join.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    /// The relations, those of semi joins included.
    pub(super) relations: Vec<Relation>,
    /// What is equal.
    pub(super) classes: Vec<Class>,
    /// Semi and anti joins.
    pub(super) semis: Vec<Semi>,
    /// What else pairs of rows have to pass.
    pub(super) conditions: Vec<Condition>,
}

/// An order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    /// A relation.
    Leaf(usize),
    /// An inner join.
    Join {
        /// What streams.
        probe: Box<Tree>,
        /// What is kept.
        build: Box<Tree>,
    },
    /// A semi or anti join, by number.
    Semi {
        /// The side whose rows are given.
        kept: Box<Tree>,
        /// Which.
        semi: usize,
        /// The given side is kept in memory; else the other one.
        builds_kept: bool,
    },
}

/// The best tree known for a set of relations.
///
/// Each relation starts a pipeline: its rows stream past build sides until they are kept as one themselves, or handed
/// out. What the pipelines cost, and which one each is kept for, is in [`Search::work`] and [`Search::parents`], a row
/// per entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    set: Set,
    rows: f64,
    /// Needed whatever filters say.
    fixed: f64,
    /// All of it.
    total: f64,
    /// The relation whose pipeline hands out the rows.
    root: usize,
    /// Where its pipelines are.
    slot: usize,
    step: SearchStep,
}

#[derive(Debug, Clone, Copy)]
enum SearchStep {
    Leaf(usize),
    Join { build: Set, probe: Set },
    Semi { kept: Set, semi: usize, builds_kept: bool },
}

/// A way to join two trees, and what it would cost.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Slots of the trees: what streams, what is kept.
    probe: Entry,
    build: Entry,
    /// Pipelines of the probe side that shrink, and to which share.
    path: Set,
    left_over: f64,
    /// Added to the pipeline that is kept, and to the one that streams.
    kept: f64,
    streamed: f64,
    /// Needed whatever filters say.
    tested: f64,
    total: f64,
    step: SearchStep,
}

/// What is found: the tree, its rows and its cost.
pub(super) struct JoinOrder {
    /// The tree.
    pub(super) tree: Tree,
    /// Rows that it gives.
    pub(super) rows: f64,
    /// What it costs.
    pub(super) cost: Cost,
}

/// Finds an order for all relations.
pub(super) fn order(graph: &Graph) -> JoinOrder {
    let search = Search::new(graph);
    if graph.relations.len() <= EXHAUSTIVE_MAX { search.exhaustive() } else { search.greedy() }
}

struct Search<'a> {
    graph: &'a Graph,
    /// Per relation: what it may be joined with directly.
    neighbours: Vec<Set>,
    /// The semi join that a relation is the other side of.
    semi_of: Vec<Option<usize>>,
    semi_relations: Set,
    /// Pairs of relations with several keys in common, and by how much more rows match than if the keys were
    /// independent.
    pairs: Vec<(Set, f64)>,
    /// Per entry and relation: what its pipeline costs.
    work: Vec<f64>,
    /// Per entry and relation: the pipeline that its rows are kept for; itself if for none.
    parents: Vec<u8>,
    /// Per entry and class: how many values of the class its rows may have.
    values: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph) -> Search<'a> {
        let count = graph.relations.len();
        let mut neighbours = vec![0; count];
        for class in &graph.classes {
            let all = class.relations();
            class.members.iter().for_each(|(r, _)| neighbours[*r] |= all & !(1 << r));
        }
        let mut semi_of = vec![None; count];
        let mut semi_relations = 0;
        for (number, semi) in graph.semis.iter().enumerate() {
            semi_of[semi.relation] = Some(number);
            semi_relations |= 1 << semi.relation;
        }
        connect(&mut neighbours, semi_relations, graph);
        let (work, parents, values) = (Vec::new(), Vec::new(), Vec::new());
        let pairs = pairs(graph);
        Search { graph, neighbours, semi_of, semi_relations, pairs, work, parents, values }
    }

    /// Rows of the join of a set.
    fn rows(&self, set: Set) -> f64 {
        if set.count_ones() == 1 {
            return self.graph.relations[set.trailing_zeros() as usize].rows;
        }
        let inner = set & !self.semi_relations;
        let mut rows = 1.0;
        for (number, relation) in self.graph.relations.iter().enumerate() {
            if inner >> number & 1 == 1 {
                rows *= relation.rows;
            }
        }
        for class in &self.graph.classes {
            let (mut product, mut least) = (1.0, f64::MAX);
            for (relation, choices) in &class.members {
                if inner >> relation & 1 == 1 {
                    product *= choices;
                    least = least.min(*choices);
                }
            }
            if least < f64::MAX {
                rows *= least / product;
            }
        }
        let within = |needs: Set| needs & set == needs;
        self.pairs.iter().filter(|(pair, _)| within(*pair)).for_each(|(_, more)| rows *= more);
        self.graph.conditions.iter().filter(|c| within(c.needs)).for_each(|c| rows *= c.share);
        self.graph.semis.iter().filter(|s| within(1 << s.relation)).for_each(|s| rows *= s.share);
        rows
    }

    fn leaf(&mut self, relation: usize) -> Entry {
        let known = &self.graph.relations[relation];
        let (slot, count) = (self.work.len() / self.graph.relations.len(), self.graph.relations.len());
        self.work.extend((0..count).map(|r| if r == relation { known.cost.work } else { 0.0 }));
        self.parents.extend((0..count).map(|r| r as u8));
        self.values.extend(self.graph.classes.iter().map(|class| {
            let own = class.members.iter().find(|m| m.0 == relation);
            own.map_or(f64::MAX, |m| m.1.min(known.rows))
        }));
        Entry {
            set: 1 << relation,
            rows: known.rows,
            fixed: known.cost.fixed,
            total: known.cost.total(),
            root: relation,
            slot,
            step: SearchStep::Leaf(relation),
        }
    }

    /// The pipelines of a tree that have fewer rows if those of `relation` have.
    fn path(&self, entry: &Entry, relation: usize, mut path: Set) -> Set {
        let parents = &self.parents[entry.slot * self.graph.relations.len()..];
        let mut at = relation;
        while path >> at & 1 == 0 {
            path |= 1 << at;
            at = parents[at] as usize;
        }
        path
    }

    /// What is saved if the pipelines of `path` have but a share of their rows.
    fn saved(&self, entry: &Entry, path: Set, left_over: f64) -> f64 {
        let work = &self.work[entry.slot * self.graph.relations.len()..];
        let (mut rest, mut sum) = (path, 0.0);
        while rest != 0 {
            sum += work[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        sum * (1.0 - left_over)
    }

    /// Testing the scans of these pipelines once more.
    fn tested(&self, path: Set) -> f64 {
        let tested = self.graph.relations.iter().enumerate().filter(|(r, _)| path >> r & 1 == 1);
        tested.map(|(_, r)| r.base_rows).sum::<f64>() * cost::SCAN_TEST
    }

    /// Narrows what is known of the values of classes by those of a tree.
    fn narrow(&self, values: &mut [f64], entry: &Entry) {
        let known = &self.values[entry.slot * values.len()..];
        values.iter_mut().zip(known).for_each(|(v, k)| *v = v.min(*k));
    }

    /// The candidate as a tree.
    fn entry(&mut self, found: &Candidate, rows: f64, values: &[f64]) -> Entry {
        let count = self.graph.relations.len();
        let slot = self.work.len() / count;
        self.values.extend(values.iter().map(|v| if *v < f64::MAX { v.min(rows) } else { *v }));
        for relation in 0..count {
            let (tree, share) = match found.build.set >> relation & 1 {
                1 => (&found.build, 1.0),
                _ => (&found.probe, if found.path >> relation & 1 == 1 { found.left_over } else { 1.0 }),
            };
            let mut work = self.work[tree.slot * count + relation] * share;
            let mut parent = self.parents[tree.slot * count + relation];
            if relation == found.probe.root {
                work += found.streamed;
            } else if relation == found.build.root {
                (work, parent) = (work + found.kept, found.probe.root as u8);
            }
            self.work.push(work);
            self.parents.push(parent);
        }
        Entry {
            set: found.build.set | found.probe.set,
            rows,
            fixed: found.build.fixed + found.probe.fixed + found.tested + cost::START,
            total: found.total,
            root: found.probe.root,
            slot,
            step: found.step,
        }
    }

    /// Columns that a set keeps per row.
    fn width(&self, set: Set) -> usize {
        let all = self.graph.relations.iter().enumerate();
        all.filter(|(r, _)| (set & !self.semi_relations) >> r & 1 == 1).map(|(_, r)| r.columns).sum()
    }

    fn join(&self, build: &Entry, probe: &Entry, rows: f64) -> Candidate {
        let (mut keys, mut array, mut choices, mut path) = (0, true, 0.0f64, 0);
        let mut matching = 1.0;
        for (number, class) in self.graph.classes.iter().enumerate() {
            let relations = class.relations();
            if relations & build.set == 0 || relations & probe.set == 0 {
                continue;
            }
            keys += 1;
            array &= class.array;
            let mut of_class = 1.0f64;
            for (relation, values) in &class.members {
                of_class = of_class.max(*values);
                if build.set >> relation & 1 == 1 {
                    choices = choices.max(*values);
                }
                if probe.set >> relation & 1 == 1 {
                    path = self.path(probe, *relation, path);
                }
            }
            // Filters are made per key column.
            matching *= (self.values[build.slot * self.graph.classes.len() + number] / of_class).min(1.0);
        }
        let lookup = match keys {
            0 => Lookup::Loop,
            1 if array => Lookup::Array,
            _ => Lookup::Hash,
        };
        // Key filters know nothing of other conditions.
        let apart = |c: &&Condition| {
            let within = |set: Set| c.needs & set == c.needs;
            within(build.set | probe.set) && !within(build.set) && !within(probe.set)
        };
        let asked: f64 = self.graph.conditions.iter().filter(apart).map(|c| c.share).product();
        let pairs = (rows / (asked * probe.rows).max(1e-9)).min(1.0);
        let left_over = match keys {
            0 => 1.0,
            1 => pairs,
            _ => matching.max(pairs),
        };
        let tested = if left_over < FILTERS_BELOW { self.tested(path) } else { 0.0 };
        let kept = cost::build(build.rows, self.width(build.set), lookup);
        let streamed = cost::probe(probe.rows * left_over, build.rows, choices, lookup) + rows;
        let total =
            build.total + probe.total - self.saved(probe, path, left_over) + kept + streamed + tested + cost::START;
        let step = SearchStep::Join { build: build.set, probe: probe.set };
        Candidate { probe: *probe, build: *build, path, left_over, kept, streamed, tested, total, step }
    }

    /// A semi join that looks rows of the given side up in the other one, or the other way round.
    fn semi(&self, kept: &Entry, other: &Entry, number: usize, rows: f64, builds_kept: bool) -> Candidate {
        let semi = &self.graph.semis[number];
        let step = SearchStep::Semi { kept: kept.set, semi: number, builds_kept };
        let (build, probe) = if builds_kept { (kept, other) } else { (other, kept) };
        let left_over = match builds_kept {
            _ if !semi.filters => 1.0,
            true => (kept.rows / semi.choices.max(1.0)).min(1.0),
            false if semi.anti => 1.0,
            false => semi.share,
        };
        let path = self.path(probe, probe.root, 0);
        let tested = if left_over < FILTERS_BELOW { self.tested(path) } else { 0.0 };
        let columns = if builds_kept { self.width(kept.set) } else { 1 };
        let work = cost::build(build.rows, columns, semi.lookup);
        let given = if builds_kept { rows * cost::ROW } else { rows };
        let streamed = cost::probe(probe.rows * left_over, build.rows, semi.choices, semi.lookup) + given;
        let total =
            build.total + probe.total - self.saved(probe, path, left_over) + work + streamed + tested + cost::START;
        Candidate { probe: *probe, build: *build, path, left_over, kept: work, streamed, tested, total, step }
    }

    /// The best way to join two trees; `None` where they cannot be.
    fn combine(&self, a: &Entry, b: &Entry, rows: f64) -> Option<Candidate> {
        let single =
            |e: &Entry| (e.set.count_ones() == 1).then(|| self.semi_of[e.set.trailing_zeros() as usize]).flatten();
        let cheaper = |x: Candidate, y: Candidate| if y.total < x.total { y } else { x };
        match (single(a), single(b)) {
            (Some(_), Some(_)) => None,
            (Some(semi), None) | (None, Some(semi)) => {
                let (kept, other) = if single(a).is_some() { (b, a) } else { (a, b) };
                let needs = self.graph.semis[semi].needs;
                let way = |builds_kept| self.semi(kept, other, semi, rows, builds_kept);
                (kept.set & needs == needs).then(|| cheaper(way(false), way(true)))
            }
            (None, None) => {
                let connected = self.neighbours_of(a.set) & b.set != 0;
                connected.then(|| cheaper(self.join(a, b, rows), self.join(b, a, rows)))
            }
        }
    }

    fn neighbours_of(&self, set: Set) -> Set {
        let (mut rest, mut all) = (set, 0);
        while rest != 0 {
            all |= self.neighbours[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        all
    }

    fn exhaustive(mut self) -> JoinOrder {
        let count = self.graph.relations.len();
        let mut best: Vec<Option<Entry>> = vec![None; 1 << count];
        let mut values = vec![f64::MAX; self.graph.classes.len()];
        for relation in 0..count {
            best[1 << relation] = Some(self.leaf(relation));
        }
        for set in 1usize..1 << count {
            if set.count_ones() < 2 {
                continue;
            }
            let mut rows = None;
            let mut found: Option<Candidate> = None;
            values.fill(f64::MAX);
            // Half of the splits: the part with the lowest relation comes first.
            let low = set & set.wrapping_neg();
            let mut part = (set - 1) & set;
            while part != 0 {
                if part & low != 0
                    && let (Some(a), Some(b)) = (&best[part], &best[set ^ part])
                {
                    let rows = *rows.get_or_insert_with(|| self.rows(set as Set));
                    if let Some(candidate) = self.combine(a, b, rows) {
                        // What any way to join them leaves out is left out, in whichever way they are joined.
                        self.narrow(&mut values, a);
                        self.narrow(&mut values, b);
                        if found.as_ref().is_none_or(|f| candidate.total < f.total) {
                            found = Some(candidate);
                        }
                    }
                }
                part = (part - 1) & set;
            }
            best[set] = found.map(|f| self.entry(&f, rows.unwrap_or_default(), &values));
        }
        let whole = best[(1 << count) - 1].expect("every relation was connected");
        ordered(&whole, &|set| best[set as usize])
    }

    fn greedy(mut self) -> JoinOrder {
        let mut trees: Vec<Entry> = Vec::new();
        for relation in 0..self.graph.relations.len() {
            let leaf = self.leaf(relation);
            trees.push(leaf);
        }
        let mut all = trees.clone();
        while trees.len() > 1 {
            let mut found: Option<(usize, usize, Candidate, f64)> = None;
            for i in 0..trees.len() {
                for j in i + 1..trees.len() {
                    let rows = self.rows(trees[i].set | trees[j].set);
                    if found.as_ref().is_none_or(|f| rows < f.3)
                        && let Some(candidate) = self.combine(&trees[i], &trees[j], rows)
                    {
                        found = Some((i, j, candidate, rows));
                    }
                }
            }
            let (i, j, candidate, rows) = found.expect("every relation was connected");
            let mut values = vec![f64::MAX; self.graph.classes.len()];
            self.narrow(&mut values, &trees[i]);
            self.narrow(&mut values, &trees[j]);
            let entry = self.entry(&candidate, rows, &values);
            trees.swap_remove(j);
            trees.swap_remove(i);
            trees.push(entry);
            all.push(entry);
        }
        ordered(&trees[0], &|set| all.iter().find(|e| e.set == set).copied())
    }
}

fn ordered(whole: &Entry, known: &dyn Fn(Set) -> Option<Entry>) -> JoinOrder {
    let cost = Cost { fixed: whole.fixed, work: (whole.total - whole.fixed).max(0.0) };
    JoinOrder { tree: tree(whole, known), rows: whole.rows, cost }
}

fn tree(entry: &Entry, known: &dyn Fn(Set) -> Option<Entry>) -> Tree {
    let below = |set: Set| Box::new(tree(&known(set).expect("a tree is made of trees"), known));
    match entry.step {
        SearchStep::Leaf(relation) => Tree::Leaf(relation),
        SearchStep::Join { build, probe } => Tree::Join { probe: below(probe), build: below(build) },
        SearchStep::Semi { kept, semi, builds_kept } => Tree::Semi { kept: below(kept), semi, builds_kept },
    }
}

/// Lets relations be joined without a key where they could not be joined otherwise: a relation of one row with
/// anything, and those that no key connects.
fn connect(neighbours: &mut [Set], semi_relations: Set, graph: &Graph) {
    let all = (0..neighbours.len()).fold(0, |set: Set, r| set | 1 << r) & !semi_relations;
    let join = |neighbours: &mut [Set], a: Set, b: Set| {
        for (relation, known) in neighbours.iter_mut().enumerate() {
            if a >> relation & 1 == 1 {
                *known |= b & !(1 << relation);
            }
        }
    };
    for (relation, known) in graph.relations.iter().enumerate() {
        if all >> relation & 1 == 1 && known.rows <= 1.0 && neighbours[relation] == 0 {
            join(neighbours, 1 << relation, all);
            join(neighbours, all, 1 << relation);
        }
    }
    loop {
        let mut reached = all & all.wrapping_neg();
        loop {
            let more = (0..neighbours.len()).filter(|r| reached >> r & 1 == 1).fold(reached, |s, r| s | neighbours[r]);
            if more & all == reached {
                break;
            }
            reached = more & all;
        }
        if reached == all {
            return;
        }
        join(neighbours, reached, all & !reached);
        join(neighbours, all & !reached, reached);
    }
}

/// Pairs of relations with several keys in common.
fn pairs(graph: &Graph) -> Vec<(Set, f64)> {
    let mut pairs = Vec::new();
    for a in 0..graph.relations.len() {
        for b in a + 1..graph.relations.len() {
            let of = |class: &Class, r: usize| class.members.iter().find(|m| m.0 == r).map(|m| m.1);
            let common = graph.classes.iter().filter_map(|c| Some((of(c, a)?, of(c, b)?)));
            let (mut keys, mut left, mut right, mut apart) = (0, 1.0, 1.0, 1.0);
            for (l, r) in common {
                keys += 1;
                left *= l;
                right *= r;
                apart *= f64::max(l, r);
            }
            if keys > 1 {
                let rows = |r: usize| graph.relations[r].base_rows.max(1.0);
                let together = super::cardinality::several_keys((left, rows(a)), (right, rows(b)));
                pairs.push((1 << a | 1 << b, apart / together));
            }
        }
    }
    pairs
}
