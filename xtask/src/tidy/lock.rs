//! The lock file: one arrow line, one source of crates, nothing of DataFusion that executes, and the rest of it out of
//! reach of the crates below `nearside`.
//!
//! Two major versions of arrow would compile everything twice and make arrays of one unreadable by the other.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use super::layers::ABOVE_SQL;
use super::tree::Tree;

const LOCK: &str = "Cargo.lock";
/// Where every crate that is not ours comes from.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What of DataFusion executes plans, reads files or keeps catalogs; those that begin with one of the names too.
const EXECUTORS: [&str; 5] = [
    "datafusion-catalog",
    "datafusion-datasource",
    "datafusion-physical-optimizer",
    "datafusion-physical-plan",
    "datafusion-session",
];

/// One `[[package]]` of the lock file.
#[derive(Default)]
struct LockedPackage<'a> {
    line: usize,
    name: &'a str,
    version: &'a str,
    source: Option<&'a str>,
    /// Names; where two versions of one crate exist, both are meant.
    dependencies: Vec<&'a str>,
}

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    let Some(text) = tree.text(LOCK) else {
        return report.error(LOCK, 0, "is missing: builds must be repeatable, so it is part of the repository");
    };
    let locked = parse(text);
    one_major_version(&locked, report);
    for package in &locked {
        if let Some(source) = package.source.filter(|source| *source != SOURCE) {
            report.error(LOCK, package.line, format!("{} comes from {source}, not from crates.io", package.name));
        }
        if executes(package.name) {
            let message = format!("{} executes, and `exec` does that: depend on the parts that plan", package.name);
            report.error(LOCK, package.line, message);
        }
    }
    let ours = tree.packages.iter().map(|package| package.name.as_str());
    for name in ours.filter(|name| !ABOVE_SQL.contains(name)) {
        if let Some(path) = path_to_datafusion(&locked, name) {
            report.error(LOCK, 0, format!("{name} reaches DataFusion: {}", path.join(" -> ")));
        }
    }
}

/// Arrow and parquet are released together; a second major version of any of them is a second line.
fn one_major_version(locked: &[LockedPackage], report: &mut Report) {
    let mut majors: BTreeMap<&str, &LockedPackage> = BTreeMap::new();
    for package in locked.iter().filter(|package| is_arrow_line(package.name)) {
        let major = package.version.split('.').next().unwrap_or_default();
        majors.entry(major).or_insert(package);
    }
    if majors.len() > 1 {
        let named = majors.values().map(|package| format!("{} {}", package.name, package.version));
        let last = majors.values().map(|package| package.line).max().unwrap_or_default();
        let message = format!("more than one arrow line: {}", named.collect::<Vec<_>>().join(", "));
        report.error(LOCK, last, message);
    }
}

fn is_arrow_line(name: &str) -> bool {
    name == "arrow" || name.starts_with("arrow-") || name == "parquet"
}

/// Whether a crate is DataFusion as a whole, or a part of it that executes.
fn executes(name: &str) -> bool {
    name == "datafusion" || EXECUTORS.iter().any(|executor| name.starts_with(executor))
}

/// A chain of dependencies from `from` to DataFusion, or `None`.
fn path_to_datafusion<'a>(locked: &[LockedPackage<'a>], from: &'a str) -> Option<Vec<&'a str>> {
    let mut waiting: Vec<Vec<&str>> = vec![vec![from]];
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(path) = waiting.pop() {
        let last = *path.last()?;
        if last.starts_with("datafusion") {
            return Some(path);
        }
        if seen.insert(last) {
            let next = locked.iter().filter(|package| package.name == last).flat_map(|package| &package.dependencies);
            waiting.extend(next.map(|name| [path.as_slice(), &[*name]].concat()));
        }
    }
    None
}

/// Reads cargo's own, regular way of writing the file; it is no general TOML.
fn parse(text: &str) -> Vec<LockedPackage<'_>> {
    let mut locked: Vec<LockedPackage> = Vec::new();
    let mut in_dependencies = false;
    for (index, line) in text.lines().enumerate() {
        if line == "[[package]]" {
            locked.push(LockedPackage { line: index + 1, ..LockedPackage::default() });
            in_dependencies = false;
        }
        let Some(package) = locked.last_mut() else { continue };
        if in_dependencies {
            in_dependencies = line != "]";
            // `"name"`, or `"name version"` where there are several.
            package.dependencies.extend(line.split('"').nth(1).and_then(|entry| entry.split(' ').next()));
            continue;
        }
        let value = line.split('"').nth(1).unwrap_or_default();
        match line.split(" = ").next() {
            Some("name") => package.name = value,
            Some("version") => package.version = value,
            Some("source") => package.source = Some(value),
            Some("dependencies") => in_dependencies = true,
            _ => {}
        }
    }
    locked
}

#[cfg(test)]
mod tests {
    use super::super::tree::Package;
    use super::*;

    fn package(name: &str, version: &str, source: &str, dependencies: &str) -> String {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{source}\"\ndependencies = \
             [\n{dependencies}]\n\n"
        )
    }

    fn found(lock: &[String]) -> Vec<String> {
        let name = "nearside-exec".to_owned();
        let mut tree = Tree { packages: vec![Package { name, ..Package::default() }], ..Tree::default() };
        tree.add(LOCK, &lock.concat());
        let mut report = Report::default();
        check(&tree, &mut report);
        report.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_arrow_line_only() {
        let good = [package("arrow", "59.1.0", SOURCE, ""), package("parquet", "59.2.0", SOURCE, "")];
        assert_eq!(found(&good), Vec::<String>::new());
        let bad = [package("arrow", "59.1.0", SOURCE, ""), package("arrow-array", "58.0.0", SOURCE, "")];
        let found = found(&bad);
        assert!(found[0].contains("arrow-array 58.0.0, arrow 59.1.0"), "{found:?}");
    }

    #[test]
    fn datafusion_is_found_however_deep() {
        let bad = [
            package("nearside-exec", "0.1.0", SOURCE, " \"harmless 1.0.0\",\n"),
            package("harmless", "1.0.0", SOURCE, " \"datafusion-common\",\n"),
            package("datafusion-common", "55.0.0", SOURCE, ""),
        ];
        let found = found(&bad);
        assert!(found[0].contains("nearside-exec -> harmless -> datafusion-common"), "{found:?}");
    }

    #[test]
    fn what_executes_is_not_compiled() {
        let whole = [package("datafusion", "55.0.0", SOURCE, "")];
        assert!(found(&whole)[0].contains("datafusion executes"));
        let file = [package("datafusion-datasource-csv", "55.0.0", SOURCE, "")];
        assert!(found(&file)[0].contains("datafusion-datasource-csv executes"));
        let planner = [package("datafusion-sql", "55.0.0", SOURCE, "")];
        assert_eq!(found(&planner), Vec::<String>::new());
    }

    #[test]
    fn crates_come_from_one_source() {
        let bad = [package("x", "1.0.0", "git+https://example.org/x", "")];
        assert!(found(&bad)[0].contains("not from crates.io"));
        let mut report = Report::default();
        check(&Tree::default(), &mut report);
        assert!(report.errors[0].to_string().contains("missing"));
    }
}
