//! The door: how long a request's head may take and be, who is let in, and how a connection ends.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::answer::{Answer, refused};
use super::guard::let_in;
use crate::door::{Link, Serves};
use crate::entry::Whence;
use crate::fault::codes;
use crate::shared::{Stop, until};
use crate::tls::Tls;

/// Within which time a head has to be there; a connection that is asked nothing for so long goes.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long a head may be.
const HEAD_BYTES: usize = 32 << 10;
/// Connections at once, which are few: monitors and pages.
pub const CONNECTIONS: usize = 256;

/// What answers requests.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a request that was let in, which has among its extensions [from where](Whence) it comes.
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;

    /// How connections are encrypted, if they can be.
    fn tls(&self) -> Option<Arc<Tls>>;
}

/// HTTP/1.1 for what answers.
pub struct Http<A>(pub Arc<A>);

impl<A: Answers> Serves for Http<A> {
    const NAME: &'static str = "HTTP";
    const PROTOCOL: &'static [u8] = b"http/1.1";

    fn tls(&self) -> Option<Arc<Tls>> {
        self.0.tls()
    }

    async fn serve(self: Arc<Self>, link: Box<dyn Link>, whence: Whence, mut stop: watch::Receiver<Stop>) {
        let answers = Arc::clone(&self.0);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(whence);
            let answers = Arc::clone(&answers);
            async move {
                let answer = match let_in(request.headers(), whence.is_encrypted) {
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
            .serve_connection(TokioIo::new(link), service);
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
}
