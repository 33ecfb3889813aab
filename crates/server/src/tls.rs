//! [`Tls`]: encrypted connections, by rustls.
//!
//! # Limits
//! Clients are not asked for certificates. A client asks for encryption by PostgreSQL's message first; who begins with
//! TLS at once is refused.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio_rustls::TlsAcceptor;

/// See the module.
pub struct Tls {
    /// Who does it.
    pub acceptor: TlsAcceptor,
    /// What stands for the server's certificate where logins are bound to it (RFC 5929, section 4.1); `None` where it
    /// is signed in a way for which nothing is laid down.
    pub end_point: Option<Vec<u8>>,
}

impl Tls {
    /// Who does it for clients that say by its name what they speak then.
    pub fn speaking(&self, protocol: &[u8]) -> TlsAcceptor {
        let mut config = ServerConfig::clone(self.acceptor.config());
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

fn wrong(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl Tls {
    /// Reads a certificate, with those that it is signed by behind it, and its key, both as PEM.
    ///
    /// # Errors
    /// Files that are not there or hold something else; a key that others may read; a key of another certificate.
    pub fn load(certificate: &Path, key: &Path) -> io::Result<Tls> {
        let cannot = |path: &Path, why: &dyn std::fmt::Display| wrong(format!("cannot read {}: {why}", path.display()));
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|why| cannot(certificate, &why))?;
        let Some(own) = chain.first() else {
            return Err(wrong(format!("{} has no certificate in it", certificate.display())));
        };
        let end_point = end_point(own);
        let mode = std::fs::metadata(key).map_err(|why| cannot(key, &why))?.mode();
        if mode & 0o077 != 0 {
            let message = format!("others may read {}: take that from them with chmod 600", key.display());
            return Err(wrong(message));
        }
        let of_key = PrivateKeyDer::from_pem_file(key).map_err(|why| cannot(key, &why))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| wrong(format!("TLS is not to be had: {why}")))?
            .with_no_client_auth()
            .with_single_cert(chain, of_key)
            .map_err(|why| wrong(format!("{} and {}: {why}", certificate.display(), key.display())))?;
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
    }
}

/// The certificate by the hash that its signature uses, SHA-256 where that is MD5 or SHA-1.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let algorithm = signature_algorithm(certificate)?;
    let sha256 = || Sha256::digest(certificate).to_vec();
    let sha384 = || Sha384::digest(certificate).to_vec();
    let sha512 = || Sha512::digest(certificate).to_vec();
    let rsa = algorithm.strip_prefix(RSA);
    let ecdsa = algorithm.strip_prefix(ECDSA);
    match (rsa, ecdsa) {
        // MD5, SHA-1, SHA-256; SHA-384; SHA-512.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(sha256()),
        (Some([12]), _) | (_, Some([3, 3])) => Some(sha384()),
        (Some([13]), _) | (_, Some([3, 4])) => Some(sha512()),
        _ => None,
    }
}

/// The object identifier of a certificate's signature: `SEQUENCE { what is signed, SEQUENCE { identifier, .. }, .. }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const IDENTIFIER: u8 = 0x06;
    let (all, _) = element(certificate, SEQUENCE)?;
    let (_, behind) = element(all, SEQUENCE)?;
    let (algorithm, _) = element(behind, SEQUENCE)?;
    element(algorithm, IDENTIFIER).map(|(identifier, _)| identifier)
}

/// The contents of an element of DER, and what is behind it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |all, digit| all << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| *first == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_are_none_have_no_algorithm() {
        let certificate = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let der = certificate.cert.der();
        assert_eq!(end_point(der).map(|hash| hash.len()), Some(32));
        for length in 0..der.len() {
            assert_eq!(end_point(&der[..length]), None, "{length}");
        }
    }
}
