//! How a client comes in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nearside::{DATABASE_NAME, Session};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::login::Arriving;
use super::{Connection, Failure, Result, Sink};
use crate::access::Peer;
use crate::fault::{Fault, codes};
use crate::shared::{Shared, Stop, until};
use crate::tls::Tls;
use crate::traces::Trace;
use crate::wire::backend::Output;
use crate::wire::frontend::{First, decode_first};
use crate::wire::input::{Broken, Input, Source};
use crate::wire::{NEWEST_MINOR, VERSION_3_0};

/// The longest first message, its length field included.
const FIRST_MAX: usize = 10_000;
/// How long a client that is sent away may take to take what it is told.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Settings that clients are told when they come in, and when they change.
pub const TOLD: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The value of one of these.
pub fn told(session: &Session, name: &str) -> Option<String> {
    match name {
        "in_hot_standby" => Some("off".into()),
        "session_authorization" => Some(session.user()),
        // Clients look for a zone of that name.
        "TimeZone" => session.client_setting(name).map(|zone| if zone == "+00:00" { "UTC".into() } else { zone }),
        name => session.client_setting(name),
    }
}

/// A client that has said who it is.
struct Arrived {
    /// The version of the protocol that is spoken.
    minor: u16,
    parameters: Vec<(String, String)>,
    /// How the connection is encrypted, if it is.
    tls: Option<Arc<Tls>>,
}

/// A client that was let in.
struct Admitted {
    minor: u16,
    parameters: Vec<(String, String)>,
    session: Session,
}

/// Serves a client from its first byte to its last. `is_full`: all places for clients are taken, and this one has come
/// to cancel or to be told so.
pub async fn serve(
    (source, mut sink): (Source, Sink),
    peer: Peer,
    shared: Arc<Shared>,
    stop: watch::Receiver<Stop>,
    is_full: bool,
) {
    let mut input = Input::new(source, shared.limits.message_bytes);
    let mut output = Output::default();
    let within = shared.limits.startup;
    let coming_in = async {
        match arrive(&mut input, &mut sink, &shared, is_full).await? {
            Some(arrived) => admit(arrived, (&mut input, &mut sink, &mut output), peer, &shared).await.map(Some),
            None => Ok(None),
        }
    };
    let mut stopped = stop.clone();
    let arrived = tokio::select! {
        arrived = tokio::time::timeout(within, coming_in) => arrived,
        // Who has not come in yet does not hold up the end.
        () = until(&mut stopped, Stop::WhenIdle) => {
            let message = "terminating connection due to administrator command";
            Ok(Err(Fault::fatal(codes::ADMIN_SHUTDOWN, message).into()))
        }
    };
    let fault = match arrived {
        Ok(Ok(Some(admitted))) => {
            let mut connection = match connect(admitted, (input, output, sink), &shared, stop).await {
                Ok(connection) => connection,
                Err((fault, sink)) => return last_words(&fault, Output::default(), sink).await,
            };
            let (number, role, from) = (connection.session.number(), connection.session.user(), peer.shown());
            tracing::info!(session = number, role, from, door = "PostgreSQL", "a client has come in");
            let begun = Instant::now();
            let ended = connection.run().await;
            let (seconds, sqlstate) = (begun.elapsed().as_secs_f64(), ended.as_ref().err().and_then(Failure::code));
            tracing::info!(session = number, role, from, seconds, sqlstate, "a client has gone");
            let Connection { sink, session, portals, statements, output, registered, .. } = connection;
            // A transaction that is left is rolled back, which may take its time.
            let gone = tokio::task::spawn_blocking(move || drop((portals, statements, session)));
            let _ = gone.await;
            drop(registered);
            match ended {
                Err(Failure::Fault(fault)) => return last_words(&fault, output, sink).await,
                Ok(()) | Err(Failure::Gone) => return,
            }
        }
        // It has gone, or come to cancel.
        Ok(Ok(None)) | Ok(Err(Failure::Gone)) => return,
        Ok(Err(Failure::Fault(fault))) => fault,
        // Nobody waits for who says nothing.
        Err(_) => return,
    };
    let (from, sqlstate) = (peer.shown(), fault.code);
    tracing::info!(from, door = "PostgreSQL", sqlstate, "a client has not come in: {}", fault.message);
    // Which version of the protocol is spoken may have to be told before.
    last_words(&fault, output, sink).await;
}

/// Tells why the connection ends.
async fn last_words(fault: &Fault, mut output: Output, mut sink: Sink) {
    output.error(&Fault { is_fatal: true, ..fault.clone() }.report(None));
    let send = async {
        let _ = sink.write_all(&output.0).await;
        let _ = sink.shutdown().await;
    };
    let _ = tokio::time::timeout(LAST_WORDS, send).await;
}

/// Reads what a client says first; `None` where that was all.
async fn arrive(input: &mut Input, sink: &mut Sink, shared: &Shared, is_full: bool) -> Result<Option<Arrived>> {
    let mut tls = None;
    // One for each kind of encryption.
    for _ in 0..=2 {
        let first: Bytes = match input.untyped(FIRST_MAX).await {
            Ok(first) => first,
            Err(Broken::Gone) => return Ok(None),
            Err(wrong) => return Err(wrong.into()),
        };
        match decode_first(first)? {
            First::Encryption { .. } if tls.is_some() => {
                let message = "encryption was asked for within an encrypted connection";
                return Err(Fault::fatal(codes::PROTOCOL_VIOLATION, message).into());
            }
            First::Encryption { is_tls } => {
                // What came behind it came without encryption, and was meant to be none of it.
                if !input.is_empty() {
                    let message = "received unencrypted data after SSL request";
                    return Err(Fault::fatal(codes::PROTOCOL_VIOLATION, message).into());
                }
                let known = shared.tls.read().clone().filter(|_| is_tls);
                let answer = if known.is_some() { b"S" } else { b"N" };
                if sink.write_all(answer).await.is_err() || sink.flush().await.is_err() {
                    return Ok(None);
                }
                if let Some(known) = known {
                    if !encrypt(input, sink, &known).await {
                        return Ok(None);
                    }
                    tls = Some(known);
                }
            }
            First::Cancel(number, key) => {
                shared.cancels.cancel(number, &key);
                return Ok(None);
            }
            First::Startup(3, minor, parameters) => {
                if is_full {
                    let message = "sorry, too many clients already";
                    return Err(Fault::fatal(codes::TOO_MANY_CONNECTIONS, message).into());
                }
                return Ok(Some(Arrived { minor, parameters, tls }));
            }
            First::Startup(major, minor, _) => {
                let message =
                    format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{NEWEST_MINOR}");
                return Err(Fault::fatal(codes::FEATURE_NOT_SUPPORTED, message).into());
            }
        }
    }
    Err(Fault::fatal(codes::PROTOCOL_VIOLATION, "encryption was asked for before, and there is none").into())
}

/// Goes on encrypted; false where the client does not.
async fn encrypt(input: &mut Input, sink: &mut Sink, tls: &Tls) -> bool {
    let plain = tokio::io::join(input.take_source(), std::mem::replace(sink, Box::new(tokio::io::sink())));
    match tls.acceptor.accept(plain).await {
        Ok(stream) => {
            let (source, encrypted) = tokio::io::split(stream);
            input.set_source(Box::new(source));
            *sink = Box::new(encrypted);
            true
        }
        Err(why) => {
            tracing::info!("a client has not come to an encrypted connection: {why}");
            false
        }
    }
}

/// Finds out whether a client is who it says.
async fn admit(
    arrived: Arrived,
    (input, sink, output): (&mut Input, &mut Sink, &mut Output),
    peer: Peer,
    shared: &Arc<Shared>,
) -> Result<Admitted> {
    let Arrived { minor, parameters, tls } = arrived;
    let (options, parameters): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| name.starts_with("_pq_."));
    let user = parameters.iter().find(|(name, value)| name == "user" && !value.is_empty());
    let Some((_, user)) = user else {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(Fault::fatal(codes::INVALID_AUTHORIZATION, message).into());
    };
    if minor > NEWEST_MINOR || !options.is_empty() {
        let unknown: Vec<String> = options.into_iter().map(|(name, _)| name).collect();
        output.negotiate(VERSION_3_0 | u32::from(minor.min(NEWEST_MINOR)), &unknown);
    }
    let is_encrypted = tls.is_some();
    let binding = tls.as_ref().and_then(|tls| tls.end_point.clone());
    let session = Arriving { input, sink, output, peer, is_encrypted, binding }.login(user, shared).await?;
    Ok(Admitted { minor, parameters, session })
}

/// Sets a client's session up, with the settings that it asks for.
async fn connect(
    admitted: Admitted,
    (input, output, sink): (Input, Output, Sink),
    shared: &Arc<Shared>,
    stop: watch::Receiver<Stop>,
) -> Result<Connection, (Fault, Sink)> {
    let Admitted { minor, parameters, session } = admitted;
    let mut key = vec![0; if minor >= 2 { 32 } else { 4 }];
    if getrandom::fill(&mut key).is_err() {
        return Err((Fault::fatal(codes::INTERNAL_ERROR, "the system gives no random bytes"), sink));
    }
    let settings = match settings(parameters) {
        Ok(settings) => settings,
        Err(fault) => return Err((fault, sink)),
    };
    let of = session.clone();
    let set =
        tokio::task::spawn_blocking(move || settings.into_iter().try_for_each(|(name, value)| set(&of, &name, &value)));
    match set.await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => return Err((Fault { is_fatal: true, ..fault }, sink)),
        Err(_) => return Err((Fault::fatal(codes::INTERNAL_ERROR, "a setting could not be set"), sink)),
    }
    let number = session.number();
    let registered = shared.cancels.register(number, key.clone());
    let mut connection = Connection {
        input,
        output,
        sink,
        shared: Arc::clone(shared),
        stop,
        cancels: session.cancel_handle(),
        session,
        registered,
        told: (0, Vec::new()),
        is_implicit: false,
        skips: false,
        has_executed: false,
        trace: Trace::default(),
        statements: Default::default(),
        portals: Default::default(),
    };
    connection.tell_settings();
    connection.output.backend_key(number, &key);
    match connection.ready().await {
        Ok(()) => Ok(connection),
        Err(_) => Err((Fault::fatal(codes::ADMIN_SHUTDOWN, "the connection is gone"), connection.sink)),
    }
}

/// The settings among a client's parameters.
fn settings(parameters: Vec<(String, String)>) -> Result<Vec<(String, String)>, Fault> {
    let find = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let user = find("user").unwrap_or_default();
    // Clients that name no database ask for one of the user's name.
    let database = find("database").filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
    if database != DATABASE_NAME && database != user {
        let message = format!("database \"{database}\" does not exist");
        return Err(Fault::fatal(codes::INVALID_CATALOG_NAME, message)
            .hint(format!("This server has one database, which is called {DATABASE_NAME}.")));
    }
    let mut settings = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if ["false", "off", "no", "0"].contains(&value.as_str()) => {}
            "replication" => {
                return Err(Fault::fatal(codes::FEATURE_NOT_SUPPORTED, "replication is not supported"));
            }
            "options" => settings.extend(options(&value)?),
            _ => settings.push((name, value)),
        }
    }
    Ok(settings)
}

/// `-c name=value --name=value`, with a backslash before what is not to be taken for a blank.
fn options(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = words.len() - 1;
        match c {
            '\\' => words[last].extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    let wrong = |word: &str| {
        Fault::fatal(codes::SYNTAX_ERROR, format!("invalid command-line argument for server process: {word}"))
    };
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_string(),
            (None, Some("")) => words.next().ok_or_else(|| wrong(&word))?,
            (None, Some(setting)) => setting.to_string(),
            (None, None) => return Err(wrong(&word)),
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| wrong(&word))?;
        found.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(found)
}

/// Sets a setting, as SET does.
fn set(session: &Session, name: &str, value: &str) -> Result<(), Fault> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
    if !is_name {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        return Err(Fault::new(codes::UNDEFINED_OBJECT, message));
    }
    // PostgreSQL looks at letters and digits of an encoding alone, and clients rely on it.
    let value = match name.eq_ignore_ascii_case("client_encoding") {
        true => value.chars().filter(char::is_ascii_alphanumeric).collect(),
        false => value.replace('\'', "''"),
    };
    session.run(&format!("SET {name} = '{value}'"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_a_command_line() {
        let of = |text: &str| options(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(of("-c a=1 --b-c=2\\ 3  -cd="), [pair("a", "1"), pair("b_c", "2 3"), pair("d", "")]);
        for wrong in ["-c", "-x 1", "a=1", "-c a"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
