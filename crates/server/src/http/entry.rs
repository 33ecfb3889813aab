//! Who a request comes from: its name and password come with it (RFC 7617).

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Request, StatusCode};
use nearside::Session;

use super::answer::{Answer, refused};
use crate::entry::{Credentials, Entry, Refused, Whence, basic};
use crate::fault::{Fault, codes};
use crate::shared::Shared;

/// A session of who sends a request; `first` is a session of the role that a database begins with, which it is that
/// says no name.
///
/// # Errors
/// The answer to who may not come in, or has to say who he is.
pub async fn session<B>(
    entry: &Entry,
    request: &Request<B>,
    first: &Session,
    shared: &Arc<Shared>,
) -> Result<Session, Box<Answer>> {
    let forbidden = |fault: Fault| Box::new(refused(StatusCode::FORBIDDEN, fault.code, fault.message));
    let said = credentials(request.headers())?;
    let Some(from) = request.extensions().get::<Whence>() else {
        return Err(forbidden(Fault::new(codes::INVALID_AUTHORIZATION, "a request from nowhere")));
    };
    match entry.admit(said, &first.user(), *from, shared).await {
        Ok(admitted) => admitted.session(shared).map_err(forbidden),
        Err(Refused::Forbidden(fault)) => Err(forbidden(fault)),
        Err(Refused::Asked(fault)) => Err(asked(fault.message)),
    }
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
    let said = value.to_str().ok().filter(|_| all.next().is_none()).and_then(basic);
    match said {
        Some(said) => Ok(Some(said)),
        None => Err(asked("the Authorization of the request is not read; send Basic with a name and a password once")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_a_request_comes_from_is_said_once() {
        assert!(credentials(&HeaderMap::new()).is_ok_and(|said| said.is_none()));
        let mut heads = HeaderMap::new();
        heads.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert!(credentials(&heads).is_ok_and(|said| said.is_some_and(|said| said.user == "a")));
        heads.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert!(credentials(&heads).is_err());
    }
}
