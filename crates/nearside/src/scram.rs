//! Passwords as SCRAM-SHA-256 (RFC 5802, RFC 7677) keeps and checks them.
//!
//! A password is never kept: what is kept is a [`Verifier`], whose text is PostgreSQL's,
//! `SCRAM-SHA-256$4096:salt$stored key:server key`. Who has it can check a login and cannot log in with it.
//!
//! # Invariants
//! - What is secret is compared in constant time, and is not in what `{:?}` writes.
//!
//! # Limits
//! SHA-256 alone. A password that SASLprep (RFC 4013) does not take is used as it is, as PostgreSQL's clients do.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How often a password is hashed, as PostgreSQL does.
const ITERATIONS: u32 = 4096;
/// Bytes of salt.
const SALT: usize = 16;
/// What the texts of verifiers begin with.
const SCHEME: &str = "SCRAM-SHA-256$";
/// The longest text of a verifier that is read.
const TEXT_MAX: usize = 1024;

type Hash = [u8; 32];

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Hash,
    server_key: Hash,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] = [&self.salt[..], &self.stored_key, &self.server_key].map(|b| STANDARD.encode(b));
        write!(f, "{SCHEME}{}:{salt}${stored}:{server}", self.iterations)
    }
}

impl Verifier {
    /// That of a password, with a salt of its own; `None` where the system gives no random bytes.
    pub(crate) fn of_password(password: &str) -> Option<Verifier> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt).ok()?;
        Some(Verifier::with_salt(password, &salt, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        let salted = salted(prepared(password).as_bytes(), salt, iterations);
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: Sha256::digest(mac(&salted, &[b"Client Key"])).into(),
            server_key: mac(&salted, &[b"Server Key"]),
        }
    }

    /// What a text says, if it is one of a verifier.
    pub(crate) fn parse(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix(SCHEME).filter(|_| text.len() <= TEXT_MAX)?;
        let (work, keys) = rest.split_once('$')?;
        let ((iterations, salt), (stored, server)) = (work.split_once(':')?, keys.split_once(':')?);
        let hash = |text: &str| Hash::try_from(STANDARD.decode(text).ok()?).ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|n| (1..=i32::MAX as u32).contains(n))?,
            salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
            stored_key: hash(stored)?,
            server_key: hash(server)?,
        })
    }

    /// One that no password fits, for a name that nobody has: the same each time for the same name, so that nobody
    /// tells by it that there is none.
    pub fn of_nobody(secret: &[u8; 32], name: &str) -> Verifier {
        let salt = mac(secret, &[b"salt", name.as_bytes()]);
        let [stored_key, server_key] = [&b"stored"[..], b"server"].map(|what| mac(secret, &[what, name.as_bytes()]));
        Verifier { iterations: ITERATIONS, salt: salt[..SALT].to_vec(), stored_key, server_key }
    }

    /// Whether a password is the one.
    pub fn is_of(&self, password: &str) -> bool {
        let found = Verifier::with_salt(password, &self.salt, self.iterations);
        bool::from(found.stored_key.as_slice().ct_eq(&self.stored_key))
    }

    /// How often the password is hashed.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// What the password is hashed with.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Whether a client's proof shows that it knows the password. `messages`: what was said so far, as RFC 5802 puts it
    /// together.
    pub fn proves(&self, messages: &[u8], proof: &[u8]) -> bool {
        let mut key = mac(&self.stored_key, &[messages]);
        let has_length = proof.len() == key.len();
        key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        let found = Sha256::digest(key);
        has_length & bool::from(found.as_slice().ct_eq(&self.stored_key))
    }

    /// What shows a client that the server knows its password.
    pub fn signature(&self, messages: &[u8]) -> [u8; 32] {
        mac(&self.server_key, &[messages])
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hash {
    let mut mac = keyed(key);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // A key of any length is one.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

/// `Hi` of RFC 5802, section 2.2.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> Hash {
    let of_password = keyed(password);
    let mut step = of_password.clone();
    step.update(salt);
    step.update(&1_u32.to_be_bytes());
    let mut last: Hash = step.finalize().into_bytes().into();
    let mut all = last;
    for _ in 1..iterations {
        let mut step = of_password.clone();
        step.update(&last);
        last = step.finalize().into_bytes().into();
        all.iter_mut().zip(last).for_each(|(all, byte)| *all ^= byte);
    }
    all
}

fn prepared(password: &str) -> Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    const FIRST: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SECOND: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    #[test]
    fn the_example_of_the_standard_is_proven() {
        let verifier = Verifier::with_salt("pencil", &STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), 4096);
        let messages = format!("{FIRST},{SECOND},{LAST}");
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        assert!(verifier.proves(messages.as_bytes(), &proof));
        assert!(!verifier.proves(messages.as_bytes(), &proof[..31]) && !verifier.proves(b"", &proof));
        let signature = STANDARD.encode(verifier.signature(messages.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_verifier_is_its_text() {
        let verifier = Verifier::of_password("secret").unwrap();
        let text = verifier.to_string();
        assert_eq!(Verifier::parse(&text), Some(verifier.clone()));
        assert!(!format!("{verifier:?}").contains(&text[20..40]));
        for wrong in ["", "secret", "SCRAM-SHA-256$", "SCRAM-SHA-256$0:AAAA$AAAA:AAAA", &text[..text.len() - 1]] {
            assert_eq!(Verifier::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobody_has_the_same_salt_each_time() {
        let of = |name: &str| Verifier::of_nobody(&[7; 32], name);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a").salt(), of("b").salt());
        assert_eq!(of("a").salt().len(), SALT);
    }

    #[test]
    fn passwords_are_prepared() {
        let of = |password: &str| Verifier::with_salt(password, b"salt", 2);
        // A soft hyphen is nothing.
        assert_eq!(of("I\u{AD}X"), of("IX"));
        assert_ne!(of("ix"), of("IX"));
        // A control character is nothing that SASLprep takes: the password is used as it is.
        assert_ne!(of("a\u{7}"), of("a"));
    }
}
