//! A terminal for the program under test, and signals to it.
//!
//! # Limits
//! Output is matched as text with the escape sequences of line editing in it; expected texts should not span redraws.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own.
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown since the last match.
    shown: String,
}

impl Terminal {
    /// Starts `command` on a terminal of 120 columns, which is its controlling one.
    pub fn start(mut command: Command) -> Terminal {
        let (ours, theirs) = open();
        let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        command.env("TERM", "xterm").stdin(copy()).stdout(copy()).stderr(copy());
        // SAFETY: between fork and exec only these two system calls are made; neither allocates or takes a lock.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().expect("the program starts");
        drop((command, theirs));
        let keyboard = File::from(ours);
        let mut output = keyboard.try_clone().expect("a descriptor");
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal fails with EIO once the program has ended.
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keyboard, screen, shown: String::new() }
    }

    /// Types; `\r` is Enter, `\x03` Ctrl-C, `\x04` Ctrl-D, `\t` Tab.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("keys are taken");
    }

    /// Waits until `text` is shown, and gives what was shown up to it.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} was not shown, but:\n{}", self.shown),
            }
        }
    }

    /// Waits for the program's end and gives its exit code.
    #[track_caller]
    pub fn ended(&mut self) -> i32 {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the program does not end; it showed:\n{}", self.shown);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new terminal: our end and the program's.
fn open() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both results and the size are valid for the call; null means no name is wanted and default settings.
    let result = unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size) };
    assert_eq!(result, 0, "a terminal: {}", std::io::Error::last_os_error());
    // SAFETY: the call above succeeded, so both are open descriptors that nobody else owns.
    unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// In the child: a session of its own, with standard input as its terminal, so that Ctrl-C becomes a signal to it.
fn take_terminal() -> std::io::Result<()> {
    // SAFETY: plain system calls on descriptor 0, which is the terminal.
    let failed = unsafe { libc::setsid() == -1 || libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends SIGINT to a process.
pub fn interrupt(process: u32) {
    let process = libc::pid_t::try_from(process).expect("a process id");
    // SAFETY: a system call without pointers.
    let result = unsafe { libc::kill(process, libc::SIGINT) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
