//! In which order relations are joined, and which side of each join is kept: a search over numbers only.
//!
//! Up to [`EXHAUSTIVE_MAX`] relations every tree is looked at (dynamic programming over connected subsets, bushy trees
//! included); beyond that the two trees whose join gives the fewest rows are joined first. Semi and anti joins are relations that
//! can only be joined to a tree that has the columns they compare, so their place is found by cost too.
//!
//! The cost of a tree (see [`cost`](super::cost)) knows that keys of a build side thin out the scans of its probe side, wherever in
//! it the key comes from: work below shrinks by the share of rows that match, so in which order the joins of one pipeline
//! come hardly matters, but what is kept and what streams does.

use super::cost::{self, Cost, Lookup};

/// Relations up to which every order is looked at.
pub(super) const EXHAUSTIVE_MAX: usize = 10;

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
    pub(super) domain: f64,
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
#[derive(Debug, Clone, Copy)]
struct Entry {
    set: Set,
    rows: f64,
    /// Needed whatever filters say.
    fixed: f64,
    /// Work of build sides.
    built: f64,
    /// Work of the pipeline that streams.
    flow: f64,
    /// The relation whose rows stream, if they come from one.
    root: Option<usize>,
    step: Step,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Leaf(usize),
    Join { build: Set, probe: Set },
    Semi { kept: Set, semi: usize, builds_kept: bool },
}

impl Entry {
    fn total(&self) -> f64 {
        self.fixed + self.built + self.flow
    }
}

/// What is found: the tree, its rows and its cost.
pub(super) struct Ordered {
    /// The tree.
    pub(super) tree: Tree,
    /// Rows that it gives.
    pub(super) rows: f64,
    /// What it costs.
    pub(super) cost: Cost,
}

/// Finds an order for all relations.
pub(super) fn order(graph: &Graph) -> Ordered {
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
    /// Pairs of relations with several keys in common, and by how much more rows match than if the keys were independent.
    pairs: Vec<(Set, f64)>,
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
        Search { graph, neighbours, semi_of, semi_relations, pairs: pairs(graph) }
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
            for (relation, domain) in &class.members {
                if inner >> relation & 1 == 1 {
                    product *= domain;
                    least = least.min(*domain);
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

    fn leaf(&self, relation: usize) -> Entry {
        let known = &self.graph.relations[relation];
        Entry {
            set: 1 << relation,
            rows: known.rows,
            fixed: known.cost.fixed,
            built: 0.0,
            flow: known.cost.work,
            root: Some(relation),
            step: Step::Leaf(relation),
        }
    }

    /// Columns that a set keeps per row.
    fn width(&self, set: Set) -> usize {
        let all = self.graph.relations.iter().enumerate();
        all.filter(|(r, _)| (set & !self.semi_relations) >> r & 1 == 1).map(|(_, r)| r.columns).sum()
    }

    fn join(&self, build: &Entry, probe: &Entry, rows: f64) -> Entry {
        let (mut keys, mut array, mut domain, mut at_root, mut below_root, mut tested) =
            (0, true, 0.0f64, false, false, 0.0);
        for class in &self.graph.classes {
            let relations = class.relations();
            if relations & build.set == 0 || relations & probe.set == 0 {
                continue;
            }
            keys += 1;
            array &= class.array;
            for (relation, values) in &class.members {
                if build.set >> relation & 1 == 1 {
                    domain = domain.max(*values);
                }
                if probe.set >> relation & 1 == 1 {
                    let root = probe.root == Some(*relation);
                    at_root |= root;
                    below_root |= !root;
                    tested += self.graph.relations[*relation].base_rows;
                }
            }
        }
        let lookup = match keys {
            0 => Lookup::Loop,
            1 if array => Lookup::Array,
            _ => Lookup::Hash,
        };
        let left_over = if keys == 0 { 1.0 } else { (rows / probe.rows.max(1e-9)).min(1.0) };
        let filters = left_over < 0.9;
        let kept = cost::build(build.rows, self.width(build.set), lookup);
        let looked_up = cost::probe(probe.rows * left_over, build.rows, domain, lookup);
        debug_assert!(keys == 0 || at_root || below_root);
        Entry {
            set: build.set | probe.set,
            rows,
            fixed: probe.fixed + build.fixed + if filters { tested * cost::SCAN_TEST } else { 0.0 },
            built: probe.built * if below_root { left_over } else { 1.0 } + build.built + build.flow + kept,
            flow: probe.flow * left_over + looked_up + rows,
            root: probe.root,
            step: Step::Join { build: build.set, probe: probe.set },
        }
    }

    /// A semi join that looks the given rows up in the other side, or the other way round.
    fn semi(&self, kept: &Entry, number: usize, rows: f64, builds_kept: bool) -> Entry {
        let semi = &self.graph.semis[number];
        let other = &self.graph.relations[semi.relation];
        let set = kept.set | 1 << semi.relation;
        let step = Step::Semi { kept: kept.set, semi: number, builds_kept };
        if builds_kept {
            let left_over = if semi.filters { (kept.rows / semi.domain.max(1.0)).min(1.0) } else { 1.0 };
            let tested = if left_over < 0.9 { other.base_rows * cost::SCAN_TEST } else { 0.0 };
            let streaming = other.rows * left_over;
            let work = cost::build(kept.rows, self.width(kept.set), semi.lookup)
                + other.cost.work * left_over
                + cost::probe(streaming, kept.rows, semi.domain, semi.lookup);
            let fixed = kept.fixed + other.cost.fixed + tested;
            let built = kept.built + kept.flow + work;
            return Entry { set, rows, fixed, built, flow: rows * cost::ROW, root: None, step };
        }
        let left_over = if semi.anti || !semi.filters { 1.0 } else { semi.share };
        let root_tested = kept.root.map_or(kept.rows, |r| self.graph.relations[r].base_rows);
        let tested = if left_over < 0.9 { root_tested * cost::SCAN_TEST } else { 0.0 };
        Entry {
            set,
            rows,
            fixed: kept.fixed + other.cost.fixed + tested,
            built: kept.built + other.cost.work + cost::build(other.rows, 1, semi.lookup),
            flow: kept.flow * left_over
                + cost::probe(kept.rows * left_over, other.rows, semi.domain, semi.lookup)
                + rows,
            root: kept.root,
            step,
        }
    }

    /// The best way to join two trees; `None` where they cannot be.
    fn combine(&self, a: &Entry, b: &Entry, rows: f64) -> Option<Entry> {
        let single =
            |e: &Entry| (e.set.count_ones() == 1).then(|| self.semi_of[e.set.trailing_zeros() as usize]).flatten();
        let cheaper = |x: Entry, y: Entry| if y.total() < x.total() { y } else { x };
        match (single(a), single(b)) {
            (Some(_), Some(_)) => None,
            (Some(semi), None) | (None, Some(semi)) => {
                let kept = if single(a).is_some() { b } else { a };
                let needs = self.graph.semis[semi].needs;
                (kept.set & needs == needs)
                    .then(|| cheaper(self.semi(kept, semi, rows, false), self.semi(kept, semi, rows, true)))
            }
            (None, None) => {
                let met = |e: &Entry| self.neighbours_of(e.set) & e.set != 0 || e.set.count_ones() == 1;
                debug_assert!(met(a) && met(b));
                (self.neighbours_of(a.set) & b.set != 0).then(|| cheaper(self.join(a, b, rows), self.join(b, a, rows)))
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

    fn exhaustive(&self) -> Ordered {
        let count = self.graph.relations.len();
        let mut best: Vec<Option<Entry>> = vec![None; 1 << count];
        for relation in 0..count {
            best[1 << relation] = Some(self.leaf(relation));
        }
        for set in 1usize..1 << count {
            if set.count_ones() < 2 {
                continue;
            }
            let mut rows = None;
            let mut found: Option<Entry> = None;
            // Half of the splits: the part with the lowest relation comes first.
            let low = set & set.wrapping_neg();
            let mut part = (set - 1) & set;
            while part != 0 {
                if part & low != 0
                    && let (Some(a), Some(b)) = (&best[part], &best[set ^ part])
                {
                    let rows = *rows.get_or_insert_with(|| self.rows(set as Set));
                    if let Some(entry) = self.combine(a, b, rows)
                        && found.is_none_or(|f| entry.total() < f.total())
                    {
                        found = Some(entry);
                    }
                }
                part = (part - 1) & set;
            }
            best[set] = found;
        }
        let known = |set: Set| best[set as usize];
        let whole = best[(1 << count) - 1].expect("every relation was connected");
        self.ordered(&whole, &known)
    }

    fn greedy(&self) -> Ordered {
        let mut trees: Vec<Entry> = (0..self.graph.relations.len()).map(|r| self.leaf(r)).collect();
        let mut all = trees.clone();
        while trees.len() > 1 {
            let mut found: Option<(usize, usize, Entry)> = None;
            for i in 0..trees.len() {
                for j in i + 1..trees.len() {
                    let rows = self.rows(trees[i].set | trees[j].set);
                    let better = |f: &(usize, usize, Entry)| rows < f.2.rows;
                    if found.as_ref().is_none_or(better)
                        && let Some(entry) = self.combine(&trees[i], &trees[j], rows)
                    {
                        found = Some((i, j, entry));
                    }
                }
            }
            let (i, j, entry) = found.expect("every relation was connected");
            trees.swap_remove(j);
            trees.swap_remove(i);
            trees.push(entry);
            all.push(entry);
        }
        let known = |set: Set| all.iter().find(|e| e.set == set).copied();
        self.ordered(&trees[0], &known)
    }

    fn ordered(&self, whole: &Entry, known: &dyn Fn(Set) -> Option<Entry>) -> Ordered {
        let cost = Cost { fixed: whole.fixed, work: whole.built + whole.flow };
        Ordered { tree: tree(whole, known), rows: whole.rows, cost }
    }
}

fn tree(entry: &Entry, known: &dyn Fn(Set) -> Option<Entry>) -> Tree {
    let below = |set: Set| Box::new(tree(&known(set).expect("a tree is made of trees"), known));
    match entry.step {
        Step::Leaf(relation) => Tree::Leaf(relation),
        Step::Join { build, probe } => Tree::Join { probe: below(probe), build: below(build) },
        Step::Semi { kept, semi, builds_kept } => Tree::Semi { kept: below(kept), semi, builds_kept },
    }
}

/// Lets relations be joined without a key where they could not be joined otherwise: a relation of one row with anything, and
/// those that no key connects.
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
