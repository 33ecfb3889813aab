//! A door: addresses on which clients speak something else than PostgreSQL's protocol, in places that are counted,
//! encrypted where they begin with TLS and there is a certificate.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::access::Peer;
use crate::entry::Whence;
use crate::shared::{Stop, until};
use crate::tls::Tls;

/// How long the server waits where it cannot take a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Within which time the first byte has to come, and the handshake of TLS to be done.
const FIRST_WITHIN: Duration = Duration::from_secs(20);
/// What TLS begins with.
const HANDSHAKE: u8 = 0x16;

/// What a client is connected by.
pub trait Link: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

/// What serves the clients of a door.
pub trait Serves: Send + Sync + 'static {
    /// The door's name, in words.
    const NAME: &'static str;
    /// What clients of TLS call what they speak (ALPN).
    const PROTOCOL: &'static [u8];

    /// How connections are encrypted, if they can be.
    fn tls(&self) -> Option<Arc<Tls>>;

    /// Serves a connection until it ends; when the server stops, until what it asks at the time is done.
    fn serve(
        self: Arc<Self>,
        link: Box<dyn Link>,
        whence: Whence,
        stop: watch::Receiver<Stop>,
    ) -> impl Future<Output = ()> + Send;
}

/// The places for connections, of all addresses of a door together.
#[derive(Debug, Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    all: usize,
}

impl Places {
    /// So many, all of them free.
    pub fn new(all: usize) -> Places {
        Places { free: Arc::new(Semaphore::new(all)), all }
    }

    /// Whether nobody is connected.
    pub fn are_free(&self) -> bool {
        self.free.available_permits() == self.all
    }
}

/// Listens on an address, within a runtime; which one it is, where the system chooses the port.
///
/// # Errors
/// It is taken, or of another machine.
pub fn listen<S: Serves>(
    address: SocketAddr,
    serves: Arc<S>,
    places: Places,
    stop: watch::Receiver<Stop>,
) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(TcpListener::from_std(listener)?, serves, places, stop));
    Ok(address)
}

/// Takes connections until the server stops.
async fn accept<S: Serves>(listener: TcpListener, serves: Arc<S>, places: Places, stop: watch::Receiver<Stop>) {
    let mut stopped = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Who comes while all places are taken is sent away.
                    let Ok(place) = Arc::clone(&places.free).try_acquire_owned() else { continue };
                    let (serves, mut stop) = (Arc::clone(&serves), stop.clone());
                    tokio::spawn(async move {
                        let _ = stream.set_nodelay(true);
                        let joined = tokio::select! {
                            joined = join::<S>(stream, serves.tls()) => joined,
                            () = until(&mut stop, Stop::WhenIdle) => None,
                        };
                        if let Some((link, is_encrypted)) = joined {
                            let whence = Whence { peer: Peer::of(peer.ip()), is_encrypted, door: S::NAME };
                            serves.serve(link, whence, stop).await;
                        }
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            () = until(&mut stopped, Stop::WhenIdle) => return,
        }
    }
}

/// A connection, and whether it is encrypted; `None` where its client does not come on in time, or begins with a TLS
/// that there is not.
async fn join<S: Serves>(stream: TcpStream, tls: Option<Arc<Tls>>) -> Option<(Box<dyn Link>, bool)> {
    let mut first = [0];
    let peeked = tokio::time::timeout(FIRST_WITHIN, stream.peek(&mut first)).await.ok()?.ok()?;
    match (peeked, first[0]) {
        (0, _) => None,
        (_, HANDSHAKE) => {
            let acceptor = tls?.speaking(S::PROTOCOL);
            let encrypted = tokio::time::timeout(FIRST_WITHIN, acceptor.accept(stream)).await.ok()?.ok()?;
            Some((Box::new(encrypted), true))
        }
        _ => Some((Box::new(stream), false)),
    }
}
