//! How commands with flags of their own begin and end.

use std::process::ExitCode;

/// Prints help, or what is wrong with the words, or runs what they ask for. Exit code 0: all is well; 1: it is not, or
/// nothing could be said; 2: used wrongly.
pub fn run<R>(
    name: &str,
    usage: &str,
    words: &[&str],
    parse: impl FnOnce(&[&str]) -> Result<R, String>,
    act: impl FnOnce(&R) -> Result<bool, String>,
) -> ExitCode {
    if let ["--help" | "-h" | "help"] = words {
        print!("{usage}");
        return ExitCode::SUCCESS;
    }
    let request = match parse(words) {
        Ok(request) => request,
        Err(problem) => {
            eprintln!("{name}: {problem}\n\n{usage}");
            return ExitCode::from(2);
        }
    };
    match act(&request) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}
