//! Running a plan: [`compile`](compile::compile) says which operator makes which pipe, and those of breakers
//! runs the pipelines of breakers one after the other, each on all
//! threads lent to it; the last pipeline's morsels are handed out by the [`Driver`](driver::Driver) through a window
//! that bounds what is in flight, to the consumers of an [`Execution`](execution::Execution).

pub(crate) mod affinities;
pub(crate) mod compile;
pub(crate) mod context;
mod driver;
mod estimate;
pub(crate) mod execution;
mod streamed;
mod window;
