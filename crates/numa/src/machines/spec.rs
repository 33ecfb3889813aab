//! Machines from a short specification.
//!
//! ```text
//! specification = shape { ";" option }
//! shape         = packages "x" nodes per package "x" cores per node [ "x" threads per core ]
//! option        = "mem=" size            memory of each node with cpus; 16G if left out
//!               | "cpuless=" count       nodes without cpus, after the others, beside package 0, 1, ... in turn
//!               | "cpuless-mem=" size    memory of each of them; as mem if left out
//!               | "kind=" kind           what that is: cxl (if left out), hbm, gpu, pmem or dram
//!               | "l2=" size | "l3=" size   caches of a core and of a node; 1M and 32M if left out, 0 for none
//!               | "distance=" figures | "latency=" figures | "bandwidth=" figures
//! figures       = one per class of pairs: local, same package, other package [, memory without cpus beside the own
//!                 package [, beside another] ]; or a row per node, rows parted by "/": 10,21/21,10
//! size          = number [ "K" | "M" | "G" | "T" ]
//! ```
//!
//! Distances begin with 10; latencies are nanoseconds, bandwidths bytes per second with the letters of sizes times
//! 1000.
//!
//! # Limits
//! At most [`NODES_MAX`] nodes and [`CPUS_MAX`] cpus; all packages are alike.

use super::MachineDescription;
use super::figures::matrix;
use crate::attributes::{Attributes, Latency};
use crate::topology::MemoryKind;
use crate::topology::synthetic::{Blueprint, DISTANCE_PACKAGE, DISTANCE_SUB_DOMAIN};

const NODES_MAX: u64 = 1024;
const CPUS_MAX: u64 = 16_384;
const SHAPE: &str = "a shape is packages x nodes per package x cores per node, and x threads per core, such as 4x2x8x2";
const OPTIONS: &str = "mem, cpuless, cpuless-mem, kind, l2, l3, distance, latency, bandwidth";
/// Distances of memory without cpus beside the own package and beside another, where none are given.
const DISTANCE_CPULESS: [u32; 2] = [17, 28];

/// Figures as they were given.
#[derive(Clone, Debug)]
enum PerPair {
    ByClass(Vec<f64>),
    Rows(Vec<Vec<f64>>),
}

/// Reads a specification; the error says what is wrong and what would be right.
pub(super) fn parse(text: &str) -> Result<MachineDescription, String> {
    let mut parts = text.split(';');
    let [packages, nodes_per_package, cores, smt] = shape(parts.next().unwrap_or_default())?;
    let mut blueprint = Blueprint::new(packages, nodes_per_package, cores, smt);
    let mut seen: Vec<&str> = Vec::new();
    let mut cpuless_bytes = None;
    let mut distance = None;
    let mut latency = None;
    let mut bandwidth = None;
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("'{part}' is no option: write name=value with one of {OPTIONS}"))?;
        let key = key.trim();
        let value = value.trim();
        if seen.contains(&key) {
            return Err(format!("'{key}' is given twice"));
        }
        seen.push(key);
        match key {
            "mem" => blueprint.memory_bytes = above_zero(key, size(key, value)?)?,
            "cpuless" => blueprint.cpuless = number(key, value)?,
            "cpuless-mem" => cpuless_bytes = Some(above_zero(key, size(key, value)?)?),
            "kind" => blueprint.cpuless_kind = kind(value)?,
            "l2" => blueprint.l2_bytes = size(key, value)?,
            "l3" => blueprint.l3_bytes = size(key, value)?,
            "distance" => distance = Some(figures(key, value, 1.0)?),
            "latency" => latency = Some(figures(key, value, 1.0)?),
            "bandwidth" => bandwidth = Some(figures(key, value, 1000.0)?),
            _ => return Err(format!("there is no option '{key}', only {OPTIONS}")),
        }
    }
    blueprint.cpuless_bytes = cpuless_bytes.unwrap_or(blueprint.memory_bytes);
    if u64::from(blueprint.cpu_nodes()) + u64::from(blueprint.cpuless) > NODES_MAX {
        return Err(format!("a machine has no more than {NODES_MAX} nodes"));
    }
    describe(text, blueprint, distance, latency, bandwidth)
}

fn describe(
    text: &str,
    mut blueprint: Blueprint,
    distance: Option<PerPair>,
    latency: Option<PerPair>,
    bandwidth: Option<PerPair>,
) -> Result<MachineDescription, String> {
    blueprint.cpu_model = Some(format!("imaginary ({text})"));
    let named = [("distance", &distance), ("latency", &latency), ("bandwidth", &bandwidth)];
    for (key, of) in named.iter().filter_map(|(key, of)| Some((key, of.as_ref()?))) {
        of.fits(key, &blueprint)?;
    }
    if let Some(wrong) = distance.as_ref().and_then(|of| wrong_distance(of, &blueprint)) {
        return Err(wrong);
    }
    let topology = blueprint.build(|from, to| match &distance {
        Some(of) => of.get(&blueprint, from, to) as u32,
        None => default_distance(&blueprint, from, to),
    });
    if latency.is_none() && bandwidth.is_none() {
        return Ok(MachineDescription { topology, attributes: None });
    }
    let mut attributes = Attributes::empty(topology.clone(), text, "specification");
    let nodes = blueprint.nodes();
    let rows = blueprint.cpu_nodes() as usize;
    if let Some(of) = latency {
        let same = |ns: f64| Latency { min_ns: ns, avg_ns: ns, max_ns: ns };
        attributes.latency = matrix(nodes, |from, to| Some(same(of.get(&blueprint, from, to))));
        attributes.latency.truncate(rows);
    }
    if let Some(of) = bandwidth {
        attributes.read = matrix(nodes, |from, to| Some(of.get(&blueprint, from, to)));
        attributes.read.truncate(rows);
    }
    attributes.notes.push("an imaginary machine: every figure was given, none measured".to_string());
    Ok(MachineDescription { topology, attributes: Some(attributes) })
}

fn default_distance(blueprint: &Blueprint, from: u32, to: u32) -> u32 {
    match class(blueprint, from, to) {
        0 => 10,
        1 => DISTANCE_SUB_DOMAIN,
        2 => DISTANCE_PACKAGE,
        other => DISTANCE_CPULESS[other - 3],
    }
}

/// Which of the five classes a pair of nodes is in.
fn class(blueprint: &Blueprint, from: u32, to: u32) -> usize {
    let same = blueprint.package_of(from) == blueprint.package_of(to);
    let cpus = blueprint.cpu_nodes();
    match (from == to, from < cpus && to < cpus) {
        (true, _) => 0,
        (false, true) => 1 + usize::from(!same),
        (false, false) => 3 + usize::from(!same),
    }
}

fn wrong_distance(of: &PerPair, blueprint: &Blueprint) -> Option<String> {
    let pairs = (0..blueprint.nodes()).flat_map(|from| (0..blueprint.nodes()).map(move |to| (from, to)));
    for (from, to) in pairs {
        let distance = of.get(blueprint, from, to);
        if from == to && distance != 10.0 {
            return Some(format!("a node is {distance} from itself; that distance is always 10"));
        }
        if from != to && !(10.0..=100_000.0).contains(&distance) || distance.fract() != 0.0 {
            return Some(format!("{distance} is no distance: they are whole numbers from 10 (a node to itself) up"));
        }
    }
    None
}

impl PerPair {
    /// Whether there is a figure for every pair that the machine has.
    fn fits(&self, key: &str, blueprint: &Blueprint) -> Result<(), String> {
        let nodes = blueprint.nodes() as usize;
        match self {
            PerPair::Rows(rows) if rows.len() == nodes && rows.iter().all(|row| row.len() == nodes) => Ok(()),
            PerPair::Rows(_) => Err(format!("'{key}' needs {nodes} rows of {nodes} figures, one per node")),
            PerPair::ByClass(given) if (1..=5).contains(&given.len()) => Ok(()),
            PerPair::ByClass(_) => Err(format!(
                "'{key}' takes 1 to 5 figures: local, same package, other package, memory without cpus beside the own \
                 package, beside another; or a row per node, parted by '/'"
            )),
        }
    }

    /// The figure of a pair; classes that were left out are as the last one given.
    fn get(&self, blueprint: &Blueprint, from: u32, to: u32) -> f64 {
        match self {
            PerPair::Rows(rows) => rows[from as usize][to as usize],
            PerPair::ByClass(given) => given[class(blueprint, from, to).min(given.len() - 1)],
        }
    }
}

fn shape(text: &str) -> Result<[u32; 4], String> {
    let numbers: Vec<&str> = text.trim().split(['x', 'X']).collect();
    if !(3..=4).contains(&numbers.len()) {
        return Err(SHAPE.to_string());
    }
    let mut shape = [1u32; 4];
    for (place, number) in shape.iter_mut().zip(&numbers) {
        let number = number.trim().parse().ok().filter(|n| *n > 0);
        *place = number.ok_or_else(|| format!("{SHAPE}; each number is at least 1"))?;
    }
    let product = |of: &[u32]| of.iter().fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
    if product(&shape[..2]) > NODES_MAX || product(&shape) > CPUS_MAX {
        return Err(format!("a machine has no more than {NODES_MAX} nodes and {CPUS_MAX} cpus"));
    }
    Ok(shape)
}

fn number(key: &str, text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{key}' takes a number, not '{text}'"))
}

fn above_zero(key: &str, bytes: u64) -> Result<u64, String> {
    if bytes == 0 { Err(format!("'{key}' must be above 0")) } else { Ok(bytes) }
}

/// A number of bytes with a binary unit.
fn size(key: &str, text: &str) -> Result<u64, String> {
    let scaled = scaled(text, 1024.0).filter(|bytes| *bytes < (1u64 << 60) as f64);
    scaled.map(|bytes| bytes as u64).ok_or_else(|| format!("'{key}' takes a size such as 64G or 512M, not '{text}'"))
}

/// A number, not below 0, with an optional unit.
fn scaled(text: &str, step: f64) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" | "KIB" => step,
        "M" | "MB" | "MIB" => step * step,
        "G" | "GB" | "GIB" => step * step * step,
        "T" | "TB" | "TIB" => step * step * step * step,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    Some(number * factor)
}

fn figures(key: &str, text: &str, step: f64) -> Result<PerPair, String> {
    let figure = |word: &str| {
        let figure = scaled(word.trim(), step).filter(|f| *f > 0.0 && f.is_finite());
        figure.ok_or_else(|| format!("'{key}' takes figures above 0 parted by ',', not '{word}'"))
    };
    let row = |row: &str| row.split(',').map(figure).collect::<Result<Vec<f64>, String>>();
    match text.contains('/') {
        true => Ok(PerPair::Rows(text.split('/').map(row).collect::<Result<_, _>>()?)),
        false => Ok(PerPair::ByClass(row(text)?)),
    }
}

fn kind(text: &str) -> Result<MemoryKind, String> {
    match text.to_ascii_lowercase().as_str() {
        "cxl" => Ok(MemoryKind::Cxl),
        "hbm" => Ok(MemoryKind::Hbm),
        "gpu" => Ok(MemoryKind::Gpu),
        "pmem" => Ok(MemoryKind::Pmem),
        "dram" => Ok(MemoryKind::Dram),
        _ => Err(format!("'{text}' is no kind of memory; kinds are cxl, hbm, gpu, pmem, dram")),
    }
}
