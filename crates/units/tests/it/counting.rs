//! An allocator that counts what each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is done by the system's allocator; counting touches a cell without a destructor, and allocates
// nothing.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait asks; see the implementation.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the conditions of `alloc`, which are the same.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the trait asks; see the implementation.
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the conditions of `dealloc`, and what it has came from there.
        unsafe { System.dealloc(start, layout) }
    }
}

/// How often this thread allocates while something runs.
pub fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn what_is_allocated_is_counted() {
    assert_eq!(allocations(|| drop(black_box(Box::new(7)))), 1);
    assert!(allocations(|| drop(black_box((0..100).map(|number| vec![number]).collect::<Vec<_>>()))) > 100);
    assert_eq!(allocations(|| ()), 0);
}
