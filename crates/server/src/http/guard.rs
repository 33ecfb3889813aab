//! Who is let in: this machine's own programs and the page that comes from here, not pages of others in a browser.
//!
//! A page of another site may have a browser send requests here, and by a name that it controls (DNS rebinding) read
//! the answers too. The name by which the server was asked, and the site that asks, are what a page cannot choose.

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};

/// What browsers say of where a request comes from.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is not let in. Where it is encrypted, the client has seen by the certificate that the name is the
/// server's, whatever it is.
///
/// # Errors
/// One sentence.
pub fn let_in(heads: &HeaderMap, is_encrypted: bool) -> Result<(), String> {
    let mut hosts = heads.get_all(HOST).iter();
    let host = match (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) {
        (Some(host), None) => host,
        _ => return Err("the request does not say once by which Host it was sent".into()),
    };
    if !is_encrypted && !is_here(name_of(host)) {
        return Err(format!(
            "requests by the name '{}' are not answered; use localhost, 127.0.0.1 or [::1]",
            host.escape_default()
        ));
    }
    let foreign = || Err("requests of another site's pages are not answered".to_string());
    if let Some(origin) = heads.get(ORIGIN) {
        let scheme = if is_encrypted { "https://" } else { "http://" };
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme)).is_some_and(|of| of == host);
        if !own {
            return foreign();
        }
    }
    match heads.get(SITE).map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => foreign(),
    }
}

/// The kind of a body without its parameters, in small letters; empty where the request does not say.
pub fn kind(heads: &HeaderMap) -> String {
    let kind = heads.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    }
}

fn is_here(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "[::1]"] {
            assert_eq!(let_in(&heads(&[("host", host)]), false), Ok(()), "{host}");
        }
        let strangers = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "[::2]:1",
            "::1",
            "",
            "localhost:",
            "0.0.0.0:80",
            "10.0.0.1",
        ];
        for host in strangers {
            assert!(let_in(&heads(&[("host", host)]), false).is_err(), "{host}");
        }
        assert!(let_in(&HeaderMap::new(), false).is_err());
        let mut twice = heads(&[("host", "localhost")]);
        twice.append(HOST, "localhost".parse().unwrap());
        assert!(let_in(&twice, false).is_err());
    }

    #[test]
    fn pages_of_other_sites_are_not_answered() {
        let of = |more: &[(&'static str, &'static str)]| {
            let mut all = heads(&[("host", "localhost:80")]);
            all.extend(heads(more));
            let_in(&all, false).is_ok()
        };
        assert!(of(&[("origin", "http://localhost:80")]));
        assert!(of(&[("sec-fetch-site", "same-origin")]) && of(&[("sec-fetch-site", "none")]));
        for origin in ["http://localhost:81", "https://localhost:80", "null", "http://evil.example"] {
            assert!(!of(&[("origin", origin)]), "{origin}");
        }
        assert!(!of(&[("sec-fetch-site", "cross-site")]) && !of(&[("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn a_body_s_kind_is_told_without_its_parameters() {
        assert_eq!(kind(&heads(&[("content-type", "Application/JSON; charset=utf-8")])), "application/json");
        assert_eq!(kind(&HeaderMap::new()), "");
    }
}
