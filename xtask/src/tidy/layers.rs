//! Which crate may depend on which, and who may use a heavy or dangerous dependency.
//!
//! Invariant: dependencies point up the map of `ARCHITECTURE.md`, never down. Tests count too: a dev-dependency
//! compiles as well.
//!
//! # Limits
//! Only direct dependencies; `tidy::lock` follows DataFusion through everything that the lock file resolves.

use super::Report;
use super::tree::{Package, Tree};

/// A crate and the crates of ours that it may use. A crate that is missing here is an error, so that a new one says
/// where it stands.
const LAYERS: [(&str, &[&str]); 17] = [
    (EVERYWHERE, &[]),
    ("nearside-numa", &[]),
    ("nearside-sched", &["nearside-numa"]),
    ("nearside-storage", &["nearside-numa"]),
    ("nearside-placer", &["nearside-numa"]),
    ("nearside-exec", &["nearside-numa", "nearside-sched", "nearside-storage"]),
    ("nearside-units", &["nearside-numa", "nearside-sched"]),
    ("nearside-files", &["nearside-sched"]),
    ("nearside-log", &["nearside-numa", "nearside-storage"]),
    (
        "nearside",
        &[
            "nearside-numa",
            "nearside-sched",
            "nearside-storage",
            "nearside-placer",
            "nearside-model",
            "nearside-exec",
            "nearside-units",
            "nearside-files",
            "nearside-log",
        ],
    ),
    ("nearside-model", &[]),
    ("nearside-sim", &["nearside-numa", "nearside-placer", "nearside-sched", "nearside-units"]),
    ("nearside-lab", &["nearside-numa", "nearside-placer", "nearside-sched", "nearside-sim", "nearside-model"]),
    (
        "nearside-tools",
        &[
            "nearside-numa",
            "nearside-sched",
            "nearside-storage",
            "nearside-units",
            "nearside",
            "nearside-model",
            "nearside-lab",
        ],
    ),
    ("nearside-server", &["nearside", "nearside-files"]),
    (
        "nearside-cli",
        &["nearside-numa", "nearside-sched", "nearside", "nearside-lab", "nearside-tools", "nearside-server"],
    ),
    ("xtask", &[]),
];

/// The crate that every other may use: it depends on nothing.
const EVERYWHERE: &str = "nearside-random";

/// The crates that may compile DataFusion.
pub const ABOVE_SQL: [&str; 4] = ["nearside", "nearside-tools", "nearside-server", "nearside-cli"];

/// A dependency (or all whose names begin with it, when it ends with `*`), who may use it, and why nobody else may.
const RESTRICTED: [(&str, &[&str], &str); 7] = [
    ("datafusion*", &ABOVE_SQL, "crates below `nearside` build in seconds without DataFusion"),
    ("sqlparser", &ABOVE_SQL, "only `nearside` and above know SQL"),
    ("parquet", &["nearside-files"], "files are read and written by `files`"),
    ("tokio*", &["nearside-server"], "operators run on `sched` workers, never on a Tokio thread"),
    ("rayon*", &[], "there is one pool of threads, that of `sched`"),
    ("rand*", &[], "policies call no random source; tests use proptest"),
    (
        "libc",
        &["nearside-numa", "nearside-cli"],
        "system calls live in `numa`; `cli` asks about its terminal and signals",
    ),
];

/// Who may have a restricted dependency for examples and tests: to measure itself beside it, or as clients have it.
const IN_TESTS: [(&str, &str); 2] = [("nearside-sched", "rayon"), ("nearside", "tokio")];

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.packages {
        check_package(package, report);
        check_manifest(tree, package, report);
    }
}

fn check_package(package: &Package, report: &mut Report) {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
        let message = format!(
            "crate {} is not in the map; give it a line in xtask/src/tidy/layers.rs and in ARCHITECTURE.md",
            package.name
        );
        return report.error(&manifest, 0, message);
    };
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let ours = LAYERS.iter().any(|(layer, _)| *layer == name);
        if ours && name != EVERYWHERE && !allowed.contains(&name) {
            let message =
                format!("{} may not depend on {name}: dependencies point up the map, never down", package.name);
            report.error(&manifest, 0, message);
        }
        for (restricted, users, reason) in RESTRICTED {
            let hit = restricted.strip_suffix('*').map_or(name == restricted, |prefix| name.starts_with(prefix));
            let in_tests = dependency.dev && IN_TESTS.contains(&(package.name.as_str(), name));
            if hit && !in_tests && !users.contains(&package.name.as_str()) {
                let kind = if dependency.dev { ", not even in tests" } else { "" };
                let message = format!("{} may not depend on {name}{kind}: {reason}", package.name);
                report.error(&manifest, 0, message);
            }
        }
    }
}

/// Every crate takes the workspace's lints, or they hold nowhere.
fn check_manifest(tree: &Tree, package: &Package, report: &mut Report) {
    let path = format!("{}/Cargo.toml", package.folder);
    let text = tree.text(&path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if !lines.windows(2).any(|pair| pair == ["[lints]", "workspace = true"]) {
        report.error(&path, 0, "takes no workspace lints: add `[lints]` with `workspace = true`");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    fn found(name: &str, dependencies: &[&str], manifest: &str) -> Vec<String> {
        let dependencies = dependencies.iter().map(|name| Dependency { name: (*name).to_owned(), dev: false });
        let package =
            Package { name: name.to_owned(), folder: "crates/x".to_owned(), dependencies: dependencies.collect() };
        let mut tree = Tree { packages: vec![package], ..Tree::default() };
        tree.add("crates/x/Cargo.toml", manifest);
        let mut report = Report::default();
        check(&tree, &mut report);
        report.errors.iter().map(ToString::to_string).collect()
    }

    const LINTS: &str = "[package]\n\n[lints]\nworkspace = true\n";

    #[test]
    fn dependencies_point_up() {
        assert!(found("nearside-exec", &["nearside-sched", "nearside-storage", "arrow"], LINTS).is_empty());
        assert!(found("nearside-storage", &["nearside-sched"], LINTS)[0].contains("may not depend on nearside-sched"));
        assert!(found("nearside-numa", &["nearside"], LINTS)[0].contains("never down"));
    }

    #[test]
    fn heavy_dependencies_stay_above() {
        assert!(found("nearside", &["datafusion-sql", "sqlparser"], LINTS).is_empty());
        for (package, dependency) in [
            ("nearside-exec", "datafusion-expr"),
            ("nearside-exec", "sqlparser"),
            ("nearside-files", "datafusion-common"),
            ("nearside", "parquet"),
            ("nearside", "tokio"),
            ("nearside-storage", "tokio"),
            ("nearside-storage", "rayon"),
            ("nearside-sched", "rayon"),
            ("nearside-sched", "rand"),
            ("nearside-sched", "libc"),
        ] {
            let found = found(package, &[dependency], LINTS);
            assert_eq!(found.len(), 1, "{package} with {dependency}: {found:?}");
        }
    }

    #[test]
    fn a_new_crate_says_where_it_stands_and_takes_the_lints() {
        assert!(found("nearside-new", &[], LINTS)[0].contains("not in the map"));
        assert!(found("nearside-numa", &[], "[package]\n")[0].contains("no workspace lints"));
    }
}
