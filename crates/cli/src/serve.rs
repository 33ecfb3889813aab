//! `nearside serve`: PostgreSQL's clients talk to a database until the process is told to end.
//!
//! SIGTERM and SIGINT end it: nobody comes in any more, statements that run have some time, then a checkpoint is made
//! of a database in a folder.

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use nearside::Database;
use server::{Limits, Options, Server};

use tools::failure::Failure;
use tools::size::Size;

/// Arguments of `nearside serve`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside serve                                    a database in memory, on 127.0.0.1:5432
  nearside serve --database shop --socket /run/shop tables last in the folder 'shop'; a Unix socket too
  nearside serve --http 127.0.0.1:8080              the machine as a page, queries and metrics over HTTP too
  psql -h 127.0.0.1 -d nearside                     a client

Clients need no password, so only addresses of this machine are listened on. docs/server.md has what there is and what
there is not.")]
pub struct Arguments {
    /// Keep everything in this folder, which is made where it is not there, and have what it holds
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// Listen on this address, as HOST:PORT; several may be given
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5432", value_parser = parse_address)]
    listen: Vec<SocketAddr>,
    /// Listen on a Unix socket in this folder too
    #[arg(long, value_name = "DIR")]
    socket: Option<PathBuf>,
    /// Speak HTTP on this address too, as HOST:PORT: a page that shows the machine, /query, /metrics
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    http: Vec<SocketAddr>,
    /// Clients that may be connected at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Memory for tables and statements, like 512MB, 4GiB or 80% [default: 80%]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Seconds that statements and transactions have to end once the server is told to
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,
}

pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: String| format!("{why}; write it as HOST:PORT, for example 127.0.0.1:5432");
    let mut found = text.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    let address = found.next().ok_or_else(|| wrong("no address has that name".into()))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("other machines can reach it, and clients need no password yet; listen on an address of this \
                      machine alone, like 127.0.0.1:5432"
            .into()),
    }
}

/// Serves until a signal comes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut builder = Database::builder();
    if let Some(threads) = arguments.threads {
        builder = builder.threads(usize::from(threads));
    }
    if let Some(size) = arguments.memory {
        let topology = numa::Topology::discover().map_err(|e| Failure::new(e.to_string()))?;
        builder = builder.memory_bytes(size.resolve(topology.memory_bytes())).topology(topology);
    }
    if let Some(folder) = &arguments.database {
        builder = builder.folder(folder);
    }
    let database = builder.build()?;
    let limits = Limits { connections: arguments.connections as usize, ..Limits::default() };
    let (listen, http, socket) = (arguments.listen.clone(), arguments.http.clone(), arguments.socket.clone());
    let options = Options { listen, socket, http, limits };
    let server = Server::start(database.clone(), options).map_err(|e| Failure::new(e.to_string()))?;
    for address in server.addresses() {
        say(&format!("listening on {address}"))?;
    }
    if let Some(path) = server.socket() {
        say(&format!("listening on {}", path.display()))?;
    }
    for address in server.http() {
        say(&format!("listening on http://{address}/"))?;
    }
    server.wait_for_signal().map_err(|e| Failure::new(format!("cannot listen for signals: {e}")))?;
    server.stop(Duration::from_secs(arguments.drain));
    if arguments.database.is_some() {
        database.session().execute("CHECKPOINT")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line on standard output, at once.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
