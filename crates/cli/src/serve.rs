//! `nearside serve`: PostgreSQL's clients talk to a database until the process is told to end.
//!
//! SIGTERM and SIGINT end it: nobody comes in any more, statements that run have some time, then a checkpoint is made
//! of a database in a folder. SIGHUP has the settings file and the certificate read again.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use nearside::Database;
use server::{Limits, Options, Server, Signal, TraceOptions};

use crate::log;
use crate::settings_file::{SettingsFile, parse_address};
use tools::failure::Failure;
use tools::size::Size;

/// Arguments of `nearside serve`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside serve                                    a database in memory, on 127.0.0.1:5432
  nearside serve --database shop --socket /run/shop tables last in the folder 'shop'; a Unix socket too
  nearside serve --http 127.0.0.1:8080              the machine as a page, queries and metrics over HTTP too
  psql -h 127.0.0.1 -d nearside                     a client

Without a password (ALTER ROLE nearside PASSWORD '..') only addresses of this machine are listened on. docs/server.md
has what there is and what there is not, and every setting of the file.")]
pub struct Arguments {
    /// Keep everything in this folder, which is made where it is not there, and have what it holds
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// Read settings from this file, in TOML; what the command line says wins
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Listen on this address, as HOST:PORT; several may be given [default: 127.0.0.1:5432]
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: Vec<SocketAddr>,
    /// Listen on a Unix socket in this folder too
    #[arg(long, value_name = "DIR")]
    socket: Option<PathBuf>,
    /// Speak HTTP on this address too, as HOST:PORT: a page that shows the machine, /query, /metrics
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    http: Vec<SocketAddr>,
    /// Speak Arrow Flight SQL on this address too, as HOST:PORT, for clients of ADBC and JDBC
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    flight: Vec<SocketAddr>,
    /// The server's certificate, with those that it is signed by, as PEM: connections may be encrypted
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Clients that may be connected at once [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Seconds that rows wait for a client of HTTP or Flight that takes none before their statement is cancelled; 0: as
    /// long as the client is there [default: 600]
    #[arg(long, value_name = "SECONDS")]
    reader_timeout: Option<u64>,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Memory for tables and statements, like 512MB, 4GiB or 80% [default: 80%]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// How warnings and the like are written on standard error: text, or json, an object a line [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<log::Format>,
    /// Say who comes in, who goes, and who is sent away
    #[arg(long)]
    log_connections: bool,
    /// Send traces of statements to the collector of OpenTelemetry at this address, as http://HOST:PORT
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Which part of the statements is traced that no request says it of, from 0 to 1 [default: 1]
    #[arg(long, value_name = "PART")]
    trace_ratio: Option<f64>,
    /// Have traces tell the texts of statements, and of errors, which show values
    #[arg(long)]
    trace_texts: bool,
    /// Seconds that statements and transactions have to end once the server is told to [default: 30]
    #[arg(long, value_name = "SECONDS")]
    drain: Option<u64>,
}

impl Arguments {
    /// The files of the certificate and of its key.
    fn tls(&self, file: &SettingsFile) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
        let certificate = self.tls_cert.as_ref().or(file.tls_cert.as_ref());
        match (certificate, self.tls_key.as_ref().or(file.tls_key.as_ref())) {
            (Some(certificate), Some(key)) => Ok(Some((certificate.clone(), key.clone()))),
            (None, None) => Ok(None),
            _ => Err(Failure::new("a certificate (--tls-cert) and its key (--tls-key) go together; give both")),
        }
    }

    /// Where traces are sent, if somewhere.
    fn traces(&self, file: &SettingsFile) -> Option<TraceOptions> {
        let endpoint = self.traces.clone().or_else(|| file.traces.clone())?;
        let ratio = self.trace_ratio.or(file.trace_ratio).unwrap_or(1.0);
        let (headers, texts) = (file.trace_headers.clone(), self.trace_texts || file.trace_texts);
        Some(TraceOptions { endpoint, ratio, headers, texts })
    }
}

/// Serves until a signal comes.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let settings = arguments.settings.as_deref();
    let file = SettingsFile::read(settings)?;
    let of_file = |why: String| Failure::new(why);
    let format = arguments.log_format.or(file.log_format().map_err(of_file)?).unwrap_or(log::Format::Text);
    log::begin(format, arguments.log_connections || file.log_connections);
    let mut builder = Database::builder();
    if let Some(threads) = arguments.threads.or(file.threads) {
        builder = builder.threads(usize::from(threads));
    }
    if let Some(size) = arguments.memory.or(file.memory().map_err(of_file)?) {
        let topology = numa::Topology::discover().map_err(|e| Failure::new(e.to_string()))?;
        builder = builder.memory_bytes(size.resolve(topology.memory_bytes())).topology(topology);
    }
    let folder = arguments.database.as_ref().or(file.database.as_ref());
    if let Some(folder) = folder {
        builder = builder.folder(folder);
    }
    let database = builder.build()?;
    let connections = arguments.connections.or(file.connections).map(|n| n as usize);
    let limits = Limits::default();
    let stall = arguments.reader_timeout.or(file.reader_timeout);
    let stall = stall.map_or(limits.stall, |seconds| (seconds > 0).then(|| Duration::from_secs(seconds)));
    let limits = Limits { connections: connections.unwrap_or(limits.connections), stall, ..limits };
    let mut listen = arguments.listen.clone();
    if listen.is_empty() {
        listen = file.listen().map_err(of_file)?;
    }
    if listen.is_empty() {
        listen.push(SocketAddr::from(([127, 0, 0, 1], 5432)));
    }
    let socket = arguments.socket.clone().or_else(|| file.socket.clone());
    let (access, tls) = (file.access().map_err(of_file)?, arguments.tls(&file)?);
    let or_of_file = |said: &[SocketAddr], of_file: Vec<SocketAddr>| match said {
        [] => of_file,
        said => said.to_vec(),
    };
    let http = or_of_file(&arguments.http, file.http().map_err(of_file)?);
    let flight = or_of_file(&arguments.flight, file.flight().map_err(of_file)?);
    let traces = arguments.traces(&file);
    let options = Options { listen, socket, http, flight, limits, access, tls, traces };
    let server = Server::start(database.clone(), options).map_err(|e| Failure::new(e.to_string()))?;
    // Who reads that it listens may tell it something.
    let mut signals = server.signals().map_err(|e| Failure::new(format!("cannot listen for signals: {e}")))?;
    say_where(&server)?;
    while server.next_signal(&mut signals) == Signal::Reload {
        let read = || {
            let file = SettingsFile::read(settings)?;
            let (access, tls) = (file.access().map_err(of_file)?, arguments.tls(&file)?);
            server.reload(access, tls).map_err(|why| Failure::new(why.to_string()))
        };
        match read() {
            Ok(()) => say("settings were read again")?,
            Err(why) => eprintln!("settings stay as they were: {why}"),
        }
    }
    server.stop(Duration::from_secs(arguments.drain.or(file.drain).unwrap_or(30)));
    if folder.is_some() {
        database.session().execute("CHECKPOINT")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a server listens, a line each.
fn say_where(server: &Server) -> Result<(), Failure> {
    let addresses = server.addresses().iter().map(SocketAddr::to_string);
    let socket = server.socket().map(|path| path.display().to_string());
    let http = server.http().iter().map(|address| format!("http://{address}/"));
    let flight = server.flight().iter().map(|address| format!("grpc://{address}"));
    addresses.chain(socket).chain(http).chain(flight).try_for_each(|place| say(&format!("listening on {place}")))
}

/// A line on standard output, at once.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}
