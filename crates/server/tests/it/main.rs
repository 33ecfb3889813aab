//! The server, as clients see it.

mod cancelling;
mod clients;
mod copying;
mod driver;
mod ending;
mod extended;
mod hostile;
mod http;
mod psql;
mod simple;
mod starting;
mod values;
mod wire;
