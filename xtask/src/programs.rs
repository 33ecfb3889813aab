//! Test binaries as cargo builds them, for the commands that run them by themselves, and the shared libraries that they
//! need.
//!
//! The binaries are those of `cargo test --no-run`, in the profile of the tests: with `--workspace` exactly those that
//! `cargo test --workspace` has built, so nothing is compiled a second time with other features.
//!
//! # Limits
//! Libraries that a program opens while it runs are not found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What property tests draw their cases from: `.cargo/config.toml` sets it for everything that cargo runs.
pub const SEED: &str = "PROPTEST_RNG_SEED";

/// An executable that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The folder of its package, absolute.
    pub package: PathBuf,
    /// The target: `numa` for the tests within the library of that name, `it` for `tests/it`.
    pub target: String,
    /// What the target is in cargo's words: `lib`, `bin`, `test`.
    pub kind: String,
    /// Whether it is a test binary.
    pub test: bool,
    /// The file.
    pub path: PathBuf,
}

impl Artifact {
    /// The target's file in words of `cargo test`: `--lib`, `--bin NAME` or `--test NAME`.
    pub fn selected(&self) -> String {
        match self.kind.as_str() {
            "bin" | "test" | "example" | "bench" => format!("--{} {}", self.kind, self.target),
            _ => "--lib".to_owned(),
        }
    }

    /// The last part of the package's folder, by which people name it: `numa` for `crates/numa`.
    pub fn folder(&self) -> &str {
        self.package.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// What cargo says about the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Where cargo builds.
    pub target: PathBuf,
    /// From a package's folder (its last part) to its name.
    pub packages: BTreeMap<String, String>,
}

impl Workspace {
    /// Asks cargo.
    pub fn read(root: &Path) -> Result<Workspace, String> {
        let mut cargo = cargo(root);
        cargo.args(["metadata", "--no-deps", "--format-version", "1", "--locked"]);
        workspace(&output_of(&mut cargo)?).ok_or_else(|| "cargo metadata says nothing that is understood".to_owned())
    }

    /// Builds the tests (and with them the programs) of these packages, named by folder, or of all; gives the
    /// executables.
    pub fn build(&self, root: &Path, folders: &[&str], all: bool) -> Result<Vec<Artifact>, String> {
        let mut cargo = cargo(root);
        cargo.args(["test", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
        for folder in folders {
            let package = self.packages.get(*folder).ok_or_else(|| {
                let known: Vec<&str> = self.packages.keys().map(String::as_str).collect();
                format!("there are no tests `{folder}`; there are {}", known.join(", "))
            })?;
            if !all {
                cargo.args(["--package", package]);
            }
        }
        if all {
            cargo.arg("--workspace");
        }
        output_of(&mut cargo).map(|messages| artifacts(&messages))
    }
}

/// Reads the answer of `cargo metadata`.
fn workspace(answer: &str) -> Option<Workspace> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let mut packages = BTreeMap::new();
    for package in answer["packages"].as_array()? {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.file_name()?.to_str()?;
        packages.insert(folder.to_owned(), package["name"].as_str()?.to_owned());
    }
    Some(Workspace { target: answer["target_directory"].as_str()?.into(), packages })
}

/// Executables among the messages of `cargo test --no-run --message-format=json`, in order, each once.
fn artifacts(messages: &str) -> Vec<Artifact> {
    let mut found: Vec<Artifact> = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let package = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent());
        let parts = (package, message["target"]["name"].as_str(), message["executable"].as_str());
        let (Some(package), Some(target), Some(path)) = parts else { continue };
        // Build scripts are executables too, of no use to anyone.
        if message["target"]["kind"][0] == "custom-build"
            || found.iter().any(|artifact| artifact.path == Path::new(path))
        {
            continue;
        }
        found.push(Artifact {
            package: package.to_owned(),
            target: target.to_owned(),
            kind: message["target"]["kind"][0].as_str().unwrap_or_default().to_owned(),
            test: message["profile"]["test"] == true,
            path: path.into(),
        });
    }
    found.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    found
}

/// The shared libraries of a program, by the paths at which it looks for them.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd").arg(program).output().map_err(|error| format!("ldd cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr);
        // A static program needs none, and ldd calls that a failure.
        return match problem.contains("not a dynamic executable") || text.contains("statically linked") {
            true => Ok(Vec::new()),
            false => Err(format!("ldd {}: {}{}", program.display(), text.trim(), problem.trim())),
        };
    }
    libraries_in(&text).map_err(|library| format!("{} needs {library}, which ldd does not find", program.display()))
}

/// Paths in the answer of ldd; the error is a library that it did not find.
fn libraries_in(answer: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in answer.lines() {
        if let Some((library, _)) = line.split_once("=> not found") {
            return Err(library.trim().to_owned());
        }
        let place = line.split_once("=>").map_or(line, |(_, place)| place).trim();
        let path = place.split(" (").next().unwrap_or_default();
        if path.starts_with('/') {
            found.push(path.into());
        }
    }
    Ok(found)
}

/// Writes a copy without symbols: a test binary is mostly symbols, and the machine holds it in memory.
pub fn strip(program: &Path, to: &Path) -> Result<(), String> {
    let output = Command::new("strip").arg("-o").arg(to).arg(program).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("strip {}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("strip cannot be run (Debian's package binutils has it): {error}")),
    }
}

/// The cargo that started us.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err("cargo failed (see above)".to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_cargo_name_executables() {
        let message = |folder: &str, kind: &str, name: &str, test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact",
                "manifest_path": format!("/r/crates/{folder}/Cargo.toml"),
                "target": {"kind": [kind], "name": name},
                "profile": {"test": test},
                "executable": executable,
            })
            .to_string()
        };
        let messages = [
            message("sched", "test", "it", true, Some("/t/it-1")),
            message("numa", "lib", "numa", false, None),
            message("numa", "lib", "numa", true, Some("/t/numa-2")),
            message("cli", "custom-build", "build-script-build", false, Some("/t/build")),
            message("cli", "bin", "nearside", false, Some("/t/nearside")),
            message("cli", "bin", "nearside", false, Some("/t/nearside")),
            json!({"reason": "build-finished", "success": true}).to_string(),
            "not json".to_owned(),
        ]
        .join("\n");
        let found = artifacts(&messages);
        let found: Vec<(&str, &str, bool, &str)> =
            found.iter().map(|a| (a.folder(), a.target.as_str(), a.test, a.path.to_str().unwrap())).collect();
        let selected: Vec<String> = artifacts(&messages).iter().map(Artifact::selected).collect();
        assert_eq!(selected, ["--bin nearside", "--lib", "--test it"]);
        assert_eq!(
            found,
            [
                ("cli", "nearside", false, "/t/nearside"),
                ("numa", "numa", true, "/t/numa-2"),
                ("sched", "it", true, "/t/it-1")
            ]
        );
    }

    #[test]
    fn packages_are_named_by_their_folders() {
        let answer = r#"{"target_directory":"/t","packages":[
            {"name":"nearside-numa","manifest_path":"/r/crates/numa/Cargo.toml"}]}"#;
        let found = workspace(answer).unwrap();
        assert_eq!((found.target.to_str(), found.packages["numa"].as_str()), (Some("/t"), "nearside-numa"));
        assert_eq!(workspace("{}"), None);
        let problem = found.build(Path::new("/"), &["nuna"], false).unwrap_err();
        assert!(problem.contains("`nuna`") && problem.contains("numa"), "{problem}");
    }

    #[test]
    fn libraries_are_read_from_ldd() {
        let answer =
            "\tlinux-vdso.so.1 (0x0)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x1)\n\t/lib64/ld.so.2 (0x2)\n";
        let paths: Vec<PathBuf> = vec!["/lib/x86_64-linux-gnu/libc.so.6".into(), "/lib64/ld.so.2".into()];
        assert_eq!(libraries_in(answer), Ok(paths));
        assert_eq!(libraries_in("\tlibx.so => not found\n"), Err("libx.so".to_owned()));
    }
}
