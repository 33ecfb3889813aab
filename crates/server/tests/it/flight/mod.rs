//! Arrow Flight SQL, by Arrow's own client.

mod calls;
mod client;
mod hostile;
mod ingesting;
mod logins;
mod transactions;
