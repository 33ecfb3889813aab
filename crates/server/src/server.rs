//! [`Server`]: sockets, the runtime that serves them, and how both end.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nearside::Database;
use parking_lot::{Mutex, RwLock};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::access::{Access, Peer};
use crate::attempts::Attempts;
use crate::connection::{Sink, serve};
use crate::door::{Places, listen};
use crate::flight::Flight;
use crate::http::door::{CONNECTIONS, Http};
use crate::http::route::Live;
use crate::local::is_of_this_machine;
use crate::shared::{Limits, Shared, Stop, until};
use crate::tls::Tls;
use crate::traces::{TraceOptions, Traces};
use crate::wire::input::Source;

/// Where to listen, and for whom.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Addresses of this machine. Where other machines reach one, a role has to have a password.
    pub listen: Vec<SocketAddr>,
    /// The folder of a Unix socket, which has the name that PostgreSQL's clients look for: `.s.PGSQL.` and the port of
    /// the first address, or 5432. Only the user of this process may connect there.
    pub socket: Option<PathBuf>,
    /// Who may come in.
    pub access: Access,
    /// The files of a certificate and of its key, where connections may be encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Addresses of this machine on which HTTP is spoken. Where other machines reach one, there has to be a certificate
    /// too.
    pub http: Vec<SocketAddr>,
    /// Addresses of this machine on which Arrow Flight SQL is spoken, as those of HTTP.
    pub flight: Vec<SocketAddr>,
    /// What clients may have.
    pub limits: Limits,
    /// Where spans of statements are sent, if somewhere.
    pub traces: Option<TraceOptions>,
}

/// What a process is told by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// To end.
    End,
    /// To read its settings again.
    Reload,
}

/// Who is told that all places are taken, or comes to cancel, while they are.
const BEYOND: usize = 32;
/// How long the server waits where it cannot take a connection: there are too many files, say.
const PAUSE: Duration = Duration::from_millis(100);
/// After which time without a word the other end of a connection is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A server that listens and serves on threads of its own until it is stopped.
pub struct Server {
    runtime: Runtime,
    stop: watch::Sender<Stop>,
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    flight: Vec<SocketAddr>,
    places: [Places; 2],
    socket: Option<PathBuf>,
}

/// What a process is told by signals; none that comes between two calls of [`Server::next_signal`] is lost.
#[derive(Debug)]
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// An address that other machines reach while no role has a password, or that is taken; a folder that there is not;
    /// no address and no folder; a certificate that is none; a collector of traces that has no address.
    pub fn start(database: Database, options: Options) -> io::Result<Server> {
        let wrong = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        may_listen(&options.listen, &database, &options.access, options.tls.is_some())?;
        let tls = options.tls.as_ref().map(|(certificate, key)| Tls::load(certificate, key)).transpose()?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|e| io::Error::other(format!("the system gives no random bytes: {e}")))?;
        if options.listen.is_empty() && options.socket.is_none() {
            return wrong("there is neither an address nor a socket to listen on".into());
        }
        for address in options.http.iter().chain(&options.flight) {
            may_open_door(address, &database, &options.access, options.tls.is_some())?;
        }
        let limits = options.limits;
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(1, usize::from).min(4))
            // One for each connection at most, by either protocol: those of transactions do not wait for others.
            .max_blocking_threads(2 * limits.connections + limits.blocking + 16)
            .thread_name("connections")
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(Stop::Never);
        let turns = Arc::new(Semaphore::new(limits.blocking.max(1)));
        let cancels = Arc::default();
        let delay = limits.login_delay;
        let traces = options.traces.as_ref();
        let traces = traces.map(|traces| Traces::new(traces, runtime.handle())).transpose()?;
        let shared = Arc::new(Shared {
            database,
            limits,
            cancels,
            turns,
            connected: AtomicUsize::new(0),
            access: RwLock::new(Arc::new(options.access)),
            tls: RwLock::new(tls.map(Arc::new)),
            attempts: Attempts::new(delay),
            secret,
            logins: Mutex::default(),
            traces,
        });
        let _in_runtime = runtime.enter();
        let mut addresses = Vec::new();
        for address in &options.listen {
            let listener = std::net::TcpListener::bind(address)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            let listener = TcpListener::from_std(listener)?;
            runtime.spawn(accept_tcp(listener, Arc::clone(&shared), stopped.clone()));
        }
        let mut socket = None;
        if let Some(folder) = &options.socket {
            let port = addresses.first().map_or(5432, SocketAddr::port);
            let path = folder.join(format!(".s.PGSQL.{port}"));
            let listener = bind_socket(&path)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {}: {e}", path.display())))?;
            runtime.spawn(accept_unix(listener, Arc::clone(&shared), stopped.clone()));
            socket = Some(path);
        }
        let places = [Places::new(CONNECTIONS), Places::new(shared.limits.connections)];
        let http = Arc::new(Http(Arc::new(Live::new(Arc::clone(&shared), stopped.clone()))));
        let flight = Arc::new(Flight::new(Arc::clone(&shared), stopped.clone()));
        let of_http = |address: &SocketAddr| listen(*address, Arc::clone(&http), places[0].clone(), stopped.clone());
        let of_flight =
            |address: &SocketAddr| listen(*address, Arc::clone(&flight), places[1].clone(), stopped.clone());
        let http = options.http.iter().map(of_http).collect::<io::Result<_>>()?;
        let flight = options.flight.iter().map(of_flight).collect::<io::Result<_>>()?;
        drop(_in_runtime);
        Ok(Server { runtime, stop, shared, addresses, http, flight, places, socket })
    }

    /// The addresses that it listens on, with the ports that the system has chosen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses on which it speaks HTTP.
    pub fn http(&self) -> &[SocketAddr] {
        &self.http
    }

    /// The addresses on which it speaks Arrow Flight SQL.
    pub fn flight(&self) -> &[SocketAddr] {
        &self.flight
    }

    /// The Unix socket that it listens on.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// How many clients are connected.
    pub fn connected(&self) -> usize {
        self.shared.connected.load(Ordering::Acquire)
    }

    /// Lets in by other rules from now on, and encrypts by what these files hold now. Who is in stays.
    ///
    /// # Errors
    /// A certificate that is none: then nothing has changed. Addresses that other machines reach need what
    /// [`start`](Self::start) says.
    pub fn reload(&self, access: Access, tls: Option<(PathBuf, PathBuf)>) -> io::Result<()> {
        may_listen(&self.addresses, &self.shared.database, &access, tls.is_some())?;
        for address in self.http.iter().chain(&self.flight) {
            may_open_door(address, &self.shared.database, &access, tls.is_some())?;
        }
        let tls = tls.map(|(certificate, key)| Tls::load(&certificate, &key)).transpose()?;
        *self.shared.access.write() = Arc::new(access);
        *self.shared.tls.write() = tls.map(Arc::new);
        Ok(())
    }

    /// Hears SIGTERM, SIGINT and SIGHUP from now on.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub fn signals(&self) -> io::Result<Signals> {
        self.runtime.block_on(async {
            let heard = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
            let [terminate, interrupt, hangup] = heard;
            Ok(Signals { terminate: terminate?, interrupt: interrupt?, hangup: hangup? })
        })
    }

    /// Waits until the process is told to end, by SIGTERM or SIGINT, or to read its settings again, by SIGHUP.
    pub fn next_signal(&self, heard: &mut Signals) -> Signal {
        self.runtime.block_on(async {
            tokio::select! {
                _ = heard.terminate.recv() => Signal::End,
                _ = heard.interrupt.recv() => Signal::End,
                _ = heard.hangup.recv() => Signal::Reload,
            }
        })
    }

    /// Takes no clients any more, and waits until those that there are have ended: idle ones end at once, statements
    /// and transactions have the time `within`, and are then cancelled.
    pub fn stop(self, within: Duration) {
        /// How long who was cancelled may take.
        const AFTER: Duration = Duration::from_secs(10);
        let Server { runtime, stop, shared, socket, places, .. } = self;
        if let Some(path) = socket {
            let _ = std::fs::remove_file(path);
        }
        let none_left = |time: Duration| {
            let (shared, places) = (Arc::clone(&shared), places.clone());
            runtime.block_on(async move {
                let look = async {
                    while shared.connected.load(Ordering::Acquire) > 0 || !places.iter().all(Places::are_free) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                };
                tokio::time::timeout(time, look).await.is_ok()
            })
        };
        stop.send_replace(Stop::WhenIdle);
        if !none_left(within) {
            stop.send_replace(Stop::Now);
            if !none_left(AFTER) {
                tracing::warn!("connections did not end in time");
            }
        }
        if let Some(traces) = &shared.traces {
            traces.end();
        }
        runtime.shutdown_timeout(AFTER);
    }
}

/// Fails where other machines reach an address and would come in without a password, or not at all.
fn may_listen(addresses: &[SocketAddr], database: &Database, access: &Access, has_tls: bool) -> io::Result<()> {
    let wrong = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback()) else { return Ok(()) };
    if !database.has_passwords() {
        return wrong(format!(
            "{address} can be reached by other machines, and no role has a password: give one first (nearside sql \
             --database DIR -c \"ALTER ROLE nearside PASSWORD '..'\"), or listen on an address of this machine alone, \
             like 127.0.0.1:5432"
        ));
    }
    match !has_tls && access.0.is_none() {
        true => wrong(format!(
            "{address} can be reached by other machines, whom nobody lets in without encryption: give a certificate \
             and its key, or a rule of access with tls = false"
        )),
        false => Ok(()),
    }
}

/// Fails where other machines reach an address of HTTP or Flight, whose passwords come as they are, and what they say
/// would not be encrypted.
fn may_open_door(address: &SocketAddr, database: &Database, access: &Access, has_tls: bool) -> io::Result<()> {
    may_listen(std::slice::from_ref(address), database, access, has_tls)?;
    match has_tls {
        true => Ok(()),
        false => is_of_this_machine(address),
    }
}

/// A socket of a path, on which nobody listens. One that a server has left behind is taken away.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    if path.exists() {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there")),
            Err(_) => std::fs::remove_file(path)?,
        }
    }
    let listener = UnixListener::bind(path)?;
    // The user of this process alone, who needs no password.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A client's place, which is free again when it goes.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A place for a client, and whether it is one of those beyond the limit; `None` where there is none at all.
fn place(shared: &Arc<Shared>) -> Option<(Place, bool)> {
    let place = Place(Arc::clone(shared));
    let before = shared.connected.fetch_add(1, Ordering::AcqRel);
    let most = shared.limits.connections;
    (before < most + BEYOND).then_some((place, before >= most))
}

async fn accept_tcp(listener: TcpListener, shared: Arc<Shared>, stop: watch::Receiver<Stop>) {
    let mut stopped = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    prepare(&stream);
                    let (source, sink) = stream.into_split();
                    admit((Box::new(source), Box::new(sink)), Peer::of(address.ip()), &shared, &stop);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            () = until(&mut stopped, Stop::WhenIdle) => return,
        }
    }
}

async fn accept_unix(listener: UnixListener, shared: Arc<Shared>, stop: watch::Receiver<Stop>) {
    let mut stopped = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (source, sink) = stream.into_split();
                    admit((Box::new(source), Box::new(sink)), Peer::Socket, &shared, &stop);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            () = until(&mut stopped, Stop::WhenIdle) => return,
        }
    }
}

/// Serves a client in a task of its own, if there is a place.
fn admit(ends: (Source, Sink), peer: Peer, shared: &Arc<Shared>, stop: &watch::Receiver<Stop>) {
    let Some((place, is_full)) = place(shared) else { return };
    let serving = serve(ends, peer, Arc::clone(shared), stop.clone(), is_full);
    tokio::spawn(async move {
        serving.await;
        drop(place);
    });
}

/// Answers leave at once, and an end that is gone without a word is found out.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
