//! The server, as clients see it.

mod cancelling;
mod clients;
mod copying;
mod driver;
mod ending;
mod extended;
mod flight;
mod hostile;
mod http;
mod login;
mod psql;
mod simple;
mod starting;
mod tls;
mod traces;
mod values;
mod wire;
