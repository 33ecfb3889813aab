//! The repository itself is tidy; and the helper with which each rule's tests build a bad example.

use super::*;

/// What `rule` reports on a repository of just these files, as `path:line: message` lines.
pub(super) fn errors(rule: fn(&Tree, &mut Report), files: &[(&str, &str)]) -> Vec<String> {
    let mut tree = Tree::default();
    for (path, text) in files {
        tree.add(path, text);
    }
    let mut report = Report::default();
    rule(&tree, &mut report);
    report.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn the_repository_is_tidy() {
    let report = check(&Tree::read(&crate::workspace_root()).unwrap());
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert!(errors.is_empty(), "`cargo xtask tidy` finds:\n{}", errors.join("\n"));
}

#[test]
fn a_finding_names_its_place() {
    let mut report = Report::default();
    report.error("a.rs", 3, "is wrong");
    report.warning("b.rs", 0, "is odd");
    assert_eq!(report.errors[0].to_string(), "a.rs:3: is wrong");
    assert_eq!(report.warnings[0].to_string(), "b.rs: is odd");
}
