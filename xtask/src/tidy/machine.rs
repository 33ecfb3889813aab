//! Nothing in the repository depends on one machine: no absolute path of somebody's folders, no host of somebody's
//! registry.
//!
//! Invariant: this file is the only one that may spell the patterns, so it is not searched.

use super::Report;
use super::tree::Tree;

/// This file.
const PATTERNS_HOME: &str = "xtask/src/tidy/machine.rs";
/// Folders that exist on one machine only, or belong to one user. `/home/` counts when a name follows.
const FOLDERS: [&str; 5] = ["/work/", "/root/", "/home/", "/Users/", "/var/tmp"];
/// Where a folder may be named all the same: CI needs a place for its build that outlives a clone.
const EXCEPTIONS: [(&str, &str); 1] = [(".ci/run", "/var/tmp")];
/// Traces of a registry other than crates.io, or of one machine's copy of it.
const REGISTRIES: [&str; 5] = ["index.crates.io-", "sparse+http", "[source.", "[registries.", "replace-with"];

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    for file in tree.texts.iter().filter(|file| file.path != PATTERNS_HOME) {
        for (index, line) in file.text.lines().enumerate() {
            for folder in FOLDERS {
                let excepted = EXCEPTIONS.contains(&(file.path.as_str(), folder));
                if !excepted && names_folder(line, folder) {
                    let message = format!("`{folder}` is a path of one machine");
                    report.error(&file.path, index + 1, message);
                }
            }
            for trace in REGISTRIES.iter().filter(|trace| line.contains(**trace)) {
                report.error(&file.path, index + 1, format!("`{trace}` belongs to one machine's registry settings"));
            }
        }
    }
}

/// Whether `line` has `folder` as the beginning of an absolute path (`docs/work/x` and `https://a.b/home/` have not).
fn names_folder(line: &str, folder: &str) -> bool {
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].bytes().next_back();
        let after = line[at + folder.len()..].bytes().next();
        let begins = !before.is_some_and(|byte| continues(byte) || matches!(byte, b'.' | b'~' | b'}' | b')' | b'>'));
        let ends = match folder {
            "/home/" | "/Users/" => after.is_some_and(continues),
            _ if folder.ends_with('/') => true,
            _ => !after.is_some_and(continues),
        };
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        for bad in
            ["let p = \"/root/x\";", "see /home/ada/notes", "cd /work/main", "TMP=/var/tmp", "file:///Users/ada/a.csv"]
        {
            let found = errors(check, &[("README.md", &format!("fine\n{bad}\n"))]);
            assert_eq!(found.len(), 1, "{bad}");
            assert!(found[0].starts_with("README.md:2: "), "{found:?}");
        }
        for good in [
            "/home/<user>",
            "docs/work/a",
            "https://example.org/home/a",
            "/proc/self/root",
            "{root}/work/a",
            "/var/tmpfs",
        ] {
            assert_eq!(errors(check, &[("README.md", good)]), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn only_ci_names_its_build_folder() {
        assert_eq!(errors(check, &[(".ci/run", "x=/var/tmp/nearside-build")]), Vec::<String>::new());
        assert_eq!(errors(check, &[(".ci/run", "x=/root/build")]).len(), 1);
    }

    #[test]
    fn registry_settings_are_found() {
        for bad in
            ["[source.crates-io]", "index = \"sparse+https://example.org/\"", "registry/src/index.crates.io-0123/a"]
        {
            assert_eq!(errors(check, &[(".cargo/config.toml", bad)]).len(), 1, "{bad}");
        }
    }
}
