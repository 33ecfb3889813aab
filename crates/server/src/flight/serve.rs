//! Connections: gRPC by HTTP/2, how much of it at once, and how it ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::watch;
use tonic::codegen::Service as _;

use super::service::Service;
use super::sessions::{Line, Sessions};
use crate::door::{Link, Serves};
use crate::entry::Whence;
use crate::shared::{Shared, Stop, until};
use crate::tls::Tls;
use crate::traces::within;

/// Calls at once of a connection.
const CALLS: u32 = 128;
/// How long a call's heads may be.
const HEAD_BYTES: u32 = 32 << 10;
/// After which time without a word the other end is asked whether it is there, and how long it has to say so.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(20);
/// What may be on its way to a client that has not said that it took it: a batch or two.
const WINDOW_BYTES: u32 = 4 << 20;

/// The door of Arrow Flight SQL.
pub struct Flight {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    stop: watch::Receiver<Stop>,
}

impl Flight {
    /// Of what all connections share; within a runtime.
    pub fn new(shared: Arc<Shared>, stop: watch::Receiver<Stop>) -> Flight {
        let sessions = Arc::new(Sessions::new(shared.limits.connections));
        tokio::spawn(Sessions::forget(Arc::downgrade(&sessions)));
        Flight { shared, sessions, stop }
    }
}

impl Serves for Flight {
    const NAME: &'static str = "Flight";
    const PROTOCOL: &'static [u8] = b"h2";

    fn tls(&self) -> Option<Arc<Tls>> {
        self.shared.tls.read().clone()
    }

    async fn serve(self: Arc<Self>, link: Box<dyn Link>, whence: Whence, mut stop: watch::Receiver<Stop>) {
        let line = Arc::new(Line::new(whence));
        let service = Service::new(Arc::clone(&self.shared), Arc::clone(&self.sessions), line, self.stop.clone());
        let service = FlightServiceServer::new(service)
            .max_decoding_message_size(self.shared.limits.message_bytes)
            .max_encoding_message_size(usize::MAX);
        let has_called = Arc::new(AtomicBool::new(false));
        let called = Arc::clone(&has_called);
        let traced = self.shared.traces.is_some();
        let answers = service_fn(move |request: Request<Incoming>| {
            called.store(true, Ordering::Release);
            let mut service = service.clone();
            async move {
                if !traced {
                    return service.call(request).await.map_err(|never: Infallible| never);
                }
                let heads = request.headers().clone();
                within(&heads, service.call(request)).await.map_err(|never: Infallible| never)
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(CALLS)
            .max_header_list_size(HEAD_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES)
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_WITHIN)
            .serve_connection(TokioIo::new(link), answers);
        tokio::pin!(connection);
        let mut later = stop.clone();
        // Who calls nothing has no place for long.
        let idle = async {
            tokio::time::sleep(self.shared.limits.startup).await;
            if has_called.load(Ordering::Acquire) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = connection.as_mut() => return,
            () = idle => return,
            () = until(&mut stop, Stop::WhenIdle) => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection.as_mut() => {}
            // What runs for it is cancelled with it.
            () = until(&mut later, Stop::Now) => {}
        }
    }
}
