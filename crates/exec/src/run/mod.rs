//! Running a plan: [`Flow`](flow::Flow) walks it and runs the pipelines of breakers one after the other, each on all
//! threads lent to it; the last pipeline's morsels are handed out by the [`Driver`](driver::Driver) through a window
//! that bounds what is in flight, to the consumers of an [`Execution`](execution::Execution).

pub(crate) mod affinities;
mod driver;
mod estimate;
pub(crate) mod execution;
pub(crate) mod flow;
mod streamed;
mod window;
