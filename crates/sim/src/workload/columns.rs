//! Columns of tables that can lie anywhere, in ranges, and statements that read them where they lie now.
//!
//! A [`Statement`] is passes over tables. A pass reads rows of one table's columns beside its cpu time, as the
//! product's fused scans do: it is cut where any of its columns goes to another node, each piece into as many tasks as
//! [`sched::policy::concurrency`] allows, and a task runs near the node that most of its bytes lie on.
//!
//! Invariant: a statement reads the same bytes in the same cpu time wherever its columns lie; what differs is from
//! where, and how many tasks it takes.
//!
//! # Limits
//! Rows are alike. The passes of a statement run at the same time. A dictionary lies as the codes do, interleaved over
//! their nodes, unless each of them has a copy. Where a task reads copies it reads that of the node it was to run on.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.1 and 5.2.

use placer::Copies;
use sched::policy::Layout;
use sched::policy::concurrency::{Pieces, hint};

use super::{Graph, LINE_BYTES, Task, TaskStage, ids, near};
use crate::constants::Constants;
use crate::machine::Machine;

/// Rows closer together than this share of a table are the same row.
const SAME: f64 = 1e-9;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Its table.
    pub table: usize,
    /// Rows of the table.
    pub rows: f64,
    /// Bytes of its codes and its dictionary.
    pub bytes: f64,
    /// Of these, bytes of its dictionary, which lines at random places are read of; 0: it has none of its own.
    pub dictionary_bytes: f64,
}

/// Where a column lies: consecutive ranges of its rows, each the node, by place, and its share of the rows.
pub type Ranges = Vec<(usize, f64)>;

/// Equal ranges on these nodes.
pub fn equal(nodes: &[usize]) -> Ranges {
    nodes.iter().map(|node| (*node, 1.0 / nodes.len() as f64)).collect()
}

/// A placement that does not change (VLDB 2015, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Static {
    /// Each column on one node, in turn.
    RrColumns,
    /// Each table with all its columns on one node, in turn.
    RrTables,
    /// The columns on nodes in blocks: the first columns on the first node.
    Blocks,
    /// Each column in `n` ranges; a column that would begin where another one did begins one node further.
    Ivp(usize),
    /// Each table in `n` parts, whose columns lie together; a table's first part follows the last of the one before.
    Pp(usize),
}

impl Static {
    /// Where each of the columns lies then, on these nodes.
    pub fn ranges(self, columns: &[Column], nodes: &[usize]) -> Vec<Ranges> {
        let count = nodes.len();
        let of = |(place, column): (usize, &Column)| match self {
            Static::RrColumns => equal(&[nodes[place % count]]),
            Static::RrTables => equal(&[nodes[column.table % count]]),
            Static::Blocks => equal(&[nodes[place * count / columns.len()]]),
            Static::Ivp(ranges) => dealt(place * ranges + place * ranges / count, ranges, nodes),
            Static::Pp(parts) => dealt(column.table * parts, parts, nodes),
        };
        columns.iter().enumerate().map(of).collect()
    }
}

fn dealt(first: usize, ranges: usize, nodes: &[usize]) -> Ranges {
    equal(&(first..first + ranges).map(|range| nodes[range % nodes.len()]).collect::<Vec<_>>())
}

/// What a pass does with a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read {
    /// Which.
    pub column: usize,
    /// Bytes streamed, those written twice.
    pub bytes: f64,
    /// Lines read at random places of it (dictionaries, single rows), beyond what caches hold.
    pub lines: f64,
}

impl Read {
    /// All of a column's codes.
    pub fn scan(column: usize, bytes: f64) -> Read {
        Read { column, bytes, lines: 0.0 }
    }
}

/// Work over the rows of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Its columns.
    pub reads: Vec<Read>,
    /// Cpu time of all rows, ns.
    pub cpu_ns: f64,
    /// At most so many tasks where its rows are few; `None`: as many as the hint allows.
    pub tasks_max: Option<usize>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it reads, all at once.
    pub passes: Vec<Pass>,
}

/// What a task of a statement moves of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touched {
    pub(super) column: usize,
    /// Where that lies, by place.
    pub(super) node: usize,
    pub(super) bytes: f64,
    /// Where the task was to run, by place.
    pub(super) near: usize,
    /// Whether it is lines at random places.
    pub(super) is_lines: bool,
}

/// Where columns lie, and what has copies on all nodes of a column.
#[derive(Clone, Copy)]
pub(super) struct Lying<'a> {
    pub(super) ranges: &'a [Ranges],
    pub(super) copies: &'a [Copies],
}

/// Rows between two borders of a pass, and where each of its reads has them.
struct Piece {
    share: f64,
    nodes: Vec<usize>,
}

impl Statement {
    /// The statement with its columns where they lie, and what each of its tasks touches.
    pub(super) fn graph(
        &self,
        lies: Lying<'_>,
        (machine, layout): (&Machine, &Layout),
        (active, parallelism): (usize, u16),
    ) -> (Graph, Vec<Vec<Touched>>) {
        let mut graph = Graph::new(1.0);
        let mut touched = Vec::new();
        for pass in &self.passes {
            let pieces = pass.pieces(lies);
            let places: Vec<usize> = pieces.iter().map(|piece| pass.near(piece)).collect();
            let mut nodes = places.clone();
            nodes.sort_unstable();
            nodes.dedup();
            let cut = if pieces.len() > 1 { Pieces::Partitions(pieces.len()) } else { Pieces::Whole };
            let allowed = hint(layout, &ids(machine, &nodes), active, parallelism, cut);
            let tasks = pass.tasks_max.map_or(allowed, |most| allowed.min(most.max(pieces.len())));
            for (piece, place) in pieces.iter().zip(places) {
                let own = ((tasks as f64 * piece.share).round() as usize).max(1);
                let (stage, of_task) = pass.stage((piece, place), piece.share / own as f64, lies);
                for _ in 0..own {
                    graph.add(Task::new(near(machine, place), stage.clone()));
                    touched.push(of_task.clone());
                }
            }
        }
        (graph, touched)
    }

    /// The columns that it reads.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.passes.iter().flat_map(|pass| pass.reads.iter().map(|read| read.column))
    }
}

impl Pass {
    /// Cut wherever one of the columns goes to another node. Columns of which there are copies cut nothing, unless
    /// there are copies of all.
    fn pieces(&self, lies: Lying<'_>) -> Vec<Piece> {
        let is_copied = |read: &&Read| lies.copies[read.column] == Copies::All;
        let all_are = self.reads.iter().all(|read| is_copied(&read));
        let mut ends: Vec<f64> = Vec::new();
        for read in self.reads.iter().filter(|read| all_are || !is_copied(read)) {
            let mut end = 0.0;
            ends.extend(lies.ranges[read.column].iter().map(|(_, share)| {
                end += share;
                end
            }));
        }
        ends.sort_by(f64::total_cmp);
        ends.dedup_by(|a, b| *a - *b < SAME);
        let mut begin = 0.0;
        let mut pieces: Vec<Piece> = Vec::with_capacity(ends.len());
        for end in ends {
            let middle = (begin + end) / 2.0;
            let mut nodes: Vec<usize> =
                self.reads.iter().map(|read| node_at(&lies.ranges[read.column], middle)).collect();
            if !all_are {
                let fixed = |(read, _): &(&Read, &usize)| !is_copied(read);
                let near = most_bytes(self.reads.iter().zip(&nodes).filter(fixed));
                for (read, node) in self.reads.iter().zip(&mut nodes).filter(|(read, _)| is_copied(read)) {
                    let has_copy = lies.ranges[read.column].iter().any(|(node, _)| *node == near);
                    *node = if has_copy { near } else { *node };
                }
            }
            match pieces.last_mut() {
                Some(last) if last.nodes == nodes => last.share += end - begin,
                _ => pieces.push(Piece { share: end - begin, nodes }),
            }
            begin = end;
        }
        pieces
    }

    /// The node that most of a piece's bytes lie on; of equals that of the first read.
    fn near(&self, piece: &Piece) -> usize {
        most_bytes(self.reads.iter().zip(&piece.nodes))
    }

    /// What a task over this share of all rows does near a node.
    fn stage(&self, (piece, near): (&Piece, usize), share: f64, lies: Lying<'_>) -> (TaskStage, Vec<Touched>) {
        let mut stage = TaskStage::cpu(self.cpu_ns * share);
        let mut touched = Vec::new();
        for (read, node) in self.reads.iter().zip(&piece.nodes) {
            let mut touch = |node: usize, bytes: f64, is_lines: bool| {
                touched.push(Touched { column: read.column, node, bytes, near, is_lines });
            };
            if read.bytes > 0.0 {
                stage = stage.read(*node, read.bytes * share);
                touch(*node, read.bytes * share, false);
            }
            let on = &lies.ranges[read.column];
            let has_copies = lies.copies[read.column] != Copies::None;
            let copy = on.iter().any(|(other, _)| *other == near).then(|| vec![(near, 1.0)]).filter(|_| has_copies);
            for (other, part) in copy.as_ref().unwrap_or(on).iter().filter(|_| read.lines > 0.0) {
                stage.lines.push((*other, read.lines * share * part));
                touch(*other, read.lines * share * part * LINE_BYTES, true);
            }
        }
        (stage, touched)
    }
}

/// The node that most bytes are read from; of equals the first.
fn most_bytes<'a>(reads: impl Iterator<Item = (&'a Read, &'a usize)> + Clone) -> usize {
    let on = |node: usize| -> f64 {
        let there = reads.clone().filter(|(_, other)| **other == node);
        there.map(|(read, _)| read.bytes + read.lines * LINE_BYTES).sum()
    };
    let mut best = (0, -1.0);
    for (_, node) in reads.clone() {
        let bytes = on(*node);
        if bytes > best.1 {
            best = (*node, bytes);
        }
    }
    best.0
}

/// The node of a row, told by the share of the rows before it.
fn node_at(ranges: &Ranges, row: f64) -> usize {
    let mut end = 0.0;
    for (node, share) in ranges {
        end += share;
        if row < end {
            return *node;
        }
    }
    ranges.last().map_or(0, |(node, _)| *node)
}

/// Bytes of the first `rows` (a share) that lie elsewhere than they are to: from, to, share of all rows.
pub(super) fn to_move(from: &Ranges, to: &Ranges, rows: std::ops::Range<f64>) -> Vec<(usize, usize, f64)> {
    let mut ends = vec![rows.end];
    for ranges in [from, to] {
        let mut end = 0.0;
        for (_, share) in ranges {
            end += share;
            if end > rows.start && end < rows.end {
                ends.push(end);
            }
        }
    }
    ends.sort_by(f64::total_cmp);
    let mut begin = rows.start;
    let mut moves: Vec<(usize, usize, f64)> = Vec::new();
    for end in ends {
        let middle = (begin + end) / 2.0;
        let pair = (node_at(from, middle), node_at(to, middle));
        let share = end - begin;
        begin = end;
        if pair.0 == pair.1 || share < SAME {
            continue;
        }
        match moves.iter_mut().find(|(from, to, _)| (*from, *to) == pair) {
            Some(known) => known.2 += share,
            None => moves.push((pair.0, pair.1, share)),
        }
    }
    moves
}

/// A column whose first `moved` (a share of its rows) lie as `to` says, and the others as before.
pub(super) fn half_way(from: &Ranges, to: &Ranges, moved: f64) -> Ranges {
    let mut ranges = Ranges::new();
    let mut add = |node: usize, share: f64| match ranges.last_mut() {
        _ if share <= SAME => {}
        Some((last, own)) if *last == node => *own += share,
        _ => ranges.push((node, share)),
    };
    let mut end = 0.0;
    for (node, share) in to {
        add(*node, share.min(moved - end));
        end += share;
    }
    end = 0.0;
    for (node, share) in from {
        add(*node, share.min(end + share - moved));
        end += share;
    }
    ranges
}

/// A range scan of one column: codes streamed, and for each qualifying row the work and the dictionary's entry of a
/// result, of which caches hold none (VLDB 2015, section 6.1).
pub fn range_scan(column: usize, rows: f64, bits: f64, selectivity: f64, constants: &Constants) -> Statement {
    let found = rows * selectivity;
    let cpu_ns =
        rows * constants.scan_ns_per_row() + if found >= 1.0 { found * constants.result_ns_per_row() } else { 0.0 };
    // A position and a value of four bytes each are written, and the position is read again.
    let results = found * (8.0 * constants.write_factor() + 4.0);
    let read = Read { column, bytes: rows * bits / 8.0 + results, lines: found };
    Statement { passes: vec![Pass { reads: vec![read], cpu_ns, tasks_max: None }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(count: usize) -> Vec<Column> {
        (0..count).map(|place| Column { table: place / 2, rows: 1e6, bytes: 1e6, dictionary_bytes: 0.0 }).collect()
    }

    #[test]
    fn static_placements_use_the_nodes_they_name() {
        let columns = columns(8);
        let nodes = [0, 1, 2, 3];
        let first = |of: Static| -> Vec<usize> { of.ranges(&columns, &nodes).iter().map(|r| r[0].0).collect() };
        assert_eq!(first(Static::RrColumns), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(first(Static::RrTables), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(first(Static::Blocks), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(first(Static::Pp(2)), [0, 0, 2, 2, 0, 0, 2, 2]);
        assert_eq!(first(Static::Ivp(4)), [0, 1, 2, 3, 0, 1, 2, 3]);
        let all = Static::Ivp(2).ranges(&columns, &nodes);
        assert!(all.iter().all(|ranges| ranges.len() == 2 && (ranges[0].1 - 0.5).abs() < 1e-12));
    }

    #[test]
    fn what_has_moved_half_way_lies_in_both_places_and_all_of_it_once() {
        let (from, to) = (equal(&[0]), equal(&[0, 1, 2, 3]));
        for moved in [0.0, 0.1, 0.3, 0.5, 0.9, 1.0] {
            let ranges = half_way(&from, &to, moved);
            assert!((ranges.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9, "{moved}: {ranges:?}");
        }
        assert_eq!(half_way(&from, &to, 0.0), from);
        assert_eq!(half_way(&from, &to, 1.0), to);
        let moves = to_move(&from, &to, 0.0..1.0);
        assert_eq!(moves.iter().map(|(from, to, _)| (*from, *to)).collect::<Vec<_>>(), [(0, 1), (0, 2), (0, 3)]);
        assert!((moves.iter().map(|(.., share)| share).sum::<f64>() - 0.75).abs() < 1e-9);
        let steps: f64 = (0..8)
            .flat_map(|step| to_move(&from, &to, f64::from(step) / 8.0..f64::from(step + 1) / 8.0))
            .map(|(.., share)| share)
            .sum();
        assert!((steps - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_pass_reads_each_byte_once_and_runs_near_most_of_them() {
        let machine = Machine::parse("ivybridge-ex-4").unwrap();
        let layout = Layout::new(machine.topology(), None, sched::Split::default());
        let pass = Pass { reads: vec![Read::scan(0, 1e6), Read::scan(1, 3e6)], cpu_ns: 1e6, tasks_max: None };
        let statement = Statement { passes: vec![pass] };
        for lies in [
            vec![equal(&[0]), equal(&[1])],
            vec![equal(&[0, 1, 2]), equal(&[1, 3])],
            vec![vec![(0, 0.3), (1, 0.7)], equal(&[3, 2, 1, 0])],
        ] {
            for active in [1, 1000] {
                let copies = [Copies::None; 2];
                let of = Lying { ranges: &lies, copies: &copies };
                let (graph, touched) = statement.graph(of, (&machine, &layout), (active, 0));
                assert_eq!(graph.fault(&machine), None);
                let of = |column: usize| -> f64 {
                    touched.iter().flatten().filter(|of| of.column == column).map(|of| of.bytes).sum()
                };
                assert!((of(0) - 1e6).abs() < 1.0 && (of(1) - 3e6).abs() < 1.0, "{lies:?}");
                let cpu: f64 = graph.tasks.iter().map(|task| task.stages[0].cpu_ns).sum();
                assert!((cpu - 1e6).abs() < 1.0);
                let most_of =
                    |task: &Vec<Touched>| task.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).unwrap().node;
                for (task, touched) in graph.tasks.iter().zip(&touched) {
                    assert_eq!(task.affinity, near(&machine, most_of(touched)));
                }
            }
        }
    }

    /// A small column with copies is read beside the large one; a dictionary with copies beside its codes.
    #[test]
    fn copies_are_read_where_the_task_is() {
        let machine = Machine::parse("ivybridge-ex-4").unwrap();
        let layout = Layout::new(machine.topology(), None, sched::Split::default());
        let large = Read { column: 0, bytes: 4e6, lines: 1e3 };
        let pass = Pass { reads: vec![large, Read::scan(1, 1e5)], cpu_ns: 1e6, tasks_max: None };
        let statement = Statement { passes: vec![pass] };
        let ranges = vec![equal(&[2, 3]), equal(&[0, 1, 2, 3])];
        let remote = |copies: [Copies; 2]| -> [f64; 2] {
            let of = Lying { ranges: &ranges, copies: &copies };
            let (_, touched) = statement.graph(of, (&machine, &layout), (1, 0));
            [0, 1].map(|column| {
                let of = touched.iter().flatten().filter(|of| of.column == column && of.node != of.near);
                of.map(|of| of.bytes).sum()
            })
        };
        let [lines, small] = remote([Copies::None, Copies::None]);
        assert!((lines - 32e3).abs() < 1.0 && (small - 7.5e4).abs() < 1.0, "{lines} {small}");
        let copied = remote([Copies::Dictionary, Copies::All]);
        assert_eq!(copied, [0.0, 0.0]);
        // With copies of all, ranges are read from the copies in turn.
        let all = [Copies::All; 2];
        let of = Lying { ranges: &[equal(&[2, 3]), equal(&[2, 3])], copies: &all };
        let (_, touched) = statement.graph(of, (&machine, &layout), (1, 0));
        let read = |node: usize| -> f64 {
            touched.iter().flatten().filter(|of| of.node == node && !of.is_lines).map(|of| of.bytes).sum()
        };
        assert!((read(2) - read(3)).abs() < 1.0 && read(2) > 2e6);
    }
}
