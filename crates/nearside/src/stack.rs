//! Room on the stack for steps that go as deep as statements nest.

/// Below this many bytes of stack planning goes on with another: nested subqueries and long conditions take kilobytes
/// per level, in functions that do not all look at what is left. Without optimisation a level takes several times as
/// much.
const STACK_LEFT_BYTES: usize = if cfg!(debug_assertions) { 16 << 20 } else { 6 << 20 };

/// The other stack; what is never touched is never there.
const STACK_BYTES: usize = 64 << 20;

/// Runs a step of planning where it has stack enough, whatever thread the client called from.
pub(crate) fn deep<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, step)
}
