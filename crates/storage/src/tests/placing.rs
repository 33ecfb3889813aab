//! Placements: where memory is asked for, and that moving and copying it changes no value.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering as AtomicOrdering};

use arrow::array::StringViewArray;
use numa::{Budget, Policy};

use super::data::{Random, Shape, array, opaque_types};
use super::*;

fn nodes(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().map(|&id| NodeId(id)).collect()
}

/// Placements of every kind.
fn placements() -> Vec<Placement> {
    vec![
        Placement::Local,
        Placement::One(NodeId(0)),
        Placement::One(NodeId(2)),
        Placement::Striped(nodes(&[0, 1, 2])),
        Placement::Interleaved(nodes(&[1, 3])),
        Placement::Replicated(nodes(&[2, 0])),
        Placement::Replicated(nodes(&[0, 1, 2, 3])),
    ]
}

fn random_placement(random: &mut Random) -> ColumnPlacement {
    let all = placements();
    let mut one = || all[random.below(all.len())].clone();
    ColumnPlacement { codes: one(), dictionary: one(), index: one() }
}

/// Columns of every way to be kept: affine, sorted, sorted strings, plain numbers, plain strings, arrow arrays.
fn mixed(rows: usize, random: &mut Random) -> (SchemaRef, Vec<ArrayRef>) {
    let kinds = [
        (DataType::Int32, Shape::Steps),
        (DataType::Int64, Shape::FewDistinct),
        (DataType::Utf8View, Shape::FewDistinct),
        (DataType::Int64, Shape::Anything),
        (DataType::Utf8View, Shape::Anything),
        (opaque_types()[4].clone(), Shape::Anything),
    ];
    let fields = kinds.iter().enumerate().map(|(i, (t, _))| Field::new(format!("c{i}"), t.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut columns: Vec<ArrayRef> = kinds.iter().map(|(t, shape)| array(t, *shape, rows.min(1), 9, random)).collect();
    for (column, (t, shape)) in columns.iter_mut().zip(&kinds).filter(|(_, (t, _))| *t != DataType::Utf8View) {
        *column = array(t, *shape, rows, 9, random);
    }
    let words = (0..rows).map(|row| (row % 9 != 5).then(|| format!("a word of several, no. {}", row % 300)));
    columns[2] = Arc::new(StringViewArray::from_iter(words));
    let texts = (0..rows).map(|row| (row % 9 != 4).then(|| format!("text {row} {:x}", random.next_u64() % 4096)));
    columns[4] = Arc::new(StringViewArray::from_iter(texts));
    (schema, columns)
}

/// Stages `columns` by producers that end after these rows each, and builds a part.
fn built(
    schema: &SchemaRef,
    columns: &[ArrayRef],
    cuts: &[usize],
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Part {
    let rows = columns[0].len();
    let mut from = 0;
    let mut staged = Vec::new();
    for to in cuts.iter().copied().chain([rows]) {
        let mut stager = Stager::new(Arc::clone(schema), allocators[0].allocator.clone());
        let slices = columns.iter().map(|column| column.slice(from, to - from)).collect();
        stager.append(&batch_of(schema, slices, to - from)).unwrap();
        staged.push(stager.finish().unwrap());
        from = to;
    }
    build_part(schema, staged, allocators, parallel).unwrap()
}

fn check_part(part: &Part, columns: &[ArrayRef], random: &mut Random) {
    let [version] = &part.segments[..] else { panic!("one segment") };
    for (stored, expected) in version.segment.columns().zip(columns) {
        check_reads(stored, expected, random);
    }
}

/// Checks that a region was asked to follow a policy. Nodes that this machine has not are left out once it is placed
/// anew.
fn assert_follows(found: &Policy, wanted: &Policy, what: &str) {
    let machine = numa::Topology::discover().unwrap();
    let has = |node: &NodeId| machine.node(*node).is_some();
    let kept = |nodes: &[NodeId]| nodes.iter().copied().filter(has).collect::<Vec<_>>();
    let here = match wanted {
        Policy::Node(node) if has(node) => wanted.clone(),
        Policy::Interleaved(nodes) if nodes.iter().any(has) => Policy::Interleaved(kept(nodes)),
        Policy::Striped { nodes, chunk_bytes } if nodes.iter().any(has) => {
            Policy::Striped { nodes: kept(nodes), chunk_bytes: *chunk_bytes }
        }
        _ => Policy::Local,
    };
    assert!(found == wanted || *found == here, "{what}: {found:?}, not {wanted:?}");
}

/// The policies of a column's regions.
fn policies(column: &Column, component: Component) -> Vec<Policy> {
    let regions = column.components().into_iter().filter(|(c, _)| *c == component);
    regions.map(|(_, region)| region.policy()).collect()
}

#[test]
fn what_is_built_lies_where_its_allocators_say() {
    let mut random = Random::new(31);
    let rows = 5 * GRANULE_ROWS + 777;
    let (schema, columns) = mixed(rows, &mut random);
    for placement in placements() {
        // One producer that ends amid a granule.
        let column =
            ColumnPlacement { codes: placement.clone(), dictionary: placement.clone(), index: Placement::Local };
        let allocators = vec![ColumnAllocator::new(column, Allocator::unplaced()); columns.len()];
        let part = built(&schema, &columns, &[100_000], &allocators, &Threads);
        check_part(&part, &columns, &mut random);
        for (i, stored) in part.segments[0].segment.columns().enumerate() {
            let copies = if placement.nodes().len() > 1 && matches!(placement, Placement::Replicated(_)) {
                placement.nodes().len()
            } else {
                1
            };
            assert_eq!(stored.is_replicated(), copies > 1 && i != 5, "{placement:?} of column {i}");
            if let Some(coded) = stored.as_coded() {
                let of_codes = policies(stored, Component::Codes);
                assert_eq!(of_codes.len(), copies);
                assert_follows(&of_codes[0], &placement.codes_policy(rows, coded.bits(), 0), &format!("column {i}"));
                let of_dictionary = policies(stored, Component::Dictionary);
                assert!(of_dictionary.len().is_multiple_of(copies));
                if let Some(found) = of_dictionary.first() {
                    assert_follows(found, &placement.dictionary_policy(), &format!("dictionary {i}"));
                }
                continue;
            }
            for granule in 0..6 {
                for (region, _) in stored.granule_bytes(granule) {
                    let wanted = match &placement {
                        Placement::Interleaved(list) => Policy::Interleaved(list.clone()),
                        Placement::Local => Policy::Local,
                        _ => Policy::Node(placement.node_of_granule(6, 0, granule).unwrap()),
                    };
                    assert_follows(&region.policy(), &wanted, &format!("{placement:?} {i} {granule}"));
                }
            }
        }
    }
}

/// Notes the node of every task.
struct Noting(Mutex<Vec<Option<NodeId>>>);

impl Parallel for Noting {
    fn for_each(&self, tasks: usize, node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        self.0.lock().unwrap().extend((0..tasks).map(node_of));
        (0..tasks).for_each(body);
        Ok(())
    }
}

#[test]
fn tasks_run_near_the_node_that_they_write() {
    let t = DataType::Int32;
    let schema = schema_of(&t);
    let values = array(&t, Shape::Steps, 10 * GRANULE_ROWS, 0, &mut Random::new(32));
    let placement = ColumnPlacement::ivp(nodes(&[4, 7]));
    let noting = Noting(Mutex::default());
    let allocators = [ColumnAllocator::new(placement, Allocator::unplaced())];
    built(&schema, &[values], &[], &allocators, &noting);
    let noted = noting.0.into_inner().unwrap();
    // The dictionary's task may run anywhere; then five granules on each node, at most eight a task.
    assert_eq!(noted, [None, Some(NodeId(4)), Some(NodeId(7))]);
}

#[test]
fn placing_keeps_every_value_and_what_is_shared() {
    let mut random = Random::new(33);
    let rows = 3 * GRANULE_ROWS + 5000;
    let (schema, columns) = mixed(rows, &mut random);
    let budget = Budget::new("test", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let local = vec![ColumnAllocator::local(allocator.clone()); columns.len()];
    let part = built(&schema, &columns, &[70_000, 70_001], &local, &Serial);
    let mut version = TableVersion::empty(&schema).with_appended(part);
    let before = (version.bytes(), budget.used_bytes());
    for round in 0..12 {
        let wishes: Vec<_> =
            columns.iter().map(|_| (random.below(4) > 0).then(|| random_placement(&mut random))).collect();
        let (placed, report) = place(&version, &wishes, Some(0), &allocator, &Threads, &|| false).unwrap();
        check_part(&placed.parts[0], &columns, &mut random);
        // Readers of the old version read on.
        check_part(&version.parts[0], &columns, &mut random);
        let opaque = wishes[5].is_some();
        assert_eq!(report.stuck_bytes > 0, opaque, "round {round}: {report:?}");
        for (i, wish) in wishes.iter().enumerate() {
            let old = &version.parts[0].segments[0].segment;
            let new = &placed.parts[0].segments[0].segment;
            // A number belongs to one column.
            assert_eq!(old.column(i).id() == new.column(i).id(), Arc::ptr_eq(old.column(i), new.column(i)));
            let Some(wish) = wish else {
                assert!(Arc::ptr_eq(old.column(i), new.column(i)));
                continue;
            };
            let copies = wish.codes.replicas().map_or(1, <[NodeId]>::len);
            if let Some(coded) = new.column(i).as_coded() {
                let of = policies(new.column(i), Component::Codes);
                assert_eq!(of.len(), copies);
                assert_follows(
                    &of[0],
                    &wish.codes.codes_policy(rows, coded.bits(), 0),
                    &format!("round {round}, column {i}"),
                );
            }
        }
        version = placed;
    }
    // Back to one copy of everything: what the copies took is free again.
    let home: Vec<_> = columns.iter().map(|_| Some(ColumnPlacement::one(NodeId(0)))).collect();
    let (placed, _) = place(&version, &home, None, &allocator, &Threads, &|| false).unwrap();
    version = placed;
    assert_eq!(version.bytes(), before.0);
    // What was cut to fewer bytes in place is copied without its last page's rest.
    let less = before.1.checked_sub(budget.used_bytes());
    assert!(less.is_some_and(|less| less < 64 << 10), "{} of {}", budget.used_bytes(), before.1);
    check_part(&version.parts[0], &columns, &mut random);
}

#[test]
fn segments_share_a_dictionary_after_placing_too() {
    let schema = schema_of(&DataType::Utf8View);
    let mut random = Random::new(34);
    let values = array(&DataType::Utf8View, Shape::FewDistinct, 100_000, 0, &mut random);
    let part = built(&schema, std::slice::from_ref(&values), &[], &[ColumnAllocator::unplaced()], &Serial);
    // Two segments with one dictionary, as a bulk load of more than a segment's rows makes them.
    let coded = part.segments[0].segment.column(0).as_coded().unwrap();
    let twin = Column::Coded(coded.moved(coded.codes().cloned(), Arc::clone(coded.dictionary())));
    let twin = SegmentVersion::new(Segment::new(100_000, vec![Arc::new(twin)]));
    let segments = vec![part.segments[0].clone(), twin];
    let table = TableVersion::empty(&schema).with_appended(Part { segments });
    for placement in placements() {
        let column = ColumnPlacement { codes: placement.clone(), dictionary: placement.clone(), index: placement };
        let (placed, _) = place(&table, &[Some(column)], None, &Allocator::unplaced(), &Threads, &|| false).unwrap();
        let of: Vec<_> =
            placed.segments().map(|s| s.segment.column(0).as_coded().unwrap().dictionary().clone()).collect();
        assert!(Arc::ptr_eq(&of[0], &of[1]));
        for version in placed.segments() {
            check_reads(version.segment.column(0), &values, &mut random);
        }
    }
}

/// The policy of every region of a version, by address.
fn layout(version: &TableVersion) -> BTreeMap<usize, Policy> {
    let regions = version.segments().flat_map(|s| s.segment.columns()).flat_map(|column| column.components());
    regions.map(|(_, region)| (region.address(), region.policy())).collect()
}

#[test]
fn a_stop_at_any_time_leaves_everything_where_it_was() {
    let mut random = Random::new(35);
    let (schema, columns) = mixed(2 * GRANULE_ROWS, &mut random);
    let budget = Budget::new("test", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let one = ColumnAllocator::new(ColumnPlacement::one(NodeId(1)), allocator.clone());
    let part = built(&schema, &columns, &[], &vec![one; columns.len()], &Serial);
    let table = TableVersion::empty(&schema).with_appended(part);
    let before = layout(&table);
    let used = budget.used_bytes();
    let mut stopped = 0;
    let mut finished = false;
    for limit in 0..2000 {
        let wishes: Vec<_> = columns.iter().map(|_| Some(random_placement(&mut random))).collect();
        let left = AtomicI64::new(limit);
        let stop = || left.fetch_sub(1, AtomicOrdering::Relaxed) <= 0;
        match place(&table, &wishes, None, &allocator, &Threads, &stop) {
            Err(StoreError::Interrupted(Interruption::Cancelled)) => {
                stopped += 1;
                assert_eq!(layout(&table), before, "stopped after {limit} questions");
                assert_eq!(budget.used_bytes(), used);
                check_part(&table.parts[0], &columns, &mut random);
            }
            Err(other) => panic!("{other}"),
            Ok(_) => {
                finished = true;
                break;
            }
        }
    }
    assert!(finished && stopped > 10, "{stopped}");
}

#[test]
fn without_memory_for_copies_everything_stays_where_it_was() {
    let mut random = Random::new(36);
    let (schema, columns) = mixed(2 * GRANULE_ROWS, &mut random);
    let one = ColumnAllocator::new(ColumnPlacement::one(NodeId(1)), Allocator::unplaced());
    let part = built(&schema, &columns, &[], &vec![one; columns.len()], &Serial);
    let table = TableVersion::empty(&schema).with_appended(part);
    let before = layout(&table);
    let wishes: Vec<_> = columns.iter().map(|_| Some(ColumnPlacement::replicated(nodes(&[0, 1, 2])))).collect();
    let mut refused = 0;
    let mut fitted = 0;
    for shift in 10..28 {
        let budget = Budget::new("test", 1 << shift);
        let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
        match place(&table, &wishes, None, &allocator, &Serial, &|| false) {
            Err(StoreError::Memory(_)) => {
                refused += 1;
                assert_eq!((layout(&table), budget.used_bytes()), (before.clone(), 0));
            }
            Err(other) => panic!("{other}"),
            Ok((placed, report)) => {
                fitted += 1;
                assert!(report.copied_bytes > 0 && placed.bytes() > 2 * table.bytes());
                break;
            }
        }
    }
    assert!(refused > 3 && fitted == 1, "{refused} {fitted}");
    // What fitted has moved.
    let before = layout(&table);
    let cancelled = place(&table, &wishes, None, &Allocator::unplaced(), &Cancelling(Mutex::new(3)), &|| false);
    assert!(matches!(cancelled, Err(StoreError::Interrupted(Interruption::Cancelled))));
    assert_eq!(layout(&table), before);
}

#[test]
fn bad_places_are_errors_that_say_what_to_do() {
    let mut random = Random::new(37);
    let (schema, columns) = mixed(GRANULE_ROWS, &mut random);
    let part = built(&schema, &columns, &[], &vec![ColumnAllocator::unplaced(); columns.len()], &Serial);
    let table = TableVersion::empty(&schema).with_appended(part);
    let none = vec![None; columns.len()];
    let error = place(&table, &none, Some(1), &Allocator::unplaced(), &Serial, &|| false).unwrap_err();
    assert_eq!(error.to_string(), "there is no part 1, only 1");
    let error = place_rows(&table, 9..10, 0..1, NodeId(0), &|| false).unwrap_err();
    assert_eq!(error.to_string(), "there is no column 9, only 6");
    let error = place_rows(&table, 0..1, 5..65_537, NodeId(0), &|| false).unwrap_err();
    assert_eq!(error.to_string(), "there is no row 65537, only 65536");
    let mut wishes = none;
    wishes[1] = Some(ColumnPlacement::replicated(nodes(&[0, 1])));
    let (table, _) = place(&table, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
    let error = place_rows(&table, 1..2, 0..1, NodeId(0), &|| false).unwrap_err();
    assert!(error.to_string().starts_with("column \"c1\" has a copy on several nodes; place"), "{error}");
}

#[test]
fn rows_are_placed_by_whole_granules_of_one_column() {
    let mut random = Random::new(38);
    let rows = 4 * GRANULE_ROWS;
    let (schema, columns) = mixed(rows, &mut random);
    let local = vec![ColumnAllocator::unplaced(); columns.len()];
    let part = built(&schema, &columns, &[], &local, &Serial);
    let table = TableVersion::empty(&schema).with_appended(part.clone()).with_appended(part);
    let counters = |version: &TableVersion| -> Vec<u64> {
        version.segments().flat_map(|s| s.segment.columns().map(|c| c.placements()).collect::<Vec<_>>()).collect()
    };
    let before = counters(&table);
    // From the last granule of the first segment into the first granule of the second.
    let from = 3 * GRANULE_ROWS as u64 + 17;
    let report = place_rows(&table, 0..1, from..rows as u64 + 1, NodeId(0), &|| false).unwrap();
    let granule_bytes = 8192 * u64::from(table.parts[0].segments[0].segment.column(0).bits().unwrap());
    let total = report.moved_bytes + report.already_bytes + report.stuck_bytes;
    assert!(total.abs_diff(2 * granule_bytes) <= 2 * 4096, "{report:?} for {granule_bytes}");
    let changed: Vec<bool> = before.iter().zip(counters(&table)).map(|(a, b)| *a != b).collect();
    assert!(changed[1..6].iter().chain(&changed[7..]).all(|changed| !changed), "{changed:?}");
    // A plain column: only the data of that granule.
    let report = place_rows(&table, 3..4, 10..20, NodeId(0), &|| false).unwrap();
    let total = report.moved_bytes + report.already_bytes + report.stuck_bytes;
    assert!((8 * 65_536..9 * 65_536 + 8192).contains(&total), "{report:?}");
    assert_eq!(place_rows(&table, 0..1, 5..5, NodeId(0), &|| false).unwrap(), PlaceReport::default());
    let stopped = place_rows(&table, 0..1, 0..rows as u64, NodeId(0), &|| true);
    assert!(matches!(stopped, Err(StoreError::Interrupted(Interruption::Cancelled))));
    check_part(&Part { segments: vec![table.parts[0].segments[0].clone()] }, &columns, &mut random);
}

#[test]
fn every_copy_counts_and_is_listed_once() {
    let mut random = Random::new(39);
    let (schema, columns) = mixed(2 * GRANULE_ROWS, &mut random);
    let part = built(&schema, &columns, &[], &vec![ColumnAllocator::unplaced(); columns.len()], &Serial);
    let table = TableVersion::empty(&schema).with_appended(part);
    let wishes: Vec<_> = columns.iter().map(|_| Some(ColumnPlacement::replicated(nodes(&[0, 5, 6])))).collect();
    let (placed, _) = place(&table, &wishes, None, &Allocator::unplaced(), &Serial, &|| false).unwrap();
    let old = &table.parts[0].segments[0].segment;
    let new = &placed.parts[0].segments[0].segment;
    for i in 0..5 {
        assert_eq!(new.column(i).bytes_codes(), 3 * old.column(i).bytes_codes());
        assert_eq!(new.column(i).bytes_dictionary(), 3 * old.column(i).bytes_dictionary());
        let listed = new.column(i).components();
        let distinct: HashSet<usize> = listed.iter().map(|(_, region)| region.address()).collect();
        assert_eq!(distinct.len(), listed.len());
        assert_eq!(listed.len(), 3 * old.column(i).components().len());
    }
    // A constant column can have copies too.
    let value = arrow::array::StringArray::from(vec!["a value that does not fit a view"]);
    let on_two = ColumnAllocator::new(ColumnPlacement::replicated(nodes(&[0, 1])), Allocator::unplaced());
    let one = constant_column(&DataType::Utf8, Some(&value), 10, &ColumnAllocator::unplaced()).unwrap();
    let two = constant_column(&DataType::Utf8, Some(&value), 10, &on_two).unwrap();
    assert_eq!(two.bytes_dictionary(), 2 * one.bytes_dictionary());
    assert_same(&two.slice(0..10), &one.slice(0..10), "constant");
}
