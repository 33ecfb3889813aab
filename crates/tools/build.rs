//! Tells the program which revision it is built from: `NEARSIDE_REVISION`, at compile time.
//!
//! The environment's `NEARSIDE_REVISION` wins (source archives, packagers); else the repository's files are read, which
//! needs no git; where git is installed, `-dirty` is added when tracked files differ. Otherwise it is `unknown`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const REVISION_DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed=NEARSIDE_REVISION");
    println!("cargo::rerun-if-changed=build.rs");
    let revision = match env::var("NEARSIDE_REVISION") {
        Ok(given) if !given.trim().is_empty() => given.trim().to_string(),
        _ => of_repository().unwrap_or_else(|| "unknown".to_string()),
    };
    println!("cargo::rustc-env=NEARSIDE_REVISION={revision}");
}

fn of_repository() -> Option<String> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join("../..");
    let git = git_folder(&root)?;
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git.clone(),
    };
    watch(&git.join("HEAD"));
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let hash = match head.trim().strip_prefix("ref: ") {
        Some(name) => resolve(&common, name)?,
        None => head.trim().to_string(),
    };
    let short: String = hash.chars().take(REVISION_DIGITS).collect();
    if short.len() < REVISION_DIGITS || !short.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    // What makes the tree dirty must lead back here, and so must what makes it clean again (a commit moves the ref).
    for path in ["crates", "Cargo.toml", "Cargo.lock"] {
        watch(&root.join(path));
    }
    Some(if is_dirty(&root) { format!("{short}-dirty") } else { short })
}

/// `.git`, or the folder that a work tree's `.git` file names.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = fs::read_to_string(&git).ok()?;
    Some(root.join(text.trim().strip_prefix("gitdir: ")?))
}

/// The commit of a ref, loose or packed.
fn resolve(common: &Path, name: &str) -> Option<String> {
    let loose = common.join(name);
    watch(&loose);
    if let Ok(hash) = fs::read_to_string(&loose) {
        return Some(hash.trim().to_string());
    }
    let packed = common.join("packed-refs");
    watch(&packed);
    let packed = fs::read_to_string(packed).ok()?;
    let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, of)| of == name))?;
    line.split_once(' ').map(|(hash, _)| hash.to_string())
}

fn is_dirty(root: &Path) -> bool {
    let status = Command::new("git")
        .args(["diff", "--quiet", "HEAD", "--"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // 1 says that there are differences; anything else that git cannot tell.
    status.is_ok_and(|status| status.code() == Some(1))
}

/// A path that is not there would make every build run this again.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
