//! What `nearside serve` says while it runs, on standard error: a line an event.
//!
//! Events alone are heard, no spans, so this is what is needed of a subscriber of `tracing`.
//!
//! Invariants: no text of a statement is said, so no password in one is, but of slow statements where these are asked
//! for (`log_min_duration_statement`), without passwords.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::str::FromStr;

use chrono::{SecondsFormat, Utc};
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// An object of JSON.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => Err(format!("'{other}' is no form of a log; there are text and json")),
        }
    }
}

/// Has warnings and errors be said from now on, and clients that come and go where they are asked for.
pub fn begin(format: Format, connections: bool) {
    let most = if connections { LevelFilter::INFO } else { LevelFilter::WARN };
    // Where somebody hears already, he goes on.
    let _ = tracing::subscriber::set_global_default(Log { format, most });
}

struct Log {
    format: Format,
    most: LevelFilter,
}

impl Subscriber for Log {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        // What libraries say of their own work is theirs.
        of.is_event() && *of.level() <= self.most && of.target().starts_with("nearside")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = line(self.format, *event.metadata().level(), event);
        line.push('\n');
        // Nobody can be told that nobody is told.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event, in their order.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().into(), value.into());
    }
}

fn line(format: Format, level: Level, event: &Event<'_>) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    written(format, &Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true), level.as_str(), fields.0)
}

/// An event as a line.
fn written(format: Format, time: &str, level: &str, mut fields: Map<String, Value>) -> String {
    let message = fields.remove("message").unwrap_or_default();
    if format == Format::Json {
        let mut all = Map::new();
        all.insert("timestamp".into(), time.into());
        all.insert("level".into(), level.into());
        all.insert("message".into(), message);
        all.append(&mut fields);
        return Value::Object(all).to_string();
    }
    // A text of a client's cannot begin a line of its own.
    let message = message.as_str().unwrap_or_default().replace(['\n', '\r'], " ");
    let mut line = format!("{time} {level} {message}");
    for (name, value) in fields {
        let _ = write!(line, " {name}={value}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let fields = || {
            let all = [("message", "gone\n2026 ERROR x"), ("role", "a \"b\"\n")];
            all.into_iter().map(|(name, value)| (name.to_string(), Value::from(value))).collect::<Map<_, _>>()
        };
        let text = written(Format::Text, "now", "INFO", fields());
        assert_eq!(text, "now INFO gone 2026 ERROR x role=\"a \\\"b\\\"\\n\"");
        let json = written(Format::Json, "now", "INFO", fields());
        assert_eq!(json.lines().count(), 1);
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&read["level"], &read["role"]), (&Value::from("INFO"), &Value::from("a \"b\"\n")));
    }
}
