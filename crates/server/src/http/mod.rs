//! HTTP/1.1: queries, what a monitor asks for, and a page that shows the machine.
//!
//! `door` has connections and their limits, `guard` and `entry` who is let in, `route` what is where, `query` and
//! `rows` queries and the forms of their rows, `look` the system views as one look, `metrics` Prometheus' text, `page`
//! what the browser gets, `play` the same page over a run that was recorded. `docs/design/server.md` has the whole.

mod answer;
mod body;
pub(crate) mod door;
mod entry;
mod guard;
mod look;
mod metrics;
mod page;
mod play;
mod query;
pub(crate) mod route;
mod rows;
mod spans;
mod value;

pub use play::Player;
