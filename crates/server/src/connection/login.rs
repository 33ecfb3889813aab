//! Who a client is: what it has to show, and the session that it gets.

use std::sync::Arc;
use std::time::Instant;

use nearside::{Session, Verifier};
use tokio::io::AsyncWriteExt;

use super::{Result, Sink};
use crate::access::{Method, Peer};
use crate::fault::{Fault, codes};
use crate::scram::Exchange;
use crate::shared::Shared;
use crate::wire::backend::Output;
use crate::wire::frontend::initial_response;
use crate::wire::input::Input;

/// The codes of what a client is asked for.
const OK: u32 = 0;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// A client at the door.
pub struct Arriving<'a> {
    /// Where its bytes come from.
    pub input: &'a mut Input,
    /// Where what it is told goes.
    pub sink: &'a mut Sink,
    /// What is not sent yet.
    pub output: &'a mut Output,
    /// From where it comes.
    pub peer: Peer,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// What stands for the encrypted connection, where logins can be bound to it.
    pub binding: Option<Vec<u8>>,
}

impl Arriving<'_> {
    /// Finds out who a client is; the answer that it is in is left in the output.
    ///
    /// # Errors
    /// It may not come in, or is gone.
    pub async fn login(&mut self, user: &str, shared: &Arc<Shared>) -> Result<Session> {
        let database = &shared.database;
        let access = Arc::clone(&shared.access.read());
        let method = access.method(&self.peer, user, self.is_encrypted, database.has_passwords());
        let session = match method {
            Method::Reject => {
                let how = if self.is_encrypted { "with" } else { "without" };
                let from = self.peer.shown();
                let message = format!("role \"{user}\" may not come in from {from} {how} encryption");
                return Err(Fault::fatal(codes::INVALID_AUTHORIZATION, message).into());
            }
            // Before there are roles, everybody is the one that there is.
            Method::Trust if database.has_no_roles() => database.session(),
            Method::Trust => match database.login(user) {
                Some(login) => session_of(user, &login, shared)?,
                None => {
                    let message = format!("role \"{user}\" does not exist");
                    return Err(Fault::fatal(codes::INVALID_AUTHORIZATION, message).into());
                }
            },
            Method::Scram => self.scram(user, shared).await?,
        };
        self.output.authentication(OK, &[]);
        Ok(session)
    }

    async fn scram(&mut self, user: &str, shared: &Arc<Shared>) -> Result<Session> {
        let address = self.peer.address();
        // Those of one address take turns, so that they do not take the places of others.
        let turns = shared.logins_of(address);
        let _turn = turns.acquire().await;
        let wait = shared.attempts.begin(address, user, Instant::now());
        tokio::time::sleep(wait).await;
        // Who is not there is asked as who is.
        let login = shared.database.login(user);
        let known = login.as_ref().and_then(|login| login.verifier());
        let nobody = Verifier::of_nobody(&shared.secret, user);
        let binding = self.binding.take();
        let exchange = Exchange::new(known.unwrap_or(&nobody), binding.as_deref());
        let names: Vec<u8> = exchange.mechanisms().iter().flat_map(|name| name.bytes().chain([0])).chain([0]).collect();
        self.output.authentication(SASL, &names);
        self.flush().await?;
        let (mechanism, message) = initial_response(self.input.answer().await?)?;
        let begun = exchange.begin(&mechanism, &message)?;
        self.output.authentication(SASL_CONTINUE, begun.challenge.as_bytes());
        self.flush().await?;
        let proven = exchange.end(&begun, &self.input.answer().await?)?;
        let (Some(proven), Some(login)) = (proven, login.as_ref().filter(|_| known.is_some())) else {
            let (from, sqlstate) = (self.peer.shown(), codes::INVALID_PASSWORD);
            tracing::warn!(role = user, from, door = "PostgreSQL", sqlstate, "a login has failed: another password");
            let message = format!("password authentication failed for user \"{user}\"");
            return Err(Fault::fatal(codes::INVALID_PASSWORD, message).into());
        };
        shared.attempts.succeeded(address, user, Instant::now());
        let session = session_of(user, login, shared)?;
        self.output.authentication(SASL_FINAL, proven.as_bytes());
        Ok(session)
    }

    async fn flush(&mut self) -> Result<()> {
        let sent = async {
            self.sink.write_all(&self.output.0).await?;
            self.sink.flush().await
        };
        if sent.await.is_err() {
            return Err(super::Failure::Gone);
        }
        self.output.0.clear();
        Ok(())
    }
}

/// A session of a role.
///
/// # Errors
/// It may have none.
pub fn session_of(user: &str, login: &nearside::Login, shared: &Shared) -> std::result::Result<Session, Fault> {
    let refused = |message: String| Err(Fault::fatal(codes::INVALID_AUTHORIZATION, message));
    if !login.can_login() {
        return refused(format!("role \"{user}\" is not permitted to log in"));
    }
    shared.database.session_of(login).map_err(|error| Fault { is_fatal: true, ..Fault::from(error) })
}
