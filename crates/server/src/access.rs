//! [`Access`]: who may come in from where, and what he has to show.
//!
//! The first rule that fits decides, as in PostgreSQL's `pg_hba.conf`; whom none fits is sent away. A rule names no
//! database, since there is one.
//!
//! # Invariants
//! - What is decided depends on what is told here alone: no name is looked up, no clock is read.

use std::net::IpAddr;
use std::str::FromStr;

/// What a client has to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Nothing: it is who it says.
    Trust,
    /// That it knows the role's password (SCRAM-SHA-256).
    Scram,
    /// It is sent away.
    Reject,
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        match text {
            "trust" => Ok(Method::Trust),
            "scram" | "scram-sha-256" => Ok(Method::Scram),
            "reject" => Ok(Method::Reject),
            other => Err(format!("'{other}' is no method; there are trust, scram and reject")),
        }
    }
}

/// From where a client comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The Unix socket.
    Socket,
    /// An address.
    Address(IpAddr),
}

impl Peer {
    /// An address, one of IPv4 as such however it arrives.
    pub fn of(address: IpAddr) -> Peer {
        Peer::Address(address.to_canonical())
    }

    /// The address, if it has one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Peer::Socket => None,
            Peer::Address(address) => Some(*address),
        }
    }

    /// In words.
    pub fn shown(&self) -> String {
        match self {
            Peer::Socket => "the Unix socket".into(),
            Peer::Address(address) => address.to_string(),
        }
    }
}

/// From where clients come that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Anywhere.
    Any,
    /// The Unix socket.
    Socket,
    /// This machine, by an address.
    Loopback,
    /// Addresses that begin with so many bits of this one.
    Network(IpAddr, u8),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        let wrong = || {
            format!(
                "'{text}' is no origin; there are any, socket, loopback, addresses like 10.1.2.3, and networks like \
                 10.0.0.0/8"
            )
        };
        match text {
            "any" => return Ok(Origin::Any),
            "socket" => return Ok(Origin::Socket),
            "loopback" => return Ok(Origin::Loopback),
            _ => {}
        }
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
        Ok(Origin::Network(address, bits))
    }
}

impl Origin {
    fn has(&self, peer: &Peer) -> bool {
        match (self, peer) {
            (Origin::Any, _) | (Origin::Socket, Peer::Socket) => true,
            (Origin::Loopback, Peer::Address(address)) => address.is_loopback(),
            (Origin::Network(network, bits), Peer::Address(address)) => begins_alike(*network, *address, *bits),
            _ => false,
        }
    }
}

fn begins_alike(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let (one, other, width) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits()), u128::from(other.to_bits()), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    bits == 0 || (one ^ other) >> (width - u32::from(bits)) == 0
}

/// What holds for clients from somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// From where.
    pub from: Origin,
    /// As whom, where it is about one role alone.
    pub role: Option<String>,
    /// Whether the connection is encrypted, where it is about those alone that are, or are not.
    pub tls: Option<bool>,
    /// What they have to show.
    pub method: Method,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access(
    /// The rules; without any, the Unix socket is trusted, who comes by a loopback address has to know a password once
    /// a role has one, and everybody else has to know one and to encrypt.
    pub Option<Vec<Rule>>,
);

impl Access {
    /// What a client has to show. `has_passwords`: a role has one.
    pub(crate) fn method(&self, peer: &Peer, role: &str, is_encrypted: bool, has_passwords: bool) -> Method {
        let Some(rules) = &self.0 else {
            return match peer {
                Peer::Socket => Method::Trust,
                Peer::Address(address) if address.is_loopback() && !has_passwords => Method::Trust,
                Peer::Address(address) if address.is_loopback() || is_encrypted => Method::Scram,
                Peer::Address(_) => Method::Reject,
            };
        };
        let fits = |rule: &&Rule| {
            rule.from.has(peer)
                && rule.role.as_ref().is_none_or(|only| only == role)
                && rule.tls.is_none_or(|only| only == is_encrypted)
        };
        rules.iter().find(fits).map_or(Method::Reject, |rule| rule.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::of(text.parse().unwrap())
    }

    #[test]
    fn without_rules_others_need_a_password_and_encryption() {
        let of =
            |peer: Peer, is_encrypted, has_passwords| Access::default().method(&peer, "a", is_encrypted, has_passwords);
        assert_eq!(of(Peer::Socket, false, true), Method::Trust);
        assert_eq!(of(peer("127.0.0.1"), false, false), Method::Trust);
        assert_eq!(of(peer("::1"), false, true), Method::Scram);
        assert_eq!(of(peer("10.0.0.1"), false, true), Method::Reject);
        assert_eq!(of(peer("10.0.0.1"), true, false), Method::Scram);
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |from: &str, role: Option<&str>, tls, method: &str| Rule {
            from: from.parse().unwrap(),
            role: role.map(str::to_string),
            tls,
            method: method.parse().unwrap(),
        };
        let access = Access(Some(vec![
            rule("10.1.0.0/16", Some("eve"), None, "reject"),
            rule("10.0.0.0/8", None, Some(true), "scram"),
            rule("fd00::/8", None, None, "scram"),
            rule("192.168.1.7", None, None, "trust"),
        ]));
        let of = |from: &str, role: &str, tls: bool| access.method(&peer(from), role, tls, true);
        assert_eq!(of("10.1.2.3", "eve", true), Method::Reject);
        assert_eq!(of("10.1.2.3", "ann", true), Method::Scram);
        assert_eq!(of("::ffff:10.1.2.3", "ann", true), Method::Scram);
        assert_eq!(of("10.1.2.3", "ann", false), Method::Reject);
        assert_eq!((of("fd12::1", "a", false), of("fe80::1", "a", false)), (Method::Scram, Method::Reject));
        assert_eq!((of("192.168.1.7", "a", false), of("192.168.1.8", "a", false)), (Method::Trust, Method::Reject));
        assert_eq!(access.method(&Peer::Socket, "a", false, true), Method::Reject);
    }

    #[test]
    fn origins_are_read_or_refused() {
        for wrong in ["", "10.0.0.0/33", "10.0.0", "::/129", "host", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
        assert_eq!("0.0.0.0/0".parse::<Origin>(), Ok(Origin::Network("0.0.0.0".parse().unwrap(), 0)));
    }
}
