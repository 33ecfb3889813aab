//! Regions as arrow buffers, without a copy, and views over bytes that are known to be right.

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use numa::Region;

/// The bytes of `range` of `region` as a buffer that keeps the region alive. Its capacity is the range's length, so
/// that who accounts for the buffer counts what is used and no more.
pub(crate) fn region_buffer(region: &Arc<Region>, range: Range<usize>) -> Buffer {
    let bytes = &region.bytes()[range];
    let Some(start) = NonNull::new(bytes.as_ptr().cast_mut()) else { return Buffer::default() };
    // SAFETY: `start` is valid for `bytes.len()` bytes as long as the region lives, which the owner ensures; a shared
    // region is never written.
    unsafe { Buffer::from_custom_allocation(start, bytes.len(), Arc::new(AssertUnwindSafe(Arc::clone(region)))) }
}

/// A `Utf8View` (`utf8`) or `BinaryView` array.
///
/// Debug builds check what the caller promises.
///
/// # Safety
/// The views are well formed for `buffers`, and there are as many as `nulls` has bits. With `utf8` every value is
/// UTF-8.
pub(crate) unsafe fn view_array(
    utf8: bool,
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    debug_assert!(nulls.as_ref().is_none_or(|n| n.len() == views.len()));
    if utf8 {
        #[cfg(debug_assertions)]
        StringViewArray::try_new(views.clone(), Arc::clone(&buffers), nulls.clone()).expect("views of stored strings");
        // SAFETY: the caller's promise.
        Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
    } else {
        #[cfg(debug_assertions)]
        BinaryViewArray::try_new(views.clone(), Arc::clone(&buffers), nulls.clone()).expect("views of stored bytes");
        // SAFETY: the caller's promise.
        Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
    }
}
