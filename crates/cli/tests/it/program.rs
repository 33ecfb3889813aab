//! Runs the program and looks at what came of it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the program left.
#[derive(Debug)]
pub struct Run {
    /// Its exit code; -1 where a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Asserts that all went well, and gives standard output.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// Asserts that the program failed with one sentence on standard error, and gives the sentence.
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        let sentence = self.err.strip_prefix("error: ").unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(sentence.matches('\n').count(), 1, "one sentence: {sentence}");
        assert!(!sentence.contains("panicked") && !sentence.contains("backtrace"), "{sentence}");
        sentence.trim_end().to_string()
    }
}

/// The program, not started yet.
pub fn nearside() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nearside"))
}

/// Runs with these arguments and this standard input.
pub fn run_with(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = nearside()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // The program may end without reading all of it.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the writer ends");
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Runs with these arguments and nothing on standard input.
pub fn run(arguments: &[&str]) -> Run {
    run_with(arguments, b"")
}

/// Writes a file and gives its path as text.
pub fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    std::fs::write(&path, content).expect("a file can be written");
    path.to_str().expect("UTF-8").to_string()
}
