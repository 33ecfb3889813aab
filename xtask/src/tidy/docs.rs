//! That the words around the code are there and lead somewhere: heads of files, the map of crates, links, the index of
//! pages.
//!
//! # Limits
//! Links to other sites and to headings are not followed.

use super::Report;
use super::tree::{TextFile, Tree};

const MAP: &str = "ARCHITECTURE.md";
const INDEX: &str = "docs/README.md";
const PAGES: &str = "docs/design/";

/// The rule.
pub fn check(tree: &Tree, report: &mut Report) {
    for file in tree.sources.iter().filter(|file| !file.path.ends_with("/tests.rs")) {
        // A script's `#!` line or an inner attribute may come first.
        let first = file.text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!"));
        if !first.is_some_and(|line| line.starts_with("//!") && line.len() > "//! ".len()) {
            report.error(&file.path, 1, "has no `//!` head that says what the file is for");
        }
    }
    let map = tree.text(MAP).unwrap_or_default();
    for package in &tree.packages {
        if !map.lines().any(|line| line.starts_with('#') && line.contains(&format!("`{}`", package.folder))) {
            report.error(MAP, 0, format!("has no section with `{}` in its heading", package.folder));
        }
    }
    let index = tree.text(INDEX).unwrap_or_default();
    for page in tree.texts.iter().filter(|file| file.path.starts_with(PAGES) && file.path.ends_with(".md")) {
        let link = page.path.trim_start_matches("docs/");
        if !index.contains(&format!("]({link}")) {
            report.error(INDEX, 0, format!("does not list {link}"));
        }
    }
    for file in tree.texts.iter().filter(|file| file.path.ends_with(".md")) {
        check_links(tree, file, report);
    }
}

/// Every relative link of a Markdown file leads to a file or folder of the repository.
fn check_links(tree: &Tree, file: &TextFile, report: &mut Report) {
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split(['#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains(':') || leads_somewhere(tree, &file.path, target) {
                continue;
            }
            report.error(&file.path, index + 1, format!("the link to {target} leads nowhere"));
        }
    }
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let mut path: Vec<&str> = from.split('/').collect();
    path.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                if path.pop().is_none() {
                    return false;
                }
            }
            name => path.push(name),
        }
    }
    let path = path.join("/");
    let folder = format!("{path}/");
    tree.texts.iter().any(|file| file.path == path || file.path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::super::tests::errors;
    use super::super::tree::Package;
    use super::*;

    #[test]
    fn files_say_what_they_are_for() {
        for bad in ["use std::fmt;\n", "//!\nfn f() {}\n", "// Adds.\n", "/// Adds.\nfn f() {}\n", ""] {
            assert!(errors(check, &[("crates/a/src/lib.rs", bad)])[0].contains("head"), "{bad}");
        }
        assert_eq!(errors(check, &[("crates/a/src/lib.rs", "#![warn(x)]\n\n//! Adds.\n")]), Vec::<String>::new());
        assert_eq!(errors(check, &[("crates/a/src/tests.rs", "use super::*;\n")]), Vec::<String>::new());
    }

    #[test]
    fn the_map_has_every_crate() {
        let package = Package { name: "new".into(), folder: "crates/new".into(), dependencies: Vec::new() };
        let mut tree = Tree { packages: vec![package], ..Tree::default() };
        tree.add(MAP, "Not in a heading: `crates/new`\n");
        let mut report = Report::default();
        check(&tree, &mut report);
        assert!(report.errors[0].to_string().contains("no section with `crates/new`"));
        tree.texts.clear();
        tree.add(MAP, "### `crates/new`\n");
        let mut report = Report::default();
        check(&tree, &mut report);
        assert!(report.errors.is_empty());
    }

    #[test]
    fn the_index_lists_every_page() {
        let page = ("docs/design/a.md", "# A\n");
        assert!(errors(check, &[page, (INDEX, "nothing")])[0].contains("does not list design/a.md"));
        assert_eq!(errors(check, &[page, (INDEX, "[A](design/a.md)")]), Vec::<String>::new());
    }

    #[test]
    fn links_lead_somewhere() {
        let bad = "[x](y.md)\n";
        assert!(errors(check, &[("docs/a.md", bad), ("y.md", "")])[0].starts_with("docs/a.md:1: the link to y.md"));
        let good = "[x](../y.md#part) [site](https://example.org/a) [here](#b) [up](..)\n```\n[no](link)\n```\n";
        assert_eq!(
            errors(check, &[("docs/a.md", good), ("y.md", "")]).len(),
            1,
            "`..` of docs is the root, which has no path"
        );
        assert!(errors(check, &[("a.md", "[x](../b.md)")])[0].contains("leads nowhere"));
    }
}
