//! Room on the stack for steps that go as deep as statements nest.

/// Below this many bytes of stack planning goes on with another: nested subqueries and long conditions take kilobytes
/// per level, in functions that do not all look at what is left. Without optimisation a level takes several times as
/// much.
const STACK_LEFT_BYTES: usize = if cfg!(debug_assertions) { 16 << 20 } else { 6 << 20 };

/// What a step needs at most for a statement of no token, and for each of its tokens, which nest no deeper than that.
const STACK_LEAST_BYTES: usize = if cfg!(debug_assertions) { 512 << 10 } else { 256 << 10 };
const STACK_BYTES_PER_TOKEN: usize = if cfg!(debug_assertions) { 128 << 10 } else { 32 << 10 };

/// The other stack; what is never touched is never there.
const STACK_BYTES: usize = 64 << 20;

/// Runs a step of planning where it has stack enough, whatever thread the client called from.
pub(crate) fn deep<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, step)
}

/// As [`deep`], of a step that goes through a statement of so many tokens: another stack takes longer to come by than a
/// short statement to go through.
pub(crate) fn deep_by<T>(tokens: usize, step: impl FnOnce() -> T) -> T {
    let needed = STACK_BYTES_PER_TOKEN.saturating_mul(tokens).saturating_add(STACK_LEAST_BYTES);
    stacker::maybe_grow(needed.min(STACK_LEFT_BYTES), STACK_BYTES, step)
}
