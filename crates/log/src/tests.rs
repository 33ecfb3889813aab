//! Whole folders that crash, fail and are damaged, against a list of numbers.

mod crashes;
mod failures;
mod folders;
mod world;
