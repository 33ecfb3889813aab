//! What is kept, what is found again, and what goes.

use proptest::prelude::*;

use super::*;
use crate::sys::mapping::Pages;

const KIND: MappingKind = MappingKind { placed: false, huge: false };

fn mapping(bytes: usize) -> Memory {
    Memory::map(bytes, Pages::Default).expect("a small mapping")
}

#[test]
fn the_smallest_that_fits_is_found() {
    let recycler = Recycler::default();
    let now = Instant::now();
    for kib in [64, 128, 72, 256] {
        recycler.keep(mapping(kib << 10), KIND, 1 << 30, now);
    }
    assert_eq!(recycler.bytes(), 520 << 10);
    assert!(recycler.take(60 << 10, MappingKind { placed: true, ..KIND }).is_none());
    assert!(recycler.take(60 << 10, MappingKind { huge: true, ..KIND }).is_none());
    assert_eq!(recycler.take(66 << 10, KIND).map(|m| m.held_bytes()), Some(72 << 10));
    // 128 KiB are more than a quarter too much.
    assert!(recycler.take(66 << 10, KIND).is_none());
    assert_eq!(recycler.release(), 448 << 10);
    assert_eq!((recycler.bytes(), recycler.release()), (0, 0));
}

#[test]
fn what_is_old_too_much_or_too_many_goes() {
    let recycler = Recycler::default();
    let now = Instant::now();
    recycler.keep(mapping(1 << 20), KIND, 100 << 10, now);
    assert_eq!(recycler.bytes(), 0, "larger than the limit");
    for _ in 0..3 {
        recycler.keep(mapping(64 << 10), KIND, 150 << 10, now);
        assert!(recycler.bytes() <= 128 << 10);
    }
    recycler.keep(mapping(64 << 10), KIND, 1 << 30, now + AGE_MAX);
    assert_eq!(recycler.bytes(), 64 << 10, "the others are too old");
    for _ in 0..KEPT_MAX + 9 {
        recycler.keep(mapping(64 << 10), KIND, 1 << 30, now + AGE_MAX);
    }
    assert_eq!(recycler.bytes(), (KEPT_MAX as u64) << 16);
}

proptest! {
    #[test]
    fn sizes_are_rounded_up_a_little(len in 1usize..1 << 40) {
        let bytes = scratch_bytes(len).expect("far from the end");
        prop_assert!(bytes >= len && bytes.is_multiple_of(page_bytes()));
        prop_assert!(bytes - len <= len / 8 + page_bytes(), "{} for {}", bytes, len);
        prop_assert!(len < 8 * HUGE_PAGE_BYTES || bytes.is_multiple_of(HUGE_PAGE_BYTES));
        prop_assert_eq!(scratch_bytes(bytes), Some(bytes));
    }
}

#[test]
fn no_size_overflows() {
    assert_eq!(scratch_bytes(usize::MAX), None);
    assert_eq!(scratch_bytes(0), Some(0));
}
