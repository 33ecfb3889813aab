//! Look-ups cut in any way against looking at every row, and where their tasks run.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use numa::{Allocator, Budget};
use random::Random;
use sched::Statement;
use storage::{ColumnAllocator, ColumnPlacement, Placement, Serial, Stager, TableVersion, build_part};

use super::*;
use crate::chunk::vector::{ColumnInfo, Vector};
use crate::keys::key_filter::KeyFilter;
use crate::plan::expression::CompareOp;
use crate::tasks::locate::PageMaps;
use crate::tasks::places::{Places, ScanOptions};
use crate::tasks::pretended::Pretended;
use crate::tasks::traffic::Traffic;

/// Rows of the parts, a segment each.
const SIZES: [usize; 3] = [60_000, 30_000, 45_000];
const SMALL: Grain = Grain { keys: 7, rows: 5 };

/// What a column has in a row of a segment: a permuted key, a dozen rows of each number and NULLs, the row's number.
fn value(column: usize, row: usize, rows: usize) -> Option<i64> {
    let row = row as i64;
    match column {
        0 => Some(row * 7919 % rows as i64),
        1 => (row % 13 != 0).then_some(row * 7919 % (rows as i64 / 12)),
        _ => Some(row),
    }
}

/// A table with an index on each column, each placed as `index_of` says of its part.
fn table(index_of: &dyn Fn(usize) -> Placement) -> TableVersion {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let schema = Arc::new(Schema::new(vec![field("key"), field("number"), field("serial")]));
    let mut version = TableVersion::empty(&schema);
    for rows in SIZES {
        let array = |column| -> ArrayRef { Arc::new(Int64Array::from_iter((0..rows).map(|r| value(column, r, rows)))) };
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        stager.append(&RecordBatch::try_new(schema.clone(), (0..3).map(array).collect()).unwrap()).unwrap();
        let allocators = vec![ColumnAllocator::unplaced(); 3];
        let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        version.parts.push(Arc::new(part));
    }
    let allocator = |part: usize, _: usize| {
        let placement = ColumnPlacement { index: index_of(part), ..ColumnPlacement::default() };
        ColumnAllocator::new(placement, Allocator::unplaced())
    };
    version.with_indexes(&[0, 1, 2], &allocator, &Serial).unwrap()
}

/// What is asked of a column.
#[derive(Debug, Clone)]
enum Question {
    Compare(CompareOp, i64),
    In(Vec<i64>),
    Keys(Vec<i64>),
}

impl Question {
    fn random(column: usize, random: &mut Random) -> Question {
        let mut number = || match column {
            1 => random.between(-10, 6000),
            _ => random.between(-10, 61_000),
        };
        let one = number();
        let list: Vec<i64> = (0..60).map(|_| number()).collect();
        let take = [0, 1, 5, 16, 40, 58][random.below(6)];
        match random.below(4) {
            0 => Question::Compare(CompareOp::Lt, one.min(300)),
            1 => Question::Compare(CompareOp::GtEq, one),
            // Some are there twice.
            2 => Question::In(list[..take].iter().chain(&list[..take / 2]).copied().collect()),
            _ => Question::Keys(list[..take.max(1)].to_vec()),
        }
    }

    fn holds(&self, value: Option<i64>) -> bool {
        value.is_some_and(|value| match self {
            Question::Compare(CompareOp::Lt, bound) => value < *bound,
            Question::Compare(_, bound) => value >= *bound,
            Question::In(list) | Question::Keys(list) => list.contains(&value),
        })
    }

    fn look_ups(&self) -> usize {
        match self {
            Question::Compare(..) => 1,
            Question::In(list) => list.len(),
            Question::Keys(list) => list.iter().collect::<std::collections::BTreeSet<_>>().len(),
        }
    }
}

/// A statement over a table, on a machine of four nodes. Policies name nodes that need not be there: a machine of one
/// node keeps them as they are, one of several would leave out those that it does not have.
struct Case {
    version: TableVersion,
    statement: Arc<Statement>,
    traffic: Arc<Traffic>,
    maps: PageMaps,
    machine: Pretended,
}

impl Case {
    fn new(index_of: &dyn Fn(usize) -> Placement) -> Case {
        Case {
            version: table(index_of),
            statement: Statement::new(1, Budget::unlimited()),
            traffic: Arc::default(),
            // Policies are believed.
            maps: PageMaps::new(Box::new(|_| None), usize::MAX),
            machine: Pretended::new(4),
        }
    }

    fn run(&self) -> Run<'_> {
        let lookup = Lookup::Maps(&self.maps);
        let places = Places { lookup, options: ScanOptions::default(), turn: None, morsels_min: 1, attached: None };
        Run { statement: &self.statement, parallel: &self.machine, threads: 4, places, traffic: &self.traffic }
    }

    /// What questions leave of each segment, by tasks of this size; by none of them where there is no size.
    fn accesses(&self, questions: &[(usize, Question)], grain: Option<Grain>) -> Vec<Access> {
        let run = self.run();
        let literals: Vec<ArrayRef> = questions
            .iter()
            .map(|(_, question)| match question {
                Question::Compare(_, bound) => Arc::new(Int64Array::from(vec![*bound])) as ArrayRef,
                Question::In(list) | Question::Keys(list) => Arc::new(Int64Array::from(list.clone())),
            })
            .collect();
        let filters = questions.iter().map(|(column, question)| match question {
            Question::Keys(list) => {
                let (low, high) = (*list.iter().min().unwrap(), *list.iter().max().unwrap());
                let info = ColumnInfo::int(self.version.schema.fields()[*column].clone(), low, high, false);
                KeyFilter::of(&info, &Vector::ints(list.clone()), false, &run).unwrap()
            }
            _ => None,
        });
        let filters: Vec<Option<KeyFilter>> = filters.collect();
        let asked = questions.iter().zip(literals.iter().zip(&filters)).map(|((column, question), (literal, keys))| {
            let query = match question {
                Question::Compare(op, _) => ColumnQuery::Compare(*op, literal),
                Question::In(_) => ColumnQuery::In(literal),
                Question::Keys(_) => ColumnQuery::Keys(keys.as_ref().unwrap()),
            };
            (*column, query)
        });
        let segments: Vec<SegmentVersion> = self.version.segments().cloned().collect();
        let look_ups = IndexLookUps {
            segments: &segments,
            parts: &self.version.parts,
            asked: asked.collect(),
            table: self.traffic.table(&"t".into(), &self.version.schema),
            lookup: run.places.lookup,
            grain: grain.unwrap_or(GRAIN),
        };
        look_ups.accesses(Some(&run).filter(|_| grain.is_some())).unwrap()
    }

    /// Bytes of indexes by part and from node to node.
    fn index_traffic(&self) -> BTreeMap<(u32, u32, u32), u64> {
        let lines = self.traffic.lines().into_iter();
        let lines = lines.filter(|line| line.component == TouchedComponent::Index && line.phase == TouchPhase::LookUp);
        let mut bytes = BTreeMap::new();
        for line in lines {
            *bytes.entry((line.part, line.from.0, line.to.unwrap().0)).or_default() += line.touched.bytes;
        }
        bytes
    }
}

/// Rows of a segment where all that pays to be asked of a column holds.
fn rows_where(questions: &[(usize, Question)], column: usize, rows: usize) -> Vec<u32> {
    let pays = |look_ups: usize| look_ups <= 16 || look_ups * 1024 <= rows;
    let asked: Vec<&Question> =
        questions.iter().filter(|(of, question)| *of == column && pays(question.look_ups())).map(|(_, q)| q).collect();
    let holds = |row: &u32| asked.iter().all(|question| question.holds(value(column, *row as usize, rows)));
    (0..rows as u32).filter(holds).collect()
}

#[test]
fn rows_are_the_same_however_look_ups_are_cut() {
    let placements = |part: usize| match part {
        0 => Placement::Striped((0..4).map(NodeId).collect()),
        1 => Placement::One(NodeId(2)),
        _ => Placement::Local,
    };
    let case = Case::new(&placements);
    let mut random = Random::new(5);
    let mut used = 0;
    let mut tasks = 0;
    for number in 0..300 {
        let questions: Vec<(usize, Question)> = (0..1 + random.below(3))
            .map(|_| {
                let column = random.below(3);
                (column, Question::random(column, &mut random))
            })
            .collect();
        let at_once = case.accesses(&questions, None);
        case.machine.take_wishes();
        let grain = Grain { keys: 1 + random.below(20), rows: 1 + random.below(60) };
        let cut = case.accesses(&questions, Some(grain));
        tasks += case.machine.take_wishes().len();
        assert_eq!(cut, at_once, "case {number}: {questions:?} by {grain:?}");
        for (access, rows) in cut.iter().zip(SIZES) {
            let found: Vec<u32> = match access {
                Access::All => continue,
                Access::Range(range) => (range.start as u32..range.end as u32).collect(),
                Access::Rows(rows) => rows.clone(),
            };
            let asked = questions.iter().map(|(column, _)| *column);
            let as_every_row_says = asked.into_iter().any(|column| rows_where(&questions, column, rows) == found);
            assert!(as_every_row_says, "case {number}: {questions:?} of {rows} rows gives {found:?}");
            used += 1;
        }
    }
    assert!(used > 300 && tasks > 1000, "{used} look-ups by {tasks} tasks");
}

#[test]
fn tasks_run_near_the_index_and_read_it_there() {
    let nodes = |of: &[u32]| of.iter().map(|node| NodeId(*node)).collect::<Vec<_>>();
    let case = Case::new(&|part| match part {
        0 => Placement::Striped(nodes(&[0, 2, 3])),
        1 => Placement::Replicated(nodes(&[1, 3])),
        _ => Placement::One(NodeId(1)),
    });
    let keys: Vec<i64> = (0..28).map(|i| i * 2100).collect();
    let accesses = case.accesses(&[(0, Question::In(keys))], Some(SMALL));
    let found: Vec<usize> = accesses.iter().zip(SIZES).map(|(access, rows)| access.len(rows)).collect();
    assert_eq!(found, [28, 15, 22]);
    // Finding: seven keys a task, four tasks a part. Which stripe a key is in is not known before it is found.
    let wishes = case.machine.take_wishes();
    let finding: Vec<Option<u32>> = wishes[..12].iter().map(|node| node.map(|node| node.0)).collect();
    let of_stripes = [None; 4];
    let of_copies = [3, 1, 3, 1].map(Some);
    let of_one = [Some(1); 4];
    assert_eq!(finding, [of_stripes, of_copies, of_one].concat());
    // Reading: every task is where the list of rows lies, and only merging is nowhere.
    let reading = &wishes[12..];
    let merging = reading.iter().position(|node| node.is_none()).unwrap();
    assert!(merging >= 13 && reading[merging..].iter().all(|node| node.is_none()), "{reading:?}");
    let traffic = case.index_traffic();
    let copies: u64 = traffic.iter().filter(|((part, ..), _)| *part == 1).map(|(_, bytes)| bytes).sum();
    assert_eq!(copies, 15 * traffic::LINE_BYTES);
    assert!(traffic.keys().all(|(_, from, to)| from == to), "{traffic:?}");
    let others: Vec<((u32, u32), u64)> = traffic
        .iter()
        .filter(|((part, ..), _)| *part != 1)
        .map(|((part, from, _), bytes)| ((*part, *from), *bytes))
        .collect();
    let line = |part, node, rows: u64| ((part, node), rows * traffic::LINE_BYTES);
    assert_eq!(others, [line(0, 0, 10), line(0, 2, 10), line(0, 3, 8), line(2, 1, 22)]);
}

#[test]
fn what_is_little_is_done_at_once() {
    let case = Case::new(&|_| Placement::One(NodeId(2)));
    let some = |count: i64| (0..count).map(|i| i * 7).collect();
    for question in [Question::Compare(CompareOp::Lt, 50), Question::In(some(1)), Question::Keys(some(29))] {
        let accesses = case.accesses(&[(0, question.clone())], Some(GRAIN));
        assert!(accesses.iter().all(|access| matches!(access, Access::Rows(_))), "{question:?}");
        assert_eq!(case.machine.take_wishes(), [], "{question:?}");
    }
}

#[test]
fn places_are_cut_where_their_node_changes() {
    let nodes = [(0..100, NodeId(3)), (100..250, NodeId(1)), (250..300, NodeId(3))];
    let pieces = |places: &[Range<u32>], nodes: &[(Range<u32>, NodeId)], most| {
        let mut pieces: Vec<(Option<u32>, Vec<Range<u32>>)> = Vec::new();
        cut(places, nodes, most, &mut |node, places| pieces.push((node.map(|node| node.0), places)));
        pieces
    };
    let one = |node, start, end| (node, std::iter::once(start..end).collect());
    assert_eq!(
        pieces(&[20..30, 90..110, 240..260], &nodes, 100),
        [(Some(3), vec![20..30, 90..100]), (Some(1), vec![100..110, 240..250]), one(Some(3), 250, 260),]
    );
    let of_one_run = pieces(std::slice::from_ref(&(50..260)), &nodes, 60);
    assert_eq!(
        of_one_run,
        [
            one(Some(3), 50, 100),
            one(Some(1), 100, 160),
            one(Some(1), 160, 220),
            one(Some(1), 220, 250),
            one(Some(3), 250, 260),
        ]
    );
    assert_eq!(pieces(&[0..5, 7..9], &[], 6), [(None, vec![0..5, 7..8]), one(None, 8, 9)]);
    assert_eq!(pieces(&[], &nodes, 6), []);
}
