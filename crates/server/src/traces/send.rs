//! The task that sends spans to a collector.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::message::{Finished, request};

/// Where a collector takes spans, if an address says no more.
const PATH: &str = "/v1/traces";
/// How many spans are sent at once.
const BATCH: usize = 512;
/// How long a span waits for others that are sent with it.
const EVERY: Duration = Duration::from_secs(2);
/// How long sending a batch may take.
const WITHIN: Duration = Duration::from_secs(10);
/// What of a collector's answer is read.
const ANSWER_BYTES: usize = 1 << 20;

/// Who takes spans.
#[derive(Debug)]
pub(super) struct Collector {
    uri: Uri,
    heads: HeaderMap,
}

type Refused = Box<dyn std::error::Error + Send + Sync>;

impl Collector {
    /// One at an address, which is sent heads beside the spans.
    ///
    /// # Errors
    /// An address, or a head, that is none.
    pub(super) fn of(endpoint: &str, headers: &HashMap<String, String>) -> Result<Collector, String> {
        let uri = uri_of(endpoint)?;
        let mut heads = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || format!("'{name}' is no head of HTTP, or has a value that is none");
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
            // It may be what lets in.
            value.set_sensitive(true);
            heads.insert(name, value);
        }
        heads.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        heads.insert(HOST, authority.parse().map_err(|_| format!("'{endpoint}' has no host"))?);
        Ok(Collector { uri, heads })
    }

    /// Sends spans until there will be none.
    pub(super) async fn run(self, mut waiting: mpsc::Receiver<Finished>) {
        let mut fails = false;
        while let Some(first) = waiting.recv().await {
            let mut spans = vec![first];
            let until = Instant::now() + EVERY;
            while spans.len() < BATCH {
                match timeout_at(until, waiting.recv()).await {
                    Ok(Some(span)) => spans.push(span),
                    Ok(None) | Err(_) => break,
                }
            }
            let sent = match timeout(WITHIN, self.send(&spans)).await {
                Ok(Ok(status)) if status.is_success() => Ok(()),
                Ok(Ok(status)) => Err(status.to_string()),
                Ok(Err(why)) => Err(why.to_string()),
                Err(_) => Err(format!("it gave no answer in {} s", WITHIN.as_secs())),
            };
            match (std::mem::replace(&mut fails, sent.is_err()), sent) {
                (false, Err(why)) => tracing::warn!("traces are not taken by {}: {why}", self.uri),
                (true, Ok(())) => tracing::info!("traces are taken by {} again", self.uri),
                _ => {}
            }
        }
    }

    async fn send(&self, spans: &[Finished]) -> Result<StatusCode, Refused> {
        let host = self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.uri.port_u16().unwrap_or(80))).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let path = self.uri.path_and_query().map_or(PATH, |path| path.as_str());
        let body = Full::new(Bytes::from(serde_json::to_vec(&request(spans))?));
        let mut message = Request::builder().method(Method::POST).uri(path).body(body)?;
        *message.headers_mut() = self.heads.clone();
        let answer = sender.send_request(message).await?;
        let status = answer.status();
        Limited::new(answer.into_body(), ANSWER_BYTES).collect().await?;
        Ok(status)
    }
}

/// An address with its path.
fn uri_of(text: &str) -> Result<Uri, String> {
    let wrong = |why: &str| format!("'{text}' is no address of a collector: {why}; write it as http://127.0.0.1:4318");
    let uri: Uri = text.parse().map_err(|_| wrong("it is not read"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(host)) if !host.is_empty() => {}
        (Some("https"), _) => {
            return Err(wrong("what is sent is not encrypted; let a collector of this machine pass it on"));
        }
        _ => return Err(wrong("http:// and a host are expected")),
    }
    match uri.path() {
        "" | "/" => format!("{}{PATH}", text.trim_end_matches('/')).parse().map_err(|_| wrong("it is not read")),
        _ => Ok(uri),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_collectors_are_read_or_refused() {
        let of = |text: &str| uri_of(text).map(|uri| uri.to_string());
        assert_eq!(of("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(of("http://[::1]:4318/").unwrap(), "http://[::1]:4318/v1/traces");
        assert_eq!(of("http://collector/otel/spans").unwrap(), "http://collector/otel/spans");
        let wrong =
            [("https://a:4318", "not encrypted"), ("a:4318", "http://"), ("", "http://"), ("grpc://a", "http://")];
        for (text, told) in wrong {
            let wrong = of(text).unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
    }

    #[test]
    fn heads_that_are_none_are_refused() {
        let of = |name: &str, value: &str| {
            Collector::of("http://a", &HashMap::from([(name.to_string(), value.to_string())])).is_ok()
        };
        assert!(of("x-key", "secret") && !of("x key", "secret") && !of("x-key", "a\nb"));
    }
}
