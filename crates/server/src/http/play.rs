//! The page over a run that was recorded or simulated: a file of states, one JSON object a line, as `/api/state` gives
//! them.
//!
//! Lines stay in the file; their places and times are kept.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::answer::{Answer, kinds, refused, whole};
use super::door::{Answers, CONNECTIONS, Http};
use super::look::VERSION;
use super::page;
use super::route::{only, unknown};
use crate::door::{self, Places};
use crate::fault::codes;
use crate::local::{is_of_this_machine, told_to_end};
use crate::shared::Stop;
use crate::tls::Tls;

/// How long a state may be.
const LINE_BYTES: usize = 64 << 20;
/// How many there may be.
const STATES: usize = 1 << 20;

/// A recorded run that browsers of this machine look at.
pub struct Player {
    runtime: Runtime,
    address: SocketAddr,
    states: usize,
    stop: watch::Sender<Stop>,
}

/// What is read of a state.
#[derive(Deserialize)]
struct State {
    version: u64,
    seconds: f64,
    title: Option<String>,
    nodes: Vec<serde::de::IgnoredAny>,
}

struct Run {
    file: File,
    /// Where each state begins and how long it is.
    places: Vec<(u64, usize)>,
    /// When each was.
    seconds: Vec<f64>,
    title: Option<String>,
}

impl Player {
    /// Opens a file and listens.
    ///
    /// # Errors
    /// The file is none of states, in the order of their times; an address that other machines reach, or that is taken.
    pub fn start(path: &Path, listen: SocketAddr) -> io::Result<Player> {
        is_of_this_machine(&listen)?;
        let run = Run::open(path)?;
        let states = run.places.len();
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("player").enable_all().build()?;
        let (stop, stopped) = watch::channel(Stop::Never);
        let _in_runtime = runtime.enter();
        let address = door::listen(listen, Arc::new(Http(Arc::new(run))), Places::new(CONNECTIONS), stopped)?;
        drop(_in_runtime);
        Ok(Player { runtime, address, states, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many states the run has.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Plays until the process is told to end, by SIGTERM or SIGINT.
    ///
    /// # Errors
    /// Signals cannot be listened for.
    pub fn wait_for_signal(self) -> io::Result<()> {
        self.runtime.block_on(told_to_end())?;
        self.stop();
        Ok(())
    }

    /// Ends it.
    pub fn stop(self) {
        self.stop.send_replace(Stop::Now);
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

impl Run {
    fn open(path: &Path) -> io::Result<Run> {
        let wrong = |line: usize, why: String| {
            io::Error::new(ErrorKind::InvalidData, format!("{}, line {line}: {why}", path.display()))
        };
        let file = File::open(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        let mut reader = BufReader::new(file.try_clone()?);
        let mut run = Run { file, places: Vec::new(), seconds: Vec::new(), title: None };
        let (mut at, mut line, mut number) = (0_u64, Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            let read = io::Read::take(&mut reader, LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            if read > LINE_BYTES || run.places.len() == STATES {
                return Err(wrong(
                    number,
                    format!("states have {LINE_BYTES} bytes at most, and a run {STATES} states"),
                ));
            }
            if !line.trim_ascii().is_empty() {
                let state: State = serde_json::from_slice(&line)
                    .map_err(|error| wrong(number, format!("this is no state of /api/state: {error}")))?;
                if state.version != VERSION {
                    return Err(wrong(number, format!("states of version {} are not known", state.version)));
                }
                if run.seconds.last().is_some_and(|last| *last > state.seconds) || !state.seconds.is_finite() {
                    return Err(wrong(number, "the state is older than the one before it".into()));
                }
                if state.nodes.is_empty() {
                    return Err(wrong(number, "the machine has no nodes".into()));
                }
                run.title = run.title.or(state.title);
                run.places.push((at, read));
                run.seconds.push(state.seconds);
            }
            at += read as u64;
        }
        match run.places.is_empty() {
            true => Err(wrong(1, "there is no state in the file".into())),
            false => Ok(run),
        }
    }

    /// A state of the run.
    fn state(&self, query: Option<&str>) -> Answer {
        let place = query.and_then(|query| query.strip_prefix("at=")).and_then(|at| at.parse::<usize>().ok());
        let Some((at, length)) = place.and_then(|place| self.places.get(place)) else {
            let message = format!("ask for /api/state?at=0 to {}", self.places.len() - 1);
            return refused(StatusCode::NOT_FOUND, codes::INVALID_PARAMETER_VALUE, message);
        };
        let mut state = vec![0; *length];
        match self.file.read_exact_at(&mut state, *at) {
            Ok(()) => whole(StatusCode::OK, kinds::JSON, state),
            Err(error) => {
                let message = format!("the file cannot be read any more: {error}");
                refused(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL_ERROR, message)
            }
        }
    }
}

impl Answers for Run {
    fn tls(&self) -> Option<Arc<Tls>> {
        None
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "/health") => whole(StatusCode::OK, kinds::TEXT, "ok\n"),
            (&Method::GET, "/api/run") => {
                let run = json!({ "live": false, "title": self.title, "seconds": self.seconds });
                whole(StatusCode::OK, kinds::JSON, run.to_string())
            }
            (&Method::GET, "/api/state") => self.state(request.uri().query()),
            (&Method::GET | &Method::HEAD, path) => page::file(path).unwrap_or_else(|| unknown(path)),
            _ => only("GET"),
        }
    }
}
