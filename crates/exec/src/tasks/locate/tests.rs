//! Affinities by made-up page maps: no task is across two nodes, and moved columns are looked up anew.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use numa::Allocator;
use storage::{
    ColumnAllocator, ColumnPlacement, GRANULE_ROWS, Placement, Serial, Stager, TableVersion, build_part, place,
};

use super::*;
use crate::run::affinities::morsels;
use crate::scan::Morsel;
use crate::{CompareOp, Plan, Predicate};

fn nodes(count: u32) -> Vec<NodeId> {
    (0..count).map(NodeId).collect()
}

/// Three columns (codes of 17 bits, plain numbers, plain strings) and `n` rows in each segment.
fn table(sizes: &[usize], placement: &ColumnPlacement) -> TableVersion {
    let fields = vec![
        Field::new("code", DataType::Int64, false),
        Field::new("number", DataType::Float64, false),
        Field::new("text", DataType::Utf8, false),
    ];
    let schema = Arc::new(Schema::new(fields));
    let mut version = TableVersion::empty(&schema);
    for (segment, &rows) in sizes.iter().enumerate() {
        let codes = Int64Array::from_iter_values((0..rows as i64).map(|row| row * 7919 % 100_003));
        let numbers = Float64Array::from_iter_values((0..rows).map(|row| (row as f64).sqrt()));
        let texts = StringArray::from_iter_values((0..rows).map(|row| format!("{row:x}")));
        let columns: Vec<ArrayRef> = vec![Arc::new(codes), Arc::new(numbers), Arc::new(texts)];
        let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
        stager.append(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        let allocators = vec![ColumnAllocator::new(placement.turned(segment), Allocator::unplaced()); 3];
        let part = build_part(&schema, vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        version = version.with_appended(part);
    }
    version
}

fn scan(version: &TableVersion, column: usize) -> Plan {
    Plan::scan("t", Arc::new(version.clone()), vec![column]).unwrap()
}

/// A machine whose memory lies as the policies say, read at the time of the look-up.
fn by_policies(version: &TableVersion, asked: &Arc<AtomicUsize>) -> PageMaps {
    let (version, asked) = (version.clone(), asked.clone());
    let look_up = move |_: &[(usize, usize)]| -> Option<Box<BytesOn>> {
        asked.fetch_add(1, Ordering::Relaxed);
        let mut runs: Vec<(Range<usize>, NodeId)> = Vec::new();
        for column in version.segments().flat_map(|s| s.segment.columns()) {
            for (_, region) in column.components() {
                let cuts = region.policy().cuts(region.held_bytes() as u64, 4096);
                let start = region.address();
                let here = |(bytes, node): (Range<u64>, NodeId)| {
                    (start + bytes.start as usize..start + bytes.end as usize, node)
                };
                runs.extend(cuts.into_iter().map(here));
            }
        }
        Some(Box::new(move |bytes| {
            let mut on = BTreeMap::new();
            for (run, node) in &runs {
                let here = run.end.min(bytes.end).saturating_sub(run.start.max(bytes.start));
                if here > 0 {
                    *on.entry(*node).or_insert(0) += here as u64;
                }
            }
            on
        }))
    };
    PageMaps::new(Box::new(look_up), 0)
}

/// A machine whose memory lies as a placement wants each granule of each segment, whatever nodes this one has.
fn by_placement(version: &TableVersion, placement: &ColumnPlacement) -> PageMaps {
    let mut runs: Vec<(Range<usize>, NodeId)> = Vec::new();
    for (segment, stored) in version.segments().enumerate() {
        let codes = placement.turned(segment).codes;
        for column in stored.segment.columns() {
            for granule in 0..stored.segment.granules() {
                let node = codes.node_of_granule(stored.segment.granules(), 0, granule).unwrap();
                runs.extend(addresses(column, granule).into_iter().map(|bytes| (bytes, node)));
            }
        }
    }
    let look_up = move |_: &[(usize, usize)]| -> Option<Box<BytesOn>> {
        let runs = runs.clone();
        Some(Box::new(move |bytes| {
            let of = runs.iter().find(|(run, _)| run.contains(&bytes.start));
            of.map(|(_, node)| (*node, bytes.len() as u64)).into_iter().collect()
        }))
    };
    PageMaps::new(Box::new(look_up), 0)
}

/// The nodes on which the bytes of a morsel lie.
fn nodes_read(version: &TableVersion, column: usize, morsel: &Morsel, maps: &PageMaps) -> Vec<NodeId> {
    let segments: Vec<_> = version.segments().collect();
    let bytes_on = (maps.look_up)(&[]).unwrap();
    let mut read = Vec::new();
    for (segment, rows) in &morsel.pieces {
        let column = segments[*segment].segment.column(column);
        for granule in rows.start / GRANULE_ROWS..rows.end.div_ceil(GRANULE_ROWS) {
            let ranges = addresses(column, granule).into_iter();
            read.extend(ranges.flat_map(|range| bytes_on(range).into_keys()));
        }
    }
    read.sort_unstable();
    read.dedup();
    read
}

#[test]
fn no_task_of_an_ivp_scan_is_across_two_nodes() {
    // Remainders, and segments that are smaller than a granule for each node.
    let sizes = [9 * GRANULE_ROWS + 1000, 20_000, 3000, 4 * GRANULE_ROWS, 100, 50, 70];
    let version = table(&sizes, &ColumnPlacement::ivp(nodes(4)));
    for column in 0..3 {
        // Strings move there after they are built, and only to nodes that this machine has.
        let maps = match column {
            2 => by_placement(&version, &ColumnPlacement::ivp(nodes(4))),
            _ => by_policies(&version, &Arc::default()),
        };
        let morsels = morsels(&scan(&version, column), &maps).unwrap();
        let rows: usize = morsels.iter().flat_map(|m| &m.pieces).map(|(_, rows)| rows.len()).sum();
        assert_eq!(rows, sizes.iter().sum::<usize>());
        let mut used = Vec::new();
        for morsel in &morsels {
            let read = nodes_read(&version, column, morsel, &maps);
            assert_eq!(read, [morsel.node.unwrap()], "column {column}, {:?}", morsel.pieces);
            used.extend(read);
        }
        used.sort_unstable();
        used.dedup();
        assert_eq!(used, nodes(4), "column {column}");
    }
}

#[test]
fn small_segments_on_one_node_share_a_task() {
    let version = table(&[100, 200, 300], &ColumnPlacement::one(NodeId(2)));
    let maps = by_policies(&version, &Arc::default());
    let tasks = morsels(&scan(&version, 0), &maps).unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!((tasks[0].pieces.len(), tasks[0].node), (3, Some(NodeId(2))));
    // Small columns are believed to lie where their policy says: nobody is asked.
    let asked: Arc<AtomicUsize> = Arc::default();
    let maps = PageMaps { large_bytes: 1 << 20, ..by_policies(&version, &asked) };
    assert_eq!(morsels(&scan(&version, 1), &maps).unwrap()[0].node, Some(NodeId(2)));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[test]
fn moved_columns_are_looked_up_anew_and_others_once() {
    let version = table(&[4 * GRANULE_ROWS], &ColumnPlacement::one(NodeId(0)));
    let asked: Arc<AtomicUsize> = Arc::default();
    let maps = by_policies(&version, &asked);
    let plan = scan(&version, 0);
    let first = morsels(&plan, &maps).unwrap();
    morsels(&plan, &maps).unwrap();
    assert_eq!((asked.load(Ordering::Relaxed), first[0].node), (1, Some(NodeId(0))));
    let moved = [Some(ColumnPlacement::ivp(nodes(2))), None, None];
    place(&version, &moved, None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
    morsels(&plan, &maps).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn replicated_and_interleaved_columns_leave_the_choice_to_others() {
    let version = table(&[4 * GRANULE_ROWS], &ColumnPlacement::one(NodeId(3)));
    let all = |placement: Placement| {
        let codes = ColumnPlacement { codes: placement, ..ColumnPlacement::default() };
        let wishes = [Some(codes), None, None];
        place(&version, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap().0
    };
    let maps = by_policies(&version, &Arc::default());
    let interleaved = all(Placement::Interleaved(nodes(3)));
    assert!(morsels(&scan(&interleaved, 0), &maps).unwrap().iter().all(|morsel| morsel.node.is_none()));
    let replicated = all(Placement::Replicated(nodes(3)));
    for others in [interleaved, replicated] {
        let plan = Plan::scan("t", Arc::new(others), vec![0, 1]).unwrap();
        assert!(morsels(&plan, &maps).unwrap().iter().all(|morsel| morsel.node == Some(NodeId(3))));
    }
}

#[test]
fn a_scan_of_copies_is_dealt_out_to_the_nodes_that_have_them_all() {
    let version = table(&[9 * GRANULE_ROWS + 500, 300], &ColumnPlacement::one(NodeId(3)));
    let copies = |of: [&[u32]; 2]| {
        let codes = |nodes: &[u32]| {
            let codes = Placement::Replicated(nodes.iter().map(|node| NodeId(*node)).collect());
            Some(ColumnPlacement { codes, ..ColumnPlacement::default() })
        };
        let wishes = [codes(of[0]), codes(of[1]), None];
        place(&version, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap().0
    };
    let maps = by_policies(&version, &Arc::default());
    let used = |version: &TableVersion, columns: &[usize]| -> Vec<usize> {
        let plan = Plan::scan("t", Arc::new(version.clone()), columns.to_vec()).unwrap();
        let mut used = vec![0; 5];
        for morsel in morsels(&plan, &maps).unwrap() {
            used[morsel.node.unwrap().0 as usize] += 1;
        }
        used
    };
    let both = copies([&[0, 2, 4], &[2, 3]]);
    let of_first = used(&both, &[0]);
    assert_eq!((of_first[1], of_first[3]), (0, 0), "no copy, no task");
    let with_copies = [0, 2, 4].map(|node: usize| of_first[node]);
    let (least, most) = (with_copies.iter().min().unwrap(), with_copies.iter().max().unwrap());
    assert!(least + 1 >= *most && *least > 0, "{of_first:?}");
    // Only node 2 has both.
    let of_both = used(&both, &[0, 1]);
    assert_eq!(of_both.iter().sum::<usize>(), of_both[2], "{of_both:?}");
    // None has both: the wider column decides.
    let apart = copies([&[0, 1], &[2, 4]]);
    let segments: Vec<_> = apart.segments().collect();
    let plan = Plan::scan("t", Arc::new(apart.clone()), vec![0, 1]).unwrap();
    for morsel in morsels(&plan, &maps).unwrap() {
        let bytes = |column| segments[morsel.pieces[0].0].segment.column(column).bytes_codes();
        let wider = if bytes(0) >= bytes(1) { [NodeId(0), NodeId(1)] } else { [NodeId(2), NodeId(4)] };
        assert!(wider.contains(&morsel.node.unwrap()), "{morsel:?}");
    }
}

#[test]
fn the_filter_decides_before_the_output_and_the_widest_of_each() {
    let version = table(&[GRANULE_ROWS], &ColumnPlacement::default());
    // Pages are told by column, since the nodes are not this machine's.
    let mut starts: Vec<(Range<usize>, u32)> = Vec::new();
    for (column, node) in version.segments().next().unwrap().segment.columns().zip([1, 2, 3]) {
        starts.extend(column.components().iter().map(|(_, r)| (r.address()..r.address() + r.len(), node)));
    }
    let look_up = move |_: &[(usize, usize)]| -> Option<Box<BytesOn>> {
        let starts = starts.clone();
        Some(Box::new(move |bytes| {
            let within = starts.iter().find(|(region, _)| region.contains(&bytes.start));
            within.map(|(_, node)| (NodeId(*node), bytes.len() as u64)).into_iter().collect()
        }))
    };
    let maps = PageMaps::new(Box::new(look_up), 0);
    let node = |plan: &Plan| morsels(plan, &maps).unwrap()[0].node;
    let plan = Plan::scan("t", Arc::new(version.clone()), vec![0, 1, 2]).unwrap();
    let segment = &version.segments().next().unwrap().segment;
    let widest = (0..3).max_by_key(|&c| segment.column(c).bytes_codes()).unwrap();
    assert_eq!(node(&plan), Some(NodeId(1 + widest as u32)));
    let value: ArrayRef = Arc::new(Int64Array::from(vec![50_000]));
    let test = Predicate::Compare { column: 0, op: CompareOp::Lt, value: value.into() };
    assert_eq!(node(&plan.filter(test).unwrap()), Some(NodeId(1)));
}
