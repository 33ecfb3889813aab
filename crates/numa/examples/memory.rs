//! What memory costs: a region taken, touched and freed, by size; scratch memory mapped anew and used again; the
//! question of the current node. Prints nanoseconds: the median of `ROUNDS` rounds.
//!
//! `cargo run -p nearside-numa --profile bench --example memory`

use std::hint::black_box;
use std::time::Instant;

use numa::{Allocator, Budget, Policy, current_node, pin_current_thread};

const ROUNDS: usize = 21;
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 2 << 20, 64 << 20];

fn main() {
    let allocator = Allocator::new(Policy::Local, Budget::new("example", 1 << 32));
    println!("{:<34}{:>12}{:>12}{:>12}{:>12}", "ns", "4 KiB", "64 KiB", "2 MiB", "64 MiB");
    row("region, taken and freed", |len| drop(black_box(allocator.region(len).expect("fits"))));
    row("region, every page touched", |len| {
        let mut region = allocator.region(len).expect("fits");
        touch(region.bytes_mut());
    });
    row("scratch, used again", |len| touch(allocator.scratch(len).expect("fits").bytes_mut()));
    println!("current_node: {:.1} ns; current_cpu: {:.1} ns", node_ns(), ns(numa::current_cpu));
    if let Some(cpu) = numa::current_cpu() {
        pin_current_thread(&[cpu]);
        println!("current_node, pinned: {:.1} ns", node_ns());
    }
}

/// One byte of every page, as something that is written from its start would.
fn touch(bytes: &mut [u8]) {
    bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(bytes);
}

fn row(name: &str, body: impl Fn(usize)) {
    print!("{name:<34}");
    for len in SIZES {
        let repeat = (16 << 20) / len.max(64 << 10) + 1;
        let mut times: Vec<u128> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                (0..repeat).for_each(|_| body(len));
                start.elapsed().as_nanos() / repeat as u128
            })
            .collect();
        times.sort_unstable();
        print!("{:>12}", times[ROUNDS / 2]);
    }
    println!();
}

fn node_ns() -> f64 {
    ns(current_node)
}

fn ns<T>(call: impl Fn() -> T) -> f64 {
    const CALLS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(call());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}
