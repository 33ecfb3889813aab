//! The settings file of `nearside serve`, in TOML: every option of the command, and the rules of access.
//!
//! What the command line says wins over the file. `docs/server.md` describes every setting; a name that it does not
//! have is an error.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use server::{Access, Rule};
use tools::failure::Failure;
use tools::size::Size;

use crate::log::Format;

/// What a file says; nothing of what it does not name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsFile {
    /// As `--database`.
    pub database: Option<PathBuf>,
    /// As `--listen`.
    #[serde(default)]
    listen: Vec<String>,
    /// As `--socket`.
    pub socket: Option<PathBuf>,
    /// As `--http`.
    #[serde(default)]
    http: Vec<String>,
    /// As `--flight`.
    #[serde(default)]
    flight: Vec<String>,
    /// As `--reader-timeout`.
    pub reader_timeout: Option<u64>,
    /// As `--connections`.
    pub connections: Option<u32>,
    /// As `--threads`.
    pub threads: Option<u16>,
    /// As `--memory`.
    memory: Option<String>,
    /// As `--drain`.
    pub drain: Option<u64>,
    /// As `--log-format`.
    log_format: Option<String>,
    /// As `--log-connections`.
    #[serde(default)]
    pub log_connections: bool,
    /// As `--traces`.
    pub traces: Option<String>,
    /// As `--trace-ratio`.
    pub trace_ratio: Option<f64>,
    /// As `--trace-texts`.
    #[serde(default)]
    pub trace_texts: bool,
    /// Heads that are sent with traces, by their names.
    #[serde(default)]
    pub trace_headers: HashMap<String, String>,
    /// As `--tls-cert`.
    pub tls_cert: Option<PathBuf>,
    /// As `--tls-key`.
    pub tls_key: Option<PathBuf>,
    access: Option<Vec<RuleOfFile>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleOfFile {
    from: String,
    role: Option<String>,
    tls: Option<bool>,
    method: String,
}

impl SettingsFile {
    /// Reads a file; without one nothing is said.
    ///
    /// # Errors
    /// It cannot be read, or says what is no setting: where.
    pub fn read(path: Option<&Path>) -> Result<SettingsFile, Failure> {
        let Some(path) = path else { return Ok(SettingsFile::default()) };
        let of_file = |why: &str| Failure::new(format!("settings file {}: {}", path.display(), why.trim_end()));
        let text = fs::read_to_string(path).map_err(|why| of_file(&why.to_string()))?;
        let file: SettingsFile = toml::from_str(&text).map_err(|why| {
            let line = why.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            of_file(&format!("line {line}: {}", why.message().replace('\n', " ")))
        })?;
        // What is wrong with any of it is said at once.
        file.listen()
            .and_then(|_| file.http())
            .and_then(|_| file.flight())
            .and_then(|_| file.log_format())
            .and_then(|_| file.memory().map(|_| ()))
            .and_then(|()| file.access().map(|_| ()))
            .map_err(|why| of_file(&why))?;
        if file.connections.is_some_and(|n| !(1..=100_000).contains(&n)) {
            return Err(of_file("connections is a number from 1 to 100000"));
        }
        if file.threads.is_some_and(|n| n == 0 || usize::from(n) > sched::Config::THREADS_MAX) {
            return Err(of_file(&format!("threads is a number from 1 to {}", sched::Config::THREADS_MAX)));
        }
        Ok(file)
    }

    /// The addresses.
    ///
    /// # Errors
    /// One that is none.
    pub fn listen(&self) -> Result<Vec<SocketAddr>, String> {
        addresses(&self.listen)
    }

    /// The addresses of HTTP.
    ///
    /// # Errors
    /// One that is none.
    pub fn http(&self) -> Result<Vec<SocketAddr>, String> {
        addresses(&self.http)
    }

    /// The addresses of Arrow Flight SQL.
    ///
    /// # Errors
    /// One that is none.
    pub fn flight(&self) -> Result<Vec<SocketAddr>, String> {
        addresses(&self.flight)
    }

    /// The form of the log.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn log_format(&self) -> Result<Option<Format>, String> {
        self.log_format.as_deref().map(str::parse).transpose()
    }

    /// The memory.
    ///
    /// # Errors
    /// It is no size.
    pub fn memory(&self) -> Result<Option<Size>, String> {
        self.memory.as_deref().map(Size::from_str).transpose()
    }

    /// The rules of access.
    ///
    /// # Errors
    /// One that is none.
    pub fn access(&self) -> Result<Access, String> {
        let rule = |(place, of): (usize, &RuleOfFile)| {
            let wrong = |why: String| format!("rule {} of access: {why}", place + 1);
            Ok(Rule {
                from: of.from.parse().map_err(wrong)?,
                role: of.role.clone(),
                tls: of.tls,
                method: of.method.parse().map_err(wrong)?,
            })
        };
        let rules = self.access.as_ref().map(|rules| rules.iter().enumerate().map(rule).collect::<Result<_, String>>());
        rules.transpose().map(Access)
    }
}

fn addresses(texts: &[String]) -> Result<Vec<SocketAddr>, String> {
    texts.iter().map(|text| parse_address(text)).collect()
}

/// `HOST:PORT`.
///
/// # Errors
/// No address has that name.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: String| format!("{why}; write it as HOST:PORT, for example 127.0.0.1:5432");
    let mut found = text.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("no address has that name".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SettingsFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nearside.toml");
        fs::write(&path, text).unwrap();
        SettingsFile::read(Some(&path)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_setting_is_read() {
        let file = read(
            "database = 'shop'\nlisten = ['127.0.0.1:0']\nhttp = ['127.0.0.1:1']\nflight = ['127.0.0.1:2']\n\
             reader_timeout = 7\nlog_format = 'json'\nlog_connections = true\n\
             traces = 'http://a'\ntrace_ratio = 0.5\ntrace_texts = true\ntrace_headers = { 'x-key' = 'b' }\n\
             socket = '/run'\nconnections = 7\nthreads = 2\n\
             memory = '1GiB'\ndrain = 3\ntls_cert = 'a'\ntls_key = 'b'\n\
             [[access]]\nfrom = '10.0.0.0/8'\nrole = 'ann'\ntls = true\nmethod = 'scram'\n\
             [[access]]\nfrom = 'any'\nmethod = 'reject'\n",
        )
        .unwrap();
        assert_eq!(file.listen().unwrap(), ["127.0.0.1:0".parse().unwrap()]);
        assert_eq!(file.http().unwrap(), ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(file.flight().unwrap(), ["127.0.0.1:2".parse().unwrap()]);
        assert_eq!((file.reader_timeout, file.log_format().unwrap()), (Some(7), Some(Format::Json)));
        assert!(file.log_connections && file.trace_texts);
        assert_eq!((file.traces.as_deref(), file.trace_ratio), (Some("http://a"), Some(0.5)));
        assert_eq!(file.trace_headers["x-key"], "b");
        assert_eq!(file.memory().unwrap(), Some(Size::Bytes(1 << 30)));
        let rules = file.access().unwrap().0.unwrap();
        assert_eq!((rules.len(), rules[0].tls, rules[1].tls), (2, Some(true), None));
        assert!(read("").unwrap().access().unwrap().0.is_none());
    }

    #[test]
    fn what_is_no_setting_is_told() {
        for (text, told) in [
            ("listens = []", "listens"),
            ("listen = ['nowhere']", "HOST:PORT"),
            ("memory = 'much'", "much"),
            ("log_format = 'xml'", "text and json"),
            ("connections = 0", "connections"),
            ("threads = 0", "threads"),
            ("trace_ratio = 'all'", "f64"),
            ("[[access]]\nfrom = 'any'", "method"),
            ("[[access]]\nfrom = 'any'\nmethod = 'md5'", "rule 1 of access"),
            ("[[access]]\nfrom = '10.0.0.0/99'\nmethod = 'trust'", "10.0.0.0/99"),
        ] {
            let failed = read(text).unwrap_err();
            assert!(failed.contains(told) && failed.contains("nearside.toml"), "{text}: {failed}");
        }
    }

    #[test]
    fn the_file_of_the_packages_is_read_and_names_every_setting() {
        const PACKAGED: &str = include_str!("../../../packaging/nearside.toml");
        let file = read(PACKAGED).unwrap();
        assert_eq!(file.database.as_deref(), Some(Path::new("/var/lib/nearside/data")));
        // What is commented out is a setting too.
        let all: String = PACKAGED
            .lines()
            .map(|line| line.strip_prefix('#').filter(|text| !text.starts_with(' ')))
            .zip(PACKAGED.lines())
            .map(|(without, line)| format!("{}\n", without.unwrap_or(line)))
            .collect();
        let file = read(&all).unwrap();
        assert_eq!((file.http().unwrap().len(), file.flight().unwrap().len()), (1, 1));
        assert_eq!(file.access().unwrap().0.map(|rules| rules.len()), Some(2));
        let said = [file.threads.is_some(), file.drain.is_some(), file.connections.is_some()];
        assert!(said.iter().all(|is| *is) && file.reader_timeout.is_some() && file.memory().unwrap().is_some());
        assert!(file.traces.is_some() && file.trace_ratio.is_some() && file.trace_texts);
        assert!(!file.trace_headers.is_empty());
        assert!(file.socket.is_some() && file.tls_cert.is_some() && file.tls_key.is_some());
    }
}
