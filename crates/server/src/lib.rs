//! PostgreSQL's wire, HTTP and Arrow Flight SQL: clients talk to a [`nearside::Database`].
//!
//! [`Server`] listens and serves. Below it: `wire` has the messages, `values` what values look like on the wire,
//! `statement` and `copy` what of a statement's text the wire has to know, `connection` what a connection does, `http`
//! and `flight` the other doors. The engine is reached through [`nearside::Session`] alone. `docs/design/server.md` has
//! the whole.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let database = nearside::Database::builder().threads(1).memory_bytes(1 << 28).build().expect("a database");
//! let options = nearside_server::Options { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Default::default() };
//! let server = nearside_server::Server::start(database, options)?;
//! println!("listening on {}", server.addresses()[0]);
//! server.stop(std::time::Duration::from_secs(1));
//! # Ok(())
//! # }
//! ```

mod access;
mod attempts;
mod blocking;
mod cancel;
mod connection;
mod copy;
mod door;
mod entry;
mod fault;
mod flight;
mod http;
mod local;
mod outgoing;
mod scram;
mod server;
mod shared;
mod statement;
mod tls;
mod tokens;
mod traces;
mod values;
mod wire;

pub use access::{Access, Method, Origin, Rule};
pub use http::Player;
pub use server::{Options, Server, Signal, Signals};
pub use shared::Limits;
pub use traces::TraceOptions;
