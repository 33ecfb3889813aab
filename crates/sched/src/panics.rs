//! Running foreign code so that its panic becomes a text.
//!
//! The one place where a panic becomes a text, for the crates above too.
//!
//! Invariant: [`caught`] never unwinds, whatever the closure or its panic payload do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`; a panic comes back as its text. What `f` has half done is its statement's, which fails as a whole: hence
/// unwind safety is asserted.
pub fn caught<R>(f: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        let text = panic_text(payload.as_ref());
        // A payload may panic when dropped; that second one is leaked rather than dropped.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        text
    })
}

/// What a panic said, where it said something: for payloads that were caught elsewhere, by a future or a thread.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("from the payload");
        }
    }

    #[test]
    fn every_panic_becomes_a_text() {
        assert_eq!(caught(|| 3), Ok(3));
        assert_eq!(caught(|| -> () { panic!("plain") }), Err("plain".into()));
        assert_eq!(caught(|| -> () { panic!("with {}", 1) }), Err("with 1".into()));
        assert_eq!(caught(|| -> () { std::panic::panic_any(Bomb) }), Err("a panic without a message".into()));
    }
}
