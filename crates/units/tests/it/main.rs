//! What the crate's users see, and what has to be measured from outside of it.

mod allocations;
mod counting;
