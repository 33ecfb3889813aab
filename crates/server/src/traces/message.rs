//! Spans as OTLP has them, in JSON: numbers of traces and spans as digits, numbers of 64 bits as texts.

use serde::Serialize;
use serde_json::{Value, json};

/// The kind of spans of what is done for others.
const SERVER: u8 = 2;
/// The status of what has failed.
const FAILED: u8 = 2;

/// What is told of a span.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Attribute {
    key: &'static str,
    value: Value,
}

impl Attribute {
    /// A text.
    pub(super) fn text(key: &'static str, value: &str) -> Attribute {
        Attribute { key, value: json!({ "stringValue": value }) }
    }

    /// A number.
    pub(super) fn number(key: &'static str, value: i64) -> Attribute {
        Attribute { key, value: json!({ "intValue": value.to_string() }) }
    }
}

/// A span that has ended.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    /// The trace that it is part of.
    pub trace_id: Vec<u8>,
    /// Which span of it.
    pub span_id: Vec<u8>,
    /// The span around it, and what is passed on with that.
    pub around: Option<(Vec<u8>, String)>,
    /// What it is called.
    pub name: String,
    /// When it began, in nanoseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// What is told of it.
    pub attributes: Vec<Attribute>,
    /// When its statement began to run, if it came so far.
    pub started: Option<u64>,
    /// Why it has failed, if it has; empty where that is not to be told.
    pub failure: Option<String>,
}

impl Finished {
    fn message(&self) -> Value {
        let mut span = json!({
            "traceId": digits(&self.trace_id),
            "spanId": digits(&self.span_id),
            "name": self.name,
            "kind": SERVER,
            "startTimeUnixNano": self.began.to_string(),
            "endTimeUnixNano": self.ended.to_string(),
            "attributes": self.attributes,
        });
        if let Some((around, state)) = &self.around {
            span["parentSpanId"] = digits(around).into();
            if !state.is_empty() {
                span["traceState"] = state.as_str().into();
            }
        }
        if let Some(at) = self.started {
            span["events"] = json!([{ "timeUnixNano": at.to_string(), "name": "started" }]);
        }
        if let Some(why) = &self.failure {
            span["status"] = match why.is_empty() {
                true => json!({ "code": FAILED }),
                false => json!({ "code": FAILED, "message": why }),
            };
        }
        span
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is sent of spans.
pub(super) fn request(spans: &[Finished]) -> Value {
    let resource =
        [Attribute::text("service.name", "nearside"), Attribute::text("service.version", env!("CARGO_PKG_VERSION"))];
    let spans: Vec<Value> = spans.iter().map(Finished::message).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "nearside" }, "spans": spans }],
        }],
    })
}
