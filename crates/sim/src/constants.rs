//! What no table of a paper gives: the costs of the product's own code and of a cpu's way to memory.
//!
//! Every constant has its source or the measurement behind it, holds for every machine and every experiment, and can be
//! scaled by a factor ([`Constants::scaled`]) to see which conclusions depend on it.
//!
//! Invariant: all values are finite and above zero, also after scaling.
//!
//! # Limits
//! Costs of the product's code were measured on one cpu (an AMD EPYC virtual machine with two cpus) and are used for all
//! machines: the papers' cpus are older and slower, but no measurement of this code on them exists.

use serde::{Deserialize, Serialize};

/// The constants of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constants {
    /// Lines that a core can have in flight while it streams. 16: entries of the super queue between the second and the
    /// third cache, Intel 64 and IA-32 Architectures Optimization Reference Manual, Nehalem to Ivy Bridge. Check: the
    /// EPYC here streams 11 GB/s per core, which is 17 lines at 100 ns.
    pub lines_streamed: f64,
    /// Lines that a core can have in flight on independent random accesses. 10: line fill buffers of the first cache,
    /// same manual, Nehalem to Skylake.
    pub lines_random: f64,
    /// Look-ups in a tree that a core has under way at once. 2: the reorder buffer (168 entries in Sandy Bridge, 128 in
    /// Bulldozer; same manual, and AMD Software Optimization Guide for Family 15h) over some 70 instructions of a look-up.
    pub lookups_in_flight: f64,
    /// What a core with both hardware threads busy does, with one it does 1. 1.25: Marr et al., Intel Technology Journal
    /// 2002 (16 to 28 percent on server loads).
    pub smt_gain: f64,
    /// Latency of a line in the last-level cache, in ns. 25: 50 to 60 cycles at 2.3 to 2.8 GHz, same manual as above.
    pub llc_ns: f64,
    /// Bytes moved per byte written: the line is read before it is written. 2: write-allocate caches.
    pub write_factor: f64,
    /// Flits of a snoop to one other node, request and response. 2: one each; An Introduction to the Intel QuickPath
    /// Interconnect, 2009.
    pub snoop_flits: f64,
    /// Flits of a line of data: eight and a header; same source.
    pub data_flits: f64,
    /// Scanning a code, in ns per row and thread. 0.25: `bench/floors`, the work per code that `docs/design/speed.md`
    /// uses; the kernels do 0.26 where memory bounds them.
    pub scan_ns_per_row: f64,
    /// A row of a result: gather its code, make its value, write it; ns per row and thread. 6: compare scan, 100 M rows
    /// on two threads, (41.4 - 11.5) ms * 2 / 10 M rows at 10 percent (bench/results, revision 87d6b76).
    pub result_ns_per_row: f64,
    /// Adding a code's value to a sum, in ns per row. 0.5: `bench/floors`.
    pub sum_ns_per_row: f64,
    /// The work of a random access besides waiting for memory, in ns. 4: `bench/floors`.
    pub random_access_ns: f64,
    /// Looking a value up in an index, without waiting for memory, in ns per key. 20: two random accesses' work per
    /// level of a tree of the fan-out below is within it; the point look-ups of `nearside bench point` take 8.6 us per
    /// statement, of which the statement is the larger part.
    pub lookup_ns: f64,
    /// A row that an index names costs as much as so many rows that are scanned. 512: `exec/src/operators/scan/seek.rs`,
    /// by which the product decides between the two.
    pub index_row_cost: f64,
    /// Encoding a value anew: dictionary and code, ns per value and thread. 28: TPC-H at scale 1 (116.6 M values) loads in
    /// 1.63 s with two threads (`docs/design/speed.md`), reading Parquet included.
    pub encode_ns_per_value: f64,
    /// Moving pages between nodes, ns per byte and thread. 1.67: 600 MB/s of `move_pages`, Goglin and Furmento, IPDPS 2009.
    pub move_ns_per_byte: f64,
    /// A task from submission to completion, besides its work, in ns. 210: `nearside bench sched`.
    pub task_ns: f64,
    /// A piece of work that travels in a batch, in ns. 14: `nearside bench sched`, batches of 1000. Also what routing
    /// and receiving a command of a unit costs, each.
    pub batched_ns: f64,
    /// Waking a parked worker, in ns. 23,750: half of the round trip of 47.5 us that `nearside bench sched` measures.
    pub wake_ns: f64,
    /// Binding and starting a prepared statement, in ns. 4,400: `nearside bench plan`.
    pub statement_ns: f64,
}

impl Default for Constants {
    fn default() -> Constants {
        Constants {
            lines_streamed: 16.0,
            lines_random: 10.0,
            lookups_in_flight: 2.0,
            smt_gain: 1.25,
            llc_ns: 25.0,
            write_factor: 2.0,
            snoop_flits: 2.0,
            data_flits: 9.0,
            scan_ns_per_row: 0.25,
            result_ns_per_row: 6.0,
            sum_ns_per_row: 0.5,
            random_access_ns: 4.0,
            lookup_ns: 20.0,
            index_row_cost: 512.0,
            encode_ns_per_value: 28.0,
            move_ns_per_byte: 1.67,
            task_ns: 210.0,
            batched_ns: 14.0,
            wake_ns: 23_750.0,
            statement_ns: 4_400.0,
        }
    }
}

/// Names the fields once for listing, reading and scaling.
macro_rules! fields {
    ($($field:ident),+ $(,)?) => {
        impl Constants {
            /// The names of all constants, as [`Constants::get`] and [`Constants::scaled`] take them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// The value of a constant; `None` for a name that is not there.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($field) => Some(self.$field),)+ _ => None }
            }

            fn field(&mut self, name: &str) -> Option<&mut f64> {
                match name { $(stringify!($field) => Some(&mut self.$field),)+ _ => None }
            }
        }
    };
}

fields!(
    lines_streamed,
    lines_random,
    lookups_in_flight,
    smt_gain,
    llc_ns,
    write_factor,
    snoop_flits,
    data_flits,
    scan_ns_per_row,
    result_ns_per_row,
    sum_ns_per_row,
    random_access_ns,
    lookup_ns,
    index_row_cost,
    encode_ns_per_value,
    move_ns_per_byte,
    task_ns,
    batched_ns,
    wake_ns,
    statement_ns,
);

impl Constants {
    /// These constants with one multiplied by `factor`. `None` where the name is not there, or the factor is not a finite
    /// number above zero.
    pub fn scaled(&self, name: &str, factor: f64) -> Option<Constants> {
        let mut scaled = self.clone();
        let field = scaled.field(name)?;
        *field *= factor;
        (field.is_finite() && *field > 0.0).then_some(scaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_can_be_read_and_scaled() {
        let constants = Constants::default();
        for name in Constants::NAMES {
            let value = constants.get(name).expect("listed");
            let scaled = constants.scaled(name, 1.2).expect("listed");
            assert!((scaled.get(name).unwrap() / value - 1.2).abs() < 1e-12);
            let changed = Constants::NAMES.iter().filter(|other| scaled.get(other) != constants.get(other));
            assert_eq!(changed.collect::<Vec<_>>(), [name]);
        }
        assert_eq!(constants.scaled("luck", 2.0), None);
        assert_eq!(constants.scaled("task_ns", 0.0), None);
        let fields = serde_json::to_value(&constants).unwrap();
        assert_eq!(fields.as_object().unwrap().len(), Constants::NAMES.len(), "every field is listed");
    }
}
