//! Classes and services against the obvious: every flow by itself, rates at every change by progressive filling.

use proptest::prelude::*;

use super::*;
use crate::flow::{Class as Shared, filling};

/// A flow that begins at a time.
#[derive(Clone, Debug)]
struct Flow {
    begins_ns: u64,
    node: usize,
    stage: TaskStage,
}

fn machine() -> Machine {
    Machine::parse("2x2x4x1;latency=80,100,150;bandwidth=20G,15G,8G").expect("a specification")
}

/// When each flow ends, by the traffic under test.
fn by_classes(machine: &Machine, constants: &Constants, flows: &[Flow]) -> Vec<u64> {
    let mut traffic = Traffic::new(machine, constants, Resolve::Exact);
    // All cpus count as busy from the start to the end, so that caps stay as they are.
    (0..machine.node_count()).for_each(|node| (0..4).for_each(|_| traffic.occupy(node)));
    let mut ends = vec![0; flows.len()];
    let mut begun = 0;
    loop {
        let next_ns = flows.get(begun).map_or(NEVER, |flow: &Flow| flow.begins_ns).min(traffic.next_ns());
        if next_ns == NEVER {
            return ends;
        }
        let mut ended = Vec::new();
        traffic.ended(next_ns, &mut ended);
        ended.into_iter().for_each(|flow| ends[flow as usize] = next_ns);
        while let Some(flow) = flows.get(begun).filter(|flow| flow.begins_ns <= next_ns) {
            let (profile, units) = traffic.profile(&flow.stage).expect("it does something");
            traffic.begin(flow.node, profile, units, begun as u32, next_ns);
            begun += 1;
        }
        traffic.settle(next_ns);
    }
}

/// When each flow ends, one by one.
fn one_by_one(machine: &Machine, constants: &Constants, flows: &[Flow]) -> Vec<f64> {
    let resources = machine.resources();
    let uses: Vec<Vec<(usize, f64)>> = flows.iter().map(|flow| uses(machine, constants, flow)).collect();
    let caps: Vec<f64> = flows.iter().map(|flow| cap(machine, constants, flow)).collect();
    let mut left: Vec<f64> = flows.iter().map(|flow| flow.stage.bytes()).collect();
    let mut ends = vec![0.0; flows.len()];
    let mut now_ns = 0.0;
    loop {
        let alive = |place: usize, now_ns: f64, left: &[f64]| {
            left[place] > 0.0 && flows[place].begins_ns as f64 <= now_ns + 1e-6
        };
        let classes: Vec<Shared<'_>> = (0..flows.len())
            .map(|place| {
                let there = f64::from(u8::from(alive(place, now_ns, &left)));
                Shared { flows: there, cap: caps[place], uses: &uses[place] }
            })
            .collect();
        let rates = filling::rates(&resources, &classes);
        let begins = flows.iter().map(|flow| flow.begins_ns as f64).filter(|at| *at > now_ns + 1e-6);
        let ending = (0..flows.len()).filter(|place| alive(*place, now_ns, &left));
        let next_ns =
            ending.map(|place| now_ns + left[place] / rates[place] * 1e9).chain(begins).fold(f64::INFINITY, f64::min);
        if next_ns.is_infinite() {
            return ends;
        }
        for place in (0..flows.len()).filter(|place| alive(*place, now_ns, &left)).collect::<Vec<_>>() {
            left[place] -= rates[place] * (next_ns - now_ns) * 1e-9;
            if left[place] < 1e-3 {
                (left[place], ends[place]) = (0.0, next_ns);
            }
        }
        now_ns = next_ns;
    }
}

fn uses(machine: &Machine, constants: &Constants, flow: &Flow) -> Vec<(usize, f64)> {
    let mut uses: BTreeMap<usize, f64> = BTreeMap::new();
    for (memory, bytes) in &flow.stage.streamed {
        for (resource, amount) in machine.uses(flow.node, *memory, constants) {
            *uses.entry(resource).or_default() += amount * bytes / flow.stage.bytes();
        }
    }
    uses.into_iter().collect()
}

/// Bytes per second of a cpu with a core of its own: its work, or its lines per latency.
fn cap(machine: &Machine, constants: &Constants, flow: &Flow) -> f64 {
    let latency = |(memory, bytes): &(usize, f64)| bytes * machine.latency_ns(flow.node, *memory);
    let waits = flow.stage.streamed.iter().map(latency).sum::<f64>() / 64.0 / constants.lines_streamed();
    flow.stage.bytes() / waits.max(flow.stage.cpu_ns) * 1e9
}

prop_compose! {
    fn flows()(flows in proptest::collection::vec(
        (0u64..400_000, 0usize..4, 0usize..4, 0usize..4, 1u32..40, 0u32..3), 1..30,
    )) -> Vec<Flow> {
        let mut flows: Vec<Flow> = flows
            .into_iter()
            .map(|(begins_ns, node, from, other, kib, work)| {
                // Powers of two, so that shares are exact.
                let bytes = f64::from(kib) * 65_536.0;
                let stage = TaskStage::cpu(bytes * f64::from(work) / 8.0).read_over(&[from, other], bytes);
                Flow { begins_ns, node, stage }
            })
            .collect();
        flows.sort_by_key(|flow| flow.begins_ns);
        flows
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flows_end_when_each_by_itself_would(flows in flows()) {
        let machine = machine();
        let constants = Constants::default();
        let fast = by_classes(&machine, &constants, &flows);
        let slow = one_by_one(&machine, &constants, &flows);
        for (place, (fast, slow)) in fast.iter().zip(&slow).enumerate() {
            let tolerance = 100.0 + 1e-4 * (slow - flows[place].begins_ns as f64);
            prop_assert!((*fast as f64 - slow).abs() <= tolerance, "flow {} ends at {} or {}", place, fast, slow);
        }
    }
}
