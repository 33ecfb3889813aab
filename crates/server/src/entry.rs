//! Who comes in with a name and a password at once, over HTTP or Flight: where a client of PostgreSQL's wire has to
//! show a password, so has one of these.
//!
//! A password is hashed some thousand times to see whether it is one. Such clients ask often, so which names and
//! passwords were right is remembered, as hashes with the server's secret, as long as the role has that password.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use nearside::{Login, Session, Verifier};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::access::{Method, Peer};
use crate::blocking::panicked;
use crate::connection::session_of;
use crate::fault::{Fault, codes};
use crate::shared::Shared;

/// How many names and passwords are remembered.
const REMEMBERED: usize = 256;

/// What was shown to be right, by its hash.
#[derive(Debug, Default)]
pub struct Entry(Mutex<HashMap<[u8; 32], Verifier>>);

/// A name and a password as a request says them.
#[derive(Clone)]
pub struct Credentials {
    /// The role.
    pub user: String,
    password: String,
}

/// Whence where a request comes.
#[derive(Debug, Clone, Copy)]
pub struct Whence {
    /// The other end.
    pub peer: Peer,
    /// Whether what it says is encrypted.
    pub is_encrypted: bool,
    /// By which door, in words.
    pub door: &'static str,
}

/// Why somebody does not come in.
#[derive(Debug)]
pub enum Refused {
    /// A name and its password are needed, and were not given, or were others.
    Asked(Fault),
    /// Whatever it says.
    Forbidden(Fault),
}

/// Who has come in.
#[derive(Debug)]
pub struct Admitted {
    /// The role's name.
    pub user: String,
    /// The role; `None` where there are none yet but the one that a database begins with.
    login: Option<Login>,
}

impl Admitted {
    /// A session of the role.
    ///
    /// # Errors
    /// It may have none.
    pub fn session(&self, shared: &Shared) -> Result<Session, Fault> {
        match &self.login {
            Some(login) => session_of(&self.user, login, shared),
            None => Ok(shared.database.session()),
        }
    }

    /// What is kept of the role's password.
    pub fn verifier(&self) -> Option<&Verifier> {
        self.login.as_ref()?.verifier()
    }
}

impl Entry {
    /// Who comes in; who says no name is the role that a database begins with, `first`.
    ///
    /// # Errors
    /// May not, or has to say who it is.
    pub async fn admit(
        &self,
        said: Option<Credentials>,
        first: &str,
        from: Whence,
        shared: &Arc<Shared>,
    ) -> Result<Admitted, Refused> {
        let database = &shared.database;
        let user = said.as_ref().map_or_else(|| first.to_string(), |said| said.user.clone());
        match (method(&user, from, shared), said) {
            (Method::Reject, _) => Err(Refused::Forbidden(rejected(&user, from))),
            // Before there are roles, everybody is the one that there is.
            (Method::Trust, _) if database.has_no_roles() => Ok(Admitted { user: first.to_string(), login: None }),
            (Method::Trust, _) => match database.login(&user) {
                Some(login) => Ok(Admitted { user, login: Some(login) }),
                None => Err(wrong(&user)),
            },
            (Method::Scram, None) => {
                let message = "a name and a password are needed (Authorization: Basic)";
                Err(Refused::Asked(Fault::new(codes::INVALID_PASSWORD, message)))
            }
            (Method::Scram, Some(said)) => self.with_password(said, from, shared).await,
        }
    }

    async fn with_password(&self, said: Credentials, from: Whence, shared: &Arc<Shared>) -> Result<Admitted, Refused> {
        let Credentials { user, password } = said;
        let hash = hash_of(&shared.secret, &user, &password);
        let remembered = self.0.lock().get(&hash).cloned();
        let login = shared.database.login(&user);
        if let (Some(login), Some(remembered)) = (&login, &remembered)
            && login.verifier() == Some(remembered)
        {
            return Ok(Admitted { user, login: Some(login.clone()) });
        }
        let address = from.peer.address();
        let turns = shared.logins_of(address);
        let _turn = turns.acquire().await;
        let wait = shared.attempts.begin(address, &user, Instant::now());
        tokio::time::sleep(wait).await;
        let known = login.as_ref().and_then(|login| login.verifier()).cloned();
        // Who is not there is looked at for as long as who is.
        let verifier = known.clone().unwrap_or_else(|| Verifier::of_nobody(&shared.secret, &user));
        let is_right = tokio::task::spawn_blocking(move || verifier.is_of(&password)).await;
        let is_right = is_right.map_err(|_| Refused::Forbidden(panicked()))?;
        let (true, Some(login), Some(verifier)) = (is_right, login, known) else {
            let (sqlstate, door) = (codes::INVALID_PASSWORD, from.door);
            let from = from.peer.shown();
            tracing::warn!(role = user, from, door, sqlstate, "a login has failed: another password");
            return Err(wrong(&user));
        };
        shared.attempts.succeeded(address, &user, Instant::now());
        let mut all = self.0.lock();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(hash, verifier);
        Ok(Admitted { user, login: Some(login) })
    }
}

/// What a role has to show that comes from there.
pub fn method(user: &str, from: Whence, shared: &Shared) -> Method {
    let access = Arc::clone(&shared.access.read());
    access.method(&from.peer, user, from.is_encrypted, shared.database.has_passwords())
}

/// What is said to whom the rules of access send away.
pub fn rejected(user: &str, from: Whence) -> Fault {
    let encrypted = if from.is_encrypted { "" } else { " without encryption" };
    let message = format!("role \"{user}\" may not come in over {}{encrypted} from {}", from.door, from.peer.shown());
    Fault::new(codes::INVALID_AUTHORIZATION, message)
}

fn wrong(user: &str) -> Refused {
    let message = format!("password authentication failed for user \"{user}\"");
    Refused::Asked(Fault::new(codes::INVALID_PASSWORD, message))
}

/// The name and the password of a head `Basic ..` (RFC 7617).
pub fn basic(value: &str) -> Option<Credentials> {
    let (scheme, text) = value.split_once(' ')?;
    // Some clients leave out what fills the last group up.
    let text = text.trim().trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(text).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let (user, password) = std::str::from_utf8(&bytes).ok()?.split_once(':')?;
    Some(Credentials { user: user.into(), password: password.into() })
}

fn hash_of(secret: &[u8; 32], user: &str, password: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(secret);
    hash.update((user.len() as u64).to_le_bytes());
    hash.update(user);
    hash.update(password);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn names_and_passwords_are_read_or_refused() {
        let of = |value: &str| basic(value).map(|said| (said.user, said.password));
        let text = |text: &str| format!("basic {}", STANDARD.encode(text));
        assert_eq!(of(&text("ann:a:b")), Some(("ann".into(), "a:b".into())));
        assert_eq!(of(&text(":")), Some((String::new(), String::new())));
        assert_eq!(of(text("ann:ab").trim_end_matches('=')), Some(("ann".into(), "ab".into())));
        for value in ["", "Basic", "Basic !!", "Bearer abc", &text("no colon"), "Basic /w=="] {
            assert!(of(value).is_none(), "{value}");
        }
    }
}
