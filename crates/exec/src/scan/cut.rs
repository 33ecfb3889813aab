//! How rows become morsels: a granule each, several where granules take little time, small remainders together.
//!
//! Invariants: a morsel's pieces lie on one node, in the order of the rows; whatever may match is in one morsel, once.
//! Where there are copies, each morsel gets the node of one that is expected to be done first, and no other node.
//!
//! # Limits
//! Times are those of [`PerRow`], orders of magnitude only.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use numa::NodeId;
use sched::Hint;
use storage::{BLOCK_ROWS, GRANULE_ROWS};

use super::cost::PerRow;
use super::prepared::{Leader, PreparedSegment};
use super::seek::Access;
use super::{Morsel, Scan};
use crate::codes::filter::Bound;
use crate::tasks::places::Places;

/// Rows that an index names which one task looks at, at most.
const SOUGHT_ROWS: usize = 8192;
/// What such a row costs, in rows of a piece that is read from its beginning to its end.
const SOUGHT_ROW_COST: usize = GRANULE_ROWS / SOUGHT_ROWS;
/// Most granules of a morsel: a task of 17 us (a granule that a kernel tests and of which nothing passes) costs half as
/// much again to hand over.
const GRANULES_MAX: usize = 16;
/// The same where it was found already which rows pass: some 0.1 us each.
const FOUND_GRANULES_MAX: usize = 256;
/// Time that a morsel of several granules is expected to take at most.
const MORSEL_NS: u64 = 200_000;

impl Scan {
    /// Cuts the rows that are to be looked at into morsels. `little_left`: of nearly all it was found already which
    /// pass.
    pub(super) fn cut(
        &self,
        prepared: &[PreparedSegment],
        looked_at: Vec<Vec<Range<usize>>>,
        places: Places<'_>,
        little_left: bool,
    ) -> Vec<Morsel> {
        let granules: usize = looked_at.iter().map(Vec::len).sum();
        let most = match self.rows_needed {
            // Perhaps the first granule is enough.
            Some(_) => 1,
            None if little_left => FOUND_GRANULES_MAX,
            None => (granules / places.morsels_min.max(1)).clamp(1, GRANULES_MAX),
        };
        let mut cutter = Cutter::new(most, places.turn.unwrap_or(0));
        for (number, ((version, state), pieces)) in self.segments.iter().zip(prepared).zip(looked_at).enumerate() {
            let segment = &version.segment;
            let leader = self.leader(segment, &state.reads);
            let home_of = |granule: usize| match &leader {
                Some(Leader::Granules(locator)) => locator.node_of(granule).map_or(Home::Anywhere, Home::On),
                Some(Leader::Copies(nodes)) => Home::Copies(nodes),
                None => Home::Anywhere,
            };
            let rows: usize = pieces.iter().map(Range::len).sum();
            match &state.access {
                Access::Rows(rows) => {
                    let per_row = self.per_row(segment, state, segment.rows());
                    cutter.push_sought(number, rows, &home_of, &per_row);
                }
                _ if rows > 0 => {
                    let per_row = match little_left {
                        true => PerRow::default(),
                        false => self.per_row(segment, state, rows),
                    };
                    for piece in pieces {
                        let home = home_of(piece.start / GRANULE_ROWS);
                        let (rows, most) = (piece.len(), cutter.most);
                        cutter.push(number, piece, home, &per_row, Cost { rows, filled: rows, most });
                    }
                }
                _ => {}
            }
        }
        cutter.morsels
    }

    /// Per segment the granules, or what is to be looked at of them, that may hold a row that passes; none where an
    /// index names rows.
    pub(super) fn pieces(&self, prepared: &[PreparedSegment], places: Places<'_>) -> Vec<Vec<Range<usize>>> {
        let mut all = vec![Vec::new(); prepared.len()];
        // Rows that are sure to be returned.
        let mut sure = 0;
        for ((version, state), pieces) in self.segments.iter().zip(prepared).zip(&mut all) {
            let segment = &version.segment;
            let range = match &state.access {
                _ if version.live_rows() == 0 || state.access.len(segment.rows()) == 0 => continue,
                Access::Rows(_) => continue,
                Access::Range(range) => range.clone(),
                Access::All => 0..segment.rows(),
            };
            let all_pass = version.deleted.is_none() && matches!(*state.filter, Bound::Constant(true));
            for granule in range.start / GRANULE_ROWS..range.end.div_ceil(GRANULE_ROWS) {
                if self.rows_needed.is_some_and(|needed| sure >= needed) {
                    return all;
                }
                let bounds = |c: usize| segment.column(c).as_coded().map(|column| column.code_bounds(granule));
                if places.options.block_skipping && !state.filter.may_match(&bounds) {
                    continue;
                }
                // Kernels begin at a block: rows in front of the range are tested once more.
                let start = (granule * GRANULE_ROWS).max(range.start / BLOCK_ROWS * BLOCK_ROWS);
                let piece = start..((granule + 1) * GRANULE_ROWS).min(range.end);
                sure += if all_pass { piece.len() } else { 0 };
                pieces.push(piece);
            }
        }
        all
    }
}

/// What a piece adds to a morsel.
#[derive(Clone, Copy)]
struct Cost {
    /// Rows that are looked at.
    rows: usize,
    /// What that takes, in rows that are read one after the other.
    filled: usize,
    /// What the morsel may come to, if its work is little.
    most: usize,
}

/// Where the rows of a piece lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home<'a> {
    Anywhere,
    On(NodeId),
    /// A copy on each of these.
    Copies(&'a [NodeId]),
}

impl Home<'_> {
    /// Whether a morsel that runs there reads what is near.
    fn is_at(&self, node: Option<NodeId>) -> bool {
        match (self, node) {
            (Home::Anywhere, node) => node.is_none(),
            (Home::On(home), node) => node == Some(*home),
            (Home::Copies(nodes), Some(node)) => nodes.contains(&node),
            (Home::Copies(_), None) => false,
        }
    }
}

/// Puts pieces together to morsels.
struct Cutter {
    morsels: Vec<Morsel>,
    /// What the last morsel costs, in rows.
    filled: usize,
    /// What a morsel of little work may cost, in rows.
    most: usize,
    /// Time that morsels so far are expected to take, by node.
    dealt: BTreeMap<NodeId, u64>,
    /// Of nodes that are equally busy the one that is first.
    turn: usize,
}

impl Cutter {
    /// Morsels of little work may have `granules`.
    fn new(granules: usize, turn: usize) -> Cutter {
        Cutter { morsels: Vec::new(), filled: 0, most: granules * GRANULE_ROWS, dealt: BTreeMap::new(), turn }
    }

    /// The node of the next morsel, whose rows lie there.
    fn deal(&self, home: Home<'_>) -> Option<NodeId> {
        match home {
            Home::Anywhere => None,
            Home::On(node) => Some(node),
            Home::Copies(nodes) => {
                let nth = |place: usize| nodes[(place + self.turn) % nodes.len()];
                (0..nodes.len()).map(nth).min_by_key(|node| self.dealt.get(node).copied().unwrap_or(0))
            }
        }
    }

    /// Adds a piece.
    fn push(&mut self, segment: usize, piece: Range<usize>, home: Home<'_>, per_row: &PerRow, cost: Cost) {
        let mut added = Hint::default();
        per_row.add_to(&mut added, cost.rows);
        let filled = self.filled + cost.filled;
        let fits = |last: &Morsel| {
            let little = last.hint.cpu_ns + added.cpu_ns <= MORSEL_NS;
            home.is_at(last.node) && (filled <= GRANULE_ROWS || (filled <= cost.most && little))
        };
        match self.morsels.last_mut() {
            Some(last) if fits(last) => self.filled = filled,
            _ => {
                self.filled = cost.filled;
                let node = self.deal(home);
                self.morsels.push(Morsel { pieces: Vec::new(), node, hint: Hint::default() });
            }
        }
        if let Some(last) = self.morsels.last_mut() {
            last.hint.bytes += added.bytes;
            last.hint.cpu_ns += added.cpu_ns;
            last.pieces.push((segment, piece));
            if let Some(node) = last.node {
                *self.dealt.entry(node).or_default() += added.cpu_ns.max(1);
            }
        }
    }

    /// Adds rows that an index names: a piece reaches from its first row to its last one, all on one node.
    fn push_sought<'a>(&mut self, segment: usize, rows: &[u32], home_of: &dyn Fn(usize) -> Home<'a>, per_row: &PerRow) {
        let home = |row: u32| home_of(row as usize / GRANULE_ROWS);
        let mut rest = rows;
        while let Some(&first) = rest.first() {
            let here = home(first);
            let most = &rest[..rest.len().min(SOUGHT_ROWS)];
            let count = most.iter().position(|&row| home(row) != here).unwrap_or(most.len());
            let piece = first as usize..most[count - 1] as usize + 1;
            let cost = Cost { rows: count, filled: count * SOUGHT_ROW_COST, most: GRANULE_ROWS };
            self.push(segment, piece, here, per_row, cost);
            rest = &rest[count..];
        }
    }
}

/// Morsels one of each node after the other, so that all nodes work from the beginning; each operation starts at
/// another node than the one before (VLDB 2015, section 5.2). Those that are on no node in particular take turns with
/// the nodes.
pub(super) fn in_turn(morsels: &[Morsel], nodes: &[NodeId], turn: usize) -> Vec<usize> {
    let mut lanes: Vec<VecDeque<usize>> = vec![VecDeque::new(); nodes.len() + 1];
    for (number, morsel) in morsels.iter().enumerate() {
        let lane = morsel.node.and_then(|node| nodes.binary_search(&node).ok()).unwrap_or(nodes.len());
        lanes[lane].push_back(number);
    }
    lanes.retain(|lane| !lane.is_empty());
    let first = turn % lanes.len().max(1);
    lanes.rotate_left(first);
    let mut order = Vec::with_capacity(morsels.len());
    while order.len() < morsels.len() {
        order.extend(lanes.iter_mut().filter_map(VecDeque::pop_front));
    }
    order
}

/// Morsels in the order of the rows, but beginning far from where the operations of the turns before begin: those that
/// share passes read different granules for each other (halves, then quarters, ..: van der Corput's sequence).
pub(super) fn apart(morsels: usize, turn: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..morsels).collect();
    let first = (u128::from((turn as u64).reverse_bits()) * morsels as u128) >> 64;
    order.rotate_left(first as usize);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_share_passes_begin_apart() {
        let begins: Vec<usize> = (0..8).map(|turn| apart(80, turn)[0]).collect();
        assert_eq!(begins, [0, 40, 20, 60, 10, 50, 30, 70]);
        for morsels in [1, 2, 7, 100] {
            for turn in [0, 1, 5, 1000, usize::MAX] {
                let order = apart(morsels, turn);
                assert!((0..morsels).all(|place| order[place] == (order[0] + place) % morsels));
            }
        }
        assert!(apart(0, 3).is_empty());
    }

    /// Cuts whole granules that take `cpu_ps` per row and lie on these nodes.
    fn cut(granules: &[u32], cpu_ps: f64, most: usize) -> Vec<Vec<usize>> {
        let per_row = PerRow::of_cpu(cpu_ps);
        let mut cutter = Cutter::new(most, 0);
        for (granule, node) in granules.iter().enumerate() {
            let piece = granule * GRANULE_ROWS..(granule + 1) * GRANULE_ROWS;
            let cost = Cost { rows: GRANULE_ROWS, filled: GRANULE_ROWS, most: most * GRANULE_ROWS };
            cutter.push(0, piece, Home::On(NodeId(*node)), &per_row, cost);
        }
        let granules = |morsel: Morsel| morsel.pieces.iter().map(|(_, rows)| rows.start / GRANULE_ROWS).collect();
        cutter.morsels.into_iter().map(granules).collect()
    }

    #[test]
    fn granules_of_little_work_on_one_node_share_a_morsel() {
        let nodes = [0, 0, 0, 0, 0, 1, 1, 0];
        assert_eq!(cut(&nodes, 260.0, 1), (0..8).map(|granule| vec![granule]).collect::<Vec<_>>());
        assert_eq!(cut(&nodes, 260.0, 3), [vec![0, 1, 2], vec![3, 4], vec![5, 6], vec![7]]);
        // 1.5 ns for each of 65,536 rows: two of them take the time of a morsel.
        assert_eq!(cut(&nodes, 1500.0, 16), [vec![0, 1], vec![2, 3], vec![4], vec![5, 6], vec![7]]);
        assert_eq!(cut(&nodes, 10_000.0, 16).len(), 8);
    }

    #[test]
    fn rows_that_an_index_names_do_not_wait_for_each_other() {
        let per_row = PerRow::of_cpu(260.0);
        let mut cutter = Cutter::new(16, 0);
        let rows: Vec<u32> = (0..5 * SOUGHT_ROWS as u32).map(|row| row * 100).collect();
        cutter.push_sought(0, &rows, &|_| Home::Anywhere, &per_row);
        assert_eq!(cutter.morsels.len(), 5);
    }

    #[test]
    fn morsels_over_copies_go_where_least_is_expected_and_only_where_a_copy_is() {
        for seed in 0..300 {
            let mut random = random::Random::new(seed);
            let subset = |random: &mut random::Random| -> Vec<NodeId> {
                let nodes: Vec<NodeId> = (0..8).filter(|_| random.one_in(2)).map(NodeId).collect();
                if nodes.is_empty() { vec![NodeId(3)] } else { nodes }
            };
            let sets: Vec<Vec<NodeId>> = (0..1 + random.below(3)).map(|_| subset(&mut random)).collect();
            let mut cutter = Cutter::new(1 + random.below(16), random.below(100));
            // What was given to each node, kept by hand.
            let mut given: BTreeMap<NodeId, u64> = BTreeMap::new();
            for granule in 0..random.below(60) {
                let home = match random.below(5) {
                    0 => Home::Anywhere,
                    1 => Home::On(NodeId(random.below(8) as u32)),
                    _ => Home::Copies(&sets[random.below(sets.len())]),
                };
                let per_row = PerRow::of_cpu([0.0, 100.0, 1000.0, 9000.0][random.below(4)]);
                let piece = granule * GRANULE_ROWS..(granule + 1) * GRANULE_ROWS;
                let cost = Cost { rows: GRANULE_ROWS, filled: GRANULE_ROWS, most: cutter.most };
                let (before, morsels) = (given.clone(), cutter.morsels.len());
                cutter.push(0, piece, home, &per_row, cost);
                let last = cutter.morsels.last().unwrap();
                let mut added = Hint::default();
                per_row.add_to(&mut added, GRANULE_ROWS);
                match (home, last.node) {
                    (Home::Anywhere, node) => assert_eq!(node, None, "seed {seed}"),
                    (Home::On(home), node) => assert_eq!(node, Some(home), "seed {seed}"),
                    (Home::Copies(nodes), node) => {
                        assert!(nodes.contains(&node.unwrap()), "seed {seed}: {node:?} of {nodes:?}");
                        let of = |node: &NodeId| before.get(node).copied().unwrap_or(0);
                        let least = nodes.iter().map(of).min().unwrap();
                        let begins = cutter.morsels.len() > morsels;
                        assert!(!begins || of(&node.unwrap()) == least, "seed {seed}: {node:?} after {before:?}");
                    }
                }
                if let Some(node) = last.node {
                    *given.entry(node).or_default() += added.cpu_ns.max(1);
                }
            }
        }
    }

    #[test]
    fn operations_over_copies_begin_on_different_nodes() {
        let nodes = [NodeId(1), NodeId(4), NodeId(6)];
        let begins: Vec<Option<NodeId>> = (0..4).map(|turn| Cutter::new(1, turn).deal(Home::Copies(&nodes))).collect();
        assert_eq!(begins, [1, 4, 6, 1].map(|node| Some(NodeId(node))));
    }

    fn on(node: Option<u32>) -> Morsel {
        Morsel { pieces: Vec::new(), node: node.map(NodeId), hint: Hint::default() }
    }

    #[test]
    fn nodes_take_turns_and_each_operation_starts_one_further() {
        let morsels: Vec<Morsel> =
            [Some(0), Some(0), Some(0), Some(2), Some(2), None, Some(5)].into_iter().map(on).collect();
        let nodes = [NodeId(0), NodeId(2), NodeId(5)];
        assert_eq!(in_turn(&morsels, &nodes, 0), [0, 3, 6, 5, 1, 4, 2]);
        assert_eq!(in_turn(&morsels, &nodes, 5), [3, 6, 5, 0, 4, 1, 2]);
        for turn in 0..9 {
            let mut all = in_turn(&morsels, &nodes, turn);
            all.sort_unstable();
            assert_eq!(all, (0..morsels.len()).collect::<Vec<_>>());
        }
        assert!(in_turn(&[], &[], 3).is_empty());
    }
}
