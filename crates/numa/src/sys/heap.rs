//! How the C library's heap keeps what is freed.

/// Freed memory up to this stays with the process.
const KEPT_BYTES: libc::c_int = 512 << 20;
/// Allocations up to this come from the heap and stay there when freed; the C library takes no larger value.
const HEAP_BYTES_MAX: libc::c_int = 32 << 20;

/// Makes the heap keep freed memory, up to 512 MiB, instead of giving it back to the kernel at once. False where the C
/// library has no such setting.
pub(crate) fn keep_freed() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallopt only sets parameters of the allocator and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, HEAP_BYTES_MAX) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES) == 1
        }
    }
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = (KEPT_BYTES, HEAP_BYTES_MAX);
        false
    }
}
