//! What tidy looks at: the repository's text files, its crates as cargo describes them, and its lock file.
//!
//! Rules are functions of this plain data, so each of them is tested on a bad example without a file system.
//!
//! # Limits
//! The files are found by walking the folder, not by asking git, so a source archive is checked too. Folders that hold
//! build output (cargo marks them with `CACHEDIR.TAG`), hidden folders other than ours, and files that are not text are
//! passed over.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::source::SourceFile;

/// Hidden folders that belong to the repository.
const HIDDEN_FOLDERS: [&str; 3] = [".cargo", ".ci", ".github"];
/// Endings of files that are text written by people; files without an ending (`LICENSE`, `.ci/run`) count as well.
const TEXT_ENDINGS: [&str; 12] = ["rs", "toml", "md", "txt", "sql", "slt", "sh", "py", "lock", "yml", "yaml", "json"];

/// The repository.
#[derive(Default)]
pub struct Tree {
    /// Rust files, by path.
    pub sources: Vec<SourceFile>,
    /// All text files, Rust files among them, by path.
    pub texts: Vec<TextFile>,
    /// The crates of the workspace, by name.
    pub packages: Vec<Package>,
}

/// One text file.
pub struct TextFile {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// A crate of the workspace.
#[derive(Default)]
pub struct Package {
    /// As in its `Cargo.toml`, for example `nearside-numa`.
    pub name: String,
    /// Its folder relative to the workspace root, for example `crates/numa`.
    pub folder: String,
    /// Names of the packages that it depends on directly.
    pub dependencies: Vec<Dependency>,
}

/// A direct dependency.
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Whether only tests need it.
    pub dev: bool,
}

impl Tree {
    /// Reads the repository whose workspace lies at `root`. The error is a sentence for a person.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree { packages: packages(root)?, ..Tree::default() };
        walk(root, "", &mut |path, text| tree.add(path, &text))?;
        tree.texts.sort_by(|a, b| a.path.cmp(&b.path));
        tree.sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// Adds a text file.
    pub fn add(&mut self, path: &str, text: &str) {
        if path.ends_with(".rs") {
            self.sources.push(SourceFile::new(path, text));
        }
        self.texts.push(TextFile { path: path.to_owned(), text: text.to_owned() });
    }

    /// The content of the text file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

/// Calls `visit` with every text file below `folder`.
fn walk(root: &Path, folder: &str, visit: &mut dyn FnMut(&str, String)) -> Result<(), String> {
    let place = root.join(folder);
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", place.display());
    for entry in std::fs::read_dir(&place).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            let hidden = name.starts_with('.') && !HIDDEN_FOLDERS.contains(&name.as_str());
            if !hidden && name != "target" && !entry.path().join("CACHEDIR.TAG").exists() {
                walk(root, &path, visit)?;
            }
        } else if kind.is_file() && is_text(&name) {
            // Bytes that are not UTF-8 are no text of ours, whatever the name says.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path()).map_err(unreadable)?) {
                visit(&path, text);
            }
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    match name.rsplit_once('.') {
        None | Some(("", "gitignore" | "gitattributes")) => true,
        Some(("", _)) => false,
        Some((_, ending)) => TEXT_ENDINGS.contains(&ending),
    }
}

/// The workspace's crates, from `cargo metadata`; needs no network.
fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata wrote no JSON: {error}"))?;
    let listed = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut packages: Vec<Package> =
        listed.iter().map(|package| read_package(root, package)).collect::<Result<_, _>>()?;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

/// One package of cargo's description.
fn read_package(root: &Path, package: &Value) -> Result<Package, String> {
    let name = package["name"].as_str().ok_or("cargo metadata: a package has no name")?;
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    // Cargo resolves symbolic links or does not, depending on how it was started: compare what both sides mean.
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = canonical(Path::new(manifest).parent().unwrap_or(Path::new("")));
    let folder =
        folder.strip_prefix(canonical(root)).map_err(|_| format!("crate {name} lies outside of the workspace"))?;
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let dependencies = dependencies.iter().map(|dependency| Dependency {
        name: dependency["name"].as_str().unwrap_or_default().to_owned(),
        dev: dependency["kind"] == "dev",
    });
    Ok(Package {
        name: name.to_owned(),
        folder: folder.to_string_lossy().replace('\\', "/"),
        dependencies: dependencies.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_text_by_their_names() {
        for name in ["lib.rs", "LICENSE", "run", ".gitignore", "Cargo.lock", "a.b.md"] {
            assert!(is_text(name), "{name}");
        }
        for name in ["x.parquet", ".DS_Store", "a.tar.bz2"] {
            assert!(!is_text(name), "{name}");
        }
    }

    #[test]
    fn the_workspace_describes_itself() {
        let tree = Tree::read(&crate::workspace_root()).unwrap();
        let numa = tree.packages.iter().find(|package| package.name == "nearside-numa").unwrap();
        assert_eq!(numa.folder, "crates/numa");
        assert!(numa.dependencies.iter().any(|dependency| dependency.name == "libc" && !dependency.dev));
        assert!(tree.text(".cargo/config.toml").is_some_and(|text| text.contains("xtask")));
        assert!(tree.sources.iter().any(|file| file.path == "xtask/src/tidy/tree.rs"));
        assert!(!tree.texts.iter().any(|file| file.path.starts_with(".git/")));
    }
}
