//! The door: sockets, how long a request's head may take and be, and how all of it ends.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::answer::{Answer, refused};
use super::guard::let_in;
use crate::access::Peer;
use crate::fault::codes;
use crate::shared::{Stop, until};

/// Within which time a head has to be there; a connection that is asked nothing for so long goes.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long a head may be.
const HEAD_BYTES: usize = 32 << 10;
/// Connections at once, which are few: monitors and pages.
const CONNECTIONS: usize = 256;
/// How long the server waits where it cannot take a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// What answers requests.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a request that was let in, which has the [`Peer`] that sent it among its extensions.
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// The places for connections, of all addresses together.
#[derive(Debug, Clone)]
pub struct Places(Arc<Semaphore>);

impl Places {
    /// All of them are free.
    pub fn new() -> Places {
        Places(Arc::new(Semaphore::new(CONNECTIONS)))
    }

    /// Whether nobody is connected.
    pub fn are_free(&self) -> bool {
        self.0.available_permits() == CONNECTIONS
    }
}

/// Listens on an address, within a runtime; which one it is, where the system chooses the port.
///
/// # Errors
/// It is taken, or of another machine.
pub fn listen<A: Answers>(
    address: SocketAddr,
    answers: Arc<A>,
    places: Places,
    stop: watch::Receiver<Stop>,
) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(TcpListener::from_std(listener)?, answers, places, stop));
    Ok(address)
}

/// Takes connections until the server stops.
async fn accept<A: Answers>(listener: TcpListener, answers: Arc<A>, places: Places, stop: watch::Receiver<Stop>) {
    let mut stopped = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Who comes while all places are taken is sent away.
                    let Ok(place) = Arc::clone(&places.0).try_acquire_owned() else { continue };
                    let serving = serve((stream, Peer::of(peer.ip())), Arc::clone(&answers), stop.clone());
                    tokio::spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            () = until(&mut stopped, Stop::WhenIdle) => return,
        }
    }
}

/// Serves a connection until it ends; when the server stops, until the request at hand is answered.
async fn serve<A: Answers>((stream, peer): (TcpStream, Peer), answers: Arc<A>, mut stop: watch::Receiver<Stop>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let answers = Arc::clone(&answers);
        async move {
            let answer = match let_in(request.headers()) {
                Ok(()) => answers.answer(request).await,
                Err(why) => refused(StatusCode::FORBIDDEN, codes::INVALID_AUTHORIZATION, why),
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut later = stop.clone();
    tokio::select! {
        _ = connection.as_mut() => return,
        () = until(&mut stop, Stop::WhenIdle) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection.as_mut() => {}
        // What runs for it is cancelled with it.
        () = until(&mut later, Stop::Now) => {}
    }
}
