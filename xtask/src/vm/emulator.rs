//! Starts QEMU and waits for its end, with a limit, while what the tests print is handed on line by line.
//!
//! # Limits
//! Output is polled four times a second, so the end is seen that much later.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";
const POLL: Duration = Duration::from_millis(250);

/// How it ended.
#[derive(Debug)]
pub enum End {
    /// By itself.
    Ended(ExitStatus),
    /// It was killed, since the time was over.
    TimedOut,
}

/// Starts QEMU with these arguments. The error says what to install when it is not there.
pub fn start(arguments: &[String]) -> Result<Child, String> {
    let started = Command::new(QEMU).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{QEMU} is not installed; on Debian and Ubuntu: apt-get install qemu-system-x86")
        }
        _ => format!("{QEMU} cannot be started: {error}"),
    })
}

/// Waits for `child`, at most until `deadline`, and gives each line of the growing file `results` to `line`.
pub fn wait(child: &mut Child, results: &Path, deadline: Instant, line: &mut dyn FnMut(&str)) -> Result<End, String> {
    let mut follow = Follow::default();
    loop {
        let ended = child.try_wait().map_err(|error| format!("{QEMU} cannot be waited for: {error}"))?;
        follow.read(results, line);
        if let Some(status) = ended {
            follow.rest(line);
            return Ok(End::Ended(status));
        }
        if Instant::now() >= deadline {
            // It may have ended just now; either way it is gone afterwards.
            let _ = child.kill();
            let _ = child.wait();
            follow.read(results, line);
            follow.rest(line);
            return Ok(End::TimedOut);
        }
        std::thread::sleep(POLL);
    }
}

/// Reads what a file has grown by, in whole lines.
#[derive(Default)]
pub struct Follow {
    file: Option<File>,
    open: Vec<u8>,
}

impl Follow {
    /// Gives each line that the file has more than at the last call; none while it is not there.
    pub fn read(&mut self, path: &Path, line: &mut dyn FnMut(&str)) {
        // The file appears when QEMU has started; no file is no lines, and no lines are a fault of the report.
        if self.file.is_none() {
            self.file = File::open(path).ok();
        }
        let Some(file) = &mut self.file else { return };
        if file.read_to_end(&mut self.open).is_err() {
            return;
        }
        let whole = self.open.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.open.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().for_each(line);
    }

    fn rest(&mut self, line: &mut dyn FnMut(&str)) {
        if !self.open.is_empty() {
            line(&String::from_utf8_lossy(&std::mem::take(&mut self.open)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in the place of QEMU, writing to the file that is followed.
    fn run(script: &str, limit: Duration) -> (End, Vec<String>) {
        let folder = std::env::temp_dir().join(format!("xtask-vm-{}-{}", std::process::id(), script.len()));
        std::fs::create_dir_all(&folder).unwrap();
        let results = folder.join("results");
        let mut child = Command::new("sh").arg("-c").arg(script).arg("sh").arg(&results).spawn().unwrap();
        let mut lines = Vec::new();
        let end = wait(&mut child, &results, Instant::now() + limit, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(child.try_wait().unwrap().is_some(), "it is gone");
        std::fs::remove_dir_all(&folder).unwrap();
        (end, lines)
    }

    #[test]
    fn lines_are_whole_and_the_status_is_kept() {
        let (end, lines) =
            run("printf 'a\\nb' >$1; sleep 0.6; printf 'c\\r\\nd' >>$1; exit 3", Duration::from_secs(60));
        assert_eq!(lines, ["a", "bc", "d"]);
        assert!(matches!(end, End::Ended(status) if status.code() == Some(3)), "{end:?}");
    }

    #[test]
    fn what_hangs_is_ended() {
        let (end, lines) = run("echo begun >$1; exec sleep 600", Duration::from_millis(600));
        assert!(matches!(end, End::TimedOut), "{end:?}");
        assert_eq!(lines, ["begun"]);
    }
}
