//! What IVP and PP cost on one table:
//! `cargo run --release -p nearside-storage --example placements [million rows] [parts]`.
//!
//! IVP moves the pages of the codes; PP rewrites all rows into parts with dictionaries of their own (Psaroudakis et
//! al., VLDB 2015, section 4.2, where PP took 4.5x the time and 1.08x the memory of IVP). One thread, data made up
//! here.
//!
//! On a machine with fewer nodes than parts nothing can really move: then the nodes are pretended, the bytes that would
//! leave node 0 are counted, and they are copied once instead, which is what the kernel does for each page besides its
//! book-keeping.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::{Allocator, Budget, NodeId, Policy, Topology, peak_resident_bytes, resident_bytes};
use random::Random;
use storage::{
    ColumnAllocator, ColumnPlacement, Component, Partitioner, Placement, Serial, Stager, TableVersion, build_part,
    place, repartition,
};

const BATCH_ROWS: usize = 65_536;
/// Bits of the codes of the number columns.
const BITS: [u32; 8] = [17, 18, 19, 20, 21, 22, 24, 26];

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let millions: usize = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let parts: usize = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let machine = Topology::discover()?;
    let real = machine.usable_memory_nodes().len() >= parts;
    let nodes: Vec<NodeId> = match real {
        true => machine.usable_memory_nodes()[..parts].to_vec(),
        false => (0..parts as u32).map(NodeId).collect(),
    };
    println!("{} nodes: {}", nodes.len(), if real { "real" } else { "pretended" });

    let budget = Budget::new("placements", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let table = load(millions * 1_000_000, nodes[0], &allocator)?;
    report("loaded on one node", &table, &budget);

    let wish = vec![Some(ColumnPlacement::ivp(nodes.clone())); table.schema.fields().len()];
    let start = Instant::now();
    let (striped, moved) = place(&table, &wish, None, &allocator, &Serial, &|| false)?;
    let mut ivp_s = start.elapsed().as_secs_f64();
    if real {
        println!("IVP: {ivp_s:.2} s, {moved:?}");
    } else {
        let would = would_move(&table, &nodes);
        let start = Instant::now();
        copy_once(would);
        ivp_s += start.elapsed().as_secs_f64();
        println!("IVP: {ivp_s:.2} s with {} MB that would move copied once; {moved:?}", would >> 20);
    }
    report("IVP", &striped, &budget);
    let ivp_bytes = budget.used_bytes();
    drop(striped);

    let partitioner = Partitioner::Hash { columns: vec![0], parts };
    let allocators: Vec<Vec<ColumnAllocator>> = nodes
        .iter()
        .map(|&node| vec![ColumnAllocator::new(ColumnPlacement::one(node), allocator.clone()); wish.len()])
        .collect();
    let start = Instant::now();
    let made = repartition(&table, Some(&partitioner), &allocators, &Serial)?;
    let pp_s = start.elapsed().as_secs_f64();
    let old_bytes = table.bytes() as u64;
    let table = table.with_parts(made);
    println!("PP: {pp_s:.2} s, {} MB rewritten", table.bytes() >> 20);
    report("PP", &table, &budget);
    println!(
        "PP peak: {:.2} of old and new together",
        budget.peak_bytes() as f64 / (old_bytes + table.bytes() as u64) as f64
    );
    println!(
        "PP against IVP: {:.1}x the time, {:.3}x the memory (the paper: 4.5x and 1.08x)",
        pp_s / ivp_s,
        budget.used_bytes() as f64 / ivp_bytes as f64
    );
    Ok(())
}

fn load(rows: usize, node: NodeId, allocator: &Allocator) -> Fallible<TableVersion> {
    let mut fields: Vec<Field> =
        BITS.iter().map(|bits| Field::new(format!("c{bits}"), DataType::Int64, false)).collect();
    fields.push(Field::new("city", DataType::Utf8View, false));
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let mut random = Random::new(42);
    let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
    for first in (0..rows).step_by(BATCH_ROWS) {
        let count = BATCH_ROWS.min(rows - first);
        let numbers = |bits: &u32, random: &mut Random| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..count).map(|_| random.below_u64(1 << bits) as i64)))
        };
        let mut columns: Vec<ArrayRef> = BITS.iter().map(|bits| numbers(bits, &mut random)).collect();
        let city = |random: &mut Random| format!("the city with number {}", random.below_u64(50_000));
        columns.push(Arc::new(StringViewArray::from_iter_values((0..count).map(|_| city(&mut random)))));
        stager.append(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    let one = ColumnAllocator::new(ColumnPlacement::one(node), allocator.clone());
    let allocators = vec![one; schema.fields().len()];
    let part = build_part(&schema, vec![stager.finish()?], &allocators, &Serial)?;
    Ok(TableVersion::empty(&schema).with_appended(part))
}

/// Bytes of codes and dictionaries that leave the first node.
fn would_move(table: &TableVersion, nodes: &[NodeId]) -> u64 {
    let codes = Placement::Striped(nodes.to_vec());
    let (mut bytes, mut seen) = (0, std::collections::HashSet::new());
    for (segment, version) in table.segments().enumerate() {
        for column in version.segment.columns() {
            let granules = version.segment.granules();
            for granule in 0..granules {
                if codes.node_of_granule(granules, segment, granule) != Some(nodes[0]) {
                    bytes += column.granule_bytes(granule).iter().map(|(_, range)| range.len() as u64).sum::<u64>();
                }
            }
            for (component, region) in column.components() {
                if component == Component::Dictionary && seen.insert(region.address()) {
                    bytes += region.len() as u64 * (nodes.len() as u64 - 1) / nodes.len() as u64;
                }
            }
        }
    }
    bytes
}

fn copy_once(bytes: u64) {
    const CHUNK_BYTES: usize = 4096;
    let from = vec![7u8; bytes as usize];
    let mut to = Vec::with_capacity(bytes as usize);
    from.chunks(CHUNK_BYTES).for_each(|chunk| to.extend_from_slice(std::hint::black_box(chunk)));
    std::hint::black_box(to);
}

fn report(what: &str, table: &TableVersion, budget: &Budget) {
    println!(
        "  {what}: {} rows, table {} MB, budget {} MB (peak so far {} MB), resident {} MB (peak {} MB)",
        table.rows(),
        table.bytes() >> 20,
        budget.used_bytes() >> 20,
        budget.peak_bytes() >> 20,
        resident_bytes() >> 20,
        peak_resident_bytes() >> 20
    );
}
