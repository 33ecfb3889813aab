//! Two revisions as programs: checked out in one work tree by turns, built in one folder, kept by the hash of the
//! commit.
//!
//! Invariants: a program is taken again only when its file is whole (it takes its name last); the caller's own work
//! tree is never touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::request::Request;

/// Digits of a commit's hash in names.
const DIGITS: usize = 12;

/// A program to measure.
#[derive(Clone, Debug)]
pub struct Program {
    /// What reports call it.
    pub revision: String,
    /// The program.
    pub path: PathBuf,
}

/// Where work tree, programs and reports are.
pub fn folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target).join("ab")
}

/// Both programs, built where needed.
pub fn both(root: &Path, request: &Request) -> Result<[Program; 2], String> {
    let folder = folder(root);
    fs::create_dir_all(folder.join("bin")).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let target = request.target.clone().unwrap_or_else(|| folder.join("build"));
    let target = std::path::absolute(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let one = |revision: &str| -> Result<Program, String> {
        let path = Path::new(revision);
        if path.is_file() {
            let path = std::path::absolute(path).map_err(|error| format!("{revision}: {error}"))?;
            return Ok(Program { revision: revision.to_string(), path });
        }
        let hash = commit(root, revision)?;
        let kept = folder.join("bin").join(format!("nearside-{hash}"));
        if !kept.is_file() {
            build(root, &folder, &target, &hash, &kept)?;
        }
        let revision = if hash.starts_with(revision) { hash } else { format!("{hash} ({revision})") };
        Ok(Program { revision, path: kept })
    };
    Ok([one(&request.revisions[0])?, one(&request.revisions[1])?])
}

/// The first digits of the commit that a revision names.
fn commit(root: &Path, revision: &str) -> Result<String, String> {
    let name = format!("{revision}^{{commit}}");
    let done = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
        .current_dir(root)
        .output();
    let done = done.map_err(|error| format!("git cannot be run: {error}"))?;
    let hash: String = String::from_utf8_lossy(&done.stdout).trim().chars().take(DIGITS).collect();
    match done.status.success() && hash.len() == DIGITS {
        true => Ok(hash),
        false => Err(format!("{revision} is neither a revision that git knows nor a program")),
    }
}

/// Builds a commit and keeps the program.
fn build(root: &Path, folder: &Path, target: &Path, hash: &str, kept: &Path) -> Result<(), String> {
    let tree = folder.join("tree");
    eprintln!("ab: building {hash}; the first build takes long");
    if tree.join(".git").exists() {
        run(Command::new("git").args(["checkout", "--quiet", "--force", "--detach", hash]).current_dir(&tree))?;
    } else {
        // A tree that was deleted by hand is still known to git.
        run(Command::new("git").args(["worktree", "prune"]).current_dir(root))?;
        run(Command::new("git")
            .args(["worktree", "add", "--quiet", "--detach"])
            .arg(&tree)
            .arg(hash)
            .current_dir(root))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked"]).current_dir(&tree).env("CARGO_TARGET_DIR", target);
    // What cargo tells its programs is about this work tree.
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("NEARSIDE_REVISION");
    run(&mut command)?;
    let unfinished = kept.with_extension("part");
    let built = target.join("release/nearside");
    let copied = fs::copy(&built, &unfinished).and_then(|_| fs::rename(&unfinished, kept));
    copied.map_err(|error| format!("cannot keep {}: {error}", built.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{:?} cannot be run: {error}", command.get_program()))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_revision_is_told() {
        let root = crate::workspace_root();
        let problem = commit(&root, "no-such-revision").expect_err("no such revision");
        assert!(problem.contains("no-such-revision is neither"), "{problem}");
        assert!(commit(&root, "--all").is_err());
    }

    #[test]
    fn programs_are_taken_as_they_are() {
        let this = std::env::current_exe().expect("this program");
        let this = this.to_str().expect("UTF-8");
        let folder = std::env::temp_dir().join(format!("nearside-ab-{}", std::process::id()));
        let request = Request::parse(&[this, this]).expect("a request");
        let [a, b] = both(&folder, &request).expect("two programs");
        assert_eq!((a.revision.as_str(), a.path.as_path()), (this, Path::new(this)));
        assert_eq!(b.path, a.path);
        let _ = fs::remove_dir_all(folder);
    }
}
