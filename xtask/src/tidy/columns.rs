//! How wide a line may be: 120 characters, in code, comments, Markdown, scripts and declarations alike.
//!
//! # Limits
//! Rows of Markdown's tables cannot be broken, and the targets of its links do not count. Texts of tests (`.slt`,
//! `.sql`, data files) are what they test, and lock files are nobody's.

use super::exception::Exception;
use super::tree::{TextFile, Tree};

/// Characters of a line.
const COLUMNS_MAX: usize = 120;
/// Endings of files that people read line by line; files without one (`.ci/run`) count as well.
const ENDINGS: [&str; 5] = ["rs", "md", "toml", "sh", "py"];

/// A finding per file with lines that are too wide.
pub fn find(tree: &Tree) -> Vec<Exception> {
    tree.texts.iter().filter(|file| is_read(&file.path)).filter_map(of_file).collect()
}

fn is_read(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        None => name != "LICENSE",
        Some((_, ending)) => ENDINGS.contains(&ending),
    }
}

fn of_file(file: &TextFile) -> Option<Exception> {
    let is_markdown = file.path.ends_with(".md");
    let is_wide = |line: &str| match is_markdown {
        true => !line.starts_with('|') && without_targets(line) > COLUMNS_MAX,
        false => line.chars().count() > COLUMNS_MAX,
    };
    let wide: Vec<usize> = (1..).zip(file.text.lines()).filter(|(_, line)| is_wide(line)).map(|(at, _)| at).collect();
    let first = *wide.first()?;
    let message = format!("{} lines of more than {COLUMNS_MAX} characters, this the first: break them", wide.len());
    let path = file.path.clone();
    Some(Exception { rule: "wide", path, line: first, what: "lines".to_owned(), count: wide.len(), message })
}

/// The characters of a line of Markdown without what its links lead to.
fn without_targets(line: &str) -> usize {
    let mut count = 0;
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        count += rest[..at].chars().count() + 2;
        rest = &rest[at + 2..];
        rest = rest.find(')').map_or("", |close| &rest[close..]);
    }
    count + rest.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, usize)> {
        let mut tree = Tree::default();
        tree.add(path, text);
        find(&tree).iter().map(|finding| (finding.line, finding.count)).collect()
    }

    #[test]
    fn wide_lines_are_found_in_all_that_people_read() {
        let text = format!("short\n{}\n{}\n", "ü".repeat(120), "x".repeat(121));
        for path in ["crates/a/src/lib.rs", "docs/a.md", "Cargo.toml", ".ci/run", "bench/a.py", "a.sh"] {
            assert_eq!(found(path, &text), [(3, 1)], "{path}");
        }
        for path in ["Cargo.lock", "crates/a/tests/a.slt", "LICENSE"] {
            assert_eq!(found(path, &text), [], "{path}");
        }
    }

    #[test]
    fn tables_and_targets_of_links_do_not_count() {
        let cell = "x".repeat(130);
        assert_eq!(found("a.md", &format!("| a | {cell} |\n[there]({cell}) and on\n")), []);
        assert_eq!(found("a.md", &format!("[{cell}](there)\n")), [(1, 1)]);
        assert_eq!(found("a.rs", &format!("//! [there]({cell})\n")), [(1, 1)]);
    }
}
