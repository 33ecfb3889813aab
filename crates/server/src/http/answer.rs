//! Answers: heads that all have, bodies at once or as they come, errors.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::fault::{Fault, codes};

/// What is sent.
pub type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Nothing but what comes from here is run or shown, and nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Of which kind a body is.
pub mod kinds {
    /// JSON.
    pub const JSON: &str = "application/json";
    /// Text.
    pub const TEXT: &str = "text/plain; charset=utf-8";
}

/// A whole body.
pub fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    headed(status, kind, body)
}

/// A body as it comes; an error breaks the connection off, so that nobody takes what was sent for all.
pub fn streamed(kind: &'static str, pieces: BoxStream<'static, io::Result<Bytes>>) -> Answer {
    let frames = pieces.map(|piece| piece.map(Frame::data));
    headed(StatusCode::OK, kind, BodyExt::boxed_unsync(StreamBody::new(frames)))
}

fn headed(status: StatusCode, kind: &'static str, body: UnsyncBoxBody<Bytes, io::Error>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let heads: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in heads {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// An error of a statement, whose text this is.
pub fn failed(fault: &Fault, sql: Option<&str>) -> Answer {
    whole(status_of(fault.code), kinds::JSON, error_of(fault, sql).to_string())
}

/// A refusal before any statement.
pub fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Answer {
    whole(status, kinds::JSON, error_of(&Fault::new(code, message), None).to_string())
}

/// `{"error": {..}}`.
pub fn error_of(fault: &Fault, sql: Option<&str>) -> serde_json::Value {
    let start = nearside::Position { line: 1, column: 1 };
    let report = fault.report(sql.map(|sql| (sql, start)));
    let mut error = json!({ "code": report.code, "message": report.message });
    if let Some(hint) = report.hint {
        error["hint"] = hint.into();
    }
    if let Some(position) = report.position {
        error["position"] = position.into();
    }
    json!({ "error": error })
}

/// The status of an SQLSTATE, by its class.
fn status_of(code: &str) -> StatusCode {
    match code {
        codes::QUERY_CANCELED => StatusCode::REQUEST_TIMEOUT,
        codes::TOO_MANY_CONNECTIONS | codes::ADMIN_SHUTDOWN => StatusCode::SERVICE_UNAVAILABLE,
        codes::FEATURE_NOT_SUPPORTED => StatusCode::NOT_IMPLEMENTED,
        _ => match &code[..code.len().min(2)] {
            // Another one was faster: the same again may do.
            "40" => StatusCode::CONFLICT,
            "53" => StatusCode::SERVICE_UNAVAILABLE,
            "58" | "XX" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_did_wrong_is_told_from_what_the_server_lacks() {
        assert_eq!(status_of("42601"), 400);
        assert_eq!(status_of("22012"), 400);
        assert_eq!(status_of("40001"), 409);
        assert_eq!(status_of("53200"), 503);
        assert_eq!(status_of("57014"), 408);
        assert_eq!(status_of("0A000"), 501);
        assert_eq!(status_of("XX000"), 500);
        assert_eq!(status_of(""), 400);
    }
}
