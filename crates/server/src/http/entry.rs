//! Who a request comes from: where a client of PostgreSQL's wire has to show a password, so has one of HTTP, which
//! sends its name and password with each request (RFC 7617).
//!
//! A password is hashed some thousand times to see whether it is one. A page asks often, so which names and passwords
//! were right is remembered, as hashes with the server's secret, as long as the role has that password.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use nearside::{Session, Verifier};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::answer::{Answer, panicked, refused};
use crate::access::{Method, Peer};
use crate::connection::session_of;
use crate::fault::codes;
use crate::shared::Shared;

/// How many names and passwords are remembered.
const REMEMBERED: usize = 256;

/// What was shown to be right, by its hash.
#[derive(Debug, Default)]
pub struct Entry(Mutex<HashMap<[u8; 32], Verifier>>);

/// A name and a password as a request says them.
struct Credentials {
    user: String,
    password: String,
}

impl Entry {
    /// A session of who sends a request; `first` is a session of the role that a database begins with, which it is that
    /// says no name.
    ///
    /// # Errors
    /// The answer to who may not come in, or has to say who he is.
    pub async fn session<B>(
        &self,
        request: &Request<B>,
        first: &Session,
        shared: &Arc<Shared>,
    ) -> Result<Session, Box<Answer>> {
        let database = &shared.database;
        let said = credentials(request.headers())?;
        let user = said.as_ref().map_or_else(|| first.user(), |said| said.user.clone());
        let access = Arc::clone(&shared.access.read());
        let peer = request.extensions().get::<Peer>();
        let method = peer.map_or(Method::Reject, |peer| access.method(peer, &user, false, database.has_passwords()));
        match (method, said) {
            (Method::Reject, _) => {
                let message = format!("role \"{user}\" may not come in over HTTP, which is not encrypted");
                Err(Box::new(refused(StatusCode::FORBIDDEN, codes::INVALID_AUTHORIZATION, message)))
            }
            // Before there are roles, everybody is the one that there is.
            (Method::Trust, _) if database.has_no_roles() => Ok(database.session()),
            (Method::Trust, _) => match database.login(&user) {
                Some(login) => admitted(&user, &login, shared),
                None => Err(wrong(&user)),
            },
            (Method::Scram, None) => Err(asked("a name and a password are needed (Authorization: Basic)")),
            (Method::Scram, Some(said)) => self.with_password(said, peer.copied(), shared).await,
        }
    }

    async fn with_password(
        &self,
        said: Credentials,
        peer: Option<Peer>,
        shared: &Arc<Shared>,
    ) -> Result<Session, Box<Answer>> {
        let Credentials { user, password } = said;
        let hash = hash_of(&shared.secret, &user, &password);
        let remembered = self.0.lock().get(&hash).cloned();
        let login = shared.database.login(&user);
        if let (Some(login), Some(remembered)) = (&login, &remembered)
            && login.verifier() == Some(remembered)
        {
            return admitted(&user, login, shared);
        }
        let address = peer.and_then(|peer| peer.address());
        let turns = shared.logins_of(address);
        let _turn = turns.acquire().await;
        let wait = shared.attempts.begin(address, &user, Instant::now());
        tokio::time::sleep(wait).await;
        let known = login.as_ref().and_then(|login| login.verifier()).cloned();
        // Who is not there is looked at for as long as who is.
        let verifier = known.clone().unwrap_or_else(|| Verifier::of_nobody(&shared.secret, &user));
        let is_right = tokio::task::spawn_blocking(move || verifier.is_of(&password)).await;
        let is_right = is_right.map_err(|_| Box::new(super::answer::failed(&panicked(), None)))?;
        let (true, Some(login), Some(verifier)) = (is_right, login, known) else {
            tracing::warn!("a request as {user:?} over HTTP failed: another password");
            return Err(wrong(&user));
        };
        shared.attempts.succeeded(address, &user, Instant::now());
        let mut all = self.0.lock();
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(hash, verifier);
        drop(all);
        admitted(&user, &login, shared)
    }
}

fn admitted(user: &str, login: &nearside::Login, shared: &Shared) -> Result<Session, Box<Answer>> {
    let refusal = |fault: crate::fault::Fault| refused(StatusCode::FORBIDDEN, fault.code, fault.message);
    session_of(user, login, shared).map_err(|fault| Box::new(refusal(fault)))
}

fn wrong(user: &str) -> Box<Answer> {
    asked(format!("password authentication failed for user \"{user}\""))
}

/// Has a browser ask for a name and a password.
fn asked(message: impl Into<String>) -> Box<Answer> {
    let mut answer = refused(StatusCode::UNAUTHORIZED, codes::INVALID_PASSWORD, message);
    let how = HeaderValue::from_static("Basic realm=\"nearside\", charset=\"UTF-8\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, how);
    Box::new(answer)
}

/// What a request says; `None` where it says nothing.
fn credentials(heads: &HeaderMap) -> Result<Option<Credentials>, Box<Answer>> {
    let mut all = heads.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let said = value.to_str().ok().filter(|_| all.next().is_none()).and_then(read);
    match said {
        Some(said) => Ok(Some(said)),
        None => Err(asked("the Authorization of the request is not read; send Basic with a name and a password once")),
    }
}

fn read(value: &str) -> Option<Credentials> {
    let (scheme, text) = value.split_once(' ')?;
    let bytes = STANDARD.decode(text.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
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
    use super::*;

    #[test]
    fn names_and_passwords_are_read_or_refused() {
        let of = |value: &str| {
            let mut heads = HeaderMap::new();
            heads.insert(AUTHORIZATION, value.parse().unwrap());
            credentials(&heads).ok().flatten().map(|said| (said.user, said.password))
        };
        let text = |text: &str| format!("basic {}", STANDARD.encode(text));
        assert_eq!(of(&text("ann:a:b")), Some(("ann".into(), "a:b".into())));
        assert_eq!(of(&text(":")), Some((String::new(), String::new())));
        for value in ["", "Basic", "Basic !!", "Bearer abc", &text("no colon"), "Basic /w=="] {
            assert!(of(value).is_none(), "{value}");
        }
        assert!(credentials(&HeaderMap::new()).is_ok_and(|said| said.is_none()));
        let mut twice = HeaderMap::new();
        twice.append(AUTHORIZATION, text("a:b").parse().unwrap());
        twice.append(AUTHORIZATION, text("a:b").parse().unwrap());
        assert!(credentials(&twice).is_err());
    }
}
