//! What no table of a paper gives: the costs of the product's own code and of a cpu's way to memory.
//!
//! Every constant has its source or the measurement behind it, holds for every machine and every experiment, and can be
//! scaled by a factor ([`Constants::scaled`]) to see which conclusions depend on it.
//!
//! Which constants a run reads is noted while it runs ([`Constants::read`]), so that what cannot depend on a constant
//! need not be run again with another value of it.
//!
//! Costs of the product's code were measured on one cpu (a core of Zen 5 at 4.4 GHz, in a virtual machine of two). A
//! machine says how many times as long its cores take (`Machine::core_slowness`); [`Constants::on_cores`] makes those
//! costs that machine's. Times of memory, caches and links are the machine's own and stay.
//!
//! Invariants: all values are finite and above zero, also after scaling. A value can be had for computing by the
//! function of its name only, so no read goes unnoticed; a clone notes into the list of the one it was cloned from.
//!
//! # Limits
//! One factor per machine: what vectors, predictors and caches of a core do to one loop and not to another is not in
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Declares the constants once: their fields, values, names, and the functions that read them; `code` marks costs of
/// the product's code.
macro_rules! constants {
    ($($(#[$about:meta])+ $field:ident = $value:expr $(, $code:ident)?;)+) => {
        /// The constants of a run.
        ///
        /// A constant is read by the function of its name, which notes that it was: see [`Constants::read`].
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Constants {
            $($field: f64,)+
            /// How much longer code takes on the machine that they are for.
            #[serde(skip, default = "as_measured")]
            slowness: f64,
            #[serde(skip)]
            reads: Reads,
        }

        /// The place of each constant in the list.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum At { $($field,)+ }

        impl Default for Constants {
            fn default() -> Constants {
                Constants { $($field: $value,)+ slowness: as_measured(), reads: Reads::default() }
            }
        }

        impl Constants {
            /// The names of all constants, as [`Constants::get`] and [`Constants::scaled`] take them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            /// The value of a constant, for a list of them: nothing is noted. `None` for a name that is not there.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($field) => Some(self.$field),)+ _ => None }
            }

            fn field(&mut self, name: &str) -> Option<&mut f64> {
                match name { $(stringify!($field) => Some(&mut self.$field),)+ _ => None }
            }

            $(
                $(#[$about])+
                pub fn $field(&self) -> f64 {
                    self.reads.note(At::$field);
                    $(if stringify!($code) == "code" {
                        return self.of_code(self.$field);
                    })?
                    #[allow(unreachable_code)]
                    self.$field
                }
            )+
        }
    };
}

constants! {
    /// Lines that a core can have in flight while it streams. 16: entries of the super queue between the second and the
    /// third cache, Intel 64 and IA-32 Architectures Optimization Reference Manual, Nehalem to Ivy Bridge. Check: the
    /// EPYC here streams 11 GB/s per core, which is 17 lines at 100 ns.
    lines_streamed = 16.0;
    /// Lines that a core can have in flight on independent random accesses. 10: line fill buffers of the first cache,
    /// same manual, Nehalem to Skylake.
    lines_random = 10.0;
    /// Look-ups in a tree that a core has under way at once. 10: batches go down side by side, each asking for its next
    /// line. By the example `costs` of crates/units waits are shared by 9 to 12 look-ups with 24 million keys and by 16
    /// to 20 with 8 or 64 million. More than `lines_random` no core of the papers has on its way.
    lookups_in_flight = 10.0;
    /// What a core with both hardware threads busy does, with one it does 1. 1.25: Marr et al., Intel Technology
    /// Journal 2002 (16 to 28 percent on server loads).
    smt_gain = 1.25;
    /// How fast a core is beside what its published figure says (`Machine::core_slowness`). 1.
    core_speed = 1.0;
    /// Latency of a line in the last-level cache, in ns. 25: 50 to 60 cycles at 2.3 to 2.8 GHz, same manual as above.
    llc_ns = 25.0;
    /// Bytes moved per byte written: the line is read before it is written. 2: write-allocate caches.
    write_factor = 2.0;
    /// Flits of a snoop to one other node, request and response. 2: one each; An Introduction to the Intel QuickPath
    /// Interconnect, 2009.
    snoop_flits = 2.0;
    /// Flits of a line of data: eight and a header; same source.
    data_flits = 9.0;
    /// What a byte that another node reads occupies of a controller, in bytes read locally. 1: no table tells how much
    /// remote readers disturb a controller; a factor shows what would follow if they did.
    remote_at_controller = 1.0;
    /// Bytes that controllers move for a byte that a cpu reads of another node of its package: that byte there, the
    /// rest at its own. 1: a byte is moved once.
    moved_for_neighbours = 1.0;
    /// The share of a printed remote bandwidth that is left while other nodes pull too. 1: bandwidths are printed of
    /// one node that reads alone, and no table tells what queues on the way take of it.
    remote_under_load = 1.0;
    /// Scanning a code, in ns per row and thread. 0.25: `bench/floors`, the work per code that `docs/design/speed.md`
    /// uses; the kernels do 0.26 where memory bounds them.
    scan_ns_per_row = 0.25, code;
    /// A row of a result: gather its code, make its value, write it; ns per row and thread. 6: compare scan, 100 M rows
    /// on two threads, (41.4 - 11.5) ms * 2 / 10 M rows at 10 percent (bench/results, revision 87d6b76).
    result_ns_per_row = 6.0, code;
    /// Adding a code's value to a sum, in ns per row. 0.5: `bench/floors`.
    sum_ns_per_row = 0.5, code;
    /// Uniting two sorted lists of positions, in ns per position written. 1.8: two lists of 100,000 of 5 million rows,
    /// without branches, 2.44 on a core of an EPYC of the fourth generation, which is taken to be slower by their marks
    /// (`machine/published.rs`).
    unite_ns_per_row = 1.8, code;
    /// The work of a random access besides waiting for memory, in ns. 4: `bench/floors`.
    random_access_ns = 4.0, code;
    /// Looking a key up in an index, without waiting for memory, in ns. 17: `cargo run --release -p nearside-units
    /// --example costs`, batches of 1,000 in an index of 50,000 dense keys, which a core's own cache holds; the shared
    /// index takes as long. Drawing the key, 6 ns, and checking the value are in it.
    lookup_ns = 17.0, code;
    /// Setting the value of a key that a unit has, without waiting for memory, in ns. 105: as above. The version from
    /// before is kept and the statement can be undone, which the paper's upsert cannot.
    upsert_ns = 105.0, code;
    /// The same in a shared index, by atomic instructions, without versions, in ns. 34: as above.
    shared_upsert_ns = 34.0, code;
    /// A row that an index names costs as much as `n` rows that are scanned. 512: `exec/src/scan/seek.rs`,
    /// by which the product decides between the two.
    index_row_cost = 512.0;
    /// Encoding a value anew: dictionary and code, ns per value and thread. 24: `storage::repartition` of ten columns
    /// of 17 to 26 bits in four parts, values far apart so that there are dictionaries. It takes 34 with 32 million
    /// rows (28 with 8 million) on a core of an EPYC of the fourth generation beside other programs, where a look-up
    /// takes 24 in place of 17.
    encode_ns_per_value = 24.0, code;
    /// Moving pages between nodes, ns per byte and thread. 1.67: 600 MB/s of `move_pages`, Goglin and Furmento, IPDPS
    /// 2009.
    move_ns_per_byte = 1.67;
    /// A task from submission to completion, besides its work, in ns. 210: `nearside bench sched`.
    task_ns = 210.0, code;
    /// A key of a look-up that goes to its unit in a command with others, in ns: copied out and in, gathered, its value
    /// told. 4.5: the same example, look-ups in batches of 8,192 by commands less direct ones, one unit, one thread.
    routed_key_ns = 4.5, code;
    /// Halving the ranges of keys once, on the way to the one whose unit is the key's, in ns. 1.9: the same example,
    /// commands of one key that are only routed to 64 units less those to one, over the six halvings.
    owner_ns = 1.9, code;
    /// A command from its sender to its unit, besides its keys, in ns: its head written, copied, read, answered, told.
    /// 45: the same example, a look-up as a command of its own less one in a batch, one unit, one thread, 128 sent
    /// together.
    command_ns = 45.0, code;
    /// Sending what an outgoing buffer holds, in ns, besides waiting for the other unit's lines. 44: the same example,
    /// commands sent one by one less those sent by 128, 64 units.
    send_ns = 44.0, code;
    /// A command besides its keys, in bytes. 32: four words (`units/src/routing/command.rs`). A key has eight.
    command_head_bytes = 32.0;
    /// Handing a range of dense keys to another unit of the same node, in ns per pair. 0.11: `nearside bench keyed
    /// --keys 8000000 --dense --transfers`, the fastest of 18 transfers of 4 million pairs (release, revision 09a7c58,
    /// nothing else on the machine).
    link_ns_per_pair = 0.11, code;
    /// The same to a unit of another node, whose memory is another arena, in ns per pair. 2.26: as above.
    copy_ns_per_pair = 2.26, code;
    /// Waking a parked worker, in ns. 23,750: half of the round trip of 47.5 us that `nearside bench sched` measures.
    wake_ns = 23_750.0, code;
    /// Binding and starting a prepared statement, in ns. 4,400: `nearside bench plan`.
    statement_ns = 4_400.0, code;
}

fn as_measured() -> f64 {
    1.0
}

impl Constants {
    /// These constants on cores that take so many times as long for code as the one that it was measured on, however
    /// long those took that they were for before. The same list of what was read.
    pub fn on_cores(&self, slowness: f64) -> Constants {
        Constants { slowness, ..self.clone() }
    }

    fn of_code(&self, measured: f64) -> f64 {
        // Where cores are as fast as the one that was measured, nothing depends on how that is told.
        if self.slowness == as_measured() { measured } else { measured * self.slowness / self.core_speed() }
    }

    /// Equal constants of which nothing has been read yet.
    pub fn unread(&self) -> Constants {
        Constants { reads: Reads::default(), ..self.clone() }
    }

    /// The names of those that have been read since [`Constants::unread`], by this value or a clone of it, in the order
    /// of [`Constants::NAMES`]. A run whose constants were read so comes out the same whatever all others are.
    pub fn read(&self) -> Vec<&'static str> {
        let bits = self.reads.0.load(Ordering::Relaxed);
        Constants::NAMES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, name)| *name).collect()
    }

    /// These constants with one multiplied by `factor`. `None` where the name is not there, or the factor is not a
    /// finite number above zero.
    pub fn scaled(&self, name: &str, factor: f64) -> Option<Constants> {
        let mut scaled = self.unread();
        let field = scaled.field(name)?;
        *field *= factor;
        (field.is_finite() && *field > 0.0).then_some(scaled)
    }
}

/// Which constants were read: a bit for each, by place.
#[derive(Clone, Debug, Default)]
struct Reads(Arc<AtomicU64>);

const _: () = assert!(Constants::NAMES.len() <= 64, "a bit for each constant");

impl Reads {
    fn note(&self, at: At) {
        let bit = 1 << at as u64;
        // Mostly it is noted already; then the line is not written, and threads do not take it from each other.
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// What was read is no part of what constants are.
impl PartialEq for Reads {
    fn eq(&self, _: &Reads) -> bool {
        true
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
        assert_eq!(constants.read(), Vec::<&str>::new(), "listing and scaling are no reads");
        assert_eq!(constants.scaled("luck", 2.0), None);
        assert_eq!(constants.scaled("task_ns", 0.0), None);
        let fields = serde_json::to_value(&constants).unwrap();
        assert_eq!(fields.as_object().unwrap().len(), Constants::NAMES.len(), "every field is listed");
    }

    #[test]
    fn code_takes_as_much_longer_as_a_core_is_slower_and_memory_does_not() {
        let constants = Constants::default();
        let there = constants.on_cores(4.0);
        assert_eq!(there.lookup_ns(), constants.lookup_ns() * 4.0);
        assert_eq!(there.on_cores(4.0).lookup_ns(), there.lookup_ns(), "once, however often it is said");
        assert_eq!((there.llc_ns(), there.move_ns_per_byte()), (constants.llc_ns(), constants.move_ns_per_byte()));
        assert_eq!(there.read(), ["core_speed", "llc_ns", "lookup_ns", "move_ns_per_byte"]);
        assert_eq!(constants.read(), there.read(), "one list");
        let faster = constants.scaled("core_speed", 2.0).unwrap().on_cores(4.0);
        assert!((faster.lookup_ns() * 2.0 / there.lookup_ns() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_read_is_noted_also_by_clones_and_not_by_others() {
        let constants = Constants::default();
        let clone = constants.clone();
        let other = constants.unread();
        assert_eq!((constants.task_ns(), clone.wake_ns(), other.llc_ns()), (210.0, 23_750.0, 25.0));
        assert_eq!(constants.read(), ["task_ns", "wake_ns"]);
        assert_eq!(clone.read(), constants.read());
        assert_eq!(other.read(), ["llc_ns"]);
        assert_eq!(constants, other, "what was read makes no difference");
    }
}
