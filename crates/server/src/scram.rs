//! The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677, RFC 5929) as PostgreSQL speaks it.
//!
//! # Invariants
//! - A name that nobody has is answered as one that somebody has: by a verifier that no password fits.
//! - A number used once is one: the server's half of it is random, and an answer with another one is refused.
//! - A client that could bind its login to the encrypted connection and says that the server cannot is refused:
//!   somebody between them has taken the offer away.
//!
//! # Limits
//! The name within the exchange is not looked at, the connection's counts, as in PostgreSQL. The one binding is
//! `tls-server-end-point`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nearside::Verifier;

use crate::fault::{Fault, codes};

/// The mechanism.
const PLAIN: &str = "SCRAM-SHA-256";
/// The same, bound to the encrypted connection.
const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The binding.
const END_POINT: &str = "tls-server-end-point";
/// Random bytes of the server's half of the number used once.
const NONCE: usize = 18;

/// A login.
pub struct Exchange<'a> {
    verifier: &'a Verifier,
    /// What stands for the encrypted connection, where logins can be bound to it.
    binding: Option<&'a [u8]>,
}

/// One whose client has begun.
pub struct Begun {
    /// What the client has said, but for how it is bound.
    first: String,
    /// How it is bound, as it has to say again.
    header: Vec<u8>,
    nonce: String,
    /// What the server says to that.
    pub challenge: String,
}

fn malformed(why: &str) -> Fault {
    Fault::fatal(codes::PROTOCOL_VIOLATION, format!("malformed SCRAM message: {why}"))
}

impl<'a> Exchange<'a> {
    /// A login with a password of which this is kept.
    pub fn new(verifier: &'a Verifier, binding: Option<&'a [u8]>) -> Exchange<'a> {
        Exchange { verifier, binding }
    }

    /// The mechanisms that are offered, the one that is wanted first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.binding {
            Some(_) => &[PLUS, PLAIN],
            None => &[PLAIN],
        }
    }

    /// Takes the client's first message.
    ///
    /// # Errors
    /// It is none, or asks for what there is not.
    pub fn begin(&self, mechanism: &str, message: &[u8]) -> Result<Begun, Fault> {
        let mut random = [0; NONCE];
        if getrandom::fill(&mut random).is_err() {
            return Err(Fault::fatal(codes::INTERNAL_ERROR, "the system gives no random bytes"));
        }
        self.begin_with(mechanism, message, &STANDARD.encode(random))
    }

    fn begin_with(&self, mechanism: &str, message: &[u8], nonce: &str) -> Result<Begun, Fault> {
        if !self.mechanisms().contains(&mechanism) {
            return Err(Fault::fatal(
                codes::PROTOCOL_VIOLATION,
                "client selected an invalid SASL authentication mechanism",
            ));
        }
        let text = text_of(message)?;
        let (flag, rest) = text.split_once(',').ok_or_else(|| malformed("it ends early"))?;
        let (authorized, first) = rest.split_once(',').ok_or_else(|| malformed("it ends early"))?;
        match flag {
            "n" | "y" if mechanism == PLUS => {
                return Err(malformed("the mechanism is bound to the connection, and the message is not"));
            }
            "n" => {}
            "y" if self.binding.is_some() => {
                let message = "SCRAM channel binding negotiation error: the client supports channel binding and thinks \
                               that the server does not, which does";
                return Err(Fault::fatal(codes::INVALID_AUTHORIZATION, message));
            }
            "y" => {}
            _ => match flag.strip_prefix("p=") {
                Some(END_POINT) if mechanism == PLUS => {}
                Some(_) if mechanism == PLUS => {
                    let message = "unsupported SCRAM channel-binding type";
                    return Err(Fault::fatal(codes::PROTOCOL_VIOLATION, message));
                }
                Some(_) => return Err(malformed("it is bound to the connection, and the mechanism is not")),
                None => return Err(malformed("it begins with no flag of channel binding")),
            },
        }
        if !authorized.is_empty() {
            let message = "client uses authorization identity, but it is not supported";
            return Err(Fault::fatal(codes::FEATURE_NOT_SUPPORTED, message));
        }
        let mut parts = first.split(',');
        let part = parts.next().unwrap_or_default();
        if part.starts_with("m=") {
            let message = "client requires an unsupported SCRAM extension";
            return Err(Fault::fatal(codes::FEATURE_NOT_SUPPORTED, message));
        }
        if !part.starts_with("n=") {
            return Err(malformed("it has no name"));
        }
        let own = parts.next().and_then(|part| part.strip_prefix("r="));
        let own = own.filter(|nonce| !nonce.is_empty()).ok_or_else(|| malformed("it has no number used once"))?;
        if !own.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("its number used once has characters that are not printable"));
        }
        let nonce = format!("{own}{nonce}");
        let (salt, iterations) = (STANDARD.encode(self.verifier.salt()), self.verifier.iterations());
        let challenge = format!("r={nonce},s={salt},i={iterations}");
        let mut header = format!("{flag},,").into_bytes();
        if mechanism == PLUS {
            header.extend(self.binding.unwrap_or_default());
        }
        Ok(Begun { first: first.into(), header, nonce, challenge })
    }

    /// Takes the client's last message: what shows it that the server knows its password; `None` where it does not know
    /// the password.
    ///
    /// # Errors
    /// It is none, belongs to another exchange, or was bound to another connection.
    pub fn end(&self, begun: &Begun, message: &[u8]) -> Result<Option<String>, Fault> {
        let text = text_of(message)?;
        let (unproven, proof) = text.rsplit_once(",p=").ok_or_else(|| malformed("it has no proof"))?;
        let proof = STANDARD.decode(proof).map_err(|_| malformed("its proof is not readable"))?;
        let mut parts = unproven.split(',');
        let header = parts.next().and_then(|part| part.strip_prefix("c="));
        let header = header.and_then(|header| STANDARD.decode(header).ok());
        let header = header.ok_or_else(|| malformed("it does not say how it is bound"))?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if nonce != Some(begun.nonce.as_str()) {
            return Err(Fault::fatal(codes::PROTOCOL_VIOLATION, "invalid SCRAM response: nonce mismatch"));
        }
        if header != begun.header {
            return Err(Fault::fatal(codes::INVALID_AUTHORIZATION, "SCRAM channel binding check failed"));
        }
        let messages = format!("{},{},{unproven}", begun.first, begun.challenge);
        let is_proven = self.verifier.proves(messages.as_bytes(), &proof);
        let signature = STANDARD.encode(self.verifier.signature(messages.as_bytes()));
        Ok(is_proven.then(|| format!("v={signature}")))
    }
}

fn text_of(message: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(message).map_err(|_| malformed("it is no text"))?;
    match text.contains('\0') {
        true => Err(malformed("it has a zero byte")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    fn verifier(password: &str) -> Verifier {
        let database = nearside::Database::builder().threads(1).memory_bytes(1 << 26).build().unwrap();
        database.session().execute(&format!("CREATE ROLE a PASSWORD '{password}'")).unwrap();
        database.login("a").unwrap().verifier().unwrap().clone()
    }

    /// A client's login; what the server says last.
    fn login(exchange: &Exchange<'_>, mechanism: &str, binding: ChannelBinding) -> Result<Option<String>, Fault> {
        let mut client = ScramSha256::new(b"secret", binding);
        let begun = exchange.begin(mechanism, client.message())?;
        client.update(begun.challenge.as_bytes()).unwrap();
        let last = exchange.end(&begun, client.message())?;
        if let Some(last) = &last {
            client.finish(last.as_bytes()).unwrap();
        }
        Ok(last)
    }

    #[test]
    fn logins_are_bound_where_both_can() {
        let verifier = verifier("secret");
        let (plain, bound) = (Exchange::new(&verifier, None), Exchange::new(&verifier, Some(b"hash")));
        assert!(login(&plain, PLAIN, ChannelBinding::unsupported()).unwrap().is_some());
        assert!(login(&plain, PLAIN, ChannelBinding::unrequested()).unwrap().is_some());
        assert!(login(&bound, PLAIN, ChannelBinding::unsupported()).unwrap().is_some());
        assert!(login(&bound, PLUS, ChannelBinding::tls_server_end_point(b"hash".to_vec())).unwrap().is_some());
        // Another connection than the client's; one that somebody has taken the offer from; no binding by that name.
        let other = login(&bound, PLUS, ChannelBinding::tls_server_end_point(b"other".to_vec()));
        assert_eq!(other.unwrap_err().code, codes::INVALID_AUTHORIZATION);
        let taken = login(&bound, PLAIN, ChannelBinding::unrequested());
        assert_eq!(taken.unwrap_err().code, codes::INVALID_AUTHORIZATION);
        assert!(login(&plain, PLUS, ChannelBinding::tls_server_end_point(b"hash".to_vec())).is_err());
        assert!(login(&bound, PLUS, ChannelBinding::unsupported()).is_err());
        assert!(login(&bound, PLAIN, ChannelBinding::tls_server_end_point(b"hash".to_vec())).is_err());
    }

    #[test]
    fn nobody_is_let_in_by_what_is_made_up() {
        let nobody = Verifier::of_nobody(&[1; 32], "a");
        let exchange = Exchange::new(&nobody, None);
        assert_eq!(login(&exchange, PLAIN, ChannelBinding::unsupported()).unwrap(), None);
        let another = verifier("another");
        assert_eq!(login(&Exchange::new(&another, None), PLAIN, ChannelBinding::unsupported()).unwrap(), None);
    }

    #[test]
    fn every_cut_and_every_other_byte_of_a_proof_fails() {
        let verifier = verifier("secret");
        let exchange = Exchange::new(&verifier, None);
        let mut client = ScramSha256::new(b"secret", ChannelBinding::unsupported());
        let begun = exchange.begin(PLAIN, client.message()).unwrap();
        client.update(begun.challenge.as_bytes()).unwrap();
        let proof = client.message().to_vec();
        assert!(exchange.end(&begun, &proof).unwrap().is_some());
        for place in 0..proof.len() {
            assert!(!matches!(exchange.end(&begun, &proof[..place]), Ok(Some(_))), "{place}");
            let mut spoilt = proof.clone();
            spoilt[place] ^= 1;
            assert!(!matches!(exchange.end(&begun, &spoilt), Ok(Some(_))), "{place}");
        }
    }
}
