//! The body of a request: so long, within so much time.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;

use super::answer::{Answer, refused};
use crate::fault::codes;

/// Within which time a body has to be there.
const WITHIN: Duration = Duration::from_secs(30);

/// The text of a body of `most` bytes at most.
///
/// # Errors
/// It is longer, comes too slowly or breaks off, or is no UTF-8.
pub async fn text(body: Incoming, most: usize) -> Result<String, Answer> {
    let whole = tokio::time::timeout(WITHIN, Limited::new(body, most).collect()).await;
    let bytes = match whole {
        Ok(Ok(bytes)) => bytes.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the body is longer than {most} bytes");
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, codes::LIMIT_EXCEEDED, message));
        }
        Ok(Err(_)) => {
            return Err(refused(StatusCode::BAD_REQUEST, codes::PROTOCOL_VIOLATION, "the body breaks off"));
        }
        Err(_) => {
            let message = format!("the body was not there within {} seconds", WITHIN.as_secs());
            return Err(refused(StatusCode::REQUEST_TIMEOUT, codes::PROTOCOL_VIOLATION, message));
        }
    };
    String::from_utf8(bytes.into()).map_err(|_| {
        refused(StatusCode::BAD_REQUEST, codes::CHARACTER_NOT_IN_REPERTOIRE, "the body is no text in UTF-8")
    })
}
