//! Who calls, and what he holds: a session by the token that a login gave, or one of a connection and a role where each
//! call says who it is.
//!
//! # Invariants
//! - A token and all other handles are random, 16 bytes, and are good in their session alone.
//! - A token ends when its role's password changes, when nothing was called by it for [`TOKEN_IDLE`], and by
//!   CloseSession; the sessions of a connection end with it.
//! - What a session holds has bounds.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use nearside::{Prepared, Session, Verifier};
use parking_lot::Mutex;
use tokio::sync::RwLock;

use super::status::malformed;
use crate::access::Method;
use crate::entry::{Admitted, Entry, Refused, Whence, basic, method, rejected};
use crate::fault::{Fault, codes};
use crate::outgoing::{Ender, Outgoing};
use crate::shared::Shared;
use crate::statement::Kind;

/// How long a token is good for after the last call.
const TOKEN_IDLE: Duration = Duration::from_secs(3600);
/// How often it is looked for what has waited too long.
const LOOK: Duration = Duration::from_secs(10);
/// Prepared statements of a session.
const PREPARED_MAX: usize = 4096;
/// Results of a session whose rows are not all taken.
const RESULTS_MAX: usize = 256;
/// Roles as which one connection calls.
const ROLES_MAX: usize = 16;

/// A name that a server gives to something, and nobody guesses.
pub type Handle = Vec<u8>;

/// A new one.
///
/// # Errors
/// The system gives no random bytes.
pub fn handle() -> Result<Handle, Fault> {
    let mut bytes = [0; 16];
    let failed = |why| Fault::new(codes::INTERNAL_ERROR, format!("the system gives no random bytes: {why}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes.to_vec())
}

/// A prepared statement.
#[derive(Debug)]
pub struct Statement {
    /// Its text.
    pub sql: String,
    /// What it is.
    pub kind: Kind,
    /// Of what a session prepares.
    pub prepared: Option<Prepared>,
    /// Whether it was prepared for transactions of the session.
    pub in_transaction: bool,
    /// The rows of parameters that it is to run with.
    pub bound: Mutex<Vec<RecordBatch>>,
}

/// The rows of a statement.
#[derive(Debug)]
pub enum Held {
    /// Nobody has asked for them yet.
    Waiting(Outgoing),
    /// They are on their way.
    Going(Ender),
}

impl Held {
    fn has_ended(&self) -> bool {
        match self {
            Held::Waiting(rows) => rows.ender().has_ended(),
            Held::Going(ender) => ender.has_ended(),
        }
    }
}

/// What a caller holds.
#[derive(Debug)]
pub struct Caller {
    /// The role's name.
    pub user: String,
    /// What runs its statements.
    pub session: Session,
    /// What is kept of the role's password; another one ends the session.
    verifier: Option<Verifier>,
    used: Mutex<Instant>,
    /// Prepared statements.
    pub statements: Mutex<HashMap<Handle, Arc<Statement>>>,
    /// Results.
    pub results: Mutex<HashMap<Handle, Held>>,
    /// The transaction that it has begun.
    pub transaction: Mutex<Option<Open>>,
    /// Statements that are transactions by themselves go through it together, and one at a time what makes a
    /// transaction of several: none of the others is to become part of that.
    pub gate: Arc<RwLock<()>>,
}

/// A transaction.
#[derive(Debug, Clone)]
pub struct Open {
    /// What it is called by.
    pub id: Handle,
    /// Its savepoints, with the names that they have in the session.
    pub savepoints: Vec<(Handle, String)>,
}

impl Caller {
    fn new(admitted: &Admitted, whence: Whence, shared: &Shared) -> Result<Caller, Fault> {
        let caller = Caller {
            user: admitted.user.clone(),
            session: admitted.session(shared)?,
            verifier: admitted.verifier().cloned(),
            used: Mutex::new(Instant::now()),
            statements: Mutex::default(),
            results: Mutex::default(),
            transaction: Mutex::default(),
            gate: Arc::default(),
        };
        let (session, from, encrypted) = (caller.session.number(), whence.peer.shown(), whence.is_encrypted);
        tracing::info!(session, role = caller.user, from, door = whence.door, encrypted, "a client has come in");
        Ok(caller)
    }

    /// Keeps a prepared statement.
    ///
    /// # Errors
    /// There are too many.
    pub fn keep(&self, statement: Statement) -> Result<Handle, Fault> {
        let handle = handle()?;
        let mut all = self.statements.lock();
        within(all.len(), PREPARED_MAX, "prepared statements")?;
        all.insert(handle.clone(), Arc::new(statement));
        Ok(handle)
    }

    /// A prepared statement.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn statement(&self, handle: &[u8]) -> Result<Arc<Statement>, Fault> {
        let unknown = || {
            let message = "there is no prepared statement of this handle in the session";
            Fault::new(codes::INVALID_SQL_STATEMENT_NAME, message)
        };
        self.statements.lock().get(handle).cloned().ok_or_else(unknown)
    }

    /// Keeps rows until they are asked for.
    ///
    /// # Errors
    /// There are too many.
    pub fn hold(&self, rows: Outgoing) -> Result<Handle, Fault> {
        let handle = handle()?;
        let mut all = self.results.lock();
        if all.len() >= RESULTS_MAX {
            all.retain(|_, held| !held.has_ended());
        }
        within(all.len(), RESULTS_MAX, "results whose rows are not taken")?;
        all.insert(handle.clone(), Held::Waiting(rows));
        Ok(handle)
    }

    /// Whether nobody has called for as long as a token is good, and nothing is on its way.
    fn is_idle(&self) -> bool {
        let goes = self.results.lock().values().any(|held| !held.has_ended());
        !goes && self.used.lock().elapsed() >= TOKEN_IDLE
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        tracing::info!(session = self.session.number(), role = self.user, door = "Flight", "a client has gone");
        if self.session.transaction().is_none() {
            return;
        }
        // A transaction that is left is rolled back, which may take its time.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let session = self.session.clone();
            runtime.spawn_blocking(move || drop(session.run("ROLLBACK")));
        }
    }
}

fn within(there_are: usize, most: usize, what: &str) -> Result<(), Fault> {
    match there_are < most {
        true => Ok(()),
        false => {
            let message = format!("the session has {most} {what}; close or take some first");
            Err(Fault::new(codes::LIMIT_EXCEEDED, message))
        }
    }
}

/// Who calls over a connection.
#[derive(Debug)]
pub struct Line {
    /// From where.
    pub whence: Whence,
    callers: Mutex<HashMap<String, Arc<Caller>>>,
}

impl Line {
    /// Nobody yet.
    pub fn new(whence: Whence) -> Line {
        Line { whence, callers: Mutex::default() }
    }
}

/// Sessions by their tokens.
#[derive(Debug)]
pub struct Sessions {
    entry: Entry,
    most: usize,
    of_tokens: Mutex<HashMap<String, Arc<Caller>>>,
}

impl Sessions {
    /// None yet, and so many at most.
    pub fn new(most: usize) -> Sessions {
        Sessions { entry: Entry::default(), most, of_tokens: Mutex::default() }
    }

    /// Forgets from time to time what was not used, as long as there are sessions.
    pub async fn forget(sessions: Weak<Sessions>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(sessions) = sessions.upgrade() else { return };
            let all: Vec<(String, Arc<Caller>)> =
                sessions.of_tokens.lock().iter().map(|(token, caller)| (token.clone(), Arc::clone(caller))).collect();
            for (token, caller) in all {
                if caller.is_idle() {
                    sessions.of_tokens.lock().remove(&token);
                }
            }
        }
    }

    /// Who comes in with what a call says, or has come in before.
    ///
    /// # Errors
    /// May not, has to say who it is, or says a token that has ended.
    pub async fn caller(
        &self,
        authorization: Option<&str>,
        line: &Line,
        shared: &Arc<Shared>,
    ) -> Result<Arc<Caller>, Fault> {
        let caller = match authorization.and_then(bearer) {
            Some(token) => self.of_token(token, line, shared)?,
            None => {
                let admitted = self.admit(authorization, line, shared).await?;
                of_line(&admitted, line, shared)?
            }
        };
        *caller.used.lock() = Instant::now();
        Ok(caller)
    }

    /// A new session, and its token.
    ///
    /// # Errors
    /// Who asks may not come in; there are too many.
    pub async fn login(&self, authorization: Option<&str>, line: &Line, shared: &Arc<Shared>) -> Result<String, Fault> {
        let admitted = self.admit(authorization, line, shared).await?;
        let caller = Arc::new(Caller::new(&admitted, line.whence, shared)?);
        let token: String = [handle()?, handle()?].concat().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = self.of_tokens.lock();
        if all.len() >= self.most {
            return Err(Fault::new(codes::TOO_MANY_CONNECTIONS, "sorry, too many sessions already"));
        }
        all.insert(token.clone(), caller);
        Ok(token)
    }

    /// Ends the session of a token, or those of a connection.
    pub fn close(&self, authorization: Option<&str>, line: &Line) {
        let gone: Vec<Arc<Caller>> = match authorization.and_then(bearer) {
            Some(token) => self.of_tokens.lock().remove(token).into_iter().collect(),
            None => line.callers.lock().drain().map(|(_, caller)| caller).collect(),
        };
        drop(gone);
    }

    async fn admit(&self, authorization: Option<&str>, line: &Line, shared: &Arc<Shared>) -> Result<Admitted, Fault> {
        let said = match authorization {
            None => None,
            Some(value) => Some(basic(value).ok_or_else(|| {
                let message = "the authorization of the call is not read; send Basic with a name and a password, or \
                               Bearer with the token of a handshake";
                Fault::new(codes::INVALID_PASSWORD, message)
            })?),
        };
        let first = shared.database.session().user();
        self.entry.admit(said, &first, line.whence, shared).await.map_err(|refused| match refused {
            Refused::Asked(fault) | Refused::Forbidden(fault) => fault,
        })
    }

    fn of_token(&self, token: &str, line: &Line, shared: &Shared) -> Result<Arc<Caller>, Fault> {
        let ended = || {
            let message = "the token of the call is none, or has ended: log in again";
            Fault::new(codes::INVALID_PASSWORD, message)
        };
        let caller = self.of_tokens.lock().get(token).cloned().ok_or_else(ended)?;
        if method(&caller.user, line.whence, shared) == Method::Reject {
            return Err(rejected(&caller.user, line.whence));
        }
        let is_same = match &caller.verifier {
            None => true,
            Some(verifier) => {
                shared.database.login(&caller.user).is_some_and(|login| login.verifier() == Some(verifier))
            }
        };
        if !is_same || caller.is_idle() {
            self.of_tokens.lock().remove(token);
            return Err(ended());
        }
        Ok(caller)
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The session of a role and a connection.
fn of_line(admitted: &Admitted, line: &Line, shared: &Shared) -> Result<Arc<Caller>, Fault> {
    if let Some(caller) = line.callers.lock().get(&admitted.user)
        && caller.verifier.as_ref() == admitted.verifier()
    {
        return Ok(Arc::clone(caller));
    }
    let caller = Arc::new(Caller::new(admitted, line.whence, shared)?);
    let mut all = line.callers.lock();
    if all.len() >= ROLES_MAX && !all.contains_key(&admitted.user) {
        return Err(malformed("one connection calls as too many roles"));
    }
    all.insert(admitted.user.clone(), Arc::clone(&caller));
    Ok(caller)
}
